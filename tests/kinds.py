#!/usr/bin/env python3
"""Every kind of knowledge is loaded, listed, shown and completed: src/knowledge/kinds/table.c is the only table of them."""
import json
import re
import sys

import tap

TOP = tap.HERE / ".."
# A block of each of some kinds, and one more with the same id.
REPLACED = "page-table test\n  parts gfx1*\n  bits present 0:0\n  mmhub vcn*\n"
WRONG = {"frame nonsense what": "a frame is: frame WORD", "ring gfx* nonsense": "a ring is: ring PATTERN", "vendor nonsense what": "a vendor is: vendor amd|nvidia",
         "fact test_a test_b :: nonsense": "a fact is: fact NAMES", "switch test": "needs NAMES :: VALUE", "bridge 1022:1234": "needs a name and what it means",
         "month 13 test": "a month is: month NUMBER", "anchor ab": "an anchor has at least three", "nonsense test": "unknown kind of block 'nonsense'",
         "class test": "needs a name and what it means", "part 1234 test": "a part is: part DEVICE", "message nonsense info what": "a message is: message SUBSYSTEM"}


def helped(unhang):
    text = re.search(rb"^kinds: ([^\n]*(?:\n +[^\n]*)*)", unhang.run("knowledge", "--help").stdout, re.M).group(1).decode()
    return text.replace("\n", " ").replace(",", " ").split()


def headings():
    """(kind, file, line) of each block that is built in."""
    for path in sorted((TOP / "knowledge").rglob("*.know")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() and not line[0].isspace() and not line.startswith("#"):
                yield line.split()[0], path.name, number


def test_list(t, unhang, kinds):
    blocks = list(headings())
    t.same(sorted(set(kinds)), sorted({kind for kind, _, _ in blocks}), "--help names the kinds that the files have")
    wrong = []
    for kind in kinds:
        run = unhang.run("knowledge", "list", kind, "--json")
        listed = {(one["file"], one["line"]) for one in json.loads(run.stdout)} if run.returncode == 0 else set()
        lost = {(file, line) for of, file, line in blocks if of == kind} ^ listed
        wrong += [f"{kind}: {sorted(lost)[:3]}"] if lost or run.stderr else []
        wrong += [f"{kind}: another kind is listed"] if any(one["kind"] != kind for one in json.loads(run.stdout or "[]")) else []
    t.no_complaints(wrong, "every block is listed with its kind, and nothing else")
    every = {one["kind"] for one in json.loads(unhang.run("knowledge", "list", "--json").stdout)}
    t.ok({"page-table", "sequence", "names", "register", "event"} <= every and not {"message", "part", "anchor", "month"} & every, "the list of all has what is not a long table", every)


def test_show(t, unhang, kinds):
    wrong = []
    for kind in set(kinds) - {"message"}:  # which has no id
        first = json.loads(unhang.run("knowledge", "list", kind, "--json").stdout)[0]
        shown = unhang.run("knowledge", "show", first["id"], "--json")
        same = [one for one in json.loads(shown.stdout or "[]") if one["kind"] == kind and one["line"] == first["line"]]
        wrong += [] if same and unhang.run("knowledge", "show", first["id"]).returncode == 0 else [f"{kind} {first['id']}: {shown.stderr}"]
    t.no_complaints(wrong, "a block of each kind can be shown")


def test_completion(t, unhang, kinds):
    words = unhang.run("knowledge", "list", "--list-options").stdout.decode().splitlines()[-1].split("\t")[3].split()
    t.same(sorted(words), sorted(kinds), "the completion knows the kinds")


def test_wrong(t, unhang):
    """What is wrong is told once, with its line, and not used."""
    for block, said in WRONG.items():
        run = unhang.run("knowledge", "check", unhang.write("wrong.know", "# a comment\n" + block + "\n"))
        lines = run.stderr.decode().splitlines()
        t.ok(run.returncode == tap.CANNOT and len(lines) == 1 and ":2: " in lines[0] and said in lines[0], f"'{block}' is wrong", lines)


REFERRING = """lead test-lead
    from nowhere
    to *
    within 5
    why test
work test-work
    title test
    votes nowhere
setting test-setting
    for nowhere
    when gfx = test
    say test
    grade C
    source test
unit test-unit
    title test
    waits nowhere test
verdict test-verdict
    health idle
    event nowhere
known-bad test-bad
    for gfx-ring-timeout
    when gfx = test
    title test
    grade C
    source test
    remedy nowhere
"""


def test_references(t, unhang):
    """What a key names must exist."""
    run = unhang.run("knowledge", "check", unhang.write("referring.know", REFERRING))
    said = sorted(line.partition(":")[2] for line in run.stderr.decode().splitlines())
    wanted = ["1: 'from': there is no stage or class 'nowhere'", "6: 'votes': there is no vote 'nowhere'", "9: 'for': there is no class 'nowhere'",
              "15: 'waits': there is no unit 'nowhere'", "18: 'event': there is no signature 'nowhere'", "21: 'remedy': there is no remedy 'nowhere'"]
    t.same((run.returncode, said), (tap.CANNOT, sorted(wanted)), "a key that refers to nothing is told with its block")


def in_home(unhang, kind, text):
    """What is listed of a kind with a file of the user's."""
    own = unhang.know("own.know", text)
    run = unhang.run("knowledge", "list", kind, "--json")
    own.unlink()
    return json.loads(run.stdout)


def test_same_id(t, unhang):
    ours = json.loads(unhang.run("knowledge", "list", "page-table", "--json").stdout)
    both = in_home(unhang, "page-table", REPLACED + REPLACED.replace("test", "gfx11"))
    t.same([one["id"] for one in both], [one["id"] for one in ours] + ["test"], "a user's block takes the place of ours with its id")
    t.ok([one["file"].endswith("own.know") for one in both if one["id"] == "gfx11"] == [True], "and is the user's", both)
    taken = in_home(unhang, "page-table", "retract page-table gfx11\n")
    t.same([one["id"] for one in taken], [one["id"] for one in ours if one["id"] != "gfx11"], "one that is retracted is gone")
    rows = in_home(unhang, "desktop", "desktop test-shell gnome-shell\n")
    t.same([one["id"] for one in rows[-2:]], ["test-shell", "gnome-shell"], "rows stand beside ours")
    name = json.loads(unhang.run("knowledge", "list", "cause", "--json").stdout)[0]["id"]
    own = "".join(f"cause {name}\n  from ring-timeout\n  stage hardware\n  confidence 1\n  severity 1\n  title {n}\n  explain what\n  fault job\n" for n in ("one", "two"))
    t.same([one["text"] for one in in_home(unhang, "cause", own)[:2]], ["one", "two"], "a user's causes stand before ours, in their order")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    kinds = helped(unhang)
    test_list(t, unhang, kinds)
    test_show(t, unhang, kinds)
    test_completion(t, unhang, kinds)
    test_wrong(t, unhang)
    test_references(t, unhang)
    test_same_id(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
