#!/usr/bin/env python3
"""What changed on a machine, read from its package logs, files and journal: changes_read.py UNHANG LIST_CHANGES"""
import gzip
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import time

import journals
import tap

SEEDS = tap.HERE / ".." / "fuzz" / "seeds" / "changes"
DAY = 86400
WHEN = 1751961600  # 2025-07-08 08:00 UTC
# /etc/localtime of Berlin by its rule alone (RFC 8536): a machine need not have tzdata.
ZONE = b"".join(b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 1, 1, 4) + bytes(size) + struct.pack(">blbb", 0, 3600, 0, 0) + b"CET\0" for size in (4, 8)) + b"\nCET-1CEST,M3.5.0,M10.5.0/3\n"
GL = "org.freedesktop.Platform.GL.default"


class Tree:
    """A machine's file system."""

    def __init__(self, unhang, name):
        self.root = unhang.directory / name

    def write(self, path, content=b"", when=WHEN):
        to = self.root / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(to, (when, when))
        return to

    def link(self, path, target, when=WHEN):
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(target)
        os.utime(at, (when, when), follow_symlinks=False)


class Listed:
    """What list_changes prints."""

    def __init__(self, lister, *args):
        run = subprocess.run([lister, *args], capture_output=True, env={**os.environ, "TZ": "Asia/Tokyo"})
        assert run.returncode == 0, run.stderr
        self.text = run.stdout.decode()
        self.boots, self.transactions, self.unread, self.since = [], [], [], 0
        for line in self.text.splitlines():
            what, *rest = line.split("\t")
            if what == "since":
                self.since, self.cut = int(rest[0]), rest[1] == "cut"
            elif what == "boot":
                self.boots.append(rest)
            elif what == "transaction":
                self.transactions.append([rest[4], int(rest[1]), rest[2], rest[5], []])
            elif what == "change":
                self.transactions[-1][4].append(tuple(rest))
            elif what == "unread":
                self.unread.append(rest[0])

    def of(self, manager):
        return [one[1:] for one in self.transactions if one[0] == manager]


def minutes(transactions):
    """Of 1970: the package managers that made the seeds took a second, or two."""
    return [one[1] // 60 for one in transactions]


def test_debian(t, unhang, lister):
    tree = Tree(unhang, "debian")
    apt, dpkg = (SEEDS / "apt-history.log").read_text(), (SEEDS / "dpkg.log").read_text()
    # Rotated, as logrotate leaves them.
    parts = apt.split("\nStart-Date: 2025-06-20")
    tree.write("/var/log/apt/history.log.2.gz", gzip.compress(parts[0].encode()), WHEN - 60 * DAY)
    tree.write("/var/log/apt/history.log.1.gz", gzip.compress(("\nStart-Date: 2025-06-20" + parts[1].split("\nStart-Date: 2025-07-08")[0]).encode()), WHEN - 9 * DAY)
    tree.write("/var/log/apt/history.log", "\nStart-Date: 2025-07-08" + parts[1].split("\nStart-Date: 2025-07-08")[1], WHEN + 2 * DAY)
    lines = dpkg.splitlines(keepends=True)
    tree.write("/var/log/dpkg.log.1", "".join(line for line in lines if line < "2025-07"), WHEN - 9 * DAY)
    tree.write("/var/log/dpkg.log", "".join(line for line in lines if line >= "2025-07"), WHEN + 2 * DAY)
    tree.write("/etc/localtime", ZONE)
    found = Listed(lister, tree.root)
    t.same(minutes(found.transactions), [29102835, 29173950, 29199360, 29201460, 29202120], "each transaction once, in the zone of the machine")
    t.same([one[0] for one in found.transactions], ["apt"] * 4 + ["dpkg"], "what apt tells dpkg need not; what dpkg did alone counts")
    t.same(found.transactions[2][4], [("linux-image-6.1.0-37-amd64", "", "6.1.140-1"), ("firmware-amd-graphics", "20230515-3", "20250613-1")], "versions before and since")
    t.same((found.since, found.unread), (found.transactions[0][1], []), "from when on it is known; nothing is unread")
    t.ok(all(one[2] == "z" for one in found.transactions), "a time without a zone is marked")
    (tree.root / "etc/localtime").unlink()
    t.same(minutes(Listed(lister, tree.root).transactions)[2], 29199360 + 120, "without a zone it is UTC, not that of who asks")


def wal_of(tree, path, name, sql):
    """The database with a transaction that is in its log of writes only, as dnf leaves it while it works."""
    to = tree.write(path, (SEEDS / name).read_bytes())
    db = sqlite3.connect(to, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.executescript(sql)
    return db, to


def test_fedora(t, unhang, lister):
    four, five = Tree(unhang, "fedora"), "/usr/lib/sysimage/libdnf5/transaction_history.sqlite"
    four.write("/var/lib/dnf/history.sqlite", (SEEDS / "dnf4.sqlite").read_bytes())
    db, to = wal_of(four, five, "dnf5.sqlite",
                    "BEGIN; INSERT INTO trans VALUES (6, 1752131000, 1752131001, '', '', '42', 0, '', '', 2); INSERT INTO item VALUES (90);"
                    "INSERT INTO rpm VALUES (90, (SELECT id FROM pkg_name WHERE name = 'linux-firmware'), 2, '20250709', '1', 1);"
                    "INSERT INTO trans_item VALUES (90, 6, 90, 1, 2, 2, 1); COMMIT")
    before = {path: path.read_bytes() for path in to.parent.iterdir()}
    found = Listed(lister, four.root)
    t.same([[one[2] for one in found.of(manager)] for manager in ("dnf", "dnf5")], [["1", "2", "3", "4"], ["1", "2", "3", "4", "6"]],
           "both histories, with the numbers by which they are undone")
    t.same(found.transactions[-1][1:], [1752131001, "", "6", [("linux-firmware", "", "2:20250709-1")]], "what only the log of writes has")
    t.same({path: path.read_bytes() for path in to.parent.iterdir()}, before, "nothing was written, nor a file made")
    db.executescript("BEGIN; DELETE FROM trans_item; UPDATE trans SET state_id = 3 WHERE id = 6; COMMIT")
    wal = pathlib.Path(f"{to}-wal")
    whole = wal.read_bytes()
    wal.write_bytes(whole[:-1])
    t.same(Listed(lister, four.root).of("dnf5")[-1][2], "6", "a write that is not whole does not count")
    wal.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    t.same(Listed(lister, four.root).of("dnf5")[-1][2], "6", "nor does one with another sum")
    wal.write_bytes(whole)
    t.same(Listed(lister, four.root).of("dnf5"), [], "whole it does")
    db.close()
    wrong = []
    for at in range(0, 4096, 61):
        to.write_bytes(before[to][:at] + b"\xff" * 8 + before[to][at + 8:])
        pathlib.Path(f"{to}-wal").unlink(missing_ok=True)
        listed = Listed(lister, four.root)
        wrong += [f"at {at}: {listed.text}"] if len(listed.of("dnf")) != 4 else []
    t.no_complaints(wrong, "a damaged database spoils no other log")


def test_suse_and_arch(t, unhang, lister):
    tree = Tree(unhang, "mixed")
    tree.write("/var/log/zypp/history", (SEEDS / "zypp-history").read_bytes())
    tree.write("/var/log/pacman.log", b"[2025-04-01T10:00:00+0200] [ALPM] installed zlib (1:1.3.1-2)\n" + (SEEDS / "pacman.log").read_bytes())
    tree.link("/etc/localtime", "/usr/share/zoneinfo/Europe/Berlin")
    tree.write("/usr/share/zoneinfo/Europe/Berlin", ZONE)
    found = Listed(lister, tree.root)
    t.same([one[0] // 60 for one in found.of("zypper")], [one[0] // 60 for one in found.of("pacman")][:3], "the zone of the tree's own link: both tell the same times")
    t.same(found.since, 1743494400, "the logs begin with a package that concerns no GPU")
    t.same(found.of("zypper")[1][3], [("Mesa-dri", "25.1.1-1.1", "25.1.4-1.1")], "zypper: the version before is the one that its log had last")


def test_files(t, unhang, lister):
    tree = Tree(unhang, "files")
    python = "/opt/venv/lib/python3.12/site-packages"
    tree.write(f"{python}/torch-2.6.0+rocm6.2.4.dist-info/RECORD", "", WHEN)
    tree.write(f"{python}/requests-2.32.3.dist-info/RECORD", "", WHEN)
    tree.write("/home/a/.local/lib/python3.11/site-packages/vllm-0.8.5.dist-info/RECORD", "", WHEN + 1 * 3600)
    tree.write("/etc/modprobe.d/amdgpu.conf", "options amdgpu runpm=0\n", WHEN + 2 * 3600)
    tree.write("/etc/default/grub", "", WHEN + 3 * 3600)
    tree.write("/boot/loader/entries/a-6.15.5.conf", "", WHEN + 4 * 3600)
    tree.write("/var/lib/snapd/snaps/mesa-2404_412.snap", "", WHEN + 5 * 3600)
    tree.write("/var/lib/snapd/snaps/mesa-2404_495.snap", "", WHEN + 6 * 3600)
    tree.write("/var/lib/dkms/amdgpu/6.12.12-2147987/6.8.0-90-generic/x86_64/module/amdgpu.ko", "")
    os.utime(tree.root / "var/lib/dkms/amdgpu/6.12.12-2147987/6.8.0-90-generic/x86_64/module", (WHEN + 7 * 3600, WHEN + 7 * 3600))
    tree.write("/home/a/.local/share/Steam/steamapps/appmanifest_1.acf", '"AppState"\n{\n\t"name"\t"Proton Experimental"\n\t"LastUpdated"\t"%d"\n\t"buildid"\t"18"\n}\n' % (WHEN + 8 * 3600))
    tree.write("/home/a/.local/share/Steam/steamapps/appmanifest_2.acf", '"AppState"\n{\n\t"name"\t"A game"\n\t"LastUpdated"\t"%d"\n}\n' % (WHEN + 8 * 3600))
    found = Listed(lister, tree.root)
    t.same([(one[0], (one[1] - WHEN) // 3600, one[4]) for one in found.transactions],
           [("pip", 0, [("torch", "", "2.6.0+rocm6.2.4")]), ("pip", 1, [("vllm", "", "0.8.5")]), ("file", 2, [("/etc/modprobe.d/amdgpu.conf", "", "")]),
            ("file", 3, [("/etc/default/grub", "", "")]), ("file", 4, [("/boot/loader/entries/a-6.15.5.conf", "", "")]), ("snap", 5, [("mesa-2404", "", "412")]),
            ("snap", 6, [("mesa-2404", "412", "495")]), ("dkms", 7, [("amdgpu", "", "6.12.12-2147987")]), ("steam", 8, [("Proton?Experimental", "", "18")])],
           "packages and settings by the times of their files")
    for path in ("/etc/modprobe.d/amdgpu.conf", "/etc/default/grub", "/boot/loader/entries/a-6.15.5.conf", "/var/lib/dkms/amdgpu/6.12.12-2147987/6.8.0-90-generic/x86_64/module"):
        os.utime(tree.root / path[1:], (WHEN + 30, WHEN + 30))
    tree.write("/var/log/pacman.log", (SEEDS / "pacman.log").read_bytes())
    again = Listed(lister, tree.root)
    t.same(again.of("file") + again.of("dkms"), [], "what a package manager did at that time is no setting of somebody")


def test_images(t, unhang, lister):
    tree = Tree(unhang, "images")
    for n, (version, kernel) in enumerate([("25.05.803.aaa", "6.12.31"), ("25.05.805.bbb", "6.12.34"), ("25.05.805.bbb", "6.12.34")], 41):
        store = f"/nix/store/{n}xyz-nixos-system-tower-{version}"
        tree.link(f"/nix/var/nix/profiles/system-{n}-link", store, WHEN + n)
        tree.link(f"{store}/kernel", f"/nix/store/{n}abc-linux-{kernel}/bzImage", 1)
    for n, version in enumerate(["42.20250613.0", "42.20250708.0"]):
        deployment = f"/ostree/deploy/fedora/deploy/{n}abc.0"
        tree.write(f"{deployment}.origin", "[origin]\n", WHEN + n)
        tree.write(f"{deployment}/usr/lib/os-release", f'NAME="Fedora Linux"\nOSTREE_VERSION="{version}"\n', 0)
    found = Listed(lister, tree.root)
    t.same([one[2:] for one in found.of("nix")],
           [["41", [("nixos-system", "", "25.05.803.aaa"), ("linux", "", "6.12.31")]], ["42", [("nixos-system", "25.05.803.aaa", "25.05.805.bbb"), ("linux", "6.12.31", "6.12.34")]],
            ["43", [("nixos-system", "25.05.805.bbb", "25.05.805.bbb")]]], "generations of Nix, by the time of their link, without the machine's name")
    t.same([one[3] for one in found.of("rpm-ostree")], [[("ostree/deployment", "", "42.20250613.0")], [("ostree/deployment", "42.20250613.0", "42.20250708.0")]], "deployments that are still there")


def entries(boot, began, lines):
    """Each (seconds, message, transport, more fields)."""
    for seconds, message, transport, more in lines:
        one = journals.fields(0, boot, began * 10**6, int(seconds * 10**6), message, transport)
        del one["__CURSOR"]
        yield {**one, **({} if transport == "kernel" else {"_UID": 0}), **more}


def start(kernel, line="quiet amdgpu.runpm=0 root=UUID=secret"):
    return [(0, f"Linux version {kernel} (linux@host) #1", "kernel", {}), (0.1, f"Command line: {line}", "kernel", {}),
            (0.2, "DMI: Maker Board/X, BIOS 1.E0 01/10/2024", "kernel", {}), (3, "amdgpu 0000:03:00.0: amdgpu: ATOM BIOS: 113-D7020100-102", "kernel", {}),
            (4, "amdgpu 0000:03:00.0: amdgpu: smu driver if version = 0x3d, smu fw if version = 0x40, smu fw program = 0, smu fw version = 0x004e7e00 (78.126.0)", "kernel", {})]


STOPPED = (5000, "Journal stopped", "driver", {"MESSAGE_ID": "d93fb3c9c24d451a97cea615ce59c00b"})
TARGET = (5000, "Reached target reboot.target - System Reboot.", "journal", {"UNIT": "reboot.target", "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf", "_PID": 1})
LOGIND = (5000, "The system will reboot now!", "journal", {"MESSAGE_ID": "98268866d1d54a499c4e98921d93bc40", "_SYSTEMD_UNIT": "systemd-logind.service", "_PID": 900})


def test_boots(t, unhang, lister):
    tree = Tree(unhang, "boots")
    ids = [f"{n:032x}" for n in range(1, 8)]
    boots = [
        start("6.14.4-arch1-2") + [STOPPED],
        start("6.14.4-arch1-2") + [(5000, "just a line", "journal", {})],
        [(1, "no kernel log here", "journal", {}), TARGET],
        start("6.15.5-arch1-1") + [(20, "Journal stopped", "driver", STOPPED[3]), (5000, "it went on for long", "journal", {})],  # journald was restarted
        [(0, "Linux version 9.9.9 (evil)", "daemon", {})] + start("6.15.5-arch1-1") + [(31, "", "journal", {"UNIT": "reboot.target", "_UID": 1000}), (40, "end", "journal", {})],
        [(50, "update", "journal", {"MESSAGE_ID": "c7b39b1e006b464599465e105b361485", "OPERATION": "deploy update", "REF": f"runtime/{GL}/x86_64/24.08", "COMMIT": "b" * 64, "OLD_COMMIT": "a" * 64}),
         (51, "update", "journal", {"MESSAGE_ID": "c7b39b1e006b464599465e105b361485", "OPERATION": "pull", "REF": f"runtime/{GL}/x86_64/24.08", "COMMIT": "b" * 64, "OLD_COMMIT": "a" * 64}),
         (52, "update", "journal", {"MESSAGE_ID": "c7b39b1e006b464599465e105b361485", "_UID": 4711, "OPERATION": "deploy update", "REF": f"runtime/{GL}/x86_64/1", "COMMIT": "b" * 64, "OLD_COMMIT": "a" * 64})],
    ]
    # Images of the system: one that is still there tells of itself twice.
    tree.write("/ostree/deploy/fedora/deploy/1abc.0.origin", "[origin]\n", WHEN + 5 * DAY + 66)
    tree.write("/ostree/deploy/fedora/deploy/1abc.0/usr/lib/os-release", 'OSTREE_VERSION="42.3"\n', 0)
    for n in range(4):
        boots[5].append((60 + n, "Created new deployment", "journal", {"MESSAGE_ID": "9bddbda177cd44d891b1b561a8a0ce9e", "DEPLOYMENT_VERSION": f"42.{n}", "_UID": 4711 if n == 1 else 0}))
    boots[5].append((70, "Installation succeeded", "journal", {"MESSAGE_ID": "0163db5468ac4237b090d28490c301ed", "BUNDLE_VERSION": "3.7.8"}))
    records = b"".join(journals.export({"__CURSOR": f"s=1;i={n}", **one}) for n, one in enumerate(one for n, lines in enumerate(boots) for one in entries(ids[n], WHEN + n * DAY, lines)))
    journals.write(tree.root / "var/log/journal/0123456789abcdef0123456789abcdef", records)
    found = Listed(lister, tree.root)
    t.same([one[0] for one in found.boots], ids[:6], "every boot, oldest first")
    t.same([one[3] for one in found.boots], ["lc", "l", "c", "l", "l", ""], "which have kernel lines, and which ended in order")
    t.same([one[4] for one in found.boots], ["6.14.4-arch1-2"] * 2 + [""] + ["6.15.5-arch1-1"] * 2 + [""], "kernels; a program's words are not the kernel's")
    t.same(found.boots[0][5:], ["1.E0 01/10/2024", "113-D7020100-102", "SMU 0x004e7e00 (78.126.0)", "amdgpu.runpm=0"], "BIOS, VBIOS, firmware and the parameters that are known")
    t.same([int(found.boots[1][1]), int(found.boots[1][2])], [WHEN + DAY, WHEN + DAY + 5000], "from its first line to its last")
    t.same(found.of("flatpak"), [[WHEN + 5 * DAY + 50, "", "", [(GL, "a" * 12, "b" * 12)]]], "Flatpak's Mesa, as its own entries tell it; not as another user tells it")
    t.same([one[3] for one in found.of("rpm-ostree") + found.of("rauc")], [[("ostree/deployment", *version)] for version in (("", "42.0"), ("42.0", "42.2"), ("42.2", "42.3"))] + [[("rauc/image", "", "3.7.8")]],
           "images of the system: those that are gone, each after the one before it")
    t.ok(not found.cut and found.unread == [], "all of it was read", found.text)


def test_orderly(t, unhang, lister):
    """An orderly end is what journald attests, not what a program of root says."""
    tree, container = Tree(unhang, "orderly"), {"_SYSTEMD_UNIT": "x.service", "_PID": 4242, "_COMM": "logger"}
    ends = [STOPPED, TARGET, LOGIND, (*STOPPED[:2], "journal", {**STOPPED[3], **container}), (*TARGET[:3], {**TARGET[3], **container}), (*LOGIND[:3], {**LOGIND[3], **container}),
            (*TARGET[:2], "stdout", TARGET[3]), (*LOGIND[:3], {**LOGIND[3], "_UID": 1000})]
    records = b"".join(journals.export({"__CURSOR": f"s=1;i={n}", **one})
                       for n, one in enumerate(one for n, end in enumerate(ends) for one in entries(f"{n + 1:032x}", WHEN + n * DAY, start("6.14.4") + [end])))
    journals.write(tree.root / "var/log/journal/0123456789abcdef0123456789abcdef", records)
    t.same([one[3] for one in Listed(lister, tree.root).boots], ["lc"] * 3 + ["l"] * 5, "journald, systemd and logind tell of an orderly end; others do not")


def test_many_boots(t, unhang, lister):
    tree = Tree(unhang, "many")
    records = b"".join(journals.export({"__CURSOR": f"s=1;i={n}", **one})
                       for n, one in enumerate(one for n in range(520) for one in entries(f"{n + 1:032x}", WHEN + n * 3600, [(0, f"Linux version 6.15.{n} (x)", "kernel", {})])))
    journals.write(tree.root / "var/log/journal/0123456789abcdef0123456789abcdef", records)
    found = Listed(lister, tree.root)
    t.ok(found.cut and 0 < len(found.boots) <= 512 and found.boots[-1][4] == "6.15.519", "the newest boots are told, and that there are more", found.text[-300:])


def test_hostile(t, unhang, lister):
    tree = Tree(unhang, "hostile")
    tree.write("/var/log/dpkg.log", b"\0" * 5_000_000 + b"\n2025-07-08 10:00:01 upgrade linux-firmware:all 1 2\n")
    os.mkfifo(tree.root / "var/log/pacman.log")
    (tree.root / "var/log/zypp").mkdir()
    (tree.root / "var/log/zypp/history").symlink_to(SEEDS / "zypp-history")
    (tree.root / "var/log/apt/history.log").mkdir(parents=True)
    tree.write("/var/log/apt/history.log.1.gz", b"\x1f\x8b\x08 nonsense")
    tree.write("/var/log/apt/history.log.2.gz", gzip.compress(b"x" * (64 << 20)))
    found = Listed(lister, tree.root)
    t.same([(one[0], one[4]) for one in found.transactions], [("dpkg", [("linux-firmware", "1", "2")])], "pipes, directories, bombs and links out of the tree say nothing")
    t.same(len(found.unread), 6, "and each of them counts as unread")
    t.same(Listed(lister, unhang.directory / "nowhere").transactions, [], "no tree has no changes")


def test_unread(t, unhang, lister):
    """What is there and cannot be read is named."""
    tree, whole = Tree(unhang, "unread"), (SEEDS / "apt-history.log").read_bytes()
    packed, log = gzip.compress(whole), "/var/log/apt/history.log"
    for name, path, data, why in (
            ("whole", f"{log}.1.gz", packed, None), ("two, one behind the other", f"{log}.1.gz", packed + packed, None), ("empty", log, b"", None), ("blank", log, b"\n", None),
            ("cut", f"{log}.1.gz", packed[:-20], "it is cut, or damaged"), ("a bomb", f"{log}.1.gz", gzip.compress(b"\n" * (20 << 20)) + packed, "it is too large when it is unpacked"),
            ("xz", f"{log}.1.xz", b"\xfd7zXZ", "unhang cannot unpack it"), ("a line of 5 MB", log, whole + b"x" * (5 << 20), "a line of it is too long"),
            ("a line of 2 MB", log, whole + b"x" * (2 << 20), "a line of it is too long"), ("5 MB before it", log, b"\n" * (5 << 20) + whole, "it is too large, and only its end was read"),
            ("nonsense", log, b"\xff" * 1000, "it is no log of packages, or damaged")):
        (tree.root / log[1:]).unlink(missing_ok=True)
        at = tree.write(path, data)
        t.same(Listed(lister, tree.root).unread, [f"{path}: {why}"] if why else [], f"a log that is {name}")
        at.unlink()
    old = tree.write(f"{log}.2.gz", packed[:-20], WHEN - 200 * DAY)
    t.same([Listed(lister, tree.root, str(WHEN + days * DAY)).unread == [] for days in (0, -30)], [True, False], "one that is older than half a year before the incident does not count")
    old.unlink()
    data, path = (SEEDS / "dnf5.sqlite").read_bytes(), "/usr/lib/sysimage/libdnf5/transaction_history.sqlite"

    def changed(sql):
        at = tree.write(path, data)
        with sqlite3.connect(at) as db:
            db.executescript(sql)
        db.close()
        return at.read_bytes()
    recursion = "CREATE VIEW trans AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, 1 AS dt_begin, 1 AS dt_end, 2 AS state_id FROM c"
    ids = "ALTER TABLE trans RENAME TO t0; CREATE TABLE trans AS SELECT * FROM t0; UPDATE trans SET id = {0} WHERE id = 4; UPDATE trans_item SET trans_id = {0} WHERE trans_id = 4"
    sick = "it is damaged, or no history of packages"
    for name, held, why in (("whole", data, None), ("empty", b"", "it is no database"), ("cut", data[:len(data) // 2], sick), ("garbage", b"garbage!" * 99, sick),
                            ("a view", changed("ALTER TABLE trans RENAME TO t0; CREATE VIEW trans AS SELECT * FROM t0"), sick), ("endless", changed("ALTER TABLE trans RENAME TO t0; " + recursion), sick),
                            *((f"one with {value} as an id", changed(ids.format(value)), sick) for value in ("'last'", "5.5", "x'35'", "-1", "1e300"))):
        tree.write(path, held)
        found = Listed(lister, tree.root)
        t.same(found.unread, [f"{path}: {why}"] if why else [], f"a database that is {name}")
        t.ok(not any(one[2] in ("last", "5.5", "-1") for one in found.of("dnf5")), "its ids are numbers", found.text)
    tree.write(path, data)
    os.mkfifo(f"{tree.root}{path}-wal")
    t.same(Listed(lister, tree.root).unread, [f"{path}: it is no file"], "a pipe as its log of writes")


def test_half_year(t, unhang, lister):
    """The half year is that before the incident, whatever was logged later."""
    tree = Tree(unhang, "later")
    tree.write("/var/log/pacman.log", (SEEDS / "pacman.log").read_bytes())
    tree.write("/var/lib/dnf/history.sqlite", (SEEDS / "dnf4.sqlite").read_bytes())
    whole = Listed(lister, tree.root, str(WHEN + DAY))
    t.same((len(whole.of("pacman")), len(whole.of("dnf"))), (4, 4), "all that is in the half year before")
    for path, text in (("/home/m/.local/lib/python3.12/site-packages/torch-2.7.dist-info/RECORD", ""), ("/etc/modprobe.d/x.conf", ""),
                       ("/home/m/.local/share/Steam/steamapps/appmanifest_1.acf", '"name" "Proton 9.0"\n"LastUpdated" "%d"\n"buildid" "1"\n' % (WHEN + 400 * DAY))):
        tree.write(path, text, WHEN + 400 * DAY)
    later = Listed(lister, tree.root, str(WHEN + DAY))
    t.same((later.of("pacman"), later.of("dnf")), (whole.of("pacman"), whole.of("dnf")), "a file from a year later hides none of them")
    t.same(len(Listed(lister, tree.root, str(WHEN + 390 * DAY)).of("pacman")), 0, "they are too old for an incident of then")


def test_bundle(t, unhang, lister):
    if os.geteuid():
        t.skip("a bundle tells the same", "only root sees all that a capture does")
        return
    live, bundle = Listed(lister, "", str(int(time.time()))), unhang.directory / "b.tar.zst"
    run = unhang.run("capture", "--deadline", "120", "-o", bundle, timeout=200)
    if t.ok(bundle.exists(), "a bundle was made", run.stderr):
        of = Listed(lister, bundle)
        t.same((of.transactions, of.boots[:-1], abs(of.since - live.since) < 600), (live.transactions, live.boots[:-1], True), "a bundle tells the same")
    unhang.run("capture", "--deadline", "120", "--bug-report", "-o", unhang.directory / "r.tar.zst", timeout=200)
    report = Listed(lister, unhang.directory / "r.tar.zst")
    names = [[[change[0] for change in one[4] if not change[0].startswith("/")] for one in listed.transactions if one[0] != "file"] for listed in (live, report)]
    t.same(names[1], names[0], "a bug report keeps the names of packages")


def main():
    unhang, lister, t = tap.Unhang(sys.argv[1]), os.path.abspath(sys.argv[2]), tap.Tap()
    for test in (test_debian, test_fedora, test_suse_and_arch, test_files, test_images, test_hostile, test_unread, test_half_year):
        test(t, unhang, lister)
    if pathlib.Path(journals.REMOTE).exists():
        test_boots(t, unhang, lister)
        test_orderly(t, unhang, lister)
        test_many_boots(t, unhang, lister)
    else:
        t.skip("boots", "systemd-journal-remote is not there")
    test_bundle(t, unhang, lister)
    t.end()


main()
