#!/usr/bin/env python3
"""Reports of hardware errors that are cut off, damaged, or say one thing and mean another: none of them is an all-clear (exit 0)."""
import json
import struct
import sys
import tarfile

import cper
import tap

LOST = cper.UC | cper.PCC | cper.ADDR_V | cper.UECC
UMC = cper.ipid(0x96, 0)


def seed(name):
    return (tap.HERE / ".." / "fuzz/seeds" / name).read_text()


def changed(record, at, form, value):
    b = bytearray(record)
    struct.pack_into(form, b, at, value)
    return bytes(b)


def told(unhang, content, name):
    """Exit status, AMD's number and how bad of the first incident, events of the notes."""
    a = unhang.explain_text(content, name)
    h = a.first.data.get("hardware") or {} if a.incidents else {}
    return a.status, h.get("severity"), h.get("afid"), [n["event"] for n in a.document.get("notes", []) if n["event"] != "corrected-errors"]


def test_records(t, unhang):
    fatal, deferred = (cper.bank(grade, cper.status(0, LOST), UMC) for grade in (cper.FATAL, cper.UNCORRECTED))
    fixed = cper.bank(cper.CORRECTED, cper.status(0, cper.CECC), UMC)
    other = b"\x11" * 16
    for name, record, wanted in (
            ("no sections, fatal", changed(fatal, 10, "<H", 0), (1, "fatal", None, [])),
            ("no sections, uncorrected", changed(deferred, 10, "<H", 0), (1, "uncorrected", None, [])),
            ("no sections, corrected", changed(fixed, 10, "<H", 0), (2, None, None, ["cper-corrected", "cper-cut"])),
            ("a section of others, fatal", changed(fatal, 144, "16s", other), (1, "fatal", None, [])),
            ("a section of others, uncorrected", changed(deferred, 144, "16s", other), (1, "uncorrected", None, [])),
            ("a section of others, corrected", changed(fixed, 144, "16s", other), (0, None, None, ["cper-corrected"])),
            ("a severity that nobody has", changed(fatal, 12, "<I", 7), (2, None, None, ["cper-odd"])),
            ("registers that were lost", cper.bank(cper.FATAL, 0, UMC), (1, "fatal", None, [])),
            ("a corrected one whose bank is not", cper.bank(cper.CORRECTED, cper.status(0, LOST), UMC), (2, None, None, ["cper-corrected", "cper-odd"])),
            ("a corrected one whose section is fatal", changed(fixed, 128 + 48, "<I", cper.FATAL), (2, None, None, ["cper-corrected", "cper-odd"])),
            ("a corrected one whose bank is empty", cper.bank(cper.CORRECTED, 0, UMC), (2, None, None, ["cper-corrected", "cper-odd"])),
            ("another vendor's", cper.threshold(platform="0x10de:0x1234"), (2, None, None, ["cper-other"])),
            ("a ring that begins inside of a record", struct.pack("<3I", 0, 500, 500) + fatal[120:] + fatal, (1, "fatal", 20, [])),
            ("a corrected one whose length reaches over a fatal one", changed(fixed, 20, "<I", 2 * len(fixed)) + fatal + fixed, (1, "fatal", 20, [])),
            ("one whose length reaches over another", changed(fixed, 20, "<I", 2 * len(fixed)) + fixed, (2, None, None, ["cper-cut", "cper-corrected"])),
            ("a fatal one behind many corrected ones", fixed * 5000 + fatal, (1, "fatal", 20, [])),
            ("a ring with room before its record", struct.pack("<3I", 1, 2, 3) + b"\0" * 4096 + fatal, (1, "fatal", 20, []))):
        t.same(told(unhang, record, "one.cper"), wanted, f"record: {name}")
    lost = unhang.explain_text(cper.bank(cper.FATAL, 0, UMC), "one.cper").first
    t.ok("corrected" not in lost.data["cause"]["title"].replace("uncorrected", ""), "record: registers that were lost do not say that it was corrected", lost.data["cause"]["title"])


def test_apei(t, unhang):
    ghes, bert = seed("apei/ghes.txt"), seed("apei/bert.txt")
    for name, text in (("firmware", ghes), ("the boot before", bert)):
        lines = text.splitlines(keepends=True)
        first = next(n for n, line in enumerate(lines) if "event severity" in line)
        t.same(told(unhang, "".join(lines[first:]), "log.txt")[0] in (1, 2), True, f"a report of {name} without its first line is no all-clear")
    t.same([told(unhang, f"[  100.000000] {{1}}[Hardware Error]: event severity: {how}\n", "log.txt")[0] for how in ("fatal", "recoverable", "corrected")], [2, 2, 0],
           "nor is its second line alone, unless that says that it was corrected")
    cut = ghes[:ghes.index("{1}[Hardware Error]:   00000090")]
    fixed, plain = ghes.replace("fatal", "corrected"), "\n".join(line for line in cut.splitlines() if "fatal" not in line)
    for name, text, wanted in (
            ("whole", ghes, (1, "fatal", 20, [])),
            ("STATUS is 0", ghes.replace("b2800000", "00000000"), (1, "fatal", None, [])),
            ("STATUS of a corrected error", ghes.replace("b2800000", "90000000"), (1, "fatal", None, [])),
            ("the same, recoverable", ghes.replace("b2800000", "90000000").replace("fatal", "recoverable"), (1, "uncorrected", None, [])),
            ("registers that are worse", fixed, (1, "fatal", 20, [])),
            ("corrected", fixed.replace("b2800000", "90000000"), (0, None, None, ["cper-corrected"])),
            ("cut off", cut, (1, "fatal", None, [])),
            ("cut off, corrected", cut.replace("fatal", "corrected"), (2, None, None, ["apei-cut"])),
            ("cut off, nothing printed", plain, (2, None, None, ["apei-cut"])),
            ("a length beyond all numbers", ghes.replace("0xb0", "0xffffffffffffffffff"), (1, "fatal", 20, [])),
            ("a length of 0", ghes.replace("0xb0", "0x0"), (1, "fatal", None, [])),
            ("the boot before, cut off", bert[:bert.index("[Hardware Error]:   000000a0")], (1, "uncorrected", None, []))):
        t.same(told(unhang, text, "apei.log"), wanted, f"APEI: {name}")
    panic = "[   85.4] Kernel panic - not syncing: Fatal hardware error!\n"
    t.same(told(unhang, panic, "panic.log"), (2, None, None, ["hardware-panic"]), "APEI: the kernel stopped for hardware, and the device is not in this log")
    obeyed = unhang.explain_text(ghes + panic).first
    t.same((obeyed.cls, obeyed.data["cause"]["confidence"] > 0.5, len(obeyed.events("hardware-panic", "effect"))), ("ras-uncorrectable-error", True, 1), "APEI: the kernel's panic obeys the hardware, and is no crash of the driver")
    alone = unhang.explain_text(cut).first
    t.same((alone.data["cause"]["confidence"] <= 0.5, alone.data["hardware"]["service"], alone.data["hardware"]["oam"]), (True, "watch", "OAM3"), "APEI: what is only printed is told as that")


def test_limit(t, unhang):
    """What the driver says of too many bad pages: its sentences are one event, and a limit that somebody set is not AMD's."""
    at = "[   31.1] amdgpu 0000:4e:00.0: amdgpu: "
    over = at + "RAS records:129 exceed threshold:128\n"
    for name, text, action in (("AMD's", "Please consult AMD Service Action Guide (SAG) for appropriate service procedures", "replace"),
                               ("one that somebody set", "User defined threshold is set, runtime service will be halt when threshold is reached", "nothing")):
        i = unhang.explain_text(over + at + text + "\n").first
        t.same((i.cls, i.data["action"]["do"], [e["event"] for e in i.timeline], i.timeline[0].get("count", 1)), ("ras-uncorrectable-error", action, ["ras-threshold"], 1), f"limit of bad pages: {name}")


TABLE = "GPU: 2\n    ECC_BLOCKS:\n        UMC:\n            CORRECTABLE_COUNT: 0\n            UNCORRECTABLE_COUNT: {}\n            DEFERRED_COUNT: 0\n"
METRIC = 'gpu_ecc_uncorrect_umc{{gpu_id="3",serial_number="x"}} {}\n'
FILE = "/sys/class/drm/card1/device/ras/umc_err_count:ue: {}\n"


def test_counts(t, unhang):
    """A count that cannot be is neither errors nor none."""
    complaints = []
    for count in ("1.04856e+06", "1.2e+06", "1e-9"):
        for labels in ('gpu_id="3",serial_number="x"', 'gpu_id="3",hostname="node7",serial_number="x"', 'gpu_id="3"', 'card="1"'):
            t.same(unhang.explain_text(f"gpu_ecc_uncorrect_umc{{{labels}}} {count}\n").status, 2, f"the exporter: {labels} {count}")
    for count in ("-1", "2000000", "18446744073709551615"):
        a = unhang.explain_text(f"current seqno: 2\nFatal Error: count:{count}, last_seqno:0\n")
        t.same((a.status, [n["event"] for n in a.document["notes"]]), (2, ["ras-uncounted"]), f"event_state: {count}")
    for name, form, counts in (("amd-smi", TABLE, "-1 18446744073709551615 18446744073709551616 x"), ("the exporter", METRIC, "-1 4294967296 18446744073709551615 x"),
                               ("sysfs", FILE, "-1 1048560 18446744073709551615")):
        for count in counts.split():
            a = unhang.explain_text(form.format(count))
            if (a.status, [n["event"] for n in a.document["notes"]]) != (2, ["ras-uncounted"]) or count not in a.document["notes"][0]["text"]:
                complaints.append(f"{name}: {count}: exit {a.status}, {a.document['notes']}")
        complaints += [f"{name}: {count}: exit {status}" for count, wanted in (("0", 0), ("N/A", 0), ("2", 1)) if (status := unhang.explain_text(form.format(count)).status) != wanted]
    t.no_complaints(complaints, "counts: what is no count is unknown, 0 is well, 2 is an incident")
    old = unhang.explain_text("GPU: 0\n    ECC:\n        TOTAL_CORRECTABLE: 0\n        TOTAL_UNCORRECTABLE: 2\n")
    t.same(old.first.value("ras_count"), 2, "counts: the names of amd-smi before ROCm 6.1")


GPU = "0000:46:00.0"
STARTED = "[    1.000000] Linux version 6.12.0 (root@x) #1 SMP\n"
IMPOSSIBLE = ["-1", "1048561", "4294967297", "9223372036854775807", "18446744073709551615", "18446744073709551616", "9" * 26, "1e3", "1.5", ""]


def kernel(*texts):
    return STARTED + "".join(f"[  100.{n:06}] amdgpu {GPU}: amdgpu: {text}\n" for n, text in enumerate(texts))


def test_kernel_counts(t, unhang):
    """Also what the driver prints itself. Multiples of 0xffff0 without a socket are those of a card that sleeps (tests/diagnoses.py)."""
    complaints = []
    for form in ("socket: 0, die: 1, {} new uncorrectable hardware errors detected in umc block", "socket: 0, die: 1, {} correctable hardware errors detected in total in umc block",
                 "{} uncorrectable hardware errors detected in umc block", "{} new deferred hardware errors detected in umc block", "{} new poison consumption detected in gfx block"):
        for count in IMPOSSIBLE:
            a = unhang.explain_text(kernel(form.format(count)))
            if (a.status, [n["event"] for n in a.document["notes"]]) != (2, ["ras-uncounted"]):
                complaints.append(f"{form.format(count)}: exit {a.status}, {a.document['notes']}")
        if unhang.explain_text(kernel(form.format("0"))).status:
            complaints.append(f"{form}: 0 is well")
    t.no_complaints(complaints, "what is no count is unknown")
    for name, record in (("the journal", {"_TRANSPORT": "kernel", "_KERNEL_SUBSYSTEM": "pci", "_KERNEL_DEVICE": f"+pci:{GPU}", "PRIORITY": "6"}), ("plain", None)):
        message = f"amdgpu {GPU}: amdgpu: socket: 0, die: 1, {{}} new uncorrectable hardware errors detected in umc block"
        for count, wanted in (("-1", 2), ("1048560", 2), ("0", 0), ("3", 1)):
            text = message.format(count)
            a = unhang.explain_text(json.dumps({**record, "MESSAGE": text, "__REALTIME_TIMESTAMP": "1790000000000000"}) + "\n" if record else kernel(text[len(f"amdgpu {GPU}: amdgpu: "):]))
            t.same(a.status, wanted, f"{name}: {count}")


def registers(status, number=1, entry=0, ipid=UMC, **others):
    values = {"STATUS": status, "ADDR": 0x1000, "MISC0": 1 << 32, "IPID": ipid, "SYND": 0, **others}
    return [f"{{{number}}}[Hardware Error]: aca entry[{entry:02}].{name}={value if isinstance(value, str) else f'0x{value:016x}'}" for name, value in values.items()]


def between(one, other):
    return [line for pair in zip(one, other) for line in pair]


def test_banks(t, unhang):
    fatal, fixed = cper.status(0, LOST), cper.status(0, cper.CECC)
    whole, quiet = registers(fatal), registers(fixed)
    odd = (2, None, None, ["ras-bank-odd"])
    for name, lines, wanted in (
            ("whole", whole, (1, "fatal", 20, [])),
            ("a corrected one", quiet, (0, None, None, [])),
            ("STATUS is cut off", registers("0xbea000"), odd),
            ("STATUS is cut off by hand", registers("0xbea0..."), odd),
            ("STATUS without its value", registers(""), odd),
            ("STATUS is too long", registers("0xbea00000000000000000"), odd),
            ("STATUS without 0x", registers("bea0000000000000"), odd),
            ("STATUS in a form of its own", ["{1}[Hardware Error]: aca entry[00].STATUS: 0xbea0000000000000"], odd),
            ("STATUS of another name", ["{1}[Hardware Error]: aca_bank[00].STATUS=0xbea0000000000000"], (2, None, None, ["unknown-failure"])),
            ("a NUL before the value", registers("\0" + "0xbea0000000000000"), odd),
            ("STATUS is not valid", registers(fatal & ~cper.VALID), odd),
            ("STATUS is all ones", registers(2**64 - 1), odd),
            ("STATUS is nothing", registers(0), odd),
            ("a bit that says neither", registers(cper.VALID | cper.TCC), odd),
            ("STATUS is lost", whole[1:], odd),
            ("STATUS is lost, behind a whole bank", quiet + registers(fatal, number=2)[1:], odd),
            ("STATUS is lost, behind a bank of the same name", quiet + whole[1:], odd),
            ("STATUS only", whole[:1], (1, "fatal", None, [])),
            ("two of one name at once", between(whole, registers(fixed, ipid=cper.ipid(0x50, 0))), (1, "fatal", None, [])),
            ("the next one is whole again", between(registers(fixed), quiet) + whole, (1, "fatal", 20, [])),
            ("two numbers at once", between(registers(fixed, number=2), whole), (1, "fatal", 20, [])),
            ("two entries at once", between(whole, registers(fixed, entry=1)), (1, "fatal", None, [])),
            ("two corrected entries at once", between(quiet, registers(fixed, entry=1)), (0, None, None, []))):
        t.same(told(unhang, kernel(*lines), "bank.log"), wanted, f"bank: {name}")


def blocks(**counts):
    return {name.upper(): {"correctable_count": 1, "uncorrectable_count": n, "deferred_count": 0} for name, n in counts.items()}


def totals(n):
    return {"total_correctable_count": 9, "total_uncorrectable_count": n, "total_deferred_count": 0, "cache_correctable_count": 0, "cache_uncorrectable_count": n}


def page(status):
    return {"page_address": "0x1d1e40000", "page_size": "4096", "status": status}


def row(severity, **more):
    return {"timestamp": "2026/05/28 11:22:33", "gpu": 5, "severity": severity, **more}


def test_json(t, unhang):
    """amd-smi --json: as amdsmi_commands.py and amdsmi_helpers.py of ROCm/amdsmi build it. One page stands without brackets."""
    none = "No bad pages found."
    kept = {"cper_file": "/tmp/c/fatal-1.cper", "metadata_file": "/tmp/c/fatal-1.json", "afids": [30]}
    beside = {"error_severity": "non_fatal_uncorrected", "notify_type": "MCE", "timestamp": "2026/05/28 11:22:33", "signature": "CPER", "platform_id": "0x1002:0x74A1"}

    def of(document, indent=4):
        a = unhang.explain_text(json.dumps(document, indent=indent), "smi.json")
        h = a.first.data.get("hardware") or {} if a.incidents else {}
        return a.status, h.get("gpu"), h.get("block"), h.get("count"), h.get("severity"), [n["event"] for n in a.document["notes"]]
    fatal = (1, "5", None, None, "fatal", [])
    for name, document, wanted in (
            ("metric --ecc-blocks", {"gpu_data": [{"gpu": 3, "ecc_blocks": blocks(umc=0, gfx=4)}]}, (1, "3", "gfx", 4, "uncorrected", [])),
            ("metric --ecc-blocks, a list", [{"gpu": 3, "ecc_blocks": blocks(umc=4)}], (1, "3", "umc", 4, "uncorrected", [])),
            ("metric --ecc", [{"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}}, "ecc": totals(0)}, {"gpu": 1, "ecc": totals(2)}], (1, "1", None, 2, "uncorrected", [])),
            ("metric, nothing", [{"gpu": 0, "ecc": totals(0), "ecc_blocks": blocks(umc=0)}], (0, None, None, None, None, ["ras-corrected-counted"])),
            ("metric, not supported", [{"gpu": 0, "ecc": {"total_uncorrectable_count": "N/A"}, "ecc_blocks": "N/A"}], (0, None, None, None, None, [])),
            ("metric before ROCm 6.1", [{"gpu": 3, "ecc": {"total_correctable": 0, "total_uncorrectable": 2}}], (1, "3", None, 2, "uncorrected", [])),
            ("beyond 64 bits", [{"gpu": 0, "ecc_blocks": blocks(umc=2**64 - 1)}], (2, None, None, None, None, ["ras-corrected-counted", "ras-uncounted"])),
            ("rocm-smi, in a form that nobody knows", {"card0": {"UMC": {"correctable": 4, "uncorrectable": 2}}}, (2, None, None, None, None, ["ras-uncounted"])),
            ("bad-pages", [{"gpu": 3, "retired": none, "pending": [page("PENDING"), page("PENDING")], "un_res": page("UNRESERVABLE")}], (0, None, None, None, None, ["bad-page-pending", "bad-page-failed"])),
            ("bad-pages, none", [{"gpu": 3, "retired": none, "pending": none, "un_res": none}], (0, None, None, None, None, [])),
            ("ras --cper", [row("NONFATAL-CORRECTED"), row("FATAL")], fatal),
            ("ras --cper --folder", [row("FATAL", **kept)], fatal),
            ("ras --cper, a severity that amd-smi does not know", [row("UNKNOWN")], (2, None, None, None, None, ["cper-odd"])),
            ("the file beside a record", beside, (1, None, None, None, "uncorrected", [])),
            ("ras --afid", {"cper_file": "/tmp/c/fatal-1.cper", "afids": [30]}, (1, None, None, None, "fatal", [])),
            ("ras --afid --folder", [{"cper_file": "/tmp/c/uncorrected-1.cper", "afids": [28], "decode_failed": False}], (1, None, None, None, "uncorrected", [])),
            ("ras --afid, a file with a name of its own", [{"cper_file": "/tmp/c/mine.cper", "afids": [30], "decode_failed": False}], (2, None, None, None, None, ["cper-numbered"])),
            ("ras --afid, a damaged file", [{"cper_file": "/tmp/c/mine.cper", "afids": [], "decode_failed": True}], (2, None, None, None, None, ["cper-cut"])),
            ("a log with severities", [row("FATAL", message="x")], (0, None, None, None, None, []))):
        t.same(of(document), wanted, f"json: {name}")
    t.same(of([{"gpu": 3, "ecc_blocks": blocks(umc=4)}], indent=None), (1, "3", "umc", 4, "uncorrected", []), "json: on one line")
    h = unhang.explain_text(json.dumps([row("FATAL", **kept)])).first.data["hardware"]
    t.same((h["afid"], h["record_time"], h["service"]), (30, "2026-05-28T11:22:33Z", "watch"), "json: a record has its time and AMD's number")
    pasted = unhang.explain_text("$ amd-smi metric -e --json\n" + json.dumps([{"gpu": 1, "ecc": totals(2)}], indent=4))
    t.same(pasted.classes, ["ras-uncorrectable-error"], "json: pasted below its command")


SLOT = "sys/bus/pci/devices/0000:1b:00.0"


def test_numbers(t, unhang):
    """amd-smi ras --afid: subcommands/ras.py of ROCm 7.2."""
    table, asked = "file_name                        list of afids\n{}\n", "root@node7:~# sudo amd-smi ras --afid --cper-file {}\n{}\nroot@node7:~#\n"
    for name, text, wanted in (("a table", table.format("fatal-1.cper                     30 31"), (1, "fatal", 30, [])),
                               ("a file with a name of its own", table.format("mine.cper                        30"), (2, None, None, ["cper-numbered"])),
                               ("a damaged file", table.format("mine.cper                        decode failed"), (2, None, None, ["cper-cut"])),
                               ("a record without a number", table.format("corrected-1.cper                 -"), (0, None, None, [])),
                               ("bare numbers behind the command", asked.format("/tmp/c/fatal-1.cper", "20 22"), (1, "fatal", 20, [])),
                               ("no number behind the command", asked.format("/tmp/c/fatal-1.cper", "-\n20"), (0, None, None, [])),
                               ("a number without the command", "30\n", (0, None, None, []))):
        t.same([x for x in told(unhang, text, "afid.txt")][:4], [wanted[0], wanted[1], wanted[2], wanted[3] + (["cper-corrected"] if "corrected-1" in text else [])], f"AFID: {name}")
    pages = seed("error-list/pages.txt")
    for name, kept, date in (("seconds", "6836F1F9", "2025-05-28T11:22:33Z"), ("a packed date", f"{26 << 27 | 5 << 23 | 28 << 17 | 11 << 12 | 22 << 6 | 33:08X}", "2026-05-28T11:22:33Z"), ("no date", "FFFFFFFF", None)):
        note = unhang.explain_text(pages.replace("6836F1F9", kept), "table.txt").document["notes"][0]["text"]
        t.ok((f"the newest of {date}" in note) if date else "newest" not in note, f"EEPROM: {name}", note)


SCREEN = """+------------------------------------------------------------------------------+
| AMD-SMI            26.2.2                                                    |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:05:00.0    AMD Instinct MI300X | 3 %      44 °C   0           160/750 W |
|   0       0       7        SPX/NPS1 | 0 %        N/A           285/196592 MB |
|-------------------------------------+----------------------------------------|
| 0000:1b:00.0    AMD Instinct MI300X | N/A        N/A   {}              N/A |
|   1       1       6        SPX/NPS1 | 0 %        N/A           285/196592 MB |
+-------------------------------------+----------------------------------------+
"""


def test_files(t, unhang):
    """The driver's counters as people keep them: a tree of files, an archive of it, and what head, cat and grep make of them."""
    def of(content, name="pasted.txt"):
        a = unhang.explain_text(content, name)
        h = a.first.data.get("hardware") or {} if a.incidents else {}
        return a.status, h.get("gpu"), h.get("block"), h.get("count"), h.get("severity"), h.get("service"), [n["event"] for n in a.document["notes"]]
    counted = (1, None, "umc", 2, "uncorrected", "watch", [])
    well = (0, None, None, None, None, None, [])
    both = ["ras-corrected-counted"]
    for name, content, file, wanted in (
            ("umc_err_count", "ue: 2\nce: 0\n", f"{SLOT}/ras/umc_err_count", (1, "0000:1b:00.0", *counted[2:])),
            ("aca_umc", "ue: 2\nce: 0\nde: 0\n", "aca_umc", counted),
            ("none counted", "ue: 0\nce: 0\nde: 0\n", "aca_umc", well),
            ("corrected ones", "ue: 0\nce: 7\n", "umc_err_count", (*well[:6], both)),
            ("of no block", "ue: 2\nce: 0\n", "pasted.txt", (1, None, None, *counted[3:])),
            ("one behind the other", "ue: 0\nce: 0\nue: 2\nce: 0\n", "all.txt", (1, None, None, *counted[3:])),
            ("with the headings of head", f"==> /{SLOT}/ras/gfx_err_count <==\nue: 0\nce: 1\n\n==> /{SLOT}/ras/umc_err_count <==\nue: 2\nce: 0\n", "all.txt", (1, "0000:1b:00.0", *counted[2:6], [])),
            ("a GPU that sleeps", "ue: 1048560\nce: 0\n", "umc_err_count", (2, *well[1:6], ["ras-uncounted"])),
            ("no number", "ue: -1\nce: 0\n", "umc_err_count", (2, *well[1:6], ["ras-uncounted"])),
            ("aca_umc as grep prints it", f"/{SLOT}/ras/aca_umc:ue: 2\n", "grep.txt", counted),
            ("event_state, fatal", "current seqno: 9\nFatal Error: count:2, last_seqno:7\nPoison Creation: count:0, last_seqno:0\nPoison Consumption: count:0, last_seqno:0\n", "event_state", (1, None, None, 2, "fatal", "watch", [])),
            ("event_state before 6.11", "current seqno: 9\nFault Error : count:2, last_seqno:7\n", "event_state", (1, None, None, 2, "fatal", "watch", [])),
            ("event_state, used", "Poison Consumption: count:3, last_seqno:0\n", "event_state", (1, None, None, 3, "uncorrected", "watch", [])),
            ("event_state, marked", "Poison Creation: count:3, last_seqno:0\n", "event_state", (*well[:6], ["ras-deferred-counted"])),
            ("event_state, nothing", "current seqno: 1\nFatal Error: count:0, last_seqno:0\nPoison Creation: count:0, last_seqno:0\n", "event_state", well),
            ("aer_dev_fatal", "Undefined 0\nDLP 1\nTOTAL_ERR_FATAL 1\n", "aer_dev_fatal", (*well[:6], ["links-counted"])),
            ("aer_dev_fatal, nothing", "DLP 0\nTOTAL_ERR_FATAL 0\n", "aer_dev_fatal", well),
            ("rocm-smi --showxgmierr", "GPU[0]\t\t: XGMI Error count: 2 (Multiple errors detected since last read)\n", "smi.txt", (*well[:6], ["links-counted"])),
            ("rocm-smi --showxgmierr, nothing", "GPU[0]\t\t: XGMI Error count: 0 (No errors detected since last read)\n", "smi.txt", well),
            ("rocm-smi --showpagesinfo", "    Page address    Page size    Status\n    0x1d1e3f        0x1000       pending\n    0x1d1e40        0x1000       unreservable\n    0x1d1e41        0x1000       reserved\n", "smi.txt",
             (*well[:6], ["bad-page-pending", "bad-page-failed"])),
            ("amd-smi", SCREEN.format("2  "), "smi.txt", (1, "0000:1b:00.0", None, 2, "uncorrected", "watch", [])),
            ("amd-smi, none", SCREEN.format("0  "), "smi.txt", well),
            ("amd-smi, not supported", SCREEN.format("N/A"), "smi.txt", well),
            ("amd-smi, no number", SCREEN.format("-2 "), "smi.txt", (2, *well[1:6], ["ras-uncounted"])),
            ("ras-mc-ctl --errors", "MCE events:\n1 2026-05-28 11:22:33 +0000 error: Uncorrected, software containable error., bank Unified Memory Controller V2 (bank=60), mci UECC, mca DRAM ECC error. Ext Err Code: 0, "
             "memory_channel=5,csrow=1, status=0xbc2031000000011b, bank=0x0000003c\n", "ras.txt", (2, *well[1:6], ["rasdaemon-record"])),
            ("ras-mc-ctl, MI300A", "1 2026-05-28 11:22:33 +0000 error: Deferred error, no action required., bank Unified Memory Controller (bank=60), mca DRAM On Die ECC error. Ext Err Code: 0, memory_die_id=1\n", "ras.txt",
             (2, *well[1:6], ["rasdaemon-record"])),
            ("ras-mc-ctl, memory of the processor", "1 2026-05-28 11:22:33 +0000 error: Corrected error, no action required., bank Unified Memory Controller (bank=17), mca DRAM ECC error. Ext Err Code: 0, memory_channel=3,csrow=0\n", "ras.txt", well)):
        (unhang.directory / file).parent.mkdir(parents=True, exist_ok=True)
        t.same(of(content, file), wanted, f"files: {name}")
    tree = unhang.directory / "tree"
    (tree / SLOT / "ras").mkdir(parents=True)
    for name, content in (("umc_err_count", "ue: 2\nce: 0\n"), ("gfx_err_count", "ue: 0\nce: 0\n")):
        (tree / SLOT / "ras" / name).write_text(content)
    archive = unhang.directory / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, arcname=".")
    for name, path in (("a tree", tree), ("an archive", archive)):
        a = unhang.explain(path)
        t.same([(i.data["hardware"]["gpu"], i.data["hardware"]["block"]) for i in a.incidents], [("0000:1b:00.0", "umc")], f"files: {name}: block and GPU are in the path")


ASKED = "RAS records:256 exceed threshold:256, GPU will not be initialized. Replace this GPU or increase the threshold"
SENTENCES = (ASKED, "This GPU is in BAD status.", "Please consult AMD Service Action Guide (SAG) for appropriate service procedures", "CP ECC ERROR IRQ",
             "aca entry[00].STATUS=0xbea0000000000000", "GPU reset for umc RAS poison consumption is issued!",
             "socket: 0, aid: 0, hbm: 0, fw_status: 0x1, hbm memory test failed", "uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!")
DRIVER = "amdgpu 0000:46:00.0: amdgpu: "
# How programs write down what somebody said, and what a program may write into the kernel's log. {} is the driver's sentence.
PROGRAMS = ("2026-10-02 10:00:00 INFO request 17: what does \"{}\" mean?", "INFO: user said: {}", "INFO 2026-10-02 10:00:00 prompt: " + DRIVER + "{}",
            "2026-10-02T10:00:00.000000000Z stdout F " + DRIVER + "{}", '{{"log":"' + DRIVER + '{}\\n","stream":"stdout","time":"2026-10-02T10:00:00.000000000Z"}}',
            "Oct  2 10:00:00 node7 containerd[400]: " + DRIVER + "{}", "chat-1  | " + DRIVER + "{}", "[  900.100000] prog: {}", "[  900.100000] prog[12]: " + DRIVER + "{}",
            "3,4,992000000,-;foo: {}", '"question": "' + DRIVER + '{}",')
INTO_LOG = ("11,2,990000000,-;" + DRIVER + "{}", "<11>[  990.000000] " + DRIVER + "{}", "user  :err   : [  990.000000] " + DRIVER + "{}", "daemon:err   : [  990.000000] " + DRIVER + "{}")
# Words that may be the kernel's: an incident, but nobody sends a module back for them.
DOUBTFUL = ("2026-10-02 10:00:00 {}", "{}", '{{"message":"' + DRIVER + '{}","timestamp":"2026-10-02T10:00:00Z"}}', "reporter: " + DRIVER + "{}",
            "2026-10-02T10:00:00.000000000Z stdout F [  990.000000] " + DRIVER + "{}", '{{"log":"[  990.000000] ' + DRIVER + '{}\\n","stream":"stdout"}}',
            "Oct  2 10:00:00 node7 vllm[42]: [  990.000000] " + DRIVER + "{}", "<p>[  990.000000] " + DRIVER + "{}</p>", "bob: node7 kernel: " + DRIVER + "{}",
            "<3>1 2026-10-02T10:00:00.000000Z node7 kernel - - - " + DRIVER + "{}", "[pod/watch/dmesg] [  990.000000] " + DRIVER + "{}")
KERNELS = ("[  990.000000] " + DRIVER + "{}", "[Fri Oct  2 10:00:00 2026] " + DRIVER + "{}", "Oct  2 10:00:00 node7 kernel: " + DRIVER + "{}", DRIVER + "{}", "> " + DRIVER + "{}",
           "2026-10-02T10:00:00,000000+00:00 " + DRIVER + "{}", "3,2,990000000,-;" + DRIVER + "{}", "<3>[  990.000000] " + DRIVER + "{}", "kern  :err   : [  990.000000] " + DRIVER + "{}",
           "dmesg.txt:12:[  990.000000] " + DRIVER + "{}", "node7: [  990.000000] " + DRIVER + "{}",
           "node7 kernel: " + DRIVER + "{}", "`" + DRIVER + "{}`", "\ufeff[  990.000000] " + DRIVER + "{}", "- [  990.000000] " + DRIVER + "{}")


def test_whose_words(t, unhang):
    """What costs a module counts as the kernel's only where the form of its line is the kernel's."""
    for form in PROGRAMS:
        for sentence in SENTENCES:
            a = unhang.explain_text(form.format(sentence) + "\n", "server.log")
            t.same((a.status, len(a.incidents)), (2, 0), f"a program's words are no incident and no all-clear: {form.format(sentence)[:90]}")
    for form in INTO_LOG:
        for sentence in SENTENCES[:3]:
            t.same(len(unhang.explain_text(form.format(sentence) + "\n", "log.txt").incidents), 0, f"what a program writes into the kernel's log is not the kernel's: {form}")
    for form in DOUBTFUL:
        first = unhang.explain_text(form.format(ASKED) + "\n", "log.txt").first.data
        t.same((first["action"]["do"], first["action"]["fault"], first["cause"]["confidence"] < 0.8), ("nothing", "unknown", True), f"doubtful words cost no module: {form}")
    for form in KERNELS:
        t.same(unhang.explain_text(form.format(ASKED) + "\n", "log.txt").first.data["action"]["do"], "replace", f"the kernel's words, as people paste them: {form}")
    asked = f"2026-10-02 09:59:00 INFO request 16\n2026-10-02 10:00:00 INFO prompt: what does this mean?\n{DRIVER}{ASKED}\n"
    t.same(unhang.explain_text(asked, "server.log").first.data["action"]["do"], "nothing", "nor does the second line of a prompt")
    hang = "[  900.000000] amdgpu 0000:05:00.0: amdgpu: ring sdma0 timeout, signaled seq=10, emitted seq=12\n"
    both = json.loads(unhang.run("explain", "--json", unhang.write("dmesg.txt", hang), unhang.write("server.log", "".join(form.format(ASKED) + "\n" for form in PROGRAMS))).stdout)
    t.same([i["cause"]["class"] for i in both["incidents"]], ["sdma-ring-timeout"], "a prompt beside it displaces no incident")


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    for test in (test_records, test_apei, test_limit, test_counts, test_kernel_counts, test_banks, test_json, test_numbers, test_files, test_whose_words):
        test(t, unhang)
    t.end()


main()
