// Lanes of a wave that are out of step with the others.
#pragma once

#include "gpu/wave.h"

/** How the lanes of one register go on from one to the next. */
struct lane_pattern {
	const struct wave_register *v;
	bool stepped; // value = base + lane * step; else they only share a range
	uint32_t step, base;
	uint32_t low, high;
	unsigned fit; // lanes that agree
	uint64_t odd; // active lanes that do not
	bool address; // the lower half of a 64-bit address
};

/** The vector register that is most like an index among those whose @active lanes break the pattern of the others. */
bool lanes_find_odd(const struct register_set *s, uint64_t active, struct lane_pattern *ret);
/** `59-63`, `0, 2, 7-9` */
struct str lanes_say(struct arena *a, uint64_t mask);
