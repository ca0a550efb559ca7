// Whether a GPU computes: memory is reserved, filled by a kernel, copied and compared, through ROCm's HIP runtime where there is one.
#pragma once

#include "base/arena.h"

enum smoke_end {
	SMOKE_PASSED,
	SMOKE_NO_RUNTIME, // there is no HIP runtime here
	SMOKE_NO_DEVICE,  // the runtime does not see this GPU
	SMOKE_FAILED,     // a call returned an error
	SMOKE_WRONG,      // what came back is not what was written
	SMOKE_LATE,       // a call did not return
	SMOKE_CRASHED,
};

struct smoke {
	enum smoke_end end;
	struct str step; // that it was at
	struct str error;
	struct str library;
	struct str refused; // a runtime that others could have written, which was not loaded
	int64_t milliseconds;
	bool left_behind; // its process does not die: it waits in the kernel
};

/** Tries the GPU at @pci (0000:03:00.0) in a child that has @milliseconds. @library: the runtime to load; NULL: ROCm's. */
void smoke_run(struct arena *a, struct str pci, const char *library, int milliseconds, struct smoke *ret);
const char *smoke_name(enum smoke_end e);
