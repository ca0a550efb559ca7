// The waves: which are where, and what the driver answers for a slot.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/layout.h"

enum { XCC, SE, SH, CU, SIMD, SLOT, PLACES };

// --- fields of a wave's words ---

/** The bits of a wave's words that are called so, by the register tables. */
static bool wave_field(const struct emu_gpu *g, const char *name, struct emu_wave_part *ret)
{
	const unsigned *version = NULL;
	for (size_t i = 0; i < g->ips.len && !version; i++)
		if (str_is(g->ips.data[i].name, "gc"))
			version = g->ips.data[i].version;
	bool exact;
	const struct register_table *t =
		version ? register_table_for(S("gc"), version[0], version[1], version[2], &exact) : NULL;
	for (size_t i = 0; t && i < g->wave_words.n; i++) {
		char room[64];
		struct reg r;
		struct reg_field f;
		snprintf(room, sizeof(room), "SQ_WAVE_" STR_FMT, STR_ARG(g->wave_words.names[i]));
		if (!register_find(t, str_z(room), &r) || !register_field_find(&r, str_z(name), &f))
			continue;
		*ret = (struct emu_wave_part){ .word = i, .mask = field_mask(&f), .low = f.low };
		return true;
	}
	return false;
}

static void part_add(struct emu_waves *w, size_t word, uint32_t mask, unsigned low, unsigned shift, const struct value *v)
{
	vec_push(&w->parts, ((struct emu_wave_part){ word, mask, low, v, shift }));
}

/** Where the generation has no such field, nothing shows it. */
static void field_add(const struct emu_gpu *g, struct emu_waves *w, const char *name, const struct value *v)
{
	struct emu_wave_part p;
	if (wave_field(g, name, &p))
		part_add(w, p.word, p.mask, p.low, 0, v);
}

static bool word_named(const struct emu_gpu *g, struct str name, size_t *ret)
{
	for (*ret = 0; *ret < g->wave_words.n; ++*ret)
		if (str_eq(g->wave_words.names[*ret], name))
			return true;
	return false;
}

static void word_add(const struct emu_gpu *g, struct emu_waves *w, const char *name, unsigned shift, const struct value *v)
{
	size_t word;
	if (word_named(g, str_z(name), &word))
		part_add(w, word, UINT32_MAX, 0, shift, v);
}

static void wide_add(const struct emu_gpu *g, struct emu_waves *w, const char *low, const char *high, const struct value *v)
{
	word_add(g, w, low, 0, v);
	word_add(g, w, high, 32, v);
}

/** A wave that nothing is said of: it runs, with all lanes. */
static void wave_begin(const struct emu_gpu *g, struct emu_waves *w)
{
	static const struct {
		const char *field;
		uint64_t number;
	} fields[] = { { "VALID", 1 }, { "TRAP_EN", 1 }, { "IN_TG", 1 }, { "IN_WG", 1 }, { "VM_ID", 8 }, { "ME_ID", 1 } };
	struct arena *a = &g->machine->arena;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		field_add(g, w, fields[i].field, value_constant(a, fields[i].number));
	struct emu_wave_part p;
	bool both = wave_field(g, "WAVE64", &p); // waves of 32 and of 64 lanes
	wide_add(g, w, "exec_lo", "exec_hi", value_constant(a, both ? UINT32_MAX : UINT64_MAX));
}

// --- the statement ---

static const struct {
	const char *word, *field;
} flags[] = { { "halted", "HALT" }, { "barrier", "IN_BARRIER" }, { "trapped", "PRIV" }, { "idle", "IDLE" } };

static const struct {
	const char *word, *field;
} numbers[] = { { "vmid", "VM_ID" }, { "me", "ME_ID" }, { "pipe", "PIPE_ID" }, { "queue", "QUEUE_ID" } };

static const char *const places[][2] = { [XCC] = { "xcc" },      [SE] = { "se" },     [SH] = { "sh", "sa" },
					 [CU] = { "cu", "wgp" }, [SIMD] = { "simd" }, [SLOT] = { "slot" } };

enum taken { NOT_TAKEN, TAKEN, WRONG };

static enum taken take_place(struct cursor *c, int place[static PLACES], struct str key)
{
	for (size_t i = 0; i < PLACES; i++)
		for (size_t n = 0; n < 2; n++)
			if (places[i][n] && str_is(key, places[i][n])) {
				unsigned v;
				if (!cursor_unsigned(c, places[i][n], 1023, &v))
					return WRONG;
				place[i] = (int)v;
				return TAKEN;
			}
	return NOT_TAKEN;
}

static enum taken take_gpr(struct cursor *c, struct emu_waves *w, struct str key)
{
	struct emu_gpr r = { .vector = str_is(key, "vgpr") };
	bool good;
	if (emu_dispatch_take(c, &w->dispatch, key, &good))
		return good ? TAKEN : WRONG;
	if (!r.vector && !str_is(key, "sgpr"))
		return NOT_TAKEN;
	if (!cursor_unsigned(c, "the number of a register", 1023, &r.number) || !cursor_value(c, NULL, &r.value))
		return WRONG;
	vec_push(&w->gprs, r);
	return TAKEN;
}

static enum taken take_flag(const struct emu_gpu *g, struct emu_waves *w, struct str key)
{
	const struct value *one = value_constant(&g->machine->arena, 1);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (str_is(key, flags[i].word)) {
			field_add(g, w, flags[i].field, one);
			return TAKEN;
		}
	if (!str_is(key, "wave64"))
		return NOT_TAKEN;
	field_add(g, w, "WAVE64", one);
	wide_add(g, w, "exec_lo", "exec_hi", value_constant(&g->machine->arena, UINT64_MAX));
	return TAKEN;
}

static bool take_word(struct cursor *c, const struct emu_gpu *g, struct emu_waves *w, struct str key)
{
	const struct value *v;
	size_t word = 0;
	const char *field = NULL;
	bool wide = str_is(key, "pc") || str_is(key, "exec");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (str_is(key, numbers[i].word))
			field = numbers[i].field;
	if (!wide && !field && !word_named(g, key, &word))
		return emu_wrong(c, "waves of " STR_FMT " have no '" STR_FMT "'", STR_ARG(g->facts.gfx),
				 STR_ARG(str_cut(key, 80)));
	if (!cursor_value(c, NULL, &v))
		return false;
	if (field)
		field_add(g, w, field, v);
	else if (str_is(key, "pc"))
		wide_add(g, w, "pc_lo", "pc_hi", v);
	else if (wide)
		wide_add(g, w, "exec_lo", "exec_hi", v);
	else
		part_add(w, word, UINT32_MAX, 0, 0, v);
	return true;
}

static bool read_wave(struct cursor *c, const struct emu_gpu *g, struct emu_waves *w)
{
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "from") || str_is(key, "until")) {
			if (!cursor_seconds(c, str_is(key, "from") ? &w->from : &w->until))
				return false;
			continue;
		}
		enum taken taken = take_place(c, w->place, key);
		if (taken == NOT_TAKEN)
			taken = take_gpr(c, w, key);
		if (taken == NOT_TAKEN)
			taken = take_flag(g, w, key);
		if (taken == WRONG || (taken == NOT_TAKEN && !take_word(c, g, w, key)))
			return false;
	}
	return true;
}

/** A wave has at least as many registers as the scenario names, unless it says how many. */
static void allocate_gprs(const struct emu_gpu *g, struct emu_waves *w)
{
	const uint64_t *n = g->layout->numbers;
	struct emu_wave_part both;
	const bool narrow = wave_field(g, "WAVE64", &both) && n[NUMBER_VGPR_UNIT_32];
	for (size_t i = 0; i < 2; i++) {
		const struct bits *b = &g->layout->bits[i ? LAYOUT_VGPRS : LAYOUT_SGPRS];
		const uint64_t unit = i ? n[narrow ? NUMBER_VGPR_UNIT_32 : NUMBER_VGPR_UNIT] : n[NUMBER_SGPR_UNIT];
		unsigned last = 0;
		for (size_t k = 0; k < w->gprs.len; k++)
			if (w->gprs.data[k].vector == i && w->gprs.data[k].number > last &&
			    (i || w->gprs.data[k].number < SGPR_TTMPS))
				last = w->gprs.data[k].number;
		if (b->of != BITS_REGISTER || !unit || last < unit)
			continue;
		const struct emu_wave_part p = { b->index, ((2u << (b->high - b->low)) - 1) << b->low, b->low,
						 value_constant(&g->machine->arena, last / unit), 0 };
		vec_push(&w->parts, p);
		memmove(w->parts.data + 1, w->parts.data, (w->parts.len - 1) * sizeof(p)); // what is said outweighs it
		w->parts.data[0] = p;
	}
}

bool emu_harvested_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct emu_harvested h = { .place = { -1, -1, -1, -1, -1, -1 } };
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "silent")) {
			h.silent = true;
			continue;
		}
		enum taken taken = take_place(c, h.place, key);
		if (taken == NOT_TAKEN)
			return emu_wrong(c, "'" STR_FMT "' is none of xcc, se, sh, cu, silent", STR_ARG(str_cut(key, 80)));
		if (taken == WRONG)
			return false;
	}
	if (h.place[CU] < 0 || h.place[SIMD] >= 0 || h.place[SLOT] >= 0)
		return emu_wrong(c, "harvested: a cu (or wgp) is named, and nothing inside it");
	if (g->harvested.len == EMU_WAVES_MOST)
		return emu_wrong(c, "more than %d statements about harvested units", EMU_WAVES_MOST);
	vec_push(&g->harvested, h);
	return true;
}

bool emu_waves_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct emu_waves w = { .place = { -1, -1, -1, -1, -1, -1 }, .n = 1, .line = c->line, .until = 1e9 };
	uint64_t n;
	if (!g->waves_known)
		return emu_wrong(c, "waves of " STR_FMT " are not known", STR_ARG(g->facts.part));
	if (g->waves.len == EMU_WAVES_MOST)
		return emu_wrong(c, "more than %d statements about waves", EMU_WAVES_MOST);
	if (emu_number_of(cursor_peek(c), &n)) {
		cursor_word(c);
		if (!n || n > EMU_SLOTS_MOST)
			return emu_wrong(c, "a number of waves must be 1 to %d", EMU_SLOTS_MOST);
		w.n = (size_t)n;
	}
	wave_begin(g, &w);
	bool good = read_wave(c, g, &w);
	if (g->layout)
		allocate_gprs(g, &w);
	vec_push(&g->waves, w);
	return good;
}

// --- slots ---

static void bounds_of(const struct emu_gpu *g, unsigned ret[static PLACES])
{
	const struct shader_array *s = &g->facts.shaders;
	unsigned pair = g->wave_words.wgp ? 2 : 1; // a WGP is two CUs
	ret[XCC] = s->xccs;
	ret[SE] = s->ses;
	ret[SH] = s->shs_per_se;
	ret[CU] = (s->cus_per_sh + pair - 1) / pair;
	ret[SIMD] = g->facts.simds_per_cu;
	ret[SLOT] = g->facts.slots_per_simd;
}

static size_t slots_of(const unsigned bounds[static PLACES])
{
	size_t n = 1;
	for (size_t i = 0; i < PLACES; i++)
		n *= bounds[i];
	return n;
}

static bool overlap(const struct emu_waves *a, const struct emu_waves *b) { return a->from < b->until && b->from < a->until; }

static bool slot_free(const struct emu_gpu *g, size_t slot, const struct emu_waves *w)
{
	for (uint32_t at = g->slots[slot]; at; at = g->places.data[at - 1].next)
		if (overlap(&g->waves.data[g->places.data[at - 1].waves - 1], w))
			return false;
	return true;
}

static bool slot_agrees(const unsigned bounds[static PLACES], size_t slot, const int place[static PLACES])
{
	for (size_t i = PLACES; i-- > 0;) {
		if (place[i] >= 0 && (size_t)place[i] != slot % bounds[i])
			return false;
		slot /= bounds[i];
	}
	return true;
}

static bool slot_harvested(const struct emu_gpu *g, const unsigned bounds[static PLACES], size_t slot, bool silent_too)
{
	for (size_t i = 0; i < g->harvested.len; i++)
		if ((silent_too || !g->harvested.data[i].silent) && slot_agrees(bounds, slot, g->harvested.data[i].place))
			return true;
	return false;
}

unsigned emu_active_cus(const struct emu_gpu *g)
{
	const unsigned each = g->wave_words.wgp ? 2 : 1;
	unsigned bounds[PLACES], n = 0;
	bounds_of(g, bounds);
	const size_t unit = (size_t)bounds[SIMD] * bounds[SLOT];
	for (size_t slot = 0; unit && slot < slots_of(bounds); slot += unit)
		n += slot_harvested(g, bounds, slot, true) ? 0 : each;
	return n;
}

uint32_t emu_units_off(const struct emu_gpu *g, unsigned xcc, unsigned se, unsigned sh)
{
	unsigned bounds[PLACES];
	uint32_t off = 0;
	bounds_of(g, bounds);
	const size_t unit = (size_t)bounds[SIMD] * bounds[SLOT];
	for (unsigned cu = 0; cu < bounds[CU] && cu < 32; cu++) {
		const size_t at = (((size_t)xcc * bounds[SE] + se) * bounds[SH] + sh) * bounds[CU] + cu;
		off |= slot_harvested(g, bounds, at * unit, true) ? 1u << cu : 0;
	}
	return off;
}

/** Where a wave's words say where it is; a mask of 0: nowhere. */
static void find_places(struct emu_gpu *g)
{
	static const char *const fields[PLACES][2] = { [SE] = { "SE_ID" },
						       [SH] = { "SH_ID", "SA_ID" },
						       [CU] = { "CU_ID", "WGP_ID" },
						       [SIMD] = { "SIMD_ID" },
						       [SLOT] = { "WAVE_ID" } };
	for (size_t i = 0; i < PLACES; i++)
		for (size_t n = 0; n < 2; n++)
			if (fields[i][n])
				wave_field(g, fields[i][n], &g->place_parts[i]);
}

enum { STEPS_MOST = 1 << 28 };

bool emu_waves_place(struct emu_reader *r, struct emu_gpu *g)
{
	static const char *const names[PLACES] = { "XCC", "SE", "SH", "CU", "SIMD", "slot" };
	unsigned bounds[PLACES];
	bounds_of(g, bounds);
	size_t slots = slots_of(bounds);
	if (!g->waves.len)
		return true;
	find_places(g);
	// Waves that come later are placed with those that there were.
	free(g->slots);
	g->places.len = 0;
	g->slots = mem_alloc(slots * sizeof(*g->slots) + 1);
	for (size_t i = 0; i < g->waves.len; i++) {
		const struct emu_waves *w = &g->waves.data[i];
		struct cursor c = { r, { 0 }, w->line };
		size_t left = w->n;
		g->waves.data[i].first = g->places.len;
		if (g->places.len + left > EMU_PLACES_MOST || (r->steps += slots) > STEPS_MOST)
			return emu_wrong(&c, "too many waves");
		for (size_t n = 0; n < PLACES; n++)
			if (w->place[n] >= (int)bounds[n])
				return emu_wrong(&c, "there is no %s %d: %u of them", names[n], w->place[n], bounds[n]);
		for (size_t slot = 0; slot < slots && left; slot++) {
			if (!slot_agrees(bounds, slot, w->place) || !slot_free(g, slot, w) ||
			    slot_harvested(g, bounds, slot, true))
				continue;
			vec_push(&g->places, ((struct emu_wave_place){ (uint32_t)i + 1, g->slots[slot] }));
			g->slots[slot] = (uint32_t)g->places.len;
			left--;
		}
		if (left)
			return emu_wrong(&c, "no free slot for %zu of %zu waves", left, w->n);
	}
	return true;
}

/** *@ret_ordinal: which of those that came together it is. */
static const struct emu_waves *waves_at(const struct emu_gpu *g, size_t slot, double t, size_t *ret_ordinal)
{
	for (uint32_t at = g->slots ? g->slots[slot] : 0; at; at = g->places.data[at - 1].next) {
		const struct emu_waves *w = &g->waves.data[g->places.data[at - 1].waves - 1];
		*ret_ordinal = at - 1 - w->first;
		if (t >= w->from && t < w->until)
			return w;
	}
	return NULL;
}

/** false: there is no such slot. */
static bool slot_number(const struct emu_gpu *g, const struct wave_slot *s, size_t *ret)
{
	const unsigned at[PLACES] = { s->xcc, s->se, s->sh, s->cu, s->simd, s->slot };
	unsigned bounds[PLACES];
	bounds_of(g, bounds);
	*ret = 0;
	for (size_t i = 0; i < PLACES; i++) {
		if (at[i] >= bounds[i])
			return false;
		*ret = *ret * bounds[i] + at[i];
	}
	return !slot_harvested(g, bounds, *ret, false);
}

/** What the hardware says of where a wave is. */
static void put_place(const struct emu_gpu *g, const struct wave_slot *s, uint32_t *words)
{
	const unsigned at[PLACES] = { s->xcc, s->se, s->sh, s->cu, s->simd, s->slot };
	for (size_t i = 0; i < PLACES; i++) {
		const struct emu_wave_part *p = &g->place_parts[i];
		words[p->word] = (words[p->word] & ~p->mask) | (at[i] << p->low & p->mask);
	}
}

size_t emu_wave(const struct emu_gpu *g, const struct wave_slot *s, double t, uint32_t words[static WAVE_WORDS_MOST])
{
	size_t slot, ordinal, n = g->wave_words.n;
	if (!g->waves_known || !slot_number(g, s, &slot) || n >= WAVE_WORDS_MOST)
		return 0;
	memset(words, 0, WAVE_WORDS_MOST * sizeof(*words));
	words[0] = g->wave_words.type;
	const struct emu_waves *w = waves_at(g, slot, t, &ordinal);
	if (!w)
		return n + 1;
	put_place(g, s, words + 1);
	for (size_t i = 0; i < w->parts.len; i++) {
		const struct emu_wave_part *p = &w->parts.data[i];
		uint32_t v = (uint32_t)(value_at(p->value, t) >> p->shift);
		words[1 + p->word] = (words[1 + p->word] & ~p->mask) | (v << p->low & p->mask);
	}
	return n + 1;
}

uint32_t emu_gpr(const struct emu_gpu *g, const struct wave_slot *s, bool vector, unsigned lane, unsigned number, double t)
{
	size_t slot, ordinal;
	uint32_t value = 0;
	if (lane >= 64 || !slot_number(g, s, &slot))
		return 0;
	const struct emu_waves *w = waves_at(g, slot, t, &ordinal);
	if (w && !vector && number >= SGPR_TTMPS && number < SGPR_TTMPS + WAVE_TTMPS)
		value = emu_ttmp(g, &w->dispatch, ordinal, s, t, number - SGPR_TTMPS);
	for (size_t i = 0; w && i < w->gprs.len; i++)
		if (w->gprs.data[i].vector == vector && w->gprs.data[i].number == number)
			value = (uint32_t)value_at(w->gprs.data[i].value, t);
	return value;
}
