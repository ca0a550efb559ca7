#!/usr/bin/env python3
"""Remedies held against the machine: which are worth trying and in which order, which are in force already, which the kernel does not have and
which a version has made needless; and what is said of settings that guides advise."""
import re
import sys

import emulated
import tap
from diagnoses import boot, fault, log, ring_timeout, status_of

NAVI31 = "0x1002:0x744C 0x1DA2:0xE471 0xC8"
HALO = "0x1002:0x1586 0x1002:0x1586 0xC1"
PHOENIX = "0x1002:0x15BF 0x1002:0x15BF 0xC1"
KRACKAN = "0x1002:0x1114 0x1002:0x1114 0xC1"
RX5700 = "0x1002:0x731F 0x1002:0x0B36 0xC1"
MES = log("500 @ MES failed to respond to msg=REMOVE_QUEUE\n500.1 @ failed to remove hardware queue from MES, doorbell=0x1000")
SMU = log("500 @ SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000032 SMN_C2PMSG_82:0x00000000\n505 @ Failed to disable gfxoff!")
ROCM = "[    9.000000] loaded /opt/rocm-{}/lib/libhsa.so\n"
IN_HIP_MALLOC = """Thread 1 (Thread 0x7f11bd0a9740 (LWP 900) "rocmforge_cli"):
#0  0x00007f11bc64f98d in ioctl () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f11bc64f7fa in hsaKmtAllocMemory () from /opt/rocm/lib/libhsa-runtime64.so.1
#2  0x00007f11be10ab11 in hipMalloc () from /opt/rocm/lib/libamdhip64.so.7
#3  0x000055e0bf000000 in rocmforge::backend::HipBuffer::new () at src/backend/hip_backend.rs:212
"""


class Case:
    def __init__(self, t, unhang):
        self.t, self.unhang = t, unhang

    def explain(self, name, incident, ids=NAVI31, kernel="6.12.48-amd64", parameters="quiet", rocm=None):
        diagnosis = self.unhang.explain_text(boot(ids, kernel, parameters) + (ROCM.format(rocm) if rocm else "") + incident)
        self.t.no_complaints(diagnosis.complaints, f"{name}: the document is as its schema says")
        return diagnosis.first

    def text(self, incident, **arguments):
        path = self.unhang.write("remedies.log", boot(**arguments) + incident)
        return " ".join(self.unhang.run("explain", "-v", path).stdout.decode().split())


def test_states(t, unhang):
    c = Case(t, unhang)
    i = c.explain("nothing set", MES, HALO)
    t.same(("cwsr-off" in i.remedies, i.told, i.settings), (True, {}, {}), "nothing is set: CWSR off is worth trying, and nothing is told")
    i = c.explain("applied", MES, HALO, parameters="amdgpu.cwsr_enable=0")
    t.same((i.told.get("cwsr-off"), "cwsr-off" in i.remedies), (("applied", "amdgpu.cwsr_enable=0 is set, so it did not prevent this"), False), "CWSR is off: not offered, but told")
    i = c.explain("as a number", MES, HALO, parameters="amdgpu.cwsr_enable=0x0")
    t.same(i.told.get("cwsr-off", [""])[0], "applied", "numbers are compared as numbers")
    i = c.explain("set to the contrary", MES, HALO, parameters="amdgpu.cwsr_enable=1")
    t.same(("cwsr-off" in i.remedies, i.told), (True, {}), "set to 1: still worth trying")
    i = c.explain("said twice", MES, HALO, parameters="amdgpu.cwsr_enable=0 amdgpu.cwsr_enable=1")
    t.ok("cwsr-off" in i.remedies, "of two settings the last counts", i.told)
    for rocm, state in (("7.2.1", "superseded"), ("7.11.0", "superseded"), ("7.2.0", "superseded"), ("7.1.1", "try"), ("7.10.0", "try")):
        i = c.explain(f"ROCm {rocm}", MES, HALO, kernel="7.0.3-arch1", rocm=rocm)
        t.same(i.told["cwsr-off"][0] if "cwsr-off" in i.told else "try" if "cwsr-off" in i.remedies else None, state, f"CWSR off with kernel 7.0.3 and ROCm {rocm}")
    i = c.explain("fixed", MES, HALO, kernel="7.0.3-arch1", rocm="7.2.1", parameters="amdgpu.cwsr_enable=0")
    because = i.told["cwsr-off"][1]
    t.ok("this machine has kernel 7.0.3-arch1 and ROCm 7.2.1" in because and "ROCm 7.2 or newer" in because, "superseded: which versions are asked for, and which are here", because)
    t.ok(because.endswith("amdgpu.cwsr_enable=0 is set anyway") and "cwsr-back-on" in i.remedies, "and that it is in force all the same; to take it off is a step", i.remedies)
    t.same(i.told.get("cwsr-area-gfx1151"), ("applied", "this machine has kernel 7.0.3-arch1 and ROCm 7.2.1 already"), "an update that is done is told with its versions")
    i = c.explain("unknown ROCm", MES, HALO, kernel="7.0.3-arch1")
    t.ok("cwsr-off" in i.remedies and "cwsr-area-gfx1151" in i.remedies, "a version that is not known speaks against nothing", i.told)
    i = c.explain("Krackan", MES, KRACKAN, kernel="6.19.11")
    t.same(i.told.get("krackan-kernel"), ("applied", "this machine has kernel 6.19.11 already"), "a kernel that is new enough")
    i = c.explain("limit", log(ring_timeout(60.0, "comp_1.0.1", 10, 11, "ollama", 71)), parameters="amdgpu.lockup_timeout=30000")
    t.same(i.told.get("lockup-timeout"), ("applied", "amdgpu.lockup_timeout=30000 is set, so it did not prevent this"), "another value of the same limit")
    i = c.explain("no such parameter", log("500 @ qcm fence wait loop timeout expired\n500 @ The cp might be in an unrecoverable state due to an unsuccessful queues preemption"),
                  "0x1002:0x73BF 0x1002:0x0E3A 0xC1", kernel="5.4.0-200-generic")
    t.same(i.told.get("num-kcq"), ("no-such-parameter", "Linux 5.4.0-200-generic has no parameter amdgpu.num_kcq"), "a parameter that this kernel does not have")


def test_report(t, unhang):
    c = Case(t, unhang)
    text = c.text(MES, ids=HALO, parameters="amdgpu.cwsr_enable=0")
    t.ok("Tried amdgpu.cwsr_enable=0 is set, so it did not prevent this [line 2]." in text, "the line that shows it", text[-1500:])
    t.ok("55 instead of 60 results an hour. If it does not help: Remove amdgpu.cwsr_enable=0 from" in text, "what it costs, and how to take it back", text[-1500:])
    text = c.text(ROCM.format("7.2.1") + MES, ids=HALO, kernel="7.0.3")
    t.ok("Not Set amdgpu.cwsr_enable=0" in text and "this machine has kernel 7.0.3 and ROCm 7.2.1." in text, "what is not needed any more", text[-1500:])
    text = c.text(SMU, ids=RX5700, parameters="amdgpu.ppfeaturemask=0xfff7bfff")
    t.ok("here: amdgpu.ppfeaturemask=0xfff73fff" in text, "the number where the value in effect is known", text[-1500:])
    i = c.explain("number", SMU, RX5700, parameters="amdgpu.ppfeaturemask=0xffffffff")
    t.same([r["here"] for r in i.data["remedies"] if r["id"] == "gfxoff-off"], ["amdgpu.ppfeaturemask=0xffff7fff"], "bits are taken out of the value in effect, not of a copied number")
    i = c.explain("no number", SMU, RX5700)
    t.same([r["here"] for r in i.data["remedies"] if r["id"] == "gfxoff-off"], [None], "no number where it is not known")


def test_seeds(t, unhang):
    c = Case(t, unhang)
    guide = "iommu=pt amdgpu.gfxoff=0 amdgpu.dcdebugmask=0x10"
    i = c.explain("seed 001", MES, kernel="6.8.0-90-generic", parameters=guide)
    t.same(i.settings.get("no-such-parameter"), "Linux 6.8.0-90-generic has no parameter amdgpu.gfxoff: it changed nothing; use instead: clear bit 0x8000 of "
           "amdgpu.ppfeaturemask in the value in effect", "amdgpu.gfxoff=0 changed nothing")
    t.ok("wakes from idle" in i.settings.get("gfxoff-is-for-waking-up", ""), "and would have been for something else", i.settings)
    t.ok("fine and unrelated" in i.settings.get("iommu-pt-is-a-baseline", "") and "only turns panel self refresh off" in i.settings.get("psr-off-not-for-this", ""), "iommu=pt is a baseline; dcdebugmask is about the panel", i.settings)
    t.same([r for r in i.remedies if r in ("cwsr-off", "gfxoff-off", "iommu-pt")], [], "none of these is offered for a MES hang of a gfx1100")
    t.ok(max(i.remedies.index("display-on-other-gpu"), i.remedies.index("browser-on-cpu")) < i.remedies.index("update-kernel-firmware"), "several users of the card: display on the other GPU, browsers off it", i.remedies)
    i = c.explain("GFXOFF off, MES", MES, parameters="amdgpu.ppfeaturemask=0xfff73fff")
    t.ok("not here" in i.settings.get("gfxoff-off-not-for-this", "") and "gfxoff-off" not in i.told, "GFXOFF is off, and a MES hang is no matter of it", i.settings)
    i = c.explain("page fault", log(fault(10.0, 0x7f0000001000, status_of(8, 3))), parameters="amdgpu.ppfeaturemask=0xfff73fff iommu=pt")
    t.same(sorted(i.settings), ["gfxoff-off-not-for-this", "iommu-pt-is-a-baseline"], "nor a page fault")
    i = c.explain("wake-up", SMU, RX5700, parameters="amdgpu.gfxoff=0")
    t.ok("gfxoff-off" in i.remedies and sorted(i.settings) == ["no-such-parameter"], "a hang at waking up: gfxoff=0 changed nothing, the bit is worth trying", (i.remedies, i.settings))
    i = c.explain("wake-up, off", SMU, RX5700, parameters="amdgpu.ppfeaturemask=0xfff73fff")
    t.same((i.told.get("gfxoff-off"), i.settings), (("applied", "amdgpu.ppfeaturemask=0xfff73fff is set, so it did not prevent this"), {}), "a hang at waking up with GFXOFF off")
    i = c.explain("cwsr on gfx1100", MES, parameters="amdgpu.cwsr_enable=0")
    t.same(("cwsr-back-on" in i.remedies, i.remedies[0] != "cwsr-back-on", i.told), (True, True, {}), "CWSR off on a gfx1100, for which no report asks: take it back")
    i = c.explain("MES 0x83", "MES_KIQ feature version: 6, firmware version: 0x0000006c\nMES feature version: 1, firmware version: 0x00000083\n" + MES, HALO, parameters="amdgpu.cwsr_enable=0")
    t.ok("0x83" in i.settings.get("cwsr-off-with-mes-83", "") and i.remedies[0] == "mes-80-gfx1151", "CWSR off does not help with MES 0x83", (i.remedies, i.settings))
    i = c.explain("phoenix", MES, PHOENIX, kernel="7.0.3", rocm="7.2.1")
    t.ok("cwsr-off-gfx1103" in i.remedies, "on gfx1103 no version makes it needless", i.told)
    i = c.explain("Instinct", MES, "0x1002:0x74A1 0x1002:0x74A1 0x00", parameters="iommu=pt")
    t.same(i.settings, {}, "on Instinct iommu=pt is nothing to talk about")


def test_small_allocations(t, unhang):
    folder = unhang.directory / "small"
    folder.mkdir(exist_ok=True)
    for rocm, four in (("7.1.1", "rocm-6.4.4"), ("7.2.1", None)):
        (folder / "dmesg.txt").write_text(boot() + ROCM.format(rocm))
        (folder / "gdb.txt").write_text(IN_HIP_MALLOC)
        i = unhang.explain(folder).first
        t.same((i.cls, i.values("waits_in")), ("silent-hang", ["hipMalloc"]), f"ROCm {rocm}: a stack that stands in hipMalloc")
        t.same(i.remedies[:3], [*([four] if four else []), "one-allocation", "cwsr-off-allocations", "null-stream"][:3], f"ROCm {rocm}: what most facts speak for, pooling, CWSR, the null stream")
        t.same({r["grade"] + " " + r["kind"] for r in i.data["remedies"][:3]}, {"C experiment"}, f"ROCm {rocm}: each is an experiment")
        t.ok("cwsr-off-silent" not in i.remedies, f"ROCm {rocm}: CWSR off is not carried over to gfx1100", i.remedies)
    (folder / "dmesg.txt").write_text(boot(parameters="amdgpu.gttsize=61440"))
    i = unhang.explain(folder).first
    t.same(i.told.get("gtt-size"), ("applied", "amdgpu.gttsize=61440 is set, so it did not prevent this"), "GTT was made larger already")


def test_this_machine(t, unhang):
    """What is in effect on the machine at hand, whose log says nothing of it."""
    if not emulated.possible(unhang):
        t.skip("the machine at hand", "emulated machines need FUSE and name spaces")
        return
    found = emulated.document(t, emulated.inside(unhang, "gfxoff-wakeup", "live", "--json"), "diagnosis", "a GPU that does not wake up", status=1)
    remedies = {r["id"]: r for i in found.get("incidents", [])[:1] for r in i["remedies"]}
    t.same(remedies.get("gfxoff-off", {}).get("here"), "amdgpu.ppfeaturemask=0xfff73fff", "the number to set, from the value in effect")


ORDER = """
remedy cheap-c
    kind experiment
    takes nothing
    grade C
remedy costly-b
    kind workaround
    takes hardware
    grade B
remedy cheap-b
    kind workaround
    takes restart
    grade B
remedy cure-b
    kind cure
    takes install
    grade B
remedy experiment-a
    kind experiment
    takes hardware
    grade A
remedy last-a
    kind cure
    takes nothing
    last yes
    grade A
"""


def test_order(t, unhang):
    common = "    for thermal-shutdown\n    do x\n    source s\n"
    (unhang.config / "unhang" / "knowledge.d").mkdir(parents=True, exist_ok=True)
    own = unhang.config / "unhang" / "knowledge.d" / "order.know"
    own.write_text(re.sub(r"^remedy (.*)\n", r"remedy \1\n    title \1\n", "remedy cooling\n    kind cure\n    grade C\n" + common + ORDER.replace("    kind", common + "    kind"), flags=re.M))
    i = unhang.explain_text(log("10.0 @ ERROR: GPU over temperature range(SW CTF) detected!")).first
    own.unlink()
    certain = [r["id"] for r in i.data["remedies"] if not r["if"]]
    t.same(certain, ["experiment-a", "cure-b", "cheap-b", "costly-b", "cooling", "cheap-c", "last-a"], "grade, then cure before workaround before experiment, then what asks less")
    t.same([r["id"] for r in i.data["remedies"] if r["shown"]], certain[:3], "three are shown")
    i = Case(t, unhang).explain("off the bus", log("500 @ device lost from bus!"))
    t.same(i.remedies[:1], ["reseat"], "a card that is lost: hands before settings")
    wrong = []
    for name, parameters in (("Navi 31", dict()), ("Strix Halo", dict(ids=HALO)), ("Krackan", dict(ids=KRACKAN))):
        for incident in (MES, SMU, log(ring_timeout(60.0)), log(fault(10.0, 0x3000, status_of(8, 5, rw=1)))):
            remedies = unhang.explain_text(boot(**parameters) + incident).first.data["remedies"]
            states = [r["state"] == "try" for r in remedies]
            wrong += [f"{name}: {remedies}"] * (states != sorted(states, reverse=True))
            wrong += [f"{name}: {r['id']} {r['state']} {r['because']}" for r in remedies if (r["state"] == "try") != (r["because"] is None)]
            shown = [r["shown"] for r in remedies]
            wrong += [f"{name}: shown {shown}"] * (shown != sorted(shown, reverse=True) or sum(shown) > 3)
    t.no_complaints(wrong, "what is to be tried stands first, each group in its order; only what is not to be tried has a reason")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_states, test_report, test_seeds, test_small_allocations, test_this_machine, test_order):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
