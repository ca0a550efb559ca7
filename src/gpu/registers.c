// The table that tools/pack-registers makes: words of 32 bits, little-endian. At its head the magic number, its size in bytes and
// for each part where it begins (in words) and how many records it has: tables, registers, fields, names, relatives, strings.
// A string is a byte with its length and the text; it is named by its place among the strings.
#include "gpu/registers.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the table is mapped as it is");

enum part { PART_TABLES, PART_REGISTERS, PART_FIELDS, PART_NAMES, PART_RELATIVES, PART_STRINGS };

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

/** Versions that @table serves besides its own. */
struct relative {
	uint32_t ip, from, to, table, own;
};

struct packed_register {
	uint32_t name, offset, fields;
	uint32_t rest; // number of fields, base << 8, whether it is behind an index << 16
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

const struct register_table *register_table_for(struct str ip, unsigned major, unsigned minor, unsigned revision,
						bool *ret_exact)
{
	const unsigned numbers[] = { major, minor, revision };
	const struct ip_name *names = part(PART_NAMES);
	const struct relative *r = part(PART_RELATIVES);
	const struct register_table *best = NULL;
	uint32_t version = 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		version = version << 8 | (numbers[i] < 255 ? numbers[i] : 255);
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
			best = register_table_at(r[i].table);
		}
	}
	if (!related)
		exact = best && best->numbers == 2 && best->version >> 8 == version >> 8;
	if (ret_exact)
		*ret_exact = exact;
	return best;
}

size_t registers_count(const struct register_table *t) { return t->count; }

struct reg register_at(const struct register_table *t, size_t index)
{
	const struct packed_register *r = (const struct packed_register *)part(PART_REGISTERS) + t->first + index;
	return (struct reg){
		.name = table_string(r->name),
		.kind = r->rest >> 16 ? REGISTER_INDEX : REGISTER_MMIO,
		.offset = r->offset,
		.base = r->rest >> 8 & 0xff,
		.nfields = r->rest & 0xff,
		.table = t,
		.first = r->fields,
	};
}

bool register_find(const struct register_table *t, struct str name, struct reg *ret)
{
	const struct packed_register *r = (const struct packed_register *)part(PART_REGISTERS) + t->first;
	size_t from = 0, to = t->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = compare_names(table_string(r[middle].name), name);
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
