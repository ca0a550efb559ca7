#!/usr/bin/env python3
"""The journal, with files that systemd-journal-remote makes: journal.py UNHANG"""
import json
import os
import random
import re
import struct
import sys

import journals
import kernel_lines
from tap import Tap, Unhang

BOOTS = ['%032x' % n for n in (0x1111, 0x2222, 0x3333)]
HANG = [
    'amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102',
    'amdgpu 0000:03:00.0: amdgpu:  Process blender pid 777 thread blender:cs0 pid 778',
    'amdgpu 0000:03:00.0: amdgpu: GPU reset begin!',
    'amdgpu 0000:03:00.0: amdgpu: MODE1 reset',
    'amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!',
]
SMU = ["amdgpu 0000:03:00.0: amdgpu: SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x00000005"]
START = 1_700_000_000_000_000


def fields(number, boot, message, transport='kernel'):
    return journals.fields(number, BOOTS[boot], START + boot * 3_600_000_000, 5_000_000 + number * 100_000 - journals.LATER, message, transport)


def record(*one):
    return journals.export(fields(*one))


def make_journal(directory, boots):
    return journals.write(directory, b''.join(record(n, boot, message, transport) for boot, messages in boots
                                              for n, (message, transport) in enumerate(messages)))


def kernel(messages):
    return [(message, 'kernel') for message in messages]


def forms(unhang, name, messages):
    """One log in the forms in which it comes with what journald notes beside it: files to explain."""
    made = [(n, 0, message, transport) for n, (message, transport) in enumerate(messages)]
    yield 'journal', make_journal(unhang.directory / name, [(0, messages)])
    yield 'export', unhang.write(f'{name}.export', b''.join(record(*one) for one in made))
    objects = [{key: str(value) for key, value in fields(*one).items()} for one in made]
    yield 'JSON', unhang.write(f'{name}.json', ''.join(json.dumps(one) + '\n' for one in objects))
    yield 'json-pretty', unhang.write(f'{name}.pretty', ''.join(json.dumps(one, indent='\t', separators=(',', ' : ')) + '\n' for one in objects))
    yield 'jq --slurp', unhang.write(f'{name}.slurp', json.dumps(objects, indent=2) + '\n')


def test_forged(tap, unhang):
    """What a user can make the kernel print is not the driver's word."""
    kinds = {kind for kind, _, _ in kernel_lines.FORGED}
    tap.ok(len(kinds) >= 10 and len(kernel_lines.FORGED) >= 30, f'{len(kernel_lines.FORGED)} forged lines of {len(kinds)} kinds', '')
    everything = [(text, transport) for _, transport, text in kernel_lines.FORGED]
    for form, path in forms(unhang, 'forged', everything):
        found = unhang.explain(path)
        said = [(i.data['cause']['class'], [e['at']['line'] for e in i.data['timeline']]) for i in found.incidents]
        tap.same(said, [], f'{form}: no forged line is an incident')
    for form, path in forms(unhang, 'programs', [(line, transport) for transport in ('syslog', 'stdout', 'journal') for line in HANG]):
        tap.same(unhang.explain(path).classes, [], f"{form}: what a program printed is not the driver's word")
    true = [*everything, (kernel_lines.LOST, 'kernel'), *everything]
    for form, path in forms(unhang, 'true', true):
        found = unhang.explain(path)
        # That a program crashed is true, too.
        tap.same([[i.data['cause']['class'], i.data['action']['fault'], {e['event'] for e in i.data['timeline']} - {'segfault'}] for i in found.incidents],
                 [['gpu-off-bus', 'node', {'gpu-off-bus'}]],
                 f'{form}: nor do they hide a true one, or add to it')


def of_user(text, **more):
    """What a user sends to journald by its socket: any fields but the trusted ones, of any bytes."""
    return {**fields(0, 0, text, 'journal'), **more}


def test_inside(tap, unhang):
    """Nothing inside of a record is another record."""
    lost = record(1, 0, kernel_lines.LOST, 'kernel')
    text, true = lost.decode(), record(2, 0, HANG[0], 'kernel')
    for name, one in (('a message', of_user('hello\n\n' + text)), ('a field', of_user('hello', OWN='x\n\n' + text)), ('a message of 2,570 bytes', of_user(('x\n\n' + text).ljust(0x0a0a, 'z'))),
                      ('a field that ends in empty lines', of_user('hello', OWN='x\n\n' + text + '\n\n'))):
        made = journals.export(one)
        tap.same(unhang.explain(unhang.write('inside.export', made)).classes, [], f'export: a record in {name} is none')
        tap.same(unhang.explain(unhang.write('inside.export', made + true)).classes, ['gfx-ring-timeout'], f'export: nor does it hide what comes behind it, in {name}')
    made = journals.export(of_user('hello\n\n' + text)) + true
    answers = [unhang.explain(unhang.write('inside.export', made[:cut])) for cut in range(0, len(made), 7)]
    tap.same([i for a in answers for i in a.classes if i != 'gfx-ring-timeout'], [], 'export: nor where it is cut off')
    where = made.index(b'hello')
    tap.same({a.status for a in answers[(where + 6) // 7:(where + len(text)) // 7]}, {2}, 'export: a cut inside of a field is told')
    plain = f'amdgpu 0000:03:00.0: amdgpu: {kernel_lines.LOST}'
    for n in (5_000, 70_000, 2_000_000):
        for name, one in (('message', of_user('y' * n + ' ' + plain)), ('message that begins with it', of_user(plain + ' ' + 'y' * n)), ('many fields', of_user('x', **{f'OWN{k}': plain + ' ' + 'y' * 3900 for k in range(n // 4000)}))):
            for form, indent in (('JSON', None), ('json-pretty', '\t')):
                made = ''.join(json.dumps({k: str(v) for k, v in part.items()}, indent=indent) + '\n' for part in (fields(3, 0, 'usb 1-1: new device'), one, fields(4, 0, 'usb 1-1: new device')))
                tap.same(unhang.explain(unhang.write('long.json', made)).classes, [], f'{form}: a user\'s {name} of {n} bytes is his')
    made = json.dumps([{k: str(v) for k, v in of_user(kernel_lines.LOST).items()}]) + '\n'
    run = unhang.run('explain', unhang.write('slurp.json', made))
    tap.ok(run.returncode == 2 and b'journalctl -o json' in run.stderr, 'records in one line are not read, and told', run.stderr)
    made = '\ufeff' + json.dumps({k: str(v) for k, v in of_user(kernel_lines.LOST).items()}) + '\n'
    tap.same(unhang.explain(unhang.write('mark.json', made)).classes, [], 'a mark of the byte order changes nothing')


def test_true(tap, unhang):
    """A message of the driver counts in every kernel, as in a pasted text. Without its device, it is not the node's fault."""
    for kernel_version, logs in kernel_lines.TRUE.items():
        for n, lines in enumerate(logs):
            pasted = unhang.explain(unhang.write(f'{kernel_version}-{n}.txt', ''.join(f'[  100.{k:06}] {line}\n' for k, line in enumerate(lines))))
            tap.ok(pasted.classes, f'{kernel_version}: {lines[-1][:60]}', str(lines))
            attested = any(kernel_lines.device_of(line) for line in lines)
            fault = pasted.first.data['action']['fault']
            replace = pasted.first.data['action']['do'] in ('replace', 'power-cycle') and not attested
            wanted = [pasted.classes[0], 'unknown' if fault == 'node' and not attested else fault]
            for form, path in forms(unhang, f'{kernel_version}-{n}', [(line, 'kernel') for line in lines]):
                found = unhang.explain(path)
                tap.no_complaints(found.complaints, f'{form}: the answer is a right document')
                tap.same([found.first.data['cause']['class'], found.first.data['action']['fault']] if found.incidents else [], wanted, f'{form}: the same')
                tap.ok(not replace or found.first.data['action']['do'] == 'nothing', f'{form}: nothing is replaced by it', found.first.data['action'])
                marks = {bool(e.get('unattested')) for i in found.incidents for e in i.data['timeline']}
                tap.ok(attested or marks == {True}, f'{form}: it says where a record carries no device', str(marks))


def test_own_reader(tap, unhang, root):
    """unhang's own reader of journal files answers as libsystemd does."""
    mixed = unhang.directory / 'mixed'
    many = [('long ' + 'x' * 700 * (n % 4) + f' {n}', ('kernel', 'stdout', 'daemon')[n % 3]) for n in range(60)]
    lines = [*many[:40], *kernel(HANG), *many[40:], ('two\nlines', 'kernel'), *kernel(['y' * 70_000])]
    # One machine's entries in three files, as after a rotation, with times that lie between each other.
    made = [journals.write(unhang.directory / f'part{part}', b''.join(record(n, boot, *line) for boot in range(3) for n, line in enumerate(lines)
                                                                      if (n * 7 + boot) % 3 == part)) for part in range(3)]
    folder = mixed / 'var/log/journal' / ('%032x' % 1)
    folder.mkdir(parents=True)
    for n, path in enumerate(made):
        path.rename(folder / ('system.journal' if not n else f'system@{n}.journal'))
    newer = unhang.directory / 'newer.journal'
    newer.write_bytes((root / 'var/log/journal/system.journal').read_bytes())
    asked = [['--root', mixed], *(['--root', mixed, '--boot', str(boot)] for boot in (0, -1, -2, -3)), ['--root', root], *([path] for path in folder.iterdir()),
             ['--root', root, '--boot', '-1'], ['--full-evidence', '--markdown', folder / 'system.journal'], [newer], [unhang.directory / 'nothing']]
    for cut in (100, 300, 4096, 200_000):
        path = unhang.write(f'cut{cut}.journal', newer.read_bytes()[:cut])
        asked.append([path])
    for question in asked:
        answers = []
        for reader in ('libsystemd', 'files'):
            unhang.environment['UNHANG_JOURNAL'] = reader
            run = unhang.run('explain', *([] if '--markdown' in question else ['--json']), *question)
            answers.append((run.returncode, run.stdout.decode(), run.stderr.decode()))
        tap.same(answers[1], answers[0], f'both readers of journals say the same: {" ".join(str(q) for q in question[-2:])[-60:]}')
    # What only one of them can read tells them apart: unhang's own knows no xz.
    data = bytearray(newer.read_bytes())
    data[12] |= 1
    newer.write_bytes(data)
    run = unhang.run('explain', newer)
    tap.ok(run.returncode == 2 and b'not supported' in run.stderr and run.stderr.count(b'\n') == 1, 'a form that it does not know is named', run.stderr)
    del unhang.environment['UNHANG_JOURNAL']


def test_damage(tap, unhang):
    """A journal of which part cannot be read is never an all-clear, and links do not lead out of another machine's tree."""
    root = unhang.directory / 'damaged'
    around = [(f'line {n}', ('kernel', 'stdout')[n % 2]) for n in range(100)]
    path = make_journal(root / 'var/log/journal', [(0, around + kernel(HANG) + around)])
    whole = path.read_bytes()
    places = [at for at in range(len(whole.rstrip(b'\0'))) if whole[at]]
    chance, answers = random.Random(33), []
    for _ in range(80):
        data, at = bytearray(whole), chance.choice(places)
        n = min(chance.choice([8, 64, 4096]), len(data) - at)
        data[at:at + n] = chance.choice([bytes(n), b'\xff' * n, bytes(byte ^ 0x55 for byte in data[at:at + n])])
        path.write_bytes(data)
        answers.append((unhang.run('explain', '--root', root).returncode, hex(at), n))
    tap.same([one for one in answers if one[0] == 0], [], 'no damage of a journal is an all-clear')
    tap.ok(sum(one[0] == 1 for one in answers) > 60, 'most of it does not hide the incident', answers)
    path.write_bytes(whole)
    # Files that cannot be read at all, beside one that can, and was written before.
    quiet = make_journal(unhang.directory / 'quiet', [(1, around)]).read_bytes()
    path.write_bytes(quiet)
    for name, data in (('cut', whole[:3_000_000]), ('empty', b''), ('unknown', whole[:12] + b'\xff' + whole[13:]), ('another file', b'x' * 5000)):
        beside = path.with_name('system@2.journal')
        beside.write_bytes(data)
        run = unhang.run('explain', '--root', root)
        tap.ok(run.returncode == 2 and b'system@2.journal could not be read' in run.stderr, f'a journal that is {name} is told', run.stderr)
        beside.unlink()
    # Another machine's, as journal-remote and containers leave them.
    own, foreign = '%032x' % 7, '%032x' % 8
    (root / 'etc').mkdir()
    (root / 'etc/machine-id').write_text(own + '\n')
    path.unlink()
    for machine, data in ((own, quiet), (foreign, whole)):
        (path.parent / machine).mkdir()
        (path.parent / machine / 'system.journal').write_bytes(data)
    tap.same(unhang.run('explain', '--root', root).returncode, 0, "another machine's journal is not this one's")
    (root / 'etc/machine-id').write_text(foreign + '\n')
    tap.same(unhang.run('explain', '--root', root).returncode, 1, 'which of them it is says machine-id')
    path = path.parent / foreign / 'system.journal'
    other = unhang.directory / 'other'
    (other / 'var/log/journal').mkdir(parents=True)
    for name, to in (('system.journal', path), ('%032x' % 1, path.parent)):
        link = other / 'var/log/journal' / name
        link.symlink_to(to)
        run = unhang.run('explain', '--root', other)
        tap.ok(run.returncode == 2 and b'blender' not in run.stdout, f'{name} as a link leads nowhere', run.stdout)
        link.unlink()


def objects(data, kind):
    """Where the objects of a kind are, and their sizes."""
    at, tail = (struct.unpack_from('<Q', data, place)[0] for place in (88, 136))
    while at <= tail:
        size = struct.unpack_from('<Q', data, at + 8)[0]
        if data[at] == kind:
            yield at, size
        at = at + size + 7 & ~7


def test_counters(tap, unhang):
    """Counters that say less than there is hide nothing; entries that are gone are missed."""
    root = unhang.directory / 'counters'
    around = [(f'line {n}', ('kernel', 'stdout')[n % 2]) for n in range(100)]
    path = make_journal(root / 'var/log/journal', [(0, around + kernel(HANG) + around)])
    whole = path.read_bytes()
    data_of, arrays, number = list(objects(whole, 1)), list(objects(whole, 6)), lambda n: struct.pack('<Q', n)
    few = [(152, number(20))]
    gone = [(152, number(2))] + [(at + 56, number(1)) for at, _ in data_of] + [(at + 48, number(0)) for at, _ in data_of]
    first = struct.unpack_from('<Q', whole, 176)[0]
    gone += [(first + 16, number(0)), (first + 24 + 4 * 2, bytes(dict(arrays)[first] - 24 - 4 * 2))]
    for name, edits, wanted in (('nothing', [], 1), ('20 entries in the head', few, 1), ('no entries of any value', [(at + 56, number(0)) for at, _ in data_of], 1),
                                ('one entry of each value', [(at + 56, number(1)) for at, _ in data_of], 1), ('both', few + [(at + 56, number(0)) for at, _ in data_of], 1),
                                ('entries that are gone', gone, 2)):
        changed = bytearray(whole)
        for at, new in edits:
            changed[at:at + len(new)] = new
        path.write_bytes(changed)
        unhang.environment['UNHANG_JOURNAL'] = 'files'
        run = unhang.run('explain', '--root', root)
        tap.ok(run.returncode == wanted and (wanted == 1 or b'part of the journal is damaged' in run.stderr), f'a journal with {name}', (run.returncode, run.stdout, run.stderr))
    for n in (16_000, 300_000):  # the kernel writes none of more than a thousand
        make_journal(unhang.directory / f'long{n}/var/log/journal', [(0, around + kernel(['amdgpu 0000:03:00.0: amdgpu: ' * (n // 29) + HANG[0]]) + around)])
        run = unhang.run('explain', '--root', unhang.directory / f'long{n}')
        tap.ok(run.returncode == 2 and b'too long' in run.stderr, f'a line of {n} bytes is no all-clear', (run.returncode, run.stderr))
    packed = root / 'var/log/journal/system@1.journal.zst'
    path.write_bytes(make_journal(unhang.directory / 'calm', [(1, around)]).read_bytes())
    tap.same(unhang.run('explain', '--root', root).returncode, 0, 'a quiet journal is quiet')
    packed.write_bytes(b'x')
    run = unhang.run('explain', '--root', root)
    tap.ok(run.returncode == 2 and packed.name.encode() in run.stderr, 'a packed journal beside it is named', run.stderr)
    del unhang.environment['UNHANG_JOURNAL']


def main():
    unhang, tap = Unhang(sys.argv[1]), Tap()
    if not os.path.exists(journals.REMOTE):
        tap.skip('journal', 'systemd-journal-remote is not installed')
        tap.end()
    root = unhang.directory / 'root'
    quiet = kernel(['Linux version 6.12.1 (gcc)', 'usb 1-1: new device'])
    journal = make_journal(root / 'var/log/journal', [(0, kernel(SMU)), (1, quiet + kernel(HANG)), (2, quiet)])

    newest = unhang.explain('--root', root)
    tap.no_complaints(newest.complaints, 'the answer is a right document')
    tap.same(newest.classes, ['gfx-ring-timeout'], 'the newest incident over the last boots is that of the boot before')
    tap.same(newest.first.data.get('boot_id'), BOOTS[1], 'the boot of the newest incident is named')
    tap.same([newest.first.value(name) for name in ('kernel', 'process', 'pid')], ['6.12.1', 'blender', 777],
             'kernel and process are those of that boot')
    tap.same(newest.first.data['begin'], 5.1995, "times are the kernel's own, not those of journald")

    said = ' '.join(unhang.run('explain', '--root', root).stdout.decode().split())
    tap.ok('2023-11-14T23:13:25Z' in said, "the incident is dated by journald's clock", said[:300])

    tap.same(unhang.explain('--root', root, '--boot', '0').classes, [], 'this boot has none')
    tap.same(unhang.explain('--root', root, '--boot', '-2').classes, ['smu-unresponsive'], 'an older boot by its number')
    run = unhang.run('explain', '--root', root, '--boot', '-3')
    tap.ok(run.returncode == 2 and b'3 boots' in run.stderr and run.stderr.count(b'\n') == 1, 'a boot that is not there is named', run.stderr)

    tap.same(sorted(i.data['boot_id'] for i in unhang.explain(journal).incidents), BOOTS[:2], 'a journal file holds all boots')
    around = make_journal(unhang.directory / 'around', [(0, kernel([f'message {n}' for n in range(9)] + SMU + [f'message {n}' for n in range(9, 18)]))])
    for options, wanted in (([], range(6, 12)), (['--full-evidence'], range(18))):
        text = unhang.run('explain', '--markdown', *options, around).stdout.decode()
        tap.same([int(n) for n in re.findall(r'^  \d+: message (\d+)$', text, re.M)], list(wanted), f'a report quotes records around an event {options}')
    printed = make_journal(unhang.directory / 'printed', [(0, [(message, 'stdout') for message in HANG])])
    tap.same(unhang.explain(printed).classes, [], 'what a program prints is not the kernel')

    test_own_reader(tap, unhang, root)
    test_damage(tap, unhang)
    test_counters(tap, unhang)
    test_forged(tap, unhang)
    test_inside(tap, unhang)
    test_true(tap, unhang)

    log = ''.join(f'<3>[  100.{n:06}] {message}\n' for n, message in enumerate(HANG))
    for name, place in (('pstore', 'var/lib/systemd/pstore/1700000000/dmesg.txt'), ('kdump', 'var/crash/202611150300/dmesg.202611150300'),
                        ('kdump of Fedora', 'var/crash/127.0.0.1-2026-11-15-03:00:00/vmcore-dmesg.txt')):
        unhang.write(f'{name}/{place}', log)
        tap.same(unhang.explain('--root', unhang.directory / name).classes, ['gfx-ring-timeout'], f'{name} is read where there is no journal')
    (unhang.directory / 'bare').mkdir()
    run = unhang.run('explain', '--root', unhang.directory / 'bare')
    tap.ok(run.returncode == 2 and run.stderr.count(b'\n') == 1, 'a machine without any log gets one line', run.stderr)
    tap.end()


main()
