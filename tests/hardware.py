#!/usr/bin/env python3
"""Hardware errors: banks in the kernel log, records of errors (CPER), counters, and what is to be done with the module. The answers of the records
were written down from the public tables of the kernel and of AMD's tools, not from what unhang says."""
import os
import random
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
               ("ras-uncorrectable-error", "umc", 1, 1, 0, "fatal", 20, "reset"), f"{name}: what failed, where, and what to do")
        t.same((a.first.value("bank_count"), sorted(map(str, a.first.values("bank_afid")))), (3, ["20", "28"]), f"{name}: each bank has its own facts")
    corrected = unhang.explain_text(log(*new_form(1, status(0, CECC), where), *new_form(2, status(0, CECC), where)))
    t.same((corrected.status, corrected.incidents), (0, []), "banks of corrected errors are no incident")
    alone = unhang.explain_text(log(*old_form(0, status(0, GONE), where)[3:]))
    t.same(alone.incidents, [], "registers without the bank's status say nothing")
    link = unhang.explain_text(log(*old_form(0, status(1, GONE), ipid(0x50, 0, 0x11a09200)))).first
    t.same((link.data["hardware"]["service"], link.data["hardware"]["afid"], link.data["action"]["do"]), ("diagnostics", 18, "power-cycle"), "a link between modules: its seat, then AMD's test")


def test_joined(t, unhang, program):
    """What a job saw after an uncorrected error is its effect; a record of that time belongs to it."""
    stamp = "2026-05-28T11:22:{:02}.000000+00:00 node7 kernel: amdgpu 0000:1b:00.0: "
    text = (stamp.format(30) + "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n" +
            stamp.format(31) + "amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)\n" +
            stamp.format(31) + "amdgpu:  Process python3 pid 4242 thread python3 pid 4242\n")
    a = unhang.explain_text(text)
    t.same((len(a.incidents), a.first.cls, [e["role"] for e in a.first.events("page-fault")]), (1, "ras-uncorrectable-error", ["effect"]), "a page fault behind it is its effect")
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


def test_trend(t, unhang, program):
    """Corrected errors are no incident; how many came this week is told beside the week before."""
    def line(day, text):
        return f"2026-05-{day:02}T08:00:00.000000+00:00 node7 kernel: amdgpu 0000:1b:00.0: amdgpu: {text}\n"
    new = "{{4}}socket: 0, die: 0, {} new correctable hardware errors detected in umc block"
    a = unhang.explain_text(line(1, new.format(1)) + line(12, new.format(3)) + line(12, "{4}socket: 0, die: 0, 4 correctable hardware errors detected in total in umc block") +
                            line(20, new.format(40)))
    told = [n["text"] for n in a.document["notes"] if n["event"] == "corrected-errors"]
    t.ok(len(told) == 1 and "of 0000:1b:00.0: 44, 40 of them in the last 7 days of this evidence and 3 in the 7 days before; the first on 2026-05-01" in told[0] and
         "no public threshold" in told[0], "corrected errors: this week, the week before, and since when", str(told))
    t.same((a.status, a.incidents), (0, []), "and they are no incident")
    records = b"".join(made(QUIET_RECORDS[0], number=n, oam=3, when=(2026, 5, 10 + n, 0, 0, 0)) for n in range(5))
    told = [n["text"] for n in unhang.explain_text(records, "ce.cper").document["notes"] if n["event"] == "corrected-errors"]
    t.ok(len(told) == 1 and "of OAM3: 5, 5 of them" in told[0], "records of corrected errors have a trend too", str(told))
    bare = unhang.explain_text(log("2 new correctable hardware errors detected in gfx block"))
    t.ok(any(n["event"] == "corrected-errors" and "of 0000:1b:00.0: 2. " in n["text"] for n in bare.document["notes"]), "without days there is only a count", str(bare.document["notes"]))


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


def main():
    unhang, program, t = tap.Unhang(sys.argv[1]), sys.argv[2], tap.Tap()
    for test in (test_records, test_service, test_random, test_hostile, test_log, test_joined, test_tools, test_trend, test_words, test_replace):
        test(t, unhang, program)
    t.end()


main()
