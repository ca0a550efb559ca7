// What an instruction does: the kind of access, and which registers hold its address and its data. What is known of each
// mnemonic is a table in knowledge/instructions.know; its text is LLVM's.
#pragma once

#include "base/arena.h"
#include "code/disassemble/disassemble.h"
#include "knowledge/know.h"

/** Registers of an operand: v[2:3] is { 'v', 2, 2 }. */
struct operand {
	char bank;      // 'v', 's', 'a'; 'x' for exec, vcc, m0, ttmp and the like by name; 0: it has none (off, null, a number)
	unsigned first; // of the bank; of ttmp[4:5] too
	unsigned count; // 32-bit registers
	struct str name;
};

struct meaning {
	const struct know_instruction *what; // the row of the table; NULL: a mnemonic that is not in it
	struct str mnemonic;
	struct str operands;    // as they stand in the text, with what follows them
	struct str modifiers;   // what follows them: offset:16 glc
	struct operand address; // VGPRs (or SGPRs of a scalar access) that hold the address or its offset
	struct operand base;    // SGPRs that are added to it; a descriptor of four for buffer accesses
	struct operand offset;  // a scalar register that is added (soffset, s_load's offset register)
	struct operand data;    // that is stored, or loaded into; of arithmetic what it writes
	struct operand data2;   // of those that have two
	struct operand result;  // where an atomic returns the old value
	int64_t immediate;      // that is added
	int64_t immediate2;     // of the second access of a pair
	bool offen, idxen;      // of buffer accesses: VGPRs hold an offset, an index
	bool scaled;            // the offset is in units of the access (gfx1250)
	bool gds;               // global data share instead of LDS
	bool checked;           // held against the size in a descriptor: outside of it nothing is accessed, and nothing faults
	bool understood; // its operands are where the table says; false: text that is cut off, or a form that is not known
	unsigned bytes;  // of one lane's access; 0: not known
};

/** Takes the text of an instruction apart; what is returned points into it. false where nothing is known of it. */
bool meaning_of(const struct know *k, struct str text, struct meaning *ret);
/** Whether it reads, writes or prefetches memory at an address. */
static inline bool meaning_accesses(const struct meaning *m)
{
	return m->what && m->what->space != SPACE_NONE && m->what->act <= ACT_PREFETCH;
}
/** A verb and what belongs to it: "loads 16 bytes per lane from global memory at v[2:3]+16 into v[4:7]". */
struct str meaning_say(struct arena *a, const struct know *k, const struct meaning *m);
/** Whether a wave at it waits, and for what: "vector memory loads (vmcnt 0)". */
bool meaning_waits(struct arena *a, const struct meaning *m, struct str *ret_for);
/** Whether it waits until one of @counters is 0. */
bool meaning_waits_down(const struct meaning *m, const struct know_list *counters);

// --- addresses (access.c) ---

/** Registers of a wave, as whoever has the wave gives them. */
struct meaning_registers {
	/** false where the register is not known. SGPRs and named ones have lane 0 only. */
	bool (*read)(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret);
	/** exec, vcc, flat_scratch, xnack_mask (64 bits, never by halves), m0, ttmp4, ... */
	bool (*read_named)(void *ctx, struct str name, uint64_t *ret);
	void *ctx;
	uint64_t scratch_base, lds_base; // apertures; 0: not known
};

struct lane_address {
	unsigned lane; // 0 for a scalar access
	uint64_t address;
	bool outside; // of its buffer, for certain: nothing was accessed
};

enum { MEANING_LANES = 64 };

/** The address that each active lane accesses, as the instruction makes it: into LDS and scratch it is an offset. Lanes whose
 * registers are not known are left out; 0 where none can be known. The second access of a pair lies immediate2 - immediate
 * behind. */
size_t meaning_addresses(const struct meaning *m, const struct meaning_registers *r, uint64_t exec, unsigned lanes,
			 struct lane_address ret[static MEANING_LANES]);
/** The memory that @address of this access lies in: a flat one may lie in the aperture of LDS or scratch. */
enum know_space meaning_space(const struct meaning *m, const struct meaning_registers *r, uint64_t address);

// --- the code around a pc (window.c) ---

/** An access that a fault may be of. */
struct meaning_candidate {
	size_t index;
	struct meaning meaning;
	bool clobbered;    // its address registers may hold something else by now
	bool overwritten;  // it loads over its own address, which holds only while it has not returned
	bool exec_changed; // other lanes may be active by now
	bool waited;       // it surely had ended before the pc
};

enum { MEANING_CANDIDATES = 8 };

/** A fault is reported late: the accesses in @before, the instructions up to the pc, that may be the one, nearest first. The
 * search ends where control may come from elsewhere. @spaces: 1 << SPACE_GLOBAL | ... */
size_t meaning_candidates(const struct know *k, const struct instruction *before, size_t n, unsigned spaces,
			  struct meaning_candidate ret[static MEANING_CANDIDATES]);

/** What a wave that does not move waits for. */
struct meaning_parked {
	size_t index; // of the instruction that waits
	struct meaning meaning;
	struct str waits_for;
	bool loops; // the instruction lies in a loop
	bool polls; // that loads from memory: from @polled
	size_t polled;
};

/** Whether a wave whose pc is at @at of @code waits. A wave in a barrier or asleep may have a pc that is one instruction ahead. */
bool meaning_parked(struct arena *a, const struct know *k, const struct instruction *code, size_t n, size_t at,
		    struct meaning_parked *ret);
