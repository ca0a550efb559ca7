// Registers of some waves at several looks: what changes in them tells a loop that counts from one that waits.
#include <stdlib.h>

#include "gpu/silicon/watch.h"

enum {
	GPR_WAVES = 2, // of a group whose registers are read
	GPR_GROUPS = 16,
	SGPRS_NAMED = 106, // behind these are VCC and registers of the hardware
	SIGN = 1u << 31,
};

static unsigned first_lane(const struct wave *w) { return w->exec ? (unsigned)__builtin_ctzll(w->exec) : 0; }

/** SGPRs, then the VGPRs of the first active lane. */
static void read_gprs(struct watch *w, const struct wave *wave)
{
	const size_t sgprs = wave->sgprs.count, vgprs = wave->no_vgprs ? 0 : wave->vgprs.count;
	const unsigned lane = first_lane(wave), lanes = wave->lanes;
	uint32_t *values = arena_alloc(&w->arena, (sgprs + vgprs + 1) * sizeof(*values));
	_cleanup_free_ uint32_t *all = mem_alloc(vgprs * lanes * sizeof(*all) + 1);
	if (!sgprs || !wave_registers(w->target, &wave->sgprs, 1, values))
		return;
	const bool vector = vgprs && lane < lanes && wave_registers(w->target, &wave->vgprs, lanes, all);
	for (size_t i = 0; vector && i < vgprs; i++)
		values[sgprs + i] = all[i * lanes + lane];
	vec_push(&w->gprs, ((struct gprs_seen){ wave->slot, wave->pc, lane, sgprs, vector ? vgprs : 0, values }));
}

void watch_read_gprs(struct watch *w)
{
	const struct wave_look *l = w->wave_looks ? &w->waves[w->wave_looks - 1] : NULL;
	for (size_t g = 0; l && g < w->ngroups && g < GPR_GROUPS; g++) {
		size_t taken = 0;
		for (size_t i = 0; i < l->n && taken < GPR_WAVES && !target_stuck(w->target); i++) {
			if (!wave_set_has(&w->groups[g], &l->waves[i].slot))
				continue;
			taken++;
			read_gprs(w, &l->waves[i]);
		}
	}
}

/** What a register did between the looks at any wave of a set. */
struct gpr_course {
	bool grew, fell;
};

/** Returns whether a register of the program's changed. */
static bool compare_pair(const struct gprs_seen *a, const struct gprs_seen *b, struct gpr_course *courses)
{
	bool changed = false;
	for (size_t i = 0; i < a->nsgprs + a->nvgprs; i++) {
		const uint32_t step = b->values[i] - a->values[i];
		courses[i].grew |= step && step < SIGN;
		courses[i].fell |= step >= SIGN;
		changed |= step && (i >= a->nsgprs || i < SGPRS_NAMED);
	}
	return changed;
}

/** The next look at the wave in the same slot, with as many registers; NULL: there is none. */
static const struct gprs_seen *seen_again(const struct watch *w, size_t index)
{
	const struct gprs_seen *a = &w->gprs.data[index];
	for (size_t k = index + 1; k < w->gprs.len; k++) {
		const struct gprs_seen *b = &w->gprs.data[k];
		if (wave_slots_equal(&a->slot, &b->slot) && a->lane == b->lane && a->nsgprs == b->nsgprs && a->nvgprs == b->nvgprs)
			return b;
	}
	return NULL;
}

/** Those that only grow or only fall stand first: one of them is the counter. */
static void note_changes(const struct gpr_course *courses, size_t nsgprs, size_t n, struct wave_state *ret)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i++) {
			const struct gpr_course *c = &courses[i];
			const bool vector = i >= nsgprs;
			if ((c->grew != c->fell) == pass || !(c->grew || c->fell))
				continue;
			if (vector)
				ret->vgprs = GPRS_CHANGE;
			else
				ret->sgprs = GPRS_CHANGE;
			if (ret->nchanges < WAVE_CHANGES && (vector || i < SGPRS_NAMED))
				ret->changes[ret->nchanges++] = (struct gpr_change){ .bank = vector ? 'v' : 's',
										     .number = (unsigned)(vector ? i - nsgprs : i),
										     .grows = c->grew && !c->fell,
										     .falls = c->fell && !c->grew };
		}
}

void watch_compare_gprs(const struct watch *w, const struct wave_set *g, struct wave_state *ret)
{
	size_t nsgprs = 0, n = 0;
	_cleanup_free_ struct gpr_course *courses = NULL;
	for (size_t i = 0; i < w->gprs.len; i++) {
		const struct gprs_seen *a = &w->gprs.data[i];
		const struct gprs_seen *b = wave_set_has(g, &a->slot) ? seen_again(w, i) : NULL;
		// Waves of one kernel have as many registers; another's are not held against them.
		if (!b || (courses && (a->nsgprs != nsgprs || a->nsgprs + a->nvgprs != n)))
			continue;
		nsgprs = a->nsgprs;
		n = a->nsgprs + a->nvgprs;
		if (!courses)
			courses = mem_alloc(n * sizeof(*courses));
		ret->sgprs = GPRS_STILL;
		ret->vgprs = a->nvgprs ? GPRS_STILL : GPRS_UNREAD;
		ret->stood_changing |= compare_pair(a, b, courses) && a->pc == b->pc;
	}
	if (courses)
		note_changes(courses, nsgprs, n, ret);
}
