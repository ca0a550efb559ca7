// Each anchor is looked for by its four rarest characters in a row, its fingerprint. Fingerprints lie in eight
// buckets; two tables of sixteen bytes for each of the four characters say which buckets a half byte agrees with, so
// that a vector of text is held against all anchors with eight shuffles. What agrees is compared in full.
#include "evidence/scan.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ANCHOR_MAX = 64, ANCHORS = 128, PRINT = 4, PRINT_MIN = 3, BUCKETS = 8, LONG_LINE = 4000 };

struct anchor {
	struct str text;
	size_t at; // of the fingerprint in the text
};

struct scanner {
	size_t n;
	bool incomplete; // more is to be looked for than fits: every line counts
	struct anchor anchors[ANCHORS];
	struct {
		size_t n;
		uint8_t anchors[ANCHORS];
	} buckets[BUCKETS];
	uint8_t low[PRINT][16], high[PRINT][16]; // by half byte: bits of the buckets that agree
};

/** How common a character is in logs: letters by their frequency, a space most of all. */
static unsigned commonness(char c)
{
	static const char by_frequency[] = "jqzxvkwybfgmpuhdclnrisoate ";
	const char *at = c ? strchr(by_frequency, c) : NULL;
	return at ? (unsigned)(at - by_frequency) + 4 : char_alpha(c) ? 5 : 14;
}

static size_t rarest_print(struct str text)
{
	size_t best = 0;
	unsigned least = UINT32_MAX;
	for (size_t at = 0; at + PRINT <= text.n; at++) {
		unsigned product = 1;
		for (size_t i = at; i < at + PRINT; i++)
			product *= commonness(text.p[i]);
		if (product < least) {
			least = product;
			best = at;
		}
	}
	return best;
}

static void add_anchor(struct scanner *s, struct str text)
{
	text = str_cut(text, ANCHOR_MAX);
	if (s->n < ANCHORS && text.n >= PRINT_MIN)
		s->anchors[s->n++] = (struct anchor){ text, rarest_print(text) };
	else
		s->incomplete = true;
}

static bool covered(const struct know *k, const struct template *t)
{
	for (size_t a = 0; a < k->anchors.len; a++)
		for (size_t i = 0; i < t->npieces; i++)
			if (str_find(t->pieces[i].literal, k->anchors.data[a]) >= 0)
				return true;
	return false;
}

static struct str longest_literal(const struct template *t)
{
	struct str best = { 0 };
	for (size_t i = 0; i < t->npieces; i++)
		if (t->pieces[i].literal.n > best.n)
			best = t->pieces[i].literal;
	return best;
}

static struct str print_of(const struct anchor *a) { return str_cut(str_from(a->text, a->at), PRINT); }

/** Short ones first, then by fingerprint. */
static int by_print(const void *a, const void *b)
{
	struct str x = print_of(a), y = print_of(b);
	return (x.n < PRINT) != (y.n < PRINT) ? (x.n < PRINT ? -1 : 1) : str_cmp(x, y);
}

static void fill_bucket(struct scanner *s, size_t b, size_t n)
{
	struct str print = print_of(&s->anchors[n]);
	s->buckets[b].anchors[s->buckets[b].n++] = (uint8_t)n;
	for (size_t i = 0; i < PRINT; i++) {
		bool any = i >= print.n; // behind the end of a short one anything may stand
		unsigned char c = any ? 0 : (unsigned char)print.p[i];
		for (unsigned half = 0; half < 16; half++) {
			s->low[i][half] |= (uint8_t)((any || half == (c & 15u)) << b);
			s->high[i][half] |= (uint8_t)((any || half == c >> 4u) << b);
		}
	}
}

/** Anchors with like fingerprints share a bucket: the less they differ, the less else agrees with them. One that is
 * shorter than a fingerprint agrees with much, so that it has a bucket of its own. */
static void fill_buckets(struct scanner *s)
{
	size_t short_ones = 0;
	qsort(s->anchors, s->n, sizeof(s->anchors[0]), by_print);
	while (short_ones < s->n && short_ones < BUCKETS / 2 && print_of(&s->anchors[short_ones]).n < PRINT)
		short_ones++;
	for (size_t n = 0; n < s->n; n++)
		fill_bucket(s,
			    n < short_ones ? n : short_ones + (n - short_ones) * (BUCKETS - short_ones) / (s->n - short_ones),
			    n);
}

struct scanner *scanner_new(const struct know *k)
{
	struct scanner *s = mem_alloc(sizeof(*s));
	for (size_t i = 0; i < k->anchors.len; i++)
		add_anchor(s, k->anchors.data[i]);
	// All others stand behind the driver's own prefix, which is an anchor.
	for (size_t i = 0; i < k->signatures.len; i++) {
		const struct know_signature *sig = k->signatures.data[i];
		for (size_t t = 0; t < sig->ntemplates && sig->bare; t++)
			if (!covered(k, sig->templates[t]))
				add_anchor(s, longest_literal(sig->templates[t]));
	}
	fill_buckets(s);
	return s;
}

void scanner_free(struct scanner *s) { free(s); }

enum { LANES = 64 };

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
static uint64_t
count_newlines(const char *p, size_t n)
{
	uint64_t count = 0;
	while (n >= LANES) {
		// Counters of one byte, so that the loop stays one of bytes: added up before they can overflow.
		uint8_t lanes[LANES] = { 0 };
		size_t rounds = n / LANES < 255 ? n / LANES : 255;
		for (size_t r = 0; r < rounds; r++, p += LANES)
			for (size_t i = 0; i < LANES; i++)
				lanes[i] = (uint8_t)(lanes[i] + (p[i] == '\n'));
		for (size_t i = 0; i < LANES; i++)
			count += lanes[i];
		n -= rounds * LANES;
	}
	for (size_t i = 0; i < n; i++)
		count += p[i] == '\n';
	return count;
}

struct hits {
	struct window *window;
	size_t counted; // newlines are counted up to here
	uint64_t newlines;
	size_t line_end; // of the newest candidate
};

static void add_line(struct hits *h, size_t begin, size_t end)
{
	struct window *w = h->window;
	// A piece of a long line may begin behind the window's own part.
	size_t upto = begin > w->to ? w->to : begin > w->from ? begin : w->from;
	h->newlines += count_newlines(w->bytes + h->counted, upto - h->counted);
	h->counted = upto;
	struct candidate c = { (uint32_t)begin, (uint32_t)end, (uint32_t)h->newlines };
	vec_push(&w->candidates, c);
}

/** The line in which an anchor stands; of a very long one, the part around the anchor. */
static void add_line_around(struct hits *h, size_t begin, size_t end)
{
	const struct window *w = h->window;
	const char *before = memrchr(w->bytes, '\n', begin), *after = memchr(w->bytes + end, '\n', w->size - end);
	size_t line_begin = before ? (size_t)(before - w->bytes) + 1 : 0;
	size_t line_end = after ? (size_t)(after - w->bytes) : w->size;
	if (line_end - line_begin > LONG_LINE) {
		size_t least = begin > LONG_LINE / 4 ? begin - LONG_LINE / 4 : 0;
		line_begin = line_begin > least ? line_begin : least;
		line_begin = line_begin > h->line_end ? line_begin : h->line_end;
		line_end = line_end < line_begin + LONG_LINE ? line_end : line_begin + LONG_LINE;
	}
	h->line_end = line_end;
	add_line(h, line_begin, line_end);
}

/** A fingerprint of one of @buckets agrees at @at: is it an anchor, and its line a new candidate? */
static void check_hit(const struct scanner *s, struct hits *h, size_t at, unsigned buckets)
{
	struct window *w = h->window;
	for (; buckets; buckets &= buckets - 1) {
		unsigned b = (unsigned)__builtin_ctz(buckets);
		for (size_t n = 0; n < s->buckets[b].n; n++) {
			const struct anchor *a = &s->anchors[s->buckets[b].anchors[n]];
			size_t begin = at - a->at, end = begin + a->text.n;
			// An anchor belongs to the window in which it ends.
			if (at < a->at || end > w->to || end <= w->from || begin < h->line_end ||
			    memcmp(w->bytes + begin, a->text.p, a->text.n))
				continue;
			add_line_around(h, begin, end);
			return;
		}
	}
}

static void scan_plain(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	const unsigned char *p = (const unsigned char *)h->window->bytes;
	for (size_t at = from; at + PRINT_MIN <= to; at++) {
		unsigned agree = s->low[0][p[at] & 15] & s->high[0][p[at] >> 4];
		if (!agree)
			continue;
		for (size_t i = 1; i < PRINT && at + i < to; i++)
			agree &= s->low[i][p[at + i] & 15] & s->high[i][p[at + i] >> 4];
		if (agree)
			check_hit(s, h, at, agree);
	}
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static __m256i agreement(__m256i text, __m256i low, __m256i high)
{
	const __m256i half = _mm256_set1_epi8(15);
	__m256i lower = _mm256_and_si256(text, half), upper = _mm256_and_si256(_mm256_srli_epi16(text, 4), half);
	return _mm256_and_si256(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper));
}

__attribute__((target("avx2"))) static __m256i table(const uint8_t *bytes)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

/** Returns where it stopped, less than a vector before @to. */
__attribute__((target("avx2"))) static size_t scan_avx2(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	enum { WIDTH = 32 };
	const char *p = h->window->bytes;
	const __m256i low0 = table(s->low[0]), high0 = table(s->high[0]);
	const __m256i low1 = table(s->low[1]), high1 = table(s->high[1]);
	const __m256i low2 = table(s->low[2]), high2 = table(s->high[2]);
	const __m256i low3 = table(s->low[3]), high3 = table(s->high[3]);
	size_t at = from;
	for (; at + WIDTH + PRINT <= to; at += WIDTH) {
		__m256i agree = agreement(_mm256_loadu_si256((const __m256i *)(p + at)), low0, high0);
		agree = _mm256_and_si256(agree, agreement(_mm256_loadu_si256((const __m256i *)(p + at + 1)), low1, high1));
		agree = _mm256_and_si256(agree, agreement(_mm256_loadu_si256((const __m256i *)(p + at + 2)), low2, high2));
		agree = _mm256_and_si256(agree, agreement(_mm256_loadu_si256((const __m256i *)(p + at + 3)), low3, high3));
		if (_mm256_testz_si256(agree, agree))
			continue;
		uint8_t lanes[WIDTH];
		_mm256_storeu_si256((__m256i *)lanes, agree);
		unsigned hits = ~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(agree, _mm256_setzero_si256()));
		for (; hits; hits &= hits - 1) {
			unsigned lane = (unsigned)__builtin_ctz(hits);
			check_hit(s, h, at + lane, lanes[lane]);
		}
	}
	return at;
}
#endif

static void scan_anchors(const struct scanner *s, struct hits *h)
{
	struct window *w = h->window;
	size_t at = w->from > ANCHOR_MAX ? w->from - ANCHOR_MAX : 0; // an anchor may begin in the window before this one
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		at = scan_avx2(s, h, at, w->to);
#endif
	scan_plain(s, h, at, w->to);
}

static void scan_every(struct hits *h)
{
	struct window *w = h->window;
	size_t at = w->from;
	// A line belongs to the window in which it begins.
	if (at && w->bytes[at - 1] != '\n') {
		const char *next = memchr(w->bytes + at, '\n', w->size - at);
		at = next ? (size_t)(next - w->bytes) + 1 : w->size;
	}
	while (at < w->to) {
		const char *after = memchr(w->bytes + at, '\n', w->size - at);
		size_t end = after ? (size_t)(after - w->bytes) : w->size;
		for (; end - at > LONG_LINE; at += LONG_LINE)
			add_line(h, at, at + LONG_LINE);
		add_line(h, at, end);
		at = end + 1;
	}
}

void scan_window(const struct scanner *s, struct window *w)
{
	struct hits h = { .window = w, .counted = w->from };
	w->candidates.len = 0;
	if (s && !s->incomplete)
		scan_anchors(s, &h);
	else
		scan_every(&h);
	w->newlines = h.newlines + count_newlines(w->bytes + h.counted, w->to - h.counted);
}
