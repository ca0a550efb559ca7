// Waves at the same place for the same reason, which people look at as one.
#pragma once

#include "gpu/target.h"

struct wave_group {
	size_t first; // index of one of them
	size_t count;
};

/** Groups of waves with the same pc, kernel, stop reasons and, on the GPU, state; stopped ones first, then the larger. @ret has room for @n. */
size_t wave_groups(const struct wave *waves, const struct str *kernels, size_t n, struct wave_group *ret);
