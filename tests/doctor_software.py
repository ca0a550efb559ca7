#!/usr/bin/env python3
"""The doctor on ROCm, tools, the environment, containers, logs, core files and processes: small trees, what is found in each, and what is not."""
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile

import jsonschema

import emulated
import machine_tree
import tap

SCHEMA = json.loads((tap.HERE / ".." / "docs" / "doctor.schema.json").read_text())
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
RX7900, RX7600, RX6700, STRIX, PHOENIX = "0x744c", "0x7480", "0x73df", "0x1586", "0x15bf"


def card(bus, device, target, node, vram=24 << 30):
    """A GPU and its node in KFD's topology."""
    at, kfd = f"/sys/bus/pci/devices/0000:{bus:02x}:00.0", f"/sys/class/kfd/kfd/topology/nodes/{node}"
    return f"""
=== {at}/vendor
0x1002
=== {at}/device
{device}
=== {at}/revision
0xc8
=== {at}/class
0x030000
=== {at}/driver -> ../../../../bus/pci/drivers/amdgpu
=== {at}/mem_info_vram_total
{vram}
=== {kfd}/gpu_id
{4000 + node}
=== {kfd}/properties
vendor_id 4098
location_id {bus << 8}
domain 0
gfx_target_version {target}
"""


def job(pid, name, node, stat="S", vram=1 << 30):
    """A process that computes on the GPU of a node."""
    return f"""
=== /sys/class/kfd/kfd/proc/{pid}/vram_{4000 + node}
{vram}
=== /proc/{pid}/comm
{name}
=== /proc/{pid}/stat
{pid} ({name}) {stat} 1 1 1 0 -1 4194304
"""


def rocm(version, *files):
    return f"=== /opt/rocm-{version}/.info/version\n{version}-66\n" + "".join(f"=== /opt/rocm-{version}/{f}\n" for f in files)


def client(pid, name, *nodes, stat="S", mb=300, pci="0000:03:00.0"):
    """A process with nodes open, of which KFD lists nothing."""
    files = "".join(f"=== /proc/{pid}/fd/{9 + n} -> {node}\n=== /proc/{pid}/fdinfo/{9 + n}\n" +
                    ("" if node == "/dev/kfd" else f"drm-pdev:\t{pci}\ndrm-client-id:\t{pid}\ndrm-memory-vram:\t{mb} MiB\n")
                    for n, node in enumerate(nodes))
    return f"\n=== /proc/{pid}/comm\n{name}\n=== /proc/{pid}/stat\n{pid} ({name}) {stat} 1\n{files}"


RENDER = "/dev/dri/renderD128"
CARD = card(3, RX7900, 110000, 1)
HOST = "=== /proc/1/cgroup\n0::/init.scope\n"


class Doctor:
    def __init__(self, unhang, tree, files=()):
        with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
            machine_tree.plant_text(tree, directory)
            for path, content in files:
                target = pathlib.Path(directory + path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            self.take(unhang.run("doctor", "--root", directory, "--json"))

    def take(self, run):
        self.stderr = run.stderr.decode(errors="replace")
        try:
            self.document = json.loads(run.stdout)
        except ValueError:
            self.document = {"findings": [], "machine": {"facts": [], "items": []}}
            self.stderr += f" no JSON, exit status {run.returncode}"
            return
        for error in VALIDATOR.iter_errors(self.document):
            self.stderr += f" against the schema: {error.message[:200]}"

    def found(self, *prefixes):
        """Ids of findings that are not good news and begin with one of @prefixes."""
        return sorted({f["id"] for f in self.document["findings"] if f["severity"] != "ok" and f["id"].startswith(prefixes or ("",))})

    def finding(self, name):
        return next((f for f in self.document["findings"] if f["id"] == name), None)

    def fact(self, name):
        return next((f["value"] for f in self.document["machine"]["facts"] if f["name"] == name), None)

    def items(self, kind):
        """Of each item its facts; those that it has several of are lists."""
        out = []
        for item in self.document["machine"]["items"]:
            facts = {}
            for f in item["facts"]:
                facts.setdefault(f["name"], []).append(f["value"])
            if item["kind"] == kind:
                out.append({name: v[0] if len(v) == 1 else v for name, v in facts.items()})
        return out


def environ(*entries):
    return [("/proc/self/environ", b"\0".join(e.encode() for e in entries) + b"\0")]


MINE = ("rocm-several", "rocm-mixed", "torch-", "override-", "expandable", "no-pooling", "debug-variable", "sdma-off", "p2p-off", "devices-",
        "tools-", "agent-", "kfd-", "render-", "container-", "journal-", "core-", "coredump-", "process-", "browser-", "compositor-")


def test_rocm(t, unhang):
    one = Doctor(unhang, CARD + rocm("7.2.1") + "=== /opt/rocm -> rocm-7.2.1\n")
    t.same((one.fact("rocm"), one.found(*MINE), one.stderr), ("7.2.1", [], ""), "one ROCm, with a link to it, is one")
    two = Doctor(unhang, CARD + rocm("6.2.0") + rocm("7.2.1") + "=== /opt/rocm -> rocm-7.2.1\n")
    t.same((two.fact("rocm"), two.found(*MINE)), ("7.2.1", ["rocm-several"]), "of two the one that /opt/rocm is")
    t.ok("6.2.0 (/opt/rocm-6.2.0)" in two.finding("rocm-several")["seen"], "two ROCms: both are named", two.finding("rocm-several"))
    neither = Doctor(unhang, CARD + rocm("6.2.0") + rocm("7.2.1"))
    t.same(neither.fact("rocm"), None, "of two without /opt/rocm none is the machine's")
    torch = "=== /usr/local/lib/python3.12/dist-packages/torch/version.py\n__version__ = '2.5.1+rocm6.2'\nhip: Optional[str] = '6.2.41133-dd7f'\n"
    d = Doctor(unhang, CARD + rocm("7.2.1") + "=== /opt/rocm -> rocm-7.2.1\n" + torch)
    t.same(d.found(*MINE), ["torch-other-rocm"], "PyTorch's ROCm is of another major version")
    t.same([i["version"] for i in d.items("rocm") if i["source"] == "torch"], ["6.2"], "HIP's third number is not ROCm's")
    t.same(Doctor(unhang, CARD + rocm("7.2.1") + torch).fact("rocm"), "7.2.1", "of one beside PyTorch's the system's is the machine's")
    d = Doctor(unhang, CARD + torch)
    t.same((d.fact("rocm"), d.fact("torch_build")), (None, "hip"), "a version that is known in part is not the machine's")
    cuda = torch.replace("hip: Optional[str] = '6.2.41133-dd7f'", "hip: Optional[str] = None\ncuda: Optional[str] = '12.4'")
    t.same(Doctor(unhang, CARD + cuda).found(*MINE), ["torch-for-cuda"], "a PyTorch for NVIDIA")
    t.same(Doctor(unhang, CARD + cuda + "=== /dev/nvidiactl\n").found(*MINE), [], "beside an NVIDIA card it is no mistake")
    distribution = "=== /usr/lib/x86_64-linux-gnu/libamdhip64.so.5.2.21153\n=== /usr/lib/x86_64-linux-gnu/libamdhip64.so.5\n"
    d = Doctor(unhang, CARD + distribution)
    t.same([(i["version"], i["source"]) for i in d.items("rocm")], [("5.2", "distribution")], "a distribution's own ROCm")
    d = Doctor(unhang, CARD + distribution + "=== /usr/lib/x86_64-linux-gnu/librocm-core.so.1.0.60104\n")
    t.same(d.fact("rocm"), "6.1.4", "librocm-core has the whole version")
    debian = "=== /usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.13.0\n"
    status = "=== /var/lib/dpkg/status\nPackage: a\nStatus: install ok installed\nVersion: 9\n\nPackage: libhsa-runtime64-1\nStatus: {}\nVersion: 6.1.2-3\n\n" \
             "Package: b\nStatus: install ok installed\nVersion: 8.0.0\n"
    d = Doctor(unhang, CARD + debian + status.format("install ok installed"))
    t.same((d.fact("rocm"), d.stderr), ("6.1.2", ""), "Debian's package has the version of its runtime")
    d = Doctor(unhang, CARD + debian + status.format("deinstall ok config-files") + rocm("7.2.1"))
    t.same((d.fact("rocm"), d.fact("rocm_count"), [i.get("runtime") for i in d.items("rocm")], d.stderr), (None, "2", ["1.13.0", None], ""),
           "one of unknown version is one too")
    t.ok("one of unknown version (/usr)" in d.finding("rocm-several")["seen"], "and said so", d.finding("rocm-several"))
    d = Doctor(unhang, CARD + "=== /opt/rocm/core-7.12/.info/version\n7.12.0\n")
    t.same(d.fact("rocm"), "7.12.0", "a ROCm below /opt/rocm")
    sdk = "=== /opt/venv/lib/python3.12/site-packages/_rocm_sdk_core/.info/version\n7.10.0a20251103\n"
    t.same(Doctor(unhang, CARD + sdk).fact("rocm"), "7.10.0a20251103", "a ROCm in Python packages")


def test_tools(t, unhang):
    bare = rocm("7.2.1", "bin/rocminfo", "lib/libhsa-runtime64.so.1")
    d = Doctor(unhang, CARD + bare)
    t.same((d.found(*MINE), [i.get("lacks") for i in d.items("rocm")]), (["tools-missing"], ["rocgdb, rocm-debug-agent, llvm-objdump"]), "tools that are missing")
    t.same(Doctor(unhang, CARD + rocm("7.2.1", "bin/rocminfo")).found(*MINE), [], "of a tree that holds a part of ROCm nothing is missed")
    d = Doctor(unhang, CARD + rocm("7.2.1", "bin/rocgdb", "lib/libhsa-runtime64.so.1", "lib/librocm-debug-agent.so.2",
                                   "lib/librocm-debug-agent.so.2.0.4", "llvm/bin/llvm-objdump") + "=== /usr/bin/llvm-objdump-19\n=== /usr/bin/py-spy\n")
    t.same(d.found(*MINE), [], "nothing is found where all tools are there")
    t.ok(d.finding("tools-there-either"), "and that is said")
    t.same({(i["name"], i.get("version"), i.get("rocm")) for i in d.items("tool")},
           {("rocgdb", None, "7.2.1"), ("rocm-debug-agent", "2.0.4", "7.2.1"), ("llvm-objdump", None, "7.2.1"), ("llvm-objdump", "19", None),
            ("py-spy", None, None)}, "with their versions")


def test_many(t, unhang):
    """Many GPUs and many files that set the same for each: an answer all the same, and soon."""
    gpus = "".join(card(n, RX7900, 110000, n) for n in range(1, 65))
    files = "".join(f"=== /etc/profile.d/{n}.sh\n" + "".join(f"export HSA_OVERRIDE_GFX_VERSION={n}.{v}.x\n" for v in range(64)) for n in range(16))
    d = Doctor(unhang, gpus + files)
    t.ok(100 < len(d.items("variable")) < 3000, "variables for many GPUs have an end", len(d.items("variable")))


def test_firmware(t, unhang):
    status = "=== /var/lib/dpkg/status\nPackage: firmware-linux-free\nVersion: 20200122-1\n\nPackage: linux-firmware\nStatus: {} ok {}\n" \
             "Version: 20240318.git3b128b60-0ubuntu2.10\n"
    t.same(Doctor(unhang, CARD + status.format("install", "installed")).fact("linux_firmware"), "20240318", "linux-firmware of dpkg")
    t.same(Doctor(unhang, CARD + status.format("deinstall", "config-files")).fact("linux_firmware"), None, "linux-firmware that was removed from dpkg does not count")
    d = Doctor(unhang, CARD + "=== /var/lib/pacman/local/linux-firmware-whence-20251125-2/\n=== /var/lib/pacman/local/linux-firmware-20251021-1/\n")
    t.same((d.fact("linux_firmware"), d.fact("linux_firmware_package")), ("20251021", "20251021-1"), "the version of linux-firmware is read from pacman")
    dkms = "=== /var/lib/dpkg/status\nPackage: amdgpu-dkms\nStatus: install ok installed\nVersion: {}\n\n"
    for version, release in (("1:6.16.13.30300100-2303411.22.04", "30.30.1"), ("1:6.14.14.30100000-2193512.24.04", "30.10.0"),
                             ("1:6.12.12.60403-2187269.24.04", None), ("1:6.16.13.3030010x-1", None), ("", None)):
        t.same(Doctor(unhang, CARD + dkms.format(version)).fact("driver_package"), release, f"AMD's release of amdgpu-dkms {version}")


def test_override(t, unhang):
    for device, target, value, wanted, fits in (
            (RX6700, 100301, "10.3.0", [], "family"), (RX7900, 110000, "11.0.0", ["override-unneeded"], "unneeded"),
            (RX7900, 110000, "10.3.0", ["override-wrong"], "wrong"), (STRIX, 110501, "11.0.0", ["override-related"], "related"),
            (STRIX, 110501, "12.0.1", ["override-wrong"], "wrong"), (RX7600, 110002, "11.0.0", ["override-fewer-registers"], "family"),
            (RX7900, 110000, "gfx1100", ["override-malformed"], "malformed"), (RX7900, 110000, "11.0", ["override-malformed"], "malformed"),
            (RX7900, 110000, "11.0.0.", ["override-malformed"], "malformed"), (RX7900, 110000, "11.0.0x", ["override-malformed"], "malformed"),
            (RX7900, 110000, "64.0.0", ["override-malformed"], "malformed"), (RX7900, 110000, "-11.0.0", ["override-malformed"], "malformed")):
        d = Doctor(unhang, card(3, device, target, 1), environ(f"HSA_OVERRIDE_GFX_VERSION={value}"))
        t.same((d.found(*MINE), [i.get("override_fits") for i in d.items("variable")]), (wanted, [fits]), f"{value} on {target}")
    d = Doctor(unhang, card(3, "0x73ff", 100302, 1), environ("HSA_OVERRIDE_GFX_VERSION=11.0.0"))
    t.ok("HSA_OVERRIDE_GFX_VERSION=10.3.0" in d.finding("override-wrong")["do"][0], "the value that this part takes", d.finding("override-wrong"))
    d = Doctor(unhang, CARD, environ("HSA_OVERRIDE_GFX_VERSION=10.3.0"))
    t.same(d.finding("override-wrong")["do"][0], "Remove HSA_OVERRIDE_GFX_VERSION from the environment", "none for one that has code of its own")
    d = Doctor(unhang, CARD, environ("HSA_OVERRIDE_GFX_VERSION="))
    t.same(d.found(*MINE), ["override-empty"], "an empty HSA_OVERRIDE_GFX_VERSION is none")
    pair = card(3, RX6700, 100301, 1) + card(0x0c, PHOENIX, 110003, 2)
    d = Doctor(unhang, pair, environ("HSA_OVERRIDE_GFX_VERSION=10.3.0"))
    t.same((d.found(*MINE), d.finding("override-wrong")["gpus"]), (["override-wrong"], ["0000:0c:00.0"]), "one for all GPUs is wrong for one of two")
    d = Doctor(unhang, pair, environ("HSA_OVERRIDE_GFX_VERSION=10.3.0", "HSA_OVERRIDE_GFX_VERSION_2=11.0.3"))
    t.same(d.found(*MINE), ["override-unneeded"], "the other one's own goes before it")
    d = Doctor(unhang, pair, environ("HSA_OVERRIDE_GFX_VERSION_1=10.3.0"))
    t.same(d.found(*MINE), [], "one for the GPU that needs it")


def test_environment(t, unhang):
    for entries, wanted in ((("PYTORCH_HIP_ALLOC_CONF=expandable_segments:True",), ["expandable-segments"]),
                            (("PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512",), []),
                            (("AMD_SERIALIZE_KERNEL=3",), ["debug-variable"]), (("AMD_SERIALIZE_KERNEL=0",), []),
                            (("AMD_LOG_LEVEL=4",), ["debug-variable"]), (("HSA_ENABLE_SDMA=0",), ["sdma-off-set"]), (("HSA_ENABLE_SDMA=1",), []),
                            (("PYTORCH_NO_CUDA_MEMORY_CACHING=1",), ["no-pooling"]),
                            (("HIP_VISIBLE_DEVICES=0",), []), (("HIP_VISIBLE_DEVICES=1",), ["devices-beyond"]), (("HIP_VISIBLE_DEVICES=-1",), []),
                            (("ROCR_VISIBLE_DEVICES=GPU-deadbeef,0",), []), (("NCCL_P2P_DISABLE=1",), []),
                            (("HIP_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=0"), ["devices-both"])):
        t.same(Doctor(unhang, CARD, environ(*entries)).found(*MINE), wanted, " ".join(entries))
    t.same(Doctor(unhang, CARD, environ("HIP_VISIBLE_DEVICES=1")).finding("gpus-chosen"), None, "what is wrong is not called good")
    two = CARD + card(4, RX7900, 110000, 2)
    t.same(Doctor(unhang, two, environ("NCCL_P2P_DISABLE=1", "HIP_VISIBLE_DEVICES=0,1")).found(*MINE), ["p2p-off-set"], "NCCL_P2P_DISABLE=1 on two GPUs")
    secret = Doctor(unhang, CARD, environ("HF_TOKEN=hf_secret", "AWS_SECRET_ACCESS_KEY=k", "HSA_XNACK=1", "LD_LIBRARY_PATH=/home/ada/private:/opt/rocm-6.2.0/lib"))
    t.same({i["name"]: i["value"] for i in secret.items("variable")}, {"HSA_XNACK": "1", "LD_LIBRARY_PATH": "/opt/rocm-6.2.0/lib"},
           "nothing but what knowledge names is kept")
    t.ok("secret" not in json.dumps(secret.document) and "private" not in json.dumps(secret.document), "nor printed")
    both = rocm("6.2.0") + rocm("7.2.1") + "=== /opt/rocm -> rocm-7.2.1\n"
    t.same(Doctor(unhang, CARD + both, environ("LD_LIBRARY_PATH=/opt/rocm-6.2.0/lib")).found(*MINE), ["rocm-mixed-path", "rocm-several"],
           "LD_LIBRARY_PATH leads to another ROCm")
    t.same(Doctor(unhang, CARD + both, environ("LD_LIBRARY_PATH=/opt/rocm/lib")).found(*MINE), ["rocm-several"], "or to the same")
    files = """
=== /etc/environment
# HSA_ENABLE_SDMA=0
HSA_ENABLE_SDMA="0"
=== /etc/profile.d/rocm.sh
AMD_SERIALIZE_COPY=3
if true; then
    export HIP_LAUNCH_BLOCKING=1; echo
fi
=== /etc/profile.d/rocm.csh
export AMD_SERIALIZE_KERNEL=3
=== /etc/environment.d/90-gpu.conf
HSA_XNACK=1
"""
    d = Doctor(unhang, CARD + files)
    t.same({(i["name"], i["value"], i["from"]) for i in d.items("variable")},
           {("HSA_ENABLE_SDMA", "0", "/etc/environment"), ("HIP_LAUNCH_BLOCKING", "1", "/etc/profile.d/rocm.sh"),
            ("HSA_XNACK", "1", "/etc/environment.d/90-gpu.conf")}, "files: exported variables of shells, all of the others")
    t.ok("/etc/profile.d/rocm.sh:3" in d.finding("debug-variable")["seen"], "with the line", d.finding("debug-variable"))
    unit = "=== /etc/systemd/system/ollama.service.d/override.conf\n[Service]\nEnvironment=\"HSA_OVERRIDE_GFX_VERSION=10.3.0\" 'HF_TOKEN=secret' HSA_XNACK=1\n" \
           "=== /etc/systemd/system/x.service\nEnvironment=HSA_ENABLE_SDMA=0\nExecStart=env HIP_LAUNCH_BLOCKING=1 x\n"
    d = Doctor(unhang, CARD + unit)
    t.same((d.found(*MINE), {i["name"] for i in d.items("variable")}, d.fact("env.HSA_XNACK")),
           (["override-wrong", "sdma-off-set"], {"HSA_OVERRIDE_GFX_VERSION", "HSA_XNACK", "HSA_ENABLE_SDMA"}, None), "services have their own")
    ranks = CARD + "".join(job(4000 + n, "python3", 1) for n in range(8))
    d = Doctor(unhang, ranks, [(f"/proc/{4000 + n}/environ", b"HOME=/\0HIP_LAUNCH_BLOCKING=1\0") for n in range(8)])
    t.same(len([f for f in d.document["findings"] if f["id"] == "debug-variable"]), 1, "eight processes with one setting are one finding")
    t.same(sorted(d.items("variable")[0]["from"])[0], "python3 (4000)", "which has all of them")


def test_processes(t, unhang):
    for letter, wanted in (("S", []), ("R", []), ("Z", ["process-zombie"]), ("T", ["process-stopped"]), ("D", ["process-stuck-unknown"])):
        d = Doctor(unhang, CARD + job(4242, "python3 (x) y", 1, letter))
        t.same(d.found(*MINE), wanted, f"a process in state {letter}")
        t.ok(all(d.finding(name)["undo"] for name in wanted), f"{letter}: what can be undone is said, also where that is nothing")
    wchan = "=== /proc/4242/wchan\n"
    t.same(Doctor(unhang, CARD + job(4242, "python3", 1, "D") + wchan + "dma_fence_default_wait\n").found(*MINE), ["process-stuck"], "stuck in the driver")
    t.same(Doctor(unhang, CARD + job(4242, "python3", 1, "D") + wchan + "folio_wait_bit_common\n").found(*MINE), [], "reading from a disk")
    d = Doctor(unhang, CARD + job(4242, "python3", 1))
    t.same({k: d.items("process")[0].get(k) for k in ("name", "pid", "state", "vram_mb", "compute", "desktop")},
           {"name": "python3", "pid": "4242", "state": "sleeping", "vram_mb": "1024", "compute": "yes", "desktop": "no"}, "what is known of a process")
    browser = """
=== /proc/77/comm
brave
=== /proc/77/stat
77 (brave) S 1
=== /proc/77/fd/9 -> /dev/dri/renderD128
=== /proc/77/fdinfo/9
drm-pdev:\t0000:03:00.0
drm-client-id:\t5
drm-memory-vram:\t300 MiB
"""
    d = Doctor(unhang, CARD + browser + job(4242, "python3", 1))
    t.same(d.found(*MINE), ["browser-beside-compute"], "a browser on the GPU that computes")
    t.ok("Brave: Settings" in d.finding("browser-beside-compute")["do"][0], "with its own switch", d.finding("browser-beside-compute"))
    t.same(Doctor(unhang, CARD + browser).found(*MINE), [], "where nothing computes it may draw")
    d = Doctor(unhang, CARD + browser + client(4242, "python3", "/dev/kfd", RENDER))
    t.same((d.found(*MINE), {i["name"]: i["compute"] for i in d.items("process")}), (["browser-beside-compute"], {"brave": "no", "python3": "yes"}),
           "who has /dev/kfd open computes")
    two = CARD + card(4, RX7900, 110000, 2)
    d = Doctor(unhang, two + job(4242, "python3", 1) + client(4242, "python3", "/dev/kfd", RENDER, pci="0000:04:00.0"))
    t.same([i["compute"] for i in d.items("process")], ["yes", "no"], "on the GPU that KFD's list says, where it says one")
    d = Doctor(unhang, CARD + client(4242, "ollama", "/dev/kfd", RENDER), [("/proc/4242/environ", b"HSA_OVERRIDE_GFX_VERSION=9.0.0\0")])
    t.same(d.found(*MINE), ["override-wrong"], "and its environment is looked at")
    t.same(Doctor(unhang, CARD + client(4242, "llama-server", RENDER, stat="D", mb=20000)).found(*MINE), ["process-stuck-unknown"],
           "in state D with memory of the GPU, by a render node alone")
    t.same(Doctor(unhang, CARD + client(4242, "glxgears", RENDER, stat="D", mb=20)).found(*MINE), [], "with little of it a moment's wait")
    t.same(Doctor(unhang, CARD + browser + rocm("7.2.1")).found(*MINE), ["browser-beside-rocm"], "a browser on a card that ROCm may use")
    t.same(Doctor(unhang, card(3, RX6700, 100301, 1) + browser + rocm("7.2.1")).found(*MINE), [], "a browser is no trouble on a card that is not in the list")
    desktop = browser.replace("brave", "gnome-shell")
    t.same(Doctor(unhang, CARD + desktop + job(4242, "python3", 1)).found(*MINE), [], "a desktop has to draw somewhere")
    d = Doctor(unhang, CARD + card(0x0c, PHOENIX, 110003, 2, 1 << 29) + desktop + job(4242, "python3", 1))
    t.same(d.found(*MINE), ["compositor-beside-compute"], "where the processor has a GPU too, there")


def container(extra=""):
    return f"""
=== /.dockerenv
=== /proc/1/cgroup
0::/
=== /dev/null
=== /proc/self/status
CapEff:\t00000000a80425fb
Seccomp:\t2
=== /proc/self/mountinfo
617 615 0:60 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k
{extra}"""


def test_container(t, unhang):
    nodes = "=== /dev/kfd\n=== /dev/dri/renderD128\n"
    d = Doctor(unhang, CARD + rocm("6.4.0") + container())
    t.same((d.fact("container"), d.fact("container_kind"), d.found("container-")),
           ("yes", "docker", ["container-no-kfd", "container-no-ptrace", "container-small-shm"]), "without its nodes")
    t.ok("--device=/dev/kfd" in d.finding("container-no-kfd")["do"][0] and "ROCm 6.4.0" in d.finding("container-no-kfd")["why"], "and how it gets them")
    d = Doctor(unhang, CARD + rocm("6.4.0") + container("=== /dev/kfd\n=== /dev/dri/\n"))
    t.same(d.found("container-no-"), ["container-no-dri", "container-no-ptrace"], "without render nodes")
    roomy = container(nodes).replace("65536k", "16777216k").replace("a80425fb", "a80c25fb")
    t.same(Doctor(unhang, CARD + rocm("6.4.0") + roomy).found(*MINE), [], "with all that it needs")
    t.same(Doctor(unhang, CARD + HOST + rocm("6.4.0") + "=== /dev/null\n" + nodes).fact("container"), "no", "a host is none")
    t.same(Doctor(unhang, CARD + HOST + rocm("6.4.0") + "=== /dev/null\n").found(*MINE), ["kfd-missing"], "but one without /dev/kfd cannot compute")
    d = Doctor(unhang, CARD + card(4, RX7900, 110000, 2) + rocm("6.4.0") + container(nodes + "=== /proc/self/limits\nMax locked memory  8388608 8388608 bytes\n"))
    t.same(d.found("container-"), ["container-no-ptrace", "container-shm-ranks", "container-small-memlock"], "with two GPUs more is needed")
    tight = roomy + "=== /sys/fs/cgroup/memory.max\n8589934592\n=== /proc/self/limits\nMax locked memory  65536 65536 bytes\n"
    t.same(Doctor(unhang, CARD + rocm("6.4.0") + tight).found(*MINE), ["container-memlock-tiny", "container-small-memory"], "with little memory")
    t.same(Doctor(unhang, CARD + rocm("6.4.0") + tight.replace("8589934592", "max").replace("65536 65536 bytes", "unlimited unlimited bytes")).found(*MINE), [],
           "a container without limits is right")
    for mounts in ("/proc/self/mounts", "/proc/mounts"):
        d = Doctor(unhang, CARD + roomy + f"=== without /proc/self/mountinfo\n=== {mounts}\nshm /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n")
        t.same(d.fact("shm_mb"), "64", f"/dev/shm in {mounts}")
    t.same(Doctor(unhang, CARD).fact("container"), None, "a tree that does not say is neither")
    pod = CARD + "=== /proc/1/cgroup\n11:devices:/kubepods/besteffort/pod1\n"
    t.same(Doctor(unhang, pod).fact("container_kind"), "kubernetes", "a pod is a container")
    volatile = container("=== /var/log/dpkg.log\n")
    t.same(Doctor(unhang, CARD + volatile).found("journal"), [], "a container's log is the host's")


def test_logs(t, unhang):
    for tree, wanted, found in (("=== /var/log/journal/4c3b/\n", "persistent", []), ("=== /var/log/dpkg.log\n", None, []), ("", None, []),
                                ("=== /var/log/dpkg.log\n=== /etc/systemd/journald.conf\n#Storage=auto\n", "volatile", ["journal-volatile"]),
                                ("=== /var/log/kern.log\n=== /usr/lib/systemd/journald.conf\n\n", "volatile", []),
                                ("=== /etc/systemd/journald.conf\nStorage=volatile\n", "volatile", ["journal-volatile"]),
                                ("=== /var/log/journal/4c3b/\n=== /etc/systemd/journald.conf\n[Journal]\nStorage=volatile\n", "volatile", ["journal-volatile"]),
                                ("=== /var/log/journal/4c3b/\n=== /etc/systemd/journald.conf\n#Storage=none\n", "persistent", []),
                                ("=== /var/log/x\n=== /etc/systemd/journald.conf\nStorage=none\n=== /etc/systemd/journald.conf.d/b.conf\nStorage = persistent\n"
                                 "=== /usr/lib/systemd/journald.conf.d/a.conf\nStorage=volatile\n", "persistent", [])):
        d = Doctor(unhang, CARD + tree)
        t.same((d.fact("journal"), d.found("journal")), (wanted, found), f"journal {wanted}: {tree.splitlines()}")


def test_cores(t, unhang):
    def cores(pattern, limit="unlimited", gpu=card(3, "0x74a1", 90402, 1), more=""):
        return Doctor(unhang, gpu + rocm("7.2.1") + f"=== /proc/sys/kernel/core_pattern\n{pattern}\n=== /proc/self/limits\n"
                      f"Limit                     Soft Limit           Hard Limit           Units\nMax core file size        {limit}            unlimited"
                      f"            bytes\n{more}")
    apport = "|/usr/share/apport/apport -p%p -s%s"
    t.same(cores(apport).found(*MINE), ["core-lost-in-pipe"], "apport loses GPU cores")
    t.same(cores(apport, more="=== /etc/environment\nHSA_COREDUMP_PATTERN=/tmp/gpucore.%p\n").found(*MINE), [], "with a pattern of their own they are kept")
    t.same(cores(apport, limit=0).found(*MINE), [], "without cores none is lost")
    t.same(cores(apport, gpu=CARD).found(*MINE), [], "RX 7900 writes none")
    d = cores("/var/crash/core.%p")
    t.same((d.fact("core_to"), d.fact("core_dir"), d.found(*MINE)), ("file", "/var/crash", ["core-size"]), "cores that go to a directory need a limit")
    t.ok("24 GB" in d.finding("core-size")["title"] and "/var/crash/core.%p" in d.finding("core-size")["seen"], "how large a core becomes, and where", d.finding("core-size"))
    t.same(cores("core", gpu=CARD).found(*MINE), [], "RX 7900 writes none")
    t.same(cores("core", limit=0).found(*MINE), [], "a limit of 0 keeps them away")
    t.same(cores("core", more="=== /etc/environment\nHSA_DISABLE_COREDUMP_ON_EXCEPTION=1\n").found(*MINE), [], "so does the runtime's own switch")
    login = card(3, "0x74a1", 90402, 1) + "=== /proc/sys/kernel/core_pattern\ncore\n=== /etc/security/limits.conf\n# * soft core 0\n* soft core {}\n"
    t.same(Doctor(unhang, login.format("unlimited") + rocm("6.3.3")).found(*MINE), ["core-size"], "the limit that a login gets")
    t.same(Doctor(unhang, login.format("unlimited")).found(*MINE), [], "without ROCm nothing writes one")
    t.same(Doctor(unhang, login.format("unlimited") + rocm("6.3.3") + "=== /etc/security/limits.d/a.conf\n* - core 0\n").fact("cores"), "off", "the last line counts")
    t.same(Doctor(unhang, login.format("100") + rocm("6.3.3")).fact("cores"), None, "a number there is of another unit")
    d = cores("|/usr/lib/systemd/systemd-coredump %P", more="=== /etc/systemd/coredump.conf\n[Coredump]\nStorage=none\n")
    t.same((d.fact("core_handler"), d.found(*MINE)), ("systemd-coredump", ["coredump-none"]), "systemd-coredump that keeps nothing")
    agent = [("/proc/self/environ", b"HSA_TOOLS_LIB=librocm-debug-agent.so.2\0")]
    limits = "=== /proc/self/limits\nMax core file size        {}            unlimited            bytes\n"
    t.same(Doctor(unhang, CARD + limits.format("unlimited"), agent).found(*MINE), ["agent-without-core"], "the agent and cores at once")
    t.same(Doctor(unhang, CARD + limits.format("0"), agent).found(*MINE), [], "the debug agent alone is right")
    everyone = CARD + "=== /etc/environment\nHSA_TOOLS_LIB=librocm-debug-agent.so.2\n=== /proc/sys/kernel/core_pattern\n|/usr/lib/systemd/systemd-coredump %P\n"
    t.same(Doctor(unhang, everyone + rocm("6.3.3")).found(*MINE), ["agent-without-core"], "the agent for everyone where cores are kept")
    t.same(Doctor(unhang, everyone + rocm("7.12.0")).found(*MINE), [], "a ROCm that has both at once")
    t.same(Doctor(unhang, everyone + limits.format("0") + rocm("6.3.3")).found(*MINE), [], "cores are not wanted")


def test_hostile(t, unhang):
    big = b"HSA_XNACK=1" * (1 << 20)
    d = Doctor(unhang, CARD + job(4242, "x", 1), [("/proc/self/environ", big), ("/proc/4242/environ", b"\0" * (1 << 20)), ("/etc/environment", big)])
    t.same(d.stderr, "", "a huge environment without an end")
    with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
        machine_tree.plant_text(CARD + job(4242, "x", 1) + container(), directory)
        for path in ("/etc/environment", "/opt/rocm-7.0.0/.info/version", "/etc/group", "/proc/4242/environ", "/proc/self/mountinfo", "/var/log"):
            target = pathlib.Path(directory + path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            os.mkfifo(target)
        os.symlink("loop", directory + "/etc/profile.d")
        os.symlink("rocm", directory + "/opt/rocm")
        run = unhang.run("doctor", "--root", directory, "--json", timeout=20)
        t.ok(run.returncode == 2 and json.loads(run.stdout)["verdict"] == "unknown", "FIFOs and loops of links are unread, not absent", run.stderr)
    seed, parts = random.Random(6), [("/proc/self/environ", b"HSA_OVERRIDE_GFX_VERSION=11.0.0\0LD_LIBRARY_PATH=/opt/rocm/lib:/x\0HIP_VISIBLE_DEVICES=0,1\0"),
                                     ("/etc/environment", b"export HSA_ENABLE_SDMA=\"0\" # x\nA=B\n"),
                                     ("/etc/systemd/system/a.service.d/b.conf", b"Environment=\"HSA_XNACK=1\" 'HSA_ENABLE_SDMA=0\n"),
                                     ("/proc/self/mountinfo", b"617 615 0:60 / /dev/shm rw - tmpfs shm rw,size=65536k\n"),
                                     ("/proc/self/status", b"CapEff:\t00000000a80425fb\nSeccomp:\t2\n"), ("/proc/4242/stat", b"4242 (a) b) D 1\n"),
                                     ("/proc/sys/kernel/core_pattern", b"|/usr/bin/x/apport %p\n"), ("/etc/systemd/journald.conf", b"Storage = none\n"),
                                     ("/opt/rocm-7.0.0/.info/version", b"7.0.0-1\n"), ("/etc/group", b"render:x:105:a,b\n"),
                                     ("/etc/security/limits.conf", b"* soft core unlimited\n"), ("/proc/mounts", b"shm /dev/shm tmpfs rw,size=65536k 0 0\n"),
                                     ("/usr/lib64/libhsa-runtime64.so.1.13.0", b""), ("/dev/kfd", b""),
                                     ("/var/lib/dpkg/status", b"Package: libhsa-runtime64-1\nStatus: install ok installed\nVersion: 6.1.2-3\n"),
                                     ("/usr/lib/python3.12/dist-packages/torch/version.py", b"hip: Optional[str] = '6.2.4'\nrocm = \"6.2.4\"\n")]
    bad = []
    for _ in range(20):
        files = []
        for path, content in parts:
            content = bytearray(content[:seed.randrange(len(content) + 1)] if seed.random() < 0.5 else content)
            for _ in range(seed.randrange(4)):
                if content:
                    content[seed.randrange(len(content))] = seed.randrange(256)
            files.append((path, bytes(content)))
        d = Doctor(unhang, CARD + job(4242, "x", 1), files)
        bad += [f"{files}: {d.stderr}"] if d.stderr else []
    t.no_complaints(bad[:3], "files that are cut or changed anywhere")


CONTROL = "\x1b[2J\x07\x9b\x0d"


def test_escapes(t, unhang):
    bad = CONTROL + "x"
    with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
        machine_tree.plant_text(CARD + job(4242, "p", 1), directory)
        for path, content in (("/proc/4242/comm", bad), ("/proc/cmdline", f"amdgpu.gfx{bad}off=1 {bad}=2 amdgpu.{bad}={bad}"), ("/etc/os-release", f"ID={bad}\nVERSION_ID={bad}\n"),
                              ("/proc/sys/kernel/osrelease", "6.8.0" + bad), (f"/opt/rocm-{bad}/.info/version", "6.2.0" + bad), ("/etc/modprobe.d/a.conf", f"options amdgpu {bad}=1\n"),
                              (f"/etc/modprobe.d/{bad}.conf", "options amdgpu cwsr_enable=0\n"), ("/proc/sys/kernel/core_pattern", "|/" + bad), (f"/usr/lib/python3{bad}/dist-packages/torch/version.py", f"__version__ = '{bad}'\ncuda = '1{bad}'\n"),
                              ("/etc/environment", f"HSA_OVERRIDE_GFX_VERSION={bad}\nHSA_TOOLS_LIB=debug-agent{bad}\nMIOPEN_DEBUG_{bad}=1\n"), ("/etc/group", f"{bad}:x:0:\n"),
                              (f"/etc/systemd/system/{bad}.service", f"Environment=AMD_SERIALIZE_KERNEL=3 HSA_ENABLE_SDMA=0\n"), ("/var/log/dmesg", f"[    1.0] amdgpu 0000:03:00.0: {bad}\n"),
                              ("/sys/bus/pci/devices/0000:03:00.0/vbios_version", bad), ("/sys/module/amdgpu/version", bad), ("/sys/module/amdgpu/parameters/" + bad, bad)):
            target = pathlib.Path(directory + path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode())
        for options in ((), ("-v",)):
            run = unhang.run("doctor", "--root", directory, *options)
            raw = sorted({byte for byte in run.stdout + run.stderr if byte < 0x20 and byte != 10 or byte == 0x7f})
            t.ok(run.returncode == 1 and not raw and b"\xc2\x9b" not in run.stdout, f"no control character of a tree comes through {options}", (raw, run.stdout[:300]))
            t.ok(b"[2J" in run.stdout, "though the names are told")


def test_narrow(t, unhang):
    with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
        machine_tree.plant_text(CARD + rocm("6.2.0") + rocm("7.2.1") + "=== /opt/rocm -> rocm-7.2.1\n=== /etc/environment\nHSA_OVERRIDE_GFX_VERSION=10.3.0\nLD_LIBRARY_PATH=/opt/rocm-6.2.0/a-long/directory/with/libraries\n"
                                "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True,max_split_size_mb:5\n", directory)
        run = tap.subprocess.run([unhang.binary, "doctor", "--root", directory], capture_output=True, env={**unhang.environment, "COLUMNS": "60"})
        lines = run.stdout.decode().splitlines()
        t.same([line for line in lines if len(line) > 60 and len(line.split()[-1]) <= 60], [], "no line of a narrow terminal is too long, but for words that are")
        t.ok(any(len(line.strip()) > 42 for line in lines), "some words need more than the indent leaves", lines)


def test_permissions(t, unhang):
    if os.geteuid():
        t.skip("the permissions of a recorded /dev/kfd", "not root")
        return
    groups = "=== /etc/group\nroot:x:0:\nrender:x:104:ada\nodd:x:77:\n"
    def node(mode, gid, status="", owner=0, more=""):
        with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
            machine_tree.plant_text(CARD + HOST + groups + "=== /dev/kfd\n" + (f"=== /proc/self/status\n{status}\n" if status else "") + more, directory)
            os.chown(directory + "/dev/kfd", owner, gid)
            os.chmod(directory + "/dev/kfd", mode)
            d = Doctor.__new__(Doctor)
            d.take(unhang.run("doctor", "--root", directory, "--json"))
            return d
    d = node(0o600, 0)
    t.same((d.found("kfd-"), d.fact("kfd_mode"), d.fact("kfd_gid"), d.stderr), (["kfd-root-only"], "0600", "0", ""), "/dev/kfd that only root may open is found")
    t.same(node(0o660, 104).found("kfd-"), [], "/dev/kfd of the group render is right")
    t.same(node(0o660, 0).found("kfd-"), [], "a copy that may have lost its group")
    t.same((node(0o600, 1000, owner=1000).found("kfd-"), node(0o600, 1000, owner=1000).fact("kfd_mode")), ([], None), "or its owner")
    t.same(node(0o660, 77).found("kfd-"), ["kfd-odd-group"], "/dev/kfd of another group is found")
    t.same(node(0o600, 0, more="=== /.dockerenv\n").found("kfd-"), [], "in a container users are mostly root")
    user = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t{}"
    t.same(node(0o660, 104, user.format("1000")).found("kfd-"), ["kfd-denied"], "the recorder is not in its group")
    t.same(node(0o660, 104, user.format("27 104 1000")).found("kfd-"), [], "or is")
    t.same(node(0o666, 104, user.format("1000")).found("kfd-"), [], "where everyone may, nobody has to be")
    t.same(node(0o660, 104, user.format("1000").replace("1000\t", "0\t")).found("kfd-"), [], "root may open /dev/kfd whatever its mode")


def test_unread(t, unhang):
    if os.geteuid() or not shutil.which("setpriv"):
        t.skip("what may not be read", "not root, or no setpriv")
        return
    with tempfile.TemporaryDirectory(prefix="unhang-doctor-") as directory:
        os.chmod(directory, 0o755)
        tree = pathlib.Path(directory) / "tree"
        shutil.copy(unhang.binary, directory + "/unhang")
        machine_tree.plant_text(CARD + "=== /sys/kernel/debug/dri/0/name\namdgpu dev=0000:03:00.0\n=== /sys/kernel/debug/dri/0/amdgpu_firmware_info\n"
                                "SMC feature version: 0, program: 0, firmware version: 0x004e5500 (78.85.0)\n=== /var/log/dmesg\nx\n=== /etc/modprobe.d/a.conf\n", tree)
        for path, mode in (("sys/kernel/debug", 0o700), ("var/log/dmesg", 0o600), ("etc/modprobe.d", 0o700)):
            (tree / path).chmod(mode)
        def as_other(*options):
            run = tap.subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", directory + "/unhang", "doctor", "--root", str(tree), *options],
                                     capture_output=True, env=unhang.environment, cwd="/")
            return run
        d = Doctor.__new__(Doctor)
        d.take(as_other("--json"))
        t.same(sorted(d.document["machine"].get("unread", [])), ["debugfs (firmware versions)", "modprobe.d (parameters)", "the kernel log"], "what was refused")
        t.ok(d.document["verdict"] == "unknown" and "no all-clear" in d.stderr and as_other().returncode == 2, "is no all-clear", d.stderr)
        text = " ".join(as_other().stdout.decode().split())
        t.ok("Not read, because it needs root: debugfs (firmware versions), " in text and "The firmware of 0000:03:00.0 is not known" in text, "what could not be read is said at the end", text)
        text = unhang.run("doctor", "--root", tree).stdout.decode()
        t.ok("Not read" not in text and "could not be looked at" not in text, "root has read all", text)
        (tree / "var/log/kern.log").write_text("x\n")
        d.take(as_other("--json"))
        t.ok("the kernel log" not in d.document["machine"]["unread"], "one log is enough", d.document["machine"]["unread"])


class Live(Doctor):
    """The doctor inside an emulated machine, as a user who may not open /dev/kfd."""

    def __init__(self, unhang, settings, *before):
        room = pathlib.Path(unhang.room.name) / "live"
        room.mkdir(exist_ok=True)
        for directory in (room, room.parent):
            directory.chmod(0o755)
        shutil.copy(unhang.binary, room / "unhang")
        (room / "kfd").touch()
        (room / "kfd").chmod(0o660)
        script = f"mount --bind {room}/kfd /dev/kfd && cd / && exec env {' '.join(settings)} {' '.join(before)} {room}/unhang doctor --json"
        self.take(unhang.run("emulate", "idle", "--", "sh", "-c", script))


def test_live(t, unhang):
    if os.geteuid() or not shutil.which("setpriv") or not emulated.possible(unhang):
        t.skip("the user's permissions", "not root, or no emulated machine can be made here")
        return
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    d = Live(unhang, ["LOGNAME=ada", "HSA_ENABLE_SDMA=0", "HF_TOKEN=hf_secret"], *other)
    t.same((d.found("kfd-", "sdma-"), d.fact("kfd_mode"), d.fact("user"), d.stderr), (["kfd-denied", "sdma-off-set"], "0660", "ada", ""), "a user who may not")
    t.ok("secret" not in json.dumps(d.document), "nothing else of the environment is told")
    d = Live(unhang, ["LOGNAME=ada", "UNHANG_CONTAINER=yes"], *other)
    t.same(d.found("kfd-", "container-kfd"), ["container-kfd-denied"], "a user in a container who may not open /dev/kfd is told")
    t.same(Live(unhang, ["SUDO_USER=ada"]).found("kfd-"), [], "root may open /dev/kfd whatever its mode")
    d = Live(unhang, ["HSA_COREDUMP_PATTERN=/tmp/gpucore.%p"])
    t.ok(d.fact("gpu_core_dir") == "/tmp" and str(d.fact("core_free_gb")).isdigit(), "the directory of GPU cores and what is free there", d.fact("core_free_gb"))
    d = Live(unhang, ["HSA_COREDUMP_PATTERN=/tmp/there-is-no-such-directory/gpucore.%p"])
    t.same((d.fact("gpu_core_dir"), d.fact("core_free_gb")), (None, None), "of a directory that cannot be asked nothing is said")


BRACES = """check t-braces
    severity advice
    when     kernel
    title    Braces
    why      It is a test
    do       awk '{print $1}' /proc/version && echo ${HOME} {kernel}
    do       needs {no_such_fact} || echo {a;b} {Kernel} {kernel} {}
    grade    B
    source   some/thing#1
"""


def test_braces(t, unhang):
    """Braces in a command are facts where they hold a fact's name, and else the shell's."""
    path = unhang.know("braces.know", BRACES)
    d = Doctor(unhang, CARD + "=== /proc/sys/kernel/osrelease\n6.12.9\n")
    t.same(d.finding("t-braces")["do"], ["awk '{print $1}' /proc/version && echo ${HOME} 6.12.9", "echo {a;b} {Kernel} 6.12.9 {}"], "the shell's braces stay as they are")
    path.unlink()


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_rocm, test_tools, test_firmware, test_many, test_override, test_environment, test_processes, test_container, test_logs, test_cores, test_hostile, test_escapes, test_narrow, test_permissions, test_unread, test_braces, test_live):
        test(t, unhang)
    t.end()


main()
