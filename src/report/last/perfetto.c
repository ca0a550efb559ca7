// A recording as a timeline in Chrome's trace format. When a dispatch ended is not recorded, so that its launch is an instant; one that is
// still in flight lasts until the end.
#include "report/last/last.h"

/** One of several processes while it is written. */
struct timeline {
	struct sheet sheet;
	struct arena arena;
	const struct flight_recording *r;
	double begin; // of all
	int64_t process;
};

static void event_open(struct timeline *t, struct str name, const char *phase, uint64_t ticks, int64_t thread)
{
	sheet_open(&t->sheet, NULL, '{');
	sheet_fields(&t->sheet, { "name", v_text(name) }, { "ph", v_word(phase) },
		     { "ts", v_decimal((recording_time(t->r, ticks) - t->begin) * 1e6, 3) }, { "pid", v_int(t->process) },
		     { "tid", v_int(thread) });
}

/** One that lasts. */
static void put_lasting(struct timeline *t, struct str name, uint64_t ticks, int64_t thread, double microseconds)
{
	event_open(t, name, "X", ticks, thread);
	sheet_put(&t->sheet, "dur", v_decimal(microseconds, 3));
	sheet_close(&t->sheet, '}');
}

static void put_name(struct timeline *t, const char *what, int64_t thread, struct str name)
{
	sheet_open(&t->sheet, NULL, '{');
	sheet_fields(&t->sheet, { "name", v_word(what) }, { "ph", v_word("M") }, { "pid", v_int(t->process) },
		     { "tid", v_int(thread) });
	sheet_record(&t->sheet, "args", { "name", v_text(name) });
	sheet_close(&t->sheet, '}');
}

/** Queues are threads with numbers that no thread has. */
static int64_t track_of(const struct recorded_queue *q) { return -1 - (int64_t)q->id; }

static void put_packet(struct timeline *t, const struct recorded_queue *q, const struct recorded_packet *p)
{
	const bool flying = p->progress >= PROGRESS_RUNNING;
	event_open(t, packet_say(&t->arena, p), flying ? "X" : "i", p->raw.time, track_of(q));
	if (flying)
		sheet_put(&t->sheet, "dur", v_decimal(recording_age(t->r, p->raw.time) * 1e6, 3));
	else
		sheet_put(&t->sheet, "s", v_word("t"));
	sheet_open(&t->sheet, "args", '{');
	sheet_fields(&t->sheet, { "packet", v_number(p->id) }, { "progress", v_word(progress_name(p->progress)) });
	if (p->operation)
		sheet_put(&t->sheet, "operation", v_text(p->operation->name));
	sheet_close(&t->sheet, '}');
	sheet_close(&t->sheet, '}');
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
		put_lasting(t, call_say(&t->arena, e->call, e->a), e->time, tid_of(t->r, e->thread), e->took);
	}
	for (size_t i = 0; i < t->r->nthreads; i++) {
		const struct recorded_thread *h = &t->r->threads[i];
		put_name(t, "thread_name", h->raw.tid, h->name);
		if (!h->raw.call || h->raw.ended)
			continue;
		put_lasting(t, call_say(&t->arena, h->raw.call, h->raw.a), h->raw.since, h->raw.tid,
			    recording_age(t->r, h->raw.since) * 1e6);
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
	for (size_t i = 0; i < t->r->noperations; i++) {
		const struct rec_operation *o = &r->operations[i].raw;
		put_lasting(t, t->r->operations[i].name, o->begin, tid_of(t->r, o->thread),
			    o->end > o->begin ? (double)(o->end - o->begin) / t->r->rate * 1e6 :
						recording_age(t->r, o->begin) * 1e6);
	}
}

void report_perfetto(const struct last_seen *seen, FILE *out)
{
	struct timeline t = { .sheet = sheet_on(true, out) };
	for (size_t i = 0; i < seen->n; i++) {
		const double begin = recording_time(seen->list[i].recording, seen->list[i].recording->header.start.ticks);
		t.begin = !i || begin < t.begin ? begin : t.begin;
	}
	sheet_open(&t.sheet, NULL, '{');
	sheet_record(&t.sheet, "otherData",
		     { "generator", v_word("unhang") }); // first: by this a later --perfetto knows a file that it may replace
	sheet_put(&t.sheet, "displayTimeUnit", v_word("ns"));
	sheet_open(&t.sheet, "traceEvents", '[');
	for (size_t i = 0; i < seen->n; i++) {
		t.r = seen->list[i].recording;
		t.process = t.r->header.pid;
		put_recording(&t);
		arena_free(&t.arena);
	}
	sheet_end(&t.sheet);
	fputc('\n', out);
}
