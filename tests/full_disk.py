#!/usr/bin/env python3
"""A disk that is full at any call: a capture, and one of the watch. Some calls of each; with UNHANG_TEST_ALL=1 every one, until none fails any more.

full_disk.py UNHANG FAIL_WRITE"""
import itertools
import json
import os
import subprocess
import sys
import time

import emulated
import tap
from bundles import manifest, members
from watched import FAULT, Machine, words

ALL = bool(os.environ.get("UNHANG_TEST_ALL"))
SOME = (2, 14)  # calls that are tried by `make test`


def leftovers(folder):
    return {p.name: {str(f.relative_to(p)) for f in p.rglob("*") if f.is_file() and f.stat().st_size and not f.name.endswith((".new", "-new", "packed")) and not f.name.startswith(".")}
            for p in folder.glob("*.partial")}


def count_of(path):
    return int.from_bytes(path.read_bytes(), "little")


def moments(count):
    """Numbers of calls, as long as the last run made that many."""
    for at in (itertools.count(1) if ALL else SOME):
        count.write_bytes(bytes(8))
        yield at
        if count_of(count) < at:
            return


def failing(unhang, library, at, once, count):
    return {**unhang.environment, "LD_PRELOAD": library, "FAIL_AT": str(at), "FAIL_COUNT": str(count), **({"FAIL_ONCE": "1"} if once else {})}


def capture(unhang, folder, at, environment):
    """What is wrong with a capture and what it leaves."""
    wrong, bundle = [], folder / "b.tar.zst"
    run = subprocess.run([unhang.binary, "capture", "-o", bundle], env=environment, capture_output=True, timeout=100, check=False)
    said, held, left = run.stderr.decode(), members(bundle), leftovers(folder)
    if bundle.exists() and "manifest.json" not in held:
        wrong.append(f"{at}: half a bundle under its name")
    if run.returncode == 0 and not held:
        wrong.append(f"{at}: no bundle, and status 0")
    if run.returncode and (not said.startswith("unhang: ") or "No space left" not in said or said.count("\n") > 2):
        wrong.append(f"{at}: status {run.returncode}: {said[:300]}")
    if run.returncode and bundle.exists() and "may not have reached the disk" not in said:
        wrong.append(f"{at}: status {run.returncode}, but there is a bundle: {said[:300]}")
    unhang.run("capture", "-o", folder / "after.tar.zst")
    packed = set().union(*(members(p) for p in folder.glob("b*.tar.zst")))
    for items in left.values():
        if items - packed - {"manifest.json"}:
            wrong.append(f"{at}: lost {sorted(items - packed)}")
    wrong += [f"{at}: {p.name} is left" for p in folder.iterdir() if ".partial" in p.name or "unhang-new" in p.name]
    wrong += [f"{at}: {p.name} is {manifest(p).get('state')}" for p in folder.glob("*.tar.zst") if manifest(p).get("state") not in ("complete", "interrupted")]
    for p in [*folder.glob("b*.tar.zst"), folder / "after.tar.zst"]:
        p.unlink(missing_ok=True)
    return wrong


def test_capture(t, unhang, library):
    folder, count = unhang.directory / "capture", unhang.directory / "count"
    folder.mkdir()
    old = folder / "old.tar.zst"
    unhang.run("capture", "-o", old)
    before = old.read_bytes()
    for once in (False, True):
        wrong, last = [], 0
        for last in moments(count):
            wrong += capture(unhang, folder, last, failing(unhang, library, last, once, count))
        t.no_complaints(wrong[:8], f"a capture whose {'Nth call alone fails' if once else 'calls fail from the Nth on'}, up to {last}: a clear line, nothing lost")
    t.ok(old.read_bytes() == before, "and an older bundle stays")


def test_slow(t, unhang, library):
    """A disk that does not answer for minutes: the capture ends at its deadline all the same."""
    folder, count = unhang.directory / "slow", unhang.directory / "count"
    folder.mkdir()
    for at, once in ((1, False), (3, True), (12, True)):
        count.write_bytes(bytes(8))
        bundle, begin = folder / f"{at}.tar.zst", time.monotonic()
        environment = {**failing(unhang, library, at, once, count), "FAIL_ONLY": "fsync", "FAIL_SLOW": "200"}
        run = subprocess.run([unhang.binary, "capture", "--deadline", "20", "-o", bundle], env=environment, capture_output=True, timeout=900, check=False)
        took = time.monotonic() - begin
        t.ok(took < 100, f"a sync that takes minutes, {'the' if once else 'from the'} {at}. {'one' if once else 'on'}, delays no capture", f"{took:.0f} s: {run.stdout.decode()}{run.stderr.decode()}")
        t.ok("manifest.json" in members(bundle) or (run.returncode == tap.CANNOT and "in time" in run.stderr.decode()), "and there is a bundle, or a clear line", run.stderr.decode())


def test_unsynced(t, unhang, library):
    """One sync fails: the item that did not reach the disk is left out, and the manifest does not say that it was saved."""
    folder, count, wrong = unhang.directory / "unsynced", unhang.directory / "count", []
    folder.mkdir()
    for at in range(1, 48) if ALL else range(3, 8):  # the kernel's log comes first
        count.write_bytes(bytes(8))
        bundle = folder / f"{at}.tar.zst"
        subprocess.run([unhang.binary, "capture", "-o", bundle], env={**failing(unhang, library, at, True, count), "FAIL_ONLY": "fsync"}, capture_output=True, timeout=100, check=False)
        held = members(bundle)
        items = manifest(bundle)["items"] if held else []
        wrong += [f"{at}: {i['name']} is not there, and {i['state']}" for i in items if i["state"] == "saved" and not any(name.startswith(i["name"]) for name in held)]
    t.no_complaints(wrong, "what a sync failed for is not called saved")


def test_nothing(t, unhang, library):
    """Where nothing could be saved, nothing is left."""
    folder, count = unhang.directory / "nothing", unhang.directory / "count"
    folder.mkdir()
    count.write_bytes(bytes(8))
    run = subprocess.run([unhang.binary, "capture", "-o", folder / "b.tar.zst"], env={**failing(unhang, library, 1, False, count), "FAIL_ONLY": "write"}, capture_output=True, timeout=100, check=False)
    said = run.stderr.decode()
    t.ok(run.returncode == tap.CANNOT and "No space left" in said and "Nothing could be saved" in said and not list(folder.iterdir()), "a disk without any room: a clear line, and no .partial", f"{said} {list(folder.iterdir())}")


def test_watch(t, unhang, library):
    count = unhang.directory / "count"
    for once in ((False, True) if ALL else (False,)):
        wrong, last = [], 0
        for last in moments(count):
            m = Machine(unhang, "watch", FAULT)
            env = " ".join(f"{k}={v}" for k, v in failing(unhang, library, last, once, count).items() if k.startswith(("LD_PRELOAD", "FAIL")))
            m.run(f"{env} {m.command('--once')} >{m.top}/full 2>&1; {m.command('--once')} >{m.top}/after 2>&1; {m.command('--once')} >{m.top}/again 2>&1")
            full, after, again = ((m.top / name).read_text().splitlines() for name in ("full", "after", "again"))
            found = m.incidents()
            if "opened" not in words(full) + words(after):
                wrong.append(f"{last}: never told: {full} {after}")
            if len(found) != 1 or (words(full) + words(after) + words(again)).count("opened") > 2:
                wrong.append(f"{last}: {len(found)} incidents; {words(full)} {words(after)} {words(again)}")
            wrong += [f"{last}: {p} is no bundle" for p in (m.top / "state").rglob("*.tar.zst") if "manifest.json" not in members(p)]
            wrong += [f"{last}: {p.name} is left" for p in (m.top / "state").rglob("*") if "unhang-new" in p.name or ".partial" in p.name]
            if found and found[0]["bundle"] != "taken":
                wrong.append(f"{last}: bundle {found[0]['bundle']}: {full} {after}")
        t.no_complaints(wrong[:8], f"a watch whose {'Nth call alone fails' if once else 'calls fail from the Nth on'}, up to {last}: told, stored once and whole")


def test_later(t, unhang):
    """A disk that is full when the GPU fails: the record says so, and the bundle is taken when there is room."""
    m = Machine(unhang, "later", (tap.HERE / ".." / "emulator" / "scenarios" / "silent-hang.scenario").read_text() + FAULT[FAULT.index("messages"):])
    state = m.top / "state"
    state.mkdir()
    script = (f"mount -t tmpfs -o size=8m tmpfs {state}; dd if=/dev/zero of={state}/filled bs=4k 2>/dev/null; truncate -s -100k {state}/filled; {m.command()} >{m.top}/out 2>&1 & p=$!; "
              f"n=0; until grep -qs '^bundle .*No space' {state}/incidents/*/incident || [ $n -gt 900 ]; do sleep 0.1; n=$((n+1)); done; cat {state}/incidents/*/incident >{m.top}/before; "
              f"ls -a {state}/incidents/*/ >{m.top}/listed; rm {state}/filled; "
              f"n=0; until grep -qs '^bundle taken' {state}/incidents/*/incident || [ $n -gt 900 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p; cp {state}/incidents/*/* {m.top}")
    run = m.run(script, timeout=400)
    out = (m.top / "out").read_text() + run.stderr.decode()
    before, listed = ((m.top / name).read_text() for name in ("before", "listed"))
    t.ok("No space left" in before and ".partial" not in listed, "the record says that there was no room for the bundle, and nothing of it is left", f"{before} {listed} {out}")
    t.ok("answers/machine" in members(m.top / "bundle.tar.zst"), "which is taken when there is room", out)


def test_dump(t, unhang, library):
    """A devcoredump is freed only when its copy is on the disk."""
    count, record, bundle = unhang.directory / "count", unhang.directory / "record.json", unhang.directory / "dump.tar.zst"
    count.write_bytes(bytes(8))
    failing_sync = ["env", f"LD_PRELOAD={library}", "FAIL_AT=4", "FAIL_ONCE=1", "FAIL_ONLY=fsync", f"FAIL_COUNT={count}"]  # behind the manifest's two, and the mark's
    scenario = tap.HERE / "scenarios" / "dump-left.scenario"
    unhang.run("emulate", "--record", record, scenario, "--", *failing_sync, unhang.binary, "capture", "--release-devcoredump", "-o", bundle, timeout=100)
    done = [json.loads(line) for line in record.read_text().splitlines()]
    read, written = (any(o["op"] == what and "devcoredump" in o["path"] for o in done) for what in ("read", "write"))
    t.same([read, written, count_of(count) > 0], [True, False, True], "a devcoredump that could not be synced is read, and not freed")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    library = os.path.abspath(sys.argv[2])
    if tap.is_sanitized(unhang.binary):
        t.skip("a disk that is full", "the sanitizer wants to be loaded first")
        t.end()
    test_capture(t, unhang, library)
    test_slow(t, unhang, library)
    test_unsynced(t, unhang, library)
    test_nothing(t, unhang, library)
    if emulated.possible(unhang) and not os.getuid():
        test_watch(t, unhang, library)
        test_later(t, unhang)
        test_dump(t, unhang, library)
    else:
        t.skip("the watch on a full disk", "no machine can be emulated here")
    t.end()


main()
