#!/usr/bin/env python3
"""`unhang packets`: the commands in files of words, as bytes and as text, and in buffers of an emulated GPU, with what they run."""
import os
import struct
import sys

import emulated
import tap

PCI, BUFFER, CALLED = "0000:03:00.0", 0x7f0080000000, 0x7f0080001000
# A NOP of two words, a wait for memory, an IB that it runs.
WORDS = [0xc0001000, 0x1234, 0xc0053c00, 0x13, 0x80002000, 0x7f00, 0x3, 0xffffffff, 0x4, 0xc0023f00, CALLED & 0xffffffff, CALLED >> 32, 2]
NAMES = ["NOP", "WAIT_REG_MEM", "INDIRECT_BUFFER"]


def scenario(more=""):
    return f"""scenario packets
    title packets
gpu {PCI}
    part gfx1100
    map 8 {BUFFER:#x} vram 0x100000 8K
    virtual 8 {BUFFER:#x} {' '.join(map(hex, WORDS))}
    virtual 8 {CALLED:#x} 0xc0001000 0x77
{more}"""


def names(document, depth=0):
    return [p["name"] for p in document.get("packets", []) if p["depth"] == depth]


def test_files(t, unhang):
    binary = unhang.directory / "words.bin"
    binary.write_bytes(struct.pack(f"<{len(WORDS)}I", *WORDS))
    text = "# from a log\n" + "".join(f"0x{BUFFER + 4 * i:x}: {w:#010x}, # word\n" for i, w in enumerate(WORDS))
    for name, path in (("bytes", binary), ("text", unhang.write("words.txt", text)), ("one line", unhang.write("line.txt", " ".join(f"{w:08x}" for w in WORDS)))):
        d = emulated.document(t, unhang.run("packets", "--json", "--part", "gfx1100", path), "packets", f"{name}: as JSON")
        t.same((d.get("words"), names(d)), (len(WORDS), NAMES), f"{name}: the packets")
    ib = d["packets"][2]["ib"] if d.get("packets") else {}
    t.same((ib.get("address"), ib.get("words"), ib.get("read")), (hex(CALLED), 2, False), "what it runs is told, and is not read")
    run = unhang.run("packets", "--part", "gfx1100", path)
    t.ok(b"WAIT_REG_MEM" in run.stdout and b"waits for memory at 0x7f0080002000" in run.stdout, "as text, with what it waits for", run.stdout)
    d = emulated.document(t, unhang.run("packets", "--json", "--part", "gfx1100", "-", stdin=text), "packets", "standard input")
    t.same(names(d), NAMES, "has the same packets")
    d = emulated.document(t, unhang.run("packets", "--json", "--part", "gfx1100", "--language", "sdma", unhang.write("sdma.txt", "00000000 00000000")), "packets", "another language")
    t.same(names(d)[:1], ["NOP"], "has other packets")


# Sets registers of a shader, writes one of the memory hub, and waits for another.
SETS = [0xc0027600, 0x20c, 0x12345, 0x7f, 0xc0017600, 0x212, 0x00ac0041, 0xc0033700, 0, 0x1a751, 0, 0x5, 0xc0053c00, 3, 0x1a751, 0, 0, 4, 10]


def test_registers(t, unhang):
    """What a packet writes has a name, a value and fields; a file has no base addresses but those of the graphics core."""
    path = unhang.write("sets.txt", " ".join(f"{w:08x}" for w in SETS))
    d = emulated.document(t, unhang.run("packets", "--json", "--part", "gfx1100", path), "packets", "registers as JSON")
    found = [[(r["access"], r["name"], r["value"]) for r in p["registers"]] for p in d.get("packets", [])]
    t.same(found, [[("write", "COMPUTE_PGM_LO", "0x12345"), ("write", "COMPUTE_PGM_HI", "0x7f")], [("write", "COMPUTE_PGM_RSRC1", "0xac0041")],
                   [("write", None, "0x5")], [("poll", None, "0x0")]], "each register that a packet names")
    fields = {f["name"]: f["value"] for f in d["packets"][1]["registers"][0]["fields"]} if d.get("packets") else {}
    t.same((fields.get("VGPRS"), fields.get("SGPRS"), fields.get("PRIORITY"), fields.get("FLOAT_MODE")), (1, 1, 0, 0xc0), "all of its fields")
    text = unhang.run("packets", "--part", "gfx1100", path).stdout.decode()
    for line in ("SET_SH_REG\n", "COMPUTE_PGM_LO = 0x00012345\n", "COMPUTE_PGM_RSRC1 = 0x00ac0041 VGPRS=1 SGPRS=1 FLOAT_MODE=0xc0", "register 0x1a751 = 0x00000005\n"):
        t.ok(line in text, f"in a text: {line.strip()}", text)
    t.ok("PRIORITY" not in text and "value[0]" not in text and max(map(len, text.splitlines())) <= 80, "no field that is zero, nothing twice, no line too long", text)
    if not emulated.possible(unhang):
        return
    ib = scenario(f"    virtual 8 {BUFFER + 0x400:#x} {' '.join(map(hex, SETS))}\n")
    run = emulated.inside(unhang, unhang.write("sets.scenario", ib), "packets", "--json", "--ib", f"{BUFFER + 0x400:#x}@8", "--words", str(len(SETS)))
    d = emulated.document(t, run, "packets", "the same in a GPU")
    found = [(r["access"], r["block"], r["name"]) for p in d.get("packets", [])[2:] for r in p["registers"]]
    t.same(found, [("write", "mmhub", "MMVM_INVALIDATE_ENG0_SEM"), ("poll", "mmhub", "MMVM_INVALIDATE_ENG0_SEM")], "which has all base addresses")
    text = emulated.inside(unhang, unhang.directory / "sets.scenario", "packets", "--ib", f"{BUFFER + 0x400:#x}@8", "--words", str(len(SETS))).stdout.decode()
    t.ok("waits for register MMVM_INVALIDATE_ENG0_SEM to equal 0" in text, "what it waits for has a name", text)


def test_cut(t, unhang):
    """A file that is cut anywhere has fewer packets, and harms nobody."""
    data = struct.pack(f"<{len(WORDS)}I", *WORDS)
    wrong = []
    path = unhang.directory / "cut.bin"
    for n in range(1, len(data), 3):
        path.write_bytes(data[:n])
        run = unhang.run("packets", "--part", "gfx1100", path)
        if run.returncode not in (0, 2) or (n >= 4 and run.returncode):
            wrong.append(f"{n} bytes: status {run.returncode} {run.stderr[-100:]}")
    t.no_complaints(wrong, "cut at every third byte")


def test_refusals(t, unhang):
    words = unhang.write("words.txt", "c0001000 1234")
    emulated.refuses(t, unhang, ("packets",), ("--ib", "file"), "neither a buffer nor a file")
    emulated.refuses(t, unhang, ("packets", "--ib", "0x1000@8", words), ("--ib", "file"), "both")
    emulated.refuses(t, unhang, ("packets", words), ("--part",), "a file of no part")
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", "--language", "pm5", words), ("pm5", "sdma"), "a language that there is not")
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", unhang.write("bad.txt", "c0001000\nhello\n")), ("line 2", "hello"), "a text that has no words")
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", unhang.write("none.txt", "# nothing\n")), ("no words",), "an empty text")
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", "/nowhere/words"), ("/nowhere/words",), "a file that there is not")
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", "/sys/kernel/uevent_seqnum"), ("files of sysfs are not read",), "a file of a driver: reading some of them acts")
    pipe = os.path.join(os.path.dirname(words), "pipe")
    os.mkfifo(pipe)
    emulated.refuses(t, unhang, ("packets", "--part", "gfx1100", pipe), ("not a file",), "a pipe that nobody writes to")
    emulated.refuses(t, unhang, ("packets", "--ib", "0x1000@16"), ("ADDRESS@VMID",), "a VMID that there cannot be")


def test_gpu(t, unhang):
    path = unhang.write("packets.scenario", scenario())
    run = emulated.inside(unhang, path, "packets", "--json", "--ib", f"{BUFFER:#x}@8", "--words", str(len(WORDS)))
    d = emulated.document(t, run, "packets", "a buffer of a GPU")
    t.same((d.get("target"), names(d), names(d, 1)), (PCI, NAMES, ["NOP"]), "its packets, and those that it runs")
    t.same([p["address"] for p in d.get("packets", [])][:1], [hex(BUFFER)], "with their addresses")
    run = emulated.inside(unhang, path, "packets", "--ib", f"{BUFFER:#x}@8")
    t.ok(run.returncode == 0 and b"1024 words" in run.stdout, "without a length: up to the end of the page", run.stdout[:200] + run.stderr)
    for arguments, words in ((("--ib", f"{BUFFER + 0x10000:#x}@8"), "nothing is mapped"), (("--ib", f"{BUFFER:#x}@9"), "VMID 9"), (("--ib", f"{BUFFER:#x}"), "whose address")):
        run = emulated.inside(unhang, path, "packets", *arguments)
        t.ok(run.returncode == 2 and words in run.stderr.decode() and not run.stdout, f"refused: {words}", run.stderr)
    emulated.only_reads(t, unhang, path, ["packets", "--ib", f"{BUFFER:#x}@8"], "nothing is written, nothing is woken")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_files(t, unhang)
    test_registers(t, unhang)
    test_cut(t, unhang)
    test_refusals(t, unhang)
    if emulated.possible(unhang):
        test_gpu(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
