#!/usr/bin/env python3
"""The history among strangers: stores, spools and clients that mean harm. history_hostile.py UNHANG

What needs another user is left out where this is not root."""
import http.client
import json
import os
import random
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time

import histories
from tap import Tap, Unhang

STRANGER = 1234
ROOT = os.geteuid() == 0
NOW = int(time.time())
FAULT = ("amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32771, for process job1 pid 1 thread job1 pid 1)\n"
         "amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f000001000 from client 10\n")


def lines(host, count, began=NOW - 3600, **more):
    return [histories.incident(host, began - n, n, random.Random(n), **more) for n in range(count)]


def total(unhang, store):
    run = unhang.run("history", "--store", store, "--json")
    return json.loads(run.stdout)["totals"]["incidents"] if run.returncode == 0 else run.stderr


def give(path):
    """All of it to a stranger, links included."""
    for each in (path, *path.rglob("*")):
        os.chown(each, STRANGER, STRANGER, follow_symlinks=False)


def test_strangers_store(t, unhang):
    """Root looks at a directory of somebody else."""
    prey = unhang.directory / "prey"
    prey.mkdir(mode=0o700)
    for ending in ("", "-wal", "-shm", "-journal"):
        store = unhang.directory / f"strange{ending}"
        histories.write(store / "history", lines("a", 3))
        if ending:
            (store / "history.sqlite").write_bytes(b"")
        (store / f"history.sqlite{ending}").symlink_to(prey / f"made{ending}")
        give(store)
        run = unhang.run("history", "--store", store, "--json")
        t.same([json.loads(run.stdout or "{}").get("totals", {}).get("incidents"), list(prey.iterdir())], [3, []], f"a link history.sqlite{ending} makes no file elsewhere, and the lines count")
        t.ok(b"in memory" in run.stderr and run.stderr.count(b"\n") == 1, "and one line says that the index is not used", run.stderr)
    plain = unhang.directory / "plain"
    histories.write(plain / "history", lines("a", 3))
    give(plain)
    before = sorted(plain.iterdir())
    t.same([total(unhang, plain), sorted(plain.iterdir())], [3, before], "nothing is left in a stranger's directory")
    # Root adds to it.
    log = unhang.write("strange.txt", FAULT)
    for name, target in (("link", prey), ("file", None)):
        store = unhang.directory / f"add-{name}"
        store.mkdir()
        if target:
            (store / "history").symlink_to(target)
        else:
            unhang.run("explain", "--store", store, log)
            next((store / "history").iterdir()).write_text("")
        give(store)
        run = unhang.run("explain", "--store", store, log)
        told = [] if target else [path.read_text() for path in (store / "history").iterdir()]
        t.ok(run.returncode == 2 and not list(prey.iterdir()) and not any(told), f"what root explains does not go through a {name} of a stranger", (run.returncode, run.stderr, told))
    # What only root may read.
    secret = unhang.directory / "secret"
    histories.write(secret / "history", lines("secret", 5))
    for name in ("history", "incidents"):
        store = unhang.directory / f"read-{name}"
        store.mkdir()
        (store / name).symlink_to(secret / name)
        give(store)
        t.ok(b"no history yet" in unhang.run("history", "--store", store).stderr, f"{name} that leads elsewhere is not read", "")
    run = unhang.run("collect", "--store", plain, secret / "history")
    t.ok(run.returncode == 2 and b"belongs to user" in run.stderr and sorted(plain.iterdir()) == before, "collect does not write to a stranger's directory", run.stderr)
    with sqlite3.connect(plain / "history.sqlite") as db:
        db.execute("CREATE TABLE unhang_schema (version)")
    db.close()
    give(plain)
    t.same([unhang.run("history", "--store", plain / "history.sqlite").returncode, sorted(path.name for path in plain.iterdir())], [2, ["history", "history.sqlite"]], "a stranger's file is only read")


def test_modes(t, unhang):
    store = unhang.directory / "modes"
    histories.write(store / "history", lines("a", 3))
    run = unhang.run("store", "check", "--store", store)
    t.ok(run.returncode == 2 and b"has no index yet" in run.stderr, "store check says that there is no index", run.stderr)
    total(unhang, store)
    with sqlite3.connect(store / "history.sqlite") as db:  # while one has it open, the files beside it are there
        db.execute("SELECT count(*) FROM incidents").fetchall()
        histories.write(store / "history", lines("b", 3))
        total(unhang, store)
        modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in store.glob("history.sqlite*")}
    db.close()
    t.same(modes, {f"history.sqlite{end}": "0o640" if ROOT else "0o600" for end in ("", "-wal", "-shm")}, "the index is for those who may read the lines")
    (store / "incidents" / "0123456789abcdef").mkdir(parents=True)
    (store / "incidents" / "0123456789abcdef" / "incident").symlink_to(unhang.write("planted", "id 0123456789abcdef\nstate open\nhost secret\nbegan 1700000000\nrevision 9\n"))
    t.same(total(unhang, store), 6, "links among the incidents are not followed")


def test_planted_tables(t, unhang):
    """An index that was copied with a directory has what its maker put into it."""
    for name, sql in (("trigger", "CREATE TRIGGER t AFTER INSERT ON spools BEGIN DELETE FROM incidents; END"),
                      ("view", "ALTER TABLE incidents RENAME TO other; CREATE VIEW incidents AS SELECT * FROM other"),
                      ("endless view", "DROP TABLE stamp; CREATE VIEW stamp AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) AS n, 1 AS id FROM c"),
                      ("column", "ALTER TABLE incidents ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000)))"),
                      ("index", "CREATE INDEX more ON incidents (length(hex(zeroblob(10000000))))"),
                      ("view for its form", "DROP TABLE unhang_schema; CREATE VIEW unhang_schema AS SELECT 3 AS version")):
        store = unhang.directory / f"planted {name}"
        histories.write(store / "history", lines("a", 3))
        total(unhang, store)
        with sqlite3.connect(store / "history.sqlite") as db:
            db.executescript(sql)
        db.close()
        histories.write(store / "history", lines("b", 3), day="2026-01-02")
        began = time.time()
        t.same(total(unhang, store), 6, f"a planted {name} changes nothing")
        t.ok(time.time() - began < 20 and (store / "history.sqlite.old").exists(), "takes no time, and is set aside", time.time() - began)
        with sqlite3.connect(store / "history.sqlite") as db:
            t.same(db.execute("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view') OR name IN ('more', 'other')").fetchone(), (0,), "and the index was made anew")
        db.close()


def collected(unhang, store, spool):
    return unhang.run("collect", "--store", store, spool, timeout=60)


def incidents(unhang, store):
    return {(i["id"], i["node"], i["class"]) for i in json.loads(unhang.run("history", "--store", store, "--json", "--all").stdout)["incidents"]}


def test_false_hosts(t, unhang):
    """A node may tell of itself, and of nobody else."""
    spool, store = unhang.directory / "hosts", unhang.directory / "hosts.sqlite"
    true = lines("good", 2)
    histories.write(spool / "good", true)
    collected(unhang, store, spool)
    before = incidents(unhang, store)
    stolen = [dict(line, revision=99, host="evil", record=dict(line["record"], **{"class": "stolen", "state": "closed"})) for line in true]
    forged = [dict(line, revision=99) for line in true] + [histories.work("good", "g", NOW - 3600, 1), histories.configuration("good", NOW, {"kernel": "forged"}), dict(true[0], id="0" * 16, host=None)]
    histories.write(spool / "evil", [*stolen, *forged, histories.work("evil", "g", NOW - 3600 * 8, 1)])
    text = collected(unhang, store, spool).stdout.decode()
    t.same(text, "2 files: 3 new, 0 changed, 0 known, 5 not understood\n", "what a node tells of others is refused")
    after = incidents(unhang, store)
    t.ok(before <= after and {node for _, node, _ in after - before} == {"evil"} and not {i for i, _, _ in before} & {i for i, _, _ in after - before}, "and what it tells by their ids is its own, and replaces nothing", after)
    histories.write(spool / "good", [dict(line, revision=3, record=dict(line["record"], state="open")) for line in true], day="2026-01-02")
    t.ok("2 changed" in collected(unhang, store, spool).stdout.decode(), "the node itself goes on with its own", "")
    run = {"schema": "unhang/record/1", "kind": "run", "id": "r1", "revision": 1, "host": None, "run": {"host": "a b", "began": "2026-08-27T03:28:27Z", "command": "x", "tries": []}}
    histories.write(spool / "a_b", [run])
    histories.write(spool / "evil", [dict(run, revision=9, host="evil")], day="2026-01-02")
    t.ok("2 new, 0 changed, 0 known, 0 not understood" in collected(unhang, store, spool).stdout.decode(), "a name is compared as the watch writes it, and a run is its host's", "")
    late = lines("good", 1, began=NOW - 50)[0]
    histories.write(spool / "evil", [dict(late, host="evil")], day="2026-01-03")
    collected(unhang, store, spool)
    histories.write(spool / "good", [late], day="2026-01-03")
    collected(unhang, store, spool)
    t.ok(json.loads(unhang.run("history", "--store", store, "--json", "--node", "good").stdout)["totals"]["incidents"] == 3, "who tells of an id first hides nothing of the node whose it is", "")
    histories.write(spool, lines("anybody", 2))
    t.ok("2 new" in collected(unhang, store, spool).stdout.decode(), "what lies in no node's directory may be of any", "")


def test_endless_files(t, unhang):
    spool, store = unhang.directory / "endless", unhang.directory / "endless.sqlite"
    (spool / "big").mkdir(parents=True)
    with open(spool / "big" / "2026-01-01-00000001.jsonl", "wb") as out:
        out.truncate(1 << 40)
    with open(spool / "big" / "2026-01-02-00000001.jsonl", "wb") as out:
        for _ in range(40):
            out.write(b"x" * (8 << 20))
    histories.write(spool / "small", lines("small", 3))
    began = time.time()
    run = collected(unhang, store, spool)
    t.ok(run.returncode == 0 and b"3 new" in run.stdout and time.time() - began < 30, "files without an end of a line keep nobody waiting", (run, time.time() - began))
    with sqlite3.connect(store) as db:
        places = dict(db.execute("SELECT substr(path, -25), place FROM spools WHERE path LIKE '%/big/%'").fetchall())
    db.close()
    t.ok(places["2026-01-02-00000001.jsonl"] >= 64 << 20, "how far they were read is kept", places)
    own = unhang.directory / "endless-store"
    (own / "history").mkdir(parents=True)
    with open(own / "history" / "2026-01-01-00000001.jsonl", "wb") as out:
        out.truncate(1 << 40)
    histories.write(own / "history", lines("a", 3), day="2026-01-02")
    began = time.time()
    t.ok(total(unhang, own) == 3 and time.time() - began < 20, "and neither does one in a store", time.time() - began)
    # A file of which all that comes is refused is left when it is told to end.
    with open(spool / "big" / "2026-01-03-00000001.jsonl", "wb") as out:
        for _ in range(100):
            out.write(b"{}\n" * 1000000)
    job = subprocess.Popen([unhang.binary, "collect", "--store", store, spool], stdout=subprocess.DEVNULL, env=unhang.environment)
    time.sleep(0.5)
    began = time.time()
    job.send_signal(signal.SIGTERM)
    job.wait(60)
    t.ok(time.time() - began < 5, "it ends when it is told to", time.time() - began)


def test_replaced_file(t, unhang):
    spool, store = unhang.directory / "replaced", unhang.directory / "replaced.sqlite"
    path = histories.write(spool / "a", lines("a", 2))
    collected(unhang, store, spool)
    path.unlink()
    histories.write(spool / "a", lines("a", 5, began=NOW - 9999))
    t.ok(b"5 new" in collected(unhang, store, spool).stdout, "a file that took the place of another is read from its start", "")


def test_one_bad_file(t, unhang):
    """What one node does to its directory keeps the others from nothing."""
    spool, store = unhang.directory / "bad", unhang.directory / "bad.sqlite"
    (spool / "a").mkdir(parents=True)
    (spool / "a" / "2026-01-01-00000001.jsonl").symlink_to(histories.write(unhang.directory / "elsewhere", lines("a", 1)))
    (spool / "linked").symlink_to(unhang.directory / "elsewhere")
    histories.write(spool / "z", lines("z", 2))
    odd = os.path.join(os.fsencode(spool), b"\xff\xfe")
    os.mkdir(odd)
    with open(os.path.join(odd, b"2026-01-01-\xff0000001.jsonl"), "w") as out:
        out.write("{}\n")
    follow = subprocess.Popen([unhang.binary, "collect", "--follow", "--store", store, spool], stdout=subprocess.PIPE, env=unhang.environment)
    t.ok(b"2 new" in follow.stdout.readline(), "links are not followed, and the rest goes on", "")
    aside = spool.rename(unhang.directory / "aside")
    time.sleep(6)
    histories.write(aside / "z", lines("z", 5), day="2026-01-02")
    aside.rename(spool)
    t.ok(b"3 new" in follow.stdout.readline(), "with --follow, a spool that is gone is waited for", "")
    follow.terminate()
    t.same(follow.wait(), 0, "until a signal")
    follow.stdout.close()


def test_pages_of_odd_names(t, unhang):
    store, pages, prey = unhang.directory / "odd", unhang.directory / "odd-pages", unhang.directory / "pages-prey"
    names = ["a b", "a_b", "a_20b", "a%20b", "../../up", "..", ".hidden", "x" * 250 + "1", "x" * 250 + "2", "\u00e9" * 120 + "a", "\u00e9" * 120 + "b"]
    histories.write(store / "history", [line for name in names for line in lines(name, 1)])
    run = unhang.run("history", "--store", store, "--html", pages)
    t.ok(run.returncode == 0, "pages of odd names are written", run.stderr)
    files = [path for path in (pages / "machine").iterdir() if path.suffix == ".html"]
    t.same([len(files), max(len(path.name) for path in files) <= 205], [len(names), True], "each has a file of its own, whose name is not too long")
    broken = [(path.name, link) for path in pages.rglob("*.html") for link in re.findall(r'href="([^"#]+)"', path.read_text()) if not (path.parent / link).exists()]
    t.same(broken, [], "and all links lead somewhere")
    t.same([path for path in unhang.directory.parent.iterdir() if path.name.startswith("up")], [], "and none is elsewhere")
    for path in files:
        path.unlink()
    prey.mkdir()
    (pages / "machine").rmdir()
    (pages / "machine").symlink_to(prey)
    run = unhang.run("history", "--store", store, "--html", pages)
    t.ok(run.returncode == 2 and not list(prey.iterdir()), "a link among the pages is not followed", run.stderr)
    away = unhang.directory / "away"
    away.symlink_to(prey)
    if os.getuid() == 0:
        os.chown(away, STRANGER, STRANGER, follow_symlinks=False)
        for name in (str(away), f"{away}/"):
            run = unhang.run("history", "--store", store, "--html", name)
            t.ok(run.returncode == 2 and not list(prey.iterdir()), "nor a directory that is a link of a stranger", run.stderr)
        os.chown(away, 0, 0, follow_symlinks=False)
    run = unhang.run("history", "--store", store, "--html", away)
    t.ok(run.returncode == 0 and (prey / "index.html").exists(), "one's own link is", run.stderr)


def test_terminal(t, unhang):
    """What a node wrote reaches the operator's terminal as text alone."""
    store, escape = unhang.directory / "escapes", "\x1b[2J\x07"
    odd = lines("a", 3)
    for line in odd:
        line["record"].update({key: value + escape for key, value in line["record"].items() if isinstance(value, str) and key not in ("id", "state", "host")})
        of = line["diagnosis"]["incidents"][0]
        of["gpus"][0].update(gfx="gfx" + 200 * "1" + escape, name=escape)
        of["processes"][0]["name"] += escape
    histories.write(store / "history", odd)
    first = odd[0]["id"]
    for asked in ([], ["--all"], ["--list"], ["--list", "--all"], ["--nodes"], ["--gpus"], ["--remedies"], ["--open"], ["--id", first], ["--csv"], ["--json"]):
        run = unhang.run("history", "--store", store, *asked)
        t.ok(run.returncode in (0, 1) and not {0x1b, 7} & set(run.stdout + run.stderr), f"no escape sequence of a node: history {' '.join(asked[:1])}", run)
        if not asked:
            t.same([line for line in run.stdout.decode().splitlines() if len(line) > 80], [], "and its texts make no line longer")
    database = sqlite3.connect(store / "history.sqlite")
    database.execute("UPDATE incidents SET id = id || char(27, 7), title = ?", ("x" * 10000000,))
    database.commit()
    database.close()
    run = unhang.run("history", "--store", store / "history.sqlite", "--list")
    t.ok(run.returncode == 0 and not {0x1b, 7} & set(run.stdout), "nor of who made the file", run)


def test_endless_logs(t, unhang):
    tree, store = unhang.directory / "logs", unhang.directory / "triaged"
    tree.mkdir()
    with open(tree / "a-huge.log", "wb") as out:
        out.truncate(1 << 40)
    (tree / "b.log").write_text(FAULT)
    began = time.time()
    run = unhang.run("triage", "--store", store, tree, timeout=60)
    t.ok(run.returncode == 1 and b"a-huge.log: File too large" in run.stderr and b"1 explained now" in run.stdout, "triage leaves out a file of a terabyte, says so, and goes on", (run, time.time() - began))


def test_costly_pages(t, unhang):
    """What a page shows is limited, whatever a node tells."""
    store = unhang.directory / "costly"
    many = [histories.incident("a", NOW - n, n, random.Random(n)) for n in range(3000)]
    for n, line in enumerate(many):
        line["record"]["fingerprint"] = f"{n:016x}"
    names = [histories.configuration("a", NOW - 60 + n, {f"{n}.{k}." + "x" * 200: "1" for k in range(400)}) for n in range(20)]
    histories.write(store / "history", [*many, *names])
    path = str(unhang.directory / "costly.sock")
    job = subprocess.Popen([unhang.binary, "serve", "--store", store, "--listen", path], stdout=subprocess.PIPE, env=unhang.environment)
    job.stdout.readline()

    def get(what):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(path)
        return asked(s, what)[1]
    found = json.loads(get("/api/1/history?limit=2"))
    t.same([len(found["faults"]), len(found["incidents"]), found["totals"]["incidents"]], [2, 2, 3000], "the limit is one of faults, too")
    size = len(get("/machine/a"))
    t.ok(100000 < size < 1 << 20, "a machine's page has not all that was ever set", size)
    job.terminate()
    job.wait()
    job.stdout.close()


def asked(connection, path="/", **headers):
    c = http.client.HTTPConnection("localhost")
    c.sock = connection
    c.request("GET", path, headers=headers)
    answer = c.getresponse()
    body = answer.read()
    c.close()
    return answer, body


def test_slow_clients(t, unhang):
    """Clients that never finish what they ask: the oldest of them goes, and none has more than its time."""
    store, path = unhang.directory / "served", str(unhang.directory / "slow.sock")
    histories.write(store / "history", lines("a", 3))
    job = subprocess.Popen([unhang.binary, "serve", "--store", store, "--listen", path], stdout=subprocess.PIPE, env=unhang.environment)
    job.stdout.readline()

    def connect():
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)  # it may have to wait for the server
        s.settimeout(30)
        return s
    trickle, began = connect(), time.time()
    trickle.sendall(b"GET / HTTP/1.1\r\n")
    tag = asked(connect())[0].getheader("ETag")
    t.same([asked(connect(), **{"If-None-Match": text})[0].status for text in (f'"x", {tag}', f"W/{tag}", '"x"')], [304, 304, 200], "a list of tags is looked through")
    ended = None
    while time.time() - began < 40 and not ended:
        try:
            trickle.sendall(b"X: y\r\n")
            time.sleep(1)
        except OSError:
            ended = time.time() - began
    t.ok(ended and ended < 30, "who sends a line each second is ended all the same", ended)
    slow = []
    for _ in range(600):
        slow.append(connect())
        try:
            slow[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        except OSError:
            pass  # it was closed for another
    begun = time.time()
    t.same(asked(connect())[0].status, 200, "600 clients that do not finish keep nobody waiting")
    t.ok(time.time() - begun < 5, "not even for a moment", time.time() - begun)
    for s in slow:
        s.close()
    job.terminate()
    t.same(job.wait(), 0, "it ends when it is told to")
    job.stdout.close()
    # An address of this machine that is not the usual one.
    with socket.create_server(("127.0.0.2", 0)) as free:
        port = free.getsockname()[1]
    job = subprocess.Popen([unhang.binary, "serve", "--store", store, "--listen", f"127.0.0.2:{port}"], stdout=subprocess.PIPE, env=unhang.environment)
    job.stdout.readline()
    t.same([asked(socket.create_connection(("127.0.0.2", port)), Host=host)[0].status for host in (f"127.0.0.2:{port}", "localhost", "evil.example", "128.0.0.1")], [200, 200, 421, 421], "it answers by its own address")
    job.terminate()
    job.wait()
    job.stdout.close()


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    if ROOT:
        test_strangers_store(t, unhang)
    test_modes(t, unhang)
    test_planted_tables(t, unhang)
    test_false_hosts(t, unhang)
    test_endless_files(t, unhang)
    test_replaced_file(t, unhang)
    test_one_bad_file(t, unhang)
    test_pages_of_odd_names(t, unhang)
    test_slow_clients(t, unhang)
    test_terminal(t, unhang)
    test_endless_logs(t, unhang)
    test_costly_pages(t, unhang)
    t.end()


main()
