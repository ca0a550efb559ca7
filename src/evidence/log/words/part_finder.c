#include "evidence/log/words/part_finder.h"

#include <stdlib.h>

enum {
	HEAD_BYTES = 1 << 20, // of a text
	FOUND_MAX = 8,        // in one line
	TOLD_MAX = 32,
};

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
static bool goes_on(struct str rest)
{
	enum { SUFFIX = 3 };
	size_t n = 1;
	if (rest.n < 2 || rest.p[0] != ' ')
		return false;
	while (n < rest.n && rest.p[n] >= 'A' && rest.p[n] <= 'Z')
		n++;
	return n > 1 && n <= 1 + SUFFIX && (n == rest.n || !char_word(rest.p[n]));
}

/** The longest name at @at; NULL where there is none. */
static const struct phrase *name_at(const struct phrases *names, struct str line, size_t at)
{
	const struct phrase *longest = NULL;
	for (const struct phrase *p = NULL; (p = phrase_at(names, line, at, p));)
		if (!longest || p->text.n > longest->text.n)
			longest = p;
	return longest;
}

static void add_part(struct line_parts *l, const struct know_part *p)
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
		const struct phrase *name = phrase_may_begin(&w->parts, line, i) ? name_at(&w->parts, line, i) : NULL;
		if (!name)
			continue;
		const struct named_part *named = &w->named.data[name->value];
		const size_t n = name->text.n;
		if (named->several || (char_digit(line.p[i + n - 1]) && goes_on(str_from(line, i + n))))
			l->several = true;
		else
			add_part(l, named->part);
		i += n - 1;
	}
}

/** `(rev c8)`; -1 where there is none. */
static int revision_of(struct str line)
{
	uint64_t revision;
	const ptrdiff_t at = str_find(line, S("(rev "));
	struct str rest = str_from(line, at < 0 ? line.n : (size_t)at + 5);
	return str_hex(str_split(&rest, ')'), &revision) && revision <= 0xff ? (int)revision : -1;
}

/** `[1002:744c]`, `chip-ID: 1002:744c` */
static const struct know_part *part_by_id(const struct know *k, struct str line)
{
	enum { DIGITS = 4 };
	uint64_t id;
	const ptrdiff_t at = str_find(line, S("1002:"));
	const struct str digits = str_cut(str_from(line, at < 0 ? line.n : (size_t)at + 5), DIGITS);
	if (at < 0 || digits.n < DIGITS || !str_hex(digits, &id) || digits.p[1] == 'x')
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

/** The address at the front of a line of lspci. */
static struct str address_of(struct str line) { return str_cut(line, pci_length(line)); }

static void tell_gpu(struct part_finder *f, const struct know_part *p, struct str pci, uint64_t line,
		     const struct event_sink *sink)
{
	enum { WITHOUT_DOMAIN = 7 };
	const struct artefact_output out = { .know = f->know, .source = f->source, .sink = *sink };
	struct arena a = { 0 };
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
	arena_free(&a);
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

static void read_line(struct part_finder *f, struct str line, uint64_t number, const struct event_sink *sink)
{
	struct line_parts l = { 0 };
	const struct know_part *exact = part_by_id(f->know, line);
	if (exact)
		add_part(&l, exact);
	else
		find_names(f->words, line, &l);
	if (!exact)
		choose_by_revision(f->know, revision_of(line), &l);
	const struct str pci = address_of(str_trim(line));
	if (l.n == 1 && !l.several && pci.n)
		tell_gpu(f, l.found[0], pci, number, sink);
	for (size_t i = 0; i < l.n && !(pci.n && l.n == 1); i++)
		tell_name(f, l.found[i], number, sink);
}

void part_find(struct part_finder *f, struct str text, uint64_t line, const struct event_sink *sink)
{
	if (!f->left)
		return;
	f->left = f->left > text.n ? f->left - text.n : 0;
	for (; text.n; line++)
		read_line(f, str_split(&text, '\n'), line, sink);
}
