#!/usr/bin/env python3
"""The page's module answers as the program does, byte for byte: web.py UNHANG MODULE. It is run with node; without module or node the test is skipped."""
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import tap

TOP = tap.HERE / ".."
SHARED = next((p for p in (TOP / ".." / "shared", TOP / ".." / ".." / "shared") if p.exists()), TOP / ".." / "shared")


class Module:
    """One node for all cases."""

    def __init__(self, wasm, environment):
        self.node = subprocess.Popen(["node", str(TOP / "web" / "run.mjs"), wasm, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def explain(self, paths):
        self.node.stdin.write(json.dumps([str(p) for p in paths]) + "\n")
        self.node.stdin.flush()
        line = self.node.stdout.readline()
        return json.loads(line) if line else {"out": "", "problems": ["node ended"]}


def compare(t, unhang, module, cases, name):
    """Of many cases it says which differ."""
    wrong = []
    for paths in cases:
        want = subprocess.run([unhang.binary, "explain", "--json", *map(str, paths)], capture_output=True, text=True, env=unhang.environment, timeout=120)
        got = module.explain(paths)
        problems = [line.removeprefix("unhang: ") for line in want.stderr.splitlines()]
        if got["out"] != want.stdout or got["problems"] != problems:
            lines = [f"wanted {a!r}, got {b!r}" for a, b in zip(want.stdout.splitlines(), got["out"].splitlines()) if a != b][:1]
            wrong.append(f"{' '.join(map(str, paths))}: {lines} {problems[:2]} {got['problems'][:2]}")
    t.ok(cases, f"{name}: there are cases")
    t.no_complaints(wrong[:20], f"{name}: the module's JSON equals the program's")


def main():
    t, unhang, wasm = tap.Tap(), tap.Unhang(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not wasm.exists() or not shutil.which("node"):
        t.skip("the module's JSON equals the program's", "make web has not been run, or there is no node")
        t.end()
        return
    module = Module(str(wasm), unhang.environment)
    compare(t, unhang, module, [[p] for p in sorted((TOP / "tests" / "logs").rglob("*")) if p.is_file()], "tests/logs")
    for corpus in ("corpus", "corpus2"):
        cases = [[p] for p in sorted((SHARED / corpus).rglob("log.txt"))]
        if cases:
            compare(t, unhang, module, cases, corpus)
    t.end()


if __name__ == "__main__":
    main()
