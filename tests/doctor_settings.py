"""What the doctor says of kernel, driver and parameters: each finding on a machine that has what it is about, and not on others."""
import gzip
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from machine_tree import modinfo_elf, plant_text
from tap import Tap, Unhang, some, worked

HERE = pathlib.Path(__file__).resolve().parent
KNOWLEDGE = HERE.parent / "knowledge"
OURS = set(re.findall(r"^check (\S+)", (KNOWLEDGE / "doctor-settings.know").read_text(), re.M))
OURS |= set(re.findall(r"^known-bad (\S+)", (KNOWLEDGE / "versions.know").read_text(), re.M))

# The values of linux 6.12.
DEFAULTS = {"cwsr_enable": "1", "ppfeaturemask": "0xfff7bfff", "gpu_recovery": "-1", "dcdebugmask": "0", "runpm": "-1", "tmz": "-1",
            "noretry": "-1", "sched_policy": "0", "mes": "0", "reset_method": "-1", "vm_update_mode": "-1", "sg_display": "-1",
            "lockup_timeout": "", "aspm": "-1", "mcbp": "-1"}
PARTS = {"gfx1100": ("0x744c", "0xc8"), "gfx1151": ("0x1586", "0xc1"), "gfx1201": ("0x7550", "0xc0"), "gfx1103": ("0x15bf", "0xc1"),
         "gfx1152": ("0x1114", "0xc1"), "gfx1032": ("0x73ff", "0xc1"), "gfx942": ("0x74a1", "0x00")}
INITRAMFS = "update-initramfs"


def machine(gfx="gfx1100", kernel="6.12.48-amd64", cmdline="ro quiet", parameters=(), loaded=True, more=""):
    device, revision = PARTS[gfx]
    pci = "/sys/bus/pci/devices/0000:03:00.0"
    text = f"""
=== {pci}/vendor
0x1002
=== {pci}/device
{device}
=== {pci}/revision
{revision}
=== {pci}/class
0x030000
=== /proc/sys/kernel/osrelease
{kernel}
=== /proc/version
Linux version {kernel} (builder) #1 SMP
=== /proc/cmdline
{cmdline}
=== /etc/os-release
ID=debian
VERSION_ID="13"
=== /sys/module/ext4/
=== /usr/lib/modules/{kernel}/modules.dep
kernel/fs/ext4/ext4.ko: kernel/fs/jbd2.ko
kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko: kernel/drivers/gpu/drm/ttm/ttm.ko
=== /usr/lib/modules/{kernel}/modules.builtin
kernel/fs/proc/proc.ko
"""
    if loaded:
        text += "=== /sys/module/amdgpu/taint\n\n"
        for name, value in {**DEFAULTS, **dict(parameters)}.items():
            text += f"=== /sys/module/amdgpu/parameters/{name}\n{value}\n"
    return text + more


class Machine:
    """What the doctor says of a tree."""

    def __init__(self, unhang, text, prepare=None):
        self.room = tempfile.TemporaryDirectory(prefix="unhang-settings-")
        self.root = pathlib.Path(self.room.name)
        plant_text(text, self.root)
        if prepare:
            prepare(self.root)
        began = worked()
        run = unhang.run("doctor", "--root", self.root, "--json")
        self.seconds = worked() - began
        self.status, self.stderr = run.returncode, run.stderr.decode(errors="replace")
        document = json.loads(run.stdout)
        self.items = [{"kind": "machine", "facts": document["machine"]["facts"]}] + document["machine"]["items"]
        self.all = [f for f in document["findings"] if f["id"] in OURS]
        self.others = [f["id"] for f in document["findings"] if f["id"] not in OURS]
        self.findings = {f["id"]: f for f in self.all}

    @property
    def ids(self):
        return sorted(f["id"] for f in self.all if f["severity"] != "ok")

    def fact(self, name, kind="machine", of=None):
        """A fact of the machine, or of the setting whose name is @of."""
        for item in self.items:
            facts = {}
            for f in item["facts"]:
                facts.setdefault(f["name"], f["value"])
            if item["kind"] == kind and (of is None or f'{facts.get("name")}={facts.get("value")}' == of or facts.get("name") == of):
                return facts.get(name)
        return None

    def setting(self, of, *names):
        return tuple(self.fact(name, "setting", of) for name in names)


def words(unhang, text):
    """Every option that was found in modprobe.d, in order."""
    found = []
    for item in Machine(unhang, text).items:
        facts = {f["name"]: f["value"] for f in item["facts"]}
        if item["kind"] == "setting" and facts.get("place") in ("modprobe", "cmdline"):
            found.append(f'{facts["name"].removeprefix("amdgpu.")}={facts["value"]}')
    return found


STRIX = {"gfx": "gfx1151", "cmdline": "ro amdgpu.cwsr_enable=0", "parameters": {"cwsr_enable": "0"}}
MES = "=== /sys/bus/pci/devices/0000:03:00.0/fw_version/mes_fw_version\n{}\n"
ROCM = "=== /opt/rocm/.info/version\n{0}\n=== /opt/rocm-{0}/.info/version\n{0}\n"

# name, machine, the ids of all findings that are not ok, those that are ok
CASES = [
    ("nothing is set", machine(), [], ["driver-in-tree"]),
    ("a name that no kernel has", machine(cmdline="ro amdgpu.gfxoff=0"), ["parameter-unknown"], ["driver-in-tree"]),
    ("a name that nobody knows", machine(cmdline="ro amdgpu.abracadabra=0"), ["parameter-not-there"], ["driver-in-tree"]),
    ("a misspelt name", machine(cmdline="ro amdgpu.cwsr_enabled=0"), ["parameter-misspelt"], ["driver-in-tree"]),
    ("a parameter of the module that is no more", machine(cmdline="ro amdkfd.cwsr_enable=0"), ["parameter-misspelt"], ["driver-in-tree"]),
    ("set to its default", machine(cmdline="ro amdgpu.runpm=-1"), [], ["driver-in-tree", "parameter-default"]),
    ("pending in GRUB", machine(more='=== /etc/default/grub\nGRUB_CMDLINE_LINUX="amdgpu.runpm=1"\n'), ["parameter-pending"],
     ["driver-in-tree"]),
    ("pending in grub.d, added to what is there",
     machine(cmdline="ro quiet", more='=== /etc/default/grub\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n=== /etc/default/grub.d/x.cfg\n'
             'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT amdgpu.mcbp=1"\n'), ["parameter-pending"], ["driver-in-tree"]),
    ("GRUB says what is in effect",
     machine(cmdline="ro iommu=pt", more='=== /etc/default/grub\nGRUB_CMDLINE_LINUX="iommu=pt"\n'), [],
     ["driver-in-tree", "iommu-passthrough"]),
    ("pending in the entry of the running kernel, not in another's",
     machine(more="=== /boot/loader/entries/a.conf\nversion 6.12.48-amd64\noptions ro amdgpu.mcbp=1\n"
             "=== /boot/loader/entries/b.conf\nversion 6.1.0\noptions ro amdgpu.runpm=1\n"), ["parameter-pending"], ["driver-in-tree"]),
    ("an entry for rescue does not count",
     machine(more="=== /boot/loader/entries/0-rescue.conf\noptions ro nomodeset\n"), [], ["driver-in-tree"]),
    ("pending in /etc/kernel/cmdline", machine(more="=== /etc/kernel/cmdline\nro amdgpu.mcbp=1\n"), ["parameter-pending"], ["driver-in-tree"]),
    ("modprobe.d is not in the initramfs", machine(more="=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=1\n"), ["parameter-not-in-effect"],
     ["driver-in-tree"]),
    ("modprobe.d is in effect",
     machine(parameters={"mcbp": "1"}, more="=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=1\n"), [], ["driver-in-tree"]),
    ("a file that modprobe does not read", machine(more="=== /etc/modprobe.d/amdgpu\noptions amdgpu mcbp=1\n"), ["parameter-file-not-read"],
     ["driver-in-tree"]),
    ("the command line wins over modprobe.d",
     machine(cmdline="ro amdgpu.mcbp=0", parameters={"mcbp": "0"}, more="=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=1\n"),
     ["parameter-overridden"], ["driver-in-tree"]),
    ("the same twice is no news",
     machine(cmdline="ro amdgpu.mcbp=1 amdgpu.mcbp=1", parameters={"mcbp": "1"}), [], ["driver-in-tree"]),
    ("a value that was changed by hand", machine(cmdline="ro amdgpu.mcbp=1"), ["parameter-not-in-effect-cmdline"], ["driver-in-tree"]),
    ("in effect, but nobody set it", machine(parameters={"mcbp": "1"}), ["parameter-unset"], ["driver-in-tree"]),
    ("modprobe.d and a driver that is built in",
     machine(more="=== /usr/lib/modules/6.12.48-amd64/modules.builtin\nkernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko\n"
             "=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=1\n"), ["parameter-built-in"], ["driver-in-tree"]),
    ("a copied mask where the driver uses GFX_DCS", machine("gfx1032", cmdline="ro amdgpu.ppfeaturemask=0xffffffff", parameters={"ppfeaturemask": "0xffffffff"}),
     ["ppfeaturemask-copied"], ["driver-in-tree"]),
    ("a copied mask elsewhere", machine(cmdline="ro amdgpu.ppfeaturemask=0xffffffff", parameters={"ppfeaturemask": "0xffffffff"}), ["overdrive-on"], ["driver-in-tree"]),
    ("a copied mask without GFXOFF", machine(cmdline="ro amdgpu.ppfeaturemask=0xffff7fff", parameters={"ppfeaturemask": "0xffff7fff"}),
     ["gfxoff-is-off", "overdrive-on"], ["driver-in-tree"]),
    ("overclocking", machine(cmdline="ro amdgpu.ppfeaturemask=0xfff7ffff", parameters={"ppfeaturemask": "0xfff7ffff"}), ["overdrive-on"],
     ["driver-in-tree"]),
    ("GFXOFF off on RDNA 4",
     machine("gfx1201", cmdline="ro amdgpu.ppfeaturemask=0xfff73fff", parameters={"ppfeaturemask": "0xfff73fff"}), ["gfxoff-navi48"],
     ["driver-in-tree"]),
    ("panel self refresh", machine(cmdline="ro amdgpu.dcdebugmask=0x10", parameters={"dcdebugmask": "16"}), ["dcdebugmask-psr"],
     ["driver-in-tree"]),
    ("another bit of the mask", machine(cmdline="ro amdgpu.dcdebugmask=0x2", parameters={"dcdebugmask": "2"}), [], ["driver-in-tree"]),
    ("CWSR off where it never was needed", machine(cmdline="ro amdgpu.cwsr_enable=0", parameters={"cwsr_enable": "0"}), ["cwsr-never-needed"],
     ["driver-in-tree"]),
    ("an empty value in /sys is a value", machine(more="=== /etc/modprobe.d/a.conf\noptions amdgpu lockup_timeout=20000\n"), ["parameter-not-in-effect"],
     ["driver-in-tree"]),
    ("a list of which /sys shows the first", machine(cmdline="ro amdgpu.lockup_timeout=20000,60000", parameters={"lockup_timeout": "20000"}),
     ["lockup-timeout-set"], ["driver-in-tree"]),
    ("a list whose first is another", machine(cmdline="ro amdgpu.lockup_timeout=20000,60000", parameters={"lockup_timeout": "10000"}),
     ["parameter-not-in-effect-cmdline"], ["driver-in-tree"]),
    ("nobody set it, and the driver's own value is empty", machine(parameters={"lockup_timeout": "20000"}), ["parameter-unset"], ["driver-in-tree"]),
    ("nobody set it, and it is one of those with a check", machine(parameters={"gpu_recovery": "0"}), ["parameter-unset"], ["driver-in-tree"]),
    ("what is only pending is not judged", machine(more='=== /etc/default/grub\nGRUB_CMDLINE_LINUX="amdgpu.runpm=0 pcie_aspm=off"\n'),
     ["parameter-pending", "parameter-pending"], ["driver-in-tree"]),
    ("GFXOFF is off already",
     machine(cmdline="ro amdgpu.gfxoff=0 amdgpu.ppfeaturemask=0xfff73fff", parameters={"ppfeaturemask": "0xfff73fff"}),
     ["gfxoff-is-off", "parameter-unknown-done"], ["driver-in-tree"]),
    ("misspelt words of modprobe.d", machine(more="=== /etc/modprobe.d/a.conf\noption amdgpu runpm=0\noptions amdgu dc=1\noptions amdtee x=1\n"
                                             "softdep amdgpu pre: ttm\nOption nouveau x=1\n# option amdgpu runpm=0\n"),
     ["modprobe-line-directive", "modprobe-line-module"], ["driver-in-tree"]),
    ("CWSR on with MES 0x80 on an old kernel", machine(kernel="6.14.0-37-generic", more=MES.format("0x00000080"), gfx="gfx1151"),
     ["cwsr-mes-80", "vpe-resume-gfx1151"], ["driver-in-tree"]),
    ("CWSR on with MES 0x80 and an old ROCm", machine(kernel="6.18.13", more=MES.format("0x00000080") + ROCM.format("7.1.1"), gfx="gfx1151"),
     ["cwsr-mes-80"], ["driver-in-tree", "kernel-strix-halo-ok"]),
    ("CWSR on with a ROCm that AMD calls stable", machine(kernel="6.18.13", more=MES.format("0x00000080") + ROCM.format("7.2.0"), gfx="gfx1151"),
     [], ["driver-in-tree", "kernel-strix-halo-ok"]),
    ("CWSR on with the old kernel that got the fix", machine(kernel="6.12.64", more=MES.format("0x00000080") + ROCM.format("7.2.0"), gfx="gfx1151"), [], ["driver-in-tree"]),
    ("CWSR on with the one before it", machine(kernel="6.12.57", more=MES.format("0x00000080") + ROCM.format("7.2.0"), gfx="gfx1151"),
     ["cwsr-mes-80", "vpe-resume-gfx1151"], ["driver-in-tree"]),
    ("CWSR on with kernels of Ubuntu that have the fix", machine(kernel="6.17.0-19-generic", more=MES.format("0x00000080"), gfx="gfx1151"),
     ["vpe-resume-gfx1151"], ["driver-in-tree"]),
    ("CWSR off, which 6.18 and ROCm 7.2.0 made needless", machine(kernel="6.18.4", more=ROCM.format("7.2.0"), **STRIX), ["cwsr-leftover"],
     ["driver-in-tree", "kernel-strix-halo-ok"]),
    ("CWSR off, which 6.19 and ROCm 7.2.2 made needless", machine(kernel="6.19.11-arch1-1", more=ROCM.format("7.2.2"), **STRIX),
     ["cwsr-leftover", "kernel-6.19-gfx1151"], ["driver-in-tree"]),
    ("CWSR off with a preview that needs it", machine(kernel="6.19.11-arch1-1", more=ROCM.format("7.10.0"), **STRIX), ["kernel-6.19-gfx1151"],
     ["cwsr-needed", "driver-in-tree"]),
    ("CWSR off with MES 0x83, where it does not help", machine(kernel="6.17.8", more=MES.format("0x00000083"), **STRIX),
     ["cwsr-mes-83", "mes-83-gfx1151"], ["driver-in-tree"]),
    ("a firmware package that may hold MES 0x83", machine("gfx1151", kernel="7.0.3", more="=== /var/lib/dpkg/status\nPackage: linux-firmware\n"
                                                          "Status: install ok installed\nVersion: 20251125-1\n\n"),
     ["firmware-20251125-mes"], ["driver-in-tree", "kernel-strix-halo-ok"]),
    ("a firmware package that may hold MES 0x82", machine("gfx1152", kernel="6.18.2", more="=== /var/lib/dpkg/status\nPackage: linux-firmware\n"
                                                          "Status: install ok installed\nVersion: 20251125-1\n\n"),
     ["firmware-20251125-gfx1152"], ["driver-in-tree"]),
    ("CWSR off on a kernel that is new enough", machine(kernel="7.0.3-200.fc43.x86_64", **STRIX), ["cwsr-leftover-rocm-unknown"],
     ["driver-in-tree", "kernel-strix-halo-ok"]),
    ("CWSR off where it is needed", machine(kernel="6.17.8-300.fc43.x86_64", **STRIX), [],
     ["cwsr-needed", "driver-in-tree"]),
    ("CWSR on where the area is too small", machine("gfx1151", kernel="6.17.8-300.fc43.x86_64"),
     ["cwsr-area-kernel-gfx1151"], ["driver-in-tree"]),
    ("CWSR off on gfx1103", machine("gfx1103", cmdline="amdgpu.cwsr_enable=0", parameters={"cwsr_enable": "0"}), [],
     ["cwsr-needed", "driver-in-tree"]),
    ("no recovery", machine(cmdline="ro amdgpu.gpu_recovery=0", parameters={"gpu_recovery": "0"}), ["gpu-recovery-off"], ["driver-in-tree"]),
    ("recovery", machine(cmdline="ro amdgpu.gpu_recovery=1", parameters={"gpu_recovery": "1"}), [], ["driver-in-tree", "gpu-recovery-on"]),
    ("what guides collect",
     machine(cmdline="ro amdgpu.runpm=0 amdgpu.tmz=0 pcie_aspm=off amd_iommu=off acpi_enforce_resources=lax amdgpu.noretry=0 "
             "amdgpu.vm_update_mode=3 amdgpu.mes=1 amdgpu.sched_policy=2 amdgpu.reset_method=4 amdgpu.lockup_timeout=100000",
             parameters={"runpm": "0", "tmz": "0", "noretry": "0", "vm_update_mode": "3", "mes": "1", "sched_policy": "2",
                         "reset_method": "4", "lockup_timeout": "100000"}),
     ["acpi-lax", "aspm-off", "iommu-off", "lockup-timeout-set", "mes-forced", "noretry-set", "reset-method-forced", "runpm-off",
      "scheduling-policy", "tmz-off", "vm-update-mode-set"], ["driver-in-tree"]),
    ("links that must rest", machine(cmdline="ro pcie_aspm=force"), ["aspm-force"], ["driver-in-tree"]),
    ("nomodeset", machine(cmdline="ro nomodeset", loaded=False), ["nomodeset"], []),
    ("blacklisted", machine(loaded=False, more="=== /etc/modprobe.d/a.conf\nblacklist amdgpu\n"), ["driver-blacklisted"], []),
    ("blacklisted on the command line", machine(cmdline="ro modprobe.blacklist=nouveau,amdgpu", loaded=False), ["driver-blacklisted"], []),
    ("refused by the kernel itself", machine(cmdline="ro module_blacklist=amdgpu", loaded=False), ["driver-blacklisted"], []),
    ("blacklisted, but loaded", machine(more="=== /etc/modprobe.d/a.conf\nblacklist amdgpu\n"), [], ["driver-in-tree"]),
    ("another driver is blacklisted", machine(more="=== /etc/modprobe.d/a.conf\nblacklist pcspkr\n"), [], ["driver-in-tree"]),
    ("no driver at all", machine(loaded=False, more="=== /usr/lib/modules/6.12.48-amd64/modules.dep\nkernel/fs/ext4/ext4.ko:\n"),
     ["driver-missing"], []),
    ("not loaded", machine(loaded=False), ["driver-not-loaded"], []),
    ("old cards, of which there are none", machine(cmdline="ro radeon.si_support=0 amdgpu.si_support=1", parameters={"si_support": "1"}),
     ["si-cik-support"], ["driver-in-tree"]),
    ("DKMS",
     machine(kernel="6.8.0-90-generic", more="=== /sys/module/amdgpu/version\n6.16.13\n=== /sys/module/amdgpu/taint\nOE\n"
             "=== /usr/lib/modules/6.8.0-90-generic/modules.dep\nupdates/dkms/amdgpu.ko.zst:\n=== /var/lib/dkms/amdgpu/6.16.13/\n"), [],
     ["driver-dkms"]),
    ("DKMS, but not for this kernel", machine(more="=== /var/lib/dkms/amdgpu/6.16.13-1.24.04/\n"), ["dkms-not-for-kernel"], ["driver-in-tree"]),
    ("DKMS, built for another kernel", machine(more="=== /usr/lib/modules/6.12.48-amd64/modules.dep\n\n=== /var/lib/dkms/amdgpu/6.16.13/6.8.0-87-generic/\n"),
     ["dkms-not-for-kernel"], ["driver-in-tree"]),
    ("DKMS, built for another kernel, of a machine of which little is known",
     machine(loaded=False, more="=== /sys/module/amdgpu/parameters/cwsr_enable\n1\n=== /usr/lib/modules/6.12.48-amd64/modules.dep\n\n"
             "=== /var/lib/dkms/amdgpu/6.16.13/6.8.0-87-generic/\n"), ["dkms-not-for-kernel"], []),
    ("DKMS, built for this kernel", machine(more="=== /usr/lib/modules/6.12.48-amd64/modules.dep\n\n=== /var/lib/dkms/amdgpu/6.16.13/6.12.48-amd64/\n"),
     [], ["driver-in-tree"]),
    ("an Instinct's driver by its package",
     machine("gfx942", more="=== /var/lib/dpkg/status\nPackage: amdgpu-dkms\nStatus: install ok installed\nVersion: 1:6.16.13.30300100-2303411.22.04\n\n"
             "=== /sys/module/amdgpu/version\n6.16.13\n=== /usr/lib/modules/6.12.48-amd64/modules.dep\nupdates/dkms/amdgpu.ko.zst:\n"), ["driver-30.30.1-false-cper"], ["driver-dkms"]),
    ("DKMS is installed, the initramfs has another",
     machine(more="=== /usr/lib/modules/6.12.48-amd64/modules.dep\nupdates/dkms/amdgpu.ko:\n=== /var/lib/dkms/amdgpu/6.16.13/\n"),
     ["driver-other-than-installed"], ["driver-in-tree"]),
    ("RDNA 3 on a kernel that is not maintained", machine(kernel="6.2.0-39-generic"), ["kernel-old-rdna3"], ["driver-in-tree"]),
    ("RDNA 3 on one that is", machine(kernel="6.6.80"), [], ["driver-in-tree"]),
    ("RDNA 4 on a kernel that does not know it", machine("gfx1201", kernel="6.1.0-40-amd64", parameters={"mcbp": "0"}), ["kernel-lacks-part"], ["driver-in-tree"]),
    ("RDNA 4 on a kernel from before it", machine("gfx1201", kernel="6.8.0-90-generic"), ["kernel-early-rdna4"], ["driver-in-tree"]),
    ("Strix Halo on 6.17.9", machine("gfx1151", kernel="6.17.9"), ["kernel-strix-halo", "mes-evict-6.18"], ["driver-in-tree"]),
]


def test_cases(t, unhang):
    for name, text, wanted, good in some(unhang, CASES):
        m = Machine(unhang, text)
        t.same(m.ids, sorted(wanted), name)
        t.same(sorted(f["id"] for f in m.all if f["severity"] == "ok"), sorted(good), f"{name}: what is good")
        empty = [f'{f["id"]}: {key} has a hole' for f in m.all for key in ("title", "seen", "why", "do", "undo", "cost", "check")
                 if "{" in str(f[key]) or " || " in str(f[key]) or (key == "do" and "" in f[key])]
        empty += [f'{f["id"]}: no {key}' for f in m.all for key in ("title", "seen", "why") if not f[key] and (key == "title" or f["severity"] != "ok")]
        t.no_complaints(empty + [m.stderr] * bool(m.stderr), f"{name}: whole sentences")
    told = {name for case in CASES for name in case[2] + case[3]}
    untold = sorted(name for name in set(re.findall(r"^check (\S+)", (KNOWLEDGE / "doctor-settings.know").read_text(), re.M)) - told)
    t.same(untold, ["gfxoff-7600s-ok", "lockup-timeout-list", "sg-display-off-dgpu"],
           "every check has a case, but those that need facts of others")


# What an item of a kind always has.
ALWAYS = {"setting": {"name", "value", "place", "written"}, "gpu": {"pci", "part"}, "process": {"name", "pid", "part"}, "variable": {"name", "from"},
          "rocm": {"version", "path"}, "tool": {"name", "path"}}
BARE = {"name", "place"}  # of a setting that nobody made
# Facts that a reader notes together.
TOGETHER = {"bar": {"bar_visible_mb", "vram_mb"}, "link_state": {"link_width", "link_width_can", "link_speed", "link_speed_can"},
            "link_limited_by": {"card_width", "link_width_can"}, "partition_mode_count": {"partition_modes"}, "core_free_gb": {"gpu_core_dir"},
            "core_to": {"core_handler"}, "override_fits": {"override_gfx", "gfx", "part", "value"}, "highest": {"value"}, "dkms_built": {"dkms_version"}}


def blocks(kind, file):
    """The blocks of a kind in a file of knowledge: name, and the lines of each key, joined."""
    for text in re.split(r"^(?=\S)", file.read_text(), flags=re.M):
        if not text.startswith(kind + " "):
            continue
        keys = {}
        for line in re.split(r"\n(?=    \S)", text.rstrip())[1:]:
            key, _, value = re.sub(r"\n\s+", " ", line).strip().partition(" ")
            if not key.startswith("#"):
                keys.setdefault(key, []).append(value.strip())
        yield text.split()[1], keys


def whole(sentence, known):
    """The phrases of a sentence that stay with no other facts than these."""
    return [p for p in sentence.split(" | ") if any({n.rstrip("@") for n in re.findall(r"\{([^}]*)\}", a)} <= known for a in p.split(" || "))]


def test_titles(t):
    complaints = []
    for file in sorted(KNOWLEDGE.glob("*.know")):
        for kind, keys_told in (("check", ("title",)), ("known-bad", ("title", "why"))):
            for name, keys in blocks(kind, file):
                each = "gpu" if kind == "known-bad" else keys.get("each", [""])[0]
                for when in keys["when"]:
                    terms = {term.split()[0] for term in when.split(" and ") if not term.startswith("no ")} | set(re.findall(r"\$(\S+)", when))
                    terms = terms.union(*(TOGETHER.get(term, ()) for term in terms))
                    known = terms | (BARE if "unset-but-effective" in when else ALWAYS.get(each, set()))
                    complaints += [f"{file.name}: {name}: no {key} where {when}" for key in keys_told for text in keys.get(key, []) if not whole(text, known)]
    t.no_complaints(complaints, "no title can become empty, whatever is not known")
    t.no_complaints([name for name, keys in blocks("known-bad", KNOWLEDGE / "versions.know") if "why" not in keys], "every known-bad says why")


VERSIONS = {"kernel", "rocm", "driver", "driver_package", "linux_firmware", "fw_mes", "fw_smu", "fw_dmcub", "framework_version", "mesa_version"}
RELEASE = r"\d+\.\d+|20[12]\d{5}|[0-9a-f]{12}|\b[0-9a-f]{8}\b|#\d+|\d{4}"


def open_ends(when):
    """`begins`, `ends`: the ends that a line of conditions leaves open, of each version that it asks for."""
    terms = [term.split(None, 2) for term in when.split(" and ")]
    for name in {term[0] for term in terms} & VERSIONS:
        ops = {term[1] for term in terms if len(term) == 3 and term[0] == name}
        if ops & {"<", "<="} and not ops & {">", ">=", "="}:
            yield "begins"
        if ops & {">", ">="} and not ops & {"<", "<=", "="}:
            yield "ends"


def test_ranges(t):
    """Every range that is known to be bad has both ends, with the commit or release, or says why not."""
    complaints, seen = [], 0
    for file in sorted(KNOWLEDGE.glob("*.know")):
        for name, keys in blocks("known-bad", file):
            seen += 1
            ends, begins = keys.get("ends", [""])[0], keys.get("begins", [""])[0]
            if not re.match(r"open: \S+ \S+", ends) and not re.search(RELEASE, ends):
                complaints.append(f"{file.name}: {name}: 'ends' names neither a release, nor a commit, nor a reason (open: ...)")
            missing = {end for when in keys["when"] for end in open_ends(when)}
            if "begins" in missing and not begins:
                complaints.append(f"{file.name}: {name}: no beginning, and no 'begins' that says why")
            if "ends" in missing and not ends.startswith("open: "):
                complaints.append(f"{file.name}: {name}: a range without an end, though 'ends' names one")
    t.no_complaints(complaints, f"each of {seen} ranges has both ends or a reason")
    t.same([sorted(open_ends(w)) for w in ("kernel < 6.1", "kernel >= 6.1 and gfx = gfx1100", "kernel >= 6.1 and kernel < 6.2", "rocm = 6.1")],
           [["begins"], ["ends"], [], []], "an open end is seen")


def test_steps(t, unhang):
    """The steps fit where the setting stands."""
    grub = '=== /etc/default/grub\n\nGRUB_CMDLINE_LINUX_DEFAULT="amdgpu.runpm=0"\n=== /boot/grub/grub.cfg\n\n'
    off = {"cmdline": "ro amdgpu.runpm=0", "parameters": {"runpm": "0"}}
    bls = "=== /boot/loader/entries/a.conf\nversion 6.12.48-amd64\noptions ro amdgpu.runpm=0\n"
    for name, arguments, wanted in [
            ("GRUB", dict(off, more=grub), ["Remove amdgpu.runpm=0 from /etc/default/grub:2", "sudo update-grub, then reboot"]),
            ("grubby", dict(off, more=bls + "=== /etc/default/grub\nGRUB_ENABLE_BLSCFG=true\n=== /boot/grub2/grub.cfg\n\n"),
             ["sudo grubby --update-kernel=ALL --remove-args=amdgpu.runpm=0", "Reboot"]),
            ("rpm-ostree", dict(off, more=bls + "=== /run/ostree-booted\n\n=== /etc/os-release\nID=bazzite\n"),
             ["sudo rpm-ostree kargs --delete-if-present=amdgpu.runpm=0", "Reboot"]),
            ("systemd-boot", dict(off, more=bls + "=== /boot/loader/loader.conf\n\n"), ["Remove amdgpu.runpm=0 from /boot/loader/entries/a.conf:2", "Reboot"]),
            ("/etc/kernel/cmdline", dict(off, more="=== /etc/kernel/cmdline\nro amdgpu.runpm=0\n"),
             ["Remove amdgpu.runpm=0 from /etc/kernel/cmdline:1", "sudo update-initramfs -u -k all, then reboot"]),
            ("nothing but the command line", off, ["Remove amdgpu.runpm=0 from GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub", "sudo update-grub, then reboot"]),
            ("modprobe.d", {"parameters": {"runpm": "0"}, "more": "=== /etc/modprobe.d/a.conf\noptions amdgpu runpm=0\n"},
             ["Remove runpm=0 from /etc/modprobe.d/a.conf:1, the whole line if it sets nothing else", "sudo update-initramfs -u -k all, then reboot"])]:
        steps = Machine(unhang, machine(**arguments)).findings["runpm-off"]["do"]
        t.ok(len(steps) == 2 and all(step.startswith(begins) for step, begins in zip(steps, wanted)), f"how to take a setting out: {name}", steps)
    m = Machine(unhang, machine(cmdline='ro "amdgpu.runpm=0;reboot"', more="=== /run/ostree-booted\n\n=== /etc/os-release\nID=bazzite\n"))
    t.ok("kargs" not in str(m.setting("amdgpu.runpm", "remove")), "what a shell would not take as it stands is no command", m.setting("amdgpu.runpm", "remove"))
    m = Machine(unhang, machine(more="=== /etc/modprobe.d/a.conf\noptions amdgpu cwsr_enabel=0\n"))
    found = m.findings["parameter-misspelt"]
    t.ok("options amdgpu cwsr_enable=0 in /etc/modprobe.d/a.conf:1" in found["do"][1] and "/parameters/cwsr_enable " in found["check"],
         "in modprobe.d options are written as options", found)
    m = Machine(unhang, machine(kernel="6.14.0-37-generic", more=MES.format("0x00000080") + grub, gfx="gfx1151"))
    found = m.findings["cwsr-mes-80"]
    t.ok("amdgpu.cwsr_enable=0" in found["do"][0] and "update-grub" in found["do"][0] and "6.18.4" in found["do"][1], "the workaround now, the cure beside it", found["do"])
    m = Machine(unhang, machine(kernel="6.18.4", more=ROCM.format("7.2.0") + grub.replace("runpm", "cwsr_enable"), **STRIX))
    t.same(m.findings["cwsr-leftover"]["do"], ["Remove amdgpu.cwsr_enable=0 from /etc/default/grub:2", "sudo update-grub, then reboot"],
           "a finding of a GPU names the setting's place too")
    m = Machine(unhang, machine("gfx1103", more=ROCM.format("7.1.1")))
    t.ok("kernel 6.18.4" not in str(m.findings["mes-remove-queue-gfx1103"]), "until when fits the part", m.findings["mes-remove-queue-gfx1103"])


def test_one_finding(t, unhang):
    """What is found once is not looked for again."""
    unbound = "=== /sys/bus/pci/devices/0000:03:00.0/uevent\nPCI_SLOT_NAME=0000:03:00.0\n"
    t.ok("gpu-unbound" in Machine(unhang, machine(loaded=False, more=unbound)).others, "a GPU without a driver is a finding")
    for name, text in [("nomodeset", machine(cmdline="ro nomodeset", loaded=False, more=unbound)),
                       ("driver-blacklisted", machine(loaded=False, more=unbound + "=== /etc/modprobe.d/a.conf\nblacklist amdgpu\n"))]:
        m = Machine(unhang, text)
        t.ok(name in m.findings and "gpu-unbound" not in m.others, f"{name}: no second finding that looks for its cause", m.others)
    t.ok("gfx1152" not in str(Machine(unhang, machine(cmdline="ro amdgpu.cwsr_enable=0", parameters={"cwsr_enable": "0"})).findings["cwsr-never-needed"]["risk"]),
         "risks of other parts are not told")


def test_near(t, unhang):
    m = Machine(unhang, machine(loaded=False, cmdline="ro amdgpu.ppfeaturmask=1 amdgpu.cwsr_enabel=0 amdgpu.gfxoff=0 amdgpu.abracadabra=1"))
    t.same([m.setting(f"amdgpu.{name}", "state", "near") for name in ("ppfeaturmask", "cwsr_enabel", "abracadabra")],
           [("misspelt", "amdgpu.ppfeaturemask"), ("misspelt", "amdgpu.cwsr_enable"), (None, None)], "near names are found in the table where there is no /sys/module")
    m = Machine(unhang, machine(loaded=False, cmdline="ro amdgpu.cwsr_enabel=0", more="=== /sys/module/amdgpu/parameters/ppfeaturemask\n0xfff7bfff\n"))
    t.same(m.setting("amdgpu.cwsr_enabel", "state", "near"), ("misspelt", "amdgpu.cwsr_enable"), "and where /sys was recorded in part")
    m = Machine(unhang, machine(loaded=False, kernel="9.3.0", cmdline="ro amdgpu.cwsr_enabel=0"))
    t.same(m.setting("amdgpu.cwsr_enabel", "state"), (None,), "of a kernel that the table does not know nothing is said")
    m = Machine(unhang, machine(loaded=False, cmdline="ro amdgpu.gfxoff=0 amdgpu.ppfeaturemask=0xfffd3fff"))
    t.same(m.setting("amdgpu.gfxoff", "already", "better"), ("amdgpu.ppfeaturemask=0xfffd3fff", None), "without /sys/module what was set counts")
    m = Machine(unhang, machine(kernel="6.1.0-28-amd64", parameters={"mcbp": "0"}, cmdline="ro amdgpu.wbrf=1"))
    t.ok("Kernels that have it: " in m.findings["parameter-not-there"]["why"], "which kernels have a parameter that this one lacks", m.findings)


def test_facts(t, unhang):
    m = Machine(unhang, machine(
        cmdline="ro amdgpu.gfxoff=0 amdgpu.ppfeaturemask=0xffffffff iommu=pt amdgpu.mcbp=0 amdgpu.mcbp=1",
        parameters={"ppfeaturemask": "0xffffffff", "mcbp": "1"},
        more='=== /etc/default/grub\n\nGRUB_CMDLINE_LINUX="amdgpu.gfxoff=0"\n=== /etc/modprobe.d/a.conf\n\noptions amdgpu mcbp=0\n'
             "=== /var/lib/dpkg/status\nPackage: firmware-amd-graphics\nStatus: install ok installed\nVersion: 20250410-2\n\n"))
    for name, wanted in [("kernel", "6.12.48-amd64"), ("driver_kind", "in-tree"), ("driver_running", "in-tree"), ("driver_loaded", "yes"),
                         ("driver_file", "/usr/lib/modules/6.12.48-amd64/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko"),
                         ("distribution", "debian"), ("distribution_version", "13"), ("linux_firmware", "20250410"),
                         ("param.amdgpu.cwsr_enable", "1"), ("param.iommu", "pt"), ("set.amdgpu.mcbp", "1"), ("gpu_gfx", "gfx1100")]:
        t.same(m.fact(name), wanted, f"fact {name}")
    t.same(m.setting("amdgpu.gfxoff", "state", "from", "better", "place"),
           ("unknown-name", "/etc/default/grub:2", "amdgpu.ppfeaturemask=0xfff77fff", "cmdline"), "gfxoff: the bit is cleared in the value in effect")
    t.same(m.setting("amdgpu.ppfeaturemask", "state", "effective", "default", "bits_on", "bits_off"),
           ("in-effect", "0xffffffff", "0xfff7bfff", "OVERDRIVE (0x4000), GFX_DCS (0x80000)", None), "the mask, bit by bit")
    t.same(m.setting("amdgpu.mcbp=0", "state", "by", "effective"), ("overridden", "/proc/cmdline", "1"), "the last one wins")
    m = Machine(unhang, machine(cmdline="amdgpu.gfxoff=0"))
    t.same(m.setting("amdgpu.gfxoff", "better"), ("amdgpu.ppfeaturemask=0xfff73fff",), "gfxoff: from the driver's own value")
    t.ok("0xfff73fff" in m.findings["parameter-unknown"]["do"][0], "what would do what was meant is the first step")
    m = Machine(unhang, machine(cmdline="amdgpu.gfxoff=1"))
    t.same(m.setting("amdgpu.gfxoff", "better"), (None,), "gfxoff=1 wants nothing to be cleared")
    m = Machine(unhang, machine(loaded=False, more="=== /var/lib/pacman/local/linux-firmware-amdgpu-20251111-1/\n"
                                "=== /var/lib/pacman/local/linux-firmware-whence-20251125-1/\n"))
    t.same((m.fact("linux_firmware"), m.fact("driver_loaded"), m.fact("param.amdgpu.cwsr_enable")), ("20251111", "no", None), "Arch, and nothing loaded")


def module(root, ending, pack):
    def prepare(tree):
        directory = tree / root
        directory.mkdir(parents=True, exist_ok=True)
        info = "parmtype=new_thing:int\nparm=cwsr_enable:x\nversion=6.16.13\n" + "".join(f"alias=pci:{n}\n" for n in range(2000))
        (directory / f"amdgpu.ko{ending}").write_bytes(pack(modinfo_elf(info)))
    return prepare


def test_module(t, unhang):
    packers = {"": bytes, ".gz": gzip.compress, ".xz": lambda b: lzma.compress(b, check=lzma.CHECK_CRC32)}
    if shutil.which("zstd"):
        packers[".zst"] = lambda b: subprocess.run(["zstd", "-qc"], input=b, capture_output=True, check=True).stdout
    for ending, pack in packers.items():
        text = machine(loaded=False, cmdline="ro amdgpu.new_thing=1 amdgpu.cwsr_enabled=0 amdgpu.runpm=0",
                       more=f"=== /usr/lib/modules/6.12.48-amd64/modules.dep\nupdates/dkms/amdgpu.ko{ending}:\n")
        m = Machine(unhang, text, module("usr/lib/modules/6.12.48-amd64/updates/dkms", ending, pack))
        t.same((m.setting("amdgpu.new_thing", "state"), m.setting("amdgpu.cwsr_enabled", "state", "near"), m.setting("amdgpu.runpm", "state")),
               ((None,), ("misspelt", "amdgpu.cwsr_enable"), ("unknown-name",)), f"the installed module says what it takes: amdgpu.ko{ending}")
        m = Machine(unhang, text, module("usr/lib/modules/6.12.48-amd64/updates/dkms", ending, lambda b, pack=pack: pack(b)[:-9]))
        t.same(m.setting("amdgpu.new_thing", "state"), (None,), f"a module's file that is cut says nothing: amdgpu.ko{ending}")
    m = Machine(unhang, machine(cmdline="ro amdgpu.new_thing=1"), module("usr/lib/modules/6.12.48-amd64/kernel/drivers/gpu/drm/amd/amdgpu", "", bytes))
    t.same(m.setting("amdgpu.new_thing", "state"), (None,), "what the file has and /sys does not show is not unknown")
    m = Machine(unhang, machine(cmdline="ro amdgpu.new_thing=1"))
    t.same(m.setting("amdgpu.new_thing", "state"), ("unknown-name",), "without the file, what /sys lists is all there is")
    m = Machine(unhang, machine(loaded=False, cmdline="ro amdgpu.new_thing=1 amdgpu.mcbp=1"))
    t.same((m.setting("amdgpu.new_thing", "state"), m.setting("amdgpu.mcbp", "state"), m.fact("param.amdgpu.mcbp")), ((None,), (None,), "1"),
           "with neither, nothing is said")


MODPROBE_D = {"b.conf": 'options amdgpu cwsr_enable=5 \\\n  foo=1 bar="a b"\noptions amdgpu cwsr-enable=1\n # no\n   options   amdgpu\tmes=1\n'
                        "options am* x=3\noptions AMDGPU z=1\noptions amdgpu a=x\\y\n# options amdgpu no=1\n",
              "a.conf": "options amdgpu first=1", "c.txt": "options amdgpu no=1\n", "10.conf": "softdep amdgpu pre: ttm\noptions amdgpu zero=0\n"}


def kernel_words(line):
    """name=value of an insmod line, as the kernel splits it."""
    return [re.sub(r"^[^=]*", lambda n: n[0].replace("-", "_"), word.replace('"', "")) for word in re.findall(r'(?:[^\s"]|"[^"]*")+', line)]


def test_modprobe(t, unhang):
    modprobe = shutil.which("modprobe", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    cmdline = 'ro amdgpu.cwsr_enable=7 amdgpu.q="1 2" amdgpu.cwsr_enable=8 -- amdgpu.after=1'
    text = machine(cmdline=cmdline, more="".join(f"=== /etc/modprobe.d/{name}\n{body}\n" for name, body in MODPROBE_D.items()))
    if not modprobe:
        return t.skip("modprobe.d is read as modprobe reads it", "there is no modprobe")
    with tempfile.TemporaryDirectory() as room:
        room = pathlib.Path(room)
        (room / "conf").mkdir()
        for name, body in MODPROBE_D.items():
            (room / "conf" / name).write_text(body + "\n")
        (room / "cmdline").write_text(cmdline + "\n")
        modules = room / "root/lib/modules/6.12.48-amd64"
        modules.mkdir(parents=True)
        (modules / "amdgpu.ko").write_bytes(modinfo_elf("license=GPL\nname=amdgpu\n"))
        (modules / "modules.dep").write_text("amdgpu.ko:\n")
        subprocess.run([str(pathlib.Path(modprobe).parent / "depmod"), "-b", room / "root", "6.12.48-amd64"], capture_output=True, check=False)
        shell = 'mount --bind "$0/cmdline" /proc/cmdline && exec "$1" -C "$0/conf" -d "$0/root" -S 6.12.48-amd64 --show-depends amdgpu'
        run = subprocess.run(["unshare", "-rm", "sh", "-c", shell, room, modprobe], capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith("insmod") and "amdgpu.ko" in line]
    if not lines:
        return t.skip("modprobe.d is read as modprobe reads it", run.stderr.strip()[-100:].replace("\n", " ") or "modprobe says nothing")
    return t.same(words(unhang, text), kernel_words(lines[0].split("amdgpu.ko ", 1)[1]), "modprobe.d and the command line are read as modprobe reads them")


def test_directories(t, unhang):
    m = Machine(unhang, machine(parameters={"mcbp": "1"}, more="=== /usr/lib/modprobe.d/a.conf\noptions amdgpu mcbp=0 runpm=0\n"
                                "=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=1\n"))
    t.same((m.setting("amdgpu.mcbp", "state"), m.setting("amdgpu.runpm", "state")), (("in-effect",), (None,)), "a file in /etc hides that of the distribution")
    m = Machine(unhang, machine(parameters={"mcbp": "1"}, more="=== /lib/modprobe.d/z.conf\noptions amdgpu mcbp=1\n"
                                "=== /etc/modprobe.d/a.conf\noptions amdgpu mcbp=0\n"))
    t.same(m.fact("set.amdgpu.mcbp"), "1", "files are read in the order of their names, whatever their directory")


def hostile(root):
    (root / "etc/modprobe.d").mkdir(parents=True, exist_ok=True)
    os.mkfifo(root / "etc/modprobe.d/fifo.conf")
    (root / "etc/modprobe.d/loop.conf").symlink_to("loop.conf")
    (root / "etc/modprobe.d/out.conf").symlink_to("/proc/self/mem")
    for n in range(40):
        (root / f"etc/modprobe.d/big{n}.conf").write_text("".join(f"options amdgpu mcbp{n}_{i}=1\nblacklist amdgpu\n" for i in range(2000)))
    (root / "etc/modprobe.d/bytes.conf").write_bytes(bytes(range(256)) * 300)
    status = root / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    with open(status, "wb") as file:
        file.truncate(1 << 36)
    builtin = root / "usr/lib/modules/6.12.48-amd64/modules.builtin"
    builtin.unlink()
    os.mkfifo(builtin)
    file = root / "usr/lib/modules/6.12.48-amd64/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko"
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(bytes(300 << 20), 1))


def test_hostile(t, unhang):
    m = Machine(unhang, machine(cmdline="amdgpu.nothing=1 " + "x" * 70000), hostile)
    t.ok(m.status == 2 and m.seconds < 10, "a hostile tree: an answer, and no wait", f"status {m.status}, {m.seconds:.1f} s, {m.stderr[-300:]}")


def main():
    t, unhang = Tap(), Unhang(sys.argv[1])
    test_titles(t)
    test_ranges(t)
    for test in (test_cases, test_steps, test_one_finding, test_near, test_facts, test_module, test_modprobe, test_directories, test_hostile):
        test(t, unhang)
    t.end()


main()
