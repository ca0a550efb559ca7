"""Devices of a machine whose /sys is made here, in a mount namespace."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tap import Tap, skip_all

SHELL = """
set -e
mount --bind "$1/sys" /sys
[ ! -e "$1/interrupts" ] || mount --bind "$1/interrupts" /proc/interrupts
mkdir -p /dev/dri && mount --bind "$1/dri" /dev/dri
if [ -e "$1/dri/renderD129" ]; then sleep 60 < /dev/dri/renderD129 & holder=$!; fi
shift
set +e
"$@"
status=$?
[ -z "$holder" ] || kill $holder
exit $status
"""
CONFIG = bytes.fromhex("02104c74") + bytes(60)
GONE = b"\xff" * 64


def ips(tree, pci, blocks, die=0):
    """As the driver does: a directory with the number of the block, and a link with its name."""
    for hw_id, name, instance, version, harvest, bases in blocks:
        at = f"sys/devices/{pci}/ip_discovery/die/{die}/{hw_id}/{instance}/"
        for key, value in zip(("major", "minor", "revision"), version):
            tree[at + key] = f"{value}\n"
        tree[at + "harvest"] = f"0x{harvest:X}\n"
        tree[at + "base_addr"] = "".join(f"0x{base:08X}\n" for base in bases)
        tree[f"sys/devices/{pci}/ip_discovery/die/{die}/{name}"] = ("link", str(hw_id))
    tree[f"sys/devices/{pci}/ip_discovery/die/{die}/num_ips"] = f"{len(blocks)}\n"


def gpu(tree, pci, card, device="0x744c", config=CONFIG, status="active", **more):
    at = f"sys/devices/{pci}/"
    tree[f"sys/bus/pci/devices/{pci}"] = ("link", f"../../../devices/{pci}")
    tree.update({
        at + "vendor": "0x1002\n", at + "class": "0x030000\n", at + "device": device + "\n", at + "revision": "0xc8\n",
        at + "subsystem_vendor": "0x1da2\n", at + "subsystem_device": "0x471e\n", at + "config": config,
        at + "power/runtime_status": status + "\n", at + "power_state": "D0\n",
        at + "driver": ("link", "../../bus/pci/drivers/amdgpu"),
        at + f"drm/card{card}/dev": "", at + f"drm/renderD{128 + card}/dev": "", at + f"drm/controlD{card}/dev": "",
        at + "gpu_busy_percent": "97\n", at + "mem_busy_percent": "3\n",
        at + f"hwmon/hwmon{card + 4}/power1_average": "250000000\n", at + f"hwmon/hwmon{card + 4}/temp1_input": "61000\n",
        at + f"hwmon/hwmon{card + 4}/freq1_input": "2400000000\n",
        at + "mem_info_vram_total": "25753026560\n", at + "mem_info_vram_used": "27815936\n",
        at + "current_link_speed": "16.0 GT/s PCIe\n", at + "current_link_width": "16\n",
        at + "aer_dev_correctable": "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n",
        at + "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0\n",
        at + "fw_version/mes_fw_version": "0x00000052\n", at + "fw_version/vce_fw_version": "0x00000000\n",
        at + "fw_version/sdma2_fw_version": "0x00000015\n",
        at + "unique_id": "7f2a11d3b2c4e5f6\n",
    })
    tree.update({at + key: value for key, value in more.items()})


def other(tree, pci, vendor, kind):
    tree[f"sys/bus/pci/devices/{pci}/vendor"] = vendor + "\n"
    tree[f"sys/bus/pci/devices/{pci}/class"] = kind + "\n"


def kfd_node(tree, node, gpu_id, location, **more):
    values = {"vendor_id": 4098, "domain": 0, "location_id": location, "array_count": 12, "simd_arrays_per_engine": 2,
              "cu_per_simd_array": 8, "gfx_target_version": 110000, **more}
    at = f"sys/class/kfd/kfd/topology/nodes/{node}/"
    tree[at + "gpu_id"] = f"{gpu_id}\n"
    tree[at + "properties"] = "".join(f"{key} {value}\n" for key, value in values.items())


def build(root, tree):
    for path, what in tree.items():
        path = root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(what, tuple):
            path.exists() or path.is_symlink() or path.symlink_to(what[1])
        elif isinstance(what, bytes):
            path.write_bytes(what)
        else:
            path.write_text(what)


class Machine:
    def __init__(self, program):
        self.program = program

    def find(self, tree, *arguments, user=False, refuse=()):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            root.chmod(0o755)
            (root / "sys").mkdir()
            (root / "dri").mkdir()
            build(root, tree)
            for path in refuse:
                (root / path).chmod(0)
            as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if user else []
            done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", SHELL, "sh", directory,
                                   *as_user, self.program, *arguments], capture_output=True, text=True, timeout=60)
            if done.returncode:
                raise SystemExit(f"{done.stderr}\nstatus {done.returncode}")
            return json.loads(done.stdout)


def two_gpus():
    tree = {}
    other(tree, "0000:00:00.0", "0x1022", "0x060000")
    other(tree, "0000:03:00.1", "0x1002", "0x040300")
    gpu(tree, "0000:03:00.0", 1)
    gpu(tree, "0000:83:00.0", 0, config=GONE)
    ips(tree, "0000:03:00.0", [(11, "GC", 0, (11, 0, 0), 0, [0x1260, 0xa000, 0x2402c00]), (42, "SDMA0", 0, (6, 0, 0), 0, []),
                               (12, "UVD", 1, (4, 0, 0), 1, [0x7800]), (108, "NBIF", 0, (4, 3, 0), 0, [0])])
    ips(tree, "0000:83:00.0", [(11, "GC", 0, (11, 0, 0), 0, [0x1260])])
    # The directories stand the other way round than the cards.
    tree["sys/kernel/debug/dri/0/name"] = "amdgpu dev=0000:03:00.0 unique=0000:03:00.0\n"
    tree["sys/kernel/debug/dri/1/name"] = "amdgpu dev=0000:83:00.0 unique=0000:83:00.0\n"
    tree["sys/kernel/debug/dri/128/name"] = "amdgpu dev=0000:03:00.0 unique=0000:03:00.0\n"
    tree["sys/kernel/debug/dri/2/name"] = "ast dev=0000:03:00.1 unique=0000:03:00.1\n"
    words = [5, 6, 0, 8, 2] + [0] * 22 + [145] + [0] * 8
    tree["sys/kernel/debug/dri/0/amdgpu_gca_config"] = b"".join(word.to_bytes(4, "little") for word in words)
    tree["sys/kernel/debug/dri/0/amdgpu_gpu_recover"] = "never\n"
    for pci, irq in (("0000:03:00.0", 94), ("0000:83:00.0", 140)):
        tree[f"sys/devices/{pci}/msi_irqs/{irq}"] = "msi\n"
    tree["interrupts"] = ("            CPU0       CPU1\n   0:         37          0  IR-IO-APIC    2-edge      timer\n"
                          "  94:          5       1000  IR-PCI-MSI    524288-edge      amdgpu\n"
                          " 140:         11          0  IR-PCI-MSI    626688-edge      amdgpu\n"
                          " 141:         99          0  IR-PCI-MSI    0-edge      nvme0q0\nNMI:    1  2  Non-maskable interrupts\n")
    tree["sys/bus/pci/slots/7/address"] = "0000:83:00\n"
    tree["sys/kernel/security/lockdown"] = "none [integrity] confidentiality\n"
    kfd_node(tree, 0, 0, 0)
    kfd_node(tree, 1, 51234, 0x300)
    kfd_node(tree, 2, 777, 0x8300)
    tree["sys/class/kfd/kfd/proc/1/vram_51234"] = "4096\n"
    tree["sys/class/kfd/kfd/proc/1/vram_777"] = "0\n"
    tree["sys/class/kfd/kfd/proc/1/queues/5/gpuid"] = "51234\n"
    tree["dri/renderD129"] = ""
    tree["sys/devices/0000:03:00.0/devcoredump/data"] = "**** AMDGPU Device Coredump ****\n"
    return tree


def check_two(t, machine):
    found = machine.find(two_gpus(), "03:00.0")
    t.same([g["pci"] for g in found["gpus"]], ["0000:03:00.0", "0000:83:00.0"], "two GPUs, without the sound device")
    here, gone = found["gpus"]
    t.same((here["gfx"], here["name"], here["driver"]), ("gfx1100", "Radeon RX 7900 XTX", "amdgpu"), "a GPU has its name and driver")
    t.same((here["card"], here["render"], here["off_bus"], here["config_known"]), (1, 129, False, True), "a GPU has its card and render nodes")
    t.same((here["busy"], here["power_mw"], here["temperature"], here["clock"]), (97, 250000, 61000, 2400), "load, power, temperature and clock are read")
    t.same((here["debugfs"], gone["debugfs"]), ("/sys/kernel/debug/dri/0", "/sys/kernel/debug/dri/1"),
           "debugfs by the address, not by the card's number")
    t.same((here["interrupts"], gone["interrupts"]), (1005, 11), "each has its interrupts")
    t.same((here["ses"], here["shs"], here["cus"], here["xccs"]), (6, 2, 8, 1), "the size of the shader array is read")
    t.same(here["ips"], ["gc 0.0 11.0.0 bases 3 0x1260", "nbio 0.0 4.3.0 bases 1 0", "sdma0 0.0 6.0.0 bases 0 0",
                         "vcn 0.1 4.0.0 harvested bases 1 0x7800"], "a GPU has each of its IP blocks once")
    t.same(here["firmware"], {"MES": 0x52, "SDMA1": 0x15}, "firmware that is not there is left out")
    t.same((here["kfd_node"], here["gpu_id"], gone["gpu_id"]), (1, 51234, 777), "a GPU has its node in KFD")
    compute = [h for h in here["holders"] if h["compute"]]
    t.same([(h["pid"], h["vram"]) for h in compute], [(1, 4096)], "the processes that compute are told")
    t.same([h["name"] for h in here["holders"] if not h["compute"]], [], "a file of the node's name is no proof that it is the node")
    t.same(gone["holders"], [], "nobody holds the other")
    t.same((gone["off_bus"], gone["busy"], gone["power_mw"], gone["ses"], gone["correctable"]), (True, -1, -1, 6, 3),
           "off the bus: the driver is asked nothing, what is in memory is told")
    t.same((gone["slot"], here["slot"]), ("7", ""), "the slot is told")
    t.same(here["devcoredump"], "/sys/bus/pci/devices/0000:03:00.0/devcoredump/data", "the path of a devcoredump is told")
    t.same((found["lockdown"], found["named"]), (True, "0000:03:00.0"), "lockdown, and a device by its short address")
    for name, pci in (("card0", "0000:83:00.0"), ("renderD129", "0000:03:00.0"), ("1", "0000:83:00.0"), ("2", ""),
                      ("0000:83:00.0", "0000:83:00.0"), ("card", ""), ("", "")):
        t.same(machine.find(two_gpus(), name)["named"], pci, f"a GPU is found by {name!r}")


def check_suspended(t, machine):
    tree = {}
    gpu(tree, "0000:03:00.0", 0, status="suspended", power_state="D3cold\n", config=GONE,
        current_compute_partition="SPX\n")
    tree["sys/kernel/debug/dri/0000:03:00.0/name"] = "amdgpu dev=0000:03:00.0 unique=0000:03:00.0\n"
    tree["sys/kernel/debug/dri/0000:03:00.0/amdgpu_gca_config"] = bytes(144)
    tree["sys/kernel/debug/dri/0"] = ("link", "0000:03:00.0")
    card = machine.find(tree)["gpus"][0]
    t.same((card["busy"], card["power_mw"], card["temperature"], card["clock"],
            card["compute_partition"]), (-1, -1, -1, -1, ""), "a sleeping card is asked nothing")
    t.same((card["config_known"], card["off_bus"], card["speed"]), (False, False, ""), "nor is its configuration space read")
    t.same((card["vram_total"], card["debugfs"]), (25753026560, "/sys/kernel/debug/dri/0000:03:00.0"),
           "what is in memory is told; its directory is named by its address")


def check_partitions(t, machine, place=0):
    """MI300X in CPX: eight XCCs, one of them harvested here, eight nodes of KFD and of DRM for one PCI function; their number is in their location."""
    tree = {}
    gpu(tree, "0000:11:00.0", 1, device="0x74a1", current_compute_partition="CPX\n", current_memory_partition="NPS4\n",
        **{"class": "0x120000\n", "xgmi_hive_info/xgmi_hive_id": "1234605616436508552\n"})
    for name, instead in (("power1_average", "power1_input"), ("temp1_input", "temp2_input")):
        tree[f"sys/devices/0000:11:00.0/hwmon/hwmon5/{instead}"] = tree.pop(f"sys/devices/0000:11:00.0/hwmon/hwmon5/{name}")
    ips(tree, "0000:11:00.0", [(11, "GC", n, (9, 4, 3), 0, [0x2000 + n]) for n in range(9)])
    tree["sys/devices/0000:11:00.0/ip_discovery/die/0/11/2/harvest"] = "0x1\n"
    for n in range(8):
        kfd_node(tree, n + 2, 1000 + n, 0x1100 | n << place, num_xcc=1, array_count=4, simd_arrays_per_engine=1, cu_per_simd_array=10)
        tree[f"sys/kernel/debug/dri/{n + 2}/name"] = f"amdgpu_xcp_drv dev=amdgpu_xcp_{n} unique=amdgpu_xcp_{n}\n"
        tree[f"sys/class/kfd/kfd/proc/1/vram_{1000 + n}"] = "1000\n"
    tree["sys/kernel/debug/dri/1/name"] = "amdgpu dev=0000:11:00.0 unique=0000:11:00.0\n"
    found = machine.find(tree)["gpus"]
    t.same(len(found), 1, "one GPU, whatever its partitions")
    t.same((found[0]["xccs"], found[0]["ses"], found[0]["cus"], found[0]["gfx"]), (8, 4, 10, "gfx942"), "a GPU with partitions has eight XCCs")
    t.same(sorted(i for i in found[0]["ips"] if "harvested" not in i),
           [f"gc 0.{n} 9.4.3 bases 1 {0x2000 + n + (n > 1):#x}" for n in range(8)], "numbered without the one that is not there")
    t.same((found[0]["kfd_node"], found[0]["gpu_id"]), (2, 1000), "a GPU with partitions has its first KFD node")
    # Processes of a machine that another test emulates meanwhile may be there too: /proc is the real one.
    t.same([h["vram"] for h in found[0]["holders"] if h["pid"] == 1], [8000], "memory of all partitions")
    t.same((found[0]["debugfs"], found[0]["compute_partition"], found[0]["memory_partition"], found[0]["hive"]),
           ("/sys/kernel/debug/dri/1", "CPX", "NPS4", "1234605616436508552"), "partition modes and hive are read")
    t.same((found[0]["power_mw"], found[0]["temperature"]), (250000, 61000), "its power and temperature, which it has in other files than most")


def check_partitions_of_newer_kernels(t, machine):
    check_partitions(t, machine, 28)


def check_without_discovery(t, machine):
    tree = {}
    gpu(tree, "0000:03:00.0", 0, device="0x740f")
    found = machine.find(tree)["gpus"][0]
    t.ok("gc 0.0 9.4.2 bases 3 0x2000" in found["ips"] and "sdma4 0.0 4.4.0 bases 3 0x137a0" in found["ips"],
         "a GPU whose driver tells no IP blocks has those of its kind", found["ips"])
    t.same((found["gfx"], found["xccs"]), ("gfx90a", 1), "and its name")


def check_nonsense(t, machine):
    """A file that reads all ones is no shader array of four thousand million engines, each of which would be looked at."""
    tree = two_gpus()
    tree["sys/kernel/debug/dri/0/amdgpu_gca_config"] = b"\xff" * 144
    here = machine.find(tree)["gpus"][0]
    t.same((here["ses"], here["shs"], here["cus"], here["apu"]), (6, 2, 8, False), "all ones in debugfs: the shader array from KFD")
    kfd_node(tree, 1, 51234, 0x300, array_count=1 << 40, simd_arrays_per_engine=1)
    here = machine.find(tree)["gpus"][0]
    t.same((here["ses"], here["shs"], here["cus"]), (0, 0, 0), "and nonsense there, too: it is not known")


def check_guests(t, machine):
    tree = {}
    gpu(tree, "0000:03:00.0", 0, device="0x74b5")
    gpu(tree, "0000:04:02.0", 1)
    tree["sys/devices/0000:04:02.0/physfn"] = ("link", "../0000:04:00.0")
    gpu(tree, "0000:05:00.0", 2)
    del tree["sys/devices/0000:05:00.0/driver"]
    found = machine.find(tree)["gpus"]
    t.same([g["guest"] for g in found], [True, True, False], "guests, by the device's id and by the host's link")
    t.same((found[2]["driver"], found[2]["busy"]), ("", -1), "a device without a driver")


def check_user(t, machine):
    found = machine.find(two_gpus(), user=True, refuse=["sys/kernel/debug", "sys/devices/0000:03:00.0/gpu_busy_percent"])
    here = found["gpus"][0]
    t.same((found["debugfs"], here["debugfs"]), (False, ""), "a user: debugfs may not be listed")
    t.same((here["gfx"], here["busy"], here["power_mw"]), ("gfx1100", -1, 250000), "a user: sysfs is read")
    t.same((here["ses"], here["shs"], here["cus"]), (6, 2, 8), "a user: the shader array from KFD")
    t.same(here["refused"].split(), ["/sys/kernel/debug/dri", "/sys/bus/pci/devices/0000:03:00.0/gpu_busy_percent"],
           "a user: what was refused is told")


def check_dead_controllers(t, unhang, program):
    """Eight GPUs whose power controllers do not answer, one of them whose configuration space does not."""
    text = "scenario dead\n    title Nobody answers\n"
    for n in range(8):
        text += f"\ngpu 0000:0{n}:00.0\n    part gfx90a\n    file {'config' if n == 5 else 'gpu_busy_percent'} blocks\n"
    with tempfile.NamedTemporaryFile("w", suffix=".scenario") as scenario:
        scenario.write(text)
        scenario.flush()
        for _ in range(3):  # a machine that is busy with other things is asked again
            done = subprocess.run([unhang, "emulate", scenario.name, "--", program], capture_output=True, text=True, timeout=60)
            if done.returncode:
                return t.skip("eight dead power controllers", done.stderr.strip())
            found = json.loads(done.stdout)
            if found["milliseconds"] < 5000:
                break
    t.same([g["stuck_at"].rsplit("/", 1)[-1] for g in found["gpus"]],
           ["config" if n == 5 else "gpu_busy_percent" for n in range(8)], "where each is stuck")
    t.same({(g["busy"], g["gfx"], g["vram_total"] > 0) for g in found["gpus"]}, {(-1, "gfx90a", True)}, "what is known is told")
    t.ok(found["milliseconds"] < 5000, "it does not wait for them one after the other", f"{found['milliseconds']} ms")


def check_none(t, machine):
    found = machine.find({"sys/empty": ""})
    t.same(found["gpus"], [], "a machine without GPUs")


def main():
    t = Tap()
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        skip_all("a mount namespace needs root")
    machine = Machine(sys.argv[1])
    for check in (check_two, check_suspended, check_partitions, check_partitions_of_newer_kernels, check_without_discovery, check_nonsense,
                  check_guests, check_user, check_none):
        check(t, machine)
    check_dead_controllers(t, sys.argv[2], sys.argv[1])
    t.end()


main()
