// What several sources say of one failure becomes one incident: the kernel's log, the logs of the ranks, a debugger's
// transcript. Two incidents belong together where they share a fault's address or a process; what programs report belongs to one job unless
// its times say otherwise. The order in which the sources were given has no part in it.
#include "diagnose/join.h"

#include <stdlib.h>

enum { PAGE_SHIFT = 12, SMALLEST_ADDRESS = 1 << 20, JOB_SECONDS = 1200, SAME_SECONDS = 60 };

/** An incident, or what is left of one that had no cause, while it is decided where it belongs. */
struct part {
	struct incident *incident;
	size_t group; // the smallest index of those it belongs to
	bool kernel, program;
};

static struct str fact_of(const struct diag_event *e, const char *name)
{
	const struct fact *f = diag_fact(e, name);
	return f ? f->value : (struct str){ 0 };
}

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

// --- what belongs together ---

static bool page_of(const struct diag_event *e, uint64_t *ret)
{
	uint64_t address;
	if (!str_hex(fact_of(e, "fault_address"), &address) || address < SMALLEST_ADDRESS)
		return false;
	*ret = address >> PAGE_SHIFT;
	return true;
}

/** The events of both that report the same fault. */
static bool share_fault(const struct incident *a, const struct incident *b, const struct diag_event **ret_a,
			const struct diag_event **ret_b)
{
	uint64_t x, y;
	for (size_t n = 0; n < a->events.len; n++)
		for (size_t m = 0; m < b->events.len && page_of(a->events.data[n], &x); m++)
			if (page_of(b->events.data[m], &y) && x == y) {
				*ret_a = a->events.data[n];
				*ret_b = b->events.data[m];
				return true;
			}
	return false;
}

static bool share_process(const struct incident *a, const struct incident *b)
{
	for (size_t n = 0; n < a->events.len; n++)
		for (size_t m = 0; m < b->events.len; m++) {
			struct str pid = fact_of(a->events.data[n], "pid");
			if (pid.n > 2 && str_eq(pid, fact_of(b->events.data[m], "pid")))
				return true;
		}
	return false;
}

/** The distance of two incidents in seconds; -1 where their clocks cannot be compared. */
static double distance(const struct incident *a, const struct incident *b)
{
	double least = -1;
	for (size_t n = 0; n < a->events.len; n++) {
		for (size_t m = 0; m < b->events.len; m++) {
			struct stamp x = a->events.data[n]->time, y = b->events.data[m]->time;
			if (x.clock != y.clock || x.clock == TIME_NONE || x.clock == TIME_RELATIVE)
				continue;
			double d = x.seconds < y.seconds ? y.seconds - x.seconds : x.seconds - y.seconds;
			least = least < 0 || d < least ? d : least;
		}
	}
	return least;
}

static enum time_clock clock_of(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->time.clock != TIME_NONE)
			return i->events.data[n]->time.clock;
	return TIME_NONE;
}

static bool has_times(const struct incident *i) { return clock_of(i) != TIME_NONE; }

/** Calendars of different exactness may mean the same hour; the kernel's clock and a calendar tell nothing of each other. */
static bool same_kind_of_clock(const struct incident *a, const struct incident *b)
{
	return (clock_of(a) == TIME_BOOT) == (clock_of(b) == TIME_BOOT);
}

static bool share_source(const struct incident *a, const struct incident *b)
{
	return a->events.data[0]->at.source == b->events.data[0]->at.source;
}

/** Whether the driver reset a GPU in it, which is what programs are told as a hang. */
static bool has_reset(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->hang || str_starts(i->events.data[n]->kind->head.id, S("reset-")) ||
		    str_starts(i->events.data[n]->kind->head.id, S("ras-")))
			return true;
	return false;
}

static bool tells_of_hang(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		struct str id = i->events.data[n]->kind->head.id;
		if (str_is(id, "hsa-hang") || str_is(id, "hsa-ecc") || str_is(id, "hip-context-lost") ||
		    str_is(id, "hip-launch-failed") || str_is(id, "gl-reset") || str_is(id, "host-waits") ||
		    str_is(id, "gpu-state"))
			return true;
	}
	return false;
}

/** Of what programs report and the kernel's own: @only where the kernel's log has but one incident that it can mean. */
static bool program_and_kernel(const struct incident *program, const struct incident *kernel, bool only)
{
	const struct diag_event *x, *y;
	double apart = distance(program, kernel);
	if (apart > JOB_SECONDS)
		return false;
	if (share_fault(program, kernel, &x, &y) || share_process(program, kernel))
		return true;
	return only && ((has_reset(kernel) && tells_of_hang(program)) || (apart >= 0 && apart <= SAME_SECONDS));
}

static bool kernel_and_kernel(const struct incident *a, const struct incident *b)
{
	double apart = distance(a, b);
	if (a->boot_id.n && b->boot_id.n && !str_eq(a->boot_id, b->boot_id))
		return false;
	if (a->gpu.device.n && b->gpu.device.n && !str_eq(a->gpu.device, b->gpu.device))
		return false;
	return apart >= 0 && apart <= SAME_SECONDS;
}

static bool is_fault_class(struct str class)
{
	return str_starts(class, S("gpu-page-fault")) || str_is(class, "gpu-null-pointer-fault");
}

/** Whether each has a cause of its own that does not explain the other's. */
static bool different_causes(const struct incident *a, const struct incident *b)
{
	enum { SYMPTOM_TIER = 50 };
	if (!a->cause || !b->cause || a->cause->tier >= SYMPTOM_TIER || b->cause->tier >= SYMPTOM_TIER)
		return false;
	struct str x = a->cause->head.id, y = b->cause->head.id;
	return !str_eq(x, y) && !(is_fault_class(x) && is_fault_class(y));
}

static bool belong(const struct part *a, const struct part *b, size_t kernels)
{
	const struct diag_event *x, *y;
	if (share_source(a->incident, b->incident))
		return false;
	if (share_fault(a->incident, b->incident, &x, &y))
		return distance(a->incident, b->incident) <= JOB_SECONDS;
	if (different_causes(a->incident, b->incident) && !share_process(a->incident, b->incident))
		return false;
	if (a->kernel && b->kernel)
		return kernel_and_kernel(a->incident, b->incident);
	if (a->kernel || b->kernel)
		return program_and_kernel(a->kernel ? b->incident : a->incident, a->kernel ? a->incident : b->incident,
					  kernels == 1);
	double apart = distance(a->incident, b->incident);
	if (apart >= 0 || share_process(a->incident, b->incident))
		return apart <= JOB_SECONDS;
	// Dumps and stacks have no times: they are given because they belong to the rest.
	return !has_times(a->incident) || !has_times(b->incident) || same_kind_of_clock(a->incident, b->incident);
}

/** Whether nothing in the two groups lies so far apart, or has such a cause of its own, that it cannot be one failure. */
static bool groups_fit(const struct part *parts, size_t n, size_t a, size_t b)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t m = 0; m < n && parts[i].group == parts[a].group; m++) {
			const struct incident *x = parts[i].incident, *y = parts[m].incident;
			const struct diag_event *e, *f;
			if (parts[m].group != parts[b].group)
				continue;
			if (distance(x, y) > JOB_SECONDS)
				return false;
			if (different_causes(x, y) && !share_process(x, y) && !share_fault(x, y, &e, &f))
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

static bool is_calendar(enum time_clock clock) { return clock == TIME_WALL || clock == TIME_LOCAL || clock == TIME_YEARLESS; }

static const struct diag_event *first_calendar(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (is_calendar(i->events.data[n]->time.clock))
			return i->events.data[n];
	return NULL;
}

/** Calendars that differ in their zone, or in that one prints no year: by whole quarters of an hour. */
static void align_calendars(struct incident *to, struct incident *from)
{
	enum { QUARTER = 900, NEAR = 300 };
	const struct diag_event *x = first_calendar(to), *y = first_calendar(from);
	if (!x || !y || x->time.clock == y->time.clock)
		return;
	double apart = x->time.seconds - y->time.seconds;
	double shift = (double)(int64_t)(apart / QUARTER + (apart < 0 ? -0.5 : 0.5)) * QUARTER;
	if (apart - shift > -NEAR && apart - shift < NEAR)
		shift_times(from, y->time.clock, x->time.clock, shift);
}

/** Brings the times of @from to the clock of @to, by a fault that both report. */
static void align(struct incident *to, struct incident *from)
{
	const struct diag_event *x, *y;
	if (!share_fault(to, from, &x, &y) || x->time.clock == TIME_NONE || y->time.clock == TIME_NONE ||
	    x->time.clock == y->time.clock) {
		align_calendars(to, from);
		return;
	}
	shift_times(from, y->time.clock, x->time.clock, x->time.seconds - y->time.seconds);
	struct str address = fact_of(x, "fault_address");
	to->joined_by = arena_printf(
		&to->arena, "the fault at " STR_FMT " stands in both logs and brings their clocks together", STR_ARG(address));
}

// --- one incident ---

static bool same_event(const struct diag_event *a, const struct diag_event *b)
{
	if (a->kind != b->kind || a->at.source == b->at.source || a->time.clock != b->time.clock || a->nfacts != b->nfacts ||
	    a->time.seconds < b->time.seconds - 0.001 || a->time.seconds > b->time.seconds + 0.001 ||
	    a->time.clock == TIME_NONE)
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
	c->values = values_copy(&to->arena, e->values, e->nvalues);
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
	size_t at = position(to, e);
	vec_push(&to->events, NULL);
	memmove(to->events.data + at + 1, to->events.data + at, (to->events.len - 1 - at) * sizeof(to->events.data[0]));
	to->events.data[at] = copy_event(to, e);
}

static void add_gpu(struct incident *to, const struct diag_gpu *gpu)
{
	if (!gpu->device.n || str_eq(gpu->device, to->gpu.device))
		return;
	if (!to->gpu.device.n) {
		to->gpu = *gpu;
		to->gpu.device = arena_str(&to->arena, gpu->device);
		return;
	}
	for (size_t n = 0; n < to->other_gpus.len; n++)
		if (str_eq(to->other_gpus.data[n].device, gpu->device))
			return;
	struct diag_gpu copy = *gpu;
	copy.device = arena_str(&to->arena, gpu->device);
	vec_push(&to->other_gpus, copy);
}

static void add_machine(struct incident *to, const struct incident *from)
{
	for (size_t n = 0; n < from->machine.len; n++) {
		bool known = false;
		for (size_t m = 0; m < to->machine.len && !known; m++)
			known = str_eq(to->machine.data[m].name, from->machine.data[n].name);
		if (known)
			continue;
		struct fact copy = from->machine.data[n];
		copy.name = arena_str(&to->arena, copy.name);
		copy.value = arena_str(&to->arena, copy.value);
		vec_push(&to->machine, copy);
	}
}

static void merge(struct incident *to, struct incident *from)
{
	align(to, from);
	for (size_t n = 0; n < from->events.len; n++)
		insert(to, from->events.data[n]);
	add_gpu(to, &from->gpu);
	add_machine(to, from);
	to->dropped += from->dropped;
	to->reset_began |= from->reset_began;
	to->reset_ended |= from->reset_ended;
	to->reset_evidence |= from->reset_evidence;
	to->log_has_boot |= from->log_has_boot;
	to->vendor_known |= from->vendor_known;
	if (!to->boot_id.n)
		to->boot_id = arena_str(&to->arena, from->boot_id);
	incident_free(from);
}

static bool is_kernel(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (!i->events.data[n]->program)
			return true;
	return false;
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
			const struct incident *a = parts[i].incident, *b = parts[m].incident;
			const struct diag_event *x, *y;
			if (parts[i].group == parts[m].group || (strong && !share_fault(a, b, &x, &y) && !share_process(a, b)))
				continue;
			if (belong(&parts[i], &parts[m], kernels) && groups_fit(parts, n, i, m))
				unite(parts, n, i, m);
		}
	}
}

size_t incidents_join(struct incident **list, size_t n)
{
	struct part *parts = mem_alloc((n + 1) * sizeof(*parts));
	for (size_t i = 0; i < n; i++) {
		bool kernel = is_kernel(list[i]);
		parts[i] = (struct part){ .incident = list[i], .kernel = kernel };
	}
	qsort(parts, n, sizeof(*parts), by_content);
	size_t kernels = count_kernels(parts, n);
	for (size_t i = 0; i < n; i++)
		parts[i].group = i;
	join_parts(parts, n, kernels, true);
	join_parts(parts, n, kernels, false);
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		if (parts[i].group == i) {
			list[left++] = parts[i].incident;
			continue;
		}
		merge(parts[parts[i].group].incident, parts[i].incident);
		parts[parts[i].group].incident->joined = true;
	}
	free(parts);
	return left;
}
