// The registers of a target's wave in the form in which readers hand registers on.
#pragma once

#include "evidence/wave_code.h"
#include "gpu/target.h"

/** pc, exec, vcc, the hardware registers by name, s0, v0, a0 and so on, in @a. */
const struct values *wave_values(struct target *t, struct arena *a, const struct wave *w, size_t *ret_n);

static inline struct wave_barrier wave_barrier_of(const struct wave *w)
{
	return (struct wave_barrier){ w->barrier_known, w->in_barrier, w->first && w->last };
}
