#include "diagnose/incident.h"

#include <stdlib.h>

const struct fact *diag_find(const struct diag_event *e, struct str name)
{
	for (size_t i = 0; i < e->nfacts; i++)
		if (str_eq(e->facts[i].name, name))
			return &e->facts[i];
	return NULL;
}

/** Names are few and recur: each is kept once. */
static struct str own_name(struct incident *i, struct str name)
{
	for (size_t n = 0; n < i->names.len; n++)
		if (str_eq(i->names.data[n], name))
			return i->names.data[n];
	struct str own = arena_str(&i->arena, name);
	vec_push(&i->names, own);
	return own;
}

struct str diag_value(const struct diag_event *e, const char *name)
{
	const struct fact *f = diag_fact(e, name);
	return f ? f->value : (struct str){ 0 };
}

void diag_set_fact(struct incident *i, struct diag_event *e, struct fact fact)
{
	if (e->nfacts == e->facts_cap) {
		size_t cap = e->facts_cap ? 2 * e->facts_cap : 8;
		struct fact *grown = arena_alloc(&i->arena, cap * sizeof(*grown));
		if (e->nfacts)
			memcpy(grown, e->facts, e->nfacts * sizeof(*grown));
		e->facts = grown;
		e->facts_cap = cap;
	}
	fact.name = own_name(i, fact.name);
	fact.value = arena_str(&i->arena, fact.value);
	e->facts[e->nfacts++] = fact;
}

void incident_add_machine(struct incident *i, struct fact fact)
{
	fact.name = arena_str(&i->arena, fact.name);
	fact.value = arena_str(&i->arena, fact.value);
	vec_push(&i->machine, fact);
}

void diag_conclude(struct incident *i, struct diag_event *e, const char *name, struct str value)
{
	if (value.n && !diag_fact(e, name))
		diag_set_fact(i, e, (struct fact){ str_z(name), value, FACT_TEXT, e->at, true });
}

void diag_set_note(struct incident *i, struct diag_event *e, const char *name, struct str text)
{
	for (struct diag_note *n = e->notes; n; n = n->next) {
		if (str_is(n->name, name)) {
			if (!str_eq(n->text, text))
				n->text = arena_str(&i->arena, text);
			return;
		}
	}
	struct diag_note *note = arena_alloc(&i->arena, sizeof(*note));
	*note = (struct diag_note){ str_z(name), arena_str(&i->arena, text), e->notes };
	e->notes = note;
}

bool diag_event_get(const void *event, struct str name, size_t index, struct str *ret_value)
{
	static const char *const phases[] = { "run", "probe", "reset", "sleep" };
	const struct diag_event *e = event;
	if (str_is(name, "at")) {
		*ret_value = str_z(phases[e->phase]);
		return index == 0;
	}
	if (str_is(name, "who")) {
		*ret_value = e->who;
		return index == 0 && e->who.n;
	}
	for (size_t i = 0; i < e->nfacts; i++) {
		if (str_eq(e->facts[i].name, name) && !index--) {
			*ret_value = e->facts[i].value;
			return true;
		}
	}
	for (const struct diag_note *n = e->notes; n; n = n->next) {
		if (str_eq(n->name, name) && !index--) {
			*ret_value = n->text;
			return true;
		}
	}
	return false;
}

static bool one(struct str value, size_t index, struct str *ret_value)
{
	*ret_value = value;
	return value.n && index == 0;
}

/** The index-th kind of evidence that the diagnosis does not have. */
static bool evidence_lacks(const struct incident *in, size_t index, struct str *ret_value)
{
	static const char *const kinds[] = { "kernel-log",     "debug-agent",     "rocgdb",    "flight-recorder",
					     "stacks",         "devcoredump",     "inventory", "container",
					     "kernel-api-log", "application-log", "gpu-core" };
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bool have = false;
		for (size_t n = 0; n < in->nevidence; n++)
			have |= str_is(in->evidence[n], kinds[i]);
		if (!have && !index--) {
			*ret_value = str_z(kinds[i]);
			return true;
		}
	}
	return false;
}

/** What a name of a condition or a sentence stands for in an incident. */
static const struct incident_name {
	const char *name;
	size_t at;
	enum { NAMES_TEXT, NAMES_FLAG } type; // struct str; bool, which is yes or nothing
} incident_names[] = {
	{ "program", offsetof(struct incident, program), NAMES_TEXT },
	{ "work", offsetof(struct incident, work), NAMES_TEXT },
	{ "before_log", offsetof(struct incident, before_log), NAMES_FLAG },
	{ "gfx", offsetof(struct incident, gpu.gfx), NAMES_TEXT },
	{ "part", offsetof(struct incident, gpu.name), NAMES_TEXT },
	{ "record_age", offsetof(struct incident, record_age), NAMES_TEXT },
	{ "serial", offsetof(struct incident, gpu.serial), NAMES_TEXT },
	{ "now", offsetof(struct incident, now), NAMES_FLAG },
	{ "unattested", offsetof(struct incident, unattested), NAMES_FLAG },
	{ "saved", offsetof(struct incident, saved), NAMES_FLAG },
	{ "ended", offsetof(struct incident, ended), NAMES_FLAG },
	{ "fault_space", offsetof(struct incident, fault_space), NAMES_FLAG },
	{ "long_past", offsetof(struct incident, long_past), NAMES_FLAG },
	{ "log_has_boot", offsetof(struct incident, log_has_boot), NAMES_FLAG },
	{ "event_reset", offsetof(struct incident, reset_began), NAMES_FLAG },
};

bool incident_get(const void *incident, struct str name, size_t index, struct str *ret_value)
{
	const struct incident *in = incident;
	const struct incident_name *known = list_find(incident_names, ARRAY_SIZE(incident_names), it, str_is(name, it->name));
	if (known) {
		const void *value = (const char *)in + known->at;
		if (known->type == NAMES_FLAG)
			return *(const bool *)value && one(S("yes"), index, ret_value);
		return one(*(const struct str *)value, index, ret_value);
	}
	for (size_t n = 0; n < in->answers.len; n++)
		if (str_eq(in->answers.data[n].question->fact, name))
			return one(in->answers.data[n].reply, index, ret_value);
	if (str_is(name, "explanation"))
		return in->leads && one(in->leads->head.id, index, ret_value);
	if (str_is(name, "class"))
		return in->cause && one(in->cause->head.id, index, ret_value);
	if (str_is(name, "apu"))
		return in->gpu.gfx.n && one(in->gpu.apu ? S("yes") : S("no"), index, ret_value);
	if (str_is(name, "also"))
		return index < in->also.len && one(in->also.data[index], 0, ret_value);
	if (str_is(name, "event"))
		return index < in->events.len && one(in->events.data[index]->kind->head.id, 0, ret_value);
	if (str_is(name, "evidence_lacks"))
		return evidence_lacks(in, index, ret_value);
	if (str_is(name, "evidence"))
		return index < in->nevidence && one(in->evidence[index], 0, ret_value);
	for (size_t i = 0; i < in->machine.len; i++) {
		if (str_eq(in->machine.data[i].name, name) && !index--) {
			*ret_value = in->machine.data[i].value;
			return true;
		}
	}
	// The root's facts first: they are what sentences about the incident mean.
	if (in->root) {
		if (diag_event_get(in->root, name, index, ret_value))
			return true;
		size_t skip;
		for (skip = 0; diag_event_get(in->root, name, skip, ret_value); skip++)
			;
		index -= skip;
	}
	for (size_t i = 0; i < in->events.len; i++) {
		const struct diag_event *e = in->events.data[i];
		for (size_t f = 0; f < e->nfacts && e != in->root && !e->unrelated; f++) {
			if (str_eq(e->facts[f].name, name) && !index--) {
				*ret_value = e->facts[f].value;
				return true;
			}
		}
	}
	return false;
}

bool incident_knows_machine(const struct incident *i)
{
	bool kernel = false, firmware = false;
	for (size_t n = 0; n < i->machine.len; n++) {
		kernel |= str_is(i->machine.data[n].name, "kernel");
		firmware |= str_starts(i->machine.data[n].name, S("fw_"));
	}
	return i->gpu.gfx.n && kernel && firmware;
}

bool incident_has_kernel_events(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (!i->events.data[n]->program)
			return true;
	return false;
}

struct str incident_fit(const struct incident *i)
{
	static const char *const words[] = { [FIT_UNKNOWN] = "unknown", [FIT_YES] = "yes", [FIT_NO] = "no" };
	return str_z(words[i->fit]);
}

/** What a diagnosis fills in anew each time that it advises: the members of a copy that are its own. */
#define EACH_ADVISED(each) each(remedies) each(settings) each(known) each(next) each(answers) each(explanations)

void incident_trial_begin(struct incident *trial, const struct incident *of)
{
	*trial = *of;
#define OWN(list) trial->list = (__typeof__(trial->list)){ 0 };
	EACH_ADVISED(OWN)
	OWN(machine)
	for (size_t n = 0; n < of->machine.len; n++)
		vec_push(&trial->machine, of->machine.data[n]);
}

void incident_trial_end(struct incident *trial, struct incident *of)
{
#define FREE(list) vec_free(&trial->list);
	EACH_ADVISED(FREE)
	FREE(machine)
	of->arena = trial->arena;
}

void incident_free(struct incident *i)
{
	if (!i)
		return;
	vec_free(&i->events);
	vec_free(&i->names);
	vec_free(&i->machine);
	vec_free(&i->other_gpus);
	vec_free(&i->ranks);
	vec_free(&i->also);
	vec_free(&i->processes);
	vec_free(&i->remedies);
	vec_free(&i->settings);
	vec_free(&i->known);
	vec_free(&i->like);
	vec_free(&i->next);
	vec_free(&i->answers);
	vec_free(&i->explanations);
	diag_changes_free(&i->changes);
	arena_free(&i->arena);
	free(i);
}
