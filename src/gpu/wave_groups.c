#include "gpu/wave_groups.h"

#include <stdlib.h>

#include "base/cleanup.h"

struct sorting {
	const struct wave *waves;
	const struct str *kernels;
};

/** Of waves on the GPU; those that were saved differ in why they stopped. */
static unsigned state_of(const struct wave *w)
{
	if (!w->slot.known)
		return 0;
	return w->halted | w->in_barrier << 1 | w->in_trap << 2 | w->trap_pending << 3 | w->idle << 4;
}

static int compare(const struct sorting *s, size_t i, size_t k)
{
	const struct wave *x = &s->waves[i], *y = &s->waves[k];
	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	if (x->stop_reasons != y->stop_reasons)
		return x->stop_reasons < y->stop_reasons ? -1 : 1;
	if (x->stopped != y->stopped)
		return x->stopped ? -1 : 1;
	if (state_of(x) != state_of(y))
		return state_of(x) < state_of(y) ? -1 : 1;
	return str_cmp(s->kernels[i], s->kernels[k]);
}

static int by_place(const void *a, const void *b, void *ctx)
{
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	int order = compare(ctx, i, k);
	return order ? order : i < k ? -1 : i > k;
}

/** What people want to see first. */
struct weight {
	bool stopped;
	size_t count, first;
};

static int compare_weights(struct weight x, struct weight y)
{
	if (x.stopped != y.stopped)
		return x.stopped ? -1 : 1;
	if (x.count != y.count)
		return x.count > y.count ? -1 : 1;
	return x.first < y.first ? -1 : x.first > y.first;
}

static struct weight group_weight(const struct sorting *s, const struct wave_group *g)
{
	return (struct weight){ s->waves[g->first].stop_reasons, g->count, g->first };
}

static int by_weight(const void *a, const void *b, void *ctx)
{
	return compare_weights(group_weight(ctx, a), group_weight(ctx, b));
}

size_t wave_groups(const struct wave *waves, const struct str *kernels, size_t n, struct wave_group *ret)
{
	struct sorting s = { waves, kernels };
	_cleanup_free_ size_t *order = mem_alloc(n * sizeof(*order) + 1);
	size_t groups = 0;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_place, &s);
	for (size_t i = 0; i < n; i++) {
		if (!i || compare(&s, order[i - 1], order[i]))
			ret[groups++] = (struct wave_group){ order[i], 0 };
		ret[groups - 1].count++;
	}
	qsort_r(ret, groups, sizeof(*ret), by_weight, &s);
	return groups;
}

// --- of texts ---

struct wave_place *wave_place_of(const struct wave_places *p, const struct wave *w)
{
	for (size_t i = 0; i < p->len; i++) {
		const struct wave *f = p->data[i].first;
		if (f->pc == w->pc && str_eq(f->reason, w->reason) && str_eq(f->kernel, w->kernel) &&
		    str_eq(f->source, w->source))
			return &p->data[i];
	}
	return NULL;
}

static struct weight place_weight(const struct wave_place *p)
{
	return (struct weight){ p->first->reason.n, p->count, p->first->id };
}

static int places_by_weight(const void *a, const void *b) { return compare_weights(place_weight(a), place_weight(b)); }

void wave_places_sort(struct wave_places *p)
{
	if (p->len)
		qsort(p->data, p->len, sizeof(p->data[0]), places_by_weight);
}
