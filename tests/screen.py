#!/usr/bin/env python3
"""The first screen: for every log that there is, how long the answer is, how wide, what it has in which order, and that what it leaves out
is one option away. In the repository alone these are the logs of tests/logs; with the corpora beside it, theirs too."""
import concurrent.futures
import glob
import json
import re
import subprocess
import sys

import diagnoses
import tap

LINES, MOST, COLUMNS, WIDEST = 24, 40, 80, 120
SHARED = [tap.HERE / ".." / ".." / "shared", tap.HERE / ".." / ".." / ".." / "shared"]
LABELS = ["GPU", "Now", "Fault", "Why", "Try"]
FAULTS = ("the program", "the node (hardware or setup)", "the driver or firmware", "the graphics driver: kernel, firmware or Mesa", "unknown")
TIME, ROLE = r"(?:(?:\d[\d:.]*|\+[\d.]+ \w+) +)?", r"(cause|effect|artefact|bystander)"
ROW = re.compile(rf"(?:^ {{2,20}}{TIME}{ROLE}(?=  )|^  {TIME}{ROLE}$)")  # beside its text, or above it


def cases():
    """The files of each case, by its name."""
    folders = sorted((tap.HERE / "logs").iterdir())
    for name in ("corpus", "corpus2"):
        for shared in SHARED:
            if (shared / name).is_dir():
                folders += sorted((shared / name).iterdir())
                break
    return {f"{f.parent.name}/{f.name}": sorted(p for p in f.iterdir() if p.name != "case.json") for f in folders if f.is_dir()}


def say(unhang, *arguments, columns=COLUMNS, **more):
    environment = dict(unhang.environment, **({"COLUMNS": str(columns)} if columns else {}), **more)
    run = subprocess.run([unhang.binary, "explain", *map(str, arguments)], capture_output=True, env=environment, timeout=120)
    return run.stdout.decode()


def each(unhang, files, *options, **more):
    """What is said of every case; two at a time, because a machine has two cores at least."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(files, pool.map(lambda paths: say(unhang, *options, *paths, **more), files.values())))


def labels(text):
    return re.findall(r"^([A-Z][A-Za-z]+)  ", text, re.M)


def rows(text):
    return [found.group(1) or found.group(2) for found in map(ROW.match, text.splitlines()) if found]


def has_incident(text):
    return bool(re.search(r"^Now  ", text, re.M))


def command(text):
    """The command of the next step, as a shell would take it."""
    found = re.search(r"^Next .*?:\n((?: {8}.*\n)+)", text, re.M | re.S)
    lines = [line for line in text.splitlines()]
    if not found:
        return None
    at = next(n for n, line in enumerate(lines) if line.startswith("Next"))
    while not lines[at].endswith(":"):
        at += 1
    end = next((n for n in range(at + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    return re.sub(r"\n +(# )?", " ", re.sub(r" \\\n +", " ", "\n".join(lines[at + 1:end]).strip()))


def test_length(t, unhang, files):
    """Nine of ten fit a terminal as it opens, and none is longer than two."""
    said = each(unhang, files)
    lengths = {name: text.count("\n") for name, text in said.items()}
    long = sorted((n, name) for name, n in lengths.items() if n > LINES)
    t.note(f"{len(said)} answers: {sum(n <= LINES for n in lengths.values())} within {LINES} lines, the longest has {max(lengths.values())}")
    t.ok(len(long) * 10 <= len(said), f"nine of ten answers fit {LINES} lines", long)
    t.same([x for x in long if x[0] > MOST], [], f"none is longer than {MOST}")
    t.no_complaints([f"{name}: {line}" for name, text in said.items() for line in text.splitlines() if len(line) > COLUMNS], "no line is wider than the terminal")
    t.no_complaints([f"{name}: {line}" for name, text in said.items() for line in text.splitlines() if line != line.rstrip()], "nor ends in a space")
    t.no_complaints([f"{name}: {' '.join(found)}" for name, text in said.items() for found in [re.findall(r"\S+: \[[a-z][a-z0-9-]+\]", " ".join(text.split()))] if found],
                    "a remedy's title does not end in a colon")
    return said


def test_order(t, said):
    """What a tired person reads, from the top."""
    incidents = {name: text for name, text in said.items() if has_incident(text)}
    t.ok(len(incidents) > 40, "most of them tell of an incident", len(incidents))
    complaints = []
    for name, text in incidents.items():
        wrong = []
        found = [x for x in labels(text) if x in LABELS]
        if found != LABELS:
            wrong.append(f"labels {found}")
        shown = rows(text)
        if not 1 <= len(shown) <= 4 or (shown[0] != "cause" and "earlier than this log" not in re.sub(r"\s+", " ", text)):
            wrong.append(f"rows {shown}")
        if not re.search(r"\. Confidence( in the cause)?: (high|medium|low)[.;]", " ".join(text.split())):
            wrong.append("no confidence")
        fault = re.search(r"^Fault   (?:perhaps |probably )?(.*)", text, re.M).group(1)
        if not fault.startswith(FAULTS):
            wrong.append(fault)
        if len(re.findall(r"^ {8}\d\. |^Try     \d\. ", text, re.M)) > 3:
            wrong.append("more than three remedies")
        if "unhang explain -v" not in text and text.count("\n") < LINES - 6:
            wrong.append("not how to see more, where there is room")
        complaints += [f"{name}: {x}" for x in wrong]
    t.no_complaints(complaints, "headline, GPU, now, fault, events with the cause first, why, confidence, at most three remedies, more")
    t.same([n for n, text in said.items() if re.search(r"^Sure |^Fault   [^ .]*'s|\(--verbose\)", text, re.M)], [], "labels that explain themselves")


def test_commands(t, unhang, files, said):
    """A command over several lines is the same command."""
    checked = 0
    complaints = []
    for name in [n for n, text in said.items() if has_incident(text)][::4]:
        wanted = unhang.explain(*files[name]).first.data["next"]
        if wanted:
            checked += 1
            got = command(said[name])
            if got is None and re.search("^Like ", said[name], re.M):
                continue  # a step makes room for what solved the same elsewhere
            if got != re.sub(" +", " ", wanted[0]["run"]):
                complaints.append(f"{name}:\nwanted {wanted[0]['run']!r}\ngot    {got!r}")
    t.ok(checked, "some have a next step", checked)
    t.no_complaints(complaints, "joined again, it is what JSON has")


def test_widths(t, unhang, files):
    """Narrow, wide, and unknown."""
    some = dict(list(files.items())[::3])
    for columns in (40, 60, 69):
        said = each(unhang, some, columns=columns)
        wide = [f"{name}: {line}" for name, text in said.items() for line in text.splitlines()
                if len(line) > columns and len(max(line.split(), key=len)) + 10 < columns and not line.startswith(" " * 8)]
        t.no_complaints(wide, f"{columns} columns: no line is wider")
        beside = [f"{name}: {line}" for name, text in said.items() for line in text.splitlines()
                  if ROW.match(line) and not re.fullmatch(ROW.pattern + "$", line)]
        t.no_complaints(beside, f"{columns} columns: an event stands below its time")
    said = each(unhang, some, columns=WIDEST)
    t.no_complaints([f"{name}: {line}" for name, text in said.items() for line in text.splitlines() if len(line) > WIDEST], f"{WIDEST} columns: no line is wider")
    t.same([name for name, text in said.items() if text.count("\n") > LINES], [], f"{WIDEST} columns: and none is longer than with {COLUMNS}")
    said = each(unhang, some, columns=200)
    widest = max(len(line) for text in said.values() for line in text.splitlines())
    t.ok(COLUMNS < widest <= WIDEST, f"200 columns: not stretched beyond {WIDEST}", widest)
    said = each(unhang, some, columns=None)
    t.same(said, each(unhang, some), f"without COLUMNS it is {COLUMNS}")


def test_verbose(t, unhang):
    """What the screen leaves out is there."""
    log = diagnoses.boot() + diagnoses.log(
        diagnoses.fault(45755.103, 0x7f3a00001000, diagnoses.status_of(8, 3)) + diagnoses.fault(45755.104, 0x7f3a00002000, diagnoses.status_of(8, 3)) +
        "45766.6 @ MES failed to respond to msg=REMOVE_QUEUE\n45766.9 @ MES failed to respond to msg=REMOVE_QUEUE\n" + diagnoses.reset(45767.0))
    path = unhang.write("dmesg.txt", log)
    brief, full = say(unhang, path), say(unhang, "-v", path)
    steps = unhang.explain(path).first.data["remedies"][0]
    t.ok("(and 1 more)" in brief and brief.count("page fault:") == 1 and full.count("page fault ") >= 2, "faults of one kind are one row, and two with -v", brief)
    t.ok(brief.count("MES timeout:") == 1 and "(2 times)" in brief, "what repeats is counted", brief)
    t.ok("full reset: MODE1" in brief and "reset begins" not in brief and "reset begins" in full, "that a reset begins is not said beside which one it was", brief)
    t.ok("cost" in full and "cost:" not in brief and steps["source"].split(",")[0] in full and steps["source"].split(",")[0] not in brief, "costs and sources are with -v", full)
    t.ok(re.search(r"^Confidence  in the cause: high \(\d+ %\):", full, re.M), "as is the figure", full)
    t.no_complaints([line for line in full.splitlines() if len(line) > 80 and "'" not in line], "-v keeps to 80 columns, but for a command that must stay whole")
    ring = unhang.write("ring.txt", "".join(f"Nov 15 21:02:1{second} box kernel: amdgpu 0000:0a:00.0: amdgpu: {text}\n" for second, text in (
        (1, "ring gfx_0.0.0 timeout, signaled seq=190211, emitted seq=190213"), (1, "Process information: process game.exe pid 4242 thread game.exe:cs0 pid 4250"),
        (1, "GPU reset begin!"), (2, "MODE1 reset"), (4, "GPU reset(1) succeeded!"))))
    fault = unhang.write("pf.txt", diagnoses.log(diagnoses.fault(812.1, 0x7f1234567000, diagnoses.status_of(8, 3))))
    t.ok("reset: MODE1, succeeded" in " ".join(say(unhang, fault, ring).split()), "a second incident does not push out how the reset ended", say(unhang, fault, ring))
    narrow = say(unhang, "-v", path, columns=60)
    t.ok(re.search(r"^\S+ +cause\n    page fault: ", narrow, re.M), "the long timeline is stacked too", narrow[:600])


def test_unknown(t, unhang):
    """Where nothing is known that helps, it says so, and what would tell more."""
    unhang.know("own.know", diagnoses.OWN)
    text = say(unhang, unhang.write("smoke.txt", "[  100.000000] smoke detector in kitchen reports 71 C\n"))
    unhang.know("own.know", "")
    t.ok(re.search(r"^Try     Nothing specific is known\.", text, re.M), "nothing specific is known", text)


def test_others(t, unhang):
    """More incidents have a line each, and the first keeps the screen."""
    log = "".join(diagnoses.log(f"{100 + 500 * n}.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n" + diagnoses.reset(101 + 500 * n)) for n in range(9))
    text = say(unhang, unhang.write("many.txt", log))
    t.ok("8 more incidents (--all):" in text and len(re.findall(r"^  0000:03:00.0  A graphics job .* \[line \d+\]$", text, re.M)) == 3 and re.search(r"^  and 5 more$", text, re.M) and text.count("\n") <= LINES,
         "three of them, and the number of the others", text)
    t.same(say(unhang, "--all", unhang.directory / "many.txt").count("\nNow  "), 9, "--all has a screen for each")


REFUSALS = {
    "dmesg": "dmesg: read kernel buffer failed: Operation not permitted\n",
    "an older dmesg": "dmesg: klogctl: Operation not permitted\n",
    "journalctl": "Hint: You are currently not seeing messages from other users and the system.\n"
                  "      Users in groups 'adm', 'systemd-journal' can see all messages.\nNo journal files were opened due to insufficient permissions.\n",
}


def test_refused(t, unhang):
    """A refusal that was saved instead of a log is no all-clear."""
    for name, text in REFUSALS.items():
        run = unhang.run("explain", "-", stdin=text)
        said = " ".join(run.stdout.decode().split())
        t.ok(run.returncode == 2 and "no all-clear" in said and "sudo dmesg" in said, f"{name}: unknown, and how to get it", f"{run.returncode}\n{said}")
        document = unhang.explain("-", stdin=text).document
        t.same((document.get("verdict"), document["incidents"]), ("unknown", []), f"{name}: unknown in JSON too")
    healthy = diagnoses.boot()
    run = unhang.run("explain", "-", stdin=healthy + REFUSALS["dmesg"])
    t.same(run.returncode, 0, "a refusal before or behind the log itself does no harm")
    run = unhang.run("explain", "-", stdin=REFUSALS["dmesg"] + diagnoses.log("100.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"))
    t.same(run.returncode, 1, "nor does it hide an incident")


def test_file(t, unhang):
    """`unhang FILE` is `unhang explain FILE`."""
    path = unhang.write("ring.txt", diagnoses.log("100.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"))
    wanted = unhang.run("explain", path)
    t.same(unhang.run(path).stdout, wanted.stdout, "a file alone")
    t.same(unhang.run("-v", path).stdout, unhang.run("explain", "-v", path).stdout, "and with an option before it")
    t.same(unhang.run("-", stdin=path.read_bytes()).stdout, unhang.run("explain", "-", stdin=path.read_bytes()).stdout, "and from a pipe")
    run = unhang.run("explian")
    t.ok(run.returncode == 2 and b"no command or file 'explian'" in run.stderr, "what is neither is told", run.stderr)


def test_gpus(t, unhang):
    """How many GPUs there should be. This machine has none, or fewer than a thousand."""
    run = unhang.run("live", "--expect-gpus", "1000")
    t.ok(run.returncode == 1 and b"1000 AMD GPUs were expected, " in run.stdout, "fewer than expected are an incident", run.stdout + run.stderr)
    run = unhang.run("live", "--expect-gpus", "none")
    t.ok(run.returncode == 2 and b"--expect-gpus needs a number" in run.stderr, "which wants a number", run.stderr)
    run = unhang.run("live", "--json", "--expect-gpus", "1000")
    document = json.loads(run.stdout)
    t.same((document["verdict"], document["expected_gpus"]), ("incident", 1000), "and is in JSON")
    without = unhang.run("live")
    if not glob.glob("/sys/bus/pci/drivers/amdgpu/0*"):
        t.ok(without.returncode == 2 and b"no AMD GPU" in without.stdout, "a machine without one is not healthy", without.stdout)


EMPTY = re.compile(r"\{[a-z_.]+\}|(?<!\w)\(\s*\)|\[\s*\]|node-\D|\bNone\b|^(?:[A-Z][a-z]+ )?[^a-z]*\([A-Z]+\)\.$| [,;.](?: |$)", re.M)


def test_empty(t, said):
    """Nothing stands for what is not known, and the first line says what happened."""
    incidents = {name: text for name, text in said.items() if has_incident(text)}
    t.same([f"{n}: {EMPTY.search(x).group(0)!r}" for n, x in said.items() if EMPTY.search(re.sub(r"^ {8}.*[|;*$>].*$", "", x, flags=re.M))], [], "no empty placeholder")
    heads = {n: x.split("\nGPU ")[0].split() for n, x in incidents.items()}  # a long name may begin the second line
    short = [f"{n}: {' '.join(words)}" for n, words in heads.items() if len(words) < 4]
    t.no_complaints(short, "the first line of an incident is a sentence")


ABSURD = re.compile(r"\blasted \d{4,}|[ (]-\d+(\.\d+)? m?s\b|\+\d{4,}(\.\d+)? s|\d{5,} (times|days)|\b1970-|within  s")


def test_times(t, unhang, said):
    """Times with a day and a zone, as far as the evidence has them, and none that cannot be."""
    t.same([f"{n}: {ABSURD.search(x).group(0)}" for n, x in said.items() if ABSURD.search(x)], [], "no absurd time in any answer")
    ring = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"
    forms = {
        "2026-08-27T05:28:27.652671+02:00 node7 kernel: ": "2026-08-27T03:28:27Z",
        "2026-08-27 05:28:27 node7 kernel: ": "2026-08-27 05:28:27 local time",
        "Aug 27 05:28:27 node7 kernel: ": "27 Aug 05:28:27 local time",
        "[  100.000000] ": None,
    }
    for prefix, wanted in forms.items():
        text = " ".join(say(unhang, unhang.write("dated.txt", prefix + ring + "\n")).split())
        head = text.split(" Now ")[0]
        t.ok(wanted in head if wanted else not re.search(r"local time|\dZ\b", text), f"{prefix.split(' node')[0]}: {wanted or 'seconds since the boot'}", text[:400])
    t.ok(", host node7;" in " ".join(say(unhang, unhang.write("dated.txt", "Aug 27 05:28:27 node7 kernel: " + ring + "\n")).split()), "and the host", text[:300])
    # A clock that is set while the incident lasts: both times are the wall's, and what lies between them is nothing that lasted.
    lines = f"1970-01-01T00:00:20+00:00 node7 kernel: {ring}\n2026-02-17T23:53:00+00:00 node7 kernel: amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!\n"
    for options in ((), ("-v",)):
        text = say(unhang, *options, unhang.write("set.txt", lines))
        t.ok(has_incident(text) and not ABSURD.search(text), f"a clock that was set {options}", text)


def steady(text):
    """Of an emulated machine what does not depend on this one: its processes, its kernel and the times are as they come, and so is the room for More."""
    text = re.sub(r"\d+\.\d s\b", "1.0 s", text)
    paragraphs = dict(re.findall(r"^([A-Z][A-Za-z]+)  +((?:.*\n)(?:        .*\n)*)", text + "\n", re.M))
    return [text.split("\n\n")[1].splitlines()[0], *(x for x in labels(text) if x != "More"), *(paragraphs.get(label) for label in ("Fault", "Why", "Next"))]


def test_samples(t, unhang):
    """The samples of the README and of docs are what the program says. A line of ... stands for what is left out."""
    top = tap.HERE / ".."
    machine = unhang.directory / "demo-machine"
    subprocess.run([sys.executable, tap.HERE / "machine_tree.py", "rx7900xtx-6.2", machine], check=True)
    emulates, checked = unhang.run("emulate", "idle", "--", "true").returncode == 0, 0
    for path in [top / "README.md", *sorted((top / "docs").glob("*.md"))]:
        for shown, text in re.findall(r"^    \$ (?:sudo )?(unhang .*)\n((?:    .*\n|\n(?=    ))*)", path.read_text(), re.M):
            emulated = shown.startswith("unhang emulate")
            if emulated and not emulates or " /" in shown or " -o " in shown or shown.startswith("unhang try"):  # a path of the reader's own, or one that it writes; tests/try.py has the other
                continue
            words = [unhang.binary if word == "unhang" else str(machine) if word == "build/demo-machine" else word for word in shown.split()]
            environment = dict(unhang.environment, COLUMNS=str(COLUMNS))
            said = subprocess.run(words, cwd=top, capture_output=True, env=environment, timeout=120).stdout.decode().rstrip("\n")
            wanted = re.sub(r"^    ", "", text, flags=re.M).rstrip("\n")
            parts = re.split(r"^\.\.\.$", wanted, flags=re.M)
            good = steady(said) == steady(wanted) if emulated else said.startswith(parts[0]) and said.endswith(parts[-1])
            good &= len(parts) > 1 or emulated or said == wanted
            checked += 1
            t.ok(good, f"{path.name}: {shown}", f"wanted\n{wanted}\ngot\n{said}")
    t.ok(checked >= 6, "there are samples", checked)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    files = cases()
    if tap.is_sanitized(unhang.binary):
        files = dict(list(files.items())[::5])
    said = test_length(t, unhang, files)
    if len(said) > 50:
        test_order(t, said)
    test_commands(t, unhang, files, said)
    test_widths(t, unhang, files)
    test_times(t, unhang, said)
    test_empty(t, said)
    for test in (test_verbose, test_unknown, test_others, test_refused, test_file, test_gpus, test_samples):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
