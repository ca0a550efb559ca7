#!/usr/bin/env python3
"""Writes GPU core dumps from a description: what ROCr, the kernel and rocgdb would leave behind of waves that we make up.

A Core has agents, queues with packets and waves, code objects and other memory. Core.write() puts all into one file, as ROCr
does where it can read everything or as rocgdb's gcore does; Core.write_pair() splits it into the GPU's file and the host's."""
import argparse
import dataclasses
import itertools
import pathlib
import struct
from dataclasses import dataclass, field

PAGE = 0x1000
RINGS, QUEUES, SAVES, RUNTIME, HANDLER = (0x7f1000000000, 0x7f2000000000, 0x7f3000000000, 0x7f4000000000, 0x7f5000000000)
PT_LOAD, PT_NOTE = 1, 4
READ, WRITE, EXECUTE = 4, 2, 1
EM_X86_64, EM_AMDGPU = 62, 224

# Why a wave stopped: bits of TRAPSTS, and of MODE that enable them; on gfx12 of EXCP_FLAG_PRIV, EXCP_FLAG_USER, and of TRAP_CTRL
# that enable them; trap id.
REASONS = {
    "none": (0, 0, 0, 0, 0, 0),
    "breakpoint": (0, 0, 0, 0, 0, 1),
    "assert_trap": (0, 0, 0, 0, 0, 2),
    "debug_trap": (0, 0, 0, 0, 0, 3),
    "trap": (0, 0, 0, 0, 0, 5),
    "watchpoint": (1 << 7, 1 << 19, 1 << 0, 0, 1 << 7, 0),
    "memory_violation": (1 << 28 | 1 << 8, 0, 1 << 12 | 1 << 4, 0, 0, 0),
    "address_error": (1 << 8, 0, 1 << 4, 0, 0, 0),
    "illegal_instruction": (1 << 11, 0, 1 << 6, 0, 0, 0),
}
for bit, arithmetic in enumerate(("fp_invalid_operation", "fp_input_denormal", "fp_divide_by_0", "fp_overflow", "fp_underflow",
                                  "fp_inexact", "int_divide_by_0")):
    REASONS[arithmetic] = (1 << bit, 1 << bit + 12, 0, 1 << bit, 1 << bit, 0)


def up(value, unit):
    return -(-value // unit) * unit


class Part:
    """What differs between GPUs in how their waves are saved."""

    def __init__(self, gfx):
        self.gfx = gfx
        self.major, self.minor, self.step = int(gfx[3:-2]), int(gfx[-2], 36), int(gfx[-1], 36)
        self.target_version = self.major * 10000 + self.minor * 100 + self.step
        self.rdna = self.major >= 10
        self.split = self.major == 9 and (self.minor >= 4 or self.step == 10)  # one file of VGPRs and accumulation VGPRs
        self.mi300 = self.major == 9 and self.minor >= 4
        self.has_acc = self.split or gfx == "gfx908"
        self.lds_unit = 1280 if gfx == "gfx950" else 512
        self.lds_shift = 10 if self.rdna else 9
        self.pad = 0 if self.rdna else 64
        self.first, self.last = (12, 29) if self.rdna else (17, 16)
        self.engine = 24 if self.rdna else 9 if self.split else 11  # where the number of the shader engine begins

    def parks(self, r_version):
        """Whether a stopped wave's pc is in its trap registers, its own pointing into the trap handler."""
        if self.major == 9:
            return not self.mi300
        return self.minor < 3 if self.major == 10 else r_version > 8

    def vgpr_unit(self, wave32):
        return 8 if self.rdna and wave32 else 4


@dataclass
class Memory:
    """A mapping; what no piece covers is zero, and a hole in the file. @host: it is in the host's core, not in the GPU's."""
    address: int
    size: int = 0
    pieces: list = field(default_factory=list)  # (offset, bytes)
    flags: int = READ | WRITE
    host: bool = False
    name: str = ""          # of the file it maps, for the host's list of files
    absent: bool = False    # it has a program header, but no bytes in the file

    def __post_init__(self):
        self.size = up(max([self.size, 1] + [offset + len(data) for offset, data in self.pieces]), PAGE)


@dataclass
class Packet:
    kernel: int             # address of the kernel descriptor
    grid: tuple = (64, 1, 1)
    group: tuple = (64, 1, 1)
    kernarg: int = 0
    private: int = 0
    lds: int = 0
    signal: int = 0
    type: int = 2
    header: int = 0x1500    # barrier, both fences at system scope

    def pack(self):
        return struct.pack("<HHHHHHIIIIIQQQQ", self.header | self.type, 3 if self.grid[2] > 1 else 2 if self.grid[1] > 1 else 1,
                           *self.group, 0, *self.grid, self.private, self.lds, self.kernel, self.kernarg, 0, self.signal)


@dataclass
class Wave:
    pc: int
    exec: int = None        # all lanes
    group: tuple = (0, 0, 0)
    wave_in_group: int = 0
    packet: int = 0         # its number since the queue was made
    sgprs: dict = field(default_factory=dict)
    vgprs: dict = field(default_factory=dict)  # register: a value for all lanes, or a list of one for each
    acc: dict = field(default_factory=dict)
    shared: int = 0         # shared VGPRs, a multiple of 8
    lds: bytes = b""        # of the workgroup; those of its first wave are saved
    lds_size: int = 0       # where it is more
    lds_whole: bool = False  # gfx12: it took a whole WGP over, with all of its LDS
    reason: str = ""        # names in REASONS, joined by |; empty: it was running
    wave32: bool = False
    vcc: int = 0
    m0: int = 0
    flat_scratch: int = 0
    status: int = 0         # beside what the reason sets; STATE_PRIV on gfx12
    mode: int = 0
    sgpr_count: int = 112
    vgpr_count: int = None
    acc_count: int = None
    xcc: int = 0
    engine: int = 0
    ttmps_set: bool = True  # False: nobody knows its workgroup and packet
    ttmps: dict = field(default_factory=dict)   # these and the next override what was worked out
    hwregs: dict = field(default_factory=dict)

    @property
    def lanes(self):
        return 32 if self.wave32 else 64


@dataclass
class Agent:
    gfx: str
    gpu_id: int = 1
    xccs: int = 1
    ttmps_valid: bool = True
    exceptions: int = 0
    entry_size: int = 120
    fields: dict = field(default_factory=dict)  # of the entry, by name

    def pack(self):
        values = dict(exceptions=self.exceptions, lds_base=1 << 48, lds_limit=(1 << 48) + 0xffffffff, scratch_base=2 << 48,
                      scratch_limit=(2 << 48) + 0xffffffff, gpuvm_base=0x4000, gpuvm_limit=(1 << 47) - 1, gpu_id=self.gpu_id,
                      location=0x300, vendor=0x1002, device=0x740f, revision=1, subsystem_vendor=0x1002,
                      subsystem_device=0x0c34, firmware=78, version=Part(self.gfx).target_version, simds=440, waves_per_simd=8,
                      arrays=8, arrays_per_engine=1, xccs=self.xccs, capability=0x20008000,
                      debug=0x400 if self.ttmps_valid else 0)
        values.update(self.fields)
        return struct.pack("<7Q16I", *values.values()).ljust(self.entry_size, b"\0")


@dataclass
class Queue:
    waves: list = field(default_factory=list)
    packets: dict = field(default_factory=dict)  # number since the queue was made: Packet, or 64 bytes
    gpu_id: int = 1
    id: int = 0
    type: int = 2           # 0 PM4, 1 SDMA, 2 AQL, 3 XGMI SDMA
    ring_size: int = 4096
    read: int = None
    write: int = None
    exceptions: int = 1 << 30  # a bit for each code less one; this one: new
    save_on_host: bool = True
    corrupt: dict = field(default_factory=dict)  # offset in the first save area: bytes

    def pointers(self):
        numbers = sorted(self.packets) or [0]
        read = numbers[0] if self.read is None else self.read
        return read, (numbers[-1] + 1 if self.write is None else self.write)


@dataclass
class Object:
    """A code object loaded at @address. @memory: where the file itself lies in the process, for a memory:// URI."""
    data: bytes
    address: int
    uri: str = ""
    memory: int = None
    mapped: bool = True

    def headers(self):
        offset, size, count = struct.unpack_from("<Q", self.data, 32)[0], *struct.unpack_from("<HH", self.data, 54)
        return [struct.unpack_from("<IIQQQQQQ", self.data, offset + i * size) for i in range(count)]

    def memories(self):
        loads = [h for h in self.headers() if h[0] == PT_LOAD] if self.mapped else []
        if loads:
            # One allocation, as the loader makes it: segments may share a page.
            end = max(h[3] + h[6] for h in loads)
            yield Memory(self.address, end, [(h[3], self.data[h[2]:h[2] + h[5]]) for h in loads], READ | WRITE | EXECUTE)
        if self.memory is not None:
            yield Memory(self.memory & -PAGE, pieces=[(self.memory % PAGE, self.data)], host=True)

    def name(self, pid):
        if self.memory is not None:
            return f"memory://{pid}#offset={self.memory:#x}&size={len(self.data)}"
        return self.uri

    def symbol(self, name):
        """The address where @name is loaded: a function, or a kernel's descriptor (NAME.kd)."""
        offset, count = struct.unpack_from("<Q", self.data, 40)[0], struct.unpack_from("<H", self.data, 60)[0]
        sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * 64) for i in range(count)]
        for section in (s for s in sections if s[1] in (2, 11)):
            strings = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                start = strings + struct.unpack_from("<I", self.data, at)[0]
                if self.data[start:self.data.index(b"\0", start)] == name.encode():
                    return self.address + struct.unpack_from("<Q", self.data, at + 8)[0]
        raise KeyError(name)


def override(registers, values):
    for number, value in values.items():
        registers[number] = value & 0xffffffff
    return registers


def vector(values, count, lanes):
    """Registers 0 to @count - 1 of @lanes lanes each."""
    out = bytearray(count * lanes * 4)
    for number, value in values.items():
        each = [value] * lanes if isinstance(value, int) else list(value) + [0] * (lanes - len(value))
        struct.pack_into(f"<{lanes}I", out, number * lanes * 4, *(v & 0xffffffff for v in each))
    return bytes(out)


class Saved:
    """How one wave is saved on one kind of GPU."""

    def __init__(self, wave, part, ring, r_version):
        self.wave, self.part, self.ring, self.r_version = wave, part, ring, r_version
        self.vgprs = wave.vgpr_count or up(max(wave.vgprs, default=0) + 1, part.vgpr_unit(wave.wave32))
        self.accs = 0
        if part.gfx == "gfx908":
            self.accs = self.vgprs
        elif part.split:
            wanted = max(wave.acc, default=-1) + 1 if wave.acc_count is None else wave.acc_count
            self.accs = up(self.vgprs + wanted, 8) - self.vgprs
        self.sgprs = 128 if part.rdna else wave.sgpr_count
        self.lds = 131072 if wave.lds_whole else up(max(len(wave.lds), wave.lds_size), part.lds_unit)
        named = [REASONS[name] for name in wave.reason.split("|") if name]
        self.stopped = bool(named)
        self.trapsts, self.mode, self.priv, self.user, self.control, self.trap = (
            tuple(max(column) if i == 5 else sum(set(column)) for i, column in enumerate(zip(*named))) if named else (0,) * 6)

    def state(self):
        """The words of the control stack that tell how big this wave is."""
        w = self.wave
        word = 1 << 31 | (1 << 6 if w.lds_whole else self.lds // self.part.lds_unit << self.part.lds_shift)
        if self.part.rdna:
            return [word | w.shared // 8 << 26 | w.wave32 << 24 | self.vgprs // self.part.vgpr_unit(w.wave32) - 1, 0]
        word |= (self.sgprs + 16) // 16 - 1 << 6
        if self.part.split:
            return [word | self.vgprs // 4 - 1 << 24 | (self.vgprs + self.accs) // 8 - 1]
        return [word | self.vgprs // 4 - 1]

    def parked(self):
        return self.stopped and self.part.parks(self.r_version)

    def trap_registers(self):
        w, part, t = self.wave, self.part, [0] * 16
        index = w.packet % self.ring
        t[6] = (self.trap << 25 | 1 << 30 if self.stopped else 0) | (0 if w.ttmps_set else 1 << 31)
        if part.major == 12:
            t[7], t[9] = w.group[1] | w.group[2] << 16, w.group[0]
            t[8] = index | w.wave_in_group << 25 | 1 << 30 | (1 << 31 if self.stopped else 0)
            t[6] &= 0x7fffffff
        else:
            t[8:11] = w.group
            t[11] = w.wave_in_group
            if part.mi300:
                t[11] |= index << 6 | (1 << 31 if self.stopped or not w.ttmps_set else 0)
            else:
                t[6] |= index
        if self.parked():
            t[10 if part.major == 12 else 7] = w.pc & 0xffffffff
            t[11] |= (w.pc >> 32 & 0xffff) << 7
        return override(t, w.ttmps)

    def hardware_registers(self):
        w, part, h = self.wave, self.part, [0] * 16
        pc = HANDLER + 0x100 if self.parked() else w.pc
        lanes = (1 << w.lanes) - 1 if w.exec is None else w.exec
        h[0:5] = w.m0, pc & 0xffffffff, pc >> 32, lanes & 0xffffffff, lanes >> 32
        if part.major == 12:
            h[5] = w.status | (1 << 14 if self.stopped else 0)
            h[6], h[11], h[12], h[13] = self.priv, self.user, self.control, 1 << 16
        else:
            skip_export = self.stopped and self.r_version >= 10 and not part.mi300
            h[5] = w.status | 1 << 16 | (1 << 13 if self.stopped else 0) | (1 << 18 if skip_export else 0)
            h[6] = self.trapsts
        h[8 if part.rdna else 9] = w.mode | (0 if part.major == 12 else self.mode)
        if part.rdna:
            h[9:11] = w.flat_scratch & 0xffffffff, w.flat_scratch >> 32
        return override(h, w.hwregs)

    def scalars(self):
        s = [0] * self.sgprs
        if not s:
            return s
        named = min(108, self.sgprs)
        s[named - 2:named] = self.wave.vcc & 0xffffffff, self.wave.vcc >> 32
        if not self.part.rdna:
            s[named - 6:named - 4] = self.wave.flat_scratch & 0xffffffff, self.wave.flat_scratch >> 32
        return override(s, self.wave.sgprs)

    def block(self, first):
        """Its bytes, from the lowest address on."""
        w = self.wave
        return b"".join((vector(w.vgprs, self.vgprs, w.lanes), bytes(w.shared * 128), vector(w.acc, self.accs, 64),
                         struct.pack(f"<{self.sgprs}I", *self.scalars()), struct.pack("<16I", *self.hardware_registers()),
                         struct.pack("<16I", *self.trap_registers()), w.lds.ljust(self.lds, b"\0") if first else b"",
                         bytes(self.part.pad)))


@dataclass
class Core:
    agents: list
    queues: list = field(default_factory=list)
    objects: list = field(default_factory=list)
    memories: list = field(default_factory=list)
    r_version: int = 10
    kfd: tuple = (1, 17)
    runtime_state: int = 1
    ttmp_setup: int = 1
    note_version: int = 1
    r_debug: int = RUNTIME + 0x40
    r_state: int = 0
    pid: int = 4242
    command: str = "train"

    def save_area(self, queue, part, xcc):
        """One XCC's: (header's numbers, what lies behind it)."""
        saved = [Saved(w, part, queue.ring_size // 64, self.r_version) for w in queue.waves if w.xcc == xcc]
        if not saved:
            return (PAGE, 0, PAGE, 0, PAGE, 0), b""
        words, blocks, state = [0xc0000000, 0], [], None
        groups = [list(g) for _, g in itertools.groupby(saved, lambda s: (s.wave.packet, s.wave.group))]
        for group in groups:
            lds = max(s.lds for s in group)
            for s in group:
                s.lds = lds
                if s.state() != state:
                    state = s.state()
                    words += state
                first, last = s is group[0], s is group[-1]
                words.append(first << part.first | last << part.last | s.wave.engine << part.engine)
                blocks.append(s.block(first))
        stack, state = struct.pack(f"<{len(words)}I", *words), b"".join(reversed(blocks))
        end = PAGE + len(stack) + len(state)
        return (PAGE, len(stack), end, len(state), up(end, 64), 0x400), stack + state

    def save_areas(self, queue, address):
        """(the memory of all XCCs, the size of one area)."""
        agent = next(a for a in self.agents if a.gpu_id == queue.gpu_id)
        areas = [self.save_area(queue, Part(agent.gfx), xcc) for xcc in range(agent.xccs)]
        size = max(up(header[4] + header[5], PAGE) for header, _ in areas)
        pieces = []
        for xcc, (header, data) in enumerate(areas):
            pieces += [(xcc * size, struct.pack("<6IQII", *header, 0, 0, 0)), (xcc * size + PAGE, data)]
        return Memory(address, size * agent.xccs, pieces + list(queue.corrupt.items()), host=queue.save_on_host), size

    def queue_memories(self):
        """(the entries of the note, their memories)."""
        entries, memories = [], []
        for number, queue in enumerate(self.queues):
            ring, own, save = RINGS + (number << 32), QUEUES + (number << 16), SAVES + (number << 32)
            pieces = [(i * 64, struct.pack("<H62x", 1)) for i in range(min(queue.ring_size // 64, 1024))]
            pieces += [(n * 64 % queue.ring_size, p.pack() if isinstance(p, Packet) else p) for n, p in queue.packets.items()]
            area, size = self.save_areas(queue, save) if queue.type == 2 else (None, 0)
            read, write = queue.pointers()
            memories += [Memory(ring, queue.ring_size, pieces),
                         Memory(own, pieces=[(56, struct.pack("<Q", write)), (128, struct.pack("<Q", read))])]
            memories += [area] if area else []
            entries.append(struct.pack("<5Q6I", queue.exceptions, ring, own + 56, own + 128, save if area else 0,
                                       queue.id or number, queue.gpu_id, queue.ring_size, queue.type, size, 0))
        return entries, memories

    def runtime_memory(self):
        """ROCr's list of code objects, which is on the host."""
        base, at = self.r_debug & -PAGE, (self.r_debug & PAGE - 1) + 0x40
        first = base + at if self.objects else 0
        pieces = [(self.r_debug - base, struct.pack("<i4xQQi4xQ", self.r_version, first, 0, self.r_state, 0))]
        names = at + 64 * len(self.objects)
        for i, o in enumerate(self.objects):
            here, name = base + at + 64 * i, o.name(self.pid).encode() + b"\0"
            later = here + 64 if i + 1 < len(self.objects) else 0
            pieces += [(at + 64 * i, struct.pack("<5Q", o.address, base + names, 0, later, here - 64 if i else 0)), (names, name)]
            names += len(name)
        return Memory(base, pieces=pieces, host=True, name="/opt/rocm/lib/libhsa-runtime64.so.1")

    def note(self, entries):
        agents = [a.pack() for a in self.agents]
        return (struct.pack("<QIIQIIII", self.note_version, *self.kfd, 16, len(agents), len(agents[0]) if agents else 120,
                            len(entries), 64)
                + struct.pack("<QII", self.r_debug, self.runtime_state, self.ttmp_setup) + b"".join(agents) + b"".join(entries))

    def parts(self):
        """(the AMDGPU note, every memory)."""
        entries, memories = self.queue_memories()
        for o in self.objects:
            memories += o.memories()
        memories += [self.runtime_memory()] + self.memories
        return ("AMDGPU", 33, self.note(entries)), sorted(memories, key=lambda m: m.address)

    def host_notes(self, memories):
        status = struct.pack("<I8xH18xI300x", 6, 6, self.pid)
        info = struct.pack("<24xI12x16s80s", self.pid, self.command.encode(), self.command.encode())
        files = [m for m in memories if m.name]
        table = struct.pack("<QQ", len(files), PAGE) + b"".join(struct.pack("<3Q", m.address, m.address + m.size, 0) for m in files)
        table += b"".join(m.name.encode() + b"\0" for m in files)
        return [("CORE", 1, status), ("CORE", 3, info), ("CORE", 0x46494c45, table)]

    def write(self, path, merged=False, shifted=False):
        """All in one file: ROCr's own, or @merged as rocgdb's gcore writes it. @shifted: see write_elf()."""
        note, memories = self.parts()
        if merged:
            write_elf(path, EM_X86_64, self.host_notes(memories) + [note], memories)
        else:
            write_elf(path, EM_AMDGPU, [note], memories, shifted)

    def write_pair(self, gpu_path, host_path, shifted=False):
        """ROCr's file, and the kernel's of the same process, where alone are the save areas and the list of code objects."""
        note, memories = self.parts()
        host = [m if m.host else dataclasses.replace(m, absent=True, name="/dev/dri/renderD128") for m in memories]
        write_elf(gpu_path, EM_AMDGPU, [note], [m for m in memories if not m.host], shifted)
        write_elf(host_path, EM_X86_64, self.host_notes(host), host)


def pack_notes(notes):
    out = b""
    for name, kind, desc in notes:
        name = name.encode() + b"\0"
        out += struct.pack("<III", len(name), len(desc), kind)
        out += name.ljust(up(len(name), 4), b"\0") + desc.ljust(up(len(desc), 4), b"\0")
    return out


def write_elf(path, machine, notes, memories, shifted=False):
    """ROCr (EM_AMDGPU) puts section flags into p_flags and shifts into p_align. @shifted: and writes its segments one behind the
    other, though p_offset is rounded up to 16, so that their bytes lie 4 or 12 before it."""
    rocr = machine == EM_AMDGPU
    note, count = pack_notes(notes), len(memories) + 1
    at = 64 + 56 * count
    headers = [struct.pack("<IIQQQQQQ", PT_NOTE, 0, at, 0, 0, len(note), len(note) if rocr else 0, 2 if rocr else 4)]
    places = [(at, [(0, note)])]
    at = end = at + len(note)
    for m in memories:
        size = 0 if m.absent else m.size
        offset = up(at, 16 if rocr else PAGE)
        flags = 2 | (m.flags & WRITE and 1) | (m.flags & EXECUTE and 4) if rocr else m.flags
        headers.append(struct.pack("<IIQQQQQQ", PT_LOAD, flags, offset, m.address, 0, size, m.size, 4 if rocr else PAGE))
        places.append((at if shifted else offset, [] if m.absent else m.pieces))
        at = (at if rocr else offset) + size
        end = offset + size
    with open(path, "wb") as f:
        f.write(struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 64 if rocr else 0, 0, 4, machine, 1, 0, 64, 0, 0, 64, 56,
                            count, 0, 0, 0) + b"".join(headers))
        for place, pieces in places:
            for offset, data in pieces:
                f.seek(place + offset)
                f.write(data)
        f.truncate(max(f.tell(), end))


def sample(gfx, code=None):
    """Two workgroups of two waves on each XCC; one wave faulted, the others ran or waited."""
    part = Part(gfx)
    if code:
        data = pathlib.Path(code).read_bytes()
        o = Object(data, 0x7f0000200000, f"file://{pathlib.Path(code).resolve()}")
        names = [n[:-3] for n in (s.decode() for s in data.split(b"\0") if s.endswith(b".kd") and s.isascii())]
        kernel, pc, objects, memories = o.symbol(names[0] + ".kd"), o.symbol(names[0]) + 8, [o], []
    else:
        kernel, pc = 0x7f0000200040, 0x7f0000201008
        descriptor = struct.pack("<III4xq", 1024, 0, 32, 0x1000 - 0x40)
        nops = struct.pack("<I", 0xbf800000) * 64
        objects, memories = [], [Memory(0x7f0000200000, pieces=[(0x40, descriptor), (0x1000, nops)], flags=READ | EXECUTE)]
    xccs = 2 if part.mi300 else 1
    waves = [Wave(pc + 4 * (n == 3), group=(xcc * 2 + n // 2, 0, 0), wave_in_group=n % 2, packet=70, xcc=xcc, wave32=part.rdna,
                  exec=0xffffffff if part.rdna else 0xffff0000ffff, lds=bytes([n + 1]) * 700, vcc=0x55 + n,
                  sgprs={0: 0x1000 + n, 5: 7}, vgprs={0: list(range(64 if not part.rdna else 32)), 9: 0xabcd0000 + n},
                  acc={3: 0xacc} if part.has_acc else {}, reason="memory_violation" if n == 3 and xcc == 0 else "")
             for xcc in range(xccs) for n in range(4)]
    packets = {69: Packet(kernel), 70: Packet(kernel, (256 * xccs, 1, 1), (128, 1, 1), 0x7f0000300000, lds=1024)}
    return Core([Agent(gfx, 0x1234, xccs)], [Queue(waves, packets, 0x1234, exceptions=1 << 30 | 1 << 4)], objects, memories)


def many(gfx, n):
    """A kernel without code that fills the GPU: one wave of each thousand faulted, the others are at one of 16 places."""
    part = Part(gfx)
    kernel, pc = 0x7f0000200040, 0x7f0000201008
    descriptor, nops = struct.pack("<III4xq", 1024, 0, 32, 0x1000 - 0x40), struct.pack("<I", 0xbf800000) * 64
    waves = [Wave(pc + 4 * (k % 16), group=(k, 0, 0), packet=70, wave32=part.rdna, sgpr_count=16, vgprs={0: list(range(32))},
                  reason="memory_violation" if k % 1000 == 500 else "") for k in range(n)]
    return Core([Agent(gfx, 0x1234)], [Queue(waves, {70: Packet(kernel, (64 * n, 1, 1), (64, 1, 1))}, 0x1234, exceptions=1 << 30)], [],
                [Memory(0x7f0000200000, pieces=[(0x40, descriptor), (0x1000, nops)], flags=READ | EXECUTE)])


def small(gfx):
    """The least that has everything: a workgroup of two waves, one of which stopped at a trap, and a list of two code objects."""
    part, kernel = Part(gfx), 0x7f0000200000
    code = struct.pack("<III4xq", 64, 0, 32, 64).ljust(64, b"\0") + struct.pack("<2I", 0xbf900002 if part.major > 10 else 0xbf920002, 0xbf810000)
    waves = [Wave(kernel + 64 + 4 * n, wave_in_group=n, packet=5, wave32=part.rdna, sgpr_count=16, acc_count=4, lds=b"shared" if n == 0 else b"",
                  vgprs={0: list(range(32))}, reason="assert_trap" if n else "") for n in range(2)]
    objects = [Object(bytes(64), 0x7f0000200000 + n, f"file:///k{n}.co", mapped=False) for n in range(2)]
    return Core([Agent(gfx, 1)], [Queue(waves, {5: Packet(kernel)}, ring_size=128)], objects, [Memory(kernel, pieces=[(0, code)])])


def main():
    global PAGE
    arguments = argparse.ArgumentParser(description="Write a sample of a GPU core.")
    arguments.add_argument("out")
    arguments.add_argument("--gfx", default="gfx942")
    arguments.add_argument("--code", help="a code object whose first kernel runs")
    arguments.add_argument("--host", help="write the host's core to this file")
    arguments.add_argument("--merged", action="store_true", help="as rocgdb's gcore")
    arguments.add_argument("--shifted", action="store_true", help="with bytes that lie before p_offset")
    arguments.add_argument("--small", action="store_true", help="a few KB, for tests that change every byte")
    arguments.add_argument("--hole", type=int, default=0, metavar="GB", help="with so much empty memory")
    arguments.add_argument("--waves", type=int, metavar="N", help="with so many waves")
    given = arguments.parse_args()
    PAGE = 64 if given.small else PAGE
    core = small(given.gfx) if given.small else many(given.gfx, given.waves) if given.waves else sample(given.gfx, given.code)
    if given.hole:
        core.memories.append(Memory(0x600000000000, given.hole << 30))
    if given.host:
        core.write_pair(given.out, given.host, given.shifted)
    else:
        core.write(given.out, given.merged, given.shifted)


if __name__ == "__main__":
    main()
