#include "diagnose/engine.h"

#include <stdlib.h>

#include "diagnose/join_merge.h"
#include "diagnose/machine.h"
#include "diagnose/open.h"
#include "diagnose/take.h"

enum {
	FRAME_LINES = 60, // a stack trace is at most so long
	TOP_FRAMES = 5,   // below so many others the driver only asked for what failed
	SLEEP_SECONDS = 60,
	HIVE_SECONDS = 20, // between what is told of the GPUs of a hive that are reset together
	ANNOUNCED_SECONDS = 2, // up to the banks of an error that a driver announced without a number
	NEAR_LINES = 8,    // an oops so close behind an error of the driver is its own
};

struct engine *engine_new(const struct know *k, struct incident_sink sink)
{
	struct engine *g = mem_alloc(sizeof(*g));
	g->know = k;
	g->message = know_event(k, S(KNOW_EVENT_MESSAGE));
	g->sink = sink;
	return g;
}

void engine_free(struct engine *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->nopen; i++)
		incident_free(g->open[i]);
	machine_clear(&g->machine);
	free(g);
}

// --- to which incident an event belongs ---

static void forget_machine(struct engine *g)
{
	if (g->sink.machine)
		g->sink.machine(g->sink.ctx, &g->machine);
	machine_clear(&g->machine);
}

/** Whether this event begins something new although an incident of its GPU is open. */
static bool begins_anew(const struct engine *g, const struct incident *i, const struct event *e)
{
	if (!i->reset_ended || !e->signature->event || e->signature->event->opens != OPENS_YES)
		return false;
	struct diag_event trial = { .kind = e->signature->event, .nfacts = e->nfacts, .facts = (struct fact *)e->facts };
	const struct know_cause *cause = event_cause(g->know, &trial, i);
	return cause && cause->stage->counts < BAND_LATE;
}

// --- taking an event in ---

/** The kernel's clock stands still while the system sleeps, so that going to sleep and waking up lie close together. */
static bool is_sleeping(const struct engine *g, const struct event *e)
{
	return g->machine.sleeping && !later_than(e->time, g->machine.slept, SLEEP_SECONDS);
}

static enum phase phase_of(struct engine *g, const struct incident *i, const struct event *e)
{
	const struct machine_gpu *gpu = event_names_gpu(e) ? machine_gpu(&g->machine, e->device, e->at) : NULL;
	if (i->phase != PHASE_RUN)
		return i->phase;
	return is_sleeping(g, e) ? PHASE_SLEEP : gpu && gpu->probing ? PHASE_PROBE : PHASE_RUN;
}

/** The line that names the process of a fault says that it is of another one than those before it in @i. */
static struct incident *engine_hand_over(struct engine *g, struct incident *i, const struct event *e)
{
	struct incident *to = open_find_on_gpu(g, e, true);
	if (!to || !open_is_process_of(to, e)) {
		to = open_new(g, e, i);
		to->gpu.device = arena_str(&to->arena, i->gpu.device);
		to->host = arena_str(&to->arena, i->host);
	}
	incident_move_fault(to, i, e, phase_of(g, to, e));
	open_touch(g, to);
	return to;
}

static void take_detail(struct engine *g, struct incident *i, const struct event *e)
{
	if (incident_is_others(i, e))
		i = engine_hand_over(g, i, e);
	if (i->dropping)
		return;
	struct diag_event *d = incident_find_detailed(i, e);
	if (!d && !e->signature->program && !e->signature->bank)
		d = incident_add_event(i, e, e->signature->details[0], phase_of(g, i, e));
	// A repetition that was only counted has its facts already.
	if (!d || i->dropping || d->count > 1)
		return;
	if (!d->device.n)
		d->device = arena_str(&i->arena, e->device);
	incident_add_facts(i, d, e);
}

static bool error_just_before(const struct engine *g, const struct event *e)
{
	// An oops prints its frame before the panic that follows from it.
	if (g->frame_at.line && g->frame_at.source == e->at.source && e->at.line <= g->frame_at.line + FRAME_LINES)
		return true;
	return g->error_at.line && g->error_at.source == e->at.source && e->at.line <= g->error_at.line + NEAR_LINES &&
	       !later_than(e->time, g->error_time, 1);
}

static void engine_take_event(struct engine *g, struct incident *i, const struct event *e)
{
	const struct know_event *kind = e->signature->event;
	if (kind->means_reset && i->phase == PHASE_RUN && !is_sleeping(g, e) && incident_has_hang(i)) {
		i->phase = PHASE_RESET;
		i->reset_began = true;
	}
	struct diag_event *d = incident_add_event(i, e, kind, phase_of(g, i, e));
	// A counted repetition has its facts already.
	if (d && d->count == 1)
		incident_add_facts(i, d, e);
	if (d && kind->needs_frame == FRAME_NEAR)
		d->confirmed |= error_just_before(g, e);
	if (kind->gap > i->gap)
		i->gap = kind->gap;
	i->now |= e->now;
	// Going to sleep, the driver resets some GPUs as a matter of course.
	if (kind->tells != TELLS_INSIDE_RESET || i->reset_began || !is_sleeping(g, e))
		incident_follow_phase(i, kind->tells);
}

/** Whether a frame of the driver says that what happened is the driver's: a task waits wherever the driver stands in its stack, but
 * the kernel's bug is of those who stand at its top. */
static bool frame_confirms(const struct diag_event *d, const struct event *e)
{
	const struct fact *depth = event_fact(e, "frame_depth");
	int64_t above;
	return d->kind->needs_frame != FRAME_NEAR || !depth || !str_number(depth->value, &above) || above < TOP_FRAMES;
}

/** Where the kernel failed says more than a frame, or the function that its work began with; else the first line counts. */
static void take_frame_facts(struct incident *i, struct diag_event *d, const struct event *e)
{
	const bool instead = e->signature->event->tells == TELLS_FAULTED && diag_find(d, S("frame_depth"));
	for (size_t f = 0; f < e->nfacts; f++) {
		struct fact *has = list_find(d->facts, d->nfacts, one, str_eq(one->name, e->facts[f].name));
		if (!has) {
			diag_set_fact(i, d, e->facts[f]);
		} else if (instead) {
			has->value = arena_str(&i->arena, e->facts[f].value);
			has->at = e->facts[f].at;
		}
	}
}

/** What a line of a stack says about the oops or hung task before it: whose it is, and which process met it. */
static void engine_take_frame(struct engine *g, const struct event *e)
{
	enum know_tells what = e->signature->event->tells;
	for (size_t n = 0; n < g->nopen; n++) {
		struct incident *i = g->open[n];
		for (size_t k = i->events.len; k-- > 0;) {
			struct diag_event *d = i->events.data[k];
			if (!d->kind->needs_frame || e->at.source != d->at.source || e->at.line < d->at.line ||
			    e->at.line > d->at.line + FRAME_LINES * d->count)
				continue;
			d->framed |= what != TELLS_FRAME_PROCESS;
			if (what == TELLS_ELSEWHERE) {
				d->elsewhere |= d->kind->needs_frame == FRAME_NEAR;
				return;
			}
			bool confirms = what == TELLS_FAULTED || (what == TELLS_FRAME && frame_confirms(d, e));
			if ((what == TELLS_FRAME && !confirms) || d->elsewhere)
				return;
			d->confirmed |= confirms;
			if (confirms)
				g->frame_at = e->at;
			take_frame_facts(i, d, e);
			return;
		}
	}
}

/** IOMMU faults while a GPU is being started are its boot picture, not an error. */
static void mark_probe(struct engine *g, const struct event *e)
{
	for (size_t n = 0; n < g->nopen; n++) {
		for (size_t k = 0; k < g->open[n]->events.len; k++) {
			struct diag_event *d = g->open[n]->events.data[k];
			if (d->kind->bus == BUS_IOMMU && !later_than(e->time, d->last, 2))
				d->phase = PHASE_PROBE;
		}
	}
}

/** A firmware file that was missing was none that mattered if the GPU started all the same. */
static void mark_ready(struct engine *g, const struct event *e)
{
	for (size_t n = 0; n < g->nopen; n++) {
		for (size_t k = 0; k < g->open[n]->events.len; k++) {
			struct diag_event *d = g->open[n]->events.data[k];
			if (d->kind->until_ready && (!d->device.n || !e->device.n || str_eq(d->device, e->device)))
				d->unrelated = true;
		}
	}
}

static bool tells(const struct event *e, enum know_tells what)
{
	return e->signature && e->signature->event && e->signature->event->tells == what;
}

static bool new_boot(const struct engine *g, const struct event *e)
{
	if (e->boot_id.n && g->boot_id.n && !str_eq(str_cut(e->boot_id, sizeof(g->boot_id_room)), g->boot_id))
		return true;
	if (tells(e, TELLS_BOOT))
		return true;
	// The kernel's clock only runs forward; printk of several CPUs may be some milliseconds out of order.
	return e->time.clock == TIME_BOOT && g->last.clock == TIME_BOOT && e->time.seconds < g->last.seconds - 5;
}

static void begin_boot(struct engine *g, const struct event *e)
{
	// `-- Boot 4f1c... --` and the kernel's own first line are one boot.
	bool same = g->marked && !e->boot_id.n;
	g->marked = false;
	if (same)
		return;
	open_close_all(g);
	g->boots++;
	g->frame_at = g->error_at = (struct place){ 0 };
	if (g->sink.machine)
		g->sink.machine(g->sink.ctx, &g->machine);
	machine_begin_boot(&g->machine, e->at);
	const struct fact *marker = event_fact(e, "boot_id"); // `-- Boot 4f1c... --`
	g->boot_id = str_cut(marker ? marker->value : e->boot_id, sizeof(g->boot_id_room));
	memcpy(g->boot_id_room, g->boot_id.p ? g->boot_id.p : "", g->boot_id.n);
	g->boot_id.p = g->boot_id_room;
	g->marked = marker != NULL;
}

static void take_context(struct engine *g, const struct event *e)
{
	if (tells(e, TELLS_PROCESS)) {
		if (g->sink.process)
			g->sink.process(g->sink.ctx, e);
		return;
	}
	machine_note(&g->machine, g->know, e);
	if (tells(e, TELLS_GPU_FOUND))
		mark_probe(g, e);
	else if (tells(e, TELLS_GPU_READY))
		mark_ready(g, e);
}

/** What concerns boots, clocks and the machine; with it old incidents end. */
static void follow_machine(struct engine *g, const struct event *e)
{
	if (new_boot(g, e) || (e->boot_id.n && !g->boot_id.n))
		begin_boot(g, e);
	if (e->time.clock != TIME_NONE) {
		g->last = e->time;
		open_close_old(g, e->time);
	}
	if (event_names_gpu(e))
		machine_gpu(&g->machine, e->device, e->at);
	if (e->signature && e->signature->level == LEVEL_ERROR && !str_is(e->signature->subsystem, "kernel")) {
		g->error_time = e->time;
		g->error_at = e->at;
	}
}

/** The driver resets all GPUs of a hive together. It tells of the beginning once, for the GPU that failed, and of the rest for each: what
 * stands in the log of the others is a part of that reset. */
static bool is_of_hive(struct engine *g, const struct event *e)
{
	bool inside = tells(e, TELLS_INSIDE_RESET) || tells(e, TELLS_RESET_ENDS);
	struct incident *of = NULL;
	if (!inside || !event_names_gpu(e))
		return false;
	for (size_t n = 0; n < g->nopen; n++) {
		struct incident *i = g->open[n];
		if (open_is_on(i, e->device))
			return false;
		if (i->gpu.device.n && i->reset_began && !later_than(e->time, i->end, HIVE_SECONDS))
			of = i;
	}
	if (of)
		incident_add_gpu(of, &(struct diag_gpu){ .device = e->device });
	return of;
}

/** Whether @d and @e tell of one hardware error: by the driver's number of it; without one a bank, or
 * a GPU that is gone, follows what announces it at once. */
static bool is_same_error(const struct diag_event *d, const struct event *e)
{
	const bool announced = e->signature->event && e->signature->event->announced;
	if (!announced && (e->numbered || d->numbered))
		return e->numbered == d->numbered;
	return (announced || e->signature->bank) && d->kind->announces && !later_than(e->time, d->last, ANNOUNCED_SECONDS);
}

/** The incident of the hardware error that @e tells of, on whatever GPU of the hive it was announced; NULL: there is none. Who tells of the
 * error itself is the GPU that it is about. */
static struct incident *incident_of_error(struct engine *g, const struct event *e)
{
	for (size_t n = 0; n < g->nopen && event_names_gpu(e); n++) {
		struct incident *i = g->open[n];
		bool same = false, announced = true;
		for (size_t k = 0; k < i->events.len; k++) {
			same |= is_same_error(i->events.data[k], e);
			announced &= i->events.data[k]->kind->announces || i->events.data[k]->kind->bus;
		}
		if (!same || later_than(e->time, i->end, HIVE_SECONDS))
			continue;
		if (announced)
			incident_lead_gpu(i, e->device);
		if (announced && e->signature->event && e->signature->event->announced)
			i = open_merge(g, i);
		incident_add_gpu(i, &(struct diag_gpu){ .device = e->device });
		return i;
	}
	return NULL;
}

/** The open incident that @e belongs to; a new one where it begins one; NULL where it does neither. */
static struct incident *incident_for(struct engine *g, const struct event *e)
{
	struct incident *of_error = incident_of_error(g, e), *i = of_error ? of_error : open_find(g, e);
	if (i && incident_is_others(i, e) && e->signature->event)
		i = NULL;
	if (i && !of_error)
		i = open_join(g, i, e);
	if (i && begins_anew(g, i, e)) {
		for (size_t n = 0; n < g->nopen; n++)
			if (g->open[n] == i)
				open_close(g, n);
		i = NULL;
	}
	// What adds to another message of a program, or to a bank, says nothing alone; the kernel's logs may begin in the middle.
	bool begins =
		e->signature->event ? e->signature->event->opens == OPENS_YES : !e->signature->program && !e->signature->bank;
	if (!i && !begins)
		return NULL;
	if (!i)
		i = open_new(g, e, NULL);
	if (!i->gpu.device.n && event_names_gpu(e))
		i->gpu.device = arena_str(&i->arena, e->device);
	if (e->time.clock != TIME_NONE) {
		if (i->begin.clock == TIME_NONE)
			i->begin = e->time;
		i->end = e->time;
	}
	if (!i->host.n && e->host.n)
		i->host = arena_str(&i->arena, e->host);
	return i;
}

/** It stands beside what else happened, but neither begins an incident nor prolongs one. */
static void engine_note(struct engine *g, const struct know_event *kind, const struct event *e)
{
	const struct diag_seen seen = { kind, { event_get, e }, e->text, e->device, e->at };
	if (kind && g->sink.note)
		g->sink.note(g->sink.ctx, &seen);
}

static void take_message(struct engine *g, const struct event *e)
{
	struct incident *i = g->message && e->signature->level != LEVEL_INFO ? open_find(g, e) : NULL;
	if (!i) {
		// Healthy machines print some of them, so it is no incident. Where there is none, it is what there is to tell.
		if (e->signature->level == LEVEL_ERROR)
			engine_note(g, g->message, e);
		return;
	}
	bool dropping = i->dropping; // what follows may still belong to an event before this message
	struct diag_event *d = incident_add_event(i, e, g->message, phase_of(g, i, e));
	if (d && d->count == 1)
		incident_add_facts(i, d, e);
	i->dropping = dropping;
}

void engine_say_part(struct engine *g, const struct know_part *part) { g->machine.said = part; }

void engine_event(struct engine *g, const struct event *told)
{
	const struct know_signature *s = told->signature;
	struct event found;
	const struct event *e = told;
	if (s && s->event && s->event->bus == BUS_PORT) {
		memcpy(&found, told, offsetof(struct event, facts) + told->nfacts * sizeof(told->facts[0]));
		if (!open_find_behind(g, &found)) {
			engine_note(g, s->event, told);
			return;
		}
		e = &found;
	}
	follow_machine(g, e);
	g->marked &= tells(e, TELLS_BOOT);
	if (!s)
		return;
	if (s->message) {
		take_message(g, e);
		return;
	}
	// What opens an incident is told when all of it was read, if that is none.
	if (s->event && !s->event->needs_frame && (s->event->note || (s->event->aside.n && s->event->opens != OPENS_YES)))
		engine_note(g, s->event, e);
	if (s->event && s->event->opens == OPENS_CONTEXT) {
		take_context(g, e);
		return;
	}
	if (tells(e, TELLS_FRAME) || tells(e, TELLS_FRAME_PROCESS) || tells(e, TELLS_FAULTED) || tells(e, TELLS_ELSEWHERE)) {
		engine_take_frame(g, e);
		return;
	}
	struct incident *i = is_of_hive(g, e) ? NULL : incident_for(g, e);
	if (!i)
		return;
	open_touch(g, i);
	if (s->event)
		engine_take_event(g, i, e);
	else
		take_detail(g, i, e);
}

/** Whether @d is what @e tells: of the same GPU, at about the same time, and of the same process. */
static bool is_same(const struct incident *i, const struct diag_event *d, const struct event *e)
{
	enum { APART = 10 }; // seconds
	const struct fact *pid = event_fact(e, "pid");
	return d->kind == e->signature->event && str_eq(i->gpu.device, e->device) && !later_than(e->time, d->last, APART) &&
	       (!pid || str_eq(diag_value(d, "pid"), pid->value));
}

void engine_second(struct engine *g, const struct event *e)
{
	bool known = false;
	for (size_t n = 0; n < g->nopen; n++) {
		for (size_t k = 0; k < g->open[n]->events.len; k++) {
			struct diag_event *d = g->open[n]->events.data[k];
			if (!is_same(g->open[n], d, e))
				continue;
			known = true;
			d->unattested = false;
		}
	}
	if (!known)
		engine_event(g, e);
}

void engine_end(struct engine *g)
{
	open_close_all(g);
	forget_machine(g);
	g->boot_id = (struct str){ 0 };
	g->last = (struct stamp){ 0 };
	g->boots++;
}

struct incident *engine_open(const struct engine *g, size_t n) { return n < g->nopen ? g->open[n] : NULL; }

struct incident *engine_conclude(struct engine *g, size_t n)
{
	if (n >= g->nopen)
		return NULL;
	incident_attribute(g->open[n], g->know, &g->machine);
	incident_conclude(g->open[n], g->know);
	return g->open[n];
}

void engine_close(struct engine *g, uint64_t order)
{
	for (size_t n = 0; n < g->nopen; n++)
		if (g->open[n]->order == order) {
			open_close(g, n);
			return;
		}
}

void engine_close_before(struct engine *g, double seconds)
{
	for (size_t n = 0; n < g->nopen;) {
		if (g->open[n]->end.clock == TIME_BOOT && g->open[n]->end.seconds < seconds)
			open_close(g, n);
		else
			n++;
	}
}
