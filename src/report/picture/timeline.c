// Pictures of a course of events: when they were, where they are of one clock to scale, and how far each rank of a job came.
#include "report/picture/picture.h"
#include "report/text/prose.h"

enum { EVENTS_MOST = 200 };

/** Each clock has its own beginning: only one of them makes a scale. */
static bool on_scale(const struct incident *i, const struct diag_event *e)
{
	return e->time.clock != TIME_NONE && e->time.clock == i->begin.clock && e->time.seconds >= i->begin.seconds;
}

static void add_tick(const struct incident *i, const struct scale *s, size_t n, struct picture *p)
{
	const struct stamp time = { i->begin.clock, s->values.data[n] };
	_cleanup_text_ struct text label = { 0 };
	if (n)
		prose_elapsed(&label, i->begin, time);
	picture_tick(p, scale_at(s, time.seconds), n ? text_str(&label) : S("0"));
}

bool picture_of_timeline(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const enum picture_look looks[] = { [ROLE_CAUSE] = LOOK_BAD,
						   [ROLE_EFFECT] = LOOK_EFFECT,
						   [ROLE_ARTEFACT] = LOOK_UNKNOWN,
						   [ROLE_BYSTANDER] = LOOK_QUIET };
	static const char *const meanings[LOOKS] = { [LOOK_BAD] = "cause",
						     [LOOK_EFFECT] = "effect",
						     [LOOK_UNKNOWN] = "by-product",
						     [LOOK_QUIET] = "bystander",
						     [LOOK_GOOD] = NULL };
	static const struct uh_report_options plain = { 0 };
	const struct text_report t = { .diagnosis = d, .options = &plain };
	_cleanup_(scale_free) struct scale s = { 0 };
	picture_heads(p, "Time", "After", "Role", "Event", "What", "Where");
	const size_t n = i->events.len < EVENTS_MOST ? i->events.len : EVENTS_MOST;
	for (size_t k = 0; k < n; k++)
		if (on_scale(i, i->events.data[k]))
			scale_add(&s, i->events.data[k]->time.seconds);
	scale_ready(&s, NULL, 0, p);
	picture_track(p, S(""));
	for (size_t k = 0; k < n; k++) {
		const struct diag_event *e = i->events.data[k];
		_cleanup_text_ struct text clock = { 0 }, after = { 0 }, place = { 0 };
		prose_clock(&clock, prose_stamp(t.diagnosis, e));
		prose_elapsed(&after, i->begin, e->time);
		prose_place(&t, &place, e->at);
		picture_cells(p, text_str(&clock), text_str(&after), str_z(role_name(e->role)), e->kind->title, e->sentence,
			      str_trim(text_str(&place)));
		if (!on_scale(i, e))
			continue;
		const double at = scale_at(&s, e->time.seconds);
		p->looks[looks[e->role]] = meanings[looks[e->role]];
		picture_mark(p, (struct picture_mark){ 0, at, at, looks[e->role], e->kind->title });
	}
	// Both ends first: they have room in any case.
	for (size_t m = 0; m < s.values.len; m++)
		if (!m || m + 1 == s.values.len)
			add_tick(i, &s, m, p);
	for (size_t m = 1; m + 1 < s.values.len; m++)
		add_tick(i, &s, m, p);
	_cleanup_text_ struct text over = { 0 };
	prose_between(&over, i->begin, i->end);
	p->says = arena_printf(&p->arena, "%zu event%s%s" STR_FMT, i->events.len, i->events.len == 1 ? "" : "s",
			       over.n ? " within " : "", STR_ARG(text_str(&over)));
	return s.values.len > 1;
}

// The ranks of a job: how far each came, and who went first or lags.

enum { RANKS_MOST = 64 };

/** How far a rank came; -1: not known. */
static int64_t progress(const struct diag_rank *r)
{
	return r->completed >= 0 ? r->completed : r->seq >= 0 ? r->seq : r->enqueued;
}

static struct str timeline_name_of(struct picture *p, const struct diag_rank *r)
{
	if (r->rank.n)
		return arena_printf(&p->arena, "rank " STR_FMT, STR_ARG(r->rank));
	if (r->worker.n)
		return r->worker;
	return r->pid.n ? arena_printf(&p->arena, "pid " STR_FMT, STR_ARG(r->pid)) : r->who;
}

static enum picture_look timeline_look_of(const struct diag_rank *r)
{
	const struct str role = str_z(r->role);
	return str_is(role, "first")  ? LOOK_BAD :
	       str_is(role, "victim") ? LOOK_EFFECT :
	       progress(r) >= 0       ? LOOK_QUIET :
					LOOK_UNKNOWN;
}

/** Bars of how far each came, from below the least, so that a difference of one shows. */
static bool add_bars(struct picture *p, const struct diag_rank *const *ranks, size_t n)
{
	int64_t least = INT64_MAX, most = -1;
	for (size_t k = 0; k < n; k++) {
		const int64_t at = progress(ranks[k]);
		least = at >= 0 && at < least ? at : least;
		most = at > most ? at : most;
	}
	if (most < 0)
		return false;
	const double begin = (double)least - ((double)(most - least) / 4 + 1), all = (double)most - begin;
	for (size_t k = 0; k < n; k++) {
		const int64_t at = progress(ranks[k]);
		picture_mark(p, (struct picture_mark){
					k, 0, at >= 0 ? ((double)at - begin) / all : 1, timeline_look_of(ranks[k]),
					at >= 0 ? arena_printf(&p->arena, "%lld", (long long)at) : S("operation not known") });
	}
	return true;
}

/** When each failed first. */
static bool add_times(struct picture *p, const struct incident *i, const struct diag_rank *const *ranks, size_t n)
{
	_cleanup_(scale_free) struct scale s = { 0 };
	_cleanup_text_ struct text label = { 0 };
	for (size_t k = 0; k < n; k++)
		if (ranks[k]->first->time.clock == i->begin.clock && i->begin.clock != TIME_NONE)
			scale_add(&s, ranks[k]->first->time.seconds);
	scale_ready(&s, NULL, 0, p);
	for (size_t k = 0; k < n && s.values.len; k++) {
		const struct stamp time = ranks[k]->first->time;
		const double at = time.clock == i->begin.clock ? scale_at(&s, time.seconds) : 0;
		text_clear(&label);
		prose_elapsed(&label, i->begin, time);
		if (time.clock == i->begin.clock)
			picture_mark(p, (struct picture_mark){ k, at, at, timeline_look_of(ranks[k]), text_str(&label) });
	}
	return s.values.len;
}

/** Those to be drawn: whose fault it is first, however many there are. */
static size_t choose(const struct incident *i, const struct diag_rank *ret[static RANKS_MOST])
{
	size_t n = 0;
	for (int others = 0; others < 2; others++)
		for (size_t k = 0; k < i->ranks.len && n < RANKS_MOST; k++)
			if ((timeline_look_of(&i->ranks.data[k]) == LOOK_BAD) == !others)
				ret[n++] = &i->ranks.data[k];
	return n;
}

bool picture_of_ranks(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const meanings[LOOKS] = { [LOOK_BAD] = "first, or lags",
						     [LOOK_EFFECT] = "waited for it",
						     [LOOK_QUIET] = "how far it came",
						     [LOOK_UNKNOWN] = "not known" };
	const struct diag_rank *ranks[RANKS_MOST];
	const size_t n = choose(i, ranks);
	(void)d;
	if (i->ranks.len < 2)
		return false;
	picture_heads(p, "Process", "Role", "Operation", "Sequence", "Enqueued", "Completed", "After");
	for (size_t k = 0; k < n; k++) {
		picture_track(p, timeline_name_of(p, ranks[k]));
		const struct diag_rank *r = ranks[k];
		_cleanup_text_ struct text after = { 0 };
		prose_elapsed(&after, i->begin, r->first->time);
		picture_cells(p, timeline_name_of(p, r), r->role ? str_z(r->role) : S("not known"), r->collective,
			      picture_count(p, r->seq), picture_count(p, r->enqueued), picture_count(p, r->completed),
			      text_str(&after));
		p->looks[timeline_look_of(ranks[k])] = meanings[timeline_look_of(ranks[k])];
	}
	const bool bars = add_bars(p, ranks, n);
	p->says = arena_printf(&p->arena, "%zu processes, %s", i->ranks.len,
			       bars ? "by the number of the operation that each came to" : "by the time of their first report");
	return bars || add_times(p, i, ranks, n);
}
