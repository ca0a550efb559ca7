#!/usr/bin/env python3
"""The page's module answers as the program does, byte for byte: web.py UNHANG BUILD. BUILD is where `make web` builds; without it the test is
skipped."""
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

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


def why_not(build):
    """Why the module cannot be tried; None: it can."""
    if not (build / "build.ninja").exists() or not shutil.which("node"):
        return "make web has not been run, or there is no node"
    plan = subprocess.run(["ninja", "-C", str(build), "-n"], capture_output=True, text=True)
    return None if "no work to do" in plan.stdout else "the module is older than the sources: make web"


def pack(folder):
    """Archives of each kind, whole and cut, and one in another."""
    dmesg, server = TOP / "docs" / "sample-dmesg.txt", TOP / "docs" / "sample-server.log"
    for kind in ("", ":gz", ":xz", ":bz2"):
        with tarfile.open(folder / f"logs.tar{kind.replace(':', '.')}", "w" + kind) as tar:
            tar.add(dmesg, "logs/dmesg.txt")
            tar.add(server, "logs/sub/server.log")
    with zipfile.ZipFile(folder / "logs.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(dmesg, "dmesg.txt")
    with tarfile.open(folder / "nested.tar.gz", "w:gz") as tar:
        tar.add(folder / "logs.tar.xz", "logs.tar.xz")
        tar.add(dmesg, "dmesg.txt")
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", str(folder / "logs.tar")], check=True)
    for name in ("logs.tar.gz", "logs.tar.xz", "logs.zip", "nested.tar.gz"):
        data = (folder / name).read_bytes()
        (folder / f"cut-{name}").write_bytes(data[:len(data) * 2 // 3])
    return [[p] for p in sorted(folder.iterdir())]


def odd_files(folder):
    """What is read in other ways than a small log: one that is scanned in windows, a core, a directory, a name that is mangled in many parts, and
    what cannot be read."""
    dmesg = (TOP / "docs" / "sample-dmesg.txt").read_bytes()
    idle = b"Jul 24 12:28:27 host systemd[1]: Started Session 1 of User root.\n"
    # More references than are demangled without a child.
    kernel = b"_ZN1a1bI" + b"NS_1cINS_1dES1_EE" * 12 + b"EEvT_"
    contents = {
        "large.log": idle * 100000 + dmesg + idle * 1000,
        "middle.log": idle * 9000 + dmesg,
        "names.log": b"Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f0000000000. Reason: Unknown.\nKernel Name: " + kernel + b"\n",
        "folder/dmesg.txt": dmesg,
        "folder/sub/server.log": (TOP / "docs" / "sample-server.log").read_bytes(),
        "folder/empty": b"",
        "empty.log": b"",
        "binary": bytes(range(256)) * 64,
    }
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return [[p] for p in sorted(folder.iterdir())] + [[folder / "folder", folder / "large.log"]]


# Of emscripten's C library, for what a page never asks of it.
UNUSED = {"env.__syscall_faccessat", "env.__syscall_fdatasync", "env.__syscall_geteuid32", "env.__syscall_poll", "env.emscripten_notify_memory_growth"}


def test_imports(t, wasm):
    """The linker takes whatever it does not find for an import: a function that core wants of the machine side, and web/machine/ lacks."""
    out = subprocess.run(["node", str(TOP / "web" / "run.mjs"), str(wasm), "--imports"], capture_output=True, text=True).stdout.split()
    t.ok("page.open" in out, "the module wants files of the page", out)
    t.same([name for name in out if not name.startswith(("page.", "wasi_snapshot_preview1.")) and name not in UNUSED], [], "web/machine/ has all that core wants of a machine")


def test_absent(t, unhang, module):
    """Where something is missing, the answer says so; the rest is as the program's without source lines and instructions."""
    core = [TOP / "docs" / "sample-gpucore", TOP / "docs" / "sample-kernel.co"]
    got = json.loads(module.explain(core)["out"])
    notes = [note["text"] for note in got["notes"]]
    t.ok(any(note.startswith("source lines of") and note.endswith("the program does") for note in notes), "it says that there are no source lines", notes)
    t.ok("No instructions are shown: this page has no disassembler; the program has" in notes, "it says that there are no instructions", notes)
    t.ok("gather_rows" in got["incidents"][0]["cause"]["title"], "the kernel of a core is named all the same")
    journal = unhang.directory / "old.journal"
    journal.write_bytes(b"LPKSHHRH" + bytes(512))
    t.same(module.explain([journal])["problems"], [f"{journal}: a journal file, which the page cannot read; save it as text with journalctl"], "it says what to do with a journal")
    for entry in json.loads((TOP / "web" / "absent.json").read_text()):
        t.ok(set(entry) == {"id", "what", "why", "instead"} and all(entry.values()), f"absent.json says what to do instead: {entry['id']}")


def main():
    t, unhang, build = tap.Tap(), tap.Unhang(sys.argv[1]), pathlib.Path(sys.argv[2])
    why = why_not(build)
    if why:
        t.skip("the module's JSON equals the program's", why)
        t.end()
        return
    module = Module(str(build / "web" / "unhang.wasm"), unhang.environment)
    compare(t, unhang, module, [[p] for p in sorted((TOP / "tests" / "logs").rglob("*")) if p.is_file()], "tests/logs")
    for corpus in ("corpus", "corpus2"):
        cases = [[p] for p in sorted((SHARED / corpus).rglob("log.txt"))]
        if cases:
            compare(t, unhang, module, cases, corpus)
    for name, make in (("archives", pack), ("odd files", odd_files)):
        with tempfile.TemporaryDirectory() as folder:
            compare(t, unhang, module, make(pathlib.Path(folder)), name)
    test_absent(t, unhang, module)
    test_imports(t, build / "web" / "unhang.wasm")
    t.end()


if __name__ == "__main__":
    main()
