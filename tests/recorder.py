#!/usr/bin/env python3
"""The flight recorder under a runtime that is none (fake_runtime.c): what it records, what survives a kill, and when it steps aside.

UNHANG_KILLS: so many kills instead of the few that a test can afford."""
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import tap

GOLDEN = 0x9e3779b97f4a7c15
ARGUMENTS = 48
INCIDENT = 5.1  # seconds: a queue that stands so long is an incident


def kernel_of(packet):
    return (packet * GOLDEN & (1 << 64) - 1) >> 61


class Job:
    """A program under the recorder, with recordings in a directory of its own."""

    def __init__(self, t, unhang, program, library, where):
        self.t, self.unhang, self.program, self.library, self.where = t, unhang, program, library, pathlib.Path(where)

    def environment(self, **settings):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("UNHANG_") and k not in ("RANK", "LOCAL_RANK")}
        return {**clean, "UNHANG_RECORDING": f"{self.where}/%p.recording", "UNHANG_KEEP": "1000", **settings}

    def start(self, mode, *options, **settings):
        return subprocess.Popen([self.program, self.library, mode, *options], env=self.environment(**settings), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, mode, *options, **settings):
        job = self.start(mode, *options, **settings)
        out, err = job.communicate(timeout=60)
        job.out, job.err = out, err
        return job

    def path(self, pid):
        return self.where / f"{pid}.recording"

    def last(self, *arguments):
        run = self.unhang.run("last", "--json", *arguments)
        return json.loads(run.stdout) if run.returncode == 0 else None

    def read(self, pid, *arguments):
        document = self.last(self.path(pid), *arguments)
        return document["recordings"][0] if document else None


def wrong_packets(recording):
    """Packets that are not what the program launched: their contents follow from their numbers."""
    wrong = []
    for queue in recording["queues"]:
        for p in queue["packets"]:
            n = p["packet"]
            expected = {"kernel": f"kernel{kernel_of(n)}", "grid": [n % 1000 + 1, (n & 0xffff) + 1, 1], "workgroup": [64, 2, 1], "kind": "dispatch"}
            for key, value in expected.items():
                if p[key] != value:
                    wrong.append(f"packet {n}: {key} is {p[key]}, not {value}")
            a = p["arguments"]
            if a and a["state"] == "copied":
                words = [0x7f0000000000 + (n & 0xff) * 4] + [n * i for i in range(1, ARGUMENTS // 8)]
                if [int(w, 16) for w in a["words"]] != words:
                    wrong.append(f"packet {n}: arguments {a['words']}")
    return wrong


def test_launches(t, job):
    ran = job.run("run", "launches=100", UNHANG_LEVEL="3")
    r = job.read(ran.pid, "--all")
    t.same((ran.returncode, ran.err), (0, ""), "a job under the recorder runs and is told nothing")
    t.ok(r and r["state"] == "ended" and r["level"] == 3, "its recording says that it ended", r and (r["state"], r["level"]))
    q = r["queues"][0]
    t.same([p["packet"] for p in q["packets"]], list(range(100)), "every packet is there once")
    t.no_complaints(wrong_packets(r), "each with its kernel, sizes and arguments")
    t.same((q["gpu"]["name"], q["gpu"]["pci"], q["size"], q["launched"]), ("gfx90a", "0000:c3:00.0", 1024, 100), "of a queue of that GPU")
    t.same({p["thread"]["tid"] for p in q["packets"]} - {ran.pid} != set(), True, "by the thread that launched them")
    t.same((r["torn"], r["kernels"]), (0, 8), "nothing is torn, and every kernel has a name")


def test_levels(t, job):
    ran = job.run("run", "launches=50", UNHANG_LEVEL="0")
    r = job.read(ran.pid, "--all")
    t.same([len(q["packets"]) for q in r["queues"]], [0], "level 0 records no packet")
    ran = job.run("run", "launches=50", UNHANG_LEVEL="1")
    r = job.read(ran.pid, "--all")
    t.same({p["arguments"] is None for p in r["queues"][0]["packets"]}, {True}, "level 1 records no arguments")
    ran = job.run("run", "launches=50", "queues=2", "threads=2", UNHANG_LEVEL="3")
    r = job.read(ran.pid, "--all")
    t.same({p["arguments"]["state"] for p in r["queues"][1]["packets"]}, {"in-vram"}, "arguments in VRAM are not read, and this is said")
    ran = job.run("run", "launches=50", UNHANG_LEVEL="3", UNHANG_INCLUDE="kernel1,kernel2*", UNHANG_EXCLUDE="*2")
    r = job.read(ran.pid, "--all")
    copied = {p["kernel"] for p in r["queues"][0]["packets"] if p["arguments"]["state"] == "copied"}
    t.same(copied, {"kernel1"}, "arguments only of kernels that the globs name")
    t.same(len(r["queues"][0]["packets"]), 50, "and the packets of all")


def test_level_changes(t, job, unhang):
    ran = job.start("run", "forever=1", "slow=1", UNHANG_LEVEL="1")
    path = job.path(ran.pid)
    tap.wait_for(lambda: path.exists() and (job.read(ran.pid) or {}).get("queues"))
    run = unhang.run("level", str(ran.pid), "3")
    t.ok(run.returncode == 0 and b"level 3, was 1" in run.stdout, "the level of a running job can be changed", run.stdout + run.stderr)
    found = tap.wait_for(lambda: [p for p in job.read(ran.pid)["queues"][0]["packets"] if p["arguments"] and p["arguments"]["state"] == "copied"])
    t.ok(found, "and arguments are recorded from then on")
    run = unhang.run("level", str(ran.pid), "5")
    t.ok(run.returncode == 2 and b"UNHANG_MAX_LEVEL=5" in run.stderr and run.stderr.count(b"\n") == 1, "level 5 is refused with the reason", run.stderr)
    t.ok(job.last(str(ran.pid))["recordings"][0]["state"] == "running", "a process is found by its number")
    unhang.run("level", str(ran.pid), "0")
    t.ok(tap.wait_for(lambda: job.read(ran.pid)["level"] == 0), "recording can be switched off")
    ran.kill()
    ran.communicate()
    run = unhang.run("level", path, "3")
    t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1, "a process that has ended has no level", run.stderr)


def test_hang(t, job, unhang):
    """The kernel that hangs is named, while the process lives and afterwards."""
    ran = job.start("stay", "launches=40", "hang=17", UNHANG_LEVEL="3")
    ran.stdout.readline()
    tap.wait_for(lambda: (q := job.read(ran.pid)["queues"][0])["read"] == 17 and q["moved"] > INCIDENT)
    for when in ("live", "after a kill"):
        q = job.read(ran.pid)["queues"][0]
        flying = [p for p in q["packets"] if p["progress"] in ("running", "waiting")]
        t.same((flying[0]["packet"], flying[0]["kernel"], flying[0]["progress"]), (17, f"kernel{kernel_of(17)}", "running"), f"{when}: the packet that hangs")
        t.same((len(flying), q["in_flight"]), (23, 23), f"{when}: and those behind it")
        t.same(int(flying[0]["arguments"]["words"][2], 16), 34, f"{when}: with its arguments")
        ended = {p["progress"] for p in q["packets"] if p["packet"] < 17}
        t.ok(ended <= {"ended", "probably-ended"} and "ended" in ended, f"{when}: those before it have ended, some certainly", ended)
        run = unhang.run("explain", job.path(ran.pid))
        t.ok(run.returncode == 1 and f"A GPU kernel does not end: kernel{kernel_of(17)}" in run.stdout.decode(), f"{when}: for explain it is an incident", run.stdout)
        t.same("before you kill anything" in run.stdout.decode(), when == "live", f"{when}: evidence is to be saved only while there is a process to kill")
        text = unhang.run("last", job.path(ran.pid)).stdout.decode()
        t.ok(f"> #17  kernel{kernel_of(17)}" in text and "23 in flight" in text, f"{when}: and in words", text)
        ran.kill()
        ran.wait()
    t.same(job.read(ran.pid)["state"], "died", "that it was killed is told")
    t.ok("The recording ends at 20" in text and "s before the end " in text and " ago" not in text, "and that times are as of then", text)


def test_allocation_that_hangs(t, job, unhang):
    ran = job.start("hang-allocation")
    ran.stdout.readline()
    waiting = tap.wait_for(lambda: [h for h in job.read(ran.pid)["threads"] if h["call"]])
    t.ok(waiting and waiting[0]["call"] == "hsa_amd_memory_pool_allocate" and "7168 bytes" in waiting[0]["what"] and waiting[0]["tid"] == ran.pid,
         "a call that does not return names thread and size", waiting)
    ran.kill()
    ran.communicate()
    r = job.read(ran.pid)
    t.same([h["call"] for h in r["threads"] if h["call"]], ["hsa_amd_memory_pool_allocate"], "also after a kill")
    t.same([a["size"] for a in r["last_allocations"]], [3584] * 3, "with what was allocated before")
    text = unhang.run("last", job.path(ran.pid)).stdout.decode()
    t.ok("is inside of hsa_amd_memory_pool_allocate of 7168 bytes" in text and "Allocated and freed before:" in text, "and in words", text)


def test_fault(t, job, unhang):
    ran = job.run("fault", UNHANG_LEVEL="3")
    r = job.read(ran.pid, "--address", "0x7f0000200010")
    fault = r["faults"][0]
    near = fault["near"]
    t.same((fault["address"], fault["reasons"], fault["gpu"]), ("0x7f0000001000", "page not present", "gfx90a"), "a memory fault is recorded")
    t.same((near["relation"], near["allocation"]["address"], near["allocation"]["size"], near["allocation"]["distance"]), ("past", "0x7f0000000000", 4096, 0),
           "it is just past the end of a buffer")
    t.ok("just past the end of the 4 KiB buffer" in near["text"], "in words", near["text"])
    t.same((r["near"]["relation"], r["near"]["allocation"]["size"]), ("freed", 0x2000), "an address in a buffer that was freed")
    t.same(r["near"]["allocation"]["freed_by"]["tid"], ran.pid, "and by whom")
    text = unhang.run("last", job.path(ran.pid), "--address", "0x100").stdout.decode()
    t.ok("near no allocation" in text and "Memory fault at 0x7f0000001000" in text, "an address near nothing", text)
    page = unhang.run("explain", "--html", "-", job.path(ran.pid)).stdout.decode()
    t.ok("Addresses around the fault" in page and re.search(r"<td>freed buffer</td><td>0x7f0000200000</td>", page), "a report draws the buffers around it, freed ones too")


def test_struck(t, job, unhang):
    """A program that goes on after a fault, and destroys its queue: with HIP 7 a fault is an error that a call returns."""
    for hang, progress, named in ((0, "running", True), (9, "ended", False)):
        ran = job.run("struck", f"hang={hang}")
        packet = job.read(ran.pid, "--all")["queues"][0]["packets"][0]
        text = unhang.run("explain", job.path(ran.pid)).stdout.decode()
        t.same((ran.returncode, packet["progress"], f"(kernel{kernel_of(0)})" in text), (1, progress, named), f"a kernel that was {progress} when the fault came")


def test_memory(t, job, unhang):
    """Freed, reserved but not mapped, mapped but not for this GPU, shared, locked: each is told for what it is."""
    ran = job.run("memory", "ext=600", UNHANG_HOLD="0")
    wanted = [("inside", "mapped range", True, True, "inside the 2 MiB mapped range"),
              ("inside", "mapped range", True, True, "inside the 2 MiB mapped range"),
              ("inside", "mapped range", True, False, "(not mapped for this GPU)"),
              ("freed", "mapped range", True, True, "inside the unmapped 2 MiB mapped range"),
              ("inside", "reserved range", False, True, "(no memory is mapped there)"),
              ("freed", "locked host memory", True, True, "inside the freed 4 KiB locked host memory"),
              ("inside", "locked host memory", True, False, "(not mapped for this GPU)"),
              ("freed", "buffer of another process", True, True, "inside the freed 2 MiB buffer of another process"),
              ("inside", "shared range (SVM)", True, True, "inside the 2 MiB shared range (SVM)"),
              ("freed", "buffer of another process", True, True, "freed"),
              ("freed", "locked host memory", True, True, "freed")]
    faults = job.read(ran.pid)["faults"]
    t.same(len(faults), len(wanted), "a fault at each")
    for fault, (relation, kind, mapped, for_gpu, words) in zip(faults, wanted):
        near = fault["near"]
        a = near["allocation"] or {}
        t.ok((near["relation"], a.get("kind"), a.get("mapped"), a.get("for_gpu")) == (relation, kind, mapped, for_gpu) and words in near["text"],
             f"{relation} {kind}{'' if mapped else ', not mapped'}{'' if for_gpu else ', not for this GPU'}", near)


def test_queues(t, job):
    """Queues as ROCm 10 makes them, by descriptions; their doorbells may be signals like any other. Those of SDMA have bytes, and are left alone."""
    table = ("ext=744", "step=18", "wishes=1", "queues=3", "threads=3", "launches=60")
    made = "made 3, refused 1, SDMA 1, status 0x1001 and 0x1001; intercepted {}, priority {}, CUs {}, errors 1\ndone\n"
    for doorbells in ("user-doorbells=0", "user-doorbells=1"):
        ran = job.run("run", *table, doorbells, UNHANG_LEVEL="3")
        r = job.read(ran.pid, "--all")
        t.same((ran.returncode, ran.out, ran.err), (0, made.format(0, 0, "0"), ""), f"{doorbells}: they are made as without the recorder")
        t.same([(len(q["packets"]), q["gpu"]["name"]) for q in r["queues"]], [(60, "gfx90a")] * 3, f"{doorbells}: and recorded")
        t.no_complaints(wrong_packets(r), f"{doorbells}: each packet is right")
        t.same(r["faults"][0]["kind"] if r["faults"] else None, "queue-error", f"{doorbells}: an error of one is recorded and handed on")
    ran = job.run("run", *table, UNHANG_LEVEL="1", UNHANG_MAX_LEVEL="5")
    t.same((ran.returncode, ran.out, [len(q["packets"]) for q in job.read(ran.pid, "--all")["queues"]]), (0, made.format(3, 2, "0xf0f"), [60] * 3),
           "such as can be held are made with their priority and their CUs")
    for step, out in ((15, "done\n"), (16, "replaced\ndone\n")):
        ran = job.run("run", "ext=744", f"step={step}", "odd-place=86", "queues=1", "launches=20")
        t.same((ran.err, ran.out, len(job.read(ran.pid, "--all")["queues"][0]["packets"])), ("", out, 20), f"the place of that function in a table of step {step}")
    ran = job.run("run", "unseen=1", "launches=20")
    q = job.read(ran.pid, "--all")["queues"][0]
    t.same((ran.err, len(q["packets"]), q["gpu"]), ("", 20, None), "a queue that was made in another way is found by its doorbell")


def test_hold(t, job, supervise):
    """A fault is held for who looks after the job, and for nobody else. The job waits for a line before it faults."""
    def held(supervisor, behaviour, seconds="5"):
        path = job.where / "held.recording"
        path.unlink(missing_ok=True)
        looks = behaviour and subprocess.Popen([supervise, path, behaviour, "60"], stdout=subprocess.PIPE, text=True)
        ran = job.start("fault", "wait=1", UNHANG_SUPERVISOR=str(supervisor), UNHANG_HOLD=seconds, UNHANG_RECORDING=str(path))
        told = looks.stdout.readline() if behaviour else ""
        begin = time.monotonic()
        ran.communicate("\n", timeout=60)
        took = time.monotonic() - begin
        told += looks.communicate(timeout=60)[0] if behaviour else ""
        return ran, told, job.last(path)["recordings"][0]["hold"], took

    core = str(job.where / "held.gpucore")
    ran, told, hold, _ = held(os.getpid(), "release")
    t.same((ran.returncode, told, hold), (-signal.SIGKILL, f"attends\npid {ran.pid} state 3 why 28 number 1 left 1 core {core}\n",
                                          {"number": 1, "state": "released", "why": "memory-fault", "core": core}), "held until the supervisor lets it go")
    ran, told, hold, took = held(os.getpid(), "early", "1")
    t.same((ran.returncode, hold["state"], took >= 1), (-signal.SIGKILL, "expired", True), "a supervisor that does not let go holds it for as long as it may")
    gone = subprocess.Popen(["true"])
    gone.wait()
    ran, told, hold, took = held(gone.pid, None)
    t.same((ran.returncode, hold["state"], took >= 0.5), (-signal.SIGKILL, "unanswered", True), "who does not answer does not hold it")
    for supervisor, seconds, why in ((0, "5", "without a supervisor nothing is held"), (os.getpid(), "0", "nor where UNHANG_HOLD is 0")):
        ran, told, hold, took = held(supervisor, None, seconds)
        t.same((ran.returncode, hold), (-signal.SIGKILL, None), why)


def test_supervisor_may_look(t, job):
    """Under Yama a process lets its supervisor in, and nobody who merely has that number."""
    for name, supervisor, told in (("the process that it descends from", os.getpid(), f"ptracer {os.getpid()}\ndone\n"), ("no other", 2 ** 22 - 1, "done\n"), ("nobody", 0, "done\n")):
        ran = job.run("run", "launches=1", FAKE_KFD="1", UNHANG_SUPERVISOR=str(supervisor))
        t.same((ran.returncode, ran.out, ran.err), (0, told, ""), name)


def test_core(t, job, unhang):
    """A light GPU core: with a driver that tells of queues (fake_kfd.c), and without."""
    def core_of(**settings):
        ran = job.run("fault", "hang=0", UNHANG_CORE=f"{job.where}/%p.gpucore", **settings)
        path = job.where / f"{ran.pid}.gpucore"
        return ran, path, json.loads(unhang.run("queues", "--json", path).stdout)

    ran, path, found = core_of(FAKE_KFD="1")
    hold = job.read(ran.pid)["hold"]
    t.same((ran.returncode, ran.out, hold["state"], hold["core"]), (-signal.SIGKILL, "kfd: enable gpus queues suspend queues disable\n", "unanswered", str(path)),
           "UNHANG_CORE asks for a core, for which the queues are suspended and let go again")
    queue = found["queues"][0]
    t.same((found["pid"], found["runtime"]["kfd_version"], queue["id"], queue["gfx"], queue["read_index"], queue["write_index"], queue["problem"]),
           (ran.pid, "1.14", 7, "gfx90a", 0, 1, None), "it has the queues as the driver tells of them, with their memory")
    t.same((queue["packets"][0]["grid"], queue["packets"][0]["workgroup_size"]), ([1, 1, 1], [64, 2, 1]), "and the packets in flight")
    t.same(path.stat().st_blocks * 512 < 1 << 20, True, "it is small")
    inside = path.read_bytes()
    t.same([word for word in (b"page of the list's head", b"page of its first member", b"page of its second member", b"file:///nowhere/of-the-list.co") if word not in inside], [],
           "and the runtime's list of code objects, by which a debugger finds the kernels")
    ran, path, found = core_of()
    queue = found["queues"][0]
    t.same((queue["id"], queue["gfx"], queue["write_index"], "did not tell" in queue["problem"]), (0, "gfx90a", 1, True), "without a driver it has what the recorder knows")
    ran = job.run("fault", "hang=0", UNHANG_CORE=f"{job.where}/nowhere/core")
    t.ok(ran.returncode == -signal.SIGKILL and ran.err.count("\n") == 1 and "no GPU core" in ran.err, "where it cannot be written: one line", ran.err)
    ran = job.run("fault", "hang=0", UNHANG_CORE=f"{job.where}/%p.gpucore", UNHANG_CORE_BYTES="4096")
    path = job.where / f"{ran.pid}.gpucore"
    t.ok(unhang.run("queues", path).returncode == 0, "one that must be too small for everything is read, too")


def test_kills(t, job):
    """A kill at any instruction leaves a recording that opens, and each record that is accepted is right."""
    kills = int(os.environ.get("UNHANG_KILLS", "24"))
    chance = random.Random(kills)
    torn, packets, wrong, unread = 0, 0, [], 0
    for _ in range(kills):
        ran = job.start("run", "forever=1", "threads=16", "queues=2", "size=256", "allocations=8", UNHANG_LEVEL="3")
        ran.stdout.readline()
        time.sleep(chance.uniform(0, 0.02))
        ran.send_signal(signal.SIGKILL)
        ran.communicate()
        r = job.read(ran.pid, "--all")
        unread += r is None
        if r:
            torn += r["torn"]
            packets += sum(len(q["packets"]) for q in r["queues"])
            wrong += wrong_packets(r)
        job.path(ran.pid).unlink()
    t.same(unread, 0, f"after each of {kills} kills the recording opens")
    t.no_complaints(wrong[:5], f"every record that is accepted is right (16 producers: {packets} packets accepted, {torn} torn)")
    t.ok(packets > 50 * kills, "and there are many", packets)
    for _ in range(4):
        ran = job.start("run", "forever=1")
        tap.wait_for(lambda: job.path(ran.pid).exists())
        ran.send_signal(signal.SIGKILL)
        ran.communicate()
        run = job.unhang.run("last", job.path(ran.pid))
        t.ok(run.returncode in (0, 2) and run.stderr.count(b"\n") == (run.returncode == 2), "a kill at the start: a recording, or one line that it is none", run.stderr)


def test_exports(t, library):
    """What others find by name. rocprofiler_configure would make AMD's register load its SDK, and end a job that has none; rocprofiler_set_api_table would displace it."""
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.split()[2::3]
    t.same(sorted(names), ["HSA_AMD_TOOL_PRIORITY", "OnLoad", "OnUnload", *(f"unhang_recorder_{f}" for f in ("begin", "end", "functions", "level", "operation", "torch"))], "the recorder exports what the runtime and frameworks look for, and nothing else")


def test_steps_aside(t, job):
    """Whatever is unexpected: the job runs, and there is one line or none."""
    expect = {
        "odd-table": ("odd-table", {}, "sizes that are not known"),
        "no such directory": ("run", {"UNHANG_RECORDING": "/nonexistent/deep/x.recording"}, "no directory"),
        "a directory that is a file": ("run", {"UNHANG_RECORDING": "/dev/null/x.recording"}, "no directory"),
        "no room": ("run", {"UNHANG_SPACE": "16384"}, "no room"),
        "a setting that is none": ("run", {"UNHANG_LEVEL": "lots"}, "UNHANG_LEVEL=lots is no number"),
    }
    if os.path.isdir("/sys/fs"):
        expect["a read-only file system"] = ("run", {"UNHANG_RECORDING": "/sys/fs/x.recording"}, "cannot make")
    for what, (mode, settings, line) in expect.items():
        ran = job.run(mode, "launches=20", **settings)
        t.ok(ran.returncode == 0 and "done" in ran.out and line in ran.err and ran.err.count("\n") == 1, f"{what}: one line", f"{ran.returncode} {ran.err}")
    ran = job.run("twice", "launches=20")
    r = job.read(ran.pid, "--all")
    t.same((ran.err, len(r["queues"][0]["packets"])), ("", 20), "found twice by one runtime: no effect")
    ran = job.run("unload", "launches=20")
    t.same((ran.returncode, ran.err, job.read(ran.pid)["state"]), (0, "", "ended"), "unloaded and closed: launches go on")
    ran = job.run("fork", "launches=20")
    r = job.read(ran.pid, "--all")
    t.same((ran.out.splitlines()[0], r["allocations"], len(r["queues"][0]["packets"])), ("child 0", 0, 20), "a child of fork() records nothing")
    plain = subprocess.run(["true"], env={**job.environment(), "LD_PRELOAD": job.library}, capture_output=True, text=True)
    t.same((plain.returncode, plain.stderr), (0, ""), "preloaded into a program without ROCm: no effect")
    ran = job.run("run", "launches=20", "size=16384", UNHANG_SPACE="300K", UNHANG_LEVEL="1")
    r = job.read(ran.pid, "--all")
    t.ok(ran.returncode == 0 and r and r["queues"][0]["short"] and job.path(ran.pid).stat().st_size <= 300 << 10, "little room: a short ring of packets", ran.err)
    ran = job.run("run", "launches=20", "ext=608", UNHANG_LEVEL="3")
    t.same((ran.err, len(job.read(ran.pid, "--all")["queues"][0]["packets"])), ("", 20), "the tables of ROCm 7 are known, too")


def test_cut(t, job, unhang):
    """Of a recording that is not whole nobody says that all is well."""
    ran = job.run("run", "launches=50")
    whole, path = job.path(ran.pid).read_bytes(), job.where / "cut.recording"
    for what, content in {"its head alone": whole[:32768], "a byte less": whole[:-1], "a damaged begin": b"\xff" * 8 + whole[8:], "nothing": b""}.items():
        path.write_bytes(content)
        run = unhang.run("explain", path)
        t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1 and b"cut.recording: " in run.stderr, f"explain, {what}: the answer is not known", run.stdout + run.stderr)
        run = unhang.run("last", path)
        t.ok(b"No queue was made" not in run.stdout and b"nothing at all" not in run.stdout, f"last, {what}: nobody knows what was launched", run.stdout + run.stderr)
    path.write_bytes(whole[:-1])
    t.same([q["launched"] for q in job.last(path)["recordings"][0]["queues"]], [50], "what is there is read")
    path.unlink()


def extents(content):
    """The lines of a recording's table: where each is, its kind, and where its piece is."""
    for at in range(4096, 4096 + 480 * 40, 40):
        kind, _, offset = struct.unpack_from("<IIQ", content, at)
        if kind:
            yield at, kind, offset


def test_damaged(t, job, unhang):
    """A recording of a job that died by a fault or of a kernel: whatever of it is damaged, nobody says that all is well."""
    whole = job.path(job.run("fault", "hang=0").pid).read_bytes()
    events = next((line, offset) for line, kind, offset in extents(whole) if kind == 3)
    queue = next(offset for _, kind, offset in extents(whole) if kind == 1)
    ended = job.path(job.run("run", "launches=5").pid).read_bytes()
    last = [line for line, _, _ in extents(ended)][-1]

    def put(at, content):
        return whole[:at] + content + whole[at + len(content):]
    damaged = {"a table that is zeros": put(4096, bytes(4096)), "a line of the table that is zeros": put(events[0], bytes(40)),
               "a queue that is missing of one that ended well": ended[:last] + bytes(40) + ended[last + 40:],
               "events that are zeros": put(events[1], bytes(4096)), "events that are zeros but for their number": put(events[1] + 64, bytes(4032)),
               "events that are anything": put(events[1], random.Random(1).randbytes(4096)),
               "a queue that is zeros": put(events[1] + 64, bytes(4032))[:queue] + bytes(4096) + whole[queue + 4096:],
               "a first word that is zeros": put(0, bytes(4))}
    path = job.where / "damaged.rec"
    path.write_bytes(whole)
    t.same(unhang.run("explain", path).returncode, 1, "whole: the fault is told")
    for what, content in damaged.items():
        path.write_bytes(content)
        run = unhang.run("explain", path)
        t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1 and b"damaged.rec: " in run.stderr, f"{what}: the answer is not known", run.stdout + run.stderr)
    path.write_bytes(put(4096, bytes(4096)))
    text = unhang.run("last", path).stdout
    t.ok(b"What it launched is not known" in text and b"No queue was made" not in text, "nor does last know what was launched", text)
    path.unlink()
    died = job.run("die", "launches=5", "hang=0")
    run = unhang.run("explain", job.path(died.pid))
    t.ok(run.returncode == 2 and b"its process died, and nobody knows whether 5 of its launches ended" in run.stderr, "a process that died with launches in flight: nobody knows", run.stdout + run.stderr)
    run = unhang.run("explain", job.path(job.run("run", "launches=5").pid))
    t.same((run.returncode, run.stderr), (0, b""), "one that ended in order: all is well")


def test_vacuum(t, job, where):
    folder = pathlib.Path(where) / "vacuum"
    folder.mkdir()
    (folder / "other.recording").write_text("not ours")
    for _ in range(5):
        job.run("run", "launches=1", UNHANG_RECORDING=f"{folder}/%p.recording", UNHANG_KEEP="2")
    t.same((len(list(folder.glob("*.recording"))), (folder / "other.recording").exists()), (4, True), "old recordings are removed but for some; files of others stay")


def test_ranks(t, job, where):
    folder = pathlib.Path(where) / "ranks"
    folder.mkdir()
    for rank, launches in ((0, 60), (1, 60), (2, 45)):
        job.run("run", f"launches={launches}", UNHANG_RECORDING=f"{folder}/rank%i.recording", RANK=str(rank))
    document = job.last(folder)
    t.same([r["rank"] for r in document["recordings"]], [0, 1, 2], "the ranks of a directory, in order")
    ranks = [job.read(job.run("run", "launches=1", SLURM_PROCID="0", LOCAL_RANK="1", **more).pid)["rank"] for more in ({"OMPI_COMM_WORLD_RANK": "3"}, {"PMI_RANK": "4"}, {})]
    t.same(ranks, [3, 4, 0], "in a batch script of Slurm, which has number 0 itself, the launcher's number counts")
    t.same((document["ranks"]["behind"], document["ranks"]["ended"], document["ranks"]["most"]), (2, 45, 60), "who is behind")
    t.same(document["ranks"]["part"], None, "nothing parts")
    out = folder / "trace.json"
    theirs = pathlib.Path(where) / "theirs"  # of somebody who may write that directory
    theirs.touch()
    os.link(theirs, out)
    run = job.unhang.run("last", folder, "--perfetto", out)
    t.same(theirs.read_bytes(), b"", "a timeline is a new file: what was prepared under its name is not written")
    trace = json.loads(out.read_text())
    t.same(job.unhang.run("last", folder, "--perfetto", out).returncode, 0, "a timeline may replace a timeline")
    refused = job.unhang.run("last", folder, "--perfetto", folder / "rank0.recording")
    t.ok(refused.returncode == 2 and not refused.stdout, "but no recording", refused.stderr)
    names = [e for e in trace["traceEvents"] if e["ph"] == "i"]
    t.ok(run.returncode == 0 and len(names) == 165 and all(e["ts"] >= 0 for e in names), "a timeline of all", len(names))


def test_first_to_fail(t, job, where):
    """A rank that ended well before another failed is not the one that failed: the recorder notes the status that each ended with."""
    status = pathlib.Path(where) / "first.json"
    rank = f"{os.path.abspath(job.program)} {os.path.abspath(job.library)} run launches=5"
    job.unhang.run("run", "--state-dir", f"{where}/first", "--status-file", status, "--", "sh", "-c", f"RANK=0 {rank}; RANK=1 {rank} status=3")
    last = json.loads(status.read_text())["tries"][-1]
    t.ok(last["rank"] == 1 and "Rank 1 was the first to fail: it ended with status 3." in last["because"], "rank 1 is named", last)


def test_schema(t, job):
    schema = json.loads((tap.HERE / ".." / "docs" / "last.schema.json").read_text())
    import jsonschema
    for mode in ("fault", "run"):
        ran = job.run(mode, "launches=10", UNHANG_LEVEL="3")
        problems = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(job.last(job.path(ran.pid)))]
        t.no_complaints(problems[:5], f"{mode}: the JSON is that of docs/last.schema.json")


def test_threads(t, job, program, library):
    """Sixteen producers on two queues, allocations, the sampler: no data race."""
    checked = Job(t, job.unhang, program, library, job.where)
    ran = checked.run("run", "threads=16", "queues=2", "size=256", "allocations=8", "launches=60", "operations=1", UNHANG_LEVEL="3", TSAN_OPTIONS="exitcode=66")
    t.ok(ran.returncode == 0 and "ThreadSanitizer" not in ran.err, "nothing that ThreadSanitizer complains of", f"{ran.returncode} {ran.err[:3000]}")
    recording = checked.read(ran.pid, "--all")
    t.no_complaints(wrong_packets(recording)[:5], "and what was recorded is right")
    by_number = {o["number"]: o for o in recording["operations"]}
    wrong = [o for o in by_number.values() if o["name"] != ("layer" if o["inside"] else "step") or not o["ended"] or
             (o["inside"] and (by_number[o["inside"]]["name"], by_number[o["inside"]]["thread"]) != ("step", o["thread"]))]
    # A packet that the sampler found before its doorbell was rung has no thread.
    launched = [p for q in recording["queues"] for p in q["packets"] if p["thread"]]
    wrong += [p for p in launched if not p["operation"] or by_number[p["operation"]["number"]]["thread"] != p["thread"]]
    t.ok(len(by_number) == 2 * 16 * 60 and not wrong, "so are the operations of each thread, and every launch is in one of its thread", (len(by_number), wrong[:3]))


def half(v):
    return struct.unpack("<e", struct.pack("<H", v))[0]


def bfloat(v):
    return struct.unpack("<f", struct.pack("<I", v << 16))[0]


def test_statistics(t, program, where):
    """Counts are exact, minimum and maximum too; the mean is that of Python's exact sum."""
    chance = random.Random(5)
    sixteen = list(range(65536)) + [chance.getrandbits(16) for _ in range(999)]
    ordinary = [chance.getrandbits(16) & 0xbfff for _ in range(40009)] + [0, 0x8000]
    floats = [struct.unpack("<f", struct.pack("<f", chance.uniform(-1000, 1000)))[0] for _ in range(10007)]
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 3.0e38, 1e-45]
    cases = [("float32", 2, "<%df", floats, floats), ("float32 with odd ones", 2, "<%df", floats[:5000] + odd + floats[5000:6000], None),
             ("every float16", 3, "<%dH", sixteen, [half(v) for v in sixteen]), ("float16", 3, "<%dH", ordinary, [half(v) for v in ordinary]),
             ("every bfloat16", 4, "<%dH", sixteen, [bfloat(v) for v in sixteen]), ("bfloat16", 4, "<%dH", ordinary, [bfloat(v) for v in ordinary]),
             ("int32", 10, "<%di", [int(v) for v in floats], None), ("float64", 1, "<%dd", floats[:100] + odd, None), ("bool", 17, "<%dB", [0, 1, 1, 0, 1], None)]
    for name, dtype, form, stored, values in cases:
        values = values if values is not None else stored
        path = pathlib.Path(where) / "numbers"
        path.write_bytes(struct.pack(form % len(stored), *stored))
        values = [struct.unpack("<f", struct.pack("<f", v))[0] for v in values] if dtype == 2 else values
        finite = [v for v in values if math.isfinite(v)]
        counts = [len(values), sum(v == 0 for v in values), sum(v != v for v in values), sum(v in (math.inf, -math.inf) for v in values)]
        mean = math.fsum(finite) / len(finite)
        scale = max(abs(v) for v in finite)
        for width in ("512", "256", "0") if dtype in (3, 4) else ("512",):
            of_width = pathlib.Path(program).resolve().parent / f"statistics_of_{width}"
            got = subprocess.run([of_width, path, str(dtype)], capture_output=True, text=True).stdout.split()
            t.ok([int(v) for v in got[:4]] == counts and float(got[4]) == min(finite) and float(got[5]) == max(finite) and abs(float(got[6]) - mean) <= 1e-5 * scale,
                 f"{name}, {width} bits at once: statistics are right", f"{got} {counts} {min(finite)} {max(finite)} {mean}")


# How the copy kernel loads: past the caches that others do not see into.
LOADS = {"gfx9": r"global_load_dwordx4 v\[4:7\], v0, s\[4:5\] glc", "gfx94": r"global_load_dwordx4 v\[4:7\], v0, s\[4:5\] sc0 sc1", "gfx95": r"global_load_dwordx4 v\[4:7\], v0, s\[4:5\] sc0 sc1",
         "gfx10": r"global_load_dwordx4 v\[4:7\], v0, s\[4:5\] glc dlc", "gfx11": r"global_load_b128 v\[4:7\], v0, s\[4:5\] glc", "gfx12": r"global_load_b128 v\[4:7\], v0, s\[4:5\] scope:SCOPE_SYS"}


def copy_kernels(table):
    """The code objects that tools/assemble-kernels put into the recorder, by part, each with its own header."""
    codes = {name: bytes(map(int, numbers.split(","))) for name, numbers in re.findall(r"char (code_\d+)\[\] = \{\s*([\d,]+)", table)}
    return {part: codes[code][:48] + struct.pack("<I", int(flags, 16)) + codes[code][52:] for part, flags, code in re.findall(r'\{ "(gfx\w+)", (0x[0-9a-f]+), (code_\d+)', table)}


def symbols(elf):
    """Addresses of .symtab's names, and of each address its place in the file."""
    at, count, names = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + 64 * i) for i in range(count)]
    table = next(s for s in sections if s[1] == 2)
    strings = elf[sections[table[6]][4]:]
    rows = [struct.unpack_from("<IBBHQQ", elf, table[4] + i) for i in range(0, table[5], 24)]
    return {strings[r[0]:strings.index(0, r[0])].decode(): (r[4], sections[r[3]][4] + r[4] - sections[r[3]][3]) for r in rows if r[0]}


def test_copy_kernels(t, library, where):
    """Each part has the kernel that levels 5 and 10 copy with, as code that its disassembler understands."""
    dump, read = (next(filter(None, (shutil.which(f"llvm-{tool}-{v}") for v in range(24, 18, -1))), None) for tool in ("objdump", "readelf"))
    kernels = copy_kernels((pathlib.Path(library).resolve().parent / "copy_kernels.c").read_text())
    if not kernels or not dump or not read or not shutil.which(f"clang-{dump.rsplit('-', 1)[1]}"):
        t.skip("the copy kernel of each part", "no clang and LLVM for AMD's GPUs here")
        return
    parts = set(re.findall(r"^part \w+ (gfx(?:9|1)\w+) ", (tap.HERE / ".." / "knowledge" / "parts.know").read_text(), re.M))
    t.same(parts - set(kernels), set(), "every part from gfx900 on that knowledge knows has a copy kernel")
    t.ok(sum(map(len, set(code[:48] + code[52:] for code in kernels.values()))) < 16384, "and they are small")
    wrong = []
    for part, code in kernels.items():
        path = pathlib.Path(where) / f"{part}.co"
        path.write_bytes(code)
        known = symbols(code)
        (descriptor, at), entry = known["unhang_copy.kd"], known["unhang_copy"][0]
        arguments, offset, properties = struct.unpack_from("<8xI4xq", code, at) + struct.unpack_from("<H", code, at + 56)
        if (arguments, descriptor + offset, properties & (1 << 3 | 1 << 10)) != (32, entry, 1 << 3):
            wrong.append(f"{part}: descriptor {arguments} {offset} {properties:#x}")
        like = {"gfx950": "gfx942", "gfx1153": "gfx1150"}.get(part, part)
        text = subprocess.run([dump, "-d", f"--mcpu={like}", "--mattr=+wavefrontsize64", path], capture_output=True, text=True).stdout
        loads = LOADS[max((family for family in LOADS if part.startswith(family)), key=len)]
        if not re.search(loads + r"\s", text) or "s_endpgm" not in text or "unknown" in text:
            wrong.append(f"{part}: {text[-2000:]}")
        flags = re.search(r"Flags: +(.*)", subprocess.run([read, "-h", path], capture_output=True, text=True).stdout)[1]
        if like == part and part not in flags:
            wrong.append(f"{part}: its header says {flags}")
    without = pathlib.Path(where) / "without.c"
    inputs = tap.HERE / ".." / "recorder" / "inputs"
    made = subprocess.run([sys.executable, tap.HERE / ".." / "tools" / "assemble-kernels", without, inputs / "copy.s", "recorder/inputs/copier.h", "copy_kernel", "copy_kernels", inputs / "generations.s"], env={"PATH": where}, capture_output=True)
    t.same((made.returncode, copy_kernels(without.read_text())), (0, {}), "where nothing assembles, the table is empty, and the build goes on")
    t.no_complaints(wrong, f"{len(kernels)} parts have the kernel with its descriptor, for themselves, and it loads past the caches")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    where = tempfile.mkdtemp(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    job = Job(t, unhang, sys.argv[2], sys.argv[3], where)
    try:
        test_launches(t, job)
        test_levels(t, job)
        test_level_changes(t, job, unhang)
        test_hang(t, job, unhang)
        test_allocation_that_hangs(t, job, unhang)
        test_fault(t, job, unhang)
        test_struck(t, job, unhang)
        test_memory(t, job, unhang)
        test_queues(t, job)
        test_hold(t, job, sys.argv[5])
        test_supervisor_may_look(t, job)
        test_core(t, job, unhang)
        test_exports(t, sys.argv[3])
        test_steps_aside(t, job)
        test_cut(t, job, unhang)
        test_damaged(t, job, unhang)
        test_vacuum(t, job, where)
        test_ranks(t, job, where)
        test_first_to_fail(t, job, where)
        test_schema(t, job)
        test_statistics(t, sys.argv[4], where)
        test_copy_kernels(t, sys.argv[3], where)
        test_threads(t, job, sys.argv[6], sys.argv[7])
        test_kills(t, job)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
