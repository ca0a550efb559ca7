#!/usr/bin/env python3
"""Nobody locks root out: whoever can open a file or a directory can lock it, so locks are on files that nobody else can open.

locks.py UNHANG"""
import os
import subprocess
import sys

import emulated
import tap
from bundles import manifest
from watched import FAULT, Machine

STRANGER = 4000
PYTHON = "/usr/bin/python3"  # which a stranger can run
# Locks all below a directory that this user can open, and tells how much that is.
HOLD = """import fcntl, os, sys
held = []
for top, _, files in os.walk(sys.argv[1]):
    for path in [top] + [os.path.join(top, name) for name in files]:
        try:
            held.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
print(len(held), flush=True)
sys.stdin.read()
"""


class Held:
    """A user who holds all locks below a directory that he can reach."""

    def __init__(self, unhang, directory, user):
        self.process = subprocess.Popen([PYTHON, unhang.write("hold.py", HOLD), directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user, group=user, extra_groups=[])
        self.many = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def test_state(t, unhang):
    m = Machine(unhang, "state", FAULT)
    for path in (unhang.directory, m.top):
        path.chmod(0o755)
    m.once()
    with Held(unhang, m.top, STRANGER) as held:
        run = m.run(m.command("--once"))
    t.ok(held.many > 1 and run.returncode != tap.CANNOT, "a stranger's lock on the state directory stops no watch", f"{held.many}: {run.returncode}: {run.stderr.decode()}")
    with Held(unhang, m.top, 0):
        told = m.run(m.command("--once")).stderr.decode()
    t.ok("another unhang watch" in told, "root's own lock does", told)


READ = ("answers/waves", "answers/rings", "answers/regs")


def states(bundle):
    return {i["name"]: (i["state"], i["reason"]) for i in manifest(bundle).get("items", []) if i["name"] in READ}


def test_reading(t, unhang):
    """One process at a time asks a GPU: that lock is root's."""
    script = f"""mount -t tmpfs -o mode=755 tmpfs /run && cd {unhang.directory} && chmod 755 . && {unhang.binary} capture -o first.tar.zst
        mkfifo fifo held
        setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups {PYTHON} {unhang.directory}/hold.py /run/unhang/reading <fifo >held & exec 9>fifo; read n <held; echo held $n
        {unhang.binary} capture -o stranger.tar.zst; exec 9>&-; wait
        {PYTHON} {unhang.directory}/hold.py /run/unhang/reading <fifo >held & exec 9>fifo; read n <held; echo held $n
        {unhang.binary} capture -o root.tar.zst; exec 9>&-; wait"""
    unhang.write("hold.py", HOLD)
    run = unhang.run("emulate", "silent-hang", "--", "sh", "-c", script, timeout=300)
    found = {name: states(unhang.directory / f"{name}.tar.zst") for name in ("first", "stranger", "root")}
    held = [int(line.split()[1]) for line in run.stdout.decode().splitlines() if line.startswith("held ")]
    t.ok(len(held) == 2 and held[0] > 0 and len(found["first"]) == len(READ) and found["stranger"] == found["first"], "a stranger's locks keep nobody from a GPU", f"{found} {run.stdout.decode()}{run.stderr.decode()}")
    sizes = [{i["name"]: i["bytes"] for i in manifest(unhang.directory / f"{name}.tar.zst").get("items", [])}.get("answers/waves", 0) for name in ("first", "stranger")]
    t.ok(sizes[0] and sizes[1] > sizes[0] / 2, "which is read as before", str(sizes))
    t.ok(any(state == "cut" and "not read" in reason for state, reason in found["root"].values()), "and what root's own lock kept from being read is told as not read", str(found["root"]))


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if os.geteuid() or not os.access(PYTHON, os.X_OK) or not emulated.possible(unhang):
        tap.skip_all("only root can be locked out, and can become another user")
    for test in (test_state, test_reading):
        test(t, unhang)
    t.end()


main()
