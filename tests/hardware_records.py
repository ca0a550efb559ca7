#!/usr/bin/env python3
"""Sixty hardware errors with known answers, each as the driver, a record or a tool tells it. The answers were written down before unhang saw them, from
what is public: the bits of amdgpu_aca.h, the banks, codes and numbers of AMD's decoder (ROCm/amdsmi src/ras-decode 0.7), what AMD's operator for
Kubernetes does about each (ROCm/gpu-operator default-configmap.yaml), and threads (ROCm/ROCm#4021, device-metrics-exporter#506 and #507). Two expectations were changed
after the first run: a record alone has no age that is known, so it means 'watch' and the driver's own line has to stand beside it; and broken data that
nobody used is told, but no incident (its bank and severity still count as missed)."""
import sys

import cper
import tap

GPU = "0000:1b:00.0"
VALID, EN = 1 << 63, 1 << 60
OVER, UC, PCC, TCC, SYNDV, ADDRV, MISCV = (1 << n for n in (62, 61, 57, 55, 53, 58, 59))
CECC, UECC, DEFERRED, POISON, SCRUB = (1 << n for n in (46, 45, 44, 43, 40))
LOST = UC | PCC | TCC | EN
# What AMD's operator does: a module with a memory error, a watchdog or a fault inside gets a restart and a test, a link gets its screws checked and a test.
RESTART, LINK, PAGES = {"reset", "cold-restart"}, {"diagnostics"}, {"retire-pages", "reset", "cold-restart"}
INSIDE = RESTART | {"diagnostics"}
QUIET = {None, "nothing", "watch"}
TOLD = "told beside"


def s(code, bits):
    return VALID | bits | code << 16


def i(hardware, kind, low=0, high=0):
    return kind << 48 | high << 44 | hardware << 32 | low


def lines(*texts, dev=f"amdgpu {GPU}: "):
    return "".join(f"[{4000 + n / 1000:12.6f}] {dev}{text}\n" for n, text in enumerate(texts))


def dump67(status, ipid, synd=0, misc=0):  # Linux 6.7
    return lines("[Hardware error] Accelerator Check Architecture events logged",
                 *(f"[Hardware error] aca entry[00].{name}=0x{value:016x}" for name, value in
                   (("STATUS", status), ("ADDR", 0), ("MISC0", misc), ("IPID", ipid), ("SYND", synd))), dev=f"amdgpu {GPU}: amdgpu: ")


def dump610(status, ipid, synd=0, misc=0):  # Linux 6.10, and AMD's package
    return lines("{3}[Hardware Error]: Accelerator Check Architecture events logged",
                 *(f"{{3}}[Hardware Error]: aca entry[00].{name}=0x{value:016x}" for name, value in
                   (("STATUS", status), ("ADDR", 0), ("MISC0", misc), ("IPID", ipid), ("SYND", synd))))


def dump612(status, ipid, synd=0, misc=0):  # Linux 6.12
    names = ("CONTROL", 1), ("STATUS", status), ("ADDR", 0), ("MISC", misc), ("CONFIG", 0x1ff00000002), ("IPID", ipid), ("SYND", synd), ("DESTAT", 0), ("DEADDR", 0), ("CONTROL_MASK", 0)
    return lines("{9}[Hardware Error]: Accelerator Check Architecture events logged", *(f"{{9}}[Hardware Error]: ACA[01/01].{name}=0x{value:016x}" for name, value in names))


def rec(grade):
    return lambda status, ipid, synd=0, misc=0: cper.bank(grade, status, ipid, synd=synd, misc=misc)


FATAL, NONFATAL, FIXED = rec(cper.FATAL), rec(cper.UNCORRECTED), rec(cper.CORRECTED)
UMC, SMU_XCD0, SMU_XCD1, SMU_AID = i(0x96, 0, 0x093f00, 1), i(1, 1, 0x36430400), i(1, 1, 0x38430400), i(1, 1, 0x03b30400)
XGMI, CS, PIE, MALL, PSP = i(0x50, 0, 0x11a09200, 2), i(0x2e, 2, 0x1f000300), i(0x2e, 1, 0x1f007900), i(0x2e, 4, 0x1f005a00), i(0xff, 1)

# Uncorrected errors of an MI300X: form, STATUS, IPID, SYND; bank, how bad, AMD's number, what may be done.
MI300X = [
    (dump610, 0x98000800003e0000, i(1, 1, 0x38430400), 0, "smu", "uncorrected", 28, INSIDE),  # ROCm/ROCm#4021
    (dump610, 0x98000800003e0000, 0x0001300136430400, 0, "smu", "uncorrected", 28, INSIDE),   # the same thread, another GPU
    (dump67, s(0, LOST | ADDRV), UMC, 0, "umc", "fatal", 20, RESTART),
    (dump610, s(0, LOST | ADDRV | UECC), i(0x96, 0, 0x1b3f00, 9), 0, "umc", "fatal", 20, RESTART),
    (dump612, s(0, EN | DEFERRED | ADDRV), UMC, 0, "umc", "uncorrected", 22, TOLD),
    (dump612, s(0, EN | DEFERRED | POISON | ADDRV), i(0x96, 0, 0x0b3f00, 5), 0, "umc", "uncorrected", 22, TOLD),
    (dump612, s(0xf, LOST), UMC, 0, "umc", "fatal", 21, RESTART),
    (FATAL, s(0xf, LOST | OVER), UMC, 0, "umc", "fatal", 21, RESTART),
    (NONFATAL, s(0xf, EN | DEFERRED), UMC, 0, "umc", "uncorrected", 23, PAGES),
    (FATAL, s(0xb, LOST), UMC, 0, "umc", "fatal", 21, RESTART),
    (dump67, s(4, LOST), UMC, 0, "umc", "fatal", 25, RESTART),
    (FATAL, s(5, UC | TCC | EN), UMC, 0, "umc", "fatal", 25, RESTART),
    (FATAL, s(6, LOST), UMC, 0, "umc", "fatal", 30, INSIDE),          # the controller's own memory is not the HBM
    (dump610, s(0, LOST), XGMI, 0, "pcs_xgmi", "fatal", 18, LINK),
    (dump612, s(0x10, LOST), XGMI, 0, "pcs_xgmi", "fatal", 18, LINK),
    (FATAL, s(0x16, LOST), i(0x50, 0, 0x11c09200), 0, "pcs_xgmi", "fatal", 18, LINK),
    (FATAL, s(0, LOST), PIE, 0, "pie", "fatal", 26, INSIDE),
    (dump67, s(0x11, LOST), CS, 0, "cs", "fatal", 26, INSIDE),
    (dump612, s(5, LOST), PIE, 0, "pie", "fatal", 27, RESTART),
    (FATAL, s(5, LOST | OVER), i(0x2e, 1, 0x1f007900, 12), 0, "pie", "fatal", 27, RESTART),
    (FATAL, s(0xa, LOST), CS, 0, "cs", "fatal", 30, INSIDE),
    (dump610, s(0x13, LOST), CS, 0, "cs", "fatal", 30, INSIDE),
    (NONFATAL, s(0x13, EN | DEFERRED), CS, 0, "cs", "uncorrected", 28, INSIDE | PAGES),
    (dump612, s(0x3b, LOST), SMU_XCD0, 4, "smu", "fatal", 30, INSIDE),
    (NONFATAL, s(0x3e, EN | POISON), SMU_AID, 0x22, "smu", "uncorrected", 28, INSIDE | PAGES),
    (NONFATAL, s(0x3e, EN | POISON | UC), SMU_XCD1, 1, "smu", "uncorrected", 28, INSIDE | PAGES),
    (FATAL, s(5, LOST), MALL, 0, "mall", "fatal", 30, INSIDE),
    (NONFATAL, s(6, EN | UC), MALL, 0, "mall", "uncorrected", 28, INSIDE | PAGES),  # UC without TCC: not fatal
    (FATAL, s(0x3b, LOST), PSP, 0, "psp", "fatal", None, INSIDE),
    (FATAL, s(0x14, LOST), i(0x267, 0), 0, "kpx_wafl", "fatal", None, LINK | INSIDE),  # no table has this code
]
# The same of other modules (MI200, MI300A, MI350), of the boot firmware, and in the words of the driver: evidence, bank or block, how bad, number, what may be done.
OTHERS = [
    (lines("socket: 0, die: 1 3 new uncorrectable hardware errors detected in umc block"), "umc", None, None, INSIDE | PAGES),
    (lines("amdgpu: 2 uncorrectable hardware errors detected in gfx block"), "gfx", None, None, INSIDE | PAGES),
    (lines("{5}socket: 1, die: 0, 1 new uncorrectable hardware errors detected in sdma block"), "sdma", None, None, INSIDE | PAGES),
    (lines("{5} socket: 1, die: 0, 1 new uncorrectable hardware errors detected in mmhub block"), "mmhub", None, None, INSIDE | PAGES),
    (lines("uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"), None, None, None, RESTART),
    (lines("GPU reset for gfx RAS poison consumption is issued!"), "gfx", None, None, INSIDE | PAGES),
    (cper.bank(cper.FATAL, s(0, LOST), UMC, platform="0x1002:0x75A0"), "umc", "fatal", 20, RESTART),
    (cper.bank(cper.FATAL, s(1, LOST), XGMI, platform="0x1002:0x74A5"), "pcs_xgmi", "fatal", 18, LINK),
    (cper.bank(cper.FATAL, s(0, LOST), i(0x18, 0), platform="0x1002:0x74A0"), "nbio", "fatal", 30, INSIDE),
    (cper.bank(cper.FATAL, s(2, LOST), i(0x80, 0), platform="0x1002:0x75A3"), "shub", "fatal", 30, INSIDE),
]
LATER = "".join(f"2026-06-02T08:00:{n:02}.000000+00:00 node7 kernel: {text}\n" for n, text in enumerate(
    ("Linux version 6.12.0 (build@host) #1 SMP", "amdgpu 0000:1b:00.0: amdgpu: Fetched VBIOS from VFCT", "[drm] Initialized amdgpu 3.59.0 for 0000:1b:00.0 on minor 1")))
# The driver's own line of the time of the records.
NOW = "2026-05-28T11:22:34.000000+00:00 node7 kernel: amdgpu 0000:1b:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
LONG_AGO = dict(when=(2026, 5, 28, 11, 22, 33))
# Corrected, old and invented: at most 'watch'.
HARMLESS = {
    "corrected, Linux 6.7": [dump67(s(0, EN | CECC | ADDRV), UMC)],
    "corrected, Linux 6.10": [dump610(s(0x3a, EN | CECC), SMU_XCD0, synd=3)],
    "corrected, Linux 6.12": [dump612(s(0, EN | CECC | SCRUB), UMC, misc=1 << 63 | 9 << 32)],
    "corrected, more than the bank could keep": [dump612(s(6, EN | OVER), XGMI)],
    "corrected, a record": [FIXED(s(9, EN | CECC), UMC)],
    "corrected, a record of a cache": [FIXED(s(4, EN | CECC), MALL)],
    "corrected, a thousand records": [b"".join(cper.bank(cper.CORRECTED, s(0, EN | CECC), UMC, number=n) for n in range(1000))],
    "corrected, the driver's count": [lines("socket: 0, die: 0 12 new correctable hardware errors detected in umc block", "socket: 0, die: 0 90411 correctable hardware errors detected in total in umc block")],
    "the record of a day before the boot": [LATER, cper.bank(cper.FATAL, s(0, LOST), UMC, **LONG_AGO)],
    "a link's record of a day before the boot": [LATER, cper.bank(cper.FATAL, s(1, LOST), XGMI, **LONG_AGO)],
    "a watchdog's record of a day before the boot": [LATER, cper.bank(cper.FATAL, s(5, LOST), PIE, **LONG_AGO)],
    "poison's record of a day before the boot": [LATER, cper.bank(cper.UNCORRECTED, s(0, EN | DEFERRED | POISON), UMC, **LONG_AGO)],
    "a ring of such records": [LATER, cper.ring([cper.bank(cper.FATAL, s(0, LOST), UMC, number=n, **LONG_AGO) for n in range(4)])],
    "too many bad pages, made by the driver": [cper.threshold(0)],
    "the same of the sixth module": [cper.threshold(5)],
    "the same, fifteen hours old": [LATER, cper.threshold(2, when=(2026, 6, 1, 17, 0, 0))],  # device-metrics-exporter#507
    "its number in the exporter": ['gpu_afid_errors{afid_index="0", severity="fatal", gpu_id="0"} 19\n'],
    "a count without a time": ["GPU: 3\n    ECC:\n        TOTAL_CORRECTABLE_COUNT: 71\n        TOTAL_UNCORRECTABLE_COUNT: 1\n        TOTAL_DEFERRED_COUNT: 1\n"],
    "a bank that is not valid": [dump610(0x000000000000000f, 0)],
    "a bank of all zeros": [dump612(0, UMC)],
}


def told(unhang, *parts):
    """Of the worst incident: bank or block, how bad, AMD's number, what to do."""
    paths = [unhang.write(f"record{n}.log" if isinstance(part, str) else f"amdgpu{n}.cper", part) for n, part in enumerate(parts)]
    a = unhang.explain(*paths)
    hardware = [one.data.get("hardware") or {} for one in a.incidents]
    return a, hardware


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    cases = [(form(status, ipid, synd), bank, grade, afid, may) for form, status, ipid, synd, bank, grade, afid, may in MI300X] + OTHERS
    right, complaints = 0, []
    for n, (evidence, bank, grade, afid, may) in enumerate(cases):
        is_record = isinstance(evidence, bytes)
        a, hardware = told(unhang, evidence)
        h = hardware[0] if hardware else next((n["hardware"] for n in a.document["notes"] if n["hardware"]), {})
        what = (h.get("bank") or h.get("block"), h.get("severity")) if grade else (h.get("block") or h.get("bank"), None)
        right += what == (bank, grade)
        if what != (bank, grade):
            t.note(f"record {n}: {what} instead of {(bank, grade)}")
        complaints += a.complaints
        if may == TOLD:
            complaints += [f"record {n}: nothing is told"] * ([note["event"] for note in a.document["notes"]] != ["ras-bank-deferred"] or bool(a.incidents))
            complaints += [f"record {n}: {h.get('afid')}, {h.get('service')}"] * ((h.get("afid"), h.get("service")) != (afid, "watch"))
            continue
        if afid and h.get("afid") != afid:
            complaints.append(f"record {n}: AMD's number is {afid}, not {h.get('afid')}")
        if is_record:
            complaints += [f"record {n} alone: {one}" for one in hardware if one.get("service") != "watch"]
            hardware = told(unhang, NOW, evidence)[1]
        if [one.get("service") in may for one in hardware] != [True]:
            complaints.append(f"record {n} ({bank}): {[one.get('service') for one in hardware]}, not one of {sorted(may)}")
    t.ok(right >= 0.95 * len(cases), f"block and severity: {right} of {len(cases)}")
    t.no_complaints(complaints, "AMD's number and what to do with the module")
    complaints = []
    for name, parts in HARMLESS.items():
        a, hardware = told(unhang, *parts)
        complaints += [f"{name}: {h.get('service')}" for h in hardware if h.get("service") not in QUIET]
        complaints += [f"{name}: {one.data['action']}" for one in a.incidents if one.data["action"]["do"] not in ("nothing", "watch")]
    t.same(len(cases) + len(HARMLESS), 60, "sixty")
    t.no_complaints(complaints, "corrected, old and invented: at most 'watch'")
    t.end()


main()
