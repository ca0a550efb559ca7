#!/usr/bin/env python3
"""The list of kernels in code, held against llvm-readelf; code by the URIs that the runtime writes, of files and of processes."""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import jsonschema

import tap

GPUS = {"gfx90a": ["-Xclang", "-target-feature", "-Xclang", "-xnack"], "gfx1030": [], "gfx1201": []}
SOURCE = """\
kernel void tile(global float *out, global const float *in, float by, int n)
{
	local float row[256];
	float own[40];
	int i = __builtin_amdgcn_workitem_id_x();
	for (int k = 0; k < 40; k++)
		own[(k * n) % 40] = in[i + k];
	row[i] = own[n % 40] * by;
	__builtin_amdgcn_s_barrier();
	out[i] = row[255 - i];
}

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void nothing(void)
{
}
"""
FIELDS = {"vgprs": ".vgpr_count", "agprs": ".agpr_count", "sgprs": ".sgpr_count", "lds_bytes": ".group_segment_fixed_size",
          "scratch_bytes": ".private_segment_fixed_size", "kernarg_bytes": ".kernarg_segment_size", "wave_size": ".wavefront_size",
          "max_workgroup": ".max_flat_workgroup_size", "vgpr_spills": ".vgpr_spill_count", "sgpr_spills": ".sgpr_spill_count"}


def metadata(path):
    """(target, {kernel: {key: value}}, {kernel: [argument]}), of llvm-readelf's YAML."""
    text = subprocess.run(["llvm-readelf-19", "--notes", path], capture_output=True, text=True, check=True).stdout
    kernels, arguments = {}, {}
    for block in re.split(r"^  - ", text.split("amdhsa.kernels:")[1].split("amdhsa.target:")[0], flags=re.M)[1:]:
        lines = ["    " + block.splitlines()[0], *block.splitlines()[1:]]
        keys = dict(re.findall(r"^    (\.\w+): +(\S+)$", "\n".join(lines), flags=re.M))
        items = re.split(r"^      - ", block, flags=re.M)[1:]
        found = [dict(re.findall(r"(\.\w+): +(\S+)", item)) for item in items]
        arguments[keys[".name"]] = [a for a in found if ".offset" in a]
        kernels[keys[".name"]] = keys
    return re.search(r"amdhsa.target: +.*?(gfx\S+?)'?$", text, flags=re.M).group(1), kernels, arguments


def check_list(t, unhang, path, gpu):
    done = unhang.run("where", "--code", path, "--json")
    document = json.loads(done.stdout)
    schema = json.loads((tap.HERE / ".." / "docs" / "code.schema.json").read_text())
    t.no_complaints([e.message for e in jsonschema.validators.validator_for(schema)(schema).iter_errors(document)],
                    f"{gpu}: the list of kernels fits its schema")
    target, kernels, arguments = metadata(path)
    (only,) = document["objects"]
    t.same(only["target"], target, f"{gpu}: the target")
    t.same(sorted(k["symbol"] for k in only["kernels"]), sorted(kernels), f"{gpu}: the kernels")
    for kernel in only["kernels"]:
        wanted = {ours: int(kernels[kernel["symbol"]].get(theirs, 0)) for ours, theirs in FIELDS.items()}
        t.same({ours: kernel[ours] for ours in FIELDS}, wanted, f"{gpu}: what {kernel['symbol']} needs")
        t.same([(a["offset"], a["size"], a["kind"]) for a in kernel["arguments"]],
               [(int(a[".offset"]), int(a[".size"]), a[".value_kind"]) for a in arguments[kernel["symbol"]]],
               f"{gpu}: the arguments of {kernel['symbol']}")
    text = unhang.run("where", "--code", path).stdout.decode()
    t.ok(all(name in text for name in kernels) and target in text, f"{gpu}: the list as text", text)


def check_targets(t, unhang, path):
    """The numbers of all GPUs that LLVM 19 has names for; newer ones than it knows have a name too, or none at all."""
    code, paths = bytearray(path.read_bytes()), []
    for number in range(0x20, 0x60):
        code[0x30] = number
        paths.append(unhang.write(f"targets/{number:02x}.co", bytes(code)))
    flags = re.findall(r"^ +Flags: +(.*)$", subprocess.run(["llvm-readelf-19", "-h", *paths], capture_output=True, text=True, check=True).stdout, re.M)
    named = [(p, m[0]) for p, words in zip(paths, flags, strict=True) if (m := re.search(r"gfx[\w-]+", words))]
    t.ok(len(named) > 40, "LLVM has names for them", flags)
    found = []
    for some in (paths[:40], paths[40:]):
        run = unhang.run("where", "--json", *(word for p in some for word in ("--code", p)))
        found += [(o["code_object"], (o["target"] or "").split(":")[0]) for o in json.loads(run.stdout or b'{"objects": []}')["objects"]]
    t.same([f"{p}: {dict(found).get(str(p))}, not {name}" for p, name in named if dict(found).get(str(p)) != name], [], "the name of each number")


def check_uris(t, unhang, path):
    code = path.read_bytes()
    larger = unhang.write("larger.bin", b"x" * 4099 + code + b"y" * 100)
    name = f"file://{larger}#offset=4099&size={len(code)}"
    done = unhang.run("where", "--code", name, "tile", "--json")
    t.ok(done.returncode == 0 and json.loads(done.stdout)["addresses"][0]["kernel_name"] == "tile", "a part of a file", done.stderr)
    room = ctypes.create_string_buffer(code)
    name = f"memory://{os.getpid()}#offset={ctypes.addressof(room):#x}&size={len(code)}"
    done = unhang.run("where", "--code", name, "tile", "--json")
    t.ok(done.returncode == 0 and json.loads(done.stdout)["addresses"][0]["kernel_name"] == "tile", "memory of a process", done.stderr)
    for what, name, says in (
            ("a process that is not there", f"memory://{2 ** 22 - 1}#offset=0x1000&size=100", "could not be read"),
            ("memory that is not there", f"memory://{os.getpid()}#offset=0x10&size=4096", "could not be read"),
            ("memory of no size", f"memory://{os.getpid()}#offset=0x1000", "not understood"),
            ("a part that is not there", f"file://{larger}#offset=999999&size=10", "no code object in that part"),
            ("a URI that is none", "file://#", "not understood")):
        done = unhang.run("where", "--code", name, "0x0")
        t.ok(done.returncode == 2 and says in done.stderr.decode() and name.split("#")[0].split("//")[1] in done.stderr.decode(),
             f"{what}: status 2, and it says so", done.stderr)
    done = unhang.run("where", "--code", larger, "-", stdin="")
    t.ok(done.returncode == 2 and b"no address" in done.stderr, "no address on standard input is no list", done.stderr)


def main():
    if not shutil.which("clang-19") or not shutil.which("llvm-readelf-19"):
        tap.skip_all("clang-19 and llvm-19 are not installed")
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    source = unhang.write("tile.cl", SOURCE)
    for gpu, options in GPUS.items():
        path = unhang.directory / f"{gpu}.co"
        subprocess.run(["clang-19", "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={gpu}", "-nogpulib", "-O2", *options,
                        source, "-o", path], check=True)
        check_list(t, unhang, path, gpu)
    check_targets(t, unhang, unhang.directory / "gfx90a.co")
    check_uris(t, unhang, unhang.directory / "gfx90a.co")
    t.end()


main()
