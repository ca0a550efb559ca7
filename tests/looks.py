#!/usr/bin/env python3
"""What plain `unhang`, `waves` and `queues` say of emulated machines where they once said something wrong, or more than was read."""
import json
import sys

import emulated
import tap

PCI = "0000:03:00.0"
BUSY = """    busy 100
    register GRBM_STATUS.SPI_BUSY = 1
    register GRBM_STATUS.GUI_ACTIVE = 1
    register GRBM_STATUS2.CPC_BUSY = 1
    register CP_CPC_STATUS.CPC_BUSY = 1
"""
CORE = """GRBM_STATUS GRBM_STATUS2 GRBM_STATUS_SE0 GRBM_STATUS_SE1 GRBM_STATUS_SE2 GRBM_STATUS_SE3 CP_STAT CP_STALLED_STAT1 CP_STALLED_STAT2
    CP_STALLED_STAT3 CP_CPF_STATUS CP_CPF_BUSY_STAT CP_CPF_STALLED_STAT1 CP_CPC_STATUS CP_CPC_BUSY_STAT CP_CPC_STALLED_STAT1 RLC_STAT
    RLC_GPM_STAT CP_MEC1_INSTR_PNTR CP_MEC_ME1_HEADER_DUMP VM_L2_PROTECTION_FAULT_STATUS""".split()
KERNEL = 0x7f3800000000 + 0x5c0  # its descriptor in docs/sample-kernel.co
DEADLOCK = """process train
    queue 1 gpu {pci} ring 0x7f2200000000 size 0x1000 rptr 41 wptr 43
    packet 1 41 barrier-and signal 0x7f2230000000 done 0x7f2230000080
    packet 1 42 dispatch kernel 0x7f2210000440 args 0x7f2220000000 signal 0x7f2230000040
    queue 2 gpu {pci} ring 0x7f2300000000 size 0x1000 rptr 7 wptr 9
    packet 2 7 barrier-and signal {waited}
    packet 2 8 dispatch kernel 0x7f2210000440 args 0x7f2220000000 signal 0x7f2230000000
    memory 0x7f2230000000 1 0 1 0
    memory 0x7f2230000040 1 0 1 0
    memory 0x7f2230000080 1 0 1 0
    memory 0x7f22300000c0 1 0 1 0
    vram {pci} 2G
"""


WORK = "pc cycle 0.003 0x7f0000001000 0x7f0000001c40 0x7f0000002a10 0x7f0000003800 0x7f0000001480"
SPIN = "pc cycle 0.003 0x7f5500001040 0x7f5500001048 0x7f5500001050"
STAND = "pc 0x7f5500001040"
SMALL_LOOP = "pc cycle 0.003 0x7f0000001000 0x7f0000001044 0x7f0000001088 0x7f00000010cc"
SHARED = "    power 290\n    interrupts count 88000 7 0.01\n"


def waves(n, does, vmid=8, more=""):
    """Waves of the program whose queue program() makes with the same VMID."""
    return f"    wave {n} {does} vmid {vmid} me 1 pipe {vmid - 8} queue 2 {more}\n"


def program(name, moves, vmid=8, more="", place=""):
    indexes = "rptr count 4100 1 0.01 wptr count 4103 1 0.01" if moves else "rptr 41 wptr 43"
    packet = "" if moves else "    packet 1 41 dispatch kernel 0x7f2210000440 args 0x7f2220000000\n"
    return f"process {name}\n    queue 1 gpu {PCI} ring {0x7f2200000000 + (vmid << 24):#x} size 0x10000 {indexes} " \
           f"place 1.{vmid - 8}.2 vmid {vmid} {place}\n{packet}    vram {PCI} 2G\n{more}"


class Looks:
    def __init__(self, t, unhang):
        self.t, self.unhang = t, unhang

    def now(self, name, gpu, more="", status=1, record=None):
        """The document of plain unhang."""
        scenario = self.unhang.write(f"{name.replace(' ', '-')}.scenario", f"gpu {PCI}\n{gpu}\n{more}")
        options = ["--record", record] if record else []
        run = self.unhang.run("emulate", *options, scenario, "--", self.unhang.binary, "--json")
        try:
            document = json.loads(run.stdout)
        except ValueError:
            document = {"incidents": [], "machine": {"gpus": [{}]}}
        self.t.same(run.returncode, status, f"{name}: exit status")
        return document

    def first(self, document):
        found = document["incidents"]
        i = found[0] if found else {"cause": {"class": None, "explanation": ""}, "facts": [], "action": {"fault": None}}
        return i | {"class": i["cause"]["class"], "explanation": i["cause"]["explanation"], "fault": i["action"]["fault"]}

    def run(self, name, gpu, *arguments):
        scenario = self.unhang.write(f"{name.replace(' ', '-')}.scenario", f"gpu {PCI}\n{gpu}\n")
        return emulated.inside(self.unhang, scenario, *arguments)


def value(incident, name):
    return next((str(f["value"]) for f in incident["facts"] if f["name"] == name), None)


def test_registers_of_waves(l):
    """What was not read is absent; VGPRs of a wave are counted in fours, whatever its lanes are."""
    t = l.t
    gpu = f"    part gfx1100\n    wave pc 0x7f0000001000 gpr_alloc 0x3000 lds_alloc 0x4000\n{BUSY}"
    run = l.run("lds", gpu, "waves", "--json", "--registers")
    wave = emulated.document(t, run, "waves", "waves of a part with LDS")["waves"][0]
    t.same((wave["lds"], wave["lds_bytes"]), (None, 2048), "LDS has a size, but was not read")
    t.same((wave["lanes"], wave["vgpr_count"], len(wave["vgprs"])), (32, 16, 16), "four VGPRs for each unit of a wave of 32 lanes")
    text = l.run("lds", gpu, "waves", "--registers").stdout.decode()
    t.ok("lds: 2048 bytes; the driver has no file that shows them" in text, "so says the text", text[-400:])
    t.ok("lds 0x" not in text, "and shows no words of it")
    wide = l.run("wide", gpu.replace("0x3000", "0x3000 wave64"), "waves", "--json")
    t.same([w["vgpr_count"] for w in emulated.document(t, wide, "waves", "wave64")["waves"]], [16], "and of 64 lanes")


def test_wide(l):
    """A register of 64 bits has two halves; MI200 has registers at places of its own."""
    t = l.t
    run = l.unhang.run("regs", "--json", "--decode", "umc_6_7_0", "MCA_UMC_UMC0_MCUMC_STATUST0_HI32=0x80000003")
    fields = {f["name"]: f["value"] for r in emulated.document(t, run, "regs", "an upper half")["registers"] for f in r["fields"]}
    t.same((fields.get("Val"), fields.get("ErrCoreId")), (1, 3), "fields of the upper half")
    run = l.run("osssys", "    part gfx90a\n    register osssys.IH_CHICKEN_ALDEBARAN = 0x77\n", "regs", "--json", "osssys.IH_CHICKEN*")
    got = {r["name"]: (r["address"], r["value"]) for r in emulated.document(t, run, "regs", "osssys of MI200")["registers"]}
    t.same(got, {"IH_CHICKEN_ALDEBARAN": (hex(4 * (0x10a0 + 0x18d)), "0x77")}, "MI200 has it at a place of its own")
    run = l.run("sdma", "    part gfx90a\n", "regs", "--json", "SDMA*_STATUS_REG")
    got = [int(r["address"], 16) for r in emulated.document(t, run, "regs", "copy engines of MI200")["registers"]]
    t.same(got, [4 * (base + 0x25) for base in (0x1260, 0x1860, 0x1e000, 0x1e400, 0x1e800)], "each engine of MI200 is where sdma_v4_4.c has it")


def test_ones(l):
    """What reads all ones is gone or gated; its fields say nothing."""
    t = l.t
    ones = "".join(f"    register xcc 5 {name} = 0xffffffff\n" for name in CORE)
    i = l.first(l.now("one XCC", f"    part gfx942\n    shaders ses 1 cus 2\n    busy 100\n{ones}"))
    t.same((i["class"], value(i, "ip_block"), value(i, "xcc")), ("silent-hang", "XCC", "5"), "an XCC that reads all ones does not answer")
    t.ok("UTCL2" not in json.dumps(i) and "all ones" in i["explanation"], "nothing is read out of its fields", i["explanation"])
    stuck = "    ring sdma1 rptr 0x40 wptr 0x80\n    register SDMA1_STATUS_REG = 0xffffffff\n"
    i = l.first(l.now("one engine", f"    part gfx1100\n{stuck}"))
    t.same((value(i, "ip_block"), "all ones" in i["explanation"]), ("SDMA1", True), "a copy engine that reads all ones, and work waits for it")
    l.now("gated engine", "    part gfx1100\n    register SDMA1_STATUS_REG = 0xffffffff\n", status=0)
    hub = "    register mmhub.VM_L2_PROTECTION_FAULT_STATUS = 0xffffffff\n    ring sdma0 rptr 0x40 wptr 0x80\n"
    i = l.first(l.now("hub", f"    part gfx900\n{hub}"))
    t.same(value(i, "ip_block"), "mmhub", "a hub that reads all ones, and a copy waits")


def test_deadlock(l):
    """Queues whose barriers wait for packets behind each other's barriers."""
    t = l.t
    gpu = "    part gfx942\n    shaders ses 1 cus 2"
    i = l.first(l.now("circle", gpu, DEADLOCK.format(pci=PCI, waited="0x7f2230000040")))
    says = value(i, "deadlock_says") or ""
    t.same((i["class"], i["fault"]), ("queue-deadlock", "job"), "a circle of barriers is a deadlock of the program")
    t.ok(all(part in says for part in ("queue 1 stands at packet 41", "packet 8 of queue 2", "queue 2 stands at packet 7", "packet 42 of queue 1")),
         "with its queues and packets", says)
    code = f"    code 0x7f3800000000 {tap.HERE}/../docs/sample-kernel.co\n"
    named = DEADLOCK.format(pci=PCI, waited="0x7f2230000040").replace("kernel 0x7f2210000440", f"kernel {KERNEL:#x}") + code
    says = value(l.first(l.now("kernels", "    part gfx90a\n    shaders ses 1 cus 2", named)), "deadlock_says") or ""
    t.ok("a barrier before gather_rows, that waits for packet 8 of queue 2 (gather_rows)" in says, "and its kernels", says)
    for name, waited in (("no circle", "0x7f22300000c0"), ("its own packet", "0x7f2230000000")):
        i = l.first(l.now(name, gpu, DEADLOCK.format(pci=PCI, waited=waited), status=0 if name == "no circle" else 1))
        t.same(i["class"], None if name == "no circle" else "queue-deadlock", name)


def test_barrier(l):
    """Waves at a barrier wait for those in a loop, and are not in it."""
    t = l.t
    waves = "    wave 48 pc 0x7f0000001100 barrier\n    wave 16 pc cycle 0.003 0x7f0000001040 0x7f0000001048 0x7f0000001050\n"
    queue = f"process train\n    queue 1 gpu {PCI} ring 0x7f2200000000 size 0x1000 rptr 41 wptr 43\n" \
            "    packet 1 41 dispatch kernel 0x7f2210000440 args 0x7f2220000000\n"
    i = l.first(l.now("barrier", f"    part gfx1100\n{waves}{BUSY}", queue))
    got = [value(i, n) for n in ("waves_barrier", "waves", "waves_free", "barrier_pc", "more_loops")]
    t.same(got, ["48", "64", "16", "0x7f0000001100", None], "48 of 64 wait at a barrier for 16 in a loop")
    t.ok(int(value(i, "loop_bytes") or 99) <= 16, "the barrier's place is no part of the loop", value(i, "loop_bytes"))
    t.same(i["class"], "shader-livelock", "the loop is the cause")
    places = "    wave 48 pc 0x7f380000178c barrier\n    wave 16 pc cycle 0.003 0x7f3800001740 0x7f3800001748 0x7f3800001750\n"
    code = f"    code 0x7f3800000000 {tap.HERE}/../docs/sample-kernel.co\n"
    i = l.first(l.now("places", f"    part gfx90a\n{places}{BUSY}", queue + code))
    place = value(i, "barrier_place") or ""  # without libdw there are no source lines
    t.ok((place.endswith("sample-kernel.cpp:14") or place == "gather_rows +0x8c") and value(i, "kernel_name"), "with both places in the code", place)
    few = waves.replace("wave 48", "wave 62").replace("wave 16", "wave 2")
    i = l.first(l.now("few", f"    part gfx1100\n{few}{BUSY}", queue))
    t.same((i["class"], value(i, "waves_free")), ("shader-livelock", "2"), "however few they are")
    still = "    wave 60 pc 0x7f0000001100 barrier\n    wave 4 pc 0x7f0000001040\n"
    i = l.first(l.now("still", f"    part gfx1100\n{still}{BUSY}", queue))
    t.same((i["class"], value(i, "ip_block")), ("silent-hang", "barrier"), "a barrier where nothing moves stays one")


def test_parties(l):
    """A verdict is about one program on one partition: who works, or is stopped, hides no other, and nobody is blamed for another."""
    t, works, work = l.t, program("trainer", True), waves(200, WORK)
    head = f"    part gfx90a\n{BUSY}{SHARED}"
    for name, gpu, more, wanted in (
            ("one works, one stands", work + waves(40, STAND, 9), works + program("app", False, 9), ("silent-hang", "app")),
            ("one works, one loops", work + waves(40, SPIN, 9), works + program("app", False, 9), ("shader-livelock", "app")),
            ("one is stopped, one stands", waves(40, STAND, 8, "halted") + waves(40, STAND, 9), program("gdb", False, 8, "    stopped\n") + program("app", False, 9), ("silent-hang", "app")),
            ("VMIDs that no queue tells", work + waves(40, SPIN, 9), works + program("app", False, 9).replace("vmid 9", "vmid 8"), ("shader-livelock", "app")),
            ("one queue of a program stands", work + waves(40, STAND, 9).replace("vmid 9", "vmid 8"), works + program("", False, 9).replace("queue 1", "queue 2").replace("packet 1", "packet 2").replace("vmid 9", "vmid 8").partition("\n")[2], ("silent-hang", "trainer")),
            ("both work", work + waves(40, WORK, 9), works + program("app", True, 9), None),
            ("one has a long kernel", work + waves(40, WORK, 9), works + program("app", False, 9), None),
            ("one waits for its turn", work, works + program("app", False, 9), None),
            ("a collective waits beside the work", work + waves(32, SPIN, 9).replace("vmid 9", "vmid 8"), works + program("", False, 9).replace("queue 1", "queue 2").replace("packet 1", "packet 2").replace("vmid 9", "vmid 8").partition("\n")[2], None),
            ("one is stopped beside the work", work + waves(40, STAND, 9, "halted"), works + program("gdb", False, 9, "    stopped\n"), None)):
        i = l.first(l.now(name, head + gpu, more, 1 if wanted else 0))
        t.same((i["class"], value(i, "process")) if wanted else i["class"], wanted, name)
    said = " ".join(emulated.inside(l.unhang, l.unhang.directory / "one-works,-one-stands.scenario").stdout.decode().split())
    t.ok("app (3): queue 1 stuck; trainer (2): queue 1 works" in said, "what is stuck is told first", said)
    d = l.now("whose waves they are is not told", head + work + waves(40, STAND), works + program("app", False, 9).replace("vmid 9", "vmid 8"), 0)
    t.ok("queue 1 of app" in (d["machine"]["gpus"][0].get("hint") or ""), "a queue that stands beside the work of others is a hint", d["machine"]["gpus"][0])
    d = l.now("two hang", f"    part gfx90a\n    power 90\n{BUSY}" + waves(40, STAND) + waves(40, SPIN, 9), program("one", False) + program("two", False, 9))
    t.same(sorted({f["value"] for i in d["incidents"] for f in i["facts"] if f["name"] == "process"}), ["one", "two"], "of two that hang both are named")
    d = l.now("two hang, each for itself", f"    part gfx90a\n    power 90\n{BUSY}" + waves(16, STAND, 8, "barrier") + waves(16, STAND, 9, "ib_sts 0x6"), program("bar", False) + program("mem", False, 9))
    roles = sorted((p["name"], p["role"]) for i in d["incidents"] for p in i["processes"])
    t.same(roles, [("bar", "owner"), ("mem", "owner")], "a second hang has a cause of its own")
    said = json.dumps([i["action"] for i in d["incidents"]])
    t.ok("bar (" in said and "mem (" in said, "and the advice names both", said)
    mes = f"    part gfx1100\n    ring mes_3.1.0 rptr 0x40 wptr 0x40\n    register CP_MES_INSTR_PNTR = 0x777\n    register CP_CPC_STATUS.MES_BUSY = 1\n"
    said = json.dumps(l.first(l.now("two wait for MES", mes, program("srv1", False) + program("srv2", False, 9)))["action"])
    t.ok("srv1 (" in said and "srv2 (" in said, "of two that wait for MES both are named", said)


def test_partitions(l):
    """One partition works, another hangs."""
    t = l.t
    for mode, parts, bad, does, wanted in (("CPX", 4, 2, SPIN, "shader-livelock"), ("DPX", 2, 1, STAND, "silent-hang"), ("CPX", 4, None, WORK, None)):
        gpu = f"    part gfx942\n    shaders ses 1 cus 2\n    partition {mode} NPS1\n{BUSY}{SHARED}"
        each = 8 // (8 if mode == "CPX" else 2)
        gpu += "".join(waves(12, does if x // each == bad else WORK, 8, f"xcc {x}") for x in range(parts * each))
        more = "".join(program(f"rank{k}", k != bad, 8, place=f"xcc {k * each}") for k in range(parts))
        i = l.first(l.now(f"{mode} {bad}", gpu, more, 1 if wanted else 0))
        t.same((i["class"], value(i, "process"), value(i, "xcc")) if wanted else i["class"], (wanted, f"rank{bad}", str(bad * each)) if wanted else None,
               f"{mode}: partition {bad} hangs")


def test_neighbours(l):
    """A command processor that hangs is no queue that nobody takes, though other partitions work; and what was not seen does not idle."""
    t = l.t
    gpu = f"    part gfx942\n    shaders ses 1 cus 2\n    partition CPX NPS1\n    busy 60\n{SHARED}" + waves(12, WORK, 8, "xcc 1")
    gpu += "".join(f"    register xcc {x} {r} = 1\n" for x, r in ((1, "GRBM_STATUS.SPI_BUSY"), *((3, r) for r in ("GRBM_STATUS2.CPC_BUSY", "CP_CPC_STATUS.CPC_BUSY", "CP_CPC_STATUS.MEC1_BUSY"))))
    i = l.first(l.now("MEC of a partition", gpu, program("well", True, place="xcc 1") + program("stuck", False, place="xcc 3")))
    t.same((value(i, "ip_block"), value(i, "process"), value(i, "xcc")), ("CPC", "stuck", "3"), "the command processor of a partition hangs beside others that work")
    locked = f"    part gfx942\n    shaders ses 1 cus 2\n    busy 100\n    power 166\n" + waves(8, STAND, 8, "xcc 6")
    locked += "    register xcc 6 GRBM_STATUS.SPI_BUSY = 1\n" + program("app", False)
    scenario = l.unhang.write("locked.scenario", f"scenario locked\n    lockdown\n    title locked\ngpu {PCI}\n{locked}")
    run = emulated.inside(l.unhang, scenario, "live", "--json")
    t.same((run.returncode, json.loads(run.stdout)["incidents"]), (2, []), "a GPU half of whose XCCs were not seen is not called idle")


def test_few_workgroups(l):
    """A kernel need not fill every XCC of its partition: where it has no waves, none are missing."""
    t, shaders = l.t, "    part gfx942\n    shaders ses 1 cus 2\n    busy 100\n    power 600\n"
    busy = "".join(f"    register xcc {{x}} {r} = 1\n" for r in ("GRBM_STATUS.SPI_BUSY", "GRBM_STATUS.GUI_ACTIVE", "GRBM_STATUS2.CPC_BUSY", "CP_CPC_STATUS.CPC_BUSY"))
    waiting = "".join(f"    register xcc {x} {r} = 1\n" for x in range(1, 8) for r in ("GRBM_STATUS2.CPC_BUSY", "CP_CPC_STATUS.CPC_BUSY"))
    for name, mode, xccs, does, more, wanted in (
            ("on one XCC", "SPX", [0], WORK, "", None), ("while the others wait for it", "SPX", [0], WORK, waiting, None),
            ("on all but one", "SPX", range(7), WORK, "", None), ("on one XCC of a partition", "DPX", [4], WORK, "", None),
            ("that stands", "SPX", [2], STAND, "", "silent-hang"), ("on none", "SPX", [], WORK, "", "silent-hang")):
        gpu = f"{shaders}    partition {mode} NPS1\n{more}" + "".join(busy.format(x=x) + waves(8, does, 8, f"xcc {x}") for x in xccs)
        i = l.first(l.now(f"few workgroups {name}", gpu, program("small", False, place="xcc 4" if mode == "DPX" else ""), 1 if wanted else 0))
        t.same((i["class"], value(i, "process")), (wanted, "small" if wanted else None), f"a kernel {name}")


def test_long_kernels(l):
    """A small loop may be a long kernel: without a second sign it is a hint."""
    t, queue = l.t, program("train", False)
    for name, loop, power, hangs in (("at full power", SMALL_LOOP, "cycle 0.3 288 297", False), ("with a counter", SMALL_LOOP, "90", False),
                                     ("with interrupts", SPIN, "90\n    interrupts count 88000 7 0.01", False), ("that waits", SPIN, "90", True), ("that waits, as long", SMALL_LOOP, "90", True)):
        counter = "sgpr 6 count 0 1 0.01" if "counter" in name else ""
        d = l.now(f"loop {name}", f"    part gfx90a\n    power {power}\n{BUSY}{waves(200, loop, 8, counter)}", queue, int(hangs))
        hint = d["machine"]["gpus"][0].get("hint") or ""
        t.same((l.first(d)["class"], "200 waves of train" in hint and "long kernel" in hint), ("shader-livelock" if hangs else None, not hangs), f"a loop {name}")
    for name, power, more in (("bound by memory", "150\n    memory-busy 98", ""), ("beside work", "275\n    interrupts count 48211 1 0.05", program("other", True, 9))):
        # Not in step: whenever a look comes, some are at each end of the loop.
        ends = ("0x7f0000001000", "0x7f0000001014", "0x7f000000102c")
        loops = "".join(waves(n, f"pc cycle 0.003 {' '.join(ends[at:] + ends[:at])}", 8, "sgpr 4 0x1000") for at, n in enumerate((14, 13, 13)))
        d = l.now(f"loop {name}", f"    part gfx908\n    power {power}\n{BUSY}{loops}{waves(40, WORK, 9) if more else ''}", queue + more, 0)
        t.ok("40 waves of train" in (d["machine"]["gpus"][0].get("hint") or ""), f"a loop of 48 bytes {name} is a hint", d["machine"]["gpus"][0])
    limit = "    sysfs hwmon/hwmon2/power1_cap 100000000\n"
    l.now("loop near the limit", f"    part gfx90a\n    power 90\n{limit}{BUSY}{waves(200, SMALL_LOOP)}", queue, 0)


NEIGHBOUR = "0000:04:00.0"


def test_peers(l):
    """Who goes round in a loop may wait: for a neighbour that is stuck, or in a collective for a rank that has not come. Neither is a hang of its own."""
    t = l.t
    code = (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes().replace(b"gather_rows", b"ncclKernel_")
    (l.unhang.directory / "collective.co").write_bytes(code)
    spin = waves(16, "pc cycle 0.003 0x7f3800001740 0x7f3800001748 0x7f3800001750")
    loops = f"    part gfx90a\n    power 90\n{BUSY}{spin}"
    hive = "    sysfs xgmi_hive_info/xgmi_hive_id 4711\n"
    queue = program("rank", False).replace("0x7f2210000440", f"{KERNEL:#x}")

    def neighbour(more, packets="rptr 41 wptr 41"):
        return f"gpu {NEIGHBOUR}\n    part gfx90a\n    power 90\n{more}", f"process late\n    queue 1 gpu {NEIGHBOUR} ring 0x7f2300000000 size 0x10000 {packets} place 1.0.2 vmid 8\n    vram {NEIGHBOUR} 2G\n"

    stuck = neighbour(hive + BUSY + waves(24, "pc 0x7f9900001040", 8, "barrier"), packets="rptr 40 wptr 43")
    for name, (gpu, process), code, wanted, hint in (
            ("a neighbour that is stuck", stuck, "", [("silent-hang", NEIGHBOUR)], f"may wait for late (3) on {NEIGHBOUR}, which is stuck"),
            ("a stranger that is stuck", (stuck[0].replace(hive, ""), stuck[1]), "", [("shader-livelock", PCI), ("silent-hang", NEIGHBOUR)], None),
            ("a neighbour without work", neighbour(hive), "", [("shader-livelock", PCI)], None),
            ("a collective", neighbour(hive), f"    code 0x7f3800000000 {l.unhang.directory}/collective.co\n", [], f"wait in ncclKernel_ for another rank: perhaps late (3) on {NEIGHBOUR}, which has no work there")):
        d = l.now(f"peer {name}", loops + hive, gpu + queue + code + process, int(bool(wanted)))
        t.same(sorted((i["cause"]["class"], i["gpus"][0]["pci"]) for i in d["incidents"]), sorted(wanted), f"{name}: who is to blame")
        said = d["machine"]["gpus"][0].get("hint") or ""
        t.ok(hint in said if hint else "wait" not in said, f"{name}: what is said of the one that loops", said)
        t.same([(q["process"], q["state"]) for q in d["machine"]["gpus"][0].get("queues", [])], [("rank", "waits" if hint else "stuck")], f"{name}: and of its queue")


def test_stopped(l):
    """A program that a signal stopped, with its waves halted, does not hang; an exception that the trap handler holds is told by its name."""
    t, gpu = l.t, f"    part gfx90a\n    power 90\n{BUSY}"
    d = l.now("stopped", gpu + waves(40, STAND, 8, "halted"), program("app", False, 8, "    stopped\n"), 0)
    t.ok("is stopped by a signal or a debugger" in (d["machine"]["gpus"][0].get("hint") or ""), "a stopped program is a hint", d["machine"]["gpus"][0])
    for name, status, wanted in (("ADDRESS_ERROR", 0x100, "memory-aperture-violation"), ("MEMORY_VIOLATION", 0x10000100, "gpu-page-fault-unmapped")):
        i = l.first(l.now(f"trap {name}", gpu + waves(64, STAND, 8, f"trapped trapsts {status:#x}"), program("app", False)))
        t.same((i["class"], value(i, "stop_reason"), i["fault"]), (wanted, name, "job"), f"waves in the trap handler: {name}")


def test_reset_failed(l):
    """A GPU that is stuck after its reset failed needs a reboot, not another reset."""
    gpu = "    part gfx1100\n" + "".join(f"    register {name} = 1\n" for name in ("GRBM_STATUS.GUI_ACTIVE", "GRBM_STATUS.CP_BUSY", "GRBM_STATUS2.CPG_BUSY", "CP_STAT.CP_BUSY")) + "    ring gfx_0.0.0 size 1024 rptr 0x60 wptr 0xa0\n    fence gfx_0.0.0 signaled 700 emitted 702 done 700\n"
    lines = ("err {0}ring gfx_0.0.0 timeout, signaled seq=700, emitted seq=702", "info {0}GPU reset begin!", "info {0}MODE1 reset", "info {0}GPU reset succeeded, trying to resume", "info {0}GPU reset(1) failed",
             "info {0}GPU reset end with ret = -110")
    action = l.first(l.now("reset failed", gpu, "messages\n" + "".join(f"    {50 + n} {line.format(f'amdgpu {PCI}: amdgpu: ')}\n" for n, line in enumerate(lines))))["action"]
    l.t.ok(action["do"] == "reboot" and "then reboot" in action["text"] and "reset it" not in action["text"], "a GPU that is stuck after its reset failed", action)


def test_units(l):
    """Which block is stuck: the memory path, KIQ, a copy engine with what its packet waits for."""
    t, path = l.t, "    register GRBM_STATUS.TA_BUSY = 1\n    register GRBM_STATUS2.TCP_BUSY = 1\n    register GRBM_STATUS2.EA_BUSY = 1\n"
    i = l.first(l.now("memory path", f"    part gfx1100\n{BUSY}{path}{waves(96, STAND)}", program("app", False)))
    t.same((i["class"], value(i, "ip_block")), ("silent-hang", "memory"), "waves that stand while the memory path is busy wait for memory")
    i = l.first(l.now("kiq", "    part gfx90a\n    ring kiq_0.2.1.0 rptr 0x40 wptr 0x80\n"))
    t.same((i["class"], value(i, "ip_block")), ("kiq-unresponsive", "KIQ"), "a ring of KIQ that stands")
    for name, ring, wanted in (("KIQ", "kiq_0.2.1.0", ("kiq-unresponsive", "KIQ")), ("a copy engine", "sdma5", ("sdma-ring-timeout", "SDMA5"))):
        i = l.first(l.now(f"{name} beside work", f"    part gfx908\n{BUSY}{SHARED}    ring {ring} rptr 0x40 wptr 0x60\n{waves(40, WORK)}", program("train", True)))
        t.same((i["class"], value(i, "ip_block"), i.get("processes")), (*wanted, []), f"{name} that stands while a program works, which is not named for it")
        t.ok("serves nobody" in i["action"].get("text", "") and "end train" not in json.dumps(i["action"]), "nor told to be ended", i["action"])
    slow = "rptr cycle 0.31 0x40 0x80 0xc0 0x100 0x140 0x180 0x1c0 0x200 wptr cycle 0.31 0x80 0xc0 0x100 0x140 0x180 0x1c0 0x200 0x240"
    d = l.now("a slow copy beside work", f"    part gfx908\n{BUSY}{SHARED}    ring sdma5 {slow}\n{waves(40, WORK)}", program("train", True), status=0)
    t.same(d["incidents"], [], "a copy engine that is only slow, beside a program that works, is not stuck")
    said = emulated.inside(l.unhang, "sdma-stuck").stdout.decode()
    t.ok("POLL_REGMEM needs memory at 0x7f0000201000 to equal 3" in " ".join(said.split()), "what the packet of a copy engine waits for is in the answer", said)


def test_unknown(l):
    """What could not be read is not called well."""
    t = l.t
    d = l.now("no log", "    part gfx1100\n    file kmsg fails EPERM\n", status=2)
    t.same(d["verdict"], "unknown", "no kernel log: unknown")
    i = l.first(l.now("hang without log", f"    part gfx1100\n    wave 8 pc 0x7f0000001000\n{BUSY}    file kmsg fails EPERM\n"))
    t.ok("the kernel log could not be read" in json.dumps(i) and "nothing in the kernel log" not in json.dumps(i),
         "a hang: the log that was not read explains nothing", json.dumps(i)[-600:])
    d = l.now("kernel", "    part gfx1100\n", "scenario x\n    kernel 6.14.3-custom\n", status=0)
    t.same(d["machine"].get("kernel"), "6.14.3-custom", "the machine's kernel is the emulated one's")
    work = "    register xcc 0 GRBM_STATUS.SPI_BUSY = 1\n" + waves(12, WORK, 8, "xcc 0")
    for mode, xcc, unread in (("CPX", 5, 4), ("CPX", 2, 5), ("SPX", 5, 4)):
        gpu = f"    part gfx942\n    shaders ses 1 cus 2\n    partition {mode} NPS1\n    busy 100\n    register xcc {xcc} GRBM_STATUS.SPI_BUSY = 1\n{waves(12, STAND, 8, f'xcc {xcc}')}"
        more = program("ok", True, place="xcc 0") + program("stuck", False, place=f"xcc {xcc}") if mode == "CPX" else ""
        d = l.now(f"lockdown {mode} {xcc}", gpu + (work if more else ""), more + "scenario x\n    lockdown\n", status=2)
        seen = d["machine"]["gpus"][0]
        t.ok((d["verdict"], seen.get("hint")) == ("unknown", None) and f"{unread} of 8 XCCs could not be read" in (seen.get("unseen") or ""), "XCCs that lockdown hides are not idle", d["machine"]["gpus"][0])
    for statement in ("user", "no-debugfs"):
        d = l.now(statement, f"    part gfx1100\n{BUSY}", f"scenario x\n    {statement}\n", status=2)
        t.same(d["verdict"], "unknown", f"{statement}: busy, no interrupts, no root: unknown")


def test_all_clear(l):
    """What was not read is not among what was looked at; waves that something halted are not called stuck alone."""
    for state, wanted in (("", "1 GPU with its registers and rings, and"), ("    state gfxoff\n", "1 GPU with its registers and rings, and"),
                          ("    state gfxoff\n    file render absent\n", "1 GPU, and")):
        scenario = l.unhang.write("clear.scenario", f"gpu {PCI}\n    part gfx1151\n{state}")
        said = " ".join(emulated.inside(l.unhang, scenario).stdout.decode().split())
        l.t.ok(f"Looked at: {wanted} the kernel log." in said, "what the all-clear is worth", said)
    i = l.first(l.now("halted", f"    part gfx1100\n    power 50\n{BUSY}{waves(27, STAND, 8, 'halted')}", program("app", False)))
    l.t.ok("halted" in i["cause"].get("title", "") and "debugger" in i["explanation"] and "debug app" in i["action"].get("text", ""), "halted waves: a debugger may have done it", i["cause"])


def test_guest(l):
    """Of a virtual function no register is read, through whatever file."""
    t, record = l.t, l.unhang.directory / "guest.json"
    d = l.now("guest", f"    part gfx942\n    shaders ses 1 cus 2\n    guest\n{BUSY}", status=2, record=record)
    t.same(d["machine"]["gpus"][0].get("guest"), True, "it is known as one")
    t.ok("virtual function" in json.dumps(d), "and that is why")
    done = [json.loads(line) for line in record.read_text().splitlines()]
    paths = {o["path"].split("/")[-1] for o in done if o["op"] in ("read", "ioctl")}
    touched = sorted(p for p in paths if p.startswith(("amdgpu_regs", "amdgpu_wave", "amdgpu_gpr", "amdgpu_vram", "amdgpu_iomem", "hqds", "renderD")))
    t.same(touched, [], "nothing that reads a register was read")
    for moves in (False, True):
        gpu = f"    part gfx90a\n    guest\n    busy 100\n    power 200\n    interrupts count 5000 1 0.5\n"
        d = l.now(f"guest at work {moves}", gpu, program("train", moves), status=2)
        t.same((d["incidents"], d["verdict"]), ([], "unknown"), "units that were not read are not idle: a guest at work does not hang")
    over = "messages\n    50 err amdgpu {0}: amdgpu: ring sdma0 timeout, signaled seq=7, emitted seq=9\n    51 info amdgpu {0}: amdgpu: GPU reset begin!\n    53 {1}\n"
    for name, end, status in (("that succeeded", "info amdgpu {0}: amdgpu: GPU reset(1) succeeded!", 2), ("that failed", "err amdgpu {0}: amdgpu: GPU reset(1) failed", 1)):
        d = l.now(f"guest after a reset {name}", "    part gfx1030\n    guest\n", over.format(PCI, end.format(PCI)), status)
        t.same((d["verdict"], len(d["incidents"]), d["machine"]["gpus"][0]["health"]), ("unknown" if status == 2 else "incident", 1, "unknown"), f"a guest after a reset {name}")
    for command in (("regs", "GRBM_STATUS"), ("waves",), ("queues",), ("rings",)):
        scenario = l.unhang.write("guest.scenario", f"gpu {PCI}\n    part gfx1100\n    guest\n")
        l.unhang.run("emulate", "--record", record, scenario, "--", l.unhang.binary, *command)
        read = {o["path"].split("/")[-1] for o in map(json.loads, record.read_text().splitlines()) if o["op"] in ("read", "ioctl")}
        bad = {p for p in read if p.startswith(("amdgpu_regs", "amdgpu_wave", "amdgpu_gpr", "hqds", "renderD", "amdgpu_ring_vcn"))}
        t.same(sorted(bad), [], f"nor by unhang {command[0]}")


def test_stack(l):
    """Whose queues are KFD's uses ROCm, whatever it is called: another Mesa is no advice for it."""
    t = l.t
    fault = f"""messages
    990.1 err  amdgpu {PCI}: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)
    990.2 err  amdgpu {PCI}: amdgpu:  in process solver pid $pid(solver) thread solver pid $pid(solver))
    990.3 err  amdgpu {PCI}: amdgpu:   in page starting at address 0x00007f21aa400000 from client 10
    990.4 err  amdgpu {PCI}: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031
"""
    queue = f"    queue 1 gpu {PCI} ring 0x7f2200000000 size 0x10000 rptr 7 wptr 7 vmid 8\n"
    for name, part, process, mesa in (("computes", "gfx1100", queue, False), ("draws", "gfx1100", f"    opens {PCI}\n", True),
                                      ("has ended, on a part without a display", "gfx90a", "    memory 0x7f2230000000 1\n", False)):
        of = fault.replace("vmid:8", "vmid:3").replace("0x00801031", "0x00301031").replace("7f21aa4", "800112345") if mesa else fault  # KFD numbers from 8 on
        i = l.first(l.now(f"solver {name}", f"    part {part}\n", f"process solver\n{process}{of}"))
        t.same((i["class"], any(r["id"] == "mesa-page-fault" for r in i.get("remedies", []))), ("gpu-page-fault-unmapped", mesa), f"a process that {name}")


def test_old_fault(l):
    """What is stuck now is not the work of a fault of another program, nor of one that something else came after."""
    t = l.t
    loop = "    part gfx1100\n" + BUSY + "    wave 64 pc count 0x7f2210000540 4 0.05 vmid 8 pipe 0 queue 2\n"
    train = f"""process train
    queue 1 gpu {PCI} ring 0x7f2200000000 size 0x10000 rptr 41 wptr 43 place 1.0.2 vmid 8
    packet 1 41 dispatch kernel 0x7f2210000440 args 0x7f2220000000 signal 0x7f2230000000
    memory 0x7f2230000000 1 0 1 0
    vram {PCI} 2G
messages
"""
    fault = f"""    {{at}}.1 err  amdgpu {PCI}: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)
    {{at}}.1 err  amdgpu {PCI}: amdgpu:  Process {{who}} thread python3 pid 4711
    {{at}}.1 err  amdgpu {PCI}: amdgpu:   in page starting at address 0x00007f3a00001000 from client 10
    {{at}}.1 err  amdgpu {PCI}: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031
"""
    reset = f"""    700.0 err  amdgpu {PCI}: amdgpu: ring gfx_0.0.0 timeout, signaled seq=88123, emitted seq=88125
    700.1 info amdgpu {PCI}: amdgpu: GPU reset begin!
    704.0 info amdgpu {PCI}: amdgpu: GPU reset(1) succeeded!
"""
    mine, other = "train pid $pid(train)", "python3 pid 4711"
    for name, messages, wanted in (("a fault of another program, long ago", fault.format(at=6, who=other), "shader-livelock"),
                                   ("a fault of another program, just now", fault.format(at=980, who=other), "shader-livelock"),
                                   ("a fault of its own", fault.format(at=980, who=mine), "gpu-page-fault-unmapped"),
                                   ("a fault of its own before a reset", fault.format(at=600, who=mine) + reset, "shader-livelock")):
        document = l.now(name, loop, train + messages)
        t.same(l.first(document)["class"], wanted, f"a loop after {name}")
    d = l.now("a program that is stopped", loop, train.replace("process train\n", "process train\n    stopped\n"), status=0)
    gpu = d["machine"]["gpus"][0]
    t.same((d["verdict"], gpu.get("health"), [h["stopped"] for h in gpu.get("processes", [])]), ("healthy", "busy", [True]), "a program that is stopped does not hang, and is named so")


def test_chip(l):
    """The chip is drawn with the units that it has, and not at all where these are not known."""
    gpu = "    part gfx1100\n" + BUSY + """    wave 90 se 0 pc 0x7f2210000540 vmid 8
    wave 30 se 1 pc 0x7f2210000580 barrier vmid 8
    harvested se 2 sh 1 cu 3
    harvested se 5 cu 0"""
    says = "Waves are on 3 of 45 WGPs, and stand still or loop on 2 of them. Gaps (3) were switched off in the factory."
    for name, more, drawn in (("with its gaps", "", True), ("not where others than KFD's answer", " silent", False)):
        scenario, page = l.unhang.write("chip.scenario", f"gpu {PCI}\n{gpu}{more}\n"), l.unhang.directory / "chip.html"
        l.unhang.run("emulate", scenario, "--", l.unhang.binary, "--html", page)
        text = page.read_text()
        chip = text[text.find("<figcaption>The chip"):].split("</figure>")[0] if drawn else ""
        found = [chip.count('<rect class="k-' + look) for look in ("bad", "effect", "quiet")]  # cells, and each once in the legend
        l.t.same((says in text, "The chip: needs a look" in text, found), (drawn, not drawn, [3, 2, 43] if drawn else [0, 0, 0]), f"the chip: {name}")


def test_idle_slots(l):
    """Of a GPU, or an XCC, on which nothing is busy no slot for waves is read."""
    t, record = l.t, l.unhang.directory / "slots.json"
    for name, gpu, some in (("idle", "    part gfx90a\n", set()), ("busy", f"    part gfx90a\n    shaders ses 1 cus 2\n    wave 3 pc 0x7f0000001000\n{BUSY}", {0}),
                            ("busy on one XCC", "    part gfx942\n    shaders ses 1 cus 2\n    register xcc 5 GRBM_STATUS.SPI_BUSY = 1\n    wave 3 xcc 5 pc 0x7f0000001000\n", {5})):
        scenario = l.unhang.write("slots.scenario", f"gpu {PCI}\n{gpu}")
        run = l.unhang.run("emulate", "--record", record, scenario, "--", l.unhang.binary, "waves", "--json", "--all")
        waves = json.loads(run.stdout or '{"waves": []}')["waves"]
        done = [json.loads(line) for line in record.read_text().splitlines()]
        reads = sum(o["op"] == "read" and o["path"].endswith(("/amdgpu_wave", "/amdgpu_gprwave")) for o in done)
        t.same((run.returncode, {w["xcc"] for w in waves}, len(waves)), (0, some, 3 * len(some)), f"{name}: the waves that there are")
        # All slots twice, the waves some more times; of other XCCs than the first the same file has registers, of two waves at each look at all.
        most = 2 * 2 * 40 + 12 * 3 + (2 * 2 * (64 + 2) + 3 * 2 if 5 in some else 0)
        t.ok(bool(reads) == bool(some) and reads <= most * len(some), f"{name}: the slots that are read", reads)


def test_render_node(l):
    """Who opens a render node makes the driver work: as root it stays closed where debugfs tells as much."""
    t, record = l.t, l.unhang.directory / "render.json"
    for name, gpu, more, opened, status in (
            ("a part without GFXOFF", "    part gfx90a\n    busy cycle 0.5 0 1\n", "", False, 0),
            ("a part that may switch itself off", "    part gfx1100\n", "", True, 0),
            ("a part without GFXOFF, as a user", "    part gfx90a\n", "scenario x\n    user\n", True, 2),
            ("a part without GFXOFF in a reset", "    part gfx90a\n    state reset\n", "", True, 1),
            ("a part without GFXOFF whose level is not told", "    part gfx90a\n    file power_dpm_force_performance_level fails EBUSY\n", "", True, 0),
            ("a part without GFXOFF whose registers are refused", "    part gfx90a\n    file amdgpu_regs fails EPERM\n", "", True, 0)):
        d = l.now(name, gpu, more, status, record)
        done = [json.loads(line) for line in record.read_text().splitlines()]
        t.same(any("renderD" in o["path"] for o in done), opened, f"{name}: the render node is {'asked' if opened else 'left alone'}")
        if not status:
            t.same(d["verdict"], "healthy", f"{name}: and it is well")


def test_power_controller(l):
    # The log is empty: only the sensors tell. The part may lack one of them, and one that fails alone is no sign.
    t = l.t
    i = l.first(l.now("no sensor answers", "    part gfx1100\n    file gpu_busy_percent fails ETIME\n    file hwmon/* fails ETIME\n"))
    t.same(i["class"], "smu-unresponsive", "a power controller that answers no sensor is an incident")
    t.same(i["action"].get("do"), "power-cycle", "and a reboot alone may not help")
    l.now("one sensor does not answer", "    part gfx1100\n    file gpu_busy_percent fails ETIME\n", status=0)
    l.now("sensors that the driver does not have", "    part gfx1100\n    file gpu_busy_percent fails EOPNOTSUPP\n    file hwmon/* fails EOPNOTSUPP\n", status=0)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no machine can be emulated here")
    l = Looks(t, unhang)
    for test in (test_registers_of_waves, test_wide, test_ones, test_deadlock, test_barrier, test_parties, test_partitions, test_neighbours, test_few_workgroups, test_long_kernels, test_peers, test_stopped, test_reset_failed, test_units, test_unknown, test_all_clear, test_guest, test_stack, test_old_fault, test_idle_slots, test_chip, test_render_node, test_power_controller):
        test(l)
    t.end()


if __name__ == "__main__":
    main()
