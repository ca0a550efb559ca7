#!/usr/bin/env python3
"""unhang run around HIP programs on ROCm's own runtime, over the KFD without silicon (kfd.py): how they end, what is saved, what follows."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import emulated
import job
import kfd
import tap

OPEN = "gpu gfx90a"
FAULT = "gpu gfx90a; fault kernel fill launch 7 at argument 0 plus 4M"
HANG = "gpu gfx90a; hang kernel saxpy launch 4"


class GpuJob(job.Job):
    def __init__(self, unhang, programs):
        super().__init__(unhang)
        self.programs = programs
        # Not where others look for recordings of the machine: their tests run at the same time.
        self.room = tempfile.TemporaryDirectory(prefix="job-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.unhang.environment.update(programs.environment(OPEN), UNHANG_RECORDING=f"{self.room.name}/%p.recording")

    def go(self, plan, command, *options, **env):
        """@plan: for each try one, the last for all that follow; @command: of a shell, in which P is the program."""
        plans = [plan] if isinstance(plan, str) else plan
        count = self.unhang.directory / f"count{self.n + 1}"
        choose = f"P={self.programs.program}; echo x >> {count}; case $(wc -l < {count}) in "
        choose += "".join(f"{i}) UNHANG_KFD='{p}' ;; " for i, p in enumerate(plans[:-1], 1)) + f"*) UNHANG_KFD='{plans[-1]}' ;; esac; export UNHANG_KFD; "
        done = self.run(job.shell(choose + command), "--delay", "0", *options, env=env)
        done.tries = done.report["tries"]
        return done


def rows(done, *keys):
    found = [tuple(x["decision"] and x["decision"][k[2:]] if k.startswith("d.") else x[k] for k in keys) for x in done.tries]
    return found if len(keys) > 1 else [x[0] for x in found]


def test_ends_well(t, j):
    done = j.go(OPEN, "exec $P series 5")
    t.same((done.returncode, done.stdout, done.stderr, rows(done, "ended")), (0, b"launched\nseries 5\n", b"", ["done"]), "a job that ends well: not a word")
    t.ok(done.tries[0]["packets"] >= 10 and done.tries[0]["recordings"] == 1 and not done.report["wrong"], "and was recorded", done.tries[0])
    done = j.go(OPEN, "exec $P places")
    t.ok(done.returncode == 0 and rows(done, "ended") == ["no-launch"] and b"launched nothing on a GPU" in done.stderr, "one that launched nothing is told so", done.stderr)


def test_deterministic(t, j):
    done = j.go(FAULT, "exec $P series 20", "--restart", 5)
    t.same((done.returncode, rows(done, "ended", "level", "kernel", "launch", "d.row", "d.do")),
           (134, [("gpu-fault", 1, "fill(float*, float, int)", 7, "gpu-first", "restart"), ("gpu-fault", 3, "fill(float*, float, int)", 7, "deterministic", "stop")]),
           "a fault at the same launch: once more with arguments, then it stops")
    said = done.stderr
    t.ok(b"the fault is deterministic" in said and done.tries[1]["filter"] == "_Z4fillPffi" and not done.report["wrong"], "and says why", said)
    t.same(rows(done, "class", "fault"), [("gpu-page-fault-unmapped", "job")] * 2, "with its diagnosis")
    bundles = [pathlib.Path(x["bundle"]) for x in done.tries]
    answers = [j.unhang.explain(b) for b in bundles]
    t.same([a.classes[:1] for a in answers], [["gpu-page-fault-unmapped"]] * 2, "its bundles can be explained")
    # The fault held the process, so its maps and stacks are there; a machine that is too busy for the five seconds of a hold says so.
    saved = [subprocess.run(["tar", "-xOf", b, "answers/processes"], capture_output=True).stdout for b in bundles]
    held = [b"programs" in s or "were gone before" in (x["lacking"] or "") for s, x in zip(saved, done.tries)]
    t.same(held, [True, True], "which were taken while the process existed")
    arguments = [any(e.get("event") for e in a.first.timeline) and a.first.value("arguments") for a in answers]
    t.ok(not arguments[0] and arguments[1], "the second knows more", arguments)


def test_kinds(t, j):
    """Other launches of a kernel, then another kernel; then the same fault again, which --on-repeat ends. At level 5 a queue runs ahead of what is known
    of it: while only fill is held back, saxpy behind it may be the one, so the filter goes."""
    plans = [f"gpu gfx90a; fault kernel {kernel} launch {n} at argument 0 plus 4M" for kernel, n in (("fill", 3), ("fill", 4), ("saxpy", 3), ("saxpy", 3), ("saxpy", 3), ("saxpy", 3))]
    done = j.go([*plans, OPEN], "echo seed $SEED >&2; exec $P series 20", "--restart", 9, "--on-repeat", "SEED=2")
    fill, saxpy = "fill(float*, float, int)", "saxpy(float const*, float*, float, int)"
    t.same((done.returncode, rows(done, "level", "filter", "kernel", "launch", "d.row")),
           (0, [(1, None, fill, 3, "gpu-first"), (3, "_Z4fillPffi", fill, 4, "raise-to-5"), (5, "_Z4fillPffi", f"{fill} or {saxpy}", None, "other-fault"),
                (5, None, saxpy, 3, "other-fault"), (5, "_Z5saxpyPKfPffi", f"{saxpy} or {fill}", None, "other-fault"), (5, None, saxpy, 3, "deterministic-changed"),
                (5, None, None, None, None)]),
           "the same kind raises the level, another fault changes the suspect, the same fault is met with --on-repeat")
    t.same([line.split()[1:] for line in done.stderr.decode().splitlines() if line.startswith("seed")], [[]] * 6 + [["2"]], "which the job gets")


def test_hang(t, j):
    if not emulated.possible(j.unhang):
        t.skip("a hang in an emulated machine", "no FUSE or no name spaces")
        x = j.go(HANG, "exec $P series 20", "--hang-after", 1).tries[0]
        t.ok("no queue of the job moved" in x["because"] and x["launch"] == 4, "a hang by the votes of its queues", x)
        return
    scenario = j.unhang.write("hang.scenario", kfd.SCENARIO.format("hang kernel saxpy launch 4"))
    left = "ls /sys/class/kfd/kfd/proc; echo left"
    inside = ["env", "-u", "UNHANG_KFD", "sh", "-c", f'"$@"; echo status $?; {left}', "sh", *map(str, j.arguments("--hang-after", 2)), "--", str(j.programs.program), "series", "20"]
    done = j.unhang.run("emulate", scenario, "--", *inside, timeout=120)
    report = j.report()
    x = report["tries"][0]
    t.same((x["ended"], x["kernel"], x["launch"], bool(x["bundle"]), report["wrong"]), ("gpu-hang", "saxpy(float const*, float*, float, int)", 4, True, []), "a hang names the kernel and its launch")
    t.ok("the GPU does not move either" in x["because"], "where the GPU can be seen, it is looked at", x)
    t.ok(x["title"] and "endless loop" in x["title"], "and the diagnosis is of the silicon", x)
    t.same(done.stdout.decode().split("status ")[-1], "143\nleft\n", "KFD has let go of it")


def test_host(t, j):
    """An abort of the host's code in two ranks of a node, each under its own unhang run."""
    state = j.unhang.directory / "ranks"
    ranks = [j.go(OPEN, "$P series 3; kill -ABRT $$", "--state-dir", state, RANK=n, WORLD_SIZE="8", TORCHELASTIC_RUN_ID="job") for n in "01"]
    done = ranks[0]
    t.same((done.returncode, rows(done, "ended", "signal", "d.row", "d.level")), (134, [("signal", 6, "crash-first", 3)]), "an abort on the host beside the GPU")
    t.ok("were gone before" in done.tries[0]["lacking"] and done.tries[0]["bundle"], "of which little is left, which is said", done.tries[0])
    t.ok(not ranks[1].tries[0]["bundle"] and "Another rank" in ranks[1].tries[0]["lacking"], "one rank of a node saves the bundle", ranks[1].tries[0])


LAUNCHER = """
import os, signal, subprocess, sys, time
program, fault, plan = sys.argv[1:4]
ranks = []
for rank in range(8):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "8", "UNHANG_KFD": fault if rank == 5 else plan}
    ranks.append(subprocess.Popen([program, "series", "20"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
while not any(r.poll() not in (None, 0) for r in ranks): time.sleep(0.01)
time.sleep(0.1)
for r in ranks: r.kill()
for r in ranks: r.wait()
sys.exit(1)
"""


def test_ranks(t, j):
    launcher = j.unhang.write("launcher.py", LAUNCHER)
    done = j.go(OPEN, f"exec {sys.executable} {launcher} $P '{FAULT}' 'gpu gfx90a; hang kernel saxpy launch 2'")
    x = done.tries[0]
    t.same((done.returncode, x["ended"], x["rank"], x["kernel"], x["launch"], x["recordings"]), (1, "gpu-fault", 5, "fill(float*, float, int)", 7, 8),
           "of eight ranks the one is named that failed first")
    t.same((job.still_there(str(j.programs.program)), os.listdir(j.room.name)), ([], []), "nothing is left")


def test_crash_diagnostics(t, j):
    file = j.unhang.directory / "crash.json"
    hooks = j.unhang.directory / "hooks"
    hooks.mkdir()
    hook = j.unhang.write("hooks/tell", f"#!/bin/sh\nenv | grep UNHANG_ > {j.unhang.directory}/hook.env\ncat > {j.unhang.directory}/hook.json\n")
    hook.chmod(0o755)
    done = j.go(FAULT, "exec $P series 20", "--crash-diagnostics", file, "--hooks", hooks, "--level", 10, "--allow-inputs", "--cores", "keep")
    found = json.loads(file.read_text())
    t.ok(list(found)[:5] == ["kernel_api_log", "last_kernel_boundary", "crash_dumps", "gpu_arch", "exit_code"], "crash diagnostics have the keys that agents know", list(found))
    t.same((found["exit_code"], found["gpu_arch"], "fill(" in found["last_kernel_boundary"], found["kernel_api_log"].count("\n") > 10, "\n" in found["failure_reason"]),
           (134, "gfx90a", True, True, False), "with their values")
    t.ok(found["crash_dumps"] and all(pathlib.Path(p).exists() and p.startswith(done.report["directory"]) for p in found["crash_dumps"]), "inputs lie in the run's directory", found["crash_dumps"])
    told = json.loads((j.unhang.directory / "hook.json").read_text())
    t.ok(told["schema"] == "unhang/run/1" and "UNHANG_ENDED=gpu-fault" in (j.unhang.directory / "hook.env").read_text(), "hooks get the report", done.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    if not shutil.which("hipcc") or not programs.library.exists():
        tap.skip_all("no hipcc here")
    complaint = programs.compile()
    if complaint:
        tap.skip_all(f"hipcc cannot compile: {complaint.splitlines()[0]}")
    j = GpuJob(unhang, programs)
    for test in (test_ends_well, test_deterministic, test_kinds, test_hang, test_host, test_ranks, test_crash_diagnostics):
        test(t, j)
    t.end()


if __name__ == "__main__":
    main()
