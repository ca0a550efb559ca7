// Builds the index of source lines, in the child. Units are listed by libdw; line tables and functions are then decoded by two threads,
// because they take about as long and do not need each other.
#include "code/lines/build.h"

#include <dwarf.h>
#include <gelf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

// From ranges that lie in one another to segments that lie side by side.

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/** Sorts by begin, which is below @limit; equal ones keep their order, outer before inner. Returns the sorted ranges. */
static struct build_range *sort_ranges(struct build_range *ranges, struct build_range *room, size_t n, uint64_t limit)
{
	_cleanup_free_ size_t *places = mem_alloc(DIGITS * sizeof(*places));
	for (unsigned shift = 0; limit >> shift; shift += DIGIT_BITS) {
		size_t place = 0;
		memset(places, 0, DIGITS * sizeof(*places));
		for (size_t i = 0; i < n; i++)
			places[ranges[i].begin >> shift & (DIGITS - 1)]++;
		for (size_t d = 0; d < DIGITS; d++) {
			size_t count = places[d];
			places[d] = place;
			place += count;
		}
		for (size_t i = 0; i < n; i++)
			room[places[ranges[i].begin >> shift & (DIGITS - 1)]++] = ranges[i];
		struct build_range *swap = ranges;
		ranges = room;
		room = swap;
	}
	return ranges;
}

static void begin_segment(struct builder *b, uint32_t at, uint32_t scope)
{
	const size_t n = b->tables[INDEX_SEGMENTS].n;
	struct index_segment *s = (struct index_segment *)b->tables[INDEX_SEGMENTS].items + n;
	if (n && s[-1].at == at)
		s--;
	else if ((n && s[-1].scope == scope) || !(s = build_add(b, INDEX_SEGMENTS)))
		return;
	*s = (struct index_segment){ at, scope };
}

/** The ranges that are open, innermost last. One that ends behind the one it is in is cut there. */
static void build_segments(struct builder *b)
{
	const size_t n = b->ranges.len;
	_cleanup_free_ struct build_range *other = mem_alloc(n * sizeof(*other));
	_cleanup_free_ struct build_range *open = mem_alloc((n + 1) * sizeof(*open));
	size_t depth = 0;
	const struct build_range *sorted = sort_ranges(b->ranges.data, other, n, b->head->size);
	for (size_t i = 0; i <= n; i++) {
		struct build_range r = i < n ? sorted[i] : (struct build_range){ UINT32_MAX, UINT32_MAX, INDEX_NONE };
		while (depth && open[depth - 1].end <= r.begin) {
			depth--;
			begin_segment(b, open[depth].end, depth ? open[depth - 1].scope : INDEX_NONE);
		}
		if (depth && r.end > open[depth - 1].end)
			r.end = open[depth - 1].end;
		if (i < n) {
			begin_segment(b, r.begin, r.scope);
			open[depth++] = r;
		}
	}
}

// --- tables, names and units ---

void build_note(struct builder *b, const char *format, ...)
{
	char line[256];
	if (b->head->note.n)
		return;
	va_list ap;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	build_text(b, &b->head->note, str_z(line));
}

void build_text(struct builder *b, struct index_text *t, struct str s)
{
	struct build_table *bytes = &b->tables[INDEX_BYTES];
	if (s.n > bytes->capacity - bytes->n) {
		bytes->full = true;
		return;
	}
	if (!t->n)
		t->at = (uint32_t)bytes->n;
	if (s.n)
		memcpy(bytes->items + bytes->n, s.p, s.n);
	t->n += (uint32_t)s.n;
	bytes->n += s.n;
}

static struct build_name *build_name_slot(struct build_name *names, size_t room, uint64_t offset)
{
	size_t i = (size_t)(offset * 0x9e3779b97f4a7c15ull >> 32) & (room - 1);
	while (names[i].number && names[i].offset != offset)
		i = (i + 1) & (room - 1);
	return &names[i];
}

uint32_t build_name(struct builder *b, uint64_t offset)
{
	static const unsigned attributes[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name };
	Dwarf_Die die;
	Dwarf_Attribute attribute;
	const char *name = NULL;
	if (offset >= b->sections[IN_INFO].n)
		return INDEX_NONE;
	if (2 * b->nnames >= b->names_room) {
		// At most half full, so that a look-up ends soon.
		size_t room = b->names_room ? 2 * b->names_room : 1024;
		struct build_name *names = mem_alloc(room * sizeof(*names));
		for (size_t i = 0; i < b->names_room; i++)
			if (b->names[i].number)
				*build_name_slot(names, room, b->names[i].offset) = b->names[i];
		free(b->names);
		b->names = names;
		b->names_room = room;
	}
	struct build_name *slot = build_name_slot(b->names, b->names_room, offset);
	if (slot->number)
		return slot->number - 1;
	if (!dwarf_offdie(b->dwarf, offset, &die))
		return INDEX_NONE;
	for (size_t i = 0; !name && i < ARRAY_SIZE(attributes); i++)
		if (dwarf_attr_integrate(&die, attributes[i], &attribute))
			name = dwarf_formstring(&attribute);
	struct index_text *text = name ? build_add(b, INDEX_NAMES) : NULL;
	if (!text)
		return INDEX_NONE;
	build_text(b, text, str_z(name));
	*slot = (struct build_name){ offset, build_count(b, INDEX_NAMES) };
	b->nnames++;
	return slot->number - 1;
}

/** The sections that are decoded here; false where one is in a form that this libelf cannot unpack. */
static bool find_sections(struct builder *b, Elf *elf)
{
	static const char *const names[BUILD_SECTIONS] = {
		[IN_INFO] = "debug_info", [IN_LINE] = "debug_line",         [IN_LINE_STR] = "debug_line_str",
		[IN_STR] = "debug_str",   [IN_RNGLISTS] = "debug_rnglists", [IN_RANGES] = "debug_ranges",
		[IN_ADDR] = "debug_addr",
	};
	size_t strings = 0;
	if (elf_getshdrstrndx(elf, &strings))
		return true;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header))
			continue;
		// Widens the code to a section's addresses.
		const uint64_t wanted = SHF_ALLOC | SHF_EXECINSTR;
		if (!((header.sh_flags & wanted) != wanted) && header.sh_size &&
		    !(header.sh_addr + header.sh_size < header.sh_addr)) {
			uint64_t end = header.sh_addr + header.sh_size;
			if (b->head->size && b->head->begin + b->head->size > end)
				end = b->head->begin + b->head->size;
			if (!b->head->size || header.sh_addr < b->head->begin)
				b->head->begin = header.sh_addr;
			b->head->size = end - b->head->begin;
		}
		const char *name = elf_strptr(elf, strings, header.sh_name);
		if (!name || (strncmp(name, ".debug_", 7) && strncmp(name, ".zdebug_", 8)))
			continue;
		if (header.sh_flags & SHF_COMPRESSED) {
			build_note(b, "section %s is compressed in a way that this libelf cannot unpack, or badly", name);
			return false;
		}
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; i < BUILD_SECTIONS; i++)
			if (data && data->d_buf && !strcmp(name + (name[1] == 'z' ? 2 : 1), names[i]))
				b->sections[i] = (struct str){ data->d_buf, data->d_size };
	}
	return true;
}

static bool has_debug(Elf *elf)
{
	size_t strings = 0;
	if (elf_getshdrstrndx(elf, &strings))
		return false;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, strings, header.sh_name) : NULL;
		if (name && header.sh_type != SHT_NOBITS && (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")))
			return true;
	}
	return false;
}

static uint64_t unit_number(Dwarf_Die *die, unsigned name, uint64_t otherwise)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;
	return dwarf_attr(die, name, &attribute) && !dwarf_formudata(&attribute, &value) ? value : otherwise;
}

static struct str unit_string(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	return str_z(dwarf_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL);
}

/** A unit, and its line table where it has one. */
struct job {
	struct build_unit unit;
	struct build_lines lines;
	uint64_t table; // UINT64_MAX: none
	bool good;      // its head was read, later its rows
};

struct jobs {
	VEC(struct job) list;
};

/** What all entries of a unit share: where its addresses and ranges count from, and its directory. */
static void begin_unit(struct job *j)
{
	struct build_unit *u = &j->unit;
	const uint64_t no_bases = u->version >= 5 ? u->offset_size == 8 ? 16 : 8 : 0;
	u->addr_base = unit_number(&u->die, DW_AT_addr_base, unit_number(&u->die, DW_AT_GNU_addr_base, no_bases));
	u->ranges_base = unit_number(&u->die, DW_AT_rnglists_base, no_bases ? no_bases + 4 : 0);
	if (dwarf_lowpc(&u->die, &u->low_pc))
		u->low_pc = 0;
	u->directory = unit_string(&u->die, DW_AT_comp_dir);
	// Functions of such a unit are in another file.
	struct str name = unit_string(&u->die, DW_AT_dwo_name);
	if (!name.n)
		name = unit_string(&u->die, DW_AT_GNU_dwo_name);
	if (name.n)
		build_note(u->b,
			   "the functions of its unit at 0x%llx are in " STR_FMT ", which is not read: it gives lines only",
			   (unsigned long long)u->offset, STR_ARG(name));
	j->table = unit_number(&u->die, DW_AT_stmt_list, UINT64_MAX);
	j->good = j->table == UINT64_MAX || build_files(u, j->table, &j->lines);
}

/** All units first, so that the two threads that decode them need not wait for libdw. */
static void list_units(struct builder *b, struct jobs *jobs)
{
	Dwarf_Off at = 0, next, abbreviations;
	size_t header;
	Dwarf_Half version;
	uint8_t address_size, offset_size;
	int end;
	while (!(end = dwarf_next_unit(b->dwarf, at, &next, &header, &version, &abbreviations, &address_size, &offset_size,
				       NULL, NULL))) {
		struct job j = { .unit = { .b = b,
					   .offset = at,
					   .entries = at + header,
					   .end = next,
					   .version = version,
					   .address_size = address_size,
					   .offset_size = offset_size } };
		const bool there = dwarf_offdie(b->dwarf, j.unit.entries, &j.unit.die);
		const int tag = there ? dwarf_tag(&j.unit.die) : DW_TAG_invalid;
		if (!there) {
			build_note(b, "unit at 0x%llx of .debug_info: %s", (unsigned long long)at, dwarf_errmsg(-1));
		} else if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit || tag == DW_TAG_partial_unit) {
			begin_unit(&j);
			vec_push(&jobs->list, j);
		}
		at = next;
	}
	if (end < 0)
		build_note(b, "unit at 0x%llx of .debug_info: %s", (unsigned long long)at, dwarf_errmsg(-1));
}

static void *run_programs(void *ctx)
{
	struct jobs *jobs = ctx;
	for (size_t i = 0; i < jobs->list.len; i++) {
		struct job *j = &jobs->list.data[i];
		if (j->lines.program.p)
			j->good &= build_rows(&j->unit, &j->lines);
	}
	return NULL;
}

/** A bit for each instruction that will be asked for. */
static void mark_wanted(struct builder *b, const struct lines_request *r)
{
	if (!r->addresses)
		return;
	const size_t words = b->head->size / 256 + 1;
	b->wanted = mem_alloc(words * sizeof(*b->wanted));
	for (size_t i = 0; i < r->n; i++) {
		uint64_t at = r->addresses[i] - b->head->begin;
		if (r->addresses[i] >= b->head->begin && at < b->head->size)
			b->wanted[at / 256] |= UINT64_C(1) << at / 4 % 64;
	}
	b->wanted_next = mem_alloc((words + 1) * sizeof(*b->wanted_next));
	b->wanted_next[words] = UINT32_MAX;
	for (size_t i = words; i-- > 0;)
		b->wanted_next[i] = b->wanted[i] ? (uint32_t)(256 * i) + 4 * (uint32_t)__builtin_ctzll(b->wanted[i]) :
						   b->wanted_next[i + 1];
}

static int build_by_begin(const void *a, const void *b)
{
	const struct index_sequence *x = a, *y = b;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

/** From the sections of a file to the index: the order matters, since ranges refer to scopes and rows to files. */
static void build_object(struct builder *b, Elf *elf, const struct lines_request *r)
{
	GElf_Ehdr header;
	if (!gelf_getehdr(elf, &header) || !has_debug(elf))
		return;
	if (header.e_type == ET_REL) {
		build_note(b, "the object is not linked, its addresses are not final");
		return;
	}
	b->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL); // which unpacks the sections
	if (!find_sections(b, elf))
		return;
	if (!b->dwarf || b->head->size > UINT32_MAX) {
		build_note(b, "%s", b->dwarf ? "its code has more than 4 GB" : dwarf_errmsg(-1));
		return;
	}
	mark_wanted(b, r);
	// Line tables and functions take about as long, and do not need each other.
	struct jobs jobs = { 0 };
	pthread_t thread;
	list_units(b, &jobs);
	bool apart = !pthread_create(&thread, NULL, run_programs, &jobs);
	for (size_t i = 0; i < jobs.list.len; i++)
		build_scopes(&jobs.list.data[i].unit);
	if (apart)
		pthread_join(thread, NULL);
	else
		run_programs(&jobs);
	for (size_t i = 0; i < jobs.list.len; i++)
		if (!jobs.list.data[i].good)
			build_note(b, "line table at 0x%llx of .debug_line: it is cut off or in no known form",
				   (unsigned long long)jobs.list.data[i].table);
	vec_free(&jobs.list);
	// They are in order but for units that the linker has mixed.
	struct index_sequence *s = (struct index_sequence *)b->tables[INDEX_SEQUENCES].items;
	size_t i = 1, n = b->tables[INDEX_SEQUENCES].n;
	while (i < n && s[i - 1].begin <= s[i].begin)
		i++;
	if (i < n)
		qsort(s, n, sizeof(*s), build_by_begin);
	build_segments(b);
}

void lines_build(void *room, size_t size, const void *ctx)
{
	const struct lines_request *r = ctx;
	struct builder b = { .head = room };
	// Each table has a fixed part of the room: rows are by far the most.
	static const unsigned sixteenths[INDEX_TABLES] = {
		[INDEX_SEQUENCES] = 1, [INDEX_ROWS] = 8,  [INDEX_SEGMENTS] = 2, [INDEX_SCOPES] = 2,
		[INDEX_FILES] = 1,     [INDEX_NAMES] = 1, [INDEX_BYTES] = 1,
	};
	uint64_t at = (sizeof(struct index_head) + 63) & ~UINT64_C(63);
	const uint64_t unit = (size - at) / 16 & ~UINT64_C(63);
	for (int t = 0; t < INDEX_TABLES; t++) {
		b.head->tables[t].at = at;
		b.tables[t].items = room + at;
		b.tables[t].capacity = unit * sixteenths[t] / index_item[t];
		at += unit * sixteenths[t];
	}
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory((char *)(uintptr_t)r->bytes.p, r->bytes.n);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		build_object(&b, elf, r);
	else
		build_note(&b, "this is not an ELF file");
	for (int t = 0; t < INDEX_TABLES; t++)
		if (b.tables[t].full)
			build_note(&b, "it is larger than its index may be");
	for (int t = 0; t < INDEX_TABLES; t++)
		b.head->tables[t].n = b.tables[t].n;
	// What was allocated goes with the process.
}
