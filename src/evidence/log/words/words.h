// The words that texts are searched for: contexts, and names of GPUs. Made once, for all sources.
#pragma once

#include "base/arena.h"
#include "knowledge/know.h"

enum { PHRASE_LEAST = 3, PHRASE_CHAINS = 4096 }; // letters that a phrase is found by

struct phrase {
	struct str text; // in lower case
	unsigned value;
	uint16_t next; // in its chain, from 1 on; 0: the last
};

struct phrases {
	VEC(struct phrase) list;
	bool begins[256];               // whether one begins with this letter
	uint16_t chains[PHRASE_CHAINS]; // the first one of each, from 1 on
};

struct named_part {
	const struct know_part *part;
	bool several; // parts of different generations share the name
};

struct log_words {
	struct phrases contexts; // value: of know->contexts
	struct phrases parts;    // value: of named
	VEC(struct named_part) named;
	struct arena arena;
};

struct log_words *log_words_new(const struct know *k);
void log_words_free(struct log_words *w);

/** Whether a phrase may begin at @at: most letters begin none, or stand inside of a word. */
static inline bool phrase_may_begin(const struct phrases *p, struct str text, size_t at)
{
	return p->begins[(unsigned char)char_lower(text.p[at])] && text.n - at >= PHRASE_LEAST &&
	       !(at && char_word(text.p[at]) && char_word(text.p[at - 1]));
}

/** The phrases that stand at @at in any case, as words of their own, one after another; @before NULL: the first. Only where one may begin. */
const struct phrase *phrase_at(const struct phrases *p, struct str text, size_t at, const struct phrase *before);
