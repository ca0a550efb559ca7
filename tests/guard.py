#!/usr/bin/env python3
"""libunhang-guard.so: HIP programs (hip/allocate.c) on ROCm's own runtime over the KFD without silicon, with each allocation kept apart, or from a pool.
UNHANG_ROCM_ROOT names the root of another ROCm than this machine's."""
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

import kfd
import tap

ALL = os.environ.get("UNHANG_TEST_ALL") == "1"
GPU, PAGE = "gpu gfx90a", 4096
GUARDED, POOLED, PASSED, CANARIES, EXPORTED = 1, 2, 4, 8, 16
LIVE, HELD, RELEASED = 1, 2, 3
DOUBLE_FREE, WILD_FREE, BELOW, ABOVE = 1, 2, 3, 4
ABSENT = re.compile("^(captured none|segments refused .*)$", re.M)  # of programs, where HIP does not have what they try
NOISE = re.compile("^Warning: (Resource leak detected by SharedSignalPool|\\(false).*\n", re.M)

U8, U16, U32, U64, I64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64


def record(name, fields, bare=False):
    """A structure of preload/format.h."""
    return type(name, (ctypes.LittleEndianStructure,), {"_fields_": ([] if bare else [("id", U32), ("check", U32)]) + fields})


def text(n):
    return ctypes.c_char * n


Header = record("Header", [
    ("magic", text(8)), ("version", U32), ("size", U32), ("state", U32), ("mode", U32), ("pid", U32), ("uid", U32), ("pid_namespace", U64), ("real_ns", U64), ("boot_ns", U64),
    ("ended_ns", U64), ("boot_id", text(40)), ("host", text(64)), ("program", text(64)), ("command", text(256)), ("hip", text(256)), ("hip_version", U32), ("hip_driver", U32),
    ("reserved1", text(32)), ("align", U32), ("below", U32), ("sample", U32), ("reported", U32), ("match", text(128)), ("quarantine_bytes", U64), ("quarantine_count", U64),
    ("mappings_most", U64), ("memory_most", U64), ("pool_most", U64), ("slab_bytes", U64), ("tier", U32), ("granularity", U32), ("gap", U64), ("charge", U64), ("environment", U32),
    ("held", U32), ("sampling", U32), ("reserved2", U32), ("calls", U64 * 32), ("passed", U64 * 32), ("live", U64), ("live_bytes", U64), ("peak", U64), ("peak_bytes", U64),
    ("taken", U64), ("taken_bytes", U64), ("taken_peak", U64), ("held_count", U64), ("held_bytes", U64), ("lost_rows", U64), ("lost_stacks", U64), ("lost_modules", U64),
    ("lost_findings", U64), ("unchecked", U64), ("waits", U64), ("kfd_calls", U64), ("bursts", U32), ("reserved", U32), ("notes", U32), ("removed", U32), ("note", text(128) * 8), ("small", U64)], bare=True)
Section = record("Section", [("kind", U32), ("stride", U32), ("offset", U64), ("slots", U64)], bare=True)
Row = record("Row", [("address", U64), ("size", U64), ("map", U64), ("map_size", U64), ("before", U64), ("behind", U64), ("born", U64), ("died", U64), ("number", U64), ("by", U32),
                     ("freed_by", U32), ("stack", U32), ("freed_stack", U32), ("operation", U32), ("freed_operation", U32), ("call", U16), ("state", U8), ("device", U8), ("flags", U32),
                     ("name", text(16)), ("freed_name", text(16)), ("doing", U32), ("freed_doing", U32), ("reserved", U64)])
Operation = record("Operation", [("name", text(120))])
Stack = record("Stack", [("frames", U64 * 14), ("count", U64)])
Module = record("Module", [("base", U64), ("begin", U64), ("end", U64), ("loaded", U64), ("build_id", U8 * 20), ("build_id_size", U32), ("path", text(200))])
Finding = record("Finding", [("time", U64), ("kind", U32), ("call", U32), ("address", U64), ("begin", I64), ("end", I64), ("row", U32), ("thread", U32), ("born", U64), ("stack", U32),
                             ("at_exit", U32), ("name", text(16)), ("bytes", U8 * 16), ("reserved", U64)])
Burst = record("Burst", [("begin", U64), ("end", U64), ("count", U64), ("most", U64), ("size", U64), ("thread", U32), ("stack", U32), ("alike", U64)])
Slab = record("Slab", [("base", U64), ("size", U64), ("born", U64), ("died", U64), ("used", U64), ("most", U64), ("blocks", U32), ("device", U32)])
Thread = record("Thread", [("tid", U32), ("call", U32), ("since", U64), ("a", U64 * 2), ("calls", U64), ("ended", U64), ("name", text(16))], bare=True)
Size = record("Size", [(n, U64) for n in ("count", "freed", "live", "peak", "bytes", "live_bytes", "guarded")] + [("lives", U64 * 16), ("reserved", U64)], bare=True)
KINDS = {1: ("rows", Row, 0), 2: ("stacks", Stack, 1), 3: ("modules", Module, 0), 4: ("findings", Finding, 1), 5: ("bursts", Burst, 1), 6: ("slabs", Slab, 0), 7: ("threads", Thread, None),
         8: ("sizes", Size, None), 9: ("operations", Operation, 1)}


def check_of(words, number):
    """rec_check() of recorder/format.h."""
    mask = (1 << 64) - 1
    total = ((number ^ 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9) & mask
    for i, word in enumerate(words[1:], 1):
        total = (total + (word ^ (0x94d049bb133111eb + i) & mask) * ((0xd6e8feb86659fd93 + 2 * i * 0x2545f4914f6cdd1d) & mask)) & mask
    return (total >> 32 ^ total) & 0xffffffff | 1


class Allocations:
    """What the library wrote; records that are not whole are counted and left out."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.header, self.torn, self.threads, self.rows = Header.from_buffer_copy(data.ljust(PAGE, b"\0")), 0, [], []
        if not self.header.version:  # it is being made
            return
        for i in range(64):
            section = Section.from_buffer_copy(data, PAGE + i * ctypes.sizeof(Section))
            if section.kind in KINDS:
                name, kind, first = KINDS[section.kind]
                assert section.stride == ctypes.sizeof(kind), name
                setattr(self, name, list(self.records(data, section, kind, first)))

    def records(self, data, section, kind, first):
        for i in range(section.slots):
            at = section.offset + i * section.stride
            raw = data[at:at + section.stride]
            if not any(raw[:8]) if first is not None else not any(raw):
                continue
            found = kind.from_buffer_copy(raw)
            if first is not None:
                words = [int.from_bytes(raw[j:j + 8], "little") for j in range(0, section.stride, 8)]
                number = found.id if kind is Burst else i + first
                if found.id != number or found.check != check_of(words, number):
                    self.torn += 1
                    continue
            yield found

    def at(self, page):
        """The row that a fault at a page is of, and how: alloc_place() of preload/format.h."""
        best = []
        for row in self.rows:
            begin, end = (row.map - row.before, row.map + row.map_size + row.behind) if row.flags & GUARDED else (row.address, row.address + row.size)
            if page + PAGE <= begin or page >= end:
                continue
            place = "freed" if row.state != LIVE else "past" if page >= row.map + row.map_size else "before" if page + PAGE <= row.map else "inside"
            best.append(((row.state, -row.died), place, row))
        return min(best, key=lambda b: b[0])[1:] if best else ("wild", None)

    def functions(self, stack):
        """The names of a backtrace's functions, in the program alone."""
        found = []
        for frame in next((s.frames[:s.count] for s in self.stacks if s.id == stack), []):
            module = self.modules[(frame >> 48) - 1] if frame >> 48 else None
            if module and module.path.endswith(b"allocate"):
                line = subprocess.run(["addr2line", "-f", "-e", module.path, hex((frame & (1 << 48) - 1) - 1)], capture_output=True, text=True).stdout
                found.append(line.splitlines()[0])
        return found


class Jobs:
    """The program, compiled for the HIP of the root, and how it is run."""

    def __init__(self, unhang, guard, where):
        self.unhang, self.guard, self.where = unhang, guard, pathlib.Path(where)
        kfd.remember(unhang)
        self.kfd = guard.parent / "libunhang-kfd.so"
        self.program, self.code = unhang.directory / "allocate", unhang.directory / "code.co"
        libraries = kfd.LIBRARIES if kfd.ROOT else subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout.strip().join(("/usr/lib/", ""))
        self.libraries = libraries
        self.hip = sorted(glob.glob(f"{libraries}/libamdhip64.so.[0-9]"))

    def compile(self):
        """What a compiler says if it fails. The code object is made with this machine's hipcc: every version runs it."""
        if not self.hip:
            return "no libamdhip64"
        library = pathlib.Path(self.hip[0]).name
        linked = [f"-Wl,--allow-shlib-undefined,-rpath,{self.libraries},--disable-new-dtags"] if kfd.ROOT else []
        done = subprocess.run(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-rdynamic", "-o", self.program, kfd.HIP / "allocate.c", f"-L{self.libraries}", f"-l:{library}", "-ldl", "-pthread", *linked],
                              capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        kernels = self.unhang.write("kernels.cpp", '#include "kernels.h"\n')
        done = subprocess.run(["hipcc", "--genco", "--offload-arch=gfx90a", "-O1", "-I", kfd.HIP, "-o", self.code, kernels], capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def command(self, *arguments):
        loader = [f"{self.libraries}/ld-linux-x86-64.so.2", "--library-path", self.libraries] if kfd.ROOT else []
        return [*loader, str(self.program), str(self.code), *map(str, arguments)]

    def environment(self, plan=GPU, plain=False, **more):
        preload = [str(self.kfd)] if plain else [str(self.guard), str(self.kfd)]
        return {**self.unhang.environment, "LD_PRELOAD": " ".join(preload), "UNHANG_KFD": plan, "UNHANG_ALLOCATIONS": f"{self.where}/%p.allocations", "UNHANG_KEEP": "1000",
                "HIP_LIBRARY": pathlib.Path(self.hip[0]).name, **more}

    def recorded(self):
        return {"HSA_TOOLS_LIB": str(self.guard.parent / "libunhang-recorder.so"), "UNHANG_RECORDING": f"{self.where}/%p.recording"}

    def start(self, *arguments, **more):
        return subprocess.Popen(self.command(*arguments), env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, timeout=120, **more):
        job = self.start(*arguments, **more)
        try:
            job.out, job.err = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            job.kill()
            job.out, job.err = job.communicate()
        job.err = NOISE.sub("", job.err)
        path = self.where / f"{job.pid}.allocations"
        job.seen = Allocations(path) if path.exists() else None
        return job

    def faulted(self, job):
        """The page that the GPU faulted at, as the flight recorder knows it: HIP 7 says none. None: there was no fault."""
        done = self.unhang.run("last", "--json", self.where / f"{job.pid}.recording")
        faults = json.loads(done.stdout)["recordings"][0]["faults"] if done.returncode == 0 else []
        return int(faults[0]["address"], 16) & -PAGE if faults else None


def told(job, name):
    """What the program said of an allocation."""
    found = re.search(rf"^{name} (0x[0-9a-f]+) (\d+)$", job.out, re.M)
    return (int(found[1], 16), int(found[2])) if found else (0, 0)


def test_outside(t, j):
    """One byte past the end and before the beginning, read and written: the page is of the right allocation."""
    # Sizes that fill their pages from the side that is looked at; smaller ones have slack.
    for mode, size, place, guard in (("past", 8192, "past", "above"), ("past", 512, "past", "above"), ("past", 1 << 22, "past", "above"), ("before", 8192, "before", "above"),
                                     ("before", 512, "before", "below"), ("before", 1000, "before", "below"), ("past", 1000, "past", "above")):
        for how in ("read", "write"):
            align = {"UNHANG_GUARD_ALIGN": "1"} if (mode, size) == ("past", 1000) else {}
            job = j.run(mode, size, how, UNHANG_GUARD=guard, **align, **j.recorded())
            page, (address, asked) = j.faulted(job), told(job, "allocation")
            found, row = job.seen.at(page) if page is not None else ("no fault", None)
            t.ok(job.returncode and row and (found, row.address, row.size, row.state) == (place, address, size, LIVE), f"{guard}: {how} {mode} {size} bytes: a fault of that allocation",
                 (job.returncode, page and hex(page), found, hex(address), job.err[-600:]))
            edge = address + size if place == "past" else address - PAGE
            t.same(page, edge, f"{guard}: {how} {mode} {size} bytes: at its edge")
            names = job.seen.functions(row.stack) if row else []
            t.ok(names[:2] == ["allocate", "outside"], f"{guard}: {how} {mode} {size} bytes: with who asked for it", names)
    t.same((job.seen.header.tier, job.seen.header.granularity, job.seen.header.environment, job.seen.torn), (1, PAGE, 1, 0), "a mapping of pages for each, and nothing torn")


def test_freed(t, j):
    """Use after free, at once and ten thousand allocations later."""
    for n, hows in ((0, ("read", "write")), (10000, ("read", "write"))):
        for how in hows:
            job = j.run("freed", n, how, timeout=400, **j.recorded())
            page, (address, _) = j.faulted(job), told(job, "allocation")
            found, row = job.seen.at(page) if page is not None else ("no fault", None)
            t.ok(row and (found, row.address, row.size, row.state, page) == ("freed", address, 8192, HELD, address), f"{how} after free, {n} allocations later",
                 (job.returncode, page, found, hex(address), job.seen.header.held_count, job.err[-600:]))
            t.same((job.seen.functions(row.stack)[:2], job.seen.functions(row.freed_stack)[:2]) if row else None, (["allocate", "freed"], ["release", "freed"]), "and who made and freed it")
            t.ok(row and row.freed_by == job.pid and row.died > row.born, "and when", row and (row.freed_by, row.born, row.died))
    job = j.run("freed", 300, "read", UNHANG_QUARANTINE_COUNT="100")
    t.ok(job.seen.header.held_count <= 100, "quarantine has its bounds", job.seen.header.held_count)


def test_wild(t, j):
    job = j.run("wild", "0x123456000", **j.recorded())
    t.ok(j.faulted(job) == 0x123456000 and job.seen.at(0x123456000)[0] == "wild", "a wild pointer is of no allocation", (job.returncode, job.err[-500:]))


def test_misuses(t, j):
    for mode in ("guard", "pool"):
        job = j.run("misuses", **({"UNHANG_POOL": "1"} if mode == "pool" else {}))
        t.same((job.returncode, job.out.splitlines()[2:]), (0, ["inside 1", "first 0", "second 1", "wild 1", "null 0", "other 0"]), f"{mode}: wrong frees are refused, right ones are not")
        address = told(job, "allocation")[0]
        found = [(f.kind, f.address, f.begin, f.row and job.seen.rows and next(r.address for r in job.seen.rows if r.id == f.row - 1)) for f in job.seen.findings]
        t.same(found, [(WILD_FREE, address + 256, 256, address), (DOUBLE_FREE, address, 0, address), (WILD_FREE, 0x123456789000, 0, 0)], f"{mode}: each is found, with its allocation")
        wanted = ["release", "misuses"] if mode == "guard" else ["release"]
        t.same([job.seen.functions(f.stack)[:2] for f in job.seen.findings], [wanted] * 3, f"{mode}: and who did it")
        t.same(len(job.err.splitlines()), 3, f"{mode}: with a line each")
    data = (j.where / f"{job.pid}.allocations").read_bytes()
    for size in (2 * PAGE, len(data) - PAGE):
        cut = j.unhang.write("cut.allocations", data[:size])
        run = j.unhang.run("explain", cut)
        t.ok(run.returncode == (2 if size == 2 * PAGE else 1) and f"it ends at byte {size}".encode() in run.stderr, f"a file that was cut at byte {size} is no all-clear", (run.returncode, run.stderr))


def test_often(t, j):
    """What a program does wrong without end does not fill a screen, nor the file."""
    for mode, settings in (("guard", {}), ("pool", {"UNHANG_POOL": "1"})):
        job = j.run("freed-often", 2000, **settings)
        lines = job.err.splitlines()
        t.same((job.out, len(lines), len({line for line in lines[:16]})), ("refused 2000\n", 17, 1), f"{mode}: sixteen lines of two thousand")
        t.same(lines[-1:], [f"unhang: {mode}: what more there is, is not printed; unhang explain tells it"], f"{mode}: and one that says so")
        t.same((len(job.seen.findings), job.seen.header.lost_findings, job.seen.torn), (1024, 976, 0), f"{mode}: the file has room for some, and counts the others")
        run = j.unhang.run("explain", j.where / f"{job.pid}.allocations")
        t.ok(run.returncode == 1 and b"Why The guard found 2,000 errors in all and tells the first 24 of them. The second hipFree came from" in b" ".join(run.stdout.split()) and len(run.stdout.splitlines()) <= 24, f"{mode}: explain has their number, on a screen", run.stdout.decode())


def test_slack(t, j):
    """What is not the allocation's but in its pages: writes are found when it is freed, and at the end."""
    job = j.run("slack")
    found = [(f.kind, f.address, f.begin, f.end, f.at_exit) for f in job.seen.findings]
    below, above, left = (told(job, n)[0] for n in ("below", "above", "left"))
    t.same(found, [(BELOW, below, -4, 0, 0), (ABOVE, above, 500, 508, 0), (ABOVE, left, 1000, 1001, 1)], "writes in the slack are found by their bytes")
    t.same((job.seen.header.state, job.seen.header.unchecked), (2, 0), "and all canaries were looked at")
    data = bytearray((j.where / f"{job.pid}.allocations").read_bytes())
    for section in (Section.from_buffer_copy(data, PAGE + i * ctypes.sizeof(Section)) for i in range(64)):
        if section.kind == 1:
            data[section.offset:section.offset + section.slots * section.stride] = bytes(section.slots * section.stride)
    run = j.unhang.run("explain", j.unhang.write("gone.allocations", bytes(data)))
    t.ok(b" overwrote byte" in run.stdout[:60] and b"of an allocation that is" in run.stdout[:200], "of one whose row is another's by now, the bytes are named", run.stdout[:300])


def test_lost(t, j):
    """Where the GPU is lost, copies are not made, and may be said to have been."""
    t.same([(f.kind, f.begin, f.end) for f in j.run("lost").seen.findings], [], "what could not be copied was not overwritten")


def test_no_gpu(t, j):
    """HIP says that there is none, and nobody else says anything."""
    plain, *jobs = (j.run("seed", 5, plan="", **more) for more in ({"plain": True}, {}, {"UNHANG_POOL": "1"}))
    for mode, job in zip(("guard", "pool"), jobs):
        t.same((job.returncode, job.out, job.err), (3, plain.out, plain.err), f"{mode}: without a GPU it is as without")


def test_stack(t, j):
    job = j.run("small-stack", 16384)
    t.same((job.returncode, job.out), (0, "small stack 0\n"), "a thread with 16 KiB of stack allocates and frees under the guard")


def test_threads(t, j):
    """The file has room for 512 threads: later ones have the places of those that ended."""
    job = j.run("threads", 530, UNHANG_POOL="1")
    last = int(job.out.split()[-1])
    found = [h for h in job.seen.threads if h.tid == last]
    t.ok(job.returncode == 0 and len(job.seen.threads) == 512 and len(found) == 1 and found[0].calls == 2, "the 530th thread has a place, and its calls are its own", (job.out, len(job.seen.threads), found and found[0].calls))


def test_model(t, j):
    """Allocations of all sizes in threads and streams against a model: nothing is reported, nothing is wrong."""
    for mode, n, settings in (("guard", 1000000 if ALL else 3000, {}), ("sampled guard", 100000 if ALL else 2000, {"UNHANG_GUARD": "sample:10"}),
                              ("pool", 1000000 if ALL else 5000, {"UNHANG_POOL": "1"})):
        job = j.run("random", n, 8, 4, timeout=7200 if ALL else 300, **settings)
        t.same((job.returncode, job.out, job.err), (0, "random wrong 0\n", ""), f"{mode}: {n} operations of 8 threads on 4 streams")
        h = job.seen.header
        t.same((len(job.seen.findings), h.live, h.live_bytes, job.seen.torn, h.state), (0, 0, 0, 0, 2), f"{mode}: nothing is reported, and nothing left")
        t.same(sum(s.count for s in job.seen.sizes), sum(s.freed for s in job.seen.sizes), f"{mode}: what was made was freed, in every class of sizes")


def test_races(t, j):
    library = j.guard.parent / "libguard-threads.so"
    sanitizer = subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True).stdout.strip()
    if not library.exists() or not os.path.isabs(sanitizer) or kfd.ROOT:
        return t.skip("races", "no ThreadSanitizer here, or another C library than its own")
    recorder = {**j.recorded(), "HSA_TOOLS_LIB": str(library.with_name("librecorder-threads.so")), "UNHANG_LEVEL": "3"}
    for mode, more in (("guard", {}), ("pool", {}), ("guard beside the recorder", recorder), ("pool beside the recorder", recorder)):
        job = j.run("random", 20000 if ALL else 600, 8, 4, timeout=1000, LD_PRELOAD=f"{sanitizer} {library} {j.kfd}", TSAN_OPTIONS="exitcode=66 ignore_noninstrumented_modules=1 report_thread_leaks=0",
                    **more, **({"UNHANG_POOL": "1"} if mode.startswith("pool") else {}))
        t.same((job.returncode, job.out, job.err.count("ThreadSanitizer")), (0, "random wrong 0\n", 0), f"{mode}: without a race")
        t.same((j.where / f"{job.pid}.recording").exists(), bool(more), f"{mode}: the recorder is there if it was asked for")
    return None


def test_asked(t, j):
    """What programs ask of their memory, other ways to allocate, other processes, captures, several GPUs."""
    for mode in ("plain", "guard", "pool"):
        more = {"plain": mode == "plain", **({"UNHANG_POOL": "1"} if mode == "pool" else {})}
        job = j.run("ask", **more)
        t.same(job.out, "".join(f"ask 1 {n} 1 0 1 {n} 1\n" for n in (1000, 5000, 123456)) + "".join(f"{where} range 0 known 0 start 0 given 0\n" for where in ("freed", "behind")),
               f"{mode}: bounds and attributes of an allocation, and none where there is no allocation")
        job = j.run("share", **more)
        t.same((job.returncode, job.out), (0, "share 1 2 3\n"), f"{mode}: two allocations in another process")
        job = j.run("first", **more)
        t.same((job.returncode, job.out, job.err), (0, "first 0\n", ""), f"{mode}: hipFree(NULL) before all else")
        job = j.run("peers", **{"plan": f"{GPU}; {GPU}", **more})
        t.same((job.returncode, job.out), (0, "peers 7 7\n"), f"{mode}: copies between GPUs")
        job = j.run("others", **more)
        t.ok(job.returncode == 0 and re.fullmatch("looked up 1( 1)*\nothers\n", job.out), f"{mode}: functions that are looked up, and other memory", job.out + job.err)
        lines = ["unhang: guard: memory of hipMallocManaged is not guarded", "unhang: guard: memory of hipMallocPitch is not guarded"] if mode == "guard" else []
        t.same(job.err.splitlines(), lines, f"{mode}: what is not guarded is said")


def test_nearly_full(t, j):
    """What only the library tried, and could not have, is no error of the program's: frameworks ask for the last one after each launch."""
    as_without(t, j, "a GPU with a megabyte left", "nearly-full", HSA_DISABLE_FRAGMENT_ALLOCATOR="1")


def test_exported(t, j):
    """Memory that another process opens by its handle: with the library it gets the allocation; without it the same, or HIP's refusal, and never other bytes."""
    for mode, settings, size, without in (("guard", {}, 8192, "1 5 5"), ("guard", {}, 1000, "0 0 0"), ("pool", {"UNHANG_POOL": "1"}, 1000, "0 0 0")):
        with subprocess.Popen(j.command("exported", size), env=j.environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
            handle = re.match(r"exported 0 ([0-9a-f]{128})$", owner.stdout.readline())
            for name, wanted, more in (("with the library", "1 5 5", settings), ("without it", without, {"plain": True})):
                job = j.run("imported", handle[1] if handle else "", **more)
                t.same((job.returncode, job.out), (0, f"imported {wanted}\n"), f"{mode}, {size} bytes: a process {name}")
            owner.communicate("\n")
    job = j.run("exported", 1000, HSA_DISABLE_FRAGMENT_ALLOCATOR="0")
    if job.seen.header.tier == 2:
        t.ok(job.out.startswith("exported 801 ") and "hipIpcGetMemHandle is refused: HIP cannot share memory of its virtual memory functions\n" in job.err, "HIP's virtual memory: refused with one line", job.out + job.err)
    else:
        t.ok(job.out.startswith("exported 0 "), "spaced mappings are shared", job.out + job.err)


def as_without(t, j, name, *arguments, lines=(), **more):
    """A program under the guard and from the pool does what it does without; only the guard says lines. What it printed without."""
    plain = j.run(*arguments, plain=True, **more)
    if not t.ok(plain.returncode == 0 and plain.out, f"{name}: the runtime alone", plain.out + plain.err) or ABSENT.search(plain.out):
        return plain.out
    for mode, settings in (("guard", {}), ("pool", {"UNHANG_POOL": "1"})):
        job = j.run(*arguments, **settings, **more)
        wanted = [f"unhang: guard: {line}" for line in lines] if mode == "guard" else []
        t.same((job.returncode, job.out, job.err.splitlines()), (0, plain.out, wanted), f"{name}: as without the {mode}")
    return plain.out


def test_captured(t, j):
    """While a stream is captured HIP refuses some calls. It is as without: the same are refused, and the graph runs."""
    for way, name in enumerate(("global", "thread-local", "relaxed", "to a graph", "of the thread's own stream")):
        for who in ("same", "other"):
            out = as_without(t, j, f"{name}, {who} thread", "captured", way, who)
            if ABSENT.search(out):
                t.skip(f"captures {name}", "this HIP does not have them")
                break


def test_graph_memory(t, j):
    """Memory of a graph's own, by nodes or captured, freed in the graph or later, among other allocations."""
    nodes = int(re.search(r"\d$", j.hip[0])[0]) >= 6
    lines = [f"memory of {name} is not guarded" for name in (["hipGraphAddMemAllocNode"] if nodes else []) + ["hipMallocAsync"]]
    out = as_without(t, j, "memory of graphs", "graph-memory", lines=lines)
    t.ok(out.endswith("graph memory\n") and out.count(" 9090909") == (8 if nodes else 5), "the graphs have their bytes", out)
    if not nodes:
        t.skip("memory nodes", "this HIP has no hipGraphAddMemAllocNode")


def test_freed_in_order(t, j):
    """hipFreeAsync of what hipMalloc made, also on a stream that is captured: the capture goes on, and nobody else gets the memory that a graph may still use."""
    plain, *jobs = (j.run("freed-in-order", **more) for more in ({"plain": True}, {}, {"UNHANG_POOL": "1"}))
    for mode, job in zip(("guard", "pool"), jobs):
        t.same((job.returncode, job.out), (0, plain.out), f"as without the {mode}")
        line = r"hipFreeAsync\(0x[0-9a-f]+\) while its stream is captured: the memory is kept" if plain.out.split()[-4] == "0" else r"double free of .*"
        t.ok(re.fullmatch(rf"unhang: {mode}: {line}\n", job.err), f"what the {mode} cannot do is told", job.err)


def test_segments(t, j):
    """Segments as PyTorch makes them (expandable_segments): addresses that are mapped, unmapped and mapped again, among other allocations."""
    told = ["memory of hipMemAddressReserve is not guarded"]
    for how in ("segments", "segments-freed", "segments-freed inside"):
        out = as_without(t, j, how, *how.split(), lines=told)
        if ABSENT.search(out):
            return t.skip("segments", "hipMemCreate of this HIP refuses")
        if how == "segments":
            t.same(out.splitlines()[:3], ["segments wrong 0 holes 0 wrong 0"] * 3, "each has its bytes, and nobody else may get its addresses")
    return None


def test_descriptors(t, j):
    """A process that may open no file any more, or has opened all that it may, allocates and frees as before."""
    for how in ("lowered", "used") if ALL or kfd.ROOT else ("lowered",):
        plain, *jobs = (j.run("descriptors", how, **more) for more in ({"plain": True}, {}, {"UNHANG_POOL": "1"}))
        t.same((plain.returncode, plain.out), (0, "descriptors failed 0 twice 1\ndescriptors captured 0 0 0\n"), f"{how}: the runtime alone")
        for mode, job in zip(("guard", "pool"), jobs):
            t.same((job.returncode, job.out), (0, plain.out), f"{how}: as without the {mode}")
            t.ok(re.fullmatch(rf"unhang: {mode}: double free of 0x[0-9a-f]+: allocation 303 \(500 bytes\) was freed before\n", job.err), f"{how}: the {mode} knows which one was freed twice", job.err)


def test_mappings(t, j):
    """A process that has nearly all mappings that the kernel allows (vm.max_map_count) has memory, or is refused it, and nobody's bytes are another's."""
    few = "the kernel allows hardly any mapping more (vm.max_map_count): from here on only some allocations are guarded"
    none = "hipMalloc fails for want of mappings (vm.max_map_count): with the guard each allocation needs its own"
    for name, settings, lines in (("guard", {}, [few, none]), ("guard, with the fragment allocator", {"HSA_DISABLE_FRAGMENT_ALLOCATOR": "0"}, [few]), ("pool", {"UNHANG_POOL": "1"}, [])):
        job = j.run("mappings", 200, **settings)
        right, made = job.out.startswith("mappings wrong 0 odd 0\nmade "), int(job.out.split()[-1]) if job.out else 0
        t.ok(job.returncode == 0 and right and (made == 1200 if none not in lines else 0 < made < 1200), f"{name}: 200 mappings are left for 400 allocations", (job.returncode, job.out, job.err))
        told = [line.removeprefix("unhang: guard: ") for line in job.err.splitlines() if "fragment allocator is on" not in line]
        t.same(told, lines, f"{name}: what cannot be done is told, once")


# Python loads HIP where the loader's own search for symbols does not look.
BY_PYTHON = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1], mode=ctypes.DEFAULT_MODE)
p = ctypes.c_void_p()
print(hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(1000)), p.value % 4096, hip.hipFree(p), hip.hipFree(p))
"""


def test_python(t, j):
    if kfd.ROOT:
        return t.skip("a library that Python loads", "this Python has another C library")
    for mode, offset in (("guard", 3072), ("pool", 0)):
        done = subprocess.run([sys.executable, "-c", BY_PYTHON, j.hip[0]], capture_output=True, text=True, env=j.environment(**({"UNHANG_POOL": "1"} if mode == "pool" else {})))
        t.same((done.returncode, done.stdout), (0, f"0 {offset} 0 1\n"), f"{mode}: HIP that Python has loaded")
        t.ok(re.fullmatch(rf"unhang: {mode}: double free of .*\n", done.stderr), f"{mode}: is looked after", done.stderr)
    return None


def seeds(job):
    found = re.search(r"seed calls (\d+) microseconds ([\d.]+) memory (\d+)", job.out)
    return (int(found[1]), float(found[2]), int(found[3])) if found else (1, 1, 1)


def test_pool(t, j):
    """Many small allocations: calls of KFD, time and memory against the plain runtime, which makes a mapping for each."""
    n = 5000
    plain = j.run("seed", n, plain=True, HSA_DISABLE_FRAGMENT_ALLOCATOR="1")
    pooled = j.run("seed", n, UNHANG_POOL="1", HSA_DISABLE_FRAGMENT_ALLOCATOR="1", UNHANG_ALLOCATOR_REPORT="1")
    a, b = seeds(plain), seeds(pooled)
    t.ok(b[0] <= 0.05 * a[0], "calls of KFD: at most 5 %", (a[0], b[0]))
    t.ok(b[1] <= 0.2 * a[1], "time that the thread works: at most a fifth", (a[1], b[1]))
    t.ok(b[2] <= 1.1 * a[2], "memory: at most 10 % more", (a[2], b[2]))
    h = pooled.seen.header
    t.same((h.mode, h.peak, h.live, h.calls[1], h.small), (2, n, 0, n + 48 + 8, n + 8), "and it is counted")
    t.ok(re.fullmatch(rf"unhang: pool: {n + 56} allocations, at most {n} of them \(\d+ KB\) at once in \d+ KB; \d+ calls of KFD\n", pooled.err), "one line says so, if it is asked for", pooled.err)
    burst = max(pooled.seen.bursts, key=lambda b: b.count, default=None)
    t.ok(burst and burst.count >= n - 64 and (burst.most, burst.size) == (4096, 3584), "the many small ones are seen", burst and burst.count)
    small = pooled.seen.sizes[0:0] + [s for s in pooled.seen.sizes if s.peak >= n]
    t.ok(len(small) == 1 and small[0].freed == n + 8 and sum(small[0].lives) == n + 8, "with their lifetimes", len(small))
    job = j.run("late", plan=f"{GPU}; slow kernel fill 0.3", UNHANG_POOL="1")
    t.same((job.out, job.seen.header.waits), ("late damaged 0\n", 1), "a kernel that still writes into freed memory damages nobody: hipFree waits")
    job = j.run("late-peer", plan=f"{GPU}; {GPU}; slow kernel fill 0.3", UNHANG_POOL="1")
    t.same((job.returncode, job.out), (0, "late peer 0 damaged 0\n"), "nor does one of another GPU")
    job = j.run("give-back", UNHANG_POOL="1", HSA_DISABLE_FRAGMENT_ALLOCATOR="1")  # else the runtime keeps some of them itself
    took, kept = map(int, re.findall(r"\d+", job.out) or (0, 1))
    t.ok(took >= 4000 * 8192 - (2 << 20) and kept <= 2 << 20, "slabs are given back", job.out)


def test_available(t, j):
    """The driver counts 2 MiB for each small allocation that has a mapping of its own; programs are told of their pages."""
    plain, guarded = (int(re.findall(r"\d+", j.run("available", 200, plain=p, HSA_DISABLE_FRAGMENT_ALLOCATOR="1").out)[0]) for p in (True, False))
    newer = int(re.search(r"\d$", j.hip[0])[0]) >= 6  # which asks the driver
    t.ok(guarded <= 200 * 2 * PAGE and (not newer or plain >= 200 * (2 << 20)), "hipMemGetInfo is corrected", (plain, guarded))


def test_budget(t, j):
    job = j.run("grow", 600, UNHANG_GUARD_MAPPINGS="200")
    guarded = [r for r in job.seen.rows if r.flags & GUARDED]
    t.ok(job.out == "grown\n" and 100 < len(guarded) <= 200 and len([r for r in job.seen.rows if r.flags & PASSED]) == 600 - len(guarded), "above the budget only some are guarded", len(guarded))
    t.ok(re.fullmatch("unhang: guard: more than 100 allocations at once: from here on only some are guarded\n", job.err), "which is said", job.err)
    # HIP's virtual memory costs a page for each, and pieces 4 MiB.
    job = j.run("grow", 200, UNHANG_GUARD_MEMORY="64M", HSA_DISABLE_FRAGMENT_ALLOCATOR="0")
    if job.seen.header.granularity == PAGE:
        job = j.run("grow", 200, UNHANG_GUARD_MEMORY="64K", HSA_DISABLE_FRAGMENT_ALLOCATOR="0")
    guarded = [r for r in job.seen.rows if r.flags & GUARDED]
    t.ok(job.out == "grown\n" and 0 < len(guarded) < 200 and job.seen.header.sampling > 1, "above the budget of memory, too", (len(guarded), job.seen.header.sampling))
    t.ok(re.search(r"guarding takes more than (32 MiB|32 KiB) of GPU memory: from here on only some allocations are guarded", job.err), "which is said, too", job.err)
    job = j.run("grow", 100, UNHANG_GUARD="sample:10")
    t.same(len([r for r in job.seen.rows if r.flags & GUARDED]), 10, "sample:10 guards every tenth")
    for match, wanted in (("*allocate", 50), ("*libnothing*", 0)):
        job = j.run("grow", 50, UNHANG_GUARD=f"match:{match}")
        t.same(len([r for r in job.seen.rows if r.flags & GUARDED]), wanted, f"match:{match} guards what such a file asks for")


def test_tiers(t, j):
    """Where the environment came too late: other ways, or none."""
    job = j.run("past", 8192, "read", HSA_DISABLE_FRAGMENT_ALLOCATOR="0", **j.recorded())
    page, (address, size) = j.faulted(job), told(job, "allocation")
    found, row = job.seen.at(page) if page is not None else ("no fault", None)
    t.ok(row and (found, row.address) == ("past", address) and job.seen.header.tier in (2, 3), "a read past the end is found without the variables", (job.seen.header.tier, job.err[-500:], job.out))
    t.ok("fragment allocator is on" in job.err, "and the other way is said", job.err[:300])
    job = j.run("freed", 100, "read", HSA_DISABLE_FRAGMENT_ALLOCATOR="0", **j.recorded())
    page, (address, size) = j.faulted(job), told(job, "allocation")
    found, row = job.seen.at(page) if page is not None else ("no fault", None)
    t.ok(row and (found, row.address) == ("freed", address), "and so is a use after free", (page, found, hex(address), job.err[-300:]))
    job = j.run("random", 200, 4, 2, HSA_DISABLE_FRAGMENT_ALLOCATOR="0")
    t.same((job.returncode, job.out, len(job.seen.findings)), (0, "random wrong 0\n", 0), "a right program is not reported")
    newer = int(re.search(r"\d$", j.hip[0])[0]) >= 7
    t.same(job.seen.header.tier, 2 if newer else 3, "HIP's virtual memory where it works")
    job = j.run("flagged", 1, HSA_DISABLE_FRAGMENT_ALLOCATOR="0")
    address, flags = told(job, "flagged")[0], {r.address: r.flags for r in job.seen.rows}
    if not address:
        t.skip("memory with flags", "this HIP has none")
    else:
        t.ok(flags.get(address, 0) & (PASSED if newer else GUARDED), "memory with flags is HIP's own where its virtual memory has none", (hex(address), flags))
    kind = "pages of HIP's virtual memory of 4 KB instead" if newer else "at least 4 MB instead of 4 KB"
    line = f"the runtime's fragment allocator is on: each allocation takes {kind}"
    for arguments in (["grow", 5], ["captured", 0, "same"], *([["captured", 1, "same"], ["captured", 2, "other"], ["segments"]] if newer or ALL else [])):
        lines = ["memory of hipMemAddressReserve is not guarded", line] if arguments == ["segments"] else [line]
        as_without(t, j, f"{' '.join(map(str, arguments))}, in that way", *arguments, lines=lines, HSA_DISABLE_FRAGMENT_ALLOCATOR="0")


def test_hang(t, j):
    """A call that never returns is named while it hangs, and after a kill."""
    job = j.start("grow", 100, plan=f"{GPU}; hang allocation 40")
    path = j.where / f"{job.pid}.allocations"

    before = [0]

    def inside():
        """The same call of the same thread as in the look before."""
        found = [h for h in Allocations(path).threads if h.call == 1] if path.exists() else []
        same, before[0] = found and found[0].since == before[0], found[0].since if found else 0
        return found if same and Allocations(path).header.calls[1] > 20 else None
    found = tap.wait_for(inside)
    t.ok(found and (found[0].call, found[0].a[0]) == (1, 100), "live: the thread is in hipMalloc(100)", found)
    job.kill()
    job.communicate()
    seen = Allocations(path)
    t.ok([h for h in seen.threads if (h.call, h.tid) == (1, job.pid)] and seen.torn == 0 and seen.header.state == 1, "after a kill: the same", seen.torn)


def test_setting(t, j):
    """The card of seed 004, which ROCm 5 does not know: beside the pool for the job there is a setting for the machine."""
    if int(re.search(r"\d$", j.hip[0])[0]) < 6:
        return t.skip("a setting for the machine", "this HIP does not know gfx1100")
    job = j.start("seed", 5000, plan="gpu gfx1100; hang allocation 3170", plain=True, HSA_DISABLE_FRAGMENT_ALLOCATOR="1", **j.recorded())
    recording = j.where / f"{job.pid}.recording"

    def diagnosed():
        done = j.unhang.run("last", "--json", recording) if recording.exists() else None
        return json.loads(done.stdout)["diagnosis"] if done and done.returncode == 0 else None
    told = tap.wait_for(diagnosed) or {}
    job.kill()
    job.communicate()
    ids = [r["id"] for r in told.get("remedies", [])]
    t.ok(ids[:1] == ["pool-small-allocations"] and "cwsr-off-allocations" in ids[1:3], "what helps: the pool for the job, and a setting for the machine", ids)
    return None


HIP_STUB = "int hipMalloc(void **p, unsigned long n) { static char room[4096]; *p = room; return 0; } int hipFree(void *p) { return 0; }\n"
STUB_USER = "#include <stdio.h>\nint hipMalloc(void **, unsigned long), hipFree(void *);\nint main(void) { void *p; int e = hipMalloc(&p, 10); printf(\"stub %d %d\\n\", e, hipFree(p)); }\n"


# Looks for HIP's functions before HIP is there, and calls what it should not have found; then it loads HIP.
LATE_USER = """#include <dlfcn.h>
#include <stdio.h>
extern int hipMalloc(void **, unsigned long) __attribute__((weak));
int main(int argc, char **argv)
{
	void *p, *found = dlsym(RTLD_DEFAULT, "hipMalloc"), *own = dlsym(dlopen(NULL, RTLD_LAZY), "hipFree");
	const int early = hipMalloc ? hipMalloc(&p, 10) : 801;
	void *hip = dlopen(argv[1], RTLD_LAZY);
	int (*make)(void **, unsigned long) = NULL;
	*(void **)&make = hip ? dlsym(hip, "hipMalloc") : NULL;
	printf("found %d %d early %d late %d\\n", found != NULL, own != NULL, early, make ? make(&p, 10) : -1);
}
"""


def test_late(t, j, environment):
    stub, user = j.unhang.directory / "libamdhip64.so.98", j.unhang.directory / "late_user"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", stub, j.unhang.write("late_stub.c", HIP_STUB)], check=True)
    subprocess.run(["gcc", "-o", user, j.unhang.write("late_user.c", LATE_USER), "-ldl"], check=True)
    for name, e, said in (("without", j.unhang.environment, ""), ("with", environment, "unhang: guard: this HIP has no hipGetDevice; nothing is guarded\n")):
        done = subprocess.run([user, stub], env=e, capture_output=True, text=True)
        t.same((done.returncode, done.stdout, done.stderr), (0, "found 0 0 early 801 late 0\n", said), f"{name} the library: HIP is not found before it is there, and is found then")


def test_aside(t, j):
    """Programs without HIP see nothing of it; a HIP that lacks a function is left alone."""
    environment = {**j.unhang.environment, "LD_PRELOAD": str(j.guard), "UNHANG_ALLOCATIONS": f"{j.where}/aside.allocations"}
    plain = j.unhang.environment
    script = "import os, threading, ctypes; print(sorted(k for k in os.environ if 'HSA' in k), threading.active_count(), len(os.listdir('/proc/self/task')), bool(ctypes.CDLL(None).malloc), hasattr(ctypes.CDLL(None), 'hipMalloc'))"
    for command in (["ls", "/"], [sys.executable, "-c", script], ["env", "-u", "LD_PRELOAD", "-u", "UNHANG_ALLOCATIONS", "sh", "-c", "env | grep -c HSA; true"]):
        runs = [subprocess.run(command, env=e, capture_output=True, text=True) for e in (environment, plain)]
        t.same(*((r.returncode, r.stdout, r.stderr) for r in runs), f"{pathlib.Path(command[0]).name}: as without")
    source, static = j.unhang.write("static.c", "#include <stdio.h>\nint main(void) { puts(\"static\"); }\n"), j.unhang.directory / "static"
    if subprocess.run(["gcc", "-static", "-o", static, source], capture_output=True).returncode == 0:
        done = subprocess.run([static], env=environment, capture_output=True, text=True)
        t.same((done.returncode, done.stdout, done.stderr), (0, "static\n", ""), "a static program: as without")
        copy = pathlib.Path(tempfile.mkdtemp(dir=j.where)) / "id"
        shutil.copy(shutil.which("id"), copy)
        copy.chmod(0o4755)
        if os.getuid() == 0 and not os.statvfs(j.where).f_flag & os.ST_NOSUID:
            copy.parent.chmod(0o755)
            pathlib.Path(j.where).chmod(0o755)
            runs = [subprocess.run([copy], env=e, capture_output=True, text=True, user=65534, group=65534) for e in (environment, plain)]
            loader = "ERROR: ld.so: object '" # which says of a library that it is not for setuid programs
            t.ok(runs[0].stdout == runs[1].stdout and runs[0].returncode == 0 and "unhang" not in runs[0].stderr.split(loader)[0], "a setuid program: as without", [(r.stdout, r.stderr) for r in runs])
        else:
            t.skip("a setuid program", "not root, or no file may be setuid here")
    else:
        t.skip("a static program", "no static C library")
    t.ok(not (j.where / "aside.allocations").exists(), "and no file is made")
    test_late(t, j, environment)
    stub, user = j.unhang.directory / "libamdhip64.so.99", j.unhang.directory / "stub_user"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", stub, j.unhang.write("stub.c", HIP_STUB)], check=True)
    subprocess.run(["gcc", "-o", user, j.unhang.write("stub_user.c", STUB_USER), f"-L{stub.parent}", "-l:libamdhip64.so.99", f"-Wl,-rpath,{stub.parent}"], check=True)
    done = subprocess.run([user], env=environment, capture_output=True, text=True)
    t.same((done.stdout, done.stderr), ("stub 0 0\n", "unhang: guard: this HIP has no hipGetDevice; nothing is guarded\n"), "a HIP that lacks a function: it steps aside with one line")


def test_words(t, j):
    """Settings that are none, and one that says no."""
    job = j.run("small-stack", 65536, UNHANG_GUARD="\x1b[2Jgarb\x7f")
    t.same(job.err, "unhang: guard: UNHANG_GUARD: '?[2Jgarb?' is none of above, below, sample:N, match:GLOB\n", "what is said of a setting has nothing that a terminal obeys")
    job = j.run("small-stack", 65536, UNHANG_ALLOCATIONS="nowhere")
    t.ok(job.err.startswith("unhang: guard: UNHANG_ALLOCATIONS=nowhere is no file"), "and names the setting that it is", job.err)
    t.same([j.run("small-stack", 65536, **more).seen.header.environment for more in ({}, {"UNHANG_POOL": "0"})], [1, 1], "UNHANG_POOL=0 is the guard, with all that belongs to it")


def test_recorder(t, j):
    """Beside the flight recorder."""
    for mode in ("guard", "pool"):
        job = j.run("random", 400, 8, 4, UNHANG_LEVEL="3", **j.recorded(), **({"UNHANG_POOL": "1"} if mode == "pool" else {}))
        t.same((job.returncode, job.out, job.err, (j.where / f"{job.pid}.recording").exists()), (0, "random wrong 0\n", "", True), f"{mode}: both work beside each other")


def test_operation(t, j):
    """What the framework was doing, where the flight recorder is told: with the allocation and with its end."""
    job = j.run("operator", **j.recorded())
    page, (address, _) = j.faulted(job), told(job, "allocation")
    found, row = job.seen.at(page) if page is not None else ("no fault", None)
    names = {o.id: o.name for o in job.seen.operations}
    t.ok(row and (found, row.address, names.get(row.doing), names.get(row.freed_doing)) == ("freed", address, b"aten::embedding", b"aten::index_put_"), "an allocation has its operations",
         (found, names, job.out, job.err[-300:]))
    t.same(len(names), 2, "each name once")


def test_kills(t, j):
    """Killed at any moment: what is in the file is whole or left out."""
    torn = 0
    for i in range(60 if ALL else 6):
        job = j.start("random", 1000000, 8, 4, **({"UNHANG_POOL": "1"} if i % 2 else {}))
        path = j.where / f"{job.pid}.allocations"
        tap.wait_for(lambda: path.exists() and path.stat().st_size > PAGE and Allocations(path).header.calls[1] > 50 + 17 * i)
        job.send_signal(signal.SIGKILL)
        job.communicate()
        seen = Allocations(path)
        torn += seen.torn
        good = all(r.state in (LIVE, HELD, RELEASED) and r.size and r.born and r.address % 256 == 0 for r in seen.rows)
        t.ok(good and len(seen.rows) > 10 and seen.torn <= 8 and not seen.findings, f"{'pool' if i % 2 else 'guard'}, killed: its file is read", (len(seen.rows), seen.torn))
        run = j.unhang.run("explain", path)
        # On a machine that is loaded enough, a thread may have been in hipMalloc() for long when it was killed, and that is told.
        t.ok(run.returncode in (0, 1) and not run.stderr, "without a complaint", (run.returncode, run.stderr))


TESTS = (test_aside, test_outside, test_freed, test_wild, test_misuses, test_often, test_slack, test_lost, test_no_gpu, test_stack, test_threads, test_model, test_races, test_asked, test_nearly_full, test_exported, test_captured, test_graph_memory, test_freed_in_order, test_segments, test_descriptors, test_mappings, test_python, test_pool, test_available, test_budget, test_tiers, test_hang, test_setting, test_words, test_recorder, test_operation, test_kills)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    wanted = {f"test_{name}" for name in sys.argv[3:]}  # all of them, if none is named
    with tempfile.TemporaryDirectory(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as where:
        j = Jobs(unhang, pathlib.Path(sys.argv[2]).resolve().with_name("libunhang-guard.so"), where)
        complaint = "no hipcc" if not shutil.which("hipcc") else j.compile()
        if complaint:
            tap.skip_all(f"programs for HIP cannot be compiled here: {complaint.splitlines()[0]}")
        for test in TESTS:
            if wanted and test.__name__ not in wanted:
                continue
            try:
                test(t, j)
            except Exception:  # what a program did not print or write is missed by this test alone
                t.ok(False, f"{test.__name__} to its end", traceback.format_exc())
    t.end()


if __name__ == "__main__":
    main()
