#!/usr/bin/env python3
"""User queues of the driver's clients (DRM): what `unhang queues` says of them on an emulated machine, and that it only reads."""
import json
import sys

import emulated
import tap
import watched

PCI = "0000:03:00.0"
MQD, RING, READ, WRITE = 0x7fff00000000, 0x7a0000010000, 0x7a0000000080, 0x7a0000000088


def mqd(ring=RING, read=READ, write=WRITE, size=0x1000, doorbell=0x20):
    """The words 136 to 145 of a compute or graphics descriptor of gfx11 and gfx12 (v11_structs.h, v12_structs.h)."""
    log = (size // 4).bit_length() - 2
    return [ring >> 8 & 0xffffffff, ring >> 40, 0, read & 0xffffffff, read >> 32, write & 0xffffffff, write >> 32, doorbell << 2, 0, log]


def scenario(part="gfx1100", words=None, read="16 0", write="48 0", more="", queue=f"user-queue 1 gpu {PCI} type gfx mqd {MQD:#x} vmid 8"):
    words = mqd() if words is None else words
    return f"""scenario queues
    title queues
gpu {PCI}
    part {part}
    map 0 {MQD:#x} system 0x200000000 1M
    map 8 0x7a0000000000 vram 0x200000 128K
    virtual 0 {MQD + 136 * 4:#x} {' '.join(map(hex, words))}
    virtual 8 {READ:#x} {read} {write}
{more}process game
    opens {PCI}
    {queue}
"""


class Machine:
    def __init__(self, t, unhang):
        self.t, self.unhang, self.count = t, unhang, 0

    def write(self, text):
        self.count += 1
        return self.unhang.write(f"queues{self.count}.scenario", text)

    def ask(self, name, text=None, **about):
        run = emulated.inside(self.unhang, self.write(text or scenario(**about)), "queues", "--json")
        return emulated.document(self.t, run, "queues", name).get("user_queues", [])


def test_queue(m):
    t = m.t
    for part in ("gfx1100", "gfx1201"):
        got = m.ask(f"{part}: a queue that stands", part=part)
        t.same([(q["id"], q["client"], q["process"], q["gpu"], q["type"]) for q in got], [(1, 10, "game", PCI, "graphics")], f"{part}: whose it is")
        t.same([(q["mqd"], q["ring"], q["ring_bytes"], q["doorbell"]) for q in got], [(hex(MQD), hex(RING), 0x1000, 0x20)], f"{part}: what its descriptor says")
        t.same([(q["read_index"], q["write_index"], q["moved"], q["state"]) for q in got], [(16, 48, False, "stands")], f"{part}: where it stands")
    got = m.ask("one that moves", read="count 16 1 0.0001 0", write="count 48 1 0.0001 0")
    t.same([(q["moved"], q["state"]) for q in got], [(True, "moves")], "moves")
    got = m.ask("one that is empty", read="48 0")
    t.same([q["state"] for q in got], ["empty"], "is empty")
    got = m.ask("one whose program counts on at the end of the ring", read="48 0", write="1072 0")  # 48 and one ring of 1024 words
    t.same([q["state"] for q in got], ["empty"], "is empty, too")
    got = m.ask("a later kernel", queue=f"user-queue 3 gpu {PCI} type compute mqd {MQD:#x} vmid 8 newer")
    t.same([(q["id"], q["type"]) for q in got], [(3, "compute")], "has queue_3")
    got = m.ask("a copy engine's", queue=f"user-queue 4 gpu {PCI} type sdma mqd {MQD:#x} vmid 8")
    t.same([(q["id"], q["type"]) for q in got], [(4, "SDMA")], "is called as KFD's are")
    text = emulated.inside(m.unhang, m.write(scenario()), "queues").stdout.decode()
    t.ok("game (" in text and "32 words" in text and "unknown" in text and "the driver's log says" in " ".join(text.split()), "as text", text)


def test_words(m):
    """The descriptor word by word, and the queue's own copy of the registers, which is found by the descriptor's address."""
    t, place = m.t, f"    register me 0 pipe 0 queue 1 CP_GFX_MQD_BASE_ADDR = {MQD & 0xffffffff:#x}\n    register me 0 pipe 0 queue 1 CP_GFX_MQD_BASE_ADDR_HI = {MQD >> 32:#x}\n"
    more = place + "    register me 0 pipe 0 queue 1 CP_GFX_HQD_ACTIVE = 1\n    register me 0 pipe 0 queue 1 CP_GFX_HQD_RPTR = 0x16\n"
    path = m.write(scenario(more=more))
    run = emulated.inside(m.unhang, path, "queues", "--registers", "--json")
    got = emulated.document(t, run, "queues", "descriptors as JSON").get("user_queues", [])
    words = {w["name"]: w for d in got[0]["descriptors"] for w in d["words"]} if got else {}
    t.same(words.get("CP_GFX_HQD_BASE", {}).get("value"), hex(RING >> 8 & 0xffffffff), "a word of the descriptor")
    t.same([(f["name"], f["value"]) for f in words.get("CP_GFX_HQD_CNTL", {}).get("fields", [])][:1], [("RB_BUFSZ", 9)], "and its fields")
    t.same([q["descriptors"] for q in m.ask("without --registers")], [[]], "only where they are asked for")
    text = emulated.inside(m.unhang, path, "queues", "--registers").stdout.decode()
    t.ok("descriptor in memory (MQD)" in text and "CP_GFX_HQD_CNTL = 0x00000009 RB_BUFSZ=9\n" in text and max(map(len, text.splitlines())) <= 80, "as text", text)
    inside = ["emulate", path, "--", "sh", "-c", f'exec {m.unhang.binary} regs --json CP_GFX_HQD_RPTR --queue "$(pgrep -o -x game):$1"', "sh"]
    found = emulated.document(t, m.unhang.run(*inside, "1"), "regs", "its registers as JSON")
    t.same(([r["value"] for r in found.get("registers", [])], found.get("bank", {}).get("queue")), (["0x16"], 1), "its own copy of the registers")
    emulated.refuses(t, m.unhang, [*inside, "2"], ["there is no queue"], "a queue that there is not")
    path = m.write(scenario(more=place))
    emulated.refuses(t, m.unhang, [*inside[:1], path, *inside[2:], "1"], ["not on the GPU now"], "a queue whose place is empty")


def test_two_clients(m):
    """Each client has its own page tables: the same address is another word."""
    text = scenario(more=f"    map 9 0x7a0000000000 vram 0x400000 128K\n    virtual 9 {READ:#x} 5 0 5 0\n")
    text += f"process other\n    opens {PCI}\n    user-queue 1 gpu {PCI} type gfx mqd {MQD:#x} vmid 9\n"
    m.t.same([(q["process"], q["read_index"], q["state"]) for q in m.ask("two clients", text)], [("game", 16, "stands"), ("other", 5, "empty")], "each has its own")


def test_unknown(m):
    """What cannot be read is unknown, and says why."""
    t = m.t
    got = m.ask("a descriptor that is nowhere", queue=f"user-queue 1 gpu {PCI} type gfx mqd 0x7ffe00000000 vmid 8")
    t.same([(q["state"], q["ring"]) for q in got], [("not known", None)], "is not known")
    t.ok(got and "descriptor" in (got[0]["problem"] or ""), "and why", got)
    got = m.ask("indexes that are not mapped", words=mqd(read=0x7b0000000000))
    t.ok(got and got[0]["state"] == "not known" and "nothing is mapped" in (got[0]["problem"] or ""), "and why", got)
    got = m.ask("a client without page tables", queue=f"user-queue 1 gpu {PCI} type gfx mqd {MQD:#x} vmid 4")
    t.ok(got and got[0]["ring"] == hex(RING) and got[0]["state"] == "not known", "the descriptor is known, the indexes are not", got)
    got = m.ask("a descriptor whose buffer is locked", more="    file client-*/queue-*/mqd_info blocks\n")
    t.ok(got and got[0]["state"] == "not known" and "did not return" in (got[0]["problem"] or ""), "has a deadline", got)
    for state in ("suspended", "reset"):
        text = scenario(more=f"    state {state}\n").replace(f"    opens {PCI}\n", "")  # a process that opens the node wakes it
        got = m.ask(f"a GPU that is not to be read: {state}", text)
        t.same([(q["state"], q["ring"]) for q in got], [("not known", None)], f"{state}: nothing is read of it")


# A GPU that is busy all the time and whose rings and waves do not move: without its user queues it looks hung.
BUSY = """    busy 100
    register GRBM_STATUS.SPI_BUSY = 1
    register GRBM_STATUS.GUI_ACTIVE = 1
    register GRBM_STATUS2.CPG_BUSY = 1
"""
MOVES = {"read": "count 16 1 0.0001 0", "write": "count 48 1 0.0001 0"}


def test_look(m):
    """A user queue that moves is progress."""
    def health(name, **about):
        run = emulated.inside(m.unhang, m.write(scenario(more=BUSY, **about)), "live", "--json")
        found = json.loads(run.stdout)
        return [g["health"] for g in found["machine"]["gpus"]]
    m.t.same(health("moves", **MOVES), ["busy"], "look: a GPU whose user queue moves works")
    m.t.same(health("none", queue=""), ["hung"], "look: the same one without that queue is silent")


def test_watch(m):
    """So it is for the watch, every few seconds."""
    w = watched.Machine(m.unhang, "clients", scenario(more="    busy 100\n", **MOVES))
    w.configure("quiet 1\ncapture no")
    w.until(f"grep -q '\"progress\": *\"working\"' {w.top}/run/state.json")
    m.t.same([g["progress"] for g in w.state()["gpus"]], ["working"], "watch: a program whose user queue moves works")
    m.t.same(w.incidents(), [], "watch: and no incident is told")


def test_tracepoint(m):
    """The driver's word for a queue that hung, and the same word in a reset, which marks all queues."""
    hung = "[  600.100000] amdgpu_userq_state_changed: client_id=10, type=0, doorbell=32, to="
    late = "[  599.100000] amdgpu 0000:03:00.0: [drm] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7\n"
    for name, log, title in (("alone", hung + "3", "The driver marked a user queue as hung"), ("preempted", hung + "2", None), ("a ring was late before it", late + hung + "3", "gfx-ring-timeout")):
        found = m.unhang.explain(m.unhang.write("queue.log", log + "\n")).document["incidents"]
        said = [title if title in (i["cause"]["title"], i["cause"]["class"]) else i["cause"] for i in found]
        m.t.same(said, [title] if title else [], f"the tracepoint: {name}")
    unmapped = "[  600.2] amdgpu 0000:03:00.0: [drm] *ERROR* comm: game pid: 55 client-id:10 client: Unset ... trying restore queue without va mapping\n"
    for name, log in (("word", unmapped), ("tracepoint", hung + "4\n")):
        causes = [i["cause"] for i in m.unhang.explain(m.unhang.write("queue.log", log)).document["incidents"]]
        m.t.same([c["class"] for c in causes], ["gpu-memory-misuse"], f"the {name} for a queue whose memory is gone")
    loop = "    wave 8 pc cycle 0.0031 0x7f0000001000 0x7f0000001008 0x7f0000001010 vmid 8 queue 2\n"
    late = "messages\n    994.1 err  amdgpu 0000:03:00.0: [drm] *ERROR* comm: game pid: $pid(game) client: Unset ... Timed out waiting for fence=218:44\n"
    run = emulated.inside(m.unhang, m.write(scenario(more=BUSY + loop) + late), "--json")
    seen = [(i["cause"]["class"], [e["role"] for e in i["timeline"] if e["event"] == "user-queue-late"]) for i in json.loads(run.stdout)["incidents"]]
    m.t.same(seen, [("shader-livelock", ["effect"])], "work that was late is the effect of the loop that a look sees")
    m.t.same([e["role"] for i in found for e in i["timeline"] if e["event"] == "user-queue-hung"], ["effect"], "is no cause then")


def test_refused(m):
    """A message whose client is told before the driver's own dots is taken for no other one with something left out."""
    line = "[  600.2] amdgpu 0000:03:00.0: [drm] *ERROR* comm: game pid: 55 client-id:10 client: Unset ... "
    for name, said, known in (("a queue that a program did not get", "Failed to create usermode queue", ["ring"]), ("a word of nobody", "Some other thing", [])):
        found = json.loads(m.unhang.run("knowledge", "match", "--json", "-", stdin=line + said + "\n").stdout)
        m.t.same([(f["subsystem"], f["signature"]) for f in found if "subsystem" in f], [(k, None) for k in known], f"refused: {name}")
    for said, want in (("[drm] *ERROR* Failed to suspend gang: -110", "user-queues-failed"), ("amdgpu: Failed to resume queue, err (-110)", "user-queues-failed"),
                       ("amdgpu: userq reset disabled by debug mask", "user-queue-late"), ("[drm] *ERROR* Invalid compute IP MQD size", None)):
        found = json.loads(m.unhang.run("knowledge", "match", "--json", "-", stdin=f"[  600.2] amdgpu 0000:03:00.0: {said}\n").stdout)
        m.t.same([f.get("signature", "") for f in found if "subsystem" in f], [want], f"refused: {said}")


def test_only_reads(m):
    paths = emulated.only_reads(m.t, m.unhang, m.write(scenario()), ["queues"], "nothing is written, nothing is woken")
    m.t.ok(any(p.endswith("/mqd_info") for p in paths), "the files were opened", sorted(paths))


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no emulated machine can be made here")
    m = Machine(t, unhang)
    for test in (test_queue, test_words, test_two_clients, test_unknown, test_look, test_watch, test_tracepoint, test_refused, test_only_reads):
        test(m)
    t.end()


if __name__ == "__main__":
    main()
