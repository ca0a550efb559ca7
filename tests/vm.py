#!/usr/bin/python3
"""Memory behind addresses of an emulated GPU: its page tables are walked, with few operations, and only when that is safe."""
import json
import os
import sys

import tap

PARTS = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1151",
         "gfx1200", "gfx1201")
WITHOUT_GFXOFF = ("gfx90a", "gfx942")  # as the driver knows it of these; of the others it may be on
BASE = """scenario pages
    title pages
gpu 0000:03:00.0
    part {part}
    map 8 0x7f0000000000 vram 0x200000 64K
    map 8 0x7f0000010000 system 0x123450000 8K
    map 8 0x7f4000000000 vram 0x8000000 4M
    map 9 0x7f0000000000 vram 0x300000 4K
    map 0 0x7fff00000000 system 0x200000000 1M
    virtual 8 0x7f0000000000 0x11 0x22 0x33
    virtual 8 0x7f000000fffc 0x44 0x55
    virtual 8 0x7f4000201004 0x66
    virtual 9 0x7f0000000000 0x99
    virtual 0 0x7fff00001000 0x77
    vram 0x100 0x88
{more}"""
ALL = {
    "gfx0.8@0x7f0000000000+12": "110000002200000033000000",
    "gfx0.8@0x7f000000fff8+16": "00000000440000005500000000000000",  # from VRAM to system memory
    "gfx0.8@0x7f0000000003+3": "002200",
    "gfx0.8@0x7f4000201004+4": "66000000",  # a page of 2 MiB
    "gfx0.9@0x7f0000000000+4": "99000000",
    "gfx0.0@0x7fff00001000+4": "77000000",
    "gfx0.0@0x8000000100+4": "88000000",
    "mm0.8@0x7f0000000000+4": "11000000",
}


class Memory:
    def __init__(self, t, unhang, program):
        self.t, self.unhang, self.program = t, unhang, program
        self.count = 0

    def read(self, part, *wanted, more=""):
        self.count += 1
        path = self.unhang.write(f"pages{self.count}", BASE.format(part=part, more=more))
        record = self.unhang.write(f"record{self.count}", "")
        run = self.unhang.run("emulate", path, "--record", record, "--", self.program, *wanted, timeout=30)
        try:
            answers = json.loads(run.stdout)
        except ValueError:
            self.t.ok(False, f"memory of {part}", f"status {run.returncode}\n{run.stderr.decode()[-1500:]}")
            return {"memory": [{"answer": "", "why_not": "", "bytes": None}] * len(wanted), "operations": 0, "children": 0}, []
        with open(record, encoding="utf8") as f:
            return answers, [json.loads(line) for line in f]


def test_parts(m):
    t = m.t
    for part in PARTS:
        answers, events = m.read(part, *ALL)
        t.same([a["bytes"] for a in answers["memory"]], list(ALL.values()), f"{part}: what is behind its addresses")
        t.same([e for e in events if e["op"] not in ("open", "read", "ioctl", "close")], [], f"{part}: nothing is written")
        reads = {}
        for e in events:
            if e["op"] == "read":
                reads.setdefault(e["pid"], []).append(os.path.basename(e["path"]))
        guard = "power_dpm_force_performance_level" if part in WITHOUT_GFXOFF else "amdgpu_gfxoff"
        memory = {"amdgpu_vram", "amdgpu_iomem"}
        # A reader stays: what it read last before it came to memory, which may be of an earlier question, must be the guard of this one.
        t.same([before for r in reads.values() for before, name in zip([None] + r, r) if name in memory and before not in memory | {guard}], [],
               f"{part}: each question looks whether the GPU is awake, then reads")
        t.ok(answers["operations"] <= 60 and answers["children"] <= 8, f"{part}: with few operations",
             f"{answers['operations']} operations, {answers['children']} children")


def test_xccs(m):
    answers, _ = m.read("gfx942", "gfx0.8@0x7f0000000000+4", "gfx7.8@0x7f0000000000+4", "gfx8.8@0x7f0000000000+4",
                        more="    register xcc 7 VM_CONTEXT8_CNTL = 0\n")
    m.t.same([a["answer"] for a in answers["memory"]], ["given", "absent", "absent"], "each XCC has its own address spaces")
    m.t.ok("no page tables" in (answers["memory"][1]["why_not"] or ""), "one that has none says so", answers["memory"][1]["why_not"])
    m.t.ok("not known" in (answers["memory"][2]["why_not"] or ""), "an XCC that does not exist", answers["memory"][2]["why_not"])


def test_hive_and_guest(m):
    """In a hive the first GPU's VRAM comes first; of a guest of SR-IOV nothing is read."""
    t, wanted = m.t, ("gfx0.8@0x7f0000000000+4", "gfx0.0@0x8000000100+4")
    hive = "    register MC_VM_XGMI_LFB_CNTL.PF_MAX_REGION = 1\n    register MC_VM_XGMI_LFB_CNTL.PF_LFB_REGION = {}\n" \
           "    register MC_VM_XGMI_LFB_SIZE.PF_LFB_SIZE = 0x3000\n    register MC_VM_FB_LOCATION_TOP = 0xffff\n"
    answers, _ = m.read("gfx942", *wanted, more=hive.format(0))
    t.same([a["bytes"] for a in answers["memory"]], ["11000000", "88000000"], "the first GPU of a hive")
    answers, _ = m.read("gfx942", *wanted, "gfx0.0@0xb000000100+4", more=hive.format(1))
    t.same([a["bytes"] for a in answers["memory"]], [None, None, "88000000"], "the second: what is of the first cannot be read")
    t.ok(all("another GPU" in (a["why_not"] or "") for a in answers["memory"][:2]), "and why", answers["memory"])
    answers, _ = m.read("gfx1100", *wanted, more="    guest\n    device 0x686c revision 0\n")  # a virtual function, by its number
    t.same([a["answer"] for a in answers["memory"]], ["refused", "refused"], "a guest: its page tables are not looked at")


def test_absent(m):
    t = m.t
    answers, _ = m.read("gfx1100", "gfx0.8@0x7f0000012000+4", "gfx0.10@0x7f0000000000+4", "gfx0.8@0x1000000000000+4",
                        "gfx0.8@0x7f000000f000+16384", "gfx0.16@0x1000+4", "gfx0.8@0x7f4000000000+4194304", "gfx0.8@0xfffffffffffffffc+8")
    whys = ("nothing is mapped", "no page tables", "outside", "nothing is mapped", "no such VMID", "more than", "more than")
    for a, why in zip(answers["memory"], whys):
        t.same(a["answer"], "absent", f"no memory: {why}")
        t.ok(why in (a["why_not"] or ""), "and why", a["why_not"])
    answers, _ = m.read("gfx1100", "gfx0.8@0x7f4000000000+65536")
    t.same(answers["memory"][0]["answer"], "given", "16 pages at once")
    t.ok(answers["operations"] < 40, "take few operations", answers["operations"])
    answers, _ = m.read("gfx1100", "gfx0.8@0x7f4000000000+2097152", "gfx0.8@0x7f4000000000+4")
    last = answers["memory"][-1]
    t.ok(last["answer"] == "absent" and "more than is read at once" in (last["why_not"] or ""), "one page more than is read at once", last["why_not"])


def test_wrong_tables(m):
    t = m.t
    other = "    register GCVM_CONTEXT5_PAGE_TABLE_BASE_ADDR_LO32 = {}\n    register GCVM_CONTEXT5_PAGE_TABLE_BASE_ADDR_HI32 = {}\n"
    other += """    register GCVM_CONTEXT5_CNTL.ENABLE_CONTEXT = 1
    register GCVM_CONTEXT5_CNTL.PAGE_TABLE_DEPTH = 3
    register GCVM_CONTEXT5_PAGE_TABLE_END_ADDR_LO32 = 0xffffffff
    register GCVM_CONTEXT5_PAGE_TABLE_END_ADDR_HI32 = 0xf
"""
    for name, low, high, words, why in (
            ("a directory that is its own", "0x10001001", "0", "    vram 0x1000 0x10001001 0\n", None),
            ("tables outside of VRAM", "0x1", "0xff", "", "another GPU"),
            ("tables in memory that is not the driver's", "0x55550003", "0", "", "does not show"),
            ("registers of all ones", "0xffffffff", "0xffffffff", "", "all ones"),
            ("entries of all ones", "0x10001001", "0", "    vram 0x1000 0xffffffff 0xffffffff\n", "nothing is mapped")):
        answers, _ = m.read("gfx1100", "gfx0.5@0+4", "gfx0.8@0x7f0000000000+4", more=other.format(low, high) + words)
        bad, good = answers["memory"]
        if why:
            t.same(bad["bytes"], None, f"{name}: nothing is read")
            t.ok(why in (bad["why_not"] or ""), f"{name}: and why", bad["why_not"])
        else:
            t.same(bad["answer"], "given", f"{name}: the walk ends")
        t.same(good["bytes"], "11000000", f"{name}: other address spaces are not disturbed")


def test_gate(m):
    t = m.t
    for state in ("suspended", "gfxoff\n    file render absent", "reset", "off-bus"):  # only the render node's query keeps GFXOFF away
        answers, events = m.read("gfx1100", "gfx0.8@0x7f0000000000+4", "gfx0.0@0x8000000100+4", more=f"    state {state}\n")
        t.ok(all(a["bytes"] is None for a in answers["memory"]), f"{state.split()[0]}: no memory is read")
        t.same([e["path"] for e in events if "amdgpu_vram" in e.get("path", "") or "amdgpu_iomem" in e.get("path", "")], [],
               f"{state.split()[0]}: the files are not touched")
    answers, _ = m.read("gfx1100", "gfx0.8@0x7f0000000000+4", more="    file amdgpu_vram blocks\n")
    t.same(answers["memory"][0]["answer"], "timed out", "a read of VRAM that does not return has a deadline")
    answers, _ = m.read("gfx1100", "gfx0.8@0x7f0000000000+4", "gfx0.8@0x7f0000010000+4", more="    file amdgpu_iomem fails EPERM\n")
    t.same([a["answer"] for a in answers["memory"]], ["given", "absent"], "system memory that is refused")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    run = unhang.run("emulate", "idle", "--", "true")
    if run.returncode == 2 and any(word in run.stderr for word in (b"/dev/fuse", b"namespace", b"FUSE")):
        tap.skip_all(run.stderr.decode().strip())
    m = Memory(t, unhang, os.path.abspath(sys.argv[2]))
    for test in (test_parts, test_xccs, test_hive_and_guest, test_absent, test_wrong_tables, test_gate):
        test(m)
    t.end()


if __name__ == "__main__":
    main()
