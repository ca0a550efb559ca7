#!/usr/bin/env python3
"""unhang bisect: programs whose truth is hidden in a number (hip/races.cpp), on the emulated KFD; and what needs no GPU. `make bisect` tries all 80."""
import collections
import fcntl
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import jsonschema
import kfd
import tap

SCHEMA = jsonschema.Draft202012Validator(json.loads((tap.HERE / ".." / "docs" / "bisect.schema.json").read_text()))
SOURCE = tap.HERE / "hip" / "races.cpp"
PLAN = "gpu gfx90a; slow kernel busy 0.02"
# A race that is found with few runs, for `make test`; the rest is for `make bisect`.
FEW = (36,)


def compile_races(directory):
    """The program, kept in the build directory for the next time."""
    kept = directory / f"hip-races{pathlib.Path(kfd.ROOT).name}"
    with open(kept.with_name(f"{kept.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists() or kept.stat().st_mtime < max(SOURCE.stat().st_mtime, (SOURCE.parent / "kernels.h").stat().st_mtime):
            fresh = kept.with_name(f"{kept.name}.new")
            done = subprocess.run([*kfd.HIPCC, "--offload-arch=gfx90a", "-O1", "-g", "-o", fresh, SOURCE], capture_output=True, text=True)
            if done.returncode:
                return None, done.stderr
            fresh.rename(kept)
    return kept, ""


class Bisect:
    def __init__(self, unhang, races):
        self.unhang, self.races = unhang, races
        kfd.remember(unhang)
        self.library = pathlib.Path(unhang.binary).parent / "libunhang-kfd.so"
        self.states = pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-bisect-"))

    def start(self, *arguments, **more):
        environment = {**self.unhang.environment, "UNHANG_KFD": PLAN}
        return subprocess.Popen([self.unhang.binary, "bisect", *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **more)

    def run(self, *arguments):
        job = self.start(*arguments)
        job.out, job.err = job.communicate(timeout=3600)
        return job

    def truth(self, number):
        kind, rate, streams, launches, racer, victim = subprocess.run([self.races, str(number), "truth"], capture_output=True, text=True, check=True).stdout.split()
        return collections.namedtuple("Truth", "kind rate streams launches racer victim")(kind, int(rate), int(streams), int(launches), racer, victim)

    def of(self, number, *options):
        return (*options, "--env", f"LD_PRELOAD={self.library}", "--state-dir", self.states, "--", self.races, number)

    def answer(self, number, *options):
        ran = self.run("--json", "--quiet", *self.of(number, *options))
        return json.loads(ran.out) if ran.out else {"verdict": ran.err, "runs": 0, "one_at_a_time": None, "racer": None, "victim": None}


def party(op):
    """ROCm 7.2 has a kernel of its own make a copy that 5.2 gives to a copy engine."""
    return None if not op else "copy" if op["name"] == "__amd_rocclr_copyBuffer" else op["what"] if op["what"] != "kernel" else op["name"]


def is_right(truth, answer):
    if truth.racer == "none":
        return answer["verdict"] in ("no-race", "no-failure")
    return answer["verdict"] == "race" and (party(answer["racer"]), party(answer["victim"])) == (truth.racer, truth.victim)


# --- without a GPU ---

def test_plain(t, b):
    done = b.run("--state-dir", b.states, "--low-rate", "60", "--json", "--quiet", "--", "true")
    answer = json.loads(done.out)
    t.same((done.returncode, answer["verdict"], answer["runs"]), (2, "not-recorded", 1), "a job that does not fail and uses no GPU")
    t.no_complaints([e.message for e in SCHEMA.iter_errors(answer)], "JSON as the schema has it")
    done = b.run("--state-dir", b.states, "--low-rate", "60", "--", "true")
    t.ok("Cannot be done" in done.out and "clean runs" in done.err and len(done.out.splitlines()) <= 24, "the same in words, behind a plan", done.out + done.err)
    for options, why in ((["--fails-if", "nonsense"], "is none of status"), (["--env", "x"], "not NAME=VALUE"), ([], "needs a command")):
        done = b.run("--state-dir", b.states, *options, *(["--", "true"] if options else []))
        t.ok(done.returncode == 2 and why in done.err, f"{options or 'nothing'} is refused", done.err)
    done = b.run("--state-dir", b.states, "--quiet", "--", "/nowhere/program")
    t.ok("could not be started" in done.out and done.returncode == 1, "a command that is none", done.out + done.err)
    done = b.run("--state-dir", b.states, "--quiet", "--json", "--", "false")
    answer = json.loads(done.out)
    t.same((done.returncode, answer["verdict"], answer["runs"]), (2, "not-recorded", 3), "a job that uses no GPU is told so after three runs")
    done = b.run("--state-dir", b.states, "--quiet", "--", "sh", "-c", "exit 0")
    t.ok(done.returncode == 2 and "Cannot be done" in done.out and "1 in " in done.out and "Not finished" not in done.out, "after one, if it ended well", done.out)
    done = b.run("--state-dir", b.states, "--quiet", "--", "sh", "-c", "echo working; echo cannot reach the server >&2; exit 1")
    t.ok("It said   cannot reach the server" in done.out, "with what it said", done.out)


def test_fails_if(t, b):
    """Each way to fail; a run that hangs, and one that is long enough."""
    place = b.states / "out.txt"
    for what, command, failed in (("output=wrong", ["sh", "-c", "echo it is wrong; exit 0"], True), ("output=wrong", ["sh", "-c", "exit 3"], False),
                                  ("status=3", ["sh", "-c", "exit 3"], True), ("status=4", ["sh", "-c", "exit 3"], False),
                                  (f"nan={place}", ["sh", "-c", f"echo 1.0 -nan 2 > {place}"], True), (f"nan={place}", ["sh", "-c", f"echo 1 banana > {place}"], False),
                                  ("status=9 or output=x y", ["echo", "x y"], True)):
        done = b.run("--state-dir", b.states, "--fails-if", what, "--low-rate", "90", "--json", "--quiet", "--", *command)
        answer = json.loads(done.out)
        t.same(bool(answer["as_it_is"]["failed"]), failed, f"--fails-if {what}: {command[-1]}")
    done = b.run("--state-dir", b.states, "--hang-after", "1", "--budget", "1", "--json", "--quiet", "--", "sleep", "60")
    answer = json.loads(done.out)
    t.ok(answer["hung"] >= 1 and answer["verdict"] == "unfinished" and done.returncode == 1, "a run that takes too long has hung; the budget ends all", answer)
    done = b.run("--state-dir", b.states, "--fresh", "--repro", "1", "--low-rate", "95", "--json", "--quiet", "--", "sleep", "60")
    t.same(json.loads(done.out)["as_it_is"]["failed"], 0, "--repro: without a failure by then it has passed")


def test_identity(t, b):
    """One that was stopped is resumed only by the same options."""
    def resumed(*options):
        return json.loads(b.run("--state-dir", b.states, "--json", "--quiet", "--budget", "1", "--hang-after", "1", *options, "--", "sleep", "61").out)["resumed"]
    t.same([resumed(), resumed(), resumed("--env", "A=1"), resumed("--low-rate", "9")], [False, True, False, False], "other options begin another bisection")


# --- with one ---

def kill_at_random(b, number, times):
    """Killed with its runs, whatever it is doing: the next one goes on with what is in the journal."""
    chance = random.Random(number)
    for _ in range(times):
        job = b.start("--quiet", *b.of(number), start_new_session=True)
        journal = tap.wait_for(lambda: next((p for p in b.states.glob("*/journal") if p.stat().st_size > 400 * chance.random()), None))
        job.kill()
        job.communicate()
        if not journal:
            return


def test_found(t, b):
    for number in FEW:
        truth, page = b.truth(number), b.states / "page.html"
        kill_at_random(b, number, 2)
        answer = b.answer(number, "--html", page)
        t.ok(is_right(truth, answer), f"number {number}, {truth.kind}: {truth.racer} disturbs {truth.victim}", json.dumps(answer)[:3000])
        t.no_complaints([e.message for e in SCHEMA.iter_errors(answer)], "as the schema has it")
        if number == FEW[0]:
            example = (tap.HERE / ".." / "docs" / "BISECT.md").read_text()
            t.ok(f"hip-races {number}\n    {answer['title']}\n" in example, "the example of docs/BISECT.md", answer["title"])
        t.ok(answer["widened"] and answer["widened"]["rate"] > answer["as_it_is"]["rate"] and not answer["in_order"]["failed"], "with its numbers", answer)
        text = page.read_text() if page.exists() else ""
        t.ok(text.count("<svg") >= 4 and "Two launches race" in text, "and as a page with bars", text[:600])


EARLY, LATE = "1 _Z4copyILi2EEvPcPKcm", "0 _Z4fillILi4EEvPffi"  # of number 36: who must end first, and who must not begin before


def test_tables(t, b):
    """What the rows of a table do to a program that fails in each of its runs, or (@luck) in none."""
    where = b.states / "tables"
    where.mkdir()

    # The earlier kernel takes so long that the later one begins before its end, however busy this machine is.
    def run(*rows, luck="always", plan="gpu gfx90a; slow kernel busy 1", head="unhang-waits 1"):
        (where / "waits").write_text("\n".join((head, *rows)) + "\n")
        done = subprocess.run([b.races, "36", luck], capture_output=True, text=True, env={
            **b.unhang.environment, "LD_PRELOAD": str(b.library), "UNHANG_KFD": plan, "HSA_TOOLS_LIB": str(b.library.with_name("libunhang-recorder.so")), "UNHANG_LEVEL": "1",
            "UNHANG_MAX_LEVEL": "3", "UNHANG_WAITS": str(where / "waits"), "UNHANG_RECORDING": str(where / "%p.recording")})
        return done.returncode, done.stderr
    t.same(run()[0], 1, "an empty table changes nothing")
    for rows, fails, what in ((["wait * * for * *"], 0, "all wait for all"), ([f"wait {LATE} for {EARLY}"], 0, "the second waits for the first"), ([f"wait {EARLY} for {LATE}"], 1, "the wrong way round"),
                              (["host * *"], 0, "the host waits for all"), (["wait * * for * *", "except 1 *"], 1, "a queue is left alone"), (["wait copies * for * *", "wait * * for copies *"], 1, "copies alone")):
        t.same(run(*rows)[0], fails, f"{what}: {'; '.join(rows)}")
    t.same(run(f"delay {EARLY} 1000000", luck="never")[0], 1, "the first begins later: it fails, also with luck")
    status, said = run(f"wait {LATE} for {EARLY}", "deadline 200", plan="gpu gfx90a; slow kernel busy 3")
    t.ok(status == 1 and "a wait was given up after 200 ms" in said, "a wait has a deadline", (status, said))
    for rows, line in ((["wait * * for *"], 2), (["host 0 x", "delay 0 x y"], 3)):
        t.ok(f"line {line} is none of a table" in run(*rows)[1], f"{rows} is refused")
    t.ok("line 1 is none of a table" in run(head="unhang-waits 2")[1], "another version is refused")


def many(b, numbers):
    """make bisect: a table of all, and what the issue asks for."""
    right, races, runs, alone, begun = collections.Counter(), collections.Counter(), 0, 0, time.monotonic()
    for number in numbers:
        truth = b.truth(number)
        answer = b.answer(number)
        good, which = is_right(truth, answer), "race" if truth.racer != "none" else "none"
        right[which] += good
        races[which] += 1
        if which == "race":
            runs += answer["runs"]
            alone += answer["one_at_a_time"] or 0
        print(f"{number:4} {truth.kind:14} {truth.rate:3} % {truth.launches:4} launches  {answer['verdict']:16} {party(answer['racer'])} > {party(answer['victim'])}"
              f"  {answer['runs']} runs, {answer['one_at_a_time']} alone  {'' if good else 'WRONG: ' + truth.racer + ' > ' + truth.victim}", flush=True)
    print(f"races {right['race']} of {races['race']}, without {right['none']} of {races['none']}, runs {runs} against {alone}, {time.monotonic() - begun:.0f} s")
    return right["race"] >= 0.85 * races["race"] and right["none"] >= 0.95 * races["none"] and runs * 2 <= alone


def main():
    unhang = tap.Unhang(sys.argv[1])
    numbers = [int(n) for word in sys.argv[2:] for n in (range(*map(int, word.split(".."))) if ".." in word else [word])]
    t = None if numbers else tap.Tap()
    races, problem = compile_races(pathlib.Path(unhang.binary).parent) if shutil.which("hipcc") or kfd.ROOT else (None, "there is no hipcc")
    b = Bisect(unhang, races)
    try:
        if numbers:
            sys.exit(0 if many(b, numbers) else 1)
        test_plain(t, b)
        test_fails_if(t, b)
        test_identity(t, b)
        if races:
            test_tables(t, b)
            test_found(t, b)
        else:
            t.skip("races on the emulated KFD", problem.splitlines()[0])
    finally:
        shutil.rmtree(b.states, ignore_errors=True)
    t.end()


if __name__ == "__main__":
    main()
