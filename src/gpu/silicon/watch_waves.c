// Waves of a GPU that is looked at several times: whether they move, and how far.
#include <stdlib.h>

#include "gpu/layout.h"
#include "gpu/silicon/watch.h"

enum {
	LOOP_BYTES = 1024, // the longest loop in which waves are considered caught
	LOOPS_MOST = 4,    // waves caught in more loops than this are no hang but a program at work
	SAMPLE_UNITS = 2,  // units of each SH that are read first, to see whether the others are worth a look
	SAMPLE_WAVES = 16, // from this many waves of an XCC on, a sample says something about the others
	SOME = 32,         // waves of a group that are looked at again
	GROUPS_MOST = 64,  // further ones count for their XCC only
};

bool wave_slots_equal(const struct wave_slot *x, const struct wave_slot *y)
{
	return x->xcc == y->xcc && x->se == y->se && x->sh == y->sh && x->cu == y->cu && x->simd == y->simd &&
	       x->slot == y->slot;
}

/** Whether memory operations of a wave have not come back. */
static bool memory_open(const struct reg *reg, const struct wave *wave)
{
	if (!wave->layout)
		return false;
	for (size_t i = 0; i < wave->layout->nregisters; i++) {
		if (!str_is(wave->layout->registers[i], "ib_sts"))
			continue;
		for (size_t f = 0; f < reg->nfields; f++) {
			struct reg_field field = register_field(reg, f);
			bool counts = str_find(field.name, S("CNT")) >= 0 && str_find(field.name, S("EXP")) < 0;
			if (counts && field_of(&field, wave->hwregs[i]))
				return true;
		}
	}
	return false;
}

static bool covers(const struct wave_look *l, unsigned xcc) { return !l->xccs || l->xccs >> xcc & 1; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

bool wave_set_has(const struct wave_set *g, const struct wave_slot *s)
{
	const struct wave_slot *o = &g->of;
	return s->xcc == o->xcc &&
	       (g->whole || (s->vmid == o->vmid && s->me == o->me && s->pipe == o->pipe && s->queue == o->queue));
}

/** What a look shows against the first. Returns whether a wave was too far from where it had been to be in a loop. */
static bool compare_looks(const struct watch *w, const struct wave_set *g, const struct wave_look *l, struct wave_state *s)
{
	const struct wave_look *first = &w->waves[0];
	size_t before = 0, now = 0, moved = 0, came = 0, asked = 0;
	bool strayed = false;
	for (size_t i = 0; i < first->n; i++)
		before += wave_set_has(g, &first->waves[i].slot);
	for (size_t i = 0; i < l->n; i++) {
		const struct wave *wave = &l->waves[i], *old = NULL;
		if (!wave_set_has(g, &wave->slot))
			continue;
		// Both lists are in the order of slots; what is in the same slot mostly has the same place in them.
		for (size_t k = 0; k < first->n && !old; k++)
			if (wave_slots_equal(&first->waves[(i + k) % first->n].slot, &wave->slot))
				old = &first->waves[(i + k) % first->n];
		old = old && wave_set_has(g, &old->slot) ? old : NULL;
		now++;
		came += !old;
		moved += old && old->pc != wave->pc;
		strayed |= old && (old->pc > wave->pc ? old->pc - wave->pc : wave->pc - old->pc) > LOOP_BYTES;
	}
	for (size_t i = 0; i < l->nslots; i++)
		asked += wave_set_has(g, &l->slots[i]);
	size_t of = l->slots ? asked : before, stayed = now - came, changed = came + (of > stayed ? of - stayed : 0);
	of = larger(of, 1);
	before = larger(before, 1);
	s->changed = larger(s->changed, changed * before / of);
	s->moved = larger(s->moved, (moved + changed) * before / of);
	return strayed;
}

/** The pc at which most are. */
static uint64_t common_pc(uint64_t *pcs, size_t n)
{
	uint64_t best = 0;
	size_t most = 0;
	qsort(pcs, n, sizeof(*pcs), compare_numbers);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && pcs[end] == pcs[i]; end++)
			;
		if (end - i > most) {
			most = end - i;
			best = pcs[i];
		}
	}
	return best;
}

static bool waits_at_barrier(const struct wave *wave) { return wave->barrier_known && wave->in_barrier; }

/** In how many places, each no longer than a loop, the pcs are; and the size of that around @s->pc. Waves at a barrier only wait for those
 * that move, and do not count. */
static void count_loops(const struct watch *w, const struct wave_set *g, struct wave_state *s)
{
	size_t n = 0, all = 0;
	bool some = s->moved && s->barrier < s->count;
	for (size_t look = 0; look < w->wave_looks; look++)
		all += w->waves[look].n;
	_cleanup_free_ uint64_t *pcs = mem_alloc(all * sizeof(*pcs) + 1);
	for (size_t look = 0; look < w->wave_looks; look++)
		for (size_t i = 0; i < w->waves[look].n; i++)
			if (wave_set_has(g, &w->waves[look].waves[i].slot) &&
			    !(some && waits_at_barrier(&w->waves[look].waves[i])))
				pcs[n++] = w->waves[look].waves[i].pc;
	qsort(pcs, n, sizeof(*pcs), compare_numbers);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && pcs[end] - pcs[i] <= LOOP_BYTES; end++)
			;
		s->loops++;
		if (s->pc >= pcs[i] && s->pc <= pcs[end - 1])
			s->loop_bytes = pcs[end - 1] - pcs[i];
	}
}

const struct wave_look *watch_newest(const struct watch *w, unsigned xcc)
{
	size_t look = w->wave_looks - 1;
	while (look && (w->waves[look].slots || !covers(&w->waves[look], xcc)))
		look--;
	return &w->waves[look];
}

/** The pc at which most of those at a barrier are, or most of the others. *@ret_one is one of those. */
static uint64_t watch_waves_find_place(const struct watch *w, const struct wave_set *g, bool barrier,
				       const struct wave **ret_one)
{
	const struct wave_look *newest = watch_newest(w, g->of.xcc);
	_cleanup_free_ uint64_t *pcs = mem_alloc(newest->n * sizeof(*pcs) + 1);
	size_t n = 0;
	for (size_t i = 0; i < newest->n; i++)
		if (wave_set_has(g, &newest->waves[i].slot) && waits_at_barrier(&newest->waves[i]) == barrier)
			pcs[n++] = newest->waves[i].pc;
	uint64_t pc = common_pc(pcs, n);
	const struct wave *one = list_find(newest->waves, newest->n, it,
					   wave_set_has(g, &it->slot) && it->pc == pc && waits_at_barrier(it) == barrier);
	*ret_one = one ? one : *ret_one;
	return pc;
}

static struct wave_state set_state(const struct watch *w, const struct wave_set *g)
{
	struct wave_state s = { 0 };
	const struct wave_look *newest = watch_newest(w, g->of.xcc);
	unsigned v[3];
	struct reg counts; // the register that counts a wave's memory operations
	const struct register_table *t =
		gc_of_gfx(w->know, w->device->gfx, v) ? register_table_for(S("gc"), v[0], v[1], v[2], NULL) : NULL;
	const bool counted = t && register_find(t, S("SQ_WAVE_IB_STS"), &counts);
	_cleanup_free_ uint64_t *pcs = mem_alloc(newest->n * sizeof(*pcs) + 1);
	for (size_t i = 0; i < newest->n; i++) {
		const struct wave *wave = &newest->waves[i];
		if (!wave_set_has(g, &wave->slot))
			continue;
		s.count++;
		s.stop_reasons |= wave->stop_reasons;
		s.barrier += waits_at_barrier(wave);
		s.stopped += wave->stop_reasons != 0;
		s.halted += wave->halted || wave->stopped || wave->fatal_halt || wave->stop_reasons;
		s.memory += counted && memory_open(&counts, wave);
	}
	// Of waves with an exception the place is told where those are, not where others wait for them.
	const bool some_stopped = s.stopped && s.stopped < s.count;
	size_t n = 0;
	for (size_t i = 0; i < newest->n; i++)
		if (wave_set_has(g, &newest->waves[i].slot) && (!some_stopped || newest->waves[i].stop_reasons))
			pcs[n++] = newest->waves[i].pc;
	s.pc = common_pc(pcs, n);
	s.one = list_find(newest->waves, newest->n, it,
			  wave_set_has(g, &it->slot) && it->pc == s.pc && (!some_stopped || it->stop_reasons));
	if (s.barrier)
		s.barrier_pc = watch_waves_find_place(w, g, true, &s.barrier_one);
	watch_compare_gprs(w, g, &s);
	bool strayed = false;
	for (size_t look = 1; look < w->wave_looks; look++)
		if (covers(&w->waves[look], g->of.xcc))
			strayed |= compare_looks(w, g, &w->waves[look], &s);
	if (s.moved && s.barrier && s.barrier < s.count)
		s.pc = watch_waves_find_place(w, g, false, &s.one);
	count_loops(w, g, &s);
	// Waves that end make place for others: then the kernel gets on.
	if (strayed || s.loops > LOOPS_MOST || s.changed * 10 > s.count)
		s.loops = 0;
	return s;
}

/** The state of the waves of each XCC, and of each address space and queue that the newest look saw there. */
static void judge_groups(struct watch *w)
{
	w->xccs_waves = arena_alloc(&w->arena, w->xccs * sizeof(*w->xccs_waves));
	w->ngroups = 0;
	w->groups = arena_alloc(&w->arena, GROUPS_MOST * sizeof(*w->groups));
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		const struct wave_look *newest = watch_newest(w, xcc);
		w->xccs_waves[xcc] = (struct wave_set){ .whole = true, .of.xcc = xcc };
		w->xccs_waves[xcc].state = set_state(w, &w->xccs_waves[xcc]);
		for (size_t i = 0; i < newest->n; i++) {
			const struct wave_slot *s = &newest->waves[i].slot;
			if (s->xcc == xcc && w->ngroups < GROUPS_MOST &&
			    !list_find(w->groups, w->ngroups, it, wave_set_has(it, s)))
				w->groups[w->ngroups++] = (struct wave_set){ .of = *s };
		}
	}
	for (size_t g = 0; g < w->ngroups; g++)
		w->groups[g].state = set_state(w, &w->groups[g]);
}

static void watch_waves_look_at_waves(struct watch *w, struct request *r)
{
	if (w->wave_looks == WAVE_LOOKS_MOST || !w->gate.open || !w->device || target_ask(w->target, r) != ANSWER_GIVEN)
		return;
	// The list is the target's own and is made anew at the next look.
	const struct wave *copy = arena_copy(&w->arena, r->waves, r->n * sizeof(*copy));
	const size_t nunits = r->slots ? 0 : r->nfound;
	const struct wave_unit *units = arena_copy(&w->arena, r->found, nunits * sizeof(*units));
	w->waves[w->wave_looks++] = (struct wave_look){ r->n, r->nslots, copy, r->slots, r->xccs, units, nunits, r->xccs_seen };
	judge_groups(w);
	w->ended = watch_now(w);
}

/** Whether every group on the XCC goes about in its code. */
static bool all_at_work(const struct watch *w, unsigned xcc)
{
	return w->wave_looks && list_find(w->groups, w->ngroups, g, g->of.xcc == xcc) &&
	       !list_find(w->groups, w->ngroups, g, g->of.xcc == xcc && (!g->state.moved || g->state.loops));
}

void watch_waves(struct watch *w, enum waves_wanted wanted)
{
	const bool sample = wanted == WAVES_SAMPLE;
	struct request r = { .kind = REQUEST_WAVES, .units = sample ? SAMPLE_UNITS : 0 };
	if (w->waves_sampled)
		w->wave_looks = 0;
	w->waves_sampled = sample;
	const struct know_unit *spi = know_unit(w->know, S("SPI"));
	// XCCs that launch no waves are left out, and those whose waves moved around: each slot costs two operations there.
	for (unsigned xcc = 0; xcc < w->xccs && w->xccs > 1 && spi && wanted != WAVES_ALL; xcc++) {
		if (watch_unit(w, xcc, spi) != STEADY_CLEAR && !all_at_work(w, xcc) && !watch_block_ones(w, S("gc"), xcc))
			r.xccs |= UINT64_C(1) << xcc;
	}
	if (w->xccs > 1 && !r.xccs && wanted != WAVES_ALL)
		r.xccs = 1;
	size_t before = w->wave_looks;
	watch_waves_look_at_waves(w, &r);
	if (!sample && w->wave_looks > before) {
		watch_read_gprs(w);
		judge_groups(w);
	}
}

void watch_some_waves(struct watch *w)
{
	const struct wave_look *first = &w->waves[0];
	if (!w->wave_looks || !first->n)
		return;
	struct wave_slot *slots = arena_alloc(&w->arena, (w->ngroups + 1) * SOME * sizeof(*slots));
	size_t n = 0;
	for (size_t g = 0; g < w->ngroups; g++) {
		size_t all = 0, seen = 0, taken = 0;
		for (size_t i = 0; i < first->n; i++)
			all += wave_set_has(&w->groups[g], &first->waves[i].slot);
		// Evenly over all of them.
		for (size_t i = 0; i < first->n; i++)
			if (wave_set_has(&w->groups[g], &first->waves[i].slot) && seen++ * SOME >= taken * all &&
			    taken < SOME) {
				slots[n++] = first->waves[i].slot;
				taken++;
			}
	}
	if (!n)
		return;
	struct request r = { .kind = REQUEST_WAVES, .slots = slots, .nslots = n };
	watch_waves_look_at_waves(w, &r);
}

const struct wave_look *watch_last(const struct watch *w)
{
	size_t at = w->wave_looks;
	while (at && w->waves[at - 1].slots)
		at--;
	return at ? &w->waves[at - 1] : NULL;
}

bool watch_is_last(const struct watch *w, unsigned xcc) { return watch_last(w) && watch_last(w) == watch_newest(w, xcc); }

void watch_set_waits(struct watch *w, const struct wave_set *g, enum wave_waits waits)
{
	w->groups[g - w->groups].state.waits = waits;
}

const struct wave_state *watch_wave_state(const struct watch *w, unsigned xcc)
{
	return w->wave_looks && xcc < w->xccs ? &w->xccs_waves[xcc].state : NULL;
}

const struct wave_state *watch_state_of(const struct watch *w, const struct wave_slot *s)
{
	const struct wave_set *g = w->wave_looks ? list_find(w->groups, w->ngroups, it, wave_set_has(it, s)) : NULL;
	return g ? &g->state : watch_wave_state(w, s->xcc);
}

bool watch_waves_at_work(const struct watch *w)
{
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		const struct wave_state *s = watch_wave_state(w, xcc);
		const struct know_unit *spi = know_unit(w->know, S("SPI"));
		if (!s || (!s->count && !(spi && watch_unit(w, xcc, spi) == STEADY_CLEAR)))
			return false;
	}
	return w->ngroups && !list_find(w->groups, w->ngroups, g,
					g->state.count < SAMPLE_WAVES || g->state.moved * 2 < g->state.count || g->state.loops);
}

// --- which units of a GPU there are, and what the waves on each of them do ---

/** <0: @a comes before @b, as units and slots are looked at. */
static int place_order(const struct wave_unit *a, const struct wave_unit *b)
{
	const unsigned x[] = { a->xcc, a->se, a->sh, a->cu }, y[] = { b->xcc, b->se, b->sh, b->cu };
	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static struct wave_unit watch_waves_unit_of(const struct wave *w)
{
	return (struct wave_unit){ w->slot.xcc, w->slot.se, w->slot.sh, w->slot.cu, true };
}

static int slot_order(const struct wave *a, const struct wave *b)
{
	const struct wave_unit x = watch_waves_unit_of(a), y = watch_waves_unit_of(b);
	const int order = place_order(&x, &y);
	if (order)
		return order;
	if (a->slot.simd != b->slot.simd)
		return a->slot.simd < b->slot.simd ? -1 : 1;
	return a->slot.slot < b->slot.slot ? -1 : a->slot.slot > b->slot.slot;
}

/** Marks those of @now that were at another pc in @before. Both are in the order of slots. */
static void mark_moved(const struct wave_look *now, const struct wave_look *before, bool *moved)
{
	for (size_t i = 0, k = 0; i < now->n && k < before->n;) {
		const int order = slot_order(&now->waves[i], &before->waves[k]);
		if (!order)
			moved[i] |= now->waves[i].pc != before->waves[k].pc;
		i += order <= 0;
		k += order >= 0;
	}
}

bool watch_any_waves(const struct watch *w)
{
	const struct wave_look *l = watch_last(w);
	return l && l->n;
}

static int compare_slots(const void *a, const void *b) { return slot_order(a, b); }

/** The wave in a slot; NULL: there is none. */
static const struct wave *wave_in(const struct wave_look *l, const struct wave_slot *s)
{
	const struct wave key = { .slot = *s };
	return l->n ? bsearch(&key, l->waves, l->n, sizeof(key), compare_slots) : NULL;
}

const bool *watch_moved(const struct watch *w, struct arena *a)
{
	const struct wave_look *now = watch_last(w);
	bool *moved = arena_alloc(a, (now ? now->n : 0) + 1);
	if (!now || (w->wave_looks < 2 && now->n))
		return NULL;
	for (size_t look = 0; look < w->wave_looks; look++) {
		const struct wave_look *l = &w->waves[look];
		for (size_t i = 0; i < now->n && l != now && !l->slots; i++) {
			const struct wave *then =
				covers(l, now->waves[i].slot.xcc) ? wave_in(l, &now->waves[i].slot) : &now->waves[i];
			moved[i] |= !then || then->pc != now->waves[i].pc;
		}
		for (size_t i = 0; i < l->nslots && l->slots; i++) {
			const struct wave *here = wave_in(now, &l->slots[i]);
			const struct wave *then = list_find(l->waves, l->n, it, wave_slots_equal(&it->slot, &l->slots[i]));
			if (here)
				moved[here - now->waves] |= !then || then->pc != here->pc;
		}
	}
	return moved;
}

size_t watch_units(const struct watch *w, struct arena *a, const struct unit_seen **ret)
{
	struct wave_words words;
	const struct wave_look *l = watch_last(w);
	if (!l || w->waves_sampled || !l->nunits || !w->device || !wave_words_of(w->know, w->device->gfx, &words))
		return 0;
	// KFD counts the units, too: where it counts others, a unit that is not there has answered as one without a wave.
	int64_t cus = 0, active = w->device->active_cus;
	for (size_t i = 0; i < l->nunits; i++)
		cus += l->units[i].there ? 1 + words.wgp : 0;
	if (active && (l->xccs ? cus > active : cus != active))
		return 0;
	struct unit_seen *units = arena_alloc(a, l->nunits * sizeof(*units));
	bool *moved = arena_alloc(a, l->n + 1);
	for (size_t i = 0; i < w->wave_looks; i++)
		mark_moved(l, &w->waves[i], moved);
	for (size_t i = 0; i < l->nunits; i++)
		units[i] = (struct unit_seen){ .at = l->units[i], .wgp = words.wgp };
	for (size_t i = 0, u = 0; i < l->n; i++) {
		const struct wave_unit of = watch_waves_unit_of(&l->waves[i]);
		while (u < l->nunits && place_order(&units[u].at, &of) < 0)
			u++;
		if (u < l->nunits && !place_order(&units[u].at, &of)) {
			const struct wave_state *s = watch_state_of(w, &l->waves[i].slot);
			const bool barrier = waits_at_barrier(&l->waves[i]),
				   caught = !barrier && (!moved[i] || (s && s->loops));
			units[u].waves++;
			units[u].barrier += barrier;
			units[u].caught += caught;
			if (caught || units[u].waves == 1)
				units[u].pc = l->waves[i].pc;
		}
	}
	*ret = units;
	return l->nunits;
}
