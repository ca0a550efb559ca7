#!/usr/bin/env python3
"""The score on the corpus of real incidents, where it lies beside the repository."""
import re
import subprocess
import sys

import tap

CORPUS = tap.HERE / ".." / ".." / "shared" / "corpus"
WANTED = {"class": 95, "facts": 97, "quiet": 100}  # percent


def main():
    if not (CORPUS / "score").exists():
        tap.skip_all("there is no corpus beside this repository")
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    run = subprocess.run([str(CORPUS / "score"), unhang.binary, str(CORPUS), "-v"], capture_output=True, text=True, env=unhang.environment)
    lines = run.stdout.splitlines()
    t.note(lines[-1] if lines else run.stderr)
    why = "\n".join(lines[-30:]) + run.stderr
    for name, percent in WANTED.items():
        score = re.search(rf"\b{name} (\d+)/(\d+)", lines[-1] if lines else "")
        good, total = map(int, score.groups()) if score else (0, 0)
        t.ok(total and good * 100 >= percent * total, f"{name}: {good} of {total}, at least {percent} %", why)
    for name in ("failed", "unfounded"):
        number = re.search(rf"\b{name} (\d+)", lines[-1] if lines else "")
        t.ok(number and number.group(1) == "0", f"no case of the corpus is {name}", why)
    wrong = []
    for case in sorted(CORPUS.glob("*/log.txt")):
        wrong += [f"{case.parent.name}: {problem}" for problem in unhang.explain(case).complaints]
    t.no_complaints(wrong[:20], "every answer fits the schema")
    t.end()


if __name__ == "__main__":
    main()
