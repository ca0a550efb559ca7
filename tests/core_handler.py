#!/usr/bin/env python3
"""unhang core, the handler of HSA_COREDUMP_PATTERN: programs that fail (core_job.c) pipe a GPU core to it in ROCr's form. What it keeps has the same
waves and registers, it is listed when it is whole or not at all, and the program notices nothing."""
import fcntl
import json
import os
import pathlib
import select
import signal
import struct
import subprocess
import sys

import cores
import gpu_cores
import tap
from cores import Agent, Core, Memory, Object, Packet, Queue, Wave

PARTS = ("gfx90a", "gfx942", "gfx950")
REASONS = {"memory_violation": "copy_rows", "assert_trap": "assertion", "illegal_instruction": "instruction"}
NOBODY = 65534
NO_PROCESS = 1 << 22  # the kernel gives out none so large
OUTPUT = (b"before\n", b"Memory access fault by GPU node-1\n")
CODE, VRAM = 0x7f0000200000, 0x7e0000000000


class Jobs:
    def __init__(self, unhang, job):
        self.unhang, self.job, self.n = unhang, job, 0

    def place(self, name):
        self.n += 1
        return self.unhang.directory / f"{name}-{self.n}"

    def run(self, pair, handler=None, options="", state=None, user=None, **environment):
        """How a program with this core ended, and where incidents are then. @handler: a command in place of unhang core; False: none."""
        state = state or self.place("state")
        handler = handler or f"{self.unhang.binary} core --state-dir {state} {options} %p"
        pattern = {} if handler is False else {"HSA_COREDUMP_PATTERN": f'|/bin/sh -c "exec 2>/dev/null; {handler} || cat >/dev/null"'}
        run = subprocess.run([self.job, *pair], capture_output=True, env={**self.unhang.environment, **pattern, **environment}, timeout=300,
                             **({"user": user, "group": user, "extra_groups": []} if user else {}))
        return run, state

    def incidents(self, state):
        return json.loads(self.unhang.run("incidents", "--json", "--state-dir", state).stdout)["incidents"]

    def waves(self, *paths):
        answer = json.loads(self.unhang.run("waves", "--json", "--registers", "--all", *paths).stdout)
        return [{k: v for k, v in w.items() if k != "source"} for w in answer["waves"]]


def sample(gfx, reason, code):
    """A kernel of a code object in memory, and 8 MB of VRAM that nobody needs."""
    o = Object(code.read_bytes(), CODE, memory=0x7f6000000000)
    xccs = 2 if gfx != "gfx90a" else 1
    pc, kernel = o.symbol("copy_rows") + 8, o.symbol("copy_rows.kd")
    waves = [Wave(pc + 4 * (n == 1), group=(n, 0, 0), packet=70, xcc=xcc, vgprs={0: list(range(64)), 5: 77 + n}, sgprs={2: 5 + n}, lds=b"local" * n,
                  reason=reason if n == 1 and not xcc else "") for xcc in range(xccs) for n in range(3)]
    arguments = Memory(0x7f0000300000, pieces=[(0, struct.pack("<QQi", VRAM, VRAM + 4096, 64))])
    return Core([Agent(gfx, 0x1234, xccs)], [Queue(waves, {69: Packet(kernel), 70: Packet(kernel, (192 * xccs, 1, 1), kernarg=arguments.address)}, 0x1234,
                                                   exceptions=1 << 30)], [o], [arguments, Memory(VRAM, 8 << 20, [(5, b"user data")])])


def make_pair(jobs, core):
    pair = jobs.place("gpu"), jobs.place("host")
    core.write_pair(*pair, shifted=True)
    return pair


def memory_of(path):
    """(address, bytes) of each segment that has some."""
    data = pathlib.Path(path).read_bytes()
    at, n = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", data, at + 56 * i) for i in range(n)]
    return [(h[3], data[h[2]:h[2] + h[5]]) for h in headers if h[0] == 1 and h[5]]


def modes_below(path):
    return {oct(p.stat().st_mode & 0o777) for p in path.rglob("*")}


def test_kept(t, jobs, code):
    for gfx in PARTS:
        for reason, title in REASONS.items():
            pair = make_pair(jobs, sample(gfx, reason, code[gfx]))
            run, state = jobs.run(pair)
            t.same((run.returncode, run.stdout, run.stderr), (-signal.SIGABRT, *OUTPUT), f"{gfx}, {reason}: the program ends and speaks as without it")
            found = jobs.incidents(state)
            core = state / "incidents" / (found[0]["id"] if found else "-") / "gpucore"
            t.ok(len(found) == 1 and title in found[0]["title"] and "copy_rows" in found[0]["title"] and found[0]["state"] == "closed",
                 f"{gfx}, {reason}: it is explained and listed", found)
            t.same(jobs.waves(core), jobs.waves(*pair), f"{gfx}, {reason}: it has the same waves and registers")
            size, held = core.stat().st_blocks * 512, b"".join(data for _, data in memory_of(core))
            t.ok(size < 2 << 20 and b"user data" not in held, f"{gfx}, {reason}: it has no VRAM", size)
    shown = jobs.unhang.run("incidents", "--state-dir", state, found[0]["id"]).stdout.decode()
    t.ok("core_job" in shown and str(core.parent) in shown and "copy_rows" in shown, "one is shown with its diagnosis", shown)
    html = jobs.unhang.run("incidents", "--state-dir", state, found[0]["id"], "--html", jobs.place("html"))
    t.ok(html.returncode == 0, "a report for others is made of it", html.stderr)
    queues = json.loads(jobs.unhang.run("queues", "--json", core).stdout)["queues"][0]
    t.ok([p for p in queues["packets"] if p["kernel_name"] and len(p["arguments"]) == 3], "packets in flight have their arguments", queues)


def test_stream_alone(t, jobs, code):
    """Where the process may not be read, the stream has what there is, and it is said."""
    pair = make_pair(jobs, sample("gfx942", "memory_violation", code["gfx942"]))
    state = jobs.place("state")
    other = subprocess.Popen(["sleep", "1000"])
    run, _ = jobs.run(pair, handler=f"{jobs.unhang.binary} core --state-dir {state} {other.pid}")
    other.kill()
    other.wait()
    found = jobs.incidents(state)
    text = jobs.unhang.run("incidents", "--state-dir", state, found[0]["id"]).stdout.decode() if found else ""
    t.ok(run.returncode == -signal.SIGABRT and "is not the one that waits for unhang core" in " ".join(text.split()), "of a process that is not its own it reads nothing, and says so", text)
    ended = jobs.place("ended")
    jobs.run(pair, handler=f"{jobs.unhang.binary} core --state-dir {ended} {NO_PROCESS}")
    text = jobs.unhang.run("incidents", "--state-dir", ended, jobs.incidents(ended)[0]["id"]).stdout.decode()
    t.ok("had ended before unhang core could read" in " ".join(text.split()), "nor of one that has ended", text)
    core = state / "incidents" / found[0]["id"] / "gpucore"
    kept = dict(memory_of(core))
    rings = [a for a, _ in memory_of(pair[0]) if a == cores.RINGS]
    t.ok(rings and all(a in kept for a in rings) and VRAM not in kept, "rings come from the stream, and large buffers do not", {hex(a) for a in kept})
    run, state = jobs.run(pair, CORE_JOB_HOST="1")
    found = jobs.incidents(state)
    core = state / "incidents" / found[0]["id"] / "gpucore"
    t.same((jobs.waves(core), "copy_rows" in found[0]["title"]), (jobs.waves(*pair), True), "code that only the GPU has comes from the stream")


def test_all(t, jobs, code):
    gap = 0
    for shifted in (True, False):
        pair = jobs.place("gpu"), jobs.place("host")
        sample("gfx90a", "assert_trap", code["gfx90a"]).write_pair(*pair, shifted=shifted)
        plain = jobs.place("plain"), jobs.place("plain-host")
        sample("gfx90a", "assert_trap", code["gfx90a"]).write_pair(*plain)
        run, state = jobs.run(pair, options="--all", **({} if shifted else {"CORE_JOB_PLAIN": "1"}))
        core = state / "incidents" / jobs.incidents(state)[0]["id"] / "gpucore"
        kept, wrong = memory_of(core), []
        for address, data in memory_of(plain[0]):
            if not any(a == address and d == data for a, d in kept):
                wrong.append(f"{address:#x}")
        gap += shifted
        t.no_complaints(wrong, f"all of the stream is kept, byte by byte, {'as ROCr writes it' if shifted else 'with offsets that are right'}")
        t.same(jobs.waves(core), jobs.waves(*pair), "and the waves are there, too")
    run, state = jobs.run(pair, options="--all --most 4", CORE_JOB_PLAIN="1")
    core = state / "incidents" / jobs.incidents(state)[0]["id"] / "gpucore"
    t.ok(core.stat().st_blocks * 512 < 6 << 20 and jobs.waves(core) == jobs.waves(*pair), "a limit cuts what does not fit, and keeps the waves", core.stat())


def test_trouble(t, jobs, code, fail_write):
    pair = make_pair(jobs, sample("gfx942", "memory_violation", code["gfx942"]))
    without, _ = jobs.run(pair, handler=False)
    wanted = without.returncode, without.stdout, without.stderr
    binary = jobs.unhang.binary
    handlers = {
        "a missing program": "/nowhere/unhang core %p",
        "an unknown option": f"{binary} core --state-dir STATE --later %p",
        "a handler that dies": f"{binary} core --state-dir STATE %p & kill -9 $! ; wait; cat >/dev/null",
        "a number that is none": f"{binary} core --state-dir STATE 0x%p",
        "a number too large": f"{binary} core --state-dir STATE 4194305",
        "no place to write": f"{binary} core --state-dir /proc/nowhere %p",
        "a full disk": f"LD_PRELOAD={fail_write} FAIL_AT=1 {binary} core --state-dir STATE %p",
        "a limit of file sizes": f"ulimit -f 1; {binary} core --state-dir STATE %p",
    }
    for name, handler in handlers.items():
        state = jobs.place("trouble")
        run, _ = jobs.run(pair, handler=handler.replace("STATE", str(state)))
        status = run.returncode, run.stdout, run.stderr
        t.same((status, jobs.incidents(state)), (wanted, []), f"{name}: the program ends as without it, and nothing is listed")
    size = pair[0].stat().st_size
    for cut in (0, 1, 63, 64, 400, 5000, size // 2, size - 13):
        run, state = jobs.run(pair, CORE_JOB_CUT=str(cut))
        tap.wait_for(lambda: not [p for p in state.rglob("*") if p.is_dir() and len(p.name) == 16 and not (p / "incident").exists()])
        found = jobs.incidents(state)
        whole = [i for i in found if (state / "incidents" / i["id"] / "diagnosis.json").exists()]
        t.ok(run.returncode == -signal.SIGKILL and found == whole and not (found and cut <= 400),
             f"a program that is killed behind {cut} bytes leaves an incident that is whole, or none", found)
    state = jobs.place("umask")
    jobs.run(pair, handler=f"umask 0777; {binary} core --state-dir {state} %p")
    t.same((len(jobs.incidents(state)), modes_below(state)), (1, {"0o700", "0o600"} if os.geteuid() else {"0o750", "0o640"}),
           "a umask of the program's does not matter")
    waits = subprocess.Popen([binary, "core", "--state-dir", jobs.place("silent"), str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env=jobs.unhang.environment)
    ended = tap.wait_for(lambda: select.select([waits.stdout], [], [], 0)[0])
    t.ok(ended and waits.poll() is None and waits.stdout.read() == b"", "while it waits for the stream, it has left the program's output")
    waits.stdin.close()
    waits.wait()
    begun = jobs.place("begun")
    left = begun / "incidents" / ("0" * 16)
    left.mkdir(parents=True)
    (left / "gpucore").write_bytes(b"half")
    (left / ".diagnosis.json.0123abcd.unhang-new").write_bytes(b"half")
    empty = left.with_name("1" * 16)  # as between two steps of one that begins
    empty.mkdir()
    os.utime(empty, (1 << 33, 1 << 33))
    works = left.with_name("2" * 16)
    works.mkdir()
    (works / "gpucore").write_bytes(b"half")
    held = os.open(works, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    jobs.run(pair, state=begun)
    t.same((left.exists(), empty.exists(), works.exists(), len(jobs.incidents(begun))), (False, True, True, 1),
           "what a killed handler had begun is removed by the next one, and what somebody works on is not")
    os.close(held)
    os.utime(empty, (1, 1))
    jobs.run(pair, state=begun)
    t.same((empty.exists(), works.exists(), len(jobs.incidents(begun))), (False, False, 2), "later the rest goes, too")
    run = jobs.unhang.run("core", stdin=b"")
    t.ok(run.returncode == tap.CANNOT and b"%p" in run.stderr, "without the number of a process it is refused", run.stderr)
    for number in ("0", "-1", "+1", "0x10", "4194305", "12a", ""):
        run = jobs.unhang.run("core", "--state-dir", jobs.place("state"), "--", number, stdin=b"")
        t.same((run.returncode, run.stdout), (tap.CANNOT, b""), f"'{number}' is no process's number")
    run = jobs.unhang.run("core", "--state-dir", jobs.place("state"), os.getpid(), stdin=b"\x7fELF" + bytes(200))
    t.same((run.returncode, run.stdout, run.stderr), (0, b"", b""), "what is no core ends with 0, and nothing is said")


def test_user(t, jobs, code):
    """One who is not root keeps incidents in a place of his own, and sees them."""
    if os.geteuid():
        t.skip("a user beside root", "this is not root")
        return
    home = jobs.place("home")
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    jobs.unhang.directory.chmod(0o755)
    pair = make_pair(jobs, sample("gfx942", "memory_violation", code["gfx942"]))
    run, _ = jobs.run(pair, handler=f"{jobs.unhang.binary} core %p", user=NOBODY, HOME=str(home), XDG_STATE_HOME=str(home / "s"))
    listed = subprocess.run([jobs.unhang.binary, "incidents", "--json"], capture_output=True, user=NOBODY, group=NOBODY, extra_groups=[],
                            env={**jobs.unhang.environment, "HOME": str(home), "XDG_STATE_HOME": str(home / "s")})
    t.same(modes_below(home / "s"), {"0o700", "0o600"}, "nobody else may read it")
    own = [i for i in json.loads(listed.stdout or b'{"incidents": []}')["incidents"] if i["origin"] == "core"]
    place = home / "s" / "unhang" / "incidents"
    shut, _ = jobs.run(pair, handler=f"{jobs.unhang.binary} core --state-dir {home / 'shut'} %p", user=NOBODY, HOME=str(home), CORE_JOB_CLOSED="1")
    text = jobs.unhang.run("incidents", "--state-dir", home / "shut", jobs.incidents(home / "shut")[0]["id"]).stdout.decode()
    t.ok(shut.returncode == -signal.SIGABRT and "kernel.yama.ptrace_scope" in " ".join(text.split()), "where he may not read the process, it is said why", text)
    t.ok(run.returncode == -signal.SIGABRT and len(own) == 1 and (place / own[0]["id"]).owner() == pathlib.Path(home).owner(), "he has it, and incidents lists it",
         (run, listed, list(home.rglob("*"))))


def test_rights(t, jobs, code, tell_rights):
    """Who takes the bytes of the program apart has no rights."""
    if os.geteuid() or tap.is_sanitized(jobs.unhang.binary):  # which wants to be loaded before the one that notes them
        t.skip("who has rights", "without root nobody has any")
        return
    log = jobs.place("rights")
    log.touch()
    log.chmod(0o666)
    pair = make_pair(jobs, sample("gfx942", "memory_violation", code["gfx942"]))
    jobs.run(pair, handler=f"RIGHTS_LOG={log} LD_PRELOAD={tell_rights} {jobs.unhang.binary} core --state-dir {jobs.place('state')} %p")
    told = [line.split() for line in log.read_text().splitlines() if line.startswith("unhang-explain ")]
    t.same(told[-1:], [["unhang-explain", "65533", "0" * 16, "2", "1"]], "who explains is no one, without a capability")


def main():
    binary, job, fail_write, tell_rights = sys.argv[1:5]
    t, unhang = tap.Tap(), tap.Unhang(binary)
    jobs = Jobs(unhang, os.path.abspath(job))
    code = {gfx: gpu_cores.compile_for(gfx, unhang.directory) for gfx in PARTS}
    test_kept(t, jobs, code)
    test_stream_alone(t, jobs, code)
    test_all(t, jobs, code)
    test_trouble(t, jobs, code, os.path.abspath(fail_write))
    test_user(t, jobs, code)
    test_rights(t, jobs, code, os.path.abspath(tell_rights))
    t.end()


if __name__ == "__main__":
    main()
