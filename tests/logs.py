#!/usr/bin/env python3
"""The quality gate that needs nothing but this repository: logs in the drivers' and runtimes' forms, written for it, and what an expert says of each.

tests/logs/NAME/ has log.txt and case.json, in the form of the corpus of real incidents: class, facts, also, what to do and whose fault. Besides:
cause_line, the roles of other lines, and whether the cause is before the log. What is no incident must yield none.
"""
import concurrent.futures
import json
import os
import re
import sys

import tap

LOGS = tap.HERE / "logs"
HELPFUL = 3  # so many remedies a tired reader looks at
# Facts that a log states literally: a value of them that it does not contain is made up.
LITERAL = {"process", "pid", "thread", "ring", "seq_signaled", "seq_emitted", "fault_address", "fault_status", "doorbell", "pasid", "pc", "gpu_node"}

# What unhang gets wrong today, and why: {case: {complaint: reason}}. A complaint that is not here fails the test; so does one here that is gone.
KNOWN_WRONG = {
    "quiet-boot-iommu-burst-mi100-5.15": {
        "false alarm: iommu-dma-fault": "the burst at 1.2 s, long before the driver is loaded, does not count as one while the GPU starts"},
}


def number(value):
    try:
        return int(str(value), 0)
    except ValueError:
        return None


def same(wanted, got):
    if isinstance(wanted, bool) or isinstance(got, bool):
        return wanted is got
    return str(wanted) == str(got) or (number(wanted) is not None and number(wanted) == number(got))


def made_up(answer, text):
    """Values of literal facts that no line states, in decimal or hexadecimal."""
    words = set(re.findall(r"[0-9a-f]+", re.sub(r"0x0*(?=[0-9a-f])", "", text.lower())))
    for fact in (f for i in answer.incidents for f in i.data["facts"] if f["name"] in LITERAL):
        value = number(fact["value"])
        if str(fact["value"]).lower() not in text.lower() and (value is None or not {f"{value:x}", str(value)} & words):
            yield f"{fact['name']} {fact['value']} is made up"


def helps(advice, incident):
    """Whether what an expert says first stands where it is read: among the first remedies, or as a next step."""
    shown = [r for r in incident.data["remedies"] if r.get("shown", True)][:HELPFUL]
    texts = [" ".join([r["title"], *(str(r.get(key) or "") for key in ("if", "here", "because")), *r["do"]]) for r in shown]
    texts += [f"{n['why']} {n['run']}" for n in incident.data["next"]]
    return any(re.search(pattern, text, re.I | re.S) for pattern in advice["best"] for text in texts)


def judge(wanted, answer):
    """What an expert would object to in the answer."""
    if not wanted["incident"]:
        return [f"false alarm: {name}" for name in answer.classes]
    found, advice = answer.first, wanted["advice"]
    if found.cls not in wanted["acceptable_classes"]:
        return [f"class {found.cls}"]
    values = [(f["name"], f["value"]) for i in answer.incidents for f in i.data["facts"]]
    wrong = [f"fact {f['name']} is not {f['value']}" for f in wanted["facts"] if not any(f["name"] == name and same(f["value"], value) for name, value in values)]
    wrong += [f"also lacks {word}" for word in wanted["also"] if word not in found.data["also"]]
    wrong += [f"{key} {found.data['action'][key]}" for key in ("do", "fault") if found.data["action"][key] not in advice[key]]
    roles = {e["at"]["line"]: e["role"] for e in found.timeline}
    wrong += [f"line {r['line']} is {roles.get(r['line'])}, not {r['role']}" for r in wanted["roles"] if roles.get(r["line"]) != r["role"]]
    if wanted["cause_line"] and roles.get(wanted["cause_line"]) != "cause":
        wrong.append(f"the cause is not line {wanted['cause_line']}")
    if bool(found.cause["before_log"]) != wanted["before_log"]:
        wrong.append(f"the cause is {'not ' * wanted['before_log']}said to be before the log")
    if not helps(advice, found):
        wrong.append("nothing that an expert says first is among what is read first")
    harmful = [r["id"] for r in found.data["remedies"] for pattern in advice["harm"] if re.search(pattern, " ".join([r["title"], *r["do"]]))]
    return wrong + [f"remedy {name} does harm" for name in harmful]


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    tap.parse_knowledge(unhang)
    cases = sorted(path.parent for path in LOGS.glob("*/case.json"))
    t.ok(len(cases) >= 30, "there are logs", f"{len(cases)} in {LOGS}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda case: unhang.explain(case / "log.txt"), cases))
    for case, answer in zip(cases, answers):
        wanted = json.loads((case / "case.json").read_text())
        known = KNOWN_WRONG.get(case.name, {})
        wrong = [*answer.complaints, *made_up(answer, (case / "log.txt").read_text()), *judge(wanted, answer)]
        complaints = [problem for problem in wrong if problem not in known] + [f"no longer wrong, so take it from KNOWN_WRONG: {problem}" for problem in known if problem not in wrong]
        t.no_complaints(complaints, f"{case.name}: {wanted['what_happened']}")
    t.same(sorted(set(KNOWN_WRONG) - {case.name for case in cases}), [], "each case that is known to be wrong is there")
    t.end()


if __name__ == "__main__":
    main()
