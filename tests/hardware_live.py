#!/usr/bin/env python3
"""Hardware errors on machines that run: what a look, the doctor, check and the watch tell of counters, bad pages, links and what slows a GPU down;
and that no file is opened that would wake a GPU, ask it, or clear its counters."""
import json
import re
import sys

import emulated
import tap
import watched

A, B = "0000:05:00.0", "0000:26:00.0"
HIVE = "    sysfs xgmi_hive_info/xgmi_hive_id 5846120214\n"
WELL = f"gpu {A}\n    part gfx942\n"
# Files that query or clear the hardware, ask the power controller for banks, or take records.
FORBIDDEN = re.compile(r"_err_count$|/aca_|/mca_|_dump$|amdgpu_ring_cper|xgmi_error|eeprom|/features$|pp_|pm_info|gpu_recover$")
NODE = "0000:05:00.0 0000:26:00.0 0000:46:00.0 0000:65:00.0 0000:85:00.0 0000:a6:00.0 0000:c6:00.0 0000:e5:00.0".split()


def counted(fatal=0, created=0, used=0, older=False):
    names = ("Fault Error ", "Poison Creation ", "Poison Consumption ") if older else ("Fatal Error", "Poison Creation", "Poison Consumption")
    rows = "".join(f"\\n{name}: count:{n}, last_seqno:0" for name, n in zip(names, (fatal, created, used)))
    return f"    sysfs ras/event_state current seqno: 9{rows}\n"


class Machines:
    def __init__(self, t, unhang):
        self.t, self.unhang, self.n = t, unhang, 0

    def write(self, text):
        self.n += 1
        return self.unhang.write(f"{self.n}.scenario", text)

    def look(self, text, *arguments):
        run = emulated.inside(self.unhang, self.write(text), *arguments, "--json")
        return run, json.loads(run.stdout)


def gpus(document):
    return {g["pci"]: g for g in document["machine"]["gpus"]}


def test_counters(m):
    run, said = m.look(WELL + counted(1, 2, 1) + "    bad-page 1 retired\n    bad-page 2 pending\n")
    g = gpus(said)[A]
    m.t.no_complaints([str(e.message) for e in emulated.validator("diagnosis").iter_errors(said)][:3], "counters: the document is well-formed")
    m.t.same((run.returncode, g["verdict"], g["errors"]), (0, "healthy", {"fatal": 1, "poison_created": 2, "poison_used": 1, "gpus": 1, "pages_pending": 1, "throttle": None}),
             "counters of errors are told, and a count alone is no incident")
    m.t.ok("fatal 1" in g["hint"] and "wait to be taken out of use: 1" in g["hint"], "for people too", g["hint"])
    _, said = m.look(WELL + counted(0, 3, 0, older=True))
    m.t.same((gpus(said)[A]["errors"]["poison_created"], gpus(said)[A]["hint"]), (3, None), "broken data that nobody used is only counted")
    _, said = m.look("gpu 0000:03:00.0\n    part gfx1100\n")
    m.t.same(gpus(said)["0000:03:00.0"]["errors"]["fatal"], None, "a part without these counters: not known")
    _, said = m.look(WELL + "    file ras/event_state fails EIO\n")
    m.t.same(gpus(said)[A]["errors"]["fatal"], None, "a counter that cannot be read: not known")
    for count in ("garbage", -1, 2**64 - 1):
        run, said = m.look(WELL + counted(count))
        g = gpus(said)[A]
        m.t.same((run.returncode, g["verdict"], g["errors"]["fatal"], "ras/event_state" in (g["unseen"] or "")), (2, "unknown", None, True), f"a count of {count}: not known, and no all-clear")


def test_hive(m):
    """The driver counts for a whole hive: one error is told once, and of the hive."""
    hive = "".join(f"gpu {pci}\n    part gfx942\n{HIVE}    sysfs xgmi_physical_id {n}\n{counted(1, 0, 0)}" for n, pci in enumerate(NODE))
    _, said = m.look(hive)
    hints, hives = {pci: g["hint"] for pci, g in gpus(said).items() if g["hint"]}, said["machine"]["hives"]
    m.t.no_complaints([str(e.message) for e in emulated.validator("diagnosis").iter_errors(said)][:3], "a hive: the document is well-formed")
    m.t.same((hints, gpus(said)[B]["errors"]["gpus"], gpus(said)[B]["xgmi_position"]), ({}, 8, 1), "eight GPUs of a hive: what is counted for all is of none of them")
    m.t.same([(h["id"], h["gpus"], h["fatal"], h["poison_used"]) for h in hives], [("5846120214", 8, 1, 0)], "it is of the hive")
    text = emulated.inside(m.unhang, m.write(hive)).stdout.decode()
    m.t.ok("8 GPUs are well" in text and text.count("Hardware errors") == 1 and "XGMI hive of 8 GPUs: Hardware errors" in text, "a screen of eight", text)
    doctor = json.loads(emulated.inside(m.unhang, m.write(hive), "doctor", "--json").stdout)
    found = [gpu for f in doctor["findings"] if f["id"] == "ras-events" for gpu in f["gpus"]]
    m.t.same(len(found), 1, "the doctor tells it once")


def test_throttle(m):
    slow = {"prochot": 36, "power": 40, "temperature": 44, "voltage-regulators": 48, "memory-temperature": 52}
    for cause, at in slow.items():
        _, said = m.look(WELL + f"    metric {at} 32 count 1000 1 0.002\n")
        g = gpus(said)[A]
        m.t.ok(re.fullmatch(rf"{cause} \((4[5-9]|5[0-5]) % of the time\)", g["errors"]["throttle"] or ""), f"throttling by {cause}, as a share of the time", g["errors"]["throttle"])
        m.t.same(bool(g["hint"]), cause != "power", f"{cause}: a power limit alone is no hint")
    _, said = m.look("gpu 0000:03:00.0\n    part gfx90a\n    metric 112 64 0x1000000000\n")
    m.t.same(gpus(said)["0000:03:00.0"]["errors"]["throttle"], "temperature", "MI200: the bits that mean the same on each part")
    _, said = m.look("gpu 0000:03:00.0\n    part gfx90a\n    metric 68 32 0xffff\n")
    m.t.same(gpus(said)["0000:03:00.0"]["errors"]["throttle"], None, "those that do not are not read")
    _, said = m.look(WELL + "    metric 36 32 12345\n")
    m.t.same(gpus(said)[A]["errors"]["throttle"], None, "what slowed it down before the look is over")
    for name, text in {"no table": "    file gpu_metrics absent\n", "a table of tomorrow": "    metrics 1 77 120\n", "a table that is cut off": "    metrics 1 6 600\n",
                       "a controller that does not answer": "    file gpu_metrics fails ETIME\n"}.items():
        run, said = m.look(WELL + text)
        m.t.same((run.returncode, gpus(said)[A]["errors"]["throttle"]), (0, None), f"{name}: not known, and no more")
    doctor = json.loads(emulated.inside(m.unhang, m.write(WELL + "    metric 36 32 count 1000 1 0.001\n    metric 104 64 17\n"), "doctor", "--json").stdout)
    facts = json.dumps(doctor)
    m.t.ok('"throttled-prochot"' in facts, "the doctor finds it", facts[:300])
    years = WELL + "    metric 104 64 90000\n    metric 120 32 4000\n    sysfs ras/umc_err_count ue: 0\\nce: 250000\n" + counted(0, 0, 0)
    run, said = m.look(years)
    m.t.same((run.returncode, gpus(said)[A]["verdict"], gpus(said)[A]["hint"], said["incidents"]), (0, "healthy", None, []), "years of corrected errors and repeated packets: healthy")


def test_links(m):
    """Lanes and speed against what card and bridge can do; a GPU that does little may slow its link down."""
    for name, link, more, hint in (("lanes are lost", "width 8", "", "16.0 GT/s x8, and could be 16.0 GT/s x16"), ("a slot with eight lanes", "width 8 port-width 8", "", None),
                                   ("a slow link under load", "speed 5", "    busy 90\n", "5.0 GT/s x16 instead of 16.0 GT/s x16"), ("a slow link without work", "speed 2.5", "", None),
                                   ("an older slot, under load", "speed 8 port-speed 8", "    busy 90\n", None), ("fewer lanes of the slowest link, without work", "speed 2.5 width 8", "", None)):
        run, said = m.look(WELL + f"    link {link}\n{more}")
        g = gpus(said)[A]
        m.t.ok((hint in g["hint"]) if hint and g["hint"] else not hint and not g["hint"], f"links: {name}", str(g["hint"]))
    text = emulated.inside(m.unhang, m.write(WELL + "    link width 4\n")).stdout.decode()
    m.t.ok("lost lanes" in text and "No problem found" not in text and "see the notes on the hardware" in text, "links: no all-clear without a word about it", text)
    found = {f["id"] for f in json.loads(emulated.inside(m.unhang, m.write(WELL + "    link width 4\n"), "doctor", "--json").stdout)["findings"]}
    m.t.ok(any("link" in f or "lanes" in f for f in found), "links: the doctor finds it", str(found))


def test_kept(m):
    """What the driver keeps of errors, as somebody saves it: its ring of records, and the table of the module's EEPROM."""
    scenario = m.write(WELL + "    bad-page 0x1d1e3f retired channel 5 when 1748431353\n    bad-page 0x1d1e40 pending channel 6\n    record fatal 0xbea0000000000000 0x509600490f00 oam 3 when 1748431353\n"
                       "    record corrected 0x9c20400000000000 0x509600490f00\n    record fatal 0xb000000000000137 0x9600000000 limit when 1748431400\n")
    top = m.unhang.directory
    script = f"cp /sys/kernel/debug/dri/0/amdgpu_ring_cper {top}/ring; cp /sys/kernel/debug/dri/0/ras/ras_eeprom_table {top}/table; cp /sys/bus/pci/devices/{A}/ras/gpu_vram_bad_pages {top}/pages"
    m.unhang.run("emulate", scenario, "--", "sh", "-c", script)
    a = m.unhang.explain(top / "ring")
    m.t.same(sorted((e["event"], e["time"]) for i in a.incidents for e in i.timeline)[:2], [("cper-corrected", 1700000000), ("cper-fatal", 1748431353)], "the ring: its records, with their times")
    h = a.first.data["hardware"]
    m.t.same((h["bank"], h["afid"], h["oam"], h["service"]), ("umc", 20, "OAM3", "watch"), "the ring: block, number and module")
    notes = [n["text"] for n in m.unhang.explain(top / "table").document["notes"]]
    m.t.same(notes, ["the module's own table has 2 bad memory pages in 2 memory channels, the newest of 2025-05-28T11:22:33Z"], "the table of the EEPROM")
    m.t.same([n["event"] for n in m.unhang.explain(top / "pages").document["notes"]], ["bad-page-pending"], "the list of pages")


def test_files(m):
    """Nothing is opened that wakes, asks or clears; and nothing of a GPU that sleeps beside what the kernel has in memory."""
    eight = "".join(f"gpu {pci}\n    part gfx942\n{counted(1, 1, 1)}    sysfs ras/umc_err_count ue: 4\\nce: 9\n    metric 36 32 count 9 1 0.01\n    record fatal 0xbea0000000000000 0x509600490f00\n    bad-page 7 retired\n"
                    f"    debugfs ras/umc_err_inject x\n" for pci in NODE)
    for arguments in (["--json"], ["doctor"], ["check", "--look", "--json"]):
        record = m.unhang.directory / "record.json"
        record.unlink(missing_ok=True)
        m.unhang.run("emulate", "--record", record, m.write(eight), "--", m.unhang.binary, *arguments)
        done = [json.loads(line) for line in record.read_text().splitlines()]
        opened = [d["path"] for d in done if d["op"] == "open"]
        m.t.no_complaints(sorted({p for p in opened if FORBIDDEN.search(p)})[:5] + [str(d) for d in done if d["op"] == "write"][:3],
                          f"{arguments[0]}: no file that asks the hardware is opened, and none is written")
        m.t.ok(sum(p.endswith("ras/event_state") for p in opened) >= 8 and any(p.endswith("gpu_metrics") for p in opened), f"{arguments[0]}: the counters are")
    opened = emulated.only_reads(m.t, m.unhang, m.write(WELL + "    state suspended\n" + counted(1, 0, 1)), ["--json"], "a GPU that sleeps: only read")
    m.t.same(sorted(p for p in opened if p.endswith(("gpu_metrics", "gpu_vram_bad_pages", "max_link_width"))), [], "a GPU that sleeps is left asleep")


def test_incident(m):
    """An error in the log, with its bank: the module, its place and what to do."""
    run = emulated.inside(m.unhang, "hardware-errors", "--json")
    said = json.loads(run.stdout)
    m.t.no_complaints([str(e.message) for e in emulated.validator("diagnosis").iter_errors(said)][:3], "incident: the document is well-formed")
    h = said["incidents"][0]["hardware"]
    m.t.ok(h["serial"] and h["unique_id"] and h["slot"] and h["host"], "serial number, unique id, slot and host", str(h))
    m.t.same((h["xgmi_position"], h["bank"], h["severity"], h["service"], h["earlier"]), (2, "umc", "fatal", "cold-restart", None), "where it is, what failed, and what to do")
    text = emulated.inside(m.unhang, "hardware-errors").stdout.decode()
    m.t.ok(re.search(r"^Module +serial EMU\d+, slot 3", text, re.M) and "position 2" in text, "the first screen names the module", text)


def test_kernel_events(m):
    """What the driver and KFD write around a hardware error."""
    def lines(*texts):
        return "".join(f"[  {100 + n / 10:.6f}] {text}\n" for n, text in enumerate(texts))
    dev = f"amdgpu {A}: amdgpu: "
    cases = {
        "KFD: the use of broken data": (lines(dev + "RAS poison consumption, unmap queue flow succeeded: client id 0x1b"), "ras-poison"),
        "the reset for it": (lines(dev + "GPU reset for sdma RAS poison consumption is issued!"), "ras-poison"),
        "who used it": (lines(dev + "poison is consumed by client 27, kick off gpu reset flow"), "ras-poison"),
        "a fatal error": (lines(dev + "{7}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"), "ras-uncorrectable"),
    }
    for name, (text, event) in cases.items():
        a = m.unhang.explain_text(text)
        m.t.ok(a.incidents and a.first.cls == "ras-uncorrectable-error" and a.first.events(event), f"{name} is read", str(a.document)[:300])
    killed = m.unhang.explain_text(lines(dev + "RAS poison consumption, unmap queue flow succeeded: client id 0x1b", dev + "Send SIGBUS to process python3:4242(pasid:32770)"))
    m.t.ok(killed.first.cls == "ras-uncorrectable-error" and "python3" in json.dumps(killed.first.data["processes"]), "poison that killed a job names both", str(killed.first.data["processes"]))


def test_returned(m):
    """The same serial number fails again: only after an operator powered it off and on that means a replacement."""
    error = WELL + "messages\n    999.5 err amdgpu 0000:05:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    for name, closed, service in (("nobody closed it", "the machine was started again", "cold-restart"), ("an operator powered it off", "an operator: powered off and on", "replace"),
                                  ("an operator closed it", "an operator", "cold-restart"), ("it was a false alarm", "an operator: false alarm, nothing was done", "cold-restart"),
                                  ("its serial number is none", "an operator: powered off and on", None), ("it was another module", "an operator: powered off and on", None)):
        w = watched.Machine(m.unhang, "returned-" + re.sub("[^a-z]", "-", name), error.replace("gfx942\n", "gfx942\n    sysfs serial_number 0000000000000000\n") if "none" in name else error)
        w.configure("quiet 3600")
        w.once()
        first = w.incidents()[0]
        record = w.directory(first) / "incident"
        text = record.read_text().replace(first["boot_id"], "0" * 32).replace("state open", "state closed").replace(first["id"], "0123456789abcdef")
        if "another" in name:
            text = re.sub("(?m)^unique_id .*", "unique_id 0xabc", text)
        other = record.parent.parent / "0123456789abcdef"
        other.mkdir()
        (other / "incident").write_text(re.sub("(?m)^closed_by .*\n", "", text) + f"closed_by {closed}\n")
        for path in record.parent.iterdir():
            path.unlink()
        record.parent.rmdir()
        (w.top / "state" / "place").unlink(missing_ok=True)
        w.once()
        again = next((i for i in w.incidents() if i["id"] != "0123456789abcdef"), None)
        said = json.loads((w.directory(again) / "diagnosis.json").read_text()) if again else {}
        h = said["incidents"][0]["hardware"] if again else {}
        m.t.same((h.get("earlier"), h.get("earlier_incident"), h.get("service"), (again or {}).get("action")),
                 (1, "0123456789abcdef", service, "replace" if service == "replace" else "power-cycle") if service else (None, None, h.get("service"), "power-cycle"), f"the module failed before, and {name}")


def test_watch(m):
    """The counters rise, and the log has no line: the watch opens an incident, saves the evidence and explains it, of this GPU and no job."""
    later = counted(1, 0, 1).replace("event_state ", "event_state from 2 ")
    w = watched.Machine(m.unhang, "counters", WELL + counted() + later)
    told = w.until(f"grep -q explained {w.top}/out")
    i = (w.incidents() or [{}])[0]
    m.t.same((watched.words(told)[:2], len(w.incidents()), i.get("origin"), i.get("class"), i.get("bundle")), (["opened", "explained"], 1, "counters", "ras-uncorrectable-error", "taken"),
             "counters rise without a line: an incident, captured and explained")
    m.t.same((i.get("job"), i.get("action"), (i.get("gpu") or {}).get("pci")), (None, "power-cycle", A), "it is of the GPU, and of no job")
    said = json.loads((w.directory(i) / "diagnosis.json").read_text())["incidents"][0] if i else {}
    m.t.same(([g["pci"] for g in said.get("gpus", [])], said.get("processes"), (said.get("hardware") or {}).get("serial")), ([A], [], (i.get("gpu") or {}).get("serial")),
             "what other jobs recorded before is not its effect")


def test_trend(m):
    """Corrected errors are counted by serial number, block and day, each once; a live answer tells their rate, and they are no incident."""
    lines = "messages\n" + "".join(f"    {990 + n} info amdgpu {A}: amdgpu: socket: 0, die: 1, {count} new correctable hardware errors detected in {block} block\n"
                                  for n, (count, block) in enumerate(((3, "umc"), (4, "umc"), (2, "gfx"))))
    w = watched.Machine(m.unhang, "trend", WELL + lines)
    w.configure("quiet 1\ncapture no")
    kept = w.top / "state" / "corrected"
    told = [w.until(f"grep -q . {w.top}/state/place && grep -q {A} {w.top}/run/state.json", first=f"rm -f {w.top}/run/state.json") for _ in range(2)]
    rows = sorted(line.split() for line in kept.read_text().splitlines()) if kept.exists() else []
    serial = w.state()["gpus"][0]["serial"]
    m.t.same((sorted(row[1:] for row in rows), watched.words(told[0]), w.incidents()), ([["2", serial, "gfx"], ["7", serial, "umc"]], [], []),
             "trend: by serial number and block, once also where the watch begins again, and no incident")
    today = int(rows[0][0]) if rows else 0
    kept.write_text("".join(f"{today - back} {n} {name} umc\n" for back, n, name in ((0, 7, serial), (8, 100, serial), (300, 1000, serial), (1, 5, "other-card"))))
    script = f"mount -t tmpfs none /var/lib && mkdir /var/lib/unhang && mount --bind {w.top}/state /var/lib/unhang; {m.unhang.binary} --json"
    run = m.unhang.run("emulate", m.write(WELL), "--", "sh", "-c", script)
    said = json.loads(run.stdout)
    notes = [n for n in said["notes"] if n["event"] == "corrected-errors"]
    h = notes[0]["hardware"] if notes else {}
    m.t.no_complaints([str(e.message) for e in emulated.validator("diagnosis").iter_errors(said)][:3], "trend: the document is well-formed")
    m.t.same((len(notes), h.get("serial"), h.get("block"), h.get("count"), h.get("week"), h.get("week_before"), h.get("service"), run.returncode, said["incidents"]),
             (1, serial, "umc", 1107, 7, 100, "watch", 0, []), "trend: told with its rate, of this module only")
    both = json.loads(m.unhang.run("emulate", m.write(WELL + lines), "--", "sh", "-c", script).stdout)
    text = " ".join(n["text"] for n in both["notes"] if "umc" in n["text"])
    m.t.ok(f"(serial {serial}) in umc: 7" in text and "The watch has counted 1107, 7 of them in the last 7 days and 100 in the 7 days before" in text, "trend: beside what the log tells", text)
    kept.write_text(f"{today} 7 {serial} umc\nnot a row\n")
    w.until("sleep 1")
    m.t.ok(json.loads(m.unhang.run("emulate", m.write(WELL), "--", "sh", "-c", script).stdout)["incidents"] == [], "trend: a file that is cut off harms nothing")


def main():
    unhang, t = tap.Unhang(sys.argv[1]), tap.Tap()
    if not emulated.possible(unhang):
        t.skip("hardware errors, live", "no emulated machine can be made here")
        t.end()
        return
    m = Machines(t, unhang)
    for test in (test_counters, test_hive, test_throttle, test_links, test_kept, test_files, test_incident, test_returned, test_kernel_events, test_watch, test_trend):
        test(m)
    t.end()


main()
