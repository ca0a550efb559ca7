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
from tap import Tap, Unhang

SCHEMA = jsonschema.Draft202012Validator(json.loads((tap.HERE / ".." / "docs" / "check.schema.json").read_text()))
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
MS = 1000


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def gpu(n=0, **more):
    return {"pci": f"0000:{0x85 + n:02x}:00.0", "unique_id": f"u{n}", "serial": f"S{n}", "slot": str(n), "partition": "SPX", "health": "idle", "says": None, "unwell": False, "seen": True,
            "unowned_since": None, "progress": "idle", "progress_says": None, **more}


def incident(action="restart-program", fit="yes", fault="job", **more):
    return {"id": "0123456789abcdef", "state": "open", "class": "mes-unresponsive", "title": "The scheduler firmware (MES) stopped answering to python (4242)", "fault": fault,
            "action": action, "fit": fit, "host": "node1", "boot_id": BOOT, "gpu": {"pci": "0000:85:00.0", "unique_id": "u0", "serial": "S0"}, "origin": "log", "job": "python", "pid": 4242,
            "revision": 2, "began": utc(time.time() - 60), "changed": utc(time.time()), "ended": None, "closed_by": None, "events": 3, "bundle": "taken", "votes": None, **more}


def state(gpus=None, incidents=(), **more):
    now = time.time()
    return {"schema": "unhang/watch-state/1", "host": "node1", "boot_id": BOOT, "written": utc(now), "valid_until": utc(now + 180), "looked": utc(now), "log_overruns": 0, "log_unread": None,
            "progress_unread": None, "gpus": [gpu()] if gpus is None else gpus, "incidents": list(incidents), **more}


def old(seconds=3600):
    then = time.time() - seconds
    return {"written": utc(then), "valid_until": utc(then + 180)}


AGO = utc(time.time() - 100)
EIGHT = [gpu(n) for n in range(8)]
OTHER = "00000000-0000-0000-0000-000000000000"
# name, state, options, status, class; the exit statuses follow from the status
STATES = [
    ("healthy", state(), [], "healthy", None),
    ("eight of eight", state(EIGHT), ["--expect-gpus", "8"], "healthy", None),
    ("one of eight is missing", state(EIGHT[:7]), ["--expect-gpus", "8"], "failed", "gpu-missing"),
    ("a job's fault", state(incidents=[incident()]), [], "degraded", "mes-unresponsive"),
    ("a job's fault that needs a reboot", state(incidents=[incident("reboot", "no")]), [], "failed", "mes-unresponsive"),
    ("a reset is needed", state(incidents=[incident("reset", "no", "driver")]), [], "failed", "mes-unresponsive"),
    ("the power must be switched", state(incidents=[incident("power-cycle", "no", "node")]), [], "failed", "mes-unresponsive"),
    ("a part must be replaced", state(incidents=[incident("replace", "no", "node")]), [], "failed", "mes-unresponsive"),
    ("replace of an earlier boot", state(incidents=[incident("replace", "no", "node", boot_id=OTHER)]), [], "failed", "mes-unresponsive"),
    ("a reset that runs", state(incidents=[incident("nothing", "no", "driver")]), [], "unknown", "mes-unresponsive"),
    ("not explained yet", state(incidents=[incident(None, None, None, title=None, **{"class": None})]), [], "unknown", "unexplained"),
    ("only suspected", state(incidents=[incident(None, None, None, state="suspected")]), [], "degraded", "mes-unresponsive"),
    ("hung, its owner lives", state([gpu(unwell=True, health="hung", says="it hangs")]), [], "degraded", "gpu-unwell"),
    ("hung since its owner ended", state([gpu(unwell=True, health="hung", unowned_since=AGO)]), [], "failed", "gpu-stuck-without-owner"),
    ("hung for a moment without owner", state([gpu(unwell=True, health="hung", unowned_since=utc(time.time() - 5))]), [], "degraded", "gpu-unwell"),
    ("off the bus", state([gpu(unwell=True, health="off-bus")]), [], "failed", "gpu-off-bus"),
    ("one of eight not seen", state([*EIGHT[:7], gpu(7, seen=False)]), [], "unknown", "gpu-unseen"),
    ("one failed, one not seen", state([gpu(unwell=True, health="off-bus"), gpu(1, seen=False)]), [], "failed", "gpu-off-bus"),
    ("the log is not read", state(log_unread="/dev/kmsg: Permission denied"), [], "unknown", "log-unread"),
    ("silent hangs are not seen", state(progress_unread="no debugfs"), [], "degraded", "progress-unread"),
    ("not looked yet", state([], looked=None), [], "unknown", "not-looked-yet"),
    ("no GPU", state([]), [], "unknown", "no-gpu"),
    ("another partition", state(), ["--expect-partition", "CPX"], "failed", "other-partition"),
    ("that partition", state(), ["--expect-partition", "SPX"], "healthy", None),
    ("stale and healthy", state(**old()), [], "unknown", "not-watched"),
    ("stale and failed", state(incidents=[incident("reboot", "no")], **old()), [], "failed", "mes-unresponsive"),
    ("of another boot", state(boot_id=OTHER), [], "unknown", "not-watched"),
    ("of another boot and failed", state(incidents=[incident("reboot", "no")], boot_id=OTHER), [], "unknown", "not-watched"),
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
    ("smoke test of another boot failed", {**state(), "smoke": "failed", "smoke_boot": OTHER}, [], "healthy", None),
    ("smoke test never ended", {**state(), "smoke": "running", "smoke_ago": 2000}, [], "failed", "smoke-test-failed"),
]
EXIT = {"healthy": 0, "degraded": 0, "unknown": 2, "failed": 1}


def write(unhang, found):
    """The run directory with this state."""
    place = unhang.directory / "run"
    place.mkdir(exist_ok=True)
    for name in ("state.json", "smoke.json"):
        (place / name).unlink(missing_ok=True)
    if isinstance(found, dict):
        found = dict(found)
        smoke, boot, ago = found.pop("smoke", None), found.pop("smoke_boot", BOOT), found.pop("smoke_ago", 0)
        if smoke:
            (place / "smoke.json").write_text(json.dumps({"schema": "unhang/smoke/1", "boot_id": boot, "result": smoke, "written": utc(time.time() - ago), "says": None}))
        found = json.dumps(found)
    if found is not None:
        (place / "state.json").write_text(found)
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
        t.ok("python" not in reason and len(reason) <= 120 and (status == "healthy" or reason.startswith("[unhang ")), "a reason that names no program", reason)
        document = json.loads(next(published.iterdir()).read_text())
        t.no_complaints([e.message for e in SCHEMA.iter_errors(document)], f"{name}: the document is as its schema says")
        t.same((document["status"], document["class"]), (status, cause), "and has the cause")
        t.ok("python" not in json.dumps(document), "what is published names no program", document)
        npd = ask(unhang, place, "--npd", *options)
        t.same((npd.returncode, len(npd.stdout.decode().strip()) <= 80, npd.stdout.count(b"\n")), ({"failed": 1, "unknown": 2}.get(status, 0), True, 1), "node-problem-detector gets one short line")
        metrics = unhang.directory / "unhang.prom"
        ask(unhang, place, "--prometheus", metrics, *options)
        t.ok(f'status="{status}"}} 1\n' in metrics.read_text() and "python" not in metrics.read_text() and "0123456789abcdef" not in metrics.read_text(), "metrics have the status, no incident and no program", metrics.read_text())


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
    run = unhang.run("check", "--prometheus", unhang.directory / "nowhere" / "x.prom")
    t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1, "a file that cannot be written is told", run.stderr)


def test_speed(t, unhang):
    place, began, times = write(unhang, state(EIGHT)), time.monotonic(), 1000 if os.environ.get("UNHANG_TEST_ALL") else 30
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


def test_remembered(t, unhang, emulator):
    """A look that sees a GPU well does not forget what the watch knew."""
    for name, found, more in (("of a watch that died", state(incidents=[incident("reboot", "no")], **old()), []), ("of a watch that lives", state(incidents=[incident("reboot", "no")]), ["--look"])):
        place = write(unhang, found)
        run = subprocess.run([unhang.binary, "emulate", "idle", "--", unhang.binary, "check", "--run-dir", place, "--json", *more], capture_output=True,
                             env={**unhang.environment, "UNHANG_EMULATOR": str(emulator)}, check=False, timeout=60)
        if b"cannot" in run.stderr and not run.stdout:
            t.skip(name, "no machine can be emulated here")
            continue
        found = json.loads(run.stdout)
        t.same((found["status"], found["source"], found["class"], run.returncode), ("failed", "look", "mes-unresponsive", 1), f"a failure {name} stays known")


def test_hosts(t, unhang):
    """unhang fleet check, with a program in place of ssh."""
    ssh = unhang.write("ssh", '#!/bin/sh\ncase $6 in n01) s=healthy;; n02) s=failed;; n03) exec sleep 60;; n04) exit 255;; esac\n'
                              'echo "{\\"schema\\": \\"unhang/check/1\\", \\"status\\": \\"$s\\", \\"says\\": \\"it is $s\\"}"\n')
    ssh.chmod(0o755)
    run = unhang.run("fleet", "check", "--ssh", ssh, "n[01-02],n04", timeout=60)
    t.ok(run.returncode == 1 and b"3 nodes: 1 healthy, 0 degraded, 1 unknown, 1 failed" in run.stdout and b"n01" not in run.stdout, "the worst of all nodes, and a table of those that are not well", run.stdout)
    t.same(unhang.run("fleet", "check", "--ssh", ssh, "n01").returncode, 0, "all are well")
    for hosts in ("-oProxyCommand=x", "a;b", "n[1-", "n[3-1]", ""):
        t.same(unhang.run("fleet", "check", "--ssh", ssh, hosts).returncode, 2, f"{hosts}: no list of hosts")


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    test_states(t, unhang)
    test_trust(t, unhang)
    test_speed(t, unhang)
    test_hosts(t, unhang)
    test_looks(t, unhang, sys.argv[2])
    test_remembered(t, unhang, sys.argv[2])
    t.end()


main()
