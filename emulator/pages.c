// Page tables: `map` and `virtual` of a block `gpu`. The tables are written into the emulated VRAM as the driver writes them, and the
// registers that describe them are set in every hub.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/memory/vm.h"

enum {
	MAPS_MOST = 1024,
	PAGES_MOST = 1 << 16, // entries of the last tables
	TABLES = 32 << 20,    // bytes at the end of VRAM for tables
	GART = 512 << 20,     // bytes that VMID 0 can address
	OFFSET = 0x10,        // MC_VM_FB_OFFSET: where entries count VRAM from, in units of 16 MiB
	LOCATION = 0x8000,    // MC_VM_FB_LOCATION_BASE: where VMID 0 sees VRAM
	UNIT = 24,
	ROOT_SHIFT = 39, // what an entry of the first of four tables covers
	HUGE_SHIFT = 21,
	PAGE_SHIFT = 12,
	TABLE_BITS = 9,
	DEPTH = 3,
};
static const uint64_t address_end = UINT64_C(1) << 48;

// --- statements ---

/** `VMID ADDRESS vram|system OFFSET BYTES` */
bool emu_map_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct emu_map m = { .line = c->line };
	if (!cursor_unsigned(c, "the VMID", VM_IDS - 1, &m.vmid) ||
	    !cursor_number(c, "the address", address_end - 1, &m.address))
		return false;
	m.system = cursor_is(c, "system");
	if (!m.system && !cursor_is(c, "vram"))
		return emu_wrong(c, "'vram' or 'system' is missing behind the address");
	if (!cursor_number(c, "the place", address_end - 1, &m.to) || !cursor_number(c, "the size", address_end, &m.size))
		return false;
	if ((m.address | m.to | m.size) % VM_PAGE || !m.size)
		return emu_wrong(c, "addresses and sizes of pages are multiples of %d", VM_PAGE);
	if (m.size > address_end - m.address || m.size > address_end - m.to)
		return emu_wrong(c, "it ends behind the last address");
	if (g->maps.len == MAPS_MOST)
		return emu_wrong(c, "more than %d maps", MAPS_MOST);
	vec_push(&g->maps, m);
	return true;
}

/** `xcc N vmid N of VMID` */
bool emu_tables_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct emu_tables t = { .line = c->line };
	if (!cursor_is(c, "xcc") || !cursor_unsigned(c, "the XCC", 63, &t.xcc) || !cursor_is(c, "vmid") ||
	    !cursor_unsigned(c, "the VMID", VM_IDS - 1, &t.vmid) || !cursor_is(c, "of") ||
	    !cursor_unsigned(c, "the other VMID", VM_IDS - 1, &t.of))
		return emu_wrong(c, "tables: it is 'xcc N vmid N of VMID'");
	if (g->tables.len == MAPS_MOST)
		return emu_wrong(c, "more than %d tables", MAPS_MOST);
	vec_push(&g->tables, t);
	return true;
}

static const struct emu_map *map_of(const struct emu_gpu *g, unsigned vmid, uint64_t address)
{
	for (size_t i = g->maps.len; i--;) {
		const struct emu_map *m = &g->maps.data[i];
		if (m->vmid == vmid && address >= m->address && address - m->address < m->size)
			return m;
	}
	return NULL;
}

/** `VMID ADDRESS VALUE...` */
bool emu_virtual_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	unsigned vmid;
	uint64_t address;
	if (!cursor_unsigned(c, "the VMID", VM_IDS - 1, &vmid) || !cursor_number(c, "the address", address_end - 1, &address))
		return false;
	if (address % 4)
		return emu_wrong(c, "0x%llx is no multiple of 4", (unsigned long long)address);
	do {
		const struct value *v;
		const struct emu_map *m = map_of(g, vmid, address);
		if (!cursor_value(c, NULL, &v))
			return false;
		if (!m)
			return emu_wrong(c, "no 'map' before this has 0x%llx of VMID %u", (unsigned long long)address, vmid);
		words_add(m->system ? &g->iomem : &g->vram, m->to + (address - m->address), v);
		address += 4;
	} while (cursor_more(c));
	return true;
}

/** `page-tables DEPTH` */
bool emu_page_tables_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	unsigned depth;
	if (!cursor_unsigned(c, "the depth of page tables", DEPTH, &depth) || depth < DEPTH - 1)
		return emu_wrong(c, "page tables have depth 2 or 3");
	g->further = depth < DEPTH;
	return true;
}

bool emu_page_shown(const struct emu_gpu *g, uint64_t address)
{
	for (size_t i = 0; i < g->maps.len; i++)
		if (g->maps.data[i].system && address >= g->maps.data[i].to &&
		    address - g->maps.data[i].to < g->maps.data[i].size)
			return true;
	return false;
}

// --- tables ---

/** A table in VRAM: of a VMID, for addresses that begin so. */
struct table {
	unsigned vmid, shift; // shift: what an entry covers
	uint64_t prefix, address;
};

struct building {
	struct emu_gpu *g;
	struct cursor *c;
	struct vm_format format;
	uint64_t vram;        // where entries count it from
	uint64_t next, pages; // the next free place in VRAM; pages that were mapped
	uint64_t roots[VM_IDS];
	VEC(struct table) tables;
	uint64_t gart; // the first address of VMID 0
};

static void put_entry(struct building *b, uint64_t table, uint64_t index, uint64_t entry)
{
	struct arena *a = &b->g->machine->arena;
	words_add(&b->g->vram, table + index * VM_ENTRY, value_constant(a, entry & UINT32_MAX));
	words_add(&b->g->vram, table + index * VM_ENTRY + 4, value_constant(a, entry >> 32));
}

static bool take_room(struct building *b, uint64_t bytes, uint64_t *ret)
{
	if (bytes > b->g->facts.vram_total - b->next)
		return emu_wrong(b->c, "the page tables take more than %d bytes", TABLES);
	*ret = b->next;
	b->next += bytes;
	return true;
}

/** An entry for a table whose entries cover 2^@shift bytes. */
static uint64_t pointer(const struct building *b, uint64_t table, unsigned shift)
{
	const struct vm_format *f = &b->format;
	uint64_t entry = (b->vram + table) | vm_bits_put(f->valid, 1);
	if (b->g->further && shift == HUGE_SHIFT)
		entry |= vm_bits_put(f->block, HUGE_SHIFT - PAGE_SHIFT);
	if (b->g->further && shift == PAGE_SHIFT)
		entry |= vm_bits_put(f->further, 1);
	return entry;
}

static uint64_t leaf(const struct building *b, const struct emu_map *m, uint64_t to, unsigned shift)
{
	enum { ACCESS = 0x70 }; // executed, read, written
	const struct vm_format *f = &b->format;
	const bool directory = shift > PAGE_SHIFT && !b->g->further;
	return (m->system ? to : b->vram + to) | ACCESS | vm_bits_put(f->valid, 1) | vm_bits_put(f->system, m->system) |
	       vm_bits_put(f->leaf, directory || !f->further.n);
}

/** The table whose entries cover 2^@shift bytes, for an address; it is made where there is none. */
static bool table_for(struct building *b, unsigned vmid, uint64_t address, unsigned shift, uint64_t *ret)
{
	uint64_t prefix = address >> (shift + TABLE_BITS), above;
	for (size_t i = b->tables.len; i--;) {
		const struct table *t = &b->tables.data[i];
		if (t->vmid == vmid && t->shift == shift && t->prefix == prefix) {
			*ret = t->address;
			return true;
		}
	}
	if (!take_room(b, VM_PAGE, ret))
		return false;
	vec_push(&b->tables, ((struct table){ vmid, shift, prefix, *ret }));
	if (shift == ROOT_SHIFT) {
		b->roots[vmid] = *ret;
		return true;
	}
	if (!table_for(b, vmid, address, shift + TABLE_BITS, &above))
		return false;
	put_entry(b, above, address >> (shift + TABLE_BITS) & ((1u << TABLE_BITS) - 1), pointer(b, *ret, shift));
	return true;
}

static bool map_pages(struct building *b, const struct emu_map *m)
{
	for (uint64_t at = 0, step, table; at < m->size; at += step) {
		const uint64_t huge = UINT64_C(1) << HUGE_SHIFT, address = m->address + at;
		unsigned shift = !((address | (m->to + at)) % huge) && m->size - at >= huge ? HUGE_SHIFT : PAGE_SHIFT;
		step = UINT64_C(1) << shift;
		if (++b->pages > PAGES_MOST)
			return emu_wrong(b->c, "more than %d pages are mapped", PAGES_MOST);
		if (!table_for(b, m->vmid, address, shift, &table))
			return false;
		put_entry(b, table, address >> shift & ((1u << TABLE_BITS) - 1), leaf(b, m, m->to + at, shift));
	}
	return true;
}

/** VMID 0 has one flat table. */
static bool map_gart(struct building *b, const struct emu_map *m)
{
	if (!b->roots[0]) {
		b->gart = m->address;
		if (!take_room(b, (uint64_t)GART / VM_PAGE * VM_ENTRY, &b->roots[0]))
			return false;
	}
	if (m->address < b->gart || m->address - b->gart > GART || m->size > GART - (m->address - b->gart))
		return emu_wrong(b->c, "VMID 0 can address %d bytes from its first 'map' on", GART);
	b->pages += m->size / VM_PAGE;
	if (b->pages > PAGES_MOST)
		return emu_wrong(b->c, "more than %d pages are mapped", PAGES_MOST);
	for (uint64_t at = 0; at < m->size; at += VM_PAGE)
		put_entry(b, b->roots[0], (m->address - b->gart + at) / VM_PAGE, leaf(b, m, m->to + at, PAGE_SHIFT));
	return true;
}

// --- registers ---

static void set(struct building *b, const char *name, const char *field, uint64_t number)
{
	emu_hubs_set(b->g, name, field, value_constant(&b->g->machine->arena, number));
}

/** Registers of @as get what describes the tables of @vmid. @xcc: only there; negative: in all hubs. */
static void set_context(struct building *b, unsigned vmid, unsigned as, int xcc)
{
	const uint64_t root = pointer(b, b->roots[vmid], vmid ? ROOT_SHIFT : PAGE_SHIFT) & ~vm_bits_put(b->format.further, 1);
	struct bank bank = BANK_NONE;
	bank.xcc = xcc;
	if (xcc < 0)
		b->g->roots[vmid] = root;
	const uint64_t first = vmid ? 0 : b->gart, last = vmid ? address_end - 1 : b->gart + GART - 1;
	const struct {
		const char *name, *field;
		uint64_t number;
	} rows[] = { { "CNTL", "ENABLE_CONTEXT", 1 },
		     { "CNTL", "PAGE_TABLE_DEPTH", vmid ? DEPTH - b->g->further : 0 },
		     { "CNTL", "PAGE_TABLE_BLOCK_SIZE", vmid && b->g->further ? TABLE_BITS : 0 },
		     { "PAGE_TABLE_BASE_ADDR_LO32", NULL, root & UINT32_MAX },
		     { "PAGE_TABLE_BASE_ADDR_HI32", NULL, root >> 32 },
		     { "PAGE_TABLE_START_ADDR_LO32", NULL, first >> PAGE_SHIFT & UINT32_MAX },
		     { "PAGE_TABLE_START_ADDR_HI32", NULL, first >> (PAGE_SHIFT + 32) },
		     { "PAGE_TABLE_END_ADDR_LO32", NULL, last >> PAGE_SHIFT & UINT32_MAX },
		     { "PAGE_TABLE_END_ADDR_HI32", NULL, last >> (PAGE_SHIFT + 32) } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[64];
		snprintf(name, sizeof(name), "VM_CONTEXT%u_%s", as, rows[i].name);
		if (xcc < 0)
			set(b, name, rows[i].field, rows[i].number);
		else
			emu_register_set(b->g, &bank, name, rows[i].field, value_constant(&b->g->machine->arena, rows[i].number));
	}
}

static void set_registers(struct building *b)
{
	set(b, "MC_VM_FB_LOCATION_BASE", NULL, LOCATION);
	set(b, "MC_VM_FB_LOCATION_TOP", NULL, LOCATION + ((b->g->facts.vram_total - 1) >> UNIT));
	set(b, "MC_VM_FB_OFFSET", NULL, OFFSET);
	set(b, "MC_VM_AGP_BOT", NULL, 0xffffff);
	set(b, "MC_VM_MX_L1_TLB_CNTL", "SYSTEM_ACCESS_MODE", 3);
	set(b, "MC_VM_SYSTEM_APERTURE_LOW_ADDR", NULL, (uint64_t)LOCATION << (UNIT - 18));
	set(b, "MC_VM_SYSTEM_APERTURE_HIGH_ADDR", NULL, (((uint64_t)LOCATION << UNIT) + b->g->facts.vram_total - 1) >> 18);
	for (unsigned vmid = 0; vmid < VM_IDS; vmid++)
		if (b->roots[vmid])
			set_context(b, vmid, vmid, -1);
}

static bool set_tables(struct building *b)
{
	for (size_t i = 0; i < b->g->tables.len; i++) {
		const struct emu_tables *t = &b->g->tables.data[i];
		b->c->line = t->line;
		if (!b->roots[t->of])
			return emu_wrong(b->c, "VMID %u has no pages", t->of);
		if (t->xcc >= b->g->facts.shaders.xccs)
			return emu_wrong(b->c, "there is no XCC %u", t->xcc);
		set_context(b, t->of, t->vmid, (int)t->xcc);
	}
	return true;
}

static bool build(struct building *b)
{
	struct emu_gpu *g = b->g;
	for (size_t i = 0; i < g->maps.len; i++) {
		const struct emu_map *m = &g->maps.data[i];
		b->c->line = m->line;
		if (!m->system && (m->to > g->facts.vram_total - TABLES || m->size > g->facts.vram_total - TABLES - m->to))
			return emu_wrong(b->c, "VRAM for pages ends at 0x%llx",
					 (unsigned long long)(g->facts.vram_total - TABLES));
		if (!(m->vmid ? map_pages(b, m) : map_gart(b, m)))
			return false;
	}
	set_registers(b);
	return set_tables(b);
}

void emu_page_tables(const struct emu_gpu *g, unsigned vmid, struct text *ret)
{
	text_printf(ret, "pd_address: 0x%llx\nmax_pfn: 0x%llx\nnum_level: 0x%x\nblock_size: 0x%x\nfragment_size: 0x9\n",
		    (unsigned long long)g->roots[vmid], (unsigned long long)(address_end >> PAGE_SHIFT),
		    (unsigned)(DEPTH - g->further), (unsigned)(g->further ? 2 * TABLE_BITS : TABLE_BITS));
}

bool emu_pages_finish(struct emu_reader *r, struct emu_gpu *g)
{
	struct cursor c = { r, { 0 }, g->maps.len ? g->maps.data[0].line : 0 };
	struct building b = { .g = g, .c = &c };
	if (!g->maps.len)
		return true;
	if (!vm_format_of(r->k, g->facts.gfx, &b.format))
		return emu_wrong(&c, "the page tables of " STR_FMT " are not known", STR_ARG(str_cut(g->facts.gfx, 80)));
	if (g->facts.vram_total < 2 * TABLES)
		return emu_wrong(&c, "page tables want VRAM of %d bytes", 2 * TABLES);
	b.vram = g->facts.guest && b.format.guests_from_zero ? 0 : (uint64_t)OFFSET << UNIT;
	b.next = g->facts.vram_total - TABLES;
	bool good = build(&b);
	vec_free(&b.tables);
	return good;
}
