// What an instruction does: the kind of access, and which registers hold its address and its data. What is known of each
// mnemonic is a table in knowledge/instructions.know; its text is LLVM's.
#pragma once

#include "base/arena.h"
#include "code/disassemble/disassemble.h"
#include "knowledge/know.h"

/** Registers of an operand: v[2:3] is { 'v', 2, 2 }. */
struct operand {
	char bank;      // 'v', 's', 'a'; 'x': exec, vcc, m0, ttmp and the like, by name; 0: no register (off, null, a number)
	unsigned first; // number of the first register in the bank; for ttmp[4:5] too
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
	struct operand data;    // what is stored, or loaded into; for arithmetic, what it writes
	struct operand data2;   // the second, of instructions that have two
	struct operand result;  // where an atomic returns the old value
	int64_t immediate;      // a number that is added to the address
	int64_t immediate2;     // the same for the second access of a pair
	bool offen, idxen;      // buffer accesses: VGPRs hold an offset, an index
	bool scaled;            // the offset is in units of the access (gfx1250)
	bool gds;               // global data share instead of LDS
	bool checked; // the hardware compares it with the size in a descriptor: an access outside does nothing and does not fault
	bool understood; // its operands are where the table says; false: the text is cut off, or the form is not known
	unsigned bytes;  // of one lane's access; 0: not known
};

/** Takes the text of an instruction apart. *ret points into @text. false: nothing is known of it. */
bool meaning_of(const struct know *k, struct str text, struct meaning *ret);
/** Whether it reads, writes or prefetches memory at an address. */
static inline bool meaning_accesses(const struct meaning *m)
{
	return m->what && m->what->space != SPACE_NONE && m->what->act <= ACT_PREFETCH;
}
/** What it does, in words: "loads 16 bytes per lane from global memory at v[2:3]+16 into v[4:7]". */
struct str meaning_say(struct arena *a, const struct know *k, const struct meaning *m);
/** Whether a wave waits at this instruction, and for what: "vector memory loads (vmcnt 0)". */
bool meaning_waits(struct arena *a, const struct meaning *m, struct str *ret_for);
/** Whether a wave that stands here waits for memory: it accesses it, or waits for a counter of accesses. */
bool meaning_waits_memory(const struct know *k, const struct meaning *m);
/** Whether it waits until one of @counters is 0. */
bool meaning_waits_down(const struct meaning *m, const struct know_list *counters);

// --- addresses (access.c) ---

/** The registers of a wave, read through callbacks of whoever has the wave. */
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
	bool outside; // certainly outside of its buffer: nothing was accessed
};

enum { MEANING_LANES = 64 };

/** The address that each active lane accesses, as the instruction computes it: for LDS and scratch that is an offset. Lanes whose
 * registers are not known are left out; 0: no address is known. The second access of a pair lies immediate2 - immediate further
 * on. */
size_t meaning_addresses(const struct meaning *m, const struct meaning_registers *r, uint64_t exec, unsigned lanes,
			 struct lane_address ret[static MEANING_LANES]);
/** The kind of memory at @address: a flat access may lie in the aperture of LDS or scratch. */
enum know_space meaning_space(const struct meaning *m, const struct meaning_registers *r, uint64_t address);

// --- the code around a pc (window.c) ---

/** An access that may have caused a fault. */
struct meaning_candidate {
	size_t index;
	struct meaning meaning;
	bool clobbered;    // its address registers may hold something else by now
	bool overwritten;  // it loads into its own address registers: they hold the address only until the load returns
	bool exec_changed; // other lanes may be active by now
	bool waited;       // it had surely ended before the pc
};

enum { MEANING_CANDIDATES = 8 };

/** A fault is reported late, some instructions behind the access. Finds the accesses among the @n instructions before the pc that may
 * have caused it, nearest first. The search ends where control may come from elsewhere. @spaces: 1 << SPACE_GLOBAL | ... */
size_t meaning_candidates(const struct know *k, const struct instruction *before, size_t n, unsigned spaces,
			  struct meaning_candidate ret[static MEANING_CANDIDATES]);

/** What a wave that does not move waits for. */
struct meaning_parked {
	size_t index; // of the instruction that waits
	struct meaning meaning;
	struct str waits_for;
	struct str waits_here; // the same of one that was seen not to leave the instruction, so that it is in no loop
	bool loops;            // the instruction lies in a loop
	bool polls;            // the loop loads from memory, at the instruction @polled
	size_t polled;
};

/** Whether a wave waits whose pc is at instruction @at of @code. In a barrier or asleep, its pc may be one instruction ahead. */
bool meaning_parked(struct arena *a, const struct know *k, const struct instruction *code, size_t n, size_t at,
		    struct meaning_parked *ret);
