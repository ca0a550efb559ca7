// The incidents of a diagnosis: sorted, bounded, and joined.
//
// What several sources say of one failure becomes one incident: the kernel's log, the logs of the ranks, a debugger's
// transcript. Two incidents belong together where they share a fault's address or a process; what programs report belongs
// to one job unless its times say otherwise. The order in which the sources were given has no part in it.
#include "diagnose/ledger.h"

#include <stdlib.h>
#include <time.h>

#include "diagnose/join_merge.h"
#include "diagnose/take.h"

enum {
	JOB_SECONDS = 1200, // between what went first in a job and what its last rank reports
	SAME_SECONDS = 60,
	ZONE_SECONDS = 14 * 3600,
	DAY_SECONDS = 24 * 3600,
	CLOCKS = TIME_RELATIVE + 1,
	KEYS_MAX = 64,
};

struct time_range {
	bool known;
	double low, high;
};

/** An incident, or what is left of one that had no cause, while it is decided where it belongs. */
struct part {
	struct incident *incident;
	size_t group; // the smallest index of those it belongs to
	bool kernel;
	bool outlived; // its log goes on with another incident of the same GPU
	struct time_range times[CLOCKS];
	size_t npages, npids;
	uint64_t pages[KEYS_MAX], pids[KEYS_MAX];
};

/** Independent of where the source stood on the command line. */
static int by_content(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	const struct diag_event *e = x->incident->events.data[0], *f = y->incident->events.data[0];
	if (x->kernel != y->kernel)
		return x->kernel ? -1 : 1;
	if (e->time.clock != f->time.clock)
		return e->time.clock < f->time.clock ? -1 : 1;
	if (e->time.seconds < f->time.seconds || e->time.seconds > f->time.seconds)
		return e->time.seconds < f->time.seconds ? -1 : 1;
	int order = str_cmp(e->text, f->text);
	return order ? order : e->at.line < f->at.line ? -1 : e->at.line > f->at.line;
}

// --- what is known of a part ---

static void add_key(uint64_t *keys, size_t *n, uint64_t key)
{
	for (size_t i = 0; i < *n; i++)
		if (keys[i] == key)
			return;
	if (*n < KEYS_MAX)
		keys[(*n)++] = key;
}

static bool share_key(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			if (a[i] == b[k])
				return true;
	return false;
}

static void describe(struct part *p, const struct boot_began *boot)
{
	struct time_range *wall = &p->times[TIME_WALL], *since = &p->times[TIME_BOOT];
	for (size_t n = 0; n < p->incident->events.len; n++) {
		const struct diag_event *e = p->incident->events.data[n];
		struct time_range *r = &p->times[e->time.clock];
		uint64_t page;
		int64_t pid;
		if (!r->known || e->time.seconds < r->low)
			r->low = e->time.seconds;
		if (!r->known || e->time.seconds > r->high)
			r->high = e->time.seconds;
		r->known = true;
		if (diag_page(e, &page))
			add_key(p->pages, &p->npages, page);
		// Those that a program tells are the same in every container if they are small.
		if (str_number(diag_value(e, "pid"), &pid) && (pid > 99 || !e->program))
			add_key(p->pids, &p->npids, (uint64_t)pid);
		p->kernel |= !e->program;
	}
	if (since->known && !wall->known && boot->id.n && str_eq(p->incident->boot_id, boot->id))
		*wall = (struct time_range){ true, boot->seconds + since->low, boot->seconds + since->high };
}

static bool share_fault(const struct part *a, const struct part *b)
{
	return share_key(a->pages, a->npages, b->pages, b->npages);
}

static bool share_process(const struct part *a, const struct part *b)
{
	return share_key(a->pids, a->npids, b->pids, b->npids);
}

static bool share_source(const struct part *a, const struct part *b)
{
	return a->incident->events.data[0]->at.source == b->incident->events.data[0]->at.source;
}

/** Known to be of different machines. */
static bool other_host(const struct part *a, const struct part *b)
{
	struct str x = a->incident->host, y = b->incident->host;
	return x.n && y.n && !str_eq(x, y);
}

// --- how far apart ---

static double gap(struct time_range a, struct time_range b)
{
	return a.low > b.high ? a.low - b.high : b.low > a.high ? b.low - a.high : 0;
}

/** Seconds since the year began, which is all that some logs print. */
static struct time_range in_year(struct time_range r)
{
	time_t seconds = (time_t)r.low;
	struct tm tm;
	if (!gmtime_r(&seconds, &tm))
		return r;
	double begin = r.low - (tm.tm_yday * 86400.0 + tm.tm_hour * 3600.0 + tm.tm_min * 60.0 + tm.tm_sec);
	return (struct time_range){ true, r.low - begin, r.high - begin };
}

/** Calendars of different exactness: what a zone, or a leap day, may explain is no distance. */
static double calendar_gap(struct time_range a, enum time_clock x, struct time_range b, enum time_clock y)
{
	bool yearless = x == TIME_YEARLESS || y == TIME_YEARLESS;
	if (yearless && x != TIME_YEARLESS)
		a = in_year(a);
	if (yearless && y != TIME_YEARLESS)
		b = in_year(b);
	double slack = ZONE_SECONDS + (yearless ? DAY_SECONDS : 0), apart = gap(a, b);
	return apart <= slack ? 0 : apart;
}

/** The distance in seconds; -1 where the clocks cannot be compared. */
static double distance(const struct part *a, const struct part *b)
{
	double least = -1;
	for (int x = TIME_BOOT; x < TIME_RELATIVE; x++) {
		for (int y = TIME_BOOT; y < TIME_RELATIVE; y++) {
			if (!a->times[x].known || !b->times[y].known || (x != y && (!is_calendar(x) || !is_calendar(y))))
				continue;
			double apart = x == y ? gap(a->times[x], b->times[y]) :
						calendar_gap(a->times[x], (enum time_clock)x, b->times[y], (enum time_clock)y);
			least = least < 0 || apart < least ? apart : least;
		}
	}
	return least;
}

static bool has_times(const struct part *p)
{
	for (int x = TIME_BOOT; x < CLOCKS; x++)
		if (p->times[x].known)
			return true;
	return false;
}

// --- what belongs together ---

static bool hang_explains(const struct know *k, const struct part *kernel, const struct part *program)
{
	return kernel->kernel && !program->kernel && incident_explains_hang(k, kernel->incident, program->incident);
}

/** Whether they are two failures, each with its own cause. */
static bool two_failures(const struct know *k, const struct part *a, const struct part *b)
{
	return incident_different_causes(a->incident, b->incident) && !share_process(a, b) && !hang_explains(k, a, b) &&
	       !hang_explains(k, b, a);
}

/** Whether a program's report and an incident of the kernel belong together. @only: the kernel's log has just one that it can mean. */
static bool program_and_kernel(const struct part *program, const struct part *kernel, bool only)
{
	double apart = distance(program, kernel);
	if (apart > JOB_SECONDS || other_host(program, kernel))
		return false;
	if (share_process(program, kernel))
		return true;
	// Two faults of different addresses are two faults.
	if (incident_same_class(program->incident, kernel->incident) && !(program->npages && kernel->npages))
		return true;
	return only && ((incident_has_reset(kernel->incident) && incident_tells_of_hang(program->incident)) ||
			(apart >= 0 && apart <= SAME_SECONDS));
}

/** Faults of two processes, which nothing joins. */
static bool other_owners(const struct part *a, const struct part *b)
{
	const struct str x = incident_owner(a->incident), y = incident_owner(b->incident);
	return x.n && y.n && !str_eq(x, y);
}

static bool kernel_and_kernel(const struct part *a, const struct part *b)
{
	const struct incident *x = a->incident, *y = b->incident;
	double apart = distance(a, b);
	if (other_host(a, b) || (x->boot_id.n && y->boot_id.n && !str_eq(x->boot_id, y->boot_id)))
		return false;
	if (x->gpu.device.n && y->gpu.device.n && !str_eq(x->gpu.device, y->gpu.device))
		return false;
	return apart >= 0 && apart <= SAME_SECONDS;
}

/** The ranks that are left give up some minutes after what stopped the first, in the same log. */
static bool is_aftermath(const struct part *a, const struct part *b)
{
	const struct incident *x = a->incident, *y = b->incident;
	double apart = distance(a, b);
	if (!x->cause || !y->cause || a->kernel || b->kernel || apart < 0 || apart > JOB_SECONDS)
		return false;
	return x->cause->class->gives_up != y->cause->class->gives_up;
}

/** How the GPU is now, and what happened to it before in the same boot: one story, unless a reset ended the one before it, another came
 * after it, or its program is not the one that is stuck. A hang lasts until a reset. */
static bool now_and_before(const struct part *now, const struct part *before)
{
	const struct incident *x = now->incident, *y = before->incident;
	double apart = distance(now, before);
	if (!before->kernel || before->outlived || y->reset_ended || (y->gpu.device.n && !str_eq(x->gpu.device, y->gpu.device)))
		return false;
	if (incident_has_hang(y))
		return apart >= 0;
	if (share_process(now, before))
		return apart >= 0 && apart <= JOB_SECONDS;
	return apart >= 0 && apart <= SAME_SECONDS && !(now->npids && before->npids);
}

static bool belong(const struct know *k, const struct part *a, const struct part *b, size_t kernels)
{
	double apart = distance(a, b);
	if (a->incident->now != b->incident->now)
		return a->incident->now ? now_and_before(a, b) : now_and_before(b, a);
	if (share_source(a, b))
		return is_aftermath(a, b);
	if (share_fault(a, b))
		return apart <= JOB_SECONDS;
	if (two_failures(k, a, b))
		return false;
	if (a->kernel && b->kernel)
		return kernel_and_kernel(a, b);
	if (a->kernel || b->kernel)
		return program_and_kernel(a->kernel ? b : a, a->kernel ? a : b, kernels == 1);
	if (apart >= 0 || share_process(a, b))
		return apart <= JOB_SECONDS;
	// Dumps and stacks have no times: they are given because they belong to the rest.
	return !has_times(a) || !has_times(b);
}

/** Whether @record is of the failure by which its group explains @program: the driver's records tell it once more. */
static bool group_explains(const struct know *k, const struct part *parts, size_t n, const struct part *record,
			   const struct part *program)
{
	for (size_t i = 0; i < n; i++)
		if (parts[i].group == record->group && incident_same_class(parts[i].incident, record->incident) &&
		    hang_explains(k, &parts[i], program))
			return true;
	return false;
}

/** Whether the two groups can be one failure: nothing in them is too far apart in time, and no two have causes of their own. */
static bool groups_fit(const struct know *k, const struct part *parts, size_t n, size_t a, size_t b)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t m = 0; m < n && parts[i].group == parts[a].group; m++) {
			const struct part *x = &parts[i], *y = &parts[m];
			if (y->group != parts[b].group)
				continue;
			if (distance(x, y) > JOB_SECONDS && x->incident->now == y->incident->now)
				return false;
			if (x->kernel && y->kernel && other_owners(x, y))
				return false;
			if (two_failures(k, x, y) && !share_fault(x, y) && x->incident->now == y->incident->now &&
			    !group_explains(k, parts, n, x, y) && !group_explains(k, parts, n, y, x))
				return false;
		}
	}
	return true;
}

static void unite(struct part *parts, size_t n, size_t a, size_t b)
{
	size_t from = parts[a].group > parts[b].group ? parts[a].group : parts[b].group;
	size_t to = parts[a].group > parts[b].group ? parts[b].group : parts[a].group;
	for (size_t i = 0; i < n; i++)
		if (parts[i].group == from)
			parts[i].group = to;
}

/** How many incidents of the kernel's a program's report could mean. */
static size_t count_kernels(const struct part *parts, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += parts[i].kernel && incident_has_reset(parts[i].incident);
	return count;
}

/** Parts of a log lie in its order. */
static void find_outlived(struct part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t m = i + 1; m < n && parts[i].kernel; m++)
			parts[i].outlived |= parts[m].kernel && !parts[m].incident->now && parts[m].incident->cause &&
					     share_source(&parts[i], &parts[m]) &&
					     parts[i].incident->boot == parts[m].incident->boot &&
					     str_eq(parts[i].incident->gpu.device, parts[m].incident->gpu.device);
}

/** What shares a fault or a process first: the rest then has less to choose from. */
static void join_parts(const struct know *k, struct part *parts, size_t n, size_t kernels, bool strong)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t m = i + 1; m < n; m++) {
			const struct part *a = &parts[i], *b = &parts[m];
			if (a->group == b->group || (strong && !share_fault(a, b) && !share_process(a, b)))
				continue;
			if (belong(k, &parts[i], &parts[m], kernels) && groups_fit(k, parts, n, i, m))
				unite(parts, n, i, m);
		}
	}
}

/** Those that share a fault with the group's first come first: by them the others' clocks are known. */
static void merge_group(struct part *parts, size_t n, size_t first)
{
	struct clock_bridge bridge = { 0 };
	for (int round = 0; round < 2; round++) {
		for (size_t i = first + 1; i < n; i++) {
			if (parts[i].group != first || !parts[i].incident || share_fault(&parts[first], &parts[i]) != !round)
				continue;
			incident_merge(parts[first].incident, parts[i].incident, &bridge);
			parts[i].incident = NULL;
			parts[first].incident->joined = true;
		}
	}
}

/** Joins what belongs together among the @n incidents of @list, and frees those that were merged into others. Returns how many are
 * left. Those that were joined have to be concluded again. */
static size_t incidents_join(const struct know *k, struct incident **list, size_t n, const struct boot_began *boot)
{
	struct part *parts = mem_alloc((n + 1) * sizeof(*parts));
	for (size_t i = 0; i < n; i++) {
		parts[i].incident = list[i];
		describe(&parts[i], boot);
	}
	qsort(parts, n, sizeof(*parts), by_content);
	size_t kernels = count_kernels(parts, n);
	for (size_t i = 0; i < n; i++)
		parts[i].group = i;
	find_outlived(parts, n);
	join_parts(k, parts, n, kernels, true);
	join_parts(k, parts, n, kernels, false);
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		if (parts[i].group != i)
			continue;
		merge_group(parts, n, i);
		list[left++] = parts[i].incident;
	}
	free(parts);
	return left;
}

// --- the ledger ---

static int ledger_by_weight(const void *a, const void *b)
{
	const struct incident *x = *(struct incident *const *)a, *y = *(struct incident *const *)b;
	if (x->now != y->now)
		return x->now ? -1 : 1;
	if (x->cause->severity != y->cause->severity)
		return y->cause->severity - x->cause->severity;
	if (x->boot != y->boot)
		return x->boot > y->boot ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_failure(const struct incident *a, const struct incident *b)
{
	return str_eq(a->fingerprint, b->fingerprint) && str_eq(a->gpu.device, b->gpu.device) && str_eq(a->host, b->host);
}

/** How often each failure came, and over what time. */
static void count_times(const struct ledger *l)
{
	for (size_t n = 0; n < l->incidents.len; n++) {
		struct incident *i = l->incidents.data[n];
		i->times = 0;
		i->over = 0;
		for (size_t k = 0; k < l->incidents.len; k++) {
			const struct incident *o = l->incidents.data[k];
			if (!same_failure(i, o))
				continue;
			i->times++;
			// Each boot has a clock of its own.
			bool told = o->begin.clock == i->begin.clock && i->begin.clock != TIME_NONE &&
				    (i->begin.clock != TIME_BOOT || o->boot == i->boot);
			double apart = told ? o->begin.seconds - i->begin.seconds : 0;
			apart = apart < 0 ? -apart : apart;
			i->over = apart > i->over ? apart : i->over;
		}
	}
}

void ledger_sort(struct ledger *l)
{
	if (l->incidents.len)
		qsort(l->incidents.data, l->incidents.len, sizeof(l->incidents.data[0]), ledger_by_weight);
	while (l->incidents.len > LEDGER_MAX) {
		incident_free(l->incidents.data[--l->incidents.len]);
		l->omitted++;
	}
	count_times(l);
}

void ledger_add(struct ledger *l, struct incident *i)
{
	if (!i->cause) {
		if (l->seen.len < SEEN_MAX)
			vec_push(&l->seen, i);
		else
			incident_free(i);
		return;
	}
	vec_push(&l->incidents, i);
	if (l->incidents.len == 2 * LEDGER_MAX)
		ledger_sort(l);
}

static void sort_out(struct ledger *l, struct incident **list, size_t n)
{
	l->incidents.len = l->seen.len = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i]->cause)
			vec_push(&l->incidents, list[i]);
		else
			vec_push(&l->seen, list[i]);
	}
}

void ledger_join(struct ledger *l, const struct know *k, const struct machine *m, const struct boot_began *boot)
{
	size_t n = l->incidents.len + l->seen.len, at = 0;
	struct incident **all = mem_alloc((n + 1) * sizeof(struct incident *));
	for (size_t i = 0; i < l->incidents.len; i++)
		all[at++] = l->incidents.data[i];
	for (size_t i = 0; i < l->seen.len; i++)
		all[at++] = l->seen.data[i];
	n = incidents_join(k, all, n, boot);
	for (size_t i = 0; i < n; i++) {
		incident_complete(all[i], m);
		incident_conclude(all[i], k);
	}
	sort_out(l, all, n);
	free(all);
}

void ledger_free(struct ledger *l)
{
	for (size_t n = 0; n < l->seen.len; n++)
		incident_free(l->seen.data[n]);
	vec_free(&l->seen);
	for (size_t n = 0; n < l->incidents.len; n++)
		incident_free(l->incidents.data[n]);
	vec_free(&l->incidents);
}
