// What the table of waves and one wave have in common.
#pragma once

#include "report/live/look.h"

/** The waves of one GPU or core, with what is known of their code. */
struct listing {
	struct sheet *sheet;
	const struct waves_seen *seen;
	struct look *look;
	size_t first; // waves of other GPUs before these
	size_t n;
	const struct wave *waves;
	const struct where *const *where;
	const struct str *kernels;
	struct arena arena;
};

/** In a word, or why it stopped. */
struct str wave_state(struct arena *a, const struct wave *w);
struct str wave_waits(struct arena *a, const struct know *k, const struct wave *w, const struct where *at);
void walk_wave(struct listing *l, size_t i);
