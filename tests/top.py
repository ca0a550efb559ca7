#!/usr/bin/env python3
"""unhang top: what it shows of emulated GPUs, that it only reads, and that a terminal is as it was before, on every way out."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

import client_queues
import emulated
import tap

ASLEEP = """scenario asleep
    title asleep
gpu 0000:03:00.0
    part gfx1100
    busy 40
gpu 0000:04:00.0
    part gfx1100
    state suspended
"""


def test_once(t, unhang):
    run = emulated.inside(unhang, "eight-gpus", "top", "--once")
    lines = run.stdout.decode().splitlines()
    t.same([run.returncode, len(lines)], [0, 9], "once: a head, and a line for each of eight GPUs")
    t.ok([line for line in lines if line.startswith("0000:b0:00.0") and "100%" in line and "92/300" in line and "38/100" in line and "1, 1 stands" in line], "once: load, power, temperature and queues", lines)
    t.ok(b"\033" not in run.stdout, "once: no control characters")
    for gpus, scenario in ((8, "hardware-errors"), (1, "idle")):
        found = emulated.document(t, emulated.inside(unhang, scenario, "top", "--once", "--json"), "top", f"once: {scenario} as JSON")
        t.same(len(found.get("gpus", [])), gpus, f"once: {scenario} has its GPUs")
        slowed = {g["pci"]: g["throttle"] for g in found.get("gpus", []) if g["throttle"]}
        t.ok(list(slowed) == ["0000:a6:00.0"] * (gpus > 1) and all("prochot" in s for s in slowed.values()), f"once: {scenario}: what slows a GPU down, without a second round", slowed)
    text = emulated.inside(unhang, "hardware-errors", "top", "--once").stdout.decode()
    t.ok(re.search(r"^0000:a6:00\.0 [^\n]*\n {13}slowed by prochot \d+ %, power \d+ %$", text, re.M) and all(len(line) <= 80 for line in text.splitlines()), "once: nothing is cut off", text)
    emulated.refuses(t, unhang, ["emulate", "idle", "--", unhang.binary, "top", "--gpu", "7"], ["there is no GPU 7"], "once: a GPU that is not there")


def test_stream(t, unhang):
    """A line for each look; of two looks the second knows what was slowed down, and what moved."""
    run = unhang.run("emulate", "hardware-errors", "--", "sh", "-c", f"{unhang.binary} top --json --every 1 | head -2")
    found = [json.loads(line) for line in run.stdout.decode().splitlines()]
    t.same(len(found), 2, "stream: each look is a line, and it ends with its reader")
    slowed = {g["pci"]: g["throttle"] for g in found[1]["gpus"] if g["throttle"]}
    t.ok(list(slowed) == ["0000:a6:00.0"] and "prochot" in slowed["0000:a6:00.0"], "stream: what slows a GPU down", slowed)
    one = unhang.write("top.scenario", client_queues.scenario(**client_queues.MOVES))
    two = unhang.write("top2.scenario", client_queues.scenario())
    for name, scenario, moved in (("moves", one, True), ("stands", two, False)):
        found = json.loads(emulated.inside(unhang, scenario, "top", "--once", "--json").stdout)
        t.same([(q["process"], q["of"], q["moved"]) for q in found["queues"]], [("game", "driver", moved)], f"stream: a queue that {name}")


def test_reads(t, unhang):
    scenario = unhang.write("asleep.scenario", ASLEEP)
    paths = emulated.only_reads(t, unhang, scenario, ["top", "--once"], "reads: nothing is written")
    woken = [p for p in paths if "04:00.0" in p and re.search("hwmon/|busy_percent|gpu_metrics", p)]
    t.same(woken, [], "reads: nothing that wakes a GPU that sleeps")
    t.ok([p for p in paths if "03:00.0" in p and "temp1_crit" in p], "reads: the limits of the other one")
    run = emulated.inside(unhang, scenario, "top", "--once")
    t.ok(re.search("0000:04:00.0 +asleep", run.stdout.decode()), "reads: it is said to be asleep", run.stdout)
    began = time.monotonic()
    run = emulated.inside(unhang, "off-bus", "top", "--once")
    t.ok(b"off the bus" in run.stdout and time.monotonic() - began < 60, "reads: a GPU that is off the bus", run.stdout)


class Terminal:
    def __init__(self, unhang, scenario, columns, lines, around="", command="top --every 1"):
        self.said = b""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm"
            script = f"stty -a >{unhang.directory}/before; {unhang.binary} emulate {scenario} -- {around} {unhang.binary} {command}; echo status $?; stty -a >{unhang.directory}/after; echo ended; sleep 60"
            os.execvp("sh", ["sh", "-c", script])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, words, seconds=60):
        end = time.monotonic() + seconds
        while words not in self.said and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                self.said += os.read(self.fd, 65536)
        return words in self.said

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def screens(said):
    """Each screen that was drawn, as lines of text."""
    return [re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", one).replace("\r", "").split("\n") for one in said.decode(errors="replace").split("\033[H")[1:]]


def test_terminal(t, unhang):
    for name, scenario, columns, lines, key in (("q", "idle", 80, 24, b"q"), ("Ctrl-C", "eight-gpus", 200, 50, b"\x03"), ("TERM", "eight-gpus", 80, 24, None)):
        m = Terminal(unhang, scenario, columns, lines, "" if key else "timeout --foreground -s TERM 4")
        m.until(b"space now")
        last = screens(m.said)[-1]
        t.ok(not re.search(rb"[^\r\nH]\033\[K", m.said), f"terminal: {scenario}: nothing is wiped behind a line, which may fill its row", m.said[-300:])
        t.ok(len(last) == lines and all(len(line) <= columns for line in last), f"terminal: {scenario} fits {columns} x {lines}", [len(last), [line for line in last if len(line) > columns]])
        t.ok(last[0].startswith("unhang top") and "Newest incident" in last[-2], f"terminal: {scenario} has its head and foot", last)
        if key:
            os.write(m.fd, key)
        t.ok(m.until(b"ended") if key != b"\x03" else m.until(b"\033[?1049l"), f"terminal: {name} ends it", m.said[-300:])
        t.ok(b"\033[?1049l" in m.said and b"\033[?25h" in m.said, f"terminal: {name} gives the screen and the cursor back")
        if key != b"\x03":
            before, after = ((unhang.directory / name).read_text() for name in ("before", "after"))
            t.same(after, before, f"terminal: {name} leaves its settings as they were")
        m.close()
    m = Terminal(unhang, "eight-gpus", 80, 12)
    m.until(b"space now")
    last = screens(m.said)[-1]
    t.ok(len(last) == 12 and any(line.startswith("and ") and "more: unhang top --once" in line for line in last), "terminal: a small one says how many GPUs have no room", last)
    m.close()


def test_watch(t, unhang):
    """--watch of the other looks: the first look, then the lines that changed; on a terminal they are marked."""
    scenario = unhang.write("watch.scenario", "scenario watch\n    title watch\ngpu 0000:03:00.0\n    part gfx1100\n    register GRBM_STATUS = cycle 0.7 0x3028 0x80003028 0x40003028\n")
    run = unhang.run("emulate", scenario, "--", "sh", "-c", f"timeout 5 {unhang.binary} regs GRBM_STATUS GRBM_STATUS2 --watch 1")
    said = run.stdout.decode()
    head, *looks = re.split("^-- .*\n", said, flags=re.M)
    t.ok("GRBM_STATUS2" in head and len(looks) >= 2 and all("GRBM_STATUS2" not in look for look in looks) and any("GRBM_STATUS" in look for look in looks), "watch: the registers that changed", said)
    for command in ("waves", "queues", "rings"):
        run = unhang.run("emulate", "eight-gpus", "--", "sh", "-c", f"timeout 90 {unhang.binary} {command} --watch 1 | sed '/^-- /q'")
        t.ok(re.search("^-- [0-9:]{8}", run.stdout.decode(), flags=re.M), f"watch: {command} are looked at again", run.stdout[-300:] + run.stderr)
    emulated.refuses(t, unhang, ["regs", "--watch", "1", "--json"], ["--json"], "watch: not as JSON")
    m = Terminal(unhang, scenario, 80, 24, command="regs GRBM_STATUS --watch 1")
    t.ok(m.until(b"\033[7m"), "watch: what changed is marked", m.said[-500:])
    t.ok(not re.search(rb"[^\r\nH]\033\[K", m.said), "watch: nothing is wiped behind a line, which may fill its row", m.said[-500:])
    os.write(m.fd, b"q")
    t.ok(m.until(b"ended") and b"status 0" in m.said and b"\033[?1049l" in m.said, "watch: q ends it", m.said[-300:])
    m.close()


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no emulated machine can be made here")
    for test in (test_once, test_stream, test_reads, test_terminal, test_watch):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
