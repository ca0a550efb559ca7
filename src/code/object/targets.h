// The processors that code objects are built for.
#pragma once

#include "base/str.h"

struct code_target {
	unsigned char mach; // in e_flags
	char name[19];
	bool wave32, wave64;                  // sizes of waves that it has
	unsigned char granule_32, granule_64; // VGPRs that the descriptor counts by, for each size of wave
	bool accum_offset;                    // VGPRs and accumulation VGPRs are one file, split by the descriptor
	bool xnack, sramecc;                  // that it can have these switched on or off
};

/** NULL where it is not known. */
const struct code_target *code_target_of(unsigned mach);
const struct code_target *code_target_named(struct str name);
