#!/usr/bin/env python3
"""Short incidents in the driver's formats and what must be said of them: class, facts, roles, action, fault; then the rules
by which causes are told from effects, remedies, logs in which nothing is wrong, and the user's own knowledge."""
import json
import re
import sys

import tap

GPU = "0000:03:00.0"


def log(text):
    """Lines are `SECONDS MESSAGE`; `@` stands for the driver's prefix, `%` for drm's."""
    out = []
    for line in text.strip("\n").splitlines():
        time, message = line.strip().split(" ", 1)
        message = re.sub(r"^@ ", f"amdgpu {GPU}: amdgpu: ", message)
        message = re.sub(r"^%(\w+) ", r"[drm:\1 [amdgpu]] *ERROR* ", message)
        out.append(f"[{float(time):12.6f}] {message}")
    return "\n".join(out) + "\n"


def boot(ids="0x1002:0x744C 0x1DA2:0xE471 0xC8", kernel="6.12.48-amd64", parameters="quiet"):
    return log(f"""
0.0 Linux version {kernel} (builder@host) (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC
0.0 Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro {parameters}
3.1 amdgpu {GPU}: enabling device (0006 -> 0007)
3.2 @ initializing kernel modesetting (IP DISCOVERY {ids}).
4.0 @ SMU is initialized successfully!
4.2 [drm] Initialized amdgpu 3.61.0 for {GPU} on minor 1
""")


def fault(time, address, status, vmid=4, client=None, process="python", pid=4242, hub="gfxhub", ih=10, fields=True):
    """A page fault with its sub-lines, whose fields are those of the status word."""
    from_status = {"client": f"{client or 'TCP'} ({status >> 9 & 0x1ff:#x})", "more": status & 1, "walker": status >> 1 & 7,
                   "permission": status >> 4 & 15, "mapping": status >> 8 & 1, "rw": status >> 18 & 1}
    out = f"{time} @ [{hub}] page fault (src_id:0 ring:24 vmid:{vmid} pasid:{32770 if vmid else 0})\n"
    if vmid:
        out += f"{time} @  in process {process} pid {pid} thread {process} pid {pid})\n"
    out += f"{time} @   in page starting at address 0x{address:016x} from client {ih}\n"
    out += f"{time} @ {'GC' if hub == 'gfxhub' else 'MM'}VM_L2_PROTECTION_FAULT_STATUS:0x{status:08X}\n"
    if fields:
        out += (f"{time} @ \t Faulty UTCL2 client ID: {from_status['client']}\n{time} @ \t MORE_FAULTS: {from_status['more']:#x}\n"
                f"{time} @ \t WALKER_ERROR: {from_status['walker']:#x}\n{time} @ \t PERMISSION_FAULTS: {from_status['permission']:#x}\n"
                f"{time} @ \t MAPPING_ERROR: {from_status['mapping']:#x}\n{time} @ \t RW: {from_status['rw']:#x}\n")
    return out


def status_of(client, permission, rw=0, walker=0, mapping=0, vmid=4, more=1):
    return more | walker << 1 | permission << 4 | mapping << 8 | client << 9 | rw << 18 | vmid << 20


def reset(time, method="MODE1", outcome="succeeded", vram_lost=False):
    lines = f"{time} @ GPU reset begin!\n{time + 0.4} @ {method} reset\n"
    if outcome == "succeeded":
        lines += f"{time + 0.9} @ GPU reset succeeded, trying to resume\n"
        lines += f"{time + 1.0} [drm] VRAM is lost due to GPU reset!\n" * vram_lost
        lines += f"{time + 1.5} @ GPU reset(1) succeeded!\n"
    else:
        lines += f"{time + 1.5} @ GPU reset(1) failed\n{time + 1.6} @ GPU reset end with ret = -62\n{time + 1.7} @ GPU Recovery Failed: -62\n"
    return lines


def ring_timeout(time, ring="gfx_0.0.0", signaled=1000, emitted=1002, process="game.exe", pid=900):
    return (f"{time} @ ring {ring} timeout, signaled seq={signaled}, emitted seq={emitted}\n"
            f"{time} @ Process information: process {process} pid {pid} thread {process[:9]}:cs0 pid {pid + 1}\n")


# name: log, and what must be said. A role of an event stands for all events of this kind.
CASES = {
    "video engine that does not start": dict(log="""
15.7 %uvd_v6_0_start UVD not responding, trying to reset the VCPU!!!
24.9 %uvd_v6_0_start UVD not responding, giving up!!!""", cls="video-engine-timeout", facts=dict(ip_block="UVD")),
    "video engine that does not start, numbered": dict(log="8.0 @ VCN[1] is not responding, giving up!!!", cls="video-engine-timeout", facts=dict(ip_block="VCN[1]")),
    "module of DKMS that is not built": dict(raw=True, log="""Building initial module for 6.14.0-33-generic
Error! Bad return status for module build on kernel: 6.14.0-33-generic (x86_64)
Consult /var/lib/dkms/amdgpu/6.10.5-2095006.24.04/build/make.log for more information.
""", cls="gpu-init-failed", facts=dict(driver="6.10.5-2095006.24.04")),
    "module that Secure Boot refuses": dict(raw=True, log="modprobe: ERROR: could not insert 'amdgpu': Key was rejected by service\n", cls="gpu-init-failed", facts=dict(module_key="rejected")),
    "a crash inside of ROCm": dict(log="57359.2 python3[3494]: segfault at 34 ip 00007f3d56e45970 sp 00007ffd241f9130 error 4 in libhsa-runtime64.so.1.15[45970,7f3d56e1d000+117000]",
                                  cls="wrong-isa", facts=dict(process="python3", pid=3494)),
    "card that does not wake up": dict(log="""
900.0 amdgpu 0000:03:00.0: not ready 1023ms after resume; waiting
965.0 amdgpu 0000:03:00.0: not ready 65535ms after resume; giving up""", cls="gpu-off-bus", facts=dict(woke="no")),
    "a reset that began before the log and failed": dict(log="""
649.9 [drm] VRAM is lost due to GPU reset!
650.1 %psp_hw_start PSP create ring failed!
650.2 %amdgpu_device_fw_loading resume of IP block <psp> failed -62
650.3 @ GPU reset(1) failed
659.3 amdgpu: qcm fence wait loop timeout expired""", cls="gpu-reset-failed", facts=dict(reset_outcome="failed")),
    "graphics ring, reset": dict(
        log=ring_timeout(100.5) + reset(100.6), cls="gfx-ring-timeout", do="restart-session", fault="driver",
        facts=dict(ring="gfx_0.0.0", seq_signaled=1000, seq_emitted=1002, process="game.exe", pid=900, reset_method="MODE1",
                   reset_outcome="succeeded", pci=GPU),
        roles={"ring-timeout": "cause", "reset-begin": "effect", "reset-succeeded": "effect"}),
    "graphics ring, soft recovery": dict(
        log="88.1 @ ring gfx_0.0.0 timeout, but soft recovered", cls="gfx-ring-timeout", do="restart-program",
        facts=dict(ring="gfx_0.0.0"), roles={"soft-recovered": "cause"}),
    "graphics ring, reset alone": dict(
        log=ring_timeout(50.0) + "50.1 @ Starting gfx_0.0.0 ring reset\n50.2 @ Ring gfx_0.0.0 reset succeeded", cls="gfx-ring-timeout",
        do="restart-program", facts=dict(ring="gfx_0.0.0", ring_reset="succeeded"), roles={"ring-timeout": "cause", "ring-reset-done": "effect"}),
    "graphics ring, VRAM lost": dict(
        log=ring_timeout(50.0) + reset(50.5, vram_lost=True), cls="gfx-ring-timeout", do="restart-session",
        facts=dict(vram_lost=True), also=["vram-lost"]),
    "compute ring": dict(
        log=ring_timeout(60.0, "comp_1.0.1", 10, 11, "ollama", 71) + reset(60.1), cls="compute-ring-timeout", fault="job",
        do="restart-session", facts=dict(ring="comp_1.0.1", process="ollama", pid=71), roles={"ring-timeout": "cause"}),
    "copy ring of the kernel": dict(
        log="70.0 @ ring sdma0 timeout, signaled seq=500, emitted seq=503\n70.0 @ Process information: process  pid 0 thread  pid 0\n" + reset(70.1),
        cls="sdma-ring-timeout", do="restart-session", facts=dict(ring="sdma0", seq_emitted=503, process=None, pid=None), roles={"ring-timeout": "cause"}),
    "page queue of a Vega": dict(log="70.0 %amdgpu_job_timedout ring page0 timeout, signaled seq=5, emitted seq=9", cls="sdma-ring-timeout", facts=dict(ring="page0")),
    "video decoder": dict(
        log=ring_timeout(70.0, "vcn_unified_0", 7, 8, "mpv", 33), cls="video-engine-timeout", facts=dict(ring="vcn_unified_0", process="mpv"),
        roles={"ring-timeout": "cause"}),
    "video, JPEG": dict(log=ring_timeout(70.0, "jpeg_dec_0", 7, 8), cls="video-engine-timeout", facts=dict(ring="jpeg_dec_0")),
    "reset failed": dict(
        log=reset(10.0, outcome="failed"), cls="gpu-reset-failed", do="reboot", facts=dict(reset_outcome="failed"), roles={"reset-failed": "cause"}),
    "recovery switched off": dict(
        log="10.0 @ GPU recovery disabled.", cls="gpu-reset-failed", do="reboot", roles={"recovery-disabled": "cause"}),
    "block dead after the reset": dict(
        log="10.0 @ GPU reset(3) succeeded!\n10.1 amdgpu 0000:03:00.0: [drm:amdgpu_ib_ring_tests [amdgpu]] *ERROR* IB test failed on gfx_0.0.0 (-110).\n10.2 %amdgpu_device_delayed_init_work_handler ib ring test failed (-110).",
        cls="gpu-reset-failed", roles={"block-failed": "cause"}),
    "contexts lost": dict(
        log="10.0 %amdgpu_cs_ioctl Failed to initialize parser -125!\n10.1 %amdgpu_cs_ioctl Failed to initialize parser -125!",
        cls="context-lost-after-reset", do="restart-program", before_log=True, facts=dict(error=-125), roles={"context-lost": "cause"}),
    "MES silent": dict(
        log="10.0 @ MES failed to respond to msg=ADD_QUEUE\n10.1 @ failed to add hardware queue to MES, doorbell=0x1a04\n10.1 @ MES might be in unrecoverable state, issue a GPU reset\n" + reset(10.2),
        cls="mes-unresponsive", fault="driver", do="restart-session", facts=dict(mes_message="ADD_QUEUE", doorbell="0x1a04"),
        roles={"mes-timeout": "cause", "reset-begin": "effect"}),
    "MES silent and not reset": dict(log="10.0 @ MES failed to respond to msg=SUSPEND\n13.0 @ failed to suspend all gangs", cls="mes-unresponsive", do="reboot"),
    "HWS": dict(
        log="10.0 @ qcm fence wait loop timeout expired\n10.0 @ The cp might be in an unrecoverable state due to an unsuccessful queues preemption\n10.1 @ Failed to evict process queues\n" + reset(10.2, "BACO"),
        cls="hws-queue-preemption-failed", do="restart-session", facts=dict(reset_method="BACO"), also=["kfd-queue-eviction-failed"], roles={"hws-timeout": "cause"}),
    "queues that are not evicted": dict(
        log="10.0 @ Failed to evict queue 3\n10.0 @ Failed to evict queue 2", cls="kfd-queue-eviction-failed", fault="driver", facts=dict(queue_id=3), roles={"queue-eviction-failed": "cause"}),
    "a reset that is followed by failures": dict(
        log=ring_timeout(100.5) + "100.6 @ GPU reset begin!\n101.6 @ GPU reset succeeded, trying to resume\n103.6 @ [drm:amdgpu_ring_test_helper [amdgpu]] *ERROR* ring gfx_0.0.0 test failed (-110)",
        cls="gfx-ring-timeout", do="reboot", facts=dict(reset_undone="yes")),
    "a reset whose end is told twice": dict(
        log=ring_timeout(100.5) + "100.6 @ GPU reset begin!\n101.6 @ GPU reset succeeded, trying to resume\n101.9 @ MES failed to respond to msg=ADD_QUEUE\n103.6 @ GPU reset(1) succeeded!",
        cls="gfx-ring-timeout", do="restart-session", facts=dict(reset_undone=None)),
    "HWS refuses a queue": dict(
        log="10.0 amdgpu: Pasid 0x8001 DQM create queue type 0 failed. ret -62", cls="hws-queue-preemption-failed", facts=dict(pasid=0x8001, error=-62)),
    "SMU": dict(
        log="10.0 @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000032 SMN_C2PMSG_82:0x00000000\n15.0 @ Failed to disable gfxoff!",
        cls="smu-unresponsive", fault="driver", do="reboot", facts=dict(smu_message="0x32"), also=["gfxoff-hang"], roles={"smu-timeout": "cause"}),
    "GFXOFF": dict(log="10.0 @ Failed to enable gfxoff!", cls="smu-unresponsive", also=["gfxoff-hang"], roles={"gfxoff-failed": "cause"}),
    "display controller": dict(
        log="10.0 [drm:dc_dmub_srv_log_diagnostic_data [amdgpu]] *ERROR* dc_dmub_srv_log_diagnostic_data: DMCUB error - collecting diagnostic data\n10.2 [drm:dc_dmub_srv_wait_for_idle [amdgpu]] *ERROR* Error waiting for DMUB idle: status=3",
        cls="display-engine-hang", do="reboot", fault="driver", roles={"dmub-error": "cause"}),
    "display flip": dict(
        log="10.0 amdgpu 0000:03:00.0: [drm] *ERROR* [CRTC:76:crtc-0] flip_done timed out\n20.2 amdgpu 0000:03:00.0: [drm] *ERROR* [CRTC:76:crtc-0] commit wait timed out",
        cls="display-engine-hang", roles={"display-timeout": "cause"}),
    "page fault, not mapped": dict(
        log=fault(10.0, 0x7f0000001000, status_of(8, 3)), cls="gpu-page-fault-unmapped", fault="job", do="restart-program",
        facts=dict(process="python", pid=4242, fault_address="0x7f0000001000", fault_status="0x401031", fault_client="TCP", hub="gfxhub",
                   vmid=4, pasid=32770, rw="read", permission_faults="0x3", walker_error="0x0", mapping_error="0x0"),
        roles={"page-fault": "cause"}),
    "page fault, data cache of the scalar unit": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0xa, 3), client="SQC (data)"), cls="gpu-page-fault-unmapped",
        facts=dict(fault_client="SQC", fault_client_detail="data")),
    "page fault, write": dict(log=fault(10.0, 0x7f0000001000, status_of(8, 5, rw=1)), cls="gpu-page-fault-unmapped", facts=dict(rw="write", permission_faults="0x5")),
    "null pointer": dict(
        log=fault(10.0, 0x3000, status_of(8, 5, rw=1)), cls="gpu-null-pointer-fault", fault="job", do="restart-program",
        facts=dict(fault_address="0x3000", rw="write"), roles={"page-fault": "cause"}),
    "write to a read-only page": dict(
        log=fault(10.0, 0x7f0000001000, status_of(8, 4, rw=1)), cls="gpu-page-fault-readonly-write", fault="job",
        facts=dict(permission_faults="0x4", rw="write"), roles={"page-fault": "cause"}),
    "copy engine's page fault": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0xd, 3), client="SDMA0"), cls="gpu-page-fault-copy-engine", facts=dict(fault_client="SDMA0")),
    "memory hub's page fault": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0, 3), client="MP0", hub="mmhub", ih=18), cls="kernel-context-page-fault", fault="driver", facts=dict(hub="mmhub", fault_client="MP0")),
    "video engine's page fault": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0x1d, 3), client="VCNU", hub="mmhub", ih=18, process="mpv"), cls="gpu-page-fault-unmapped", fault="driver",
        facts=dict(hub="mmhub", fault_client="VCNU", process="mpv")),
    "page fault of the memory hub, client unknown": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0x1b, 3), hub="mmhub", ih=18, fields=False), cls="gpu-page-fault-unmapped", facts=dict(hub="mmhub")),
    "page fault of gfx9's memory hub, client unknown": dict(
        log=fault(10.0, 0x7f0000001000, status_of(0x0, 3), hub="mmhub", ih=18, fields=False).replace(" MMVM_L2", " VM_L2"), cls="gpu-page-fault-copy-engine",
        facts=dict(hub="mmhub")),
    "display's page fault": dict(
        log=fault(10.0, 0x7f0000001000, status_of(4, 3), client="DCEDMC", hub="mmhub", ih=18), cls="kernel-context-page-fault", fault="driver",
        facts=dict(fault_client="DCEDMC")),
    "command processor's page fault": dict(
        log=fault(10.0, 0x7f0000001000, status_of(4, 3, walker=1, mapping=1), client="CPF"), cls="cp-fetch-page-fault", fault="driver",
        facts=dict(fault_client="CPF", mapping_error="0x1", walker_error="0x1")),
    "driver's own page fault": dict(
        log=boot() + log(fault(30.0, 0x800000000, status_of(5, 5, vmid=0), vmid=0, client="CPC")), raw=True,
        cls="kernel-context-page-fault", facts=dict(vmid=0, fault_client="CPC", process=None), roles={"page-fault": "cause"}),
    "page fault of a Polaris": dict(
        log="10.0 @ GPU fault detected: 146 0x0d8c480c\n10.0 @  for process blender pid 500 thread blender:cs0 pid 501\n10.0 @   VM_CONTEXT1_PROTECTION_FAULT_ADDR   0x0010A000\n"
            "10.0 @   VM_CONTEXT1_PROTECTION_FAULT_STATUS 0x0C04800C\n10.0 @ VM fault (0x0c, vmid 6, pasid 32769) at page 1089536, read from 'TC4' (0x54433400) (72)",
        cls="gpu-page-fault-unmapped", facts=dict(process="blender", pid=500, fault_page=1089536, fault_client="TC4", vmid=6, rw="read")),
    # What is left out or mistyped is unknown; the message counts all the same.
    "shortened: addresses and numbers": dict(
        log="10.0 @ [gfxhub] page fault (src_id:0 ring:24 vmid:... pasid:..., for process python pid ... thread python pid ...)\n"
            "10.0 @   in page starting at address 0x0000800... from client 10\n10.0 @ GCVM_L2_PROTECTION_FAULT_STATUS:0x008O1031\n10.0 @ \t RW: 0x...",
        cls="gpu-page-fault-unmapped", facts=dict(process="python", hub="gfxhub", vmid=None, pid=None, pasid=None, fault_address=None, fault_status=None, rw=None)),
    "shortened: the middle of a message": dict(
        log="[gfxhub0] no-retry page fault (src_id:0 ring:24 ... for process vllm pid 77 thread vllm pid 77)\n  in page starting at address 0x7f31c00... from IH client 0x1b (UTCL2)\n",
        raw=True, cls="gpu-page-fault-unmapped", facts=dict(process="vllm", pid=77, vmid=None, fault_address=None)),
    "shortened: the end of a message": dict(
        log="10.0 @ ring comp_1.0.0 timeout, …", cls="compute-ring-timeout", facts=dict(ring="comp_1.0.0", ring_reset=None, seq_signaled=None)),
    "shortened: placeholders": dict(
        log="[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=XXXX, emitted seq=N\namdgpu 0000:XX:00.0: amdgpu: GPU reset begin!\n", raw=True,
        cls="gfx-ring-timeout", facts=dict(ring="gfx_0.0.0", seq_signaled=None, seq_emitted=None)),
    "shortened: half a status": dict(
        log="10.0 @ [gfxhub] page fault (src_id:0 ring:24 vmid:4 pasid:32770)\n10.0 @ GCVM_L2_PROTECTION_FAULT_STATUS:0x00401...", cls="gpu-page-fault-unmapped",
        facts=dict(vmid=4, fault_status=None, permission_faults=None)),
    "typed: letters of fixed words": dict(
        log="10.0 @ ring gfx_0.0.0 timeuot, signaled seq=1000, emited seq=1002", cls="gfx-ring-timeout",
        facts=dict(ring="gfx_0.0.0", seq_signaled=1000, seq_emitted=1002)),
    "typed: a program's message": dict(
        log="Memory acess fault by GPU node-1 (Agent handle: 0x55d0c0ffee00) on address 0x7f1200003000. Reason: Page not present or supervisor privilege.\n", raw=True,
        cls="gpu-page-fault-unmapped", facts=dict(gpu_node=1, fault_address="0x7f1200003000")),
    "typed: never a number": dict(
        log="10.0 @ ring gfx_0.0.0 timeout, signaled seq=1O00, emitted seq=1002", cls="gfx-ring-timeout", facts=dict(seq_signaled=None, seq_emitted=1002)),
    "pasted into one line: records with times": dict(
        log=log(fault(10.0, 0x7f0000001000, status_of(8, 3))).replace("\n", " ") + "\n", raw=True, cls="gpu-page-fault-unmapped",
        facts=dict(process="python", pid=4242, fault_address="0x7f0000001000", fault_status="0x401031", fault_client="TCP", rw="read")),
    "pasted into one line: records without times": dict(
        log=re.sub(r"\[ *[0-9.]+\] ", "", log(fault(10.0, 0x7f0000001000, status_of(8, 3)))).replace("\n", " ") + "\n", raw=True, cls="gpu-page-fault-unmapped",
        facts=dict(process="python", pid=4242, fault_address="0x7f0000001000", fault_status="0x401031", fault_client="TCP", rw="read")),
    "pasted into one line: messages alone": dict(
        log="[gfxhub] page fault (src_id:0 ring:24 vmid:4 pasid:32770) in page starting at address 0x00007f0000001000 from client 10 GCVM_L2_PROTECTION_FAULT_STATUS:0x00401031 "
            "Faulty UTCL2 client ID: TCP (0x8) MORE_FAULTS: 0x1 WALKER_ERROR: 0x0 PERMISSION_FAULTS: 0x3 MAPPING_ERROR: 0x0 RW: 0x0\n", raw=True, cls="gpu-page-fault-unmapped",
        facts=dict(vmid=4, fault_address="0x7f0000001000", fault_status="0x401031", fault_client="TCP", rw="read")),
    "illegal packet": dict(
        log="10.0 %gfx_v11_0_priv_reg_irq Illegal register access in command stream\n" + reset(10.1), cls="illegal-opcode-or-instruction", fault="driver",
        roles={"illegal-opcode": "cause", "reset-begin": "effect"}),
    "illegal opcode": dict(log="10.0 %gfx_v11_0_bad_op_irq Illegal opcode in command stream", cls="illegal-opcode-or-instruction", do="restart-program"),
    "wave with an error": dict(
        log="10.0 amdgpu: sq_intr: error, se 2, data 0x1234, sa 0, priv 0, wave_id 3, simd_id 1, wgp_id 4, err_type 1", cls="illegal-opcode-or-instruction",
        roles={"wave-error": "cause"}),
    "RAS, ATHUB": dict(
        log="10.0 @ uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n" + reset(10.1), cls="ras-uncorrectable-error", fault="node", do="power-cycle",
        facts=dict(ras_event="ERREVENT_ATHUB_INTERRUPT"), roles={"ras-uncorrectable": "cause", "reset-begin": "effect"}),
    "RAS, memory": dict(
        log=f"10.0 amdgpu {GPU}: {{17}}socket: 0, die: 0, 2 new uncorrectable hardware errors detected in umc block\n10.1 amdgpu {GPU}: {{17}}socket: 0, die: 0, 2 uncorrectable hardware errors detected in total in umc block",
        cls="ras-uncorrectable-error", fault="node", do="power-cycle", facts=dict(ras_count=2, ras_block="umc")),
    "RAS, memory of a single die": dict(
        log=f"10.0 amdgpu {GPU}: {{18}}2 uncorrectable hardware errors detected in umc block", cls="ras-uncorrectable-error", do="power-cycle", facts=dict(ras_count=2)),
    "MODE2 fails": dict(
        log=ring_timeout(10.0) + "10.1 @ GPU reset begin!\n10.2 @ GPU mode2 reset\n12.0 @ GPU mode2 reset failed", cls="gfx-ring-timeout", do="reboot",
        facts=dict(reset_outcome="failed", reset_method="MODE2")),
    "RAS, poison": dict(
        log="10.0 @ GPU reset for gfx RAS poison consumption is issued!\n" + reset(10.1), cls="ras-uncorrectable-error", roles={"ras-poison": "cause"}),
    "PCIe, fatal": dict(
        log="9.0 @ SMU is initialized successfully!\n10.0 pcieport 0000:00:01.1: AER: Uncorrectable (Fatal) error message received from 0000:03:00.0\n"
            "10.0 amdgpu 0000:03:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)\n"
            "10.0 amdgpu 0000:03:00.0:   device [1002:744c] error status/mask=00004000/00000000\n10.0 amdgpu 0000:03:00.0:    [14] CmpltTO                (First)",
        cls="pcie-link-errors", fault="node", do="power-cycle", facts=dict(aer_severity="Uncorrectable"), roles={"pcie-error": "cause"}),
    "PCIe, repaired": dict(
        log="9.0 @ SMU is initialized successfully!\n10.0 amdgpu 0000:03:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
            "10.0 amdgpu 0000:03:00.0:   device [1002:744c] error status/mask=00000001/0000e000\n10.0 amdgpu 0000:03:00.0:    [ 0] RxErr                  (First)",
        cls="pcie-link-errors", facts=dict(aer_severity="Correctable")),
    "link down": dict(
        log="9.0 @ SMU is initialized successfully!\n10.0 pcieport 0000:00:01.1: pciehp: Slot(3): Link Down\n10.0 pcieport 0000:00:01.1: pciehp: Slot(3): Card not present\n10.1 @ device lost from bus!",
        cls="pcie-link-errors", do="power-cycle", roles={"pcie-link-down": "cause", "gpu-off-bus": "effect"}),
    "off the bus": dict(
        log="10.0 @ device lost from bus!", cls="gpu-off-bus", fault="node", do="power-cycle", roles={"gpu-off-bus": "cause"}),
    "off the bus, seen by the SMU": dict(
        log="10.0 @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0xFFFFFFFF SMN_C2PMSG_82:0xFFFFFFFF\n", cls="gpu-off-bus"),
    "IOMMU": dict(
        log="9.0 @ SMU is initialized successfully!\n90.0 amdgpu 0000:03:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0010 address=0xfe100000 flags=0x0020]",
        cls="iommu-dma-fault", fault="driver", facts=dict(iommu_address="0xfe100000"), roles={"iommu-fault": "cause"}),
    "lost interrupts": dict(
        log="10.0 [drm] Fence fallback timer expired on ring sdma0\n11.0 [drm] Fence fallback timer expired on ring gfx_0.0.0", cls="interrupt-delivery-problem",
        do="nothing", facts=dict(ring="sdma0"), roles={"interrupt-lost": "cause"}),
    "interrupt flood": dict(log="10.0 @ IH ring buffer overflow (0x00001000, 0x00000FE0, 0x00001020)", cls="interrupt-delivery-problem"),
    "start failed": dict(
        log="3.0 @ initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 0xC8).\n4.0 @ hw_init of IP block <psp> failed -22\n4.0 @ amdgpu_device_ip_init failed\n4.0 @ Fatal error during GPU init\n4.1 amdgpu 0000:03:00.0: probe with driver amdgpu failed with error -22",
        cls="gpu-init-failed", do="reboot", fault="node", facts=dict(ip_block="psp", error=-22)),
    "firmware missing": dict(
        log="3.0 amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_mes.bin failed with error -2\n3.1 @ Fatal error during GPU init",
        cls="gpu-init-failed", facts=dict(firmware="amdgpu/gc_11_0_0_mes.bin", error=-2)),
    "no atomics": dict(
        log="5.0 kfd kfd: amdgpu: skipped device 1002:7300, PCI rejects atomics 730<0", cls="kfd-unavailable", do="nothing", fault="node", facts=dict(kfd_device="1002:7300")),
    "no atomics for calls of the host": dict(log="10.0 Pcie atomics not enabled, hostcall not supported", cls="kfd-unavailable", fault="node"),
    "RAS, list of bad pages full": dict(
        log="10.0 @ Saved bad pages 41 reaches threshold value 40", cls="ras-uncorrectable-error", fault="node", do="replace", facts=dict(ras_count=41, ras_threshold=40)),
    "MES of an XCC": dict(log="10.0 @ MES(2, 0) failed to respond to msg=SUSPEND", cls="mes-unresponsive", facts=dict(mes_message="SUSPEND")),
    "a packet that is none": dict(
        log="10.0 HSA_STATUS_ERROR_INVALID_PACKET_FORMAT: The AQL packet is malformed. code: 0x1009", cls="hsa-queue-exception",
        facts=dict(hsa_status="HSA_STATUS_ERROR_INVALID_PACKET_FORMAT", hsa_code="0x1009")),
    "a fault's process without its thread": dict(
        log="10.0 @ [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)\n10.0 @  Process gimp pid 5123\n10.0 @   in page starting at address 0x00007f3a00001000 from client 10",
        cls="gpu-page-fault-unmapped", facts=dict(process="gimp", pid=5123)),
    "oops below the driver": dict(
        log="10.0 BUG: kernel NULL pointer dereference, address: 0000000000000018\n10.0 RIP: 0010:__list_del_entry_valid+0x2d/0x710\n10.0 Call Trace:\n10.0  <TASK>\n10.0  ttm_bo_release+0x11/0x90 [ttm]\n10.0  amdgpu_bo_unref+0x1e/0x30 [amdgpu]",
        cls="kernel-driver-oops", facts=dict(symbol="amdgpu_bo_unref")),
    "resume of an older kernel's failed": dict(
        log="10.0 @ SMU is initialized successfully!\n5010.1 PM: Device 0000:03:00.0 failed to resume async: error -110", cls="suspend-resume-failure", facts=dict(error=-110)),
    "resume failed": dict(
        log="5000.0 PM: suspend entry (deep)\n5010.0 @ resume of IP block <gfx_v11_0> failed -110\n5010.0 @ amdgpu_device_ip_resume failed (-110).\n5010.1 amdgpu 0000:03:00.0: PM: failed to resume async: error -110",
        cls="suspend-resume-failure", do="reboot", fault="driver", facts=dict(ip_block="gfx_v11_0", error=-110), roles={"resume-failed": "cause"}),
    "oops in the driver": dict(
        log="10.0 BUG: kernel NULL pointer dereference, address: 0000000000000018\n10.0 CPU: 3 UID: 1000 PID: 77 Comm: vulkaninfo Not tainted 6.12.48 #1\n10.0 RIP: 0010:amdgpu_vm_bo_update+0x2d/0x710 [amdgpu]",
        cls="kernel-driver-oops", do="reboot", fault="driver", roles={"driver-oops": "cause"}),
    "task stuck in the driver": dict(
        log="200.0 INFO: task kworker/u64:2:311 blocked for more than 120 seconds.\n200.0 Call Trace:\n200.0  <TASK>\n200.0  schedule+0x2d/0xd0\n200.0  dma_fence_default_wait+0x1c3/0x230\n200.0  amdgpu_sync_wait+0x7b/0x160 [amdgpu]",
        cls="driver-deadlock-hung-task", do="reboot", facts=dict(blocked_seconds=120), roles={"hung-task": "cause"}),
    "soft lockup in the driver": dict(
        log="300.0 watchdog: BUG: soft lockup - CPU#5 stuck for 26s! [kworker/5:2:412]\n300.0 CPU: 5 PID: 412 Comm: kworker/5:2 Not tainted 6.8.0-41 #41\n300.0 RIP: 0010:amdgpu_mm_rreg+0x3a/0x90 [amdgpu]",
        cls="driver-deadlock-hung-task", facts=dict(pid=412, process="kworker/5:2", blocked_seconds=26), roles={"hung-task": "cause"}),
    "CPU stuck in the driver": dict(
        log="300.0 rcu: INFO: rcu_preempt self-detected stall on CPU\n300.0 rcu: \t9-....: (59998 ticks this GP) idle=d3b4/1/0x4 softirq=881/881 fqs=14\n300.0 CPU: 9 PID: 977 Comm: python3 Not tainted 6.8.0-41 #41\n300.0 Call Trace:\n300.0  ttm_bo_mem_space+0x1a/0x290 [ttm]",
        cls="driver-deadlock-hung-task", facts=dict(pid=977, process="python3"), roles={"cpu-stall": "cause"}),
    "SVM restored again and again": dict(
        log="300.0 workqueue: svm_range_restore_work [amdgpu] hogged CPU for >10000us 131 times, consider switching to WQ_UNBOUND", cls="driver-deadlock-hung-task"),
    "radeon, lockup and reset": dict(
        log="10.0 radeon 0000:07:00.0: ring 0 stalled for more than 10124msec\n10.0 radeon 0000:07:00.0: GPU lockup (current fence id 0x0000000000001c40 last fence id 0x0000000000001c43 on ring 0)\n10.4 radeon 0000:07:00.0: Saved 77 dwords of commands on ring 0.\n10.4 radeon 0000:07:00.0: GPU softreset: 0x00000049\n10.8 radeon 0000:07:00.0: GPU reset succeeded, trying to resume",
        cls="gfx-ring-timeout", facts=dict(ring=0, pci="0000:07:00.0"), roles={"ring-timeout": "cause"}),
    "radeon, FreeBSD": dict(log="10.0 drmn0: GPU lockup CP stall for more than 10000msec\n10.0 drmn0: GPU lockup (waiting for 0x0000000000000a11 last fence id 0x0000000000000a10)", cls="gfx-ring-timeout"),
    "radeon, copy engine": dict(log="10.0 radeon 0000:07:00.0: ring 3 stalled for more than 10124msec", cls="sdma-ring-timeout", facts=dict(ring=3)),
    "radeon, not started": dict(
        log="3.0 [drm] initializing kernel modesetting (CAYMAN 0x1002:0x6719 0x1002:0x0B20 0x00).\n4.0 [drm:r600_ring_test [radeon]] *ERROR* radeon: ring 0 test failed (scratch(0x850C)=0xCAFEDEAD)\n4.0 radeon 0000:07:00.0: disabling GPU acceleration", cls="gpu-init-failed"),
    "passthrough, vendor-reset": dict(
        log="10.0 vfio-pci 0000:0c:00.0: AMD_VEGA10: performing pre-reset\n15.0 vfio-pci 0000:0c:00.0: AMD_VEGA10: Failed to send message 0x42: return 0x0\n16.0 vfio-pci 0000:0c:00.0: AMD_VEGA10: psp mode1 reset failed",
        cls="gpu-reset-failed", facts=dict(pci="0000:0c:00.0"), roles={"reset-failed": "cause"}),
    "passthrough, no way back": dict(
        log="10.0 vfio-pci 0000:0c:00.0: timed out waiting for pending transaction; performing function level reset anyway\n80.0 vfio-pci 0000:0c:00.0: not ready 65535ms after FLR; giving up\n81.0 vfio-pci 0000:0c:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        cls="gpu-reset-failed", facts=dict(pci="0000:0c:00.0")),
    "passthrough, off the bus": dict(log="81.0 vfio-pci 0000:0c:00.0: Unable to change power state from D3cold to D0, device inaccessible", cls="gpu-off-bus", facts=dict(pci="0000:0c:00.0")),
    "no answer to the IOMMU": dict(log="9.0 AMD-Vi: Completion-Wait loop timed out\n9.1 AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=03:00.0 address=0x20b7e4a10]", cls="gpu-off-bus"),
    "SMU reads all ones": dict(log="9.0 amdgpu: [powerplay] Failed to send message 0x3b, response 0xffffffff", cls="gpu-off-bus"),
    "fault status reads all ones": dict(log=fault(9.0, 0xfffffffff000, 0xffffffff, vmid=15, fields=False), cls="gpu-off-bus"),
    "display firmware refused": dict(
        log="3.0 [drm] Loading DMUB firmware via PSP: version=0x05002A00\n4.0 amdgpu 0000:03:00.0: [drm] *ERROR* Error getting DMUB FW meta info: 4\n4.1 @ failed to load ucode DMCUB(0x3C) ", cls="display-engine-hang", facts=dict(fw_dmcub="0x5002a00")),
    "display commands refused": dict(log="9.0 amdgpu 0000:03:00.0: [drm] *ERROR* Error queueing DMUB command: status=2", cls="display-engine-hang", facts=dict(dmub_status=2)),
    "KWin's page flip": dict(log="9.0 kwin_wayland[1201]: kwin_wayland_drm: Pageflip timed out! This is a bug in the amdgpu kernel driver", cls="display-engine-hang"),
    "PSP's fault at the start": dict(
        log="3.0 @ initializing kernel modesetting (IP DISCOVERY 0x1002:0x73BF 0x1DA2:0xE438 0xC1).\n" + fault(3.5, 0, status_of(0, 3, vmid=0), vmid=0, client="MP0", hub="mmhub"), cls="kernel-context-page-fault"),
    "gim of MI300": dict(log="9.0 gim error libgv: [0000:03:00.0]:wait_cmd_complete:Timeout of waiting command complete (500000 us).", cls="sriov-world-switch-timeout"),
    "GPU memory full": dict(
        log="10.0 %amdgpu_cs_ioctl Not enough memory for command submission!\n10.1 %amdgpu_cs_ioctl Not enough memory for command submission!", cls="vram-exhaustion",
        fault="job", do="restart-program", roles={"out-of-vram": "cause"}),
    "host memory full": dict(
        log="10.0 oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=python3,pid=4711,uid=1000\n10.1 Out of memory: Killed process 4711 (python3) total-vm:90000kB, anon-rss:80000kB\n11.0 @ Freeing queue vital buffer 0x7f0000000000, queue evicted",
        cls="host-oom", fault="job", do="restart-program", facts=dict(process="python3", pid=4711), roles={"host-oom": "cause"}),
    "too hot": dict(
        log="10.0 @ ERROR: GPU over temperature range(SW CTF) detected!\n10.0 @ ERROR: System is going to shutdown due to GPU SW CTF!", cls="thermal-shutdown",
        fault="node", do="power-cycle"),
    "virtual function without its host": dict(log="10.0 @ Doesn't get msg:1 from pf, error=-62\n10.1 @ VF exclusive mode timeout", cls="sriov-world-switch-timeout", do="reboot"),
    "virtualisation host": dict(log="10.0 gim error:(wait_cmd_complete:2369) wait_cmd_complete -- time out after 0.003 seconds", cls="sriov-world-switch-timeout"),
    "reset without a reason": dict(
        log="10.0 @ GPU reset begin!\n10.1 @ MODE1 reset\n11.5 @ GPU reset(1) succeeded!", cls="gpu-reset-unexplained", before_log=True, do="restart-session"),
}


def test_cases(t, unhang):
    for name, case in tap.some(unhang, CASES.items()):
        text = case["log"] if case.get("raw") else log(case["log"])
        answer = unhang.explain_text(text)
        found = answer.first
        wrong = list(answer.complaints)

        def same(what, got, wanted):
            if got != wanted:
                wrong.append(f"{what}: {got!r}, not {wanted!r}")

        same("classes", answer.classes, [case["cls"]])
        for fact, value in case.get("facts", {}).items():
            if value is None:
                same(fact, found.values(fact), [])
            elif value not in found.values(fact):
                wrong.append(f"{fact}: {found.values(fact)!r}, not {value!r}")
        for event, role in case.get("roles", {}).items():
            same(f"role of {event}", {e["role"] for e in found.events(event)}, {role})
        for word in case.get("also", []):
            if word not in found.data["also"]:
                wrong.append(f"also: {found.data['also']}, without {word}")
        for what, key in (("do", "do"), ("fault", "fault")):
            if what in case:
                same(f"action.{what}", found.data["action"][key], case[what])
        if "before_log" in case:
            same("before_log", found.cause["before_log"], case["before_log"])
        t.no_complaints(wrong, name)
    shown = {case["cls"] for case in CASES.values()}
    # What only user space prints (programs.py and artefacts.py have it), or what has no line of its own in a kernel log.
    elsewhere = {"long-running-dispatch-timeout", "memory-aperture-violation", "hsa-queue-exception", "gpu-hang-hw-exception", "collective-timeout", "wrong-isa",
                 "silent-hang", "workspace-deadlock", "gpu-library-failed", "gpu-memory-misuse",
                 # What experiments and the history of a module tell: try.py, races.py, readers, hardware.py.
                 "gpu-work-race", "told-by-experiments", "suspected-bad-hardware",
                 # What only a look at the GPU shows: verdicts.py, looks.py.
                 "shader-livelock", "gfxoff-wake-failure", "queue-deadlock", "kiq-unresponsive"}
    caused = set(re.findall(rb"^cause +(\S+)", unhang.run("knowledge", "list", "cause").stdout, re.M))
    missing = {c.decode() for c in caused} - shown - elsewhere
    t.same(sorted(missing), [], "each class that has a cause has an incident here")


# --- rules ---

def one(t, unhang, name, text, raw=False):
    answer = unhang.explain_text(text if raw else log(text))
    t.no_complaints(answer.complaints, f"{name}: well-formed")
    return answer


def test_fault_status(t, unhang):
    a = one(t, unhang, "status without sub-lines", fault(10, 0x7f0000001000, status_of(8, 5, rw=1, walker=2), fields=False)).first
    t.same({n: a.values(n) for n in ("fault_client", "permission_faults", "rw", "walker_error", "mapping_error")},
           {"fault_client": ["TCP"], "permission_faults": ["0x5"], "rw": ["write"], "walker_error": ["0x2"], "mapping_error": ["0x0"]}, "the status word fills in what the lines do not say")
    t.same([a.line(n) for n in ("fault_status", "fault_client", "rw")], [4, 4, 4], "decoded facts stand at the status line")
    agreeing = one(t, unhang, "agreeing", fault(10, 0x7f0000001000, status_of(8, 3))).first
    text = fault(10, 0x7f0000001000, status_of(8, 3)).replace("PERMISSION_FAULTS: 0x3", "PERMISSION_FAULTS: 0x5").replace("RW: 0x0", "RW: 0x1")
    against = one(t, unhang, "contradicting", text).first
    t.ok(against.cause["confidence"] < agreeing.cause["confidence"] - 0.05, "sub-lines that contradict the status word lower the confidence",
         f"{against.cause['confidence']} against {agreeing.cause['confidence']}")
    t.same(against.values("permission_faults"), ["0x5"], "what is printed stays")
    zero = one(t, unhang, "zero", fault(10, 0x7f0000001000, 0, client="CB/DB")).first
    t.same({n: zero.values(n) for n in ("fault_client", "permission_faults", "rw", "fault_status")},
           {"fault_client": [], "permission_faults": [], "rw": [], "fault_status": ["0x0"]}, "a zero status is no client, no direction")
    t.same(zero.cls, "gpu-page-fault-unmapped", "a zero status of a program's VMID is still a fault")
    vmids = one(t, unhang, "VMID", fault(10, 0x7f0000001000, status_of(8, 3, vmid=9), vmid=4)).first
    t.same((vmids.values("vmid"), vmids.cause["confidence"]), ([4], agreeing.cause["confidence"]), "the printed VMID counts, another one in the status word is no contradiction")
    two = one(t, unhang, "two faults", fault(10, 0x7f0000001000, status_of(8, 3)) + fault(10.1, 0x7f0000009000, status_of(8, 5, rw=1), vmid=5)).first
    t.same([[two.values(n, e["id"]) for n in ("fault_address", "rw", "process")] for e in two.events("page-fault")],
           [[["0x7f0000001000"], ["read"], ["python"]], [["0x7f0000009000"], ["write"], ["python"]]], "two faults do not mix their facts")


def test_faults_of_processes(t, unhang):
    """Faults of different processes are different incidents, unless a hang or a reset joins them."""
    status = status_of(8, 3)
    text = "".join(fault(10 + n * 5.5, 0x7f0000001000 + n * 0x1000, status, process=name, pid=pid) for n, (name, pid) in enumerate((("a", 71), ("b", 72), ("c", 73), ("b", 72), ("d", 74))))

    def said(answer):
        return sorted((i.values("pid"), i.values("fault_address")) for i in answer.incidents)
    t.same(said(one(t, unhang, "four processes", text)), [([71], ["0x7f0000001000"]), ([72, 72], ["0x7f0000002000", "0x7f0000004000"]), ([73], ["0x7f0000003000"]), ([74], ["0x7f0000005000"])],
           "faults of four processes with the same PASID are four incidents, each with its own")
    storm = "".join(fault(10 + n * 0.01, 0x7f0000001000 + n * 0x1000, status, process="a", pid=71) for n in range(40))
    late = said(one(t, unhang, "one behind many", storm + fault(12, 0x7f0000f01000, status, process="b", pid=72)))
    t.same([pids[0] for pids, _ in late] + [late[1][1]], [71, 72, ["0x7f0000f01000"]], "one fault behind many of another process is not counted as one of them")
    joined = one(t, unhang, "joined", text + "35 @ ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n" + reset(35.1))
    t.same([len(joined.incidents), joined.first.values("pid")[:1], len(joined.first.events("page-fault"))], [1, [71], 5], "a hang that is reset joins them")
    before = "".join(fault(20 + n, 0x7f0000001000 + n * 0x1000, status, process=name, pid=pid) for n, (name, pid) in enumerate((("a", 71), ("b", 72))))
    t.same(len(one(t, unhang, "behind a hang", "19 @ ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n" + before).incidents), 1, "and what follows a hang belongs to it")


def test_names_of_strangers(t, unhang):
    """A program chooses its name, and may choose the driver's own words and the pid of another."""
    faulted, timed_out = fault(10, 0x7f0000001000, status_of(8, 3)), ring_timeout(10)
    for name in ("x pid 1 thread ", "x pid 1 thread", " pid 999 thread", "pid 1 thread x"):
        for kind, text in {"fault": re.sub(r"process python pid", f"process {name} pid", faulted), "timeout": timed_out.replace("process game.exe pid", f"process {name} pid"),
                           "new fault": "10 @ [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:4 pasid:32770, for process {} pid 4242 thread evil pid 4242)\n10 @   in page starting at address 0x0000000000001000 from client 10\n".format(name)}.items():
            a = one(t, unhang, f"{kind} of '{name}'", text).first
            t.ok(a.values("pid") in ([], [4242], [900]) and "x" not in a.values("process"), f"{kind}: the name '{name}' accuses nobody else", f"{a.values('process')} {a.values('pid')}")
    left_out = one(t, unhang, "dots", "10 @ [gfxhub] page fault (src_id:0 ring:24 vmid:4 pasid:32770)\n10 @  in process x pid 1 thread  pid 4242 thread ... pid 4243)\n").first
    t.same((left_out.values("process"), left_out.values("pid")), ([], []), "nor does it with a thread whose name looks as if something were left out")
    plain = [one(t, unhang, "plain", text).first for text in (faulted.replace("process python", "process my pid tool"), timed_out)]
    t.same([(a.values("process"), a.values("pid")) for a in plain], [(["my pid tool"], [4242]), (["game.exe"], [900])], "a name that can be read in one way only is told")


def test_precedence(t, unhang):
    for old, wanted in (("MES failed to response msg=3", "REMOVE_QUEUE"), ("MES failed to respond to msg=14", "MISC"), ("MES failed to response msg=20", "INVALIDATE_TLBS"),
                        ("MES(1) failed to respond to msg=INVALIDATE_TLBS", "INVALIDATE_TLBS"), ("MES failed to respond to msg=MISC (WAIT_REG_MEM)", "MISC")):
        t.same(one(t, unhang, old, f"10 @ {old}").first.value("mes_message"), wanted, f"{old} is {wanted}")
    a = one(t, unhang, "fault in a reset", ring_timeout(10.0) + "10.1 @ GPU reset begin!\n" + fault(10.3, 0, status_of(5, 5, vmid=0), vmid=0, client="CPC") + "10.4 @ MODE1 reset\n11.5 @ GPU reset(1) succeeded!").first
    t.same((a.cls, a.events("page-fault")[0]["role"] if a.events("page-fault") else None), ("gfx-ring-timeout", "artefact"), "a VMID 0 fault inside a reset is an artefact")
    a = one(t, unhang, "opcode in a reset", ring_timeout(10.0) + "10.1 @ Starting gfx_0.0.0 ring reset\n10.10007 %gfx_v11_0_bad_op_irq Illegal opcode in command stream\n10.3 @ Ring gfx_0.0.0 reset succeeded").first
    t.same((a.cls, [e["role"] for e in a.events("illegal-opcode")]), ("gfx-ring-timeout", ["artefact"]), "an illegal opcode inside a ring reset is an artefact")
    a = one(t, unhang, "MES after ring", ring_timeout(10.0) + "10.2 @ MES failed to respond to msg=RESET\n10.3 @ reset via MES failed and try pipe reset -110\n10.4 @ Ring gfx_0.0.0 reset failed\n" + reset(10.5)).first
    t.same((a.cls, [e["role"] for e in a.events("mes-timeout")]), ("gfx-ring-timeout", ["effect"]), "a MES failure after a ring timeout is its effect")
    t.ok("mes-unresponsive" in a.data["also"] and "ring-reset-failed-escalation" in a.data["also"], "what the effects were is in also", a.data["also"])
    a = one(t, unhang, "fault then ring", fault(10.0, 0x7f0000001000, status_of(8, 3), process="train", pid=55) + ring_timeout(20.2, process="gnome-shell", pid=2100) + reset(20.5)).first
    t.same((a.cls, [e["role"] for e in a.events("page-fault")]), ("gpu-page-fault-unmapped", ["cause"]), "a page fault 10 s before a ring timeout is its cause")
    t.same([p["role"] for p in a.data["processes"] if p["name"] == "gnome-shell"], ["bystander"], "the compositor that the ring timeout names is a bystander")
    t.same([p["role"] for p in a.data["processes"] if p["name"] == "train"], ["owner"], "the process of the fault is the owner")
    a = one(t, unhang, "SMU then ring", "10.0 @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x00000005\n" + ring_timeout(20.0) + reset(20.5)).first
    t.same((a.cls, [e["role"] for e in a.events("smu-timeout")]), ("smu-unresponsive", ["cause"]), "an SMU that stopped before a ring timeout is its cause")
    t.same([e["role"] for e in a.events("ring-timeout")], ["effect"], "and the ring timeout its effect")
    a = one(t, unhang, "SMU in a reset", ring_timeout(10.0) + "10.1 @ GPU reset begin!\n10.4 @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x00000005\n11.0 @ MODE1 reset\n12.0 @ GPU reset(1) succeeded!").first
    t.same((a.cls, [e["role"] for e in a.events("smu-timeout")]), ("gfx-ring-timeout", ["effect"]), "an SMU that stops inside the reset is an effect")
    a = one(t, unhang, "equal numbers", ring_timeout(10.0, signaled=77, emitted=77)).first
    t.same(a.cls, "interrupt-delivery-problem", "signaled = emitted: nothing was outstanding")
    a = one(t, unhang, "RAS and fault", "10.0 @ uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n" + fault(10.2, 0x7f0000001000, status_of(8, 3)) + reset(10.5)).first
    t.same(a.cls, "ras-uncorrectable-error", "a hardware error explains the fault after it")
    a = one(t, unhang, "MES in a reset", "10.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n10.1 @ GPU reset begin!\n10.2 @ MES failed to respond to msg=REMOVE_QUEUE\n10.3 @ failed to unmap legacy queue\n10.6 @ MODE1 reset\n11 @ GPU reset(1) succeeded!").first
    t.same([e["role"] for e in a.events("mes-timeout") + a.events("mes-queue-failed")], ["effect", "effect"], "MES inside a reset is an effect")


def test_incidents(t, unhang):
    a = one(t, unhang, "inside a reset", "10.0 @ soft reset failed, will fallback to full reset!\n10.1 @ MODE1 reset\n" + fault(10.2, 0, 0, vmid=0) + "10.3 @ MES failed to respond to msg=REMOVE_QUEUE\n11.0 @ GPU reset succeeded, trying to resume\n11.5 @ GPU reset(1) succeeded!")
    t.same(a.first.cause["before_log"], True, "a log that begins inside a reset: the cause is earlier")
    t.ok(a.first.data["next"] and "journalctl" in a.first.data["next"][0]["run"], "and the next step says how to get it", a.first.data["next"])
    t.ok(a.first.cause["confidence"] <= 0.4, "and it is not sure", a.first.cause["confidence"])
    t.same({e["role"] for e in a.first.events("page-fault")}, {"artefact"}, "and the empty fault inside is an artefact")
    text = log(ring_timeout(100.0) + ring_timeout(161.5, process="second", pid=901))
    t.same(len(unhang.explain_text(text).incidents), 2, "more than 60 s without news: two incidents")
    a = unhang.explain_text(log("".join(ring_timeout(100.0 + 70 * n) for n in range(3)) + fault(500.0, 0x7f0000001000, status_of(8, 3))))
    t.same(sorted((i.cause["class"], i.data["times"]) for i in a.incidents), [("gfx-ring-timeout", 3)] * 3 + [("gpu-page-fault-unmapped", 1)], "each of several failures that are alike tells how many they are")
    text = log(ring_timeout(100.0) + ring_timeout(155.0, process="second", pid=901))
    t.same(len(unhang.explain_text(text).incidents), 1, "less than 60 s: one incident")
    text = log(ring_timeout(100.0) + reset(100.2) + fault(110.0, 0x7f0000001000, status_of(8, 3)))
    a = unhang.explain_text(text)
    t.same(sorted(a.classes), ["gfx-ring-timeout", "gpu-page-fault-unmapped"], "a completed reset: what comes after it is another incident")
    text = log(ring_timeout(100.0) + reset(100.2) + "104.0 %amdgpu_cs_ioctl Failed to initialize parser -125!")
    t.same(unhang.explain_text(text).classes, ["gfx-ring-timeout"], "but the contexts that it lost belong to it")
    text = log("".join(reset(100.0 + 5 * n) for n in range(4)))
    a = unhang.explain_text(text)
    t.ok(any("reset-loop" in i.data["also"] for i in a.incidents) or len(a.incidents) > 1, "resets one after the other", a.classes)
    again = unhang.explain_text(log(fault(10, 0x7f0000001000, status_of(8, 3)))).first.data
    other = unhang.explain_text(log(fault(99, 0x7f0000008000, status_of(8, 3)))).first.data
    t.ok(again["fingerprint"] == other["fingerprint"] and again["id"] != other["id"], "the same fault again: another id, the same fingerprint", (again, other))
    text = log(fault(10, 0x7f0000001000, status_of(8, 3)))
    t.same(unhang.explain_text(text).stdout, unhang.explain_text(text).stdout, "the same input gives the same output")
    text = "".join(log(f"{10 + n / 1000} @ MES failed to respond to msg=REMOVE_QUEUE") for n in range(500))
    a = unhang.explain_text(text).first
    t.same([(e["event"], e["count"]) for e in a.timeline], [("mes-timeout", 500)], "repetitions are counted")


def test_remedies(t, unhang):
    mes = "500 @ MES failed to respond to msg=REMOVE_QUEUE\n500.1 @ failed to remove hardware queue from MES, doorbell=0x1000"
    halo = one(t, unhang, "Strix Halo", boot("0x1002:0x1586 0x1002:0x1586 0xC1") + log(mes), raw=True).first
    t.same(halo.data["gpus"][0]["gfx"], "gfx1151", "the part is known from the boot's messages")
    t.ok("cwsr-off" in halo.remedies, "CWSR off is offered for gfx1151", halo.remedies)
    navi = one(t, unhang, "Navi 31", boot() + log(mes), raw=True).first
    t.ok("cwsr-off" not in navi.remedies, "but not for gfx1100", navi.remedies)
    off = one(t, unhang, "already off", boot("0x1002:0x1586 0x1002:0x1586 0xC1", parameters="amdgpu.cwsr_enable=0") + log(mes), raw=True).first
    t.ok("cwsr-off" not in off.remedies, "nor where it is off already", off.remedies)
    t.same(off.value("param.amdgpu.cwsr_enable"), "0", "parameters of the command line are facts")
    firmware = "MES_KIQ feature version: 6, firmware version: 0x0000006c\nMES feature version: 1, firmware version: 0x00000083\n"
    for where, text in (("before", boot("0x1002:0x1586 0x1002:0x1586 0xC1") + firmware + log(mes)), ("behind", boot("0x1002:0x1586 0x1002:0x1586 0xC1") + log(mes) + firmware)):
        bad = one(t, unhang, f"firmware info {where} the incident", text, raw=True).first
        t.same(bad.known[:1], ["mes-83-gfx1151"], f"MES 0x83 on gfx1151 is known to be bad, firmware info {where} the incident")
        t.ok("mes-80-gfx1151" in bad.remedies and "cwsr-off" not in bad.remedies, f"and its own remedy is offered, firmware info {where} the incident", bad.remedies)
        t.ok(bad.cause["confidence"] >= halo.cause["confidence"], "and it makes the cause surer", bad.cause)
    good = one(t, unhang, "MES 0x83 on another part", boot() + firmware + log(mes), raw=True).first
    t.same(good.known, [], "the same number on gfx1100 says nothing")
    wrong = []
    for name, case in tap.some(unhang, CASES.items()):
        for i in unhang.explain_text(case["log"] if case.get("raw") else log(case["log"])).incidents:
            wrong += [f"{name}: {r['id']}" for r in i.data["remedies"] if not (r["grade"] and r["source"] and r["do"] and r["title"])]
            wrong += [f"{name}: no next step"] * (not i.data["next"])
    t.no_complaints(wrong, "every remedy has steps, grade and source; every incident has a next step")


def test_few_remedies(t, unhang):
    """One particular remedy is not left alone where a general one fits too; a missing VBIOS is no missing firmware file."""
    fault_of = log(fault(45755.103, 0x800102d0e000, status_of(0x1c, 5, rw=1), process="ffmpeg", hub="mmhub", client="VCN"))
    shown = [(r["id"]) for r in unhang.explain_text(fault_of).first.data["remedies"] if r["shown"]]
    t.ok(shown[:1] == ["video-in-software"] and len(shown) == 2, "a fault of the video engine: decode on the CPU, and a general remedy", shown)
    late = log("500 @ ring comp_1.1.0 timeout, signaled seq=7, emitted seq=9")
    new, old = (unhang.explain_text(boot(kernel=kernel) + late).first.remedies for kernel in ("7.0.5-arch1", "6.12.48-amd64"))
    t.ok("lockup-timeout-compute" in new[:3] and "lockup-timeout-compute" not in old, "kernel 7.0 gives compute jobs 2 seconds, older ones a minute", (new, old))
    absent = unhang.explain_text("ROCk module is NOT loaded, possibly no GPU devices\nUnable to open /dev/kfd read-write: No such file or directory\n").first
    t.ok(absent.remedies[0] == "load-driver" and not {"container-devices", "kfd-permission"} & set(absent.remedies), "no driver: load it; groups and containers do not help", absent.remedies)
    refused = unhang.explain_text("modprobe: ERROR: could not insert 'amdgpu': Key was rejected by service\n").first
    t.same(refused.remedies[:1], ["secure-boot-key"], "a module that Secure Boot refuses: its key")
    rom = unhang.explain_text(log("4.3 @ Unable to locate a BIOS ROM\n4.4 @ Fatal error during GPU init")).first
    t.ok("vbios-board" in rom.remedies and "install-firmware" not in rom.remedies, "no VBIOS: the board, not the firmware package", rom.remedies)


def test_edges(t, unhang):
    """What reviews and other people's logs once broke."""
    start = "0.0 Linux version 6.12.48-amd64 (builder@host) #1 SMP\n"
    hang = "50.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n51.0 @ GPU reset begin!\n52.0 @ GPU reset(1) succeeded!\n"

    # A log of differences is read line by line, in windows of 256 KiB: let a line of 9,000 bytes lie across their border.
    line = "[  +0.000001] usb 1-1: nothing of interest\n"
    for shift in (100, 4100, 8200):
        filler = line * ((256 * 1024 - shift) // len(line))
        text = filler + "[  +0.000001] " + "x" * 9000 + "\n" + line * 6000 + log(hang).replace("[   50.000000]", "[  +0.000001]")
        t.same(unhang.explain_text(text).classes, ["gfx-ring-timeout"], f"a long line {shift} bytes before a border")

    bsd = "[100.5] drmn0: [gfxhub] page fault (src_id:0 ring:24 vmid:3\npasid:32770, for process X pid 7 thread X pid 7)\n[101.5] [drm] done\n"
    t.same(unhang.explain_text(bsd).first.values("pid"), [7], "a wrapped line of FreeBSD's")

    busy = "".join(f"{5 + n / 100} @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x{n:08x}\n" for n in range(300))
    probe = start + "3.0 @ initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 0xC8).\n"
    many = unhang.explain_text(log(probe + busy + "9.0 @ GPU reset begin!\n9.5 @ GPU reset(1) failed\n")).first
    t.same((many.value("reset_outcome"), many.data["action"]["do"]), ("failed", "reboot"), "300 repetitions while the driver starts do not push the outcome out")

    other = "0000:43:00.0"
    firmware = ("4.0 @ smu driver if version = 0x3d, smu fw if version = 0x3f, smu fw program = 0, smu fw version = 0x004e7e00 (78.126.0)\n"
                f"4.1 amdgpu {other}: amdgpu: smu driver if version = 0x04, smu fw if version = 0x05, smu fw program = 0, smu fw version = 0x00545000 (84.80.0)\n")
    t.same(unhang.explain_text(log(start + firmware + hang)).first.values("fw_smu"), ["0x4e7e00"], "the firmware of another GPU is not this one's")

    quiet = "10.0 pcieport 0000:00:01.2: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n10.1 pcieport 0000:00:01.2:   device [1022:1483] error status/mask=00000001/00006000\n"
    t.same(unhang.explain_text(log(start + quiet + hang)).first.duration, 2, "an error of another device does not make the incident longer")

    whole = unhang.explain_text(log(start + "50.0 @ GPU reset begin!\n51.0 @ GPU reset(1) succeeded!\n")).first
    t.ok(not any("-b -1" in n["run"] for n in whole.data["next"]), "where the whole boot is in the log, nobody is sent to look for it", whole.data["next"])

    marked = "-- Boot 0123456789abcdef0123456789abcdef --\n" + log(start + hang)
    t.same(unhang.explain_text(marked).first.data.get("boot_id"), "0123456789abcdef0123456789abcdef", "the boot's id of journalctl's marker")

    unhang.know("mine.know", "cause gfx-ring-timeout\n  from ring-timeout\n  stage hang\n  confidence 50\n  severity 3\n  fault job\n  title Mine\n  explain Mine.\n")
    t.same(unhang.explain_text(log(hang)).first.cause["title"], "Mine", "a user's cause is tried before ours")
    unhang.know("mine.know", "")

    reset = "50.0 @ MODE1 reset\n51.0 @ SMU is resumed successfully!\n"
    t.same(unhang.explain_text(log("49.0 PM: suspend entry (deep)\n" + reset + "52.0 PM: suspend exit\n")).classes, [], "a reset that belongs to sleeping is none")


def test_machine(t, unhang):
    """Which GPU a line without an address means. Until 6.13 the driver named the part on such a line."""
    start = "0.0 Linux version 6.12.48-amd64 (builder@host) #1 SMP\n"
    navi = "[drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 0xC8)."
    halo = "[drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x1586 0x1DA2:0xE471 0xC1)."
    other = "0000:43:00.0"
    broken = fault(50.0, 0x7f0000001000, status_of(8, 3))

    def parts(text):
        return {i.data["gpus"][0]["pci"]: i.data["gpus"][0]["gfx"] for i in unhang.explain_text(log(text)).incidents}

    t.same(parts(start + f"3.0 amdgpu {GPU}: enabling device (0006 -> 0007)\n3.1 {navi}\n" + broken), {GPU: "gfx1100"}, "one GPU, named before its part")
    t.same(parts(start + f"3.1 {navi}\n3.2 @ Fetched VBIOS from VFCT\n" + broken), {GPU: "gfx1100"}, "one GPU, named after its part")
    t.same(parts(start + f"3.1 {navi}\n3.2 @ Fetched VBIOS from VFCT\n4.1 {halo}\n4.2 amdgpu {other}: amdgpu: Fetched VBIOS from VFCT\n" + broken + broken.replace("@", f"amdgpu {other}: amdgpu:")),
           {GPU: "gfx1100", other: "gfx1151"}, "two GPUs, named after their parts")
    t.same(parts(start + f"3.0 amdgpu {GPU}: enabling device (0006 -> 0007)\n3.1 {navi}\n3.2 @ Fetched VBIOS from VFCT\n4.0 amdgpu {other}: enabling device (0006 -> 0007)\n4.1 {halo}\n4.2 amdgpu {other}: amdgpu: Fetched VBIOS from VFCT\n"
                 + broken + broken.replace("@", f"amdgpu {other}: amdgpu:")), {GPU: "gfx1100", other: "gfx1151"}, "two GPUs, named before their parts")


# --- nothing wrong ---

QUIET = {
    "a crash elsewhere": log("57359.2 python3[3494]: segfault at 34 ip 00007f3d56e45970 sp 00007ffd241f9130 error 4 in libpython3.12.so.1.0[45970,7f3d56e1d000+117000]"),
    "healthy boot": boot() + log("""
4.3 @ RAS: optional ras ta ucode is not available
4.3 @ SECUREDISPLAY: optional securedisplay ta ucode is not available
4.4 @ smu driver if version = 0x0000003d, smu fw if version = 0x00000040, smu fw program = 0, smu fw version = 0x004e8300 (78.131.0)
4.4 @ SMU driver if version not matched
4.6 [drm] Display Core v3.2.301 initialized on DCN 3.2
4.7 @ ring gfx_0.0.0 uses VM inv eng 0 on hub 0
4.7 @ ring sdma0 uses VM inv eng 12 on hub 0
4.8 amdgpu 0000:03:00.0: [drm] Cannot find any crtc or sizes
5.0 @ Runtime PM not available
60.0 amdgpu: Evicting PASID 0x8002 queues"""),
    "SMU interface alone": log("4.4 @ SMU driver if version not matched"),
    "Intel": log("""
10.0 i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in chrome [900]
10.1 i915 0000:00:02.0: [drm] Resetting chip for stopped heartbeat on rcs0
10.2 i915 0000:00:02.0: [drm] *ERROR* [CRTC:80:pipe A] flip_done timed out
10.3 xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=4294967169, lrc_seqno=4294967169, guc_id=2, flags=0x0"""),
    "NVIDIA": log("""
10.0 NVRM: Xid (PCI:0000:01:00): 79, pid=900, name=python, GPU has fallen off the bus.
10.0 NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.
10.1 nouveau 0000:01:00.0: fifo: fault 00 [VIRT_READ] at 0000000000000000 engine 40 [gr] client 04 [GPC1/TPC0] reason 02 [PTE] on channel 5
10.2 [drm:nv_drm_atomic_commit [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x00000100] Flip event timeout on head 0"""),
    "a guest has a GPU, and it is fine": boot() + log("50.0 vfio-pci 0000:0a:00.0: AMD_NAVI10: reset result = 0\n51.0 vfio-pci 0000:0a:00.0: not ready 1023ms after FLR; waiting"),
    "a guest's network card": boot() + log("50.0 vfio-pci 0000:05:00.0: not ready 65535ms after FLR; giving up\n51.0 vfio-pci 0000:05:00.0: Refused to change power state, currently in D3"),
    "CPU stuck in another driver": boot() + log("""
300.0 rcu: INFO: rcu_sched self-detected stall on CPU
300.0 CPU: 2 PID: 41 Comm: kworker/2:1 Not tainted 6.12.48 #1
300.0 RIP: 0010:iwl_mvm_rx+0x2d/0x710 [iwlmvm]"""),
    "a work that took its time": boot() + log("50.0 workqueue: svm_range_restore_work [amdgpu] hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND"),
    "AER of a network card": boot() + log("""
50.0 pcieport 0000:00:1c.0: AER: Correctable error message received from 0000:05:00.0
50.0 igb 0000:05:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)
50.0 igb 0000:05:00.0:   device [8086:1533] error status/mask=00000001/00002000
50.0 igb 0000:05:00.0:    [ 0] RxErr                  (First)"""),
    "fatal AER of a disk": boot() + log("""
50.0 nvme 0000:06:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)
50.0 nvme 0000:06:00.0:   device [144d:a80a] error status/mask=00004000/00000000"""),
    "task stuck in NFS": boot() + log("""
300.0 INFO: task rsync:4455 blocked for more than 120 seconds.
300.0       Not tainted 6.12.48-amd64 #1
300.0 Call Trace:
300.0  <TASK>
300.0  __schedule+0x3f5/0x1a70
300.0  rpc_wait_bit_killable+0x11/0x70 [sunrpc]
300.0  nfs_wait_bit_killable+0x1f/0x60 [nfs]"""),
    "oops in another driver": boot() + log("""
300.0 BUG: kernel NULL pointer dereference, address: 0000000000000018
300.0 CPU: 3 UID: 0 PID: 77 Comm: kworker/3:1 Tainted: G           OE      6.12.48 #1
300.0 RIP: 0010:iwl_mvm_rx+0x2d/0x710 [iwlmvm]
300.0 Call Trace:
300.0  iwl_pcie_rx_handle+0x1a/0x30 [iwlwifi]"""),
    "IOMMU fault of a USB controller": boot() + log("50.0 xhci_hcd 0000:0e:00.3: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001a address=0xdead0000 flags=0x0000]\n"
                                                     "50.1 AMD-Vi: Event logged [IO_PAGE_FAULT device=0e:00.3 domain=0x001a address=0xdead0000 flags=0x0000]"),
    "IOMMU faults while the GPU starts": log(f"""
0.0 Linux version 6.12.48-amd64 (builder@host) #1 SMP
0.9 AMD-Vi: Event logged [IO_PAGE_FAULT device=03:00.0 domain=0x0000 address=0x9f000000 flags=0x0020]
1.0 amdgpu {GPU}: enabling device (0006 -> 0007)
1.1 @ initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 0xC8).
2.0 @ SMU is initialized successfully!"""),
    "RAS count that is no count": log("10.0 @ 1048560 uncorrectable hardware errors detected in total in umc block"),
    "words in a program's output": log("10.0 audit: comm=\"grep\" looking for ring timeout in old logs\n11.0 my-app[12]: request timeout, but recovered; queue reset"),
    "prose": "I have a problem with my GPU. It sometimes hangs, and then a GPU reset does not help.\nThe manual says: a page fault is an access to memory that is not mapped.\n",
}


def test_quiet(t, unhang):
    for name, text in tap.some(unhang, QUIET.items()):
        answer = unhang.explain_text(text)
        t.no_complaints(answer.complaints + [f"{i.cls}: {i.timeline}" for i in answer.incidents] + [f"status {answer.status}"] * (answer.status != 0), f"quiet: {name}")


QUOTED = {
    "a template": "ring %s timeout, signaled seq=%u, emitted seq=%u",
    "source code": 'dev_err(adev->dev, "device lost from bus!\\n");',
    "a command": "journalctl -k | grep 'device lost from bus!'",
    "a patch": "@@ -1,2 +1,2 @@\n-\tpr(device lost from bus!)\n+\tpr(x)",
    "prose": 'A message such as "device lost from bus!" means that the card is gone.',
    "a commit": "* drm/amdgpu: print device lost from bus! once",
}
TOLD = {
    "a sentence with a value": 'It froze: "ring gfx_0.0.0 timeout, signaled seq=4711, emitted seq=4713".',
    "a sentence of who met it": "The screen went black with 'amdgpu: device lost from bus!' today",
    "a container's JSON": '{"log":"Memory access fault by GPU node-1 on address 0x7f0000001000. Reason: Unknown.\\n","stream":"stderr"}',
    "an exception": 'RuntimeError("HIP error: an illegal memory access was encountered")',
    "a log behind a patch": "@@ -1 +1 @@\n-a\n+b\n\n" + log("10.0 @ device lost from bus!"),
}


def test_quotations(t, unhang):
    for name, text in tap.some(unhang, QUOTED.items()):
        answer = unhang.explain_text(text + "\n")
        said = any("is not a log" in n["text"] for n in answer.document.get("notes", []))
        t.same((answer.classes, said), ([], True), f"quoted, and told so: {name}")
    for name, text in TOLD.items():
        t.ok(unhang.explain_text(text + "\n").classes, f"no quotation: {name}")


def test_where_it_failed(t, unhang):
    """RIP names the function that crashed, whatever the work queue's function was; and a broken line of a fault is the fault's."""
    crash = log("""
10.0 general protection fault, probably for non-canonical address 0x5f080b54534f611f: 0000 [#1] SMP NOPTI
10.1 CPU: 16 PID: 3935 Comm: kworker/u448:9 Tainted: G           OE     5.15.0-91-generic #101-Ubuntu
10.2 Workqueue: amdgpu-reset-hive amdgpu_ras_do_recovery [amdgpu]
10.3 RIP: 0010:amdgpu_device_gpu_recover.cold+0xbf1/0xcf5 [amdgpu]
10.4 Call Trace:
10.5  amdgpu_ras_do_recovery+0x1b2/0x210 [amdgpu]""")
    title = unhang.explain_text(crash).first.data["cause"]["title"]
    t.ok("crashed in amdgpu_device_gpu_recover" in title, "the function at RIP", title)
    torn = log(f"10.0 @  for process python3 pid 133736 thread python3 pid 133736)\n10.0 @   in page starting at address 0x00007ef24d5fd000 from IH client 0x1b (UTCL2)\n"
               "10.0 @ VM_L2_PROTECTION_FAULT_STATUS:0x00341051")
    title = unhang.explain_text(torn).first.data["cause"]["title"]
    t.ok("python3 (133736)" in title, "a fault whose first line is broken keeps its program", title)
    old = unhang.explain_text("[   75.326755] kfd kfd: amdgpu: PITCAIRN  not supported in kfd\n").first.data["action"]["text"]
    t.ok("(PITCAIRN) cannot run ROCm" in old, "a part without ROCm: Now says so", old)


def test_no_ras_error(t, unhang):
    """A count of none is not listed as an error either; what a sleeping GPU reads as is told once, as no error."""
    for count, told in (("0", []), ("1048560", ["ras-asleep"]), ("no", [])):
        answer = unhang.explain_text(log(f"10.0 @ {count} uncorrectable hardware errors detected in umc block\n11.0 @ {count} correctable hardware errors detected in umc block"))
        t.same((answer.classes, [n["event"] for n in answer.document["notes"]]), ([], told), f"{count} errors: none of them is one")
    t.same(unhang.explain_text(log("10.0 @ 3 uncorrectable hardware errors detected in umc block")).classes, ["ras-uncorrectable-error"], "3 are an incident")


def test_status_without_fields(t, unhang):
    bare = unhang.explain_text(log(fault(10.0, 0x7F0000001000, 0x301031, fields=False)))
    t.ok("printed fields" not in json.dumps(bare.first.data), "a status beside no fields agrees with none")


# --- the user's own knowledge ---

OWN = """
class house-alarm  the house is on fire
event fire
    title  fire
    say    room {room} burns | at {degrees} degrees
    opens  yes
signature fire-alarm
    event      fire
    subsystem  driver
    level      error
    match      smoke detector in {room} reports {degrees:int} C
cause house-alarm
    from       fire
    when       degrees > 60
    stage      hardware
    confidence 90
    severity   5
    fault      node
    title      The {room} is on fire
    explain    Leave.
    next       Look :: cat /dev/smoke
"""


def test_user_knowledge(t, unhang):
    line = "[  100.000000] smoke detector in kitchen reports 71 C\n"
    t.same(unhang.explain_text(line).classes, [], "what nobody knows is not found")
    unhang.know("own.know", OWN)
    answer = unhang.explain_text(line)
    t.no_complaints(answer.complaints, "own knowledge: well-formed")
    t.same((answer.stderr, answer.classes, answer.first.value("room"), answer.first.value("degrees")), ("", ["house-alarm"], "kitchen", 71), "own signature, event and cause are found")
    t.same(answer.first.cause.get("title"), "The kitchen is on fire", "with their title")
    t.same(unhang.explain_text(line.replace("71", "20")).classes, [], "and their condition")
    filler = "[    5.000000] usb 1-4: new high-speed USB device number 9 using xhci_hcd\n"
    big = filler * 20000 + line + filler * 2000
    answer = unhang.explain_text(big)
    t.same((answer.classes, [e["at"]["line"] for e in answer.first.timeline]), (["house-alarm"], [20001]), f"also in {len(big) // 1000000} MB, where only anchors are looked for")
    answer = unhang.explain("-", stdin=big)
    t.same(answer.classes, ["house-alarm"], "and from a pipe")
    unhang.know("own.know", OWN + """
signature ring-timeout
    event      fire
    subsystem  ring
    level      error
    set        degrees 99
    match      ring {room} timeout, signaled seq={:int}, emitted seq={:int}
""")
    ring = unhang.explain_text(log("10.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"))
    t.same((ring.stderr, [e["event"] for e in ring.first.timeline]), ("", ["fire"]), "a later block with the same id replaces the earlier one")
    broken = OWN + "\nsignature bad\n    event no-such-event\n    subsystem driver\n    level error\n    match x {y:nonsense} z\n"
    path = unhang.know("own.know", broken)
    first = broken[:broken.index("signature bad")].count("\n") + 1
    answer = unhang.explain_text(line)
    t.ok(re.search(rf"{re.escape(str(path))}:({first}|{first + 1}|{first + 4}|{first + 2})\b", answer.stderr), "a mistake in an own file is told with its line", answer.stderr)
    t.same(answer.classes, ["house-alarm"], "and the rest of the file counts")
    t.same(unhang.explain_text(log(fault(10.0, 0x7f0000001000, status_of(8, 3)))).classes, ["gpu-page-fault-unmapped"], "and everything else works")
    unhang.know("own.know", "\x00\xff not a knowledge file at all {{{\n  \t match match\n")
    answer = unhang.explain_text(log(fault(10.0, 0x7f0000001000, status_of(8, 3))))
    t.ok(answer.classes == ["gpu-page-fault-unmapped"] and ":1:" in answer.stderr, "nor does rubbish in an own file stop it", answer.stderr)
    path.unlink()


def test_begins_in_reset(t, unhang):
    """A log that ends a reset and did not begin it begins inside of it: what mostly is a by-product is not called the cause."""
    tail, timeout = "100.0 @ \t PERMISSION_FAULTS: 0x3\n", "100.0 @ ring sdma0 timeout, signaled seq=1, emitted seq=2\n"
    wave = "100.0 @ sq_intr: error, se 0, data 0x2, sh 0, priv 0, wave_id 1, simd_id 0, cu_id 3, err_type 2\n"
    begin, end = "100.5 @ GPU reset begin!\n", "101.0 @ GPU reset(1) succeeded!\n"
    kernel, empty, full = (fault(100, 0, status, vmid) for status, vmid in ((status_of(5, 5, vmid=0), 0), (0, 4), (status_of(8, 3), 4)))
    words = [f"100.0 @ GCVM_L2_PROTECTION_FAULT_STATUS:0x{status:08X}\n" for status in (0, status_of(8, 3))]
    for name, text, wanted in (("the rest of a fault, and a reset's end", tail + end, True), ("the rest of a fault alone", tail, False),
                               ("the rest of a fault, and a whole reset", tail + begin + end, False), ("a ring's timeout, and a reset's end", timeout + end, False),
                               ("a wave's error, and a reset's end", wave + end, False), ("a fault of the driver, and a reset's end", kernel + end, True),
                               ("a fault of the driver, and a whole reset", kernel + begin + end, False), ("a fault of a program, and a reset's end", full + end, False),
                               ("an empty fault of a program, and a reset's end", empty + end, False), ("an empty word of a fault, and a reset's end", words[0] + end, True),
                               ("a word of a fault, and a reset's end", words[1] + end, False),  ("a timeout inside of a reset", "99.0 @ MODE1 reset\n" + timeout + end, True)):
        a = unhang.explain_text(log(text))
        t.same([i.cause["before_log"] for i in a.incidents], [wanted], f"the cause is {'earlier than' if wanted else 'in'} the log: {name}")
    for name, text, wanted in (("of the driver", kernel, "effect"), ("of a program", full, "cause")):
        a = unhang.explain_text(log(text + "100.3 @ MODE1 reset\n" + end)).first
        t.same([e["role"] for e in a.events("page-fault")], [wanted], f"a fault {name} before the rest of a reset is its {wanted}")


def test_firmware(t, unhang):
    """A firmware file that is missing matters only where the GPU did not start."""
    missing = "3.0 amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_me.bin failed with error -2\n"
    refused = "3.0 amdgpu 0000:03:00.0: probe with driver amdgpu failed with error -22\n"
    ready = "4.0 amdgpu 0000:{}:00.0: amdgpu: SMU is initialized successfully!\n"
    for name, text, wanted in (("alone", missing, 1), ("and the GPU started", missing + ready.format("03"), 0), ("and another GPU started", missing + ready.format("43"), 1),
                               ("and a GPU without a name started", missing + "4.0 [drm] ring gfx_0.0.0 uses VM inv eng 0 on hub 0\n", 0),
                               ("and it started, in a line without its name", missing.replace("amdgpu 0000:03:00.0: ", "") + ready.format("03"), 0),
                               ("not the firmware, and the GPU started", refused + ready.format("03"), 1)):
        t.same(unhang.explain_text(log(text)).classes, ["gpu-init-failed"] * wanted, f"firmware is missing: {name}")


def test_numbers(t, unhang):
    """Numbers of knowledge files have bounds: what is outside is told with its line and not taken."""
    for number, good in (("0", True), ("1", True), ("999", True), ("1000", True), ("1001", False), ("-1", False), ("many", False), ("1x", False), ("99999999999999999999", False)):
        run = unhang.run("knowledge", "check", unhang.write("number.know", f"event fire\n    title fire\n    keep {number}\n"))
        said = run.stderr.decode()
        t.ok((run.returncode == 0 and not said) if good else (run.returncode == tap.CANNOT and ":3: 'keep' needs a number" in said),
             f"knowledge check: the number {number}", f"status {run.returncode}: {said}")


def test_check(t, unhang):
    good = unhang.write("good.know", OWN)
    run = unhang.run("knowledge", "check", good)
    t.ok(run.returncode == 0 and not run.stderr, "knowledge check: a good file", run.stderr)
    run = unhang.run("knowledge", "check", "--json", good)
    t.ok(run.returncode == tap.CANNOT and b"'--json'" in run.stderr and not run.stdout, "knowledge check: refuses --json", run.stderr)
    run = unhang.run("knowledge", "check", unhang.write("good\x1b[31m.know", OWN))
    t.ok(run.returncode == 0 and b"\x1b" not in run.stdout, "knowledge check: a file's name is shown safely", run.stdout)
    bad = {
        "unknown kind": ("thing x\n    match y\n", 1),
        "unknown key": ("event fire\n    title fire\n    colour red\n", 3),
        "unknown event": ("\nsignature s\n    event nothing\n    subsystem ring\n    level error\n    match abc def\n", 2),
        "unknown type": ("signature s\n    event ring-timeout\n    subsystem ring\n    level error\n    match abc {x:float} def\n", 5),
        "brace that is not closed": ("signature s\n    event ring-timeout\n    subsystem ring\n    level error\n    match abc {x def\n", 5),
        "unknown class": ("remedy r\n    kind cure\n    title t\n    for no-such-class\n    do x\n    grade A\n    source s\n", 1),
        "bad condition": ("remedy r\n    kind cure\n    title t\n    for gfx-ring-timeout\n    when gfx gfx1100\n    do x\n    grade A\n    source s\n", 5),
        "remedy without a source": ("remedy r\n    kind cure\n    title t\n    for gfx-ring-timeout\n    do x\n    grade A\n", 1),
        "bad level": ("signature s\n    event ring-timeout\n    subsystem ring\n    level horrible\n    match abc def\n", 4),
        "key outside of a block": ("    match abc\n", 1),
        "bad grade": ("remedy r\n    kind cure\n    title t\n    for gfx-ring-timeout\n    do x\n    grade Z\n    source s\n", 6),
    }
    for name, (text, line) in bad.items():
        path = unhang.write("bad.know", text)
        run = unhang.run("knowledge", "check", path)
        stderr = run.stderr.decode(errors="replace")
        lines = [int(n) for n in re.findall(rf"^{re.escape(str(path))}:(\d+): .", stderr, re.M)]
        t.ok(run.returncode == tap.CANNOT and line in lines, f"knowledge check: {name}", f"status {run.returncode}, wanted line {line}\n{stderr}")
    run = unhang.run("knowledge", "check", unhang.directory / "absent.know")
    t.ok(run.returncode == tap.CANNOT and b"absent.know" in run.stderr, "knowledge check: a file that is not there", run.stderr)
    run = unhang.run("knowledge", "check", good, unhang.write("bad.know", bad["unknown kind"][0]))
    t.ok(run.returncode == tap.CANNOT, "knowledge check: one of two files is bad", run.stdout)


def test_text_report(t, unhang):
    """The first screen: what happened, where, what to do, and in which line."""
    path = unhang.write("dmesg.txt", boot() + log(fault(45755.103, 0x7f3a00001000, status_of(8, 3)) + "45766.6 @ MES failed to respond to msg=REMOVE_QUEUE\n" + reset(45767.0)))
    run = unhang.run("explain", path)
    text = run.stdout.decode()
    t.same(run.returncode, 1, "text: status 1 with an incident")
    for want in ("python", "4242", "0x7f3a00001000", GPU, "Radeon RX 7900 XTX", "MODE1", "cause", "effect", "Now", "Why", "Confidence", "Try", "Next", "REMOVE_QUEUE"):
        t.ok(want in text, f"text: {want}", text)
    t.ok(re.search(r"\[(line |dmesg\.txt:)7\]", text), "text: the line of the cause", text)
    t.ok("\x1b" not in text, "text: no colours where there is no terminal", text)
    hostile = unhang.write("hostile.txt", log("10.0 @ Process information: process \x1b]0;evil\x07\x1b[31mred pid 7 thread x pid 8\n10.1 @ ring gfx\x1b[2J_0 timeout, signaled seq=1, emitted seq=2"))
    run = unhang.run("explain", "--verbose", hostile)
    t.ok(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", run.stdout), "text: escape sequences of the evidence do not reach the terminal", run.stdout)
    run = unhang.run("explain", unhang.directory / "nowhere.txt", path)
    t.ok(run.returncode == 1 and b"nowhere.txt" in run.stderr and b"python" in run.stdout, "one source that is not there: a line for it, and the diagnosis of the other", run.stderr)
    run = unhang.run("explain", unhang.directory / "nowhere.txt")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "no source at all: status 2 and one line", run.stderr)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    tap.parse_knowledge(unhang)
    for test in (test_cases, test_fault_status, test_faults_of_processes, test_names_of_strangers, test_precedence, test_incidents, test_remedies, test_few_remedies, test_edges, test_machine, test_quiet, test_quotations, test_where_it_failed, test_no_ras_error, test_status_without_fields, test_begins_in_reset, test_firmware, test_user_knowledge, test_numbers, test_check, test_text_report):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
