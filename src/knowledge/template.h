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
	struct str text; // empty: left out, cut short or mistyped, so that it is unknown
};

struct match {
	const struct template *template;
	size_t begin, end;
	size_t weight; // characters of literal text that the line has: all of the template's, or fewer where some are left out
	unsigned slips, slips_left; // letters of fixed words that are mistyped; how many more may be
	bool doubtful;              // what is left out would tell which of several messages it is
	bool gaps;                  // the line has places where something is left out
	unsigned steps;             // tried so far: a hostile line cannot make the match backtrack for long
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
/** The same with a letter or two of its fixed words mistyped, or in other case. @at is inside of @line. */
bool template_match_typed(const struct template *t, struct str line, size_t at, struct match *ret);
/** Where @literal ends if it stands at @at with at most *@slips_left mistyped letters, which are taken off; else SIZE_MAX. */
size_t literal_match_typed(struct str literal, struct str line, size_t at, unsigned *slips_left);
/** Length of what stands at the front of @s for text that is left out (`...`, `[...]`), or 0. */
size_t elision_length(struct str s);
/** Whether @s is nothing but a sign that a value is left out or made unreadable: `...`, `XXXX`, `<redacted>`. */
bool value_elided(struct str s);
/** Length of the PCI address at the front of @s, or 0. */
size_t pci_length(struct str s);
