#!/usr/bin/env python3
"""Recorded machines: the doctor finds on each what is wrong with it, and nothing besides."""
import json
import os
import sys

import emulated
import machine_tree
import tap

GOOD_CARD = {"atomics-good", "bar-good", "link-good"}
GOOD_HOME = {"driver-in-tree", "journal-kept"}
# machine: exit status, what is found by severity, what is said to be good
MACHINES = {
    "healthy": (0, {}, GOOD_CARD | GOOD_HOME | {"tools-there-either", "smu-interface"}),
    "rx7900xtx-6.2": (1, {"warning": {"parameter-unknown", "kernel-old-rdna3"},
                          "advice": {"smu-interface-old", "acpi-lax", "dcdebugmask-psr"}},
                      GOOD_CARD | GOOD_HOME | {"tools-there-either", "iommu-passthrough"}),
    "strix-halo-mes83": (1, {"critical": {"mes-83-gfx1151"}, "warning": {"cwsr-area-kernel-gfx1151", "cwsr-area-rocm-gfx1151"}}, GOOD_HOME),
    "strix-halo-leftover": (1, {"warning": {"cwsr-leftover"}}, GOOD_HOME | {"kernel-strix-halo-ok"}),
    "mi300x-node": (0, {}, GOOD_CARD | {"driver-dkms", "iommu-good", "iommu-passthrough", "journal-kept", "pages-good",
                                        "partitions-good", "xgmi-good"}),
    "apu-beside-dgpu": (0, {"advice": {"igpu-visible", "display-on-compute-gpu"}},
                        GOOD_CARD | GOOD_HOME | {"tools-there-either", "smu-interface"}),
    "container": (1, {"warning": {"container-no-kfd"}, "advice": {"container-no-ptrace", "container-small-shm"}}, GOOD_CARD),
}


def examine(t, unhang, name, status):
    tree = machine_tree.plant(name, unhang.directory / name)
    return emulated.document(t, unhang.run("doctor", "--root", tree, "--json"), "doctor", f"{name}: its document", status)


def test_machines(t, unhang):
    for name, (status, wrong, good) in MACHINES.items():
        findings = examine(t, unhang, name, status).get("findings", [])
        found = {}
        for finding in findings:
            found.setdefault(finding["severity"], set()).add(finding["id"])
        t.same(found.pop("ok", set()), good, f"{name}: what is good")
        t.same(found, wrong, f"{name}: what is wrong, and nothing besides")
        lacking = [f"{f['id']} has no {key}" for f in findings if f["severity"] != "ok"
                   for key in ("seen", "why", "do", "undo", "grade", "source") if not f[key]]
        t.no_complaints(lacking, f"{name}: each finding says what was seen, why, what to do, how to undo it, and its source")


def test_text_says_all(t, unhang):
    """What the JSON says of a finding stands in the text, in the same order; where there are many, their titles stand before them once more."""
    unhang.environment["COLUMNS"] = "100"
    labels = {"seen": "Seen", "why": "Why", "check": "Check", "cost": "Cost", "risk": "Risk", "undo": "Undo", "until": "Until"}
    for name in MACHINES:
        bad = [f for f in json.loads(unhang.run("doctor", "--root", unhang.directory / name, "--json").stdout)["findings"] if f["severity"] != "ok"]
        text = unhang.run("doctor", "--root", unhang.directory / name).stdout.decode()
        titles = [f"{f['severity']} {f['title']} [{f['id']}]" for f in bad]
        paragraphs = [" ".join(part.replace(" \\\n", "\n").split()) for part in text.split("\n\n")]
        found = [part for part in paragraphs if part.startswith(tuple(titles or ["-"]))]
        wrong = []
        if len(bad) > 2 and (not found or found.pop(0) != " ".join(titles)):
            wrong.append(f"no list of titles: {found[:1]}")
        if len(found) != len(bad):
            wrong.append(f"{len(found)} findings, not {len(bad)}")
        for part, title, f in zip(found, titles, bad):
            wanted = [title, *(f"{label} {f[key]}" for key, label in labels.items() if f[key]), *(f"{n}. {step}" for n, step in enumerate(f["do"], 1) if len(f["do"]) > 1),
                      f"Source grade {f['grade']}, {f['source']}"]
            wrong += [f"{f['id']} lacks: {words}" for words in wanted if " ".join(words.split()) not in part]
        t.no_complaints(wrong, f"{name}: the text says all")


def test_text(t, unhang):
    """As people see it: every finding, no line wider than the terminal, no hole in a sentence."""
    for name, (_, wrong, _) in MACHINES.items():
        for columns in (60, 100):
            unhang.environment["COLUMNS"] = str(columns)
            text = unhang.run("doctor", "--root", unhang.directory / name).stdout.decode()
            long = [line for line in text.splitlines() if len(line) > columns and " " in line.strip()]
            t.no_complaints([line for line in long if max(map(len, line.split())) < columns - 20], f"{name}: it fits {columns} columns")
        missing = [one for ids in wrong.values() for one in ids if f"[{one}]" not in " ".join(text.split())]
        t.same(missing, [], f"{name}: every finding is named")
        t.ok("{" not in text, f"{name}: no hole in a sentence", text)


def test_one_line_for_eight(t, unhang):
    text = unhang.run("doctor", "--root", unhang.directory / "mi300x-node").stdout.decode()
    t.same(text.count("Instinct MI300X (gfx942)"), 1, "eight GPUs that are the same are listed once")


def test_unfit(t, unhang):
    """A remedy that is for other machines may be applied, but that is said."""
    for name, words in (("healthy", "it is not known to help here"), ("strix-halo-mes83", "it does not help"), ("strix-halo-leftover", None)):
        run = unhang.run("doctor", "--root", unhang.directory / name, "--apply", "gfxoff-off" if words is None else "cwsr-off", "--dry-run")
        text = " ".join(run.stdout.decode().split())
        t.ok(run.returncode == 0 and (words in text if words else " BUT " not in text), f"{name}: whether it is for this machine is told", text)


def test_nothing_written(t, unhang):
    tree = machine_tree.plant("healthy", unhang.directory / "still")
    before = sorted((str(p), os.lstat(p).st_mtime_ns, os.lstat(p).st_ino) for p in tree.rglob("*"))
    unhang.run("doctor", "--root", tree)
    t.same(sorted((str(p), os.lstat(p).st_mtime_ns, os.lstat(p).st_ino) for p in tree.rglob("*")), before, "looking changes nothing")


def hostile(tree):
    """Loops of links, FIFOs, sockets of nothing, gigantic files where the doctor looks."""
    gpu = tree / "sys/bus/pci/devices/0000:03:00.0"
    for path in ("proc/cmdline", "etc/modprobe.d/fifo.conf", "etc/default/grub", "var/log/dmesg", "proc/sys/kernel/core_pattern",
                 "sys/module/amdgpu/parameters/cwsr_enable", "opt/rocm-7.2.1/.info/version"):
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.mkfifo(target)
    for path in ("etc/os-release", "etc/group", "etc/systemd/journald.conf", "sys/module/amdgpu/parameters/ppfeaturemask"):
        target = tree / path
        target.unlink(missing_ok=True)
        with open(target, "wb") as huge:
            huge.truncate(1 << 42)
    loop = tree / "etc/modprobe.d/loop.conf"
    loop.symlink_to("loop.conf")
    (tree / "etc/modprobe.d/out.conf").symlink_to("/etc/passwd")
    (tree / "etc/modprobe.d/up.conf").symlink_to("../../../../../../../../etc/passwd")
    (tree / "sys/bus/pci/devices/0000:09:00.0").symlink_to("0000:0a:00.0")
    (tree / "sys/bus/pci/devices/0000:0a:00.0").symlink_to("0000:09:00.0")
    odd = tree / "sys/bus/pci/devices/0000:0b:00.0;reboot"
    odd.mkdir()
    for name in ("vendor", "device", "class"):
        (odd / name).write_bytes((gpu / name).read_bytes())
    (gpu / "mem_info_vram_total").unlink()
    (gpu / "mem_info_vram_total").mkdir()
    (gpu / "revision").unlink()
    (gpu / "revision").write_bytes(bytes(range(256)) * 64)


def test_hostile(t, unhang):
    tree = machine_tree.plant("healthy", unhang.directory / "hostile")
    hostile(tree)
    run = unhang.run("doctor", "--root", tree, "--json", timeout=60)
    t.ok(run.returncode == 2, "links in circles, FIFOs and gigantic files: it answers", run.stderr.decode())
    answer = json.loads(run.stdout)
    t.same([g["pci"] for g in answer["machine"]["gpus"]], ["0000:03:00.0"], "and it still sees the GPU")
    t.ok("root:x:0:0" not in run.stdout.decode(), "no link leads out of the tree")


def test_nothing_to_see(t, unhang):
    empty = unhang.directory / "empty"
    empty.mkdir()
    emulated.refuses(t, unhang, ("doctor", "--root", empty), ["no AMD GPU", str(empty)], "an empty tree: one clear line")
    emulated.refuses(t, unhang, ("doctor", "--root", unhang.directory / "none"), ["none", "No such file"], "no tree")
    emulated.refuses(t, unhang, ("doctor", "--root", __file__), ["Not a directory"], "a file instead of a tree")
    tree = machine_tree.plant("healthy", unhang.directory / "bare")
    for gone in ("sys/kernel/debug", "proc", "etc", "opt", "var", "usr", "sys/class", "sys/module"):
        machine_tree.put(tree, f"without /{gone}", [])
        run = unhang.run("doctor", "--root", tree, "--json")
        wrong = [f for f in json.loads(run.stdout)["findings"] if f["severity"] != "ok"]
        t.same((run.returncode, wrong), (0, []), f"without {gone} too: what is not known is no finding")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_machines, test_text_says_all, test_text, test_one_line_for_eight, test_unfit, test_nothing_written, test_hostile, test_nothing_to_see):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
