#!/usr/bin/env python3
"""unhang try: jobs whose cause is known, on the emulated KFD with ROCm's own runtime; and what needs no GPU. UNHANG_TEST_ALL=1: also those that take longer."""
import html
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import emulated
import jsonschema
import kfd
import races
import tap

SCHEMA = jsonschema.Draft202012Validator(json.loads((tap.HERE / ".." / "docs" / "try.schema.json").read_text()))
SEED = "allocations 48 7340032 , allocations 5000 3584".split()
# Fails unless a variable is set that an experiment sets.
SWITCH = ["sh", "-c", 'test "$HSA_ENABLE_SDMA" = 0']


class Try:
    def __init__(self, unhang):
        self.unhang = unhang
        kfd.remember(unhang)
        self.library = pathlib.Path(unhang.binary).parent / "libunhang-kfd.so"
        self.states = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-try-"))

    def start(self, *words, plan="gpu gfx90a", **more):
        return subprocess.Popen([self.unhang.binary, "try", *([] if "--recorded" in words else ["--unrecorded"]), "--state-dir", self.states, *(str(w) for w in words if w != "--recorded")], env={**self.unhang.environment, "UNHANG_KFD": plan},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, *words, **more):
        job = self.start(*words, **more)
        job.out, job.err = job.communicate(timeout=1200)
        return job

    def answer(self, t, options, command, what, plan="gpu gfx90a"):
        done = self.run("--json", "--quiet", *options, "--", *command, plan=plan)
        answer = json.loads(done.out) if done.out else {"verdict": done.err, "explanation": None, "experiments": [], "explanations": []}
        t.no_complaints([e.message for e in SCHEMA.iter_errors(answer)], f"{what}: JSON as the schema has it")
        return done, answer

    def gpu(self, options=()):
        return ["--env", f"LD_PRELOAD={self.library}", *options]


def first(answer):
    return max(answer["explanations"], key=lambda e: e["weight"])["id"] if answer["explanations"] else None


def ends(answer):
    return {e["id"]: e["answer"] for e in answer["experiments"]}


# --- without a GPU ---

def alive(word):
    """Processes whose arguments have this word."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if word.encode() in path.read_bytes().split(b"\0") else []
        except OSError:
            pass
    return found


def recordings_of(pid):
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return pathlib.Path(next(w for w in words if w.startswith(b"UNHANG_RECORDING=")).decode().partition("=")[2]).parent


def test_places(t, y):
    """The file `place` names what a trial that was killed left behind. What is no place of a trial, or another's, is not removed, whoever wrote it there."""
    prey = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-prey-"))
    beside, link, others = (pathlib.Path(tempfile.mkdtemp(prefix="unhang-trial-", dir="/dev/shm")) for _ in range(3))
    names = [beside.with_name(f"unhang-trial-{n}") for n in ("aaaaaa", "bbbbbb", "cccccc")]
    for path, name in zip((beside, link, others), names):
        path.rename(name)
    beside, link, others = names
    link.rmdir()
    link.symlink_to(prey)
    (prey / "kept").touch()
    (others / "kept").touch()
    left = beside.with_name("unhang-trial-dddddd")
    left.mkdir()
    done = y.run("--json", "--quiet", "--low-rate", "60", "--", "true")
    place = pathlib.Path(json.loads(done.out)["directory"]) / "place"
    corner = pathlib.Path("/dev/shm/zz")  # as long as the end of a place's name
    corner.mkdir(exist_ok=True)
    (corner / "kept").touch()
    door = corner.with_name("unhang-trial-")
    door.mkdir(exist_ok=True)
    cases = [(f"{door}/../zz", corner, "a path of the right length"), (prey, prey, "any directory"), (f"{beside}/../..{prey}", prey, "a path that leads elsewhere"), (link, prey, "a link"), (f"{link}/", prey, "a link with a slash")]
    if os.geteuid() == 0:
        os.chown(others, 65534, 65534)
        cases.append((others, others, "another user's"))
    for told, stays, what in cases:
        place.write_text(str(told))
        y.run("--quiet", "--low-rate", "60", "--", "true")
        t.ok((stays / "kept").exists(), f"{what} is not removed")
    place.write_text(str(left))
    y.run("--quiet", "--low-rate", "60", "--", "true")
    t.ok(not left.exists(), "what a trial left behind is")
    link.unlink()
    for path in (prey, beside, others, corner, door):
        shutil.rmtree(path)


def test_another_user(t, y):
    """What another user put there tells of runs that never were. Root refuses it and makes nothing there, a container's root as well."""
    done = y.run("--json", "--quiet", "--low-rate", "60", "--", "true")
    name = pathlib.Path(json.loads(done.out)["directory"]).name
    for what, path, others in (("state directory", "his", "his"), ("directory of the trial", "ours", f"ours/{name}"), ("journal", "told", f"told/{name}/journal"),
                               ("link to a state directory", "link", "link"), ("link on the way", "link/new", "link")):
        (y.states / others).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beyond = y.states / "beyond"
        beyond.mkdir(exist_ok=True)
        if others == "link":
            (y.states / others).unlink(missing_ok=True)
            (y.states / others).symlink_to(beyond)
        elif what == "journal":
            (y.states / others).write_text("1 0 0 1 0 0 control\n")
        else:
            (y.states / others).mkdir()
        os.chown(y.states / others, 65534, -1, follow_symlinks=False)
        for word in ("try",) if name in others else ("try", "bisect"):
            seen = [subprocess.run([y.unhang.binary, word, "--quiet", "--state-dir", y.states / path, "--low-rate", "60", "--", "true"], capture_output=True, text=True,
                                   env={**y.unhang.environment, "UNHANG_CONTAINER": container}) for container in ("no", "yes")]
            made = list(beyond.iterdir()) + (list((y.states / others).iterdir()) if what != "journal" else [])
            t.ok(all(d.returncode == 2 and "user" in d.stderr for d in seen) and not made, f"{word}: a {what} of another user is refused", (seen, made))


def test_attacked(t, y):
    """What a stranger, a closed terminal or a job that hides could do."""
    mark = f"{70000 + os.getpid()}"
    for word in ("try", "bisect"):
        for number, ends in ((signal.SIGHUP, "a terminal that is closed ends the trial in order"), (signal.SIGKILL, "a kill ends it")):
            job = subprocess.Popen([y.unhang.binary, word, "--quiet", "--state-dir", y.states / "stop", "--", "sh", "-c", f"setsid sleep {mark} & exec sleep {mark}"],
                                   env=y.unhang.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            tap.wait_for(lambda: sum(pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n" for p in alive(mark)) == 2)
            memory = [pathlib.Path(next((y.states / "stop").glob("*/place")).read_text()), recordings_of(alive(mark)[0])]
            there = [p.is_dir() for p in memory]
            job.send_signal(number)
            t.ok(job.wait(timeout=120) == (1 if number == signal.SIGHUP else -number) and there == [True, True] and tap.wait_for(lambda: not alive(mark) and not any(p.exists() for p in memory), 60),
                 f"{word}: {ends}, with all that the job started and its memory", (job.returncode, memory, there, alive(mark)))
            shutil.rmtree(y.states / "stop")
    y.run("--quiet", "--low-rate", "90", "--", "sh", "-c", f"setsid sleep {mark} </dev/null >/dev/null 2>&1 & exit 0")
    t.same(alive(mark), [], "what a run sends into a session of its own ends with it")
    open_to_all = y.states / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    done = y.run("--state-dir", open_to_all, "--", "true")
    t.ok(done.returncode == 2 and ("not only its owner may write" in done.err or "others can write there" in done.err) and not list(open_to_all.iterdir()),
         "a directory that others can write is refused", done.err)
    done = y.run("--json", "--quiet", "--low-rate", "60", "--", "true")
    own = pathlib.Path(json.loads(done.out)["directory"])
    own.chmod(0o777)
    done = y.run("--quiet", "--low-rate", "60", "--", "true")
    t.ok(done.returncode == 2 and ("not only its owner may write" in done.err or "others can write there" in done.err), "and so is one below it", done.err)
    own.chmod(0o700)
    test_places(t, y)
    if os.geteuid():
        t.skip("another user's directory", "not root")
    else:
        test_another_user(t, y)
    first_one = y.start("--quiet", "--", "sh", "-c", f"sleep {mark}")
    tap.wait_for(lambda: alive(mark))
    done = y.run("--quiet", "--", "sh", "-c", f"sleep {mark}")
    t.ok(done.returncode == 2 and "at work already" in done.err, "the same twice at once is refused", done.err)
    first_one.terminate()
    first_one.communicate(timeout=120)
    done = y.run("--quiet", "--fails-if", "nan=/nonexistent/out.npy", "--", "true")
    t.ok(done.returncode == 1 and "No such file" in done.out, "results that are not there are no success", done.out)
    done = y.run("--quiet", "guard", "--", "true")
    t.ok(done.returncode == 1 and "had no allocation of the job to look at" in done.out and "no finding" not in done.out, "a job without HIP is no all-clear of the guard", (done.returncode, done.err, done.out))
    # Killed in the second run with an allocator, it goes on behind the first.
    place = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-try-"))
    job = ["--low-rate", "60", "guard", "pool", "--", "sh", "-c", f'[ -z "$UNHANG_ALLOCATIONS" ] || {{ [ -e {place}/go ] || [ ! -e {place}/ran ] || sleep 60; touch {place}/ran; }}']
    killed = y.start("--quiet", *job)
    journals = lambda: [p for p in y.states.glob("*/journal") if {"guard", "pool"} & set(p.read_text().split())]
    t.ok(tap.wait_for(journals), "one run with an allocator is noted")
    killed.kill()
    killed.communicate()
    (place / "go").touch()
    done = y.run("--quiet", *job)
    t.ok(done.returncode == 1 and "had no allocation of the job to look at" in done.out and "No access out of bounds" not in done.out, "nor is it one when a trial goes on", (done.returncode, done.err, done.out))
    shutil.rmtree(place)


def test_plain(t, y):
    done, answer = y.answer(t, ["--low-rate", "60"], ["true"], "a job that never fails")
    t.same((done.returncode, answer["verdict"], answer["runs"], answer["explanation"]), (0, "no-failure", 8, None), "a job that never fails is told so")
    done, answer = y.answer(t, [], ["false"], "a job that always fails")
    t.same((first(answer), answer["as_it_is"]["failed"], set(ends(answer).values())), ("whatever", 4, {"fails"}), "a job that always fails, whatever is changed")
    done, answer = y.answer(t, [], SWITCH, "a switch")
    t.same((answer["verdict"], answer["explanation"], ends(answer)["no-sdma"]), ("explained", "copy-engine", "gone"), "a job that one switch cures")
    t.ok(answer["remedies"] == ["sdma-off"] and next(e for e in answer["experiments"] if e["id"] == "no-sdma")["error"] <= 0.05, "with its remedy, and the error that was promised",
         answer)
    told = json.loads(y.unhang.run("explain", "--json", f"{answer['directory']}/try.json").stdout)
    t.ok(told["sources"][0]["kind"] == "try" and [i["cause"]["title"][:23] for i in told["incidents"]] == ["The copy engines (SDMA)"], "explain reads the answer", json.dumps(told)[:1500])
    done = y.run("--", *SWITCH)
    test_example(t, done)
    t.ok(len(done.out.splitlines()) <= 24 and max(map(len, done.out.splitlines())) <= 80 and "The copy engines (SDMA)" in done.out and "whatever" not in done.out, "the same on one screen", done.out)
    t.ok("the plan" in done.err and "would take about" in done.err, "behind a plan with times", done.err)
    done = y.run("--recorded", "--quiet", "--fails-if", "status=1", "--", "false")
    said = re.sub(r" \\\\\n +|\s+", " ", done.out)
    t.ok(done.returncode == 2 and "No process of this job used the GPU" in said and "1 in " in said and "unhang try --fails-if status=1 --unrecorded -- false" in said,
         "one of which nothing is recorded ends after the first failure", done.out)
    for options, why in ((["none-such", "--", "true"], "unhang knowledge list experiment"), (["gaurd", "--", "true"], "did you mean guard?"), (["guard", "--fresh", "--", "true"], "options go first"), (["guard"], "needs a command"), (["--env", "x", "--", "true"], "not NAME=VALUE"),
                         (["--fails-if", "nonsense", "--", "true"], "is none of status")):
        done = y.run(*options)
        t.ok(done.returncode == 2 and why in done.err, f"{' '.join(options)} is refused", done.err)
    done = y.run("--quiet", "--", "/nowhere/program")
    t.ok(done.returncode == 1 and "could not be started" in done.out and "Next" not in done.out, "a command that is none, which another run does not change", done.out + done.err)


def test_again(t, y):
    """The next command works when it is copied: with every option, in whole lines."""
    page, odd = y.states / "page.html", "it's \"so\""
    options = ["--fails-if", "status or output=a b", "--hang-after", "50", "--env", f"ODD={odd}", "--env", "HSA_ENABLE_SDMA=1"]
    job = ["sh", "-c", 'echo "$ODD"; test "$HSA_ENABLE_SDMA" = 0']
    done = y.run("--quiet", "--html", page, *options, "no-sdma", "--", *job)
    command = re.search(r"^  Next .*\n +(HSA_(?:.*\\\n)*.*)", done.out, re.M)
    ran = subprocess.run(["sh", "-c", command[1] if command else "exit 9"], capture_output=True, text=True)
    t.ok((ran.returncode, ran.stdout) == (0, f"{odd}\n") and "'sh'" not in done.out, "a command for a shell, as it stands", (done.out, ran))
    words = html.unescape(re.search(r'<p class="place">(unhang .*)</p>', page.read_text())[1])
    rows = dict(re.findall(r'<span class="what">([a-z-]+):.*?</span>.*?<span>([a-z ]*)</span></div>', page.read_text(), re.S))
    told = dict(re.findall(r"^  (no-sdma) .*: ((?:probably )?gone)$", done.out, re.M))
    t.ok(told and rows == told, "the page names the experiment, and says the same of it", (rows, done.out))
    asked = shlex.split(words)
    t.same(asked, ["unhang", "try", *options, "no-sdma", "--", *job], "the page has what was asked for")
    done, answer = y.answer(t, [*options, "no-sdma"], job, "the same in JSON")
    t.same((answer["options"], answer["command"]), (options, job), "and so has the JSON")
    # A race is for bisect, which gets what try was given.
    done = y.run("--quiet", *options[:4], "serialize-kernels", "--", "sh", "-c", 'test "$AMD_SERIALIZE_KERNEL" = 3')
    t.ok("unhang bisect --fails-if 'status or output=a b' --hang-after 50 -- sh -c" in re.sub(r" \\\n +", " ", done.out), "bisect gets the options of try", done.out)


def counted(y, name, condition):
    """A job that knows the number of its run: it fails under this condition on $n."""
    count = y.states / name
    return ["sh", "-c", f'n=$(cat {count} 2>/dev/null || echo 0); n=$((n+1)); echo $n > {count}; if [ {condition} ]; then echo steps: $n; printf "\\033[31mno answer from the server\\n\\n" >&2; exit 3; fi']


def test_rare(t, y):
    done = y.run("--low-rate", "30", "--", *counted(y, "once", "$n = 12"))
    t.ok("Too rare to tell: it failed in 1 of 18 runs" in done.out and "Bare              1 of 9 failed" in done.out and "hides" not in done.out,
         "a failure without the recorder that may be chance", done.out)
    done = y.run("--low-rate", "30", "--", *counted(y, "bare", "$n -gt 9"))
    t.ok("It fails, but not while unhang looks" in done.out and "Bare              4 of 4 failed" in done.out and "It said           [31mno answer from the server" in done.out,
         "and failures that are none", done.out)
    done = y.run("--low-rate", "30", "--", *counted(y, "early", "$n -le 2"))
    t.ok("Too rare to tell: it failed in 2 of 25 runs, which is below 30 %" in done.out and "run 20, 2 failed" in done.err and "fewer than 30 %: ends after at most" in done.err,
         "a job that stops failing ends the control, with a count meanwhile", done.out + done.err)


def test_gpus(t, y):
    """Runs that are spread over GPUs: the variables that choose one are all that a job without a GPU sees of it."""
    for bad in (0, 1):
        _, answer = y.answer(t, ["--jobs", "2"], ["sh", "-c", f'test "$ROCR_VISIBLE_DEVICES" != {bad}'], f"a job that fails on GPU {bad}")
        rates = {g["gpu"]: g["rate"] for g in answer["gpus"]}
        t.same((answer["verdict"], answer["explanation"], ends(answer)["another-gpu"]), ("explained", "bad-gpu", "gone"), f"a job that fails on GPU {bad} only: it is this GPU")
        t.ok(rates[bad]["failed"] == rates[bad]["runs"] and not rates[1 - bad]["failed"], "with how often it failed on each", rates)
    _, answer = y.answer(t, ["--jobs", "2"], ["false"], "a job that fails on both")
    t.ok(first(answer) == "whatever" and ends(answer).get("another-gpu", "fails") == "fails", "a job that fails on both: it is no GPU", answer)
    seen = y.states / "seen"
    for word in ("try", "bisect"):
        run = y.unhang.environment | {"ROCR_VISIBLE_DEVICES": "3,5"}
        subprocess.run([y.unhang.binary, word, "--quiet", "--state-dir", y.states / "gpus", "--jobs", "2", "--low-rate", "60", "--", "sh", "-c", f"echo $ROCR_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES >> {seen}"],
                       env=run, capture_output=True)
        lines = seen.read_text().split("\n")[:-1]
        t.same((set(lines), len(lines)), ({"3 0", "5 0"}, 8 if word == "try" else 2), f"{word}: each run has one of those that the user left")
        seen.unlink()
        done = subprocess.run([y.unhang.binary, word, "--quiet", "--state-dir", y.states / "gpus", "--jobs", "3", "--", "true"], env=run, capture_output=True, text=True)
        t.ok(done.returncode == 2 and "the job sees 2" in done.stderr, f"{word}: more runs at a time than GPUs are refused", done.stderr)
    done = y.run("another-gpu", "--", "true")
    t.ok(done.returncode == 2 and "needs a second GPU" in done.err, "another GPU needs one", done.err)


TWO_GPUS = """scenario two-gpus
    title   Two MI210, of which the first faults
    expect  health idle
    expect  exit 0
gpu 0000:03:00.0
    part      gfx90a
gpu 0000:83:00.0
    part      {other}
kfd
    fault     kernel fill on 0 at 0xdead0000
"""


def test_another_gpu(t, y, programs):
    """On an emulated machine with two GPUs, of which one is broken."""
    scenario = y.states / "two.scenario"

    def inside(*words, other="gfx90a", **more):
        scenario.write_text(TWO_GPUS.format(other=other))
        command = [y.unhang.binary, "emulate", scenario, "--", y.unhang.binary, "try", "--json", "--quiet", "--fresh", "--state-dir", y.states / "two", *words, "--", programs.program, "series", "3"]
        return subprocess.run(command, capture_output=True, text=True, env=y.unhang.environment | more)
    done = inside()
    answer = json.loads(done.stdout) if done.stdout else {"explanation": done.stderr, "experiments": []}
    t.same((answer["explanation"], ends(answer).get("another-gpu")), ("bad-gpu", "gone"), "a GPU that faults: the other one does not")
    t.ok("memtest-vulkan" in answer.get("remedies", []), "and what follows", answer)
    for why, done in (("of another kind", inside("another-gpu", other="gfx1100")), ("if the user has chosen", inside("another-gpu", HIP_VISIBLE_DEVICES="1"))):
        t.ok(done.returncode == 2 and "needs a second GPU" in done.stderr, f"another GPU is not tried {why}", done.stderr)


def test_explained(t, y):
    """Others that count are evidence, too."""
    race = {"schema": "unhang/bisect/1", "verdict": "race", "pattern": "late-read", "as_it_is": {"runs": 16, "failed": 7}, "racer": {"what": "kernel", "name": "fill<4>"},
            "victim": {"what": "host"}, "widened": {"runs": 12, "failed": 11}, "in_order": {"runs": 9, "failed": 0}}
    place = y.states / "bisect.json"
    half = {"runs": 16, "failed": 7}
    for changed, wanted in (({}, ["gpu-work-race"]), ({"verdict": "no-race"}, []), ({"widened": None}, []), ({"in_order": None}, []), ({"as_it_is": None}, []), ({"widened": half}, []),
                            ({"in_order": half}, []), ({"in_order": half, "another_cause": True}, ["gpu-work-race"]), ({"in_order": {"runs": 0, "failed": 0}}, []), ({"widened": {"runs": 3, "failed": 4}}, []), ({"racer": None}, []),
                            ({"victim": {"what": "kernel", "name": ""}}, [])):
        place.write_text(json.dumps({**race, **changed}))
        told = json.loads(y.unhang.run("explain", "--json", str(place)).stdout)
        t.same([i["cause"]["class"] for i in told["incidents"]], wanted, f"explain reads an answer of bisect with {changed}")
    place.write_text(json.dumps(race))
    said = " ".join(y.unhang.run("explain", str(place)).stdout.decode().split())
    t.ok("With the two in order, 0 of 9 failed. With the first one late, 11 of 12 failed." in said and "Put the two launches in order" in said and "Nothing specific" not in said and "driver confirms" not in said,
         "with its numbers and what mends it", said)
    explained = {"schema": "unhang/try/2", "verdict": "explained", "explanation": "race-launches", "confidence": 0.97, "as_it_is": half, "found": None, "experiments": [{}]}
    for changed, wanted in (({}, ["gpu-work-race"]), ({"confidence": None}, []), ({"confidence": 7}, []), ({"experiments": []}, []), ({"as_it_is": None}, []), ({"as_it_is": {"runs": 9, "failed": 0}}, []),
                            ({"explanation": None}, [])):
        place.write_text(json.dumps({**explained, **changed}))
        told = json.loads(y.unhang.run("explain", "--json", str(place)).stdout)
        t.same([i["cause"]["class"] for i in told["incidents"]], wanted, f"explain reads an answer of try with {changed}")
    for suspect, remedy, now in (("race-launches", "bisect-race", "what unhang try found"), ("graphs", "graph-capture-off", "what unhang try found"), ("memory-misuse", None, "Let the guard name")):
        place.write_text(json.dumps({**explained, "explanation": suspect, "confidence": 0.88}))
        said = y.unhang.run("explain", str(place)).stdout.decode()
        t.ok("Confidence: high" not in said and "by rough" in said and now in " ".join(said.split()) and "reboot" not in said and "driver confirms" not in said and "alone would fail" not in said and (not remedy or f"[{remedy}]" in said), f"{suspect}: explain is no surer than try, and has its remedy", said)
    line = ("[rocjitsu-dbi-hooks] ConSan conflict reader=99126045842144 first_index=2 second_index=13 first_kind=2 second_kind=1 first_owner=0 second_owner=1 epoch=0 "
            "generation=2\n")
    place.write_text(line)
    told = json.loads(y.unhang.run("explain", "--json", str(place)).stdout)
    t.same([i["cause"]["class"] for i in told["incidents"]], ["gpu-work-race"], "explain reads a line of ConSan")


def test_example(t, done):
    """The example of docs/TRY.md and of the man page."""
    lines = done.out.splitlines()
    # Which experiments lead there, and with it the confidence, depends on how long runs take.
    wanted = [lines[0].split(":")[0], *(line.split(" of ")[0] if "no-sdma" in line else line for line in lines if line.startswith(("  As it is ", "  no-sdma ", "  Remedy ")))]
    for name in ("docs/TRY.md", "man/unhang.1"):
        page = (tap.HERE / ".." / name).read_text()
        t.same((len(wanted), [line for line in wanted if line not in page and name == "docs/TRY.md" or wanted[0] not in page]), (4, []), f"the example of {name}")


def test_identity(t, y):
    """One that was stopped is resumed only by the same options."""
    def resumed(*options):
        return json.loads(y.run("--json", "--quiet", "--budget", "1", "--hang-after", "1", *options, "--", "sleep", "60").out)["resumed"]
    t.same([resumed(), resumed(), resumed("--env", "A=1"), resumed("--low-rate", "9"), resumed("--fails-if", "hang")], [False, True, False, False, False],
           "other options begin another trial")
    script = y.unhang.write("job.sh", "sleep 60\n")

    def goes_on(*options, **variables):
        before, y.unhang.environment = y.unhang.environment, {**y.unhang.environment, **variables}
        done = y.run("--json", "--quiet", "--budget", "1", "--hang-after", "1", *options, "--", "sh", script)
        y.unhang.environment = before
        return done.returncode, json.loads(done.out)["resumed"] if done.out else done.err
    first_one, other = goes_on(), goes_on(AMD_SERIALIZE_KERNEL="3")
    t.ok(first_one == (1, False) and other[0] == 2 and "has changed since this trial was stopped (AMD_SERIALIZE_KERNEL)" in other[1], "a variable that matters has changed", (first_one, other))
    script.write_text("sleep 61\n")
    other = goes_on()
    t.ok(other[0] == 2 and f"({script})" in other[1], "or the script", other)
    t.same(goes_on("--fresh"), (1, False), "--fresh begins anew")


def test_budget(t, y):
    began = time.monotonic()
    done, answer = y.answer(t, ["--budget", "1", "--hang-after", "1"], ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], "a job that does not listen")
    t.ok((answer["verdict"], answer["as_it_is"]["failed"]) == ("unfinished", 1) and time.monotonic() - began < 15, "the budget ends also a job that ignores SIGTERM", answer)


def kill_at_random(y, job, span, options=(), **more):
    """How often it was killed with what it runs: each time some part of a second after one more run was counted."""
    chance, kills = random.Random(7), 0

    def counted():
        return sum(len(p.read_bytes().splitlines()) for p in y.states.glob("*/journal"))
    while kills < 4:
        before, running = counted(), y.start("--quiet", *options, "--", *job, start_new_session=True, **more)
        tap.wait_for(lambda: counted() > before or running.poll() is not None)
        time.sleep(chance.random() * span)
        ended = running.poll() is not None
        if not ended:
            os.killpg(running.pid, signal.SIGKILL)
            kills += 1
        running.communicate()
        if ended:
            break
    return kills


def test_stopped(t, y):
    """Killed at random with what it runs: the answer is that of one that was not."""
    place, made = y.states / "counted", y.states / "made"
    # A failure by number: the same runs come again in every round.
    job = ["sh", "-c", f'echo >> {made}; n=$(cat {place} 2>/dev/null || echo 0); sleep 0.02; test "$HSA_ENABLE_SDMA" = 0 && exit 0; echo $((n + 1)) > {place}; exit 1']
    _, whole = y.answer(t, ["--fresh"], job, "not stopped")
    made.unlink()
    kills = kill_at_random(y, job, 0.1)
    _, again = y.answer(t, [], job, "killed")
    keys = ("verdict", "explanation", "remedies", "as_it_is")  # which of two experiments comes first may depend on how long runs took
    t.same({k: again[k] for k in keys}, {k: whole[k] for k in keys}, f"killed {kills} times: the same answer")
    runs = len(made.read_text().splitlines())
    t.ok(again["runs"] <= runs <= again["runs"] + kills, "and no run is made again, but those that were killed", (runs, again["runs"], kills))


def test_other_order(t, y):
    """A journal whose next run answers another question is cut there: else it would stand in the way of each round to come."""
    stopped = y.run("--fresh", "--json", "--quiet", "--budget", "1", "--hang-after", "1", "--", "sleep", "62")
    journal = pathlib.Path(json.loads(stopped.out)["directory"]) / "journal"
    journal.write_text("1 0 1 1000 0 0 control\n0 0 0 10 0 0 no-such-question\n")
    y.run("--quiet", "--budget", "1", "--hang-after", "1", "--", "sleep", "62")
    t.ok("no-such-question" not in journal.read_text() and journal.read_text().count("control") >= 2, "a journal is cut where it answers another question", journal.read_text())


# --- with one ---

def test_gpu(t, y, programs, races_program):
    done, answer = y.answer(t, y.gpu(["guard"]), [programs.program, "read-beyond", 1], "guard")
    t.ok((answer["explanation"], answer["runs"]) == ("memory-misuse", 5) and "past the end of hipMalloc" in answer["found"]["title"], "the guard finds an access beside an allocation",
         answer)
    done = y.run(*y.gpu(["guard"]), "--", programs.program, "read-beyond", "1")
    t.ok("(in the run that found it; `Fails by` is of an earlier one)" in (said := " ".join(done.out.split())) and "unhang explain -v /" in said.replace("\\ ", "") and "the plan: 1 run as it is, then 1 with the experiment" in done.err and "59" not in done.err,
         "its page names the run of each address, and its plan the runs that are made", done.out + done.err)
    done, answer = y.answer(t, y.gpu(), [programs.program, "index-beyond"], "an assertion")
    t.same((answer["verdict"], first(answer), answer["failure"]["class"], answer["runs"]), ("explained", "whatever", "hsa-queue-exception", 6),
           "an assertion of a kernel fails whatever is changed")
    done, answer = y.answer(t, y.gpu(["guard"]), [programs.program, "series", "2", ",", "pageable"], "a buffer that is only near")
    t.ok(answer["explanation"] != "memory-misuse" and ends(answer).get("guard") == "fails" and not answer["found"],
         "memory of the host some hundred KiB behind a buffer is no access beside it", answer)
    if not os.environ.get("UNHANG_TEST_ALL"):
        return
    kills = kill_at_random(y, [programs.program, "index-beyond"], 1, y.gpu())
    done, again = y.answer(t, y.gpu(), [programs.program, "index-beyond"], "killed on a GPU")
    t.ok(again["resumed"], "what was killed is resumed", again)
    t.same([again[k] for k in ("verdict", "explanation", "as_it_is", "runs")], [answer[k] for k in ("verdict", "explanation", "as_it_is", "runs")],
           f"killed {kills} times: the same answer, in as many runs")
    done, answer = y.answer(t, y.gpu(), [races_program, 36], "a race", plan=races.PLAN)
    t.ok(first(answer) in ("race-launches", "queues") and ends(answer).get("serialize-kernels", "gone") == "gone", "a race between two kernels", answer)
    if kfd.ROOT:  # 5.2 ignores the variable
        done, answer = y.answer(t, y.gpu(["launch-blocking"]), [races_program, 36], "HIP_LAUNCH_BLOCKING", plan=races.PLAN)
        t.same((first(answer), ends(answer)), ("race-launches", {"launch-blocking": "gone"}), "HIP_LAUNCH_BLOCKING takes a race away")
    done, answer = y.answer(t, y.gpu(["--env", "HSA_DISABLE_FRAGMENT_ALLOCATOR=1", "--hang-after", "10", "pool"]), [programs.program, *SEED], "seed 004",
                            plan="gpu gfx90a; hang allocation 3170")
    t.same((answer["explanation"], answer["remedies"], answer["failure"]["class"]), ("allocator", ["pool-small-allocations"], "silent-hang"), "the pool cures seed 004")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    y = Try(unhang)
    try:
        test_attacked(t, y)
        test_plain(t, y)
        test_again(t, y)
        test_rare(t, y)
        test_gpus(t, y)
        test_explained(t, y)
        test_identity(t, y)
        test_budget(t, y)
        test_stopped(t, y)
        test_other_order(t, y)
        programs = kfd.Programs(unhang)
        wrong = programs.compile() if shutil.which("hipcc") or kfd.ROOT else "there is no hipcc"
        if wrong:
            t.skip("jobs on the emulated KFD", wrong.splitlines()[0])
        else:
            if emulated.possible(unhang):
                test_another_gpu(t, y, programs)
            else:
                t.skip("a machine with two GPUs", "it needs FUSE and name spaces")
            test_gpu(t, y, programs, races.compile_races(pathlib.Path(unhang.binary).parent)[0])
    finally:
        shutil.rmtree(y.states, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
