// The chain of an incident: which event can have led to which, by knowledge/chains.know, and with that its cause: the earliest event
// that nothing else in the incident can have led to.
#include "diagnose/chain.h"

/** Seconds from @a to @b; false where the evidence does not tell. */
static bool seconds_between(const struct diag_event *a, const struct diag_event *b, double *ret)
{
	if (a->time.clock == TIME_NONE || a->time.clock != b->time.clock)
		return false;
	*ret = b->time.seconds - a->time.seconds;
	return true;
}

static bool stage_listed(const struct know_list *list, const struct know_cause *c)
{
	for (; list; list = list->next)
		if (str_is(list->text, "*") || str_eq(list->text, c->stage->head.id) || str_eq(list->text, c->head.id))
			return true;
	return false;
}

/** Whether @effect may be told where it is: behind its cause, or before it by as much as the rule allows. */
static bool in_time(const struct know_lead *l, const struct diag_event *cause, const struct diag_event *effect)
{
	double seconds;
	if (seconds_between(cause, effect, &seconds))
		return seconds <= l->within && seconds >= -(double)l->late;
	// Lines of one text have an order; of two texts without a common clock nothing is known, and the rule alone decides.
	return cause->at.source != effect->at.source || cause->at.line <= effect->at.line || l->late;
}

static bool at_phase(const struct know_lead *l, const struct diag_event *effect)
{
	struct str phase;
	if (!l->at)
		return true;
	diag_event_get(effect, S("at"), 0, &phase);
	for (const struct know_list *at = l->at; at; at = at->next)
		if (str_eq(at->text, phase))
			return true;
	return false;
}

const struct know_lead *chain_lead(const struct know *k, const struct diag_event *cause, const struct diag_event *effect)
{
	for (size_t n = 0; n < k->leads.len; n++) {
		const struct know_lead *l = k->leads.data[n];
		if (stage_listed(l->from, cause->cause) && stage_listed(l->to, effect->cause) && in_time(l, cause, effect) &&
		    at_phase(l, effect))
			return l;
	}
	return NULL;
}

/** Whether @a stands before @b: by time, else by the order in which the incident has them. */
static bool stands_before(const struct incident *i, size_t a, size_t b)
{
	double seconds;
	if (seconds_between(i->events.data[a], i->events.data[b], &seconds) && seconds != 0)
		return seconds > 0;
	return a < b;
}

/** What can have led to the event; of two that could have led to each other, the one that stands before. */
static void find_lead(const struct incident *i, const struct know *k, size_t at)
{
	struct diag_event *e = i->events.data[at];
	e->lead = NULL;
	e->led_by = NULL;
	for (size_t n = 0; n < i->events.len && !e->led_by; n++) {
		struct diag_event *f = i->events.data[n];
		if (n == at || !f->cause || f->cause == e->cause)
			continue;
		const struct know_lead *l = chain_lead(k, f, e);
		if (!l || (chain_lead(k, e, f) && stands_before(i, at, n)))
			continue;
		e->lead = l;
		e->led_by = f;
	}
}

/** Lower is nearer to the beginning. What happened inside a reset did not lead to it, and what only shows that there was one explains
 * nothing, as long as there is anything else. */
static int own_remoteness(const struct diag_event *e)
{
	bool inside = e->phase == PHASE_RESET && e->kind->in_reset != ROLE_CAUSE;
	bool after = e->cause->stage->counts >= BAND_AFTERMATH;
	return (after ? 4 : 0) + (inside ? 2 : 0) + (e->led_by ? 1 : 0);
}

/** A log may begin inside a reset: then what followed the reset is no nearer to the beginning than what led to it. */
static int remoteness(const struct diag_event *e)
{
	double seconds;
	bool told_before = e->led_by && seconds_between(e->led_by, e, &seconds) && seconds > 0;
	int mine = own_remoteness(e), before = told_before ? own_remoteness(e->led_by) : -1;
	return mine > before ? mine : before + 1;
}

struct diag_event *chain_root(struct incident *i, const struct know *k)
{
	size_t root = 0;
	bool any = false;
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->cause)
			find_lead(i, k, n);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		if (!e->cause)
			continue;
		int mine = remoteness(e), other = any ? remoteness(i->events.data[root]) : 0;
		if (!any || mine < other || (mine == other && stands_before(i, n, root)))
			root = n;
		any = true;
	}
	return any ? i->events.data[root] : NULL;
}
