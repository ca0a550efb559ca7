#!/usr/bin/env python3
"""First screens that misled people: what is said now, and what must not be said."""
import re
import sys

import emulated
import tap

SLOT = r"another slot|this slot"

def node_fault(node, address):
    return f"Memory access fault by GPU node-{node} (Agent handle: 0x55d0{address >> 12:08x}) on address {address:#x}. Reason: Page not present or supervisor privilege.\nAborted (core dumped)\n"


def late_job(second, seq):
    return f"[{second:5}.100] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq={seq}, emitted seq={seq + 2}\n"


def collective(rank, seq):
    return (f"[rank{rank}]:[E1116 10:20:0{rank}.100000000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n")


SOFT = "[  812.300] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, but soft recovered\n"

# What was given, what the answer must say, and what it must not. Both are looked for on the first screen, without its line ends.
ANSWERS = {
    "a container without the right to /dev/kfd": (
        "Unable to open /dev/kfd read-write: Permission denied\nuser is not member of \"render\" group, the default DRM access group. Users must be a member of the\n",
        r"Now Give this user or container access to /dev/kfd", SLOT),
    "strace of a program without the right to /dev/kfd": (
        'openat(AT_FDCWD, "/dev/kfd", O_RDWR|O_CLOEXEC) = -1 EACCES (Permission denied)\n', r"may not use the compute device", SLOT),
    "a program that says in its own words that it may not open /dev/kfd": (
        "$ ./simulate\nsimulate: could not open /dev/kfd: Permission denied\n", r"may not use the compute device", r"No AMD GPU incident"),
    "a device that ls does not find": ("ls: cannot access '/dev/kfd': No such file or directory\n", r"There is no compute device \(/dev/kfd\) here", r"No AMD GPU incident"),
    "a machine or container without /dev/kfd": (
        "Unable to open /dev/kfd read-write: No such file or directory\n", r"There is no compute device \(/dev/kfd\) here", SLOT),
    "a program that finds no GPU": ("RuntimeError: No HIP GPUs are available\n", r"Now Find out why the program sees no GPU.*VISIBLE_DEVICES", SLOT),
    "a slot that passes no atomics on": (
        "[    4.101] kfd kfd: amdgpu: skipped device 1002:73ff, PCI rejects atomics 730<0\n", r"Now Move the card to another slot", r"access to /dev/kfd"),
    "two runs one after the other": (node_fault(4, 0x7f3a00001000) + node_fault(4, 0x7f5c00002000), r"used unmapped memory", r"suspect that GPU, not|because of it"),
    "a timeout behind a recovery": (late_job(812, 1201) + SOFT + late_job(824, 1301), r"late again after the GPU had recovered", r"The GPU recovered"),
    "a recovery behind a timeout": (late_job(812, 1201) + SOFT, r"The GPU recovered without a reset", r"late again"),
    "ranks at one operation": (collective(0, 7) + collective(1, 7), r"none of them lags", r"Fix the rank that lags|or lags behind\. Fault"),
    "ranks at one operation, with later ones behind it": (
        "".join(collective(r, 808) + f"[rank{r}]:[E1116 10:20:0{r}.200000000 ProcessGroupNCCL.cpp:2268] [PG 0 Rank {r}] Timeout at NCCL work: 808, last enqueued NCCL work: 811, "
                "last completed NCCL work: 807.\n" for r in range(2)), r"all at operation 808", r"operation 811"),
    "ranks of which some are missing": (collective(0, 7) + collective(3, 7), r"no report here: 1, 2\.", r"Fix the rank that lags"),
    "a rank behind the other": (collective(0, 7) + collective(1, 6), r"ALLREDUCE number 6; rank 1 lags behind", r"timed out: ALLREDUCE number 7"),
}

GPU = "amdgpu 0000:03:00.0:"
BANK = f"[  900.000002] {GPU} {{1}}[Hardware Error]: aca entry[00]."
REGISTERS = BANK + "ADDR=0x0000000000000000\n" + BANK + "IPID=0x0000003600000000\n" + BANK + "SYND=0x000000000a000000\n"
REPLACE = r"have (this GPU|the module) replaced|[Tt]ake the node out"
OWNER = f"[  512.100000] {GPU}  Process blender pid 4242 thread blender:cs0 pid 4250\n"
UEVENT = """KERNEL[512.300000] change   /devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/card1 (drm)
ACTION=change
DEVPATH=/devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/card1
SUBSYSTEM=drm
%sDEVNAME=/dev/dri/card1
SEQNUM=5123

"""
PAGE_FAULT = f"[  500.1] {GPU} amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)\n[  500.1] {GPU} amdgpu:   in page starting at address 0x00007f0000001000 from client 10\n"
SHARED = "[  345.6] [drm:drm_atomic_helper_wait_for_flip_done [drm_kms_helper]] *ERROR* [CRTC:93:crtc-3] flip_done timed out\n"
ANSWERS |= {
    "an error bank with an error that was not corrected": (
        BANK + "STATUS=0xbea0000000060c03\n" + REGISTERS, r"The hardware failed.* Now Drain the node, save the evidence, then power it off and on", r"No AMD GPU incident"),
    "the same of a newer driver": (
        f"[  900.000002] {GPU} amdgpu: {{1}}[Hardware Error]: ACA[01/04].STATUS=0xbea0000000060c03\n", r"uncorrected hardware error", r"No AMD GPU incident"),
    "a table of amd-smi with a fatal record": (
        "timestamp            gpu_id  severity   file_name      list of afids\n2026/10/02 11:05:29  3       FATAL      fatal-1.cper   33\n",
        r"Confidence[a-z ]*: low;.*record of a fatal hardware error of GPU 3", REPLACE),
    "a table of amd-smi without files": (
        "WARNING: No CPER files will be dumped unless --folder=<folder_name> is specified and cper entries exist.\n"
        "timestamp            gpu_id  severity\n2026/10/02 11:05:29  3       FATAL\n", r"record of a fatal hardware error of GPU 3", REPLACE),
    "a user queue that hung and was reset": (
        OWNER + f"[  512.300000] {GPU} [drm] device wedged, but recovered through reset\n",
        r"GPU work of blender \(4242\) hung or failed.* Now Restart blender \(4242\)\. The driver says that the GPU recovered", r"[Uu]nmapped memory"),
    "a user queue that hung long after another program's page fault": (
        f"[  500.1] {GPU} amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)\n[  500.1] {GPU} amdgpu:  Process game pid 77 thread game pid 77\n"
        f"[  500.1] {GPU} amdgpu:   in page starting at address 0x00007f0000001000 from client 10\n" + OWNER
        + f"[  512.300000] {GPU} [drm] device wedged, but recovered through reset\n", r"game \(77\)", r"blender \(4242\) (used|read|wrote)"),
    "a user queue that hung, and a reset of the GPU": (
        f"[  512.1] {GPU} amdgpu: GPU reset begin!. Source:  6\n[  514.9] {GPU} amdgpu: GPU reset(1) succeeded!\n", r"A user queue hung", r"[Uu]nmapped memory"),
    "a reset of which only the last line is left": (
        f"[  512.300000] {GPU} [drm] device wedged, but no recovery needed\n", r"Something hung on the GPU, and the driver reset it", r"No AMD GPU incident"),
    "a late picture where nothing says whose GPU it is": (SHARED, r"did not show the next picture.* nothing says that the GPU is AMD's", r"Confidence[a-z ]*: high;"),
    "a late picture of an AMD GPU beside one of Intel": (
        "[    3.0] [drm] Initialized i915 1.6.0 20230929 for 0000:00:02.0 on minor 0\n[    3.1] [drm] Initialized amdgpu 3.59.0 for 0000:03:00.0 on minor 1\n" + SHARED,
        r"did not show the next picture", r"nothing says"),
    "an older llama.cpp, which speaks of CUDA on every GPU": (
        "CUDA error: an illegal memory access was encountered\n  current device: 0, in function ggml_cuda_op_mul_mat at ggml/src/ggml-cuda.cu:2288\n",
        r"A GPU kernel used unmapped memory.* nothing says that the GPU is AMD's", r"Confidence[a-z ]*: high;"),
    "an illegal access that HIP reports, without the kernel log": (
        "RuntimeError: HIP error: an illegal memory access was encountered\n",
        r"Confidence[a-z ]*: medium; no message of the driver confirms it\..* Try 1\. Find the kernel.* Next See what the driver saw: sudo dmesg",
        r"it is the first error in this log|Next Find the launch"),
    "a fault in a part of a log": (PAGE_FAULT, r"This part of the log shows no reset of the GPU", r"should still work"),
    "a fault in a log since the boot": (
        "[    0.000000] Linux version 6.12.0 (build@host) (gcc 14) #1 SMP\n" + PAGE_FAULT, r"The log shows no reset, so the GPU should still work", r"part of the log"),
    "a fault in a program's output": (node_fault(4, 0x7f3a00001000), r"Only the kernel log shows whether the GPU was reset", r"should still work"),
    "a hang of a GPU that the log does not name": (
        "[  812.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=12, emitted seq=14\n",
        r"sudo sh -c 'cat /sys/class/devcoredump/devcd\*/data' > gpu-core\.txt", r"devices/PCI"),
    "a hang of a GPU that the log names": (late_job(812, 1201), r"/sys/bus/pci/devices/0000:03:00\.0/devcoredump/data", r"devcd"),
    "a hardware error that two lines count": (
        f"[  900.1] {GPU} amdgpu: socket: 2, die: 0, 1 new uncorrectable hardware errors detected in umc block\n"
        f"[  900.1] {GPU} amdgpu: 1 uncorrectable hardware errors detected in total in umc block\n", r"1 uncorrected hardware error in umc on die 0 \[", r"times"),
    "a user who is not in the group render": (
        "Unable to open /dev/kfd read-write: Permission denied\n", r"Next Join the groups, then log out and in again: sudo usermod -aG render,video \$USER", SLOT),
    "one request that is larger than the card": (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 17.14 GiB. GPU 0 has a total capacity of 15.98 GiB of which 900.50 MiB is free.\n",
        r"Now Restart the program with a smaller batch.*closing other programs does not help", r"Now Close programs|who holds the memory"),
    "a request that would fit on an empty card": (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 980.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 900.50 MiB is free.\n",
        r"Now Close programs", r"larger than"),
    "a queue that could not be reset": (f"[  512.1] {GPU} Failed to detect and reset queues, err (-110)\n", r"A queue hung and could not be reset", r"No AMD GPU incident"),
    "user queues that could not be unmapped": (
        f"[  512.1] {GPU} [drm] *ERROR* comm: vkcube pid: 4242 client: Unset ... Couldn't unmap all the queues, eviction failed ret=-110\n",
        r"could not stop or start user queues of vkcube \(4242\)", r"No AMD GPU incident"),
    "queues that the scheduler could not preempt": (
        f"[  512.1] {GPU} amdgpu: Queue preemption failed for queue with doorbell_id: 1002\n", r"could not take compute queues off the GPU", r"No AMD GPU incident"),
    "a GPU that the driver gave up": (
        f"[  512.300000] {GPU} [drm] device wedged, needs recovery\n", r"The driver gave the GPU up.* Now Save the evidence, then reboot", r"No AMD GPU incident"),
    "a uevent that names the program": (
        UEVENT % "WEDGED=none\nPID=4242\nTASK=blender\n", r"Work of blender \(4242\) hung.* 0000:03:00\.0", r"No AMD GPU incident"),
    "a uevent of a GPU that is given up": (
        UEVENT % "WEDGED=rebind,bus-reset\n", r"The driver gave the GPU up.*asks for: rebind,bus-reset", r"No AMD GPU incident"),
}

UNKNOWN = {
    "the word for a fatal record": "health: CPER_SEVERITY_FATAL\n",
    "a program that crashed on the CPU": "loading shaders\nSegmentation fault (core dumped)\n",
    "a failure in words of its own": "epoch 3\n[FATAL ERROR]: HIP failure\nprocess ended\n",
    "a server that gives up on its GPU": "ERROR worker 3: GPU crashed, giving up\n",
}
UNKNOWN["a message of the driver that is newer than unhang"] = f"[  512.1] {GPU} amdgpu: Failed to reset SDMA logical instance 3\n"
UNKNOWN["a driver that gives up in words of its own"] = f"[  512.1] {GPU} amdgpu: warp coil lost its phase, giving up\nAborted (core dumped)\n"
NO_FAILURE = {
    "a table of amd-smi with a corrected error": "timestamp            gpu_id  severity\n2026/10/02 11:05:29  3       NON-FATAL-CORRECTED\n",
    "another device that could not be reset": "[  512.1] usb 1-1: device descriptor read/64, error -110; reset failed\n",
    "an illegal access of a CUDA job": "CUDA error: an illegal memory access was encountered\n",
    "an illegal access that NCCL reports": "NCCL WARN Cuda failure 700 'an illegal memory access was encountered'\n",
    "an assertion of a CUDA job": "CUDA error: device-side assert triggered\n",
    "a late picture of a Raspberry Pi": "[    2.1] [drm] Initialized vc4 0.0.0 20140616 for soc:gpu on minor 1\n" + SHARED,
    "the same without its start": "[    5.1] vc4-drm gpu: bound fe700000.hdmi (ops vc4_hdmi_ops [vc4])\n" + SHARED,
    "a late picture of an Intel GPU": "[    3.0] [drm] Initialized i915 1.6.0 20230929 for 0000:00:02.0 on minor 1\n" + SHARED.replace("[CRTC:93:crtc-3] ", ""),
    "the same where only its driver's lines say so": "[  340.1] i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:8ed9fff2\n" + SHARED,
    "a late picture of nouveau": "[  345.6] nouveau 0000:01:00.0: [drm] *ERROR* [CRTC:51:head-0] flip_done timed out\n",
    "an error bank with a corrected error": BANK + "STATUS=0x9c2040000000011b\n" + REGISTERS,
    "a hang of another vendor's GPU": "[  512.3] i915 0000:00:02.0: [drm] device wedged, needs recovery\n",
    "a uevent of a monitor": UEVENT % "HOTPLUG=1\n",
    "a build that speaks of errors": "hipcc: 0 HIP errors, 3 warnings\n",
    "a script that looks for hangs": "#!/bin/sh\n# exit 1 when the GPU hung\ndmesg | grep -q amdgpu\n",
}


# Logs without an incident of an AMD GPU, and what is named in them all the same.
SEEN = {
    "a log of NVIDIA's driver": ("[ 812.101] NVRM: Xid (PCI:0000:65:00): 31, pid=2011, name=python, Ch 00000008\n", r"errors of an NVIDIA GPU\. unhang explains AMD"),
    "a job on CUDA": ("RuntimeError: CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
                      r"errors of CUDA, NVIDIA's software"),
    "a log of Intel's driver": ("[  412.1] i915 0000:00:02.0: [drm] *ERROR* [CRTC:51:pipe A] flip_done timed out\n", r"another GPU's driver \(i915\)"),
    "a program that was killed for its memory": (
        "[70122.5] Out of memory: Killed process 4812 (python3) total-vm:98122204kB, anon-rss:62012044kB, file-rss:73216kB, shmem-rss:12kB, UID:1000 pgtables:124012kB oom_score_adj:0\n",
        r"Seen the kernel killed python3 \(4812\) to free memory"),
    "an error of the driver": ("[  120.0] [drm:amdgpu_job_submit [amdgpu]] *ERROR* Trying to push to a killed entity\n",
                               r"Seen The driver reported an error: Trying to push to a killed entity .*no all-clear"),
    "a warning of the driver": (
        "[  792.5] WARNING: CPU: 6 PID: 8927 at drivers/gpu/drm/amd/amdgpu/../display/dc/link/link_dpms.c:1432 link_set_dpms_on+0xcb2/0xd80 [amdgpu]\n",
        r"Seen The driver warned of itself in link_set_dpms_on .*no all-clear"),
    "a crash of the kernel without its frames": (
        "[  101.0] BUG: unable to handle page fault for address: 0000000080000068\n[  101.1] Oops: 0000 [#1] SMP PTI\n", r"Seen The kernel crashed \(page fault\)\..*call trace"),
    "a log that ends asleep": ("[  500.0] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!\n[  900.0] PM: suspend entry (deep)\n", r"Seen This log ends when the machine goes to sleep"),
}


def test_seen(t, unhang):
    for name, (text, says) in SEEN.items():
        run = unhang.run("explain", unhang.write("log.txt", text))
        screen = re.sub(r"\s+", " ", run.stdout.decode())
        t.ok(not run.returncode and re.search(says, screen), f"{name} is no incident, and says what it is", screen)
    hybrid = late_job(812, 1201) + SEEN["a log of Intel's driver"][0]
    t.ok("AMD GPUs only" not in unhang.run("explain", "-v", unhang.write("log.txt", hybrid)).stdout.decode(), "beside an incident another GPU is not named")


def test_unknown(t, unhang):
    for name, text in UNKNOWN.items():
        run = unhang.run("explain", unhang.write("log.txt", text))
        screen = re.sub(r"\s+", " ", run.stdout.decode())
        t.same(run.returncode, 2, f"{name} is no all-clear")
        t.ok(" 0 known messages" in screen, "and counts as no known message", screen)
        t.ok("reports a failure that unhang does not know" in screen and "dmesg -T" in screen, "and it says what to collect", screen)
    for name, text in NO_FAILURE.items():
        t.same(unhang.run("explain", unhang.write("log.txt", text)).returncode, 0, f"{name} is no failure")


def test_fit(t, unhang):
    """A program cannot tell how the machine is: only the kernel's log or a look can."""
    fault = node_fault(4, 0x7f3a00001000)
    t.same(unhang.explain_text(fault).first.data["action"]["fit"], "unknown", "without a kernel log nobody calls the machine fit")
    page = unhang.run("explain", "--markdown", unhang.write("log.txt", fault)).stdout.decode()
    t.ok("fit for the next job" not in page and "| **Machine** | unknown |" in page, "nor does a report", page)
    t.same(unhang.explain_text(late_job(812, 1201) + SOFT).first.data["action"]["fit"], "yes", "with one it can be")


# What is said of GPUs that are looked at.
LIVE = {
    "a carve-out that is small already": ("silent-hang", r"Try 1\. Set GPU_MAX_HW_QUEUES", r"small-carve-out"),
    "a cause of which the kernel log shows the effects": ("gfxoff-wakeup", r"the kernel log shows its effects and no cause", r"nothing in the kernel log"),
    "a stuck engine of nobody": ("sdma-stuck", r"The engine is still waiting: .* nothing has written that value", r"then end the program|still stands"),
}


def test_live(t, unhang):
    if not emulated.possible(unhang):
        t.skip("GPUs that are looked at", "emulated machines need FUSE and name spaces")
        return
    for name, (scenario, says, not_this) in LIVE.items():
        screen = re.sub(r"\s+", " ", emulated.inside(unhang, scenario, "-v").stdout.decode())
        t.ok(re.search(says, screen) and not re.search(not_this, screen), name, screen)


# What a help text says, and what it must not say.
HELP = {
    "run": (r"Signals that would end unhang are passed on.*35 minutes in a collective", r"same signals"),
    "explain": (r"a recording of unhang's flight recorder", r"a Flight Recorder trace, "),
}


def test_help(t, unhang):
    for command, (says, not_this) in HELP.items():
        text = re.sub(r"\s+", " ", unhang.run(command, "--help").stdout.decode())
        t.ok(re.search(says, text) and not re.search(not_this, text), f"{command} --help promises what is so", text)


def test_answers(t, unhang):
    for name, (text, says, not_this) in ANSWERS.items():
        screen = re.sub(r"\s+", " ", unhang.run("explain", unhang.write("log.txt", text)).stdout.decode())
        t.ok(re.search(says, screen), f"{name}: it says what to do", screen)
        t.ok(not re.search(not_this, screen), f"{name}: and nothing that does not help", screen)


def test_record_of_hardware(t, unhang):
    record = unhang.write("fatal-1.cper", b"CPER\0\1" + b"\xff" * 4 + bytes(462))
    run = unhang.run("explain", record)
    t.same(run.returncode, 2, "a record of a hardware error is no all-clear")
    t.ok(b"a record of a hardware error (CPER)" in run.stderr, "and is named", run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_answers(t, unhang)
    test_unknown(t, unhang)
    test_seen(t, unhang)
    test_live(t, unhang)
    test_fit(t, unhang)
    test_help(t, unhang)
    test_record_of_hardware(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
