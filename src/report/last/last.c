// What the flight recorders saw: `unhang last`. What a recording says of itself (whose it is, how it ended, how it was held), its queues,
// threads and faults, and what several ranks come to together.
#include "base/print.h"
#include "evidence/recording/waits.h"
#include "report/last/last.h"
#include "report/text/prose.h"

enum { IN_FLIGHT_SHOWN = 4, ENDED_SHOWN = 1, QUEUES_SHOWN = 16, ALLOCATIONS_SHOWN = 3 };

static const double STILL = 0.5; // seconds without a packet that ended are worth telling

struct sheet_value v_seconds(struct recording_sheet *w, double seconds)
{
	struct sheet_value v = v_decimal(seconds, 6);
	v.text = w->sheet.as_json ? v.text : seconds_say(&w->arena, seconds);
	return v;
}

struct sheet_value v_time(const struct recording_sheet *w, uint64_t ticks)
{
	return v_if(ticks, v_decimal(recording_time(w->r, ticks), 6));
}

/** How long before now, or before the end of a recording whose process is gone. */
static void put_age(struct recording_sheet *w, uint64_t ticks)
{
	sheet_fields(&w->sheet, { "age", v_seconds(w, recording_age(w->r, ticks)) },
		     { "ago", v_word(w->r->alive ? "ago" : "before the end"), TEXT_ONLY });
}

void put_thread(struct recording_sheet *w, const char *key, uint16_t slot)
{
	const struct recorded_thread *t = recording_thread(w->r, slot);
	if (!sheet_object(&w->sheet, key, t))
		return;
	sheet_fields(&w->sheet, { "tid", v_number(t->raw.tid) }, { "name", v_text(t->name) });
	sheet_close(&w->sheet, '}');
}

/** @agent: the GPU that used the address; 0: not known. */
static void walk_near(struct recording_sheet *w, const char *key, uint64_t address, uint64_t time, uint64_t agent)
{
	struct sheet *s = &w->sheet;
	const struct nearby n = recording_near(w->r, address, time, agent);
	const struct recorded_allocation *m = n.allocation;
	sheet_open(s, key, '{');
	sheet_fields(s, { "relation", v_word(near_name(n.relation)) },
		     { "text", v_known(near_say(&w->arena, w->r, &n, time, "")) });
	if (sheet_object(s, "allocation", m)) {
		sheet_fields(s, { "address", v_hex(m->begin) }, { "size", v_number(m->size) },
			     { "kind", v_word(allocation_noun(&w->arena, w->r, m)) }, { "distance", v_number(n.distance) },
			     { "mapped", v_bool(!n.only_reserved) }, { "for_gpu", v_bool(!n.not_for_gpu) },
			     { "allocated", v_time(w, m->born) });
		put_thread(w, "allocated_by", m->by);
		sheet_put(s, "freed", v_time(w, m->died));
		put_thread(w, "freed_by", m->died ? m->freed_by : RECORD_NO_THREAD);
		sheet_close(s, '}');
	}
	sheet_put(s, "tensor", v_known(tensor_say(&w->arena, w->r, address)));
	sheet_close(s, '}');
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
		sheet_record(s, NULL, { "argument", v_number(c->argument) }, { "address", v_hex(c->address) },
			     { "dtype", v_word(dtype_name(c->dtype)) }, { "guessed", v_bool(c->guessed) },
			     { "elements", v_number(c->elements) }, { "zeros", v_number(c->zeros) },
			     { "nans", v_number(c->nans) }, { "infinities", v_number(c->infinities) },
			     { "min", v_decimal(c->least, 9) }, { "max", v_decimal(c->most, 9) },
			     { "mean", v_decimal(c->mean, 9) });
	}
	sheet_close(s, ']');
}

static void last_walk_packet(struct recording_sheet *w, const struct recorded_queue *q, const struct recorded_packet *p)
{
	struct sheet *s = &w->sheet;
	const uint32_t *g = p->raw.grid, *l = p->group;
	const bool dispatch = p->kind == PACKET_DISPATCH, flying = p->progress >= PROGRESS_UNKNOWN;
	sheet_open(s, NULL, '{');
	sheet_fields(s,
		     { "mark",
		       v_word(p->progress == PROGRESS_RUNNING ? "  > " :
			      p->progress == PROGRESS_UNKNOWN ? "  ? " :
								"    "),
		       TEXT_ONLY },
		     { "packet", v_number(p->id) },
		     { "kind", v_word(dispatch                  ? "dispatch" :
				      p->kind == PACKET_BARRIER ? "barrier" :
								  "vendor") },
		     { "progress", v_word(progress_name(p->progress)) },
		     { "kernel", v_text(p->kernel ? p->kernel->name : (struct str){ 0 }) },
		     { "what", v_text(packet_say(&w->arena, p)), TEXT_ONLY },
		     { "kernel_object", v_if(dispatch, v_hex(p->raw.kernel)) });
	sheet_three(s, "grid", p->raw.grid, dispatch);
	sheet_three(s, "workgroup", p->group, dispatch);
	sheet_fields(s,
		     { "size",
		       v_if(dispatch, v_text(arena_printf(&w->arena, "grid %ux%ux%u, group %ux%ux%u", g[0], g[1], g[2], l[0],
							  l[1], l[2]))),
		       TEXT_ONLY },
		     { "arguments_address", v_if(dispatch, v_hex(p->raw.arguments)) },
		     { "completion_signal", v_if(p->raw.completion, v_hex(p->raw.completion)) },
		     { "barrier_bit", v_bool(p->barrier_bit) }, { "time", v_time(w, p->raw.time) });
	put_age(w, p->raw.time);
	put_thread(w, "thread", p->raw.thread);
	walk_operation(w, p->operation);
	walk_packet_arguments(w, p);
	if (flying || w->options->all || p->kind == PACKET_DISPATCH) {
		sheet_line(s, 0,
			   COLUMNS_OF({ "mark" }, { "packet", "#" }, { "what", "  " }, { "size", "  " },
				      { "age", "  launched " }, { "ago", " " }, { "thread.tid", "  by thread " },
				      { "operation.chain", "  in " }));
		if (dispatch)
			sheet_line(s, 6, COLUMNS_OF({ "operation.tensors", "tensors: " }));
		sheet_line(s, 6, COLUMNS_OF({ "arguments.text", "arguments: " }));
	}
	walk_statistics(w, q, p);
	sheet_close(s, '}');
}

/** The packets that are shown: those that are not known to have ended, and before them the last that ended. JSON has as many as were asked for. */
static void last_walk_packets(struct recording_sheet *w, const struct recorded_queue *q)
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
		last_walk_packet(w, q, &q->packets[i]);
	sheet_close(s, ']');
	if (to < q->n)
		sheet_say(s, "    and %zu more behind them\n", q->n - to);
}

static size_t last_count(const struct recorded_queue *q, enum packet_progress least, enum packet_progress most)
{
	size_t n = 0;
	for (size_t i = 0; i < q->n; i++)
		n += q->packets[i].progress >= least && q->packets[i].progress <= most;
	return n;
}

static void last_walk_queue(struct recording_sheet *w, const struct recorded_queue *q)
{
	struct sheet *s = &w->sheet;
	const size_t flying = last_count(q, PROGRESS_RUNNING, PROGRESS_WAITING);
	const double still = recording_age(w->r, q->head.moved);
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_number(q->id));
	if (sheet_object(s, "gpu", q->agent)) {
		sheet_fields(s, { "name", v_known(q->agent->name) }, { "pci", v_known(q->agent->pci) },
			     { "node", v_number(q->agent->node) });
		sheet_close(s, '}');
	}
	sheet_fields(s, { "size", v_number(q->head.size) }, { "launched", v_number(q->head.seen) },
		     { "word", v_word(q->head.seen == 1 ? "packet" : "packets"), TEXT_ONLY }, { "read", v_number(q->read) },
		     { "write", v_number(q->write) }, { "certainly_ended", v_number(q->head.certain) },
		     { "in_flight", v_number(flying) }, { "flying", v_word(" in flight"), TEXT_ONLY },
		     { "unknown", v_number(last_count(q, PROGRESS_UNKNOWN, PROGRESS_UNKNOWN)) },
		     { "sampled", v_seconds(w, recording_age(w->r, q->head.sampled)) }, { "moved", v_seconds(w, still) },
		     { "still", v_if(flying && still > STILL, v_seconds(w, still)), TEXT_ONLY },
		     { "destroyed", v_bool(q->head.destroyed) }, { "found", v_bool(q->head.flags & REC_QUEUE_FOUND) },
		     { "short", v_bool(q->head.flags & REC_QUEUE_SHORT) }, { "torn", v_number(q->torn) },
		     { "unseen", v_number(q->head.unseen) });
	sheet_line(s, 0,
		   COLUMNS_OF({ "id", "Queue " }, { "gpu.name", " on " }, { "gpu.pci", " at " }, { "launched", ": " },
			      { "word", " " }, { "in_flight", ", " }, { "flying", "" },
			      { "unknown", ", ", .after = " not known whether they ran", .least = 1 },
			      { "still", ", none ended for " }, { "destroyed", ", destroyed" }));
	last_walk_packets(w, q);
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
		const bool dull = !r->queues[i].n || (r->queues[i].head.destroyed && !r->queues[i].stands);
		if (!s->as_json && !w->options->all && (dull || shown >= QUEUES_SHOWN)) {
			idle++;
			continue;
		}
		last_walk_queue(w, &r->queues[i]);
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
	sheet_fields(s, { "launched", v_number(g.launched) }, { "age", v_seconds(w, g.age) });
	sheet_line(s, 0, g.launched ? some : none, 1);
	sheet_say(s, "The GPU waits for the program: look at the program's threads.\n");
	sheet_close(s, '}');
}

static void walk_threads(struct recording_sheet *w)
{
	struct sheet *s = &w->sheet;
	bool any = false;
	sheet_each (i, s, "threads", w->r->nthreads) {
		const struct recorded_thread *t = &w->r->threads[i];
		const bool inside = t->raw.call && !t->raw.ended;
		sheet_fields(s, { "tid", v_number(t->raw.tid) }, { "name", v_text(t->name) },
			     { "call", v_if(inside, v_word(call_name(t->raw.call))) },
			     { "what", v_if(inside, v_text(thread_call_say(&w->arena, w->r, t))) },
			     { "kernel", v_known(t->kernel) },
			     { "since", v_seconds(w, inside ? recording_age(w->r, t->raw.since) : 0) },
			     { "calls", v_number(t->raw.calls) }, { "ended", v_bool(t->raw.ended) });
		walk_operation(w, inside ? recording_operation(w->r, t->raw.operation) : NULL);
		if (inside) {
			sheet_say(s, any ? "" : "Calls that have not returned:\n");
			sheet_line(s, 0,
				   COLUMNS_OF({ "tid", "  thread " }, { "name", " (", .after = ")" },
					      { "what", " is inside of " }, { "since", " for " },
					      { "operation.chain", ", in " }));
			sheet_line(s, 4, COLUMNS_OF({ "kernel", "in the kernel it waits in " }));
			any = true;
		}
	}
}

/** The allocations that were made last before a call that does not return. */
static void walk_last_allocations(struct recording_sheet *w)
{
	struct sheet *s = &w->sheet;
	size_t n = 0, from = w->r->nevents;
	bool waits = false;
	for (size_t i = 0; i < w->r->nthreads; i++)
		waits = waits || (w->r->threads[i].raw.call == CALL_POOL_ALLOCATE && !w->r->threads[i].raw.ended);
	while (from && n < ALLOCATIONS_SHOWN) {
		const uint16_t call = w->r->events[--from].raw.call;
		n += call == CALL_POOL_ALLOCATE || call == CALL_POOL_FREE;
	}
	struct small_allocations small;
	sheet_fields(s, { "allocated", v_known(allocations_say(&w->arena, w->r, &small)) },
		     { "small_allocations", v_number(small.count) });
	if (waits)
		sheet_line(s, 0, COLUMNS_OF({ "allocated", "Allocated on GPUs until then: " }));
	sheet_open(s, "last_allocations", '[');
	if (waits && n)
		sheet_say(s, "Allocated and freed before:\n");
	for (; from < w->r->nevents; from++) {
		const struct rec_event *e = &w->r->events[from].raw;
		if (e->call != CALL_POOL_ALLOCATE && e->call != CALL_POOL_FREE)
			continue;
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "call", v_word(call_name(e->call)) }, { "address", v_hex(e->a[0]) },
			     { "size", v_if(e->call == CALL_POOL_ALLOCATE, v_number(e->a[1])) }, { "status", v_int(e->status) },
			     { "what", v_text(call_say(&w->arena, e->call, e->a)), TEXT_ONLY });
		put_age(w, e->time);
		put_thread(w, "thread", e->thread);
		if (waits)
			sheet_line(s, 0,
				   COLUMNS_OF({ "what", "  " }, { "age", ", " }, { "ago", " " },
					      { "thread.tid", ", by thread " }));
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
		sheet_fields(s, { "kind", v_word(call_name(e->call)) }, { "address", v_if(memory, v_hex(e->a[0])) },
			     { "status", v_if(!memory, v_hex(e->a[1])) },
			     { "reasons", v_known(memory ? fault_reasons_say(&w->arena, e->a[1]) : (struct str){ 0 }) },
			     { "gpu", v_known(g ? g->name : (struct str){ 0 }) },
			     { "pci", v_known(g ? g->pci : (struct str){ 0 }) }, { "time", v_time(w, e->time) },
			     { "age", v_seconds(w, recording_age(w->r, e->time)) });
		sheet_line(s, 0, memory ? fault : error, memory ? 4 : 2);
		if (memory) {
			walk_near(w, "near", e->a[0], e->time, e->a[2]);
			sheet_line(s, 2, COLUMNS_OF({ "near.text", "That is " }, { "near.tensor", "; " }));
		}
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static const char *last_head_state_of(const struct flight_recording *r)
{
	return r->header.state == RECORDING_ASIDE ? "stepped-aside" :
	       r->header.state == RECORDING_ENDED ? "ended" :
	       r->alive                           ? "running" :
						    "died"; // it never said that it ended
}

/** How the recorder held the process for its supervisor, after a fault. */
static void walk_hold(struct recording_sheet *w)
{
	static const char *const states[] = { [REC_HOLD_NONE] = "none",
					      [REC_HOLD_ASKED] = "asked",
					      [REC_HOLD_WRITING] = "writing",
					      [REC_HOLD_HELD] = "held",
					      [REC_HOLD_RELEASED] = "released",
					      [REC_HOLD_EXPIRED] = "expired",
					      [REC_HOLD_UNANSWERED] = "unanswered" };
	const struct rec_header *h = &w->r->header;
	struct sheet *s = &w->sheet;
	const bool known = h->holds && h->hold <= REC_HOLD_UNANSWERED;
	if (!sheet_object(s, "hold", known ? h : NULL))
		return;
	sheet_fields(s, { "number", v_number(h->holds) }, { "state", v_word(states[h->hold]) },
		     { "why", v_word(call_name(h->hold_why)) }, { "core", v_known(w->r->core) });
	sheet_close(s, '}');
	if (w->r->core.n)
		sheet_line(s, 0, COLUMNS_OF({ "hold.core", "  GPU core: " }));
}

static void walk_head(struct recording_sheet *w, const struct recording_seen *seen)
{
	const struct flight_recording *r = w->r;
	struct sheet *s = &w->sheet;
	sheet_fields(s, { "path", v_text(seen->path) }, { "program", v_known(r->program) }, { "command", v_known(r->command) },
		     { "pid", v_number(r->header.pid) }, { "rank", v_count(r->header.rank) }, { "user", v_number(seen->user) },
		     { "whose", v_count(seen->other ? seen->user : -1), TEXT_ONLY }, { "close", v_word(")"), TEXT_ONLY },
		     { "host", v_known(r->host) }, { "boot_id", v_known(r->boot_id) },
		     { "state", v_word(last_head_state_of(r)) }, { "level", v_number(r->header.level) },
		     { "max_level", v_number(r->header.max_level) }, { "note", v_known(r->note) },
		     { "started", v_time(w, r->header.start.ticks) }, { "last", v_time(w, r->now) },
		     { "torn", v_number(r->torn) },
		     { "gap", v_known(recording_gap(r) ? str_z(recording_gap(r)) : (struct str){ 0 }) },
		     { "lost_names", v_number(r->header.lost_names) }, { "lost_allocations", v_number(r->lost_allocations) },
		     { "allocations", v_number(r->nallocations) }, { "kernels", v_number(r->nkernels) });
	sheet_line(s, 0,
		   COLUMNS_OF({ "program" }, { "pid", " (pid " }, { "rank", ", rank " }, { "whose", ", user " }, { "close" },
			      { "host", " on " }, { "state", ": " }, { "level", ", level " }));
	if (!r->alive) {
		// All times in the text are as of the end, which may be long ago.
		_cleanup_text_ struct text date = { 0 };
		prose_date(&date, (struct stamp){ TIME_WALL, recording_time(w->r, w->r->now) });
		if (date.n)
			sheet_say_safe(&w->sheet, "  The recording ends at ", text_str(&date),
				       ". Times below are as of then.\n");
	}
	walk_hold(w);
	if (r->note.n)
		sheet_say_safe(s, "  ", r->note, "\n");
	if (r->torn)
		sheet_say(s, "  %llu record%s half written and left out.\n", (unsigned long long)r->torn,
			  r->torn == 1 ? " was" : "s were");
}

/** "ranks". */
static void walk_ranks(struct sheet *s, const struct last_seen *seen)
{
	const struct ranks_seen *k = &seen->ranks;
	if (!sheet_object(s, "ranks", k->known))
		return;
	const int32_t behind = seen->list[k->behind].recording->header.rank;
	sheet_fields(s, { "behind", v_if(k->ended < k->most, v_int(behind)) }, { "ended", v_number(k->ended) },
		     { "most", v_number(k->most) });
	if (k->ended < k->most)
		sheet_say(s, "\nRank %d is behind: %llu packets ended, %llu on the rank that is ahead.\n", behind,
			  (unsigned long long)k->ended, (unsigned long long)k->most);
	if (sheet_object(s, "part", k->part.known)) {
		const int32_t one = seen->list[k->part.one].recording->header.rank,
			      other = seen->list[k->part.other].recording->header.rank;
		sheet_fields(s, { "packet", v_number(k->part.packet) }, { "one", v_int(one) },
			     { "one_kernel", v_known(k->part.one_kernel) }, { "other", v_int(other) },
			     { "other_kernel", v_known(k->part.other_kernel) });
		sheet_say(s, "The ranks part at packet #%llu: rank %d launched ", (unsigned long long)k->part.packet, one);
		sheet_say_safe(s, "", k->part.one_kernel, "");
		sheet_say(s, ", rank %d ", other);
		sheet_say_safe(s, "", k->part.other_kernel, ".\n");
		sheet_close(s, '}');
	}
	sheet_close(s, '}');
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
		sheet_put(s, "address", v_hex(w->options->address));
		walk_near(w, "near", w->options->address, w->r->now, 0);
		sheet_line(s, 0,
			   COLUMNS_OF({ "near.text", "The address is ",
					.none = "The address is near no allocation that was recorded." },
				      { "near.tensor", "; " }));
	}
	sheet_close(s, '}');
}

/** "diagnosis": what a call that does not return is like, and what helps. */
static void walk_diagnosis(struct sheet *s, const struct incident *i)
{
	if (!sheet_object(s, "diagnosis", i))
		return;
	sheet_fields(s, { "class", v_text(i->cause->head.id) }, { "title", v_text(i->title) },
		     { "explanation", v_known(i->explanation) }, { "confidence", v_int(i->confidence) });
	sheet_say_safe(s, "\nDiagnosis: ", i->title, ".\n");
	if (i->explanation.n)
		sheet_say_safe(s, "  ", i->explanation, "\n");
	sheet_open(s, "remedies", '[');
	bool any = false;
	for (size_t n = 0; n < i->remedies.len; n++) {
		const struct diag_remedy *r = &i->remedies.data[n];
		if ((!r->shown && !r->certain) || r->verdict.state != REMEDY_TRY)
			continue;
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "id", v_text(r->remedy->head.id) }, { "title", v_text(r->remedy->title) });
		sheet_line(s, 0, COLUMNS_OF({ "title", any ? "  Or: " : "  Try: " }, { "id", " [", .after = "]" }));
		sheet_close(s, '}');
		any = true;
	}
	sheet_close(s, ']');
	sheet_say(s, any ? "  Steps, cost and source of each: unhang remedy ID\n" : "");
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
	walk_diagnosis(s, seen->waits);
	sheet_close(s, '}');
	if (seen->options->json)
		fputc('\n', out);
}
