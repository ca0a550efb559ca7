#!/usr/bin/env python3
"""The arbiter beside a real slurmctld, as root: fleet.py UNHANG [PART...]; `make fleet`. Parts: life, thousand, kills, scripts.

Four slurmd on this machine (multiple-slurmd) for what nodes do, and a slurmctld with 1,250 nodes that never answer (SlurmdTimeout=0) for limits."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import uuid

import tap
from tap import Tap, Unhang

CONFIGURATION = """ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={place}/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=0
{more}SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP
"""
FORM = "NodeList:64|,StateComplete:80|,User:20|,Reason:200|"


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def boot_id(name):
    """One that looks like the kernel's."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class Slurm:
    def __init__(self, unhang, name, many=0, more=""):
        self.unhang, self.place, self.daemons = unhang, unhang.directory / name, {}
        for folder in ("state", "nodes", *(f"spool/n{n}" for n in range(1, 5))):
            (self.place / folder).mkdir(parents=True)
        ports, host = free_ports(5), socket.gethostname().split(".")[0]
        nodes = f"NodeName=n[1-{many}] NodeAddr=127.0.0.1 NodeHostname={host} Port=[20001-{20000 + many}] CPUs=8 State=DOWN" if many else "\n".join(f"NodeName=n{n} NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[n]} CPUs=8 State=UNKNOWN" for n in range(1, 5))
        (self.place / "slurm.conf").write_text(CONFIGURATION.format(host=host, port=ports[0], place=self.place, nodes=nodes, more=more))
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.place / "key").write_bytes(os.urandom(1024))
        (self.place / "key").chmod(0o400)
        self.environment = {**unhang.environment, "SLURM_CONF": str(self.place / "slurm.conf")}
        place = self.place
        self.start("munged", "munged", "-F", "--force", f"--key-file={place}/key", f"--socket={place}/munge", f"--pid-file={place}/munge.pid", f"--log-file={place}/munge.log", f"--seed-file={place}/seed")
        tap.wait_for(lambda: (place / "munge").exists())
        self.start("slurmctld", "slurmctld", "-D")
        for n in range(1, 0 if many else 5):
            self.start(f"n{n}", "slurmd", "-D", "-N", f"n{n}")
        self.ready = tap.wait_for(lambda: self.nodes() and (many or all(node["state"] == "idle" for node in self.nodes().values())))
        if many:  # as if they had registered
            self.scontrol("update", f"NodeName=n[1-{many}]", "State=RESUME")
            tap.wait_for(lambda: all("down" not in node["state"] for node in self.nodes().values()))

    def start(self, name, *command):
        self.daemons[name] = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reboot(self, node):
        """As slurmd sees it: it starts, and says that the machine has."""
        self.daemons[node].terminate()
        self.daemons[node].wait()
        time.sleep(2)  # the new boot must be later than the request, by seconds
        self.start(node, "slurmd", "-D", "-b", "-N", node)
        tap.wait_for(lambda: "reboot" not in self.nodes()[node]["state"] and "down" not in self.nodes()[node]["state"])

    def scontrol(self, *words):
        return subprocess.run(["scontrol", *words], env=self.environment, capture_output=True, text=True, check=False)

    def nodes(self):
        said = subprocess.run(["sinfo", "-h", "-N", "-O", FORM], env=self.environment, capture_output=True, text=True, check=False).stdout
        rows = [[cell.strip() for cell in line.split("|")] for line in said.splitlines()]
        return {row[0]: {"state": row[1].lower(), "user": row[2], "reason": row[3]} for row in rows if len(row) > 3}

    def drained(self):
        return sorted(name for name, node in self.nodes().items() if "drain" in node["state"])

    def say(self, node, status, action="reboot", boot="a", smoke=None, asked=None, host=None):
        """What the node publishes."""
        (self.place / "nodes" / f"{node}.json").write_text(json.dumps({
            "schema": "unhang/check/1", "status": status, "fault": "driver", "class": "mes-unresponsive", "gpu": "0000:85:00.0", "action": action, "incident": f"incident-{node}-{boot}",
            "says": "python of bob", "host": host or node, "boot_id": boot_id(boot), "asked": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(asked or time.time())), "watch": {"smoke_test": smoke}}))

    def command(self, *options):
        return [self.unhang.binary, "fleet", "arbiter", "--nodes", str(self.place / "nodes"), "--state-dir", str(self.place / "arbiter"), *map(str, options)]

    def arbiter(self, *options):
        return subprocess.run(self.command("--once", *options), env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def end(self):
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()


ACT = ("--enforce", "yes", "--most", 10, "--most-drained", "100%")


def test_life(t, unhang):
    """A node from its failure to its return, and what is left alone."""
    s = Slurm(unhang, "life", more="RebootProgram=/bin/true\n")
    t.ok(s.ready, "Slurm runs", s.nodes())
    # The first of all: what a reboot makes of a drain.
    s.scontrol("update", "NodeName=n4", "State=DRAIN", "Reason=[unhang node] trial")
    s.scontrol("reboot", "reason=[unhang node] trial", "n4")
    tap.wait_for(lambda: "reboot_issued" in s.nodes()["n4"]["state"])
    s.reboot("n4")
    t.ok("drain" in s.nodes()["n4"]["state"], "a reboot without ASAP and nextstate leaves the drain", s.nodes()["n4"])
    s.scontrol("update", "NodeName=n4", "State=RESUME")
    for node in ("n1", "n2", "n3"):
        s.say(node, "failed")
    s.say("n4", "healthy")
    s.scontrol("update", "NodeName=n3", "State=DRAIN", "Reason=of somebody")
    observed = s.arbiter("--most-drained", "100%")
    t.same((s.drained(), observed.stdout.count("\twould\t")), (["n3"], 2), "without --enforce it only writes what it would do")
    t.same(s.arbiter("--most-drained", "100%").stdout, "", "and writes it once")
    s.arbiter(*ACT)
    t.same(s.drained(), ["n1", "n2", "n3"], "nodes that are not fit are drained")
    t.same((s.nodes()["n3"]["reason"], s.nodes()["n1"]["reason"]), ("of somebody", "[unhang driver] mes-unresponsive 0000:85:00.0 reboot incident-n1-a"), "with a reason that names nobody; others' are left alone")
    s.say("n1", "healthy")
    s.arbiter(*ACT)
    t.same(s.drained(), ["n1", "n2", "n3"], "a node that is well again without a reboot stays drained")
    s.arbiter(*ACT, "--reboot")
    tap.wait_for(lambda: "reboot_issued" in s.nodes()["n1"]["state"])
    t.ok("reboot" in s.nodes()["n1"]["state"] and "drain" in s.nodes()["n1"]["state"], "with --reboot it is rebooted, and stays drained", s.nodes()["n1"])
    s.reboot("n1")
    s.say("n1", "healthy", boot="b")
    s.arbiter(*ACT, "--reboot")
    t.ok("drain" in s.nodes()["n1"]["state"], "before the smoke test it is not resumed", s.nodes()["n1"])
    s.say("n1", "healthy", boot="b", smoke="failed")
    s.arbiter(*ACT, "--reboot")
    t.ok("drain" in s.nodes()["n1"]["state"], "nor if that failed", s.nodes()["n1"])
    s.say("n1", "healthy", boot="b", smoke="passed")
    s.arbiter(*ACT)
    t.ok("drain" not in s.nodes()["n1"]["state"], "a new boot and a passed smoke test bring it back", s.nodes()["n1"])
    # n2: somebody takes the drain over.
    s.scontrol("update", "NodeName=n2", "State=DRAIN", "Reason=[unhang driver] mine now, hands off")
    s.say("n2", "healthy", boot="b", smoke="passed")
    s.arbiter(*ACT)
    t.ok("drain" in s.nodes()["n2"]["state"], "what somebody else has set since is never resumed, whatever its prefix", s.nodes()["n2"])
    # A part that must be replaced.
    s.say("n4", "failed", action="replace")
    s.arbiter(*ACT)
    s.say("n4", "healthy", boot="b", smoke="passed")
    s.arbiter(*ACT)
    t.ok("drain" in s.nodes()["n4"]["state"], "a node whose part must be replaced stays drained", s.nodes()["n4"])
    s.scontrol("update", "NodeName=n1", "State=RESUME")
    s.say("n1", "failed", boot="c", asked=time.time() - 7200)
    s.arbiter(*ACT)
    t.ok("drain" not in s.nodes()["n1"]["state"], "what was published long ago says nothing", s.nodes()["n1"])
    s.say("n1", "failed", boot="c", host="n3")
    s.arbiter(*ACT)
    t.ok("drain" not in s.nodes()["n1"]["state"], "a file speaks of its own node only", s.nodes()["n1"])
    s.say("n1", "failed", boot="c")
    (s.place / "nodes" / "n1.json").chmod(0o666)
    s.arbiter(*ACT)
    t.ok("drain" not in s.nodes()["n1"]["state"], "nor does a file that others may write", s.nodes()["n1"])
    (s.place / "nodes" / "n1.json").chmod(0o644)
    nowhere = subprocess.run([unhang.binary, "fleet", "arbiter", "--nodes", "/nonexistent", "--state-dir", str(s.place / "arbiter"), "--once"], env=s.environment, capture_output=True, text=True, check=False)
    t.ok(nowhere.returncode == 2 and "/nonexistent" in nowhere.stderr, "a directory that is not there is told", nowhere.stderr)
    (s.place / "nodes" / "n1.json").write_text("{")
    t.same(s.arbiter(*ACT).returncode, 0, "a file that is cut is none")
    # A reservation for maintenance.
    s.scontrol("create", "reservation", "ReservationName=m", "StartTime=now", "Duration=60", "Nodes=n1", "Flags=MAINT", "Users=root")
    tap.wait_for(lambda: "maint" in s.nodes()["n1"]["state"])
    s.say("n1", "failed", boot="c")
    s.arbiter(*ACT)
    t.ok("drain" not in s.nodes()["n1"]["state"], "a node under maintenance is left alone", s.nodes()["n1"])
    s.scontrol("delete", "ReservationName=m")
    # A node that does not come back.
    tap.wait_for(lambda: "maint" not in s.nodes()["n1"]["state"])
    s.arbiter(*ACT, "--reboot")
    s.arbiter(*ACT, "--reboot")
    time.sleep(2)
    power = s.arbiter(*ACT, "--reboot", "--reboot-wait", 1)
    t.ok("\tpower\tdone\tn1" in power.stdout and "\tpower\t" not in s.arbiter(*ACT, "--reboot", "--reboot-wait", 1).stdout, "a reboot that does not happen: it says once that the power is needed", power.stdout)
    # slurmctld stands still.
    os.kill(s.daemons["slurmctld"].pid, signal.SIGSTOP)
    began = time.monotonic()
    stalled = s.arbiter(*ACT)
    t.ok(stalled.returncode == 0 and "sinfo" in stalled.stderr, "a controller that does not answer is told, and nothing is done", stalled.stderr)
    t.ok(time.monotonic() - began < 60, "within its deadline", "")
    os.kill(s.daemons["slurmctld"].pid, signal.SIGCONT)
    s.end()


def test_thousand(t, unhang):
    """A bad update on 1,250 nodes at the same second; two arbiters; a node that flaps."""
    s = Slurm(unhang, "thousand", many=1250)
    for n in range(1, 1251):
        s.say(f"n{n}", "failed")
    both = [subprocess.Popen(s.command("--interval", 1, "--enforce", "yes", "--most", 7), env=s.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    tap.wait_for(lambda: any(job.poll() is not None for job in both))
    ended = [job for job in both if job.poll() is not None]
    t.ok(len(ended) == 1 and ended[0].returncode == 2 and b"another arbiter" in ended[0].stderr.read(), "a second arbiter does not work", [job.poll() for job in both])
    tap.wait_for(lambda: len(s.drained()) >= 7)
    time.sleep(4)
    for job in both:
        job.terminate()
        job.wait()
        job.stderr.close()
    t.same((s.place / "arbiter/decisions").read_text().count("\theld\t"), 1243, "and the others are named, once each")
    t.same(len(s.drained()), 7, "1,250 failures at once drain 7 nodes, as many as are allowed")
    (s.place / "arbiter/decisions").unlink()
    s.arbiter("--enforce", "yes", "--most", 7)
    t.same(len(s.drained()), 7, "a lost journal is no new limit: Slurm remembers")
    share = Slurm(unhang, "share", many=100)
    for n in range(1, 101):
        share.say(f"n{n}", "failed")
    share.arbiter("--enforce", "yes", "--most", "50", "--most", "3%")
    t.same(len(share.drained()), 3, "three of a hundred: the smaller limit counts")
    share.arbiter("--enforce", "yes", "--most", "50", "--most-drained", "5")
    t.same(len(share.drained()), 5, "five at a time, whatever an hour allows")
    limited = share.arbiter("--enforce", "yes", "--most", "50")
    t.ok(len(share.drained()) == 10 and "--most-drained" in limited.stderr, "without a word of it, a tenth", limited.stderr)
    share.end()
    flap = Slurm(unhang, "flap", many=4)
    for boot in range(8):
        flap.say("n1", "failed", boot=f"{boot}x")
        flap.arbiter(*ACT)
        flap.say("n1", "healthy", boot=f"{boot}y", smoke="passed")
        flap.arbiter(*ACT)
    t.same((flap.drained(), (flap.place / "arbiter/decisions").read_text().count("\tresume\tdone\t")), (["n1"], 3), "a node that flaps stays drained after three returns")
    flap.end()
    s.end()


def test_kills(t, unhang):
    """Killed at random moments: never more than allowed, and nobody else's drain is touched."""
    s, chance = Slurm(unhang, "kills", many=200), random.Random(3)
    foreign = [f"n{n}" for n in range(150, 160)]
    s.scontrol("update", f"NodeName={','.join(foreign)}", "State=DRAIN", "Reason=of somebody")
    for n in range(1, 201):
        s.say(f"n{n}", "failed")
    kills, most = int(os.environ.get("UNHANG_KILLS", "200")), 0
    for _ in range(kills):
        job = subprocess.Popen(s.command("--interval", 1, "--enforce", "yes", "--most", 5), env=s.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.25)
        job.kill()
        job.wait()
        most = max(most, len(set(s.drained()) - set(foreign)))
    s.arbiter("--enforce", "yes", "--most", 5)
    t.ok(len(set(s.drained()) - set(foreign)) == 5 and most <= 5, f"{kills} kills: five drained, never more", (most, s.drained()))
    for n in range(1, 201):
        s.say(f"n{n}", "healthy", boot="b", smoke="passed")
    for _ in range(20):
        job = subprocess.Popen(s.command("--interval", 1, "--enforce", "yes", "--most", 5), env=s.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.3)
        job.kill()
        job.wait()
    s.arbiter("--enforce", "yes", "--most", 5)
    left = set(s.drained())
    t.ok(set(foreign) <= left, "nobody else's drain was resumed", left)
    t.same(left - set(foreign), set(), "and all of ours came back")
    s.end()


def test_scripts(t, unhang):
    """HealthCheckProgram, Prolog and Epilog: they publish, and exit 0."""
    script, place = tap.HERE / ".." / "packaging" / "slurm" / "unhang-slurm", unhang.directory / "published"
    place.mkdir()
    text = script.read_text().replace("/etc/default/unhang-slurm", str(unhang.write("defaults", f"PUBLISH={place}\nREFUSE=yes\nSECONDS_MOST=2\n")))
    tools = unhang.directory / "tools"
    tools.mkdir()
    program = unhang.write("script", text)
    for answer, context, wanted in ((0, "", 0), (1, "", 0), (2, "", 0), (1, "prolog_slurmd", 1), (1, "epilog_slurmd", 0), (0, "prolog_slurmd", 0), (2, "prolog_slurmd", 0), ("unpublished", "prolog_slurmd", 1), ("unpublished", "", 0), ("sleep", "prolog_slurmd", 0), ("typo", "prolog_slurmd", 0)):
        if answer == "typo":
            (unhang.directory / "defaults").write_text("PUBLISH=$(\nset -e\nSECONDS_MOST=abc\n")
        # Where the answer cannot be published, unhang check exits with 2.
        does = {"sleep": "exec sleep 100", "unpublished": "case $* in *--publish*) exit 2;; esac; exit 1"}.get(answer, f"exit {answer}")
        (tools / "unhang").write_text(f"#!/bin/sh\n{does}\n")
        (tools / "unhang").chmod(0o755)
        began = time.monotonic()
        run = subprocess.run(["sh", program], env={"PATH": f"{tools}:/usr/bin:/bin", **({"SLURM_SCRIPT_CONTEXT": context} if context else {})}, capture_output=True, check=False, timeout=60)
        t.same((run.returncode, run.stdout, run.stderr), (wanted, b"", b""), f"unhang says {answer}, as {context or 'health check'}: exit {wanted}")
        t.ok(time.monotonic() - began < 30, "within its time", "")


PARTS = {"scripts": test_scripts, "life": test_life, "thousand": test_thousand, "kills": test_kills}


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    for name in sys.argv[2:] or PARTS:
        PARTS[name](t, unhang)
    t.end()


main()
