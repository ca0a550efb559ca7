#!/usr/bin/python3
"""The live GPU as a target, on emulated machines: what is read, with how many operations, and when nothing is read."""
import json
import os
import sys

import tap

ONE = """scenario one
    title one
{machine}gpu 0000:03:00.0
    part gfx1100
{gpu}    register GRBM_STATUS = 0xa0003028
    register GRBM_STATUS_SE0 = 0x11
    register GRBM_STATUS_SE5 = 0x15
    register SDMA0_STATUS_REG = 0x46dee557
    register SPI_CONFIG_CNTL = 0x62
    wave xcc 0 se 0 sh 0 cu 3 simd 1 slot 0 pc 0x7f0000001040 exec 0xff vmid 9 sgpr 0 0x77 vgpr 1 0x88
    wave 64 se 2 pc 0x7f0000002000 halted
    wave se 3 pc 0x7f0000001100 barrier
    wave se 4 sh 1 cu 2 simd 3 slot 15 pc 0x7f0000001200 trapped
    ring gfx_0.0.0 size 262144 rptr 0x40 wptr 0x3ffff
"""
EIGHT = """scenario eight
    title eight
gpu 0000:03:00.0
    part gfx942
    register xcc 3 GRBM_STATUS = 0x33
    register xcc 5 GRBM_STATUS.SPI_BUSY = 1
    register xcc 0 GRBM_STATUS.SPI_BUSY = 1
    wave xcc 5 se 1 cu 4 simd 2 slot 7 pc 0x7f0000001040
    wave xcc 0 pc 0x7f0000001000
"""
RENDER = ("GRBM_STATUS", "GRBM_STATUS2", "GRBM_STATUS_SE0", "GRBM_STATUS_SE1", "GRBM_STATUS_SE2", "GRBM_STATUS_SE3", "SDMA0_STATUS_REG")
STATUS = ("GRBM_STATUS*", "SDMA0_STATUS_REG", "SPI_CONFIG_CNTL")


class Looks:
    def __init__(self, t, unhang, look):
        self.t, self.unhang, self.look = t, unhang, look
        self.count = 0

    def at(self, scenario, *patterns):
        """What the program says of each GPU, and what reached the machine."""
        self.count += 1
        path = self.unhang.write(f"scenario{self.count}", scenario)
        record = self.unhang.write(f"record{self.count}", "")
        run = self.unhang.run("emulate", path, "--record", record, "--", self.look, *patterns, timeout=30)
        try:
            gpus = json.loads(run.stdout)
        except ValueError:
            self.t.ok(False, "a look", f"status {run.returncode}\n{run.stdout.decode()}{run.stderr.decode()[-1500:]}")
            return None, []
        with open(record, encoding="utf8") as f:
            return gpus, [json.loads(line) for line in f]

    def one(self, machine="", gpu=""):
        gpus, events = self.at(ONE.format(machine=machine, gpu=gpu), *STATUS)
        return (gpus[0] if gpus else {}), events

    def written(self, events, name):
        self.t.same([e for e in events if e["op"] not in ("open", "read", "ioctl", "close")], [], f"{name}: nothing is written, nothing acts")


def values(gpu):
    return {r["name"]: int(r["value"], 16) for r in gpu["registers"] if r["answer"] == "given"}


def runs(gpu):
    """Adjacent registers; those that only debugfs has are none with those of the render node."""
    found = {(int(r["address"], 16), r["name"] in RENDER) for r in gpu["registers"]}
    return sum((address - 4, render) not in found for address, render in found)


def test_awake(looks):
    t = looks.t
    gpu, events = looks.one()
    if not gpu:
        return
    looks.written(events, "a GPU that is awake")
    t.same(gpu["open"], True, "a GPU that is awake may be looked at")
    v = values(gpu)
    t.same([v.get(n) for n in ("GRBM_STATUS", "GRBM_STATUS_SE0", "GRBM_STATUS_SE5", "SDMA0_STATUS_REG", "SPI_CONFIG_CNTL")],
           [0xa0003028, 0x11, 0x15, 0x46dee557, 0x62], "registers of the render node and of debugfs")
    waves = gpu["waves"]["list"]
    t.same((gpu["waves"]["answer"], len(waves)), ("given", 67), "all waves of the GPU are given")
    first = dict(waves[0])
    t.same([first[n] for n in ("se", "cu", "simd", "slot", "vmid", "pc", "exec", "s0", "v1_lane5")],
           [0, 3, 1, 0, 9, "0x7f0000001040", "0xff", "0x77", "0x88"], "a wave, its SGPRs and VGPRs")
    t.same([sum(w[state] for w in waves) for state in ("halted", "in_barrier", "trapped")], [64, 1, 1], "states of waves")
    t.same([waves[-1][n] for n in ("se", "sh", "cu", "simd", "slot")], [4, 1, 2, 3, 15], "the last wave's place")
    t.same(gpu["rings"]["list"].get("gfx_0.0.0"), [0x40, 0x3ffff, 262144], "a ring of a megabyte")
    slots, gate = 96 // 2 * 4 * 16, 5
    t.ok(gpu["operations"] <= slots + runs(gpu) + gate, "an operation for each slot, and for each run of registers",
         f"{gpu['operations']} for {slots} slots and {runs(gpu)} runs")
    t.same(gpu["children"], 2, "two children: the gate, and the look")
    t.same(sum(e["op"] == "read" and e["path"].endswith("/amdgpu_wave") for e in events), slots, "each slot is read once")


def test_gate(looks):
    t = looks.t
    for state, flag in (("suspended", "asleep"), ("off-bus", "off_bus"), ("gfxoff", "gfxoff"), ("reset", "reset")):
        # Without the render node's query nothing keeps GFXOFF away.
        gpu, events = looks.one(gpu=f"    state {state}\n" + ("    file render fails EACCES\n" if state == "gfxoff" else ""))
        if not gpu:
            continue
        looks.written(events, state)
        t.same((gpu["open"], gpu[flag], bool(gpu["why_not"])), (False, True, True), f"{state}: the gate is shut, and says why")
        t.same([e["path"] for e in events if e["op"] == "open" and e["path"].endswith(("_regs", "_regs2", "_wave", "_gpr", "_gprwave"))],
               [], f"{state}: no register of it is read through debugfs")
        t.ok(gpu["waves"]["answer"] in ("refused", "timed out"), f"{state}: no waves")
        t.ok(gpu["total_ms"] < 1500, f"{state}: in time", gpu["total_ms"])
    for _ in range(20):  # a look that a busy machine interrupts for the tenth of a second after which GFXOFF comes back is refused the rest
        gpu, _ = looks.one(gpu="    state gfxoff\n")
        if not gpu or gpu["waves"]["answer"] == "given":
            break
    t.same((gpu and gpu["open"], values(gpu).get("GRBM_STATUS"), gpu and gpu["waves"]["answer"]), (True, 0xa0003028, "given"), "gfxoff: the render node's query wakes it up, and keeps it on for a look")
    gpu, _ = looks.one(gpu="    state gfxoff\n    file render blocks\n")
    t.same((gpu.get("stuck"), gpu.get("gfxoff"), gpu.get("reset")), (True, True, False), "it does not wake up: told from a reset")


def test_refused(looks):
    t = looks.t
    gpu, _ = looks.one(machine="    user\n")
    t.same((gpu.get("open"), gpu.get("refused")), (False, True), "without root debugfs is refused")
    t.same(gpu and values(gpu).get("GRBM_STATUS"), 0xa0003028, "without root the render node answers")
    gpu, _ = looks.one(machine="    lockdown\n")
    t.same((gpu and values(gpu).get("SPI_CONFIG_CNTL"), len(gpu["waves"]["list"]) if gpu else 0), (0x62, 67),
           "locked down: files without ioctls serve")
    gpu, _ = looks.one(gpu="    file amdgpu_wave absent\n    file amdgpu_regs absent\n")
    t.same((gpu and values(gpu).get("SPI_CONFIG_CNTL"), len(gpu["waves"]["list"]) if gpu else 0), (0x62, 67),
           "the files with ioctls serve as well")


def test_blocked(looks):
    t = looks.t
    for turn in ("", ", again"):
        gpu, events = looks.one(gpu="    file amdgpu_wave blocks\n")
        if not gpu:
            continue
        t.same((gpu["waves"]["answer"], gpu["stuck"], gpu["stuck_at"].rsplit("/", 1)[-1]), ("timed out", True, "amdgpu_wave"),
               "a read that never returns is told" + turn)
        t.ok(gpu["total_ms"] < 1900, "it ends in time" + turn, gpu["total_ms"])
        t.same(values(gpu).get("GRBM_STATUS"), 0xa0003028, "what was read before it counts" + turn)
        t.same(sum(e["path"].endswith("/amdgpu_wave") and e["op"] == "open" for e in events), 1, "it is not tried again" + turn)
    gpu, _ = looks.one(gpu="    file amdgpu_wave blocks\n    file amdgpu_ring_* blocks\n")
    t.same((gpu.get("rings", {}).get("answer"), gpu.get("stuck_at", "").rsplit("/", 1)[-1]), ("timed out", "amdgpu_wave"),
           "of several reads that never return the first is told")


def test_xccs(looks):
    t = looks.t
    gpus, events = looks.at(EIGHT, "gc.GRBM_STATUS")
    if not gpus:
        return
    looks.written(events, "eight XCCs")
    status = {r["instance"]: int(r["value"], 16) for r in gpus[0]["registers"] if r["answer"] == "given"}
    t.same((len(status), status.get(3) == 0x33, status.get(4) == 0x33), (8, True, False), "each XCC has its own register")
    places = [(w["xcc"], w["se"], w["cu"], w["simd"], w["slot"]) for w in gpus[0]["waves"]["list"]]
    t.same(places, [(0, 0, 0, 0, 0), (5, 1, 4, 2, 7)], "waves of two XCCs")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    run = unhang.run("emulate", "idle", "--", "true")
    if run.returncode == 2 and any(word in run.stderr for word in (b"/dev/fuse", b"namespace", b"FUSE")):
        tap.skip_all(run.stderr.decode().strip())
    looks = Looks(t, unhang, os.path.abspath(sys.argv[2]))
    for test in (test_awake, test_gate, test_refused, test_blocked, test_xccs):
        test(looks)
    t.end()


if __name__ == "__main__":
    main()
