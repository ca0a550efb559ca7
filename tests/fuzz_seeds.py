"""Seeds and dictionaries of the fuzz targets, from the project's own files."""
import base64
import gzip
import io
import os
import pathlib
import re
import sqlite3
import struct
import subprocess
import tarfile
import tempfile
import zipfile

import cper
import kernel_lines
import machine_tree

TOP = pathlib.Path(__file__).resolve().parent.parent
SEEDS = TOP / 'fuzz/seeds'  # a folder for each target that has some of its own
CORPUS = TOP / 'fuzz/corpus'  # for each target a tar of what earlier runs found
CORPUS_MOST = 96 << 10  # bytes of one target, before they are packed
KNOWLEDGE = sorted((TOP / 'knowledge').glob('*.know'))
BLOCK = re.compile(r'\n(?=[a-z])')
REMOTE = '/lib/systemd/systemd-journal-remote'
RING = b'amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2'


def blocks():
    """Each block of knowledge, with those that it names before it."""
    all_blocks = [block for path in KNOWLEDGE for block in BLOCK.split('\n' + path.read_text()) if block and not block.startswith('#')]
    named = {}
    for block in all_blocks:
        words = block.split(None, 2)
        if words[0] in ('event', 'class', 'names', 'remedy', 'unit', 'signature') and len(words) > 1:
            named.setdefault(words[1], []).append(block)
    seen = {}
    for block in all_blocks:
        kind = block.split(None, 1)[0]
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > 24:
            continue
        needs = [block]
        for one in needs:
            for word in set(re.findall(r'[a-z0-9_-]+', one)):
                needs += [other for other in named.get(word, []) if other not in needs]
            if len(needs) > 12:
                break
        yield '\n'.join(reversed(needs)).encode()


def logs():
    sample = (TOP / 'docs/sample-dmesg.txt').read_bytes()
    lines = sample.splitlines(keepends=True)
    yield sample
    yield (TOP / 'docs/sample-server.log').read_bytes()
    for at in range(0, len(lines), 3):
        yield b''.join(lines[at:at + 3])
    for path in sorted(SEEDS.glob("*/*")):  # short, because their readers have targets of their own
        yield path.read_bytes()[:1500]
    yield b'{"MESSAGE":"' + RING + b'","_BOOT_ID":"ab"}\n'
    yield b'__MONOTONIC_TIMESTAMP=12\n_BOOT_ID=ab\nMESSAGE=' + RING + b'\n\n'
    yield b'__CURSOR=s=1\n_TRANSPORT=journal\nMESSAGE\n\x07\0\0\0\0\0\0\0two\n\nup\n\n__CURSOR=s=2\n_TRANSPORT=kernel\nMESSAGE=' + RING + b'\n\n'
    yield b'[\n{\n\t"__CURSOR" : "s=1",\n\t"_TRANSPORT" : "kernel",\n\t"MESSAGE" : "' + RING + b'"\n},\n{\n}\n]\n'
    yield b'\x1b[32mNov 15 12:00:00 myhost kernel:\x1b[0m hello\n' + RING + b'\namdgpu 0000:03:00.0: amdgpu: hello there\n'


def node(room, path):
    name = b'=== /' + str(path.relative_to(room)).encode()
    return (name + b' -> ' + str(path.readlink()).encode() + b'\n' if path.is_symlink() else
            b'' if path.is_dir() else name + b'\n' + path.read_bytes())


def trees():
    """Recorded machines, in the form of tests/machine_tree.py without its short forms."""
    for path in sorted(machine_tree.MACHINES.glob('*.tree')):
        with tempfile.TemporaryDirectory() as room:
            machine_tree.plant(path.stem, room)
            yield b''.join(node(room, found) for found in sorted(pathlib.Path(room).rglob('*')))


def packed():
    text = (TOP / 'docs/sample-dmesg.txt').read_bytes()[:1500]
    yield text
    yield gzip.compress(text, mtime=0)
    for mode in ('w', 'w:gz', 'w:xz', 'w:bz2'):
        room = io.BytesIO()
        with tarfile.open(fileobj=room, mode=mode) as tar:
            for name, content in (('dmesg.txt', text), ('inner.gz', gzip.compress(text, mtime=0)), ('sub/rocm.log', b'RuntimeError: HIP error\n')):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        yield room.getvalue()
    room = io.BytesIO()
    with zipfile.ZipFile(room, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo('dmesg.txt'), text)
    yield room.getvalue()


def evidence():
    """A tar of evidence of several kinds, as a bundle is."""
    kinds = ['debug-agent', 'rocgdb', 'devcoredump', 'stacks', 'kernel-api', 'fence-info', 'firmware-info', 'inventory', 'umr', 'udev-monitor', 'error-files', 'error-list', 'apei', 'document']
    paths = [sorted((SEEDS / kind).iterdir())[0] for kind in kinds] + [TOP / 'docs/sample-dmesg.txt']
    for at in range(len(paths)):
        room = io.BytesIO()
        with tarfile.open(fileobj=room, mode='w', format=tarfile.USTAR_FORMAT) as tar:
            for path in (paths[at], paths[(at + 1) % len(paths)]):
                info = tarfile.TarInfo(path.name)
                info.size = path.stat().st_size
                tar.addfile(info, io.BytesIO(path.read_bytes()))
        yield room.getvalue()


def pieces(journal):
    """What of a journal is not zero, as fuzz/journal.c wants it."""
    out = b''
    for found in re.finditer(rb'[^\0](?:[^\0]|\0{1,15}(?=[^\0]))*', journal):
        for at in range(found.start(), found.end(), 60000):
            piece = journal[at:min(at + 60000, found.end())]
            out += struct.pack('<IH', at, len(piece)) + piece
    return out


def journals():
    if not os.path.exists(REMOTE):
        return
    for count in (1, 3, 40):
        text = b''.join(b'__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%032x\n_TRANSPORT=kernel\nMESSAGE=%s\n\n'
                        % (1_700_000_000_000_000 + n, n, 1 + n // 10, RING) for n in range(count))
        with tempfile.TemporaryDirectory() as room:
            path = pathlib.Path(room) / 'system.journal'
            subprocess.run([REMOTE, '-o', path, '-'], input=text, check=True, capture_output=True)
            yield pieces(path.read_bytes())


def records():
    """Of /dev/kmsg: what the driver prints, and what users make the kernel print."""
    made = [('kernel', line) for logs in kernel_lines.TRUE.values() for lines in logs for line in lines] + [(writer, text) for _, writer, text in kernel_lines.FORGED]
    for writer, text in made:
        device = kernel_lines.device_of(text) if writer == 'kernel' else None
        note = f' SUBSYSTEM={device[0]}\n DEVICE={device[1]}\n' if device else ''
        yield (b'3' if writer == 'kernel' else b'27') + b',1,5000000,-;' + text.replace('\n', '\\x0a').encode() + b'\n' + note.encode()


def keys():
    """Ed25519 keys as OpenSSL writes them."""
    for kind, front in (('PRIVATE', '302e020100300506032b657004220420'), ('PUBLIC', '302a300506032b6570032100')):
        der = base64.b64encode(bytes.fromhex(front) + bytes(range(32))).decode()
        yield f'-----BEGIN {kind} KEY-----\n{der}\n-----END {kind} KEY-----\n'.encode()


def loaded_code():
    """The first byte says that it is code in memory; the segments that matter lie in the file as they do there."""
    yield b'c' + (TOP / 'docs/sample-kernel.co').read_bytes()[:16000]


def markup():
    """What a browser might take for more than text, and logs that hold it."""
    hostile = [b'</script><script>alert(1)</script>', b'"><svg onload=x>', b"' onmouseover='x", b'<!--', b'-->', b'&lt;&#60;&amp;', b']]>', b'</title></style></textarea>',
               b'\xe2\x80\xae\xe2\x80\xa8', b'\x1b[31m\x00', b'\xff\xfe<', b'{{x}}${y}', b'`@all` #1']
    yield from hostile
    logs = [(TOP / 'docs/sample-dmesg.txt').read_bytes().replace(b'process python pid', b'process ' + text + b' pid') for text in hostile]
    logs += [(TOP / 'docs/sample-server.log').read_bytes(), (TOP / 'tests/logs/rccl-watchdog-lagging-rank/log.txt').read_bytes()]
    for log in logs:  # of such a size the target writes the whole report
        yield log + b'\n' * ((1 - len(log)) % 8)


def secrets():
    for name in ('secrets.txt', 'secrets-later.txt'):
        for line in (TOP / 'tests' / name).read_text().splitlines():
            if not line.startswith('#'):
                _, _, secret, text = line.split(' | ', 3)
                yield text.replace('{}', secret.strip()).encode()


def histories():
    """The histories of dnf, each with a log of writes behind it."""
    for name in ('dnf4.sqlite', 'dnf5.sqlite'):
        with tempfile.TemporaryDirectory() as room:
            path = pathlib.Path(room) / 'db'
            path.write_bytes((SEEDS / 'changes' / name).read_bytes())
            db = sqlite3.connect(path, isolation_level=None)
            db.execute('PRAGMA journal_mode = WAL')
            db.execute('UPDATE trans SET dt_end = dt_end + 1')
            yield path.read_bytes() + b'|WAL|' + path.with_name('db-wal').read_bytes()
            db.close()


def errors():
    """Records of hardware errors, in each form."""
    records = [cper.bank(grade, cper.status(0x3e, cper.POISON), cper.ipid(1, 1, 0x36430400)) for grade in (cper.FATAL, cper.UNCORRECTED, cper.CORRECTED)]
    records += [cper.threshold(3), cper.boot([0xa4 | 0x21 << 8])]
    yield from records
    yield cper.ring(records)
    yield cper.ring([records[0][120:], records[0]])  # it begins inside of a record
    yield records[0][:10] + b'\0\0' + records[0][12:]  # it has no sections


def tables():
    """Two tables of gpu_metrics, of each version; the first word is where the second begins."""
    sizes = {(1, 0): 80, (1, 1): 96, (1, 2): 104, (1, 3): 120, (1, 4): 288, (1, 5): 360, (1, 6): 1664, (1, 7): 2208, (1, 8): 3872,
             (2, 0): 120, (2, 1): 120, (2, 2): 128, (2, 3): 152, (2, 4): 168, (3, 0): 264}
    for (form, content), size in sizes.items():
        table = struct.pack("<HBB", size, form, content) + bytes(n % 251 for n in range(size - 4))
        yield struct.pack("<H", size + 2) + table + table
    attributes = b"".join(struct.pack("<QI", 4 << 20 | n << 10 | 1, n) for n in range(9, 15))
    listed = struct.pack("<HBBi", 8 + len(attributes), 1, 9, 6) + attributes
    yield struct.pack("<H", len(listed) + 2) + listed + listed


MADE = {'fuzz-cper': errors, 'fuzz-metrics': tables, 'fuzz-changes': histories, 'fuzz-redact': secrets, 'fuzz-kfd': loaded_code, 'fuzz-keys': keys, 'fuzz-journal': journals, 'fuzz-log': logs, 'fuzz-html': markup, 'fuzz-knowledge': blocks, 'fuzz-host': trees, 'fuzz-archive': packed, 'fuzz-evidence': evidence, 'fuzz-record': records}


def log_words():
    """What messages say between their values."""
    for path in KNOWLEDGE:
        for line in re.findall(r'^\s+match (.*)$', path.read_text(), re.M):
            yield from (piece for piece in re.split(r'\{[^}]*\}', line) if 6 <= len(piece) <= 40)


def knowledge_words():
    return {word for path in KNOWLEDGE for word in re.findall(r'^\s*([a-z-]+) ', path.read_text(), re.M)}


def tree_words():
    return {line.split()[1] for path in machine_tree.MACHINES.glob('*.tree') for line in path.read_text().splitlines() if line.startswith('=== /')}


WORDS = {'fuzz-log': log_words, 'fuzz-record': log_words, 'fuzz-evidence': log_words, 'fuzz-knowledge': knowledge_words, 'fuzz-host': tree_words}


def kept(target):
    path = CORPUS / f'{target.removeprefix("fuzz-")}.tar.xz'
    if path.exists():
        with tarfile.open(path) as tar:
            yield from (tar.extractfile(member).read() for member in tar)


def keep(target, folder):
    """Packs the smallest inputs of @folder, which reach something new each, for the next run. The same inputs make the same file."""
    room, size = io.BytesIO(), 0
    with tarfile.open(fileobj=room, mode='w:xz', format=tarfile.USTAR_FORMAT) as tar:
        for number, content in enumerate(sorted((path.read_bytes() for path in folder.iterdir()), key=lambda content: (len(content), content))):
            size += len(content)
            if size > CORPUS_MOST:
                break
            info = tarfile.TarInfo(str(number))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f'{target.removeprefix("fuzz-")}.tar.xz').write_bytes(room.getvalue())


def write(target, folder):
    """The seeds of @target go to @folder; returns the words of its dictionary, as libFuzzer wants them between quotes."""
    own = SEEDS / target.removeprefix('fuzz-')
    texts = [path.read_bytes() for path in sorted(own.iterdir())] if own.is_dir() else []
    texts += MADE[target]() if target in MADE else []
    texts += kept(target)
    for number, text in enumerate(texts):
        (folder / f'{number}').write_bytes(text)
    words = sorted(set(WORDS[target]())) if target in WORDS else []
    return [re.sub(r'[\\"]|[^ -~]', lambda c: f'\\x{ord(c.group()) & 255:02x}', word) for word in words[::max(1, len(words) // 500)]]
