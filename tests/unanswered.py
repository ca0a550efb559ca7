#!/usr/bin/env python3
"""A mount that does not answer any more: whatever is asked of it, unhang ends, names the path, and explains the rest.
usage: unanswered.py UNHANG SILENT_MOUNT"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import node_states
import tap

GPU = "amdgpu 0000:03:00.0: amdgpu: "
LOG = f"[  100.000000] {GPU}ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n[  100.500000] {GPU}GPU reset begin!\n"
FILLER = "".join(f"[  {n:10}.000000] usb 1-1: device {n * 2654435761 % 2**32:x}\n" for n in range(200, 20000))
PATIENCE = 1.5
LIMIT = 45


class Mount:
    """SOURCE, shown by a server that does not answer @operation about @name."""

    def __init__(self, program, room, source, operation, name="silent", *more):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"mount-{operation}-", dir=room))
        self.server = subprocess.Popen([program, self.path, source, operation, name, *more], stderr=subprocess.DEVNULL)
        # The mount itself may not answer, so it is not asked.
        while f" {self.path} " not in pathlib.Path("/proc/self/mountinfo").read_text():
            if self.server.poll() is not None:
                raise OSError("the mount could not be made")
            time.sleep(0.01)

    def end(self):
        self.server.kill()  # which ends what waits for it
        self.server.wait()
        subprocess.run(["umount", "-l", self.path], capture_output=True)


class Run:
    def __init__(self, binary, *arguments, home="/nowhere", stdin=None, patience=PATIENCE):
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "UNHANG_CONTAINER": "no",
                       "UNHANG_PATIENCE": str(patience)}
        environment.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        child = subprocess.Popen([binary, *map(str, arguments)], stdin=open(stdin, "rb") if stdin else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.hung = False
        try:
            self.stdout, self.stderr = child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.hung = True
            child.kill()
            self.stdout, self.stderr = b"", b"(hangs)"
        self.status = child.returncode
        self.stderr = self.stderr.decode()

    def incidents(self):
        try:
            return len(json.loads(self.stdout)["incidents"])
        except ValueError:
            return -1

    def __str__(self):
        return f"status {self.status}\nstderr {self.stderr[:1500]}\nstdout {self.stdout[:300]}"


def fill(source):
    """What stands on the server: evidence, and another machine's tree."""
    for path in "logs/silent.log", "logs/z.log", "plain.log", "silent.gz", "logs/silent.dir/a.log":
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(LOG if "silent" not in path else "[  50.000000] usb 1-1: nothing\n")
    (source / "silent-big.log").write_text(LOG + FILLER)
    (source / "silent.know").write_text("")
    for path in "tree/etc/silent", "tree/var/log", "home/.config/unhang/knowledge.d/silent", "tree/etc/unhang/applied/silent":
        (source / path).mkdir(parents=True)


def plans(m, operation, good):
    """(what it is, arguments, what must be named, whether the incident of a good file is told, other settings)"""
    # Who looks a name up holds its directory, so that the files beside it do not answer either.
    beside = [good] if operation == "getattr" else []
    if operation in ("getattr", "statfs", "open", "read"):
        yield "explain a file", ["explain", "--json", m / "logs/silent.log", good], "silent.log", True, {}
        yield "explain a directory", ["explain", "--json", m / "logs", *beside], "silent", True, {}
        yield "a compressed file", ["explain", "--json", m / "silent.gz", good], "silent.gz", True, {}
        yield "where", ["where", "--code", m / "logs/silent.log", "0x10"], "silent.log", False, {}
        yield "explain --code", ["explain", "--json", "--code", m / "logs/silent.log", good], "", True, {}
        yield "waves --target", ["waves", "--target", m / "logs/silent.log"], "silent.log", False, {}
        yield "regs --target", ["regs", "--target", m / "logs/silent.log", "GRBM_STATUS"], "silent.log", False, {}
        yield "knowledge check", ["knowledge", "check", m / "silent.know"], "silent.know", False, {}
        yield "knowledge update", ["knowledge", "update", m / "silent.know"], "silent.know", False, {}
        yield "knowledge match", ["knowledge", "match", m / "logs/silent.log"], "silent.log", False, {}
        yield "emulate --check", ["emulate", "--check", m / "logs/silent.log"], "silent.log", False, {}
    if operation in ("getattr", "opendir", "readdir"):
        yield "a directory in a directory", ["explain", "--json", m / "logs", *beside], "silent", True, {}
    if operation == "read":
        yield "standard input", ["explain", "--json", "-", good], "-: does not answer", True, {"stdin": m / "logs/silent.log"}
    if operation == "late":
        yield "a file that stops in the middle", ["explain", "--json", m / "silent-big.log"], "silent-big.log", True, {}
    if operation == "flush":
        yield "closing", ["explain", "--json", m / "logs", m / "silent-big.log"], "", True, {}


def all_silent(m, operation, good):
    """Nothing of the mount answers."""
    yield "HOME", ["explain", "--json", good], str(m), True, {"home": m / "home"}
    yield "HOME, where", ["where", "--code", good], "", False, {"home": m / "home"}
    yield "doctor --root", ["doctor", "--root", m / "tree"], str(m) if operation in ("getattr", "statfs") else "", False, {}
    yield "explain --root", ["explain", "--json", "--root", m / "tree", good], "", True, {}
    yield "knowledge version --root", ["knowledge", "version", "--root", m / "tree"], "", False, {}


def fill_history(binary, room):
    """A store with an incident, for what is written of it."""
    subprocess.run([binary, "triage", "--store", room / "store", room / "good.log"], capture_output=True, check=True)


def writing(m, operation, good):
    """The same as plans() for what unhang writes to the mount, or keeps there."""
    store = good.parent / "store"
    yield "explain --html", ["explain", "--html", m / "page.html", good], "page.html", False, {}
    yield "history --html", ["history", "--store", store, "--html", m / "site"], "site", False, {}
    if operation != "create":
        yield "history --store", ["history", "--store", m], str(m), False, {}
        yield "capture -o", ["capture", "-o", m / "x.tar.zst", "--deadline", "1"], "x.tar.zst", False, {}
        yield "capture -o DIR", ["capture", "-o", m, "--deadline", "1"], str(m), False, {}
        yield "collect --store", ["collect", "--store", m / "silent.store", store], "silent.store", False, {}
        yield "collect SPOOL", ["collect", "--store", good.parent / "other.store", m / "spool"], "spool", False, {}
        yield "triage --store", ["triage", "--store", m / "store", good], "store", False, {}
        yield "store check", ["store", "check", "--store", m / "store"], "store", False, {}
        yield "explain --store", ["explain", "--json", "--store", m / "store", good], "store", True, {}
        yield "fleet arbiter --nodes", ["fleet", "arbiter", "--once", "--nodes", m, "--state-dir", good.parent / "arbiter"], str(m), False, {}
        yield "run --status-file", ["run", "--state-dir", good.parent / "runs", "--status-file", m / "status.json", "--", "true"], "status.json", False, {}


# A patience that no test lives to see: only the limits of check itself can end it.
CHECK_PATIENCE = 600


def checks(m, operation, good):
    """unhang check with each of its directories on the mount: (what it is, arguments, what is named on standard error, words of its answer)."""
    here = good.parent / "run"
    for mode in ["--slurm"], ["--npd"], ["--prometheus", "-"], ["--json"]:
        if operation != "create":
            yield f"the watch's state, {mode[0]}", ["check", *mode, "--run-dir", m, "--state-dir", good.parent], "", "unknown"
            yield f"incidents, {mode[0]}", ["check", *mode, "--run-dir", good.parent, "--state-dir", m], "", "unknown"
        yield f"--publish, {mode[0]}", ["check", *mode, "--run-dir", here, "--publish", m], str(m), "failed" if mode[0] != "--npd" else "reboot"
    yield "--prometheus FILE", ["check", "--run-dir", here, "--prometheus", m / "unhang.prom"], "unhang.prom", ""
    if operation != "create":
        yield "all of them", ["check", "--run-dir", m, "--state-dir", m, "--prometheus", m / "unhang.prom", "--publish", m], "unhang.prom", ""


def test_check(t, binary, program, room, good):
    """It has its limits from the beginning to the end: one second for schedulers, five with a look."""
    (room / "run").mkdir()
    node_states.put(room / "run", node_states.state(node_states.incident(action="reboot", fit="no")))
    for operation in "getattr", "create":
        for n in range(len(list(checks(room, operation, good)))):
            mount = Mount(program, room, room / "source", operation, "/")
            what, arguments, named, said = list(checks(mount.path, operation, good))[n]
            began = time.monotonic()
            run = Run(binary, *arguments, patience=CHECK_PATIENCE)
            took, quick = time.monotonic() - began, "--json" not in arguments
            t.ok(not run.hung and run.status == 2 and named in run.stderr and said in run.stdout.decode(), f"check, {operation}: {what}", run)
            t.ok(b'"status": "healthy"' not in run.stdout and b'"healthy"} 1' not in run.stdout, "what came too late is not healthy", run)
            t.note(f"{what}: {took:.2f} s{'' if took < (1 if quick else 5) else ', TOO LATE unless the machine is busy'}")
            mount.end()


def test_swap(t, binary, program, room):
    """A file that becomes a link to one of /proc while it is looked at: whenever that is, the file of /proc is not read."""
    bait = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(300)\n'''\n{LOG}'''"], stdout=subprocess.DEVNULL)
    (room / "swap").mkdir()
    (room / "swap/silent.log").write_text("[  50.000000] usb 1-1: nothing\n")
    wrong = []
    for count in range(12):
        mount = Mount(program, room, room / "swap", "swap", "silent", str(count), f"/proc/{bait.pid}/cmdline")
        run = Run(binary, "explain", "--json", mount.path)
        if run.hung or run.incidents() != 0:
            wrong.append(f"a link after {count} looks: {run}")
        mount.end()
    bait.kill()
    bait.wait()
    t.no_complaints(wrong, "a file that becomes a link to /proc")


def main():
    binary, program = (os.path.abspath(path) for path in sys.argv[1:3])
    if os.geteuid() or not os.path.exists("/dev/fuse") or not shutil.which("unshare"):
        tap.skip_all("mounting needs root, FUSE and unshare")
    if len(sys.argv) == 3:
        os.execvp("unshare", ["unshare", "-m", sys.executable, __file__, binary, program, "inside"])
    t = tap.Tap()
    room = pathlib.Path(tempfile.mkdtemp(prefix="unhang-silent-"))
    fill(room / "source")
    good = room / "good.log"
    good.write_text(LOG)
    mounts, wanted = [], []

    def add(title, operation, make, name):
        """Each with a mount of its own: one that waits must not keep the server from others."""
        for n in range(len(list(make(room, operation, good)))):
            mounts.append(Mount(program, room, room / "source", operation, name))
            wanted.append((title, *list(make(mounts[-1].path, operation, good))[n]))

    for operation in "getattr", "statfs", "open", "read", "opendir", "readdir", "late", "flush":
        add(operation, operation, plans, "silent")
    for operation in "getattr", "statfs", "opendir", "readdir":
        add(operation + " of all", operation, all_silent, "/")
    fill_history(binary, room)
    for operation in "getattr", "create":
        add(operation + " of all", operation, writing, "/")
    slow = Mount(program, room, room / "source", "slow")
    mounts.append(slow)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        runs = [(plan, pool.submit(Run, binary, *plan[2], **plan[5])) for plan in wanted]
        moving = pool.submit(Run, binary, "explain", "--json", slow.path / "silent-big.log", patience=2)
        for (operation, what, _, named, incident, _), run in runs:
            run = run.result()
            good_run = not run.hung and run.status in (0, 1, 2) and named in run.stderr
            t.ok(good_run and (not incident or run.incidents() == 1), f"{operation}: {what}", run)
        run = moving.result()
        t.ok(run.incidents() == 1 and not run.stderr, "what is slow, but moves, is read to its end", run)
    for mount in mounts:
        mount.end()
    test_check(t, binary, program, room, good)
    test_swap(t, binary, program, room)
    shutil.rmtree(room, ignore_errors=True)
    t.end()


main()
