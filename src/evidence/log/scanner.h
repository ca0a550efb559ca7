// What a scanner is made of: scanner.c makes it, scan.c scans with it.
#pragma once

#include "evidence/log/scan.h"

enum {
	ANCHOR_MAX = 64,
	PRINT = 4,
	PRINT_MIN = 3,
	BUCKETS = 8,
	HASH_BITS = 16,
	CHAINS = 256,
};

struct anchor {
	struct str text;
	size_t at; // of the fingerprint in the text
	bool behind_number;
	uint32_t next; // in its chain, from 1 on; 0: the last
};

struct scanner {
	VEC(struct anchor) anchors;
	bool incomplete;                         // something is too short to be looked for: every line counts
	uint8_t low[PRINT][16], high[PRINT][16]; // by half byte: bits of the buckets that agree
	uint8_t hashes[(1 << HASH_BITS) / 8];    // of all fingerprints
	uint32_t chains[CHAINS];                 // the first anchor of each, from 1 on: by what the shortest fingerprint has
};

static inline unsigned hash_of(const char *p, size_t n)
{
	uint32_t v = 0;
	memcpy(&v, p, n);
	return v * 0x9e3779b1u >> (32 - HASH_BITS);
}

/** Whether something may have its fingerprint here; there is one behind @p. */
static inline bool print_is_at(const struct scanner *s, const char *p)
{
	const unsigned hash = hash_of(p, PRINT);
	return s->hashes[hash / 8] >> hash % 8 & 1;
}

/** Whether the last of @text, but for spaces, is a digit. */
static inline bool ends_in_digit(struct str text)
{
	while (text.n && text.p[text.n - 1] == ' ')
		text.n--;
	return text.n && char_digit(text.p[text.n - 1]);
}

/** Anchors that stand in @text and have their fingerprint at @at, one after another; @before NULL: the first. */
static inline const struct anchor *anchor_at(const struct scanner *s, struct str text, size_t at, const struct anchor *before)
{
	if (at + PRINT_MIN > text.n)
		return NULL;
	for (uint32_t n = before ? before->next : s->chains[hash_of(text.p + at, PRINT_MIN) % CHAINS]; n;) {
		const struct anchor *a = &s->anchors.data[n - 1];
		if (at >= a->at && text.n - at >= a->text.n - a->at && !memcmp(text.p + at - a->at, a->text.p, a->text.n) &&
		    (!a->behind_number || ends_in_digit(str_cut(text, at - a->at))))
			return a;
		n = a->next;
	}
	return NULL;
}
