#!/usr/bin/env python3
"""The flight recorder under ROCm's own runtime, over the KFD without silicon (kfd.py): every way to launch, hangs, faults, allocations."""
import collections
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

import emulated
import kfd
import tap

SAXPY, FILL = "_Z5saxpyPKfPffi", "_Z4fillPffi"
N = 1 << 16
STANDS = 1.1  # seconds: a kernel that ran so long at the last look is known to run
LEAKED = re.compile("^Warning: Resource leak detected by SharedSignalPool.*\n", re.M)  # what HIP 6 and 7 end with, recorder or not
INCIDENT = 5.1  # and a queue that stands so long is an incident


class Recorded:
    """Programs under the recorder, with recordings in a directory of their own."""

    def __init__(self, t, unhang, programs, library, where):
        self.t, self.unhang, self.programs, self.library, self.where = t, unhang, programs, library, pathlib.Path(where)
        self.hip = int(re.search(rb"libamdhip64\.so\.(\d+)\0", programs.program.read_bytes())[1])
        self.faulted = -signal.SIGABRT if self.hip < 7 else 1  # a fault is an error that HIP 7 returns

    def environment(self, plan, level=3, **settings):
        return {**self.programs.environment(plan), "HSA_TOOLS_LIB": str(self.library), "HSA_TOOLS_REPORT_LOAD_FAILURE": "1", "UNHANG_LEVEL": str(level),
                "UNHANG_RECORDING": f"{self.where}/%p.recording", "UNHANG_KEEP": "1000",
                # libhsakmt 6.2 asks for room for 2^32 devices when a core is written: to fill it takes too long.
                **({"MALLOC_PERTURB_": "0"} if kfd.ROOT else {}), **settings}

    def start(self, plan, *arguments, **settings):
        return subprocess.Popen([self.programs.program, *map(str, arguments)], env=self.environment(plan, **settings), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, plan, *arguments, **settings):
        job = self.start(plan, *arguments, **settings)
        job.out, job.err = job.communicate(timeout=60)
        job.err = LEAKED.sub("", job.err)
        return job

    def read(self, pid, *more):
        run = self.unhang.run("last", "--json", self.where / f"{pid}.recording", *more)
        return json.loads(run.stdout)["recordings"][0] if run.returncode == 0 else None


def dispatches(recording):
    return [p for q in recording["queues"] for p in q["packets"] if p["kind"] == "dispatch"]


def scalars(a, n):
    """saxpy's two numbers, as they stand behind its two pointers."""
    return struct.unpack("<Q", struct.pack("<fi", a, n))[0]


def test_launches(t, r):
    ran = r.run(kfd.OPEN, "launches")
    t.same((ran.returncode, ran.out, ran.err), (0, kfd.LAUNCHES, ""), "a program computes under the recorder what it computes without")
    recording = r.read(ran.pid, "--all")
    found = collections.Counter(p["kernel"] for p in dispatches(recording))
    t.same(found[SAXPY], 4 + 6, "<<<>>>, hipLaunchKernel, cooperative, extended, and each node of a graph, twice")
    t.ok(found["__amd_rocclr_fillBufferAligned"] >= 1 and found["__amd_rocclr_copyBuffer"] >= 1, "hipMemset and hipMemcpy between buffers", found)
    every = [p for p in dispatches(recording) if p["kernel"] == SAXPY]
    saxpy = [p for p in every if p["arguments"]["state"] != "in-vram"]
    t.same(len(every) - len(saxpy), 6 if r.hip >= 6 else 0, "HIP 6 and later have the arguments of graphs in VRAM, and this is said")
    words = {tuple(p["arguments"]["words"][2:3]) for p in saxpy}
    t.same(words, {(hex(scalars(2, N)),)}, "with their numbers")
    t.same({tuple(v["text"] for v in p["arguments"]["values"][2:]) for p in saxpy}, {("2", str(N))}, "by their types")
    t.ok(all("256 KiB buffer" in p["arguments"]["text"] for p in saxpy), "and their pointers, as buffers", saxpy[0]["arguments"]["text"])
    t.same({(tuple(p["grid"]), tuple(p["workgroup"])) for p in saxpy}, {((N, 1, 1), (256, 1, 1))}, "with their sizes")
    t.same((recording["state"], recording["torn"], {p["progress"] for p in saxpy} <= {"ended", "probably-ended"}), ("ended", 0, True), "and all have ended")
    ran = r.run(kfd.OPEN, "module", r.programs.module)
    found = collections.Counter(p["kernel"] for p in dispatches(r.read(ran.pid, "--all")))
    t.same((ran.out, found[SAXPY]), (kfd.MODULE, 2), "hipModuleLaunchKernel and hipExtModuleLaunchKernel")


def test_other_launches(t, r):
    """What few programs use, and what newer versions brought: each way prints its line when it has added 2."""
    for level in (3, 5):
        ran = r.run(kfd.OPEN, "other-launches", r.programs.module, level=level)
        sums = [int(line.split()[-1]) for line in ran.out.splitlines()]
        found = collections.Counter(p["kernel"] for p in dispatches(r.read(ran.pid, "--all")))
        t.same((ran.returncode, ran.err, sums, found[SAXPY]), (0, "", list(range(2, 2 * len(sums) + 1, 2)), len(sums)), f"level {level}: every one of {len(sums)} other ways to launch is there")
    t.ok(len(sums) >= (6 if r.hip >= 7 else 3), "as many as this HIP has", ran.out)


def test_pools(t, r):
    """Memory of streams and pools, which HIP 7 maps piece by piece at addresses that it reserved: behind a piece there is nothing."""
    for level in (3, 5):
        ran = r.run(kfd.OPEN, "pools", level=level)
        if ran.returncode == 2:
            return t.skip("memory of pools", "the program does not know it")
        saxpy = [p for p in dispatches(r.read(ran.pid, "--all")) if p["kernel"] == SAXPY]
        t.same((ran.returncode, ran.out, ran.err, len(saxpy), sum(1 for p in saxpy if len(p["statistics"]) == 2)), (0, "pools 7\n" * 3, "", 3, 3 if level == 5 else 0),
               f"level {level}: it computes as without, and its buffers are {'read' if level == 5 else 'known'}")
    return None


def test_threads(t, r):
    ran = r.run(kfd.OPEN, "many", 8, 200)
    recording = r.read(ran.pid, "--all")
    saxpy = [p for p in dispatches(recording) if p["kernel"] == SAXPY]
    t.same((ran.out, len(saxpy)), ("threads 8 launches 200 wrong 0\n", 1600), "every launch of eight threads is there")
    t.same(set(collections.Counter(p["thread"]["tid"] for p in saxpy).values()), {200}, "each by its thread")


def fills_of(packets):
    return [p for p in packets if p["kernel"] and "fill" in p["kernel"] and p["kernel"].startswith("_Z")]


def standing(recording):
    """Whether a queue has stood for so long that it is known to, also when its process is gone."""
    return any(q["in_flight"] and q["moved"] > STANDS for q in recording["queues"])


def test_hang(t, r):
    """A hang at the Nth launch names exactly that kernel and its arguments, live and afterwards."""
    job = r.start("gpu gfx90a; hang kernel fill launch 7", "series", 20)
    job.stdout.readline()
    flying = tap.wait_for(lambda: standing(found := r.read(job.pid, "--all")) and [p for p in fills_of(dispatches(found))[6:] if p["progress"] == "running"])
    for when in ("live", "after a kill"):
        recording = r.read(job.pid, "--all")
        all_of = dispatches(recording)
        running = [p for p in all_of if p["progress"] == "running"]
        fills = fills_of(all_of)
        t.ok(len(running) == 1 and running[0] == fills[6] if running and len(fills) > 6 else False, f"{when}: the seventh fill is the one that runs", flying)
        t.ok("4 KiB buffer" in running[0]["arguments"]["text"], f"{when}: with its arguments", running[0]["arguments"])
        waits = [h for h in recording["threads"] if h["call"]]
        t.ok(waits and waits[0]["call"] == "hsa_signal_wait", f"{when}: and the thread that waits for it", recording["threads"])
        job.kill()
        job.communicate()


def test_hang_behind(t, r):
    """An intercept queue hands packets on before they run: which one does is known all the same."""
    for level, nth, what in ((1, 7, "may be intercepted"), (5, 19, "is intercepted")):
        job = r.start(f"gpu gfx90a; hang kernel fill launch {nth}", "series", 20, level=level, UNHANG_MAX_LEVEL="5", UNHANG_INCLUDE="*saxpy*")
        job.stdout.readline()

        def running():
            found = r.read(job.pid, "--all")
            return [p for p in dispatches(found) if p["kernel"] == FILL] if standing(found) else None
        fills = tap.wait_for(lambda: (f := running()) and len(f) == 20 and f[nth - 1]["progress"] == "running" and f)
        t.same([p["progress"] in ("ended", "probably-ended") for p in fills or []], [True] * (nth - 1) + [False] * (21 - nth), f"where a queue {what}: fill {nth} runs, those before it have ended")
        job.kill()
        job.communicate()
        end = [p["kernel"] for p in dispatches(r.read(job.pid, "--all")) if p["progress"] == "running"]
        t.same(end, [FILL], f"where a queue {what}: so it was when the job was killed")
    ended = r.run(kfd.OPEN, "launches", level=1, UNHANG_MAX_LEVEL="5")
    left = [p for p in dispatches(r.read(ended.pid, "--all")) if p["progress"] not in ("ended", "probably-ended")]
    t.same((ended.out, left), (kfd.LAUNCHES, []), "of a job that ended nothing is left on the GPU")


def test_fault(t, r):
    job = r.run(kfd.OPEN, "read-beyond", 64)
    recording = r.read(job.pid)
    near = recording["faults"][0]["near"]
    end = job.out.split()[3]
    t.ok(near["relation"] == "past" and near["allocation"]["distance"] == 0 and int(near["allocation"]["address"], 16) + near["allocation"]["size"] == int(end, 16),
         "a fault just past an allocation says so and which", near)
    run = r.unhang.run("explain", "--json", r.where / f"{job.pid}.recording")
    incident = json.loads(run.stdout)["incidents"][0]
    facts = {f["name"]: f["value"] for f in incident["facts"]}
    t.ok("copy" in facts.get("kernel_name", "") and "just past the end of the 4 MiB buffer" in facts.get("fault_place", ""), "explain names kernel and buffer", facts)
    job = r.run(kfd.CLOSED, "read-freed", level=5)  # where the recorder has memory of its own, which must not come to lie there
    near = r.read(job.pid)["faults"][0]["near"]
    t.ok(near["relation"] == "freed" and near["allocation"]["freed_by"]["tid"] == job.pid, "a fault in a freed buffer says when and by whom", near)


def test_core(t, r):
    """A light GPU core of a fault, and the runtime's log and the recording of the same: one process, one fault."""
    core = r.where / "fault.gpucore"
    job = r.run(kfd.OPEN, "read-beyond", 64, UNHANG_CORE=str(core))
    t.ok(job.returncode == r.faulted and core.stat().st_blocks * 512 < 4 << 20, "it has no megabytes of VRAM, and the runtime goes on to its abort", core.stat())
    waves = json.loads(r.unhang.run("waves", "--json", core).stdout)
    first = waves["waves"][0]
    t.ok(len(waves["waves"]) == 64 and "copy" in first["kernel_name"] and first["stop_reasons"] == ["MEMORY_VIOLATION"], "waves reads it", first)
    queue = [q for q in json.loads(r.unhang.run("queues", "--json", core).stdout)["queues"] if q["waves"]][0]
    t.ok(any("copy" in p["kernel_name"] and len(p["arguments"]) == 3 for p in queue["packets"] if p["kernel_name"]), "queues reads it, with arguments", queue["packets"])
    run = r.unhang.run("where", "--code", core)
    t.ok(run.returncode == 0 and b"copy(char*, char const*, unsigned long)" in run.stdout, "where finds the code in it", run.stdout + run.stderr)
    run = r.unhang.run("explain", core)
    t.ok(b"right after the end of the\n4 MiB buffer" in run.stdout and b"copy" in run.stdout.splitlines()[0], "explain alone names kernel and buffer", run.stdout.decode())
    log = r.where / "fault.log"
    log.write_text(job.err)
    for what in ([log], [log, core]):
        found = json.loads(r.unhang.run("explain", "--json", r.where / f"{job.pid}.recording", *what).stdout)["incidents"]
        t.ok(len(found) == 1 and len(found[0]["ranks"]) <= 1 and "copy" in found[0]["cause"]["title"] and re.search("past the (end|bounds) of a buffer", found[0]["cause"]["title"]),
             f"one fault of one process, told by {len(what) + 1} sources", found)


def test_captured(t, r):
    """Arguments of kernels are users' data: a bundle of the machine has them with --user-data all alone."""
    if not str(r.where).startswith("/dev/shm/"):
        t.skip("recordings in a bundle", "there is no /dev/shm")
        return
    job = r.run(kfd.OPEN, "series", 3)
    known = []
    for data in ("registers", "all"):
        bundle, copy = r.unhang.directory / f"captured-{data}.tar.zst", r.where / "copies" / f"{data}.recording"
        copy.parent.mkdir(exist_ok=True)
        r.unhang.run("capture", "--user-data", data, "-o", bundle)
        copy.write_bytes(subprocess.run(["tar", "-xOf", bundle, "--wildcards", f"recordings/*-{job.pid}.recording"], capture_output=True).stdout)
        packets = dispatches(json.loads(r.unhang.run("last", "--json", copy).stdout)["recordings"][0])
        known.append((len(packets), bool([p for p in packets if p["arguments"]]), struct.pack("<fi", 1.0, 1024) in copy.read_bytes()))
    t.ok(known[0][0] == known[1][0] > 0 and known[0][1:] == (False, False) and known[1][1:] == (True, True), "a bundle has arguments of kernels with --user-data all alone", known)


# Runs a program under the recorder beside unhang watch: it stops itself, and goes on to its fault when the watch was announced in its recording.
WATCHED = """
import os, signal, struct, subprocess, sys, time
watch, program, where, at = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
open(where + "/conf", "w").write("user-data all\\n")
watching = subprocess.Popen([watch, "watch", "--state-dir", where + "/state", "--run-dir", where + "/run", "--config", where + "/conf"], stdout=open(where + "/out", "a"))
job = subprocess.Popen([program, "series", "1", ",", "stop", ",", "series", "3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def announced():
    name = os.environ["UNHANG_RECORDING"].replace("%p", str(job.pid))
    try:
        return struct.unpack_from("<I", open(name, "rb").read(at + 4), at)[0] == 0xffffffff
    except (OSError, struct.error):
        return False
while open(f"/proc/{job.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
    time.sleep(0.05)
until = time.monotonic() + 60
while not announced() and time.monotonic() < until:
    time.sleep(0.05)
print("announced", announced())
job.send_signal(signal.SIGCONT)
print("status", job.wait(), "pid", job.pid)
until = time.monotonic() + 60
while " explained: " not in open(where + "/out").read() and time.monotonic() < until:
    time.sleep(0.05)
watching.terminate()
watching.wait()
"""
SUPERVISOR_AT = 1088  # of the word in the head


def test_watched(t, r):
    """A fault is held for unhang watch, which saves the evidence while the process exists, and lets it go."""
    if not emulated.possible(r.unhang) or os.getuid() or not str(r.where).startswith("/dev/shm/"):
        t.skip("a fault beside unhang watch", "no machine can be emulated here")
        return
    environment, r.unhang.environment = r.unhang.environment, r.environment("")
    del r.unhang.environment["UNHANG_KFD"]
    # Of a page fault the kernel's log tells too; of an error of the queue only the recorder does.
    watched(t, r, "fault kernel fill launch 2 at 0x7f0000123000", "used unmapped memory")
    watched(t, r, "exception kernel fill launch 2 illegal-instruction", "hit an instruction that this GPU does not have")
    r.unhang.environment = environment


def watched(t, r, what, title):
    scenario = r.unhang.write("held.scenario", kfd.SCENARIO.format(what))
    script = r.unhang.write("watched.py", WATCHED)
    for _ in range(5):  # half a second for an answer may be too short on a machine that is busy with other tests
        top = pathlib.Path(tempfile.mkdtemp(dir=r.unhang.directory))
        done = r.unhang.run("emulate", scenario, "--", sys.executable, script, r.unhang.binary, r.programs.program, top, str(SUPERVISOR_AT), timeout=300)
        pid = re.search(rb"announced True\nstatus %d pid (\d+)\n" % r.faulted, done.stdout)
        held = (r.read(int(pid[1])) or {}).get("hold") if pid else None
        if not held or held["state"] == "released":
            break
    t.same((held or {}).get("state"), "released", "a fault is held for the watch, which lets the program go")
    bundles = list(top.glob("state/incidents/*/bundle.tar.zst"))
    saved = [subprocess.run(["tar", "-xOf", b, "answers/processes"], capture_output=True).stdout for b in bundles]
    text = "".join(p.read_text() for p in top.glob("state/incidents/*/diagnosis.txt"))
    t.ok(".gpucore]" in text, "so is the core that the recorder wrote meanwhile, and it is read", text)
    t.ok(len(saved) == 1 and r.programs.program.name.encode() in saved[0], "its process is in the bundle", (done.stdout, done.stderr, (top / "out").read_text()))
    told = (top / "out").read_text()
    t.ok(told.count(" opened: ") == 1 and re.search(f" explained: .*fill.*{title}|{title}.*fill", told), "and it is one incident, which names the kernel", told)


def test_allocation(t, r):
    job = r.start("gpu gfx90a; hang allocation of 7340032", "allocations", 4, 7340032)
    waiting = tap.wait_for(lambda: [h for h in (r.read(job.pid) or {"threads": []})["threads"] if h["call"] and "7340032 bytes" in (h["what"] or "")])
    t.ok(waiting and waiting[0]["call"] == "hsa_amd_memory_pool_allocate" and waiting[0]["tid"] == job.pid, "a hang inside hipMalloc names thread and size", waiting)
    job.kill()
    job.communicate()
    recording = r.read(job.pid)
    t.ok([h for h in recording["threads"] if h["call"]] and recording["last_allocations"], "also after a kill, with what was allocated before")


def test_closed(t, r):
    job = r.run(kfd.CLOSED, "kernels")
    recording = r.read(job.pid, "--all")
    own = [p for p in dispatches(recording) if p["kernel"] and p["kernel"].startswith("_Z")]
    t.same((job.out, len(own)), (kfd.KERNELS, 5), "VRAM that is closed to the host: the program runs, its launches are there")


def test_vram(t, r):
    """Arguments in VRAM, as on gfx94x: level 3 does not read them, level 5 has them copied to where it can. Without HIP, whose version here has them on the host."""
    if "arguments VRAM" not in r.run(kfd.CLOSED, "places").out:
        return t.skip("arguments in VRAM", "this runtime has them on the host")
    for level, what in ((3, "level 3 says that they are in VRAM"), (5, "level 5 knows the buffers behind them")):
        job = r.start(kfd.CLOSED, "hsa-producers", r.where / "diary", r.programs.code, level=level)
        job.stdout.readline()

        def seen():
            fills = [p for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == FILL and p["arguments"]]
            return fills if level == 3 else [p for p in fills if p["statistics"]]

        found = tap.wait_for(seen)
        job.kill()
        job.communicate()
        t.ok({p["arguments"]["text"] for p in found} == {"not read: in VRAM"} and all(s["argument"] == 0 and s["dtype"] == "float32" for p in found for s in p["statistics"]),
             what, found and found[0])
    return None


class Diaries:
    """What the producers of tests/hip/producers.h wrote down themselves, in a file that outlives them."""
    PRODUCERS, SIZE = 16, 64

    def __init__(self, path):
        raw = path.read_bytes()
        self.rows = {}
        for number in range(self.PRODUCERS):
            tid, buffer, begun, rung, packet = struct.unpack_from("<5Q", raw, number * self.SIZE)
            if tid:
                self.rows[number] = (buffer, begun, rung, packet)

    def wrong(self, recording):
        """Records that are not what a producer launched, and launches whose record should be there and is not."""
        complaints, queues, missing = [], {}, collections.defaultdict(list)
        for queue in recording["queues"]:
            for p in queue["packets"]:
                if p["kernel"] != FILL or not p["arguments"] or p["arguments"]["state"] != "copied":
                    continue
                to, numbers = (int(w, 16) for w in p["arguments"]["words"][:2])
                value, number = struct.unpack("<fi", struct.pack("<Q", numbers))
                buffer, begun, _, _ = self.rows.get(number - 1, (0, 0, 0, 0))
                if to != buffer or value >= begun or p["grid"] != [(int(value) % 7 + 1) * 64, 1, 1] or p["workgroup"] != [64, 1, 1]:
                    complaints.append(f"packet {p['packet']}: {p['grid']} {p['arguments']['words']} of producer {number - 1}, which began {begun}")
                queues[number - 1] = queue
        for number, (_, _, rung, packet) in self.rows.items():
            queue = queues.get(number)
            if not rung or not queue or packet >= 1 << 63:
                continue
            found = {p["packet"] for p in queue["packets"]}
            # Each producer may have been writing over the oldest record when it was killed.
            if packet not in found and packet > max(found) - queue["size"] + self.PRODUCERS:
                missing[queue["id"]].append(f"producer {number}: packet {packet} was rung, and is not recorded")
        # Who rings at the same moment records it too. Killed in the middle, it leaves a torn record, and is told so.
        torn = {queue["id"]: queue["torn"] for queue in recording["queues"]}
        return complaints + [m for queue, rows in missing.items() if len(rows) > torn[queue] for m in rows]


def test_kills(t, r):
    """A kill at any instruction, under ROCm's own runtime and 16 producers. UNHANG_KILLS: so many instead of the few that a test can afford."""
    kills = int(os.environ.get("UNHANG_KILLS", "12"))
    chance = random.Random(kills)
    modes = [("hsa-producers", r.programs.code)] * (kills - kills // 12) + [("producers",)] * (kills // 12)
    packets, torn, wrong, unread = 0, 0, [], []
    for mode, *more in modes:
        diary = r.where / "diary"
        diary.unlink(missing_ok=True)
        job = r.start(kfd.OPEN, mode, diary, *more)
        job.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        job.kill()
        job.communicate()
        path = r.where / f"{job.pid}.recording"
        recording = r.read(job.pid, "--all")
        if not recording:
            unread.append(f"{mode}: {r.unhang.run('last', path).stderr.decode()} {job.returncode}")
        else:
            torn += recording["torn"]
            packets += len(dispatches(recording))
            wrong += Diaries(diary).wrong(recording)
        path.unlink(missing_ok=True)
    t.no_complaints(unread, f"after each of {kills} kills the recording opens")
    t.no_complaints(wrong[:5], f"what was accepted is what the producers wrote down, and nothing is missing ({packets} packets accepted, {torn} torn)")
    t.ok(packets > 20 * kills, "and there are many", packets)


def wrong_launches(told, recording):
    """@told: of each stream the buffer and the last launch that its program told. The recording has these, and at most one more, whose program was killed first."""
    found, complaints = collections.defaultdict(list), []
    fills_of_all = [p for p in dispatches(recording) if p["kernel"] == FILL]
    bare = sum(1 for p in fills_of_all if not p["arguments"] or p["arguments"]["state"] != "copied")  # killed between a record and its arguments: one of a thread
    if bare > 4:
        complaints.append(f"{bare} launches without their arguments")
    for p in fills_of_all:
        if p["arguments"] and p["arguments"]["state"] == "copied":
            to, numbers = (int(w, 16) for w in p["arguments"]["words"][:2])
            value, number = struct.unpack("<fi", struct.pack("<Q", numbers))
            found[number - 1].append(int(value))
            if to != told.get(number - 1, (to,))[0] or p["grid"] != [(int(value) % 7 + 1) * 64, 1, 1]:
                complaints.append(f"stream {number - 1}, launch {value}: {p['grid']} {p['arguments']['words']}")
    for stream, (_, last) in told.items():
        missing = set(range(last + 1)) - set(found[stream])
        if len(missing) > recording["torn"] + bare or max(found[stream], default=-1) > last + 1 or len(set(found[stream])) != len(found[stream]):
            complaints.append(f"stream {stream}: told {last}, recorded up to {max(found[stream], default=None)}, not recorded {sorted(missing)[:8]} of {len(missing)}, torn {recording['torn']}")
    return complaints


def test_piped(t, r):
    """A kill of a program with four streams: the recording is right against what the program itself told on a pipe."""
    kills = int(os.environ.get("UNHANG_KILLS", "8"))
    chance = random.Random(kills)
    wrong, unread, launches, torn = [], [], 0, 0
    for n in range(kills):
        job = r.start(kfd.OPEN, "piped")
        first = job.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        job.kill()
        lines = first + job.stdout.read()  # communicate() would not see what came along with the first
        job.communicate()
        told = {int(s): (int(buffer), int(last)) for s, last, buffer in (line.split() for line in lines.splitlines(keepends=True) if line.endswith("\n"))}
        recording = r.read(job.pid, "--all")
        if recording:
            wrong += [f"kill {n}: {w}" for w in wrong_launches(told, recording)]
            torn += recording["torn"]
        else:
            unread.append(f"kill {n}: {first}")
        launches += sum(last + 1 for _, last in told.values())
        (r.where / f"{job.pid}.recording").unlink(missing_ok=True)
    t.no_complaints(unread, f"after each of {kills} kills the recording opens")
    t.no_complaints(wrong[:8], f"and it is right against the program's own pipe ({launches} launches told, {torn} records torn)")


WAYS = ("device", "stream", "copy", "event", "other", "callback", "handler")


def steps(r, way, n):
    """A program that waits for each of its steps in this way; for ever where @n is 0, else it dies of a segmentation fault of its own."""
    diary = r.where / "diary"
    diary.unlink(missing_ok=True)
    job = r.start("gpu gfx90a; slow kernel fill 0.002", *(("handled-steps", n, diary, r.programs.code) if way == "handler" else ("steps", n, way, diary)), level=1)
    return job, diary


def known_of(r, job, diary):
    """How many fills the program began and saw to have ended, what the recording says of each, and the kernels that it calls running."""
    begun, seen = struct.unpack_from("<2Q", diary.read_bytes(), 16)
    all_of = dispatches(r.read(job.pid, "--all"))
    fills = sorted((p for p in all_of if p["kernel"] == FILL and p["grid"] != [64, 1, 1] or p["kernel"] == FILL and job.args[1] == "handled-steps"), key=lambda p: p["time"])
    return begun, seen, [p["progress"] for p in fills], [p["kernel"] for p in all_of if p["progress"] == "running"]


def test_done(t, r):
    """What the program saw to have ended is known, however it saw it."""
    for way in WAYS:
        job, diary = steps(r, way, 5)
        job.communicate(timeout=60)
        _, seen, fills, running = known_of(r, job, diary)
        t.same((job.returncode, seen, fills, running), (-signal.SIGSEGV, 5, ["ended"] * 5, []), f"a host that dies after five steps that it waited for ({way}): all have ended, none runs")
    run = r.unhang.run("explain", r.where / f"{job.pid}.recording")
    t.same((run.returncode, FILL.encode() in run.stdout), (0, False), "and explain has nothing to tell")


def test_standing(t, r):
    """A kernel that does not end is the one that is accused, and a queue that waits for it is told."""
    diary = r.where / "diary"
    job = r.start("gpu gfx90a; hang kernel fill launch 7", "steps", 0, "other", diary, level=1)
    tap.wait_for(lambda: sum(q["in_flight"] > 0 and q["moved"] > INCIDENT for q in (r.read(job.pid) or {"queues": []})["queues"]) == 2)
    job.kill()
    job.communicate()
    begun, seen, fills, running = known_of(r, job, diary)
    t.same((begun, seen, fills, running), (4, 3, ["ended"] * 3 + ["running"], [FILL]), "a kernel that runs when the program is killed is the one that runs, those before it have ended")
    run = r.unhang.run("explain", "--json", r.where / f"{job.pid}.recording")
    incident = json.loads(run.stdout)["incidents"][0]
    events = {e["event"] for e in incident["timeline"]}
    t.ok(run.returncode == 1 and incident["cause"]["title"].endswith(": fill") and {"dispatch", "queue-pending"} <= events, "explain tells the kernel and the queue that waits", (incident["cause"], events))


def test_accused(t, r):
    """Killed at any moment, no kernel is called running that ended, and what the program saw to have ended is known."""
    kills = int(os.environ.get("UNHANG_KILLS", "14"))
    chance = random.Random(kills)
    wrong, unknown, told = [], [], 0
    for n in range(kills):
        way = WAYS[n % len(WAYS)]
        job, diary = steps(r, way, 0)
        job.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        job.kill()
        job.communicate()
        begun, seen, fills, running = known_of(r, job, diary)
        told += seen
        wrong += [f"{way}: {k} of {begun} launches, {seen} of them seen to have ended" for k in running]
        unknown += [f"{way}: {i} of {seen} is {p}" for i, p in enumerate(fills[:seen]) if p != "ended"]
        (r.where / f"{job.pid}.recording").unlink()
    t.no_complaints(wrong, f"after {kills} kills no kernel is accused that did not stand")
    t.no_complaints(unknown, f"and the {told} launches that the programs saw to have ended have")


def test_statistics(t, r):
    """Level 5: what the buffers held right before each kernel; level 10: the buffers themselves. Before launch N of saxpy, y holds N - 1."""
    dumps = r.where / "dumps"
    for plan, what in ((kfd.OPEN, "open VRAM"), (kfd.CLOSED, "closed VRAM, through staging")):
        job = r.run(plan, "series", 4, level=10, UNHANG_DUMPS=str(dumps), UNHANG_DUMP_COUNT="3", UNHANG_INCLUDE="*saxpy*")
        saxpy = [p for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == SAXPY]
        y = [[s for s in p["statistics"] if s["argument"] == 8][0] for p in saxpy]
        t.same((job.out.splitlines()[-1], [(s["min"], s["max"], s["mean"], s["elements"]) for s in y]), ("series 4", [(n, n, n, 1024) for n in range(4)]),
               f"{what}: statistics are those of the moment before each launch")
        kept = sorted(p.name for p in dumps.iterdir() if not p.name.startswith("code-"))
        t.same(kept, ["000001", "000002", "000003"], f"{what}: inputs of the last three launches are kept")
        raw = (dumps / "000003" / "inputs.safetensors").read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        head = json.loads(raw[8:8 + size])
        begin, end = head["argument_8"]["data_offsets"]
        values = set(struct.unpack(f"<{(end - begin) // 4}f", raw[8 + size + begin:8 + size + end]))
        metadata = json.loads((dumps / "000003" / "metadata.json").read_text())
        t.same((head["argument_8"]["dtype"], head["argument_8"]["shape"], values, metadata["kernel"], metadata["packet"]), ("F32", [1024], {3.0}, SAXPY, saxpy[3]["packet"]),
               f"{what}: as safetensors, with metadata")
        shutil.rmtree(dumps)
    job = r.run(kfd.OPEN, "launches", level=5)
    t.same((job.returncode, job.out), (0, kfd.LAUNCHES), "every way to launch computes the same at level 5")


def test_limit_of_file_sizes(t, r):
    """A limit that comes while inputs are written (RLIMIT_FSIZE): SIGXFSZ ends nobody."""
    dumps = r.where / "limited"
    job = r.start(kfd.OPEN, "series", 400, level=10, UNHANG_DUMPS=str(dumps), UNHANG_DUMP_COUNT="3")
    tap.wait_for(lambda: list(dumps.glob("*/metadata.json")))
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, (1024, 1024))
    out, err = job.communicate(timeout=60)
    err = LEAKED.sub("", err)
    t.ok(job.returncode == 0 and out.splitlines()[-1] == "series 400" and err.count("\n") == 1 and "cannot write inputs" in err, "the job ends as without it, and one line says what is missing",
         f"{job.returncode} {err}")
    shutil.rmtree(dumps)


def test_queues(t, r):
    """Sixteen threads on four queues, whose first buffers are read at the same time."""
    tool = r.library.parent / "libintercept-tool.so"
    job = r.start(kfd.CLOSED, "hsa-producers", r.where / "diary", r.programs.code, level=5, HSA_TOOLS_LIB=f"{tool} {r.library}", INTERCEPT_TOOL_SLOW="1")
    job.stdout.readline()
    queues = lambda: {q["id"] for q in r.read(job.pid, "--all")["queues"] if any(p["statistics"] for p in q["packets"])}
    t.same((tap.wait_for(lambda: job.poll() or len(queues()) == 4), job.poll()), (True, None), "level 5 reads for several queues at the same time")
    job.kill()
    job.communicate()


def fills(r, job):
    return [p for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == FILL]


def test_waited_for(t, r):
    """The GPU waits for the program, or does not go on at all: who launches is not held, at no level."""
    job = r.run(kfd.CLOSED, "gated", r.programs.code, 40, level=5)
    read = [p["packet"] for p in fills(r, job) if p["statistics"]]
    t.same((job.returncode, job.out, len(read)), (0, "gated 40 before 1\n", 40), "kernels behind a gate that their own thread opens: all are launched before, and all are read")
    job = r.run(kfd.CLOSED, "destroyed", r.programs.code, level=10, UNHANG_DUMPS=str(r.where / "dumps"))
    t.same((job.returncode, job.out, job.err), (0, "destroyed\n", ""), "a queue is destroyed with kernels that are held")
    job = r.start("gpu gfx90a; hang kernel fill launch 3", "series", 60, level=5)
    t.same(job.stdout.readline(), "launched\n", "on a GPU that hangs a program launches as far as without the recorder")
    job.kill()
    job.communicate()
    for level in (1, 5):
        job = r.run("gpu gfx90a; slow kernel * 0.001", "far-ahead", r.programs.code, 200, level=level, UNHANG_MAX_LEVEL="5")
        t.same((job.returncode, job.out), (0, "ahead 200\n"), f"level {level}: more launches than the queue has room for")


def test_items(t, r):
    """After each kernel a copy to the host behind it. It waits for the kernel, which waits for its buffers to be read. Before launch N, y holds N - 1."""
    for level in (5, 10):
        dumps = r.where / f"items-{level}"
        job = r.run(kfd.OPEN, "items", 12, level=level, UNHANG_DUMPS=str(dumps), UNHANG_INCLUDE="*saxpy*")  # HIP 6 and 7 copy by kernels, too
        t.same((job.returncode, job.out, job.err), (0, "items 12 wrong 0\n", ""), f"level {level}: copies behind kernels go on, and so does the level")
        y = [[s["max"] for s in p["statistics"] if s["argument"] == 8] for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == SAXPY]
        t.same(y, [[n] for n in range(12)], f"level {level}: and the buffers of all kernels are read")
        t.same(len(list(dumps.glob("*/metadata.json"))), 12 if level == 10 else 0, f"level {level}: and dumped")


def test_parts(t, r):
    """ROCm's loader takes the copy kernel of each part that this runtime knows."""
    for part in ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030"):
        job = r.run(f"gpu {part}", "places", level=5)
        t.same((job.returncode, job.err), (0, ""), f"{part}: the recorder has a queue and a kernel of its own")
    job = r.run("gpu gfx803", "places", level=5)
    t.same((job.returncode, job.err), (0, "unhang: recorder: levels 5 and 10 have no kernel of their own for gfx803; the runtime copies its buffers\n"), "a part without one is told")


def test_busy(t, r):
    """A GPU that does not come to the recorder's copies, as where a kernel that stays fills it."""
    busy = "unhang: recorder: the GPU is too busy to copy buffers for the recorder; some are left out\n"
    job = r.run("gpu gfx90a; hang kernel unhang_copy launch 5", "items", 12, level=5, UNHANG_INCLUDE="*saxpy*")
    y = [[s["max"] for s in p["statistics"] if s["argument"] == 8] for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == SAXPY]
    t.same((job.returncode, job.out, job.err, y), (0, "items 12 wrong 0\n", busy, [[0], [1]] + [[]] * 10), "after the first that it does not come to, buffers are left out at once")
    # The copy comes when the buffer is gone: it must not touch it.
    job = r.run("gpu gfx90a; slow kernel unhang_copy launch 1 8", "freed-early", r.programs.code, 2, ",", "wait", 6000, level=5)
    t.same((job.returncode, job.out, job.err), (0, "freed 2\n", busy), "a copy that was given up does not read memory that was freed since")


def test_buffers(t, r):
    """Buffers that the recorder could not expect."""
    dumps = {"level": 10, "UNHANG_DUMPS": str(r.where / "dumps")}
    for plan, mode, said in ((kfd.CLOSED, "odd-pointers", "odd 29"), (kfd.CLOSED, "small-stack", "small stack"), (f"{kfd.OPEN}; {kfd.OPEN}", "others-buffer", "other's"),
                             (f"{kfd.OPEN}; {kfd.CLOSED}", "others-buffer", "other's")):
        job = r.run(plan, mode, r.programs.code, **dumps)
        t.same((job.returncode, job.out, job.err), (0, f"{said}\n", ""), f"{mode}: as without the recorder")
        if mode == "others-buffer":
            t.same([len(p["statistics"]) for p in fills(r, job)], [1, 1, 1], "and a buffer of another GPU is read")
    for what, more in (("the recorder is loaded each time", {}), ("it stays", {"LD_PRELOAD": f"{r.programs.library} {r.library}"})):
        shutil.rmtree(r.where / "dumps")
        job = r.run(kfd.CLOSED, "again", r.programs.code, 4, **dumps, **more)
        t.same((job.returncode, job.out, [line for line in job.err.splitlines() if line.startswith("unhang")]), (0, "again 4\n", []), f"a runtime that is started four times; {what}")
        t.ok(sum(1 for d in (r.where / "dumps").iterdir() if (d / "metadata.json").exists()) >= 4, f"and each time the inputs are dumped; {what}", os.listdir(r.where / "dumps"))


def test_runtime_copies(t, r):
    """A GPU that the recorder has no kernel for: the runtime copies. A tool before the recorder refuses the kernel; makes each copy slow, or lets none return."""
    tools = {"level": 5, "HSA_TOOLS_LIB": f"{r.library.parent / 'libintercept-tool.so'} {r.library}"}
    job = r.run(kfd.OPEN, "freed-early", r.programs.code, 12, INTERCEPT_TOOL_COPY="slow", **tools)
    t.same((job.returncode, job.out), (0, "freed 12\n"), "a buffer that is freed while it is read")
    job = r.run(kfd.CLOSED, "gated", r.programs.code, 40, INTERCEPT_TOOL_COPY="never", **tools)
    t.same((job.returncode, job.out, job.err.count("unhang: recorder: a buffer could not be read for 5 seconds")), (0, "gated 40 before 1\n", 1),
           "a copy that never returns: the kernels are let go, and one line says so")
    job = r.run(kfd.OPEN, "items", 12, INTERCEPT_TOOL_COPY="as-it-is", **tools)
    lines = [line for line in job.err.splitlines() if line.startswith("unhang")]
    t.ok((job.returncode, job.out) == (0, "items 12 wrong 0\n") and "no kernel of their own for gfx90a" in lines[0] and all("copies behind kernels" in line for line in lines[1:]),
         "copies behind kernels go on, and so does the level; what is left out is told", job.err)


def test_ends(t, r):
    """The program ends while threads launch on queues that come and go, and kernels are held."""
    for how, status in (("exit", 7), ("fork", 7), ("abort", -6)):
        job = r.run(kfd.CLOSED, "ends", r.programs.code, how, level=5)
        t.same((job.returncode, job.out), (status, "ends\n"), f"{how} in the middle")
    job = r.start(kfd.CLOSED, "ends", r.programs.code, "wait", level=1, UNHANG_MAX_LEVEL="10", UNHANG_DUMPS=str(r.where / "dumps"))
    job.stdout.readline()
    told = [r.unhang.run("level", r.where / f"{job.pid}.recording", level).returncode for level in (5, 0, 10, 3, 5, 1) * 2]
    t.same((set(told), job.poll()), ({0}, None), "the level goes up and down twelve times meanwhile")
    job.kill()
    job.communicate()


def test_races(t, r):
    """Under ThreadSanitizer, which is loaded before: what the recorder's code and locks do is seen, ROCm's own code is not."""
    library, sanitizer = r.library.parent / "librecorder-threads.so", subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True).stdout.strip()
    if not library.exists() or not os.path.isabs(sanitizer) or kfd.ROOT:
        return t.skip("the recorder's own races", "no ThreadSanitizer here, or another C library than its own")
    options = {"HSA_TOOLS_LIB": str(library), "LD_PRELOAD": f"{sanitizer} {r.programs.library}", "TSAN_OPTIONS": "exitcode=66 ignore_noninstrumented_modules=1 report_thread_leaks=0", "UNHANG_DUMPS": str(r.where / "dumps")}
    for level in (5, 10):
        job = r.run(kfd.CLOSED, "ends", r.programs.code, "exit", level=level, **options)
        t.same((job.returncode, job.out, job.err.count("ThreadSanitizer")), (7, "ends\n", 0), f"level {level}: threads, and queues that come and go, without a race")
    return None


def test_intercept(t, r):
    """Another tools library before and behind it: both see everything."""
    tool = r.library.parent / "libintercept-tool.so"
    for level, order in ((3, f"{tool} {r.library}"), (3, f"{r.library} {tool}"), (5, f"{tool} {r.library}"), (5, f"{r.library} {tool}")):
        job = r.run(kfd.OPEN, "series", 5, level=level, HSA_TOOLS_LIB=order)
        counted = [int(line.split()[-1]) for line in job.err.splitlines() if line.startswith("intercept-tool:")]
        saxpy = [p for p in dispatches(r.read(job.pid, "--all")) if p["kernel"] == SAXPY]
        read = sum(1 for p in saxpy if p["statistics"])
        t.same((job.out.splitlines()[-1], len(saxpy), read, counted and counted[0] >= 10), ("series 5", 5, 5 if level == 5 else 0, True),
               f"level {level}, {'before' if order.startswith(str(r.library)) else 'behind'} an intercept tool: both see every launch")


TESTS = (test_launches, test_other_launches, test_pools, test_threads, test_hang, test_hang_behind, test_fault, test_core, test_captured, test_watched, test_allocation, test_closed, test_vram,
         test_kills, test_piped, test_done, test_standing, test_accused, test_statistics, test_limit_of_file_sizes, test_waited_for, test_items, test_parts,
         test_busy, test_buffers, test_ends, test_races)
BESIDE_A_TOOL = (test_queues, test_runtime_copies, test_intercept)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    library, wanted = pathlib.Path(sys.argv[2]).resolve(), {f"test_{name}" for name in sys.argv[3:]}  # all of them, if none is named
    programs = kfd.Programs(unhang)
    if not shutil.which(kfd.HIPCC[0]) or not programs.library.exists():
        t.skip("the recorder under ROCm", "no hipcc here")
        return t.end()
    complaint = programs.compile()
    if complaint:
        t.skip("the recorder under ROCm", f"hipcc cannot compile: {complaint.splitlines()[0]}")
        return t.end()
    where = tempfile.mkdtemp(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    r = Recorded(t, unhang, programs, library, where)
    try:
        for test in TESTS + BESIDE_A_TOOL * (library.parent / "libintercept-tool.so").exists():
            if wanted and test.__name__ not in wanted:
                continue
            try:
                test(t, r)
            except Exception:  # what a program did not print or record is missed by this test alone
                t.ok(False, f"{test.__name__} to its end", traceback.format_exc())
    finally:
        shutil.rmtree(where, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
