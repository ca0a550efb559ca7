// What a recording tells a diagnosis: faults with kernel and buffer, kernels that do not end, calls that do not return, and the memory that
// there was.
#include "evidence/recording/tell.h"

#include <stdlib.h>

#include "base/door/door.h"
#include "evidence/recording/head.h"
#include "evidence/recording/process.h"
#include "evidence/recording/waits.h"
#include "source/file.h"
#include "source/source.h"

enum { EVENTS_TOLD = 48, MAP_MOST = 65536 };
static const double STILL = 5; // seconds without progress, before which work in flight is nothing to tell

struct recording_telling {
	const struct artefact_output *out;
	const struct flight_recording *r;
	struct arena arena;
	size_t told;
	bool alive; // its process runs
};

static bool recording_tell_begin(struct recording_telling *t, const char *signature, uint64_t ticks, struct event *ret)
{
	if (t->told >= EVENTS_TOLD || !artefact_event(t->out, signature, (struct place){ t->out->source, 0 }, ret))
		return false;
	t->told++;
	ret->time = (struct stamp){ TIME_WALL, recording_time(t->r, ticks) };
	ret->boot_id = t->r->boot_id;
	ret->began = t->r->header.start.boot_ns;
	ret->now = t->r->alive;
	event_add_text(ret, &t->arena, "process", t->r->program);
	// A number of a container's is no number that others know the process by.
	event_add_number(ret, &t->arena, t->r->header.pid_namespace ? "pid_inside" : "pid", t->r->header.pid);
	if (t->r->header.rank >= 0)
		event_add_number(ret, &t->arena, "rank", t->r->header.rank);
	return true;
}

static void tell_gpus(struct recording_telling *t)
{
	for (size_t i = 0; i < t->r->nagents; i++) {
		const struct recorded_agent *g = &t->r->agents[i];
		struct event e;
		if (!g->gpu || !artefact_event(t->out, "recording-gpu", (struct place){ t->out->source, 0 }, &e))
			continue;
		e.device = g->pci;
		e.driver = S("amdgpu"); // no other driver's GPU has this runtime
		e.boot_id = t->r->boot_id; // else what follows begins another boot, of which nothing is known
		event_add_text(&e, &t->arena, "pci", g->pci);
		event_add_text(&e, &t->arena, "gfx", g->name);
		event_add_number(&e, &t->arena, "gpu_node", g->node);
		artefact_tell(t->out, &e);
	}
}

static void recording_tell_add_packet(struct recording_telling *t, struct event *e, const struct recorded_packet *p)
{
	struct arena *a = &t->arena;
	const uint32_t *g = p->raw.grid, *w = p->group;
	if (p->kernel)
		event_add_text(e, a, "kernel_name", packet_say(a, p));
	event_add_text(e, a, "grid", arena_printf(a, "%u,%u,%u", g[0], g[1], g[2]));
	event_add_text(e, a, "workgroup", arena_printf(a, "%u,%u,%u", w[0], w[1], w[2]));
	event_add_number(e, a, "packet", (int64_t)p->id);
	event_add_text(e, a, "arguments", packet_arguments_say(a, t->r, p));
	if (p->operation)
		event_add_text(e, a, "operation", operation_say(a, t->r, p->operation));
}

static int recording_tell_by_begin(const void *a, const void *b)
{
	const struct memory_row *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/** Keeps a row that is nearer than the farthest of those on its side of the address. */
static void keep_near(struct memory_row *rows, size_t *n, size_t most, uint64_t address, struct memory_row row)
{
	size_t farthest = 0;
	for (size_t i = 1; i < *n; i++)
		if (llabs((int64_t)(rows[i].begin - address)) > llabs((int64_t)(rows[farthest].begin - address)))
			farthest = i;
	if (*n < most)
		rows[(*n)++] = row;
	else if (llabs((int64_t)(row.begin - address)) < llabs((int64_t)(rows[farthest].begin - address)))
		rows[farthest] = row;
}

/** The allocations around an address, as they were at a time, for people to look at. */
static void add_around(struct recording_telling *t, struct event *e, uint64_t address, uint64_t time)
{
	enum { NEAR_EACH = 3 };
	struct memory_row *rows = arena_alloc(&t->arena, 2 * NEAR_EACH * sizeof(*rows)), behind[NEAR_EACH];
	size_t n = 0, nbehind = 0;
	for (size_t i = 0; i < t->r->nallocations; i++) {
		const struct recorded_allocation *a = &t->r->allocations[i];
		const uint64_t end = a->size < UINT64_MAX - a->begin ? a->begin + a->size : UINT64_MAX;
		const struct memory_row row = { a->begin, end, a->died && a->died <= time };
		if (!a->size || a->call == CALL_RESERVE || a->born > time)
			continue;
		if (a->begin <= address)
			keep_near(rows, &n, NEAR_EACH, address, row);
		else
			keep_near(behind, &nbehind, NEAR_EACH, address, row);
	}
	memcpy(rows + n, behind, nbehind * sizeof(*rows));
	n += nbehind;
	if (n)
		qsort(rows, n, sizeof(*rows), recording_tell_by_begin);
	e->dump.memory = rows;
	e->dump.nmemory = n;
}

/** The hold that a failure began: the next after those that were over by then. */
static uint32_t hold_begun_by(const struct flight_recording *r, const struct rec_event *f)
{
	uint64_t before = 0;
	for (size_t i = 0; i < r->nevents; i++) {
		const struct rec_event *e = &r->events[i].raw;
		if (e->call == CALL_HOLD && e->time < f->time && e->a[0] > before)
			before = e->a[0];
	}
	return (uint32_t)before + 1;
}

static void recording_tell_tell_fault(struct recording_telling *t, const struct rec_event *f)
{
	struct event e;
	const struct recorded_agent *g = recording_agent(t->r, f->a[2]);
	const struct recorded_queue *of;
	const struct recorded_packet *p = recording_faulted(t->r, f, &of);
	if (!recording_tell_begin(t, "recording-fault", f->time, &e))
		return;
	e.device = g ? g->pci : (struct str){ 0 };
	e.hold = hold_begun_by(t->r, f);
	event_add_code(&e, &t->arena, "fault_address", f->a[0]);
	event_add_text(&e, &t->arena, "fault_reason", fault_reasons_say(&t->arena, f->a[1]));
	if (g)
		event_add_number(&e, &t->arena, "gpu_node", g->node);
	const struct nearby n = recording_near(t->r, f->a[0], f->time, f->a[2]);
	const struct str place = near_say(&t->arena, t->r, &n, f->time, " the fault");
	event_add_text(&e, &t->arena, "fault_place", place);
	if (n.relation == NEAR_FREED)
		event_add_text(&e, &t->arena, "use_after_free", place);
	event_add_text(&e, &t->arena, "fault_tensor", tensor_say(&t->arena, t->r, f->a[0]));
	if (p)
		recording_tell_add_packet(t, &e, p);
	add_around(t, &e, f->a[0], f->time);
	artefact_tell(t->out, &e);
}

static void tell_queue_error(struct recording_telling *t, const struct rec_event *f)
{
	struct event e;
	for (size_t i = 0; i < t->r->nqueues; i++) {
		const struct recorded_queue *q = &t->r->queues[i], *of;
		const struct recorded_packet *p = recording_faulted(t->r, f, &of);
		if (q->head.address != f->a[0] || !recording_tell_begin(t, "recording-queue-error", f->time, &e))
			continue;
		e.device = q->agent ? q->agent->pci : (struct str){ 0 };
		e.hold = hold_begun_by(t->r, f);
		event_add_text(&e, &t->arena, "queue_error", status_say(&t->arena, f->a[1]));
		event_add_number(&e, &t->arena, "queue", q->id);
		if (p)
			recording_tell_add_packet(t, &e, p);
		artefact_tell(t->out, &e);
	}
}

/** The packet at the head of a queue that stood still before the recording's end, or stands still now: a kernel that does not end, or a
 * barrier that waits for another queue. */
static void tell_standing(struct recording_telling *t)
{
	for (size_t i = 0; i < t->r->nqueues; i++) {
		const struct recorded_queue *q = &t->r->queues[i];
		const struct recorded_packet *p = q->stands ? queue_running(q) : NULL;
		struct event e;
		if (!p || recording_age(t->r, p->raw.time) < STILL || recording_age(t->r, q->head.moved) < STILL ||
		    !recording_tell_begin(t, p->kind == PACKET_DISPATCH ? "recording-dispatch" : "recording-queue", p->raw.time,
					  &e))
			continue;
		e.device = q->agent ? q->agent->pci : (struct str){ 0 };
		event_add_number(&e, &t->arena, "queue", q->id);
		event_add_text(&e, &t->arena, "stalled", S("yes"));
		event_add_text(&e, &t->arena, "age", seconds_say(&t->arena, recording_age(t->r, p->raw.time)));
		if (p->kind == PACKET_DISPATCH) {
			recording_tell_add_packet(t, &e, p);
		} else {
			event_add_number(&e, &t->arena, "read_index", (int64_t)q->read);
			event_add_number(&e, &t->arena, "write_index", (int64_t)q->write);
			event_add_number(&e, &t->arena, "pending", (int64_t)(q->write - q->read));
		}
		artefact_tell(t->out, &e);
	}
}

/** What came before an allocation that does not return, and on which GPU it is. */
static void add_allocated(struct recording_telling *t, struct event *e, const struct recorded_thread *h)
{
	struct small_allocations small;
	const struct recorded_agent *gpu = thread_asks_gpu(t->r, h);
	if (gpu) {
		e->device = gpu->pci;
		e->driver = S("amdgpu");
	}
	event_add_text(e, &t->arena, "allocated_before", allocations_say(&t->arena, t->r, &small));
	event_add_number(e, &t->arena, "allocation_bytes", (int64_t)h->raw.a[1]);
	event_add_number(e, &t->arena, "small_allocations", (int64_t)small.count);
}

/** Threads that do not come back from a call. */
static void tell_waiting(struct recording_telling *t)
{
	for (size_t i = 0; i < t->r->nthreads; i++) {
		const struct recorded_thread *h = &t->r->threads[i];
		struct event e;
		if (!h->raw.call || h->raw.ended || recording_age(t->r, h->raw.since) < STILL ||
		    !recording_tell_begin(t, "recording-waits", h->raw.since, &e))
			continue;
		event_add_text(&e, &t->arena, "thread", arena_printf(&t->arena, STR_FMT " (%u)", STR_ARG(h->name), h->raw.tid));
		event_add_text(&e, &t->arena, "waits_in", thread_call_say(&t->arena, t->r, h));
		event_add_text(&e, &t->arena, "age", seconds_say(&t->arena, recording_age(t->r, h->raw.since)));
		event_add_text(&e, &t->arena, "kernel_waits_in", h->kernel);
		e.now = t->alive;
		if (h->raw.call == CALL_POOL_ALLOCATE || h->raw.call == CALL_HANDLE_CREATE)
			add_allocated(t, &e, h);
		artefact_tell(t->out, &e);
	}
}

/** Where the program did not launch what it should have: its thread that is in an operation is told. */
static void tell_idle(struct recording_telling *t)
{
	const struct idle_gpu g = recording_idle(t->r);
	struct event e;
	if (!g.idle || !recording_tell_begin(t, "recording-idle", t->r->now, &e))
		return;
	event_add_text(&e, &t->arena, "age", seconds_say(&t->arena, g.age));
	if (g.launched)
		event_add_number(&e, &t->arena, "launched", (int64_t)g.launched);
	for (size_t i = t->r->noperations; i-- > 0;)
		if (!t->r->operations[i].raw.end) {
			event_add_text(&e, &t->arena, "operation", operation_say(&t->arena, t->r, &t->r->operations[i]));
			break;
		}
	artefact_tell(t->out, &e);
}

/** The allocations that lived at the end, as ranges that do not overlap: for faults that others tell of. The recording's own faults know
 * more, also of what was freed. */
static void tell_memory(struct recording_telling *t)
{
	const struct flight_recording *r = t->r;
	struct event e;
	struct address_range *map = arena_alloc(&t->arena, (r->nallocations + 1) * sizeof(*map));
	size_t n = 0;
	for (size_t i = 0; i < r->nevents; i++)
		if (r->events[i].raw.call == CALL_FAULT)
			return;
	for (size_t i = 0; i < r->nallocations && n < MAP_MOST; i++) {
		const struct recorded_allocation *a = &r->allocations[i];
		const uint64_t end = a->size < UINT64_MAX - a->begin ? a->begin + a->size : UINT64_MAX;
		if (a->died || !a->size || a->call == CALL_RESERVE || (n && a->begin < map[n - 1].end))
			continue;
		map[n++] = (struct address_range){ a->begin, end };
	}
	if (!n || !artefact_event(t->out, "recording-memory", (struct place){ t->out->source, 0 }, &e))
		return;
	e.dump.map = map;
	e.dump.nmap = n;
	event_add_number(&e, &t->arena, "ranges", (int64_t)n);
	artefact_tell(t->out, &e);
}

/** Hands on the events that a recording tells, and says how many of them tell of something that went wrong. */
static size_t recording_tell(const struct artefact_output *out, const struct flight_recording *r, bool alive)
{
	struct recording_telling t = { .out = out, .r = r, .alive = alive };
	tell_gpus(&t);
	for (size_t i = 0; i < r->nevents; i++) {
		const struct rec_event *e = &r->events[i].raw;
		if (e->call == CALL_FAULT)
			recording_tell_tell_fault(&t, e);
		else if (e->call == CALL_QUEUE_ERROR)
			tell_queue_error(&t, e);
	}
	tell_standing(&t);
	tell_waiting(&t);
	tell_idle(&t);
	tell_memory(&t);
	arena_free(&t.arena);
	return t.told;
}

struct uh_error *recording_read(const struct artefact_output *out, const struct source *s, struct str bytes)
{
	struct flight_recording *r;
	struct file f = file_memory(out->name, bytes);
	if (s->door)
		f = (struct file){ .name = out->name, .door = s->door, .size = s->size };
	char *copy = f.size <= RECORDING_MOST ? mem_alloc(f.size + 1) : NULL;
	if (copy && !f.door)
		mem_copy_sparse(copy, bytes.p, bytes.n); // most of a recording is room that was never used
	if (!copy || (f.door && !file_read(&f, 0, copy, f.size))) {
		free(copy);
		return uh_error_new("%s: it could not be read to its end", s->name);
	}
	struct uh_error *err = recording_parse(s->name, copy, f.size, &r);
	if (err)
		return err;
	const bool alive =
		f.door && r->header.state == RECORDING_ON && recording_alive(r, s->name, door_what(f.door)->st.st_uid);
	if (alive || s->tape)
		recording_ask_threads(r, s->tape);
	const size_t told = recording_tell(out, r, alive);
	if (alive) {
		r->alive = true;
		r->now = recording_now(r);
		recording_progress(r);
	}
	recording_tell_process(out, r, f.door ? s->name : NULL);
	const char *gap = recording_gap(r);
	// Launches of a process that has ended without a word, of which nobody knows that they ended: one of them may be why. What is no
	// file of its own, as in a bundle, was copied from a process that may have lived.
	const bool died = f.door && r->header.state == RECORDING_ON && recording_numbers_ours(r) && !r->alive;
	const uint64_t open = died && !gap && !told ? recording_open_ended(r) : 0;
	if (open)
		err = uh_error_new("%s: its process died, and nobody knows whether %llu of its launches ended", s->name,
				   (unsigned long long)open);
	if (gap)
		err = uh_error_new("%s: not all that was launched is known: %s; what is there was read", s->name, gap);
	recording_free(r);
	return err;
}
