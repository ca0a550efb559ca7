#!/usr/bin/env python3
"""Every ROCm of Debian on emulated machines, with AMD's own tests and tools as judges: `make runtimes`, as root. Writes docs/RUNTIMES.md.

    runtimes.py BUILD [--only GLOB] [--out FILE] [VERSION...]

Roots with the versions are made once, in BUILD/runtimes, and results of earlier runs are kept there: what is run again is replaced on the page. It fails where
a case fails that has no reason in REASONS.
"""
import argparse
import collections
import datetime
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 120  # seconds for a tool, or one test of AMD's
VERSIONS = ("5.2", "6.1", "6.4", "7.2")
NEWER = ("6.1", "6.4", "7.2")
PACKAGES = {"ROCr": "libhsa-runtime64-1", "HIP": "libamdhip64-[567]", "comgr": "libamd-comgr[23]", "rocminfo": "rocminfo", "rocm-smi": "rocm-smi", "amd-smi": "amd-smi",
            "nvtop": "nvtop", "radeontop": "radeontop", "RCCL": "librccl1", "llama.cpp": "llama.cpp"}

# The machines: for each GPU its part and name, and the first version of ROCm that knows it.
MACHINES = {
    "MI210": (["gfx90a"], "Instinct MI210", "5.2"),
    "two MI300X": (["gfx942"] * 2, "Instinct MI300X", "6.1"),
    "RX 6900 XT": (["gfx1030"], "Radeon RX 6900", "5.2"),
    "RX 7900 XTX": (["gfx1100"], "Radeon RX 7900", "6.1"),
    "RX 9070 XT": (["gfx1201"], "Radeon RX 9070", "6.4"),
}
# What a tool must print for each GPU of a machine: {gfx} and {name} are that GPU's.
TOOLS = {
    "rocminfo": (VERSIONS, (r"Name: +{gfx}\b", r"Marketing Name: +(AMD )?{name}")),
    "rocm_agent_enumerator": (VERSIONS, (r"^{gfx}$",)),
    "rocm-smi": (VERSIONS, (r"38\.0\S*[Cc]", r"18\.0\d*W")),
    "amd-smi list": (NEWER, (r"BDF: 0000:[01]3:00\.0",)),
    "nvtop -s": (NEWER, (r'"temp": "38C"', r'"power_draw": "18W"')),
    "radeontop -d - -l 1": (VERSIONS, (r"gpu 0\.00%.*vram 0\.\d+% 64\.\d+mb",)),
}
NO_FAN = 2  # of rocm-smi 5.2, where there is none
# AMD's tests made with googletest, by version: where they lie in the root.
GTESTS = {
    "rocrtst": (("7.2",), "/usr/libexec/rocm/libhsa-runtime64-tests", "rocrtst64"),
}
# Our own tests, which print TAP, with UNHANG_ROCM_ROOT: with processes, recordings and no log of their own.
APART = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
         'mount -t tmpfs -o mode=1777 none /dev/shm && { [ ! -e /dev/kmsg ] || mount --bind /dev/null /dev/kmsg; } && exec "$@"', "sh"]
TAPS = {"recorder_rocm": VERSIONS, "guard": ("5.2", "6.4", "7.2"), "allocator": ("5.2", "6.4", "7.2"), "llama_hip": ("6.4",), "rccl": ("7.2",)}
# Why a case fails: globs of judge, version and case.
REASONS = (
    ("rocrtst", "7.2", "rocrtstFunc.Max_Reference_Count", f"it calls hsa_init 2,147,483,647 times, which may take longer than the {DEADLINE} s that a test gets here"),
    ("rocrtst", "7.2", "rocrtstStress.Queue_CAS_Write_Index_ConcurrentTest", f"its threads spin, and it did not end within {DEADLINE} s on two busy cores, nor once within 400 s: not examined further"),
    ("rocrtst", "7.2", "rocrtstPerf.Memory_Async_Copy", f"it did not end within {DEADLINE} s; it measures copies, which the CPU does here: not examined further"),
    ("rocrtst", "7.2", "rocrtstPerf.Memory_Async_Copy_On_Engine", "emulated GPUs have no copy engines"),
    ("rocminfo", "5.2", "*", "it asks libkmod for the driver's module; this machine's kernel has no /proc/modules, to which the emulator could add it"),
    ("rocm-smi", "5.2", "two MI300X", "it is older than this part"),
)

# What failed in one run and not in those before and after it: it is not in the counts.
SEEN_ONCE = (
    "recorder_rocm on 7.2, at a load of 45 for each core: `again` ended by SIGSEGV, `ends` and `hsa-producers` by SIGABRT (4 cases). Not explained.",
    "recorder_rocm on 7.2, at a load of 10 for each core: `core: one fault of one process, told by 3 sources`. Not explained.",
)

# What programs print that is none of their troubles.
NOISE = ("Failed to open file.", "/sys/class/scsi_host", "SharedSignalPool", "amdgpu_get_auth")

TODAY = str(datetime.date.today())
Case = collections.namedtuple("Case", "judge version name verdict why date", defaults=[TODAY])


def scenario(parts):
    return "".join(f"gpu 0000:{3 + 16 * n:02x}:00.0\n    part {part}\n" for n, part in enumerate(parts)) + "kfd\n"


class Bench:
    def __init__(self, build, work):
        self.build, self.work = pathlib.Path(build).resolve(), pathlib.Path(work)

    def root(self, version):
        return self.build / "runtimes" / f"root-{version}"

    def make_root(self, version):
        if not self.root(version).exists():
            self.root(version).parent.mkdir(exist_ok=True)
            subprocess.run([HERE / "rocm-root", version, self.root(version)], check=True)

    def kept(self):
        results = self.build / "runtimes" / "results.json"
        return [Case(*row) for row in json.loads(results.read_text())] if results.exists() else []

    def keep(self, cases):
        """In the order of the tables, whatever was run last."""
        again, order = {(c.judge, c.version) for c in cases}, [*TOOLS, *GTESTS, *TAPS]
        cases = [c for c in self.kept() if (c.judge, c.version) not in again and c.judge in order] + cases
        (self.build / "runtimes" / "results.json").write_text(json.dumps(sorted(cases, key=lambda c: (order.index(c.judge), c.version))))

    def run(self, command, deadline, directory="/", **environment):
        """Status (None: it did not end) and what it printed. Nothing of it is left."""
        with subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=directory,
                              start_new_session=True, env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", **environment}) as child:
            try:
                return child.communicate(timeout=deadline)[0], child.returncode
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)  # the emulator's processes die with it
                return child.communicate()[0], None

    def in_machine(self, version, parts, command, directory="/"):
        file = self.work / "machine.scenario"
        file.write_text(scenario(parts))
        return self.run([self.build / "unhang", "emulate", file, "--", HERE / "in-root", self.root(version), *command], DEADLINE, directory)


def last_words(out):
    """What most likely tells why: googletest's first failure, an assertion, or the last line."""
    failure = re.search(r"^(\S+:\d+): Failure\n((?:.+\n)*)", out, re.M)
    if failure:
        return f"{pathlib.Path(failure[1]).name}: {failure[2]}"[:200]
    lines = [line.strip() for line in out.splitlines() if line.strip() and not any(noise in line for noise in NOISE)]
    telling = [line for line in lines if re.search("error|fail|assert|abort|exception|unable|cannot", line, re.I)]
    return (telling[:1] or lines[-1:] or [""])[0][:200]


def tools(bench, version, wanted):
    for tool, (versions, expected) in TOOLS.items():
        if version not in versions or not wanted(tool):
            continue
        for machine, (parts, name, since) in MACHINES.items():
            if version < since and tool == "rocminfo":
                yield Case(tool, version, machine, "skip", f"this version does not know {parts[0]}")
                continue
            out, status = bench.in_machine(version, parts, tool.split())
            gpus = 1 if tool.startswith("radeontop") else len(parts)  # it shows the first
            missing = [e for e in expected if len(re.findall(e.format(gfx=parts[0], name=name), out, re.M)) < gpus]
            good = status in (0, NO_FAN) and not missing
            yield Case(tool, version, machine, "pass" if good else "fail", f"status {status}; not there: {', '.join(missing)}; {last_words(out)}")


def gtests(bench, version, wanted):
    for judge, (versions, directory, program) in GTESTS.items():
        if version not in versions or not wanted(judge):
            continue
        # In the root the directory is seen only inside: the programs look for their code objects in the current one.
        def run(*arguments):
            return bench.in_machine(version, MACHINES["MI210"][0], ["sh", "-c", 'cd "$0" && exec "$@"', directory, f"./{program}", *arguments])
        suite = ""
        for line in run("--gtest_list_tests")[0].splitlines():
            if re.match(r"\S+\.$", line):
                suite = line
            elif suite and re.match(r"  \S", line):
                name = suite + line.split()[0]
                if "DISABLED_" in name:
                    yield Case(judge, version, name, "skip", "AMD has disabled it")
                    continue
                out, status = run(f"--gtest_filter={name}")
                verdict = "skip" if f"[  SKIPPED ] {name}" in out else "pass" if f"[       OK ] {name}" in out and status == 0 else "fail"
                how = "it does not end" if status is None else f"signal {status - 128}" if status > 128 else f"status {status}"
                yield Case(judge, version, name, verdict, f"{how}; {last_words(out)}")


def taps(bench, version, wanted):
    for test, versions in TAPS.items():
        if version not in versions or not wanted(test):
            continue
        out, _ = bench.run([*APART, sys.executable, "-u", HERE / f"{test}.py", bench.build / "unhang", bench.build / "libunhang-recorder.so"], 3600, bench.build,
                           UNHANG_ROCM_ROOT=str(bench.root(version)))
        for verdict, name, why in re.findall(r"^(ok|not ok) \d+ - (.*)\n((?:#.*\n)*)", out, re.M):
            name, _, skipped = name.partition(" # SKIP ")
            lines = [line[2:] for line in why.splitlines() if not line.startswith("# at ")]
            yield Case(test, version, name, "skip" if skipped else "pass" if verdict == "ok" else "fail", skipped or " ".join(lines)[-160:])


def reason(case):
    return next((text for judge, versions, name, text in REASONS if fnmatch.fnmatch(case.judge, judge) and case.version in versions.split() and fnmatch.fnmatch(case.name, name)), None)


def packages(bench, version):
    out, _ = bench.run(["dpkg-query", "--admindir", bench.root(version) / "var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"], 60)
    return {what: next((line.split()[1] for line in out.splitlines() if re.match(f"{package} ", line)), "") for what, package in PACKAGES.items()}


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def report(bench, cases):
    versions, judges = sorted({c.version for c in cases}), list(dict.fromkeys(c.judge for c in cases))
    found, dates = {v: packages(bench, v) for v in versions}, sorted({c.date for c in cases})
    yield "# Which versions of ROCm were tried, on emulated GPUs\n"
    yield (f"`make runtimes` wrote this page ({' to '.join(dates[:1] + dates[1:][-1:])}). Do not edit it. This page shows how far ROCm's own software accepts unhang's emulated GPUs, and with which versions\nunhang's recorder was tried. Debian's builds of ROCm, unmodified, ran on emulated machines\n"
           "([SCENARIOS.md](SCENARIOS.md#kfd)). The judges are AMD's tools and tests, `nvtop` and `radeontop`, and our own tests under ROCm's runtime: of the recorder\n"
           "(`recorder_rocm`), the guard and the pool (`guard`), llama.cpp (`llama_hip`) and RCCL (`rccl`).\n\n"
           "Kernels are not executed, apart from those that C functions stand for, rocrtst's among them. RCCL's kernels would wait for each other; here they end at\n"
           "once, so that its start, its launches and its hangs are tested, and not what it reduces.\n\n"
           f"The tools ran on each of these machines: {', '.join(f'{name} ({parts[0]})' for name, (parts, _, _) in MACHINES.items())}. rocrtst and our own tests ran on gfx90a.\n")
    yield "| package | " + " | ".join(versions) + " |\n|---|" + "---|" * len(versions)
    for what in PACKAGES:
        yield f"| {what} | " + " | ".join(found[v][what] for v in versions) + " |"
    yield "\n## Counts\nCases that passed, of those that ran.\n\n| judge | " + " | ".join(versions) + " |\n|---|" + "---|" * len(versions)
    for judge in judges:
        counts = [collections.Counter(c.verdict for c in cases if (c.judge, c.version) == (judge, v)) for v in versions]
        yield f"| {judge} | " + " | ".join(f"{n['pass']} of {n['pass'] + n['fail']}" if n["pass"] + n["fail"] else "" for n in counts) + " |"
    totals = collections.Counter(c.verdict for c in cases)
    yield f"\nIn all {totals['pass']} passed, {totals['fail']} failed, and {totals['skip']} were not run."
    for title, verdict in (("What fails, and why", "fail"), ("What was not run, and why", "skip")):
        rows = collections.defaultdict(lambda: collections.defaultdict(list))
        for c in cases:
            if c.verdict == verdict:
                rows[c.judge, c.name][c.why if verdict == "skip" else reason(c) or f"not known yet: {c.why}"].append(c.version)
        yield f"\n## {title}\n" + ("| judge | case | ROCm | why |\n|---|---|---|---|" if rows else "Nothing.")
        for (judge, name), whys in rows.items():
            for why, where in whys.items():
                yield f"| {judge} | {cell(name)} | {', '.join(where)} | {cell(why)} |"
    yield "\n## What was seen once\n" + "\n".join(f"- {text}" for text in SEEN_ONCE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("versions", nargs="*", choices=(*VERSIONS, []))
    parser.add_argument("--only", default="*")
    parser.add_argument("--out", default=HERE.parent / "docs" / "RUNTIMES.md")
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory(prefix="unhang-runtimes-") as work:
        bench = Bench(given.build, work)
        for version in given.versions or VERSIONS:
            bench.make_root(version)
            cases = []
            for kind in (tools, gtests, taps):
                for case in kind(bench, version, lambda judge: fnmatch.fnmatch(judge, given.only)):
                    print(f"{case.verdict} {case.version} {case.judge}: {case.name}" + (f" ({cell(case.why)})" if case.verdict != "pass" else ""), flush=True)
                    cases.append(case)
            bench.keep(cases)
        cases = bench.kept()
        pathlib.Path(given.out).write_text("\n".join(report(bench, cases)) + "\n")
    unknown = [c for c in cases if c.verdict == "fail" and not reason(c)]
    print(f"{sum(c.verdict == 'pass' for c in cases)} passed, {sum(c.verdict == 'fail' for c in cases)} failed, {len(unknown)} of them for no known reason")
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
