#include "evidence/wave_values.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/layout.h"

static struct values *next_value(struct values *v, size_t *n, const char *group, struct str name, unsigned digits, size_t count,
				 const uint64_t *data)
{
	v[*n] = (struct values){ .group = str_z(group), .name = name, .digits = digits, .n = count, .data = data };
	return &v[(*n)++];
}

/** @count registers of @lanes lanes each: s0, v0, a0, ... */
static void add_block(struct target *t, struct arena *a, struct values *v, size_t *n, const char *group, char bank,
		      const struct wave_block *b, unsigned lanes)
{
	size_t words = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *raw = mem_alloc(words * sizeof(*raw) + 1);
	if (!words || !wave_registers(t, b, lanes, raw))
		return;
	uint64_t *data = arena_alloc(a, words * sizeof(*data));
	for (size_t i = 0; i < words; i++)
		data[i] = raw[i];
	for (unsigned k = 0; k < b->count; k++)
		next_value(v, n, group, arena_printf(a, "%c%u", bank, k), 8, lanes, data + (size_t)k * lanes);
}

static void add_named(struct arena *a, struct values *v, size_t *n, const char *name, unsigned digits, uint64_t value)
{
	uint64_t *data = arena_alloc(a, sizeof(*data));
	*data = value;
	next_value(v, n, "system", str_z(name), digits, 1, data);
}

const struct values *wave_values(struct target *t, struct arena *a, const struct wave *w, size_t *ret_n)
{
	const struct wave_layout *l = w->layout;
	size_t most = l->nregisters + WAVE_TTMPS + 8 + w->sgprs.count + w->vgprs.count + w->acc_vgprs.count, n = 0;
	struct values *v = arena_alloc(a, most * sizeof(*v));
	uint64_t named = l->numbers[NUMBER_SGPRS_NAMED] < w->sgprs.count ? l->numbers[NUMBER_SGPRS_NAMED] : w->sgprs.count;
	uint32_t vcc[2];
	add_named(a, v, &n, "pc", 16, w->pc);
	add_named(a, v, &n, "exec", w->lanes / 4, w->exec);
	for (size_t i = 0; i < l->nregisters; i++) {
		uint64_t *data = arena_alloc(a, sizeof(*data));
		*data = w->hwregs[i];
		next_value(v, &n, "system", l->registers[i], 8, 1, data);
	}
	struct wave_block last = { .address = w->sgprs.address + 4 * (named - 2), .count = 2, .wave = w->sgprs.wave };
	if (named >= 2 && wave_registers(t, &last, 1, vcc))
		add_named(a, v, &n, "vcc", 16, vcc[0] | (uint64_t)vcc[1] << 32);
	add_block(t, a, v, &n, "scalar", 's', &w->sgprs, 1);
	if (!w->no_vgprs)
		add_block(t, a, v, &n, "vector", 'v', &w->vgprs, w->lanes);
	add_block(t, a, v, &n, "vector", 'a', &w->acc_vgprs, w->lanes);
	*ret_n = n;
	return v;
}
