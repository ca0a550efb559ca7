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
	struct str step; // where it was when it ended
	struct str error;
	struct str library;
	struct str refused; // a runtime that was not loaded because others could have written it
	int64_t milliseconds;
	bool left_behind; // its process waits in the kernel and does not die
};

/** Tries the GPU at @pci (0000:03:00.0) in a child with a deadline of @milliseconds. @library: the runtime to load; NULL: ROCm's. Texts
 * lie in @a. */
void smoke_run(struct arena *a, struct str pci, const char *library, int milliseconds, struct smoke *ret);
const char *smoke_name(enum smoke_end e);
