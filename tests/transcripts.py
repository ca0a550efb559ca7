#!/usr/bin/env python3
"""Waves in what debuggers print, with the code they ran lying beside it: real code objects, compiled here. What the code says is
held against llvm-objdump."""
import re
import shutil
import subprocess
import sys

import tap

SOURCE = """static __attribute__((always_inline)) void put(global float *p, unsigned i, float v)
{
	p[i] = v;
}
kernel void fill(global float *out, global const float *in, int n)
{
	unsigned i = __builtin_amdgcn_workitem_id_x();
	if (i < n)
		put(out, i, in[i] * 2.0f);
}
kernel void wait(global float *out, local float *l)
{
	l[__builtin_amdgcn_workitem_id_x()] = *out;
	__builtin_amdgcn_s_barrier();
	out[1] = l[0];
}
kernel void twin(global int *out) { out[__builtin_amdgcn_workitem_id_x()] = 3; }
kernel void twin_too(global int *out) { out[__builtin_amdgcn_workitem_id_x()] = 3; }
__attribute__((overloadable)) kernel void twice(global int *out) { out[__builtin_amdgcn_workitem_id_x()] *= 2; }
"""
AT = 0x7FFFE1400000
OUT = 0x7E0000000000


class Code:
    """A code object in a directory, and what llvm-objdump says of it."""

    def __init__(self, unhang, directory, gfx="gfx942", source=SOURCE):
        self.directory = unhang.directory / directory
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "k.cl").write_text(source)
        self.path = self.directory / "heat.co"
        subprocess.run(["clang-19", "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={gfx}", "-nogpulib", "-O2", "-g", "k.cl", "-o", self.path],
                       cwd=self.directory, check=True)
        headers = subprocess.run(["llvm-readelf-19", "-SW", self.path], capture_output=True, text=True, check=True).stdout
        found = re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", headers)
        self.text, self.size = (int(n, 16) for n in found.groups())
        self.functions, self.code = {}, {}
        function = None
        for line in subprocess.run(["llvm-objdump-19", "-d", self.path], capture_output=True, text=True, check=True).stdout.splitlines():
            if begin := re.match(r"([0-9a-f]+) <(\w+)>:", line):
                function = begin[2]
                self.functions[function] = int(begin[1], 16)
            elif instruction := re.match(r"\t(.*?)\s*// ([0-9A-F]+): ([0-9A-F ]+)", line):
                self.code[int(instruction[2], 16)] = (function, instruction[1].strip(), [int(w, 16) for w in instruction[3].split()])

    def find(self, function, mnemonic):
        """The address of the first such instruction."""
        return next(a for a, (f, text, _) in self.code.items() if f == function and text.startswith(mnemonic))

    def instruction(self, address):
        return " ".join(self.code[address][1].split())

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path


# --- rocgdb ---

def libraries(code, uri=None, base=AT):
    uri = uri or f"file:///opt/job/{code.path.name}"
    return ("(gdb) info sharedlibrary\nFrom                To                  Syms Read   Shared Object Library\n"
            "0x00007ffff7fc5090  0x00007ffff7fee335  Yes (*)     /lib64/ld-linux-x86-64.so.2\n"
            f"0x{base + code.text:016x}  0x{base + code.text + code.size:016x}  Yes         {uri}\n(*): Shared library is missing debugging information.\n")


def stop(address, signal="SIGSEGV", function="fill", tail=" (n=900) at k.cl:3", base=AT):
    return (f'Thread 9 "prog" received signal {signal}, Some words.\n[Switching to thread 9, lane 3 (AMDGPU Lane 1:2:1:1/3 (5,0,0)[3,0,0])]\n'
            f"0x{base + address:016x} in {function}{tail}\n3\t\tp[i] = v;\n")


def registers(code, address, function="fill", lanes=64, width=0, repeat=False, base=AT, pc=True):
    """The store's operands hold OUT and 4 bytes for each lane, as far as the instruction says which they are."""
    text = code.instruction(address)
    scalar = re.search(r"s\[(\d+):\d+\]", text)
    offset = re.search(r"\bv(\d+)\b", text)
    out = "(gdb) info registers\n"
    lane = ["0x0"] * lanes if repeat else [f"0x{4 * n:x}" for n in range(lanes)]
    vector = f"{{0x0 <repeats {lanes} times>}}" if repeat else "{" + ", ".join(lane) + "}"
    if width:
        vector = "{" + ",\n  ".join(", ".join(lane[n:n + width]) for n in range(0, lanes, width)) + "}"
    out += f"v{offset[1]:<13} {vector}\n"
    out += f"s{scalar[1]:<13} 0x{OUT & 0xffffffff:<17x} {OUT & 0xffffffff}\ns{int(scalar[1]) + 1:<13} 0x{OUT >> 32:<17x} {OUT >> 32}\n"
    if pc:
        out += f"pc             0x{base + address:x}      0x{base + address:x} <{function}+{address - code.functions[function]}>\n"
    return out + f"exec           0x{'ffff':<17} 65535\nvcc            0x0                 0\n"


def here(code, address, function=None, base=AT):
    name, text, _ = code.code[address]
    return f"(gdb) x/i $pc\n=> 0x{base + address:x} <{function or name}+{address - code.functions[name]}>:\t{text}\n"


def chain(incident):
    return re.sub(r"/[^ ]*/", "", str(incident.value("call_chain")))


def accesses(incident):
    return {d["name"]: d["values"] for d in incident.data["dumps"] if d["group"] == "access"}


def test_library(t, unhang, code):
    store = code.find("fill", "global_store")
    told = code.write("session.txt", libraries(code) + stop(store) + registers(code, store))
    i = unhang.explain(told).first
    t.same(i.cls, "gpu-page-fault-unmapped", "SIGSEGV stays what it is")
    t.same((i.value("kernel_name"), i.value("instruction")), ("fill", code.instruction(store)), "info sharedlibrary: kernel and instruction at the pc")
    t.same((i.value("source"), chain(i)), ("k.cl:3", "put (k.cl:3) < fill (k.cl:9)"), "the line and how it was inlined")
    t.same((i.value("effective_address"), i.value("effective_addresses")), (f"0x{OUT:x}", f"0x{OUT:x} to 0x{OUT + 60:x}"), "the addresses of the lanes that are on, by info registers")
    t.ok("global" in str(i.value("access")), "what kind of access", i.value("access"))
    lanes = accesses(i).get(code.instruction(store), [])
    t.same([int(v, 16) for v in lanes[:16] if v], [OUT + 4 * n for n in range(16)], "lane by lane")
    t.ok(f"0x{OUT:x}" in i.cause["explanation"], "the explanation names them", i.cause["explanation"])


def test_forms(t, unhang, code):
    """The same said in other ways."""
    store = code.find("fill", "global_store")
    want = (f"0x{OUT:x} to 0x{OUT + 60:x}", code.instruction(store))
    plain = stop(store)
    for name, text in (("wrapped lanes", libraries(code) + plain + registers(code, store, width=6)),
                       ("libraries behind", plain + registers(code, store) + libraries(code)),
                       ("registers by name", libraries(code) + plain + registers(code, store, pc=False)),
                       ("no libraries, but function and offset", plain + registers(code, store)),
                       ("no libraries, but x/i", plain + here(code, store) + registers(code, store, pc=False)),
                       ("a frame without its address", libraries(code) + stop(store).replace(f"0x{AT + store:016x} in ", "") + registers(code, store)),
                       ("a frame of an inlined function", libraries(code) + stop(store, function="put") + registers(code, store)),
                       ("a backtrace between", libraries(code) + plain + f"(gdb) bt\n#0  0x{AT + store:x} in put (i=3) at k.cl:3\n#1  fill (n=900) at k.cl:9\n" + registers(code, store, pc=False)),
                       ("the prompt before it", (libraries(code) + plain + registers(code, store)).replace("\nv", "\n(gdb) v", 1))):
        i = unhang.explain(code.write("session.txt", text)).first
        t.same((i.value("effective_addresses"), i.value("instruction")), want, name)
    i = unhang.explain(code.write("session.txt", libraries(code) + plain + registers(code, store, repeat=True))).first
    lanes = accesses(i).get(code.instruction(store), [])
    t.same((i.value("effective_addresses"), [v and int(v, 16) for v in lanes[:17]]), (f"0x{OUT:x}", [OUT] * 16 + [None]), "lanes that repeat")
    vector, scalars = re.match(r"(.*\nv.*\n)((?:.*\n)*)", registers(code, store, pc=False)).groups()
    other = "[Switching to thread 10, lane 0 (AMDGPU Lane 1:2:1:2/0 (6,0,0)[0,0,0])]\n#0  wait () at k.cl:14\n(gdb) info registers\n"
    i = unhang.explain(code.write("session.txt", libraries(code) + plain + vector + other + scalars)).first
    t.same(i.value("effective_address"), None, "registers of two waves are not mixed")
    up = f"(gdb) up\n#1  0x{AT + store + 64:x} in fill (n=900) at k.cl:9\n"
    i = unhang.explain(code.write("session.txt", libraries(code) + plain + up + registers(code, store, pc=False))).first
    t.same((i.value("instruction"), i.value("effective_address")), (want[1], None), "registers of another frame are not taken for the wave's")
    other = '[Switching to thread 4 (Thread 0x7ffff0123640 (LWP 5012))]\n#0  0x00007ffff11 in ioctl () from /lib64/libc.so.6\n'
    i = unhang.explain(code.write("session.txt", libraries(code) + plain + other + registers(code, store, pc=False))).first
    t.same(i.value("effective_address"), None, "nor those of another thread")


def test_late(t, unhang, code):
    """Without precise memory the wave stops behind the access."""
    store = code.find("fill", "global_store")
    late = next(a for a in code.code if a > store)
    text = libraries(code) + stop(late) + registers(code, store, base=AT + late - store)
    i = unhang.explain(code.write("session.txt", text)).first
    t.same((i.value("instruction"), i.value("access_instruction"), i.value("effective_address")), (code.instruction(late), code.instruction(store), f"0x{OUT:x}"), "an access that the pc has passed")


def test_wave32(t, unhang, _):
    code = Code(unhang, "wave32", "gfx1100")
    store = code.find("fill", "global_store")
    i = unhang.explain(code.write("session.txt", libraries(code) + stop(store) + registers(code, store, lanes=32))).first
    t.same((i.value("instruction"), i.value("effective_addresses")), (code.instruction(store), f"0x{OUT:x} to 0x{OUT + 60:x}"), "gfx1100, 32 lanes")


def test_mangled(t, unhang, code):
    name = next(f for f in code.functions if "twice" in f)
    store = code.find(name, "global_store")
    for shown, frame in ((name, "twice"), ("twice(int AS1*)", "twice(int AS1*)")):
        plain = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip() if shown != name else name
        i = unhang.explain(code.write("session.txt", stop(store, function=frame, tail=" ()") + here(code, store, plain))).first
        t.same((i.value("instruction"), i.value("source")), (code.instruction(store), "k.cl:19"), f"by function and offset: {plain}; the line is the code's")


def test_not_found(t, unhang, code):
    store, gone = code.find("fill", "global_store"), unhang.directory / "gone"
    gone.mkdir(exist_ok=True)
    text = libraries(code) + stop(store) + registers(code, store)
    (gone / "session.txt").write_text(text)
    i = unhang.explain(gone / "session.txt").first
    t.same((i.value("kernel_name"), i.value("source_line"), i.value("instruction"), i.value("effective_address")), ("fill", "k.cl:3", None, None), "without the code what gdb said remains")
    t.ok(any(d["name"] == "exec" for d in i.data["dumps"]), "with the registers")
    (gone / "session.txt").write_text(stop(store) + here(code, store))
    t.same(unhang.explain(gone / "session.txt").first.value("instruction"), code.instruction(store), "and the instruction that it showed")
    i = tap.Answer(unhang.run("explain", "--json", "--code", code.path, gone / "session.txt")).first
    t.same(chain(i), "put (k.cl:3) < fill (k.cl:9)", "--code is looked into")
    wrong = stop(store).replace(" in fill", " in stencil3") + registers(code, store).replace("<fill+", "<stencil3+")
    t.same(unhang.explain(code.write("session.txt", wrong + libraries(code))).first.value("instruction"), None, "an object without the frame's function is another one")
    shown = here(code, store).replace(code.code[store][1], "s_nop 0")
    t.same(unhang.explain(code.write("session.txt", libraries(code) + stop(store) + shown)).first.value("call_chain"), None, "another build has another instruction there")


def test_several(t, unhang, code):
    """Without a URI an object must be the only one that it can be."""
    two = Code(unhang, "several")
    store = two.find("fill", "global_store")
    text = stop(store) + registers(two, store)
    (two.directory / "again.co").write_bytes(two.path.read_bytes())
    t.same(unhang.explain(two.write("session.txt", text)).first.value("instruction"), two.instruction(store), "two copies are one")
    changed = SOURCE.replace("2.0f", "3.0f")
    other = Code(unhang, "several/other", source=changed)
    other.path.rename(two.directory / "other.co")
    t.same(unhang.explain(two.write("session.txt", text)).first.value("effective_address"), None, "two that differ are none")
    t.same(unhang.explain(two.write("session.txt", text + libraries(two))).first.value("instruction"), two.instruction(store), "unless the URI tells which")


def test_waves(t, unhang, code):
    barrier, store = code.find("wait", "s_barrier"), code.find("fill", "global_store")
    rows = "".join(f'  {n + 2}    AMDGPU Wave 1:2:1:{n + 1} ({n},0,0)/0 "prog"     0x{AT + barrier:016x} in wait () at k.cl:14\n' for n in range(7))
    for before, name in ((stop(store), "of info threads, beside one that stopped"), ("", "of info threads alone")):
        text = libraries(code) + before + "(gdb) info threads\n  Id   Target Id     Frame\n" + rows
        hang = "[  512.000000] amdgpu 0000:03:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=71, emitted seq=73\n"
        i = unhang.explain(code.write("session.txt", text if before else hang + text)).first
        seen = i.events("waves-seen")[0]
        waits = [f["value"] for f in i.data["facts"] if f["name"] == "waits_for"]
        t.ok(len(waits) == 1 and "barrier" in waits[0], f"what the waves {name} wait for", (waits, i.data["facts"]))
        t.ok("barrier" in seen["text"] and "k.cl:14" in seen["text"], f"{name}: and it is said", seen["text"])
        t.same((i.values("kernel_name")[-1], i.values("waves")), ("wait", [7]), f"{name}: their kernel")


# --- umr ---

def umr(code, address, function=None, before=8, behind=8, trapsts=0, words=True, base=AT):
    """A wave as `umr -wa` prints it, with the words of its code."""
    pc = base + address
    out = f"""
------------------------------------------------------
se0.sh0.cu3.simd1.wave0

Main Registers:
            ixSQ_WAVE_STATUS: 00012c20 |      ixSQ_WAVE_PC_LO: {pc & 0xffffffff:08x} |      ixSQ_WAVE_PC_HI: {pc >> 32:08x} |    ixSQ_WAVE_EXEC_LO: 0000ffff |
           ixSQ_WAVE_EXEC_HI: 00000000 |    ixSQ_WAVE_TRAPSTS: {trapsts:08x} |

>SGPRS[0..3] = {{ {OUT & 0xffffffff:08x}, {OUT >> 32:08x}, 00000384, 00000000 }}
>SGPRS[4..7] = {{ 00000000, 00000000, 00000000, 00000000 }}

VGPRS:        t00      t01
    [  0] = {{ {" ".join(f"{4 * n:08x}" for n in range(64))} }}
    [  1] = {{ {" ".join(["3f800000"] * 64)} }}


PGM_MEM (guess based on PC):
"""
    memory = {a + 4 * n: (word, ";;" if n else text) for a, (_, text, all) in code.code.items() for n, word in enumerate(all)}
    begin = address - 4 * before
    for at in range(begin, address + 4 * behind, 4) if words else ():
        word, text = memory.get(at, (0xCAFE0000 + at, "..."))
        out += f"{' * ' if at == address else '   '}pgm[8@0x{base + begin:x} + 0x{at - begin:<4x}] = 0x{word:08x}\t{text:<60}\t\n"
    return out + "End of disassembly.\n"


def test_umr(t, unhang, code):
    hang = "[  512.000000] amdgpu 0000:03:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=71, emitted seq=73\n"
    store, barrier, first = code.find("fill", "global_store"), code.find("wait", "s_barrier"), code.functions["fill"]
    i = unhang.explain(code.write("umr.txt", hang + umr(code, barrier))).first
    t.same((i.value("kernel_name"), i.value("source"), i.value("instruction")), ("wait", "k.cl:14", "s_barrier"), "umr: the code by its words")
    t.ok("barrier" in str(i.value("waits_for")), "what the wave waits for", i.value("waits_for"))
    i = unhang.explain(code.write("umr.txt", hang + umr(code, store, trapsts=0x100))).first
    t.same((i.value("effective_addresses"), chain(i)), (f"0x{OUT:x} to 0x{OUT + 60:x}", "put (k.cl:3) < fill (k.cl:9)"), "a memory violation: the addresses of the lanes")
    t.same(unhang.explain(code.write("umr.txt", hang + umr(code, first))).first.value("kernel_name"), "fill", "at the first instruction, behind other memory")
    for name, text in (("no words", umr(code, barrier, words=False)), ("few words", umr(code, barrier, before=0, behind=2)), ("other words", umr(code, barrier).replace("= 0x", "= 0xf").replace("= 0xfb", "= 0xb"))):
        i = unhang.explain(code.write("umr.txt", hang + text)).first
        t.same((i.value("kernel_name"), i.value("pc")), (None, f"0x{AT + barrier:x}"), f"{name}: no guess")
    i = unhang.explain(code.write("umr.txt", hang + umr(code, code.find("twin", "global_store"), before=3, behind=3))).first
    t.same((i.value("kernel_name"), bool(i.value("pc"))), (None, True), "code that is in two places: no guess")
    t.same(unhang.explain(code.write("umr.txt", hang + umr(code, barrier, behind=2, before=0))).first.value("instruction"), "s_barrier", "what umr shows is kept")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not all(map(shutil.which, ("clang-19", "ld.lld-19", "llvm-objdump-19", "llvm-readelf-19"))):
        tap.skip_all("no clang-19, lld-19 or llvm-19")
    code = Code(unhang, "code")
    for test in (test_library, test_forms, test_late, test_wave32, test_mangled, test_not_found, test_several, test_waves, test_umr):
        test(t, unhang, code)
    t.end()


main()
