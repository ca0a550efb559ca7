// Builds the index of lines.h, in the child. libdw opens the file, unpacks its sections, and reads units, abbreviations and names.
// The three parts whose size grows with the code (line programs, entries, ranges) are decoded here. libdw takes ten times as long
// for them: it makes an object of each row, and looks up each attribute separately.
#pragma once

#include <elfutils/libdw.h>

#include "base/arena.h"
#include "code/lines/lines.h"

// The index behind lines.h: flat tables in one piece of memory. A child process fills it and its parent reads it. A hostile file may
// have taken over the child, so the parent checks everything in here before it uses it.
enum { INDEX_NONE = UINT32_MAX };

// Addresses count from the beginning of the object's code.
struct index_sequence { // sorted by begin; not overlapping in good files
	uint32_t begin, end;
	uint32_t row, nrows;
};

struct index_row { // sorted by address inside its sequence
	uint32_t at, line, file;
	uint32_t column;
};

struct index_segment { // sorted; the code from here to the next one is of this scope
	uint32_t at, scope;
};

struct index_scope { // a function, or one that was inlined into its parent; the parent comes first
	uint32_t parent, name;
	uint32_t call_file, call_line, call_column;
};

struct index_text {
	uint32_t at, n;
};

enum index_table {
	INDEX_SEQUENCES,
	INDEX_ROWS,
	INDEX_SEGMENTS,
	INDEX_SCOPES,
	INDEX_FILES, // index_text
	INDEX_NAMES, // index_text
	INDEX_BYTES,
	INDEX_TABLES
};

struct index_head {
	uint64_t begin, size; // of the object's code
	struct {
		uint64_t at, n;
	} tables[INDEX_TABLES];
	struct index_text note; // what could not be read
};

static const size_t index_item[INDEX_TABLES] = {
	[INDEX_SEQUENCES] = sizeof(struct index_sequence),
	[INDEX_ROWS] = sizeof(struct index_row),
	[INDEX_SEGMENTS] = sizeof(struct index_segment),
	[INDEX_SCOPES] = sizeof(struct index_scope),
	[INDEX_FILES] = sizeof(struct index_text),
	[INDEX_NAMES] = sizeof(struct index_text),
	[INDEX_BYTES] = 1,
};

/** Checks the index in @room and opens it. false: it is not a sound index. @room must outlive *ret. */
bool lines_of_index(const void *room, size_t size, struct code_lines **ret);

struct lines_request {
	struct str bytes;          // the ELF file
	const uint64_t *addresses; // NULL: all
	size_t n;
};

/** The child's work: @ctx is a struct lines_request, @room is zeroed. */
void lines_build(void *room, size_t size, const void *ctx);

enum build_section { IN_INFO, IN_LINE, IN_LINE_STR, IN_STR, IN_RNGLISTS, IN_RANGES, IN_ADDR, BUILD_SECTIONS };

struct build_range {
	uint32_t begin, end, scope;
};

/** How far a table is filled. Two threads fill tables, so each of these has its own cache line. */
struct build_table {
	_Alignas(64) char *items;
	size_t n, capacity;
	bool full;
};

/** The name of an entry of .debug_info. */
struct build_name {
	uint64_t offset;
	uint32_t number; // the name's number + 1; 0: the slot is empty
};

struct builder {
	struct index_head *head;
	struct build_table tables[INDEX_TABLES];
	struct str sections[BUILD_SECTIONS];
	Dwarf *dwarf;
	uint64_t *wanted;               // a bit for each four bytes of code; NULL: all
	uint32_t *wanted_next;          // for each word of @wanted, the first wanted address from there on; UINT32_MAX: none
	struct build_name *names;       // of entries, by their offsets
	size_t nnames, names_room;      // a power of two
	VEC(struct build_range) ranges; // an inner range comes after the one that it lies in
};

struct build_unit {
	struct builder *b;
	uint64_t offset, entries, end; // in .debug_info
	unsigned version, address_size, offset_size;
	uint64_t addr_base, ranges_base, low_pc;
	Dwarf_Die die;
	struct str directory;
	uint32_t first_file, nfiles; // of its line table, in the index
	unsigned file_base;          // the number of its first file
};

/** Notes what could not be read; only the first note is kept. */
void build_note(struct builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** A new item of a table, zeroed, or NULL where it is full. */
static inline void *build_add(struct builder *b, enum index_table t)
{
	struct build_table *table = &b->tables[t];
	table->full |= table->n == table->capacity;
	return table->full ? NULL : table->items + table->n++ * index_item[t];
}
static inline uint32_t build_count(const struct builder *b, enum index_table t) { return (uint32_t)b->tables[t].n; }
/** Appends bytes to @t, which must be the last text that was begun. */
void build_text(struct builder *b, struct index_text *t, struct str s);
/** The number of the name of the function whose entry is at @offset. */
uint32_t build_name(struct builder *b, uint64_t offset);
/** The index's number for a unit's file. */
static inline uint32_t build_file(const struct build_unit *u, uint64_t file)
{
	return file >= u->file_base && file - u->file_base < u->nfiles ? u->first_file + (uint32_t)(file - u->file_base) :
									 INDEX_NONE;
}
/** The first address at or after @at (rounded down to four bytes) that will be asked for; UINT32_MAX: none. */
static inline uint32_t build_next(const struct builder *b, uint32_t at)
{
	const uint32_t from = at & ~UINT32_C(3);
	if (!b->wanted)
		return from;
	const uint64_t word = b->wanted[at / 256] >> at / 4 % 64;
	return word ? from + 4 * (uint32_t)__builtin_ctzll(word) : b->wanted_next[at / 256 + 1];
}
/** Whether an address from @begin up to @end will be asked for. Both lie in the code; @end is not included. */
static inline bool build_wants(const struct builder *b, uint32_t begin, uint32_t end) { return build_next(b, begin) < end; }

/** A place in a section. Reading past the end makes it bad; from then on it gives zeros. */
struct lines_cursor {
	const uint8_t *p, *end;
	bool bad;
};

/** A unit's line table. */
struct build_lines {
	unsigned version, offset_size;
	uint8_t instruction, line_range, opcode_base;
	int8_t line_base;
	uint8_t lengths[256]; // of the standard opcodes
	struct lines_cursor program;
};

/** Reads the head of the line table at @offset, and its files. false: it is bad. */
bool build_files(struct build_unit *u, uint64_t offset, struct build_lines *ret);
/** Reads its rows. Touches only the tables of rows and sequences, since another thread fills the others. false: it is bad. */
bool build_rows(const struct build_unit *u, const struct build_lines *l);
void build_scopes(struct build_unit *u);

static inline struct lines_cursor cursor_at(struct str s, uint64_t from, uint64_t to)
{
	if (from > to || to > s.n)
		return (struct lines_cursor){ NULL, NULL, true };
	return (struct lines_cursor){ (const uint8_t *)s.p + from, (const uint8_t *)s.p + to, false };
}

static inline void cursor_skip(struct lines_cursor *c, uint64_t n)
{
	if (n > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		c->p = c->end;
	} else {
		c->p += n;
	}
}

static inline uint64_t cursor_number(struct lines_cursor *c, unsigned size)
{
	uint64_t v = 0;
	if (size > 8 || size > (size_t)(c->end - c->p)) {
		cursor_skip(c, UINT64_MAX);
		return 0;
	}
	memcpy(&v, c->p, size); // AMDGPU is little-endian, and so is what unhang runs on
	c->p += size;
	return v;
}

static inline uint8_t cursor_byte(struct lines_cursor *c)
{
	if (c->p == c->end) {
		c->bad = true;
		return 0;
	}
	return *c->p++;
}

static inline uint64_t cursor_leb(struct lines_cursor *c)
{
	uint64_t v = 0;
	uint32_t word;
	if (c->end - c->p >= (ptrdiff_t)sizeof(word)) { // most have up to three bytes
		memcpy(&word, c->p, sizeof(word));
		const unsigned n = !(word & 0x80) ? 1 : !(word & 0x8000) ? 2 : !(word & 0x800000) ? 3 : 0;
		c->p += n;
		if (n == 1)
			return word & 0x7f;
		if (n == 2)
			return (word & 0x7f) | (word >> 1 & 0x3f80);
		if (n == 3)
			return (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000);
	}
	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = cursor_byte(c);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
}

static inline int64_t cursor_sleb(struct lines_cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0;;) {
		uint8_t byte = cursor_byte(c);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80))
			return (int64_t)(shift < 64 && byte & 0x40 ? v | ~UINT64_C(0) << shift : v);
	}
}

static inline struct str cursor_z(struct lines_cursor *c)
{
	const uint8_t *nul = c->p < c->end ? memchr(c->p, 0, (size_t)(c->end - c->p)) : NULL;
	if (!nul) {
		cursor_skip(c, UINT64_MAX);
		return (struct str){ 0 };
	}
	struct str s = { (const char *)c->p, (size_t)(nul - c->p) };
	c->p = nul + 1;
	return s;
}
