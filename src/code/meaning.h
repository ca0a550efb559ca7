// What an instruction does: the kind of access, and which registers hold its address and its data. What is known of each
// mnemonic is a table in knowledge/instructions.know.
#pragma once

#include "base/arena.h"
#include "knowledge/know.h"

/** Registers of an operand: v[2:3] is { 'v', 2, 2 }. */
struct operand {
	char bank;      // 'v', 's', 'a'; 'x' for exec, vcc, m0 and the like by name; 0: it has none
	unsigned first; // of the bank
	unsigned count; // 32-bit registers
	struct str name;
};

struct meaning {
	const struct know_instruction *what; // the row of the table; NULL: a mnemonic that is not in it
	struct str mnemonic;
	struct operand address; // VGPRs (or SGPRs of a scalar access) that hold the address or its offset
	struct operand base;    // SGPRs that are added to it; a descriptor of four for buffer accesses
	struct operand offset;  // a scalar register that is added (soffset, s_load's offset register)
	struct operand data;    // that is stored, or loaded into
	int64_t immediate;      // that is added
	bool offen, idxen;      // of buffer accesses: VGPRs hold an offset, an index
	unsigned bytes;         // of one lane's access; 0: not known
};

/** Takes the text of an instruction apart. false where nothing is known of it. */
bool meaning_of(const struct know *k, struct str text, struct meaning *ret);

/** Registers of a wave, as whoever has the wave gives them. */
struct meaning_registers {
	/** false where the register is not known. SGPRs and named ones have lane 0 only. */
	bool (*read)(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret);
	bool (*read_named)(void *ctx, struct str name, uint64_t *ret); // exec, vcc, m0, flat_scratch, ttmp...
	void *ctx;
	uint64_t scratch_base, lds_base; // apertures; 0: not known
};

struct lane_address {
	unsigned lane; // 0 for a scalar access
	uint64_t address;
};

enum { MEANING_LANES = 64 };

/** The address that each active lane accesses; 0 where it cannot be known. */
size_t meaning_addresses(const struct meaning *m, const struct meaning_registers *r, uint64_t exec, unsigned lanes,
			 struct lane_address ret[static MEANING_LANES]);
