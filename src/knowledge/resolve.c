// What one block says of another must exist.
#include "knowledge/resolve.h"

#include <stdlib.h>

#include "knowledge/matcher.h"
#include "knowledge/parameter.h"

static bool has_names(const struct know *k, struct str id)
{
	for (size_t i = 0; i < k->names.len; i++)
		if (str_eq(k->names.data[i]->head.id, id))
			return true;
	return false;
}

static const struct know_event *resolve_event(struct know *k, const struct know_head *head, struct str id,
					      struct know_problems *problems)
{
	const struct know_event *event = know_event(k, id);
	if (!event)
		know_problem(problems, head->file, head->line, "there is no event '" STR_FMT "'", STR_ARG(id));
	return event;
}

/** A signature that refers to nothing that does not exist is given to the matcher. */
static void resolve_signature(struct know *k, struct know_signature *s, struct know_problems *problems)
{
	unsigned before = problems->count;
	if (s->event_id.n)
		s->event = resolve_event(k, &s->head, s->event_id, problems);
	size_t n = 0;
	for (struct know_list *d = s->detail_ids; d && n < 4; d = d->next)
		s->details[n++] = resolve_event(k, &s->head, d->text, problems);
	for (size_t t = 0; t < s->ntemplates; t++)
		for (size_t i = 0; i < s->templates[t]->npieces; i++)
			if (s->templates[t]->pieces[i].type == VALUE_NAME && !has_names(k, s->templates[t]->pieces[i].table))
				know_problem(problems, s->head.file, s->templates[t]->line,
					     "'" STR_FMT "' is neither a type nor a table of names",
					     STR_ARG(s->templates[t]->pieces[i].table));
	if (problems->count != before) // nobody may match what refers to nothing
		s->ntemplates = 0;
	for (size_t t = 0; t < s->ntemplates; t++)
		if (!matcher_add(k->matcher, s->templates[t]))
			know_problem(problems, s->head.file, s->templates[t]->line,
				     "the message has no four characters in a row to find it by");
}

static void resolve_events(struct know *k, const struct know_head *head, const struct know_list *events,
			   struct know_problems *problems)
{
	for (; events; events = events->next)
		resolve_event(k, head, events->text, problems);
}

static const struct know_class *resolve_class(const struct know *k, const struct know_head *head, struct str id,
					      struct know_problems *problems)
{
	const struct know_class *class = know_class(k, id);
	if (!class)
		know_problem(problems, head->file, head->line, "there is no class or tag '" STR_FMT "'", STR_ARG(id));
	return class;
}

static void resolve_classes(const struct know *k, const struct know_head *head, const struct know_list *classes,
			    struct know_problems *problems)
{
	for (; classes; classes = classes->next)
		resolve_class(k, head, classes->text, problems);
}

static const struct know_stage *find_stage(const struct know *k, struct str id)
{
	for (size_t i = 0; i < k->stages.len; i++)
		if (str_eq(k->stages.data[i]->head.id, id))
			return k->stages.data[i];
	return NULL;
}

/** Each word of a rule is a stage or a class. */
static void resolve_lead(struct know *k, const struct know_lead *l, const struct know_list *words,
			 struct know_problems *problems)
{
	for (; words; words = words->next)
		if (!str_is(words->text, "*") && !find_stage(k, words->text) && !know_class(k, words->text))
			know_problem(problems, l->head.file, l->head.line, "'" STR_FMT "' is neither a stage nor a class",
				     STR_ARG(words->text));
}

static void resolve_cause(struct know *k, struct know_cause *c, struct know_problems *problems)
{
	static const struct know_class unknown;
	const struct know_class *class = resolve_class(k, &c->head, c->head.id, problems);
	c->class = class ? class : &unknown;
	static const struct know_stage nowhere = { .counts = BAND_UNEXPLAINED };
	const struct know_stage *stage = find_stage(k, c->stage_id);
	if (!stage)
		know_problem(problems, c->head.file, c->head.line, "there is no stage '" STR_FMT "'", STR_ARG(c->stage_id));
	c->stage = stage ? stage : &nowhere;
	resolve_events(k, &c->head, c->from, problems);
	resolve_events(k, &c->head, c->beside, problems);
	resolve_events(k, &c->head, c->without, problems);
}

/** Packets are put into their lists from the last to the first, so that the first stands first. */
static void resolve_packet(struct know *k, struct know_packet *p, struct know_problems *problems)
{
	const struct know_packet **first = &k->packets_of[p->language][p->opcode < 0 ? p->type : p->opcode];
	p->same = *first;
	*first = p;
	for (const struct know_packet_field *f = p->fields; f; f = f->next)
		if (f->table.n && !has_names(k, f->table))
			know_problem(problems, p->head.file, p->head.line,
				     "'" STR_FMT "' of field " STR_FMT " is neither a way to print nor a table of names",
				     STR_ARG(f->table), STR_ARG(f->name));
}

static void resolve_verdicts(const struct know *k, struct know_problems *problems)
{
	for (size_t i = 0; i < k->verdicts.len; i++) {
		const struct know_verdict *v = k->verdicts.data[i];
		if (v->event.n && !know_signature(k, v->event))
			know_problem(problems, v->head.file, v->head.line, "there is no signature '" STR_FMT "'",
				     STR_ARG(v->event));
	}
	for (size_t i = 0; i < k->units.len; i++)
		for (const struct know_pair *p = k->units.data[i]->waits; p; p = p->next)
			if (!know_unit(k, p->name))
				know_problem(problems, k->units.data[i]->head.file, k->units.data[i]->head.line,
					     "there is no unit '" STR_FMT "' to wait for", STR_ARG(p->name));
}

static bool has_vote(const struct know *k, struct str name)
{
	for (size_t i = 0; i < k->votes.len; i++)
		if (str_eq(k->votes.data[i]->head.id, name))
			return true;
	return false;
}

static void resolve_votes(const struct know *k, const struct know_work *w, const struct know_list *names,
			  struct know_problems *problems)
{
	for (; names; names = names->next)
		if (!has_vote(k, names->text))
			know_problem(problems, w->head.file, w->head.line, "there is no vote '" STR_FMT "'",
				     STR_ARG(names->text));
}

static const struct know_remedy *resolve_remedy(const struct know *k, const struct know_head *head, struct str id,
						struct know_problems *problems)
{
	const struct know_remedy *r = id.n ? know_remedy(k, id) : NULL;
	if (id.n && !r)
		know_problem(problems, head->file, head->line, "there is no remedy '" STR_FMT "'", STR_ARG(id));
	return r;
}

static void resolve_findings(const struct know *k, struct know_problems *problems)
{
	for (size_t i = 0; i < k->bad.len; i++)
		k->bad.data[i]->remedy = resolve_remedy(k, &k->bad.data[i]->head, k->bad.data[i]->remedy_id, problems);
	for (size_t i = 0; i < k->checks.len; i++) {
		struct know_check *c = k->checks.data[i];
		c->remedy = resolve_remedy(k, &c->head, c->remedy_id, problems);
		if (c->severity != SEVERITY_OK && !c->remedy && (!c->steps || !c->why.n || !c->grade.n || !c->source.n))
			know_problem(problems, c->head.file, c->head.line,
				     "'" STR_FMT "' lacks 'why', 'do', 'grade' or 'source', or the remedy that says it",
				     STR_ARG(c->head.id));
	}
}

static int by_name(const void *a, const void *b)
{
	return str_cmp((*(struct know_row *const *)a)->head.id, (*(struct know_row *const *)b)->head.id);
}

/** What reports a failure is worth the search for a mistyped line. */
static void list_typed(struct know *k)
{
	for (size_t i = 0; i < k->signatures.len; i++) {
		const struct know_signature *s = k->signatures.data[i];
		bool worth = (s->event || s->detail_ids) && !s->message && s->level == LEVEL_ERROR;
		for (size_t n = 0; worth && n < s->ntemplates; n++)
			if (s->templates[n]->pieces[0].literal.n)
				vec_push(&k->typed[know_letter(s->templates[n]->pieces[0].literal.p[0])], s->templates[n]);
	}
}

void know_resolve(struct know *k, struct know_problems *problems)
{
	if (k->months.len)
		qsort(k->months.data, k->months.len, sizeof(k->months.data[0]), by_name);
	for (size_t i = 0; i < k->signatures.len; i++)
		resolve_signature(k, k->signatures.data[i], problems);
	list_typed(k);
	const struct know_head own = { .file = "unhang" };
	resolve_event(k, &own, S(KNOW_EVENT_MESSAGE), problems);
	resolve_class(k, &own, S(KNOW_CLASS_RESET_LOOP), problems);
	for (size_t i = 0; i < k->events.len; i++)
		if (k->events.data[i]->tag.n)
			resolve_class(k, &k->events.data[i]->head, k->events.data[i]->tag, problems);
	for (size_t i = 0; i < k->causes.len; i++)
		resolve_cause(k, k->causes.data[i], problems);
	for (size_t i = 0; i < k->leads.len; i++) {
		resolve_lead(k, k->leads.data[i], k->leads.data[i]->from, problems);
		resolve_lead(k, k->leads.data[i], k->leads.data[i]->to, problems);
	}
	resolve_verdicts(k, problems);
	for (size_t i = 0; i < k->works.len; i++) {
		resolve_votes(k, k->works.data[i], k->works.data[i]->votes, problems);
		resolve_votes(k, k->works.data[i], k->works.data[i]->needs, problems);
	}
	for (size_t i = 0; i < k->remedies.len; i++)
		resolve_classes(k, &k->remedies.data[i]->head, k->remedies.data[i]->for_classes, problems);
	for (size_t i = 0; i < k->bad.len; i++)
		resolve_classes(k, &k->bad.data[i]->head, k->bad.data[i]->for_classes, problems);
	for (size_t i = 0; i < k->settings.len; i++)
		resolve_classes(k, &k->settings.data[i]->head, k->settings.data[i]->for_classes, problems);
	resolve_findings(k, problems);
	parameters_resolve(k, problems);
	for (size_t i = k->packets.len; i-- > 0;)
		resolve_packet(k, k->packets.data[i], problems);
}
