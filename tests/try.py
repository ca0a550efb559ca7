#!/usr/bin/env python3
"""unhang try: jobs whose cause is known, on the emulated KFD with ROCm's own runtime; and what needs no GPU. UNHANG_TEST_ALL=1: also those that take longer."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

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
        self.library = pathlib.Path(unhang.binary).parent / "libunhang-kfd.so"
        self.states = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-try-"))

    def start(self, *words, plan="gpu gfx90a", **more):
        return subprocess.Popen([self.unhang.binary, "try", "--state-dir", self.states, *map(str, words)], env={**self.unhang.environment, "UNHANG_KFD": plan},
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


def test_attacked(t, y):
    """What a stranger, a closed terminal or a job that hides could do."""
    mark = f"{70000 + os.getpid()}"
    for word in ("try", "bisect"):
        job = subprocess.Popen([y.unhang.binary, word, "--quiet", "--state-dir", y.states / "hup", "--", "sh", "-c", f"sleep {mark} & exec sleep {mark}"],
                               env=y.unhang.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tap.wait_for(lambda: len(alive(mark)) == 2)
        job.send_signal(signal.SIGHUP)
        job.wait(timeout=120)
        t.ok(tap.wait_for(lambda: not alive(mark), 60), f"{word}: a terminal that is closed ends the job")
    y.run("--quiet", "--low-rate", "90", "--", "sh", "-c", f"setsid sleep {mark} </dev/null >/dev/null 2>&1 & exit 0")
    t.same(alive(mark), [], "what a run sends into a session of its own ends with it")
    open_to_all = y.states / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    done = y.run("--state-dir", open_to_all, "--", "true")
    t.ok(done.returncode == 2 and "others can write there" in done.err, "a directory that others can write is refused", done.err)
    prey = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-prey-"))
    done = y.run("--json", "--quiet", "--low-rate", "60", "--", "true")
    place = pathlib.Path(json.loads(done.out)["directory"]) / "place"
    place.write_text(f"/dev/shm/unhang-trial-aaaaaa/../../..{prey}")
    y.run("--quiet", "--low-rate", "60", "--", "true")
    t.ok(prey.is_dir(), "a place that leads elsewhere is not removed")
    prey.rmdir()
    first_one = y.start("--quiet", "--", "sh", "-c", f"sleep {mark}")
    tap.wait_for(lambda: alive(mark))
    done = y.run("--quiet", "--", "sh", "-c", f"sleep {mark}")
    t.ok(done.returncode == 2 and "at work already" in done.err, "the same twice at once is refused", done.err)
    first_one.terminate()
    first_one.communicate(timeout=120)
    done = y.run("--quiet", "--fails-if", "nan=/nonexistent/out.npy", "--", "true")
    t.ok(done.returncode == 1 and "No such file" in done.out, "results that are not there are no success", done.out)
    done = y.run("--quiet", "guard", "--", "true")
    t.ok(done.returncode == 1 and "No process of the job used HIP" in done.out, "a job without HIP is no all-clear of the guard", done.out)


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
    t.ok(len(done.out.splitlines()) <= 24 and max(map(len, done.out.splitlines())) <= 80 and "The copy engines (SDMA)" in done.out, "the same on one screen", done.out)
    t.ok("the plan" in done.err and "would take about" in done.err, "behind a plan with times", done.err)
    for options, why in ((["none-such", "--", "true"], "unhang knowledge list experiment"), (["gaurd", "--", "true"], "did you mean guard?"), (["guard", "--fresh", "--", "true"], "options go first"), (["guard"], "needs a command"), (["--env", "x", "--", "true"], "not NAME=VALUE"),
                         (["--fails-if", "nonsense", "--", "true"], "is none of status")):
        done = y.run(*options)
        t.ok(done.returncode == 2 and why in done.err, f"{' '.join(options)} is refused", done.err)
    done = y.run("--quiet", "--", "/nowhere/program")
    t.ok(done.returncode == 1 and "could not be started" in done.out, "a command that is none", done.out + done.err)


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
    explained = {"schema": "unhang/try/2", "verdict": "explained", "explanation": "race-launches", "confidence": 0.97, "as_it_is": half, "found": None, "experiments": [{}]}
    for changed, wanted in (({}, ["gpu-work-race"]), ({"confidence": None}, []), ({"confidence": 7}, []), ({"experiments": []}, []), ({"as_it_is": None}, []), ({"as_it_is": {"runs": 9, "failed": 0}}, []),
                            ({"explanation": None}, [])):
        place.write_text(json.dumps({**explained, **changed}))
        told = json.loads(y.unhang.run("explain", "--json", str(place)).stdout)
        t.same([i["cause"]["class"] for i in told["incidents"]], wanted, f"explain reads an answer of try with {changed}")
    line = ("[rocjitsu-dbi-hooks] ConSan conflict reader=99126045842144 first_index=2 second_index=13 first_kind=2 second_kind=1 first_owner=0 second_owner=1 epoch=0 "
            "generation=2\n")
    place.write_text(line)
    told = json.loads(y.unhang.run("explain", "--json", str(place)).stdout)
    t.same([i["cause"]["class"] for i in told["incidents"]], ["gpu-work-race"], "explain reads a line of ConSan")


def test_example(t, done):
    """The example of docs/TRY.md and of the man page."""
    lines = done.out.splitlines()
    # Which experiments lead there, and with it the confidence, depends on how long runs take.
    wanted = [lines[0].split(":")[0], *(line for line in lines if line.startswith(("  As it is ", "  no-sdma ", "  Remedy ")))]
    for name in ("docs/TRY.md", "man/unhang.1"):
        page = (tap.HERE / ".." / name).read_text()
        t.same((len(wanted), [line for line in wanted if line not in page and name == "docs/TRY.md" or wanted[0] not in page]), (4, []), f"the example of {name}")


def test_identity(t, y):
    """One that was stopped is resumed only by the same options."""
    def resumed(*options):
        return json.loads(y.run("--json", "--quiet", "--budget", "1", "--hang-after", "1", *options, "--", "sleep", "60").out)["resumed"]
    t.same([resumed(), resumed(), resumed("--env", "A=1"), resumed("--low-rate", "9"), resumed("--fails-if", "hang")], [False, True, False, False, False],
           "other options begin another trial")


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
    place = y.states / "counted"
    # A failure by number: the same runs come again in every round.
    job = ["sh", "-c", f'n=$(cat {place} 2>/dev/null || echo 0); sleep 0.02; test "$HSA_ENABLE_SDMA" = 0 && exit 0; echo $((n + 1)) > {place}; exit 1']
    _, whole = y.answer(t, ["--fresh"], job, "not stopped")
    kills = kill_at_random(y, job, 0.1)
    _, again = y.answer(t, [], job, "killed")
    keys = ("verdict", "explanation", "remedies", "as_it_is")  # which of two experiments comes first may depend on how long runs took
    t.same({k: again[k] for k in keys}, {k: whole[k] for k in keys}, f"killed {kills} times: the same answer")


# --- with one ---

def test_gpu(t, y, programs, races_program):
    done, answer = y.answer(t, y.gpu(["guard"]), [programs.program, "read-beyond", 1], "guard")
    t.ok((answer["explanation"], answer["runs"]) == ("memory-misuse", 5) and "past the end of hipMalloc" in answer["found"]["title"], "the guard finds an access beside an allocation",
         answer)
    done, answer = y.answer(t, y.gpu(), [programs.program, "index-beyond"], "an assertion")
    t.same((answer["verdict"], first(answer), answer["failure"]["class"], answer["runs"]), ("explained", "whatever", "hsa-queue-exception", 6),
           "an assertion of a kernel fails whatever is changed")
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
        test_explained(t, y)
        test_identity(t, y)
        test_stopped(t, y)
        programs = kfd.Programs(unhang)
        wrong = programs.compile() if shutil.which("hipcc") or kfd.ROOT else "there is no hipcc"
        if wrong:
            t.skip("jobs on the emulated KFD", wrong.splitlines()[0])
        else:
            test_gpu(t, y, programs, races.compile_races(pathlib.Path(unhang.binary).parent)[0])
    finally:
        shutil.rmtree(y.states, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
