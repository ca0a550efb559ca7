// Every template is found by one of its own four-character sequences, the rarest among all templates. A line is
// walked once; a bitmap of 32 KiB says at nearly every position that no template has these four characters.
#include "knowledge/matcher.h"

#include <stdlib.h>

enum { GRAM = 4, MAP_BITS = 18, HEAD_BITS = 14, LOOK_BACK = 256 };

/** What may be spent on a line. The lines of 420 real logs take 7,200 steps at most, and 11 for each byte of a short one. */
enum { STEPS_LEAST = 2000, STEPS_A_BYTE = 6 };

struct matcher_entry {
	uint32_t gram;
	uint32_t piece, offset; // where in the template the gram stands
	const struct template *template;
	uint32_t next;
};

struct matcher {
	VEC(struct matcher_entry) entries;
	VEC(struct template *) templates;
	uint32_t heads[1 << HEAD_BITS]; // index + 1 of the first entry
	uint64_t map[(1 << MAP_BITS) / 64];
};

static uint32_t gram_at(const char *p)
{
	uint32_t g;
	memcpy(&g, p, sizeof(g));
	return g;
}

static uint32_t gram_hash(uint32_t gram) { return gram * 2654435761u; }
static uint32_t gram_bit(uint32_t hash) { return hash >> (32 - MAP_BITS); }
static uint32_t gram_slot(uint32_t hash) { return hash >> (32 - HEAD_BITS); }

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
				m->heads[gram_slot(gram_hash(gram_at(t->pieces[i].literal.p + o)))]++;
	}
}

static struct matcher_entry choose_gram(const struct matcher *m, const struct template *t)
{
	struct matcher_entry best = { .template = t };
	uint64_t best_cost = UINT64_MAX;
	for (size_t i = 0; i < t->npieces; i++) {
		struct str literal = t->pieces[i].literal;
		for (size_t o = 0; o + GRAM <= literal.n; o++) {
			// A gram behind a value costs a search for the start, which is more than a rarer gram saves.
			uint64_t cost = (uint64_t)m->heads[gram_slot(gram_hash(gram_at(literal.p + o)))] * (i ? 16 : 1);
			// White space in a message matches any amount of white space, but a gram matches exactly: those with spaces are avoided.
			if (memchr(literal.p + o, ' ', GRAM))
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
		uint32_t hash = gram_hash(m->entries.data[k].gram), slot = gram_slot(hash), bit = gram_bit(hash);
		m->entries.data[k].next = m->heads[slot];
		m->heads[slot] = (uint32_t)k + 1;
		m->map[bit / 64] |= 1ull << bit % 64;
	}
	vec_free(&m->templates);
}

static bool has_wide_space(struct str line)
{
	for (size_t i = 0; i + 1 < line.n; i++)
		if (char_space(line.p[i]) && char_space(line.p[i + 1]))
			return true;
	return false;
}

/** Whether somebody has left something out. */
static bool has_gaps(struct str line) { return str_find(line, S("...")) >= 0 || str_find(line, S("\xe2\x80\xa6")) >= 0; }

/** @budget is shared by all tries on a line: the time that a log takes is bounded by its length, whoever wrote it. */
static bool try_at(const struct matcher_entry *e, struct str line, size_t start, unsigned *budget, struct match *ret)
{
	bool found = template_match(e->template, line, start, ret);
	*budget -= ret->steps < *budget ? ret->steps : *budget;
	return found;
}

/** Tries the starts from which the gram at @at could have been reached. */
static bool entry_match(const struct matcher_entry *e, struct str line, bool wide, size_t at, unsigned *budget,
			struct match *ret)
{
	struct str first = e->template->pieces[0].literal;
	size_t floor = at > LOOK_BACK ? at - LOOK_BACK : 0;
	if (e->piece == 0) {
		if (at >= e->offset && try_at(e, line, at - e->offset, budget, ret))
			return true;
		// One space in the message may be several in the line: only then can it begin elsewhere.
		if (!wide || !memchr(first.p, ' ', e->offset))
			return false;
	}
	const bool anywhere = !first.n || first.p[0] == ' ';
	for (size_t end = at + 1; end > floor && *budget; end--) {
		const char *p = anywhere ? line.p + end - 1 : memrchr(line.p + floor, first.p[0], end - floor);
		if (!p)
			return false;
		end = (size_t)(p - line.p) + 1;
		if (try_at(e, line, end - 1, budget, ret))
			return true;
	}
	return false;
}

/** Whether the line could as well be another message, because what would tell them apart is left out. */
static bool equally_cut(const struct match *a, const struct match *b)
{
	return a->template->owner != b->template->owner && a->weight == b->weight && a->begin == b->begin &&
	       a->weight < a->template->weight && b->weight < b->template->weight;
}

bool matcher_find(const struct matcher *m, struct str line, const struct match_rule *rule,
		  bool (*better)(const struct match *now, const struct match *new), struct match *ret)
{
	bool found = false, wide = has_wide_space(line);
	struct match trial = { .gaps = !rule && has_gaps(line) };
	unsigned budget = STEPS_LEAST + STEPS_A_BYTE * (unsigned)line.n;
	for (size_t at = 0; at + GRAM <= line.n && budget; at++) {
		uint32_t gram = gram_at(line.p + at), hash = gram_hash(gram), bit = gram_bit(hash);
		if (!(m->map[bit / 64] >> bit % 64 & 1))
			continue;
		for (uint32_t k = m->heads[gram_slot(hash)]; k; k = m->entries.data[k - 1].next) {
			const struct matcher_entry *e = &m->entries.data[k - 1];
			if (e->gram != gram || !entry_match(e, line, wide, at, &budget, &trial) ||
			    (rule && !rule->allows(rule->ctx, &trial)))
				continue;
			if (!found || better(ret, &trial))
				*ret = trial;
			else
				ret->doubtful |= equally_cut(ret, &trial);
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
	free(m);
}
