#!/usr/bin/env python3
"""The one question of an answer: asked where a reply changes something, once, never of what the machine tells, and a reply does what was said."""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import tap

UNHANG = os.path.abspath(sys.argv[1])
GAME = """[  100.000000] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102
[  100.000100] amdgpu 0000:03:00.0: amdgpu:  Process game.exe pid 4242 thread game.exe:cs0 pid 4243
[  100.000200] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!
[  103.000000] amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!
"""
UNSURE = """[  100.000000] amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE
[  100.100000] amdgpu 0000:03:00.0: amdgpu: failed to remove hardware queue from MES, doorbell=0x1202
[  100.100100] amdgpu 0000:03:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU reset
[  100.200000] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!
"""
RAS = """[  100.000000] amdgpu 0000:83:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block
[  100.000100] amdgpu 0000:83:00.0: amdgpu: {1}poison is consumed by client 12, kick off gpu reset flow
"""


def unhang(*words, cwd=None, text=None):
    return subprocess.run([UNHANG, *words], cwd=cwd, input=text, capture_output=True, text=True, env={**os.environ, "HOME": "/nonexistent"})


def first(*words, cwd):
    return json.loads(unhang("explain", "--json", *words, cwd=cwd).stdout)["incidents"][0]


def test_row(t, cwd):
    shown = unhang("explain", "log.txt", cwd=cwd).stdout.splitlines()
    at = next((n for n, line in enumerate(shown) if line.startswith("Ask ")), None)
    if not t.ok(at is not None, "the answer ends with a question", "\n".join(shown)):
        return
    row = " ".join(line.strip() for line in shown[at:at + 2])
    t.ok(re.search(r"Ask +\S.*\? \([a-z]+(, [a-z]+)+\)  ?unhang explain log\.txt -a [a-z-]+=[a-z]+$", row), "with a command that can be pasted", row)
    words = shlex.split(shown[at + 1].strip())
    t.same((words[:4], unhang(*words[1:], cwd=cwd).returncode), (["unhang", "explain", "log.txt", "-a"], 1), "pasted, it answers")
    for form in ((), ("-v",), ("--markdown",), ("--html", "-")):
        for name in ("log.txt", "mes.txt", "ras.txt"):
            t.ok(not re.search(r"-a [a-z-]+=[a-z]+\|", unhang("explain", *form, name, cwd=cwd).stdout), f"{name} {' '.join(form)}: nothing that a shell would pipe")
    t.ok(len(shown) <= 24 and max(map(len, shown)) <= 80, "and all of it fits the first screen")
    said = [line for line in shown if not line.startswith(("Ask", "More")) and "-a " not in line]
    oneline = unhang("explain", "--oneline", "log.txt", cwd=cwd).stdout
    t.ok("-a " not in oneline and "?" not in oneline, "none in a line for programs", oneline)
    t.ok(said[0].startswith("A graphics job of game.exe"), "the rest is the answer", said[0])


def test_replies(t, cwd):
    before = first("log.txt", cwd=cwd)
    q = before["question"]
    t.same(before["answers"], [], "nothing was answered")
    t.ok(abs(sum(e["weight"] for e in before["explanations"]) - 1) < .03, "the weights add up to 1")
    t.ok(abs(sum(r["likely"] for r in q["replies"]) - 1) < .03, "and so do the replies")
    t.ok(any(r["changes"] for r in q["replies"]), "a reply changes something")
    for r in q["replies"]:
        after = first("-a", r["answer"], "log.txt", cwd=cwd)
        shown = [one["id"] for one in after["remedies"] if one["shown"]]
        t.same((after["action"]["do"], after["action"]["fault"], shown[0]), (r["do"], r["fault"], r["remedy"]), f"{r['answer']}: what was said comes true")
        t.same(after["question"], None, f"{r['answer']}: asked once")
        t.same([(a["question"], a["reply"]) for a in after["answers"]], [(q["id"], r["reply"])], f"{r['answer']}: it is told")
        t.same(next((e["id"] for e in after["explanations"] if e["leads"]), None), r["explanation"], f"{r['answer']}: what leads")
        t.same([after[key] for key in ("cause", "facts", "timeline")], [before[key] for key in ("cause", "facts", "timeline")],
               f"{r['answer']}: cause, facts and events stay")
    moved = first("--answer", "update=kernel", "log.txt", cwd=cwd)
    t.same((moved["action"]["fault"], moved["remedies"][0]["id"]), ("driver", "back-kernel"), "a kernel update: back to the kernel before it")
    moved = first("--answer=update=program", "log.txt", cwd=cwd)
    t.same((moved["action"]["fault"], moved["remedies"][0]["id"]), ("job", "back-program"), "an update of the program: back to that before it")
    moved = first("-a", "one-game=yes", "log.txt", cwd=cwd)
    t.same((moved["action"]["fault"], moved["remedies"][0]["id"]), ("job", "this-program-only"), "only one game: its settings")
    moved = first("-a", "returned=no", "ras.txt", cwd=cwd)
    t.same(moved["action"]["do"], "reset", "the first error of a memory: a reset, not a replacement")
    both = first("-a", "one-game=no", "-a", "overclocked=yes", "log.txt", cwd=cwd)
    t.same((both["action"]["fault"], both["remedies"][0]["id"], len(both["answers"])), ("node", "reset-overdrive", 2), "several replies count together")


def test_repeated(t, cwd):
    """The command is the user's own, quoted; what cannot be repeated is not."""
    name = "it's $(touch owned) here.txt"
    with open(os.path.join(cwd, name), "w") as out:
        out.write(GAME)
    shown = unhang("explain", "-v", "--part", "RX 580", name, cwd=cwd).stdout
    command = re.search(r"^ +(unhang explain(?:.*\\\n)*.*-a (?:\\\n *)?[a-z-]+=)", shown, re.M)
    t.ok(command, "-v has the whole command", shown[-1500:])
    words = shlex.split(command[1].replace("\\\n", ""))
    t.same(words[:-1], ["unhang", "explain", "-v", "--part", "RX 580", name, "-a"], "a shell reads the words that were given")
    t.ok(not os.path.exists(os.path.join(cwd, "owned")), "and nothing else")
    piped = unhang("explain", "-", cwd=cwd, text=GAME).stdout
    row = " ".join(re.search(r"^Ask.*\n(?: .*\n)*", piped, re.M)[0].split())
    t.ok(row.endswith("Add -a update=kernel (or mesa, program, nothing) to the command.") and "explain" not in row, "standard input cannot be read again", piped)
    page = unhang("explain", "--html", "-", "log.txt", cwd=cwd).stdout
    t.ok("unhang explain log.txt -a update=" in page and "--html" not in page.split('class="ask"')[1].split("</dd>")[0], "the page has the command too")


def test_refused(t, cwd):
    for word, say in (("one-gam=yes", "there is no question 'one-gam'; unhang knowledge list question has them"), ("one-game=maybe", "'maybe' is no reply to 'one-game'; it takes: yes, no"),
                      ("one-game=", "-a one-game needs a reply: yes, no"), ("update", "-a update needs a reply: kernel, mesa, program, nothing")):
        got = unhang("explain", "-a", word, "log.txt", cwd=cwd)
        t.same((got.returncode, got.stdout, len(got.stderr.splitlines())), (2, "", 1), f"{word}: one line, and 2")
        t.ok(say in got.stderr and len(got.stderr) <= 81, f"{word}: it says what there is", got.stderr)
    got = unhang("explain", "-a", "one-game=yes", "-a", "one-game=no", "log.txt", cwd=cwd)
    t.same((got.returncode, "answered twice" in got.stderr), (2, True), "two replies to one question")
    got = unhang("explain", "-a", "log.txt", cwd=cwd)
    t.same(got.returncode, 1, "-a alone still shows all incidents")


def test_silent(t, cwd):
    known = first("--part", "RX 7900 XTX", "known.txt", cwd=cwd)
    t.same((bool(known["known"]), known["question"]), (True, None), "a version that is known as bad: nothing to ask")
    mes = first("mes.txt", cwd=cwd)
    t.same(mes["question"]["id"], "driver-update", "one whose replies lead to different remedies")
    told = json.loads(unhang("explain", "--json", "quiet.txt", cwd=cwd).stdout)
    t.same(told["incidents"], [], "no incident, no question")


def test_machine(t, cwd):
    """What a machine tells by itself, as what was updated there, nobody is asked."""
    crash = os.path.join(cwd, "root/var/crash/1")
    os.makedirs(crash)
    with open(os.path.join(crash, "dmesg.1"), "w") as out:
        out.write(GAME)
    t.same(first("log.txt", cwd=cwd)["question"]["id"], "update", "of a file: what was updated")
    t.same(first("--root", "root", cwd=cwd)["question"]["id"], "one-game", "of a machine: what only its user knows")
    plain, told = (unhang("explain", "--json", "--root", "root", *more, cwd=cwd) for more in ((), ("-a", "update=mesa")))
    said, steered = (json.loads(got.stdout)["incidents"][0] for got in (plain, told))
    t.same((steered["answers"], steered["remedies"], steered["action"]), ([], said["remedies"], said["action"]), "a reply to what was not asked steers nothing")
    t.ok("-a update=mesa is not used" in told.stderr and len(told.stderr) <= 81, "and that is said in a line", told.stderr)


def test_page(t, cwd):
    page = unhang("explain", "--html", "-", "log.txt", cwd=cwd).stdout
    replies = first("log.txt", cwd=cwd)["question"]["replies"]
    parts = re.findall(r'<details class="reply"><summary>If (\S+)</summary><p>(.*?)</p>', page, re.S)
    t.same([reply for reply, _ in parts], [r["reply"] for r in replies], "a part for each reply, to be unfolded")
    for r, (_, text) in zip(replies, parts):
        wanted = r["remedy"] if r["changes"] else ""
        t.ok(wanted in text and text.strip(), f"{r['reply']}: it says what would come first", text)
    answered = unhang("explain", "--html", "-", "-a", "update=mesa", "log.txt", cwd=cwd).stdout
    t.ok("You replied: mesa" in answered and 'class="ask"' not in answered, "a page with a reply says so, and asks no more")
    markdown = unhang("explain", "--markdown", "log.txt", cwd=cwd).stdout
    t.ok("**Ask**" in markdown and "-a update=kernel" in markdown, "Markdown has the question")


def test_knowledge(t, cwd):
    """Mistakes in the likelihoods are told with their line."""
    head = "explanation mine\n    title      the cable\n    fault      node\n    for        gpu-off-bus\n    prior      10\n"
    for line, what in (("likely one-game yes 60 no 30", "100 in all"), ("likely one-game yes 100", "each reply"), ("likely nobody yes 50 no 50", "nobody"),
                       ("try no-such-remedy", "no-such-remedy")):
        with open(os.path.join(cwd, "mine.know"), "w") as out:
            out.write(f"{head}    {line}\n")
        got = unhang("knowledge", "check", "mine.know", cwd=cwd)
        t.ok(got.returncode and what in got.stdout + got.stderr, f"refused: {line}", got.stdout + got.stderr)
    with open(os.path.join(cwd, "mine.know"), "w") as out:
        out.write("question mine\n    ask        " + "Why " * 20 + "?\n    replies    yes no\n    fact       mine\n    why        So.\n")
    got = unhang("knowledge", "check", "mine.know", cwd=cwd)
    t.ok(got.returncode and "60 columns" in got.stdout + got.stderr, "a question is short", got.stdout + got.stderr)


def main():
    t = tap.Tap()
    with tempfile.TemporaryDirectory() as cwd:
        for name, text in (("log.txt", GAME), ("mes.txt", UNSURE), ("ras.txt", RAS), ("quiet.txt", "[    1.000000] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!\n"),
                           ("known.txt", GAME.replace("GPU reset begin!", "Ring gfx_0.0.0 reset failed\n[  100.000300] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"))):
            with open(os.path.join(cwd, name), "w") as out:
                out.write(text)
        for test in (test_row, test_replies, test_repeated, test_refused, test_silent, test_machine, test_page, test_knowledge):
            test(t, cwd)
    t.end()


if __name__ == "__main__":
    main()
