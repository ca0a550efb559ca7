#!/usr/bin/env python3
"""What a redaction must take out: secrets of many kinds, planted where each would stand in a bundle. tests/secrets.txt was written before the rules."""
import io
import json
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

import emulated
import tap
from bundles import members, zstd

HEAD = b"unhang answers 1\n"
FILE, LIST, LINK = 0, 1, 2
PID = 4242
TRIES = 3  # a machine that is so busy that a child of explain answers late gives another answer
SCENARIOS = sorted((tap.HERE / ".." / "emulator" / "scenarios").glob("*.scenario")) + [tap.HERE / "scenarios" / f"{name}.scenario" for name in
                                                                                                 ("dump-left", "kernel-named", "mi300-barrier-xcc2", "two-gpus-circle")]


class Secret:
    def __init__(self, line):
        self.kind, self.place, self.secret, text = [part.strip() for part in line.split(" | ", 3)]
        self.text = text.replace("{}", self.secret)


def secrets(name):
    lines = (tap.HERE / name).read_text().splitlines()
    return [Secret(line) for line in lines if line and not line.startswith("#")]


# --- a bundle's tracks ---

def record(kind, payload):
    payload = kind.encode() + payload
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def text(value):
    return struct.pack("<I", len(value)) + value


class Track:
    def __init__(self):
        self.bytes, self.paths = HEAD, []

    def answer(self, path, data, kind=FILE):
        if path not in self.paths:
            self.paths.append(path)
            self.bytes += record("N", path.encode())
        key = struct.pack("<B3xIQQQII", kind, self.paths.index(path), 0, 0, 4096, 0, 0)
        self.bytes += record("P", key + struct.pack("<BiI", 0, 0, 0) + data)

    def log(self, lines):
        self.bytes += record("L", text(b"boot") + text(b"/dev/kmsg"))
        for i, line in enumerate(lines):
            self.bytes += record("R", struct.pack("<dd", 100 + i / 1000, 1.7e9 + i) + text(b"") + line.encode())
        self.bytes += record("E", b"")

    def save(self, path):
        path.write_bytes(self.bytes + record("Z", b""))


def answers(data):
    """The answers of a track: (path, bytes)."""
    data, paths = data[len(HEAD):], []
    while len(data) >= 8:
        n = struct.unpack("<I", data[:4])[0]
        kind, payload, data = chr(data[8]), data[9:8 + n], data[8 + n:]
        if kind == "N":
            paths.append(payload.decode())
        elif kind == "P":
            rest = sum(struct.unpack("<II", payload[32:40]))
            yield paths[struct.unpack("<I", payload[4:8])[0]], payload[49 + rest:]


# --- planting ---

DRIVER = ["Linux version 6.12.0 (gcc 12.2.0) #1 SMP PREEMPT_DYNAMIC", "[drm] Initialized amdgpu 3.59.0 for 0000:03:00.0 on minor 0",
          "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12"]


def plant(folder, planted):
    """A partial directory in which each of @planted stands where it would stand."""
    def at(*places):
        return [s.text for s in planted if s.place in places]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "answers").mkdir(parents=True)
    (folder / "tools").mkdir()
    boot = "BOOT_IMAGE=/vmlinuz-6.12.0 amdgpu.gpu_recovery=1 iommu=pt " + " ".join(at("boot"))
    log = DRIVER + [f"Command line: {boot}"] + at("kernel-log", "journal")
    maps = [f"7f0000{i:02x}0000-7f0000{i:02x}1000 r-xp 00000000 fe:00 {500 + i}    {path}" for i, path in enumerate(at("path"))]
    track = Track()
    track.log(log)
    track.save(folder / "answers" / "log")
    track, shown = Track(), ""
    for i, line in enumerate(at("command-line") + [""]):
        process = {"comm": "python3\n", "cmdline": "".join(word + "\0" for word in shlex.split(line)), "maps": "\n".join(maps) + "\n",
                   "environ": "".join(v + "\0" for v in ["HSA_XNACK=1"] + at("environment")), "cgroup": "\n".join(at("cgroup")) + "\n"}
        shown += f"=== process {PID + i}\n"
        for name, value in process.items():
            track.answer(f"/proc/{PID + i}/{name}", value.encode())
            shown += f"--- {name}\n" + value.replace("\0", "\n")
    for path in at("path"):
        track.answer(f"/proc/{PID}/exe", path.encode(), LINK)
        track.answer(path, b"", FILE)
    track.save(folder / "answers" / "processes")
    track = Track()
    track.answer("/proc/cmdline", boot.encode() + b"\n")
    track.answer("/proc/self/mountinfo", "\n".join(at("mount")).encode())
    track.answer("/proc/self/cgroup", "\n".join(at("cgroup")).encode())
    track.answer("/etc/modprobe.d/local.conf", "\n".join(["options amdgpu gpu_recovery=1"] + at("module")).encode())
    for place, folder_of in (("dmi", "/sys/class/dmi/id"), ("disk", "/sys/block/sda/device")):
        for line in at(place):
            name, value = line.split(" ", 1)
            track.answer(f"{folder_of}/{name}", value.encode() + b"\n")
    track.save(folder / "answers" / "doctor")
    (folder / "kernel-log.txt").write_text("# /dev/kmsg\n" + "".join(f"[{100 + i / 1000:12.6f}] {line}\n" for i, line in enumerate(log)))
    (folder / "processes.txt").write_text(shown)
    (folder / "tools" / "output.txt").write_text("\n".join(at("output", "journal", "mount", "cgroup")) + "\n")


def redact(t, tool, folder, *options):
    run = subprocess.run([tool, *options, folder], capture_output=True, timeout=120)
    if run.returncode:
        t.ok(False, "what was planted is redacted", run.stderr.decode())
    return run.stdout.decode()


def everything(folder):
    """Every byte; NULs between arguments are spaces too, since a secret may be several of them."""
    data = b"\n".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())
    return data + data.replace(b"\0", b" ")


def survivors(planted, folder):
    data = everything(folder)
    return [f"{s.kind} in {s.place}: {s.secret}" for s in planted if s.secret.encode() in data]


def test_planted(t, unhang, tool, name):
    planted, folder = secrets(name), unhang.directory / "planted"
    plant(folder, planted)
    t.same(len(survivors(planted, folder)), len(planted), f"each secret of {name} is planted")
    redact(t, tool, folder, "--bug-report")
    kinds = len({s.kind for s in planted})
    t.same(survivors(planted, folder), [], f"none of its {len(planted)} of {kinds} kinds is left in a bug report")


# --- what must not rewrite evidence ---

# Words of the driver, and parts of them, as a stranger's command line may call its secrets.
POISON = "hardware timeout reset ring uncorrectable error detected failed begin correctab sdma0 gfx90a 0000:03:00.0 744c amdgpu".split()
STRUCK = ["amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "amdgpu 0000:03:00.0: amdgpu: ring sdma0 timeout, signaled seq=10, emitted seq=12",
          "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "amdgpu 0000:03:00.0: amdgpu: GPU reset(1) failed"]
FILES = {"/sys/class/drm/card0/device/device": "0x744c\n", "/sys/class/drm/renderD128/device/uevent": "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n"}


def test_poisoned(t, unhang, tool):
    folder = unhang.directory / "poisoned"
    words = POISON + ["renderD128", "zaphod42"] + [f"filler{i}x" for i in range(400)]  # more than are looked up one by one
    for options in ([], ["--bug-report"]):
        plant(folder, [Secret("x | mount | x | overlay / overlay rw,relatime,lowerdir=/l,uuid=on 0 0"),
                       Secret("x | command-line | x | job " + " ".join(f"--password {w} --token={w} --pass {w} /home/{w}/x" for w in reversed(words)))])
        track = Track()
        track.log(STRUCK)
        track.save(folder / "answers" / "log")
        track = Track()
        for path, value in FILES.items():
            track.answer(path, value.encode())
        track.save(folder / "answers" / "gpus")
        (folder / "kernel-log.txt").write_text("".join(f"[{100 + i}.000000] {line}\n" for i, line in enumerate(STRUCK)))
        before = said(unhang, folder / "kernel-log.txt")
        redact(t, tool, folder, *options)
        how = options[0] if options else "--redact"
        t.same(((folder / "kernel-log.txt").read_text().splitlines(), said(unhang, folder / "kernel-log.txt")), ([f"[{100 + i}.000000] {line}" for i, line in enumerate(STRUCK)], before),
               f"a command line changes no word of the driver, {how}")
        t.same({path: data.decode() for path, data in answers((folder / "answers" / "gpus").read_bytes())}, FILES, "nor what the kernel's files are called and say")
        shown = (folder / "processes.txt").read_text()
        t.same([w for w in words if w != "amdgpu" and (f"password\n{w}\n" in shown or f"token={w}\n" in shown or f"/home/{w}/" in shown)], [], "but behind its options those words go")
        t.ok("zaphod42" not in everything(folder).decode(errors="replace"), "and what nobody else says goes everywhere")


# --- what a bug report still says ---

def said(unhang, path):
    """What must not change."""
    run = unhang.run("explain", "--json", path, timeout=120)
    try:
        document = json.loads(run.stdout)
    except ValueError:
        return [{"error": run.stdout.decode() + run.stderr.decode()}]
    return [{"class": i["cause"]["class"], "also": i["also"], "do": i["action"]["do"], "fault": i["action"]["fault"], "gpus": [(g["name"], g["gfx"]) for g in i["gpus"]],
             "kernels": [f["value"] for f in i["facts"] if f["name"] == "kernel_name"],
             "remedies": [r["id"] for r in i["remedies"]]} for i in document["incidents"]]


def found(unhang, bundle):
    """What the doctor finds, in the form of what is said."""
    document = json.loads(unhang.run("doctor", "--json", "--root", bundle, timeout=120).stdout or "{}")
    return [{"doctor": document.get("verdict"), "findings": sorted(f["id"] for f in document.get("findings", []))}]


def differences(before, after):
    """Where two answers differ, in a few words."""
    if len(before) != len(after):
        return [f"{str(before)[:300]} became {str(after)[:300]}"]
    return [f"{key}: {b[key]} became {a.get(key)}" for b, a in zip(before, after) for key in b if b[key] != a.get(key)]


# Texts of which the lines around a message tell that it is none: they go, and no log of a bundle is one.
NO_LOGS = {"quiet-c-source-job", "quiet-diff-plain", "quiet-man-page", "quiet-rst-doc"}
# Of gdb's stacks a bug report keeps the runtime's frames and not those of the C library, which tell of a lock; and not an assertion's text.
LESS_SAID = {"runtime-locks-gdb", "runtime-older-than-gpu"}


def test_logs(t, unhang, tool):
    wrong, folder = [], unhang.directory / "log"
    for case in sorted(c for c in (tap.HERE / "logs").iterdir() if c.name not in NO_LOGS | LESS_SAID):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(case / "log.txt", folder / "log.txt")
        before = said(unhang, folder / "log.txt")
        redact(t, tool, folder, "--bug-report")
        wrong += [f"{case.name}: {d}" for d in differences(before, said(unhang, folder / "log.txt"))]
    t.no_complaints(wrong, "of each log the same is said when only what is known is left")


def repack(folder, to):
    """A bundle of a directory, as unhang packs it: the manifest first."""
    out, names = io.BytesIO(), sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in sorted(names, key=lambda n: n != "manifest.json"):
            tar.add(folder / name, name)
    to.write_bytes(zstd(out.getvalue()))


def test_bundles(t, unhang, tool):
    wrong, folder, bundle, kept = [], unhang.directory / "bundle", unhang.directory / "plain.tar.zst", unhang.directory / "kept.tar.zst"
    for path in SCENARIOS:
        bundle.unlink(missing_ok=True)
        unhang.run("emulate", path, "--", unhang.binary, "capture", "--deadline", "60", "-o", bundle, timeout=200)
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in members(bundle).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        redact(t, tool, folder, "--bug-report")
        repack(folder, kept)
        for _ in range(TRIES):
            differ = differences(said(unhang, bundle) + found(unhang, bundle), said(unhang, kept) + found(unhang, kept))
            if not differ:
                break
        wrong += [f"{path.stem}: {d}" for d in differ]
    t.no_complaints(wrong, f"of each of {len(SCENARIOS)} machines the same is said")


def main():
    t = tap.Tap()
    unhang, tool = tap.Unhang(sys.argv[1]), sys.argv[2]
    test_planted(t, unhang, tool, "secrets.txt")
    test_planted(t, unhang, tool, "secrets-later.txt")
    test_poisoned(t, unhang, tool)
    test_logs(t, unhang, tool)
    if emulated.possible(unhang):
        test_bundles(t, unhang, tool)
    else:
        t.skip("bug reports of emulated machines", "this machine cannot make them")
    t.end()


main()
