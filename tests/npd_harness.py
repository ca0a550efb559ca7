#!/usr/bin/env python3
"""unhang's plugin for node-problem-detector, in each state of a node: npd_harness.py UNHANG SILENT_MOUNT

Detector below is a stand-in for node-problem-detector. It follows the custom plugin monitor of its release v1.36.0: how it runs a plugin, cuts what it
says, kills it, and what it makes of the exit status for conditions and events. It has no clock of its own: a test says when the rules run. Where
UNHANG_NPD names a node-problem-detector, the same states are tried with that too.

Seconds are those of the detector: a plugin that is late by them is killed."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import tap
from node_states import OTHER_BOOT, incident, put, state
from tap import Tap, Unhang

PLUGIN = tap.HERE.parent / "packaging" / "kubernetes" / "node-problem-detector"
CONFIG = json.loads((PLUGIN / "unhang-monitor.json").read_text())
OK, NON_OK, UNKNOWN = 0, 1, 2
BUFFER = 4096
FAR = 10 ** 8


def seconds(duration):
    return float(re.fullmatch(r"(\d+)s", duration)[1])


class Detector:
    """What node-problem-detector does with a configuration."""

    def __init__(self, config, environment):
        self.config, self.environment = config, environment
        self.settings = {"timeout": "5s", "max_output_length": 80, "enable_message_change_based_condition_update": False, "skip_initial_status": False, **config["pluginConfig"]}
        self.conditions = {c["type"]: {**c, "status": "False"} for c in config["conditions"]}
        self.reported = {} if self.settings["skip_initial_status"] else {name: dict(c) for name, c in self.conditions.items()}
        self.events, self.took = [], 0

    def run_plugin(self, rule):
        limit = min(seconds(self.settings["timeout"]), seconds(rule.get("timeout", self.settings["timeout"])))
        begin = time.monotonic()
        try:
            child = subprocess.Popen([rule["path"], *rule["args"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment, start_new_session=True)
        except OSError:
            return UNKNOWN, "Error in starting plugin. Please check the error log"
        late = False
        try:
            out, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
        self.took = max(self.took, time.monotonic() - begin)
        said = out[:BUFFER].decode(errors="replace").strip()
        if late:
            said = f'Timeout when running plugin "{rule["path"]}": state - signal: killed. output - "{said}"'
        return child.returncode if child.returncode in (OK, NON_OK) else UNKNOWN, said[:self.settings["max_output_length"]]

    def judge(self, rule, status, said):
        """What the custom plugin monitor calls generateStatus."""
        if rule["type"] == "temporary":
            if status >= NON_OK:
                self.events.append((rule["reason"], said))
            return
        c = self.conditions[rule["condition"]]
        usual = next(d for d in self.config["conditions"] if d["type"] == rule["condition"])
        new = {OK: "False", NON_OK: "True", UNKNOWN: "Unknown"}[status]
        by_message = self.settings["enable_message_change_based_condition_update"] and c["message"] != said
        if new == "True" and (c["status"] != "True" or c["reason"] != rule["reason"] or by_message):
            c.update(status=new, reason=rule["reason"], message=said)
        elif new != "True" and c["status"] != new:
            c.update(status=new, reason=usual["reason"], message=usual["message"] if new == "False" else said)
        else:
            return
        self.events.append((c["reason"], f"{rule['condition']} is now {c['status']}: {c['message']}"))

    def turn(self, times=1):
        for _ in range(times):
            for rule in self.config["rules"]:
                self.judge(rule, *self.run_plugin(rule))
            self.reported = {name: dict(c) for name, c in self.conditions.items()}
        return self

    @property
    def unfit(self):
        return self.reported["AMDGPUUnfit"]["status"]

    @property
    def message(self):
        return self.reported["AMDGPUUnfit"]["message"]

    def incidents(self):
        return [said for reason, said in self.events if reason == "AMDGPUIncident"]


class RealDetector(Detector):
    """node-problem-detector itself: its metrics tell the condition, its log the messages."""

    def __init__(self, config, environment, program, room):
        super().__init__(config, environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        path = room / "real.json"
        path.write_text(json.dumps({**config, "pluginConfig": {**config["pluginConfig"], "invoke_interval": "1s"}}))
        self.log = room / "real.log"
        self.child = subprocess.Popen([program, "--logtostderr", "--v=3", "--enable-k8s-exporter=false", "--port=0", f"--prometheus-port={self.port}", f"--config.custom-plugin-monitor={path}"],
                                      env=environment, stdout=subprocess.DEVNULL, stderr=self.log.open("wb"))
        # Metrics come only with the first status.
        tap.wait_for(self.metrics, 30)

    def metrics(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def turn(self, times=1):
        """Until each rule ran anew so often."""
        def done():
            return self.log.read_text(errors="replace").count("Finish running custom plugins")
        begun = done()
        tap.wait_for(lambda: done() >= begun + times + 1, 60)  # the one that was under way may have read the old state
        time.sleep(0.2)
        text = self.log.read_text(errors="replace")
        last = re.findall(r"Type:AMDGPUUnfit Status:(\w+) Transition:.*? Reason:(\w+) Message:(.*?)}\]", text)[-1:]
        self.reported = {"AMDGPUUnfit": {"status": last[0][0], "message": last[0][2]}} if last else {}
        # At this level of detail the log has each status twice.
        found = dict.fromkeys(re.findall(r"Events:\[{Severity:warn Timestamp:(.*?) Reason:AMDGPUIncident Message:(.*?)}\]", text))
        self.events = [("AMDGPUIncident", said) for _, said in found]
        counted = re.search(r'^problem_counter{reason="AMDGPUIncident"} (\d+)', self.metrics(), re.M)
        self.counted = int(counted[1]) if counted else None
        return self

    def end(self):
        self.child.terminate()
        self.child.wait(10)


class Mount:
    """@source, shown by a server that never answers @operation about @name."""

    def __init__(self, program, path, source, operation, name):
        path.mkdir()
        self.path = path
        self.server = subprocess.Popen([program, path, source, operation, name], stderr=subprocess.DEVNULL)
        while f" {path} " not in pathlib.Path("/proc/self/mountinfo").read_text():  # it may not answer, so it is not asked itself
            if self.server.poll() is not None:
                raise OSError("the mount could not be made")
            time.sleep(0.01)

    def end(self):
        self.server.kill()  # which ends what waits for it
        self.server.wait()
        subprocess.run(["umount", "-l", self.path], capture_output=True, check=False)


class Node:
    """A node: the watch's directory, and what the plugin remembers."""

    def __init__(self, unhang, name, program=None):
        self.unhang, self.room = unhang, unhang.directory / name
        self.run, self.memory = self.room / "run", self.room / "remembered"
        for path in (self.run, self.memory):
            path.mkdir(parents=True)
        self.environment = {**unhang.environment, "UNHANG_BINARY": unhang.binary, "UNHANG_NPD_DIR": str(self.memory)}
        self.program = program
        self.detector = self.start(self.run)

    def start(self, run):
        """A detector that is new on the node, as after an update of its pod."""
        options = ["--run-dir", str(run), "--state-dir", str(self.room / "store")]
        rules = [{**rule, "path": str(PLUGIN / "unhang-npd"), "args": [*rule["args"], *options]} for rule in CONFIG["rules"]]
        config = {**CONFIG, "rules": rules}
        self.detector = RealDetector(config, self.environment, self.program, self.room) if self.program else Detector(config, self.environment)
        return self.detector

    def when(self, found, times=1):
        put(self.run, found)
        return self.detector.turn(times)


HARMLESS, FAILED, WORSE = incident(1), incident(2, "reboot", "no", "driver"), incident(3, "power-cycle", "no", "unknown", cls="illegal-opcode-or-instruction", bundle="no room")
WORSE_SAYS = "[unhang unknown] illegal-opcode-or-instruction 0000:85:00.0 0000000000000003"
# States of which nothing new can be read.
UNREADABLE = [
    ("there is no state", None),
    ("the state is cut", json.dumps(state())[:300]),
    ("the state is empty", ""),
    ("the state is another document", '{"schema": "unhang/check/1"}'),
    ("the state is of another boot", state(boot_id=OTHER_BOOT)),
    ("the state is from the far future", state(age=-FAR)),
    ("the state is valid for ever", state(valid_until="2099-01-01T00:00:00Z")),
    ("the state is stale and says healthy", state(age=3600)),
]


def test_configuration(t):
    permanent = [r["condition"] for r in CONFIG["rules"] if r["type"] == "permanent"]
    t.same((len(permanent), permanent), (len(set(permanent)), ["AMDGPUUnfit"]), "each condition has one rule: of two, the one that ran last would win")
    t.same([c["type"] for c in CONFIG["conditions"]], permanent, "and a state to begin with")
    t.ok(all(r["path"] == "/plugin/unhang-npd" for r in CONFIG["rules"]), "the paths are those of the overlay")
    settings = CONFIG["pluginConfig"]
    t.same((settings["skip_initial_status"], settings["enable_message_change_based_condition_update"], settings["max_output_length"], settings["timeout"]), (True, True, 80, "5s"), "the settings")


def test_life(t, unhang, program=None):
    """One detector on a node, through all that happens to it."""
    node = Node(unhang, "life" if not program else "life-real", program)
    d = node.detector
    if not program:
        t.same(d.reported, {}, "before the first answer, nothing is reported")
    t.same((node.when(state(), 2).unfit, d.incidents()), ("False", []), "healthy")
    t.same((node.when(state(HARMLESS), 3).unfit, d.incidents()), ("False", ["0000000000000001 bundle=yes [job] mes-unresponsive 0000:85:00.0"]), "degraded: still fit, and one event, however often it is asked")
    t.same((node.when(state(HARMLESS, FAILED), 2).unfit, d.message), ("True", "[unhang driver] mes-unresponsive 0000:85:00.0 reboot 0000000000000002"), "failed")
    t.same(len(d.incidents()), 2, "with one event more")
    t.same((node.when(state(HARMLESS, WORSE), 2).unfit, d.message), ("True", WORSE_SAYS), "another failure: the message changes, and no id is cut")
    t.same((node.when(state(HARMLESS, WORSE, age=3600)).unfit, d.message), ("True", WORSE_SAYS), "a failure that is stale stays")
    for name, found in UNREADABLE:
        t.same((node.when(found).unfit, d.message), ("True", WORSE_SAYS), f"and stays if {name}")
    t.same((node.when(state(HARMLESS, WORSE), 2).unfit, len(d.incidents())), ("True", 3), "readable again: no event is repeated")
    t.same((node.when(state(log_unread="/dev/kmsg: Permission denied")).unfit, d.message), ("Unknown", "[unhang unknown] log-unread"), "a new answer that is not sure ends it")
    t.same((node.when(None).unfit, d.message), ("Unknown", "[unhang unknown] log-unread"), "and it does not come back")
    node.when(state(incident(9, "replace", "no", "node")), 2)
    t.same((node.when(state()).unfit, d.message), ("False", CONFIG["conditions"][0]["message"]), "healthy again")
    t.same([said[15:27] for said in d.incidents()], ["1 bundle=yes", "2 bundle=yes", "3 bundle=no ", "9 bundle=yes"], "each incident had one event, which tells whether there is a bundle")
    t.same([said for _, said in d.events if "secret" in said or len(said) > 80 + len("AMDGPUUnfit is now Unknown: ")], [], "no message names a program, none is too long")
    if program:
        t.same(d.counted, 4, "its own count of events says so too")
        d.end()
        return
    t.ok(d.took < 1, "each answer took less than a second", d.took)
    t.same((node.start(node.run).turn(2).unfit, node.detector.incidents()), ("False", []), "a new detector on the node repeats no event")


def test_nothing_known(t, unhang):
    """A new detector, and a plugin that remembers nothing."""
    for n, (name, found) in enumerate([*UNREADABLE, ("the state is of another boot and failed", state(FAILED, boot_id=OTHER_BOOT))]):
        node = Node(unhang, f"new-{n}")
        t.same((node.when(found).unfit, node.detector.message, node.detector.incidents()), ("Unknown", "[unhang unknown] not-watched", []), f"unknown if {name}")
    node = Node(unhang, "new-failed")
    t.same(node.when(state(FAILED, age=3600)).unfit, "True", "stale and failed is failed")
    node = Node(unhang, "lying")
    t.same(node.when(state(FAILED, age=-FAR)).unfit, "True", "a failure of this boot counts, whatever its date")
    t.same(node.when(state(incident(5, "reboot", "no", "driver", cls='x"; $(id)\n' + "y" * 200)), 1).unfit, "True", "a class as long as a page is cut")
    t.same([said for said in node.detector.incidents() if not re.fullmatch(r"[\w.:= \[\]-]{1,80}", said)], [], "and has no letters that a shell or a log could take for more")


def test_memory(t, unhang):
    node = Node(unhang, "memory")
    (node.memory / "failure").write_text(f"{OTHER_BOOT}\n[unhang node] of another boot\n")
    t.same(node.when(None).unfit, "Unknown", "a failure of another boot is not remembered")
    for text in ("", "\n\n\n", "x"):
        (node.memory / "failure").write_text(text)
        t.same(node.when(None).unfit, "Unknown", f"nor one of a damaged file ({text!r})")
    three = [incident(n) for n in (11, 12, 13)]
    t.same([said[14:16] for said in node.when(state(*three), 5).incidents()], ["0b", "0c", "0d"], "three incidents at once: one event each time, three in all")
    node.when(state(three[2], incident(14)))
    t.same((node.memory / "told").read_text().split(), [i["id"] for i in (three[2], incident(14))], "those that are over are forgotten")
    (node.memory / "told.new").mkdir()
    t.same(len(node.when(state(incident(15)), 3).incidents()), 4, "an event that cannot be noted is not sent, rather than each time")
    node.memory = node.room / "file" / "below"
    (node.room / "file").write_text("")
    node.environment["UNHANG_NPD_DIR"] = str(node.memory)
    d = node.start(node.run)
    t.same((node.when(state(FAILED), 3).unfit, d.incidents()), ("True", []), "nothing can be remembered: the condition is told, and no event rather than one each time")
    node.environment["UNHANG_BINARY"] = "/nonexistent"
    node.environment["UNHANG_NPD_DIR"] = str(node.room / "remembered")
    t.same((node.start(node.run).turn().unfit, node.detector.incidents()), ("Unknown", []), "without unhang: unknown, and no event")


def test_replace(t, unhang):
    """What asks for a new part outlives a reboot: AMD's operator untaints a node whose condition is gone."""
    for action, unfit in (("replace", "True"), ("power-cycle", "True"), ("reboot", "Unknown")):
        node = Node(unhang, f"store-{action}")
        record = node.room / "store" / "incidents" / f"{7:016x}" / "incident"
        record.parent.mkdir(parents=True)
        record.write_text(f"id {7:016x}\nstate open\nclass ras-uncorrectable\ntitle x\nfault node\naction {action}\nfit no\nhost node1\nboot_id {OTHER_BOOT}\ngpu 0000:85:00.0\nbegan 1700000000\nbundle taken\n")
        for name, found in (("before the watch runs", None), ("while the state is of the boot before", state(boot_id=OTHER_BOOT))):
            t.same(node.when(found).unfit, unfit, f"{action}: {name}")
        record.write_text(record.read_text().replace("state open", "state closed"))
        (node.memory / "failure").unlink(missing_ok=True)
        t.same(node.when(None).unfit, "Unknown", "until somebody closes it")


def test_without_plugin(t, unhang):
    """Why there is a plugin: the detector takes 'unknown' for news."""
    node = Node(unhang, "bare")
    node.when(state(FAILED))
    rule = {**CONFIG["rules"][0], "path": unhang.binary, "args": ["check", "--npd", "--run-dir", str(node.run), "--state-dir", str(node.room / "store")]}
    bare = Detector({**CONFIG, "rules": [rule]}, node.environment)
    t.same(bare.turn().unfit, "True", "a rule that asks unhang itself knows the failure")
    put(node.run, state(FAILED, age=3600))
    t.same(bare.turn().unfit, "True", "and keeps it while it is stale")
    put(node.run, None)
    t.same(bare.turn().unfit, "Unknown", "but loses it with the state")


def test_late(t, unhang):
    """unhang answers within a second. If it should not, and cannot even be ended, the plugin still does before the detector kills it."""
    node = Node(unhang, "late")
    node.when(state(FAILED))
    stuck = node.room / "stuck"
    stuck.write_text("#!/bin/sh\ntrap '' TERM\nexec sleep 60\n")
    stuck.chmod(0o755)
    node.environment["UNHANG_BINARY"] = str(stuck)
    d = node.start(node.run)
    t.same(d.run_plugin(d.config["rules"][0]), (NON_OK, "[unhang driver] mes-unresponsive 0000:85:00.0 reboot 0000000000000002"), "no answer: the known failure stays")
    t.ok(d.took < seconds(CONFIG["pluginConfig"]["timeout"]), "and in time", d.took)


def test_blocked(t, unhang, silent_mount):
    if os.geteuid() or not os.path.exists("/dev/fuse"):
        return t.skip("a directory that does not answer", "this needs root and /dev/fuse")
    for operation in ("getattr", "open", "read"):
        node = Node(unhang, f"blocked-{operation}")
        node.when(state(FAILED))
        try:
            mount = Mount(silent_mount, node.room / "mount", node.run, operation, "state.json")
        except OSError:
            return t.skip("a directory that does not answer", "this machine lets nobody mount")
        try:
            d = node.start(mount.path)
            d.turn()
            t.same((d.unfit, d.message, d.incidents()), ("True", "[unhang driver] mes-unresponsive 0000:85:00.0 reboot 0000000000000002", []), f"{operation} does not answer: the known failure stays")
            t.ok(d.took < 3, "and unhang itself gave up in time", d.took)
        finally:
            mount.end()
    return None


def main():
    t, unhang, silent_mount = Tap(), Unhang(sys.argv[1]), sys.argv[2]
    test_configuration(t)
    if os.geteuid():
        t.skip("the plugin", "a state is believed only if root wrote it")
        t.end()
    test_life(t, unhang)
    test_nothing_known(t, unhang)
    test_memory(t, unhang)
    test_replace(t, unhang)
    test_without_plugin(t, unhang)
    test_late(t, unhang)
    test_blocked(t, unhang, silent_mount)
    if os.environ.get("UNHANG_NPD"):
        test_life(t, unhang, os.environ["UNHANG_NPD"])
    t.end()


if __name__ == "__main__":
    main()
