#!/usr/bin/env python3
"""What people ran into when they tried it: a device core beside its log, the zone of a log, whose a fault is, what was named before it, and
what to save."""
import re
import sys

import diagnoses
import rings
import tap

HANG = """999.5 @ ring gfx_0.0.0 timeout, signaled seq=411, emitted seq=413
999.6 @ Process information: process game pid 4111 thread game:cs0 pid 4120
"""
REGISTERS = """
IP Dump
IP: gfx_v11_0
regGRBM_STATUS                                     \t 0xa0003028
regGRBM_STATUS2                                    \t 0x70000008
regCP_STAT                                         \t 0x84000000
regCPF_STAT                                        \t 0x80000000
"""
FAULT = "Memory access fault by GPU node-4 (Agent handle: 0x152e220) on address 0x7f5e50c00000. Reason: Page not present or supervisor privilege."


def core(late="gfx_0.0.0"):
    """A core of two rings that stand still, of which the driver says that one timed out."""
    text = rings.device_core(rings.dumped("sdma0", 0x40, 0x46, rings.ring(rings.POLL, 0, 0x40)),
                             rings.dumped("gfx_0.0.0", 250, 20, rings.ring(rings.WAIT + rings.IB, rings.NOP, 250)))
    head = f"time: 1000.000000000\nprocess_name: game PID: 4111\n\nRing timed out details\nIP Type: 0 Ring Name: {late}\n"
    return text.replace("time: 1000.000000000\n", head) + REGISTERS


def plain(run):
    return re.sub(r"\s+", " ", run.stdout.decode())


def test_core(t, unhang):
    dump, log = unhang.write("core.txt", core()), unhang.write("dmesg.txt", diagnoses.log(HANG + diagnoses.reset(999.7)))
    a = unhang.explain(dump, log)
    said = plain(unhang.run("explain", dump, log))
    t.ok(len(a.incidents) == 1 and "succeeded" in said, "one incident, and the reset succeeded", said)
    t.ok("stuck now" not in said and a.first.data["action"]["do"] == "restart-session", "so that the GPU is not stuck now", said)
    t.same(a.first.data["gpus"][0], a.first.data["gpus"][0] | {"pci": diagnoses.GPU, "name": "Radeon RX 7900 XTX", "gfx": "gfx1100"}, "the core names the part, the log the address")
    alone = plain(unhang.run("explain", dump))
    t.ok("stuck now" not in alone, "a core alone is of the past, too", alone)
    t.ok("no waves" not in said + alone + plain(unhang.run("explain", "-v", dump)), "nothing is said of waves, of which it has no data", alone)
    for late in ("gfx_0.0.0", "sdma0"):
        facts = {f["value"] for f in unhang.explain(unhang.write("core.txt", core(late))).first.data["facts"] if f["name"] == "ring"}
        t.same(facts, {late}, f"{late} timed out: the ring of which it tells")
    t.ok("devcoredump/data" not in said, "who has the core is not told to save it", said)


def zoned(gap, program="2026-04-02 12:{m:02}:{s:02} " + FAULT):
    """The log of the kernel, with its zone, and that of a program @gap seconds later in a zone that it does not name: two hours ahead."""
    kernel = f"2026-04-02T10:00:00.000000+00:00 node4 kernel: amdgpu {diagnoses.GPU}: amdgpu: ring comp_1.0.0 timeout, signaled seq=1, emitted seq=2\n"
    at = 0 if gap < 0 else gap
    text = "2026-04-02 11:59:{s:02} ".format(s=60 + gap) + FAULT if gap < 0 else program.format(m=at // 60, s=at % 60)
    return kernel, text + "\n"


def test_zone(t, unhang):
    for gap in (0, 3, 40, 250):
        kernel, program = zoned(gap)
        a = unhang.explain(unhang.write("z/kern.log", kernel), unhang.write("z/app.log", program))
        kinds = [(e["event"], e["time"]) for i in a.incidents for e in i.timeline]
        times = [x for _, x in kinds]
        joined = len(a.incidents) == 1
        t.ok(not joined or (times == sorted(times) and times[-1] - times[0] <= gap + 5), f"{gap} s behind: in the order in which it happened", kinds)
    for gap in (700, 1100):  # nearer to the next quarter or half of an hour than to the time itself
        kernel, program = zoned(gap)
        a = unhang.explain(unhang.write("z/kern.log", kernel), unhang.write("z/app.log", program))
        for i in a.incidents:
            order = [e["event"] for e in i.timeline]
            t.ok(not order or "ring-timeout" not in order or order.index("ring-timeout") == 0, f"{gap} s behind: no effect before its cause", order)


def rank_of(unhang, text, name="job.log"):
    first = unhang.explain(unhang.write(name, text)).first
    return [f["value"] for f in first.data["facts"] if f["name"] == "rank" and f["event"] == next(e["id"] for e in first.timeline if e["event"] != "last-output")][:1]


def test_rank(t, unhang):
    t.same(rank_of(unhang, f"[rank2]: step 4\n{FAULT}\n[rank2]: aborted\n"), [2], "between two lines of one rank")
    t.same(rank_of(unhang, f"[rank2]: step 4\n{FAULT}\n"), [2], "behind its last line")
    t.same(rank_of(unhang, f"[rank2]: step 4\n{FAULT}\n[rank3]: step 4\n"), [], "between two ranks nobody knows")
    t.same(rank_of(unhang, f"hello\n{FAULT}\nbye\n"), [], "without any rank there is none")
    t.same(rank_of(unhang, f"[rank2]: step 4\n" + "hello\n" * 9 + f"{FAULT}\n"), [], "what stands far away tells nothing")
    for name, wanted in (("rank7.log", [7]), ("train_rank_12.err", [12]), ("worker-rank-0.txt", [0]), ("Rank=3.log", [3]), ("frank7.log", []), ("rank.log", []), ("rank1-rank4.log", []), ("rank99999999999999999999.log", [])):
        t.same(rank_of(unhang, f"hello\n{FAULT}\n", name), wanted, f"the file {name}")
    t.same(rank_of(unhang, f"[rank2]: step\n[rank2]: {FAULT}\n", "rank7.log"), [2], "what the line says itself counts more")


def test_last_work(t, unhang):
    shape = "[aiter] shape is M:8192, N:1024, K:3072, not found tuned config in /tmp/x.csv, will use default config!\n"
    load = "[aiter] LoadKernel: /x/fmoe.co hsaco: fmoe_fp8_g1u1\n"
    head = lambda text: re.sub(r"\s+", " ", unhang.run("explain", unhang.write("s.log", text)).stdout.decode().split("\nGPU ")[0])
    said = head(f"start\n{shape}{load}{FAULT}\n")
    t.ok("M:8192, N:1024, K:3072" in said and "fmoe_fp8_g1u1" in said, "the headline has the kernel and the shape", said)
    said = head("shape M:16384, N:512, K:7168 is tuned on cu_num = 304 in CKGEMM, kernel name is a8w8_blockscale_1x128!\n" + FAULT + "\n")
    t.ok("M:16384" in said and "a8w8_blockscale_1x128" in said, "in one line, too", said)
    t.ok("last" not in head(FAULT + "\n" + shape + load), "what comes behind the failure is not named")
    t.same(unhang.explain(unhang.write("s.log", FAULT + "\n")).first.data["cause"]["last_work"], None, "nothing is made up")


def test_save(t, unhang):
    for name, text in (("oops", "100.0 BUG: kernel NULL pointer dereference, address: 0000000000000008\n100.0 RIP: 0010:amdgpu_vm_bo_update+0x12/0x40 [amdgpu]\n100.1 Call Trace:\n100.1  amdgpu_cs_ioctl+0x1/0x2 [amdgpu]\n"),
                       ("reset that failed", "99.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n" + diagnoses.reset(100.0, outcome="failed"))):
        path = unhang.write("save.txt", diagnoses.boot() + diagnoses.log(text))
        first = unhang.explain(path).first.data
        said = unhang.run("explain", path).stdout.decode()
        t.ok("ave the evidence" in first["action"]["text"] and first["next"][0]["why"] == "Save the evidence" and first["next"][0]["run"] == "sudo unhang capture", f"{name}: how to save it", first["next"][:1])
        t.ok(re.search(r"^Next    Save the evidence:\n        sudo unhang capture$", said, re.M), f"{name}: on the first screen", said)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_core, test_zone, test_rank, test_last_work, test_save):
        test(t, unhang)
    t.end()


main()
