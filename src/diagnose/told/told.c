#include "diagnose/told/told.h"

bool incident_when(const struct incident *i, const struct evidence_reader *r, time_t now, double *ret)
{
	return i->events.len && told_when(r, i->events.data[0]->at.source, i->begin, now, ret);
}

bool told_when(const struct evidence_reader *r, size_t source, struct stamp time, time_t now, double *ret)
{
	enum { DAY = 86400, LEAP_YEAR = 730 }; // days from 1970 to 1972, in which dates without a year are counted
	if (source >= evidence_count(r))
		return false;
	const struct stamp t = evidence_wall(evidence_at(r, source), time);
	const bool yearless = t.clock == TIME_YEARLESS;
	if (!(t.seconds >= DAY) || t.seconds > 4e11)
		return false;
	if (t.clock == TIME_WALL) {
		*ret = t.seconds;
		return true;
	}
	if (t.clock != TIME_LOCAL && !yearless)
		return false;
	const time_t at = (time_t)t.seconds + (yearless ? (time_t)LEAP_YEAR * DAY : 0);
	struct tm tm, today;
	if (!gmtime_r(&at, &tm) || !localtime_r(&now, &today))
		return false;
	tm.tm_year = yearless ? today.tm_year : tm.tm_year;
	tm.tm_isdst = -1;
	struct tm before = tm;
	time_t local = mktime(&tm);
	if (yearless && local > now + DAY) { // December, seen in January
		before.tm_year--;
		local = mktime(&before);
	}
	*ret = (double)local + (t.seconds - (double)(int64_t)t.seconds);
	return local != (time_t)-1;
}

static void take_out(struct ledger *l, size_t n)
{
	incident_free(l->incidents.data[n]);
	memmove(&l->incidents.data[n], &l->incidents.data[n + 1], (l->incidents.len - n - 1) * sizeof(l->incidents.data[0]));
	l->incidents.len--;
}

/** Whether @a is newer than @b: what is so now, then the later time, then the later boot, then the one that was opened later. */
static bool newer(const struct incident *a, const struct incident *b, const struct evidence_reader *r, time_t now)
{
	double x, y;
	if (a->now != b->now)
		return a->now;
	if (incident_when(a, r, now, &x) && incident_when(b, r, now, &y) && (x < y || x > y))
		return x > y;
	return a->boot != b->boot ? a->boot > b->boot : a->order > b->order;
}

bool incident_of_job(const struct incident *i, const struct job_pids *job)
{
	bool named = false;
	for (size_t p = 0; job->n && p < i->processes.len; p++) {
		int64_t pid;
		if (!str_number(i->processes.data[p].pid, &pid) || pid <= 0)
			continue;
		named = true;
		for (size_t k = 0; k < job->n; k++)
			if (job->list[k] == pid)
				return true;
	}
	return !named;
}

size_t told_leave_out(struct ledger *l, const struct evidence_reader *r, const struct told_options *o)
{
	size_t left_out = 0, newest = 0;
	double when;
	for (size_t n = l->incidents.len; o->limited && n > 0; n--) {
		const struct incident *i = l->incidents.data[n - 1];
		if (i->now || !incident_when(i, r, o->now, &when) || when >= o->since)
			continue;
		take_out(l, n - 1);
		left_out++;
	}
	for (size_t n = 1; o->newest && n < l->incidents.len; n++)
		if (newer(l->incidents.data[n], l->incidents.data[newest], r, o->now))
			newest = n;
	for (size_t n = l->incidents.len; o->newest && n > 0; n--) {
		if (n - 1 == newest)
			continue;
		take_out(l, n - 1);
		left_out++;
	}
	return left_out;
}
