// What the processes of one job say together: which went first, whether all mean one GPU or every GPU failed at once,
// and which rank is behind the others in their collective operations.
#include <stdio.h>
#include <stdlib.h>

#include "diagnose/incident.h"
#include "diagnose/join_merge.h"

enum { RANKS_SHOWN = 8 };

/** If every GPU fails within this many seconds, it is one bug, not one failure after the other. */
static const double at_once = 0.5;

/** What tells the events of one process from those of another. */
static struct str identity(const struct diag_event *e)
{
	static const char *const names[] = { "rank", "group_rank", "worker", "agent", "pid" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct str value = diag_value(e, names[i]);
		if (value.n)
			return value;
	}
	return (struct str){ 0 };
}

static bool speaks_for_rank(const struct diag_event *e) { return e->kind->of_rank && identity(e).n; }

/** Whether an event of another source tells of a fault that a process is known by: the runtime's log has no pid, its recording has. Two
 * processes of a job may fault at the same address, but on different GPUs, or one source tells of both. */
static bool same_fault(const struct diag_rank *r, const struct diag_event *e)
{
	uint64_t page, other;
	struct str node = diag_value(e, "gpu_node");
	return r->first->at.source != e->at.source && !(r->alias.n && r->alias_of == e->at.source) &&
	       diag_page(r->first, &page) && diag_page(e, &other) && page == other &&
	       (!node.n || !r->node.n || str_eq(r->node, node)) && !(diag_value(r->first, "pid").n && diag_value(e, "pid").n);
}

static struct diag_rank *rank_for(struct incident *i, const struct diag_event *e)
{
	struct str who = identity(e), group = diag_value(e, "group");
	for (size_t n = 0; n < i->ranks.len; n++)
		if ((str_eq(i->ranks.data[n].who, who) || (i->ranks.data[n].alias.n && str_eq(i->ranks.data[n].alias, who))) &&
		    (!group.n || !i->ranks.data[n].group.n || str_eq(i->ranks.data[n].group, group))) {
			if (group.n)
				i->ranks.data[n].group = group;
			return &i->ranks.data[n];
		}
	for (size_t n = 0; n < i->ranks.len; n++)
		if (same_fault(&i->ranks.data[n], e)) {
			i->ranks.data[n].alias = who;
			i->ranks.data[n].alias_of = e->at.source;
			return &i->ranks.data[n];
		}
	struct diag_rank r = { .who = who, .group = group, .first = e, .enqueued = -1, .completed = -1, .seq = -1 };
	vec_push(&i->ranks, r);
	return &i->ranks.data[i->ranks.len - 1];
}

static void explain_ranks_take_number(const struct diag_event *e, const char *name, int64_t *to, bool largest)
{
	int64_t n;
	if (str_number(diag_value(e, name), &n) && (*to < 0 || (largest ? n > *to : n < *to)))
		*to = n;
}

static void explain_ranks_take_event(struct incident *i, const struct diag_event *e)
{
	struct diag_rank *r = rank_for(i, e);
	r->rank = r->rank.n ? r->rank : diag_value(e, "rank").n ? diag_value(e, "rank") : diag_value(e, "group_rank");
	r->pid = r->pid.n ? r->pid : diag_value(e, "pid");
	r->worker = r->worker.n ? r->worker : diag_value(e, "worker");
	r->node = r->node.n ? r->node : diag_value(e, "gpu_node");
	r->collective = r->collective.n ? r->collective : diag_value(e, "collective");
	explain_ranks_take_number(e, "seq", &r->seq, false);
	explain_ranks_take_number(e, "enqueued", &r->enqueued, true);
	explain_ranks_take_number(e, "completed", &r->completed, true);
}

static int explain_ranks_by_rank(const void *a, const void *b)
{
	const struct diag_rank *x = a, *y = b;
	int64_t m, n;
	if (str_number(x->who, &m) && str_number(y->who, &n) && m != n)
		return m < n ? -1 : 1;
	int order = str_cmp(x->group, y->group);
	return order ? order : str_cmp(x->who, y->who);
}

static bool same_clock(struct stamp a, struct stamp b) { return a.clock == b.clock && a.clock != TIME_NONE; }

static struct str explain_ranks_name_of(struct incident *i, const struct diag_rank *r)
{
	if (r->rank.n)
		return arena_printf(&i->arena, "rank " STR_FMT, STR_ARG(r->rank));
	if (r->worker.n)
		return r->worker;
	if (r->node.n)
		return arena_printf(&i->arena, "the process of node-" STR_FMT, STR_ARG(r->node));
	return arena_printf(&i->arena, "process " STR_FMT, STR_ARG(r->who));
}

// --- faults ---

static bool is_fault(const struct diag_rank *r) { return r->seq < 0 && r->enqueued < 0 && r->completed < 0; }

enum { NODES_MAX = 64 };

/** The GPUs that faulting ranks name, in order; returns how many. */
static size_t faulting_nodes(const struct incident *i, struct text *ret_list)
{
	int64_t nodes[NODES_MAX];
	size_t count = 0;
	for (size_t n = 0; n < i->ranks.len; n++) {
		int64_t node;
		bool known = !is_fault(&i->ranks.data[n]) || !str_number(i->ranks.data[n].node, &node) || count == NODES_MAX;
		for (size_t m = 0; m < count && !known; m++)
			known = nodes[m] == node;
		if (!known)
			nodes[count++] = node;
	}
	qsort(nodes, count, sizeof(nodes[0]), compare_numbers);
	for (size_t n = 0; n < count; n++)
		text_printf(ret_list, "%s%lld", n ? ", " : "", (long long)nodes[n]);
	return count;
}

/** The first of the faulting ranks by time; NULL where their times do not tell. */
static struct diag_rank *first_to_fault(struct incident *i, double *ret_span, double *ret_lead)
{
	struct diag_rank *first = NULL;
	double last = 0, second = -1;
	for (size_t n = 0; n < i->ranks.len; n++) {
		struct diag_rank *r = &i->ranks.data[n];
		if (!is_fault(r))
			continue;
		if (r->first->time.clock == TIME_NONE || (first && !same_clock(r->first->time, first->first->time)))
			return NULL;
		if (!first || r->first->time.seconds < first->first->time.seconds)
			first = r;
		last = r->first->time.seconds > last ? r->first->time.seconds : last;
	}
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct diag_rank *r = &i->ranks.data[n];
		if (is_fault(r) && r != first && (second < 0 || r->first->time.seconds < second))
			second = r->first->time.seconds;
	}
	if (first) {
		*ret_span = last - first->first->time.seconds;
		*ret_lead = second < 0 ? 0 : second - first->first->time.seconds;
	}
	return first;
}

/** Processes that are not known as ranks of one job may have run one after the other: then none failed because of another, and the same
 * program fails again on whichever GPU it uses. */
static bool is_one_job(const struct incident *i)
{
	for (size_t n = 0; n < i->ranks.len; n++)
		if (is_fault(&i->ranks.data[n]) && !i->ranks.data[n].rank.n && !i->ranks.data[n].worker.n)
			return false;
	return true;
}

static void judge_faults(struct incident *i, struct text *note)
{
	_cleanup_text_ struct text nodes = { 0 };
	size_t faults = 0, distinct = faulting_nodes(i, &nodes);
	double span = 0, lead = 0;
	for (size_t n = 0; n < i->ranks.len; n++)
		faults += is_fault(&i->ranks.data[n]);
	struct diag_rank *first = first_to_fault(i, &span, &lead);
	if (faults > 1 && distinct == 1 && is_one_job(i))
		text_printf(note, "All %zu processes name the same GPU (node-" STR_FMT "): suspect that GPU, not their code. ",
			    faults, STR_ARG(text_str(&nodes)));
	else if (faults > 1 && distinct == 1)
		text_printf(note,
			    "%zu processes failed on GPU node-" STR_FMT
			    ": if other programs fail there too, suspect the card. ",
			    faults, STR_ARG(text_str(&nodes)));
	else if (distinct > 1 && first && span <= at_once)
		text_printf(note,
			    "%zu GPUs (nodes " STR_FMT
			    ") failed within %.0f ms: the same bug on all of them, not one bad GPU. ",
			    distinct, STR_ARG(text_str(&nodes)), span * 1000);
	else if (distinct > 2 && !first)
		text_printf(note,
			    "%zu GPUs failed (nodes " STR_FMT
			    ") and nothing says which was first: a bug in all ranks is likelier than that "
			    "many bad GPUs. ",
			    distinct, STR_ARG(text_str(&nodes)));
	if (faults > 1 && first && (span > at_once || distinct < 2) && lead > 0 && (distinct != 1 || is_one_job(i))) {
		struct str name = explain_ranks_name_of(i, first);
		text_printf(note,
			    "The first was " STR_FMT ", %.3g s before the next; the others may have failed because of it. ",
			    STR_ARG(name), lead);
		for (size_t n = 0; n < i->ranks.len; n++)
			i->ranks.data[n].role = &i->ranks.data[n] == first ? "first" : "victim";
	} else if (first && faults > 1) {
		first->role = "first";
	}
}

// --- collectives ---

static int64_t explain_ranks_progress_of(const struct diag_rank *r) { return r->enqueued >= 0 ? r->enqueued : r->seq; }

static bool has_rank(const struct incident *i, struct str group, int64_t rank)
{
	int64_t number;
	for (size_t n = 0; n < i->ranks.len; n++)
		if (str_eq(i->ranks.data[n].group, group) && str_number(i->ranks.data[n].rank, &number) && number == rank)
			return true;
	return false;
}

/** The ranks below @all that a group lacks, as a list. */
static void ranks_missing(const struct incident *i, struct str group, int64_t all, struct text *ret)
{
	size_t missing = 0;
	for (int64_t rank = 0; rank < all && missing <= RANKS_SHOWN; rank++)
		if (!has_rank(i, group, rank) && missing++ < RANKS_SHOWN)
			text_printf(ret, "%s%lld", ret->n ? ", " : "", (long long)rank);
	if (missing > RANKS_SHOWN)
		text_add(ret, S(" and more"));
}

/** @all: how many ranks there are, as far as the evidence tells; 0: it does not. */
static void judge_in_step(struct incident *i, struct str group, int64_t operation, int64_t all, struct text *note)
{
	_cleanup_text_ struct text missing = { 0 };
	ranks_missing(i, group, all, &missing);
	if (missing.n)
		text_printf(note,
			    "There is no report of rank " STR_FMT
			    " here: look there first. The others are all at operation %lld. ",
			    STR_ARG(text_str(&missing)), (long long)operation);
	else
		text_printf(note,
			    "The ranks that report are all at operation %lld: none of them lags. So a link, the network or a "
			    "GPU is "
			    "stuck inside the operation, or a rank is stuck that is not in this evidence. ",
			    (long long)operation);
	diag_conclude(i, i->root, "ranks_in_step", missing.n ? (struct str){ 0 } : S("yes"));
	diag_conclude(i, i->root, "ranks_missing", text_str(&missing));
}

/** The incident is told by what lags, where that has an event of the same cause: title and timeline then name one operation. */
static void explain_ranks_take_root(struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct diag_rank *r = e->cause == i->cause && speaks_for_rank(e) ? rank_for(i, e) : NULL;
		if (r && r->role && !strcmp(r->role, "first")) {
			i->root = e;
			return;
		}
	}
}

/** How far a rank came: the last operation that it started, or the one that it waits for. */
static int64_t reached(const struct diag_rank *r, bool started) { return started ? r->enqueued : r->seq; }

/** The ranks of a group that wait in an operation. */
struct rank_waiting {
	size_t n, started, late, numbered; // all; those whose last started, whose late operation, whose own number is known
	int64_t low, high, highest_rank, operation;
};

static struct rank_waiting count_waiting(const struct incident *i, struct str group)
{
	struct rank_waiting w = { .low = INT64_MAX, .high = -1, .highest_rank = -1, .operation = -1 };
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct diag_rank *r = &i->ranks.data[n];
		int64_t number;
		if (!str_eq(r->group, group) || explain_ranks_progress_of(r) < 0)
			continue;
		w.n++;
		w.started += r->enqueued >= 0;
		w.late += r->seq >= 0;
		w.operation = r->seq > w.operation ? r->seq : w.operation;
		if (str_number(r->rank, &number) && number < INT32_MAX) {
			w.numbered++;
			w.highest_rank = number > w.highest_rank ? number : w.highest_rank;
		}
	}
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct diag_rank *r = &i->ranks.data[n];
		const int64_t at = reached(r, w.started == w.n);
		if (!str_eq(r->group, group) || explain_ranks_progress_of(r) < 0)
			continue;
		w.low = at < w.low ? at : w.low;
		w.high = at > w.high ? at : w.high;
	}
	return w;
}

static void judge_lagging(struct incident *i, struct str group, const struct rank_waiting *w, struct text *note)
{
	const bool started = w->started == w->n;
	_cleanup_text_ struct text behind = { 0 };
	size_t n_behind = 0;
	for (size_t n = 0; n < i->ranks.len; n++) {
		struct diag_rank *r = &i->ranks.data[n];
		if (!str_eq(r->group, group) || explain_ranks_progress_of(r) < 0)
			continue;
		r->role = reached(r, started) == w->low ? "first" : "victim";
		if (reached(r, started) == w->low && n_behind++ < RANKS_SHOWN)
			text_printf(&behind, "%s" STR_FMT, behind.n ? ", " : "", STR_ARG(r->who));
	}
	text_printf(note,
		    "The ranks are out of step: rank%s " STR_FMT
		    " %s operation %lld, others %s%lld. What lags is the cause; the others wait for it. ",
		    n_behind > 1 ? "s" : "", STR_ARG(text_str(&behind)),
		    started      ? "last started" :
		    n_behind > 1 ? "are at" :
				   "is at",
		    (long long)w->low, started ? "" : "at ", (long long)w->high);
	explain_ranks_take_root(i);
	diag_conclude(i, i->root, "lagging_ranks", text_str(&behind));
}

/** Whether ranks of one group are behind the others. What one has started is not held against what another waits for. */
static void judge_group(struct incident *i, struct str group, struct text *note)
{
	const struct rank_waiting w = count_waiting(i, group);
	struct str all;
	int64_t ranks;
	if (w.n < 2 || (w.started < w.n && w.late < w.n))
		return;
	if (w.low < w.high) {
		judge_lagging(i, group, &w, note);
		return;
	}
	if (!incident_get(i, S("nranks"), 0, &all) || !str_number(all, &ranks))
		ranks = w.highest_rank + 1;
	judge_in_step(i, group, w.late ? w.operation : w.low, w.numbered == w.n ? ranks : 0, note);
}

/** Numbers count within a group. Where groups are named, lines without one are left out, unless there is only one. */
static void judge_collectives(struct incident *i, struct text *note)
{
	struct str only = { 0 };
	bool several = false;
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct str group = i->ranks.data[n].group;
		if (!group.n || explain_ranks_progress_of(&i->ranks.data[n]) < 0)
			continue;
		several |= only.n && !str_eq(only, group);
		only = group;
	}
	for (size_t n = 0; n < i->ranks.len && !several; n++)
		if (!i->ranks.data[n].group.n)
			i->ranks.data[n].group = only;
	for (size_t n = 0; n < i->ranks.len; n++) {
		bool seen = several && !i->ranks.data[n].group.n;
		for (size_t m = 0; m < n; m++)
			seen |= str_eq(i->ranks.data[m].group, i->ranks.data[n].group);
		if (!seen)
			judge_group(i, i->ranks.data[n].group, note);
	}
}

/** Whether a rank failed, and others waited for it in an operation: how far they came tells nothing then. */
static bool blame_fault(struct incident *i)
{
	struct diag_rank *r = speaks_for_rank(i->root) ? rank_for(i, i->root) : NULL;
	bool waited = false;
	for (size_t n = 0; r && is_fault(r) && n < i->ranks.len; n++)
		if (explain_ranks_progress_of(&i->ranks.data[n]) >= 0) {
			i->ranks.data[n].role = "victim";
			waited = true;
		}
	if (waited && !r->role)
		r->role = "first";
	return waited;
}

/** What lags or failed first is the cause; the events of the others follow from it. */
static void explain_ranks_assign_roles(struct incident *i)
{
	bool any_first = false;
	for (size_t n = 0; n < i->ranks.len; n++)
		any_first |= i->ranks.data[n].role && !strcmp(i->ranks.data[n].role, "first");
	for (size_t n = 0; n < i->events.len && any_first; n++) {
		struct diag_event *e = i->events.data[n];
		const struct diag_rank *r = speaks_for_rank(e) ? rank_for(i, e) : NULL;
		if (r && r->role && (e->role == ROLE_CAUSE || e->role == ROLE_EFFECT) && e->cause == i->cause)
			e->role = strcmp(r->role, "first") ? ROLE_EFFECT : ROLE_CAUSE;
		else if (r && r->role && !strcmp(r->role, "first") && explain_ranks_progress_of(r) >= 0 && !e->cause)
			e->role = ROLE_CAUSE; // its trace has nothing pending: that is what is wrong with it
	}
}

void ranks_explain(struct incident *i)
{
	_cleanup_text_ struct text note = { 0 };
	i->ranks.len = 0;
	for (size_t n = 0; n < i->events.len; n++)
		if (speaks_for_rank(i->events.data[n]))
			explain_ranks_take_event(i, i->events.data[n]);
	if (i->ranks.len > 1)
		qsort(i->ranks.data, i->ranks.len, sizeof(i->ranks.data[0]), explain_ranks_by_rank);
	judge_faults(i, &note);
	if (!blame_fault(i))
		judge_collectives(i, &note);
	explain_ranks_assign_roles(i);
	if (note.n > 1)
		diag_set_note(i, i->root, "ranks_note", (struct str){ note.p, note.n - 1 });
}
