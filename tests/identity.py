#!/usr/bin/env python3
"""One failure, asked in four ways (a live look, the watch, a bundle, a run): the same class, kernel, process and id."""
import json
import pathlib
import shlex
import shutil
import sys

import emulated
import job_ends
import kfd
import tap

HEALTHY = {"busy-healthy", "idle", "hip"}  # and hip-hang, until a program runs there: that is what a job here does
BLOCKS = {"read-blocks"}  # nobody can look there, so nobody has an answer; blocked.py has it
PLANS = "fault kernel fill launch 7 at argument 0 plus 8K\n    exception kernel saxpy launch 8 illegal-instruction\n    exception kernel reduction packet"
# Jobs that fail with an incident, $P is the program. A crash on the host and a call that does not return have none: job_ends.py has those. And whether others than their recorder tell of it: their output, the kernel's log.
LOGGED, RECORDED, SAID = "logged", "recorded", "said"
JOBS = {
    "reads beyond a buffer": ("$P read-beyond 1", LOGGED),
    "reads what was freed": ("$P read-freed", LOGGED),
    "a planned fault": ("$P series 20", LOGGED),
    "a kernel that is nowhere": ("$P lost-kernel", LOGGED),
    "an assertion of the device": ("$P index-beyond", RECORDED),
    "an illegal instruction": ("$P many 1 20", RECORDED),
    "a wrong packet": ("$P kernels", RECORDED),
    "a collective that times out": (f"sh -c {shlex.quote('echo ' + shlex.quote(job_ends.WATCHDOG.format(3)) + ' >&2; kill -ABRT $$')}", SAID),
}

# All ways but that of a run, one after the other on one machine. Its argument: --once, where the log tells it or one look shows it. Otherwise the watch
# watches until it has explained one: that nothing moves is only certain after some time, and how long that takes depends on how busy this machine is.
ASK = """
ask() {{
    mkdir -p {d}/hooks; printf 'quiet 1\\nsuspect-after 1\\nhung-after 2\\n' > {d}/watch.conf
    {u} --json > {d}/live.json 2> {d}/live.err
    {u} capture -o {d}/own.tar.zst > /dev/null 2>&1; {u} explain {d}/own.tar.zst --json > {d}/bundle.json 2> {d}/bundle.err
    {u} watch --state-dir {d}/state --run-dir {d}/run --hooks-dir {d}/hooks --config {d}/watch.conf $1 > {d}/watch.out 2>&1 &
    W=$! n=0; [ "$1" ] || until ls {d}/state/incidents/*/diagnosis.json > /dev/null 2>&1 || [ $n -gt 900 ]; do sleep 0.1; n=$((n+1)); done
    [ "$1" ] || kill $W; wait $W
}}
"""


def value(incident, name):
    return next((f["value"] for f in incident["facts"] if f["name"] == name), None)


def told(*paths):
    """{id: (class, kernel, process)} of the incidents of diagnoses. None: not known in this way."""
    found = {}
    for path in paths:
        try:
            incidents = json.loads(path.read_text())["incidents"]
        except (OSError, ValueError, KeyError):
            continue
        for i in incidents:
            owners = [p["pid"] for p in i["processes"] if p["role"] == "owner"]
            found[i["id"]] = (i["cause"]["class"], value(i, "kernel_name"), owners[0] if owners else None)
    return found


def watched(unhang, d):
    """The same of what the watch stored, which does not explain each."""
    run = unhang.run("incidents", "--json", "--state-dir", d / "state")
    listed = json.loads(run.stdout)["incidents"] if run.stdout else []
    return {**{i["id"]: (i["class"], None, None) for i in listed}, **told(*(d / "state" / "incidents" / i["id"] / "diagnosis.json" for i in listed))}


def machine(unhang, scenario, name, script):
    """Runs a script there; what a live look, a bundle and the watch told."""
    d = pathlib.Path(unhang.directory) / name
    d.mkdir()
    done = unhang.run("emulate", scenario, "--", "env", "-u", "UNHANG_KFD", "sh", "-c", (ASK + script).format(d=d, u=unhang.binary), timeout=400)
    ways = {"live": told(d / "live.json"), "bundle": told(d / "bundle.json"), "watch": watched(unhang, d)}
    return d, ways, done.stderr.decode()[-300:]


def differences(ways, wanted):
    """Each way tells of each incident that is wanted, and what several of them know of it is the same in all."""
    wrong = [] if wanted else ["no incident"]
    for name in wanted:
        wrong += [f"{way} does not tell of {name}: {own}" for way, own in ways.items() if name not in own]
        for i, what in enumerate(("class", "kernel", "process")):
            known = {way: own[name][i] for way, own in ways.items() if own.get(name, (None,) * 3)[i] is not None}
            if len(set(known.values())) > 1 or (what == "class" and not known):
                wrong.append(f"{what} of {name}: {known}")
    return wrong


def test_scenarios(t, unhang):
    listed = [line.split()[0] for line in unhang.run("emulate", "--list").stdout.decode().splitlines()]
    for scenario in sorted(set(listed) - HEALTHY - BLOCKS - {"hip-hang"}):
        _, ways, said = machine(unhang, scenario, scenario, "ask --once")
        t.no_complaints([x + said for x in differences(ways, list(ways["live"])[:1])], scenario)


def run_of(unhang, runs):
    """What a run and its bundle tell of the first try. A bundle that the run calls cut short, because the machine was too busy to save it, tells nothing."""
    cut = any("cut short" in (t["lacking"] or "") for report in runs.glob("*/report.json") for t in json.loads(report.read_text())["tries"])
    bundle = unhang.directory / "explained.json"
    bundle.write_bytes(b"".join(unhang.run("explain", b, "--json").stdout for b in runs.glob("*/1/bundle.tar.zst")))
    later = unhang.directory / "later.json"
    later.write_bytes(b"".join(unhang.run("explain", run, "--json").stdout for run in runs.glob("*")))
    return {"run": told(*runs.glob("*/1/diagnosis.json")), "run, later": told(later), **({} if cut else {"bundle of the run": told(bundle)})}


def test_jobs(t, unhang, programs):
    """All on one machine, one after the other; it is asked when they have failed."""
    scenario = unhang.write("jobs.scenario", kfd.SCENARIO.format(PLANS))
    script = "".join(f"{{u}} run --state-dir {{d}}/runs{n} --level 1 -- {command.replace('$P', str(programs.program))} > {{d}}/out{n} 2>&1; "
                     for n, (command, _) in enumerate(JOBS.values()))
    d, others, said = machine(unhang, scenario, "jobs", script + "ask --once")
    for n, (name, (_, how)) in enumerate(JOBS.items()):
        own = run_of(unhang, d / f"runs{n}")
        ways = {**own, **others} if how == LOGGED else own
        t.no_complaints([x + said for x in differences(ways, list(own["run"]))], name)


def test_hang(t, unhang, programs):
    """A job whose kernel does not end. Its run is stopped while the others look, so that the job stands until all were asked: no time decides."""
    run = f"{{u}} run --state-dir {{d}}/runs --level 1 --hang-after 10 -- sh -c 'echo > {{d}}/begun; exec {programs.program} series 3' > {{d}}/out 2>&1"
    script = (f"{run} & R=$!; until [ -e {{d}}/begun ]; do sleep 0.1; done; kill -STOP $R; n=0; "
              "until {u} --json 2>/dev/null | grep -q '\"incident\"' || [ $n -gt 100 ]; do n=$((n+1)); done; ask; kill -CONT $R; wait $R")
    d, ways, said = machine(unhang, "hip-hang", "hang", script)
    ways.update(run_of(unhang, d / "runs"))
    t.no_complaints([x + said for x in differences(ways, list(ways["live"])[:1])], "a job that hangs")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("this machine can make no emulated ones")
    test_scenarios(t, unhang)
    programs = kfd.Programs(unhang)
    if not shutil.which("hipcc") or not programs.library.exists() or programs.compile():
        t.skip("failing jobs", "no hipcc here")
    else:
        unhang.environment["LD_PRELOAD"] = str(programs.library)
        test_jobs(t, unhang, programs)
        test_hang(t, unhang, programs)
    t.end()


if __name__ == "__main__":
    main()
