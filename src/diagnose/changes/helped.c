#include "diagnose/changes/helped.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

static const double week = 7 * 86400, burst = 3600, spread_unknown = 2, confidence = 0.95;
/** After how many hours of work of each GPU a verdict is given, and the error that is allowed there: 5 % in all. */
static const struct {
	double hours, error;
} looks[] = { { 25, 0.0025 }, { 50, 0.005 }, { 100, 0.0125 }, { 200, 0.03 } };
enum { LOOKS = sizeof(looks) / sizeof(looks[0]), WEEKS_LEAST = 3 };

static double shared_hours(const struct helped_work *w, double from, double until)
{
	const double begin = w->from > from ? w->from : from, end = w->until < until ? w->until : until;
	return end > begin && w->until > w->from ? w->hours * (end - begin) / (w->until - w->from) : 0;
}

double helped_hours(const struct helped_history *h, double from, double until)
{
	double hours = 0;
	for (size_t n = 0; n < h->nwork; n++)
		hours += shared_hours(&h->work[n], from, until);
	return hours;
}

/** When so many hours of work were done since @from; 0: they were not. */
static double when_hours(const struct helped_history *h, double from, double hours)
{
	double low = from, high = h->until;
	if (helped_hours(h, from, high) < hours)
		return 0;
	for (int n = 0; n < 60 && high - low > 1; n++) {
		const double middle = low + (high - low) / 2;
		if (helped_hours(h, from, middle) < hours)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static bool is_of(const struct helped_event *e, int kind) { return kind < 0 || e->kind == (unsigned)kind; }

/** Whether it goes on with what had happened on its machine just before. */
static bool goes_on(const struct helped_history *h, size_t n, int kind)
{
	const struct helped_event *e = &h->events[n];
	while (n-- > 0 && e->when - h->events[n].when <= burst)
		if (h->events[n].machine == e->machine && is_of(&h->events[n], kind))
			return true;
	return false;
}

/** How many episodes of a kind there are in a time. */
static unsigned episodes(const struct helped_history *h, int kind, double from, double until)
{
	unsigned n = 0;
	for (size_t i = 0; i < h->nevents; i++) {
		const struct helped_event *e = &h->events[i];
		n += e->when >= from && e->when < until && is_of(e, kind) && !goes_on(h, i, kind);
	}
	return n;
}

/** The variance of what comes in a week, by its mean: 1 for what comes by chance. Weeks without work do not count. */
static double spread_of(const struct helped_history *h, int kind)
{
	double sum = 0, squares = 0;
	unsigned weeks = 0;
	for (double end = h->change; end - week >= h->since; end -= week) {
		if (helped_hours(h, end - week, end) <= 0)
			continue;
		const double n = episodes(h, kind, end - week, end);
		sum += n;
		squares += n * n;
		weeks++;
	}
	// So few weeks do not tell. Then they differ as waits do, by as much as their mean: of a fleet that is a lot.
	if (weeks < WEEKS_LEAST)
		return fmax(spread_unknown, 1 + (weeks ? sum / weeks : 0));
	const double mean = sum / weeks, variance = (squares - sum * mean) / (weeks - 1);
	return mean > 0 && variance > mean ? variance / mean : 1;
}

static struct rate weighed(struct rate r, double spread) { return (struct rate){ r.events / spread, r.hours }; }

/** How much of the error that is allowed all incidents together have, and each kind: most changes are made against all. */
static double error_share(const struct helped_history *h, int kind)
{
	static const double of_all = 0.6;
	return h->kinds <= 1 ? 1 : kind < 0 && !h->picked ? of_all : (1 - of_all) / h->kinds;
}

/** The verdict at the last of the fixed hours that are over. A fleet would be through with them in an hour, before anything could happen: so they
 * are hours of each GPU. How many there are is known when the change is made, and does not change while it is tried. */
static void give_verdict(struct helped *r, const struct helped_history *h, int kind)
{
	for (size_t n = 0; n < LOOKS; n++) {
		const double hours = looks[n].hours * (h->gpus ? h->gpus : 1);
		const double then = when_hours(h, h->change, hours);
		if (then <= 0) {
			r->next = hours - r->after.hours;
			break;
		}
		const struct rate after = { episodes(h, kind, h->change, then), hours };
		const struct rate_ratio ratio = rate_compare(weighed(r->before, r->spread), weighed(after, r->spread),
							     1 - looks[n].error * error_share(h, kind));
		r->looked = hours;
		if (r->verdict == HELPED_NOTHING) // what was told once stays told
			r->verdict = ratio.high < 1 ? HELPED_YES : ratio.low > 1 ? HELPED_WORSE : HELPED_NOTHING;
	}
}

struct helped helped_judge(const struct helped_history *h, int kind)
{
	struct helped r = { .verdict = HELPED_UNKNOWN, .spread = 1, .to_tell = INFINITY };
	r.before = (struct rate){ episodes(h, kind, h->since, h->change), helped_hours(h, h->since, h->change) };
	r.after = (struct rate){ episodes(h, kind, h->change, h->until), helped_hours(h, h->change, h->until) };
	r.ratio = (struct rate_ratio){ NAN, NAN, NAN };
	if (r.before.hours <= 0 || r.after.hours <= 0)
		return r;
	r.verdict = HELPED_NOTHING;
	r.spread = spread_of(h, kind);
	r.ratio = rate_compare(r.before, r.after, confidence);
	r.to_tell = rate_hours_to_tell(r.before, r.after, confidence);
	struct helped judged = r;
	judged.before.events -= judged.before.events > 0; // the one that made somebody change it
	give_verdict(&judged, h, kind);
	r.verdict = judged.verdict;
	r.looked = judged.looked;
	r.next = judged.next;
	return r;
}
