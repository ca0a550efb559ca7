#!/usr/bin/env python3
"""unhang run around jobs that need no GPU: status, output, signals, the terminal, processes that are left, files, limits, ranks."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import emulated
import tap

PATIENCE = 60
CHECK = emulated.validator("run")


class Job:
    """Runs of unhang in a directory of their own."""

    def __init__(self, unhang):
        self.unhang, self.n = unhang, 0

    def arguments(self, *options):
        self.n += 1
        self.state, self.status = self.unhang.directory / f"runs{self.n}", self.unhang.directory / f"status{self.n}.json"
        return [self.unhang.binary, "run", "--state-dir", self.state, "--status-file", self.status, *map(str, options)]

    def run(self, command, *options, env=(), **more):
        """How it ended, what it wrote, and its report."""
        done = subprocess.run([*self.arguments(*options), "--", *command], capture_output=True, timeout=PATIENCE,
                              env={**self.unhang.environment, **dict(env)}, **more)
        done.report = self.report()
        return done

    def report(self):
        report = json.loads(self.status.read_text()) if self.status.exists() else {"tries": [{}]}
        report["wrong"] = [e.message[:200] for e in CHECK.iter_errors(report)] if "schema" in report else []
        return report

    def start(self, command, *options, columns=80, **more):
        return subprocess.Popen([*self.arguments(*options), "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**self.unhang.environment, "COLUMNS": str(columns)}, **more)


def shell(text):
    return ["sh", "-c", text]


def ended(done):
    last = done.report["tries"][-1] if done.report["tries"] else {}
    return last.get("ended")


# Has a file of the runtime's name mapped, as whoever has started the runtime; says so, and stays for a while.
UNCALLED = """import mmap, os, sys, time
file = open(sys.argv[1], "rb")
here = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print(os.getpid(), flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_uncalled(t, j):
    """ROCm's runtime that does not call the recorder: what was launched is not known, and nobody says that it was nothing."""
    runtime, script = j.unhang.write("libhsa-runtime64.so.1", "x" * 4096), j.unhang.write("uncalled.py", UNCALLED)
    for seconds in (2, 8, 30):  # a busy machine may not come to look at it in time
        done = j.run([sys.executable, script, runtime, str(seconds)])
        if ended(done) == "done":
            break
    said = done.report["tries"][0]
    t.same((done.returncode, ended(done)), (0, "done"), "run: a runtime that did not call the recorder is no job that launched nothing")
    t.ok("ROCm's runtime was started, and did not call the recorder" in said["because"] and "LD_PRELOAD" in said["lacking"], "and this is what it says", said)
    with subprocess.Popen([sys.executable, script, runtime, "60"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        answer = j.unhang.run("last", str(process.pid))
        process.kill()
    t.ok(answer.returncode == 2 and b"it uses ROCm without the recorder; start it with unhang run, or with HSA_TOOLS_LIB=" in answer.stderr, "last: that, too", answer.stderr)


def test_status(t, j):
    for command, status, how in ((shell("exit 0"), 0, "no-launch"), (shell("exit 7"), 7, "exit"), (shell("kill -SEGV $$"), 139, "signal"),
                                 (shell("kill -KILL $$"), 137, "signal")):
        done = j.run(command)
        t.same((done.returncode, ended(done), done.report.get("status"), done.report["wrong"]), (status, how, status, []), f"{command[2]}: the status is the job's")
    for command, status in ((["/no/such/program"], 127), (["/etc/passwd"], 126)):
        done = j.run(command)
        t.ok(done.returncode == status and done.stderr.count(b"\n") == 1, f"{command[0]}: {status}, as a shell has it", done.stderr)
    done = j.run(shell("exit 3"), "--level", "0")
    t.same((done.returncode, done.report["tries"][0]["packets"], done.report["wrong"]), (3, None, []), "without the recorder nothing is said of launches")
    for off in ("off", "0", "/dev/null"):
        done = j.run(shell("echo $UNHANG_RECORDING ${HSA_TOOLS_LIB:-none} ${UNHANG_LEVEL:-none}; kill -SEGV $$"), "--restart", 1, "--delay", 0, env={"UNHANG_RECORDING": off})
        t.same((done.stdout.decode(), [(x["level"], x["packets"], x["decision"]["row"]) for x in done.report["tries"]]), (f"{off} none none\n" * 2, [(0, None, "host-first"), (0, None, "top")]),
               f"UNHANG_RECORDING={off}: nothing is recorded, in no try")
    done = j.run(shell("echo ${HSA_TOOLS_LIB:-none}"), "--env", "UNHANG_RECORDING=off")
    t.same(done.stdout, b"none\n", "nor with --env")
    for own, wanted in (({}, "1"), ({"HSA_TOOLS_ROCPROFILER_V1_TOOLS": "0"}, "0")):
        done = j.run(shell("echo $HSA_TOOLS_ROCPROFILER_V1_TOOLS"), env=own)
        t.same(done.stdout.decode(), f"{wanted}\n", f"AMD's builds of the runtime are told to look for the recorder{', unless the user says otherwise' if own else ''}")
    done = j.run(shell("ulimit -c; echo cores ${HSA_COREDUMP_PATTERN:-none} $UNHANG_CORE $UNHANG_CORE_BYTES"), "--cores", "off")
    t.same(done.stdout, b"0\ncores none 0\n", "--cores off lets nobody write a core")
    limits = "exec U bash -c 'ulimit -S -c; ulimit -H -c'"
    for how, told in (("explain-and-drop", b"4\n8\n"), ("keep", b"8\n8\n"), ("off", b"0\n8\n")):
        ours, _ = bash(j, f"ulimit -S -c 4; ulimit -H -c 8; {limits}", "--level", 0, "--cores", how)
        t.same(ours.stdout, told, f"--cores {how}: the size of a core, by the limits that the user has")
    ours, alone = bash(j, f"ulimit -c unlimited && {limits}", "--level", 0)
    most, hard = ours.stdout.decode().split()
    t.ok(alone.returncode or (hard == "unlimited" and most.isdigit() and int(most) << 10 < shutil.disk_usage(j.unhang.directory).free), "and never more than a part of the disk", ours.stdout)
    done = j.run(shell("exit 0"), "--quiet")
    t.same((done.returncode, done.stderr), (0, b""), "--quiet writes nothing")
    done = j.run(shell("exit 5"), "--json")
    told = json.loads(done.stderr)
    t.ok(not list(CHECK.iter_errors(told)) and told["tries"][0]["exit_code"] == 5 and told["state"] == "ended", "--json is the report", done.stderr)
    t.same(told["tries"][0]["decision"]["reason"], None, "where nobody asked for another try, there is nothing to give a reason for")


def test_places(t, j):
    """Whose directory is named from where unhang was started is told from the root on; and what a run writes is for its user and group."""
    folder, file = j.unhang.directory / "places", j.unhang.directory / "places" / "diagnostics.json"
    folder.mkdir()
    j.arguments()
    subprocess.run([j.unhang.binary, "run", "--quiet", "--state-dir", "here/runs", "--status-file", j.status, "--crash-diagnostics", file, "--", *shell("cd /; exit 3")],
                   cwd=folder, env=j.unhang.environment, capture_output=True, timeout=PATIENCE)
    directory = j.report().get("directory") or ""
    t.ok(directory.startswith(f"{folder}/here/runs/") and os.path.isdir(directory), "--state-dir here/runs: the report has the whole path", directory)
    t.same(oct(file.stat().st_mode & 0o777), "0o640", "others do not read the crash diagnostics")
    t.same(oct(os.stat(j.status).st_mode & 0o777), "0o640", "nor the status file")


def test_not_replaced(t, j):
    """Whoever names a pipe, a link or (as root) a device loses nothing: not before the job, and not where the job puts one there."""
    fifo, link, nowhere = (j.unhang.directory / f"not-replaced-{name}" for name in ("fifo", "link", "nowhere"))
    os.mkfifo(fifo)
    link.symlink_to("/proc/self/fd/2")
    nowhere.symlink_to("/no/such/file")
    for option in ("--status-file", "--crash-diagnostics"):
        for path in (fifo, link, nowhere):
            done = j.run(shell("echo started; exit 3"), option, path)
            t.ok(done.returncode == tap.CANNOT and option in done.stderr.decode() and done.stderr.count(b"\n") == 1 and not done.stdout, f"{option} {path.name} is refused", done.stderr)
        late = j.unhang.directory / f"late{option}"
        done = j.run(shell(f"rm -f {late}; mkfifo {late}; exit 3"), option, late)
        t.same((done.returncode, late.is_fifo()), (3, True), f"{option}: a pipe that the job puts there stays")
    t.same((fifo.is_fifo(), link.is_symlink(), nowhere.is_symlink()), (True, True, True), "and all are still there")


def test_state(t, j):
    """Nobody has a run write where he could not: not by a link in the place of its directory, nor by a directory of his that root uses."""
    victim = j.unhang.directory / "victim"
    (victim / "1").mkdir(parents=True)
    files = [victim / name for name in ("run", "report.json", "1/output")]
    for file in files:
        file.write_text("as before")
    swap = shell(f"echo text; cd {j.unhang.directory}/runs{j.n + 1} && set -- * && mv $1 old && ln -s {victim} $1; exit 3")
    done = j.run(swap)
    t.same((done.returncode, {file.read_text() for file in files}), (3, {"as before"}), "a link in the place of the directory of the run is not followed")
    t.ok(b"taken the place" in done.stderr, "and that is told", done.stderr)
    if os.geteuid():
        t.skip("directories of others", "only root is refused them")
        return
    for owner, mode, words in ((65534, 0o755, "another user"), (0, 0o777, "by others"), (0, 0o775, "by others"), (0, 0o1777, None), (0, 0o755, None)):
        place = j.unhang.directory / f"state-{owner}-{mode:o}"
        place.mkdir()
        place.chmod(mode)
        os.chown(place, owner, owner)
        done = j.run(shell("echo started"), "--quiet", "--state-dir", place)
        wanted = (tap.CANNOT, b"", 1) if words else (0, b"started\n", 0)
        t.ok((done.returncode, done.stdout, done.stderr.count(b"\n")) == wanted and (words or "") in done.stderr.decode(), f"--state-dir of user {owner}, {mode:o}: {'refused' if words else 'taken'}", done.stderr)
    done = j.run(shell("echo started"), "--quiet", "--state-dir", j.unhang.directory / "state-65534-755", env={"UNHANG_CONTAINER": "yes"})
    t.same((done.returncode, done.stdout), (0, b"started\n"), "in a container, a volume of the user who started it is taken")


def test_refused(t, j):
    sticky = j.unhang.directory / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for options, words in ((("--level", "10"), "--allow-inputs"), (("--on-repeat", "level=10"), "--allow-inputs"), (("--level", "4"), "levels are"), (("--env", "a b"), "NAME=VALUE"),
                           (("--cores", "x"), "keep"), (("--profile", "/no/such/file"), "/no/such/file"), (("--grace", "0"), "--grace"), (("--state-dir", "/proc/x"), "not started: /proc/x"),
                           (("--state-dir", ""), "--state-dir"), (("--status-file", "/no/such/file"), "/no/such/file"), (("--status-file", "/"), "--status-file"),
                           (("--crash-diagnostics", "/proc/x"), "/proc/x"), (("--hooks", "/no/such/directory"), "/no/such/directory"), (("--hooks", sticky), "write it")):
        done = j.run(shell("echo started"), *options)
        t.ok(done.returncode == tap.CANNOT and words in done.stderr.decode() and done.stderr.count(b"\n") == 1 and not done.stdout, f"{' '.join(map(str, options))} is refused", done.stderr)
    if os.geteuid():
        homeless = {**j.unhang.environment, "HOME": "/proc/x"}
        homeless.pop("XDG_STATE_HOME", None)
        done = subprocess.run([j.unhang.binary, "run", "--", "echo", "started"], env=homeless, capture_output=True, timeout=PATIENCE)
        t.ok(done.returncode == tap.CANNOT and b"not started" in done.stderr and b"--state-dir" in done.stderr and not done.stdout, "so is a home that cannot be written", done.stderr)
    arguments = j.arguments("--quiet")
    done = subprocess.run([*arguments, "--", "cat", j.status], env=j.unhang.environment, capture_output=True, timeout=PATIENCE)
    t.same(json.loads(done.stdout or b"{}").get("state"), "running", "the status file is there when the job starts")
    t.same([p.name for p in pathlib.Path("/dev/shm").glob("unhang-*") if p.name.startswith(f"unhang-{os.getuid()}.") and str(os.getpid()) in p.name], [], "and nothing is left of it")
    # Installed, unhang has Python name its operations.
    prefix = j.unhang.directory / "prefix"
    (prefix / "bin").mkdir(parents=True)
    installed = pathlib.Path(shutil.copy2(j.unhang.binary, prefix / "bin" / "unhang"))
    shutil.copy2(pathlib.Path(j.unhang.binary).parent / "libunhang-recorder.so", prefix / "bin")
    shutil.copytree(tap.HERE.parent / "python", prefix / "share/unhang/python")
    for env, path in (({}, f"{prefix}/share/unhang/python"), ({"PYTHONPATH": "/own"}, f"{prefix}/share/unhang/python:/own"), ({"UNHANG_TORCH": "off", "PYTHONPATH": "/own"}, "/own")):
        done = subprocess.run([installed, *j.arguments("--quiet")[1:], "--", "printenv", "PYTHONPATH"], env={**j.unhang.environment, **env}, capture_output=True, timeout=PATIENCE)
        t.same(done.stdout.decode().strip(), path, f"PYTHONPATH with {env or 'nothing'}")
    (prefix / "lib64").mkdir()
    (prefix / "bin" / "libunhang-recorder.so").rename(prefix / "lib64" / "libunhang-recorder.so")
    done = subprocess.run([installed, *j.arguments("--quiet")[1:], "--", "printenv", "HSA_TOOLS_LIB"], env=j.unhang.environment, capture_output=True, timeout=PATIENCE)
    t.same(done.stdout.decode().strip(), f"{prefix}/lib64/libunhang-recorder.so", "an RPM package has its recorder in lib64")
    (prefix / "lib64" / "libunhang-recorder.so").unlink()
    done = subprocess.run([installed, *j.arguments()[1:], "--", "false"], env=j.unhang.environment, capture_output=True, timeout=PATIENCE)
    t.ok(b"The job was not recorded" in done.stderr or j.report()["recorder"], "an unhang without its recorder says so", done.stderr)
    profile = j.unhang.write("profile.sh", "# unhang profile x\nexport HSA_A='1 2'\n")
    done = j.run(["printenv", "HSA_A"], "--profile", profile)
    t.same(done.stdout, b"1 2\n", "a profile's variables arrive")


def test_output(t, j):
    """Byte for byte, by descriptors that the job inherits."""
    bytes_ = bytes(range(256)) * 4096
    source = j.unhang.write("bytes", bytes_)
    done = j.run(["sh", "-c", "cat; cat bytes >&2; ls -l /proc/self/fd | wc -l", "x"], "--quiet", input=bytes_, cwd=source.parent)
    alone = subprocess.run(["sh", "-c", "ls -l /proc/self/fd | wc -l"], capture_output=True).stdout
    t.ok(done.stdout == bytes_ + alone and done.stderr == bytes_, "input, output and errors are the job's, and no other descriptor is", len(done.stdout))
    sizes = j.run(["sh", "-c", "echo $0 $#; printenv UNHANG_RUN; printenv A B", "a b", "c", "--json"], "--env", "A=1", env={"B": "2"})
    lines = sizes.stdout.decode().splitlines()
    t.same((lines[0], lines[1], lines[2:]), ("a b 2", sizes.report["id"], ["1", "2"]), "arguments and variables arrive")
    masks = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"
    t.same(j.run(shell(masks)).stdout, subprocess.run(shell(masks), capture_output=True).stdout, "signals are as they would be without unhang")


def saved(j, number=1):
    """The file `output` of a try; None: there is none."""
    found = list(j.state.glob(f"*/{number}/output"))
    return found[0].read_bytes() if found else None


def bash(j, text, *options):
    """What a shell makes of a line in which U is unhang run, and of the same line without it: status and output."""
    run = " ".join(map(str, j.arguments("--quiet", *options))) + " --"
    return [subprocess.run(["bash", "-c", text.replace("U ", f"{u} ")], capture_output=True, timeout=PATIENCE, env=j.unhang.environment, cwd=j.unhang.directory) for u in (run, "")]


def test_copied(t, j):
    """Whoever reads the job's output sees no difference; its end is kept."""
    j.unhang.write("talk.py", "import os, sys\nfor i in range(int(sys.argv[1])): os.write(1 + i % 2, b'%d\\n' % i)\nsys.exit(3)\n")
    talk = f"{sys.executable} talk.py"
    def same(text, name, kept=None, *options):
        ours, alone = bash(j, text, *options)
        t.same((ours.returncode, ours.stdout, ours.stderr), (alone.returncode, alone.stdout, alone.stderr), name)
        if kept is not None:
            t.same(saved(j), kept, f"{name}: what is kept of it")
    lines = [b"%d\n" % i for i in range(3000)]
    same(f"U {talk} 3000 2>&1 | cat; exit ${{PIPESTATUS[0]}}", "both into one pipe: the order stays", b"".join(lines))
    same(f"U {talk} 3000", "a pipe each", b"==> standard output <==\n" + b"".join(lines[::2]) + b"\n==> standard error <==\n" + b"".join(lines[1::2]))
    same(f"rm -f log; echo before > log; U {talk} 3000 >> log 2>&1; echo $?; cat log", "a file that is appended to", b"".join(lines))
    same(f"U {talk} 3000 > out 2> err; cat out err", "a file each", b"==> standard output <==\n" + b"".join(lines[::2]) + b"\n==> standard error <==\n" + b"".join(lines[1::2]))
    same(f"U {talk} 3000 > /dev/null 2>&1", "a device: nothing is kept", None)
    t.same(saved(j), None, "a device: nothing is kept")
    same("U sh -c 'ls -l /proc/self/fd/1 /proc/self/fd/2 | sed s/.*fd//' > /dev/null 2> /dev/full; echo $?", "devices stay what they are")
    same("U sh -c 'echo a >&3; echo b; echo c >&3' 3>&1 | cat", "a pipe that the job has by another number, too: the order stays")
    for text, name in (("U yes | head -1; echo ${PIPESTATUS[0]}", "a reader that goes: SIGPIPE"), ("U sh -c 'trap \"\" PIPE; while echo x; do :; done; exit 7' 2> /dev/null | head -1; echo ${PIPESTATUS[0]}", "EPIPE for who ignores that"),
                       ("U sh -c 'exec 1>&-; echo x >&2; exit 5'; echo $?", "a job that closes its output"), ("U head -c 20M /dev/zero | (sleep 0.3; sha1sum)", "a flood into a slow reader"),
                       ("U sh -c 'yes | head -c 300000 >&2; exit 9' 2>&1 | sha1sum; exit ${PIPESTATUS[0]}", "much of it"), ("(U sh -c 'echo a; exit 1'; echo b) | cat", "all of it is there when unhang ends"),
                       ("U sh -c 'head -c 60000 /dev/zero; exit 4' | (sleep 0.2; wc -c)", "a pipe that nobody reads yet"), ("coproc U sh -c 'read x; echo $x'; echo hi >&${COPROC[1]}; read y <&${COPROC[0]}; echo $y", "who waits for an answer gets it")):
        same(text, name)
    ours, _ = bash(j, "U sh -c 'seq 200000; exit 3'")
    whole = "".join(f"{i}\n" for i in range(1, 200001)).encode()
    kept = saved(j)
    t.ok(kept and len(kept) < 260 << 10 and kept.endswith(whole[-(255 << 10):]) and ours.stdout == whole, "of much the last 256 KB are kept", kept and (len(kept), kept[:50]))
    job = socket_pair(j, shell("readlink /proc/self/fd/1; exit 3"))
    t.ok(job.startswith(b"socket:") and saved(j) is None, "a socket stays one", job)


def socket_pair(j, command):
    """What a job writes into a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run([*j.arguments("--quiet"), "--", *command], stdout=theirs, stderr=subprocess.DEVNULL, env=j.unhang.environment, timeout=PATIENCE)
        return ours.recv(1000)


NO_WAIT = """
import fcntl, os, sys
flags = fcntl.fcntl(1, fcntl.F_GETFL)
fcntl.fcntl(1, fcntl.F_SETFL, flags | os.O_NONBLOCK)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_left_alone(t, j):
    """Pipes that nobody can be put between, or may: the job has them as they are."""
    for most in (8, 11, 12, 13, 14, 16, 20, 32, 64, 65, 128):
        ours, alone = bash(j, f"ulimit -n {most}; exec U sh -c 'echo out; echo err >&2; exit 5'", "--level", 0)
        t.same((ours.returncode, ours.stdout, ours.stderr), (alone.returncode, alone.stdout, alone.stderr), f"{most} descriptors: all of the output is there")
    t.same(saved(j), b"==> standard output <==\nout\n\n==> standard error <==\nerr\n", "where there are enough it is kept")
    no_wait = j.unhang.write("no_wait.py", NO_WAIT)
    fill = j.unhang.write("fill.py", "import os, sys\ntry:\n    for i in range(1000): os.write(1, bytes(4096))\nexcept BlockingIOError: sys.exit(11)\n")
    reader, writer = os.pipe()
    done = subprocess.run([sys.executable, no_wait, *j.arguments("--quiet"), "--", sys.executable, fill], stdout=writer, env=j.unhang.environment, timeout=PATIENCE)
    os.close(reader)
    os.close(writer)
    t.same(done.returncode, 11, "a pipe that does not wait stays so")


SANDBOX = """
import ctypes, os, struct, sys
LOAD, SAME, LEAVE, ALLOW = 0x20, 0x15, 0x06, (0x06, 0, 0, 0x7fff0000)
steps = []
for call in sys.argv[2].split(","): # CALL, or CALL:N: unless its argument N is 1
    number, _, argument = call.partition(":")
    deny = [*([(LOAD, 0, 0, 16 + 8 * int(argument)), (SAME, 1, 0, 1)] if argument else []), (LEAVE, 0, 0, int(sys.argv[1]))]
    steps += [(LOAD, 0, 0, 0), (SAME, 0, len(deny), int(number)), *deny]
steps.append(ALLOW)
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program))):
    sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[3], sys.argv[3:])
"""
SPLICE, TEE, CLOSE_RANGE = (275, 276, 436) if os.uname().machine == "x86_64" else (76, 77, 436)
REFUSES, KILLS = 0x50000, 0x80000000


def test_sandbox(t, j):
    """Kernels and sandboxes without the calls that unhang likes: all of the output is there, and its end is kept."""
    sandbox = j.unhang.write("sandbox.py", SANDBOX)
    lines = "".join(f"{i}\n" for i in range(1, 200001)).encode()
    def run(action, calls):
        return subprocess.run([sys.executable, sandbox, str(action), ",".join(map(str, calls)), *j.arguments("--quiet", "--level", 0), "--", *shell("seq 200000; exit 5")],
                              capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    for calls, reasons in (((CLOSE_RANGE,), (1, 22, 38)), ((SPLICE,), (1, 22, 38)), ((TEE,), (1, 22, 38)), ((SPLICE, TEE, CLOSE_RANGE), (1,)), ((f"{SPLICE}:4",), (12,)), ((f"{TEE}:2",), (12,))):
        for why in reasons:
            done = run(REFUSES | why, calls)
            t.ok((done.returncode, done.stdout, done.stderr) == (5, lines, b""), f"{calls} fails with {os.strerror(why)}: status and output are the job's", (done.returncode, len(done.stdout), done.stderr))
            kept = saved(j)
            t.ok(kept and kept.endswith(lines[-(255 << 10):]), f"{calls} fails with {os.strerror(why)}: its end is kept", kept and len(kept))
    done = run(KILLS, (SPLICE,))
    t.ok((done.returncode, done.stdout, saved(j)) == (5, lines, None), "who would be killed for it stays away from the output", (done.returncode, len(done.stdout), done.stderr))


STOPS = r"""
import os, signal, sys
parent = os.getppid()
for pid in open(f"/proc/{parent}/task/{parent}/children").read().split():
    if open(f"/proc/{pid}/comm").read() == "unhang-output\n":
        os.kill(int(pid), signal.SIGSTOP)
        print("stopped", flush=True)
sys.exit(3)
"""


def test_stopped(t, j):
    """Who stops the process that hands on the output stops neither the output nor unhang."""
    done = j.run([sys.executable, j.unhang.write("stops.py", STOPS)], "--quiet")
    t.same((done.returncode, done.stdout, ended(done)), (3, b"stopped\n", "exit"), "a stopped unhang-output goes on")


def test_outlived(t, j):
    """A process of the job that outlives unhang goes on to write, and what was written is kept."""
    read, write = os.pipe()
    go = j.unhang.directory / "go"
    job = subprocess.Popen([*j.arguments("--quiet"), "--", *shell(f"(until [ -e {go} ]; do sleep 0.02; done; echo later; kill -TERM $$ 2> /dev/null) & echo ready; wait")], stdout=write, stderr=subprocess.DEVNULL, env=j.unhang.environment)
    os.close(write)
    with os.fdopen(read, "rb") as out:
        t.same(out.readline(), b"ready\n", "a job is ready")
        job.kill()
        job.wait()
        go.write_text("")
        t.same(out.read(), b"later\n", "what outlived a killed unhang is heard")
    t.ok(until(lambda: saved(j) == b"==> standard output <==\nready\nlater\n"), "and was kept", saved(j))


def test_words(t, j):
    """The line that says why: in the report, and for agents."""
    file = j.unhang.directory / "crash.json"
    def said(text, *options):
        done = j.run(shell(text), "--crash-diagnostics", file, *options)
        return done.report["tries"][-1], json.loads(file.read_text()), done
    program = j.unhang.write("fails.py", "print('step 7', flush=True)\ndef f(): raise ValueError('the batch is empty')\nf()\n")
    x, found, done = said(f"exec {sys.executable} {program}")
    t.same((x["words"], x["ended"], done.report["wrong"]), ("ValueError: the batch is empty", "exit", []), "an exception of Python")
    t.ok("It said: ValueError: the batch is empty." in found["failure_reason"] and found["last_output"].count("step 7\n") == 1 and found["words"] == x["words"], "which agents get, with the last lines", found)
    t.ok(b"It said     ValueError: the batch is empty" in done.stderr, "and people", done.stderr)
    watchdog = ("[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, "
                "NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.")
    x, found, _ = said(f"echo '{watchdog}' >&2; echo 'Fatal Python error: Aborted' >&2; kill -ABRT $$")
    t.same((x["class"], x["rank"], "Watchdog caught" in x["words"]), ("collective-timeout", 3, True), "a watchdog of RCCL: class, rank and words")
    j.unhang.write("assertion", "a.out: k.c:7: main: Assertion `n > 0' failed.\n")
    for text, words in ((f"cat {j.unhang.directory}/assertion >&2; kill -ABRT $$", "main: Assertion `n > 0' failed."), ("echo 'terminate called after throwing' >&2; echo '  what():  no room' >&2; exit 134", "what():  no room"),
                        ("echo all well; exit 3", None), ("echo 'ERROR: first' ; echo 'ERROR: then'; exit 1", "ERROR: first")):
        x, _, _ = said(text)
        t.ok((x["words"] or "").endswith(words or "") and bool(x["words"]) == bool(words), f"its words: {words}", x["words"])
    # A job can write anything: that does not make it the machine's fault.
    x, _, _ = said("echo '[  99.1] amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware errors detected in umc block'; exit 1")
    t.ok(x["fault"] != "node", "what a job says is not the machine's fault", x)
    x, found, _ = said("echo 'amdgpu 0000:03:00.0: amdgpu: RAS records:129 exceed threshold:128, GPU will not be initialized. Replace this GPU or increase the threshold'; exit 3")
    t.ok((x["action"], x["fault"]) == (None, None) and "the machine does not confirm" in found["failure_reason"], "and nothing is replaced by it", (x, found))
    done = j.run(shell("echo fine"))
    t.same((done.report["tries"][0]["words"], saved(j)), (None, None), "of one that ends well nothing is kept")


def test_container(t, j):
    """A container that the daemon's control group ended: Docker is asked how."""
    docker = j.unhang.write("bin/docker", """#!/bin/sh
[ "$1" = inspect ] && [ "$2" = trial ] && cat <<E
[{"Id": "abc", "Name": "/trial", "State": {"Running": false, "OOMKilled": true, "ExitCode": 137, "Error": "", "FinishedAt": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"}, "HostConfig": {"Memory": 4294967296}}]
E
[ "$1" = run ] && exit 137
exit 0
""")
    docker.chmod(0o755)
    env = {"PATH": f"{docker.parent}:{j.unhang.environment.get('PATH') or os.environ['PATH']}"}
    x = j.run(["docker", "run", "--name=trial", "image", "train"], "--restart", 3, "--delay", 0, env=env).report["tries"]
    t.same([(y["ended"], y["class"], y["decision"]["row"]) for y in x], [("exit", "host-oom", "memory"), ("exit", "host-oom", "memory-again")], "a container that ran out of memory")
    for command in (["docker", "run", "image"], ["docker", "run", "--name", "other", "image"], ["docker", "ps"]):
        x = j.run(command, env=env).report["tries"][0]
        t.same(x["class"], None, f"{' '.join(command)}: nothing is known")


# Starts its arguments with signals ignored (i) and blocked (b), and with a limit of the size of files (f): NAMES=HOW,...
INHERIT = r"""
import os, resource, signal, sys
for one in sys.argv[1].split(","):
    name, how = one.split("=")
    number = getattr(signal, "SIG" + name, None)
    if how == "i": signal.signal(number, signal.SIG_IGN)
    if how == "d": signal.signal(number, signal.SIG_DFL)
    if how == "b": signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    if name == "FSIZE": resource.setrlimit(resource.RLIMIT_FSIZE, (int(how), int(how)))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_inherited(t, j):
    """Signals that the parent ignores or blocks: the job has them as without unhang, and unhang ends."""
    inherit = [sys.executable, j.unhang.write("inherit.py", INHERIT)]
    masks = shell("grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status")
    every = ["CHLD=i", "PIPE=i", "PIPE=d", "HUP=i", "INT=i", "QUIT=i", "TERM=i", "XFSZ=i", "XFSZ=d", "USR1=i", "CONT=i", "TSTP=i", "CHLD=b", "TERM=b", "PIPE=b", "ALRM=b", "RTMIN=b"]
    for how in [*every, ",".join(every)]:
        done = subprocess.run([*inherit, how, *j.arguments("--quiet"), "--", *masks], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
        alone = subprocess.run([*inherit, how, *masks], capture_output=True).stdout
        t.same((done.returncode, done.stdout.decode()), (0, alone.decode()), f"{how}: the job has it as without unhang")
    done = subprocess.run([*inherit, "CHLD=i", *j.arguments("--restart", 1, "--delay", 0), "--", *shell("exit 3")], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    t.same((done.returncode, [x["ended"] for x in j.report()["tries"]]), (3, ["exit", "exit"]), "where SIGCHLD is ignored a run ends, and knows the status")
    # A job that answers a signal which its parent ignored.
    stays = shell("trap '' TERM HUP; echo ready; read x; exit 5")
    job = subprocess.Popen([*map(str, inherit), "TERM=i,HUP=i", *map(str, j.arguments("--grace", 1)), "--", *stays], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=j.unhang.environment)
    job.stdout.readline()
    for number in (signal.SIGHUP, signal.SIGTERM):
        job.send_signal(number)
    t.ok(not until(lambda: job.poll() is not None, 2), "a signal that the parent ignores ends neither the job nor unhang")
    job.communicate(b"x\n", timeout=PATIENCE)
    t.same((job.returncode, j.report()["tries"][0]["ended"]), (5, "exit"), "and is not why it ended")
    done = subprocess.run([*inherit, "FSIZE=1,XFSZ=d", *j.arguments(), "--", "echo", "started"], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    t.ok(done.returncode == tap.CANNOT and b"not started" in done.stderr and not done.stdout, "a limit of the size of files that leaves no room for the run: refused, not killed", (done.returncode, done.stderr))


def test_full(t, j):
    """A disk without room: what cannot be written down is not started."""
    disk = j.unhang.directory / "disk"
    disk.mkdir()
    inside = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=64k,nr_inodes=100 none {disk} && mkdir {disk}/runs && "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        t.skip("a full disk", "no name spaces here")
        return
    fill = f"dd if=/dev/zero of={disk}/full bs=4k 2> /dev/null; exec \"$@\""
    started = j.unhang.directory / "started"
    command = [*j.arguments("--state-dir", disk / "runs"), "--", *shell(f"echo x >> {started}")]
    done = subprocess.run([*inside, *shell(fill), "sh", *command], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    t.ok(done.returncode == tap.CANNOT and b"not started" in done.stderr and b"--state-dir" in done.stderr and done.stderr.count(b"\n") == 1, "a full disk: refused", (done.returncode, done.stderr))
    t.ok(not started.exists(), "and the job is not started")
    command = [*j.arguments("--state-dir", disk / "runs", "--restart", 3, "--delay", 0), "--", *shell(f"echo x >> {started}; dd if=/dev/zero of={disk}/full bs=4k 2> /dev/null; exit 4")]
    done = subprocess.run([*inside, *command], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    t.same((done.returncode, started.read_text()), (4, "x\n"), "one that becomes full: there is no other try, and the status is the job's")


FORKS = """
import os, signal
try:
    while os.fork(): pass
except OSError: pass
signal.pause()
"""


def test_no_process(t, j):
    """A job that has used up its user's processes: nobody can be started to save the evidence, and still it is ended."""
    home = j.unhang.directory / "crowded"
    if os.getuid():
        t.skip("a job that has used up the processes", "root can become somebody else")
        return
    home.mkdir()
    os.chown(home, 54321, 54321)
    j.unhang.directory.chmod(0o711)

    def crowded():
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        resource.setrlimit(resource.RLIMIT_NPROC, (30, 30))
    command = [*j.arguments("--state-dir", home / "runs", "--status-file", home / "status", "--deadline", 1, "--grace", 1), "--", "/usr/bin/python3", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, env=j.unhang.environment, timeout=PATIENCE, preexec_fn=crowded)
    t.same((done.returncode, json.loads((home / "status").read_text())["tries"][0]["ended"]), (143, "deadline"), "a job that has used up the processes is ended all the same")


def still_there(word):
    """Processes whose command line has the word, which nobody else's has."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in p.read_bytes() and p.parent.name != str(os.getpid()):
                found.append(p.parent.name)
        except OSError:
            pass
    return found


def test_left(t, j):
    """Daemons, children without a parent, and who ignores TERM: none of them outlives the run."""
    long = str(10000000 + os.getpid())
    done = j.run(shell(f"(setsid sh -c 'trap \"\" TERM; sleep {long} & wait; sleep {long}' &) ; sleep {long} & sleep 0.2; exit 4"))
    report = done.report
    t.same((done.returncode, still_there(long)), (4, []), "what a job leaves running is ended")
    t.ok(re.search(r"\w+ \(\d+\)", report["tries"][0]["left"] or ""), "and named", report["tries"][0])
    shared = [p.name for p in pathlib.Path("/dev/shm").glob(f"unhang-*{report['id']}*")]
    t.same(shared, [], "its recordings are gone")


def test_before(t, j):
    """A script that becomes `unhang run` by exec keeps what it has started before; a child of it that ends the script ends the job."""
    long = str(20000000 + os.getpid())
    become = lambda before, *options: subprocess.run(["sh", "-c", before + '\nexec "$@"', "sh", *j.arguments(*options)], capture_output=True, env=j.unhang.environment, timeout=PATIENCE)
    done = become(f"sleep {long} > /dev/null 2>&1 & sh -c 'sleep {long} & wait' > /dev/null 2>&1 & until [ $(pgrep -cfx 'sleep {long}') -ge 2 ]; do sleep 0.1; done", "--restart", "1", "--delay", "0", "--", "sh", "-c", "exit 3")
    alive = still_there(long)
    subprocess.run(["pkill", "-f", f"sleep {long}"], check=False)
    t.same((done.returncode, len(alive) >= 2), (3, True), "what was there before is not the job's, and stays")
    done = become(f"( until [ -e {j.unhang.directory}/begun ]; do sleep 0.1; done; kill -TERM $$ ) > /dev/null 2>&1 &", "--", "sh", "-c", f"trap 'exit 5' TERM; : > {j.unhang.directory}/begun; sleep 60 & wait")
    t.same(done.returncode, 5, "and who ends the script from outside ends the job")


# Its first thread ends, and another goes on: the process looks like a zombie.
LEADERLESS = """import ctypes, os, platform, threading, time
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    print(os.getpid(), flush=True)
    time.sleep(1000)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(platform.machine(), 93), 0)
"""


def test_leaderless(t, j):
    """A process whose main thread has ended is ended like any other."""
    python = [sys.executable, "-c", LEADERLESS]
    done = j.run(python, "--deadline", 4, "--grace", 3)
    x = done.report["tries"][0]
    t.same((done.returncode, x["ended"], x["signal"], x["lacking"]), (143, "deadline", 15, None), "at the deadline it gets SIGTERM, and ends of it")
    done = j.run(["bash", "-c", 'read pid < <("$@" & wait); echo $pid; exit 4', "bash", *python])
    pid = done.stdout.decode().strip()
    t.ok(done.returncode == 4 and pid and f"({pid})" in (done.report["tries"][0]["left"] or ""), "as a straggler it is named", (pid, done.report["tries"][0]))
    t.ok(not os.path.exists(f"/proc/{pid}"), "and ended")


def until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_signals(t, j):
    job = j.start(shell("trap 'echo got TERM; exit 9' TERM; trap 'echo got USR1' USR1; echo ready; while :; do sleep 0.05; done"))
    job.stdout.readline()
    job.send_signal(signal.SIGUSR1)
    line = job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=PATIENCE)
    last = j.report()["tries"][-1]
    t.same((line, out, job.returncode, last["ended"], last["decision"]["do"]), ("got USR1\n", "got TERM\n", 9, "stopped", "stop"), "signals are passed on once, and the job answers them")
    names = ("XCPU", "ALRM", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "RTMIN", "RTMAX")
    job = j.start(["bash", "-c", "".join(f"trap 'echo got {name}' {name}; " for name in names) + "echo ready; while read -t 0.05 x || (($? > 128)); do :; done; exit 6"], stdin=subprocess.PIPE)
    job.stdout.readline()
    lines = []
    for name in names:
        job.send_signal(16 if name == "STKFLT" else getattr(signal, f"SIG{name}"))
        lines.append(job.stdout.readline())
    job.communicate(timeout=PATIENCE)
    t.same((lines, job.returncode), ([f"got {name}\n" for name in names], 6), "so are those that would end unhang")
    done = subprocess.run([sys.executable, "-c", "import os, signal, sys; signal.setitimer(signal.ITIMER_REAL, 1); os.execv(sys.argv[1], sys.argv[1:])", *j.arguments("--quiet"), "--", "sleep", "1000"],
                          env=j.unhang.environment, timeout=PATIENCE)
    t.same(done.returncode, 128 + signal.SIGALRM, "an alarm that was set before unhang started is the job's")
    long = str(30000000 + os.getpid())
    job = j.start(shell(f"sleep {long} & echo ready; wait; true"), "--grace", PATIENCE * 10)
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=PATIENCE)
    last = j.report()["tries"][0]
    t.same((job.returncode, last["ended"], still_there(long), "--grace" in last["because"]), (143, "stopped", [], False), "once the command has ended, what it started gets TERM as well")
    job = j.start(shell("echo $$; exec sleep 1000"), "--status-file", j.unhang.directory / "killed.json")
    pid = int(job.stdout.readline())
    job.kill()
    job.communicate()
    j.run(["true"], "--state-dir", j.state)  # which tidies up
    t.ok(until(lambda: not pathlib.Path(f"/proc/{pid}").exists()), "a job does not outlive an unhang that was killed")


def test_own_signals(t, j):
    """A launch script that ends its process group reaches unhang, too; that is not somebody who wants the job to end."""
    # The second stays: of a process that is gone, and that its parent has waited for, nobody can tell whose it was.
    for name, text in (("the script itself", "trap 'kill 0' EXIT"),
                       ("a process of it", "trap 'bash -c \"trap : TERM; kill 0; exec sleep 2\" & wait' EXIT")):
        done = j.run(["bash", "-c", f"{text}; exit 3"], "--restart", 1, "--delay", 0, start_new_session=True)
        tries = done.report["tries"]
        t.same((done.returncode, [(x["ended"], x["signal"]) for x in tries]), (143, [("signal", 15)] * 2), f"{name} ends the group: the job failed, and is tried again")
        t.ok("which a process of the job sent" in tries[0]["because"], "as the report says", tries[0]["because"])
    job = j.start(["bash", "-c", "trap '' TERM; sleep 1000 < /dev/null > /dev/null 2>&1 & echo $$; exit 3"])
    pid = job.stdout.readline().strip()
    t.ok(until(lambda: not os.path.exists(f"/proc/{pid}")), "the command has ended, and something is left of it")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=PATIENCE)
    last = j.report()["tries"][0]
    t.same((job.returncode, last["ended"], last["exit_code"]), (3, "exit", 3), "a signal that comes then is not why it ended")


def test_limits(t, j):
    quiet = j.start(shell("echo begun; exec sleep 1000"), "--timeout-silent", 4)
    silent = j.status
    # Ten seconds: no machine is so busy that a loop stands still for that long.
    talks = shell("while :; do echo x; sleep 0.2; done")
    first = j.start(talks, "--timeout-silent", 10, "--deadline", 12)
    piped = j.status
    with open(j.unhang.directory / "out", "wb") as out:
        second = subprocess.Popen([*j.arguments("--timeout-silent", 10, "--deadline", 12), "--", *talks], stdout=out, stderr=out, env=j.unhang.environment)
    filed = j.status
    # The time of a terminal has steps of 8 seconds, which are longer than this limit.
    master, slave = pty.openpty()
    fourth = subprocess.Popen([*j.arguments("--quiet", "--timeout-silent", 6, "--deadline", 15), "--", *talks], stdout=slave, stderr=slave, env=j.unhang.environment)
    shown = j.status
    third = j.start(shell("echo begun; kill -STOP $$"), "--timeout-silent", 10, "--deadline", 12)
    stopped = j.status
    said, _ = quiet.communicate(timeout=PATIENCE)
    t.same((quiet.returncode, said, json.loads(silent.read_text())["tries"][0]["ended"]), (143, "begun\n", "silent"), "a job that says nothing is ended")
    said, _ = first.communicate(timeout=PATIENCE)
    second.wait(timeout=PATIENCE)
    fourth.wait(timeout=PATIENCE)
    os.close(slave)
    os.close(master)
    for where, status in (("a pipe", piped), ("a file", filed), ("a terminal", shown)):
        t.same(json.loads(status.read_text())["tries"][0]["ended"], "deadline", f"one that talks into {where} is not, but for the deadline")
    t.ok(said.count("x") > 5, "and until then it runs", said)
    third.communicate(timeout=PATIENCE)
    t.same((third.returncode, json.loads(stopped.read_text())["tries"][0]["ended"]), (143, "deadline"), "a job that stopped itself is not silent, and is continued to be ended")


def test_oom(t, j):
    """A control group in which the kernel's counter rises while the job gets SIGKILL: a tree that lies over /sys/fs/cgroup."""
    for version, mount in (("2", "cgroup2"), ("1", "cgroup")):
        group = j.unhang.directory / f"group{version}"
        group.mkdir()
        names = {"2": ("memory.events", "memory.peak", "memory.max"), "1": ("memory.oom_control", "memory.max_usage_in_bytes", "memory.limit_in_bytes")}[version]
        for name, text in zip(names, ("oom 0\noom_kill 3\n", "4294967296\n", "4294967296\n")):
            (group / name).write_text(text)
        mounts = j.unhang.write(f"mounts{version}", f"30 20 0:26 / {group} rw,relatime - {mount} none rw{',memory' if version == '1' else ''}\n")
        own = j.unhang.write(f"own{version}", "0::/\n" if version == "2" else "4:memory:/\n")
        kill = f"echo x >> {group}/kills; printf 'oom_kill %d\\n' $((3 + $(wc -l < {group}/kills))) > {group / names[0]}; kill -KILL $$"
        inside = f"mount --bind {mounts} /proc/$$/mountinfo && mount --bind {own} /proc/$$/cgroup && exec \"$@\""
        prefix = ["unshare", "-rm", "sh", "-c", inside, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode:
            t.skip("host memory that ran out", "no name spaces here")
            return
        subprocess.run([*prefix, *j.arguments("--restart", 2, "--delay", 0), "--", *shell(kill)], env=j.unhang.environment, timeout=PATIENCE, capture_output=True)
        tries = j.report()["tries"]
        t.same([(x["ended"], x["oom_kills"], x["memory_limit"]) for x in tries[:1]], [("oom", 1, 4294967296)], f"control groups {version}: the counter says that memory ran out")
        t.same((tries[0]["decision"]["row"], tries[0]["level"], "4.0 GiB" in tries[0]["decision"]["propose"]), ("memory", 1, True), "which raises no level, and proposes less memory, with figures")
        t.same([(x["ended"], x["decision"]["row"], x["decision"]["do"]) for x in tries[1:]], [("oom", "memory-again", "stop")], "and is tried again, once")
        for says, how, beside in (("ValueError: my own bug", "exit", True), ("worker 3: Killed", "oom", False)):
            rises = f"echo x >> {group}/kills; printf 'oom_kill %d\\n' $((3 + $(wc -l < {group}/kills))) > {group / names[0]}; echo '{says}'; exit 1"
            subprocess.run([*prefix, *j.arguments(), "--", *shell(rises)], env=j.unhang.environment, timeout=PATIENCE, capture_output=True)
            x = j.report()["tries"][0]
            t.same((x["ended"], x["exit_code"], x["words"], x["oom_kills"], "out-of-memory killer ended 1 process" in (x["beside"] or "")), (how, 1, says, None if beside else 1, beside),
                   f"the counter of a shared group rose, and the job said '{says}': {how}")
    done = j.run(shell("kill -KILL $$"))
    t.same(ended(done), "signal", "137 alone is no proof")


def test_group(t, j):
    """A control group of version 2 for each try, where one may be made."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    mount = next((m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2"), None)
    own = shell("sed -n s/^0:://p /proc/self/cgroup")
    before = subprocess.run(own, capture_output=True, text=True).stdout.strip()
    if not mount or os.geteuid() or not os.access(mount + before, os.W_OK):
        t.skip("a control group for each try", "none of version 2 can be made here")
        return
    # Its first process leaves the group that the others are in, and a daemon makes one below it.
    place = f"{mount}$(sed -n s/^0:://p /proc/self/cgroup)"
    done = j.run(shell(f"{own[2]}; mkdir {place}/below; (setsid sh -c 'trap \"\" TERM; echo $$ > {place}/below/cgroup.procs; while :; do sleep 1; done' &); sleep 0.2; exit 3"))
    group = done.stdout.decode().strip()
    t.ok(done.returncode == 3 and group.startswith(f"{before.rstrip('/')}/unhang-{done.report['id']}-") and group.endswith("-1"), "the job runs in a group of its own", group)
    t.ok(not os.path.exists(mount + group) and done.report["tries"][0]["left"], "which is gone afterwards, with what was in it", done.report["tries"][0]["left"])
    closed = ["unshare", "-m", "sh", "-c", f'mount -o remount,ro,bind {mount} && exec "$@"', "sh"]
    if subprocess.run([*closed, "true"], capture_output=True).returncode:
        t.skip("where no group may be made", "no name spaces here")
        return
    done = subprocess.run([*closed, *j.arguments("--quiet"), "--", *own], env=j.unhang.environment, capture_output=True, text=True, timeout=PATIENCE)
    t.same((done.returncode, done.stdout.strip(), done.stderr), (0, before, ""), "where none may be made it runs where unhang does, and not a word is said")


def test_tries(t, j):
    counter = j.unhang.directory / "counter"
    flaky = f"echo x >> {counter}; echo \"$@\"; [ $(wc -l < {counter}) -ge 3 ]"
    began = time.monotonic()
    done = j.run(["sh", "-c", flaky + " || exit $(wc -l < %s)" % counter, "sh", "first"], "--restart", 5, "--delay", 1, "--resume", "--resume last")
    t.same((done.returncode, done.stdout.decode().splitlines(), len(done.report["tries"])), (0, ["first", "first --resume last", "first --resume last"], 3), "it is started again until it ends well, with --resume")
    t.ok(time.monotonic() - began >= 3, "after 1 s, then after 2 s")
    done = j.run(shell("exit 4"), "--restart", 5, "--delay", 0)
    t.same([(x["ended"], x["decision"]["row"], x["decision"]["do"]) for x in done.report["tries"]], [("exit", "host-first", "restart"), ("exit", "host-again", "stop")],
           "the same failure without a GPU is tried once more")
    checkpoint = j.unhang.write("ckpt-750", "")
    j.unhang.write("ckpt-500", "")
    os.utime(j.unhang.directory / "ckpt-500", (1, 1))
    done = j.run(shell("exit 4"), "--checkpoint", j.unhang.directory / "ckpt-*")
    t.same(done.report["tries"][0]["checkpoint"], str(checkpoint), "the newest checkpoint is named")
    t.same(done.report["tries"][0]["decision"]["do"], "stop", "without --restart nothing follows")


def test_vanished(t, j):
    """A command that is gone before it is started again."""
    command = j.unhang.write("vanishes", "#!/bin/sh\nrm $0\nexit 3\n")
    command.chmod(0o755)
    done = j.run([command], "--restart", 3, "--delay", 0)
    tries = done.report["tries"]
    t.same((done.returncode, [x["ended"] for x in tries], done.report["status"], done.report["state"]), (3, ["exit"], 3, "ended"), "the try before was the last, and the status is its")
    t.ok("no other try" in tries[0]["decision"]["reason"] and str(command) in tries[0]["decision"]["reason"], "and why there was none is told", tries[0]["decision"])


def test_waits(t, j):
    """--json with restarts is one document, and whoever ends unhang while it waits is told so."""
    done = j.run(shell("exit 4"), "--json", "--restart", 1, "--delay", 0)
    told = json.loads(done.stderr)
    t.same((len(told["tries"]), list(CHECK.iter_errors(told))), (2, []), "--json is one document, with restarts too")
    hooks = j.unhang.directory / "failing"
    hooks.mkdir(mode=0o755)
    j.unhang.write("failing/hook", "#!/bin/sh\nexit 3\n").chmod(0o755)
    done = j.run(shell("exit 4"), "--json", "--hooks", hooks)
    t.ok("status 3" in json.loads(done.stderr)["notes"], "which has complaints as notes", done.stderr)
    job = j.start(shell("exit 4"), "--restart", 1, "--delay", 1000, columns=50)
    t.ok(until(lambda: j.report()["tries"][-1].get("decision")), "a try is decided on")
    job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=PATIENCE)
    last = j.report()["tries"][-1]
    t.same((job.returncode, last["decision"]["do"], last["decision"]["reason"]), (4, "stop", "unhang got SIGTERM and stopped before try 2."), "SIGTERM before the next try is told so")
    report = said[said.index("Try 1"):said.index("Files:")]
    t.ok(max(map(len, report.splitlines())) <= 50 and report.count("\n") > 4, "the report has the terminal's width", report)
    t.ok("Read the job's own output first" in " ".join(report.split()), "and says first to read the job's output", report)


def test_ranks(t, j):
    rank = {"RANK": "5", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "abc/../d"}
    done = j.run(["true"], "--restart", 1, env=rank)
    t.ok(done.returncode == tap.CANNOT and b"rank 5 of 8" in done.stderr and done.stderr.count(b"\n") == 1, "a rank refuses --restart", done.stderr)
    done = j.run(["true"], env=rank)
    t.same([done.report[key] for key in ("launcher", "rank", "world", "job", "id")], ["torchrun", 5, 8, "abc/../d", "torchrun-abc____d-rank5"], "torchrun's rank")
    done = j.run(["false"], env=rank)
    t.ok(b"Try 1, level 1, rank 5 of 8: " in done.stderr and b"--restart N, around the launcher." in b" ".join(done.stderr.split()), "its report says which rank it is, and who may restart", done.stderr)
    for env, found in (({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "91"}, ["mpi", 3, 4, "91"]), ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ["mpi", 1, 2, None]),
                       ({"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}, ["slurm", 6, 8, "77"]),
                       ({"RANK": "2", "WORLD_SIZE": "4", "RAY_JOB_ID": "01000000"}, ["ray", 2, 4, "01000000"])):
        done = j.run(["true"], env=env)
        t.same([done.report[key] for key in ("launcher", "rank", "world", "job")], found, f"the rank of {found[0]}")
    done = j.run(["true"], "--restart", 1, env={"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"})
    t.same([done.report[key] for key in ("launcher", "rank", "job", "id")], ["slurm", None, "77", "slurm-77"], "a batch script of Slurm is no rank")
    state = j.unhang.directory / "requeued"
    for n in ("0", "1"):
        done = j.run(["false"], "--state-dir", state, env={"SLURM_JOB_ID": "78", "SLURM_RESTART_COUNT": n})
    t.same(([x["number"] for x in done.report["tries"]], done.report["requeues"], done.report["tries"][1]["decision"]["row"]), ([1, 2], 1, "host-again"),
           "a job that was put back into the queue goes on with its tries")
    slurm = {"SLURM_JOB_ID": "79", "SLURM_RESTART_COUNT": "0"}
    job = subprocess.Popen([*j.arguments("--state-dir", state), "--", *shell("echo ready; exec sleep 1000")], stdout=subprocess.PIPE, env={**j.unhang.environment, **slurm})
    job.stdout.readline()
    job.kill()
    job.communicate()
    done = j.run(["true"], "--state-dir", state, env={**slurm, "SLURM_RESTART_COUNT": "1"})
    t.same([(x["number"], x["ended"]) for x in done.report["tries"]], [(1, "killed"), (2, "no-launch")], "also with one that was killed with its unhang")
    test_names(t, j)
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    t.same([str(g) for m in mounts if m[m.index("-") + 1] == "cgroup2" for g in pathlib.Path(m[4]).glob(f"**/unhang-slurm-79-{job.pid}-*")], [], "of which no control group is left")


# Ranks as recorders leave them: RANK STATE MILLISECONDS [STATUS], where state 1 is of one that did not say that it ended, 2 of one that did.
RECORDED = r"""
import os, struct, sys
for i, one in enumerate(sys.argv[1:]):
    rank, state, ms, *status = map(int, one.split())
    clock = lambda at: struct.pack("<QQQ", 10**12 + at * 10**6, 10**18 + at * 10**6, 10**12 + at * 10**6)
    head = b"UNHANGRC" + struct.pack("<IIIIiIIIII", 1, 32768, state, 100000 + i, rank, 0, 1, 3, 1, 0) + clock(0) + struct.pack("<QII", 10**9, 1, 0) + clock(0) + clock(ms)
    head = head.ljust(1388, b"\0") + struct.pack("<I", status[0] + 1 if status else 0)
    with open(os.path.dirname(os.environ["UNHANG_RECORDING"]) + f"/{i}.recording", "wb") as f: f.write(head.ljust(32768, b"\0"))
sys.exit(1)
"""


def test_first(t, j):
    """Of several ranks the one that failed first, by the last signs of life in their recordings: who ended well did not fail."""
    program = j.unhang.write("recorded.py", RECORDED)
    silent, tie = "without a word: it crashed, was killed, or called _exit()", " Which rank failed first is not known: several ended at nearly the same time."
    for name, ranks, rank, said in (
            ("one crashed, and the launcher killed the others", ["0 1 9000", "1 1 4000", "2 1 9001"], 1, f" Rank 1 was the first to end {silent}."),
            ("one failed in order, and the launcher killed the others", ["0 1 9000", "1 2 4000 7", "2 1 9001"], 1, " Rank 1 was the first to fail: it ended with status 7."),
            ("one ended well before, and one crashed", ["0 2 3000 0", "1 1 4000", "2 2 5000 0"], 1, f" Rank 1 was the first to end {silent}."),
            ("one ended well before, and one failed in order", ["0 2 3000 0", "1 2 4000 3", "2 1 9000"], 1, " Rank 1 was the first to fail: it ended with status 3."),
            ("one ended in order with a status that is not known", ["0 1 9000", "1 2 4000", "2 1 9001"], None, tie),
            ("one left without a word before another failed", ["0 1 3000", "1 2 5000 3", "2 1 9000"], None,
             f" Which rank failed first is not known: rank 0 ended {silent}; rank 1 ended 2.0 s later with status 3."),
            ("all at the same time", ["0 1 3000", "1 1 3050", "2 1 3099"], None, tie),
            ("all ended well", ["0 2 3000 0", "1 2 4000 0"], None, ""),
            ("a rank ends with its last process", ["0 2 1000", "0 1 9000", "1 1 4000"], 1, f" Rank 1 was the first to end {silent}."),
            ("one rank only", ["0 2 1000", "0 1 9000"], None, ""), ("no ranks", ["-1 2 1000", "-1 1 9000"], None, "")):
        x = j.run([sys.executable, program, *ranks]).report["tries"][0]
        t.same((x["rank"], x["because"]), (rank, "It ended by itself with status 1." + said), f"{name}: who failed first")


def test_names(t, j):
    """A job's number comes again: torchrun's is `none` unless somebody names it, and one Slurm job may have several steps and runs."""
    state = j.unhang.directory / "names"
    def ids(command, *envs):
        return [(r["id"], len(r["tries"])) for env in envs for r in [j.run(command, "--state-dir", state, env=env).report]]
    torchrun = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "100", "TORCHELASTIC_RESTART_COUNT": "0"}
    again = {**torchrun, "TORCHELASTIC_RESTART_COUNT": "1"}
    t.same(ids(["false"], torchrun, again), [("torchrun-100-rank1", 1), ("torchrun-100-rank1", 2)], "a rank that torchrun starts again goes on with its tries")
    t.same(ids(["false"], torchrun, again), [("torchrun-100-rank1-2", 1), ("torchrun-100-rank1-2", 2)], "the next job with this number is another one")
    other = subprocess.run(["sh", "-c", '"$@"; exit', "sh", *j.arguments("--state-dir", state), "--", "false"], env={**j.unhang.environment, **again}, capture_output=True, timeout=PATIENCE)
    t.same((other.returncode, j.report()["id"], len(j.report()["tries"])), (1, "torchrun-100-rank1-3", 1), "so is the job of another launcher, though its ranks were started again")
    nameless = j.run(["true"], "--state-dir", state, env={**torchrun, "TORCHELASTIC_RUN_ID": "none"}).report
    t.ok(nameless["job"] is None and re.fullmatch(rf"torchrun-{os.getpid()}-\d+-rank1", nameless["id"]), "one without a name is called by its launcher's process", nameless["id"])
    t.same(j.run(["true"], env={**torchrun, "TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "80"}).report["job"], "80", "or by its Slurm job")
    step = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "81"}
    t.same(ids(["false"], {**step, "SLURM_STEP_ID": "0"}, {**step, "SLURM_STEP_ID": "1"}, {**step, "SLURM_STEP_ID": "0", "SLURM_RESTART_COUNT": "1"}),
           [("slurm-81-0-rank0", 1), ("slurm-81-1-rank0", 1), ("slurm-81-0-rank0", 2)], "steps of a Slurm job are told apart, also when it was put back into the queue")
    batch, requeued = {"SLURM_JOB_ID": "82"}, {"SLURM_JOB_ID": "82", "SLURM_RESTART_COUNT": "1"}
    t.same(ids(["false"], batch, batch, requeued, requeued), [("slurm-82", 1), ("slurm-82-2", 1), ("slurm-82", 2), ("slurm-82-2", 2)], "and so are runs of one batch script")
    living = subprocess.Popen([*j.arguments("--quiet", "--state-dir", state), "--", *shell("echo; read x")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**j.unhang.environment, "SLURM_JOB_ID": "83"})
    living.stdout.readline()
    t.same(ids(["true"], {"SLURM_JOB_ID": "83", "SLURM_RESTART_COUNT": "1"}), [("slurm-83-2", 1)], "of a run that lives, nobody else takes the directory")
    living.communicate(b"x\n", timeout=PATIENCE)


def test_killed(t, j):
    """A run that was killed with its job is reported by the next one."""
    job = j.start(shell("echo ready; exec sleep 1000"))
    job.stdout.readline()
    state = j.state
    noted = [p.read_text() for p in state.glob("*/run")]
    until(lambda: "state" in j.report())
    before = j.report()
    job.kill()
    job.communicate()
    t.same((before["state"], before["tries"][0]["ended"], before["wrong"]), ("running", None, []), "the status file tells of a try while it runs")
    t.ok(len(noted) == 1 and "\ntry\nnumber 1\n" in noted[0], "which is on the disk before the job starts", noted)
    done = j.run(["true"], "--state-dir", state)
    old = json.loads((state / before["id"] / "report.json").read_text())
    t.same((old["state"], old["tries"][0]["ended"], old["status"]), ("ended", "killed", 137), "the next run completes the report")
    t.ok(before["id"] in done.stderr.decode(), "and says so", done.stderr)
    t.same(list(pathlib.Path("/dev/shm").glob(f"unhang-*{before['id']}")), [], "and nothing is left of it in shared memory")
    t.ok("None of its processes was found" in old["tries"][0]["because"], "with nobody left", old["tries"][0]["because"])
    job = j.start(shell("echo ready; exec sleep 1000"), "--state-dir", state)
    job.stdout.readline()
    directory = next(p.parent for p in state.glob("*/run") if p.parent.name not in (before["id"], done.report["id"]))
    job.kill()
    job.communicate()
    with open(directory / "run", "a") as run:
        run.write("ended exit\nexit_code 3\nbecause It ended.\n")
    j.run(["true"], "--state-dir", state)
    old = json.loads((directory / "report.json").read_text())
    t.same((old["state"], old["tries"][0]["ended"], list(pathlib.Path("/dev/shm").glob(f"unhang-*{directory.name}"))), ("ended", "exit", []), "one that was killed after its job had ended leaves nothing there either")
    long = str(40000000 + os.getpid())
    job = j.start(shell(f"sleep {long} > /dev/null 2>&1 & echo $!; wait"), "--state-dir", state)
    left = job.stdout.readline().strip()
    before = {p.name for p in state.glob("*")}
    job.kill()
    job.communicate()
    next_one = j.run(["true"], "--state-dir", state)
    said = [json.loads(p.read_text())["tries"][0]["because"] for p in state.glob("*/report.json") if p.parent.name in before]
    t.ok(any(f"still run: sleep ({left})." in line for line in said), "who outlived its run is named", said)
    t.ok(f"still run: sleep ({left})." in " ".join(next_one.stderr.decode().split()), "by the next run, too", next_one.stderr)
    os.kill(int(left), signal.SIGKILL)
    job = j.start(shell("echo ready; exec sleep 1000"), "--state-dir", state)
    job.stdout.readline()
    job.kill()
    job.communicate()
    config, place = j.unhang.write("watch.conf", ""), j.unhang.directory / "watch"
    (place / "state").mkdir(parents=True)
    (place / "state" / "runs").symlink_to(state)
    # Not --once: on a machine where others emulate or are out of memory, quiet may never come.
    watch = subprocess.Popen([j.unhang.binary, "watch", "--config", config, "--state-dir", place / "state", "--run-dir", place / "run", "--hooks-dir", place / "hooks"],
                             stderr=subprocess.PIPE, text=True, env=j.unhang.environment)
    said = next((line for line in watch.stderr if "was killed before it could report" in line), "")
    watch.terminate()
    watch.communicate(timeout=PATIENCE)
    t.ok(said, "so does the watch")


def forge(state, name, recordings, group="", number=1, status=-1):
    """The directory of a run that was killed, as a stranger may write it."""
    directory = state / name
    (directory / str(number)).mkdir(parents=True)
    host, boot = socket.gethostname(), pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (directory / "run").write_text(f"id {name}\nhost {host}\nboot_id {boot}\nbegan 1794883718491\npid 4194303\nstatus {status}\nrecordings {recordings}\n"
                                   f"try\nnumber {number}\nlevel 1\nbegan 1794883718497\n" + (f"group {group}\n" if group else ""))
    for path in (directory, directory / str(number)):
        path.chmod(0o700)
    return directory


def test_forged(t, j):
    """A run directory that another wrote is not believed; and no record, whoever wrote it, names something else than recordings to be removed."""
    victim, empty = j.unhang.directory / "forged-victim", j.unhang.directory / "forged-empty"
    victim.mkdir(mode=0o700)
    (victim / "gold").write_text("gold")
    empty.mkdir()
    state = j.unhang.directory / "forged"
    state.mkdir(mode=0o700)
    here = [victim, victim / "gold", empty]
    own = forge(state, "20261117-010101-1", victim, group=empty)
    j.run(["true"], "--state-dir", state)
    t.same(([p.exists() for p in here], json.loads((own / "report.json").read_text())["state"]), ([True] * 3, "ended"), "a record that names other directories than unhang's own has them removed by nobody")
    (state / "20261117-010101-2").symlink_to(forge(j.unhang.directory / "elsewhere", "20261117-010101-2", victim))
    outside = forge(state, "20261117-010101-3", pathlib.Path("/dev/shm") / f"unhang-{os.geteuid()}.20261117-010101-3", number=7)
    (outside / "7").rmdir()
    (outside / "7").symlink_to(victim)
    recordings = pathlib.Path(f"/dev/shm/unhang-{os.geteuid()}.20261117-010101-3")
    recordings.mkdir(mode=0o700)
    (recordings / "x.recording").write_text("no recording")
    j.run(["true"], "--state-dir", state)
    t.same((sorted(p.name for p in victim.iterdir()), [p.name for p in (j.unhang.directory / "elsewhere").glob("*/report.json")]), (["gold"], []), "links in a state directory lead nowhere")
    shutil.rmtree(recordings, ignore_errors=True)
    if os.geteuid():
        t.skip("runs of other users", "only root can make them")
        return
    state = j.unhang.directory / "forged-sticky"
    state.mkdir()
    state.chmod(0o1777)
    recordings = pathlib.Path("/dev/shm/unhang-0.20261117-010101-4")
    recordings.mkdir(mode=0o700)
    (recordings / "x.recording").write_text("no recording")
    strange = forge(state, "20261117-010101-4", recordings)
    foreign = forge(state, "20261117-010101-5", recordings)
    for path in (strange, strange / "1", strange / "run", foreign / "run"):
        os.chown(path, 65534, 65534)
    j.run(["true"], "--state-dir", state)
    t.same(((recordings / "x.recording").exists(), [p.parent.name for p in state.glob("2026*-[45]/report.json")]), (True, []), "what belongs to another user is not believed")
    shutil.rmtree(recordings)
    os.mkdir(state / "slurm-9191")
    os.chown(state / "slurm-9191", 65534, 65534)
    done = j.run(["true"], "--state-dir", state, env={"SLURM_JOB_ID": "9191"})
    t.same((done.returncode, done.report.get("id")), (0, "slurm-9191-2"), "who takes the name of a run in advance does not keep it from starting")


def test_pruned(t, j):
    """Of old runs that goes which unhang wrote."""
    state = j.unhang.directory / "pruned"
    for n in range(70):
        directory = forge(state, f"20261117-020202-{n:02}", "", status=0)
        text = (directory / "run").read_text()
        (directory / "run").write_text(text.replace("began 1794883718491", f"began {1794883718491 + n}"))
        (directory / "report.json").write_text("{}")
        for name in ("bundle.tar.zst", "diagnosis.json", "diagnosis.txt", "output", "gpucore.17"):
            (directory / "1" / name).write_text("x")
        (directory / "1" / "inputs" / "17" / "3").mkdir(parents=True)
        (directory / "1" / "inputs" / "17" / "3" / "metadata.json").write_text("{}")
    (state / "20261117-020202-00" / "notes.txt").write_text("mine")
    (state / "20261117-020202-01" / "1" / "plot.png").write_text("mine")
    shutil.copytree(state / "20261117-020202-02", state / "kept")
    bundle = state / "repository.bundle"
    bundle.write_text("mine")
    os.utime(bundle, (0, 0))
    mark = state / "torchrun-1.host.1.0.0.bundle"
    mark.write_text("")
    os.utime(mark, (0, 0))
    j.run(["true"], "--state-dir", state)
    left = {str(p.relative_to(state)) for p in state.glob("2026*-0[0-5]/**/*") if p.is_file()}
    runs = {p.parent.name for p in state.glob("20261117-020202-*/run")}
    t.same((len(runs), min(runs)), (64, "20261117-020202-06"), "the newest 64 stay")
    t.same((left, (state / "20261117-020202-03").exists()), ({"20261117-020202-00/notes.txt", "20261117-020202-01/1/plot.png"}, False), "of the others, a user's own files do, and nothing else")
    t.ok((state / "kept" / "run").exists() and (state / "kept" / "1" / "bundle.tar.zst").exists(), "a copy under another name stays")
    t.same((bundle.exists(), mark.exists()), (True, False), "and a file whose name looks like a mark of unhang, with something in it")


# --- the terminal ---

class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, environment):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**environment, "PS1": "PROMPT> ", "TERM": "dumb"})
        self.text = ""

    def until(self, words):
        """Reads up to the words; what stood before them."""
        end = time.monotonic() + PATIENCE
        while words not in self.text and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    break
        if words not in self.text:
            return None
        before, _, self.text = self.text.partition(words)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def shell_is_back(self, group):
        """Whether the job was stopped. The shell prompts as soon as unhang has stopped; a job that still has to stop could read what is meant for the shell."""
        def stopped():
            for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
                except (OSError, ValueError):  # it has ended
                    continue
                if its_group == str(group) and state not in "TZX":
                    return False
            return True
        return self.until("Stopped") is not None and self.until("PROMPT> ") is not None and until(stopped)

    def modes(self):
        return termios.tcgetattr(self.fd)[:4]

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


PROGRAM = r"""
import os, signal, sys
def say(word): os.write(1, (word + "\n").encode())
signal.signal(signal.SIGINT, lambda *_: say("interrupt!"))
signal.signal(signal.SIGCONT, lambda *_: say("continued!"))
signal.signal(signal.SIGWINCH, lambda *_: say("size!%d" % os.get_terminal_size().columns))
say("ready!")
for line in iter(sys.stdin.readline, ""):
    word = line.strip()
    if word == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    elif word == "raw":
        import tty; tty.setraw(0); os.kill(os.getpid(), signal.SIGKILL)
    elif word == "end": sys.exit(6)
    else: say("read!" + word)
"""


def test_terminal(t, j, program=()):
    """@program: one that does what PROGRAM does."""
    program = program or [sys.executable, j.unhang.write("terminal.py", PROGRAM)]
    term = Terminal(j.unhang.environment)
    try:
        term.until("PROMPT> ")
        usual = term.modes()
        command = " ".join(map(str, [*j.arguments("--quiet"), "--", *program])) + "; echo status:$?"
        term.type(command + "\n")
        t.ok(term.until("\nready!") is not None, "a job on a terminal starts")
        term.type("hello\n")
        t.ok(term.until("\nread!hello") is not None, "and reads from it")
        term.type("\x03")
        t.ok(term.until("interrupt!") is not None, "Ctrl-C reaches the job")
        term.type("again\n")
        between = term.until("\nread!again")
        t.ok(between is not None and "interrupt!" not in between, "once, and it goes on", between)
        fcntl.ioctl(term.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
        t.ok(term.until("size!123") is not None, "so does a new size")
        group = os.tcgetpgrp(term.fd)
        term.type("\x1a")
        t.ok(term.shell_is_back(group), "Ctrl-Z stops it, and the shell is back")
        term.type("fg\n")
        t.ok(term.until("continued!") is not None, "fg continues it")
        term.type("more\n")
        t.ok(term.until("\nread!more") is not None, "and it reads again")
        term.type("stop\n")
        t.ok(term.shell_is_back(group), "a job that stops itself gives the terminal back")
        term.type("fg\n")
        t.ok(term.until("continued!") is not None, "until fg")
        term.type("end\n")
        t.ok(term.until("PROMPT> ") is not None, "it ends")
        t.same(j.report()["tries"][0]["ended"], "stopped", "soon after Ctrl-C, so the user wanted that")
        term.type(command + "\n")
        term.until("\nready!")
        term.type("raw\n")
        t.ok(term.until("status:137") is not None and term.until("PROMPT> ") is not None, "a job that is killed in raw mode")
        t.ok(until(lambda: term.modes() == usual, 5) or term.modes()[3] & termios.ICANON == usual[3] & termios.ICANON, "leaves the terminal as it was", term.modes())
        term.type(" ".join(map(str, [*j.arguments("--quiet"), "--", "sh", "-c", "'kill -INT $$'"])) + "; echo status:$?\n")
        t.ok(term.until("status:130") is not None, "a job that SIGINT ends: 130")
    finally:
        term.close()


def test_hangup(t, j):
    """unhang as the leader of its session, and the terminal is closed: the kernel tells nobody else."""
    long = str(20000000 + os.getpid())
    command = list(map(str, [*j.arguments("--quiet"), "--", *shell(f"sleep {long} & echo ready; wait; true")]))
    pid, fd = pty.fork()
    if not pid:
        os.execve(command[0], command, j.unhang.environment)
    said = b""
    while b"ready" not in said:
        said += os.read(fd, 100)
    os.close(fd)
    gone = until(lambda: os.waitpid(pid, os.WNOHANG)[0])
    t.ok(gone and until(lambda: not still_there(long)), "a terminal that is closed ends the job", (gone, still_there(long)))
    t.same(j.report()["tries"][0]["ended"], "stopped", "which is told so")
    if not gone:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for left in still_there(long):
            os.kill(int(left), signal.SIGKILL)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    j = Job(unhang)
    # With real programs these are in job_gpu.py.
    without = () if shutil.which("hipcc") else (test_left, test_terminal)
    for test in (test_status, test_uncalled, test_places, test_not_replaced, test_state, test_refused, test_output, test_copied, test_left_alone, test_sandbox, test_stopped, test_outlived, test_words, test_container, test_inherited, test_full, test_no_process, test_before, test_leaderless, test_signals, test_own_signals, test_limits, test_oom, test_group, test_tries, test_vanished, test_waits, test_ranks, test_first, test_killed, test_forged, test_pruned, test_hangup, *without):
        test(t, j)
    t.end()


if __name__ == "__main__":
    main()
