#!/usr/bin/env python3
"""How unhang speaks: what people read has no empty placeholder, no double space, no sentence that is too long, and no word of
tests/words-to-avoid.txt. It looks at the texts of the knowledge files, the help texts, the man page, and the answers to every log that
there is (with the corpora beside the repository, theirs too)."""
import concurrent.futures
import json
import re
import sys

import screen
import tap

TOP = tap.HERE / ".."
PROSE = "title explain say many text do why if risk cost undo until verify seen good meaning".split()
LONGEST = 35  # words of a sentence; an event's facts are cut by commas, as the row that it is
SAID = {"title", "explanation", "text", "evidence", "why", "if", "cost", "risk", "undo", "until", "verify", "kind", "name"}


def avoided():
    """Patterns, each with what to write instead."""
    for line in (tap.HERE / "words-to-avoid.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, instead = line.split(" = ")
            yield re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I), instead


AVOIDED = list(avoided())


def prose(text):
    """Without what is quoted: commands and messages of others."""
    return re.sub(r"``.*?``|`[^`]*`|\"[^\"]*\"", "QUOTED", text)


def bad_words(text):
    for pattern, instead in AVOIDED:
        found = pattern.search(prose(text))
        if found:
            yield f"'{found.group(0)}' ({instead})"


def too_long(text):
    for sentence in re.split(r"(?<=[.!?;:])\s|\s\|+\s", prose(text)):
        words = len(sentence.split())
        if words > LONGEST:
            yield f"{words} words: {sentence}"


def blocks(path):
    """Each key of a knowledge file with its value in one line, and where it stands."""
    key, value, at = None, "", 0
    for number, line in enumerate([*path.read_text().splitlines(), "end"], 1):
        if line.startswith("        ") and key and not line.lstrip().startswith("#"):
            value += " " + line.strip()
            continue
        if key:
            yield at, key, value
        found = re.match(r"    (\S+) +(.*)", line)
        key, value, at = (found[1], found[2], number) if found else (None, "", 0)


STRAY_BAR = re.compile(r"(?<![| ])\||\|(?![| ]|$)")  # in a shell's command it may stand so


def test_knowledge(t):
    wrong, texts = [], 0
    for path in sorted((TOP / "knowledge").rglob("*.know")):
        for line, key, value in blocks(path):
            if key == "next":
                key, value = "why", value.split(" :: ")[0]
            if key not in PROSE or path.name in ("context.know", "packets.know", "instructions.know", "tables.know"):
                continue
            texts += 1
            said = [*bad_words(value), *(too_long(value) if key not in ("do", "verify", "undo") else ())]
            if re.search(r"\S  +\S", value):
                said.append("two spaces")
            if STRAY_BAR.search(value) and key not in ("do", "verify", "undo", "if"):
                said.append("a bar without blanks, which is printed")
            wrong += [f"{path.name}:{line}: {key}: {x}" for x in said]
    t.ok(texts > 3000, "the knowledge files have texts", texts)
    t.no_complaints(wrong, "texts of the knowledge files")


def test_help(t, unhang):
    wrong = []
    commands = [line.partition("\t")[0] for line in unhang.run("--list-commands").stdout.decode().splitlines()]
    t.ok(len(commands) > 10, "the help lists the commands")
    for command in ["", *commands]:
        said = unhang.run(*[x for x in (command, "--help") if x]).stdout.decode()
        wrong += [f"{command}: wider than 80: {line}" for line in said.splitlines() if len(line) > 80]
        wrong += [f"{command}: {x}" for x in bad_words(re.sub(r"\s+", " ", said))]
    t.no_complaints(wrong, "help texts fit 80 columns and use plain words")
    page = re.sub(r"^\.\\\".*", "", (TOP / "man" / "unhang.1").read_text(), flags=re.M)
    t.no_complaints(list(bad_words(page)), "the man page uses plain words")
    for name in ("README.md", "docs/EXAMPLES.md"):
        t.no_complaints(list(bad_words((TOP / name).read_text())), f"{name} uses plain words")
    t.ok(len((TOP / "README.md").read_text().splitlines()) <= 150, "the README has at most 150 lines")


EMPTY = [(re.compile(pattern), what) for pattern, what in (
    (r"\{[a-z_.@]+\}", "a placeholder is printed"), (r"\(\s*\)", "empty brackets"), (r"\[\s*\]", "empty brackets"), (r"\s[,;:.](\s|$)", "a space before punctuation"),
    (r"[,;:]\s*[,;.](\s|$)", "punctuation after punctuation"), (r"node-(?!\w)|\b(ring|rank|pid|PASID|VMID) [,;)]", "a name is missing"),
    (r"\b(at|of|with) ?(?=[,;)]|\.(\s|$)|$)", "something is missing at the end"))]


def strings(value, key=""):
    """All texts of a document for people."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name not in ("facts", "source", "run", "do", "sources", "machine", "at", "processes", "kernels", "kernel"):
                yield from strings(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, key)
    elif isinstance(value, str) and key in SAID:
        yield key, value


def fragments(explanation):
    """Sentences that lost their verb with a fact that is not known: 'The command processor (CPF).'"""
    for sentence in re.split(r"(?<=[a-z)])\.\s", prose(explanation).rstrip(".")):
        words = re.sub(r"\([^)]*\)", "", sentence).split()
        if len(words) < 2 and not sentence.startswith("(") or len(words) < 4 and words[:1] in (["The"], ["A"], ["An"]):
            yield f"no sentence: {sentence}."


def test_answers(t, unhang):
    files = screen.cases()
    if tap.is_sanitized(unhang.binary):
        files = dict(list(files.items())[::10])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = dict(zip(files, pool.map(lambda paths: unhang.run("explain", "--json", *paths).stdout, files.values())))
    wrong, seen = [], 0
    for name, text in said.items():
        for incident in json.loads(text)["incidents"]:
            wrong += [f"{name}: {x}" for x in fragments(incident["cause"]["explanation"])]
            for key, value in {pair: None for pair in strings(incident)}:
                seen += 1
                found = [what for pattern, what in EMPTY if pattern.search(prose(value))]
                wrong += [f"{name}: {key}: {what}: {value}" for what in [*found, *bad_words(value)]]
                if re.search(r"\S  +\S", value) and key != "text":  # which may quote a line
                    wrong.append(f"{name}: {key}: two spaces: {value}")
    t.note(f"{seen} texts of {len(said)} answers")
    t.no_complaints(wrong, "answers: no empty placeholder, no double space, plain words")


def test_bites(t):
    """The checks find what they are for."""
    t.ok(list(bad_words("The behavior is odd.")) and not list(bad_words("Behaviour. `behavior` is quoted.")), "an American word")
    t.ok(STRAY_BAR.search("a |, b") and not STRAY_BAR.search("a | b || c |"), "a stray bar")
    t.ok(list(too_long("word " * 40)) and not list(too_long("word " * 30)), "a long sentence")
    t.ok(list(fragments("Stuck. The command processor (CPF).")) and not list(fragments("The copy engine is stuck on a packet.")), "a fragment")
    for text in ("GPU node-{gpu_node} hung", "it failed ()", "at .", "the ring , which", "read of"):
        t.ok(any(pattern.search(text) for pattern, _ in EMPTY), f"an empty placeholder: {text}")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_bites(t)
    test_knowledge(t)
    test_help(t, unhang)
    test_answers(t, unhang)
    t.end()


main()
