// Numbers as scenarios write them.
#pragma once

#include "base/str.h"

/** 12, 0x1f, 4K, 2M, 1G. */
bool emu_number_of(struct str word, uint64_t *ret);
/** Seconds, with a point where needed: 0.05. */
bool emu_seconds_of(struct str word, double *ret);
