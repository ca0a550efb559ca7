#!/usr/bin/env python3
"""llama.cpp with its HIP backend, as Debian has it, under the flight recorder, on the KFD without silicon: `make runtimes`. Its model is made here (gguf.py),
and its kernels are not executed, so what it says means nothing."""
import collections
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import gguf
import guard
import kfd
import tap

GPU = "gpu gfx90a"
HANG, FAULT = "flash_attn_ext_vec", "k_set_rows"
# What each layer of the model launches for a token, by the kernel's name; they are of ggml_get_rows, ggml_rms_norm, ggml_mul_mat, ggml_rope, ggml_set_rows, ggml_flash_attn_ext.
KERNELS = ("k_get_rows", "rms_norm", "mul_mat_vec", "rope_norm", FAULT, HANG)


class Llama:
    def __init__(self, unhang, library, where):
        self.unhang, self.library, self.where = unhang, library, pathlib.Path(where)
        self.kfd = library.parent / "libunhang-kfd.so"
        self.model = unhang.write("random.gguf", gguf.model())

    def start(self, plan, level, tokens=4, preload=(), **more):
        command = [tap.HERE / "in-root", kfd.ROOT, "llama-completion", "-m", self.model, "-ngl", 99, "-n", tokens, "-p", "a b c", "--seed", 1, "--ignore-eos", "-no-cnv", "--no-warmup"]
        return subprocess.Popen(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                env={**self.unhang.environment, "LD_PRELOAD": " ".join(map(str, (*preload, self.kfd))), "UNHANG_KFD": plan, "HSA_TOOLS_LIB": str(self.library), "UNHANG_LEVEL": str(level),
                                     "UNHANG_RECORDING": f"{self.where}/%p.recording",
                                     "UNHANG_ALLOCATIONS": f"{self.where}/%p.allocations", **more})

    def recording(self, job):
        return self.where / f"{job.pid}.recording"

    def read(self, job):
        done = self.unhang.run("last", "--json", "--all", self.recording(job))
        return json.loads(done.stdout)["recordings"][0] if done.returncode == 0 else {"queues": [], "state": None, "threads": []}

    def launches(self, job):
        return [p for q in self.read(job)["queues"] for p in q["packets"] if p["kind"] == "dispatch" and p["kernel"] and not p["kernel"].startswith("__amd_rocclr")]

    def explained(self, *evidence):
        incidents = json.loads(self.unhang.run("explain", "--json", *evidence).stdout)["incidents"]
        return incidents[0] if len(incidents) == 1 else {"cause": {"title": f"{len(incidents)} incidents"}, "facts": []}


def named(launches, name):
    return [p for p in launches if name in p["kernel"]]


def test_runs(t, l):
    """Two layers and the output: so many launches for each token, at both levels."""
    counts = []
    for level in (1, 3):
        job = l.start(GPU, level)
        out, _ = job.communicate(timeout=120)
        launches = l.launches(job)
        found = {name: len(named(launches, name)) for name in KERNELS}
        t.ok(job.returncode == 0 and "ROCm" in out and all(found.values()), f"level {level}: the model is loaded, and every operator's kernel is recorded", f"{job.returncode} {found}\n{out[-800:]}")
        t.same((l.read(job)["state"], [p["progress"] for p in launches if p["progress"] not in ("ended", "probably-ended")]), ("ended", []), f"level {level}: all have ended")
        counts.append(collections.Counter(p["kernel"] for p in launches))
        told = collections.Counter("buffer" if "buffer" in text else text for text in (p["arguments"]["text"] for p in launches if p["arguments"]))
        # HIP has those of its graphs in VRAM, which the recorder does not read.
        t.same((told["buffer"] > 0, told["buffer"] + told["not read: in VRAM"]), (False, 0) if level == 1 else (True, len(launches)),
               f"level {level}: {'no' if level == 1 else 'all with their'} arguments, or why not")
    t.same(counts[0], counts[1], f"both levels see the same {sum(counts[0].values())} launches")


def test_killed(t, l):
    for level in (1, 3):
        job = l.start(f"{GPU}; slow kernel *{HANG}* 0.05", level, tokens=200)
        seen = tap.wait_for(lambda: len(named(l.launches(job), HANG)) >= 5)
        job.send_signal(signal.SIGKILL)
        job.communicate()
        launches, state = l.launches(job), l.read(job)["state"]
        running = [p["kernel"] for p in launches if p["progress"] == "running"]
        t.ok(seen and state == "died" and all(HANG in k for k in running), f"level {level}: killed: what ran is there, and no other kernel is accused", (state, running, len(launches)))
        text = l.unhang.run("last", "--all", l.recording(job)).stdout.decode()
        t.ok(re.search(r"llama-completio.*died", text) and re.search(r"#\d+ +.*(flash_attn|mul_mat|rms_norm|rope|k_set_rows|k_get_rows|bcast)", text), f"level {level}: and last names it", text[:800])


def test_fault(t, l):
    for level in (1, 3):
        job = l.start(f"{GPU}; fault kernel *{FAULT}* launch 3 at argument 2 plus 0x10000000", level)
        out, _ = job.communicate(timeout=120)
        t.ok(job.returncode == -signal.SIGABRT and "Memory access fault by GPU node-1" in out, f"level {level}: a fault ends it as without the recorder", f"{job.returncode} {out[-600:]}")
        incident = l.explained(l.recording(job))
        facts = {f["name"]: f["value"] for f in incident["facts"]}
        t.ok(FAULT in incident["cause"]["title"] + facts.get("kernel_name", ""), f"level {level}: the kernel is named", (incident["cause"], facts))
        told = l.unhang.run("explain", "-v", l.recording(job)).stdout.decode()
        t.ok("ggml_set_rows" in told and "llama.cpp (ggml)" in told, f"level {level}: with its operator", told[:2500])
        log = l.unhang.write(f"fault-{level}.log", out)
        t.ok(FAULT in l.explained(log, l.recording(job))["cause"]["title"], f"level {level}: and its log and its recording tell of one fault", l.explained(log, l.recording(job))["cause"])


def test_hang(t, l):
    for level in (1, 3):
        job = l.start(f"{GPU}; hang kernel *{HANG}* launch 2", level)
        standing = tap.wait_for(lambda: any(q["in_flight"] and q["moved"] > 5.1 for q in l.read(job)["queues"]))
        running = [p["kernel"] for p in l.launches(job) if p["progress"] == "running"]
        t.ok(standing and len(running) == 1 and HANG in running[0], f"level {level}: live: the kernel that hangs is the one that runs", running)
        job.kill()
        job.communicate()
        incident = l.explained(l.recording(job))
        told = l.unhang.run("explain", l.recording(job)).stdout.decode()
        t.ok("flash attention" in incident["cause"]["title"] and HANG in told and "ggml_flash_attn_ext" in told, f"level {level}: killed: the kernel and its operator are named", told)


def test_allocator(t, l):
    """Under the guard and from the pool it launches what it launches without, and nothing is found."""
    for mode, name in (("UNHANG_GUARD", "guard"), ("UNHANG_POOL", "pool")):
        job = l.start(GPU, 1, preload=[l.library.with_name("libunhang-guard.so")], **{mode: "1"})
        out, _ = job.communicate(timeout=300)
        launches = l.launches(job)
        found = {name: len(named(launches, name)) for name in KERNELS}
        t.ok(job.returncode == 0 and "ROCm" in out and all(found.values()), f"{name}: the model is loaded, and every operator's kernel is launched", f"{job.returncode} {found}\n{out[-800:]}")
        seen = guard.Allocations(l.where / f"{job.pid}.allocations")
        made = [r for r in seen.rows if r.flags & (guard.GUARDED | guard.POOLED)]
        t.ok(made and not seen.findings and not seen.torn and seen.header.state == 2, f"{name}: {len(made)} of its allocations are {name}ed, and nothing is found", [(f.kind, hex(f.address)) for f in seen.findings])


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not kfd.ROOT or not pathlib.Path(kfd.ROOT, "usr/bin/llama-completion").exists():
        tap.skip_all("UNHANG_ROCM_ROOT names no root with llama.cpp: tests/rocm-root 6.4 makes one")
    with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm") as where:
        llama = Llama(unhang, pathlib.Path(sys.argv[2]).resolve(), where)
        for test in (test_runs, test_killed, test_fault, test_hang, test_allocator):
            test(t, llama)
    t.end()


if __name__ == "__main__":
    main()
