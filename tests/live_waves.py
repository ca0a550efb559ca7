#!/usr/bin/env python3
"""`unhang waves` of emulated GPUs: every wave that a scenario puts on a GPU, at its place and in its state."""
import collections
import struct
import sys

import emulated
import tap

SCENARIO = """scenario waves
    title  Waves that a test has set

gpu 0000:03:00.0
    part  gfx1100
    shaders ses 3 shs 1 cus 2
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  xcc 0 se 1 sh 0 cu 0 simd 1 slot 3 pc 0x7f0000001040 exec 0xff vmid 8
    wave  6 pc cycle 0.013 0x7f0000002000 0x7f0000002008 0x7f0000002010 0x7f0000002018 vmid 9
    wave  se 2 pc 0x7f0000001100 barrier
    wave  se 2 pc 0x7f0000001200 halted
    wave  se 2 pc 0x7f0000001300 trapped
    wave  se 2 pc 0x7f0000001400 idle

gpu 0000:43:00.0
    part  gfx1100
    state suspended

gpu 0000:83:00.0
    part  gfx942
    shaders xccs 6 ses 1 cus 1
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  4 xcc 5 pc 0x7f0000003000
"""


def test_states(t, unhang, scenario):
    run = emulated.inside(unhang, scenario, "waves", "--json", "--gpu", "0000:03:00.0", "--sample", "4")
    document = emulated.document(t, run, "waves", "an emulated GPU as JSON")
    waves = document.get("waves", [])
    t.same(len(waves), 11, "every wave of the scenario is told")
    states = {w["pc"]: w["state"] for w in waves if w["moved"] is False}
    t.same(states, {"0x7f0000001040": "running", "0x7f0000001100": "barrier", "0x7f0000001200": "halted", "0x7f0000001300": "trapped",
                    "0x7f0000001400": "idle"}, "waves have their states")
    t.same(sum(bool(w["moved"]) for w in waves), 6, "waves that move are told")
    first = next((w for w in waves if w["pc"] == "0x7f0000001040"), None)
    if t.ok(first, "the wave of a place"):
        place = {k: first["slot"][k] for k in ("sh", "cu", "simd", "slot", "vmid")} | {"xcc": first["xcc"], "se": first["se"]}
        t.same(place, {"sh": 0, "cu": 0, "simd": 1, "slot": 3, "vmid": 8, "xcc": 0, "se": 1}, "a wave has its place")
        t.same((first["exec"], first["lanes"], first["queue"], first["gpu"]), ("0xff", 32, None, "0000:03:00.0"), "a wave has its lanes and GPU")
    run = emulated.inside(unhang, scenario, "waves", "--json", "--gpu", "0000:03:00.0", "--sample", "1", "--registers")
    document = emulated.document(t, run, "waves", "registers as JSON")
    t.same({w["moved"] for w in document.get("waves", [])}, {None}, "one look: whether they move is not known")
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:03:00.0")
    text = run.stdout.decode()
    t.ok(run.returncode == 0 and "11 waves" in text and "barrier" in text, "the text counts waves and names what they wait for", text + run.stderr.decode())
    emulated.only_reads(t, unhang, scenario, ["waves", "--gpu", "0000:03:00.0"], "it only reads")


def test_gpus(t, unhang, scenario):
    run = emulated.inside(unhang, scenario, "waves", "--json")
    document = emulated.document(t, run, "waves", "all GPUs as JSON")
    t.same({g["pci"]: (g["waves"], g["why_not"] is None) for g in document.get("gpus", [])},
           {"0000:03:00.0": (11, True), "0000:43:00.0": (0, False), "0000:83:00.0": (4, True)}, "each GPU, and the one that sleeps")
    t.ok(b"0000:43:00.0" in run.stderr, "why a GPU is not looked at is said", run.stderr)
    t.same(collections.Counter((w["gpu"], w["xcc"]) for w in document.get("waves", []) if w["gpu"] == "0000:83:00.0"), {("0000:83:00.0", 5): 4},
           "waves have their XCC")
    t.same([w["id"] for w in document.get("waves", [])], list(range(1, 16)), "each has a number of its own")
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:43:00.0")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1 and not run.stdout, "a GPU that sleeps: status 2 and one line", run.stderr)
    run = emulated.inside(unhang, scenario, "waves", "--gpu", "0000:99:00.0")
    t.ok(run.returncode == tap.CANNOT and b"0000:83:00.0" in run.stderr, "a GPU that there is not: those that there are", run.stderr)


CODE_SCENARIO = """scenario code
    title  Waves of one of two processes

gpu 0000:03:00.0
    part  gfx90a
    shaders ses 1 shs 1 cus 1
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    wave  3 pc 0x7f0000101710 vmid 9

process other
    queue 1 gpu 0000:03:00.0 ring 0x7f0000000000 size 4096 rptr 3 wptr 4 place 1.0.1 vmid 8

process train
    queue 2 gpu 0000:03:00.0 ring 0x7f0000000000 size 4096 rptr 3 wptr 4 place 1.0.2 vmid 9
    code 0x7f0000100000 sample-kernel.co
"""


def test_code(t, unhang):
    """Waves belong to the process whose queue has their VMID; its code says which kernel they run."""
    unhang.write("sample-kernel.co", (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes())
    scenario = unhang.write("code.scenario", CODE_SCENARIO)
    document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", "waves of a process as JSON")
    got = {((w["kernel_name"] or "").partition("(")[0], w["offset"]) for w in document.get("waves", [])}
    t.same(got, {("gather_rows", "0x10")}, "the kernel that they run")


def test_code_of_nobody(t, unhang):
    """Of two processes neither has the waves' VMID: both are let go, and the code is nobody's."""
    unhang.write("sample-kernel.co", (tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes())
    scenario = unhang.write("nobody.scenario", CODE_SCENARIO.replace("0x7f0000101710 vmid 9", "0x7f0000101710 vmid 11"))
    run = emulated.inside(unhang, scenario, "waves", "--json", "--code", tap.HERE / ".." / "docs" / "sample-kernel.co")
    document = emulated.document(t, run, "waves", "waves of no known process as JSON")
    t.same([w["kernel_name"] for w in document.get("waves", [])], [None] * 3, "waves whose process is not known: no kernel")
    t.ok(b"the process of these waves is unknown" in run.stderr, "and it is said", run.stderr)


def loaded(content, base, vmid):
    """Statements that put a code object where the GPU sees it, as the runtime loads it."""
    image = bytearray(0x4000)
    head = struct.unpack_from("<Q", content, 32)[0]
    for i in range(struct.unpack_from("<H", content, 56)[0]):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", content, head + 56 * i)
        if kind == 1:
            image[address:address + size] = content[offset:offset + size]
    lines = [f"    map {vmid} {base:#x} vram 0x100000 {len(image):#x}"]
    for at in range(0, len(image), 64):
        lines.append(f"    virtual {vmid} {base + at:#x} " + " ".join(map(hex, struct.unpack_from("<16I", image, at))))
    return "\n".join(lines) + "\n"


def test_code_of_gpu(t, unhang):
    """Without a process to ask, the code is read where the GPU reads it."""
    code = loaded((tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes(), 0x7f0000100000, 9)
    head = CODE_SCENARIO[:CODE_SCENARIO.index("process other")]
    for name, waves, wanted in (("one VMID", "", {("gather_rows", "0x10")}), ("two VMIDs", "    wave pc 0x7f0000101720 vmid 8\n", {("", None)})):
        scenario = unhang.write("gpucode.scenario", head + waves + code)
        document = emulated.document(t, emulated.inside(unhang, scenario, "waves", "--json"), "waves", f"code in the GPU's memory as JSON: {name}")
        got = {((w["kernel_name"] or "").partition("(")[0], w["offset"]) for w in document.get("waves", [])}
        t.same(got, wanted, f"the kernel, from the GPU's memory: {name}")
    emulated.only_reads(t, unhang, scenario, ["waves"], "reading code only reads")


def test_machine(t, unhang):
    """What a look says of a GPU beside its waves."""
    run = emulated.inside(unhang, tap.HERE / "scenarios" / "dump-left.scenario", "live", "--json")
    (gpu,) = emulated.document(t, run, "diagnosis", "a machine as JSON").get("machine", {}).get("gpus") or [{}]
    wanted = {"pci": "0000:0a:00.0", "name": "Radeon RX 6900 XT", "gfx": "gfx1030", "verdict": "healthy", "health": "idle", "stuck": None, "driver": "amdgpu", "card": 0,
              "render": 128, "busy": 0, "power_mw": 18000, "temperature_mc": 38000, "clock_mhz": 200, "vram_total": 17163091968, "runtime_status": "active",
              "slot": "1", "xgmi_hive": None, "compute_partition": None, "vbios": "113-EMULATED-73BF", "xccs": 1, "guest": False,
              "link": {"speed": "16.0 GT/s PCIe", "width": 16, "max_speed": "16.0 GT/s PCIe", "max_width": 16, "correctable": 0, "nonfatal": 0, "fatal": 0},
              "devcoredump": "/sys/bus/pci/devices/0000:0a:00.0/devcoredump/data"}
    t.same({key: gpu.get(key) for key in wanted}, wanted, "a GPU as it is")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    emulated.refuses(t, unhang, ["waves", "--sample", "0"], ["--sample"], "no look")
    emulated.refuses(t, unhang, ["waves", "--sample", "101"], ["--sample needs a number from 1 to 100, not '101'"], "more looks than may be asked for")
    if not emulated.possible(unhang):
        t.skip("waves of emulated GPUs", "no GPU can be emulated here")
        t.end()
    scenario = unhang.write("waves.scenario", SCENARIO)
    test_machine(t, unhang)
    test_states(t, unhang, scenario)
    test_gpus(t, unhang, scenario)
    test_code(t, unhang)
    test_code_of_nobody(t, unhang)
    test_code_of_gpu(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
