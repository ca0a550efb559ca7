#!/usr/bin/env python3
"""Context: what the text around a failure says of the work, and what that does to the advice."""
import sys

import tap
from diagnoses import fault, log, reset, ring_timeout, status_of

FAULT = "Memory access fault by GPU node-3 (Agent handle: 0x5581e2c0) on address 0x7f3ac1200000. Reason: Page not present or supervisor privilege.\n"
# Lines before the fault, and facts that they are to give.
WORDS = {
    "vLLM with AITER": ("INFO 03-02 10:11:12 [rocm.py:88] Using AITER Fp8 MoE backend out of potential backends\nINFO vLLM API server version 0.9.1\n",
                        dict(framework=["vllm"], framework_version=["0.9.1"], backend=["aiter"], moe=["yes"], quantisation=["fp8"], role=["inference"], stack=["rocm"])),
    "SGLang": ("[2026-03-02 10:11:12 TP0] server_args=ServerArgs(...)\n[2026-03-02 10:11:13] sglang is starting; Capture cuda graph begin\n", dict(framework=["sglang"], graphs=["yes"], parallel=["tp"])),
    "llama.cpp": ("ggml_cuda_init: found 1 ROCm devices:\nllama_model_loader: loaded meta data from model.gguf\n", dict(framework=["llama.cpp"], quantisation=["gguf"], stack=["rocm"])),
    "MPI": ("MPICH ERROR [Rank 3]: Cray-MPICH was built with GPU support\n", dict(transport=["mpi"])),
    "a word inside of another": ("the revllmish word and xaiterx\n", dict(framework=[], backend=[])),
}


def facts(answer, name):
    return [f["value"] for f in answer.first.data["facts"] if f["name"] == name]


def shown(answer):
    return [r for r in answer.first.data["remedies"] if r["shown"]]


def test_words(t, unhang):
    for name, (before, wanted) in WORDS.items():
        answer = unhang.explain_text(before + FAULT)
        t.same({n: facts(answer, n) for n in wanted}, wanted, name)
        t.no_complaints(answer.complaints, f"{name}: well-formed")
    answer = unhang.explain_text(WORDS["vLLM with AITER"][0] + FAULT)
    places = {f["name"]: f["at"]["line"] for f in answer.first.data["facts"] if f["name"] in ("backend", "framework")}
    t.same(places, {"backend": 1, "framework": 2}, "each has the place where it stands")
    far = "nothing of interest on this line at all\n" * 60000
    t.same(facts(unhang.explain_text(far + WORDS["MPI"][0] + FAULT), "transport"), ["mpi"], "also where something happened, far behind the head of a large text")


def test_advice(t, unhang):
    aiter = shown(unhang.explain_text(WORDS["vLLM with AITER"][0] + FAULT))
    t.ok(aiter and "AITER" in aiter[0]["title"] and "aiter" in (aiter[0]["why"] or ""), "AITER's backend is named: its remedy comes first and says why", aiter)
    nothing = shown(unhang.explain_text(FAULT))
    t.ok(nothing[0]["id"] == "name-the-kernel" and len(nothing) <= 2, "nothing is known: the step that tells comes first", nothing)
    game = unhang.explain_text(log(ring_timeout(100.0, process="starfield.exe")))
    rocm = [r["title"] for r in shown(game) if any(w in r["title"] + " ".join(r["do"]) for w in ("HSA_", "ROCm", "PyTorch"))]
    t.same((facts(game, "role"), rocm), (["game"], []), "a game gets no advice about ROCm")
    player = unhang.explain_text("FreeBSD 14.1-RELEASE\n" + log(ring_timeout(100.0, process="mpv")))
    t.ok(facts(player, "platform") == ["freebsd"] and not any("PyTorch" in r["title"] or "linux-firmware" in r["title"] for r in shown(player)), "a player on FreeBSD is not told of PyTorch or linux-firmware", shown(player))
    named = unhang.explain_text("a page about firefox\n" + log(fault(10.0, 0x7f0000001000, status_of(8, 3), process="python")))
    t.same((facts(named, "stack"), facts(named, "role")), (["rocm"], ["browser"]), "the program's own name beats words beside it")
    hidden = [r for r in unhang.explain_text(FAULT).first.data["remedies"] if not r["shown"]]
    t.ok(len(shown(unhang.explain_text(FAULT))) <= 3 and all("shown" in r for r in hidden), "three at most are shown", hidden)
    text = unhang.run("explain", unhang.write("a.log", WORDS["vLLM with AITER"][0] + FAULT)).stdout.decode()
    t.ok(aiter[0]["title"][:40] in " ".join(text.split()), "the text has the same first remedy", text)


ROCM, MESA = ("HSA_", "ROCm", "PyTorch", "debug-agent"), ("Mesa", "RADV", "VKD3D")
# What failed; the kind of work, what to do now, whose fault it is, and words that no advice may have.
WHO = {
    "a compositor's fault": (fault(10.0, 0x800012345000, status_of(8, 3, vmid=3), vmid=3, process="gnome-shell"), ("graphics", "restart-session", "driver"), ROCM),
    "a thread of a compositor": (ring_timeout(10.0, process="kwin_wayland") + "10.1 @ ring gfx_0.0.0 reset succeeded\n", ("graphics", "restart-session", "driver"), ROCM),
    "a HIP program's fault": (fault(10.0, 0x7f0000001000, status_of(8, 3, vmid=8), vmid=8, process="python3"), ("compute", "restart-program", "job"), MESA),
    "a game's hang": (ring_timeout(10.0, process="Cyberpunk2077.exe") + reset(10.5), ("graphics", "restart-session", "driver"), ROCM),
    "a video engine": (ring_timeout(10.0, ring="vcn_unified_0", process="mpv") + reset(10.5), ("video", "restart-session", "driver"), ROCM),
    "a copy engine of nobody": ("10.0 @ ring sdma0 timeout, signaled seq=100, emitted seq=102\n" + reset(10.5), ("copy", "restart-session", "driver"), ROCM),
    "a log that ends inside the reset": (ring_timeout(10.0, process="Xorg") + "10.5 @ GPU reset begin!\n", ("graphics", "restart-session", "driver"), ROCM),
    "a reset in which firmware is silent": (ring_timeout(10.0, process="Xorg") + "10.5 @ GPU reset begin!\n10.9 @ MES failed to respond to msg=REMOVE_QUEUE\n",
                                            ("graphics", "reboot", "driver"), ROCM),
    "a fault of the driver's own": (fault(10.0, 0x1000, status_of(8, 3, vmid=0), vmid=0), (None, "reboot", "driver"), ()),
}


def test_who(t, unhang):
    for name, (text, wanted, never) in WHO.items():
        i = unhang.explain_text(log(text)).first.data
        t.same((i["work"], i["action"]["do"], i["action"]["fault"]), wanted, f"{name}: work, what to do now, fault")
        t.ok(0 < i["action"]["fault_confidence"] <= 1, f"{name}: fault has a confidence of its own", i["action"])
        advice = [r["title"] + " ".join(r["do"]) for r in i["remedies"] if r["shown"]] + [f"{n['why']} {n['run']}" for n in i["next"]]
        t.same([a for a in advice if any(w in a for w in never)], [], f"{name}: nothing that is meant for other work")
    for wrong, why in {"remedy odd\n  for gfx-ring-timeout\n  work juggling\n  kind cure\n  title T\n  do D\n  grade C\n  source a/b#1\n": "there is no work-kind 'juggling'",
                       "action odd\n  do nothing\n  text T\n  next [juggling] Look :: unhang\n": "there is no work-kind 'juggling'"}.items():
        said = unhang.run("knowledge", "check", unhang.write("odd.know", wrong)).stderr.decode()
        t.ok(why in said, "a kind of work that does not exist is refused", said)


def test_own(t, unhang):
    unhang.know("mine.know", "context mine\n  words frobnicator\n  says framework frob\n  version framework_version\n")
    answer = unhang.explain_text("Frobnicator release v2.10.1 starts\n" + FAULT)
    t.same((facts(answer, "framework"), facts(answer, "framework_version")), (["frob"], ["2.10.1"]), "a user's own context, with its version")
    bad = unhang.run("knowledge", "check", unhang.write("bad.know", "context bad\n  words Upper\n  says a b\n")).stderr.decode()
    t.ok("lower case" in bad, "words in capitals are refused", bad)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_words, test_advice, test_who, test_own):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
