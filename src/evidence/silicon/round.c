// Looks at the GPUs several times, and judges the parties on each by knowledge/silicon.know.
#include "evidence/silicon/round.h"

#include <stdlib.h>

#include "base/child.h"
#include "source/tape/tape.h"

enum {
	FIRST_LOOKS = 4, // of every GPU
	MORE_LOOKS = 6,  // of one that seems to be stuck
	FIRST_PAUSE_MS = 40,
	MORE_PAUSE_MS = 60,
	BUSY_LOAD = 90, // per cent
	LATE_MS = 3000, // after which a read that has not come back is not only late
	MS = 1000,
};

static struct tape *round_tape(const struct silicon_round *r) { return probe_tape(&r->devices->count); }

void silicon_round_begin(struct silicon_round *r, const struct know *k, const struct devices *d, struct str gpu)
{
	const struct device *only = gpu.n ? devices_named(d, gpu) : NULL;
	*r = (struct silicon_round){ .know = k, .devices = d };
	r->gpus = mem_alloc((d->n + 1) * sizeof(*r->gpus));
	for (size_t i = 0; i < d->n; i++) {
		if (gpu.n && only != &d->list[i])
			continue;
		struct silicon_looked *g = &r->gpus[r->n++];
		*g = (struct silicon_looked){ .device = &d->list[i] };
		g->target = target_device(k, g->device);
		watch_begin(&g->watch, k, g->target, g->device, g->device->gfx);
		g->spaces = (struct wave_spaces){ .know = k, .gpu = g->target, .places = &r->places, .clients = &r->queues.clients };
	}
	r->places.tape = round_tape(r);
}

void silicon_round_end(struct silicon_round *r)
{
	for (size_t i = 0; i < r->n; i++) {
		vec_free(&r->gpus[i].judgements);
		wave_spaces_free(&r->gpus[i].spaces);
		watch_end(&r->gpus[i].watch);
		target_close(r->gpus[i].target);
	}
	free(r->gpus);
	user_queues_free(&r->queues);
	arena_free(&r->arena);
}

/** Whether the GPU needs no further look. Shaders at work need one until their waves were seen, or work that they finished: of several
 * XCCs or programs, some may stand still while others work. */
static bool clearly_well(struct silicon_round *r, struct silicon_looked *g, bool waves_seen)
{
	_cleanup_arena_ struct arena a = { 0 };
	bool well = true, alone = g->watch.xccs == 1 && !parties_may_hide(&g->watch, &r->queues);
	for (unsigned xcc = 0; xcc < g->watch.xccs && well; xcc++) {
		struct party *parties;
		size_t n = parties_of(&a, &g->watch, &r->queues, xcc, &parties);
		for (size_t i = 0; i < n && well; i++) {
			struct verdict_facts f = { .arena = &a };
			const struct know_verdict *v[VERDICTS_MOST];
			verdict_facts_of(&f, &g->watch, &parties[i], &r->queues);
			int64_t load;
			const bool shaders = verdict_fact_is(&f, "busy", "SPI") ||
					     (str_number(verdict_fact(&f, "load"), &load) && load >= BUSY_LOAD);
			well = verdicts_of(r->know, &f, v) && (!v[0]->event.n || v[0]->well) && !v[0]->hint.n &&
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

static void look_at_all(struct silicon_round *r, size_t looks, int pause, bool suspects)
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
			tape_pause(round_tape(r), pause);
	}
}

static void silicon_look_at_waves(struct silicon_round *r, bool sample)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->gpus[i].suspect && may_look(&r->gpus[i]))
			watch_waves(&r->gpus[i].watch, sample ? WAVES_SAMPLE : WAVES_SUSPECT);
}

/** Looks several times. The pauses are not multiples of each other, since a wave in a loop may be back at the same place. */
static void look_at_some_waves(struct silicon_round *r)
{
	static const int pauses[] = { 3, 7, 11, 5, 13 };
	for (size_t look = 0; look < ARRAY_SIZE(pauses); look++) {
		for (size_t i = 0; i < r->n; i++)
			if (r->gpus[i].suspect && may_look(&r->gpus[i]))
				watch_some_waves(&r->gpus[i].watch);
		tape_pause(round_tape(r), pauses[look]);
	}
}

static void silicon_count_interrupts(struct silicon_round *r, bool first)
{
	const struct devices *d = r->devices;
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
static bool find_suspects(struct silicon_round *r, bool waves_seen)
{
	bool any = false;
	for (size_t i = 0; i < r->n; i++) {
		r->gpus[i].suspect = !clearly_well(r, &r->gpus[i], waves_seen);
		any |= r->gpus[i].suspect && may_look(&r->gpus[i]);
	}
	return any;
}

/** All waves of all GPUs: before anything else is read, and again at the end where there are any. What does not answer later takes nothing of
 * them away. */
static void look_at_every_wave(struct silicon_round *r, bool first)
{
	for (size_t i = 0; i < r->n; i++) {
		struct silicon_looked *g = &r->gpus[i];
		if (!may_look(g) || (!first && !watch_any_waves(&g->watch)))
			continue;
		if (first)
			g->watch.gate = target_gate(g->target);
		watch_waves(&g->watch, WAVES_ALL);
	}
}

/** Looks longer at those that the first looks do not show to be well. */
static void look_longer(struct silicon_round *r, bool all_waves)
{
	user_queues_place(&r->queues, r->know, r->devices);
	if (!all_waves)
		silicon_look_at_waves(r, true);
	look_at_some_waves(r);
	// A sample may miss the few waves of one among several.
	for (size_t i = 0; i < r->n; i++)
		r->gpus[i].suspect &= !watch_waves_at_work(&r->gpus[i].watch) || watch_ring_waits(&r->gpus[i].watch) ||
				      parties_may_hide(&r->gpus[i].watch, &r->queues);
	if (!all_waves)
		silicon_look_at_waves(r, false);
	look_at_all(r, MORE_LOOKS, MORE_PAUSE_MS, true);
	look_at_some_waves(r);
	silicon_count_interrupts(r, false);
	user_queues_look(&r->queues, r->know, r->devices);
	// What is said of all waves is said when all were seen again.
	if (find_suspects(r, true) && !all_waves)
		silicon_look_at_waves(r, false);
}

/** Late is not absent: what has not answered is given the rest of its time, and what came back by then was only late. A tape has how it
 * ended. Returns whether one may still come back. */
static bool wait_for_late(struct silicon_round *r, bool last)
{
	bool waits = false;
	for (size_t i = 0; i < r->n; i++) {
		struct watch *w = &r->gpus[i].watch;
		const struct probe_stuck *stuck = watch_stuck(w);
		if (!stuck)
			continue;
		_cleanup_arena_ struct arena a = { 0 };
		const int64_t waited = stuck->since ? now_ms() - stuck->since : 0;
		const bool back = probe_came_back(stuck);
		waits |= !back && waited && waited < LATE_MS;
		if (!last)
			continue;
		const int64_t told = tape_number(round_tape(r), arena_printf(&a, "late " STR_FMT, STR_ARG(w->device->pci)).p, back ? -1 - waited : waited);
		w->waited = told < 0 ? -1 - told : told;
		if (told >= -1)
			continue;
		w->late = arena_printf(&r->arena, STR_FMT " answered late, within %.1f s", STR_ARG(stuck->at), (double)w->waited / MS);
		if (!w->gate.open && !w->gate.off_bus)
			w->gate = (struct gate){ .why_not = w->late };
	}
	return waits;
}

static void wait_for_all_late(struct silicon_round *r)
{
	while (wait_for_late(r, false))
		tape_pause(round_tape(r), MORE_PAUSE_MS);
	wait_for_late(r, true);
}

/** A look at waves costs much: where nobody wants to see them, it is only made where the others do not show that all is well. */
void silicon_round_look(struct silicon_round *r, bool all_waves)
{
	user_queues_look(&r->queues, r->know, r->devices);
	if (all_waves)
		look_at_every_wave(r, true);
	silicon_count_interrupts(r, true);
	look_at_all(r, FIRST_LOOKS, FIRST_PAUSE_MS, false);
	silicon_count_interrupts(r, false);
	user_queues_look(&r->queues, r->know, r->devices);
	if (find_suspects(r, false))
		look_longer(r, all_waves);
	if (all_waves)
		look_at_every_wave(r, false);
	for (size_t i = 0; i < r->n && all_waves; i++)
		if (watch_any_waves(&r->gpus[i].watch))
			user_queues_place(&r->queues, r->know, r->devices);
	wait_for_all_late(r);
}

// --- judging ---

static void judge_by_facts(struct silicon_round *r, struct judgement *j)
{
	j->n = verdicts_of(r->know, &j->facts, j->verdicts);
	j->each = false;
	for (size_t v = 0; v < j->n; v++)
		j->each |= j->verdicts[v]->each_xcc;
}

static void judge_parties(struct silicon_round *r, struct silicon_looked *g)
{
	watch_close_looks(&g->watch);
	for (unsigned xcc = 0; xcc < g->watch.xccs; xcc++) {
		struct party *parties;
		size_t n = parties_of(&r->arena, &g->watch, &r->queues, xcc, &parties);
		for (size_t i = 0; i < n; i++) {
			struct judgement *j = arena_alloc(&r->arena, sizeof(*j));
			j->facts.arena = &r->arena;
			j->party = &parties[i];
			party_code_find(r, g, j->party, &j->code);
			verdict_facts_of(&j->facts, &g->watch, j->party, &r->queues);
			verdict_facts_code(&j->facts, &j->code);
			judge_by_facts(r, j);
			vec_push(&g->judgements, j);
		}
	}
}

void silicon_round_judge(struct silicon_round *r)
{
	for (size_t i = 0; i < r->n; i++)
		judge_parties(r, &r->gpus[i]);
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->gpus[i].judgements.len; k++)
			if (peers_add(r, &r->gpus[i], r->gpus[i].judgements.data[k]))
				judge_by_facts(r, r->gpus[i].judgements.data[k]);
}
