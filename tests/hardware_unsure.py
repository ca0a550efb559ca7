#!/usr/bin/env python3
"""Reports of hardware errors that are cut off, damaged, or say one thing and mean another: none of them is an all-clear (exit 0)."""
import json
import struct
import sys

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
            ("another vendor's", cper.threshold(platform="0x10de:0x1234"), (2, None, None, ["cper-other"])),
            ("a ring that begins inside of a record", struct.pack("<3I", 0, 500, 500) + fatal[120:] + fatal, (1, "fatal", 20, [])),
            ("a ring with room before its record", struct.pack("<3I", 1, 2, 3) + b"\0" * 4096 + fatal, (1, "fatal", 20, []))):
        t.same(told(unhang, record, "one.cper"), wanted, f"record: {name}")
    lost = unhang.explain_text(cper.bank(cper.FATAL, 0, UMC), "one.cper").first
    t.ok("corrected" not in lost.data["cause"]["title"].replace("uncorrected", ""), "record: registers that were lost do not say that it was corrected", lost.data["cause"]["title"])


def test_apei(t, unhang):
    ghes, bert = seed("apei/ghes.txt"), seed("apei/bert.txt")
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
    alone = unhang.explain_text(cut).first
    t.same((alone.data["cause"]["confidence"] <= 0.5, alone.data["hardware"]["service"], alone.data["hardware"]["oam"]), (True, "watch", "OAM3"), "APEI: what is only printed is told as that")


TABLE = "GPU: 2\n    ECC_BLOCKS:\n        UMC:\n            CORRECTABLE_COUNT: 0\n            UNCORRECTABLE_COUNT: {}\n            DEFERRED_COUNT: 0\n"
METRIC = 'gpu_ecc_uncorrect_umc{{gpu_id="3",serial_number="x"}} {}\n'
FILE = "/sys/class/drm/card1/device/ras/umc_err_count:ue: {}\n"


def test_counts(t, unhang):
    """A count that cannot be is neither errors nor none."""
    complaints = []
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
            ("a log with severities", [row("FATAL", message="x")], (0, None, None, None, None, []))):
        t.same(of(document), wanted, f"json: {name}")
    t.same(of([{"gpu": 3, "ecc_blocks": blocks(umc=4)}], indent=None), (1, "3", "umc", 4, "uncorrected", []), "json: on one line")
    h = unhang.explain_text(json.dumps([row("FATAL", **kept)])).first.data["hardware"]
    t.same((h["afid"], h["record_time"], h["service"]), (30, "2026-05-28T11:22:33Z", "watch"), "json: a record has its time and AMD's number")
    pasted = unhang.explain_text("$ amd-smi metric -e --json\n" + json.dumps([{"gpu": 1, "ecc": totals(2)}], indent=4))
    t.same(pasted.classes, ["ras-uncorrectable-error"], "json: pasted below its command")


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    for test in (test_records, test_apei, test_counts, test_json):
        test(t, unhang)
    t.end()


main()
