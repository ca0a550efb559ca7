"""What the tests share: TAP output, running unhang, reading its answers."""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = json.loads((HERE / ".." / "docs" / "diagnosis.schema.json").read_text())
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
CANNOT = 2
os.umask(0o022)  # what others may write is not believed


def worked():
    """Seconds that processors worked for ended children: unlike the clock's, they do not grow on a busy machine."""
    times = os.times()
    return times.children_user + times.children_system


def wait_for(condition, seconds=60):
    """What @condition gives once it is true, or what it gave last: the time is up only where something is broken."""
    begin = time.monotonic()
    while True:
        found, waited = condition(), time.monotonic() - begin
        if found or waited > seconds:
            return found
        time.sleep(min(0.02 + waited / 10, 0.2))  # what takes long is not asked for often: many conditions start a program


def places():
    """Where a check stands: the frames outside of this file, innermost first."""
    frame = sys._getframe(1)
    while frame:
        if frame.f_code.co_filename != __file__:
            yield pathlib.Path(frame.f_code.co_filename).name, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


# A name that goes on with the one before it: `and the ring timeout its effect`.
GOES_ON = re.compile(r"(and|but|nor|or|so|though|which|with)\b")


class Tap:
    """Counts tests and prints them as TAP. A check that fails also tells where it stands."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        self.last = ""

    def in_context(self, name):
        """The name with that of the test function, and with the name that it goes on: alone it would not tell what broke."""
        if GOES_ON.match(name) and self.last:
            name = f"{self.last}, {name}"
        else:
            self.last = name
        functions = [function for _, _, function in places() if function.startswith(("test_", "check_"))]
        context = functions[-1].split("_", 1)[1].replace("_", " ") if functions else ""
        return name if not context or name.startswith(context) else f"{context}: {name}"

    def ok(self, good, name, why=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {self.in_context(name)}")
        if not good:
            print(f"# at {' from '.join(f'{file}:{line}' for file, line, function in places() if function != '<module>')}")
            for line in str(why or "it is not so").splitlines():
                print(f"# {line}")
        return good

    def same(self, got, wanted, name):
        return self.ok(got == wanted, name, f"wanted {wanted!r}\ngot    {got!r}")

    def no_complaints(self, complaints, name):
        """One test for a list of what is wrong, which should be empty."""
        return self.ok(not complaints, name, "\n".join(complaints))

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {self.in_context(name)} # SKIP {why}")

    def note(self, text):
        print(f"# {text}")

    def end(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)


def skip_all(why):
    print(f"ok 1 # SKIP {why}")
    print("1..1")
    sys.exit(0)


@functools.cache
def is_sanitized(binary):
    return b"__asan_init" in pathlib.Path(binary).read_bytes()


def parse_knowledge(unhang):
    """Under the sanitizers unhang parses what is built in, as it does for a user's own file: each piece is memory of its own then, not a part of the image."""
    if is_sanitized(unhang.binary):
        unhang.know("nothing.know", "# adds nothing\n")


def some(unhang, cases, every=5):
    """Cases that differ in what is said, not in the code that runs: the ordinary build tries all, the sanitized one each fifth."""
    return list(cases)[::every if is_sanitized(unhang.binary) else 1]


class Unhang:
    """The program under test, with knowledge files and settings of its own."""

    def __init__(self, binary):
        self.binary = os.path.abspath(binary)
        self.room = tempfile.TemporaryDirectory(prefix="unhang-test-")
        self.directory = pathlib.Path(self.room.name)
        self.config = self.directory / "config"
        self.environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.directory),
                            "XDG_CONFIG_HOME": str(self.config), "LC_ALL": "C.UTF-8", "TZ": "UTC", "UNHANG_CONTAINER": "no",
                            "MALLOC_PERTURB_": "85"}  # what was freed is not what it was
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS"):
                self.environment[name] = value

    def run(self, *arguments, stdin=b"", timeout=60):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return subprocess.run([self.binary, *map(str, arguments)], input=stdin, capture_output=True,
                              env=self.environment, timeout=timeout)

    def write(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def know(self, name, text):
        """Puts a knowledge file where the user's own ones lie."""
        return self.write(f"config/unhang/knowledge.d/{name}", text)

    def explain(self, *paths, stdin=b""):
        return Answer(self.run("explain", "--json", *paths, stdin=stdin))

    def explain_text(self, content, name="log.txt"):
        return self.explain(self.write(name, content))


class Answer:
    """What `unhang explain --json` said, and what is wrong with how it said it."""

    def __init__(self, run):
        self.status = run.returncode
        self.stderr = run.stderr.decode(errors="replace")
        self.stdout = run.stdout
        self.complaints = []
        self.document = {"sources": [], "incidents": []}
        try:
            document = json.loads(run.stdout)
        except ValueError as problem:
            self.complaints.append(f"no JSON: {problem}; exit status {self.status}; {self.stderr[-300:]}")
            return
        for error in sorted(VALIDATOR.iter_errors(document), key=str)[:5]:
            where = "/".join(map(str, error.absolute_path))
            self.complaints.append(f"against the schema at {where}: {error.message[:200]}")
        if self.complaints:
            return  # what has not the right form is not looked at
        self.document = document
        if self.status != (1 if self.document["incidents"] else 0) and self.document["sources"]:
            self.complaints.append(f"exit status {self.status} with {len(self.document['incidents'])} incidents")
        self.complaints += [problem for i in self.incidents for problem in i.complaints()]

    @property
    def incidents(self):
        return [Incident(i) for i in self.document["incidents"]]

    @property
    def classes(self):
        return [i.cls for i in self.incidents]

    @property
    def first(self):
        return self.incidents[0] if self.incidents else Incident(NOTHING)


NOTHING = {"cause": {"class": None, "title": None, "confidence": 0, "before_log": None}, "also": [], "gpus": [{"pci": None, "name": None, "gfx": None}], "facts": [], "timeline": [],
           "action": {"do": None, "fault": None}, "remedies": [], "settings": [], "like": [], "known": [], "next": [], "processes": [], "id": None, "fingerprint": None,
           "begin": None, "end": None, "clock": "none"}


class Incident:
    def __init__(self, data):
        self.data = data
        self.cls = data["cause"]["class"]
        self.cause = data["cause"]
        self.timeline = data["timeline"]
        self.roles = [(e["event"], e["role"]) for e in data["timeline"]]
        self.remedies = [r["id"] for r in data["remedies"] if r["state"] == "try"]
        self.told = {r["id"]: (r["state"], r["because"]) for r in data["remedies"] if r["state"] != "try"}
        self.settings = {s["id"]: s["text"] for s in data["settings"]}
        self.known = [b["id"] for b in data["known"]]

    def values(self, name, event=None):
        """All values of the facts of this name; with @event, those of that event of the timeline."""
        return [f["value"] for f in self.data["facts"] if f["name"] == name and event in (None, f["event"])]

    def value(self, name, event=None):
        values = self.values(name, event)
        return values[0] if values else None

    def fact(self, name):
        return next((f for f in self.data["facts"] if f["name"] == name), None)

    def line(self, name):
        """Where the first fact of this name was read."""
        fact = self.fact(name)
        return fact["at"]["line"] if fact else None

    def events(self, kind, role=None):
        return [e for e in self.timeline if e["event"] == kind and role in (None, e["role"])]

    @property
    def duration(self):
        return None if self.data["begin"] is None else self.data["end"] - self.data["begin"]

    def complaints(self):
        """What must hold in every diagnosis, whatever it is about."""
        wrong = []
        ids = {e["id"] for e in self.timeline}
        for fact in self.data["facts"]:
            if fact["event"] is not None and fact["event"] not in ids:
                wrong.append(f"fact {fact['name']} belongs to event {fact['event']}, which is not in the timeline")
        if not self.cause["before_log"] and not any(e["role"] == "cause" for e in self.timeline):
            wrong.append("no event of the timeline has the role of the cause, and the cause is not earlier than the log")
        for remedy in self.data["remedies"]:
            if not remedy["grade"] or not remedy["source"] or not remedy["do"]:
                wrong.append(f"remedy {remedy['id']} lacks its grade, source or steps")
        if self.data["begin"] is not None and self.data["end"] < self.data["begin"]:
            wrong.append(f"it ends at {self.data['end']}, before it begins at {self.data['begin']}")
        return wrong
