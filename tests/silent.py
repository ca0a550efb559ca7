#!/usr/bin/env python3
"""Hangs that no line of the log tells of, healthy work that looks like one, and failures that come while the watch runs."""
import json
import pathlib
import re
import sys

import emulated
import tap
from watched import SCENARIOS, Machine, words

FAST = "suspect-after 1\nhung-after 3\nquiet 1\n"
SLOWER = "suspect-after 1\nhung-after 10\nquiet 1\n"
SAME = "12"  # seconds in which a GPU that is wrongly accused would be called hung


def machine(unhang, name, config, **values):
    text = (SCENARIOS / f"{name}.scenario").read_text()
    for old, new in values.items():
        text = text.replace(old, str(new))
    m = Machine(unhang, name, text)
    m.configure(config)
    return m


def paces(m):
    return {g["pci"][5:7]: (g["progress"], g["progress_says"]) for g in m.state()["gpus"]}


def innocent(t, m, told, name):
    """Nothing is called hung. Files of an emulated GPU on a machine that is overloaded may seem to block for a moment: a suspicion that was closed."""
    left = [i for i in m.incidents() if i["state"] != "closed"]
    t.ok(set(words(told)) <= {"suspected", "closed"} and not left, name, f"{told} {left}")


def test_healthy(t, unhang):
    beat = pathlib.Path("/dev/shm") / f"unhang-beat-{pathlib.Path(unhang.directory).name}"
    beat.touch()
    m = machine(unhang, "healthy", SLOWER + "capture no", **{"=FILE": f"={beat}"})
    seen = f"grep -q stopped.by {m.top}/run/state.json && [ $(grep -c working {m.top}/run/state.json) -ge 3 ]"
    told = m.until(f"{seen} && sleep {SAME}", first=f"(while sleep 1; do touch {beat}; done) & :")
    beat.unlink()
    innocent(t, m, told, "healthy: none of them is an incident")
    found = paces(m)
    t.same({gpu: pace for gpu, (pace, _) in found.items() if gpu != "12"}, {"10": "working", "11": "stopped", "13": "working", "14": "working"}, "a long kernel, a partition and a heartbeat work; one is stopped")
    all_well(t, m, "and none of them is called unwell, whatever its waves do")
    t.ok("stopped by a signal" in (found["11"][1] or ""), "and what stops it is told", found)


def all_well(t, m, name):
    t.same({g["pci"]: g["health"] for g in m.state()["gpus"] if g["unwell"]}, {}, name)


def test_collective(t, unhang):
    m = machine(unhang, "collective", SLOWER + "capture no")
    told = m.until(f"[ $(grep -c 'wait for rank 3' {m.top}/run/state.json) -eq 7 ] && sleep {SAME}")
    innocent(t, m, told, "collective: a spin for a rank that computes is no incident")
    found = {says for pace, says in paces(m).values() if pace == "waiting"}
    all_well(t, m, "none that waits is called unwell")
    t.same(found, {"7 GPUs wait for rank 3, whose program still works"}, "it is told who waits for whom")


def test_two_of_eight(t, unhang):
    m = machine(unhang, "two-of-eight", FAST + "capture no")
    told = m.until(f"[ $(grep -c ' hung:' {m.top}/out) -ge 2 ]")
    found = m.incidents()
    t.same(sorted(i["gpu"]["pci"] for i in found), ["0000:12:00.0", "0000:15:00.0"], "two of eight: the two that hang are told, and no other")
    t.same([words(told), {i["state"] for i in found}], [["suspected", "suspected", "hung", "hung"], {"hung"}], "each is suspected first")
    t.ok(all("stood still: interrupts (" in i["votes"] and "the waves (" in i["votes"] and "not known: " in i["votes"] for i in found), "every vote stands in the record", found)


def test_one_of_several(t, unhang):
    m = machine(unhang, "one-of-several", FAST + "capture no")
    m.until(f"[ $(grep -c ' hung:' {m.top}/out) -ge 2 ]")
    found = m.incidents()
    t.same(sorted(i["gpu"]["pci"] for i in found if i["state"] == "hung"), ["0000:10:00.0", "0000:11:00.0"], "one of several: who works or is stopped hides no other")
    t.same(paces(m)["12"][0], "working", "and one that is stopped beside one that works is no hang")


def test_hive(t, unhang):
    m = machine(unhang, "hive-reset", "quiet 1\ncapture no")
    told = m.until(f"grep -q closed {m.top}/out")
    found = m.incidents()
    t.same([words(told), len(found)], [["opened", "closed"], 1], "hive: one GPU fails, all are reset: one incident")
    t.same([found[0]["class"], found[0]["gpu"]["pci"]], ["compute-ring-timeout", "0000:12:00.0"], "with its origin")


def test_cured(t, unhang):
    m = machine(unhang, "cured", "quiet 1")
    told = m.until(f"grep -q closed {m.top}/out")
    t.same(words(told), ["opened", "explained", "closed"], "cured: a hang that a reset ends is opened, explained and closed")
    one = m.incidents()[0]
    t.same([one["class"], one["gpu"]["pci"]], ["gfx-ring-timeout", "0000:03:00.0"], "with its class")
    listed = unhang.run("explain", "--json", m.directory(one) / "bundle.tar.zst").stdout
    t.ok(b"devcoredump/0000:03:00.0" in listed, "the devcoredump, which lived for five seconds, is in its bundle", listed[:500])


ASLEEP = """
gpu 0000:03:00.0
    part gfx1100
    busy 100
gpu 0000:04:00.0
    part gfx1100
    state suspended
process train
    vram 0000:03:00.0 2G
"""


def test_asleep(t, unhang):
    """While one GPU computes, the votes of another one, which sleeps, must not wake it up."""
    m = Machine(unhang, "asleep", ASLEEP)
    m.configure("capture no")
    record, wakes = m.top / "record", {"gpu_busy_percent", "power1_average", "power1_input"}
    votes = f"until grep -q '03:00.0/hwmon.*power1_average' {record} || [ $n -gt 400 ]; do sleep 0.1; n=$((n+1)); done; sleep 2"
    unhang.run("emulate", m.scenario, "--record", record, "--", "sh", "-c", f"{m.command()} >{m.top}/out 2>&1 & p=$!; n=0; {votes}; kill -TERM $p; wait $p", timeout=120)
    paths = [json.loads(line)["path"] for line in record.read_text().splitlines() if '"read"' in line]
    read = {gpu: {pathlib.PurePath(p).name for p in paths if f"/{gpu}/" in p} & wakes for gpu in ("0000:03:00.0", "0000:04:00.0")}
    t.ok("power1_average" in read["0000:03:00.0"], "asleep: the power of the GPU that computes is read", read)
    t.same(read["0000:04:00.0"], set(), "and nothing of the one that sleeps that would wake it up")


# One wave whose pc is another at every look, whenever that comes, and within a loop for twelve seconds.
LOOP = """
gpu 0000:03:00.0
    part gfx1100
    busy 100
    register  GRBM_STATUS.SPI_BUSY = 1
    register  GRBM_STATUS.GUI_ACTIVE = 1
    register  GRBM_STATUS2.CPC_BUSY = 1
    register  CP_CPC_STATUS.MEC1_BUSY = 1
    wave 1 pc count 0x7f2210000540 4 0.05 vmid 8 queue 2
process train
    vram 0000:03:00.0 2G
"""


def test_votes_count(t, unhang):
    """A look lasts a second. What the watch saw before it decides whether a loop is a hang."""
    m = Machine(unhang, "votes", LOOP)
    bundle, note = m.top / "b.tar.zst", m.top / "note.txt"
    m.run(f"{unhang.binary} capture -o {bundle}")
    for seconds, confidence, advice in ((31, "high", "End the program"), (12, "medium", "If the program still runs, run unhang there.")):
        note.write_text(json.dumps({"schema": "unhang/watch-event/1", "event": "watch-votes", "incident": "0123456789abcdef", "boot_id": "", "gpu": "0000:03:00.0",
                                    "time_us": (1000 - seconds) * 1000000, "votes": "stood still: interrupts (9 s)", "stood_seconds": seconds}))
        text = unhang.run("explain", bundle, note).stdout.decode()
        t.ok(re.search(f"Confidence[a-z ]*: {confidence};", " ".join(text.split())) and f"Now     {advice}" in text and f"saw nothing move for {seconds} s" in " ".join(text.split()), f"votes: a loop after {seconds} s", text)
    named = json.loads(unhang.run("explain", "--json", bundle, note).stdout)["incidents"]
    t.same([i["id"] for i in named], ["0123456789abcdef"], "and it has the name that the watch gave it")
    note.write_text("[ 988.000000] unhang watch: amdgpu 0000:03:00.0: nothing moved for 12 s: stood still: interrupts (9 s)\n")
    t.ok("saw nothing move for 12 s" in " ".join(unhang.run("explain", bundle, note).stdout.decode().split()), "a bundle of an older watch has them as a line")
    t.ok("1 wave runs in a loop" in " ".join(text.split()), "one wave is not many", text)


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    unhang.environment["ROOM"] = "x" * 200  # for those of the scenarios' processes, which are written over it
    if not emulated.possible(unhang):
        t.skip("hangs that nobody reports", "this machine can make none")
        t.end()
    for test in (test_healthy, test_collective, test_two_of_eight, test_one_of_several, test_hive, test_cured, test_asleep, test_votes_count):
        test(t, unhang)
    t.end()


main()
