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
	SGPR_WAVES = 2,    // of a group whose SGPRs are read
	SGPR_GROUPS = 16,
};

static bool slots_equal(const struct wave_slot *x, const struct wave_slot *y)
{
	return x->xcc == y->xcc && x->se == y->se && x->sh == y->sh && x->cu == y->cu && x->simd == y->simd &&
	       x->slot == y->slot;
}

/** Both lists are in the order of slots; what is in the same slot mostly has the same place in them. */
static const struct wave *in_slot(const struct wave *list, size_t n, size_t near, const struct wave *wave)
{
	for (size_t i = 0; i < n; i++) {
		const struct wave *other = &list[(near + i) % n];
		if (slots_equal(&other->slot, &wave->slot))
			return other;
	}
	return NULL;
}

/** The register that counts a wave's memory operations. */
static bool counting_register(const struct watch *w, struct reg *ret)
{
	unsigned version[3];
	const struct register_table *t = gc_of_gfx(w->know, w->device->gfx, version) ?
						 register_table_for(S("gc"), version[0], version[1], version[2], NULL) :
						 NULL;
	return t && register_find(t, S("SQ_WAVE_IB_STS"), ret);
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

static bool belongs(const struct wave_set *g, const struct wave_slot *s)
{
	const struct wave_slot *o = &g->of;
	return s->xcc == o->xcc &&
	       (g->whole || (s->vmid == o->vmid && s->me == o->me && s->pipe == o->pipe && s->queue == o->queue));
}

/** How many of them a look covered. */
static size_t looked_at(const struct wave_look *l, const struct wave_set *g, size_t before)
{
	size_t n = 0;
	for (size_t i = 0; i < l->nslots; i++)
		n += belongs(g, &l->slots[i]);
	return l->slots ? n : before;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/** What a look shows against the first. Returns whether a wave was too far from where it had been to be in a loop. */
static bool compare_looks(const struct watch *w, const struct wave_set *g, const struct wave_look *l, struct wave_state *s)
{
	const struct wave_look *first = &w->waves[0];
	size_t before = 0, now = 0, moved = 0, came = 0;
	bool strayed = false;
	for (size_t i = 0; i < first->n; i++)
		before += belongs(g, &first->waves[i].slot);
	for (size_t i = 0; i < l->n; i++) {
		const struct wave *wave = &l->waves[i];
		if (!belongs(g, &wave->slot))
			continue;
		const struct wave *old = in_slot(first->waves, first->n, i, wave);
		old = old && belongs(g, &old->slot) ? old : NULL;
		now++;
		came += !old;
		moved += old && old->pc != wave->pc;
		strayed |= old && (old->pc > wave->pc ? old->pc - wave->pc : wave->pc - old->pc) > LOOP_BYTES;
	}
	size_t of = looked_at(l, g, before), stayed = now - came, changed = came + (of > stayed ? of - stayed : 0);
	of = larger(of, 1);
	before = larger(before, 1);
	s->changed = larger(s->changed, changed * before / of);
	s->moved = larger(s->moved, (moved + changed) * before / of);
	return strayed;
}

static int compare_pcs(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/** The pc at which most are. */
static uint64_t common_pc(uint64_t *pcs, size_t n)
{
	uint64_t best = 0;
	size_t most = 0;
	qsort(pcs, n, sizeof(*pcs), compare_pcs);
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
	uint64_t *pcs = mem_alloc(all * sizeof(*pcs) + 1);
	for (size_t look = 0; look < w->wave_looks; look++)
		for (size_t i = 0; i < w->waves[look].n; i++)
			if (belongs(g, &w->waves[look].waves[i].slot) && !(some && waits_at_barrier(&w->waves[look].waves[i])))
				pcs[n++] = w->waves[look].waves[i].pc;
	qsort(pcs, n, sizeof(*pcs), compare_pcs);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && pcs[end] - pcs[i] <= LOOP_BYTES; end++)
			;
		s->loops++;
		if (s->pc >= pcs[i] && s->pc <= pcs[end - 1])
			s->loop_bytes = pcs[end - 1] - pcs[i];
	}
	free(pcs);
}

static const struct wave_look *newest_of_all(const struct watch *w, unsigned xcc)
{
	size_t look = w->wave_looks - 1;
	while (look && (w->waves[look].slots || !covers(&w->waves[look], xcc)))
		look--;
	return &w->waves[look];
}

/** The pc at which most of those at a barrier are, or most of the others. *@ret_one is one of those. */
static uint64_t find_place(const struct watch *w, const struct wave_set *g, bool barrier, const struct wave **ret_one)
{
	const struct wave_look *newest = newest_of_all(w, g->of.xcc);
	uint64_t *pcs = mem_alloc(newest->n * sizeof(*pcs) + 1);
	size_t n = 0;
	for (size_t i = 0; i < newest->n; i++)
		if (belongs(g, &newest->waves[i].slot) && waits_at_barrier(&newest->waves[i]) == barrier)
			pcs[n++] = newest->waves[i].pc;
	uint64_t pc = common_pc(pcs, n);
	for (size_t i = 0; i < newest->n; i++)
		if (belongs(g, &newest->waves[i].slot) && newest->waves[i].pc == pc &&
		    waits_at_barrier(&newest->waves[i]) == barrier) {
			*ret_one = &newest->waves[i];
			break;
		}
	free(pcs);
	return pc;
}

static void judge_moves(const struct watch *w, const struct wave_set *g, struct wave_state *s)
{
	bool strayed = false;
	for (size_t look = 1; look < w->wave_looks; look++)
		if (covers(&w->waves[look], g->of.xcc))
			strayed |= compare_looks(w, g, &w->waves[look], s);
	if (s->moved && s->barrier && s->barrier < s->count)
		s->pc = find_place(w, g, false, &s->one);
	count_loops(w, g, s);
	// Waves that end make place for others: then the kernel gets on.
	if (strayed || s->loops > LOOPS_MOST || s->changed * 10 > s->count)
		s->loops = 0;
}

/** Whether SGPRs of its waves were other ones at another look: a loop that counts has its counter there, one that waits has none. */
static enum sgprs_seen compare_sgprs(const struct watch *w, const struct wave_set *g)
{
	enum sgprs_seen seen = SGPRS_UNREAD;
	for (size_t i = 0; i < w->sgprs.len; i++) {
		const struct sgprs_read *a = &w->sgprs.data[i];
		for (size_t k = i + 1; k < w->sgprs.len && belongs(g, &a->slot); k++) {
			const struct sgprs_read *b = &w->sgprs.data[k];
			if (!slots_equal(&a->slot, &b->slot) || !belongs(g, &b->slot) || a->n != b->n)
				continue;
			if (memcmp(a->values, b->values, a->n * sizeof(*a->values)) != 0)
				return SGPRS_CHANGE;
			seen = SGPRS_STILL;
		}
	}
	return seen;
}

static struct wave_state state_of(const struct watch *w, const struct wave_set *g)
{
	struct wave_state s = { .sgprs = compare_sgprs(w, g) };
	const struct wave_look *newest = newest_of_all(w, g->of.xcc);
	struct reg counts;
	bool counted = counting_register(w, &counts);
	uint64_t *pcs = mem_alloc(newest->n * sizeof(*pcs) + 1);
	for (size_t i = 0; i < newest->n; i++) {
		const struct wave *wave = &newest->waves[i];
		if (!belongs(g, &wave->slot))
			continue;
		pcs[s.count++] = wave->pc;
		s.stop_reasons |= wave->stop_reasons;
		s.barrier += waits_at_barrier(wave);
		s.halted += wave->halted || wave->stopped || wave->fatal_halt || wave->stop_reasons;
		s.memory += counted && memory_open(&counts, wave);
	}
	s.pc = common_pc(pcs, s.count);
	for (size_t i = 0; i < newest->n && !s.one; i++)
		if (belongs(g, &newest->waves[i].slot) && newest->waves[i].pc == s.pc)
			s.one = &newest->waves[i];
	if (s.barrier)
		s.barrier_pc = find_place(w, g, true, &s.barrier_one);
	judge_moves(w, g, &s);
	free(pcs);
	return s;
}

/** Each address space and queue that the newest look saw on an XCC. */
static void find_groups(struct watch *w)
{
	w->ngroups = 0;
	w->groups = arena_alloc(&w->arena, GROUPS_MOST * sizeof(*w->groups));
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		const struct wave_look *newest = newest_of_all(w, xcc);
		for (size_t i = 0; i < newest->n; i++) {
			const struct wave_slot *s = &newest->waves[i].slot;
			bool known = s->xcc != xcc;
			for (size_t g = 0; g < w->ngroups && !known; g++)
				known = belongs(&w->groups[g], s);
			if (!known && w->ngroups < GROUPS_MOST)
				w->groups[w->ngroups++] = (struct wave_set){ .of = *s };
		}
	}
}

static void judge_groups(struct watch *w)
{
	w->xccs_waves = arena_alloc(&w->arena, w->xccs * sizeof(*w->xccs_waves));
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		w->xccs_waves[xcc] = (struct wave_set){ .whole = true, .of.xcc = xcc };
		w->xccs_waves[xcc].state = state_of(w, &w->xccs_waves[xcc]);
	}
	find_groups(w);
	for (size_t g = 0; g < w->ngroups; g++)
		w->groups[g].state = state_of(w, &w->groups[g]);
}

/** Reads SGPRs of some waves of each group of the look at all that was just made. */
static void read_sgprs(struct watch *w)
{
	const struct wave_look *l = w->wave_looks ? &w->waves[w->wave_looks - 1] : NULL;
	for (size_t g = 0; l && g < w->ngroups && g < SGPR_GROUPS; g++) {
		size_t taken = 0;
		for (size_t i = 0; i < l->n && taken < SGPR_WAVES && !target_stuck(w->target); i++) {
			const struct wave_block *b = &l->waves[i].sgprs;
			uint32_t *values = arena_alloc(&w->arena, (b->count + 1) * sizeof(*values));
			if (!belongs(&w->groups[g], &l->waves[i].slot))
				continue;
			taken++;
			if (b->count && wave_registers(w->target, b, 1, values))
				vec_push(&w->sgprs, ((struct sgprs_read){ l->waves[i].slot, b->count, values }));
		}
	}
}

static void look(struct watch *w, struct request *r)
{
	if (w->wave_looks == WAVE_LOOKS_MOST || !w->gate.open || !w->device)
		return;
	if (target_ask(w->target, r) != ANSWER_GIVEN)
		return;
	// The list is the target's own and is made anew at the next look.
	const struct wave *copy = arena_copy(&w->arena, r->waves, r->n * sizeof(*copy));
	const struct wave_unit *units = arena_copy(&w->arena, r->found, r->nfound * sizeof(*units));
	w->waves[w->wave_looks++] = (struct wave_look){ r->n, r->nslots, copy, r->slots, r->xccs, units, r->nfound };
	judge_groups(w);
	w->ended = watch_now(w);
}

/** Whether every group on the XCC goes about in its code. */
static bool all_at_work(const struct watch *w, unsigned xcc)
{
	bool any = false;
	for (size_t g = 0; w->wave_looks && g < w->ngroups; g++) {
		const struct wave_state *s = &w->groups[g].state;
		if (w->groups[g].of.xcc == xcc && (!s->moved || s->loops))
			return false;
		any |= w->groups[g].of.xcc == xcc;
	}
	return any;
}

void watch_waves(struct watch *w, bool sample)
{
	struct request r = { .kind = REQUEST_WAVES, .units = sample ? SAMPLE_UNITS : 0 };
	if (w->waves_sampled)
		w->wave_looks = 0;
	w->waves_sampled = sample;
	const struct know_unit *spi = know_unit(w->know, S("SPI"));
	// XCCs that launch no waves are left out, and those whose waves moved around: each slot costs two operations there.
	for (unsigned xcc = 0; xcc < w->xccs && w->xccs > 1 && spi; xcc++) {
		if (watch_unit(w, xcc, spi) != STEADY_CLEAR && !all_at_work(w, xcc) && !watch_block_ones(w, S("gc"), xcc))
			r.xccs |= UINT64_C(1) << xcc;
	}
	if (w->xccs > 1 && !r.xccs)
		r.xccs = 1;
	size_t before = w->wave_looks;
	look(w, &r);
	if (!sample && w->wave_looks > before) {
		read_sgprs(w);
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
			all += belongs(&w->groups[g], &first->waves[i].slot);
		// Evenly over all of them.
		for (size_t i = 0; i < first->n; i++)
			if (belongs(&w->groups[g], &first->waves[i].slot) && seen++ * SOME >= taken * all && taken < SOME) {
				slots[n++] = first->waves[i].slot;
				taken++;
			}
	}
	if (!n)
		return;
	struct request r = { .kind = REQUEST_WAVES, .slots = slots, .nslots = n };
	look(w, &r);
}

const struct wave_state *watch_wave_state(const struct watch *w, unsigned xcc)
{
	return w->wave_looks && xcc < w->xccs ? &w->xccs_waves[xcc].state : NULL;
}

const struct wave_state *watch_state_of(const struct watch *w, const struct wave_slot *s)
{
	for (size_t g = 0; w->wave_looks && g < w->ngroups; g++)
		if (belongs(&w->groups[g], s))
			return &w->groups[g].state;
	return watch_wave_state(w, s->xcc);
}

bool watch_waves_at_work(const struct watch *w)
{
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		const struct wave_state *s = watch_wave_state(w, xcc);
		const struct know_unit *spi = know_unit(w->know, S("SPI"));
		if (!s || (!s->count && !(spi && watch_unit(w, xcc, spi) == STEADY_CLEAR)))
			return false;
	}
	for (size_t g = 0; g < w->ngroups; g++) {
		const struct wave_state *s = &w->groups[g].state;
		if (s->count < SAMPLE_WAVES || s->moved * 2 < s->count || s->loops)
			return false;
	}
	return w->ngroups;
}
