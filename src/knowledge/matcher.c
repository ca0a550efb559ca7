// Every template is found by one of its own four-character sequences, the rarest among all templates. A line is
// walked once; a bitmap of 8 KiB says at nearly every position that no template has these four characters.
#include "knowledge/matcher.h"

#include <stdlib.h>

enum { GRAM = 4, MAP_BITS = 16, LOOK_BACK = 256 };

struct entry {
	uint32_t gram;
	uint32_t piece, offset; // where in the template the gram stands
	const struct template *template;
	uint32_t next;
};

struct matcher {
	VEC(struct entry) entries;
	VEC(struct template *) templates;
	uint32_t heads[1 << MAP_BITS]; // index + 1 of the first entry
	uint64_t map[(1 << MAP_BITS) / 64];
};

static uint32_t gram_at(const char *p)
{
	uint32_t g;
	memcpy(&g, p, sizeof(g));
	return g;
}

static uint32_t gram_slot(uint32_t gram) { return gram * 2654435761u >> (32 - MAP_BITS); }

/** White space in a message matches any white space, a gram only one: so a gram has none if it can be helped. */
static bool gram_has_space(const char *p) { return memchr(p, ' ', GRAM); }

struct matcher *matcher_new(void) { return mem_alloc(sizeof(struct matcher)); }

bool matcher_add(struct matcher *m, struct template *t)
{
	for (size_t i = 0; i < t->npieces; i++) {
		if (t->pieces[i].literal.n >= GRAM) {
			vec_push(&m->templates, t);
			return true;
		}
	}
	return false;
}

/** Counts grams in the slots of heads[], which is not yet in use. */
static void count_grams(struct matcher *m)
{
	for (size_t k = 0; k < m->templates.len; k++) {
		const struct template *t = m->templates.data[k];
		for (size_t i = 0; i < t->npieces; i++)
			for (size_t o = 0; o + GRAM <= t->pieces[i].literal.n; o++)
				m->heads[gram_slot(gram_at(t->pieces[i].literal.p + o))]++;
	}
}

static struct entry choose_gram(const struct matcher *m, const struct template *t)
{
	struct entry best = { .template = t };
	uint64_t best_cost = UINT64_MAX;
	for (size_t i = 0; i < t->npieces; i++) {
		struct str literal = t->pieces[i].literal;
		for (size_t o = 0; o + GRAM <= literal.n; o++) {
			// Behind a value or a space the start has to be searched for, which costs more than a rarer gram wins.
			bool fixed = i == 0 && !memchr(literal.p, ' ', o);
			uint64_t cost = (uint64_t)m->heads[gram_slot(gram_at(literal.p + o))] * (fixed ? 1 : 4);
			if (gram_has_space(literal.p + o))
				cost += UINT32_MAX;
			if (cost < best_cost) {
				best_cost = cost;
				best.gram = gram_at(literal.p + o);
				best.piece = (uint32_t)i;
				best.offset = (uint32_t)o;
			}
		}
		if (i == 0 && best_cost < UINT32_MAX)
			break;
	}
	return best;
}

void matcher_finish(struct matcher *m)
{
	count_grams(m);
	for (size_t k = 0; k < m->templates.len; k++)
		vec_push(&m->entries, choose_gram(m, m->templates.data[k]));
	memset(m->heads, 0, sizeof(m->heads));
	for (size_t k = 0; k < m->entries.len; k++) {
		uint32_t slot = gram_slot(m->entries.data[k].gram);
		m->entries.data[k].next = m->heads[slot];
		m->heads[slot] = (uint32_t)k + 1;
		m->map[slot / 64] |= 1ull << slot % 64;
	}
}

/** Tries the starts from which the gram at @at could have been reached. */
static bool entry_match(const struct entry *e, struct str line, size_t at, struct match *ret)
{
	const struct piece *first = &e->template->pieces[0];
	if (e->piece == 0 && !memchr(first->literal.p, ' ', e->offset))
		return at >= e->offset && template_match(e->template, line, at - e->offset, ret);
	size_t floor = at > LOOK_BACK ? at - LOOK_BACK : 0;
	char want = first->literal.n ? first->literal.p[0] : 0;
	for (size_t start = at + 1; start-- > floor;) {
		if (want && want != ' ' && line.p[start] != want)
			continue;
		if (template_match(e->template, line, start, ret))
			return true;
	}
	return false;
}

bool matcher_find(const struct matcher *m, struct str line,
		  bool (*better)(const struct match *now, const struct match *new), struct match *ret)
{
	bool found = false;
	struct match trial;
	for (size_t at = 0; at + GRAM <= line.n; at++) {
		uint32_t gram = gram_at(line.p + at), slot = gram_slot(gram);
		if (!(m->map[slot / 64] >> slot % 64 & 1))
			continue;
		for (uint32_t k = m->heads[slot]; k; k = m->entries.data[k - 1].next) {
			const struct entry *e = &m->entries.data[k - 1];
			if (e->gram != gram || !entry_match(e, line, at, &trial))
				continue;
			if (!found || better(ret, &trial))
				*ret = trial;
			found = true;
		}
	}
	return found;
}

void matcher_free(struct matcher *m)
{
	if (!m)
		return;
	vec_free(&m->entries);
	vec_free(&m->templates);
	free(m);
}
