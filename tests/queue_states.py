#!/usr/bin/env python3
"""What each queue, ring and wave does: `queues`, `waves`, `rings` and the look say the same of emulated machines, and only read."""
import fnmatch
import json
import sys

import emulated
import tap

BUSY = """    busy 100
    power 60
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    register  GRBM_STATUS2.CPC_BUSY = 1
    register  GRBM_STATUS2.CPF_BUSY = 1
    register  CP_CPC_STATUS.CPC_BUSY = 1
"""
# Code of gfx1100: a loop that polls v[0:1], one that counts in s12, and a wait for a load.
CODE = """    map 8 0x7f0000100000 vram 0x100000 8K
    virtual 8 0x7f0000100000 0xdc526000 0x27c0000 0xbf8903f7 0x7c940480 0xbfa4fffb 0xbfb00000
    virtual 8 0x7f0000100100 0x810c810c 0xbf0a0d0c 0xbfa2fffd 0xbfb00000
    virtual 8 0x7f0000100200 0xdc520000 0x27c0000 0xbf8903f7 0xbfb00000
    virtual 8 0x7f0000101000 0x7 0
"""
SMALL = "    shaders ses 1 shs 1 cus 2\n"
POLL = "    wave 4 pc cycle 0.0031 0x7f0000100000 0x7f0000100008 0x7f000010000c vmid 8 queue 2 vgpr 0 0x101000 vgpr 1 0x7f00\n"
COUNT = "    wave 4 pc cycle 0.0031 0x7f0000100100 0x7f0000100104 0x7f0000100108 vmid 8 queue 2 sgpr 12 count 5 1 0.002\n"
AWAIT = "    wave 4 pc 0x7f0000100208 vmid 8 queue 2\n"
WORK = "    wave 8 pc cycle 0.0031 0x7f2210004100 0x7f2210007104 0x7f2210005218 0x7f2210009330 vmid {} queue {}\n"
MOVES = "rptr count 40 1 0.01 wptr count 44 1 0.01"


def queue(pci, number=1, ring=0x7f2200000000, rptr="rptr 41 wptr 43", more="place 1.0.2 vmid 8"):
    return f"    queue {number} gpu {pci} ring {ring:#x} size 0x1000 {rptr} {more}\n    packet {number} 41 dispatch kernel 0x7f2210000440 args 0 grid 256 1 1 group 64 1 1 signal 0x7f2230000000\n"


def machine():
    """GPUs with a situation each: (name, statements of the GPU, blocks of processes, what is expected of its queues and rings)."""
    barrier = "    packet 2 41 barrier-and signal {}\n    memory 0x7f2230000000 1 0 1 0\n    memory 0x7f2230000040 1 0 1 0\n"
    second = "    queue 2 gpu {pci} ring 0x7f2300000000 size 0x1000 rptr 41 wptr 42 place 1.1.2 vmid 8\n"
    circle = "    queue {1} gpu {0} ring {2} size 0x1000 rptr 41 wptr 43 place 1.{1}.2 vmid 8\n    packet {1} 41 barrier-and signal {3}\n    packet {1} 42 barrier-and signal {4} done {4}\n"
    user = "    map 0 0x7fff00000000 system 0x200000000 1M\n    map 9 0x7a0000000000 vram 0x200000 128K\n    virtual 0 0x7fff00000220 " \
           "0xa0000100 0x7a 0 0x80 0x7a00 0x88 0x7a00 0x80 0 9\n    virtual 9 0x7a0000000080 {} 0 {} 0\n"
    return [
        ("polls", "gfx1100", SMALL + BUSY + CODE + POLL, "process {n}\n" + queue("{pci}") + second + barrier.format("0x7f2230000000"),
         {"1": ("stuck", "0x7f0000101000 again and again, which stays 0x7"), "2": ("waits", "packet 41 of queue 1")}),
        ("counts", "gfx1100", SMALL + BUSY + CODE + COUNT, "process {n}\n" + queue("{pci}"), {"1": ("works", "s12 grows")}),
        ("two", "gfx906", SMALL + BUSY + "    wave 4 pc 0x7f0000100000 vmid 8 queue 2\n" + WORK.format(9, 3), "process {n}\n" + queue("{pci}") + "process {n}b\n" +
         queue("{pci}", 1, rptr=MOVES, more="place 1.0.3 vmid 9"), {"two1": ("stuck", "none of its 4 waves moved"), "twob1": ("works", "it moved on")}),
        ("stopped", "gfx1030", SMALL + BUSY + "    wave 4 pc 0x7f0000100000 vmid 8 queue 2\n", "process {n}\n    stopped\n" + queue("{pci}"), {"1": ("waits", "is stopped by a signal")}),
        ("circle", "gfx90a", "", "process {n}\n" + circle.format("{pci}", 1, "0x7f2200000000", "0x7f2230000040", "0x7f2230000000") +
         circle.format("{pci}", 2, "0x7f2300000000", "0x7f2230000000", "0x7f2230000040") + "    memory 0x7f2230000000 1 0 1 0\n    memory 0x7f2230000040 1 0 1 0\n",
         {"1": ("stuck", "packet 42 of queue 2, which waits for this queue"), "2": ("stuck", "packet 42 of queue 1")}),
        ("empty", "gfx1201", "", "process {n}\n" + queue("{pci}", rptr="rptr 43 wptr 43"), {"1": ("idle", "nothing waits in it")}),
        ("cpx", "gfx942", "    shaders xccs 2 ses 1 cus 1\n    partition CPX NPS4\n" + BUSY + "    wave 4 xcc 0 pc 0x7f0000100000 vmid 8 queue 2\n" +
         WORK.format(8, 2).replace("wave 8", "wave 8 xcc 1"), "process {n}\n" + queue("{pci}", more="place 1.0.2 vmid 8 xcc 0") + "process {n}b\n" +
         queue("{pci}", rptr=MOVES, more="place 1.0.2 vmid 8 xcc 1"), {"cpx1": ("stuck", "none of its 4 waves moved"), "cpxb1": ("works", "it moved on")}),
        ("taken", "gfx90a", SMALL + BUSY + "    wave 4 pc 0x7f0000100000 vmid 8 queue 2\n", "process {n}\n" + queue("{pci}", rptr="rptr 43 wptr 43"),
         {"1": ("stuck", "none of its 4 waves moved")}),
        ("last", "gfx90a", SMALL + BUSY + WORK.format(8, 2), "process {n}\n" + queue("{pci}", rptr="rptr 43 wptr 43"), {"1": ("works", "its waves move")}),
        ("gathers", "gfx1201", SMALL + BUSY + "    map 8 0x7f0000100000 vram 0x100000 8K\n    virtual 8 0x7f0000100000 0xbe804ec1 0xbf94ffff 0xbfb00000\n" +
         "    wave 4 pc 0x7f0000100004 vmid 8 queue 2\n", "process {n}\n" + queue("{pci}"), {"1": ("stuck", "stuck at a barrier")}),
        ("copies", "gfx1100", "    register  SDMA0_STATUS_REG.IDLE = 0\n    ring sdma0 rptr 0x40 wptr 0x80\n    packets sdma0 at 0x40 0xb0000008 0x00201000 0x00007f00 0x3 0xffffffff 0x0fff000a\n",
         "", {"ring sdma0": ("stuck", "waits for memory at 0x7f0000201000 to equal 3")}),
        ("client", "gfx1100", user.format(16, 48), "process {n}\n    opens {pci}\n    user-queue 1 gpu {pci} type gfx mqd 0x7fff00000000 vmid 9\n", {"1": ("unknown", "may wait for another program")}),
        ("clientmoves", "gfx1201", user.format("count 16 1 0.0001", "count 48 1 0.0001"), "process {n}\n    opens {pci}\n    user-queue 1 gpu {pci} type gfx mqd 0x7fff00000000 vmid 9\n",
         {"1": ("works", "it moved on")}),
        ("host", "gfx908", "", "process {n}\n    queue 2 gpu {pci} ring 0x7f2200000000 size 0x1000 rptr 41 wptr 42 place 1.0.2 vmid 8\n" + barrier.format("0x7f2230000040"),
         {"2": ("waits", "the program itself or another device has to")}),
        ("away", "gfx1010", WORK.format(9, 3) + SMALL + BUSY + "    hqd 7 CP_HQD_ACTIVE 0\n", "process {n}\n" + queue("{pci}", 7) + "process {n}b\n" + queue("{pci}", rptr=MOVES, more="place 1.0.3 vmid 9"),
         {"away7": ("waits", "not on the GPU at this moment"), "awayb1": ("works", "it moved on")}),
        ("memory", "gfx1100", SMALL + BUSY + CODE + AWAIT + "    register GRBM_STATUS.TA_BUSY = 1\n    register GRBM_STATUS2.TCP_BUSY = 1\n", "process {n}\n" + queue("{pci}"),
         {"1": ("stuck", "most wait for vector memory accesses (vmcnt 0); stuck at the memory path")}),
        ("lost", "gfx1100", SMALL + BUSY + CODE + AWAIT, "process {n}\n" + queue("{pci}"), {"1": ("stuck", "though the path to memory is idle")}),
        ("other", "gfx1100", SMALL + BUSY + CODE + AWAIT.replace("0x7f0000100208", "0x7f000010020c") + "    register GRBM_STATUS2.TCP_BUSY = 1\n", "process {n}\n" + queue("{pci}"),
         {"1": ("stuck", "stuck at the shader cores")}),
    ]


def scenario(cases):
    text = "scenario states\n    title Queues that do what they do\n\n"
    for i, (name, part, gpu, rest, _) in enumerate(cases):
        pci = f"0000:{3 + 8 * i:02x}:00.0"
        text += f"gpu {pci}\n    part {part}\n{gpu}\n" + rest.replace("{pci}", pci).replace("{n}", name)
    return text


def key(process, number, wanted):
    return str(number) if str(number) in wanted else f"{process}{number}"


def check(t, who, name, found, wanted):
    """@found: key to (state, reason)."""
    for k, (state, words) in wanted.items():
        got = found.get(k, (None, ""))
        t.ok(got[0] == state and words in (got[1] or ""), f"{who}: {name}: {k} {state}: {words}", f"{got} of {sorted(found)}")


def test_all(t, unhang):
    cases = machine()
    path = unhang.write("states.scenario", scenario(cases))
    pci = {name: f"0000:{3 + 8 * i:02x}:00.0" for i, (name, *_) in enumerate(cases)}
    queues = emulated.document(t, emulated.inside(unhang, path, "queues", "--json"), "queues", "queues as JSON")
    look = emulated.document(t, emulated.inside(unhang, path, "live", "--json"), "diagnosis", "the look as JSON", 1)
    rings = emulated.document(t, emulated.inside(unhang, path, "rings", "--json", "--gpu", pci["copies"]), "rings", "rings as JSON")
    gpus = {g["pci"]: g for g in look.get("machine", {}).get("gpus", [])}
    for name, _, _, _, wanted in cases:
        own = {k: v for k, v in wanted.items() if not k.startswith("ring")}
        found = {key(p["process"], q["id"], wanted): (q["verdict"]["state"], q["verdict"]["reason"]) for p in queues.get("targets", []) if p["process"] in (name, name + "b") for q in p["queues"]}
        found |= {key(u["process"], u["id"], wanted): (u["verdict"]["state"], u["verdict"]["reason"]) for u in queues.get("user_queues", []) if u["process"] == name}
        check(t, "queues", name, found, own)
        seen = {f"ring {q['ring']}" if q["ring"] else key(q["process"], q["id"], wanted): (q["state"], q["reason"]) for q in gpus.get(pci[name], {}).get("queues", [])}
        check(t, "the look", name, seen, {k: v for k, v in wanted.items() if v[0] != "idle"})
        t.same({k: v[0] for k, v in found.items()}, {k: v[0] for k, v in wanted.items() if k in found}, f"{name}: nothing else")
    told = {r["name"]: r["verdict"] for g in rings.get("gpus", []) for r in g["rings"]}
    check(t, "rings", "copies", {f"ring {k}": (v["state"], v["reason"]) for k, v in told.items() if v}, dict(next(c[4] for c in cases if c[0] == "copies")))
    t.same([k for k, v in told.items() if v], ["sdma0"], "rings: only one that stands has a verdict")
    hung = {name for name, *_, wanted in cases if any(v[0] == "stuck" for v in wanted.values())}
    t.same({name for name in pci if gpus.get(pci[name], {}).get("health") == "hung"}, hung, "a GPU is hung where something on it is stuck, and nowhere else")
    said = " ".join(emulated.inside(unhang, path).stdout.decode().split())
    t.ok("stopped (6) is stopped by a signal or a debugger" in said and "more GPU with a hint (unhang -v)" in said, "of many GPUs the first hints are told, and that there are more", said)
    t.ok("2 GPUs are well: Radeon RX 9070 XT (gfx1201) at" in said and "; in use by empty (8)" in said, "and who uses those that are well", said)
    waves = emulated.document(t, emulated.inside(unhang, path, "waves", "--json"), "waves", "waves as JSON")
    parties = {(p["process"], p["xcc"]): p["verdict"] for p in waves.get("parties", [])}
    want = {("polls", 0): "stuck", ("counts", 0): "works", ("two", 0): "stuck", ("twob", 0): "works", ("stopped", 0): "waits", ("cpx", 0): "stuck", ("cpxb", 1): "works",
            ("taken", 0): "stuck", ("last", 0): "works", ("gathers", 0): "stuck",
            ("awayb", 0): "works", ("memory", 0): "stuck", ("lost", 0): "stuck", ("other", 0): "stuck"}
    t.same({k: v["state"] for k, v in parties.items()}, want, "waves: the same of each program")
    for command in ("queues", "waves", "rings"):
        record = unhang.directory / "record.json"
        unhang.run("emulate", "--record", record, path, "--", unhang.binary, command)
        done = [json.loads(line) for line in record.read_text().splitlines()]
        t.same([d for d in done if d["op"] not in ("open", "read", "ioctl", "close")][:3], [], f"{command}: no write, no waking up")
        opened = {d["path"] for d in done if d["op"] == "open"}
        t.same(sorted(p for p in opened if not any(fnmatch.fnmatch(p, a) for a in [*emulated.ALLOWED, "*/kfd/rls"])), [], f"{command}: no file beyond the list")


def test_guest(t, unhang):
    """Nothing of a virtual function is read: what its queues do is unknown."""
    guest = [("guest", "gfx1100", "    guest\n    device 0x686c revision 0\n", "process {n}\n" + queue("{pci}"), {"1": ("unknown", "could not be looked at")})]
    path, record = unhang.write("guest.scenario", scenario(guest)), unhang.directory / "record.json"
    run = unhang.run("emulate", "--record", record, path, "--", unhang.binary, "queues", "--json")
    queues = emulated.document(t, run, "queues", "queues of a virtual function as JSON")
    check(t, "queues", "guest", {str(q["id"]): (q["verdict"]["state"], q["verdict"]["reason"]) for p in queues.get("targets", []) for q in p["queues"]}, guest[0][4])
    opened = {json.loads(line)["path"].rpartition("/")[2] for line in record.read_text().splitlines() if json.loads(line)["op"] == "open"}
    t.same(sorted(n for n in opened if n.startswith(("amdgpu_regs", "amdgpu_wave", "amdgpu_gpr", "amdgpu_vram", "amdgpu_iomem", "hqds"))), [], "nothing of it is read")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no emulated machine can be made here")
    test_all(t, unhang)
    test_guest(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
