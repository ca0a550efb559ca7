// Registers of a wave by name, whatever they came from, and waves that people look at as one group.
#include "gpu/wave.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/layout.h"

enum { REGISTERS_MOST = 1024 }; // of a bank

void wave_register_add(struct register_set *to, struct wave_register r)
{
	struct str digits = str_from(r.name, 1);
	int64_t number;
	if (digits.n && memchr("sva", r.name.p[0], 3) && (digits.n == 1 || digits.p[0] != '0') && str_number(digits, &number) &&
	    number >= 0 && number < REGISTERS_MOST) {
		r.bank = r.name.p[0];
		r.number = (unsigned)number;
	}
	vec_push(to, r);
}

const struct wave_register *wave_register_at(const struct register_set *s, char bank, unsigned number)
{
	return list_find(s->data, s->len, it, it->bank == bank && it->number == number);
}

const struct wave_register *wave_register_named(const struct register_set *s, struct str name)
{
	return list_find(s->data, s->len, it, str_eq(it->name, name));
}

uint64_t *wave_register_lanes(struct arena *a)
{
	uint64_t *lanes = arena_alloc(a, WAVE_LANES * sizeof(*lanes));
	for (size_t i = 0; i < WAVE_LANES; i++)
		lanes[i] = UINT64_MAX;
	return lanes;
}

// --- of a target's wave ---

/** @b's registers of @lanes lanes each: s0, v0, a0, ... */
static void add_block(struct target *t, struct arena *a, struct register_set *to, char bank, const struct wave_block *b,
		      unsigned lanes)
{
	size_t words = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *raw = mem_alloc(words * sizeof(*raw) + 1);
	if (!words || !wave_registers(t, b, lanes, raw))
		return;
	uint64_t *data = arena_alloc(a, words * sizeof(*data));
	for (size_t i = 0; i < words; i++)
		data[i] = raw[i];
	for (unsigned k = 0; k < b->count; k++)
		wave_register_add(to, (struct wave_register){ .group = bank == 's' ? S("scalar") : S("vector"),
							      .name = arena_printf(a, "%c%u", bank, k),
							      .digits = 8,
							      .n = lanes,
							      .data = data + (size_t)k * lanes });
}

static void wave_add_named(struct arena *a, struct register_set *to, struct str name, unsigned digits, uint64_t value)
{
	uint64_t *data = arena_alloc(a, sizeof(*data));
	*data = value;
	wave_register_add(to,
			  (struct wave_register){ .group = S("system"), .name = name, .digits = digits, .n = 1, .data = data });
}

void wave_read_registers(struct target *t, struct arena *a, struct wave *w)
{
	struct register_set *ret = &w->registers;
	const struct wave_layout *l = w->layout;
	uint64_t named = l->numbers[NUMBER_SGPRS_NAMED] < w->sgprs.count ? l->numbers[NUMBER_SGPRS_NAMED] : w->sgprs.count;
	uint32_t vcc[2];
	wave_add_named(a, ret, S("pc"), 16, w->pc);
	wave_add_named(a, ret, S("exec"), w->lanes / 4, w->exec);
	for (size_t i = 0; i < l->nregisters; i++)
		wave_add_named(a, ret, l->registers[i], 8, w->hwregs[i]);
	struct wave_block last = { .address = w->sgprs.address + 4 * (named - 2), .count = 2, .wave = w->sgprs.wave };
	if (named >= 2 && wave_registers(t, &last, 1, vcc))
		wave_add_named(a, ret, S("vcc"), 16, vcc[0] | (uint64_t)vcc[1] << 32);
	add_block(t, a, ret, 's', &w->sgprs, 1);
	if (!w->no_vgprs)
		add_block(t, a, ret, 'v', &w->vgprs, w->lanes);
	add_block(t, a, ret, 'a', &w->acc_vgprs, w->lanes);
}

struct sorting {
	const struct wave *waves;
	const struct str *kernels;
};

/** Of waves on the GPU; those that were saved differ in why they stopped. */
static unsigned wave_state_of(const struct wave *w)
{
	if (!w->slot.known)
		return 0;
	return w->halted | w->in_barrier << 1 | w->in_trap << 2 | w->trap_pending << 3 | w->idle << 4;
}

static int compare_waves(const struct sorting *s, size_t i, size_t k)
{
	const struct wave *x = &s->waves[i], *y = &s->waves[k];
	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	if (x->stop_reasons != y->stop_reasons)
		return x->stop_reasons < y->stop_reasons ? -1 : 1;
	if (x->stopped != y->stopped)
		return x->stopped ? -1 : 1;
	if (wave_state_of(x) != wave_state_of(y))
		return wave_state_of(x) < wave_state_of(y) ? -1 : 1;
	return str_cmp(s->kernels[i], s->kernels[k]);
}

static int wave_by_place(const void *a, const void *b, void *ctx)
{
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	int order = compare_waves(ctx, i, k);
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

static int wave_by_weight(const void *a, const void *b, void *ctx)
{
	const struct wave_group *x = a, *y = b;
	const struct wave *waves = ((const struct sorting *)ctx)->waves;
	return compare_weights((struct weight){ waves[x->first].stop_reasons, x->count, x->first },
			       (struct weight){ waves[y->first].stop_reasons, y->count, y->first });
}

size_t wave_groups(const struct wave *waves, const struct str *kernels, size_t n, struct wave_group *ret)
{
	struct sorting s = { waves, kernels };
	_cleanup_free_ size_t *order = mem_alloc(n * sizeof(*order) + 1);
	size_t groups = 0;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), wave_by_place, &s);
	for (size_t i = 0; i < n; i++) {
		if (!i || compare_waves(&s, order[i - 1], order[i]))
			ret[groups++] = (struct wave_group){ order[i], 0 };
		ret[groups - 1].count++;
	}
	qsort_r(ret, groups, sizeof(*ret), wave_by_weight, &s);
	return groups;
}

// --- of texts ---

struct wave_place *wave_place_of(const struct wave_places *p, const struct wave *w)
{
	return list_find(p->data, p->len, it,
			 it->first->pc == w->pc && str_eq(it->first->reason, w->reason) &&
				 str_eq(it->first->kernel, w->kernel) && str_eq(it->first->source, w->source));
}

static int places_by_weight(const void *a, const void *b)
{
	const struct wave_place *x = a, *y = b;
	return compare_weights((struct weight){ x->first->reason.n, x->count, x->first->id },
			       (struct weight){ y->first->reason.n, y->count, y->first->id });
}

void wave_places_sort(struct wave_places *p)
{
	if (p->len)
		qsort(p->data, p->len, sizeof(p->data[0]), places_by_weight);
}
