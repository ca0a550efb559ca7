#!/usr/bin/env python3
"""`unhang memory`: bytes, page tables and instructions behind addresses of emulated GPUs; whose address it is; and that nothing is written."""
import fnmatch
import sys

import emulated
import tap

PCI = "0000:03:00.0"
GPU = """gpu {pci}
    part {part}
    map 8 0x7f0000000000 vram 0x200000 64K
    map 8 0x7f0000010000 system 0x123450000 8K
    map 8 0x7f4000000000 vram 0x8000000 4M
    map 9 0x7f0000000000 vram 0x300000 4K
    map 0 0x7fff00000000 system 0x200000000 1M
    virtual 8 0x7f0000000000 0x41424344 0xbf800000 0xbf810000
    virtual 8 0x7f000000fffc 0x44 0x55
    virtual 9 0x7f0000000000 0x99
    virtual 0 0x7fff00001000 0x77
{more}"""
HEAD = "scenario memory\n    title memory\n"
PARTS = ("gfx906", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")
PROCESS = """process {name}
    queue {id} gpu {pci} ring {ring:#x} size 0x1000 rptr 4 wptr 5 {more}
    memory {ring:#x} 0xabcd
"""


class Machine:
    def __init__(self, t, unhang):
        self.t, self.unhang, self.count = t, unhang, 0

    def scenario(self, text):
        self.count += 1
        return self.unhang.write(f"memory{self.count}.scenario", HEAD + text)

    def gpu(self, part="gfx1100", more="", pci=PCI, rest=""):
        return self.scenario(GPU.format(pci=pci, part=part, more=more) + rest)

    def read(self, scenario, *arguments, name, status=0):
        return emulated.document(self.t, emulated.inside(self.unhang, scenario, "memory", "--json", *arguments), "memory", name, status)

    def refused(self, scenario, arguments, words, name):
        run = emulated.inside(self.unhang, scenario, "memory", *arguments)
        said = run.stderr.decode()
        good = run.returncode == tap.CANNOT and said.count("\n") == 1 and not run.stdout and all(word in said for word in words)
        self.t.ok(good, name, f"status {run.returncode}: {said}{run.stdout[:200]}")


def test_parts(m):
    t = m.t
    for part in PARTS:
        s = m.gpu(part)
        d = m.read(s, "--vmid", "8", "--length", "8", "--walk", "0x7f000000fffc", name=f"{part}: as JSON")
        t.same([(p["source"], p["bytes"]) for p in d.get("pages", [])], [("vram", "44000000"), ("system", "55000000")], f"{part}: bytes of two pages")
        walk = d.get("walk", {"steps": [], "neighbours": []})
        further = part in ("gfx90a", "gfx942", "gfx950")  # their last tables lead to one more
        t.same([e["table"] for e in walk["steps"]][-2:], ["PTB", "PTB"] if further else ["PDB0", "PTB"], f"{part}: each level")
        t.ok(all(e["flags"].startswith("valid") for e in walk["steps"]), f"{part}: and its flags", walk)
        t.same((walk.get("mapped"), walk.get("to"), walk.get("place")), (True, "VRAM", "0x20fffc"), f"{part}: where it leads")
        t.same([(r["begin"], r["end"], r["to"]) for r in walk["neighbours"] if r["mapped"]],
               [("0x7f0000000000", "0x7f000000ffff", "VRAM"), ("0x7f0000010000", "0x7f0000011fff", "system")], f"{part}: what is around it")
        d = m.read(s, "--vmid", "0", "--length", "4", "0x7fff00001000", name=f"{part}: an address of the driver")
        t.same([p["bytes"] for p in d.get("pages", [])], ["77000000"], f"{part}: and its bytes")


def test_text(m):
    t, s = m.t, m.gpu()
    text = emulated.inside(m.unhang, s, "memory", "--vmid", "8", "0x7f0000000000").stdout.decode().splitlines()
    t.same(text[1:], ["0x7f0000000000  41424344 bf800000 bf810000 00000000  DCBA............", "0x7f0000000010  00000000 00000000 00000000 00000000  ................",
                      "*", "0x7f0000000030  00000000 00000000 00000000 00000000  ................"], "words, letters, and lines that are the same")
    t.ok(text and text[0].startswith(PCI) and "VMID 8" in text[0], "whose they are", text[:1])
    text = emulated.inside(m.unhang, m.gpu("gfx906"), "memory", "--vmid", "8", "--code", "--length", "8", "0x7f0000000004").stdout.decode()
    if "no instructions" not in text:
        t.same([line.split()[1] for line in text.splitlines()[1:]], ["s_nop", "s_endpgm"], "the bytes as instructions")
    text = emulated.inside(m.unhang, s, "memory", "--vmid", "8", "--walk", "0x7f0000012000")
    t.ok(text.returncode == 0 and b"nothing is mapped there" in text.stdout, "a page that is not mapped is an answer of --walk", text.stdout + text.stderr)
    m.refused(s, ("--vmid", "8", "0x7f0000012000"), ("nothing is mapped there",), "and no bytes")
    d = m.read(s, "--vmid", "8", "--length", "32", "0x7f0000011ff0", name="the end of what is mapped")
    t.same([(p["source"], p["why_not"]) for p in d.get("pages", [])], [("system", None), (None, "nothing is mapped there")], "each page says why it has no bytes")


def test_whose(m):
    """One number is another address for each program: what is not clear is refused, with those that come into question."""
    t = m.t
    one = PROCESS.format(name="one", id=1, pci=PCI, ring=0x7f2200000000, more="place 1.0.2 vmid 8")
    two = PROCESS.format(name="two", id=2, pci=PCI, ring=0x7f2300000000, more="place 1.1.2 vmid 9")
    s = m.gpu(rest=one)
    d = m.read(s, "0x7f0000000000", "--length", "4", name="the only process that computes")
    t.same((d.get("vmid"), (d.get("process") or {}).get("name")), (8, "one"), "its VMID and name")
    s = m.gpu(rest=one + two)
    m.refused(s, ("0x7f0000000000",), ("whose address", "VMID 8", "VMID 9", "one", "two", "--pid"), "two processes: it asks")
    m.refused(s, ("--pid", "1", "0x7f0000000000"), ("process 1 ", "gone"), "a process that has not this GPU")
    m.refused(m.gpu(), ("0x7f0000000000",), ("whose address",), "nobody computes")
    m.refused(m.gpu(), ("--vmid", "7", "0x7f0000000000"), ("VMID 7", "no page tables"), "a VMID without tables")
    run = m.unhang.run("emulate", s, "--", "sh", "-c", 'for p in /sys/class/kfd/kfd/proc/*; do "$0" memory --json --length 4 --pid ${p##*/} 0x7f0000000000 | '
                       'grep -E "\\"(vmid|bytes)\\""; done', m.unhang.binary)
    t.same(sorted(line.strip().strip(",").split(": ")[1] for line in run.stdout.decode().splitlines()), ['"44434241"', '"99000000"', "8", "9"],
           "--pid: each process has its own memory")
    client = "    register IH_VMID_9_LUT = {}\n"
    opens = "process paint\n    opens 0000:03:00.0\n"
    pasid = 0x8001  # of the first process that the emulated driver has
    d = m.read(m.gpu("gfx906", client.format(pasid), rest=opens), "--vmid", "9", "0x7f0000000000", name="a VMID with a PASID")
    t.same(((d.get("process") or {}).get("name"), d.get("pasid")), ("paint", pasid), "whose a VMID is, by its PASID")
    s = m.gpu("gfx906", client.format(pasid), rest=opens)
    run = m.unhang.run("emulate", s, "--", "sh", "-c", 'for p in /proc/[0-9]*; do case $(cat $p/comm) in paint) "$0" memory --json --length 4 --pid ${p##*/} '
                       '0x7f0000000000;; esac; done', m.unhang.binary)
    t.ok(b'"bytes": "99000000"' in run.stdout, "a graphics client by its PASID", run.stdout[-400:] + run.stderr)


def test_partitions(m):
    """In CPX one VMID on two XCCs is two programs."""
    t = m.t
    other = "    partition CPX NPS1\n    register xcc 1 VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32 = 0x10001001\n"
    s = m.gpu("gfx942", other)
    m.refused(s, ("--vmid", "8", "0x7f0000000000"), ("XCC 0", "XCC 1", "--xcc"), "one VMID, two address spaces: it asks which XCC")
    d = m.read(s, "--vmid", "8", "--xcc", "0", "--length", "4", "0x7f0000000000", name="with --xcc")
    t.same([p["bytes"] for p in d.get("pages", [])], ["44434241"], "it is clear")
    m.refused(s, ("--vmid", "8", "--xcc", "9", "0x7f0000000000"), ("no XCC 9",), "an XCC that there is not")
    d = m.read(m.gpu("gfx942"), "--vmid", "8", "--length", "4", "0x7f0000000000", name="the same tables on all XCCs")
    t.same(d.get("xcc"), 0, "are one address space")


def test_elsewhere(m):
    """Pages of another GPU of the hive are read there, pages of the process through the process; else they are absent."""
    t = m.t
    hive = "    sysfs xgmi_hive_info/xgmi_hive_id 1234\n    register MC_VM_XGMI_LFB_CNTL.PF_MAX_REGION = 1\n    register MC_VM_XGMI_LFB_SIZE.PF_LFB_SIZE = 0x3000\n" \
           "    register MC_VM_FB_LOCATION_TOP = 0xffff\n    register MC_VM_XGMI_LFB_CNTL.PF_LFB_REGION = {}\n"
    first = GPU.format(pci=PCI, part="gfx942", more=hive.format(0) + "    vram 0x200000 0x31323334\n")
    second = GPU.format(pci="0000:43:00.0", part="gfx942", more=hive.format(1))
    # The tables of the second are written as if it stood alone: their addresses are the first's.
    d = m.read(m.scenario(first + second), "--gpu", "0000:43:00.0", "--vmid", "0", "--length", "4", "0xb000000100", name="the second GPU of a hive: its own VRAM")
    t.same([p["source"] for p in d.get("pages", [])], ["vram"], "is its own")
    # VMID 5 of the first has one entry, which leads into the second's VRAM: that begins behind 0x3000 times 16 MiB.
    tables = "".join(f"    register VM_CONTEXT5_{name} = {value}\n" for name, value in (
        ("PAGE_TABLE_BASE_ADDR_LO32", "0x10001001"), ("PAGE_TABLE_BASE_ADDR_HI32", 0), ("CNTL.ENABLE_CONTEXT", 1), ("CNTL.PAGE_TABLE_DEPTH", 3),
        ("PAGE_TABLE_END_ADDR_LO32", "0xffffffff"), ("PAGE_TABLE_END_ADDR_HI32", "0xf")))
    entry = (0x10 << 24) + (0x3000 << 24) | 0x71 | 1 << 54
    tables += f"    vram 0x1000 {entry & 0xffffffff:#x} {entry >> 32:#x}\n"
    there = second + "    vram 0x200000 0x61626364\n"
    s = m.scenario(first + tables + there)
    d = m.read(s, "--gpu", PCI, "--vmid", "5", "--length", "4", "0x200000", name="a page of another GPU of the hive")
    t.same([(p["source"], p["gpu"], p["place"], p["bytes"]) for p in d.get("pages", [])], [("peer", "0000:43:00.0", "0x200000", "64636261")], "is read there")
    alone = first.replace("1234", "77") + tables + there
    m.refused(m.scenario(alone), ("--gpu", PCI, "--vmid", "5", "0x200000"), ("another GPU",), "a GPU of another hive is not taken for it")
    ring = 0x7f2200000000
    process = PROCESS.format(name="train", id=1, pci=PCI, ring=ring, more="place 1.0.2 vmid 8")
    user = f"    map 8 {ring:#x} system 0x9000000 4K\n    file amdgpu_iomem fails EPERM\n"
    d = m.read(m.gpu(more=user, rest=process), "--vmid", "8", "--length", "4", f"{ring:#x}", name="a page that the driver does not show")
    t.same([p["source"] for p in d.get("pages", [])], ["process"], "is read through the process")
    t.same([p["bytes"] for p in d.get("pages", [])], ["cdab0000"], "which has it at the same address")
    m.refused(m.gpu(more=user), ("--vmid", "8", f"{ring:#x}"), ("does not show",), "without a process it is absent")


def test_change(m):
    """A VMID that becomes another's while it is read: nothing counts."""
    m.refused(m.gpu("gfx906", "    register IH_VMID_8_LUT = count 1 1 0.0001\n"), ("--vmid", "8", "0x7f0000000000"), ("VMID 8", "became another"), "its PASID changes")
    m.refused(m.gpu("gfx906", "    register VM_CONTEXT9_PAGE_TABLE_BASE_ADDR_HI32 = count 1 1 0.0001\n"), ("--vmid", "9", "--walk", "0x7f0000000000"), ("VMID 9", "became another"),
              "its page tables change")


FAULT = """messages
    990.5 err amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32769)
    990.5 err amdgpu 0000:03:00.0: amdgpu:  in process train pid {pid} thread train pid {pid})
    990.5 err amdgpu 0000:03:00.0: amdgpu:   in page starting at address {address:#018x} from client 10
    990.5 err amdgpu 0000:03:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00841051
    990.5 err amdgpu 0000:03:00.0: amdgpu: \t Faulty UTCL2 client ID: TCP (0x8)
    990.5 err amdgpu 0000:03:00.0: amdgpu: \t PERMISSION_FAULTS: 0x5
    990.5 err amdgpu 0000:03:00.0: amdgpu: \t RW: 0x1
"""
TRAIN = PROCESS.format(name="train", id=1, pci=PCI, ring=0x7f2200000000, more="place 1.0.2 vmid 8")


def test_fault(m):
    """A page fault of the log: what the tables say now, or that its address space is gone."""
    t, lut = m.t, "    register IH_VMID_8_LUT = {}\n"

    def fault(part="gfx1100", more="", process=TRAIN, pid="$pid(train)", address=0x7f0000014000):
        return m.gpu(part, more, rest=process + FAULT.format(pid=pid, address=address))

    def answer(scenario, name, *arguments):
        d = m.read(scenario, "--fault", *arguments, name=name)
        f, walk = d.get("fault") or {}, d.get("walk") or {}
        return (f.get("space"), d.get("vmid"), walk.get("mapped"), (f.get("below") or {}).get("address"), (f.get("above") or {}).get("address")), f

    for part in PARTS:
        s = fault(part, lut.format(0x8001) if part not in ("gfx942", "gfx950") else "")
        found, f = answer(s, f"{part}: a fault as JSON")
        t.same(found, ("same", 8, False, "0x7f0000011fff", "0x7f4000000000"), f"{part}: where mapped memory ends before it, and begins behind it")
        t.same((f.get("process"), f.get("pasid"), f.get("vmid"), f.get("access"), f.get("client")), ("train", 32769, 8, "write", "TCP"), f"{part}: the fault as the log has it")
    s = fault(more=lut.format(0x8001))
    t.same(answer(fault(more=lut.format(0x8001), address=0x7f0000004000), "an address that is mapped")[0][:3], ("same", 8, True), "a page that was mapped since, or is not for this access")
    text = emulated.inside(m.unhang, s, "memory", "--fault").stdout.decode()
    t.ok("is not mapped" in text and "ends at 0x7f0000011fff, 8 KiB before it" in " ".join(text.split()), "as text", text)
    t.ok(all(len(line) <= 80 for line in text.splitlines()[1:8]), "its answer fits a screen", text)
    found, f = answer(fault(more=lut.format(0x8002), pid=99999), "a process that has ended")
    t.same((found[0], found[2], f.get("vmid_has_now")), ("gone", None, 0x8002), "its address space is gone, and who has the VMID now")
    other = "process paint\n    opens 0000:03:00.0\n"
    found, f = answer(fault("gfx906", lut.format(0x8001), other, 99999), "a VMID that is another's")
    t.same((found[0], f.get("vmid_has_now"), f.get("pid_has_now") is not None), ("gone", 0x8001, True), "whose it is now")
    found, f = answer(fault(more=lut.format(0x8002), process="process train\n    opens 0000:03:00.0\n"), "a process without work")
    t.same(found[0], "away", "its process lives, but its tables cannot be found")
    cpx = "    partition CPX NPS1\n    tables xcc 1 vmid 8 of 9\n"
    both = TRAIN.replace("vmid 8", "vmid 8 xcc 0") + "    queue 2 gpu 0000:03:00.0 ring 0x7f2300000000 size 0x1000 rptr 4 wptr 5 place 1.0.2 vmid 8 xcc 1\n"
    m.refused(fault("gfx942", cpx, both), ("--fault",), ("whose address", "XCC 0", "XCC 1", "--xcc"), "two partitions: it asks which")
    t.same(answer(fault("gfx942", cpx, both), "with --xcc", "--xcc", "1")[0], ("same", 8, False, "0x7f0000000fff", None), "the tables of that XCC")
    m.refused(fault("gfx906", lut.format(0x8001) + "    register VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_HI32 = count 1 1 0.0001\n"), ("--fault",), ("became another",), "tables that change")
    m.refused(m.gpu(rest=TRAIN), ("--fault",), ("no page fault",), "a log without a fault")
    m.refused(s, ("--fault", "0123"), ("no incident 0123",), "an incident that there is not")
    number = f.get("incident") or ""
    run = m.unhang.run("emulate", s, "--", "sh", "-c", '"$0" memory --json --fault $("$0" explain --json | grep -m1 -o \'"id": "[^"]*\' | cut -d\\" -f4)', m.unhang.binary)
    t.ok(run.returncode == 0 and b'"space": "same"' in run.stdout, "an incident by its id", run.stderr + number.encode())
    m.refused(s, ("--fault", "--vmid", "8"), ("--fault takes",), "a VMID beside it")
    m.refused(fault(more="    guest\n    device 0x686c revision 0\n"), ("--fault",), ("virtual function",), "a virtual function")
    for name, scenario, points in (("lives", s, True), ("has ended", fault(pid=99999), False), ("is on a virtual function", fault(more="    guest\n    device 0x686c revision 0\n"), False)):
        for command in ((), ("explain",)):
            said = emulated.inside(m.unhang, scenario, *command, "--json").stdout
            t.same(b"sudo unhang memory --fault" in said, points, f"{' '.join(command) or 'the look'} points to it if the process {name}")
    paths = emulated.only_reads(t, m.unhang, s, ["memory", "--fault"], "a fault is looked at without a write")
    t.same(sorted(p for p in paths if not any(fnmatch.fnmatch(p, a) for a in emulated.ALLOWED)), [], "and only files of a look are opened")


def test_refusals(m):
    s = m.gpu()
    m.refused(s, (), ("which address",), "no address")
    m.refused(s, ("--vmid", "8", "1", "2"), ("one address",), "two addresses")
    m.refused(s, ("--vmid", "8", "zero"), ("no address",), "a word")
    m.refused(s, ("--vmid", "16", "0x1000"), ("--vmid",), "a VMID that there cannot be")
    m.refused(s, ("--vmid", "8", "--pid", "1", "0x1000"), ("not both",), "VMID and process")
    m.refused(s, ("--vmid", "8", "--length", "2M", "0x1000"), ("--length",), "a length that is no number")
    m.refused(s, ("--vmid", "8", "--length", "1048577", "0x1000"), ("at most",), "more than is read at once")
    m.refused(s, ("--vmid", "8", "0xffffffffffffffff"), ("0xffffffffffff ", "nothing is mapped"), "an address whose upper bits repeat bit 47")
    m.refused(s, ("--vmid", "8", "0x7fffffffffffffff"), ("outside",), "one whose upper bits do not")
    m.refused(s, ("--vmid", "8", "0x1000000000000"), ("outside",), "an address behind the last")
    two = m.scenario(GPU.format(pci=PCI, part="gfx1100", more="") + GPU.format(pci="0000:43:00.0", part="gfx1100", more=""))
    m.refused(two, ("--vmid", "8", "0x7f0000000000"), ("which GPU", "0000:43:00.0"), "two GPUs")
    for state in ("suspended", "gfxoff\n    file render absent", "reset", "off-bus"):  # only the render node's query keeps GFXOFF away
        m.refused(m.gpu(more=f"    state {state}\n"), ("--vmid", "8", "0x7f0000000000"), (PCI,), f"{state.split()[0]}: nothing is read")
    m.refused(m.gpu(more="    guest\n    device 0x686c revision 0\n"), ("--vmid", "8", "0x7f0000000000"), (PCI,), "a virtual function")
    m.refused(m.gpu(more="    file amdgpu_vram blocks\n"), ("--vmid", "8", "0x7f0000000000"), ("did not return",), "a read that does not return has a deadline")


def test_only_reads(m):
    process = PROCESS.format(name="train", id=1, pci=PCI, ring=0x7f2200000000, more="place 1.0.2 vmid 8")
    paths = emulated.only_reads(m.t, m.unhang, m.gpu(rest=process), ["memory", "--walk", "--code", "--length", "8192", "0x7f0000000000"], "nothing is written, nothing is woken")
    m.t.same(sorted(p for p in paths if not any(fnmatch.fnmatch(p, a) for a in emulated.ALLOWED)), [], "only files of a look are opened")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    if not emulated.possible(unhang):
        tap.skip_all("no emulated machine can be made here")
    m = Machine(t, unhang)
    for test in (test_parts, test_text, test_whose, test_partitions, test_elsewhere, test_change, test_fault, test_refusals, test_only_reads):
        test(m)
    t.end()


if __name__ == "__main__":
    main()
