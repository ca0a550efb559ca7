// Which units of a GPU there are, and what the waves on each of them do.
#include "gpu/layout.h"
#include "gpu/silicon/watch.h"

/** <0: @a comes before @b, as units and slots are looked at. */
static int place_order(const struct wave_unit *a, const struct wave_unit *b)
{
	const unsigned x[] = { a->xcc, a->se, a->sh, a->cu }, y[] = { b->xcc, b->se, b->sh, b->cu };
	for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static struct wave_unit unit_of(const struct wave *w)
{
	return (struct wave_unit){ w->slot.xcc, w->slot.se, w->slot.sh, w->slot.cu, true };
}

static int slot_order(const struct wave *a, const struct wave *b)
{
	const struct wave_unit x = unit_of(a), y = unit_of(b);
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

static void add_wave(const struct watch *w, struct unit_seen *u, const struct wave *wave, bool moved)
{
	const struct wave_state *s = watch_state_of(w, &wave->slot);
	const bool barrier = wave->barrier_known && wave->in_barrier, caught = !barrier && (!moved || (s && s->loops));
	u->waves++;
	u->barrier += barrier;
	u->caught += caught;
	if (caught || u->waves == 1)
		u->pc = wave->pc;
}

/** KFD counts the units, too: where it counts others, a unit that is not there has answered as one without a wave. */
static bool all_found(const struct watch *w, const struct wave_look *l, bool wgp)
{
	int64_t there = 0;
	for (size_t i = 0; i < l->nunits; i++)
		there += l->units[i].there;
	const int64_t cus = there * (wgp ? 2 : 1);
	return !w->device->active_cus || (l->xccs ? cus <= w->device->active_cus : cus == w->device->active_cus);
}

size_t watch_units(const struct watch *w, struct arena *a, const struct unit_seen **ret)
{
	struct wave_words words;
	size_t at = w->wave_looks;
	while (at && w->waves[at - 1].slots)
		at--;
	const struct wave_look *l = at ? &w->waves[at - 1] : NULL;
	if (!l || w->waves_sampled || !l->nunits || !w->device || !wave_words_of(w->know, w->device->gfx, &words) ||
	    !all_found(w, l, words.wgp))
		return 0;
	struct unit_seen *units = arena_alloc(a, l->nunits * sizeof(*units));
	bool *moved = arena_alloc(a, l->n + 1);
	for (size_t i = 0; i < w->wave_looks; i++)
		mark_moved(l, &w->waves[i], moved);
	for (size_t i = 0; i < l->nunits; i++)
		units[i] = (struct unit_seen){ .at = l->units[i], .wgp = words.wgp };
	for (size_t i = 0, u = 0; i < l->n; i++) {
		const struct wave_unit of = unit_of(&l->waves[i]);
		while (u < l->nunits && place_order(&units[u].at, &of) < 0)
			u++;
		if (u < l->nunits && !place_order(&units[u].at, &of))
			add_wave(w, &units[u], &l->waves[i], moved[i]);
	}
	*ret = units;
	return l->nunits;
}
