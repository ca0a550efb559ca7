// Which lines of the evidence a report for others quotes.
#pragma once

#include "report/html/page.h"

struct quoted_line {
	struct place at; // first, for sorting
	bool told;       // something that is told stands in it
};
typedef VEC(struct quoted_line) quoted_lines;

enum { QUOTED_AROUND = 3 };

/** The lines of what is told of an incident and those around them, in order; @full: all that were kept. Those that were not kept are left
 * out. The caller frees it with vec_free(). */
quoted_lines quote_lines(const struct diagnosis *d, const struct incident *i, bool full);
/** Leaves no more than @most of them: first without those around what is told, then without the last. Returns whether that is all. */
bool quote_limit(quoted_lines *list, size_t most);
bool quote_has(const quoted_lines *list, struct place at);
/** How many of them something is told of. */
size_t quote_told(const quoted_lines *list);
