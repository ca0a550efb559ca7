// What the job itself said before it failed.
#pragma once

#include "knowledge/know.h"

struct last_words {
	struct str line; // empty: nothing that knowledge/last-words.know knows
	bool killed;     // it tells of a process that was killed
	int64_t rank;    // whose it is; -1: it does not say
};
/** Of the end of the job's output. */
struct last_words words_find(const struct know *k, struct str output, struct arena *a);
/** The last @lines lines of it. */
struct str words_tail(struct str output, unsigned lines);
