#!/usr/bin/env python3
"""What people read is held against what programs read: all that the JSON says of an incident stands in the text with --verbose, in its order."""
import concurrent.futures
import json
import os
import re
import sys

import tap

DOCS = tap.HERE / ".." / "docs"
EVIDENCE = [*sorted(tap.HERE.glob("logs/*/log.txt")), *(DOCS / f"sample-{name}" for name in ("dmesg.txt", "server.log", "gpucore"))]
REMEDY = ("title", "kind", "grade", "source", "if", "cost", "risk", "undo", "until", "verify")  # and what to do
LABELS = ("Now", "Fault", "Why", "Confidence")


def flat(text):
    """Without the breaks of lines, which depend on the width."""
    return re.sub(r"\s+", " ", re.sub(r" \\\n", "\n", str(text))).strip()


def shown_of(incident):
    """What has to be read of an incident: what it is, and the words."""
    cause, action = incident["cause"], incident["action"]
    yield from ((f"cause.{key}", cause[key]) for key in ("title", "explanation", "evidence"))
    yield "how sure", f"({round(100 * cause['confidence'])} %):"
    yield "action", f"Now {action['text']}"
    yield from (("GPU", value) for gpu in incident["gpus"] for value in (gpu["pci"], gpu["name"], gpu["gfx"] and f"({gpu['gfx']})"))
    yield from (("process", process["name"]) for process in incident["processes"])
    yield from ((f"fact {fact['name']}", f"{fact['name']} {fact['value']}") for fact in incident["facts"] if isinstance(fact["value"], str))
    yield from ((f"remedy {remedy['id']}: {key}", remedy[key]) for remedy in incident["remedies"] for key in REMEDY)
    yield from ((f"remedy {remedy['id']}", step) for remedy in incident["remedies"] for step in remedy["do"])
    yield from (("setting", row[key]) for row in incident["settings"] for key in ("text", "grade", "source"))
    yield from (("next step", f"{step['why']}: {step['run']}") for step in incident["next"])


def unstopped(text):
    return re.sub(r"[,;:.](?= |$)", "", flat(text))


def lacking(document, text):
    """What the text does not say."""
    whole = flat(text)
    for incident in document["incidents"]:
        # A command over several lines stands without the comma that a sentence puts behind it.
        yield from (f"{what}: {words}" for what, words in shown_of(incident) if words and flat(words) not in whole and unstopped(words) not in unstopped(text))
        at = 0
        for event in incident["timeline"]:
            for words in (event["role"], event["text"], f"{event['at']['line']}]" if event["at"].get("line") else None):
                found = whole.find(flat(words or ""), at)
                if found < 0:
                    yield f"timeline, event {event['id']}: {words}"
                at = max(at, found)


def odd(text):
    """What is wrong with how it looks."""
    lines = text.splitlines()
    yield from (f"two empty lines at {n}" for n, pair in enumerate(zip(lines, lines[1:]), 1) if not any(pair))
    yield from (f"'{label}' begins no line" for label in LABELS if not re.search(rf"^{label} {{{max(7 - len(label) + 1, 2)}}}\S", text, re.M))
    yield from (f"no empty line before line {n}, {line}" for n, line in enumerate(lines) if line.startswith("Why ") and lines[n - 1])


def test_incidents(t, unhang):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda path: [unhang.run("explain", how, path).stdout.decode() for how in ("--json", "--verbose")], EVIDENCE))
    for path, (document, text) in zip(EVIDENCE, said):
        document = json.loads(document)
        name = path.parent.name if path.name == "log.txt" else path.name
        t.no_complaints([*lacking(document, text), *(odd(text) if document["incidents"] else ())], name)


def test_where(t, unhang):
    command = ["where", "--code", DOCS / "sample-kernel.co", "gather_rows+0x64", "gather_rows+0x4"]
    document, text = json.loads(unhang.run(*command, "--json").stdout), unhang.run(*command).stdout.decode()
    for row in document["addresses"]:
        wanted = [f"{row['address']}  {row['function']} +{row['offset']}   ({row['target']}, "]
        for n, frame in enumerate(row["frames"]):
            function = f"  in {frame['function']}{', inlined' * frame['inlined']}" if len(row["frames"]) > 1 else ""
            wanted.append(f"     {'from' if n else '  at'} {frame['file']}:{frame['line']}:{frame['column']}{function}\n")
            wanted += [f"             | {frame['text']}\n"] * bool(frame["text"])
        for one in row["instructions"]:
            wanted.append(f"       {'=>' if one['here'] else '  '} {one['address']}  {one['text']}\n")
            wanted += [f"                {row['meaning']}\n"] * bool(one["here"] and row["meaning"])
        t.no_complaints([line for line in wanted if line not in text], f"{row['asked']}: frames and instructions")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_incidents(t, unhang)
    test_where(t, unhang)
    t.end()


main()
