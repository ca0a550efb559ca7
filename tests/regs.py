#!/usr/bin/env python3
"""`unhang regs`: what values mean and which registers there are, held against the tables' text, which is read here once more; the
registers of a device core and of emulated GPUs."""
import json
import random
import re
import sys

import emulated
import tap

TABLES = tap.HERE / ".." / "knowledge" / "registers"
TABLES_TRIED = ("gc_9_0", "gc_9_4_1", "gc_9_4_3", "gc_10_3_0", "gc_11_0_0", "gc_12_0_0", "mmhub_3_0_0", "sdma0_4_0", "osssys_6_0_0", "mp_13_0_0",
                "nbio_7_4", "dcn_3_2_1", "dcn_6_0_0", "smuio_14_0_2", "thm_14_0_2", "df_3_6")
REGISTERS_TRIED = 40


class Register:
    def __init__(self, place, fields):
        self.base, self.offset = place
        self.fields = fields

    def named_bits(self):
        mask = 0
        for low, bits in self.fields.values():
            mask |= ((1 << bits) - 1) << low
        return mask


def table(name):
    """name -> Register, from the text of a table."""
    found = {}
    for line in (TABLES / f"{name}.regs").read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "like":
            found = dict(table(words[1]))
            continue
        if words[0] == "not":
            found.pop(words[1], None)
            continue
        base, offset = words[1].split(":")
        # What is behind an index has no base; of the internal bus the offset counts from nothing, in bytes.
        place = (None if base in ("ix", "smn") else int(base), int(offset, 16) // (4 if base == "smn" else 1))
        if len(words) > 2 and words[2].startswith("="):
            found[words[0]] = Register(place, found[words[2][1:]].fields)
            continue
        if words[2:] == ["-"]:
            found[words[0]] = Register(place, {})
            continue
        fields = {}
        for word in words[2:]:
            field, bits = word.split("@")
            low, _, count = bits.partition(":")
            fields[field] = (int(low), int(count or 1))
        if not fields and words[0] in found:
            fields = found[words[0]].fields  # what is not said here is as in the table before
        found[words[0]] = Register(place, fields)
    return found


def test_decode(t, unhang):
    """Every field of random values of random registers, and the values put together again from their fields."""
    chance = random.Random(5)
    for name in TABLES_TRIED:
        registers = table(name)
        tried = chance.sample(sorted(registers), min(REGISTERS_TRIED, len(registers)))
        values = {r: chance.getrandbits(32) for r in tried}
        run = unhang.run("regs", "--json", "--decode", name, *(f"{r}=0x{v:x}" for r, v in values.items()))
        document = emulated.document(t, run, "regs", f"{name}: values as JSON")
        wrong = []
        for got in document.get("registers", []):
            r, value = registers[got["name"]], values[got["name"]]
            wanted = {f: value >> low & ((1 << bits) - 1) for f, (low, bits) in r.fields.items()}
            if {f["name"]: f["value"] for f in got["fields"]} != wanted or int(got["value"], 16) != value:
                wrong.append(f"{got['name']}=0x{value:x}: {got['fields']}")
            if (None if got["kind"] in ("index", "didt") else got["base"], got["offset"]) != (r.base, r.offset):
                wrong.append(f"{got['name']}: {got['kind']} {got['base']} {got['offset']}")
        t.no_complaints(wrong, f"{name}: each field")
        t.same(len(document.get("registers", [])), len(tried), f"{name}: each register")
        whole = {r: v for r, v in values.items() if registers[r].fields and registers[r].named_bits() & v}
        parts = [f"{r.lower()}.{f}={v >> low & ((1 << bits) - 1)}" for r, v in whole.items() for f, (low, bits) in registers[r].fields.items()]
        run = unhang.run("regs", "--json", "--decode", name, *parts)
        document = emulated.document(t, run, "regs", f"{name}: values from fields as JSON")
        got = {r["name"]: int(r["value"], 16) for r in document.get("registers", [])}
        t.same(got, {r: v & registers[r].named_bits() for r, v in whole.items()}, f"{name}: values put together from fields")


def test_text(t, unhang):
    text = unhang.run("regs", "--decode", "gfx1100", "GRBM_STATUS=0xa0003028").stdout.decode()
    t.ok(re.search(r"^gc\.GRBM_STATUS +0xa0003028 .*\bDB_CLEAN=1 CB_CLEAN=1\s+CP_BUSY=1 GUI_ACTIVE=1\b", text, re.M), "a value with the fields that are set", text)
    t.ok("CB_BUSY" not in text, "and no others", text)
    text = unhang.run("regs", "--all", "--decode", "gfx1100", "grbm_status=0xa0003028").stdout.decode()
    t.ok("CB_BUSY=0" in text and text.index("GUI_ACTIVE=1") < text.index("CB_BUSY=0"), "--all: those that are zero behind them", text)
    t.ok(max(map(len, text.splitlines())) <= 100, "wrapped to 100 columns", text)
    run = unhang.run("regs", "--decode", "gfx1100", "sdma0.SDMA0_STATUS_REG=1")
    t.ok(b"IDLE=1" in run.stdout, "from gfx10 on sdma0 is in the table of gc", run.stdout + run.stderr)
    run = unhang.run("regs", "--decode", "gfx1100", "GRBM_STATUS3=3")
    t.ok(b"(no name: 0x3)" in run.stdout, "bits that have no name", run.stdout + run.stderr)


def test_list(t, unhang):
    registers = table("gc_11_0_0")
    document = emulated.document(t, unhang.run("regs", "--json", "--list", "gfx1100"), "regs", "a list as JSON")
    t.same({r["name"]: r["offset"] for r in document.get("registers", [])}, {n: r.offset for n, r in registers.items()}, "every register of a part")
    run = unhang.run("regs", "--list", "gfx1100", "grbm_status_se?", "gc.CP_STAT")
    lines = run.stdout.decode().splitlines()[1:]
    wanted = sorted(n for n in registers if re.fullmatch("GRBM_STATUS_SE.", n)) + ["CP_STAT"]
    t.same([line.split()[0] for line in lines], [f"gc.{n}" for n in wanted], "patterns and names")
    t.same([int(line.split()[4], 16) for line in lines], [registers[n].offset * 4 for n in wanted], "with their offsets in bytes")
    run = unhang.run("regs", "--all", "--list", "gfx1100", "GRBM_STATUS")
    t.ok(b"GUI_ACTIVE[31:31]" in run.stdout, "--all: with their fields", run.stdout)
    run = unhang.run("regs", "--json", "--list", "mmhub_3_0_9", "MMVM_L2_CNTL")
    document = emulated.document(t, run, "regs", "a version that has no table")
    t.same([r["table"] for r in document.get("registers", [])], ["mmhub_3_0_0"], "has that of a relative")


def test_screen(t, unhang):
    """Without a name: which units are busy, and of each register what is not as at rest; copies that tell the same are one line."""
    if not emulated.possible(unhang):
        return t.skip("registers on one screen", "no GPU can be emulated here")
    gpu = "gpu 0000:03:00.0\n    part gfx942\n    shaders ses 1 cus 2\n    busy 100\n    register GRBM_STATUS2.CPC_BUSY = 1\n    register xcc 3 GRBM_STATUS.TA_BUSY = 1\n"
    gpu += "    register sdma5.SDMA_STATUS_REG.IDLE = 0\n" + "".join(f"    register xcc {x} CP_MEC1_INSTR_PNTR = {0x1180 + 4 * (x > 5):#x}\n" for x in range(8))
    for part, scenario, wanted, not_wanted in (
            ("eight dies", gpu, (r"^  busy       the compute command processor \(MEC\); the memory path \(L1, L2\) on XCC 3; copy engine 5 \(SDMA\)\n",
                                 r"^  0x\w{8} GRBM_STATUS on XCC 3: TA_BUSY\n", r"^  0x\w{8} GRBM_STATUS2: CPC_BUSY\n", r"^  0x\w{8} SDMA_STATUS_REG on engine 5: IDLE=0\n",
                                 r"^  differ     CP_MEC1_INSTR_PNTR: 0x1180 on XCC 0-5, 0x1184 on XCC 6-7\n", r"^  quiet      GRBM_STATUS_SE0, "), "CB_CLEAN|CMDFIFO"),
            ("an idle GPU", "gpu 0000:03:00.0\n    part gfx1100\n", (r"^  busy       nothing\n", r"^  quiet      GRBM_STATUS, "), ": .*_BUSY|=0"),
            ("one that sleeps", "gpu 0000:03:00.0\n    part gfx1100\n    state suspended\n", (r"^  not read   all \d+ registers: it is asleep",), "busy|quiet")):
        run = emulated.inside(unhang, unhang.write("screen.scenario", scenario), "regs")
        text = run.stdout.decode()
        shown = re.sub(r"\n {13}", " ", text)
        t.no_complaints([w for w in wanted if not re.search(w, shown, re.M)] + re.findall(not_wanted, text), f"{part} on one screen")
        t.ok(len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80, f"{part}: it fits", text + run.stderr.decode())


def test_one_wrong(t, unhang):
    """What is wrong with one name or value does not keep the others from being shown."""
    run = unhang.run("regs", "--decode", "gfx1100", "GRBM_STATSU=1", "GRBM_STATUS=0xa0003028", "CP_STAT=x", "GRBM_STATUS.CP_BSY=1")
    said = run.stderr.decode().splitlines()
    t.ok(run.returncode == 0 and "GRBM_STATUS" in run.stdout.decode(), "the one that is right is shown", run.stdout)
    t.same([word in line for word, line in zip(("no register 'GRBM_STATSU'", "NAME=VALUE", "no field 'CP_BSY'"), said)], [True] * 3, "and each that is wrong is told")
    run = unhang.run("regs", "--decode", "gfx1100", "GRBM_STATSU=1", "CP_STATT=1")
    t.same((run.returncode, run.stdout, len(run.stderr.splitlines())), (2, b"", 2), "where none is right, each is told, and the status is 2")
    run = unhang.run("regs", "--list", "gfx1100", "NOTHING_LIKE_THIS*", "GRBM_STATUS")
    t.ok(run.returncode == 0 and b"GRBM_STATUS" in run.stdout and b"NOTHING_LIKE_THIS" in run.stderr, "a list goes on, too", run.stderr)


def test_errors(t, unhang):
    for arguments, words, name in (
            (["regs", "--decode", "gfx1100"], ["which value"], "no value"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS"], ["NAME=VALUE"], "a name without a value"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS=x"], ["NAME=VALUE"], "a value that is no number"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS=-1"], ["NAME=VALUE"], "a value below zero"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS=0x100000000"], ["32 bits"], "a value of more than 32 bits"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS.CP_BUSY=2"], ["CP_BUSY"], "more than a field holds"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS.CP_BSY=1"], ["no field 'CP_BSY'"], "a field that there is not"),
            (["regs", "--decode", "gfx1100", "GRBM_STATUS.=1"], ["no register"], "a field without a name"),
            (["regs", "--decode", "gfx1100", "GRBM_STATSU=1"], ["GRBM_STATSU", "near it: GRBM_STATUS"], "near names of one that there is not"),
            (["regs", "--decode", "gfx1100", "=1"], ["no register"], "an empty name"),
            (["regs", "--decode", "gfx1100", "mmhub.MMVM_L2_CNTL=1"], ["mmhub_3_0_0"], "the tables of a block whose version is not known"),
            (["regs", "--decode", "gfx123456", "GRBM_STATUS=1"], ["gfx123456"], "a part that there is not"),
            (["regs", "--decode", "", "GRBM_STATUS=1"], ["no registers"], "a part without a name"),
            (["regs", "--list", "gfx1100", "NOTHING_LIKE_THIS*"], ["NOTHING_LIKE_THIS"], "a pattern that nothing is like"),
            (["regs", "--list", "gfx1100", "--decode", "gfx1100", "GRBM_STATUS=1"], ["do not go together"], "two ways at once"),
            (["regs", "--bank", "1,2", "GRBM_STATUS"], ["--bank"], "a bank of two numbers"),
            (["regs", "--bank", "1,2,3,4", "GRBM_STATUS"], ["--bank"], "a bank of four"),
            (["regs", "--bank", "1,y,3", "GRBM_STATUS"], ["--bank"], "a bank that is no number"),
            (["regs", "--srbm", "1,2", "GRBM_STATUS"], ["--srbm"], "a queue of two numbers"),
            (["regs", "--xcc", "-1", "GRBM_STATUS"], ["--xcc"], "an XCC below zero"),
            (["regs", "--target", "/nonexistent", "GRBM_STATUS"], ["/nonexistent"], "a device core that there is not"),
            (["regs", "--target", "/etc/passwd", "GRBM_STATUS"], ["/etc/passwd"], "a file that is no device core"),
    ):
        emulated.refuses(t, unhang, arguments, words, name)
    if tap.pathlib.Path("/sys/module/amdgpu").exists():
        t.skip("no GPU: status 2 and one line", "there is one")
    else:
        emulated.refuses(t, unhang, ["regs", "GRBM_STATUS"], ["no AMD GPU"], "no GPU: status 2 and one line")


def test_default_and_address(t, unhang):
    """Without a name, what every look reads; an address in bytes means the register there."""
    if not emulated.possible(unhang):
        t.skip("registers without a name, and by address", "no emulated machine can be made here")
        return
    every = {r["name"]: r for r in emulated.document(t, emulated.inside(unhang, "idle", "regs", "--json"), "regs", "without a name").get("registers", [])}
    t.ok({"GRBM_STATUS", "GRBM_STATUS2", "CP_STAT", "CP_CPC_STATUS", "RLC_GPM_STAT", "SDMA0_STATUS_REG"} <= set(every), "the registers of every look", sorted(every))
    t.ok(every and all(r["state"] == "read" for r in every.values()), "and each is read", [r["name"] for r in every.values() if r["state"] != "read"])
    address = every.get("GRBM_STATUS", {}).get("address", "0x0")
    got = emulated.document(t, emulated.inside(unhang, "idle", "regs", "--json", address), "regs", "by address").get("registers", [])
    t.same([(r["name"], r["value"]) for r in got], [("GRBM_STATUS", every.get("GRBM_STATUS", {}).get("value"))], "the register at that address")
    run = emulated.inside(unhang, "idle", "regs", "0x3")
    t.ok(run.returncode == 2 and b"0x3" in run.stderr and not run.stdout, "an address at which there is none", run.stderr)


BLOCKS = """scenario blocks
    title Registers of blocks beside the graphics core, and on the internal bus
gpu 0000:03:00.0
    part {part}
{registers}"""


def test_other_blocks(t, unhang):
    """Display, temperature, power pins, memory controllers, data fabric; what is on the internal bus, and behind an index of the driver's."""
    if not emulated.possible(unhang):
        return
    for part, registers in (
            ("gfx1100", {"dcn.OTG0_OTG_CONTROL": 0x111, "thm.THM_TCON_CUR_TMP": 0x4800, "smuio.SMUIO_MCM_CONFIG": 7}),
            ("gfx90a", {"umc.MCA_UMC_UMC0_MCUMC_STATUST0": 0x15, "df.FabricConfigAccessControl": 3, "nbio.PCIE_LC_CNTL": 9, "gc.DIDT_SQ_CTRL0": 0x77})):
        scenario = unhang.write(f"{part}-blocks.scenario", BLOCKS.format(part=part, registers="".join(f"    register {n} = {v:#x}\n" for n, v in registers.items())))
        found = emulated.document(t, emulated.inside(unhang, scenario, "regs", "--json", *registers), "regs", f"{part}: other blocks as JSON").get("registers", [])
        t.same({f"{r['block']}.{r['name']}": int(r["value"] or "0", 16) for r in found}, registers, f"{part}: what each block has")
    kinds = {r["name"]: (r["kind"], r["address"]) for r in found}
    t.same(kinds.get("PCIE_LC_CNTL"), ("bus", "0x11140280"), "an address on the internal bus")
    record = unhang.directory / "blocks.json"
    for arguments, value in ((["--space", "pcie", "0x11140280"], "0x9"), (["ixDIDT_SQ_CTRL0"], "0x77"), (["--space", "didt", "0x0"], "0x77"),
                             (["--space", "pcie", "0x11140284"], "0x0")):
        run = unhang.run("emulate", "--record", record, scenario, "--", unhang.binary, "regs", "--json", *arguments)
        got = emulated.document(t, run, "regs", f"{arguments} as JSON").get("registers", [])
        done = [json.loads(line) for line in record.read_text().splitlines()]
        t.same(([r["value"] for r in got], [d for d in done if d["op"] in ("write", "warning")]), ([value], []), f"{arguments}: its value, and nothing is written")
    for part, arguments, words in (
            ("gfx90a", ["--space", "pcie", "0x100000000"], ["multiple of 4"]), ("gfx90a", ["--space", "pcie", "0x11140281"], ["multiple of 4"]),
            ("gfx90a", ["--space", "smc", "0x0"], ["mmio, pcie, didt"]), ("gfx942", ["--space", "didt", "0x0"], ["current limiter"]),
            ("gfx942", ["DIDT_SQ_CTRL0"], ["no such register"]), ("gfx1100", ["umc.UMCCH0_0_GeccErrCnt"], ["base address"])):
        scenario = unhang.write(f"{part}-refused.scenario", BLOCKS.format(part=part, registers=""))
        run = emulated.inside(unhang, scenario, "regs", *arguments)
        t.ok(run.returncode == tap.CANNOT and not run.stdout and all(w in run.stderr.decode() for w in words), f"{part}: {arguments} is refused", run.stdout + run.stderr)
    for part, name, words in (("gfx1151", "dcn.OTG0_OTG_CONTROL", "without power"), ("gfx1100", "DP_AUX0_AUX_SW_DATA", "acts"), ("gfx1100", "smuio.ROM_DATA", "acts")):
        scenario = unhang.write(f"{part}-refused.scenario", BLOCKS.format(part=part, registers=""))
        run = unhang.run("emulate", "--record", record, scenario, "--", unhang.binary, "regs", name)
        read = [json.loads(line) for line in record.read_text().splitlines() if "amdgpu_regs" in line]
        t.ok(run.returncode == tap.CANNOT and words in run.stdout.decode() and not read, f"{part}: {name} is not read", run.stdout + run.stderr)


DUMP = """**** AMDGPU Device Coredump ****
version: 1
kernel: 6.12.57
module: amdgpu
time: 1000.000000000

SOC Information
SOC Device id: 29772
SOC PCI Revision id: 200

HW IP Version Information
HWIP: GC[1][0]: v11.0.0.0.0
HWIP: SDMA0[3][0]: v6.0.0.0.0
HWIP: VCN[8][0]: v4.0.0.0.0

IP Dump
IP: gfx_v11_0
regGRBM_STATUS                                     \t 0xa0003028
regCP_STAT                                         \t 0x00008000

Compute Queues
mec 0, pipe 1, queue 2
regCP_HQD_ACTIVE                                   \t 0x00000001
regCP_HQD_PQ_RPTR                                  \t 0x00000040
"""


def test_queue(t, unhang):
    """The registers of a program's queue, which is found by its place on the GPU."""
    if not emulated.possible(unhang):
        return
    scenario = unhang.write("queue.scenario", """scenario queue
    title queue
gpu 0000:03:00.0
    part gfx1100
process train
    queue 1 gpu 0000:03:00.0 ring 0x7f2200000000 size 0x10000 rptr 41 wptr 43 place 1.1.3
    queue 2 gpu 0000:03:00.0 ring 0x7f2200100000 size 0x10000 rptr 42 wptr 43 place 1.0.2
""")
    inside = ["emulate", scenario, "--", "sh", "-c", f'p=$(pgrep -o -x train); exec {unhang.binary} regs --json CP_HQD_PQ_RPTR --queue "${{2:-$p}}:$1"', "sh"]
    for queue, value in (("1", hex(41 * 16)), ("2", hex(42 * 16))):
        found = emulated.document(t, unhang.run(*inside, queue), "regs", f"queue {queue} as JSON")
        t.same([r["value"] for r in found.get("registers", [])], [value], f"queue {queue}: its own copy")
    for wrong, words in ((["7"], ["there is no queue"]), (["x"], ["PID:ID"]), (["1", "99999"], ["99999"])):
        emulated.refuses(t, unhang, [*inside, *wrong], words, f"a queue that is not there: {wrong}")
    emulated.refuses(t, unhang, ["regs", "--queue", "1:1", "--srbm", "1,0,2", "CP_HQD_ACTIVE"], ["--srbm"], "a queue and a place")


def test_device_core(t, unhang):
    path = unhang.write("devcoredump.txt", DUMP)
    document = emulated.document(t, unhang.run("regs", "--json", "--target", path, "GRBM_STATUS", "CP_ME_CNTL"), "regs", "a device core as JSON")
    got = {r["name"]: (r["state"], r["value"]) for r in document.get("registers", [])}
    t.same(got, {"GRBM_STATUS": ("read", "0xa0003028"), "CP_ME_CNTL": ("absent", None)}, "what is in it, and what is not")
    t.same(document.get("gfx"), "gfx1100", "the GPU")
    document = emulated.document(t, unhang.run("regs", "--json", "--target", path, "gc.*"), "regs", "a pattern as JSON")
    t.same(sorted(r["name"] for r in document.get("registers", [])), ["CP_STAT", "GRBM_STATUS"], "a pattern: only what is in it")
    document = emulated.document(t, unhang.run("regs", "--json", "--target", path, "--srbm", "1,1,2", "CP_HQD_*"), "regs", "a queue as JSON")
    t.same({r["name"]: r["value"] for r in document.get("registers", [])}, {"CP_HQD_ACTIVE": "0x1", "CP_HQD_PQ_RPTR": "0x40"}, "a queue's registers")
    for other in ("1,0,2", "1,1,1", "2,1,2"):
        run = unhang.run("regs", "--target", path, "--srbm", other, "CP_HQD_ACTIVE")
        t.ok(run.returncode == tap.CANNOT and b"0x1" not in run.stdout, f"they are not those of {other}", run.stdout + run.stderr)
    run = unhang.run("regs", "--target", path, "CP_ME_CNTL")
    t.ok(run.returncode == tap.CANNOT and b"absent: it is not in the device core" in run.stdout, "none read: status 2", run.stdout + run.stderr)
    run = unhang.run("regs", "--target", path, "GRBM_STATUS", "GRBM_STATSU")
    t.ok(run.returncode == 0 and b"near it: GRBM_STATUS" in run.stderr and b"0xa0003028" in run.stdout, "an unknown one beside a known one", run.stderr)


SCENARIO = """scenario registers
    title  Registers that a test has set

gpu 0000:03:00.0
    part gfx1100
    register GRBM_STATUS = 0xa0003028
    register se 1 sh 0 SPI_CSQ_WF_ACTIVE_STATUS = 0x7
    register SDMA0_STATUS_REG = 0x46dee557

gpu 0000:43:00.0
    part gfx1100
    state suspended
"""


HARVESTED = """scenario harvested
    title  The third of eight XCCs is not there

gpu 0000:85:00.0
    part gfx942
    sysfs ip_discovery/die/0/11/2/harvest 0x1
""" + "".join(f"    register xcc {n} GRBM_STATUS = {n}\n" for n in range(8))


def test_emulated(t, unhang):
    if not emulated.possible(unhang):
        t.skip("registers of an emulated GPU", "no GPU can be emulated here")
        return
    scenario = unhang.write("registers.scenario", SCENARIO)
    awake = ("--gpu", "0000:03:00.0")
    run = emulated.inside(unhang, scenario, "regs", "--json", *awake, "GRBM_STATUS", "sdma0.SDMA0_STATUS_REG")
    document = emulated.document(t, run, "regs", "an emulated GPU as JSON")
    t.same([r["value"] for r in document.get("registers", [])], ["0xa0003028", "0x46dee557"], "values that the scenario says")
    t.same(document.get("target"), "0000:03:00.0", "the GPU")
    run = emulated.inside(unhang, scenario, "regs", "--json", *awake, "--bank", "1,0,x", "SPI_CSQ_WF_ACTIVE_STATUS")
    document = emulated.document(t, run, "regs", "a bank as JSON")
    t.same([r["value"] for r in document.get("registers", [])], ["0x7"], "the copy of a shader engine")
    run = emulated.inside(unhang, scenario, "regs", "GRBM_STATUS")
    t.ok(run.returncode == tap.CANNOT and b"0000:43:00.0" in run.stderr, "several GPUs: which one?", run.stderr)
    run = emulated.inside(unhang, scenario, "regs", "--gpu", "0000:43:00.0", "CP_ME_CNTL")
    t.ok(run.returncode == tap.CANNOT and b"refused:" in run.stdout, "a GPU that sleeps is not touched", run.stdout + run.stderr)
    run = emulated.inside(unhang, scenario, "regs", *awake, "GRBM_STATSU")
    t.ok(run.returncode == tap.CANNOT and b"near it: GRBM_STATUS" in run.stderr, "near names", run.stderr)
    run = emulated.inside(unhang, scenario, "regs", *awake, "GCVM_INVALIDATE_ENG17_SEM")
    t.ok(run.returncode == tap.CANNOT and b"refused: reading it acts" in run.stdout, "a semaphore, which a read would take", run.stdout + run.stderr)
    run = emulated.inside(unhang, scenario, "regs", *awake, "gc.*")
    t.ok(run.returncode == tap.CANNOT and b"--all" in run.stderr, "thousands of registers are only read where all are wanted", run.stderr)
    run = emulated.inside(unhang, scenario, "regs", *awake, "SQ_WAVE_STATUS")
    t.ok(run.returncode == tap.CANNOT and b"behind an index register" in run.stderr, "a register behind an index", run.stderr)
    run = emulated.inside(unhang, scenario, "regs", "--json", *awake, "--xcc", "0", "gc.GRBM_STATUS", "mmhub.MMVM_L2_STATUS")
    document = emulated.document(t, run, "regs", "blocks as JSON")
    t.same([(r["block"], r["state"]) for r in document.get("registers", [])], [("gc", "read"), ("mmhub", "read")], "blocks")
    scenario = unhang.write("harvested.scenario", HARVESTED)
    run = emulated.inside(unhang, scenario, "regs", "--json", "gc.GRBM_STATUS")
    document = emulated.document(t, run, "regs", "XCCs as JSON")
    t.same([(r["block"], r["value"]) for r in document.get("registers", [])], [(f"gc{n}", f"{n + (n > 1):#x}") for n in range(7)],
           "XCCs behind one that is harvested, each its own register")
    scenario = unhang.write("registers.scenario", SCENARIO)
    emulated.only_reads(t, unhang, scenario, ["regs", *awake, "GRBM_STATUS*", "CP_*STAT*", "--bank", "0,0,x"], "it only reads")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_decode(t, unhang)
    test_text(t, unhang)
    test_list(t, unhang)
    test_one_wrong(t, unhang)
    test_errors(t, unhang)
    test_screen(t, unhang)
    test_default_and_address(t, unhang)
    test_other_blocks(t, unhang)
    test_queue(t, unhang)
    test_device_core(t, unhang)
    test_emulated(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
