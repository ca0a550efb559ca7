// Words that say what work it was, and which GPU: framework, backend, program, system, names of parts. They stand on any line, most of
// which say nothing else, so they are looked for apart from messages: in the head of a text, and in the windows in which something happened.
// All phrases are found with one look at each letter that begins a word: by a chain for its first three letters.
#include <stdlib.h>

#include "evidence/log/words.h"

/** The bit by which small letters differ from capitals is set, so that both are in one chain. */
static unsigned chain_of(const char *p)
{
	enum { SMALL = 0x20 };
	return ((p[0] | SMALL) * 961u + (p[1] | SMALL) * 31u + (p[2] | SMALL)) % PHRASE_CHAINS;
}

/** false: it is too short to be found, or there are too many. */
static bool phrase_add(struct phrases *p, struct str text, unsigned value)
{
	if (text.n < PHRASE_LEAST || p->list.len == UINT16_MAX)
		return false;
	uint16_t *chain = &p->chains[chain_of(text.p)];
	struct phrase one = { text, value, *chain };
	vec_push(&p->list, one);
	p->letters[(unsigned char)text.p[0]] |= LETTER_BEGINS;
	*chain = (uint16_t)p->list.len;
	return true;
}

/** When all are added: they are in lower case, and texts are not. */
static void phrases_settle(struct phrases *p)
{
	for (unsigned c = 0; c < ARRAY_SIZE(p->letters); c++) {
		p->letters[c] |= p->letters[(unsigned char)char_lower((char)c)] & LETTER_BEGINS;
		p->letters[c] |= char_word((char)c) ? LETTER_OF_WORD : 0;
	}
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

/** The phrases that stand at @at in any case, as words of their own, one after another; @before NULL: the first. Only where one may begin. */
static const struct phrase *phrase_at(const struct phrases *p, struct str text, size_t at, const struct phrase *before)
{
	unsigned n = before ? before->next : p->chains[chain_of(text.p + at)];
	for (; n; n = p->list.data[n - 1].next)
		if (stands_at(text, at, p->list.data[n - 1].text))
			return &p->list.data[n - 1];
	return NULL;
}

static void log_words_add_name(void *ctx, struct str name, const struct know_part *part)
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
	know_part_names(k, log_words_add_name, w);
	phrases_settle(&w->contexts);
	phrases_settle(&w->parts);
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

// --- contexts ---

enum {
	HEAD_BYTES = 1 << 20, // of a text
	MORE_BYTES = 2 << 20, // of windows with events behind its head
	VERSION_WORDS = 3,    // `vLLM API server version 0.9.1`
	FOUND_MAX = 8,        // parts in one line
	TOLD_MAX = 32,
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

static void context_found(struct context_finder *f, const struct phrase *p, struct str rest, uint64_t line,
			  const struct event_sink *sink)
{
	const struct know_context *c = f->know->contexts.data[p->value];
	const struct artefact_output out = { .know = f->know, .source = f->source, .sink = *sink };
	struct str version = c->version.n && !f->dated[p->value] ? version_behind(rest) : (struct str){ 0 };
	struct event e;
	if (f->told[p->value] && !version.n)
		return;
	f->told[p->value] = true;
	f->dated[p->value] = version.n;
	if (!artefact_event(&out, "context", (struct place){ f->source, line }, &e))
		return;
	for (const struct know_pair *says = c->says; says; says = says->next)
		event_add(&e, says->name, says->value, FACT_TEXT);
	if (version.n)
		event_add(&e, c->version, version, FACT_TEXT);
	sink->event(sink->ctx, &e);
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
			context_found(f, p, str_from(text, i + p->text.n), line, sink);
	}
}

// --- parts ---

struct part_finder {
	const struct know *know;
	unsigned source;
	uint64_t left; // bytes that may still be looked at
	const struct log_words *words;
	size_t ntold;
	const struct know_part *told[TOLD_MAX];
};

struct part_finder *part_finder_new(const struct know *k, const struct log_words *w, unsigned source)
{
	struct part_finder *f = mem_alloc(sizeof(*f));
	*f = (struct part_finder){ .know = k, .words = w, .source = source, .left = HEAD_BYTES };
	return f;
}

void part_finder_free(struct part_finder *f) { free(f); }

// --- a line ---

/** What a line names. */
struct line_parts {
	size_t n;
	const struct know_part *found[FOUND_MAX];
	bool several;
};

/** `RX 7900 ABC`: a model that is not known, of which the name is only the front. */
static bool log_words_goes_on(struct str rest)
{
	enum { SUFFIX = 3 };
	size_t n = 1;
	if (rest.n < 2 || rest.p[0] != ' ')
		return false;
	while (n < rest.n && rest.p[n] >= 'A' && rest.p[n] <= 'Z')
		n++;
	return n > 1 && n <= 1 + SUFFIX && (n == rest.n || !char_word(rest.p[n]));
}

static void log_words_add_part(struct line_parts *l, const struct know_part *p)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->found[i]->name, p->name))
			return;
	if (l->n < FOUND_MAX)
		l->found[l->n++] = p;
}

static void find_names(const struct log_words *w, struct str line, struct line_parts *l)
{
	for (size_t i = 0; i < line.n; i++) {
		if (!phrase_may_begin(&w->parts, line, i))
			continue;
		const struct phrase *name = NULL; // the longest there
		for (const struct phrase *p = NULL; (p = phrase_at(&w->parts, line, i, p));)
			if (!name || p->text.n > name->text.n)
				name = p;
		if (!name)
			continue;
		const struct named_part *named = &w->named.data[name->value];
		const size_t n = name->text.n;
		if (named->several || (char_digit(line.p[i + n - 1]) && log_words_goes_on(str_from(line, i + n))))
			l->several = true;
		else
			log_words_add_part(l, named->part);
		i += n - 1;
	}
}

/** `(rev c8)`; -1 where there is none. */
static int revision_of(struct str line)
{
	uint64_t revision;
	struct str rest;
	return str_after(line, S("(rev "), &rest) && str_hex(str_split(&rest, ')'), &revision) && revision <= 0xff ?
		       (int)revision :
		       -1;
}

/** `[1002:744c]`, `chip-ID: 1002:744c` */
static const struct know_part *part_by_id(const struct know *k, struct str line)
{
	enum { DIGITS = 4 };
	uint64_t id;
	struct str digits;
	if (!str_after(line, S("1002:"), &digits))
		return NULL;
	digits = str_cut(digits, DIGITS);
	if (digits.n < DIGITS || !str_hex(digits, &id) || digits.p[1] == 'x')
		return NULL;
	return know_part(k, (unsigned)id, revision_of(line));
}

/** Of several names for one chip, as lspci has them, the one that this revision has. */
static void choose_by_revision(const struct know *k, int revision, struct line_parts *l)
{
	const struct know_part *only = NULL;
	for (size_t i = 0; i < l->n && revision >= 0; i++) {
		const struct know_part *p = know_part(k, l->found[i]->device, revision);
		if (!p || p->revision != revision)
			return;
		if (only && only != p)
			return;
		only = p;
	}
	if (!only)
		return;
	l->found[0] = only;
	l->n = 1;
	l->several = false;
}

// --- telling ---

static void log_words_tell_gpu(struct part_finder *f, const struct know_part *p, struct str pci, uint64_t line,
			       const struct event_sink *sink)
{
	enum { WITHOUT_DOMAIN = 7 };
	const struct artefact_output out = { .know = f->know, .source = f->source, .sink = *sink };
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (artefact_event(&out, "inventory-gpu", (struct place){ f->source, line }, &e)) {
		event_add(&e, S("pci"), arena_printf(&a, "%s" STR_FMT, pci.n == WITHOUT_DOMAIN ? "0000:" : "", STR_ARG(pci)),
			  FACT_TEXT);
		event_add_code(&e, &a, "vendor", 0x1002);
		event_add_code(&e, &a, "device_id", p->device);
		if (p->revision >= 0)
			event_add_code(&e, &a, "revision", (uint64_t)p->revision);
		sink->event(sink->ctx, &e);
	}
}

static void tell_name(struct part_finder *f, const struct know_part *p, uint64_t line, const struct event_sink *sink)
{
	const struct artefact_output out = { .know = f->know, .source = f->source, .sink = *sink };
	struct event e;
	for (size_t i = 0; i < f->ntold; i++)
		if (f->told[i] == p)
			return;
	if (f->ntold == TOLD_MAX || !artefact_event(&out, "context", (struct place){ f->source, line }, &e))
		return;
	f->told[f->ntold++] = p;
	event_add(&e, S("named_part"), p->name, FACT_TEXT);
	sink->event(sink->ctx, &e);
}

static void parts_of_line(struct part_finder *f, struct str line, uint64_t number, const struct event_sink *sink)
{
	struct line_parts l = { 0 };
	const struct know_part *exact = part_by_id(f->know, line);
	if (exact)
		log_words_add_part(&l, exact);
	else
		find_names(f->words, line, &l);
	if (!exact)
		choose_by_revision(f->know, revision_of(line), &l);
	const struct str front = str_trim(line), pci = str_cut(front, pci_length(front)); // as lspci has it
	if (l.n == 1 && !l.several && pci.n)
		log_words_tell_gpu(f, l.found[0], pci, number, sink);
	for (size_t i = 0; i < l.n && !(pci.n && l.n == 1); i++)
		tell_name(f, l.found[i], number, sink);
}

void part_find(struct part_finder *f, struct str text, uint64_t line, const struct event_sink *sink)
{
	if (!f->left)
		return;
	f->left = f->left > text.n ? f->left - text.n : 0;
	for (; text.n; line++)
		parts_of_line(f, str_split(&text, '\n'), line, sink);
}
