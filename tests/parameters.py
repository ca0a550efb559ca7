#!/usr/bin/env python3
"""The table of parameters is what the Linux sources have: knowledge/parameters.know against 6.1 and 6.12.

What tools/parameters finds in the sources is kept beside this test, so that they need not be unpacked; where Debian's linux-source-6.1 or
linux-source-6.12 is installed, the lists are made again.
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys

import tap

TOP = tap.HERE / ".."
VERSIONS = ["6.1", "6.12"]
VALUE_OF_BIT = re.compile(r"(0x[0-9a-f]+) (\w+): \S")


def load_tool():
    loader = importlib.machinery.SourceFileLoader("parameters_tool", str(TOP / "tools" / "parameters"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def read_blocks(text):
    """Of each block its keys, each with the list of its values."""
    blocks, keys, value = {}, None, None
    for line in text.splitlines():
        if line.startswith("parameter "):
            keys = blocks.setdefault(line.split()[1], {})
        elif line.startswith(" " * 5):
            value[-1] += " " + line.strip()
        elif line.startswith("    "):
            key, _, rest = line.strip().partition(" ")
            value = keys.setdefault(key, [])
            value.append(rest.strip())
    return blocks


class Table:
    """What the table says of a version of amdgpu."""

    def __init__(self, blocks, version):
        self.version = version
        self.blocks = {name.removeprefix("amdgpu."): block for name, block in blocks.items()
                       if name.startswith("amdgpu.") and version in " ".join(block.get("seen", [])).split()}
        self.lacking = {name.removeprefix("amdgpu.") for name, block in blocks.items()
                        if name.startswith("amdgpu.") and version in " ".join(block.get("lacks", [])).split()}

    def was(self, name):
        """Default and type."""
        block = self.blocks[name]
        for line in block.get("was", []):
            version, default, *kind = line.split()
            if version == self.version:
                return default, kind[0] if kind else block["type"][0]
        return block["default"][0], block["type"][0]


def test_version(t, blocks, version):
    kept = [line.split("\t") for line in (tap.HERE / f"parameters-{version}.txt").read_text().splitlines()]
    facts = {fields[0]: fields for fields in kept if fields[1] != "bit"}
    table = Table(blocks, version)
    t.same(sorted(table.blocks), sorted(facts), f"{version}: every parameter of the source is in the table, and no other")
    names = {name.removeprefix("amdgpu.") for name, block in blocks.items() if name.startswith("amdgpu.") and "exists" not in block}
    t.same(sorted(table.lacking), sorted(names - set(facts)), f"{version}: what it lacks is said")
    t.same([(name, *table.was(name)) for name in sorted(facts)],
           [(name, fields[3] or "empty", fields[1]) for name, fields in sorted(facts.items())],
           f"{version}: types, and defaults as /sys shows them")
    wrong = [name for name, fields in facts.items() if fields[4] not in ("", "CONFIG_HSA_AMD") and table.blocks[name].get("config") != [fields[4]]]
    t.no_complaints(wrong, f"{version}: options that a parameter needs")
    if version == VERSIONS[-1]:
        t.same(sorted(name for name, block in table.blocks.items() if "writable" in block),
               sorted(name for name, fields in facts.items() if int(fields[2], 8) & 0o222), f"{version}: which can be written")
    wrong = []
    for mask, _, value, called in (fields for fields in kept if fields[1] == "bit"):
        name = re.sub(r"^(PP|DC|AMDGPU_DEBUG)_|_MASK$", "", called)
        if not any(line.startswith(f"{value} {name}: ") for line in blocks[f"amdgpu.{mask}"].get("bit", [])):
            wrong.append(f"{mask} {value} {name}")
    t.no_complaints(wrong, f"{version}: every bit of the masks is in the table")


def test_source(t, tool, version):
    source = pathlib.Path(f"/usr/src/linux-source-{version}.tar.xz")
    if not source.exists():
        t.skip(f"{version}: the list is what the source gives", f"{source} is not installed")
        return
    made = "".join("\t".join(fields) + "\n" for fields in tool.parameters(source))
    kept = (tap.HERE / f"parameters-{version}.txt").read_text()
    t.ok(made == kept, f"{version}: the list is what the source gives", f"tools/parameters {source} gives another parameters-{version}.txt")


def test_blocks(t, blocks):
    t.ok(len(blocks) > 120, "there is a table", len(blocks))
    wrong = []
    for name, block in blocks.items():
        bits = [VALUE_OF_BIT.match(line) for line in block.get("bit", [])]
        numbers = [int(bit[1], 16) for bit in bits if bit]
        if not all(bits) or numbers != sorted(set(numbers)) or any(number & number - 1 for number in numbers):
            wrong.append(f"{name}: bits")
        if set(" ".join(block.get("seen", [])).split()) & set(" ".join(block.get("lacks", [])).split()):
            wrong.append(f"{name}: seen and lacking in one version")
        if ("exists" in block) != ("instead" in block):
            wrong.append(f"{name}: what no kernel has, and only that, has an 'instead'")
        wrong += [f"{name}: {key}" for key in ("meaning", "source") if not block.get(key, [""])[0]]
    t.no_complaints(wrong, "bits are bits; no block contradicts itself; each has its meaning and source")
    mask = int(blocks["amdgpu.ppfeaturemask"]["default"][0], 16)
    named = {VALUE_OF_BIT.match(line)[2]: int(VALUE_OF_BIT.match(line)[1], 16) for line in blocks["amdgpu.ppfeaturemask"]["bit"]}
    t.same(sorted(name for name, bit in named.items() if not mask & bit), ["GFX_DCS", "OVERDRIVE"], "what ppfeaturemask has off by default")


def test_command(t, unhang, blocks):
    run = unhang.run("knowledge", "list", "parameter", "--json")
    t.same(sorted(one["id"] for one in json.loads(run.stdout)), sorted(blocks), "unhang knowledge list parameter")
    for written in ("amdgpu.cwsr_enable", "amdgpu.cwsr-enable"):
        run = unhang.run("knowledge", "show", written)
        t.ok(run.returncode == 0 and b"parameter amdgpu.cwsr_enable" in run.stdout, f"unhang knowledge show {written}", run.stdout)
    run = unhang.run("knowledge", "show", "--json", "amdgpu.gfxoff")
    keys = {one["key"]: one["value"] for one in json.loads(run.stdout)[0]["keys"]}
    t.ok(keys.get("exists") == "no" and keys.get("instead-clear") == "amdgpu.ppfeaturemask 0x8000", "gfxoff, as JSON", run.stdout)
    run = unhang.run("knowledge", "show", "amdgpu.no_such_thing")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "a parameter of which nothing is known", run.stderr)
    unhang.know("mine.know", "parameter amdgpu.gfxoff\n    type int\n    seen 9.1\n    meaning mine\n    source me\n")
    run = unhang.run("knowledge", "list", "parameter", "--json")
    t.same([one["text"] for one in json.loads(run.stdout) if one["id"] == "amdgpu.gfxoff"], ["mine"], "a user's block replaces ours")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    tool = load_tool()
    blocks = read_blocks((TOP / "knowledge" / "parameters.know").read_text())
    test_blocks(t, blocks)
    for version in VERSIONS:
        test_version(t, blocks, version)
        test_source(t, tool, version)
    test_command(t, unhang, blocks)
    t.end()


if __name__ == "__main__":
    main()
