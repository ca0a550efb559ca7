#include "gpu/wave.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/layout.h"

enum { REGISTERS_MOST = 1024 }; // of a bank

/** v12 is { 'v', 12 }; a name that is none of a bank has none. */
static void find_bank(struct wave_register *r)
{
	struct str digits = str_from(r->name, 1);
	int64_t number;
	if (!digits.n || !memchr("sva", r->name.p[0], 3) || (digits.n > 1 && digits.p[0] == '0') ||
	    !str_number(digits, &number) || number < 0 || number >= REGISTERS_MOST)
		return;
	r->bank = r->name.p[0];
	r->number = (unsigned)number;
}

void wave_register_add(struct register_set *to, struct wave_register r)
{
	find_bank(&r);
	vec_push(to, r);
}

const struct wave_register *wave_register_at(const struct register_set *s, char bank, unsigned number)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->data[i].bank == bank && s->data[i].number == number)
			return &s->data[i];
	return NULL;
}

const struct wave_register *wave_register_named(const struct register_set *s, struct str name)
{
	for (size_t i = 0; i < s->len; i++)
		if (str_eq(s->data[i].name, name))
			return &s->data[i];
	return NULL;
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

static void add_named(struct arena *a, struct register_set *to, struct str name, unsigned digits, uint64_t value)
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
	add_named(a, ret, S("pc"), 16, w->pc);
	add_named(a, ret, S("exec"), w->lanes / 4, w->exec);
	for (size_t i = 0; i < l->nregisters; i++)
		add_named(a, ret, l->registers[i], 8, w->hwregs[i]);
	struct wave_block last = { .address = w->sgprs.address + 4 * (named - 2), .count = 2, .wave = w->sgprs.wave };
	if (named >= 2 && wave_registers(t, &last, 1, vcc))
		add_named(a, ret, S("vcc"), 16, vcc[0] | (uint64_t)vcc[1] << 32);
	add_block(t, a, ret, 's', &w->sgprs, 1);
	if (!w->no_vgprs)
		add_block(t, a, ret, 'v', &w->vgprs, w->lanes);
	add_block(t, a, ret, 'a', &w->acc_vgprs, w->lanes);
}
