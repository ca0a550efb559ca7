// Numbers as scenarios write them, and those in the names of parts.
#pragma once

#include "base/str.h"

/** 12, 0x1f, 4K, 2M, 1G. */
bool emu_number_of(struct str word, uint64_t *ret);
/** Seconds, with a point where needed: 0.05. */
bool emu_seconds_of(struct str word, double *ret);
/** gfx90a is 9.0.10, gfx1100 11.0.0: the last two digits are hexadecimal. All 0: it is no such name. */
struct gfx_version {
	unsigned major, minor, stepping;
} emu_gfx_version(struct str gfx);
