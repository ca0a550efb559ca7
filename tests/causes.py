#!/usr/bin/env python3
"""make tries: unhang try with sixty jobs on the emulated KFD, whose causes are known to this test alone, and how many runs a fixed order of the experiments would
take. `causes.py UNHANG [NUMBER...]`; UNHANG_ROCM_ROOT names another ROCm."""
import collections
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kfd
import races
import tap

SOURCE = tap.HERE / "hip" / "causes.cpp"
GPU = "gpu gfx90a"
SEED = "allocations 48 7340032 , allocations {} 3584"
Job = collections.namedtuple("Job", "cause words plan options gone machine", defaults=(GPU, (), frozenset(), False))
ORDERED = {"serialize-kernels", "all-switches"} | ({"launch-blocking"} if kfd.ROOT else set())  # 5.2 ignores the variable


def compile_causes(directory):
    """As races.compile_races()."""
    kept = directory / f"hip-causes{pathlib.Path(kfd.ROOT).name}"
    if not kept.exists() or kept.stat().st_mtime < SOURCE.stat().st_mtime:
        subprocess.run([*kfd.HIPCC, "--offload-arch=gfx90a", "-O1", "-o", kept, SOURCE], check=True)
    return kept


# --- the jobs ---

def race_jobs(program, count):
    """Some of each kind of those that race, whose rate is not so low that all of them would take a night."""
    seen = collections.Counter()
    for number in range(30, 80):
        kind, rate, *_ = subprocess.run([program, str(number), "truth"], capture_output=True, text=True, check=True).stdout.split()
        copies = kind == "copy-event"
        if int(rate) < 12 or seen[kind] == (count[1] if copies else count[0]):
            continue
        seen[kind] += 1
        queue = {"one-queue"} if kind != "host" and (not copies or kfd.ROOT) else set()
        yield Job("race-copy" if copies else "race-launches", [program, number], races.PLAN, gone=frozenset(ORDERED | queue | ({"serialize-copies"} if copies else set())))


def jobs_of(races_program, causes, programs):
    """Sixty, most of which fail always, as most do."""
    found = list(race_jobs(races_program, (2, 6)))
    found += [Job("memory-misuse", [programs, "crash-number", n], gone=frozenset({"guard"})) for n in (0, 1, 2, 3, 4, 7)]
    found += [Job("whatever", [programs, *words.split()], plan, ("--hang-after", "20")) for words, plan in
              (("index-beyond", GPU), ("crash-number 5", GPU), ("crash-number 12", "gpu gfx90a; exception kernel reduction illegal-instruction"),
               ("series 3", "gpu gfx90a; hang kernel saxpy launch 2"), ("series 3", "gpu gfx90a; exception kernel fill chance 40 abort"))]
    found += [Job("whatever", [races_program, n], races.PLAN) for n in (18, 25)]  # a host and a node that fail now and then
    found += [Job("graphs", [causes, "graphs", rate], gone=frozenset({"graphs-off", "all-switches"})) for rate in (100, 80, 60, 30)]
    found += [Job("copy-engine", [causes, "copies", rate], gone=frozenset({"no-sdma", "all-switches"})) for rate in (100, 80, 50, 30)]
    found += [Job("queues", [causes, mode, rate], options=("--hang-after", "20"), gone=frozenset({"one-queue", "all-switches"})) for mode, rate in
              (("queues", 100), ("queues", 60), ("queues", 35), ("queues-hang", 100), ("queues-hang", 50))]
    found += [Job("library", [causes, mode, rate], plan, ("--hang-after", "20"), frozenset({"switches"})) for mode, rate, plan in
              (("moe", 100, "gpu gfx90a; fault kernel fused_moe* at 0xdead0000"), ("moe", 50, "gpu gfx90a; fault kernel fused_moe* at 0xdead0000"),
               ("vskip", 100, "gpu gfx90a; exception kernel fmoe* aperture-violation"), ("stream-k", 100, "gpu gfx90a; hang kernel Cijk*"), ("stream-k", 60, "gpu gfx90a; hang kernel Cijk*"))]
    found += [Job("allocator", [programs, *SEED.format(n).split()], f"gpu gfx90a; hang allocation {at}", ("--hang-after", "20", "--env", "HSA_DISABLE_FRAGMENT_ALLOCATOR=1"), frozenset({"pool"}))
              for n, at in ((5000, 3170), (4000, 2000), (6000, 4100), (3000, 1500))]
    found += [Job("host-memory", [programs, *words.split()], gone=frozenset({"xnack"})) for words in ("pageable", "series 2 , pageable", "crash-number 14", "crash-number 29")]
    found += [Job("bad-gpu", [programs, "series", "3"], rule, ("--hang-after", "20"), frozenset({"another-gpu"}), True) for rule in
              ("fault kernel fill on 0 at 0xdead0000", "fault kernel saxpy on 0 chance 60 at 0xdead0000", "exception kernel fill on 0 chance 50 memory-violation",
               "exception kernel saxpy on 0 illegal-instruction", "fault kernel fill on 0 chance 30 at 0xdead0000")]
    return found


# --- a fixed order, by the same tests and weights ---

def knowledge():
    """Experiments in their order, and suspects with their numbers."""
    folder = tap.HERE / ".." / "knowledge"
    order = re.findall(r"(?m)^experiment (\S+)", (folder / "experiments.know").read_text())
    suspects = {}
    for block in re.split(r"(?m)^suspect ", (folder / "suspects.know").read_text())[1:]:
        lines = [line.split() for line in block.splitlines()[1:] if line.startswith(" ")]
        suspects[block.split()[0]] = {"always": next(int(w[1]) for w in lines if w[0] == "always") / 100, "prior": {w[1]: int(w[2]) for w in lines if w[0] == "prior"},
                                      "likely": {w[1]: (int(w[3]) / 100, int(w[5]) / 100 if len(w) > 5 else 0) for w in lines if w[0] == "likely"}}
    return order, suspects


def fewer(control, runs):
    """Fisher: the chance of so many clean runs."""
    return math.comb(control[0], control[1]) / math.comb(control[0] + runs, control[1])


def weigh(suspects, failure, control, answers):
    weights = {}
    for name, s in suspects.items():
        always = control[0] == control[1]
        w = s["prior"].get(failure, s["prior"]["any"]) * (s["always"] + (1 - s["always"]) * 0.04 if always else 1 - s["always"])
        for experiment, answer, lucky in answers:
            gone, found = s["likely"].get(experiment, s["likely"]["any"])
            w *= found if answer == "finds" else 1 - found - gone if answer == "fails" else gone + (1 - found - gone) * lucky
        weights[name] = w
    total = sum(weights.values()) or 1
    return {name: w / total for name, w in weights.items()}


def in_order(order, suspects, job, answer, chance):
    """The runs of one who goes down the list, one thing at a time, until the same certainty."""
    control, failure = (answer["as_it_is"]["runs"], answer["as_it_is"]["failed"]), (answer["failure"] or {}).get("class") or "any"
    rate, runs, answers = control[1] / control[0], control[0], []
    memory = failure in ("gpu-page-fault-unmapped", "gpu-null-pointer-fault", "memory-aperture-violation")
    asked = [e for e in order if e not in ("xnack", "switches", "all-switches") and (e != "another-gpu" or job.machine)] + (["xnack"] if memory else []) + (["switches"] if "switches" in job.gone else [])
    for experiment in asked:
        clean = 0
        if experiment == "guard" and "guard" in job.gone:
            runs += 1
            answers.append((experiment, "finds", 0))
        else:
            while experiment in job.gone or chance.random() >= rate:
                clean += 1
                if fewer(control, clean) <= 0.05:
                    break
            gone = fewer(control, clean) <= 0.05 if clean else False
            runs += clean + (not gone)
            answers.append((experiment, "gone" if gone else "fails", fewer(control, clean)))
        weights = weigh(suspects, failure, control, answers)
        if max(weights.values()) >= 0.9:
            break
    return runs, max(weights, key=weights.get)


# --- all of it ---

class Tries:
    def __init__(self, unhang):
        self.unhang, self.states = unhang, pathlib.Path(tempfile.mkdtemp(prefix="unhang-test-causes-"))
        self.library = pathlib.Path(unhang.binary).parent / "libunhang-kfd.so"

    def answer(self, job):
        words = [self.unhang.binary, "try", "--json", "--quiet", "--fresh", "--state-dir", self.states / "states", *job.options]
        if job.machine:
            scenario = self.states / "two.scenario"
            scenario.write_text("scenario two\n    title   Two GPUs\n    expect  health idle\n    expect  exit 0\ngpu 0000:03:00.0\n    part gfx90a\ngpu 0000:83:00.0\n    part gfx90a\n"
                                f"kfd\n    {job.plan}\n")
            words = [self.unhang.binary, "emulate", scenario, "--", *words]
        else:
            words += ["--env", f"LD_PRELOAD={self.library}"]
        environment = self.unhang.environment if job.machine else {**self.unhang.environment, "UNHANG_KFD": job.plan}
        done = subprocess.run([*map(str, words), "--", *map(str, job.words)], env=environment, capture_output=True, text=True)
        return json.loads(done.stdout) if done.stdout else {"verdict": done.stderr, "explanations": [], "runs": 0, "as_it_is": None, "experiments": []}


def main():
    unhang = tap.Unhang(sys.argv[1])
    programs = kfd.Programs(unhang)
    wrong = programs.compile()
    if wrong:
        sys.exit(wrong)
    build = pathlib.Path(unhang.binary).parent
    listed = jobs_of(races.compile_races(build)[0], compile_causes(build), programs.program)
    numbers = [int(n) for n in sys.argv[2:]] or range(len(listed))
    tries, chance, (order, suspects) = Tries(unhang), random.Random(1), knowledge()
    right = sure = sure_wrong = ordered = 0
    runs = fixed = 0
    begun = time.monotonic()
    for number in numbers:
        job, answer = listed[number], None
        answer = tries.answer(job)
        weights = {e["id"]: e["weight"] for e in answer["explanations"]}
        first = max(weights, key=weights.get) if weights else answer["verdict"]
        plays = [in_order(order, suspects, job, answer, chance) for _ in range(20)] if weights and answer["as_it_is"]["failed"] else [(0, "")]
        alone = sum(p[0] for p in plays) / len(plays)
        right += first == job.cause
        ordered += sum(p[1] == job.cause for p in plays) / len(plays)
        sure += answer["verdict"] == "explained"
        sure_wrong += answer["verdict"] == "explained" and first != job.cause
        runs += answer["runs"]
        fixed += alone
        control = answer["as_it_is"] or {"failed": 0, "runs": 0}
        print(f"{number:3} {job.cause:14} {'ok ' if first == job.cause else 'NOT'} {first:14} {weights.get(first, 0) * 100:3.0f} %  {control['failed']} of {control['runs']} failed, {answer['runs']} runs ({alone:.0f} in order)  "
              + " ".join(f"{e['id']}:{e['answer']}" for e in answer["experiments"]), flush=True)
    print(f"{len(numbers)} jobs: right first {right} ({right * 100 / len(numbers):.0f} %), explained {sure}, of these wrong {sure_wrong}; {runs} runs, {fixed:.0f} in a fixed order "
          f"({runs * 100 / fixed if fixed else 0:.0f} %; right {ordered * 100 / len(numbers):.0f} %); {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}")
    shutil.rmtree(tries.states, ignore_errors=True)
    sys.exit(0 if right >= 0.8 * len(numbers) and runs <= 0.6 * fixed else 1)


if __name__ == "__main__":
    main()
