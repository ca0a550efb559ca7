// Words in lines of a terminal's width, behind a margin.
#pragma once

#include <stdio.h>

#include "base/command.h"

enum { WRAP_WIDTH = 80 };

struct wrapping {
	FILE *out;
	unsigned margin, width, column; // width 0: WRAP_WIDTH
};

/** A space and a word; on a new line where it does not fit. */
void wrap_word(struct wrapping *w, struct str word);

/** Rows that begin with a label: columns before it, for it, and in all. */
struct row_style {
	size_t left, label, width; // width 0: WRAP_WIDTH
};
/** Nothing where @text is empty. @more: what lines behind the first are indented beyond it. */
void wrap_row(FILE *out, const struct row_style *style, const char *label, struct str text, size_t more);

/** A step: prose, with the commands in it kept together. One that does not fit behind what stands before it begins a line of its own, and one
 * that is longer than a line goes on behind a backslash. @column: where what is written already ends; where that is behind the indent, a space
 * follows. A newline ends the last line. */
void wrap_step(FILE *out, const struct command *step, const struct row_style *style, size_t column);
/** A row whose text is a step. */
void wrap_step_row(FILE *out, const struct row_style *style, const char *label, const struct command *step);

/** A command over as many lines as it takes, so that a shell that is given them runs the same: a line ends in a backslash, or is a
 * comment. @out NULL: it is only counted. Returns the lines. */
size_t wrap_command(FILE *out, struct str command, size_t indent, size_t width);
