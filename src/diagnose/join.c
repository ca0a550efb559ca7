// What several sources say of one failure becomes one incident: the kernel's log, the logs of the ranks, a debugger's
// transcript. Two incidents belong together where they share a fault's address or a process; what programs report belongs
// to one job unless its times say otherwise. The order in which the sources were given has no part in it.
#include "diagnose/join.h"

#include <stdlib.h>
#include <time.h>

enum {
	PAGE_SHIFT = 12,
	SMALLEST_ADDRESS = 1 << 20,
	JOB_SECONDS = 1200, // between what went first in a job and what its last rank reports
	SAME_SECONDS = 60,
	ZONE_SECONDS = 14 * 3600,
	DAY_SECONDS = 24 * 3600,
	CLOCKS = TIME_RELATIVE + 1,
	KEYS_MAX = 64,
	JOINED_EVENTS_MAX = 1024,
};

struct range {
	bool known;
	double low, high;
};

/** An incident, or what is left of one that had no cause, while it is decided where it belongs. */
struct part {
	struct incident *incident;
	size_t group; // the smallest index of those it belongs to
	bool kernel;
	struct range times[CLOCKS];
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

static bool page_of(const struct diag_event *e, uint64_t *ret)
{
	uint64_t address;
	if (!str_hex(diag_value(e, "fault_address"), &address) || address < SMALLEST_ADDRESS)
		return false;
	*ret = address >> PAGE_SHIFT;
	return true;
}

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

static void describe(struct part *p)
{
	for (size_t n = 0; n < p->incident->events.len; n++) {
		const struct diag_event *e = p->incident->events.data[n];
		struct range *r = &p->times[e->time.clock];
		uint64_t page;
		int64_t pid;
		if (!r->known || e->time.seconds < r->low)
			r->low = e->time.seconds;
		if (!r->known || e->time.seconds > r->high)
			r->high = e->time.seconds;
		r->known = true;
		if (page_of(e, &page))
			add_key(p->pages, &p->npages, page);
		if (str_number(diag_value(e, "pid"), &pid) && pid > 99) // small ones are the same in every container
			add_key(p->pids, &p->npids, (uint64_t)pid);
		p->kernel |= !e->program;
	}
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

static bool is_calendar(enum time_clock clock) { return clock == TIME_WALL || clock == TIME_LOCAL || clock == TIME_YEARLESS; }

static double gap(struct range a, struct range b)
{
	return a.low > b.high ? a.low - b.high : b.low > a.high ? b.low - a.high : 0;
}

/** Seconds since the year began, which is all that some logs print. */
static struct range in_year(struct range r)
{
	time_t seconds = (time_t)r.low;
	struct tm tm;
	if (!gmtime_r(&seconds, &tm))
		return r;
	double begin = r.low - (tm.tm_yday * 86400.0 + tm.tm_hour * 3600.0 + tm.tm_min * 60.0 + tm.tm_sec);
	return (struct range){ true, r.low - begin, r.high - begin };
}

/** Calendars of different exactness: what a zone, or a leap day, may explain is no distance. */
static double calendar_gap(struct range a, enum time_clock x, struct range b, enum time_clock y)
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

/** Whether the driver reset a GPU in it, or counted an error, which is what programs are told as a hang. */
static bool has_reset(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->hang || i->events.data[n]->kind->as_hang)
			return true;
	return false;
}

static bool has_hang(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->hang)
			return true;
	return false;
}

static bool tells_of_hang(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->told_hang)
			return true;
	return false;
}

static bool same_class(const struct incident *a, const struct incident *b)
{
	return a->cause && b->cause && str_eq(a->cause->head.id, b->cause->head.id);
}

/** Whether each has a cause of its own that does not explain the other's. */
static bool different_causes(const struct incident *a, const struct incident *b)
{
	if (!a->cause || !b->cause || a->cause->band >= BAND_SYMPTOM || b->cause->band >= BAND_SYMPTOM)
		return false;
	return !same_class(a, b) && !(a->cause->class->memory_fault && b->cause->class->memory_fault);
}

/** Of what programs report and the kernel's own: @only where the kernel's log has but one incident that it can mean. */
static bool program_and_kernel(const struct part *program, const struct part *kernel, bool only)
{
	double apart = distance(program, kernel);
	if (apart > JOB_SECONDS || other_host(program, kernel))
		return false;
	if (share_process(program, kernel))
		return true;
	// Two faults of different addresses are two faults.
	if (same_class(program->incident, kernel->incident) && !(program->npages && kernel->npages))
		return true;
	return only &&
	       ((has_reset(kernel->incident) && tells_of_hang(program->incident)) || (apart >= 0 && apart <= SAME_SECONDS));
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

/** How the GPU is now, and what happened to it before in the same boot: one story, unless a reset ended the one before it. */
static bool now_and_before(const struct part *now, const struct part *before)
{
	const struct incident *x = now->incident, *y = before->incident;
	double apart = distance(now, before);
	if (!before->kernel || y->reset_ended || (y->gpu.device.n && !str_eq(x->gpu.device, y->gpu.device)))
		return false;
	return has_hang(y) ? apart >= 0 : apart >= 0 && apart <= JOB_SECONDS;
}

static bool belong(const struct part *a, const struct part *b, size_t kernels)
{
	double apart = distance(a, b);
	if (a->incident->now != b->incident->now)
		return a->incident->now ? now_and_before(a, b) : now_and_before(b, a);
	if (share_source(a, b))
		return is_aftermath(a, b);
	if (share_fault(a, b))
		return apart <= JOB_SECONDS;
	if (different_causes(a->incident, b->incident) && !share_process(a, b))
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

/** Whether nothing in the two groups lies so far apart, or has such a cause of its own, that it cannot be one failure. */
static bool groups_fit(const struct part *parts, size_t n, size_t a, size_t b)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t m = 0; m < n && parts[i].group == parts[a].group; m++) {
			const struct part *x = &parts[i], *y = &parts[m];
			if (y->group != parts[b].group)
				continue;
			if (distance(x, y) > JOB_SECONDS && x->incident->now == y->incident->now)
				return false;
			if (different_causes(x->incident, y->incident) && !share_process(x, y) && !share_fault(x, y) &&
			    x->incident->now == y->incident->now)
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

// --- one clock ---

static void shift_times(struct incident *i, enum time_clock from, enum time_clock to, double shift)
{
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		if (e->time.clock == from)
			e->time = (struct stamp){ to, e->time.seconds + shift };
		if (e->last.clock == from)
			e->last = (struct stamp){ to, e->last.seconds + shift };
	}
}

/** How the times of one clock become those of another, once a fault that both report has told. */
struct bridge {
	enum time_clock from, to;
	double shift;
};

static const struct diag_event *first_calendar(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (is_calendar(i->events.data[n]->time.clock))
			return i->events.data[n];
	return NULL;
}

/** Whole quarters of an hour, by which zones differ, if that brings two times close to each other; else 0 and false. */
static bool zone_shift(double apart, double *ret)
{
	enum { QUARTER = 900, NEAR = 300 };
	*ret = (double)(int64_t)(apart / QUARTER + (apart < 0 ? -0.5 : 0.5)) * QUARTER;
	return apart - *ret > -NEAR && apart - *ret < NEAR;
}

/** Calendars that differ in their zone, or in that one prints no year. */
static void align_calendars(struct incident *to, struct incident *from)
{
	const struct diag_event *x = first_calendar(to), *y = first_calendar(from);
	double shift;
	if (x && y && x->time.clock != y->time.clock && zone_shift(x->time.seconds - y->time.seconds, &shift))
		shift_times(from, y->time.clock, x->time.clock, shift);
}

/** The events of both that report the same fault, with times of different clocks. */
static bool common_fault(const struct incident *a, const struct incident *b, const struct diag_event **ret_a,
			 const struct diag_event **ret_b)
{
	uint64_t x, y;
	for (size_t n = 0; n < a->events.len; n++) {
		const struct diag_event *e = a->events.data[n];
		for (size_t m = 0; m < b->events.len && page_of(e, &x); m++) {
			const struct diag_event *f = b->events.data[m];
			if (page_of(f, &y) && x == y && e->time.clock != TIME_NONE && f->time.clock != TIME_NONE &&
			    e->time.clock != f->time.clock) {
				*ret_a = e;
				*ret_b = f;
				return true;
			}
		}
	}
	return false;
}

/** Brings the times of @from to the clock of @to: by a fault that both report, by one that another log reported, or as calendars. */
static void align(struct incident *to, struct incident *from, struct bridge *bridge)
{
	const struct diag_event *x, *y;
	if (common_fault(to, from, &x, &y)) {
		*bridge = (struct bridge){ y->time.clock, x->time.clock, x->time.seconds - y->time.seconds };
		struct str address = diag_value(x, "fault_address");
		to->joined_by = arena_printf(&to->arena,
					     "the fault at " STR_FMT " stands in both logs and brings their clocks together",
					     STR_ARG(address));
	}
	y = first_calendar(from);
	double zone = 0;
	if (bridge->from == TIME_NONE) {
		align_calendars(to, from);
	} else if (y && is_calendar(bridge->from) && to->events.len) {
		double there = to->events.data[0]->time.seconds - bridge->shift;
		if (y->time.clock != bridge->from && !zone_shift(there - y->time.seconds, &zone))
			return;
		shift_times(from, y->time.clock, bridge->to, bridge->shift + zone);
	} else {
		shift_times(from, bridge->from, bridge->to, bridge->shift);
	}
}

// --- one incident ---

/** The same line in two sources: a log that was given twice, or that two services wrote. */
static bool same_event(const struct diag_event *a, const struct diag_event *b)
{
	if (a->kind != b->kind || a->at.source == b->at.source || a->time.clock != b->time.clock || a->nfacts != b->nfacts)
		return false;
	bool untimed = a->time.clock == TIME_NONE;
	if (untimed ? a->at.line != b->at.line || !str_eq(a->text, b->text) :
		      a->time.seconds < b->time.seconds - 0.001 || a->time.seconds > b->time.seconds + 0.001)
		return false;
	for (size_t n = 0; n < a->nfacts; n++)
		if (!str_eq(a->facts[n].value, b->facts[n].value))
			return false;
	return true;
}

static struct diag_event *copy_event(struct incident *to, const struct diag_event *e)
{
	struct diag_event *c = arena_alloc(&to->arena, sizeof(*c));
	*c = *e;
	c->device = arena_str(&to->arena, e->device);
	c->driver = arena_str(&to->arena, e->driver);
	c->text = arena_str(&to->arena, e->text);
	c->dump = dump_copy(&to->arena, &e->dump);
	c->facts = NULL;
	c->nfacts = c->facts_cap = 0;
	c->notes = NULL;
	c->sentence = c->who = (struct str){ 0 };
	for (size_t n = 0; n < e->nfacts; n++)
		diag_set_fact(to, c, e->facts[n]);
	return c;
}

/** Where @e stands among the events of @i: by time where it has one of the same clock, else at the end. */
static size_t position(const struct incident *i, const struct diag_event *e)
{
	if (e->time.clock == TIME_NONE)
		return i->events.len;
	for (size_t n = 0; n < i->events.len; n++) {
		struct stamp t = i->events.data[n]->time;
		if (t.clock == e->time.clock && t.seconds > e->time.seconds)
			return n;
	}
	return i->events.len;
}

static void insert(struct incident *to, const struct diag_event *e)
{
	for (size_t n = 0; n < to->events.len; n++)
		if (same_event(to->events.data[n], e))
			return;
	if (to->events.len >= JOINED_EVENTS_MAX) {
		to->dropped++;
		return;
	}
	size_t at = position(to, e);
	vec_push(&to->events, NULL);
	memmove(to->events.data + at + 1, to->events.data + at, (to->events.len - 1 - at) * sizeof(to->events.data[0]));
	to->events.data[at] = copy_event(to, e);
}

static struct diag_gpu copy_gpu(struct incident *to, const struct diag_gpu *gpu)
{
	return (struct diag_gpu){ .device = arena_str(&to->arena, gpu->device),
				  .name = arena_str(&to->arena, gpu->name),
				  .gfx = arena_str(&to->arena, gpu->gfx),
				  .apu = gpu->apu };
}

static void add_gpu(struct incident *to, const struct diag_gpu *gpu)
{
	if (!gpu->device.n || str_eq(gpu->device, to->gpu.device))
		return;
	if (!to->gpu.device.n) {
		to->gpu = copy_gpu(to, gpu);
		return;
	}
	for (size_t n = 0; n < to->other_gpus.len; n++)
		if (str_eq(to->other_gpus.data[n].device, gpu->device))
			return;
	struct diag_gpu copy = copy_gpu(to, gpu);
	vec_push(&to->other_gpus, copy);
}

static void add_machine(struct incident *to, const struct incident *from)
{
	for (size_t n = 0; n < from->machine.len; n++) {
		bool known = false;
		for (size_t m = 0; m < to->machine.len && !known; m++)
			known = str_eq(to->machine.data[m].name, from->machine.data[n].name);
		if (!known)
			incident_add_machine(to, from->machine.data[n]);
	}
}

static void merge(struct incident *to, struct incident *from, struct bridge *bridge)
{
	align(to, from, bridge);
	for (size_t n = 0; n < from->events.len; n++)
		insert(to, from->events.data[n]);
	add_gpu(to, &from->gpu);
	add_machine(to, from);
	to->dropped += from->dropped;
	to->reset_began |= from->reset_began;
	to->reset_ended |= from->reset_ended;
	to->now |= from->now;
	to->reset_evidence |= from->reset_evidence;
	to->log_has_boot |= from->log_has_boot;
	to->vendor_known |= from->vendor_known;
	if (!to->host.n)
		to->host = arena_str(&to->arena, from->host);
	to->this_boot |= from->this_boot;
	if (!to->boot_id.n)
		to->boot_id = arena_str(&to->arena, from->boot_id);
	incident_free(from);
}

/** How many incidents of the kernel's a program's report could mean. */
static size_t count_kernels(const struct part *parts, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += parts[i].kernel && has_reset(parts[i].incident);
	return count;
}

/** What shares a fault or a process first: the rest then has less to choose from. */
static void join_parts(struct part *parts, size_t n, size_t kernels, bool strong)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t m = i + 1; m < n; m++) {
			const struct part *a = &parts[i], *b = &parts[m];
			if (a->group == b->group || (strong && !share_fault(a, b) && !share_process(a, b)))
				continue;
			if (belong(&parts[i], &parts[m], kernels) && groups_fit(parts, n, i, m))
				unite(parts, n, i, m);
		}
	}
}

/** Those that share a fault with the group's first come first: by them the others' clocks are known. */
static void merge_group(struct part *parts, size_t n, size_t first)
{
	struct bridge bridge = { 0 };
	for (int round = 0; round < 2; round++) {
		for (size_t i = first + 1; i < n; i++) {
			if (parts[i].group != first || !parts[i].incident || share_fault(&parts[first], &parts[i]) != !round)
				continue;
			merge(parts[first].incident, parts[i].incident, &bridge);
			parts[i].incident = NULL;
			parts[first].incident->joined = true;
		}
	}
}

size_t incidents_join(struct incident **list, size_t n)
{
	struct part *parts = mem_alloc((n + 1) * sizeof(*parts));
	for (size_t i = 0; i < n; i++) {
		parts[i].incident = list[i];
		describe(&parts[i]);
	}
	qsort(parts, n, sizeof(*parts), by_content);
	size_t kernels = count_kernels(parts, n);
	for (size_t i = 0; i < n; i++)
		parts[i].group = i;
	join_parts(parts, n, kernels, true);
	join_parts(parts, n, kernels, false);
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
