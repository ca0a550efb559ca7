// How much was allocated, of which sizes, for how long, and what that cost.
#pragma once

#include "evidence/allocations/allocations.h"

/** Of all sizes together. */
struct allocations_sum {
	uint64_t count, bytes, served; // served: that have a mapping of their own or a place in a slab
	uint64_t freed, lives[ALLOC_LIVES];
	uint64_t peak_bytes, taken_peak, kfd_calls;
	size_t findings;
};
struct allocations_sum allocations_sum(const struct allocations *a);
/** Whether PyTorch asked for some of them. */
bool allocations_of_torch(const struct allocations *a);
/** Seconds: the most that a lifetime of a bucket has. */
double lifetime_most(unsigned bucket);
/** The commonest sizes: `5,000 of 2 to 4 KiB, 48 of 4 to 8 MiB`. */
struct str allocations_sizes_say(struct arena *a, const struct allocations *of);
/** `Pool: 5,048 allocations (5,000 from 2 KiB on, 48 from 4 MiB on), at most ... 12 calls of KFD.` */
struct str allocations_statistics_say(struct arena *a, const struct allocations *of);
