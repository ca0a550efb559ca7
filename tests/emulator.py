#!/usr/bin/env python3
"""The emulated machine as a program sees it: its files byte by byte, what is recorded, and that nothing of it stays behind."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import tap

PCI = "0000:03:00.0"

MACHINE = f"""
scenario raw
    title A machine for tests

gpu {PCI}
    part gfx1100
    busy 42
    power 77
    interrupts 1234
    register GRBM_STATUS = 0x80003028
    register 0x9000 = 0x11111111
    register se 2 0x9000 = 0x22222222
    register me 1 pipe 2 queue 3 0x9004 = 0x33333333
    wave se 0 sh 0 cu 1 simd 2 slot 3 pc 0x7f0000001040 exec 0xff sgpr 5 0xabcd vgpr 2 0x5678
    ring gfx_0.0.0 size 1024 rptr 0x40 wptr 0x480
    packets gfx_0.0.0 at 0x40 0xc0001000 0x12
    fence gfx_0.0.0 signaled 5 emitted 9 done 7
    vram 0x100 0xdeadbeef 0x1
    iomem 0x1000 0x77
    sysfs xgmi_hive_info/xgmi_hive_id 123
    devcoredump **** AMDGPU Device Coredump ****
    devcoredump version: 1
    file amdgpu_regs_didt fails EIO
    file amdgpu_regs_pcie ones
    file amdgpu_gfxoff_status absent
    file amdgpu_sensors blocks
    file mem_busy_percent blocks 0.4

process trainer
    memory 0x700000000000 0x1234
    queue 0 gpu {PCI} ring 0x700000100000 size 4096 rptr 1 wptr 2 place 1.0.2
    vram {PCI} 1048576
    opens {PCI}

messages
    12.5 err first of $pid(trainer)
    13.5 warn second
    1000.4 err later
"""
SLIM = f"scenario slim\n    title Slim\n%s\ngpu {PCI}\n    part gfx1100\n    register GRBM_STATUS = 0x3028\n%s\n"

# Of each part as Linux 6.12 has it: gfx_target_version (kgd2kfd_probe() in kfd_device.c), the name of its node in KFD, and which sensors it has of
# those that not all have (hwmon_attributes_visible() in amdgpu_pm.c, and read_sensor() of its power controller).
CARD = "temp1 temp2 in0 freq2 power1_cap"
PARTS = {
    "gfx900": (90000, "vega10", CARD + " pwm1 power1_input"), "gfx906": (90006, "vega20", CARD + " power1_average power1_input"),
    "gfx908": (90008, "arcturus", CARD + " power1_average"), "gfx90a": (90010, "aldebaran", CARD + " power1_average"),
    "gfx942": (90402, "ip discovery", "temp2 freq2 power1_cap power1_input"), "gfx950": (90500, "ip discovery", "temp2 freq2 power1_cap power1_input"),
    "gfx1010": (100100, "navi10", CARD + " pwm1 power1_average"),
    "gfx1030": (100300, "sienna_cichlid", CARD + " pwm1 power1_average"), "gfx1100": (110000, "ip discovery", CARD + " pwm1 power1_average"),
    "gfx1101": (110001, "ip discovery", CARD + " pwm1 power1_average"), "gfx1102": (110002, "ip discovery", CARD + " pwm1 power1_average"),
    "gfx1103": (110003, "ip discovery", "temp1 in0 in1 power1_average power1_input"),
    "gfx1151": (110501, "ip discovery", "temp1 in0 in1 power1_average power1_input"),
    "gfx1200": (120000, "ip discovery", CARD + " pwm1 power1_average"), "gfx1201": (120001, "ip discovery", CARD + " pwm1 power1_average"),
}
APUS = ("gfx1103", "gfx1151")
# amdgpu_discovery.c knows the blocks of these by heart.
WITHOUT_DISCOVERY = {"gfx900", "gfx906", "gfx908", "gfx90a"}

PRELUDE = """
import ctypes, errno, fcntl, glob, json, os, select, struct, subprocess, sys, time
D = "/sys/kernel/debug/dri/0000:03:00.0/"
P = "/sys/bus/pci/devices/0000:03:00.0/"
out = {}
def opened(path, flags=os.O_RDONLY): return os.open(path if path[0] == "/" else D + path, flags)
def words(data): return list(struct.unpack(f"<{len(data) // 4}I", data))
def at(fd, offset, size=4): return words(os.pread(fd, size, offset))
def error(call, *arguments):
    try: call(*arguments)
    except OSError as problem: return errno.errorcode[problem.errno]
    return "none"
def text(path): return open(path if path[0] == "/" else D + path).read()
def query(fd, offset, count=1, size=64):
    room = ctypes.create_string_buffer(64)
    fcntl.ioctl(fd, 0x40206445, struct.pack("<QIIIIII", ctypes.addressof(room), size, 0x15, offset // 4, count, 0xffff, 0))
    return words(room.raw[:4 * count])
def regs2(fd, se=None, srbm=None, xcc=0, first=False):
    s = [int(srbm is not None), int(se is not None), 0, *(se or (0, 0, 0)), *(srbm or (0, 0, 0, 0))]
    if first: fcntl.ioctl(fd, 0xC0282000, struct.pack("10I", *s))
    else: fcntl.ioctl(fd, 0xC02C2001, struct.pack("11I", *s, xcc))
ALL = 0xffffffff
"""


class Machine:
    def __init__(self, t, unhang):
        self.t, self.unhang = t, unhang
        self.count = 0

    def scenario(self, text):
        self.count += 1
        return self.unhang.write(f"scenario{self.count}", text)

    def run(self, scenario, *command, options=(), timeout=30):
        return self.unhang.run("emulate", self.scenario(scenario), *options, "--", *command, timeout=timeout)

    def look(self, scenario, code, options=(), timeout=30):
        """What a client puts into `out`."""
        run = self.run(scenario, sys.executable, "-c", PRELUDE + code + "\nprint(json.dumps(out))", options=options, timeout=timeout)
        try:
            return json.loads(run.stdout), run
        except ValueError:
            self.t.ok(False, "a client of the machine", f"status {run.returncode}\n{run.stdout.decode()}{run.stderr.decode()[-1500:]}")
            return {}, run

    def holds(self, name, out, wanted):
        for key, value in wanted.items():
            self.t.same(out.get(key), value, f"{name}: {key}")


def test_registers(m):
    out, run = m.look(MACHINE, """
f = opened("amdgpu_regs")
out["plain"] = at(f, 0x8010)
out["several"] = at(f, 0x9000, 8)
out["bank"] = at(f, 0x9000 | 1 << 62 | 2 << 24 | 0x3ff << 34 | 0x3ff << 44)
out["broadcast"] = at(f, 0x9000 | 1 << 62 | 0x3ff << 24 | 0x3ff << 34 | 0x3ff << 44)
out["queue"] = at(f, 0x9004 | 1 << 61 | 1 << 24 | 2 << 34 | 3 << 44)
out["power gating bit"] = at(f, 0x8010 | 1 << 23)
for name, offset in (("both banks", 1 << 62 | 1 << 61), ("SE that is not", 1 << 62 | 60 << 24), ("SH that is not", 1 << 62 | 60 << 34), ("crooked", 2)):
    out[name] = error(os.pread, f, 4, offset)
out["crooked size"] = error(os.pread, f, 3, 0)
out["too long"] = error(os.pread, f, 8192, 0)
os.lseek(f, 0x9000, 0); os.read(f, 4)
out["position"] = os.lseek(f, 0, 1)
out["size"] = os.fstat(f).st_size > 0
""")
    m.holds("amdgpu_regs", out, {"plain": [0x80003028], "several": [0x11111111, 0], "bank": [0x22222222], "broadcast": [0x11111111],
                                 "queue": [0x33333333], "power gating bit": [0x80003028], "both banks": "EINVAL",
                                 "SE that is not": "EINVAL", "SH that is not": "EINVAL", "crooked": "EINVAL", "crooked size": "EINVAL",
                                 "too long": "EINVAL", "position": 0x9004, "size": True})
    m.t.same(run.stderr, b"", "what only reads ends without a word")
    out, run = m.look(MACHINE, """
f, g = opened("amdgpu_regs2", os.O_RDWR), opened("amdgpu_regs2")
regs2(f, se=(2, ALL, ALL)); out["bank"] = at(f, 0x9000)
out["other file"] = at(g, 0x9000)
regs2(f, srbm=(1, 2, 3, 0)); out["queue"] = at(f, 0x9004)
regs2(f, se=(2, ALL, ALL), first=True); out["first form"] = at(f, 0x9000)
regs2(f, se=(60, ALL, ALL)); out["SE that is not"] = error(os.pread, f, 4, 0x9000)
out["ioctl that is not"] = error(fcntl.ioctl, f, 0xC02C2002, bytes(44))
out["too long"] = error(os.pread, g, 8192, 0)
out["fails"] = error(os.pread, opened("amdgpu_regs_didt"), 4, 0)
out["ones"] = at(opened("amdgpu_regs_pcie"), 0)
out["smc"] = error(os.pread, opened("amdgpu_regs_smc"), 4, 0)
out["absent"] = error(os.open, D + "amdgpu_gfxoff_status", 0), "amdgpu_gfxoff_status" in os.listdir(D)
""")
    m.holds("amdgpu_regs2", out, {"bank": [0x22222222], "other file": [0x11111111], "queue": [0x33333333], "first form": [0x22222222],
                                  "SE that is not": "EINVAL", "ioctl that is not": "EINVAL", "too long": "EINVAL", "fails": "EIO",
                                  "ones": [0xffffffff], "smc": "ENOTSUP", "absent": ["ENOENT", False]})


def test_xccs(m):
    """Each XCC has registers of its own at addresses of its own; the number in the ioctl only chooses whose banks are meant."""
    record = m.unhang.directory / "xccs.json"
    out, _ = m.look(f"scenario xccs\n    title X\ngpu {PCI}\n    part gfx942\n    register 0x9000 = 0x1\n    register xcc 3 0x9000 = 0x3333\n"
                    "    register xcc 3 me 1 CP_HQD_VMID = 7\n    register xcc 3 GRBM_STATUS = 0x4444\n", """
f = opened("amdgpu_regs2", os.O_RDWR)
base = int(text(P + "ip_discovery/die/0/GC/3/base_addr").split()[0], 16)
fourth, vmid = (base + 0x400) * 4, (base + 0x1248) * 4
regs2(f, xcc=3); out["first"], out["fourth"], out["status"] = at(f, 0x9000), at(f, fourth), at(f, (base + 4) * 4)
regs2(f, srbm=(1, 0, 0, 0), xcc=3); out["bank"] = at(f, vmid)
regs2(f, srbm=(1, 0, 0, 0), first=True); out["first form"] = at(f, vmid)
regs2(f, srbm=(1, 0, 0, 5), xcc=3); at(f, 0x9000); regs2(f, srbm=(1, 0, 0, 7), first=True); at(f, 0x9000)
out["dies"] = os.listdir(P + "ip_discovery/die")
""", options=("--record", record))
    m.holds("XCCs", out, {"first": [1], "fourth": [0x3333], "status": [0x4444], "bank": [7], "first form": [0], "dies": ["0"]})
    reads = [r for r in map(json.loads, record.read_text().splitlines()) if r["op"] == "read" and "vmid" in r]
    m.t.same([(r["xcc"], r["vmid"]) for r in reads][-2:], [(3, 5), (0, 5)],
             "the first form of the ioctl has no XCC and leaves the VMID as it was")


def test_waves(m):
    out, _ = m.look(MACHINE, """
f = opened("amdgpu_wave")
place = (1 << 2 | 2) << 23 | 3 << 31
whole = at(f, place, 128)
out["type"], out["words"], out["pc"], out["exec"] = whole[0], len(whole), [whole[2], whole[3]], [whole[4], whole[5]]
out["part"] = at(f, place | 8, 8)
out["empty"] = at(f, (1 << 2 | 2) << 23 | 4 << 31, 8)
out["no such SE"] = at(f, place | 50 << 7, 8)
f = opened("amdgpu_gprwave", os.O_RDWR)
fcntl.ioctl(f, 0xC0242000, struct.pack("9I", 0, 0, 0, 1 << 2 | 2, 3, 0, 0, 0, 0)); out["same"] = at(f, 0, 128) == whole
fcntl.ioctl(f, 0xC0242000, struct.pack("9I", 1, 0, 0, 1 << 2 | 2, 3, 0, 0, 0, 0)); out["sgprs"] = at(f, 0, 32)
fcntl.ioctl(f, 0xC0242000, struct.pack("9I", 1, 0, 0, 1 << 2 | 2, 3, 0, 0, 0, 1)); out["vgprs"] = at(f, 0, 12)
out["behind its size"] = os.pread(f, 16, 32).hex()
g = opened("amdgpu_gpr")
place = (1 << 2 | 2) << 28 | 3 << 36
out["sgpr"], out["vgpr"] = at(g, place | 1 << 60 | 5 * 4), at(g, place | 2 * 4)
""")
    m.holds("waves", out, {"type": 3, "words": 16, "pc": [0x1040, 0x7f00], "exec": [0xff, 0], "part": [0x1040, 0x7f00], "empty": [3, 0],
                           "no such SE": [3, 0xbebebeef], "same": True, "sgprs": [0, 0, 0, 0, 0, 0xabcd, 0, 0], "vgprs": [0, 0, 0x5678],
                           "behind its size": "", "sgpr": [0xabcd], "vgpr": [0x5678]})


def test_indexed(m):
    """As umr looks for waves: through SQ_IND_INDEX, which it writes."""
    record = m.unhang.directory / "indexed.json"
    out, run = m.look(MACHINE, """
INDEX, DATA = 0x8de0, 0x8de4
f = opened("amdgpu_regs2", os.O_RDWR)
def indexed(value):
    os.pwrite(f, struct.pack("<I", value), INDEX)
    return at(f, DATA)[0]
regs2(f, se=(0, 0, 1 << 2 | 2))
out["local status"] = indexed(8 << 16)
out["pc"] = indexed(3 | 0x108 << 16)
out["sgpr"] = indexed(3 | 0x205 << 16)
regs2(f, se=(0, 0, 1 << 2 | 1))
out["idle"] = indexed(8 << 16)
""", options=("--record", record))
    m.holds("SQ_IND_INDEX", out, {"local status": 0x11, "pc": 0x1040, "sgpr": 0xabcd, "idle": 0})
    m.t.same(run.stderr.decode(), "unhang: 4 writes reached the emulated GPU\n", "writes are told at the end")
    writes = [r for r in map(json.loads, record.read_text().splitlines()) if r["op"] == "write"]
    m.t.same([(w["offset"], w["data"], w["instance"]) for w in writes[:2]], [(0x8de0, "00000800", 6), (0x8de0, "03000801", 6)],
             "each write is recorded with its bank")


SQ = """
def sq(index, data, se, value, xcc=0):
    regs2(f, se=se, xcc=xcc)
    os.pwrite(f, struct.pack("<I", value), index)
    return at(f, data)[0]
"""


def test_indexed_words(m):
    """M0 and EXEC have indexes among those of the SGPRs; an index may count up by itself."""
    out, _ = m.look(MACHINE.replace("exec 0xff", "exec 0xff m0 0x66 sgpr 6 0xef01"), SQ + """
f = opened("amdgpu_regs2", os.O_RDWR)
here = (0, 0, 1 << 2 | 2)
out["m0"], out["exec"] = (sq(0x8de0, 0x8de4, here, 3 | index << 16) for index in (0x27d, 0x27e))
out["counts"] = [sq(0x8de0, 0x8de4, here, 3 | 1 << 11 | 0x205 << 16), *at(f, 0x8de4), *at(f, 0x8de4)]
out["index"] = at(f, 0x8de0)
""")
    m.holds("SQ_IND_DATA", out, {"exec": 0xff, "m0": 0x66, "counts": [0xabcd, 0xef01, 0], "index": [3 | 1 << 11 | 0x208 << 16]})


def test_indexed_xccs(m):
    """Each XCC has an index register of its own, and its waves answer there only."""
    out, _ = m.look(f"scenario xccs\n    title X\ngpu {PCI}\n    part gfx942\n    wave xcc 5 se 1 cu 2 simd 3 slot 4 pc 0x7f0000001040\n", SQ + """
f = opened("amdgpu_regs2", os.O_RDWR)
def registers(xcc):
    base = int(text(P + f"ip_discovery/die/0/GC/{xcc}/base_addr").split()[0], 16)
    return (base + 0x378) * 4, (base + 0x379) * 4
here = (1, 0, 2)
out["busy"] = [sq(*registers(xcc), here, 8 << 16, xcc) for xcc in range(8)]
out["pc"] = sq(*registers(5), here, 1 << 13 | 3 << 4 | 4 | 0x18 << 16, 5)
out["index"] = at(f, registers(5)[0]) != at(f, registers(4)[0])
out["selected elsewhere"] = sq(*registers(5), here, 8 << 16, 4)
""")
    m.holds("SQ_IND_DATA of an XCC", out, {"busy": [0, 0, 0, 0, 0, 0x11, 0, 0], "pc": 0x1040, "index": True, "selected elsewhere": 0})


def test_halted(m):
    """SQ_CMD halts all waves of an XCC, which then stay as they are, and lets them go on."""
    moving = MACHINE.replace("pc 0x7f0000001040", "pc cycle 0.002 0x7f0000001040 0x7f0000001048")
    for part, command, status, at_word in (("gfx1100", 0x8dec, 1 << 13, 1), ("gfx1201", 0x8dec, 1 << 14, 15)):
        text = "\n".join(line for line in moving.replace("gfx1100", part).splitlines() if "register" not in line)
        out, _ = m.look(text, f"COMMAND, STATUS, WORD = {command}, {status}, {at_word}" + """
f, w = opened("amdgpu_regs2", os.O_RDWR), opened("amdgpu_gprwave", os.O_RDWR)
fcntl.ioctl(w, 0xC0242000, struct.pack("9I", 0, 0, 0, 1 << 2 | 2, 3, 0, 0, 0, 0))
def look(most):
    seen = []
    while len(seen) < most and len({s[2] for s in seen}) < 2: seen.append(at(w, 0, 128)); time.sleep(0.0015)
    return [len({s[2] for s in seen}), bool(seen[-1][WORD] & STATUS)]
def halt(yes):
    regs2(f, se=(ALL, ALL, ALL))
    os.pwrite(f, struct.pack("<I", 1 | 1 << 4 | yes << 8), COMMAND)
out["before"] = look(2000)
halt(1); out["halted"] = look(12)
halt(0); out["after"] = look(2000)
""")
        m.holds(f"SQ_CMD of {part}", out, {"before": [2, False], "halted": [1, True], "after": [2, False]})


def test_debugfs(m):
    out, _ = m.look(MACHINE, """
f = opened("amdgpu_ring_gfx_0.0.0")
out["ring size"], out["ring end"] = os.fstat(f).st_size, os.lseek(f, 0, 2)
out["positions"] = at(f, 0, 12)
out["packets"] = at(f, 12 + 0x100, 8)
out["whole"] = len(os.pread(f, 8192, 0)), len(os.pread(f, 8192, 4100)), len(os.pread(f, 8, 4108))
out["crooked"] = error(os.pread, f, 4, 2)
f = opened("amdgpu_vram")
out["vram"] = at(f, 0x100, 8)
out["vram end"] = error(os.pread, f, 4, os.fstat(f).st_size)
out["vram last"] = len(os.pread(f, 16, os.fstat(f).st_size - 4))
f = opened("amdgpu_iomem")
out["iomem"], out["no page"] = at(f, 0x1000), error(os.pread, f, 4, 0x12345000)
out["gca"] = at(opened("amdgpu_gca_config"), 0, 256)[0], len(os.pread(opened("amdgpu_gca_config"), 256, 0))
out["device"] = hex(at(opened("amdgpu_gca_config"), 29 * 4)[0]) == text(P + "device").strip()
out["gfxoff"] = at(opened("amdgpu_gfxoff"), 0)
out["name"] = text("name")
out["links"] = os.readlink("/sys/kernel/debug/dri/0"), os.readlink("/sys/kernel/debug/dri/128")
out["mode"] = oct(os.stat(D + "amdgpu_regs2").st_mode), oct(os.stat(D + "amdgpu_fence_info").st_mode)
out["mqds"], out["hqds"] = text("/sys/kernel/debug/kfd/mqds").splitlines()[:2], text("/sys/kernel/debug/kfd/hqds").splitlines()[:2]
out["firmware"] = "firmware version: 0x" in text("amdgpu_firmware_info")
pid = glob.glob("/sys/class/kfd/kfd/proc/*")[0].rsplit("/")[-1]
out["pid"] = pid
""")
    pid = out.get("pid")
    m.holds("debugfs", out, {"ring size": 4108, "ring end": 4108, "positions": [0x40, 0x80, 0x80], "packets": [0xc0001000, 0x12],
                             "whole": [4108, 8, 0], "crooked": "EINVAL", "vram": [0xdeadbeef, 1], "vram end": "ENXIO", "vram last": 4,
                             "iomem": [0x77], "no page": "EPERM", "gca": [5, 144], "device": True, "gfxoff": [0],
                             "name": f"amdgpu dev={PCI} unique={PCI}\n", "links": [PCI, PCI], "mode": ["0o100400", "0o100444"],
                             "firmware": True})
    m.t.ok(out.get("mqds", [""])[0].startswith(f"Process {pid} PASID 0x"), "kfd/mqds begins with the process", out.get("mqds"))
    m.t.ok("gpu_id" in out["hqds"][0] and out["hqds"][1] == " Inst 0,  CP Pipe 0, Queue 2", "kfd/hqds has the queue", out.get("hqds"))


def test_run_list(m):
    """MI300 has eight XCCs and no MES: a descriptor for each, and a list of what runs."""
    scenario = MACHINE.replace("part gfx1100", "part gfx942")
    out, _ = m.look("\n".join(line for line in scenario.splitlines() if not line.startswith("    register") and not line.startswith("    wave")), """
out["dumps"] = text("/sys/kernel/debug/kfd/mqds").count("    00000000: ")
out["rls"] = text("/sys/kernel/debug/kfd/rls").splitlines()[1:]
out["pasid"] = int(text(glob.glob("/sys/class/kfd/kfd/proc/*/pasid")[0]))
""")
    m.t.same(out.get("dumps"), 8, "kfd/mqds has a descriptor for each XCC")
    words = [int(word, 16) for line in out.get("rls", []) for word in line.split()[1:]]
    m.t.same([len(words), words[:1], words[16:17]], [23, [0xc00ea100], [0xc005a200]], "kfd/rls: a process and its queue")
    m.t.ok(words and words[1] & 0xffff == out["pasid"], "kfd/rls: the number of the process's memory", out)


def test_fences(m):
    record = m.unhang.directory / "fences.json"
    out, run = m.look(MACHINE, """
out["first"], out["second"] = [[line for line in text("amdgpu_fence_info").splitlines() if "Last" in line][:2] for _ in range(2)]
""", options=("--record", record))
    want = ["Last signaled fence          0x00000007", "Last emitted                 0x00000009"]
    m.holds("amdgpu_fence_info", out, {"first": want, "second": want})
    operations = [json.loads(line)["op"] for line in record.read_text().splitlines()]
    m.t.same(operations.count("complete"), 1, "that reading completed a fence is recorded once")
    m.t.same(run.stderr, b"", "it is no write")
    out, run = m.look(MACHINE, 'out["recover"] = text("amdgpu_gpu_recover")')
    m.t.same(run.stderr.decode(), "unhang: 1 read of files that act on the GPU\n", "a file that resets the GPU was read")


def test_sysfs(m):
    out, _ = m.look(MACHINE, """
out["real path"] = os.path.realpath("/sys/class/drm/card0/device")
out["same"] = len({os.path.realpath(p) for p in (P, "/sys/class/drm/card0/device", "/sys/class/drm/renderD128/device", "/sys/bus/pci/drivers/amdgpu/0000:03:00.0")})
out["driver"] = os.path.basename(os.path.realpath(P + "driver"))
for name in ("vendor", "gpu_busy_percent", "power/runtime_status", "xgmi_hive_info/xgmi_hive_id"): out[name] = text(P + name)
config = open(P + "config", "rb").read()
out["config"] = struct.unpack("<H", config[:2])[0], len(config), "0x%04x" % struct.unpack("<H", config[2:4])[0] == text(P + "device").strip()
out["power"] = text(glob.glob(P + "hwmon/hwmon*/power1_average")[0])
out["gc"] = [text(P + "ip_discovery/die/0/GC/0/" + n) for n in ("hw_id", "major", "minor", "harvest")]
out["by number"] = os.readlink(P + "ip_discovery/die/0/GC")
out["coredump"] = text("/sys/class/drm/card0/device/devcoredump/data")
out["lockdown"] = text("/sys/kernel/security/lockdown")
out["interrupts"] = [line.split()[1] for line in text("/proc/interrupts").splitlines() if "amdgpu" in line]
out["cpus"] = os.path.exists("/sys/devices/system/cpu/cpu0")
out["null"] = os.path.exists("/dev/null") and open("/dev/null", "w").write("x")
node = [n for n in glob.glob("/sys/class/kfd/kfd/topology/nodes/*") if text(n + "/gpu_id") != "0\\n"][0]
out["topology"] = "drm_render_minor 128" in text(node + "/properties"), "gfx_target_version 110000" in text(node + "/properties")
pid = glob.glob("/sys/class/kfd/kfd/proc/*")[0].rsplit("/")[-1]
out["process"] = text(f"/proc/{pid}/comm"), text(f"/sys/class/kfd/kfd/proc/{pid}/queues/0/size")
out["memory"] = at(os.open(f"/proc/{pid}/mem", os.O_RDONLY), 0x700000000000)
out["files"] = sorted(os.readlink(p) for p in glob.glob(f"/proc/{pid}/fd/*") if "dri" in os.readlink(p))
out["client"] = [line for line in text(glob.glob(f"/proc/{pid}/fdinfo/*")[0]).splitlines() if "pdev" in line]
out["journal"] = [os.listdir(p) for p in ("/var/log/journal", "/run/log/journal", "/sys/fs/pstore") if os.path.isdir(p)]
out["kfd"] = error(os.open, "/dev/kfd", os.O_RDWR)
""")
    m.t.ok(out.get("real path", "").startswith("/sys/devices/pci0000:00/") and out["real path"].endswith("/" + PCI), "the device is below its port", out)
    m.t.ok(all(not entries for entries in out.get("journal", [[1]])), "no log of the real machine", out.get("journal"))
    m.holds("sysfs", out, {"same": 1, "driver": "amdgpu", "vendor": "0x1002\n", "gpu_busy_percent": "42\n", "power/runtime_status": "active\n",
                           "xgmi_hive_info/xgmi_hive_id": "123\n", "config": [0x1002, 256, True], "power": "77000000\n",
                           "gc": ["11\n", "11\n", "0\n", "0x0\n"], "by number": "11",
                           "coredump": "**** AMDGPU Device Coredump ****\nversion: 1\n", "lockdown": "[none] integrity confidentiality\n",
                           "interrupts": ["1234"], "cpus": True, "null": 1, "topology": [True, True], "process": ["trainer\n", "4096"],
                           "memory": [0x1234], "files": ["/dev/dri/renderD128"], "client": [f"drm-pdev:\t{PCI}"], "kfd": "EPERM"})


def all_parts(more=""):
    """A machine with one GPU of each, in the order of PARTS, that differ in what they measure."""
    return "\n".join(f"gpu 0000:{3 + i:02x}:00.0\n    part {part}\n    busy {40 + i}\n    power {70 + i}\n    temperature {50 + i}\n    clock {1200 + i}\n"
                     f"    vram used {i + 1}00M\n{more}" for i, part in enumerate(PARTS))


def test_parts(m):
    out, _ = m.look(all_parts(), """
def pairs(path): return {key: int(value) for key, value in (line.split() for line in text(path).splitlines())}
nodes = "/sys/class/kfd/kfd/topology/nodes/"
def node_of(card): return next(n for n in os.listdir(nodes) if f"drm_render_minor {card + 128}\\n" in text(nodes + n + "/properties"))
out["cards"] = []
for card in range(15):
    device, node = f"/sys/class/drm/card{card}/device/", nodes + node_of(card) + "/"
    sensors = os.listdir(glob.glob(device + "hwmon/hwmon*")[0])
    out["cards"].append({"properties": pairs(node + "properties"), "name": text(node + "name").strip(),
                         "discovery": os.path.exists(device + "ip_discovery/die/0/GC/0/major"),
                         "sensors": sorted(n for n in ("temp1", "temp2", "in0", "in1", "freq2", "pwm1", "power1_cap", "power1_average", "power1_input")
                                           if n in sensors or n + "_label" in sensors),
                         "bank": pairs(node + "mem_banks/0/properties"), "used": int(text(node + "mem_banks/0/used_memory")),
                         "vram": int(text(device + "mem_info_vram_total")), "gtt": int(text(device + "mem_info_gtt_total")),
                         "links": [pairs(p) for p in sorted(glob.glob(node + "io_links/*/properties"))],
                         "peers": [pairs(p)["node_to"] for p in glob.glob(node + "p2p_links/*/properties")]})
out["cpu"] = pairs(nodes + "0/properties"), pairs(nodes + "0/mem_banks/0/properties"), len(os.listdir(nodes + "0/io_links"))
out["module"] = text("/proc/modules").split()[0] if os.path.exists("/proc/modules") else None
""")
    for number, ((part, (version, name, sensors)), card) in enumerate(zip(PARTS.items(), out.get("cards", [])), 1):
        said, apu = card["properties"], part in APUS
        m.t.same((said["gfx_target_version"], card["name"]), (version, name), f"{part}: as KFD and compilers call it")
        m.t.same(card["discovery"], part not in WITHOUT_DISCOVERY, f"{part}: ip_discovery is there where the driver has it")
        m.t.same(card["sensors"], sorted(sensors.split()), f"{part}: the sensors that the driver has")
        m.t.same((card["bank"]["heap_type"], card["bank"]["size_in_bytes"], card["used"], card["bank"]["width"] > 0),
                 (1, card["gtt" if apu else "vram"], number * 100 << 20, True), f"{part}: the memory of its node")
        m.t.same([(link["type"], link["node_from"], link["node_to"], link["weight"], link["max_bandwidth"]) for link in card["links"]],
                 [(2, number, 0, 20, 32000)], f"{part}: its link to the CPU")
        m.t.same(sorted(card["peers"]), [] if apu else [n for n, other in enumerate(PARTS, 1) if n != number and other not in APUS],
                 f"{part}: which it reaches as peers")
        m.t.same((said["mem_banks_count"], said["io_links_count"], said["p2p_links_count"], said["hive_id"]), (1, 1, len(card["peers"]), 0),
                 f"{part}: its node counts what it has")
    m.t.same(len(out.get("cards", [])), len(PARTS), "a node for each part")
    cpu, bank, links = out.get("cpu", ({}, {}, 0))
    m.t.same((cpu.get("simd_count"), cpu.get("io_links_count"), links, bank.get("heap_type")), (0, len(PARTS), len(PARTS), 0), "the node of the CPU")
    if out.get("module"):
        m.t.same(out["module"], "amdgpu", "the kernel's modules")
    else:
        m.t.skip("the kernel's modules", "the kernel here has no /proc/modules, and nothing can be added to /proc")


def test_absent(m):
    out, _ = m.look(f"gpu {PCI}\n    part gfx942\n    file hwmon/* fails ETIME\n    file hwmon/*/in0_label answers\n", """
for name in ("temp1_input", "temp2_input", "in0_label"): out[name] = error(text, P + "hwmon/hwmon2/" + name)
""")
    m.holds("a part without a file", out, {"temp1_input": "ENOENT", "temp2_input": "ETIME", "in0_label": "none"})


def test_rocm(m):
    """ROCm's own tools, of ROCm 5.2 as in Debian 12."""
    tools = [tool for tool in ("rocm_agent_enumerator", "rocm-smi") if not shutil.which(tool)]
    for tool in tools:
        m.t.skip(tool, f"no {tool} here: tools/install-packages test installs it where the distribution has it")
    if "rocm_agent_enumerator" not in tools:
        run = m.run(all_parts(), "rocm_agent_enumerator")
        m.t.same(sorted(run.stdout.decode().split()), sorted(["gfx000", *PARTS]), "rocm_agent_enumerator names every part")
    if "rocm-smi" in tools:
        return
    # rocm-smi 5.2 refuses a machine with a GPU that has no in0_label, as MI300X under Linux 6.12, and ends at a gpu_metrics that it does not
    # know: here its driver is an older one.
    run = m.run(all_parts("    file hwmon/*/in0_label answers\n    part metrics-1.3\n"), "rocm-smi", "--showid", "--showbus", "--showtemp", "--showuse", "--showpower",
                "--showmeminfo", "vram", "--showclocks", "--json", timeout=120)
    said = re.search(rb"^\{.*\}$", run.stdout, re.M)
    cards = json.loads(said[0]) if said else {}
    m.t.same(len(cards), len(PARTS), "rocm-smi sees every part")
    for i, (part, (_, _, sensors)) in enumerate(PARTS.items()):
        card = cards.get(f"card{i}", {})
        sensors = sensors.split()
        wanted = {"PCI Bus": f"0000:{3 + i:02X}:00.0", "GPU use (%)": str(40 + i), "VRAM Total Used Memory (B)": str((i + 1) * 100 << 20),
                  "Temperature (Sensor edge) (C)": f"{50 + i}.0" if "temp1" in sensors else "N/A",
                  "Temperature (Sensor junction) (C)": f"{50 + i}.0" if "temp2" in sensors else "N/A",
                  "Average Graphics Package Power (W)": f"{70 + i}.0" if "power1_average" in sensors else "N/A"}
        if "in1" not in sensors:  # whose label rocm-smi 5.2 does not know: it says `map::at` and nothing of the clock
            wanted["sclk clock speed:"] = f"({1200 + i}Mhz)"
        m.t.same({key: card.get(key) for key in wanted}, wanted, f"rocm-smi: {part}: what it measures")


def test_render(m):
    code = """
f = opened("/dev/dri/renderD128", os.O_RDWR)
begin = time.monotonic()
out["status"] = query(f, 0x8010)
out["took"] = time.monotonic() - begin
out["two"] = error(query, f, 0x8010 - 4, 2)
out["refused"] = error(query, f, 0x9000)
out["too many"] = error(query, f, 0x8010, 200)
out["bad address"] = error(fcntl.ioctl, f, 0x40206445, struct.pack("<QIIIIII", 16, 4, 0x15, 0x8010 // 4, 1, 0xffff, 0))
out["other query"] = error(fcntl.ioctl, f, 0x40206445, struct.pack("<QIIIIII", 16, 4, 0x7777, 0, 1, 0, 0))
def asked(what, sensor=0):
    room = ctypes.create_string_buffer(96)
    fcntl.ioctl(f, 0x40206445, struct.pack("<QIIIIII", ctypes.addressof(room), len(room), what, sensor, 0, 0, 0))
    return list(struct.unpack("<12Q", room.raw))
out["works"] = asked(0)[0]
out["memory"] = asked(0x19)[0:3:2] == [int(text(P + "mem_info_vram_" + n)) for n in ("total", "used")] == [asked(0x14)[0], asked(0x10)[0]]
out["gtt"] = asked(0x19)[8:11:2] == [int(text(P + "mem_info_gtt_" + n)) for n in ("total", "used")] == [asked(0x14)[2], asked(0x11)[0]]
out["load"] = asked(0x1d, 4)[0] == int(text(P + "gpu_busy_percent"))
out["sensors"] = [asked(0x1d, n)[0] > 0 for n in (1, 2, 3, 5)], error(asked, 0x1d, 9) in ("ENOTSUP", "EOPNOTSUPP")
out["client"] = struct.unpack("<iiQQQQ", fcntl.ioctl(f, 0xC0286405, bytes(40)))[1]
name = ctypes.create_string_buffer(16)
v = struct.unpack("<iii4xQQQQQQ", fcntl.ioctl(f, 0xC0406400, struct.pack("<iii4xQQQQQQ", 0, 0, 0, 16, ctypes.addressof(name), 0, 0, 0, 0)))
out["driver"] = name.value.decode(), v[0], v[3]
"""
    out, _ = m.look(SLIM % ("", ""), code)
    m.holds("the render node", out, {"status": [0x3028], "two": "EFAULT", "refused": "EFAULT", "too many": "EINVAL", "bad address": "EFAULT",
                                     "other query": "EINVAL", "driver": ["amdgpu", 3, 6], "works": 1, "memory": True, "gtt": True, "load": True,
                                     "sensors": [[True] * 4, True], "client": 1})
    for until in (0.7, 3, 12):  # a slow machine comes only when the reset is over, and is asked again
        out, _ = m.look(SLIM % ("", f"    state reset until {until} awake"), code + "\nout['then'] = at(opened('amdgpu_regs'), 0x8010)")
        if out.get("took", 0) > 0.2:
            break
    m.t.ok(out.get("status") == [0x3028] and out.get("took", 0) > 0.2 and out.get("then") == [0x3028], "in a reset the query waits until it is over", out)


def test_states(m):
    look = """
out["register"] = at(opened("amdgpu_regs"), 0x8010)
out["status"] = [text(P + "power/runtime_status"), text(P + "power_state")]
out["config"] = open(P + "config", "rb").read(4).hex()
out["busy"] = error(text, P + "gpu_busy_percent")
"""
    out, _ = m.look(SLIM % ("", "    state gfxoff"), look + "out['gfxoff'] = at(opened('amdgpu_gfxoff'), 0); out['query'] = query(opened('/dev/dri/renderD128', 2), 0x8010)")
    m.holds("gfxoff", out, {"register": [0xffffffff], "gfxoff": [1], "query": [0x3028], "busy": "none"})
    out, _ = m.look(SLIM % ("", "    state reset"), look)
    m.holds("reset", out, {"register": [0xffffffff], "busy": "EPERM"})
    out, _ = m.look(SLIM % ("", "    state off-bus"), look)
    m.holds("off the bus", out, {"register": [0xffffffff], "config": "ffffffff", "busy": "EIO"})
    record = m.unhang.directory / "wake.json"
    out, run = m.look(SLIM % ("", "    state suspended"), """
out["before"] = [text(P + "power/runtime_status"), text(P + "power_state"), text(P + "mem_info_vram_used") != ""]
out["register"] = at(opened("amdgpu_regs"), 0x8010)
out["after"] = text(P + "power/runtime_status")
""", options=("--record", record))
    m.holds("suspended", out, {"before": ["suspended\n", "D3cold\n", True], "register": [0x3028], "after": "active\n"})
    wakes = [json.loads(line) for line in record.read_text().splitlines() if '"wake"' in line]
    m.t.same([w["path"].rsplit("/")[-1] for w in wakes], ["amdgpu_regs"], "what woke it up is recorded")


def test_permissions(m):
    code = """
out["regs"], out["regs2"] = error(opened, "amdgpu_regs"), error(opened, "amdgpu_regs2")
out["write"], out["gprwave"] = error(opened, "amdgpu_regs", os.O_RDWR), error(opened, "amdgpu_gprwave")
out["sysfs"] = error(text, P + "vendor")
out["dri"] = error(os.listdir, "/sys/kernel/debug/dri")
"""
    out, _ = m.look(SLIM % ("    lockdown", ""), code + 'out["says"] = text("/sys/kernel/security/lockdown")')
    m.holds("lockdown", out, {"regs": "none", "regs2": "EPERM", "write": "EPERM", "gprwave": "EPERM", "sysfs": "none",
                              "says": "none [integrity] confidentiality\n"})
    out, _ = m.look(SLIM % ("    user", ""), code)
    m.holds("a user", out, {"regs": "EACCES", "regs2": "EACCES", "sysfs": "none", "dri": "EACCES"})
    out, _ = m.look(SLIM % ("    no-debugfs", ""), code)
    m.holds("no debugfs", out, {"regs": "ENOENT", "sysfs": "none", "dri": "ENOENT"})


def test_log(m):
    for later in ("1000.4", "1003.2", "1012.8"):  # a slow machine comes only when the record is there already, and is asked again
        out, _ = m.look(MACHINE.replace("1000.4", later), """
f = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
out["first"], out["second"] = os.read(f, 8192).decode(), os.read(f, 8192).decode()
out["then"] = error(os.read, f, 8192)
out["none yet"] = select.select([f], [], [], 0)[0] if out["then"] == "EAGAIN" else None
out["woken"] = select.select([f], [], [], 20)[0] == [f] if out["then"] == "EAGAIN" else None
out["later"] = os.read(f, 8192).decode() if out["woken"] else None
os.lseek(f, 0, os.SEEK_SET); out["again"] = os.read(f, 8192).decode() == out["first"]
os.lseek(f, 0, os.SEEK_END); out["end"] = error(os.read, f, 8192)
os.lseek(f, 0, os.SEEK_DATA); out["data"] = os.read(f, 8192).decode() == out["first"]
out["small"] = error(os.read, f, 8)
""")
        if out.get("then") == "EAGAIN" and out["none yet"] == []:
            break
    m.t.ok(out.get("first", "").startswith("3,1,12500000,-;first of ") and out["first"].strip()[-1].isdigit(), "the first record, with the number of a process", out)
    m.holds("/dev/kmsg", out, {"second": "4,2,13500000,-;second\n", "then": "EAGAIN", "none yet": [], "woken": True, "later": f"3,3,{later.replace('.', '')}00000,-;later\n",
                               "again": True, "end": "EAGAIN", "data": True, "small": "EINVAL"})


def test_blocks(m):
    out, _ = m.look(MACHINE, """
begin = time.monotonic(); text(P + "mem_busy_percent"); out["late"] = time.monotonic() - begin
mark = f"reader-{time.monotonic_ns()}"
child = subprocess.Popen([sys.executable, "-c", f"import os; os.read(os.open('{D}amdgpu_sensors', os.O_RDONLY), 4)", mark])
for _ in range(200):
    state = text(f"/proc/{child.pid}/stat").rsplit(")")[-1].split()[0]
    if state == "S" and "amdgpu_sensors" in " ".join(os.readlink(p) for p in glob.glob(f"/proc/{child.pid}/fd/*")): break
    time.sleep(0.01)
time.sleep(0.1); child.kill(); time.sleep(0.1)
out["state"] = text(f"/proc/{child.pid}/stat").rsplit(")")[-1].split()[0]
out["others go on"] = text(P + "gpu_busy_percent")
out["mark"] = mark
print(json.dumps(out)); sys.stdout.flush(); os._exit(0)
""")
    m.holds("a file that blocks", out, {"state": "D", "others go on": "42\n"})
    m.t.ok(out.get("late", 0) > 0.35, "a file that blocks for a while", out)
    m.t.ok("mark" in out and not running(out["mark"]), "its reader is gone with the machine", out)


def running(word):
    """Whether a process has this among its arguments; inside of the machine it has another number than outside."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read().split(b"\0"):
                    return True
        except OSError:
            pass
    return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def descendants(pid):
    return [one for child in children(pid) for one in (child, *descendants(child))]


def gone(pid):
    """Nobody, or a zombie that waits for whoever adopted it."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")")[-1].split()[0] in "ZX"
    except OSError:
        return True


def test_ends(m):
    t = m.t
    for command, status in ((("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137), (("no-such-command",), 2)):
        run = m.run(MACHINE, *command)
        t.same(run.returncode, status, f"{command}: exit status")
        t.same(run.stderr.count(b"\n"), int(status == 2), f"{command}: one line only where it could not be done")
    with open("/proc/mounts") as f:
        before = f.read()
    directories = set(os.listdir("/tmp"))
    for how in (signal.SIGTERM, signal.SIGKILL):
        run = subprocess.Popen([m.unhang.binary, "emulate", str(m.scenario(MACHINE)), "--", "sh", "-c", "sleep 60 & echo started; wait"],
                               stdout=subprocess.PIPE, env=m.unhang.environment)
        run.stdout.readline()
        inside = descendants(run.pid)
        t.ok(len(inside) == 6, f"{how.name}: who waits for the machine, its server, the scenario's process, the command's guard, the command and "
             "what it started run", inside)
        run.send_signal(how)
        status = run.wait(timeout=20)
        deadline = time.monotonic() + 60
        while not all(map(gone, inside)) and time.monotonic() < deadline:
            time.sleep(0.02)
        t.ok(all(map(gone, inside)), f"{how.name}: neither is left", inside)
        t.same(status, 128 + how if how == signal.SIGTERM else -how, f"{how.name}: the status")
        run.stdout.close()
    seconds = f"60.{time.monotonic_ns()}"
    m.run(MACHINE, "sh", "-c", f"sleep {seconds} >/dev/null 2>&1 & echo $!")
    t.ok(not running(seconds), "what the command left behind is ended")
    other = subprocess.Popen([m.unhang.binary, "emulate", str(m.scenario(MACHINE)), "--", "sh", "-c", f"echo started; exec sleep {seconds}"],
                             stdout=subprocess.PIPE, env=m.unhang.environment)
    other.stdout.readline()
    seen = m.run(MACHINE, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.decode()
    t.ok("sh -c" in seen and seconds not in seen, "what runs in another machine is not seen", seen)
    other.terminate()
    other.wait(timeout=20)
    other.stdout.close()
    with open("/proc/mounts") as f:
        t.same(f.read(), before, "no mount is left")
    t.same({name for name in set(os.listdir("/tmp")) - directories if "emulat" in name}, set(), "no directory is left")


def test_command(m):
    run = m.unhang.run("emulate", "--list")
    names = [line.split()[0] for line in run.stdout.decode().splitlines()]
    m.t.ok(run.returncode == 0 and "idle" in names, "--list", run.stdout)
    titles = {line.index(line.split(None, 1)[1]) for line in run.stdout.decode().splitlines()}
    m.t.same(len(titles), 1, "--list is aligned")
    listed = json.loads(m.unhang.run("emulate", "--list", "--json").stdout)
    m.t.same([s["name"] for s in listed], names, "--list --json")
    good, bad = m.scenario(MACHINE), m.scenario("scenario x\n    title X\n\ngpu 0000:03:00.0\n    part gfx1100\n    no-such-statement\n")
    run = m.unhang.run("emulate", "--check", good)
    m.t.same((run.returncode, run.stdout, run.stderr), (0, b"", b""), "--check of a good one")
    run = m.unhang.run("emulate", "--check", bad)
    m.t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1 and b":6" in run.stderr, "--check names the line", run.stderr)
    for arguments in (("no-such-scenario", "--", "true"), ("idle",), ("idle", "--"), ("idle", "true"), ("--record",), ()):
        run = m.unhang.run("emulate", *arguments)
        m.t.ok(run.returncode == 2 and run.stderr.count(b"\n") == 1, f"emulate {' '.join(arguments)}: status 2 and one line", run.stderr)
    run = m.unhang.run("emulate", "idle", "--", "unhang", "--version")
    m.t.ok(run.returncode == 0 and run.stdout.startswith(b"unhang "), "the command finds this unhang", run.stdout + run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    m = Machine(t, unhang)
    run = m.run(SLIM % ("", ""), "true")
    if run.returncode == 2 and any(word in run.stderr for word in (b"/dev/fuse", b"namespace", b"FUSE")):
        tap.skip_all(run.stderr.decode().strip())
    for test in (test_command, test_registers, test_xccs, test_waves, test_indexed, test_indexed_words, test_indexed_xccs, test_halted,
                 test_debugfs, test_run_list, test_fences, test_sysfs, test_parts, test_absent, test_rocm, test_render, test_states, test_permissions, test_log, test_blocks,
                 test_ends):
        test(m)
    t.end()


if __name__ == "__main__":
    main()
