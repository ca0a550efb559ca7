#!/usr/bin/env python3
"""unhang where, waves and queues with real code: every instruction of objects that clang-19 makes, held against llvm-symbolizer and
llvm-objdump; code in all the places that it may lie in; damaged code; the JSON held against its schemas.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib

import jsonschema

import tap

GPUS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201"]
DAMAGED = 50 if tap.is_sanitized(sys.argv[1]) else 150  # files of each kind

HELPERS = """\
INLINE float scale(float x, float by)
{
	return x * by;
}

INLINE float shift(float x, float by)
{
	float y = scale(x, by);
	if (y > 3.0f)
		y -= by;
	return y + 1.5f;
}
"""

OPENCL = """\
#define INLINE __attribute__((always_inline)) static inline
#include "include/helpers.h"

__attribute__((noinline)) float polynomial(float x, int n)
{
	float r = 0;
	for (int i = 0; i < n; i++)
		r = r * x + shift(x, i);
	return r;
}

INLINE float both(global const float *p, int i)
{
	return shift(p[i], 2.0f) +
	       shift(p[i + 1], 7.0f);
}

kernel void add(global float *out, global const float *in, int n)
{
	int i = __builtin_amdgcn_workitem_id_x();
	if (i < n)
		out[i] = both(in, i) + in[n - i];
}

kernel void reduce(global float *out, global const float *in, int n, local float *shared)
{
	int i = __builtin_amdgcn_workitem_id_x();
	shared[i] = polynomial(in[i], n);
	for (int step = 64; step; step >>= 1) {
		__builtin_amdgcn_s_barrier();
		if (i < step)
			shared[i] += shift(shared[i + step], 0.5f);
	}
	out[i] = shared[0];
}

kernel void spin(global volatile int *flag)
{
	while (!*flag)
		__builtin_amdgcn_s_sleep(2);
}
"""

HIP = """\
#define DEVICE __attribute__((device))
#define KERNEL __attribute__((global))
#define INLINE DEVICE __attribute__((always_inline)) static inline
#include "include/helpers.h"

namespace physics {

template <typename T> struct Pair {
	T a, b;
	DEVICE __attribute__((always_inline)) T sum() const { return a + shift(b, 2); }
};

DEVICE __attribute__((noinline)) float slow(float x, int n)
{
	for (int i = 0; i < n; i++)
		x = shift(x, x * i);
	return x;
}

KERNEL void advance(float *out, const float *in, int n)
{
	int i = __builtin_amdgcn_workitem_id_x();
	Pair<float> p = { in[i], in[i + 1] };
	out[i] = p.sum() + slow(in[i], n);
}

}

template <typename T> KERNEL void fill(T *out, T value)
{
	physics::Pair<T> p = { value, value };
	out[__builtin_amdgcn_workitem_id_x()] = p.sum();
}

template KERNEL void fill<float>(float *, float);
template KERNEL void fill<int>(int *, int);
"""


def schema(name):
    document = json.loads((tap.HERE / ".." / "docs" / f"{name}.schema.json").read_text())
    return jsonschema.validators.validator_for(document)(document)


VALIDATORS = {name: schema(name) for name in ("where", "waves", "queues")}


class Room:
    """The directory with the sources and what is made of them."""

    def __init__(self, unhang):
        self.unhang = unhang
        self.directory = unhang.directory / "code"
        self.sources = self.directory / "src"
        (self.sources / "include").mkdir(parents=True)
        (self.sources / "include" / "helpers.h").write_text(HELPERS)
        (self.sources / "kernels.cl").write_text(OPENCL)
        (self.sources / "kernels.hip").write_text(HIP)

    def path(self, name):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name, data):
        path = self.path(name)
        path.write_bytes(data)
        return path

    def compile(self, language, gfx, *flags, name=None):
        """A code object. Sources are named relative to their directory, as build systems do."""
        out = self.path(name or f"{language}-{gfx}.co")
        if language == "cl":
            how = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={gfx}"]
        else:
            how = ["-x", "hip", "--cuda-device-only", f"--offload-arch={gfx}", "-nogpuinc", "--no-gpu-bundle-output"]
        subprocess.run(["clang-19", *how, "-nogpulib", "-O2", *(flags or ["-g"]), f"kernels.{language}", "-o", out], cwd=self.sources,
                       check=True, stdin=subprocess.DEVNULL)
        return out

    def where(self, *arguments, stdin="", environment=None):
        return Found(self.unhang, "where", arguments, stdin, environment)


class Found:
    """What a command with --json said."""

    def __init__(self, unhang, command, arguments, stdin="", environment=None):
        before = dict(unhang.environment)
        unhang.environment.update(environment or {})
        run = unhang.run(command, "--json", *arguments, stdin=stdin)
        unhang.environment.clear()
        unhang.environment.update(before)
        self.status, self.stderr = run.returncode, run.stderr.decode(errors="replace")
        self.wrong, self.document = [], {}
        if self.status == tap.CANNOT:
            return
        try:
            self.document = json.loads(run.stdout)
        except ValueError as problem:
            self.wrong.append(f"no JSON: {problem}: {self.stderr[-300:]}")
            return
        for error in list(VALIDATORS[command].iter_errors(self.document))[:5]:
            self.wrong.append(f"{error.json_path}: {error.message[:300]}")

    @property
    def addresses(self):
        return self.document.get("addresses", [])

    @property
    def first(self):
        return self.addresses[0] if self.addresses else {}


def plain(text):
    return " ".join(text.split())


def functions(path):
    """[(address, size, name)] by llvm-readelf."""
    out = subprocess.run(["llvm-readelf-19", "-sW", path], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\s*\d+: ([0-9a-f]+)\s+(\d+) FUNC\s+\S+\s+\S+\s+\S+ (\S+)", out, re.M)
    return sorted({(int(address, 16), int(size), name) for address, size, name in rows})


def instructions(path):
    """{address: text} by llvm-objdump."""
    out = subprocess.run(["llvm-objdump-19", "-d", path], capture_output=True, text=True, check=True).stdout
    return {int(address, 16): plain(text) for text, address in re.findall(r"^\t(\S.*?)\s*// ([0-9A-F]{12}):", out, re.M)}


def symbolized(path, addresses):
    """{address: [(function, file, line, column)]} by llvm-symbolizer."""
    out = subprocess.run(["llvm-symbolizer-19", f"--obj={path}", "--output-style=JSON", "--inlines", "--functions=linkage", "--demangle"],
                         input="".join(f"0x{a:x}\n" for a in addresses), capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        row = json.loads(line)
        found[int(row["Address"], 16)] = [(f["FunctionName"], os.path.normpath(f["FileName"]), f["Line"], f["Column"]) for f in row["Symbol"]]
    return found


def frames_of(row):
    return [(f["function"], os.path.normpath(f["file"] or ""), f["line"], f["column"]) for f in row["frames"]]


def function_at(table, address):
    return next(((a, size, name) for a, size, name in table if a <= address < a + size), None)


def compare(path, rows, table, code, wanted, context, base=0):
    """What is wrong with @rows, which are about every instruction."""
    wrong = []
    order = sorted(code)
    for row in rows:
        address = int(row["address"], 16) - base
        begin, size, name = function_at(table, address)
        near = [a for a in order if begin <= a < begin + size]
        at = near.index(address)
        shown = [(int(i["address"], 16) - base, i["text"]) for i in row["instructions"]]
        kernel = not name.startswith(("polynomial", "_ZN7physics4slow"))
        checks = [("code_object", row["code_object"], str(path)), ("symbol", row["symbol"], name), ("offset", row["offset"], hex(address - begin)),
                  ("frames", frames_of(row), wanted[address]), ("function", row["function"], wanted[address][-1][0]),
                  ("kernel_name", row["kernel_name"], row["function"] if kernel else None),
                  ("source", row["source"], {"file": row["frames"][0]["file"], "line": wanted[address][0][2]}),
                  ("inlined", [f["inlined"] for f in row["frames"]], [True] * (len(row["frames"]) - 1) + [False]),
                  ("instruction", row["instruction"], code[address]),
                  ("instructions", shown, [(a, code[a]) for a in near[max(0, at - context):at + context + 1]]),
                  ("here", [int(i["address"], 16) - base for i in row["instructions"] if i["here"]], [address])]
        wrong += [f"0x{address:x}: {what} is {got!r}, not {right!r}" for what, got, right in checks if got != right]
    return wrong


def test_every_instruction(t, room, objects):
    for (language, gfx), path in tap.some(room.unhang, objects.items()):
        table, code = functions(path), instructions(path)
        inside = [a for a in sorted(code) if function_at(table, a)]
        wanted = symbolized(path, inside)
        found = room.where("--code", path, "--context", 2, "-", stdin="\n".join(map(hex, inside)))
        t.no_complaints(found.wrong, f"{language} {gfx}: the document fits its schema")
        t.ok(found.status == 0 and not found.stderr, f"{language} {gfx}: status 0, no complaint", f"{found.status}: {found.stderr}")
        t.same([r["address"] for r in found.addresses], [hex(a) for a in inside], f"{language} {gfx}: {len(inside)} instructions in the order of asking")
        chains = {len(f) for f in wanted.values()}
        t.ok(len(inside) > 70 and len(table) >= 4 and max(chains) >= 3, f"{language} {gfx}: the object is worth it", f"{len(inside)} {len(table)} {chains}")
        t.no_complaints(compare(path, found.addresses, table, code, wanted, 2)[:10],
                        f"{language} {gfx}: every instruction has the function, lines and text that LLVM's tools give")
        twice = inside + inside[::-1]  # more than a hundred
        some = room.where("--code", path, "-", stdin="\n".join(map(hex, twice)))
        t.same([frames_of(r) for r in some.addresses], [wanted[a] for a in twice], f"{language} {gfx}: the same lines where no instructions are wanted")
        brief = room.unhang.run("where", "--code", path, "-", stdin="\n".join(map(hex, twice))).stdout.decode().splitlines()
        lines = [re.findall(r"(\S+?):(\d+)(?::(\d+))?(?: <|$)", line) for line in brief]
        t.same([[(os.path.normpath(f), int(n), int(c or 0)) for f, n, c in line] for line in lines],
               [[f[1:] for f in wanted[a]] for a in twice], f"{language} {gfx}: one line of text for each of many addresses")


def test_loaded(t, room, path):
    table, code = functions(path), instructions(path)
    base = 0x7f3a12400000
    inside = [a for a in sorted(code) if function_at(table, a)]
    wanted = symbolized(path, inside)
    for name, at in (("an address", hex(base)), ("a range", f"[{base:#x}-{base + 0x8000:#x}]"), ("no 0x", f"{base:x}")):
        found = room.where("--code", path, "--loaded-at", at, "--context", 1, "-", stdin="\n".join(hex(base + a) for a in inside))
        t.ok(not found.wrong and found.status == 0 and len(found.addresses) == len(inside), f"--loaded-at, {name}: all are found", found.stderr)
        t.no_complaints(compare(path, found.addresses, table, code, wanted, 1, base)[:5], f"--loaded-at, {name}: the same as without")
    found = room.where("--code", path, "--loaded-at", hex(base), hex(inside[0]))
    t.ok(found.status == 1 and found.first["code_object"] is None, "--loaded-at: an address of the file lies in no object", found.first)
    for bad in ("here", "0x", "[]", "-1"):
        run = room.unhang.run("where", "--code", path, "--loaded-at", bad, "0x1")
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1 and bad.encode() in run.stderr, f"--loaded-at {bad}: status 2 and one line", run.stderr)


def test_names(t, room, opencl, hip):
    begin = {name: address for address, _, name in functions(opencl)} | {name: address for address, _, name in functions(hip)}
    for path, asked, name, offset in (
            (opencl, "add+0x8", "add", 8), (opencl, "add", "add", 0), (opencl, "reduce+16", "reduce", 16), (opencl, "polynomial + 0x4", "polynomial", 4),
            (hip, "_ZN7physics7advanceEPfPKfi+0x10", "_ZN7physics7advanceEPfPKfi", 16),
            (hip, "physics::advance(float*, float const*, int)+0x10", "_ZN7physics7advanceEPfPKfi", 16),
            (hip, "physics::advance+0x10", "_ZN7physics7advanceEPfPKfi", 16), (hip, "physics::slow", "_ZN7physics4slowEfi", 0),
            (hip, "void fill<float>(float*, float)+0x4", "_Z4fillIfEvPT_S0_", 4), (hip, "fill<float>+0x4", "_Z4fillIfEvPT_S0_", 4),
            (hip, "void fill<int>+0x4", "_Z4fillIiEvPT_S0_", 4)):
        row = room.where("--code", path, asked).first
        t.ok(row and (row["asked"], row["symbol"], row["address"], row["offset"]) == (asked, name, hex(begin[name] + offset), hex(offset)),
             f"{asked} is found", row)
    found = room.where("--code", opencl, "add+0xfffff", "nobody+0x4", "0x10", "fade")
    t.ok(found.status == 1 and not found.wrong, "what is not there: status 1", f"{found.status} {found.wrong}")
    t.same([r["address"] for r in found.addresses], [None, None, "0x10", None], "a name that there is not has no address")
    said = room.unhang.run("where", "--code", opencl, "add+0xfffff", "nobody+0x4", "0x99999999").stdout.decode()
    for words in ("add+0xfffff  past its end: the function has 0x", "nobody+0x4  no function has this name", "0x99999999  in none of the code objects"):
        t.ok(words in said, f"a wrong name is answered by: {words}", said)
    for bad in ("0x", "0xzz", "12g", "+5", "", "0x11112222333344445"):
        run = room.unhang.run("where", "--code", opencl, bad)
        t.ok(run.returncode == tap.CANNOT and not run.stdout and f"'{bad}'".encode() in run.stderr, f"'{bad}' is no address: status 2", run.stderr)


def test_between(t, room, path):
    table, code = functions(path), instructions(path)
    after = next(b for (a, size, _), (b, _, _) in zip(table, table[1:]) if b - a - size >= 8)  # a function behind padding
    begin = table[0][0]
    found = room.where("--code", path, hex(after - 8), hex(begin + 9), hex(after), "0x8")
    padding, within, following, data = found.addresses
    t.ok(padding["function"] is None and padding["code_object"] and not padding["frames"] and padding["source"] is None, "padding is in no function and of no line", padding)
    t.ok(padding["instruction"] and int(padding["instructions"][-1]["address"], 16) < after, "its instructions end before the next function", padding["instructions"])
    t.ok(len(following["instructions"]) == 5 and following["instruction"] == code[after], "what is asked for before does not cut the next one's", following["instructions"])
    holder = max(a for a in code if a <= begin + 9)
    t.ok(holder != begin + 9 and within["instruction"] == code[holder], "an address inside an instruction", within["instruction"])
    said = room.unhang.run("where", "--code", path, hex(begin + 9)).stdout.decode()
    t.ok("inside this instruction" in said, "an address inside of an instruction is told", said)
    t.ok(not data["instructions"] and "data" in data["no_instructions"], "what is no code is not taken for instructions", data)
    t.same(found.status, 0, "all lie in the object: status 0")


def bundle(parts, align=4096):
    """A fat binary: [(target, bytes)]."""
    head, entries, body = 32 + sum(24 + len(target) for target, _ in parts), b"", b""
    offset = -(-head // align) * align
    for target, data in parts:
        entries += struct.pack("<QQQ", offset + len(body), len(data), len(target)) + target.encode()
        body += data + bytes(-len(data) % align)
    return (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(parts)) + entries).ljust(offset, b"\0") + body


def compressed(data):
    packed = zlib.compress(data)
    return b"CCOB" + struct.pack("<HHIIQ", 2, 0, 24 + len(packed), len(data), int.from_bytes(hashlib.md5(data).digest()[:8], "little")) + packed


def fat_binary(objects, gpus=("gfx90a", "gfx1100")):
    return bundle([("host-x86_64-unknown-linux-gnu-", b"")] + [(f"hipv4-amdgcn-amd-amdhsa--{g}", objects["hip", g].read_bytes()) for g in gpus])


def embed(room, name, data, *flags):
    """A host program or library that carries a fat binary, as hipcc makes it."""
    room.write(f"{name}.fat", data)
    source = room.write(f"{name}.s", f""".section .hip_fatbin,"a",@progbits
.balign 4096
.globl __hip_fatbin
__hip_fatbin: .incbin "{room.path(name + '.fat')}"
.section .hipFatBinSegment,"aw",@progbits
.long 0x48495046, 1
.quad __hip_fatbin, 0
.text
.globl main
main: xorl %eax, %eax
ret
.section .note.GNU-stack,"",@progbits
""".encode())
    out = room.path(name)
    subprocess.run(["cc", *flags, source, "-o", out], check=True)
    source.unlink()
    room.path(f"{name}.fat").unlink()
    return out


def test_places(t, room, objects):
    fat = fat_binary(objects)
    places = {"a fat binary": room.write("places/fat.hipfb", fat), "a compressed bundle": room.write("places/packed.hipfb", compressed(fat)),
              "a program": embed(room, "places/program", fat), "a library": embed(room, "places/library.so", fat, "-shared", "-nostartfiles"),
              "a program with compressed code": embed(room, "places/packed-program", compressed(fat))}
    if shutil.which("clang-offload-bundler-19"):
        host = room.write("host.o", b"")
        out = room.path("places/bundler.hipfb")
        subprocess.run(["clang-offload-bundler-19", "-type=o", "-compress", "-bundle-align=4096",
                        "-targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx90a,hipv4-amdgcn-amd-amdhsa--gfx1100",
                        f"-input={host}", f"-input={objects['hip', 'gfx90a']}", f"-input={objects['hip', 'gfx1100']}", f"-output={out}"], check=True)
        places["what clang-offload-bundler compressed"] = out
    for what, path in places.items():
        both = room.where("--code", path, "--source", room.sources, "physics::advance+0x8")
        t.ok(both.status == 0 and not both.wrong and not both.stderr, f"{what}: status 0", f"{both.status} {both.stderr} {both.wrong}")
        t.same([r["target"].split(":")[0] for r in both.addresses], ["gfx90a", "gfx1100"], f"{what}: an answer for each GPU")
        for gfx in ("gfx90a", "gfx1100"):
            alone = room.where("--code", objects["hip", gfx], "physics::advance+0x8").first
            one = room.where("--code", path, "--source", room.sources, "--gfx", gfx, "physics::advance+0x8")
            same = [k for k in ("address", "target", "symbol", "frames", "instructions", "meaning") if one.first.get(k) != alone[k]]
            t.ok(len(one.addresses) == 1 and not same and str(path) in one.first["code_object"], f"{what}: --gfx {gfx} is the lone object's answer", f"{same} {one.first}")
        other = room.unhang.run("where", "--code", path, "--gfx", "gfx1030", "0x1b00")
        t.ok(other.returncode == tap.CANNOT and b"gfx1030" in other.stderr, f"{what}: no code for another GPU: status 2", other.stderr)
    test_directory(t, room, objects)


def test_directory(t, room, objects):
    directory = room.path("many")
    (directory / "below").mkdir(parents=True)
    shutil.copy(objects["cl", "gfx942"], directory / "below" / "one.co")
    saved = directory / "file____opt_rocm_lib_libthing.so.1_offset_8192_size_4711"  # as the debug agent names it
    shutil.copy(objects["hip", "gfx942"], saved)
    (directory / "notes.txt").write_text("no code\n")
    for n in range(20):
        shutil.copy(objects["cl", "gfx1030"], directory / f"z{n}.co")
    found = room.where("--code", directory, "--gfx", "gfx942", "reduce+0x4", "physics::advance+0x4")
    t.same([r["code_object"] for r in found.addresses], [str(directory / "below" / "one.co"), str(saved)], "a directory: objects below it, and as the debug agent saves them")
    found = room.where("--code", directory, "reduce+0x4")
    t.ok(found.status == 0 and len(found.addresses) == 21, "an answer for each object that has the function", len(found.addresses))
    found = room.where("--code", objects["cl", "gfx942"], "--code", objects["hip", "gfx942"], "reduce+0x4", "physics::advance+0x4")
    t.ok(found.status == 0 and len(found.addresses) == 2, "--code twice", found.stderr)
    alike = room.path("alike")
    alike.mkdir()
    data = objects["hip", "gfx942"].read_bytes()
    for n, word in enumerate((b"retreat", b"abandon", b"advance")):  # what is dropped makes room for what follows
        (alike / f"{n}.co").write_bytes(data.replace(b"advance", word))
    found = room.where("--code", alike, "physics::advance+0x4")
    t.same([r["code_object"] for r in found.addresses], [str(alike / "2.co")], "objects alike but for their names")
    empty = room.path("empty")
    empty.mkdir()
    for what, path, words in (("a directory without code", empty, "no AMD GPU code"), ("a file without code", directory / "notes.txt", "no AMD GPU code"),
                              ("no such file", directory / "nothing", "no such file")):
        run = room.unhang.run("where", "--code", path, "0x10")
        t.ok(run.returncode == tap.CANNOT and not run.stdout and str(path).encode() in run.stderr and words.encode() in run.stderr, f"{what}: status 2", run.stderr)
    for arguments in ((), ("--code", empty), ("0x10",), ("--code",), ("--code", empty, "--context", "x", "0x1"), ("--code", empty, "--context", "-1", "0x1")):
        run = room.unhang.run("where", *arguments)
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1 and not run.stdout, f"where {' '.join(map(str, arguments))}: status 2 and one line", run.stderr)


def test_without(t, room, objects):
    path = objects["cl", "gfx942"]
    whole = room.where("--code", path, "reduce+0x20").first
    none = room.where("--code", path, "reduce+0x20", environment={"UNHANG_DISASSEMBLER": "none"})
    differs = sorted(k for k in whole if none.first.get(k) != whole[k])
    t.ok(none.status == 0 and not none.wrong, "without a disassembler: status 0", none.wrong)
    t.same(differs, ["instruction", "instructions", "meaning", "no_instructions"], "everything but the instructions is there")
    t.ok("disassembler" in (none.first["no_instructions"] or ""), "and it says so", none.first["no_instructions"])
    no_lines = room.compile("hip", "gfx942", "-g0", name="plain.co")
    found = room.where("--code", no_lines, "physics::advance+0x4")
    t.ok(found.status == 0 and found.first["function"] and found.first["instruction"] and not found.first["frames"], "without debug information: function and instruction", found.first)
    said = room.unhang.run("where", "--code", no_lines, "physics::advance+0x4").stdout.decode()
    t.ok("-g" in said, "and it says why there is no line", said)
    data = bytearray(path.read_bytes())
    data[0x30] = 0x4f  # the number of gfx950, which clang-19 cannot compile for
    newer = room.write("gfx950.co", bytes(data).replace(b"amdhsa--gfx942", b"amdhsa--gfx950"))
    found = room.where("--code", newer, "reduce+0x20", environment={"UNHANG_DISASSEMBLER": "llvm"})
    same = [k for k in ("kernel_name", "symbol", "offset", "source", "frames") if found.first.get(k) != whole[k]]
    t.ok(found.status == 0 and found.first["target"] == "gfx950" and not same and not found.stderr, "gfx950: kernel and lines", f"{same} {found.stderr}")
    t.ok(not found.first["instructions"] and "gfx950" in found.first["no_instructions"], "gfx950: LLVM 19 has no instructions, and that is said", found.first)


def test_sources(t, room, path):
    lines = OPENCL.splitlines()
    row = room.where("--code", path, "add+0x8").first
    t.ok(row["frames"] and all(f["text"] == (lines if f["file"].endswith("kernels.cl") else HELPERS.splitlines())[f["line"] - 1].strip() for f in row["frames"]),
         "the text of the line", row["frames"])
    moved = room.sources.with_name("elsewhere")
    room.sources.rename(moved)
    try:
        gone = room.where("--code", path, "add+0x8").first
        t.same([f["text"] for f in gone["frames"]], [None] * len(row["frames"]), "no text where the file is gone")
        for directory in (moved, moved / "..", moved / "include"):
            again = room.where("--code", path, "--source", directory, "add+0x8").first
            found = directory == moved
            t.ok(bool(again["frames"][0]["text"]) == found, f"--source {directory.name}: {'found' if found else 'not found'}", again["frames"])
    finally:
        moved.rename(room.sources)
    said = room.unhang.run("where", "--code", path, "add+0x8").stdout.decode()
    t.ok(f"| {row['frames'][0]['text']}" in said and "=> " + row["address"] in said, "the text shows the line and the arrow", said)


def damage(data, number):
    """A flip of one to a few bytes, a cut, or a run of the same byte; most of them where structures lie."""
    rng = random.Random(number)
    data = bytearray(data)
    if number % 5 == 0:
        return bytes(data[:rng.randrange(len(data))])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(min(len(data), rng.choice((64, 1024, 1 << 13, len(data)))))
        length = rng.choice((1, 1, 1, 4, 8))
        data[at:at + length] = rng.choice((rng.randbytes(length), b"\xff" * length, bytes(length)))[:len(data) - at]
    return bytes(data)


def try_damaged(room, what, data, asked, number, disassembler):
    path = room.write(f"damaged/{what}-{number}", damage(data, number))
    environment = {**room.unhang.environment, "UNHANG_DISASSEMBLER": disassembler}
    try:
        run = subprocess.run([room.unhang.binary, "where", "--json", "--source", room.sources, "--code", path, *asked], capture_output=True, env=environment, timeout=600,
                             stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{what} {number}: it hangs"
    said = run.stderr.decode(errors="replace")
    path.unlink()
    if run.returncode not in (0, 1, 2) or "Sanitizer" in said or "runtime error" in said:
        return f"{what} {number}: status {run.returncode}: {said[:1500]}"
    for line in said.splitlines():
        if not line.startswith("unhang: "):
            return f"{what} {number}: a strange line: {line}"
        if line == "unhang: no code could be read":
            continue
        if str(path) not in line:
            return f"{what} {number}: which file? {line}"
        named = re.search(r"0x[0-9a-f]|header \d|segment|symbol|kernel|no AMD GPU code|metadata|debug information", line)
        if not named:
            return f"{what} {number}: where in the file? {line}"
    if run.returncode == tap.CANNOT:
        return None if said else f"{what} {number}: status 2 and no word"
    errors = list(VALIDATORS["where"].iter_errors(json.loads(run.stdout)))
    if errors:
        return f"{what} {number}: {errors[0].json_path}: {errors[0].message[:200]}"
    return None


def test_damaged(t, room, objects):
    code = objects["hip", "gfx1100"]
    inside = [hex(a + 8) for a, _, _ in functions(code)]
    for what, data in (("object", code.read_bytes()), ("fat binary", fat_binary(objects))):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(try_damaged, room, what.replace(" ", "-"), data, [*inside, "physics::advance+0x10"], n, "llvm" if n % 8 == 1 else "none")
                    for n in range(DAMAGED)]
            wrong = [r.result() for r in runs if r.result()]
        t.no_complaints(wrong[:10], f"{what}: {DAMAGED} damaged ones, no crash, and what is wrong is named with its file")


def test_cores(t, room, objects):
    for gfx in ("gfx90a", "gfx942", "gfx1100", "gfx1201"):
        core = room.path(f"gpucore.{gfx}")
        subprocess.run([sys.executable, tap.HERE / "cores.py", core, "--gfx", gfx, "--code", objects["cl", gfx]], check=True)
        waves = Found(room.unhang, "waves", [core])
        t.ok(waves.status == 0 and not waves.wrong, f"waves of {gfx}: the document fits its schema", f"{waves.status} {waves.stderr} {waves.wrong}")
        listed = waves.document["waves"]
        answers = room.where("--code", objects["cl", gfx], "--loaded-at", "0x7f0000200000", *[w["pc"] for w in listed]).addresses
        t.same([[w[k] for k in ("kernel_name", "function", "offset", "source", "instruction")] for w in listed],
               [[a[k] for k in ("kernel_name", "function", "offset", "source", "instruction")] for a in answers], f"waves of {gfx}: as unhang where has it")
        registers = Found(room.unhang, "waves", ["--registers", core])
        t.no_complaints(registers.wrong, f"waves of {gfx} with registers: the document fits its schema")
        t.same([{k: v for k, v in w.items() if k not in ("hardware_registers", "hardware_fields", "sgprs", "vgprs", "shared_vgprs", "acc_vgprs", "lds", "ttmps", "effective_addresses")} for w in registers.document["waves"]], listed,
               f"waves of {gfx}: --registers only adds")
        queues = Found(room.unhang, "queues", [core])
        t.ok(queues.status == 0 and not queues.wrong, f"queues of {gfx}: the document fits its schema", f"{queues.stderr} {queues.wrong}")
        t.same({p["kernel_name"] for q in queues.document["queues"] for p in q["packets"]}, {listed[0]["kernel_name"]}, f"queues of {gfx}: the kernel's name")
    for command in ("waves", "queues"):
        for what, arguments in (("no core", ()), ("no such file", (room.directory / "nothing",)), ("no core but a code object", (objects["cl", "gfx942"],))):
            run = room.unhang.run(command, *arguments)
            t.ok(run.returncode == tap.CANNOT and not run.stdout and run.stderr.count(b"\n") == 1, f"{command}, {what}: status 2 and one line", f"{run.returncode} {run.stderr}")


def main():
    needed = ["clang-19", "ld.lld-19", "llvm-objdump-19", "llvm-symbolizer-19", "llvm-readelf-19"]
    absent = [tool for tool in needed if not shutil.which(tool)]
    if absent:
        tap.skip_all(f"{', '.join(absent)} not installed")
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    room = Room(unhang)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = {key: pool.submit(room.compile, *key) for key in [(language, gfx) for language in ("cl", "hip") for gfx in GPUS]}
        objects = {key: future.result() for key, future in made.items()}
    test_every_instruction(t, room, objects)
    test_loaded(t, room, objects["hip", "gfx942"])
    test_names(t, room, objects["cl", "gfx942"], objects["hip", "gfx942"])
    test_between(t, room, objects["hip", "gfx942"])
    test_places(t, room, objects)
    test_without(t, room, objects)
    test_sources(t, room, objects["cl", "gfx942"])
    test_cores(t, room, objects)
    test_damaged(t, room, objects)
    t.end()


if __name__ == "__main__":
    main()
