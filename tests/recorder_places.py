#!/usr/bin/env python3
"""Where the flight recorder puts its files, what it never touches there, and who is believed: strangers, limits, small file systems.

recorder_places.py UNHANG FAKE_RUNTIME RECORDER. What needs another user or a file system of its own needs root."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

import recorder
import tap

MAGIC = b"UNHANGRC"
VICTIM, STRANGER = 64123, 64124
SMALL = 64 << 20  # Docker's /dev/shm
RENAME = """import ctypes, sys
libc = ctypes.CDLL(None)
while True:
    libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
"""


class Apart:
    """A mount namespace with a /dev/shm of its own. Its files are seen from outside below `shm`."""

    def __init__(self, size):
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o mode=1777,size={size} none /dev/shm && echo ready && exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.possible = self.holder.stdout.readline() == "ready\n"
        self.shm = pathlib.Path(f"/proc/{self.holder.pid}/root/dev/shm")

    def command(self, *words, user=0):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *map(str, words)]

    def run(self, *words, user=0, environment=None):
        return subprocess.run(self.command(*words, user=user), env=environment, capture_output=True, text=True, check=False, timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.communicate()


def plain(job, **settings):
    """Without UNHANG_RECORDING: the recorder chooses."""
    return {k: v for k, v in job.environment(**settings).items() if k != "UNHANG_RECORDING"}


def seen(path):
    """What must not change of something that is none of ours."""
    s = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(s.st_mode) else os.readlink(path) if stat.S_ISLNK(s.st_mode) else s.st_rdev
    return (s.st_ino, s.st_mode, s.st_uid, s.st_nlink, content)


def strange_things(folder):
    """Everything that a name can lead to and that is no recording of this user."""
    (folder / "text").write_text("the only copy of a thesis")
    (folder / "empty").touch()
    (folder / "beginning").write_bytes(MAGIC[:7])
    os.mkfifo(folder / "fifo")
    (folder / "directory").mkdir()
    (folder / "directory" / "inside").write_text("x")
    (folder / "real").write_bytes(MAGIC + bytes(40000))
    (folder / "link").symlink_to("real")
    (folder / "dangling").symlink_to("nowhere")
    if os.getuid() == 0:
        (folder / "stranger").write_bytes(MAGIC + bytes(40000))
        os.chown(folder / "stranger", STRANGER, STRANGER)
        with contextlib.suppress(OSError):
            os.mknod(folder / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return sorted(p for p in folder.iterdir() if p.name != "real")


def test_nothing_is_deleted(t, job):
    folder = job.where / "strange"
    folder.mkdir()
    things = strange_things(folder)
    before = {p: seen(p) for p in folder.iterdir()}
    for path in things:
        ran = job.run("run", "launches=3", UNHANG_RECORDING=str(path))
        t.ok(ran.returncode == 0 and "done" in ran.out and ran.err.count("\n") == 1 and "nothing is recorded" in ran.err, f"{path.name} in its place: one line, and the job runs",
             f"{ran.returncode} {ran.err}")
    for path in things:
        ran = job.run("fault", UNHANG_CORE=str(path))
        t.ok(ran.returncode == -signal.SIGKILL and ran.err.count("\n") == 1 and "no GPU core" in ran.err, f"{path.name} in the place of a GPU core: one line", f"{ran.returncode} {ran.err}")
    for path in things:
        if path.name != "directory":
            path.rename(f"{path}.part")
            job.run("fault", UNHANG_CORE=str(path))
            pathlib.Path(f"{path}.part").rename(path)
    t.same({p: seen(p) for p in folder.iterdir()}, before, "and none of them was changed, nor anything left beside them")


def test_off(t, job):
    for word in ("off", "0"):
        folder = job.where / f"work-{word}"
        folder.mkdir()
        ran = subprocess.run([job.program, job.library, "run", "launches=3"], env=job.environment(UNHANG_RECORDING=word), cwd=folder, capture_output=True, text=True, check=False)
        t.same((ran.returncode, ran.stdout, ran.stderr, list(folder.iterdir())), (0, "done\n", "", []), f"UNHANG_RECORDING={word}: off, without a word")
    device = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && \"$@\" && test -c /dev/null && ls /dev"
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", device, "sh", job.program, job.library, "run", "launches=3"], env=job.environment(UNHANG_RECORDING="/dev/null"),
                         capture_output=True, text=True, check=False)
    if re.search("^(unshare|mount|mknod):", ran.stderr):
        t.skip("/dev/null means off", "no /dev of its own can be made here")
    else:
        t.same((ran.returncode, ran.stdout, ran.stderr), (0, "done\nnull\n", ""), "UNHANG_RECORDING=/dev/null: off, without a word, and the device is there")


def test_older_recordings_are_replaced(t, job):
    path, kept = job.where / "again.recording", job.where / "kept"
    settings = {"UNHANG_RECORDING": str(path)}
    first = job.run("run", "launches=3", **settings)
    os.link(path, kept)
    second = job.run("run", "launches=5", **settings)
    t.same((first.err, second.err, [job.last(p)["recordings"][0]["queues"][0]["launched"] for p in (path, kept)]), ("", "", [5, 3]),
           "an older recording of this user is replaced; another name of it keeps it")
    lives = job.start("stay", "launches=7", **settings)
    lives.stdout.readline()
    third = job.run("run", "launches=9", **settings)
    t.same((third.err, [job.last(p)["recordings"][0]["queues"][0]["launched"] for p in (path, job.where / "2-again.recording")]), ("", [7, 9]),
           "one whose process lives is not: there is another name")
    lives.kill()
    lives.communicate()
    core = job.where / "again.gpucore"
    for _ in range(2):
        job.run("fault", UNHANG_CORE=str(core))
    t.same(core.read_bytes()[:4], b"\x7fELF", "a GPU core is replaced by a newer one")
    t.same([p.name for p in job.where.iterdir() if "new" in p.name or "part" in p.name], [], "and nothing is left beside them")


def test_race(t, job):
    """Somebody keeps exchanging the name with that of another file: whatever is replaced, it is never that file."""
    folder = job.where / "race"
    folder.mkdir()
    path, precious = folder / "x.recording", folder / "precious"
    job.run("run", "launches=1", UNHANG_RECORDING=str(path))
    precious.write_text("the only copy")
    number = precious.stat().st_ino
    swaps = subprocess.Popen([sys.executable, "-c", RENAME, path, precious])
    for _ in range(20):
        job.run("run", "launches=1", UNHANG_RECORDING=str(path), UNHANG_KEEP="0")
    swaps.kill()
    swaps.wait()
    t.same([p.read_text() for p in folder.iterdir() if p.stat().st_ino == number], ["the only copy"], "a file that takes the place at any moment is there afterwards")


def limited(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_limit_of_file_sizes(t, job, folder):
    """RLIMIT_FSIZE, beyond which the kernel ends a program that knows nothing of it (SIGXFSZ)."""
    def run(size, mode, *options, stderr=subprocess.PIPE, **settings):
        return subprocess.run([job.program, job.library, mode, *options], env=job.environment(**settings), stdout=subprocess.PIPE, stderr=stderr, text=True, check=False,
                              preexec_fn=limited(size), timeout=60)
    for size in (0, 4, 8, 4096, 32768, 36864, 200000, 1 << 20):
        path = job.where / "limited.recording"
        path.unlink(missing_ok=True)
        ran = run(size, "run", "launches=20", "queues=4", "size=16384", UNHANG_LEVEL="3", UNHANG_RECORDING=str(path))
        told = job.last(path)
        t.ok((ran.returncode, ran.stdout) == (0, "done\n") and (size < 200000 or told), f"a limit of {size} bytes: the job runs, and what fits is recorded", f"{ran.returncode} {ran.stderr}")
    for size in (65536, 300000, 1500000):
        ran = run(size, "fault", UNHANG_CORE=str(job.where / f"limited-{size}.gpucore"))
        t.same(ran.returncode, -signal.SIGKILL, f"a limit of {size} bytes: the light GPU core ends nobody")
    full = folder / "stderr"
    full.write_bytes(bytes(8192))
    with open(full, "ab") as f:
        ran = run(4096, "run", "launches=3", stderr=f, UNHANG_LEVEL="lots")
    t.same((ran.returncode, ran.stdout), (0, "done\n"), "nor does a line to a stderr that is full")
    out, into = os.pipe()
    os.close(out)
    ran = run(1 << 30, "run", "launches=3", stderr=into, UNHANG_LEVEL="lots")
    os.close(into)
    t.same((ran.returncode, ran.stdout), (0, "done\n"), "nor one that nobody reads")
    lives = subprocess.Popen([job.program, job.library, "stay", "launches=3"], env=job.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited(200000))
    lives.stdout.readline()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{lives.pid}/status").read_text().splitlines())
    ours = 1 << (signal.SIGXFSZ - 1) | 1 << (signal.SIGPIPE - 1)
    t.same({k: int(status[k], 16) & ours for k in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")}, {k: 0 for k in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")},
           "and the job's own writes have their signals as before")
    lives.kill()
    lives.communicate()


def test_descriptor_is_taken(t, job):
    """A program that closes descriptors which are not its own, and gets their numbers for its files: the recorder writes to its own file only."""
    victim = job.where / "checkpoint"
    victim.write_bytes(b"precious" * 8192)
    before = seen(victim)
    for level in ("1", "3"):
        ran = job.run("run", "launches=30", "queues=3", UNHANG_LEVEL=level, FAKE_VICTIM=str(victim))
        r = job.read(ran.pid, "--all")
        t.same((ran.returncode, ran.err, seen(victim) == before), (0, "", True), f"level {level}: the program's file is as it was")
        t.same([q["launched"] for q in r["queues"]], [30, 0, 0], f"level {level}: and the recording goes on")
    ran = job.start("stay", "launches=30", FAKE_VICTIM=str(victim))
    ran.stdout.readline()

    def is_locked():
        with open(job.path(ran.pid), "r+b") as f, contextlib.suppress(OSError):
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        return True
    t.ok(tap.wait_for(is_locked), "its lock still says that the process lives")
    end([ran])
    ran = job.run("run", "launches=30", "moved=1", UNHANG_LEVEL="3", FAKE_VICTIM=str(victim))
    moved = job.where / f"{ran.pid}.recording.moved"
    t.ok((ran.returncode, seen(victim) == before) == (0, True) and ran.err.count("\n") == 1 and "the program closed the recording" in ran.err, "where it cannot be opened again, one line says so", ran.err)
    asked = job.unhang.run("explain", moved)
    t.ok(asked.returncode == 2 and b"the program closed the recorder's file" in asked.stderr, "and so does who reads what there is", asked.stdout + asked.stderr)
    without = subprocess.Popen(["sh", "-c", 'exec "$@" 2>&-', "sh", job.program, job.library, "run", "size=4096"], env=job.environment(UNHANG_SPACE="64K"), stdout=subprocess.PIPE)
    without.communicate()
    t.ok(job.read(without.pid), "what is said to a standard error that is closed does not go into the recording")


def start_ranks(job, room, n, **settings):
    ranks = []
    for rank in range(n):
        ran = subprocess.Popen(room.command(job.program, job.library, "stay", "launches=3000", "queues=4", "size=16384", "operations=1"),
                               env=plain(job, UNHANG_LEVEL="3", RANK=str(rank), **settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ran.stdout.readline()
        ranks.append(ran)
    return ranks


def end(ranks):
    for ran in ranks:
        ran.kill()
        ran.err = ran.communicate()[1]


def test_small_shared_memory(t, job):
    """Docker's 64 MB: eight ranks take a quarter, also where eight others have died there."""
    with Apart(SMALL) as room:
        if not room.possible:
            return t.skip("a small /dev/shm", "no file system can be mounted here")
        for what in ("eight ranks", "the next eight"):
            ranks = start_ranks(job, room, 8, UNHANG_KEEP="8")
            used = sum(p.stat().st_blocks * 512 for p in room.shm.rglob("*") if p.is_file())
            t.ok(0 < used <= SMALL // 4, f"{what} at level 3 take a quarter of 64 MB", f"{used >> 10} KB")
            t.note(f"{used >> 10} KB")
            asked = room.run(job.unhang.binary, "last", "--json", str(ranks[5].pid), environment=job.unhang.environment)
            told = json.loads(asked.stdout)["recordings"][0] if asked.returncode == 0 else {"queues": []}
            t.same([q["launched"] for q in told["queues"]], [3000, 0, 0, 0], f"{what}: each of them with its queues")
            # Nothing is left: stores to what is mapped must still have their memory.
            filler = room.shm / "filler"
            with contextlib.suppress(OSError), open(filler, "wb") as f:
                while True:
                    f.write(bytes(1 << 20))
            late = room.run(job.program, job.library, "run", "launches=50", environment=plain(job))
            t.ok((late.returncode, late.stdout) == (0, "done\n") and late.stderr.count("\n") == 1 and "no room" in late.stderr, f"{what}: where nothing is left, one line", late.stderr)
            filler.unlink()
            end(ranks)
            t.ok(all(r.err.count("\n") == 1 and "is small" in r.err for r in ranks), f"{what}: each says so in one line", ranks[0].err)


def test_full_shared_memory(t, job):
    """Every piece has its memory before it is mapped: a tmpfs that fills up later ends nobody (SIGBUS)."""
    with Apart(SMALL) as room:
        if not room.possible:
            return t.skip("a full /dev/shm", "no file system can be mounted here")
        ran = subprocess.Popen(room.command(job.program, job.library, "fault", "wait=1", "queues=4", "size=16384", "allocations=8"), env=plain(job, UNHANG_LEVEL="3", UNHANG_CORE="/dev/shm/core"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        tap.wait_for(lambda: list(room.shm.rglob("*.recording")))
        with contextlib.suppress(OSError), open(room.shm / "filler", "wb") as f:
            while True:
                f.write(bytes(1 << 20))
        ran.communicate("\n", timeout=60)
        t.same(ran.returncode, -signal.SIGKILL, "the job goes on to its own end")


def made_in_advance(top, how):
    """The directory that a user's recordings would go to, made by somebody else."""
    path = top / f"unhang-{VICTIM}"
    if how == "a link":
        (top / "own").mkdir()
        os.chown(top / "own", VICTIM, VICTIM)
        path.symlink_to("own")
    elif how == "a file":
        path.touch()
    else:
        path.mkdir()
        path.chmod(int(how, 8))
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    return path


def test_directories_of_strangers(t, job):
    """A stranger made the directory: another one is used, and those who look for recordings find it."""
    for how in ("0755", "1777", "0777", "a link", "a file"):
        with Apart(SMALL * 64) as room:
            if not room.possible:
                return t.skip("directories of strangers", "no file system can be mounted here")
            path = made_in_advance(room.shm, how)
            ran = subprocess.Popen(room.command(job.program, job.library, "stay", "launches=20", user=VICTIM), env=plain(job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            ran.stdout.readline()
            asked = [room.run(job.unhang.binary, "last", "--json", *of, user=user, environment=job.unhang.environment)
                     for user in (VICTIM, 0) for of in ((), (str(ran.pid),))]
            end([ran])
            room.run(job.program, job.library, "run", "launches=20", user=VICTIM, environment=plain(job))
            found = [p for p in room.shm.glob("unhang-*") if p.name != path.name] or [path]
            t.ok(len(found) == 1 and re.fullmatch(rf"unhang-{VICTIM}\.own-\w{{6}}", found[0].name) and found[0].stat().st_mode & 0o777 == 0o700 and len(list(found[0].iterdir())) == 2,
                 f"{how}: the recordings of one job and the next go to a directory of their user alone", list(room.shm.rglob("*")))
            t.ok(ran.err.count("\n") == 1 and path.name in ran.err and found[0].name in ran.err, f"{how}: one line says so", ran.err)
            t.same([(a.returncode, json.loads(a.stdout or "{}").get("recordings", [{}])[0].get("pid")) for a in asked], [(0, ran.pid)] * 4, f"{how}: the user finds it, and root, by process or not")
            t.ok(not stat.S_ISDIR(path.lstat().st_mode) or not list(path.iterdir()), f"{how}: and nothing is there", how)


def test_run_among_strangers(t, job):
    """The names of runs under a launcher can be guessed."""
    with Apart(SMALL * 64) as room, tempfile.TemporaryDirectory() as state:
        if not room.possible:
            return t.skip("unhang run among strangers", "no file system can be mounted here")
        os.chown(state, VICTIM, VICTIM)

        def recordings(number):
            ran = room.run(job.unhang.binary, "run", "--state-dir", f"{state}/{number}", "--", "sh", "-c", "echo $UNHANG_RECORDING; ls -d ${UNHANG_RECORDING%/*}", user=VICTIM,
                           environment={**job.unhang.environment, "SLURM_JOB_ID": "77", "HOME": state})
            return ran.returncode, ran.stdout.split("\n")[0]
        status, named = recordings(1)
        directory = pathlib.Path(named).parent
        taken = room.shm / directory.name
        taken.mkdir()
        os.chown(taken, STRANGER, STRANGER)
        again, other = recordings(2)
        t.ok((status, again) == (0, 0) and other.startswith(f"{directory}-"), "where a stranger has the directory, another one is used", f"{named} {other}")
        t.same(list(room.shm.iterdir()), [taken], "and removed in the end")
    own = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mkdir /dev/shm && \"$@\""
    with tempfile.TemporaryDirectory() as state:
        ran = subprocess.run(["unshare", "--mount", "sh", "-c", own, "sh", job.unhang.binary, "run", "--state-dir", state, "--", "sh", "-c", "echo $UNHANG_RECORDING; ls /dev"],
                             env={**job.unhang.environment, "UNHANG_RECORDING": "/dev/null"}, capture_output=True, text=True, check=False)
    if re.search("^(unshare|mount|mknod):", ran.stderr):
        return t.skip("UNHANG_RECORDING=/dev/null makes no directory in /dev", "no /dev of its own can be made here")
    t.ok((ran.returncode, ran.stdout) == (0, "/dev/null\nnull\nshm\n"), "UNHANG_RECORDING=/dev/null is obeyed, and makes no directory in /dev", ran.stdout + ran.stderr)


def forge(room, user, name, content):
    """A recording that a user puts where recordings are looked for."""
    path = room.shm / f"unhang-{user}" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    for p in (path.parent, path):
        os.chown(p, user, user)
    return path


def test_forged_recordings(t, job):
    """A stranger's file about another user's process: it is the stranger's, and never that process's."""
    def last(*of, user=0):
        asked = room.run(job.unhang.binary, "last", "--json", *of, user=user, environment=job.unhang.environment)
        return json.loads(asked.stdout)["recordings"][0] if asked.returncode == 0 else {"user": None, "state": None, "said": asked.stderr}

    def said(*of):
        return last(*of).get("said", "")
    with Apart(SMALL * 64) as room:
        if not room.possible:
            return t.skip("forged recordings", "no file system can be mounted here")
        # A process of the victim's without a recording of its own.
        lives = subprocess.Popen(room.command("cat", user=VICTIM), stdin=subprocess.PIPE)
        job.run("run", "launches=20", UNHANG_RECORDING=str(job.where / "true.recording"))
        forged = bytearray((job.where / "true.recording").read_bytes())
        forged[20:24] = lives.pid.to_bytes(4, "little")  # struct rec_header: pid
        name = f"host.{lives.pid}.recording"
        forge(room, STRANGER, name, forged)
        told = said(str(lives.pid))
        t.ok("has no recording" in told, "root is not told it for the process's", told)
        told = last()
        t.same((told.get("user"), told["state"]), (STRANGER, "ended"), "without a process it is the newest, told as the stranger's")
        text = room.run(job.unhang.binary, "last", environment=job.unhang.environment).stdout
        t.ok(f", user {STRANGER})" in text.splitlines()[0], "and in words", text)
        linked = room.shm / f"unhang-{STRANGER}" / f"linked.{lives.pid}.recording"
        true = forge(room, VICTIM, "other.1.recording", forged)
        linked.symlink_to(f"../unhang-{VICTIM}/other.1.recording")
        t.ok("has no recording" in said(str(lives.pid)), "nor is a link to one of the victim's", "")
        true.unlink()
        linked.unlink()
        lives.communicate()
        t.same(last(str(lives.pid)).get("user"), STRANGER, "of a process that is gone the only one is told")
        forge(room, VICTIM, name, forged)
        told = said(str(lives.pid))
        t.ok("is gone" in told and f"unhang-{VICTIM}/{name}" in told and f"unhang-{STRANGER}/{name}" in told, "of two users' neither is believed, and both are named", told)
        t.same(last(str(lives.pid), user=VICTIM).get("user"), VICTIM, "the victim has their own")
        (room.shm / f"unhang-{STRANGER}" / name).unlink()
        for i in range(200):
            forge(room, STRANGER, "x.1.recording", b"x").parent.rename(room.shm / f"unhang-0.{i}")
        t.same(last(str(room.shm / f"unhang-{VICTIM}")).get("user"), VICTIM, "a directory that is named is read whoever has it")
        t.same(last(str(lives.pid)).get("user"), VICTIM, "and two hundred directories of a stranger hide nothing")
        os.chown(room.shm / f"unhang-{VICTIM}" / name, STRANGER, STRANGER)
        told = said(str(lives.pid))
        t.ok("is not believed" in told and told.count("\n") == 1, "a file of the stranger's in a directory of the victim's does not count", told)


def test_last_is_not_silenced(t, job):
    """A stranger's files neither hide root's recording nor stand before it."""
    def last():
        asked = room.run(job.unhang.binary, "last", "--json", environment=job.unhang.environment)
        return asked, [r["user"] for r in json.loads(asked.stdout)["recordings"]] if asked.returncode == 0 else None
    with Apart(SMALL * 64) as room:
        if not room.possible:
            return t.skip("strangers' recordings that cannot be read", "no file system can be mounted here")
        path = job.where / "own.recording"
        job.run("run", "launches=20", UNHANG_RECORDING=str(path))
        whole = path.read_bytes()
        older = forge(room, STRANGER, "older.1.recording", whole)
        os.utime(older, (1, 1))
        forge(room, STRANGER, "empty.1.recording", b"")
        asked, users = last()
        t.ok(users == [STRANGER] and asked.stderr.count("\n") == 1 and "empty.1.recording" in asked.stderr, "an empty recording is passed over with one line", asked.stderr)
        forge(room, 0, "own.1.recording", whole)
        future = forge(room, STRANGER, "future.1.recording", whole)
        os.utime(future, (2**32, 2**32))
        asked, users = last()
        t.same((users, asked.stderr), ([0], ""), "root's own comes before a stranger's, whatever time that has")


def test_no_room_for_a_queue(t, job):
    """Nobody says that a job launched nothing whose queue had no room."""
    with Apart(2 << 20) as room, tempfile.TemporaryDirectory() as state:
        if not room.possible:
            return t.skip("no room for a queue", "no file system can be mounted here")
        program = (job.program, job.library, "run", "launches=5", "size=4096")
        room.run(job.unhang.binary, "run", "--state-dir", state, "--status-file", f"{state}/status", "--", *program, environment=job.unhang.environment)
        last = json.loads(pathlib.Path(state, "status").read_text())["tries"][-1]
        t.ok(last["ended"] == "done" and "is not known: there was no room" in last["because"], "run: what it launched is not known", last)
        room.run(*program, environment=plain(job))
        recording = f"/dev/shm/unhang-0/{next(room.shm.glob('unhang-0/*.recording')).name}"
        text = room.run(job.unhang.binary, "last", recording, environment=job.unhang.environment).stdout
        t.ok("What it launched is not known: there was no room to record a queue." in text and "No queue was made" not in text, "last says so", text)
        asked = room.run(job.unhang.binary, "explain", recording, environment=job.unhang.environment)
        t.ok(asked.returncode == 2 and asked.stderr.count("\n") == 1 and "no room to record a queue" in asked.stderr, "explain does so, too", asked.stdout + asked.stderr)


def test_not_all_is_recorded(t, job):
    """Nobody says that a job launched nothing whose processes could not be recorded, and what is lacking is told."""
    program = f"{job.program} {job.library} run launches=5"
    empty = "for f in ${UNHANG_RECORDING%/*}/*; do : > $f; done"
    for name, size, command, options, ended, because, lacking in (
            ("no room at all", 64 << 10, program, (), "done", "What it launched is not known: a process could not be recorded", "Not all of the job was recorded: a process could not"),
            ("recordings that somebody emptied", SMALL, f"{program}; {empty}", (), "done", "What it launched is not known: a process could not be recorded", "Not all of the job was recorded: a process could not"),
            ("more short processes than there is room for", SMALL, f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {program}; done", (), "done", "It ended by itself with status 0.", "no room for the recordings of all"),
            ("another user", SMALL, f"setpriv --reuid={VICTIM} --regid={VICTIM} --clear-groups sleep 1000", ("--deadline", "3"), "deadline", "", "ran as another user"),
            ("all is recorded", SMALL, program, (), "done", "It ended by itself with status 0.", None)):
        with Apart(size) as room, tempfile.TemporaryDirectory() as state:
            if not room.possible:
                return t.skip("what is not recorded", "no file system can be mounted here")
            room.run(job.unhang.binary, "run", "--state-dir", state, "--status-file", f"{state}/status", *options, "--", "sh", "-c", command, environment=job.unhang.environment)
            last = json.loads(pathlib.Path(state, "status").read_text())["tries"][-1]
            t.ok(last["ended"] == ended and because in last["because"] and (lacking in last["lacking"] if lacking and last["lacking"] else lacking == last["lacking"]), name, last)


def main():
    t, unhang = tap.Tap(), tap.Unhang(os.path.abspath(sys.argv[1]))
    where = tempfile.mkdtemp(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    job = recorder.Job(t, unhang, os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3]), where)
    try:
        test_nothing_is_deleted(t, job)
        test_off(t, job)
        test_older_recordings_are_replaced(t, job)
        test_race(t, job)
        test_descriptor_is_taken(t, job)
        with tempfile.TemporaryDirectory() as folder:
            test_limit_of_file_sizes(t, job, pathlib.Path(folder))
        if os.getuid() == 0:
            test_small_shared_memory(t, job)
            test_full_shared_memory(t, job)
            test_directories_of_strangers(t, job)
            test_run_among_strangers(t, job)
            test_forged_recordings(t, job)
            test_last_is_not_silenced(t, job)
            test_no_room_for_a_queue(t, job)
            test_not_all_is_recorded(t, job)
        else:
            t.skip("strangers and small file systems", "only root can make them")
    finally:
        shutil.rmtree(where, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
