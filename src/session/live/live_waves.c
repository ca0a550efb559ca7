// The waves on the GPUs of this machine, the code behind each of them, and what each program that has some does.
#include <stdlib.h>

#include "evidence/silicon/states.h"
#include "session/look.h"

enum { BETWEEN_LOOKS_MS = 20, CONTEXT = 16 };

/** One GPU. */
struct gpu_waves {
	struct silicon_looked *looked;
	struct look look; // of registers
	struct wave *waves;
	size_t n;
	struct str stopped; // why there were fewer looks than there should be
};

struct waves_look {
	struct looking *at;
	struct live live;
	struct silicon_round round;
	struct gpu_waves *gpus; // as many as the round has
	struct waves_seen *seen;
	struct arena arena;
	struct uh_error *failed;
	size_t answered;
};

static void waves_look_end(struct waves_look *l)
{
	silicon_round_end(&l->round);
	live_free(&l->live);
	arena_free(&l->arena);
}

// --- looking ---

/** Looks of which somebody said how many there are to be: at waves alone, so that there is no verdict. */
static void sample_waves(struct waves_look *l, unsigned looks)
{
	struct silicon_round *r = &l->round;
	user_queues_look(&r->queues, r->know, r->devices);
	for (unsigned i = 0; i < looks; i++) {
		bool any = false;
		for (size_t g = 0; g < r->n; g++) {
			struct watch *w = &r->gpus[g].watch;
			w->gate = target_gate(r->gpus[g].target);
			w->wave_looks -= w->wave_looks == WAVE_LOOKS_MOST; // the first is what the others are held against
			if (!i || watch_any_waves(w))
				watch_waves(w, WAVES_ALL);
			any |= watch_any_waves(w);
		}
		if (i + 1 < looks && any)
			tape_pause(l->live.found.tape, BETWEEN_LOOKS_MS);
	}
	user_queues_look(&r->queues, r->know, r->devices); // a queue is known after two looks
	for (size_t g = 0; g < r->n; g++)
		if (watch_any_waves(&r->gpus[g].watch))
			user_queues_place(&r->queues, r->know, r->devices);
}

/** That some XCCs did not tell their waves; empty: all did. */
static struct str xccs_without_waves(struct waves_look *l, const struct gpu_waves *g)
{
	const struct watch *w = &g->looked->watch;
	const unsigned n = watch_xccs_without_waves_read(w);
	if (!n)
		return (struct str){ 0 };
	return arena_printf(&l->arena, "the waves of %u of its %u XCCs could not be read%s", n, w->xccs,
			    l->live.found.devices.lockdown ? ": the kernel is locked down (Secure Boot)" : "");
}

/** Why its waves could not be read; empty: they could. */
static struct str why_no_waves(struct waves_look *l, struct gpu_waves *g)
{
	struct target *t = g->looked->target;
	const struct device *d = g->looked->device;
	struct request again = { .kind = REQUEST_WAVES };
	if (g->looked->watch.wave_looks) // that the others have none says nothing of all
		return watch_any_waves(&g->looked->watch) ? (struct str){ 0 } : xccs_without_waves(l, g);
	const enum answer answer = target_ask(t, &again);
	const struct str why = answer == ANSWER_GIVEN ? S("they did not answer before") : live_why_not(&l->arena, t, answer);
	const struct gate gate = target_gate(t);
	const bool rings = d->debugfs.n && !gate.asleep && !gate.off_bus && !gate.refused;
	return rings ? arena_printf(&l->arena, STR_FMT "; unhang rings may still show what it was given to do", STR_ARG(why)) :
		       why;
}

/** The list of the newest look at all. */
static void take_waves(struct waves_look *l, struct gpu_waves *g, struct waves_seen *ret)
{
	const struct watch *w = &g->looked->watch;
	const struct wave_look *newest = watch_last(w);
	*ret = (struct waves_seen){
		.look = &g->look, .gfx = g->looked->device->gfx, .pci = g->looked->device->pci, .xccs = w->xccs
	};
	ret->title = live_title(&l->arena, g->looked->device);
	ret->why_not = why_no_waves(l, g);
	if (ret->why_not.n || !newest)
		return;
	g->n = newest->n;
	g->waves = arena_alloc(&l->arena, (g->n + 1) * sizeof(*g->waves));
	memcpy(g->waves, newest->waves, g->n * sizeof(*g->waves));
	ret->n = g->n;
	ret->waves = g->waves;
	ret->moved = watch_moved(w, &l->arena);
	if (g->n && w->wave_looks < 2 && l->at->options.looks != 1)
		g->stopped = live_why_not(&l->arena, g->looked->target, ANSWER_TIMED_OUT);
}

// --- whose they are, and their code ---

/** Where waves of a GPU go that have no party. */
struct wave_results {
	const struct where **where;
	struct str *kernels;
	struct look **looks;
	const struct shader_start **shaders;
};

/** What is known of the waves of a party, in the order of @of: their dispatches, and what is at their pcs. */
static void find_party_waves(struct waves_look *l, struct gpu_waves *g, const struct judgement *j, const size_t *of, size_t n,
			     struct wave_results *ret)
{
	const struct party *p = j->party;
	struct target *process = j->code.guess ? j->code.guess->target : p->process ? p->process->target : NULL;
	struct wave *waves = arena_alloc(&l->arena, (n + 1) * sizeof(*waves));
	uint64_t *pcs = arena_alloc(&l->arena, (n + 1) * sizeof(*pcs));
	const struct where **where = arena_alloc(&l->arena, (n + 1) * sizeof(*where));
	struct wave_space *space = wave_space_of(&g->looked->spaces, &p->waves->of, process);
	for (size_t i = 0; i < n; i++)
		waves[i] = g->waves[of[i]];
	party_find_dispatches(g->looked, p, waves, n);
	for (size_t i = 0; i < n; i++)
		pcs[i] = waves[i].at;
	if (!wave_space_where(&g->looked->spaces, space, pcs, n, CONTEXT, where))
		look_tell(&l->at->teller,
			  arena_printf(&l->arena, STR_FMT ": VMID %u became another program's while its code was read",
				       STR_ARG(g->looked->device->pci), p->waves->of.vmid));
	struct look *look = process ? arena_alloc(&l->arena, sizeof(*look)) : NULL;
	if (look)
		*look = (struct look){ .know = l->at->know,
				       .target = process,
				       .code = &space->code,
				       .options = &l->at->options,
				       .out = l->at->out };
	for (size_t i = 0; i < n; i++) {
		g->waves[of[i]] = waves[i];
		ret->where[of[i]] = where[i];
		ret->kernels[of[i]] = wave_space_kernel(space, &waves[i], where[i]);
		ret->looks[of[i]] = look;
		ret->shaders[of[i]] = wave_space_shader(space, waves[i].pc);
	}
}

/** What its waves do, for people. */
static struct wave_party party_seen(struct waves_look *l, struct gpu_waves *g, const struct judgement *j, bool judged)
{
	const struct party *p = j->party;
	const struct user_process *process = j->code.guess ? j->code.guess : p->process;
	struct wave_party s = { .xcc = p->xcc,
				.vmid = p->waves->of.vmid,
				.graphics = !p->waves->of.me,
				.process = process  ? process->name :
					   p->owner ? p->owner->name :
						      (struct str){ 0 },
				.pid = process  ? process->pid :
				       p->owner ? p->owner->pid :
						  0,
				.kernel = j->code.kernel,
				.counts = verdict_fact(&j->facts, "counts"),
				.polls = j->code.polls,
				.polled_known = j->code.polled_known,
				.value_known = j->code.value_known,
				.polled = j->code.polled,
				.value = j->code.value };
	s.waves = p->waves->state.count;
	if (p->sure && p->nqueues == 1) {
		s.queue_known = true;
		s.queue = p->queues[0]->id;
	}
	if (judged)
		s.state = state_of_waves(&l->round, g->looked, j);
	return s;
}

static void find_gpu_code(struct waves_look *l, struct gpu_waves *g, struct waves_seen *seen, bool judged)
{
	static const struct where nowhere = { 0 };
	struct silicon_looked *looked = g->looked;
	struct wave_results found = { arena_alloc(&l->arena, (g->n + 1) * sizeof(*found.where)),
				      arena_alloc(&l->arena, (g->n + 1) * sizeof(*found.kernels)),
				      arena_alloc(&l->arena, (g->n + 1) * sizeof(*found.looks)),
				      arena_alloc(&l->arena, (g->n + 1) * sizeof(*found.shaders)) };
	_cleanup_free_ size_t *of = mem_alloc(g->n * sizeof(*of) + 1);
	struct wave_party *parties = arena_alloc(&l->arena, (looked->judgements.len + 1) * sizeof(*parties));
	bool unknown = false;
	for (size_t i = 0; i < g->n; i++)
		found.where[i] = &nowhere;
	for (size_t k = 0; k < looked->judgements.len; k++) {
		const struct judgement *j = looked->judgements.data[k];
		size_t n = 0;
		for (size_t i = 0; i < g->n && j->party->waves; i++)
			if (wave_set_has(j->party->waves, &g->waves[i].slot))
				of[n++] = i;
		if (!n)
			continue;
		find_party_waves(l, g, j, of, n, &found);
		parties[seen->nparties++] = party_seen(l, g, j, judged);
		unknown |= !j->party->process && !j->code.guess && j->party->waves->of.me;
	}
	seen->where = found.where;
	seen->kernels = found.kernels;
	seen->looks = found.looks;
	seen->shaders = found.shaders;
	seen->parties = parties;
	if (unknown && l->at->options.ncode)
		look_tell(&l->at->teller,
			  arena_printf(&l->arena,
				       STR_FMT ": the process of these waves is unknown, and so is where their code was loaded",
				       STR_ARG(looked->device->pci)));
}

// --- all of it ---

static void tell_gpu(struct waves_look *l, struct gpu_waves *g)
{
	const struct teller *t = &l->at->teller;
	struct target *target = g->looked->target;
	const struct wave_spaces *s = &g->looked->spaces;
	look_tell(t, target->problems(target));
	for (size_t i = 0; i < s->list.len; i++) {
		const struct target_code *codes[] = { s->list.data[i]->process ? &s->list.data[i]->code : NULL,
						      s->list.data[i]->memory ? &s->list.data[i]->seen : NULL };
		for (size_t k = 0; k < ARRAY_SIZE(codes); k++)
			if (codes[k])
				look_tell_code(codes[k], t);
	}
}

static void look_at_waves(struct waves_look *l)
{
	const struct uh_look_options *o = &l->at->options;
	live_progress(&l->live, o, 0);
	if (o->looks) {
		sample_waves(l, o->looks);
	} else {
		silicon_round_look(&l->round, true);
	}
	live_progress(&l->live, o, l->live.n);
	silicon_round_judge(&l->round);
	for (size_t i = 0; i < l->round.n; i++) {
		struct gpu_waves *g = &l->gpus[i];
		const struct str pci = g->looked->device->pci, dark = xccs_without_waves(l, g);
		take_waves(l, g, &l->seen[i]);
		l->answered += !l->seen[i].why_not.n;
		if (l->seen[i].why_not.n)
			live_cannot(&l->failed, &l->at->teller, pci, "waves", l->seen[i].why_not);
		else if (dark.n)
			look_tell(&l->at->teller, arena_printf(&l->arena, STR_FMT ": " STR_FMT, STR_ARG(pci), STR_ARG(dark)));
		else if (g->stopped.n)
			look_tell(&l->at->teller, arena_printf(&l->arena, STR_FMT ": only one look was possible: " STR_FMT,
							       STR_ARG(pci), STR_ARG(g->stopped)));
		find_gpu_code(l, g, &l->seen[i], !o->looks);
	}
}

/** All GPUs are seen before any is written about. */
struct uh_error *live_waves(struct looking *at)
{
	struct waves_look l = { .at = at };
	const struct uh_look_options *o = &at->options;
	struct uh_error *err = live_find(at, "waves", false, &l.live);
	if (err) {
		live_free(&l.live);
		return err;
	}
	silicon_round_begin(&l.round, at->know, &l.live.found.devices, o->gpu ? str_z(o->gpu) : (struct str){ 0 });
	l.round.places.n = o->ncode;
	l.round.places.paths = o->code;
	l.gpus = arena_alloc(&l.arena, (l.round.n + 1) * sizeof(*l.gpus));
	l.seen = arena_alloc(&l.arena, (l.round.n + 1) * sizeof(*l.seen));
	for (size_t i = 0; i < l.round.n; i++) {
		struct target *t = l.round.gpus[i].target;
		l.gpus[i] = (struct gpu_waves){ .looked = &l.round.gpus[i],
						.look = { .know = at->know, .options = o, .out = at->out, .target = t } };
		t->all_registers = o->registers;
	}
	look_at_waves(&l);
	report_waves(l.seen, l.round.n, o, at->out);
	for (size_t i = 0; i < l.round.n; i++)
		tell_gpu(&l, &l.gpus[i]);
	err = live_could(l.failed, &at->teller, l.answered);
	live_tell_root(&l.live, &at->teller);
	waves_look_end(&l);
	return err;
}
