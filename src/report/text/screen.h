// A screen: what a text is made of, block by block, each with the lines that it needs and those that it may have. Only when all blocks are
// there is it known how long each may be.
#pragma once

#include <stdio.h>

#include "base/arena.h"

enum block_form {
	FORM_TEXT,    // behind a label
	FORM_COMMAND, // below it, and never cut
	FORM_GAP,     // an empty line
};

struct block {
	enum block_form form;
	const char *label, *paint; // paint NULL: bold
	size_t indent;             // of the lines behind the first
	size_t column;             // at which the text begins; 0: behind the label
	bool stacked;              // the label stands on a line of its own
	bool whole;                // a line without a label is painted
	struct text lead;          // before the label: a time
	struct text text, behind;  // what stands behind is never cut
	size_t least, most;        // lines
	size_t given;              // concluded
};

struct screen {
	FILE *out;
	bool colour;
	size_t width;
	VEC(struct block) blocks;
};

/** The block lives until the next one is added. */
struct block *screen_add(struct screen *s, struct block p);
/** Adds @text to a block; a word that no line can hold is shortened. */
void screen_text(const struct screen *s, struct block *p, struct str text);
/** Writes the blocks, in @lines where that is possible, and forgets them. */
void screen_write(struct screen *s, size_t lines);
