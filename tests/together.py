#!/usr/bin/env python3
"""Several files about one failure are one diagnosis: the kernel's log, the program's, those of all ranks, a debugger's transcript,
a container's state. The order of the files on the command line changes nothing; what does not belong together stays apart."""
import itertools
import json
import sys

import tap

GPU = "0000:c5:00.0"
ADDRESS = 0x7e4410a00000
CLOCK = "2026-04-02 10:{:02d}:{:06.3f}"


def dmesg(*lines, gpu=GPU):
    """Lines are (seconds, message); `@` stands for the driver's prefix."""
    return "".join(f"[{seconds:12.6f}] {message.replace('@', f'amdgpu {gpu}: amdgpu:', 1)}\n" for seconds, message in lines)


def kernel_fault(seconds, address=ADDRESS, process="trainer", pid=6120, gpu=GPU):
    return dmesg((seconds, "@ [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)"), (seconds, f"@  Process {process} pid {pid} thread {process} pid {pid}"),
                 (seconds, f"@   in page starting at address 0x{address:016x} from IH client 0x1b (UTCL2)"), (seconds, "@ VM_L2_PROTECTION_FAULT_STATUS:0x00801031"),
                 (seconds, "@ \t Faulty UTCL2 client ID: TCP (0x8)"), (seconds, "@ \t MORE_FAULTS: 0x1"), (seconds, "@ \t WALKER_ERROR: 0x0"), (seconds, "@ \t PERMISSION_FAULTS: 0x3"),
                 (seconds, "@ \t MAPPING_ERROR: 0x0"), (seconds, "@ \t RW: 0x0"), gpu=gpu)


def hang(seconds, gpu=GPU, process="trainer", pid=6120):
    return dmesg((seconds, "@ ring comp_1.0.0 timeout, signaled seq=310, emitted seq=312"), (seconds, f"@ Process information: process {process} pid {pid} thread {process} pid {pid}"),
                 (seconds + 0.1, "@ GPU reset begin!"), (seconds + 0.4, "@ MODE1 reset"), (seconds + 1.5, "@ GPU reset(1) succeeded!"), gpu=gpu)


def stamp(second):
    return CLOCK.format(int(second) // 60, second % 60)


def program_fault(second, node=3, address=ADDRESS, prefix=""):
    return f"{prefix}[{stamp(second)}] Memory access fault by GPU node-{node} (Agent handle: 0x5591aa20) on address 0x{address:x}. Reason: Page not present or supervisor privilege.\n"


def program_hang(node=3):
    return f"HW Exception by GPU node-{node} (Agent handle: 0x5591aa20) reason :GPU Hang\n"


def kernel_line(second, kernel="void at::native::vectorized_gather_kernel<16, long>(char*, char*)"):
    return f"[{stamp(second)}] Kernel Name: {kernel}\n"


def agent_wave(kernel="gather_rows(int*)"):
    lanes = " ".join(f"[{n}] {4 * n:08x}" for n in range(64))
    return (f"wave_31: pc=0x7e0000001040 (kernel_code_entry=0x7e0000001000 <{kernel}>) (stopped, reason: MEMORY_VIOLATION)\n\nvector registers:\n            v0: {lanes}\n\n"
            "general registers:\n            m0: 00000001\n            pc: 00007e0000001040          exec: 00000000000000ff\n")


def fault_files(unhang):
    return {"dmesg.txt": kernel_fault(2000.5) + hang(2004.0),
            "server.log": f"[{stamp(1)}] INFO server: loaded model\n" + program_fault(30.0) + agent_wave() + f"[{stamp(30.5)}] ERROR server: worker died\n"}


def give(unhang, files, order=None, room="t"):
    paths = {name: unhang.write(f"{room}/{name}", text) for name, text in files.items()}
    return unhang.explain(*[paths[n] for n in order or files])


def plain(answer):
    """The answer without what depends on the order of the command line: sources are told by their path."""
    paths = {s["id"]: s["path"].rsplit("/", 1)[-1] for s in answer.document["sources"]}

    def walk(node):
        if isinstance(node, dict):
            return {k: paths.get(v, v) if k == "source" and isinstance(v, int) else walk(v) for k, v in node.items()}
        return [walk(n) for n in node] if isinstance(node, list) else node
    return walk({"incidents": answer.document["incidents"], "notes": answer.document.get("notes", [])})


def difference(a, b, at=""):
    if type(a) is not type(b):
        return f"{at}: {a!r} and {b!r}"
    if isinstance(a, dict):
        return next((d for k in sorted(a.keys() | b.keys()) if (d := difference(a.get(k), b.get(k), f"{at}/{k}"))), "")
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{at}: {len(a)} and {len(b)} of them"
        return next((d for n, (x, y) in enumerate(zip(a, b)) if (d := difference(x, y, f"{at}/{n}"))), "")
    return "" if a == b else f"{at}: {a!r} and {b!r}"


def any_order(t, unhang, files, name, room):
    wanted, wrong = None, []
    for order in itertools.permutations(files):
        answer = give(unhang, files, order, room)
        wrong += answer.complaints
        got = plain(answer)
        wanted = wanted or got
        if got != wanted:
            wrong.append(f"{' '.join(order)}: {difference(wanted, got)[:300]}")
    t.no_complaints(wrong[:4], name)


def test_one_address(t, unhang):
    files = fault_files(unhang)
    a = give(unhang, files)
    i = a.first
    t.no_complaints(a.complaints, "kernel and program: well-formed")
    t.same((len(a.incidents), i.cls), (1, "gpu-page-fault-unmapped"), "the kernel's and the program's fault at one address are one incident")
    t.same(i.data["gpus"][0]["pci"], GPU, "the PCI address is the kernel's")
    t.ok(("trainer", 6120) in [(p["name"], p["pid"]) for p in i.data["processes"]], "the process, too", i.data["processes"])
    t.ok("gather_rows(int*)" in i.values("kernel_name") and 3 in i.values("gpu_node"), "the kernel's name and the node are the program's", i.values("kernel_name"))
    kinds = [e["event"] for e in i.timeline]
    t.ok(kinds.index("page-fault") < kinds.index("hsa-memory-fault") < kinds.index("ring-timeout") if {"page-fault", "hsa-memory-fault", "ring-timeout"} <= set(kinds) else False,
         "the program's line stands at the time of the kernel's fault, before what came later", kinds)
    times = [e["time"] for e in i.timeline if e["time"] is not None]
    t.same(times, sorted(times), "the timeline is in order on one clock")
    t.ok(all(2000 <= time <= 2010 for time in times), "the program's times were brought to the kernel's clock", times)
    far = give(unhang, {"dmesg.txt": kernel_fault(2000.5), "server.log": program_fault(30.0, address=ADDRESS + 0x10)}, room="page")
    t.same(len(far.incidents), 1, "an address in the same page is the same fault")
    alone = [give(unhang, {name: text}, room="alone").classes for name, text in files.items()]
    t.same(alone, [["gpu-page-fault-unmapped"]] * 2, "each file alone says the same class")


def test_hang(t, unhang):
    a = give(unhang, {"dmesg.txt": hang(500.0), "app.log": f"[{stamp(2)}] step 91\n" + program_hang()}, room="hang")
    t.same(a.classes, ["compute-ring-timeout"], "the kernel's reset and the program's GPU Hang are one incident, and the kernel's cause is its cause")
    t.same([e["role"] for e in a.first.events("hsa-hang")], ["effect"], "what the program was told is an effect")
    t.ok(3 in a.first.values("gpu_node") and a.first.data["gpus"][0]["pci"] == GPU, "with node and PCI address")
    two = give(unhang, {"dmesg.txt": hang(500.0) + hang(9500.0, gpu="0000:85:00.0"), "app.log": program_hang()}, room="hang2")
    t.ok(len(two.incidents) >= 2, "where two resets could be meant, they are not made one", two.classes)


def test_unrelated(t, unhang):
    a = give(unhang, {"dmesg.txt": kernel_fault(2000.5), "other.log": program_fault(30.0, node=5, address=0x7d0099000000)}, room="apart")
    t.same(len(a.incidents), 2, "faults at different addresses stay two incidents")
    a = give(unhang, {"monday.log": program_fault(30.0), "later.log": program_fault(30.0, address=0x7d0099000000).replace("2026-04-02", "2026-04-06")}, room="days")
    t.same(len(a.incidents), 2, "programs that fail on different days stay two incidents")
    a = give(unhang, {"host1.txt": "Apr  2 10:00:01 h1 kernel: " + hang(50).splitlines()[0][15:] + "\n", "host2.txt": "Apr  2 18:00:01 h2 kernel: " + hang(50, gpu="0000:85:00.0").splitlines()[0][15:] + "\n"}, room="hosts")
    t.same(len(a.incidents), 2, "timeouts of two GPUs hours apart stay two incidents")
    old = "".join("2026-03-01 08:00:00 host kernel: " + line.split("] ", 1)[1] + "\n" for line in kernel_fault(1).splitlines())
    a = give(unhang, {"kern.log": old, "server.log": program_fault(30.0)}, room="month")
    t.same(len(a.incidents), 2, "the same address a month apart is not the same fault")
    a = give(unhang, {"dmesg.txt": kernel_fault(2000.5), "server.log": f"[{stamp(1)}] INFO server: all is well\n"}, room="well")
    t.same(a.classes, ["gpu-page-fault-unmapped"], "a log in which nothing happened changes nothing")


def rank_log(rank, second, node=None, address=None):
    return f"[{stamp(1)}] [rank{rank}] INFO step 10\n" + program_fault(second, rank + 1 if node is None else node, ADDRESS + rank * 0x200000 if address is None else address, prefix=f"[rank{rank}]: ")


def roles(incident):
    return {r["rank"]: r["role"] for r in incident.data["ranks"]}


def test_ranks(t, unhang):
    files = {f"rank{r}.log": rank_log(r, 40.0 if r == 5 else 43.0 + 0.1 * r) for r in range(8)}
    a = give(unhang, files, room="ranks")
    t.no_complaints(a.complaints, "ranks: well-formed")
    t.same(len(a.incidents), 1, "eight ranks that fail within seconds are one incident")
    t.same(roles(a.first), {r: "first" if r == 5 else "victim" for r in range(8)}, "the earliest rank is the first, the others its victims")
    t.same({r["rank"]: r["gpu_node"] for r in a.first.data["ranks"]}, {r: r + 1 for r in range(8)}, "each with its GPU")
    t.ok("rank 5" in json.dumps(a.first.data["cause"]), "and is named", a.first.data["cause"])
    b = give(unhang, files, list(files)[::-1], room="ranks")
    t.same(plain(b), plain(a), "rank7 to rank0 on the command line says the same")
    same = give(unhang, {f"rank{r}.log": rank_log(r, 40.0 + r, node=3) for r in range(4)}, room="node").first
    t.ok("node-3" in same.cause["explanation"] and "same GPU" in same.cause["explanation"], "all ranks on one GPU: look at that GPU", same.cause["explanation"])
    once = give(unhang, {f"rank{r}.log": rank_log(r, 40.0 + 0.01 * r) for r in range(8)}, room="once").first
    t.ok("not one bad GPU" in once.cause["explanation"], "every GPU within milliseconds: the same bug on all of them", once.cause["explanation"])
    t.ok("victim" not in roles(once).values(), "and no rank is another's victim", roles(once))


def test_timeouts(t, unhang):
    def watchdog(rank, seq, second=60.0):
        return (f"[rank{rank}]:[E402 10:01:{second:09.6f} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
                f"NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600{rank:03d} milliseconds before timing out.\n")
    files = {f"rank{r}.log": watchdog(r, 77 if r == 2 else 90, 10.0 + r) for r in range(4)}
    a = give(unhang, files, room="watchdog")
    t.same(a.classes, ["collective-timeout"], "watchdogs of four ranks are one incident")
    t.same({r["rank"]: r["seq"] for r in a.first.data["ranks"]}, {0: 90, 1: 90, 2: 77, 3: 90}, "each rank's number of the operation")
    t.same(a.first.value("lagging_ranks"), "2", "the rank that is behind is named")
    with_fault = dict(files, **{"rank2.log": program_fault(5.0, 4, prefix="[rank2]: ")})
    a = give(unhang, with_fault, room="watchdog2")
    t.ok(len(a.incidents) == 1 and a.first.cls.startswith("gpu-page-fault"), "the fault of one rank is the cause of the timeouts of the others", a.classes)


def test_any_order(t, unhang):
    any_order(t, unhang, dict(fault_files(unhang), **{"inv.txt": "GPU: 0\n    BDF: 0000:c5:00.0\n    KFD_ID: 1\n    NODE_ID: 3\n    PARTITION_ID: 0\n"}), "kernel, server and inventory: any order", "p1")
    any_order(t, unhang, {f"rank{r}.log": rank_log(r, (44.0, 41.0, 45.0, 42.5)[r]) for r in range(4)}, "four ranks: any order", "p2")
    any_order(t, unhang, {"dmesg.txt": kernel_fault(2000.5), "server.log": program_fault(30.0), "other.log": program_fault(33.0, 6, 0x7d0099000000), "days.log": program_fault(30.0, 2, 0x7c0000800000).replace("2026-04-02", "2026-05-01")}, "what belongs together and what does not: any order", "p3")
    any_order(t, unhang, {"dmesg.txt": hang(500.0), "app.log": program_hang(), "stack.txt": STACK, "gdb.txt": TRANSCRIPT}, "kernel, program, stacks and transcript: any order", "p4")
    any_order(t, unhang, {"a.json": json.dumps(container(137, True)), "dmesg.txt": OOM, "app.log": f"[{stamp(1)}] INFO server: started\n"}, "container, kernel and program: any order", "p5")


def test_rotated(t, unhang):
    day = "Apr  2 10:00:{:02d} host kernel: "

    def lines(text, second):
        return "".join(day.format(second) + line.split("] ", 1)[1] + "\n" for line in text.splitlines())
    whole = lines(kernel_fault(2000.5), 10) + lines(hang(2004.0), 14)
    cut = whole.splitlines(True)
    a = give(unhang, {"kern.log": "".join(cut[10:]), "kern.log.1": "".join(cut[:10])}, room="rotated")
    t.same(a.classes, ["gpu-page-fault-unmapped"], "a kernel log that was rotated between a fault and its reset is one incident")
    kinds = [e["event"] for e in a.first.timeline]
    t.ok("page-fault" in kinds and "ring-timeout" in kinds and kinds.index("page-fault") < kinds.index("ring-timeout"), "in the order in which it happened", kinds)
    b = give(unhang, {"kern.log.1": "".join(cut[:10]), "kern.log": "".join(cut[10:])}, room="rotated")
    t.same(plain(b), plain(a), "whichever part is given first")
    one = give(unhang, {"kern.log": whole}, room="whole")
    t.same([e["event"] for e in a.first.timeline], [e["event"] for e in one.first.timeline], "the same events as in one file")


def test_core(t, unhang):
    core = f"""**** AMDGPU Device Coredump ****
version: 1
kernel: 6.12.9-test
time: 500.300000000
process_name: trainer PID: 6120

Ring timed out details
IP Type: 1 Ring Name: comp_1.0.0

[gfxhub] Page fault observed
Faulty page starting at address: 0x{ADDRESS:016x}
Protection fault status register: 0x801031

IP Dump
IP: gfx_v9_4_3
regGRBM_STATUS                                     \t 0x00c0ffee
"""
    files = {"dmesg.txt": hang(500.0), "core.txt": core}
    a = give(unhang, files, room="core")
    t.same(a.classes, ["gpu-page-fault-unmapped"], "the kernel's log and the device core of the same hang are one incident; the core knows of the fault")
    t.same((a.first.data["gpus"][0]["pci"], a.first.value("fault_address"), [d["values"] for d in a.first.data["dumps"]]), (GPU, hex(ADDRESS), [["0xc0ffee"]]), "address and registers from the core, the GPU from the log")
    t.same(plain(give(unhang, files, ["core.txt", "dmesg.txt"], "core")), plain(a), "whichever is given first")


def test_twice(t, unhang):
    for name, text in (("dmesg.txt", kernel_fault(2000.5) + hang(2004.0)), ("server.log", program_fault(30.0))):
        once = give(unhang, {name: text}, room="once1")
        path = unhang.write(f"twice/{name}", text)
        again = unhang.explain(path, path)
        t.same((again.classes, len(again.first.timeline)), (once.classes, len(once.first.timeline)), f"{name} given twice is not two incidents")
        copy = unhang.explain(path, unhang.write(f"twice/copy-{name}", text))
        t.same((copy.classes, len(copy.first.timeline)), (once.classes, len(once.first.timeline)), f"a copy of {name} is not another incident")


def container(code, oom):
    return [{"Id": "7a" * 32, "Name": "/engine", "State": {"Status": "exited", "Running": False, "OOMKilled": oom, "ExitCode": code, "Error": "", "StartedAt": "2026-04-02T09:00:00Z", "FinishedAt": "2026-04-02T10:00:31Z"},
             "HostConfig": {"Memory": 34359738368}, "Config": {"Image": "own/image:1"}}]


OOM = "".join(f"2026-04-02T10:00:30.{n}00000+00:00 node4 kernel: {m}\n" for n, m in enumerate((
    "[drm] amdgpu kernel modesetting enabled.",
    "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker-7a7a.scope,mems_allowed=0-1,oom_memcg=/system.slice/docker-7a7a.scope,task_memcg=/system.slice/docker-7a7a.scope,task=python3,pid=7788,uid=0",
    "Memory cgroup out of memory: Killed process 7788 (python3) total-vm:99000000kB, anon-rss:33000000kB, file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:70000kB oom_score_adj:0")))


def test_container(t, unhang):
    a = give(unhang, {"dmesg.txt": OOM, "inspect.json": json.dumps(container(137, True))}, room="oom")
    t.same(set(a.classes), {"host-oom"}, "the container's OOMKilled and the kernel's oom-killer are both memory")
    found = [i.value("container") for i in a.incidents] + [i.value("pid") for i in a.incidents]
    t.ok("engine" in found and 7788 in found, "the container's name and the killed process are told", found)
    a = give(unhang, {"inspect.json": json.dumps(container(134, False)), "app.log": program_fault(30.0)}, room="abort")
    t.ok(len(a.incidents) == 1 and a.first.cls.startswith("gpu-page-fault"), "a container that aborted after a GPU fault: the fault is the cause", a.classes)


STACK = """Process 6120: python3 job.py
Python v3.11.6 (/usr/bin/python3.11)

Thread 6120 (active): "MainThread"
    synchronize (torch/cuda/__init__.py:1040)
    epoch (job.py:71)
    <module> (job.py:99)
"""

SPLITK = "bf16gemm_bf16_tn_96x64_splitk_clean"
TRANSCRIPT = f"""(gdb) info agents
  Id State Target Id                  Architecture Device Name        Cores Threads Location
* 1  A     AMDGPU Agent (GPUID 20011) gfx942       AMD Instinct MI300X 304   9728    {GPU}
(gdb) info dispatches
  Id   Target Id                      Grid      Workgroup Fence   Kernel Function
* 1    AMDGPU Dispatch 1:2:9 (PKID 40) [512,4,1] [256,1,1] B|Aa|Ra {SPLITK}
  2    AMDGPU Dispatch 1:4:6 (PKID 41) [512,4,1] [256,1,1] B|Aa|Ra {SPLITK}
(gdb) info queues
  Id   Target Id                Type         Read   Write  Size     Address
  1    AMDGPU Queue 1:2 (QID 0) HSA          118    140    1048576  0x00007e4b00600000
"""


def test_transcript(t, unhang):
    a = give(unhang, {"gdb.txt": TRANSCRIPT, "stack.txt": STACK}, room="gdb")
    t.same(a.classes, ["workspace-deadlock"], "a transcript and a py-spy dump are one incident; the deadlock is its cause")
    t.ok("epoch (job.py:71)" in a.first.values("python_frame") and SPLITK in a.first.values("kernel_name"), "with the kernel and the user's own line", a.first.values("python_frame"))
    t.same([e["role"] for e in a.first.events("host-waits")], ["effect"], "the thread that waits is an effect")
    stalled = TRANSCRIPT.replace(SPLITK, "my_loop(int*)")
    t.same(give(unhang, {"gdb.txt": stalled, "stack.txt": STACK}, room="gdb2").classes, ["silent-hang"], "a kernel that never ends, while a thread waits, is a silent hang")


def test_clocks(t, unhang):
    """A fault that two logs report tells how their clocks differ, for all logs of the second clock."""
    late = program_fault(33.0, node=5, address=ADDRESS + 0x2000000, prefix="[rank1]: ")
    files = {"dmesg.txt": kernel_fault(2000.5), "rank0.log": program_fault(30.0, prefix="[rank0]: "), "rank1.log": late}
    i = give(unhang, files, room="clocks").first
    t.same(i.data["clock"], "boot", "the kernel's clock is the one of the incident")
    t.same([round(e["time"], 3) for e in i.events("hsa-memory-fault")], [2000.5, 2003.5], "and the other rank's times are on it too")
    t.same([(r["rank"], r["role"]) for r in i.data["ranks"]], [(0, "first"), (1, "victim")], "so that the first rank is known")
    zones = {"utc.log": f"2026-04-02T08:00:30Z {program_fault(0).split('] ', 1)[1]}", "local.log": f"[2026-04-02 10:00:31] {hang_text(7)}"}
    i = give(unhang, zones, room="zones").first
    t.same(round(i.duration, 3), 1, "zones that differ by whole hours are brought together")


def hang_text(node):
    return f"HW Exception by GPU node-{node} (Agent handle: 0x5591aa20) reason :GPU Hang\n"


def test_hosts(t, unhang):
    one, two = (f"Apr  2 10:00:{s:02d} {host} kernel: amdgpu {GPU}: amdgpu: ring gfx_0.0.0 timeout, signaled seq={s}, emitted seq={s + 2}\n"
                for s, host in ((10, "node1"), (12, "node2")))
    a = give(unhang, {"one.log": one, "two.log": two}, room="hosts")
    t.same(sorted(i.data["host"] for i in a.incidents), ["node1", "node2"], "the same address on two hosts is two GPUs")


def test_copies(t, unhang):
    """Two services write down the same kernel messages, with clocks of their own."""
    wall = "".join(f"2026-04-02T10:00:30.{n}00000+00:00 node1 kernel: {line.split('] ', 1)[1]}\n" for n, line in enumerate(kernel_fault(2000.5).splitlines()))
    t.same(give(unhang, {"dmesg.txt": kernel_fault(2000.5), "syslog": wall}, room="copies").classes, ["gpu-page-fault-unmapped"], "one fault in dmesg and in syslog is one incident")
    bare = "Memory access fault by GPU node-4 (Agent handle: 0x11) on address 0x7f1200000000. Reason: Unknown.\n"
    i = give(unhang, {"a.log": bare, "b.log": bare}, room="bare").first
    t.same(sum(e["count"] for e in i.events("hsa-memory-fault")), 1, "nor is a log without times that is given twice")


def collective_timeout(second, rank):
    return (f"[rank{rank}]:[E402 10:{second // 60:02d}:{second % 60:02d}.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n")


def test_aftermath(t, unhang):
    """In one log: the ranks that are left give up minutes after the first failure; nothing else that far apart belongs together."""
    out_of_memory = f"[{stamp(30)}] torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
    for name, text, wanted in (("a rank out of memory, then a timeout", out_of_memory + collective_timeout(700, 1), ["vram-exhaustion"]),
                               ("a fault, then a timeout", program_fault(30.0) + collective_timeout(700, 1), ["gpu-page-fault-unmapped"]),
                               ("two timeouts", collective_timeout(60, 0) + collective_timeout(1200, 1), ["collective-timeout"] * 2),
                               ("two faults", program_fault(30.0) + program_fault(800.0, address=0x7e5500000000), ["gpu-page-fault-unmapped"] * 2)):
        t.same(unhang.explain_text(text).classes, wanted, f"minutes apart in one log: {name}")


def test_hardware(t, unhang):
    worn = dmesg((100.0, "@ RAS records:300 exceed threshold:256, GPU will not be initialized. Replace this GPU or increase the threshold"))
    a = give(unhang, {"dmesg.txt": worn, "server.log": program_hang()}, room="worn")
    t.same([(i.cls, i.roles) for i in a.incidents], [("ras-uncorrectable-error", [("ras-threshold", "cause"), ("hsa-hang", "effect")])],
           "a GPU that is worn out and the hang that the program was told of are one")
    ras = dmesg((9000.1, "@ 1 new uncorrectable hardware errors detected in umc block"))
    a = give(unhang, {"dmesg.txt": ras, "server.log": "HW Exception by GPU node-2 (Agent handle: 0x11) reason :ECC\n"}, room="ras")
    t.same(a.classes, ["ras-uncorrectable-error"], "the error that the kernel counted and the one that the program was told of are one")
    oom = "[ 9120.100000] Memory cgroup out of memory: Killed process 33811 (python3) total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:0kB\n"
    box = json.dumps([{"Id": "4f" * 32, "Name": "/trainer", "State": {"Running": False, "ExitCode": 137, "OOMKilled": True}, "HostConfig": {}}])
    t.same(give(unhang, {"dmesg.txt": oom, "box.json": box}, room="oom").classes, ["host-oom"], "so are the OOM killer's lines and the container that it ended")
    waves = "se0.sa0.wgp3.simd1.wave0\n   ixSQ_WAVE_STATUS: 00010c20 |  ixSQ_WAVE_PC_LO: 13e5674c |  ixSQ_WAVE_PC_HI: 00007616 |\n"
    a = give(unhang, {"dmesg.txt": hang(2004.0), "waves.txt": waves}, room="umr")
    t.same((len(a.classes), a.first.value("pc")), (1, "0x761613e5674c"), "umr's waves belong to the hang beside them")
    listed = "HSA System Attributes\nAgent 2\n  Name:                    gfx942\n  Node:                    3\n  Device Type:             GPU\n  BDFID:                   51200\n"
    i = give(unhang, {"server.log": program_fault(1, node=4), "rocminfo.txt": listed}, room="node").first
    t.same(i.data["gpus"][0]["pci"], None, "the only GPU that is listed is not the one of another node")


def test_none(t, unhang):
    """Signs without a cause, two of them and each in a text of its own, are no incident together, nor do they hide one."""
    quiet = [tap.HERE / "logs" / name / "log.txt" for name in ("quiet-java-oom", "quiet-md-guide")]
    for more, wanted in ((), []), ((tap.HERE / "logs" / "page-fault-polaris-5.10" / "log.txt",), ["gpu-page-fault-unmapped"]):
        a = unhang.explain(*quiet, *more)
        t.same((a.classes, a.complaints), (wanted, []), f"two texts without an incident and {len(more)} with one")


def test_owner_first(t, unhang):
    """A program that was told of a hang joins the kernel's incident of its own process, though another GPU's, which was reset, would fit as well."""
    ended = "E0402 10:00:30.000000 101 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 0 (pid: 6120) of binary: /usr/bin/python3\n"
    files = {"dmesg.txt": hang(2000.0, gpu="0000:45:00.0", process="other", pid=7001) + kernel_fault(2004.0, pid=6120), "server.log": program_hang() + ended}
    found = {i.cls: [event for event, _ in i.roles] for i in give(unhang, files, room="owner").incidents}
    t.same({cls: "hsa-hang" in events for cls, events in found.items()}, {"compute-ring-timeout": False, "gpu-page-fault-unmapped": True}, "what shares a process is joined first")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_one_address, test_hang, test_unrelated, test_ranks, test_timeouts, test_any_order, test_rotated, test_core, test_twice, test_container, test_transcript, test_clocks,
                 test_hosts, test_copies, test_aftermath, test_hardware, test_none, test_owner_first):
        test(t, unhang)
    t.end()


main()
