#!/usr/bin/env python3
"""Hardware errors: banks in the kernel log, records of errors (CPER), counters, and what is to be done with the module. The answers of the records
were written down from the public tables of the kernel and of AMD's tools, not from what unhang says."""
import os
import random
import re
import subprocess
import sys

import cper
import tap
from cper import CECC, CORRECTED, DEFERRED, FATAL, PCC, POISON, TCC, UC, UNCORRECTED, bank, ipid, status

GPU = "0000:1b:00.0"
# The module: hardware id, type and an instance of each bank.
CS, PIE, UMC, PSP, SMU = (0x2e, 2, 0x1f000700), (0x2e, 1, 0x1f007900), (0x96, 0, 0x493f00), (0xff, 1, 0), (0x1, 1, 0x36430400)
XGMI, WAFL, SERDES, MALL, NBIO = (0x50, 0, 0x11a09200), (0x267, 0, 0), (0x259, 0, 0), (0x2e, 4, 0x1f005d00), (0x18, 0, 0)
NBIF, PCIE, SHUB, USR_DP, USR_CP, PB = (0x6c, 0, 0), (0x46, 1, 0), (0x80, 0, 0), (0x170, 0, 0), (0x180, 0, 0), (0x5, 0, 0x36082900)
GONE = UC | PCC | TCC

# What, grade of the record, bank, code, bits, SYND: the bank's name, the error's, how bad it is, AMD's number.
UNCORRECTED_RECORDS = [
    (FATAL, UMC, 0x0, GONE, 0, "umc", "OnDieEcc", "fatal", 20),
    (FATAL, UMC, 0xf, GONE, 0, "umc", "EndToEndCrc", "fatal", 21),
    (FATAL, UMC, 0xb, UC | PCC, 0, "umc", "RdCrcErr", "fatal", 21),
    (UNCORRECTED, UMC, 0x0, DEFERRED, 0, "umc", "OnDieEcc", "uncorrected", 22),
    (UNCORRECTED, UMC, 0x0, DEFERRED | POISON, 0, "umc", "OnDieEcc", "uncorrected", 22),
    (UNCORRECTED, UMC, 0xf, DEFERRED, 0, "umc", "EndToEndCrc", "uncorrected", 23),
    (FATAL, UMC, 0x4, GONE, 0, "umc", "AddressCommandParityErr", "fatal", 25),
    (FATAL, UMC, 0x5, GONE, 0, "umc", "WriteDataCrcErr", "fatal", 25),
    (FATAL, UMC, 0x1, UC | TCC, 0, "umc", "WriteDataPoisonErr", "fatal", 25),
    (FATAL, UMC, 0x6, GONE, 0, "umc", "SramEccErr", "fatal", 30),
    (FATAL, CS, 0x11, GONE, 0, "cs", "HWA", "fatal", 26),
    (FATAL, PIE, 0x0, GONE, 0, "pie", "HWA", "fatal", 26),
    (FATAL, PIE, 0x5, GONE, 0, "pie", "WDT", "fatal", 27),
    (FATAL, CS, 0xd, GONE, 0, "cs", "CNTR_UNFL", "fatal", 30),
    (FATAL, CS, 0xa, UC | TCC, 0, "cs", "SPF_ECC_ERR", "fatal", 30),
    (FATAL, XGMI, 0x0, GONE, 0, "pcs_xgmi", "DataLossErr", "fatal", 18),
    (FATAL, XGMI, 0x1, GONE, 0, "pcs_xgmi", "TrainingErr", "fatal", 18),
    (FATAL, WAFL, 0x0, GONE, 0, "kpx_wafl", "RAMECC", "fatal", 16),
    (FATAL, PSP, 0x3f, GONE, 0, "psp", "WAFL", "fatal", 16),
    (FATAL, PSP, 0x12, GONE, 0, "psp", "PhyRamEccError", "fatal", 30),
    (FATAL, SMU, 0x3b, GONE, 3, "smu", "GfxFatal", "fatal", 30),
    (UNCORRECTED, SMU, 0x3e, POISON, 5, "smu", "GfxPoison", "uncorrected", 28),
    (FATAL, SMU, 0x1, GONE, 0, "smu", "Mp5LowSramError", "fatal", 30),
    (FATAL, MALL, 0x6, GONE, 0, "mall", "CACHE_DAT_ERR", "fatal", 30),
    (UNCORRECTED, MALL, 0x6, DEFERRED, 0, "mall", "CACHE_DAT_ERR", "uncorrected", 28),
    (FATAL, NBIO, 0x3, GONE, 0, "nbio", "Egress_Poison", "fatal", 30),
    (FATAL, NBIF, 0x0, GONE, 0, "nbif", "TIMEOUT_ERR", "fatal", 30),
    (FATAL, USR_DP, 0x18, GONE, 0, "usr_dp", "CRCErr", "fatal", 30),
    (FATAL, USR_CP, 0xc, GONE, 0, "usr_cp", "remoteLinkFatalErr", "fatal", 30),
    (FATAL, SERDES, 0x0, GONE, 0, "kpx_serdes", "RAMECC", "fatal", 34),
    (FATAL, PCIE, 0x0, GONE, 0, "pcie", "SDP_PARITY_ERR_LOG", "fatal", 30),
    (FATAL, PB, 0x0, GONE, 0, "pb", "EccError", "fatal", 30),
]
QUIET_RECORDS = [
    (CORRECTED, UMC, 0x0, CECC, 0, "umc", "OnDieEcc", "corrected", 24),
    (CORRECTED, UMC, 0xf, 0, 0, "umc", "EndToEndCrc", "corrected", 24),
    (CORRECTED, UMC, 0x5, 0, 0, "umc", "WriteDataCrcErr", "corrected", 24),
    (CORRECTED, UMC, 0x9, CECC, 0, "umc", "EcsErr", "corrected", 24),
    (CORRECTED, XGMI, 0x6, 0, 0, "pcs_xgmi", "BERExceededErr", "corrected", 17),
    (CORRECTED, XGMI, 0x5, 0, 0, "pcs_xgmi", "CRCErr", "corrected", 17),
    (CORRECTED, WAFL, 0x1, 0, 0, "kpx_wafl", "ARCIns", "corrected", 15),
    (CORRECTED, PSP, 0x3f, 0, 0, "psp", "WAFL", "corrected", 15),
    (CORRECTED, CS, 0xa, CECC, 0, "cs", "SPF_ECC_ERR", "corrected", 29),
    (CORRECTED, MALL, 0x4, CECC, 0, "mall", "CACHE_TAG0_ERR", "corrected", 29),
    (CORRECTED, SMU, 0x3a, CECC, 8, "smu", "GfxCorrectable", "corrected", 29),
    (CORRECTED, SHUB, 0x1, CECC, 0, "shub", "SRAM_ECC_ERR", "corrected", 29),
]
BOOT = [(0x01, 4), (0x04, 1), (0x05, 9), (0x06, 10), (0x07, 7), (0x08, 8), (0x09, 3), (0x0a, 2)]


def made(row, upper=0, **more):
    grade, (hardware, kind, instance), code, bits, synd = row[:5]
    return bank(grade, status(code, bits), ipid(hardware, kind, instance, upper), synd=synd, **more)


def listed(program, unhang, records):
    """Facts of each record's events."""
    path = unhang.write("records.cper", b"".join(records))
    found = [{} for _ in records]
    for line in subprocess.run([program, path], capture_output=True, text=True, check=True).stdout.splitlines():
        event, number, *facts = line.split("\t")
        found[int(number) - 1] = dict(fact.split("=", 1) for fact in facts) | {"event": event}
    return found


def advised(program, unhang, records, name="advised.cper"):
    path = unhang.write(name, b"".join(records))
    said = {}
    for line in subprocess.run([program, "--advise", path], capture_output=True, text=True, check=True).stdout.splitlines():
        number, do, service = line.split("\t")
        said.setdefault(int(number), []).append((do, service))
    return said


def test_records(t, unhang, program):
    """60 records with known answers."""
    rows = UNCORRECTED_RECORDS + QUIET_RECORDS
    found = listed(program, unhang, [made(row) for row in rows])
    wrong = [f"{row[5]} {row[2]:#x}: {facts}" for row, facts in zip(rows, found)
             if (facts.get("bank"), facts.get("bank_error"), facts.get("bank_severity"), facts.get("bank_afid")) != (*row[5:8], str(row[8]))]
    t.no_complaints(wrong, f"{len(rows)} records: bank, error, severity and AMD's number")
    boots = listed(program, unhang, [cper.boot([0xa4 | (1 << 5 | code) << 8 | 3 << 20 | 2 << 16]) for code, _ in BOOT])
    t.same([(b["event"], b["bank_afid"], b["bank_socket"], b["bank_die"]) for b in boots], [("cper-record-boot", str(afid), "3", "2") for _, afid in BOOT],
           "records of the boot firmware: AMD's number, module and die")
    places = listed(program, unhang, [made(UNCORRECTED_RECORDS[0], upper=0b1110, oam=2), made(UNCORRECTED_RECORDS[20], upper=0b0100), made(UNCORRECTED_RECORDS[13]),
                                      bank(UNCORRECTED, status(0x3e, POISON), ipid(1, 1, 0x3b30401), synd=34), made((FATAL, (0x321, 4, 0), 1, GONE, 0))])
    t.same([places[0][k] for k in ("bank_socket", "bank_die", "bank_umc", "bank_channel", "bank_oam")], ["2", "3", "2", "3", "OAM2"], "the memory controller and its channel")
    t.same([places[1][k] for k in ("bank_die", "bank_instance", "bank_unit")], ["1", "xcd0", "GC"], "the XCD of a graphics error")
    t.same(places[2]["bank_instance"], "cs7", "which of the stations")
    t.same([places[3][k] for k in ("bank_socket", "bank_unit")], ["4", "SDMA1"], "the copy engine, and the fifth module")
    t.same([places[4][k] for k in ("bank", "bank_error")], ["not public", "not public"], "what no public table has is not public")


def test_service(t, unhang, program):
    """Old, corrected and made-up records mean 'watch' at most; a cold restart is for what did not start."""
    quiet = [made(row) for row in QUIET_RECORDS] + [cper.threshold(n) for n in range(8)]
    said = advised(program, unhang, quiet)
    t.no_complaints([f"record {n}: {s}" for n, s in said.items() if any(service not in ("nothing", "watch") or do != "nothing" for do, service in s)],
                    f"{len(quiet)} corrected or made-up records mean no more than 'watch'")
    t.ok(not set(said) & set(range(1, len(QUIET_RECORDS) + 1)), "a corrected error is no incident")
    said = advised(program, unhang, [cper.boot([0xa4 | 0x21 << 8])])
    t.same(said[1], [("power-cycle", "cold-restart")], "a module that did not start: without power, and on again")
    # A thousand answers in a row are those of the first, as fast as a sum of them.
    years = unhang.write("years.cper", b"".join(made(QUIET_RECORDS[n % 12], number=n) for n in range(1000)))
    a = unhang.explain(years)
    t.same((a.status, a.incidents), (0, []), "years of corrected errors: healthy")


def test_random(t, unhang, program):
    """No replacement without its conditions, whatever the bits are."""
    dice, records = random.Random(38), []
    total = 100000 if os.environ.get("UNHANG_TEST_ALL") else 2000
    for n in range(total):
        grade = dice.choice((FATAL, UNCORRECTED, CORRECTED))
        hardware, kind, instance = dice.choice((CS, PIE, UMC, PSP, SMU, XGMI, WAFL, SERDES, MALL, NBIO, (dice.getrandbits(12), dice.getrandbits(4), dice.getrandbits(32))))
        if dice.random() < 0.05:
            records.append(cper.threshold(dice.randrange(8)))
        elif dice.random() < 0.05:
            records.append(cper.boot([dice.getrandbits(64) for _ in range(8)]))
        else:
            records.append(bank(grade, dice.getrandbits(64), ipid(hardware, kind, instance, dice.getrandbits(4)), dice.getrandbits(64), dice.getrandbits(64), dice.getrandbits(64),
                                number=n, timed=dice.random() < 0.9))
    said = advised(program, unhang, records)
    t.no_complaints([f"record {n}: {s}" for n, s in said.items() if any("replace" in pair for pair in s)][:5], f"{total} random records: none means 'replace'")


def test_hostile(t, unhang, program):
    records = [made(UNCORRECTED_RECORDS[0]), cper.threshold(3), cper.boot([0xa4 | 0x21 << 8])]
    paths = [unhang.write(f"hostile-{n}", data) for n, data in enumerate([*records, cper.ring(records)])]
    r = subprocess.run([program, "--hostile", *paths], capture_output=True, text=True)
    t.ok(r.returncode == 0 and r.stdout.endswith(" events\n"), "cut at every byte, and every byte changed", r.stdout[-200:] + r.stderr[-2000:])
    a = unhang.explain_text(records[0][:-1], "cut.cper")
    t.ok(not a.incidents and [n["event"] for n in a.document["notes"]] == ["cper-cut"], "a record that is cut off is told", str(a.document.get("notes")))
    t.same([len(unhang.explain_text(cper.ring([b]), "amdgpu_ring_cper").incidents) for b in records[:2]], [1, 1], "the driver's ring")


def log(*lines):
    return "".join(f"[{100 + n / 1000:12.6f}] amdgpu {GPU}: {line}\n" for n, line in enumerate(lines))


def old_form(n, s, where, synd=0, misc=0):
    return [f"{{1}}[Hardware Error]: aca entry[{n:02}].{name}=0x{value:016x}" for name, value in
            (("STATUS", s), ("ADDR", 0), ("MISC0", misc), ("IPID", where), ("SYND", synd))]


def new_form(n, s, where, synd=0, misc=0):
    values = dict(CONTROL=1, STATUS=s, ADDR=0, MISC=misc, CONFIG=2, IPID=where, SYND=synd, DESTAT=0, DEADDR=0, CONTROL_MASK=0)
    return [f"{{1}}[Hardware Error]: ACA[{n:02}/02].{name}=0x{value:016x}" for name, value in values.items()]


def test_log(t, unhang, program):
    """Both forms of banks in the kernel log."""
    where = ipid(0x96, 0, 0x290f00, 0b0101)
    for name, form in (("the older form", old_form), ("the newer form", new_form)):
        text = log("{1}[Hardware Error]: Accelerator Check Architecture events logged", *form(1, status(0, GONE), where, misc=3 << 32),
                   *form(2, status(0x3e, POISON), ipid(1, 1, 0x38430400, 0b0101), synd=2))
        a = unhang.explain_text(text)
        t.no_complaints(a.complaints, f"{name}: well-formed")
        h = a.first.data.get("hardware") or {}
        t.same((a.first.cls, h.get("bank"), h.get("die"), h.get("umc"), h.get("channel"), h.get("severity"), h.get("afid"), h.get("service")),
               ("ras-uncorrectable-error", "umc", 1, 1, 0, "fatal", 20, "cold-restart"), f"{name}: what failed, where, and what to do")
        t.same((a.first.value("bank_count"), sorted(map(str, a.first.values("bank_afid")))), (3, ["20", "28"]), f"{name}: each bank has its own facts")
    corrected = unhang.explain_text(log(*new_form(1, status(0, CECC), where), *new_form(2, status(0, CECC), where)))
    t.same((corrected.status, corrected.incidents), (0, []), "banks of corrected errors are no incident")
    alone = unhang.explain_text(log(*old_form(0, status(0, GONE), where)[3:]))
    t.same(alone.incidents, [], "registers without the bank's status say nothing")
    link = unhang.explain_text(log(*old_form(0, status(1, GONE), ipid(0x50, 0, 0x11a09200)))).first
    t.same((link.data["hardware"]["service"], link.data["hardware"]["afid"], link.data["action"]["do"]), ("diagnostics", 18, "power-cycle"), "a link between modules: its seat, then AMD's test")


def test_hive(t, unhang, program):
    """Any GPU of a hive announces an error; the one whose banks or counts tell of it has it."""
    def line(gpu, text, at):
        return f"[{at:12.6f}] amdgpu 0000:{gpu}:00.0: {text}\n"
    where = ipid(0x96, 0, 0x290f00, 0b0110)
    banks = "".join(line("4e", text, 100.02) for text in old_form(0, status(0, GONE), where))
    noise = "".join(line("5d", text, 100.03) for text in old_form(0, status(0, CECC), ipid(0x50, 0, 0x11a09200)))
    reset = line("dd", "amdgpu: GPU reset begin!", 100.1) + line("4e", "amdgpu: GPU reset succeeded, trying to resume", 103)
    announced = line("dd", "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", 100)
    a = unhang.explain_text(announced + noise + banks + reset)
    i = a.first
    t.no_complaints(a.complaints, "hive: well-formed")
    t.same(([g["pci"] for g in i.data["gpus"]][0], len(a.incidents), i.data["hardware"]["block"], i.data["hardware"]["severity"], i.data["hardware"]["afid"]),
           ("0000:4e:00.0", 1, "umc", "fatal", 20), "hive: the module is the one with the bank, not the one that printed ATHUB's line")
    t.same(({e["role"] for e in i.events("ras-bank-uncorrected")}, {e["role"] for e in i.events("ras-uncorrectable")}), ({"cause"}, {"effect"}), "hive: the bank is the cause, the interrupt only announces it")
    text = unhang.run("explain", unhang.write("hive.log", announced + noise + banks + reset)).stdout.decode()
    t.ok("die 1, UMC 1 channel 0, reports a fatal error" in re.sub(r"\s+", " ", text) and len(text.splitlines()) <= 24, "hive: the first screen has the whole row of the bank", text)
    unnumbered = unhang.explain_text((announced + banks).replace("{1}", "")).first
    t.same([g["pci"] for g in unnumbered.data["gpus"]], ["0000:4e:00.0", "0000:dd:00.0"], "hive: drivers without numbers, by the time")
    two = unhang.explain_text(announced + banks.replace("{1}", "{2}"))
    t.same(sorted(x.data["gpus"][0]["pci"] for x in two.incidents), ["0000:4e:00.0", "0000:dd:00.0"], "hive: another number is another error")
    counts = unhang.explain_text(announced + line("42", "{1}socket: 2, die: 3, 1 new uncorrectable hardware errors detected in xgmi_wafl block", 100.2)).first
    t.same((counts.data["gpus"][0]["pci"], counts.data["hardware"]["die"], counts.data["hardware"]["service"], counts.data["hardware"]["severity"]),
           ("0000:42:00.0", 3, "diagnostics", "fatal"), "hive: a count tells where it is, and the interrupt how bad")
    used = unhang.explain_text(announced + "".join(line("42", x, 100.02) for x in old_form(0, status(0x3e, POISON), ipid(1, 1, 0x36430400), synd=3))).first
    t.same(({e["role"] for e in used.events("ras-bank-poisoned")}, used.data["hardware"]["block"], used.data["hardware"]["severity"]), ({"cause"}, "gfx", "uncorrected"), "hive: data that was used stands before its announcement")


def test_forms(t, unhang, program):
    """What the driver prints around errors, by its sources from Linux 6.1 to the RAS core of 6.19."""
    dev = f"amdgpu {GPU}: amdgpu: "
    forms = [  # lines; class, block, how bad, what to do
        (["{4} socket: 0, die: 1, 1 new poison consumption detected in gfx block"], "ras-uncorrectable-error", "gfx", "uncorrected", "reset"),
        (["{4} sdma RAS poison consumption is issued!"], "ras-uncorrectable-error", "sdma", "uncorrected", "reset"),
        (["{14}poison is consumed by client 12, kick off gpu reset flow"], "ras-uncorrectable-error", "gfx", "uncorrected", "reset"),
        (["poison is consumed by client 18, kick off gpu reset flow"], "ras-uncorrectable-error", "mmhub", "uncorrected", "reset"),
        (["Uncorrectable error detected in UMC inst: 3, chan_idx: 5"], "ras-uncorrectable-error", "umc", "uncorrected", "cold-restart"),
        (["2 uncorrectable hardware errors detected in GC EA, instance: 3, memory_id: 17"], "ras-uncorrectable-error", None, "uncorrected", "cold-restart"),
        (["XGMI PCS DataLossErr detected", "1 uncorrectable hardware errors detected in xgmi_wafl block"], "ras-uncorrectable-error", "xgmi_wafl", "uncorrected", "diagnostics"),
        (["MCA STATUS 0xfc20000000000000, umc_reg_offset 0x0", "MCA IPID 0x9600150f00, umc_reg_offset 0x0", "Error Address(PA): 0x1d1e3f000"], "ras-uncorrectable-error", "umc", "uncorrected", "reset"),
        (["socket: 0, aid: 2, hbm: 1, fw_status: 0x1c, memory training failed"], "gpu-init-failed", "umc", "fatal", "cold-restart"),
        (["socket: 0, aid: 2, fw_status: 0x1c, xgmi link training failed"], "gpu-init-failed", "xgmi_wafl", "fatal", "cold-restart"),
        (["This GPU is in BAD status.Please retire it or set a larger threshold value when reloading driver."], "ras-uncorrectable-error", "umc", "fatal", "replace"),
        (["GPU reset begin!. Source:  2"], "ras-uncorrectable-error", None, None, "cold-restart"),
        (["CP ECC ERROR IRQ"], "ras-uncorrectable-error", "gfx", "uncorrected", "cold-restart"),
    ]
    for lines, cls, block, severity, service in forms:
        a = unhang.explain_text("".join(f"[{100 + n / 1000:12.6f}] {dev}{line}\n" for n, line in enumerate(lines)))
        h = a.first.data.get("hardware") or {} if a.incidents else {}
        t.same((a.classes, h.get("block"), h.get("severity"), h.get("service")), ([cls], block, severity, service), f"forms: {lines[0][:60]}")
        if "MCA" in lines[0]:
            t.same((h.get("afid"), h.get("umc"), h.get("page")), (None, 0, "0x1d1e3f000"), "forms: MI200 has no number of AMD's, but a page")
    for line in ("{2}Poison is created", "{2} RAS poison is created, no user action is needed.", "{2}socket: 0, die: 1, 1 new deferred hardware errors detected in umc block"):
        a = unhang.explain_text(log(line))
        t.same((a.incidents, [n["event"] for n in a.document["notes"]]), ([], ["ras-deferred"]), f"forms: {line[4:40]}: told, and no incident")
    both = unhang.explain_text(log("{2}Poison is created", *new_form(1, status(0, DEFERRED | POISON), ipid(0x96, 0, 0x290f00, 4)), "Send SIGBUS to process python3(pasid:32770)",
                                   "{3}poison is consumed by client 10, kick off gpu reset flow")).first
    t.same(({e["role"] for e in both.events("ras-bank-deferred")}, {e["role"] for e in both.events("ras-poison")}, both.data["hardware"]["afid"], both.data["hardware"]["service"], both.value("process")),
           ({"cause"}, {"effect"}, 22, "retire-pages", "python3"), "forms: memory that broke, and the job that used it")
    t.ok("python3" in both.data["cause"]["explanation"], "forms: the answer names both", both.data["cause"]["explanation"])
    t.ok("python3 used the broken data" in both.data["cause"]["title"] and "start python3 again" in re.sub("until .* pending. Then", "", both.data["action"]["text"]), "forms: and so do its first line and its advice",
         f'{both.data["cause"]["title"]}; {both.data["action"]["text"]}')
    own = unhang.explain_text("[    0.000000] Command line: quiet amdgpu.bad_page_threshold=4\n" + log("Saved bad pages 5 reaches threshold value 4")).first
    t.same(own.data["hardware"]["service"], "diagnostics", "forms: a limit that the user has set is not AMD's")


def seeds(*names):
    return [(tap.HERE / ".." / "fuzz/seeds" / name).read_text() for name in names]


def test_lists(t, unhang, program):
    """Tables of records and pages, and what the platform's firmware tells the kernel."""
    records, pages, ghes, bert = seeds("error-list/records.txt", "error-list/pages.txt", "apei/ghes.txt", "apei/bert.txt")
    h = unhang.explain_text(records).first.data["hardware"]
    t.same((h["afid"], h["severity"], h["record_time"], h["record_age"], h["service"]), (30, "fatal", "2026-05-28T11:22:33Z", "unknown", "watch"), "lists: a record alone means no more than 'watch'")
    old = unhang.explain(unhang.write("records.txt", records), unhang.write("later.log", "".join(f"2026-06-02T08:00:{n:02}.000000+00:00 node7 kernel: {x}\n" for n, x in enumerate(
        ("Linux version 6.12.0 (build@host) #1 SMP", "[drm] Initialized amdgpu 3.59.0 for 0000:1b:00.0 on minor 1"))))).first
    t.same(old.data["hardware"]["record_age"], "earlier-boot", "lists: it has a time, and so an age")
    told = [n["text"] for n in unhang.explain_text(pages).document["notes"]]
    t.ok(told == ["the module's own table has 2 bad memory pages in 2 memory channels, the newest of 2025-05-28T11:22:33Z"], "lists: the module's own table", str(told))
    bad = unhang.explain_text(pages.replace("0x414D4452", "0x42414447")).first.data["hardware"]
    t.same((bad["service"], bad["afid"]), ("replace", 19), "lists: a table that the driver marked as full")
    now = unhang.explain_text(ghes).first.data["hardware"]
    t.same((now["bank"], now["severity"], now["afid"], now["oam"], now["umc"], now["service"]), ("umc", "fatal", 20, "OAM3", 2, "cold-restart"), "lists: a section of AMD's that GHES tells")
    before = unhang.explain_text(bert).first.data["hardware"]
    t.same((before["afid"], before["record_age"], before["service"]), (22, "earlier-boot", "watch"), "lists: BERT tells of the boot before")
    prefixed = "".join(f"2026-05-28T11:22:33,000000+00:00 node7 kernel: {line}\n" for line in ghes.splitlines())
    t.same(unhang.explain_text(prefixed).first.data["hardware"]["afid"], 20, "lists: the same in syslog's form")
    t.same(unhang.explain_text(ghes.replace("32ac0c78-2623-48f6-b0d0", "11112222-3333-4444-5555")).incidents, [], "lists: a section of others is not taken for AMD's")
    smi = ("GPU: 0\n    RETIRED: No bad pages found.\n    PENDING:\n        PAGE_ADDRESS: 0x1d1e3f000\n        PAGE_SIZE: 0x1000\n        STATUS: PENDING\n"
           "    UN_RES:\n        PAGE_ADDRESS: 0x1d1e40000\n        PAGE_SIZE: 0x1000\n        STATUS: UNRESERVABLE\n")
    t.same(sorted(n["event"] for n in unhang.explain_text(smi).document["notes"]), ["bad-page-failed", "bad-page-pending"], "lists: amd-smi bad-pages")
    blocks = "GPU: 1\n    ECC_BLOCKS:\n        UMC:\n            CORRECTABLE_COUNT: 3\n            UNCORRECTABLE_COUNT: 0\n        XGMI_WAFL:\n            CORRECTABLE_COUNT: 0\n            UNCORRECTABLE_COUNT: 2\n"
    h = unhang.explain_text(blocks).first.data["hardware"]
    t.same((h["block"], h["service"]), ("xgmi_wafl", "watch"), "lists: amd-smi metric --ecc-blocks")
    for name, event in (("amd-smi event", "GPU: 3\n    EVENT: GPU_PRE_RESET\n    MESSAGE:\n"), ("amd-smi event --json", '[{"gpu": 3, "event": "GPU_PRE_RESET", "message": ""}]\n'),
                        ("rocm-smi --showevents", "DEVICE\t\tTIME\t\tTYPE\t\tDESCRIPTION\nGPU[3]:\t\t 512.75\t\t GPU_PRE_RESET\t\t 0\n")):
        a = unhang.explain_text(event)
        t.ok(a.incidents and a.first.events("reset-begin"), f"lists: {name}", str(a.document)[:300])


def test_joined(t, unhang, program):
    """What a job saw after an uncorrected error is its effect; a record of that time belongs to it."""
    stamp = "2026-05-28T11:22:{:02}.000000+00:00 node7 kernel: amdgpu 0000:1b:00.0: "
    text = (stamp.format(30) + "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n" +
            stamp.format(31) + "amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)\n" +
            stamp.format(31) + "amdgpu:  Process python3 pid 4242 thread python3 pid 4242\n")
    a = unhang.explain_text(text)
    t.same((len(a.incidents), a.first.cls, [e["role"] for e in a.first.events("page-fault")]), (1, "ras-uncorrectable-error", ["effect"]), "a page fault behind it is its effect")
    kernel = unhang.write("hive.log", "".join(stamp.format(30).replace("1b", gpu) + line + "\n" for gpu, line in (
        ("dd", "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"), *(("4e", x) for x in old_form(0, status(0, GONE), ipid(0x96, 0, 0x290f00, 0b0110))), ("dd", "GPU reset begin!. Source:  2"))))
    server = unhang.write("server.log", "INFO 05-28 11:22:20 [loggers.py:116] Engine 000\n"
                          "(Worker_TP2 pid=4242) :0:rocdevice.cpp            :2993: 4711000000 us: [pid:4242 tid:0x7f0] Callback: Queue 0x7f2a00000000 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016\n"
                          "(Worker_TP2 pid=4242) HW Exception by GPU node-4 (Agent handle: 0x55d0c0ffee00) reason :GPU Hang\n"
                          "(EngineCore_0 pid=4001) ERROR 05-28 11:22:33 [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.\n")
    record = unhang.write("hbm.cper", made(UNCORRECTED_RECORDS[0], upper=0b0110, when=(2026, 5, 28, 11, 22, 30)))
    for name, paths in (("", (kernel, server)), (", with its record", (kernel, server, record)), (", in another order", (record, server, kernel))):
        served = unhang.explain(*paths)
        t.same(([i.cls for i in served.incidents], {e["role"] for e in served.first.events("hsa-queue-error")}, {e["role"] for e in served.first.events("ras-bank-uncorrected")}),
               (["ras-uncorrectable-error"], {"effect"}, {"cause"}), f"a server's aborted queue and hang are its effect{name}; the driver's bank is the cause, its record comes second")
    served = unhang.explain(kernel, server).first.data["remedies"]
    t.ok(not {"check-indices", "one-gpu-or-all"} & {r["id"] for r in served}, "and nobody is sent to look for an assertion in the job's code", str([r["id"] for r in served]))
    far = unhang.explain(kernel, unhang.write("later.log", open(server).read().replace("05-28", "06-28")))
    t.same(len(far.incidents), 2, "a queue that is aborted a month later is another failure")
    alone = unhang.explain(kernel, unhang.write("aborted.log", "".join(x for x in open(server).read().splitlines(True) if "HW Exception" not in x)))
    t.same(len(alone.incidents), 2, "and so is one whose program tells of no hang")
    poison = unhang.explain_text(log("Send SIGBUS to process python3:4242(pasid:32770)", "GPU reset for gfx RAS poison consumption is issued!")).first
    t.ok(poison.cls == "ras-uncorrectable-error" and poison.events("ras-poison"), "poison that killed a job", str(poison.roles))
    one = unhang.explain(unhang.write("kernel.log", text), unhang.write("now.cper", made(UNCORRECTED_RECORDS[0])))
    t.same([(len(one.incidents), one.first.data["hardware"]["record_age"], one.first.data["hardware"]["afid"])], [(1, "this-incident", 20)], "a record of the same time is of this incident")
    apart = unhang.explain(unhang.directory / "kernel.log", unhang.write("old.cper", made(UNCORRECTED_RECORDS[0], when=(2026, 5, 27, 20, 0, 0))))
    ages = {(i.data["hardware"] or {}).get("record_age") for i in apart.incidents}
    t.ok(len(apart.incidents) == 2 and "this-incident" not in ages, "one of another day is not", str(ages))


def test_tools(t, unhang, program):
    """What tools print of counters and records; none of it has a time."""
    forms = {"the exporter's counter": ('gpu_ecc_uncorrect_umc{gpu_id="3",serial_number="x"} 2\ngpu_ecc_uncorrect_gfx{gpu_id="3"} 0\n', 2, "ras-counted"),
             "rocm-smi": ("         Block       Status  Correctable Error  Uncorrectable Error\n           UMC      ENABLED                  4                    2\n", 2, "ras-counted"),
             "files of sysfs": ("/sys/class/drm/card1/device/ras/umc_err_count:ue: 2\n/sys/class/drm/card1/device/ras/umc_err_count:ce: 9\n", 2, "ras-counted"),
             "amd-smi metric -e": ("GPU: 0\n    ECC:\n        TOTAL_CORRECTABLE_COUNT: 9\n        TOTAL_UNCORRECTABLE_COUNT: 2\n        TOTAL_DEFERRED_COUNT: 0\n", 2, "ras-counted"),
             "omnistat": ('rocm_ras_umc_uncorrectable_count{card="3"} 2.0\nrocm_ras_gfx_uncorrectable_count{card="3"} 0.0\n', 2, "ras-counted"),
             "the exporter's field id": ('gpu_afid_errors{afid_index="0",severity="fatal",gpu_id="0"} 30\n', None, "cper-fatal")}
    for name, (text, count, event) in forms.items():
        a = unhang.explain_text(text)
        t.same((a.classes, a.first.value("ras_count"), [e["event"] for e in a.first.timeline], (a.first.data.get("hardware") or {}).get("service")),
               (["ras-uncorrectable-error"], count, [event], "watch"), f"{name}: counted, of unknown age")
    for name, text in {"a counter of 0": 'gpu_ecc_uncorrect_umc{gpu_id="3"} 0\n', "rocm-smi, nothing": "           UMC      ENABLED                  4                    0\n",
                       "no record": 'gpu_afid_errors{afid_index="0",severity="fatal",gpu_id="0"} 0\n',
                       "a corrected record": 'gpu_afid_errors{afid_index="0",severity="non_fatal_corrected",gpu_id="0"} 24\n'}.items():
        t.same(unhang.explain_text(text).incidents, [], f"{name} is no incident")
    pages = unhang.explain_text("0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n")
    t.same((pages.incidents, [n["event"] for n in pages.document["notes"]]), ([], ["bad-page-pending"]), "a page that waits to be retired is told")


SMI = """GPU: 2
    ECC_BLOCKS:
        UMC:
            CORRECTABLE_COUNT: 11
            UNCORRECTABLE_COUNT: {umc}
            DEFERRED_COUNT: 3
        XGMI_WAFL:
            CORRECTABLE_COUNT: 5
            UNCORRECTABLE_COUNT: 0
            DEFERRED_COUNT: 0
"""
PAGES = """GPU: 3
    RETIRED:
        PAGE_ADDRESS: 1001
        PAGE_SIZE: 4096
        STATUS: RESERVED
        PAGE_ADDRESS: 1009
        PAGE_SIZE: 4096
        STATUS: RESERVED
    PENDING: {pending}
    UN_RES: No bad pages found.
"""
EXPORTER = """time="2026-05-28T08:32:40Z" level=info msg="gpuuid=aaff74a1-0000-1000-8000-000000000001 TimeStamp=2026-05-27 17:59:09 RecordId=2:1 Severity=CPER_SEVERITY_FATAL Revision=256 CreatorId=amdgpu" func="gpuagent_health.go:191"
time="2026-05-28T08:32:40Z" level=info msg="NotificationType=CPER_NOTIFICATION_TYPE_MCE AFID=[{afid}]" func="gpuagent_health.go:193"
time="2026-05-28T08:32:40Z" level=info msg="gpuid[5] is set to unhealthy for cper[GPU:\\"x\\" CPEREntry:{{RecordId:\\"2:1\\" Severity:CPER_SEVERITY_FATAL AFId:{afid}}}]" func="gpuagent_health.go:197"
"""


def test_counts(t, unhang, program):
    """amd-smi's counts by block, its lists of pages, and what the metrics exporter writes name the GPU, the block and how bad it is."""
    def notes(a):
        return {(n["event"], n["hardware"]["gpu"], n["hardware"]["block"], n["hardware"]["severity"], n["hardware"]["count"]) for n in a.document["notes"] if n["hardware"]}

    def hardware(a, *keys):
        return tuple((a.first.data["hardware"] or {}).get(key) for key in keys)
    a = unhang.explain_text(SMI.format(umc=4))
    t.same(hardware(a, "gpu", "block", "severity", "count", "service"), ("2", "umc", "uncorrected", 4, "watch"), "amd-smi metric -k: uncorrected errors")
    a = unhang.explain_text(SMI.format(umc=0))
    t.same([n["hardware"]["count"] for n in a.document["notes"] if n["event"] == "ras-corrected-counted"], [11, 5], "the largest count comes first")
    t.same((a.incidents, notes(a)), ([], {("ras-corrected-counted", "2", "umc", "corrected", 11), ("ras-corrected-counted", "2", "xgmi_wafl", "corrected", 5),
                                          ("ras-deferred-counted", "2", "umc", "uncorrected", 3)}), "amd-smi metric -k: all others are told")
    a = unhang.explain_text(PAGES.format(pending="No bad pages found."))
    t.same((a.incidents, notes(a)), ([], {("bad-pages-retired", "3", "umc", None, 2)}), "amd-smi bad-pages: retired ones")
    a = unhang.explain_text(PAGES.format(pending="\n        PAGE_ADDRESS: 7"))
    t.ok(("bad-page-pending", "3", "umc", None, 1) in notes(a), "amd-smi bad-pages: one that waits", str(notes(a)))
    a = unhang.explain_text(EXPORTER.format(afid=18))
    t.same(hardware(a, "gpu", "block", "severity", "afid", "record", "service"), ("5", "xgmi_wafl", "fatal", 18, "2:1", "watch"), "the exporter's log")
    t.ok("17:59:09" in a.first.data["cause"]["explanation"] and "reset at the time of the record" in a.first.data["action"]["text"], "the exporter's log: when the record was written", str(a.first.data["cause"]))
    a = unhang.explain_text(EXPORTER.format(afid=19))
    t.ok(hardware(a, "afid", "service") == (19, "watch") and "bad memory pages" in a.first.data["cause"]["title"], "the exporter's log: the record that the driver makes up",
         str(a.first.data["cause"]))
    a = unhang.explain_text('gpu_afid_errors{afid_index="0",severity="fatal",card_model="x",gpu_id="6",hostname="h",serial_number="6924"} 20\n')
    t.same(hardware(a, "gpu", "serial", "block", "severity", "afid"), ("6", "6924", "umc", "fatal", 20), "the exporter's metrics")
    asleep = unhang.explain_text(log(*(f"{n * 1048560} {what} hardware errors detected in umc block" for n in (1, 2) for what in ("correctable", "uncorrectable"))))
    t.same((asleep.incidents, [(n["event"], n["hardware"]["gpu"]) for n in asleep.document["notes"]]), ([], [("ras-asleep", GPU)]), "a GPU that sleeps counts nothing")


def test_deferred(t, unhang, program):
    """Data that was marked: as a record it is no fatal one, and pages that the driver has retired are not waited for."""
    record = unhang.explain(unhang.write("deferred.cper", made(UNCORRECTED_RECORDS[3]))).first.data
    t.ok("deferred" in record["cause"]["title"] and record["hardware"]["service"] == "watch" and not any(r["id"] == "stale-cper" for r in record["remedies"]), "a deferred record", str(record["cause"]))
    lines = ("{2}socket: 0, die: 1, 1 new deferred hardware errors detected in umc block", "{3}poison is consumed by client 10, kick off gpu reset flow")
    says = [unhang.explain_text(log(*lines, *more)).first.data["action"]["text"] for more in ((), ("Saved 16 pages to EEPROM table.",))]
    t.ok("until the driver has retired" in says[0] and "has retired memory pages" in says[1], "pages that are retired", str(says))


def test_links(t, unhang, program):
    """Errors of the PCIe link are of the hardware, too."""
    def aer(severity):
        return unhang.explain_text(log(f"PCIe Bus Error: severity={severity}, type=Data Link Layer, (Receiver ID)", "  device [1002:74a1] error status/mask=00000010/00000000")).first.data["hardware"]
    t.same([(h["block"], h["severity"], h["service"]) for h in map(aer, ("Uncorrectable (Fatal)", "Uncorrected (Non-Fatal)", "Correctable"))],
           [("pcie", "fatal", "diagnostics"), ("pcie", "uncorrected", "diagnostics"), ("pcie", "corrected", "watch")], "PCIe errors say how bad they are")
    module = unhang.explain_text(log("PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)", "  device [1002:74a1] error status/mask=00000010/00000000")).first.data
    t.ok("module and its board" in module["action"]["text"] and not {"reseat", "pcie-gen3", "aspm-performance"} & {r["id"] for r in module["remedies"] if r.get("shown", True)},
         "a module has no riser and no slot in a PC's BIOS", f'{module["action"]["text"]} {[r["id"] for r in module["remedies"]]}')


def test_age(t, unhang, program):
    """A record of before the boot that a log shows is old; one of after it is not."""
    def age(*when):
        record = unhang.write("age.cper", made(UNCORRECTED_RECORDS[0], when=when))
        boot = unhang.write("boot.txt", "2026-05-10T06:00:00+0000 node kernel: Linux version 6.14.0-36-generic (buildd@host) #36 SMP\n"
                                        f"2026-05-10T06:00:12+0000 node kernel: amdgpu {GPU}: amdgpu: MEM ECC is active.\n")
        return unhang.explain(boot, record).first.data["hardware"]["record_age"]
    t.same((age(2026, 5, 9, 0, 0, 0), age(2026, 5, 11, 0, 0, 0)), ("earlier-boot", "this-boot"), "the age of a record by the first line of a boot")


def test_trend(t, unhang, program):
    """Corrected errors are no incident; how many came this week is told beside the week before."""
    def line(day, text):
        return f"2026-05-{day:02}T08:00:00.000000+00:00 node7 kernel: amdgpu 0000:1b:00.0: amdgpu: {text}\n"
    new = "{{4}}socket: 0, die: 0, {} new correctable hardware errors detected in umc block"
    a = unhang.explain_text(line(1, new.format(1)) + line(12, new.format(3)) + line(12, "{4}socket: 0, die: 0, 4 correctable hardware errors detected in total in umc block") +
                            line(20, new.format(40)))
    told = [n["text"] for n in a.document["notes"] if n["event"] == "corrected-errors"]
    t.ok(len(told) == 1 and "of 0000:1b:00.0 in umc: 44, 40 of them in the last 7 days of this evidence and 3 in the 7 days before; the first on 2026-05-01" in told[0] and
         "no public threshold" in told[0], "corrected errors: this week, the week before, and since when", str(told))
    t.same((a.status, a.incidents), (0, []), "and they are no incident")
    records = b"".join(made(QUIET_RECORDS[0], number=n, oam=3, when=(2026, 5, 10 + n, 0, 0, 0)) for n in range(5))
    told = [n["text"] for n in unhang.explain_text(records, "ce.cper").document["notes"] if n["event"] == "corrected-errors"]
    t.ok(len(told) == 1 and "of OAM3 in umc (AFID 24): 5, 5 of them" in told[0], "records of corrected errors have a trend too", str(told))
    bare = unhang.explain_text(log("2 new correctable hardware errors detected in gfx block"))
    t.ok(any(n["event"] == "corrected-errors" and "of 0000:1b:00.0 in gfx: 2. " in n["text"] for n in bare.document["notes"]), "without days there is only a count", str(bare.document["notes"]))


def test_notes(t, unhang, program):
    """What is no incident names its module, and says in JSON what an incident would."""
    def told(text, event):
        document = unhang.explain_text(text).document
        return next((n for n in document["notes"] if n["event"] == event and n["hardware"]), {"text": str(document["notes"]), "hardware": {}})

    def has(note, **wanted):
        return {key: note["hardware"].get(key) for key in wanted} == wanted
    where = ipid(*UMC, 2)
    deferred = told(log(*new_form(1, status(0, DEFERRED), where), "{1}socket: 2, die: 0, 1 new deferred hardware errors detected in umc block"), "ras-bank-deferred")
    t.ok(has(deferred, gpu=GPU, block="umc", severity="uncorrected", afid=22, socket=2, die=0, umc=2, channel=3, service="watch") and
         deferred["text"].startswith(GPU), "marked data", str(deferred))
    corrected = told(log(*old_form(0, status(0, CECC), where), "socket: 2, die: 0, 7 new correctable hardware errors detected in umc block",
                         *old_form(0, status(6, 0), ipid(*XGMI, 2)), "socket: 2, die: 0, 9 new correctable hardware errors detected in xgmi_wafl block",
                         "socket: 2, die: 0, 2 new correctable hardware errors detected in umc block"), "corrected-errors")
    t.ok(has(corrected, gpu=GPU, block="umc", severity="corrected", afid=24, socket=2, count=9, service="watch"), "corrected errors, with their bank", str(corrected))
    link = unhang.explain_text(log(*old_form(0, status(6, 0), ipid(*XGMI, 2)), "9 new correctable hardware errors detected in xgmi_wafl block",
                                   *old_form(0, status(0, GONE), where), "3 new correctable hardware errors detected in umc block"))
    t.same([(n["hardware"]["block"], n["hardware"]["afid"], n["hardware"]["count"]) for n in link.document["notes"] if n["event"] == "corrected-errors"], [],
           "beside an incident they are left out")
    near = told(log("RAS records:116 exceeds 90% of threshold:128"), "ras-near-threshold")
    t.ok(has(near, gpu=GPU, block="umc", count=116, limit=128) and near["text"].startswith(GPU), "nearly too many bad pages", str(near))
    text = unhang.run("explain", unhang.write("near.log", log("RAS records:116 exceeds 90% of threshold:128"))).stdout.decode()
    t.ok(GPU in text, "the text names the GPU too", text)


def test_words(t, unhang, program):
    """What the kernel writes around a hardware error, in the words of its source."""
    def first(*lines):
        return unhang.explain_text("".join(f"[{100 + n / 1000:12.6f}] {line}\n" for n, line in enumerate(lines)))
    dev = f"amdgpu {GPU}: "
    for name, text in {"poison, queues unmapped": dev + "amdgpu: RAS poison consumption, unmap queue flow succeeded: client id 0x1b",
                       "poison, fall back": dev + "amdgpu: RAS poison consumption, fall back to gpu reset flow: client id 0x1b",
                       "poison, its client": dev + "amdgpu: poison is consumed by client 27, kick off gpu reset flow"}.items():
        a = first(text)
        t.ok(a.first.cls == "ras-uncorrectable-error" and a.first.events("ras-poison"), f"KFD: {name}", str(a.classes))
    lost = first(dev + "amdgpu: GPU reset begin!", dev + "[drm] device wedged, needs recovery")
    t.ok(lost.first.events("wedged-lost"), "the kernel asks for a recovery", str(lost.first.timeline)[:300])


def test_replace(t, unhang, program):
    """The two ways to a replacement: the driver asks for it, or it came back after a cold restart."""
    full = unhang.explain_text(log("RAS records:300 exceed threshold:256, GPU will not be initialized. Replace this GPU or increase the threshold")).first
    t.same((full.data["action"]["do"], full.data["hardware"]["service"]), ("replace", "replace"), "the driver asks for it")
    path = unhang.write("athub.log", log("{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"))
    t.same(unhang.explain(path).first.data["hardware"]["service"], "cold-restart", "first without power")
    t.same(unhang.explain(path, "-a", "returned=yes").first.data["hardware"]["service"], "replace", "then, if it comes back")
    bank_path = unhang.write("bank.log", log(*old_form(0, status(0, GONE), ipid(0x96, 0, 0x290f00))))
    t.same([unhang.explain(bank_path, *more).first.data["hardware"]["service"] for more in ([], ["-a", "returned=yes"])], ["cold-restart", "replace"], "the reply counts also where a remedy is known")
    link = unhang.write("link.log", log(*old_form(0, status(1, GONE), ipid(0x50, 0, 0x11a09200))))
    t.same(unhang.explain(link, "-a", "returned=yes").first.data["hardware"]["service"], "swap", "a link has two ends: swap before you replace")


def main():
    unhang, program, t = tap.Unhang(sys.argv[1]), sys.argv[2], tap.Tap()
    for test in (test_records, test_service, test_random, test_hostile, test_log, test_hive, test_forms, test_lists, test_joined, test_tools, test_counts, test_deferred, test_links, test_age, test_trend, test_notes, test_words, test_replace):
        test(t, unhang, program)
    t.end()


main()
