// The words that texts are searched for: contexts, and names of GPUs. Made once, for all sources.
#pragma once

#include "base/arena.h"
#include "evidence/artefact.h"
#include "knowledge/know.h"

enum { PHRASE_LEAST = 3, PHRASE_CHAINS = 4096 }; // letters that a phrase is found by

enum { LETTER_BEGINS = 1, LETTER_OF_WORD = 2 }; // a phrase begins with it; it is one of a word

struct phrase {
	struct str text; // in lower case
	unsigned value;
	uint16_t next; // in its chain, from 1 on; 0: the last
};

struct phrases {
	VEC(struct phrase) list;
	uint8_t letters[256];           // which of these it is
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

/** Whether a phrase may begin at @at: most letters begin none, or stand inside of a word. A look at each letter of a text: by a table. */
static inline bool phrase_may_begin(const struct phrases *p, struct str text, size_t at)
{
	const uint8_t letter = p->letters[(unsigned char)text.p[at]];
	return letter & LETTER_BEGINS &&
	       !(letter & LETTER_OF_WORD && at && p->letters[(unsigned char)text.p[at - 1]] & LETTER_OF_WORD) &&
	       text.n - at >= PHRASE_LEAST;
}

// --- Context: what the text around a failure says of the work (`context` blocks of knowledge/) ---

struct context_finder; // of one source

struct context_finder *context_finder_new(const struct know *k, const struct log_words *w, unsigned source);
/** Looks at a piece of text whose first line has the number @line. @eventful: something happened in it. How much of a source is looked
 * at is bounded, so that a large log costs no more. Each context is told once. */
void context_find(struct context_finder *f, struct str text, uint64_t line, bool eventful, const struct event_sink *sink);
void context_finder_free(struct context_finder *f);

// Names that cases have: of kernels, functions, libraries, games, as a log prints them.

struct name_finder; // of one source

struct name_finder *name_finder_new(const struct know *k, unsigned source);
/** As context_find(). One that stands there again is told again only many lines later. */
void name_find(struct name_finder *f, struct str text, uint64_t line, bool eventful, const struct event_sink *sink);
void name_finder_free(struct name_finder *f);

// Which GPU a text names: the output of lspci, inxi, glxinfo, vulkaninfo, neofetch, and the words of a bug report.

struct part_finder; // of one source

struct part_finder *part_finder_new(const struct know *k, const struct log_words *w, unsigned source);
/** Looks at a piece of text whose first line has the number @line, as long as it is of the source's front. Each part is told once. */
void part_find(struct part_finder *f, struct str text, uint64_t line, const struct event_sink *sink);
void part_finder_free(struct part_finder *f);
