// Functions and what is inlined in them: a unit's entries in one pass, with a plan for each abbreviation of what to skip.
#include <dwarf.h>
#include <stdlib.h>

#include "code/lines_build.h"

enum {
	CODES = 1 << 16, // compilers count abbreviations from 1
	DEPTH = 4096,
	RANGES = 1 << 22,
	STEP_SKIP = 0, // no form has this number
};

struct step {
	uint16_t name, form;
	int32_t size;  // -1: it depends on the value
	int64_t value; // of an implicit constant; of a skip, its bytes
};

struct plan {
	bool known, children;
	uint32_t tag;
	uint32_t step, nsteps;
};

struct walk {
	struct build_unit *u;
	VEC(struct plan) plans; // by code
	VEC(struct step) steps;
	uint32_t scopes[DEPTH]; // the one that an entry of this depth is in
};

/** What an entry of a function says of itself. */
struct entry {
	uint64_t low, high, ranges, origin;
	uint32_t file, line, column;
	bool has_low, has_high, high_is_size, has_ranges, ranges_is_index, has_origin;
};

/** Bytes of a value in this form; -1 where that depends on the value. */
static int form_size(const struct build_unit *u, uint32_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return (int)u->address_size;
	case DW_FORM_ref_addr:
		return (int)(u->version < 3 ? u->address_size : u->offset_size);
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return (int)u->offset_size;
	default:
		return -1;
	}
}

/** The number of an attribute; of text and blocks nothing is kept. */
static uint64_t read_value(const struct build_unit *u, struct cursor *c, const struct step *s)
{
	uint32_t form = s->form;
	int size = s->size;
	if (form == DW_FORM_indirect) {
		form = (uint32_t)cursor_leb(c);
		size = form_size(u, form);
	}
	if (size > 8) {
		cursor_skip(c, (uint64_t)size);
		return 0;
	}
	if (size >= 0)
		return form == DW_FORM_implicit_const ? (uint64_t)s->value :
		       form == DW_FORM_flag_present   ? 1 :
							cursor_number(c, (unsigned)size);
	switch (form) {
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_rnglistx:
	case DW_FORM_loclistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return cursor_leb(c);
	case DW_FORM_sdata:
		return (uint64_t)cursor_sleb(c);
	case DW_FORM_string:
		cursor_z(c);
		return 0;
	case DW_FORM_block1:
		cursor_skip(c, cursor_byte(c));
		return 0;
	case DW_FORM_block2:
		cursor_skip(c, cursor_number(c, 2));
		return 0;
	case DW_FORM_block4:
		cursor_skip(c, cursor_number(c, 4));
		return 0;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		cursor_skip(c, cursor_leb(c));
		return 0;
	default:
		cursor_skip(c, UINT64_MAX); // nobody knows where the next one begins
		return 0;
	}
}

static bool is_scope(uint32_t tag) { return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine; }

static bool is_wanted(uint32_t name)
{
	switch (name) {
	case DW_AT_low_pc:
	case DW_AT_high_pc:
	case DW_AT_ranges:
	case DW_AT_abstract_origin:
	case DW_AT_specification:
	case DW_AT_call_file:
	case DW_AT_call_line:
	case DW_AT_call_column:
		return true;
	default:
		return false;
	}
}

/** Attributes that are not needed and have a fixed size become one skip. */
static void plan_abbreviation(struct walk *w, Dwarf_Abbrev *abbreviation, struct plan *ret)
{
	size_t count = 0;
	*ret = (struct plan){ .known = true, .tag = dwarf_getabbrevtag(abbreviation), .step = (uint32_t)w->steps.len };
	ret->children = dwarf_abbrevhaschildren(abbreviation);
	dwarf_getattrcnt(abbreviation, &count);
	for (size_t i = 0; i < count; i++) {
		unsigned name, form;
		Dwarf_Sword value;
		if (dwarf_getabbrevattr_data(abbreviation, i, &name, &form, &value, NULL) || form > UINT16_MAX)
			break;
		int size = form_size(w->u, form);
		struct step s = { (uint16_t)name, (uint16_t)form, size, value };
		if (size >= 0 && !(is_scope(ret->tag) && is_wanted(name)))
			s = (struct step){ 0, STEP_SKIP, 0, size };
		if (s.form == STEP_SKIP && ret->nsteps && w->steps.data[w->steps.len - 1].form == STEP_SKIP) {
			w->steps.data[w->steps.len - 1].value += size;
			continue;
		}
		vec_push(&w->steps, s);
		ret->nsteps++;
	}
}

static bool plan_unit(struct walk *w)
{
	Dwarf_Off at = 0;
	for (;;) {
		size_t length = 0;
		Dwarf_Abbrev *abbreviation = dwarf_getabbrev(&w->u->die, at, &length);
		if (abbreviation == DWARF_END_ABBREV)
			return true;
		unsigned code = abbreviation ? dwarf_getabbrevcode(abbreviation) : CODES;
		if (code >= CODES || !length)
			return false;
		while (w->plans.len <= code)
			vec_push(&w->plans, (struct plan){ 0 });
		plan_abbreviation(w, abbreviation, &w->plans.data[code]);
		at += length;
	}
}

/** An address of .debug_addr. */
static uint64_t indexed_address(const struct build_unit *u, uint64_t i)
{
	const struct str s = u->b->sections[IN_ADDR];
	if (u->addr_base > s.n || i >= (s.n - u->addr_base) / u->address_size)
		return 0;
	struct cursor c = cursor_at(s, u->addr_base + i * u->address_size, s.n);
	return cursor_number(&c, u->address_size);
}

static bool is_indexed_address(uint32_t form)
{
	return form == DW_FORM_addrx || (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4) || form == DW_FORM_GNU_addr_index;
}

static void take_attribute(const struct build_unit *u, struct entry *e, const struct step *s, uint64_t v)
{
	const bool indexed = is_indexed_address(s->form);
	switch (s->name) {
	case DW_AT_low_pc:
		e->low = indexed ? indexed_address(u, v) : v;
		e->has_low = true;
		break;
	case DW_AT_high_pc:
		e->high = indexed ? indexed_address(u, v) : v;
		e->high_is_size = !indexed && s->form != DW_FORM_addr;
		e->has_high = true;
		break;
	case DW_AT_ranges:
		e->ranges = v;
		e->ranges_is_index = s->form == DW_FORM_rnglistx;
		e->has_ranges = true;
		break;
	case DW_AT_abstract_origin:
	case DW_AT_specification:
		e->origin = s->form == DW_FORM_ref_addr ? v : u->offset + v;
		e->has_origin = s->form != DW_FORM_GNU_ref_alt && s->form != DW_FORM_ref_sig8;
		break;
	case DW_AT_call_file:
		e->file = (uint32_t)v;
		break;
	case DW_AT_call_line:
		e->line = (uint32_t)v;
		break;
	case DW_AT_call_column:
		e->column = (uint32_t)v;
		break;
	default:
		break;
	}
}

/** Ranges of code that the linker has left out are not in the object's code. */
static void add_range(struct builder *b, uint32_t scope, uint64_t begin, uint64_t end)
{
	const uint64_t from = b->head->begin;
	if (begin < from || end <= begin || end - from > b->head->size)
		return;
	if (!build_wants(b, (uint32_t)(begin - from), (uint32_t)(end - from)))
		return;
	if (b->ranges.len == RANGES)
		build_note(b, "it has more than %d ranges of code", RANGES);
	else
		vec_push(&b->ranges, ((struct build_range){ (uint32_t)(begin - from), (uint32_t)(end - from), scope }));
}

static void read_ranges_4(const struct build_unit *u, uint32_t scope, struct cursor *c)
{
	uint64_t base = u->low_pc;
	const uint64_t largest = u->address_size == 8 ? UINT64_MAX : UINT32_MAX;
	while (!c->bad) {
		uint64_t begin = cursor_number(c, u->address_size), end = cursor_number(c, u->address_size);
		if (!begin && !end)
			return;
		if (begin == largest)
			base = end;
		else
			add_range(u->b, scope, base + begin, base + end);
	}
}

/** One entry; false at the end of the list. */
static bool read_range_5(const struct build_unit *u, uint32_t scope, struct cursor *c, uint64_t *base)
{
	uint64_t begin, kind = cursor_byte(c);
	switch (kind) {
	case DW_RLE_base_addressx:
		*base = indexed_address(u, cursor_leb(c));
		return true;
	case DW_RLE_base_address:
		*base = cursor_number(c, u->address_size);
		return true;
	case DW_RLE_startx_endx:
		begin = indexed_address(u, cursor_leb(c));
		add_range(u->b, scope, begin, indexed_address(u, cursor_leb(c)));
		return true;
	case DW_RLE_startx_length:
		begin = indexed_address(u, cursor_leb(c));
		add_range(u->b, scope, begin, begin + cursor_leb(c));
		return true;
	case DW_RLE_offset_pair:
		begin = *base + cursor_leb(c);
		add_range(u->b, scope, begin, *base + cursor_leb(c));
		return true;
	case DW_RLE_start_end:
		begin = cursor_number(c, u->address_size);
		add_range(u->b, scope, begin, cursor_number(c, u->address_size));
		return true;
	case DW_RLE_start_length:
		begin = cursor_number(c, u->address_size);
		add_range(u->b, scope, begin, begin + cursor_leb(c));
		return true;
	default:
		c->bad |= kind != DW_RLE_end_of_list;
		return false;
	}
}

static void read_ranges(const struct build_unit *u, uint32_t scope, const struct entry *e)
{
	const struct str section = u->b->sections[u->version >= 5 ? IN_RNGLISTS : IN_RANGES];
	uint64_t at = e->ranges, base = u->low_pc;
	bool good = true;
	if (e->ranges_is_index) {
		good = u->ranges_base <= section.n && at < (section.n - u->ranges_base) / u->offset_size;
		struct cursor table = cursor_at(section, good ? u->ranges_base + at * u->offset_size : 0, section.n);
		at = u->ranges_base + cursor_number(&table, u->offset_size);
	}
	struct cursor c = cursor_at(section, at, section.n);
	if (good && u->version >= 5)
		while (!c.bad && read_range_5(u, scope, &c, &base))
			;
	else if (good)
		read_ranges_4(u, scope, &c);
	if (!good || c.bad)
		build_note(u->b, "list of ranges at 0x%llx: it is cut off or in no known form", (unsigned long long)at);
}

/** The scope of a function's entry; none for a declaration, and for a function that is only inlined. */
static uint32_t add_scope(const struct build_unit *u, const struct plan *p, const struct entry *e, uint64_t offset,
			  uint32_t parent)
{
	const bool inlined = p->tag == DW_TAG_inlined_subroutine;
	if (!inlined && !e->has_ranges && !(e->has_low && e->has_high))
		return INDEX_NONE;
	uint32_t id = build_count(u->b, INDEX_SCOPES);
	struct index_scope *s = build_add(u->b, INDEX_SCOPES);
	if (!s)
		return INDEX_NONE;
	*s = (struct index_scope){ inlined ? parent : INDEX_NONE, build_name(u->b, e->has_origin ? e->origin : offset),
				   build_file(u, e->file), e->line, e->column };
	if (e->has_ranges)
		read_ranges(u, id, e);
	else if (e->has_low && e->has_high)
		add_range(u->b, id, e->low, e->high_is_size ? e->low + e->high : e->high);
	return id;
}

/** The scope that the entry's children are in. */
static uint32_t read_entry(struct walk *w, const struct plan *p, struct cursor *c, uint64_t offset, uint32_t parent)
{
	struct entry e = { 0 };
	for (uint32_t i = 0; i < p->nsteps; i++) {
		const struct step *s = &w->steps.data[p->step + i];
		if (s->form == STEP_SKIP) {
			cursor_skip(c, (uint64_t)s->value);
			continue;
		}
		uint64_t v = read_value(w->u, c, s);
		if (is_scope(p->tag))
			take_attribute(w->u, &e, s, v);
	}
	return is_scope(p->tag) && !c->bad ? add_scope(w->u, p, &e, offset, parent) : parent;
}

static bool walk_entries(struct walk *w)
{
	const struct str info = w->u->b->sections[IN_INFO];
	struct cursor c = cursor_at(info, w->u->entries, w->u->end);
	size_t depth = 0;
	w->scopes[0] = INDEX_NONE;
	do {
		uint64_t offset = (uint64_t)((const char *)c.p - info.p), code = cursor_leb(&c);
		if (!code) {
			depth -= depth > 0;
			continue;
		}
		if (c.bad || code >= w->plans.len || !w->plans.data[code].known)
			return false;
		const struct plan *p = &w->plans.data[code];
		uint32_t inside = read_entry(w, p, &c, offset, w->scopes[depth]);
		if (!p->children)
			continue;
		if (++depth == DEPTH)
			return false;
		w->scopes[depth] = inside;
	} while (depth && !c.bad);
	return !c.bad;
}

void build_scopes(struct build_unit *u)
{
	struct walk w = { .u = u };
	bool good = u->address_size && u->address_size <= 8 && plan_unit(&w) && walk_entries(&w);
	if (!good)
		build_note(u->b, "unit at 0x%llx of .debug_info: it is cut off or in no known form",
			   (unsigned long long)u->offset);
	vec_free(&w.plans);
	vec_free(&w.steps);
}
