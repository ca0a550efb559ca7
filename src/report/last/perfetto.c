// A recording as a timeline in Chrome's trace format. When a dispatch ended is not recorded, so that its launch is an instant; one that is
// still in flight lasts until the end.
#include "base/json.h"
#include "report/last/last.h"

/** One of several processes while it is written. */
struct timeline {
	struct json json;
	struct arena arena;
	const struct flight_recording *r;
	double begin; // of all
	int64_t process;
};

static void event_open(struct timeline *t, struct str name, const char *phase, uint64_t ticks, int64_t thread)
{
	struct json *j = &t->json;
	jw_open(j, '{');
	jw_field(j, "name", name);
	jw_field(j, "ph", str_z(phase));
	jw_key(j, "ts");
	jw_decimal(j, (recording_time(t->r, ticks) - t->begin) * 1e6, 3);
	jw_key(j, "pid");
	jw_int(j, t->process);
	jw_key(j, "tid");
	jw_int(j, thread);
}

static void put_duration(struct timeline *t, double microseconds)
{
	jw_key(&t->json, "dur");
	jw_decimal(&t->json, microseconds, 3);
}

static void put_name(struct timeline *t, const char *what, int64_t thread, struct str name)
{
	struct json *j = &t->json;
	jw_open(j, '{');
	jw_field(j, "name", str_z(what));
	jw_field(j, "ph", S("M"));
	jw_key(j, "pid");
	jw_int(j, t->process);
	jw_key(j, "tid");
	jw_int(j, thread);
	jw_key(j, "args");
	jw_open(j, '{');
	jw_field(j, "name", name);
	jw_close(j, '}');
	jw_close(j, '}');
}

/** Queues are threads with numbers that no thread has. */
static int64_t track_of(const struct recorded_queue *q) { return -1 - (int64_t)q->id; }

static void put_packet(struct timeline *t, const struct recorded_queue *q, const struct recorded_packet *p)
{
	const bool flying = p->progress >= PROGRESS_RUNNING;
	event_open(t, packet_say(&t->arena, p), flying ? "X" : "i", p->raw.time, track_of(q));
	if (flying)
		put_duration(t, recording_age(t->r, p->raw.time) * 1e6);
	else
		jw_field(&t->json, "s", S("t"));
	jw_key(&t->json, "args");
	jw_open(&t->json, '{');
	jw_key(&t->json, "packet");
	jw_unsigned(&t->json, p->id);
	jw_field(&t->json, "progress", str_z(progress_name(p->progress)));
	if (p->operation)
		jw_field(&t->json, "operation", p->operation->name);
	jw_close(&t->json, '}');
	jw_close(&t->json, '}');
}

static int64_t tid_of(const struct flight_recording *r, uint16_t slot)
{
	const struct recorded_thread *t = recording_thread(r, slot);
	return t ? t->raw.tid : 0;
}

static void put_calls(struct timeline *t)
{
	for (size_t i = 0; i < t->r->nevents; i++) {
		const struct rec_event *e = &t->r->events[i].raw;
		event_open(t, call_say(&t->arena, e->call, e->a), "X", e->time, tid_of(t->r, e->thread));
		put_duration(t, e->took);
		jw_close(&t->json, '}');
	}
	for (size_t i = 0; i < t->r->nthreads; i++) {
		const struct recorded_thread *h = &t->r->threads[i];
		put_name(t, "thread_name", h->raw.tid, h->name);
		if (!h->raw.call || h->raw.ended)
			continue;
		event_open(t, call_say(&t->arena, h->raw.call, h->raw.a), "X", h->raw.since, h->raw.tid);
		put_duration(t, recording_age(t->r, h->raw.since) * 1e6);
		jw_close(&t->json, '}');
	}
}

static void put_operations(struct timeline *t)
{
	for (size_t i = 0; i < t->r->noperations; i++) {
		const struct rec_operation *o = &t->r->operations[i].raw;
		event_open(t, t->r->operations[i].name, "X", o->begin, tid_of(t->r, o->thread));
		put_duration(t, o->end > o->begin ? (double)(o->end - o->begin) / t->r->rate * 1e6 :
						    recording_age(t->r, o->begin) * 1e6);
		jw_close(&t->json, '}');
	}
}

static void put_recording(struct timeline *t)
{
	const struct flight_recording *r = t->r;
	put_name(t, "process_name", 0, r->header.rank >= 0 ? arena_printf(&t->arena, "rank %d", r->header.rank) : r->program);
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct recorded_queue *q = &r->queues[i];
		put_name(t, "thread_name", track_of(q), arena_printf(&t->arena, "queue %u", q->id));
		for (size_t k = 0; k < q->n; k++)
			put_packet(t, q, &q->packets[k]);
	}
	put_calls(t);
	put_operations(t);
}

void report_perfetto(const struct last_seen *seen, FILE *out)
{
	struct timeline t = { .json.out = out };
	for (size_t i = 0; i < seen->n; i++) {
		const double begin = recording_time(seen->list[i].recording, seen->list[i].recording->header.start.ticks);
		t.begin = !i || begin < t.begin ? begin : t.begin;
	}
	jw_open(&t.json, '{');
	jw_key(&t.json, "otherData"); // first: by this a later --perfetto knows a file that it may replace
	jw_open(&t.json, '{');
	jw_field(&t.json, "generator", S("unhang"));
	jw_close(&t.json, '}');
	jw_field(&t.json, "displayTimeUnit", S("ns"));
	jw_key(&t.json, "traceEvents");
	jw_open(&t.json, '[');
	for (size_t i = 0; i < seen->n; i++) {
		t.r = seen->list[i].recording;
		t.process = t.r->header.pid;
		put_recording(&t);
		arena_free(&t.arena);
	}
	jw_close(&t.json, ']');
	jw_close(&t.json, '}');
	fputc('\n', out);
}
