"""Files of the journal, made by systemd-journal-remote."""
import subprocess

import kernel_lines

REMOTE = '/lib/systemd/systemd-journal-remote'
LATER = 500  # microseconds from the kernel's message to journald's record


def fields(number, boot, began, usec, message, transport='kernel'):
    """Of a record as journald makes it: of a boot that began at a time of the day, at a time of the kernel's clock. Transport `daemon`: what a program wrote into the kernel's log."""
    device = kernel_lines.device_of(message) if transport == 'kernel' else None
    return {
        '__CURSOR': f's=1;i={number}', '__REALTIME_TIMESTAMP': began + usec + LATER, '__MONOTONIC_TIMESTAMP': usec + LATER, '_BOOT_ID': boot,
        '_TRANSPORT': 'kernel' if transport == 'daemon' else transport, '_SOURCE_MONOTONIC_TIMESTAMP': usec, 'PRIORITY': 3,
        'SYSLOG_FACILITY': 3 if transport == 'daemon' else 0, '_HOSTNAME': 'node1', 'MESSAGE': message,
        **({'_KERNEL_SUBSYSTEM': device[0], '_KERNEL_DEVICE': device[1]} if device else {}),
    }


def export(all_fields):
    """As `journalctl -o export` has it: a value with a newline stands behind its length."""
    text = b''
    for key, value in all_fields.items():
        value = str(value).encode()
        text += key.encode() + (b'\n' + len(value).to_bytes(8, 'little') + value if b'\n' in value else b'=' + value) + b'\n'
    return text + b'\n'


def write(directory, text):
    directory.mkdir(parents=True)
    subprocess.run([REMOTE, '-o', directory / 'system.journal', '-'], input=text, check=True, capture_output=True)
    return directory / 'system.journal'
