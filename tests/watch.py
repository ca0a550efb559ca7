#!/usr/bin/env python3
"""unhang watch on emulated machines: each incident is stored, explained and told once, over restarts and kills."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time


import emulated
import journals
import kernel_lines
import tap
from watched import Machine, words

ALL = bool(os.environ.get("UNHANG_TEST_ALL"))
KILLS = 200 if ALL else 6
ABSENCES = 100 if ALL else 10
DATA = tap.HERE / ".." / "data"
HEALTHY = """
gpu 0000:03:00.0
    part gfx1100
"""
FAULT = [f"err amdgpu 0000:03:00.0: amdgpu: {line}" for line in (
    "[gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)", " in process python pid 4242 thread python pid 4242)",
    "  in page starting at address 0x00007f3a00001000 from client 10", "GCVM_L2_PROTECTION_FAULT_STATUS:0x00801430")]

OOM = ["err job invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
       "err Memory cgroup out of memory: Killed process 24285 (job) total-vm:4981980kB, anon-rss:291508kB, file-rss:94808kB, shmem-rss:13568kB, UID:0 pgtables:1040kB oom_score_adj:0"]


def fault(seconds, every=0.0001, process="python", pid=4242):
    return "".join(f"    {seconds + n * every:.6f} {line}\n" for n, line in enumerate(FAULT)).replace("python", process).replace("4242", str(pid))


def faults_of(processes, begin, every):
    """A fault of each process, all of one address space: the driver gives its number to the next process at once."""
    return "".join(fault(begin + n * every, process=name, pid=4000 + n) for n, name in enumerate(processes))


def note_hooks(m):
    """A hook that notes each id with its revision, state and job."""
    notes, hook = m.top / "notes", m.top / "hooks" / "10-note"
    notes.write_text("")
    notes.chmod(0o666)
    let_in(m.top)
    hook.write_text(f'#!/bin/sh\necho "$UNHANG_INCIDENT ${{UNHANG_REVISION:-0}} $UNHANG_STATE $UNHANG_JOB" >>{notes}\n')
    hook.chmod(0o755)
    return notes


def test_once(t, unhang):
    m = Machine(unhang, "once", "fault-mes-dead")
    told = m.once()
    t.same(words(told), ["opened", "explained"], "an incident of the log is told, and explained")
    run = unhang.run("incidents", "--json", "--state-dir", m.top / "state")
    found = emulated.document(t, run, "incidents", "its record has the form of docs/incidents.schema.json").get("incidents", [{}])
    t.same(len(found), 1, "there is one")
    one = found[0]
    t.same([one.get("state"), one.get("bundle"), one.get("gpu", {}).get("pci"), one.get("gpu", {}).get("serial")],
           ["open", "taken", "0000:2f:00.0", "EMU2025161871"], "it is open, as the GPU hangs, and says which GPU it is")
    files = sorted(p.name for p in m.directory(one).iterdir())
    t.same(files, ["bundle.tar.zst", "diagnosis.json", "diagnosis.txt", "incident"], "bundle and diagnosis are beside it")
    diagnosis = json.loads((m.directory(one) / "diagnosis.json").read_text())
    t.same(diagnosis["incidents"][0]["cause"]["class"], one["class"], "the diagnosis is of the same class")
    later = unhang.run("explain", "--json", m.directory(one) / "bundle.tar.zst")
    t.same(json.loads(later.stdout)["incidents"][0]["cause"]["class"], one["class"], "so is what the bundle says later")
    page = unhang.run("incidents", "--state-dir", m.top / "state", one["id"], "--html", "-").stdout.decode()
    t.ok(page.startswith("<!DOCTYPE html>") and f'"class": "{one["class"]}"' in page, "and a report of it for others", page[:500])
    shown = unhang.run("incidents", "--state-dir", m.top / "state", one["id"]).stdout.decode()
    listed = unhang.run("incidents", "--state-dir", m.top / "state").stdout.decode()
    t.ok(one["id"] in listed and one["title"] in " ".join(listed.split()), "unhang incidents lists it", listed)
    wide = [line for line in (listed + shown).splitlines() if len(line) > 80 and str(m.top) not in line]
    t.no_complaints(wide, "both within 80 columns")
    t.ok("capture" not in shown and "Save the evidence" not in shown, "nobody is asked to save what the watch saved", shown)
    none = unhang.run("incidents", "--state-dir", m.top / "never").stdout.decode()
    t.ok("yet" in none and "unhang-watch" in none, "where nothing was stored it says who stores", none)
    t.ok(one["title"] in shown and str(m.directory(one)) in shown and len(shown.splitlines()) > 15, "unhang incidents ID shows it", shown)
    wrong = [e.message[:200] for e in emulated.validator("watch-state").iter_errors(m.state())]
    t.no_complaints(wrong, "state.json has the form of its schema")
    t.same([m.state()["gpus"][0]["unwell"], [i["id"] for i in m.state()["incidents"]]], [True, [one["id"]]], "and names what is open")
    t.ok(m.state()["valid_until"] <= m.state()["written"], "which is not valid any longer, as nobody watches", str(m.state())[:300])
    before = (m.directory(one) / "bundle.tar.zst").stat().st_mtime_ns
    t.same(words(m.once()), [], "a second run tells nothing twice")
    t.same([i["id"] for i in m.incidents()], [one["id"]], "and finds the same incident again")
    t.same((m.directory(one) / "bundle.tar.zst").stat().st_mtime_ns, before, "its bundle stays as it is")
    bad = unhang.run("incidents", "--state-dir", m.top / "state", "../../etc/passwd")
    t.ok(bad.returncode == 2 and b"no incident's id" in bad.stderr, "what is no id is refused", bad.stderr.decode())


def test_quiet_machine(t, unhang):
    m = Machine(unhang, "idle", "idle")
    t.same(m.once(), [], "of an idle machine nothing is told")
    t.same([(g["health"], g["progress"]) for g in m.state()["gpus"]], [("idle", "idle")], "and it is called idle")
    m = Machine(unhang, "drain", HEALTHY + "messages\n    999.500000 err amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n")
    m.configure("quiet 1\ncapture no")
    t.same([words(m.once()), words(m.once())], [["opened"], []], "what is the machine's own fault stays open, though the GPU looks well")
    t.same([(g["unwell"], i["fault"]) for g in m.state()["gpus"] for i in m.state()["incidents"]], [(True, "node")], "and its GPU unwell")
    m = Machine(unhang, "idle", "idle")
    t.ok(unhang.run("incidents", "--state-dir", m.top / "state").stdout.startswith(b"Nothing was stored"), "and nothing stored")
    m = Machine(unhang, "causeless", HEALTHY + "messages\n" + "".join(f"    1000.1 {line}\n" for line in OOM))
    m.configure("quiet 600")
    t.same(m.run(f"timeout 30 {m.command('--once')}; echo status $?").stdout.decode(), "status 0\n", "what has no cause to be told of is not waited for")
    opened = emulated.only_reads(t, unhang, "fault-mes-dead", ["watch", *m.options, "--once"], "the watch writes nothing to a GPU")
    t.ok(any(p == "/dev/kmsg" for p in opened), "it reads the kernel's log", str(opened)[:300])


def test_all_clear(t, unhang):
    """Only a look that saw the GPU says that it is well, and a new boot mends no broken GPU."""
    m = Machine(unhang, "lockdown", "scenario dark\n    no-debugfs\n" + HEALTHY + "messages\n" + fault(999.5))
    m.configure("quiet 1\ncapture no")
    looked = f"grep -q '\"looked\": \"' {m.top}/run/state.json"
    told = m.until(f"{looked} && sleep 4")
    t.same([words(told), [g.get("seen") for g in m.state()["gpus"]]], [["opened"], [False]], "all-clear: where the GPU cannot be seen its incident stays open")
    broken = HEALTHY + "messages\n    999.500000 err amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    for name, scenario, action, state in (("broken", broken, "power-cycle", "open"), ("mended", HEALTHY + "messages\n" + fault(999.5), "restart-program", "closed")):
        m = Machine(unhang, name, scenario)
        m.configure("quiet 3600\ncapture no")
        m.once()
        one = m.incidents()[0]
        t.same(one["action"], action, f"{name}: the record says what to do")
        record = m.directory(one) / "incident"
        record.write_text(record.read_text().replace(one["boot_id"], "0" * 32))
        m.scenario = "idle"
        m.once()
        t.same(m.incidents()[0]["state"], state, f"{name}: after a new boot it is {state}")
        if state == "open":
            t.ok("\nserial " in record.read_text(), "the record has the serial number", record.read_text())
            record.write_text(re.sub("\nserial .*", "\nserial of-another-card", record.read_text()))
            m.once()
            t.same((m.incidents()[0]["state"], m.incidents()[0]["closed_by"]), ("closed", "another card is in its place: the serial number differs"), "it closes when the card is another")


HOOK = """#!/bin/sh
{ echo "$UNHANG_STATE $UNHANG_GPU $UNHANG_CLASS $(id -u) $UNHANG_DO $UNHANG_FIT"; wc -c; } >>%s
"""


GROUP = 4711


def test_group(t, m, one):
    """Members of the group unhang may read what is stored, and who explains it needs no group at all."""
    if os.getuid() != 0:
        t.skip("what is stored is the group's", "only root can give it away")
        return
    stored = [p for p in [m.directory(one).parent, *m.directory(one).parent.rglob("*")]]
    wrong = [f"{p.name}: {oct(s.st_mode)} {s.st_uid}:{s.st_gid}" for p in stored
             for s in [p.stat()] if [s.st_uid, s.st_gid, s.st_mode & 0o777] != [0, GROUP, 0o750 if p.is_dir() else 0o640]]
    t.no_complaints(wrong, "what is stored is root's and its group's")
    t.same(sorted(p.name for p in stored[2:] if p.stat().st_size), ["bundle.tar.zst", "diagnosis.json", "diagnosis.txt", "incident"], "and nothing of it is empty")
    t.ok(json.loads((m.directory(one) / "diagnosis.json").read_text())["incidents"], "the bundle was explained")


def test_closed(t, unhang):
    """What does not end by itself an operator closes, while the watch runs and while none does; old lines do not open it again."""
    m = Machine(unhang, "closes", HEALTHY + "messages\n    999.500000 err amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n")
    m.configure("quiet 3600\ncapture no")
    close = f"'{unhang.binary}' incidents --state-dir {m.top}/state --close"
    one = f"$(ls {m.top}/state/incidents)"
    said = m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until grep -q opened {m.top}/out; do sleep 0.1; done; {close} --reason 'GPU replaced' {one}; {close} {one}; kill -TERM $p; wait $p")
    told = (m.top / "out").read_text().splitlines()
    record = m.incidents()[0]
    t.same((words(told), said.stdout.decode().splitlines()), (["opened", "closed"], [f"Incident {record['id']} is closed.", f"Incident {record['id']} was closed before."]),
           "a watch that runs closes what it is told to, once")
    t.same((record["state"], record["closed_by"], len(list(m.directory(record).glob("close")))), ("closed", "an operator: GPU replaced", 0), "its record says why")
    t.same((words(m.once()), [g["unwell"] for g in m.state()["gpus"]]), ([], [False]), "the same lines do not open it again, and the GPU may be used")
    file = m.directory(record) / "incident"
    file.write_text(re.sub("closed_by .*\n", "", file.read_text()).replace("state closed", "state open"))
    done = unhang.run("incidents", "--state-dir", m.top / "state", "--close", record["id"])
    t.same((done.returncode, m.incidents()[0]["closed_by"]), (0, "an operator"), "so it is where no watch runs")
    wrong = [unhang.run("incidents", "--state-dir", m.top / "state", *a).returncode for a in (["--close"], ["--reason", "x", record["id"]], ["--close", "0" * 16], ["--close", "--json", record["id"]])]
    t.same(wrong, [2] * 4, "what cannot be closed is refused")


def test_as_it_happens(t, unhang):
    """A fault two seconds from now: told, captured, hooks, and closed because the GPU is well."""
    m = Machine(unhang, "live", HEALTHY + "messages\n" + fault(1001.5))
    notes = m.top / "notes"
    notes.write_text("")
    notes.chmod(0o666)
    let_in(m.top)
    hook = m.top / "hooks" / "10-note"
    hook.write_text(HOOK % notes)
    hook.chmod(0o755)
    late = m.top / "hooks" / "20-fails"
    late.write_text("#!/bin/sh\nexit 3\n")
    late.chmod(0o755)
    (m.top / "hooks" / "30-no-program").write_text("nothing")
    roots = m.top / "hooks" / "40-roots"
    roots.write_text("#!/bin/sh\n")
    roots.chmod(0o700)
    group = m.top / "group"
    group.write_text(f"root:x:0:\nunhang:x:{GROUP}:\n")
    told = m.until(f"grep -q closed {notes}", first=f"mount --bind {group} /etc/group")
    t.ok(f"Watching 1 GPU. Incidents are stored in {m.top}/state/incidents." in (m.top / "out").read_text().splitlines(), "it says what it watches", told)
    t.same(words(told), ["opened", "explained", "closed"], "a fault is told as it happens, and closed when the GPU is well")
    t.same(told[-1], "status 0", "SIGTERM ends the watch")
    t.ok(any("20-fails: it ended with status 3" in line for line in told), "a hook that fails is told", str(told))
    if os.getuid() == 0:
        t.ok(any("40-roots: it could not be started: Permission denied; hooks run as nobody" in line for line in told), "and one that nobody may run, with the reason", str(told))
    one = m.incidents()[0]
    t.same([one["state"], one["closed_by"]], ["closed", "the GPU is well, and nothing new was reported"], "the record says what ended it")
    test_group(t, m, one)
    lines = notes.read_text().splitlines()
    t.same([line.split()[:3] for line in lines[::2]], [["open", "0000:03:00.0", one["class"]], ["closed", "0000:03:00.0", one["class"]]],
           "hooks are told of both changes, in their environment")
    t.same({tuple(line.split()[4:]) for line in lines[::2]}, {("restart-program", "yes")}, "also what the machine needs, and that it is fit for the next job")
    t.ok(all(int(n) > 500 for n in lines[1::2]), "and get the diagnosis on standard input", str(lines))
    if os.getuid() == 0:
        t.ok(all(line.split()[3] != "0" for line in lines[::2]), "they do not run as root", str(lines))
    t.same(words(m.once()), [], "nothing of it is told again")


LATER = [("busy      100", "busy      5 until 2.5 100"), ("INSTR_PNTR = 0x1c3a", "INSTR_PNTR = (cycle 0.003 0x10 0x20 0x30) until 2.5 0x1c3a"),
         ("interrupts 733412", "interrupts (count 733412 7 0.01) until 2.5 733412"), ("wptr 90415", "wptr 90412 until 2.5 90415"),
         ("MES_BUSY = 1", "MES_BUSY = 0 until 2.5 1"), ("CPC_BUSY = 1", "CPC_BUSY = 0 until 2.5 1")]


def let_in(directory):
    """Others may go through it."""
    for one in [directory, *directory.parents]:
        if os.stat(one).st_uid == os.getuid():
            one.chmod(one.stat().st_mode | 0o011)


def note_rights(unhang, m, telling):
    """A command of the shell, after which each process of unhang notes who it is when it is told something or writes."""
    if tap.is_sanitized(unhang.binary):  # which wants to be loaded first
        return ":"
    let_in(m.top)
    (m.top / "rights").write_text("")
    (m.top / "rights").chmod(0o666)
    return f"export LD_PRELOAD={telling} RIGHTS_LOG={m.top}/rights"


# CAP_DAC_READ_SEARCH and CAP_SYSLOG for the log; CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON for processes and the driver.
LOG_CAPABILITIES = 1 << 2 | 1 << 34
PRIVILEGED_CAPABILITIES = LOG_CAPABILITIES | 1 << 19 | 1 << 21 | 1 << 38


def test_rights_of_all(t, unhang, m):
    """Whatever takes apart what others wrote is no one; what is root reads or starts, and takes nothing apart."""
    if os.getuid() != 0 or tap.is_sanitized(unhang.binary):
        t.skip("who has rights", "without root nobody has any")
        return
    seen = {}
    for line in (m.top / "rights").read_text().splitlines():
        name, user, capabilities, seccomp, locked = line.split()
        seen.setdefault(name, set()).add((int(user), int(capabilities, 16), int(seccomp), int(locked)))
    for name in ("explain", "judge", "kmsg", "look", "pack", "pulse"):
        t.same(seen.get(f"unhang-{name}"), {(65533, 0, 2, 1)}, f"{name}: no one, without a capability, with a filter of system calls")
    log, clerk = seen.get("unhang-log", {(0, ~0, 0, 0)}), seen.get("unhang-clerk", {(0, ~0, 0, 0)})
    t.ok(all(one == (65533, one[1] & LOG_CAPABILITIES, 2, 1) for one in log), "log: no one, who may read files and the kernel's log", log)
    t.ok(all(one == (0, one[1] & PRIVILEGED_CAPABILITIES, 2, 1) for one in clerk), "clerk: root, who may read, with a filter of system calls", clerk)


def test_silent(t, unhang, telling):
    """Hangs that no line of the log tells of."""
    text = (tap.HERE / ".." / "emulator" / "scenarios" / "silent-hang.scenario").read_text()
    for old, new in LATER:
        text = text.replace(old, new)
    m = Machine(unhang, "silent", text.replace("process llama-server\n", "process llama-server\n    environment SLURM_JOB_ID=4711\n"))
    m.configure("suspect-after 1\nhung-after 3")
    told = m.until(f"grep -q explained {m.top}/out", first=note_rights(unhang, m, telling))
    test_rights_of_all(t, unhang, m)
    t.same(words(told), ["suspected", "hung", "explained"], "a hang that begins later, and silently, is suspected, then told")
    t.ok(re.search(r" hung: .*; nothing moved for ([3-9]|\d\d+) s \(GPU", "\n".join(told)), "with the time for which nothing moved", told)
    one = m.incidents()[0]
    t.same([one["state"], one["class"], one["origin"], one["bundle"]], ["hung", "silent-hang", "look", "taken"], "with its class and a bundle")
    t.same(one["job"], "llama-server, Slurm job 4711", "with its program and its job")
    told = (m.directory(one) / "diagnosis.json").read_text()
    t.ok(re.search(r"unhang watch saw nothing move for ([3-9]|\d\d+) s", told), "the diagnosis knows for how long nothing moved", told[:2000])
    shown = unhang.run("incidents", "--state-dir", m.top / "state", one["id"]).stdout.decode().splitlines()
    t.same([line for line in shown if len(line) > 80 and " files " not in line], [], "a record fits into 80 columns")
    t.same([words(m.once()), [i["id"] for i in m.incidents()]], [["closed"], [one["id"]]], "a restart goes on with it: the GPU is well there")
    m = Machine(unhang, "busy", "busy-healthy")
    m.configure("suspect-after 1\nhung-after 2")
    told = m.until("[ $n -gt 40 ]")
    t.same([told, m.incidents()], [["status 0"], []], "a GPU that works is no hang")
    work = [one for path in (m.top / "state" / "history").iterdir() for one in map(json.loads, path.read_text().splitlines()) if one["kind"] == "exposure"]
    t.ok(len(work) == 1 and 1 <= work[0]["busy"] <= work[0]["until"] - work[0]["from"], "and its time of work is one line of the history", work)


def test_storm(t, unhang):
    lines = "".join(fault(1000.5 + n * 0.002, 0.0002) for n in range(250))
    m = Machine(unhang, "storm", HEALTHY + "messages\n" + lines)
    told = m.until(f"grep -q closed {m.top}/out")
    t.same(words(told), ["opened", "explained", "closed"], "a thousand lines of faults are one incident")
    t.same([len(m.incidents()), len(list(m.top.glob("state/incidents/*/bundle.tar.zst")))], [1, 1], "and one bundle")


def test_quota(t, unhang):
    """Faults of many programs, and faults that are alike, leave a bundle for the first hang."""
    forged = "".join(fault(960 + n * 0.5, process=f"job{n % 20}", pid=5000 + n) for n in range(24))
    hang = "    999.000000 err amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n"
    m = Machine(unhang, "quota", HEALTHY + HEALTHY.replace("03:", "43:") + "messages\n" + forged.replace("03:00.0", "43:00.0") + hang)
    m.configure("quiet 3600\nbundles-per-hour 3")
    m.once()
    found = [(i["gpu"]["pci"][5:7], i["bundle"] == "taken") for i in m.incidents()]
    t.same([found.count(("03", True)), found.count(("43", True)), found.count(("43", False))], [1, 3, 21], "quota: the first of another class has a bundle when all are used up")
    m = Machine(unhang, "alike", HEALTHY + "messages\n" + "".join(fault(960 + n * 3, pid=5000 + n) for n in range(8)))
    m.once()
    bundles = [i["bundle"] for i in m.incidents()]
    t.same([bundles.count("taken"), bundles.count("there were enough bundles of the same fault in this hour")], [4, 4], "and faults that are alike have four of them")
    m.once()
    t.same([i["bundle"] for i in m.incidents()], bundles, "a restart forgets none")
    m = Machine(unhang, "hour", HEALTHY + "messages\n" + fault(960))
    m.configure("quiet 3600\nbundles-per-hour 1")
    m.once()
    first = m.directory(m.incidents()[0]) / "incident"
    for minutes, taken in ((58, 1), (61, 2)):
        first.write_text(re.sub("began [0-9]+", f"began {int(time.time()) - minutes * 60}", first.read_text()))
        with open(m.scenario, "a") as scenario:
            scenario.write(fault(960 + minutes / 4, process=f"job{minutes}", pid=5000 + minutes))
        m.once()
        t.same([i["bundle"] == "taken" for i in m.incidents()].count(True), taken, f"one bundle an hour: {minutes} minutes after it there are {taken}")


def test_flood(t, unhang):
    """A user whose programs fault all day does not hide an error of the hardware, nor give it his GPU."""
    broken = "    1001.000000 err amdgpu 0000:43:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    m = Machine(unhang, "flood", HEALTHY + HEALTHY.replace("03:", "43:") + "messages\n" + "".join(fault(900 + n, process=f"job{n}", pid=5000 + n) for n in range(100)) + broken)
    m.configure("quiet 3600\ncapture no\nsettle-ms 200")
    m.until(f"grep -q 'opened: .*43:00' {m.top}/out")
    found = m.incidents()
    t.same([sorted({(i["gpu"]["pci"][5:7], i["class"]) for i in found}), [i["state"] for i in found if i["gpu"]["pci"][5:7] == "43"]],
           [[("03", "gpu-page-fault-unmapped"), ("43", "ras-uncorrectable-error")], ["open"]], "100 faults of programs: an error of the hardware is told, of its own GPU")
    closed = {i["closed_by"] for i in found if i["state"] == "closed"}
    given_way = "there are too many at once to follow each"
    # What the engine itself follows no more is closed by the first look, which may come before the watch is stopped.
    t.ok(given_way in closed and closed <= {given_way, "the GPU is well, and nothing new was reported"}, "and the oldest faults give way", [i["closed_by"] for i in found])


def test_places(t, unhang):
    """Directories that are named from where it was started are told from the root on."""
    m = Machine(unhang, "places", HEALTHY + "messages\n" + fault(999.5))
    run = m.run(f"cd {m.top} && {unhang.binary} watch --state-dir state --run-dir run --hooks-dir hooks --config watch.conf --once; "
                f"{unhang.binary} incidents --state-dir state $(ls state/incidents)")
    t.ok(f"{m.top}/state" in run.stdout.decode() and len(m.incidents()) == 1, "--state-dir state: where incidents are is told from the root on", run.stdout.decode() + run.stderr.decode())


def test_second(t, unhang):
    """Two GPUs fail one after the other: each is explained as itself."""
    late = "".join(f"    999.{n}00000 err amdgpu 0000:43:00.0: amdgpu: {line}\n" for n, line in
                   enumerate(("ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102", "GPU reset begin!", "GPU reset(2) succeeded!"), 6))
    m = Machine(unhang, "second", HEALTHY + HEALTHY.replace("03:", "43:") + "messages\n" + fault(999.5) + late)
    m.once()
    found = m.incidents()
    said = {i["id"]: json.loads((m.directory(i) / "diagnosis.json").read_text())["incidents"][0] for i in found}
    t.same(sorted(i["class"] for i in found), ["gfx-ring-timeout", "gpu-page-fault-unmapped"], "two GPUs that fail are two incidents")
    t.same({i["id"]: said[i["id"]]["cause"]["class"] for i in found}, {i["id"]: i["class"] for i in found}, "and each is explained as what it is")
    t.same(sorted((i["class"], i["gpu"]["pci"]) for i in found), [("gfx-ring-timeout", "0000:43:00.0"), ("gpu-page-fault-unmapped", "0000:03:00.0")], "with its own GPU")


def test_explained_again(t, unhang):
    """What comes after the bundle was taken is in the diagnosis when the incident is closed."""
    lines = [(1001, "ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102"), (1001.01, "GPU reset begin!"), (1005, "GPU reset(2) succeeded!")]
    m = Machine(unhang, "again", HEALTHY + "messages\n" + "".join(f"    {at:.6f} err amdgpu 0000:03:00.0: amdgpu: {line}\n" for at, line in lines))
    m.configure("quiet 8")
    told = m.until(f"grep -q closed {m.top}/out && grep -q succeeded {m.top}/state/incidents/*/diagnosis.txt")
    t.same(words(told), ["opened", "explained", "closed"], "an incident is told three times")
    one = m.incidents()[0]
    said = json.loads((m.directory(one) / "diagnosis.json").read_text())["incidents"]
    t.same([[i["cause"]["class"] for i in said], "succeeded" in (m.directory(one) / "diagnosis.txt").read_text()], [["gfx-ring-timeout"], True], "and its diagnosis has what came last")


def test_helper_killed(t, unhang):
    """Who takes a bundle is killed when it is there, or who explains it: it is done once more, and in the end there is a diagnosis."""
    m = Machine(unhang, "unexplained", HEALTHY + "messages\n" + fault(1003))
    m.configure("quiet 3600")
    one = f"{m.top}/state/incidents/*/"
    others = "pgrep -P $p | while read c; do case $(cat /proc/$c/comm) in unhang-*) ;; *) echo $c ;; esac; done"
    m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until ls {one}bundle.tar.zst >/dev/null 2>&1 || ! kill -0 $p; do :; done; "
          f"n=0; until c=$({others}) && [ -n \"$c\" ] && kill -9 $c 2>/dev/null || [ -e {one}diagnosis.json ] || [ $n -gt 1000 ]; do n=$((n+1)); done; "
          f"n=0; until [ -e {one}diagnosis.json ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p")
    told = (m.top / "out").read_text()
    explained = [p for p in (m.top / "state/incidents").glob("*/diagnosis.json") if json.loads(p.read_text())["incidents"]]
    t.ok(explained, "a capture or an explanation that was killed is made again", told)


def test_hooks_killed(t, unhang):
    """Who runs the hooks is killed in the first of them: all are run again."""
    m = Machine(unhang, "runner", HEALTHY + "messages\n" + fault(1001))
    m.configure("quiet 3600\ncapture no\nsettle-ms 200")
    notes, first, runner = note_hooks(m), m.top / "hooks" / "05-waits", m.top / "runner"
    runner.write_text("")
    runner.chmod(0o666)
    first.write_text(f"#!/bin/sh\n[ -s {runner} ] || {{ echo $PPID > {runner}; sleep 600; }}\n")
    first.chmod(0o755)
    m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until [ -s {runner} ] || ! kill -0 $p; do sleep 0.05; done; kill -9 $(cat {runner}); n=0; "
          f"until [ -s {notes} ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p")
    told = (m.top / "out").read_text()
    t.ok(len(notes.read_text().splitlines()) == 1 and "they are run again" in told, "hooks whose runner was killed are run again", (notes.read_text(), told))


def test_kills(t, unhang):
    """The watch is killed at random moments; what it began, the next one ends."""
    m = Machine(unhang, "kills", HEALTHY + "messages\n" + fault(1000.1))
    moments = random.Random(7)
    script = "".join(f"{m.command()} >>{m.top}/out 2>&1 & p=$!; sleep {moments.uniform(0.02, 0.9):.3f}; kill -9 $p; wait $p; " for _ in range(KILLS))
    m.run(script + f"{m.command('--once')} >>{m.top}/out 2>&1", timeout=120 + 2 * KILLS)
    told = words((m.top / "out").read_text().splitlines())
    t.ok(told.count("opened") <= 1 and told.count("closed") <= 1, "after kills nothing is told twice", str(told))
    found = m.incidents()
    t.same([len(found), found[0]["bundle"]], [1, "taken"], "there is one incident with its bundle")
    good = unhang.run("explain", "--json", m.directory(found[0]) / "bundle.tar.zst")
    # A capture that was killed before it had the log has been packed as it was.
    classes = {i["cause"]["class"] for i in json.loads(good.stdout)["incidents"]}
    t.ok(good.returncode in (0, 1, 2) and classes <= {found[0]["class"]}, "which can be read", good.stdout.decode()[:300])


JOBS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def test_processes(t, unhang):
    """Faults of several processes on one GPU are incidents of their own, each with its name, its bundle and its diagnosis."""
    m = Machine(unhang, "processes", HEALTHY + "messages\n" + faults_of(JOBS[:4], 980, 5.5))
    told = m.once()
    found = m.incidents()
    t.same([words(told).count("opened"), sorted((i["job"], i.get("pid")) for i in found)], [4, sorted((name, 4000 + n) for n, name in enumerate(JOBS[:4]))], "processes: each has its incident, with its own name")
    said = {i["job"]: json.loads((m.directory(i) / "diagnosis.json").read_text())["incidents"][0]["processes"][0]["name"] for i in found}
    t.same(said, {name: name for name in JOBS[:4]}, "and is explained as its own")


def test_absent(t, unhang):
    """Killed at any moment and started again, the watch stores each fault once, with its name, and its hooks hear of each."""
    wrong, moments, twice = [], random.Random(27), 0
    for n in range(ABSENCES):
        m = Machine(unhang, "absent", HEALTHY + "messages\n" + faults_of(JOBS, 1000.2, 0.25))
        m.configure("quiet 3600\ncapture no\nsettle-ms 200\nsilent-hangs no")
        notes = note_hooks(m)
        all_heard = f"[ $(cut -d' ' -f1 {notes} | sort -u | wc -l) -ge {len(JOBS)} ]"
        m.run(f"{m.command()} >>{m.top}/out 2>&1 & p=$!; sleep {moments.uniform(0.02, 3.0):.3f}; kill -9 $p; wait $p; sleep {moments.choice((0, 0, 1.5))}; "
              f"{m.command()} >>{m.top}/out 2>&1 & p=$!; n=0; until {all_heard} || [ $n -gt 300 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p")
        stored, heard = sorted(i["job"] for i in m.incidents()), [line.split() for line in notes.read_text().splitlines()]
        names = {line[0]: line[3] for line in heard}
        twice += len(heard) - len({(line[0], line[1]) for line in heard})
        told = [line.split()[1] for line in (m.top / "out").read_text().splitlines() if line.startswith("incident ") and " opened:" in line]
        if stored != sorted(JOBS) or sorted(names.values()) != sorted(JOBS) or len(told) != len(set(told)):
            wrong.append(f"{n}: stored {stored}, heard {heard}, told {told}")
    t.no_complaints(wrong, f"absent: {ABSENCES} kills with {len(JOBS)} faults each: all are stored, once, and told to hooks ({twice} twice)")
    m = Machine(unhang, "stopped", HEALTHY + "messages\n" + fault(999.5, process="alpha", pid=71) + fault(1003, process="beta", pid=72))
    m.configure("quiet 1\ncapture no")
    first = f"{m.command()} >>{m.top}/out 2>&1 & p=$!; until grep -q closed {m.top}/out; do sleep 0.1; done; kill -TERM $p; wait $p"
    # One that is stopped within 300 ms of a record does not keep its place: it may be amid a message.
    told = m.until(f"[ $(grep -c closed {m.top}/out) -ge 2 ] && grep -q '^sequence 8' {m.top}/state/place", first=f"{first}; sleep 3")
    t.same([words(told), sorted(i["job"] for i in m.incidents())], [["opened", "closed"] * 2, ["alpha", "beta"]], "a fault of another process while no watch ran is told by the next")
    place = dict(line.split(" ") for line in (m.top / "state" / "place").read_text().splitlines())
    t.same(place["sequence"], "8", "the place up to which all is stored is kept")
    shutil.rmtree(m.directory(m.incidents()[0]))
    t.same([words(m.until("sleep 2")[len(told):]), len(m.incidents())], [[], 1], "and what was stored before it, and removed since, does not come back")


def test_astray(t, unhang):
    """A place that is none of this log's does not make the watch deaf: ahead of it, or of another time."""
    for name, sequence, microseconds in (("ahead", 999999, 99999000000), ("of another time", 2, 999999000)):
        m = Machine(unhang, "astray", HEALTHY + "messages\n" + fault(999.5))
        m.configure("quiet 1\ncapture no")
        (m.top / "state").mkdir(parents=True, exist_ok=True)
        told = m.until(f"grep -q closed {m.top}/out",
                       first=f"printf 'boot %s\\nsequence {sequence}\\nmicroseconds {microseconds}\\n' $(cat /proc/sys/kernel/random/boot_id) > {m.top}/state/place")
        t.same([words(told), any("none of this log's" in line for line in told)], [["opened", "closed"], True], f"a place {name}: the log is read, and it is told")


def test_cut_capture(t, unhang):
    """A watch that is killed in the middle of a capture: the next one takes another, explains it, and keeps what there was."""
    m = Machine(unhang, "cut", HEALTHY + "messages\n" + fault(999.5))
    notes, hook = m.top / "notes", m.top / "hooks" / "10-note"
    hook.write_text(f"#!/bin/sh\necho $UNHANG_STATE $(wc -c) >>{notes}\n")
    hook.chmod(0o755)
    notes.write_text("")
    notes.chmod(0o666)
    let_in(m.top)
    killed = (f"{m.command()} >{m.top}/first 2>&1 & p=$!; n=0; until ls -d {m.top}/state/incidents/*/bundle.tar.zst.partial >/dev/null 2>&1 || [ $n -gt 4000 ]; "
              f"do sleep 0.01; n=$((n+1)); done; kill -9 $p; wait $p")
    m.until(f"grep -q closed {notes}", first=killed)
    directory = m.directory(m.incidents()[0])
    manifest = json.loads(subprocess.run(["tar", "-xOf", directory / "bundle.tar.zst", "manifest.json"], capture_output=True).stdout or b"{}")
    heard = [line.split() for line in notes.read_text().splitlines()]
    t.same([manifest.get("state"), (directory / "diagnosis.json").exists()], ["complete", True], "the bundle is a whole one, and explained")
    t.ok(heard and all(int(size) > 0 for state, size in heard if state == "closed"), "hooks get the diagnosis", heard)
    left = sorted(p.name for p in directory.glob("*.partial"))
    t.same(left, [], "and nothing is left half done")


def test_unreadable(t, unhang):
    """A record that cannot be read is no all-clear."""
    m = Machine(unhang, "unreadable", HEALTHY + "messages\n" + fault(999.5))
    m.once()
    record = m.directory(m.incidents()[0]) / "incident"
    record.write_bytes(bytes(500))
    run = unhang.run("incidents", "--state-dir", m.top / "state")
    t.same([run.returncode, str(record).encode() in run.stderr, b"No incident" in run.stdout], [2, True, False], "it is named, and the status says so")


def test_just_killed(t, unhang):
    """A child of a watch that was killed may hold its lock for a moment."""
    m = Machine(unhang, "just-killed", HEALTHY + "messages\n" + fault(999.5))
    m.once()
    holds = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(0.5)"
    run = m.run(f"'{sys.executable}' -c '{holds}' {m.top}/state/.lock | {{ read line; {m.command('--once')}; }}")
    t.same([run.returncode, run.stderr], [0, b""], "a watch waits a moment for the lock of one that was just killed")


BOOTS = ["%032x" % n for n in (0x1111, 0x2222)]
DAY = 86_400_000_000


def dashed(boot):
    return "-".join((boot[:8], boot[8:12], boot[12:16], boot[16:20], boot[20:]))


def journal_of(m, records):
    """A journal of (boot, day that it began, lines as of fault(), transport), and what puts it where the emulated machine has it."""
    text, number = b"", 0
    for boot, day, lines, transport in records:
        for line in lines.splitlines():
            seconds, _, message = line.strip().split(" ", 2)
            number += 1
            text += journals.export(journals.fields(number, boot, day * DAY, round(float(seconds) * 1e6), message, transport))
    journals.write(m.top / "journal", text)
    return f"ln -s {m.top}/journal /var/log/journal/$(cat /etc/machine-id)"


def test_overwritten(t, unhang):
    """What the kernel overwrote while no watch ran is read from the journal, and where that lacks it, this is told."""
    if not (os.path.exists(journals.REMOTE) and os.path.isdir("/var/log/journal") and os.path.exists("/etc/machine-id")):
        t.skip("what was overwritten", "there is no systemd-journal-remote, or no journal")
        return
    here = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    lines = {name: fault(seconds, process=name, pid=pid) for name, seconds, pid in
             (("alpha", 890, 71), ("beta", 940, 72), ("gamma", 980, 73), ("mallory", 945, 74), ("mallet", 946, 75))}
    forged = [(here, 20000, lines["mallory"], "daemon"), (here, 20000, lines["mallet"], "stdout")]
    all_of_it = [(here, 20000, lines[name], "kernel") for name in ("alpha", "beta", "gamma")] + forged
    lacks_one = [(here, 20000, lines["alpha"] + "".join(lines["beta"].splitlines(True)[:-1]), "kernel")]
    for name, records, stored, overruns in (("all", all_of_it, ["alpha", "beta", "gamma"], 0), ("some", lacks_one, ["alpha", "beta", "gamma"], 1),
                                            ("no", None, ["alpha", "gamma"], 1), ("damaged", all_of_it, None, 1)):
        m = Machine(unhang, "overwritten", HEALTHY + "messages\n" + lines["alpha"])
        notes = note_hooks(m)
        m.once()
        m.scenario.write_text("scenario\n    overwritten 8\n" + HEALTHY + "messages\n" + lines["gamma"])
        first = journal_of(m, records) if records else ":"
        if name == "damaged":
            (m.top / "journal" / "system.journal").write_bytes((m.top / "journal" / "system.journal").read_bytes()[:70000])
        told = m.run(f"{first}; {m.command('--once')}").stdout.decode()
        again = m.run(f"{first}; {m.command('--once')}").stdout.decode()
        found = sorted(i["job"] for i in m.incidents())
        t.ok(found == stored or (not stored and {"alpha", "gamma"} <= set(found)), f"overwritten, {name} in the journal: each fault is stored once, with its name", str(found))
        heard = {line.split()[3] for line in notes.read_text().splitlines() if line.split()[2] == "open"}
        t.same(heard, set(found), "and told to hooks")
        t.same([told.count("overwrote"), again.count("overwrote")], [overruns, 0], "and it is said once where some are lost")
        m.scenario.write_text("scenario\n    overwritten 16\n" + HEALTHY + "messages\n" + fault(990, process="delta", pid=76))
        m.run(m.command("--once"))
        t.same(m.state()["log_overruns"], 1, "state.json counts it")


def test_boots(t, unhang):
    """What the kernel wrote in earlier boots, after the watch had ended, is read from the journal."""
    if not (os.path.exists(journals.REMOTE) and os.path.isdir("/var/log/journal") and os.path.exists("/etc/machine-id")):
        t.skip("earlier boots", "there is no systemd-journal-remote, or no journal")
        return
    m = Machine(unhang, "boots", HEALTHY + "messages\n" + fault(980, process="delta", pid=84))
    notes = note_hooks(m)
    (m.top / "state").mkdir()
    old = f"boot {dashed(BOOTS[0])}\nsequence 4\nmicroseconds 890000300\n"
    (m.top / "state" / "place").write_text(old)
    records = [(BOOTS[0], 20000, fault(890, process="alpha", pid=81) + fault(940, process="beta", pid=82), "kernel"), (BOOTS[1], 20001, fault(20, process="gamma", pid=83), "kernel"),
               (pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""), 20002, fault(980, process="delta", pid=84), "kernel")]
    first = journal_of(m, records)
    told = m.run(f"{first}; {m.command('--once')}").stdout.decode().splitlines()
    found = {i["job"]: i for i in m.incidents()}
    t.same([sorted(found), len(m.incidents()), words(told).count("opened")], [["beta", "delta", "gamma"], 3, 3], "boots: what came behind the place is stored once, in each boot")
    t.same([found[name]["boot_id"] for name in ("beta", "gamma") if name in found], [dashed(boot) for boot in BOOTS], "under its boot")
    t.same([found[name]["began"][:16] for name in ("beta", "gamma") if name in found], ["2024-10-04T00:15", "2024-10-05T00:00"], "at its time")
    t.same([[found[name]["state"], found[name].get("closed_by")] for name in ("beta", "gamma") if name in found], [["closed", "the machine was started again"]] * 2, "and is over")
    heard = sorted((line.split()[3], line.split()[2]) for line in notes.read_text().splitlines())
    t.ok({(name, state) for name in ("beta", "gamma") for state in ("open", "closed")} | {("delta", "open")} <= set(heard), "hooks hear of it", str(heard))
    for place in (None, old):  # the second: it was killed before it wrote how far it had come
        if place:
            (m.top / "state" / "place").write_text(place)
        told = m.run(f"{first}; {m.command('--once')}").stdout.decode().splitlines()
        t.same([words(told), len(m.incidents())], [[], 3], "and it does not come again")


def test_hooks_again(t, unhang):
    """A watch that is killed while a hook runs has it run again, with the same revision."""
    m = Machine(unhang, "hooks-again", HEALTHY + "messages\n" + fault(999.5))
    m.configure("quiet 3600\ncapture no")
    notes = note_hooks(m)
    hook = m.top / "hooks" / "10-note"
    hook.write_text(hook.read_text() + "sleep 2\n")
    m.run(f"for i in 1 2; do {m.command()} >>{m.top}/out 2>&1 & p=$!; until [ $(wc -l <{notes}) -ge $i ]; do sleep 0.1; done; [ $i = 2 ] && sleep 3; kill -9 $p; wait $p; done; {m.command('--once')}")
    heard = notes.read_text().splitlines()
    t.ok(len(heard) == 2 and len(set(heard)) == 1, "hooks again: a hook that was killed runs again, and not a third time", heard)


def test_full_disk(t, unhang, failing):
    """From the Nth write on the disk is full: that is told, what is stored stays, and the next run stores what could not be."""
    if tap.is_sanitized(unhang.binary):
        t.skip("a disk that is full", "the sanitizer wants to be loaded first")
        return
    m = Machine(unhang, "full-disk", HEALTHY + "messages\n" + fault(999.5))
    m.configure("quiet 1\ncapture no")
    places = "for n in $(seq 1 8)"
    own = m.command("--once").replace(f"'{m.top}/state'", f"'{m.top}'/$n")
    m.run(f"{places}; do LD_PRELOAD={failing} FAIL_AT=$n {own} >{m.top}/full.$n 2>&1; {own} >{m.top}/after.$n 2>&1; {own} >{m.top}/again.$n 2>&1; done")
    said = {n: (m.top / f"full.{n}").read_text().splitlines() for n in range(1, 9)}
    wrong = [f"{n}: {lines}" for n, lines in said.items() if "opened" not in words(lines)]
    t.no_complaints(wrong, "full disk: the incident is told, whichever write is the first that fails")
    t.ok(sum("No space left" in line for line in said[1]) >= 1 and said[1][-1] != "", "and that the disk is full", said[1])
    wrong = [f"{n}: {[p.name for p in (m.top / str(n)).rglob('*')]}" for n in range(1, 9) if len(list((m.top / str(n)).glob("incidents/*/incident"))) != 1 or list((m.top / str(n)).rglob("*unhang-new*"))]
    t.no_complaints(wrong, "the next run stores it, once and whole")
    again = [words((m.top / f"again.{n}").read_text().splitlines()) for n in range(1, 9)]
    t.ok(all(a in ([], ["closed"]) for a in again), "and then nothing is told again, but at most its end", again)


def test_rights(t, unhang):
    """What reads the bytes of others has no rights. If it crashes there is another, which tells nothing twice."""
    m = Machine(unhang, "rights", HEALTHY + "messages\n" + fault(999.5))
    m.configure("quiet 3600\ncapture no")
    judge, gone = "pgrep -x unhang-judge", f"grep -q opened {m.top}/out && [ -n \"$({'pgrep -x unhang-judge'})\" ]"
    script = (f"{m.command()} >>{m.top}/out 2>&1 & p=$!; until {gone}; do sleep 0.1; done; ps -o user= -p $({judge}); ps -o user= -p $p; "
              f"grep -E 'Seccomp:|NoNewPrivs:|CapEff:' /proc/$({judge})/status; old=$({judge}); kill -9 $old; "
              f"until [ -n \"$({judge})\" ] && [ \"$({judge})\" != $old ]; do sleep 0.1; done; sleep 2; kill -TERM $p; wait $p; echo status $?")
    lines = m.run(script).stdout.decode().split("\n")
    if os.getuid() == 0:
        t.same([line.strip() for line in lines[:2]], ["65533", "root"], "rights: what parses is no one; what starts children is root")
        t.same([line.split()[1] for line in lines[2:5]], ["0000000000000000", "1", "2"], "it has no capability, and a filter of system calls")
    t.same([words((m.top / "out").read_text().splitlines()), lines[-2]], [["opened"], "status 0"], "one that is killed is replaced, and nothing is told twice")


def test_left_behind(t, unhang):
    """A hook that leaves a process running, in a session of its own, does not hold up what comes next."""
    m = Machine(unhang, "left", HEALTHY + "messages\n" + fault(999.5))
    let_in(m.top)
    hook = m.top / "hooks" / "10-leaves"
    hook.write_text("#!/bin/sh\nsetsid sleep 45 >/dev/null 2>&1 &\n")
    hook.chmod(0o755)
    m.configure("quiet 1\ncapture no")
    told = m.until(f"grep -q closed {m.top}/out || [ $n -gt 200 ]")
    t.same(words(told), ["opened", "closed"], "left behind: what a hook leaves running does not stop the watch")


def test_stopped(t, unhang):
    """Who stops the judge does not hold up the watch: it ends nevertheless when it is to. They cannot look into it."""
    m = Machine(unhang, "stopped", HEALTHY)
    judge = "$(pgrep -P $p -x unhang-judge)"
    said = m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until [ -s {m.top}/run/state.json ]; do sleep 0.1; done; stat -c %U /proc/{judge}/environ; kill -STOP {judge}; "
                 f"(sleep 40; kill -9 $p) >/dev/null 2>&1 & k=$!; kill -TERM $p; wait $p; echo status $?; kill $k").stdout.decode().splitlines()
    t.same(said[1:], ["status 0"], "stopped: SIGTERM ends a watch whose judge is stopped")
    if os.getuid() == 0:
        t.same(said[:1], ["root"], "and nobody's other processes do not look into it")


def test_stopped_eye(t, unhang):
    """Who stops the reader of the log silences the watch for a minute, not for good."""
    m = Machine(unhang, "stopped-reader", HEALTHY + "messages\n" + fault(1003))
    m.configure("quiet 3600\ncapture no")
    m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until [ -s {m.top}/run/state.json ]; do sleep 0.1; done; kill -STOP $(pgrep -P $p -x unhang-kmsg); n=0; "
          f"until grep -q opened {m.top}/out || [ $n -gt 1800 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p")
    t.same(words((m.top / "out").read_text().splitlines()), ["opened"], "a reader of the log that is stopped is replaced, and what came meanwhile is told")


def test_stopped_pulse(t, unhang):
    """Who stops the process that counts progress, while nobody computes, is noticed too."""
    m = Machine(unhang, "stopped-pulse", HEALTHY)
    m.configure("quiet 3600")
    m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until pgrep -P $p -x unhang-pulse; do sleep 0.1; done; sleep 1; kill -STOP $(pgrep -P $p -x unhang-pulse); n=0; "
          f"until grep -q 'counted again' {m.top}/out || [ $n -gt 900 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p")
    told = (m.top / "out").read_text()
    t.ok("progress does not answer" in told and "counted again" in told, "a pulse that is stopped while nobody computes is replaced, and that is told", told)


def test_deaf(t, unhang):
    """Its reader of the log dies, or cannot read it for a while: that is told, and what is written meanwhile is read afterwards."""
    m = Machine(unhang, "deaf", HEALTHY + "messages\n" + fault(1003))
    m.configure("quiet 3600\ncapture no")
    state, reader = f"{m.top}/run/state.json", "pgrep -P $p -x unhang-kmsg"
    said = m.run(f"{m.command()} >{m.top}/out 2>&1 & p=$!; until [ -s {state} ]; do sleep 0.1; done; old=$({reader}); kill -9 $old; n=0; until grep -q 'log has ended' {state} || [ $n -gt 100 ]; do sleep 0.1; n=$((n+1)); done; "
                 f"'{unhang.binary}' incidents --state-dir {m.top}/state --run-dir {m.top}/run; n=0; until grep -q opened {m.top}/out || [ $n -gt 300 ]; do sleep 0.1; n=$((n+1)); done; "
                 f"cp {state} {m.top}/again; kill -TERM $p; wait $p").stdout.decode()
    told = (m.top / "out").read_text().splitlines()
    t.ok("does not read the kernel's log. The process that reads the kernel's log has ended" in " ".join(said.split()), "a reader of the log that was killed is told by unhang incidents", said)
    t.same([words(told), any("log has ended" in line for line in told), any("is read again" in line for line in told)], [["opened"], True, True], "in the journal, and there is another, which reads on")
    again = json.loads((m.top / "again").read_text())
    t.ok(again["log_unread"] is None and again["valid_until"] > again["written"], "then the log is read again, and the state is valid for a while", again)
    t.ok(m.state()["valid_until"] == m.state()["written"], "but not once the watch has ended", m.state())
    after = unhang.run("incidents", "--state-dir", m.top / "state", "--run-dir", m.top / "run")
    t.ok(after.stdout.startswith(b"No unhang watch runs."), "which unhang incidents says", after.stdout.decode())
    emulated.document(t, unhang.run("incidents", "--json", "--state-dir", m.top / "state", "--run-dir", m.top / "run"), "incidents", "and its JSON, in the form of its schema")
    if ALL:
        test_stopped_eye(t, unhang)
        test_stopped_pulse(t, unhang)
    m = Machine(unhang, "deaf-for-a-while", HEALTHY.rstrip() + "\n    file kmsg from 2 fails EIO\n    file kmsg from 5 answers\nmessages\n" + fault(1003))
    m.configure("quiet 3600\ncapture no")
    told = m.until(f"grep -q opened {m.top}/out")
    t.ok(words(told) == ["opened"] and any("/dev/kmsg: Input/output error" in line for line in told), "an error of the log does not end reading it", told)


# A journal that hears on the usual socket, and is restarted when it gets SIGUSR1.
JOURNAL = """
import os, signal, socket, sys
def hear(*_):
    global s
    if os.path.exists(PATH):
        os.unlink(PATH)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(PATH)
    os.chmod(PATH, 0o666)
    s.settimeout(0.1)
    open(sys.argv[1], "a").write("JOURNAL\\n")
PATH = "/run/systemd/journal/socket"
os.makedirs(os.path.dirname(PATH))
hear()
signal.signal(signal.SIGUSR1, hear)
while True:
    try:
        text = s.recv(65536).decode()
    except OSError:
        continue
    open(sys.argv[1], "a").write(text)
"""


def test_journal(t, unhang):
    m = Machine(unhang, "journal", HEALTHY + "messages\n" + fault(1003))
    m.configure("quiet 3600\ncapture no")
    (m.top / "journal.py").write_text(JOURNAL)
    heard = m.top / "heard"
    m.run(f"mount -t tmpfs none /run; python3 {m.top}/journal.py {heard} & j=$!; until grep -q JOURNAL {heard}; do sleep 0.1; done; JOURNAL_STREAM=1:1 {m.command()} >{m.top}/out 2>&1 & p=$!; "
          f"until grep -q 'MESSAGE=Watching' {heard}; do sleep 0.1; done; kill -USR1 $j; n=0; until grep -q UNHANG_CHANGE=opened {heard} || [ $n -gt 150 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p; kill $j")
    t.ok("UNHANG_CHANGE=opened" in heard.read_text(), "a journal that was restarted hears of the next incident", heard.read_text() + (m.top / "out").read_text())


def test_bad_places(t, unhang):
    m = Machine(unhang, "full", HEALTHY + "messages\n" + fault(999.5))
    m.options[1] = "/proc/nowhere"
    refused = m.run(m.command())
    t.same([refused.returncode, b"/proc/nowhere" in refused.stderr], [2, True], "a place that cannot be made is refused")
    place, notes = m.top / "full", m.top / "notes"
    place.mkdir()
    m.options[1] = place
    hook = m.top / "hooks" / "10-note"
    hook.write_text(f"#!/bin/sh\necho $UNHANG_STATE >>{notes}\n")
    hook.chmod(0o755)
    notes.write_text("")
    notes.chmod(0o666)
    let_in(m.top)
    told = m.until(f"grep -q closed {notes}", first=f"mount -t tmpfs -o size=4k none {place}; dd if=/dev/zero of={place}/all bs=4k count=1 2>/dev/null")
    t.same([words(told), notes.read_text().split(), told[-1]], [["opened", "explained", "closed"], ["open", "closed"], "status 0"], "where nothing can be stored, it is told all the same, to hooks too")
    t.same(sum("No space left" in line for line in told), 1, "and that it could not be stored, once")
    second = m.run(f"rm -f {m.top}/run/state.json; {m.command()} >/dev/null 2>&1 & p=$!; until [ -s {m.top}/run/state.json ]; do sleep 0.1; done; {m.command('--once')}; echo status $?; kill $p; wait $p", timeout=60)
    t.ok(second.stdout.endswith(b"status 2\n") and b"another unhang watch" in second.stderr, "a second watch of the same place is refused", second.stdout + second.stderr)
    m = Machine(unhang, "no-log", HEALTHY.rstrip() + "\n    file kmsg fails EPERM\n")
    told = m.once()
    t.ok(any("/dev/kmsg" in line for line in told) and m.state()["log_unread"], "a log that may not be read is told", str(told))


def escaped(text):
    """As /dev/kmsg has it."""
    return text.replace("\n", "\\x0a")


def test_forged(t, unhang):
    """What users make the kernel print opens nothing; what the driver prints does, and without its device is not the node's fault."""
    level = {"kernel": "err", "daemon": "daemon.err"}
    forged = "".join(f"    {900 + n * 0.001:.3f} {level[writer]} {escaped(text)}\n" for n, (_, writer, text) in enumerate(kernel_lines.FORGED))
    m = Machine(unhang, "forged", f"{HEALTHY}\nmessages\n{forged}")
    t.same([words(m.once()), m.incidents()], [[], []], f"{len(kernel_lines.FORGED)} lines that users can have the kernel print open nothing")
    unattested, lost = "[drm:amdgpu_device_ip_init [amdgpu]] *ERROR* hw_init of IP block <psp> failed -22", kernel_lines.LOST
    for text, wanted in (lost, ["gpu-off-bus", "node"]), (unattested, ["gpu-init-failed", "unknown"]):
        m = Machine(unhang, "true", f"{HEALTHY}\nmessages\n{forged}    950 err {text}\n")
        told = words(m.once())
        t.same([told[:2], [[i["class"], i["fault"]] for i in m.incidents()]], [["opened", "explained"], [wanted]], f"among them: {text}")
        record = m.incidents()[0]
        later = json.loads(unhang.run("explain", "--json", m.directory(record) / "bundle.tar.zst").stdout)["incidents"][0]
        t.same([later["cause"]["class"], later["action"]["fault"]], wanted, "and so says its bundle")


def kfd_tells(unhang, serving, name, text, log=""):
    """A machine whose KFD tells @text, behind what its log tells; and what was asked of it. (None, []): that cannot be made here."""
    m = Machine(unhang, name, f"{HEALTHY}\nprocess train\n    vram 0000:03:00.0 1G\n" + ("messages\n" + log if log else ""))
    m.configure("quiet 30\nkfd-events yes")
    (m.top / "text").write_text(text)
    out, told = f"{m.top}/out", f"grep -q explained {m.top}/out"
    wait = "n=0; until {0} || [ $n -gt 200 ]; do sleep 0.1; n=$((n+1)); done"
    script = (f"export UNHANG_CONTAINER=no; mount --bind /dev/null /dev/kfd; {serving} {m.top}/text {m.top}/go {m.top}/asked {m.command()} >{out} 2>&1 & p=$!; "
              + wait.format(f"grep -q mask {m.top}/asked || ! kill -0 $p") + "; " + (wait.format(told) + "; " if log else "") + f"touch {m.top}/go; "
              + wait.format(f"grep -q sent {m.top}/asked && {told} || ! kill -0 $p") + f"; for q in $(pgrep -x unhang-kfd); do ls -l /proc/$q/fd | grep -c /dev/null; done >{m.top}/held; "
              f"mkdir {m.top}/nobody; mount --bind {m.top}/nobody /sys/class/kfd/kfd/proc; " + wait.format(f"grep -q closed {m.top}/asked || ! kill -0 $p") + "; " + wait.format("[ $(pgrep -cx unhang-kfd) = 1 ] || ! kill -0 $p") + f"; pgrep -cx unhang-kfd >>{m.top}/held; "
              f"kill -TERM $(pgrep -P $p -x unhang); wait $p; echo status $?")
    run = m.run(script)
    return (None, []) if b"status 77" in run.stdout else (m, (m.top / "asked").read_text().splitlines())


KFD_LINES = ("1 2:train\n", "3 1 job hang on ring:gfx_0.0.0\n")
# A thread may have a newline in its name, and so write a line of its own.
KFD_FORGED = "1 2:x\n3 1 RAS\n"


def test_kfd(t, unhang, serving):
    """KFD's own events: a second way to hear of faults and resets."""
    m, asked = kfd_tells(unhang, serving, "kfd", KFD_LINES[0])
    if os.getuid() != 0 or not m:
        t.skip("KFD's events", "system calls of others cannot be answered here")
        return
    t.same([len(asked), asked[1:]], [4, ["mask 8000000000000005", "sent", "closed"]], "KFD is asked for faults and resets of all processes, and let go when nobody computes")
    t.same([[i["class"], i["origin"], i["job"]] for i in m.incidents()], [["gpu-page-fault-unmapped", "kfd", "train"]], "a fault that no line of the log tells of is an incident")
    record = m.incidents()[0]
    later = json.loads(unhang.run("explain", "--json", m.directory(record) / "bundle.tar.zst").stdout)["incidents"]
    t.same([i["cause"]["class"] for i in later], ["gpu-page-fault-unmapped"], "and so says its bundle")
    t.same((m.top / "held").read_text().split(), ["0", "0", "1"], "/dev/kfd is not held open, and who asked ends when nobody computes any more")
    m, _ = kfd_tells(unhang, serving, "kfd-reset", KFD_LINES[1])
    t.same([[i["class"], i["origin"]] for i in m.incidents()], [["gpu-reset-unexplained", "kfd"]], "so is a reset")
    m, _ = kfd_tells(unhang, serving, "kfd-ras", "3 1 RAS error\n")
    t.same([[i["class"], i["origin"], i["action"], i["fault"]] for i in m.incidents()], [["ras-uncorrectable-error", "kfd", "power-cycle", "node"]], "a reset that KFD says to be for a hardware error (GPU_PRE_RESET)")
    m, _ = kfd_tells(unhang, serving, "kfd-both", KFD_LINES[0] * 3, log=fault(1001, process="train", pid=2))
    t.same([[i["origin"], i["title"]] for i in m.incidents()], [["log", "A shader of train (2) used unmapped memory: read of 0x7f3a00001000"]], "what both tell is one incident, once")
    m, _ = kfd_tells(unhang, serving, "kfd-forged", KFD_FORGED)
    t.same([[i["class"], i["pid"]] for i in m.incidents()], [["gpu-page-fault-unmapped", 2]], "a line in the name of a thread tells nothing")


def test_configuration(t, unhang):
    def check(path):
        run = unhang.run("watch", "--check-config", "--config", path)
        return run.returncode, (run.stdout + run.stderr).decode()
    own = pathlib.Path(unhang.directory) / "own.conf"
    shipped = (DATA / "watch.conf").read_text()
    own.write_text(shipped)
    t.same(check(own), (0, "The configuration is right.\n"), "the configuration that is shipped is right")
    options = [line[1:] for line in shipped.splitlines() if line.startswith("#") and not line.startswith("# ")and len(line) > 1]
    own.write_text("\n".join(options) + "\n")
    t.same(check(own)[0], 0, "so is each of its options")
    keys = {line.split()[0] for line in options}
    source = (tap.HERE / ".." / "src" / "watch" / "settings.c").read_text()
    known = {line.split('"')[1] for line in source.splitlines() if line.strip().startswith('{ "') and "SETTING_" in line}
    t.same(sorted(keys), sorted(known), "it has every option that there is")
    usual = dict(re.findall(r"^\t\.(\w+) = \"?([^\",]+)", source, re.M))
    absent = {"YES": "false", "NUMBER": "0"}
    defaults = [f"{key} {usual.get(field, absent.get(kind))}" for key, kind, field in re.findall(r'{ "([a-z-]+)", SETTING_(\w+), offsetof\(struct watch_settings, (\w+)\)', source)]
    options = [option for option in options if f"{option.split()[0]} None" not in defaults]  # nowhere, unless it is set
    t.same(sorted(d.replace(" true", " yes").replace(" false", " no") for d in defaults if not d.endswith(" None")), sorted(options), "and says what counts without it")
    documented = re.findall(r"^\| `([a-z-]+)` \| `(\S+)` \| ", (tap.HERE / ".." / "docs" / "WATCH.md").read_text(), re.M)
    t.same([f"{key} {value}" for key, value in sorted(documented)], sorted(options), "the manual lists every option with its default")
    own.write_text("quiet -3\nfoo 1\n")
    status, text = check(own)
    t.ok(status == 2 and "own.conf:1: quiet: it needs a number from 1 to 86400\n" in text and "own.conf:2: there is no option 'foo'" in text, "mistakes are told with their lines", text)
    own.write_text("")
    more = pathlib.Path(f"{own}.d")
    more.mkdir(exist_ok=True)
    (more / "10-a.conf").write_text("bar 1\n")
    t.ok("10-a.conf:1" in check(own)[1], "files of conf.d are read too")
    t.same(check(own.with_name("missing.conf"))[0], 2, "a file that was named must be there")


def test_unit(t, unhang):
    analyze = shutil.which("systemd-analyze")
    unit = pathlib.Path(unhang.directory) / "unhang-watch.service"
    unit.write_text((DATA / "unhang-watch.service").read_text().replace("@bindir@", "/usr/bin"))
    if analyze:
        run = subprocess.run([analyze, "security", "--offline=true", "--threshold=40", "--no-pager", unit], capture_output=True, text=True, timeout=60)
        t.ok(run.returncode == 0, "the unit's exposure is at most 4.0", run.stdout[-300:] + run.stderr[-300:])
    else:
        t.skip("the unit's exposure is at most 4.0", "there is no systemd-analyze")
    message = (tap.HERE / ".." / "src" / "watch" / "tell.h").read_text().split('WATCH_MESSAGE_ID "')[1][:32]
    t.ok((DATA / "unhang.catalog").read_text().startswith(f"-- {message}\n"), "the catalog has the message's id")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    unhang.environment["ROOM"] = "x" * 200  # for those of the scenarios' processes, which are written over it
    test_configuration(t, unhang)
    test_unit(t, unhang)
    if not emulated.possible(unhang):
        t.skip("unhang watch on emulated machines", "this machine can make none")
        t.end()
    for test in (test_once, test_quiet_machine, test_all_clear, test_closed, test_as_it_happens, test_storm, test_quota, test_flood, test_places, test_second, test_explained_again, test_helper_killed, test_hooks_killed, test_forged, test_kills, test_processes, test_absent, test_astray, test_cut_capture, test_unreadable, test_just_killed, test_overwritten, test_boots, test_hooks_again, test_rights, test_left_behind, test_stopped, test_deaf, test_journal, test_bad_places):
        test(t, unhang)
    test_silent(t, unhang, os.path.abspath(sys.argv[3]))
    test_full_disk(t, unhang, os.path.abspath(sys.argv[2]))
    test_kfd(t, unhang, os.path.abspath(sys.argv[4]))
    t.end()


main()
