#!/usr/bin/env python3
"""The library as it is installed: it exports uh_ and nothing else, and a program with names of its own can use it."""
import pathlib
import re
import shutil
import subprocess
import sys

import tap

HEADER = tap.HERE / ".." / "include" / "unhang" / "unhang.h"


def exported(library):
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in out.splitlines() if len(line.split()) > 1}


def main():
    t, unhang, program, library = tap.Tap(), tap.Unhang(sys.argv[1]), sys.argv[2], sys.argv[3]
    if shutil.which("nm"):
        names = exported(library)
        t.same(sorted(name for name in names if not name.startswith("uh_")), [], "it exports uh_ and nothing else")
        declared = set(re.findall(r"^[^/\n]*?\b(uh_\w+)\([^)\n]*[,;)]", HEADER.read_text(), re.M)) - {"uh_problem_fn", "uh_progress_fn"}
        t.ok(len(declared) > 10, "the header declares functions", declared)
        t.same(sorted(declared - names), [], "and all that its header declares")
    else:
        t.skip("it exports uh_ and nothing else", "no nm")
    log = tap.HERE / ".." / "docs" / "sample-dmesg.txt"
    run = subprocess.run([program, str(log)], capture_output=True, text=True, env=unhang.environment, timeout=60)
    t.same((run.returncode, run.stdout, run.stderr), (0, f"{len(unhang.explain(log).document['incidents'])} incidents, own 7\n", ""), "a program with functions of the same names links and uses it")
    t.ok(pathlib.Path(library).name == "libunhang.a", "it is called libunhang.a", library)
    t.end()


if __name__ == "__main__":
    main()
