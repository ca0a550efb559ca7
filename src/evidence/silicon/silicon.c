// Looks at the GPUs and tells what the verdicts of knowledge/silicon.know say of them.
#include "evidence/silicon/silicon.h"

#include <stdio.h>
#include <stdlib.h>

#include "evidence/silicon/hardware.h"
#include "evidence/silicon/states.h"
#include "evidence/waves/tell.h"
#include "gpu/target_code.h"
#include "source/source.h"
#include "source/tape/tape.h"

/** A GPU that is told of. */
struct gpu_telling {
	struct silicon_looked *looked;
	struct gpu_observation *view;
	size_t told;
	const struct know_verdict *tales[VERDICTS_MOST];
};

struct silicon_telling {
	const struct artefact_output *out;
	struct machine_observation *view;
	struct silicon_round round;
	struct gpu_telling *gpus; // as many as the round has
	struct str lacks;         // as struct silicon_options has it
};

static struct tape *tape_of(const struct silicon_telling *r) { return probe_tape(&r->view->devices.count); }

// --- telling ---

static const struct holder *silicon_holder_of(const struct device *d, int64_t pid)
{
	for (size_t i = 0; i < d->nholders; i++)
		if (d->holders[i].pid == pid)
			return &d->holders[i];
	return NULL;
}

/** Where waves wait at a barrier while others move. */
static void tell_barrier(struct gpu_telling *g, const struct judgement *j, struct event *e, struct arena *a)
{
	const struct wave_state *s = &j->party->waves->state;
	const struct where *at;
	if (!s->barrier_one || !s->moved)
		return;
	wave_space_where(&g->looked->spaces, j->code.space, &s->barrier_one->at, 1, WAVE_CONTEXT, &at);
	struct str parameters = at->name, name = str_split(&parameters, '(');
	if (at->nframes)
		event_add(e, S("barrier_place"),
			  arena_printf(a, STR_FMT ":%u", STR_ARG(at->frames[0].file), at->frames[0].line), FACT_TEXT);
	else if (at->function)
		event_add(e, S("barrier_place"),
			  arena_printf(a, STR_FMT " +0x%llx", STR_ARG(name), (unsigned long long)at->offset), FACT_TEXT);
}

/** The code at the pc where most waves of the party are. */
static void tell_code(struct silicon_telling *r, struct gpu_telling *g, const struct judgement *j, struct event *e, struct arena *a)
{
	const struct party_code *c = &j->code;
	if (!c->at || (!c->at->in && !c->kernel.n))
		return;
	struct wave_tale tale = { .wave = c->one, .where = c->at->in ? c->at : NULL };
	if (c->one.dispatched && !event_fact(e, "kernel_name"))
		event_add_text(e, a, "kernel_name", c->kernel);
	wave_tell_code(r->out, &tale, e, a);
	tell_barrier(g, j, e, a);
	if (c->guess && !event_fact(e, "pid")) {
		event_add_text(e, a, "process", c->guess->name);
		event_add_number(e, a, "pid", c->guess->pid);
	}
}

static void silicon_add_facts(struct event *e, const struct verdict_facts *f, struct arena *a)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->facts[i].tell)
			event_add(e, f->facts[i].name, arena_str(a, f->facts[i].value), f->facts[i].type);
}

static void tell_verdict(struct silicon_telling *r, struct gpu_telling *g, const struct know_verdict *v, struct verdict_facts *f,
			 const struct judgement *j)
{
	enum { MS = 1000 };
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	if (!artefact_event(r->out, arena_z(&a, v->event), (struct place){ r->out->source, 0 }, &e))
		return;
	// Seconds since the machine was started.
	double now = (double)tape_number(tape_of(r), "uptime", (int64_t)(source_uptime() * MS)) / MS;
	e.device = g->looked->device->pci;
	e.driver = S("amdgpu");
	e.now = true;
	if (now >= 0)
		e.time = (struct stamp){ TIME_BOOT, now };
	silicon_add_facts(&e, f, &a);
	if (!v->well && !g->told) // one picture shows the whole chip
		e.dump.nunits = watch_units(&g->looked->watch, &a, &e.dump.units);
	if (!v->well)
		reset_facts(&e, &r->view->devices, g->looked->device, &a);
	tell_code(r, g, j, &e, &a);
	const struct fact *kernel = event_fact(&e, "kernel_name"), *pid = event_fact(&e, "pid");
	int64_t number;
	const struct holder *h = pid && str_number(pid->value, &number) ? silicon_holder_of(g->looked->device, number) : NULL;
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

static struct str unseen(struct silicon_telling *r, const struct gpu_telling *g)
{
	const struct gate *gate = &g->looked->watch.gate;
	const unsigned xccs = watch_xccs_unseen(&g->looked->watch);
	if (r->lacks.n)
		return r->lacks;
	if (xccs)
		return arena_printf(&r->view->arena, "registers or waves of %u of %u XCCs could not be read%s", xccs,
				    g->looked->watch.xccs,
				    r->view->devices.lockdown ? ": the kernel is locked down (Secure Boot)" : "");
	if (g->looked->watch.late.n)
		return arena_str(&r->view->arena, g->looked->watch.late);
	if (g->looked->device->ras.odd)
		return S("the counts of hardware errors could not be read (ras/event_state)");
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

/** @waits: others have a verdict of their own, and those without may only wait for them. */
static void tell_judgement(struct silicon_telling *r, struct gpu_telling *g, const struct judgement *j, bool waits)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct know_verdict *v = j->verdicts[i];
		bool told = false;
		for (size_t t = 0; t < g->told; t++)
			told |= g->tales[t] == v;
		// What is true of the whole GPU is found once for each party.
		if ((v->event.n && waits && !j->each) || (told && !v->each_xcc))
			continue;
		struct verdict_facts *f = arena_alloc(&r->round.arena, sizeof(*f));
		*f = j->facts;
		verdict_facts_unit(f, r->out->know, v);
		if (v->event.n) {
			tell_verdict(r, g, v, f, j);
			g->view->unwell |= !v->well;
			if (g->told < VERDICTS_MOST)
				g->tales[g->told++] = v;
		}
		g->view->stands |= v->stands;
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

// --- votes on progress ---

/** Of several XCCs: one that stands is told, though others move. */
static void facts_add_vote(enum vote *to, bool moved, bool stood)
{
	if (stood || (moved && *to == VOTE_UNKNOWN))
		*to = stood ? VOTE_STOOD : VOTE_MOVED;
}

/** What the looks say of progress of one more party. */
static void observed_votes_add(struct observed_votes *v, const struct verdict_facts *f)
{
	bool moving = verdict_fact_is(f, "waves_moving", "yes") || verdict_fact_is(f, "stood_registers", "changing");
	bool loop = verdict_fact_is(f, "waves_moving", "yes") && verdict_fact_is(f, "waves_loop", "yes"); // waves that stand still are in none
	bool known = verdict_fact(f, "waves_moving").n;
	v->loop = known ? loop && (v->loop || v->waves == VOTE_UNKNOWN) : v->loop;
	facts_add_vote(&v->waves, moving && !loop, known && (!moving || loop));
	facts_add_vote(&v->rings, verdict_fact(f, "ring_moving").n, verdict_fact(f, "ring_stuck").n);
	facts_add_vote(&v->firmware, false, verdict_fact_is(f, "still", "MES"));
}

// --- judging ---

static void judge_gpu(struct silicon_telling *r, struct gpu_telling *g)
{
	const struct silicon_looked *l = g->looked;
	bool each = false;
	g->view->unseen = unseen(r, g);
	for (size_t i = 0; i < l->judgements.len; i++) {
		observed_votes_add(&g->view->votes, &l->judgements.data[i]->facts);
		each |= l->judgements.data[i]->each;
	}
	for (unsigned xcc = 0; xcc < l->watch.xccs; xcc++) {
		const struct wave_state *s = watch_wave_state(&l->watch, xcc);
		g->view->waves += s && !l->watch.waves_sampled ? s->count : 0;
		g->view->waves_known |= s && !l->watch.waves_sampled;
	}
	for (size_t i = 0; i < l->judgements.len; i++)
		tell_judgement(r, g, l->judgements.data[i], each);
	if (r->lacks.n && !g->view->unwell) // bad news stays true where answers are lost; good news does not
		g->view->health = S("unknown");
	// What sleeps is left alone, and well; what could not be looked at may be anything, queues of those who compute on it too.
	const struct gate *gate = &g->looked->watch.gate;
	bool seen = (gate->open || gate->asleep || (gate->gfxoff && !gate->error)) && !gate->stuck && !g->looked->device->unread.n &&
		    !g->looked->device->stuck.is && !target_stuck(g->looked->target) && !watch_xccs_unseen(&g->looked->watch) &&
		    !str_is(g->view->health, "unknown") && !r->round.queues.kfd.stuck.is && !g->looked->device->ras.odd;
	for (size_t i = 0; i < r->round.queues.nprocesses; i++)
		seen &= !r->round.queues.processes[i].target || !process_stuck(r->round.queues.processes[i].target) ||
			!silicon_holder_of(g->looked->device, r->round.queues.processes[i].pid);
	g->view->known = seen && !r->lacks.n;
}

// --- what each queue does ---

static void observe_queue(struct silicon_telling *r, struct gpu_observation *v, const struct silicon_state *s, struct observed_queue q)
{
	struct arena *a = &r->view->arena;
	q.process = arena_str(a, q.process);
	q.ring = arena_str(a, q.ring);
	q.kernel = arena_str(a, q.kernel);
	q.is = s->is;
	q.why = arena_str(a, s->why);
	q.seconds = s->seconds;
	if (!str_is(s->is, "idle"))
		v->queues[v->nqueues++] = q;
}

static void observe_queues(struct silicon_telling *r, struct gpu_telling *g)
{
	const struct user_queues *q = &r->round.queues;
	const struct watch *w = &g->looked->watch;
	g->view->queues = arena_alloc(&r->view->arena, (q->n + w->rings.len + 1) * sizeof(*g->view->queues));
	for (size_t i = 0; i < q->n; i++) {
		const struct user_queue *u = &q->list[i];
		if (!str_eq(u->gpu, g->looked->device->pci))
			continue;
		const struct silicon_state s = state_of_queue(&r->round, g->looked, u);
		const struct user_process *p = &q->processes[u->process];
		observe_queue(r, g->view, &s, (struct observed_queue){ .process = p->name, .pid = p->pid, .id = u->id, .client = u->client, .placed = u->slot.known, .vmid = u->slot.vmid, .xccs = u->xccs, .kernel = u->kernel });
	}
	for (size_t i = 0; i < w->rings.len; i++) {
		if (!w->rings.data[i].moved && !w->rings.data[i].waited)
			continue;
		const struct silicon_state s = state_of_ring(&r->round, g->looked, w->rings.data[i].name);
		observe_queue(r, g->view, &s, (struct observed_queue){ .ring = w->rings.data[i].name });
	}
}

// --- the hardware beside its work ---

static void tell_hardware(struct silicon_telling *r)
{
	const size_t n = r->round.n;
	struct hardware_seen *seen = arena_alloc(&r->view->arena, (n + 1) * sizeof(*seen));
	r->view->hives = arena_alloc(&r->view->arena, (n + 1) * sizeof(*r->view->hives));
	for (size_t i = 0; i < n; i++) {
		const struct device *d = seen[i].device = r->gpus[i].looked->device;
		if (d->ras.first && d->ras.gpus > 1) {
			struct hive_observation *h = &r->view->hives[r->view->nhives++];
			h->first = d;
			h->hint = hive_hints(r->out->know, d, &h->fit, &r->view->arena);
		}
	}
	hardware_look(r->out->know, &r->view->devices, seen, n);
	for (size_t i = 0; i < n; i++) {
		struct gpu_observation *v = r->gpus[i].view;
		const struct str hints = hardware_hints(r->out->know, &seen[i], &r->view->devices, &r->view->arena);
		v->hardware = hints;
		v->fit = seen[i].fit;
		v->throttle = seen[i].throttle;
		v->pages_known = seen[i].pages_known;
		v->pages_pending = seen[i].pages.pending;
		v->hint = arena_printf(&r->view->arena, STR_FMT "%s" STR_FMT, STR_ARG(v->hint), v->hint.n && hints.n ? "\n" : "",
				       STR_ARG(hints));
	}
}

// --- all of it ---

static void open_gpus(struct silicon_telling *r, const struct silicon_options *o)
{
	const struct devices *d = &r->view->devices;
	silicon_round_begin(&r->round, r->out->know, d, o->gpu);
	r->round.places.paths = code_shelf_paths(r->out->code, &r->round.places.n);
	for (size_t i = 0; i < d->n; i++)
		r->view->gpus[i] = (struct gpu_observation){ .device = &d->list[i], .health = S("unknown") };
	r->gpus = arena_alloc(&r->round.arena, (r->round.n + 1) * sizeof(*r->gpus));
	for (size_t i = 0; i < r->round.n; i++) {
		struct silicon_looked *l = &r->round.gpus[i];
		r->gpus[i] = (struct gpu_telling){ .looked = l, .view = &r->view->gpus[l->device - d->list] };
		r->gpus[i].view->looked = true;
	}
}

void silicon_read(const struct artefact_output *out, const struct silicon_options *o, struct machine_observation *v)
{
	struct silicon_telling r = { .out = out, .view = v, .lacks = o->lacks };
	v->borrowed = o->devices;
	if (v->borrowed)
		v->devices = *o->devices;
	else
		devices_find_at(out->know, (struct machine_at){ .tape = o->tape }, &v->devices);
	v->n = v->devices.n;
	v->gpus = arena_alloc(&v->arena, (v->n + 1) * sizeof(*v->gpus));
	silicon_tell_machine(out, &v->devices);
	open_gpus(&r, o);
	silicon_round_look(&r.round, false);
	for (size_t i = 0; i < r.round.n; i++)
		watch_contents(&r.gpus[i].looked->watch);
	silicon_round_judge(&r.round);
	for (size_t i = 0; i < r.round.n; i++) {
		judge_gpu(&r, &r.gpus[i]);
		observe_queues(&r, &r.gpus[i]);
	}
	tell_hardware(&r);
	silicon_round_end(&r.round);
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
