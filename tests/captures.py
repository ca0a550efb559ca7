#!/usr/bin/env python3
"""Captures one after the other, with programs of others beside them, and bundles of far too many entries.

captures.py UNHANG CAPTURE_AGAIN CUT_BUNDLE [N]: N captures in a row instead of 20; `make captures` makes 1,000."""
import datetime
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time

import emulated
import tap
from bundles import manifest, members, unzstd, zstd, zstd_raw

ROW = int(sys.argv[4]) if len(sys.argv) > 4 else 20
GROWTH_KB = 1536  # of a process that is settled, however many captures it makes; the top of its heap moves by a megabyte
HOLDER = """gpu 0000:03:00.0
    part gfx1100
    shaders ses 1 cus 2

process solver
    queue 1 gpu 0000:03:00.0 ring 0x7f2200000000 size 0x1000 rptr 7 wptr 7 vmid 8
    opens 0000:03:00.0
"""


def test_row(t, unhang, again):
    folder = unhang.directory / "row"
    folder.mkdir()
    run = subprocess.run([again, folder, str(ROW)], capture_output=True, text=True, timeout=60 + 5 * ROW, env=unhang.environment, check=False)
    told = [json.loads(line) for line in run.stdout.splitlines()]
    if not t.ok(run.returncode == 0 and len(told) == 2, f"{ROW} captures in one process", f"{run.returncode}: {run.stderr}"):
        return
    first, last = told
    t.same((last["descriptors"], last["children"], last["files"]), (first["descriptors"], first["children"], 1), "no descriptor, child or file more")
    t.ok(last["kilobytes"] - first["kilobytes"] <= GROWTH_KB, "nor memory", f"{first['kilobytes']} KB, then {last['kilobytes']} KB")


def test_entries(t, unhang):
    """Ten million entries: it is refused at the first that is too many, not at the end."""
    names = io.BytesIO()
    with tarfile.open(fileobj=names, mode="w") as tar:
        info = tarfile.TarInfo("manifest.json")
        data = b'{"schema": "unhang-capture-1"}'
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        for n in range(5000):
            tar.addfile(tarfile.TarInfo(f"answers/e{n}"))
    many = zstd(tarfile.TarInfo("answers/again").tobuf() * 50000)
    path = unhang.write("many.tar.zst", zstd(names.getvalue().rstrip(b"\0") + b"\0" * (-len(names.getvalue().rstrip(b"\0")) % 512)) + many * 200)
    began = time.process_time(), os.times().children_user
    run = unhang.run("explain", path)
    used = os.times().children_user - began[1]
    said = run.stderr.decode()
    t.ok(run.returncode == tap.CANNOT and "refused" in said and "answers/e4095" in said, "ten million entries are refused, with the first that is too many", f"{run.returncode}: {said}")
    t.ok(used < 2, "and soon", f"{used} s of CPU")


def test_cut(t, unhang, cut_bundle):
    """Cut at bytes of its first megabyte, and with bytes changed: opened, or refused with a line."""
    bundle, steps, changes = unhang.directory / "cut.tar.zst", ROW * 8, ROW * 5
    subprocess.run([unhang.binary, "capture", "-o", bundle], env=unhang.environment, stdout=subprocess.DEVNULL, check=False)
    tar = unzstd(bundle)
    for name, data in (("as it is", bundle.read_bytes()), ("not compressed", zstd_raw(tar))):
        path = unhang.write("whole.tar.zst", data)
        step = max(1, min(len(data), 1 << 20) // steps) if ROW < 1000 else 1
        run = subprocess.run([cut_bundle, path, str(step), str(changes), "7"], capture_output=True, text=True, check=False)
        told = [json.loads(line) for line in run.stdout.splitlines()]
        tried = [o["opened"] + o["refused"] + o["other"] for o in told]
        t.ok(run.returncode == 0 and len(told) == 2 and not sum(o["wrong"] for o in told) and not told[0]["opened"],
             f"a bundle {name}: cut at {tried[0]} places it is refused with a line; changed {tried[1]} times it is opened, or refused so", run.stdout + run.stderr)


def stand_in(folder, name, script):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def captured(unhang, name, folder, *options, scenario=None):
    bundle = unhang.directory / f"{name}.tar.zst"
    scenario = scenario or unhang.write("holder.scenario", HOLDER)
    environment = dict(unhang.environment, PATH=f"{folder}:{unhang.environment.get('PATH', os.environ['PATH'])}")
    run = subprocess.run([unhang.binary, "emulate", scenario, "--", unhang.binary, "capture", "-o", bundle, *options], capture_output=True, text=True,
                         timeout=200, env=environment, check=False)
    return run, manifest(bundle).get("items", []), members(bundle)


def test_tools(t, unhang):
    """Programs that stand in for py-spy and rocgdb: when they are run, with what, and what becomes of what they say."""
    folder, log = unhang.directory / "programs", unhang.directory / "called"
    for name in ("py-spy", "rocgdb"):
        stand_in(folder, name, f'echo "{name} $*" >> {log}; echo "stacks by {name}"; echo "and a complaint" >&2')
    captured(unhang, "none", folder)
    t.ok(not log.exists(), "neither is run unless that was asked for")
    _, items, held = captured(unhang, "tools", folder, "--tools")
    called = log.read_text().splitlines() if log.exists() else []
    pid = called[0].split()[-1] if called else "?"
    t.same(called, [f"py-spy dump --nonblocking --pid {pid}"], "--tools runs py-spy so that it stops nobody, and not rocgdb")
    t.same(held.get(f"tools/py-spy-{pid}.txt"), b"stacks by py-spy\nand a complaint\n", "all that it says is kept")
    log.unlink(missing_ok=True)
    (folder / "py-spy").unlink()
    _, items, held = captured(unhang, "debugger", folder, "--attach-debugger", "--tools")
    names = [i["name"] for i in items]
    called = log.read_text().split() if log.exists() else []
    t.ok(called[:4] == ["rocgdb", "-batch", "-nx", "-p"] and "py-spy" not in called, "--attach-debugger runs rocgdb, without anybody's start-up files", called)
    t.same([(i["state"], i["reason"]) for i in items if i["name"].startswith("tools/py")], [("absent", "py-spy is not installed")], "one that is not there is named")
    t.ok(names and names[-1].startswith("tools/rocgdb-") and names.index("answers/fences") < len(names) - 1, "last of all", names)
    stand_in(folder, "py-spy", "echo half; exit 3")
    _, items, held = captured(unhang, "fails", folder, "--tools")
    state = {i["name"]: (i["state"], i["reason"]) for i in items if i["name"].startswith("tools/")}
    t.ok(list(state.values()) == [("cut", "py-spy ended with status 3")] and b"half\n" in held.values(), "one that fails: what it said, and its status", state)
    stand_in(folder, "py-spy", f"echo $$ > {log}; exec sleep 600")
    run, items, _ = captured(unhang, "hangs", folder, "--tools")
    state = [i["state"] for i in items if i["name"].startswith("tools/")]
    t.ok(run.returncode == 0 and state == ["blocked"] and "answers/fences" in [i["name"] for i in items], "one that hangs is given up, and the rest is saved", f"{state} {run.stderr}")
    left = pathlib.Path(f"/proc/{log.read_text().strip()}/comm")
    for _ in range(100):
        if not left.exists() or left.read_text().strip() != "sleep":
            break
        time.sleep(0.05)
    t.ok(not left.exists() or left.read_text().strip() != "sleep", "and is ended")


def test_release(t, unhang):
    """The one write that a capture may make: it frees a devcoredump, when it was asked to and the dump is on the disk."""
    scenario, folder = tap.HERE / "scenarios" / "dump-left.scenario", unhang.directory
    for options, wanted in (((), 0), (("--release-devcoredump",), 1)):
        record, bundle = folder / f"release{wanted}.json", folder / f"release{wanted}.tar.zst"
        unhang.run("emulate", "--record", record, scenario, "--", "sh", "-c", f"{unhang.binary} capture -o {bundle} {' '.join(options)}; cat /sys/class/devcoredump/*/data > {folder}/still{wanted}", timeout=200)
        done = [json.loads(line) for line in record.read_text().splitlines()]
        writes = [n for n, o in enumerate(done) if o["op"] == "write"]
        reads = [n for n, o in enumerate(done) if o["op"] == "read" and o["path"].endswith("devcoredump/devcd1/data") and (not writes or n < writes[0])]
        t.same([done[n]["path"].split("/")[-1] for n in writes], ["data"] * wanted, f"{options}: {wanted} write")
        t.ok(reads and members(bundle).get("devcoredump/0000:0a:00.0.txt"), f"{options}: the dump was read first, and is in the bundle")
        t.same((folder / f"still{wanted}").stat().st_size > 0, not wanted, f"{options}: whether it is still there")


def test_slow_dump(t, unhang):
    """Four reads of 1.4 s each are progress, though all of them take longer than one may; a read that takes longer than that is not."""
    text = "".join(f"    devcoredump  line {n} {'x' * 200}\n" for n in range(1800))
    base = f"gpu 0000:0a:00.0\n    part gfx1030\n    devcoredump  **** AMDGPU Device Coredump ****\n{text}"
    for name, seconds, wanted in (("slow", 1.4, ["saved", "saved"]), ("stuck", 8, ["blocked"])):
        record = unhang.directory / f"{name}.json"
        scenario = unhang.write(f"{name}.scenario", base + f"    file devcoredump/data blocks {seconds}\n")
        bundle = unhang.directory / f"{name}.tar.zst"
        unhang.run("emulate", "--record", record, scenario, "--", unhang.binary, "capture", "--deadline", "60", "--release-devcoredump", "-o", bundle, timeout=200)
        states = [i["state"] for i in manifest(bundle).get("items", []) if i["name"].startswith(("devcoredump/", "release"))]
        writes = sum(json.loads(line)["op"] == "write" for line in record.read_text().splitlines())
        t.same([states, writes], [wanted, len(wanted) - 1], f"a devcoredump that is {name}")


def test_saved(t, unhang):
    """A bundle does not ask for what it is, and has the time of its own machine."""
    before = time.time()
    captured(unhang, "hung", unhang.directory, scenario="silent-hang")
    said = unhang.run("explain", unhang.directory / "hung.tar.zst").stdout.decode()
    t.ok("MES" in said and "Save the evidence" not in said and "unhang capture" not in said, "the evidence is saved", said)
    stamp = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said)
    when = datetime.datetime.fromisoformat(stamp[0].replace("Z", "+00:00")).timestamp() if stamp else 0
    t.ok(before - 5 < when < time.time() + 5, "when it was taken, by the clock of the emulated machine", said)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_row(t, unhang, os.path.abspath(sys.argv[2]))
    test_entries(t, unhang)
    test_cut(t, unhang, os.path.abspath(sys.argv[3]))
    if not emulated.possible(unhang):
        t.skip("captures of emulated machines", "this machine cannot make them")
        t.end()
    test_tools(t, unhang)
    test_release(t, unhang)
    test_slow_dump(t, unhang)
    test_saved(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
