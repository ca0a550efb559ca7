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
