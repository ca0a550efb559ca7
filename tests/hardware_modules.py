#!/usr/bin/env python3
"""Which module a hardware error is of: none that the evidence does not name, and nothing in it that unhang cannot read is an all-clear."""
import sys

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


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    for test in (test_numbers,):
        test(t, unhang)
    t.end()


main()
