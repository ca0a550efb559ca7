// The fast scan: which lines of a text may matter at all. It looks for a few anchors. docs/DECISIONS.md has the measurements that speak
// for our own scan and against Vectorscan.
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

/** A part of a text, with some of the text before and after it. */
struct window {
	const char *bytes;
	size_t size;
	size_t from, to; // the window's own part: other windows look for matches elsewhere
	VEC(struct candidate) candidates;
	uint64_t newlines; // in the own part
};

struct scanner; // made once, shared by threads; it does not change

/** Anchors are chosen so that a text like @sample seldom agrees with one; any other is scanned as well, but not as fast. */
struct scanner *scanner_new(const struct know *k, struct str sample);
void scanner_free(struct scanner *s);

/** Where the first line begins that is this window's: a line belongs to the window in which it begins. */
size_t window_first_line(const struct window *w);
/** Fills candidates and newlines of @w. @s NULL: each line is a candidate. */
void scan_window(const struct scanner *s, struct window *w);
