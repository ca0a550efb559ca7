// Names of cases in a text: many of what a log prints of a failure is no fact that a message has, but tells one defect from another.
#include <stdlib.h>

#include "evidence/log/words.h"

enum {
	HEAD_BYTES = 1 << 20, // of a text
	MORE_BYTES = 2 << 20, // of windows with events behind its head
	AGAIN_LINES = 1000,
};

struct name_finder {
	const struct know *know;
	unsigned source;
	uint64_t head, more; // bytes that may still be looked at
	uint32_t *told;      // of each term the line in which it was told last; 0: in none
};

struct name_finder *name_finder_new(const struct know *k, unsigned source)
{
	struct name_finder *f = mem_alloc(sizeof(*f));
	*f = (struct name_finder){ .know = k, .source = source, .head = HEAD_BYTES, .more = MORE_BYTES };
	return f;
}

void name_finder_free(struct name_finder *f)
{
	if (!f)
		return;
	free(f->told);
	free(f);
}

static void name_found(struct name_finder *f, uint32_t term, uint64_t line, const struct event_sink *sink)
{
	if (!f->told)
		f->told = mem_alloc(f->know->base.terms.list.len * sizeof(*f->told));
	if (f->told[term] && line < f->told[term] + AGAIN_LINES)
		return;
	f->told[term] = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
	sink->named(sink->ctx, term, (struct place){ f->source, line });
}

void name_find(struct name_finder *f, struct str text, uint64_t line, bool eventful, const struct event_sink *sink)
{
	uint64_t *budget = f->head ? &f->head : eventful ? &f->more : NULL;
	if (!budget || !*budget || !sink->named || !f->know->base.terms.nheads)
		return;
	*budget = *budget > text.n ? *budget - text.n : 0;
	for (size_t i = 0; i < text.n; i++) {
		line += text.p[i] == '\n';
		if (!char_word(text.p[i]))
			continue;
		for (uint32_t t = TERM_NONE; (t = terms_name_at(&f->know->base.terms, text, i, t)) != TERM_NONE;)
			name_found(f, t, line, sink);
		while (i + 1 < text.n && char_word(text.p[i + 1]))
			i++;
	}
}
