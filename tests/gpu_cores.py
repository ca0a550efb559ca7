#!/usr/bin/env python3
"""GPU cores as `unhang waves` and `unhang queues` read them: waves that we made up are saved as each kind of GPU saves them
(cores.py) and every field is read back. What the trap handler leaves in its words, and what follows from it, is worked out here
once more, from the rules of AMD's debugger library."""
import dataclasses
import json
import random
import re
import shutil
import struct
import subprocess
import sys

import cores
import tap
from cores import Agent, Core, Memory, Object, Packet, Part, Queue, Wave

PARTS = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx940", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1151",
         "gfx1200", "gfx1201"]
KERNELS = ["copy_rows", "spin_until"]
SOURCE = """
kernel void copy_rows(global const int *from, global int *to, int n)
{
	int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
	if (i < n)
		to[i] = from[i] + from[n - i] * 3;
}
kernel void spin_until(volatile global int *flag)
{
	while (!*flag)
		__builtin_amdgcn_s_sleep(4);
}
kernel void meet(global int *x)
{
	x[__builtin_amdgcn_workitem_id_x()] = 1;
	__builtin_amdgcn_s_barrier();
	x[__builtin_amdgcn_workitem_id_x() + 64] = 2;
}
kernel void assert_all(global const int *x)
{
	if (x[__builtin_amdgcn_workitem_id_x()] < 0)
		__builtin_trap();
}
"""
CODE, WORD = 0x7f0000200000, 0xffffffff
ARITHMETIC = ["FP_INVALID_OPERATION", "FP_INPUT_DENORMAL", "FP_DIVIDE_BY_0", "FP_OVERFLOW", "FP_UNDERFLOW", "FP_INEXACT",
              "INT_DIVIDE_BY_0"]
TRAPS = {0: [], 1: ["BREAKPOINT"], 2: ["ASSERT_TRAP"], 3: ["DEBUG_TRAP"]}
GFX9_REGISTERS = ["m0", "pc_lo", "pc_hi", "exec_lo", "exec_hi", "status", "trapsts", "xnack_mask_lo", "xnack_mask_hi", "mode"]
GFX10_REGISTERS = GFX9_REGISTERS[:7] + ["xnack_mask", "mode", "flat_scratch_lo", "flat_scratch_hi"]
GFX12_REGISTERS = ["m0", "pc_lo", "pc_hi", "exec_lo", "exec_hi", "state_priv", "excp_flag_priv", "xnack_mask", "mode",
                   "scratch_base_lo", "scratch_base_hi", "excp_flag_user", "trap_ctrl", "status"]


def bit(word, number):
    return word >> number & 1


def compile_for(gfx, directory, source=SOURCE, name="k"):
    """A code object; where this clang does not know the part, one of its nearest relative."""
    path = directory / f"{name}.{gfx}.co"
    (directory / f"{name}.cl").write_text(source)
    for cpu in (gfx, "gfx942"):
        done = subprocess.run(["clang-19", "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={cpu}", "-nogpulib", "-O2",
                               str(directory / f"{name}.cl"), "-o", str(path)], capture_output=True, text=True)
        if not done.returncode:
            return path
    raise RuntimeError(done.stderr)


# --- what a wave's words mean ---

def reasons_of(part, h, trap):
    """Why a wave stopped, by its hardware registers @h and the id of its trap."""
    out = list(TRAPS.get(trap, ["TRAP"]))
    if part.major == 12:
        priv, user, control = h[6], h[11], h[12]
        out += [name for i, name in enumerate(ARITHMETIC) if bit(user, i) and bit(control, i)]
        out += ["WATCHPOINT"] if priv & 0xf and bit(control, 7) else []
        out += ["MEMORY_VIOLATION"] if bit(priv, 12) else ["ADDRESS_ERROR"] if bit(priv, 4) else []
        out += ["ILLEGAL_INSTRUCTION"] if bit(priv, 6) else []
        out += ["SINGLE_STEP"] if bit(priv, 11) else []
        out += ["TRAP"] if bit(priv, 8) or bit(priv, 9) else []
        return sorted(set(out))
    status, mode = h[6], h[8 if part.rdna else 9]
    out += [name for i, name in enumerate(ARITHMETIC) if bit(status, i) and bit(mode, 12 + i)]
    out += ["WATCHPOINT"] if status & (1 << 7 | 7 << 12) and bit(mode, 19) else []
    out += ["MEMORY_VIOLATION"] if bit(status, 28) else ["ADDRESS_ERROR"] if bit(status, 8) else []
    out += ["ILLEGAL_INSTRUCTION"] if bit(status, 11) else []
    if part.mi300:
        out += ["SINGLE_STEP"] if bit(status, 25) else []
        out += ["TRAP"] if bit(status, 23) or bit(status, 24) else []
    if part.major == 11:
        out += ["SINGLE_STEP"] if bit(status, 20) else []
        out += ["TRAP"] if bit(status, 17) or bit(status, 18) else []
    return sorted(set(out))


class Made:
    """A wave made up by chance, and what must be read back of it."""

    def __init__(self, rng, part, core, agent, queue, place):
        self.part, self.core, self.agent, self.queue = part, core, agent, queue
        self.trap = rng.choice([0, 0, 0, 1, 2, 3, 4, 9, 15])
        self.stopped, self.mark, self.unset = rng.random() < 0.6, rng.random() < 0.7, rng.random() < 0.2
        self.parked_pc = place["pc"]
        self.wave = Wave(place["pc"], group=place["group"], wave_in_group=place["number"], packet=place["packet"], xcc=place["xcc"],
                         wave32=part.rdna and place["wave32"], lds=place["lds"], lds_whole=place["lds_whole"],
                         engine=rng.randrange(4))
        self.fill(rng)
        self.write_words(rng)

    def fill(self, rng):
        w, part = self.wave, self.part
        unit = part.vgpr_unit(w.wave32)
        w.vgpr_count = unit * rng.choice([1, 2, 3, 5, 64 if rng.random() < 0.1 else 1])
        w.acc_count = rng.choice([0, 4, 12, 32])
        w.shared = rng.choice([0, 0, 8, 24]) if part.rdna else 0
        w.sgpr_count = rng.choice([112, 112, 96, 16, 0])
        saved = cores.Saved(dataclasses.replace(w, sgpr_count=16), part, 64, 10)
        self.accs, self.sgprs = saved.accs, 128 if part.rdna else w.sgpr_count
        w.vgprs = {n: [rng.getrandbits(32) for _ in range(w.lanes)] for n in range(w.vgpr_count)}
        w.acc = {n: [rng.getrandbits(32) for _ in range(64)] for n in range(self.accs)}
        w.sgprs = {n: rng.getrandbits(32) for n in range(self.sgprs)}

    def write_words(self, rng):
        """All hardware registers and trap registers, by chance where they mean nothing here."""
        w, part = self.wave, self.part
        h, t = [rng.getrandbits(32) for _ in range(16)], [rng.getrandbits(32) for _ in range(16)]
        rare = [rng.getrandbits(32) & rng.getrandbits(32) & rng.getrandbits(32) for _ in range(3)]
        h[6], h[11] = rare[:2]
        index = w.packet % (self.queue.ring_size // 64)
        stop = self.trap << 25 | rng.getrandbits(1) << 29 | self.stopped << 30
        self.pc = w.pc
        if part.major == 12:
            t[6] = t[6] & 0x81ffffff | stop
            t[7], t[9] = w.group[1] | w.group[2] << 16, w.group[0]
            flat = not w.group[1] and not w.group[2]
            t[8] = index | w.wave_in_group << 25 | (not flat) << 30 | self.mark << 31
            if flat:
                t[7] = rng.getrandbits(32)  # counts only where ttmp8 says so
        else:
            t[6] = stop | self.unset << 31 | (rng.getrandbits(25) if part.mi300 else index)
            t[8:11] = w.group
            t[11] = w.wave_in_group | (index << 6 | self.mark << 31 if part.mi300 else t[11] & 0xff800000)
        h[1:3] = w.pc & WORD, w.pc >> 32
        h[5] = h[5] & ~(1 << 24) | (rng.random() < 0.3) << 24
        h[13] = h[13] & ~(1 << 24) | (rng.random() < 0.3) << 24
        if self.is_parked(h):
            h[1:3] = cores.HANDLER & WORD, cores.HANDLER >> 32
            t[10 if part.major == 12 else 7] = w.pc & WORD
            t[11] = t[11] & ~(0xffff << 7) | (w.pc >> 32 & 0xffff) << 7
        w.hwregs, w.ttmps = dict(enumerate(h)), dict(enumerate(t))
        self.h = h

    def agent_ok(self):
        return bool(self.core.ttmp_setup or self.agent.ttmps_valid)

    def is_stopped(self, h):
        part, kept = self.part, self.core.r_version >= 10 and self.part.major < 12 and bit(h[5], 18)
        counts = self.agent_ok() and (self.mark or not (part.mi300 or part.major == 12))
        return self.stopped and bool(counts or kept)

    def is_parked(self, h):
        return self.is_stopped(h) and self.part.parks(self.core.r_version)

    def placed(self):
        if self.part.major == 12 or self.core.r_version < 10:
            return self.agent_ok()
        return self.agent_ok() and not (self.unset and (self.mark or not self.part.mi300))

    def expected(self, number, leader):
        w, part, placed = self.wave, self.part, self.placed()
        stopped = self.is_stopped(self.h)
        names = GFX12_REGISTERS if part.major == 12 else GFX10_REGISTERS if part.rdna else GFX9_REGISTERS
        given_back = part.major == 11 and bit(self.h[5], 24) or part.major == 12 and bit(self.h[13], 24)
        lds = leader.lds.ljust(131072 if leader.lds_whole else cores.up(len(leader.lds), part.lds_unit), b"\0")
        lanes = self.h[3] | (0 if w.wave32 else self.h[4] << 32)
        return {
            "id": number, "queue": self.queue.id, "gfx": part.gfx, "xcc": w.xcc, "se": w.engine, "pc": hex(w.pc), "exec": hex(lanes),
            "lanes": w.lanes, "workgroup": list(w.group) if placed else None, "wave_in_group": w.wave_in_group if placed else None,
            "packet": w.packet if placed else None, "stopped": stopped,
            "stop_reasons": reasons_of(part, self.h, self.trap) if stopped else [],
            "vgpr_count": w.vgpr_count, "acc_vgpr_count": self.accs, "sgpr_count": self.sgprs, "lds_bytes": len(lds),
            "hardware_registers": {name: hex(self.h[i]) for i, name in enumerate(names)},
            "sgprs": [hex(w.sgprs[n]) for n in range(self.sgprs)],
            "vgprs": None if given_back else [list(map(hex, w.vgprs[n])) for n in range(w.vgpr_count)],
            "acc_vgprs": [list(map(hex, w.acc[n])) for n in range(self.accs)],
            "lds": [hex(int.from_bytes(lds[i:i + 4], "little")) for i in range(0, len(lds), 4)],
        }


# --- cores by chance ---

class Chance:
    """A core with several GPUs, queues and workgroups."""

    def __init__(self, seed, gfx, others, objects):
        self.rng = random.Random(f"{gfx} {seed}")
        rng = self.rng
        agents = [Agent(gfx, 100, rng.choice([1, 3]) if Part(gfx).mi300 else 1, rng.random() < 0.7),
                  Agent(rng.choice(others), 200, 1, rng.random() < 0.7)]
        self.objects = {a.gfx: Object(objects[a.gfx].read_bytes(), CODE + (n << 24), f"file://{objects[a.gfx]}")
                        for n, a in enumerate(agents)}
        self.core = Core(agents, [], list(self.objects.values()), r_version=rng.choice([8, 9, 10, 10, 11, 12]), ttmp_setup=rng.getrandbits(1))
        self.made = []
        for number in range(3):
            self.add_queue(agents[number % 2], 10 + number)
        for number, kind in enumerate((1, 0, 3)):
            self.core.queues.append(Queue(gpu_id=100, id=30 + number, type=kind, read=number, write=number + 2, exceptions=1 << number))
        rng.shuffle(self.core.queues)

    def add_queue(self, agent, number):
        rng, part, o = self.rng, Part(agent.gfx), self.objects[agent.gfx]
        ring = rng.choice([4096, 8192, 1 << 31])
        first = rng.choice([0, 61, 64 * 5 + 62, 64 * 7 + 1, 64 * (1 << 30) + 63, (1 << 25) - 2])
        packets = {first + i: Packet(o.symbol(rng.choice(KERNELS) + ".kd"), (64 * rng.randrange(1, 9), rng.randrange(1, 3), 1), (64, 1, 1),
                                     rng.getrandbits(40), rng.randrange(99), rng.randrange(99)) for i in range(5)}
        queue = Queue([], packets, agent.gpu_id, number, ring_size=ring, exceptions=rng.choice([1 << 30, 1 << 4 | 1 << 30, 1 << 1]))
        made = []
        for group in range(rng.randrange(1, 6)):
            kernel = rng.choice(KERNELS)
            place = dict(packet=rng.choice(list(packets)), wave32=rng.random() < 0.5, xcc=rng.randrange(agent.xccs),
                         group=(group + 1, rng.choice([0, 7, 65535]), rng.choice([0, 3])), lds=rng.randbytes(rng.choice([0, 4, 512, 3000])),
                         lds_whole=part.major == 12 and rng.random() < 0.1)
            number = rng.choice([0, 14, 29 if part.major == 12 else 61])
            for i in range(rng.choice([1, 1, 2, 3])):
                place.update(number=number + i, pc=o.symbol(kernel) + 4 * rng.randrange(4))
                m = Made(rng, part, self.core, agent, queue, place)
                m.kernel, m.kernel_name = kernel, self.name_of(packets[place["packet"]], o)
                m.object, m.leader = o, made[-1].leader if i else m.wave
                made.append(m)
        made.sort(key=lambda m: m.wave.xcc)
        queue.waves = [m.wave for m in made]
        queue.made = made
        self.core.queues.append(queue)

    @staticmethod
    def name_of(packet, o):
        return next(k for k in KERNELS if o.symbol(k + ".kd") == packet.kernel)

    def waves(self):
        return [m for q in self.core.queues for m in getattr(q, "made", [])]

    def expected_queues(self):
        types = {0: "PM4", 1: "SDMA", 2: "AQL", 3: "SDMA XGMI"}
        for number, q in enumerate(self.core.queues):
            read, write = q.pointers()
            agent = next(a for a in self.core.agents if a.gpu_id == q.gpu_id)
            yield {"id": q.id, "gfx": agent.gfx, "ring": hex(cores.RINGS + (number << 32)), "ring_bytes": q.ring_size, "read_index": read,
                   "write_index": write, "waves": len(q.waves), "problem": None, "type": types[q.type],
                   "packets": [{"packet": n, "kernel_name": self.name_of(p, self.objects[agent.gfx]), "kernel_object": hex(p.kernel),
                                "kernarg": hex(p.kernarg), "grid": list(p.grid), "workgroup_size": list(p.group), "lds_bytes": p.lds,
                                "scratch_bytes": p.private} for n, p in q.packets.items()]}


def ask(unhang, command, *paths, registers=True):
    """(document or None, stderr)"""
    targets = [a for p in paths for a in ("--target", p)]
    done = unhang.run(command, *targets, "--json", *(["--registers"] if registers and command == "waves" else []))
    stderr = done.stderr.decode(errors="replace")
    try:
        return (json.loads(done.stdout) if not done.returncode else None), stderr
    except ValueError as problem:
        return None, f"{problem}; exit status {done.returncode}; {stderr}"


def without_arguments(document):
    """They have a test of their own."""
    for packet in (p for q in (document or {}).get("queues", []) for p in q["packets"]):
        del packet["arguments"]
    return document


def differences(got, wanted, what):
    """What of the wanted fields is otherwise."""
    out = []
    for key, value in wanted.items():
        other = sorted(got[key]) if key == "stop_reasons" and key in got else got.get(key, "absent")
        if other != value:
            out.append(f"{what}: {key}: wanted {str(value)[:300]}, got {str(other)[:300]}")
    return out


def compare_chance(chance, document, queues, stderr, name):
    if document is None or queues is None:
        return [f"{name}: {stderr}"]
    made = chance.waves()
    if len(document["waves"]) != len(made):
        return [f"{name}: {len(made)} waves wanted, got {len(document['waves'])}; {stderr}"]
    wrong = []
    for n, (got, m) in enumerate(zip(document["waves"], made), 1):
        wanted = m.expected(n, m.leader)
        wanted["kernel_name"] = m.kernel_name if m.placed() else m.kernel
        wanted["function"] = m.kernel
        wanted["offset"] = hex(m.wave.pc - m.object.symbol(m.kernel))
        wrong += differences(got, wanted, f"{name} wave {n} (r_version {chance.core.r_version})")
    wanted = list(chance.expected_queues())
    wrong += [] if len(queues["queues"]) == len(wanted) else [f"{name}: queues wanted {len(wanted)}, got {len(queues['queues'])}"]
    for got, want in zip(queues["queues"], wanted):
        wrong += differences(got, want, f"{name} queue {want['id']}")
    return wrong + ([f"{name}: stderr: {stderr}"] if stderr else [])


def test_parts(t, unhang, objects):
    path = unhang.directory / "chance.core"
    for gfx in PARTS:
        wrong, waves = [], 0
        for seed in tap.some(unhang, range(8), 4):
            chance = Chance(seed, gfx, PARTS, objects)
            chance.core.write(path)
            document, stderr = ask(unhang, "waves", path)
            queues, more = ask(unhang, "queues", path)
            without_arguments(queues)
            waves += len(chance.waves())
            wrong += compare_chance(chance, document, queues, stderr + more, f"seed {seed}")
        t.no_complaints(wrong[:20], f"{gfx}: {waves} waves in cores made by chance are read back")


# --- forms of files ---

def without(document, *keys):
    return None if document is None else {k: v for k, v in document.items() if k not in keys}


def same_as(t, unhang, wanted, paths, name, says="", silent=False):
    """The waves are those of @wanted, whatever form the files have."""
    document, stderr = ask(unhang, "waves", *paths)
    good = wanted is not None and without(document, "target") == without(wanted, "target") and says in stderr
    t.ok(good and not (silent and stderr), name, f"stderr: {stderr}\ngot {str(document)[:600]}")


def test_forms(t, unhang, objects):
    directory = unhang.directory
    for gfx in ("gfx942", "gfx1100"):
        for extra in (0, 1):
            core = cores.sample(gfx, objects[gfx])
            core.memories += [Memory(0x600000000000 + (n << 20)) for n in range(extra)]
            plain, path, gpu, host = (directory / f"{n}.core" for n in ("plain", "form", "gpu", "host"))
            core.write(plain)
            wanted, stderr = ask(unhang, "waves", plain)
            t.ok(wanted and len(wanted["waves"]) == len(core.queues[0].waves) and not stderr, f"{gfx}: both cores in one file have all waves", stderr)
            core.write(path, merged=True)
            same_as(t, unhang, wanted, [path], f"{gfx}: as rocgdb merges it", silent=True)
            core.write(path, shifted=True)
            shift = 12 if len(core.parts()[1]) % 2 else 4
            same_as(t, unhang, wanted, [path], f"{gfx}: bytes {shift} before their offsets", f"{shift} bytes before")
            path.write_bytes(path.read_bytes()[:-shift])
            same_as(t, unhang, wanted, [path], f"{gfx}: the same through a pipe", f"{shift} bytes before")
            for shifted in (False, True):
                core.write_pair(gpu, host, shifted)
                says = "bytes before" if shifted else ""
                same_as(t, unhang, wanted, [gpu, host], f"{gfx}: GPU's and process's core, shifted {shifted}", says)
                same_as(t, unhang, wanted, [host, gpu], f"{gfx}: in the other order, shifted {shifted}", says)


def write_padded_host(core, gpu, host):
    """The kernel's core with zeros where the GPU's has its bytes."""
    note, memories = core.parts()
    cores.write_elf(gpu, cores.EM_AMDGPU, [note], [m for m in memories if not m.host])
    padded = [m if m.host else dataclasses.replace(m, pieces=[]) for m in memories]
    cores.write_elf(host, cores.EM_X86_64, core.host_notes(memories), padded)


def test_lone(t, unhang, objects):
    gpu, host = unhang.directory / "gpucore.1", unhang.directory / "core.1"
    core = cores.sample("gfx90a", objects["gfx90a"])
    core.write(gpu)
    wanted, _ = ask(unhang, "waves", gpu)
    write_padded_host(core, gpu, host)
    same_as(t, unhang, wanted, [host, gpu], "where both files have bytes the GPU's count")
    same_as(t, unhang, wanted, [gpu, host], "so they do in the other order")
    core.write_pair(gpu, host)
    document, stderr = ask(unhang, "waves", gpu)
    t.ok(document and document["waves"] == [] and "lacks the memory of its process" in stderr and "coredumpctl" in stderr,
         "a GPU's core alone: what is missing and how to get it", stderr)
    queues, stderr = ask(unhang, "queues", gpu)
    t.ok(queues and [q["read_index"] for q in queues["queues"]] == [69] and "save area header" in str(queues["queues"][0]["problem"]),
         "its queues are shown", queues)
    text = unhang.run("waves", gpu).stdout.decode()
    t.ok("gfx90a" in text and "1 queue" in text, "its GPU is named", text)
    document, stderr = ask(unhang, "waves", host)
    t.ok(document is None and "AMDGPU note" in stderr and "gpucore" in stderr, "a process's core alone: where the other is", stderr)


def test_cut(t, unhang, objects):
    path = unhang.directory / "cut.core"
    core = cores.sample("gfx1030", objects["gfx1030"])
    core.write(path)
    whole = path.read_bytes()
    wrong = []
    for size in [0, 10, 63, 64, 300, 700, 1000, 5000, 20000, len(whole) // 2, len(whole) - 4096]:
        path.write_bytes(whole[:size])
        document, stderr = ask(unhang, "waves", path)
        if "cut off" not in stderr and "at 0x" not in stderr:
            wrong.append(f"{size} of {len(whole)} bytes: {stderr!r}")
    t.no_complaints(wrong, "a core that is cut off is said to be so")


def test_oddities(t, unhang, objects):
    path = unhang.directory / "odd.core"
    core = cores.sample("gfx1100", objects["gfx1100"])
    core.write(path)
    wanted, _ = ask(unhang, "waves", path)
    core.agents = [Agent("gfx942", 7, entry_size=128), Agent("gfx1100", 0x1234, entry_size=128)]
    core.write(path)
    same_as(t, unhang, wanted, [path], "entries of GPUs that are longer than known", silent=True)
    core.queues[0].id = 1 << 30 | 5
    core.write(path)
    queues, stderr = ask(unhang, "queues", path)
    t.ok(queues and queues["queues"][0]["id"] == 5 and "could not be suspended" in stderr, "a queue that was not suspended", stderr)
    core.queues[0].id, core.runtime_state = 0, 0
    core.write(path)
    same_as(t, unhang, wanted, [path], "a runtime that was not set up", "state 0")
    core.runtime_state = 1
    core.agents = [Agent("gfx1250", 0x1234)]
    core.write(path)
    document, stderr = ask(unhang, "waves", path)
    t.ok(document and not document["waves"] and "how gfx1250" in stderr and "not known" in stderr, "an unknown part", stderr)
    core.agents = [Agent("gfx1100", 0x9999)]
    note, memories = cores.sample("gfx1100", objects["gfx1100"]).parts()
    core.queues = []
    cores.write_elf(path, cores.EM_AMDGPU, [("AMDGPU", 33, core.note([note[2][-64:]]))], memories)
    document, stderr = ask(unhang, "waves", path)
    t.ok(document and "does not describe" in stderr, "a queue of a GPU that is not there", stderr)
    late = Queue([Wave(CODE, packet=(1 << 63) + 5)], {(1 << 63) + 5: Packet(CODE)})
    Core([Agent("gfx906")], [late]).write(path)
    queues, _ = ask(unhang, "queues", path)
    waves, _ = ask(unhang, "waves", path)
    t.same(queues and [(q["read_index"], q["write_index"], [p["packet"] for p in q["packets"]]) for q in queues["queues"]],
           [((1 << 63) + 5, (1 << 63) + 6, [(1 << 63) + 5])], "indexes of 2^63 and more")
    t.same(waves and [w["packet"] for w in waves["waves"]], [(1 << 63) + 5], "the packet of a wave there")
    core.note_version = 2
    core.write(path)
    document, stderr = ask(unhang, "waves", path)
    t.ok(document is None and "version 2" in stderr, "a note of another version", stderr)


def test_orphan(t, unhang):
    """A wave whose workgroup's first is not there has no LDS, and not that of the workgroup before."""
    path = unhang.directory / "orphan.core"
    waves = [Wave(0x1000, group=(1, 0, 0), lds=b"lds!" * 128), Wave(0x2000, group=(2, 0, 0))]
    queue = Queue(waves, {0: Packet(0)}, corrupt={cores.PAGE + 5 * 4: (1 << 16).to_bytes(4, "little")})
    Core([Agent("gfx906")], [queue]).write(path)
    document, stderr = ask(unhang, "waves", path)
    got = [(w["pc"], w["lds_bytes"]) for w in document["waves"]] if document else None
    t.same(got, [("0x1000", 512), ("0x2000", 0)], "a wave without its workgroup's first has no LDS")
    t.ok("first wave is not there" in stderr, "that the first wave is not there is said", stderr)
    queue.write, queue.corrupt = 0, {}
    Core([Agent("gfx906")], [queue]).write(path)
    document, stderr = ask(unhang, "waves", path)
    t.same(stderr.count("outside of its read and write index"), 1, "packets that the queue does not have are noticed, and said once")
    queue.corrupt = {8: (0x10).to_bytes(4, "little")}
    Core([Agent("gfx906")], [queue]).write(path)
    document, stderr = ask(unhang, "waves", path)
    t.ok("save area header at 0x7f3000000000" in stderr and "do not fit together" in stderr, "a header that contradicts itself", stderr)


def test_unset(t, unhang, objects):
    """As cores.py writes them: nobody set the trap registers up, or only those of one wave."""
    path = unhang.directory / "unset.core"
    for gfx in PARTS:
        core = cores.sample(gfx, objects[gfx])
        core.queues[0].waves[1].ttmps_set = False
        core.write(path)
        document, _ = ask(unhang, "waves", path)
        places = [w["workgroup"] is None and w["packet"] is None for w in document["waves"]] if document else []
        good = places == [n == 1 and Part(gfx).major != 12 for n in range(len(places))] and any(w["stopped"] for w in document["waves"])
        core.ttmp_setup, core.agents[0].ttmps_valid = 0, False
        core.write(path)
        document, _ = ask(unhang, "waves", path)
        good = good and document and not [w for w in document["waves"] if w["packet"] is not None or w["workgroup"] or w["wave_in_group"] is not None]
        t.ok(good, f"{gfx}: without words of the trap handler nothing is guessed", places)


def test_traps(t, unhang, objects):
    """The pc of a trap is at it or behind it, by the age of the trap handler."""
    path = unhang.directory / "trap.core"
    for gfx in ("gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201"):
        o = Object(objects[gfx].read_bytes(), CODE, f"file://{objects[gfx]}")
        word = (0xbf920002 if Part(gfx).major < 11 else 0xbf900002).to_bytes(4, "little")
        begin = o.symbol("assert_all")
        trap = begin + next(n for n in range(0, 4096, 4) if o.data[o_offset(o, begin) + n:][:4] == word)
        waves = [Wave(trap + back, group=(n, 0, 0), reason="assert_trap", packet=1) for n, back in enumerate((0, 4))]
        Core([Agent(gfx)], [Queue(waves, {1: Packet(o.symbol("assert_all.kd"))})], [o]).write(path)
        document, stderr = ask(unhang, "waves", path)
        got = [(w["pc"], w["offset"], w["instruction"]) for w in document["waves"]] if document else stderr
        t.same(got, [(hex(w.pc), hex(trap - begin), "s_trap 2") for w in waves], f"{gfx}: the trap that a wave stopped at")


def o_offset(o, address):
    return next(h[2] + address - o.address - h[3] for h in o.headers() if h[0] == 1 and h[3] <= address - o.address < h[3] + h[5])


class Circle(Core):
    """A list of code objects that has no end: @links are (name of the object or none, number of the next)."""
    links = []

    def runtime_memory(self):
        base = cores.RUNTIME
        names = b"file:///x.co\0"
        pieces = [(0, struct.pack("<i4xQQi4xQ", 10, base + 64, 0, 0, 0)), (4000, names)]
        pieces += [(64 + 40 * n, struct.pack("<5Q", CODE + n, base + 4000 if named else 0, 0, base + 64 + 40 * following, 0))
                   for n, (named, following) in enumerate(self.links)]
        return Memory(base, pieces=pieces)


def test_circles(t, unhang):
    path = unhang.directory / "circle.core"
    for links in ([(1, 0)], [(1, 1), (1, 0)], [(0, 1), (0, 0)], [(0, 0)], [(1, 1), (1, 2), (0, 3), (1, 1)]):
        core = Circle([Agent("gfx906")], [Queue([Wave(CODE + 64)], {0: Packet(CODE)})], r_debug=cores.RUNTIME)
        core.links = links
        core.write(path)
        document, stderr = ask(unhang, "waves", path)
        t.ok(document and len(document["waves"]) == 1 and "in a circle" in stderr, f"a list of code objects in a circle of {len(links)}", stderr)


def test_many_queues(t, unhang):
    """All queues name one save area; the whole is bounded all the same."""
    path = unhang.directory / "many.core"
    core = Core([Agent("gfx906", xccs=64)], [Queue([Wave(CODE, group=(n, 0, 0)) for n in range(200)], {0: Packet(CODE)})])
    note, memories = core.parts()
    entry = bytearray(note[2][-64:])
    area = next(m for m in memories if m.address == cores.SAVES)
    entry[56:60] = struct.pack("<I", len(area.pieces[1][1]) + 2 * cores.PAGE)
    cores.write_elf(path, cores.EM_AMDGPU, [("AMDGPU", 33, core.note([bytes(entry)] * 60000))], memories)
    begin = tap.worked()
    done = unhang.run("queues", path, timeout=600)
    seconds = tap.worked() - begin
    t.ok(not done.returncode and seconds < 20, "sixty thousand queues with the same waves", f"{seconds} s, {done.stderr[-300:]}")


# --- code objects ---

def test_same_bytes_again(t, unhang):
    """Queues whose save areas claim the largest stack there may be: a core cannot make the reader read them all."""
    most = 16 << 20
    header = struct.pack("<4I", cores.PAGE, most, cores.PAGE + most, 0)
    path = unhang.directory / "again.core"

    class Claims(Core):
        def save_areas(self, queue, address):
            area, _ = super().save_areas(queue, address)
            return area, cores.PAGE + 2 * most

    for queues, wanted in ((8, False), (40, True)):
        Claims([Agent("gfx906")], [Queue([Wave(CODE)], {0: Packet(CODE)}, id=n + 1, corrupt={0: header}) for n in range(queues)]).write(path)
        said = unhang.run("waves", "--target", path).stderr.decode()
        t.ok(("256 MB of them: the rest is not read" in said) == wanted and "stack" in said, f"{queues} stacks of 16 MB", said[-600:])


def test_shift_alone(t, unhang):
    """Nothing but the indexes of queues, or the first bytes, tell that bytes lie before their offsets."""
    gpu, host = unhang.directory / "shift.gpu", unhang.directory / "shift.host"
    for first in (b"", b"begin"):
        for pointers in ((0, 0), (69, 71), (7 << 32, (7 << 32) + 64)) if not first else ((0, 0),):
            core = Core([Agent("gfx906")], [Queue([Wave(CODE)], {}, read=pointers[0], write=pointers[1])],
                        memories=[Memory(0x600000000000, pieces=[(0, first + bytes(100) + b"content")])])
            for shifted in (False, True):
                core.write_pair(gpu, host, shifted)
                queues, stderr = ask(unhang, "queues", gpu, host)
                got = queues and [(q["read_index"], q["write_index"]) for q in queues["queues"]]
                told = "bytes before" in stderr
                t.ok(got == [pointers] and (told == shifted or not (first or pointers[1])), f"shifted {shifted}, indexes {pointers}, first bytes {first}", f"{got} {stderr}")
            gpu.write_bytes(gpu.read_bytes()[:-(4 if "4 bytes before" in stderr else 12)])
            queues, stderr = ask(unhang, "queues", gpu, host)
            t.ok("bytes before" in stderr, f"through a pipe, indexes {pointers}, first bytes {first}", stderr)


def test_code(t, unhang, objects):
    directory, gfx = unhang.directory, "gfx90a"
    path, data = directory / "code.core", objects[gfx].read_bytes()
    core = cores.sample(gfx, objects[gfx])
    core.write(path)
    wanted, _ = ask(unhang, "waves", path)
    t.ok(wanted and all(w["kernel_name"] for w in wanted["waves"]), "a code object in a file", wanted)
    core.objects[0].memory = 0x7e0000001230
    core.write(path)
    same_as(t, unhang, wanted, [path], "a code object in the process's memory (memory://)", silent=True)
    core.objects[0].memory = None
    library = unhang.write("library.so", b"x" * 8000 + data + b"y" * 500)
    core.objects[0].uri = f"file://{library}#offset=8000&size={len(data)}"
    core.write(path)
    same_as(t, unhang, wanted, [path], "a code object within a larger file (file://)", silent=True)
    core.objects[0].uri = "file:///nowhere/at/all.co"
    core.write(path)
    same_as(t, unhang, wanted, [path], "a code object that only memory has")
    core.objects = [core.objects[0]] + [dataclasses.replace(core.objects[0], address=0x7f00f0000000 + n * 0x10000) for n in range(3)]
    core.write(path)
    same_as(t, unhang, wanted, [path], "several code objects")


def test_changed_code(t, unhang, objects):
    directory, gfx = unhang.directory, "gfx90a"
    path, data = directory / "changed.core", objects[gfx].read_bytes()
    core = cores.sample(gfx, objects[gfx])
    o = core.objects[0]
    at = o.symbol("copy_rows") + 12
    stomped = bytearray(data)
    stomped[o_offset(o, at):o_offset(o, at) + 4] = b"\xef\xbe\xad\xde"
    o.data = bytes(stomped)
    core.write(path)
    document, stderr = ask(unhang, "waves", path)
    t.ok("code in memory differs" in stderr and hex(at) in stderr and "copy_rows +0xc" in stderr and "0xdeadbeef" in stderr,
         "code that was overwritten: where, and by what", stderr)
    o.data = data
    (directory / "rebuilt").mkdir()
    rebuilt = compile_for(gfx, directory / "rebuilt", SOURCE.replace("copy_rows", "copy_columns_of_it"), "r")
    o.uri = f"file://{rebuilt}"
    core.write(path)
    document, stderr = ask(unhang, "waves", path)
    t.ok("another build" in stderr and document and {w["function"] for w in document["waves"]} <= {*KERNELS, "assert_all"},
         "a file that was built anew is not taken for what ran", f"{stderr}\n{document and [w['function'] for w in document['waves']]}")


def find(path, kernel, mnemonic):
    """(offset in the object, text) of the first such instruction of a kernel, by llvm-objdump."""
    listing = subprocess.run(["llvm-objdump-19", "-d", f"--disassemble-symbols={kernel}", path], capture_output=True, text=True, check=True).stdout
    text, address = next(m.groups() for m in re.finditer(r"^\s+(\S.*?)\s+// ([0-9A-F]+):", listing, flags=re.M) if m.group(1).startswith(mnemonic))
    return int(address, 16), text


def test_packets(t, unhang, objects):
    """The index of a packet counts modulo the ring; what lies in no queue is not made up."""
    path = unhang.directory / "packet.core"
    o = Object(objects["gfx90a"].read_bytes(), CODE, f"file://{objects['gfx90a']}")
    for read, write, packet in ((3, 5, 4), (14, 18, 15), (14, 18, 17), (5, 5, 4), (34, 34, 33), (1 << 40, (1 << 40) + 9, (1 << 40) + 8)):
        wave = Wave(o.symbol("meet"), packet=packet)
        Core([Agent("gfx90a")], [Queue([wave], {packet: Packet(o.symbol("meet.kd"))}, ring_size=1024, read=read, write=write)], [o]).write(path)
        document, stderr = ask(unhang, "waves", path)
        t.same(document and [(w["packet"], w["kernel_name"]) for w in document["waves"]], [(packet, "meet")], f"packet {packet} of {read} to {write}")
    wave = Wave(o.symbol("meet"), packet=1, ttmps={6: 40})
    Core([Agent("gfx90a")], [Queue([wave], {1: Packet(o.symbol("spin_until.kd"))}, ring_size=1024)], [o]).write(path)
    document, stderr = ask(unhang, "waves", path)
    got = document and [(w["packet"], w["dispatch"], w["kernel_name"], w["workgroup"]) for w in document["waves"]]
    t.same(got, [(None, None, "meet", [0, 0, 0])], "a packet outside of its ring is none; the pc names the kernel")
    t.ok("outside of its ring" in stderr, "and it is said", stderr)


def test_barriers(t, unhang, objects):
    """A wave whose pc is behind a barrier waits in it if its status says so, and if there is another to wait for."""
    path = unhang.directory / "barrier.core"
    for gfx in ("gfx90a", "gfx1030"):
        o = Object(objects[gfx].read_bytes(), CODE, f"file://{objects[gfx]}")
        at = CODE + find(objects[gfx], "meet", "s_barrier")[0]
        rows = []
        for pc, inside, waves in ((at, 0, 2), (at, 0, 1), (at + 4, 1 << 12, 2), (at + 4, 0, 2), (at + 4, 0, 1)):
            group = [Wave(pc, packet=1, wave_in_group=n, status=inside) for n in range(waves)]
            Core([Agent(gfx)], [Queue(group, {1: Packet(o.symbol("meet.kd"))})], [o]).write(path)
            document, _ = ask(unhang, "waves", path)
            rows.append("barrier" in (document["waves"][0]["waits_for"] or ""))
        t.same(rows, [True, False, True, False, False], f"{gfx}: who waits at a barrier")


def test_addresses(t, unhang, objects):
    """The address of each lane, for the instruction at the pc; shared VGPRs."""
    path = unhang.directory / "address.core"
    for gfx, wave32 in (("gfx90a", False), ("gfx942", False), ("gfx1030", True)):
        o = Object(objects[gfx].read_bytes(), CODE, f"file://{objects[gfx]}")
        offset, text = find(objects[gfx], "copy_rows", "global_load")
        low = int(re.search(r"v\[(\d+):\d+\], off", text).group(1))
        lanes = 32 if wave32 else 64
        wanted = [0x7f3300000000 + 64 * lane for lane in range(lanes)]
        wave = Wave(CODE + offset, packet=1, wave32=wave32, exec=(1 << lanes) - 1 & ~2,
                    vgprs={low: [a & WORD for a in wanted], low + 1: [a >> 32 for a in wanted]})
        Core([Agent(gfx)], [Queue([wave], {1: Packet(o.symbol("copy_rows.kd"))})], [o]).write(path)
        document, _ = ask(unhang, "waves", path)
        t.same(document["waves"][0]["effective_addresses"], [None if lane == 1 else hex(a) for lane, a in enumerate(wanted)], f"{gfx}: the address of each lane")
    cores.Core([Agent("gfx1030")], [Queue([Wave(CODE, packet=1, shared=16, vgpr_count=8)], {1: Packet(CODE)})]).write(path)
    document, _ = ask(unhang, "waves", path)
    got = document["waves"][0]
    t.same((got["vgpr_count"], got["shared_vgpr_count"], [len(r) for r in got["shared_vgprs"]]), (8, 16, [32] * 16), "VGPRs that the halves of a wave share")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not shutil.which("clang-19"):
        tap.skip_all("no clang-19 to compile code objects with")
    objects = {gfx: compile_for(gfx, unhang.directory) for gfx in PARTS}
    test_parts(t, unhang, objects)
    test_forms(t, unhang, objects)
    test_lone(t, unhang, objects)
    test_cut(t, unhang, objects)
    test_oddities(t, unhang, objects)
    test_orphan(t, unhang)
    test_unset(t, unhang, objects)
    test_traps(t, unhang, objects)
    test_packets(t, unhang, objects)
    test_barriers(t, unhang, objects)
    test_addresses(t, unhang, objects)
    test_circles(t, unhang)
    test_many_queues(t, unhang)
    test_same_bytes_again(t, unhang)
    test_shift_alone(t, unhang)
    test_code(t, unhang, objects)
    test_changed_code(t, unhang, objects)
    t.end()


if __name__ == "__main__":
    main()
