#!/usr/bin/env python3
"""umr beside unhang in the same emulated machines: register by register, wave by wave, ring word by ring word. umr is no part of Debian:
without it in PATH nothing is tried."""
import collections
import json
import os
import pathlib
import random
import re
import shutil
import sys

import client_queues
import emulated
import regs
import tap

SCENARIO = """scenario side-by-side
    title  What umr and unhang are to see alike

gpu 0000:03:00.0
    part  gfx1100
    register  GRBM_STATUS = 0xa0003028
    register  se 1 GRBM_STATUS_SE1 = 0x12345678
    register  CP_STAT = 0x80008000
    register  CP_CPC_BUSY_STAT = 0x20002
    register  se 2 sh 1 SPI_SHADER_PGM_LO_PS = 0x77
    register  me 1 pipe 2 queue 1 CP_HQD_PQ_RPTR = 0x99
    wave  se 5 sh 1 wgp 3 simd 3 slot 15 pc 0x7f0000001040 exec 0xff vmid 9 queue 3
    wave  20 se 1 pc 0x7f0000002000 barrier
    wave  se 2 pc 0x7f0000003000 halted trapsts 0x100 sgpr 5 0xabcd sgpr 12 0x77
    ring  gfx_0.0.0 size 1024 rptr 0x40 wptr 0x52
    packets gfx_0.0.0 at 0x40 0xc0053c00 0x13 0x2000 0x7f00 0x5 0xffffffff 0x4 0xc0001000 0x12 \\
        0xc0064900 0x40000514 0x20000000 0x1000 0x7f00 0x9 0 0 0xffff1000

gpu 0000:13:00.0
    part  gfx900
    register  GRBM_STATUS = 0xb0003028
    register  CP_STALLED_STAT1 = 0x4
    wave  se 3 sh 0 cu 15 simd 2 slot 9 pc 0x7f0000003040 exec 0xff00 gpr_alloc 0x02000100
    wave  12 se 1 cu 3 pc 0x7f0000004000

gpu 0000:23:00.0
    part  gfx1010
    register  GRBM_STATUS.SPI_BUSY = 1
    wave  se 1 sh 1 wgp 4 simd 3 slot 19 pc 0x7f0000001040 exec 0xff
    wave  25 se 0 pc 0x7f0000005000 wave64

gpu 0000:33:00.0
    part  gfx1201
    register  GRBM_STATUS.SPI_BUSY = 1
    wave  se 1 sh 1 wgp 3 simd 2 slot 7 pc 0x7f0000001040 m0 0x55

gpu 0000:43:00.0
    part  gfx942
    shaders ses 2 cus 3
    register  xcc 3 GRBM_STATUS = 0x80407028
    wave  11 xcc 3 se 1 cu 1 pc 0x7f0000006000
    register  xcc 6 GRBM_STATUS.SPI_BUSY = 1
    wave  xcc 6 se 1 sh 0 cu 2 simd 3 slot 9 pc 0x7f0000007000
"""
# Every part, with what is in it by chance: its table of GC, its first ring for compute, shaders.
PARTS = {"gfx900": "gc_9_0", "gfx906": "gc_9_4_0", "gfx908": "gc_9_4_1", "gfx90a": "gc_9_4_2", "gfx942": "gc_9_4_3", "gfx950": "gc_9_4_3", "gfx1010": "gc_10_1_0",
         "gfx1030": "gc_10_3_0", "gfx1100": "gc_11_0_0", "gfx1101": "gc_11_0_3", "gfx1102": "gc_11_0_0", "gfx1103": "gc_11_0_0",
         "gfx1151": "gc_11_5_0", "gfx1200": "gc_12_0_0", "gfx1201": "gc_12_0_0"}
# Nothing of any part is left out. What umr has to be told, by fault of its own: on MI300X that VGPRs come by eights, which it takes for granted of
# no part but MI200 (discover_by_ip_table.c); and which card is meant (AT, below).
OPTIONS = dict.fromkeys(("gfx942", "gfx950"), ("-vmp", "0", "-vgpr", "3"))
REGISTERS_TRIED = 150
# The first of a block: umr's table of GC 11.5.0 counts these from the other base address.
OTHER_BASE = {"gfx1151": {"DB_RENDER_CONTROL", "GCR_PIO_CNTL", "GCVML2_PERFCOUNTER2_0_LO", "GRBM_CNTL", "RMI_GENERAL_CNTL", "SDMA0_UCODE_ADDR",
                          "SPI_SHADER_PGM_RSRC4_PS"}}
BUFFER = 0x7f0080000000
# A read of these acts, or answers for waves (SQ_*), or is what umr looks at by itself.
NOT_TRIED = re.compile(r"_SEM|SEMAPHORE|MUTEX|DATA|^SQ_|^VM_CONTEXT|^GCVM_CONTEXT|MC_VM|SDMA|GRBM_GFX_INDEX|^GB_ADDR|_IND_|UCODE")
# As patterns of unhang; umr takes them too: to it they are regular expressions, or the beginning of a name.
STATUS = ("GRBM_STATUS*", "CP_STAT*", "CP_STALLED_STAT*", "CP_CPC_STATUS*", "CP_CPC_BUSY_STAT*", "CP_CPC_STALLED_STAT*", "CP_CPF_STATUS*",
          "CP_CPF_BUSY_STAT*", "CP_CPF_STALLED_STAT*", "SDMA0_STATUS_REG*")
ALWAYS = {"GRBM_STATUS", "GRBM_STATUS2", "CP_STAT", "CP_CPC_STATUS", "CP_CPF_STATUS"}


MEMORY = pathlib.Path(sys.argv[1]).resolve().parent / "gpu_memory"
# By the number of its card: by its address (--by-pci) umr takes the last of the names that debugfs has of a GPU without ip_discovery, 128 for one,
# and then finds no card of that number.
AT = 'at() { for card in /sys/bus/pci/devices/$1/drm/card*; do shift; umr -i "${card##*card}" "$@"; done; }; '


class Both:
    def __init__(self, t, unhang):
        self.t, self.unhang = t, unhang

    def umr(self, scenario, pci, *arguments):
        """What umr prints, which is nothing where it fails."""
        run = self.unhang.run("emulate", scenario, "--", "sh", "-c", AT + 'at "$@"', "sh", pci, *arguments, timeout=300)
        if run.returncode:
            self.t.ok(False, f"umr {' '.join(arguments)}", f"status {run.returncode}: {run.stderr.decode(errors='replace')[-500:]}")
        return run.stdout.decode(errors="replace") if not run.returncode else ""

    def ours(self, scenario, name, command, pci, *arguments):
        run = emulated.inside(self.unhang, scenario, command, "--json", "--gpu", pci, *arguments)
        return emulated.document(self.t, run, command, f"{name}: unhang {command}")

    def ours_of_all(self, scenario, name, command, *options):
        return emulated.document(self.t, emulated.inside(self.unhang, scenario, command, "--json", *options), command, f"{name}: unhang {command}")


# --- registers ---

def umr_registers(text):
    """(XCC, name) to (value, fields) of the graphics core."""
    found, fields = {}, {}
    for line in text.splitlines():
        if m := re.match(r"(\w+?)(?:\{(\d+)\})?\.(?:mm|reg)(\w+) => 0x([0-9a-f]+)", line):
            fields = {}
            if m[1].startswith("gfx"):
                found[int(m[2] or 0), m[3]] = int(m[4], 16), fields
        elif m := re.match(r"\t\.(\w+)\[\d+:\d+\]\s*==\s*\d+ \(0x([0-9a-f]+)\)", line):
            fields[m[1]] = int(m[2], 16)
    return found


def our_registers(document):
    found = {}
    for r in document.get("registers", []):
        if m := re.fullmatch(r"(?:gc|sdma0)(\d*)", r["block"]):
            if r["state"] == "read":
                found[int(m[1] or 0), r["name"]] = int(r["value"], 16), {f["name"]: f["value"] for f in r["fields"]}
    return found


def compare_registers(b, name, scenario, pci, names, banks=((), ()), always=ALWAYS):
    text = b.umr(scenario, pci, "-O", "bits", *banks[0], *(word for n in names for word in ("-r", f"*.*.{n}")))
    theirs = umr_registers(text)
    ours = our_registers(b.ours(scenario, name, "regs", pci, *banks[1], *names))
    both = sorted(ours.keys() & theirs.keys())
    wrong = [f"{key}: umr 0x{theirs[key][0]:08x}, unhang 0x{ours[key][0]:08x}" for key in both if theirs[key][0] != ours[key][0]]
    for key in both:
        for field in theirs[key][1].keys() & ours[key][1].keys():
            if theirs[key][1][field] != ours[key][1][field]:
                wrong.append(f"{key}.{field}: umr {theirs[key][1][field]}, unhang {ours[key][1][field]}")
    wrong += [f"{n} is not in both" for n in always if not any(n == key[1] for key in both)]
    b.t.no_complaints(wrong[:10], f"{name}: {len(both)} registers alike")
    return {key: theirs[key][0] for key in both}


# --- waves ---

def umr_waves(text):
    """Place to (words, SGPRs)."""
    found = {}
    for part in re.split(r"^-{20,}$", text, flags=re.M)[1:]:
        place = re.search(r"^se(\d+)\.s[ha](\d+)\.(?:cu|wgp)(\d+)\.simd(\d+)\.wave(\d+)", part, re.M)
        words = {m[1].lower(): int(m[2], 16) for m in re.finditer(r"ixSQ_WAVE_(\w+): ([0-9a-f]{8}) \|", part)}
        vgprs = {int(m[1]): [int(w, 16) for w in m[2].split()] for m in re.finditer(r"^    \[ *(\d+)\] = \{ ([0-9a-f ]+)\}", part, re.M)}
        sgprs = [int(w, 16) for m in re.finditer(r"^>SGPRS\[\d+\.\.\d+\] = \{ (.*) \}", part, re.M) for w in m[1].split(", ")]
        found[tuple(map(int, place.groups()))] = words, sgprs, vgprs
    return found


def our_waves(document, xcc):
    found = {}
    for w in document.get("waves", []):
        if w["xcc"] == xcc:
            s = w["slot"]
            words = {k: int(v, 16) for k, v in w["hardware_registers"].items()}
            vgprs = {n: [int(v, 16) for v in lanes] for n, lanes in enumerate(w["vgprs"] or [])}
            found[w["se"], s["sh"], s["cu"], s["simd"], s["slot"]] = words, [int(v, 16) for v in w["sgprs"] or []], vgprs
    return found


def compare_waves(b, name, scenario, pci, wanted, xccs=(None,), moving=False, registers=False, told=()):
    document = b.ours(scenario, name, "waves", pci, "--sample", "1", "--registers", "--all")
    for xcc in xccs:
        options = "no_disasm" if registers else "no_disasm,skip_gprs"
        text = b.umr(scenario, pci, *told, *(() if xcc is None else ("-vmp", str(xcc))), "-O", options, "-wa", "none")
        theirs, ours = umr_waves(text), our_waves(document, xcc or 0)
        wrong = [f"{place}: only umr" for place in theirs.keys() - ours.keys()] + [f"{place}: only unhang" for place in ours.keys() - theirs.keys()]
        for place in theirs.keys() & ours.keys():
            words, sgprs, vgprs = theirs[place]
            for word in words.keys() | ours[place][0].keys():
                if words.get(word) != ours[place][0].get(word) and not (moving and word.startswith("pc_")):
                    wrong.append(f"{place}: {word}: umr {words.get(word)}, unhang {ours[place][0].get(word)}")
            n = min(len(sgprs), len(ours[place][1]))
            if sgprs[:n] != ours[place][1][:n]:
                wrong.append(f"{place}: SGPRs: umr {sgprs[:n]}, unhang {ours[place][1][:n]}")
            for n in vgprs.keys() & ours[place][2].keys():
                lanes = len(ours[place][2][n])  # umr shows 64 of every wave
                if vgprs[n][:lanes] != ours[place][2][n]:
                    wrong.append(f"{place}: v{n}: umr {vgprs[n][:4]}, unhang {ours[place][2][n][:4]}")
            if vgprs and len(vgprs) != len(ours[place][2]):  # of a wave whose allocation reads 0 umr shows none
                wrong.append(f"{place}: umr has {len(vgprs)} VGPRs, unhang {len(ours[place][2])}")
        if registers and not any(sgprs for _, sgprs, _ in theirs.values()):
            wrong.append("umr shows no SGPRs")
        where = name if xcc is None else f"{name}, XCC {xcc}"
        b.t.no_complaints(wrong[:10], f"{where}: {len(theirs)} waves alike")
        b.t.same(len(theirs), wanted[xccs.index(xcc)], f"{where}: all of them")


# --- rings ---

def umr_words(text):
    """Words of the ring itself by their position; what it points to follows behind. Fields of a header stand at the header's position, behind
    its word: the first value counts."""
    found = {}
    for m in re.finditer(r"^\[0x0@0x([0-9a-f]+) \+ 0x([0-9a-f]+)\]\t\[ *0x([0-9a-f]+)\]", text.split("\nDone decoding")[0], re.M):
        at = (int(m[1], 16) + int(m[2], 16)) // 4
        for i in range(len(m[3]) // 8):
            found.setdefault(at + i, int(m[3], 16) >> 32 * i & 0xffffffff)
    return found


def compare_ring(b, name, scenario, pci, ring, least):
    text = b.umr(scenario, pci, "-O", "no_follow_ib", "-RS", f"{ring}[.:.]")
    document = b.ours(scenario, name, "rings", pci, ring, "--all", "--once")
    ours = {}
    for gpu in document.get("gpus", []):
        for packet in (p for r in gpu["rings"] for p in r["packets"] if p["depth"] == 0):
            ours |= {packet["at"] + i: int(word, 16) for i, word in enumerate(packet["raw"])}
    theirs = umr_words(text)
    both = sorted(ours.keys() & theirs.keys())
    wrong = [f"word {at}: umr 0x{theirs[at]:08x}, unhang 0x{ours[at]:08x}" for at in both if ours[at] != theirs[at]]
    b.t.no_complaints(wrong[:10], f"{name}: {len(both)} words of {ring} alike")
    b.t.ok(len(both) >= least, f"{name}: as many words as are known in {ring}", f"{len(both)} of {least}; umr: {sorted(theirs)}, unhang: {sorted(ours)}")


# --- by chance, on every part ---

def chance_scenario(part, chance):
    """A GPU with contents by chance: (text, names of registers)."""
    table = regs.table(PARTS[part])
    names = chance.sample(sorted(n for n, r in table.items() if r.base is not None and not NOT_TRIED.search(n) and n not in OTHER_BASE.get(part, ())), REGISTERS_TRIED)
    word = lambda: f"{chance.getrandbits(32):#x}"
    alloc = "0x2000" if PARTS[part] > "gc_11" and PARTS[part] < "gc_9" else "0x200"
    alloc = {"gfx9": "0x02000100", "gfx1": alloc}[part[:4]]
    if part in ("gfx90a", *OPTIONS):
        alloc = "0x02003040"  # 16 VGPRs, and none behind them for accumulation: umr counts those as VGPRs
    compute = "comp_0.1.0.0" if part in OPTIONS else "comp_1.0.0"
    text = f"gpu 0000:03:00.0\n    part {part}\n    shaders ses 2 cus 4\n"
    text += "".join(f"    register {n} = {word()}\n" for n in names if n != "GRBM_STATUS") + "    register GRBM_STATUS = 0x80403028\n"
    for n in range(6):
        gprs = " ".join(f"{kind} {chance.randrange(4)} {word()}" for kind in ("sgpr", "vgpr") for _ in range(3))
        text += f"    wave se {n % 2} halted pc {0x7f0000001000 + 4 * chance.getrandbits(8):#x} exec {word()} gpr_alloc {alloc} {gprs}\n"
    words = " ".join(word() for _ in range(5))
    text += f"    map 3 {BUFFER:#x} vram 0x100000 8K\n    virtual 3 {BUFFER:#x} 0xc0051000 {words} {word()}\n" \
            f"    ring {compute} rptr 0x40 wptr 0x44\n    packets {compute} at 0x40 0xc0023f00 {BUFFER & 0xffffffff:#x} {BUFFER >> 32:#x} 0x03000007\n"
    return text, names, compute


def compare_buffer(b, part, scenario, compute):
    """An indirect buffer and the memory that it lies in, behind page tables."""
    text = b.umr(scenario, "0000:03:00.0", *told(part), "-RS", f"{compute}[.:.]")
    theirs = [int(m[1], 16) for m in re.finditer(rf"^\[0x3@0x{BUFFER:x} \+ 0x[0-9a-f]+\]\t\[ *0x([0-9a-f]+)\]", text, re.M)]
    document = b.ours(scenario, part, "rings", "0000:03:00.0", compute, "--all", "--once")
    ours = [int(w, 16) for g in document.get("gpus", []) for r in g["rings"] for p in r["packets"] if p["depth"] == 1 for w in p["raw"]]
    b.t.same((len(ours), theirs[:1], theirs[1:]), (7, ours[:1], ours[1:len(theirs)]), f"{part}: the words of an indirect buffer alike")


def chance_pages(chance):
    """Maps of two VMIDs and words in them: (text, reads as (VMID, address, bytes))."""
    text, reads, vram = "", [], 0x4000000
    for vmid in chance.sample(range(1, 16), 2):
        for size in (0x1000, 0x10000, 0x400000):
            address = chance.randrange(1, 1 << 20) * 0x4000000
            kind = "system" if size == 0x10000 else "vram"
            text += f"    map {vmid} {address:#x} {kind} {vram + (0x100000000 if kind == 'system' else 0):#x} {size}\n"
            for _ in range(3):
                at = address + 4 * chance.randrange(size // 4 - 8)
                text += f"    virtual {vmid} {at:#x} " + " ".join(f"{chance.getrandbits(32):#x}" for _ in range(4)) + "\n"
                reads.append((vmid, at, 16))
            vram += 0x400000
    return text, reads


def compare_pages(b, part, chance):
    """Walks of page tables: memory of processes, from VRAM and the host's, in pages of every size."""
    text, reads = chance_pages(chance)
    scenario = b.unhang.write(f"{part}-pages.scenario", f"gpu 0000:03:00.0\n    part {part}\n{text}")
    run = b.unhang.run("emulate", scenario, "--", MEMORY, *(f"gfx0.{vmid}@{at:#x}+{n}" for vmid, at, n in reads), timeout=60)
    ours = [m["bytes"] for m in json.loads(run.stdout or '{"memory": []}')["memory"]]
    shell = AT + "; ".join(f"at 0000:03:00.0 {' '.join(told(part))} -vr {vmid}@{at:#x} {n:x} | od -An -v -tx1 | tr -d ' \\n'; echo" for vmid, at, n in reads)
    theirs = b.unhang.run("emulate", scenario, "--", "sh", "-c", shell, timeout=300).stdout.decode().split()
    b.t.same((len(ours), theirs), (len(reads), ours), f"{part}: {len(reads)} walks of page tables end at the same bytes")


def compare_queues(b, part, chance):
    """Queues of processes by their places in the hardware: whose, where, how long, how far."""
    pipes = 2 if part.startswith("gfx12") else 4
    places = chance.sample([(pipe, queue) for pipe in range(pipes) for queue in (2, 3)], 4)
    text = f"gpu 0000:03:00.0\n    part {part}\n\nprocess solver\n"
    for n, (pipe, queue) in enumerate(places, 1):
        words, at = 1 << chance.randrange(10, 15), chance.randrange(200)
        text += f"    queue {n} gpu 0000:03:00.0 ring {0x7f2000000000 + 0x1000000 * n + 0x1000 * chance.randrange(256):#x} size {4 * words:#x} " \
                f"rptr {at} wptr {at + chance.randrange(40)} place 1.{pipe}.{queue} vmid {8 + n}\n"
    scenario = b.unhang.write(f"{part}-queues.scenario", text)
    theirs = set()
    for m in re.finditer(r"^Pipe (\d)  Queue (\d)  VMID (\d+)\n  PQ BASE 0x([0-9a-f]+)  RPTR 0x([0-9a-f]+)  WPTR 0x([0-9a-f]+) .*CNTL 0x([0-9a-f]+)",
                         b.umr(scenario, "0000:03:00.0", *told(part), "-cpc"), re.M):
        if int(m[4], 16):
            theirs.add((int(m[1]), int(m[2]), int(m[3]), int(m[4], 16), 8 << (int(m[7], 16) & 63), int(m[5], 16), int(m[6], 16)))
    document = b.ours_of_all(scenario, part, "queues")
    ours = {(q["place"]["pipe"], q["place"]["queue"], q["place"]["vmid"], int(q["ring"], 16), q["ring_bytes"], 16 * q["read_index"], 16 * q["write_index"])
            for target in document.get("targets", []) for q in target["queues"] if q["place"]}
    length = lambda q: q[4] // 4
    around = {(*q[:5], q[5] % length(q), q[6] % length(q)) for q in ours}
    b.t.same((len(ours), {(*q[:5], q[5] % length(q), q[6] % length(q)) for q in theirs}), (4, around), f"{part}: four queues of a process alike")


def placed(part, ttmps):
    """(packet, workgroup) as the hardware of this generation writes them down."""
    if part.startswith("gfx12"):
        return ttmps[8] & 0x1ffffff, [ttmps[9], ttmps[7] & 0xffff, ttmps[7] >> 16]
    if part in OPTIONS:
        return ttmps[11] >> 6 & 0x1ffffff, ttmps[8:11]
    return ttmps[6] & 0x1ffffff, ttmps[8:11]


def compare_dispatches(b, part, compute, chance):
    """The dispatch and workgroup of each wave (TTMPs), memory, and a buffer of commands by its address, with the registers that it writes."""
    groups = chance.sample(range(16), 3)
    setup = "    register vmid 9 SPI_GDBG_PER_VMID_CNTL.TRAP_EN = 1\n" if part == "gfx90a" else ""
    values = [chance.getrandbits(32) for _ in range(4)]
    buffer = f"0xc0027600 0x207 {values[0]:#x} {values[1]:#x} 0xc0017600 0x218 {values[2]:#x} 0xc0016900 0x200 {values[3]:#x}"
    text = f"gpu 0000:03:00.0\n    part {part}\n    shaders ses 2 cus 4\n    register GRBM_STATUS = 0x80403028\n{setup}    map 3 {BUFFER:#x} vram 0x100000 8K\n    virtual 3 {BUFFER:#x} {buffer}\n"
    text += f"    ring {compute} rptr 0x40 wptr 0x44\n    packets {compute} at 0x40 0xc0023f00 {BUFFER & 0xffffffff:#x} {BUFFER >> 32:#x} 0x0300000a\n"
    text += "".join(f"    wave halted gpr_alloc 0x02003040 pc 0x7f0000001000 vmid 9 queue 2 packet 41 group {x} 1 2\n" for x in groups)
    text += "process app\n    queue 1 gpu 0000:03:00.0 ring 0x7f2200000000 size 0x1000 rptr 41 wptr 43 place 1.0.2 vmid 9\n" \
            "    packet 1 41 dispatch kernel 0x7f2210000440 args 0 grid 1024 8 8 group 64 1 1\n"
    scenario = b.unhang.write(f"{part}-places.scenario", text)
    theirs = []
    for one in re.split(r"^-{20,}$", b.umr(scenario, "0000:03:00.0", *told(part), "-O", "no_disasm", "-wa", "none"), flags=re.M)[1:]:
        words = [int(w, 16) for m in re.finditer(r"^>TTMP\[\d+\.\.\d+\] = \{ (.*) \}", one, re.M) for w in m[1].split(", ")]
        theirs.append((*placed(part, words), words) if len(words) == 16 else None)
    ours = [(w["packet"], w["workgroup"], [int(v, 16) for v in w["ttmps"] or []])
            for w in b.ours(scenario, part, "waves", "0000:03:00.0", "--sample", "1", "--registers").get("waves", [])]
    if part.startswith("gfx9"):  # umr asks amdgpu_gprwave for TTMPs by bytes, but the driver counts registers there: it shows others
        theirs = [(41, [x, 1, 2], words) for x in groups for packet, group, words in ours if group[0] == x and placed(part, words) == (packet, group)]
    b.t.same((sorted(map(str, theirs)), len(ours)), (sorted(map(str, ours)), 3), f"{part}: dispatch and workgroup of three waves alike (TTMPs)")
    shell = AT + f"at 0000:03:00.0 {' '.join(told(part))} -vr 3@{BUFFER:#x} 28 | od -An -v -tx1 | tr -d ' \\n'"
    theirs = b.unhang.run("emulate", scenario, "--", "sh", "-c", shell).stdout.decode()
    ours = b.ours(scenario, part, "memory", "0000:03:00.0", "--vmid", "3", f"{BUFFER:#x}", "--length", "40").get("pages", [])
    b.t.same((len(theirs), theirs), (80, "".join(p["bytes"] or "" for p in ours)), f"{part}: memory alike")
    # By its address (-di) umr takes a buffer for longer than it is: it is shown the ring that runs it. It crashes where a buffer sets the address
    # of a shader that is not mapped.
    text = b.umr(scenario, "0000:03:00.0", *told(part), "-RS", f"{compute}[.:.]")
    theirs = {(m[1].removeprefix("reg").removeprefix("mm"), int(m[2], 16)) for m in re.finditer(r"\|---> (?:\w+(?:\{\d+\})?\.)?(\w+|<unknown>)=0x([0-9a-f]+)", text)}
    packets = b.ours(scenario, part, "packets", "0000:03:00.0", "--ib", f"{BUFFER:#x}@3", "--words", "10").get("packets", [])
    ours = {(r["name"] or "<unknown>", int(r["value"], 16)) for p in packets for r in p["registers"]}
    b.t.same((len(ours), sorted(ours - theirs)), (4, []), f"{part}: the registers that a buffer writes alike")


def compare_descriptors(b, part):
    """The descriptor (MQD) of a client's queue, word by word."""
    scenario = b.unhang.write(f"{part}-descriptor.scenario", client_queues.scenario(part=part))
    text = b.umr(scenario, "0000:03:00.0", "--dump-mqd", f"0@{client_queues.MQD:#x}", "4")
    theirs = {m[2].lower(): int(m[1], 16) for m in re.finditer(r"^MQD\[\d+\] == 0x([0-9a-f]+) \((\w+)\)", text, re.M)}
    document = b.ours_of_all(scenario, part, "queues", "--registers")
    ours = {w["name"].lower(): int(w["value"], 16) for q in document.get("user_queues", []) for d in q["descriptors"] for w in d["words"] if d["what"] == "mqd"}
    both = ours.keys() & theirs.keys()
    b.t.same({n: theirs[n] for n in both}, {n: ours[n] for n in both}, f"{part}: {len(both)} words of a descriptor alike")
    b.t.ok(len(both) > 20, f"{part}: as many words as are known", sorted(ours))


def told(part):
    return OPTIONS.get(part, ())


def test_chance(b):
    chance = random.Random(17)
    for part in PARTS:
        text, names, compute = chance_scenario(part, chance)
        scenario = b.unhang.write(f"{part}.scenario", text)
        said = {option: b.umr(scenario, "0000:03:00.0", option) for option in ("-lb", "-c", "-gm", "-vi")}
        b.t.same([option for option, text in said.items() if not text], [], f"{part}: umr runs, with its blocks, configuration, metrics and VBIOS")
        compare_registers(b, f"{part}, by chance", scenario, "0000:03:00.0", names, (told(part), ()), ())
        compare_waves(b, f"{part}, by chance", scenario, "0000:03:00.0", [6], registers=True, told=told(part))
        compare_buffer(b, part, scenario, compute)
        compare_pages(b, part, chance)
        compare_queues(b, part, chance)
        compare_dispatches(b, part, compute, chance)
    for part in ("gfx1100", "gfx1201"):
        compare_descriptors(b, part)


def test_blocks(b, scenario):
    for pci, wanted in (("0000:03:00.0", 1), ("0000:43:00.0", 8)):
        blocks = re.findall(r"\.(gfx\w+)(?:\{\d+\})? \(", b.umr(scenario, pci, "-lb"))
        b.t.same(collections.Counter(blocks), {blocks[0] if blocks else "": wanted}, f"{pci}: umr lists its graphics cores")


def test_registers(b, scenario):
    for pci in ("0000:03:00.0", "0000:13:00.0", "0000:23:00.0", "0000:33:00.0"):
        compare_registers(b, pci, scenario, pci, STATUS)
    seen = compare_registers(b, "each XCC", scenario, "0000:43:00.0", STATUS)
    b.t.same([seen.get((xcc, "GRBM_STATUS")) for xcc in range(8)], [0x3028] * 3 + [0x80407028] + [0x3028] * 2 + [0x403028, 0x3028], "each XCC has its own")
    for names, umr, ours, wanted in (
            ("GRBM_STATUS_SE1", ("-b", "1", "x", "x"), ("--bank", "1,x,x"), 0x12345678),
            ("SPI_SHADER_PGM_LO_PS", ("-b", "2", "1", "x"), ("--bank", "2,1,x"), 0x77),
            ("CP_HQD_PQ_RPTR", ("-sb", "1", "2", "1"), ("--srbm", "1,2,1"), 0x99)):
        seen = compare_registers(b, f"{names} of a bank", scenario, "0000:03:00.0", [names], (umr, ours), {names})
        b.t.same(seen.get((0, names)), wanted, f"{names} of a bank: as it was set")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not shutil.which("umr"):
        tap.skip_all("there is no umr")
    if not emulated.possible(unhang):
        tap.skip_all("no machine can be emulated here")
    if "UMR_DATABASE_PATH" in os.environ:
        unhang.environment["UMR_DATABASE_PATH"] = os.environ["UMR_DATABASE_PATH"]
    b, scenario = Both(t, unhang), unhang.write("side-by-side.scenario", SCENARIO)
    test_blocks(b, scenario)
    test_registers(b, scenario)
    compare_waves(b, "gfx1100", scenario, "0000:03:00.0", [22], registers=True)
    for name, pci, waves in (("gfx900", "0000:13:00.0", 13), ("gfx1010", "0000:23:00.0", 26), ("gfx1201", "0000:33:00.0", 1)):
        compare_waves(b, name, scenario, pci, [waves])
    compare_waves(b, "gfx942", scenario, "0000:43:00.0", [0, 11, 1], xccs=(0, 3, 6))
    compare_waves(b, "compute-spin", "compute-spin", "0000:03:00.0", [128], moving=True)
    compare_waves(b, "eight GPUs", "eight-gpus", "0000:b0:00.0", [112])
    compare_ring(b, "gfx1100", scenario, "0000:03:00.0", "gfx_0.0.0", 9)
    compare_ring(b, "sdma-stuck", "sdma-stuck", "0000:03:00.0", "sdma0", 10)
    test_chance(b)
    t.end()


if __name__ == "__main__":
    main()
