// Each anchor is looked for by its four rarest characters in a row, its fingerprint. Fingerprints lie in sixteen
// buckets; tables of sixteen bytes for each of the four characters say which buckets a half byte agrees with, so
// that a vector of text is held against all anchors with twenty shuffles: those of the fingerprint and of the character
// behind it. What agrees, and is a fingerprint by a hash of its four characters too, is compared in full.
#include "evidence/log/scanner.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

enum { LANES = 64, LANES_LEAST = 16, CHUNK = 4096, LONG_LINE = 4000 };

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
	uint64_t passed; // newlines of what was scanned
};

static void scan_add_line(struct hits *h, size_t begin, size_t end)
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
	scan_add_line(h, line_begin, line_end);
}

/** Buckets that agree with the characters at @at. Behind @to anything may stand. */
static unsigned agreeing(const struct scanner *s, const struct window *w, size_t at)
{
	const unsigned char *p = (const unsigned char *)w->bytes + at;
	unsigned agree[HALVES];
	for (unsigned n = 0; n < HALVES; n++) {
		agree[n] = s->low[n][0][p[0] & 15] & s->high[n][0][p[0] >> 4];
		for (size_t i = 1; i < SIEVE && at + i < w->to && agree[n]; i++)
			agree[n] &= s->low[n][i][p[i] & 15] & s->high[n][i][p[i] >> 4];
	}
	return agree[0] | agree[1] << 8;
}

/** The sieves agree at @at: is it an anchor, and its line a new candidate? */
static void check_hit(const struct scanner *s, struct hits *h, size_t at)
{
	struct window *w = h->window;
	unsigned hash = at + PRINT <= w->size ? hash_of(w->bytes + at) : 0;
	const bool printed = at + PRINT <= w->size && s->hashes[hash / 8] >> hash % 8 & 1;
	for (unsigned buckets = printed ? agreeing(s, w, at) : s->short_buckets; buckets; buckets &= buckets - 1) {
		unsigned b = (unsigned)__builtin_ctz(buckets);
		for (size_t n = 0; n < s->buckets[b].n; n++) {
			const struct anchor *a = &s->anchors[s->buckets[b].anchors[n]];
			size_t begin = at - a->at, end = begin + a->text.n;
			// An anchor belongs to the window in which it ends.
			if (at < a->at || end > w->to || end <= w->from || begin < h->line_end ||
			    w->bytes[begin] != a->text.p[0] || memcmp(w->bytes + begin, a->text.p, a->text.n))
				continue;
			add_line_around(h, begin, end);
			return;
		}
	}
}

static void scan_plain(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	for (size_t at = from; at + PRINT_MIN <= to; at++)
		if (agreeing(s, h->window, at))
			check_hit(s, h, at);
}

/** Places of a text where the sieves agree, for each vector of it that has any. They are gathered before they are looked at: in every
 * seventh vector something agrees, and a branch at each would mostly be foretold wrong. */
struct agreed {
	uint64_t lanes[CHUNK / LANES_LEAST];
	uint16_t vector[CHUNK / LANES_LEAST];
	unsigned n;
};

static inline void agreed_add(struct agreed *g, size_t vector, uint64_t lanes)
{
	g->lanes[g->n] = lanes;
	g->vector[g->n] = (uint16_t)vector;
	g->n += lanes != 0;
}

static void agreed_check(const struct scanner *s, struct hits *h, size_t from, const struct agreed *g)
{
	for (unsigned i = 0; i < g->n; i++)
		for (uint64_t lanes = g->lanes[i]; lanes; lanes &= lanes - 1)
			check_hit(s, h, from + g->vector[i] + (unsigned)__builtin_ctzll(lanes));
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static __m256i table(const uint8_t *bytes)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

/** Returns where it stopped, less than a vector and a sieve before @to. */
__attribute__((target("avx2"))) static size_t scan_avx2(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	enum { WIDTH = 32 };
	const __m256i half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256(), newline = _mm256_set1_epi8('\n');
	__m256i low[HALVES][SIEVE], high[HALVES][SIEVE];
	for (unsigned n = 0; n < HALVES; n++) {
		for (unsigned i = 0; i < SIEVE; i++) {
			low[n][i] = table(s->low[n][i]);
			high[n][i] = table(s->high[n][i]);
		}
	}
	size_t at = from;
	while (at + WIDTH + SIEVE <= to) {
		const char *p = h->window->bytes + at;
		struct agreed agreed;
		size_t n = 0;
		__m256i newlines = zero;
		agreed.n = 0;
		for (; n < CHUNK && at + n + WIDTH + SIEVE <= to; n += WIDTH) {
			__m256i a = _mm256_set1_epi8(-1), b = a;
#pragma GCC unroll 5
			for (unsigned i = 0; i < SIEVE; i++) {
				__m256i text = _mm256_loadu_si256((const __m256i *)(p + n + i));
				__m256i lower = _mm256_and_si256(text, half),
					upper = _mm256_and_si256(_mm256_srli_epi16(text, 4), half);
				a = _mm256_and_si256(a, _mm256_and_si256(_mm256_shuffle_epi8(low[0][i], lower),
									 _mm256_shuffle_epi8(high[0][i], upper)));
				b = _mm256_and_si256(b, _mm256_and_si256(_mm256_shuffle_epi8(low[1][i], lower),
									 _mm256_shuffle_epi8(high[1][i], upper)));
			}
			const __m256i none = _mm256_cmpeq_epi8(_mm256_or_si256(a, b), zero);
			agreed_add(&agreed, n, (uint32_t)~_mm256_movemask_epi8(none));
		}
		for (size_t i = 0; i < n; i += WIDTH)
			newlines = _mm256_sub_epi8(newlines,
						   _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(p + i)), newline));
		newlines = _mm256_sad_epu8(newlines, zero);
		h->passed += (uint64_t)(_mm256_extract_epi64(newlines, 0) + _mm256_extract_epi64(newlines, 1) +
					_mm256_extract_epi64(newlines, 2) + _mm256_extract_epi64(newlines, 3));
		agreed_check(s, h, at, &agreed);
		at += n;
	}
	return at;
}

/** The same, twice as wide. */
__attribute__((target("avx512bw,popcnt"))) static size_t scan_avx512(const struct scanner *s, struct hits *h, size_t from,
								     size_t to)
{
	enum { WIDTH = 64 };
	const __m512i half = _mm512_set1_epi8(15), newline = _mm512_set1_epi8('\n');
	__m512i low[HALVES][SIEVE], high[HALVES][SIEVE];
	for (unsigned n = 0; n < HALVES; n++) {
		for (unsigned i = 0; i < SIEVE; i++) {
			low[n][i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->low[n][i]));
			high[n][i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->high[n][i]));
		}
	}
	size_t at = from;
	while (at + WIDTH + SIEVE <= to) {
		const char *p = h->window->bytes + at;
		struct agreed agreed;
		size_t n = 0;
		agreed.n = 0;
		for (; n < CHUNK && at + n + WIDTH + SIEVE <= to; n += WIDTH) {
			__m512i a = _mm512_set1_epi8(-1), b = a;
#pragma GCC unroll 5
			for (unsigned i = 0; i < SIEVE; i++) {
				__m512i text = _mm512_loadu_si512(p + n + i);
				__m512i lower = _mm512_and_si512(text, half),
					upper = _mm512_and_si512(_mm512_srli_epi16(text, 4), half);
				if (!i)
					h->passed += (unsigned)__builtin_popcountll(_mm512_cmpeq_epi8_mask(text, newline));
				a = _mm512_and_si512(a, _mm512_and_si512(_mm512_shuffle_epi8(low[0][i], lower),
									 _mm512_shuffle_epi8(high[0][i], upper)));
				b = _mm512_and_si512(b, _mm512_and_si512(_mm512_shuffle_epi8(low[1][i], lower),
									 _mm512_shuffle_epi8(high[1][i], upper)));
			}
			agreed_add(&agreed, n, _mm512_test_epi8_mask(a, a) | _mm512_test_epi8_mask(b, b));
		}
		agreed_check(s, h, at, &agreed);
		at += n;
	}
	return at;
}
#endif

#if defined(__wasm_simd128__)
static size_t scan_simd128(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	enum { WIDTH = LANES_LEAST };
	const v128_t half = wasm_i8x16_splat(15), newline = wasm_i8x16_splat('\n'), zero = wasm_i8x16_splat(0);
	size_t at = from;
	while (at + WIDTH + SIEVE <= to) {
		const char *p = h->window->bytes + at;
		struct agreed agreed;
		size_t n = 0;
		agreed.n = 0;
		for (; n < CHUNK && at + n + WIDTH + SIEVE <= to; n += WIDTH) {
			v128_t agree[HALVES] = { wasm_i8x16_splat(-1), wasm_i8x16_splat(-1) };
#pragma GCC unroll 5
			for (unsigned i = 0; i < SIEVE; i++) {
				v128_t text = wasm_v128_load(p + n + i);
				v128_t lower = wasm_v128_and(text, half), upper = wasm_u8x16_shr(text, 4);
				if (!i)
					h->passed +=
						(unsigned)__builtin_popcount(wasm_i8x16_bitmask(wasm_i8x16_eq(text, newline)));
				for (unsigned k = 0; k < HALVES; k++)
					agree[k] &= wasm_i8x16_swizzle(wasm_v128_load(s->low[k][i]), lower) &
						    wasm_i8x16_swizzle(wasm_v128_load(s->high[k][i]), upper);
			}
			agreed_add(&agreed, n, wasm_i8x16_bitmask(wasm_i8x16_ne(agree[0] | agree[1], zero)));
		}
		agreed_check(s, h, at, &agreed);
		at += n;
	}
	return at;
}
#endif

static void scan_anchors(const struct scanner *s, struct hits *h)
{
	struct window *w = h->window;
	const size_t begin =
		w->from > ANCHOR_MAX ? w->from - ANCHOR_MAX : 0; // an anchor may begin in the window before this one
	size_t at = begin;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512bw"))
		at = scan_avx512(s, h, at, w->to);
	else if (__builtin_cpu_supports("avx2"))
		at = scan_avx2(s, h, at, w->to);
#elif defined(__wasm_simd128__)
	at = scan_simd128(s, h, at, w->to);
#endif
	scan_plain(s, h, at, w->to);
	if (w->candidates.len || at < w->from)
		return;
	// Nobody has asked for the number of a line: those that were counted while scanning are all of them.
	h->newlines = h->passed - count_newlines(w->bytes + begin, w->from - begin);
	h->counted = at;
}

size_t window_first_line(const struct window *w)
{
	if (!w->from || w->bytes[w->from - 1] == '\n')
		return w->from;
	const char *next = memchr(w->bytes + w->from, '\n', w->size - w->from);
	return next ? (size_t)(next - w->bytes) + 1 : w->size;
}

static void scan_every(struct hits *h)
{
	struct window *w = h->window;
	for (size_t at = window_first_line(w); at < w->to;) {
		const char *after = memchr(w->bytes + at, '\n', w->size - at);
		size_t end = after ? (size_t)(after - w->bytes) : w->size;
		for (; end - at > LONG_LINE; at += LONG_LINE)
			scan_add_line(h, at, at + LONG_LINE);
		scan_add_line(h, at, end);
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
