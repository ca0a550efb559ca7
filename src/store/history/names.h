// Texts as numbers: each text once, in the order in which they came, found by a hash.
#pragma once

#include "base/arena.h"

struct name_table {
	struct arena *arena; // where texts are kept
	VEC(struct str) names;
	uint32_t *slots; // number + 1; 0: free
	size_t n;
};

/** The number of a text, which gets one where it has none. */
uint32_t name_number(struct name_table *t, struct str name);
/** false: it has none. */
bool name_known(const struct name_table *t, struct str name, uint32_t *ret);
void name_table_free(struct name_table *t);
