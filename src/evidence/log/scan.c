// Each anchor is looked for by its four rarest characters in a row, its fingerprint. Fingerprints lie in sixteen
// buckets; tables of sixteen bytes for each of the four characters say which buckets a half byte agrees with, so
// that a vector of text is held against all anchors with twenty shuffles: those of the fingerprint and of the character
// behind it. What agrees, and is a fingerprint by a hash of its four characters too, is compared in full.
#include "evidence/log/scan.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
	ANCHOR_MAX = 64,
	ANCHORS = 224,
	PRINT = 4,
	PRINT_MIN = 3,
	SIEVE = 5,
	BUCKETS = 16,
	HALVES = 2,
	HASH_BITS = 16,
	LONG_LINE = 4000
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
		uint8_t anchors[ANCHORS];
	} buckets[BUCKETS];
	uint8_t low[HALVES][SIEVE][16], high[HALVES][SIEVE][16]; // by half byte: bits of the eight buckets that agree
	unsigned short_buckets;                                  // bits of those with anchors that no hash can tell
	uint8_t hashes[(1 << HASH_BITS) / 8];                    // of all fingerprints
};

static unsigned hash_of(const char *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v * 0x9e3779b1u >> (32 - HASH_BITS);
}

/** How common a character is in logs: letters by their frequency, a space most of all. */
static unsigned commonness(char c)
{
	static const char by_frequency[] = "jqzxvkwybfgmpuhdclnrisoate ";
	const char *at = c ? strchr(by_frequency, c) : NULL;
	return at ? (unsigned)(at - by_frequency) + 4 : char_alpha(c) ? 5 : 14;
}

/** What stands in every log, so that a fingerprint from it would agree all the time. */
static const char common_words[] =
	"kernel: from device network active collective connection session service started process running error warning "
	"message "
	"version memory request response user time info debug level source server client container module status value name "
	"detected received failed loaded found after before between through while system driver Starting Stopped Finished "
	"INFO 02-24 02:40:51 [engine.py:123] Avg prompt throughput: 0.0 tokens/s, Running: 12 reqs, Waiting: 3 reqs, cache "
	"usage: "
	"Jul 24 12:28:27 host systemd[1]: Started Session of User root. sshd[812]: Accepted publickey for port ssh2: SHA256: "
	"audit: "
	"type=1400 apparmor=\"DENIED\" operation=\"open\" GET /api/v1/items HTTP/1.1\" 200 512 POST 127.0.0.1 mounted "
	"filesystem with "
	"ordered data mode. state change: new full-speed USB number using dhcp lease interface eth0 link becomes ready (queue "
	"active) "
	"level=info msg=\"ignoring event\" CMD (command -v > /dev/null && ) step loss lr grad norm epoch train iter batch "
	"it/s] (EngineCore_DP0 pid=4281) (Worker_TP2 pid=4283) GPU KV cache usage: Scheduled scheduler prefill batch Capturing "
	"CUDA "
	"graphs [aiter] type hints torch.Tensor dropout_p: float NCCL INFO Channel via P2P/direct pointer";

static size_t rarest_print(struct str text)
{
	const struct str words = str_z(common_words);
	size_t best = 0;
	unsigned least = UINT32_MAX;
	for (size_t at = 0; at + PRINT <= text.n; at++) {
		unsigned product = 1;
		for (size_t i = at; i < at + PRINT; i++)
			product *= commonness(text.p[i]);
		if (str_find(words, str_cut(str_from(text, at), PRINT)) >= 0)
			product *= 16;
		if (at + SIEVE > text.n) // nothing is left for the last sieve
			product *= 4;
		if (product < least) {
			least = product;
			best = at;
		}
	}
	return best;
}

static void add_anchor(struct scanner *s, struct str text)
{
	enum { SHORT_MAX = BUCKETS / 2 };
	text = str_cut(text, ANCHOR_MAX);
	s->nshort += text.n < PRINT;
	if (s->n < ANCHORS && text.n >= PRINT_MIN && s->nshort <= SHORT_MAX)
		s->anchors[s->n++] = (struct anchor){ text, rarest_print(text) };
	else
		s->incomplete = true;
}

static bool covered(const struct know *k, const struct template *t)
{
	for (size_t a = 0; a < k->anchors.len; a++)
		for (size_t i = 0; i < t->npieces; i++)
			if (str_find(t->pieces[i].literal, k->anchors.data[a]->head.id) >= 0)
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

/** The fingerprint and the character behind it, where the anchor has one: what the sieves look at. */
static struct str sieved(const struct anchor *a) { return str_cut(str_from(a->text, a->at), SIEVE); }

/** How often a character stands in a log, roughly. */
static double share(unsigned char c)
{
	if (c == ' ')
		return 0.12;
	if (char_digit((char)c))
		return 0.018;
	if (c >= 'a' && c <= 'z')
		return 0.6 * commonness((char)c) * commonness((char)c) / 8200;
	return c > ' ' && c < 0x7f ? char_alpha((char)c) ? 0.004 : 0.007 : 0.0002;
}

/** What a bucket agrees with: for each of the characters, which half bytes. */
struct sieve {
	uint16_t low[SIEVE], high[SIEVE];
};

static struct sieve sieve_with(struct sieve s, struct str print)
{
	for (size_t i = 0; i < SIEVE; i++) {
		unsigned char c = i < print.n ? (unsigned char)print.p[i] : 0;
		s.low[i] |= i < print.n ? (uint16_t)(1u << (c & 15)) : UINT16_MAX;
		s.high[i] |= i < print.n ? (uint16_t)(1u << (c >> 4)) : UINT16_MAX;
	}
	return s;
}

static bool sieve_takes(const struct sieve *s, const char *p)
{
	for (size_t i = 0; i < SIEVE; i++) {
		unsigned char c = (unsigned char)p[i];
		if (!(s->low[i] >> (c & 15) & 1) || !(s->high[i] >> (c >> 4) & 1))
			return false;
	}
	return true;
}

/** How much of a log agrees with it: of these words, and of any others. */
static double sieve_share(const struct sieve *s)
{
	size_t agrees = 0;
	for (size_t at = 0; at + SIEVE < sizeof(common_words); at++)
		agrees += sieve_takes(s, common_words + at);
	double product = 1;
	for (size_t i = 0; i < SIEVE; i++) {
		double sum = 0;
		for (unsigned c = 0; c < 128; c++)
			if (s->low[i] >> (c & 15) & 1 && s->high[i] >> (c >> 4) & 1)
				sum += share((unsigned char)c);
		product *= sum;
	}
	return product + (double)agrees / (double)sizeof(common_words);
}

static void fill_bucket(struct scanner *s, size_t b, size_t n)
{
	struct str print = sieved(&s->anchors[n]);
	s->buckets[b].anchors[s->buckets[b].n++] = (uint8_t)n;
	for (size_t i = 0; i < SIEVE; i++) {
		bool any = i >= print.n; // behind the end of a short one anything may stand
		unsigned char c = any ? 0 : (unsigned char)print.p[i];
		for (unsigned half = 0; half < 16; half++) {
			s->low[b / 8][i][half] |= (uint8_t)((any || half == (c & 15u)) << b % 8);
			s->high[b / 8][i][half] |= (uint8_t)((any || half == c >> 4u) << b % 8);
		}
	}
	if (print.n < PRINT) {
		s->short_buckets |= 1u << b;
		return;
	}
	unsigned hash = hash_of(print.p);
	s->hashes[hash / 8] |= (uint8_t)(1u << hash % 8);
}

/** Each goes to the bucket that agrees with the least more for it. One that is shorter than a fingerprint agrees with much and
 * has no hash, so that it has a bucket of its own. */
static void fill_buckets(struct scanner *s)
{
	struct sieve sieves[BUCKETS] = { 0 };
	double shares[BUCKETS] = { 0 };
	size_t own = 0;
	for (size_t n = 0; n < s->n; n++)
		if (print_of(&s->anchors[n]).n < PRINT)
			fill_bucket(s, own++, n);
	for (size_t n = 0; n < s->n; n++) {
		struct str print = sieved(&s->anchors[n]);
		size_t best = own;
		double least = 0, best_share = 0;
		if (print.n < PRINT)
			continue;
		for (size_t b = own; b < BUCKETS; b++) {
			struct sieve with = sieve_with(sieves[b], print);
			double after = sieve_share(&with);
			if (b == own || after - shares[b] < least) {
				least = after - shares[b];
				best_share = after;
				best = b;
			}
		}
		sieves[best] = sieve_with(sieves[best], print);
		shares[best] = best_share;
		fill_bucket(s, best, n);
	}
}

struct scanner *scanner_new(const struct know *k)
{
	struct scanner *s = mem_alloc(sizeof(*s));
	for (size_t i = 0; i < k->anchors.len; i++)
		add_anchor(s, k->anchors.data[i]->head.id);
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
	unsigned hash = at + PRINT <= w->size ? hash_of(w->bytes + at) : 0;
	if (at + PRINT > w->size || !(s->hashes[hash / 8] >> hash % 8 & 1))
		buckets &= s->short_buckets;
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
		unsigned agree[HALVES];
		for (unsigned n = 0; n < HALVES; n++) {
			agree[n] = s->low[n][0][p[at] & 15] & s->high[n][0][p[at] >> 4];
			for (size_t i = 1; i < SIEVE && at + i < to && agree[n]; i++)
				agree[n] &= s->low[n][i][p[at + i] & 15] & s->high[n][i][p[at + i] >> 4];
		}
		if (agree[0] | agree[1])
			check_hit(s, h, at, agree[0] | agree[1] << 8);
	}
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static __m256i table(const uint8_t *bytes)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

/** Returns where it stopped, less than a vector before @to. */
__attribute__((target("avx2"))) static size_t scan_avx2(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	enum { WIDTH = 32 };
	const char *p = h->window->bytes;
	const __m256i half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
	__m256i low[HALVES][SIEVE], high[HALVES][SIEVE];
	for (unsigned n = 0; n < HALVES; n++) {
		for (unsigned i = 0; i < SIEVE; i++) {
			low[n][i] = table(s->low[n][i]);
			high[n][i] = table(s->high[n][i]);
		}
	}
	size_t at = from;
	for (; at + WIDTH + SIEVE <= to; at += WIDTH) {
		__m256i a = _mm256_set1_epi8(-1), b = a;
#pragma GCC unroll 5
		for (unsigned i = 0; i < SIEVE; i++) {
			__m256i text = _mm256_loadu_si256((const __m256i *)(p + at + i));
			__m256i lower = _mm256_and_si256(text, half),
				upper = _mm256_and_si256(_mm256_srli_epi16(text, 4), half);
			a = _mm256_and_si256(a, _mm256_and_si256(_mm256_shuffle_epi8(low[0][i], lower),
								 _mm256_shuffle_epi8(high[0][i], upper)));
			b = _mm256_and_si256(b, _mm256_and_si256(_mm256_shuffle_epi8(low[1][i], lower),
								 _mm256_shuffle_epi8(high[1][i], upper)));
		}
		__m256i any = _mm256_or_si256(a, b);
		if (_mm256_testz_si256(any, any))
			continue;
		uint8_t first[WIDTH], second[WIDTH];
		_mm256_storeu_si256((__m256i *)first, a);
		_mm256_storeu_si256((__m256i *)second, b);
		unsigned hits = ~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(any, zero));
		for (; hits; hits &= hits - 1) {
			unsigned lane = (unsigned)__builtin_ctz(hits);
			check_hit(s, h, at + lane, first[lane] | (unsigned)second[lane] << 8);
		}
	}
	return at;
}
#endif

#if defined(__x86_64__)
/** The same, twice as wide. */
__attribute__((target("avx512bw"))) static size_t scan_avx512(const struct scanner *s, struct hits *h, size_t from, size_t to)
{
	enum { WIDTH = 64 };
	const char *p = h->window->bytes;
	const __m512i half = _mm512_set1_epi8(15);
	__m512i low[HALVES][SIEVE], high[HALVES][SIEVE];
	for (unsigned n = 0; n < HALVES; n++) {
		for (unsigned i = 0; i < SIEVE; i++) {
			low[n][i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->low[n][i]));
			high[n][i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)s->high[n][i]));
		}
	}
	size_t at = from;
	for (; at + WIDTH + SIEVE <= to; at += WIDTH) {
		__m512i a = _mm512_set1_epi8(-1), b = a;
#pragma GCC unroll 5
		for (unsigned i = 0; i < SIEVE; i++) {
			__m512i text = _mm512_loadu_si512(p + at + i);
			__m512i lower = _mm512_and_si512(text, half),
				upper = _mm512_and_si512(_mm512_srli_epi16(text, 4), half);
			a = _mm512_and_si512(a, _mm512_and_si512(_mm512_shuffle_epi8(low[0][i], lower),
								 _mm512_shuffle_epi8(high[0][i], upper)));
			b = _mm512_and_si512(b, _mm512_and_si512(_mm512_shuffle_epi8(low[1][i], lower),
								 _mm512_shuffle_epi8(high[1][i], upper)));
		}
		uint64_t hits = _mm512_test_epi8_mask(a, a) | _mm512_test_epi8_mask(b, b);
		if (!hits)
			continue;
		uint8_t first[WIDTH], second[WIDTH];
		_mm512_storeu_si512(first, a);
		_mm512_storeu_si512(second, b);
		for (; hits; hits &= hits - 1) {
			unsigned lane = (unsigned)__builtin_ctzll(hits);
			check_hit(s, h, at + lane, first[lane] | (unsigned)second[lane] << 8);
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
	if (__builtin_cpu_supports("avx512bw"))
		at = scan_avx512(s, h, at, w->to);
	else if (__builtin_cpu_supports("avx2"))
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
