// The registers of AMD's GPUs. The tables are text in knowledge/registers/; the build makes one table of them that is part of the
// program and is mapped with it, not parsed.
#pragma once

#include "base/str.h"

enum register_kind {
	REGISTER_MMIO,  // at bases[base] + offset of its IP block, in words of 32 bits
	REGISTER_INDEX, // reached through an index register (SQ_WAVE_STATUS); the offset is the index
};

/** That table, as tools/pack-registers makes it; registers.c says what is where. */
extern const uint32_t register_data[];

/** The registers of an IP block of one version, as the driver's headers have them. */
struct register_table;

struct reg {
	struct str name; // without reg, mm or ix: GRBM_STATUS
	enum register_kind kind;
	uint32_t offset; // words
	unsigned base;   // which of the block's base addresses
	size_t nfields;
	const struct register_table *table;
	uint32_t first; // inside the table
};

struct reg_field {
	struct str name;
	unsigned low, bits;
};

/** The tables, in the order of their names. */
size_t register_tables(void);
const struct register_table *register_table_at(size_t index);
/** `gc_11_0_0`, as the header is called. */
struct str register_table_name(const struct register_table *t);
/** `gc`, `sdma0`, `mmhub`; and the version (a header that is called by two numbers, `gc_9_0`, has revision 0). Offsets count from the
 * bases of the block that the table was asked for; only those of SDMA from gfx10 on, which is in `gc`, from GC's. */
struct str register_table_ip(const struct register_table *t);
void register_table_version(const struct register_table *t, unsigned ret[3]);
/** The table for a block, by the name that ip_discovery gives it or by that of its tables, in upper or lower case, and its version: its
 * own, or as knowledge/registers/relatives says, or the newest of the same major version that is not newer. *@ret_exact: it is its own;
 * it may be NULL. NULL where there is none. */
const struct register_table *register_table_for(struct str ip, unsigned major, unsigned minor, unsigned revision,
						bool *ret_exact);

size_t registers_count(const struct register_table *t);
/** In the order of names, which knows no capital letters. */
struct reg register_at(const struct register_table *t, size_t index);
/** By its exact name, in upper or lower case. */
bool register_find(const struct register_table *t, struct str name, struct reg *ret);
/** In the order of their bits. */
struct reg_field register_field(const struct reg *r, size_t index);
bool register_field_find(const struct reg *r, struct str name, struct reg_field *ret);

static inline uint32_t field_mask(const struct reg_field *f)
{
	return (f->bits >= 32 ? UINT32_MAX : (UINT32_C(1) << f->bits) - 1) << f->low;
}
static inline uint32_t field_of(const struct reg_field *f, uint32_t value) { return (value & field_mask(f)) >> f->low; }
static inline uint32_t field_put(const struct reg_field *f, uint32_t value, uint32_t number)
{
	return (value & ~field_mask(f)) | (number << f->low & field_mask(f));
}
