#!/usr/bin/env python3
"""The GitHub Action on sample issues: one comment where it is sure, none where it is not. GitHub is a server of the test's own."""
import http.server
import json
import re
import subprocess
import sys
import tempfile
import pathlib
import threading

import tap

TOP = tap.HERE / ".."
ACTION = TOP / "packaging" / "github-action"
TOKEN = "ghs_secret"


class GitHub(http.server.BaseHTTPRequestHandler):
    """Keeps comments by the path of their issue."""
    comments, asked = {}, []

    def answer(self, what):
        data = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.asked.append((self.command, self.path, self.headers["Authorization"]))
        self.answer(self.comments.get(self.path.split("?")[0], []))

    def do_POST(self):
        self.asked.append((self.command, self.path, self.headers["Authorization"]))
        comment = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.comments.setdefault(self.path, []).append(comment)
        self.answer(comment)

    def log_message(self, *arguments):
        pass


class Tracker:
    def __init__(self, unhang, folder, port):
        self.unhang, self.folder, self.number = unhang, folder, 0
        self.url = f"http://127.0.0.1:{port}"

    def run(self, issue, **more):
        event = self.folder / "event.json"
        event.write_text(json.dumps(issue))
        environment = {**self.unhang.environment, "GITHUB_EVENT_PATH": str(event), "GITHUB_API_URL": self.url, "GITHUB_REPOSITORY": "someone/thing", "GITHUB_TOKEN": TOKEN,
                       "UNHANG": self.unhang.binary, "no_proxy": "127.0.0.1", **more}
        return subprocess.run([sys.executable, ACTION / "explain-issue"], env=environment, capture_output=True, text=True, timeout=120)

    def open(self, body, **more):
        """What is said to a new issue, and how the run ended."""
        self.number += 1
        done = self.run({"action": "opened", "issue": {"number": self.number, "body": body}}, **more)
        return [c["body"] for c in GitHub.comments.get(f"/repos/someone/thing/issues/{self.number}/comments", [])], done


def log(name):
    return next(p for p in sorted((tap.HERE / "logs" / name).iterdir()) if p.name != "case.json").read_text()


def test_answers(t, tracker):
    fault = "Since the update my desktop freezes.\r\n\r\n```\r\n" + (TOP / "docs/sample-dmesg.txt").read_text().replace("\n", "\r\n") + "```\r\nPlease help, @maintainer"
    said, done = tracker.open(fault)
    t.ok(len(said) == 1 and "used unmapped memory" in said[0] and "| **Now** |" in said[0], "a pasted log gets one comment", f"{said} {done}")
    t.ok(done.returncode == 0 and TOKEN not in done.stdout + done.stderr, "and the token is not printed", done)
    done = tracker.run({"action": "edited", "issue": {"number": tracker.number, "body": fault}})
    t.same(len(GitHub.comments[f"/repos/someone/thing/issues/{tracker.number}/comments"]), 1, "a second run adds none")
    said, _ = tracker.open("<details>\n\n```\n" + log("ras-memory-poison-mi300x-6.8") + "\n```\n</details>")
    t.ok(len(said) == 1 and "not fit for the next job" in said[0], "so does one in a fold", said)
    t.ok(all(a[2] == f"Bearer {TOKEN}" for a in GitHub.asked), "GitHub is asked with the token")


def test_silence(t, tracker):
    for name, body in (("a question", "How do I install ROCm on Fedora?"), ("nothing", None), ("NVIDIA's log", log("quiet-nvidia-xid")), ("a quiet boot", log("quiet-boot-navi31-6.12")),
                       ("a log that begins too late", log("log-begins-inside-reset-navi31-6.12")), ("source code that has messages", log("quiet-c-source-job"))):
        said, done = tracker.open(body)
        t.ok(not said and done.returncode == 0 and not done.stderr, f"silent about {name}", f"{said} {done}")
    said, _ = tracker.open((TOP / "docs/sample-dmesg.txt").read_text(), UNHANG_CONFIDENCE="0.99")
    t.same(said, [], "and where it is less sure than asked for")
    done = tracker.run({"action": "opened", "issue": {"number": 99, "pull_request": {}, "body": (TOP / "docs/sample-dmesg.txt").read_text()}})
    t.ok(done.returncode == 0 and "no issue" in done.stdout, "a pull request is no issue", done)


def test_hostile(t, tracker):
    text = (TOP / "docs/sample-dmesg.txt").read_text().replace("process python pid", "process @all</details><img/src=x>#1 pid")
    said, done = tracker.open(text + "\n$(touch /tmp/x) `id` ; rm -rf\n")
    free = re.sub(r"^```.*?^```$", "", said[0], flags=re.M | re.S) if said else ""
    t.ok(len(said) == 1 and "<img" not in free and not re.search(r"@(?=all)", free), "what an issue holds stays text", said)
    done = tracker.run({"issue": {"number": "1/../../x", "body": text}})
    t.ok(done.returncode == 0 and "no issue" in done.stdout, "a number that is none", done)
    t.ok(all(re.fullmatch(r"/repos/someone/thing/issues/\d+/comments(\?per_page=100)?", path) for _, path, _ in GitHub.asked), "only comments of the issue are asked for", GitHub.asked)


def test_file(t):
    text = (ACTION / "action.yml").read_text()
    t.ok("${{ github.event" not in text and "using: composite" in text, "no part of an issue is in a command of the action")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        tracker = Tracker(unhang, pathlib.Path(folder), server.server_port)
        test_answers(t, tracker)
        test_silence(t, tracker)
        test_hostile(t, tracker)
        test_file(t)
    server.shutdown()
    t.end()


if __name__ == "__main__":
    main()
