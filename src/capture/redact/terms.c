// The terms of a redaction, and their replacement.
//
// A text may hold millions of bytes and a machine thousands of names, so the terms are sorted once, and at each byte of a text the longest that
// fits is found by a binary search among those with its first two bytes. A stranger can choose what he calls things: a term that would eat a
// word of the driver is held, and goes only at the places that told that it is a name.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "capture/redact/allow.h"

enum { SHORT = 4, PAIRS = 1 << 16 };

static const char *const kinds[REDACT_KINDS] = { "host", "user", "serial", "mac", "ip", "model", "secret", "name", "line" };

static uint32_t *term_slot(const struct redactor *r, struct str text)
{
	const uint64_t hash = str_hash(STR_HASH_BEGIN, text);
	size_t i = (size_t)(hash ^ hash >> 29) & (r->nslots - 1);
	while (r->slots[i] && !str_eq(r->terms.data[r->slots[i] - 1].text, text))
		i = (i + 1) & (r->nslots - 1);
	return &r->slots[i];
}

/** Words of every machine: a user may be called so, but the word says nothing of them. The last two are numbers of EFI variables. */
static bool is_common(struct str text)
{
	static const char words[] =
		"root|localhost|nobody|daemon|system|kernel|amdgpu|systemd|none|default|unknown|true|false|null|python3|"
		"python|user|users|home|render|video|auto|0.0.0.0|127.0.0.1|::1|255.255.255.255|"
		"4a67b082-0a4c-41cf-b6c7-440b29bb8c4f|8be4df61-93ca-11d2-aa0d-00e098032b8c";
	return str_among(text, STR_EQUALS, words).n;
}

/** Hosts that everybody knows say nothing of anybody. */
static bool is_public(struct str host)
{
	static const char ends[] =
		"debian.org|ubuntu.com|kernel.org|github.com|amd.com|redhat.com|fedoraproject.org|archlinux.org|"
		"freedesktop.org|gitlab.com|pytorch.org|python.org|gnu.org|huggingface.co";
	const size_t n = str_among(host, STR_ENDS, ends).n;
	return n && (host.n == n || host.p[host.n - n - 1] == '.');
}

/** Whether knowledge has the word: then messages may have it too, and only what stands alone is meant. @otherwise: what is taken for so
 * when that was asked too often, since it is a search through all knowledge. */
static bool is_known_word(struct redactor *r, struct str text, bool otherwise)
{
	enum { MOST = 300 };
	if (r->asked++ >= MOST)
		return otherwise;
	for (const struct know_file *f = know_embedded; f->name; f++)
		if (str_find((struct str){ f->begin, (size_t)(f->end - f->begin) }, text) >= 0)
			return true;
	return false;
}

/** The term of a text; a new one is nothing yet. */
static struct redact_term *term_of(struct redactor *r, struct str text)
{
	enum { FIRST = 256 };
	if (r->terms.len * 2 >= r->nslots) {
		cleanup_free(&r->slots);
		r->nslots = r->nslots ? 2 * r->nslots : FIRST;
		r->slots = mem_alloc(r->nslots * sizeof(*r->slots));
		for (uint32_t i = 0; i < r->terms.len; i++)
			*term_slot(r, r->terms.data[i].text) = i + 1;
	}
	uint32_t *slot = term_slot(r, text);
	if (!*slot) {
		struct redact_term t = { .text = arena_str(&r->arena, text) };
		vec_push(&r->terms, t);
		*slot = (uint32_t)r->terms.len;
	}
	return &r->terms.data[*slot - 1];
}

/** The counter is what a reader sees in its place; it is the same wherever the name stands. */
static void name_term(struct redactor *r, struct redact_term *t, enum redact_kind kind, bool alone)
{
	t->kind = kind;
	t->number = ++r->numbers[kind];
	t->alone = alone;
	r->counts[kind].kind = kinds[kind];
	r->counts[kind].names++;
}

/** What tells a name stands before it, as an option does, or behind it, as .gguf does. */
static void add_term_place(struct redactor *r, struct str text)
{
	enum { MOST = 512 };
	const char *begin = r->from && r->from < text.p ? r->from : text.p, *end = text.p + text.n;
	if (r->from >= end)
		end = r->from + 1;
	if (!r->from || (size_t)(end - begin) <= text.n || end - begin > MOST)
		return;
	const uint32_t of = (uint32_t)(term_of(r, text) - r->terms.data) + 1;
	struct redact_term *place = term_of(r, (struct str){ begin, (size_t)(end - begin) });
	if (place->number || place->of)
		return;
	place->of = of;
	place->at = (uint32_t)(text.p - begin);
}

void redact_add(struct redactor *r, enum redact_kind kind, struct str text)
{
	text = str_trim(text);
	if (text.n < 2 || text.n > 4096 || is_common(text) || (kind == REDACT_HOST && is_public(text)))
		return;
	struct redact_term *t = term_of(r, text);
	bool name = kind == REDACT_HOST || kind == REDACT_USER || kind == REDACT_MODEL;
	if (!t->number)
		name_term(r, t, kind, name && (text.n < SHORT || is_known_word(r, text, true)));
	t->sure |= !r->from;
	add_term_place(r, text);
}

void redact_add_weak(struct redactor *r, enum redact_kind kind, struct str text)
{
	bool letters = false;
	for (size_t i = 0; i < text.n; i++)
		letters |= char_alpha(text.p[i]);
	if (text.n < SHORT || text.n > 4096 || !letters || str_starts(text, S("0x")) || char_among(text.p[0], "/.-$%") ||
	    is_common(text))
		return;
	struct redact_term *t = term_of(r, text);
	if (t->number || t->known)
		return;
	t->known = is_known_word(r, text, false);
	if (t->known)
		return;
	name_term(r, t, kind, true);
	add_term_place(r, text);
}

static int by_term_text(const void *x, const void *y, void *ctx)
{
	const struct redactor *r = ctx;
	return str_cmp(r->terms.data[*(const uint32_t *)x].text, r->terms.data[*(const uint32_t *)y].text);
}

static struct str text_at(const struct redactor *r, size_t place) { return r->terms.data[r->sorted[place]].text; }

/** Big-endian, so that the pairs have the order of the texts. */
static size_t pair_of(struct str s) { return (size_t)(unsigned char)s.p[0] << 8 | (unsigned char)s.p[1]; }

/** Whether a stranger may have called something so, in order that it goes everywhere. */
static bool may_be_chosen(const struct redact_term *t) { return !t->sure && t->kind != REDACT_MAC && t->kind != REDACT_IP; }

/** What a term or a place stands for; NULL: it stays. */
static const struct redact_term *term_meant(const struct redactor *r, const struct redact_term *t)
{
	const struct redact_term *meant = t->of ? &r->terms.data[t->of - 1] : t;
	const bool goes = t->of ? meant->held || meant->alone : !meant->held;
	return meant->number && goes ? meant : NULL;
}

static void redactor_unsort(struct redactor *r)
{
	cleanup_free(&r->sorted);
	cleanup_free(&r->within);
	cleanup_free(&r->heads);
}

/** Sorts the terms. Those that begin with another one stand behind it, and lead back to it. */
void redact_ready(struct redactor *r)
{
	redactor_unsort(r);
	r->sorted = mem_alloc((r->terms.len + 1) * sizeof(*r->sorted));
	r->within = mem_alloc((r->terms.len + 1) * sizeof(*r->within));
	r->heads = mem_alloc((PAIRS + 1) * sizeof(*r->heads));
	r->nsorted = 0;
	for (size_t i = 0; i < r->terms.len && r->words; i++)
		r->terms.data[i].held |= may_be_chosen(&r->terms.data[i]) && allow_is_evidence(r->words, r->terms.data[i].text);
	for (uint32_t i = 0; i < r->terms.len; i++)
		if (term_meant(r, &r->terms.data[i]))
			r->sorted[r->nsorted++] = i;
	qsort_r(r->sorted, r->nsorted, sizeof(*r->sorted), by_term_text, r);
	for (size_t place = 0; place < r->nsorted; place++) {
		uint32_t shorter = (uint32_t)place;
		while (shorter && !str_starts(text_at(r, place), text_at(r, shorter - 1)))
			shorter = r->within[shorter - 1];
		r->within[place] = shorter;
		r->heads[pair_of(text_at(r, place)) + 1]++;
	}
	for (size_t pair = 0; pair < PAIRS; pair++)
		r->heads[pair + 1] += r->heads[pair];
	for (size_t i = 0; i < REDACT_KINDS; i++)
		r->counts[i].kind = kinds[i];
}

/** Numbers and addresses of devices, which no stranger chooses. */
static bool is_of_device(enum redact_kind kind) { return kind == REDACT_SERIAL || kind == REDACT_MAC || kind == REDACT_IP; }

/** The last place whose text does not stand behind @rest, + 1; 0: none that has its first two bytes. */
static uint32_t last_before(const struct redactor *r, struct str rest)
{
	size_t from = r->heads[pair_of(rest)], to = r->heads[pair_of(rest) + 1];
	const size_t first = from;
	while (from < to) {
		const size_t middle = from + (to - from) / 2;
		struct str text = text_at(r, middle);
		if (str_cmp(text, str_cut(rest, text.n)) <= 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from > first ? (uint32_t)from : 0;
}

/** Whether the bytes from @at to @end are within a longer word that evidence is made of. */
static bool in_evidence(const struct redactor *r, struct str text, size_t at, size_t end)
{
	while (at && char_word(text.p[at - 1]))
		at--;
	while (end < text.n && char_word(text.p[end]))
		end++;
	return r->words && allow_is_evidence(r->words, (struct str){ text.p + at, end - at });
}

/** The longest term at a byte of the text. @places: places count, too. */
static const struct redact_term *term_at(const struct redactor *r, struct str text, size_t at, bool places)
{
	struct str rest = str_from(text, at);
	for (uint32_t i = rest.n < 2 ? 0 : last_before(r, rest); i; i = r->within[i - 1]) {
		const struct redact_term *t = &r->terms.data[r->sorted[i - 1]];
		if (!str_starts(rest, t->text) || (t->of && !places))
			continue;
		bool alone = (!at || !char_word(text.p[at - 1])) && (rest.n == t->text.n || !char_word(rest.p[t->text.n]));
		if (alone || (!t->alone && (t->of || is_of_device(t->kind) || !in_evidence(r, text, at, at + t->text.n))))
			return t;
	}
	return NULL;
}

/** @size: of what it stands for; SIZE_MAX: it may have any. */
static void put_term(const struct redact_term *t, size_t size, struct text *ret)
{
	char room[48];
	int n = snprintf(room, sizeof(room), "%s-%u", kinds[t->kind], t->number);
	struct str name = { room, (size_t)n };
	if (name.n > size)
		name = str_from(name, name.n - size);
	text_add(ret, name);
	for (size_t i = name.n; size != SIZE_MAX && i < size; i++)
		text_add(ret, S("x"));
}

void redact_put_name(struct redactor *r, struct str word, bool same_size, struct text *to)
{
	enum { LONGEST = 256 };
	struct redact_term *t = term_of(r, str_cut(word, LONGEST));
	if (!t->number)
		name_term(r, t, REDACT_NAME, true);
	put_term(t, same_size ? word.n : SIZE_MAX, to);
	r->counts[t->kind].places++;
}

bool redact_is_counter(const struct redactor *r, struct str word)
{
	int64_t number = 0;
	struct str rest = word, name = str_split(&rest, '-');
	size_t kind = 0;
	while (kind < REDACT_KINDS && !str_is(name, kinds[kind]))
		kind++;
	return kind < REDACT_KINDS && str_number(rest, &number) && number > 0 && number <= r->numbers[kind];
}

/** How a text is replaced. */
struct replacing {
	bool same_size, devices_only;
	unsigned within; // how many places it is part of
};

static void replace(struct redactor *r, struct str text, struct replacing how, struct text *ret);

/** What stands around the name in a place may have names of its own. */
static void put_meant(struct redactor *r, const struct redact_term *t, struct replacing how, struct text *ret)
{
	const struct redact_term *meant = term_meant(r, t);
	how.within++;
	replace(r, str_cut(t->text, t->at), how, ret);
	put_term(meant, how.same_size ? meant->text.n : SIZE_MAX, ret);
	replace(r, str_from(t->text, t->at + meant->text.n), how, ret);
	r->counts[meant->kind].places++;
}

/** From left to right, the longest term first. What stands around a name in a place may have names of its own, so it goes through here
 * again. */
static void replace(struct redactor *r, struct str text, struct replacing how, struct text *ret)
{
	enum { PLACES_WITHIN = 3 };
	size_t from = 0, at = 0;
	while (at < text.n) {
		const struct redact_term *t = term_at(r, text, at, how.within < PLACES_WITHIN);
		if (!t || (how.devices_only && !is_of_device(term_meant(r, t)->kind))) {
			at++;
			continue;
		}
		text_add(ret, (struct str){ text.p + from, at - from });
		put_meant(r, t, how, ret);
		from = at += t->text.n;
	}
	text_add(ret, str_from(text, from));
}

void redact_text(struct redactor *r, struct str text, bool same_size, struct text *ret)
{
	replace(r, text, (struct replacing){ .same_size = same_size }, ret);
}

void redact_kernel_text(struct redactor *r, struct str text, bool same_size, struct text *ret)
{
	replace(r, text, (struct replacing){ .same_size = same_size, .devices_only = true }, ret);
}

bool redact_hold(struct redactor *r, struct str text)
{
	bool any = false;
	for (size_t at = 0; at < text.n; at++) {
		const struct redact_term *t = term_at(r, text, at, false);
		if (t) {
			r->terms.data[t - r->terms.data].held = any = true;
			at += t->text.n - 1;
		}
	}
	return any;
}

void redactor_free(struct redactor *r)
{
	redactor_unsort(r);
	vec_free(&r->terms);
	cleanup_free(&r->slots);
	arena_free(&r->arena);
}
