"""What the doctor sees of GPUs and the buses above them, and what it makes of it, on small trees."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from machine_tree import plant_text
from tap import Tap

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
        files["iommu_group"] = f"-> ../../../../kernel/iommu_groups/{card + 20}"
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


def doctor(tree, *options):
    """The JSON document of a tree's text, or of a directory."""
    if not isinstance(tree, str):
        return ask(tree, *options)
    with tempfile.TemporaryDirectory() as at:
        plant_text(tree, at)
        return ask(at, *options)


def ask(at, *options):
    run = subprocess.run([UNHANG, "doctor", "--root", str(at), "--json", *options], capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout)


if __name__ == "__main__":
    print(json.dumps(doctor(eval(sys.argv[2])), indent=1))
