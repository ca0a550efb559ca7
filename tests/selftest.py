#!/usr/bin/env python3
"""unhang selftest: emulated machines pass, and each of the errors that are planted is found by the check that is for it."""
import fnmatch
import json
import pathlib
import socket
import sys

import emulated
import tap

GPU = "gpu 0000:03:00.0\n    part {part}\n    {lines}\n"
# what is planted, part, its lines, the check that fails, and words of its text
PLANTED = [
    ("registers lie elsewhere than ip_discovery says", "gfx1100", "sysfs ip_discovery/die/0/11/0/base_addr 0x00001262\\n0x0000A000\\n0x0001C000\\n0x02402C00",
     "registers", "GB_ADDR_CONFIG"),
    ("two banks are swapped", "gfx1100", "harvested se 1 sh 0 cu 3\n    register se 0 sh 0 CC_GC_SHADER_ARRAY_CONFIG.INACTIVE_WGPS = 8\n"
     "    register se 1 sh 0 CC_GC_SHADER_ARRAY_CONFIG.INACTIVE_WGPS = 0", "banks", "array 0 of engine 1"),
    ("the GPU lost a packet: its ring stands, its fence has come", "gfx1100", "register GRBM_STATUS.SPI_BUSY = 1\n    register GRBM_STATUS.GUI_ACTIVE = 1\n"
     "    ring gfx_0.0.0 rptr 0x40 wptr 0x80", "rings", "gfx_0.0.0"),
    ("an interrupt is lost: its ring is done, its fence has not come", "gfx1100", "ring sdma0 rptr 0x40 wptr 0x40\n    fence sdma0 signaled 4 emitted 6 done 4",
     "rings", "fence 5 of 6"),
    ("an XCC too few", "gfx942", "sysfs ip_discovery/die/0/11/7/harvest 0x1", "shaders", "XCCs"),
    ("another firmware than sysfs says", "gfx1100", "sysfs fw_version/mec_fw_version 0x00000001", "firmware", "MEC"),
    ("another chip than its PCI ID says", "gfx1100", "sysfs ip_discovery/die/0/11/0/major 10\n    sysfs ip_discovery/die/0/11/0/minor 3", "chip", "gfx"),
    ("a clock in another unit", "gfx1100", "clock 24800", "clocks", "MHz"),
    ("less memory than the register says", "gfx1100", "sysfs mem_info_vram_total 8573157376", "registers", "VRAM"),
    ("a file that does not answer", "gfx1100", "file mem_info_gtt_used blocks", "files", "mem_info_gtt_used"),
    ("a file that wakes the GPU", "gfx1100", "state suspended\n    file mem_info_vram_used wakes", "sleep", "mem_info_vram_used"),
    ("a GPU that works is called hung", "gfx1100", "ring sdma1 size 1024 rptr 0x40 wptr 0x48", "verdict", "not healthy"),
]
# The same with kernels: what the emulated KFD does to them
LAUNCHED = [
    ("a packet is lost between program and GPU", "lose kernel unhang_test_store launch 50", "launch", "kernel 50 of 100 stored 0"),
    ("a kernel does not survive", "exception kernel unhang_test_store launch 7 illegal-instruction", "launch", "running kernels"),
    ("a fault at another address than the kernel's", "fault kernel unhang_test_fault at 0x123000", "fault", "no fault at"),
]
HAS_RUNTIME = any(pathlib.Path(place).exists() for place in ("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1"))
HEALTHY = ["idle", "busy-healthy", "hip"]


def selftest(unhang, scenario, *options):
    return emulated.inside(unhang, scenario, "selftest", *options)


def plant(t, unhang, what, scenario, options, check, words):
    path = unhang.write("planted.scenario", scenario)
    run = selftest(unhang, path, "--json", *options)
    document = emulated.document(t, run, "selftest", f"{what}: the document", 1)
    wrong = [c for c in document.get("checks", []) if c["result"] == "failed"]
    t.ok(any(c["id"] == check and words in c["text"] for c in wrong), f"{what}: found by {check}", [(c["id"], c["text"]) for c in wrong])


def test_screen(t, unhang):
    """The table of one GPU fits a screen, and the file has what the table is made of, without the machine's name."""
    file = unhang.directory / "sent.json"
    options = ["--launch", "--fault"] if HAS_RUNTIME else []
    run = selftest(unhang, "hip", "-o", file, *options)
    lines = run.stdout.decode().splitlines()
    t.ok(run.returncode == 0 and len(lines) <= 24 and max(map(len, lines)) <= 80 + len(str(file)), "the table fits a screen", run.stdout.decode() + run.stderr.decode())
    document = json.loads(file.read_text())
    t.no_complaints([e.message for e in emulated.validator("selftest").iter_errors(document)], "the file is the document")
    t.ok(socket.gethostname() not in file.read_text(), "the file does not name the machine")
    paths = {f["path"]: f for f in document["files"]}
    grbm = [f for path, f in paths.items() if path.startswith("/dev/dri/render")]
    t.ok(len(paths) > 50 and grbm and grbm[0]["microseconds"] and grbm[0]["bytes"], "files have their bytes and their time", grbm)
    if HAS_RUNTIME:
        ended = {c["id"]: c["result"] for c in document["checks"]}
        t.same([ended.get(name) for name in ("launch", "waves", "queues", "votes", "end", "fault", "log")], ["passed"] * 7, "kernels are seen, and end")
    only = emulated.only_reads(t, unhang, "idle", ["selftest", "--json"], "without --launch it only reads")
    acts = [path for path in only for pattern in emulated.ACTS if fnmatch.fnmatch(path, pattern) and "fence_info" not in path]
    t.no_complaints(acts, "and opens nothing that acts, but for the fences")


def test_refusals(t, unhang):
    scenario = unhang.write("user.scenario", "scenario user\n    user\n" + GPU.format(part="gfx1100", lines="busy 0"))
    run = selftest(unhang, scenario, "--json")
    document = emulated.document(t, run, "selftest", "without debugfs: the document")
    t.ok(document and document["failed"] == 0 and document["not_possible"] >= 2, "without debugfs nothing fails, and less is possible", run.stdout[-300:])
    run = selftest(unhang, "idle", "-o", "/nonexistent/x.json")
    t.ok(run.returncode == 2 and b"/nonexistent" in run.stderr and b"passed" in run.stdout, "a file that cannot be written: told, and the table is shown", run.stderr)
    run = selftest(unhang, "idle", "--gpu", "7")
    t.ok(run.returncode == 2 and b"there is no GPU 7" in run.stderr, "a GPU that is not there", run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no emulated machine can be made here")
    for scenario in HEALTHY:
        document = emulated.document(t, selftest(unhang, scenario, "--json"), "selftest", f"{scenario} passes")
        t.ok(document and document["failed"] == 0 and document["passed"] >= 9, f"{scenario}: no check fails", document)
    for part in ("gfx942", "gfx1030", "gfx1201", "gfx906", "gfx1151"):
        scenario = unhang.write("part.scenario", GPU.format(part=part, lines="busy 0"))
        document = emulated.document(t, selftest(unhang, scenario, "--json"), "selftest", f"{part} passes")
        t.ok(document and document["failed"] == 0 and document["passed"] >= 8, f"{part}: no check fails", document and [c for c in document["checks"] if c["result"] != "passed"])
    test_screen(t, unhang)
    test_refusals(t, unhang)
    for what, part, lines, check, words in PLANTED:
        plant(t, unhang, what, GPU.format(part=part, lines=lines), [], check, words)
    for what, rule, check, words in LAUNCHED if HAS_RUNTIME else []:
        plant(t, unhang, what, GPU.format(part="gfx90a", lines="busy 0") + f"kfd\n    {rule}\n", ["--launch"] if check == "launch" else ["--fault"], check, words)
    t.end()


if __name__ == "__main__":
    main()
