// Each anchor is looked for by four of its characters in a row, its fingerprint. Fingerprints lie in eight buckets;
// tables of sixteen bytes for each of the four characters say which buckets a half byte agrees with, so that a vector of
// text is held against all anchors with eight shuffles. What agrees, and is a fingerprint by a hash of its four
// characters too, is compared in full.
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

/** Is there an anchor at @at, and its line a new candidate? */
static void check_hit(const struct scanner *s, struct hits *h, size_t at)
{
	const struct window *w = h->window;
	const struct str text = { w->bytes, w->to };
	for (const struct anchor *a = NULL; (a = anchor_at(s, text, at, a));) {
		const size_t begin = at - a->at, end = begin + a->text.n;
		// An anchor belongs to the window in which it ends.
		if (end <= w->from || begin < h->line_end)
			continue;
		add_line_around(h, begin, end);
		return;
	}
}

static void scan_plain(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if (at + PRINT > to || print_is_at(s, h->window->bytes + at))
			check_hit(s, h, at);
}

/** Places of a chunk where the sieves agree, for each vector of it that has any. They are gathered before they are looked at: in some
 * texts something agrees in every second vector, and a branch at each would mostly be foretold wrong. */
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

/** Holds @n bytes, whole vectors, against the tables; up to a fingerprint more is read. */
typedef void sieve_fn(const struct scanner *s, const char *p, size_t n, struct agreed *ret);

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void sieve_avx2(const struct scanner *s, const char *p, size_t n, struct agreed *ret)
{
	const __m256i half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
	__m256i low[PRINT], high[PRINT];
	for (unsigned i = 0; i < PRINT; i++) {
		low[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)s->low[i]));
		high[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)s->high[i]));
	}
	for (size_t at = 0; at < n; at += sizeof(half)) {
		__m256i agree = _mm256_set1_epi8(-1);
#pragma GCC unroll 4
		for (unsigned i = 0; i < PRINT; i++) {
			const __m256i text = _mm256_loadu_si256((const __m256i *)(p + at + i));
			const __m256i lower = _mm256_and_si256(text, half),
				      upper = _mm256_and_si256(_mm256_srli_epi16(text, 4), half);
			agree = _mm256_and_si256(agree, _mm256_and_si256(_mm256_shuffle_epi8(low[i], lower),
									 _mm256_shuffle_epi8(high[i], upper)));
		}
		agreed_add(ret, at, (uint32_t)~_mm256_movemask_epi8(_mm256_cmpeq_epi8(agree, zero)));
	}
}

__attribute__((target("avx512bw"))) static void sieve_avx512(const struct scanner *s, const char *p, size_t n,
							     struct agreed *ret)
{
	const __m512i half = _mm512_set1_epi8(15);
	__m512i low[PRINT], high[PRINT];
	for (unsigned i = 0; i < PRINT; i++) {
		low[i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->low[i]));
		high[i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->high[i]));
	}
	for (size_t at = 0; at < n; at += sizeof(half)) {
		__m512i agree = _mm512_set1_epi8(-1);
#pragma GCC unroll 4
		for (unsigned i = 0; i < PRINT; i++) {
			const __m512i text = _mm512_loadu_si512(p + at + i);
			const __m512i lower = _mm512_and_si512(text, half),
				      upper = _mm512_and_si512(_mm512_srli_epi16(text, 4), half);
			agree = _mm512_and_si512(agree, _mm512_and_si512(_mm512_shuffle_epi8(low[i], lower),
									 _mm512_shuffle_epi8(high[i], upper)));
		}
		agreed_add(ret, at, _mm512_test_epi8_mask(agree, agree));
	}
}

static sieve_fn *best_sieve(void)
{
	return __builtin_cpu_supports("avx512bw") ? sieve_avx512 : __builtin_cpu_supports("avx2") ? sieve_avx2 : NULL;
}
#elif defined(__wasm_simd128__)
static void sieve_simd128(const struct scanner *s, const char *p, size_t n, struct agreed *ret)
{
	const v128_t half = wasm_i8x16_splat(15), zero = wasm_i8x16_splat(0);
	for (size_t at = 0; at < n; at += sizeof(half)) {
		v128_t agree = wasm_i8x16_splat(-1);
#pragma GCC unroll 4
		for (unsigned i = 0; i < PRINT; i++) {
			const v128_t text = wasm_v128_load(p + at + i);
			agree &= wasm_i8x16_swizzle(wasm_v128_load(s->low[i]), wasm_v128_and(text, half)) &
				 wasm_i8x16_swizzle(wasm_v128_load(s->high[i]), wasm_u8x16_shr(text, 4));
		}
		agreed_add(ret, at, wasm_i8x16_bitmask(wasm_i8x16_ne(agree, zero)));
	}
}

static sieve_fn *best_sieve(void) { return sieve_simd128; }
#else
static sieve_fn *best_sieve(void) { return NULL; }
#endif

/** Returns where it stopped, less than a vector and a fingerprint before the end. */
static size_t scan_chunks(const struct scanner *s, struct hits *h, size_t at, sieve_fn *sieve)
{
	const struct window *w = h->window;
	while (at + LANES + PRINT <= w->to) {
		const size_t n = (w->to - at - PRINT < CHUNK ? w->to - at - PRINT : CHUNK) / LANES * LANES;
		struct agreed agreed;
		agreed.n = 0; // its arrays are written before they are read
		sieve(s, w->bytes + at, n, &agreed);
		for (unsigned i = 0; i < agreed.n; i++) {
			for (uint64_t lanes = agreed.lanes[i]; lanes; lanes &= lanes - 1) {
				const size_t place = at + agreed.vector[i] + (unsigned)__builtin_ctzll(lanes);
				if (print_is_at(s, w->bytes + place))
					check_hit(s, h, place);
			}
		}
		at += n;
	}
	return at;
}

static void scan_anchors(const struct scanner *s, struct hits *h)
{
	const struct window *w = h->window;
	sieve_fn *sieve = best_sieve();
	size_t at = w->from > ANCHOR_MAX ? w->from - ANCHOR_MAX : 0; // an anchor may begin in the window before this one
	if (sieve)
		at = scan_chunks(s, h, at, sieve);
	scan_plain(s, h, at, w->to);
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
