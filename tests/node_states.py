"""States that an unhang watch could have written, as files: for tests that ask `unhang check`."""
import json
import pathlib
import time

BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OTHER_BOOT = "00000000-0000-0000-0000-000000000000"
PROGRAM = "secret-model"  # held the GPU; its name may not get where everybody reads


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def gpu(n=0, **more):
    return {"pci": f"0000:{0x85 + n:02x}:00.0", "unique_id": f"u{n}", "serial": f"S{n}", "slot": str(n), "partition": "SPX", "health": "idle", "says": None, "unwell": False, "seen": True,
            "unowned_since": None, "progress": "idle", "progress_says": None, **more}


def incident(number=1, action="restart-program", fit="yes", fault="job", cls="mes-unresponsive", **more):
    return {"id": f"{number:016x}", "state": "open", "class": cls, "title": f'{PROGRAM} (4242) "stopped"', "fault": fault, "action": action, "fit": fit, "host": "node1",
            "boot_id": BOOT, "gpu": {"pci": "0000:85:00.0", "unique_id": "u0", "serial": "S0"}, "origin": "log", "job": PROGRAM, "pid": 4242, "revision": 2,
            "began": utc(time.time() - 60), "changed": utc(time.time()), "ended": None, "closed_by": None, "events": 3, "bundle": "taken", "votes": None, **more}


def state(*incidents, gpus=None, age=0, **more):
    then = time.time() - age
    return {"schema": "unhang/watch-state/1", "host": "node1", "boot_id": BOOT, "written": utc(then), "valid_until": utc(then + 180), "looked": utc(then), "log_overruns": 0,
            "log_unread": None, "progress_unread": None, "gpus_unread": None, "gpus": [gpu()] if gpus is None else gpus, "incidents": list(incidents), **more}


def put(directory, found):
    """Writes it, whole, as the watch does; None: there is none; a text: as it is."""
    path = pathlib.Path(directory) / "state.json"
    if found is None:
        path.unlink(missing_ok=True)
        return
    new = path.with_suffix(".new")
    new.write_text(found if isinstance(found, str) else json.dumps(found))
    new.rename(path)
