#include "report/last/last.h"

#include <math.h>

#include "base/print.h"
#include "report/last/parts.h"

enum { IN_FLIGHT_SHOWN = 4, ENDED_SHOWN = 1, QUEUES_SHOWN = 16, ALLOCATIONS_SHOWN = 3 };

static const double STILL = 0.5; // seconds without a packet that ended are worth telling

struct sheet_value v_seconds(struct recording_sheet *w, double seconds) { return v_text(seconds_say(&w->arena, seconds)); }

void put_seconds(struct recording_sheet *w, const char *key, double seconds)
{
	if (w->sheet.as_json) {
		jw_key(&w->sheet.json, key);
		jw_decimal(&w->sheet.json, seconds, 6);
	} else {
		sheet_note(&w->sheet, key, v_seconds(w, seconds));
	}
}

void put_time(struct recording_sheet *w, const char *key, uint64_t ticks)
{
	if (!w->sheet.as_json)
		return;
	jw_key(&w->sheet.json, key);
	if (ticks)
		jw_decimal(&w->sheet.json, recording_time(w->r, ticks), 6);
	else
		jw_null(&w->sheet.json);
}

/** How long before now, or before the end of a recording whose process is gone. */
static void put_age(struct recording_sheet *w, uint64_t ticks)
{
	put_seconds(w, "age", recording_age(w->r, ticks));
	sheet_note(&w->sheet, "ago", v_word(w->r->alive ? "ago" : "before the end"));
}

void put_thread(struct recording_sheet *w, const char *key, uint16_t slot)
{
	const struct recorded_thread *t = recording_thread(w->r, slot);
	if (!sheet_object(&w->sheet, key, t))
		return;
	sheet_put(&w->sheet, "tid", v_number(t->raw.tid));
	sheet_put(&w->sheet, "name", v_text(t->name));
	sheet_close(&w->sheet, '}');
}

/** @agent: the GPU that used the address; 0: not known. */
static void walk_near(struct recording_sheet *w, const char *key, uint64_t address, uint64_t time, uint64_t agent)
{
	struct sheet *s = &w->sheet;
	const struct nearby n = recording_near(w->r, address, time, agent);
	const struct recorded_allocation *m = n.allocation;
	sheet_open(s, key, '{');
	sheet_put(s, "relation", v_word(near_name(n.relation)));
	sheet_put(s, "text", v_known(near_say(&w->arena, w->r, &n, time)));
	if (sheet_object(s, "allocation", m)) {
		sheet_put(s, "address", v_hex(m->begin));
		sheet_put(s, "size", v_number(m->size));
		sheet_put(s, "kind", v_word(allocation_noun(&w->arena, w->r, m)));
		sheet_put(s, "distance", v_number(n.distance));
		sheet_put(s, "mapped", v_bool(!n.only_reserved));
		sheet_put(s, "for_gpu", v_bool(!n.not_for_gpu));
		put_time(w, "allocated", m->born);
		put_thread(w, "allocated_by", m->by);
		put_time(w, "freed", m->died);
		put_thread(w, "freed_by", m->died ? m->freed_by : RECORD_NO_THREAD);
		sheet_close(s, '}');
	}
	sheet_put(s, "tensor", v_known(tensor_say(&w->arena, w->r, address)));
	sheet_close(s, '}');
}

static void put_double(struct sheet *s, const char *key, double v)
{
	jw_key(&s->json, key);
	if (isfinite(v))
		jw_decimal(&s->json, v, 9);
	else
		jw_null(&s->json);
}

/** What the buffers held before the kernel ran (level 5). */
static void walk_statistics(struct recording_sheet *w, const struct recorded_queue *q, const struct recorded_packet *p)
{
	struct sheet *s = &w->sheet;
	sheet_open(s, "statistics", '[');
	for (size_t i = 0; i < w->r->nstatistics; i++) {
		const struct rec_statistics *c = &w->r->statistics[i];
		if (c->queue != q->id || c->packet != p->id)
			continue;
		if (!s->as_json) {
			sheet_say(s,
				  "      argument at %u: %llu elements of %s%s, %g to %g, mean %g; %llu zero, %llu NaN, %llu "
				  "infinite\n",
				  c->argument, (unsigned long long)c->elements, dtype_name(c->dtype),
				  c->guessed ? " (a guess)" : "", c->least, c->most, c->mean, (unsigned long long)c->zeros,
				  (unsigned long long)c->nans, (unsigned long long)c->infinities);
			continue;
		}
		sheet_open(s, NULL, '{');
		sheet_put(s, "argument", v_number(c->argument));
		sheet_put(s, "address", v_hex(c->address));
		sheet_put(s, "dtype", v_word(dtype_name(c->dtype)));
		sheet_put(s, "guessed", v_bool(c->guessed));
		sheet_put(s, "elements", v_number(c->elements));
		sheet_put(s, "zeros", v_number(c->zeros));
		sheet_put(s, "nans", v_number(c->nans));
		sheet_put(s, "infinities", v_number(c->infinities));
		put_double(s, "min", c->least);
		put_double(s, "max", c->most);
		put_double(s, "mean", c->mean);
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static struct str sizes_say(struct recording_sheet *w, const struct recorded_packet *p)
{
	const uint32_t *g = p->raw.grid, *l = p->group;
	return arena_printf(&w->arena, "grid %ux%ux%u, group %ux%ux%u", g[0], g[1], g[2], l[0], l[1], l[2]);
}

static void walk_packet(struct recording_sheet *w, const struct recorded_queue *q, const struct recorded_packet *p)
{
	static const struct column line[] = { { "mark" },
					      { "packet", "#" },
					      { "what", "  " },
					      { "size", "  " },
					      { "age", "  launched " },
					      { "ago", " " },
					      { "thread.tid", "  by thread " },
					      { "operation.chain", "  in " } };
	static const struct column tensors[] = { { "operation.tensors", "tensors: " } };
	static const struct column arguments[] = { { "arguments.text", "arguments: " } };
	struct sheet *s = &w->sheet;
	const bool dispatch = p->kind == PACKET_DISPATCH, flying = p->progress >= PROGRESS_UNKNOWN;
	sheet_open(s, NULL, '{');
	sheet_note(s, "mark",
		   v_word(p->progress == PROGRESS_RUNNING ? "  > " :
			  p->progress == PROGRESS_UNKNOWN ? "  ? " :
							    "    "));
	sheet_put(s, "packet", v_number(p->id));
	sheet_put(s, "kind", v_word(dispatch ? "dispatch" : p->kind == PACKET_BARRIER ? "barrier" : "vendor"));
	sheet_put(s, "progress", v_word(progress_name(p->progress)));
	sheet_put(s, "kernel", v_text(p->kernel ? p->kernel->name : (struct str){ 0 }));
	sheet_note(s, "what", v_text(packet_say(&w->arena, p)));
	sheet_put(s, "kernel_object", v_if(dispatch, v_hex(p->raw.kernel)));
	sheet_three(s, "grid", p->raw.grid, dispatch);
	sheet_three(s, "workgroup", p->group, dispatch);
	sheet_note(s, "size", v_if(dispatch, v_text(sizes_say(w, p))));
	sheet_put(s, "arguments_address", v_if(dispatch, v_hex(p->raw.arguments)));
	sheet_put(s, "completion_signal", v_if(p->raw.completion, v_hex(p->raw.completion)));
	sheet_put(s, "barrier_bit", v_bool(p->barrier_bit));
	put_time(w, "time", p->raw.time);
	put_age(w, p->raw.time);
	put_thread(w, "thread", p->raw.thread);
	walk_operation(w, p->operation);
	walk_packet_arguments(w, p);
	if (flying || w->options->all || p->kind == PACKET_DISPATCH) {
		sheet_line(s, 0, COLUMNS(line));
		if (dispatch)
			sheet_line(s, 6, COLUMNS(tensors));
		sheet_line(s, 6, COLUMNS(arguments));
	}
	walk_statistics(w, q, p);
	sheet_close(s, '}');
}

/** The packets that are shown: those that are not known to have ended, and before them the last that ended. JSON has as many as were asked for. */
static void walk_packets(struct recording_sheet *w, const struct recorded_queue *q)
{
	struct sheet *s = &w->sheet;
	const size_t before = w->options->all ? q->n : s->as_json ? w->options->packets : ENDED_SHOWN;
	const size_t behind = w->options->all || s->as_json ? q->n : IN_FLIGHT_SHOWN;
	size_t first = 0;
	while (first < q->n && q->packets[first].progress < PROGRESS_UNKNOWN)
		first++;
	const size_t from = first > before ? first - before : 0, to = q->n - first > behind ? first + behind : q->n;
	sheet_open(s, "packets", '[');
	for (size_t i = from; i < to; i++)
		walk_packet(w, q, &q->packets[i]);
	sheet_close(s, ']');
	if (to < q->n)
		sheet_say(s, "    and %zu more behind them\n", q->n - to);
}

static size_t count(const struct recorded_queue *q, enum packet_progress least, enum packet_progress most)
{
	size_t n = 0;
	for (size_t i = 0; i < q->n; i++)
		n += q->packets[i].progress >= least && q->packets[i].progress <= most;
	return n;
}

static void walk_queue(struct recording_sheet *w, const struct recorded_queue *q)
{
	static const struct column line[] = { { "id", "Queue " },
					      { "gpu.name", " on " },
					      { "gpu.pci", " at " },
					      { "launched", ": " },
					      { "word", " " },
					      { "in_flight", ", " },
					      { "flying", "" },
					      { "unknown", ", ", .after = " not known whether they ran", .least = 1 },
					      { "still", ", none ended for " },
					      { "destroyed", ", destroyed" } };
	struct sheet *s = &w->sheet;
	const size_t flying = count(q, PROGRESS_RUNNING, PROGRESS_WAITING);
	const double still = recording_age(w->r, q->head.moved);
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_number(q->id));
	if (sheet_object(s, "gpu", q->agent)) {
		sheet_put(s, "name", v_known(q->agent->name));
		sheet_put(s, "pci", v_known(q->agent->pci));
		sheet_put(s, "node", v_number(q->agent->node));
		sheet_close(s, '}');
	}
	sheet_put(s, "size", v_number(q->head.size));
	sheet_put(s, "launched", v_number(q->head.seen));
	sheet_note(s, "word", v_word(q->head.seen == 1 ? "packet" : "packets"));
	sheet_put(s, "read", v_number(q->read));
	sheet_put(s, "write", v_number(q->write));
	sheet_put(s, "certainly_ended", v_number(q->head.certain));
	sheet_put(s, "in_flight", v_number(flying));
	sheet_note(s, "flying", v_word(" in flight"));
	sheet_put(s, "unknown", v_number(count(q, PROGRESS_UNKNOWN, PROGRESS_UNKNOWN)));
	put_seconds(w, "sampled", recording_age(w->r, q->head.sampled));
	put_seconds(w, "moved", still);
	sheet_note(s, "still", v_if(flying && still > STILL, v_seconds(w, still)));
	sheet_put(s, "destroyed", v_bool(q->head.destroyed));
	sheet_put(s, "found", v_bool(q->head.flags & REC_QUEUE_FOUND));
	sheet_put(s, "short", v_bool(q->head.flags & REC_QUEUE_SHORT));
	sheet_put(s, "torn", v_number(q->torn));
	sheet_put(s, "unseen", v_number(q->head.unseen));
	sheet_line(s, 0, COLUMNS(line));
	walk_packets(w, q);
	sheet_close(s, '}');
}

static void walk_queues(struct recording_sheet *w)
{
	struct sheet *s = &w->sheet;
	const struct flight_recording *r = w->r;
	size_t shown = 0, idle = 0;
	sheet_open(s, "queues", '[');
	for (size_t i = 0; i < r->nqueues; i++) {
		// A text leaves out queues that are gone or never had a packet.
		const bool dull = !r->queues[i].n || r->queues[i].head.destroyed;
		if (!s->as_json && !w->options->all && (dull || shown >= QUEUES_SHOWN)) {
			idle++;
			continue;
		}
		walk_queue(w, &r->queues[i]);
		shown++;
	}
	sheet_close(s, ']');
	const char *gap = recording_gap(r);
	if (gap)
		sheet_say(s, r->nqueues ? "Not all that it launched is known: %s.\n" : "What it launched is not known: %s.\n",
			  gap);
	else if (!r->nqueues)
		sheet_say(s, "No queue was made.\n");
	if (idle)
		sheet_say(s, "%zu queue%s without packets, or destroyed: --all shows them.\n", idle, idle == 1 ? "" : "s");
}

/** Launches that were never made. */
static void walk_idle(struct recording_sheet *w)
{
	struct sheet *s = &w->sheet;
	const struct idle_gpu g = recording_idle(w->r);
	if (!sheet_object(s, "idle", g.idle))
		return;
	static const struct column some[] = { { "idle.age", "The program launched nothing for ",
						.after = ", and all before has ended." } };
	static const struct column none[] = { { "idle.age", "The program launched nothing at all in ", .after = "." } };
	sheet_put(s, "launched", v_number(g.launched));
	put_seconds(w, "age", g.age);
	sheet_line(s, 0, g.launched ? some : none, 1);
	sheet_say(s, "The GPU waits for the program: look at the program's threads.\n");
	sheet_close(s, '}');
}

static void walk_threads(struct recording_sheet *w)
{
	static const struct column line[] = { { "tid", "  thread " },
					      { "name", " (", .after = ")" },
					      { "what", " is inside of " },
					      { "since", " for " },
					      { "operation.chain", ", in " } };
	struct sheet *s = &w->sheet;
	bool any = false;
	sheet_open(s, "threads", '[');
	for (size_t i = 0; i < w->r->nthreads; i++) {
		const struct recorded_thread *t = &w->r->threads[i];
		const bool inside = t->raw.call && !t->raw.ended;
		sheet_open(s, NULL, '{');
		sheet_put(s, "tid", v_number(t->raw.tid));
		sheet_put(s, "name", v_text(t->name));
		sheet_put(s, "call", v_if(inside, v_word(call_name(t->raw.call))));
		sheet_put(s, "what", v_if(inside, v_text(call_say(&w->arena, t->raw.call, t->raw.a))));
		put_seconds(w, "since", inside ? recording_age(w->r, t->raw.since) : 0);
		sheet_put(s, "calls", v_number(t->raw.calls));
		sheet_put(s, "ended", v_bool(t->raw.ended));
		walk_operation(w, inside ? recording_operation(w->r, t->raw.operation) : NULL);
		if (inside) {
			sheet_say(s, any ? "" : "Calls that have not returned:\n");
			sheet_line(s, 0, COLUMNS(line));
			any = true;
		}
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

/** The allocations that were made last before a call that does not return. */
static void walk_last_allocations(struct recording_sheet *w)
{
	static const struct column line[] = { { "what", "  " },
					      { "age", ", " },
					      { "ago", " " },
					      { "thread.tid", ", by thread " } };
	struct sheet *s = &w->sheet;
	size_t n = 0, from = w->r->nevents;
	bool waits = false;
	for (size_t i = 0; i < w->r->nthreads; i++)
		waits = waits || (w->r->threads[i].raw.call == CALL_POOL_ALLOCATE && !w->r->threads[i].raw.ended);
	while (from && n < ALLOCATIONS_SHOWN) {
		const uint16_t call = w->r->events[--from].raw.call;
		n += call == CALL_POOL_ALLOCATE || call == CALL_POOL_FREE;
	}
	sheet_open(s, "last_allocations", '[');
	if (waits && n)
		sheet_say(s, "Allocated and freed before:\n");
	for (; from < w->r->nevents; from++) {
		const struct rec_event *e = &w->r->events[from].raw;
		if (e->call != CALL_POOL_ALLOCATE && e->call != CALL_POOL_FREE)
			continue;
		sheet_open(s, NULL, '{');
		sheet_put(s, "call", v_word(call_name(e->call)));
		sheet_put(s, "address", v_hex(e->a[0]));
		sheet_put(s, "size", v_if(e->call == CALL_POOL_ALLOCATE, v_number(e->a[1])));
		sheet_put(s, "status", v_int(e->status));
		sheet_note(s, "what", v_text(call_say(&w->arena, e->call, e->a)));
		put_age(w, e->time);
		put_thread(w, "thread", e->thread);
		if (waits)
			sheet_line(s, 0, COLUMNS(line));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_faults(struct recording_sheet *w)
{
	static const struct column fault[] = { { "address", "Memory fault at " },
					       { "reasons", ": ", .none = NULL },
					       { "gpu", ", on " },
					       { "age", ", ", .after = " before the end" } };
	static const struct column where[] = { { "near.text", "That is " }, { "near.tensor", "; " } };
	static const struct column error[] = { { "status", "Queue error, status " },
					       { "age", ", ", .after = " before the end" } };
	struct sheet *s = &w->sheet;
	sheet_open(s, "faults", '[');
	for (size_t i = 0; i < w->r->nevents; i++) {
		const struct rec_event *e = &w->r->events[i].raw;
		if (e->call != CALL_FAULT && e->call != CALL_QUEUE_ERROR)
			continue;
		const bool memory = e->call == CALL_FAULT;
		const struct recorded_agent *g = memory ? recording_agent(w->r, e->a[2]) : NULL;
		sheet_open(s, NULL, '{');
		sheet_put(s, "kind", v_word(call_name(e->call)));
		sheet_put(s, "address", v_if(memory, v_hex(e->a[0])));
		sheet_put(s, "status", v_if(!memory, v_hex(e->a[1])));
		sheet_put(s, "reasons", v_known(memory ? fault_reasons_say(&w->arena, e->a[1]) : (struct str){ 0 }));
		sheet_put(s, "gpu", v_known(g ? g->name : (struct str){ 0 }));
		sheet_put(s, "pci", v_known(g ? g->pci : (struct str){ 0 }));
		put_time(w, "time", e->time);
		put_seconds(w, "age", recording_age(w->r, e->time));
		sheet_line(s, 0, memory ? fault : error, memory ? 4 : 2);
		if (memory) {
			walk_near(w, "near", e->a[0], e->time, e->a[2]);
			sheet_line(s, 2, COLUMNS(where));
		}
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_recording(struct recording_sheet *w, const struct recording_seen *seen)
{
	struct sheet *s = &w->sheet;
	w->r = seen->recording;
	sheet_open(s, NULL, '{');
	walk_head(w, seen);
	walk_faults(w);
	walk_queues(w);
	walk_idle(w);
	walk_threads(w);
	walk_operations(w);
	walk_last_allocations(w);
	if (w->options->address) {
		static const struct column line[] = { { "near.text", "The address is ",
							.none = "The address is near no allocation that was recorded." },
						      { "near.tensor", "; " } };
		sheet_put(s, "address", v_hex(w->options->address));
		walk_near(w, "near", w->options->address, w->r->now, 0);
		sheet_line(s, 0, COLUMNS(line));
	}
	sheet_close(s, '}');
}

void report_last(const struct last_seen *seen, FILE *out)
{
	struct recording_sheet w = { .sheet = sheet_on(seen->options->json, out), .options = seen->options };
	struct sheet *s = &w.sheet;
	sheet_begin(s, "unhang/last/1", "recordings");
	for (size_t i = 0; i < seen->n; i++) {
		sheet_say(s, i ? "\n" : "");
		walk_recording(&w, &seen->list[i]);
		arena_free(&w.arena);
	}
	sheet_close(s, ']');
	walk_ranks(s, seen);
	sheet_close(s, '}');
	if (seen->options->json)
		fputc('\n', out);
}
