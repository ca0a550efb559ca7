// What a scanner is made of: scanner.c makes it, scan.c scans with it.
#pragma once

#include "evidence/log/scan.h"

enum {
	ANCHOR_MAX = 64,
	ANCHORS = 512,
	PRINT = 4,
	PRINT_MIN = 3,
	SIEVE = 5,
	BUCKETS = 16,
	HALVES = 2,
	HASH_BITS = 16,
};

struct anchor {
	struct str text;
	size_t at; // of the fingerprint in the text
};

struct scanner {
	size_t n, nshort;
	bool incomplete; // more is to be looked for than fits: every line counts
	struct anchor anchors[ANCHORS];
	struct {
		size_t n;
		uint16_t anchors[ANCHORS];
	} buckets[BUCKETS];
	uint8_t low[HALVES][SIEVE][16], high[HALVES][SIEVE][16]; // by half byte: bits of the eight buckets that agree
	unsigned short_buckets;                                  // bits of those with anchors that no hash can tell
	uint8_t hashes[(1 << HASH_BITS) / 8];                    // of all fingerprints
};

static inline unsigned hash_of(const char *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v * 0x9e3779b1u >> (32 - HASH_BITS);
}
