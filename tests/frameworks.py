#!/usr/bin/env python3
"""python/unhang: the decorator, PyTorch's operators, and sitecustomize; what is launched below them is joined to them.

Launches go through Debian's HIP over the KFD without silicon. What needs PyTorch is skipped where there is none: it is 170 packages,
`tools/install-packages torch` installs them."""
import ctypes.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import kfd
import tap
from tap import wait_for

PYTHON = tap.HERE / ".." / "python"
JOB = tap.HERE / "framework_job.py"
OFF = """import sys
before = set(sys.modules)
import unhang
def f(x): return x
with unhang.operation("name", f): pass
print(unhang.record(f) is f, unhang.record("name")(f) is f, unhang.level(), unhang.torch_operators(), sorted(set(sys.modules) - before))
"""


def older_object(where):
    """docs/sample-kernel.co as code object version 4: HIP 5.2 knows no newer one."""
    code = bytearray((tap.HERE / ".." / "docs" / "sample-kernel.co").read_bytes())
    code[8] = 2
    code[code.index(b"amdhsa.version\x92\x01\x02") + 16] = 1
    path = pathlib.Path(where) / "gather.co"
    path.write_bytes(code)
    return path


class Jobs:
    def __init__(self, unhang, library, where):
        self.unhang, self.library, self.where = unhang, pathlib.Path(library).resolve(), pathlib.Path(where)
        self.code = older_object(where)
        kfd.remember(unhang)

    def environment(self, recorder=True, **settings):
        base = {**self.unhang.environment, "PYTHONPATH": str(PYTHON), "LD_PRELOAD": str(self.library.parent / "libunhang-kfd.so"), "UNHANG_KFD": "gpu gfx90a",
                "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "UNHANG_RECORDING": f"{self.where}/%p.recording", "UNHANG_KEEP": "1000"}
        return {**base, **({"HSA_TOOLS_LIB": str(self.library)} if recorder else {}), **settings}

    def python(self, text, **settings):
        return subprocess.run([sys.executable, "-c", text], env=self.environment(**settings), capture_output=True, text=True, timeout=60)

    def start(self, mode, *more, **settings):
        return subprocess.Popen([sys.executable, JOB, mode, self.code, *more], env=self.environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, mode, *more, **settings):
        job = self.start(mode, *more, **settings)
        job.out, job.err = job.communicate(timeout=60)
        return job

    def path(self, pid):
        return self.where / f"{pid}.recording"

    def read(self, pid, *more):
        run = self.unhang.run("last", "--json", "--all", self.path(pid), *more)
        return json.loads(run.stdout)["recordings"][0] if run.returncode == 0 else None

    def launched(self, pid):
        """What was launched, by the size of its grid: each launch of a job has its own."""
        recording = self.read(pid) or {"queues": []}
        return {p["grid"][0] // 64: p for q in recording["queues"] for p in q["packets"] if p["kind"] == "dispatch"}


def told(packet):
    """The operation of a packet: its name, and the types and shapes of its tensors."""
    o = packet["operation"]
    return o and (o["name"], [(x["dtype"], x["shape"]) for x in o["tensors"]])


def test_off(t, jobs):
    for what, settings in (("no recorder", {"recorder": False}), ("level 0", {"UNHANG_LEVEL": "0"})):
        ran = jobs.python(OFF, **settings)
        t.same((ran.stdout, ran.stderr), ("True True 0 None []\n", ""), f"{what}: the function itself, and nothing is imported")
    ran = jobs.python("import unhang\nprint(unhang.record(print) is print, unhang.level())", UNHANG_LEVEL="0", UNHANG_MAX_LEVEL="3")
    t.same((ran.stdout, ran.stderr), ("False 0\n", ""), "level 0 that may be raised: the function can be recorded later")
    ran = jobs.python("import unhang\nprint(unhang.record(print) is print, unhang.level())\nunhang.record(print)('called')",
                      HSA_TOOLS_LIB="/nonexistent/libunhang-recorder.so")
    t.same((ran.stdout, ran.stderr), ("False 0\ncalled\n", ""), "a recorder that is not there: the job runs")


def test_decorator(t, jobs):
    ran = jobs.run("decorated", UNHANG_LEVEL="3")
    t.same((ran.returncode, ran.out, ran.err), (0, "returned attention It has a name.\nas it was\n", ""), "a decorated function returns, throws and is named as before")
    q = ("float16", [3, 4])
    launched = jobs.launched(ran.pid)
    name = "decorated.<locals>.attention"
    t.same(told(launched[2]), (name, [q] + [("unknown", [5])] + [q] * 6), "what it launches is joined to it, with eight tensors of its arguments at most")
    t.same(told(launched[3]), ("softmax", [q]), "what a context in it launches, to that")
    t.same(told(launched[4]), None, "what is launched behind it to none")
    by_number = {o["number"]: o for o in jobs.read(ran.pid)["operations"]}
    inner = launched[3]["operation"]
    t.same((by_number[inner["inside"]]["name"], inner["tensors"][0]["strides"], int(inner["tensors"][0]["address"], 16) != 0), (name, [6, 8], True),
           "with the operation around it, strides and address")
    t.ok(all(o["ended"] for o in by_number.values()) and "thrown" in {o["name"] for o in by_number.values()}, "all have ended, the one that threw too", by_number)
    values = launched[3]["arguments"]["values"]
    t.same([(v["type"], v["offset"], v["size"], v["pointer"]) for v in values],
           [("float const AS1*", 0, 8, True), ("int const AS1*", 8, 8, True), ("float AS1*", 16, 8, True), ("int", 24, 4, False)], "arguments have types, by the metadata of the code")
    t.ok(values[3]["text"] == "3" and "(64 KiB buffer)" in values[0]["text"], "and values", values)
    text = jobs.unhang.run("last", "--all", jobs.path(ran.pid)).stdout.decode()
    t.ok(f"in {name} > softmax\n      tensors: float16 3x4\n" in text and "have not ended" not in text, "and in words", text)


def test_filters(t, jobs):
    """Kernels are chosen by their own names, and by those of the operations around them."""
    ran = jobs.run("decorated", UNHANG_LEVEL="3", UNHANG_INCLUDE="*attention*", UNHANG_EXCLUDE="soft*")
    copied = [n for n, p in sorted(jobs.launched(ran.pid).items()) if p["arguments"]["state"] == "copied"]
    t.same(copied, [2], "included by an operation, not excluded by one inside of it, and not outside of both")


def test_types(t, jobs):
    """Level 5: what a framework said of a tensor is the type of the buffer."""
    ran = jobs.run("decorated", UNHANG_LEVEL="5")
    launched = jobs.launched(ran.pid)
    first = {n: [(s["dtype"], s["elements"], s["guessed"]) for s in launched[n]["statistics"]][:1] for n in (3, 4)}
    t.same(first, {3: [("float16", 12, False)], 4: [("float32", 16384, True)]}, "statistics of the tensor of an operation, and of a buffer of none")


def test_levels(t, jobs):
    job = jobs.start("levels", UNHANG_LEVEL="1")

    def step():
        job.stdin.write("\n")
        job.stdin.flush()
        return job.stdout.readline().strip()

    def level(n):
        run = jobs.unhang.run("level", str(job.pid), n)
        return run.returncode == 0 and wait_for(lambda: (jobs.read(job.pid) or {}).get("level") == int(n))

    said = [step(), level("0"), step(), level("3"), step()]
    job.stdin.close()
    job.wait(timeout=30)
    t.same(said, ["1", True, "0", True, "3"], "the level of a running job is changed")
    steps = [(o["name"].rsplit(".", 1)[-1], [x["dtype"] for x in o["tensors"]]) for o in jobs.read(job.pid)["operations"]]
    t.same(steps, [("step", []), ("step", ["int8"])], "and the decorator obeys at the next call: level 1 the name alone, 3 with tensors")


def test_hang(t, jobs):
    job = jobs.start("hang", UNHANG_KFD="gpu gfx90a; hang kernel gather_rows launch 2")
    job.stdout.readline()
    stands = 1.1  # seconds: a kernel that ran so long at the last look is known to run
    wait_for(lambda: jobs.launched(job.pid).get(7, {}).get("progress") == "running" and any(q["in_flight"] and q["moved"] > stands for q in jobs.read(job.pid)["queues"]))
    job.kill()
    job.communicate()
    packet = jobs.launched(job.pid)[7]
    t.same((packet["progress"], told(packet)), ("running", ("decode", [])), "a kernel that hangs names its operation, after a kill")
    text = jobs.unhang.run("last", jobs.path(job.pid)).stdout.decode()
    t.ok(f"thread {job.pid} (python3) is in decode" in text.replace(pathlib.Path(sys.executable).name, "python3"), "and where the thread is", text)


def test_fault(t, jobs):
    """A buffer of a framework holds many tensors: which one it was is known from its operations."""
    library = jobs.where / "libc10_hip.so"
    made = subprocess.run(["cc", "-shared", "-Wl,-soname,libc10_hip.so", "-o", library, "-x", "c", "/dev/null"], capture_output=True, text=True)
    ran = jobs.run("fault", *([library] if not made.returncode else []), UNHANG_KFD="gpu gfx90a; fault kernel gather_rows at argument 0 plus 8192", UNHANG_LEVEL="3")
    near = jobs.read(ran.pid, "--address", hex(int(ran.out, 16) + 0x1234))["near"]
    t.same((near["allocation"]["kind"], near["tensor"]), ("segment of PyTorch's allocator", "16 bytes past the end of tensor 1 (float32 4x8) of gather"),
           "an address past a tensor, in a segment of PyTorch's allocator")
    near = jobs.read(ran.pid, "--address", hex(int(ran.out, 16) + 0x1004))["near"]
    t.same(near["tensor"], "4 bytes behind the start of tensor 1 (float32 4x8) of gather", "an address in a tensor")
    fault = jobs.read(ran.pid)["faults"][0]
    t.ok("inside the 4 MiB segment of PyTorch's allocator" in fault["near"]["text"] and fault["near"]["tensor"] is not None, "a fault names its tensor", fault)
    arguments = jobs.launched(ran.pid)[9]["arguments"]["text"]
    t.ok(arguments.count(" (4 MiB segment)") == 3, "arguments that point to it say so in short", arguments)
    found = json.loads(jobs.unhang.run("explain", "--json", jobs.path(ran.pid)).stdout)["incidents"][0]
    facts = {f["name"]: f["value"] for f in found["facts"]}
    t.ok("tensor 1 (float32 4x8) of gather" in facts.get("fault_tensor", "") and facts.get("operation") == "gather", "explain has it as a fact", facts)


def test_site(t, jobs):
    hidden = jobs.where / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.stdout.write('hidden one ran\\n')\n")
    for what, path in (("before", [PYTHON, hidden]), ("alone", [PYTHON])):
        ran = jobs.python("import sys; print('ctypes' in sys.modules, 'unhang' in sys.modules)", recorder=False, PYTHONPATH=os.pathsep.join(map(str, path)))
        t.same((ran.stdout, ran.stderr), (("hidden one ran\n" if what == "before" else "") + "False True\n", ""), f"sitecustomize {what}: off, and it hides no other")
    torch = jobs.where / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("import os\nos.environ['HSA_TOOLS_LIB'] = 'libother.so'\n__version__ = '1.2.3'\n")
    ran = jobs.python("import torch, os, ctypes\nprint(torch.__version__, os.environ['HSA_TOOLS_LIB'], os.environ['HSA_TOOLS_ROCPROFILER_V1_TOOLS'])", PYTHONPATH=f"{PYTHON}:{jobs.where}")
    t.same(ran.stdout, f"1.2.3 libother.so {jobs.library} 1\n", "a framework that overwrites HSA_TOOLS_LIB: the recorder is named again")
    t.ok("no observer for this PyTorch: version 1.2.3 is not known" in ran.stderr and ran.stderr.count("\n") == 2, "one that is no PyTorch: told, and the job runs", ran.stderr)
    for way, wanted in (("off", []), ("observer", ["no observer"]), ("dispatch", ["no dispatch"]), ("none", ["none is"])):
        ran = jobs.python("import torch", PYTHONPATH=f"{PYTHON}:{jobs.where}", UNHANG_TORCH=way)
        t.same([" ".join(line.split()[2:4]) for line in ran.stderr.splitlines()], wanted, f"UNHANG_TORCH={way}: that way is tried, and no other")
    shutil.rmtree(torch)


def check_operators(t, jobs, ran, way, line=""):
    said, grad = ran.out.splitlines() if ran.out.count("\n") == 2 else ("", "")
    how, view, six, total = said.split() if said else [""] * 4
    t.same((ran.returncode, how, total, grad, ran.err), (0, way, "1128.0", "[2.0, 2.0, 2.0]", line), f"{way}: a job with PyTorch computes what it should")
    recording = jobs.read(ran.pid)
    mine = [o for o in recording["operations"] if "unhangtest" in o["name"]]
    joined = [p["operation"]["name"] if p["operation"] else None for q in recording["queues"] for p in q["packets"] if p["kind"] == "dispatch"]
    both = [("bfloat16", [4, 4]), ("float32", [1, 2, 1, 3, 1, 2])]
    t.same(mine and [(x["dtype"], x["shape"]) for x in mine[0]["tensors"]], both, f"{way}: an operator has types and shapes of its tensors")
    t.same(mine and [(x["address"], x["strides"]) for x in mine[0]["tensors"]], [(view, [8, 2]), (six, [12, 6, 6, 2, 2, 1])], f"{way}: their addresses and strides")
    t.ok(joined and "unhangtest" in joined[0], f"{way}: what it launches is joined to it", joined)
    names = {o["number"]: o["name"] for o in recording["operations"]}
    t.same(names.get(mine and mine[0]["inside"]), "layer", f"{way}: inside of what the program named")
    return recording, mine, joined


def test_observer(t, jobs):
    ran = jobs.run("pytorch", UNHANG_LEVEL="3")
    recording, mine, joined = check_operators(t, jobs, ran, "observer")
    t.same((len(mine), mine[-1]["tensors"][0]["dtype"], len({o["thread"]["tid"] for o in mine}), joined[1]), (2, "int64", 2, "unhangtest::launch"),
           "operators of other threads are seen, too")
    launched = jobs.launched(ran.pid)
    t.same((told(launched[6]), told(launched[7])), (("named", []), None), "what a user names goes on when the operator ends that began it, and ends itself")
    names = [o["name"] for o in recording["operations"]]
    t.ok("MulBackward0" in "".join(names) and "aten::mul" in names, "and those of the backward pass", names[-20:])
    cat = [o for o in recording["operations"] if o["name"] == "aten::cat"]
    t.same([(x["dtype"], x["shape"]) for x in cat[0]["tensors"]], [("bfloat16", [6, 8]), ("bfloat16", [4, 8])], "tensors in a list")
    t.ok(all(o["ended"] for o in recording["operations"]), "each has ended")


def test_dispatch(t, jobs):
    """Where the layout is not found a dispatch mode is used."""
    line = "unhang: recorder: no observer for this PyTorch: the place of sizes was found 0 times\n"
    check_operators(t, jobs, jobs.run("unknown", UNHANG_LEVEL="3"), "dispatch", line)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    where = tempfile.mkdtemp(prefix="unhang-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    jobs = Jobs(unhang, sys.argv[2], where)
    try:
        test_off(t, jobs)
        test_site(t, jobs)
        if not pathlib.Path(jobs.library.parent / "libunhang-kfd.so").exists() or ctypes.util.find_library("amdhip64") is None:
            t.skip("launches below operations", "no libamdhip64 here: tools/install-packages test installs it where the distribution has it")
            return t.end()
        for test in (test_decorator, test_filters, test_types, test_levels, test_hang, test_fault):
            test(t, jobs)
        if not jobs.python("import importlib.util as u\nprint(u.find_spec('torch'))", recorder=False).stdout.startswith("ModuleSpec"):
            t.skip("PyTorch's operators", "no PyTorch here: tools/install-packages torch installs it")
            return t.end()
        for test in (test_observer, test_dispatch):
            test(t, jobs)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
