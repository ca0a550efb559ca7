"""What the flight recorder costs: rows for bench/run. Real HIP launches on ROCm's runtime over the emulated KFD, with and without the recorder in turns."""
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import timeit

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
BYTES = 256 << 20
WANTED = {'hot0': 'at most 3 ns', 'cold0': '', 'hot1': 'at most 40 ns', 'cold1': 'at most 100 ns', 'hot3': 'at most 70 ns', 'cold3': 'at most 200 ns', 'node': 'at most 40 ns'}
NAMES = {'hot0': 'a launch at level 0', 'cold0': 'the same, cold (1 MiB walked between launches)', 'hot1': 'a launch at level 1', 'cold1': 'the same, cold',
         'hot3': 'a launch at level 3 (arguments)', 'cold3': 'the same, cold', 'node': 'a node of a graph at level 1'}


def decorator():
    """Nanoseconds that a decorator of the kind that frameworks use adds to a call: it writes one line."""
    out = open(os.devnull, 'w')

    def logged(f):
        def wrapper(*arguments):
            out.write(f'Kernel API Call: {f.__name__}\n')
            out.flush()
            return f(*arguments)
        return wrapper

    def plain(x):
        return x
    times = [min(timeit.repeat(lambda f=f: f(1), number=20000, repeat=5)) / 20000 * 1e9 for f in (plain, logged(plain))]
    return times[1] - times[0]


def operations(row, environment):
    """The decorator of python/unhang, and PyTorch's operators where there is a PyTorch."""
    for way, level, name in (('decorator', 0, '@unhang.record at level 0'), ('decorator', 1, '@unhang.record at level 1'),
                             ('observer', 1, 'an operator of PyTorch at level 1, by the observer'), ('dispatch', 1, 'the same by a dispatch mode')):
        # Not by sitecustomize: the operator is timed without the recorder first.
        done = subprocess.run(['/usr/bin/python3', HERE / 'operations.py', way], capture_output=True, text=True,
                              env={**environment, 'UNHANG_LEVEL': str(level), 'UNHANG_TORCH': 'off', 'OMP_NUM_THREADS': '1'})
        if done.stdout:
            added, without = map(float, done.stdout.split())
            row(name, f'{added:+.0f} ns over {without:.0f}', '')


def build(work, root=''):
    """The program and the library that it needs; what hipcc complains of. @root: with the ROCm of that directory (tests/rocm-root)."""
    tool, program, libraries = work / 'libswitch.so', work / f'launches{pathlib.Path(root).name}', f'{root}/usr/lib/x86_64-linux-gnu'
    enter = [TOP / 'tests' / 'in-root', root] if root else []
    linked = [f'-Wl,--dynamic-linker={libraries}/ld-linux-x86-64.so.2,-rpath,{libraries},--disable-new-dtags'] if root else []
    subprocess.run(['cc', '-O2', '-shared', '-fPIC', '-D_GNU_SOURCE', f'-I{TOP}', HERE / 'switch_tool.c', '-o', tool], check=True)
    done = subprocess.run([*enter, 'hipcc', *linked, '--offload-arch=gfx90a', '-O2', f'-I{TOP}', f'-I{TOP}/include', HERE / 'launches.cpp', '-o', program, '-ldl'],
                          capture_output=True, text=True)
    return tool, program, done.stderr if done.returncode else ''


SHARES = {'hot0': (0, ''), 'hot1': (1, 'at most 5 %'), 'hot3': (3, 'at most 9 %')}


def versions(row, unhang, work, roots):
    """The share of a bare launch that the recorder adds, with several versions of ROCm in turns: the tenth percentile, which a busy machine spoils least."""
    library, recording = pathlib.Path(unhang).resolve().parent, f'/dev/shm/unhang-bench-{os.getpid()}.recording'
    built = {root: build(work, root) for root in roots}
    told = {root: {} for root in roots}
    for root in roots * 3:
        tool, program, complaint = built[root]
        if complaint:
            return row(f'the flight recorder with {root}', f'not measured: {complaint.splitlines()[0]}', '')
        environment = {**os.environ, 'LD_PRELOAD': str(library / 'libunhang-kfd.so'), 'UNHANG_KFD': 'gpu gfx90a', 'UNHANG_RECORDING': recording, 'BENCH_SWITCH': str(tool),
                       'HSA_TOOLS_LIB': f"{tool} {library / 'libunhang-recorder.so'}"}
        for line in subprocess.run([program, 'hot'], env=environment, capture_output=True, text=True).stdout.splitlines():
            name, _, added, _, without = line.split()
            told[root].setdefault(name, []).append((float(added) / float(without), float(added), float(without)))
    pathlib.Path(recording).unlink(missing_ok=True)
    for name, (level, wanted) in SHARES.items():
        for root in roots:
            share, added, without = sorted(told[root][name])[len(told[root][name]) // 2]
            row(f"flight recorder: a launch at level {level}, {pathlib.Path(root).name or 'ROCm of this machine'}", f'{share:+.1%} ({added:+.0f} ns over {without:.0f})', wanted)
    return None


def statistics(row, program, work):
    """Level 5: the time of computing against that of reading once, both of the processor, the best of several."""
    chance = random.Random(1)
    values = [chance.gauss(0, 1) for _ in range(1 << 16)]
    floats = struct.pack(f'<{len(values)}f', *values)
    kinds = {'float32': (2, floats), 'float16': (3, struct.pack(f'<{len(values)}e', *values)), 'bfloat16': (4, b''.join(floats[i + 2:i + 4] for i in range(0, len(floats), 4)))}
    for name, (dtype, piece) in kinds.items():
        path = work / 'numbers'
        with path.open('wb') as out:
            for _ in range(BYTES // len(piece)):
                out.write(piece)
        reading, computing, _ = subprocess.run([program, path, str(dtype), '8'], capture_output=True, text=True).stdout.splitlines()[1].split()
        row(f'flight recorder: statistics of {BYTES >> 20} MiB of {name}', f'{float(computing) / float(reading):.2f} times reading it once', 'at most 1.5 times')
        path.unlink()


def rows(row, unhang, work):
    library = pathlib.Path(unhang).resolve().parent
    recorder, fake = library / 'libunhang-recorder.so', library / 'fake_runtime'
    if not shutil.which('hipcc') or not (library / 'libunhang-kfd.so').exists():
        return row('the flight recorder', 'not measured: no hipcc here', '')
    tool, program, complaint = build(work)
    if complaint:
        return row('the flight recorder', f'not measured: {complaint.splitlines()[0]}', '')
    recording = f'/dev/shm/unhang-bench-{os.getpid()}.recording'
    environment = {**os.environ, 'LD_PRELOAD': str(library / 'libunhang-kfd.so'), 'UNHANG_KFD': 'gpu gfx90a', 'UNHANG_RECORDING': recording}
    done = subprocess.run([program], env={**environment, 'BENCH_SWITCH': str(tool), 'HSA_TOOLS_LIB': f'{tool} {recorder}'}, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        name, added, tenth, without, _ = line.split()
        row(f'flight recorder: {NAMES[name]}', f'{float(added):+.0f} ns (tenth percentile {float(tenth):+.0f}) over {float(without):.0f}', WANTED[name])
    alone = float(subprocess.run([program], env=environment, capture_output=True, text=True).stdout.split()[1])
    other = library / 'libintercept-tool.so'
    if other.exists():
        queue = float(subprocess.run([program], env={**environment, 'HSA_TOOLS_LIB': str(other)}, capture_output=True, text=True).stdout.split()[1])
        row('the same launches through an intercept queue that only counts', f'{queue - alone:+.0f} ns', '')
    row('a Python decorator that writes a line for each call', f'{decorator():+.0f} ns', '')
    operations(row, {**environment, 'HSA_TOOLS_LIB': str(recorder), 'PYTHONPATH': str(TOP / 'python'), 'UNHANG_MAX_LEVEL': '3'})
    if fake.exists():
        for mode, name, wanted in (('allocation-pairs', 'an allocation and its free', 'at most 25 ns'), ('signal-loads', 'a load of a signal that has fired', 'at most 25 ns')):
            times = [float(subprocess.run([fake, recorder, mode], env={**environment, 'UNHANG_LEVEL': str(level)}, capture_output=True, text=True).stdout.split()[0])
                     for level in (0, 1)]
            row(f'flight recorder: {name}', f'{times[1] - times[0]:+.0f} ns', wanted)
    pathlib.Path(recording).unlink(missing_ok=True)
    if (library / 'statistics_of_512').exists():
        statistics(row, library / 'statistics_of_512', work)
    return None


if __name__ == '__main__':
    import tempfile
    with tempfile.TemporaryDirectory() as work:
        if len(sys.argv) > 2:  # recorder.py UNHANG ROOT...: with ROCm of these directories, and of this machine
            versions(lambda *columns: print('| ' + ' | '.join(columns) + ' |'), sys.argv[1], pathlib.Path(work), ['', *sys.argv[2:]])
        else:
            rows(lambda *columns: print('| ' + ' | '.join(columns) + ' |'), sys.argv[1], pathlib.Path(work))
