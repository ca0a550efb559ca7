// Who is who: the role of the program that is named, the kind of work that failed, and whose fault that makes it. Each is what the first
// fitting block of knowledge says, so that nothing here knows a program, a ring or a class.
#include "diagnose/incident.h"

/** The fact that names the program that failed, where one of @patterns fits it. */
static const struct fact *program_like(const struct incident *i, const struct know_list *patterns)
{
	static const char *const names[] = { "process", "thread", "task", "binary" };
	for (; patterns; patterns = patterns->next)
		for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
			const struct fact *f = diag_fact(i->root, names[n]);
			if (f && str_glob(patterns->text, f->value))
				return f;
		}
	return NULL;
}

/** Puts a fact of context in the place of those that stand elsewhere, or say the same. */
static void replace_context(struct incident *i, const struct know_pair *says, struct place at)
{
	size_t kept = 0;
	for (size_t n = 0; n < i->machine.len; n++) {
		const struct fact *f = &i->machine.data[n];
		bool here = f->at.source == at.source && f->at.line == at.line;
		if (!str_eq(f->name, says->name) || (here && !str_eq(f->value, says->value)))
			i->machine.data[kept++] = *f;
	}
	i->machine.len = kept;
	incident_add_machine(i, (struct fact){ says->name, says->value, FACT_TEXT, at });
}

/** What the names of programs say of the work; it counts more than words in the text around it. */
static void take_programs(struct incident *i, const struct know *k)
{
	for (size_t c = 0; c < k->contexts.len; c++) {
		const struct fact *named = program_like(i, k->contexts.data[c]->processes);
		for (const struct know_pair *s = named ? k->contexts.data[c]->says : NULL; s; s = s->next) {
			replace_context(i, s, named->at);
			// Who acts on a role alone must know that a name says it, not a word somewhere in the text.
			if (str_is(s->name, "role"))
				replace_context(i, &(struct know_pair){ .name = S("named_role"), .value = s->value },
						named->at);
		}
	}
}

/** What only its cause says is as sure as the cause. */
static void find_fault(struct incident *i, const struct know *k, const struct fact_view *view)
{
	i->fault_confidence = str_is(i->fault, "unknown") ? 0 : i->confidence;
	i->fault_say = (struct str){ 0 };
	for (size_t n = 0; n < k->blames.len && !i->unattested; n++) {
		const struct know_blame *b = k->blames.data[n];
		if (condition_eval(b->when, view) != TRUTH_YES)
			continue;
		i->fault = b->fault;
		i->fault_say = b->say;
		i->fault_confidence = b->confidence;
		return;
	}
}

void incident_judge_work(struct incident *i, const struct know *k)
{
	const struct fact_view view = { incident_get, i };
	take_programs(i, k);
	i->work = (struct str){ 0 };
	for (size_t n = 0; n < k->work_kinds.len && !i->work.n; n++)
		if (condition_eval(k->work_kinds.data[n]->when, &view) == TRUTH_YES)
			i->work = k->work_kinds.data[n]->head.id;
	find_fault(i, k, &view);
}
