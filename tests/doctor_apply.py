#!/usr/bin/env python3
"""unhang doctor --apply and --undo: each boot loader layout, byte for byte back, and killed at any system call that changes a file."""
import concurrent.futures
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jsonschema

import machine_tree
import tap

SCHEMA = json.loads((tap.HERE / ".." / "docs" / "applied.schema.json").read_text())

KNOWLEDGE = """
remedy t-both
    kind     workaround
    title    Turn CWSR off, and let the IOMMU pass through
    for      mes-unresponsive
    do       Set both by hand
    undo     Unset both
    cost     the debugger sees nothing
    set      amdgpu.cwsr_enable 0
    set      iommu pt
    obsolete kernel >= 7.0
    grade    B
    source   some/thing#1

remedy t-mask
    kind     workaround
    title    Turn GFXOFF off
    for      mes-unresponsive
    do       Clear a bit by hand
    undo     Set it again
    clear    amdgpu.ppfeaturemask 0x8000
    grade    B
    source   some/thing#2

remedy t-env
    kind     workaround
    title    No copy engine
    for      mes-unresponsive
    do       Set a variable by hand
    undo     Leave it out
    env      HSA_ENABLE_SDMA 0
    env      QUOTED it's $HOME
    grade    B
    source   some/thing#3

check t-title
    severity advice
    when     kernel_build
    without-gpu yes
    title    On {kernel_build}
    why      It is a test
    do       Set it by hand
    set      amdgpu.cwsr_enable 0
    grade    B
    source   some/thing#6

remedy t-hand
    kind     workaround
    title    Buy another
    for      mes-unresponsive
    do       Go to a shop
    undo     Go back
    grade    C
    source   some/thing#4

remedy t-drop
    kind     workaround
    title    Take a leftover out
    for      mes-unresponsive
    do       Edit a file by hand
    undo     Put it back
    drop     amdgpu.cwsr_enable
    grade    C
    source   some/thing#5

remedy t-next
    kind     workaround
    title    Another value of the same
    for      mes-unresponsive
    do       Set it by hand
    undo     Unset it
    set      amdgpu.cwsr_enable 2
    grade    C
    source   some/thing#6

remedy t-odd
    kind     workaround
    title    A value that a shell would run
    for      mes-unresponsive
    do       Set it by hand
    undo     Unset it
    set      iommu $(reboot)
    grade    C
    source   some/thing#7
"""

MACHINE = """
=== /proc/cmdline
BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet
=== /proc/sys/kernel/osrelease
6.12.9
=== /proc/stat
cpu 1 2 3
btime 1000
=== /sys/module/amdgpu/parameters/cwsr_enable
1
=== /sys/module/amdgpu/parameters/ppfeaturemask
0xfff7bfff
=== /etc/machine-id
0123456789abcdef0123456789abcdef
=== /etc/modprobe.d/amd.conf
options amdgpu dc=1
"""
GRUB_D = MACHINE + """
=== /etc/default/grub
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
=== /etc/default/grub.d/50-cloud.cfg
GRUB_TIMEOUT=0
=== /boot/grub/grub.cfg
=== /usr/sbin/update-grub
=== /usr/sbin/update-initramfs
"""
GRUB = MACHINE + """
=== /etc/default/grub
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
=== /boot/grub/grub.cfg
=== /usr/bin/grub-mkconfig
=== /usr/bin/mkinitcpio
=== without /etc/modprobe.d
"""
SYSTEMD_BOOT = MACHINE + """
=== /boot/loader/loader.conf
default arch.conf
=== /boot/loader/entries/arch.conf
title Arch
linux /vmlinuz-linux
initrd /initramfs.img
options root=UUID=1 rw
=== /boot/loader/entries/arch-fallback.conf
title Arch, fallback
machine-id 0123456789abcdef0123456789abcdef
linux /vmlinuz-linux
=== /boot/loader/entries/other.conf
title Another system
machine-id ffffffffffffffffffffffffffffffff
linux /vmlinuz-other
options root=UUID=2 rw
=== /boot/loader/entries/windows.conf
title Windows
efi /EFI/Microsoft/Boot/bootmgfw.efi
=== /etc/kernel/cmdline
root=UUID=1 rw
=== /usr/bin/mkinitcpio
"""
GRUBBY = MACHINE + """
=== /etc/default/grub
GRUB_ENABLE_BLSCFG=true
=== /boot/grub2/grub.cfg
=== /boot/loader/entries/a-6.12.9.conf
title Fedora
linux /vmlinuz-6.12.9
options root=UUID=1 ro rhgb quiet
grub_class fedora
=== /boot/loader/entries/a-6.11.0.conf
title Fedora, old
linux /vmlinuz-6.11.0
options $kernelopts iommu=pt
=== /etc/kernel/cmdline
root=UUID=1 ro rhgb quiet
=== /usr/sbin/grubby
=== /usr/bin/dracut
"""
OSTREE = MACHINE + """
=== /run/ostree-booted
=== /usr/bin/rpm-ostree
=== /etc/default/grub
=== /boot/loader/entries/ostree-1.conf
title Silverblue
linux /vmlinuz
options root=UUID=1
"""
BUILT_IN = GRUB_D + """
=== /usr/lib/modules/6.12.9/modules.builtin
kernel/drivers/gpu/drm/ttm/ttm.ko
kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko
"""
ON_LINE = GRUB_D + """
=== /proc/cmdline
root=UUID=1 ro quiet amdgpu.cwsr_enable=1
"""
LINKED = GRUB + """
=== /etc/default/grub -> ../../data/grub.real
=== /data/grub.real
GRUB_TIMEOUT=1
"""
LAYOUTS = {"grub-d": GRUB_D, "grub": GRUB, "systemd-boot": SYSTEMD_BOOT, "grubby": GRUBBY, "rpm-ostree": OSTREE, "built-in": BUILT_IN,
           "on-line": ON_LINE, "linked": LINKED}
# Files that end without a newline, which must come back so.
BARE = {"grub": ["etc/default/grub"], "systemd-boot": ["boot/loader/entries/arch.conf", "etc/kernel/cmdline"], "grubby": ["boot/loader/entries/a-6.11.0.conf"],
        "linked": ["data/grub.real"]}
WRITERS = "openat,write,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat"


def attributes(path):
    return {name: os.getxattr(path, name) for name in os.listxattr(path)} if path.is_file() else {}


def snapshot(root):
    """Every path with its kind, mode and content."""
    seen = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            seen[name] = ("link", os.readlink(path))
        elif path.is_dir():
            seen[name] = ("directory", path.stat().st_mode)
        else:
            st = path.stat()
            seen[name] = ("file", (st.st_mode, st.st_uid, st.st_gid, attributes(path)), path.read_bytes() if path.is_file() else None)
    return seen


def differences(a, b):
    return "\n".join(f"{name}: {a.get(name)} -> {b.get(name)}" for name in sorted(set(a) | set(b)) if a.get(name) != b.get(name))


class Machine:
    """A tree of its own, and unhang looking at it."""

    def __init__(self, unhang, name, text, like=None):
        self.unhang, self.root = unhang, unhang.directory / "machines" / name
        shutil.rmtree(self.root, ignore_errors=True)
        if like:
            subprocess.run(["cp", "-a", like, self.root], check=True)
        else:
            self.plant(name, text)
        self.old = snapshot(self.root)

    def plant(self, name, text):
        machine_tree.plant_text(text, self.root)
        for bare in BARE.get(name.split("@")[0], []):
            path = self.root / bare
            path.write_bytes(path.read_bytes().rstrip(b"\n"))
        for path in self.root.rglob("grub"):
            if path.is_file() and not path.is_symlink():
                path.chmod(0o640)
                try:
                    os.setxattr(path, "user.label", b"kept")
                except OSError:
                    pass  # not every file system has them
                if os.geteuid() == 0:
                    os.chown(path, 1, 2)

    def doctor(self, *arguments):
        run = self.unhang.run("doctor", "--root", self.root, *arguments)
        return run.returncode, run.stdout.decode(), run.stderr.decode()

    def file(self, name):
        path = self.root / name
        return path.read_text() if path.exists() else None

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def state(self, change="t-both"):
        document = json.loads(self.doctor("--list-applied", "--json")[1])
        jsonschema.validate(document, SCHEMA)
        listed = document["applied"]
        return next((one for one in listed if one["id"] == change), None)


def test_layouts(t, unhang):
    words = "amdgpu.cwsr_enable=0 iommu=pt"
    wanted = {
        "grub-d": {"etc/modprobe.d/zz-unhang-t-both.conf": "\noptions amdgpu cwsr_enable=0\n",
                   "etc/default/grub.d/zz-unhang-t-both.cfg": '\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'},
        "grub": {"etc/modprobe.d/zz-unhang-t-both.conf": "options amdgpu cwsr_enable=0\n",
                 "etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt" # unhang t-both\n'},
        "systemd-boot": {"boot/loader/entries/arch.conf": "options root=UUID=1 rw\n# unhang t-both\noptions iommu=pt\n",
                         "boot/loader/entries/arch-fallback.conf": "linux /vmlinuz-linux\n# unhang t-both\noptions iommu=pt\n",
                         "etc/kernel/cmdline": "root=UUID=1 rw iommu=pt"},
        "grubby": {"boot/loader/entries/a-6.12.9.conf": "options root=UUID=1 ro rhgb quiet iommu=pt\ngrub_class fedora\n",
                   "etc/kernel/cmdline": "root=UUID=1 ro rhgb quiet iommu=pt\n"},
        "rpm-ostree": {},
        "built-in": {"etc/default/grub.d/zz-unhang-t-both.cfg": f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"\n'},
        "on-line": {"etc/default/grub.d/zz-unhang-t-both.cfg": f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"\n'},
        "linked": {"data/grub.real": 'GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt" # unhang t-both\n'},
    }
    untouched = ["boot/loader/entries/other.conf", "boot/loader/entries/windows.conf", "boot/loader/entries/a-6.11.0.conf", "boot/loader/entries/ostree-1.conf"]
    until = {"grub-d": "sudo update-initramfs -u -k all; sudo update-grub; reboot", "grub": "sudo mkinitcpio -P; sudo grub-mkconfig -o /boot/grub/grub.cfg; reboot",
             "systemd-boot": "sudo mkinitcpio -P; reboot", "grubby": "sudo dracut --force --regenerate-all; reboot",
             "rpm-ostree": "sudo rpm-ostree kargs --append-if-missing=amdgpu.cwsr_enable=0 --append-if-missing=iommu=pt; reboot"}
    for name, text in LAYOUTS.items():
        m = Machine(unhang, name, text)
        status, out, err = m.doctor("--apply", "t-both", "--dry-run")
        t.ok(status == 0 and snapshot(m.root) == m.old, f"{name}: --dry-run changes nothing", out + err)
        status, out, err = m.doctor("--apply", "t-both", "--yes")
        t.ok(status == 0 and not err, f"{name}: apply ends well and says nothing on stderr", out + err)
        for path, content in wanted[name].items():
            t.ok((m.file(path) or "").endswith(content), f"{name}: {path} holds what is wanted", m.file(path))
        t.same([path for path in untouched if path in m.old and snapshot(m.root)[path] != m.old[path]], [], f"{name}: entries that are not ours, or have the words, stay")
        t.ok("until: " + until.get(name, "") in out, f"{name}: what makes it active", out)
        t.ok("the debugger sees nothing" in out, f"{name}: what it costs is said", out)
        new = snapshot(m.root)
        modes = [path for path in m.old if path in new and m.old[path][:2] != new[path][:2]]
        t.same(modes, [], f"{name}: modes, owners, attributes and links stay")
        status, out, err = m.doctor("--apply", "t-both", "--yes")
        t.ok(status == 2 and "already applied" in err and snapshot(m.root) == new, f"{name}: a second time is refused", out + err)
        state = m.state()
        t.ok(state["state"] == "written" and any("not been rebooted" in why for why in state["why"]), f"{name}: written, no reboot since", state)
        status, out, err = m.doctor("--undo", "t-both", "--yes")
        t.ok(status == 0, f"{name}: undo ends well", out + err)
        t.same(differences(m.old, snapshot(m.root)), "", f"{name}: byte for byte as before")
        t.same(m.doctor("--undo", "t-both", "--yes")[0], 2, f"{name}: nothing is left to take back")


def test_loaders(t, unhang):
    """Which layout is told from which files."""
    variable = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
    said = lambda name: f"=== {variable} hex\n06000000{name.encode('utf-16-le').hex()}\n"
    trees = {
        "nothing": (MACHINE, "unknown"),
        "both, started by systemd-boot": (SYSTEMD_BOOT + "=== /etc/default/grub\n=== /boot/grub/grub.cfg\n" + said("systemd-boot 256"), "systemd-boot"),
        "both, started by GRUB": (SYSTEMD_BOOT + "=== /etc/default/grub\n" + said("GRUB 2.12"), "grub"),
        "systemd-boot and a leftover of GRUB": (SYSTEMD_BOOT + "=== /etc/default/grub\n", "systemd-boot"),
        "kernel images only": (MACHINE + "=== /efi/EFI/Linux/arch.efi\n", "systemd-boot"),
        "Fedora without entries": (GRUBBY + "=== /etc/default/grub\nGRUB_ENABLE_BLSCFG=false\n", "grub"),
        "grub-mkconfig that reads no grub.d": (GRUB_D + "=== /usr/sbin/grub-mkconfig\nif test -f ${sysconfdir}/default/grub ; then\n", "grub"),
        "ostree without rpm-ostree": (OSTREE + "=== without /usr/bin/rpm-ostree\n", "unknown"),
    }
    for layout in ("grub-d", "grub", "systemd-boot", "grubby", "rpm-ostree"):
        trees[layout] = (LAYOUTS[layout], layout)
    for name, (text, wanted) in trees.items():
        m = Machine(unhang, "loader", text)
        facts = json.loads(m.doctor("--json")[1])["machine"]
        t.same(re.findall(r"'name': 'boot_loader', 'value': '([a-z-]+)'", str(facts)) or re.findall(r"'boot_loader': '([a-z-]+)'", str(facts)), [wanted], f"boot loader: {name}")


def test_tools(t, unhang):
    """What makes a change active is told by the distribution, however many facts there are before it."""
    wrong = []
    for entries in range(0, 16):
        text = MACHINE + "=== /etc/os-release\nID=debian\n" + "".join(f"=== /boot/loader/entries/{n}.conf\ntitle x\n" for n in range(entries))
        facts = json.loads(Machine(unhang, "tools", text).doctor("--json")[1] or '{"machine": {"facts": []}}')["machine"]["facts"]
        found = {(fact["value"], fact["where"]) for fact in facts if fact["name"] in ("words_with", "initramfs_tool")}
        if found != {("loader-entry" if entries else "update-grub", "/etc/os-release"), ("update-initramfs", "/etc/os-release")}:
            wrong.append(f"{entries} entries: {found}")
    t.no_complaints(wrong, "the tools of a distribution, among any number of facts")


def refused(t, m, name, why, *arguments):
    before = snapshot(m.root)
    status, out, err = m.doctor(*arguments)
    t.ok(status == 2 and why in err and snapshot(m.root) == before, f"refused: {name}", f"status {status}\n{out}{err}\n{differences(before, snapshot(m.root))}")
    return out


def test_refused(t, unhang):
    m = Machine(unhang, "refused", GRUB_D)
    refused(t, m, "an id that there is not", "t-both, t-mask, t-env", "--apply", "no-such", "--yes")
    refused(t, m, "no terminal and no --yes", "add --yes", "--apply", "t-both")
    t.ok("Go to a shop" in refused(t, m, "nothing to write", "by hand", "--apply", "t-hand", "--yes"), "what cannot be written shows its steps by hand")
    refused(t, m, "a value that a shell would run", "cannot be written", "--apply", "t-odd", "--yes")
    m.put("etc/modprobe.d/old.conf", "# since last year\noptions amdgpu cwsr_enable=0\n")
    out = refused(t, m, "a parameter to drop is the user's line", "by hand", "--apply", "t-drop", "--yes")
    t.ok("/etc/modprobe.d/old.conf:2: remove amdgpu.cwsr_enable=0 by hand" in out, "the file and line of it are named", out)
    (m.root / "etc/modprobe.d/old.conf").unlink()
    m.put("proc/cmdline", "ro quiet amdgpu.cwsr_enable=0\n")
    m.put("etc/default/grub", '# mine\nGRUB_CMDLINE_LINUX="amdgpu.cwsr_enable=0"\n')
    out = refused(t, m, "a parameter to drop is on the command line", "by hand", "--apply", "t-drop", "--yes")
    t.ok("/etc/default/grub:2: remove amdgpu.cwsr_enable=0 by hand" in out, "the boot loader's file and line are named", out)
    m.put("sys/module/amdgpu/parameters/cwsr_enable", "0\n")
    m.put("proc/cmdline", "ro iommu=pt\n")
    refused(t, m, "in effect already", "in effect already", "--apply", "t-both", "--yes")
    m.put("sys/module/amdgpu/parameters/ppfeaturemask", "")
    refused(t, m, "a value in effect that is not known", "is unknown", "--apply", "t-mask", "--yes")
    (m.root / "sys/module/amdgpu/parameters/cwsr_enable").unlink()
    m.put("sys/module/amdgpu/parameters/ppfeaturemask", "0xffffffff\n")
    refused(t, m, "a parameter that this driver has not", "no parameter amdgpu.cwsr_enable", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", GRUB_D)
    m.put("etc/modprobe.d/zz-unhang-t-both.conf", "options something else\n")
    refused(t, m, "a file of this name that is not ours", "did not write", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", GRUB)
    (m.root / "etc/default/grub").unlink()
    os.mkfifo(m.root / "etc/default/grub")
    refused(t, m, "a FIFO", "/etc/default/grub", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", GRUB)
    os.link(m.root / "etc/default/grub", m.root / "etc/default/twin")
    refused(t, m, "hard links", "names (hard links)", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", LINKED)
    (m.root / "etc/default/grub").unlink()
    (m.root / "etc/default/grub").symlink_to("../../../../../../../../../../../etc/hostname")
    refused(t, m, "a link out of the tree", "/etc/default/grub", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", MACHINE)
    refused(t, m, "an unknown boot loader", "by hand", "--apply", "t-both", "--yes")
    m = Machine(unhang, "refused", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    refused(t, m, "a parameter that another change of ours owns", "set by t-both already", "--apply", "t-next", "--yes")
    t.ok("--undo t-both" in refused(t, m, "a drop of what we set", "by hand", "--apply", "t-drop", "--yes"), "and its undo is named")


def test_locked(t, unhang):
    """Whoever can open the directory of records can lock it: that stops nobody. Only another change does."""
    m = Machine(unhang, "locked", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    place = m.root / "etc/unhang/applied"
    strangers = [os.open(path, os.O_RDONLY) for path in (place, *place.iterdir())]
    for fd in strangers:
        fcntl.flock(fd, fcntl.LOCK_EX)
    status, out, err = m.doctor("--undo", "t-both", "--yes")
    t.ok(status == 0 and not differences(m.old, snapshot(m.root)), "a stranger's lock does not stop a change, which leaves no lock behind", f"{status}: {out}{err}")
    for fd in strangers:
        os.close(fd)
    m.doctor("--apply", "t-both", "--yes")
    fd = os.open(place / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    refused(t, m, "while another one changes it", "another unhang", "--undo", "t-both", "--yes")
    os.close(fd)


def test_record(t, unhang):
    """A record from a stranger's tree names no file that we would not write."""
    m = Machine(unhang, "record", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    good = m.file("etc/unhang/applied/t-both.record")
    bad = {"another path": ("/etc/modprobe.d/zz-unhang-t-both.conf", "/etc/passwd"), "a path that climbs": ("/etc/modprobe.d/zz-", "/etc/modprobe.d/../zz-"),
           "another id": ("id t-both", "id t-mask"), "no end": ("end\n", ""), "words for a shell": ("iommu=pt", "iommu=$(x)"),
           "another directory": ("set iommu pt\n", "set iommu pt\nmade /home\n"), "an unknown key": ("title", "tilte")}
    m.put("etc/passwd", "root\n")
    for name, (old, new) in bad.items():
        m.put("etc/unhang/applied/t-both.record", good.replace(old, new))
        before = snapshot(m.root)
        status, out, err = m.doctor("--undo", "t-both", "--yes")
        t.ok(status == 2 and "no record" in err and snapshot(m.root) == before, f"a bad record: {name}", f"{status} {out}{err}")
        t.same(m.doctor("--verify")[0], 1, f"a bad record is not well: {name}")


def test_foreign(t, unhang):
    """A change that is finished later: a file that somebody else put at our place stays, and what is half done is told."""
    m = Machine(unhang, "foreign", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    record = "etc/unhang/applied/t-both.record"
    m.put(record, m.file(record).replace("state applied", "state planned"))
    m.put("etc/default/grub.d/zz-unhang-t-both.cfg", "GRUB_TIMEOUT=5\n")
    refused(t, m, "a file of somebody else's, when a change is finished", "did not write; it was interrupted", "--apply", "t-both", "--yes")
    m.doctor("--undo", "t-both", "--yes")
    t.same(m.file("etc/default/grub.d/zz-unhang-t-both.cfg"), "GRUB_TIMEOUT=5\n", "and undo leaves it")


def test_title(t, unhang):
    """A title may have facts of the machine in it, and stands in files that a shell or modprobe reads."""
    m = Machine(unhang, "title", GRUB_D)
    m.put("proc/version", "Linux\ninstall amdgpu /bin/evil\n\x1b[2J\n")
    before = snapshot(m.root)
    _, out, err = m.doctor("--apply", "t-title", "--yes")
    lines = (m.file("etc/modprobe.d/zz-unhang-t-title.conf") or "").splitlines()
    t.same([line for line in lines if not line.startswith("#")], ["options amdgpu cwsr_enable=0"], "a title is one comment")
    t.ok("\x1b" not in out + err, "and no command for a terminal")
    status, out, err = m.doctor("--undo", "t-title", "--yes")
    t.ok(status == 0 and snapshot(m.root) == before, "and is taken back", out + err)


def test_had(t, unhang):
    m = Machine(unhang, "had", SYSTEMD_BOOT)
    for entry in (m.root / "boot/loader/entries").glob("*.conf"):
        entry.write_text(entry.read_text() + "options iommu=pt amdgpu.cwsr_enable=0\n")
    (m.root / "etc/kernel/cmdline").unlink(missing_ok=True)
    _, out, err = m.doctor("--apply", "iommu-pt", "--yes")
    t.ok("already" in err, "entries that have the words already are not said to be missing", out + err)


def test_many(t, unhang):
    """What does not fit a record could not be taken back: it is not written."""
    m = Machine(unhang, "many", SYSTEMD_BOOT)
    for number in range(1001):
        (m.root / f"boot/loader/entries/{number}.conf").write_text("linux /x\noptions ro\n")
    refused(t, m, "more entries than a record holds", "more than 1000 files", "--apply", "t-both", "--yes")
    m = Machine(unhang, "many", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    record = m.file("etc/unhang/applied/t-both.record").replace("title ", "title " + "x" * 250000)
    for number in range(20):
        m.put(f"etc/unhang/applied/r{number}.record", record.replace("t-both", f"r{number}"))
    status, _, err = m.doctor("--list-applied")
    t.ok(status == 1 and "larger than 4 MB" in err, "records that are large together are told, and not all held in memory", err[:500])


def test_mask_and_profile(t, unhang):
    m = Machine(unhang, "mask", GRUB_D)
    status, out, err = m.doctor("--apply", "t-mask", "--yes")
    t.ok("options amdgpu ppfeaturemask=0xfff73fff" in (m.file("etc/modprobe.d/zz-unhang-t-mask.conf") or ""), "bits are taken out of the value in effect", out + err)
    jobs = unhang.directory / "jobs"
    jobs.mkdir()
    before = snapshot(m.root)
    status, out, err = m.doctor("--apply", "t-env", "--yes", "--profile", jobs)
    t.ok(status == 0 and snapshot(m.root) == before, "variables change nothing of the system", out + err)
    t.same(json.loads((jobs / "t-env.json").read_text())["env"], {"HSA_ENABLE_SDMA": "0", "QUOTED": "it's $HOME"}, "the profile for launchers")
    shell = subprocess.run(["sh", "-c", ". ./t-env.sh; echo $HSA_ENABLE_SDMA; echo \"$QUOTED\""], cwd=jobs, capture_output=True, text=True)
    t.same(shell.stdout, "0\nit's $HOME\n", "the profile for a shell")
    t.same(m.doctor("--undo", "t-env", "--yes", "--profile", jobs)[0], 0, "undo of a profile ends well")
    t.same(list(jobs.iterdir()), [], "undo takes both files of a profile away")
    (jobs / "t-env.sh").write_text("mine\n")
    status, out, err = m.doctor("--apply", "t-env", "--yes", "--profile", jobs)
    t.ok(status == 2 and (jobs / "t-env.sh").read_text() == "mine\n", "a file that is not ours is not overwritten", err)
    t.same(m.doctor("--undo", "t-env", "--yes", "--profile", jobs)[0], 2, "nor deleted")


def test_sessions(t, unhang):
    """gpu-cores: a variable and a limit for every login, from which the program that ROCm starts is taken word by word."""
    m = Machine(unhang, "sessions", GRUB_D)
    before = snapshot(m.root)
    status, out, err = m.doctor("--apply", "gpu-cores", "--yes")
    lines = [line for name in ("environment.d/zz-unhang-gpu-cores.conf", "profile.d/zz-unhang-gpu-cores.sh") for line in (m.file(f"etc/{name}") or "").splitlines()]
    pattern = '|/bin/sh -c "exec 2>/dev/null; unhang core %p || cat >/dev/null"'
    t.same((status, [line for line in lines if not line.startswith("#")]),
           (0, [f"HSA_COREDUMP_PATTERN='{pattern}'", f"export HSA_COREDUMP_PATTERN='{pattern}'", '[ "$(ulimit -Sc)" != 0 ] || ulimit -Sc 1 2>/dev/null || :']), "the handler of GPU cores is written for every login")
    for limit, wanted in (("0", "1"), ("7", "7")):
        shell = subprocess.run(["bash", "-ec", f"ulimit -Sc {limit}; . {m.root}/etc/profile.d/zz-unhang-gpu-cores.sh; ulimit -Sc; printenv HSA_COREDUMP_PATTERN"], capture_output=True, text=True)
        t.same(shell.stdout, f"{wanted}\n{pattern}\n", f"a login shell whose limit for cores is {limit}")
    t.ok("log in again" in out and "reboot" not in out and "unhang remedy gpu-cores" in out, "and what makes it active, and where services and containers are told of", out + err)
    t.same(m.state("gpu-cores")["state"], "written", "it is listed; which logins have it nobody can see from here")
    good = m.file("etc/unhang/applied/gpu-cores.record")
    bad = {"a quote": ("unhang core", "unhang' core"), "a shell's variable": ("unhang core", "$HOME core"), "no name": ("variable HSA_COREDUMP_PATTERN", "variable LD PRELOAD'"),
           "a limit that is none": ("limit core 1", "limit core all"), "another path": ("/etc/environment.d/zz-unhang-gpu-cores.conf", "/etc/environment.d/a.conf")}
    for name, (old, new) in bad.items():
        m.put("etc/unhang/applied/gpu-cores.record", good.replace(old, new))
        now = snapshot(m.root)
        status, out, err = m.doctor("--undo", "gpu-cores", "--yes")
        t.ok(status == 2 and "no record" in err and snapshot(m.root) == now, f"a bad record: {name}", f"{status} {out}{err}")
    m.put("etc/unhang/applied/gpu-cores.record", good)
    status, out, err = m.doctor("--undo", "gpu-cores", "--yes")
    t.ok(status == 0 and snapshot(m.root) == before, "undo takes all of it away", differences(before, snapshot(m.root)) + err)


def test_edits(t, unhang):
    """The user changes files in between: only what is ours goes."""
    m = Machine(unhang, "grub@edit", GRUB)
    m.doctor("--apply", "t-both", "--yes")
    m.put("etc/default/grub", "GRUB_TIMEOUT=9\n" + m.file("etc/default/grub") + "GRUB_GFXMODE=auto\n")
    m.put("etc/modprobe.d/zz-unhang-t-both.conf", m.file("etc/modprobe.d/zz-unhang-t-both.conf") + "options amdgpu dc=0\n")
    t.same(m.state()["state"], "changed", "that somebody changed a file of ours is told")
    m.doctor("--undo", "t-both", "--yes")
    t.same(m.file("etc/default/grub"), 'GRUB_TIMEOUT=9\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_GFXMODE=auto\n', "a line of ours between lines of the user's")
    t.same(m.file("etc/modprobe.d/zz-unhang-t-both.conf"), "options amdgpu dc=0\n", "a line of the user's in a file of ours stays")
    m = Machine(unhang, "grubby@edit", GRUBBY)
    m.doctor("--apply", "t-both", "--yes")
    entry = "boot/loader/entries/a-6.12.9.conf"
    m.put(entry, m.file(entry).replace("quiet iommu=pt", "iommu=pt amdgpu.dc=1"))
    m.put("boot/loader/entries/a-6.13.0.conf", "linux /vmlinuz\noptions root=UUID=1 iommu=pt\n")
    t.ok("/boot/loader/entries/a-6.13.0.conf\n" in m.doctor("--undo", "t-both", "--yes")[1], "an entry that was made since is shown")
    t.ok("options root=UUID=1 ro rhgb amdgpu.dc=1\n" in m.file(entry), "words of ours among words of the user's", m.file(entry))
    t.same(m.file("boot/loader/entries/a-6.13.0.conf"), "linux /vmlinuz\noptions root=UUID=1\n", "an entry that a kernel's installation made of ours")
    t.ok("iommu=pt" in m.file("boot/loader/entries/a-6.11.0.conf"), "an entry that had the word before keeps it")
    m = Machine(unhang, "systemd-boot@edit", SYSTEMD_BOOT)
    m.doctor("--apply", "t-both", "--yes")
    (m.root / "boot/loader/entries/arch-fallback.conf").rename(m.root / "boot/loader/entries/arch-fallback+2-1.conf")
    (m.root / "boot/loader/entries/arch.conf").unlink()
    t.same(m.doctor("--undo", "t-both", "--yes")[0], 0, "a boot entry that is gone is told")
    t.ok("unhang" not in m.file("boot/loader/entries/arch-fallback+2-1.conf"), "an entry that boot counting renamed")
    m = Machine(unhang, "two", GRUB)
    for change in ("t-both", "t-mask"):
        m.doctor("--apply", change, "--yes")
    for change in ("t-both", "t-mask"):
        m.doctor("--undo", change, "--yes")
    t.same(differences(m.old, snapshot(m.root)), "", "two changes, taken back in their order, with a directory that the first made")


def test_verify(t, unhang):
    m = Machine(unhang, "verify", GRUB_D)
    t.same(m.doctor("--verify")[0], 0, "nothing is applied: nothing is wrong")
    m.doctor("--apply", "t-both", "--yes")
    t.same(m.doctor("--verify")[0], 1, "written, not in effect")
    t.same((m.state()["state"], m.state()["not_active_until"]), ("written", ["sudo update-initramfs -u -k all", "sudo update-grub", "reboot"]), "written: what makes it active")
    m.put("proc/stat", "btime 9999999999\n")
    state = m.state()
    t.ok(any("initramfs" in why for why in state["why"]) and any("boot loader's configuration" in why for why in state["why"]), "started since, but nothing was built again", state)
    m.put("etc/modprobe.d/zzz.conf", "options amdgpu cwsr_enable=1\n")
    t.ok("it is set to 1 in /etc/modprobe.d/zzz.conf:1" in m.state()["why"], "a file of the user's overrides it", m.state())
    m.put("proc/cmdline", "ro iommu=off amdgpu.cwsr_enable=1\n")
    t.ok(any("command line says iommu=off" in why for why in m.state()["why"]), "the command line overrides it", m.state())
    m.put("proc/cmdline", "ro iommu=pt\n")
    m.put("sys/module/amdgpu/parameters/cwsr_enable", "0\n")
    status, out, err = m.doctor("--verify", "t-both")
    t.ok(status == 0 and "active" in out, "verify: a change that is in force is active", out + err)
    t.same((m.state()["state"], m.state()["not_active_until"]), ("active", []), "verify: in effect, nothing is left to do")
    t.same(m.doctor("--verify", "t-mask")[0], 2, "verify: what is not applied is an error")
    t.same(m.state()["needed"], True, "verify: a change that no version brings is needed")
    m.put("proc/sys/kernel/osrelease", "7.1.0\n")
    t.same(m.state()["needed"], False, "versions make it unnecessary")
    (m.root / "etc/modprobe.d/zz-unhang-t-both.conf").unlink()
    t.same(m.state()["not_active_until"], [], "changed by others: no command makes it active")
    t.ok(m.state()["state"] == "changed" and m.doctor("--verify")[0] == 1, "a file of ours is gone", m.state())


def test_asked(t, unhang):
    for answer, status in ((b"n\n", 2), (b"y\n", 0)):
        m = Machine(unhang, "asked", GRUB_D)
        master, slave = os.openpty()
        os.write(master, answer)
        run = subprocess.run([unhang.binary, "doctor", "--root", m.root, "--apply", "t-both"], stdin=slave, capture_output=True, env=unhang.environment, timeout=60)
        os.close(master)
        os.close(slave)
        t.ok(run.returncode == status and b"Write this? [y/N]" in run.stderr, f"asked on the terminal, answered {answer}", run)
        t.same(snapshot(m.root) == m.old, status == 2, "and done so")


def test_left(t, unhang):
    """What was cut short is told by every look, and both ways lead on."""
    m = Machine(unhang, "made", GRUB_D)
    (m.root / "etc/unhang").mkdir()
    status, _, err = m.doctor("--list-applied")
    t.ok(status == 0 and "Nothing is changed. If a change was interrupted" in err, "a directory that somebody has just made is no change", (status, err))
    m = Machine(unhang, "left", GRUB_D)
    m.doctor("--apply", "t-both", "--yes")
    new, record = snapshot(m.root), m.file("etc/unhang/applied/t-both.record")
    for state in ("planned", "undoing"):
        m.put("etc/unhang/applied/t-both.record", record.replace("state applied", f"state {state}"))
        for arguments in ((), ("--list-applied",), ("--verify",), ("--apply", "t-both", "--dry-run"), ("--undo", "t-both", "--dry-run")):
            t.ok("t-both: " in m.doctor(*arguments)[2] and "interrupted" in m.doctor(*arguments)[2], f"{state}: told by doctor {' '.join(arguments)}", m.doctor(*arguments))
        t.same(m.state()["state"], "half-done", f"{state}: the list calls it half done")
        (m.root / "etc/modprobe.d/zz-unhang-t-both.conf").unlink()
        m.doctor("--apply", "t-both", "--yes")
        t.same(differences(new, snapshot(m.root)), "", f"{state}: finished")
    m.put("etc/unhang/applied/t-both.record", record.replace("state applied", "state planned"))
    m.doctor("--undo", "t-both", "--yes")
    t.same(differences(m.old, snapshot(m.root)), "", "what was left half done is taken back")


def trace(m, binary, environment, arguments, kill=None):
    command = ["strace", "-qq", "-o", str(m.root) + ".trace", "-e", f"trace={WRITERS}"]
    if kill:
        command += ["-e", f"inject={kill[0]}:signal=SIGKILL:when={kill[1]}"]
    environment = {**environment, "ASAN_OPTIONS": environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    return subprocess.run([*command, binary, "doctor", "--root", m.root, *arguments], capture_output=True, env=environment, timeout=60)


def kill_points(m):
    """(system call, how many-th) of those that change a file."""
    seen, points = {}, []
    for line in pathlib.Path(str(m.root) + ".trace").read_text().splitlines():
        name = line.split("(")[0]
        if not name.isidentifier():
            continue
        seen[name] = seen.get(name, 0) + 1
        if name != "openat" and not line.startswith(("write(1,", "write(2,")) or "O_CREAT" in line:
            points.append((name, seen[name]))
    return points


def tree_wrong(now, old, new):
    """Files that are neither as before nor as after; those with unfinished names are read by nobody."""
    wrong = []
    for name in set(now) | set(old) | set(new):
        base = name.rsplit("/", 1)[-1]
        if base.endswith(".unhang-new") and base.startswith(".") or name.startswith("etc/unhang"):
            continue
        if now.get(name) not in (old.get(name), new.get(name)):
            wrong.append(name)
    return wrong


def killed_once(unhang, at_first, undo, number, point, old, new):
    """Kills there, then looks, then goes on. What is wrong, as lines."""
    m = Machine(unhang, f"{at_first.name}-{number}", None, at_first)
    name, wrong, before = f"{m.root.name} {point}", [], snapshot(m.root)
    run = trace(m, unhang.binary, unhang.environment, ["--undo" if undo else "--apply", "t-both", "--yes"], point)
    if run.returncode not in (-9, 137):
        return [f"{name}: it was not killed: {run.returncode} {run.stderr}"]
    now, record = snapshot(m.root), m.file("etc/unhang/applied/t-both.record") or ""
    wrong += [f"{name}: {path} is neither old nor new" for path in tree_wrong(now, old, new)]
    if "\nstate applied\n" in record and tree_wrong(now, new, new):
        wrong.append(f"{name}: the record says that it is applied, and the files do not")
    unlocked = {path: what for path, what in now.items() if not path.endswith("/.lock")}  # the lock of who was killed is nobody's
    told = unlocked == before or (now == old if undo else "\nstate applied\n" in record)
    if number % 2 and record and "\nstate applied\n" not in record:
        status, out, err = m.doctor("--apply", "t-both", "--yes")
        told |= "interrupted" in err
        if status or "\nstate applied\n" not in m.file("etc/unhang/applied/t-both.record") or tree_wrong(snapshot(m.root), new, new):
            wrong.append(f"{name}: it cannot be finished: {out}{err}")
    status, out, err = m.doctor("--undo", "t-both", "--yes")
    if not told and "interrupted" not in err:
        wrong.append(f"{name}: nobody says that it was cut short: {err}")
    left = differences(old, snapshot(m.root))
    if left:
        wrong.append(f"{name}: not taken back: {left}")
    shutil.rmtree(m.root)
    return wrong


def test_killed(t, unhang):
    if not shutil.which("strace"):
        t.skip("killed at any system call", "there is no strace")
        return
    probe = Machine(unhang, "probe", GRUB_D)
    if trace(probe, "/bin/true", unhang.environment, []).returncode:
        t.skip("killed at any system call", "processes cannot be traced here")
        return
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        # What is killed reports nothing to sanitizers: there the layout that writes most is enough.
        for layout in ("systemd-boot",) if tap.is_sanitized(unhang.binary) else ("grub-d", "linked", "systemd-boot", "grubby", "rpm-ostree"):
            plain = Machine(unhang, f"{layout}@apply", LAYOUTS[layout])
            m = Machine(unhang, f"{layout}@undo", None, plain.root)
            for undo in (False, True):
                whole = Machine(unhang, f"{layout}@whole", None, m.root)
                trace(whole, unhang.binary, unhang.environment, ["--undo" if undo else "--apply", "t-both", "--yes"])
                if not undo:
                    m.doctor("--apply", "t-both", "--yes")
                points, new = kill_points(whole), snapshot(m.root)
                first = m.root if undo else plain.root
                runs = [pool.submit(killed_once, unhang, first, undo, number, point, plain.old, new) for number, point in enumerate(points)]
                wrong = [line for run in runs for line in run.result()]
                t.ok(len(points) > 5 and not wrong, f"{layout}: {'undo' if undo else 'apply'} killed at {len(points)} points", "\n".join(wrong))


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    unhang.know("apply.know", KNOWLEDGE)
    test_layouts(t, unhang)
    test_loaders(t, unhang)
    test_tools(t, unhang)
    test_refused(t, unhang)
    test_locked(t, unhang)
    test_record(t, unhang)
    test_foreign(t, unhang)
    test_title(t, unhang)
    test_had(t, unhang)
    test_many(t, unhang)
    test_mask_and_profile(t, unhang)
    test_sessions(t, unhang)
    test_edits(t, unhang)
    test_verify(t, unhang)
    test_asked(t, unhang)
    test_left(t, unhang)
    test_killed(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
