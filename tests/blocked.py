#!/usr/bin/env python3
"""A GPU whose files never return: one child is left behind, whoever looks and however often. With UNHANG_TEST_ALL=1 a thousand looks."""
import concurrent.futures
import json
import os
import pathlib
import re
import sys

import emulated
import tap
from watched import SCENARIOS, Machine, words

EVERY = bool(os.environ.get("UNHANG_TEST_ALL"))
LOOKS = 1000 if EVERY else 5
ASLEEP = pathlib.Path(__file__).with_name("stuck.sh")


def test_looks(t, unhang):
    """Commands of all kinds, one after the other, and some at once."""
    u = unhang.binary
    others = f"{u} waves; {u} rings; {u} queues; {u} regs GRBM_STATUS; {u} & {u} & wait"
    script = f"n=0; while [ $n -lt {LOOKS} ]; do {u} --json >last.json; n=$((n+1)); done; {others}; echo; {ASLEEP}; cat /run/unhang/blocked/*; cat last.json"
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"cd {unhang.directory}; ({script}) 2>&1", timeout=60 + LOOKS)
    lines = run.stdout.decode().splitlines()
    at = next((n for n, line in enumerate(lines) if re.match(r"\d+ \d+ \d+ /sys/", line)), None)
    t.ok(at is not None and lines[at - 1] == "1", f"{LOOKS} looks and other commands leave one child behind", "\n".join(lines[-60:]))
    last = (unhang.directory / "last.json").read_text()
    t.ok('"health": "stuck"' in last and "amdgpu_regs does not return" in last, "the last look says what the first one said", last[:800])


def test_at_once(t, unhang):
    """Eight commands that begin at the same moment: one of them takes the GPU, and the others learn from it. One that is killed in the meantime
    leaves no note, but its child still has the GPU."""
    u, top = unhang.binary, unhang.directory
    script = f"n=0; while [ $n -lt 8 ]; do {u} --json >{top}/at$n 2>&1 & n=$((n+1)); done; wait; {ASLEEP}"
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", script, timeout=100)
    t.same(run.stdout.decode().split()[-1], "1", "eight commands at the same moment leave one child behind")
    said = [(top / f"at{n}").read_text() for n in range(8)]
    t.no_complaints([s[:600] for s in said if '"health": "stuck"' not in s or "does not return" not in s], "and all of them say so")
    killed = f"{u} >/dev/null 2>&1 & p=$!; until {ASLEEP} >/dev/null; do sleep 0.02; done; kill -9 $p; wait $p 2>/dev/null"
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"{killed}; {u} --json >{top}/after; {ASLEEP}", timeout=100)
    t.same(run.stdout.decode().split()[-1], "1", "a child whose command was killed before it noted it is found all the same")
    t.ok('"health": "stuck"' in (top / "after").read_text(), "and told")


def test_all_files(t, unhang):
    """Not even the texts answer that the driver has in memory."""
    u, scenario = unhang.binary, unhang.write("all.scenario", "gpu 0000:03:00.0\n    part gfx90a\n    shaders ses 1 cus 2\n    file amdgpu_* blocks\n")
    run = unhang.run("emulate", scenario, "--", "sh", "-c", f"cd {unhang.directory}; ({u} & {u} & {u} & wait; {u} rings) >/dev/null 2>&1; {u} --json >last.json; {ASLEEP}", timeout=100)
    t.same(run.stdout.decode().split()[-1], "1", "where no file answers, one child is left too")
    t.ok('"health": "stuck"' in (unhang.directory / "last.json").read_text(), "and a later look says so, too")


def test_capture(t, unhang):
    u = unhang.binary
    bundle = unhang.directory / "blocked.tar.zst"
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"{u} >/dev/null; {u} capture -o {bundle}; {ASLEEP}", timeout=200)
    t.ok(run.stdout.decode().split()[-1] == "1", "a capture behind it leaves no other", run.stdout.decode() + run.stderr.decode())
    said = unhang.run("explain", "--json", bundle).stdout.decode()
    t.ok("driver-deadlock-hung-task" in said, "and can be explained", said[:500])


def test_watch(t, unhang):
    m = Machine(unhang, "blocks-later", (SCENARIOS / "blocks-later.scenario").read_text())
    m.configure("suspect-after 1\nhung-after 3\nquiet 1\ncapture no")
    told = m.until(f"grep -q ' hung:' {m.top}/out && {ASLEEP} >{m.top}/asleep")
    t.same(words(told), ["suspected", "hung"], "the watch tells of files that block from second 3 on")
    t.same((m.top / "asleep").read_text().strip(), "1", "and leaves one child behind")
    t.same(told[-1], "status 0", "it ends all the same, so that systemctl restart works")


def test_panic(t, unhang):
    """Where the kernel would panic, nothing is asked that may not return."""
    u, one = unhang.binary, unhang.directory / "one"
    one.write_text("1\n")
    mount = f"mount --bind {one} /proc/sys/kernel/hung_task_panic"
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"{mount} || exit 77; {u}; {ASLEEP}", timeout=100)
    if run.returncode == 77:
        t.skip("hung_task_panic", "nothing can be mounted here")
        return
    said = " ".join(run.stdout.decode().split())
    t.ok(said.endswith(" 0") and "kernel.hung_task_panic" in said, "with hung_task_panic no file is read that may block, and that is told", said)
    run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"{mount}; UNHANG_MAY_BLOCK=1 {u}; {ASLEEP}", timeout=100)
    t.ok(run.stdout.decode().split()[-1] == "1", "unless somebody says so", run.stdout.decode())
    seen = []
    for words_of in ("may-block no", "may-block yes"):
        conf, top = unhang.directory / "may.conf", unhang.directory / words_of.replace(" ", "-")
        conf.write_text(words_of + "\n")
        watch = f"{u} watch --once --config {conf} --state-dir {top}/state --run-dir {top}/run >/dev/null 2>&1"
        top.mkdir()
        run = unhang.run("emulate", "read-blocks", "--", "sh", "-c", f"{mount}; {watch}; {ASLEEP}", timeout=100)
        seen.append(run.stdout.decode().split()[-1])
    t.same(seen, ["0", "1"], "the watch obeys its configuration in that")


def test_children(t, unhang):
    """What a look forks, counted by the numbers of processes in the emulated machine's namespace: a thread of the door has one too."""
    number = "$(sh -c 'echo $$')"
    for scenario in ("idle", "busy-healthy"):
        script = f"a={number}; /bin/true; b={number}; {unhang.binary} >/dev/null; c={number}; echo $((c - b - (b - a)))"
        run = unhang.run("emulate", scenario, "--", "sh", "-c", script, timeout=100)
        t.ok(1 <= int(run.stdout) <= 6 + 1, f"{scenario}: a look at one GPU has at most six children", run.stdout.decode())


TWO = "gpu 0000:03:00.0\n    part gfx1100\n{rule}gpu 0000:83:00.0\n    part gfx1100\n"


def opened(unhang, name, rule=""):
    """Which files a look at two GPUs opens; its answer."""
    scenario, record = unhang.write(f"{name}.scenario", TWO.format(rule=rule)), unhang.write(f"{name}.record", "")
    run = unhang.run("emulate", scenario, "--record", record, "--", unhang.binary, "--json", timeout=60)
    events = [json.loads(line) for line in open(record, encoding="utf8")]
    return {e["path"] for e in events if e["op"] == "open"}, json.loads(run.stdout)


def test_each_file(t, unhang):
    """Each file of a look blocks in turn, by default one of each kind, every third: nothing of the other GPU and of the machine is lost for it, and
    what stands before it in its list is read."""
    healthy, _ = opened(unhang, "healthy")
    kinds = {re.sub(r"\d+", "N", path): path for path in sorted(healthy, reverse=True) if ":83:" not in path}
    files = sorted(healthy if EVERY else kinds.values())
    files = [path for path in files if ":83:" not in path and path != "/dev/dri/renderD129"][::1 if EVERY else 3]

    def one(number_and_path):
        number, path = number_and_path
        name = path.split("0000:03:00.0/")[-1] if "0000:03:00.0/" in path else os.path.basename(path)
        seen, answer = opened(unhang, f"block{number}", f"    file {name} blocks\n")
        lost = [p for p in healthy - seen if "0000:03:00.0" not in p and p != "/dev/dri/renderD128"]
        other = [g for g in answer["machine"]["gpus"] if g["pci"] == "0000:83:00.0"]
        return [f"{path}: {p} is lost" for p in lost[:3]] + [f"{path}: {other}" for _ in "x" if not other or other[0]["health"] != "idle"]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        t.no_complaints([line for lines in pool.map(one, enumerate(files)) for line in lines], f"{len(files)} files that block cost only their GPU")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    if os.getuid() or not emulated.possible(unhang):
        t.skip("files that block", "this machine can make none, or this is not root")
        t.end()
    for test in (test_children, test_each_file, test_looks, test_at_once, test_all_files, test_capture, test_watch, test_panic):
        test(t, unhang)
    t.end()


main()
