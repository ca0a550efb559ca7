#!/usr/bin/env python3
"""skills/rocm-crash-debug: every command in it is run, in an emulated machine with a job that hangs; every field of JSON that it names is there."""
import ctypes.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import emulated
import frameworks
import tap

TOP = tap.HERE / ".."
SKILL = (TOP / "skills/rocm-crash-debug/SKILL.md").read_text()
SCENARIO = "gpu 0000:03:00.0\n    part gfx90a\nkfd\n    hang kernel gather_rows launch 2\n"
# What the commands need: a job that hangs, and one that ends; what is root's already needs no sudo. Runs are stored here.
SETTING = """
mkdir bin && cd bin
printf '#!/bin/sh\\nexec "$@"\\n' >sudo
printf '#!/bin/sh\\ncat {top}/docs/sample-dmesg.txt\\n' >dmesg
printf '#!/bin/sh\\ntest "$PYTHONPATH" = /usr/share/unhang/python && export PYTHONPATH={top}/python\\necho | exec {python} {job} levels {code}\\n' >python
printf '#!/bin/sh\\ntest "$1" = run && shift && exec {unhang} run --state-dir %s/runs "$@"\\nexec {unhang} "$@"\\n' "$OLDPWD" >unhang
chmod +x * && cd ..
export PATH=$PWD/bin:$PATH
mkfifo told
HSA_TOOLS_LIB=libunhang-recorder.so PYTHONPATH={top}/python {python} {job} hang {code} >told 2>hang.err &
export PID=$! LOG={top}/docs/sample-server.log
read line <told
export RECORDING=$PWD/$PID.recording
"""


def commands():
    return [line for block in re.findall(r"^```sh\n(.*?)^```", SKILL, re.M | re.S) for line in block.splitlines()]


def test_form(t):
    head = re.match(r"---\nname: ([a-z0-9-]+)\ndescription: >\n((?:  .*\n)+)---\n\n# ", SKILL)
    t.ok(head and head[1] == "rocm-crash-debug" and 200 < len(" ".join(head[2].split())) <= 1024, "it has a name and a description as agents read them")
    t.ok(len(SKILL.splitlines()) < 500, "and is short enough to be read whole")
    used = set(re.findall(r"\bunhang ([a-z]+)\b", " ".join(commands())))
    t.ok({"explain", "last", "level", "capture", "live", "queues", "waves", "doctor", "remedy", "run"} <= used, "it shows the commands of the workflow", used)


def run_all(unhang, library, where):
    """Runs them all in one emulated machine. Returns what each said: status, output, errors."""
    setting = SETTING.format(top=TOP.resolve(), python=sys.executable, job=tap.HERE / "framework_job.py", code=frameworks.older_object(where), unhang=unhang.binary)
    script = [setting]
    for n, command in enumerate(commands()):
        script.append(f"{{ {command}\n}} >{n}.out 2>{n}.err </dev/null; echo $? >{n}.status\n")
    script.append("kill -9 $PID; wait\n")
    path = pathlib.Path(where) / "all.sh"
    path.write_text("".join(script))
    scenario = pathlib.Path(where) / "skill.scenario"
    scenario.write_text(SCENARIO)
    environment = {**unhang.environment, "LD_LIBRARY_PATH": str(pathlib.Path(library).resolve().parent), "UNHANG_RECORDING": f"{where}/%p.recording",
                   "PYTHONDONTWRITEBYTECODE": "1", "UNHANG_KEEP": "100"}
    done = subprocess.run([unhang.binary, "emulate", scenario, "--", "sh", path], cwd=where, env=environment, capture_output=True, text=True, timeout=200)
    return done, {command: [(pathlib.Path(where) / f"{n}.{what}").read_text() if (pathlib.Path(where) / f"{n}.{what}").exists() else ""
                            for what in ("status", "out", "err")] for n, command in enumerate(commands())}


def field(document, path):
    """All that `incidents[0].remedies[].id` names; an error where it is nothing."""
    found = [document]
    for name, many, index in re.findall(r"([a-z_]+)(\[(\d*)\])?\.?", path):
        found = [f[name] for f in found]
        found = [f[int(index)] for f in found] if index else [one for f in found for one in f] if many else found
    return found


def test_fields(t, documents):
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \|", SKILL, re.M)
    wrong = []
    for command, path in rows:
        places = 0
        for document in documents.get(command, []):
            try:
                places += bool(field(document, path)) or path.count("[]") == 0
            except (KeyError, IndexError, TypeError):
                pass
        if not places:
            wrong.append(f"{command}: {path}")
    t.no_complaints(wrong, f"each of the {len(rows)} fields that it names is in an answer")


def test_commands(t, unhang, library, where):
    done, said = run_all(unhang, library, where)
    documents = {}
    for command, (status, out, err) in said.items():
        # A job that ends well ends with 0; unhang itself has 1 where it found something.
        good = status.strip() in ("0", "" if command.endswith("train.py") else "1") and "usage:" not in err
        t.ok(good, command, f"status {status}{out[-300:]}{err[-600:]}\n{done.stderr[-300:]}")
        if good and "--json" in command:
            documents.setdefault(re.search(r"unhang (\w+)", command)[1], []).append(json.loads(out))
    live = said["unhang last $PID"][1]
    t.ok("gather_rows" in live and "in decode" in live, "the job that hangs is named, kernel and operation", live)
    documents["last"] = [json.loads(unhang.run("last", "--json", p).stdout) for p in pathlib.Path(where).glob("*.recording")]
    test_fields(t, documents)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_form(t)
    if not emulated.possible(unhang) or ctypes.util.find_library("amdhip64") is None:
        t.skip("its commands", "no FUSE, no name spaces, or no libamdhip64")
        return t.end()
    where = tempfile.mkdtemp(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        test_commands(t, unhang, sys.argv[2], where)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
