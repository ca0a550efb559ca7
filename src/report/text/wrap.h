// Words in lines of a terminal's width, behind a margin.
#pragma once

#include <stdio.h>

#include "base/str.h"

enum { WRAP_WIDTH = 100 };

struct wrapping {
	FILE *out;
	unsigned margin, width, column; // width 0: WRAP_WIDTH
};

/** A space and a word; on a new line where it does not fit. */
void wrap_word(struct wrapping *w, struct str word);
