// What the driver tells of one GPU, in each of the places where it tells it: sysfs, KFD's topology, the render node, debugfs. A look needs
// one of them; whoever doubts that it reads them rightly holds all against each other.
#pragma once

#include "gpu/find/device.h"

/** One place's word on a fact. */
struct witness {
	const char *about;       // what the fact belongs to: chip, shaders, registers, firmware, clocks
	struct str fact;         // `active CUs`
	struct str place, value; // `KFD's topology`, `96`
};

enum { CU_ROWS = 4 };

struct witnesses {
	VEC(struct witness) list;
	bool cus_known;
	uint32_t cus[CU_ROWS]
		    [CU_ROWS]; // of the first XCC, as the render node has them: CUs of an array that are there, a bit each
};

/** Asks all of them. Texts lie in @a. What cannot be read is not there. Free with vec_free(&ret->list). */
void device_witnesses(const struct know *k, const struct devices *all, const struct device *d, struct arena *a,
		      struct witnesses *ret);
/** The CUs of an array by the render node; 0: it says nothing of them. */
uint32_t witness_cus(const struct witnesses *w, const struct shader_array *x, unsigned se, unsigned sh);
