#!/usr/bin/env python3
"""What programs and runtimes print when a GPU fails them: the class and facts of each message, the prefixes of those who
write into one log, NVIDIA's and healthy texts, what the ranks of a job say together, and what is advised."""
import json
import sys

import tap

AGENT = "0x55d0a1b2c3d0"
REASON = "Page not present or supervisor privilege"


def fault(node=3, address="0x7f12a4c00000", reason=REASON, agent=AGENT):
    """The HSA runtime's line."""
    return f"Memory access fault by GPU node-{node} (Agent handle: {agent}) on address {address}. Reason: {reason}."


def hang(node=3):
    return f"HW Exception by GPU node-{node} (Agent handle: {AGENT}) reason :GPU Hang"


def aborted(status, text, code, more=""):
    """HIP's line about a queue."""
    return f":0:rocdevice.cpp            :2984: 6545699276902 us: [pid:1961 tid:0x7f2301dff640] Callback: Queue 0x7f21e0400000 aborting with error : {status}: {text} code: {code}{more}"


def torch(error, first="RuntimeError: HIP error"):
    return f"""Traceback (most recent call last):
  File "/srv/train.py", line 88, in <module>
    loss.item()
{first}: {error}
HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing AMD_SERIALIZE_KERNEL=3
Compile with `TORCH_USE_HIP_DSA` to enable device-side assertions.
"""


def watchdog(rank, seq, time="07:41:02.114", op="ALLREDUCE"):
    return (f"[rank{rank}]:[E512 {time}553120 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600{rank:03} milliseconds before timing out.")


def status(rank, seq, enqueued, completed, time="07:41:02.310"):
    return (f"[rank{rank}]:[E512 {time}553120 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work "
            f"sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}")


ROCM = "INFO 05-12 07:30:00 [__init__.py:239] Automatically detected platform rocm.\n"

# name: log, class, facts as value or (value, line).
# A process that the kernel kills is a GPU matter only where something names an AMD GPU.
AMDGPU = "[    5.000000] [drm] amdgpu kernel modesetting enabled.\n"
CASES = {
    # --- memory ---
    "fault, not mapped": dict(
        log="step 100\n" + fault(), cls="gpu-page-fault-unmapped", fault="job",
        facts=dict(gpu_node=(3, 2), fault_address=("0x7f12a4c00000", 2), agent=(AGENT, 2), fault_reason=(REASON, 2))),
    "fault, oldest form": dict(
        log=f"Memory access fault by GPU node-1 on address 0x7f5500001000(may not be exact address). Reason: {REASON}.", cls="gpu-page-fault-unmapped",
        facts=dict(gpu_node=(1, 1), fault_address=("0x7f5500001000", 1), fault_reason=REASON)),
    "fault, address not exact": dict(
        log=f"Memory access fault by GPU node-2 (Agent handle: {AGENT}) on address 0x7f5500001000(may not be exact address). Reason: {REASON}.",
        cls="gpu-page-fault-unmapped", facts=dict(gpu_node=2, fault_address="0x7f5500001000", fault_reason=REASON)),
    "fault, kernel named by HIP": dict(
        log="ready\n:0:rocdevice.cpp            :3678: 7262982208 us:  Memory Fault Error [host: node07, GPU index: 5, faulting addr: 0x7f8811223000, kernel: scatter_rows(float*, int)]",
        cls="gpu-page-fault-unmapped", facts=dict(host=("node07", 2), gpu_index=(5, 2), fault_address=("0x7f8811223000", 2), kernel_name=("scatter_rows(float*, int)", 2))),
    "fault, HIP on an older build": dict(
        log=":0:rocdevice.cpp            :3678: 7262982208 us:  Memory Fault Error [GPU index: 0, faulting addr: 0x7f8811223000, kernel: <not identified>]",
        cls="gpu-page-fault-unmapped", facts=dict(gpu_index=0, fault_address="0x7f8811223000")),
    "fault, OpenMP": dict(
        log=f"OFFLOAD ERROR: memory access fault by GPU 4 (agent {AGENT}) at virtual address 0x7f0010002000. Reasons: Page not present or supervisor privilege, Write access to a read-only page",
        cls="gpu-page-fault-unmapped", facts=dict(gpu_node=(4, 1), fault_address=("0x7f0010002000", 1), agent=AGENT)),
    "fault, queue's warning alone": dict(log="Warning: Queue error - HSA_STATUS_ERROR_MEMORY_FAULT", cls="gpu-page-fault-unmapped"),
    "fault, queue": dict(
        log=aborted("HSA_STATUS_ERROR_MEMORY_FAULT", "Agent attempted to access an inaccessible address.", "0x2b"), cls="gpu-page-fault-unmapped",
        facts=dict(hsa_status=("HSA_STATUS_ERROR_MEMORY_FAULT", 1), hsa_code="0x2b", queue="0x7f21e0400000")),
    "fault, PyTorch's exception": dict(
        log=torch("an illegal memory access was encountered"), cls="gpu-page-fault-unmapped", facts=dict(hip_error=("hipErrorIllegalAddress", 4))),
    "fault, PyTorch with CUDA's name": dict(
        log=torch("an illegal memory access was encountered", "torch.AcceleratorError: CUDA error"), cls="gpu-page-fault-unmapped", facts=dict(hip_error=("hipErrorIllegalAddress", 4))),
    "null pointer, nil": dict(
        log=fault(address="(nil)"), cls="gpu-null-pointer-fault", fault="job", facts=dict(gpu_node=(3, 1), fault_address=("0x0", 1), fault_reason=REASON)),
    "null pointer, small offset": dict(log=fault(address="0x2000"), cls="gpu-null-pointer-fault", facts=dict(fault_address=("0x2000", 1))),
    "null pointer, OpenMP": dict(
        log=f"OFFLOAD ERROR: memory access fault by GPU 1 (agent {AGENT}) at virtual address (nil). Reasons: {REASON}", cls="gpu-null-pointer-fault", facts=dict(gpu_node=1, fault_address="0x0")),
    "write to a read-only page": dict(
        log="a\nb\n" + fault(5, "0x7f9a00042000", "Write access to a read-only page"), cls="gpu-page-fault-readonly-write", fault="job",
        facts=dict(gpu_node=(5, 3), fault_address=("0x7f9a00042000", 3), fault_reason=("Write access to a read-only page", 3))),
    "aperture": dict(
        log=aborted("HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", "The agent attempted to access memory beyond the largest legal address.", "0x29"),
        cls="memory-aperture-violation", facts=dict(hsa_status=("HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", 1), hsa_code=("0x29", 1), queue="0x7f21e0400000")),
    # --- exceptions ---
    "illegal instruction": dict(
        log=aborted("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", "The agent attempted to execute an illegal shader instruction.", "0x2a"),
        cls="illegal-opcode-or-instruction", facts=dict(hsa_status=("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", 1), hsa_code=("0x2a", 1))),
    "illegal instruction, ROCm 4": dict(
        log="Device::callbackQueue aborting with error : HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: The agent attempted to execute an illegal shader instruction. code: 0x2a",
        cls="illegal-opcode-or-instruction", facts=dict(hsa_code="0x2a")),
    "illegal instruction, ROCm 3": dict(
        log=":0:rocdevice.cpp:1939: Device::callbackQueue aborting with status: 0x2a", cls="illegal-opcode-or-instruction", facts=dict(hsa_status=("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", 1))),
    "two LLVMs in one process": dict(
        log=": CommandLine Error: Option 'h' registered more than once!\nLLVM ERROR: inconsistency in registered CommandLine options\n", cls="gpu-library-failed", facts=dict(llvm_option="h")),
    "an assertion of the runtime's pool": dict(
        log="app: /src/clr/hipamd/src/hip_mempool_impl.cpp:210: void hip::Heap::Free(): Assertion `it != end' failed.\n", cls="gpu-library-failed", facts=dict(assertion="it != end")),
    "a kernel with too much scratch": dict(
        log="Scratch size (262144) exceeds max allowed (131056) for kernel : solve(double*)\n", cls="wrong-isa", facts=dict(wanted_bytes=262144, limit_bytes=131056)),
    "packet of no known kind": dict(
        log=aborted("HSA_STATUS_ERROR_INVALID_PACKET_FORMAT", "The AQL packet is malformed.", "0x1009"), cls="hsa-queue-exception", facts=dict(hsa_code="0x1009")),
    "queue exception": dict(
        log="ok\n" + aborted("HSA_STATUS_ERROR_EXCEPTION", "An HSAIL operation resulted in a hardware exception.", "0x1016"), cls="hsa-queue-exception",
        facts=dict(hsa_status=("HSA_STATUS_ERROR_EXCEPTION", 2), hsa_code=("0x1016", 2), queue=("0x7f21e0400000", 2))),
    "queue exception, kernel named": dict(
        log=aborted("HSA_STATUS_ERROR_EXCEPTION", "An HSAIL operation resulted in a hardware exception.", "0x1016", " [host: n1, GPU index: 6, kernel: gather_tokens(long*)]"),
        cls="hsa-queue-exception", facts=dict(host="n1", gpu_index=6, kernel_name="gather_tokens(long*)")),
    "device assert": dict(log=torch("device-side assert triggered"), cls="hsa-queue-exception", facts=dict(hip_error=("hipErrorAssert", 4))),
    "launch failure": dict(log=torch("unspecified launch failure"), cls="hsa-queue-exception", facts=dict(hip_error=("hipErrorLaunchFailure", 4))),
    "HIP error of another kind": dict(log=torch("invalid resource handle"), cls="hsa-queue-exception", facts=dict(hip_text=("invalid resource handle", 4))),
    "hang": dict(log="a\n" + hang(7), cls="gpu-hang-hw-exception", facts=dict(gpu_node=(7, 2), agent=(AGENT, 2), fault_reason=("GPU Hang", 2))),
    "hang, typed by hand": dict(log=hang(7).replace(" :", ": "), cls="gpu-hang-hw-exception", facts=dict(gpu_node=7)),
    "hang, new plugin": dict(log="KFD: hardware exception on GPU node 2 (reset_type:1 cause:0 memory_lost:1)", cls="gpu-hang-hw-exception", facts=dict(gpu_node=(2, 1))),
    "ECC exception": dict(log=f"HW Exception by GPU node-6 (Agent handle: {AGENT}) reason :ECC", cls="ras-uncorrectable-error", fault="node", facts=dict(gpu_node=(6, 1), fault_reason=("ECC", 1))),
    "ECC by the fault's reason": dict(log=fault(4, "0x7f0000300000", "DRAM ECC failure"), cls="ras-uncorrectable-error", facts=dict(gpu_node=(4, 1), fault_reason=("DRAM ECC failure", 1))),
    "ECC by HIP": dict(log="RuntimeError: HIP error: uncorrectable ECC error encountered", cls="ras-uncorrectable-error", facts=dict(hip_error=("hipErrorECCNotCorrectable", 1))),
    # --- code for another GPU ---
    "no binary, ROCm 5": dict(
        log='"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"\nAborted (core dumped)', cls="wrong-isa", facts=dict(hip_error=("hipErrorNoBinaryForGpu", 1))),
    "no binary, PyTorch": dict(log=torch("invalid device function"), cls="wrong-isa", fault="job", facts=dict(hip_error=("hipErrorInvalidDeviceFunction", 4))),
    "no binary, llama.cpp": dict(
        log="ggml_cuda_init: found 1 ROCm devices:\n  Device 0: AMD Radeon Graphics, gfx1103 (0x1103), VMM: no, Wave Size: 32\nggml_cuda_compute_forward: MUL_MAT failed\n"
            "ROCm error: invalid device function\n  current device: 0, in function ggml_cuda_compute_forward at /src/ggml/src/ggml-cuda/ggml-cuda.cu:2488\n  err",
        cls="wrong-isa", facts=dict(hip_error=("hipErrorInvalidDeviceFunction", 4), function=("ggml_cuda_compute_forward", 5), source_line=(2488, 5), gpu_index=(0, 5))),
    "no Tensile library": dict(
        log="rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1103", cls="wrong-isa", facts=dict(gfx_missing=("gfx1103", 1))),
    "MIOpen cannot compile": dict(
        log="MIOpen(HIP): Error [BuildHip] HIPRTC status = HIPRTC_ERROR_COMPILATION (6), source file: gemm_tile.cpp\n"
            "MIOpen Error: /src/MIOpen/src/hipoc/hipoc_program.cpp:301: Code object build failed. Source: gemm_tile.cpp\nRuntimeError: miopenStatusUnknownError",
        cls="wrong-isa", fault="job", facts=dict(compile_error=("HIPRTC_ERROR_COMPILATION", 1))),
    "MIOpen lacks a header": dict(
        log="MIOpen(HIP): Error [BuildHip] HIPRTC status = HIPRTC_ERROR_COMPILATION (6), source file: gemm_tile.cpp\n"
            "MIOpen(HIP): Warning [BuildHip] /tmp/comgr-1234/input/gemm_tile.cpp:12:10: fatal error: 'vector' file not found\n", cls="wrong-isa", facts=dict(missing_header=("vector", 2))),
    "OpenCL cannot compile": dict(log="1 error generated.\nError: Failed to compile source (from CL or HIP source to LLVM IR).\n", cls="wrong-isa", facts=dict(builder=("The runtime", 2))),
    "hipBLAS refuses a product": dict(
        log=ROCM + "RuntimeError: CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `HIPBLAS_STATUS_NOT_SUPPORTED`\n", cls="wrong-isa", fault="job", facts=dict(backend="hipblaslt")),
    "hipBLAS fails": dict(log=ROCM + "RuntimeError: CUDA error: HIPBLAS_STATUS_INTERNAL_ERROR when calling `hipblasSgemm( handle, opa, opb )`\n", cls="hsa-queue-exception",
                          facts=dict(hip_text="HIPBLAS_STATUS_INTERNAL_ERROR")),
    "hipBLAS has no memory": dict(log=ROCM + "RuntimeError: CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`\n", cls="vram-exhaustion"),
    "llama.cpp, BLAS refuses": dict(log="ROCm error: CUBLAS_STATUS_NOT_SUPPORTED\n  current device: 0, in function ggml_cuda_op_mul_mat_cublas at /src/ggml-cuda.cu:1334\n", cls="wrong-isa"),
    # --- memory that ran out ---
    "HIP out of memory": dict(
        log=ROCM + "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 12.50 GiB. GPU 3 has a total capacity of 191.98 GiB of which 7.21 GiB is free. Of the allocated memory 180.00 GiB is allocated by PyTorch.",
        cls="vram-exhaustion", fault="job", facts=dict(gpu_index=(3, 2), wanted=("12.50", 2), wanted_unit=("GiB", 2), capacity=("191.98", 2), free=("7.21", 2))),
    "HIP out of memory, old PyTorch": dict(
        log="RuntimeError: HIP out of memory. Tried to allocate 20.00 MiB (GPU 1; 15.98 GiB total capacity; 14.02 GiB already allocated; 18.00 MiB free; 14.10 GiB reserved in total by PyTorch)",
        cls="vram-exhaustion", facts=dict(gpu_index=(1, 1), wanted="20.00", capacity="15.98", free="18.00")),
    "llama.cpp out of memory": dict(
        log="ggml_cuda_init: found 1 ROCm devices:\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory", cls="vram-exhaustion"),
    "vLLM without room for its cache": dict(
        log=ROCM + "ERROR 05-12 07:30:41 [core.py:396] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", cls="vram-exhaustion"),
    "host out of memory": dict(
        log=AMDGPU + "[ 9120.114203] Memory cgroup out of memory: Killed process 33811 (python3) total-vm:90123456kB, anon-rss:62914560kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:140000kB oom_score_adj:0",
        cls="host-oom", facts=dict(pid=(33811, 2), process=("python3", 2), anon_rss=("62914560kB", 2))),
    "host out of memory, with its constraint": dict(
        log=AMDGPU + "[ 9120.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c0,mems_allowed=0-1,oom_memcg=/system.slice/docker-4f.scope,task_memcg=/system.slice/docker-4f.scope,task=python3,pid=33811,uid=0\n"
            "[ 9120.2] Memory cgroup out of memory: Killed process 33811 (python3) total-vm:90123456kB, anon-rss:62914560kB, file-rss:1024kB, shmem-rss:0kB, UID:0",
        cls="host-oom", facts=dict(oom_constraint=("CONSTRAINT_MEMCG", 2), oom_cgroup=("/system.slice/docker-4f.scope", 2), pid=33811)),
    "host out of memory, container": dict(
        log=json.dumps([{"Id": "4f" * 32, "Name": "/trainer", "State": {"Status": "exited", "Running": False, "ExitCode": 137, "OOMKilled": True, "Error": "", "FinishedAt": "2026-05-12T07:41:02.5Z"},
                         "HostConfig": {"Memory": 68719476736}, "Config": {"Image": "rocm/pytorch:latest"}}]),
        cls="host-oom", facts=dict(container="trainer", exit_code=137, memory_limit=68719476736)),
    # --- collectives ---
    "collective timeout": dict(
        log=ROCM + watchdog(3, 4711, op="_ALLGATHER_BASE"), cls="collective-timeout",
        facts=dict(rank=(3, 2), seq=(4711, 2), collective=("_ALLGATHER_BASE", 2), timeout_ms=(600000, 2), ran_ms=(600003, 2), numel=(4096, 2))),
    "collective timeout, PyTorch 1": dict(
        log="libtorch_hip.so loaded\n[E ProcessGroupNCCL.cpp:566] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800222 milliseconds before timing out.",
        cls="collective-timeout", facts=dict(group_rank=(5, 2), seq=(88, 2), collective=("BROADCAST", 2), timeout_ms=1800000)),
    "watchdog itself stuck": dict(
        log=ROCM + "[rank1]:[F512 07:41:02.114553120 ProcessGroupNCCL.cpp:1554] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
        cls="collective-timeout", facts=dict(rank=(1, 2), stuck_seconds=(480, 2))),
    "desync": dict(
        log=ROCM + "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [2, 5] joined but didn't finish collective #17 (count from 1)",
        cls="collective-timeout", facts=dict(lagging=("2, 5", 3), seq=(17, 3))),
    "network": dict(
        log="RCCL version 2.22.3+hip6.4\nnode04:811:902 [2] /build/rccl/src/transport/net_ib.cc:1412 NCCL WARN NET/IB : Got completion from peer 10.0.8.7<44102> with status=12 opcode=0 len=0 vendor err 129 (Send)",
        cls="collective-timeout", facts=dict(peer=("10.0.8.7<44102>", 2), pid=(811, 2), host=("node04", 2))),
    "RCCL's advice about the IOMMU": dict(
        log="node04:811:811 [0] NCCL INFO Bootstrap\nnode04:811:811 [0] /build/rccl/src/init.cc:120 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
        cls="iommu-dma-fault", fault="node", facts=dict(missing_parameter=("iommu=pt", 2), pid=(811, 2), host=("node04", 2))),
    # --- the rest ---
    "no device": dict(log="RuntimeError: No HIP GPUs are available", cls="kfd-unavailable", fault="node", facts=dict(hip_error=("hipErrorNoDevice", 1))),
    "no device, permission": dict(log="loading\nUnable to open /dev/kfd read-write: Permission denied\nmika is not member of \"render\" group, the default DRM access group.",
                                  cls="kfd-unavailable", facts=dict(errno_text=("Permission denied", 2))),
    "no device, strace": dict(log='openat(AT_FDCWD, "/dev/kfd", O_RDWR|O_CLOEXEC) = -1 EACCES (Permission denied)', cls="kfd-unavailable", facts=dict(errno=("EACCES", 1), errno_text="Permission denied")),
    "no device, HSA": dict(log="hsa api call failure at: /src/rocminfo.cc:1282\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.",
                           cls="kfd-unavailable", facts=dict(hsa_status=("HSA_STATUS_ERROR_OUT_OF_RESOURCES", 2))),
    "launch timed out": dict(log=torch("the launch timed out and was terminated"), cls="long-running-dispatch-timeout", facts=dict(hip_error=("hipErrorLaunchTimeOut", 4))),
    "DXVK": dict(log="err:   DXVK: Hang detected\nerr:   Last command completed: 201\nerr:   Last command started: 204", cls="long-running-dispatch-timeout",
                 facts=dict(last_completed=(201, 2), last_started=(204, 3))),
    "context lost, llama.cpp": dict(
        log="ggml_cuda_init: found 1 ROCm devices:\nROCm error: unspecified launch failure\n  current device: 0, in function ggml_backend_cuda_synchronize at ggml-cuda.cu:2610",
        cls="context-lost-after-reset", facts=dict(hip_error=("hipErrorLaunchFailure", 2))),
    "context lost, Vulkan": dict(log="AMD Radeon RX 7900 XTX (RADV NAVI31)\nerr: vkQueueSubmit: VK_ERROR_DEVICE_LOST", cls="context-lost-after-reset"),
    "server stuck, SGLang": dict(log="ROCm version: 7.0\n[2026-05-12 07:41:02 TP0] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)", cls="silent-hang",
                                 facts=dict(watchdog_seconds=(300, 2), rank=(0, 2))),
    "server stuck, vLLM": dict(log=ROCM + "(EngineCore_DP0 pid=900) INFO 05-12 07:41:02 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging.",
                               cls="silent-hang", facts=dict(watchdog_seconds=(60, 2), worker="EngineCore_DP0", pid=900)),
    "fault, XLA": dict(
        log="jax.errors.JaxRuntimeError: INTERNAL: Failed to launch ROCm kernel: fusion_7 with block dimensions: 256x1x1: ROCM_ERROR_ILLEGAL_ADDRESS",
        cls="gpu-page-fault-unmapped", facts=dict(hip_error="hipErrorIllegalAddress")),
    "scratch did not fit": dict(
        log=":0:rocdevice.cpp            :3006: 70112233445 us:  Callback: Queue 0x7f21e0400000 Aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. Code: 0x1008 Available Free mem : 112 MB",
        cls="vram-exhaustion", facts=dict(hsa_status=("HSA_STATUS_ERROR_OUT_OF_RESOURCES", 1), free_mb=(112, 1), hsa_code="0x1008")),
    "host out of memory, Slurm": dict(
        log="slurmstepd: error: Detected 2 oom_kill events in StepId=8812.0. Some of the step tasks have been OOM Killed.", cls="host-oom", facts=dict(oom_kills=(2, 1))),
    "host out of memory, Slurm, one": dict(
        log="slurmstepd: error: Detected 1 oom_kill event in StepId=8812.0. Some of the step tasks have been OOM Killed.", cls="host-oom", facts=dict(oom_kills=(1, 1))),
    "host out of memory, kubectl describe": dict(log="    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137", cls="host-oom"),
    "HIP out of memory, with the typing error of PyTorch 2.1": dict(
        log="torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 12.50 GiB. GPU 3 has a total capacty of 191.98 GiB of which 7.21 GiB is free.",
        cls="vram-exhaustion", facts=dict(gpu_index=(3, 1), wanted="12.50", capacity="191.98", free="7.21")),
    "null pointer that is told as ECC": dict(log=fault(address="(nil)", reason="SRAM ECC failure"), cls="gpu-null-pointer-fault"),
}


def wrong(answer, want):
    """What is not as @want says."""
    i, out = answer.first, list(answer.complaints)
    if answer.classes != [want["cls"]]:
        out.append(f"classes {answer.classes}, wanted {want['cls']}")
    if want.get("fault", i.data["action"]["fault"]) != i.data["action"]["fault"]:
        out.append(f"fault {i.data['action']['fault']}, wanted {want['fault']}")
    for name, value in want.get("facts", {}).items():
        value, line = value if isinstance(value, tuple) else (value, None)
        found = [(f["value"], f["at"]["line"]) for f in i.data["facts"] if f["name"] == name]
        if not any(str(v) == str(value) and line in (None, at) for v, at in found):
            out.append(f"{name}: {found}, wanted {value!r}" + f" at line {line}" * (line is not None))
    return out


def test_classes(t, unhang):
    for name, want in tap.some(unhang, CASES.items()):
        t.no_complaints(wrong(unhang.explain_text(want["log"] + "\n"), want), f"class: {name}")


def test_told_part(t, unhang):
    """What a program says that it runs on decides which remedies fit; of two targets neither counts."""
    missing = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1032\n"
    invalid = "ROCm error: invalid device function\n"
    device = "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: AMD Radeon Graphics, gfx1032 (0x1032), VMM: no, Wave Size: 32\n"
    other = "  Device 1: AMD Radeon Graphics, gfx1100 (0x1100), VMM: no, Wave Size: 32\n"
    for name, text, gfx in (("llama.cpp", device + invalid, "gfx1032"), ("Ollama", 'msg="amdgpu is supported" gpu=0 gpu_type=gfx1032\n' + invalid, "gfx1032"),
                            ("PyTorch's report", "GPU models and configuration: AMD Radeon Graphics (gfx1032)\n" + invalid, "gfx1032"),
                            ("two devices", device + other + invalid, None), ("a list of targets", "built for gfx1030, gfx1032\n" + invalid, None)):
        a = unhang.explain_text(text)
        t.same([g["gfx"] for g in a.first.data["gpus"]] or [None], [gfx], f"the part that {name} names")
        t.same("override-10.3" in a.first.remedies[:3], gfx is not None, f"and whether code for its family is offered: {name}")
    a = unhang.explain_text(missing)
    t.ok("override-10.3" in a.first.remedies[:3], "the part for which code is missing", a.first.remedies)
    a = unhang.explain_text("HSA_OVERRIDE_GFX_VERSION=10.3.0\n" + missing)
    t.ok("override-10.3" not in a.first.remedies and "no-isa-override" in a.first.remedies, "what is set already is not asked for", a.first.remedies)
    t.ok("no-isa-override" not in unhang.explain_text(device + invalid).first.remedies[:1], "what nobody set is not the first to be unset")


def test_advice_of_rccl(t, unhang):
    """RCCL's advice is an incident only where nothing shows that the job worked."""
    advice = 'n1:77:77 [0] /src/init.cc:127 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!\n'
    t.same(len(unhang.explain_text(advice).incidents), 1, "the advice alone")
    t.same(len(unhang.explain_text(advice + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 7.5\n").incidents), 0, "the advice, and a test that passed")


def test_together(t, unhang):
    """Several messages of one failure: one incident, with the one that explains the others as its cause."""
    advice = "n1:811:811 [0] init.cc:120 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!\n"
    ended = "E0512 07:41:02.100000 790 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 3 (pid: 811) of binary: /usr/bin/python3\n"
    exception = aborted("HSA_STATUS_ERROR_EXCEPTION", "An HSAIL operation resulted in a hardware exception.", "0x1016") + "\n"
    for name, text, cls, roles in (
            ("fault and the end of its process", fault() + "\n" + ended, "gpu-page-fault-unmapped", {"hsa-memory-fault": "cause", "process-exit": "effect"}),
            ("fault and an aborted queue", exception + fault() + "\n", "gpu-page-fault-unmapped", {"hsa-memory-fault": "cause", "hsa-queue-error": "effect"}),
            ("fault and RCCL's advice", advice + fault() + "\n", "gpu-page-fault-unmapped", {"hsa-memory-fault": "cause", "rccl-advice": "effect"}),
            ("ECC and the reset after it", f"HW Exception by GPU node-6 (Agent handle: {AGENT}) reason :ECC\n" + hang(6) + "\n", "ras-uncorrectable-error", {"hsa-ecc": "cause", "hsa-hang": "effect"}),
            ("hang and the context that it cost", hang() + "\nROCm error: unspecified launch failure\n", "gpu-hang-hw-exception", {"hsa-hang": "cause", "hip-context-lost": "effect"}),
            ("fault, although NVIDIA's library is named", "loading libtorch_cuda.so\n" + fault() + "\n", "gpu-page-fault-unmapped", {"hsa-memory-fault": "cause"})):
        answer = unhang.explain_text(text)
        found = dict(answer.first.roles)
        t.no_complaints(wrong(answer, dict(cls=cls)) + [f"{e} is {found.get(e)}, wanted {r}" for e, r in roles.items() if found.get(e) != r], f"together: {name}")
    alone = unhang.explain_text(ended)
    t.same((alone.status, alone.classes, [n["event"] for n in alone.document["notes"]]), (0, [], ["process-exit"]), "together: the end of a process alone is a note, no incident")


# --- who writes ---

# name: the line (@ is the message), and what its prefix says.
PREFIXES = {
    "vLLM, worker": ("(Worker_TP2 pid=4283) @", dict(rank=2, worker="Worker_TP2", pid=4283)),
    "vLLM, worker with experts": ("(Worker_TP5_EP5 pid=4283) @", dict(rank=5, worker="Worker_TP5_EP5", pid=4283)),
    "vLLM, worker, level and time": ("(Worker_TP2 pid=4283) ERROR 05-12 07:41:02 [multiproc_executor.py:559] @", dict(rank=2, worker="Worker_TP2", pid=4283)),
    "vLLM, engine": ("(EngineCore_DP0 pid=812) @", dict(worker="EngineCore_DP0", pid=812)),
    "vLLM, engine without a number": ("(EngineCore pid=812) @", dict(worker="EngineCore", pid=812)),
    "Ray": ("(RayWorkerWrapper pid=5512, ip=10.1.2.3) @", dict(worker="RayWorkerWrapper", pid=5512, host="10.1.2.3")),
    "Ray, repeated": ("(RayWorkerWrapper pid=5512, ip=10.1.2.3) @ [repeated 7x across cluster]", dict(worker="RayWorkerWrapper", pid=5512, host="10.1.2.3")),
    "torch": ("[rank6]: @", dict(rank=6)),
    "torchrun --tee": ("[default6]:@", dict(rank=6)),
    "torchrun --tee, time": ("[default6]:2026-05-12 07:41:02 @", dict(rank=6)),
    "srun -l": ("6: @", dict(rank=6)),
    "srun -l, right-aligned": (" 6: @", dict(rank=6)),
    "srun -l, many": ("113: @", dict(rank=113)),
    "SGLang, TP": ("[2026-05-12 07:41:02 TP6] @", dict(rank=6)),
    "SGLang, DP and TP": ("[2026-05-12 07:41:02 DP1 TP6] @", dict(rank=6)),
    "SGLang, DP, PP, TP and EP": ("[2026-05-12 07:41:02 DP1 PP0 TP6 EP6] @", dict(rank=6)),
    "docker compose": ("vllm-1  | @", dict(worker="vllm-1")),
    "docker compose, version 1": ("vllm_1         | @", dict(worker="vllm_1")),
    "Kubernetes": ("2026-05-12T07:41:02.123456789Z stderr F @", {}),
    "Kubernetes and vLLM": ("2026-05-12T07:41:02.123456789Z stderr F (Worker_TP2 pid=4283) @", dict(rank=2, worker="Worker_TP2", pid=4283)),
    "kubectl logs --prefix": ("[pod/trainer-0/main] @", dict(worker="trainer-0/main")),
    "docker logs -t": ("2026-05-12T07:41:02.123456789Z @", {}),
    "docker's JSON": ('{"log":"@\\n","stream":"stderr","time":"2026-05-12T07:41:02.123456789Z"}', {}),
    "docker's JSON and vLLM": ('{"log":"(Worker_TP2 pid=4283) @\\n","stream":"stderr","time":"2026-05-12T07:41:02.123456789Z"}', dict(rank=2, worker="Worker_TP2", pid=4283)),
    "a logger's JSON": ('{"level":"error","ts":"2026-05-12T07:41:02Z","message":"[rank6]: @"}', dict(rank=6)),
    "colours": ("\x1b[1;36m(Worker_TP2 pid=4283)\x1b[0;0m \x1b[31m@\x1b[0m", dict(rank=2, worker="Worker_TP2", pid=4283)),
    "progress bar": ("Loading safetensors:  45%|####5     | 9/20 [00:04<00:05,  2.01it/s]@", {}),
    "progress bar with returns": ("\rEpoch 1:  1%|1 | 1/100\rEpoch 1:  2%|2 | 2/100 [00:02<01:40,  1.02s/it]@", {}),
    "DOS line end": ("@\r", {}),
    "DOS line end and rank": ("[rank6]: @\r", dict(rank=6)),
    "two prefixes": ("trainer-1  | [rank6]: @", dict(worker="trainer-1", rank=6)),
    "nothing": ("@", {}),
    "vLLM, older worker": ("(VllmWorker rank=3 pid=4283) @", dict(rank=3, worker="VllmWorker", pid=4283)),
    "mpirun --tag-output": ("[1,6]<stderr>:@", dict(rank=6)),
    "mpirun --tag-output --timestamp-output": ("Tue May 12 07:41:02 2026[1,6]<stderr>:@", dict(rank=6)),
    "colours whose escapes were lost": ("[1;36m(Worker_TP2 pid=4283)[0;0m @", dict(rank=2, worker="Worker_TP2", pid=4283)),
}


def test_prefixes(t, unhang):
    for name, (line, who) in tap.some(unhang, PREFIXES.items()):
        before = "INFO ready\nINFO serving\n"
        want = dict(cls="gpu-page-fault-unmapped", facts=dict(gpu_node=(3, 3), fault_address=("0x7f12a4c00000", 3), fault_reason=(REASON, 3), **{k: (v, 3) for k, v in who.items()}))
        answer = unhang.explain_text(before + line.replace("@", fault()) + "\n")
        out = wrong(answer, want)
        out += [f"{n}: {answer.first.values(n)}, but the line does not say it" for n in ("rank", "worker", "pid") if n not in who and answer.first.values(n)]
        t.no_complaints(out, f"prefix: {name}")
    filler = "(Worker_TP1 pid=77) INFO 05-12 07:41:02 [loggers.py:123] Avg prompt throughput: 201.4 tokens/s, Running: 4 reqs\n"
    count = 300_000 // len(filler)
    answer = unhang.explain_text(filler * count + "(Worker_TP2 pid=4283) " + fault() + "\n")
    t.no_complaints(wrong(answer, dict(cls="gpu-page-fault-unmapped", facts=dict(rank=(2, count + 1), pid=(4283, count + 1)))), "prefix: in a log that is scanned for anchors")


# --- NVIDIA's, and what is no failure ---

CUDA_TRACE = """Traceback (most recent call last):
  File "/srv/train.py", line 88, in <module>
    loss.item()
"""
QUIET = {
    "hipBLASLt is replaced": "[W1016 17:27:46.690175963 Context.cpp:301] Warning: Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas (function operator())\n",
    "cuBLAS": CUDA_TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( handle, opa, opb )`\n",
    "CUDA error, launch blocking": CUDA_TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
                                   "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
    "CUDA error, DSA": CUDA_TRACE + "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
    "CUDA error, search line": CUDA_TRACE + "torch.AcceleratorError: CUDA error: unspecified launch failure\nSearch for `cudaErrorLaunchFailure' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n",
    "CUDA, no kernel image": CUDA_TRACE + "RuntimeError: CUDA error: no kernel image is available for execution on the device\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
    "libtorch_cuda": "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered\nException raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43 (most recent call first):\n"
                     "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f00 in /usr/lib/python3/site-packages/torch/lib/libc10.so)\nframe #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x1c0 (0x7f01 in /usr/lib/python3/site-packages/torch/lib/libtorch_cuda.so)\n",
    "watchdog and NCCL with CUDA": "NCCL version 2.21.5+cuda12.4\n" + watchdog(0, 12) + "\n",
    "CUDA out of memory": CUDA_TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free. Process 811 has 78.00 GiB memory in use.\n",
    "CUDA out of memory, older": CUDA_TRACE + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 22.01 GiB already allocated; 18.00 MiB free; 22.10 GiB reserved in total by PyTorch)\n",
    "llama.cpp on CUDA": "ggml_cuda_init: found 1 CUDA devices:\n  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 30000.00 MiB on device 0: cudaMalloc failed: out of memory\n"
                         "CUDA error: an illegal memory access was encountered\n  current device: 0, in function ggml_backend_cuda_synchronize at ggml-cuda.cu:2610\n",
    "Xid": "[  100.1] NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f12_a4c00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
           "[  101.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n",
    "cuBLAS": CUDA_TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k)`\n",
    "traceback": "Traceback (most recent call last):\n  File \"/srv/app.py\", line 12, in main\n    return handlers[key](value)\n           ~~~~~~~~^^^^^\nKeyError: 'timeout'\n",
    "traceback on ROCm": ROCM + "Traceback (most recent call last):\n  File \"/srv/app.py\", line 12, in main\n    x = a @ b\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x4)\n",
    "training with warnings": "torch==2.7.0+rocm6.3\n/usr/lib/python3/site-packages/torch/utils/checkpoint.py:92: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
                              "[W512 07:30:00.118201921 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n[rank0]:[W512 07:30:02.5 ProcessGroupNCCL.cpp:4571] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown.\n"
                              + "".join(f"step {n} loss {3 - n / 100:.3f} grad_norm 0.81 lr 3e-4 tokens/s 10211\n" for n in range(100)) + "WARNING: loss is NaN at step 71, skipping the update\nTraining done in 311 s\n",
    "vLLM starts": ROCM + """INFO 05-12 07:30:02 [api_server.py:1043] vLLM API server version 0.9.1
WARNING 05-12 07:30:04 [config.py:960] amd quantization is not fully optimized yet. The speed can be slower than non-quantized models.
(Worker_TP0 pid=811) INFO 05-12 07:30:09 [rocm.py:181] Using Triton Attention backend on V1 engine.
(Worker_TP0 pid=811) INFO 05-12 07:30:20 [gpu_worker.py:210] Available KV cache memory: 120.25 GiB
(EngineCore_DP0 pid=800) INFO 05-12 07:31:11 [kv_cache_utils.py:715] GPU KV cache size: 3,100,112 tokens
(Worker_TP0 pid=811) WARNING 05-12 07:31:15 [custom_all_reduce.py:137] Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.
(APIServer pid=790) INFO:     Application startup complete.
(APIServer pid=790) INFO:     10.0.0.9:41112 - "POST /v1/completions HTTP/1.1" 200 OK
""",
    "vLLM stops": ROCM + "(APIServer pid=790) INFO 05-12 09:30:02 [launcher.py:99] Shutting down FastAPI HTTP server.\n(APIServer pid=790) ERROR 05-12 09:30:03 [core_client.py:562] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n"
                         "(APIServer pid=790) INFO:     Application shutdown complete.\n",
    "SGLang starts": """[2026-05-12 07:30:02] server_args=ServerArgs(model_path='m', tp_size=8, watchdog_timeout=300, device='cuda', attention_backend='aiter')
[2026-05-12 07:30:09 TP0] Init torch distributed begin.
[aiter] import [module_aiter_enum] under /opt/aiter/jit/module_aiter_enum.so
[2026-05-12 07:30:20 TP0] Load weight begin. avail mem=191.02 GB
[2026-05-12 07:31:11 TP0] KV Cache is allocated. #tokens: 1000000, K size: 30.00 GB, V size: 30.00 GB
[2026-05-12 07:31:15 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=20.11 GB
[2026-05-12 07:31:55] The server is fired up and ready to roll!
""",
    "RCCL starts": "RCCL version 2.22.3+hip6.4 HEAD:1a2b\nn1:811:811 [0] NCCL INFO NET/IB : No device found.\nn1:811:830 [0] NCCL INFO comm 0x55d0 rank 0 nranks 8 cudaDev 0 busId 1b000 - Init COMPLETE\n",
    "a healthy pod": json.dumps({"kind": "Pod", "metadata": {"name": "vllm-0"}, "spec": {"nodeName": "mi300-7"}, "status": {"phase": "Running", "containerStatuses": [
        {"name": "vllm", "ready": True, "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": "2026-05-12T07:30:00Z"}}}]}}),
    "kubectl get pods": "NAME     READY   STATUS    RESTARTS   AGE\nvllm-0   1/1     Running   0          3d\nvllm-1   1/1     Running   0          3d\n",
    "kubectl describe": "Name:             vllm-0\nNode:             mi300-7/10.0.0.7\nStatus:           Running\nContainers:\n  vllm:\n    State:          Running\n      Started:      Tue, 12 May 2026 07:30:00 +0000\n"
                        "    Ready:          True\n    Restart Count:  0\n    Limits:\n      amd.com/gpu:  8\n",
    "a container that ended well": json.dumps([{"Id": "4f" * 32, "Name": "/job", "State": {"Status": "exited", "Running": False, "ExitCode": 0, "OOMKilled": False, "Error": ""}, "HostConfig": {"Memory": 0}}]),
    "gfx name in an ordinary line": "INFO building wheels for gfx942 and gfx90a\nINFO 2 warnings, 0 errors\n",
    "watchdog on H100": "0: NVIDIA H100 80GB HBM3\n" + watchdog(0, 12) + "\n" + watchdog(1, 12) + "\n" + status(0, 12, 12, 11) + "\n",
    "NCCL error": "node1:10:22 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.21.5+cuda12.4\ntorch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n",
    "documentation": "The call returns hipErrorOutOfMemory if the device has not enough memory, and hipSuccess otherwise.\nSee the section about asynchronous allocation.\n",
    "documentation of HSA": "HSA_STATUS_ERROR_EXCEPTION is returned to the callback of a queue when a wave traps.\n",
    "CUDA error behind another process's line": "(Worker_TP0 pid=11) INFO 05-12 07:41:02 [x.py:1] ready\nRuntimeError: CUDA error: an illegal memory access was encountered\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
    "CUDA error in docker compose": "trainer-1  | ready\nRuntimeError: CUDA error: an illegal memory access was encountered\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
    "watchdog on H200": "device: NVIDIA H200\n" + watchdog(0, 12) + "\n",
    "watchdog on B200": "device: NVIDIA B200\n" + watchdog(0, 12) + "\n",
    "documentation of a missing binary": "If you see hipErrorNoBinaryForGpu, rebuild with the right --offload-arch.\n",
    "documentation of out of memory": "The server log may contain `HIP out of memory`; lower the batch size.\n",
    "documentation of OpenGL": "GL_CONTEXT_LOST is what the next call returns then.\n",
    "a user's question in a server's log": ROCM + "INFO prompt: 'what does hipErrorIllegalAddress mean?'\n",
    "a list of the system": "Kernel Name: 6.8.0\n",
    "a profile": "Kernel Name: vecadd(float*)\n",
    "attention that falls back": ROCM + "WARNING: flash attention is not supported on gfx1030, using math attention\nINFO serving\n",
}


def test_quiet(t, unhang):
    for name, text in tap.some(unhang, QUIET.items()):
        answer = unhang.explain_text(text)
        t.no_complaints(answer.complaints + [f"{i.cls}: {i.timeline}" for i in answer.incidents] + [f"note {n}" for n in answer.document.get("notes", []) if n["event"] != "other-gpu-error"] + [f"status {answer.status}"] * (answer.status != 0), f"quiet: {name}")


# --- the ranks of a job ---

def at(seconds, rank, message):
    return f"[2026-05-12 07:41:{seconds:06.3f} TP{rank}] {message}\n"


def ranks_of(answer):
    return {r["rank"]: r for r in answer.first.data.get("ranks", [])}


def roles_of(answer):
    return {rank: r["role"] for rank, r in ranks_of(answer).items()}


def told(answer):
    return answer.first.cause.get("explanation", "")


def test_ranks(t, unhang):
    same = unhang.explain_text("".join(f"[rank{r}]: {hang(5)}\n" for r in range(8)))
    t.no_complaints(wrong(same, dict(cls="gpu-hang-hw-exception", facts=dict(gpu_node=5))), "ranks: eight that name one GPU are one incident")
    t.same([(r["rank"], r["gpu_node"]) for r in same.first.data.get("ranks", [])], [(r, 5) for r in range(8)], "ranks: each with the node that it names")
    t.ok("8 processes" in told(same) and "same GPU (node-5)" in told(same), "ranks: one GPU, and it is said", told(same))

    every = unhang.explain_text("".join(at(2 + r * 0.01, r, fault(r + 2, f"0x7f12a4c{r}0000")) for r in range(8)))
    t.no_complaints(wrong(every, dict(cls="gpu-page-fault-unmapped")), "ranks: every GPU at once is one incident")
    t.ok("8 GPUs" in told(every) and "70 ms" in told(every) and "same GPU" not in told(every), "ranks: every GPU at once, and it is said", told(every))
    t.ok("victim" not in roles_of(every).values(), "ranks: every GPU at once: nobody is a victim", roles_of(every))
    t.same([r["gpu_node"] for r in every.first.data.get("ranks", [])], list(range(2, 10)), "ranks: in their order")

    early = unhang.explain_text("".join(at(30.5 if r == 4 else 34 + r * 0.1, r, fault(r + 2, f"0x7f12a4c{r}0000")) for r in (0, 1, 4, 2)))
    t.same(roles_of(early), {0: "victim", 1: "victim", 2: "victim", 4: "first"}, "ranks: the one that went seconds before the others")
    t.same(list(roles_of(early)), [0, 1, 2, 4], "ranks: by their number, not by time")
    t.ok("rank 4" in told(early) and "3.5 s" in told(early), "ranks: and it is said", told(early))

    waits = unhang.explain_text(ROCM + at(29, 3, watchdog(3, 512)) + "".join(at(30.5 if r == 4 else 34 + r * 0.1, r, fault(r + 2, f"0x7f12a4c{r}0000")) for r in (0, 1, 4, 2)))
    t.same(roles_of(waits), {0: "victim", 1: "victim", 2: "victim", 3: "victim", 4: "first"}, "ranks: one that waited for the others before they faulted is not the first")
    t.ok("rank 4, 3.5 s" in told(waits), "ranks: and it is said", told(waits))

    files = [unhang.write(f"job/rank{r}.log", at(30.5 if r == 1 else 36 + r, r, fault(r + 2, f"0x7f12a4c{r}0000"))) for r in range(3)]
    apart = unhang.explain(*files)
    t.same((len(apart.incidents), roles_of(apart)), (1, {0: "victim", 1: "first", 2: "victim"}), "ranks: the same in a file for each")
    untimed = [unhang.write(f"job/plain{r}.log", f"[rank{r}]: {fault(r + 2, f'0x7f12a4c{r}0000')}\n") for r in range(3)]
    for name, some in (("times", files), ("no times", untimed)):
        one, other = ([(e["event"], e["role"], e["text"]) for e in unhang.explain(*f).first.timeline] for f in (some, some[::-1]))
        t.same(one, other, f"ranks: whatever the order of files with {name}")

    step = unhang.explain_text(ROCM + "".join(watchdog(r, 512) + "\n" + status(r, 512, 514, 511) + "\n" for r in range(4)))
    t.no_complaints(wrong(step, dict(cls="collective-timeout", facts=dict(seq=512, enqueued=514, completed=511))), "collectives: in step")
    t.same([(r["rank"], r["seq"], r["enqueued"], r["completed"], r["collective"]) for r in step.first.data.get("ranks", [])], [(r, 512, 514, 511, "ALLREDUCE") for r in range(4)], "collectives: the numbers of each rank")
    t.ok("none of them lags" in told(step) and "missing" not in told(step), "collectives: in step, and it is said", told(step))

    lag = unhang.explain_text(ROCM + "".join(watchdog(r, 512) + "\n" + status(r, 512, 509 if r == 2 else 514, 508 if r == 2 else 511) + "\n" for r in range(4)))
    t.no_complaints(wrong(lag, dict(cls="collective-timeout", facts=dict(lagging_ranks=2))), "collectives: the rank that lags")
    t.same(roles_of(lag), {0: "victim", 1: "victim", 2: "first", 3: "victim"}, "collectives: the others wait for it")
    t.ok("rank 2 last started operation 509, others 514" in told(lag), "collectives: and it is said", told(lag))

    gone = unhang.explain_text(ROCM + "".join(watchdog(r, 512) + "\n" + status(r, 512, 514, 511) + "\n" for r in (0, 1, 3)))
    t.ok("There is no report of rank 2 here: look there first" in told(gone), "collectives: a rank that is silent is named", told(gone))

    group = unhang.explain_text(ROCM + "[rank4]:[E512 07:41:02.310553120 ProcessGroupNCCL.cpp:2268] [PG 5 Rank 0] Timeout at NCCL work: 7, last enqueued NCCL work: 8, last completed NCCL work: 6.\n")
    t.same([(r["rank"], r["enqueued"], r["completed"]) for r in group.first.data.get("ranks", [])], [(4, 8, 6)], "collectives: a rank's number is that of the job, not of its group")


# --- how sure, and what next ---

AGENT_DUMP = """
--------------------------------------------------------
wave_1: pc=0x7f21c0dd1a40 (kernel_code_entry=0x7f21c0dd1900 <scatter_rows(float*, int)>) (stopped, reason: MEMORY_VIOLATION)

system registers:
            pc: 00007f21c0dd1a40          exec: ffffffffffffffff

general registers:
            v0: [0] 00000000 [1] 00000001
            s0: 00000007

Disassembly for function scatter_rows(float*, int):
    code object: memory://4283#offset=0x55d0&size=4096
    loaded at: [0x7f21c0dd0000-0x7f21c0dd3000]

    0x00007f21c0dd1a38 <+312>:    s_waitcnt vmcnt(0)
 => 0x00007f21c0dd1a40 <+320>:    global_store_dword v[0:1], v2, off

End of disassembly.
"""


def confidence(unhang, text):
    return unhang.explain_text(text).first.cause["confidence"]


def commands(answer):
    return [n["run"] for n in answer.first.data["next"]]


def test_confidence(t, unhang):
    for text in (CUDA_TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\n", CUDA_TRACE + "RuntimeError: CUDA error: invalid device function\n"):
        t.same((len(unhang.explain_text(text).incidents), len(unhang.explain_text(ROCM + text).incidents)), (0, 1), f"CUDA's error is AMD's only where something says so: {text[-40:]}")
    for name, text in {"collective": watchdog(1, 12) + "\n", "out of memory": "cudaMalloc failed: out of memory\n"}.items():
        vague, known = confidence(unhang, text), confidence(unhang, ROCM + text)
        t.ok(0 < vague < known, f"sure: less where nothing says AMD: {name}", f"{vague} and {known}")
        t.ok("AMD" in unhang.explain_text(text).first.cause.get("evidence", ""), f"sure: and it is said: {name}")


def test_next(t, unhang):
    alone = unhang.explain_text(fault() + "\n")
    t.ok(any("librocm-debug-agent" in c for c in commands(alone)), "next: the debug agent, where nothing names the kernel", commands(alone))
    t.ok(any("dmesg" in c and "page fault" in c for c in commands(alone)), "next: the kernel's log, where it is not there", commands(alone))
    dump = unhang.explain_text(fault() + "\n" + AGENT_DUMP)
    t.same(dump.first.cls, "gpu-page-fault-unmapped", "next: a fault and its dump are one")
    t.ok(dump.first.value("kernel_name") and len(dump.incidents) == 1, "next: with its kernel", dump.first.data["facts"])
    t.ok(commands(dump) and not any("tee agent.log; unhang explain agent.log" in c for c in commands(dump)), "next: no debug agent where its dump is there", commands(dump))
    both = unhang.explain(unhang.write("n/app.log", fault() + "\n"), unhang.write("n/agent.log", AGENT_DUMP))
    t.ok(len(both.incidents) == 1 and not any("unhang explain agent.log" in c for c in commands(both)), "next: nor where it is in another file", commands(both))
    kernel = unhang.write("n/dmesg.txt", "[  100.000000] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:4 pasid:32770)\n[  100.000010] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f12a4c00000 from client 10\n")
    with_kernel = unhang.explain(unhang.write("n/app.log", fault() + "\n"), kernel)
    t.ok(len(with_kernel.incidents) == 1 and not any("grep -A12 'page fault'" in c for c in commands(with_kernel)), "next: no kernel log where it is there", commands(with_kernel))
    hung = commands(unhang.explain_text(hang() + "\n"))
    t.ok(any("journalctl -k" in c for c in hung), "next: a hang wants the kernel's log", hung)


def test_hostile(t, unhang):
    """Commands are there to be copied into a shell."""
    evil = ["$(reboot)", "`reboot`", "x;reboot", "x|sh", "x&reboot", "a b", "x>y", "'q", '"q', "--help", "x\\y", "*"]
    oom = AMDGPU + "[ 9120.1] Memory cgroup out of memory: Killed process 33811 ({}) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB\n"
    container = {"Id": "4f" * 32, "State": {"Status": "exited", "Running": False, "ExitCode": 137, "OOMKilled": True, "Error": ""}, "HostConfig": {"Memory": 1}}
    logs = {"process": lambda word: oom.format(f"train{word}"), "container": lambda word: json.dumps([{**container, "Name": "/" + word}]), "worker": lambda word: f"({word} pid=811) {hang()}\n",
            "service": lambda word: f"{word}  | {hang()}\n", "kernel": lambda word: aborted("HSA_STATUS_ERROR_EXCEPTION", "x.", "0x1016", f" [host: {word}, GPU index: 6, kernel: {word}]") + "\n",
            "stack": lambda word: f"Process 811: {word} train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 811 (active): \"{word}\"\n    synchronize (torch/cuda/__init__.py:1040)\n    {word} (train.py:88)\n"}
    for kind, make in logs.items():
        tame = unhang.explain_text(make("tame"))
        wanted = [c.replace("tame", "@") for c in commands(tame)]
        out = [] if tame.incidents else ["no incident"]
        for word in evil:
            answer = unhang.explain_text(make(word))
            out += [f"{word}: {c}" for c in commands(answer) if word in c and not any(word in w for w in wanted)]
        t.no_complaints(out, f"hostile: {kind} with a shell's characters is in no command")
    pid = unhang.explain_text("Process 811$(reboot): python train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 811 (active): \"MainThread\"\n    synchronize (torch/cuda/__init__.py:1040)\n")
    t.ok(not any("reboot" in c for c in commands(pid)), "hostile: nor a pid", commands(pid))
    path = unhang.write("$(reboot).log", hang() + "\n")
    t.ok(not any("$(reboot)" in c for c in commands(unhang.explain(path))), "hostile: nor the name of a file", commands(unhang.explain(path)))
    good = unhang.explain_text(json.dumps([{**container, "Name": "/trainer-7"}]))
    t.ok(any("trainer-7" in c for c in commands(good)), "hostile: a plain name is", commands(good))


def test_aftermath(t, unhang):
    """What stops a job, and what the rest of it prints for it."""
    database = "[ 9120.1] Out of memory: Killed process 812 (mysqld) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB\n"
    t.same(unhang.explain_text(database).classes, [], "quiet: the OOM killer takes a database")
    late = "".join(watchdog(r, 512, "07:51:11.200") + "\n" for r in range(4))
    t.same(unhang.explain_text(hang(7) + "\n" + late).first.cls, "gpu-hang-hw-exception", "collectives: a timeout after a hang is its effect")
    t.same(unhang.explain_text(f"[rank5]:[E512 07:41:10.200553120 x.cpp:1] {hang(7)}\n" + late).classes, ["gpu-hang-hw-exception"], "collectives: also where it took its ten minutes")
    t.same(unhang.explain_text(f"[2026-05-12 07:41:02 TP3] {hang()}\n[2026-05-12 07:41:42 TP0] Watchdog timeout (self.watchdog_timeout=30, self.soft=False)\n").classes, ["gpu-hang-hw-exception"],
           "together: a server that stands still after a hang")
    error = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n"
    t.same(unhang.explain_text(ROCM + hang() + "\n" + error).classes, ["gpu-hang-hw-exception"], "together: RCCL's error after a hang")
    other = "[rank2]:[E512 07:41:02.310553120 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 7(tp) Rank 0]  failure detected by watchdog at work sequence id: 99 PG status: last enqueued work: 99, last completed work: 98\n"
    mixed = unhang.explain_text(ROCM + status(0, 12, 12, 11) + "\n" + status(1, 12, 12, 11) + "\n" + other)
    t.same(mixed.first.values("lagging_ranks"), [], "collectives: numbers of different groups are not compared")
    init = "".join(f"n1:8{r}:9{r} [{r}] NCCL INFO ncclCommInitRank comm 0x55d{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {r + 1}b000 commId 0x12 - Init COMPLETE\n" for r in range(4))
    last = unhang.explain_text(ROCM + init + "".join(watchdog(r, 5) + "\n" for r in range(3)))
    t.ok("no report of rank 3 here" in told(last), "collectives: the last rank is missed, too, where their number is known", told(last))
    stuck = commands(unhang.explain_text("ROCm version: 7.0\n[2026-05-12 07:41:02 TP0] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"))
    t.ok(any("py-spy" in c for c in stuck), "next: stacks, where there are none", stuck)
    wait = commands(unhang.explain_text(ROCM + watchdog(0, 12) + "\n"))
    t.ok(any("py-spy" in c for c in wait), "next: the lagging rank's stack", wait)
    lines = "".join(json.dumps({"log": f"[rank{r}]: {fault(r + 2)}\n", "stream": "stderr", "time": f"2026-05-12T07:41:{s}Z"}) + "\n" for r, s in ((0, 20), (1, 10)))
    t.same(roles_of(unhang.explain_text(lines)), {0: "victim", 1: "first"}, "ranks: docker's JSON has times")
    hip = unhang.explain_text(":0:rocdevice.cpp            :3020: 7262982208d us:  Callback: Queue 0x7f2 aborting with error : HSA_STATUS_ERROR_EXCEPTION: x. code: 0x1016\n")
    t.same(hip.first.data["begin"], 7262.982208, "time: HIP of ROCm 6.3")



def test_excerpts(t, unhang):
    """People paste the one line that they think matters."""
    two = unhang.explain_text(fault(3) + fault(4, "0x7f1000000000") + "\n")
    t.same(sorted(two.first.values("gpu_node")), [3, 4], "two faults that two processes wrote into one line")
    lines = {"err:   !!! Potential hang region BEGIN !!!": "long-running-dispatch-timeout", "AMDGPU Wave 3:2:1:4 (7,0,0)/1 received signal SIGSEGV, Segmentation fault.": "gpu-page-fault-unmapped",
             "(stopped, reason: MEMORY_VIOLATION)": "gpu-page-fault-unmapped", "hipErrorIllegalAddress": "gpu-page-fault-unmapped", "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION": "memory-aperture-violation",
             "HSA_STATUS_ERROR_INVALID_ISA: The instruction set architecture is invalid.": "illegal-opcode-or-instruction", "RuntimeError: HIP out of memory.": "vram-exhaustion",
             "#4  0x00007f1155aa in c10d::ProcessGroupGloo::RecvWork::wait(std::chrono::duration<long>) () from libtorch_cpu.so": "collective-timeout",
             "amrex::Abort::1::HIP error in file F.cpp line 402 hipErrorOutOfMemory !!!": "vram-exhaustion", "could not create module (error code = HIP:209)": "wrong-isa"}
    for line, cls in lines.items():
        t.same(unhang.explain_text(line + "\n").classes, [cls], f"excerpt: {line[:60]}")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_classes, test_told_part, test_advice_of_rccl, test_together, test_prefixes, test_quiet, test_ranks, test_confidence, test_next, test_aftermath, test_excerpts, test_hostile):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
