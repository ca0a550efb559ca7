#!/usr/bin/env python3
"""What an operator reads first after a hardware error: kernel logs in the driver's words of a whole node, and what their first screens say."""
import re
import sys

import tap
from cper import ADDR_V, CECC, DEFERRED, EN, FATAL, PCC, POISON, TCC, UC, bank, ipid, status

NODE = ["05", "26", "46", "65", "85", "a6", "c6", "e5"]
GONE = UC | PCC | TCC | EN | ADDR_V
T = 81234.5


def started(device="74a1", kernel="6.8.0-60-generic", gpus=NODE):
    rows = [(0, f"Linux version {kernel} (buildd@host) #63 SMP"), (0, "DMI: Supermicro AS -8125GS-TNMR2/H13DSG-O-CPU-D, BIOS 3.2 12/05/2024")]
    for n, gpu in enumerate(gpus):
        rows += [(20 + n, f"[drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x{device.upper()} 0x1002:0x{device.upper()} 0x00)."),
                 (21 + n, f"[drm] Initialized amdgpu 3.57.0 20150101 for 0000:{gpu}:00.0 on minor {n + 1}")]
    return rows


def dev(gpu):
    return f"amdgpu 0000:{gpu}:00.0: amdgpu: "


def resets(at, first, gpus=NODE):
    return ([(at, dev(first) + "GPU reset begin!")] + [(at + 0.1, dev(gpu) + "GPU mode1 reset") for gpu in gpus] +
            [(at + 5, dev(gpu) + "GPU reset succeeded, trying to resume") for gpu in gpus] + [(at + 9, dev(gpu) + "GPU reset(2) succeeded!") for gpu in gpus])


def announced(gpu, number=1):
    return [(T, dev(gpu) + f"{{{number}}}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!")]


def registers(at, gpu, number, bits, where, synd=0, count=1):
    values = dict(CONTROL=1, STATUS=bits, ADDR=0x1d1e3f00, MISC=count << 32, CONFIG=0x1ff00000002, IPID=where, SYND=synd, DESTAT=0, DEADDR=0, CONTROL_MASK=0)
    return [(at, dev(gpu) + f"{{{number}}}[Hardware Error]: ACA[01/01].{name}=0x{value:016x}") for name, value in values.items()]


def text(*parts):
    return "".join(f"[{at:12.6f}] {line}\n" for at, line in sorted(sum(parts, []), key=lambda row: row[0]))


def counts(gpu, number, what, at=T + 0.15):
    return [(at, dev(gpu) + f"{{{number}}}socket: 2, die: 1, 1 new {what}")]


MI250 = ["29", "2c"]
LOGS = {
    "hbm": text(started(), announced("05"), registers(T + 0.1, "46", 1, status(0, GONE), ipid(0x96, 0, 0x490f00, 6)), counts("46", 1, "uncorrectable hardware errors detected in umc block"), resets(T + 0.3, "46")),
    "poison": text(started(), registers(T, "46", 2, status(0, EN | DEFERRED | POISON | ADDR_V), ipid(0x96, 0, 0x290f00, 6)), counts("46", 2, "deferred hardware errors detected in umc block"),
                   [(T + 0.2, dev("46") + "Saved 16 pages to EEPROM table."), (T + 3, dev("46") + "{3}poison is consumed by client 10, kick off gpu reset flow"),
                    (T + 3, "amdgpu: Send SIGBUS to process python3:48812(pasid:32774)")], resets(T + 3.3, "46")),
    "used": text(started(), [(T, dev("46") + "RAS poison consumption, unmap queue flow succeeded: client id 0x1b"), (T + 0.1, dev("46") + "Send SIGBUS to process vllm::worker:48812(pasid:32774)")]),
    "link": text(started(), announced("05"), registers(T + 0.1, "46", 1, status(0, GONE), ipid(0x50, 0, 0x11a09200, 2)), counts("46", 1, "uncorrectable hardware errors detected in xgmi_wafl block"), resets(T + 0.3, "46")),
    "watchdog": text(started("75a0", "6.19.0"), announced("46"), registers(T + 0.1, "46", 1, status(5, GONE), ipid(0x2e, 1, 0x1f007900, 2)), counts("46", 1, "uncorrectable hardware errors detected in df block"), resets(T + 0.4, "46")),
    "graphics": text(started(), announced("46"), registers(T + 0.1, "46", 1, status(0x3b, GONE), ipid(1, 1, 0x38430400, 2), synd=3), [(T + 1, dev("46") + "GPU reset begin!"), (T + 9, dev("46") + "GPU reset end with ret = -62")]),
    "users": text(started(), announced("05"), *(registers(T + 0.04, gpu, 1, 0x98000800003e0000, where) for gpu, where in (("85", 0x0001200136430401), ("c6", 0x0001100136430401))), resets(T + 1, "05")),
    "no reset": text(started(), [(T + 3, dev("46") + "{3}poison is consumed by client 10, kick off gpu reset flow"), (T + 3, "amdgpu: Send SIGBUS to process python3:48812(pasid:32774)"),
                                 (T + 3.3, dev("46") + "GPU reset begin!"), (T + 9, dev("46") + "ASIC reset failed with error, -62 for drm dev, 0000:46:00.0"), (T + 20, dev("46") + "GPU reset end with ret = -62")]),
    "boot": text(started(gpus=NODE[:7]), [(40, dev("e5") + "socket: 7, aid: 2, hbm: 1, fw_status: 0x1c, memory training failed"), (40.2, dev("e5") + "Fatal error during GPU init"), (40.3, "amdgpu: probe of 0000:e5:00.0 failed with error -22")]),
    "worn out": text(started(gpus=NODE[:7]), [(40, dev("e5") + "RAS records:132 exceed threshold:128, GPU will not be initialized. Replace this GPU or increase the threshold"), (40.2, dev("e5") + "Fatal error during GPU init")]),
    "older module": text(started("740c", "6.5.0-41-generic", MI250), announced("2c"), [(T + 0.1, dev("2c") + f"MCA {name} {value}, umc_reg_offset 0x100000") for name, value in (("STATUS", "0xbc2031000000011b"), ("IPID", "0x9600150f00"))],
                         [(T + 0.2, dev("2c") + "2 uncorrectable hardware errors detected in umc block")], resets(T + 0.3, "2c", MI250)),
    "guest": text([(0, "Linux version 6.8.0-1021-azure (buildd@host) #25 SMP"), (0, "DMI: Microsoft Corporation Virtual Machine/Virtual Machine, BIOS Hyper-V UEFI Release v4.1"), (0, "Hypervisor detected: Microsoft Hyper-V")],
                  [(21, "[drm] Initialized amdgpu 3.57.0 20150101 for 0003:00:00.0 on minor 1"), (T, "amdgpu 0003:00:00.0: amdgpu: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!")]),
}
SERIAL = "/sys/bus/pci/devices/0000:46:00.0/serial_number"
# What the screen has to say, in order; and what it must not.
SAYS = {
    "hbm": (("fatal error of the HBM", "0000:46:00.0 and 7 more", "Module", "OAM2 on its board", SERIAL, "Drain the node", "cause", "die 1, UMC 2 channel 0"), ()),
    "poison": (("python3 (48812) used the broken data", "OAM2", "has retired memory pages", "start python3 (48812) again", "hbm-retired"), ("hbm-retire]",)),
    "used": (("vllm::worker (48812) used data that memory had marked as broken", "Start vllm::worker (48812) again", "memory errors (below)", "amd-smi metric --ecc-blocks"), ()),
    "link": (("fatal error of an XGMI link", "OAM2", "the screws of each OAM", "1. Check the four screws"), ("xgmi_error",)),
    "watchdog": (("a watchdog ran out", "MI350X", "OAM2", "power it off and on", "inside-test"), ("cloud",)),
    "graphics": (("inside of the module (GC)", "OAM2", "GC (told by the power controller) on die 0 (xcd1)", "names GC, told by the power controller, die 0 (xcd1); the error is GfxFatal"), ()),
    # In the words of ROCm/ROCm#4021: two modules used it, and neither of them has to be broken.
    "users": (("The GPU used data that memory had marked", "Module not known: OAM6, OAM5 used broken data, whose origin may be any module or the host", "See which module counts memory errors"), ("serial",)),
    "no reset": (("python3 (48812) used data", "power it off and on: the driver's own reset failed. Start python3 (48812) again after that"), ("after the reset",)),
    "boot": (("the HBM could not be trained at boot, die 2, HBM 1", "OAM7 on its board", "Power the machine off and on", "power-cycle-node"), ("Above 4G", "linux-firmware", "serial_number")),
    "worn out": (("limit of bad pages (132 of 128)", "have this GPU replaced", "sudo lspci -vs 0000:e5:00.0 | grep -i slot"), ()),
    "older module": (("uncorrected error of a memory controller (UMC) and its HBM", "0000:2c:00.0", "then reset it (the driver's own reset succeeded)", "UMC 0 channel 4", "names a memory controller (UMC) and its HBM, memory controller 0 channel 4"), ("OAM", "on die", ", ,", ",,")),
    "guest": (("Stop (deallocate) it and start it again. Tell the provider",), ("power it off", "reseat", "replaced")),
}


def test_screens(t, unhang):
    for name, log in LOGS.items():
        path = unhang.write(f"{name.replace(' ', '-')}.log", log)
        screen = unhang.run("explain", path).stdout.decode()
        words, at, missing = re.sub(r"\s+", " ", screen), 0, []
        for wanted in SAYS[name][0]:
            found = words.find(wanted, at)
            missing += [wanted] if found < 0 else []
            at = max(at, found)
        t.ok(not missing and not [bad for bad in SAYS[name][1] if bad in words], f"{name}: says it, in this order", f"{missing} {[bad for bad in SAYS[name][1] if bad in words]}\n{screen}")
        lines = screen.splitlines()
        t.ok(len(lines) <= 24 and all(len(line) <= 80 for line in lines), f"{name}: one screen", screen)
        a = unhang.explain(path)
        t.no_complaints(a.complaints, f"{name}: well-formed")
        t.same([i.data["hardware"]["service"] == "replace" for i in a.incidents], [name == "worn out"], f"{name}: a replacement only where the driver asks for it")


def test_notes(t, unhang):
    def seen(log):
        return re.sub(r"\s+", " ", unhang.run("explain", unhang.write("notes.log", log)).stdout.decode())

    def storm(*wheres):
        rows = started()
        for n in range(40):
            rows += registers(T + 70 * n, "85", 10 + n, status(0, EN | CECC | ADDR_V), wheres[n % len(wheres)])
            rows += [(T + 70 * n + 0.01, dev("85") + f"{{{10 + n}}}socket: 4, die: 1, 3 new correctable hardware errors detected in umc block")]
        return seen(text(rows))
    one, other = ipid(0x96, 0, 0x290f01, 4), ipid(0x96, 0, 0x291f01, 4)
    t.ok("in umc (AFID 24): 120 in 46 min. All are of one memory channel (die 1, UMC 1 channel 0). They harm nothing" in storm(one), "corrected errors: how many in which time, and that one channel has them all", storm(one))
    t.ok("120 in 46 min. They harm nothing" in storm(one, other), "those of several channels", storm(one, other))
    near = seen(text(started(), [(40, dev("46") + "RAS records:117 exceeds 90% of threshold:128")]))
    t.ok("At the limit, the driver gives this module up" in near and "ask the vendor" in near, "nearly too many bad pages: what to do", near)
    for line in ("pending ECC list full (1024), dropping bad bank event (total dropped:5)", "5 pending ECC bad-bank events were dropped during GPU reset", "There are too many ras interrupts!"):
        a = unhang.explain_text(text(started(), [(T, dev("46") + line)]))
        t.same((a.status, [n["event"] for n in a.document["notes"]]), (2, ["ras-dropped"]), f"what the driver leaves out is no all-clear: {line[:30]}")
    record = unhang.run("explain", unhang.write("old.cper", bank(FATAL, status(0, GONE), ipid(0x96, 0, 0x490f00, 6), oam=2))).stdout.decode()
    t.ok("records outlive their" in record and "Instinct MI300X (gfx942)" in record and "OAM2" in record and "not named" not in record, "a record names the part", record)


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    test_screens(t, unhang)
    test_notes(t, unhang)
    t.end()


main()
