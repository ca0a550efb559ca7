#!/usr/bin/env python3
"""Jobs that fail in thirteen ways, with one rank and with four, under unhang run: what is said of them, and what follows. TABLE was written down before the
first run; docs/RUN.md says what that run showed."""
import collections
import json
import pathlib
import shutil
import subprocess
import sys

import job
import job_gpu
import kfd
import tap

# Starts four ranks, of which the third fails, as torchrun does: the others get TERM some time after the first one has failed. With `wait` it starts the
# others only when the third has said that it launched.
LAUNCHER = r"""
import os, subprocess, sys, time
fails, others, waits = sys.argv[1], sys.argv[2], "wait" in sys.argv[3:]
def start(rank, command):
    return subprocess.Popen(["sh", "-c", command], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "4"}, stdout=subprocess.PIPE if waits and rank == 2 else None)
third = start(2, fails)
while waits and b"launched" not in third.stdout.readline(): pass
ranks = [third, *(start(rank, others) for rank in (0, 1, 3))]
while not any(r.poll() for r in ranks) and any(r.poll() is None for r in ranks): time.sleep(0.02)
failed = any(r.returncode for r in ranks)
if failed: time.sleep(0.5)
for r in ranks: r.poll() is None and r.terminate()
for r in ranks: r.wait()
sys.exit(1 if failed else 0)
"""

SAXPY, FILL = "saxpy(float const*, float*, float, int)", "fill(float*, float, int)"
PLAN = "UNHANG_KFD='gpu gfx90a; {}' exec $P {}"
OPEN = "UNHANG_KFD='gpu gfx90a' exec $P {}"
WATCHDOG = ("[rank{0}]:[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=1048576, "
            "NumelOut=1048576, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.")

# name; the command of the rank that fails, in each try ($P is the program, $R its rank, $D a directory); what the others do; whether it needs the GPU
Way = collections.namedtuple("Way", "name fails others gpu options")
# status; how each try ended, with the row that decides and what follows; kernel and launch of the last try; rank; what the evidence says (because), what the job
# said (words), what failure_reason has; whether there is a bundle
Ends = collections.namedtuple("Ends", "status tries kernel launch rank because words reason bundle")

HANGS = ("--hang-after", 2)
WAYS = [
    Way("segfault", [OPEN.format("series 5 , crash")], OPEN.format("series 5 , wait 60000"), True, ()),
    Way("fault", [PLAN.format("fault kernel fill launch 7 at argument 0 plus 4M", "series 20")], OPEN.format("series 20 , wait 60000"), True, ()),
    Way("flaky fault", [PLAN.format(f"fault kernel fill launch {n} at argument 0 plus 4M", "series 20") for n in (3, 5)] + [OPEN.format("series 20")],
        OPEN.format("series 20 , wait 60000"), True, ()),
    Way("hang", [PLAN.format("hang kernel saxpy launch 4", "series 20")], PLAN.format("hang kernel fill launch 2", "series 20"), True, HANGS),
    Way("hang in hipMalloc", [PLAN.format("hang allocation of 64M", "series 2 , allocations 1 67108864")], PLAN.format("hang kernel fill launch 2", "series 20"), True, HANGS),
    Way("memory, version 2", ["$D/kill 2"], "sleep 60", False, ()),
    Way("memory, version 1", ["$D/kill 1"], "sleep 60", False, ()),
    Way("exit 3", ["exit 3"], "sleep 60", False, ()),
    Way("exception", ["exec python3 $D/raises.py"], "sleep 60", False, ()),
    Way("RCCL", [f"echo \"{WATCHDOG.format('$R')}\" >&2; sleep 0.3; kill -ABRT $$"], f"sleep 0.5; echo \"{WATCHDOG.format('$R')}\" >&2; kill -ABRT $$", False, ()),
    Way("assertion", ["cat $D/assertion >&2; kill -ABRT $$"], "sleep 60", False, ()),
    Way("killed child", ["sh -c 'kill -KILL $$'; exit $?"], "sleep 60", False, ()),
    Way("restart", ["exit 1", OPEN.format("series 2")], OPEN.format("series 2"), True, ()),
]

EXPECTED = {
    ("segfault", 1): Ends(139, [("signal", "crash-first", "restart"), ("signal", "raise-to-5", "restart"), ("signal", "top", "stop")], None, None, None, "SIGSEGV ended it", None, "SIGSEGV", True),
    ("segfault", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "raise-to-3", "stop")], None, None, 2, "Rank 2 was the first to end: it crashed or was killed", None, "Status 1", True),
    ("fault", 1): Ends(134, [("gpu-fault", "gpu-first", "restart"), ("gpu-fault", "deterministic", "stop")], FILL, 7, None, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("fault", 4): Ends(1, [("gpu-fault", "gpu-first", "restart"), ("gpu-fault", "deterministic", "stop")], FILL, 7, 2, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("flaky fault", 1): Ends(0, [("gpu-fault", "gpu-first", "restart"), ("gpu-fault", "raise-to-5", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
    ("flaky fault", 4): Ends(1, [("gpu-fault", "gpu-first", "restart"), ("gpu-fault", "raise-to-5", "stop")], FILL, 5, 2, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("hang", 1): Ends(143, [("gpu-hang", "gpu-first", "restart"), ("gpu-hang", "raise-to-5", "restart"), ("gpu-hang", "deterministic", "stop")], SAXPY, 4, None, "no queue of the job moved for", None, "hung on the GPU", True),
    ("hang", 4): Ends(143, [("gpu-hang", "gpu-first", "restart"), ("gpu-hang", "raise-to-5", "stop")], SAXPY, 4, 2, "no queue of the job moved for", None, "hung on the GPU", True),
    ("hang in hipMalloc", 1): Ends(143, [("runtime-hang", "call", "restart"), ("runtime-hang", "call-again", "stop")], None, None, None, "hsa_amd_memory_pool_allocate", None, "64 MiB", True),
    ("hang in hipMalloc", 4): Ends(143, [("runtime-hang", "call", "restart"), ("runtime-hang", "call-again", "stop")], None, None, 2, "hsa_amd_memory_pool_allocate", None, "64 MiB", True),
    ("memory, version 2", 1): Ends(137, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", None, "the host's memory ran out", False),
    ("memory, version 2", 4): Ends(1, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", None, "the host's memory ran out", False),
    ("memory, version 1", 1): Ends(137, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", None, "the host's memory ran out", False),
    ("memory, version 1", 4): Ends(1, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", None, "the host's memory ran out", False),
    ("exit 3", 1): Ends(3, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 3", None, "Status 3", False),
    ("exit 3", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", None, "Status 1", False),
    ("exception", 1): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", "ValueError: the batch is empty", "ValueError: the batch is empty", False),
    ("exception", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, 2, "ended by itself with status 1", "ValueError: the batch is empty", "ValueError: the batch is empty", False),
    ("RCCL", 1): Ends(134, [("signal", "crash-first", "restart"), ("signal", "host-again", "stop")], None, None, 0, "SIGABRT ended it", "Watchdog caught collective operation timeout", "A collective operation timed out", False),
    ("RCCL", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, 2, "ended by itself with status 1", "Watchdog caught collective operation timeout", "A collective operation timed out", False),
    ("assertion", 1): Ends(134, [("signal", "crash-first", "restart"), ("signal", "host-again", "stop")], None, None, None, "SIGABRT ended it", "main: Assertion `n > 0' failed.", "Assertion `n > 0' failed", False),
    ("assertion", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", "main: Assertion `n > 0' failed.", "Assertion `n > 0' failed", False),
    ("killed child", 1): Ends(137, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "SIGKILL ended what it started", None, "SIGKILL", False),
    ("killed child", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", None, "Status 1", False),
    ("restart", 1): Ends(0, [("exit", "host-first", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
    ("restart", 4): Ends(0, [("exit", "host-first", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
}


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    t.same(sorted({name for name, _ in EXPECTED}), sorted(w.name for w in WAYS), "the table has every way")
    t.end()


if __name__ == "__main__":
    main()
