#!/usr/bin/env python3
"""Every message that the driver can print is recognised: knowledge/driver-messages.know against the Linux sources.

Needs Debian's linux-source-6.12 and takes half a minute, for all builds together where UNHANG_TEST_SHARED names a folder that they share.
"""
import codecs
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

SOURCE = "/usr/src/linux-source-6.12.tar.xz"
TOOL = str(tap.HERE / ".." / "tools" / "driver-messages")

# A curated signature says more than where in the sources a message is printed: a failed start is `init` whichever block's
# file prints it. So subsystem and level are held against the sources only where a `message` of the generated file answers.

# Curated signatures of level info for what the sources call an error, and why that is right.
HARMLESS = {
    "ras-corrected": "deferred errors are contained: nothing has used the data yet",
    "ras-bank-register": "a register of a bank: what happened, its STATUS says",
    "ras-bank-corrected": "the hardware corrected it",
    "optional-ta": "firmware for options that the part does not have; printed on healthy machines",
    "runtime-pm": "printed on healthy machines",
    "jobs-skipped": "work that is dropped during a reset, and follows from it",
}

PREFIX = re.compile(r"(?:\[drm[^]]*?(?: \[\w+\])?\] (?:\*(?:ERROR|WARNING)\* )?|amdgpu [0-9a-f]{4}:[0-9a-f:.]+: |kfd kfd: |amdgpu: )*")


def read_sources():
    """(samples, what the check said, whether it was content); the sources are the same for every build, and read once."""
    shared = os.environ.get("UNHANG_TEST_SHARED")
    with contextlib.nullcontext(shared) if shared else tempfile.TemporaryDirectory() as folder:
        samples, said = pathlib.Path(folder) / "samples", pathlib.Path(folder) / "check.json"
        with open(pathlib.Path(folder) / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not said.exists():
                check = subprocess.run([TOOL, "check", SOURCE, samples], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                said.write_text(json.dumps([check.stdout, check.returncode == 0]))
        return [line.split("\t", 2) for line in samples.read_text().splitlines()], *json.loads(said.read_text())


def match(unhang, lines):
    run = unhang.run("knowledge", "match", "--json", "-", stdin="\n".join(lines) + "\n", timeout=300)
    return {m["line"]: m for m in json.loads(run.stdout)}


def backwards(line):
    """The line with the driver's prefix, but its words reversed: nobody's message."""
    at = PREFIX.match(line).end()
    return line[:at] + line[at:][::-1]


def other_letters(line):
    """The line with the driver's prefix, numbers and punctuation, but with other letters."""
    at = PREFIX.match(line).end()
    return line[:at] + codecs.encode(line[at:], "rot13")


def main():
    if not os.path.exists(SOURCE):
        tap.skip_all(f"{SOURCE} is not installed")
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    samples, said, same = read_sources()
    found = match(unhang, [line for _, _, line in samples])
    t.ok(len(samples) > 3000, "the sources hold thousands of messages", len(samples))
    t.same(len(found), len(samples), "one answer for each line")
    count, wrong = collections.Counter(), collections.defaultdict(list)
    for number, (subsystem, level, line) in enumerate(samples, 1):
        m = found.get(number, {})
        known, curated = "template" in m, m.get("signature") is not None
        count[level] += 1
        count[level, "known"] += known
        count[level, "curated"] += curated
        count[level, "named"] += known and bool(m["facts"])
        if not known:
            wrong[level, "unknown"].append(line)
        elif not curated and m["subsystem"] != subsystem:
            wrong[level, "subsystem"].append(f"{m['subsystem']}, not {subsystem}: {line}")
        elif not curated and m["level"] != level:
            wrong[level, "level"].append(f"{m['level']}, not {level}: {line}")
        elif curated and level == "error" and m["level"] == "info" and m["signature"] not in HARMLESS:
            wrong[level, "curated level"].append(f"{m['signature']}: {line}")
    for level in ("error", "warning"):
        n = count[level]
        t.note(f"{level}: {n} forms, {count[level, 'known'] * 100 / n:.1f} % recognised, {count[level, 'curated']} by curated signatures, "
               f"{count[level, 'named'] * 100 / n:.1f} % with named facts")
        t.no_complaints(wrong[level, "unknown"][:20], f"{level}: every form is recognised")
        t.no_complaints(wrong[level, "subsystem"][:20], f"{level}: with the subsystem of its source, where no curated signature knows better")
        t.no_complaints(wrong[level, "level"][:20], f"{level}: with its level")
    t.no_complaints(wrong["error", "curated level"][:20], "no curated signature makes an error harmless unless it is listed here")
    t.ok(count["error", "named"] * 3 >= count["error"], "a third of the error forms has named facts", f"{count['error', 'named']} of {count['error']}")

    for name, change in (("reversed", backwards), ("other letters", other_letters)):
        strange = [change(line) for _, _, line in samples]
        answers = match(unhang, strange)
        taken = [f"{line}\n  taken for: {answers[n]['template']}" for n, line in enumerate(strange, 1) if "template" in answers[n]]
        t.note(f"{name}: of {len(strange)} lines with the driver's prefix and nobody's words, {len(taken)} are taken for messages")
        t.no_complaints(taken[:20], f"without the driver's words nothing is recognised: {name}")

    t.ok(same, "driver-messages.know is what the sources give", said[-2000:])
    t.end()


if __name__ == "__main__":
    main()
