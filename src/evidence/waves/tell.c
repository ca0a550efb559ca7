#include "evidence/waves/tell.h"

static void add_count(struct event *e, struct arena *a, const struct wave_tale *t)
{
	if (t->count)
		event_add_number(e, a, "waves", (int64_t)t->count);
}

static void add_place(struct event *e, struct arena *a, const struct wave_tale *t)
{
	const struct wave *w = &t->wave;
	if (t->listed)
		add_count(e, a, t);
	else
		event_add_text(e, a, "stop_reason", w->reason);
	if (t->pc_known)
		event_add_code(e, a, "pc", w->pc);
	if (t->listed) {
		if (t->halted)
			event_add_number(e, a, "halted", (int64_t)t->halted);
		return;
	}
	event_add_text(e, a, "kernel_name", w->kernel);
	add_count(e, a, t);
	event_add_text(e, a, "wave", t->id);
}

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
	struct event e;
	if (!artefact_event(out, t->signature, t->at, &e))
		return;
	e.time = t->time;
	e.text = t->text;
	e.device = t->device;
	if (t->first)
		t->first(t->of, &e, a);
	add_place(&e, a, t);
	if (t->own)
		t->own(t->of, &e, a);
	e.dump.registers = t->wave.registers;
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

static void tell_more(const struct wave_telling *t, struct place at, size_t waves)
{
	struct event e;
	struct arena a = { 0 };
	if (artefact_event(t->out, t->more, at, &e)) {
		event_add_number(&e, &a, "waves", (int64_t)waves);
		artefact_tell(t->out, &e);
	}
	arena_free(&a);
}

void waves_tell(const struct wave_telling *t, const struct wave_places *groups, size_t beyond)
{
	struct place at = { 0 };
	for (size_t i = 0; i < groups->len && i < t->most; i++) {
		struct arena a = { 0 };
		struct wave_tale tale = { 0 };
		t->fill(t->ctx, &groups->data[i], &a, &tale);
		at = i ? at : tale.at;
		wave_tell(t->out, &tale, &a);
		arena_free(&a);
	}
	for (size_t i = t->most; i < groups->len; i++)
		beyond += groups->data[i].count;
	if (beyond && t->more)
		tell_more(t, at, beyond);
}
