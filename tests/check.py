#!/usr/bin/env python3
"""unhang check: the answer of a node in many states. check.py UNHANG EMULATOR

States of the watch are written as files; others are looked at on emulated machines. UNHANG_TEST_ALL=1: a thousand times in a row."""
import json
import os
import pathlib
import subprocess
import sys
import time

import jsonschema

import tap
from node_states import BOOT, OTHER_BOOT, PROGRAM, gpu, incident, put, state, utc
from tap import Tap, Unhang

SCHEMA = jsonschema.Draft202012Validator(json.loads((tap.HERE / ".." / "docs" / "check.schema.json").read_text()))
MS = 1000
AGO = utc(time.time() - 100)
EIGHT = [gpu(n) for n in range(8)]
# name, state, options, status, class; the exit statuses follow from the status
STATES = [
    ("healthy", state(), [], "healthy", None),
    ("eight of eight", state(gpus=EIGHT), ["--expect-gpus", "8"], "healthy", None),
    ("one of eight is missing", state(gpus=EIGHT[:7]), ["--expect-gpus", "8"], "failed", "gpu-missing"),
    ("a job's fault", state(incidents=[incident(1)]), [], "degraded", "mes-unresponsive"),
    ("a job's fault that needs a reboot", state(incidents=[incident(1, "reboot", "no")]), [], "failed", "mes-unresponsive"),
    ("a reset is needed", state(incidents=[incident(1, "reset", "no", "driver")]), [], "failed", "mes-unresponsive"),
    ("the power must be switched", state(incidents=[incident(1, "power-cycle", "no", "node")]), [], "failed", "mes-unresponsive"),
    ("a part must be replaced", state(incidents=[incident(1, "replace", "no", "node")]), [], "failed", "mes-unresponsive"),
    ("replace of an earlier boot", state(incidents=[incident(1, "replace", "no", "node", boot_id=OTHER_BOOT)]), [], "failed", "mes-unresponsive"),
    ("a reset that runs", state(incidents=[incident(1, "nothing", "no", "driver")]), [], "unknown", "mes-unresponsive"),
    ("not explained yet", state(incidents=[incident(1, None, None, None, title=None, **{"class": None})]), [], "unknown", "unexplained"),
    ("only suspected", state(incidents=[incident(1, None, None, None, state="suspected")]), [], "degraded", "mes-unresponsive"),
    ("hung, its owner lives", state(gpus=[gpu(unwell=True, health="hung", says="it hangs")]), [], "degraded", "gpu-unwell"),
    ("hung since its owner ended", state(gpus=[gpu(unwell=True, health="hung", unowned_since=AGO)]), [], "failed", "gpu-stuck-without-owner"),
    ("hung for a moment without owner", state(gpus=[gpu(unwell=True, health="hung", unowned_since=utc(time.time() - 5))]), [], "degraded", "gpu-unwell"),
    ("off the bus", state(gpus=[gpu(unwell=True, health="off-bus")]), [], "failed", "gpu-off-bus"),
    ("one of eight not seen", state(gpus=[*EIGHT[:7], gpu(7, seen=False)]), [], "unknown", "gpu-unseen"),
    ("one failed, one not seen", state(gpus=[gpu(unwell=True, health="off-bus"), gpu(1, seen=False)]), [], "failed", "gpu-off-bus"),
    ("the log is not read", state(log_unread="/dev/kmsg: Permission denied"), [], "unknown", "log-unread"),
    ("a GPU may be missing", state(gpus_unread="/sys/.../vendor did not answer"), [], "unknown", "gpus-unread"),
    ("silent hangs are not seen", state(progress_unread="no debugfs"), [], "degraded", "progress-unread"),
    ("not looked yet", state(gpus=[], looked=None), [], "unknown", "not-looked-yet"),
    ("no GPU", state(gpus=[]), [], "unknown", "no-gpu"),
    ("another partition", state(), ["--expect-partition", "CPX"], "failed", "other-partition"),
    ("that partition", state(), ["--expect-partition", "SPX"], "healthy", None),
    ("stale and healthy", state(age=3600), [], "unknown", "not-watched"),
    ("stale and failed", state(incidents=[incident(1, "reboot", "no")], age=3600), [], "failed", "mes-unresponsive"),
    ("of another boot", state(boot_id=OTHER_BOOT), [], "unknown", "not-watched"),
    ("of another boot and failed", state(incidents=[incident(1, "reboot", "no")], boot_id=OTHER_BOOT), [], "unknown", "not-watched"),
    ("from the future", state(written=utc(time.time() + 7200), valid_until=utc(time.time() + 7300)), [], "unknown", "not-watched"),
    ("valid for ever", state(valid_until=utc(time.time() + 10 ** 8)), [], "unknown", "not-watched"),
    ("without a time", state(valid_until=None), [], "unknown", "not-watched"),
    ("cut", json.dumps(state())[:200], [], "unknown", "not-watched"),
    ("empty", "", [], "unknown", "not-watched"),
    ("another document", '{"schema": "unhang/diagnosis/1", "gpus": [], "incidents": []}', [], "unknown", "not-watched"),
    ("not there", None, [], "unknown", "not-watched"),
    ("smoke test passed", {**state(), "smoke": "passed"}, [], "healthy", None),
    ("smoke test failed", {**state(), "smoke": "failed"}, [], "failed", "smoke-test-failed"),
    ("smoke test runs", {**state(), "smoke": "running"}, [], "unknown", "smoke-test-runs"),
    ("smoke test of another boot failed", {**state(), "smoke": "failed", "smoke_boot": OTHER_BOOT}, [], "healthy", None),
    ("smoke test never ended", {**state(), "smoke": "running", "smoke_ago": 2000}, [], "failed", "smoke-test-failed"),
]
EXIT = {"healthy": 0, "degraded": 0, "unknown": 2, "failed": 1}


def write(unhang, found):
    """The run directory with this state."""
    place = unhang.directory / "run"
    place.mkdir(exist_ok=True)
    (place / "smoke.json").unlink(missing_ok=True)
    if isinstance(found, dict):
        found = dict(found)
        smoke, boot, ago = found.pop("smoke", None), found.pop("smoke_boot", BOOT), found.pop("smoke_ago", 0)
        if smoke:
            (place / "smoke.json").write_text(json.dumps({"schema": "unhang/smoke/1", "boot_id": boot, "result": smoke, "written": utc(time.time() - ago), "says": None}))
    put(place, found)
    return place


def ask(unhang, place, *options):
    return unhang.run("check", "--run-dir", place, "--state-dir", unhang.directory / "none", *options, timeout=30)


def test_states(t, unhang):
    t.ok(len(STATES) >= 40, "forty states", len(STATES))
    for name, found, options, status, cause in STATES:
        place = write(unhang, found)
        published = unhang.directory / "published"
        published.mkdir(exist_ok=True)
        run = ask(unhang, place, "--slurm", "--publish", published, *options)
        said, fit, reason = run.stdout.decode().rstrip("\n").split("\t")
        t.same((said, run.returncode), (status, EXIT[status]), f"{name}: {status}")
        t.ok(PROGRAM not in reason and len(reason) <= 120 and (status == "healthy" or reason.startswith("[unhang ")), "a reason that names no program", reason)
        document = json.loads(next(published.iterdir()).read_text())
        t.no_complaints([e.message for e in SCHEMA.iter_errors(document)], f"{name}: the document is as its schema says")
        t.same((document["status"], document["class"]), (status, cause), "and has the cause")
        t.ok(PROGRAM not in json.dumps(document), "what is published names no program", document)
        npd = ask(unhang, place, "--npd", *options)
        t.same((npd.returncode, len(npd.stdout.decode().strip()) <= 80, npd.stdout.count(b"\n")), ({"failed": 1, "unknown": 2}.get(status, 0), True, 1), "node-problem-detector gets one short line")
        metrics = unhang.directory / "unhang.prom"
        ask(unhang, place, "--prometheus", metrics, *options)
        t.ok(f'status="{status}"}} 1\n' in metrics.read_text() and PROGRAM not in metrics.read_text() and "0000000000000001" not in metrics.read_text(), "metrics have the status, no incident and no program", metrics.read_text())


def test_trust(t, unhang):
    """Who else could have written the state is not believed."""
    place = write(unhang, state())
    (place / "state.json").chmod(0o666)
    t.same(ask(unhang, place, "--slurm").stdout.decode().split()[0], "unknown", "a state that others may write")
    (place / "state.json").unlink()
    os.mkfifo(place / "state.json")
    t.same(ask(unhang, place, "--slurm").stdout.decode().split()[0], "unknown", "a pipe in its place")
    (place / "state.json").unlink()
    t.same(unhang.run("check", "--slurm", "--look").returncode, 2, "schedulers do not wait for a look")
    for name, path in (("a link", unhang.directory / "link"), ("a pipe", unhang.directory / "pipe")):
        os.mkfifo(path) if name == "a pipe" else path.symlink_to("elsewhere")
        t.same((unhang.run("check", "--prometheus", path).returncode, path.is_fifo() or path.is_symlink()), (2, True), f"metrics: {name} is not replaced")
    t.ok(b"unhang_node_status" in unhang.run("check", "--prometheus", "-").stdout, "metrics: - is standard output", "")
    for option in ("--publish", "--prometheus", "--run-dir", "--state-dir"):
        t.same(unhang.run("check", option, "").returncode, 2, f"{option}: an empty name is refused, and not the root directory")
    t.ok(not pathlib.Path(f"/{os.uname().nodename}.json").exists(), "nothing was written there", "")
    run = unhang.run("check", "--prometheus", unhang.directory / "nowhere" / "x.prom")
    t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1, "a file that cannot be written is told", run.stderr)


def test_speed(t, unhang):
    place, began, times = write(unhang, state(gpus=EIGHT)), time.monotonic(), 1000 if os.environ.get("UNHANG_TEST_ALL") else 30
    wrong = sum(ask(unhang, place, "--slurm").returncode != 0 for _ in range(times))
    t.same(wrong, 0, f"{times} times in a row")
    t.note(f"{MS * (time.monotonic() - began) / times:.1f} ms each")


# Scenario, status: what a look of its own says.
LOOKS = {"idle": "healthy", "busy-healthy": "healthy", "off-bus": "failed", "read-blocks": "failed", "silent-hang": "failed", "fault-mes-dead": "failed", "reset-in-progress": "unknown",
         "mi300-xcc-stuck": "unknown", "gfxoff-wakeup": "failed", "sdma-stuck": "failed", "eight-gpus": "unknown"}


def test_looks(t, unhang, emulator):
    for scenario, status in LOOKS.items():
        # A pipe, as a scheduler reads: whoever keeps it open holds its reader.
        run = subprocess.run([unhang.binary, "emulate", scenario, "--", unhang.binary, "check", "--run-dir", "/nonexistent", "--json"], capture_output=True,
                             env={**unhang.environment, "UNHANG_EMULATOR": str(emulator)}, check=False, timeout=60)
        if b"cannot" in run.stderr and not run.stdout:
            t.skip(scenario, "no machine can be emulated here")
            continue
        found = json.loads(run.stdout)
        t.no_complaints([e.message for e in SCHEMA.iter_errors(found)], f"{scenario}: the document is as its schema says")
        t.same((found["status"], run.returncode, found["source"]), (status, EXIT[status], "look"), f"{scenario}: {status}")
        t.ok(found["gpus"] and all(g["pci"] for g in found["gpus"]) and (scenario != "eight-gpus" or all(g["serial"] and g["slot"] for g in found["gpus"])), "with its GPUs", found["gpus"])


def test_unlisted(t, unhang, emulator):
    """A device that does not say whose it is may be a GPU."""
    for word in ("blocks", "fails EIO"):
        path = unhang.write("unlisted.scenario", f"scenario x\ngpu 0000:03:00.0\n    part gfx1100\ngpu 0000:04:00.0\n    part gfx1100\n    file vendor {word}\n")
        run = subprocess.run([unhang.binary, "emulate", path, "--", unhang.binary, "check", "--run-dir", "/nonexistent", "--json"], capture_output=True,
                             env={**unhang.environment, "UNHANG_EMULATOR": str(emulator)}, check=False, timeout=60)
        if b"cannot" in run.stderr and not run.stdout:
            return t.skip(word, "no machine can be emulated here")
        found = json.loads(run.stdout)
        t.same((found["status"], found["class"], run.returncode), ("unknown", "gpus-unread", 2), f"the vendor's file {word}: unknown")
    return None


def test_remembered(t, unhang, emulator):
    """A look that sees a GPU well does not forget what the watch knew."""
    for name, found, more in (("of a watch that died", state(incidents=[incident(1, "reboot", "no")], age=3600), []), ("of a watch that lives", state(incidents=[incident(1, "reboot", "no")]), ["--look"])):
        place = write(unhang, found)
        run = subprocess.run([unhang.binary, "emulate", "idle", "--", unhang.binary, "check", "--run-dir", place, "--json", *more], capture_output=True,
                             env={**unhang.environment, "UNHANG_EMULATOR": str(emulator)}, check=False, timeout=60)
        if b"cannot" in run.stderr and not run.stdout:
            t.skip(name, "no machine can be emulated here")
            continue
        found = json.loads(run.stdout)
        t.same((found["status"], found["source"], found["class"], run.returncode), ("failed", "look", "mes-unresponsive", 1), f"a failure {name} stays known")


# In place of ssh: n01 is well, n02 failed, n03 never answers, n04 cannot be reached; those behind them lie.
SSH = """#!/bin/sh
host=${{8#*@}} status=healthy asked=$(date -u +%Y-%m-%dT%H:%M:%SZ) boot={boot}
case $8 in
n02) status=failed ;;
n03) sleep 600 & echo $! >{place}/left; exec sleep 600 ;;
n04) printf '\\n\\033[31mssh: connect to host n04 port 22: No route to host\\r\\nmore\\n' >&2; exit 255 ;;
n05) host=n01 ;;
n06) asked=2026-01-01T00:00:00Z ;;
n07) boot=x ;;
n08) sleep 600 & echo $! >{place}/left ;;
n09) (trap '' HUP TERM; setsid sh -c 'sleep 1; exec >&- 2>&-') & ;;
n10) host=n10.cluster.example ;;
n11) exec yes ;;
n12) yes >&2 & ;;
n14) [ "$9" = 'unhang check --json --expect-gpus 8' ] || status=failed ;;
n13) head -c 40000 /dev/zero | tr "\\0" " " ;;
esac
echo "{{\\"schema\\": \\"unhang/check/1\\", \\"status\\": \\"$status\\", \\"says\\": \\"it is $status\\", \\"host\\": \\"$host\\", \\"boot_id\\": \\"$boot\\", \\"asked\\": \\"$asked\\"}}"
"""


def is_alive(pid):
    """A zombie is not: its parent is gone, and here nobody may collect it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_hosts(t, unhang):
    """unhang fleet check, with a program in place of ssh."""
    ssh, left = unhang.write("ssh", SSH.format(boot=BOOT, place=unhang.directory)), unhang.directory / "left"
    ssh.chmod(0o755)

    def fleet(*hosts):
        return unhang.run("fleet", "check", "--ssh", ssh, *hosts, timeout=60)
    run = fleet("n[01-02],n04")
    t.ok(run.returncode == 1 and b"3 nodes: 1 healthy, 0 degraded, 1 unknown, 1 failed" in run.stdout and b"n01" not in run.stdout, "the worst of all nodes, and a table of those that are not well", run.stdout)
    t.ok(b"ssh: connect to host n04 port 22: No route to host\n" in run.stdout and b"\033" not in run.stdout, "why ssh failed is told, in its first line, without what moves a terminal", run.stdout)
    t.same((fleet("n01").returncode, fleet("root@n01").returncode, fleet("n10").returncode, fleet("n01.cluster.example").returncode), (0, 0, 0, 0), "all are well; a name may have a user, or a domain")
    run = fleet("n05")
    t.ok(run.returncode == 2 and b"a host called n01 answered" in run.stdout, "another host's answer is not believed", run.stdout)
    t.same(fleet("n05", "--any-name").returncode, 0, "unless that is allowed")
    run = fleet("n06")
    t.ok(run.returncode == 2 and b"its answer is of 2026-01-01T00:00:00Z" in run.stdout, "nor is an old one", run.stdout)
    t.same(fleet("n07").returncode, 2, "nor one of a boot that is none")
    t.same((fleet("n08").returncode, tap.wait_for(lambda: not is_alive(left.read_text().strip()), 20)), (0, True), "what ssh leaves behind is ended")
    t.same(fleet("n09").returncode, 0, "one that keeps its output open does not hold the answer")
    job = subprocess.Popen([unhang.binary, "fleet", "check", "--ssh", ssh, "n03"], env=unhang.environment, stdout=subprocess.DEVNULL)
    left.unlink()
    tap.wait_for(lambda: left.exists() and left.read_text().strip())
    job.terminate()
    t.same((job.wait(timeout=60), tap.wait_for(lambda: not is_alive(left.read_text().strip()), 20)), (-15, True), "a signal ends it, and all that it started")
    run = fleet("n03")
    t.ok(run.returncode == 2 and b"did not answer in time" in run.stdout and tap.wait_for(lambda: not is_alive(left.read_text().strip()), 20), "one that never answers is ended with its children", run.stdout)
    few = subprocess.run(["prlimit", "--nofile=40", unhang.binary, "fleet", "check", "--ssh", ssh, "--at-once", "1024", "root@n01," * 30], env=unhang.environment, capture_output=True, check=False, timeout=120)
    t.ok(b"30 nodes: 30 healthy" in few.stdout, "with few descriptors, fewer hosts are asked at once", few)
    t.ok(fleet("n11").returncode == 2 and fleet("n12").returncode == 0 and fleet("n13").returncode == 0, "one that never ends its output, or its complaints, holds nobody; spaces are no harm")
    t.same((fleet("n14").returncode, fleet("n14", "--expect-gpus", "8").returncode, fleet("n01", "--expect-gpus", "8", "--command", "x").returncode), (1, 0, 2), "each host is told how many GPUs it must have")
    for hosts in ("-oProxyCommand=x", "a;b", "n[1-", "n[3-1]", ""):
        t.same(fleet(hosts).returncode, 2, f"{hosts}: no list of hosts")


def test_directory(t, unhang):
    """The arbiter does not begin where a stranger could speak for a node."""
    place, nobody = unhang.directory / "nodes", 65534
    place.mkdir()

    def refused(mode, owner=os.geteuid(), *more):
        os.chown(place, owner, -1)
        place.chmod(mode)
        run = unhang.run("fleet", "arbiter", "--nodes", place, "--state-dir", unhang.directory / "arbiter", "--once", *more)
        return run.returncode == 2 and str(place).encode() in run.stderr
    t.same([refused(mode) for mode in (0o755, 0o1777, 0o1775, 0o775, 0o777)], [False, False, False, True, True], "a directory that others may write is refused, unless it is sticky")
    if os.geteuid():
        return t.skip("a directory of another user", "only root can give one away")
    t.same([refused(0o755, nobody), refused(0o755, nobody, "--owner", "nobody")], [True, False], "one of another user is refused, unless he is named")
    run = unhang.run("fleet", "arbiter", "--nodes", "/etc/passwd", "--state-dir", unhang.directory / "arbiter", "--once")
    t.ok(run.returncode == 2 and b"Not a directory" in run.stderr, "a file is no directory", run.stderr)


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    test_states(t, unhang)
    test_trust(t, unhang)
    test_speed(t, unhang)
    test_hosts(t, unhang)
    test_directory(t, unhang)
    test_looks(t, unhang, sys.argv[2])
    test_unlisted(t, unhang, sys.argv[2])
    test_remembered(t, unhang, sys.argv[2])
    t.end()


main()
