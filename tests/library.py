#!/usr/bin/env python3
"""The library as it is installed: it exports uh_ and nothing else, and a program with names of its own can use it."""
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import tap

HEADER = tap.HERE / ".." / "include" / "unhang" / "unhang.h"


def exported(library):
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in out.splitlines() if len(line.split()) > 1}


def test_bytes(t, unhang, program):
    """Bytes in memory are explained as the file of the same name is."""
    docs = tap.HERE / ".." / "docs"
    dmesg = (docs / "sample-dmesg.txt").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def written(name, data):
            (folder / name).write_bytes(data)
            return folder / name
        idle = b"Jul 24 12:28:27 host systemd[1]: Started Session of User root.\n"
        # One that is scanned as a stream would be, unless its size is known, and one that is scanned by anchors.
        middle, large = written("middle.log", idle * 10000 + dmesg), written("large.log", idle * 80000 + dmesg)
        archive = folder / "logs.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(docs / "sample-server.log", "server.log")
        both = [docs / "sample-dmesg.txt", docs / "sample-server.log"]  # the program sorts what it is given
        for files in ([docs / "sample-dmesg.txt"], both, [docs / "sample-gpucore"], [middle], [large], [archive]):
            files = [str(f) for f in files]
            run = subprocess.run([program, "--bytes", *files], capture_output=True, text=True, env=unhang.environment, timeout=60)
            want = subprocess.run([unhang.binary, "explain", "--json", *files], capture_output=True, text=True, env=unhang.environment, timeout=60)
            t.ok(run.returncode == 0 and len(run.stdout) > 100 and (run.stdout, run.stderr) == (want.stdout, want.stderr), f"bytes of {pathlib.Path(files[0]).name} are explained as the file is")
        journal, empty = written("old.journal", b"LPKSHHRH" + bytes(512)), written("empty.txt", b"")
        for path, why in ((journal, "a journal file, which can be read from a disk only"), (empty, "there is nothing to read")):
            run = subprocess.run([program, "--bytes", str(path)], capture_output=True, text=True, env=unhang.environment, timeout=60)
            t.same(run.stderr, f"{path}: {why}\n", f"of bytes: {why}")
        cut = written("cut.tar.gz", archive.read_bytes()[:-40])
        run = subprocess.run([program, "--bytes", str(cut)], capture_output=True, text=True, env=unhang.environment, timeout=60)
        t.ok("is cut off; what is there was read" in run.stderr, "an archive in memory that is cut is read as far as it goes", run.stderr)


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
    test_bytes(t, unhang, program)
    t.ok(pathlib.Path(library).name == "libunhang.a", "it is called libunhang.a", library)
    t.end()


if __name__ == "__main__":
    main()
