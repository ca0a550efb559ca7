"""What unhang run costs a job: rows for bench/run."""
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
LAUNCHES = 100000


def turns(commands, repeat, environment=None, of=statistics.median):
    """The median seconds of each command (or another value of all), one after the other in turns, so that a busy machine is busy for all."""
    times = [[] for _ in commands]
    for _ in range(repeat):
        for command, taken in zip(commands, times):
            begin = time.perf_counter()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            taken.append(time.perf_counter() - begin)
    return [of(taken) for taken in times]


def first_byte(command, repeat):
    """The median seconds until the job has begun: its first byte of output."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        with subprocess.Popen([*command, 'sh', '-c', 'echo'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
            job.stdout.read(1)
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rows(row, unhang, work):
    run = [unhang, 'run', '--quiet', '--state-dir', work / 'runs', '--']
    with_it, without = first_byte(run, 30), first_byte([], 30)
    row('unhang run: start of the job', f'{(with_it - without) * 1000:+.1f} ms', 'under 20 ms')
    zeros = ['sh', '-c', 'head -c 1G /dev/zero | cat']
    ours, alone = turns([[*run, *zeros], zeros], 5)
    row('unhang run: 1 GB of output', f'{alone / ours:.2f} of the speed without it', 'at least 0.8')
    # Into a pipe, which is handed on; with lines that a program flushes one by one.
    into = lambda command: ['sh', '-c', f'{shlex.join(map(str, command))} | cat']
    ours, alone = turns([into([*run, *zeros]), into(zeros)], 5, of=min)
    row('unhang run: 1 GB of output into a pipe', f'{alone / ours:.2f} of the speed without it', 'at least 0.8')
    lines = [sys.executable, '-c', 'import os\nfor i in range(200000): os.write(1, b"%d of 200000 steps, loss 0.123456\\n" % i)']
    ours, alone = turns([into([*run, *lines]), into(lines)], 5, of=min)
    row('unhang run: 200,000 lines into a pipe', f'{alone / ours:.2f} of the speed without it', 'at least 0.8')
    library = pathlib.Path(unhang).resolve().parent
    program = work / 'programs'
    if not shutil.which('hipcc') or not (library / 'libunhang-kfd.so').exists():
        return row('unhang run: 100,000 launches', 'not measured: no hipcc here', '')
    done = subprocess.run(['hipcc', '--offload-arch=gfx90a', '-O1', '-o', program, TOP / 'tests/hip/programs.cpp', '-lhsa-runtime64'], capture_output=True, text=True)
    if done.returncode:
        return row('unhang run: 100,000 launches', f'not measured: {done.stderr.splitlines()[0]}', '')
    costs(row, run, program, library)


def costs(row, run, program, library):
    """What is added once and what by each launch; and both as a part of a job whose kernels take as long as kernels do."""
    environment = {**os.environ, 'LD_PRELOAD': str(library / 'libunhang-kfd.so'), 'UNHANG_KFD': 'gpu gfx90a'}
    recording = pathlib.Path(f'/dev/shm/unhang-bench-{os.getpid()}.recording')
    recorder = ['env', f'HSA_TOOLS_LIB={library}/libunhang-recorder.so', f'UNHANG_RECORDING={recording}']
    one, many = [program, 'many', '1', '1'], [program, 'many', '1', str(LAUNCHES)]
    ways = [run, recorder, []]
    times = turns([[*way, *job] for job in (one, many) for way in ways], 15, environment, min)
    once, all_of = times[:3], times[3:]
    row('unhang run: added once to a job that ends well', f'{(once[0] - once[2]) * 1000:+.1f} ms to its {once[2] * 1000:.0f} (the recorder alone: {(once[1] - once[2]) * 1000:+.1f} ms)', '')
    by_launch = [(a - b) * 1e9 / LAUNCHES for a, b in zip(all_of, once)]
    row(f'unhang run: added to each of {LAUNCHES:,} launches', f'{by_launch[0] - by_launch[2]:+.0f} ns to its {by_launch[2]:.0f} (the recorder alone: {by_launch[1] - by_launch[2]:+.0f} ns)', '')
    row(f'unhang run: {LAUNCHES:,} launches of kernels that do nothing', f'{(all_of[0] / all_of[2] - 1) * 100:+.1f} % of {all_of[2]:.2f} s', '')
    slow = turns([[*run, *many], many], 7, {**environment, 'UNHANG_KFD': 'gpu gfx90a; slow kernel * 0.00001'}, sorted)
    ours, alone = (times[0] for times in slow)
    scatter = (statistics.median(slow[1]) / alone - 1) * 100
    row(f'unhang run: a job of {LAUNCHES:,} launches of kernels of {alone / LAUNCHES * 1e6:.0f} µs', f'{(ours / alone - 1) * 100:+.1f} % of its {alone:.2f} s, which scatters by {scatter:.0f} %', 'under 1 %')
    recording.unlink(missing_ok=True)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as made:
        rows(lambda *columns: print('| ' + ' | '.join(columns) + ' |'), sys.argv[1], pathlib.Path(made))
