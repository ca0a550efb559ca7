#!/usr/bin/env python3
"""RCCL under the flight recorder, on an emulated machine with two GPUs: `make runtimes`. It starts, connects the GPUs and launches. Its kernels wait for each
other's data and are not executed, so that what they would reduce is not looked at."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import emulated
import kfd
import tap

MACHINE = "gpu 0000:03:00.0\n    part gfx90a\ngpu 0000:13:00.0\n    part gfx90a\nkfd\n    {}\n"
KERNEL = "ncclDevKernel"
SAID = re.compile("^Warning: Resource leak .*\n", re.M)  # by HIP, in between
INCIDENT = 6  # seconds: a queue that stands so long is one
WAYS = {"directly": {}, "through host memory": {"NCCL_P2P_DISABLE": "1"}}  # how data would come from one GPU to the other


class Rccl:
    def __init__(self, unhang, library):
        self.unhang, self.library = unhang, library
        self.program = unhang.directory / "reduce"

    def compile(self):
        done = subprocess.run([*kfd.HIPCC, "--offload-arch=gfx90a", "-O1", "-o", self.program, kfd.HIP / "rccl.cpp", "-l:librccl.so.1"], capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def start(self, where, what, level, settings, preload=""):
        command = ["sh", "-c", 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"', preload, self.program] if preload else [self.program]
        scenario = self.unhang.write("two.scenario", MACHINE.format(what))
        # RCCL itself asks for the first, with this HIP and this firmware.
        return subprocess.Popen([self.unhang.binary, "emulate", scenario, "--", *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**self.unhang.environment, "HSA_NO_SCRATCH_RECLAIM": "1", "HSA_TOOLS_LIB": str(self.library), "UNHANG_LEVEL": str(level),
                                     "UNHANG_RECORDING": f"{where}/%p.recording", **settings})

    def launches(self, where):
        """Of RCCL's kernels, by GPU."""
        for path in pathlib.Path(where).glob("*.recording"):
            done = self.unhang.run("last", "--json", "--all", path)
            if done.returncode == 0:
                return [(q["gpu"]["pci"], p) for q in json.loads(done.stdout)["recordings"][0]["queues"] for p in q["packets"] if KERNEL in (p.get("kernel") or "")]
        return []


def test_reduce(t, r):
    for way, level in ((way, level) for way in WAYS for level in (1, 3)):
        with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm") as where:
            job = r.start(where, "slow launch 1 0", level, WAYS[way])
            out, _ = job.communicate(timeout=300)
            t.ok("GPUs 2\ninit 0 ranks 2\n" in out, f"{way}, level {level}: it starts and connects two GPUs", out[-800:])
            t.ok(job.returncode == 0 and "reduce 0\nwait 0\nwait 0\nend 0\nend 0\n" in SAID.sub("", out), f"{way}, level {level}: it reduces and ends", f"{job.returncode} {out[-800:]}")
            launches = r.launches(where)
            t.same((len(launches), len({gpu for gpu, _ in launches})), (2, 2), f"{way}, level {level}: a kernel on each GPU is recorded")


def test_registered(t, r):
    """Buffers of the guard's and the pool's lie inside of their mappings. Registered with RCCL they do as HIP's own do."""
    for name, settings in (("HIP", None), ("guard", {"UNHANG_GUARD": "1"}), ("pool", {"UNHANG_POOL": "1"})):
        with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm") as where:
            more = {"NCCL_LOCAL_REGISTER": "1", "UNHANG_ALLOCATIONS": f"{where}/%p.allocations", **(settings or {})}
            job = r.start(where, "slow launch 1 0", 1, more, str(r.library.with_name("libunhang-guard.so")) if settings else "")
            out, _ = job.communicate(timeout=300)
            out = SAID.sub("", out)
            t.ok(job.returncode == 0 and "register 0 0\nregister 0 0\nreduce 0\nwait 0\nwait 0\nend 0\nend 0\n" in out and "unhang:" not in out, f"{name}: its buffers are registered", f"{job.returncode} {out[-800:]}")
            t.ok(not settings or any(pathlib.Path(where).glob("*.allocations")), f"{name}: they were its buffers")


def test_hang(t, r):
    for way, settings in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm") as where:
            job = r.start(where, f"hang kernel *{KERNEL}*", 1, settings)
            tap.wait_for(lambda: job.poll() is not None or [p for _, p in r.launches(where) if p["progress"] == "running" and p["age"] > INCIDENT], 120)
            job.terminate()
            out, _ = job.communicate()
            told = r.unhang.run("explain", *pathlib.Path(where).glob("*.recording")).stdout.decode()
            t.ok("does not end" in told and KERNEL in told, f"{way}: a reduction that does not end is explained with its kernel", told + out[-500:])


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not kfd.ROOT or not list(pathlib.Path(kfd.LIBRARIES).glob("librccl.so.1")):
        tap.skip_all("UNHANG_ROCM_ROOT names no root with RCCL: tests/rocm-root 7.2 makes one")
    if not emulated.possible(unhang):
        tap.skip_all("no machine can be emulated here")
    r = Rccl(unhang, pathlib.Path(sys.argv[2]).resolve())
    problem = r.compile()
    if t.ok(not problem, "hipcc compiles the program", problem):
        for test in (test_reduce, test_registered, test_hang):
            test(t, r)
    t.end()


if __name__ == "__main__":
    main()
