// The table that tools/pack-registers makes: words of 32 bits, little-endian. At its head the magic number, its size in bytes and
// for each part where it begins (in words) and how many records it has: tables, registers, the order of registers
// in the tables, fields, names, relatives, bases, strings.
// A string is a byte with its length and the text; it is named by its place among the strings.
#include "gpu/register/registers.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the table is mapped as it is");

enum part { PART_TABLES, PART_REGISTERS, PART_ORDER, PART_FIELDS, PART_NAMES, PART_RELATIVES, PART_BASES, PART_STRINGS };

struct register_table {
	uint32_t name, ip, version;
	uint32_t numbers; // how many its version has: that of `gc_9_0` has two and means every revision
	uint32_t first, count;
	uint32_t from;
};

/** `NBIF` has the tables of `nbio`. */
struct ip_name {
	uint32_t name, ip;
};

/** Versions that @table serves besides its own; UINT32_MAX: none does. */
struct relative {
	uint32_t ip, from, to, table, own;
};

struct usual_bases {
	uint32_t ip, from, to, n;
	uint32_t bases[4];
};

/** Tables share what is alike in them. */
struct packed_register {
	uint32_t what; // name, base << 22, kind << 26, whether it acts << 28, whether it may be off << 29
	uint32_t offset;
	uint32_t fields; // the first one, their number << 20
};

static const void *part(enum part p) { return register_data + register_data[2 + 2 * p]; }
static size_t part_count(enum part p) { return register_data[3 + 2 * p]; }

static struct str table_string(uint32_t at)
{
	const unsigned char *s = (const unsigned char *)part(PART_STRINGS) + at;
	return (struct str){ (const char *)s + 1, *s };
}

/** In the order of the table, which knows no capital letters. */
static int compare_names(struct str a, struct str b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++)
		if (char_lower(a.p[i]) != char_lower(b.p[i]))
			return (unsigned char)char_lower(a.p[i]) < (unsigned char)char_lower(b.p[i]) ? -1 : 1;
	return a.n < b.n ? -1 : a.n > b.n;
}

size_t register_tables(void) { return part_count(PART_TABLES); }

const struct register_table *register_table_at(size_t index)
{
	return (const struct register_table *)part(PART_TABLES) + index;
}

struct str register_table_name(const struct register_table *t) { return table_string(t->name); }
struct str register_table_ip(const struct register_table *t) { return table_string(t->ip); }
struct str register_table_from(const struct register_table *t) { return table_string(t->from); }

static uint32_t version_number(unsigned major, unsigned minor, unsigned revision)
{
	const unsigned numbers[] = { major, minor, revision };
	uint32_t version = 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		version = version << 8 | (numbers[i] < 255 ? numbers[i] : 255);
	return version;
}

size_t register_usual_bases(struct str ip, unsigned major, unsigned minor, unsigned revision, const uint32_t **ret)
{
	const struct usual_bases *b = part(PART_BASES);
	const uint32_t version = version_number(major, minor, revision);
	for (size_t i = 0; i < part_count(PART_BASES); i++)
		if (version >= b[i].from && version <= b[i].to && !compare_names(table_string(b[i].ip), ip)) {
			*ret = b[i].bases;
			return b[i].n;
		}
	return 0;
}

const struct register_table *register_table_for(struct str ip, unsigned major, unsigned minor, unsigned revision,
						bool *ret_exact)
{
	const struct ip_name *names = part(PART_NAMES);
	const struct relative *r = part(PART_RELATIVES);
	const struct register_table *best = NULL;
	const uint32_t version = version_number(major, minor, revision);
	for (size_t i = 0; i < part_count(PART_NAMES); i++)
		if (!compare_names(table_string(names[i].name), ip)) {
			ip = table_string(names[i].ip);
			break;
		}
	// The newest of the same major version that is not newer.
	for (size_t i = 0; i < register_tables(); i++) {
		const struct register_table *t = register_table_at(i);
		if (t->version >> 16 == version >> 16 && t->version <= version && (!best || t->version > best->version) &&
		    !compare_names(table_string(t->ip), ip))
			best = t;
	}
	bool exact = best && best->version == version, related = exact;
	for (size_t i = 0; i < part_count(PART_RELATIVES) && !related; i++) {
		related = version >= r[i].from && version <= r[i].to && !compare_names(table_string(r[i].ip), ip);
		if (related) {
			exact = r[i].own;
			best = r[i].table == UINT32_MAX ? NULL : register_table_at(r[i].table);
		}
	}
	if (!related)
		exact = best && best->numbers == 2 && best->version >> 8 == version >> 8;
	if (ret_exact)
		*ret_exact = exact;
	return best;
}

size_t registers_count(const struct register_table *t) { return t->count; }

static const struct packed_register *packed_at(const struct register_table *t, size_t index)
{
	const uint32_t *order = (const uint32_t *)part(PART_ORDER) + t->first;
	return (const struct packed_register *)part(PART_REGISTERS) + order[index];
}

static struct str packed_name(const struct packed_register *r) { return table_string(r->what & 0x3fffff); }

struct reg register_at(const struct register_table *t, size_t index)
{
	const struct packed_register *r = packed_at(t, index);
	return (struct reg){
		.name = packed_name(r),
		.kind = (enum register_kind)(r->what >> 26 & 3),
		.offset = r->offset,
		.base = r->what >> 22 & 15,
		.acts = r->what >> 28 & 1,
		.may_be_off = r->what >> 29 & 1,
		.nfields = r->fields >> 20,
		.table = t,
		.first = r->fields & 0xfffff,
	};
}

bool register_find(const struct register_table *t, struct str name, struct reg *ret)
{
	size_t from = 0, to = t->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = compare_names(packed_name(packed_at(t, middle)), name);
		if (!order) {
			*ret = register_at(t, middle);
			return true;
		}
		if (order < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

struct reg_field register_field(const struct reg *r, size_t index)
{
	uint32_t f = ((const uint32_t *)part(PART_FIELDS))[r->first + index];
	return (struct reg_field){ .name = table_string(f >> 10), .low = f >> 5 & 0x1f, .bits = (f & 0x1f) + 1 };
}

bool register_field_find(const struct reg *r, struct str name, struct reg_field *ret)
{
	for (size_t i = 0; i < r->nfields; i++) {
		*ret = register_field(r, i);
		if (!compare_names(ret->name, name))
			return true;
	}
	return false;
}
