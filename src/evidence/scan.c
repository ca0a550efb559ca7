#include "evidence/scan.h"

#include <hs/hs.h>
#include <stdlib.h>

enum { ANCHOR_MAX = 64 };

struct scanner {
	hs_database_t *database;
};

struct scratch {
	const struct scanner *scanner;
	hs_scratch_t *space;
};

static bool covered(const struct know *k, const struct template *t)
{
	for (size_t a = 0; a < k->anchors.len; a++)
		for (size_t i = 0; i < t->npieces; i++)
			if (str_find(t->pieces[i].literal, k->anchors.data[a]) >= 0)
				return true;
	return false;
}

/** How common a character is in logs: letters by their frequency, a space most of all. */
static unsigned commonness(char c)
{
	static const char by_frequency[] = "jqzxvkwybfgmpuhdclnrisoate ";
	const char *at = c ? strchr(by_frequency, c) : NULL;
	return at ? (unsigned)(at - by_frequency) + 4 : char_digit(c) ? 6 : 2;
}

/** Vectorscan tries the last characters of a literal first, so an anchor is cut behind its rarest ones. */
static struct str telling_end(struct str anchor)
{
	enum { TAIL = 4 };
	size_t best = anchor.n;
	unsigned least = UINT32_MAX;
	for (size_t end = TAIL; end <= anchor.n; end++) {
		unsigned product = 1;
		for (size_t i = end - TAIL; i < end; i++)
			product *= commonness(anchor.p[i]);
		if (product < least) {
			least = product;
			best = end;
		}
	}
	return str_cut(anchor, best);
}

static struct str longest_literal(const struct template *t)
{
	struct str best = { 0 };
	for (size_t i = 0; i < t->npieces; i++)
		if (t->pieces[i].literal.n > best.n)
			best = t->pieces[i].literal;
	return str_cut(best, ANCHOR_MAX);
}

struct literals {
	VEC(const char *) texts;
	VEC(size_t) sizes;
	VEC(unsigned) flags;
};

static void literal_add(struct literals *l, struct str anchor)
{
	anchor = telling_end(anchor);
	vec_push(&l->texts, anchor.p);
	vec_push(&l->sizes, anchor.n);
	vec_push(&l->flags, 0u);
}

struct scanner *scanner_new(const struct know *k)
{
	struct scanner *s = mem_alloc(sizeof(*s));
	struct literals l = { 0 };
	for (size_t i = 0; i < k->anchors.len; i++)
		literal_add(&l, k->anchors.data[i]);
	// All others stand behind the driver's own prefix, which is an anchor.
	for (size_t i = 0; i < k->signatures.len; i++) {
		const struct know_signature *sig = k->signatures.data[i];
		for (size_t t = 0; t < sig->ntemplates && sig->bare; t++) {
			if (!covered(k, sig->templates[t]))
				literal_add(&l, longest_literal(sig->templates[t]));
		}
	}
	hs_compile_error_t *error = NULL;
	if (hs_compile_lit_multi(l.texts.data, l.flags.data, NULL, l.sizes.data, (unsigned)l.texts.len, HS_MODE_BLOCK, NULL,
				 &s->database, &error) != HS_SUCCESS) {
		// Without a database every line is a candidate: slower, never wrong.
		hs_free_compile_error(error);
		s->database = NULL;
	}
	vec_free(&l.texts);
	vec_free(&l.sizes);
	vec_free(&l.flags);
	return s;
}

struct scratch *scratch_new(const struct scanner *s)
{
	struct scratch *t = mem_alloc(sizeof(*t));
	t->scanner = s;
	if (s->database && hs_alloc_scratch(s->database, &t->space) != HS_SUCCESS)
		t->space = NULL;
	return t;
}

void scratch_free(struct scratch *t)
{
	if (!t)
		return;
	hs_free_scratch(t->space);
	free(t);
}

void scanner_free(struct scanner *s)
{
	if (!s)
		return;
	hs_free_database(s->database);
	free(s);
}

enum { LANES = 64 };

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif
static uint64_t count_newlines(const char *p, size_t n)
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
	size_t scanned_from;
};

static void add_line(struct hits *h, size_t begin, size_t end)
{
	struct window *w = h->window;
	size_t upto = begin > w->from ? begin : w->from;
	h->newlines += count_newlines(w->bytes + h->counted, upto - h->counted);
	h->counted = upto;
	struct candidate c = { (uint32_t)begin, (uint32_t)end, (uint32_t)h->newlines };
	vec_push(&w->candidates, c);
}

static int on_hit(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *ctx)
{
	(void)id;
	(void)from;
	(void)flags;
	struct hits *h = ctx;
	struct window *w = h->window;
	size_t at = h->scanned_from + (size_t)to - 1;
	if (at < w->from || at < h->line_end)
		return 0;
	const char *before = memrchr(w->bytes, '\n', at);
	const char *after = memchr(w->bytes + at, '\n', w->size - at);
	h->line_end = after ? (size_t)(after - w->bytes) : w->size;
	add_line(h, before ? (size_t)(before - w->bytes) + 1 : 0, h->line_end);
	return 0;
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
		add_line(h, at, end);
		at = end + 1;
	}
}

void scan_window(struct scratch *t, struct window *w, bool every)
{
	// An anchor may begin in the window before this one.
	size_t early = w->from > ANCHOR_MAX ? w->from - ANCHOR_MAX : 0;
	struct hits h = { .window = w, .counted = w->from, .scanned_from = early };
	w->candidates.len = 0;
	bool scanned = !every && t && t->space &&
		       hs_scan(t->scanner->database, w->bytes + early, (unsigned)(w->to - early), 0, t->space, on_hit,
			       &h) == HS_SUCCESS;
	if (!scanned)
		scan_every(&h);
	w->newlines = h.newlines + count_newlines(w->bytes + h.counted, w->to - h.counted);
}
