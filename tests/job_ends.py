#!/usr/bin/env python3
"""Jobs that fail in thirteen ways, with one rank and with four, under unhang run: what is said of them, and what follows. EXPECTED was written down before the
first run; docs/RUN.md says what that run showed."""
import collections
import json
import os
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

# What takes long and shows little that the others do not: only with UNHANG_TEST_ALL=1.
ALL = bool(os.environ.get("UNHANG_TEST_ALL"))
RARE = {("segfault", 4), ("flaky fault", 4), ("hang in hipMalloc", 4), ("restart", 4), ("memory, version 1", 4), ("exit 3", 4), ("assertion", 4)}

HANGS = ("--hang-after", 2)
WAYS = [
    Way("segfault", [OPEN.format("series 5 , wait 300 , crash")], OPEN.format("series 5 , wait 60000"), True, ()),
    Way("fault", [PLAN.format("fault kernel fill launch 7 at argument 0 plus 8K", "series 20")], OPEN.format("series 20 , wait 60000"), True, ()),
    Way("flaky fault", [PLAN.format(f"fault kernel fill launch {n} at argument 0 plus 8K", "series 20") for n in (3, 5)] + [OPEN.format("series 20")],
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
    ("segfault", 1): Ends(139, [("signal", "crash-first", "restart"), ("signal", "raise-to-5", "restart"), ("signal", "deterministic", "stop")], None, None, None, "SIGSEGV ended it", None, "SIGSEGV", True),
    ("segfault", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, 2, "Rank 2 was the first to end without a word: it crashed, was killed, or called _exit()", None, "Status 1", True),
    ("fault", 1): Ends(134, [("gpu-fault", "gpu-fault-first", "restart"), ("gpu-fault", "deterministic", "stop")], FILL, 7, None, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("fault", 4): Ends(1, [("gpu-fault", "gpu-fault-first", "restart"), ("gpu-fault", "deterministic", "stop")], FILL, 7, 2, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("flaky fault", 1): Ends(0, [("gpu-fault", "gpu-fault-first", "restart"), ("gpu-fault", "raise-to-5", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
    ("flaky fault", 4): Ends(1, [("gpu-fault", "gpu-fault-first", "restart"), ("gpu-fault", "raise-to-5", "stop")], FILL, 5, 2, "memory fault at 0x", "Memory access fault by GPU", "fault on the GPU", True),
    ("hang", 1): Ends(143, [("gpu-hang", "gpu-first", "restart"), ("gpu-hang", "raise-to-5", "restart"), ("gpu-hang", "deterministic", "stop")], SAXPY, 4, None, "no queue of the job moved for", None, "hung on the GPU", True),
    ("hang", 4): Ends(143, [("gpu-hang", "gpu-first", "restart"), ("gpu-hang", "raise-to-5", "stop")], SAXPY, 4, 2, "no queue of the job moved for", None, "hung on the GPU", True),
    ("hang in hipMalloc", 1): Ends(143, [("runtime-hang", "call", "restart"), ("runtime-hang", "call-again", "stop")], None, None, None, "hsa_amd_memory_pool_allocate", None, "64 MiB", True),
    ("hang in hipMalloc", 4): Ends(143, [("runtime-hang", "call", "restart"), ("runtime-hang", "call-again", "stop")], None, None, 2, "hsa_amd_memory_pool_allocate", None, "64 MiB", True),
    ("memory, version 2", 1): Ends(137, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", "Killed", "the host's memory ran out", False),
    ("memory, version 2", 4): Ends(1, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", "Killed", "the host's memory ran out", False),
    ("memory, version 1", 1): Ends(137, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", "Killed", "the host's memory ran out", False),
    ("memory, version 1", 4): Ends(1, [("oom", "memory", "restart"), ("oom", "memory-again", "stop")], None, None, None, "oom_kill went from", "Killed", "the host's memory ran out", False),
    ("exit 3", 1): Ends(3, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 3", None, "Status 3", False),
    ("exit 3", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", None, "Status 1", False),
    ("exception", 1): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", "ValueError: the batch is empty", "ValueError: the batch is empty", False),
    ("exception", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, 2, "ended by itself with status 1", "ValueError: the batch is empty", "ValueError: the batch is empty", False),
    ("RCCL", 1): Ends(134, [("signal", "crash-first", "restart"), ("signal", "host-again", "stop")], None, None, 0, "SIGABRT ended it", "Watchdog caught collective operation timeout", "A collective operation timed out", False),
    ("RCCL", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, 2, "ended by itself with status 1", "Watchdog caught collective operation timeout", "A collective operation timed out", False),
    ("assertion", 1): Ends(134, [("signal", "crash-first", "restart"), ("signal", "host-again", "stop")], None, None, None, "SIGABRT ended it", "main: Assertion `n > 0' failed.", "Assertion `n > 0' failed", False),
    ("assertion", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", "main: Assertion `n > 0' failed.", "Assertion `n > 0' failed", False),
    ("killed child", 1): Ends(137, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "SIGKILL ended what it started", "Killed", "SIGKILL", False),
    ("killed child", 4): Ends(1, [("exit", "host-first", "restart"), ("exit", "host-again", "stop")], None, None, None, "ended by itself with status 1", "Killed", "Status 1", False),
    ("restart", 1): Ends(0, [("exit", "host-first", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
    ("restart", 4): Ends(0, [("exit", "host-first", "restart"), ("done", None, None)], None, None, None, "ended by itself", None, None, False),
}


# Memory that ran out: the kernel's counter rises while a process gets SIGKILL. A tree lies over /sys/fs/cgroup, as in job.py.
GROUPS = {2: ("cgroup2", "", "0::/", ("memory.events", "memory.peak", "memory.max")),
          1: ("cgroup", ",memory", "4:memory:/", ("memory.oom_control", "memory.max_usage_in_bytes", "memory.limit_in_bytes"))}


class Ways:
    """How the ways are run."""

    def __init__(self, unhang, programs):
        self.unhang, self.programs = unhang, programs
        self.job = job_gpu.GpuJob(unhang, programs) if programs else job.Job(unhang)
        self.launcher = unhang.write("ranks.py", LAUNCHER)
        # torch writes the rank before what an exception says; plain Python would not.
        unhang.write("raises.py", "import os, sys, traceback\nrank = os.environ.get('RANK')\ntry: raise ValueError('the batch is empty')\nexcept ValueError:\n"
                     "    for line in traceback.format_exc().splitlines(): print((f'[rank{rank}]: ' if rank else '') + line, file=sys.stderr)\n    sys.exit(1)\n")
        unhang.write("assertion", "a.out: k.c:7: main: Assertion `n > 0' failed.\n")
        for version, (_, _, _, names) in GROUPS.items():
            for name in names:
                unhang.write(f"group{version}/{name}", "oom_kill 3\n" if name == names[0] else "4294967296\n")
        unhang.write("kill", f"#!/bin/sh\ncd {unhang.directory}/group$1\necho x >> kills\nfor f in memory.events memory.oom_control; do [ -e $f ] && echo oom_kill $((3 + $(wc -l < kills))) > $f; done\n"
                     "kill -KILL $$\n").chmod(0o755)

    def prefix(self, version):
        """A mount name space in which this process is in the control group."""
        kind, option, own, _ = GROUPS[version]
        mounts = self.unhang.write(f"mounts{version}", f"30 20 0:26 / {self.unhang.directory}/group{version} rw,relatime - {kind} none rw{option}\n")
        group = self.unhang.write(f"own{version}", own + "\n")
        return ["unshare", "-rm", "sh", "-c", f'mount --bind {mounts} /proc/$$/mountinfo && mount --bind {group} /proc/$$/cgroup && exec "$@"', "sh"]

    def command(self, way, ranks):
        count = self.unhang.directory / f"count{self.job.n + 1}"
        choose = f"R=${{RANK:-0}}; D={self.unhang.directory}; P={self.programs.program if self.programs else 'none'}; "
        pick = f"echo x >> {count}; case $(wc -l < {count}) in " + "".join(f"{i}) {c} ;; " for i, c in enumerate(way.fails[:-1], 1)) + f"*) {way.fails[-1]} ;; esac"
        if ranks == 1:
            return ["sh", "-c", choose + pick]
        return [sys.executable, self.launcher, choose + pick, choose + way.others, *(["wait"] if "--hang-after" in way.options else [])]

    def run(self, way, ranks):
        """How it ended; None: it cannot be tried here."""
        crash = self.unhang.directory / "crash.json"
        crash.unlink(missing_ok=True)
        before = self.prefix(int(way.name[-1])) if way.name.startswith("memory") else []
        if before and subprocess.run([*before, "true"], capture_output=True).returncode:
            return None
        command = self.command(way, ranks)
        arguments = self.job.arguments("--restart", 3 if ranks == 1 else 1, "--delay", 0, "--crash-diagnostics", crash, *way.options)
        done = subprocess.run([*before, *arguments, "--", *command], capture_output=True, env=self.unhang.environment, timeout=300)
        report = self.job.report()
        x = report["tries"][-1]
        decided = [(t["ended"], *((t["decision"]["row"], t["decision"]["do"]) if t["decision"] else (None, None))) for t in report["tries"]]
        found = Ends(done.returncode, decided, x["kernel"], x["launch"], x["rank"], x["because"], x["words"], json.loads(crash.read_text())["failure_reason"] if crash.exists() else None, bool(x["bundle"]))
        return found, report, done


def differs(found, expected):
    """Names of what is not as it was written down. Texts need only be in what was found."""
    has = lambda name: getattr(expected, name) in (getattr(found, name) or "") if getattr(expected, name) else not getattr(found, name)
    return [name for name in Ends._fields if not (has(name) if name in ("because", "words", "reason") else getattr(found, name) == getattr(expected, name))]


def check(t, ways, way, ranks, packets):
    expected, ran = EXPECTED[way.name, ranks], ways.run(way, ranks)
    name = f"{way.name}, {ranks} rank{'s' if ranks > 1 else ''}"
    if not ran:
        t.skip(name, "no name spaces here")
        return
    found, report, done = ran
    wrong = differs(found, expected)
    t.ok(not wrong and not report["wrong"], f"{name}: as it was written down", "\n".join([str(report["wrong"]), *(f"{n}: wanted {getattr(expected, n)!r}, got {getattr(found, n)!r}" for n in wrong), done.stderr.decode()[-600:]]))
    packets[way.name, ranks] = report["tries"][0]["packets"]


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    if not shutil.which("hipcc") or not programs.library.exists() or programs.compile():
        programs = None
    ways, packets = Ways(unhang, programs), {}
    for way in WAYS:
        if len(sys.argv) > 2 and way.name not in sys.argv[2:]:
            continue
        for ranks in (1, 4):
            if not ALL and (way.name, ranks) in RARE:
                continue
            if way.gpu and not programs:
                t.skip(f"{way.name}, {ranks}", "no hipcc here")
            else:
                check(t, ways, way, ranks, packets)
    # Packets are those of the rank that failed: as many as it has alone.
    for name in ("fault", "hang", "hang in hipMalloc"):
        if (name, 4) in packets:
            t.same(packets[name, 4], packets[name, 1], f"{name}: packets are counted of the rank at fault")
    t.end()


if __name__ == "__main__":
    main()
