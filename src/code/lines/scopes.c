// Functions and what is inlined in them: a unit's entries in one pass, with a plan for each abbreviation of what to skip.
#include <dwarf.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "code/lines/build.h"

enum {
	CODES = 1 << 16, // compilers count abbreviations from 1
	DEPTH = 4096,
	RANGES = 1 << 22,
};

enum step_kind { STEP_SKIP, STEP_NUMBER, STEP_LEB, STEP_BLOCK, STEP_OTHER };

/** What an entry of a function says of itself. */
enum value { LOW, HIGH, RANGE_LIST, ORIGIN, CALL_FILE, CALL_LINE, CALL_COLUMN, NOT_NEEDED, VALUES };

struct scope_step {
	uint8_t kind, to; // enum step_kind, enum value
	uint16_t form;
	int32_t size;   // -1: it depends on the value
	uint64_t value; // of an implicit constant; of a number, its bits
};

struct plan {
	bool known, children, scope, inlined;
	bool has[VALUES];
	bool low_indexed, high_indexed, high_is_size, ranges_is_index, origin_is_absolute, origin_elsewhere;
	uint32_t step, nsteps;
};

struct scopes_walk {
	struct build_unit *u;
	VEC(struct plan) plans; // by code
	VEC(struct scope_step) steps;
	uint32_t scopes[DEPTH]; // the one that an entry of this depth is in
};

/** Bytes of a value in this form; -1 where that depends on the value. */
static int form_size(const struct build_unit *u, uint32_t form)
{
	enum { NO_BYTES = 17, ADDRESS, OFFSET };
	static const uint8_t sizes[] = {
		[DW_FORM_flag_present] = NO_BYTES,
		[DW_FORM_implicit_const] = NO_BYTES,
		[DW_FORM_data1] = 1,
		[DW_FORM_ref1] = 1,
		[DW_FORM_flag] = 1,
		[DW_FORM_strx1] = 1,
		[DW_FORM_addrx1] = 1,
		[DW_FORM_data2] = 2,
		[DW_FORM_ref2] = 2,
		[DW_FORM_strx2] = 2,
		[DW_FORM_addrx2] = 2,
		[DW_FORM_strx3] = 3,
		[DW_FORM_addrx3] = 3,
		[DW_FORM_data4] = 4,
		[DW_FORM_ref4] = 4,
		[DW_FORM_strx4] = 4,
		[DW_FORM_addrx4] = 4,
		[DW_FORM_ref_sup4] = 4,
		[DW_FORM_data8] = 8,
		[DW_FORM_ref8] = 8,
		[DW_FORM_ref_sig8] = 8,
		[DW_FORM_ref_sup8] = 8,
		[DW_FORM_data16] = 16,
		[DW_FORM_addr] = ADDRESS,
		[DW_FORM_strp] = OFFSET,
		[DW_FORM_line_strp] = OFFSET,
		[DW_FORM_sec_offset] = OFFSET,
		[DW_FORM_strp_sup] = OFFSET,
	};
	unsigned size = form < ARRAY_SIZE(sizes) ? sizes[form] : 0;
	if (form == DW_FORM_ref_addr)
		size = u->version < 3 ? ADDRESS : OFFSET;
	if (form == DW_FORM_GNU_ref_alt || form == DW_FORM_GNU_strp_alt)
		size = OFFSET;
	if (size == ADDRESS || size == OFFSET)
		return (int)(size == ADDRESS ? u->address_size : u->offset_size);
	return size == NO_BYTES ? 0 : size ? (int)size : -1;
}

/** The number of an attribute; of text and blocks nothing is kept. */
static uint64_t scopes_read_value(const struct build_unit *u, struct lines_cursor *c, const struct scope_step *s)
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
		return form == DW_FORM_implicit_const ? s->value :
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

/** The attributes of a function's entry that are kept. */
static const struct wanted_attribute {
	uint16_t name;
	enum value to;
} wanted_attributes[] = {
	{ DW_AT_low_pc, LOW },           { DW_AT_high_pc, HIGH },
	{ DW_AT_ranges, RANGE_LIST },    { DW_AT_abstract_origin, ORIGIN },
	{ DW_AT_specification, ORIGIN }, { DW_AT_call_file, CALL_FILE },
	{ DW_AT_call_line, CALL_LINE },  { DW_AT_call_column, CALL_COLUMN },
};

static struct scope_step plan_step(enum value to, uint32_t form, int size, int64_t constant)
{
	struct scope_step s = { STEP_OTHER, (uint8_t)to, (uint16_t)form, size, (uint64_t)constant };
	if (size >= 0 && to == NOT_NEEDED) {
		s.kind = STEP_SKIP;
	} else if (size > 0 && size <= 8) {
		s.kind = STEP_NUMBER;
		s.value = ~UINT64_C(0) >> (64 - 8 * size);
	} else if (form == DW_FORM_udata || form == DW_FORM_addrx || form == DW_FORM_rnglistx || form == DW_FORM_loclistx ||
		   form == DW_FORM_strx) {
		s.kind = STEP_LEB;
	} else if (form == DW_FORM_exprloc || form == DW_FORM_block) {
		s.kind = STEP_BLOCK;
	}
	return s;
}

/** Attributes that are not needed and have a fixed size become one skip. */
static void plan_abbreviation(struct scopes_walk *w, Dwarf_Abbrev *abbreviation, struct plan *ret)
{
	size_t count = 0;
	const uint32_t tag = dwarf_getabbrevtag(abbreviation);
	*ret = (struct plan){ .known = true, .step = (uint32_t)w->steps.len };
	ret->inlined = tag == DW_TAG_inlined_subroutine;
	ret->scope = ret->inlined || tag == DW_TAG_subprogram;
	ret->children = dwarf_abbrevhaschildren(abbreviation);
	dwarf_getattrcnt(abbreviation, &count);
	for (size_t i = 0; i < count; i++) {
		unsigned name, form;
		Dwarf_Sword value;
		if (dwarf_getabbrevattr_data(abbreviation, i, &name, &form, &value, NULL) || form > UINT16_MAX)
			break;
		const struct wanted_attribute *wanted =
			list_find(wanted_attributes, ARRAY_SIZE(wanted_attributes), it, it->name == name);
		const enum value to = ret->scope && wanted ? wanted->to : NOT_NEEDED;
		const struct scope_step s = plan_step(to, form, form_size(w->u, form), value);
		// Of attributes of one name the last one counts.
		const bool indexed = form == DW_FORM_addrx || (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4) ||
				     form == DW_FORM_GNU_addr_index;
		ret->has[to] = true;
		if (to == LOW)
			ret->low_indexed = indexed;
		if (to == HIGH) {
			ret->high_indexed = indexed;
			ret->high_is_size = !indexed && form != DW_FORM_addr;
		}
		if (to == RANGE_LIST)
			ret->ranges_is_index = form == DW_FORM_rnglistx;
		if (to == ORIGIN) {
			ret->origin_is_absolute = form == DW_FORM_ref_addr;
			// An origin in a supplementary file (dwz) is not followed: only the object's own bytes reach this child. libdw (0.188)
			// would look such an offset up in the object itself, and give the function the name of another one.
			ret->origin_elsewhere = form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8;
			ret->has[to] = form != DW_FORM_GNU_ref_alt && form != DW_FORM_ref_sig8;
		}
		if (s.kind == STEP_SKIP && ret->nsteps && w->steps.data[w->steps.len - 1].kind == STEP_SKIP &&
		    w->steps.data[w->steps.len - 1].size < INT32_MAX - s.size) {
			w->steps.data[w->steps.len - 1].size += s.size;
			continue;
		}
		vec_push(&w->steps, s);
		ret->nsteps++;
	}
}

/** A plan for each abbreviation of the unit: which attributes are read, and how many bytes lie between them. */
static bool plan_unit(struct scopes_walk *w)
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
	struct lines_cursor c = cursor_at(s, u->addr_base + i * u->address_size, s.n);
	return cursor_number(&c, u->address_size);
}

/** Ranges of code that the linker has left out are not in the object's code. */
static inline void add_range(struct builder *b, uint32_t scope, uint64_t begin, uint64_t end)
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

static void read_ranges_4(const struct build_unit *u, uint32_t scope, struct lines_cursor *c)
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
static bool read_range_5(const struct build_unit *u, uint32_t scope, struct lines_cursor *c, uint64_t *base)
{
	uint64_t begin, end, kind = cursor_byte(c);
	switch (kind) {
	case DW_RLE_base_addressx:
		*base = indexed_address(u, cursor_leb(c));
		return true;
	case DW_RLE_base_address:
		*base = cursor_number(c, u->address_size);
		return true;
	case DW_RLE_startx_endx:
		begin = indexed_address(u, cursor_leb(c));
		end = indexed_address(u, cursor_leb(c));
		break;
	case DW_RLE_startx_length:
		begin = indexed_address(u, cursor_leb(c));
		end = begin + cursor_leb(c);
		break;
	case DW_RLE_offset_pair:
		begin = *base + cursor_leb(c);
		end = *base + cursor_leb(c);
		break;
	case DW_RLE_start_end:
		begin = cursor_number(c, u->address_size);
		end = cursor_number(c, u->address_size);
		break;
	case DW_RLE_start_length:
		begin = cursor_number(c, u->address_size);
		end = begin + cursor_leb(c);
		break;
	default:
		c->bad |= kind != DW_RLE_end_of_list;
		return false;
	}
	add_range(u->b, scope, begin, end);
	return true;
}

/** The scope of a function's entry; none for a declaration, and for a function that is only inlined. */
static uint32_t add_scope(const struct build_unit *u, const struct plan *p, const uint64_t *values, uint64_t offset,
			  uint32_t parent)
{
	const bool has_pair = p->has[LOW] && p->has[HIGH];
	if (!p->inlined && !p->has[RANGE_LIST] && !has_pair)
		return INDEX_NONE;
	uint32_t id = build_count(u->b, INDEX_SCOPES);
	struct index_scope *s = build_add(u->b, INDEX_SCOPES);
	if (!s)
		return INDEX_NONE;
	if (p->has[ORIGIN])
		offset = values[ORIGIN] + (p->origin_is_absolute ? 0 : u->offset);
	*s = (struct index_scope){ p->inlined ? parent : INDEX_NONE,
				   p->origin_elsewhere ? INDEX_NONE : build_name(u->b, offset),
				   build_file(u, (uint32_t)values[CALL_FILE]), (uint32_t)values[CALL_LINE],
				   (uint32_t)values[CALL_COLUMN] };
	if (p->has[RANGE_LIST]) {
		uint64_t at = values[RANGE_LIST];
		const struct str section = u->b->sections[u->version >= 5 ? IN_RNGLISTS : IN_RANGES];
		uint64_t base = u->low_pc;
		bool good = true;
		if (p->ranges_is_index) {
			good = u->ranges_base <= section.n && at < (section.n - u->ranges_base) / u->offset_size;
			struct lines_cursor table =
				cursor_at(section, good ? u->ranges_base + at * u->offset_size : 0, section.n);
			at = u->ranges_base + cursor_number(&table, u->offset_size);
		}
		struct lines_cursor c = cursor_at(section, at, section.n);
		if (good && u->version >= 5)
			while (!c.bad && read_range_5(u, id, &c, &base))
				;
		else if (good)
			read_ranges_4(u, id, &c);
		if (!good || c.bad)
			build_note(u->b, "list of ranges at 0x%llx: it is cut off or in no known form", (unsigned long long)at);
	} else if (has_pair) {
		const uint64_t low = p->low_indexed ? indexed_address(u, values[LOW]) : values[LOW];
		const uint64_t high = p->high_indexed ? indexed_address(u, values[HIGH]) : values[HIGH];
		add_range(u->b, id, low, p->high_is_size ? low + high : high);
	}
	return id;
}

/** One step of a plan. Attributes that nobody asks for were joined into one skip, which is what makes this fast. */
static inline uint64_t read_step(const struct build_unit *u, struct lines_cursor *c, const struct scope_step *s)
{
	uint64_t v = 0;
	switch ((enum step_kind)s->kind) {
	case STEP_SKIP:
		cursor_skip(c, (uint64_t)s->size);
		return 0;
	case STEP_LEB:
		return cursor_leb(c);
	case STEP_BLOCK:
		cursor_skip(c, cursor_leb(c));
		return 0;
	case STEP_NUMBER:
		if (c->end - c->p < (ptrdiff_t)sizeof(v))
			break;
		memcpy(&v, c->p, sizeof(v));
		c->p += s->size;
		return v & s->value;
	case STEP_OTHER:
		break;
	}
	struct lines_cursor other = *c; // so that the compiler may keep @c in registers
	v = scopes_read_value(u, &other, s);
	*c = other;
	return v;
}

/** The scope that the entry's children are in. */
static inline uint32_t scopes_read_entry(const struct scopes_walk *w, const struct plan *p, struct lines_cursor *c,
					 uint64_t offset, uint32_t parent)
{
	const struct scope_step *s = w->steps.data + p->step, *end = s + p->nsteps;
	if (!p->scope) {
		for (; s < end; s++)
			read_step(w->u, c, s);
		return parent;
	}
	uint64_t values[VALUES] = { 0 };
	for (; s < end; s++)
		values[s->to] = read_step(w->u, c, s);
	return c->bad ? parent : add_scope(w->u, p, values, offset, parent);
}

/** All entries in one pass. The tree is not walked by recursion, and its depth is bounded: a file can nest as deep as it likes. */
static bool walk_entries(struct scopes_walk *w)
{
	const struct str info = w->u->b->sections[IN_INFO];
	struct lines_cursor c = cursor_at(info, w->u->entries, w->u->end);
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
		uint32_t inside = scopes_read_entry(w, p, &c, offset, w->scopes[depth]);
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
	_cleanup_free_ struct scopes_walk *w = mem_alloc(sizeof(*w));
	w->u = u;
	bool good = u->address_size && u->address_size <= 8 && plan_unit(w) && walk_entries(w);
	if (!good)
		build_note(u->b, "unit at 0x%llx of .debug_info: it is cut off or in no known form",
			   (unsigned long long)u->offset);
	vec_free(&w->plans);
	vec_free(&w->steps);
}
