#!/usr/bin/env python3
"""Bad input from end to end: whatever it is given, unhang ends by itself, says what is wrong in one line, and tells
what it could read. usage: bad_input.py UNHANG"""
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unicodedata

TIMEOUT = 60
MEMORY_MAX = 64 << 20
NOBODY = 65534
GPU = b"amdgpu 0000:03:00.0: amdgpu: "
RING = GPU + b"ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102"


def stamped(messages, begin=100.0):
    return b"".join(b"[%12.6f] %s\n" % (begin + n / 1000, m) for n, m in enumerate(messages))


def page_fault(process=b"train", pid=4242):
    return [
        GPU + b"[gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)",
        GPU + b" in process %s pid %d thread %s pid %d)" % (process, pid, process, pid),
        GPU + b"  in page starting at address 0x00007f0011220000 from client 10",
        GPU + b"GCVM_L2_PROTECTION_FAULT_STATUS:0x00301031",
        GPU + b"\t Faulty UTCL2 client ID: TCP (0x8)",
        GPU + b"\t MORE_FAULTS: 0x1",
        GPU + b"\t WALKER_ERROR: 0x0",
        GPU + b"\t PERMISSION_FAULTS: 0x3",
        GPU + b"\t MAPPING_ERROR: 0x0",
        GPU + b"\t RW: 0x0",
    ]


LOG = stamped(page_fault())
RING_LOG = stamped([RING])


class Run:
    """One run of the program, to its end."""

    def __init__(self, *arguments, stdin=subprocess.DEVNULL, stdout=None, prepare=None, environment=None):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen([UNHANG, *arguments], stdin=stdin, stdout=stdout or out, stderr=err,
                                     preexec_fn=prepare, env=environment or ENVIRONMENT)
            alarm = threading.Timer(TIMEOUT, child.kill)
            alarm.start()
            _, status, usage = os.wait4(child.pid, 0)
            self.hung = not alarm.is_alive()
            alarm.cancel()
            child.returncode = os.waitstatus_to_exitcode(status)
            self.status = child.returncode
            self.memory = usage.ru_maxrss * 1024
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()
        self.lines = self.err.decode(errors="replace").splitlines()

    @property
    def broken(self):
        """Why this is no orderly end, or nothing."""
        if self.hung:
            return f"did not end in {TIMEOUT} s"
        if self.status not in (0, 1, 2):
            return f"exit status {self.status}"
        for mark in (b"Sanitizer", b"runtime error", b"INTERNAL ERROR", b"(null)"):
            if mark in self.err + self.out:
                return mark.decode()
        return None

    def __str__(self):
        return f"status {self.status}\nstderr {self.err[-600:]!r}\nstdout {self.out[:600]!r}"


class Tap:
    count = failed = 0

    def ok(self, good, name, why=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}", flush=True)
        if not good:
            print("\n".join(f"# {line}" for line in str(why).splitlines()), flush=True)

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def ends(self, run, statuses, name, lines=None, names=()):
        """An orderly end with one of @statuses, @lines lines on stderr, and @names in them."""
        why = run.broken
        if not why and run.status not in statuses:
            why = f"exit status {run.status}, not {statuses}"
        if not why and lines is not None and len(run.lines) != lines:
            why = f"{len(run.lines)} lines on stderr, not {lines}"
        for wanted in names:
            if not why and wanted not in "\n".join(run.lines):
                why = f"'{wanted}' is not named"
        self.ok(not why, name, f"{why}\n{run}")


tap = Tap()


def write(name, content):
    path = os.path.join(ROOM, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)
    return path


def incidents(run):
    try:
        return json.loads(run.out.decode())["incidents"]
    except (ValueError, KeyError):
        return None


def fact(run, name):
    return [f["value"] for i in incidents(run) or [] for f in i["facts"] if f["name"] == name]


def is_sanitized():
    with open(UNHANG, "rb") as f:
        return b"__asan_init" in f.read()


def control_characters(output):
    """What a terminal would act on: C0 without the newline, DEL, and C1, as UTF-8 or as bytes."""
    text = output.decode(errors="surrogateescape")
    return [c for c in text if (unicodedata.category(c) == "Cc" and c != "\n") or "\udc80" <= c <= "\udc9f"]


# --- files that are no logs ---

def not_logs():
    tap.ends(Run("explain", shutil.copy("/bin/true", ROOM)), [2], "a program", 1, ["true"])
    noise = write("noise", random.Random(1).randbytes(300000))
    tap.ends(Run("explain", noise), [2], "random bytes", 1, ["noise"])
    tap.ends(Run("explain", write("short-noise", random.Random(2).randbytes(100))), [0, 2], "a few random bytes")
    tap.ends(Run("explain", write("empty", b"")), [2], "an empty file", 1, ["empty"])
    tap.ends(Run("explain", write("nuls", bytes(1 << 20))), [2], "nothing but NULs", 1, ["nuls"])
    tap.ends(Run("explain", write("newlines", b"\n" * 100000)), [0], "nothing but newlines", 0)
    good, bad = write("good.log", LOG), os.path.join(ROOM, "noise")
    run = Run("explain", "--json", bad, good)
    tap.ends(run, [1], "random bytes beside a log", 1, ["noise"])


def nuls():
    for name, log in {
        "before": bytes(5000) + LOG,
        "after": LOG + bytes(5000),
        "between lines": LOG.replace(b"\n", b"\n" + bytes(50)),
        "inside lines": LOG[:200] + bytes(3) + LOG[200:],
    }.items():
        run = Run("explain", "--json", write("nul.log", log))
        tap.ends(run, [1], f"NULs {name}: the incident is found", int(name == "before"))


def broken_utf8():
    run = Run("explain", "--json", write("utf8.log", stamped(page_fault(b"tr\xff\xc3(\xed\xa0\x80\xf5n"))))
    tap.ends(run, [1], "broken UTF-8 in a process name", 0)
    tap.ok(incidents(run), "its JSON is UTF-8 and parses", run)
    tap.ok(fact(run, "pid") and fact(run, "pid")[0] == 4242, "its facts are read", run)


def long_line():
    # Written in parts: what this process has used counts as used by its children.
    part = b"many words of no meaning " * 40000
    half = [part] * ((32 << 20) // len(part))
    for name, parts in {
        "in the middle of a line of 64 MB": [*half, RING, b" ", *half],
        "at the end of a line of 64 MB": [*half, *half, RING],
        "behind a line of 64 MB": [*half, *half, b"\n", RING_LOG],
    }.items():
        path = write("long.log", b"")
        with open(path, "ab") as f:
            f.writelines(parts)
        runs = {"file": Run("explain", "--json", path)}
        with open(path, "rb") as f:
            runs["stdin"] = Run("explain", "--json", "-", stdin=f)
        for kind, run in runs.items():
            tap.ends(run, [1], f"{kind}: an incident {name}", 0)
            if is_sanitized():
                tap.skip(f"{kind}: memory, {name}", "sanitizers need more of it")
            else:
                tap.ok(run.memory < MEMORY_MAX, f"{kind}: memory, {name}", f"{run.memory >> 20} MB")
        os.unlink(path)


def numbers():
    digits = b"9" * 400
    for name, log in {
        "kmsg": b"3,1," + digits + b",-;" + RING,
        "brackets": b"[" + digits + b".5] " + RING,
        "a difference": b"[  +" + digits + b".5] " + RING,
        "seconds since 1970": digits + b".5 host kernel: " + RING,
        "a journal record": b'{"__MONOTONIC_TIMESTAMP":"' + digits + b'","MESSAGE":"' + RING + b'"}',
        "a sequence number": RING.replace(b"100", digits),
        "a register": LOG.replace(b"00301031", digits),
    }.items():
        run = Run("explain", "--json", write("numbers.log", log + b"\n"))
        tap.ok(not run.broken and incidents(run) is not None, f"400 digits in {name}", f"{run.broken}\n{run}")
        run = Run("explain", "--verbose", write("numbers.log", log + b"\n"))
        tap.ends(run, [0, 1], f"400 digits in {name}, as text", 0)


def slow_lines():
    """Lines on which templates with several values could be tried in very many ways."""
    pieces = [b"in process a pid 1 thread ", b"Process a pid ",
              b"[gfxhub] page fault (src_id:1 ring:1 vmid:1 pasid:1, for process ", b" pid 1 thread a pid",
              b"PCIe Bus Error: severity=a, type=", b"gim error:(", b"amdgpu amdgpu: "]
    lines = [(piece * 4096)[:4090] for piece in pieces]
    rng = random.Random(3)
    lines += [b"".join(rng.choices(pieces, k=100))[:4090] for _ in range(40)]
    tap.ends(Run("explain", write("slow.log", b"\n".join(lines) + b"\n")), [0, 1], "lines with very many beginnings of messages")
    tap.ends(Run("explain", write("slow.log", stamped(lines))), [0, 1], "the same with times")
    # Messages that begin with a text of any length, and messages with spaces.
    for name, line in (("texts", b"amdgpu: " + b"a dclk Fa " * 400),
                       ("spaces", b"amdgpu: Process information: process" + b" " * 4000 + b"x")):
        tap.ends(Run("explain", write("slow.log", (line + b"\n") * 400)), [0, 1], f"400 slow lines, {name}")


def terminal():
    evil = b"a\x1b[2J\x1b]0;title\x07b\x9b31mc\xc2\x9b31md\x08\x7f\re"
    path = write("evil\x1b[31m.log", stamped(page_fault(evil) + [RING + evil]))
    for option in "--all", "--verbose":
        run = Run("explain", option, path)
        tap.ends(run, [1], f"terminal escapes in evidence, {option}")
        tap.ok(not control_characters(run.out), "none of them reaches the output", control_characters(run.out))
    run = Run("knowledge", "match", path)
    tap.ends(run, [0], "terminal escapes, knowledge match")
    tap.ok(not control_characters(run.out), "none of them reaches the output", control_characters(run.out))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in ("a\x1b[2J\nb", b"\x7fELF" + bytes(1000)), ("c\x1b[2Jd.log", LOG):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    run = Run("explain", write("evil.tar", packed.getvalue()))
    tap.ends(run, [1], "terminal escapes in the names of an archive's members", 1)
    tap.ok(not control_characters(run.out + run.err), "none of them reaches output or stderr", run)


# --- archives ---

def truncated_archives():
    rng = random.Random(4)
    log = LOG + b"".join(b"[%12.6f] usb 1-%d: device %x\n" % (200 + n, n % 7, rng.getrandbits(64)) for n in range(20000))
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        member = tarfile.TarInfo("logs/dmesg.txt")
        member.size = len(log)
        tar.addfile(member, io.BytesIO(log))
    packed = {"log.gz": gzip.compress(log), "log.xz": lzma.compress(log), "log.tar.gz": gzip.compress(tarred.getvalue()),
              "log.tar": tarred.getvalue()}
    if shutil.which("zstd"):
        packed["log.zst"] = subprocess.run(["zstd", "-q", "-c"], input=log, stdout=subprocess.PIPE, check=True).stdout
    else:
        tap.skip("a truncated log.zst", "there is no zstd")
    for name, content in packed.items():
        tap.ends(Run("explain", write(name, content)), [1], f"a whole {name}", 0)
        run = Run("explain", write(name, content[:len(content) * 2 // 3]))
        tap.ends(run, [1], f"a truncated {name}: the diagnosis of the front, and one line", 1, [name])
        for size in 1, 2, 6, 20, 100:
            run = Run("explain", write(name, content[:size]))
            tap.ends(run, [0, 1, 2], f"the first {size} bytes of {name}")
            tap.ok((run.status == 2) <= len(run.lines) <= 1, f"{size} bytes of {name}: one line, or none", run)
        damaged = bytearray(content)
        for at in rng.sample(range(len(content)), 20):
            damaged[at] ^= 0x55
        tap.ends(Run("explain", write(name, bytes(damaged))), [0, 1, 2], f"a damaged {name}")


def tar_of_many():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (("a/one.log", RING_LOG), ("a/b/c/two.log", stamped(page_fault(), 9000.0)), ("a/empty", b""),
                              ("../../up.log", b"nothing\n"), ("/root.log", b"nothing\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for kind, name in ((tarfile.DIRTYPE, "a/dir"), (tarfile.SYMTYPE, "a/link"), (tarfile.FIFOTYPE, "a/fifo")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "link"
            tar.addfile(member)
    run = Run("explain", "--json", write("many.tar.gz", packed.getvalue()))
    tap.ends(run, [1], "a tar with several logs, directories, links and a FIFO")
    tap.ok(len(incidents(run) or []) == 2, "the incidents of two of its members", run)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("only-a-directory")
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    tap.ends(Run("explain", write("nothing.tar", packed.getvalue())), [2], "a tar with a directory only", 1, ["nothing.tar"])


def tar_with_hole():
    """Two kilobytes that say they are a log of four terabytes: a GNU sparse member, nearly all of it a hole."""
    number = lambda n: tarfile.itn(n, 12, tarfile.GNU_FORMAT)
    member = tarfile.TarInfo("big.log")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 512
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[386:434] = number(0) + number(512) + number(4 << 40) + number(0)
    head[483:495] = number(4 << 40)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    run = Run("explain", write("hole.tar", bytes(head) + RING_LOG.ljust(512, b"\n") + bytes(1024)))
    tap.ends(run, [1], "a tar whose member has a hole of 4 TB")


# --- what a path may be ---

def paths():
    gone = os.path.join(ROOM, "no", "such.log")
    tap.ends(Run("explain", gone), [2], "a path that does not exist", 1, [gone, "No such file or directory"])
    tap.ends(Run("explain", "--json", gone), [2], "the same with --json", 1, [gone])
    tap.ends(Run("explain", ""), [2], "an empty path", 1)
    run = Run("explain", "--json", gone, write("good.log", LOG))
    tap.ends(run, [1], "a path that does not exist beside a log", 1, [gone])
    tap.ends(Run("explain", "/dev/null"), [2], "/dev/null", 1, ["/dev/null"])
    tap.ends(Run("explain", "/dev/zero"), [2], "/dev/zero", 1, ["/dev/zero"])
    nest = os.path.join(ROOM, "nest")
    write("nest/a/b/dmesg.txt", LOG)
    tap.ends(Run("explain", nest), [1], "a directory with a log below", 0)
    os.mkdir(os.path.join(ROOM, "bare"))
    tap.ends(Run("explain", os.path.join(ROOM, "bare")), [2], "an empty directory", 1, ["bare"])
    deep = os.path.join(ROOM, "deep", *["d"] * 40)
    os.makedirs(deep)
    tap.ends(Run("explain", os.path.join(ROOM, "deep")), [2], "a very deep directory", 1, ["deep"])
    loop = os.path.join(ROOM, "loop")
    os.symlink("loop", loop)
    tap.ends(Run("explain", loop), [2], "a link to itself", 1, [loop])
    round_about = os.path.join(ROOM, "round")
    os.mkdir(round_about)
    os.symlink(".", os.path.join(round_about, "again"))
    tap.ends(Run("explain", round_about), [2], "a directory with nothing but a link to itself", 1, [round_about])
    write("round/dmesg.txt", LOG)
    tap.ends(Run("explain", round_about), [1], "a directory with a log and a link to itself", 0)


def forbidden():
    for path in "/proc/kmsg", "/proc", "/sys/kernel", "/sys/kernel/notes", "/sys/kernel/debug", "/sys/kernel/debug/dri":
        if os.path.exists(path):
            tap.ends(Run("explain", path), [2], f"{path} is not read", 1, [path])
        else:
            tap.skip(f"{path} is not read", "this machine has none")
    link = os.path.join(ROOM, "innocent.log")
    os.symlink("/proc/kmsg", link)
    tap.ends(Run("explain", link), [2], "nor through a link", 1, [link])


def become_nobody():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def permissions():
    if Run("--version", prepare=become_nobody).status:
        tap.skip("files without permission", "nobody cannot run the program here")
        return
    closed = os.path.join(ROOM, "closed")
    write("closed/dmesg.txt", LOG)
    os.chmod(closed, 0)
    tap.ends(Run("explain", closed, prepare=become_nobody), [2], "a directory without permission", 1, [closed, "Permission denied"])
    os.chmod(closed, 0o755)
    some = os.path.join(ROOM, "some")
    write("some/a.log", RING_LOG)
    secret = write("some/b.log", LOG)
    write("some/c.log", stamped(page_fault(), 9000.0))
    os.chmod(secret, 0)
    run = Run("explain", "--json", some, prepare=become_nobody)
    tap.ends(run, [1], "a file without permission among others", 1, [secret, "Permission denied"])
    tap.ok(len(incidents(run) or []) == 2, "the others are explained", run)


# --- FIFOs and standard streams ---

def fifos():
    path = os.path.join(ROOM, "fifo")
    os.mkfifo(path)
    tap.ends(Run("explain", path), [2], "a FIFO without a writer", 1, [path])
    tap.ends(Run("knowledge", "match", path), [0, 2], "knowledge match of a FIFO without a writer")

    def writer():
        with open(path, "wb") as f:
            f.write(LOG)

    thread = threading.Thread(target=writer)
    thread.start()
    run = Run("explain", path)
    if run.hung or run.status == 2:  # let the writer go
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    thread.join()
    tap.ends(run, [1], "a FIFO with a writer", 0)
    os.unlink(path)


def standard_streams():
    log = write("good.log", LOG)
    tap.ends(Run("explain", "-", stdin=None, prepare=lambda: os.close(0)), [2], "standard input closed", 1, ["-"])
    tap.ends(Run("knowledge", "match", stdin=None, prepare=lambda: os.close(0)), [2], "the same, knowledge match", 1)
    tap.ends(Run("explain", "-"), [2], "standard input empty", 1)
    with open("/dev/zero", "rb") as f:
        tap.ends(Run("explain", "-", stdin=f), [2], "/dev/zero at standard input", 1)
    directory = os.open(ROOM, os.O_RDONLY)
    tap.ends(Run("explain", "-", stdin=directory), [2], "a directory at standard input", 1)
    os.close(directory)
    tap.ends(Run("explain", log, prepare=lambda: os.close(1)), [2], "standard output closed", 1)
    tap.ends(Run("explain", log, prepare=lambda: (os.close(0), os.close(1), os.close(2))), [2], "all of them closed")
    for arguments in (["explain", log], ["explain", "--json", log], ["knowledge", "list"], ["knowledge", "match", log],
                      ["knowledge", "show", "ring-timeout"], ["--help"], ["--version"]):
        with open("/dev/full", "wb") as f:
            run = Run(*arguments, stdout=f)
        tap.ends(run, [2], f"standard output full: {' '.join(arguments[:2])}".replace(ROOM, ""), 1)


# --- the command line and the user's knowledge ---

def command_line():
    for arguments, named in (
        (["explain", "--bogus"], "--bogus"), (["explain", "-z"], "-z"), (["explain", "-zq"], "z"), (["explain", "-vz"], "z"),
        (["--bogus"], "--bogus"), (["frobnicate"], "frobnicate"), ([""], "''"), (["explain", "--boot"], "--boot"),
        (["explain", "--boot", "abc"], "abc"), (["explain", "--boot", "1"], "1"),
        (["explain", "--boot=-99999999999999999999"], "-9999"),
        (["explain", "--json=3"], "--json"), (["knowledge", "frobnicate"], "knowledge"), (["knowledge", "show"], "knowledge"),
        (["knowledge", "show", "no-such-thing"], "no-such-thing"), (["knowledge", "list", "no-such-kind"], "no-such-kind"),
        (["knowledge", "--bogus"], "knowledge"), (["knowledge", "match", "/no/such.log"], "/no/such.log"),
        (["knowledge", "match", ROOM], ROOM), (["knowledge", "check", ROOM], ROOM),
        (["knowledge", "check", "/dev/zero"], "/dev/zero"),
    ):
        tap.ends(Run(*arguments), [2], " ".join(["unhang", *arguments]).replace(ROOM, "DIRECTORY"), 1, [named])


def user_knowledge():
    signature = b"signature mine\n    match my own message {n:int}\n    subsystem ring\n"
    log = write("mine.log", stamped([GPU + b"my own message 5", RING]))
    for name, text, problems in (
        ("an incomplete signature", signature + b"    event ring-timeout\n", 1),
        ("a signature of an unknown event", signature + b"    level error\n    event nonsense\n", 1),
        ("a detail of an unknown event", signature + b"    level error\n    detail nonsense\n", 1),
        ("an action that never fits", b"action unknown\n    do nothing\n    when class = nonsense\n    text never\n", 0),
        ("noise", random.Random(5).randbytes(5000), None),
        ("one endless value", b"event e\n    title x\n" + b"      more words\n" * 10000, None),
        ("very many words", b"remedy r\n    for " + b"gpu-page-fault-unmapped " * 200000 + b"\n", None),
    ):
        write("config/unhang/knowledge.d/mine.know", text)
        run = Run("explain", "--json", log, environment={**ENVIRONMENT, "XDG_CONFIG_HOME": os.path.join(ROOM, "config")})
        tap.ends(run, [1], f"knowledge with {name}", problems, ["mine.know:"] if problems else [])
        tap.ok(incidents(run), f"knowledge with {name}: the rest is used", run)
        if not is_sanitized():
            tap.ok(run.memory < MEMORY_MAX, f"knowledge with {name}: memory", f"{run.memory >> 20} MB")
        tap.ends(Run("knowledge", "check", os.path.join(ROOM, "config/unhang/knowledge.d/mine.know")), [0, 2], f"check of {name}")


# --- files that change ---

def shrinking_file():
    content = LOG + b"[  200.000000] usb 1-1: a line that is nobody's\n" * 60000
    rng = random.Random(6)
    wrong = []
    for n in range(15):
        path = write("shrinking.log", content)
        stop = threading.Event()

        def shrink():
            while not stop.is_set():
                os.truncate(path, rng.randrange(len(content)))
                with open(path, "ab") as f:
                    f.write(content[:rng.randrange(len(content))])

        thread = threading.Thread(target=shrink)
        thread.start()
        run = Run("explain", "--json", path)
        stop.set()
        thread.join()
        if run.broken or incidents(run) is None:
            wrong.append(f"{run.broken}\n{run}")
    tap.ok(not wrong, "a log that is truncated while it is read", "\n".join(wrong[:3]))


def main():
    for test in (long_line, not_logs, nuls, broken_utf8, numbers, slow_lines, terminal, truncated_archives, tar_of_many,
                 tar_with_hole, paths, forbidden, permissions, fifos, standard_streams, command_line, user_knowledge, shrinking_file):
        began = time.monotonic()
        test()
        print(f"# {test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if len(sys.argv) != 2:
    sys.exit(__doc__)
with tempfile.TemporaryDirectory(prefix="unhang-bad-", dir="/var/tmp") as ROOM:
    os.chmod(ROOM, 0o755)
    UNHANG = shutil.copy(sys.argv[1], os.path.join(ROOM, "unhang"))  # where nobody can reach it
    os.chmod(UNHANG, stat.S_IRUSR | stat.S_IXUSR | 0o055)
    ENVIRONMENT = {**os.environ, "HOME": os.path.join(ROOM, "home"), "XDG_CONFIG_HOME": os.path.join(ROOM, "none"),
                   "LC_ALL": "C.UTF-8"}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = main()
sys.exit(status)
