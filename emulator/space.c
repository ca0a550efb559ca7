// The register space: what statements set of registers, and what a read of an address gives.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>

// --- finding a register by its name ---

/** The name of a block without the number behind it. */
static struct str stem_of(struct str name)
{
	while (name.n && char_digit(name.p[name.n - 1]))
		name.n--;
	return name;
}

static const struct register_table *table_of(const struct ip *ip)
{
	bool exact;
	const struct register_table *t = register_table_for(ip->name, ip->version[0], ip->version[1], ip->version[2], &exact);
	return t ? t : register_table_for(stem_of(ip->name), ip->version[0], ip->version[1], ip->version[2], &exact);
}

/** Whether a statement that says @name (`sdma0`, `mmhub1`; empty: nothing) means this block. */
static bool ip_meant(const struct ip *ip, struct str name)
{
	uint64_t number;
	if (!name.n || str_eq(ip->name, name))
		return true;
	struct str stem = stem_of(name);
	return stem.n && str_eq(stem_of(ip->name), stem) && emu_number_of(str_from(name, stem.n), &number) &&
	       ip->instance == number;
}

static uint32_t address_of(const struct ip *ip, const struct reg *r)
{
	if (r->kind == REGISTER_DIDT)
		return EMU_DIDT + r->offset * 4;
	return ((r->base == REGISTER_ABSOLUTE ? 0 : ip->bases[r->base]) + r->offset) * 4;
}

/** The block that the offsets of a block's table count from. */
static const struct ip *base_of(const struct emu_gpu *g, const struct ip *ip, const struct register_table *t)
{
	struct str from = register_table_from(t);
	for (size_t i = 0; i < g->ips.len && from.n && !str_eq(from, ip->name); i++)
		if (str_eq(g->ips.data[i].name, from))
			return &g->ips.data[i];
	return ip;
}

/** @ret_base: the block that its offset counts from; may be NULL. */
static bool ip_register(const struct emu_gpu *g, const struct ip *ip, struct str name, struct reg *ret,
			const struct ip **ret_base)
{
	const struct register_table *t = table_of(ip);
	const struct ip *base = t ? base_of(g, ip, t) : ip;
	if (ret_base)
		*ret_base = base;
	return t && register_find(t, name, ret) && ret->kind != REGISTER_INDEX &&
	       (ret->base < base->nbases || ret->base == REGISTER_ABSOLUTE);
}

static const struct ip *gc_of(const struct emu_gpu *g, unsigned xcc)
{
	for (size_t i = 0; i < g->ips.len; i++)
		if (str_is(g->ips.data[i].name, "gc") && g->ips.data[i].instance == xcc)
			return &g->ips.data[i];
	return NULL;
}

bool emu_gc_register(const struct emu_gpu *g, const char *name, struct reg *ret)
{
	const struct ip *ip = gc_of(g, 0);
	return ip && ip_register(g, ip, str_z(name), ret, NULL);
}

uint32_t emu_gc_address(const struct emu_gpu *g, unsigned xcc, const struct reg *r)
{
	const struct ip *ip = gc_of(g, xcc);
	return ip && r->base < ip->nbases ? address_of(ip, r) : UINT32_MAX;
}

// --- setting ---

static void setting_add(struct emu_gpu *g, uint32_t address, const struct bank *b, const struct reg_field *f,
			const struct value *v)
{
	struct emu_setting s = { .address = address, .order = ++g->order, .bank = *b, .mask = UINT32_MAX, .value = v };
	if (f) {
		s.mask = field_mask(f);
		s.low = f->low;
	}
	vec_push(&g->settings, s);
}

bool emu_register_set(struct emu_gpu *g, const struct bank *b, const char *name, const char *field, const struct value *v)
{
	struct reg r;
	struct reg_field f;
	unsigned xcc = b->xcc < 0 ? 0 : (unsigned)b->xcc;
	if (!emu_gc_register(g, name, &r) || !gc_of(g, xcc) || (field && !register_field_find(&r, str_z(field), &f)))
		return false;
	setting_add(g, emu_gc_address(g, xcc, &r), b, field ? &f : NULL, v);
	return true;
}

enum { SEGMENT = 0x6000 }; // words behind a base address of GC

/** The XCC whose registers an address is among; -1: none's. @ret: the number of its base address. */
static int xcc_of(const struct emu_gpu *g, uint32_t address, size_t *ret)
{
	for (size_t i = 0; i < g->ips.len && g->facts.shaders.xccs > 1; i++) {
		const struct ip *ip = &g->ips.data[i];
		for (*ret = 0; *ret < ip->nbases && str_is(ip->name, "gc"); ++*ret)
			if (address / 4 >= ip->bases[*ret] && address / 4 - ip->bases[*ret] < SEGMENT)
				return (int)ip->instance;
	}
	return -1;
}

/** The same register of another XCC. */
static uint32_t address_in_xcc(const struct emu_gpu *g, uint32_t address, int xcc)
{
	size_t base;
	int now = xcc_of(g, address, &base);
	if (now < 0 || xcc < 0)
		return address;
	const struct ip *from = gc_of(g, (unsigned)now), *to = gc_of(g, (unsigned)xcc);
	return base < to->nbases ? address + (to->bases[base] - from->bases[base]) * 4 : address;
}

void emu_hubs_set(struct emu_gpu *g, const char *name, const char *field, const struct value *v)
{
	static const char *const prefixes[] = { "", "GC", "MM", "VML2VC0_", "VML2VC1_", "VMSHAREDVC0_", "VMSHAREDVC1_" };
	const struct bank none = BANK_NONE;
	for (size_t i = 0; i < g->ips.len; i++)
		for (size_t k = 0; k < ARRAY_SIZE(prefixes); k++) {
			const struct ip *ip = &g->ips.data[i];
			char full[96];
			struct reg r;
			struct reg_field f;
			snprintf(full, sizeof(full), "%s%s", prefixes[k], name);
			if ((!str_is(ip->name, "gc") && !str_is(ip->name, "mmhub")) ||
			    !ip_register(g, ip, str_z(full), &r, NULL) || (field && !register_field_find(&r, str_z(field), &f)))
				continue;
			setting_add(g, address_of(ip, &r), &none, field ? &f : NULL, v);
			g->settings.data[g->settings.len - 1].order = 0; // what the scenario says outweighs it
		}
}

/** What the hardware knows of itself, as the driver read it when it started: the units that were switched off, and the size of VRAM. */
void emu_hardware_set(struct emu_gpu *g)
{
	const struct shader_array *x = &g->facts.shaders;
	struct arena *a = &g->machine->arena;
	struct bank b = BANK_NONE;
	const char *field = g->wave_words.wgp ? "INACTIVE_WGPS" : "INACTIVE_CUS";
	const size_t before = g->settings.len;
	for (unsigned xcc = 0; xcc < x->xccs; xcc++)
		for (unsigned se = 0; se < x->ses; se++)
			for (unsigned sh = 0; sh < x->shs_per_se; sh++) {
				b.xcc = (int)xcc, b.se = (int)se, b.sh = (int)sh;
				emu_register_set(g, &b, "CC_GC_SHADER_ARRAY_CONFIG", field,
						 value_constant(a, emu_units_off(g, xcc, se, sh)));
			}
	const struct bank none = BANK_NONE;
	const struct value *megabytes = value_constant(a, g->facts.vram_total >> 20);
	for (size_t i = 0; i < g->ips.len; i++) {
		const struct ip *ip = &g->ips.data[i];
		const struct register_table *t = str_is(ip->name, "nbio") ? table_of(ip) : NULL;
		for (size_t k = 0; t && k < registers_count(t); k++) {
			const struct reg r = register_at(t, k);
			if (str_ends(r.name, S("RCC_CONFIG_MEMSIZE")) && r.kind == REGISTER_MMIO && r.base < ip->nbases)
				setting_add(g, address_of(ip, &r), &none, NULL, megabytes);
		}
	}
	for (size_t i = before; i < g->settings.len; i++)
		g->settings.data[i].order = 0; // what the scenario says outweighs it
}

static int *bank_number(struct bank *b, struct str word)
{
	const struct {
		const char *name;
		int *number;
	} rows[] = { { "xcc", &b->xcc }, { "se", &b->se },     { "sh", &b->sh },       { "instance", &b->instance },
		     { "me", &b->me },   { "pipe", &b->pipe }, { "queue", &b->queue }, { "vmid", &b->vmid } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_is(word, rows[i].name))
			return rows[i].number;
	return NULL;
}

static bool read_bank(struct cursor *c, struct bank *ret)
{
	*ret = BANK_NONE;
	for (int *number; (number = bank_number(ret, cursor_peek(c)));) {
		unsigned v;
		cursor_word(c);
		if (!cursor_unsigned(c, "the number of a bank", 1023, &v))
			return false;
		*number = (int)v;
	}
	return true;
}

/** `[ip.]NAME[.FIELD]` */
struct space_wanted {
	struct str ip, name, field;
};

static struct space_wanted wanted_of(const struct emu_gpu *g, struct str word)
{
	struct str first = str_split(&word, '.');
	for (size_t i = 0; i < g->ips.len && word.n; i++)
		if (ip_meant(&g->ips.data[i], first))
			return (struct space_wanted){ first, str_split(&word, '.'), word };
	return (struct space_wanted){ .name = first, .field = word };
}

/** The first block that has such a register, in all its copies. */
static bool set_named(struct cursor *c, struct emu_gpu *g, const struct bank *b, const struct space_wanted *w,
		      const struct value *v)
{
	struct str block = { 0 };
	for (size_t i = 0; i < g->ips.len; i++) {
		const struct ip *ip = &g->ips.data[i], *base;
		struct reg r;
		struct reg_field f;
		if ((block.n && !str_eq(ip->name, block)) || !ip_meant(ip, w->ip) || !ip_register(g, ip, w->name, &r, &base))
			continue;
		if (w->field.n && !register_field_find(&r, w->field, &f))
			return emu_wrong(c, STR_FMT " has no field " STR_FMT, STR_ARG(r.name), STR_ARG(str_cut(w->field, 80)));
		bool gc = str_is(ip->name, "gc");
		block = ip->name;
		if (!gc || b->xcc < 0 || (unsigned)b->xcc == ip->instance)
			setting_add(g, address_of(base, &r), b, w->field.n ? &f : NULL, v);
	}
	if (block.n)
		return true;
	return w->ip.n ?
		       emu_wrong(c, "block " STR_FMT " of " STR_FMT " has no register " STR_FMT, STR_ARG(w->ip),
				 STR_ARG(g->facts.part), STR_ARG(str_cut(w->name, 80))) :
		       emu_wrong(c, STR_FMT " has no register " STR_FMT, STR_ARG(g->facts.part), STR_ARG(str_cut(w->name, 80)));
}

bool emu_register_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct bank b;
	const struct value *v;
	uint64_t address;
	if (!read_bank(c, &b))
		return false;
	struct str word = cursor_word(c);
	if (!word.n)
		return emu_wrong(c, "the name of a register is missing");
	if (!cursor_is(c, "="))
		return emu_wrong(c, "= is missing behind " STR_FMT, STR_ARG(str_cut(word, 80)));
	if (!cursor_value(c, NULL, &v))
		return false;
	if (b.xcc >= 0 && !gc_of(g, (unsigned)b.xcc))
		return emu_wrong(c, "there is no XCC %d", b.xcc);
	if (emu_number_of(word, &address)) {
		if (address % 4 || address > UINT32_MAX)
			return emu_wrong(c, STR_FMT " is no offset of a register", STR_ARG(word));
		setting_add(g, address_in_xcc(g, (uint32_t)address, b.xcc), &b, NULL, v);
		return true;
	}
	struct space_wanted w = wanted_of(g, word);
	return set_named(c, g, &b, &w, v);
}

static int compare_settings(const void *a, const void *b)
{
	const struct emu_setting *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void emu_settings_sort(struct emu_gpu *g)
{
	if (g->settings.len)
		qsort(g->settings.data, g->settings.len, sizeof(*g->settings.data), compare_settings);
}

// --- reading ---

/** Where nothing is selected, or all copies are, the first answers. */
static bool selected(int said, int asked) { return said < 0 || said == (asked < 0 ? 0 : asked); }

static bool bank_fits(const struct bank *said, const struct bank *asked)
{
	return selected(said->se, asked->se) && selected(said->sh, asked->sh) && selected(said->instance, asked->instance) &&
	       selected(said->me, asked->me) && selected(said->pipe, asked->pipe) && selected(said->queue, asked->queue) &&
	       selected(said->vmid, asked->vmid);
}

uint32_t emu_register(const struct emu_gpu *g, const struct bank *b, uint32_t address, double t)
{
	struct bank asked = *b;
	size_t low = 0, high = g->settings.len, base;
	uint32_t value = 0;
	int xcc = xcc_of(g, address, &base);
	// What is selected in one XCC does not select in another.
	if (xcc >= 0 && xcc != (b->xcc < 0 ? 0 : b->xcc))
		asked = BANK_NONE;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (g->settings.data[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < g->settings.len && g->settings.data[low].address == address; low++) {
		const struct emu_setting *s = &g->settings.data[low];
		if (bank_fits(&s->bank, &asked))
			value = (value & ~s->mask) | ((uint32_t)value_at(s->value, t) << s->low & s->mask);
	}
	return value;
}
