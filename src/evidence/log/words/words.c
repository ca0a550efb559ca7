#include "evidence/log/words/words.h"

#include <stdlib.h>

static unsigned chain_of(const char *p)
{
	return ((unsigned char)char_lower(p[0]) * 961u + (unsigned char)char_lower(p[1]) * 31u +
		(unsigned char)char_lower(p[2])) %
	       PHRASE_CHAINS;
}

/** false: it is too short to be found, or there are too many. */
static bool phrase_add(struct phrases *p, struct str text, unsigned value)
{
	if (text.n < PHRASE_LEAST || p->list.len == UINT16_MAX)
		return false;
	uint16_t *chain = &p->chains[chain_of(text.p)];
	struct phrase one = { text, value, *chain };
	vec_push(&p->list, one);
	p->begins[(unsigned char)text.p[0]] = true;
	*chain = (uint16_t)p->list.len;
	return true;
}

static bool stands_at(struct str text, size_t at, struct str phrase)
{
	if (text.n - at < phrase.n)
		return false;
	for (size_t i = 0; i < phrase.n; i++)
		if (char_lower(text.p[at + i]) != phrase.p[i])
			return false;
	const size_t end = at + phrase.n;
	return end == text.n || !char_word(phrase.p[phrase.n - 1]) || !char_word(text.p[end]);
}

const struct phrase *phrase_at(const struct phrases *p, struct str text, size_t at, const struct phrase *before)
{
	unsigned n = before ? before->next : p->chains[chain_of(text.p + at)];
	for (; n; n = p->list.data[n - 1].next)
		if (stands_at(text, at, p->list.data[n - 1].text))
			return &p->list.data[n - 1];
	return NULL;
}

static void add_name(void *ctx, struct str name, const struct know_part *part)
{
	struct log_words *w = ctx;
	const unsigned first = name.n < PHRASE_LEAST ? 0 : w->parts.chains[chain_of(name.p)];
	for (unsigned n = first; n; n = w->parts.list.data[n - 1].next) {
		struct named_part *have = &w->named.data[w->parts.list.data[n - 1].value];
		if (!str_eq(w->parts.list.data[n - 1].text, name))
			continue;
		have->several |= !str_eq(have->part->gfx, part->gfx);
		return;
	}
	struct named_part one = { part, false };
	if (phrase_add(&w->parts, arena_str(&w->arena, name), (unsigned)w->named.len))
		vec_push(&w->named, one);
}

struct log_words *log_words_new(const struct know *k)
{
	struct log_words *w = mem_alloc(sizeof(*w));
	for (size_t i = 0; i < k->contexts.len; i++)
		for (const struct know_list *l = k->contexts.data[i]->words; l; l = l->next)
			phrase_add(&w->contexts, l->text, (unsigned)i);
	know_part_names(k, add_name, w);
	return w;
}

void log_words_free(struct log_words *w)
{
	if (!w)
		return;
	vec_free(&w->contexts.list);
	vec_free(&w->parts.list);
	vec_free(&w->named);
	arena_free(&w->arena);
	free(w);
}
