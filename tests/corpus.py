#!/usr/bin/env python3
"""The score on the corpus of real incidents, where it lies beside the repository."""
import re
import subprocess
import sys

import tap

CORPUS = tap.HERE / ".." / ".." / "shared" / "corpus"
# Percent, of both folders: what was reached once is kept.
WANTED = {"class": 98, "facts": 98, "quiet": 100, "first": 75, "specific": 67, "real-fix": 70, "useful": 84, "now": 91, "fault": 90}
BAD = 5  # percent of the remedies shown, at most


def main():
    if not (CORPUS / "score").exists():
        tap.skip_all("there is no corpus beside this repository")
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    run = subprocess.run([str(CORPUS / "score"), unhang.binary, "-v"], capture_output=True, text=True, env=unhang.environment)
    lines = run.stdout.splitlines()
    said = "  ".join(lines[-2:])
    t.note(said or run.stderr)
    why = "\n".join(lines[-30:]) + run.stderr
    for name, percent in WANTED.items():
        score = re.search(rf"\b{name} (\d+)/(\d+)", said)
        good, total = map(int, score.groups()) if score else (0, 0)
        t.ok(total and good * 100 >= percent * total, f"{name}: {good} of {total}, at least {percent} %", why)
    bad, shown = re.search(r"\bbad (\d+)", said), re.search(r"\buseful \d+/(\d+)", said)
    t.ok(bad and shown and int(bad.group(1)) * 100 <= BAD * int(shown.group(1)), f"at most {BAD} % of the remedies shown are irrelevant", why)
    for name in ("failed", "unfounded", "harm"):
        number = re.search(rf"\b{name} (\d+)", said)
        t.ok(number and number.group(1) == "0", f"no case of the corpus is {name}", why)
    wrong = []
    for case in sorted([*CORPUS.glob("*/log.txt"), *CORPUS.parent.glob("corpus2/*/log.txt")]):
        wrong += [f"{case.parent.name}: {problem}" for problem in unhang.explain(case).complaints]
    t.no_complaints(wrong[:20], "every answer fits the schema")
    t.end()


if __name__ == "__main__":
    main()
