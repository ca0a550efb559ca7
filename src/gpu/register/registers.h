// The registers of AMD's GPUs. The tables are text in knowledge/registers/. The build makes one binary table of them, which is part of
// the program: it is mapped, not parsed.
#pragma once

#include "base/str.h"

enum register_kind {
	REGISTER_MMIO,  // at bases[base] + offset of its IP block, in words of 32 bits
	REGISTER_INDEX, // reached through an index register (SQ_WAVE_STATUS) that no file of the driver offers; the offset is the index
	REGISTER_BUS,   // the same as MMIO, on the internal bus (SMN): the driver reaches it through an index register of PCIe
	REGISTER_DIDT,  // reached through the index register of the current limiter
};
/** In the place of a base: the offset counts from nothing. */
enum { REGISTER_ABSOLUTE = 15 };

/** That table, as tools/pack-registers makes it; registers.c says what is where. */
extern const uint32_t register_data[];

/** The registers of an IP block of one version, as the driver's headers have them. */
struct register_table;

struct reg {
	struct str name; // without reg, mm or ix: GRBM_STATUS
	enum register_kind kind;
	uint32_t offset; // words
	unsigned base;   // which of the block's base addresses
	bool acts;       // reading it changes something: takes a semaphore, advances an index
	bool may_be_off; // its block may be without power while the GPU is awake
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
/** `gc`, `sdma0`, `mmhub`. Its version: a header with two numbers in its name, `gc_9_0`, has revision 0. */
struct str register_table_ip(const struct register_table *t);
/** The block whose bases the offsets count from, whichever block the table serves (`gc`, where SDMA's registers are in its table); empty:
 * the block that the table was asked for. */
struct str register_table_from(const struct register_table *t);
/** The table for a block, by its version and its name, which is that of ip_discovery or that of the tables, in upper or lower case. If it
 * has none of its own: the one that knowledge/registers/relatives names, or the newest older one of the same major version. NULL: there
 * is none. *@ret_exact, which may be NULL: it is its own. */
const struct register_table *register_table_for(struct str ip, unsigned major, unsigned minor, unsigned revision,
						bool *ret_exact);

/** The base addresses that a block of this version has on every GPU that is known, in words; how many. 0: they differ, or nobody knows. */
size_t register_usual_bases(struct str ip, unsigned major, unsigned minor, unsigned revision, const uint32_t **ret);

size_t registers_count(const struct register_table *t);
/** By index. Registers are sorted by name, ignoring case. */
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
