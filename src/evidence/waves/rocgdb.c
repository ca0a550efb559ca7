// Transcripts of rocgdb: the tables of `info agents`, `info queues`, `info dispatches` and `info threads`, and stops of waves. What they
// show of registers and code is gdb_state.c's.
//
//   * 1    AMDGPU Dispatch 1:2:1 (PKID 0) [256,1,1] [128,1,1] B|Aa|Ra saxpy(int, float const*)
//     25   AMDGPU Queue 1:25 (QID 3)  HSA          2569549 2569550 1048576  0x00007e4bc5a00000
//   * 6    AMDGPU Wave 1:2:1:1 (31,0,0)/1 "crux"     0x00007fffed2b8b18 in crux_p1sin (...) at crux.cu:7
//   Thread 6 "crux" received signal SIGSEGV, Segmentation fault.
//   [Switching to thread 6, lane 1 (AMDGPU Lane 1:2:1:1/1 (31,0,0)[0,0,1])]
#include <stdlib.h>

#include "evidence/waves/gdb_state.h"
#include "evidence/waves/tell.h"

enum {
	DISPATCHES_MAX = 64,
	QUEUES_MAX = 64,
	PLACES_MAX = 24,
	NAME_BYTES = 2048,
	GPUS_MAX = 64,
	KEPT_BYTES = 8 << 20,
	STOPS_MAX = 32
};

/** The first wave that is listed at a place. */
struct listed_wave {
	struct wave wave;
	struct place at;
};

/** A wave that a signal stopped. It is told at the end, when its registers and code are known. */
struct stop {
	struct wave wave; // kernel: the function of its frame
	struct str signal, program, text;
	bool imprecise, unreadable; // unreadable: its private memory
	struct place at;
	struct stamp time;
};

struct rocgdb {
	struct artefact_output out;
	struct gdb_state *state;
	struct str gfx; // of all GPUs that were listed
	bool gfx_differ;
	VEC(struct stop) stops;
	bool at_wave;        // a wave is looked at
	bool on_stop;        // the newest stop is what is looked at
	unsigned next_frame; // of a backtrace; 0: none is being shown
	struct arena arena;
	size_t dispatches, queues, pending, agents;
	struct wave_places places; // whose first is a listed_wave
	bool nothing_listed;       // no dispatches, queues or agents are active, as the debugger says
	struct place empty_at;
	bool stopped; // a signal was reported, and the stop is not yet told
	bool on_wave; // the thread that stopped is a wave
	bool imprecise;
	struct str signal, program;
	struct place stop_at;
};

static const char *const marks[] = { "AMDGPU Dispatch ",
				     "AMDGPU Queue ",
				     "AMDGPU Agent (",
				     "AMDGPU Wave ",
				     "AMDGPU Lane ",
				     "No dispatches are currently active",
				     "No queues are currently ac",
				     "No agents are currently" };

static bool rocgdb_begins(struct str line)
{
	ptrdiff_t signal = str_find(line, S(" received signal SIG"));
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (str_find(line, str_z(marks[i])) >= 0)
			return true;
	return gdb_state_library(line) || (signal >= 0 && str_find(str_cut(line, (size_t)signal), S("Thread ")) >= 0);
}

/** Of a transcript that goes on for ever the beginning is kept. */
static struct str gdb_keep(struct rocgdb *g, struct str s)
{
	return g->arena.total < KEPT_BYTES ? arena_str(&g->arena, str_cut(s, NAME_BYTES)) : (struct str){ 0 };
}

static bool row_event(struct rocgdb *g, const char *signature, const struct logline *line, struct place at, struct event *e)
{
	if (!artefact_event(&g->out, signature, at, e))
		return false;
	e->time = line_time(line);
	e->text = str_trim(line->message);
	return true;
}

// --- tables ---

static struct str bracketed(struct str *rest)
{
	*rest = str_trim(*rest);
	if (!rest->n || rest->p[0] != '[')
		return (struct str){ 0 };
	struct str s = str_split(rest, ']');
	return str_from(s, 1);
}

static void dispatch_row(struct rocgdb *g, struct str row, const struct logline *line, struct place at)
{
	struct str rest = row, id = str_word(&rest), packet = { 0 };
	struct event e;
	if (g->dispatches++ >= DISPATCHES_MAX || !row_event(g, "rocgdb-dispatch", line, at, &e))
		return;
	const char *last = id.n ? memrchr(id.p, ':', id.n) : NULL; // agent:queue:dispatch
	if (str_after(rest, S("(PKID "), &packet))
		rest = packet, packet = str_split(&rest, ')');
	struct str grid = bracketed(&rest), group = bracketed(&rest), fence = str_word(&rest);
	rest = str_trim(rest);
	if (str_starts(rest, S("Shared("))) // -full: address spaces, descriptor, arguments and signal come first
		for (int i = 0; i < 5; i++)
			str_word(&rest);
	event_add_text(&e, &g->arena, "dispatch", id);
	event_add_text(&e, &g->arena, "queue", last && last > id.p ? str_cut(id, (size_t)(last - id.p)) : id);
	event_add_text(&e, &g->arena, "packet", packet);
	event_add_text(&e, &g->arena, "grid", grid);
	event_add_text(&e, &g->arena, "workgroup", group);
	event_add_text(&e, &g->arena, "fence", fence);
	// A fence that orders both what came before and what comes after: `B|Aa|Ra`.
	bool acquire = str_find(fence, S("Aa")) >= 0 || str_find(fence, S("As")) >= 0;
	bool release = str_find(fence, S("Ra")) >= 0 || str_find(fence, S("Rs")) >= 0;
	if (str_starts(fence, S("B|")) && acquire && release)
		event_add(&e, S("full_fence"), S("yes"), FACT_TEXT);
	event_add_text(&e, &g->arena, "kernel_name", str_cut(str_trim(rest), NAME_BYTES));
	artefact_tell(&g->out, &e);
}

static void queue_row(struct rocgdb *g, struct str row, const struct logline *line, struct place at)
{
	struct str rest = row, id = str_word(&rest), qid = { 0 };
	int64_t read, write;
	g->queues++;
	if (str_after(rest, S("(QID "), &qid))
		rest = qid, qid = str_split(&rest, ')');
	struct str type = str_word(&rest), first = str_word(&rest), second = str_word(&rest);
	// Copy queues have no indices of their own.
	if (!str_is(type, "HSA") || !str_number(first, &read) || !str_number(second, &write) || read < 0 || write <= read)
		return;
	struct event e;
	if (g->pending++ >= QUEUES_MAX || !row_event(g, "rocgdb-queue", line, at, &e))
		return;
	event_add_text(&e, &g->arena, "queue", id);
	event_add_text(&e, &g->arena, "queue_id", qid);
	event_add_number(&e, &g->arena, "read_index", read);
	event_add_number(&e, &g->arena, "write_index", write);
	event_add_number(&e, &g->arena, "pending", write - read);
	artefact_tell(&g->out, &e);
}

/** Columns of `info agents`: the location is the last, the architecture stands behind the id. */
static void agent_row(struct rocgdb *g, struct str row, const struct logline *line, struct place at)
{
	struct str rest = row, word, last = { 0 };
	struct event e;
	if (g->agents++ >= GPUS_MAX || !row_event(g, "rocgdb-agent", line, at, &e))
		return;
	str_split(&rest, ')');
	struct str gfx = str_word(&rest);
	struct str name = str_trim(rest);
	for (word = str_word(&rest); word.n; word = str_word(&rest))
		last = word;
	// Before the location stand two numbers, before these the name.
	for (int i = 0; i < 3; i++) {
		const char *space = name.n ? memrchr(name.p, ' ', name.n) : NULL;
		name = str_trim(str_cut(name, space ? (size_t)(space - name.p) : 0));
	}
	if (pci_length(last))
		event_add(&e, S("pci"),
			  last.n == 7 ? arena_printf(&g->arena, "0000:" STR_FMT, STR_ARG(last)) : gdb_keep(g, last), FACT_TEXT);
	g->gfx_differ |= g->gfx.n && !str_eq(g->gfx, gfx);
	if (!g->gfx.n)
		g->gfx = gdb_keep(g, gfx);
	event_add_text(&e, &g->arena, "gfx", gfx);
	event_add_text(&e, &g->arena, "gpu_name", str_cut(name, 64));
	artefact_tell(&g->out, &e);
}

/** `1:2:1:1 (31,0,0)/1 "crux"     FRAME` */
static void wave_row(struct rocgdb *g, struct str row, struct place at)
{
	struct str frame;
	if (!str_after(row, S("\""), &frame))
		return;
	str_split(&frame, '"');
	struct wave w = { 0 };
	gdb_frame_parse(frame, &w.pc, &w.kernel, &w.source);
	w.kernel = str_cut(w.kernel, NAME_BYTES);
	struct wave_place *have = wave_place_of(&g->places, &w);
	if (have)
		have->count++;
	if (have || g->places.len == PLACES_MAX)
		return;
	struct listed_wave *l = arena_alloc(&g->arena, sizeof(*l));
	*l = (struct listed_wave){ .wave = w, .at = at };
	l->wave.kernel = gdb_keep(g, w.kernel);
	l->wave.source = gdb_keep(g, w.source);
	vec_push(&g->places, ((struct wave_place){ .first = &l->wave, .count = 1 }));
}

// --- stops ---

/** What the debug agent calls the reason of a stop. */
static struct str reason_of(struct str signal)
{
	static const char *const signals[] = { "SIGSEGV", "SIGBUS", "SIGABRT", "SIGTRAP", NULL };
	static const char *const reasons[] = { "MEMORY_VIOLATION", "APERTURE_VIOLATION", "ASSERT_TRAP", "DEBUG_TRAP", NULL };
	const struct str reason = str_of_list(reasons, str_in_list(signals, signal));
	return reason.n ? reason : signal;
}

/** A wave that is being told, and where it stopped. */
struct gdb_telling {
	const struct rocgdb *reader;
	const struct stop *stop; // NULL: it is only listed
	const struct wave *wave;
	const struct where *where;
};

static void add_stop(void *of, struct event *e, struct arena *a)
{
	const struct stop *s = ((const struct gdb_telling *)of)->stop;
	event_add_text(e, a, "signal", s->signal);
	event_add_text(e, a, "process", s->program);
	if (s->unreadable)
		event_add(e, S("private_memory"), S("unreadable"), FACT_TEXT);
	event_add(e, S("precise"), s->imprecise ? S("no") : S("unknown"), FACT_TEXT);
}

static void rocgdb_add_own(void *of, struct event *e, struct arena *a)
{
	const struct gdb_telling *t = of;
	const struct where *at = t->where;
	event_add_text(e, a, "source_line", t->wave->source);
	if (!at)
		event_add_text(e, a, "instruction", gdb_state_instruction(t->reader->state, t->wave->pc));
	else if (at->nframes && !t->wave->source.n)
		event_add(e, S("source_line"), arena_printf(a, STR_FMT ":%u", STR_ARG(at->frames[0].file), at->frames[0].line),
			  FACT_TEXT);
}

static struct wave_tale tale_of(const struct rocgdb *g, struct gdb_telling *t, const struct wave *w)
{
	*t = (struct gdb_telling){ .reader = g, .wave = w };
	t->where = gdb_state_code(g->state, &g->out, w, g->gfx_differ ? (struct str){ 0 } : g->gfx);
	return (struct wave_tale){
		.wave = *w, .listed = true, .pc_known = w->pc, .where = t->where, .own = rocgdb_add_own, .of = t
	};
}

static void tell_stops(struct rocgdb *g)
{
	for (size_t i = 0; i < g->stops.len; i++) {
		const struct stop *s = &g->stops.data[i];
		struct gdb_telling telling;
		struct wave_tale t = tale_of(g, &telling, &s->wave);
		telling.stop = s;
		t.signature = "rocgdb-signal";
		t.at = s->at;
		t.time = s->time;
		t.text = s->text;
		t.wave.reason = reason_of(s->signal);
		t.wave.registers = gdb_state_registers(g->state, s->wave.pc);
		t.first = add_stop;
		wave_tell(&g->out, &t, &g->arena);
	}
}

static void stop_frame(struct rocgdb *g, const struct logline *line, struct str frame)
{
	struct stop s = { .signal = g->signal, .program = g->program, .imprecise = g->imprecise, .at = g->stop_at };
	struct str function, source;
	g->stopped = false;
	if (!g->on_wave || g->arena.total > KEPT_BYTES)
		return;
	if (g->stops.len == STOPS_MAX) {
		tell_stops(g);
		g->stops.len = 0;
	}
	gdb_frame_parse(frame, &s.wave.pc, &function, &source);
	s.wave.kernel = gdb_keep(g, function);
	s.wave.source = gdb_keep(g, source);
	s.text = gdb_keep(g, str_trim(line->message));
	s.time = line_time(line);
	s.unreadable = str_find(frame, S("private_lane#")) >= 0;
	vec_push(&g->stops, s);
	g->at_wave = g->on_stop = true;
	g->next_frame = 0;
	gdb_state_turn(g->state, s.wave.pc);
}

// --- lines ---

static bool empty_line(struct rocgdb *g, struct str text, struct place at)
{
	if (!str_after(text, S("No "), &text) || str_find(text, S(" are currently active")) < 0)
		return false;
	const bool empty = str_among(text, STR_BEGINS, "dispatches are|queues are|agents are").n;
	if (empty)
		g->empty_at = at;
	g->nothing_listed |= empty;
	return empty;
}

/** A stop of which no frame was printed. */
static void tell_stop(struct rocgdb *g, const struct logline *line)
{
	if (g->stopped && g->on_wave)
		stop_frame(g, line, (struct str){ 0 });
	g->stopped = false;
}

/** `#0  0x... in kern ()`: of a thread that was chosen, or the first of a backtrace, whose others are not looked at. */
static bool frame_line(struct rocgdb *g, struct str text)
{
	struct str rest = str_from(text, 1), word = str_word(&rest), function, source;
	int64_t number;
	uint64_t pc;
	if (!g->at_wave || !str_starts(text, S("#")) || !str_number(word, &number) || number < 0 || number > INT32_MAX)
		return false;
	gdb_frame_parse(rest, &pc, &function, &source);
	bool next = number && number == g->next_frame;
	if (!number && pc)
		gdb_state_turn(g->state, pc);
	else if (number && !next)
		gdb_state_turn(g->state, 0);
	g->on_stop &= !number || next;
	g->next_frame = (unsigned)number + 1;
	return true;
}

static enum taken rocgdb_line(void *self, const struct logline *line, struct place at)
{
	struct rocgdb *g = self;
	struct str text = str_trim(line->message), row;
	if (!g->state)
		g->state = gdb_state_new();
	if (str_find(text, S(" received signal SIG")) >= 0) {
		struct str rest, name;
		tell_stop(g, line);
		str_after(text, S("received signal "), &rest);
		g->signal = gdb_keep(g, str_split(&rest, ','));
		if (str_after(text, S("Thread "), &name) && str_after(name, S("\""), &name))
			g->program = gdb_keep(g, str_split(&name, '"'));
		g->stopped = true;
		g->imprecise = false;
		g->stop_at = at;
		g->on_wave = str_find(text, S("AMDGPU ")) >= 0;
	}
	bool switching = str_find(text, S("[Switching to ")) >= 0;
	if (switching || (str_starts(text, S("Thread ")) && str_ends(text, S("):")))) { // of `thread apply`
		g->at_wave = str_find(text, S("AMDGPU ")) >= 0;
		g->on_stop = false;
		g->next_frame = 0;
		gdb_state_turn(g->state, 0);
		g->on_wave |= g->at_wave && g->stopped;
		if (g->at_wave)
			return true;
	}
	if (str_find(text, S("recise memory violation signal reporting is not enabled")) >= 0) {
		g->imprecise = true;
		return true;
	}
	struct str frame = str_starts(text, S("#0 ")) ? str_trim(str_from(text, 3)) : text;
	if (g->stopped && gdb_frame_is(frame)) {
		stop_frame(g, line, frame);
		return true;
	}
	if (g->stopped && str_find(text, S(" received signal SIG")) >= 0)
		return true;
	if (str_after(text, S("AMDGPU Dispatch "), &row))
		dispatch_row(g, row, line, at);
	else if (str_after(text, S("AMDGPU Queue "), &row))
		queue_row(g, row, line, at);
	else if (str_after(text, S("AMDGPU Agent ("), &row))
		agent_row(g, row, line, at);
	else if (str_after(text, S("AMDGPU Wave "), &row))
		wave_row(g, row, at);
	else if (str_after(text, S("AMDGPU Lane "), &row) || empty_line(g, text, at) || frame_line(g, text))
		return true;
	else if (!gdb_state_line(g->state, text))
		return str_among(text, STR_BEGINS, "(gdb)|Id |===|location may not be accurate").n;
	// A pc at the begin of a line is not in the frame.
	else if (g->on_stop && !g->stops.data[g->stops.len - 1].wave.pc)
		g->stops.data[g->stops.len - 1].wave.pc = gdb_state_pc(g->state);
	return true;
}

static void rocgdb_fill_tale(void *ctx, const struct wave_place *p, struct arena *a, struct wave_tale *ret)
{
	struct rocgdb *g = ctx;
	const struct stop *stop = NULL; // where a wave of this pc stopped, its registers are told with the stop
	for (size_t i = 0; i < g->stops.len && p->first->pc; i++)
		stop = g->stops.data[i].wave.pc == p->first->pc ? &g->stops.data[i] : stop;
	*ret = tale_of(g, arena_alloc(a, sizeof(struct gdb_telling)), p->first);
	ret->signature = "rocgdb-waves";
	ret->at = ((const struct listed_wave *)p->first)->at;
	ret->count = p->count;
	if (stop)
		ret->wave.reason = reason_of(stop->signal);
	else
		ret->wave.registers = gdb_state_registers(g->state, p->first->pc);
}

static void rocgdb_close(void *self)
{
	struct rocgdb *g = self;
	struct event e;
	const struct logline none = { 0 };
	tell_stop(g, &none);
	tell_stops(g);
	const struct wave_telling t = { .out = &g->out, .most = PLACES_MAX, .fill = rocgdb_fill_tale, .ctx = g };
	waves_tell(&t, &g->places, 0);
	if (g->nothing_listed && !g->dispatches && !g->pending && artefact_event(&g->out, "rocgdb-empty", g->empty_at, &e)) {
		event_add(&e, S("debugger_sees"), g->agents ? S("agents") : S("nothing"), FACT_TEXT);
		artefact_tell(&g->out, &e);
	}
	gdb_state_free(g->state);
	vec_free(&g->stops);
	vec_free(&g->places);
	arena_free(&g->arena);
}

ARTEFACT_READER(rocgdb, "rocgdb", 60);
