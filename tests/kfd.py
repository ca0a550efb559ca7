#!/usr/bin/env python3
"""The KFD without silicon: HIP programs, compiled here by hipcc, on ROCm's own runtime, with our KFD before libc."""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import emulated
import tap

HIP = tap.HERE / "hip"
FAULT = re.compile(r"Memory access fault by GPU node-(\d+) .* on address (0x[0-9a-f]+)\. Reason: Page not present")
LAUNCHES = """triple-chevron 2
hipLaunchKernel 4
cooperative 6
extended 8
graph 20
hipMemset 0
unaligned 00 41 41 00
device-to-device 1
2D 1
"""
MODULE = "module 3\nextended-module 6\n"
KERNELS = "fill 1.5\ncopy 1.5\nreduction 98304\nindex_copy 1.5\nnothing 1.5\n"
OPEN, CLOSED = "gpu gfx90a", "gpu gfx90a; vram closed"
# Another ROCm than this machine's, made by rocm-root: its hipcc compiles, and its loader and libraries are the program's, which is else like any other.
ROOT = os.environ.get("UNHANG_ROCM_ROOT", "")
LIBRARIES = f"{ROOT}/usr/lib/x86_64-linux-gnu"
HIPCC = [tap.HERE / "in-root", ROOT, "hipcc", f"-Wl,--dynamic-linker={LIBRARIES}/ld-linux-x86-64.so.2,-rpath,{LIBRARIES},--disable-new-dtags"] if ROOT else ["hipcc"]


def remember(unhang):
    """HIP compiles its own kernels in each process: what its compiler said is kept in the build directory (comgr_cache.c), unless it is another ROCm's."""
    real = next((p.resolve() for p in pathlib.Path("/usr/lib").glob("*/libamd_comgr.so.2")), None)
    source, kept = tap.HERE / "comgr_cache.c", pathlib.Path(unhang.binary).parent / "hip-compiler"
    if ROOT or not real or not shutil.which("gcc"):
        return
    answers, library, named = kept / f"{real.name}-{real.stat().st_mtime_ns}", kept / "libamd_comgr.so.2", kept / "named.so"
    answers.mkdir(parents=True, exist_ok=True)
    with open(kept / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            # The name of a library is what others that are linked with it look for. By its own name the real one would be found to be there: this is it.
            subprocess.run(["gcc", "-shared", f"-Wl,-soname,{real}", "-o", named, "-x", "c", "/dev/null"], check=True)
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f'-DCOMGR="{real}"', "-o", kept / "new.so", source, "-Wl,--no-as-needed", named], check=True)
            (kept / "new.so").rename(library)
    unhang.environment.update(LD_LIBRARY_PATH=str(kept), UNHANG_COMGR_CACHE=str(answers))


class Programs:
    """The compiled programs, and how they are run."""

    def __init__(self, unhang):
        self.unhang = unhang
        remember(unhang)
        self.library = pathlib.Path(unhang.binary).parent / "libunhang-kfd.so"
        self.program, self.module, self.code = (unhang.directory / name for name in ("programs", "module.co", "code.co"))

    def compile(self):
        """What hipcc says if it fails. The code objects lie in the program as a bundle, which can be loaded as a module too. It takes hipcc seconds, so the
        first test that needs the program leaves it in the build directory for the others."""
        source, kept = HIP / "programs.cpp", self.library.parent / f"hip-programs{pathlib.Path(ROOT).name}"
        fresh, lock = (kept.with_name(f"{kept.name}.{what}") for what in ("new", "lock"))
        with open(lock, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists() or kept.stat().st_mtime < max(p.stat().st_mtime for p in HIP.iterdir()):
                done = subprocess.run([*HIPCC, "--offload-arch=gfx90a", "-O1", "-o", fresh, source, "-lhsa-runtime64"], capture_output=True, text=True)
                if done.returncode:
                    return done.stderr
                fresh.rename(kept)
        shutil.copy(kept, self.program)
        program = self.program.read_bytes()
        bundle = program[program.index(b"__CLANG_OFFLOAD_BUNDLE__"):]
        self.module.write_bytes(bundle)
        self.code.write_bytes(bundle[bundle.index(b"\x7fELF"):])
        return ""

    def environment(self, plan):
        return {**self.unhang.environment, "LD_PRELOAD": str(self.library), "UNHANG_KFD": plan}

    def run(self, plan, *arguments, **more):
        return subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              env={**self.environment(plan), **more})

    def prints(self, t, plan, arguments, wanted, name):
        done = self.run(plan, *arguments.split())
        t.ok((done.returncode, done.stdout) == (0, wanted), name, f"status {done.returncode}\n{done.stdout}{done.stderr[-800:]}")

    def stands(self, plan, *arguments, until=""):
        """Starts it, waits for a line, and says what it printed until it was killed; None: it ended by itself."""
        with subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=self.environment(plan)) as process:
            printed, patience = "", threading.Timer(60, process.kill)
            patience.start()
            while until and until not in printed:
                line = process.stdout.readline()
                if not line:
                    patience.cancel()
                    return None
                printed += line
            patience.cancel()
            try:
                process.wait(timeout=0.4)
                return None
            except subprocess.TimeoutExpired:
                process.kill()
            return printed + process.stdout.read()


def test_launches(t, p):
    every = f"launches , module {p.module} , kernels , many 4 300 , managed , pools"
    wanted = LAUNCHES + MODULE + KERNELS + "threads 4 launches 300 wrong 0\nmanaged 13 13\n" + "pools 7\n" * 3
    p.prints(t, OPEN, every + " , host-reads", wanted + "host reads 3\n", "every way to launch, fill and copy, every stand-in, several threads")
    p.prints(t, CLOSED, every, wanted, "and where VRAM is closed to the host")
    for gfx in ("gfx906", "gfx90a", "gfx1010", "gfx1030"):
        p.prints(t, f"gpu {gfx}", "hsa-copies", "hsa **0123456789abcdef*ghijklm**\n", f"copies of the HSA runtime on {gfx}")


def test_memory(t, p):
    p.prints(t, OPEN, "shared 0", "shared 5\n", "a small buffer that two processes share")
    p.prints(t, CLOSED, "shared 1", "shared 5\n", "a large one, in closed VRAM")
    t.same(p.run(CLOSED, "host-reads").returncode, -signal.SIGSEGV, "VRAM that is closed the host cannot read")
    p.prints(t, OPEN, "places", "ring host arguments host\n", "rings and arguments are in host memory")
    p.prints(t, CLOSED, "places", "ring VRAM arguments VRAM\n", "where VRAM is closed they are in VRAM")
    done = p.run("gpu gfx90a vram 64M", "allocations", 9, 16 << 20)
    t.ok(done.stdout.startswith("allocation 1 hipSuccess\n") and done.stdout.endswith("hipErrorOutOfMemory\n"), "VRAM has an end", done.stdout)


def test_several_gpus(t, p):
    plan = "gpu gfx90a pci 0000:83:00.0; gpu gfx90a vram 8G name Second"
    done = p.run(plan, "peers", 1)
    rows = done.stdout.splitlines()
    t.same(rows, ["GPUs 2", "0 gfx90a:sramecc-:xnack- 0000:83:00.0 gfx90a 16384 MiB 64 CUs",
                  "1 gfx90a:sramecc-:xnack- 0000:04:00.0 Second 8192 MiB 64 CUs", "peer 5"], "two GPUs, and one reads the other's memory")
    done = p.run(plan, "peers", 0)
    t.ok(FAULT.search(done.stderr) and FAULT.search(done.stderr)[1] == "2" and done.returncode == -signal.SIGABRT,
         "which it may not unless it was allowed to", done.stderr[-600:])


def fault_of(done):
    found = FAULT.search(done.stderr)
    return int(found[2], 16) if found and done.returncode == -signal.SIGABRT else None


def test_faults(t, p):
    done = p.run(OPEN, "read-beyond", 0)
    t.ok(done.stdout.endswith("no fault\n") and not done.returncode, "all of a buffer is read", done.stderr)
    done = p.run(CLOSED, "read-beyond", 1)
    t.same(fault_of(done), int(done.stdout.split()[3], 16), "a byte more: the runtime tells the page behind it and aborts")
    done = p.run(OPEN, "read-freed")
    t.same(fault_of(done), int(done.stdout.split()[1], 16), "a buffer that was freed")
    t.same(fault_of(p.run("gpu gfx90a; fault kernel fill launch 2 at 0xdead0123", "series", 3)), 0xdead0000, "a planned one, at the address of its page")
    done = p.run("gpu gfx90a; fault kernel copy at argument 1 plus 0x2000", "read-beyond", 0)
    t.same(fault_of(done), int(done.stdout.split()[1], 16) + 0x2000, "one that is counted from an argument")
    t.same(fault_of(p.run(OPEN, "lost-kernel")), 0x7ead0000, "a packet whose kernel is nowhere")
    done = p.run(OPEN, "pageable", HSA_XNACK="1")
    t.same(done.stdout, "pageable 13 13\n", "any memory of the host, with XNACK")
    t.ok(fault_of(p.run(OPEN, "pageable", HSA_XNACK="0")), "and none without")


def test_exceptions(t, p):
    done = p.run(OPEN, "index-beyond")
    t.ok("Device-side assertion `index[i] >= 0 && index[i] < rows' failed." in done.stderr and "code: 0x1016" in done.stderr
         and done.returncode == -signal.SIGABRT, "index_copy's assertion", done.stderr)
    for name, code in (("illegal-instruction", "code: 0x2a"), ("packet", "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT")):
        done = p.run(f"gpu gfx90a; exception kernel saxpy {name}", "series", 1)
        t.ok(code in done.stderr and done.returncode == -signal.SIGABRT, f"exception {name}", f"{done.returncode} {done.stderr}")


def test_standing(t, p):
    t.same(p.stands("gpu gfx90a; hang kernel saxpy launch 3", "series", 5, until="launched"), "launched\n", "a kernel that hangs at its third launch")
    t.same(p.stands("gpu gfx90a; hang launch 4", "series", 5, until="launched"), "launched\n", "the fourth launch of any kernel")
    small, large = f"allocations 3 {32 << 20}", f"allocations 3 {64 << 20}"
    t.same(p.stands("gpu gfx90a; hang allocation of 64M", *f"{small} , {large}".split(), until="3 hip"),
           "".join(f"allocation {i} hipSuccess\n" for i in (1, 2, 3)), "an allocation that is large enough never returns")
    begun = time.monotonic()
    p.prints(t, "gpu gfx90a; slow kernel sax* 0.1; hang kernel saxpy launch 6; hang launch 11; hang kernel other", "series 5", "launched\nseries 5\n",
             "slow kernels end, and launches that are never made hang nothing")
    t.ok(time.monotonic() - begun > 0.5, "but take their time")


def test_plans(t, p):
    for plan, why in (("gpu", "is none of gfx90a"), ("gpu gfx90a; hang", "at what?"), ("gpu gfx90a; fault kernel a at b", "'b' is no such number"),
                      ("gpu gfx90a; exception kernel a nonsense", "'nonsense' is no exception"), ("gpu gfx90a; gpu gfx90a node 1", "go up"),
                      ("gpu gfx90a; hang kernel a now", "'now' is not expected"), ("nonsense", "is none of gpu")):
        done = p.run(plan, "places")
        t.ok("unhang: UNHANG_KFD: " in done.stderr and why in done.stderr and done.returncode == 1, f"'{plan}' is refused", done.stderr)


# The ioctls that no runtime of ROCm 5 uses: what the driver answers, as words or as the name of an error.
DOOR = """
import ctypes, errno, fcntl, mmap, os, select, struct, sys, time
GPU, SIZE, VRAM, AT = 0x5000, 1 << 20, 1 | 1 << 31, 0x10000000

class Node:
    def __init__(self, path, letter):
        self.fd, self.letter = os.open(path, os.O_RDWR), ord(letter)
    def __call__(self, number, layout, *values):
        words = bytearray(struct.pack("=" + layout, *values))
        try:
            fcntl.ioctl(self.fd, 3 << 30 | len(words) << 16 | self.letter << 8 | number, words)
        except OSError as e:
            return errno.errorcode[e.errno]
        return struct.unpack("=" + layout, words)

def done(result):
    return result if isinstance(result, str) else "done"

def nodes():
    return Node("/dev/kfd", "K"), Node("/dev/dri/renderD128", "d")

kfd, node = nodes()
print("version", *kfd(0x01, "II", 0, 0))
allocated = kfd(0x16, "QQQQII", AT, SIZE, 0, 0, GPU, VRAM)
handle = allocated[2]
mmap.mmap(node.fd, SIZE, offset=allocated[3])[:5] = b"hello"
fd = kfd(0x24, "QII", handle, os.O_CLOEXEC, 0)[2]
gem = node(0x2e, "IIi", 0, 0, fd)[0]
print("dma-buf", os.lseek(fd, 0, os.SEEK_END) == SIZE, node(0x2e, "IIi", 0, 0, fd)[0] == gem)
node(0x46, "IIQQI256s", gem, 1, 0, 0, 4, b"mark")
for operation, offset, size in (1, 0, SIZE), (1, 4096, 4096), (2, 0, SIZE), (2, 0, SIZE), (1, SIZE, 4096), (1, 4096, 4096):
    print("va", operation, done(node(0x48, "IIIIQQQ", gem, 0, operation, 14, 2 * AT, offset, size)))
late = kfd(0x24, "QII", handle, 0, 0)[2]
kfd(0x17, "Q", handle)
node(0x09, "II", gem, 0)
print("closed", node(0x41, "Q", gem), kfd(0x24, "QII", handle, 0, 0), flush=True)
if not os.fork():
    kfd, node = nodes()
    room = ctypes.create_string_buffer(256)
    size, _, marked, gpu, flags, _ = kfd(0x1c, "QQIIII", 0, ctypes.addressof(room), 256, 0, 0, late)
    gem = node(0x2e, "IIi", 0, 0, late)[0]
    there = mmap.mmap(node.fd, SIZE, offset=node(0x41, "Q", gem)[0])
    print("child", size == SIZE, room.raw[:marked], gpu == GPU, flags == VRAM, there[:5], kfd(0x1d, "QQII", 3 * AT, 0, GPU, late)[0] == 3 * AT, flush=True)
    os._exit(0)
os.wait()
print("none", kfd(0x1c, "QQIIII", 0, 0, 0, 0, 0, kfd.fd), node(0x2e, "IIi", 0, 0, kfd.fd))
print("xnack", *(kfd(0x21, "i", mode) for mode in (-1, 1, -1, 0, -1)))
me = os.getpid()
debug = lambda operation, pid=me, n=0: kfd(0x26, "IIQQII", pid, operation, 0, 0, n, 64)
print("debugger", debug(13), debug(0, 1), debug(0)[4], debug(0), debug(6), done(debug(1)), debug(1))
events = kfd(0x1f, "II", GPU, 0)[1]
print("events", os.write(events, struct.pack("Q", 1)), kfd(0x1f, "II", 7, 0))
try:
    os.read(events, 96)
except BlockingIOError:
    print("none yet")

signal, waited = kfd(0x08, "QIIIIII", 0, 0, 0, 1, 0, 0, 0)[5], ctypes.create_string_buffer(48)
def wait(age):
    struct.pack_into("=Q32xII", waited, 0, age, signal, 0)
    return kfd(0x0c, "QIIII", ctypes.addressof(waited), 1, 0, 1, 0)[4], struct.unpack_from("=Q", waited)[0]
kfd(0x0a, "II", signal, 0)
print("ages", {wait(1) for _ in range(100)}, wait(2))

class Queue:
    # put: type, dimensions, items of a workgroup, of the grid, bytes of LDS, kernel
    def __init__(self):
        self.ring, self.area = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(4096)
        self.write, self.read, self.error = (ctypes.c_uint64(0) for _ in range(3))
        struct.pack_into("24xQII", self.area, 0, ctypes.addressof(self.error), 0, 0)
        ring, write, read, area = map(ctypes.addressof, (self.ring, self.write, self.read, self.area))
        self.id = kfd(0x02, "QQQQIIIIIIQQQII", ring, write, read, 0, 4096, GPU, 2, 100, 7, 0, 0, 0, area, 4096, 0)[9]
    def put(self, kind, dimensions, group, grid, lds, kernel):
        struct.pack_into("HHHHHHIIIIIQQQQ", self.ring, 0, kind, dimensions, group, 1, 1, 0, grid, 1, 1, 0, lds, kernel, 0, 0, 0)
        self.write.value = 1
    def end(self):
        kfd(0x03, "II", self.id, 0)

def exception(*packet):
    queue, until = Queue(), time.monotonic() + 30
    queue.put(*packet)
    while not queue.error.value and time.monotonic() < until:
        time.sleep(0.001)
    queue.end()
    return queue.error.value.bit_length()

NOWHERE = 0x7ead0040
print("exceptions", exception(2, 4, 1, 1, 0, NOWHERE), exception(2, 1, 1, 0, 0, NOWHERE), exception(2, 1, 1, 1, 65537, NOWHERE), exception(2, 1, 1, 1, 0, 0),
      exception(255, 1, 1, 1, 0, NOWHERE), exception(2, 1, 1025, 1, 0, NOWHERE))
one = Queue()
print("masks", *(done(kfd(0x1a, "IIQ", one.id + more, bits, 0)) for more, bits in ((0, 64), (0, 0), (0, 33), (1, 64))), kfd(0x21, "i", 1))
one.put(2, 1, 1, 1, 0, NOWHERE)
select.select([events], [], [], 30)
print("fault", os.read(events, 96).decode() == f"1 {me:x}:{sys.executable.split('/')[-1]:.15}\\n", done(debug(0)), debug(13)[4], done(debug(1)))
one.end()
print("refused", *(kfd(number, "Q", 0) for number in (0x0d, 0x1b, 0x22, 0x27, 0x85)))
"""
ANSWERS = """version 1 18
dma-buf True True
va 1 done
va 1 EINVAL
va 2 done
va 2 EINVAL
va 1 EINVAL
va 1 done
closed ENOENT EINVAL
child True b'mark' True True b'hello' True
none EINVAL EINVAL
xnack (0,) (1,) (1,) (0,) (0,)
debugger EINVAL ESRCH 16 EINVAL EACCES done EINVAL
events 8 EINVAL
none yet
ages {(0, 2)} (1, 2)
exceptions 16 16 17 18 20 21
masks done EINVAL EINVAL EINVAL EBUSY
fault True done 1 done
refused EPERM EINVAL EACCES EINVAL EINVAL
"""


def test_door(t, p):
    """Also memory that was freed here, and that a child takes by a dma-buf which it has."""
    done = subprocess.run([sys.executable, "-c", DOOR], capture_output=True, text=True, timeout=60, env=p.environment(OPEN))
    t.same(done.stdout.splitlines(), ANSWERS.splitlines(), "dma-bufs, objects of a render node, XNACK, a debugger's order, events")
    t.same(done.stderr, "", "without a complaint")
    plain = "import errno, fcntl, os, struct\ntry: fcntl.ioctl(os.open('/dev/kfd', os.O_RDWR), 0xc0044b21, bytearray(struct.pack('i', 1)))\n" \
            "except OSError as e: print(errno.errorcode[e.errno])"
    done = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True, timeout=60, env=p.environment("gpu gfx90a; gpu gfx1030"))
    t.same(done.stdout, "EPERM\n", "no XNACK where one GPU cannot")


# --- in the emulated machine ---

SCENARIO = "gpu 0000:03:00.0\n    part gfx90a\n    vram total 8G\n    name Test card\nkfd\n    {}\n"
# Starts the program, waits until the GPU is busy with what hangs, looks, ends it, and looks again.
LOOK = """
import os, subprocess, sys, time
program = subprocess.Popen([{program!r}, "series", "5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
busy = "/sys/bus/pci/devices/0000:03:00.0/gpu_busy_percent"
until = time.monotonic() + 60
while open(busy).read() != "100\\n" and time.monotonic() < until: time.sleep(0.02)
def show(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    print("===", " ".join(command[1:]), done.returncode); print(done.stdout)
processes = "/sys/class/kfd/kfd/proc"
print("pid", program.pid, os.listdir(processes), sorted(os.listdir(f"{{processes}}/{{program.pid}}/queues")))
show("unhang"); show("unhang", "queues")
program.kill(); program.wait()
while os.listdir(processes) and time.monotonic() < until: time.sleep(0.02)
print("after", os.listdir(processes), open(busy).read()); show("unhang")
"""


def test_live_hang(t, p):
    scenario = p.unhang.write("hang.scenario", SCENARIO.format("hang kernel saxpy launch 3"))
    script = p.unhang.write("look.py", LOOK.format(program=str(p.program)))
    done = p.unhang.run("emulate", scenario, "--", sys.executable, script, timeout=120)
    out = done.stdout.decode()
    pid = re.search(r"^pid (\d+) \['(\d+)'\] \['0', '1'\]", out, re.M)
    t.ok(pid and pid[1] == pid[2], "sysfs lists the program and its queues", out + done.stderr.decode())
    looks = out.split("=== ")
    t.ok(len(looks) == 4 and "Shaders run in an endless loop: saxpy." in looks[1] and f"programs ({pid[1] if pid else 0})" in looks[1],
         "a look names the kernel and the program", out)
    t.ok(len(looks) == 4 and re.search(r"stuck\n(?:.*\n){0,3} +packet 6 +saxpy\(float const\*, float\*, float, int\) +grid 1024,1,1 of 256,1,1\n", looks[2]),
         "its queue stands at the packet, which is named with its arguments", looks[2:3])
    t.ok("after [] 0\n" in out and " idle " in looks[-1], "when it was killed the GPU is idle", out[-1500:])
    t.ok(not re.search("write", done.stderr.decode()), "nothing was written to the machine", done.stderr.decode())


def test_live_fault(t, p):
    scenario = p.unhang.write("fault.scenario", SCENARIO.format("fault kernel fill launch 2 at 0x7f0000123000"))
    done = p.unhang.run("emulate", scenario, "--", "sh", "-c", f"{p.program} series 3; echo status $?; exec {p.unhang.binary}", timeout=120)
    out, said = done.stdout.decode(), done.stderr.decode()
    t.ok("status 134" in out and FAULT.search(said) and int(FAULT.search(said)[2], 16) == 0x7f0000123000, "the runtime tells the fault", said + out)
    t.ok(re.search(r"page fault: programs \(\d+\) read of\s+0x7f0000123000", out) and "VMID 8" in out, "so does the kernel's log of the same machine", out)


def test_machine(t, p):
    scenario = p.unhang.write("works.scenario", SCENARIO.format("slow launch 1 0"))
    done = p.unhang.run("emulate", scenario, "--", p.program, "kernels", timeout=120)
    t.same((done.returncode, done.stdout.decode()), (0, KERNELS), "a program in an emulated machine")
    wide = p.unhang.write("two.scenario", "gpu 0000:83:00.0\n    part gfx90a\n    name First card\ngpu 0000:84:00.0\n    part gfx90a\n    vram total 8G\nkfd\n")
    rows = p.unhang.run("emulate", wide, "--", p.program, "peers", "1", timeout=120).stdout.decode().splitlines()
    t.ok(len(rows) == 4 and rows[1].endswith("0000:83:00.0 First card 65520 MiB 112 CUs") and rows[2].endswith("0000:84:00.0 Instinct MI210 8192 MiB 112 CUs"),
         "its GPUs are those of the scenario", rows)
    nodes = "import os, stat; print([(stat.S_ISCHR(s.st_mode), os.major(s.st_rdev), os.minor(s.st_rdev)) for s in (os.stat('/dev/dri/card0')," \
            " os.fstat(os.open('/dev/dri/renderD128', os.O_RDWR)))])"
    done = p.unhang.run("emulate", scenario, "--", sys.executable, "-c", nodes, timeout=60)
    t.same(done.stdout.decode(), "[(True, 226, 0), (True, 226, 128)]\n", "libdrm finds its nodes by their numbers")
    done = p.unhang.run("emulate", "idle", "--", p.program, "places", timeout=60)
    t.same(done.returncode, 1, "without a block kfd there is none to use")
    wrong = p.unhang.write("wrong.scenario", SCENARIO.format("hang kernel"))
    done = p.unhang.run("emulate", "--check", wrong)
    t.ok(done.returncode == 2 and b"wrong.scenario:6: which kernel?" in done.stderr, "a wrong statement is told with its line", done.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    p = Programs(unhang)
    if not shutil.which("hipcc"):
        tap.skip_all("there is no hipcc: tools/install-packages test installs it where the distribution has it")
    alone = not tap.is_sanitized(unhang.binary)  # the library has no sanitizers: what it does alone is the same in every build
    problem = p.compile()
    if "cannot find" in problem or "No such file" in problem:
        tap.skip_all(f"hipcc cannot compile here: {problem.splitlines()[0]}")
    if not t.ok(not problem, "hipcc compiles the programs", problem):
        t.end()
    if b"libamdhip64.so.5\0" not in p.program.read_bytes():
        t.skip("programs on the emulated KFD", "this is another ROCm than 5.x, which the library is made for")
        t.end()
    if alone:
        for test in (test_launches, test_memory, test_several_gpus, test_faults, test_exceptions, test_standing, test_plans, test_door):
            test(t, p)
    if emulated.possible(unhang):
        for test in (test_live_hang, test_live_fault, test_machine):
            test(t, p)
    else:
        t.skip("programs in an emulated machine", "no FUSE or no name spaces")
    t.end()


if __name__ == "__main__":
    main()
