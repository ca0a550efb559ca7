#!/usr/bin/env python3
"""What led to what: every pair of causes in both orders, held against the rules of knowledge/chains.know, which are read here anew."""
import json
import re
import sys

import tap
from diagnoses import fault, log, ring_timeout, status_of

KNOWLEDGE = tap.HERE / ".." / "knowledge"
# One event of each stage that the kernel's log can show, as lines at second T.
EVENTS = {
    "ras-block-uncorrected": "T @ 5 uncorrectable hardware errors detected in umc block",
    "ras-poison": "T @ GPU reset for gfx RAS poison consumption is issued!",
    "ras-uncorrectable": "T @ uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
    "gpu-off-bus": "T @ device lost from bus!",
    "thermal-limit": "T @ ERROR: GPU over temperature range(SW CTF) detected!",
    "smu-timeout": "T @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x00000000",
    "page-fault": fault("T", 0x7f0000001000, status_of(8, 3)),
    "ring-timeout": ring_timeout("T"),
    "mes-timeout": "T @ MES failed to respond to msg=REMOVE_QUEUE",
    "hws-timeout": "T @ The cp might be in an unrecoverable state due to an unsuccessful queues preemption",
    "dmub-error": "T @ [drm] *ERROR* dc_dmub_srv_log_diagnostic_data: DMCUB error - collecting diagnostic data",
    "display-timeout": "T @ [drm] *ERROR* [CRTC:79:crtc-0] flip_done timed out",
    "reset-failed": "T @ GPU reset end with ret = -110",
    "interrupt-lost": "T %amdgpu_fence_fallback Fence fallback timer expired on ring gfx_0.0.0",
}


def at(text, time):
    return re.sub(r"(?m)^T ", f"{time} ", text.strip("\n")) + "\n"


def blocks(name, kind):
    """Of a knowledge file: the heading's id, and each key with its lines, joined."""
    for block in re.split(r"^(?=\S)", (KNOWLEDGE / name).read_text(), flags=re.M):
        if block.startswith(kind + " "):
            keys = {}
            for key, value in re.findall(r"^    (\S+) +(.*(?:\n {5,}.*)*)", block, re.M):
                keys.setdefault(key, re.sub(r"\s+", " ", value))
            yield block.split("\n")[0].split(" ", 1)[1], keys


LEADS = [(name, set(b["from"].split()), set(b["to"].split()), int(b["within"]), int(b.get("late", 0)), set(b.get("at", "").split())) for name, b in blocks("chains.know", "lead")]
STAGES = {name: b["counts"] for name, b in blocks("chains.know", "stage")}
CAUSES = [(name, set(b["from"].split()), b["stage"]) for file in ("hardware-errors.know", "causes.know") for name, b in blocks(file, "cause") if "beside" not in b]


def stage_of(event, cls):
    return next((stage for name, froms, stage in CAUSES if name == cls and event in froms), None)


def leads(a, b, seconds):
    """Whether a, with its class and stage, can have led to b, which came so many seconds later."""
    return any((a[0] in froms or a[1] in froms or "*" in froms) and (b[0] in tos or b[1] in tos or "*" in tos) and -late <= seconds <= within and (not at or "run" in at)
               for _, froms, tos, within, late, at in LEADS)


def root(first, second, seconds):
    """Which of two is the cause: what nothing else can have led to, and of two such the earlier."""
    forward, backward = leads(first, second, seconds), leads(second, first, -seconds)
    after = [STAGES[x[1]] in ("aftermath", "unexplained") for x in (first, second)]
    if after[0] != after[1]:
        return 1 if after[0] else 0
    return 1 if backward and not forward else 0


def test_pairs(t, unhang):
    alone = {}
    for name, text in EVENTS.items():
        answer = unhang.explain_text(log(at(text, 100.0)))
        t.same(len(answer.incidents), 1, f"{name} alone is an incident")
        events = [e["event"] for e in answer.first.data["timeline"] if e["role"] == "cause"]
        t.ok(name in events, f"{name} alone is its cause", answer.first.data["timeline"])
        alone[name] = (answer.first.cls, stage_of(name, answer.first.cls))
        t.ok(alone[name][1], f"{name} stands at a stage", answer.first.cls)
    for seconds in (8.0,) if tap.is_sanitized(unhang.binary) else (0.5, 8.0, 40.0):
        wrong = []
        for a, first in EVENTS.items():
            for b, second in EVENTS.items():
                if a == b:
                    continue
                answer = unhang.explain_text(log(at(first, 100.0) + at(second, 100.0 + seconds)))
                wanted = (alone[a], alone[b])[root(alone[a], alone[b], seconds)][0]
                if answer.first.cls != wanted:
                    wrong.append(f"{a}, {b}: {answer.first.cls}, not {wanted}")
        t.no_complaints(wrong, f"{len(EVENTS) * (len(EVENTS) - 1)} ordered pairs, {seconds} s apart")


def test_patterns(t, unhang):
    """What comes after the end of the chain is an effect, whatever its class."""
    lost = unhang.explain_text(log("100.0 @ MES failed to respond to msg=REMOVE_QUEUE\n100.2 @ GPU reset begin!\n108.3 @ device lost from bus!\n"))
    t.same(lost.classes, ["mes-unresponsive"], "a card that is lost from the bus 8 s after MES died and a reset began")
    iommu = unhang.explain_text(log(ring_timeout(100.0, "vcn_unified_0") + "101.1 amdgpu 0000:03:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0x1000 flags=0x0000]\n"))
    t.same(iommu.first.cls, "video-engine-timeout", "an IOMMU fault 1.1 s after a video ring's timeout")
    gone = unhang.explain_text(log("100.0 @ MES failed to respond to msg=REMOVE_QUEUE\n100.2 @ GPU reset begin!\n104.2 @ GPU reset end with ret = -62\n") + "hipErrorNoDevice: no ROCm-capable device is detected\n")
    t.same(gone.first.cls, "mes-unresponsive", "a program that finds no device after MES died and the reset failed")
    oops = unhang.explain_text(log("3.0 amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_me.bin failed with error -2\n3.1 @ Fatal error during GPU init\n"
                                   "3.2 BUG: kernel NULL pointer dereference, address: 0000000000000030\n3.2 RIP: 0010:amdgpu_device_fini_hw+0x12/0x300 [amdgpu]\n"))
    t.same(oops.first.cls, "gpu-init-failed", "an oops behind missing firmware does not hide it")
    frames = [e["event"] for e in oops.first.data["timeline"] if e["event"] in ("driver-frame", "driver-faulted", "oops-process")]
    t.same(frames, [], "a frame tells about its oops and is no event of its own")
    other = unhang.explain(tap.HERE / "logs" / "quiet-oops-deep-frame" / "log.txt")
    t.same(other.document["notes"], [], "nor is it a note of an oops elsewhere")
    roles = {e["event"]: e for e in lost.first.data["timeline"]}
    t.ok(roles["reset-begin"]["rule"] and roles["mes-timeout"]["rule"] is None, "an effect names its rule; the cause has none", roles)
    text = unhang.run("explain", "-v", unhang.write("lost.txt", log("100.0 @ MES failed to respond to msg=REMOVE_QUEUE\n103.0 @ GPU reset begin!\n"))).stdout.decode()
    t.ok("scheduler-first" in text, "-v says by which rule", text)
    listed = unhang.run("knowledge", "list", "lead").stdout.decode()
    t.ok(all(name in listed for name, *_ in LEADS), "knowledge list lead prints the rules", listed)


def test_votes(t, unhang):
    """Votes on progress say that nothing moved, whenever they were cast; why, an event of the kernel says."""
    votes = {"schema": "unhang/watch-event/1", "event": "watch-votes", "incident": "0123456789abcdef", "boot_id": "", "gpu": "0000:03:00.0", "time_us": 90000000,
             "votes": "stood still: interrupts (9 s)", "stood_seconds": 60}
    answer = unhang.explain(unhang.write("votes.json", json.dumps(votes)), unhang.write("votes.log", log(ring_timeout(100.0))))
    rules = {e["event"]: (e["role"], e["rule"]) for e in answer.first.data["timeline"]}
    t.same(rules.get("watch-no-progress"), ("effect", "votes-last"), "votes before a ring's timeout are no cause of it")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_pairs(t, unhang)
    test_patterns(t, unhang)
    test_votes(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
