#!/usr/bin/env python3
"""Context: what the text around a failure says of the work, and what that does to the advice."""
import sys

import tap
from diagnoses import fault, log, ring_timeout, status_of

FAULT = "Memory access fault by GPU node-3 (Agent handle: 0x5581e2c0) on address 0x7f3ac1200000. Reason: Page not present or supervisor privilege.\n"
# Lines before the fault, and facts that they are to give.
WORDS = {
    "vLLM with AITER": ("INFO 03-02 10:11:12 [rocm.py:88] Using AITER Fp8 MoE backend out of potential backends\nINFO vLLM API server version 0.9.1\n",
                        dict(framework=["vllm"], framework_version=["0.9.1"], backend=["aiter"], moe=["yes"], quantisation=["fp8"], program_kind=["inference"], stack=["rocm"])),
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
    t.same((facts(game, "program_kind"), rocm), (["game"], []), "a game gets no advice about ROCm")
    player = unhang.explain_text("FreeBSD 14.1-RELEASE\n" + log(ring_timeout(100.0, process="mpv")))
    t.ok(facts(player, "platform") == ["freebsd"] and not any("PyTorch" in r["title"] or "linux-firmware" in r["title"] for r in shown(player)), "a player on FreeBSD is not told of PyTorch or linux-firmware", shown(player))
    named = unhang.explain_text("a page about firefox\n" + log(fault(10.0, 0x7f0000001000, status_of(8, 3), process="python")))
    t.same((facts(named, "stack"), facts(named, "program_kind")), (["rocm"], ["browser"]), "the program's own name beats words beside it")
    hidden = [r for r in unhang.explain_text(FAULT).first.data["remedies"] if not r["shown"]]
    t.ok(len(shown(unhang.explain_text(FAULT))) <= 3 and all("shown" in r for r in hidden), "three at most are shown", hidden)
    text = unhang.run("explain", unhang.write("a.log", WORDS["vLLM with AITER"][0] + FAULT)).stdout.decode()
    t.ok(aiter[0]["title"][:40] in " ".join(text.split()), "the text has the same first remedy", text)


def test_own(t, unhang):
    unhang.know("mine.know", "context mine\n  words frobnicator\n  says framework frob\n  version framework_version\n")
    answer = unhang.explain_text("Frobnicator release v2.10.1 starts\n" + FAULT)
    t.same((facts(answer, "framework"), facts(answer, "framework_version")), (["frob"], ["2.10.1"]), "a user's own context, with its version")
    bad = unhang.run("knowledge", "check", unhang.write("bad.know", "context bad\n  words Upper\n  says a b\n")).stderr.decode()
    t.ok("lower case" in bad, "words in capitals are refused", bad)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    for test in (test_words, test_advice, test_own):
        test(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
