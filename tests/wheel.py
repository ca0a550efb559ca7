#!/usr/bin/env python3
"""The wheels: what they hold, that they are the same bytes each time, and that the package works from them, with no network and no pip.

Also the gate for what jobs load: it is to run with glibc 2.28, whatever it was built with (recorder/glibc.h)."""
import base64
import csv
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import tap

TREE = tap.HERE / ".."
NEWEST = (2, 28)
LIBRARIES = ["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"]
PLUGINS = """import sys
before = set(sys.modules)
from importlib.metadata import entry_points
points = entry_points()
mine = points.select(group="vllm.general_plugins") if hasattr(points, "select") else points["vllm.general_plugins"]
function, = [p.load() for p in mine if p.name == "unhang"]
import os
variables = dict(os.environ)
function()
function()
print("unhang" in sys.modules, dict(os.environ) == variables, os.environ.get("HSA_TOOLS_LIB"))
"""


def test_symbols(t, library, libraries):
    dynamic = subprocess.run(["readelf", "-W", "--dyn-syms", "--dynamic", library], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"UND (\S+)@GLIBC_([\d.]+)", dynamic)
    t.ok(len(wanted) > 50, f"{library.name}: its symbols of glibc are seen", dynamic)
    newer = [f"{name} of {version}" for name, version in wanted if tuple(map(int, version.split("."))) > NEWEST]
    t.same(newer, [], "none is newer than 2.28: recorder/glibc.h has the older versions")
    t.same(sorted(re.findall(r"NEEDED.*\[(.*)\]", dynamic)), libraries, "it needs glibc's libraries and no other")
    t.ok("ABI_" not in "".join(re.findall(r"GLIBC_\S*", dynamic)), "and no property of a newer loader")


def make(to, program, recorder):
    to.mkdir()
    said = subprocess.run([sys.executable, TREE / "packaging" / "wheel" / "make-wheel", TREE, program, recorder, to], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, check=True)
    return [pathlib.Path(line) for line in said.stdout.split()]


def test_files(t, wheels):
    t.same([re.sub(r"-[\d.]+-", "-V-", w.name) for w in wheels], [f"unhang-V-py3-none-manylinux_2_28_{os.uname().machine}.whl", "unhang_vllm-V-py3-none-any.whl"],
           "their names tell where they run")
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            record, = [n for n in names if n.endswith("/RECORD")]
            rows = {row[0]: row[1:] for row in csv.reader(wheel.read(record).decode().splitlines())}
            true = {n: ["sha256=" + base64.urlsafe_b64encode(hashlib.sha256(wheel.read(n)).digest()).decode().rstrip("="), str(wheel.getinfo(n).file_size)] for n in names}
            true[record] = ["", ""]
            t.same(rows, true, f"{path.name.split('-')[0]}: RECORD has each file's hash and size")
    with zipfile.ZipFile(wheels[0]) as wheel:
        held = {n for n in wheel.namelist() if n.startswith("unhang/")}
        modes = {n for n in held if wheel.getinfo(n).external_attr >> 16 & 0o111}
    sources = {f"unhang/{p.name}" for p in (TREE / "python" / "unhang").iterdir() if p.is_file()}
    t.same(held, sources | {"unhang/bin/unhang", "unhang/bin/libunhang-guard.so", "unhang/bin/libunhang-recorder.so", "unhang/share/unhang/python/sitecustomize.py"}, "the whole package is in it")
    t.same(modes, {"unhang/bin/unhang"}, "of which the program can be executed")


class Installed:
    """The wheels as pip unpacks them."""

    def __init__(self, wheels, to):
        self.to = to
        for path in wheels:
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(to)
        (to / "unhang" / "bin" / "unhang").chmod(0o755)
        self.recorder = str(to / "unhang" / "bin" / "libunhang-recorder.so")

    def python(self, *arguments, path=(), **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HSA_", "UNHANG_", "ROCM", "LD_PRELOAD", "PYTHON"))}
        environment.update(PYTHONPATH=":".join(map(str, [*path, self.to])), PYTHONDONTWRITEBYTECODE="1", **variables)
        ran = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd="/")
        return ran.returncode, ran.stdout, ran.stderr


def test_package(t, it, unhang):
    version = unhang.run("--version").stdout.decode()
    t.same(it.python("-m", "unhang", "--version"), (0, version, ""), "python -m unhang is the program")
    t.same(it.python("-c", "import unhang; print(unhang.record(print) is print, unhang.level(), unhang.torch_operators())"), (0, "True 0 None\n", ""),
           "without a recorder the decorator hands back the function")
    asked = "import os, sys, unhang; print(unhang.start_recorder()); print(unhang.start_recorder()); print(os.environ.get('HSA_TOOLS_LIB'), " \
            "os.environ.get('HSA_TOOLS_ROCPROFILER_V1_TOOLS'), len([f for f in sys.meta_path if type(f).__name__ == 'AfterTorch']))"
    r = it.recorder
    t.same(it.python("-c", asked), (0, f"{r}\n{r}\n{r} 1 1\n", ""), "start_recorder() names the wheel's recorder, once")
    t.same(it.python("-c", asked, HSA_TOOLS_LIB="libother.so"), (0, f"{r}\n{r}\nlibother.so {r} 1 1\n", ""), "behind another tool")
    t.same(it.python("-c", asked, UNHANG_LEVEL="0"), (0, "None\nNone\nNone None 0\n", ""), "and not at level 0")
    t.same(it.python("-c", "import unhang; unhang.start_recorder(); f = unhang.record(len); print(f is len, f('abc'), unhang.level())"), (0, "False 3 1\n", ""),
           "the decorator then records, and the function returns what it did")
    job = "import unhang, sys; r = unhang.run([sys.executable, '-c', 'import sys; sys.exit(7)'], options=['--quiet', '--state-dir', sys.argv[1]]); " \
          "print(r.status, r.ended, r.report['recorder'], r.report['schema'])"
    t.same(it.python("-c", job, it.to / "runs"), (0, f"7 exit {r} unhang/run/1\n", ""), "unhang.run() has the job's status and report")
    found = "import os, sys; print([p for p in os.environ['PYTHONPATH'].split(':') if p.endswith('share/unhang/python')], 'unhang.start' in sys.modules)"
    job = "import unhang, sys; unhang.run([sys.executable, '-c', sys.argv[2]], options=['--quiet', '--state-dir', sys.argv[1]])"
    t.same(it.python("-c", job, it.to / "runs", found), (0, f"['{it.to}/unhang/share/unhang/python'] True\n", ""), "its job's Python records PyTorch's operators")


def test_plugin(t, it):
    t.same(it.python("-c", PLUGINS), (0, "False True None\n", ""), "vLLM's plugin: nothing without its variable")
    t.same(it.python("-c", PLUGINS, UNHANG_VLLM="1"), (0, f"True False {it.recorder}\n", ""), "with it the recorder is started")
    broken = it.to / "broken"
    (broken / "unhang").mkdir(parents=True)
    (broken / "unhang" / "__init__.py").write_text("raise RuntimeError('broken')\n")
    code, out, err = it.python("-c", PLUGINS, path=[broken], UNHANG_VLLM="1")
    t.same((code, out, err.count("\n"), "vLLM is not recorded" in err), (0, "False True None\n", 2, True), "and what fails is one line, each time")


def test_rocm(t, it):
    """AMD's wheels, PyTorch's, and a variable."""
    code = "import unhang.program; print(unhang.program.rocm())"
    torch, sdk = it.to / "has-torch", it.to / "has-sdk"
    for path in (torch / "torch" / "lib" / "libamdhip64.so", torch / "torch" / "__init__.py", sdk / "rocm_sdk" / "__init__.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise RuntimeError('imported')\n")
    machine = "/opt/rocm" if os.path.isdir("/opt/rocm") else None
    t.same(it.python("-c", code, path=[torch])[1], f"{torch}/torch\n", "ROCm in PyTorch's wheel, which is not imported")
    (sdk / "rocm_sdk" / "__init__.py").write_text("import pathlib\ndef find_libraries(*names): return [pathlib.Path('/sdk/lib') / f'lib{n}.so.7' for n in names]\n")
    t.same(it.python("-c", code, path=[sdk, torch])[1], "/sdk\n", "AMD's own wheels come first")
    t.same(it.python("-c", code, path=[sdk, torch], ROCM_PATH="/mine")[1], "/mine\n", "a variable before all")
    (torch / "torch" / "lib" / "libamdhip64.so").unlink()
    t.same(it.python("-c", code, path=[torch])[1], f"{machine}\n", "a PyTorch without ROCm is passed over")


def main():
    t = tap.Tap()
    unhang, recorder = tap.Unhang(sys.argv[1]), sys.argv[2]
    test_symbols(t, pathlib.Path(recorder), LIBRARIES)
    test_symbols(t, pathlib.Path(recorder).with_name("libunhang-guard.so"), [l for l in LIBRARIES if l != "libm.so.6"])
    small = [make(unhang.directory / name, "/bin/true", recorder) for name in ("one", "two")]
    t.same(*([w.read_bytes() for w in wheels] for wheels in small), "made twice, they are the same bytes")
    wheels = make(unhang.directory / "three", unhang.binary, recorder)
    test_files(t, wheels)
    it = Installed(wheels, unhang.directory / "site")
    test_package(t, it, unhang)
    test_plugin(t, it)
    test_rocm(t, it)
    t.end()


if __name__ == "__main__":
    main()
