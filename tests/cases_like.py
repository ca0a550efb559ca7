#!/usr/bin/env python3
"""Cases like an incident: what is shared decides, not words; what is left out, hidden or moved; the first screen; the list, and drafts."""
import json
import os
import re
import sys

import jsonschema

import tap
from diagnoses import boot, log, ring_timeout

SCHEMA = json.loads((tap.HERE / ".." / "docs" / "cases.schema.json").read_text())
HUNG = log(ring_timeout(500, ring="gfx_0.0.0", process="frobnicator") + "500.2 @ frobnicate_ring_v9 in zz_test_library.so\n500.3 @ GPU reset begin!\n")
DEFECT = """defect {id}
    title      A program called frobnicator hangs the graphics ring
    state      solved
    by         setting
    fix        Start frobnicator with --slowly.
    confirmed  {confirmed}
{more}
"""
CASE = """case {source}
    defect     {id}
    date       2026-10
    gfx        gfx1100
    kernel     6.12.48
    program    frobnicator
    class      gfx-ring-timeout
    events     ring-timeout reset-begin
    names      frobnicate_ring_v9 zz_test_library.so
    read       2026-11-17
"""


def base(confirmed="several", more="", sources=("test/frob#1", "test/frob#2"), name="frob"):
    return DEFECT.format(id=name, confirmed=confirmed, more=more) + "".join(CASE.format(id=name, source=source) for source in sources)


def like(unhang, *options, text=None):
    answer = tap.Answer(unhang.run("explain", "--json", *options, unhang.write("frob.log", text or boot() + HUNG)))
    return answer, answer.first.data["like"]


def test_shared(t, unhang):
    unhang.know("cases.know", base())
    answer, found = like(unhang)
    t.no_complaints(answer.complaints, "the document is as its schema says")
    t.same([one["defect"] for one in found], ["frob"], "a case that shares part, kernel, names and program is told")
    same = {(one["what"], one["value"]) for one in found[0]["same"]}
    t.ok({("part", "gfx1100"), ("kernel", "6.12.48"), ("program", "frobnicator"), ("name", "frobnicate_ring_v9"), ("name", "zz_test_library.so")} <= same, "with what is the same", same)
    t.same(found[0]["sources"], ["test/frob#1", "test/frob#2"], "and with all its threads")
    t.same(like(unhang, text=boot() + log(ring_timeout(500, process="another")))[1], [], "one that shares only a ring timeout is not")
    other = boot(ids="0x1002:0x1586 0x1002:0x1586 0xC1", kernel="5.4.0")
    answer, found = like(unhang, text=other + HUNG)
    t.ok(not found or {one["what"] for one in found[0]["differs"]} >= {"part", "kernel"}, "what differs is told", found)
    run = unhang.run("explain", "-v", unhang.write("frob.log", boot() + HUNG)).stdout.decode()
    t.ok("link: https://github.com/test/frob/issues/1\n" in run, "with the address of the thread", run)
    shown = " ".join(unhang.run("explain", unhang.write("frob.log", boot() + HUNG)).stdout.decode().split())
    t.ok("Start frobnicator with --slowly." in shown and not re.search(r" [a-z]+_[a-z]+ ", re.search(r"Same .*?\.", shown)[0]), "the first screen has the whole fix, and no names of facts", shown)
    t.ok("test/frob#1" in run and "other threads: test/frob#2" in run and "same: " in run and "several confirm it" in run, "-v has all of it", run)


def test_without(t, unhang):
    unhang.know("cases.know", base())
    t.same(like(unhang, "--without", "test/frob#1")[1][0]["sources"], ["test/frob#2"], "one thread is left out")
    listed = unhang.write("list.txt", "test/frob#1\ntest/FROB#2\n")
    t.same(like(unhang, "--without", f"@{listed}")[1], [], "all are, by a file, whatever their case: so is the defect")
    t.same(like(unhang, "--without", "test/frob#1,test/frob#2")[1], [], "and by a list with commas")
    many = unhang.write("many.txt", "".join(f"owner/repo#{n}\n" for n in range(100_000)) + "Test/FROB#1\n")
    began = os.times()
    t.same(like(unhang, "--without", f"@{many}")[1][0]["sources"], ["test/frob#2"], "one in a list of 100,000")
    ended = os.times()
    t.ok(ended.children_user - began.children_user < 5, "which takes no time", str(ended))
    run = unhang.run("explain", "--without", "@/nowhere", unhang.write("frob.log", boot() + HUNG))
    t.ok(run.returncode == tap.CANNOT and b"/nowhere" in run.stderr, "a list that cannot be read is told", run.stderr)
    unhang.know("cases.know", base(sources=("ROCm/ROCm#99999991",)))
    t.same(like(unhang, "--without", "RadeonOpenCompute/ROCm#99999991")[1], [], "a repository that was renamed is the same one")


def test_open(t, unhang):
    text = DEFECT.replace("solved", "open")
    text = "\n".join(line for line in text.splitlines() if not line.strip().startswith(("by", "fix", "confirmed", "{more}"))) + "\n"
    cases = "".join(CASE.format(id="frob", source=f"test/frob#{n}") for n in range(6))
    unhang.know("cases.know", text.format(id="frob") + cases)
    new = like(unhang)[1]
    t.same([one["state"] for one in new], ["open"], "one that is open is told where it is very near")
    unhang.know("cases.know", text.format(id="frob") + cases.replace("2026-10", "2024-10"))
    t.same(like(unhang)[1], [], "but not where nobody reported it for a year")


def test_moves(t, unhang):
    many = [f"test/frob#{n}" for n in range(5)]
    unhang.know("cases.know", base(sources=many))
    before = like(unhang)[0].first.remedies
    moved = before[1] if len(before) > 1 else before[0]
    unhang.know("cases.know", base(more=f"    remedy     {moved}", sources=many))
    after = like(unhang)[0].first
    t.ok(after.remedies[0] == moved, f"what solved a case that is very near comes first: {moved}", (before, after.remedies))
    unhang.know("cases.know", base(confirmed="one", more=f"    remedy     {moved}", sources=many))
    t.same(like(unhang)[0].first.remedies, before, "what one person reports moves nothing")


def test_screen(t, unhang):
    unhang.know("cases.know", base())
    text = unhang.run("explain", unhang.write("frob.log", boot() + HUNG)).stdout.decode()
    rows = [line for line in text.splitlines() if line.startswith("Like")]
    t.ok(len(rows) == 1 and "test/frob#1" in rows[0] and "Start frobnicator with --slowly." in " ".join(text.split()), "the row names the thread and the fix", text)
    t.ok(len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80, "the first screen has 24 lines of 80 columns", text)


def test_shared_reports(t, unhang):
    unhang.know("cases.know", base())
    path = unhang.write("frob.log", boot() + HUNG)
    for option in (["--html", "-"], ["--markdown"]):
        said = unhang.run("explain", *option, path).stdout.decode()
        t.ok("test/frob" in said and "Start frobnicator with" in said, f"{option[0]} names the thread and the fix", said[:3000])


def test_list(t, unhang):
    unhang.know("cases.know", base())
    for options in ([], ["--part", "gfx11*"], ["--class", "gfx-ring-timeout"], ["--program", "FROBNICATOR"], [unhang.write("frob.log", boot() + HUNG)], ["test/frob#1"]):
        run = unhang.run("cases", "--json", *options)
        document = json.loads(run.stdout or "{}")
        wrong = [error.message[:200] for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)]
        t.no_complaints(wrong[:3] + ([run.stderr.decode()] if run.returncode else []), f"cases {' '.join(map(str, options))[:20]}: as the schema says")
        t.ok(any(one["defect"] == "frob" for place in [document.get("defects", [])] + [i["like"] for i in document.get("incidents", [])] for one in place), "and our defect is among them", options)
    none = json.loads(unhang.run("cases", "--json", "--program", "frobnicator", "--part", "gfx9*").stdout)
    t.same(none["defects"], [], "both filters count")
    text = unhang.run("cases", "--program", "frobnicator").stdout.decode()
    t.ok("test/frob#1, test/frob#2" in text and "1 defect, of which 1 is solved" in text, "as a text, with its threads", text)
    for words, say in ((("--class", "nosuch"), "there is no class 'nosuch'"), (("--part", "nosuch"), "there is no part 'nosuch'"), (("test/frob#99999999",), "test/frob#99999999 is not in the base")):
        run = unhang.run("cases", *words)
        t.ok(run.returncode == tap.CANNOT and say in run.stderr.decode() and not run.stdout, f"{' '.join(words)}: refused", run.stderr)
    own = unhang.run("cases", "test/frob#1").stdout.decode()
    t.ok("[frob]" not in own, "a case is not told that it is like itself", own)
    t.same(unhang.run("cases", "https://github.com/test/frob/issues/1").stdout.decode(), own, "it is found by its address, too")
    refused = unhang.run("cases", "--part", "gfx1100", unhang.write("frob.log", HUNG))
    t.ok(refused.returncode == tap.CANNOT and b"--part" in refused.stderr, "filters belong to the list", refused.stderr)


def test_draft(t, unhang):
    path = unhang.write("frob.log", boot() + HUNG)
    draft = unhang.run("cases", "--add", path, "https://github.com/test/frob/issues/7").stdout.decode()
    t.ok("case test/frob#7\n" in draft and "    gfx        gfx1100\n" in draft and "ring=gfx_0.0.0" in draft, "a draft has the thread and the facts", draft)
    t.ok(unhang.run("knowledge", "check", unhang.write("draft.know", draft)).returncode == tap.CANNOT, "as it is, it is not whole")
    filled = draft.replace("NAME", "frob-draft").replace("# title    what", "title what").replace("# by       kernel,", "by kernel #,").replace("# read     2026-11-17: the day on which you read it", "read 2026-11-17")
    filled = "\n".join("    by kernel" if line.strip().startswith("by") else line for line in filled.splitlines())
    filled = filled.replace("# fix      what to do", "fix Do this").replace("# confirmed  maintainer, several or one", "confirmed one")
    run = unhang.run("knowledge", "check", unhang.write("draft.know", filled))
    t.ok(run.returncode == 0, "filled in, it is right", run.stderr.decode() + filled)
    run = unhang.run("knowledge", "check", unhang.write("draft.know", filled.replace("frob-draft", "NAME")))
    t.ok(run.returncode == tap.CANNOT and b"give the defect a name" in run.stderr + run.stdout, "NAME is no name", run.stderr)
    gitlab = "https://gitlab.freedesktop.org/drm/amd/-/issues/1234"
    t.ok(f"case {gitlab}\n" in unhang.run("cases", "--add", path, gitlab).stdout.decode(), "a link to another host keeps it")
    run = unhang.run("cases", "--add", path, "notaurl")
    t.ok(run.returncode == tap.CANNOT and b"'notaurl' is no link" in run.stderr and not run.stdout, "what is no link is refused", run.stderr)
    run = unhang.run("cases", "--add", unhang.write("empty.log", "nothing\n"), "https://github.com/test/frob/issues/7")
    t.ok(run.returncode == tap.CANNOT and not run.stdout, "without an incident there is none", run.stderr)


WRONG = {
    "defect x\n  title y\n  state solved\ncase a/b#1\n  defect x\n  read 2026-11-17": "what is solved has 'by', 'fix' and 'confirmed'",
    "defect x\n  title y\n  state open\n  fix Do it.\ncase a/b#1\n  defect x\n  read 2026-11-17": "what is open has no",
    "defect x\n  title y\n  state open": "has no case",
    "case a/b#1\n  defect nowhere\n  read 2026-11-17": "there is no defect 'nowhere'",
    "case nothing\n  defect nowhere\n  read 2026-11-17": "a case is: case OWNER/REPO#NUMBER",
}
WRONG_KEYS = {"date 2025-13": "'date' is YEAR-MONTH", "gfx gfx9999": "there is no part 'gfx9999'", "kernel v6.1": "a version begins with a digit", "class nothing": "there is no class 'nothing'",
              "events nothing": "there is no event 'nothing'", "codes ring": "a code is FACT=VALUE", "firmware mes": "a firmware is NAME=VERSION", "settings X": "NAME=VALUE is needed", "names ab": "three letters or more",
              "colour red": "has no key 'colour'", "read 2026-11-17\ncase a/b#1\n  defect x": "is there already, in line"}


def test_wrong(t, unhang):
    tries = {**WRONG, **{f"defect x\n  title y\n  state open\ncase a/b#1\n  defect x\n  {key}\n  read 2026-11-17": said for key, said in WRONG_KEYS.items()}}
    for block, said in tries.items():
        run = unhang.run("knowledge", "check", unhang.write("wrong.know", block + "\n"))
        t.ok(run.returncode == tap.CANNOT and said in run.stderr.decode(), f"'{said}' is told", run.stderr)
    t.ok(unhang.run("knowledge", "check", unhang.write("right.know", base())).returncode == 0, "and what is right is")


def main():
    t = tap.Tap()
    for test in (test_shared, test_without, test_open, test_moves, test_screen, test_shared_reports, test_list, test_draft, test_wrong):
        test(t, tap.Unhang(sys.argv[1]))
    t.end()


main()
