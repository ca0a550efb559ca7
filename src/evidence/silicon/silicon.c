// Looks at the GPUs and tells what the verdicts of knowledge/silicon.know say of them.
#include "evidence/silicon/silicon.h"

#include <stdio.h>
#include <stdlib.h>

#include "evidence/silicon/facts.h"
#include "evidence/silicon/hardware.h"
#include "evidence/waves/tell.h"
#include "gpu/target_code.h"
#include "source/source.h"
#include "source/tape/tape.h"

enum {
	FIRST_LOOKS = 4, // of every GPU
	MORE_LOOKS = 6,  // of one that seems to be stuck
	FIRST_PAUSE_MS = 40,
	MORE_PAUSE_MS = 60,
	BUSY_LOAD = 90, // per cent
};

/** A GPU that is being looked at. */
struct silicon_looked {
	const struct device *device;
	struct target *target;
	struct watch watch;
	struct gpu_observation *view;
	bool suspect; // the first looks did not show that all is well
	size_t told;
	const struct know_verdict *tales[VERDICTS_MOST];
};

struct look_round {
	const struct artefact_output *out;
	struct machine_observation *view;
	struct user_queues queues;
	size_t n;
	struct silicon_looked *gpus;
	struct str lacks; // as struct silicon_options has it
};

static struct tape *tape_of(const struct look_round *r) { return probe_tape(&r->view->devices.count); }

// --- looking ---

static void open_gpus(struct look_round *r, const struct silicon_options *o)
{
	struct devices *d = &r->view->devices;
	const struct device *only = o->gpu.n ? devices_named(d, o->gpu) : NULL;
	r->gpus = mem_alloc((d->n + 1) * sizeof(*r->gpus));
	for (size_t i = 0; i < d->n; i++) {
		struct gpu_observation *v = &r->view->gpus[i];
		*v = (struct gpu_observation){ .device = &d->list[i], .health = S("unknown") };
		if (o->gpu.n && only != &d->list[i])
			continue;
		struct silicon_looked *g = &r->gpus[r->n++];
		*g = (struct silicon_looked){ .device = &d->list[i], .view = v };
		v->looked = true;
		g->target = target_device(r->out->know, g->device);
		watch_begin(&g->watch, r->out->know, g->target, g->device, g->device->gfx);
	}
}

/** Whether the GPU needs no further look. Shaders at work need one until their waves were seen, or work that they finished: of several
 * XCCs or programs, some may stand still while others work. */
static bool clearly_well(struct look_round *r, struct silicon_looked *g, bool waves_seen)
{
	_cleanup_arena_ struct arena a = { 0 };
	bool well = true, alone = g->watch.xccs == 1 && !parties_may_hide(&g->watch, &r->queues);
	for (unsigned xcc = 0; xcc < g->watch.xccs && well; xcc++) {
		const struct party *parties;
		size_t n = parties_of(&a, &g->watch, &r->queues, xcc, &parties);
		for (size_t i = 0; i < n && well; i++) {
			struct verdict_facts f = { .arena = &a };
			const struct know_verdict *v[VERDICTS_MOST];
			verdict_facts_of(&f, &g->watch, &parties[i], &r->queues);
			int64_t load;
			const bool shaders = verdict_fact_is(&f, "busy", "SPI") ||
					     (str_number(verdict_fact(&f, "load"), &load) && load >= BUSY_LOAD);
			well = verdicts_of(r->out->know, &f, v) && (!v[0]->event.n || v[0]->well) && !v[0]->hint.n &&
			       (waves_seen || !shaders || (alone && verdict_fact_is(&f, "progress", "yes")));
		}
	}
	return well;
}

/** After a look that did not return there are no more. */
static bool may_look(const struct silicon_looked *g) { return !target_stuck(g->target) && !g->device->off_bus; }

static bool anything_busy(const struct watch *w)
{
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		for (size_t i = 0; i < w->know->units.len; i++) {
			enum steadiness s = watch_unit(w, xcc, w->know->units.data[i]);
			if (s == STEADY_SET || s == STEADY_NOT)
				return true;
		}
	}
	return false;
}

static void look_at_all(struct look_round *r, size_t looks, int pause, bool suspects)
{
	for (size_t look = 0; look < looks; look++) {
		bool any = false;
		for (size_t i = 0; i < r->n; i++) {
			struct silicon_looked *g = &r->gpus[i];
			if ((suspects && !g->suspect) || (look && !may_look(g)))
				continue;
			// Between the first and the last, what is cheap to read is enough, and nothing of a GPU that does nothing.
			bool end = !look || look + 1 == looks;
			any |= may_look(g);
			if (!end && !anything_busy(&g->watch))
				continue;
			watch_look(&g->watch, suspects || end, end);
			any |= may_look(g);
		}
		if (!any)
			return;
		if (look + 1 < looks)
			tape_pause(tape_of(r), pause);
	}
}

static void silicon_look_at_waves(struct look_round *r, bool sample)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->gpus[i].suspect && may_look(&r->gpus[i]))
			watch_waves(&r->gpus[i].watch, sample);
}

/** Looks several times. The pauses are not multiples of each other, since a wave in a loop may be back at the same place. */
static void look_at_some_waves(struct look_round *r)
{
	static const int pauses[] = { 3, 7, 11, 5, 13 };
	for (size_t look = 0; look < ARRAY_SIZE(pauses); look++) {
		for (size_t i = 0; i < r->n; i++)
			if (r->gpus[i].suspect && may_look(&r->gpus[i]))
				watch_some_waves(&r->gpus[i].watch);
		tape_pause(tape_of(r), pauses[look]);
	}
}

static void silicon_count_interrupts(struct look_round *r, bool first)
{
	const struct devices *d = &r->view->devices;
	_cleanup_free_ int64_t *counts = mem_alloc((d->n + 1) * sizeof(*counts));
	devices_interrupts(d, counts);
	for (size_t i = 0; i < r->n; i++) {
		struct silicon_looked *g = &r->gpus[i];
		int64_t n = counts[g->device - d->list];
		if (first)
			g->watch.interrupts_first = n;
		g->watch.interrupts_last = n;
	}
}

/** Returns whether one is suspect that may be looked at. */
static bool find_suspects(struct look_round *r, bool waves_seen)
{
	bool any = false;
	for (size_t i = 0; i < r->n; i++) {
		r->gpus[i].suspect = !clearly_well(r, &r->gpus[i], waves_seen);
		any |= r->gpus[i].suspect && may_look(&r->gpus[i]);
	}
	return any;
}

/** Looks at all, then longer at those that the first looks do not show to be well: a look at waves costs much. */
static void look_round(struct look_round *r)
{
	user_queues_look(&r->queues, r->out->know, &r->view->devices);
	silicon_count_interrupts(r, true);
	look_at_all(r, FIRST_LOOKS, FIRST_PAUSE_MS, false);
	silicon_count_interrupts(r, false);
	user_queues_look(&r->queues, r->out->know, &r->view->devices);
	if (!find_suspects(r, false))
		return;
	user_queues_place(&r->queues, r->out->know, &r->view->devices);
	silicon_look_at_waves(r, true);
	look_at_some_waves(r);
	// A sample may miss the few waves of one among several.
	for (size_t i = 0; i < r->n; i++)
		r->gpus[i].suspect &= !watch_waves_at_work(&r->gpus[i].watch) || watch_ring_waits(&r->gpus[i].watch) ||
				      parties_may_hide(&r->gpus[i].watch, &r->queues);
	silicon_look_at_waves(r, false);
	look_at_all(r, MORE_LOOKS, MORE_PAUSE_MS, true);
	look_at_some_waves(r);
	silicon_count_interrupts(r, false);
	user_queues_look(&r->queues, r->out->know, &r->view->devices);
	// What is said of all waves is said when all were seen again.
	if (find_suspects(r, true))
		silicon_look_at_waves(r, false);
}

// --- telling ---

static const struct holder *silicon_holder_of(const struct device *d, int64_t pid)
{
	for (size_t i = 0; i < d->nholders; i++)
		if (d->holders[i].pid == pid)
			return &d->holders[i];
	return NULL;
}

/** Where waves wait at a barrier while others move. */
static void tell_barrier(struct target_code *c, const struct wave_state *s, struct event *e, struct arena *a)
{
	if (!s->barrier_one || !s->moved || !target_code_need(c, s->barrier_pc))
		return;
	const struct where *at = target_code_waves(c, s->barrier_one, 1, WAVE_CONTEXT)[0];
	struct str parameters = at->name, name = str_split(&parameters, '(');
	if (at->nframes)
		event_add(e, S("barrier_place"),
			  arena_printf(a, STR_FMT ":%u", STR_ARG(at->frames[0].file), at->frames[0].line), FACT_TEXT);
	else if (at->function)
		event_add(e, S("barrier_place"),
			  arena_printf(a, STR_FMT " +0x%llx", STR_ARG(name), (unsigned long long)at->offset), FACT_TEXT);
}

/** The code at the pc where most waves of the party are: of its process, or else of whichever process of this GPU has code there. */
static void tell_code(struct look_round *r, struct silicon_looked *g, const struct party *p, struct event *e, struct arena *a)
{
	const struct wave_state *s = p->waves ? &p->waves->state : NULL;
	if (!s || !s->one)
		return;
	size_t ncode;
	const char *const *code = code_shelf_paths(r->out->code, &ncode);
	struct code_places places = { .n = ncode, .paths = code, .tape = tape_of(r) };
	for (size_t i = 0; i < r->queues.nprocesses; i++) {
		struct target *t = r->queues.processes[i].target;
		struct target_code c;
		if (!t)
			continue;
		if (p->process ? p->process != &r->queues.processes[i] :
				 !silicon_holder_of(g->device, r->queues.processes[i].pid))
			continue;
		target_code_open(&c, t, &places);
		const bool found = target_code_need(&c, s->pc);
		if (found) {
			const struct where **at = target_code_waves(&c, s->one, 1, WAVE_CONTEXT);
			struct wave_tale tale = { .wave = *s->one, .where = at[0] };
			tale.wave.stood = !s->moved;
			tale.wave.kernel = target_code_kernel_name(&c, s->one, at[0]);
			wave_tell_code(r->out, &tale, e, a);
			tell_barrier(&c, s, e, a);
			if (!event_fact(e, "pid")) {
				event_add_text(e, a, "process", r->queues.processes[i].name);
				event_add_number(e, a, "pid", r->queues.processes[i].pid);
			}
		}
		target_code_close(&c);
		if (found)
			return;
	}
}

static void silicon_add_facts(struct event *e, const struct verdict_facts *f, struct arena *a)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->facts[i].tell)
			event_add(e, f->facts[i].name, arena_str(a, f->facts[i].value), f->facts[i].type);
}

static void tell_verdict(struct look_round *r, struct silicon_looked *g, const struct know_verdict *v, struct verdict_facts *f,
			 const struct party *p)
{
	enum { MS = 1000 };
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	if (!artefact_event(r->out, arena_z(&a, v->event), (struct place){ r->out->source, 0 }, &e))
		return;
	// Seconds since the machine was started.
	double now = (double)tape_number(tape_of(r), "uptime", (int64_t)(source_uptime() * MS)) / MS;
	e.device = g->device->pci;
	e.driver = S("amdgpu");
	e.now = true;
	if (now >= 0)
		e.time = (struct stamp){ TIME_BOOT, now };
	silicon_add_facts(&e, f, &a);
	if (!v->well && !g->told) // one picture shows the whole chip
		e.dump.nunits = watch_units(&g->watch, &a, &e.dump.units);
	if (!v->well)
		reset_facts(&e, &r->view->devices, g->device, &a);
	tell_code(r, g, p, &e, &a);
	const struct fact *kernel = event_fact(&e, "kernel_name"), *pid = event_fact(&e, "pid");
	int64_t number;
	const struct holder *h = pid && str_number(pid->value, &number) ? silicon_holder_of(g->device, number) : NULL;
	e.began = h ? h->began : 0;
	if (kernel)
		g->view->kernel = arena_str(&r->view->arena, kernel->value);
	const struct fact_view view = { event_get, &e };
	_cleanup_text_ struct text says = { 0 };
	if (e.signature->event)
		phrase_fill(&says, e.signature->event->say, &view);
	if (!v->well)
		g->view->says = arena_str(&r->view->arena, text_str(&says));
	artefact_tell(r->out, &e);
}

static struct str unseen(struct look_round *r, const struct silicon_looked *g)
{
	const struct gate *gate = &g->watch.gate;
	const unsigned xccs = watch_xccs_unseen(&g->watch);
	if (r->lacks.n)
		return r->lacks;
	if (xccs)
		return arena_printf(&r->view->arena, "registers or waves of %u of %u XCCs could not be read%s", xccs,
				    g->watch.xccs,
				    r->view->devices.lockdown ? ": the kernel is locked down (Secure Boot)" : "");
	if (gate->open || !gate->why_not.n)
		return (struct str){ 0 };
	return arena_printf(&r->view->arena, "registers, waves and rings through debugfs were not read: " STR_FMT,
			    STR_ARG(gate->why_not));
}

static bool worse(struct str a, struct str b)
{
	static const char *const order[] = { "unknown", "idle", "asleep", "busy", "resetting", "hung", "stuck", "off-bus" };
	size_t x = 0, y = 0;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		x = str_is(a, order[i]) ? i : x;
		y = str_is(b, order[i]) ? i : y;
	}
	return x > y;
}

/** What the looks say of one party. */
struct judgement {
	const struct party *party;
	bool each; // one of the verdicts is told for each
	struct verdict_facts facts;
	size_t n;
	const struct know_verdict *verdicts[VERDICTS_MOST];
};

/** @waits: others have a verdict of their own, and those without may only wait for them. */
static void tell_judgement(struct look_round *r, struct silicon_looked *g, const struct judgement *j, bool waits)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct know_verdict *v = j->verdicts[i];
		bool told = false;
		for (size_t t = 0; t < g->told; t++)
			told |= g->tales[t] == v;
		// What is true of the whole GPU is found once for each party.
		if ((v->event.n && waits && !j->each) || (told && !v->each_xcc))
			continue;
		struct verdict_facts *f = arena_alloc(j->facts.arena, sizeof(*f));
		*f = j->facts;
		verdict_facts_unit(f, r->out->know, v);
		if (v->event.n) {
			tell_verdict(r, g, v, f, j->party);
			g->view->unwell |= !v->well;
			if (g->told < VERDICTS_MOST)
				g->tales[g->told++] = v;
		}
		_cleanup_text_ struct text hint = { 0 };
		verdict_hint(f, v, &hint);
		if (hint.n && str_find(g->view->hint, text_str(&hint)) < 0) // the same of several XCCs is told once
			g->view->hint = arena_printf(&r->view->arena, STR_FMT "%s" STR_FMT, STR_ARG(g->view->hint),
						     g->view->hint.n ? "\n" : "", STR_ARG(text_str(&hint)));
		if (worse(v->health, g->view->health)) {
			g->view->health = v->health;
			g->view->unit = arena_str(&r->view->arena, verdict_fact(f, "ip_block"));
		}
	}
}

static void judge_gpu(struct look_round *r, struct silicon_looked *g)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_vec_ VEC(struct judgement *) all = { 0 };
	bool each = false;
	g->view->unseen = unseen(r, g);
	for (unsigned xcc = 0; xcc < g->watch.xccs; xcc++) {
		const struct party *parties;
		const struct wave_state *s = watch_wave_state(&g->watch, xcc);
		size_t n = parties_of(&a, &g->watch, &r->queues, xcc, &parties);
		for (size_t i = 0; i < n; i++) {
			struct judgement *j = arena_alloc(&a, sizeof(*j));
			j->facts.arena = &a;
			j->party = &parties[i];
			verdict_facts_of(&j->facts, &g->watch, j->party, &r->queues);
			j->n = verdicts_of(r->out->know, &j->facts, j->verdicts);
			for (size_t v = 0; v < j->n; v++)
				j->each |= j->verdicts[v]->each_xcc;
			observed_votes_add(&g->view->votes, &j->facts);
			each |= j->each;
			vec_push(&all, j);
		}
		g->view->waves += s && !g->watch.waves_sampled ? s->count : 0;
		g->view->waves_known |= s && !g->watch.waves_sampled;
	}
	for (size_t i = 0; i < all.len; i++)
		tell_judgement(r, g, all.data[i], each);
	if (r->lacks.n && !g->view->unwell) // bad news stays true where answers are lost; good news does not
		g->view->health = S("unknown");
	// What sleeps is left alone, and well; what could not be looked at may be anything, queues of those who compute on it too.
	const struct gate *gate = &g->watch.gate;
	bool seen = (gate->open || gate->asleep || (gate->gfxoff && !gate->error)) && !gate->stuck && !g->device->unread.n &&
		    !g->device->stuck.is && !target_stuck(g->target) && !watch_xccs_unseen(&g->watch) &&
		    !str_is(g->view->health, "unknown") && !r->queues.kfd.stuck.is;
	for (size_t i = 0; i < r->queues.nprocesses; i++)
		seen &= !r->queues.processes[i].target || !process_stuck(r->queues.processes[i].target) ||
			!silicon_holder_of(g->device, r->queues.processes[i].pid);
	g->view->known = seen && !r->lacks.n;
}

// --- the hardware beside its work ---

static void tell_hardware(struct look_round *r)
{
	struct hardware_seen *seen = arena_alloc(&r->view->arena, (r->n + 1) * sizeof(*seen));
	for (size_t i = 0; i < r->n; i++)
		seen[i].device = r->gpus[i].device;
	hardware_look(r->out->know, &r->view->devices, seen, r->n);
	for (size_t i = 0; i < r->n; i++) {
		struct gpu_observation *v = r->gpus[i].view;
		const struct str hints = hardware_hints(r->out->know, &seen[i], &r->view->devices, &r->view->arena);
		v->hardware = hints;
		v->throttle = seen[i].throttle;
		v->pages_known = seen[i].pages_known;
		v->pages_pending = seen[i].pages.pending;
		v->hint = arena_printf(&r->view->arena, STR_FMT "%s" STR_FMT, STR_ARG(v->hint), v->hint.n && hints.n ? "\n" : "",
				       STR_ARG(hints));
	}
}

// --- all of it ---

void silicon_read(const struct artefact_output *out, const struct silicon_options *o, struct machine_observation *v)
{
	struct look_round r = { .out = out, .view = v, .lacks = o->lacks };
	v->borrowed = o->devices;
	if (v->borrowed)
		v->devices = *o->devices;
	else
		devices_find_at(out->know, (struct machine_at){ .tape = o->tape }, &v->devices);
	v->n = v->devices.n;
	v->gpus = arena_alloc(&v->arena, (v->n + 1) * sizeof(*v->gpus));
	silicon_tell_machine(out, &v->devices);
	open_gpus(&r, o);
	look_round(&r);
	for (size_t i = 0; i < r.n; i++) {
		watch_contents(&r.gpus[i].watch);
		judge_gpu(&r, &r.gpus[i]);
	}
	tell_hardware(&r);
	for (size_t i = 0; i < r.n; i++) {
		watch_end(&r.gpus[i].watch);
		target_close(r.gpus[i].target);
	}
	free(r.gpus);
	user_queues_free(&r.queues);
	if (out->sink.machine)
		out->sink.machine(out->sink.ctx, v);
}

void machine_observation_free(struct machine_observation *v)
{
	if (!v->borrowed)
		devices_free(&v->devices);
	arena_free(&v->arena);
}

void silicon_read_dump(const struct artefact_output *out, struct target *t, const struct dump_head *head)
{
	_cleanup_(watch_end) struct watch w;
	_cleanup_arena_ struct arena a = { 0 };
	struct user_queues none = { 0 };
	struct verdict_facts f = { .arena = &a, .late_ring = head->ring };
	const struct know_verdict *v[VERDICTS_MOST];
	struct event e;
	watch_begin(&w, out->know, t, NULL, devcoredump_device(t)->gfx);
	watch_look(&w, true, true);
	verdict_facts_of(&f, &w, &(struct party){ .driver = true }, &none);
	if (verdicts_of(out->know, &f, v) && v[0]->event.n && artefact_event(out, arena_z(&a, v[0]->event), head->at, &e)) {
		verdict_facts_unit(&f, out->know, v[0]);
		e.time = head->time;
		silicon_add_facts(&e, &f, &a);
		artefact_tell(out, &e);
	}
}
