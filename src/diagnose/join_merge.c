#include "diagnose/join_merge.h"

#include "diagnose/chain.h"
#include "diagnose/take.h"

enum {
	PAGE_SHIFT = 12,
	SMALLEST_ADDRESS = 1 << 20,
	JOINED_EVENTS_MAX = 1024,
};

bool diag_page(const struct diag_event *e, uint64_t *ret)
{
	uint64_t address;
	if (!str_hex(diag_value(e, "fault_address"), &address) || address < SMALLEST_ADDRESS)
		return false;
	*ret = address >> PAGE_SHIFT;
	return true;
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

static const struct diag_event *first_calendar(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (is_calendar(i->events.data[n]->time.clock))
			return i->events.data[n];
	return NULL;
}

/** Whole half hours, by which zones differ, that bring the time of a report shortly behind what it reports; else false. One gap alone
 * tells no more: with any other offset the effect would stand before its cause. @apart: the time of the report up to the other's. */
static bool zone_shift(double apart, double *ret)
{
	enum { HALF_HOUR = 1800, NEAR = 300, BEFORE = 5 }; // clocks differ by some seconds
	const double steps = (apart - BEFORE) / HALF_HOUR;
	const int64_t whole = (int64_t)steps;
	*ret = (double)(whole + ((double)whole < steps)) * HALF_HOUR;
	return *ret - apart <= NEAR;
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
		for (size_t m = 0; m < b->events.len && diag_page(e, &x); m++) {
			const struct diag_event *f = b->events.data[m];
			if (diag_page(f, &y) && x == y && e->time.clock != TIME_NONE && f->time.clock != TIME_NONE &&
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
static void align(struct incident *to, struct incident *from, struct clock_bridge *bridge)
{
	const struct diag_event *x, *y;
	if (common_fault(to, from, &x, &y)) {
		*bridge = (struct clock_bridge){ y->time.clock, x->time.clock, x->time.seconds - y->time.seconds };
		struct str address = diag_value(x, "fault_address");
		to->joined_by = arena_printf(&to->arena, "the fault at " STR_FMT " is in both logs and aligns their clocks",
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
	c->named = arena_str(&to->arena, e->named);
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

void incident_add_gpu(struct incident *to, const struct diag_gpu *gpu)
{
	// A device core names the part, the log the address.
	if (!to->gpu.name.n && (!gpu->device.n || str_eq(gpu->device, to->gpu.device))) {
		to->gpu.name = arena_str(&to->arena, gpu->name);
		to->gpu.gfx = to->gpu.gfx.n ? to->gpu.gfx : arena_str(&to->arena, gpu->gfx);
		to->gpu.apu = gpu->apu;
	}
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

void incident_lead_gpu(struct incident *i, struct str device)
{
	const struct diag_gpu before = i->gpu;
	struct diag_gpu *other = list_find(i->other_gpus.data, i->other_gpus.len, it, str_eq(it->device, device));
	if (str_eq(before.device, device))
		return;
	i->gpu = other ? *other : (struct diag_gpu){ .device = arena_str(&i->arena, device) };
	if (other)
		*other = before;
	else if (before.device.n)
		vec_push(&i->other_gpus, before);
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

/** Whether it tells which module failed by other means than an address: by its place on the board, its number or its serial number. */
static bool tells_module(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && !i->gpu.device.n; n++) {
		const struct diag_event *e = i->events.data[n];
		if (diag_fact(e, "bank_oam") || diag_fact(e, "gpu_index") || diag_fact(e, "bank_serial"))
			return true;
	}
	return false;
}

/** Whether its GPUs only announce an error, which may be that of any other of their hive. */
static bool only_announces(const struct incident *i)
{
	bool announces = false;
	for (size_t n = 0; n < i->events.len; n++) {
		if (diag_fact(i->events.data[n], "bank_oam"))
			return false;
		announces |= i->events.data[n]->kind->announces;
	}
	return announces;
}

/** The GPU of @to is not known: those that it had are others. */
static void forget_gpu(struct incident *to)
{
	if (to->gpu.device.n)
		vec_push(&to->other_gpus, to->gpu);
	to->gpu = (struct diag_gpu){ 0 };
}

void incident_merge(struct incident *to, struct incident *from, struct clock_bridge *bridge)
{
	const bool elsewhere = tells_module(to) ? only_announces(from) : tells_module(from) && only_announces(to);
	align(to, from, bridge);
	for (size_t n = 0; n < from->events.len; n++)
		insert(to, from->events.data[n]);
	incident_add_gpu(to, &from->gpu);
	for (size_t n = 0; n < from->other_gpus.len; n++)
		incident_add_gpu(to, &from->other_gpus.data[n]);
	if (elsewhere)
		forget_gpu(to);
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
	if (!to->machine_boot.n)
		to->machine_boot = arena_str(&to->arena, from->machine_boot);
	if (!to->boot_id.n)
		to->boot_id = arena_str(&to->arena, from->boot_id);
	incident_free(from);
}

// --- whether they can be one failure ---

bool incident_has_reset(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->hang || i->events.data[n]->kind->as_hang)
			return true;
	return false;
}

bool incident_tells_of_hang(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->told_hang)
			return true;
	return false;
}

bool incident_same_class(const struct incident *a, const struct incident *b)
{
	return a->cause && b->cause && str_eq(a->cause->head.id, b->cause->head.id);
}

bool incident_different_causes(const struct incident *a, const struct incident *b)
{
	if (!a->cause || !b->cause || a->cause->stage->counts >= BAND_SYMPTOM || b->cause->stage->counts >= BAND_SYMPTOM)
		return false;
	return !incident_same_class(a, b) && !(a->cause->class->memory_fault && b->cause->class->memory_fault);
}

bool incident_explains_hang(const struct know *k, const struct incident *kernel, const struct incident *program)
{
	const struct diag_event *from = kernel->root, *to = program->root;
	return incident_has_hang(kernel) && incident_tells_of_hang(program) && from && from->cause && to && to->cause &&
	       chain_lead(k, from, to);
}
