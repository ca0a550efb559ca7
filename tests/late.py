"""Late is not absent, and an all-clear is earned: what does not answer is unread, is named, and makes no finding; what could not be looked
at is not healthy. With UNHANG_TEST_ALL=1 every file of the recorded machines is one that does not answer, else one of each kind."""
import concurrent.futures
import errno
import json
import os
import re
import subprocess
import sys

import emulated
import tap
from machine_tree import plant, plant_text

BINARY, STALLED = map(os.path.abspath, sys.argv[1:3])
ALL = bool(os.environ.get("UNHANG_TEST_ALL"))
DOCTOR = emulated.validator("doctor")
T = tap.Tap()
U = tap.Unhang(BINARY)


def doctor(root, **environment):
    """Exit status, document, and what is wrong with its form."""
    run = subprocess.run([STALLED, "doctor", "--json", "--root", root], capture_output=True, env={**U.environment, **environment}, timeout=100)
    try:
        document = json.loads(run.stdout)
    except ValueError:
        return run.returncode, {"findings": [], "machine": {"unread": [], "gpus": []}, "verdict": None}, [f"no JSON: {run.stderr.decode()[-300:]}"]
    return run.returncode, document, [error.message[:200] for error in DOCTOR.iter_errors(document)][:3]


def machine(name):
    directory = U.directory / name
    plant(name, directory)
    return directory


def ids(document):
    return {(f["id"], f["severity"]) for f in document["findings"]}


def kind(path):
    """Files of the same name of all GPUs, links and processes are one kind."""
    return re.sub(r"\d+", "N", re.sub(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]", "PCI", path))


# --- a file that does not answer ---

def one_late(root, healthy, path):
    status, document, wrong = doctor(root, UNHANG_STALL=path)
    more = ids(document) - ids(healthy)
    if more:
        wrong.append(f"findings that the healthy answer lacks: {more}")
    if path not in document["machine"].get("unread", []):
        wrong.append(f"it is not among what was not read: {document['machine'].get('unread')[:3]}")
    if (document.get("verdict"), status) != ("unknown", 2):
        wrong.append(f"verdict {document.get('verdict')}, exit status {status}")
    return [f"{path}: {w}" for w in wrong]


def test_late(name, wanted, every):
    root, opened = machine(name), U.directory / f"{name}.opened"
    status, healthy, wrong = doctor(root, UNHANG_OPENED=str(opened))
    T.no_complaints(wrong + ([] if (healthy.get("verdict"), status) == ("healthy", 0) else [f"{healthy.get('verdict')} {status}"]), f"{name}: it is healthy")
    paths = sorted(set(opened.read_text().split("\n")) - {"", "/"})
    kinds = {kind(path): path for path in paths if wanted(path)}
    chosen = paths if ALL else sorted(kinds.values())[::every]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        complaints = [c for some in pool.map(lambda path: one_late(root, healthy, path), chosen) for c in some]
    T.ok(len(chosen) > 20, f"{name}: {len(chosen)} files can be late")
    T.no_complaints(complaints[:20], f"{name}: a file that does not answer is unread and named, and is no finding")


def test_late_member():
    """The case that was found: one link of eight GPUs, one of which then lacked it."""
    root = U.directory / "mi300x-node"
    path = "/sys/class/kfd/kfd/topology/nodes/3/io_links/2/properties"
    document = doctor(root, UNHANG_STALL=path)[1]
    T.same(sorted(g.get("verdict") for g in document["machine"]["gpus"]), ["healthy"] * 7 + ["unknown"], "only the GPU whose file was late is unknown")
    T.ok(not any(f["name"].startswith("xgmi") for g in document["machine"]["gpus"] for f in g["facts"]), "what compares GPUs is no fact where one was not read")
    text = subprocess.run([STALLED, "doctor", "--root", root], capture_output=True, env={**U.environment, "UNHANG_STALL": path}, timeout=100)
    said = text.stdout.decode().replace("\n", " ")
    T.ok(text.returncode == 2 and path in said and "no all-clear" in text.stderr.decode(), "the text says so too", said[-400:] + text.stderr.decode())
    apply = subprocess.run([STALLED, "doctor", "--apply", "cwsr-off", "--dry-run", "--root", root], capture_output=True,
                           env={**U.environment, "UNHANG_STALL": "/etc/default/grub"}, timeout=100)
    T.ok(apply.returncode == 2 and b"/etc/default/grub did not answer" in apply.stderr, "nothing is applied by what was not read", apply.stderr.decode())
    listed = subprocess.run([STALLED, "doctor", "--list-applied", "--root", root], capture_output=True, env={**U.environment, "UNHANG_STALL": "/etc/unhang/applied"}, timeout=100)
    T.ok(listed.returncode == 2 and b"did not answer" in listed.stderr and not listed.stdout, "records that are late are not said to be none", listed.stderr.decode())


# --- no openat2() ---

def test_no_openat2():
    for name in ("mi300x-node", "container"):
        root = machine(name)
        usual = doctor(root)
        for error in (errno.ENOSYS, errno.EPERM):
            T.ok(doctor(root, UNHANG_OPENAT2=str(error)) == usual, f"{name}: the same answer where openat2() is {errno.errorcode[error]}")
    secret = U.write("secret", "NAME=x\nID=secret\n")
    root = U.directory / "leading-out"
    plant_text(f"=== include healthy\n=== without /etc/os-release\n=== without /usr/lib/os-release\n=== /etc/os-release -> {'../' * 20}{str(secret)[1:]}\n", root)
    T.same(doctor(root, UNHANG_OPENAT2=str(errno.ENOSYS))[1]["machine"]["distribution"], None, "a link leads nowhere else without it, either")


# --- what could not be looked at ---

def look(scenario, *before):
    """Text and JSON of a look inside; before it, commands of a shell."""
    command = " && ".join([*before, f"exec {BINARY} \"$@\""])
    runs = [U.run("emulate", scenario, "--", "sh", "-c", command, "sh", *o) for o in ((), ("--json",))]
    document = json.loads(runs[1].stdout)
    wrong = [e.message[:200] for e in tap.VALIDATOR.iter_errors(document)][:3]
    if runs[0].returncode != runs[1].returncode:
        wrong.append(f"text ends with {runs[0].returncode}, JSON with {runs[1].returncode}")
    return runs[0], document, wrong


def test_look(name, scenario, verdict, words, *before):
    text, document, wrong = look(scenario, *before)
    status = {"healthy": 0, "incident": 1, "unknown": 2}[verdict]
    said = text.stdout.decode() + text.stderr.decode()
    if (document.get("verdict"), text.returncode) != (verdict, status):
        wrong.append(f"verdict {document.get('verdict')}, exit status {text.returncode}")
    wrong += [f"'{word}' is not said: {said[-600:]}" for word in words if word not in said.replace("\n", " ")]
    if verdict == "unknown" and ("No problem found." in said or "No problem found on" in said or not text.stderr):
        wrong.append(f"it is told as an all-clear: {said[-300:]}")
    T.no_complaints(wrong, name)
    return document


def scenario(name, *files, part="gfx1100"):
    return U.write(f"{name}.scenario", f"gpu 0000:03:00.0\n  part {part}\n" + "".join(f"  {f}\n" for f in files))


def test_looks():
    if not emulated.possible(U):
        return T.skip("looks at an emulated machine", "there is no FUSE here, or no name space may be made")
    vendor = "/sys/bus/pci/devices/0000:03:00.0/vendor"
    document = test_look("a healthy GPU is healthy", "idle", "healthy", [])
    T.same([g.get("verdict") for g in document["machine"]["gpus"]], ["healthy"], "and so is each")
    document = test_look("one that hangs is an incident", "silent-hang", "incident", [])
    T.same([g.get("verdict") for g in document["machine"]["gpus"]], ["incident"], "and so is the GPU")
    document = test_look("a GPU whose vendor does not answer is unknown", scenario("vendor", "file vendor blocks"), "unknown", [vendor, "did not answer"])
    T.ok(vendor in document["machine"].get("unread", []), "the JSON names it", document["machine"].get("unread", []))
    test_look("without /sys it is unknown", "idle", "unknown", ["/sys/bus/pci/devices cannot be listed"], "mount -t tmpfs none /sys")
    test_look("without /dev it is unknown", "idle", "unknown", [], "mount -t tmpfs none /dev")
    test_look("without debugfs it is unknown", "idle", "unknown", ["debugfs"], "mount -t tmpfs none /sys/kernel/debug")
    test_look("what fails in debugfs makes it unknown", scenario("gfxoff", "file amdgpu_gfxoff fails EIO"), "unknown", ["amdgpu_gfxoff"])
    # A child that was left behind and came back: the file was late, and nothing hangs.
    for name, rule in (("level", "file power_dpm_force_performance_level blocks 1.5"), ("ring", "file amdgpu_ring_comp_1.0.1 blocks 1.3"),
                       ("load", "file gpu_busy_percent blocks 1.2")):
        document = test_look(f"a file that is late is no hang ({name})", scenario(f"late-{name}", rule, part="gfx90a"), "unknown", [rule.split()[1], "answered late"])
        T.ok(not document["incidents"] and not document["machine"]["gpus"][0]["stuck"], f"and nothing is stuck ({name})", document["incidents"])
    run = U.run("emulate", scenario("vendor", "file vendor blocks"), "--", BINARY, "doctor", "--json")
    document = json.loads(run.stdout)
    T.ok(run.returncode == 2 and document.get("verdict") == "unknown" and vendor in document["machine"].get("unread", []), "the doctor does not clear what it could not see",
         f"{run.returncode} {document.get('verdict')} {document['machine'].get('unread')}")


def test_no_gpu():
    run, document, wrong = look("idle", "mount -t tmpfs none /sys", "mkdir -p /sys/bus/pci/devices")
    wrong += [] if (run.returncode, document.get("verdict")) == (2, "unknown") else [f"{run.returncode} {document.get('verdict')}"]
    wrong += [] if "no AMD GPU" in run.stdout.decode() and "no AMD GPU" in run.stderr.decode() else [run.stdout.decode()]
    T.no_complaints(wrong, "a machine without an AMD GPU is not healthy")


every = 4 if tap.is_sanitized(BINARY) else 1
test_late("mi300x-node", lambda path: path.startswith("/sys"), every)
test_late("healthy", lambda path: not path.startswith("/sys"), every)
test_late_member()
test_no_openat2()
test_looks()
if emulated.possible(U):
    test_no_gpu()
T.end()
