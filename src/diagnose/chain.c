// The chain of an incident: which event can have led to which, by knowledge/chains.know, and with that its cause: the earliest event
// that nothing else in the incident can have led to.
// How sure a cause is: what of the evidence speaks for it and against it, and what share of such answers was right.
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

// --- how sure it is ---

enum { NOT_THE_CAUSE = 40, HEARSAY = 70 };

/** Whether the log begins inside the reset, so that the cause is earlier than it. */
static bool cause_is_before_log(const struct incident *i)
{
	if (i->root->cause->stage->counts >= BAND_AFTERMATH)
		return true;
	if (i->reset_began || !i->reset_evidence)
		return i->root->phase == PHASE_RESET && !i->reset_began;
	return i->root->phase == PHASE_RESET || i->root->cause->stage->counts >= BAND_LATE;
}

/** Points of evidence as the percentage of answers with as many points that were right, between the rows of the table. */
static int calibrated(const struct know *k, int points)
{
	int64_t below = 0, at_below = 0, above = 100, at_above = 100;
	for (size_t n = 0; n < k->calibration.len; n++) {
		const struct know_row *row = k->calibration.data[n];
		int64_t p = 0, percent = 0;
		str_number(row->head.id, &p);
		str_number(row->value, &percent);
		if (p <= points && p >= below) {
			below = p;
			at_below = percent;
		}
		if (p >= points && p <= above) {
			above = p;
			at_above = percent;
		}
	}
	return (int)(above == below ? at_below : at_below + (at_above - at_below) * (points - below) / (above - below));
}

/** Points for a watch that saw nothing move for longer than a look takes. */
static int weigh_votes(const struct incident *i, struct text *why)
{
	enum { LONG_S = 30, POINTS = 15 };
	struct str stood = { 0 };
	int64_t seconds;
	if (!incident_get(i, S("stood_seconds"), 0, &stood) || !str_number(stood, &seconds) || seconds < LONG_S)
		return 0;
	text_printf(why, "nothing moved for " STR_FMT " s; ", STR_ARG(stood));
	return POINTS;
}

/** Whether something beside lines that a user could have forged says that the node is at fault. */
static bool node_attested(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		if (!e->unattested && e->cause && str_is(e->cause->fault, "node"))
			return true;
	}
	return false;
}

/** Whether there is a record of a hardware error, and nothing of the driver at that time. */
static bool told_by_record(const struct incident *i)
{
	bool alone = diag_fact(i->root, "cper_time") || diag_fact(i->root, "cper_file");
	for (size_t n = 0; n < i->events.len && alone; n++)
		alone = !i->events.data[n]->kind->hang;
	return alone;
}

void incident_weigh(struct incident *i, const struct know *k)
{
	_cleanup_text_ struct text why = { 0 };
	int percent = i->cause->confidence;
	const struct fact *agrees = diag_fact(i->root, "status_agrees"), *status = diag_fact(i->root, "fault_status");
	if (!status || (agrees && str_is(agrees->value, "unprinted")))
		agrees = NULL;
	if (agrees && str_is(agrees->value, "yes")) {
		percent += 5;
		text_printf(&why, "fault status " STR_FMT " agrees with the message; ", STR_ARG(status->value));
	} else if (agrees) {
		percent -= 20;
		text_printf(&why, "fault status " STR_FMT " contradicts the message; ", STR_ARG(status->value));
	}
	if (i->joined_by.n)
		text_printf(&why, STR_FMT "; ", STR_ARG(i->joined_by));
	if (!i->vendor_known) {
		percent -= 15;
		text_add(&why, S("nothing says that the GPU is AMD's; "));
	}
	i->before_log = cause_is_before_log(i);
	i->fault = i->before_log ? S("unknown") : i->cause->fault;
	i->unattested = str_is(i->fault, "node") && !node_attested(i);
	if (i->unattested) {
		percent = percent < HEARSAY ? percent : HEARSAY;
		i->fault = S("unknown");
		text_add(&why, S("its messages carry no device, which alone does not make it the node's fault; "));
	}
	if (i->before_log) {
		percent = percent < NOT_THE_CAUSE ? percent : NOT_THE_CAUSE;
		text_add(&why, i->log_has_boot ? S("the log of this boot does not show the cause; ") :
						 S("this log begins after the cause; "));
	} else if (incident_proof(i)) {
		text_printf(&why, STR_FMT "; ", STR_ARG(incident_proof(i)->value));
	} else if (i->root->now) {
		struct str looks = diag_value(i->root, "looks"), seconds = diag_value(i->root, "seconds");
		percent += weigh_votes(i, &why);
		if (str_is(looks, "0")) // what is off the bus is not looked at
			looks.n = 0;
		if (looks.n)
			text_printf(&why, str_is(looks, "1") ? "seen in a single look" : "the same in all " STR_FMT " looks",
				    STR_ARG(looks));
		if (looks.n && seconds.n && !str_is(looks, "1"))
			text_printf(&why, " within " STR_FMT " s", STR_ARG(seconds));
		text_add(&why, looks.n ? S("; ") : S(""));
	} else if (told_by_record(i)) {
		text_add(&why, S("records outlive their errors, and no message of the driver confirms this one; "));
	} else if (!incident_has_kernel_events(i) && calibrated(k, percent) < CONFIDENCE_HIGH) {
		text_add(&why, S("no message of the driver confirms it; "));
	} else if (i->root == i->events.data[0] ||
		   (i->root->at.source == i->events.data[0]->at.source && i->root->at.line <= i->events.data[0]->at.line)) {
		text_add(&why, i->log_has_boot ? S("it is the first error of this boot; ") :
						 S("it is the first error in this log; "));
	} else {
		text_add(&why, S("nothing before it in this log can have caused it; "));
	}
	bool lacks = false; // what could change the answer
	if (incident_proof(i)) {
		; // whatever the log says
	} else if (!incident_has_kernel_events(i)) {
		text_add(&why, S("the kernel log of that time is missing; "));
		lacks = i->root->kind->log_decides;
	} else if (!i->log_has_boot && !incident_knows_machine(i)) {
		text_add(&why, S("the boot messages (part, kernel, firmware) are missing; "));
		lacks = i->root->kind->machine_decides;
	}
	if (i->cause->stage->counts < BAND_UNEXPLAINED && !i->before_log && i->events.len > 3)
		percent += 3;
	percent = calibrated(k, percent > 97 ? 97 : percent < 10 ? 10 : percent);
	i->confidence = lacks && percent >= CONFIDENCE_HIGH ? CONFIDENCE_HIGH - 1 : percent;
	why.n = why.n > 2 ? why.n - 2 : 0;
	i->sure = arena_str(&i->arena, text_str(&why));
}

static bool log_speaks_of(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (!i->events.data[n]->program && !i->events.data[n]->now)
			return true;
	return false;
}

void incident_weigh_log(struct incident *i, bool read)
{
	if (!i->root->now || i->before_log)
		return;
	const char *log = !read            ? "the kernel log could not be read" :
			  log_speaks_of(i) ? "the kernel log shows its effects and no cause" :
					     "nothing in the kernel log explains it";
	i->sure = arena_printf(&i->arena, STR_FMT "%s%s", STR_ARG(i->sure), i->sure.n ? "; " : "", log);
}
