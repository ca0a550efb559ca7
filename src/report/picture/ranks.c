// The ranks of a job: how far each came, and who went first or lags.
#include "report/picture/picture.h"
#include "report/text/parts.h"

enum { RANKS_MOST = 64 };

/** How far a rank came; -1: not known. */
static int64_t progress(const struct diag_rank *r)
{
	return r->completed >= 0 ? r->completed : r->seq >= 0 ? r->seq : r->enqueued;
}

static struct str name_of(struct picture *p, const struct diag_rank *r)
{
	if (r->rank.n)
		return arena_printf(&p->arena, "rank " STR_FMT, STR_ARG(r->rank));
	if (r->worker.n)
		return r->worker;
	return r->pid.n ? arena_printf(&p->arena, "pid " STR_FMT, STR_ARG(r->pid)) : r->who;
}

static enum picture_look look_of(const struct diag_rank *r)
{
	const struct str role = str_z(r->role);
	return str_is(role, "first")  ? LOOK_BAD :
	       str_is(role, "victim") ? LOOK_EFFECT :
	       progress(r) >= 0       ? LOOK_QUIET :
					LOOK_UNKNOWN;
}

static void add_row(struct picture *p, const struct incident *i, const struct diag_rank *r)
{
	struct text after = { 0 };
	picture_cell(p, name_of(p, r));
	picture_cell(p, r->role ? str_z(r->role) : S("not known"));
	picture_cell(p, r->collective);
	picture_count(p, r->seq);
	picture_count(p, r->enqueued);
	picture_count(p, r->completed);
	prose_elapsed(&after, i->begin, r->first->time);
	picture_cell(p, text_str(&after));
	text_free(&after);
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
		picture_mark(p, (struct picture_mark){ k, 0, at >= 0 ? ((double)at - begin) / all : 1, look_of(ranks[k]),
						       at >= 0 ? arena_printf(&p->arena, "%lld", (long long)at) :
								 S("operation not known") });
	}
	return true;
}

/** When each failed first. */
static bool add_times(struct picture *p, const struct incident *i, const struct diag_rank *const *ranks, size_t n)
{
	struct scale s = { 0 };
	struct text label = { 0 };
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
			picture_mark(p, (struct picture_mark){ k, at, at, look_of(ranks[k]), text_str(&label) });
	}
	const bool drawn = s.values.len;
	text_free(&label);
	scale_free(&s);
	return drawn;
}

/** Those to be drawn: whose fault it is first, however many there are. */
static size_t choose(const struct incident *i, const struct diag_rank *ret[static RANKS_MOST])
{
	size_t n = 0;
	for (int others = 0; others < 2; others++)
		for (size_t k = 0; k < i->ranks.len && n < RANKS_MOST; k++)
			if ((look_of(&i->ranks.data[k]) == LOOK_BAD) == !others)
				ret[n++] = &i->ranks.data[k];
	return n;
}

bool picture_of_ranks(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Process", "Role", "Operation", "Sequence", "Enqueued", "Completed", "After" };
	static const char *const meanings[LOOKS] = { [LOOK_BAD] = "first, or lags",
						     [LOOK_EFFECT] = "waited for it",
						     [LOOK_QUIET] = "how far it came",
						     [LOOK_UNKNOWN] = "not known" };
	const struct diag_rank *ranks[RANKS_MOST];
	const size_t n = choose(i, ranks);
	(void)d;
	if (i->ranks.len < 2)
		return false;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	for (size_t k = 0; k < n; k++) {
		picture_track(p, name_of(p, ranks[k]));
		add_row(p, i, ranks[k]);
		p->looks[look_of(ranks[k])] = meanings[look_of(ranks[k])];
	}
	const bool bars = add_bars(p, ranks, n);
	p->says = arena_printf(&p->arena, "%zu processes, %s", i->ranks.len,
			       bars ? "by the number of the operation that each came to" : "by the time of their first report");
	return bars || add_times(p, i, ranks, n);
}
