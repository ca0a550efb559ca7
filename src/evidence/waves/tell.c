// Waves as events: the same facts in the same order for every reader that has waves, and what only one of them knows in between.
#include "evidence/waves/tell.h"

#include <stdlib.h>

#include "evidence/waves/wave_code.h"

/** The instructions around the pc, for people to look at. */
static void add_code(const struct where *at, struct event *e, struct arena *a)
{
	enum { AROUND = 8 };
	if (!at || !at->in || at->here >= at->ninstructions)
		return;
	const size_t first = at->here > AROUND ? at->here - AROUND : 0;
	const size_t end = at->here + AROUND < at->ninstructions ? at->here + AROUND : at->ninstructions;
	struct code_row *rows = arena_alloc(a, (end - first) * sizeof(*rows) + 1);
	for (size_t i = first; i < end; i++)
		rows[i - first] = (struct code_row){ at->instructions[i].address + at->in->base, at->instructions[i].text,
						     i == at->here };
	e->dump.code = rows;
	e->dump.ncode = end - first;
}

void wave_tell_code(const struct artefact_output *out, const struct wave_tale *t, struct event *e, struct arena *a)
{
	struct wave_code code = { .know = out->know, .where = t->where, .wave = &t->wave, .map = t->map, .nmap = t->nmap };
	if (t->wave.queue && t->wave.queue->agent) {
		code.lds_base = t->wave.queue->agent->lds_base;
		code.scratch_base = t->wave.queue->agent->scratch_base;
	}
	if (t->where)
		wave_code_tell(e, a, &code);
	if (!event_fact(e, "kernel_name"))
		event_add_text(e, a, "kernel_name", t->wave.kernel);
}

void wave_tell(const struct artefact_output *out, const struct wave_tale *t, struct arena *a)
{
	const struct wave *w = &t->wave;
	struct event e;
	if (!artefact_event(out, t->signature, t->at, &e))
		return;
	e.time = t->time;
	e.text = t->text;
	e.device = t->device;
	if (t->first)
		t->first(t->of, &e, a);
	if (!t->listed)
		event_add_text(&e, a, "stop_reason", w->reason);
	else if (t->count)
		event_add_number(&e, a, "waves", (int64_t)t->count);
	if (t->pc_known)
		event_add_code(&e, a, "pc", w->pc);
	if (t->listed && t->halted)
		event_add_number(&e, a, "halted", (int64_t)t->halted);
	if (!t->listed) {
		event_add_text(&e, a, "kernel_name", w->kernel);
		if (t->count)
			event_add_number(&e, a, "waves", (int64_t)t->count);
		event_add_text(&e, a, "wave", t->id);
	}
	if (t->own)
		t->own(t->of, &e, a);
	e.dump.registers = w->registers;
	e.dump.values = &t->local;
	e.dump.nvalues = t->local.n > 0;
	if (t->tables) {
		e.dump.waves = t->tables->waves;
		e.dump.nwaves = t->tables->nwaves;
		e.dump.queues = t->tables->queues;
		e.dump.nqueues = t->tables->nqueues;
	}
	add_code(t->where, &e, a);
	wave_tell_code(out, t, &e, a);
	artefact_tell(out, &e);
}

void waves_tell(const struct wave_telling *t, const struct wave_places *groups, size_t beyond)
{
	struct place at = { 0 };
	for (size_t i = 0; i < groups->len && i < t->most; i++) {
		_cleanup_arena_ struct arena a = { 0 };
		struct wave_tale tale = { 0 };
		t->fill(t->ctx, &groups->data[i], &a, &tale);
		at = i ? at : tale.at;
		wave_tell(t->out, &tale, &a);
	}
	for (size_t i = t->most; i < groups->len; i++)
		beyond += groups->data[i].count;
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (beyond && t->more && artefact_event(t->out, t->more, at, &e)) {
		event_add_number(&e, &a, "waves", (int64_t)beyond);
		artefact_tell(t->out, &e);
	}
}

enum {
	GROUPS_FULL = 16, // groups of which a wave is kept with all it has
	GROUPS_MAX = 256,
	TOLD_MAX = 12,
};

static void wave_free(struct dumped_wave *w)
{
	if (!w)
		return;
	vec_free(&w->wave.registers);
	vec_free(&w->local);
	arena_free(&w->arena);
	free(w);
}

/** Whether lanes of the wave are out of step: of many waves that failed the same check, such a one tells why. */
static bool is_telling(struct dumped_wave *w)
{
	struct lane_pattern odd;
	const struct wave_register *exec = wave_register_named(&w->wave.registers, S("exec"));
	return str_find(w->wave.reason, S("ASSERT")) >= 0 && exec && exec->n &&
	       lanes_find_odd(&w->wave.registers, exec->data[0], &odd);
}

static struct dumped_wave *waves_tell_first_of(const struct wave_place *g) { return (struct dumped_wave *)g->first; }

static struct writer writer_copy(struct arena *a, const struct writer *w)
{
	return (struct writer){ arena_str(a, w->rank), arena_str(a, w->worker), arena_str(a, w->pid), arena_str(a, w->host) };
}

/** The wave without its registers and memory; @w is freed. */
static struct dumped_wave *strip_wave(struct dumped_wave *w)
{
	struct dumped_wave *s = mem_alloc(sizeof(*s));
	struct arena *a = &s->arena;
	s->id = arena_str(a, w->id);
	s->wave.kernel = arena_str(a, w->wave.kernel);
	s->wave.reason = arena_str(a, w->wave.reason);
	s->wave.pc = w->wave.pc;
	s->wave.id = w->wave.id;
	s->at = w->at;
	s->time = w->time;
	s->count = w->count;
	s->old = w->old;
	s->code = w->code;
	s->code.function = arena_str(a, w->code.function);
	s->code.uri = arena_str(a, w->code.uri);
	s->code.instruction = arena_str(a, w->code.instruction);
	s->code.before = arena_str(a, w->code.before);
	s->code.source_file = arena_str(a, w->code.source_file);
	s->code.source_line = arena_str(a, w->code.source_line);
	s->writer = writer_copy(a, &w->writer);
	wave_free(w);
	return s;
}

struct dumped_wave *dumped_wave_new(struct dumped_waves *d, const struct logline *line, struct place at)
{
	struct dumped_wave *w = mem_alloc(sizeof(*w));
	w->wave.id = ++d->seen;
	w->count = 1;
	w->at = at;
	w->time = line_time(line);
	w->writer = writer_copy(&w->arena, &line->writer);
	return w;
}

void dumped_waves_add(struct dumped_waves *d, struct dumped_wave *w)
{
	struct wave_place *have = wave_place_of(&d->groups, &w->wave);
	if (have) { // one more of the group; it takes the place of the first where it tells more
		struct dumped_wave *first = waves_tell_first_of(have);
		have->count += w->count;
		if (first->full && !first->telling && is_telling(w)) {
			w->full = w->telling = true;
			have->first = &w->wave;
			w = first;
		}
	} else if (d->groups.len == GROUPS_MAX) {
		d->beyond += w->count;
	}
	if (have || d->groups.len == GROUPS_MAX) {
		wave_free(w);
		return;
	}
	w->full = d->groups.len < GROUPS_FULL;
	w->telling = w->full && is_telling(w);
	if (!w->full)
		w = strip_wave(w);
	vec_push(&d->groups, ((struct wave_place){ .first = &w->wave, .count = w->count }));
}

// --- what is handed on ---

/** The stray disassembly is of this wave's function where its pc lies in it. */
static const struct window_of_code *code_for(const struct dumped_wave *w, const struct window_of_code *stray)
{
	if (w->code.function.n || w->code.pc)
		return &w->code;
	bool inside = stray->begin && w->wave.pc >= stray->begin && w->wave.pc < stray->pc + 256;
	return inside ? stray : &w->code;
}

struct dump_telling {
	const struct artefact_output *out;
	const struct window_of_code *stray;
	const struct dumped_wave *wave; // that is being told
};

static void waves_tell_add_own(void *of, struct event *e, struct arena *a)
{
	const struct dump_telling *d = of;
	const struct dumped_wave *w = d->wave;
	const struct window_of_code *c = code_for(w, d->stray);
	int64_t rank;
	event_add_text(e, a, "code_object", c->uri);
	event_add_text(e, a, "source_file", c->source_file);
	event_add_text(e, a, "source_line", c->source_line);
	if (c->pc && c != d->stray) {
		event_add_text(e, a, "instruction", c->instruction);
		event_add_text(e, a, "instruction_before", c->before);
	}
	event_add(e, S("rank"), w->writer.rank, str_number(w->writer.rank, &rank) ? FACT_NUMBER : FACT_TEXT);
	event_add_text(e, a, "worker", w->writer.worker);
}

static void waves_tell_fill_tale(void *ctx, const struct wave_place *g, struct arena *a, struct wave_tale *ret)
{
	struct dump_telling *d = ctx;
	const struct artefact_output *out = d->out;
	const struct dumped_wave *w = d->wave = waves_tell_first_of(g);
	const struct window_of_code *c = code_for(w, d->stray);
	// The code itself, where it lies beside the dump, knows more than what the agent printed of it.
	const struct code_anchor anchor = { .uri = c->uri,
					    .loaded_at = c->uri.n ? c->loaded_at : 0,
					    .instruction = c->pc == w->wave.pc ? c->instruction : (struct str){ 0 } };
	const struct where *at = out->code ? code_shelf_where(out->code, out->name, &anchor, w->wave.pc) : NULL;
	*ret = (struct wave_tale){
		.signature = w->wave.reason.n || w->old ? "waves-stopped" : "waves-running",
		.at = w->at,
		.time = w->time,
		.text = arena_printf(a, "wave_" STR_FMT ": pc=0x%llx", STR_ARG(w->id), (unsigned long long)w->wave.pc),
		.wave = w->wave,
		.count = g->count,
		.pc_known = w->wave.pc,
		.id = w->id,
		.local = { .group = S("local"), .name = S("lds"), .digits = 8, .n = w->local.len, .data = w->local.data },
		.where = at && (!anchor.instruction.n || wave_code_is(at, anchor.instruction)) ? at : NULL,
		.own = waves_tell_add_own,
		.of = d,
	};
	if (!ret->wave.kernel.n)
		ret->wave.kernel = c->function;
}

void dumped_waves_tell(struct dumped_waves *d, const struct artefact_output *out, const struct window_of_code *stray)
{
	struct dump_telling of = { .out = out, .stray = stray };
	const struct wave_telling t = {
		.out = out, .more = "waves-more", .most = TOLD_MAX, .fill = waves_tell_fill_tale, .ctx = &of
	};
	wave_places_sort(&d->groups);
	waves_tell(&t, &d->groups, d->beyond);
}

void dumped_waves_free(struct dumped_waves *d)
{
	for (size_t i = 0; i < d->groups.len; i++)
		wave_free(waves_tell_first_of(&d->groups.data[i]));
	vec_free(&d->groups);
}
