#!/usr/bin/env python3
"""The queues of processes that run: `unhang queues` reads them through a driver's files that we made up (a tmpfs over /sys, in a mount
namespace of our own) and through the real memory of real processes."""
import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
from tap import HERE, Tap, Unhang, skip_all

GPU_ID = 0x1234
PCI = "0000:03:00.0"
OBJECT = HERE / ".." / "docs" / "sample-kernel.co"
DESCRIPTOR = 0x5C0
FIRST, PACKETS, RING = 130, 3, 4096
WORDS = 512
SCHEMA = json.loads((HERE / ".." / "docs" / "queues.schema.json").read_text())
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


def put(path, content):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def make_gpu():
    """What sysfs says of a Navi 31."""
    real = pathlib.Path("/sys/devices/pci0000:00") / PCI
    for name, text in {"vendor": "0x1002", "device": "0x744c", "revision": "0xc8", "class": "0x030000", "subsystem_vendor": "0x1002",
                       "subsystem_device": "0x0e3b", "power/runtime_status": "active", "power_state": "D0", "gpu_busy_percent": "99",
                       "ip_discovery/die/0/num_ips": "1", "ip_discovery/die/0/GC/0/major": "11", "ip_discovery/die/0/GC/0/minor": "0",
                       "ip_discovery/die/0/GC/0/revision": "0", "ip_discovery/die/0/GC/0/hw_id": "11",
                       "ip_discovery/die/0/GC/0/num_instance": "0", "ip_discovery/die/0/GC/0/harvest": "0x0",
                       "ip_discovery/die/0/GC/0/num_base_addresses": "2", "ip_discovery/die/0/GC/0/base_addr": "0x00001260\n0x0000A000",
                       "drm/card0/dev": "226:0", "drm/renderD128/dev": "226:128"}.items():
        put(real / name, text + "\n")
    put(real / "config", bytes.fromhex("02104c74") + bytes(60))
    for link, to in {f"/sys/bus/pci/devices/{PCI}": real, "/sys/class/drm/card0": real / "drm/card0",
                     "/sys/class/drm/renderD128": real / "drm/renderD128", str(real / "drm/card0/device"): real,
                     str(real / "drm/renderD128/device"): real, str(real / "driver"): pathlib.Path("/sys/bus/pci/drivers/amdgpu")}.items():
        to.mkdir(parents=True, exist_ok=True)
        pathlib.Path(link).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(to, link)
    os.symlink(real, f"/sys/bus/pci/drivers/amdgpu/{PCI}")
    node = "/sys/class/kfd/kfd/topology/nodes/1/"
    put(node + "gpu_id", f"{GPU_ID}\n")
    put(node + "name", "ip discovery\n")
    put(node + "properties", "simd_count 192\nlocation_id 768\ndomain 0\ndrm_render_minor 128\ngfx_target_version 110000\n"
        "vendor_id 4098\ndevice_id 29772\nnum_xcc 1\n")
    put("/sys/kernel/debug/dri/0/name", f"amdgpu dev={PCI} unique={PCI}\n")


def mqd(ring, size, read, write, address, aql=True):
    """The words of a compute queue's descriptor, as v11_structs.h has them."""
    words = [0] * WORDS
    words[128] = address
    words[136], words[137] = ring >> 8 & 0xFFFFFFFF, ring >> 40
    words[139], words[140] = read & 0xFFFFFFFF, read >> 32
    words[141], words[142] = write & 0xFFFFFFFF, write >> 32
    words[145] = ((size // 4).bit_length() - 2) | aql << 27
    return words


def dump(words):
    return "".join(f"    {4 * i:08x}: {' '.join(f'{w:08x}' for w in words[i:i + 8])}\n" for i in range(0, len(words), 8))


class Process:
    def __init__(self, program, *more):
        self.run = subprocess.Popen([program, OBJECT, hex(DESCRIPTOR), *more], stdout=subprocess.PIPE, text=True)
        numbers = self.run.stdout.readline().split()
        self.pid = int(numbers[0])
        self.rings, self.queue, self.signal = [int(n, 16) for n in numbers[1:3]], int(numbers[3], 16), int(numbers[4], 16)
        for number in range(2):
            for name, text in {"gpuid": GPU_ID, "size": RING, "type": 0}.items():
                put(f"/sys/class/kfd/kfd/proc/{self.pid}/queues/{number}/{name}", str(text))

    def mqds(self):
        return [mqd(self.rings[n], RING, self.queue + 256 * n + 0x80, self.queue + 256 * n + 0x38, self.pid * 4096 + 1024 * n) for n in range(2)]

    def mqds_text(self):
        queues = "".join(f"  Compute queue on device {GPU_ID:x}\n{dump(words)}" for words in reversed(self.mqds()))
        return f"Process {self.pid} PASID 0x8001:\n{queues}"

    def hqd_text(self, pipe):
        """Of queue 0."""
        words = self.mqds()[0][128:184]
        words[2], words[3] = 1, 8
        rows = "".join(f"    {0x7ea4 + 4 * i:08x}: {' '.join(f'{w:08x}' for w in words[i:i + 8])}\n" for i in range(0, 56, 8))
        return f" Inst 0,  CP Pipe {pipe}, Queue 2\n{rows}"


def ask(unhang, *arguments):
    run = unhang.run("queues", "--json", *arguments)
    try:
        document = json.loads(run.stdout)
    except ValueError:
        return None, run.stderr.decode()
    problems = [f"{list(e.absolute_path)} {e.message[:200]}" for e in map(jsonschema.exceptions.best_match, [VALIDATOR.iter_errors(document)]) if e]
    return document if not problems else None, "\n".join(problems) or run.stderr.decode()


def check_process(t, document, process, moves, pipe):
    name = "a process whose queue moves" if moves else "a process that hangs"
    t.same((document["pid"], document["process"], document["runtime"]["debug_version"]), (process.pid, "queue_process", 9), f"{name}: pid, process and version of the runtime")
    t.same([(a["pci"], a["gfx"], a["gpu_id"]) for a in document["agents"]], [(PCI, "gfx1100", GPU_ID)], f"{name}: the GPU of the process")
    first, second = document["queues"]
    t.same((first["id"], first["type"], first["ring"], first["ring_bytes"]), (0, "AQL", hex(process.rings[0]), RING), f"{name}: address and size of the ring")
    t.same((first["active"], first["place"]), (True, {"xcc": 0, "me": 1, "pipe": pipe, "queue": 2, "vmid": 8}), f"{name}: the place of the queue on the GPU")
    t.same((second["active"], second["place"]), (False, None), f"{name}: a queue that is not on the GPU")
    head = first["head"]
    t.same(head["moved"], moves, f"{name}: whether it goes on")
    t.ok(90 <= head["watched_ms"] < 9000, f"{name}: for how long it was watched", head)
    t.ok(head["type"] == "kernel_dispatch" and str(head["kernel_name"]).startswith("gather_rows("), f"{name}: the kernel", head)
    if not moves:
        t.same((first["read_index"], first["write_index"], head["packet"]), (FIRST, FIRST + PACKETS, FIRST), f"{name}: the indexes")
        t.same([(p["packet"], p["grid"][0]) for p in first["packets"]], [(FIRST + i, 64 * (i + 1)) for i in range(PACKETS)],
               f"{name}: the packets")
    t.same((second["head"]["type"], second["head"]["signals"]), ("barrier_and", [{"signal": hex(process.signal), "value": 1}]),
           f"{name}: the barrier and its signal")


def check_text(t, unhang, hung):
    text = unhang.run("queues", hung.pid).stdout.decode()
    flat = " ".join(text.split())
    for pattern in (rf"process {hung.pid}: queue_process \({hung.pid}\); 2 queues", rf"GPU {GPU_ID}: gfx1100 at {PCI}",
                    rf" 0  {PCI}  AQL +3  unknown", r"on the GPU: XCC 0, ME 1, pipe 0, queue 2, VMID 8",
                    r"it did not move in the \d+\.\d s that unhang looked; nothing else says that it hangs",
                    r"packet 130 +gather_rows\(", rf"packet 0 +barrier_and   waits for the signal at {hung.signal:#x} \(1\)"):
        t.ok(re.search(pattern, text) or re.search(pattern, flat), f"the text has {pattern}", text)


def check_user(t, unhang, hung):
    """Without the file of descriptors."""
    os.rename("/sys/kernel/debug/kfd/mqds", "/sys/kernel/debug/kfd/gone")
    document, stderr = ask(unhang, hung.pid)
    t.ok(document and len(document["queues"]) == 2 and document["queues"][0]["read_index"] is None and document["queues"][0]["problem"]
         and "mqds" in stderr, "without descriptors the queues are listed, and what is missing is said", (document, stderr))
    os.rename("/sys/kernel/debug/kfd/gone", "/sys/kernel/debug/kfd/mqds")


def inside(binary, program):
    t, unhang = Tap(), Unhang(binary)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/sys"], check=True)
    make_gpu()
    hung, busy = Process(program), Process(program, "moves")
    put("/sys/kernel/debug/kfd/mqds", hung.mqds_text() + busy.mqds_text())
    put("/sys/kernel/debug/kfd/hqds", f"Node 1, gpu_id {GPU_ID:x}:\n" + hung.hqd_text(0) + busy.hqd_text(1))
    document, stderr = ask(unhang)
    if t.ok(document, "queues of all processes are a document", stderr):
        by_pid = {d["pid"]: d for d in document["targets"]}
        t.same(sorted(by_pid), sorted([hung.pid, busy.pid]), "the processes")
        check_process(t, by_pid[hung.pid], hung, False, 0)
        check_process(t, by_pid[busy.pid], busy, True, 1)
    document, stderr = ask(unhang, hung.pid)
    if t.ok(document, "queues of one process are a document", stderr):
        check_process(t, document, hung, False, 0)
    check_text(t, unhang, hung)
    check_user(t, unhang, hung)
    run = unhang.run("queues", "--target", os.getpid())
    t.ok(run.returncode == 2 and b"does not compute" in run.stderr, "a process without queues", run.stderr)
    for p in (hung, busy):
        p.run.kill()
        p.run.wait()
    document, stderr = ask(unhang, hung.pid)
    t.ok(not document or not document["queues"] or document["queues"][0]["read_index"] is None, "a process that is gone", document)
    t.end()


def main():
    if sys.argv[1] == "--inside":
        inside(*sys.argv[2:4])
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/sys"], capture_output=True)
    if probe.returncode:
        skip_all("a mount namespace of our own is refused (root only)")
    os.execvp("unshare", ["unshare", "-m", sys.executable, __file__, "--inside", *sys.argv[1:3]])


main()
