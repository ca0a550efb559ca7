#!/usr/bin/env python3
"""tests/run itself, on tests that are made here (a meson of our own lists them), and its table of rooms on the real ones."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import tap

RUN = tap.HERE / "run"
LONG = 300  # seconds that are never reached unless something is broken

MESON = """#!/bin/sh
exec cat "$2/tests.json"
"""
PASSES = "print('1..2'); print('ok 1 - water is wet'); print('ok 2 - fire is hot # SKIP no fire')"
FAILS = "print('ok 1 - a'); print('not ok 2 - ice is cold'); print('# wanted 0'); [print(f'ok {n} - filler') for n in range(3, 200)]; print('1..199'); raise SystemExit(1)"
STOPS = "print('1..3'); print('ok 1 - the first')"
SILENT = "pass"
CRASHES = "import os; print('1..2'); print('ok 1 - the first'); os.kill(os.getpid(), 11)"
# A child that does not end with its parent: it ignores the polite signal and keeps the output open.
HANGS = """
import os, pathlib, signal, time
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path('orphan').write_text(str(os.getpid()))
    time.sleep(%d)
print('ok 1 - before it hung')
time.sleep(%d)
""" % (LONG, LONG)
WAITS = """
import pathlib, time
end = time.monotonic() + %d
while not pathlib.Path('flag').exists() and time.monotonic() < end:
    time.sleep(0.02)
print('ok 1 - waited' if pathlib.Path('flag').exists() else 'not ok 1 - waited'); print('1..1')
""" % (LONG // 2)
MARKS = "import pathlib; pathlib.Path('ran').write_text(''); print('ok 1 - marked'); print('1..1')"


class Build:
    """A build directory with these tests: {name: (code, priority, deadline)}."""

    def __init__(self, **tests):
        self.room = tempfile.TemporaryDirectory(prefix="unhang-runner-")
        self.path = pathlib.Path(self.room.name)
        (self.path / "build.ninja").write_text("")
        (self.path / "bin").mkdir()
        (self.path / "bin/meson").write_text(MESON)
        (self.path / "bin/meson").chmod(0o755)
        listed = [{"name": name, "cmd": [sys.executable, "-c", code] if code else ["not-built"], "env": {}, "priority": priority, "timeout": deadline}
                  for name, (code, priority, deadline) in tests.items()]
        (self.path / "tests.json").write_text(json.dumps(listed))
        # meson introspect BUILD: the second argument is the directory.
        self.environment = {**os.environ, "PATH": f"{self.path}/bin:{os.environ['PATH']}"}

    def start(self, *arguments):
        return subprocess.Popen([str(RUN), str(self.path), *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments):
        child = self.start(*arguments)
        out = child.communicate(timeout=LONG)[0]
        return child.returncode, out


def lives(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_counts(t):
    status, out = Build(good=(PASSES, 0, LONG)).run()
    t.same((status, out.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"), "the last line counts what passed, failed and was skipped")
    status, out = Build(good=(PASSES, 0, LONG), bad=(FAILS, 0, LONG)).run()
    t.same((status, out.splitlines()[-1]), (1, "199 passed, 1 failed, 1 skipped"), "a case that fails is counted, and the status says so")
    t.ok(re.search(r"^ +not ok 2 - ice is cold\n +# wanted 0$", out, re.M), "a case that fails is shown with what it said, however much came after it", out[-800:])
    t.ok("filler" not in out, "cases that passed are not shown", out[-800:])
    t.ok(re.search(r"^FAIL  .*: bad: ice is cold$", out, re.M), "what failed is named once more at the end", out[-800:])
    for name, code, why in (("stops", STOPS, "ended after 1 of 3 cases"), ("silent", SILENT, "ended after 0 of 0 cases"), ("crashes", CRASHES, "was ended by signal 11")):
        status, out = Build(**{name: (code, 0, LONG)}).run()
        t.ok(status == 1 and f": {name}: {why}" in out and "1 failed" in out.splitlines()[-1], f"a test that {why} has failed", out)
    status, out = Build(absent=(None, 0, LONG), good=(PASSES, 0, LONG)).run()
    t.ok(status == 1 and "it cannot be started" in out and "1 passed, 1 failed" in out.splitlines()[-1], "a test that is not built has failed, and the others run", out)


def test_hung(t):
    build = Build(hangs=(HANGS, 1, 1), good=(PASSES, 0, LONG))
    status, out = build.run("-j", "1")
    t.ok(status == 1 and re.search(r": hangs: did not end within \d+ s and was killed", out), "a test that hangs is killed in its time, named, and has failed", out)
    t.ok("before it hung" in out, "its last output is shown", out)
    t.ok(out.splitlines()[-1].startswith("2 passed, 1 failed"), "the other tests run", out)
    t.ok(tap.wait_for(lambda: not lives((build.path / "orphan").read_text())), "its children are killed with it")


def test_stopped(t):
    for number in (signal.SIGTERM,):  # SIGINT is ignored by what a shell started in the background
        build = Build(hangs=(HANGS, 0, LONG))
        child = build.start()
        begun = tap.wait_for(lambda: (build.path / "orphan").exists() and (build.path / "orphan").read_text())
        child.send_signal(number)
        child.communicate(timeout=LONG)
        t.ok(begun and child.returncode and tap.wait_for(lambda: not lives((build.path / "orphan").read_text())), f"{number.name} ends the runner and what it had started")


def test_as_they_come(t):
    build = Build(late=(WAITS, 9, LONG), early=(PASSES, 0, LONG))
    child = build.start("-j", "2")
    first = child.stdout.readline()
    (build.path / "flag").write_text("")
    rest = child.communicate(timeout=LONG)[0]
    t.ok(": early: 1 passed" in first and ": late: 1 passed" in rest, "a result is shown as soon as it is there, also where an earlier test still runs", first + rest)
    _, out = Build(short=(PASSES, 0, LONG), long=(PASSES, 7, LONG)).run("-j", "1")
    t.same(re.findall(r"^ok .*: (\w+):", out, re.M), ["long", "short"], "the long ones begin first")


def test_fail_fast(t):
    build = Build(bad=(FAILS, 0, LONG), mark=(MARKS, 5, LONG))
    status, out = build.run("bad", "mark", "--fail-fast", "-j", "1")
    t.ok(status == 1 and not (build.path / "ran").exists(), "--fail-fast ends with the first test that fails", out)
    build = Build(hangs=(HANGS, 0, LONG), bad=(FAILS, 0, LONG))
    status, out = build.run("--fail-fast", "-j", "2")
    t.ok(status == 1 and ": bad: ice is cold" in out and ": hangs:" not in out, "and does not wait for those that still run", out)


def test_names(t):
    build = Build(alpha=(PASSES, 0, LONG), alphabet=(PASSES, 0, LONG), beta=(PASSES, 0, LONG))
    for arguments, wanted in ((["alpha"], ["alpha"]), (["alp"], ["alpha", "alphabet"]), (["*et*"], ["alphabet", "beta"]), (["beta", "alpha"], ["beta", "alpha"])):
        t.same(build.run("--list", *arguments)[1].split(), wanted, f"{' '.join(arguments)} names {' and '.join(wanted)}")
    status, out = build.run("gamma")
    t.ok(status and "no test is named gamma" in out and "alphabet" in out, "a name that there is not: an error that lists those that there are", out)
    t.ok("water is wet" in build.run("alpha")[1], "the output of tests that were named is shown whole")


def test_suites(t, build):
    rows = [line.split("#")[0].split() for line in (tap.HERE / "suites").read_text().splitlines()]
    table = {row[0]: row[1:] for row in rows if row}
    listed = subprocess.run(["meson", "introspect", str(build), "--tests"], capture_output=True, text=True).stdout
    tests = {test["name"] for test in json.loads(listed)}
    rooms = {path.name for path in (tap.HERE / ".." / "src").iterdir() if path.is_dir()} | {"emulator", "recorder"}
    t.same(sorted(rooms - set(table)), [], "tests/suites has a row for every room")
    built_once = {"register_tables"}  # not in builds with sanitizers
    t.same(sorted(set(sum(table.values(), [])) - tests - built_once), [], "every test in tests/suites is one that meson.build has")
    t.same(sorted(tests - set(sum((row for name, row in table.items() if name in rooms | {"all"}), []))), [], "every test that meson.build has is in a row of tests/suites")
    run = subprocess.run([str(RUN), "--list", "--room", "diagnose"], capture_output=True, text=True)
    t.same(run.stdout.splitlines(), table["diagnose"], "--list --room prints the tests of a room, one on each line")
    run = subprocess.run([str(RUN), "--list", "--room", "cellar"], capture_output=True, text=True)
    t.ok(run.returncode == 2 and not run.stdout, "a room that there is not: an error", run.stderr)


def main():
    t = tap.Tap()
    test_counts(t)
    test_hung(t)
    test_stopped(t)
    test_as_they_come(t)
    test_fail_fast(t)
    test_names(t)
    test_suites(t, pathlib.Path(sys.argv[1]).resolve().parent)
    t.end()


if __name__ == "__main__":
    main()
