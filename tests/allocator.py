#!/usr/bin/env python3
"""Guard, pool and hangs inside of an allocation, as people meet them: `run`, `explain`, `last`, a look at the machine and `watch`, around HIP programs
on ROCm's own runtime over the KFD without silicon."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import emulated
import guard as preload
import kfd
import tap

# Seed 004: 48 buffers of 7 MB, then thousands of 3,584 bytes; the card hung at one of these.
SEED = "allocations 48 7340032 , allocations 5000 3584".split()
HANGS, EACH = "hang allocation 3170", {"HSA_DISABLE_FRAGMENT_ALLOCATOR": "1"}
ASKED = "hsa_amd_memory_pool_allocate of 3584 bytes (hipMalloc or the like)"
BEFORE = re.compile(r"48 of 7 MiB, 3,1\d\d of 3584 bytes|1 of 1 MiB, 48 of 7 MiB, 3,1\d\d of 3584 bytes|48 of 7 MiB, 1 of 1 MiB, 3,1\d\d of 3584 bytes")


class Runs:
    def __init__(self, programs, top):
        self.programs, self.top, self.unhang = programs, pathlib.Path(top), programs.unhang

    def go(self, plan, options, command, verb="run", **more):
        """`unhang run`: what it wrote to standard error, and the report as it says it in JSON."""
        done = subprocess.run([self.unhang.binary, verb, "--state-dir", self.top / "runs", *map(str, options), "--", *map(str, command)], capture_output=True, text=True,
                              timeout=300, env={**self.programs.environment(plan), **more})
        return done

    def said(self, *arguments):
        return self.unhang.run(*map(str, arguments)).stdout.decode()

    def report(self, plan, options, command, **more):
        done = self.go(plan, options, command, **more)
        newest = max((self.top / "runs").iterdir(), key=lambda p: p.stat().st_mtime_ns)
        return done, json.loads((newest / "report.json").read_text()), newest


def flat(text):
    return " ".join(text.split())


def test_hang_in_run(t, r):
    done, report, where = r.report(f"gpu gfx90a; {HANGS}", ["--hang-after", 7], [r.programs.program, *SEED], **EACH)
    last = report["tries"][-1]
    t.same(last["ended"], "runtime-hang", "seed 004 hangs in hipMalloc")
    t.ok(ASKED.replace("3584", "3584") in last["because"] and re.search(r"for \d+ s", last["because"]), "run says which thread is inside of which call, for how long", last["because"])
    t.ok("In the kernel it waits in " in last["because"], "and where in the kernel", last["because"])
    t.ok(re.match(r"hipMalloc of 3584 bytes has not returned for [\d.]+ s, after 3\d\d\d small allocations", last["title"] or ""), "the cause has size, time and number", last["title"])
    told = flat((where / "1" / "diagnosis.txt").read_text())
    t.ok(BEFORE.search(told), "what was allocated before, by size", told)
    t.ok(BEFORE.search(last["allocated_before"] or "") and re.search(r"Before it +.*of 3584 bytes", flat(done.stderr)), "also on the screen of the run", done.stderr)
    t.ok("unhang run --pool" in flat(done.stderr) and last["decision"]["row"] == "small-allocations", "with the pool as advice", (last["decision"], done.stderr))
    t.ok("RX 7900 XT" in told and "CWSR" in told, "the report that it is like", told)
    t.ok("[pool-small-allocations]" in told, "and what helps the job", told)
    again = json.loads(r.said("explain", "--json", where))
    facts = {f["name"]: f["value"] for f in again["incidents"][0]["facts"]}
    t.ok(facts.get("kernel_waits_in") and facts.get("small_allocations", 0) > 3000, "the bundle tells it again, from its own answers", facts)
    done, report, _ = r.report(f"gpu gfx90a; {HANGS}", ["--pool", "--hang-after", 20], [r.programs.program, *SEED], **EACH)
    t.ok(done.returncode == 0 and done.stdout.endswith("allocation 5000 hipSuccess\n"), "with the pool it ends", (done.returncode, done.stderr[-800:]))
    said = report["tries"][-1]["allocator"] or ""
    t.ok(said.startswith("Pool: 5,048 allocations (5,000 of 2 to 4 KiB, 48 of 4 to 8 MiB), from slabs: at most 17.") and "calls of KFD by the whole process" in said and re.search(r"5,000 allocations of up to 4 KiB in ", said),
         "its statistics are in the report, and the pattern is named", said)


def test_hang_in_last(t, r):
    env = {**r.programs.environment(f"gpu gfx90a; {HANGS}"), **EACH, "HSA_TOOLS_LIB": str(r.programs.library.parent / "libunhang-recorder.so"),
           "UNHANG_RECORDING": str(r.top / "%p.recording")}
    with subprocess.Popen([r.programs.program, *SEED], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
        recording = r.top / f"{job.pid}.recording"

        def inside():
            if not recording.exists():
                return None
            found = r.unhang.run("last", "--json", str(recording))
            threads = json.loads(found.stdout)["recordings"][0]["threads"] if not found.returncode else []
            return next((h for h in threads if h["call"] and h["since"] > 1), None)

        thread = tap.wait_for(inside)
        t.ok(thread and thread["what"] == ASKED and thread["kernel"], "last says it of a program that runs, with the function of the kernel", thread)
        text = r.said("last", recording)
        t.ok(ASKED in text and BEFORE.search(text), "and in words what was allocated", text)
        told = tap.wait_for(lambda: json.loads(r.said("last", "--json", recording))["diagnosis"]) or {}
        t.ok(re.match(r"hipMalloc of 3584 bytes has not returned for [\d.]+ s, after 3\d\d\d small allocations", told.get("title", "")), "with a diagnosis, once it is long enough", told)
        job.kill()
    text, answer = r.said("last", recording), json.loads(r.said("last", "--json", recording))
    t.ok("Diagnosis: hipMalloc of 3584 bytes" in text and "RX 7900 XT" in text and "unhang run --pool" in text and "[pool-small-allocations]" in text, "the report that it is like, and what helps", text)
    t.ok("launched nothing" not in text and "hang-kernel-name" not in text, "nobody is sent to look for a kernel, or for a program that launches nothing", text)
    t.same(answer["diagnosis"]["remedies"][0]["id"], "pool-small-allocations", "as data")
    done = answer["recordings"][0]
    t.ok(done["small_allocations"] > 3000 and BEFORE.search(done["allocated"]), "also when it is gone", done["allocated"])


LOOKS = """export HSA_DISABLE_FRAGMENT_ALLOCATOR=1 HSA_TOOLS_LIB={recorder}
{unhang} watch --config {top}/watch.conf > {top}/watched 2>&1 & watch=$!
{program} {seed} > {top}/printed & job=$!
for i in $(seq 600); do {unhang} > {top}/look 2>&1 && sleep 0.2 || {{ echo $? > {top}/status; break; }}; done
for i in $(seq 600); do grep -q explained {top}/watched && break; sleep 0.2; done
kill -9 $job; kill $watch; wait
"""


def test_hang_on_a_machine(t, r):
    if not emulated.possible(r.unhang):
        return t.skip("a look at the machine and a watch", "no FUSE or no name spaces")
    scenario = (tap.HERE.parent / "emulator" / "scenarios" / "hip.scenario").read_text().replace("\nkfd\n", f"\nkfd\n    {HANGS}\n")
    (r.top / "machine.scenario").write_text(scenario)
    (r.top / "watch.conf").write_text(f"state-dir {r.top}/state\nrun-dir {r.top}\nhung-after 9\n")
    build = r.programs.library.parent
    script = LOOKS.format(unhang=r.unhang.binary, recorder=build / "libunhang-recorder.so", top=r.top, program=r.programs.program, seed=" ".join(SEED))
    done = subprocess.run([r.unhang.binary, "emulate", r.top / "machine.scenario", "--", "sh", "-c", script], capture_output=True, text=True, timeout=500)
    look, watched = flat((r.top / "look").read_text()), (r.top / "watched").read_text()
    t.ok((r.top / "status").read_text() == "1\n" and "hipMalloc of 3584 bytes has not returned for" in look, "a look at the machine finds it", look)
    t.ok(ASKED in look and BEFORE.search(look) and "RX 7900 XT" in look and "[pool-small-allocations]" in look, "with call, allocations, the report that it is like, and remedy", look)
    t.ok("In the kernel it waits in " in look, "and where in the kernel it waits", look)
    kept = "".join(p.read_text(errors="replace") for p in (r.top / "state").rglob("*") if p.is_file() and p.suffix != ".zst")
    t.ok("kernel it waits in" in kept or "kernel_waits_in" in kept, "the watch keeps it, too", kept[-1500:])
    t.ok(BEFORE.search(flat(kept)) and "RX 7900 XT" in kept and "pool-small-allocations" in kept, "with allocations, report and remedy", kept[-1500:])
    t.ok(re.search(r"suspected: programs \(pid \d+\) is inside hsa_amd_memory_pool_allocate of 3584 bytes \(hipMalloc or the like\), which does not return", watched), "the watch suspects it", watched)
    t.ok(re.search(r"hung: .*which does not return; nothing moved for", watched) and "explained: hipMalloc of 3584 bytes has not returned for" in watched, "and explains it", watched)


def test_guard(t, r, jobs):
    if jobs is None:
        return t.skip("the guard's findings", "no compiler, or no HIP")
    done, report, where = r.report("gpu gfx90a", ["--guard"], [r.programs.program, "read-freed"])
    last = report["tries"][-1]
    t.ok(re.search(r"used memory that was freed.*: hipMalloc of 4,194,304 bytes at 0x", last["title"] or ""), "a use after free names the allocation", last["title"])
    t.ok("up to 255 bytes do not fault" in last["allocator"] and "offsets are ranges" in last["allocator"], "the limits are in the report", last["allocator"])
    t.ok(re.search(r"at once; guarded ones take multiples of 4 KiB with HIP [567]\.\d+; ", last["allocator"]), "and what granularity is reached on which HIP", last["allocator"])
    t.ok("PYTORCH" not in last["allocator"] and "Allocator" not in done.stderr, "without PyTorch, of which it is none; and not on the screen of a fault that is explained", done.stderr)
    t.ok(re.search(r"Allocated +in .*main", done.stderr) and re.search(r"Freed +in .*main", done.stderr), "the screen has the functions", done.stderr)
    t.ok("Advice Find the pointer that somebody kept: copy" in flat(done.stderr) and "--level" not in done.stderr, "and what to fix", done.stderr)
    told, first = r.said("explain", where), json.loads(r.said("explain", "--json", where))["incidents"][0]
    t.ok("Confidence: high; the address lies in memory that the guard keeps unmapped" in flat(told), "what the guard saw is proof", told)
    t.ok("update-rocm" not in told and "Changed lately" not in told and "unhang try" not in told, "neither an update, nor a change of the machine, nor a circle", told)
    t.ok(re.search(r"used memory that was freed( [\d.]+ .?s before the fault)?: ", first["cause"]["title"]), "times say before what", first["cause"]["title"])
    ago = {f["name"]: f["value"] for f in first["facts"]}.get("freed_ago")
    said = re.match(r"([\d.]+) (us|ms|s)$", ago or "0 s")
    t.ok(said and float(said[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[said[2]] * 1000 <= last["ran_ms"], "and are of the fault, not of the look", (ago, last["ran_ms"]))
    t.ok(not told.startswith("This machine has no AMD GPU") and not re.search(r"More +unhang -v", told), "the verdict comes first, and -v is explain's", told)
    done, report, where = r.report("gpu gfx90a", ["--guard"], [r.programs.program, "read-beyond", 1])
    t.ok(re.search(r"went 0 to 4,095 bytes past the end of hipMalloc of 4,194,304 bytes at 0x", report["tries"][-1]["title"] or ""), "a read past the end", report["tries"][-1]["title"])
    facts = {f["name"]: f["value"] for f in json.loads(r.said("explain", "--json", where))["incidents"][0]["facts"]}
    t.same((facts.get("guard"), facts.get("allocation_bytes")), ("past", 4194304), "as facts")
    t.ok(re.match(r"programs \(\d+\)", facts.get("allocated_by", "")) and "main" in facts.get("allocated_in", ""), "who allocated it, in which function", facts)
    done, report, again = r.report("gpu gfx90a", ["--guard"], jobs.command("operator"))
    told = flat((again / "1" / "diagnosis.txt").read_text())
    of = {f["name"]: f["value"] for f in json.loads(r.said("explain", "--json", again))["incidents"][0]["facts"]}
    t.ok("for aten::index_put_" in told and (of.get("allocated_for"), of.get("freed_for")) == ("aten::embedding", "aten::index_put_"), "the operations in which it was made and freed", told)
    told = flat(r.said("explain", next(where.rglob("bundle.tar.zst"))))
    t.ok("went 0 to 4,095 bytes past the end of hipMalloc of 4,194,304 bytes" in told, "the bundle alone says so: it has the file of allocations", told)
    log, file = r.top / "log", next((where / "1").glob("allocations.*"))
    address = facts["fault_address"]
    log.write_text(f"Memory access fault by GPU node-1 (Agent handle: 0x55) on address {address}. Reason: Page not present or supervisor privilege.\n")
    told = flat(r.said("explain", log, file))
    t.ok("went 0 to 4,095 bytes past the end of hipMalloc of 4,194,304 bytes" in told, "the file and one line of a log are enough, in any order", told)
    log.write_text("Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x123456789000. Reason: Page not present or supervisor privilege.\n")
    told = flat(r.said("explain", log, file))
    t.ok("of no allocation that is known (0x123456789000)" in told and "names no process and may be of another run" in told and "The nearest is" not in told,
         "a wild pointer is not certain where only a log tells of it", told)
    near, less, data = int(address, 16) + (64 << 20), r.top / "less.allocations", bytearray(file.read_bytes())
    log.write_text(f"Memory access fault by GPU node-1 (Agent handle: 0x55) on address {near:#x}. Reason: Page not present or supervisor privilege.\n")
    told = flat(r.said("explain", log, file))
    t.ok("belongs to no allocation" in told and "The nearest is hipMalloc of" in told, "one that is near an allocation is", told)
    at = preload.Header.lost_rows.offset
    data[at:at + 8] = (1000).to_bytes(8, "little")
    less.write_bytes(data)
    told = flat(r.said("explain", log, less))
    t.ok("of no allocation that is known" in told and "the guard's list lacks 1,000 allocations" in told and "belongs to no allocation" not in told, "but not if rows were lost", told)
    data, torn = bytearray(file.read_bytes()), 0
    rows = next(s for s in (preload.Section.from_buffer_copy(data, 4096 + i * 24) for i in range(64)) if s.kind == 1)
    for at in range(rows.offset, rows.offset + rows.slots * rows.stride, rows.stride):
        if any(data[at:at + 8]):
            data[at + 20] ^= 1
            torn += 1
    less.write_bytes(data)
    told = flat(r.said("explain", log, less))
    t.ok("of no allocation that is known" in told and f"the guard's list lacks {torn} allocations" in told and "The nearest is" not in told, "nor if all rows are torn, of which the report tells", told)
    test_whose(t, r, file, int(address, 16))


def test_whose(t, r, file, past):
    """The guard names an allocation only where the fault can be of its process, and beside it."""
    log, changed, data = r.top / "whose.log", r.top / "changed.allocations", bytearray(file.read_bytes())
    header = preload.Header.from_buffer_copy(data)
    pid, begin = header.pid, past - 4194304

    def said(address, *more):
        log.write_text(f"Memory access fault by GPU node-1 (Agent handle: 0x55) on address {address:#x}. Reason: Page not present or supervisor privilege.\n")
        return flat(r.said("explain", log, *more))

    def kernel(process, pid, when, path):
        log.write_text(f"{when} host kernel: amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32770, for process {process} pid {pid} thread x pid {pid})\n"
                       f"{when} host kernel: amdgpu 0000:03:00.0: amdgpu:   in page starting at address {past:#x} from client 10\n")
        return flat(r.said("explain", log, path))

    def with_header(**values):
        for name, value in values.items():
            field = getattr(preload.Header, name)
            data[field.offset:field.offset + field.size] = value.to_bytes(field.size, "little")
        changed.write_bytes(data)
        return changed
    sure = "past the end of hipMalloc"
    text = said(begin, file)
    t.ok("could not reach memory that is allocated" in text and "hipDeviceEnablePeerAccess" in text and "Confidence: high" not in text and sure not in text, "an address inside of an allocation is not out of bounds", text)
    text = said(past + (128 << 10), file)
    t.ok("so far beside an allocation" in text and "Confidence: high" not in text and sure not in text, "one that is far beside it may be of any other", text)
    day, now = (time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(when)) for when in (time.time() - 2 * 86400, time.time()))
    t.ok(sure in kernel("programs", pid, now, file), "a fault of the process that the kernel names is its own")
    t.ok(sure not in kernel("programs", pid + 1, now, file), "one of another process is not")
    t.ok(sure not in kernel("programs", pid, day, file), "nor is one that is older than the process")
    inside = with_header(pid_namespace=header.pid_namespace or 4026531836)
    text = kernel("python", 4242, now, inside)
    t.ok("the log names python, and the guard's list is of" in text and sure not in text, "of another container the names have to agree", text)
    text = said(past, with_header(pid_namespace=header.pid_namespace, state=2, hip_version=60443484))
    t.ok("ended in order" in text and sure not in text, "nor is a fault sure of a process that ended in order", text)
    text = said(past, with_header(hip_version=70253211))
    t.ok(sure in text, "unless its HIP returns faults as errors, as HIP 7 does", text)
    other = r.top / "other.allocations"
    data[:] = file.read_bytes()
    with_header(pid=pid + 7).rename(other)
    rows = next(s for s in (preload.Section.from_buffer_copy(data, 4096 + i * 24) for i in range(64)) if s.kind == 1)
    for at in range(rows.offset, rows.offset + rows.slots * rows.stride, rows.stride):
        if not any(data[at:at + 8]):
            continue
        row = preload.Row.from_buffer_copy(data, at)
        row.address, row.map = row.address ^ 1 << 44, row.map and row.map ^ 1 << 44
        row.check = preload.check_of([int.from_bytes(bytes(row)[j:j + 8], "little") for j in range(0, rows.stride, 8)], row.id)
        data[at:at + rows.stride] = bytes(row)
    other.write_bytes(data)
    text = said(past, file, other)
    t.ok("which process of the job it was" in text and sure not in text, "with two processes a message without a number is of either", text)


def test_unguarded(t, r):
    """What the guard did not have is said, and is no all-clear."""
    done, report, _ = r.report("gpu gfx90a", ["--guard"], [r.programs.program, "pools"])
    last = report["tries"][-1]
    t.ok((done.returncode, last["served"]) == (0, 0) and re.search(r"None of them was guarded \(hipMallocAsync \d+\)", last["allocator"]), "the report says what was not guarded", last["allocator"])
    done, report, _ = r.report("gpu gfx90a", ["--guard=sample:2"], [r.programs.program, "read-freed", 0])
    last = report["tries"][-1]
    t.ok(last["served"] > 0 and re.search(r"\d+ of them (was|were) not guarded \(hipMalloc \d+", last["allocator"]), "also where some were", last["allocator"])
    env = {**r.unhang.environment, **r.programs.environment("gpu gfx90a")}
    tried = subprocess.run([r.unhang.binary, "try", "--quiet", "--fresh", "--state-dir", r.top / "unguarded", "guard", "--", str(r.programs.program), "pools"], env=env, capture_output=True, text=True)
    t.ok(tried.returncode == 1 and "had no allocation of the job" in flat(tried.stdout) and "No access out of bounds was seen" not in flat(tried.stdout), "nor does a try clear it", (tried.returncode, tried.stdout))


def test_findings(t, r, jobs):
    if jobs is None:
        return t.skip("double frees and overwritten bytes", "no compiler, or no HIP")
    for mode, findings, wanted in (("misuses", 3, ("which was freed", "hipFree of 0x123456789000, which is no allocation", "freed an address 256 bytes inside hipMalloc of 1,000 bytes at 0x")),
                                   ("slack", 3, ("bytes 0 to 7 past the end of hipMalloc of 500 bytes",))):
        done, report, where = r.report("gpu gfx90a", ["--guard"], jobs.command(mode))
        told = flat(r.said("explain", "-v", "--all", where))
        last = report["tries"][-1]
        t.same((last["findings"], last["ended"], done.returncode), (findings, "done", 0), f"{mode}: the report counts what the guard found")
        screen = flat(done.stderr)
        t.ok(f"the job ended with status 0, but the guard found {findings} memory errors." in screen and "ended well" not in screen, f"{mode}: which the first line says", done.stderr)
        t.ok(f"Error 1 {last['title']} Found in release (allocate.c:" in screen and f"unhang explain {where}" in screen and not last["bundle"], f"{mode}: with the first of them, its function and the next step", done.stderr)
        short = flat(r.said("explain", where))
        t.ok("Confidence: high; the guard" in short and "Nothing specific is known" not in short, f"{mode}: explain is sure", short)
        for text in wanted:
            t.ok(text in told, f"{mode}: {text}", told)
    copied = 'own=$UNHANG_ALLOCATIONS; UNHANG_ALLOCATIONS=$0 "$@"; cp "$0" "${own%/*}/allocations.4715"; cp "$0" "${own%/*}/allocations.old"; exec "$@"'
    done, report, where = r.report("gpu gfx90a", ["--guard"], ["sh", "-c", copied, r.top / "other.allocations", *jobs.command("misuses")])
    t.same(report["tries"][-1]["findings"], 3, "a file of another process that the job put there does not count")
    run = r.unhang.run("explain", "--json", "--all", where)
    freed = [e for i in json.loads(run.stdout)["incidents"] for e in i["timeline"] if e["event"] in ("guard-double-free", "guard-wild-free")]
    t.same(len(freed), 3, "nor does explain tell of it")
    t.ok(re.search(rb"allocations.4715: it is of process \d+ and was copied here: not read\n", run.stderr) and len(run.stderr.splitlines()) == 1, "but that it was not read", run.stderr)


def test_refused(t, r):
    for options, word in ((["--guard", "--pool"], "exclude each other"), (["--guard=sideways"], "none of above, below"), (["--guard-align", 8], "needs --guard"),
                          (["--guard", "--guard-align", 3], "power of two")):
        done = r.go("gpu gfx90a", options, ["true"])
        t.ok(done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1, f"refused with one line: {' '.join(map(str, options))}", done.stderr)
    done = subprocess.run([r.unhang.binary, "run", "--guard", "below", "--", "true"], capture_output=True, text=True, env=r.programs.environment("gpu gfx90a"))
    t.ok(done.returncode == 127 and "(did you mean --guard=below?)" in done.stderr, "a word of --guard without its =", done.stderr)
    done = r.go("gpu gfx90a", ["--guard"], ["env"], LD_PRELOAD=f"{r.programs.library}", PYTORCH_NO_CUDA_MEMORY_CACHING="0")
    names = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    t.ok(names.get("LD_PRELOAD", "").endswith(str(r.programs.library)) and "libunhang-guard.so:" in names["LD_PRELOAD"], "what is preloaded stays", names.get("LD_PRELOAD"))
    t.same((names.get("PYTORCH_NO_CUDA_MEMORY_CACHING"), names.get("UNHANG_GUARD")), ("0", "above"), "what the user set stays")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    wrong = programs.compile() if shutil.which("hipcc") else "no hipcc"
    if wrong:
        tap.skip_all(f"programs for HIP cannot be compiled here: {wrong.splitlines()[0]}")
    with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm") as top:
        r = Runs(programs, top)
        jobs = preload.Jobs(unhang, programs.library.parent / "libunhang-guard.so", top)
        jobs = None if jobs.compile() else jobs
        test_refused(t, r)
        test_hang_in_run(t, r)
        test_hang_in_last(t, r)
        test_hang_on_a_machine(t, r)
        test_guard(t, r, jobs)
        test_findings(t, r, jobs)
        test_unguarded(t, r)
    t.end()


if __name__ == "__main__":
    main()
