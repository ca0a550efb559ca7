// Words around a failure that say what work it was: framework, backend, program, system. They stand on any line, most of which say
// nothing else, so they are looked for apart from messages: in the head of a text, and in the windows in which something happened.
#include <stdlib.h>

#include "evidence/log/words/context.h"

enum {
	HEAD_BYTES = 1 << 20, // of a text
	MORE_BYTES = 2 << 20, // of windows with events behind its head
	VERSION_WORDS = 3,    // `vLLM API server version 0.9.1`
};

struct context_finder {
	const struct know *know;
	unsigned source;
	uint64_t head, more; // bytes that may still be looked at
	bool *told;          // each context once in a source
	bool *dated;         // its version too
	const struct phrases *phrases;
};

struct context_finder *context_finder_new(const struct know *k, const struct log_words *w, unsigned source)
{
	struct context_finder *f = mem_alloc(sizeof(*f));
	*f = (struct context_finder){
		.know = k, .phrases = &w->contexts, .source = source, .head = HEAD_BYTES, .more = MORE_BYTES
	};
	f->told = mem_alloc(k->contexts.len + 1);
	f->dated = mem_alloc(k->contexts.len + 1);
	return f;
}

void context_finder_free(struct context_finder *f)
{
	if (!f)
		return;
	free(f->told);
	free(f->dated);
	free(f);
}

/** `version 0.9.1`, `-0.9.1`, `: v0.9.1`: a number with a dot close behind the phrase. */
static struct str version_behind(struct str rest)
{
	static const char between[] = " \t:=/-_\"'(v";
	rest = str_cut(rest, 48);
	for (unsigned words = 0; words <= VERSION_WORDS; words++) {
		while (rest.n && char_among(rest.p[0], between))
			rest = str_from(rest, 1);
		size_t n = 0;
		while (n < rest.n && (char_digit(rest.p[n]) || (n && rest.p[n] == '.')))
			n++;
		while (n && rest.p[n - 1] == '.')
			n--;
		if (memchr(rest.p ? rest.p : "", '.', n))
			return str_cut(rest, n);
		if (n || !rest.n || rest.p[0] == '\n')
			break;
		while (rest.n && char_word(rest.p[0]))
			rest = str_from(rest, 1);
	}
	return (struct str){ 0 };
}

static void tell(struct context_finder *f, const struct know_context *c, struct str version, uint64_t line,
		 const struct event_sink *sink)
{
	const struct artefact_output out = { .know = f->know, .source = f->source, .sink = *sink };
	struct event e;
	if (!artefact_event(&out, "context", (struct place){ f->source, line }, &e))
		return;
	for (const struct know_pair *p = c->says; p; p = p->next)
		event_add(&e, p->name, p->value, FACT_TEXT);
	if (version.n)
		event_add(&e, c->version, version, FACT_TEXT);
	sink->event(sink->ctx, &e);
}

static void found(struct context_finder *f, const struct phrase *p, struct str rest, uint64_t line,
		  const struct event_sink *sink)
{
	const struct know_context *c = f->know->contexts.data[p->value];
	struct str version = c->version.n && !f->dated[p->value] ? version_behind(rest) : (struct str){ 0 };
	if (f->told[p->value] && !version.n)
		return;
	f->told[p->value] = true;
	f->dated[p->value] = version.n;
	tell(f, c, version, line, sink);
}

void context_find(struct context_finder *f, struct str text, uint64_t line, bool eventful, const struct event_sink *sink)
{
	uint64_t *budget = f->head ? &f->head : eventful ? &f->more : NULL;
	if (!budget || !*budget)
		return;
	*budget = *budget > text.n ? *budget - text.n : 0;
	for (size_t i = 0; i < text.n; i++) {
		line += text.p[i] == '\n';
		if (!phrase_may_begin(f->phrases, text, i))
			continue;
		for (const struct phrase *p = NULL; (p = phrase_at(f->phrases, text, i, p));)
			found(f, p, str_from(text, i + p->text.n), line, sink);
	}
}
