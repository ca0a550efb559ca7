#!/usr/bin/env python3
"""docs/SCENARIOS.md is how strangers write scenarios: every example in it is read, every statement and every part is in it."""
import pathlib
import re
import sys
import tempfile

import tap

TOP = tap.HERE / ".."
DOCUMENT = (TOP / "docs/SCENARIOS.md").read_text()
HEADS = ("scenario", "gpu", "process", "kfd", "messages", "part")
GPU = "gpu 0000:03:00.0\n    part gfx1100\n"
PROCESS = "process p\n    queue 1 gpu 0000:03:00.0 ring 0x7f0000000000 size 4096\n"


def indented(text):
    """The blocks of example text, without their indent."""
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M):
        yield "\n".join(line[4:] for line in block.split("\n")).strip("\n") + "\n"


def whole(example):
    """An example as a scenario: what it speaks of is added."""
    if example.split()[0] not in HEADS:
        return GPU + "".join(f"    {line}\n" for line in example.splitlines())
    if re.search(r"^gpu ", example, re.M):
        return example
    if example.startswith("part "):
        return example + "\ngpu 0000:03:00.0\n    part " + example.split()[1] + "\n"
    return example + "\n" + GPU


def cells(text):
    """The examples in the last column of a table of statements."""
    for row in re.findall(r"^\| .*\|$", text, re.M):
        example = row.replace("\\|", "/").split("|")[-2].strip()
        if example.startswith("`") and example.endswith("`"):
            yield row.split("`")[1].split()[0], example[1:-1]


def examples():
    for text in indented(DOCUMENT):
        if not text.startswith(("unhang", "SECONDS", "LD_PRELOAD")):
            yield text, whole(text)
    gpu, _, rest = DOCUMENT.partition("\n## process NAME")
    part = rest.partition("\n## part NAME")[2]
    for name, example in list(cells(gpu)) + list(cells(part)):
        added = "    ring gfx_0.0.0\n    map 8 0x7f0000000000 vram 0x200000 64K\n"
        yield f"{name}: {example}", f"{GPU}{added}    {example}\n"
    yield "mqd", GPU + "    mqd 1 CP_HQD_PQ_RPTR 0x290\n" + PROCESS


def complaint(unhang, folder, text):
    path = folder / "example.scenario"
    path.write_text(text)
    done = unhang.run("emulate", "--check", str(path))
    return "" if done.returncode == 0 else done.stderr.decode().strip()


def test_examples(t, unhang):
    wrong, seen = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in examples():
            seen += 1
            said = complaint(unhang, pathlib.Path(folder), text)
            if said:
                wrong.append(f"{name}: {said}")
        t.ok(complaint(unhang, pathlib.Path(folder), GPU + "    bussy 1\n"), "a wrong statement is refused")
    t.ok(seen > 30, "the document has examples", str(seen))
    t.no_complaints(wrong, "every example of docs/SCENARIOS.md is a scenario")


def test_complete(t):
    named = set(re.findall(r"`([a-z0-9-]+)", DOCUMENT)) | set(re.findall(r"^    +([a-z]+)", DOCUMENT, re.M))
    statements = {name for path in ("gpu.c", "process.c", "model.c")
                  for name in re.findall(r'^\t\{ "([a-z0-9-]+)", ', (TOP / "emulator" / path).read_text(), re.M)}
    t.ok(len(statements) > 25, "the statements are found", str(sorted(statements)))
    t.same(sorted(statements - named), [], "every statement is in docs/SCENARIOS.md")
    parts = re.findall(r"^part (gfx\S+)", (TOP / "emulator/parts.text").read_text(), re.M)
    t.same([part for part in parts if f"| `{part}` |" not in DOCUMENT], [], "so is every part")


def main():
    unhang = tap.Unhang(sys.argv[1])
    t = tap.Tap()
    test_examples(t, unhang)
    test_complete(t)
    t.end()


if __name__ == "__main__":
    main()
