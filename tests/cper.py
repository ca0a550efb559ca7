"""Writes records of hardware errors (CPER) as the amdgpu driver lays them out (linux drivers/gpu/drm/amd/include/amd_cper.h)."""
import struct
import uuid

CORRECTED, FATAL, UNCORRECTED = 2, 1, 0
MCE = uuid.UUID("e8f56ffe-919c-4cc5-ba88-65abe14913bb").bytes_le
CMC = uuid.UUID("2dce8bb1-bdd7-450e-b9ad-9cf4ebd4f890").bytes_le
BOOT = uuid.UUID("3d61a466-ab40-409a-a698-f362d464b38f").bytes_le
CRASH_SECTION = uuid.UUID("32ac0c78-2623-48f6-b0d0-7365725fd6ae").bytes_le
RUNTIME_SECTION = uuid.UUID("32ac0c78-2623-48f6-81a2-ac691780551d").bytes_le
# STATUS: bits by their names
VALID, OVERFLOW, UC, EN, MISC_V, ADDR_V, PCC, TCC, SYND_V = (1 << n for n in (63, 62, 61, 60, 59, 58, 57, 55, 53))
CECC, UECC, DEFERRED, POISON, SCRUB = (1 << n for n in (46, 45, 44, 43, 40))


def ipid(hardware, kind, instance=0, upper=0):
    return kind << 48 | upper << 44 | hardware << 32 | instance


def status(code=0, bits=0):
    return VALID | EN | bits | code << 16


def section(severity, registers=None, boot=None, threshold=False, flags=1, oam=0, room=0):
    """(heading, body); @registers: status, addr, misc, ipid, synd. @room: bytes behind them, which the driver does not write."""
    crash = boot is not None or (severity == FATAL and not threshold)
    if boot is not None:
        words, kind = struct.pack("<8Q", *(list(boot) + [0] * 8)[:8]), 9
    elif crash:
        words, kind = struct.pack("<4Q", registers[0], registers[1], registers[3], registers[4]), 1
    else:
        s, a, m, i, y = registers
        words, kind = struct.pack("<16Q", 1, s, a, m, 0x1ff00000002, i, y, *[0] * 9), 1
    head = b"\0" * 128 if crash else struct.pack("<QQ48s", 1 << 2 | 1 << 8, 0, b"") + RUNTIME_SECTION + struct.pack("<6Q", 0, 1, 0, 0, 0, 0)
    body = head + struct.pack("<HHIQ", kind, len(words), 0, 0) + words + b"\0" * room
    heading = (1, 0x22, flags | (8 if threshold else 0), CRASH_SECTION if crash else RUNTIME_SECTION, severity, f"OAM{oam}".encode())
    return heading, body


def record(severity, sections, when=(2026, 5, 28, 11, 22, 33), number=1, socket=0, platform="0x1002:0x74A1", notify=None, timed=True):
    offset = 128 + 72 * len(sections)
    heads = bodies = b""
    for (minor, major, flags, kind, grave, fru), body in sections:
        heads += struct.pack("<IIBBBBI16s16sI20s", offset, len(body), minor, major, 2, 0, flags, kind, b"", grave, fru)
        bodies += body
        offset += len(body)
    y, mo, d, h, mi, s = when
    stamp = struct.pack("<8B", s, mi, h, 0, d, mo, y % 100, y // 100)
    return (struct.pack("<4sHIHIII", b"CPER", 0x100, 0xffffffff, len(sections), severity, 1 | (2 if timed else 0), offset) + stamp +
            struct.pack("<16s16s16s16s8sIQ12s", platform.encode(), b"", b"amdgpu", notify or (CMC if severity == CORRECTED else MCE), f"{socket}:{number:X}".encode(), 0, 0, b"") +
            heads + bodies)


def bank(severity, status_, ipid_, addr=0, misc=0, synd=0, oam=0, room=0, **more):
    return record(severity, [section(severity, (status_, addr, misc, ipid_, synd), oam=oam, room=room)], **more)


def threshold(socket=0, **more):
    """The record that the driver itself makes of too many bad pages."""
    where = ipid(0x96, 0, socket // 4 & 1, socket % 4)
    return record(FATAL, [section(FATAL, (0xB000000000000137, 0, 0, where, 0), threshold=True, oam=socket)], socket=socket, **more)


def boot(messages, oam=0, **more):
    return record(FATAL, [section(FATAL, boot=messages, oam=oam)], notify=BOOT, **more)


def ring(records):
    """The driver's file amdgpu_ring_cper."""
    data = b"".join(records)
    return struct.pack("<3I", 0, len(data) // 4, len(data) // 4) + data
