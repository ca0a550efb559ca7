#!/usr/bin/env python3
"""What changed, on recorded machines: changes_machines.py UNHANG

25 machines of eight distributions, as trees: the logs that their package managers write, by the documentation of each format, and the
journal of many boots. On 14 a change is to blame, on 11 none is. UNHANG_TEST_ALL=1 tries all; else one of each distribution and kind."""
import datetime
import html
import os
import re
import sqlite3
import sys

import journals
from tap import Tap, Unhang, skip_all

DAY, HOUR = 86400, 3600
BEGIN = 1_748_937_600  # 2025-06-03 08:00 UTC
OLD, NEW = '6.12.30', '6.12.36'


class Machine:
    """Boots of five hours, one a day; what was installed when; and in which boots the GPU hung."""

    def __init__(self, distribution, kernel=OLD):
        self.distribution, self.kernel = distribution, kernel
        self.boots, self.updates, self.files = [], [], []

    def days(self, n, hang=False, kernel=None, clean=True, hours=5, after=24, process='game'):
        """Hangs three hours after the boot began."""
        self.kernel = kernel or self.kernel
        for _ in range(n):
            begin = self.boots[-1]['begin'] + self.boots[-1]['after'] * HOUR if self.boots else BEGIN
            self.boots.append({'begin': begin, 'hours': hours, 'after': after, 'kernel': self.kernel, 'clean': clean, 'hangs': [hours * 0.6] if hang is True else hang or [],
                               'process': process})
        return self

    def update(self, *packages, hours=4):
        """Packages with their versions before and since, some hours after the newest boot began."""
        self.updates.append((self.boots[-1]['begin'] + int(hours * HOUR), packages))
        return self

    def ordinary(self, n, *packages):
        """Days with an update now and then, of which nothing came."""
        for number in range(n):
            self.days(9)
            self.update(*[(name, f'{version}-{number}', f'{version}-{number + 1}') for name, version in packages], ('nano', '7.2-1', '7.2-2'))
        return self.days(41 - 9 * n)


def guilty(machine, *packages, kernel=None):
    return machine.update(*packages, ('nano', '7.2-3', '7.2-4')).days(5, hang=True, kernel=kernel)


def is_evenly(machine):
    """It comes every tenth day, whatever is installed."""
    for number in range(5):
        machine.days(8).update(*[(name, f'1-{number}', f'1-{number + 1}') for name in ('mesa', 'linux-firmware', 'kernel-core')]).days(1, hang=True)
    return machine


DEBIAN = (('libgl1-mesa-dri', '25.0.7'),)
FEDORA = (('mesa-dri-drivers', '25.0.7'),)
ARCH = (('mesa', '1:25.1.1'),)
SUSE = (('Mesa', '25.0.7'),)
MESA = [(name, '25.0.7-0ubuntu0.24.04.1', '25.0.7-0ubuntu0.24.04.2') for name in ('libgl1-mesa-dri', 'libglx-mesa0', 'libegl-mesa0', 'mesa-vulkan-drivers', 'libgbm1')]

# Name, machine, what is to blame (None: nothing), what the first remedy runs or says.
MACHINES = [
    ('firmware', guilty(Machine('debian').ordinary(3, *DEBIAN), ('firmware-amd-graphics', '20250410-2', '20250708-1')), 'firmware-amd-graphics 20250410-2 -> 20250708-1',
     'sudo apt install --allow-downgrades firmware-amd-graphics=20250410-2'),
    ('kernel', guilty(Machine('debian', f'{OLD}-amd64').ordinary(3, *DEBIAN), (f'linux-image-{NEW}-amd64', '', f'{NEW}-1'), kernel=f'{NEW}-amd64'),
     f'kernel {OLD}-amd64 -> {NEW}-amd64', f'choose Advanced options, then {OLD}-amd64'),
    ('Mesa, of five packages', guilty(Machine('ubuntu').ordinary(3, ('linux-firmware', '20240318')), *MESA), 'Mesa 25.0.7-0ubuntu0.24.04.1 -> 25.0.7-0ubuntu0.24.04.2',
     'sudo apt install --allow-downgrades libgl1-mesa-dri=25.0.7-0ubuntu0.24.04.1 libglx-mesa0='),
    ('firmware that is kept', guilty(Machine('ubuntu').ordinary(2, *DEBIAN), ('linux-firmware', '20240318-0ubuntu2.13', '20240318-0ubuntu2.14')),
     'linux-firmware 20240318-0ubuntu2.13 -> 20240318-0ubuntu2.14', 'sudo apt install --allow-downgrades /var/cache/apt/archives/linux-firmware_20240318-0ubuntu2.13_amd64.deb'),
    ('kernel', guilty(Machine('fedora', f'{OLD}-200.fc42.x86_64').ordinary(3, *FEDORA), ('kernel-core', '', f'{NEW}-200.fc42'), kernel=f'{NEW}-200.fc42.x86_64'),
     f'kernel {OLD}-200.fc42.x86_64 -> {NEW}-200.fc42.x86_64', f'sudo grubby --set-default /boot/vmlinuz-{OLD}-200.fc42.x86_64'),
    ('Mesa and firmware at once', guilty(Machine('fedora').ordinary(4, *FEDORA), ('mesa-dri-drivers', '25.0.7-4', '25.1.4-1.fc42'), ('amd-gpu-firmware', '20250509-1.fc42', '20250708-1.fc42')),
     'the update of 2025-07-13 (the GPU\'s firmware, Mesa)', 'sudo dnf history undo 5'),
    ('firmware', guilty(Machine('fedora-dnf4').ordinary(3, *FEDORA), ('amd-gpu-firmware', '20250509-1.el9', '20250708-1.el9')), 'amd-gpu-firmware 20250509-1.el9 -> 20250708-1.el9',
     'sudo dnf history undo 4'),
    ('firmware', guilty(Machine('arch').ordinary(3, *ARCH), ('linux-firmware-amdgpu', '20250613.12fe085f-1', '20250708-1')), 'linux-firmware-amdgpu 20250613.12fe085f-1 -> 20250708-1',
     "echo 'Server=https://archive.archlinux.org/repos/2025/06/29/$repo/os/$arch'"),
    ('Mesa', guilty(Machine('arch').ordinary(2, ('linux-firmware-amdgpu', '20250613')), ('mesa', '1:25.1.4-1', '1:25.1.5-1')), 'mesa 1:25.1.4-1 -> 1:25.1.5-1', 'sudo pacman -Syyuu'),
    ('kernel', guilty(Machine('opensuse', f'{OLD}-1-default').ordinary(3, *SUSE), ('kernel-default', f'{OLD}-1.1', f'{NEW}-1.1'), kernel=f'{NEW}-1-default'),
     f'kernel {OLD}-1-default -> {NEW}-1-default', f'choose Advanced options, then {OLD}-1-default'),
    ('Mesa', guilty(Machine('opensuse').ordinary(2, ('kernel-firmware-amdgpu', '20250613')), ('Mesa', '25.0.7-1.1', '25.1.4-2.1')), 'Mesa 25.0.7-1.1 -> 25.1.4-2.1',
     'sudo zypper install --oldpackage Mesa=25.0.7-1.1'),
    ('image', guilty(Machine('silverblue').days(41), ('image', '42.20250603.0', '42.20250713.0')), 'ostree/deployment 42.20250603.0 -> 42.20250713.0', 'sudo rpm-ostree rollback'),
    ('generation', guilty(Machine('nixos').days(20).update(('nixos-system', '', '25.05.803000.aaa')).days(21), ('nixos-system', '25.05.803000.aaa', '25.05.806000.bbb')),
     'nixos-system 25.05.803000.aaa -> 25.05.806000.bbb', '--switch-generation 41'),
    ('image', Machine('steamos', '6.11.11-valve12-1-neptune-611').days(41).days(5, hang=True, kernel='6.11.11-valve17-1-neptune-611'),
     'kernel 6.11.11-valve12-1-neptune-611 -> 6.11.11-valve17-1-neptune-611', 'choose the previous version'),

    ('it was there before', guilty(Machine('debian').days(3).days(1, hang=True).ordinary(3, *DEBIAN), ('firmware-amd-graphics', '20250410-2', '20250708-1')), None, None),
    ('once, three hours after', Machine('ubuntu').ordinary(3, *DEBIAN).update(('linux-firmware', '1-1', '1-2')).days(1, hang=True), None, None),
    ('evenly', is_evenly(Machine('fedora')), None, None),
    ('a kernel that was not booted', guilty(Machine('fedora-dnf4', f'{OLD}-200.fc42.x86_64').ordinary(3, *FEDORA), ('kernel-core', '', f'{NEW}-200.fc42')), None, None),
    ('boots of which nobody knows', guilty(Machine('arch').days(41, clean=False), ('mesa', '1:25.1.4-1', '1:25.1.5-1')), None, None),
    ('many in one boot', Machine('opensuse').ordinary(3, *SUSE).update(('Mesa', '25.0.7-3', '25.1.4-2.1')).days(1, hang=[1, 2, 3, 4]), None, None),
    ('before and after', Machine('silverblue').days(30).days(1, hang=True).days(10).update(('image', '42.20250603.0', '42.20250713.0')).days(5, hang=True), None, None),
    ('once', Machine('nixos').days(41).update(('nixos-system', '25.05.803000.aaa', '25.05.806000.bbb')).days(1, hang=True), None, None),
    ('nothing changed', Machine('steamos', '6.11.11-valve12-1-neptune-611').days(41).days(5, hang=True), None, None),
    ('another program each time', Machine('debian').ordinary(3, *DEBIAN).update(('firmware-amd-graphics', '20250410-2', '20250708-1'))
     .days(1, hang=True, process='firefox').days(1, hang=True, process='blender').days(1, hang=True), None, None),
    ('a row of reboots', Machine('arch').ordinary(3, *ARCH).update(('mesa', '1:25.1.4-1', '1:25.1.5-1')).days(4, hang=True, hours=0.2, after=0.25), None, None),
]
FEW = {'debian': (1, 14), 'ubuntu': (3, 15), 'fedora': (5, 16), 'fedora-dnf4': (17,), 'arch': (7, 18), 'opensuse': (10,), 'silverblue': (11,), 'nixos': (12,), 'steamos': (13,)}


# --- logs of package managers ---

def utc(seconds, form):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(form)


def write(root, path, text, when=None):
    path = root / path.lstrip('/')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if when:
        os.utime(path, (when, when))


def apt(root, machine):
    """Both of dpkg's log and apt's own: what one run did stands in both."""
    dpkg = history = ''
    for when, packages in machine.updates:
        history += utc(when, '\nStart-Date: %Y-%m-%d  %H:%M:%S\nCommandline: apt full-upgrade\nRequested-By: user (1000)\n')
        installed = ', '.join(f'{name}:amd64 ({new}, automatic)' for name, old, new in packages if not old)
        upgraded = ', '.join(f'{name}:amd64 ({old}, {new})' for name, old, new in packages if old)
        history += (f'Install: {installed}\n' if installed else '') + (f'Upgrade: {upgraded}\n' if upgraded else '') + utc(when + 20, 'End-Date: %Y-%m-%d  %H:%M:%S\n')
        dpkg += utc(when + 1, '%Y-%m-%d %H:%M:%S startup archives unpack\n')
        for name, old, new in packages:
            dpkg += utc(when + 5, '%Y-%m-%d %H:%M:%S ') + (f'upgrade {name}:amd64 {old} {new}\n' if old else f'install {name}:amd64 <none> {new}\n')
            dpkg += utc(when + 6, '%Y-%m-%d %H:%M:%S ') + f'status installed {name}:amd64 {new}\n'
    write(root, '/var/log/apt/history.log', history)
    write(root, '/var/log/dpkg.log', dpkg)


def pacman(root, machine):
    text = ''
    for when, packages in machine.updates:
        stamp = utc(when + 2 * HOUR, '[%Y-%m-%dT%H:%M:%S+0200] ')
        text += f'{stamp}[PACMAN] starting full system upgrade\n{stamp}[ALPM] transaction started\n'
        text += ''.join(f'{stamp}[ALPM] upgraded {name} ({old} -> {new})\n' for name, old, new in packages) + f'{stamp}[ALPM] transaction completed\n'
    write(root, '/var/log/pacman.log', text)


def zypper(root, machine):
    text = ''
    first = {name: old for _, packages in reversed(machine.updates) for name, old, _ in packages}
    rows = [(BEGIN - DAY, [(name, '', old) for name, old in first.items() if old]), *machine.updates]
    for when, packages in rows:
        stamp = utc(when, '%Y-%m-%d %H:%M:%S|')
        text += f"{stamp}command|root@host|'zypper' 'dup'|\n" + ''.join(f'{stamp}install|{name}|{new}|x86_64||repo-oss|0a1b|\n' for name, _, new in packages)
    write(root, '/var/log/zypp/history', text)


def split(version):
    return version.rsplit('-', 1) if '-' in version else (version, '1')


def dnf4(root, machine):
    (root / 'var/lib/dnf').mkdir(parents=True)
    db = sqlite3.connect(root / 'var/lib/dnf/history.sqlite')
    db.executescript("""CREATE TABLE trans (id INTEGER PRIMARY KEY AUTOINCREMENT, dt_begin INTEGER NOT NULL, dt_end INTEGER, rpmdb_version_begin TEXT, rpmdb_version_end TEXT,
            releasever TEXT NOT NULL, user_id INTEGER NOT NULL, cmdline TEXT, state INTEGER NOT NULL, comment TEXT DEFAULT '');
        CREATE TABLE repo (id INTEGER PRIMARY KEY, repoid TEXT NOT NULL);
        CREATE TABLE item (id INTEGER PRIMARY KEY, item_type INTEGER NOT NULL);
        CREATE TABLE trans_item (id INTEGER PRIMARY KEY AUTOINCREMENT, trans_id INTEGER, item_id INTEGER, repo_id INTEGER, action INTEGER NOT NULL, reason INTEGER NOT NULL,
            state INTEGER NOT NULL);
        CREATE TABLE rpm (item_id INTEGER UNIQUE NOT NULL, name TEXT NOT NULL, epoch INTEGER NOT NULL, version TEXT NOT NULL, release TEXT NOT NULL, arch TEXT NOT NULL);""")
    item = 0
    for number, (when, packages) in enumerate(machine.updates, 1):
        db.execute("INSERT INTO trans VALUES (?, ?, ?, '', '', '42', 1000, 'dnf upgrade', 1, '')", (number, when, when + 20))
        for name, old, new in packages:
            for version, action in ((old, 7), (new, 6 if old else 1)):
                if not version:
                    continue
                item += 1
                db.execute('INSERT INTO item VALUES (?, 1)', (item,))
                db.execute('INSERT INTO rpm VALUES (?, ?, 0, ?, ?, ?)', (item, name, *split(version), 'x86_64'))
                db.execute('INSERT INTO trans_item (trans_id, item_id, repo_id, action, reason, state) VALUES (?, ?, 1, ?, 2, 1)', (number, item, action))
    db.commit()
    db.close()


def dnf5(root, machine):
    (root / 'usr/lib/sysimage/libdnf5').mkdir(parents=True)
    db = sqlite3.connect(root / 'usr/lib/sysimage/libdnf5/transaction_history.sqlite')
    db.executescript("""CREATE TABLE trans_state (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE trans (id INTEGER PRIMARY KEY AUTOINCREMENT, dt_begin INTEGER NOT NULL, dt_end INTEGER, rpmdb_version_begin TEXT, rpmdb_version_end TEXT, releasever TEXT NOT NULL,
            user_id INTEGER NOT NULL, description TEXT, comment TEXT, state_id INTEGER);
        CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT);
        CREATE TABLE trans_item_action (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE trans_item_reason (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE trans_item_state (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE repo (id INTEGER PRIMARY KEY, repoid TEXT NOT NULL);
        CREATE TABLE arch (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE pkg_name (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE trans_item (id INTEGER PRIMARY KEY AUTOINCREMENT, trans_id INTEGER, item_id INTEGER, repo_id INTEGER, action_id INTEGER, reason_id INTEGER, state_id INTEGER);
        CREATE TABLE rpm (item_id INTEGER UNIQUE NOT NULL, name_id INTEGER NOT NULL, epoch INTEGER NOT NULL, version TEXT NOT NULL, release TEXT NOT NULL, arch_id INTEGER);
        INSERT INTO trans_item_action VALUES (1, 'Install'), (2, 'Upgrade'), (3, 'Downgrade'), (4, 'Reinstall'), (5, 'Remove'), (6, 'Replaced'), (7, 'Reason Change');
        INSERT INTO trans_item_state VALUES (1, 'Started'), (2, 'Ok'), (3, 'Error');
        INSERT INTO trans_state VALUES (1, 'Started'), (2, 'Ok'), (3, 'Error');
        INSERT INTO arch VALUES (1, 'x86_64');""")
    names, item = {}, 0
    for number, (when, packages) in enumerate(machine.updates, 1):
        db.execute("INSERT INTO trans VALUES (?, ?, ?, '', '', '42', 1000, 'dnf upgrade', '', 2)", (number, when, when + 20))
        for name, old, new in packages:
            if name not in names:
                names[name] = len(names) + 1
                db.execute('INSERT INTO pkg_name VALUES (?, ?)', (names[name], name))
            for version, action in ((old, 6), (new, 2 if old else 1)):
                if not version:
                    continue
                item += 1
                db.execute('INSERT INTO item VALUES (?)', (item,))
                db.execute('INSERT INTO rpm VALUES (?, ?, 0, ?, ?, 1)', (item, names[name], *split(version)))
                db.execute('INSERT INTO trans_item (trans_id, item_id, repo_id, action_id, reason_id, state_id) VALUES (?, ?, 1, ?, 1, 2)', (number, item, action))
    db.commit()
    db.close()


def ostree(root, machine):
    """Two deployments are left: the one that runs, and the one before."""
    when, packages = machine.updates[-1]
    for number, (time, version) in enumerate(((BEGIN - 10 * DAY, packages[0][1]), (when, packages[0][2]))):
        deployment = f'/ostree/deploy/fedora/deploy/{number:064x}.0'
        write(root, f'{deployment}/usr/lib/os-release', f'ID=fedora\nVERSION_ID=42\nOSTREE_VERSION=\'{version}\'\n'.replace("'", '"'))
        write(root, f'{deployment}.origin', '[origin]\ncontainer-image-reference=ostree-image-signed\n', time)


def nix(root, machine):
    profiles = root / 'nix/var/nix/profiles'
    profiles.mkdir(parents=True)
    rows = [(BEGIN - 10 * DAY, machine.updates[0][1]), *machine.updates]
    for number, (when, packages) in enumerate(rows, 40 if len(rows) == 3 else 41):
        version = packages[0][1] or '25.05.800000.000' if when < BEGIN else packages[0][2]
        link = profiles / f'system-{number}-link'
        link.symlink_to(f'/nix/store/{number:032x}-nixos-system-host-{version}')
        os.utime(link, (when, when), follow_symlinks=False)


MANAGERS = {'debian': apt, 'ubuntu': apt, 'fedora': dnf5, 'fedora-dnf4': dnf4, 'arch': pacman, 'opensuse': zypper, 'silverblue': ostree, 'nixos': nix, 'steamos': None}


# --- the journal ---

def lines_of(boot, last):
    """Kernel lines with their seconds, and what systemd writes when it stops."""
    yield 0, f"Linux version {boot['kernel']} (build@host) (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC", 'kernel'
    yield 0.1, f"Command line: BOOT_IMAGE=/boot/vmlinuz-{boot['kernel']} root=UUID=1 ro quiet", 'kernel'
    yield 0.2, 'DMI: ASUS System Product Name/ROG STRIX B650E-F, BIOS 3024 03/21/2025', 'kernel'
    yield 4, 'amdgpu 0000:03:00.0: enabling device (0006 -> 0007)', 'kernel'
    yield 4.1, 'amdgpu 0000:03:00.0: initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1002:0x0E3B 0xC8).', 'kernel'
    for hours in boot['hangs']:
        at = hours * HOUR
        yield at, 'amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102', 'kernel'
        yield at + 0.1, f"amdgpu 0000:03:00.0: amdgpu:  Process {boot['process']} pid 777 thread {boot['process']}:cs0 pid 778", 'kernel'
        yield at + 0.2, 'amdgpu 0000:03:00.0: amdgpu: GPU reset begin!', 'kernel'
        yield at + 1, 'amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!', 'kernel'
    end = boot['hours'] * HOUR
    if boot['clean'] and not last:
        yield end - 2, 'systemd-shutdown[1]: Syncing filesystems and block devices.', 'daemon'
        yield end - 1, 'systemd-shutdown[1]: Sending SIGTERM to remaining processes...', 'daemon'
        yield end, 'Journal stopped', 'journal'
    else:
        yield end, 'usb 1-3: new high-speed USB device number 7 using xhci_hcd', 'kernel'


def journal(root, machine):
    text, number = [], 0
    for index, boot in enumerate(machine.boots):
        for seconds, message, transport in lines_of(boot, boot is machine.boots[-1]):
            number += 1
            fields = journals.fields(number, f'{index + 0x1000:032x}', int(boot['begin'] * 1e6), int(seconds * 1e6) + 1000, message, 'kernel' if transport == 'kernel' else transport)
            if transport == 'journal':
                fields.update({'_TRANSPORT': 'driver', '_SYSTEMD_UNIT': 'systemd-journald.service', '_COMM': 'systemd-journal', 'SYSLOG_IDENTIFIER': 'systemd-journald', '_UID': 0,
                               'MESSAGE_ID': 'd93fb3c9c24d451a97cea615ce59c00b'})
            text.append(journals.export(fields))
    journals.write(root / 'var/log/journal/0123456789abcdef0123456789abcdef', b''.join(text))


def make(unhang, number):
    name, machine, _, _ = MACHINES[number]
    return make_tree(unhang.directory / f'machine-{number}', machine, name)


def make_tree(root, machine, name=''):
    root.mkdir()
    if MANAGERS[machine.distribution]:
        MANAGERS[machine.distribution](root, machine)
    journal(root, machine)
    if 'kept' in name:
        write(root, '/var/cache/apt/archives/linux-firmware_20240318-0ubuntu2.13_amd64.deb', '')
    for kernel in {boot['kernel'] for boot in machine.boots}:
        if 'neptune' not in kernel:
            (root / 'lib/modules' / kernel).mkdir(parents=True)
    return root


def test_machines(tap, unhang, numbers):
    found = wrong = 0
    for number in numbers:
        name, machine, blamed, command = MACHINES[number]
        title = f'{machine.distribution}: {name}'
        answer = unhang.explain('--root', make(unhang, number))
        tap.no_complaints(answer.complaints, f'{title}: a right document')
        incident = answer.first.data
        changed = incident['changed']
        roles = [change['role'] for change in incident['changes']]
        if not blamed:
            wrong += 'to-blame' in roles
            tap.ok('to-blame' not in roles, f'{title}: nothing is blamed', changed)
            tap.ok(not any(remedy['id'].startswith('back-to') for remedy in incident['remedies']), 'and no way back is offered', incident['remedies'])
            continue
        right = roles[:1] == ['to-blame'] and blamed in changed['text'] and 'not once in the 41 boots before' in changed['text']
        found += right
        tap.ok(right, f'{title}: {blamed}', f'{changed}\n{incident["changes"]}')
        first = incident['remedies'][0] if incident['remedies'] else {'id': '', 'do': [], 'undo': None, 'shown': False}
        tap.ok(first['id'].startswith('back-to') and first['shown'] and command in ' '.join(first['do']) and first['undo'], 'and the way back is the first remedy', first)
        test_way_back(tap, unhang, unhang.directory / f'machine-{number}', title, ' '.join(first['do'][:1]))
    tap.note(f'{found} of {sum(1 for n in numbers if MACHINES[n][2])} found, {wrong} of {sum(1 for n in numbers if not MACHINES[n][2])} blamed wrongly')


def joined(text):
    return ' '.join(re.sub(r' \\\n +', ' ', text).split())


def test_way_back(tap, unhang, root, title, step):
    """The way back stands on the first screen, and near the top of what is shared: the command, or the words where none does it."""
    text = unhang.run('explain', '--root', root).stdout.decode()
    lines = text.splitlines()
    behind = re.search(r'\[back-to-[a-z-]+\]\n((?: {8,}.*\n)+)', text)
    told = joined(behind.group(1)).split(' 2. ')[0].strip() if behind else ''
    tap.ok(told and (joined(step).startswith(told) or 'explain -v has the command' in told), f'{title}: the first screen has the way back', f'{step}\n{text}')
    tap.ok(len(lines) <= 24 and all(len(line) <= 80 for line in lines), 'and fits', text)
    tap.ok(re.search(r'not once in the \d+ boots before, in \d+ since', joined(text)), 'how often since is there', text)
    command = told if joined(step).startswith(told) else step.split(' (')[0]
    markdown = unhang.run('explain', '--root', root, '--markdown').stdout.decode()
    tap.ok(command in joined(markdown).replace('\\', ''), 'Markdown has it', markdown)
    page = unhang.directory / 'way.html'
    unhang.run('explain', '--root', root, '--html', page)
    top = html.unescape(page.read_text().split('<svg')[0])
    page.unlink()
    tap.ok('<dt>Changed</dt><dd>first seen' in top and command in joined(top), 'and HTML, above its pictures', top[-2000:])


def test_screen(tap, unhang):
    """The first screen has the row, the command, and not more than 24 lines."""
    root = make(unhang, 0)
    text = unhang.run('explain', '--root', root).stdout.decode()
    lines = text.splitlines()
    tap.ok(len(lines) <= 24 and all(len(line) <= 80 for line in lines), 'it fits the screen', text)
    changed = ' '.join(' '.join(lines[n:n + 2]) for n, line in enumerate(lines) if line.startswith('Changed'))
    tap.ok('first seen 3 h after firmware-amd-graphics 20250410-2 -> 20250708-1; not once in the 41 boots before' in ' '.join(changed.split()), 'what changed is a row', text)
    tap.ok('sudo apt install --allow-downgrades firmware-amd-graphics=20250410-2' in ' '.join(text.split()), 'the command is there', text)
    long = ' '.join(unhang.run('explain', '-v', '--root', root).stdout.decode().split())
    tap.ok('seen in 5 boots, all of them after it' in long and 'sudo apt-mark hold firmware-amd-graphics' in long and '/var/log/apt/history.log' in long, 'and -v tells why', long)
    markdown = unhang.run('explain', '--root', root, '--markdown').stdout.decode()
    tap.ok('| **Changed** | first seen 3 h after firmware-amd-graphics' in markdown, 'so does Markdown', markdown)
    tap.ok('changed on 2025-07-13, in use from 2025-07-14 on; first seen on 2025-07-14' in long and 'hours of use' in long, 'with the days', long)
    older = unhang.run('explain', '-v', '--root', make(unhang, 14)).stdout.decode()
    tap.ok('Changed nothing to blame: the same incident was seen on 2025-06-06, before every' in joined(older), 'seen before: -v says when', older)
    tap.ok('[journal, line' in joined(older) and '(low confidence)' in older and 'in the cause: medium (' in joined(older), 'with the source of a line, and one story of confidence', older)
    for words in (('explain',), ()):
        gone = unhang.run(*words, '--root', '/nonexistent/tree')
        tap.same((gone.returncode, gone.stderr.decode()), (2, 'unhang: --root /nonexistent/tree: No such file or directory\n'), f'{" ".join(words)}: a tree that is not there is named')
    remedy = joined(unhang.run('remedy', 'back-to-package').stdout.decode())
    tap.ok('CHANGED' not in remedy and 'unhang explain -v on that machine names the packages' in remedy, 'without a machine: what names them', remedy)
    steps = joined(unhang.run('explain', '-v', '--root', make(unhang, 12)).stdout.decode())
    tap.ok('initramfs' not in steps.split(' 2. ')[0], 'NixOS: nothing of other distributions', steps)


def test_ways(tap, unhang):
    """What was done since, what is not there any more, and what a stranger may have written."""
    def explain(name, machine, without=None):
        root = make_tree(unhang.directory / name, machine)
        if without:
            (root / 'lib/modules' / without).rmdir()
        incident = unhang.explain('--root', root).first.data
        return incident['changed'], ' '.join(text for remedy in incident['remedies'] if remedy['id'].startswith('back-to') for text in [*remedy['do'], remedy['undo'] or ''])
    firmware = ('firmware-amd-graphics', '20250410-2', '20250708-1')
    debian, debian_again = Machine('debian').ordinary(3, *DEBIAN), Machine('debian').ordinary(3, *DEBIAN)
    changed, ways = explain('undone', guilty(debian, firmware).update((firmware[0], firmware[2], firmware[1])).days(3))
    tap.same((changed['undone'], changed['text'].endswith('taken back since'), ways), (True, True, ''), 'taken back already: no way back is offered')
    changed, ways = explain('pending', guilty(debian_again, firmware).update((firmware[0], firmware[2], firmware[1])))
    tap.same((changed['undone'], changed['text'].endswith('taken back since; takes effect at the next boot'), ways), (True, True, ''), 'taken back and not booted since: the same')
    kernel = guilty(Machine('debian', f'{OLD}-amd64').ordinary(3, *DEBIAN), (f'linux-image-{NEW}-amd64', '', f'{NEW}-1'), kernel=f'{NEW}-amd64')
    _, ways = explain('gone', kernel, f'{OLD}-amd64')
    tap.ok(f'sudo apt install linux-image-{OLD}-amd64, then' in ways and 'CHANGED' not in ways, 'the older kernel was removed: it is installed again', ways)
    _, ways = explain('menu', Machine('arch', '6.14.3-arch1-1').days(41).days(5, hang=True, kernel='6.15.1-arch1-1'), '6.14.3-arch1-1')
    tap.ok('kernel 6.14.3-arch1-1' in ways.replace('pkg/linux-', 'kernel '), 'no log of packages: the kernel by its name', ways)
    for number, version in enumerate(('1;touch${IFS}/tmp/x', '$(touch_x)', '~root', '-rf', "1'2", '1`x`', '25.0-', '1/../x')):
        changed, ways = explain(f'hostile-{number}', guilty(Machine('ubuntu').ordinary(2, *DEBIAN), ('linux-firmware', version, '2')))
        tap.ok('first seen' in changed['text'] and version not in ways, f'{version}: not in a command', ways)


def test_unread(tap, unhang):
    """While one log could not be read, what the others tell is not blamed."""
    path, gone = 'usr/lib/sysimage/libdnf5/transaction_history.sqlite', unhang.directory / 'unread-0'
    make_tree(gone, guilty(Machine('fedora').ordinary(2, *FEDORA), ('amd-gpu-firmware', '1-1', '2-1')))
    write(gone, '/etc/modprobe.d/amdgpu.conf', 'options amdgpu runpm=0\n', BEGIN + 40 * DAY + 5 * HOUR)
    tap.same(unhang.explain('--root', gone).first.data['changes'][0]['role'], 'to-blame', 'all of it was read: a change is blamed')
    whole = (gone / path).read_bytes()
    for name, damage in (('cut', lambda at: at.write_bytes(whole[:len(whole) // 2])), ('empty', lambda at: at.write_bytes(b'')), ('a pipe', os.mkfifo), ('a link', lambda at: at.symlink_to('/etc/passwd'))):
        (gone / path).unlink()
        damage(gone / path)
        answer = unhang.explain('--root', gone)
        tap.no_complaints(answer.complaints, f'a database that is {name}: a right document')
        incident, notes = answer.first.data, [note['text'] for note in answer.document['notes']]
        tap.ok(not incident['changed']['read'] and all(change['role'] == 'lately' for change in incident['changes']), 'nothing is blamed', incident['changed'])
        tap.ok(len(notes) == 1 and path in notes[0], 'and one note says why', notes)
        tap.ok(not any(remedy['id'].startswith('back-to') for remedy in incident['remedies']), 'no way back is offered', incident['remedies'])
    text = [unhang.run('explain', *more, '--root', gone).stdout.decode() for more in (['-v'], [])]
    tap.ok('not all was read' in ' '.join(text[0].split()) and 'not all was read' not in text[1], '-v has the note, the first screen has not', text)


def test_log(tap, unhang):
    """A log of several boots without its machine: their kernels tell what changed. How long the quiet ones were nobody knows, so none is blamed."""
    machine = Machine('debian', '6.14.3-arch1-1').days(6).days(2, hang=True, kernel='6.15.1-arch1-1')
    text = ''.join(utc(boot['begin'] + seconds, '%Y-%m-%dT%H:%M:%S+0000 ') + f'host kernel: {message}\n' for boot in machine.boots for seconds, message, transport in lines_of(boot, False)
                   if transport == 'kernel')
    changed = unhang.explain_text(text).first.data['changed']
    tap.same(changed['text'], 'lately: kernel 6.14.3-arch1-1 -> 6.15.1-arch1-1, 3 h before', 'the kernels of its boots')
    same = unhang.explain_text(text.replace('6.15.1', '6.14.3')).first.data
    tap.same((same['changed']['text'], same['changes']), (None, []), 'one kernel: nothing changed')


def main():
    if not os.path.exists(journals.REMOTE):
        skip_all('systemd-journal-remote is not on this machine')
    tap, unhang = Tap(), Unhang(sys.argv[1])
    tap.ok(len(MACHINES) == 25 and sum(1 for m in MACHINES if m[2]) == 14 and len({m[1].distribution.split('-')[0] for m in MACHINES}) == 8,
           '25 machines of eight distributions, 14 with a change that is to blame', '')
    few = sorted(number for numbers in FEW.values() for number in numbers)
    test_screen(tap, Unhang(sys.argv[1]))
    test_log(tap, unhang)
    test_ways(tap, unhang)
    test_unread(tap, unhang)
    test_machines(tap, unhang, range(len(MACHINES)) if os.environ.get('UNHANG_TEST_ALL') else few)
    tap.end()


if __name__ == '__main__':
    main()
