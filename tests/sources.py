#!/usr/bin/env python3
"""Remedies say what their threads say: every thread that is cited has a `source` block which supports it, or is listed here as not found."""
import re
import sys

import tap

TOP = tap.HERE / ".."
CITING = {"remedy", "known-bad", "check", "setting"}
THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")
LONGEST = 240
# Threads that could not be found or read when the sources were held against what cites them; those of drm/amd are on GitLab.
# A block that has no other source is worth grade C at most. Take a thread out once it has a block.
NOT_FOUND = set("""
    AMD-AGI/Hyperloom#138 FreeBSDDesktop/kms-drm#76 JuliaGPU/AMDGPU.jl#650 ROCm/ATOM#913 ROCm/ROCm#2480 ROCm/ROCm#407 ROCm/TheRock#1271
    ROCm/TheRock#1844 ROCm/TheRock#2118 ROCm/aiter#1433 ROCm/aiter#3635 ROCm/amdgpu#229 ROCm/rocm-libraries#11799 ROCm/rocm-libraries#6082
    ROCm/rocm-systems#3220 SemiAnalysisAI/InferenceX#1360 doitsujin/dxvk#5738 drm/amd#3062 drm/amd#3142 drm/amd#3149 drm/amd#3343
    drm/amd#3501 drm/amd#3599 drm/amd#4737 drm/amd#4765 drm/amd#4789 drm/amd#5567 drm/amd#5595 drm/amd#5711 ggml-org/llama.cpp#8504
    gnif/vendor-reset#5 nbramia/LifeOS#451 openucx/ucx#9589 pytorch/pytorch#60190 robertrosenbusch/gfx803_rocm#51
    sgl-project/sglang#22714 sgl-project/sglang#548 srinivamd/rocminstaller#6 sunway513/atom#37 triton-lang/triton#5839 triton-lang/triton#7326
""".split())
OUT_OF_MEMORY = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 15.98 GiB of which 0.90 GiB is free. "
                 "Of the allocated memory 12.00 GiB is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.\n")


def blocks():
    """(kind, id, key -> values) of each block that is built in."""
    for path in sorted((TOP / "knowledge").glob("*.know")):
        block, last = None, None
        for line in path.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if not line[0].isspace():
                if block:
                    yield block
                kind, name = (line.split() + [""])[:2]
                block, last, depth = (kind, name, {}), None, None
                continue
            indent = len(line) - len(line.lstrip())
            depth = depth or indent
            key, _, value = line.strip().partition(" ")
            if indent > depth and last:
                last[-1] += " " + line.strip()
            else:
                last = block[2].setdefault(key, [])
                last.append(value.strip())
        if block:
            yield block


def test_citations(t, sources, citing):
    unknown, refused, weak, cited = [], [], [], set()
    for kind, name, keys in citing:
        text = ", ".join(keys.get("source", []))
        threads = set(THREAD.findall(text))
        cited |= threads
        unknown += [f"{kind} {name}: {one}" for one in threads if one not in sources and one not in NOT_FOUND]
        refused += [f"{kind} {name}: {one}" for one in threads if sources.get(one, {}).get("confirms") == ["no"]]
        nothing_else = threads and threads <= NOT_FOUND - set(sources) and not THREAD.sub("", text).strip(" ,;")
        weak += [f"{kind} {name}: grade {keys['grade'][0]}" for _ in "x" if nothing_else and keys.get("grade", ["C"])[0] in "AB"]
    t.no_complaints(unknown, "every thread that is cited has a source block, or is known not to have been found")
    t.no_complaints(refused, "no thread is cited that does not confirm what cites it")
    t.no_complaints(weak, "what rests on threads that were not found alone is of grade C")
    t.same(sorted(NOT_FOUND & set(sources)), [], "what has a block is not listed as not found")
    t.same(sorted(NOT_FOUND - cited), [], "what is listed as not found is cited")


def test_says(t, sources):
    t.ok(len(sources) > 100, "there are sources", len(sources))
    t.no_complaints([f"{name}: {len(keys['says'][0])}" for name, keys in sources.items() if len(keys["says"][0]) > LONGEST], f"says is at most {LONGEST} characters")
    t.no_complaints([name for name, keys in sources.items() if keys.get("confirms", [""])[0] not in ("yes", "partly", "no")], "confirms is yes, partly or no")


def test_allocators(t, unhang):
    """max_split_size_mb and expandable_segments together damage live memory without a message (ROCm/ROCm#6603)."""
    for reserved, wanted in (("4.50 GiB", ["expandable-segments"]), ("180.00 MiB", ["allocator-tuning"])):
        remedies = [one["id"] for one in unhang.explain_text(OUT_OF_MEMORY.format(reserved)).first.data["remedies"]]
        t.same([one for one in remedies if one in ("allocator-tuning", "expandable-segments")], wanted, f"one of the two settings of PyTorch's allocator, with {reserved} reserved")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    every = list(blocks())
    sources = {name: keys for kind, name, keys in every if kind == "source"}
    test_says(t, sources)
    test_citations(t, sources, [one for one in every if one[0] in CITING])
    test_allocators(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
