"""Makes histories: lines of docs/record.schema.json for many machines, the same for the same seed."""
import hashlib
import json
import pathlib
import random

DAY = 86400
CLASSES = [("gpu-page-fault-unmapped", "job", "restart-program", "A shader of {program} used unmapped memory"),
           ("gfx-ring-timeout", "driver", "restart-program", "A graphics job of {program} did not finish in time"),
           ("mes-unresponsive", "driver", "reboot", "The GPU's scheduler firmware (MES) stopped answering"),
           ("gpu-off-bus", "node", "power-cycle", "The GPU is off the bus"),
           ("uncorrectable-memory-error", "node", "reboot", "The GPU's memory has an error that cannot be corrected")]
PARTS = ["gfx1100", "gfx942", "gfx90a", "gfx1201"]
PROGRAMS = ["python", "vllm", "llama-server", "kwin_wayland"]


def name(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def incident(host, began, number, chance, state="closed", revision=2, kind=None):
    cause, fault, action, title = CLASSES[kind if kind is not None else chance.choices(range(5), [40, 25, 20, 10, 5])[0]]
    part, program = PARTS[int(name(host), 16) % 4], chance.choice(PROGRAMS)
    title = title.format(program=program)
    print_ = name("print", cause, part, program if "{program}" in title else "")
    ident, gpu = name(host, began, number), f"0000:{3 + int(name(host, number), 16) % 8:02x}:00.0"
    serial = name("serial", host, gpu)[:12]
    record = {"id": ident, "state": state, "class": cause, "title": title, "fault": fault, "action": action, "host": host, "boot_id": name("boot", host, began // DAY),
              "gpu": gpu, "serial": serial, "unique_id": name("unique", serial), "origin": "log", "bundle": "taken", "job": program, "began": began, "changed": began + 5,
              "ended": began + 95 if state == "closed" else 0, "events": 3, "pid": 4242, "revision": revision, "fingerprint": print_, "fit": "yes" if fault != "node" else "no"}
    diagnosis = {"schema": "unhang/diagnosis/1", "incidents": [{
        "id": ident, "fingerprint": print_, "gpus": [{"pci": gpu, "name": "A GPU", "gfx": part, "serial": serial}], "cause": {"class": cause, "title": title, "confidence": 0.9, "explanation": "Because."},
        "action": {"do": action, "fault": fault, "text": "Restart it."}, "processes": [{"name": program, "pid": 4242, "role": "owner"}],
        "timeline": [{"id": 1, "time": 100.0, "event": "page-fault", "role": "cause", "text": "it happened"}, {"id": 2, "time": 101.5, "event": "reset-begin", "role": "effect", "text": "the driver reset the GPU"}],
        "remedies": [{"id": "update-rocm", "title": "Update ROCm", "shown": True}]}]}
    return {"schema": "unhang/record/1", "kind": "incident", "id": ident, "revision": revision, "host": host, "place": f"/var/lib/unhang/incidents/{ident}", "record": record, "diagnosis": diagnosis}


def work(host, gpu, since, hours, seconds=3600 * 6):
    return {"schema": "unhang/record/1", "kind": "exposure", "id": gpu, "revision": since, "host": host, "serial": "S1", "part": "gfx1100", "from": since, "until": since + seconds, "busy": round(hours * 3600, 1)}


def configuration(host, when, items):
    return {"schema": "unhang/record/1", "kind": "configuration", "id": "machine", "revision": when, "host": host,
            "items": [{"gpu": None, "name": key, "value": value} for key, value in items.items()]}


def write(directory, lines, day="2026-01-01", machine=1):
    path = pathlib.Path(directory) / f"{day}-{machine:08x}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    return path


def samples(host, gpu, when, n=40):
    """What a GPU was like in the minutes before a failure: it heats up, then stands still."""
    rows = [[when + 10 * (i - n), 98 if i < n - 6 else 3, 540 + 5 * i if i < n - 6 else 130, 60 + i / 2, 120 * 2 ** 30 + i * 2 ** 28] for i in range(n)]
    return {"schema": "unhang/record/1", "kind": "samples", "id": gpu, "revision": when, "host": host, "columns": ["time", "busy", "power", "temperature", "memory"], "samples": rows}


def sample(directory, now):
    """A store to look at: twelve nodes in eight weeks, a firmware that helped on most of them, and a node that fails more than the others."""
    chance, lines = random.Random(4), []
    for h in range(12):
        host = f"gpu-{h:02}"
        lines.append(configuration(host, now - 60 * DAY, {"kernel": "6.8.0-90", "linux-firmware": "20250613", "rocm": "6.4.3"}))
        if h < 8:
            lines.append(configuration(host, now - 20 * DAY, {"kernel": "6.8.0-90", "linux-firmware": "20250708", "rocm": "6.4.3"}))
        lines += [work(host, "0000:03:00.0", now - (60 - d) * DAY, 5) for d in range(60)]
        for n in range(30 if h == 3 else 9):
            ago = 20 + chance.random() * 38 if h < 8 and h != 3 and n else chance.random() * 58
            one = incident(host, now - int(ago * DAY), n, chance, state="open" if n == 0 and h % 5 == 3 else "closed")
            lines.append(one)
            if n == 0:
                lines.append(samples(host, one["record"]["gpu"], one["record"]["began"]))
    return write(directory, lines)


if __name__ == "__main__":
    import sys
    import time
    print(sample(sys.argv[1], int(time.time())))
