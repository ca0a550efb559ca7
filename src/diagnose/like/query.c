// What an incident has of the facts that cases have: its class, events and codes, the machine, and names near it in the evidence.
#include "diagnose/like/inside.h"

enum { NEAR_LINES = 2000 }; // a name this close to an event of the incident counts

/** How alike values are that are not the same. */
static const double same_family = 0.5, same_series = 0.6, beside_cause = 0.7, in_text = 0.6;

static void mark_term(struct like_query *q, uint32_t term, double factor)
{
	if (term == TERM_NONE)
		return;
	const double worth = factor * term_rarity(&q->know->base.terms, term);
	if (q->worth[term] < worth)
		q->worth[term] = worth;
}

static void like_mark(struct like_query *q, enum know_term_kind kind, struct str value, double factor)
{
	if (value.n && term_find(&q->know->base.terms, TERM_COMMON, value) == TERM_NONE)
		mark_term(q, term_find(&q->know->base.terms, kind, value), factor);
	if (value.n && !q->known[kind].n)
		q->known[kind] = value;
}

/** `pytorch` of `PyTorch`: what cases call programs. */
static void mark_program(struct like_query *q, struct str name, double factor)
{
	char room[64];
	size_t n = 0;
	for (; n < name.n && n < sizeof(room); n++)
		room[n] = char_lower(name.p[n]);
	const uint32_t term = term_find(&q->know->base.terms, TERM_PROGRAM, (struct str){ room, n });
	mark_term(q, term, factor);
	if (term != TERM_NONE && !q->known[TERM_PROGRAM].n)
		q->known[TERM_PROGRAM] = q->know->base.terms.list.data[term].text;
}

/** How alike two versions are: the same, of one series (6.17), or neither. */
static double version_alike(struct str a, struct str b)
{
	struct str a_rest = a, b_rest = b;
	if (str_eq(a, b))
		return 1;
	const struct str numbers[] = { str_split(&a_rest, '.'), str_split(&b_rest, '.'), str_split(&a_rest, '.'),
				       str_split(&b_rest, '.') };
	const size_t digits[] = { str_run(numbers[2], char_digit), str_run(numbers[3], char_digit) };
	if (!str_eq(numbers[0], numbers[1]) || !digits[0] ||
	    !str_eq(str_cut(numbers[2], digits[0]), str_cut(numbers[3], digits[1])))
		return 0;
	// 6.17.9-arch1 is 6.17.9, and 6.17 may be any of its series.
	const size_t patch[] = { str_run(a_rest, char_digit), str_run(b_rest, char_digit) };
	return patch[0] && str_eq(str_cut(a_rest, patch[0]), str_cut(b_rest, patch[1])) ? 1 : same_series;
}

/** gfx1100 and gfx1101 are of one family: all but the last letter. */
static double part_alike(struct str a, struct str b)
{
	return str_eq(a, b) ? 1 : a.n == b.n && a.n > 5 && str_eq(str_cut(a, a.n - 1), str_cut(b, b.n - 1)) ? same_family : 0;
}

/** Marks all terms of a kind that are like @value, each as rare as all of them together. */
static void mark_alike(struct like_query *q, enum know_term_kind kind, struct str value,
		       double (*alike)(struct str a, struct str b))
{
	const struct know_terms *t = &q->know->base.terms;
	double defects = 0, same = 0;
	if (!value.n)
		return;
	q->known[kind] = value;
	for (size_t n = 0; n < t->list.len; n++) {
		const double fits = t->list.data[n].kind == (uint32_t)kind ? alike(t->list.data[n].text, value) : 0;
		defects += fits > 0 ? t->list.data[n].defects : 0;
		same += fits == 1 ? t->list.data[n].defects : 0;
	}
	for (size_t n = 0; n < t->list.len; n++) {
		const double fits = t->list.data[n].kind == (uint32_t)kind ? alike(t->list.data[n].text, value) : 0;
		const double worth = fits * cases_rarity(&q->know->base, fits == 1 ? same : defects);
		if (q->worth[n] < worth)
			q->worth[n] = worth;
	}
}

static struct str query_get(const struct like_query *q, const char *name, size_t index)
{
	struct str value = { 0 };
	return q->view->get(q->view->ctx, str_z(name), index, &value) ? value : (struct str){ 0 };
}

/** A fact as cases have it: FACT=VALUE. */
static void mark_fact(struct like_query *q, const struct fact *f)
{
	_cleanup_text_ struct text room = { 0 };
	text_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(f->name), STR_ARG(f->value));
	mark_term(q, term_find(&q->know->base.terms, TERM_CODE, text_str(&room)), 1);
	mark_term(q, term_find(&q->know->base.terms, TERM_NAME, f->value), 1);
	if (str_starts(f->name, S("fw_")) || str_is(f->name, "linux_firmware")) {
		struct str name = f->name;
		str_behind(name, S("fw_"), &name);
		text_clear(&room);
		text_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(str_is(name, "linux_firmware") ? S("linux-firmware") : name),
			    STR_ARG(f->value));
		mark_term(q, term_find(&q->know->base.terms, TERM_FIRMWARE, text_str(&room)), 1);
	}
	if (str_starts(f->name, S("param."))) {
		text_clear(&room);
		text_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(str_from(f->name, 6)), STR_ARG(f->value));
		mark_term(q, term_find(&q->know->base.terms, TERM_SETTING, text_str(&room)), 1);
	}
}

/** Whether the evidence has it near an event of the incident. */
static bool name_is_near(const struct incident *i, struct place at)
{
	uint64_t first = UINT64_MAX, last = 0;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct place event = i->events.data[n]->at;
		if (event.source != at.source)
			continue;
		first = event.line < first ? event.line : first;
		last = event.line > last ? event.line : last;
	}
	return last && at.line + NEAR_LINES >= first && at.line <= last + NEAR_LINES;
}

void query_of_incident(struct like_query *q)
{
	static const char *const programs[] = { "framework", "process", "program_name", "backend",
						"game",      "library", "compositor" };
	const struct incident *i = q->incident;
	const struct cases_asked *a = i->cases;
	like_mark(q, TERM_CLASS, i->cause->head.id, 1);
	for (size_t n = 0; n < i->also.len; n++)
		like_mark(q, TERM_CLASS, i->also.data[n], beside_cause);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		like_mark(q, TERM_EVENT, e->kind->head.id, 1);
		for (size_t f = 0; f < e->nfacts; f++)
			mark_fact(q, &e->facts[f]);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		mark_fact(q, &i->machine.data[n]);
	const struct str gfx = query_get(q, "gfx", 0), missing = query_get(q, "gfx_missing", 0);
	mark_alike(q, TERM_GFX, gfx.n ? gfx : missing, part_alike);
	mark_alike(q, TERM_KERNEL, query_get(q, "kernel", 0), version_alike);
	mark_alike(q, TERM_ROCM, query_get(q, "rocm", 0), version_alike);
	mark_alike(q, TERM_MESA, query_get(q, "mesa_version", 0), version_alike);
	for (size_t p = 0; p < ARRAY_SIZE(programs); p++)
		for (size_t n = 0; query_get(q, programs[p], n).n && n < 8; n++)
			mark_program(q, query_get(q, programs[p], n), 1);
	for (size_t n = 0; n < i->processes.len; n++)
		mark_program(q, i->processes.data[n].name, 1);
	for (size_t n = 0; a && n < a->names.len; n++)
		if (name_is_near(i, a->names.data[n].at))
			mark_term(q, a->names.data[n].term,
				  q->know->base.terms.list.data[a->names.data[n].term].kind == TERM_PROGRAM ? in_text : 1);
}

void query_of_case(struct like_query *q)
{
	bool class_seen = false;
	for (uint32_t n = 0; n < q->of->nterms; n++) {
		const struct know_term *t = &q->know->base.terms.list.data[q->of->terms[n]];
		const enum know_term_kind kind = (enum know_term_kind)t->kind;
		if (kind == TERM_GFX)
			mark_alike(q, kind, t->text, part_alike);
		else if (kind == TERM_KERNEL || kind == TERM_ROCM || kind == TERM_MESA)
			mark_alike(q, kind, t->text, version_alike);
		else if (kind != TERM_DIFFERS)
			like_mark(q, kind, t->text, kind == TERM_CLASS && class_seen ? beside_cause : 1);
		class_seen |= kind == TERM_CLASS;
	}
}
