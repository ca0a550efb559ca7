#!/usr/bin/env python3
"""Reports for others: the HTML file and the Markdown. An HTML parser reads each report back; what comes from the evidence stays text."""
import base64
import fcntl
import hashlib
import html.parser
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

import tap

TOP = tap.HERE / ".."
VOID = {"meta", "br", "input"}
FIRST = ["now", "fault", "fit", "sure"]
KINDS = ["page-fault-navi31-read-only-6.8", "game-soft-recovered-navi23-6.1", "rccl-watchdog-lagging-rank", "ras-memory-poison-mi300x-6.8", "off-the-bus-mi250-5.19",
         "torch-out-of-memory", "mes-remove-queue-navi32-6.10", "oops-in-driver-6.15", "two-gpus-interleaved-6.12", "quiet-boot-navi31-6.12"]
HOSTILE = ["</script><script>alert(1)</script>", "\"><svg onload=alert(1)>", "'onclick='alert(1)", "<!--", "]]>", "&lt;b&gt;", "</title></style>", "{{x}}${y}", "`@all`#1", "<b>"]
INVISIBLE = "\u202e\u2066\ufeff\x1b\x07\x7f"


class Page(html.parser.HTMLParser):
    """The elements of a report with their attributes and text; complaints where they do not nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.complaints, self.text = [], [], [], []
        self.raw = text
        self.feed(text)
        self.close()
        self.complaints += [f"<{tag}> is not closed" for tag, _ in self.open]

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "attributes": dict(attributes), "text": [], "in": [e["tag"] for _, e in self.open]}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append((tag, element))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.complaints.append(f"</{tag}> within {[t for t, _ in self.open][-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        for tag, element in self.open:
            element["text"].append(data)
        if not any(tag in ("script", "style") for tag, _ in self.open):
            self.text.append(data)

    def of(self, tag, **attributes):
        return [e for e in self.elements if e["tag"] == tag and all(e["attributes"].get(k.rstrip("_")) == v for k, v in attributes.items())]

    def shape(self):
        return [(e["tag"], tuple(sorted(e["attributes"]))) for e in self.elements]

    @property
    def visible(self):
        return " ".join("".join(self.text).split())


def text_of(element):
    return " ".join("".join(element["text"]).split())


def run(unhang, *arguments, data=None):
    return subprocess.run([unhang.binary, *map(str, arguments)], input=data, capture_output=True, env=unhang.environment, timeout=120)


def page_of(unhang, *arguments, data=None):
    done = run(unhang, "explain", "--html", "-", *arguments, data=data)
    return Page(done.stdout.decode())


def log_of(name):
    return sorted(p for p in (tap.HERE / "logs" / name).iterdir() if p.name != "case.json")


def policy_complaints(page):
    """The file's own policy: nothing from elsewhere, and only the style and script whose hashes it names."""
    policy = [e["attributes"]["content"] for e in page.of("meta") if e["attributes"].get("http-equiv") == "Content-Security-Policy"]
    if len(policy) != 1 or "default-src 'none'" not in policy[0] or "unsafe" in policy[0]:
        return [f"policy {policy}"]
    for kind, elements in (("style", page.of("style")), ("script", [e for e in page.of("script") if not e["attributes"]])):
        digests = [f"'sha256-{base64.b64encode(hashlib.sha256(''.join(e['text']).encode()).digest()).decode()}'" for e in elements]
        if len(digests) != 1 or f"{kind}-src {digests[0]}" not in policy[0]:
            return [f"{kind} is not the one of the policy"]
    return []


def whole_complaints(page):
    """What holds of every report."""
    wrong = page.complaints + policy_complaints(page)
    ids = [e["attributes"]["id"] for e in page.elements if "id" in e["attributes"]]
    wrong += [f"two elements are called {i}" for i in set(ids) if ids.count(i) > 1]
    for e in page.elements:
        wrong += [f"<{e['tag']} {k}>" for k in e["attributes"] if k.startswith("on") or k in ("src", "style", "srcset", "action")]
        link = e["attributes"].get("href")
        if link is not None and not (link.startswith("#") and link[1:] in ids):
            wrong.append(f"a link leads to {link}")
        if e["tag"] in ("img", "iframe", "object", "link", "form", "base", "video", "image", "use"):
            wrong.append(f"<{e['tag']}>")
    wrong += ["a picture without a name" for e in page.of("svg", class_="picture") if not e["attributes"].get("aria-label")]
    if len(page.of("figure")) != len([e for e in page.of("div", class_="wide") if "figure" in e["in"]]):
        wrong.append("a picture without a table")
    if len(page.of("h1")) != 1:
        wrong.append("no headline")
    wrong += [f"{text_of(e)} is green" for e in page.of("span", class_="good") if "unknown" in text_of(e)]
    return wrong


def test_kinds(t, unhang):
    """Of ten kinds of incidents."""
    wrong, sizes = [], []
    for name in KINDS:
        page = page_of(unhang, *log_of(name))
        told = json.loads(run(unhang, "explain", "--json", *log_of(name)).stdout)
        sizes.append(len(page.raw))
        wrong += [f"{name}: {w}" for w in whole_complaints(page)]
        for incident in told["incidents"][:1]:
            rows = [e["attributes"]["class"] for e in page.of("div") if e["attributes"].get("class") in FIRST][:4]
            if rows != FIRST:
                wrong.append(f"{name}: the first screen has {rows}")
            for what in (incident["cause"]["title"], incident["action"]["text"], incident["cause"]["explanation"], *(e["text"] for e in incident["timeline"][:20])):
                if " ".join(what.split()) not in page.visible:
                    wrong.append(f"{name}: without {what}")
            if len(page.of("div", class_="try")) and len([e for e in page.of("li") if "dd" in e["in"]]) > 3 * len(told["incidents"]):
                wrong.append(f"{name}: more than three remedies")
        data = json.loads("".join(page.of("script", id="incident")[0]["text"]))
        if data["class"] != (told["incidents"][0]["cause"]["class"] if told["incidents"] else None):
            wrong.append(f"{name}: its data say {data['class']}")
    t.no_complaints(wrong, "ten reports have all that they should, and nothing else")
    t.ok(max(sizes) < 300_000, "a plain log's report is small", sizes)
    t.note(f"sizes: {sizes}")


def test_pictures(t, unhang):
    """Knowledge names the lead picture; without its data the timeline stands there, and a line says what is lacking."""
    def lead(*paths):
        page = page_of(unhang, *paths)
        return text_of(page.of("figcaption")[0]) if page.of("figcaption") else None, page

    name, page = lead(TOP / "docs" / "sample-gpucore")
    t.same(name, "Addresses around the fault", "a fault in a core shows the addresses")
    t.ok("lane 63" in page.visible and "0x7f3a00008000" in page.visible and not page.complaints, "with each lane in its table")
    t.ok("Not in this evidence: the kernel log." in page.visible, "and says what the evidence lacks")
    here = [text_of(e) for e in page.of("tr", class_="here")]
    t.ok(any("return table[row * 64 + column];" in line for line in here) and any("v_lshl_add_u32 v0, s6, 6, v0" in line for line in here) or "No instructions" in page.visible,
         "source and instructions have an arrow", here)
    rows = [e for e in page.of("th", scope="row") if e["in"][-3:] == ["table", "tbody", "tr"] and "details" in e["in"]]
    t.ok("Waves (18)" in page.visible and len(rows) > 18, "every wave is in a table", len(rows))
    t.ok("its harvest mask" in page.visible and not page.of("svg", class_="chip"), "the chip is not drawn without its harvest mask")
    name, page = lead(TOP / "docs" / "sample-dmesg.txt")
    t.same(name, "What happened when", "without a map of memory it is the timeline")
    t.ok("Not in this evidence: a map of the program's memory" in page.visible, "and a line says what is lacking")
    name, page = lead(*log_of("rccl-watchdog-lagging-rank"))
    t.same((name, text_of(page.of("p", class_="legend")[0])), ("The ranks of the job", "first, or lags waited for it"), "a collective shows the ranks, and a legend says what the bars are")
    t.ok(page.of("svg", class_="strip") and "When" in page.visible, "and when it was")
    agent = next((TOP / "fuzz" / "seeds" / "debug-agent").iterdir())
    t.note(f"{agent.name}: {lead(agent)[0]}")


def collective(rank, seq):
    return (f"[rank{rank}]:[E1116 10:20:00.100000000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
            f"NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n")


def drawn(page, caption):
    """The shapes and words of the picture with this caption, in order, as they stand in the file."""
    return re.search(rf"<figcaption>{caption}</figcaption>\s*(<svg .*?</svg>)\n", page.raw, re.S)[1]


def test_what_is_drawn(t, unhang, folder):
    svg = drawn(page_of(unhang, TOP / "docs" / "sample-dmesg.txt"), "What happened when")
    t.ok(re.search(r"<text [^>]*>page fault</text>", svg), "the point of the cause has its name beside it", svg)
    crash = "[rank3]: Memory access fault by GPU node-5 (Agent handle: 0x55d0c1a2e3f0) on address 0x7f3a00001000. Reason: Page not present or supervisor privilege.\n"
    svg = drawn(page_of(unhang, "-", data=(crash + "".join(collective(r, 7) for r in range(3))).encode()), "The ranks of the job")
    t.ok(re.search(r">rank 3<.*<rect class=\"k-bad\"[^>]*><title>operation not known", svg), "a rank that crashed is no grey one", svg)
    svg = drawn(page_of(unhang, "-", data="".join(collective(r, 6 if r == 90 else 7) for r in range(96)).encode()), "The ranks of the job")
    t.ok(re.search(r"<text [^>]*>rank 90</text>", svg) and svg.count("k-bad") == 1, "of many ranks, the one that lags is drawn", svg[:2000])
    other = folder / "other.log"
    other.write_text("[100.5] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)\n[100.6] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x0000000000000000 from client 10\n")
    page = page_of(unhang, TOP / "docs" / "sample-gpucore", other)
    t.ok("a GPU core" not in page.visible, "beside a GPU core nobody is asked for one", re.findall(r"[^.]*a GPU core[^.]*", page.visible))
    logs = []
    for n in range(3):
        logs.append(folder / f"node{n}.log")
        logs[-1].write_text(f"[ {n}00.5] amdgpu 0000:0{n}:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n")
    told = [text_of(e) for e in page_of(unhang, *logs).of("summary") if text_of(e).startswith("A graphics job")]
    t.ok(len(told) == 2 and all(re.search(r"node\d\.log\), \d+\.\d+ s after boot", x) for x in told), "each incident of a batch has its file and time", told)
    style, script = (text_of(page.of(tag)[-1]) for tag in ("style", "script"))
    t.ok("figure{break-inside:avoid" not in style, "a picture with its table may be printed on two pages", style[-900:])
    t.ok("scrollLeft" in script, "zooming shows the mark that matters", script)


def test_same_times(t, unhang):
    """One log has one time, whoever tells it."""
    for stamp, wanted in (("2026-08-27T05:28:27+02:00 node7 kernel: ", "03:28:27"), ("[45755.103] ", "45755.103")):
        log = unhang.write("times.log", f"{stamp}amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n")
        page = page_of(unhang, log)
        told = [run(unhang, "explain", option, log).stdout.decode() for option in ("--oneline", "-v", "--markdown")]
        t.same([wanted in text for text in (*told, *(text_of(page.of(*e)[0]) for e in ((("time",)),)))], [True] * 4, f"{stamp!r}: oneline, -v, Markdown, the page's events")
        t.ok(wanted in next(text_of(e) for e in page.of("span", class_="time")), "and its head", page.visible[:300])


def test_owner(t, unhang, folder):
    """What root writes for a user is the user's, wherever that one may write."""
    if os.getuid():
        t.skip("a report for who called sudo", "this is not root")
        return
    own, roots = folder / "own", folder / "roots"
    for room, user in ((own, 65534), (roots, 0)):
        room.mkdir(mode=0o755)
        os.chown(room, user, user)
    folder.chmod(0o755)
    unhang.environment |= {"SUDO_UID": "65534", "SUDO_GID": "65534"}
    for room, user in ((own, 65534), (roots, 0)):
        done = run(unhang, "explain", "--html", room / "report.html", TOP / "docs" / "sample-dmesg.txt")
        found = (room / "report.html").stat() if (room / "report.html").exists() else None
        t.ok(found and (found.st_uid, found.st_mode & 0o777) == (user, 0o600), f"{room.name}: the report belongs to user {user}", (done.stderr, found))
    del unhang.environment["SUDO_UID"], unhang.environment["SUDO_GID"]


def test_knowledge(t, unhang):
    """What knowledge has between backticks is code; what the evidence has is not."""
    unhang.know("own.know", """remedy own-remedy
    for     gfx-ring-timeout
    kind    cure
    title   Look for `Enabled pinned memory` in its log
    do      Turn it off
    undo    Turn it on
    cost    none
    grade   C
    source  tests/pages.py
""")
    log = b"[50.0] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2\n"
    page = page_of(unhang, "-", data=log)
    t.ok(any(text_of(e) == "Enabled pinned memory" for e in page.of("code")) and "`Enabled" not in page.visible, "backticks of knowledge", re.findall("Look for.{60}", page.raw))
    for path in unhang.config.rglob("own.know"):
        path.unlink()


def on_terminal(unhang, lines, locale, *arguments):
    """What the program writes to a terminal of so many lines of 80 columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    child = subprocess.Popen([unhang.binary, "explain", *map(str, arguments)], stdout=its, stderr=subprocess.DEVNULL,
                             env={**unhang.environment, "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": locale})
    os.close(its)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end was closed
            break
        if not part:
            break
        said += part
    child.wait()
    os.close(ours)
    return said.decode().replace("\r", "")


def test_terminal(t, unhang):
    """The lead picture on a terminal that has room for it, in the letters of its locale; never in a pipe."""
    core, ranks = TOP / "docs" / "sample-gpucore", log_of("rccl-watchdog-lagging-rank")[0]
    said = on_terminal(unhang, 50, "C.UTF-8", core)
    t.ok("Addresses around the fault\n  memory \u2592" in said and "\u2588" in said and "lanes 0-63" in said, "a core's addresses", said)
    said = on_terminal(unhang, 50, "C", core)
    t.ok("  memory #" in said and said.isascii(), "in ASCII where the locale asks for it", said)
    t.ok("Addresses around" not in on_terminal(unhang, 24, "C.UTF-8", core), "not where it would push the answer off the screen")
    t.ok(re.search(r"^  rank 2 \S+ 5119$", on_terminal(unhang, 50, "C", ranks), re.M), "the ranks of a job")
    t.ok("\u2588" in on_terminal(unhang, 50, "C.UTF-8", TOP / "docs" / "sample-server.log"), "the lanes of a wave")
    t.ok(all(len(line) <= 80 for line in said.splitlines()), "no line is wider than the terminal")
    t.ok("Addresses around" not in run(unhang, "explain", core).stdout.decode(), "a pipe gets none")


def hostile_log(text):
    return (TOP / "docs" / "sample-dmesg.txt").read_text().replace("process python pid", f"process {text} pid").replace("thread python pid", f"thread {text} pid") \
        + f"[45769.0] a line with {text} behind\n"


def test_hostile(t, unhang, folder):
    """Whatever the evidence holds, the report has the same elements and attributes, and shows it as text."""
    wrong = []
    plain = page_of(unhang, "-", data=hostile_log("nobody").encode()).shape()
    for text in HOSTILE:
        page = page_of(unhang, "-", data=hostile_log(text).encode())
        wrong += [f"{text}: {w}" for w in whole_complaints(page)]
        if page.shape() != plain:
            wrong.append(f"{text}: other elements")
        if text not in page.visible:
            wrong.append(f"{text}: not shown")
    t.no_complaints(wrong, "markup in a process's name")
    page = page_of(unhang, "-", data=hostile_log(INVISIBLE + "x").encode())
    t.ok(not any(c in page.raw for c in INVISIBLE), "what does not show is left out")
    path = folder / "<img src=x onerror=alert(1)> \"'&.log"
    path.write_bytes(hostile_log("python").encode())
    page = page_of(unhang, path)
    t.no_complaints(whole_complaints(page), "markup in a file's name")
    t.ok(path.name in page.visible, "which is shown")
    long = hostile_log("python") + "x" * 1_000_000 + "<b>\n" + "\0" * 100 + "<i>\n"
    page = page_of(unhang, "-", data=long.encode())
    t.ok(not page.complaints and len(page.raw) < 300_000, "a line of 1 MB and NULs", f"{page.complaints[:3]} {len(page.raw)}")
    many = "".join(f"[{1000 + n / 1000:.6f}] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq={n}, emitted seq={n + 1}\n" for n in range(100_000))
    page = page_of(unhang, "-", data=many.encode())
    t.ok(not whole_complaints(page) and len(page.raw) < 2_000_000, "100,000 events", f"{whole_complaints(page)[:3]} {len(page.raw)}")


def test_evidence(t, unhang, folder):
    """Lines are quoted with three around each, or all of them."""
    lines = [f"[{n}.0] line number {n} of this log" for n in range(1, 101)]
    lines[49] = "[50.0] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"
    log = folder / "log.txt"
    log.write_text("\n".join(lines))
    quoted = [int(e["attributes"]["value"]) for e in page_of(unhang, log).of("li") if "value" in e["attributes"]]
    t.same(quoted, list(range(47, 54)), "three lines around the one that is told")
    quoted = [int(e["attributes"]["value"]) for e in page_of(unhang, "-", data=log.read_bytes()).of("li") if "value" in e["attributes"]]
    t.same(quoted, list(range(47, 54)), "and of a stream")
    page = page_of(unhang, "--full-evidence", log)
    t.same([int(e["attributes"]["value"]) for e in page.of("li") if "value" in e["attributes"]], list(range(1, 101)), "--full-evidence quotes all")
    t.ok(text_of(page.of("mark")[0]) == lines[49] and len(page.of("mark")) == 1, "and marks the one")


def test_redact(t, unhang):
    """Names are replaced everywhere, and the file says what it tells."""
    log = "".join(f"Aug 27 03:28:{n:02} secrethost kernel: amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq={n}\n" for n in range(3)) \
        + "Aug 27 03:28:09 secrethost run[1]: /home/alice/train.py --token hf_abcdefghijklmnopqrstuvwxyz012345\n"
    page = page_of(unhang, "-", data=log.encode())
    t.ok("secrethost" in page.visible and "Names of machines: secrethost" in page.visible, "a report names the machine and says so")
    page = page_of(unhang, "--redact", "-", data=log.encode())
    t.ok(not re.search("secrethost|alice|hf_abc", page.raw) and "host-1" in page.visible, "--redact replaces it", re.findall(".{30}(?:secrethost|alice|hf_abc).{30}", page.raw))
    t.no_complaints(whole_complaints(page), "in a report that is whole")
    text = run(unhang, "explain", "--markdown", "--redact", "-", data=log.encode()).stdout.decode()
    t.ok(not re.search("secrethost|alice|hf_abc", text) and "host-1" in text, "also in Markdown", text)


def outside_of_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def test_markdown(t, unhang):
    wrong = []
    for text in HOSTILE:
        said = run(unhang, "explain", "--markdown", "-", data=hostile_log(text).encode()).stdout.decode()
        free = outside_of_code(said)
        tags = set(re.findall(r"<(/?[A-Za-z!][^>]*)>", free)) - {"details", "/details", "summary", "/summary", "sub", "/sub", "!-- --"}
        if tags or said.count("\n```") % 2 or re.search(r"(?<![\\])`", free) or re.search(r"[@#](?=\w)", free.replace("### ", "")):
            wrong.append(f"{text}: {tags} {re.findall('.*[@#][a-z0-9].*', free)}")
    t.no_complaints(wrong, "evidence makes no markup, no link and calls nobody")
    said = run(unhang, "explain", "--markdown", TOP / "docs" / "sample-dmesg.txt").stdout.decode()
    head = said.split("<details>")[0]
    t.ok(head.count("\n") < 30 and "| **Now** |" in head and "| **Machine** | fit for the next job |" in head, "the answer is one screen", head)
    t.ok(re.search(r"^> 9: .*page fault", said, re.M) and re.search(r"^  8: ", said, re.M), "the lines are folded below it")
    t.ok("No AMD GPU incident" in run(unhang, "explain", "--markdown", *log_of("quiet-boot-navi31-6.12")).stdout.decode(), "without an incident it says so")


def test_options(t, unhang, folder):
    sample = TOP / "docs" / "sample-dmesg.txt"
    file = folder / "report.html"
    done = run(unhang, "explain", "--html", file, sample)
    t.ok(done.returncode == 1 and not done.stdout and file.read_text().startswith("<!DOCTYPE html>"), "a report goes to its file", done)
    t.ok(done.stderr.count(b"\n") == 1 and str(file).encode() in done.stderr, "which it names", done)
    t.same(oct(file.stat().st_mode & 0o777), "0o600", "which only its owner can read")
    for wrong in (["--redact"], ["--full-evidence"], ["--html", file, "--markdown"], ["--html", folder / "none" / "x.html"]):
        done = run(unhang, "explain", *wrong, sample)
        t.ok(done.returncode == 2 and done.stderr.count(b"\n") == 1, f"{wrong[0]} alone or beside another, or no such folder: one line", done)
    log, link = folder / "ring.txt", folder / "link.html"
    log.write_bytes(sample.read_bytes())
    link.hardlink_to(file)
    for wrong in (["--html", log], ["--html", log, log], ["--html", log, sample], ["--html", folder, sample], ["--html", file, link], ["--html", "/dev/null", sample],
                  ["--markdown", "--json", sample], ["--html", file, "--oneline", sample]):
        done = run(unhang, "explain", *wrong)
        t.ok((done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), f"no report over evidence or other files: {wrong}", done)
    t.same(log.read_bytes(), sample.read_bytes(), "they stay as they were")
    t.same(run(unhang, "explain", "--html", file, sample).returncode, 1, "a report may replace a report")
    done = run(unhang, "incidents", "--state-dir", folder, "--html", log, "0123456789abcdef")
    t.ok(done.returncode == 2 and b"--html" in done.stderr and log.read_bytes() == sample.read_bytes(), "nor does a stored incident's", done)
    done = run(unhang, "incidents", "--state-dir", folder, "--html", file)
    t.ok(done.returncode == 2 and b"id" in done.stderr, "a stored incident has to be named", done)


def test_source(t):
    """Markup is literal: no text gets into it but through page_text()."""
    wrong = []
    for path in sorted((TOP / "src" / "report" / "html").glob("*.c")):
        text = path.read_text()
        wrong += [f"{path.name}: {m}" for m in re.findall(r"page_numbers\([^;]*%[-\d.*]*s[^;]*;", text)]
        if path.name not in ("tag.c", "markdown.c"):
            wrong += [f"{path.name}: {m}" for m in re.findall(r"(?:fputs|fprintf|print_str|print_safe|fwrite)\([^;]*;", text)]
    t.no_complaints(wrong, "no format of markup takes a text")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        test_kinds(t, unhang)
        test_pictures(t, unhang)
        test_what_is_drawn(t, unhang, folder)
        test_same_times(t, unhang)
        test_owner(t, unhang, folder)
        test_terminal(t, unhang)
        test_knowledge(t, unhang)
        test_hostile(t, unhang, folder)
        test_evidence(t, unhang, folder)
        test_redact(t, unhang)
        test_markdown(t, unhang)
        test_options(t, unhang, folder)
        test_source(t)
    t.end()


if __name__ == "__main__":
    main()
