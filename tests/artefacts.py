#!/usr/bin/env python3
"""What programs, debuggers and drivers leave behind beside logs: wave dumps, transcripts, core dumps, stacks, traces, container
states, listings of GPUs. Each is made here by a small function in the tool's own format, with values of our own."""
import json
import pickle
import sys

import tap

INDEX_COPY = ("void at::native::index_elementwise_kernel<128, 4, at::native::index_copy_kernel_impl<at::native::OpaqueType<4> >"
              "(at::TensorIterator&, long, long, long)::{lambda(int)#1}>(long, at::native::index_copy_kernel_impl<at::native::OpaqueType<4> >"
              "(at::TensorIterator&, long, long, long)::{lambda(int)#1})")


def well(t, answer, name):
    """Well-formed, and no more said of it where it is."""
    if answer.complaints:
        t.no_complaints(answer.complaints, f"{name}: well-formed")
    return answer


def explain(t, unhang, name, text, file="log.txt"):
    return well(t, unhang.explain_text(text, file), name)


def explain_json(t, unhang, name, data, file="state.json"):
    return explain(t, unhang, name, data if isinstance(data, str) else json.dumps(data, indent=1), file)


def holds(t, incident, facts, name):
    """@facts by name; None is a fact that must not be there."""
    wrong = []
    for fact, value in facts.items():
        got = incident.values(fact)
        if (got if value is None else value not in got):
            wrong.append(f"{fact}: {got!r}, not {value!r}")
    return t.no_complaints(wrong, name)


def sentence(incident, event):
    found = incident.events(event)
    return found[0]["text"] if found else ""


def dump_of(incident, name, group=None):
    return next((d for d in incident.data["dumps"] if d["name"] == name and group in (None, d["group"])), None)


def quiet(t, answer, name):
    return t.same((answer.classes, answer.status), ([], 0), name)


# --- rocm-debug-agent ---

def row(names, width, values):
    return "    ".join(f"{n:>8}: {v:0{width}x}" for n, v in zip(names, values))


def wave(number=1, pc=0x7e1122004010, kernel=INDEX_COPY, reason="ASSERT_TRAP", lanes=64, exec_mask=1, vectors=None, scalars=4, local=None,
         code=None, old=False, kernargs=None, wrap=0, accum=None):
    """One wave as the agent prints it. @old: the form before kernel_code_entry; @wrap: width at which the name is wrapped."""
    head = f"wave_{number}: pc=0x{pc:x}"
    if not old:
        head += f" (kernel_code_entry=0x{pc - 0x810:x} <{kernel}>" + (f", kernargs=0x{kernargs:x}" if kernargs else "") + ")"
    head += f" (stopped, reason: {reason})" if reason else " (running)"
    if wrap:
        words, lines = head.split(" "), [""]
        for word in words:
            if len(lines[-1]) + len(word) > wrap and word[0] != ">":
                lines.append("")
            lines[-1] += (" " if lines[-1] else "") + word
        head = "\n".join(lines)
    digits = lanes // 4
    out = ["-" * 56, head, ""]
    general = ["general registers:", row(["m0"], 8, [0x5f00 + lanes]), row(["pc", "exec"], 16, [pc, exec_mask])]
    system = ["system registers:", row(["mode", "status"], 8, [0x3f0, 0x10061])]
    if old:
        system += [row(["exec", "vcc"], digits, [exec_mask, 0])]
        out += system + [""]
    out += ["scalar registers:", row([f"s{i}" for i in range(scalars)], 8, [0x100 + i for i in range(scalars)]), "", "vector registers:"]
    for name, values in (vectors or {"v0": [4 * i for i in range(lanes)]}).items():
        out.append(f"{name:>14}: " + " ".join(f"[{i}] {v & 0xffffffff:08x}" for i, v in enumerate(values)))
    if accum:
        out += ["", "accumulation vector registers:"] + [f"{n:>14}: " + " ".join(f"[{i}] {v:08x}" for i, v in enumerate(values)) for n, values in accum.items()]
    if not old:
        general[2] = f"      pc: {pc:016x}      exec: {exec_mask:0{digits}x}"
        out += [""] + system + [""] + general
    if local:
        out += ["", "Local memory content:"] + [f"    0x{8 * 4 * i:04x}: " + " ".join(f"{v:08x}" for v in local[8 * i:8 * i + 8]) for i in range((len(local) + 7) // 8)]
    if code:
        out += ["", f"Disassembly for function {kernel}:", "    code object: memory://9071#offset=0x51ab0040&size=90112", f"    loaded at: [0x{pc & ~0xfffff:x}-0x{(pc & ~0xfffff) + 0x15fff:x}]", ""]
        for offset, instruction in code:
            out.append(f"{' => ' if offset == 0 else '    '}0x{pc + offset:x} <+{0x810 + offset}>:    {instruction}")
        out += ["", "End of disassembly."]
    return "\n".join(out) + "\n"


TRAP_CODE = [(-12, "s_cbranch_execz 12"), (-4, "s_trap 2"), (0, "s_endpgm"), (4, "v_mov_b32_e32 v3, 0")]


def test_assert(t, unhang):
    """The dump at the end of the workflow that people follow by hand: which lanes, and what they hold."""
    bad = {60: 0x00003d05, 61: 0x00003d71, 62: 0x00003e10, 63: 0x00003f99}
    indices = [bad.get(i, 0x9100 + i) for i in range(64)]
    vectors = {"v0": [0x41c08000 + 4 * i for i in range(60)] + [0xb10, 0xb14, 0xb18, 0xb1c], "v1": [0x7e10] * 64, "v3": [0x2000 + 8 * i for i in range(60)] + [7, 7, 7, 7], "v4": [3] * 64, "v6": indices}
    text = ("[srv 11:02:41] Scheduled prefill batch: 7 reqs, 3110 tokens\n" +
            wave(5120, 0x7e10b7c412d4, vectors=vectors, exec_mask=0xf << 60, code=TRAP_CODE) + "Aborted (core dumped)\n")
    a = explain(t, unhang, "assert", text)
    i = a.first
    t.same((len(a.incidents), i.cls), (1, "hsa-queue-exception"), "a dump with ASSERT_TRAP is one incident")
    holds(t, i, dict(stop_reason="ASSERT_TRAP", operation="Tensor.index_copy_(dim, index, source) on a 4-byte type", library="PyTorch", lanes="60-63", waves=1, wave="5120",
                     pc="0x7e10b7c412d4", instruction="s_endpgm", instruction_before="s_trap 2", code_object="memory://9071#offset=0x51ab0040&size=90112"), "kernel, operation, reason, lanes and code of the assert")
    t.same((i.value("odd_register"), i.value("odd_lanes")), ("v6", "lanes 60-63"), "the register that counts up by one is the index, not the offset in v3 nor the address in v0:v1")
    t.same([f"[{lane}] 0x{value:x} ({value})" in i.value("odd_values") for lane, value in bad.items()], [True] * 4, "the lanes out of step with their values")
    said = json.dumps(i.data)
    t.ok("s_endpgm because" in said, "that the pc stands on s_endpgm is explained", i.cause)
    t.ok("TORCH_USE_HIP_DSA" in said, "how to get the assert's own text")
    t.ok("in lane 0" in said and "0x9100" in said, "what the other lanes do is said")
    alike = explain(t, unhang, "no odd lane", wave(3, vectors={"v6": [0x9100 + n for n in range(64)], "v4": [3] * 64}, exec_mask=0xf << 60, code=TRAP_CODE)).first
    t.same((alike.value("lanes"), alike.values("odd_register")), ("60-63", []), "where no lane is out of step, none is named")
    early = explain(t, unhang, "before the trap", wave(3, code=[(-4, "s_mov_b64 s[0:1], s[6:7]"), (0, "s_trap 2"), (4, "s_endpgm")], vectors=vectors)).first
    t.ok("s_endpgm because" not in json.dumps(early.data), "a pc that is not on s_endpgm is not explained by it")
    few = explain(t, unhang, "one of 64 active lanes", wave(3, vectors={"v2": [0x700 + n if n != 17 else 0xffffffff for n in range(64)]}, exec_mask=(1 << 64) - 1)).first
    t.same((few.value("odd_register"), few.value("odd_lanes"), few.value("lanes")), ("v2", "lane 17", "0-63"), "where all lanes are active, the few are compared with the many")
    t.ok("(-1)" in (few.value("odd_values") or ""), "a negative index is shown as one", few.values("odd_values"))


def test_wave_forms(t, unhang):
    old = explain(t, unhang, "old header", wave(7, 0x7e0000001000, reason="MEMORY_VIOLATION", old=True, kernel="vec_sum(int*, int*)", exec_mask=0xff00, code=[(-8, "global_load_dword v3, v[0:1], off"), (0, "s_waitcnt vmcnt(0)")])).first
    holds(t, old, dict(pc="0x7e0000001000", kernel_name="vec_sum(int*, int*)", stop_reason="MEMORY_VIOLATION", lanes="8-15", instruction="s_waitcnt vmcnt(0)", instruction_before="global_load_dword v3, v[0:1], off"), "the header before kernel_code_entry: the kernel is the disassembled function")
    t.ok("imprecise" in json.dumps(old.data) and "s_waitcnt is where" in json.dumps(old.data), "a memory violation: the pc is imprecise, and why")
    stopped = explain(t, unhang, "assert's pc", wave(7, reason="ASSERT_TRAP", code=TRAP_CODE)).first
    t.ok("imprecise" not in json.dumps(stopped.data), "an assert's pc is not called imprecise")
    args = explain(t, unhang, "kernargs", wave(12, 0x7d0000002040, kernel="scale_rows(float*, int)", kernargs=0x7d1200000000, reason="MEMORY_VIOLATION")).first
    holds(t, args, dict(kernel_name="scale_rows(float*, int)", pc="0x7d0000002040"), "a header with kernargs")
    wrapped = explain(t, unhang, "wrapped", wave(9, wrap=70, code=TRAP_CODE)).first
    holds(t, wrapped, dict(kernel_name=INDEX_COPY, stop_reason="ASSERT_TRAP", operation="Tensor.index_copy_(dim, index, source) on a 4-byte type"), "a name that was wrapped over lines is put together")
    for lanes, mask, wanted in ((64, 0xffffffffffffffff, "0-63"), (64, 1 << 40 | 3, "0-1, 40"), (32, 0xffffffff, "0-31"), (32, 0x80000001, "0, 31"), (64, 0xf800000000000000, "59-63")):
        for old_form in (False, True):
            i = explain(t, unhang, f"exec {mask:x}", wave(1, lanes=lanes, exec_mask=mask, old=old_form, code=TRAP_CODE)).first
            d = dump_of(i, "v0")
            t.same((i.value("lanes"), d and d["count"]), (wanted, lanes), f"wave{lanes}, exec {mask:x}{', old form' if old_form else ''}: active lanes {wanted}")
    both = explain(t, unhang, "both", wave(1, 0x7e0000001000, reason="MEMORY_VIOLATION", old=True) + wave(2, 0x7e0000009000, kernel="k2(int)", reason="ILLEGAL_INSTRUCTION")).first
    t.same(sorted(both.values("stop_reason")), ["ILLEGAL_INSTRUCTION", "MEMORY_VIOLATION"], "both forms in one log")
    several = explain(t, unhang, "reasons", wave(1, reason="ASSERT_TRAP, MEMORY_VIOLATION", code=TRAP_CODE)).first
    t.same(several.value("stop_reason"), "ASSERT_TRAP, MEMORY_VIOLATION", "two reasons of one wave are kept")
    quiet(t, explain(t, unhang, "running", "".join(wave(n, reason="") for n in range(1, 4))), "waves that only run are no incident")


def test_wave_values(t, unhang):
    local = [0xabc00000 + n for n in range(24)]
    i = explain(t, unhang, "values", wave(1, vectors={"v0": [0x500 + 3 * n for n in range(64)], "v255": [9] * 64}, scalars=4, local=local, accum={"a0": [0x3f800000 + n for n in range(64)]}, code=TRAP_CODE)).first
    got = {n: dump_of(i, n) for n in ("v0", "v255", "s3", "lds", "a0", "exec", "m0", "mode")}
    t.same([n for n, d in got.items() if not d], [], "vector, scalar, accumulation and system registers and LDS are in the dumps")
    if all(got.values()):
        t.same(([int(v, 16) for v in got["v0"]["values"]], got["v0"]["group"]), ([0x500 + 3 * n for n in range(64)], "vector"), "64 lanes of a vector register")
        t.same((got["s3"]["values"], got["s3"]["group"], got["s3"]["count"]), (["0x103"], "scalar", 1), "a scalar register")
        t.same([int(v, 16) for v in got["lds"]["values"]], local, "local memory in order")
        t.same((int(got["a0"]["values"][63], 16), got["a0"]["group"]), (0x3f80003f, "accumulation vector"), "accumulation registers are told from vector registers")
    cut = wave(1, code=TRAP_CODE).replace("[2] 00000008 [3] 0000000c", "...")
    t.same((dump_of(explain(t, unhang, "cut", cut).first, "v0") or {}).get("values", [])[1:5], ["0x4", None, None, "0x10"], "lanes that were cut out are null, the others keep their place")


def test_many_waves(t, unhang):
    def of(n):
        return wave(n, 0x7e0000001000 + 0x40 * (n % 6), kernel=("gather_rows(int*)", "scatter_rows(int*)")[n % 2], reason="MEMORY_VIOLATION", exec_mask=0xffff)
    text = "".join(of(n) for n in range(2000))
    a = explain(t, unhang, "2000 waves", text)
    groups = a.first.events("waves-stopped")
    t.same((len(a.incidents), len(groups)), (1, 6), "2,000 waves at six places are six groups of one incident")
    t.same(sorted(a.first.values("waves")), [333] * 4 + [334] * 2, "the groups count right")
    t.ok("6 different places" in json.dumps(a.first.data), "that they stopped at different places is said")
    spread = explain(t, unhang, "places", "".join(wave(n, 0x7e0000001000 + 8 * n, kernel="k(int)", reason="MEMORY_VIOLATION", lanes=32) for n in range(400))).first
    t.ok(len(spread.events("waves-stopped")) <= 12, "400 waves at 400 places are at most a dozen lines", len(spread.events("waves-stopped")))
    t.same(sum(spread.values("waves")), 400, "and none is lost in the count")
    mixed = explain(t, unhang, "stopped first", "".join(wave(n, 0x7e0000005000, reason="", kernel="idle(int)") for n in range(90)) + wave(91, 0x7e0000001000, kernel="bad(int)", reason="ILLEGAL_INSTRUCTION")).first
    t.same((mixed.value("kernel_name"), mixed.value("stop_reason")), ("bad(int)", "ILLEGAL_INSTRUCTION"), "one stopped wave among many that run is what is told")


def test_large_log(t, unhang):
    """More than 4 MB, below which every line is looked at: the fast scan must find every dump."""
    chatter = "".join(f"[2026-04-02 09:{n // 3600 % 60:02d}:{n // 60 % 60:02d}] INFO scheduler: step {n} tokens {n * 7} queue empty, nothing to report here\n" for n in range(30000))
    small = wave(77, 0x7e0000001000, kernel="first(int*)", reason="MEMORY_VIOLATION", exec_mask=0xf0, code=[(-4, "v_add_u32 v0, v1, v2"), (0, "s_waitcnt vmcnt(0)")], local=[7] * 8)
    later = wave(78, 0x7e0000002000, kernel="second(int*)", reason="MEMORY_VIOLATION", exec_mask=3)
    text = chatter + small + chatter + later + chatter
    i = explain(t, unhang, "large", text).first
    t.ok(len(chatter) > 4 << 20 >> 1 and len(text) > 4 << 20, "the log is large enough for the scan")
    t.same(sorted(set(i.values("kernel_name"))), ["first(int*)", "second(int*)"], "two dumps far apart in a large log are both read")
    holds(t, i, dict(lanes="4-7", instruction="s_waitcnt vmcnt(0)"), "with registers and code")
    t.ok(dump_of(i, "lds") and dump_of(i, "lds")["count"] == 8, "and local memory")
    wrapped = explain(t, unhang, "large, wrapped", chatter + wave(9, wrap=70, code=TRAP_CODE, vectors={"v6": [0x10 + n if n < 62 else 0x9999 for n in range(64)]}, exec_mask=3 << 62) + chatter).first
    holds(t, wrapped, dict(kernel_name=INDEX_COPY, odd_lanes="lanes 62-63", odd_register="v6"), "a wrapped name in a large log")
    table = chatter + rocgdb_dispatches([(1, "1:2:1", "bf16gemm_bf16_tn_128x64_splitk_clean", FULL), (2, "1:3:1", "bf16gemm_bf16_tn_128x64_splitk_clean", FULL)]) + chatter
    t.same(explain(t, unhang, "large, rocgdb", table).classes, ["workspace-deadlock"], "a transcript in a large log")
    core = explain(t, unhang, "large, devcoredump", chatter + devcoredump(fault=(0x7e0012340000, 0x701031)) + chatter).first
    holds(t, core, dict(ring="gfx_0.0.0", fault_address="0x7e0012340000"), "a devcoredump in a large log")
    stacks = explain(t, unhang, "large, stacks", chatter + PYSPY_WAITS + chatter)
    t.same(stacks.classes, ["silent-hang"], "a py-spy dump in a large log")


def test_interleaved(t, unhang):
    lines = wave(41, 0x7e0000001000, kernel="mix(int*)", reason="MEMORY_VIOLATION", exec_mask=0xff, local=[5] * 8, code=[(-4, "global_load_dword v3, v[0:1], off"), (0, "s_waitcnt vmcnt(0)")]).splitlines()
    noise = ["[rank3]:[2026-04-02 09:00:01] INFO waiting for batch", "(Worker_TP5 pid=811) INFO 04-02 09:00:01 heartbeat ok", "[aiter] type hints mismatch, override to --> mm(a: Tensor)"]
    out = []
    for n, line in enumerate(lines):
        out.append(line)
        if n > 2:
            out.append(noise[n % 3])
    i = explain(t, unhang, "interleaved", "\n".join(out) + "\n").first
    holds(t, i, dict(kernel_name="mix(int*)", lanes="0-7", instruction="s_waitcnt vmcnt(0)", waves=1), "lines of other ranks between those of a dump do not end it")
    t.ok(dump_of(i, "lds") and dump_of(i, "lds")["values"] == ["0x5"] * 8, "local memory is whole")
    local = next(n for n, line in enumerate(lines) if "0x0000:" in line)
    for strangers, whole in ((40, True), (41, False)):
        i = explain(t, unhang, f"{strangers} lines of others", "\n".join(lines[:local] + noise[:1] * strangers + lines[local:]) + "\n").first
        t.same(bool(dump_of(i, "lds")), whole, f"a dump {'goes on' if whole else 'has ended'} behind {strangers} lines of others")
    prefixed = "".join(f"[rank2]: {line}\n" for line in lines)
    i = explain(t, unhang, "prefixed", prefixed).first
    holds(t, i, dict(kernel_name="mix(int*)", lanes="0-7"), "a dump with the launcher's prefix is read")
    t.same([r["rank"] for r in i.data["ranks"]], [2], "and keeps its rank")


# --- rocgdb ---

FULL = "B|Aa|Ra"


def rocgdb_agents(rows):
    return "(gdb) info agents\n  Id State Target Id                  Architecture Device Name        Cores Threads Location\n" + "".join(
        f"{'*' if n == 0 else ' '} {n + 1}  A     AMDGPU Agent (GPUID {20000 + n}) {gfx}       AMD Instinct MI300X 304   9728    {pci}\n" for n, (gfx, pci) in enumerate(rows))


def rocgdb_dispatches(rows, full=False):
    out = "(gdb) info dispatches" + (" -full" if full else "") + "\n  Id   Target Id                      Grid      Workgroup Fence   " + ("Address Spaces            Kernel Desc        Kernel Args        Completion Signal  " if full else "") + "Kernel Function\n"
    for n, dispatch, kernel, fence in rows:
        more = "Shared(0), Private(64)    0x00007e00000a0000 0x00007e00000b0000 0x00007e00000c0000 " if full else ""
        out += f"{'*' if n == 1 else ' '} {n}    AMDGPU Dispatch {dispatch} (PKID {n + 40}) [4096,2,1] [256,1,1] {fence} {more}{kernel}\n"
    return out


def rocgdb_queues(rows):
    return "(gdb) info queues\n  Id   Target Id                Type         Read   Write  Size     Address\n" + "".join(
        f"  {n + 1}    AMDGPU Queue {q} (QID {n}) {kind:<12} {read:<6} {write:<6} 1048576  0x00007e4b{n:02x}600000\n" for n, (q, kind, read, write) in enumerate(rows))


def rocgdb_stop(signal, thread, frame, words="Segmentation fault"):
    return f'Thread 9 "prog" received signal {signal}, {words}.\n[Switching to thread 9{thread}]\n{frame}\n'


ON_LANE = ", lane 3 (AMDGPU Lane 1:2:1:1/3 (5,0,0)[3,0,0])"
ON_CPU = " (Thread 0x7ffff0123640 (LWP 5012))"


def test_rocgdb_tables(t, unhang):
    gemm = "bf16gemm_bf16_tn_128x64_splitk_clean"
    text = (rocgdb_agents([("gfx942", "0000:c1:00.0"), ("gfx942", "0000:c2:00.0")]) + rocgdb_dispatches([(1, "1:2:7", gemm, FULL), (2, "1:5:3", gemm, FULL)]) +
            rocgdb_queues([("1:2", "HSA", 900, 931), ("1:5", "HSA", 12, 12), ("1:7", "DMA", "", "")]))
    i = explain(t, unhang, "tables", text).first
    t.same(i.cls, "workspace-deadlock", "two split-K kernels on different queues with full fences wait for each other")
    holds(t, i, dict(grid="4096,2,1", workgroup="256,1,1", fence=FULL, queue="1:5", dispatch="1:2:7", packet="41", kernel_name=gemm, library="AITER (assembly)"), "rows of info dispatches")
    t.same((i.values("pending"), i.values("read_index"), i.values("write_index")), ([31], [900], [931]), "info queues: what is written and not read; others say nothing")
    t.ok("stream" in i.cause["explanation"] and "real fix" in i.cause["explanation"], "the real fix is named", i.cause["explanation"])
    kinds = {r["id"]: r["kind"] for r in i.data["remedies"]}
    t.same((kinds.get("workspace-per-stream"), kinds.get("serialise-streams-not-to-ship")), ("cure", "workaround"), "a workspace for each stream is the cure, waiting of streams only a workaround")
    full = explain(t, unhang, "-full", rocgdb_dispatches([(1, "1:2:7", gemm, FULL), (2, "1:5:3", gemm, FULL)], full=True)).first
    t.same((full.cls, set(full.values("kernel_name"))), ("workspace-deadlock", {gemm}), "info dispatches -full")
    for name, rows in (("one queue", [(1, "1:2:7", gemm, FULL), (2, "1:2:8", gemm, FULL)]), ("no fence", [(1, "1:2:7", gemm, " |  |  "), (2, "1:5:3", gemm, " |  |  ")]),
                       ("one alone", [(1, "1:2:7", gemm, FULL)]), ("no split-K", [(1, "1:2:7", "saxpy(int, float*)", FULL), (2, "1:5:3", "saxpy(int, float*)", FULL)]),
                       ("one with a fence", [(1, "1:2:7", gemm, FULL), (2, "1:5:3", gemm, "B|  |  ")])):
        t.ok("workspace-deadlock" not in explain(t, unhang, name, rocgdb_dispatches(rows)).classes, f"no deadlock of a workspace: {name}")
    three = explain(t, unhang, "acquire at system scope", rocgdb_dispatches([(1, "1:2:7", gemm, "B|As|Rs"), (2, "1:5:3", gemm, "B|As|Rs")]))
    t.same(three.classes, ["workspace-deadlock"], "fences of system scope are full, too")
    quiet(t, explain(t, unhang, "busy", rocgdb_agents([("gfx1100", "0000:03:00.0")]) + rocgdb_dispatches([(1, "1:1:1", "saxpy(int, float*)", FULL)])), "a kernel in flight alone is no incident")
    quiet(t, explain(t, unhang, "idle queues", rocgdb_queues([("1:1", "HSA", 5, 5), ("1:2", "HSA", 77, 77)])), "queues without work are no incident")


def test_rocgdb_empty(t, unhang):
    for name, text, more in (("no dispatches", "(gdb) info dispatches\nNo dispatches are currently active.\n", ""),
                             ("all three", "(gdb) info agents\nNo agents are currently active.\n(gdb) info dispatches\nNo dispatches are currently active.\n(gdb) info queues\nNo queues are currently active.\n", ""),
                             ("agents only", rocgdb_agents([("gfx942", "0000:c1:00.0")]) + "(gdb) info dispatches\nNo dispatches are currently active.\n", "")):
        a = explain(t, unhang, name, text)
        quiet(t, a, f"{name}: no incident")
        notes = a.document.get("notes", [])
        t.ok(any("debug" in n["text"].lower() and ("process" in n["text"] or "worker" in n["text"]) for n in notes), f"{name}: but a note on the wrong process or the debug agent", notes)
    a = explain(t, unhang, "dispatches there", rocgdb_dispatches([(1, "1:1:1", "saxpy(int, float*)", FULL)]) + "(gdb) info queues\nNo queues are currently active.\n")
    t.same([n for n in a.document.get("notes", []) if n["event"] == "debugger-sees-nothing"], [], "where it saw a dispatch, it did not see nothing")


def test_rocgdb_stops(t, unhang):
    frame = "0x00007fffe1402a40 in stencil3 (out=0x7fff00000000, n=900) at heat.hip:88"
    for signal, words, cls in (("SIGSEGV", "Segmentation fault", "gpu-page-fault-unmapped"), ("SIGBUS", "Bus error", "memory-aperture-violation"), ("SIGABRT", "Aborted", "hsa-queue-exception"), ("SIGILL", "Illegal instruction", "illegal-opcode-or-instruction")):
        i = explain(t, unhang, signal, rocgdb_stop(signal, ON_LANE, frame, words)).first
        t.same(i.cls, cls, f"{signal} on a wave is {cls}")
        holds(t, i, dict(signal=signal, kernel_name="stencil3", source_line="heat.hip:88", pc="0x7fffe1402a40", process="prog"), f"{signal}: kernel, line and pc")
        quiet(t, explain(t, unhang, f"{signal} on a CPU", rocgdb_stop(signal, ON_CPU, "0x0000555555551234 in main () at main.cpp:10", words)), f"{signal} on a CPU thread is no GPU incident")
    warned = explain(t, unhang, "imprecise", rocgdb_stop("SIGSEGV", ON_LANE, 'Warning: precise memory violation signal reporting is not enabled, reported\nlocation may not be accurate.  See "show amdgpu precise-memory".\n' + frame))
    t.ok(warned.first.value("precise") == "no" and "imprecise" in json.dumps(warned.first.data), "gdb's warning that the place is not exact is kept", warned.first.values("precise"))
    quiet(t, explain(t, unhang, "breakpoint", "Thread 9 hit Breakpoint 1, with lanes [0-63], stencil3 (n=900) at heat.hip:88\n[Switching to thread 9, lane 0 (AMDGPU Lane 1:2:1:1/0 (0,0,0)[0,0,0])]\n" + frame + "\n"), "a breakpoint is no incident")
    threads = rocgdb_stop("SIGSEGV", ON_LANE, frame) + "(gdb) info threads\n  Id   Target Id                                 Frame\n  1    Thread 0x7ffff0123640 (LWP 5012) \"prog\" 0x00007ffff11 in ioctl () from /lib64/libc.so.6\n" + "".join(
        f'{"*" if n == 0 else " "} {n + 2}    AMDGPU Wave 1:2:1:{n + 1} ({n},0,0)/0 "prog"     {frame}\n' for n in range(40)) + \
        '  99   AMDGPU Wave 1:2:1:99 (98,0,0)/0 "prog"     0x00007fffe1402b00 in stencil3 (n=900) at heat.hip:91\n'
    i = explain(t, unhang, "threads", threads).first
    t.same(sorted(i.values("waves")), [1, 40], "the waves of info threads are counted by place")


def test_rocgdb_around(t, unhang):
    """What stands around a stop: the GPU that info agents names, and lines of others in between."""
    stop = rocgdb_stop("SIGSEGV", ON_LANE, "0x00007fffe1402a40 in stencil3 (n=900) at heat.hip:88")
    for named, pci in (("0000:c1:00.0", "0000:c1:00.0"), ("c1:00.0", "0000:c1:00.0")):
        gpu = explain(t, unhang, f"one agent at {named}", rocgdb_agents([("gfx942", named)]) + stop).first.data["gpus"][0]
        t.same((gpu["pci"], gpu["gfx"], gpu["name"]), (pci, "gfx942", "AMD Instinct MI300X"), f"info agents: the GPU at {named}")
    head, _, rest = stop.partition("\n")
    fault = "Memory access fault by GPU node-2 (Agent handle: 0x55aa10) on address 0x7e0044000000. Reason: Page not present or supervisor privilege."
    i = explain(t, unhang, "a line between", "\n".join((head, fault, rest))).first
    t.same((sorted(kind for kind, _ in i.roles), i.values("signal")), (["hsa-memory-fault", "wave-signal"], ["SIGSEGV"]), "a line of the runtime between a signal and its frame is not lost")


# --- devcoredump ---

def devcoredump(fault=None, latched=None, ring="gfx_0.0.0", new=False, process="render_job", pid=3301, ib=True, kernel="6.12.9-test"):
    """@fault: address and status of the record, which the driver writes with zeros where there was none."""
    address, status = fault or (0, 0)
    who = f"{process} TGID: {pid} thread: {process}:cs0 PID: {pid + 9}" if new else f"{process} PID: {pid}"
    out = f"""**** AMDGPU Device Coredump ****
version: 1
kernel: {kernel}
module: amdgpu
time: 512.250000000
process_name: {who}
"""
    out += """
SOC Information
SOC Device id: 29772
SOC PCI Revision id: 200

SOC Memory Information
real vram size: 25753026560

HW IP Version Information
HWIP: GC[1][0]: v11.0.0.0.0
"""
    if new:
        out += "\nHW IP Discovery\ndie 0\nhw_id 11 GC\n\tinstance 0\n\tmajor 11\n\tbase_addr[0] 0x00001260\n"
    out += f"""
IP Firmwares
VCE feature version: 0, fw version: 0x00000000
ME feature version: 35, fw version: 0x00000955
RLC SRLC feature version: 1, fw version: 0x00000071
MES feature version: 1, fw version: 0x0000005c

VBIOS Information
vbios name       : OWN TEST

Ring timed out details
IP Type: 0 Ring Name: {ring}

[gfxhub] Page fault observed
Faulty page starting at address: 0x{address:016x}
Protection fault status register: 0x{status:x}

IP Dump
IP: gfx_v11_0
regGRBM_STATUS                                     	 0xa1b2c3d4
regCP_RB0_RPTR                                     	 0x00000021
"""
    if latched is not None:
        out += f"regGCVM_L2_PROTECTION_FAULT_STATUS                 	 0x{latched:08x}\n"
    out += "\nnum_mec: 1 num_pipe: 4 num_queue: 4\nmec 0, pipe 1, queue 2\nregCP_HQD_ACTIVE                                   	 0x00000001\n"
    out += f"\nRing buffer information\nring name: {ring}\nRptr: 0x21 Wptr: 0x25 RB mask: fff\nRing size in dwords: 4096\nRing contents\nOffset \t Value\n"
    out += "".join(f"0x{4 * n:x} \t 0x{0xc0110000 + n:x}\n" for n in range(6))
    if ib:
        out += "\nIB #0 0x800002d10000 3 dw\n0xc0012800\n0x80000001\n0x80000002\n"
    return out


def test_devcoredump(t, unhang):
    for new in (False, True):
        form = "7.x" if new else "6.12"
        zero = explain(t, unhang, form, devcoredump(new=new)).first
        t.same((zero.cls, zero.events("page-fault")), ("gfx-ring-timeout", []), f"{form}: a fault record of zeros is none")
        holds(t, zero, dict(ring="gfx_0.0.0", process="render_job", pid=3301, kernel="6.12.9-test", fw_me="0x955", fw_mes="0x5c", fw_rlc_srlc="0x71", fw_vce=None), f"{form}: ring, process, kernel and firmware")
        found = explain(t, unhang, form, devcoredump(fault=(0x800104b00000, 0x701431), new=new)).first
        t.same((found.cls, [e["role"] for e in found.events("ring-timeout")]), ("gpu-page-fault-unmapped", ["effect"]), f"{form}: a fault record is the cause of the timeout")
        holds(t, found, dict(fault_address="0x800104b00000", fault_status="0x701431", hub="gfxhub"), f"{form}: address and status of the fault")
        latched = explain(t, unhang, form, devcoredump(latched=0x701431, new=new)).first
        t.same((latched.values("fault_status"), latched.values("fault_address")), (["0x701431"], []), f"{form}: the register that still holds a fault wins over a record of zeros")
        for idle in (0, 0xffffffff):
            t.same(explain(t, unhang, form, devcoredump(latched=idle, new=new)).first.events("page-fault"), [], f"{form}: a fault register of {idle:#x} is none")
        got = {name: dump_of(zero, name) for name in ("regGRBM_STATUS", "regCP_HQD_ACTIVE", "gfx_0.0.0", "#0", "0")}
        t.same((got["regGRBM_STATUS"] or {}).get("values"), ["0xa1b2c3d4"], f"{form}: registers are kept by name and value")
        t.ok(got["regGRBM_STATUS"] and got["regGRBM_STATUS"]["group"] == "gfx_v11_0", f"{form}: with their block", got)
        t.ok(got["regCP_HQD_ACTIVE"] and "queue 2" in got["regCP_HQD_ACTIVE"]["group"], f"{form}: those of a queue with the queue", got["regCP_HQD_ACTIVE"])
        t.same((got["gfx_0.0.0"] or {}).get("values"), [f"0x{0xc0110000 + n:x}" for n in range(6)], f"{form}: the ring's contents")
        ib = dump_of(zero, "0", "ib")
        t.same(ib and (ib["address"], ib["values"]), ("0x800002d10000", ["0xc0012800", "0x80000001", "0x80000002"]), f"{form}: the IB with its address")
    # GRBM_STATUS: SPI, CP and GUI busy; CP_CPC_STATUS: MEC 1 busy; CP_CPC_BUSY_STAT: it waits until all waves have ended.
    busy = devcoredump(ring="comp_1.1.0").replace("0xa1b2c3d4", "0xa0403028").replace(
        "regCP_RB0_RPTR ", "regCP_CPC_STATUS    \t 0x80000001\nregCP_CPC_BUSY_STAT    \t 0x00000200\nregCP_RB0_RPTR ")
    state = explain(t, unhang, "busy units", busy).first
    t.same([e["role"] for e in state.events("gpu-units")], ["effect"], "the state of the blocks is told beside the timeout")
    holds(t, state, dict(busy_units="CPC, SPI"), "which blocks were busy")
    t.ok("the wave launcher (SPI), the compute command processor (MEC)" in state.values("waits_chain")[0], "the chain of units that waited for each other is told", state.values("waits_chain"))
    new = explain(t, unhang, "thread", devcoredump(new=True)).first
    holds(t, new, dict(thread="render_job:cs0", tid=3310), "7.x: the thread that submitted")
    nobody = explain(t, unhang, "no process", devcoredump(process="", pid=0)).first
    t.same((nobody.values("pid"), nobody.values("process")), ([], []), "pid 0 without a name is no process")
    old = "AMDGPU Device Coredump\nversion: 1\nkernel: 6.6.31-test\nmodule: amdgpu\ntime: 812.330201\nprocess_name: render_job PID: 3301\nring name: comp_1.0.1\nVRAM is lost due to GPU reset!\n"
    found = explain(t, unhang, "older form", old).first
    holds(t, found, dict(process="render_job", pid=3301, ring="comp_1.0.1", vram_lost=True), "the older form has its process and ring")
    t.same((found.cls, found.events("silicon-idle")), ("compute-ring-timeout", []), "a name of a ring says nothing of its state")
    reset = explain(t, unhang, "older form without a ring", old.replace("ring name: comp_1.0.1\n", "")).first
    holds(t, reset, dict(process="render_job", pid=3301), "a reset without a ring has its process")
    null = explain(t, unhang, "address zero", devcoredump(fault=(0, 0x701431)).replace("starting at address:", "starting at address")).first
    t.same((null.cls, null.values("fault_address")), ("gpu-null-pointer-fault", ["0x0"]), "with a status the address zero was used")
    t.same(explain(t, unhang, "compute", devcoredump(ring="comp_1.1.0")).first.cls, "compute-ring-timeout", "the ring says which kind of work")
    quiet(t, explain(t, unhang, "no ring", devcoredump().split("Ring timed out details")[0] + "IP Dump\nIP: gfx_v11_0\nregGRBM_STATUS    \t 0x00003028\n"), "a dump that was taken by hand, without a ring, is no incident")


# --- stacks ---

PYSPY_WAITS = """Process 8120: python3 run_epoch.py --lr 1e-4
Python v3.11.6 (/usr/bin/python3.11)

Thread 8120 (active): "MainThread"
    synchronize (torch/cuda/__init__.py:1040)
    validate (run_epoch.py:311)
    <module> (run_epoch.py:402)
"""

PYSPY_IDLE = """Process 8120: python3 serve.py
Python v3.11.6 (/usr/bin/python3.11)

Thread 8120 (idle): "MainThread"
    select (selectors.py:468)
    run_forever (asyncio/base_events.py:608)
    <module> (serve.py:12)
Thread 8155 (idle): "Thread-1 (_read_thread)"
    _recv_msg (torch/_inductor/compile_worker/subproc_pool.py:57)
    _read_thread (torch/_inductor/compile_worker/subproc_pool.py:193)
    run (threading.py:982)
"""

GDB_BACKGROUND = """Thread 2 (Thread 0x7f11aa0006c0 (LWP 902) "python3"):
#0  0x00007f11bb0462ab in ioctl () from /lib64/libc.so.6
#1  0x00007f11bc707d78 in hsakmt_ioctl () from /opt/rocm/lib/libhsa-runtime64.so.1
#2  0x00007f11bc70097d in hsaKmtWaitOnMultipleEvents_Ext () from /opt/rocm/lib/libhsa-runtime64.so.1
#3  0x00007f11bc68f7a5 in rocr::core::InterruptSignal::WaitRelaxed(hsa_signal_condition_t, long) () from /opt/rocm/lib/libhsa-runtime64.so.1
#4  0x00007f11bc66eac3 in rocr::core::Runtime::AsyncEventsLoop(void*) () from /opt/rocm/lib/libhsa-runtime64.so.1
"""

GDB_WAITS = """Thread 1 (Thread 0x7f11bd0a9740 (LWP 900) "python3"):
#0  0x00007f11bc64f98d in rocr::core::InterruptSignal::WaitRelaxed(hsa_signal_condition_t, long, unsigned long, hsa_wait_state_t) () from /opt/rocm/lib/libhsa-runtime64.so.1
#1  0x00007f11bc64f7fa in rocr::HSA::hsa_signal_wait_scacquire () from /opt/rocm/lib/libhsa-runtime64.so.1
#2  0x00007f11be10ab11 in hipMemcpyAsync () from /opt/rocm/lib/libamdhip64.so.7
#3  0x00007f11bf000000 in at::native::_local_scalar_dense_cuda(at::Tensor const&) () from /opt/torch/lib/libtorch_hip.so
"""

FAULTHANDLER = """Fatal Python error: Aborted

Thread 0x00007f072ff8e6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f0730dd2b80 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line 1040 in synchronize
  File "/home/u/run_epoch.py", line 311 in validate
  File "/home/u/run_epoch.py", line 402 in <module>
"""


def test_stacks(t, unhang):
    i = explain(t, unhang, "py-spy", PYSPY_WAITS).first
    t.same(i.cls, "silent-hang", "py-spy: a thread that waits for the GPU")
    holds(t, i, dict(waits_in="synchronize", pid=8120, process="python3", thread="MainThread", python_frame="validate (run_epoch.py:311)"), "py-spy: process, thread, call and the user's own frame")
    quiet(t, explain(t, unhang, "py-spy, idle", PYSPY_IDLE), "py-spy: a server that waits for requests is healthy")
    peers = explain(t, unhang, "py-spy, peers", PYSPY_WAITS.replace("synchronize (torch/cuda/__init__.py:1040)", "all_reduce (torch/distributed/distributed_c10d.py:2810)"))
    t.same([e["event"] for e in peers.first.timeline], ["host-waits-peer"], "py-spy: a thread in a collective waits for its peers, not for the GPU")
    i = explain(t, unhang, "faulthandler", FAULTHANDLER.replace("Fatal Python error: Aborted", "Timeout (0:05:00)!")).first
    holds(t, i, dict(waits_in="synchronize", python_frame="validate (/home/u/run_epoch.py:311)"), "faulthandler: the frame that waits")
    t.same(len(i.events("host-waits")), 1, "faulthandler: the pool's thread is not one of them")
    i = explain(t, unhang, "gdb", GDB_BACKGROUND + GDB_WAITS).first
    t.same((i.cls, i.values("waits_in"), i.values("thread")), ("silent-hang", ["hipMemcpyAsync"], ["python3"]), "gdb: the call that the program made, and only that thread")
    quiet(t, explain(t, unhang, "gdb, background", GDB_BACKGROUND), "gdb: the runtime's own threads are healthy while they wait")
    t.same(explain(t, unhang, "gdb, both", GDB_WAITS + GDB_BACKGROUND).first.values("waits_in"), ["hipMemcpyAsync"], "gdb: in any order of threads")


# --- Flight Recorder ---

def flight(seqs, state="completed", last="all_reduce", group=("0", "default_pg"), base=1765000000):
    """@seqs completed ones, then what is pending with its state."""
    def entry(seq, status, name):
        return {"record_id": seq, "pg_id": 0, "process_group": list(group), "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"nccl:{name}",
                "time_created_ns": (base + seq) * 10**9, "input_sizes": [[64]], "output_sizes": [[64]], "state": status, "is_p2p": False, "retired": status == "completed", "timeout_ms": 600000}
    done, pending = seqs
    entries = [entry(n, "completed", "all_gather") for n in range(1, done + 1)] + [entry(n, state, last) for n in range(done + 1, pending + 1)]
    return {"version": "2.5", "pg_config": {group[0]: {"name": group[0], "desc": group[1], "ranks": "[0, 1, 2, 3]"}}, "entries": entries}


def test_stacks_json(t, unhang):
    dump = [{"pid": 6120, "thread_id": 1, "thread_name": "MainThread", "active": True, "owns_gil": False, "frames": [
        {"name": "synchronize", "filename": "/x/torch/cuda/__init__.py", "short_filename": "torch/cuda/__init__.py", "line": 1040},
        {"name": "epoch", "filename": "/work/job.py", "short_filename": "job.py", "line": 71}]}]
    i = well(t, unhang.explain(unhang.write("stack.json", json.dumps(dump))), "py-spy's JSON").first
    t.same((i.cls, i.value("pid"), i.value("python_frame")), ("silent-hang", 6120, "epoch (job.py:71)"), "py-spy's JSON is read like its text")


def test_arrows(t, unhang):
    for arrow in ("->", "=>", "→"):
        stack = explain(t, unhang, arrow, f" {arrow} ".join(["main", "train_step()", "at::cuda::synchronize", "hipStreamSynchronize", "rocr::core::InterruptSignal::WaitRelaxed"]) + "\n").first
        holds(t, stack, dict(waits_in="hipStreamSynchronize"), f"a stack written with {arrow}")
    quiet(t, explain(t, unhang, "prose", "first I installed ROCm -> then I rebooted -> hipStreamSynchronize hung\n"), "prose with arrows is no stack")
    cl = "#0  0x00007f0000001000 in __new_sem_wait_slow ()\n#1  0x00007f0000002000 in amd::Monitor::wait() () from /opt/rocm/lib/libamdocl64.so\n" \
         "#2  0x00007f0000003000 in amd::HostQueue::HostQueue(amd::Context&) () from /opt/rocm/lib/libamdocl64.so\n" \
         "#3  0x00007f0000004000 in clCreateCommandQueue () from /opt/rocm/lib/libamdocl64.so\n#4  0x0000000000401000 in main ()\n"
    holds(t, explain(t, unhang, "OpenCL", cl).first, dict(waits_in="clCreateCommandQueue"), "a thread that waits for its OpenCL queue")


def test_last_dispatch(t, unhang):
    line = ":3:rocvirtual.cpp           :3028: {} us: [pid:{}   tid:0x7f2072d6c8c0] {}\n"
    trace = line.format(100200300, 512, "ShaderName : first_kernel(float*)") + line.format(100300300, 512, "ShaderName : second_kernel(float*)")
    abort = line.format(100400500, 512, "Callback: Queue 0x7f1f70600000 aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond the largest legal address. code: 0x29")
    holds(t, explain(t, unhang, "trace", trace + abort).first, dict(kernel_name="second_kernel(float*)"), "the last dispatch names the kernel")
    t.same(explain(t, unhang, "another's", trace + abort.replace("pid:512", "pid:513")).first.values("kernel_name"), [], "the kernel of another process is not named")
    quiet(t, explain(t, unhang, "no failure", trace), "dispatches alone are no incident")


def test_flight_recorder(t, unhang):
    def traces(of, name="nccl_trace_rank_{}"):
        return [unhang.write(f"fr/{name.format(rank)}", json.dumps(flight(seqs, "started"))) for rank, seqs in of.items()]
    a = well(t, unhang.explain(*traces({0: (8, 9), 1: (8, 9), 2: (7, 7), 3: (8, 9)})), "flight")
    i = a.first
    t.same((a.classes, i.value("lagging_ranks")), (["collective-timeout"], "2"), "four traces: the rank that never joined is named")
    t.same({r["rank"]: r["role"] for r in i.data["ranks"]}, {0: "victim", 1: "victim", 2: "first", 3: "victim"}, "it is the first, the others its victims")
    t.same({r["rank"]: (r["enqueued"], r["completed"]) for r in i.data["ranks"]}, {0: (9, 8), 1: (9, 8), 2: (7, 7), 3: (9, 8)}, "what each rank enqueued and completed")
    t.ok("all_reduce" in [r["collective"] for r in i.data["ranks"]], "the operation that did not end", i.data["ranks"])
    printed = well(t, unhang.explain(unhang.write("fr/printed_2", repr(flight((7, 8), "started")))), "flight, printed by Python").first
    holds(t, printed, dict(rank=2, pending_seq=8, state="started"), "a trace that Python printed")
    report = explain(t, unhang, "torchfrtrace", "Not all ranks joining collective: sequence number: 812\ninternal record id: 811\ngroup info: 0:default_pg\n"
                     "collective: nccl:all_gather\nmissing ranks: {3, 5}\ncollective state: scheduled\n").first
    t.same(report.cls, "collective-timeout", "torchfrtrace's report")
    holds(t, report, dict(seq=812, lagging="3, 5"), "the ranks that did not come")
    for protocol in (2, 3, 4, 5):
        for rank, seqs in {0: (8, 9), 1: (8, 9), 2: (7, 7), 3: (8, 9)}.items():
            unhang.write(f"pickled{protocol}/trace_{rank}", pickle.dumps(flight(seqs, "started"), protocol))
        pickled = well(t, unhang.explain(unhang.directory / f"pickled{protocol}"), f"pickles of protocol {protocol}").first
        t.same((pickled.cls, pickled.data["ranks"]), (i.cls, i.data["ranks"]), f"pickles of protocol {protocol} say the same as JSON")
    a = well(t, unhang.explain(*traces({0: (8, 9), 1: (8, 9)}, "trace_{}.json")), "flight, in step")
    t.same((a.first.cls, a.first.values("lagging_ranks")), ("collective-timeout", []), "all ranks at the same operation: none lags")
    a = well(t, unhang.explain(*traces({0: (9, 9), 1: (9, 9)}, "done_{}.json")), "flight, done")
    quiet(t, a, "traces in which everything completed are no incident")


# --- containers ---

def docker(code, oom=False, running=False, podman=False, memory=68719476736, error="", name="/trainer"):
    c = {"Id": "5e" * 32, "Name": name, "State": {"Status": "running" if running else "exited", "Running": running, "OOMKilled": oom, "ExitCode": code, "Error": error, "StartedAt": "2026-04-02T08:00:00.5Z",
                                                  "FinishedAt": "0001-01-01T00:00:00Z" if running else "2026-04-02T09:30:00.25Z"},
         "HostConfig": {"Memory": memory, "ShmSize": 67108864}, "Config": {"Image": "own/image:1", "Env": ["PATH=/bin"]}}
    if podman:
        c["ImageName"] = "own/image:1"
        c["State"]["OciVersion"] = "1.2.0"
    return [c]


def pod(code, reason, last=True, running=False):
    ended = {"terminated": {"exitCode": code, "reason": reason, "startedAt": "2026-04-02T08:00:00Z", "finishedAt": "2026-04-02T09:30:00Z"}}
    state = {"running": {"startedAt": "2026-04-02T09:31:00Z"}} if running else {"waiting": {"reason": "CrashLoopBackOff"}} if last else ended
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "serve-0"}, "spec": {"nodeName": "gpu-node-4", "containers": [{"name": "engine"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "engine", "image": "own/image:1", "restartCount": 2, "state": state, "lastState": ended if last else {}}]}}


def test_containers(t, unhang):
    for podman in (False, True):
        tool = "podman" if podman else "docker"
        i = explain_json(t, unhang, tool, docker(137, oom=True, podman=podman)).first
        t.same(i.cls, "host-oom", f"{tool}: 137 with OOMKilled is memory")
        holds(t, i, dict(exit_code=137, container="trainer", memory_limit=68719476736, image="own/image:1", oom_killed="true"), f"{tool}: container, limit, image")
        a = explain_json(t, unhang, tool, docker(137, podman=podman))
        t.ok("host-oom" not in a.classes, f"{tool}: 137 without OOMKilled is not called memory", a.classes)
        quiet(t, explain_json(t, unhang, tool, docker(0, podman=podman)), f"{tool}: a container that ended well")
        quiet(t, explain_json(t, unhang, tool, docker(0, running=True, podman=podman)), f"{tool}: a container that runs")
    i = explain_json(t, unhang, "pod", pod(137, "OOMKilled")).first
    t.same(i.cls, "host-oom", "Kubernetes: the last state's OOMKilled is memory")
    holds(t, i, dict(exit_code=137, container="serve-0/engine", host="gpu-node-4"), "Kubernetes: pod, container and node")
    t.same(explain_json(t, unhang, "pod, now", pod(137, "OOMKilled", last=False)).classes, ["host-oom"], "Kubernetes: the present state, too")
    quiet(t, explain_json(t, unhang, "pod, well", pod(0, "Completed", last=False)), "Kubernetes: a pod that completed")
    several = {"apiVersion": "v1", "kind": "List", "items": [pod(0, "Completed", last=False), pod(137, "OOMKilled")]}
    t.same(explain_json(t, unhang, "list", several).classes, ["host-oom"], "Kubernetes: a list of pods")
    for code, words in ((139, "SIGSEGV"), (134, "SIGABRT")):
        a = explain_json(t, unhang, str(code), docker(code))
        t.ok("host-oom" not in a.classes, f"{code} is not memory", a.classes)
        said = json.dumps(a.document)
        t.ok(words in said, f"{code} is told as {words}", said[-600:])


# --- kernel API logs ---

def api_tensor(shape, level, nan=0, inf=0, indent=6):
    rows = [f"shape={shape}", "dtype=torch.bfloat16", "device=cuda:0", "requires_grad=False", "is_contiguous=True"]
    if level >= 5:
        rows += ["min=-2.500000", "max=3.000000", "mean=0.001000", f"nan_count={nan}", f"inf_count={inf}"]
    return "\n".join(" " * indent + r for r in rows)


def api_call(name, level, second, ends=True, nan=0, inf=0, flash=False):
    mark = "FlashInfer API Call" if flash else "SGLang Kernel API Call"
    dump = f"/dumps/20260402_0900{second:02d}_pid77_{name}_call0001"
    out = ""
    if level >= 10 and flash:
        out += f"Dumped inputs to: {dump}\n"
    if not (flash and level == 1):
        out += "=" * 80 + "\n"
    out += f"[2026-04-02 09:00:{second:02d}] {mark}: {name}\n"
    if level >= 3:
        out += ("-" * 80 + "\n" if flash else "") + "Positional input arguments:\n"
        out += f"  arg[0]{':' if flash else '=Tensor('}\n" + ("    Tensor(\n" if flash else "") + api_tensor("(48, 5120)", level, nan, inf) + "\n    )\n"
    if level >= 10 and not flash:
        out += f"Dumped inputs to: {dump}\n"
    if level >= 3 and ends:
        out += ("Output value:\n  Tensor(\n" if flash else "Output:\n  return=Tensor(\n") + api_tensor("(48, 64)", level) + "\n    )\n"
    return out


def test_kernel_api(t, unhang):
    for flash in (False, True):
        tool = "FlashInfer" if flash else "SGLang"
        for level in (1, 3, 5) if flash else (1, 3, 5, 10):
            text = api_call("norm.forward", level, 1, flash=flash) + api_call("moe.apply", level, 2, ends=False, nan=11 if level >= 5 else 0, inf=4 if level >= 5 else 0, flash=flash)
            text += "[2026-04-02 09:00:03] Memory access fault by GPU node-2 (Agent handle: 0x55aa10) on address 0x7e0044000000. Reason: Page not present or supervisor privilege.\n"
            i = explain(t, unhang, f"{tool} {level}", text).first
            wanted = dict(api_call="moe.apply", fault_address="0x7e0044000000")
            if level >= 3:
                wanted.update(shapes="(48, 5120):bfloat16", api_returned="no")
            else:
                wanted.update(api_returned="unknown")
            if level >= 5:
                wanted.update(nan_count=11, inf_count=4)
            if level >= 10:
                wanted.update(dump="/dumps/20260402_090002_pid77_moe.apply_call0001")
            holds(t, i, wanted, f"{tool} at level {level}: the last call before the end")
        healthy = api_call("norm.forward", 5, 1, flash=flash) + api_call("moe.apply", 5, 2, flash=flash)
        quiet(t, explain(t, unhang, f"{tool}, healthy", healthy), f"{tool}: calls that all return are no incident")


def test_api_exceptions(t, unhang):
    """What a call raised is told of it, and is no event beside it; what its arguments were, where they are odd."""
    raised = "[2026-04-02 09:00:03] SGLang Kernel API Exception: RuntimeError: HIP error: an illegal memory access was encountered\n"
    later = raised.replace("an illegal memory access was encountered", "unspecified launch failure")
    fault = "[2026-04-02 09:00:04] Memory access fault by GPU node-2 (Agent handle: 0x55aa10) on address 0x7e0044000000. Reason: Page not present or supervisor privilege.\n"
    last = api_call("moe.apply", 5, 2, ends=False)
    i = explain(t, unhang, "exception", api_call("norm.forward", 5, 1) + last + raised + later + fault).first
    t.same(i.values("exception"), ["RuntimeError: HIP error: an illegal memory access was encountered"], "the first exception of a call counts")
    t.same(i.roles, [("api-last-call", "effect"), ("hsa-memory-fault", "cause")], "an exception is no event of its own")
    for dtype, low, high, wanted in (("int64", -2, 5, ["-2 to 5"]), ("int64", -1, 1000000, []), ("int32", 0, 1000001, ["0 to 1000001"]), ("bfloat16", -2, 1000001, [])):
        odd = last.replace("torch.bfloat16", f"torch.{dtype}").replace("min=-2.500000", f"min={low}").replace("max=3.000000", f"max={high}")
        t.same(explain(t, unhang, f"{dtype} {low} {high}", odd + raised + fault).first.values("odd_range"), wanted, f"{dtype} from {low} to {high}")
    for more, wanted in (("      statistics=[unavailable: the device does not answer]\n", ["yes"]), ("", [])):
        t.same(explain(t, unhang, f"statistics {wanted}", last + more + raised + fault).first.values("api_poisoned"), wanted, f"tensors that cannot be read: {wanted}")


def test_api_dumps(t, unhang):
    meta = {"function_name": "quant.apply", "timestamp": "20260402_090002_100", "process_id": 4410, "execution_status": "inputs_saved", "input_metadata": {}, "dump_dir": "/dumps/x",
            "tensor_details": {"arg_0": {"shape": [16, 4096], "dtype": "torch.float8_e4m3fn"}}}
    a = explain_json(t, unhang, "open dump", meta, "metadata.json")
    holds(t, a.first, dict(api_call="quant.apply", pid=4410, execution_status="inputs_saved"), "a dump whose call did not end: inputs without outputs")
    quiet(t, explain_json(t, unhang, "closed", dict(meta, execution_status="completed"), "metadata.json"), "a dump whose call ended is no incident")
    lines = json.dumps(meta) + "\n" + json.dumps(dict(meta, execution_status="completed")) + "\n"
    quiet(t, explain(t, unhang, "two lines", lines, "metadata.jsonl"), "of a file with one line for each state the last one counts")
    t.same(explain(t, unhang, "one line", json.dumps(meta) + "\n", "metadata.jsonl").first.value("api_call"), "quant.apply", "one line alone is an open call")


# --- driver's files, inventories, umr ---

def fences(signaled, emitted, ring="gfx_0.0.0", number=0):
    return (f"--- ring {number} ({ring}) ---\nLast signaled fence          0x{signaled:08x}\nLast emitted                 0x{emitted:08x}\n"
            "Last signaled trailing fence 0x00000000\nLast emitted                 0x00000000\nLast preempted               0x00000000\nLast reset                   0x00000000\nLast both                    0x00000000\n")


def test_fences(t, unhang):
    quiet(t, explain(t, unhang, "done", fences(9, 9) + fences(4, 4, "sdma0", 1)), "fences that are all signaled")
    quiet(t, explain(t, unhang, "pending once", fences(9, 11) + fences(4, 4, "sdma0", 1)), "a fence that is pending in one look is no hang")
    i = explain(t, unhang, "stuck", fences(9, 11) + fences(4, 4, "sdma0", 1) + fences(9, 12) + fences(5, 5, "sdma0", 1)).first
    t.same((i.cls, i.values("ring")), ("gfx-ring-timeout", ["gfx_0.0.0"]), "the same fence pending in two looks is stuck, and only that ring")
    holds(t, i, dict(fence_signaled="0x9", fence_emitted="0xc"), "with its numbers")
    quiet(t, explain(t, unhang, "moving", fences(9, 11) + fences(10, 12)), "a ring that moves on between two looks is healthy")
    quiet(t, explain(t, unhang, "done later", fences(9, 11) + fences(11, 11)), "one that caught up is healthy")


def rocminfo(*gpus, gfx="gfx942", chip=29857):
    """@gpus: node and BDFID, which is bus, device and function in one number."""
    out = """ROCk module version 6.16.13 is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.18
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    Some CPU
  Node:                    0
  Device Type:             CPU
  Chip ID:                 0(0x0)
  BDFID:                   0
"""
    for n, (node, bdf) in enumerate(gpus):
        out += f"""*******
Agent {n + 2}
*******
  Name:                    {gfx}
  Marketing Name:          Some GPU
  Node:                    {node}
  Device Type:             GPU
  Chip ID:                 {chip}(0x{chip:x})
  BDFID:                   {bdf}
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--{gfx}
"""
    return out + "*** Done ***\n"


def amd_smi(*gpus):
    return "\n".join(f"GPU: {n}\n    BDF: {pci}\n    UUID: 00ff74a1-0000-1000-8014-cfa91e2d70bd\n    KFD_ID: 58965\n    NODE_ID: {node}\n    PARTITION_ID: 0\n" for n, (node, pci) in enumerate(gpus))


def rocm_smi(*gpus, gfx="gfx942"):
    out = """============================ ROCm System Management Interface ============================
====================================== Product Info ======================================
"""
    for n, (node, pci) in enumerate(gpus):
        out += f"""GPU[{n}]          : Card Series:          AMD Instinct MI300X
GPU[{n}]          : Card Model:           0x74a1
GPU[{n}]          : Node ID:              {node}
GPU[{n}]          : GFX Version:          {gfx}
GPU[{n}]          : PCI Bus: {pci}
"""
    return out + "================================== End of ROCm SMI Log ===================================\n"


def test_inventory(t, unhang):
    fault = "Memory access fault by GPU node-{} (Agent handle: 0x55aa10) on address 0x7e0044000000. Reason: Page not present or supervisor privilege.\n"
    tools = {"rocminfo": rocminfo((3, 0xc5 << 8), (5, 0xd5 << 8)), "amd-smi": amd_smi((3, "0000:c5:00.0"), (5, "0000:d5:00.0")), "rocm-smi": rocm_smi((3, "0000:c5:00.0"), (5, "0000:d5:00.0"))}
    for tool, text in tools.items():
        quiet(t, explain(t, unhang, tool, text), f"{tool}: a listing is no incident")
        a = well(t, unhang.explain(unhang.write("inv.txt", text), unhang.write("prog.log", fault.format(3))), tool)
        t.same([i.data["gpus"][0]["pci"] for i in a.incidents], ["0000:c5:00.0"], f"{tool}: node-3 of another file is its PCI address")
        b = well(t, unhang.explain(unhang.write("prog.log", fault.format(3)), unhang.write("inv.txt", text)), tool)
        t.same([i.data["gpus"][0]["pci"] for i in b.incidents], ["0000:c5:00.0"], f"{tool}: whichever file comes first")
        for node, pci in ((5, "0000:d5:00.0"), (4, None)):
            c = well(t, unhang.explain(unhang.write("inv.txt", text), unhang.write("prog.log", fault.format(node))), tool)
            t.same([i.data["gpus"][0]["pci"] for i in c.incidents], [pci], f"{tool}: node-{node} is {pci or 'none of them'}")
    gfx = well(t, unhang.explain(unhang.write("inv.txt", tools["rocminfo"]), unhang.write("prog.log", fault.format(3))), "gfx").first
    t.same(gfx.data["gpus"][0]["gfx"], "gfx942", "and its architecture")


def umr_wave(place, pc, status=0x10c20):
    return f"""------------------------------------------------------
{place}

Main Registers:
            ixSQ_WAVE_STATUS: {status:08x} |      ixSQ_WAVE_PC_LO: {pc & 0xffffffff:08x} |      ixSQ_WAVE_PC_HI: {pc >> 32:08x} |    ixSQ_WAVE_EXEC_LO: ffffffff |
           ixSQ_WAVE_EXEC_HI: 00000000 |     ixSQ_WAVE_HW_ID1: 20000d00 |     ixSQ_WAVE_HW_ID2: 091f0102 |
"""


def test_umr(t, unhang):
    waves = "".join(umr_wave(f"se{n % 4}.sa0.wgp{n}.simd1.wave0", 0x761500001000 + 0x40 * (n % 2), 0x12c20 if n % 2 else 0x10c20) for n in range(9))
    quiet(t, explain(t, unhang, "waves", waves), "waves that umr lists are no incident alone")
    hang = "[  512.000000] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=71, emitted seq=73\n"
    a = explain(t, unhang, "umr", hang + waves + "gfx1100.regCP_RB0_RPTR => 0x00000777\n" + "".join(
        f"navi31.gfx_0.0.0.ring[ {n:3}] == 0x{0xc0220000 + n:08x}    ...\n" for n in range(5)))
    i = a.first
    t.same(len(a.incidents), 1, "umr's state and the kernel's ring timeout are one incident")
    t.same(sorted(zip(i.values("pc"), i.values("waves"))), [("0x761500001000", 5), ("0x761500001040", 4)], "the waves are counted by place")
    t.same(i.values("halted"), [4], "and those that were halted")
    # A part whose bit for halting is elsewhere: its registers tell which it is.
    newer = umr_wave("se0.sa0.wgp0.simd1.wave0", 0x761500001000, 0x12c20).rstrip() + "\n    ixSQ_WAVE_STATE_PRIV: {:08x} |  ixSQ_WAVE_EXCP_FLAG_PRIV: 00000000 |\n"
    for bits, halted in ((0x4000, [1]), (0x2000, [])):
        i12 = explain(t, unhang, "umr of gfx12", hang + newer.format(bits)).first
        t.same((i12.values("waves"), i12.values("halted")), ([1], halted), f"gfx12: STATE_PRIV {bits:#x} tells whether the wave was halted")
    reg, ring = dump_of(i, "regCP_RB0_RPTR"), dump_of(i, "navi31.gfx_0.0.0")
    t.same((reg and reg["values"], reg and reg["group"]), (["0x777"], "gfx1100"), "registers by name")
    t.same(ring and ring["values"], [f"0x{0xc0220000 + n:x}" for n in range(5)], "the ring's words")


# --- kernel names ---

NAMES = {
    INDEX_COPY: ("PyTorch", "index_copy_"),
    "_ZN2at6native22index_put_kernel_implINS0_10OpaqueTypeILi8EEEEEvRNS_14TensorIteratorEN3c108ArrayRefIlEES8_": ("PyTorch", "index_put_"),
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)": ("PyTorch", "index_select"),
    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)": ("PyTorch", "nll_loss"),
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x96x64_MI16x16x1_SN_ISA942_LDSB0": ("Tensile", "matrix"),
    "Cijk_Alik_Bljk_HSS_BH_MT64x64x32_SK3_ISA90a": ("Tensile", "matrix"),
    "void rocblas_gemvn_kernel<64, 16, int, float const*, float, float*>(int, int)": ("rocBLAS", "vector"),
    "miopenSp3AsmConv_v30_3_1_gfx11_fp16_dot2_f2x3_stride1": ("MIOpen", "convolution"),
    "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt256x64x32_gkgs": ("MIOpen", "convolution"),
    "_ZN7ck_tile6kentryILi256ELi2ENS_13FmhaFwdKernelINS_23BlockFmhaPipelineQRKSVSEEEEEvv": ("flash-attention", "attention"),
    "fmoe_bf16_blockscaleFp8_g1u1_novs_silu_1tg_ps_32x256": ("AITER", ""),
    "mla_a8w8_qh16_qseqlen4_gqaratio16_ps": ("AITER", "MLA"),
    "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>)": ("RCCL", "collective"),
    "triton_poi_fused_add_mul_silu_3": ("torch.compile", ""),
    "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)": ("vLLM", ""),
    "void mul_mat_q<(ggml_type)12, 64, false>(char const*, int const*)": ("llama.cpp", "matrix"),
    "__omp_offloading_811_4c00_solve_step_l212": ("OpenMP", "target region"),
    "__amd_rocclr_copyBuffer": ("HIP runtime", ""),
}


def test_kernel_names(t, unhang):
    for name, (library, operation) in NAMES.items():
        i = explain(t, unhang, name, wave(1, kernel=name, reason="MEMORY_VIOLATION")).first
        got = i.value("library") or "", i.value("operation") or ""
        t.ok(library in got[0] and operation in got[1] and got[1], f"{name[:60]} is {operation or 'an operation'} of {library}", got)
    for name in ("my_own_kernel(float*, int)", "_ZN4mine11step_kernelEPf"):
        i = explain(t, unhang, name, wave(1, kernel=name, reason="MEMORY_VIOLATION")).first
        t.same((i.values("library"), i.value("kernel_short")), ([], {"m": "my_own_kernel", "_": "step_kernel"}[name[0]]), f"{name}: of no library that is known, with its short name")



def test_mixed_texts(t, unhang):
    """People paste several outputs into one text: what only looks like an artefact's line is a line of the log."""
    ring = ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7\n"
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process game pid 4242 thread game:cs0 pid 4243\n")
    before = {"rocminfo": "HSA System Attributes\nAgent 2\n  Name:                    gfx1100\n  Node:                    1\n  Device Type:             GPU\n",
              "a kernel API log": "[2026-03-12 14:15:02] SGLang Kernel API Call: RMSNorm.forward\n",
              "umr's waves": "se0.sa0.wgp3.simd1.wave0\n   ixSQ_WAVE_STATUS: 00010c20 |  ixSQ_WAVE_PC_LO: 13e5674c |  ixSQ_WAVE_PC_HI: 00007616 |\n",
              "fence info": "--- ring 0 (gfx_0.0.0) ---\nLast signaled fence          0x00000002\nLast emitted                 0x00000004\n",
              "a transcript": "(gdb) info dispatches\nNo dispatches are currently active.\n"}
    for name, text in before.items():
        t.same(unhang.explain_text(text + ring).classes, ["gfx-ring-timeout"], f"a kernel log behind {name} is still read")
    core = "**** AMDGPU Device Coredump ****\nversion: 1\nkernel: 6.12.0\nmodule: amdgpu\ntime: {}.5\nprocess_name: {} PID: {}\n\nRing timed out details\nIP Type: 0 Ring Name: {}\n\n"
    a = unhang.explain_text(core.format(100, "game", 11, "gfx_0.0.0") + core.format(900, "python", 22, "comp_1.0.0"))
    t.same(sorted(a.classes), ["compute-ring-timeout", "gfx-ring-timeout"], "two device cores in one text are two incidents")
    for text in (core.format(100, "game", 11, "gfx_0.0.0") + "regMMVM_L2_PROTECTION_FAULT_STATUS                 \t 0x00301031\n",):
        t.same(unhang.explain_text(text).first.value("hub"), "mmhub", "a fault that MMVM's register holds is the memory hub's")


def test_bomb(t, unhang):
    """A short name can be written so that it becomes gigabytes when it is written out."""
    name = "_Z1fSt4pairIiiE" + "".join(f"S_IS{('' if n == 0 else '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'[n - 1])}_S{('' if n == 0 else '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'[n - 1])}_E" for n in range(1, 30))
    a = well(t, unhang.explain_text(f"wave_1: pc=0x7f00 (kernel_code_entry=0x7f00 <{name}>) (stopped, reason: MEMORY_VIOLATION)\n"), "a name that explodes")
    t.same(a.first.value("kernel_name"), name, "a name that would take too long is shown as it is printed")
    long = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
    a = unhang.explain_text(f"wave_1: pc=0x7f00 (kernel_code_entry=0x7f00 <{long}>) (stopped, reason: MEMORY_VIOLATION)\n")
    t.same(a.first.value("kernel_short"), "FillFunctor<float>", "an ordinary one is written out")


def test_conclusions(t, unhang):
    """What one file alone could not tell is told anew when another is beside it."""
    dump = "Kernel Name: Cijk_Ailk_Bljk_HHS_BH_MT128x96x32_ISA908_KLA\nVGPU=0x226c8f50 SWq=0x7d1eb43e0000, HWq=0x7d1cf8600000, id=1\n        rptr=8, wptr=10\n"
    part = "HSA System Attributes\nAgent 2\n  Name:                    gfx906\n  Node:                    1\n  Device Type:             GPU\n  Chip ID:                 26273(0x66a1)\n  BDFID:                   768\n"
    alone = unhang.explain(unhang.write("dump.txt", dump)).first
    both = unhang.explain(unhang.write("dump.txt", dump), unhang.write("part.txt", part)).first
    t.same((alone.value("isa_fits"), both.value("isa_fits")), ("unknown", "no"), "whether the code fits the GPU")
    t.ok(both.cause["confidence"] > alone.cause["confidence"], "which makes the cause surer", (alone.cause, both.cause))


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_assert, test_wave_forms, test_wave_values, test_many_waves, test_large_log, test_interleaved, test_rocgdb_tables, test_rocgdb_empty, test_rocgdb_stops, test_rocgdb_around, test_devcoredump,
                 test_stacks, test_stacks_json, test_arrows, test_last_dispatch, test_flight_recorder, test_containers, test_kernel_api, test_api_exceptions, test_api_dumps, test_fences, test_inventory, test_umr, test_mixed_texts, test_bomb, test_conclusions, test_kernel_names):
        test(t, unhang)
    t.end()


main()
