#!/usr/bin/env python3
"""Captures: a bundle says of a machine what unhang says there; it loses nothing, tells nothing private, and hostile ones are refused."""
import ctypes
import fnmatch
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import emulated
import tap
from bundles import manifest, members, sizes, unzstd, zstd

SCENARIOS = tap.HERE / ".." / "emulator" / "scenarios"
TRIES = 3  # a machine that is so busy that a file answers late gives another answer
WATCH_KEYS = ("holders", "processes", "id", "path", "sources")  # processes of other tests; names of files


# --- the same live and from the bundle ---

def shape(value):
    """What a document says, without its numbers: those of a machine that works differ from look to look."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items() if k not in WATCH_KEYS}
    if isinstance(value, list):
        return [shape(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"\b(0x)?[0-9a-f]*\d[0-9a-f.]*\b", "#", value)
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def lines(text):
    """The forms of the lines, each once."""
    return sorted({re.sub(r"\s+", " ", re.sub(r"\b(0x)?[0-9a-f]*\d[0-9a-f.]*\b", "#", line)).strip() for line in text.splitlines()})


COMMANDS = {"waves": ["waves"], "queues": ["queues"], "rings": ["rings"], "doctor": ["doctor", "--json"], "now": ["--json"],
            "regs": ["regs", "--gpu", "0", "GRBM_STATUS*"]}


def told(name, run_text):
    if name in ("now", "doctor"):
        try:
            document = json.loads(run_text[:run_text.rindex("}") + 1])
        except ValueError:
            return run_text
        if name == "now":
            for incident in document.get("incidents", []):  # what a bundle holds is saved: there that step is gone
                incident["action"].pop("text", None)
                incident["facts"] = [f for f in incident["facts"] if f["name"] != "blocked_seconds"]  # of which look it is, is chance
                for reply in (incident["question"] or {}).get("replies", []):
                    reply.pop("text", None)
                incident["next"] = [step for step in incident["next"] if not re.search("unhang capture|devcoredump|memory --fault", step["run"] or "")]
            return shape(document)
        # Facts tell of the processes of other tests too.
        return [document["verdict"], [f["id"] for f in document["findings"]], [shape(g["name"]) for g in document["machine"]["gpus"]]]
    if name == "regs":  # what a register of a busy GPU has changes; whether it could be read does not
        return sorted({(line.split() or [""])[0] + (" refused" if "refused" in line else "") + (" late" if "timed-out" in line else "")
                       for line in run_text.splitlines() if line.startswith(("gc.", "unhang"))})
    return lines(run_text)


def differences(unhang, scenario, names, folder):
    """Runs each command and a capture in the same machine, then the commands on the bundle."""
    bundle = folder / "b.tar.zst"
    bundle.unlink(missing_ok=True)
    script = "".join(f"{unhang.binary} {' '.join(map(repr, COMMANDS[n]))} >{folder}/{n} 2>&1\n" for n in names)
    run = unhang.run("emulate", scenario, "--", "sh", "-c", f"{script}{unhang.binary} capture --deadline 120 -o {bundle}", timeout=400)
    if not bundle.exists():
        return [f"there is no bundle: {run.stdout.decode()}{run.stderr.decode()}"]
    wrong = []
    for name in names:
        option = ["--root", bundle] if name == "doctor" else ["--target", bundle]
        later = unhang.run(*COMMANDS[name], *option, timeout=120)
        live, again = told(name, (folder / name).read_text()), told(name, later.stdout.decode() + later.stderr.decode())
        if live != again:
            wrong.append(f"{name}: live   {json.dumps(live)[:1500]}\n{name}: bundle {json.dumps(again)[:1500]}")
    return wrong


def test_same(t, unhang):
    sample = ("silent-hang", "read-blocks", "idle") if tap.is_sanitized(unhang.binary) else ()
    for path in sorted(SCENARIOS.glob("*.scenario")):
        scenario = path.stem
        if sample and scenario not in sample:
            continue
        names = list(COMMANDS) if scenario in ("silent-hang", "read-blocks") else ["now"]
        for _ in range(TRIES):
            wrong = differences(unhang, scenario, names, unhang.directory)
            if not wrong:
                break
        t.no_complaints(wrong, f"the bundle of {scenario} says what was said there")


# --- what reaches the machine ---

FOR_THE_DOCTOR = """
    */boot_vga */resource */power/control */available_compute_partition */link/l1_aspm */ras/gpu_vram_bad_pages */ras/event_state */gpu_metrics */xgmi_physical_id */uevent */iommu_group/type
    */power_dpm_force_performance_level */status */io_links/*/properties */policy */parameters/*
""".split()


def test_only_reads(t, unhang):
    bundle = unhang.directory / "reads.tar.zst"
    opened = emulated.only_reads(t, unhang, "silent-hang", ["capture", "-o", bundle], "a capture writes nothing")
    may = emulated.ALLOWED + FOR_THE_DOCTOR + ["*/amdgpu_fence_info", "*/debug/kfd/rls"]
    t.same(sorted(p for p in opened if not any(fnmatch.fnmatch(p, a) for a in may)), [], "and opens only what it may")
    record = [json.loads(line) for line in (unhang.directory / "record.json").read_text().splitlines()]
    order = [d["path"] for d in record if d["op"] == "open"]
    fences = [i for i, p in enumerate(order) if p.endswith("amdgpu_fence_info")]
    rest = [i for i, p in enumerate(order) if "amdgpu_regs" in p or "amdgpu_ring" in p]
    t.ok(fences and rest and min(fences) > max(rest), "fences are read last, since reading them may end a hang", f"{fences} {rest[-3:]}")


def test_blocks(t, unhang):
    bundle = unhang.directory / "blocks.tar.zst"
    begin = time.monotonic()
    run = unhang.run("emulate", "read-blocks", "--", unhang.binary, "capture", "--deadline", "40", "-o", bundle, timeout=200)
    took = time.monotonic() - begin
    said = manifest(bundle)
    blocked = [i for i in said.get("items", []) if i["state"] == "blocked" and i["at"]]
    t.ok(run.returncode == 0 and took < 60, "a capture of a machine whose files block ends in time", f"{took} s: {run.stderr.decode()}")
    t.ok(len(blocked) == 1 and blocked[0]["stack"], "one reader is left behind, and the manifest says where it waits", json.dumps(said)[:1500])
    t.ok({"answers/machine", "answers/doctor", "answers/log"} <= set(members(bundle)), "and everything else is inside")
    wrong = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in emulated.validator("capture").iter_errors(said)]
    t.no_complaints(wrong, "the manifest has the form of its schema")


def test_dump(t, unhang):
    bundle = unhang.directory / "dump.tar.zst"
    run = unhang.run("emulate", tap.HERE / "scenarios" / "dump-left.scenario", "--", unhang.binary, "capture", "-o", bundle, timeout=200)
    held = members(bundle)
    t.ok(held.get("devcoredump/0000:0a:00.0.txt", b"")[:64].strip().startswith(b"**** AMDGPU Device Coredump"), "a devcoredump is saved", run.stdout.decode())
    t.ok(any("--release-devcoredump" in n for n in manifest(bundle).get("notes", [])), "and the manifest says that it is not freed")
    explained = unhang.run("explain", "--json", bundle)
    kinds = [s["kind"] for s in json.loads(explained.stdout)["sources"]]
    t.ok("devcoredump" in str(kinds), "and explain reads it", f"{kinds} {explained.stderr.decode()}")


# --- what is private ---

def test_private(t, unhang):
    bundle = unhang.directory / "private.tar.zst"
    unhang.environment.update(MY_PASSWORD="correct-horse-battery", HSA_XNACK="1")
    scenario = tap.HERE / "scenarios" / "kernel-named.scenario"
    unhang.run("emulate", scenario, "--", unhang.binary, "capture", "--user-data", "none", "-o", bundle, timeout=200)
    del unhang.environment["MY_PASSWORD"], unhang.environment["HSA_XNACK"]
    everything = unzstd(bundle)
    t.ok(b"HSA_XNACK=1" in everything, "variables that matter are saved")
    t.ok(b"correct-horse" not in everything, "and no others")
    t.same(oct(bundle.stat().st_mode & 0o777), "0o640", "a bundle is its owner's and its group's")


# One line of a log or of a command for each, with something that must not stay. {} is a number.
SECRETS = [
    "systemd[1]: Hostname set to <gpunode{}.fleet.corp>", "mount: /home/person{}/data is full", "nvme: Serial: S5PX{}NF0R",
    "eth0: link up, 9c:6b:00:{:02x}:77:1f", "NFS: server 10.{}.7.23 not responding", "route to 2001:db8:85a3::8a2e:{:x} lost",
    "oom: python -m vllm --model acme{}-labs/Secret-Moe-{}B --port 8000", "env: HF_TOKEN=hf_AbCdEfGh{}IjKlMnOpQrStUv", "login: password=Tr0ub4dor{}x",
    "cifs: https://deploy{}:pa55phrase{}@git.inside.lan/x", "sshd: session opened for user operator{} by (uid=0)",
    "aws: secret=wJalrXUtnFEMI{}K7MDENG", "loading /models/Private-Llama-{}/part.safetensors", "mail to chief{}@secret-startup.io",
    "GET https://store.lan/x?sv=1&sig=QQ{}sigQQ", "nvme0: model Samsung serial S4EV{}R123456", "Command line: root=UUID=1{}-abcd-5678 ro",
]
FOUND = [
    "gpunode{}", "person{}", "S5PX{}NF0R", "9c:6b:00:{:02x}:77:1f", "10.{}.7.23", "2001:db8:85a3::8a2e:{:x}", "acme{}-labs", "hf_AbCdEfGh{}IjKlMnOpQrStUv",
    "Tr0ub4dor{}x", "pa55phrase{}", "operator{}", "wJalrXUtnFEMI{}K7MDENG", "Private-Llama-{}", "chief{}",
    "QQ{}sigQQ", "S4EV{}R123456", "1{}-abcd-5678",
]


def fill(text, n):
    return text.format(*[n] * text.count("{"))


def test_redaction(t, unhang):
    numbers = range(100, 115)
    messages = "".join(f"    {900 + n / 1000:.3f} info  {fill(text, n)}\n" for n in numbers for text in SECRETS)
    base = (SCENARIOS / "sdma-stuck.scenario").read_text()
    scenario = unhang.write("secret.scenario", base + "\nmessages\n" + messages)
    plain, redacted = unhang.directory / "plain.tar.zst", unhang.directory / "redacted.tar.zst"
    script = f"{unhang.binary} capture --pid $$ -o {plain}; {unhang.binary} capture --redact --pid $$ -o {redacted}"
    poison = [f"--password={word}" for word in "hardware timeout ring sdma0 sdma amdgpu failed reset signaled fence card0 renderD128 devices".split()]  # a stranger's, of the driver's words
    run = unhang.run("emulate", scenario, "--", "sh", "-c", script, "sh", *poison, timeout=300)
    if not t.ok(redacted.exists(), "a redacted bundle is made", run.stdout.decode() + run.stderr.decode()):
        return
    everything, seeds = b"".join(members(redacted).values()), [fill(text, n) for n in numbers for text in FOUND]
    t.ok(all(s.encode() in unzstd(plain) for s in seeds), "the secrets are in the plain bundle")
    t.same([s for s in seeds if s.encode() in everything][:10], [], f"none of {len(seeds)} names and secrets is in any byte of the redacted one")
    said = manifest(redacted)
    t.ok(said["redacted"] and sum(r["names"] for r in said["replaced"]) >= 200, "the manifest says how many were replaced", str(said["replaced"]))
    both = [json.loads(unhang.run("explain", "--json", b).stdout)["incidents"] for b in (plain, redacted)]
    facts = [[(i["cause"]["class"], i["action"]["do"], [e["event"] for e in i["timeline"]], [r["id"] for r in i["remedies"]]) for i in b] for b in both]
    t.same(facts[1], facts[0], "and the diagnosis is the same")


# --- hostile bundles ---

GOOD = b'{ "schema": "unhang/capture/1", "state": "complete", "items": [] }'


def tar_of(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, kind in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(data) if kind == tarfile.REGTYPE else 0
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_hostile(t, unhang):
    file = tarfile.REGTYPE
    first = ("manifest.json", GOOD, file)
    lies = {
        "a link": ([first, ("answers/link", b"", tarfile.SYMTYPE)], "answers/link"), "a hard link": ([first, ("answers/hard", b"", tarfile.LNKTYPE)], "answers/hard"),
        "an absolute name": ([first, ("/etc/cron.d/x", b"x", file)], "/etc/cron.d/x"), "a name with ..": ([first, ("answers/../../x", b"x", file)], "answers/../../x"),
        "a device": ([first, ("answers/dev", b"", tarfile.CHRTYPE)], "answers/dev"), "a name twice": ([first, ("a", b"x", file), ("a", b"y", file)], "'a'"),
        "too many entries": ([first] + [(f"e{i}", b"", file) for i in range(5000)], "e4095"),
    }
    for name, (entries, word) in lies.items():
        path = unhang.write("lie.tar.zst", zstd(tar_of(entries)))
        run = unhang.run("explain", path)
        said = run.stderr.decode()
        t.ok(run.returncode == tap.CANNOT and "refused" in said and word in said, f"{name} is refused, with the entry", f"{run.returncode}: {said}")
    bomb = tar_of([first]).rstrip(b"\0")
    head = tarfile.TarInfo("answers/bomb")
    head.size = 3 << 30
    stream = zstd(bomb + b"\0" * (-len(bomb) % 512) + head.tobuf()) + zstd(b"\0" * (16 << 20)) * 192
    run = unhang.run("explain", unhang.write("bomb.tar.zst", stream))
    t.ok(run.returncode == tap.CANNOT and "answers/bomb" in run.stderr.decode(), "a bomb is refused, with the entry", run.stderr.decode())


FORGED = """
    6.1 user.err amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12
    6.2 user.err amdgpu 0000:03:00.0: amdgpu: GPU reset begin!
"""
RUN = "id 20261117-000000-1\nhost here\nstatus 3\n" + "".join(f"try\nnumber {n}\nbegan 1000\nended exit\n" for n in (1, 2, 3))


def test_inside(t, unhang):
    """A bundle in a directory, in an archive or on standard input is the same bundle; the directory of a run is its newest try that saved something."""
    top = unhang.directory / "inside"
    bundles = {}
    for number, scenario, more in (1, "silent-hang", ""), (2, "idle", FORGED):
        text = (SCENARIOS / f"{scenario}.scenario").read_text().rstrip() + more
        bundles[number] = top / "run" / str(number) / "bundle.tar.zst"
        bundles[number].parent.mkdir(parents=True)
        unhang.run("emulate", unhang.write("inside.scenario", text), "--", unhang.binary, "capture", "-o", bundles[number], timeout=120)
    def said(*paths, stdin=b""):
        answer = unhang.explain(*paths, stdin=stdin)
        return answer.status, answer.document["verdict"], answer.classes, answer.stderr
    hang, idle = said(bundles[1]), said(bundles[2])
    t.same((hang[0], idle[:3]), (1, (0, "healthy", [])), "of one machine it is healthy, whatever a user wrote into its log; of the other it is not")
    (top / "folder" / "deep").mkdir(parents=True)
    for place in top / "folder" / "deep" / "bundle", top / "folder" / "a.tar.zst":
        shutil.copy(bundles[2], place)
        t.same(said(top / "folder"), idle, f"as {place.name} in a directory")
        for kind, ending in ("gztar", ".tar.gz"), ("zip", ".zip"), ("tar", ".tar"):
            t.same(said(shutil.make_archive(top / "packed", kind, top / "folder")), idle, f"as {place.name} in a {ending}")
        place.unlink()
    t.same(said("-", stdin=bundles[2].read_bytes()), idle, "on standard input")
    lie = unhang.write("lie.tar", tar_of([("manifest.json", b"{}", tarfile.REGTYPE), ("dmesg", b"[   12.5] amdgpu 0000:2f:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12\n", tarfile.REGTYPE)]))
    t.same(said(lie)[0], 1, "another archive with a manifest is an archive")
    both = unhang.explain(top / "run")
    t.ok("a second bundle" in both.stderr, "two machines are not taken for one", both.stderr)
    (top / "run" / "run").write_text(RUN)
    (top / "run" / "2" / "diagnosis.txt").write_text("ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12\n")
    (top / "run" / "2" / "output").write_text("step 1\n")
    t.same(said(top / "run"), idle, "the directory of a run is its newest try that saved something")
    t.same((said(top / "run" / "1"), said(f"{top}/run/2/")), (hang, idle), "that of a try is this try")


def test_cut(t, unhang):
    """A small bundle cut at many places: an answer, or one clear line."""
    bundle = unhang.directory / "small.tar.zst"
    unhang.run("capture", "-o", bundle)
    data, wrong = bundle.read_bytes(), []
    for n in [5, 17, 29, *range(40, len(data), len(data) // 5)]:
        run = unhang.run("explain", unhang.write("cut.tar.zst", data[:n]))
        said = run.stderr.decode()
        if run.returncode not in (1, 2) or not said.startswith("unhang: ") or said.count("\n") > 3:
            wrong.append(f"cut at {n}: status {run.returncode}: {said[:200]}")
    t.no_complaints(wrong[:3], "a bundle that was cut gets an answer or a clear line")


def records(track):
    """The line at the front of a track, and its records."""
    at, found = track.index(b"\n") + 1, []
    head = track[:at]
    while at < len(track):
        size = 8 + int.from_bytes(track[at:at + 4], "little")
        found.append(track[at:at + size])
        at += size
    return head, found


def damages(data, other):
    """What may become of a track: how, and what is left of it. @other: the same track of another machine."""
    head, all_of_it = records(data)
    return {"missing": None, "empty": b"", "strange": b"unhang" * 99, "cut": data[:len(data) * 9 // 10], "of another machine": other,
            "but for its ends": head + all_of_it[0] + all_of_it[-1], "reversed": head + b"".join(all_of_it[-2::-1]) + all_of_it[-1], "without one record": head + b"".join(all_of_it[:-2]) + all_of_it[-1]}


def test_damaged(t, unhang):
    """A bundle that has lost what the GPU answered is no all-clear: neither of a hung GPU, nor of an idle one."""
    wrong, bundles = [], {}
    for scenario in ("sdma-stuck", "idle"):
        bundle = unhang.directory / f"damaged-{scenario}.tar.zst"
        unhang.run("emulate", scenario, "--", unhang.binary, "capture", "--deadline", "120", "-o", bundle, timeout=300)
        bundles[scenario] = members(bundle)
    for scenario, whole in bundles.items():
        other = bundles["idle" if scenario != "idle" else "sdma-stuck"]
        for track in ("machine", "gpus", "log"):
            for how, left in damages(whole[f"answers/{track}"], other[f"answers/{track}"]).items():
                entries = [(name, left if name == f"answers/{track}" else held, tarfile.REGTYPE) for name, held in whole.items() if name != f"answers/{track}" or left is not None]
                run = unhang.run("explain", unhang.write("damaged.tar.zst", zstd(tar_of(entries))))
                said = " ".join(run.stdout.decode().split())
                if run.returncode == 0 or "Nothing has to be done" in said or "works now" in said or (scenario == "idle" and (run.returncode != 2 or (f"answers/{track}" if track != "log" else "kernel log") not in said + run.stderr.decode())):
                    wrong.append(f"{scenario}, {track} {how}: {run.returncode}: {said[:300]} {run.stderr.decode()}")
    t.no_complaints(wrong, "a bundle that has lost answers says so, and calls no GPU well")


# --- nothing is lost ---

def leftovers(folder):
    return {p.name: {str(f.relative_to(p)) for f in p.rglob("*") if f.is_file() and f.stat().st_size and not f.name.endswith((".new", "-new", "packed")) and not f.name.startswith(".")}
            for p in folder.glob("*.partial")}


def test_killed(t, unhang):
    """Killed at any moment: no half bundle has a final name, and the next capture packs what was saved."""
    folder = unhang.directory / "killed"
    folder.mkdir()
    begin = time.monotonic()
    unhang.run("capture", "-o", folder / "whole.tar.zst")
    usual, wrong, packed, cut = time.monotonic() - begin, [], 0, False
    moments = int(os.environ.get("UNHANG_KILLS", "5"))
    begun = lambda: any(items - {"manifest.json"} for items in leftovers(folder).values())
    for n in range(moments + 20):
        if n >= moments and cut:
            break
        run = subprocess.Popen([unhang.binary, "capture", "-o", str(folder / f"{n}.tar.zst")], env=unhang.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if n < moments:
            time.sleep(usual * (n + 1) / (moments - 1))
        else:  # on a busy machine those moments may all have come too early or too late
            tap.wait_for(lambda: begun() or run.poll() is not None)
        run.kill()
        run.wait()
        left = leftovers(folder)
        cut |= any(items - {"manifest.json"} and json.loads((folder / name / "manifest.json").read_text())["state"] == "running" for name, items in left.items())
        bundle = folder / f"{n}.tar.zst"
        if bundle.exists() and not members(bundle):
            wrong.append(f"{n}: half a bundle under its name")
        for again in range(20):  # a child of the one that was killed may hold the lock until it has run
            unhang.run("capture", "-o", folder / f"after-{n}-{again}.tar.zst")
            if not list(folder.glob("*.partial")):
                break
        for name, items in left.items():
            held = set(members(folder / name.removesuffix(".partial")))
            packed += 1
            if items - held - {"manifest.json"}:
                wrong.append(f"{n}: lost {items - held}")
    t.no_complaints(wrong[:5], f"killed at {moments} moments, nothing is lost")
    t.ok(packed, "some of them were in the middle")
    t.same([p.name for p in folder.glob("*.partial*")], [], "and nothing is left to be packed")
    states = {manifest(p).get("state") for p in folder.glob("[0-9]*.tar.zst")}
    t.ok(states <= {"complete", "interrupted"} and "interrupted" in states, "what was cut short says so", str(states))


def test_refused(t, unhang):
    taken = unhang.write("taken.tar.zst", "mine")
    emulated.refuses(t, unhang, ["capture", "-o", taken], ["taken.tar.zst", "exists"], "a file that exists is not written over")
    t.same(taken.read_text(), "mine", "and stays as it was")
    notes = unhang.write("noted.tar.zst.md", "my own notes")
    emulated.refuses(t, unhang, ["capture", "--bug-report", "-o", unhang.directory / "noted.tar.zst"], ["noted.tar.zst.md", "exists"], "nor is one that has the name of a bug report's text")
    t.same((notes.read_text(), (unhang.directory / "noted.tar.zst").exists()), ("my own notes", False), "which stays, and nothing is captured")
    emulated.refuses(t, unhang, ["capture", "-o", "/nonexistent/x.tar.zst"], ["/nonexistent"], "a directory that is not there is named")
    emulated.refuses(t, unhang, ["capture", "--pid", "zero"], ["--pid", "zero"], "a process that is no number is refused")
    emulated.refuses(t, unhang, ["--target", taken], ["not a bundle"], "what is no bundle is no target")
    emulated.refuses(t, unhang, ["doctor", "--root", taken], ["taken.tar.zst"], "nor the doctor's root")
    none = unhang.directory / "none.tar.zst"
    emulated.refuses(t, unhang, ["capture", "--pid", "2147483646", "-o", none], ["--pid 2147483646", "no such process"], "a process that is not there is refused")
    emulated.refuses(t, unhang, ["capture", "-o", "-"], ["-o FILE", "step by step"], "standard output is refused, with a reason")
    emulated.refuses(t, unhang, ["capture", "-o", ""], ["-o", "name"], "and so is no name")
    folder = unhang.directory / "folder with space"
    folder.mkdir()
    run = unhang.run("capture", "-o", folder)
    bundle = next(folder.glob("unhang-*.tar.zst"), folder / "none")
    t.ok(bundle.exists() and not none.exists(), "in a directory a bundle gets its usual name", run.stderr.decode())
    t.same(run.stdout.decode().splitlines()[-1:], [f"unhang explain '{bundle}'"], "the last line says what comes next")
    emulated.refuses(t, unhang, ["doctor", "--root", bundle, "--apply", "x"], [bundle.name, "nothing can be changed"], "a bundle is not changed")


def stop_at_once():
    """A signal that is blocked waits for the program: it finds it at its first look."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.kill(os.getpid(), signal.SIGTERM)


def test_stopped(t, unhang):
    bundle = unhang.directory / "stopped.tar.zst"
    run = subprocess.run([unhang.binary, "capture", "-o", bundle], env=unhang.environment, capture_output=True, preexec_fn=stop_at_once, timeout=60)
    said = run.stderr.decode()
    t.ok(run.returncode == -signal.SIGTERM and said.count("\n") == 1 and f"{bundle}.partial" in said and "next capture" in said,
         "who stops a capture is told what is left, and where", f"{run.returncode}: {said}")
    t.ok(not bundle.exists() and pathlib.Path(f"{bundle}.partial").is_dir(), "and it is there")


def left_by_stop(unhang, bundle, *options):
    """The partial directory of a capture that was stopped at once."""
    subprocess.run([unhang.binary, "capture", *options, "-o", bundle], env=unhang.environment, capture_output=True, preexec_fn=stop_at_once, timeout=60, check=False)
    return pathlib.Path(f"{bundle}.partial")


def test_prepared(t, unhang):
    """In a directory that others may write, they have put something in the way."""
    folder = unhang.directory / "prepared"
    folder.mkdir()
    theirs, done = folder / "theirs", folder / "c.tar.zst.partial.done"
    theirs.write_text("theirs")
    os.link(theirs, folder / ".a.tar.zst.unhang-new")
    os.mkfifo(folder / ".b.tar.zst.unhang-new")
    done.mkdir()
    (done / "x").write_text("x")
    for name in "abc":
        unhang.run("capture", "--deadline", "10", "-o", folder / f"{name}.tar.zst")
    t.same([name for name in "abc" if not members(folder / f"{name}.tar.zst")], [], "a file, a pipe or a directory that is there before keeps no bundle away")
    t.same(theirs.read_bytes(), b"theirs", "what a name that could be guessed leads to is not written")
    t.same([p.name for p in folder.glob("*.partial")], [], "and no partial directory is left behind")
    t.ok((done / "x").exists(), "nor is a directory of others removed")


def strange(folder):
    """What a capture never saves."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / ".hidden").write_text("h")
    (folder / "link").symlink_to("/etc/hostname")
    os.mkfifo(folder / "fifo")
    return folder


def test_not_ours(t, unhang):
    """Who may write a directory can give any directory in it the name of a capture that was cut short."""
    folder = unhang.directory / "not-ours"
    folder.mkdir()
    secrets = strange(folder / "secrets.tar.zst.partial")
    (secrets / "key").write_text("k")
    (secrets / "notes.new").write_text("n")
    (secrets / "empty").mkdir()
    whole = left_by_stop(unhang, folder / "cut.tar.zst")
    copied = folder / "copied.tar.zst.partial"
    shutil.copytree(whole, copied)
    copied.chmod(0o700)
    with_more = strange(left_by_stop(unhang, folder / "more.tar.zst"))
    before = sorted(str(p) for top in (secrets, copied) for p in top.rglob("*"))
    empty = folder / "empty.tar.zst.partial"
    empty.mkdir(0o700)
    run = unhang.run("capture", "-o", folder / "next.tar.zst")
    said = run.stderr.decode()
    t.ok(not empty.exists(), "what a kill left of a capture's directory before its mark was there is removed", said)
    t.same(sorted(str(p) for top in (secrets, copied) for p in top.rglob("*")), before, "a directory that no capture made stays as it is")
    t.ok(not (folder / "secrets.tar.zst").exists() and not (folder / "copied.tar.zst").exists(), "and is not packed, nor is a copy of one")
    t.ok(all(f"{d}: no capture" in said for d in (secrets, copied)), "which is told", said)
    t.ok(members(folder / "cut.tar.zst") and not whole.exists(), "while one that was cut short is", said)
    t.ok(members(folder / "more.tar.zst") and sorted(p.name for p in with_more.iterdir()) == [".hidden", "fifo", "link"] and f"{with_more}: it stays" in said,
         "and of what no capture saved nothing is removed", f"{said} {list(with_more.glob('*'))}")


def test_private_cut(t, unhang):
    """A capture that was to be redacted is cut short: the next one, which is not, must not tell what it has saved."""
    folder = unhang.directory / "private-cut"
    folder.mkdir()
    for option in ("--redact", "--bug-report"):
        left = left_by_stop(unhang, folder / f"cut{option}.tar.zst", option)
        (left / "kernel-log.txt").write_text("[1.0] systemd[1]: Hostname set to <zorkhost>\n[2.0] app: password=zorkword for /home/zorkman\n[2.5] nfs: zorknode asks again\n[3.0] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n")
    own = [] if os.geteuid() else ["unshare", "--uts", "sh", "-ec", 'hostname zorknode; exec "$@"', "sh"]  # the machine's own name, which no line tells
    run = subprocess.run([*own, unhang.binary, "capture", "-o", folder / "next.tar.zst"], env=unhang.environment, capture_output=True, timeout=120, check=False)
    for option in ("--redact", "--bug-report"):
        bundle = folder / f"cut{option}.tar.zst"
        said, everything = manifest(bundle), b"".join(members(bundle).values())
        everything = everything if own else everything.replace(b"zorknode", b"")
        t.ok(b"zork" not in everything and os.uname().nodename.encode() not in everything, f"what a capture with {option} had saved is redacted before it is packed", f"{everything} {run.stderr}")
        t.ok(said.get("redacted") is True and said.get("state") == "interrupted" and b"GPU reset begin" in everything, "and says so")
        wrong = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in emulated.validator("capture").iter_errors(said)]
        t.no_complaints(wrong, "and its manifest has the form of its schema")


def test_mounted(t, unhang):
    if os.geteuid():
        t.skip("mounts in a capture that was cut short", "only root can mount")
        return
    folder = unhang.directory / "mounted"
    folder.mkdir()
    left, other = left_by_stop(unhang, folder / "cut.tar.zst"), folder / "other"
    for path in (left / "disk", left / "bound", other):
        path.mkdir()
    (other / "theirs").write_text("t")
    run = subprocess.run(["unshare", "-m", "sh", "-ec", f"""mount -t tmpfs tmpfs {left}/disk; echo precious >{left}/disk/precious; mount --bind {other} {left}/bound
        {unhang.binary} capture -o {folder}/next.tar.zst; ls {left}/disk {left}/bound"""], env=unhang.environment, capture_output=True, timeout=120, check=False)
    t.ok(b"precious" in run.stdout and (other / "theirs").exists(), "nothing is removed across a mount", f"{run.stdout} {run.stderr}")
    t.same([n for n in members(folder / "cut.tar.zst") if "precious" in n or "theirs" in n], [], "nor packed")


def test_lacking(t, unhang):
    """What could not be saved is said: for want of rights, of time, and of room."""
    if os.geteuid():
        t.skip("what a capture lacks", "only root can become another user and mount a small disk")
        return
    folder = unhang.directory / "lacking"
    (folder / "disk").mkdir(parents=True)
    for path in (unhang.directory, folder):
        path.chmod(0o777)
    binary = shutil.copy(unhang.binary, folder / "unhang")
    slow = (SCENARIOS / "silent-hang.scenario").read_text().replace("    part      gfx1151\n", "    part      gfx1151\n    file amdgpu_regs* blocks 3\n")
    script = f"""cd {folder}
        setpriv --reuid=65534 --regid=65534 --clear-groups {binary} capture -o user.tar.zst 2>user
        {unhang.binary} capture --deadline 1 -o late.tar.zst
        mount -t tmpfs -o size=24k tmpfs disk && {unhang.binary} capture -o disk/full.tar.zst 2>full"""
    run = unhang.run("emulate", unhang.write("slow.scenario", slow), "--", "sh", "-c", script, timeout=200)
    states = {i["name"]: i["state"] for i in manifest(folder / "user.tar.zst").get("items", [])}
    t.same([states.get(f"answers/{n}") for n in ("waves", "rings", "regs", "fences")], ["refused"] * 4, "what a user may not read is refused")
    said = (folder / "user").read_text()
    t.ok(said.count("\n") == 1 and "waves" in said and "sudo unhang capture" in said, "and one line says that root could save it", said)
    late = {i["state"] for i in manifest(folder / "late.tar.zst").get("items", []) if i["name"].startswith("answers/")}
    t.ok("cut" in late and "blocked" not in late, "what the capture's own deadline ended is cut, not blocked", f"{late} {run.stdout.decode()}")
    said = (folder / "full").read_text()
    t.ok(said.count("\n") == 1 and "disk/full.tar.zst: No space" in said and "another disk" in said, "a full disk is named, with what to do", said)


# --- what an expert asks for next ---

CONTAINER = "0123456789abcdef" * 4
PROGRAMS = {"rocminfo": 'echo "Agent 1 gfx1100 secret=$SECRET"; touch {folder}/ran', "amd-smi": 'echo "GPU: 0 $1"; exec sleep 1000', "docker": 'echo "[\\"$4\\"]"', "lspci": 'echo "file $3"; [ ! -x /usr/bin/lspci ] || exec /usr/bin/lspci "$@"'}


def expert(unhang, folder, scenario):
    """The bundle of a machine that has such programs, build logs, and a process in a container."""
    bundle = folder / f"{scenario}.tar.zst"
    group, log = unhang.write("cgroup", f"0::/system.slice/docker-{CONTAINER}.scope\n"), unhang.write("make.log", "error: too few arguments to function\n")
    made = "".join(f"cp {unhang.write(name, '#!/bin/sh' + chr(10) + text.format(folder=folder) + chr(10))} /opt/rocm/bin/{name}; chmod 755 /opt/rocm/bin/{name}\n" for name, text in PROGRAMS.items())
    run = unhang.run("emulate", scenario, "--", "sh", "-ec", f"""mount -t tmpfs -o mode=755 tmpfs /opt; mkdir -p /opt/rocm/bin; {made}
        mount -t tmpfs -o mode=755 tmpfs /var/lib; mkdir -p /var/lib/dkms/amdgpu/6.8/build; cp {log} /var/lib/dkms/amdgpu/6.8/build/
        mount --bind {group} /proc/$$/cgroup; SECRET=hidden {unhang.binary} capture --deadline 120 --pid $$ -o {bundle}""", timeout=300)
    return {i["name"]: i for i in manifest(bundle).get("items", [])}, members(bundle), run.stderr.decode()


def test_expert(t, unhang):
    if os.geteuid():
        t.skip("what an expert asks for next", "only root can have other programs here")
        return
    said, held, problem = expert(unhang, unhang.directory, "idle")
    text = {name: held.get(f"more/{name}", b"").decode() for name in ("rocminfo.txt", f"container-{CONTAINER[:12]}.json", "dkms-0.txt", "pci-config.txt")}
    t.same(text["rocminfo.txt"], "Agent 1 gfx1100 secret=\n", "rocminfo's answer is saved, and it gets no variables", )
    t.ok(said.get("more/amd-smi.txt", {}).get("state") == "blocked", "a program that does not end is left, and told", f"{said.get('more/amd-smi.txt')} {problem}")
    t.same(text[f"container-{CONTAINER[:12]}.json"], f'["{CONTAINER}"]\n', "the container of a process is asked for")
    t.ok("too few arguments" in text["dkms-0.txt"], "build logs of the driver are saved", str(said.get("more/dkms-")))
    t.ok(re.match(r"0000:03:00\.0 PCI device\n00: 02 10 ", text["pci-config.txt"]), "PCI configuration is saved as lspci reads it", text["pci-config.txt"][:200])
    t.ok(held.get("more/lspci.txt", b"").startswith(b"file /") and b".partial" not in held["more/lspci.txt"], "lspci is told no path that somebody else could have given to another file", str(held.get("more/lspci.txt"))[:200])
    if pathlib.Path("/usr/bin/lspci").exists():
        t.ok(b"03:00.0" in held.get("more/lspci.txt", b"") and b"Status:" in held["more/lspci.txt"], "and lspci's words for it", str(said.get("more/lspci.txt")))
    t.ok(said.get("more/board.txt", {}).get("state") in ("saved", "absent") and said["more/board.txt"]["reason"] != "", "board and firmware are saved, or told as absent", str(said.get("more/board.txt")))
    (unhang.directory / "ran").unlink()
    said, held, problem = expert(unhang, unhang.directory, "silent-hang")
    t.ok(not (unhang.directory / "ran").exists() and [said.get(f"more/{n}.txt", {}).get("state") for n in ("rocminfo", "amd-smi")] == ["absent"] * 2
         and "not run" in said["more/rocminfo.txt"]["reason"], "while a GPU hangs nobody opens it, and that is told", f"{said.get('more/rocminfo.txt')} {problem}")


# --- what strangers can do ---

RECORDING = "import os, sys\nfor path in sys.argv[3:]:\n    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, 'wb').write(b'UNHANGRC' + (1).to_bytes(4, 'little') + bytes(32756))\n" \
            "    os.truncate(path, int(sys.argv[2]))\n    os.chown(path, int(sys.argv[1]), 0)\n    os.chown(os.path.dirname(path), int(sys.argv[1]), 0)\n"


def among_strangers(unhang, folder, made, *arguments):
    """The manifest of a capture where users have recordings in /dev/shm, [user, bytes, paths], and what it said."""
    script = unhang.write("recording.py", RECORDING)
    make = "".join(f"python3 {script} {user} {size} {' '.join(paths)}\n" for user, size, paths in made)
    bundle = folder / "b.tar.zst"
    bundle.unlink(missing_ok=True)
    run = unhang.run("emulate", "silent-hang", "--", "sh", "-ec", f"mount -t tmpfs tmpfs /dev/shm\n{make}{unhang.binary} capture --deadline 120 -o {bundle}", *arguments, timeout=300)
    return manifest(bundle), run.stdout.decode() + run.stderr.decode(), bundle


def largest(command, environment):
    """Megabytes that a command needed."""
    pid = os.posix_spawn(command[0], list(map(str, command)), environment, file_actions=[(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_WRONLY, 0) for fd in (1, 2)])
    return os.wait4(pid, 0)[2].ru_maxrss >> 10


def test_strangers(t, unhang):
    """Files of strangers neither empty a bundle nor hide the recordings of others, however large and many they are."""
    if os.geteuid():
        t.skip("recordings of strangers", "only root has recordings of all users")
        return
    victim = "/dev/shm/unhang-4001/h.77.recording"
    said, told, bundle = among_strangers(unhang, unhang.directory, [(4000, 500 << 20, [f"/dev/shm/unhang-4000/h.{n}.recording" for n in range(4)]), (4001, 64 << 20, [victim])])
    states = {i["name"]: i["state"] for i in said.get("items", [])}
    cut = [n for n, s in states.items() if n.startswith("answers/") and s not in ("saved", "absent")]
    t.ok(not cut and states, "holes of strangers leave room for what the GPUs answer", f"{cut} {told}")
    names = [i["name"] for i in said.get("items", [])]
    t.ok(names.index("answers/machine") < names.index("recordings/"), "which comes first")
    t.ok(bundle.stat().st_size < 1 << 20 and states.get("recordings/") == "saved", "and recordings with holes are saved, in little room", f"{bundle.stat().st_size} {told}")
    if not tap.is_sanitized(unhang.binary):
        # What fills fresh memory makes holes of it that are none.
        need = largest([unhang.binary, "explain", bundle], {name: value for name, value in unhang.environment.items() if name != "MALLOC_PERTURB_"})
        t.ok(need < 300, "to explain it takes no more memory than it has bytes", f"{need} MB")
    held = sizes(bundle)
    t.same(sorted(size for name, size in held.items() if name.startswith("recordings/")), [64 << 20] + 4 * [500 << 20], "a recording in a bundle is as long as it was")
    many = [f"/dev/shm/unhang-4000.{n}/h.{n}.recording" for n in range(70)]
    said, told, bundle = among_strangers(unhang, unhang.directory, [(4000, 1 << 20, many), (4001, 1 << 20, [victim])])
    item = next((i for i in said.get("items", []) if i["name"] == "recordings/"), {})
    t.ok(any("-77.recording" in n for n in sizes(bundle)), "seventy directories of a stranger hide nobody's recording", told)
    t.ok(item.get("state") == "cut" and "6 directories" in item["reason"] and item["reason"] in told, "and what was left out is told", f"{item} {told}")
    many = [f"/dev/shm/unhang-4000/h.{n}.recording" for n in range(600)]
    said, told, bundle = among_strangers(unhang, unhang.directory, [(4000, 1 << 20, many), (4001, 1 << 20, [victim])])
    item = next((i for i in said.get("items", []) if i["name"] == "recordings/"), {})
    t.ok(any("-77.recording" in n for n in sizes(bundle)) and "88 of 601 were left out" in (item.get("reason") or "") and item["reason"] in told,
         "nor do six hundred files, of which a share is kept", f"{item} {told}")


def test_tight(t, unhang):
    """A small bundle that unpacks to much: what evidence is never so tight is refused, zeros cost nothing."""
    if tap.is_sanitized(unhang.binary):
        t.skip("bundles that eat memory", "the sanitizer itself eats it")
        return
    packed = {what: zstd(what * (1 << 24)) for what in (b"A", b"\0")}
    for what, refused in ((b"A", True), (b"\0", False)):
        head = tarfile.TarInfo("recordings/0-1.recording")
        head.size = 900 << 20
        stream = zstd(tar_of([("manifest.json", GOOD, tarfile.REGTYPE)])[:1024] + head.tobuf()) + packed[what] * 56 + zstd(what * (4 << 20) + bytes(1024))
        path = unhang.write("tight.tar.zst", stream)
        run = unhang.run("explain", path)
        need = largest([unhang.binary, "explain", path], unhang.environment)
        said = run.stderr.decode()
        t.ok(need < 400 and ("200 times" in said) == refused, f"900 MB of {what!r} in {len(stream) >> 10} KB take little memory", f"{need} MB: {said}")


def test_bug_report(t, unhang):
    bundle = unhang.directory / "bug.tar.zst"
    run = unhang.run("emulate", "fault-mes-dead", "--", unhang.binary, "capture", "--bug-report", "-o", bundle, timeout=200)
    t.ok(re.search(r"^Left out: \d+ lines and settings that are not known to be needed\.$", run.stdout.decode(), re.M), "a bug report tells what it lacks", run.stdout.decode())
    text = pathlib.Path(f"{bundle}.md").read_text() if pathlib.Path(f"{bundle}.md").exists() else ""
    headings = ["Problem Description", "Operating System", "GPU", "ROCm Version", "Steps to Reproduce", "Kernel log"]
    t.same([h for h in headings if f"### {h}\n" not in text], [], "a bug report has the headings of the form")
    t.ok(0 < len(text) <= 65536, "and is short enough for a tracker", len(text))
    t.ok(re.search(r"^ +\d+: \[ *983\.103310\] amdgpu", text, re.M), "with the log's lines and their numbers", text[-800:])
    named = {int(n) for n in re.findall(r"\[kmsg:(\d+)", text)}
    listed = {int(n): line for n, line in re.findall(r"^ +(\d+): (\[.*)$", text, re.M)}
    fault = re.search(r"cause +page fault[^\[]*\[kmsg:(\d+)", text)
    t.ok(named and named <= set(listed) and fault and "page fault" in listed[int(fault[1])], "which are those that the diagnosis names", f"{named} {listed}")
    t.same(text.count("used unmapped memory"), 1, "what happened is said once")
    cpu = re.search(r"^model name\s*: *(.*?) *$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    t.ok(f"### CPU\n\n{cpu[1] if cpu else 'not known'}\n" in text, "and the processor is named", text[:200])



def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    test_refused(t, unhang)
    test_hostile(t, unhang)
    test_tight(t, unhang)
    test_cut(t, unhang)
    test_stopped(t, unhang)
    test_prepared(t, unhang)
    test_not_ours(t, unhang)
    test_private_cut(t, unhang)
    test_mounted(t, unhang)
    if not tap.is_sanitized(unhang.binary):  # what is killed reports nothing to sanitizers
        test_killed(t, unhang)
    if not emulated.possible(unhang):
        t.skip("captures of emulated machines", "this machine cannot make them")
        t.end()
    for test in (test_inside, test_damaged, test_same, test_only_reads, test_blocks, test_dump, test_private, test_lacking, test_strangers, test_expert, test_redaction, test_bug_report):
        test(t, unhang)
    t.end()


main()
