// The fast scan: which lines of a text may matter at all. It looks for a few anchors; why it is our own and not
// Vectorscan is measured in docs/DECISIONS.md.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "knowledge/know.h"

/** A line that may matter. */
struct candidate {
	uint32_t begin, end; // in the window
	uint32_t line;       // newlines before it in the window's own part
};

/** A part of a text with some of what stands before and after it. */
struct window {
	const char *bytes;
	size_t size;
	size_t from, to; // the own part: matches here are this window's business
	VEC(struct candidate) candidates;
	uint64_t newlines; // in the own part
};

struct scanner; // made once, shared by threads

struct scanner *scanner_new(const struct know *k);
void scanner_free(struct scanner *s);

/** Fills candidates and newlines of @w. Without a scanner, each line is a candidate. */
void scan_window(const struct scanner *s, struct window *w);
