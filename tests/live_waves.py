#!/usr/bin/env python3
"""`unhang waves` of emulated GPUs: every wave that a scenario puts on a GPU, at its place and in its state."""
import collections
import fnmatch
import json
import struct
import sys

import emulated
import tap

SCENARIO = """scenario waves
    title  Waves that a test has set

gpu 0000:03:00.0
    part  gfx1100
    shaders ses 3 shs 1 cus 2
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  xcc 0 se 1 sh 0 cu 0 simd 1 slot 3 pc 0x7f0000001040 exec 0xff vmid 8
    wave  6 pc cycle 0.013 0x7f0000002000 0x7f0000002008 0x7f0000002010 0x7f0000002018 vmid 9
    wave  se 2 pc 0x7f0000001100 barrier
    wave  se 2 pc 0x7f0000001200 halted
    wave  se 2 pc 0x7f0000001300 trapped
    wave  se 2 pc 0x7f0000001400 idle

gpu 0000:43:00.0
    part  gfx1100
    state suspended

gpu 0000:83:00.0
    part  gfx942
    shaders xccs 6 ses 1 cus 1
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  4 xcc 5 pc 0x7f0000003000
"""


def test_states(t, unhang, scenario):
    run = emulated.inside(unhang, scenario, "waves", "--json", "--gpu", "0000:03:00.0", "--sample", "4")
    document = emulated.document(t, run, "waves", "an emulated GPU as JSON")
    waves = document.get("waves", [])
    t.same(len(waves), 11, "every wave of the scenario is told")
    states = {w["pc"]: w["state"] for w in waves if w["moved"] is False}
    t.same(states, {"0x7f0000001040": "running", "0x7f0000001100": "barrier", "0x7f0000001200": "halted", "0x7f0000001300": "trapped",
                    "0x7f0000001400": "idle"}, "waves have their states")
    t.same(sum(bool(w["moved"]) for w in waves), 6, "waves that move are told")
    first = next((w for w in waves if w["pc"] == "0x7f0000001040"), None)
    if t.ok(first, "the wave of a place"):
        place = {k: first["slot"][k] for k in ("sh", "cu", "simd", "slot", "vmid")} | {"xcc": first["xcc"], "se": first["se"]}
        t.same(place, {"sh": 0, "cu": 0, "simd": 1, "slot": 3, "vmid": 8, "xcc": 0, "se": 1}, "a wave has its place")
        t.same((first["exec"], first["lanes"], first["queue"], first["gpu"]), ("0xff", 32, None, "0000:03:00.0"), "a wave has its lanes and GPU")
    run = emulated.inside(unhang, scenario, "waves", "--json", "--gpu", "0000:03:00.0", "--sample", "1", "--registers")
    document = emulated.document(t, run, "waves", "registers as JSON")
    t.same({w["moved"] for w in document.get("waves", [])}, {None}, "one look: whether they move is not known")
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:03:00.0")
    text = run.stdout.decode()
    t.ok(run.returncode == 0 and "11 waves" in text and "barrier" in text, "the text counts waves and names what they wait for", text + run.stderr.decode())
    emulated.only_reads(t, unhang, scenario, ["waves", "--gpu", "0000:03:00.0"], "it only reads")


def test_gpus(t, unhang, scenario):
    run = emulated.inside(unhang, scenario, "waves", "--json")
    document = emulated.document(t, run, "waves", "all GPUs as JSON")
    t.same({g["pci"]: (g["waves"], g["why_not"] is None) for g in document.get("gpus", [])},
           {"0000:03:00.0": (11, True), "0000:43:00.0": (0, False), "0000:83:00.0": (4, True)}, "each GPU, and the one that sleeps")
    t.ok(b"0000:43:00.0" in run.stderr, "why a GPU is not looked at is said", run.stderr)
    t.same(collections.Counter((w["gpu"], w["xcc"]) for w in document.get("waves", []) if w["gpu"] == "0000:83:00.0"), {("0000:83:00.0", 5): 4},
           "waves have their XCC")
    t.same([w["id"] for w in document.get("waves", [])], list(range(1, 16)), "each has a number of its own")
    text = emulated.inside(unhang, scenario, "waves").stdout.decode()
    t.ok("VMID 8, XCC 5: " in text and "VMID 8: " in text, "a GPU of several XCCs: on which one", text)
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:43:00.0")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1 and not run.stdout, "a GPU that sleeps: status 2 and one line", run.stderr)
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:99:00.0")
    t.ok(run.returncode == tap.CANNOT and b"0000:83:00.0" in run.stderr, "a GPU that there is not: those that there are", run.stderr)


CODE_SCENARIO = """scenario code
    title  Waves of one of two processes

gpu 0000:03:00.0
    part  gfx90a
    shaders ses 1 shs 1 cus 1
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  3 pc 0x7f0000101710 vmid 9

process other
    queue 1 gpu 0000:03:00.0 ring 0x7f0000000000 size 4096 rptr 3 wptr 4 place 1.0.1 vmid 8

process train
    queue 2 gpu 0000:03:00.0 ring 0x7f0000000000 size 4096 rptr 3 wptr 4 place 1.0.2 vmid 9
    code 0x7f0000100000 sample-kernel.co
"""


def test_gfxoff(t, unhang):
    """The query keeps GFXOFF away for 100 ms: the registers of many waves take longer, and the gate is opened again on the way."""
    scenario = unhang.write("off.scenario", "gpu 0000:03:00.0\n    part gfx1100\n    state gfxoff\n    register GRBM_STATUS = 0xa0403028\n    wave 400 pc 0x7f0000001040 halted gpr_alloc 0x2000 vgpr 2 77\n")
    record = unhang.directory / "off.record"
    run = unhang.run("emulate", scenario, "--record", record, "--", unhang.binary, "waves", "--json", "--sample", "1", "--registers", "--all")
    waves = emulated.document(t, run, "waves", "GFXOFF: as JSON").get("waves", [])
    t.same((len(waves), {(w["vgprs"] or [[None]] * 3)[2][0] for w in waves}), (400, {"0x4d"}), "GFXOFF: registers of all waves")
    events = [json.loads(line) for line in record.read_text().splitlines()]
    t.ok(sum(e["op"] == "ioctl" and "renderD" in e["path"] for e in events) > 2, "GFXOFF: the gate was opened several times")


def test_lockdown(t, unhang):
    """A kernel that is locked down shows XCC 0 alone: that it has no waves says nothing of the others."""
    scenario = unhang.write("lockdown.scenario", "scenario dark\n    lockdown\n\ngpu 0000:03:00.0\n    part gfx942\n    shaders ses 1 cus 2\n    partition CPX NPS1\n    register xcc 5 GRBM_STATUS.SPI_BUSY = 1\n    wave 12 pc 0x7f0000001000 vmid 8 xcc 5\n")
    run = emulated.inside(unhang, scenario, "waves")
    t.ok(run.returncode == tap.CANNOT and b"7 of its 8 XCCs could not be read" in run.stderr and b"0 waves" not in run.stdout, "XCCs that cannot be read are not without waves", (run.returncode, run.stdout, run.stderr))
    said = emulated.inside(unhang, scenario, "regs").stdout.decode()
    t.ok("nothing on XCC 0-3" in said and "all on XCC 4-7: the kernel refuses it" in " ".join(said.split()), "registers: which XCCs were read", said)


def test_code(t, unhang):
    """Waves belong to the process whose queue has their VMID; its code says which kernel they run."""
    unhang.write("sample-kernel.co", (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes())
    scenario = unhang.write("code.scenario", CODE_SCENARIO)
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", "waves of a process as JSON")
    got = {((w["kernel_name"] or "").partition("(")[0], w["offset"]) for w in document.get("waves", [])}
    t.same(got, {("gather_rows", "0x10")}, "the kernel that they run")
    text = emulated.inside(unhang, scenario, "waves", "--sample", "2").stdout.decode()
    t.ok("  train (3), queue 2: 3 waves\n" in text, "whose they are is told where there is no verdict, too", text)


def test_code_of_nobody(t, unhang):
    """Of two processes neither has the waves' VMID: both are let go, and the code is nobody's."""
    unhang.write("sample-kernel.co", (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes())
    scenario = unhang.write("nobody.scenario", CODE_SCENARIO.replace("0x7f0000101710 vmid 9", "0x7f0000101710 vmid 11"))
    run = emulated.inside(unhang, scenario, "waves", "--json", "--code", tap.HERE / ".." / "docs" / "sample-kernel.co")
    document = emulated.document(t, run, "waves", "waves of no known process as JSON")
    t.same([w["kernel_name"] for w in document.get("waves", [])], [None] * 3, "waves whose process is not known: no kernel")
    t.ok(b"the process of these waves is unknown" in run.stderr, "and it is said", run.stderr)


def loaded(content, base, vmid):
    """Statements that put a code object where the GPU sees it, as the runtime loads it."""
    image = bytearray(0x4000)
    head = struct.unpack_from("<Q", content, 32)[0]
    for i in range(struct.unpack_from("<H", content, 56)[0]):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", content, head + 56 * i)
        if kind == 1:
            image[address:address + size] = content[offset:offset + size]
    lines = [f"    map {vmid} {base:#x} vram 0x100000 {len(image):#x}"]
    for at in range(0, len(image), 64):
        lines.append(f"    virtual {vmid} {base + at:#x} " + " ".join(map(hex, struct.unpack_from("<16I", image, at))))
    return "\n".join(lines) + "\n"


def test_code_of_gpu(t, unhang):
    """Without a process to ask, the code is read where the GPU reads it."""
    code = loaded((tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes(), 0x7f0000100000, 9)
    head = CODE_SCENARIO[:CODE_SCENARIO.index("process other")]
    for name, waves, wanted in (("one VMID", "", {("gather_rows", "0x10")}), ("two VMIDs", "    wave pc 0x7f0000101720 vmid 8\n", {("gather_rows", "0x10"), ("", None)})):
        scenario = unhang.write("gpucode.scenario", head + waves + code)
        document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", f"code in the GPU's memory as JSON: {name}")
        got = {((w["kernel_name"] or "").partition("(")[0], w["offset"]) for w in document.get("waves", [])}
        t.same(got, wanted, f"the kernel, from the GPU's memory: {name}")
    emulated.only_reads(t, unhang, scenario, ["waves"], "reading code only reads")


# Loops of gfx90a: one polls the word at v[0:1], one counts in s12.
POLL = "0xdc518000 0x027f0000 0xbf8c0f70 0x7d940480 0xbf87fffb 0xbf810000"
COUNT = "0x810c810c 0xbf0a0d0c 0xbf85fffd 0xbf810000"
BUSY = "    register  GRBM_STATUS.SPI_BUSY = 1\n    register  GRBM_STATUS.GUI_ACTIVE = 1\n    register  GRBM_STATUS2.CPC_BUSY = 1\n    register  CP_CPC_STATUS.CPC_BUSY = 1\n    busy 100\n"


def by(document, *keys):
    """How many waves have these values."""
    return dict(collections.Counter(tuple(w["slot"]["vmid"] if k == "vmid" else (w[k] or "").partition("(")[0] if k == "kernel_name" else w[k] for k in keys)
                                    for w in document.get("waves", [])))


def test_spaces(t, unhang):
    """The same address is other code in each address space: of two VMIDs, and of one VMID on two XCCs of a GPU in partitions."""
    co = (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes()
    loop = "    map {0} 0x7f0000101000 vram 0x300000 4K\n    virtual {0} 0x7f0000101710 " + POLL + "\n"
    head = "scenario spaces\n    title Two programs\n\ngpu 0000:03:00.0\n"
    two = head + "    part gfx90a\n    shaders ses 1 shs 1 cus 1\n" + BUSY + loaded(co, 0x7f0000100000, 9) + loop.format(8)
    two += "    wave 2 pc 0x7f0000101710 vmid 9\n    wave 3 pc 0x7f0000101710 vmid 8\n"
    document = emulated.document(t, emulated.inside(unhang, unhang.write("two.scenario", two), "waves", "--json"), "waves", "two address spaces as JSON")
    t.same(by(document, "vmid", "kernel_name"), {(9, "gather_rows"): 2, (8, ""): 3}, "each VMID has its own code")
    t.ok(all(w["instruction"].startswith("global_load_dword") for w in document.get("waves", []) if w["slot"]["vmid"] == 8), "code without an object has instructions",
         [w["instruction"] for w in document.get("waves", [])])
    cpx = head + "    part gfx942\n    shaders xccs 2 ses 1 cus 1\n    partition CPX NPS1\n" + BUSY + loaded(co, 0x7f0000100000, 8) + loop.format(9) + "    tables xcc 1 vmid 8 of 9\n"
    cpx += "    wave 2 xcc 0 pc 0x7f0000101710 vmid 8\n    wave 3 xcc 1 pc 0x7f0000101710 vmid 8\n"
    scenario = unhang.write("cpx.scenario", cpx)
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", "partitions as JSON")
    t.same(by(document, "xcc", "kernel_name"), {(0, "gather_rows"): 2, (1, ""): 3}, "in CPX one VMID on two XCCs is two programs")
    paths = emulated.only_reads(t, unhang, scenario, ["waves"], "code of partitions is only read")
    t.same(sorted(p for p in paths if not any(fnmatch.fnmatch(p, a) for a in emulated.ALLOWED)), [], "and no file beyond the list")
    changing = unhang.write("changing.scenario", two.replace("    wave 2 pc", "    register IH_VMID_9_LUT = count 1 1 0.0001\n    wave 2 pc"))
    run = emulated.inside(unhang, changing, "waves", "--json")
    t.same(by(emulated.document(t, run, "waves", "a VMID that changes as JSON"), "vmid", "kernel_name"), {(9, ""): 2, (8, ""): 3}, "a VMID that becomes another's has no code")
    t.ok(b"VMID 9 became another program's" in run.stderr, "and it is said", run.stderr)


PARTS = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1151", "gfx1200",
         "gfx1201")
PROCESS = """process p{index}
    queue 1 gpu {pci} ring 0x7f0000000000 size 4096 rptr {packet} wptr {end} place 1.0.2 vmid 8
    packet 1 {packet} dispatch kernel 0x7f00001005c0 args 0x7f2220000000 grid 4096 2 1 group 128 1 1
    code 0x7f0000100000 sample-kernel.co
"""


def machine_of_parts(more=lambda part: "", packet=70):
    """A GPU of each part, each with a program whose kernel stands."""
    text = "scenario parts\n    title One of each part\n\n"
    for index, part in enumerate(PARTS):
        pci = f"0000:{3 + 16 * index:02x}:00.0"
        text += f"gpu {pci}\n    part {part}\n    shaders {'xccs 1 ' if part in ('gfx942', 'gfx950') else ''}ses 1 shs 1 cus 2\n{BUSY}{more(part)}"
        text += f"    wave 4 pc 0x7f0000101710 vmid 8 queue 2 packet {packet} group 1 1 0 group-waves 2\n\n"
        text += PROCESS.format(index=index, pci=pci, packet=packet, end=packet + 1)
    return text


def test_parts(t, unhang):
    """On every part: the dispatch and workgroup of each wave, where the hardware has written them down, and the kernel on the first screen."""
    setup = lambda part: "    register vmid 8 SPI_GDBG_PER_VMID_CNTL.TRAP_EN = 1\n" if part == "gfx90a" else ""
    scenario = unhang.write("parts.scenario", machine_of_parts(setup))
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", "all parts as JSON")
    groups = [([1, 1, 0], 0), ([1, 1, 0], 1), ([2, 1, 0], 0), ([2, 1, 0], 1)]
    for part in PARTS:
        waves = [w for w in document.get("waves", []) if w["gfx"] == part]
        t.same([(w["queue"], w["packet"], w["workgroup"], w["wave_in_group"], w["kernel_name"].partition("(")[0]) for w in waves], [(1, 70, *g, "gather_rows") for g in groups],
               f"{part}: queue, packet, workgroup and kernel of each wave")
    run = emulated.inside(unhang, scenario, "live", "--json")
    found = emulated.document(t, run, "diagnosis", "the look at all parts as JSON", 1)
    names = {i["gpus"][0]["gfx"]: {f["value"].partition("(")[0] for f in i["facts"] if f["name"] == "kernel_name"} for i in found.get("incidents", [])}
    t.same(names, {part: {"gather_rows"} for part in PARTS}, "the look names the kernel that stands, on all parts")
    said = [i["cause"]["title"] for i in found.get("incidents", [])]
    t.ok(said and all("gather_rows" in title for title in said), "and the first line of its answer does", said)
    unset = lambda part: "    firmware MES 0x40\n" if part.startswith("gfx11") else "    wave 1 pc 0x7f0000101710 vmid 8 queue 2\n"
    scenario = unhang.write("unset.scenario", machine_of_parts(unset))
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", "parts without it as JSON")
    known = {part: sum(w["packet"] is not None for w in document.get("waves", []) if w["gfx"] == part) for part in PARTS}
    t.same(known, {part: 0 if part.startswith("gfx11") or part == "gfx90a" else 4 for part in PARTS}, "what is not set up is not set, and what is left over is not believed")
    said = {gpu: emulated.inside(unhang, scenario, "waves", "--registers", "--gpu", gpu).stdout.decode() for gpu in ("3", "0")}  # MI210 and another
    t.same([("ttmps: not set" in text, "ttmp000:" in text, "(TTMPs) of 5 waves." in text, "(TTMPs) of 1 wave." in text) for text in said.values()],
           [(True, False, True, False), (True, True, False, True)], "and the text says so")
    t.ok(all(w["workgroup"] is None and w["wave_in_group"] is None for w in document.get("waves", []) if w["packet"] is None), "nor its workgroup", document)


def test_wrong_dispatches(t, unhang):
    """What contradicts the packets of the queue is not believed."""
    text = CODE_SCENARIO.replace("part  gfx90a", "part  gfx906").replace("    wave  3 pc 0x7f0000101710 vmid 9\n", "{}")
    text += "    packet 2 3 dispatch kernel 0x7f00001005c0 args 0x7f2220000000 grid 256 1 1 group 64 1 1\n    packet 2 5 barrier-and signal 0x7f0000000040\n"
    good = "    wave 2 pc 0x7f0000101710 vmid 9 queue 2 packet 3\n"
    for name, wave, wanted in (("another packet", "packet 4", 0), ("a barrier", "packet 5", 0), ("a workgroup behind the grid", "packet 3 group 4 0 0", 0),
                               ("a wave that its workgroup has not", "packet 3 group 1 0 0 group-waves 2", 1)):
        scenario = unhang.write("wrong.scenario", text.format(f"    wave 2 pc 0x7f0000101710 vmid 9 queue 2 {wave}\n"))
        document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json", "--sample", "1"), "waves", f"{name} as JSON")
        t.same(sum(w["packet"] is not None for w in document.get("waves", [])), wanted, f"{name} is not believed")
    scenario = unhang.write("wrong.scenario", text.format(good + good.replace("packet 3", "packet 3 group 1 0 0")))
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json", "--sample", "1"), "waves", "two waves that say the same as JSON")
    t.same(sorted(tuple(w["workgroup"] or ()) for w in document.get("waves", [])), [(), (), (0, 0, 0), (2, 0, 0)], "of two waves that say the same, neither is believed")


GRAPHICS = """scenario graphics
    title A shader that polls

gpu 0000:03:00.0
    part gfx1100
    shaders ses 1 shs 1 cus 2
    busy 100
    power 95
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    register  GRBM_STATUS2.CPG_BUSY = 1
    register  IH_VMID_3_LUT = 0x8001
    map      3 0x7f0080000000 vram 0x100000 64K
    virtual  3 0x7f0080000000 0xc0017900 0x100 0x1 0xc0027600 0x8 0x00800080 0x7f 0xc0027600 0xc8 0x00800090 0x7f 0xc0023f00 0x80000200 0x7f00 0x00100007
    virtual  3 0x7f0080000200 0xc003bb00 2 0x004d000c 0x008000a0 0x7f 0xc0012800 0
    virtual  3 0x7f0080008000 0xdc526000 0x27c0000 0xbf8903f7 0x7c940480 0xbfa4fffb 0xbfb00000
    virtual  3 0x7f0080000400 0x55
    ring     gfx_0.0.0 rptr 0x40 wptr 0x44
    packets  gfx_0.0.0 at 0x40 0xc0023f00 0x80000000 0x7f00 0x0300000f
    wave 4 pc cycle 0.003 0x7f0080008000 0x7f0080008008 0x7f008000800c vmid 3 me 0 vgpr 0 0x80000400 vgpr 1 0x7f00
    wave pc 0x7f0080009004 vmid 3 me 0
    wave pc 0x7f0000000004 vmid 3 me 0
process game
    opens 0000:03:00.0
"""


def test_shaders(t, unhang):
    """A shader has no name: it is told by the buffer of commands that sets it, also one that another buffer runs."""
    scenario = unhang.write("graphics.scenario", GRAPHICS)
    run = emulated.inside(unhang, scenario, "waves", "--json")
    document = emulated.document(t, run, "waves", "graphics as JSON")
    shaders = {(w["shader"] or {}).get("stage"): w["shader"] for w in document.get("waves", [])}
    t.same(shaders.get("pixel shader"), {"stage": "pixel shader", "address": "0x7f0080008000", "set_by": "gfx_0.0.0", "buffer": "0x7f0080000000", "word": 3}, "the shader and what set it")
    t.same(sorted(filter(None, shaders)), ["pixel shader", "vertex or geometry shader"], "each has its stage, and code that nothing sets has none")
    parties = document.get("parties", [])
    t.same([(p["process"], p["graphics"], p["vmid"], p["polled_address"], p["polled_value"], p["verdict"]["state"]) for p in parties],
           [("game", True, 3, "0x7f0080000400", "0x55", "stuck")], "whose they are, and the word that they poll")
    text = emulated.inside(unhang, scenario, "waves").stdout.decode()
    t.ok("pixel shader at 0x7f0080008000, set at word 3" in " ".join(text.split()), "the text names it", text)
    look = emulated.inside(unhang, scenario)
    t.ok(b"pixel shader at 0x7f0080008000" in b" ".join(look.stdout.splitlines()[6:8]) and b"game" in look.stdout, "and the first screen does", look.stdout)
    said = " ".join(look.stdout.decode().split())
    t.ok("wait in a loop for memory that does not change" in said and "reads 0x7f0080000400, which stays 0x55" in said, "a loop that polls waits for memory", said)
    blocked = unhang.write("blocked.scenario", GRAPHICS.replace("    busy 100", "    file amdgpu_vram blocks\n    busy 100"))
    said = " ".join(emulated.inside(unhang, blocked).stdout.decode().split())
    t.ok("Shaders run in an endless loop" in said and "does not answer" not in said, "code that cannot be read says nothing of the GPU's state", said)
    emulated.only_reads(t, unhang, scenario, ["waves"], "buffers and shaders are only read")
    guest = unhang.write("guest.scenario", GRAPHICS.replace("    busy 100", "    guest\n    device 0x73ae\n    busy 100"))
    record = unhang.directory / "guest.json"
    run = unhang.run("emulate", "--record", record, guest, "--", unhang.binary, "waves")
    opened = {json.loads(line)["path"].rpartition("/")[2] for line in record.read_text().splitlines() if json.loads(line)["op"] == "open"}
    t.ok(run.returncode == tap.CANNOT and b"virtual function" in run.stderr, "a virtual function is refused", run.stderr)
    t.same(sorted(n for n in opened if n.startswith(("amdgpu_regs", "amdgpu_wave", "amdgpu_gpr", "amdgpu_vram", "amdgpu_iomem", "renderD"))), [], "and nothing of it is read")


def test_loops(t, unhang):
    """A loop that counts and one that polls are told apart."""
    head = "scenario loops\n    title Loops\n\ngpu 0000:03:00.0\n    part gfx90a\n    shaders ses 1 shs 1 cus 1\n    power 60\n" + BUSY
    memory = f"    map 8 0x7f0000101000 vram 0x300000 8K\n    virtual 8 0x7f0000101000 {POLL}\n    virtual 8 0x7f0000101100 {COUNT}\n    virtual 8 0x7f0000102000 0 0\n"
    process = "process train\n    queue 1 gpu 0000:03:00.0 ring 0x7f2200000000 size 4096 rptr 3 wptr 4 place 1.0.2 vmid 8\n"
    poll = "    wave 8 pc cycle 0.0031 0x7f0000101000 0x7f0000101008 0x7f000010100c 0x7f0000101010 vmid 8 queue 2 vgpr 0 0x102000 vgpr 1 0x7f00\n"
    count = "    wave 8 pc cycle 0.0031 0x7f0000101100 0x7f0000101104 0x7f0000101108 vmid 8 queue 2 {} count 100 3 0.001\n"
    for name, waves, wanted in (("polls", poll, (None, "0x7f0000102000", "0x0", "stuck")), ("counts in a scalar register", count.format("sgpr 12"), ("s12 grows", None, None, "works")),
                                ("counts in a vector register", count.format("vgpr 7"), ("v7 grows", None, None, "works"))):
        document = emulated.document(t, emulated.inside(unhang, unhang.write("loop.scenario", head + memory + waves + process), "waves", "--json"), "waves", f"{name} as JSON")
        t.same([(p["counts"], p["polled_address"], p["polled_value"], p["verdict"]["state"]) for p in document.get("parties", [])], [wanted], f"a loop that {name}")
        t.ok(all(name.split()[0] in p["verdict"]["reason"] or "poll" in p["verdict"]["reason"] for p in document.get("parties", [])), f"and it is said: {name}", document.get("parties"))


def test_machine(t, unhang):
    """What a look says of a GPU beside its waves."""
    run = emulated.inside(unhang, tap.HERE / "scenarios" / "dump-left.scenario", "live", "--json")
    (gpu,) = emulated.document(t, run, "diagnosis", "a machine as JSON").get("machine", {}).get("gpus") or [{}]
    wanted = {"pci": "0000:0a:00.0", "name": "Radeon RX 6900 XT", "gfx": "gfx1030", "verdict": "healthy", "health": "idle", "stuck": None, "driver": "amdgpu", "card": 0,
              "render": 128, "busy": 0, "power_mw": 18000, "temperature_mc": 38000, "clock_mhz": 200, "vram_total": 17163091968, "runtime_status": "active",
              "slot": "1", "xgmi_hive": None, "compute_partition": None, "vbios": "113-EMULATED-73BF", "xccs": 1, "guest": False,
              "link": {"speed": "16.0 GT/s PCIe", "width": 16, "max_speed": "16.0 GT/s PCIe", "max_width": 16, "correctable": 0, "nonfatal": 0, "fatal": 0},
              "devcoredump": "/sys/bus/pci/devices/0000:0a:00.0/devcoredump/data"}
    t.same({key: gpu.get(key) for key in wanted}, wanted, "a GPU as it is")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    emulated.refuses(t, unhang, ["waves", "--sample", "0"], ["--sample"], "no look")
    emulated.refuses(t, unhang, ["waves", "--sample", "101"], ["--sample needs a number from 1 to 100, not '101'"], "more looks than may be asked for")
    if not emulated.possible(unhang):
        t.skip("waves of emulated GPUs", "no GPU can be emulated here")
        t.end()
    scenario = unhang.write("waves.scenario", SCENARIO)
    test_machine(t, unhang)
    test_states(t, unhang, scenario)
    test_gpus(t, unhang, scenario)
    test_gfxoff(t, unhang)
    test_lockdown(t, unhang)
    test_code(t, unhang)
    test_code_of_nobody(t, unhang)
    test_code_of_gpu(t, unhang)
    test_spaces(t, unhang)
    test_parts(t, unhang)
    test_wrong_dispatches(t, unhang)
    test_shaders(t, unhang)
    test_loops(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
