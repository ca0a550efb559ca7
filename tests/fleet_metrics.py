#!/usr/bin/env python3
"""unhang check --prometheus, the rules, their alerts and the dashboard: fleet_metrics.py UNHANG

promtool tries the rules, also with samples that unhang wrote, of 500 nodes. Then node-exporter serves these files, a Prometheus scrapes it, and each
query of the dashboard is asked there. Both listen on the loopback only, and end by themselves after a minute. Grafana itself is not here."""
import collections
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import tap
from node_states import gpu, incident, put, state
from tap import Tap, Unhang

PROMETHEUS = tap.HERE.parent / "packaging" / "prometheus"
DASHBOARD = json.loads((PROMETHEUS / "dashboard.json").read_text())
NODES, LIFE_S = 500, 60
SAMPLE = re.compile(r"^([a-z_]+\{.*\}) (\S+)$", re.M)


def ask(unhang, name, found, *options):
    """What unhang writes of a node in this state."""
    run, files = unhang.directory / "run", unhang.directory / "textfiles"
    run.mkdir(exist_ok=True)
    files.mkdir(exist_ok=True)
    put(run, found)
    ran = unhang.run("check", "--prometheus", files / f"{name}.prom", "--run-dir", run, "--state-dir", unhang.directory / "none", *options)
    return ran, (files / f"{name}.prom").read_text()


def promtool(*arguments, stdin=""):
    return subprocess.run(["promtool", *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60, check=False)


def test_metrics(t, unhang):
    """In each state, what it writes is what promtool and the conventions ask for."""
    eight = [gpu(n) for n in range(8)]
    states = [("healthy", state(gpus=eight), 0), ("failed", state(incident(1, "reboot", "no", "driver"), gpus=eight), 1), ("stale", state(age=3600), 2), ("none", None, 2), ("cut", "{", 2),
              ("quotes", state(incident(2, "reset", "no", 'x"y\\z\n', cls="a" * 500)), 1)]
    for name, found, status in states:
        ran, text = ask(unhang, name, found, "--expect-gpus", "8") if name == "healthy" else ask(unhang, name, found)
        checked = promtool("check", "metrics", stdin=text)
        t.same((ran.returncode, ran.stdout, checked.returncode, checked.stdout + checked.stderr), (status, b"", 0, ""), f"{name}: promtool finds nothing to say")
        t.ok("secret" not in text and not re.search(r"\d{16}", text), "and there is no program and no incident in a label", text)
        t.ok(all(len(value) <= 64 for value in re.findall(r'"((?:[^"\\]|\\.)*)"', text)), "labels are bounded")
    t.same(promtool("check", "rules", PROMETHEUS / "rules.yml").returncode, 0, "the rules are rules")
    ran = promtool("test", "rules", PROMETHEUS / "tests.yml")
    t.ok(ran.returncode == 0, "and do what their tests say", ran.stdout + ran.stderr)


def alerts_of(t, unhang, name, text, wanted):
    """Which alerts fire, by severity, half an hour and two hours after these samples began."""
    series = "".join(f"      - {{series: {json.dumps(s)}, values: '{v}x40'}}\n" for s, v in SAMPLE.findall(text) if not s.startswith("unhang_check_time_seconds"))
    expected = "".join(f"""      - expr: count by (severity, alertname) (ALERTS{{alertstate="firing"}})
        eval_time: {minutes}m
        exp_samples: {json.dumps([{"labels": f'{{alertname="{alert}", severity="{severity}"}}', "value": 1} for alert, severity in found])}
""" for minutes, found in wanted.items())
    path = unhang.write("many.yml", f"rule_files: [{PROMETHEUS}/rules.yml]\nevaluation_interval: 3m\ntests:\n  - interval: 3m\n    input_series:\n{series}    promql_expr_test:\n{expected}")
    ran = promtool("test", "rules", path)
    t.ok(ran.returncode == 0, name, (ran.stdout + ran.stderr)[-2000:])


def test_many(t, unhang):
    files = unhang.directory / "textfiles"
    for found in files.glob("*.prom"):
        found.unlink()
    driver, job = [], []
    for n in range(NODES):
        node = f"n{n:03}"
        if n % 100 == 0:
            text = ask(unhang, node, {**state(incident(n, "reboot", "no", "driver")), "host": node})[1]
        driver.append(re.sub(r'hostname="n\d+"', f'hostname="{node}"', text))  # they differ in their names
        (files / f"{node}.prom").write_text(driver[-1])
    for n in range(10):
        job.append(ask(unhang, "job", {**state(incident(n, "reset", "no", "job")), "host": f"j{n:03}"})[1])
    (files / "job.prom").unlink()
    page, ticket, left = ("UnhangManyNodesUnfit", "page"), ("UnhangNodeUnfit", "ticket"), ("UnhangNodeLeftUnfitByJob", "ticket")
    alerts_of(t, unhang, f"{NODES} nodes with one fault: one page and one ticket", "".join(driver), {30: [page, ticket], 110: [page, ticket]})
    alerts_of(t, unhang, "a job's fault on 10 nodes: no page, and a ticket if they stay unfit for an hour", "".join(job), {30: [], 110: [left]})


class Server:
    """One that listens on a free port of the loopback, and ends after a minute."""

    def __init__(self, make):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.child = subprocess.Popen(["timeout", "-k", "5", str(LIFE_S), *map(str, make(f"127.0.0.1:{self.port}"))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(self, path, **parameters):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(parameters)}", timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as problem:
            return problem.read().decode() if problem.code != 503 else ""  # it is not ready yet
        except OSError:
            return ""

    def query(self, expression):
        answer = json.loads(self.get("/api/v1/query", query=expression) or "{}")
        return answer.get("data", {}).get("result") if answer.get("status") == "success" else None

    def end(self):
        self.child.terminate()
        self.child.wait(10)


def test_dashboard(t, unhang):
    panels = DASHBOARD["panels"]
    t.same(len({p["id"] for p in panels}), len(panels), "each panel has a number of its own")
    cells = collections.Counter((x, y) for p in panels for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"]))
    t.ok(max(cells.values()) == 1 and max(x for x, _ in cells) == 23, "they cover the page, and not each other")
    t.ok(all(p["title"] and p["description"] for p in panels), "each says what it shows")
    ask(unhang, "healthy", {**state(gpus=[gpu(n) for n in range(8)]), "host": "well"}, "--expect-gpus", "8")
    ask(unhang, "missing", {**state(gpus=[gpu(n) for n in range(7)]), "host": "seven"}, "--expect-gpus", "8")
    ask(unhang, "job", {**state(incident(1)), "host": "job"})
    ask(unhang, "dead", {**state(age=3600), "host": "dead"})
    files = unhang.directory / "textfiles"
    nodes = len(list(files.glob("*.prom")))
    config = unhang.directory / "prometheus.yml"
    exporter = Server(lambda at: ["prometheus-node-exporter", f"--web.listen-address={at}", "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={files}"])
    config.write_text(f"global: {{scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}}\nrule_files: [{PROMETHEUS}/rules.yml]\n"
                      f"scrape_configs: [{{job_name: node, static_configs: [{{targets: ['127.0.0.1:{exporter.port}']}}]}}]\n")
    server = Server(lambda at: ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={unhang.directory / 'tsdb'}", f"--web.listen-address={at}"])
    try:
        scraped = tap.wait_for(lambda: server.query("unhang:nodes:count and on () ALERTS{alertname='UnhangManyNodesUnfit'}"), 40)
        if not t.ok(scraped, "Prometheus scrapes node-exporter and evaluates the rules", exporter.get("/metrics")[:500]):
            return
        t.same(scraped[0]["value"][1], str(nodes), "every node is counted once")
        t.same([s["value"][1] for s in server.query("node_textfile_scrape_error")], ["0"], "node-exporter takes the files as they are")
        t.same(len(server.query('node_textfile_mtime_seconds{file=~".*/n001.prom"}') or []), 1, "and tells how old they are")
        wanted = {"Nodes": str(nodes), "Nodes that cannot take a job": str(NODES + 1), "GPUs that cannot take a job": str(NODES + 7), "Nodes without a watch": "1"}
        for p in panels:
            for target in p["targets"]:
                found = server.query(target["expr"].replace("$hostname", ".*"))
                t.ok(found is not None and (found or p["title"] == "New rules, not in force yet"), f"{p['title']} ({p['type']}): Prometheus answers", target["expr"])
                if p["type"] == "stat":
                    t.same([s["value"][1] for s in found], [wanted[p["title"]]], f"{p['title']}: the number")
                if p["type"] == "table" and found:
                    t.ok(all("hostname" in s["metric"] for s in found), f"{p['title']}: each row names its node")
        unfit = server.query(next(p for p in panels if "serial_number" in p["targets"][0]["expr"])["targets"][0]["expr"].replace("$hostname", "n00.*"))
        t.same((len(unfit), {s["metric"]["serial_number"] for s in unfit}), (10, {"S0"}), "the choice of nodes works, and a GPU has its serial number")
        for variable in DASHBOARD["templating"]["list"]:
            asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", ""))
            if asked:
                values = json.loads(server.get(f"/api/v1/label/{asked[2]}/values", **{"match[]": asked[1]}))["data"]
                t.same(len(values), nodes, f"the list of {variable['name']}s")
        groups = tap.wait_for(lambda: [g for g in json.loads(server.get("/api/v1/rules"))["data"]["groups"] if all(r["health"] == "ok" for r in g["rules"])], 10)
        t.same(len(groups), 2, "all rules are evaluated without an error")
        page = json.loads(server.get("/api/v1/alerts"))["data"]["alerts"]
        t.same(sorted((a["labels"]["alertname"], a["labels"].get("class")) for a in page if a["labels"]["severity"] == "page"),
               [("UnhangManyNodesUnfit", "mes-unresponsive"), ("UnhangWatchDown", None)], "two pages wait for their time: the fault of 500 nodes, and the watch that died")
    finally:
        server.end()
        exporter.end()


def test_units(t):
    """The service's command is one that unhang has, and writes where Debian's node-exporter looks."""
    unit = (PROMETHEUS / "unhang-metrics.service").read_text()
    t.ok(re.search(r"^ExecStart=/usr/bin/unhang check --prometheus /var/lib/prometheus/node-exporter/\w+\.prom$", unit, re.M), "the service writes into node-exporter's directory")
    if not shutil.which("systemd-analyze"):
        return t.skip("systemd takes the units", "there is no systemd-analyze")
    ran = subprocess.run(["systemd-analyze", "verify", "--man=no", PROMETHEUS / "unhang-metrics.service", PROMETHEUS / "unhang-metrics.timer"], capture_output=True, text=True, check=False)
    wrong = [line for line in ran.stderr.splitlines() if "unhang-metrics" in line and "is not executable" not in line]
    return t.no_complaints(wrong, "systemd takes the units")


def main():
    t, unhang = Tap(), Unhang(sys.argv[1])
    if os.geteuid():
        tap.skip_all("a state is believed only if root wrote it")
    test_units(t)
    if not shutil.which("promtool"):
        t.skip("the rules", "there is no promtool (tools/install-packages fleet)")
        t.end()
    test_metrics(t, unhang)
    test_many(t, unhang)
    if shutil.which("prometheus") and shutil.which("prometheus-node-exporter"):
        test_dashboard(t, unhang)
    else:
        t.skip("the dashboard", "there is no Prometheus with its node-exporter (tools/install-packages fleet)")
    t.end()


if __name__ == "__main__":
    main()
