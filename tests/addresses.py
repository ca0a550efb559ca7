#!/usr/bin/env python3
"""Every register that a look reads is read where the driver itself would: what reaches each emulated part is held against
driver-addresses-6.12.txt, which tools/driver-addresses makes of the driver's code, not of the tables in knowledge/registers
(registers.py holds it against that code)."""
import json
import re
import sys

import emulated
import tap

LIST = tap.HERE / "driver-addresses-6.12.txt"
PARTS_TEXT = tap.HERE / ".." / "emulator" / "parts.text"
BUFFER = 0x7f0080000000
GPU = """gpu {pci}
    part {part}
    shaders xccs {xccs} ses 1 shs 1 cus 2
    busy 100
    register GRBM_STATUS.GUI_ACTIVE = 1
    register GRBM_STATUS.SPI_BUSY = 1
    register GRBM_STATUS2.CPC_BUSY = 1
    wave 4 pc {buffer:#x}
    map 3 {buffer:#x} vram 0x100000 8K
    virtual 3 {buffer:#x} 0xffff1000 0xffff1000
    ring {compute} rptr 0x40 wptr 0x44
    packets {compute} at 0x40 0xc0023f00 0x80000000 0x7f00 0x03000002
    ring {copies} rptr 0x40 wptr 0x46
    packets {copies} at 0x40 0x00030004 0x80000000 0x7f00 0x2 0 0
"""
ALWAYS = {"GRBM_STATUS", "CP_CPC_STATUS", "RLC_GPM_STAT", "SDMA0_STATUS_REG", "VM_CONTEXT3_CNTL", "MC_VM_FB_LOCATION_BASE",
          "VM_L2_PROTECTION_FAULT_STATUS"}


def bases_of_parts():
    """part -> HWIP -> base addresses of each instance, as the emulated parts tell them."""
    parts, now = {}, {}
    for line in PARTS_TEXT.read_text().splitlines():
        words = line.split()
        if line.startswith("part "):
            now = parts.setdefault(words[1], {})
        elif words[:1] == ["ip"]:
            rest = re.sub(r"(instance|die) \d+ ", "", " ".join(words[3:])).split()
            now.setdefault(words[1].upper(), []).append([int(b, 0) for b in rest])
    return parts


def read_list(told):
    """part -> address -> names; and what the base addresses of the emulated parts have wrong."""
    found, wrong = {}, []
    for line in LIST.read_text().splitlines():
        if line.startswith("#"):
            continue
        part, hwip, *rest = line.split()
        if hwip == "base":
            bases = [int(b, 0) for b in rest[1:-1]]
            mine = told[part].get(rest[0], [bases])[0]
            if mine != bases[:len(mine)]:
                wrong.append(f"{part}: {rest[0]} is at {[hex(b) for b in mine]}, {rest[-1]} says {[hex(b) for b in bases]}")
            continue
        segment, offset, name, _ = rest
        first, step, count = re.fullmatch(r"(0x[0-9a-f]+)(?:\+(0x[0-9a-f]+)\*(\d+))?", offset).groups()
        for bases in told[part].get(hwip, []):
            for n in range(int(count or 1)):
                if int(segment) < len(bases):
                    address = 4 * (bases[int(segment)] + int(first, 16) + n * int(step or "0", 16))
                    found.setdefault(part, {}).setdefault(address, set()).add(name.replace("*", str(n)))
    return found, wrong


def addresses_read(record):
    """pci or render node -> addresses."""
    read = {}
    for line in record.read_text().splitlines():
        done = json.loads(line)
        path, at = done["path"], done.get("offset", 0)
        if done["op"] == "read" and path.endswith(("amdgpu_regs", "amdgpu_regs2")):
            at = at & 0x3fffff if path.endswith("regs") else at
            read.setdefault(path.split("/")[-2], set()).update(range(at, at + done["size"], 4))
        elif done["op"] == "ioctl" and "renderD" in path and done["request"] == "0x40206445":
            words = [int.from_bytes(bytes.fromhex(done["data"])[i:i + 4], "little") for i in range(0, 32, 4)]
            if words[3] == 0x15:
                read.setdefault(path.split("/")[-1], set()).update(range(4 * words[4], 4 * (words[4] + words[5]), 4))
    return read


def test_reads(t, unhang, found, told):
    parts = sorted(found)
    text = "".join(GPU.format(pci=f"0000:{i + 1:02x}:00.0", part=part, buffer=BUFFER, xccs=len(told[part]["GC"]),
                              compute="comp_0.1.0.0" if len(told[part]["GC"]) > 1 else "comp_1.0.0",
                              copies="sdma0.0" if len(told[part]["GC"]) > 1 else "sdma0") for i, part in enumerate(parts))
    scenario, record = unhang.write("all.scenario", text), unhang.directory / "record.json"
    command = f"'{unhang.binary}' --json; for i in {' '.join(str(n) for n in range(len(parts)))}; do '{unhang.binary}' rings --json --gpu $i; done"
    run = unhang.run("emulate", "--record", record, scenario, "--", "sh", "-c", command, timeout=300)
    if not t.ok(run.returncode in (0, 1) and record.exists(), "all parts are looked at", run.stderr.decode()[-500:]):
        return
    read = addresses_read(record)
    for i, part in enumerate(parts):
        mine = read.get(f"0000:{i + 1:02x}:00.0", set()) | read.get(f"renderD{128 + i}", set())
        t.no_complaints([f"{a:#x}" for a in sorted(mine - found[part].keys())], f"{part}: {len(mine)} addresses, each of them the driver's")
        names = set().union(*(found[part][a] for a in mine & found[part].keys()))
        t.same(sorted(ALWAYS - names), [], f"{part}: these are among them")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    told = bases_of_parts()
    found, wrong = read_list(told)
    t.no_complaints(wrong, "base addresses of the emulated parts are the driver's")
    t.same(len(found), 14, "each part is in the list")
    if emulated.possible(unhang):
        test_reads(t, unhang, found, told)
    t.end()


if __name__ == "__main__":
    main()
