// Kernels of unhang's own on a GPU, through ROCm's HSA runtime, in a child that may hang or crash with it: some that store a number each, one
// that spins until it is told to end, and one that makes a page fault.
#pragma once

#include "base/child.h"
#include "base/cleanup.h"

/** The kernels as a code object for a part (launch.s; tools/assemble-kernels makes the table). A part of NULL ends it. */
struct launch_code {
	const char *part;
	uint32_t flags; // of the ELF header, which name the part
	const unsigned char *code;
	size_t size;
};
extern const struct launch_code launch_codes[];

enum { LAUNCH_STORES = 100 };
#define LAUNCH_SPIN "unhang_test_spin"
#define LAUNCH_FAULT "unhang_test_fault"
#define LAUNCH_STARTING "starting the runtime" // the step in which a machine without a usable driver ends

struct launch_options {
	struct str pci, gfx;    // of the GPU
	const char *recorder;   // the flight recorder, which the runtime loads; NULL: none
	const char *recordings; // directory
	bool fault;             // instead of the others
	const char *handler;    // of GPU cores, as HSA_COREDUMP_PATTERN has it; NULL: none
	int milliseconds;       // for all of it
};

struct launch {
	struct child child;
	struct map shared; // one word: the kernel that spins may end
	struct text said;  // lines of a letter and a text: Step, Error, Mark, Address, Library
	int64_t deadline;
};

/** false: there is no child, see errno. */
bool launch_start(const struct launch_options *o, struct launch *ret);
/** Waits until the child says that it came to a mark. false: it ended before, or its time is up. */
bool launch_wait(struct launch *l, const char *mark);
/** The kernel that spins may end. */
void launch_go_on(struct launch *l);
/** Waits until the child has ended. false: its time is up, and it was killed. */
bool launch_finish(struct launch *l);
/** The last line with this letter; empty: none. */
struct str launch_said(const struct launch *l, char letter);
void launch_free(struct launch *l);
