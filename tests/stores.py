#!/usr/bin/env python3
"""The history in large stores, as root: stores.py UNHANG [PART...]

PostgreSQL 15 of Debian, started here: 100 spools with 100,000 incidents, while collector and server are killed; through a network that drops half of its
packets; the overview over 200,000 incidents of 2,000 nodes in SQLite and PostgreSQL. `make stores` runs it. Parts: odd, kills, network, overview, triage."""
import glob
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

import histories
from tap import Tap, Unhang

SERVER = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]
SPOOLS, EACH = 100, 1000


class Postgres:
    """A server of our own, of the user postgres."""

    def __init__(self, folder, address="", inside=()):
        self.folder, self.inside = pathlib.Path(folder) / "data", list(inside)
        pathlib.Path(folder).chmod(0o1777)  # in one where anybody replaces files, no index is made
        self.run("initdb", "-D", self.folder, "-A", "trust", "--no-sync")
        with open(self.folder / "postgresql.conf", "a") as out:
            out.write(f"unix_socket_directories = '{folder}'\nlisten_addresses = '{address}'\nport = 5599\n")
        self.url = f"postgresql://postgres@/unhang?host={folder}&port=5599"
        self.start()
        self.run("createdb", "-h", folder, "-p", "5599", "unhang")

    def run(self, program, *arguments, check=True):
        return subprocess.run([*self.inside, "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", f"{SERVER[0]}/{program}", *map(str, arguments)], check=check, capture_output=True, cwd="/")

    def start(self):
        self.run("pg_ctl", "-D", self.folder, "-w", "-t", "600", "-l", self.folder.parent / "log", "start")

    def kill(self):
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split():
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.05)
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def ask(self, sql):
        return subprocess.run(["psql", "-h", self.folder.parent, "-p", "5599", "-U", "postgres", "-At", "-c", sql, "unhang"], check=True, capture_output=True, text=True).stdout.strip()

    def count(self, what="*"):
        return int(self.ask(f"SELECT count({what}) FROM incidents"))

    def end(self):
        self.run("pg_ctl", "-D", self.folder, "-m", "immediate", "stop", check=False)


def fill(folder, spools, each, days=90):
    """Spools of machines; a tenth of the lines comes twice. Returns how many incidents there are."""
    now = int(time.time())
    for host in range(spools):
        chance = random.Random(host)
        lines = [histories.incident(f"node{host:04}", now - int(chance.random() * days * histories.DAY), n, chance, state="open" if n == 0 and host % 200 == 0 else "closed") for n in range(each)]
        lines += chance.sample(lines, len(lines) // 10)
        if host % 10 == 0:
            lines += [histories.work(f"node{host:04}", "0000:03:00.0", now - d * histories.DAY, 5) for d in range(1, 60)]
        histories.write(pathlib.Path(folder) / f"node{host:04}", lines, machine=host)
    return spools * each


def collected(unhang, url, spool, until, disturb=lambda job: None, through=(), most=1200):
    """Collects until all is there. Who is killed is started again."""
    job, began = None, time.time()
    while time.time() - began < most:
        if job is None or job.poll() is not None:
            job = subprocess.Popen([*through, unhang.binary, "collect", "--follow", "--store", url, spool], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=unhang.environment)
        time.sleep(0.5)
        disturb(job)
        try:
            if until():
                break
        except subprocess.CalledProcessError:
            pass
    job.terminate()
    job.wait()
    return time.time() - began


def test_kills(t, unhang, folder):
    database, spool, chance = Postgres(folder), pathlib.Path(folder) / "spool", random.Random(5)
    wanted = fill(spool, SPOOLS, EACH)
    kills = {"collector": 0, "server": 0}

    def disturb(job):
        if chance.random() < 0.25 and kills["collector"] < 40:
            job.kill()
            kills["collector"] += 1
        if chance.random() < 0.12 and kills["server"] < 8:
            database.kill()
            kills["server"] += 1
            database.start()
    seconds = collected(unhang, database.url, spool, lambda: database.count() >= wanted, disturb)
    # Once more to the end, so that what came twice was read, too.
    last = unhang.run("collect", "--store", database.url, spool, timeout=600)
    t.same([database.count(), database.count("DISTINCT id")], [wanted, wanted], "nothing is lost, and nothing is there twice")
    t.same(int(database.ask("SELECT count(*) FROM events")), 2 * wanted, "each has its events")
    t.ok(last.returncode == 0 and unhang.run("store", "check", "--store", database.url).returncode == 0, "the store is sound", last.stderr)
    t.note(f"{wanted} incidents of {SPOOLS} spools into PostgreSQL in {seconds:.0f} s; collector killed {kills['collector']} times, server {kills['server']} times")
    database.end()


def test_odd(t, unhang, folder):
    """Lines that a server does not take: it refuses them, and takes the others."""
    database, spool, now, chance = Postgres(folder), pathlib.Path(folder) / "spool", int(time.time()), random.Random(3)

    def long(n):
        return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(n))

    def changed(n, **more):
        line = histories.incident("odd", now - n, n, chance)
        line["record"].update(more)
        return line
    head = {"schema": "unhang/record/1", "revision": now, "host": "odd"}
    odd = [changed(1, **{"class": long(4000)}), changed(2, serial=long(4000), job=long(4000), fault=long(4000), gpu=long(4000), fingerprint=long(4000)),
           changed(3, title="x" + "\u20ac" * 3000, job="x" + "\u00e9" * 400), {**head, "kind": "configuration", "id": "machine", "items": [{"gpu": None, "name": long(4000), "value": long(4000)}]},
           {**head, "kind": "exposure", "id": long(4000), "from": now - 100, "until": now, "busy": 1, "serial": long(3000), "part": long(3000)},
           {**head, "kind": "samples", "id": long(4000), "columns": [], "rows": [[now, 1e308, 5e-324, 1, 1], [now + 1, 1, 1, 1, 1]]},
           {**head, "kind": "run", "id": long(4000), "run": {"host": "odd", "rank": 0.5, "command": "x", "tries": [{"number": 1, "level": 2.5}]}},
           {**head, "kind": "run", "id": "r2", "run": {"host": "odd", "status": 1e300, "command": "x", "tries": []}}]
    odd[-1]["revision"] = 2 ** 62
    good = [histories.incident("odd", now - 100 - n, 100 + n, chance) for n in range(600)]
    for n, line in enumerate(odd):
        good.insert(n * 70, line)
    histories.write(spool / "odd", good)
    histories.write(spool / "other", [histories.incident("other", now, 1, chance)])
    run = unhang.run("collect", "--store", database.url, spool, timeout=300)
    t.ok(run.returncode == 0 and database.count() == 604, "lines that the server refuses stop nothing", (run, database.count()))
    again = unhang.run("collect", "--store", database.url, spool, timeout=300)
    t.same(again.stdout, b"2 files: 0 new, 0 changed, 0 known, 0 not understood\n", "and are not read again")
    t.note(run.stdout.decode().strip())
    job = subprocess.Popen([unhang.binary, "collect", "--follow", "--store", database.url, spool], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=unhang.environment)
    database.ask("ALTER TABLE stamp RENAME TO away")
    histories.write(spool / "other", [histories.incident("other", now, 2, chance)], day="2026-01-02")
    time.sleep(8)
    t.same(job.poll(), None, "with --follow, an error of the server does not end it")
    database.ask("ALTER TABLE away RENAME TO stamp")
    t.ok(b"1 new" in job.stdout.readline(), "and it goes on when that is over", "")
    job.terminate()
    t.same(job.wait(), 0, "until it is told to end")
    job.stdout.close()
    histories.write(spool / "more", [histories.incident("more", now - n, n, chance) for n in range(20000)])
    job = subprocess.Popen([unhang.binary, "collect", "--store", database.url, spool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=unhang.environment)
    while database.count() < 2000:
        time.sleep(0.02)
    lost = database.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'unhang'")
    said = job.communicate()[0]
    t.ok([job.returncode, lost, database.count()] == [0, "1", 20605], "without it, a connection that is lost is made again", (said, lost, database.count()))
    database.end()


def test_network(t, unhang, folder):
    """Server and collector in a network namespace of their own, whose loopback drops half of what either side sends."""
    name = f"unhang-stores-{os.getpid()}"
    inside = ["ip", "netns", "exec", name]
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        database, spool, url = Postgres(folder, "127.0.0.1", inside), pathlib.Path(folder) / "spool", "postgresql://postgres@127.0.0.1:5599/unhang"
        wanted = fill(spool, 4, 40)
        unhang.run("store", "migrate", "--store", database.url)
        for side in ("--sport", "--dport"):
            subprocess.run([*inside, "iptables", "-A", "INPUT", "-p", "tcp", side, "5599", "-m", "statistic", "--mode", "random", "--probability", "0.5", "-j", "DROP"], check=True)
        seconds = collected(unhang, url, spool, lambda: database.count() >= wanted, through=inside, most=3600)
        t.same(database.count("DISTINCT id"), wanted, "with half of the packets lost, nothing is lost")
        t.same(database.count(), wanted, "and nothing is there twice")
        dropped = subprocess.run([*inside, "iptables", "-nvxL", "INPUT"], check=True, capture_output=True, text=True).stdout.splitlines()[2:]
        t.note(f"{wanted} incidents in {seconds:.0f} s, {sum(int(line.split()[0]) for line in dropped)} packets dropped")
        database.end()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def first_answer(unhang, store):
    """The overview of a server that was just started: its bytes, the seconds, and those of the processor."""
    path = str(unhang.directory / "stores.sock")
    job = subprocess.Popen([unhang.binary, "serve", "--store", store, "--listen", path], stdout=subprocess.PIPE, env=unhang.environment)
    job.stdout.readline()
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)

    def processor():
        return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{job.pid}/task").glob("*/schedstat")) / 1e9
    used, began = processor(), time.time()
    connection.request("GET", "/")
    body = connection.getresponse().read()
    seconds, used = time.time() - began, processor() - used
    connection.close()
    job.terminate()
    job.wait()
    job.stdout.close()
    return body, seconds, used


def timed(unhang, store, name, t):
    """No answer that was kept counts. Others may use the machine, so that the best one does."""
    answers = [first_answer(unhang, store) for _ in range(15)]
    t.ok(b"Faults" in answers[0][0], f"{name}: the overview is there", answers[0][0][:200])
    best, used = (min(one[n] for one in answers) for n in (1, 2))
    t.ok(best < 0.1, f"{name}: the first answer in less than 100 ms", [one[1] for one in answers])
    t.note(f"{name}: the first answer in {1000 * best:.0f} ms, with {1000 * used:.0f} ms of unhang's processor time")


def test_overview(t, unhang, folder):
    database, spool = Postgres(folder), pathlib.Path(folder) / "spool"
    store = pathlib.Path(folder) / "store"
    store.mkdir()
    wanted = fill(spool, 2000, 100, days=365)
    for where, name in ((store, "SQLite"), (database.url, "PostgreSQL")):
        began = time.time()
        run = unhang.run("collect", "--store", where, spool, timeout=1800)
        t.ok(run.returncode == 0, f"{name}: {wanted} incidents of 2,000 nodes collected", run.stderr)
        t.note(f"{name}: {wanted / (time.time() - began):.0f} incidents a second")
    database.ask("ANALYZE")
    timed(unhang, store / "history.sqlite", "SQLite", t)
    timed(unhang, database.url, "PostgreSQL", t)
    t.note(f"bytes of one incident: SQLite {(store / 'history.sqlite').stat().st_size // wanted}, PostgreSQL {int(database.ask('SELECT pg_database_size(current_database())')) // wanted}, "
           f"lines {sum(p.stat().st_size for p in spool.rglob('*.jsonl')) // wanted}")
    database.end()


def test_triage(t, unhang, folder):
    """20,000 logs: the rate of a core, killed and gone on with, and the same in four parts."""
    tree, one, four = (pathlib.Path(folder) / name for name in ("tree", "one", "four"))
    sample = (pathlib.Path(__file__).parent / ".." / "docs" / "sample-dmesg.txt").read_text()
    for n in range(20000):
        path = tree / f"{n % 100}" / f"{n}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sample.replace("4242", str(10000 + n)) if n % 4 else f"line {n}\n" * 100)

    def triage(store, *more):
        began = time.time()
        run = unhang.run("triage", "--store", store, *more, tree, timeout=3600)
        return run.stdout.decode(), time.time() - began
    job = subprocess.Popen([unhang.binary, "triage", "--store", one, "-j", "1", tree], stdout=subprocess.DEVNULL, env=unhang.environment)
    time.sleep(20)
    job.kill()
    job.wait()
    done = sum(line.count('"kind":"source"') for path in (one / "history").iterdir() for line in path.open())
    text, seconds = triage(one, "-j", "1")
    explained = int(text.split(" explained")[0].split()[-1])
    t.same(explained, 20000 - done, "what was stored before the kill is not explained again")
    t.note(f"triage: {explained / seconds:.0f} logs a second on one core")
    for part in range(1, 5):
        triage(four, "-j", "1", "--part", f"{part}/4")
    asked = [json.loads(unhang.run("history", "--store", store, "--json", "--since", "2000-01-01", "--all", timeout=600).stdout) for store in (one, four)]
    same = [sorted((i["id"], i["class"], i["program"]) for i in found["incidents"]) for found in asked]
    t.ok(same[0] == same[1] and len(same[0]) == 15000, "one part and four have the same result", [len(s) for s in same])


PARTS = {"odd": test_odd, "kills": test_kills, "network": test_network, "overview": test_overview, "triage": test_triage}


def main():
    unhang, t = Unhang(sys.argv[1]), Tap()
    for name in sys.argv[2:] or PARTS:
        with tempfile.TemporaryDirectory(prefix="unhang-stores-") as folder:
            PARTS[name](t, unhang, folder)
    t.end()


main()
