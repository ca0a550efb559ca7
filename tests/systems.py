#!/usr/bin/env python3
"""Recorded machines of many distributions: the findings as sets, and the commands word for word as the distribution's own documentation has them.

The head of each tree in machines/systems/ says what is expected, and where that stands:
    from: URL                     the documentation
    finds: ID...                  what is found besides what is good; nothing else may be
    ok: ID...                     what has to be said to be good, among others
    ID do: STEP                   the steps of a finding, in their order; what stands in brackets at its end may follow
    ID undo: STEP
    gid: NUMBER                   the group of /dev/kfd; only root can make that
    apply: WORDS                  how `--apply` of a kernel word refuses; without it, it does not
"""
import json
import os
import re
import sys

import machine_tree
import tap

FOLDERS = ("systems", "blind", "blind-2")
REMEDY = "iommu-pt"  # sets one word of the kernel


def expected(path):
    want = {"from": [], "gid": [], "finds": [], "ok": [], "apply": [], "do": {}, "undo": {}}
    for line in path.read_text().split("\n=== ")[0].splitlines():
        key, _, value = line.partition(": ")
        if key in ("from", "apply", "gid"):
            want[key].append(value)
        elif key in ("finds", "ok"):
            want[key] += value.split()
        elif key.endswith((" do", " undo")):
            name, kind = key.split()
            want[kind].setdefault(name, []).append(value)
    return want


def same_step(step, want):
    return step == want or re.fullmatch(re.escape(want) + r" \([^()]*\)", step)


def compare(want, findings):
    wrong = []
    told = {f["id"]: f for f in findings}
    for name, steps in want["do"].items():
        got = told.get(name, {}).get("do", [])
        if len(got) != len(steps) or not all(map(same_step, got, steps)):
            wrong += [f"{name} do: {steps}", f"got: {got}"]
    for name, (undo,) in want["undo"].items():
        if told.get(name, {}).get("undo") != undo:
            wrong += [f"{name} undo: {undo}", f"got: {told.get(name, {}).get('undo')}"]
    return wrong


def test_machine(t, unhang, path):
    name, want = path.stem, expected(path)
    tree = machine_tree.plant(path, unhang.directory / name)
    if want["gid"]:
        if os.geteuid():
            return
        os.chown(f"{tree}/dev/kfd", 0, int(want["gid"][0]))
        os.chmod(f"{tree}/dev/kfd", 0o660)
    run = unhang.run("doctor", "--root", tree, "--json")
    findings = json.loads(run.stdout or '{"findings": []}')["findings"]
    t.ok(want["from"], f"{name}: the documentation is named")
    t.same({f["id"] for f in findings if f["severity"] != "ok"}, set(want["finds"]), f"{name}: what is wrong, and nothing besides")
    t.same(set(want["ok"]) - {f["id"] for f in findings if f["severity"] == "ok"}, set(), f"{name}: what is good")
    t.no_complaints(compare(want, findings), f"{name}: the distribution's own commands")
    lacking = [f"{f['id']} has no {key}" for f in findings if f["severity"] != "ok" for key in ("seen", "why", "do", "undo", "source") if not f[key]]
    t.no_complaints(lacking, f"{name}: each finding is whole")
    if want["apply"] or "runpm-off" in want["do"]:
        run = unhang.run("doctor", "--root", tree, "--apply", REMEDY, "--dry-run")
        error = " ".join(run.stderr.decode().split())
        good = run.returncode == 2 and all(w in error for w in want["apply"]) if want["apply"] else run.returncode == 0
        t.ok(good, f"{name}: --apply refuses with the instruction, or has a plan", f"{run.returncode}: {error}")


def test_silent(t, unhang):
    """The same machines without the words and options that somebody set: current, and silent but for what is good."""
    for folder in FOLDERS:
        for path in sorted((machine_tree.MACHINES / folder).glob("*.tree")):
            text = path.read_text()
            if "runpm-off do:" not in text:
                continue
            text = text.replace(" amdgpu.runpm=0", "").replace("/parameters/runpm\n0\n", "/parameters/runpm\n-1\n").replace("options amdgpu gpu_recovery=1", "")
            text = text.replace("options amdgpu ppfeaturemask=0xffffffff", "").replace("0xffffffff", "0xfff7bfff")
            tree = machine_tree.plant_text(text, unhang.directory / f"{path.stem}-silent")
            run = unhang.run("doctor", "--root", tree, "--json")
            findings = json.loads(run.stdout or '{"findings": []}')["findings"]
            t.same((run.returncode, [f["id"] for f in findings if f["severity"] != "ok"]), (0, []), f"{path.stem}: with nothing set it is silent")
            t.ok({"driver-in-tree", "link-good"} <= {f["id"] for f in findings}, f"{path.stem}: and says what is good", [f["id"] for f in findings])


def test_cut(t, unhang):
    """Files that say how the system is guarded, cut at every byte: it answers, and finds nothing that is not there."""
    tree = machine_tree.plant(machine_tree.MACHINES / "systems/ubuntu-secure-boot-dkms.tree", unhang.directory / "cut")
    files = {"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": bytes([6, 0, 0, 0, 1]), "sys/kernel/security/lockdown": b"none [integrity] confidentiality\n",
             "proc/self/uid_map": b"         0          0 4294967295\n", "etc/os-release": b'ID="ubuntu"\nID_LIKE="debian x"\n',
             "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": bytes(4) + "systemd-boot 257".encode("utf-16-le")}
    wrong = []
    for length in range(max(map(len, files.values()))):
        for path, whole in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(whole[:length])
        run = unhang.run("doctor", "--root", tree, "--json")
        facts = {f["name"]: f["value"] for f in json.loads(run.stdout or '{"machine": {"facts": []}}')["machine"]["facts"]}
        odd = run.returncode not in (0, 1) or run.stderr or facts.get("secure_boot", "on") != "on" or not "integrity".startswith(facts.get("lockdown", ""))
        wrong += [f"{length} bytes: {run.returncode} {facts.get('secure_boot')} {facts.get('lockdown')} {run.stderr}"] * bool(odd)
    t.no_complaints(wrong, "cut at every byte it answers")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for folder in FOLDERS:
        for path in sorted((machine_tree.MACHINES / folder).glob("*.tree")):
            test_machine(t, unhang, path)
    test_silent(t, unhang)
    test_cut(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
