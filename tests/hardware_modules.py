#!/usr/bin/env python3
"""Which module a hardware error is of: none that the evidence does not name, and nothing in it that unhang cannot read is an all-clear."""
import sys

import cper
import tap

UUID = "beff74b5-0000-1000-8000-0123456789ab"
EXPORTER = (f'time="2026-05-28T08:32:40Z" level=info msg="gpuuid={UUID} TimeStamp=2026-05-27 17:59:09 RecordId=1:1 Severity=CPER_SEVERITY_FATAL Revision=256 CreatorId=amdgpu"\n'
            'time="2026-05-28T08:32:40Z" level=info msg="NotificationType=CPER_NOTIFICATION_TYPE_MCE AFID=[19]"\n'
            'time="2026-05-28T08:32:40Z" level=info msg="gpuid[3] is set to unhealthy for cper[x]"\n')
METRIC = 'gpu_ecc_uncorrect_sdma{card_model="x",gpu_id="3",gpu_uuid="x",hostname="node07",job_id="",serial_number="692400000001"} 1\n'
TABLE = "timestamp            gpu_id  severity             file_name         list of afids\n2026/11/19 03:45:13  3       FATAL                fatal-1.cper      20\n"
OTHER = "May 28 06:00:31 node12 kernel: amdgpu 0000:c6:00.0: amdgpu: amdgpu version: 6.16.13\n"
LIST = "GPU: 3\n    BDF: 0000:c6:00.0\n    NODE_ID: 5\nGPU: 4\n    BDF: 0000:e6:00.0\n    NODE_ID: 6\n"


def device(unhang, *texts):
    a = unhang.explain(*[unhang.write(f"{n}.txt", text) for n, text in enumerate(texts)])
    return a.first.data["gpus"][0]["pci"] if a.incidents else None


def test_numbers(t, unhang):
    """AMD's tools number the GPUs of a machine; the one address of a log is not that of every number."""
    for name, text in (("the exporter's log", EXPORTER), ("a metric", METRIC), ("amd-smi's table", TABLE)):
        t.same((device(unhang, text), device(unhang, text, OTHER), device(unhang, text, OTHER, LIST), device(unhang, text, LIST)), (None, None, "0000:c6:00.0", "0000:c6:00.0"),
               f"{name}: a number has an address only where a list gives it")
    line = unhang.run("explain", "--oneline", unhang.write("metric", METRIC)).stdout.decode().split("\t")
    t.same((line[0], line[3]), ("node07", "692400000001"), "a metric: host and serial number are its labels")
    t.ok(UUID in unhang.run("explain", unhang.write("exporter", EXPORTER)).stdout.decode(), "the exporter's log: the module by its id")


def test_announced(t, unhang):
    """A record names its module by its place on the board: GPUs that only announce the error tell no address of it."""
    record = unhang.write("record.cper", cper.bank(cper.FATAL, cper.status(0, cper.UC | cper.PCC | cper.ADDR_V | cper.UECC), cper.ipid(0x96, 0), oam=3, when=(2026, 11, 18, 10, 0, 0)))
    for name, gpus in (("eight GPUs", ("05", "26", "46", "65", "85", "a6", "c6", "e5")), ("one of two", ("05",))):
        log = unhang.write("dmesg.txt", "".join(f"[Wed Nov 18 10:00:00 2026] amdgpu 0000:{g}:00.0: {{1}}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n" for g in gpus))
        for order in ((log, record), (record, log)):
            i = unhang.explain(*order).first.data
            t.same((i["gpus"][0]["pci"], sorted(g["pci"] for g in i["gpus"][1:]), i["hardware"]["oam"], i["hardware"]["gpu"]),
                   (None, [f"0000:{g}:00.0" for g in gpus], "OAM3", None), f"{name}: the address of OAM3 is not known")


def section(at, number, port, kind, vendor, behind, status="0x00004000", slot=7, cls="060400"):
    rows = ["Error 0, type: fatal", "  section_type: PCIe error", f"  port_type: 6, {kind}", f"  device_id: {port}", f"  slot: {slot}", f"  secondary_bus: {behind}",
            f"  vendor_id: {vendor}, device_id: 0xc030", f"  class_code: {cls}", f"  aer_uncor_status: {status}, aer_uncor_mask: 0x00000000"]
    head = [f"{{{number}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5", f"{{{number}}}[Hardware Error]: event severity: recoverable"]
    return "".join(f"[{at}] {row}\n" for row in head + [f"{{{number}}}[Hardware Error]:  {row}" for row in rows])


HUNG = "[  490.1] amdgpu 0000:b5:00.0: amdgpu: qcm fence wait loop timeout expired\n"
TOLD = "[  500.1] amdgpu 0000:05:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"


def test_ports(t, unhang):
    """A port tells of what is behind it; who announces the error has it least of all."""
    port = section("  500.2", 1, "0000:b1:02.0", "downstream switch port", "0x1000", "0xb3")
    a = unhang.explain_text(HUNG + TOLD + port)
    t.same((a.first.data["gpus"][0]["pci"], a.classes[0], len(a.incidents)), ("0000:b5:00.0", "pcie-link-errors", 1), "a switch port: the GPU behind it, in one incident with who announced it")
    t.ok("0000:b1:02.0" in a.first.data["cause"]["title"] and "slot 7" in a.first.data["cause"]["title"], "a switch port: port and slot stand in the answer", a.first.data["cause"]["title"])
    a = unhang.explain_text(port)
    t.same((a.status, [n["event"] for n in a.document["notes"]]), (2, ["pcie-port-error"]), "a switch alone: not known whose error it was")
    far = unhang.explain_text(HUNG.replace("b5:", "b9:") + port)
    t.ok(far.status and "pcie-link-errors" not in far.classes, "a GPU that is not behind the port is not blamed")
    own = section("  500.2", 1, "0000:c3:00.0", "PCIe end point", "0x1002", "0x00", "0x00000020", cls="120000")
    t.same(unhang.explain_text(own).first.data["gpus"][0]["pci"], "0000:c3:00.0", "the GPU itself: by its address in the record")
    cut = own[own.index("{1}[Hardware Error]:    section_type"):]
    t.same(unhang.explain_text(cut).first.data["gpus"][0]["pci"], "0000:c3:00.0", "the GPU itself: also without the heading of the record")


def test_off_bus(t, unhang):
    log = TOLD + "[  500.7] amdgpu 0000:75:00.0: amdgpu: device lost from bus!\n[  500.8] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!. Source:  2\n"
    a = unhang.explain_text(log)
    t.same((a.first.data["gpus"][0]["pci"], a.classes), ("0000:75:00.0", ["gpu-off-bus"]), "a GPU that is gone is the answer, not the one that announced it")


METRICS = "        UMC:\n            CORRECTABLE_COUNT: 2\n            UNCORRECTABLE_COUNT: {}\n            DEFERRED_COUNT: 0\n"


def test_all_clear(t, unhang):
    """What speaks of errors is no all-clear, read or not."""
    for name, text, status in (("a block that grep cut out", METRICS.format(3), 1), ("the same without errors", METRICS.format(0), 0),
                               ("counts as CSV", "gpu,umc_correctable_count,umc_uncorrectable_count,umc_deferred_count\n0,12,5,0\n", 2),
                               ("numbers of AMD", "GPU       AFID\n0         24:CORRECTED,25:FATAL\n", 2), ("numbers of corrected errors", "GPU       AFID\n0         24:CORRECTED\n", 0),
                               ("the processor's words", "[ 4321.7] EDAC MC0: 1 UE on unknown memory (csrow:0 channel:5)\n", 2)):
        t.same(unhang.explain_text(text).status, status, f"all-clear: {name}")
    row = "".join(f"[424443.1] amdgpu 0000:0a:00.0: amdgpu: Error Address(PA):0x27f5d{n}3080 Row:0x1fd7 Col:0x{n}  Bank:0xa Channel:0x30\n" for n in range(3))
    a = unhang.explain_text(row)
    t.same((a.status, len(a.document["notes"]), "row 0x1fd7, bank 0xa, channel 0x30" in a.document["notes"][0]["text"]), (0, 1, True), "a row of the memory is told, once")
    slow = unhang.explain_text("[ 1.0] amdgpu 0000:0a:00.0: amdgpu: WARN: GPU is throttled, expect performance decrease. VR.\n")
    t.same((slow.status, [n["event"] for n in slow.document["notes"]]), (0, ["gpu-throttled"]), "a GPU that was slowed down is told")


SCENE = "scenario pages\n    title   pages\ngpu 0000:05:00.0\n    part    gfx942\n    {}\ngpu 0000:26:00.0\n    part    gfx942\n    {}\n"
COUNTS = "sysfs     ras/event_state current seqno: 2\\nFatal Error: count:{}, last_seqno:0\\nPoison Creation: count:1, last_seqno:0\\nPoison Consumption: count:0, last_seqno:0"


def test_live(t, unhang):
    failed, pending = "bad-page  0xb1c8f1 failed channel 2", "bad-page  0xb1c8f1 pending channel 2\n    " + COUNTS.format(0)
    for name, first, second, look, check, said in (("failed", failed, "device  0x74a1", 2, 1, "could not be taken out of use"), ("pending", pending, "device  0x74a1", 0, 0, "wait to be taken out"),
                                                   ("fatal", COUNTS.format(1), "device  0x74a1", 0, 0, "since the driver was loaded")):
        scene = unhang.write(f"{name}.scn", SCENE.format(first, second))
        r = unhang.run("emulate", scene, "--", unhang.binary)
        t.same((r.returncode, said in " ".join(r.stdout.decode().split())), (look, True), f"live: {name}")
        t.same(unhang.run("emulate", scene, "--", unhang.binary, "check").returncode, check, f"live: {name}: fit for the next job")
    both = unhang.run("emulate", unhang.write("both.scn", SCENE.format(pending, failed)), "--", unhang.binary, "doctor", "--json").stdout.decode()
    t.ok("pages-pending" in both and "pages-not-retired" in both, "doctor: a page of one GPU that waits is told beside another's that failed")


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    for test in (test_numbers, test_announced, test_ports, test_off_bus, test_all_clear, test_live):
        test(t, unhang)
    t.end()


main()
