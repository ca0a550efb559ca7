#!/usr/bin/env python3
"""unhang run around HIP programs on ROCm's own runtime, over the KFD without silicon (kfd.py): how they end, what is saved, what follows."""
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import emulated
import job
import kfd
import tap

OPEN = "gpu gfx90a"
FAULT = "gpu gfx90a; fault kernel fill launch 7 at argument 0 plus 8K"  # just past its buffer, wherever that lies
HANG = "gpu gfx90a; hang kernel saxpy launch 4"


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


class GpuJob(job.Job):
    def __init__(self, unhang, programs):
        super().__init__(unhang)
        self.programs = programs
        # Its own name: what other tests run at the same time is not what a job left.
        programs.program = programs.program.rename(programs.program.with_name(f"job-{os.getpid()}"))
        # Not where others look for recordings of the machine: their tests run at the same time.
        self.room = tempfile.TemporaryDirectory(prefix="job-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.unhang.environment.update(programs.environment(OPEN), UNHANG_RECORDING=f"{self.room.name}/%p.recording")
        self.place = unhang.directory / "place"  # where jobs run: nobody writes there
        self.place.mkdir()
        self.before = self.look()

    def look(self):
        """What a run may leave: processes, zombies among them, mounts, files, control groups."""
        names = {p.parent.name: text for p in pathlib.Path("/proc").glob("[0-9]*/stat") if (text := read(p))}
        mounts = [line.split() for line in read("/proc/self/mountinfo").splitlines()]
        ids = [p.name for p in self.unhang.directory.glob("runs*/*")]
        groups = [f"{at}/{g}" for m in mounts if m[m.index("-") + 1] == "cgroup2" for at, names, _ in os.walk(m[4]) for g in names if g.startswith("unhang-") and any(g.startswith(f"unhang-{i}-") for i in ids)]
        return {"processes": [p for p, text in names.items() if f"({self.programs.program.name})" in text], "mounts": [m[2:5] for m in mounts],
                "files": os.listdir(self.place) + os.listdir(self.room.name), "groups": groups}

    def check(self, t, name):
        """Nothing is left of what ran since the last one."""
        now = self.look()
        t.same({k: [x for x in now[k] if x not in self.before[k]] for k in now}, {k: [] for k in now}, f"{name}: nothing is left")

    def go(self, plan, command, *options, **env):
        """@plan: for each try one, the last for all that follow; @command: of a shell, in which P is the program."""
        plans = [plan] if isinstance(plan, str) else plan
        count = self.unhang.directory / f"count{self.n + 1}"
        choose = f"P={self.programs.program}; echo x >> {count}; case $(wc -l < {count}) in "
        choose += "".join(f"{i}) UNHANG_KFD='{p}' ;; " for i, p in enumerate(plans[:-1], 1)) + f"*) UNHANG_KFD='{plans[-1]}' ;; esac; export UNHANG_KFD; "
        done = self.run(job.shell(choose + command), "--delay", "0", *options, env=env, cwd=self.place)
        done.tries = done.report["tries"]
        return done


def rows(done, *keys):
    found = [tuple(x["decision"] and x["decision"][k[2:]] if k.startswith("d.") else x[k] for k in keys) for x in done.tries]
    return found if len(keys) > 1 else [x[0] for x in found]


def test_ends_well(t, j):
    done = j.go(OPEN, "exec $P series 5")
    t.same((done.returncode, done.stdout, done.stderr, rows(done, "ended")), (0, b"launched\nseries 5\n", b"", ["done"]), "a job that ends well: not a word")
    t.ok(done.tries[0]["packets"] >= 10 and done.tries[0]["recordings"] == 1 and not done.report["wrong"], "and was recorded", done.tries[0])
    done = j.go(OPEN, "exec $P places")
    t.ok(done.returncode == 0 and rows(done, "ended") == ["no-launch"] and b"launched nothing on a GPU" in done.stderr, "one that launched nothing is told so", done.stderr)


def test_deterministic(t, j):
    done = j.go(FAULT, "exec $P series 20", "--restart", 5)
    t.same((done.returncode, rows(done, "ended", "level", "kernel", "launch", "d.row", "d.do")),
           (134, [("gpu-fault", 1, "fill(float*, float, int)", 7, "gpu-fault-first", "restart"), ("gpu-fault", 3, "fill(float*, float, int)", 7, "deterministic", "stop")]),
           "a fault at the same launch: once more with arguments, then it stops")
    said = done.stderr
    t.ok(b"the fault is deterministic" in said and done.tries[1]["filter"] == "_Z4fillPffi" and not done.report["wrong"], "and says why", said)
    t.same(rows(done, "class", "fault"), [("gpu-page-fault-unmapped", "job")] * 2, "with its diagnosis")
    t.same([p.name for p in pathlib.Path(done.report["directory"]).rglob("*core*") if not p.name.endswith(".light")], [], "cores were explained, and are gone")
    bundles = [pathlib.Path(x["bundle"]) for x in done.tries]
    answers = [j.unhang.explain(b) for b in bundles]
    t.same([a.classes[:1] for a in answers], [["gpu-page-fault-unmapped"]] * 2, "its bundles can be explained")
    # The fault held the process, so its maps and stacks are there; a machine that is too busy for the five seconds of a hold says so.
    saved = [subprocess.run(["tar", "-xOf", b, "answers/processes"], capture_output=True).stdout for b in bundles]
    held = [j.programs.program.name.encode() in s or "were gone before" in (x["lacking"] or "") for s, x in zip(saved, done.tries)]
    t.same(held, [True, True], "which were taken while the process existed")
    arguments = [any(e.get("event") for e in a.first.timeline) and a.first.value("arguments") for a in answers]
    t.ok(not arguments[0] and arguments[1], "the second knows more", arguments)


def test_freed(t, j):
    """Memory that was freed: not an index that is out of range."""
    done = j.go(OPEN, "exec $P read-freed")
    found = j.unhang.explain(done.tries[0]["bundle"]).first
    shown = [r["id"] for r in found.data["remedies"] if r["shown"]]
    t.ok("used memory that was freed" in done.tries[0]["title"] and "keep-until-done" in shown and "check-bounds" not in shown, "use after free has its own cause and remedy", (done.tries[0]["title"], shown))


def test_kinds(t, j):
    """Other launches of a kernel, then another kernel; then the same fault again, which --on-repeat ends. At level 5 the runtime's read index runs ahead of the
    GPU; the recorder's marks tell which kernel it was, also of those that are not held back."""
    plans = [f"gpu gfx90a; fault kernel {kernel} launch {n} at argument 0 plus 8K" for kernel, n in (("fill", 3), ("fill", 4), ("saxpy", 3), ("saxpy", 4), ("saxpy", 3))]
    agent = j.unhang.write("rocm/lib/librocm-debug-agent.so.2", "no library; ROCm has none here")
    done = j.go([*plans, OPEN], "echo tools ${HSA_TOOLS_LIB##*/} $ROCM_DEBUG_AGENT_OPTIONS, ${HSA_COREDUMP_PATTERN:-no} cores >&2; echo seed $SEED >&2; exec $P series 20",
                "--restart", 9, "--on-repeat", "SEED=2", ROCM_PATH=str(agent.parents[1]))
    fill, saxpy = "fill(float*, float, int)", "saxpy(float const*, float*, float, int)"
    t.same((done.returncode, rows(done, "level", "filter", "kernel", "launch", "d.row")),
           (0, [(1, None, fill, 3, "gpu-fault-first"), (3, "_Z4fillPffi", fill, 4, "raise-to-5"), (5, "_Z4fillPffi", saxpy, 3, "other-fault"),
                (5, "_Z5saxpyPKfPffi", saxpy, 4, "debug-agent"), (5, "_Z5saxpyPKfPffi", saxpy, 3, "deterministic-changed"), (5, "_Z5saxpyPKfPffi", None, None, None)]),
           "the same kind raises the level, another fault changes the suspect, the same fault is met with --on-repeat")
    t.same([line.split()[1:] for line in done.stderr.decode().splitlines() if line.startswith("seed")], [[]] * 5 + [["2"]], "which the job gets")
    tools = [line for line in done.stderr.decode().splitlines() if line.startswith("tools")]
    t.same([line for line in tools if agent.name in line], [f"tools {agent.name} --output={done.report['directory']}/5/debug-agent.txt, no cores"], "the debug agent is there in the try that it was decided for")



def test_hang(t, j):
    if not emulated.possible(j.unhang):
        t.skip("a hang in an emulated machine", "no FUSE or no name spaces")
        x = j.go(HANG, "exec $P series 20", "--hang-after", 1).tries[0]
        t.ok("no queue of the job moved" in x["because"] and x["launch"] == 4, "a hang by the votes of its queues", x)
        return
    scenario = j.unhang.write("hang.scenario", kfd.SCENARIO.format("hang kernel saxpy launch 4"))
    # Another run's process holds memory, before and afterwards.
    stale = f"UNHANG_RUN=old-run {j.programs.program} series 1 , deaf > {j.unhang.directory}/stale & S=$!; until grep -q deaf {j.unhang.directory}/stale; do sleep 0.05; done"
    # The second job says that the stale process is its own: run waits for KFD to let go of it, and then names it.
    late = j.unhang.write("late.py", "import os, struct, sys\nopen(os.path.dirname(os.environ['UNHANG_RECORDING']) + '/late.recording', 'wb').write("
                          "(b'UNHANGRC' + struct.pack('<IIII', 1, 0, 0, int(sys.argv[1]))).ljust(8192, b'\\0'))\n")
    waits = f"cd {j.unhang.directory}; B=$(date +%s%N); {' '.join(map(str, j.arguments('--level', 1)))} --status-file late.json -- {sys.executable} {late} $S; echo waited $(($(date +%s%N) - B))"
    left = f"ls /sys/class/kfd/kfd/proc | grep -v $S; ({waits}) > {j.unhang.directory}/waited 2>&1; kill -9 $S; echo left"
    # A fault of an earlier program is in the log, and is none of this job's.
    inside = ["env", "-u", "UNHANG_KFD", "sh", "-c", f'{j.programs.program} read-beyond 1 > /dev/null 2>&1; {stale}; "$@"; echo status $?; {left}', "sh", *map(str, j.arguments("--hang-after", 10)), "--", str(j.programs.program), "series", "20"]
    done = j.unhang.run("emulate", scenario, "--", *inside, timeout=120)
    report = j.report()
    x = report["tries"][0]
    t.same((x["ended"], x["kernel"], x["launch"], bool(x["bundle"]), report["wrong"]), ("gpu-hang", "saxpy(float const*, float*, float, int)", 4, True, []), "a hang names the kernel and its launch")
    t.ok("the GPU does not move either" in x["because"], "where the GPU can be seen, it is looked at", x)
    t.ok(x["title"] and "endless loop" in x["title"], "and the diagnosis is of the silicon", x)
    t.same(done.stdout.decode().split("status ")[-1], "143\nleft\n", "KFD has let go of it")
    other = re.compile(rf"{j.programs.program.name} \(\d+\) [\d.]+ [GM]iB, left by the run old-run")
    t.ok(other.fullmatch(report["holders_before"] or "") and other.fullmatch(x["holders"] or ""), "a process that an earlier run left is named, before and afterwards", (report["holders_before"], x["holders"]))
    waited = (j.unhang.directory / "waited").read_text()
    named = json.loads((j.unhang.directory / "late.json").read_text())["tries"][0]["holders"]
    t.ok(int(waited.split()[-1]) >= 5e9 and other.fullmatch(named or ""), "of a process of the job that KFD does not let go of, the memory is waited for; then it is named", (waited, named))
    t.ok(b"GPU memory is in use before the start: " + report["holders_before"].encode() in done.stderr, "on standard error, too", done.stderr)


def test_before(t, j):
    """What the log says of a quarter of an hour ago explains nothing that began now."""
    if not emulated.possible(j.unhang):
        t.skip("an old line in the log of an emulated machine", "no FUSE or no name spaces")
        return
    old = "\nmessages\n    100 err amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    for plan, command in ("fault kernel fill launch 7 at argument 0 plus 4M", ["series", "20"]), ("hang kernel saxpy launch 4", ["series", "20"]):
        scenario = j.unhang.write("before.scenario", kfd.SCENARIO.format(plan) + old)
        inside = ["env", "-u", "UNHANG_KFD", *map(str, j.arguments("--hang-after", 2)), "--", str(j.programs.program), *command]
        j.unhang.run("emulate", scenario, "--", *inside, timeout=120)
        x = j.report()["tries"][0]
        told = {name for i in json.loads(read(x["diagnosis"]) or '{"incidents": []}')["incidents"] for name in (i["cause"]["class"], *i["also"])}
        t.ok(told and x["fault"] != "node" and "ras-uncorrectable-error" not in told, f"{plan}: it is not explained by what was logged before", (x["title"], told))
        bundle = j.unhang.explain(x["bundle"])
        t.same({name for i in bundle.incidents for name in (i.cls, *i.data["also"])}, told, "and its bundle says the same later")
        now = " ".join(i.data["action"]["text"] for i in bundle.incidents)
        t.ok(not re.search(r"in half a minute|[Ee]nd |Save", now), "and knows that the job was ended", now)


def test_just_before(t, j):
    """What another program did a moment before is none of the job's, neither where the bundle nor where the run is explained."""
    if not emulated.possible(j.unhang):
        t.skip("a fault of another program in an emulated machine", "no FUSE or no name spaces")
        return
    p = j.programs.program
    scenario = j.unhang.write("just-before.scenario", kfd.SCENARIO.format(""))
    inside = ["env", "-u", "UNHANG_KFD", "sh", "-c", f'{p} read-beyond 1 > /dev/null 2>&1; "$@"', "sh", *map(str, j.arguments("--quiet")), "--", *job.shell(f"{p} series 5; exit 3")]
    j.unhang.run("emulate", scenario, "--", *inside, timeout=120)
    x = j.report()["tries"][0]
    told = subprocess.run(["tar", "-xOf", x["bundle"], "answers/log"], capture_output=True).stdout
    t.ok(b"page fault" in told, "another program's fault is in the log", told)
    for path in x["bundle"], os.path.dirname(x["bundle"]), j.report()["directory"]:
        found = j.unhang.explain(path)
        t.same((found.status, found.classes, found.stderr), (0, [], ""), f"{os.path.basename(path)}: it explains nothing")


def test_host(t, j):
    """An abort of the host's code in two ranks of a node, each under its own unhang run."""
    state = j.unhang.directory / "ranks"
    ranks = [j.go(OPEN, "exec $P series 3 , abort", "--state-dir", state, RANK=n, WORLD_SIZE="8", TORCHELASTIC_RUN_ID="job") for n in "01"]
    done = ranks[0]
    t.same((done.returncode, rows(done, "ended", "signal", "d.row", "d.level")), (134, [("signal", 6, "crash-first", 3)]), "an abort on the host beside the GPU")
    t.ok("were gone before" in done.tries[0]["lacking"] and done.tries[0]["bundle"], "of which little is left, which is said", done.tries[0])
    file = j.unhang.directory / "host.json"
    x = j.go(OPEN + "; slow kernel fill 0.05", f"exec $P steps 5 device {j.unhang.directory}/diary", "--crash-diagnostics", file).tries[0]
    told = json.loads(file.read_text())
    t.same((x["signal"], x["kernel"], x["launch"], "Kernel:" in told["failure_reason"]), (11, None, None, False), "a host that dies after five steps that it waited for: no kernel is accused")
    t.ok(re.search(r"fill\(.* ended$", told["last_kernel_boundary"]), "the last kernel that is known to have ended is told", told["last_kernel_boundary"])
    t.ok(not ranks[1].tries[0]["bundle"] and "Another rank" in ranks[1].tries[0]["lacking"], "one rank of a node saves the bundle", ranks[1].tries[0])


LAUNCHER = """
import os, signal, subprocess, sys, time
program, fault, plan = sys.argv[1:4]
ranks = []
for rank in range(8):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "8", "UNHANG_KFD": fault if rank == 5 else plan}
    ranks.append(subprocess.Popen([program, "series", "20"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
while not any(r.poll() not in (None, 0) for r in ranks): time.sleep(0.01)
time.sleep(0.1)
for r in ranks: r.kill()
for r in ranks: r.wait()
sys.exit(1)
"""


def children(pid):
    return [int(c) for c in read(f"/proc/{pid}/task/{pid}/children").split()]


def family(pid):
    return [pid, *(f for c in children(pid) for f in family(c))]


def stopped_helper(j):
    """A run whose job is held by a fault, and whose helper was stopped while it saves; None: it was too quick."""
    run = subprocess.Popen([*j.arguments(), "--", j.programs.program, "series", "20"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           env={**j.unhang.environment, "UNHANG_KFD": FAULT}, cwd=j.place)
    while run.poll() is None:
        # It has a session of its own; so has the process that hands on the output.
        known = [(c, read(f"/proc/{c}/stat")) for c in children(run.pid)]
        copiers = [c for c, stat in known if "(unhang-output)" in stat]
        helpers = [c for c, stat in known if c not in copiers and stat.partition(") ")[2].split()[3:4] == [str(c)]]
        for pid in helpers[:1] and family(helpers[0]):
            os.kill(pid, signal.SIGSTOP)
        own = [c for c in children(run.pid) if c not in helpers + copiers]
        if helpers and own:
            return run, helpers[0], own[0]
        for pid in helpers and family(helpers[0]):
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.001)
    run.communicate()
    return None


def test_outlasts(t, j):
    """What takes longer than a fault may hold its process is saved all the same."""
    run, helper, held = next(found for found in iter(lambda: stopped_helper(j), 0) if found)
    job.until(lambda: held not in children(run.pid))
    for pid in family(helper):
        os.kill(pid, signal.SIGCONT)
    run.communicate(timeout=job.PATIENCE)
    x = j.report()["tries"][0]
    t.same((run.returncode, x["ended"], x["kernel"], x["launch"], bool(x["bundle"])), (134, "gpu-fault", "fill(float*, float, int)", 7, True), "a process goes on to its end, though it was not saved in time")
    t.ok("longer than the process could be held" in (x["lacking"] or ""), "which is said", x["lacking"])


def test_ranks(t, j):
    launcher = j.unhang.write("launcher.py", LAUNCHER)
    done = j.go(OPEN, f"exec {sys.executable} {launcher} $P '{FAULT}' 'gpu gfx90a; hang kernel saxpy launch 2'")
    x = done.tries[0]
    t.same((done.returncode, x["ended"], x["rank"], x["kernel"], x["launch"], x["recordings"]), (1, "gpu-fault", 5, "fill(float*, float, int)", 7, 8),
           "of eight ranks the one is named that failed first")


def test_habits(t, j):
    """What programs do beside computing, all at the same time: daemons, deaf ones, ones that stop themselves, and much output."""
    def start(text, *options):
        started = subprocess.Popen([*j.arguments(*options), "--", j.programs.program, *text.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=j.unhang.environment, cwd=j.place)
        return started, j.status
    def end(started):
        out, _ = started[0].communicate(timeout=job.PATIENCE)
        return started[0].returncode, json.loads(started[1].read_text())["tries"][0], out
    daemons, deaf, stops, talks = start("series 1 , daemons"), start("series 1 , deaf", "--grace", 1), start("series 1 , stop", "--deadline", 4), start("series 1 , talk 1")
    silent = start("series 1 , wait 1000000", "--timeout-silent", 15)
    j.unhang.environment["UNHANG_KFD"] = HANG
    hung = start("series 20")
    j.unhang.environment["UNHANG_KFD"] = OPEN
    while b"launched" not in hung[0].stdout.readline():
        pass
    begun = time.monotonic()
    while b"deaf" not in deaf[0].stdout.readline():
        pass
    deaf[0].send_signal(signal.SIGTERM)
    status, x, _ = end(daemons)
    t.same((status, x["ended"], x["left"].count(j.programs.program.name)), (0, "done", 2), "daemons of a HIP program are ended and named")
    status, x, _ = end(deaf)
    t.same((status, x["ended"], "--grace" in x["because"]), (137, "stopped", True), "one that ignores TERM is killed after --grace")
    status, x, _ = end(stops)
    t.same((status, x["ended"]), (143, "deadline"), "one that stops itself is continued to be ended")
    status, x, _ = end(silent)
    t.same((status, x["ended"], x["packets"] > 0, x["decision"]["row"]), (143, "silent", True, "gpu-first"), "one that says nothing is ended; it was on the GPU, so that the next try would record more")
    time.sleep(max(0, 9 - (time.monotonic() - begun)))
    hung[0].send_signal(signal.SIGCONT)  # as Slurm does before it ends a job, though nobody was stopped
    hung[0].send_signal(signal.SIGINT)
    status, x, _ = end(hung)
    t.same((status, x["ended"], x["kernel"], x["launch"], bool(x["bundle"])), (130, "stopped", "saxpy(float const*, float*, float, int)", 4, True),
           "who presses Ctrl-C on a job that hangs gets its kernel, and the evidence")
    t.ok("no queue had moved for" in x["because"], "which is said", x["because"])
    status, x, out = end(talks)
    t.same((status, x["ended"], len(out), out.count(b"x")), (0, "done", 10485760 + len("launched\nseries 1\n"), 10485760), "10 MB in a second arrive")


def test_terminal(t, j):
    job.test_terminal(t, j, [j.programs.program, *"series 1 , terminal".split()])


class Late:
    """A hang of which debugfs tells nothing, while the other tests run: it is found soon after --hang-after."""

    def __init__(self, j):
        self.process = None
        if not emulated.possible(j.unhang):
            return
        scenario = j.unhang.write("late.scenario", kfd.SCENARIO.format("hang kernel saxpy launch 4").replace("kfd\n", "    file amdgpu_* fails EPERM\nkfd\n"))
        command = [j.unhang.binary, "emulate", scenario, "--", "env", "-u", "UNHANG_KFD", *j.arguments("--quiet", "--hang-after", 21), "--", j.programs.program, "series", "20"]
        before = j.look()["processes"]
        self.status, self.process = j.status, subprocess.Popen(list(map(str, command)), env=j.unhang.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=j.place)
        job.until(lambda: set(j.look()["processes"]) - set(before))  # what runs from now on is not left by others

    def end(self, t):
        if not self.process:
            t.skip("a hang without debugfs", "no FUSE or no name spaces")
            return
        self.process.wait(timeout=job.PATIENCE * 2)
        x = json.loads(self.status.read_text())["tries"][0]
        stood = re.search(r"no queue of the job moved for (\d+) s", x["because"] or "")
        # It was found after 31 s when 21 were rounded up to 2 * 11.
        t.ok(x["ended"] == "gpu-hang" and stood and int(stood[1]) < 31, "a hang without debugfs is found soon after --hang-after", x["because"])


class Quiet:
    """A job on a terminal that computes and says nothing, while the other tests run."""

    def __init__(self, j):
        command = list(map(str, [*j.arguments("--grace", 1), "--", j.programs.program, *"series 1 , deaf".split()]))
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(j.place)
            os.execve(command[0], command, j.unhang.environment)
        self.said = ""
        self.read("deaf")

    def read(self, words):
        def more():
            if select.select([self.fd], [], [], 0.1)[0]:
                self.said += os.read(self.fd, 4096).decode()
            return words in self.said
        return job.until(more)

    def end(self, t):
        t.ok(self.read("unhang: silent for "), "while a job on a terminal computes and says nothing, a line says so", self.said)
        t.ok(re.search(r"\r\x1b\[Kunhang: silent for \d+ min; (\d+ packets so far|its queues stand for \d+ s) \.\.\.\r", self.said), "which its next output overwrites", self.said)
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def memory_group(name):
    """A control group with 300 MB, of either version, and how its files are called; None: not here."""
    for line in read("/proc/self/mountinfo").splitlines():
        fields = line.split()
        kind, where, options = fields[fields.index("-") + 1], pathlib.Path(fields[4]), fields[-1].split(",")
        if kind == "cgroup" and "memory" in options:
            limit = "memory.limit_in_bytes"
        elif kind == "cgroup2" and "memory" in read(where / "cgroup.subtree_control").split():
            limit = "memory.max"
        else:
            continue
        group = where / name
        try:
            group.mkdir()
            (group / limit).write_text("300M")
            return group
        except OSError:
            if group.is_dir():
                group.rmdir()
    return None


def test_oom(t, j):
    """The kernel itself ends a HIP program that takes more than its control group may have; then unhang with it, as in a container."""
    group = memory_group(f"job-test-{os.getpid()}")
    if not group:
        t.skip("the kernel's out-of-memory killer", "no control group with a limit can be made here")
        return
    try:
        check_oom(t, j, group)
    finally:
        for pid in read(group / "cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        job.until(lambda: not read(group / "cgroup.procs"))
        group.rmdir()


def check_oom(t, j, group):
    def start(*options, command):
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *map(str, j.arguments(*options)), "--", *map(str, command)]
        return subprocess.Popen(inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=j.unhang.environment, cwd=j.place)
    hungry = [j.programs.program, *"series 3 , terminal , eat 1000".split()]
    done = start(command=hungry)
    done.communicate(b"", timeout=job.PATIENCE)
    x = j.report()["tries"][0]
    figures = x["ended"], x["oom_kills"], x["memory_limit"], 0.9 < (x["memory_peak"] or 0) / (300 << 20) <= 1, x["packets"] > 0, x["signal"]
    t.same((done.returncode, *figures), (137, "oom", 1, 300 << 20, True, True, 9), "a HIP program that the kernel ended for want of memory: with limit and peak")
    t.same((x["decision"]["row"], x["decision"]["level"], "The limit is 300 MiB" in x["decision"]["propose"]), ("memory-once", 1, True), "which raises nothing, and proposes less memory")
    done = start(command=[*hungry, 2])
    while done.stdout.readline() not in (b"ready!\n", b""):
        pass
    pathlib.Path(f"/proc/{done.pid}/oom_score_adj").write_text("1000")  # it has less memory than several others together, so it comes first
    done.communicate(b"", timeout=job.PATIENCE)
    state = j.state
    t.same((done.returncode, json.loads(j.status.read_text())["state"]), (-9, "running"), "the kernel may end unhang with its job")
    j.run(["true"], "--state-dir", state)
    x = [json.loads(p.read_text()) for p in state.glob("*/report.json")]
    x = next(r["tries"][0] for r in x if r["status"] == 137)
    t.same((x["ended"], x["oom_kills"] > 0, x["memory_limit"], x["decision"]["row"], "less memory" in x["decision"]["propose"]), ("oom", True, 300 << 20, "memory-once", True),
           "the next run tells that memory ran out, with the same figures")
    # Nobody but init can reap what unhang left when it was killed.
    t.ok(job.until(lambda: not read(group / "cgroup.procs") and set(j.look()["processes"]) <= set(j.before["processes"])), "all processes of the group have ended", read(group / "cgroup.procs"))


def test_namespaces(t, j):
    """Processes whose numbers are others elsewhere, and a process without our variables."""
    done = j.go(OPEN, f"env -i LD_PRELOAD=$LD_PRELOAD UNHANG_KFD=\"$UNHANG_KFD\" $P series 3 , wait , abort")
    lacking = done.tries[0]["lacking"] or ""
    t.ok(j.programs.program.name in lacking and "did not have our variables" in lacking, "who drops our variables is named", done.tries[0])
    own = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        t.skip("numbers of processes in containers", "no name spaces here")
        return
    space = " ".join(own)
    first, number = j.unhang.directory / "first", j.unhang.directory / "number"
    two = f"{space} $P series 1 , deaf > {first} & until grep -q deaf {first}; do sleep 0.05; done; UNHANG_KFD='{FAULT}'; {space} $P series 20"
    done = j.go(OPEN, two, UNHANG_CONTAINER="")
    x = done.tries[0]
    t.same((x["ended"], x["recordings"], x["launch"]), ("gpu-fault", 2, 7), "two containers whose processes have the same number have a recording each")
    t.ok((x["pid"] or 2) > 1, "from outside a process has the number that it has there", x["pid"])
    inside = [*own, *map(str, j.arguments()), "--", "sh", "-c", f"echo $$ > {number}; exec {j.programs.program} series 20"]
    subprocess.run(inside, capture_output=True, timeout=job.PATIENCE, cwd=j.place, env={**j.unhang.environment, "UNHANG_CONTAINER": "", "UNHANG_KFD": FAULT})
    x = j.report()["tries"][0]
    t.same((x["ended"], x["launch"], x["pid"]), ("gpu-fault", 7, int(number.read_text())), "inside of a container it has the one that it has there")


def test_crash_diagnostics(t, j):
    file = j.unhang.directory / "crash.json"
    hooks = j.unhang.directory / "hooks"
    hooks.mkdir()
    hook = j.unhang.write("hooks/tell", f"#!/bin/sh\nenv | grep UNHANG_ > {j.unhang.directory}/hook.env\ncat > {j.unhang.directory}/hook.json\n")
    hook.chmod(0o755)
    done = j.go(FAULT, "exec $P series 20", "--crash-diagnostics", file, "--hooks", hooks, "--level", 10, "--allow-inputs", "--cores", "keep")
    found = json.loads(file.read_text())
    t.ok(list(found)[:5] == ["kernel_api_log", "last_kernel_boundary", "crash_dumps", "gpu_arch", "exit_code"], "crash diagnostics have the keys that agents know", list(found))
    t.same((found["exit_code"], found["gpu_arch"], "fill(" in found["last_kernel_boundary"], found["kernel_api_log"].count("\n") > 10, "\n" in found["failure_reason"]),
           (134, "gfx90a", True, True, False), "with their values")
    t.ok(re.fullmatch(r"The job [^.]+\. [^.]+\. It said: Memory access fault by GPU .+\. Kernel: .+\. SIGABRT ended it\.", found["failure_reason"]), "the reason is in sentences", found["failure_reason"])
    cores = {p.name: p.stat().st_size for p in pathlib.Path(done.report["directory"], "1").glob("*core.*")}
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY and read("/proc/sys/kernel/core_pattern") in ("core\n", "core.%p\n"):
        pid = done.tries[0]["pid"]
        t.ok({f"core.{pid}", f"gpucore.{pid}.light"} <= set(cores) and all(cores.values()), "--cores keep keeps the cores of the GPU and of the process with the run", cores)
    t.ok(found["crash_dumps"] and all(pathlib.Path(p).exists() and p.startswith(done.report["directory"]) for p in found["crash_dumps"]), "inputs lie in the run's directory", found["crash_dumps"])
    told = json.loads((j.unhang.directory / "hook.json").read_text())
    t.ok(told["schema"] == "unhang/run/1" and "UNHANG_ENDED=gpu-fault" in (environment := (j.unhang.directory / "hook.env").read_text()), "hooks get the report", done.stderr)
    t.ok(re.search(r"^UNHANG_DO=restart-program$", environment, re.M) and re.search(r"^UNHANG_FIT=(yes|unknown)$", environment, re.M), "and what the machine needs", environment)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    if not shutil.which("hipcc") or not programs.library.exists():
        tap.skip_all("no hipcc here")
    complaint = programs.compile()
    if complaint:
        tap.skip_all(f"hipcc cannot compile: {complaint.splitlines()[0]}")
    programs.program = programs.program.rename(unhang.directory / f"job{os.getpid()}")  # which no other test has
    j = GpuJob(unhang, programs)
    quiet, late = Quiet(j), Late(j)
    j.before = j.look()
    for test in (test_ends_well, test_deterministic, test_freed, test_kinds, test_hang, test_before, test_just_before, test_host, test_outlasts, test_ranks, test_habits, test_oom, test_terminal, test_namespaces, test_crash_diagnostics):
        test(t, j)
        j.check(t, test.__name__[5:])
    quiet.end(t)
    late.end(t)
    t.end()


if __name__ == "__main__":
    main()
