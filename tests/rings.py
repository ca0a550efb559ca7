#!/usr/bin/env python3
"""`unhang rings`: rings of a device core that we made up, and of emulated GPUs: where they stand, which packet that is, what it waits
for."""
import json
import re
import subprocess
import sys

import emulated
import tap

WORDS = 256
NOP = 0xffff1000  # of the command processor, one word
POLL = [0xb0000008, 0x00001000, 0x7f00, 0x1, 0xffffffff, 0x0fff0004]  # SDMA: memory at 0x7f0000001000 shall be 1
WAIT = [0xc0053c00, 0x13, 0x2000, 0x7f00, 0x5, 0xffffffff, 0x4]  # the same of the command processor: 5 at 0x7f0000002000
IB = [0xc0023f00, 0x80000000, 0x7f00, 0x03000040]  # 64 words, VMID 3


def ring(words, fill, at, size=WORDS):
    """@size words, some of them from @at on, across the end where they do not fit."""
    found = [fill] * size
    for i, word in enumerate(words):
        found[(at + i) % size] = word
    return found


def dumped(name, rptr, wptr, words):
    lines = [f"ring name: {name}", f"Rptr: 0x{rptr:x} Wptr: 0x{wptr:x} RB mask: {len(words) - 1:x}", f"Ring size in dwords: {len(words)}", "Ring contents",
             "Offset \t Value"]
    return lines + [f"0x{4 * i:x} \t 0x{word:x}" for i, word in enumerate(words)]


def device_core(*rings):
    head = ["**** AMDGPU Device Coredump ****", "version: 1", "kernel: 6.12.57", "module: amdgpu", "time: 1000.000000000", "", "SOC Information",
            "SOC Device id: 29772", "SOC PCI Revision id: 200", "", "HW IP Version Information", "HWIP: GC[1][0]: v11.0.0.0.0", "",
            "Ring buffer information"]
    return "\n".join(head + [line for r in rings for line in r]) + "\n"


def only(document):
    return {r["name"]: r for gpu in document.get("gpus", []) for r in gpu["rings"]}


def test_device_core(t, unhang):
    path = unhang.write("devcoredump.txt", device_core(
        dumped("gfx_0.0.0", 250, 20, ring(WAIT + IB, NOP, 250)),
        dumped("comp_1.0.0", 16, 16, ring([], NOP, 0)),
        dumped("sdma0", 0x40, 0x46, ring(POLL, 0, 0x40))))
    run = unhang.run("rings", "--json", "--target", path)
    document = emulated.document(t, run, "rings", "a device core as JSON")
    rings = only(document)
    t.same(sorted(rings), ["comp_1.0.0", "gfx_0.0.0", "sdma0"], "each ring")
    if not rings:
        return
    t.same({n: (r["state"], r["pending_words"]) for n, r in rings.items()},
           {"gfx_0.0.0": ("waiting", 26), "comp_1.0.0": ("idle", 0), "sdma0": ("waiting", 6)}, "where they stand")
    for name, packet, waits in (("sdma0", "POLL", ("0x7f0000001000", "1")), ("gfx_0.0.0", "WAIT_REG_MEM", ("0x7f0000002000", "5"))):
        here = [p for p in rings[name]["packets"] if p["here"]]
        good = len(here) == 1 and packet in here[0]["name"] and all(w in (here[0]["waits_for"] or "") for w in waits)
        t.ok(good, f"{name}: the packet at rptr and what it waits for", here)
        t.same([p["at"] for p in here], [rings[name]["rptr"]], f"{name}: it is at rptr")
    ibs = [p for p in rings["gfx_0.0.0"]["packets"] if p["ib"]]
    t.same([(p["at"], p["ib"]["address"], p["ib"]["words"], p["ib"]["vmid"], p["ib"]["read"]) for p in ibs], [(1, "0x7f0080000000", 64, 3, False)],
           "across the end of the ring: the buffer that it runs")
    t.same(rings["comp_1.0.0"]["packets"], [], "an idle ring that was not named: no packets")
    for odd in "/nonexistent", "/etc/passwd":
        run = unhang.run("rings", "--json", "--target", odd)
        t.ok(run.returncode == tap.CANNOT and (not run.stdout or json.loads(run.stdout)), f"{odd} as JSON: no half of a document", run.stdout)
    text = unhang.run("rings", "--target", path).stdout.decode()
    marked = [line for line in text.splitlines() if line.startswith(" > ")]
    t.ok(len(marked) == 2 and "0x00fa" in marked[0] and "0x0040" in marked[1], "text: > at the packets where they stand", text)
    packets = [p for r in rings.values() for p in r["packets"]]
    t.same(sum(line.strip().startswith("waits for ") for line in text.splitlines()), sum(bool(p["waits_for"]) for p in packets), "text: as many waits as there are")
    flat = " ".join(text.split())
    lacking = [p for p in packets if not re.search(rf"0x{p['at']:04x} {re.escape(p['name'])}\b", flat) or (p["waits_for"] and f"waits for {p['waits_for']}" not in flat)]
    t.same(lacking, [], "text: each packet, and what it waits for")


def test_choice(t, unhang):
    path = unhang.write("devcoredump.txt", device_core(dumped("sdma0", 0x40, 0x80, ring(POLL * 6, 0, 0x40)), dumped("sdma1", 7, 7, ring([], 0, 0))))
    rings = only(emulated.document(t, unhang.run("rings", "--json", "--target", path, "SDMA?", "--packets", "2"), "rings", "by a pattern as JSON"))
    t.same(sorted(rings), ["sdma0", "sdma1"], "by a pattern, in capitals")
    t.same(len([p for p in rings.get("sdma0", {"packets": []})["packets"] if p["at"] >= 0x40 and "POLL" in p["name"]]), 1,
           "the same packets in a row are one")
    t.ok(rings.get("sdma1", {}).get("packets"), "a ring that was named has packets though it is idle", rings.get("sdma1"))
    t.same(sorted(only(emulated.document(t, unhang.run("rings", "--json", "--target", path, "sdma1"), "rings", "by name as JSON"))), ["sdma1"], "by name")
    for arguments, words, name in (
            (["rings", "--target", path, "gfx*"], ["no ring 'gfx*'"], "a ring that there is not"),
            (["rings", "--packets", "0"], ["--packets"], "no packets"),
            (["rings", "--packets", "x"], ["--packets"], "packets that are no number"),
            (["rings", "--target", path, "--packets", "1001"], ["--packets needs a number from 1 to 1000, not '1001'"], "more packets than may be asked for"),
            (["doctor", "--smoke", "--seconds", "3601"], ["--seconds needs a number from 1 to 3600, not '3601'"], "more seconds than may be asked for"),
            (["rings", "--target", "/nonexistent"], ["/nonexistent"], "a device core that there is not"),
            (["rings", "--target", "/etc/passwd"], ["/etc/passwd"], "a file that is no device core"),
    ):
        emulated.refuses(t, unhang, arguments, words, name)
    most = [unhang.run("rings", "--target", path, "sdma0", "--packets", n) for n in ("1000", "999")]
    t.ok(not any(run.returncode or run.stderr for run in most) and most[0].stdout == most[1].stdout, "the most packets that may be asked for", most[0].stderr)
    t.same(unhang.run("rings", "--json", "--target", "/etc/passwd").stdout, b"", "a file that is no device core: no half of a JSON document")
    if tap.pathlib.Path("/sys/module/amdgpu").exists():
        t.skip("no GPU: status 2 and one line", "there is one")
    else:
        emulated.refuses(t, unhang, ["rings"], ["no AMD GPU"], "no GPU: status 2 and one line")
        emulated.refuses(t, unhang, ["waves"], ["no AMD GPU"], "waves: no GPU: status 2 and one line")


def test_damage(t, unhang):
    """Whatever is in a ring, and wherever the file ends, it is read to its end."""
    core = device_core(dumped("gfx_0.0.0", 250, 20, ring(WAIT + IB, NOP, 250)), dumped("sdma0", 0xffffffff, 0x46, ring(POLL, 0, 0x40)))
    wrong = []
    for end in range(0, len(core), 331):
        run = unhang.run("rings", "--all", "--json", "--target", unhang.write("cut.txt", core[:end]))
        if run.returncode not in (0, tap.CANNOT):
            wrong.append(f"cut at {end}: status {run.returncode}: {run.stderr[-300:]}")
    for size in (1, 3, 100):
        words = [0xffffffff - 0x11111111 * i & 0xffffffff for i in range(size)]
        path = unhang.write("odd.txt", device_core(dumped("gfx_0.0.0", 99, 0, words), dumped("sdma0", 1, 0, words), dumped("mes_3.1.0", 2, 1, words)))
        run = unhang.run("rings", "--all", "--json", "--target", path)
        if run.returncode != 0 or list(emulated.validator("rings").iter_errors(emulated.json.loads(run.stdout))):
            wrong.append(f"{size} words: status {run.returncode}: {run.stderr[-300:]}")
    t.no_complaints(wrong, "damaged device cores")
    path = unhang.write("odd.txt", device_core(dumped("sdma0\x1b]0;x\x07", 0, 1, [0] * 4)))
    text = unhang.run("rings", "--target", path).stdout
    t.ok(b"sdma0" in text and b"\x1b" not in text, "a ring's name does not reach the terminal as it is", text)


SCENARIO = f"""scenario rings
    title  Rings that a test has set

gpu 0000:03:00.0
    part     gfx1100
    ring     sdma0 size 1024 rptr 0x40 wptr 0x46
    packets  sdma0 at 0x40 {' '.join(map(hex, POLL))}
    ring     sdma1 size 1024 rptr count 0 8 0.01 wptr count 16 8 0.01
    fence    sdma0 signaled 10 emitted 12 done 11
"""


def test_emulated(t, unhang):
    if not emulated.possible(unhang):
        t.skip("rings of an emulated GPU", "no GPU can be emulated here")
        return
    scenario = unhang.write("rings.scenario", SCENARIO)
    document = emulated.document(t, emulated.inside(unhang, scenario, "rings", "--json"), "rings", "an emulated GPU as JSON")
    rings = only(document)
    got = {n: rings.get(n, {}).get("state") for n in ("sdma0", "sdma1", "gfx_0.0.0")}
    t.same(got, {"sdma0": "not moving", "sdma1": "working", "gfx_0.0.0": "idle"}, "what moves, what does not, what is idle")
    text = emulated.inside(unhang, scenario, "rings", "sdma1", "sdma0").stdout.decode()
    t.ok("sdma1: packets (SDMA); it moves, and was last at >" in text and "sdma0: packets (SDMA); it is at >" in text, "and it is said of those that are named", text)
    here = [p for p in rings.get("sdma0", {"packets": []})["packets"] if p["here"]]
    t.ok(len(here) == 1 and "0x7f0000001000" in (here[0]["waits_for"] or ""), "what the ring waits for is told", here)
    t.same({r["fences"] and tuple(r["fences"].values()) for r in rings.values()}, {None}, "fences are not read unless asked for")
    rings = only(emulated.document(t, emulated.inside(unhang, scenario, "rings", "--json", "--fences", "--once", "sdma*"), "rings", "fences as JSON"))
    t.same(rings.get("sdma0", {}).get("fences"), {"signaled": 11, "emitted": 12}, "--fences")
    t.same(rings.get("sdma1", {}).get("state"), "waiting", "--once: whether it moves is not known")
    run = emulated.inside(unhang, scenario, "rings")
    t.ok(run.returncode == 0 and b"it is at >" in run.stdout and b"not moving, stuck" in run.stdout, "the text says where a ring does not get past", run.stdout + run.stderr)
    opened = emulated.only_reads(t, unhang, scenario, ["rings", "--all"], "it only reads")
    t.same([p for p in opened if p.endswith("fence_info")], [], "fences, which a read completes, are not touched")
    opened = emulated.only_reads(t, unhang, scenario, ["rings", "--fences"], "with fences it only reads, too")
    t.ok([p for p in opened if p.endswith("fence_info")], "--fences reads them")


# A user's buffer runs another; its last packet waits. The command processor is behind it already: it reads ahead.
FOLLOWED = f"""scenario followed
    title  Rings that run indirect buffers

gpu 0000:03:00.0
    part     gfx1100
    map      3 0x7f0080000000 vram 0x100000 8K
    map      3 0x7f0080100000 system 0x55550000 4K
    map      0 0x7fff00000000 system 0x66660000 64K
    virtual  3 0x7f0080000000 {hex(NOP)} 0xc0023f00 0x80100000 0x7f00 0x00000010 {' '.join(map(hex, WAIT))}
    virtual  3 0x7f0080100000 0xc0001000 7
    ring     gfx_0.0.0 size 1024 rptr 0x44 wptr 0x46
    packets  gfx_0.0.0 at 0x40 {' '.join(map(hex, IB))}
    ring     sdma0 size 1024 rptr 0x40 wptr 0x46
    packets  sdma0 at 0x40 0x30004 0x80001000 0x7f00 0x100 0 0
    virtual  3 0x7f0080001140 {' '.join(map(hex, POLL))}
    ring     sdma1 size 1024 rptr 0x40 wptr 0x46
    packets  sdma1 at 0x40 0x00004 0x1000 0x7fff 0x10 0 0
    virtual  0 0x7fff00001000 {' '.join(map(hex, POLL))}
    ring     comp_1.0.0 size 1024 rptr 0x40 wptr 0x44
    packets  comp_1.0.0 at 0x40 0xc0023f00 0x90000000 0x7f00 0x03000040
    register SDMA0_QUEUE0_IB_BASE_LO = 0x80001000
    register SDMA0_QUEUE0_IB_BASE_HI = 0x7f00
    register SDMA0_QUEUE0_IB_RPTR = 0x140
"""


def test_followed(t, unhang):
    if not emulated.possible(unhang):
        t.skip("indirect buffers of an emulated GPU", "no GPU can be emulated here")
        return
    scenario = unhang.write("followed.scenario", FOLLOWED)
    rings = only(emulated.document(t, emulated.inside(unhang, scenario, "rings", "--json"), "rings", "indirect buffers as JSON"))
    if not rings:
        return
    found = [(p["depth"], p["name"], p["address"]) for p in rings["gfx_0.0.0"]["packets"] if "NOP" not in p["name"] and p["depth"] < 2]
    t.same(found[:3], [(0, "INDIRECT_BUFFER", None), (1, "INDIRECT_BUFFER", "0x7f0080000004"), (1, "WAIT_REG_MEM", "0x7f0080000014")],
           "a user's buffer, and what it waits for")
    inner = [p for p in rings["gfx_0.0.0"]["packets"] if p["depth"] == 2]
    t.same([p["address"] for p in inner[:1]], ["0x7f0080100000"], "a buffer that a buffer runs, in system memory, by the same VMID")
    sdma = rings["sdma0"]["packets"]
    here = [(p["depth"], p["name"], p["at"]) for p in sdma if p["here"]]
    t.same([h[0] for h in here] + [here[-1][2]], [0, 1, 0x50], "a copy engine: the packet of the ring, and the one in the buffer at which it stands")
    t.ok(any(p["here"] and p["waits_for"] for p in sdma), "which says what it waits for", here)
    t.ok(any(p["depth"] == 1 and p["waits_for"] for p in rings["sdma1"]["packets"]), "a buffer of the driver's own (VMID 0)", rings["sdma1"]["packets"])
    ib = next(p["ib"] for p in rings["comp_1.0.0"]["packets"] if p["here"])
    t.same((ib["read"], ib["why_not"]), (False, "nothing is mapped there"), "a buffer that nothing is mapped for")
    text = emulated.inside(unhang, scenario, "rings").stdout.decode()
    t.ok("the commands it runs cannot be read: nothing is mapped there" in text, "text: why a buffer cannot be read", text)
    t.ok(any(line.startswith(" > ") and line[3:].startswith("  0x") for line in text.splitlines()), "text: > in the buffer", text)
    opened = emulated.only_reads(t, unhang, scenario, ["rings", "--all"], "following only reads")
    t.ok([p for p in opened if p.endswith("amdgpu_vram")], "an indirect buffer is read from VRAM")


# A ring in which the driver writes a fence of 8 words every few milliseconds, one that stands, one of a GPU that does not answer, and one of
# a GPU that sleeps.
TAIL = f"""scenario tail
    title  Rings that are followed

gpu 0000:03:00.0
    part     gfx1100
    ring     gfx_0.0.0 size 1024 rptr count 0x18 8 0.02 wptr count 0x20 8 0.02
    packets  gfx_0.0.0 at 0 {' '.join(f'0xc0064900 0 0x20000000 0x1000 0 {n:#x} 0 0' for n in range(128))}
    ring     sdma0 size 1024 rptr 0x40 wptr 0x46
    packets  sdma0 at 0x40 {' '.join(map(hex, POLL))}

gpu 0000:13:00.0
    part     gfx1100
    file     amdgpu_ring_* blocks

gpu 0000:23:00.0
    part     gfx1100
    state    suspended
"""


def test_tail(t, unhang):
    """`--follow`: each packet once, where the engine is, and what cannot be seen; it touches nothing but what lies in memory."""
    if not emulated.possible(unhang):
        t.skip("rings that are followed", "no GPU can be emulated here")
        return
    scenario, record, check = unhang.write("tail.scenario", TAIL), unhang.directory / "tail.json", emulated.validator("rings-follow")
    # It ends when nobody reads any more.
    command = [unhang.binary, "emulate", "--record", record, scenario, "--", unhang.binary, "rings", "--follow", "--json", "--interval", "0.1", "gfx_0.0.0", "sdma0"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=unhang.environment)
    lines, ring = [], lambda name, event: [d for d in lines if d["ring"] == name and d["event"] == event]
    for text in run.stdout:
        lines.append(json.loads(text))
        if len(ring("gfx_0.0.0", "packet")) > 12 and ring("sdma0", "still") and len(ring(None, "lost")) and len(ring(None, "asleep")):
            break
    run.stdout.close()
    said = run.stderr.read().decode()
    run.wait()
    t.no_complaints([e.message[:200] for d in lines for e in check.iter_errors(d)][:5], "each line is a document")
    places = [d["packet"]["at"] for d in ring("gfx_0.0.0", "packet")]
    lost = len(ring("gfx_0.0.0", "overwritten"))
    t.ok(places and (lost or all((b - a) % 1024 == 8 for a, b in zip(places, places[1:]))), "each packet once, in their order", places)
    wrong = [d for d in ring("gfx_0.0.0", "position") if d["pending_words"] != (d["wptr"] - d["rptr"]) % 1024 or (d["fence_reached"] is not None and (d["fence_emitted"] - d["fence_reached"]) % 128 != 1)]
    t.ok(ring("gfx_0.0.0", "position") and (lost or not wrong), "where the engine is, and its fence", wrong[:2])
    still = ring("sdma0", "still")[:1]
    t.ok(still and still[0]["seconds"] >= 2 and "0x7f0000001000" in still[0]["packet"]["waits_for"], "a ring that stands, and what it waits for", still)
    t.same(sorted({(d["target"], d["event"]) for d in lines if not d["ring"]}), [("0000:13:00.0", "lost"), ("0000:23:00.0", "asleep")], "a GPU that does not answer, and one that sleeps")
    t.same([len(ring(None, "lost")), len(ring(None, "asleep"))], [1, 1], "each is told once", )
    done = [json.loads(line) for line in record.read_text().splitlines()]
    opened = {d["path"] for d in done if d["op"] == "open"}
    t.ok(not [d for d in done if d["op"] in ("write", "wake")] and not [p for p in opened if "renderD" in p or "amdgpu_regs" in p or "gfxoff" in p],
         "nothing is written, and nothing but memory is read", sorted(opened))
    run = emulated.inside(unhang, scenario, "rings", "--follow", "--once", "--gpu", "0000:03:00.0", "sdma0")
    t.ok(run.returncode == 0 and re.search(rb"sdma0 +0x0040  POLL_REGMEM.*\n.*sdma0 +> 0x0040  6 words wait, at POLL_REGMEM", run.stdout), "as text", run.stdout + run.stderr)
    for arguments, words in ((["--watch", "1"], "--watch"), (["--fences"], "--fences"), (["--interval", "0.01"], "0.1"), (["--interval", "x"], "'x'")):
        emulated.refuses(t, unhang, ["rings", "--follow", *arguments], [words], f"--follow with {arguments[0]} is refused")
    run = emulated.inside(unhang, scenario, "rings", "--follow", "--once", "--gpu", "0000:03:00.0", "nothing*")
    t.ok(run.returncode == tap.CANNOT and b"there is no ring" in run.stderr, "a ring that there is not", run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_device_core(t, unhang)
    test_choice(t, unhang)
    test_damage(t, unhang)
    test_emulated(t, unhang)
    test_followed(t, unhang)
    test_tail(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
