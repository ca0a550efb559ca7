#!/usr/bin/env python3
"""Evidence that is odd, cut, or meant to harm: what is there is explained, and one line says what is odd. usage: odd_evidence.py UNHANG"""
import bz2
import gzip
import io
import lzma
import os
import pathlib
import pickle
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib

import tap

GPU = "amdgpu 0000:03:00.0: amdgpu: "
LOG = (f"[  100.000000] {GPU}ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n[  100.500000] {GPU}GPU reset begin!\n"
       f"[  101.500000] {GPU}GPU reset(1) succeeded!\n").encode()
REMOTE = "/lib/systemd/systemd-journal-remote"
MB = 1 << 20


def tar_of(name, content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def lines_of(answer):
    return [line for line in answer.stderr.splitlines() if line.startswith("unhang: ")]


def told(t, answer, what, word):
    """One incident, and one line that has @word."""
    lines = lines_of(answer)
    good = len(answer.incidents) == 1 and len(lines) == 1 and word in lines[0] and not answer.complaints
    t.ok(good, what, f"{answer.complaints}\n{len(answer.incidents)} incidents\n{answer.stderr}")


def test_nuls(t, unhang):
    for n in 1, 511:
        answer = unhang.explain_text(bytes(n) + LOG)
        t.ok(len(answer.incidents) == 1, f"{n} NULs before a log", answer.stderr)
    for n in 512, 300_000, MB, 5 * MB + 7:
        holed = bytes(n) + LOG
        told(t, unhang.explain_text(holed), f"{n} NULs before a log", "NUL")
        told(t, unhang.explain("-", stdin=holed), f"{n} NULs on standard input", "NUL")
        told(t, unhang.explain(unhang.write("log.gz", gzip.compress(holed, 1))), f"{n} NULs in a gz", "NUL")
        told(t, unhang.explain(unhang.write("log.tar", tar_of("log", holed))), f"{n} NULs in a tar", "NUL")
    told(t, unhang.explain(unhang.write("log.xz", lzma.compress(bytes(MB) + LOG, preset=0))), "NULs in an xz", "NUL")


def test_prefixes(t, unhang):
    for magic in b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18":
        odd = magic + LOG
        told(t, unhang.explain_text(odd), f"{magic} before a log", "begins like an archive")
        told(t, unhang.explain("-", stdin=odd), f"{magic} on standard input", "begins like an archive")
    told(t, unhang.explain(unhang.write("odd.gz", gzip.compress(b"PK\x03\x04" + LOG))), "PK in a gz", "begins like an archive")
    for skipped in b"\x50\x2a\x4d\x18" + b"\xff" * 4, b"\x5f\x2a\x4d\x18\xf0\0\0\0":
        run = unhang.run("explain", unhang.write("odd.zst", skipped + b"x" * 100))
        t.ok(run.returncode == tap.CANNOT and b"odd.zst" in run.stderr, "a zstd frame that is to be skipped, and is cut, is no all-clear", f"{run.returncode}: {run.stdout} {run.stderr}")


def test_cut(t, unhang):
    whole = gzip.compress(LOG)
    for lacks in range(1, 9):
        told(t, unhang.explain(unhang.write("cut.gz", whole[:-lacks])), f"a gz that lacks its last {lacks} bytes", "cut off")
    long_log = LOG + b"".join(b"[%12.6f] usb 1-1: device %x\n" % (200 + n, n * 2654435761 % 2**32) for n in range(8000))
    whole, wrong = gzip.compress(long_log), []
    for size in range(300, len(whole), len(whole) // 40):
        answer = unhang.explain(unhang.write("cut.gz", whole[:size]))
        if len(answer.incidents) != 1 or len(lines_of(answer)) != 1:
            wrong.append(f"{size} bytes of {len(whole)}: {len(answer.incidents)} incidents, {answer.stderr}")
    t.no_complaints(wrong, "a gz that is cut anywhere behind the incident")
    tarred = gzip.compress(tar_of("logs/dmesg", long_log))
    told(t, unhang.explain(unhang.write("cut.tar.gz", tarred[:-5000])), "a tar.gz that is cut", "cut off")
    answer = unhang.explain("-", stdin=gzip.compress(LOG[:80]) + gzip.compress(LOG[80:]))
    t.ok(len(answer.incidents) == 1 and not answer.stderr, "two gz behind each other are one", answer.stderr)


def zeros(count):
    """Raw deflate of @count times 16 MB of zeros, without an end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(bytes(16 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)) * count


def large_dictionary():
    """An xz that asks for a dictionary of 1.5 GB."""
    data = bytearray(lzma.compress(LOG, check=lzma.CHECK_CRC32))
    size = (data[12] + 1) * 4
    assert data[14] == 0x21
    data[16] = 37
    data[12 + size - 4:12 + size] = struct.pack("<I", zlib.crc32(bytes(data[12:12 + size - 4])))
    return bytes(data)


def test_bombs(t, unhang):
    member = b"\x1f\x8b\x08" + bytes(7) + zeros(700)
    bomb = gzip.compress(gzip.compress(LOG) + member, 6)
    path = unhang.write("bomb.gz", bomb)
    begin = time.monotonic()
    told(t, unhang.explain(path), f"{len(bomb)} bytes that unpack to 11 GB", "1,000 times")
    t.note(f"took {time.monotonic() - begin:.1f} s")
    small = unhang.write("bz2.bz2", bz2.compress(LOG) + bz2.compress(bytes(8 * MB)) * 64)
    told(t, unhang.explain(small), "64 KB that unpack to 512 MB", "1,000 times")
    dictionary, good = unhang.write("large.xz", large_dictionary()), unhang.write("good.log", LOG)
    if tap.is_sanitized(unhang.binary):
        t.skip("an xz with a dictionary of 1.5 GB", "a build with sanitisers has no limit of memory")
    else:
        told(t, unhang.explain(dictionary, good), "an xz with a dictionary of 1.5 GB", "large.xz")


def journal_of(path, count):
    records = []
    for n in range(count):
        usec = 5_000_000 + n * 1000
        records.append(f"__REALTIME_TIMESTAMP={1_700_000_000_000_000 + usec}\n__MONOTONIC_TIMESTAMP={usec}\n_BOOT_ID={1:032x}\n"
                       f"_TRANSPORT=kernel\nPRIORITY=3\n_HOSTNAME=node\nMESSAGE=usb 1-1: message {n * 2654435761 % 2**32:x}\n\n")
    subprocess.run([REMOTE, "-o", path, "-"], input="".join(records).encode(), check=True, capture_output=True)


def maps(pid, path):
    try:
        return path in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def family(pid):
    """The process and its children."""
    found = [pid]
    for one in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(one.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(one.parent.name))
        except (OSError, ValueError):
            pass
    return found


def truncate_under(child, path):
    """Stops the process that has mapped the file, empties it, and lets it go on."""
    while child.poll() is None:
        for pid in family(child.pid):
            if maps(pid, str(path)):
                try:
                    os.kill(pid, signal.SIGSTOP)
                    os.truncate(path, 4096)
                    os.kill(pid, signal.SIGCONT)
                    return True
                except ProcessLookupError:
                    pass
    return False


def test_journal(t, unhang):
    if not os.path.exists(REMOTE):
        t.skip("a journal that is truncated", "systemd-journal-remote is not installed")
        return
    for attempt in range(4):
        answer = cut_while_read(unhang, unhang.directory / f"cut{attempt}.journal")
        if answer:
            return told(t, answer, "a journal that is truncated while it is read", ".journal")
    t.skip("a journal that is truncated while it is read", "it was read before that")


def cut_while_read(unhang, path):
    """The answer; None: all was read, or in the child's memory, before it was cut."""
    good = unhang.write("good.log", LOG)
    journal_of(path, 20000)
    child = subprocess.Popen([unhang.binary, "explain", "--json", path, good], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=unhang.environment)
    caught = []
    watcher = threading.Thread(target=lambda: caught.append(truncate_under(child, path)))
    watcher.start()
    stdout, stderr = child.communicate(timeout=60)
    watcher.join()
    answer = tap.Answer(subprocess.CompletedProcess([], child.returncode, stdout, stderr))
    return answer if caught[0] and lines_of(answer) else None


COMMANDS = [["explain", "LOG"], ["explain", "GZ"], ["explain", "TAR"], ["explain", "ROOM"], ["explain", "-v", "--all", "LOG"], ["explain", "--json", "LOG"],
            ["--json"], ["live"], ["live", "--json"], ["doctor"], ["doctor", "--root", "TREE"], ["where", "--code", "LOG", "0x10"],
            ["waves"], ["waves", "--target", "LOG"], ["queues"], ["rings"], ["regs"], ["regs", "--target", "LOG", "GRBM_STATUS"], ["knowledge"],
            ["knowledge", "version"], ["knowledge", "check", "KNOW"], ["knowledge", "match", "LOG"], ["knowledge", "update", "LOG"], ["--help"]]


def test_stack(t, unhang):
    """Nothing needs more than 64 KB of stack."""
    places = {"LOG": unhang.write("room/log", LOG), "GZ": unhang.write("room/log.gz", gzip.compress(LOG)),
              "TAR": unhang.write("room/log.tar", tar_of("log", LOG)), "ROOM": unhang.directory / "room",
              "TREE": unhang.directory / "tree", "KNOW": unhang.write("room/k.know", "")}
    places["TREE"].mkdir()
    wrong = []
    for command in COMMANDS:
        run = subprocess.run([unhang.binary, *(str(places.get(word, word)) for word in command)], stdin=subprocess.DEVNULL, capture_output=True,
                             env=unhang.environment, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10)))
        if run.returncode not in (0, 1, 2) or b"crashed" in run.stderr:
            wrong.append(f"{command}: {run.returncode} {run.stderr[:200]}")
    t.no_complaints(wrong, "a stack of 64 KB is enough")


def closed(descriptors):
    for fd in descriptors:
        os.close(fd)


def test_closed(t, unhang):
    log, packed = unhang.write("log", LOG), unhang.write("log.gz", gzip.compress(LOG))
    plain = unhang.run("explain", log, packed)
    for descriptors in (0,), (2,), (0, 2):
        run = subprocess.run([unhang.binary, "explain", log, packed], stdin=None, stdout=subprocess.PIPE, env=unhang.environment,
                             preexec_fn=lambda d=descriptors: closed(d))
        t.same((run.returncode, run.stdout), (plain.returncode, plain.stdout), f"the same with {descriptors} closed")


def test_without_openat2(t, unhang):
    """An old kernel, or a filter of system calls: the same answer, and no link in a directory is followed."""
    if not shutil.which("strace"):
        t.skip("without openat2", "there is no strace")
        return
    room = unhang.directory / "links"
    unhang.write("links/a/log.txt", LOG.replace(b"GPU reset", b"gpu reset"))
    unhang.write("outside/log.txt", LOG)
    (room / "a/link.txt").symlink_to(unhang.directory / "outside/log.txt")
    (room / "b").symlink_to("../outside")
    unhang.write("tree/var/crash/one/dmesg.1", LOG)
    (unhang.directory / "tree/var/crash").rename(unhang.directory / "tree/crash")
    (unhang.directory / "tree/var/crash").symlink_to("/crash")
    for command in ["explain", "--json", room], ["explain", "--json", "--root", unhang.directory / "tree"]:
        plain = tap.Answer(unhang.run(*command))
        t.same(len(plain.document["sources"]), 1, f"{command[-2:]}: one source, and it is not behind a link that leads out")
        for error in "ENOSYS", "EPERM":
            run = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2", "-e", f"inject=openat2:error={error}",
                                  unhang.binary, *command], stdin=subprocess.DEVNULL, capture_output=True, env={**unhang.environment, "ASAN_OPTIONS": "detect_leaks=0"})
            t.same((run.returncode, run.stdout), (plain.status, plain.stdout), f"the same where openat2 fails with {error}")


def test_other_machines(t, unhang):
    """A file tells of its own machine and its own time only."""
    run = unhang.run("explain", unhang.write("foo.txt", "foo\n"))
    t.same(" ".join(run.stdout.decode().split()).split("found in ")[-1].split(" ", 1)[-1], "(1 line, 0 known messages). If a program failed on a GPU there, the kernel log tells more; on that machine: sudo unhang", "of a file without a known message nothing is said but where to look")
    many = unhang.directory / "many"
    many.mkdir()
    for n in range(40):
        (many / f"{n}.bin").write_bytes(b"\x01\x02\x03" * 100)
    said = unhang.run("explain", many)
    t.ok(said.returncode == 2 and 1 < said.stderr.count(b"\n") < 12 and b"and 32 more" in said.stderr, "files that are no evidence are named a few times, then counted", said.stderr)
    opcode = "[drm:gfx_v11_0_bad_op_irq [amdgpu]] *ERROR* Illegal opcode in command stream"
    steps = [[s["why"] for s in unhang.explain_text(f"{when} {opcode}\n").first.data["next"]] for when in ("[  100.000000]", "2024-05-01T10:00:00+00:00 host kernel:")]
    t.same([any("5 minutes" in why for why in s) for s in steps], [True, False], "what the driver keeps for minutes is not asked for years later")


def test_no_all_clear(t, unhang):
    """What could not be read may have held an incident: there is no all-clear, in text, JSON and status."""
    quiet = b"[    1.000000] usb 1-1: new high-speed USB device\n" * 40
    trace = pickle.dumps({"version": "2.4", "entries": [{"process_group": ["0", "default"], "state": "started"}] * 20}, protocol=4)
    inputs = {
        "a gzip that is cut off": gzip.compress(quiet + LOG)[:60],
        "a gzip with four other bytes": gzip.compress(os.urandom(2000) + LOG)[:700] + b"XXXX" + gzip.compress(LOG)[-50:],
        "a tar that is cut off": tar_of("quiet.log", quiet)[:1200],
        "a pickle that is cut off": trace[:-40],
    }
    directory = unhang.directory / "clear"
    directory.mkdir()
    (directory / "quiet.log").write_bytes(quiet)
    t.same(unhang.run("explain", directory / "quiet.log").returncode, 0, "a quiet log alone is healthy")
    for what, content in inputs.items():
        path = directory / "odd"
        path.write_bytes(content)
        for paths in [path], [path, directory / "quiet.log"]:
            answer = unhang.explain(*paths)
            t.ok(answer.status == 2 and answer.document["verdict"] == "unknown" and lines_of(answer), f"{what}, {len(paths)} of them: unknown", answer.stderr)
    missing = unhang.run("explain", directory / "quiet.log", directory / "none")
    t.ok(missing.returncode == 2 and b"no all-clear" in missing.stdout, "a file that is not there beside a quiet one", missing.stdout)


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    test_nuls(t, unhang)
    test_prefixes(t, unhang)
    test_cut(t, unhang)
    test_bombs(t, unhang)
    test_journal(t, unhang)
    if not tap.is_sanitized(unhang.binary):
        test_stack(t, unhang)
    test_closed(t, unhang)
    test_other_machines(t, unhang)
    test_no_all_clear(t, unhang)
    test_without_openat2(t, unhang)
    t.end()


main()
