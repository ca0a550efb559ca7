"""What the doctor sees of GPUs and the buses above them, and what it makes of it, on small trees."""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from machine_tree import plant_text
from tap import Tap, is_sanitized, worked

UNHANG = sys.argv[1]
GB = 1 << 30
WAY = "0000:00:01.1/0000:01:00.0/0000:02:00.0"


def text(path, value):
    return f"=== {path}\n{value}\n"


def config(port, capabilities2=0x1c0, control2=0):
    """256 bytes: a PCI Express capability at 0x40."""
    space = bytearray(256)
    space[0x34] = 0x40
    space[0x40] = 0x10
    space[0x42:0x44] = (port << 4 | 2).to_bytes(2, "little")
    space[0x64:0x68] = capabilities2.to_bytes(4, "little")
    space[0x68:0x6a] = control2.to_bytes(2, "little")
    return space.hex()


def device(pci, path, device_id, vendor="0x1002", kind="0x030000", speed="16.0 GT/s PCIe", width=16, max_speed="16.0 GT/s PCIe",
           max_width=16, **more):
    """A PCI device, which bus/pci/devices has a link to."""
    at = f"/sys/devices/{path}/{pci}" if path else f"/sys/devices/{pci}"
    out = f"=== /sys/bus/pci/devices/{pci} -> ../../../{at[5:]}\n"
    files = {"vendor": vendor, "device": device_id, "class": kind, "revision": "0xc8", "current_link_speed": speed,
             "current_link_width": width, "max_link_speed": max_speed, "max_link_width": max_width, **more}
    for name, value in files.items():
        if value is None:
            continue
        if name.endswith("config"):
            out += f"=== {at}/{name} hex\n{value}\n"
        elif str(value).startswith("-> "):
            out += f"=== {at}/{name} {value}\n"
        else:
            out += text(f"{at}/{name}", value)
    return out


def gpu(pci="0000:03:00.0", card=0, path="pci0000:00/" + WAY, device_id="0x744c", vram=24 * GB, visible=None, group="identity", **more):
    files = {"driver": "-> ../../../../../../bus/pci/drivers/amdgpu", f"drm/card{card}/dev": "226:0", "power/runtime_status": "active",
             "mem_info_vram_total": vram, "mem_info_vis_vram_total": vram if visible is None else visible,
             "gpu_busy_percent": 0, "power_dpm_force_performance_level": "auto", "vbios_version": "113-D7020100-102",
             "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0", "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0",
             "aer_dev_correctable": "TOTAL_ERR_COR 0",
             "fw_version/mes_fw_version": "0x00000052", "fw_version/smc_fw_version": "0x004e7e00"}
    out = ""
    if group:
        files["iommu_group"] = f"-> /sys/kernel/iommu_groups/{card + 20}"
        out = text(f"/sys/kernel/iommu_groups/{card + 20}/type", group) + text("/sys/class/iommu/ivhd0/x", "")
    return out + device(pci, path, device_id, **{**files, **more})


def bridges(root=None, up=None):
    """The root port, and the switch on the card."""
    root = {"vendor": "0x1022", "kind": "0x060400", "config": config(4), **(root or {})}
    up = {"kind": "0x060400", "config": config(5), **(up or {})}
    return (device("0000:00:01.1", "pci0000:00", "0x14b9", **root) + device("0000:01:00.0", "pci0000:00/0000:00:01.1", "0x1478", **up) +
            device("0000:02:00.0", "pci0000:00/0000:00:01.1/0000:01:00.0", "0x1479", kind="0x060400", config=config(6)))


def node(number, location, gfx, links=(), gpu_id=None):
    """Of KFD; links are (type, to, flags)."""
    at = f"/sys/class/kfd/kfd/topology/nodes/{number}"
    out = text(f"{at}/gpu_id", 0 if gfx is None else gpu_id or 1000 + number)
    out += text(f"{at}/properties", f"cpu_cores_count {16 if gfx is None else 0}\nio_links_count {len(links)}\ngfx_target_version {gfx or 0}\n"
                f"vendor_id {4098 if gfx else 0}\nlocation_id {location}\ndomain 0")
    for n, (kind, to, flags) in enumerate(links):
        out += text(f"{at}/io_links/{n}/properties", f"type {kind}\nnode_from {number}\nnode_to {to}\nflags {flags}")
    return out


def displays(card, names, connected=()):
    return "".join(text(f"/sys/class/drm/card{card}-{name}/status", "connected" if name in connected else "disconnected") for name in names)


def machine(cmdline="BOOT_IMAGE=/vmlinuz ro", aspm="[default] performance powersave powersupersave"):
    return (text("/proc/cmdline", cmdline) + text("/proc/sys/kernel/osrelease", "6.14.8") +
            text("/sys/module/pcie_aspm/parameters/policy", aspm))


CPU = node(0, 0, None)


def navi(root=None, up=None, link=(2, 0, 1), **more):
    """A healthy RX 7900 XTX."""
    return machine() + bridges(root, up) + gpu(**more) + CPU + node(1, 0x300, 110000, [link])


INSTINCT = [0x05, 0x26, 0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5]


def mi300(change=None, unlinked=(), group="identity", cmdline="ro iommu=pt"):
    """Eight of them; @change has files of some, by number; @unlinked are pairs."""
    out = machine(cmdline) + CPU
    for n, bus in enumerate(INSTINCT):
        pci, port = f"0000:{bus:02x}:00.0", f"0000:{bus - 1:02x}:00.0"
        more = {"kind": "0x120000", "speed": "32.0 GT/s PCIe", "max_speed": "32.0 GT/s PCIe", "current_compute_partition": "SPX",
                "current_memory_partition": "NPS1", "available_compute_partition": "SPX, DPX, QPX, CPX",
                "xgmi_hive_info/xgmi_hive_id": "1234567890", "ras/gpu_vram_bad_pages": "", "ras/umc_err_count": "ue: 0\nce: 0\nde: 0",
                "ras/gfx_err_count": "ue: 0\nce: 0", **(change or {}).get(n, {})}
        port_more = {key[5:]: more.pop(key) for key in list(more) if key.startswith("port_")}
        out += device(port, f"pci{bus:04x}:00", "0x14ab", **{"vendor": "0x1022", "kind": "0x060400", "max_speed": "32.0 GT/s PCIe",
                                                             "speed": "32.0 GT/s PCIe", "config": config(4), **port_more})
        out += gpu(pci, n, f"pci{bus:04x}:00/{port}", "0x74a1", 192 * GB, group=group, **more)
        links = [(2, 0, 1)] + [(11, m + 1, 1) for m in range(8) if m != n and (n, m) not in unlinked and (m, n) not in unlinked]
        out += node(n + 1, bus << 8, 90402, links)
    return out


def ask(at, *options):
    run = subprocess.run([UNHANG, "doctor", "--root", str(at), "--json", *options], capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout)


@functools.cache
def doctor(tree):
    """The JSON document of a tree's text."""
    with tempfile.TemporaryDirectory() as at:
        plant_text(tree, at)
        return ask(at)


OWN = re.findall(r"^check (\S+)", (pathlib.Path(__file__).resolve().parent.parent / "knowledge" / "doctor-gpus.know").read_text(), re.M)


def found(document, ok=False):
    """Ids of what this part found."""
    return sorted(f["id"] for f in document["findings"] if f["id"] in OWN and (f["severity"] == "ok") == ok)


def facts(document, pci=None):
    """The first value of each fact of a GPU, or of the machine."""
    machine = document["machine"]
    rows = machine["facts"] if pci is None else next(g for g in machine["gpus"] if g["pci"] == pci)["facts"]
    return {row["name"]: row["value"] for row in reversed(rows)}


CARD = "0000:03:00.0"
FIFTH = "0000:85:00.0"
ROCM = text("/opt/rocm-7.1.1/.info/version", "7.1.1-38") + "=== /opt/rocm -> rocm-7.1.1\n"
IGPU = gpu("0000:0e:00.0", 1, "pci0000:00/0000:00:08.1", "0x164e", GB // 2, **{"power_dpm_force_performance_level": "auto"})
IGPU_NODE = node(2, 0xe00, 100306)
SCREEN, NO_SCREEN = displays(0, ["DP-1", "HDMI-A-1"], ["DP-1"]), displays(0, ["DP-1"])
AT = f"/sys/bus/pci/devices/{CARD}"


def unbound(driver, **more):
    """A card that amdgpu does not have."""
    return machine() + device(CARD, "", "0x744c", driver=driver and f"-> ../../bus/pci/drivers/{driver}", **more)


NO_DRIVER = {"uevent": f"PCI_CLASS=30000\nPCI_SLOT_NAME={CARD}"}


def log(*lines):
    return text("/var/log/dmesg", "\n".join(f"[    {n + 1}.000000] {line}" for n, line in enumerate(lines)))


REFUSED = "kfd kfd: amdgpu: skipped device 1002:{}, PCI rejects atomics 730<0"
NO_FIRMWARE = [f"amdgpu {CARD}: Direct firmware load for amdgpu/gc_12_0_1_pfp.bin failed with error -2",
               f"amdgpu {CARD}: amdgpu: Fatal error during GPU init", f"amdgpu: probe of {CARD} failed with error -2"]
MODE = "iommu: Default domain type: {}"


def mi210(hives):
    """Cards of a kind that bridges join: the hive of each, 0 is none."""
    out = machine("ro iommu=pt") + CPU
    for n, hive in enumerate(hives):
        bus = 0x23 + 0x20 * n
        peers = [m for m, other in enumerate(hives) if m != n and hive and other == hive]
        out += gpu(f"0000:{bus:02x}:00.0", n, f"pci0000:{bus:02x}", "0x740f", 64 * GB, **{"xgmi_hive_info/xgmi_hive_id": hive})
        out += node(n + 1, bus << 8, 90010, [(2, 0, 1)] + [(11, m + 1, 1) for m in peers])
    return out


def two_cards(first="0x67df", second="0x744c", nodes=""):
    """Side by side; @nodes are KFD's."""
    return machine() + gpu(device_id=first) + gpu("0000:04:00.0", 1, "pci0000:00", second) + nodes


SLOW = "2.5 GT/s PCIe"
# what it is, its tree, the findings that are not `ok`
CASES = [
    ("a healthy card", navi(), []),
    ("a healthy card with its screen", navi() + SCREEN, []),
    ("a healthy node", mi300(), []),
    ("no GPU", machine(), []),
    ("nothing at all", "=== /proc/\n", []),
    ("a small aperture", navi(visible=256 << 20), ["bar-small"]),
    ("a small aperture, told by the resources only",
     navi(visible="", resource="0x000000d000000000 0x000000d00fffffff 0x000000000014220c\n0x0 0x0 0x0"), ["bar-small"]),
    ("a large aperture, told by the resources only",
     navi(visible="", resource="0x0000006800000000 0x0000006fffffffff 0x000000000014220c\n0x0 0x0 0x0"), []),
    ("an APU has no aperture", machine() + gpu(device_id="0x1586", visible=256 << 20), []),
    ("a small aperture in a node", mi300({4: {"mem_info_vis_vram_total": 256 << 20}}), ["bar-small-peers"]),
    ("no atomics, and KFD left it out",
     machine() + bridges({"config": config(4, 0)}) + gpu() + CPU, ["atomics-no-compute"]),
    ("a switch that does not pass atomics", machine() + bridges(up={"config": config(5, 0x180)}) + gpu() + CPU, ["atomics-no-compute"]),
    ("a switch that blocks atomics", machine() + bridges(up={"config": config(5, 0x1c0, 0x80)}) + gpu() + CPU, ["atomics-no-compute"]),
    ("atomics are there, KFD left it out for another reason", machine() + bridges() + gpu() + CPU, []),
    ("a configuration that is cut off says nothing", machine() + bridges({"config": config(4, 0)[:128]}) + gpu() + CPU, []),
    ("no atomics, and KFD has it", navi(link=(2, 0, 13)), ["atomics-missing"]),
    ("a narrow link at the card's edge", navi(up={"width": 4}), ["link-narrow"]),
    ("a narrow link above it", machine() + bridges() +
     device("0000:00:03.1", "pci0000:00", "0x1483", vendor="0x1022", kind="0x060400") +
     device("0000:20:00.0", "pci0000:00/0000:00:03.1", "0xb210", vendor="0x1000", kind="0x060400", width=8) +
     device("0000:21:00.0", "pci0000:00/0000:00:03.1/0000:20:00.0", "0xb210", vendor="0x1000", kind="0x060400") +
     gpu("0000:22:00.0", 0, "pci0000:00/0000:00:03.1/0000:20:00.0/0000:21:00.0", "0x738c"), ["link-narrow"]),
    ("links on the card say nothing", navi(width=1, speed=SLOW), []),
    ("a slot with fewer lanes is all it can do", navi({"max_width": 8}, {"width": 8}), []),
    ("a slot with very few lanes", navi({"max_width": 4}, {"width": 4}), ["slot-narrow"]),
    ("an older slot", navi({"max_speed": "8.0 GT/s PCIe"}, {"speed": "8.0 GT/s PCIe"}), []),
    ("a slow link of a GPU that idles is power saving", navi(up={"speed": SLOW}), []),
    ("and may give lanes up", navi(up={"speed": SLOW, "width": 1}), []),
    ("a narrow link of a GPU that works", navi(up={"speed": SLOW, "width": 1}, gpu_busy_percent=60), ["link-narrow"]),
    ("a slow link of a GPU that works", navi(up={"speed": SLOW}, gpu_busy_percent=97), ["link-slow"]),
    ("a slow link of an Instinct, which does not save there", mi300({4: {"speed": "16.0 GT/s PCIe"}}), ["link-slow"]),
    ("plain directories, a narrow link", text(f"{AT}/vendor", "0x1002") + text(f"{AT}/class", "0x030000") +
     text(f"{AT}/device", "0x744c") + text(f"{AT}/drm/card0/dev", "") + text(f"{AT}/current_link_width", 8) +
     text(f"{AT}/max_link_width", 16), ["link-narrow"]),
    ("a card that sleeps is not asked", navi(up={"width": 4}, **{"power/runtime_status": "suspended"},
                                             power_dpm_force_performance_level="low"), []),
    ("a box on Thunderbolt", machine() + device("0000:00:03.1", "pci0000:00", "0x14cd", vendor="0x1022", kind="0x060400", width=4) +
     gpu("0000:22:00.0", 0, "pci0000:00/0000:00:03.1", width=4, speed=SLOW), []),
    ("fatal errors", navi(aer_dev_fatal="TOTAL_ERR_FATAL 2", aer_dev_nonfatal="TOTAL_ERR_NONFATAL 1"), ["link-fatal-errors"]),
    ("errors that are not fatal", navi(aer_dev_nonfatal="TOTAL_ERR_NONFATAL 1"), ["link-errors"]),
    ("a few corrected errors", navi(aer_dev_correctable="TOTAL_ERR_COR 12"), []),
    ("many corrected errors", navi(aer_dev_correctable="TOTAL_ERR_COR 12000"), ["link-corrected-errors"]),
    ("one card behind an IOMMU that translates", navi(group="DMA-FQ"), []),
    ("a node behind an IOMMU that translates", mi300(group="DMA-FQ", cmdline="ro"), ["iommu-translated"]),
    ("a node with an IOMMU of an unknown kind", mi300(group=None, cmdline="ro") + text("/sys/class/iommu/ivhd0/x", ""), ["iommu-translated"]),
    ("the command line says so", mi300(group=None) + text("/sys/class/iommu/ivhd0/x", ""), []),
    ("no IOMMU", mi300(group=None, cmdline="ro") + "=== /sys/class/iommu/\n", []),
    ("clocks at their lowest", navi(power_dpm_force_performance_level="low"), ["dpm-forced-low"]),
    ("clocks that are forced", navi(power_dpm_force_performance_level="profile_peak"), ["dpm-forced"]),
    ("pinned clocks of a 780M", machine() + gpu(device_id="0x15bf", power_dpm_force_performance_level="high"), ["dpm-forced-gfx1103"]),
    ("determinism of an Instinct is a choice", mi300({4: {"power_dpm_force_performance_level": "perf_determinism"}}), []),
    ("uncorrected errors", mi300({4: {"ras/umc_err_count": "ue: 2\nce: 7\nde: 0"}}), ["ras-uncorrected"]),
    ("a fatal error since the driver was loaded", mi300({4: {"ras/event_state": "current seqno: 7\nFatal Error: count:1, last_seqno:7\nPoison Creation: count:0, last_seqno:0\nPoison Consumption: count:0, last_seqno:0"}}), ["ras-events"]),
    ("damaged data that was used, and an older driver", mi300({4: {"ras/event_state": "current seqno: 7\nFault Error : count:0, last_seqno:0\nPoison Consumption : count:2, last_seqno:7"}}), ["ras-events"]),
    ("damaged data that nobody used", mi300({4: {"ras/event_state": "current seqno: 7\nFatal Error: count:0, last_seqno:0\nPoison Creation: count:3, last_seqno:7\nPoison Consumption: count:0, last_seqno:0"}}), []),
    ("corrected errors", mi300({4: {"ras/umc_err_count": "ue: 0\nce: 7\nde: 0"}}), []),
    ("a page that waits", mi300({4: {"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : P"}}), ["pages-pending"]),
    ("a page that cannot be retired", mi300({4: {"ras/gpu_vram_bad_pages":
                                              "0x00000001 : 0x00001000 : P\n0x00000002 : 0x00001000 : F"}}), ["pages-not-retired"]),
    ("retired pages", mi300({4: {"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R"}}), ["pages-retired"]),
    ("many retired pages", mi300({4: {"ras/gpu_vram_bad_pages": "\n".join(f"0x{n:08x} : 0x00001000 : R" for n in range(300))}}),
     ["pages-many"]),
    ("a GPU outside the hive", mi300({4: {"xgmi_hive_info/xgmi_hive_id": 0}}, [(4, n) for n in range(8)]), ["xgmi-missing"]),
    ("one link that is missing", mi300(unlinked=[(2, 5)]), ["xgmi-missing"]),
    ("no link at all", mi300({n: {"xgmi_hive_info/xgmi_hive_id": 0} for n in range(8)},
                             [(n, m) for n in range(8) for m in range(8)]), ["xgmi-none"]),
    ("two hives of four", mi300({n: {"xgmi_hive_info/xgmi_hive_id": 1 + n // 4} for n in range(8)},
                                [(n, m) for n in range(8) for m in range(8) if n // 4 != m // 4]), []),
    ("one in another mode", mi300({4: {"current_compute_partition": "CPX", "current_memory_partition": "NPS4"}}), ["partitions-differ"]),
    ("no driver", unbound(None, **NO_DRIVER), ["gpu-unbound"]),
    ("no driver, told by a file that each device has", unbound(None, driver_override="(null)"), ["gpu-unbound"]),
    ("no driver, told by the links of others", unbound(None) +
     device("0000:00:1f.0", "", "0x1234", vendor="0x8086", driver="-> ../../bus/pci/drivers/lpc"), ["gpu-unbound"]),
    ("a tree that does not tell the driver", unbound(None), []),
    ("a driver that the uevent tells", unbound(None, uevent=f"DRIVER=amdgpu\nPCI_SLOT_NAME={CARD}"), []),
    ("another driver that the uevent tells", unbound(None, uevent="DRIVER=radeon"), ["gpu-unbound"]),
    ("a uevent against the list of modules", unbound(None, uevent="DRIVER=amdgpu") +
     device("0000:00:1f.0", "", "0x1234", vendor="0x8086", driver="-> ../../bus/pci/drivers/lpc"), ["gpu-unbound"]),
    ("a driver that its directory tells", unbound(None, **NO_DRIVER) + text(f"/sys/bus/pci/drivers/amdgpu/{CARD}/x", ""), []),
    ("a driver that its node tells", unbound(None, **NO_DRIVER) + text("/sys/module/amdgpu/parameters/dc", -1) +
     f"=== /sys/class/drm/card0/device -> ../../../bus/pci/devices/{CARD}\n", []),
    ("KFD's refusal in the log", machine() + gpu(device_id="0x67df", group=None) + log(REFUSED.format("67df")), ["atomics-no-compute"]),
    ("KFD's refusal of another card in the log", machine() + gpu(group=None) + log(REFUSED.format("67df")), []),
    ("a refusal in the log of a card that KFD has", navi() + log(REFUSED.format("744c")), []),
    ("a refusal of one of two different cards", two_cards() + log(REFUSED.format("67df")), ["atomics-no-compute"]),
    ("a refusal of one of two like cards, nothing says which", two_cards("0x67df", "0x67df") + log(REFUSED.format("67df")), []),
    ("a refusal of one of two like cards, KFD has the other",
     two_cards("0x67df", "0x67df", CPU + node(1, 0x400, 80003)) + log(REFUSED.format("67df")), ["atomics-no-compute"]),
    ("firmware that is missing", unbound(None, **NO_DRIVER) + log(*NO_FIRMWARE), ["gpu-firmware-missing"]),
    ("firmware that was missing, and the driver runs", navi() + log(*NO_FIRMWARE), []),
    ("firmware that the driver does without", navi() + log(NO_FIRMWARE[0]), []),
    ("firmware of another device is missing", unbound(None, **NO_DRIVER) +
     log("iwlwifi 0000:05:00.0: Direct firmware load for iwlwifi-cc-a0-77.ucode failed with error -2"), ["gpu-unbound"]),
    ("a start that failed", unbound(None, **NO_DRIVER) + log(NO_FIRMWARE[1]), ["gpu-not-started"]),
    ("two cards that a bridge joins, and one alone", mi210([7, 7, 0]), []),
    ("two pairs", mi210([7, 7, 8, 8]), []),
    ("four cards, one is not joined", mi210([7, 7, 7, 0]), ["xgmi-bridge"]),
    ("a node whose IOMMU's mode only the log says", mi300(group=None, cmdline="ro") + log(MODE.format("Translated")), ["iommu-default"]),
    ("a node with an IOMMU whose mode the log says", mi300(group=None, cmdline="ro") + text("/sys/class/iommu/ivhd0/x", "") +
     log(MODE.format("Translated")), ["iommu-translated"]),
    ("a node with an IOMMU that lets pass, says the log", mi300(group=None, cmdline="ro") + text("/sys/class/iommu/ivhd0/x", "") +
     log(MODE.format("Passthrough (set via kernel command line)")), []),
    ("groups count more than the log", mi300() + log(MODE.format("Translated")), []),
    ("one card, and the log's mode", navi(group=None) + log(MODE.format("Translated")), []),
    ("power saving of links by force", navi() + machine("ro pcie_aspm=force"), ["aspm-forced"]),
    ("the deepest sleep of links", navi() + machine(aspm="default performance powersave [powersupersave]"), ["aspm-deep"]),
    ("the display, where only drm's class has it",
     "".join(device(pci, "", chip, driver="-> ../../bus/pci/drivers/amdgpu") +
             f"=== /sys/class/drm/card{n}/device -> ../../../bus/pci/devices/{pci}\n"
             for n, (pci, chip) in enumerate([(CARD, "0x744c"), ("0000:0e:00.0", "0x164e")])) +
     displays(0, ["DP-1"], ["DP-1"]) + displays(1, ["HDMI-A-1"]), ["display-on-card"]),
    ("the wrong driver", unbound("radeon"), ["gpu-unbound"]),
    ("a card for guests", unbound("vfio-pci"), []),
    ("off the bus", navi(config="ff" * 64, width=63), ["gpu-off-bus"]),
    ("an APU beside a card, nobody computes", navi() + IGPU + IGPU_NODE + SCREEN + text("/usr/bin/true", ""), []),
    ("an APU beside a card, programs were not recorded", navi() + IGPU + IGPU_NODE + SCREEN, ["display-on-card"]),
]
COMPUTES = [
    ("the screen on the card", navi() + IGPU + IGPU_NODE + SCREEN + ROCM, ["display-on-compute-gpu", "igpu-visible"]),
    ("the screen on the APU", navi() + IGPU + IGPU_NODE + NO_SCREEN + displays(1, ["HDMI-A-2"], ["HDMI-A-2"]) + ROCM, ["igpu-visible"]),
    ("a variable chooses the card", navi() + IGPU + IGPU_NODE + NO_SCREEN + ROCM + text("/etc/environment", "HIP_VISIBLE_DEVICES=0"), []),
    ("no screen, and the APU is off for compute", navi() + IGPU + NO_SCREEN + ROCM, []),
    ("one GPU only", navi() + SCREEN + ROCM, []),
]


def check_cases(t):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        cases = CASES[::3 if is_sanitized(UNHANG) else 1]
        documents = pool.map(doctor, [tree for _, tree, _ in cases])
        for (name, _, wanted), document in zip(cases, documents):
            t.same(found(document), wanted, name)
    for name, tree, wanted in COMPUTES:
        t.same(found(doctor(tree)), wanted, "with ROCm: " + name)


def check_good(t):
    """What is good is said."""
    t.same(found(doctor(navi()), True), ["atomics-good", "bar-good", "iommu-good", "link-good"], "what is good of a card")
    t.same(found(doctor(mi300()), True), ["atomics-good", "bar-good", "iommu-good", "link-good", "pages-good",
                                          "partitions-good", "xgmi-good"], "what is good of a node")
    t.same(found(doctor(unbound("vfio-pci")), True), ["gpu-for-guests"], "a card for guests is no mistake")
    t.ok("display-apart" in found(doctor(navi() + IGPU + NO_SCREEN + displays(1, ["HDMI-A-2"], ["HDMI-A-2"])), True),
         "a screen on the APU is good")
    t.ok("link-idle" in found(doctor(navi(up={"speed": SLOW})), True), "a link that saves power is good")


DRI = "/sys/kernel/debug/dri"
MES_83 = "MES feature version: 1, firmware version: 0x00000083"


def check_debugfs(t):
    """Whose directory it is, in trees that have no `name` in it."""
    bare = unbound("amdgpu")
    two = bare + device("0000:04:00.0", "", "0x744c", driver="-> ../../bus/pci/drivers/amdgpu") + \
        "=== /sys/class/drm/card0/device -> ../../../bus/pci/devices/0000:04:00.0\n" + \
        f"=== /sys/class/drm/card1 -> ../../devices/{CARD}/drm/card1\n" + \
        f"=== /sys/class/drm/renderD129 -> ../../devices/{CARD}/drm/renderD129\n"

    def info(directory, said=MES_83):
        return text(f"{DRI}/{directory}/amdgpu_firmware_info", said)
    cases = [("the only one", bare + info(5), "0x83"), ("its address", two + info(CARD), "0x83"), ("its card's number", two + info(1), "0x83"),
             ("its render node's number", two + info(129), "0x83"), ("another card's number", two + info(0), None),
             ("nobody's number", two + info(7), None), ("two that may be it", bare + info(5) + info(6), None),
             ("one that says whose it is", bare + info(5) + text(f"{DRI}/5/name", "amdgpu dev=0000:09:00.0 unique=x"), None),
             ("a number before the others", two + info(1) + info(0, MES_83.replace("83", "82")), "0x83")]
    for name, tree, wanted in cases:
        t.same(facts(doctor(tree), CARD).get("fw_mes"), wanted, "firmware in debugfs: " + name)


# facts that a reader notes together with another, or with a value of it
SPEEDS = ["link_speed", "link_speed_can"]
TOGETHER = {"bar": ["bar_visible_mb", "vram_mb"], "link_state": ["link_width", "link_width_can"], "link_state = slow": SPEEDS,
            "link_state = idle": SPEEDS, "displays > 0": ["display_names"], "link_limited_by": ["card_width"], "ras_ue > 0": ["ras_ue_blocks"],
            "partition_mode_count": ["partition_modes"]}
ALWAYS = {"part", "pci", "dgpus", "gpus", "apu"}


def check_titles(t):
    """With what its condition needs, each check has a title, what was seen, and a reason."""
    knowledge = (pathlib.Path(__file__).resolve().parent.parent / "knowledge" / "doctor-gpus.know").read_text()
    lacking = []
    for block in re.split(r"^check ", knowledge, flags=re.M)[1:]:
        keys = re.findall(r"^    (\S+) +(.*(?:\n      +.*)*)", block, re.M)
        for when in [value for key, value in keys if key == "when"]:
            known = set(ALWAYS)
            for term in when.split(" and "):
                fact = term.split()[0]
                known |= {fact, *TOGETHER.get(fact, []), *TOGETHER.get(term, [])} if fact != "no" else set()
            for key, value in keys:
                phrases = [one for phrase in re.sub(r"\s+", " ", value).split(" | ") for one in phrase.split(" || ")]
                whole = any(set(re.findall(r"\{([a-z_.0-9]+)@?\}", one)) <= known for one in phrases)
                if key in ("title", "seen", "why") and not whole:
                    lacking.append(f"{block.split()[0]}: nothing of its {key} is left with {sorted(known)}")
    t.no_complaints(lacking, "no check can have an empty title, seen or why")


def texts(document, finding):
    return next(f for f in document["findings"] if f["id"] == finding)


def check_words(t):
    got = texts(doctor(mi300({4: {"current_compute_partition": "CPX", "current_memory_partition": "NPS4"}})), "partitions-differ")["seen"]
    t.ok(got.startswith(f"{FIFTH} is in CPX/NPS4, the others are in SPX/NPS1 ("), "the GPU that differs is named", got)
    got = texts(doctor(mi300(unlinked=[(2, 5)])), "xgmi-missing")["seen"]
    t.ok(got.endswith("joined to 6 of 7 others"), "links are counted to others", got)
    pages = "\n".join(f"0x{n:08x} : 0x00001000 : R" for n in range(1300))
    got = texts(doctor(mi300({4: {"ras/gpu_vram_bad_pages": pages}})), "pages-many")["seen"]
    t.ok(got.startswith("bad pages: at least 1160 ("), "a list that was cut off says so", got)
    got = texts(doctor(unbound(None, **NO_DRIVER) + log(*NO_FIRMWARE)), "gpu-firmware-missing")
    t.ok("amdgpu/gc_12_0_1_pfp.bin" in got["title"] and "/var/log/dmesg:1" in got["seen"], "the missing file is named", got)
    got = doctor(two_cards("0x67df", "0x67df", CPU + node(1, 0x400, 80003)) + log(REFUSED.format("67df")))
    t.same(texts(got, "atomics-no-compute")["gpus"], [CARD], "the card that KFD lacks is meant")
    for name, tree, good in [("bad pages", mi300({4: {"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R"}}), "pages-good"),
                             ("a missing link", mi300(unlinked=[(2, 5)]), "xgmi-good"),
                             ("a small aperture", mi300({4: {"mem_info_vis_vram_total": 256 << 20}}), "bar-good")]:
        t.ok(good not in found(doctor(tree), True), f"beside {name} nothing says the opposite")


def check_some(t):
    """A line about some of several like GPUs says how many."""
    with tempfile.TemporaryDirectory() as at:
        plant_text(mi210([7, 7, 0]), at)
        run = subprocess.run([UNHANG, "doctor", "--root", at], capture_output=True, text=True, timeout=60)
        t.ok("Instinct MI210 has XGMI links to other GPUs: 1 (2 of 3 GPUs)" in " ".join(run.stdout.split()), "how many of the GPUs", run.stdout)


def has(t, document, pci, wanted, name):
    got = facts(document, pci)
    t.same({key: got.get(key) for key in wanted}, wanted, name)


def check_facts(t):
    has(t, doctor(navi(up={"width": 4, "speed": "8.0 GT/s PCIe"}) + SCREEN), CARD,
        {"part": "Radeon RX 7900 XTX", "gfx": "gfx1100", "apu": "no", "fw_mes": "0x52", "fw_smu": "0x4e7e00", "vbios": "113-D7020100-102",
         "bar": "full", "vram_mb": "24576", "atomics": "yes", "kfd": "yes", "link_width": "4", "link_width_can": "16",
         "link_speed": "8.0 GT/s", "link_speed_can": "16.0 GT/s", "link_state": "narrow", "link_at": "0000:00:01.1 to 0000:01:00.0",
         "dpm_level": "auto", "displays": "1", "display_names": "DP-1", "iommu": "passthrough", "off_bus": None, "unbound": None},
        "facts of a card")
    own = {"drm/card0/card0-DP-1/status": "disconnected", "drm/card0/card0-eDP-1/status": "connected", "drm/card0/card0-Writeback-1/status": "connected"}
    has(t, doctor(navi(**own) + NO_SCREEN), CARD, {"displays": "1", "display_names": "eDP-1"}, "displays of the device's own directory, not of the class")
    has(t, doctor(navi(**{"drm/card0/card1-DP-1/status": "connected"}) + SCREEN), CARD, {"displays": "1", "display_names": "DP-1"}, "one of another card there is not its own")
    has(t, doctor(navi({"max_width": 4}, {"width": 4})), CARD, {"link_limited_by": "0000:00:01.1", "card_width": "16", "link_state": "full"},
        "which end is less")
    node_doc = doctor(mi300({4: {"ras/umc_err_count": "ue: 2\nce: 7", "ras/gfx_err_count": "ue: 1\nce: 0",
                                 "ras/gpu_vram_bad_pages": "\n".join(f"0x{n:08x} : 0x00001000 : {'RRP'[n % 3]}" for n in range(450))}},
                            unlinked=[(2, 4)]))
    has(t, node_doc, FIFTH, {"hive": "1234567890", "xgmi_links": "6", "xgmi_peers_missing": "0000:46:00.0", "ras_ue": "3", "ras_ce": "7",
                             "ras_ue_blocks": "gfx 1, umc 2", "bad_pages": "450", "bad_pages_retired": "300", "bad_pages_pending": "150",
                             "compute_partition": "SPX", "memory_partition": "NPS1", "link_speed": "32.0 GT/s"}, "facts of a GPU in a node")
    got = facts(node_doc)
    t.same({key: got.get(key) for key in ("gpus", "apus", "dgpus", "iommu", "aspm", "hive_size", "partition_modes")},
           {"gpus": "8", "apus": "0", "dgpus": "8", "iommu": "passthrough", "aspm": "default", "hive_size": "8",
            "partition_modes": "SPX/NPS1"}, "facts of the node")
    got = facts(doctor(navi() + IGPU + IGPU_NODE + SCREEN))
    t.same({key: got.get(key) for key in ("gpus", "apus", "igpu_and_dgpu", "display_on")},
           {"gpus": "2", "apus": "1", "igpu_and_dgpu": "yes", "display_on": "dgpu"}, "facts of a machine with an APU and a card")
    info = "MES feature version: 1, firmware version: 0x00000083\nSMC feature version: 0, program: 4, firmware version: 0x00641f00 (100.31.0)\n" \
           "RLC SRLC feature version: 0, firmware version: 0x00000005\nVCE feature version: 0, firmware version: 0x00000000"
    debugfs = text(f"/sys/kernel/debug/dri/{CARD}/name", f"amdgpu dev={CARD} unique={CARD}") + \
        text(f"/sys/kernel/debug/dri/{CARD}/amdgpu_firmware_info", info)
    has(t, doctor(navi() + debugfs), CARD, {"fw_mes": "0x83", "fw_smu": "0x641f00", "fw_rlc_srlc": "0x5", "fw_vce": None},
        "debugfs knows more of the firmware")
    has(t, doctor(machine() + gpu(device_id="0x15bf")), CARD, {"apu": "yes", "bar": None, "link_state": None, "atomics": None}, "an APU has no slot")


def check_iommu(t):
    some, none = text("/sys/class/iommu/ivhd0/x", ""), "=== /sys/class/iommu/\n"
    modes = [("its group is the identity", navi(), "passthrough"), ("its group translates", navi(group="DMA-FQ"), "translated"),
             ("there is none", navi(group=None) + none, "off"), ("nothing says which", navi(group=None) + some, "on"),
             ("the command line says it", navi(group=None) + some + text("/proc/cmdline", "ro iommu=pt"), "passthrough"),
             ("the command line turns it off", navi(group=None) + some + text("/proc/cmdline", "ro iommu=pt amd_iommu=off"), "off"),
             ("nothing is known", navi(group=None), None)]
    for name, tree, wanted in modes:
        t.same(facts(doctor(tree)).get("iommu"), wanted, "IOMMU: " + name)


def check_by_card(t):
    """Trees without a list of PCI devices."""
    at = "/sys/class/drm/card1/device"
    base = text(f"{at}/vendor", "0x1002") + text(f"{at}/class", "0x030000") + text(f"{at}/device", "0x744c") + \
        text(f"{at}/power_dpm_force_performance_level", "low") + text(f"{at}/mem_info_vram_total", GB) + \
        text(f"{at}/fw_version/mes_fw_version", "0x52")
    document = doctor(base + text(f"{at}/uevent", f"DRIVER=amdgpu\nPCI_SLOT_NAME={CARD}"))
    has(t, document, CARD, {"gfx": "gfx1100", "fw_mes": "0x52", "dpm_level": "low"}, "a card whose uevent says where it is")
    t.same(found(document), ["dpm-forced-low"], "and what is wrong with it")
    way = f"/sys/devices/pci0000:00/0000:00:01.1/{CARD}"
    linked = base.replace(at, way) + f"=== /sys/class/drm/card1 -> ../../devices/pci0000:00/0000:00:01.1/{CARD}/drm/card1\n" + \
        f"=== {way}/drm/card1/device -> ../../../{CARD}\n"
    has(t, doctor(linked), CARD, {"gfx": "gfx1100", "fw_mes": "0x52", "dpm_level": "low"}, "a card whose link says where it is")
    has(t, doctor(base), "card1", {"gfx": "gfx1100", "fw_mes": "0x52"}, "a card of which nothing says where it is is called by its name")
    t.same(doctor(base.replace("0x1002", "0x10de"))["machine"]["gpus"], [], "one of another vendor is none")


def check_hostile(t):
    """Loops, pipes, directories for files, terabytes: an answer, and soon."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        plant_text(navi() + SCREEN, root)
        at = root / "sys/devices/pci0000:00" / WAY / CARD
        for name in ("current_link_width", "gpu_busy_percent", "power_dpm_force_performance_level"):
            (at / name).unlink()
        (at / "current_link_width").symlink_to("current_link_width")
        os.mkfifo(at / "gpu_busy_percent")
        (at / "power_dpm_force_performance_level").mkdir()
        for name in ("resource", "config", "ras/gpu_vram_bad_pages", "boot_vga", "uevent"):
            (at / name).parent.mkdir(exist_ok=True)
            with open(at / name, "wb") as file:
                file.truncate(1 << 42)
        (at / "ip_discovery").mkdir()
        (at / "ip_discovery/die").symlink_to("..")
        (at / "hwmon").symlink_to(".")
        (at / "fw_version/loop_fw_version").symlink_to("../fw_version")
        os.mkfifo(root / "sys/class/drm/card0-DP-1/status.pipe")
        (root / "sys/class/drm/card0-DP-2").symlink_to("card0-DP-2")
        (root / "sys/class/drm/card0-DP-3").symlink_to("/")
        (root / "sys/class/kfd/kfd/topology/nodes/1/io_links/7").symlink_to("../io_links")
        (root / "sys/class/kfd/kfd/topology/nodes/9").symlink_to("../nodes")
        (root / "sys/bus/pci/devices/0000:99:00.0").symlink_to("/sys/bus/pci/devices")
        (root / "sys/kernel/debug").mkdir(parents=True)
        (root / "sys/kernel/debug/dri").symlink_to("../../..")
        began = worked()
        document = ask(root)
        t.ok(worked() - began < 10, "a hostile tree is no reason to wait")
        has(t, document, CARD, {"gfx": None, "fw_mes": "0x52", "displays": None, "dpm_level": None, "gpu_busy": None},
            "what one file says is told; what others that cannot be read may change is in doubt")


def emulated(lines):
    """What the doctor says of an emulated GPU, and the files that it read."""
    with tempfile.TemporaryDirectory() as directory:
        scenario, record = (pathlib.Path(directory) / name for name in ("gpu.scenario", "record"))
        scenario.write_text(f"scenario one\n    title One\n\ngpu {CARD}\n    part gfx1100\n    sysfs power_dpm_force_performance_level auto\n{lines}")
        done = subprocess.run([UNHANG, "emulate", scenario, "--record", record, "--", UNHANG, "doctor", "--json"],
                              capture_output=True, text=True, timeout=60)
        read = {json.loads(line)["path"].rsplit("/", 1)[-1] for line in record.read_text().splitlines() if '"read"' in line}
        return done.returncode, json.loads(done.stdout) if done.stdout else {"findings": []}, read


def check_live(t):
    """On the machine itself: a driver that does not answer is told, and a card that sleeps goes on sleeping."""
    if subprocess.run([UNHANG, "emulate", "idle", "--", "true"], capture_output=True).returncode:
        return
    status, document, _ = emulated("    file gpu_busy_percent blocks\n")
    t.same((status, [f["id"] for f in document["findings"] if f["severity"] != "ok"]), (1, ["gpu-stuck"]), "a driver that does not answer")
    wakes = {"config", "current_link_speed", "gpu_busy_percent", "power_dpm_force_performance_level", "temp1_input"}
    status, document, read = emulated("    state suspended\n")
    t.same((status, sorted(read & wakes)), (0, []), "nothing is read that would wake up a card")
    t.ok(wakes <= emulated("")[2], "which is read of one that is awake")


def check_texts(t):
    """Each finding says all of what a finding has to say."""
    lacking = []
    for name, tree, wanted in CASES[::3 if is_sanitized(UNHANG) else 1]:
        if wanted:
            lacking += [f"{name}: {f['id']} has no {key}" for f in doctor(tree)["findings"] if f["id"] in wanted
                        for key in ("seen", "why", "do", "check", "grade", "source") if not f.get(key)]
    t.no_complaints(lacking, "each finding is whole")
    unknown = doctor(unbound(None, **NO_DRIVER).replace("0x744c", "0xfffe"))
    t.same([f["title"] for f in unknown["findings"] if f["id"] == "gpu-unbound"], ["amdgpu does not drive AMD GPU 1002:fffe"], "a part that nobody knows")


def main():
    t = Tap()
    check_cases(t)
    check_texts(t)
    check_good(t)
    check_facts(t)
    check_iommu(t)
    check_by_card(t)
    check_debugfs(t)
    check_titles(t)
    check_words(t)
    check_some(t)
    check_hostile(t)
    check_live(t)
    t.end()


main()
