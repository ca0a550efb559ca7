#!/usr/bin/env python3
"""One incident in every form in which people have kernel logs: the diagnosis must not depend on the form.

The incident is written once, as (time, text) in the driver's formats; a form is a function that writes it down and
says at which line of the file each message stands.
"""
import bz2
import datetime
import gzip
import io
import json
import lzma
import sys
import tarfile
import textwrap
import zipfile

import tap

GPU = "0000:2f:00.0"
BOOTED = datetime.datetime(2026, 7, 24, 0, 0, 0)
BEGIN = 45755.103456  # of the incident, on the kernel's clock: 12:42:35
BOOT_IDS = ("0f1e2d3c4b5a69788796a5b4c3d2e1f0", "11112222333344445555666677778888", "9999aaaabbbbccccddddeeeeffff0000")


class Message:
    def __init__(self, time, text, key=None, priority=3):
        self.time, self.text, self.key, self.priority = time, text, key, priority
        self.device = None

    def wall(self):
        return BOOTED + datetime.timedelta(seconds=self.time)


def boot_part(device=GPU, revision="0xC8"):
    d = f"amdgpu {device}: "
    return [
        Message(0.0, "Linux version 6.12.48+deb13-amd64 (builder@host) (gcc (Debian 14.2.0-19) 14.2.0) #1 SMP", priority=5),
        Message(0.0, "Command line: BOOT_IMAGE=/vmlinuz-6.12.48+deb13-amd64 root=/dev/nvme0n1p2 ro quiet iommu=pt", priority=6),
        Message(3.104277, "[drm] amdgpu kernel modesetting enabled.", priority=6),
        Message(3.110032, d + "enabling device (0006 -> 0007)", priority=6),
        Message(3.110391, d + f"amdgpu: initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 {revision}).", priority=6),
        Message(3.912554, d + "amdgpu: SMU is initialized successfully!", priority=6),
        Message(4.120031, "[drm] Initialized amdgpu 3.61.0 for " + device + " on minor 1", priority=6),
    ]


class Incident:
    """What happened, and what must be said of it."""

    def __init__(self, device=GPU, process="python", pid=4242, address=0x7f3a00001000, vmid=6, begin=BEGIN, doorbell=0x1202):
        self.device, self.process, self.pid, self.address, self.begin = device, process, pid, address, begin
        self.status = vmid << 20 | 0x1031  # MORE_FAULTS, PERMISSION_FAULTS 3, client 8, read
        d = f"amdgpu {device}: amdgpu: "
        rows = [
            (0.0, "fault", d + f"[gfxhub] page fault (src_id:0 ring:40 vmid:{vmid} pasid:32771)"),
            (0.000011, "who", d + f" in process {process} pid {pid} thread {process} pid {pid})"),
            (0.000016, "where", d + f"  in page starting at address 0x{address:016x} from client 10"),
            (0.000021, "status", d + f"GCVM_L2_PROTECTION_FAULT_STATUS:0x{self.status:08X}"),
            (0.000026, "client", d + "\t Faulty UTCL2 client ID: TCP (0x8)"),
            (0.000031, "more", d + "\t MORE_FAULTS: 0x1"),
            (0.000036, "walker", d + "\t WALKER_ERROR: 0x0"),
            (0.000041, "permission", d + "\t PERMISSION_FAULTS: 0x3"),
            (0.000046, "mapping", d + "\t MAPPING_ERROR: 0x0"),
            (0.000051, "rw", d + "\t RW: 0x0"),
            (7.546002, "mes", d + "MES failed to respond to msg=REMOVE_QUEUE"),
            (7.546025, "queue", d + f"failed to remove hardware queue from MES, doorbell=0x{doorbell:x}"),
            (7.546031, "lost", d + "MES might be in unrecoverable state, issue a GPU reset"),
            (7.546088, "evict", d + "Failed to evict queue 1"),
            (7.551377, "begin", d + "GPU reset begin!"),
            (10.612204, "mes2", d + "MES failed to respond to msg=REMOVE_QUEUE"),
            (11.310118, "soft", d + "soft reset failed, will fallback to full reset!"),
            (11.310170, "method", d + "MODE1 reset"),
            (11.310174, "mode1", d + "GPU mode1 reset"),
            (11.310203, "smu", d + "GPU smu mode1 reset"),
            (11.420555, "zero", d + "[gfxhub] page fault (src_id:0 ring:24 vmid:0 pasid:0)"),
            (11.420561, "zero2", d + "  in page starting at address 0x0000000000000000 from client 10"),
            (11.420566, "zero3", d + "GCVM_L2_PROTECTION_FAULT_STATUS:0x00000000"),
            (11.830002, "resume", d + "GPU reset succeeded, trying to resume"),
            (12.204410, "done", d + "GPU reset(2) succeeded!"),
            (12.913322, "context", "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Failed to initialize parser -125!"),
        ]
        self.messages = [Message(begin + offset, text, key, 6 if key in ("begin", "soft", "method", "mode1", "smu", "resume", "done") else 3)
                         for offset, key, text in rows]
        for message in self.messages:
            message.device = device
        self.duration = rows[-1][0]

    def timeline(self):
        """Event, role, and the message at which it stands. A message that is counted into an earlier event has no row."""
        return [("page-fault", "cause", "fault"), ("mes-timeout", "effect", "mes"), ("mes-queue-failed", "effect", "queue"),
                ("mes-unrecoverable", "effect", "lost"), ("queue-eviction-failed", "effect", "evict"),
                ("reset-begin", "effect", "begin"), ("mes-timeout", "effect", "mes2"), ("soft-reset-failed", "effect", "soft"),
                ("reset-method", "effect", "method"), ("page-fault", "artefact", "zero"),
                ("reset-hardware-done", "effect", "resume"), ("reset-succeeded", "effect", "done"),
                ("context-lost", "effect", "context")]

    def facts(self):
        """Name, value, the event's row in the timeline, and the message in which it is read."""
        return [("process", self.process, 0, "who"), ("pid", self.pid, 0, "who"), ("vmid", self.status >> 20, 0, "fault"),
                ("fault_address", f"{self.address:#x}", 0, "where"), ("fault_status", f"{self.status:#x}", 0, "status"),
                ("fault_client", "TCP", 0, "client"), ("permission_faults", "0x3", 0, "permission"), ("rw", "read", 0, "rw"),
                ("mes_message", "REMOVE_QUEUE", 1, "mes"), ("reset_method", "MODE1", 8, "method"),
                ("reset_outcome", "succeeded", 11, "done"), ("pci", self.device, 0, "fault")]


class Form:
    """A written log and where its messages stand in it."""

    def __init__(self, data, lines):
        self.data = data.encode() if isinstance(data, str) else data
        self.lines = lines  # of the messages, in their order


def written(messages, write, before=(), after=()):
    """@write turns a message into one or several lines."""
    out, lines = list(before), []
    for message in messages:
        lines.append(len(out) + 1)
        rows = write(message)
        out += [rows] if isinstance(rows, str) else rows
    out += list(after)
    return Form("\n".join(out) + "\n", lines)


# --- the forms: each takes a message and gives its line ---

def raw(m):
    return f"[{m.time:12.6f}] {m.text}"


def decimal_comma(m):
    return raw(m).replace(".", ",", 1)


MONTHS = {
    "English": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "Czech": "led úno bře dub kvě čen čec srp zář říj lis pro",
    "German": "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
    "French": "janv. févr. mars avril mai juin juil. août sept. oct. nov. déc.",
    "Polish": "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "Russian": "янв фев мар апр мая июн июл авг сен окт ноя дек",
}
DAYS = {
    "English": "Mon Tue Wed Thu Fri Sat Sun", "Czech": "Po Út St Čt Pá So Ne", "German": "Mo Di Mi Do Fr Sa So",
    "French": "lun. mar. mer. jeu. ven. sam. dim.", "Polish": "pon wto śro czw pią sob nie", "Russian": "Пн Вт Ср Чт Пт Сб Вс",
}


def ctime(wall, language="English"):
    return (f"{DAYS[language].split()[wall.weekday()]} {MONTHS[language].split()[wall.month - 1]} {wall.day:2} "
            f"{wall:%H:%M:%S} {wall.year}")


def short(wall, language="English"):
    return f"{MONTHS[language].split()[wall.month - 1]} {wall.day:02} {wall:%H:%M:%S}"


def human(comma=False):
    """dmesg -H: the minute where it changes, else the difference to the line before."""
    last = [None]

    def write(m):
        wall, before = m.wall(), last[0]
        last[0] = wall
        if before is None or (before.hour, before.minute) != (wall.hour, wall.minute):
            return f"[{wall:%b%d %H:%M}] {m.text}"
        delta = f"+{(wall - before).total_seconds():.6f}"
        return f"[{delta.replace('.', ',') if comma else delta:>11}] {m.text}"
    return write


def micro(m):
    return round(m.time * 1e6)


def epoch(m):
    return (m.wall() - datetime.datetime(1970, 1, 1)).total_seconds()


def journal_json(m, boot=BOOT_IDS[0]):
    return json.dumps({"__CURSOR": "s=1;i=2", "__REALTIME_TIMESTAMP": str(round(epoch(m) * 1e6)),
                       "__MONOTONIC_TIMESTAMP": str(micro(m) + 40), "_BOOT_ID": boot, "_TRANSPORT": "kernel",
                       "PRIORITY": str(m.priority), "SYSLOG_IDENTIFIER": "kernel", "_HOSTNAME": "box",
                       "_SOURCE_MONOTONIC_TIMESTAMP": str(micro(m)), "MESSAGE": m.text})


def journal_export(messages):
    out, lines = [], []
    for m in messages:
        out += [f"__CURSOR=s=1;i={micro(m):x}", f"__REALTIME_TIMESTAMP={round(epoch(m) * 1e6)}",
                f"__MONOTONIC_TIMESTAMP={micro(m)}", f"_BOOT_ID={BOOT_IDS[0]}", "_TRANSPORT=kernel", f"PRIORITY={m.priority}",
                "SYSLOG_IDENTIFIER=kernel", f"MESSAGE={m.text}", "_HOSTNAME=box", ""]
        lines.append(len(out) - 2)
    return Form("\n".join(out) + "\n", lines)


def kmsg(m):
    return [f"{m.priority},{micro(m) // 1000},{micro(m)},-;" + m.text.replace("\t", "\\x09"), " SUBSYSTEM=pci", f" DEVICE=+pci:{GPU}"]


def freebsd(m):
    text = m.text
    for old, new in ((f"amdgpu {GPU}: amdgpu: ", "drmn0: "), (f"amdgpu {GPU}: ", "drmn0: "),
                     ("[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* ", "[drm ERROR :amdgpu_cs_ioctl] ")):
        text = text.replace(old, new)
    return f"{short(m.wall())} box kernel: {text}"


def colours(m):
    head, colon, tail = m.text.partition(": ")
    return f"\x1b[32m[{m.time:12.6f}] \x1b[0m\x1b[33m{head}{colon}\x1b[0m\x1b[31m{tail}\x1b[0m"


def mid_word(write, width=80):
    def wrap(m):
        line = write(m)
        return [line[at:at + width].rstrip() for at in range(0, len(line), width)]
    return wrap


def at_spaces(write, width=80, indent=""):
    def wrap(m):
        return textwrap.wrap(write(m), width, break_long_words=False, break_on_hyphens=False, expand_tabs=False,
                             replace_whitespace=False, subsequent_indent=indent)
    return wrap


UNRELATED = [
    "systemd[1]: Started session-12.scope - Session 12 of User ada.",
    "usb 1-4: new high-speed USB device number 9 using xhci_hcd",
    'audit: type=1400 audit(1784896955.101:77): apparmor="DENIED" operation="open" profile="snap.x" pid=991 comm="x"',
    "wlp3s0: authenticate with 02:00:00:00:01:00 (local address=02:00:00:00:02:00)",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in Xorg [900]",
    "nvme nvme0: I/O tag 12 (100c) QID 5 timeout, completion polled",
]


def with_unrelated(messages):
    out, lines = [], []
    for number, m in enumerate(messages):
        out.append(f"{short(m.wall())} box kernel: [{m.time:12.6f}] {UNRELATED[number % len(UNRELATED)]}")
        out.append(f"{short(m.wall())} box kernel: [{m.time:12.6f}] {m.text}")
        lines.append(len(out))
        out.append(f"{short(m.wall())} box NetworkManager[812]: <info>  [1784896955.1] device (eth0): carrier: link connected")
    return Form("\n".join(out) + "\n", lines)


def backwards(form):
    """The file with its lines in reverse."""
    lines = form.data.decode().splitlines()
    return Form("\n".join(reversed(lines)) + "\n", [len(lines) + 1 - line for line in form.lines])


def each_line(form, change):
    return Form("".join(change(line) for line in form.data.decode().splitlines()), form.lines)


def fenced(form, before, after):
    return Form(("\n".join(before) + "\n").encode() + form.data + ("\n".join(after) + "\n").encode(),
                [line + len(before) for line in form.lines])


# --- what is checked ---

def check(incident, found, form, precision=0.001, has_time=True, knows_boot=True, device=True, offset=0, rows=1):
    """Complaints about one incident of an answer. In wrapped forms a message takes up to @rows lines, and stands in the one
    that holds its first word behind the prefix."""
    wrong = []
    where = {m.key: form.lines[offset + n] for n, m in enumerate(incident.messages)}

    def stands(what, line, key):
        if not where[key] <= line < where[key] + rows:
            wrong.append(f"{what} stands in line {where[key]}, not {line}")

    def same(what, got, wanted):
        if got != wanted:
            wrong.append(f"{what}: {got!r}, not {wanted!r}")

    same("class", found.cls, "gpu-page-fault-unmapped")
    wanted = incident.timeline()
    same("roles", found.roles, [(event, role) for event, role, _ in wanted])
    if found.roles == [(event, role) for event, role, _ in wanted]:
        for event, (_, _, key) in zip(found.timeline, wanted):
            stands(event["event"], event["at"]["line"], key)
        for name, value, row, key in incident.facts():
            facts = [f for f in found.data["facts"] if f["name"] == name and f["event"] == row + 1]
            if name == "pci" and not device:
                same("pci", found.values("pci"), [])
                continue
            same(name, [f["value"] for f in facts], [value])
            if facts:
                stands(name, facts[0]["at"]["line"], key)
    gpu = found.data["gpus"][0] if found.data["gpus"] else {"pci": None, "gfx": None, "name": None}
    same("gpu", gpu["pci"], incident.device if device else None)
    if knows_boot:
        same("part", (gpu["gfx"], gpu["name"]), ("gfx1100", "Radeon RX 7900 XTX"))
        same("kernel", found.value("kernel"), "6.12.48+deb13-amd64")
    times = [e["time"] for e in found.timeline]
    if not has_time:
        same("begin", found.data["begin"], None)
    elif None in times or times != sorted(times):
        wrong.append(f"times {times}")
    elif found.duration is None or abs(found.duration - incident.duration) > precision:
        wrong.append(f"duration {found.duration}, not {incident.duration} within {precision}")
    if found.cause["before_log"]:
        wrong.append("it says that the cause is earlier than the log")
    return wrong


def forms():
    """Name, form, and what of the usual expectations this form cannot meet."""
    incident = Incident()
    boot = boot_part()
    log = boot + incident.messages
    second = dict(precision=1.001)
    yield "dmesg", written(log, raw), {}
    yield "dmesg without the boot", Form(written(incident.messages, raw).data, [0] * len(boot) + written(incident.messages, raw).lines), dict(knows_boot=False)
    yield "dmesg --raw", written(log, lambda m: f"<{m.priority}>{raw(m)}"), {}
    yield "dmesg --decode", written(log, lambda m: f"kern  :{'err' if m.priority == 3 else 'info':<6}: {raw(m)}"), {}
    yield "dmesg with printk's callers", written(log, lambda m: f"[{m.time:12.6f}] [  T{4200 + m.priority}] {m.text}"), {}
    yield "dmesg with printk's CPUs", written(log, lambda m: f"[{m.time:12.6f}][    C{m.priority}] {m.text}"), {}
    yield "dmesg with decimal commas", written(log, decimal_comma), {}
    for language in MONTHS:
        yield f"dmesg -T, {language}", written(log, lambda m, l=language: f"[{ctime(m.wall(), l)}] {m.text}"), second
        yield f"journalctl, {language}", written(log, lambda m, l=language: f"{short(m.wall(), l)} box kernel: {m.text}"), second
    yield "dmesg -H", written(log, human()), dict(precision=60)
    yield "dmesg -H with decimal commas", written(log, human(True)), dict(precision=60)
    yield "dmesg -d", delta_form(log), {}
    yield "dmesg --time-format iso", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S},{m.wall().microsecond:06}+02:00 {m.text}"), {}
    yield "dmesg -t", written(log, lambda m: m.text), dict(has_time=False)
    yield "/dev/kmsg", written(log, kmsg), {}
    yield "journalctl -o short", written(log, lambda m: f"{short(m.wall())} box kernel: {m.text}"), second
    yield "journalctl -o short-precise", written(log, lambda m: f"{short(m.wall())}.{m.wall().microsecond:06} box kernel: {m.text}"), {}
    yield "journalctl -o short-iso", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S}+0200 box kernel: {m.text}"), second
    yield "journalctl -o short-iso, newer", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S}+02:00 box kernel: {m.text}"), second
    yield "journalctl -o short-iso-precise", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S.%f}+02:00 box kernel: {m.text}"), {}
    yield "journalctl -o short-full", written(log, lambda m: f"{m.wall():%a %Y-%m-%d %H:%M:%S} CEST box kernel: {m.text}"), second
    yield "journalctl -o short-monotonic", written(log, lambda m: f"[{m.time:12.6f}] box kernel: {m.text}"), {}
    yield "journalctl -o short-unix", written(log, lambda m: f"{epoch(m):.6f} box kernel: {m.text}"), {}
    yield "journalctl -o short-delta", written(log, lambda m: f"[{m.time:12.6f} <    0.000011 >] box kernel: {m.text}"), {}
    yield "journalctl -o cat", written(log, lambda m: m.text), dict(has_time=False)
    yield "journalctl -o json", written(log, journal_json), {}
    yield "journalctl -o export", journal_export(log), {}
    yield "rsyslog with the kernel's stamps", written(log, lambda m: f"{short(m.wall())} box kernel: {raw(m)}"), {}
    yield "rsyslog, ISO times", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S.%f}+02:00 box kernel: {raw(m)}"), {}
    yield "Kubernetes", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S.%f}789Z stderr F {raw(m)}"), {}
    yield "Kubernetes, its times only", written(log, lambda m: f"{m.wall():%Y-%m-%dT%H:%M:%S.%f}789Z stdout F {m.text}"), {}
    yield "Docker's json-file", written(log, lambda m: json.dumps({"log": raw(m) + "\n", "stream": "stderr", "time": f"{m.wall():%Y-%m-%dT%H:%M:%S.%f}Z"})), {}
    yield "JSON of a log collector", written(log, lambda m: json.dumps({"level": "error", "ts": epoch(m), "message": raw(m), "host": {"name": "box"}})), {}
    yield "FreeBSD", written(incident.messages, freebsd), dict(precision=1.001, knows_boot=False, device=False, no_boot=True)
    for name, write in (("dmesg", raw), ("journalctl", lambda m: f"{short(m.wall())} box kernel: {m.text}")):
        precision = dict(rows=3, **({} if name == "dmesg" else second))
        yield f"{name}, wrapped at 80 columns", written(log, mid_word(write)), precision
        yield f"{name}, wrapped at 60 columns", written(log, mid_word(write, 60)), precision
        yield f"{name}, wrapped at spaces", written(log, at_spaces(write)), precision
        yield f"{name}, wrapped at spaces and indented", written(log, at_spaces(write, 72, "    ")), precision
    yield "quoted", each_line(written(log, raw), lambda line: f"> {line}\n"), {}
    yield "quoted twice", each_line(written(log, raw), lambda line: f"> > {line}\n"), {}
    yield "quoted and wrapped", each_line(written(log, at_spaces(raw, 76)), lambda line: f"> {line}\n"), dict(rows=3)
    yield "indented", each_line(written(log, raw), lambda line: f"    {line}\n"), {}
    yield "in a fence", fenced(written(log, raw), ["# My GPU hangs", "", "Here is my dmesg:", "```"], ["```", "Any ideas?"]), {}
    yield "in a fence, on one line with it", each_line(written(log, raw), lambda line: f"`{line}`\n"), {}
    yield "in colours", written(log, colours), {}
    yield "in journalctl's colours", written(log, lambda m: f"{short(m.wall())} box kernel: \x1b[0;1;31m{m.text}\x1b[0m"), second
    yield "with CRLF", each_line(written(log, raw), lambda line: f"{line}\r\n"), {}
    yield "with a byte order mark", Form(b"\xef\xbb\xbf" + written(log, raw).data, written(log, raw).lines), {}
    yield "backwards", backwards(written(log, raw)), {}
    yield "backwards, whole seconds", backwards(written(log, lambda m: f"[{ctime(m.wall())}] {m.text}")), second
    yield "backwards, the incident alone, whole seconds", backwards(Form(written(incident.messages, lambda m: f"{short(m.wall())} box kernel: {m.text}").data,
          [0] * len(boot) + written(incident.messages, raw).lines)), dict(precision=1.001, knows_boot=False)
    yield "between unrelated lines", with_unrelated(log), {}


def delta_form(messages):
    """dmesg -d: [    3.104277 <    0.000000>]"""
    last = [0.0]

    def write(m):
        delta, last[0] = m.time - last[0], m.time
        return f"[{m.time:12.6f} <{delta:12.6f}>] {m.text}"
    return written(messages, write)


def test_forms(t, unhang):
    incident, boot = Incident(), boot_part()
    for name, form, options in tap.some(unhang, forms()):
        options = dict(options)
        offset = 0 if options.pop("no_boot", False) else len(boot)
        answer = unhang.explain_text(form.data)
        wrong = answer.complaints + [f"{len(answer.incidents)} incidents: {answer.classes}"] * (len(answer.incidents) != 1)
        t.no_complaints(wrong + check(incident, answer.first, form, offset=offset, **options), name)


def test_equal_seconds(t, unhang):
    """All of it in one second: only the order in which the driver prints its lines says that it is backwards."""
    incident = Incident()
    first = incident.messages[:10]
    for m in first:
        m.time = BEGIN
    form = written(first, lambda m: f"[{ctime(m.wall())}] {m.text}")
    for name, form in (("one second", form), ("one second, backwards", backwards(form))):
        answer = unhang.explain_text(form.data)
        found = answer.first
        t.no_complaints(answer.complaints, f"{name}: well-formed")
        t.same([(e["event"], e["role"], e["at"]["line"]) for e in found.timeline], [("page-fault", "cause", form.lines[0])], f"{name}: one fault, at its first line")
        t.same([found.value(n) for n in ("process", "fault_address", "rw")], ["python", "0x7f3a00001000", "read"], f"{name}: facts")


def test_two_gpus(t, unhang):
    one = Incident()
    two = Incident("0000:43:00.0", "llama-server", 777, 0x7e1200004000, 3, BEGIN + 0.4, 0x2300)
    boot = boot_part() + [Message(m.time + 0.5, m.text, None, m.priority) for m in boot_part("0000:43:00.0")[3:6]]
    both = sorted(one.messages + two.messages, key=lambda m: m.time)
    for name, write in (("dmesg", raw), ("wrapped", mid_word(raw)), ("colours", colours)):
        form = written(boot + both, write)
        where = {id(m): line for m, line in zip(boot + both, form.lines)}
        answer = unhang.explain_text(form.data)
        by_gpu = {i.data["gpus"][0]["pci"]: i for i in answer.incidents}
        t.no_complaints(answer.complaints, f"two GPUs, {name}: well-formed")
        t.same(sorted(i.data["gpus"][0]["pci"] for i in answer.incidents), [one.device, two.device], f"two GPUs, {name}: two incidents")
        for incident in (one, two):
            found = by_gpu.get(incident.device, tap.Incident(tap.NOTHING))
            t.same(found.cls, "gpu-page-fault-unmapped", f"two GPUs, {name}: class on {incident.device}")
            t.same({n: sorted(set(map(str, found.values(n)))) for n in ("process", "pid", "pci", "doorbell")},
                   {"process": [incident.process], "pid": [str(incident.pid)], "pci": [incident.device],
                    "doorbell": ["0x1202" if incident is one else "0x2300"]}, f"two GPUs, {name}: facts of {incident.device} do not mix")
            t.same(found.values("fault_address", 1), [f"{incident.address:#x}"], f"two GPUs, {name}: address on {incident.device}")
            t.same(found.values("fault_status", 1), [f"{incident.status:#x}"], f"two GPUs, {name}: status on {incident.device}")
            lines = {where[id(m)] for m in incident.messages} | {where[id(m)] for m in both if m.key == "context"}
            strangers = [e["at"]["line"] for e in found.timeline if e["at"]["line"] not in lines]
            t.same(strangers, [], f"two GPUs, {name}: events of {incident.device} are its own")


def test_boots(t, unhang):
    incidents = [Incident(), Incident(pid=5151, address=0x7aaa00002000, begin=300.25),
                 Incident(process="blender", pid=1717, address=0x7bbb00003000, begin=BEGIN + 4)]

    def in_order(answer):
        return sorted(answer.incidents, key=lambda i: i.timeline[0]["at"]["line"])

    ways = {
        "dmesg after dmesg": (lambda n: raw, True, lambda n: []),
        "dmesg after dmesg without the boots' messages": (lambda n: raw, False, lambda n: []),
        "journalctl with -- Boot --": (lambda n: lambda m: f"{short(m.wall())} box kernel: {m.text}", True, lambda n: [f"-- Boot {BOOT_IDS[n]} --"]),
        "journalctl with -- Reboot --": (lambda n: lambda m: f"[{m.time:12.6f}] box kernel: {m.text}", False, lambda n: ["-- Reboot --"] * (n > 0)),
        "journalctl -o json": (lambda n: lambda m: journal_json(m, BOOT_IDS[n]), False, lambda n: []),
    }
    for count in (2, 3):
        for name, (write, with_boot, heading) in ways.items():
            out, lines = [], []
            for number, incident in enumerate(incidents[:count]):
                out += heading(number)
                messages = (boot_part() if with_boot else []) + incident.messages
                form = written(messages, write(number))
                lines.append([len(out) + line for line in form.lines[len(messages) - len(incident.messages):]])
                out += form.data.decode().splitlines()
            answer = unhang.explain_text("\n".join(out) + "\n")
            wrong = list(answer.complaints)
            if len(answer.incidents) != count:
                wrong.append(f"{len(answer.incidents)} incidents: {answer.classes}")
            for number, (incident, found) in enumerate(zip(incidents, in_order(answer))):
                wrong += [f"boot {number + 1}: {w}" for w in
                          check(incident, found, Form("", lines[number]), precision=1.001, knows_boot=with_boot)]
            if "json" in name and [i.data["boot_id"] for i in in_order(answer)] != list(BOOT_IDS[:count]):
                wrong.append(f"boot ids {[i.data['boot_id'] for i in in_order(answer)]}")
            t.no_complaints(wrong, f"{count} boots in one file: {name}")


def test_containers(t, unhang):
    """Archives, compressed files, directories, standard input."""
    incident, boot = Incident(), boot_part()
    form = written(boot + incident.messages, raw)

    def tar(mode, data=form.data, name="var/log/dmesg"):
        room = io.BytesIO()
        with tarfile.open(fileobj=room, mode=mode) as archive:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        return room.getvalue()

    def old_tar(name, wrong=0, digits=b"%6o\0 "):
        """Without a magic, which only its sum tells from other files."""
        data = bytearray(tar("w", name=name))
        data[257:512] = bytes(255)
        data[148:156] = b" " * 8
        data[148:156] = (digits % (sum(data[:512]) + wrong)).ljust(8)
        return gzip.compress(bytes(data))

    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dmesg.txt", form.data)
    answers = [(name, unhang.explain_text(data, name)) for name, data in (
        ("log.gz", gzip.compress(form.data)), ("log.xz", lzma.compress(form.data)), ("log.bz2", bz2.compress(form.data)),
        ("log.tar", tar("w")), ("log.tar.gz", tar("w:gz")), ("log.tar.xz", tar("w:xz")), ("log.zip", zipped.getvalue()),
        ("log.gz in a tar", tar("w", gzip.compress(form.data))), ("a tar.xz in a tar.gz", tar("w:gz", tar("w:xz"))),
        ("a packed tar without a magic", old_tar("dmesg")), ("and with a name of one letter", old_tar("d")), ("and with a sum that begins with zeros", old_tar("d", digits=b"%06o\0 ")))]
    unhang.write("folder/sub/kern.log", form.data)
    answers += [("a directory", unhang.explain(unhang.directory / "folder")), ("standard input", unhang.explain("-", stdin=form.data))]
    for name, answer in answers:
        wrong = answer.complaints + [f"{len(answer.incidents)} incidents, {answer.stderr}"] * (len(answer.incidents) != 1)
        wrong += check(incident, answer.first, form, offset=len(boot))
        sources = [(s["bytes"], s["lines"], s["kind"]) for s in answer.document["sources"]]
        if sources != [(len(form.data), form.data.count(b"\n"), "kernel-log")]:
            wrong.append(f"sources {sources}")
        t.no_complaints(wrong, name)
    for name, data in (("one more", old_tar("d", 1)), ("one less", old_tar("d", -1)), ("no sum", old_tar("d", digits=b"x%o"))):
        said = [s["bytes"] for s in unhang.explain_text(data, "odd.tar.gz").document["sources"]]
        t.ok(len(form.data) not in said, f"what has another sum is no tar: {name}", said)


def test_large(t, unhang):
    """In files that are scanned by several threads in windows, at every distance from their borders."""
    incident, boot = Incident(), boot_part()
    filler = "[    5.000000] usb 1-4: new high-speed USB device number 9 using xhci_hcd; nothing of interest here"
    for megabytes, wrap in ((1, None), (3, None), (3, mid_word(raw))):
        count = megabytes * 1000000 // (len(filler) + 1)
        head = written(boot, raw).data.decode().splitlines() + [filler] * count
        form = written(incident.messages, wrap or raw, before=head, after=["[46000.000000] wlan0: deauthenticated"] * 1000)
        answer = unhang.explain_text(form.data)
        wrong = answer.complaints + [f"{len(answer.incidents)} incidents"] * (len(answer.incidents) != 1)
        t.no_complaints(wrong + check(incident, answer.first, form, rows=2 if wrap else 1),
                        f"behind {megabytes} MB of other lines" + (", wrapped" if wrap else ""))
    # The borders of windows lie at multiples of 256 KiB: let one fall on each line of the incident in turn.
    size = len(written(incident.messages, raw).data)
    for shift in range(0, size, 211):
        room = 2 * 256 * 1024 - shift
        lines = written(boot, raw).data.decode().splitlines()
        length = sum(map(len, lines)) + len(lines)
        while length + 2 * (len(filler) + 1) < room:
            lines.append(filler)
            length += len(filler) + 1
        lines.append("x" * (room - length - 1))
        form = written(incident.messages, raw, before=lines, after=[filler] * 4000)
        answer = unhang.explain_text(form.data)
        wrong = answer.complaints + [f"{len(answer.incidents)} incidents"] * (len(answer.incidents) != 1)
        t.no_complaints(wrong + check(incident, answer.first, form), f"{shift} bytes before the border of a window")


def test_borrowed_times(t, unhang):
    """A program's error without a time happened after the last line with one, up to 100 lines before, whatever was read in between."""
    head = "2026-04-02 10:00:01.000 INFO server: loaded model\n2026-04-02 10:00:05.250 INFO server: step 1\n"
    frames = "".join(f"  frame {n} of a program\n" for n in range(6))
    kernel = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n"
    memory = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
    for name, text, wanted in (("alone", frames + memory, [True]), ("behind a line of the kernel's without a time, which has none", frames + kernel + frames + memory, [False, True]),
                               ("behind another", frames + memory + frames + memory.replace("2.00", "3.00"), [True, True]), ("behind 120 lines", frames * 20 + memory, [False])):
        i = unhang.explain_text(head + text).first
        t.same([e["time"] for e in i.timeline], [1775124005.25 if known else None for known in wanted], f"a time that is borrowed: {name}")


def test_months(t, unhang):
    """Every month in every language, at the beginning of the month, on a Tuesday (French `mar.` is no March)."""
    for language in MONTHS:
        wrong = []
        for month in tap.some(unhang, range(1, 13), 6):
            day = next(d for d in range(1, 8) if datetime.date(2025, month, d).weekday() == 1)
            wall = datetime.datetime(2025, month, day, 23, 59, 58)
            incident = Incident()
            base = (wall - BOOTED).total_seconds()
            for m in incident.messages:
                m.time = base + m.time - BEGIN
            since_1970 = (wall - datetime.datetime(1970, 1, 1)).total_seconds()
            since_january = (datetime.datetime(1972, month, day, 23, 59, 58) - datetime.datetime(1972, 1, 1)).total_seconds()
            for form, clock, begin in ((lambda m: f"[{ctime(m.wall(), language)}] {m.text}", "local", since_1970),
                                       (lambda m: f"{short(m.wall(), language)} box kernel: {m.text}", "yearless", since_january)):
                answer = unhang.explain_text(written(incident.messages, form).data)
                wrong += answer.complaints
                got = [(i.data["clock"], i.data["begin"]) for i in answer.incidents]
                if got != [(clock, begin)]:
                    wrong.append(f"{MONTHS[language].split()[month - 1]}: {got}, not {[(clock, begin)]}")
        t.no_complaints(wrong, f"months in {language}")


def test_new_year(t, unhang):
    """A log without years that runs over midnight of new year is still in order."""
    incident = Incident()
    base = (datetime.datetime(2026, 12, 31, 23, 59, 55) - BOOTED).total_seconds()
    for m in incident.messages:
        m.time = base + m.time - BEGIN
    form = written(incident.messages, lambda m: f"{short(m.wall())} box kernel: {m.text}")
    answer = unhang.explain_text(form.data)
    t.no_complaints(answer.complaints + check(incident, answer.first, form, precision=1.001, knows_boot=False), "over new year, without years")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_forms, test_equal_seconds, test_two_gpus, test_boots, test_containers, test_large, test_borrowed_times, test_months, test_new_year):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
