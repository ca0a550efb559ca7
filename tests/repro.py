#!/usr/bin/env python3
"""unhang repro: programs that crash on the emulated KFD (kfd.py) at level 10, and whether what repro makes of them fails alike, standing alone.
Kernels are stand-ins. `repro.py UNHANG RECORDER all` has all thirty; else a few of them."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import emulated
import kfd
import tap

FAMILIES = ["reads beyond", "writes beyond", "from the middle of a buffer", "a sum beyond", "freed", "an index of the host's", "an index of an earlier kernel's",
            "an index that is let pass", "a pointer that is none", "NULL", "pinned memory", "code in memory", "a kernel that the plan stops", "another stream", "pageable memory"]
PLANS = {12: "gpu gfx90a; exception kernel reduction illegal-instruction", 27: "gpu gfx90a; hang kernel reduction"}
FEW = (0, 4, 6, 8, 11, 27)
EVIL = b'");exit(7);//'  # as long as the name that it takes the place of
COPY = b"_Z4copyPcPKcm"
FAILURE = {"memory-fault", "queue-error", "hang"}


class Crashes:
    def __init__(self, t, unhang, programs, recorder):
        self.t, self.unhang, self.programs, self.recorder, self.where = t, unhang, programs, recorder, unhang.directory

    def environment(self, number=-1, **more):
        found = {**self.programs.environment(PLANS.get(number, kfd.OPEN)), **({"MALLOC_PERTURB_": "0"} if kfd.ROOT else {}), **more}
        if kfd.ROOT:
            found["CXX"] = " ".join(map(str, kfd.HIPCC))
        return found

    def crash(self, number, level=10):
        """The recording of a program that crashed."""
        where = self.where / f"crash-{number}-{level}"
        if where.exists():
            return next(where.glob("*.recording"))
        where.mkdir()
        job = subprocess.Popen([self.programs.program, "crash-number", str(number)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=self.environment(number, HSA_TOOLS_LIB=str(self.recorder), UNHANG_LEVEL=str(level), UNHANG_RECORDING=f"{where}/%p.recording",
                                                    UNHANG_DUMPS=f"{where}/dumps"))
        recording = where / f"{job.pid}.recording"
        try:
            job.wait(timeout=8 if number in PLANS and "hang" in PLANS[number] else 120)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
        return recording

    def repro(self, recording, out, *options, number=-1):
        return subprocess.run([self.unhang.binary, "repro", recording, "-o", out, "--json", *options], capture_output=True, env=self.environment(number))

    def stands_alone(self, number):
        """What repro made of the crash, as JSON, and whether that fails alike."""
        recording = self.crash(number)
        run = self.repro(recording, recording.parent / "out", "--user-data", "--check", "--seconds", "120", number=number)
        return (json.loads(run.stdout), "") if run.stdout else (None, run.stderr.decode())


def test_alone(t, c, numbers):
    alike, unlike = 0, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (found, error) in zip(numbers, pool.map(c.stands_alone, numbers)):
            good = bool(found and found["tried"] and found["tried"]["alike"])
            alike += good
            if not good:
                unlike.append(f"{number} ({FAMILIES[number % 15]}): {error or found['tried']['other'] or found['tried']['why_not']}; {found and found['failure']}")
    t.ok(alike >= len(numbers) * 0.8, f"of {len(numbers)} programs that crashed at least 80 % fail alike, standing alone", f"{alike}: " + "\n".join(unlike))
    print(f"# {alike} of {len(numbers)} fail alike", *(f"\n#   {line}" for line in unlike))


def test_form(t, c):
    recording = c.crash(5, level=10)
    out = recording.parent / "plain"
    run = c.repro(recording, out)
    found = emulated.document(t, run, "repro", "its JSON has its form")
    t.ok(found["failure"]["kind"] == "queue-error" and any("withheld" in b["contents"] for b in found["buffers"]), "without --user-data contents are withheld", found)
    t.same(sorted(p.name for p in out.iterdir()), ["Makefile", "README.md", "code-0.co", "repro.cpp", "repro.json"], "and no file has them")
    t.ok("--user-data" in (out / "README.md").read_text(), "which the README says")
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    run = c.repro(recording, out, "--user-data")
    t.ok(run.returncode == 2 and b"not empty" in run.stderr and before == {p.name: p.read_bytes() for p in out.iterdir()}, "a directory that is not empty stays as it is", run.stderr)
    run = c.repro(recording, recording.parent / "redacted", "--redact")
    text = run.stdout.decode() + "".join(p.read_text(errors="replace") for p in (recording.parent / "redacted").iterdir() if p.suffix != ".co")
    t.ok(str(recording.parent) not in text.replace(str(recording.parent / "redacted"), "") and "programs" not in text, "--redact leaves names and paths out", text[:2000])
    run = subprocess.run([pathlib.Path(c.unhang.binary).resolve(), "repro", recording.name, "-o", "text"], capture_output=True, env=c.environment(), cwd=recording.parent)
    t.ok(run.returncode == 0 and all(len(line) <= 80 for line in run.stdout.decode().splitlines()) and len(run.stdout.splitlines()) <= 24, "a screen of text", run.stdout.decode())


def test_missing(t, c):
    """Without inputs it says what is missing."""
    for level, wanted in ((3, "record it at level 10"), (1, "record at level 3 or above")):
        recording = c.crash(5, level=level)
        run = c.repro(recording, recording.parent / "out")
        said = json.loads(run.stdout)["left_out"] if run.stdout else [run.stderr.decode()]
        t.ok(any(wanted in line for line in said) and run.returncode == (0 if level == 3 else 2), f"at level {level} it says what is missing", said)
    sound = c.where / "sound"
    sound.mkdir()
    subprocess.run([c.programs.program, "launches"], capture_output=True, env=c.environment(HSA_TOOLS_LIB=str(c.recorder), UNHANG_RECORDING=f"{sound}/%p.recording"))
    run = c.repro(next(sound.iterdir()), sound / "out")
    t.ok(run.returncode == 2 and b"no fault" in run.stderr and not (sound / "out").exists(), "of a program that did not fail there is none", run.stderr)


def test_shrink(t, c):
    recording = c.crash(0)
    run = c.repro(recording, recording.parent / "small", "--user-data", "--shrink", "--before", "1", "--runs", "10", "--seconds", "120", number=0)
    told = json.loads(run.stdout)
    found, kept = told["tried"], told["buffers"][next(p["buffer"] for p in told["launches"][0]["pointers"] if p["at"] == told["failure"]["argument"])]
    t.ok(run.returncode == 0 and found["alike"] and found["launches_after"] == 1 < found["launches_before"] and found["bytes_after"] < found["bytes_before"] and found["runs"] <= 10,
         "--shrink: fewer launches and smaller buffers, and it still fails alike", found)
    t.ok(not list((recording.parent / "small").glob("data-*.bin")), "contents that it fails without are gone", list((recording.parent / "small").iterdir()))
    t.same(kept["bytes"], kept["recorded_bytes"], "the buffer that it reads beyond keeps its size: that is the bug")
    readme = (recording.parent / "small" / "README.md").read_text()
    t.ok("data-*.bin" not in readme and "earlier launches" not in readme, "the README says nothing of what is not there", readme)
    t.ok(re.search(r"Arguments of the launch that fails, as they were in the job: `.*\(4 MiB buffer\).*, \d+`", readme), "and has the arguments", readme)
    program = recording.parent / "small" / "repro.cpp"
    text = program.read_text()
    given = re.search(r"char arguments_0\[\] = \{([^}]*)\}", text)
    number = bytes(int(byte, 16) for byte in re.findall("0x(..)", given[1]))[:16] + struct.pack("<Q", kept["bytes"])
    program.write_text(text.replace(given[1], ", ".join(f"0x{byte:02x}" for byte in number)))
    made = subprocess.run(["make", "-s", "-C", program.parent], capture_output=True, env=c.environment(0))
    run = subprocess.run(["./repro"], capture_output=True, env=c.environment(0), cwd=program.parent)
    t.ok(run.returncode == 0 and b"It did not fail." in run.stdout, "and with the bug mended by hand the small program ends well", (made.stderr[-600:], run))


# --- a recording of a stranger ---

MASK = (1 << 64) - 1


def check(words, number):
    """rec_check() of recorder/format.h."""
    total = ((number ^ 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9) & MASK
    for i, word in enumerate(words[1:], 1):
        total += ((word ^ (0x94d049bb133111eb + i & MASK)) * ((0xd6e8feb86659fd93 + 2 * i * 0x2545f4914f6cdd1d) & MASK)) & MASK
    total &= MASK
    return ((total >> 32 ^ total) & 0xffffffff) | 1


def rename(recording, old, new):
    """Another name for a kernel, as a recorder would have written it."""
    data = bytearray(recording.read_bytes())
    for i in range(480):
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, 4096 + i * 40)
        if kind != 6:  # the log
            continue
        begin = offset + struct.unpack_from("<I", data, 4096 + i * 40 + 36)[0]
        used, at = struct.unpack_from("<Q", data, offset)[0], 0
        while at < used:
            length = struct.unpack_from("<I", data, begin + at)[0]
            entry = data[begin + at:begin + at + length].replace(old, new)
            words = list(struct.unpack(f"<{length // 8}Q", entry))
            entry[4:8] = struct.pack("<I", check(words, at))
            data[begin + at:begin + at + length] = entry
            at += length
    recording.write_bytes(data)


def test_hostile(t, c):
    """What a stranger wrote is never code, and never a command."""
    recording = c.crash(15)  # reads beyond: copy fails
    code = next((recording.parent / "dumps").glob("code-*.co"))
    rename(recording, COPY, EVIL)
    code.write_bytes(code.read_bytes().replace(COPY, EVIL))
    out = recording.parent / "evil"
    run = c.repro(recording, out, "--user-data", "--code", code)
    found = json.loads(run.stdout) if run.stdout else {"failure": {"kernel": run.stderr.decode()}}
    t.same(found["failure"]["kernel"], EVIL.decode(), "a kernel with a name that is C")
    text = (out / "repro.cpp").read_text()
    t.ok("exit(7)" not in text and "\\042\\051\\073exit\\0507\\051\\073\\057\\057" in text, "is octal in the program", [line for line in text.splitlines() if "exit" in line])
    built = subprocess.run(["make", "-s", "-C", out], capture_output=True, env=c.environment())
    t.ok(built.returncode == 0, "which compiles", built.stderr[-500:])
    t.ok("exit(7)" not in (out / "Makefile").read_text(), "and is nowhere in the Makefile")
    for i, name in enumerate((b"<img src=//e>", b"http://e.io/x", b"@root see #12", b"www.evil.io/a", b"&lt;script&gt", b"*a*__b__~~c~~", b"`x`</b>a|b|c!")):
        rename(recording, EVIL, name)
        code.write_bytes(code.read_bytes().replace(EVIL, name))
        c.repro(recording, out := recording.parent / f"plain-{i}", "--code", code)
        text = (out / "README.md").read_text()
        outside = re.sub("`[^`\n]*`", "", text)
        shown = re.sub("[`|#!]", "?", name.decode())
        t.ok(f"`{shown}`" in text and not re.search(r"[<>@&~]|//|www|__|\bscript|evil|root see", outside.replace("**fails**", "")), f"{name.decode()} is plain text in the README", outside)
        rename(recording, name, EVIL)
        code.write_bytes(code.read_bytes().replace(name, EVIL))


def test_places(t, c):
    """A directory that another can change is not used: he would exchange the program before it runs."""
    recording = c.crash(0)
    if os.geteuid():
        return t.skip("another user's directory", "not root")
    for name, owner, mode, below in (("another's", 65534, 0o755, ""), ("everybody's", 0, 0o777, ""), ("everybody's, sticky", 0, 0o1777, ""), ("below another's", 65534, 0o755, "new"),
                                     ("behind another's link", 65534, 0o755, "link/new")):
        out, beyond = c.where / name.replace(" ", "-"), c.where / "beyond"
        out.mkdir()
        beyond.mkdir(exist_ok=True)
        (out / "link").symlink_to(beyond) if "link" in below else None
        out.chmod(mode)
        os.chown(out, owner, -1)
        for container in ("no", "yes"):  # also a container's root, who is not its only user
            run = subprocess.run([c.unhang.binary, "repro", recording, "-o", out / below, "--json"], capture_output=True, env={**c.environment(0), "UNHANG_CONTAINER": container})
            t.ok(run.returncode == 2 and [p.name for p in out.iterdir()] in ([], ["link"]) and not list(beyond.iterdir()) and b"user" in run.stderr + b"user" * (owner == 0),
                 f"a directory that is {name} is refused, container: {container}", (run.returncode, run.stderr))
    spy = c.unhang.write("spy/make", '#!/bin/sh\nstat -c "%a %u" . >&2\nexit 1\n')  # in the place of make: where it is run
    spy.chmod(0o755)
    run = subprocess.run([c.unhang.binary, "repro", recording, "-o", c.where / "apart", "--json", "--check"], capture_output=True,
                         env={**c.environment(0), "PATH": f"{spy.parent}:{os.environ['PATH']}"})
    t.ok(b"make failed: 700 0" in run.stdout and sorted(p.name for p in (c.where / "apart").iterdir() if p.is_dir()) == [], "it is built where nobody else can reach it", run.stdout[-600:])
    t.same([oct(p.stat().st_mode & 0o77) for p in (c.where / "apart", *(c.where / "apart").iterdir()) if p.stat().st_mode & 0o77], [], "nobody else can read it")


def test_core(t, c):
    where = c.where / "core"
    where.mkdir()
    subprocess.run([c.programs.program, "crash-number", "0"], capture_output=True,
                   env=c.environment(HSA_TOOLS_LIB=str(c.recorder), UNHANG_RECORDING=f"{where}/%p.recording", UNHANG_CORE=f"{where}/gpucore"))
    run = c.repro(where / "gpucore", where / "out", "--check", "--seconds", "120")
    found = emulated.document(t, run, "repro", "a light core makes a program, too")
    t.ok(found and found["failure"]["kind"] == "memory-fault" and found["tried"]["alike"], "which fails alike", found)
    answer = where / "out" / "repro.json"
    for changed, wanted in (({}, ["told-by-experiments"]), ({"tried": None}, []), ({"tried": {**found["tried"], "alike": False}}, []), ({"failure": None}, [])):
        path = where / "changed.json"
        path.write_text(json.dumps({**json.loads(answer.read_text()), **changed}))
        told = json.loads(c.unhang.run("explain", "--json", str(path)).stdout)
        t.same([i["cause"]["class"] for i in told["incidents"]], wanted, f"explain reads the answer with {changed}")
    bundle = where / "bundle.tar"
    subprocess.run(["tar", "-cf", bundle, "-C", where, next(where.glob("*.recording")).name], check=True)
    run = c.repro(bundle, where / "from-bundle")
    t.ok(run.returncode == 2 and b"level 3" in run.stderr, "an archive is looked into", run.stderr)


def test_from_run(t, c):
    """From `unhang run` to the program, as docs/REPRO.md has it: all that a run leaves is its directory."""
    runs = c.where / "runs"
    done = subprocess.run([c.unhang.binary, "run", "--level", "10", "--allow-inputs", "--state-dir", runs, "--", c.programs.program, "crash-number", "0"],
                          capture_output=True, text=True, env=c.environment(0))
    run = next(runs.iterdir())
    bundle, inputs = run / "1" / "bundle.tar.zst", next((run / "1" / "inputs").iterdir())
    moved = c.where / "moved"
    shutil.copytree(run, moved)
    (c.where / "elsewhere" / "inputs").mkdir(parents=True)
    shutil.move(inputs, c.where / "elsewhere" / "inputs" / inputs.name)
    # Now the path that the recording has leads nowhere.
    for target, *options in ((moved,), (moved / "1",), (moved / "1" / "bundle.tar.zst",), (bundle, "--inputs", moved / "1" / "inputs"), (bundle, "--inputs", moved / "1" / "inputs" / inputs.name)):
        name = " ".join(map(str, (target, *options))).replace(str(c.where), "")
        made = c.repro(target, c.where / f"of-run{name.replace('/', '-').replace(' ', '')}", "--user-data", *options)
        found = json.loads(made.stdout) if made.stdout else {"failure": {}, "buffers": []}
        t.ok(found["failure"].get("kind") == "memory-fault" and found["failure"]["place"] == "at the first byte past the end of a buffer of 4194304 bytes"
             and any("saved" in b["contents"] for b in found["buffers"]), f"{name}: the launch, with its inputs", (done.stderr[-800:], made.stderr, found))
    made = c.repro(bundle, c.where / "of-none", "--inputs", c.where / "core")
    t.ok(made.returncode == 2 and f"no inputs of process {inputs.name} in {c.where}/core".encode() in made.stderr, "a directory without inputs is refused", made.stderr)
    made = c.repro(bundle, c.where / "of-bundle")
    said = json.loads(made.stdout)["left_out"] if made.stdout else []
    t.ok(any("unhang run --level 10 --allow-inputs" in line for line in said), "and without any, the hint is a command that records them", (said, made.stderr))


def test_example(t, c):
    """The worked example of docs/REPRO.md, as it stands there."""
    page = (tap.HERE / ".." / "docs" / "REPRO.md").read_text()
    shown = re.search(r"\n    \$ unhang (repro .*)\n((?:    .*\n)+)", page)
    where = c.where / "example"
    where.mkdir()
    (where / "docs").symlink_to((tap.HERE / ".." / "docs").resolve())
    run = subprocess.run([pathlib.Path(c.unhang.binary).resolve(), *shown[1].split()], capture_output=True, text=True, cwd=where, env=c.environment())
    t.same(run.stdout, re.sub("(?m)^    ", "", shown[2]), "what docs/REPRO.md shows")
    t.ok("element(float const AS1*, int, int)" in run.stdout, "with the function that was inlined where it failed", run.stdout)
    readme = (where / "repro" / "README.md").read_text()
    t.ok(readme.splitlines()[1].startswith("This program faults in any case") and "What it must show" not in readme and "code object version 5" in readme,
         "a program without buffers promises nothing", readme[:1200])
    built = subprocess.run(["make", "-s", "-C", where / "repro"], capture_output=True, text=True, env=c.environment())
    t.ok(built.returncode == 0, "and its program compiles", built.stderr[-800:])


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    problem = programs.compile()
    if problem:
        tap.skip_all(f"hipcc: {problem[-200:]}")
    c = Crashes(t, unhang, programs, pathlib.Path(sys.argv[2]).resolve())
    every = len(sys.argv) > 3
    test_alone(t, c, range(30) if every else FEW)
    if not every:
        for test in (test_form, test_missing, test_shrink, test_hostile, test_places, test_core, test_from_run, test_example):
            test(t, c)
    t.end()


if __name__ == "__main__":
    main()
