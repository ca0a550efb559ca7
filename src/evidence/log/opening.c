#include "evidence/log/opening.h"

#include "knowledge/know_opening.h"

enum { TASK_NAME = 15 }; // the most characters of a process's name, which users choose and some lines begin with

static size_t skip_spaces(struct str s, size_t at)
{
	while (at < s.n && char_space(s.p[at]))
		at++;
	return at;
}

/** Whether the kernel noted the device that the line names. */
static bool attests(const struct know_opening *o, const struct match *m, const struct source_note *by)
{
	struct str noted = { 0 };
	if (by->writer != WRITER_KERNEL || !o->subsystem.n || !str_eq(by->subsystem, o->subsystem))
		return false;
	for (size_t i = 0; i < m->ncaptures; i++)
		if (str_is(m->captures[i].piece->name, "device") &&
		    (!str_behind(by->device, S("+pci:"), &noted) || !str_eq(noted, m->captures[i].text)))
			return false;
	return true;
}

/** The longest opening at @at of @text; 0: none, else where it ends. */
static size_t longest(const struct know *k, struct str text, size_t at, const struct source_note *by, struct opening *to)
{
	size_t end = 0;
	struct opening of = { 0 };
	for (size_t i = 0; i < k->openings.len; i++) {
		const struct know_opening *o = k->openings.data[i];
		for (size_t t = 0; t < o->ntemplates; t++) {
			struct match m = { 0 };
			const struct str first = o->templates[t]->pieces[0].literal;
			if ((first.n && (at >= text.n || text.p[at] != first.p[0])) ||
			    !template_match(o->templates[t], text, at, &m) || m.end <= end)
				continue;
			end = m.end;
			of = (struct opening){ .attested = attests(o, &m, by), .own = o->own, .brief = o->brief };
		}
	}
	// What a line begins with says who wrote it; behind that a user's words may follow.
	to->attested |= !to->n && of.attested;
	to->brief |= !to->n && of.brief;
	if (end)
		to->own = of.own && (to->own || !to->n);
	return end;
}

struct opening opening_read(const struct know *k, struct str text, const struct source_note *by)
{
	struct opening o = { .live = by->writer == WRITER_KERNEL };
	size_t at = o.begins[0] = skip_spaces(text, 0);
	while (o.live && o.n < OPENINGS_MOST && (at = longest(k, text, at, by, &o)))
		o.begins[++o.n] = at = skip_spaces(text, at);
	return o;
}

static bool allows(const void *ctx, const struct match *m)
{
	const struct opening *o = ctx;
	const struct know_signature *s = match_signature(m);
	const bool no_name = m->weight > TASK_NAME; // what is no longer may be a name
	bool at_front = false;
	if (s->program)
		return false;
	for (size_t i = 0; i <= o->n; i++)
		at_front |= m->begin == o->begins[i];
	if (at_front && ((no_name && (o->n || s->bare)) || (o->own && m->begin + m->weight > TASK_NAME)))
		return true;
	if (o->own && no_name && (o->attested || o->begins[o->n] > TASK_NAME))
		return true;
	return o->brief && m->begin == o->begins[0];
}

bool opening_match(const struct know *k, const struct opening *o, struct str text, struct match *ret)
{
	const struct match_rule rule = { allows, o };
	return know_match_by(k, text, &rule, ret);
}
