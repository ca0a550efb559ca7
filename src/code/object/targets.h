// The processors that code objects are built for.
#pragma once

#include "base/str.h"

struct code_target {
	unsigned char mach; // in e_flags
	char name[19];
	bool wave32, wave64;                  // the sizes of waves that it has
	unsigned char granule_32, granule_64; // the descriptor counts VGPRs in units of this, for each size of wave
	bool accum_offset;                    // VGPRs and accumulation VGPRs share one file; the descriptor says where it is split
	bool xnack, sramecc;                  // whether it can switch these on and off
};

/** NULL where it is not known. */
const struct code_target *code_target_of(unsigned mach);
const struct code_target *code_target_named(struct str name);
