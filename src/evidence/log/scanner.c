// Chooses the fingerprint of each anchor, and the bucket that it lies in: those that agree with the least of a sample
// of the very text that is to be scanned.
#include "evidence/log/scanner.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum { PIECE = 64, PIECES = 32, SAMPLE = PIECE * PIECES };

typedef uint8_t places __attribute__((vector_size(16))); // a byte for each

enum { PLACES = SAMPLE / sizeof(places) };
_Static_assert(PLACES <= UINT8_MAX, "a byte counts them");

/** What a bucket agrees with. */
struct bucket {
	uint16_t low[PRINT], high[PRINT]; // half bytes of each character
	places agrees[PLACES];            // for each place of the sample, which of these eight agree there
	double cost;
};

struct making {
	struct scanner *scanner;
	struct bucket buckets[BUCKETS];
	char sample[SAMPLE + PRINT];
};

/** Short pieces from all over @text: its lines are alike, but not each has the same words. */
static void take_sample(struct making *m, struct str text)
{
	for (size_t i = 0; i < PIECES; i++) {
		struct str piece = str_cut(str_from(text, text.n / PIECES * i), PIECE);
		if (piece.n)
			memcpy(m->sample + i * PIECE, piece.p, piece.n);
	}
}

/** What a bucket with this fingerprint alone agrees with. Behind the end of a short one anything may stand. */
static void bucket_of(const char *sample, struct str print, struct bucket *ret)
{
	memset(ret->agrees, 0, sizeof(ret->agrees));
	for (unsigned i = 0; i < PRINT; i++) {
		const bool any = i >= print.n;
		const uint8_t c = any ? 0 : (uint8_t)print.p[i], low = any ? 0 : 0x0f, high = any ? 0 : 0xf0;
		ret->low[i] = any ? UINT16_MAX : (uint16_t)(1u << (c & 15));
		ret->high[i] = any ? UINT16_MAX : (uint16_t)(1u << (c >> 4));
		for (size_t k = 0; k < PLACES; k++) {
			places differs;
			memcpy(&differs, sample + k * sizeof(differs) + i, sizeof(differs));
			differs ^= c;
			ret->agrees[k] |= ((places)((differs & low) == 0) & (uint8_t)(1u << 2 * i)) |
					  ((places)((differs & high) == 0) & (uint8_t)(2u << 2 * i));
		}
	}
}

/** How many places of the sample two buckets agree with when they are one. */
static unsigned places_of_both(const struct bucket *a, const struct bucket *b)
{
	places n = { 0 };
	unsigned sum = 0;
	for (size_t k = 0; k < PLACES; k++)
		n -= (places)((a->agrees[k] | b->agrees[k]) == UINT8_MAX);
	for (size_t i = 0; i < sizeof(n); i++)
		sum += n[i];
	return sum;
}

/** How much of a text they agree with then: as far as the sample tells, and of what it does not have, as if all bytes were as common. */
static double cost_of_both(const struct bucket *a, const struct bucket *b)
{
	double of_all = SAMPLE;
	for (unsigned i = 0; i < PRINT; i++)
		of_all *= __builtin_popcount(a->low[i] | b->low[i]) * __builtin_popcount(a->high[i] | b->high[i]) / 256.0;
	return places_of_both(a, b) + of_all;
}

static void bucket_add(struct bucket *b, const struct bucket *more, double cost)
{
	b->cost = cost;
	for (unsigned i = 0; i < PRINT; i++) {
		b->low[i] |= more->low[i];
		b->high[i] |= more->high[i];
	}
	for (size_t k = 0; k < PLACES; k++)
		b->agrees[k] |= more->agrees[k];
}

static void chain_anchor(struct scanner *s, struct anchor a)
{
	const struct str print = str_cut(str_from(a.text, a.at), PRINT);
	char four[PRINT] = { 0 };
	memcpy(four, print.p, print.n);
	for (unsigned last = 0; last <= UINT8_MAX; last++) {
		if (print.n < PRINT) // anything may stand behind it
			four[PRINT - 1] = (char)last;
		const unsigned hash = hash_of(four, PRINT);
		s->hashes[hash / 8] |= (uint8_t)(1u << hash % 8);
	}
	uint32_t *chain = &s->chains[hash_of(four, PRINT_MIN) % CHAINS];
	a.next = *chain;
	vec_push(&s->anchors, a);
	*chain = (uint32_t)s->anchors.len;
}

static void add_anchor(struct making *m, struct str text, bool behind_number)
{
	struct bucket *best = NULL, chosen, alone;
	double least = INFINITY;
	struct anchor a = { .text = str_cut(text, ANCHOR_MAX), .behind_number = behind_number };
	if (a.text.n < PRINT_MIN) {
		m->scanner->incomplete = true;
		return;
	}
	for (size_t at = 0; !at || at + PRINT <= a.text.n; at++) {
		bucket_of(m->sample, str_cut(str_from(a.text, at), PRINT), &alone);
		for (struct bucket *b = m->buckets; b < m->buckets + BUCKETS; b++) {
			const double more = cost_of_both(b, &alone) - b->cost;
			if (more >= least)
				continue;
			least = more;
			best = b;
			a.at = at;
			chosen = alone;
		}
	}
	bucket_add(best, &chosen, best->cost + least);
	chain_anchor(m->scanner, a);
}

static bool has_anchor(const struct scanner *s, struct str text)
{
	for (size_t at = 0; at < text.n; at++)
		if (anchor_at(s, text, at, NULL))
			return true;
	return false;
}

/** The longest literal of a template, unless what it matches has an anchor already. A number before it tells ` ollama` in a table of
 * processes from the name of who writes each line of a journal. */
static void add_template(struct making *m, const struct template *t)
{
	struct str best = { 0 };
	bool behind_number = false;
	for (size_t i = 0; i < t->npieces; i++) {
		if (has_anchor(m->scanner, t->pieces[i].literal))
			return;
		if (t->pieces[i].literal.n <= best.n)
			continue;
		best = t->pieces[i].literal;
		behind_number = i && t->pieces[i - 1].type == VALUE_INT;
	}
	add_anchor(m, best, behind_number);
}

static void fill_sieve(const struct making *m)
{
	struct scanner *s = m->scanner;
	for (unsigned b = 0; b < BUCKETS; b++) {
		for (unsigned i = 0; i < PRINT; i++) {
			for (unsigned half = 0; half < 16; half++) {
				s->low[i][half] |= (uint8_t)((m->buckets[b].low[i] >> half & 1) << b);
				s->high[i][half] |= (uint8_t)((m->buckets[b].high[i] >> half & 1) << b);
			}
		}
	}
}

struct scanner *scanner_new(const struct know *k, struct str sample)
{
	_cleanup_free_ struct making *m = mem_alloc(sizeof(*m));
	m->scanner = mem_alloc(sizeof(*m->scanner));
	take_sample(m, sample);
	for (size_t i = 0; i < k->anchors.len; i++)
		add_anchor(m, k->anchors.data[i]->head.id, false);
	// All others stand behind the driver's own prefix, which is an anchor.
	for (size_t i = 0; i < k->signatures.len; i++)
		for (size_t t = 0; t < k->signatures.data[i]->ntemplates && k->signatures.data[i]->bare; t++)
			add_template(m, k->signatures.data[i]->templates[t]);
	fill_sieve(m);
	return m->scanner;
}

void scanner_free(struct scanner *s)
{
	if (!s)
		return;
	vec_free(&s->anchors);
	free(s);
}
