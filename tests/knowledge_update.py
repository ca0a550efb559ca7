#!/usr/bin/env python3
"""Signed knowledge: keys, export, update and its refusals, what an update changes in a diagnosis, and an update that is killed."""
import base64
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import zlib

import tap

UPDATE = "var/lib/unhang/knowledge/update.know"
BUILT_IN = int((tap.HERE / ".." / "knowledge" / "VERSION").read_text())
BAD = """known-bad fleet-mes-99
    for    mes-unresponsive cp-fetch-page-fault gpu-page-fault-unmapped
    when   gfx = gfx1151 and fw_mes = 0x99
    title  MES firmware 0x99 hangs
    grade  C
    source our own fleet
"""
SIGNATURE = """class house-alarm  the house is on fire
event fire
    title  fire
    opens  yes
signature fire-alarm
    event      fire
    subsystem  driver
    level      error
    match      smoke detector in {room} reports {degrees:int} C
cause house-alarm
    from       fire
    stage      hardware
    confidence 90
    severity   5
    fault      node
    title      The {room} is on fire
    explain    Leave.
"""
ALARM = "[  100.000000] smoke detector in kitchen reports 71 C\n"
HANG = """[    0.000000] Linux version 6.12.48-amd64 (builder@host) (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC
[    3.100000] amdgpu 0000:c3:00.0: enabling device (0006 -> 0007)
[    3.200000] amdgpu 0000:c3:00.0: amdgpu: initializing kernel modesetting (IP DISCOVERY 0x1002:0x1586 0x1002:0x1586 0xC1).
MES feature version: 1, firmware version: 0x00000083
[  500.000000] amdgpu 0000:c3:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE
[  500.100000] amdgpu 0000:c3:00.0: amdgpu: failed to remove hardware queue from MES, doorbell=0x1000
"""


class Fleet:
    """A key, a machine's tree that trusts it, and files that it signed."""

    def __init__(self, unhang):
        self.unhang = unhang
        self.root = unhang.directory / "root"
        self.key = unhang.directory / "fleet.key"
        self.keys = self.root / "etc/unhang/keys.d"
        self.keys.mkdir(parents=True)
        self.installed = self.root / UPDATE
        self.made = 0

    def trust(self):
        shutil.copy(f"{self.key}.pub", self.keys / "fleet.pub")

    def sign(self, version, *files, key=None):
        """The path of a signed file of these (name, text)."""
        self.made += 1
        paths = [self.unhang.write(f"parts-{self.made}/{name}", text) for name, text in files]
        out = self.unhang.directory / f"signed-{self.made}"
        run = self.unhang.run("knowledge", "export", "--key", key or self.key, "--version", version, "-o", out, *paths)
        assert run.returncode == 0, run.stderr
        return out

    def update(self, *arguments):
        return self.unhang.run("knowledge", "update", "--root", self.root, *arguments)

    def contents(self):
        return self.installed.read_bytes() if self.installed.exists() else None

    def refused(self, t, path, words, name):
        """Status 2, one line with these words, nothing changed."""
        before = self.contents()
        run = self.update(path)
        said = run.stderr.decode()
        good = run.returncode == tap.CANNOT and said.count("\n") == 1 and not run.stdout and all(word in said for word in words)
        t.ok(good and self.contents() == before, name, f"status {run.returncode}, changed: {self.contents() != before}: {said}{run.stdout[:200]}")

    def resigned(self, path, change):
        """The file with its signed bytes changed, a right checksum, and a right signature of the same key, made by openssl."""
        front = path.read_bytes().split(b"\ncrc32 ")[0] + b"\n"
        front = change(front)
        front += b"crc32 %08x\n" % zlib.crc32(front)
        text = self.unhang.write("resign", front)
        signature = self.unhang.directory / "resign.sig"
        subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.key, "-in", text, "-out", signature], check=True, capture_output=True)
        return self.unhang.write("resigned", front + b"signature " + base64.b64encode(signature.read_bytes()) + b"\n")


def test_key(t, fleet):
    unhang = fleet.unhang
    run = unhang.run("knowledge", "key", fleet.key)
    public = fleet.key.with_name("fleet.key.pub")
    t.ok(run.returncode == 0 and not run.stderr, "a key is made", run.stderr)
    t.same((fleet.key.stat().st_mode & 0o777, public.stat().st_mode & 0o777), (0o600, 0o644), "only its owner may read the secret one")
    before = fleet.key.read_bytes(), public.read_bytes()
    run = unhang.run("knowledge", "key", fleet.key)
    t.ok(run.returncode == tap.CANNOT and (fleet.key.read_bytes(), public.read_bytes()) == before, "it is never overwritten", run.stderr)
    lone = unhang.write("lone.pub", "something")
    run = unhang.run("knowledge", "key", unhang.directory / "lone")
    t.ok(run.returncode == tap.CANNOT and lone.read_text() == "something" and not (unhang.directory / "lone").exists(), "nor is a public one, and then no secret one is left", run.stderr)
    if shutil.which("openssl"):
        run = subprocess.run(["openssl", "pkey", "-in", fleet.key, "-pubout"], capture_output=True)
        t.same(run.stdout, public.read_bytes(), "openssl reads the secret key, and makes the same public one of it")


def test_openssl(t, fleet):
    """OpenSSL's program as a second opinion, and as the maker of keys."""
    unhang = fleet.unhang
    path = fleet.sign(BUILT_IN + 1, ("fleet.know", BAD))
    data = path.read_bytes()
    front, signature = data[:data.rindex(b"signature ")], data[data.rindex(b"signature ") + len(b"signature "):]
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", f"{fleet.key}.pub", "-rawin", "-in", unhang.write("front", front),
              "-sigfile", unhang.write("front.sig", base64.b64decode(signature))]
    t.ok(subprocess.run(verify, capture_output=True).returncode == 0, "openssl finds the signature right: it is of all but the last line")
    unhang.write("front", front + b" ")
    t.ok(subprocess.run(verify, capture_output=True).returncode != 0, "and wrong where a byte was added")
    own = unhang.directory / "openssl.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", own], check=True, capture_output=True)
    with open(fleet.keys / "openssl.pub", "wb") as out:
        subprocess.run(["openssl", "pkey", "-in", own, "-pubout"], check=True, stdout=out)
    own.chmod(0o600)
    run = fleet.update("--dry-run", fleet.sign(BUILT_IN + 1, ("fleet.know", BAD), key=own))
    t.ok(run.returncode == 0 and b"openssl.pub" in run.stdout, "keys that openssl made sign and are trusted", run.stderr)
    t.ok(not fleet.installed.exists(), "a dry run writes nothing")
    resigned = fleet.resigned(path, lambda front: front)
    t.ok(fleet.update("--dry-run", resigned).returncode == 0, "what openssl signed is taken")
    fleet.refused(t, fleet.resigned(path, lambda front: front.replace(b"unhang-knowledge 1\n", b"unhang-knowledge 2\n")), ["schema 2", "reads 1", "update unhang"], "refused: schema 2")
    fleet.refused(t, fleet.resigned(path, lambda front: front.replace(b"blocks 1\n", b"blocks 2\n")), ["schema 2", "update unhang"], "refused: blocks of a later schema")
    broken = fleet.resigned(path, lambda front: front.replace(b"grade  C", b"grade  Z"))
    fleet.refused(t, broken, ["fleet.know:5", "grade"], "refused: a block with a problem")
    unknown = fleet.resigned(path, lambda front: front.replace(b"known-bad fleet", b"known-odd fleet"))
    fleet.refused(t, unknown, ["fleet.know:1", "known-odd"], "refused: a kind of block that there is not")


def test_refusals(t, fleet):
    unhang = fleet.unhang
    path = fleet.sign(BUILT_IN + 5, ("fleet.know", BAD))
    data = path.read_bytes()
    (fleet.keys / "fleet.pub").unlink()
    key = re.search(rb"^key (\S+)", data, re.M).group(1).decode()
    fleet.refused(t, path, ["trusted key", key, "etc/unhang/keys.d"], "refused: nobody's key is trusted, with the key and where it would have to be")
    unhang.run("knowledge", "key", unhang.directory / "other")
    for name in ("fleet.pub.off", "fleet.pem", "pub"):
        shutil.copy(f"{fleet.key}.pub", fleet.keys / name)
        fleet.refused(t, path, ["trusted key", key], f"refused: a key in a file named {name} is not trusted")
        (fleet.keys / name).unlink()
    shutil.copy(unhang.directory / "other.pub", fleet.keys)
    fleet.refused(t, path, ["trusted key", key], "refused: another key is trusted")
    fleet.trust()
    trusted = fleet.keys / "fleet.pub"
    for mode in (0o666, 0o664):
        trusted.chmod(mode)
        fleet.refused(t, path, ["fleet.pub", "not only its owner may write"], f"refused: the key's file has mode {mode:o}")
    trusted.chmod(0o644)
    trusted.write_text(trusted.read_text().replace("MCow", "MCox"))
    fleet.refused(t, path, ["trusted key", "fleet.pub", "no Ed25519 public key"], "refused: the key's file is no key")
    trusted.unlink()
    os.mkfifo(trusted)
    fleet.refused(t, path, ["trusted key", "not a file"], "refused: the key's file is a FIFO, and nobody waits for it")
    trusted.unlink()
    fleet.trust()
    fleet.refused(t, unhang.write("plain.know", BAD), ["not a signed knowledge file"], "refused: a plain knowledge file")
    fleet.refused(t, unhang.directory / "absent", ["absent"], "refused: no file")
    fleet.refused(t, unhang.directory, ["not a file"], "refused: a directory")
    wrong = []
    for at in range(3, len(data), 1 + len(data) // 24):
        for what, bad in (("changed", data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]), ("cut", data[:at])):
            run = fleet.update(unhang.write("damaged", bad))
            if run.returncode != tap.CANNOT or run.stderr.count(b"\n") != 1 or fleet.installed.exists():
                wrong.append(f"{what} at {at}: status {run.returncode} {run.stderr}")
    t.no_complaints(wrong, "refused: changed or cut at any byte")
    front = data[:data.rindex(b"crc32 ")].replace(b"0x99", b"0x98")
    forged = front + b"crc32 %08x\n" % zlib.crc32(front) + data[data.rindex(b"signature "):]
    fleet.refused(t, unhang.write("forged", forged), ["signature is wrong"], "refused: changed, with a right checksum")
    unsigned = front + b"crc32 %08x\n" % zlib.crc32(front)
    fleet.refused(t, unhang.write("unsigned", unsigned), ["signature"], "refused: without a signature")
    fleet.installed.parent.mkdir(parents=True, exist_ok=True)
    anybody = os.open(fleet.installed.parent, os.O_RDONLY)
    fcntl.flock(anybody, fcntl.LOCK_EX)
    t.ok(fleet.update(path).returncode == 0 and fleet.contents() == data, "the same file, untouched, is taken, and kept as it is, whoever locks the directory")
    os.close(anybody)
    fd = os.open(fleet.installed.parent / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fleet.refused(t, fleet.sign(BUILT_IN + 6, ("fleet.know", BAD)), ["another"], "refused: while another one runs")
    run = fleet.update("--remove")
    t.ok(run.returncode == tap.CANNOT and fleet.installed.exists(), "--remove too", run.stderr)
    os.close(fd)
    os.unlink(fleet.installed.parent / ".lock")
    version = json.loads(unhang.run("knowledge", "version", "--json", "--root", fleet.root).stdout)
    t.same((version["in_use"], version["update"]["key"], version["update"]["note"]), (BUILT_IN + 5, key, None), "version --root tells of the tree")
    fleet.refused(t, path, [f"version {BUILT_IN + 5}", f"installed {BUILT_IN + 5}"], "refused: the version that is installed")
    fleet.refused(t, fleet.sign(BUILT_IN + 4, ("fleet.know", BAD)), [f"version {BUILT_IN + 4}", f"installed {BUILT_IN + 5}"], "refused: an older version")


def test_export(t, fleet):
    unhang = fleet.unhang
    good = unhang.write("good.know", BAD)
    out = unhang.write("precious.txt", "mine")
    arguments = ["knowledge", "export", "--key", fleet.key, "--version", BUILT_IN + 1]

    def fails(name, words, *more):
        run = unhang.run(*more)
        said = run.stderr.decode()
        t.ok(run.returncode == tap.CANNOT and said.count("\n") == 1 and not run.stdout and all(word in said for word in words), name, f"{run.returncode}: {said}{run.stdout[:100]}")

    fails("export does not overwrite what is no knowledge", ["precious.txt"], *arguments, "-o", out, good)
    t.same(out.read_text(), "mine", "which stays as it is")
    fails("nor a device", ["/dev/null"], *arguments, "-o", "/dev/null", good)
    fails("export of a file that is not there", ["absent.know"], *arguments, good, unhang.directory / "absent.know")
    fails("export of a wrong block", ["bad.know:1"], *arguments, unhang.write("bad.know", "known-bad x\n"))
    fails("export of two files of one name", ["two files"], *arguments, good, unhang.write("again/good.know", BAD))
    fails("export of a file of another name", ["name"], *arguments, unhang.write("good.txt", BAD))
    fails("export without a key", ["--key"], "knowledge", "export", "--version", "1", good)
    fails("export of a version that is no number", ["--version"], "knowledge", "export", "--key", fleet.key, "--version", "1.2", good)
    fails("export of a version that nobody would take", ["built-in"], "knowledge", "export", "--key", fleet.key, "--version", BUILT_IN, good)
    fails("export with the public key", ["secret"], "knowledge", "export", "--key", f"{fleet.key}.pub", "--version", BUILT_IN + 1, good)
    fails("export with a note of two lines", ["note"], *arguments, "--note", "a\nversion 3", good)
    fleet.key.chmod(0o640)
    fails("export with a secret key that others may read", ["others", "chmod"], *arguments, good)
    fleet.key.chmod(0o600)
    run = unhang.run(*arguments, "--note", "for the test", good)
    t.ok(run.returncode == 0 and run.stdout.startswith(b"unhang-knowledge 1\n") and b"\nnote for the test\n" in run.stdout and BAD.encode() in run.stdout, "export to standard output, for people to read", run.stderr)
    twice = unhang.directory / "twice"
    t.same([unhang.run(*arguments, "-o", twice, good).returncode for _ in range(2)], [0, 0], "export replaces its own file")
    t.ok(twice.read_bytes().count(b"\nsignature ") == 1 and BAD.encode() in twice.read_bytes(), "with one that is whole", twice.read_bytes()[-300:])
    run = unhang.run(*arguments)
    names = re.findall(rb"^file (\S+) \d+$", run.stdout, re.M)
    wanted = sorted(p.name for p in (tap.HERE / ".." / "knowledge").rglob("*.know"))
    t.ok(run.returncode == 0 and not set(wanted) - {n.decode() for n in names}, "export without files: all that is known", run.stderr)
    fleet.update("--remove")
    run = fleet.update("--dry-run", unhang.write("all", run.stdout))
    t.ok(run.returncode == 0 and b"changes no block" in run.stdout, "which changes nothing for the same unhang", run.stdout + run.stderr)


def test_retract(t, unhang):
    """Whatever kind of block there is by name and id can be withdrawn."""
    kinds = re.search(rb"^kinds: ([^\n]*(?:\n +[^\n]*)*)", unhang.run("knowledge", "--help").stdout, re.M).group(1).decode()
    kinds = [kind.strip() for kind in kinds.replace("\n", " ").split(",")]
    known = unhang.write("retract.know", "".join(f"retract {kind} no-such\n" for kind in kinds))
    said = unhang.run("knowledge", "check", known).stderr.decode()
    one_line = {"message", "class", "anchor", "bridge", "calibration", "common", "renamed", "desktop", "fact", "foreign", "frame", "month", "override", "reason", "matters", "ring", "shader", "switch", "together", "tool", "usual", "variable", "vendor"}
    t.same((len(kinds) > 30, set(re.findall(r"kind '(\S+)'", said))), (True, one_line), "every kind but those of one line can be retracted")


def inside(fleet, *arguments):
    """Runs unhang where the tree's /var/lib is the machine's."""
    way = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    command = [*way, "sh", "-c", 'mount --bind "$0" /var/lib && exec "$@"', fleet.root / "var/lib", fleet.unhang.binary, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=fleet.unhang.environment, timeout=60)


def test_used(t, fleet):
    unhang = fleet.unhang
    if inside(fleet, "--version").returncode:
        t.skip("what an update changes", "no mount name space can be made here")
        return
    alarm, hang = unhang.write("alarm.txt", ALARM), unhang.write("hang.txt", HANG)

    def explain(path):
        return tap.Answer(inside(fleet, "explain", "--json", path))

    fleet.update("--remove")
    before = explain(hang)
    t.ok("mes-83-gfx1151" in before.first.known and not explain(alarm).incidents, "without the update: what is built in", before.document)
    run = fleet.update(fleet.sign(BUILT_IN + 10, ("fleet.know", BAD.replace("0x99", "0x83") + "retract known-bad mes-83-gfx1151\n"), ("alarm.know", SIGNATURE)))
    said = run.stdout.decode()
    t.ok(run.returncode == 0 and all(word in said for word in ("fleet-mes-99", "fire-alarm", "gone", "mes-83-gfx1151", "1 signature")), "update says what is new and gone", said + run.stderr.decode())
    after = explain(hang)
    t.ok("fleet-mes-99" in after.first.known and "mes-83-gfx1151" not in after.first.known, "a new known-bad is told, a retracted one not", after.first.known)
    t.same((after.classes, after.complaints, after.stderr), (before.classes, [], ""), "and else it is the same diagnosis")
    t.same((explain(alarm).classes, explain(alarm).first.cause["title"]), (["house-alarm"], "The kitchen is on fire"), "a new signature is found")
    listed = inside(fleet, "knowledge").stdout.decode()
    t.ok(listed.startswith(f"knowledge {BUILT_IN + 10} of ") and "update.know" in listed.splitlines()[0], "the list begins with the version and where it is from", listed[:200])
    shown = inside(fleet, "knowledge", "show", "fleet-mes-99").stdout.decode()
    t.ok("update.know:fleet.know:1" in shown and "our own fleet" in shown, "show has the block and its place", shown)
    version = json.loads(inside(fleet, "knowledge", "version", "--json").stdout)
    t.same((version["in_use"], version["built_in"], version["update"]["version"], version["problem"]), (BUILT_IN + 10, BUILT_IN, BUILT_IN + 10, None), "version --json")
    versions = (tap.HERE / ".." / "knowledge" / "versions.know").read_text()
    kept = re.sub(r"^known-bad mes-83-gfx1151\n(?:[ \t].*\n)+", "", versions, flags=re.M)
    run = fleet.update(fleet.sign(BUILT_IN + 11, ("versions.know", kept)))
    t.ok(run.returncode == 0 and b"gone" in run.stdout and kept != versions, "a file of the name of one that is built in", run.stderr)
    t.ok("mes-83-gfx1151" not in explain(hang).first.known and not explain(alarm).incidents, "takes its place, and that of the update before")
    good = fleet.contents()
    for name, bad in (("damaged", good[:-200] + b"x" + good[-199:]), ("cut", good[:1000]), ("empty", b""), ("something else", b"\0\xff" * 100)):
        fleet.installed.write_bytes(bad)
        answer = explain(hang)
        t.ok(answer.status == 1 and "mes-83-gfx1151" in answer.first.known and "update.know" in answer.stderr and answer.stderr.count("\n") == 1, f"an update that is {name}: said in one line, and what is built in is used", answer.stderr)
    fleet.installed.write_bytes(good)
    fleet.installed.chmod(0o666)
    t.ok("not only its owner may write" in explain(hang).stderr, "an update that others may write is not used")
    fleet.installed.chmod(0o644)
    old = re.sub(rb"^version .*$", b"version 1", good.split(b"\ncrc32 ")[0] + b"\n", flags=re.M)
    fleet.installed.write_bytes(old + b"crc32 %08x\n" % zlib.crc32(old) + good[good.rindex(b"signature "):])
    t.ok("mes-83-gfx1151" in explain(hang).first.known and b"not newer" in inside(fleet, "knowledge", "version").stdout, "an update that is older than what is built in is not used")
    run = fleet.update("--remove")
    t.ok(run.returncode == 0 and not fleet.installed.exists() and str(BUILT_IN).encode() in run.stdout, "--remove takes it back", run.stderr)
    run = fleet.update("--remove")
    t.ok(run.returncode == 0 and b"no update" in run.stdout, "once more: there is none", run.stderr)


CALLS = ["openat", "mkdirat", "unlinkat", "fchmod", "write", "fsync", "/^rename", "close", "exit_group"]


def test_killed(t, fleet):
    """Killed at any system call that could matter: the old one or the new one, whole, and the next update works."""
    unhang = fleet.unhang
    old, new = (fleet.sign(BUILT_IN + n, ("fleet.know", BAD + f"# {n}\n" * 3000)) for n in (20, 21))
    environment = {**unhang.environment, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [unhang.binary, "knowledge", "update", "--root", str(fleet.root), str(new)]

    def strace(*options):
        return subprocess.run(["strace", "-f", "-qq", "-o", unhang.directory / "trace", *options, *command], capture_output=True, env=environment, timeout=60)

    fleet.update("--remove")
    fleet.update(old)
    if not shutil.which("strace") or strace("-e", "trace=" + ",".join(CALLS)).returncode:
        t.skip("an update that is killed", "no strace, or it may not trace here")
        return
    trace = (unhang.directory / "trace").read_text()
    # strace counts for each process; the child that reads is another.
    made = re.findall(rf"^{trace.split()[0]} +(\w+)\(", trace, re.M)
    ends, wrong = set(), []
    for call in CALLS:
        # Of those that come often only the last ones: the others are of the dynamic linker.
        count = sum(bool(re.search(call[1:], name)) if call[0] == "/" else name == call for name in made)
        for when in range(max(1, count - 4), count + 1):
            fleet.update("--remove")
            fleet.update(old)
            run = strace("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}")
            found = fleet.contents()
            end = "old" if found == old.read_bytes() else "new" if found == new.read_bytes() else None
            ends.add(end)
            if not end or run.returncode == 0:
                wrong.append(f"at {call} {when}: status {run.returncode}, {end} {found and len(found)}")
    t.no_complaints(wrong, f"killed at {', '.join(CALLS)}: the old or the new one is there, whole")
    t.same(ends, {"old", "new"}, "an update killed at any call leaves the old one or the new one, and both occur")
    fleet.update("--remove")
    strace("-e", "trace=fsync", "-e", "inject=fsync:signal=KILL:when=1")
    left = sorted(p.name for p in fleet.installed.parent.iterdir() if p.name != ".lock")
    t.ok(len(left) == 1 and left[0] != "update.know", "killed before the file has its name: only an unfinished one is left", left)
    fleet.update(old)
    t.same([p.name for p in fleet.installed.parent.iterdir()], ["update.know"], "which the next update clears away")
    for call in ("fchmod", "write", "fsync", "/^rename"):
        run = strace("-e", f"trace={call}", "-e", f"inject={call}:error=ENOSPC:when=1")
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1 and b"No space" in run.stderr, f"{call} fails: status 2 and one line", run.stderr)
        t.ok(fleet.contents() == old.read_bytes() and len(list(fleet.installed.parent.iterdir())) == 1, f"{call} fails: the old one is there, and nothing besides")


def test_root(t, fleet):
    """Links in another machine's tree do not lead out of it."""
    unhang = fleet.unhang
    outside = unhang.directory / "outside"
    (outside / "lib").mkdir(parents=True)
    shutil.rmtree(fleet.root / "var")
    (fleet.root / "var").symlink_to(outside)
    run = fleet.update(fleet.sign(BUILT_IN + 30, ("fleet.know", BAD)))
    t.ok(not list((outside / "lib").iterdir()), "--root: a link does not lead out of it", run.stdout + run.stderr)
    (fleet.root / "var").unlink()
    run = unhang.run("knowledge", "update", "--root", unhang.directory / "absent", fleet.sign(BUILT_IN + 30, ("fleet.know", BAD)))
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "--root: a directory that is not there", run.stderr)
    if os.geteuid():
        run = unhang.run("knowledge", "update", fleet.sign(BUILT_IN + 30, ("fleet.know", BAD)))
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "without --root and without rights: one line", run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    fleet = Fleet(unhang)
    test_key(t, fleet)
    fleet.trust()
    if shutil.which("openssl"):
        test_openssl(t, fleet)
    else:
        t.skip("a second opinion", "no openssl")
    test_retract(t, unhang)
    for test in (test_refusals, test_export, test_used, test_killed, test_root):
        test(t, fleet)
    t.end()


if __name__ == "__main__":
    main()
