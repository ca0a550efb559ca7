#!/usr/bin/env python3
"""What operators use: one line for each incident, times, exit statuses, a table of a batch, the lines of the evidence, one remedy, and the
part that a text names."""
import json
import re
import sys

import jsonschema

import diagnoses
import tap

RING = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"
LOST = "amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"
HOUR = 3600


def dated(day, host="node7", message=RING):
    return f"2026-08-{day:02}T05:28:27+02:00 {host} kernel: {message}\n"


def fields(run):
    return [line.split("\t") for line in run.stdout.decode().splitlines()]


def test_oneline(t, unhang):
    run = unhang.run("explain", "--oneline", unhang.write("one.txt", dated(27)))
    t.same([f[:7] for f in fields(run)], [["node7", "2026-08-27T03:28:27Z", "0000:03:00.0", "-", "gfx-ring-timeout", "restart-program", "driver"]], "one line")
    t.ok(re.fullmatch(r"[01]\.\d\d", fields(run)[0][7]) and run.returncode == 1, "with the confidence", run.stdout)
    t.same(fields(run)[0][8:], ["unknown", str(unhang.directory / "one.txt")], "whether the machine is fit, and the file that tells")
    many = [unhang.write(f"many/{n}.txt", dated(n)) for n in (3, 13)]
    t.same({f[1][8:10]: f[9] for f in fields(unhang.run("explain", "--oneline", *many))}, {"03": str(many[0]), "13": str(many[1])}, "of several files each line has its own")
    forms = {"[  100.500000] ": "boot+100.500", "Aug 27 05:28:27 node7 kernel: ": "08-27T05:28:27", "2026-08-27 05:28:27 node7 kernel: ": "2026-08-27T05:28:27", "": "-"}
    for prefix, wanted in forms.items():
        t.same(fields(unhang.run("explain", "--oneline", "-", stdin=prefix + RING + "\n"))[0][1], wanted, f"a time in the form {prefix or 'of none'!r}")
    run = unhang.run("explain", "--oneline", "-", stdin=diagnoses.boot())
    t.same((fields(run), run.returncode), ([["-", "-", "-", "-", "healthy", "nothing", "-", "-", "-", "-"]], 0), "without an incident")
    run = unhang.run("explain", "--oneline", "-", stdin="dmesg: read kernel buffer failed: Operation not permitted\n")
    t.same((fields(run), run.returncode), ([["-", "-", "-", "-", "unknown", "-", "-", "-", "-", "-"]], 2), "and where it cannot be known")
    odd = unhang.run("explain", "--oneline", "-", stdin=f"Aug 27 05:28:27 no\\de\x0b7 kernel: {RING}\n".encode())
    t.ok(len(fields(odd)) == 1 and len(fields(odd)[0]) == 10 and b"\x0b" not in odd.stdout, "what is no letter does not break it", odd.stdout)


def test_since(t, unhang):
    path = unhang.write("days.txt", "".join(dated(day) for day in (3, 13, 23)))
    count = lambda *options: (len(unhang.explain(*options, path).document["incidents"]), unhang.explain(*options, path).document["earlier"])
    t.same(count(), (3, 0), "three incidents")
    for since, left in (("2026-08-04", 2), ("2026-08-13T03:28:27Z", 2), ("2026-08-13T05:28:28+02:00", 1), ("2026-08-23 03:28", 1), ("2026-09-01", 0), ("300 weeks ago", 3), ("99999d", 3)):
        t.same(count("--since", since), (left, 3 - left), f"--since {since}")
    for since in ("today", "yesterday", "1h", "-30 min", "2 days ago"):
        t.same(unhang.run("explain", "--since", since, unhang.write("old.txt", "2001" + dated(3)[4:])).returncode, 0, f"--since {since}: none, and so no incident")
    for wrong in ("", "soon", "2026", "2 moons", "h", "2026-13-45", "12:00", "1h ago now"):
        run = unhang.run("explain", "--since", wrong, path)
        t.ok(run.returncode == 2 and b"is no time" in run.stderr and not run.stdout, f"{wrong!r} is no time", run.stderr)
    boot = unhang.write("boot.txt", diagnoses.log("100.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"))
    t.same(unhang.run("explain", "--since", "2026-08-04", boot).returncode, 1, "an incident whose day nobody knows stays")
    a = unhang.explain("--newest", path)
    t.same((len(a.incidents), a.document["earlier"], a.first.data["begin"]), (1, 2, 1787455707), "--newest is the last one")
    text = unhang.run("explain", "--newest", path).stdout.decode()
    t.ok("2026-08-23T03:28:27Z" in text and "2 earlier incidents are left out." in text, "and says what it leaves out", text)


def test_fail_on(t, unhang):
    job, node = unhang.write("job.txt", dated(3)), unhang.write("node.txt", dated(3, message=LOST))
    t.same(unhang.explain(node).first.data["action"]["fault"], "node", "a fault of the node")
    for path, options, wanted in ((job, (), 1), (job, ("incident",), 1), (job, ("node",), 0), (node, ("node",), 1), (node, ("incident",), 1)):
        t.same(unhang.run("explain", *(("--fail-on",) if options else ()), *options, path).returncode, wanted, f"{path.name} {options}")
    dead = unhang.write("dead.txt", diagnoses.log(diagnoses.fault(45755.103, 0x7f3a00001000, diagnoses.status_of(8, 3)) + "45765.5 @ MES failed to respond to msg=REMOVE_QUEUE"))
    found = unhang.explain(dead).first.data["action"]
    t.same((found["fault"], found["fit"], found["do"]), ("job", "no", "reboot"), "a job's fault after which the scheduler firmware is dead")
    t.same(unhang.run("explain", "--fail-on", "node", dead).returncode, 1, "keeps the node out of the pool")
    run = unhang.run("explain", "--fail-on", "node", job, unhang.directory / "missing.txt")
    t.same(run.returncode, 2, "what could not be read may hold a fault of the node")
    run = unhang.run("explain", "--fail-on", "rain", job)
    t.ok(run.returncode == 2 and b"--fail-on needs incident or node" in run.stderr, "anything else is told", run.stderr)


def test_batch(t, unhang):
    for n in range(1, 6):
        unhang.write(f"batch/n{n}.log", dated(10 + n, host=f"node{n}"))
    unhang.write("batch/quiet.log", dated(9, host="node9", message="hello"))
    run = unhang.run("explain", unhang.directory / "batch")
    text = run.stdout.decode()
    t.ok(text.startswith("5 incidents on 5 hosts, in 5 of 6 sources.\n") and run.returncode == 1, "how many, on how many hosts", text)
    t.same(re.findall(r"^(node\d) +0000:03:00.0  (2026\S+)  restart-program  driver$", text, re.M),
           [(f"node{n}", f"2026-08-{10 + n}T03:28:27Z") for n in (5, 4, 3, 2, 1)], "a row for each")
    t.same(len(re.findall(r"^    A graphics job did not finish in time \(ring gfx_0.0.0\)\. \[n\d\.log:1\]$", text, re.M)), 5, "with what happened, and where it stands")
    t.same(unhang.run("explain", "--all", unhang.directory / "batch").stdout.decode().count("\nNow  "), 5, "--all tells each in full")
    t.same([i.data["host"] for i in unhang.explain(unhang.directory / "batch").incidents], [f"node{n}" for n in (5, 4, 3, 2, 1)], "JSON has the hosts")
    t.same({i.data["times"] for i in unhang.explain(unhang.directory / "batch").incidents}, {1}, "the same failure on another host is another")
    unhang.environment["COLUMNS"] = "40"
    narrow = unhang.run("explain", unhang.directory / "batch").stdout.decode()
    del unhang.environment["COLUMNS"]
    t.same([line for line in narrow.splitlines() if len(line) > 40], [], "in 40 columns, too")


def test_evidence(t, unhang):
    log = diagnoses.boot() + diagnoses.log(diagnoses.fault(45755.103, 0x7f3a00001000, diagnoses.status_of(8, 3)) + diagnoses.reset(45767.0))
    path = unhang.write("dmesg.txt", log)
    lines = log.splitlines()
    for options in (("--evidence",), ("-vv",), ("-v", "--evidence")):
        text = unhang.run("explain", *options, path).stdout.decode()
        found = re.findall(rf"^{re.escape(str(path))}:(\d+):(.*)$", text, re.M)
        wrong = [f"{number}: {line}" for number, line in found if lines[int(number) - 1] != line]
        t.ok(len(found) > 8 and not wrong, f"{options}: lines as they stand in the file", wrong or text)
        for number in (n + 1 for n, line in enumerate(lines) if "page fault" in line or "Linux version" in line or "reset(1) succeeded" in line):
            t.ok(str(number) in dict(found), f"{options}: line {number}", text)
    t.ok(str(path) + ":" not in unhang.run("explain", "-v", path).stdout.decode(), "not without being asked for")
    piped = unhang.run("explain", "--evidence", "-", stdin=log).stdout.decode()
    t.ok(f"\n-:{len(diagnoses.boot().splitlines()) + 1}:" in piped, "from a pipe", piped)
    first = unhang.explain("--evidence", path).first.data
    kept = {line["line"]: line["text"] for line in first["lines"]}
    t.same({number: lines[number - 1] for number in kept}, kept, "JSON has the lines")
    places = {e["at"]["line"] for e in first["timeline"]} | {f["at"]["line"] for f in first["facts"]}
    t.same(sorted(places - set(kept)), [], "of every event and every fact")
    t.ok("lines" not in unhang.explain(path).first.data, "only where they are asked for")
    long = unhang.write("long.txt", "x" * 300000 + "\n" + log)
    t.ok(f"{long}:{len(diagnoses.boot().splitlines()) + 2}:" in unhang.run("explain", "--evidence", long).stdout.decode(), "behind a line that is longer than any piece")


def test_remedy(t, unhang):
    schema = json.loads((tap.HERE / ".." / "docs" / "remedy.schema.json").read_text())
    listed = [r["id"] for r in json.loads(unhang.run("knowledge", "list", "remedy", "--json").stdout)]
    complaints = []
    for name in listed[::40]:
        run = unhang.run("remedy", "--json", name)
        document = json.loads(run.stdout)
        complaints += [f"{name}: {e.message}" for e in jsonschema.validators.validator_for(schema)(schema).iter_errors(document)]
        text = unhang.run("remedy", name).stdout.decode()
        flat = re.sub(r"\s+", " ", text)
        complaints += [f"{name}: no {label}" for label, key in (("Do", "do"), ("Undo", "undo"), ("Cost", "cost"), ("Source", "sources")) if document[key] and not re.search(rf"^{label}  ", text, re.M)]
        complaints += [f"{name}: step {step!r} is not in the text" for step in document["do"] if re.sub(r"\s+", " ", step) not in flat]
        complaints += [f"{name}: what {s['id']} says is not in the text" for s in document["sources"] if s["says"] and re.sub(r"\s+", " ", s["says"]) not in flat]
        complaints += [f"{name}: {line}" for line in text.splitlines() if len(line) > 80 and max(map(len, line.split())) < 60]
        if not text.startswith(document["title"].split()[0]) or f"[{name}]" not in text or run.returncode:
            complaints.append(f"{name}: {text[:100]}")
    t.ok(len(listed) > 100, "there are remedies", len(listed))
    t.no_complaints(complaints, "steps, cost, undo, sources and what they say")
    for typed, meant in ((listed[7][:-1] + "#", listed[7]), (listed[9][1:], listed[9]), ("cwsr", "cwsr-off")):
        run = unhang.run("remedy", typed)
        t.ok(run.returncode == 2 and meant in run.stderr.decode() and "did you mean" in run.stderr.decode(), f"{typed} is mistyped", run.stderr)
    run = unhang.run("remedy", "q" * 3000)
    t.ok(run.returncode == 2 and b"knowledge list remedy" in run.stderr, "what is like none", run.stderr[-200:])
    t.same([unhang.run("remedy").returncode, unhang.run("remedy", "a", "b").returncode], [2, 2], "one at a time")
    shown = unhang.run("explain", unhang.write("ring.txt", diagnoses.boot() + diagnoses.log("100.0 @ ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"))).stdout.decode()
    ids = re.findall(r"\[([\w.-]+)\]$", re.search(r"^Try  .*?(?=^Next|^More)", shown, re.M | re.S).group(0), re.M)
    t.ok(ids and set(ids) <= set(listed), "explain shows the ids", shown)


NAMED = {
    "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M] (rev c8)": "Radeon RX 7900 XTX",
    "03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M] [1002:744c] (rev cc)": "Radeon RX 7900 XT",
    "0000:03:00.0 Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:74a1]": "Instinct MI300X",
    "Graphics:  Device-1: AMD Navi 22 driver: amdgpu v: kernel arch: RDNA-2 bus-ID: 03:00.0 chip-ID: 1002:73ff": "Radeon RX 6600",
    "    Device: AMD Radeon RX 6700 XT (radeonsi, navi22, LLVM 15.0.7, DRM 3.54, 6.8.0) (0x73df)": "Radeon RX 6700 XT",
    "OpenGL renderer string: AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 17.0.6, DRM 3.57, 6.8.0)": "Radeon RX 7900 XTX",
    "\tdeviceName        = AMD Radeon RX 7900 XTX (RADV NAVI31)": "Radeon RX 7900 XTX",
    "GPU: AMD Radeon 780M Graphics": "Radeon 780M",
    "GPU: AMD Radeon RX 9070 XT [Discrete]": "Radeon RX 9070 XT",
    "It hangs on my 7900XTX every evening": "Radeon RX 7900 XTX",
    "my rx 7900 xtx, since yesterday": "Radeon RX 7900 XTX",
    "8x MI300X in one node": "Instinct MI300X",
    "a W7900 in a workstation": "Radeon Pro W7900",
    # several, or none
    "Device-1: AMD Navi 31 [Radeon RX 7900 XT/7900 XTX] driver: amdgpu v: kernel": None,
    "GPU: AMD ATI Radeon RX 6600/6600 XT/6600M": None,
    "it happens on a 7900 XTX and on an RX 6600 XT": None,
    "RX 7900 ABC": None,
    "780M of 5700 M are free, 6800 XTRA": None,
    "a Ryzen 7 5700X and 64 GB": None,
    "Radeon Graphics": None,
}


def test_parts(t, unhang):
    gpu = lambda *arguments, **more: unhang.explain(*arguments, **more).first.data["gpus"][0]
    ring = "[  100.000000] amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n"
    for line, wanted in NAMED.items():
        got = gpu("-", stdin=f"{line}\n[  100.000000] {RING}\n")["name"]
        t.ok(got == wanted or (wanted and got and got.startswith(wanted)), line.strip()[:70], f"{got}, not {wanted}")
    t.same(gpu("-", stdin=f"[  100.000000] {RING}\nsent from a machine with a 7900 XTX\n")["gfx"], "gfx1100", "behind the log, too")
    two = f"[    1.000000] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!\n[    1.100000] amdgpu 0000:0b:00.0: amdgpu: SMU is initialized successfully!\n[  100.000000] {RING}\n"
    t.same(gpu("-", stdin="a 7900 XTX\n" + two)["name"], None, "of two GPUs nobody knows which it is")
    t.same(gpu("-", stdin="03:00.0 VGA compatible controller [0300]: AMD Navi 31 [1002:744c] (rev c8)\n0b:00.0 VGA compatible controller [0300]: AMD Raphael [1002:164e] (rev c1)\n" + two)["name"],
           "Radeon RX 7900 XTX", "unless lspci says so")
    t.same(gpu("-", stdin="a 6600 XT\n" + diagnoses.boot() + f"[  100.000000] {RING}\n")["name"], "Radeon RX 7900 XTX", "what the log says counts more")
    for said, gfx in (("RX 7900 XTX", "gfx1100"), ("mi300x", "gfx942"), ("AMD Radeon RX 6700 XT", "gfx1031"), ("744c", "gfx1100"), ("7900xtx", "gfx1100")):
        t.same(gpu("--part", said, "-", stdin=ring)["gfx"], gfx, f"--part {said}")
    for wrong in ("7900 XTZ", "", "gfx", "x" * 5000):
        run = unhang.run("explain", "--part", wrong, "-", stdin=ring)
        t.ok(run.returncode == 2 and b"there is no part" in run.stderr, f"--part {wrong[:20]!r}", run.stderr[-200:])
    fact = [f for f in unhang.explain("-", stdin=f"x\na 7900 XTX\n[  100.000000] {RING}\n").first.data["facts"] if f["name"] == "named_part"]
    t.same([(f["value"], f["at"]["line"]) for f in fact], [("Radeon RX 7900 XTX", 2)], "it is a fact with its place")


def test_cut(t, unhang):
    """No byte less makes it fail."""
    line = next(iter(NAMED)).encode()
    bad = []
    for n in range(0, len(line), 7 if tap.is_sanitized(unhang.binary) else 3):
        run = unhang.run("explain", "--oneline", "-", stdin=line[:n] + b"\n" + RING.encode() + b"\n")
        if run.returncode != 1 or len(fields(run)) != 1:
            bad.append(f"{n}: {run.returncode} {run.stderr}")
    t.no_complaints(bad, "a name that is cut anywhere")


def test_later(t, unhang):
    """What a later unhang wrote, as docs/COMPATIBILITY.md says."""
    name = "0123456789abcdef"
    unhang.write(f"later/incidents/{name}/incident", f"id {name}\nstate pondering\nclass gpu-page-fault-unmapped\ntitle a fault\nbegan 1760000000\nfrom_later yes\n")
    run = unhang.run("incidents", "--json", "--state-dir", str(unhang.directory / "later"))
    listed = json.loads(run.stdout)["incidents"]
    t.same([(i["id"], i["class"], i["state"]) for i in listed], [(name, "gpu-page-fault-unmapped", "open")], "a record with a key and a state that we do not know is listed, as open")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_oneline, test_since, test_fail_on, test_batch, test_evidence, test_remedy, test_parts, test_cut, test_later):
        test(t, unhang)
    t.end()


main()
