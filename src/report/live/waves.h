// What text and JSON about waves have in common.
#pragma once

#include "report/live/look.h"

/** The waves of one GPU or core, with what is known of their code. */
struct listing {
	const struct waves_seen *seen;
	struct look *look;
	size_t first; // waves of other GPUs before these
	size_t n;
	const struct wave *waves;
	const struct where *const *where;
	const struct str *kernels;
	struct arena arena;
};

/** In a word: running, halted, ... */
struct str wave_state(const struct wave *w);
/** The register in which the hardware notes exceptions; NULL where the part has none. */
const uint32_t *wave_trap_status(const struct wave *w);
struct str wave_waits(struct arena *a, const struct know *k, const struct wave *w, const struct where *at);
void waves_json(struct listing *l, size_t n, FILE *out);
