// The facts of cases as numbers: each once, found by its kind and text, and how rare it is; names also by where they stand in a text.
#include <stdlib.h>

#include "knowledge/cases/cases.h"

enum { SLOTS_FIRST = 1024 };

const char *term_kind_name(enum know_term_kind kind)
{
	static const char *const names[TERM_KINDS] = {
		[TERM_GFX] = "part",
		[TERM_KERNEL] = "kernel",
		[TERM_FIRMWARE] = "firmware",
		[TERM_ROCM] = "ROCm",
		[TERM_MESA] = "Mesa",
		[TERM_PROGRAM] = "program",
		[TERM_PROGRAM_VERSION] = "program version",
		[TERM_CLASS] = "cause",
		[TERM_EVENT] = "event",
		[TERM_NAME] = "name",
		[TERM_CODE] = "code",
		[TERM_SETTING] = "setting",
		[TERM_DIFFERS] = "good",
		[TERM_DEFECT] = "defect",
		[TERM_SOURCE] = "source",
		[TERM_COMMON] = "common name",
	};
	return names[kind];
}

/** The slot that has it, or the free one where it belongs. */
static uint32_t *terms_slot(const struct know_terms *t, enum know_term_kind kind, struct str text)
{
	size_t at = str_hash(hash_mix(STR_HASH_BEGIN, kind), text);
	for (at ^= at >> 32;; at++) {
		uint32_t *slot = &t->slots[at & (t->nslots - 1)];
		const struct know_term *have = *slot ? &t->list.data[*slot - 1] : NULL;
		if (!have || (have->kind == (uint32_t)kind && str_eq(have->text, text)))
			return slot;
	}
}

uint32_t term_find(const struct know_terms *t, enum know_term_kind kind, struct str text)
{
	return t->nslots ? *terms_slot(t, kind, text) - 1 : TERM_NONE; // of a free slot it is TERM_NONE
}

static void terms_grow(struct know_terms *t)
{
	_cleanup_free_ uint32_t *before = t->slots; // the list has all that they had
	t->nslots = t->nslots ? 2 * t->nslots : SLOTS_FIRST;
	t->slots = mem_alloc(t->nslots * sizeof(*t->slots));
	for (size_t i = 0; i < t->list.len; i++)
		*terms_slot(t, (enum know_term_kind)t->list.data[i].kind, t->list.data[i].text) = (uint32_t)i + 1;
}

uint32_t term_intern(struct know_terms *t, enum know_term_kind kind, struct str text)
{
	if (t->list.len * 4 >= t->nslots * 3)
		terms_grow(t);
	uint32_t *slot = terms_slot(t, kind, text);
	const struct know_term one = { .text = text, .kind = (uint32_t)kind };
	if (!*slot) {
		vec_push(&t->list, one);
		*slot = (uint32_t)t->list.len;
	}
	return *slot - 1;
}

void terms_free(struct know_terms *t)
{
	vec_free(&t->list);
	free(t->slots);
	free(t->heads);
	free(t->rarity);
}

double cases_logarithm(double n)
{
	double whole = 0;
	for (; n >= 2; n /= 2)
		whole++;
	return whole + n - 1;
}

double cases_rarity(const struct know_base *b, double defects)
{
	const double r = 1 - cases_logarithm(defects > 1 ? defects : 1) / cases_logarithm((double)b->defects.len + 2);
	return r > 0.02 ? r : 0.02;
}

// --- names in a text ---

static struct str first_word(struct str text) { return str_cut(text, str_run(text, char_word)); }

static bool same_letters(struct str a, struct str b)
{
	size_t i = 0;
	while (a.n == b.n && i < a.n && char_lower(a.p[i]) == char_lower(b.p[i]))
		i++;
	return a.n == b.n && i == a.n;
}

/** As terms_slot(), by the first word of names. */
static uint32_t *head_slot(const struct know_terms *t, struct str word)
{
	uint64_t at = STR_HASH_BEGIN;
	for (size_t i = 0; i < word.n; i++)
		at = hash_mix(at, (unsigned char)char_lower(word.p[i]));
	for (at ^= at >> 32;; at++) {
		uint32_t *slot = &t->heads[at & (t->nheads - 1)];
		if (!*slot || same_letters(first_word(t->list.data[*slot - 1].text), word))
			return slot;
	}
}

uint32_t terms_name_at(const struct know_terms *t, struct str text, size_t at, uint32_t before)
{
	const struct str rest = str_from(text, at);
	if (!t->nheads)
		return TERM_NONE;
	uint32_t place = before == TERM_NONE ? *head_slot(t, first_word(rest)) : t->list.data[before].next;
	for (; place; place = t->list.data[place - 1].next) {
		const struct str name = t->list.data[place - 1].text;
		const bool ends = name.n >= rest.n || !char_word(rest.p[name.n]) || !char_word(name.p[name.n - 1]);
		if (ends && same_letters(str_cut(rest, name.n), name))
			return place - 1;
	}
	return TERM_NONE;
}

/** Names by their first words. What logs of any defect print is left out. */
void terms_settle(struct know_base *base)
{
	struct know_terms *t = &base->terms;
	size_t names = 0;
	for (size_t n = 0; n < t->list.len; n++)
		names += t->list.data[n].kind == TERM_NAME || t->list.data[n].kind == TERM_PROGRAM ||
			 t->list.data[n].kind == TERM_SETTING;
	for (t->nheads = names ? SLOTS_FIRST : 0; t->nheads < 2 * names;)
		t->nheads *= 2;
	t->heads = names ? mem_alloc(t->nheads * sizeof(*t->heads)) : NULL;
	for (size_t n = 0; n < t->list.len && names; n++) {
		struct know_term *one = &t->list.data[n];
		const bool searched = one->kind == TERM_NAME || one->kind == TERM_PROGRAM || one->kind == TERM_SETTING;
		if (!searched || !first_word(one->text).n || term_find(t, TERM_COMMON, one->text) != TERM_NONE)
			continue;
		uint32_t *slot = head_slot(t, first_word(one->text));
		one->next = *slot;
		*slot = (uint32_t)n + 1;
	}
	t->rarity = mem_alloc(t->list.len + 1);
	for (size_t n = 0; n < t->list.len; n++)
		t->rarity[n] = (uint8_t)(cases_rarity(base, t->list.data[n].defects) * RARITY_MOST);
}
