// A message with its values named: `ring {ring} timeout, signaled seq={seq_signaled:int}`.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "knowledge/block.h"

enum value_type { VALUE_NONE, VALUE_WORD, VALUE_INT, VALUE_HEX, VALUE_NUM, VALUE_TEXT, VALUE_PCI, VALUE_NAME };

/** Literal text, and the value after it. */
struct piece {
	struct str literal;
	struct str name;  // empty: nobody needs it
	struct str table; // of VALUE_NAME
	enum value_type type;
};

struct template
{
	struct str text; // as it stands in the file
	unsigned line;   // there
	struct piece *pieces;
	size_t npieces;
	size_t weight; // characters of literal text: the heavier of two matches is the better one
	void *owner;
};

enum { TEMPLATE_VALUES = 24 };

struct capture {
	const struct piece *piece;
	struct str text;
};

struct match {
	const struct template *template;
	size_t begin, end;
	unsigned steps; // counts attempts: they are limited, so a hostile line cannot make the match backtrack for long
	size_t ncaptures;
	struct capture captures[TEMPLATE_VALUES];
};

/** NULL and a problem where @text is no template. */
struct template *template_parse(struct arena *arena, struct str text, const char *file, unsigned line,
				struct know_problems *problems);
/** Whether a message whose first text is @literal (empty: a value) may begin at @at. */
bool template_may_begin(struct str literal, struct str line, size_t at);
/** Whether @t matches @line from @at on. */
bool template_match(const struct template *t, struct str line, size_t at, struct match *ret);
/** Length of the PCI address at the front of @s, or 0. */
size_t pci_length(struct str s);
