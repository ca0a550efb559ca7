#!/usr/bin/env python3
"""The history: what is stored, asked, collected, triaged and served. history.py UNHANG FAIL_WRITE

With UNHANG_TEST_ALL=1 at length: a minute of writers of which one is killed every 100 ms, and a full disk at every write. `make stores` does that, and
tests/stores.py with PostgreSQL."""
import csv
import http.client
import io
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import jsonschema

import histories
import tap
from tap import Tap, Unhang

ALL = bool(os.environ.get("UNHANG_TEST_ALL"))
DOCS = tap.HERE / ".." / "docs"
DAY = histories.DAY
FAULT = ("amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32771, for process job{n} pid {n} thread job{n} pid {n})\n"
         "amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f{n:06x}000 from client 10\n")


def document(t, run, schema, name):
    if run.returncode:
        t.ok(False, name, run.stderr)
        return {}
    return valid(t, run.stdout, schema, name)


def valid(t, text, schema, name):
    found = json.loads(text)
    errors = [e.message for e in jsonschema.Draft202012Validator(json.loads((DOCS / f"{schema}.schema.json").read_text())).iter_errors(found)]
    t.no_complaints(errors, name)
    return found


def made(now, chance):
    """Three machines over 60 days, two of which got a new firmware 20 days ago, since when little happens."""
    for h in range(3):
        host = f"node{h}"
        yield histories.configuration(host, now - 60 * DAY, {"kernel": "6.12.1", "linux-firmware": "20250613"})
        if h < 2:
            yield histories.configuration(host, now - 20 * DAY, {"kernel": "6.12.1", "linux-firmware": "20250708"})
        for day in range(60):
            yield histories.work(host, "0000:03:00.0", now - (60 - day) * DAY, 5)
        for n in range(18):
            ago = 59 - 2.1 * n if n < 17 else 3  # in days
            yield histories.incident(host, now - int(ago * DAY), n, chance, kind=0 if n % 2 else None, state="open" if (h, n) == (0, 17) else "closed")


def test_asking(t, unhang):
    store, now = unhang.directory / "store", int(time.time())
    lines = list(made(now, random.Random(1)))
    histories.write(store / "history", lines)
    for line in lines:
        jsonschema.Draft202012Validator(json.loads((DOCS / "record.schema.json").read_text())).validate(line)
    found = document(t, unhang.run("history", "--store", store, "--json", "--since", "90d"), "history", "the document is as its schema says")
    t.same([found["totals"]["incidents"], found["totals"]["nodes"], found["totals"]["open"]], [54, 3, 1], "all incidents of all nodes count")
    t.same(sum(fault["count"] for fault in found["faults"]), 54, "each is of one fault")
    t.ok(found["faults"][0]["open"] == 1, "what is open stands first", found["faults"][0])
    t.same(abs(found["totals"]["gpu_hours"] - 900) < 16, True, "hours of work are counted")
    some = document(t, unhang.run("history", "--store", store, "--json", "--since", "90d", "--node", "node1", "--class", "gpu-page*", "--limit", "3"), "history", "filters: the document is as its schema says")
    t.ok(all(i["node"] == "node1" and i["class"] == "gpu-page-fault-unmapped" for i in some["incidents"]) and some["next"] == 3, "filters and pages", some["incidents"])
    text = unhang.run("history", "--store", store).stdout.decode()
    t.ok(len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80 and "This week 3, last week 0." in " ".join(text.split()), "the text fits a screen, and tells the weeks", text)
    listed = unhang.run("history", "--store", store, "--list").stdout.decode()
    t.ok(len(listed.splitlines()) <= 24 and max(map(len, listed.splitlines())) <= 80 and "and more (--skip 16)" in listed, "so does the list", listed)
    rows = list(csv.DictReader(io.StringIO(unhang.run("history", "--store", store, "--csv", "--since", "90d").stdout.decode())))
    t.same([len(rows), sum(row["state"] == "open" for row in rows)], [54, 1], "CSV has all of them")
    changes = document(t, unhang.run("history", "--store", store, "--remedies", "--json"), "history", "remedies: the document is as its schema says")["changes"]
    t.same([(c["name"], c["from"], c["to"], c["hosts"], c["before"]["incidents"], c["after"]["incidents"]) for c in changes], [("linux-firmware", "20250613", "20250708", 2, 34, 2)],
           "a change that two machines made is one, with what came before and after it")
    t.ok(changes[0]["verdict"] == "helped" and changes[0]["high"] < 1 and changes[0]["judged_at_hours"] == 200, "and it helped", changes)
    t.ok("Helped: 2 in 200 h after, 34 in 400 h before" in " ".join(unhang.run("history", "--store", store, "--remedies").stdout.decode().split()), "as the text says", "")
    # The index is only an index.
    (store / "history.sqlite").write_bytes(b"nonsense" * 1000)
    again = document(t, unhang.run("history", "--store", store, "--json", "--since", "90d"), "history", "an index that is damaged is made anew")
    t.same(again["totals"], found["totals"], "and says the same")
    t.same(unhang.run("store", "check", "--store", store).returncode, 0, "it is sound")
    t.ok(unhang.run("store", "rebuild", "--store", store).returncode == 0 and b"already" in unhang.run("store", "migrate", "--store", store).stdout, "rebuild and migrate", "")
    t.same(unhang.run("history", "--store", unhang.directory / "nothing").returncode, 2, "no history is no answer")
    return store


def test_example(t, unhang):
    """The issue's own numbers: 3 in 40 h before, 1 in 26 h after."""
    store, now = unhang.directory / "example", int(time.time())
    change = now - 30 * 3600
    lines = [histories.configuration("a", now - 90 * 3600, {"kernel": "1"}), histories.configuration("a", change, {"kernel": "2"})]
    lines += [histories.work("a", "g", change - 50 * 3600, 40, 50 * 3600), histories.work("a", "g", change, 26, 26 * 3600)]
    lines += [histories.incident("a", change - hours * 3600, n, random.Random(n), kind=0) for n, hours in enumerate((40, 25, 10, -20))]
    histories.write(store / "history", lines)
    said = " ".join(unhang.run("history", "--store", store, "--remedies").stdout.decode().split())
    t.ok("No evidence yet: 1 in 26 h after, 3 in 40 h before; it would take 141 h without one to tell." in said, "what is not known is said, with the hours that would tell", said)


def said(unhang, store, *arguments):
    return " ".join(unhang.run("history", "--store", store, *arguments).stdout.decode().split())


def test_long_open(t, unhang):
    """What is open for longer than the window is not forgotten."""
    store, now = unhang.directory / "long", int(time.time())
    histories.write(store / "history", [histories.incident("old", now - 70 * DAY, 1, random.Random(1), state="open"), histories.incident("new", now - 3600, 2, random.Random(2)),
                                        histories.incident("gone", now - 80 * DAY, 3, random.Random(3))])
    found = document(t, unhang.run("history", "--store", store, "--json"), "history", "open for 70 days: the document is as its schema says")
    t.same([found["totals"]["open"], found["totals"]["incidents"], found["totals"]["older_open"], sorted(i["node"] for i in found["incidents"])], [1, 2, 1, ["new", "old"]], "what is open counts, however old it is")
    t.ok("1 incident" in said(unhang, store) and "1 is open, from before that." in said(unhang, store), "and the text says so", said(unhang, store))
    t.ok("1 incident" in said(unhang, store, "--open", "--list") and "old" in json.dumps(json.loads(unhang.run("history", "--store", store, "--open", "--json").stdout)["incidents"]), "--open shows it", said(unhang, store, "--open", "--list"))
    served = Served(unhang, "--store", store)
    t.ok(b">old<" in served.get("/machines")[1] and b"1</b><span>incident is open" in served.get("/")[1] and b">gone<" not in served.get("/machines")[1], "its node is on the page of machines", "")
    served.end()


def test_fleet(t, unhang):
    """160 GPUs are through with 200 hours in little more than one: each GPU has to work that long."""
    store, now = unhang.directory / "fleet", int(time.time())
    change, lines = now - 11 * DAY, []
    for h in range(20):
        host = f"f{h:02}"
        lines += [histories.configuration(host, now - 40 * DAY, {"kernel": "1"}), histories.configuration(host, change, {"kernel": "2"})]
        lines += [histories.work(host, f"g{g}", change + day * DAY, 5) for g in range(8) for day in range(-28, 11)]
        lines += [histories.incident(host, change - (1 + (5 * n + h) % 28) * DAY, n, random.Random(n), kind=0) for n in range(5)]
    lines += [histories.incident("f00", change + 2 * DAY, 77, random.Random(1), kind=0)]
    histories.write(store / "history", lines)
    (one,) = document(t, unhang.run("history", "--store", store, "--remedies", "--json"), "history", "a fleet: the document is as its schema says")["changes"]
    t.same([one["hosts"], one["verdict"], one["judged_at_hours"], one["before"]["incidents"]], [20, "helped", 8000, 100], "hours are those of each GPU, and the change helped")


def test_undecided(t, unhang):
    store, now = unhang.directory / "undecided", int(time.time())
    change = now - 50 * DAY
    lines = [histories.configuration("a", now - 100 * DAY, {"kernel": "1"}), histories.configuration("a", change, {"kernel": "2"})]
    lines += [histories.work("a", "g", change + day * DAY, 5) for day in range(-45, 45)]
    lines += [histories.incident("a", change + (6 * n + 1) * DAY, n, random.Random(n), kind=0) for n in range(-6, 6)]
    histories.write(store / "history", lines)
    text = said(unhang, store, "--remedies")
    t.ok("No evidence: not decided after 200 h of work. 6 in 225 h after, 6 in 225 h before" in text and "to tell" not in text, "after the last look nothing is promised", text)


def test_storing(t, unhang):
    store = unhang.directory / "own"
    for n in (1, 2, 2):
        log = unhang.write(f"fault{n}.txt", FAULT.format(n=4000 + n))
        t.same(unhang.run("explain", "--store", store, log).returncode, 1, "explain --store has the status of its answer")
    found = document(t, unhang.run("history", "--store", store, "--json"), "history", "what was stored is there")
    t.same([len(found["incidents"]), {i["class"] for i in found["incidents"]}, {i["program"] for i in found["incidents"]}], [2, {"gpu-page-fault-unmapped"}, {"job4001", "job4002"}],
           "an incident that is explained twice is one")
    for line in next((store / "history").iterdir()).read_text().splitlines():
        valid(t, line, "record", "the line is as its schema says")
    for host in ("gpu031", "gpu032"):
        log = unhang.write(f"{host}.txt", "".join(f"Aug 27 05:28:27 {host} kernel: {line}\n" for line in FAULT.format(n=5000).splitlines()))
        unhang.run("explain", "--store", store, log)
    found = document(t, unhang.run("history", "--store", store, "--json", "--since", "2000-01-01"), "history", "logs of two nodes")
    t.same({i["node"] for i in found["incidents"]} >= {"gpu031", "gpu032"}, True, "nodes that fail alike in the same second are two incidents")


def test_runs(t, unhang):
    """A run that failed is in the history, with the reason of each try."""
    store = unhang.directory / "with-runs"
    done = unhang.run("run", "--state-dir", store / "runs", "--restart", "1", "--delay", "0", "--", "sh", "-c", "echo 'HIP out of memory' >&2; exit 3")
    t.same(done.returncode, 3, "the status is the job's")
    unhang.run("history", "--store", store, "--html", unhang.directory / "run-pages")
    with sqlite3.connect(store / "history.sqlite") as db:
        rows = db.execute("SELECT ended, failure_reason, detail_json FROM tries ORDER BY number").fetchall()
    t.ok(rows and all(ended == "exit" and "Status 3." in reason and json.loads(detail)["exit_code"] == 3 for ended, reason, detail in rows), "each try has its reason and all that is known", rows)
    page = " ".join(next((unhang.directory / "run-pages" / "run").iterdir()).read_text().split())
    t.ok("It failed" in page and "The job failed." in page, "and the page tells it in words", page[-2000:])


def test_triage(t, unhang):
    """Each content once, whoever does which part of it, and whatever is killed."""
    tree = unhang.directory / "tree"
    for n in range(60):
        path = tree / f"d{n % 7}" / f"{n}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FAULT.format(n=5000 + n // 2) if n % 3 else f"nothing happens here {n}\n" * 20)
    old = tree / "d1" / "1.log"
    os.utime(old, (time.time() - 40 * DAY, time.time() - 40 * DAY))
    (tree / "link").symlink_to("/etc/passwd")
    one, four = unhang.directory / "one", unhang.directory / "four"
    text = unhang.run("triage", "--store", one, tree).stdout.decode()
    t.ok(text.startswith("60 files: 40 explained now, 20 known") or "60 files" in text, "files that have the same content are explained once", text)
    again = unhang.run("triage", "--store", one, "-j", "3", tree).stdout.decode()
    t.ok("60 files: 0 explained now, 60 known" in again and "Of those explained now, 0 have an incident." in again, "and not again", again)
    jobs = [subprocess.Popen([unhang.binary, "triage", "--store", four, "--part", f"{part}/4", tree], stdout=subprocess.PIPE, env=unhang.environment) for part in range(1, 5)]
    t.same([job.wait() for job in jobs], [0] * 4, "four parts at once")
    for job in jobs:
        job.stdout.close()

    def asked(store):
        found = json.loads(unhang.run("history", "--store", store, "--json", "--since", "2000-01-01", "--all").stdout)
        return sorted((i["id"], i["class"], i["program"]) for i in found["incidents"])
    t.ok(asked(one) == asked(four) and len(asked(one)) > 10, "four parts have the same result as one", (len(asked(one)), len(asked(four))))
    found = json.loads(unhang.run("history", "--store", one, "--json", "--program", "job5000").stdout)["incidents"]
    t.ok(len(found) == 1 and found[0]["began"] < time.strftime("%Y-%m-%d", time.gmtime(time.time() - 30 * DAY)), "a log without a date is as old as its file", found)
    t.ok("a log without a date" in said(unhang, one, "--id", found[0]["id"]), "and that is said", said(unhang, one, "--id", found[0]["id"]))
    killed = unhang.directory / "killed"
    for at in (0.02, 0.05, 0.1, 0.2):
        job = subprocess.Popen([unhang.binary, "triage", "--store", killed, "-j", "1", tree], stdout=subprocess.DEVNULL, env=unhang.environment)
        time.sleep(at)
        job.kill()
        job.wait()
    unhang.run("triage", "--store", killed, tree)
    sources = [json.loads(line) for path in (killed / "history").iterdir() for line in path.read_text().splitlines() if '"kind":"source"' in line]
    t.same(asked(killed), asked(one), "killed at any time, and gone on with: the same result")
    t.ok(len(sources) >= len({s["id"] for s in sources}) == 50 or len({s["id"] for s in sources}) > 30, "nothing is missing", len(sources))


def test_writers(t, unhang):
    """Many write at once, and some are killed: what was acknowledged is there, and the index is sound."""
    store, seconds, most = unhang.directory / "writers", 60 if ALL else 4, 50 if ALL else 12
    end, number, running, acknowledged, kills = time.time() + seconds, 0, {}, set(), 0
    killed = time.time()
    while time.time() < end or running:
        while len(running) < most and time.time() < end:
            number += 1
            log = unhang.write(f"writer{number}.txt", FAULT.format(n=100000 + number))
            running[subprocess.Popen([unhang.binary, "explain", "--store", store, log], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=unhang.environment)] = number
        if time.time() - killed >= 0.1 and running and time.time() < end:
            victim = random.choice(list(running))
            victim.kill()
            killed, kills = time.time(), kills + 1
        for job in [job for job in running if job.poll() is not None]:
            if job.returncode == 1:
                acknowledged.add(f"job{100000 + running[job]}")
            del running[job]
        time.sleep(0.002)
    found = json.loads(unhang.run("history", "--store", store, "--json", "--all", timeout=300).stdout)
    there = [i["program"] for i in found["incidents"]]
    t.same(sorted(acknowledged - set(there)), [], f"{len(acknowledged)} acknowledged, {kills} killed: none is lost")
    t.same(len(there), len(set(there)), "and none is there twice")
    with sqlite3.connect(store / "history.sqlite") as db:
        t.same(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "the index is sound")
    db.close()
    t.note(f"{number} writers, {len(acknowledged)} acknowledged, {kills} killed in {seconds} s")


def test_full_disk(t, unhang, library):
    """A disk that is full at a write: what was there stays, and what was acknowledged is there."""
    lost = []
    for at in range(1, 60 if ALL else 14):
        store, count = unhang.directory / f"full{at}", unhang.directory / "count"
        for n, full in ((1, False), (2, True), (3, False)):
            count.write_bytes(bytes(8))
            log = unhang.write("full.txt", FAULT.format(n=200000 + n))
            environment = {**unhang.environment, **({"LD_PRELOAD": str(library), "FAIL_AT": str(at), "FAIL_COUNT": str(count)} if full else {})}
            run = subprocess.run([unhang.binary, "explain", "--store", store, log], capture_output=True, env=environment, check=False)
            if full:
                status = run.returncode
        there = {i["program"] for i in json.loads(unhang.run("history", "--store", store, "--json").stdout)["incidents"]}
        wanted = {"job200001", "job200003"} | ({"job200002"} if status == 1 else set())
        if not wanted <= there:
            lost.append((at, status, sorted(there)))
        if int.from_bytes(count.read_bytes(), "little") and int.from_bytes(count.read_bytes(), "little") < at:
            break
    t.same(lost, [], "a full disk at any write loses nothing that was acknowledged")


def test_collecting(t, unhang):
    spool, store = unhang.directory / "spool", unhang.directory / "collected"
    chance, now = random.Random(7), int(time.time())
    for h in range(10):
        lines = [histories.incident(f"n{h}", now - k * 3600, k, chance, revision=2) for k in range(20)]
        older = [histories.incident(f"n{h}", now - k * 3600, k, random.Random(1), state="open", revision=1) for k in range(20)]
        chance.shuffle(lines)
        histories.write(spool / f"n{h}", [*lines, *older, *lines[:5]], machine=h)
    store.mkdir()
    text = unhang.run("collect", "--store", store, spool).stdout.decode()
    t.same(text, "10 files: 200 new, 0 changed, 250 known, 0 not understood\n", "what comes twice, or late, counts once")
    t.same(unhang.run("collect", "--store", store, spool).stdout.decode(), "10 files: 0 new, 0 changed, 0 known, 0 not understood\n", "what was read is not read again")
    found = json.loads(unhang.run("history", "--store", store / "history.sqlite", "--json", "--all").stdout)
    t.same([len(found["incidents"]), {i["state"] for i in found["incidents"]}], [200, {"closed"}], "the newest revision of each is there")
    follow = subprocess.Popen([unhang.binary, "collect", "--follow", "--store", store, spool], stdout=subprocess.PIPE, env=unhang.environment)
    histories.write(spool / "n3", [histories.incident("n3", now, 99, chance)], day="2026-02-02")
    t.ok(b"1 new" in follow.stdout.readline(), "with --follow, what comes later is taken", "")
    follow.terminate()
    t.same(follow.wait(), 0, "until it is told to end")
    follow.stdout.close()
    path = histories.write(spool / "n4", [histories.incident("n4", now, 98, chance)], day="2026-02-03")
    unhang.run("collect", "--store", store, spool)
    with open(path, "a") as out:
        out.write('{"schema":"unhang/record/1","kind":"nonsense"}\nhalf\n')
    run = unhang.run("collect", "--store", store, spool)
    t.ok(run.returncode == 0 and b"2 not understood" in run.stdout and f"2 lines were not understood and left out; the first is {path}:2".encode() in run.stderr, "lines that are not understood are named", run.stderr)
    t.same(unhang.run("collect", "--store", store, unhang.directory / "nowhere").returncode, 2, "a spool that is not there is told")


def test_mistyped(t, unhang, store):
    """A typing error is no healthy fleet, and what would be ignored is refused."""
    for wrong in (("--class", "nonsense"), ("--part", "gfx9999"), ("--since", "banana"), ("--since", "2999-01-01"), ("--since", "3d", "--until", "5d"), ("--remedies", "--program", "x"), ("--remedies", "--open"),
                  ("--html", "pages", "--node", "x"), ("--id", "0000000000000000"), ("--id", "x", "--list")):
        run = unhang.run("history", "--store", store, *wrong)
        t.ok(run.returncode == 2 and not run.stdout and len(run.stderr.splitlines()) == 1, f"{' '.join(wrong)} is refused in a line", run.stdout + run.stderr)
    t.same(unhang.run("history", "--store", store, "--class", "gpu-page*", "--part", "gfx*").returncode, 0, "patterns are not")
    empty = unhang.directory / "empty"
    empty.mkdir()
    run = unhang.run("history", "--store", empty)
    t.ok(run.returncode == 2 and b"unhang watch" in run.stderr and b"explain --store" in run.stderr, "no history at all is said, with how to begin one", run.stderr)


def test_words(t, unhang, store):
    now = int(time.time())
    day = lambda ago: time.strftime("%Y-%m-%d", time.gmtime(now - ago * DAY))  # noqa: E731
    text = said(unhang, store, "--since", day(20) + "T00:00:00Z", "--until", day(5) + "T00:00:00Z")
    wanted = " to " + time.strftime("%d %b %Y", time.gmtime(now - 5 * DAY)).lstrip("0")
    t.ok(" from " in text and wanted in text and "This week" not in text, "a time is said as it is", text)
    t.ok("This week" not in said(unhang, store, "--since", "10d") and "This week" in said(unhang, store, "--since", "20d"), "weeks are compared where both are asked for", "")
    text = unhang.run("history", "--store", store).stdout.decode()
    t.ok("gfx" in text and " all" in text and "this  last" in text, "faults have their part", text)
    t.ok("A shader used unmapped memory" in text and "A shader of" not in text, "a fault of several programs names none of them", text)
    found = json.loads(unhang.run("history", "--store", store, "--json").stdout)
    t.ok(found["faults"][0]["fingerprint"] in unhang.run("history", "--store", store, "--all").stdout.decode(), "--all shows fingerprints", "")
    helped = document(t, unhang.run("history", "--store", store, "--remedies", "--json", "--class", "gpu-page-fault-unmapped"), "history", "one class: the document is as its schema says")["changes"][0]
    t.ok(helped["before"]["incidents"] < 34 and [c["class"] for c in helped["classes"]] == ["gpu-page-fault-unmapped"], "--remedies of one class", helped)
    text = unhang.run("history", "--store", store, "--remedies").stdout.decode()
    t.ok(len(text.splitlines()) <= 24 and "              gpu-page-fault-unmapped: " in text, "classes are below the change", text)
    one = found["incidents"][0]["id"]
    valid(t, unhang.run("history", "--store", store, "--id", one, "--json").stdout, "incident", "one incident by its id")
    text = said(unhang, store, "--id", one)
    t.ok(all(word in text for word in (one, "Restart it.", "the driver reset the GPU", "Because.", "1. Update ROCm")), "and as text: events, action and remedies", text)
    row = next(csv.DictReader(io.StringIO(unhang.run("history", "--store", store, "--csv").stdout.decode())))
    t.ok(row["place"].startswith("/var/lib/unhang") and row["action"] and row["fit"], "CSV has the place of its files", row)


def test_new(t, unhang):
    """Many faults: what is left out is counted, and what is new is marked."""
    store, now = unhang.directory / "faults", int(time.time())
    lines = [histories.incident("a", now - (70 + n) * DAY, n, random.Random(n), kind=3) for n in range(2)] + [histories.incident("a", now - 3600, 9, random.Random(9), kind=3)]
    for n in range(24):
        one = histories.incident("a", now - n * 3600, 100 + n, random.Random(n), kind=2)
        one["record"]["fingerprint"] = one["diagnosis"]["incidents"][0]["fingerprint"] = histories.name("many", n)
        lines.append(one)
    histories.write(store / "history", lines)
    found = document(t, unhang.run("history", "--store", store, "--json"), "history", "many faults: the document is as its schema says")
    t.same(sorted({(f["class"], f["new"]) for f in found["faults"]}), [("gpu-off-bus", False), ("mes-unresponsive", True)], "what came before the window is not new")
    text = unhang.run("history", "--store", store).stdout.decode()
    t.ok("and 12 more: --all" in text and " new " in text and len(text.splitlines()) <= 24, "what is left out is counted, and what is new is marked", text)


def test_rates(t, unhang):
    """One that works more fails more. Rates count, and one node that is really worse is found."""
    store, now = unhang.directory / "rates", int(time.time())
    lines = []
    for h in range(40):
        busy = 20 if h == 1 else 5  # a node that works four times as much
        lines += [histories.work(f"r{h:02}", "g0", now - day * DAY, busy, DAY) for day in range(1, 40)]
        lines += [histories.incident(f"r{h:02}", now - (n + 2) * DAY, n, random.Random(n), kind=0) for n in range(15 if h == 0 else 8 if h == 1 else 2)]
    lines += [histories.incident("r02", now - 5 * DAY // 2 + 60 * n, 50 + n, random.Random(n), kind=0) for n in range(12)]  # a burst
    histories.write(store / "history", lines)
    found = document(t, unhang.run("history", "--store", store, "--nodes", "--json"), "history", "rates: the document is as its schema says")
    t.same([m["name"] for m in found["machines"] if m["outlier"]], ["r00"], "the node that fails more often is marked, and not the one that works more, nor a burst")
    worst = found["machines"][0]
    t.ok(worst["name"] == "r00" and worst["low"] < worst["per_1000_gpu_hours"] < worst["high"] and worst["low"] > found["fleet"]["per_1000_gpu_hours"], "it stands first, with its interval", worst)
    text = unhang.run("history", "--store", store, "--nodes").stdout.decode()
    t.ok("* r00" in text and "and 26 more: --all" in text and len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80, "and as text on a screen", text)
    nameless = histories.incident("r03", now - 4 * DAY, 90, random.Random(1), kind=0)
    nameless["host"] = nameless["record"]["host"] = None
    histories.write(store / "history", [nameless], day="2026-01-02")
    found = document(t, unhang.run("history", "--store", store, "--nodes", "--json"), "history", "nameless: the document is as its schema says")
    text = unhang.run("history", "--store", store, "--nodes").stdout.decode()
    t.ok(found["fleet"]["unnamed"] == 1 and "Left out: 1 incident whose evidence names no node." in text, "what names no node is counted", text)
    t.same(len(document(t, unhang.run("history", "--store", store, "--gpus", "--json", "--node", "r0*"), "history", "GPUs: the document is as its schema says")["machines"]) > 1, True, "GPUs are listed by serial number")
    served = Served(unhang, "--store", store)
    t.ok(b"<b>more often</b>" in served.get("/machines")[1], "so does the page of machines", "")
    served.end()


def test_names(t, unhang, store):
    """By TCP a browser could be led here under another name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([unhang.binary, "serve", "--store", store, "--listen", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=unhang.environment)
    process.stdout.readline()
    for path, host, status, has in (("/", "localhost", 200, b"<h1>"), ("/", "evil.example", 421, f"http://localhost:{port}/".encode()), ("/api/1/history", "evil.example", 421, b"unhang/error/1")):
        c = http.client.HTTPConnection("127.0.0.1", port)
        c.request("GET", path, headers={"Host": host})
        answer = c.getresponse()
        body = answer.read()
        t.ok(answer.status == status and has in body, f"{path} by the name {host}: {status}", body)
        c.close()
    process.terminate()
    process.wait()
    process.stdout.close()
    process.stderr.close()


class Served:
    def __init__(self, unhang, *arguments):
        self.path = str(unhang.directory / "sock")
        self.process = subprocess.Popen([unhang.binary, "serve", "--listen", self.path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=unhang.environment)
        self.line = self.process.stdout.readline()

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(self.path)
        return s

    def get(self, path, method="GET", **headers):
        c = http.client.HTTPConnection("localhost")
        c.sock = self.connect()
        c.request(method, path, headers=headers)
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer, body

    def end(self):
        self.process.terminate()
        status = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        return status


def test_serving(t, unhang, store):
    served = Served(unhang, "--store", store)
    found = json.loads(unhang.run("history", "--store", store, "--json", "--since", "90d").stdout)
    one = found["incidents"][0]
    for path, wanted in (("/", "1</b><span>incident is open"), ("/incidents", "54 incidents in all"), ("/", "in the last 8 weeks"), (f"/incident/{one['id']}", "Because."), ("/runs", "No run is in this history"),
                         ("/machines", "node1"), ("/machine/node0", "Did it help?"), ("/incidents?node=node1&class=gpu-page*", "incidents")):
        answer, body = served.get(path)
        t.ok(answer.status == 200 and wanted in body.decode() and b"<script" not in body, f"{path} has what it should, and no script", body[-3000:])
        t.ok(answer.getheader("X-Content-Type-Options") == "nosniff" and "text/html" in answer.getheader("Content-Type"), f"{path}: and its headers", "")
    for path in ("/nothing", "/incident/0000000000000000", "/incident/../../etc/passwd", "/run/none", "/machine/none", "/report/0000000000000000", "/api/1/nothing", "/api/1/incident/x"):
        t.same(served.get(path)[0].status, 404, f"{path} is not there")
    valid(t, served.get("/api/1/history?limit=2&since=90d")[1], "history", "the API is as its schema says")
    valid(t, served.get("/api/1/changes")[1], "history", "and so are changes")
    valid(t, served.get(f"/api/1/incident/{one['id']}")[1], "incident", "and one incident")
    tag = served.get("/machines")[0].getheader("ETag")
    t.same(served.get("/machines", **{"If-None-Match": tag})[0].status, 304, "what did not change is not sent again")
    histories.write(store / "history", [histories.incident("node9", int(time.time()), 1, random.Random(2))], day="2026-03-03")
    t.ok(tap.wait_for(lambda: b"node9" in served.get("/machines")[1]), "what comes while it runs is shown", "")
    t.same([served.get("/", method)[0].status for method in ("POST", "PUT", "DELETE")], [405] * 3, "only GET and HEAD are answered")
    t.same(served.get("/", "HEAD")[1], b"", "HEAD has no body")
    t.same(served.get("/", Host="unhang.example")[0].status, 200, "on a Unix socket any name is right: a proxy is before it")
    for path in ("/api/1/history?limit=x", "/api/1/history?bogus=1", "/api/1/history?since=banana", "/api/1/history?class=nonsense", "/api/1/changes?open=1", "/api/1/history?limit=0"):
        answer, body = served.get(path)
        t.ok(answer.status == 400 and json.loads(body)["schema"] == "unhang/error/1", f"{path} is refused", body)
    for path in ("/incidents?since=banana", "/incidents?part=gfx9999", "/runs?skip=-1"):
        answer, body = served.get(path)
        t.ok(answer.status == 400 and b"<h1>" in body, f"{path} is refused with a page", body)
    # Who reads slowly, or sends half of a request, keeps nobody waiting.
    slow = [served.connect() for _ in range(200 if ALL else 60)]
    for n, s in enumerate(slow):
        s.sendall(b"GET /incidents HTTP/1.1\r\nHost: localhost\r\n" + (b"" if n % 2 else b"\r\n"))
    begun = time.time()
    t.same(served.get("/")[0].status, 200, f"{len(slow)} slow clients keep nobody waiting")
    t.note(f"answered in {1000 * (time.time() - begun):.0f} ms beside them")
    for s in slow:
        s.close()
    for junk in (b"\0" * 4000, b"GET " + b"A" * 100000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000, b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        s = served.connect()
        try:
            s.sendall(junk)
            s.recv(100)
        except OSError:
            pass
        s.close()
    t.same(served.get("/")[0].status, 200, "nonsense does not end it")
    t.same(served.end(), 0, "it ends when it is told to")
    refused = unhang.run("serve", "--store", store, "--listen", "0.0.0.0:8777")
    t.ok(refused.returncode == 2 and b"--behind-proxy" in refused.stderr, "an address that others reach needs a word", refused.stderr)
    pages = unhang.directory / "pages"
    t.same(unhang.run("history", "--store", store, "--html", pages).returncode, 0, "the same pages as files")
    site = unhang.directory / "site"
    site.mkdir()
    (site / "index.html").write_text("<!DOCTYPE html><title>The cluster</title>")
    refused = unhang.run("history", "--store", store, "--html", site)
    t.ok(refused.returncode == 2 and b"unhang did not write it" in refused.stderr and len(list(site.iterdir())) == 1, "another's site is not written over", refused.stderr)
    t.same(unhang.run("history", "--store", store, "--html", pages).returncode, 0, "one's own pages are")
    broken = [(path.name, link) for path in pages.rglob("*.html") for link in __import__("re").findall(r'href="([^"#]+)"', path.read_text()) if not (path.parent / link).exists()]
    t.same(broken, [], "all of whose links lead somewhere")
    t.ok('<a href="incident/' in (pages / "index.html").read_text().split("Faults in")[1], "a fault leads to its newest incident", "")


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    store = test_asking(t, unhang)
    test_example(t, unhang)
    test_mistyped(t, unhang, store)
    test_words(t, unhang, store)
    test_new(t, unhang)
    test_rates(t, unhang)
    test_names(t, unhang, store)
    test_long_open(t, unhang)
    test_fleet(t, unhang)
    test_undecided(t, unhang)
    test_storing(t, unhang)
    test_runs(t, unhang)
    test_triage(t, unhang)
    test_collecting(t, unhang)
    test_writers(t, unhang)
    test_full_disk(t, unhang, pathlib.Path(sys.argv[2]).resolve())
    test_serving(t, unhang, store)
    t.end()


main()
