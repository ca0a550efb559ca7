// Registers by the names that people type.
#pragma once

#include "gpu/register/registers.h"
#include "gpu/silicon/silicon.h"

/** The IP block that a register belongs to. */
struct named_block {
	struct str name; // gc, mmhub1
	struct str ip;   // gc, mmhub
	unsigned instance;
};

/** A register that a name or a pattern means. */
struct named_register {
	struct named_block block;
	struct reg reg;
	bool addressed;   // it is a register of a GPU here, so its address is known
	uint32_t address; // in bytes
};

struct named_registers {
	struct named_register *data;
	size_t len, cap;
};

/** The register tables of a part. */
struct part_tables {
	struct part_table {
		struct named_block block;
		const struct register_table *table;
	} * data;
	size_t len, cap;
};

/** Why it is not read from a GPU, as a phrase; empty: nothing speaks against it. */
struct str register_unread(const struct reg *r);
/** The tables of gfx1100, or the one that mmhub_3_0_0 means. */
struct uh_error *part_tables_of(const struct know *k, struct str part, struct part_tables *ret);
/** The tables for a device without a register space, such as that of a device core. */
void part_tables_of_device(struct arena *a, const struct device *d, struct part_tables *ret);
/** Adds the registers that @name (`GRBM_STATUS`, `gc.GRBM_*`) means. Returns how many. */
size_t part_registers(const struct part_tables *p, struct str name, struct named_registers *to);
size_t named_device_registers(struct arena *a, const struct device *d, struct str name, struct named_registers *to);
/** `; near it: GRBM_STATUS, GRBM_STATUS2`: names of @all that are like @name; empty where there are none. */
struct str near_names(struct arena *a, const struct named_registers *all, struct str name);
