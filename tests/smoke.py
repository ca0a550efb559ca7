#!/usr/bin/env python3
"""The smoke test of GPUs, in an emulated machine, against runtimes that work, fail, lie, hang and crash."""
import json
import os
import shutil
import subprocess
import sys

import emulated
import tap

RUNTIME = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int hipDeviceGetByPCIBusId(int *d, const char *pci) { *d = 3; return strcmp(pci, "0000:03:00.0") || MODE == 1 ? 100 : 0; }
int hipSetDevice(int d) { return d == 3 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 ? 0 : 101; }
int hipMalloc(void **p, size_t n) { *p = malloc(n); return MODE == 2 ? 2 : 0; }
int hipMemset(void *p, int v, size_t n)
{
	for (; MODE == 3;)
		pause();
	memset(p, v, n);
	if (MODE == 4)
		((char *)p)[n - 1] ^= 1;
	return 0;
}
int hipMemcpy(void *to, const void *from, size_t n, int kind)
{
	if (MODE == 5 && kind == 3)
		raise(SIGSEGV);
	memcpy(to, from, MODE == 6 && kind == 3 ? n - 1 : n);
	return 0;
}
int hipDeviceSynchronize(void) { return 0; }
int hipFree(void *p) { free(p); return 0; }
const char *hipGetErrorString(int e) { return e == 2 ? "out of memory" : "no device"; }
"""
WHAT = ["a runtime that works", "it does not see the GPU", "it has no memory", "a kernel never ends", "a kernel writes wrong bytes",
        "it crashes", "a copy loses its last byte"]
# mode, exit status, result, where it stopped
CASES = [
    (0, 0, "passed", "giving memory back"),
    (1, 2, "no-device", "looking for the GPU"),
    (2, 1, "failed", "reserving memory"),
    (3, 1, "late", "filling memory with a kernel"),
    (4, 1, "wrong", "copying back"),
    (5, 1, "crashed", "copying inside the GPU"),
    (6, 1, "wrong", "copying back"),
]


def smoke(unhang, library):
    return emulated.inside(unhang, "idle", "doctor", "--smoke-test", "--json", "--seconds", "2", "--hip", library)


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not emulated.possible(unhang):
        tap.skip_all("no C compiler, or no emulated machine can be made here")
    for mode, status, result, step in CASES:
        library = unhang.directory / f"hip{mode}.so"
        subprocess.run([compiler, "-shared", "-fPIC", f"-DMODE={mode}", "-xc", "-", "-o", library], input=RUNTIME, text=True, check=True)
        run = smoke(unhang, library)
        gpu = json.loads(run.stdout)["gpus"][0]
        t.same((run.returncode, gpu["result"], gpu["step"]), (status, result, step), f"{WHAT[mode]}: {result}")
    run = smoke(unhang, unhang.directory / "none.so")
    t.same((run.returncode, json.loads(run.stdout)["gpus"][0]["result"]), (2, "no-runtime"), "no runtime: it says so")
    if os.geteuid() == 0:
        os.chown(unhang.directory / "hip0.so", 65534, 65534)
        run = smoke(unhang, unhang.directory / "hip0.so")
        gpu = json.loads(run.stdout)["gpus"][0]
        t.ok((run.returncode, gpu["result"]) == (2, "no-runtime") and "not used: " in gpu["text"], "another user's runtime is named and not loaded", gpu)
    for answer, status, said in ((b"y\n", 1, "does not answer"), (b"n\n", 0, "doctor --smoke-test")):
        ours, theirs = os.openpty()
        os.write(ours, answer)
        run = subprocess.run([unhang.binary, "emulate", "idle", "--", unhang.binary, "doctor", "--verify", "--seconds", "1",
                              "--hip", unhang.directory / "hip3.so"], stdin=theirs, capture_output=True, text=True, env=unhang.environment)
        os.close(ours), os.close(theirs)
        t.ok(run.returncode == status and said in " ".join(run.stdout.split()), f"--verify offers it; the answer is {answer[:1].decode()}", run.stdout + run.stderr)
    t.end()


if __name__ == "__main__":
    main()
