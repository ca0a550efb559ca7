// Groups of waves that are at the same place for the same reason. People look at such a group as one.
#pragma once

#include "gpu/target.h"

struct wave_group {
	size_t first; // index of one of them
	size_t count;
};

/** Groups of waves with the same pc, kernel, stop reasons and, on the GPU, state; stopped ones first, then the larger. @ret has room for @n. */
size_t wave_groups(const struct wave *waves, const struct str *kernels, size_t n, struct wave_group *ret);

/** The same for waves that come one after the other, from a text. */
struct wave_place {
	const struct wave *first;
	size_t count, halted;
};

struct wave_places {
	struct wave_place *data;
	size_t len, cap;
};

/** The place of waves with the same pc, kernel, reason and source line; NULL where @w is the first. */
struct wave_place *wave_place_of(const struct wave_places *p, const struct wave *w);
/** Sorts as wave_groups() does; among equals, the place whose first wave has the lower id comes first. */
void wave_places_sort(struct wave_places *p);
