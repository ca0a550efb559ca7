"""What unhang run costs a job: rows for bench/run."""
import os
import pathlib
import shutil
import statistics
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent


def turns(commands, repeat, environment=None):
    """The median seconds of each command, one after the other in turns, so that a busy machine is busy for all."""
    times = [[] for _ in commands]
    for _ in range(repeat):
        for command, taken in zip(commands, times):
            begin = time.perf_counter()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]


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
    library = pathlib.Path(unhang).resolve().parent
    program = work / 'programs'
    if not shutil.which('hipcc') or not (library / 'libhsakmt.so.1').exists():
        return row('unhang run: 100,000 launches', 'not measured: no hipcc here', '')
    done = subprocess.run(['hipcc', '--offload-arch=gfx90a', '-O1', '-o', program, TOP / 'tests/hip/programs.cpp', '-lhsa-runtime64'], capture_output=True, text=True)
    if done.returncode:
        return row('unhang run: 100,000 launches', f'not measured: {done.stderr.splitlines()[0]}', '')
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(library), 'UNHANG_KFD': 'gpu gfx90a'}
    launches = [program, 'many', '1', '100000']
    ours, recorded, alone = turns([[*run, *launches], ['env', f'HSA_TOOLS_LIB={library}/libunhang-recorder.so', f'UNHANG_RECORDING=/dev/shm/unhang-bench-{os.getpid()}.recording', *launches],
                                   launches], 7, environment)
    pathlib.Path(f'/dev/shm/unhang-bench-{os.getpid()}.recording').unlink(missing_ok=True)
    row('unhang run: a job of 100,000 launches', f'{(ours / alone - 1) * 100:+.1f} % of its {alone:.2f} s (the recorder alone: {(recorded / alone - 1) * 100:+.1f} %)', 'under 1 %')
