// Damage in a code object that leaves the rest of it usable: a line for each, with structure and offset.
#pragma once

#include "base/arena.h"

struct code_problems {
	struct text *to; // NULL: nobody wants to know
	unsigned count;
};

/** Adds a line. A file that is damaged everywhere tells only the first few. */
void code_problem(struct code_problems *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
