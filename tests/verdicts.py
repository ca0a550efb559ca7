#!/usr/bin/env python3
"""Each emulated machine: whether unhang says what its scenario expects, writes nothing, and opens only what it may."""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from emulated import ACTS, ALLOWED
from tap import HERE, VALIDATOR, Tap, is_sanitized, skip_all

UNHANG = os.path.abspath(sys.argv[1])
OWN = sorted([*(HERE / "scenarios").glob("*.scenario"), *(HERE / "scenarios" / "blind").glob("*.scenario")])[::3 if is_sanitized(UNHANG) else 1]
SCENARIOS = sorted([*(HERE / ".." / "emulator" / "scenarios").glob("*.scenario"), *OWN])
DEADLINE = 120  # of the test, not of unhang: a machine that is never so slow

def expectations(path):
    """{'class': ..., 'block': ..., 'gpu': ..., 'exit': ..., 'health': ...} of the first block."""
    found = {}
    for line in path.read_text().splitlines():
        match = re.match(r"\s+expect\s+(\w+)\s+(\S+)", line)
        if match:
            found[match[1]] = match[2]
    return found


def emulate(scenario, *command, record=None):
    options = ["--record", str(record)] if record else []
    environment = dict(os.environ, UNHANG_CONTAINER="no", XDG_CONFIG_HOME="/nonexistent")
    return subprocess.run([UNHANG, "emulate", *options, str(scenario), "--", *command], capture_output=True, text=True,
                          timeout=DEADLINE, env=environment, check=False)


def holders(path):
    """(process, GPU) of each that has a node open, as the scenario says."""
    found, process = [], None
    for line in path.read_text().splitlines():
        if line.startswith("process "):
            process = line.split()[1]
        elif line.split()[:1] == ["opens"]:
            found.append((process, line.split()[1]))
    return found


def stuck_blocks(incident):
    return [f["value"] for f in incident["facts"] if f["name"] == "ip_block"]


def check_verdict(t, name, wanted, run, opened=()):
    """The document is whole, and says what the scenario expects."""
    try:
        document = json.loads(run.stdout)
    except ValueError:
        t.ok(False, f"{name}: a document", run.stdout[:500] + run.stderr[:500])
        return
    t.no_complaints([e.message for e in VALIDATOR.iter_errors(document)], f"{name}: the document is as its schema says")
    t.same(str(run.returncode), wanted.get("exit", "1" if "class" in wanted else "0"), f"{name}: exit status")
    t.same(run.stderr, "", f"{name}: nothing on stderr")
    first = document["incidents"][0] if document["incidents"] else None
    if "class" in wanted and t.ok(first, f"{name}: an incident"):
        t.same(first["cause"]["class"], wanted["class"], f"{name}: class")
    if wanted.get("exit") == "0":
        t.same([i["cause"]["class"] for i in document["incidents"] if not i["history"]], [], f"{name}: no incident that is not over")
    if "gpu" in wanted and first:
        t.same([g["pci"] for g in first["gpus"]], [wanted["gpu"]], f"{name}: the GPU, and no other")
    if "block" in wanted and first:
        t.ok(wanted["block"] in stuck_blocks(first), f"{name}: what is stuck", stuck_blocks(first))
    gpus = document["machine"]["gpus"]
    for process, pci in opened:
        t.ok(any(p["name"] == process for g in gpus if g["pci"] == pci for p in g["processes"]), f"{name}: {process} has {pci} open")
    unwell = [g["pci"] for g in gpus if g["stuck"] or g["health"] in ("hung", "stuck", "off-bus", "resetting")]
    t.same(unwell, [wanted["gpu"]] if "gpu" in wanted and wanted.get("health") != "idle" else unwell if "class" in wanted else [],
           f"{name}: which GPU of the list is not well")
    if wanted.get("kernel") == "none" and first:
        t.same([f for f in first["facts"] if f["name"] in ("kernel_name", "pid", "process")], [], f"{name}: no kernel, no process")
    elif "kernel" in wanted and first:
        t.ok(wanted["kernel"] in [f["value"] for f in first["facts"] if f["name"] == "kernel_name"][0], f"{name}: the kernel")
        t.ok([f for f in first["facts"] if f["name"] == "source_line"], f"{name}: and its source line")
    if "health" in wanted:
        subject = [g for g in gpus if g["pci"] == wanted.get("gpu", g["pci"])]
        t.ok(any(g["health"] == wanted["health"] for g in subject), f"{name}: health", [g["health"] for g in gpus])


def check_record(t, name, record):
    """Nothing was written, nothing woke up, nothing else was opened."""
    operations = [json.loads(line) for line in record.read_text().splitlines()]
    t.ok(any(o["op"] == "open" for o in operations), f"{name}: the record has what was opened")
    t.same([o for o in operations if o["op"] not in ("open", "read", "ioctl", "block")], [], f"{name}: no write, no act, no waking up")
    t.same([o["path"] for o in operations if o.get("mode", "read") != "read"], [], f"{name}: opened only to be read")
    opened = {o["path"] for o in operations if o["op"] == "open"}
    t.same(sorted(p for p in opened if "/parameters/" not in p and any(fnmatch.fnmatch(p, a) for a in ACTS)), [], f"{name}: no file that acts")
    t.same(sorted(p for p in opened if not any(fnmatch.fnmatch(p, a) for a in ALLOWED)), [], f"{name}: no file beyond the list")


def check_text(t, name, wanted, scenario):
    run = emulate(scenario, UNHANG)
    lines = run.stdout.splitlines()
    t.ok(all(len(line) <= 160 for line in lines), f"{name}: lines fit a screen", max(lines, key=len, default=""))
    if name == "dump-left":
        t.ok("devcoredump/data" in run.stdout, "a devcoredump that is there is named, with how to save it", run.stdout)
    if "gpu" in wanted:
        t.ok(any(line.startswith(wanted["gpu"]) for line in lines[:24]), f"{name}: the first screen names the GPU", run.stdout)


def check_pipe(t, scratch):
    """What is left behind in the kernel keeps no descriptor: who reads unhang's output sees its end."""
    scenario = scratch / "log.scenario"
    scenario.write_text("gpu 0000:03:00.0\n    part gfx1100\n    file kmsg blocks\n")
    run = emulate(scenario, "bash", "-c", f"set -o pipefail; ({UNHANG}; true) 2>/dev/null | timeout 20 cat >/dev/null && echo in time")
    t.same(run.stdout, "in time\n", "and its reader sees the end of the output")


def check_ordinary_user(t):
    """Who may not look at the registers of a stuck GPU gets no all-clear."""
    if os.geteuid():
        return t.skip("a stuck GPU without root", "only root can become somebody else")
    stuck = next(s for s in SCENARIOS if s.stem == "mi300-xcc-stuck")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    run = emulate(stuck, *nobody, UNHANG)
    said = " ".join(run.stdout.split())
    t.ok(run.returncode == 2 and "this is no all-clear: 0000:85:00.0: registers, waves" in said and "sudo unhang" in said,
         "a stuck GPU without root: unknown, what was not looked at, and how to get it", f"{run.returncode}\n{run.stdout}{run.stderr}")
    document = json.loads(emulate(stuck, *nobody, UNHANG, "--json").stdout)
    t.same((document["verdict"], [g["verdict"] for g in document["machine"]["gpus"]]), ("unknown", ["unknown"]), "unknown in JSON, as a whole and of the GPU")
    few = emulate(stuck, *nobody, UNHANG, "--expect-gpus", "8")
    t.ok(few.returncode == 1 and "8 AMD GPUs were expected, 1 found." in few.stdout, "a GPU that is missing beats what is unknown", few.stdout)
    t.same(emulate(stuck, *nobody, UNHANG, "--expect-gpus", "1").returncode, 2, "and as many as expected are no all-clear")


def check_reset(t, scratch):
    """A reset names its GPU, the GPUs of its hive, and whoever uses one of them; a name that a shell would act on is left out."""
    stuck = next(s for s in SCENARIOS if s.stem == "mi300-xcc-stuck").read_text()
    hive, gpu = "    sysfs xgmi_hive_info/xgmi_hive_id 7\n", "gpu 0000:{}:00.0\n    part gfx942\n    partition SPX NPS1\n"
    user = "process {}\n    queue 1 gpu 0000:{}:00.0 ring 0x7f2200000000 size 0x40000 rptr 1 wptr 1 place 1.0.2 vmid 8\n"
    scenario = scratch / "hive.scenario"
    scenario.write_text(stuck.replace("    partition SPX NPS1\n", "    partition SPX NPS1\n" + hive) + gpu.format("86") + hive + gpu.format("87")
                        + user.format("a;touch$IFS", "86") + user.format("other", "87"))
    step = json.loads(emulate(scenario, UNHANG, "--json").stdout)["incidents"][0]["next"][-1]
    t.same(step["run"], "sudo amd-smi reset -G -g 0000:85:00.0", "a reset names the GPU")
    t.ok(re.fullmatch(r"If .*, reset it\. This resets every GPU of its XGMI hive: 0000:85:00\.0, 0000:86:00\.0\. It ends vllm \(\d+\), process \(\d+\)", step["why"]),
         "and what it takes down: the hive, and who uses it", step)


def main():
    t = Tap()
    if subprocess.run([UNHANG, "emulate", "idle", "--", "true"], capture_output=True, check=False).returncode:
        skip_all("no machine can be emulated here (mount namespaces and /dev/fuse are needed)")
    with tempfile.TemporaryDirectory() as scratch:
        for scenario in SCENARIOS:
            name, wanted = scenario.stem, expectations(scenario)
            record = pathlib.Path(scratch) / name
            check_verdict(t, name, wanted, emulate(scenario, UNHANG, "--json", record=record), holders(scenario))
            check_record(t, name, record)
            if "sanitized" not in UNHANG:  # the same way through the program, for twice the time
                check_text(t, name, wanted, scenario)
        blocks = [s for s in SCENARIOS if s.stem == "read-blocks"]
        for scenario in blocks:
            again = emulate(scenario, "sh", "-c", f"{UNHANG} --json >/dev/null; {UNHANG} --json")
            check_verdict(t, "read-blocks again", expectations(scenario), again)
        check_pipe(t, pathlib.Path(scratch))
        check_ordinary_user(t)
        check_reset(t, pathlib.Path(scratch))
    t.end()


main()
