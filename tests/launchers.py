#!/usr/bin/env python3
"""unhang run under torchrun and Slurm as they are: `make launchers`, as root. Not in `make test`: their packages are large."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import job_gpu
import kfd
import tap

FILL = ("gpu-fault", "fill(float*, float, int)", 7)
# What Debian's torch 1.13 needs under Python 3.11, where Std("0") has no member; others do not mind.
TORCHRUN = """#!/usr/bin/python3
import sys
from torch.distributed.elastic.multiprocessing import api
old = api.Std.from_str.__func__
api.Std.from_str = classmethod(lambda cls, text: api.Std.NONE if text == "0" else old(cls, text))
from torch.distributed.run import main
sys.exit(main())
"""
# Rank 2 fails in the way that the first argument says; the others wait for it.
RANK = """import os, sys
rank = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])
failing, others = {"fault": (FAULT, OPEN), "hang": ("gpu gfx90a; hang kernel saxpy launch 4", "gpu gfx90a; hang kernel saxpy launch 6"), "none": (OPEN, OPEN)}[sys.argv[1]]
os.environ["UNHANG_KFD"] = failing if rank == 2 else others
os.execv(PROGRAM, [PROGRAM, "series", "20", ",", "wait", "1000000"])
"""
SLURM = """ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={place}/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Launchers(job_gpu.GpuJob):
    def __init__(self, unhang, programs):
        super().__init__(unhang, programs)
        names = f"FAULT, OPEN, PROGRAM = {job_gpu.FAULT!r}, {job_gpu.OPEN!r}, {str(programs.program)!r}\n"
        self.rank = ["/usr/bin/python3", str(unhang.write("rank.py", names + RANK))]
        self.torchrun = unhang.write("torchrun", TORCHRUN)
        self.torchrun.chmod(0o755)

    def start(self, command, **more):
        return subprocess.run(list(map(str, command)), env=self.unhang.environment, cwd=self.place, capture_output=True, text=True, timeout=120, **more)

    def reports(self, state):
        return [json.loads(p.read_text()) for p in sorted(pathlib.Path(state).glob("*/report.json"))]

    def wrapper(self, name, *options):
        self.state = self.unhang.directory / name
        return [self.unhang.binary, "run", "--state-dir", self.state, *options, "--"]


def failure(x):
    return x["ended"], x["kernel"], x["launch"]


def test_torchrun(t, j):
    launch = [j.torchrun, "--nproc_per_node", 4]
    done = j.start([*j.wrapper("around", "--restart", 1, "--delay", 0), *launch, *j.rank[1:], "fault"])
    tries = j.reports(j.state)[0]["tries"]
    t.same((done.returncode, [(*failure(x), x["rank"], x["level"]) for x in tries]), (1, [(*FILL, 2, 1), (*FILL, 2, 3)]), "around torchrun: the rank, the kernel, the launch, and what follows")
    for job in (1, 2):
        done = j.start([*launch, "--max_restarts", 1, "--no_python", *j.wrapper("each"), *j.rank, "fault"])
        ranks = [r for r in j.reports(j.state) if r["rank"] == 2]
        t.same((done.returncode, [[(*failure(x), x["level"], bool(x["bundle"])) for x in r["tries"]] for r in ranks]), (1, [[(*FILL, 1, True), (*FILL, 3, True)]] * job),
               f"around each rank, job {job}: torchrun's restarts are tries, and each has its bundle")


class Slurm:
    def __init__(self, unhang):
        place, ports = unhang.directory / "slurm", []
        for name in ("state", "spool"):
            (place / name).mkdir(parents=True)
        for _ in range(2):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                ports.append(s.getsockname()[1])
        unhang.write("slurm/slurm.conf", SLURM.format(host=socket.gethostname().split(".")[0], ports=ports, place=place))
        unhang.write("slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        unhang.write("slurm/key", os.urandom(1024)).chmod(0o400)
        unhang.environment["SLURM_CONF"] = str(place / "slurm.conf")
        self.daemons = [subprocess.Popen(c, env=unhang.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in (
            ["munged", "-F", "--force", f"--key-file={place}/key", f"--socket={place}/munge", f"--pid-file={place}/munge.pid", f"--log-file={place}/munge.log", f"--seed-file={place}/seed"],
            ["slurmctld", "-D"], ["slurmd", "-D"])]
        self.ready = tap.wait_for(lambda: subprocess.run(["sinfo", "-h", "-o", "%T"], env=unhang.environment, capture_output=True, text=True).stdout.strip() == "idle")

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(timeout=60)


def batch(j, command, *options):
    """The number of the job that runs it."""
    script = j.unhang.write("batch", "#!/bin/sh\nexec " + " ".join(map(str, command)) + "\n")
    return j.start(["sbatch", "--parsable", "--ntasks", 4, "--output", j.unhang.directory / "%j.out", *options, script]).stdout.strip()


def gone(j, number):
    return tap.wait_for(lambda: not j.start(["squeue", "-h", "-j", number]).stdout.strip(), 90)


def running(state, least):
    """Whether so many programs of the run compute."""
    return tap.wait_for(lambda: sum(p.stat().st_size > 32768 for p in pathlib.Path("/dev/shm").glob("unhang-*slurm*/*.recording")) >= least and list(pathlib.Path(state).glob("*/run")))


def test_slurm(t, j):
    done = j.start(["srun", "-n", 4, "--kill-on-bad-exit=1", *j.wrapper("tasks"), *j.rank, "fault"])
    reports = j.reports(j.state)
    t.same((done.returncode, [r["tries"][0]["ended"] for r in reports], failure(reports[2]["tries"][0])), (143, ["stopped", "stopped", "gpu-fault", "stopped"], FILL), "around each task: one fault, and three that Slurm ended")
    t.same(gone(j, batch(j, [*j.wrapper("script"), "srun", "--kill-on-bad-exit=1", *j.rank, "fault"])), True, "in a batch script")
    report = j.reports(j.state)[0]
    t.same((report["launcher"], *failure(report["tries"][0]), report["tries"][0]["rank"]), ("slurm", *FILL, 2), "around srun: the rank, the kernel, the launch")
    number = batch(j, ["srun", *j.wrapper("hang"), *j.rank, "hang"])
    running(j.state, 4)
    time.sleep(8)  # five are enough to call it standing
    j.start(["scancel", number])
    gone(j, number)
    tries = [r["tries"][0] for r in j.reports(j.state)]
    t.same(([x["ended"] for x in tries], [x["launch"] for x in tries], sum(bool(x["bundle"]) for x in tries)), (["stopped"] * 4, [6, 6, 4, 6], 1), "scancel of a job that hangs: each rank's kernel, and one bundle")
    number = batch(j, [*j.wrapper("requeued"), "srun", *j.rank, "none"], "--requeue")
    running(j.state, 4)
    j.start(["scontrol", "requeue", number])
    tap.wait_for(lambda: j.start(["squeue", "-h", "-o", "%T", "-j", number]).stdout.strip() == "PENDING")
    j.start(["scontrol", "update", f"JobId={number}", "StartTime=now"])
    tap.wait_for(lambda: len(j.reports(j.state)[0]["tries"]) == 2, 120)
    j.start(["scancel", number])
    gone(j, number)
    t.same([(r["job"], r["requeues"], [x["number"] for x in r["tries"]]) for r in j.reports(j.state)], [(number, 1, [1, 2])], "a job that is put back into the queue goes on with its tries")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    if not shutil.which("hipcc") or programs.compile():
        tap.skip_all("hipcc cannot compile here")
    j = Launchers(unhang, programs)
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode:
        t.skip("torchrun", "no PyTorch here")
    else:
        test_torchrun(t, j)
        j.check(t, "torchrun")
    if os.geteuid() or not shutil.which("slurmctld"):
        t.skip("Slurm", "not root, or no Slurm here")
    else:
        slurm = Slurm(unhang)
        try:
            if t.ok(slurm.ready, "Slurm runs"):
                test_slurm(t, j)
        finally:
            slurm.end()
        j.check(t, "Slurm")
    t.end()


if __name__ == "__main__":
    main()
