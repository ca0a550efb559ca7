#!/usr/bin/env python3
"""GPU cores and wave dumps with their code beside them, through `unhang explain`: kernel, source line, the access with the address
of each lane, the buffer that it missed, what waves wait for; and that nothing is said that the evidence does not tell.

The kernels are compiled here, once for each architecture; llvm-objdump says where their instructions are."""
import dataclasses
import gzip
import itertools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile

import tap
from cores import Agent, Core, Memory, Object, Packet, Part, Queue, Wave

CLANG, OBJDUMP = "clang-19", "llvm-objdump-19"
PARTS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
PID, PCI = 4242, "0000:c1:00.0"
LOADED, KERNARG = 0x7f00a0000000, 0x7f3400000000
BUFFER, SIZE = 0x7f332fc00000, 0x400000
END = BUFFER + SIZE
NEIGHBOUR = END + 0x100000
NOWHERE = 0x123400000000

HEADER = """static inline float load(global const float *p, int i)
{
	float r;
	__asm volatile("global_load_dword %0, v[4:5], off" : "=v"(r) : "v"(p + i) : "v4", "v5");
	return r;
}
"""
SOURCE = """#include "k.h"
#define ONE(name, text) kernel void name(void) { __asm volatile(text); }
kernel void saxpy(global const float *x, global float *y, float a, int n)
{
	int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
	float v = load(x, i);
	__asm volatile("s_nop 1");
	if (i < n + *(constant int *)__builtin_amdgcn_implicitarg_ptr())
		y[i] = a * v;
}
kernel void spin(volatile global int *flag)
{
	while (!*flag)
		__builtin_amdgcn_s_sleep(4);
}
kernel void meet(global int *p)
{
	p[__builtin_amdgcn_workitem_id_x()] = 1;
	__builtin_amdgcn_s_barrier();
	p[64] = 2;
}
kernel void check(global const int *x)
{
	if (x[__builtin_amdgcn_workitem_id_x()] < 0)
		__builtin_trap();
}
kernel void stop(void)
{
	__asm volatile("s_trap 2");
	__asm volatile("s_nop 3");
}
ONE(g_load, "global_load_dword v9, v[4:5], off offset:16")
ONE(g_base, "global_load_dword v9, v4, s[6:7] offset:-8")
ONE(g_vcc, "global_load_dword v9, v4, vcc")
ONE(g_store, "global_store_dwordx2 v[4:5], v[8:9], off")
ONE(g_atomic, "global_atomic_add v[4:5], v9, off")
ONE(f_load, "flat_load_dword v9, v[4:5]")
ONE(s_load, "s_load_dwordx4 s[8:11], s[6:7], 0x20")
#ifdef __gfx1201__
ONE(b_load, "buffer_load_dword v9, v4, s[8:11], null offen offset:4")
#else
ONE(b_load, "buffer_load_dword v9, v4, s[8:11], 0 offen offset:4")
#endif
ONE(l_read, "ds_read_b32 v9, v4 offset:8")
ONE(two_loads, "global_load_dword v9, v[4:5], off\\n global_load_dword v10, v[6:7], off\\n s_nop 0")
ONE(mixed, "global_load_dword v9, v[4:5], off\\n ds_read_b32 v10, v8")
ONE(lost, "global_load_dword v4, v[4:5], off\\n s_nop 0")
"""


def low_high(addresses):
    return [a & 0xffffffff for a in addresses], [a >> 32 for a in addresses]


class Code:
    """The kernels for one architecture."""

    def __init__(self, gfx, directory, source=SOURCE, name="k"):
        self.gfx, self.part = gfx, Part(gfx)
        self.lanes = 32 if self.part.rdna else 64
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "k.h").write_text(HEADER)
        (directory / f"{name}.cl").write_text(source)
        self.path = directory / f"{name}.{gfx}.co"
        subprocess.run([CLANG, "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={gfx}", "-nogpulib", "-O2", "-g",
                        "-fno-discard-value-names", f"{name}.cl", "-o", self.path.name], cwd=directory, check=True)
        self.data = self.path.read_bytes()
        self.object = Object(self.data, LOADED, f"file:///build/app/{self.path.name}")
        listing = subprocess.run([OBJDUMP, "-d", "-l", "--no-show-raw-insn", self.path], capture_output=True, text=True, check=True).stdout
        self.listing, self.lines, function, place = {}, {}, None, None
        for line in listing.splitlines():
            if found := re.match(r"[0-9a-f]+ <(.*)>:", line):
                function = self.listing.setdefault(found[1], [])
            elif found := re.match(r"\s+(\S.*?)\s*// ([0-9A-F]+):", line):
                function.append((int(found[2], 16), found[1]))
                self.lines[LOADED + int(found[2], 16)] = place
            elif found := re.match(r"; /.*/([^/]+):(\d+)$", line):
                place = f"{found[1]}:{found[2]}"

    def find(self, function, pattern, after=0, skip=0):
        """(the address of the instruction that is @after behind the one that matches, its text)."""
        code = self.listing[function]
        at = [n for n, (_, text) in enumerate(code) if re.match(pattern, text)][skip] + after
        return LOADED + code[at][0], code[at][1]

    def wave(self, pc, **more):
        return Wave(pc, wave32=self.part.rdna, **more)

    def spread(self, first, step=4):
        return [first + step * lane for lane in range(self.lanes)]

    @staticmethod
    def load_registers(addresses):
        """With which the load of saxpy has these addresses."""
        return dict(zip((4, 5), low_high(addresses)))

    def core(self, waves, kernels=("saxpy",), exceptions=0, objects=None, **more):
        """Packet N runs the N-th of @kernels; its arguments are of saxpy."""
        packets = {n: Packet(self.object.symbol(k + ".kd"), (4096, 1, 1), kernarg=KERNARG) for n, k in enumerate(kernels)}
        memories = [Memory(BUFFER, SIZE), Memory(NEIGHBOUR, 0x1000), Memory(KERNARG, pieces=[(0, struct.pack("<QQfi", BUFFER, END + 64, 1.5, 1 << 20))])]
        return Core([Agent(self.gfx, 0x1234, fields={"location": 0xc100})], [Queue(waves, packets, 0x1234, exceptions=1 << 30 | exceptions)],
                    [self.object] if objects is None else objects, memories, pid=PID, **more)

    def faulting(self, addresses, behind=True):
        """A core of a wave of saxpy that was stopped by its load."""
        address = self.find("saxpy", "global_load")[0]
        pc = self.find("saxpy", "s_nop 1")[0] if behind else address
        return self.core([self.wave(pc, group=(3, 0, 0), reason="memory_violation", vgprs=self.load_registers(addresses))], exceptions=1 << 4)


class Room:
    """A directory for one case."""
    count = itertools.count()

    def __init__(self, unhang):
        self.unhang, self.path = unhang, unhang.directory / f"room{next(Room.count)}"
        self.path.mkdir()

    def pair(self, core, code=None):
        paths = [self.path / f"gpucore.{PID}", self.path / f"core.{PID}"]
        core.write_pair(*paths)
        if code:
            shutil.copy(code.path, self.path)
        return paths

    def write(self, name, content):
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def text(self, *arguments):
        """All that is said, not only what the first screen has room for."""
        run = self.unhang.run("explain", "-v", *arguments)
        return re.sub(r"\s+", " ", run.stdout.decode())


def explain(t, unhang, *arguments, name):
    a = unhang.explain(*arguments)
    if a.complaints:
        t.no_complaints(a.complaints, f"{name}: well-formed")
    return a


def dmesg(address, process="python", status="0x00801031"):
    begin = f"amdgpu {PCI}: amdgpu:"
    lines = (f"{begin} [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32771, for process {process} pid {PID} thread {process} pid {PID})",
             f"{begin}   in page starting at address 0x{address & ~0xfff:016x} from IH client 0x1b (UTCL2)",
             f"{begin} VM_L2_PROTECTION_FAULT_STATUS:{status}", f"{begin} \t Faulty UTCL2 client ID: TCP (0x8)", f"{begin} \t MORE_FAULTS: 0x1",
             f"{begin} \t WALKER_ERROR: 0x0", f"{begin} \t PERMISSION_FAULTS: 0x3", f"{begin} \t MAPPING_ERROR: 0x0", f"{begin} \t RW: 0x0")
    return "".join(f"[ 1234.{n:06}] {line}\n" for n, line in enumerate(lines))


def lane_addresses(incident, instruction=None):
    """What the dump of the accesses holds, {lane: address}, of the first or of that with this instruction."""
    for dump in incident.data.get("dumps", ()):
        if dump["group"] == "access" and instruction in (None, dump["name"]):
            return {lane: int(v, 16) for lane, v in enumerate(dump["values"]) if v is not None}
    return {}


# --- a wave that a memory violation stopped ---

def test_fault(t, room, code):
    g, unhang = code.gfx, room.unhang
    address, load = code.find("saxpy", "global_load")
    addresses = code.spread(END - 64)
    paths = room.pair(code.faulting(addresses), code)
    a = explain(t, unhang, *paths, name=g)
    i = a.first
    t.same(a.classes, ["gpu-page-fault-unmapped"], f"{g}: a wave stopped by a memory violation")
    pc = code.find("saxpy", "s_nop 1")[0]
    t.same((i.value("kernel_name"), f"{pathlib.Path(i.value('source_file') or '').name}:{i.value('source_line')}"), ("saxpy", code.lines[pc]), f"{g}: kernel and source line of the pc")
    t.same((i.value("access_instruction"), i.value("access_pc"), i.value("source")), (load, hex(address), "k.h:4"), f"{g}: the access before the pc, with the line of the inlined function")
    t.ok((i.value("access") or "").startswith("loads 4 bytes per lane from global memory at "), f"{g}: what the access does", i.value("access"))
    t.same(lane_addresses(i), dict(enumerate(addresses)), f"{g}: the address of each lane")
    t.same((i.value("effective_address"), i.value("effective_addresses"), i.value("effective_relation"), i.value("unmapped_lanes")),
           (hex(END), f"{addresses[0]:#x} to {addresses[-1]:#x}", "past", f"16-{code.lanes - 1}"), f"{g}: the lanes that ran out of their buffer")
    t.same(i.value("arguments"), f"x = {BUFFER:#x} (a buffer of 4 MiB), y = {END + 64:#x} (64 bytes past the end of the 4 MiB buffer at {BUFFER:#x}), a = 0x3fc00000, n = 1048576",
           f"{g}: the arguments with their buffers")
    gpu = i.data["gpus"][0]
    t.same((gpu["pci"], gpu["gfx"], i.data["processes"][0]["pid"]), (PCI, g, PID), f"{g}: GPU and process")
    room.write("dmesg.txt", dmesg(END))
    a = explain(t, unhang, room.path, name=f"{g} with the kernel's log")
    i = a.first
    t.same((a.classes, [e["role"] for e in i.events("page-fault")], [e["role"] for e in i.events("waves-stopped")]),
           (["gpu-page-fault-unmapped"], ["cause"], ["effect"]), f"{g}: with the kernel's log it is one incident, of which the fault is the cause")
    t.same((i.value("fault_lanes"), i.value("fault_place")), (f"16-{code.lanes - 1}", i.value("effective_place")), f"{g}: the fault is of these lanes")
    said = room.text(room.path)
    t.ok("(saxpy, k.h:4)" in said and f"The fault at {END:#x} is of this access: {load} at pc {address:#x} (k.h:4), lanes 16-{code.lanes - 1}." in said, f"{g}: the text says so", said[:1500])
    t.ok(re.search(rf"{PCI} [^.]*\b{g}\b", said), f"{g}: which GPU", said[:300])
    before, _, arguments = said.partition(" Why ")[2].partition("The kernel's arguments: ")
    t.ok("By the map of its memory, the address is" in before and before.count("4 MiB buffer") == 1 and arguments, f"{g}: and names the buffer once, and the arguments", said[:1500])


PLACES = ((BUFFER, "inside", "at the beginning of the 4 MiB buffer at 0x7f332fc00000"), (BUFFER + 0x1000, "inside", "inside the 4 MiB buffer at 0x7f332fc00000, 4 KiB from its begin"), (END, "past", "right after the end of the 4 MiB buffer at 0x7f332fc00000"),
          (END + 64, "past", "64 bytes past the end of the 4 MiB buffer at 0x7f332fc00000"), (BUFFER - 16, "before", "16 bytes before the beginning of the 4 MiB buffer at 0x7f332fc00000"),
          (NEIGHBOUR - 32, "before", f"32 bytes before the beginning of the 4 KiB buffer at {NEIGHBOUR:#x}"),
          (END + 0x1000, "past", "4 KiB past the end of the 4 MiB buffer at 0x7f332fc00000"), (0x10, "null", "close to zero: a null pointer with a small offset"), (NOWHERE, "nowhere", "nowhere near any buffer"))


def test_places(t, unhang, code):
    for address, relation, place in PLACES:
        room = Room(unhang)
        paths = room.pair(code.faulting([address] * code.lanes, behind=False), code)
        i = explain(t, unhang, *paths, name=relation).first
        t.same((i.cls, i.value("effective_address"), i.value("effective_addresses"), i.value("effective_relation"), i.value("effective_place")),
               ("gpu-null-pointer-fault" if relation == "null" else "gpu-page-fault-unmapped", hex(address), hex(address), relation, place),
               f"an address {relation} ({place})")
        said = room.text(*paths)
        first = said.split(" GPU 0000:")[0]
        t.same("--precise-memory" in said, relation == "inside", f"an address {relation}: the exact instruction is asked for where it is not known")
        ends = f": saxpy (k.h:4), {hex(address) if relation == 'null' else place}."
        t.ok(f", {place}: another access caused it" in said if relation == "inside" else first.endswith(ends), f"an address {relation}: the text says so",
             said[:1200])


def test_which_lane(t, unhang, code):
    """Of several bad lanes the one that tells most; of several accesses the one that missed; none where registers were reused."""
    room = Room(unhang)
    addresses = [NOWHERE if lane == 3 else END + 8 if lane == 7 else BUFFER + 4 * lane for lane in range(code.lanes)]
    wave = code.faulting(addresses, behind=False)
    wave.queues[0].waves[0].exec = (1 << code.lanes) - 1 & ~(1 << 5)
    i = explain(t, unhang, *room.pair(wave, code), name="lanes").first
    t.same((i.value("effective_address"), i.value("unmapped_lanes")), (hex(END + 8), "3, 7"), "just past a buffer says more than nowhere")
    t.same(lane_addresses(i), {lane: a for lane, a in enumerate(addresses) if lane != 5}, "a lane that is not active has no address")
    t.same(i.value("lanes"), f"0-4, 6-{code.lanes - 1}", "the active lanes")
    good, bad = low_high(code.spread(BUFFER)), low_high(code.spread(END))
    first, second = code.find("two_loads", "global_load")[1], code.find("two_loads", "global_load", skip=1)[1]
    pc = code.find("two_loads", "s_nop")[0]
    for culprit, registers in ((first, (*bad, *good)), (second, (*good, *bad))):
        wave = code.wave(pc, reason="memory_violation", vgprs=dict(zip(range(4, 8), registers)))
        room = Room(unhang)
        paths = room.pair(code.core([wave], ["two_loads"]), code)
        i = explain(t, unhang, *paths, name="two loads").first
        t.same((i.value("access_instruction"), i.value("effective_address")), (culprit, hex(END)), f"of two loads the one that missed: {culprit}")
        fault = room.write("dmesg.txt", dmesg(END))
        i = explain(t, unhang, *paths, fault, name="two loads").first
        t.ok(f"is of this access: {culprit} at pc" in room.text(*paths, fault), "the kernel's fault is of that one")
    room = Room(unhang)
    wave = code.wave(code.find("lost", "s_nop")[0], reason="memory_violation", vgprs=dict(zip((4, 5), bad)))
    i = explain(t, unhang, *room.pair(code.core([wave], ["lost"]), code), name="registers that were overwritten").first
    t.same((i.value("access_instruction"), i.value("effective_address")), (code.find("lost", "global_load")[1], hex(END)),
           "an address right behind a buffer is one, though the load writes over it")
    other = Room(unhang)
    wave = code.wave(code.find("lost", "s_nop")[0], reason="memory_violation", vgprs={4: [0] * code.lanes, 5: [NOWHERE >> 32] * code.lanes})
    i = explain(t, unhang, *other.pair(code.core([wave], ["lost"]), code), name="registers that were overwritten").first
    t.same((i.value("access_instruction"), i.value("effective_address"), i.value("effective_place")),
           (code.find("lost", "global_load")[1], None, None), "registers that the load itself overwrote give no address")
    t.ok("its address is unknown" in other.text(other.path), "the text says why")
    load, pc = code.find("lost", "global_load")[1], code.find("lost", "global_load")[0]
    room.write("dmesg.txt", dmesg(END))
    said = room.text(room.path)
    t.ok(f"is probably of this access: {load} at pc {pc:#x} ({code.lines[pc]}), lanes 0-{code.lanes - 1}, whose registers" in said, "a fault whose address they still hold is probably of it", said[:1200])
    room.write("dmesg.txt", dmesg(NOWHERE))
    said = room.text(room.path)
    t.ok("of this access" not in said, "a fault elsewhere is not laid to it", said[:1200])


def test_which_wave(t, unhang, code):
    """The kernel's fault is laid to the wave that made it, not to another that stopped or waited."""
    room = Room(unhang)
    good = code.load_registers(code.spread(BUFFER))
    many = [code.wave(code.object.symbol("g_store"), group=(n, 0, 0), packet=1, reason="memory_violation", vgprs=good) for n in range(6)]
    core = code.faulting(code.spread(END))
    core.queues[0].waves += many
    core.queues[0].packets[1] = Packet(code.object.symbol("g_store.kd"))
    room.pair(core, code)
    room.write("dmesg.txt", dmesg(END))
    said = room.text(room.path)
    t.ok(said.startswith("A shader of python (4242) (saxpy, k.h:4) used unmapped memory") and f"x = {BUFFER:#x} (a buffer of 4 MiB)" in said, "of several kernels that stopped the one that made the fault", said[:600])
    room = Room(unhang)
    room.pair(code.core([code.wave(code.find("spin", "s_sleep")[0])], ["spin"]), code)
    room.write("dmesg.txt", dmesg(END))
    said = room.text(room.path)
    t.ok(said.startswith("A shader of python (4242) used unmapped memory") and "The kernel's arguments" not in said, "a kernel that waits is not the one that made the fault", said[:600])


def test_two_processes(t, unhang, code):
    room = Room(unhang)
    for pid, kernel in ((4242, "g_load"), (777, "g_store")):
        core = code.core([code.wave(code.object.symbol(kernel), reason="memory_violation", vgprs=code.load_registers(code.spread(NOWHERE + pid * 0x1000)))], [kernel])
        core.pid = pid
        core.write_pair(room.path / f"gpucore.{pid}", room.path / f"core.{pid}")
    a = explain(t, unhang, room.path, name="two processes")
    found = {(i.value("pid", e["id"]), i.value("kernel_name", e["id"])) for i in a.incidents for e in i.events("waves-stopped")}
    t.same(found, {(4242, "g_load"), (777, "g_store")}, "the cores of two processes are each read with their own")


def test_order(t, unhang, code):
    room = Room(unhang)
    paths = room.pair(code.faulting(code.spread(END - 64)), code) + [room.write("dmesg.txt", dmesg(END)), room.path / code.path.name]
    answers = {unhang.run("explain", "--json", *order).stdout for order in itertools.permutations(paths)}
    t.same(len(answers), 1, "the order of the files does not matter")
    last = paths[1].rename(room.path / "python.core")
    said = unhang.run("explain", paths[0], last)
    t.ok(said.returncode == 1 and b"saxpy" in said.stdout, "a process's core that comes behind its GPU's", said)


# --- kinds of access ---

def test_accesses(t, unhang, code):
    low, high = low_high(code.spread(END))
    pair = {4: low, 5: high}
    offsets = {4: code.spread(0x100, 8)}
    base = {6: BUFFER & 0xffffffff, 7: BUFFER >> 32}
    descriptor = {8: BUFFER & 0xffffffff, 9: BUFFER >> 32, 10: 0x40000000, 11: 0x27000}
    cases = (("g_load", dict(vgprs=pair), [END + 16 + 4 * n for n in range(code.lanes)], "loads 4 bytes per lane from global memory"),
             ("g_base", dict(vgprs=offsets, sgprs=base), [BUFFER + 0x100 - 8 + 8 * n for n in range(code.lanes)], "loads 4 bytes per lane from global memory"),
             ("g_vcc", dict(vgprs=offsets, vcc=BUFFER), [BUFFER + 0x100 + 8 * n for n in range(code.lanes)], "loads 4 bytes per lane from global memory"),
             ("g_store", dict(vgprs=pair), code.spread(END), "stores 8 bytes per lane to global memory"),
             ("g_atomic", dict(vgprs=pair), code.spread(END), "atomic"),
             ("f_load", dict(vgprs=pair), code.spread(END), "loads 4 bytes per lane from memory"),
             ("s_load", dict(sgprs=base), [BUFFER + 0x20], "loads 16 bytes"),
             ("b_load", dict(vgprs=offsets, sgprs=descriptor), [BUFFER + 0x104 + 8 * n for n in range(code.lanes)], "loads 4 bytes per lane"))
    for kernel, registers, addresses, words in cases:
        room = Room(unhang)
        i = explain(t, unhang, *room.pair(code.core([code.wave(code.object.symbol(kernel), reason="memory_violation", **registers)], [kernel]), code), name=kernel).first
        t.same((list(lane_addresses(i).values()), i.value("instruction")), (addresses, code.listing[kernel][0][1]), f"{code.gfx}: addresses of {code.listing[kernel][0][1]}")
        span = hex(addresses[0]) if len(addresses) == 1 else f"{addresses[0]:#x} to {addresses[-1]:#x}"
        t.ok(i.value("effective_addresses") == span and words in (i.value("access") or ""), f"{code.gfx}: {kernel}: {words}", f"{i.value('effective_addresses')}; {i.value('access')}")


def test_apertures(t, unhang, code):
    """Lanes of a flat access may be in LDS or scratch, which no map has."""
    for inside, lanes in ((2, f"2-{code.lanes - 1}"), (code.lanes, None)):
        addresses = [(1 + n % 2 << 48) + 4 * n if n < inside else END + 4 * n for n in range(code.lanes)]
        low, high = low_high(addresses)
        wave = code.wave(code.object.symbol("f_load"), reason="memory_violation", vgprs={4: low, 5: high})
        i = explain(t, unhang, *Room(unhang).pair(code.core([wave], ["f_load"]), code), name="apertures").first
        t.same(i.value("unmapped_lanes"), lanes, f"{code.gfx}: {inside} lanes of a flat access in LDS and scratch")


def test_bounded(t, unhang, code):
    """Lanes outside of a buffer's descriptor access nothing."""
    room = Room(unhang)
    descriptor = {8: END - 0x200 & 0xffffffff, 9: END - 0x200 >> 32, 10: 0x210, 11: 0x27000}
    wave = code.wave(code.object.symbol("b_load"), reason="memory_violation", vgprs={4: code.spread(0x1f8, 4)}, sgprs=descriptor)
    i = explain(t, unhang, *room.pair(code.core([wave], ["b_load"]), code), name="descriptor").first
    t.same((i.value("effective_address"), i.value("unmapped_lanes")), (hex(END), "1-4"), f"{code.gfx}: lanes outside of the buffer's descriptor access nothing")
    wave.vgprs = {4: code.spread(0x1000)}
    said = room.text(*room.pair(code.core([wave], ["b_load"]), code))
    t.ok("outside: lanes" not in said and "past the end" not in said.split(" 0000:")[0], f"{code.gfx}: nor does a load of which all lanes are outside", said[:1200])


def test_lds(t, unhang, code):
    room = Room(unhang)
    wave = code.wave(code.object.symbol("l_read"), reason="address_error", vgprs={4: code.spread(0x10000, 8)}, lds=b"\1" * 512)
    paths = room.pair(code.core([wave], ["l_read"]), code)
    i = explain(t, unhang, *paths, name="LDS").first
    t.same((i.cls, i.value("effective_addresses")), ("memory-aperture-violation", f"0x10008 to {0x10008 + 8 * (code.lanes - 1):#x}"), f"{code.gfx}: an address of LDS is an offset")
    t.ok("LDS" in (i.value("access") or "") and i.value("effective_place") == "past the 512 bytes of LDS that its workgroup has", f"{code.gfx}: which is held against the LDS of its workgroup", i.value("effective_place"))
    wave = code.wave(code.find("mixed", "ds_")[0], reason="memory_violation", vgprs={**code.load_registers(code.spread(BUFFER)), 8: 0}, lds=b"\1" * 512)
    i = explain(t, unhang, *Room(unhang).pair(code.core([wave], ["mixed"]), code), name="LDS behind a load").first
    t.same(i.value("access_instruction"), code.find("mixed", "global_load")[1], f"{code.gfx}: an access of LDS does not hide the load before it")
    room.write("dmesg.txt", dmesg(0x10000))
    t.same(explain(t, unhang, room.path, name="LDS").first.value("fault_lanes"), None, f"{code.gfx}: and not against addresses of faults")


# --- other reasons ---

def test_trap_line(t, unhang, code):
    trap, behind = code.find("stop", "s_trap 2")[0], code.find("stop", "s_trap 2", 1)[0]
    i = explain(t, unhang, *Room(unhang).pair(code.core([code.wave(behind, reason="assert_trap")], ["stop"]), code), name="trap").first
    t.ok(i.value("source") == code.lines[trap] != code.lines[behind], "the line of a wave behind its trap is the trap's", i.value("source"))


def test_trap(t, unhang, code):
    pcs = {code.find("check", "s_trap 2", n)[0] for n in (0, 1)}
    for pc in sorted(pcs):
        room = Room(unhang)
        paths = room.pair(code.core([code.wave(pc, reason="assert_trap")], ["check"], 1 << 1), code)
        a = explain(t, unhang, *paths, name="trap")
        i = a.first
        behind = pc != min(pcs)
        t.same((a.classes, i.value("kernel_name"), i.value("instruction")), (["hsa-queue-exception"], "check", "s_trap 2"), f"{code.gfx}: an assertion, with the pc {'behind' if behind else 'at'} its trap")
        t.same(i.value("source"), code.lines[min(pcs)], f"{code.gfx}: the line is the trap's")
        said = room.text(*paths)
        t.ok("An assertion in a GPU kernel failed: check (k.cl:" in said and "hit an instruction" not in said, f"{code.gfx}: the text says so", said[:800])
        t.ok("pc stands" not in said, f"{code.gfx}: no word on the pc where the trap is shown", said[:1500])


def stomp(core, address, data):
    """The core's code objects with other bytes in memory than in their files."""
    for memory in core.memories:
        if memory.address == LOADED:
            memory.pieces.append((address - LOADED, data))


def test_stomped(t, unhang, code):
    pc = code.find("saxpy", "global_load")[0]
    core = code.core([code.wave(pc, reason="illegal_instruction")], exceptions=1 << 3)
    mapped = list(code.object.memories())
    core.objects = [dataclasses.replace(code.object, mapped=False)]
    core.memories += mapped
    stomp(core, pc, b"\xff" * 12)
    room = Room(unhang)
    paths = room.pair(core, code)
    a = explain(t, unhang, *paths, name="stomped")
    i = a.first
    t.same((a.classes, [e["role"] for e in i.events("code-overwritten")]), (["illegal-opcode-or-instruction"], ["cause"]), "code that was overwritten is the cause of its illegal instruction")
    t.same((i.value("overwritten_at"), i.value("found"), i.value("kernel_name")), (hex(pc), "0xffffffff", "saxpy"), "where it begins, and in which kernel")
    t.ok(8 <= (i.value("overwritten_bytes") or 0) <= 12, "how many bytes were overwritten is told", i.value("overwritten_bytes"))
    t.same(i.value("instruction"), f".long 0xffffffff (in its file: {code.find('saxpy', 'global_load')[1]})", "what the wave ran is what is in memory")
    said = room.text(*paths)
    t.ok(said.startswith("The code of a GPU kernel was overwritten in the GPU's memory: saxpy"), "the first line says so", said[:300])
    core.memories[-1].pieces.pop()
    a = explain(t, unhang, *Room(unhang).pair(core, None), "--code", code.path, name="illegal")
    t.same((a.classes, a.first.events("code-overwritten"), a.first.value("instruction")), (["illegal-opcode-or-instruction"], [], code.find("saxpy", "global_load")[1]), "an illegal instruction in code that is as in its file")


def test_aperture(t, unhang, code):
    room = Room(unhang)
    address = code.find("saxpy", "global_load")[0]
    wave = code.wave(address, reason="address_error", vgprs=code.load_registers(code.spread(0x8000deadbeef0000)))
    a = explain(t, unhang, *room.pair(code.core([wave], exceptions=1 << 5), code), name="aperture")
    t.same((a.classes, a.first.value("source"), a.first.value("effective_address")), (["memory-aperture-violation"], "k.h:4", "0x8000deadbeef0000"), "an aperture violation, with its address")


def test_lone(t, unhang, code):
    core = code.faulting(code.spread(END))
    room = Room(unhang)
    gpu, host = room.pair(core, code)
    host.unlink()
    a = explain(t, unhang, gpu, name="lone")
    i = a.first
    t.same((a.classes, [e["event"] for e in i.timeline if e["role"] == "cause"]), (["gpu-page-fault-unmapped"], ["queue-error"]), "a lone gpucore: the error of its queue")
    notes = " ".join(n["text"] for n in a.document["notes"])
    t.ok("lacks the memory of its process" in notes and len(a.document["notes"]) == 1, "it says once that the waves are missing, and how to get them", notes)
    said = room.text(gpu)
    t.ok("This evidence does not say which wave." in said and f"unhang explain gpucore.{PID} core.{PID}" in said and "pc 0x" not in said, "nothing of waves that are not there", said[:1500])
    core.queues[0].packets[1] = Packet(code.object.symbol("spin.kd"))
    gpu, host = room.pair(core, code)
    host.unlink()
    a = explain(t, unhang, gpu, name="lone, two packets")
    t.same(a.first.value("kernel_name"), None, "with two kernels in flight none is named")
    t.ok("saxpy" not in room.text(gpu) and "spin" not in room.text(gpu), "nor in the text")


def test_waiting(t, unhang, code):
    room = Room(unhang)
    polling, barrier = code.find("spin", "s_sleep")[0], code.find("meet", r"s_barrier(_wait)?\b")[0]
    arrived = code.find("meet", r"s_barrier(_wait)?\b", 1)[0]
    waitcnt = code.find("check", r"s_wait(cnt vmcnt|_loadcnt)")[0]
    spin = [code.wave(polling, group=(n, 0, 0), packet=0) for n in range(5)]
    meet = [code.wave(arrived, group=(9, 0, 0), wave_in_group=n, packet=1, status=1 << 12 if code.part.major < 12 else 0) for n in range(3)]
    meet += [code.wave(barrier, group=(10, 0, 0), wave_in_group=n, packet=1) for n in range(2)]
    load = [code.wave(waitcnt, group=(11, 0, 0), packet=2)]
    paths = room.pair(code.core(spin + meet + load, ["spin", "meet", "check"]), code)
    a = explain(t, unhang, *paths, name="waiting")
    i = a.first
    waits = {(i.value("kernel_name", e["id"]), i.value("pc", e["id"])): i.value("waits_for", e["id"]) or "" for e in i.events("waves-waiting")}
    t.same(a.classes, ["silent-hang"], f"{code.gfx}: waves that only wait")
    t.ok("change a value in memory" in waits.get(("spin", hex(polling)), ""), f"{code.gfx}: a polling loop", waits)
    t.ok("barrier" in waits.get(("meet", hex(barrier)), "") and "barrier" in waits.get(("meet", hex(arrived)), ""), f"{code.gfx}: a barrier, by the instruction at or before the pc", waits)
    t.ok("vector memory" in waits.get(("check", hex(waitcnt)), ""), f"{code.gfx}: loads that are under way", waits)
    said = room.text(*paths)
    t.ok(said.startswith("Waves of a GPU kernel were waiting when the core was written: spin (k.cl:") and "cannot tell a hang from work" in said, f"{code.gfx}: the text does not claim more", said[:1200])
    if code.part.major < 12:
        marked = code.core([code.wave(code.object.symbol("saxpy"), status=1 << 12, wave_in_group=n) for n in range(2)])
        i = explain(t, unhang, *Room(unhang).pair(marked, code), name="in a barrier by its status").first
        t.ok("barrier" in (i.value("waits_for") or ""), f"{code.gfx}: a barrier, by the wave's own status", i.value("waits_for"))
    running = code.core([code.wave(code.object.symbol("saxpy"))])
    a = explain(t, unhang, *Room(unhang).pair(running, code), name="running")
    t.ok(a.classes == ["silent-hang"] and a.first.value("waits_for") is None, f"{code.gfx}: a wave that computes waits for nothing", a.classes)


def test_healthy(t, unhang, code):
    core = code.core([])
    core.queues[0].packets, core.queues[0].read, core.queues[0].write = {}, 7, 7
    for name, paths in (("a pair", Room(unhang).pair(core, code)), ("a lone one", Room(unhang).pair(core, code)[:1])):
        a = explain(t, unhang, *paths, name=name)
        t.same((a.classes, a.status), ([], 0), f"an idle GPU's core is no incident: {name}")
    room = Room(unhang)
    said = room.text(*room.pair(core, code))
    t.ok("No AMD GPU incident found" in said and "the GPU was idle" in said and "kernel log" not in said, "the text says so", said)
    said = room.text(room.path / f"gpucore.{PID}")
    t.ok("idle" not in said and "lacks the memory of its process" in said, "a lone one says no more than it knows", said)
    run = unhang.run("explain", room.path / f"core.{PID}")
    t.ok(run.returncode == 0 and b"core of a process, without its GPU state" in run.stdout, "a lone core of a process says what to give beside it", run.stdout.decode())


# --- which file of code ---

def test_code_files(t, unhang, code):
    core = code.faulting(code.spread(END))
    known = ("saxpy", "k.h:4")

    def found(paths, name):
        i = explain(t, unhang, *paths, name=name).first
        return i.value("kernel_name"), i.value("source")
    t.same(found(Room(unhang).pair(core), "no file"), ("saxpy", None), "without its file code has no lines, but the core's memory names the kernel")
    t.same(found(Room(unhang).pair(core) + ["--code", code.path.parent], "--code"), known, "a directory given with --code")
    t.same(found(Room(unhang).pair(core) + [code.path], "together"), known, "the file together with the cores")
    renamed = Room(unhang).write("other-name", code.data)
    t.same(found(Room(unhang).pair(core) + ["--code", renamed], "renamed"), known, "a renamed file that is given with --code")
    core.objects = [dataclasses.replace(code.object, uri=f"file://{code.path}")]
    t.same(found(Room(unhang).pair(core), "path"), known, "the file where it was loaded from")
    if os.geteuid() == 0:
        unhang.environment |= {"SUDO_UID": "65534", "SUDO_GID": "65534"}
        t.same(found(Room(unhang).pair(core), "sudo"), ("saxpy", None), "not where the user who called may not read it")
        for name in ("SUDO_UID", "SUDO_GID"):
            del unhang.environment[name]
    core.objects = [dataclasses.replace(code.object, memory=0x7e0000000000)]
    t.same(found(Room(unhang).pair(core), "memory"), known, "the file in the process's memory")
    core.objects = [code.object]
    other = Code(code.gfx, unhang.directory / "other", SOURCE.replace("kernel void spin", "\n\nkernel void more(global int *p) { p[0] = 7; }\nkernel void spin"))
    room = Room(unhang)
    paths = room.pair(core, other)
    i = explain(t, unhang, *paths, name="another build").first
    notes = " ".join(n["text"] for n in unhang.explain(*paths).document["notes"])
    t.same((i.value("kernel_name"), i.value("source"), i.events("code-overwritten")), ("saxpy", None, []), "a file of another build is not used")
    t.ok("another build" in notes, "an object of another build is told", notes)


def test_no_disassembler(t, unhang, code):
    room = Room(unhang)
    paths = room.pair(code.faulting(code.spread(END)), code)
    unhang.environment["UNHANG_DISASSEMBLER"] = "none"
    a = explain(t, unhang, *paths, name="no disassembler")
    said = room.text(*paths)
    del unhang.environment["UNHANG_DISASSEMBLER"]
    i = a.first
    t.same((i.cls, i.value("kernel_name"), i.value("source"), i.value("instruction")), ("gpu-page-fault-unmapped", "saxpy", code.lines[code.find("saxpy", "s_nop 1")[0]], None), "without a disassembler: kernel and line")
    t.ok("No instructions are shown" in said, "and a word on what is missing", said[-600:])


# --- the debug agent ---

def agent_dump(code, pc, text, uri, registers, reason="MEMORY_VIOLATION", function="saxpy"):
    """What rocm-debug-agent prints of one wave."""
    out = [f"wave_1: pc=0x{pc:x} (kernel_code_entry=0x{code.object.symbol(function):x} <{function}>) (stopped, reason: {reason})", "", "system registers:",
           f"            m0: 00000000        status: 00012461           exec: {(1 << code.lanes) - 1:0{code.lanes // 4}x}            vcc: {BUFFER & (1 << code.lanes) - 1:0{code.lanes // 4}x}", "scalar registers:",
           "            s0: 30000000           s1: 00007f33", "vector registers:"]
    out += [f"            v{n}: " + " ".join(f"[{lane}] {value:08x}" for lane, value in enumerate(values)) for n, values in registers.items()]
    out += ["", f"Disassembly for function {function}:", f"    code object: {uri}", f"    loaded at: [0x{LOADED:x}-0x{LOADED + 0x4000:x}]", "",
            f" => 0x{pc:x} <+{pc - code.object.symbol(function)}>:    {text}", "", "End of disassembly.", ""]
    return "--------------------------------------------------------\n" + "\n".join(out)


def test_agent(t, unhang, code):
    g = code.gfx
    address, load = code.find("saxpy", "global_load")
    pc, text = code.find("saxpy", "s_nop 1")
    registers = code.load_registers(code.spread(END - 64))
    uri = f"file:///build/app/libk.so#offset=4096&size={len(code.data)}"
    dump = agent_dump(code, pc, text, uri, registers)
    saved = re.sub(r"[:/#?&=]", "_", uri)
    known = ("saxpy", "k.h:4", load, hex(address), hex(END - 64), f"{END - 64:#x} to {END - 64 + 4 * (code.lanes - 1):#x}")

    def found(paths, name):
        i = explain(t, unhang, *paths, name=name).first
        return tuple(i.value(v) for v in ("kernel_name", "source", "access_instruction", "access_pc", "effective_address", "effective_addresses"))
    room = Room(unhang)
    log = room.write("agent.log", dump)
    t.same(found([log], "agent alone"), ("saxpy", None, None, None, None, None), f"{g}: a dump alone")
    t.same(found([log, "--code", code.path], "agent --code"), known, f"{g}: a dump with --code")
    t.same(found([log, code.path], "agent together"), known, f"{g}: a dump and its code given together")
    t.same(found([code.path, log], "agent together"), known, f"{g}: in the other order")
    fault = room.write("dmesg.txt", dmesg(END))
    i = explain(t, unhang, log, fault, "--code", code.path, name="agent and kernel").first
    t.same((i.value("fault_lanes"), i.data["cause"]["class"]), (f"16-{code.lanes - 1}", "gpu-page-fault-unmapped"), f"{g}: the kernel's fault is of these lanes of the dump")
    room.write(f"code/{saved}", code.data)
    t.same(found([log, "--code", room.path / "code"], "agent directory"), known, f"{g}: a dump with a directory of saved objects")
    shutil.move(room.path / "code" / saved, room.path / saved)
    t.same(found([log], "agent beside"), known, f"{g}: with the saved object beside it")
    (room.path / saved).unlink()
    library = room.write("app/libk.so", b"\0" * 4096 + code.data)
    other = room.write("path.log", dump.replace("file:///build/app/libk.so", f"file://{library}"))
    t.same(found([other], "agent path"), known, f"{g}: with the file where it was loaded from, at its offset")
    build = Code(g, unhang.directory / "other", SOURCE.replace("float v =", "i ^= n * 5;\n\tfloat v ="))
    room.write(saved, build.data)
    t.same(found([log], "another build"), ("saxpy", None, None, None, None, None), f"{g}: another build's object is not used")
    (room.path / saved).unlink()
    pc, text = code.find("g_vcc", "global_load")
    half = room.write("vcc.log", agent_dump(code, pc, text, uri, {4: code.spread(0x100)}, function="g_vcc"))
    t.same(found([half, "--code", code.path], "vcc")[4], None if code.lanes == 32 else hex(BUFFER + 0x100), f"{g}: half of vcc is no address")
    tiny = Code(g, unhang.directory / "tiny", "kernel void nothing(void) {}\n")
    for name, data in (("a", tiny.data), ("b", build.data), ("c", code.data)):
        room.write(f"renamed/{name}", data)
    t.same(found([log, "--code", room.path / "renamed"], "agent renamed"), known, f"{g}: of several renamed objects the one that has this code")


# --- packed ---

def test_packed(t, unhang, code):
    core = code.faulting(code.spread(END))
    core.memories[0] = Memory(END - 0x1000, 0x1000)
    core.objects = [dataclasses.replace(code.object, memory=0x7e0000000000)]
    room = Room(unhang)
    paths = room.pair(core)
    with tarfile.open(room.path / "case.tar", "w") as tar:
        for path in paths:
            tar.add(path, path.name)
    i = explain(t, unhang, room.path / "case.tar", name="tar").first
    t.same((i.cls, i.value("kernel_name"), i.value("source")), ("gpu-page-fault-unmapped", "saxpy", "k.h:4"), "cores in a tar archive")
    packers = {".gz": lambda data: gzip.compress(data, 1)}
    if shutil.which("zstd"):
        packers[".zst"] = lambda data: subprocess.run(["zstd", "-1", "-q", "-c"], input=data, capture_output=True, check=True).stdout
    else:
        t.skip("cores packed by zstd", "zstd is not installed")
    large = room.path / "large"
    core.memories.append(Memory(0x600000000000, 40 << 20))
    core.write(large, merged=True)
    for suffix, pack in packers.items():
        packed = [room.write(path.name + suffix, pack(path.read_bytes())) for path in paths]
        i = explain(t, unhang, *packed, name=suffix).first
        t.same((i.cls, i.value("kernel_name"), i.value("source")), ("gpu-page-fault-unmapped", "saxpy", "k.h:4"), f"packed cores ({suffix})")
        big = room.write("core.9" + suffix, pack(large.read_bytes()))
        run = unhang.run("explain", big)
        t.ok(run.returncode == tap.CANNOT and b"core.9" in run.stderr and b"unpack it first" in run.stderr, f"a large packed core is refused with what to do ({suffix})", run.stderr.decode())


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for tool in (CLANG, OBJDUMP):
        if not shutil.which(tool):
            tap.skip_all(f"{tool} is not installed")
    codes = {gfx: Code(gfx, unhang.directory / "code") for gfx in PARTS}
    for code in tap.some(unhang, codes.values()):
        test_fault(t, Room(unhang), code)
        for test in (test_accesses, test_lds, test_trap, test_waiting, test_agent):
            test(t, unhang, code)
    for test, gfx in ((test_places, "gfx90a"), (test_which_lane, "gfx1100"), (test_apertures, "gfx942"), (test_bounded, "gfx1030"), (test_which_wave, "gfx942"), (test_two_processes, "gfx90a"), (test_order, "gfx942"), (test_trap_line, "gfx1100"), (test_stomped, "gfx90a"), (test_stomped, "gfx1201"), (test_aperture, "gfx1030"),
                      (test_lone, "gfx942"), (test_healthy, "gfx90a"), (test_code_files, "gfx1100"), (test_no_disassembler, "gfx90a"), (test_packed, "gfx1201")):
        test(t, unhang, codes[gfx])
    t.end()


main()
