// What is known of a wave, whatever the source: a core, a live GPU, the text of a debugger.
#pragma once

#include "base/arena.h"
#include "gpu/target.h"

struct queue;
struct target;

enum { WAVE_LANES = 64 };

/** A register, as far as the evidence has it. */
struct wave_register {
	struct str group, name; // as the evidence calls them
	char bank;              // 's', 'v' or 'a': it is register @number of that bank; 0: it has only a name
	unsigned number;
	unsigned digits; // hexadecimal, of each value
	size_t n;        // lanes, or 1
	uint64_t *data;  // UINT64_MAX: a lane that is not known
};

/** Registers of one wave. Its owner frees it with vec_free(). What the registers point to lies in the owner's arena. */
struct register_set {
	struct wave_register *data;
	size_t len, cap;
};

/** Adds @r. Its bank and number are taken from its name: v12. */
void wave_register_add(struct register_set *to, struct wave_register r);
/** The register of this number in the bank; NULL where it is not known. */
const struct wave_register *wave_register_at(const struct register_set *s, char bank, unsigned number);
/** The register of this name: exec, vcc, ttmp4; NULL where it is not known. */
const struct wave_register *wave_register_named(const struct register_set *s, struct str name);
/** Room for lanes, none of them known. */
uint64_t *wave_register_lanes(struct arena *a);

static inline bool lane_known(const struct wave_register *r, unsigned lane)
{
	return lane < r->n && r->data[lane] != UINT64_MAX;
}

// --- a wave ---

enum { WAVE_HWREGS = 24, WAVE_TTMPS = 16 };
enum { SGPR_TTMPS = 108 };  // the number under which the GPU shows the first of these as an SGPR
enum { SHARED_LANES = 32 }; // of VGPRs that two halves of a wave share

/** Where a block of a wave's registers lies. */
struct wave_block {
	uint64_t address;
	unsigned count; // of 32-bit registers (of each lane), or bytes
	bool vector;    // of a wave on the GPU: VGPRs, else SGPRs
	size_t wave;    // id of a wave on the GPU: the address counts inside its registers. 0: the block lies in memory
	bool unread;    // its size is known, but there is no way to read it
};

/** Where a wave is on the GPU. */
struct wave_slot {
	bool known;
	unsigned xcc, se, sh, cu, simd, slot; // from gfx10 on cu is a WGP
	unsigned vmid, me, pipe, queue;
};

/** A unit that was looked at: a CU, from gfx10 on a WGP. */
struct wave_unit {
	unsigned xcc, se, sh, cu;
	bool there; // else it was switched off in the factory
};

/** What was seen in it. */
struct unit_seen {
	struct wave_unit at;
	bool wgp;                      // it is two CUs
	size_t waves, caught, barrier; // caught: it stood still, or stayed in a loop, and at no barrier
	uint64_t pc;                   // of one that was caught, or else of any
};

struct wave {
	size_t id;                 // 1, 2, ... in the order of the target
	const struct queue *queue; // NULL: of a wave on the GPU, whose queue is not known
	struct wave_slot slot;
	const struct wave_layout *layout;
	unsigned xcc, se;
	uint64_t pc, exec;
	uint64_t at; // the instruction that it is at: the pc, or the trap before it
	unsigned lanes;
	bool first, last; // of its workgroup
	bool placed;      // workgroup and wave_in_group are known
	bool dispatched;  // packet is known
	uint32_t workgroup[3];
	unsigned wave_in_group;
	uint64_t packet; // index of its dispatch in the queue
	bool stopped;    // by the trap handler; false: it was running when the queue was taken off the GPU
	bool halted, parked, fatal_halt;
	bool idle, in_trap, trap_pending; // of a wave on the GPU; in_trap: it runs the trap handler
	bool barrier_known, in_barrier;   // known: the status tells
	bool no_vgprs;                    // it had given them back
	uint32_t stop_reasons;            // bits of enum stop_reason
	unsigned trap;                    // id, where it stopped at a trap
	bool scratch;
	bool stood; // it was looked at several times, and never moved
	bool memory_idle; // and the path to memory was idle at every look
	uint32_t hwregs[WAVE_HWREGS], ttmps[WAVE_TTMPS];
	struct wave_block sgprs, vgprs, acc_vgprs, shared_vgprs, lds; // lds.count: bytes
	struct register_set registers;                                // those that were read
	// As texts name them:
	struct str kernel;
	struct str reason; // why it stopped; empty: it did not
	struct str source; // k.hip:12
};

/** Why a wave stopped, and how AMD's debugger calls that. */
#define STOP_REASON_LIST(row)                                                                                                  \
	row(STOP_BREAKPOINT, "BREAKPOINT") row(STOP_WATCHPOINT, "WATCHPOINT") row(STOP_SINGLE_STEP, "SINGLE_STEP")             \
		row(STOP_FP_INPUT_DENORMAL, "FP_INPUT_DENORMAL") row(STOP_FP_DIVIDE_BY_0, "FP_DIVIDE_BY_0")                    \
			row(STOP_FP_OVERFLOW, "FP_OVERFLOW") row(STOP_FP_UNDERFLOW, "FP_UNDERFLOW")                            \
				row(STOP_FP_INEXACT, "FP_INEXACT") row(STOP_FP_INVALID_OPERATION, "FP_INVALID_OPERATION")      \
					row(STOP_INT_DIVIDE_BY_0, "INT_DIVIDE_BY_0") row(STOP_DEBUG_TRAP, "DEBUG_TRAP")        \
						row(STOP_ASSERT_TRAP, "ASSERT_TRAP") row(STOP_TRAP, "TRAP")                    \
							row(STOP_MEMORY_VIOLATION, "MEMORY_VIOLATION")                         \
								row(STOP_ADDRESS_ERROR, "ADDRESS_ERROR")                       \
									row(STOP_ILLEGAL_INSTRUCTION, "ILLEGAL_INSTRUCTION")   \
										row(STOP_ECC_ERROR, "ECC_ERROR")               \
											row(STOP_FATAL_HALT, "FATAL_HALT")
#define ENUMERATOR(name, text) name,
enum stop_reason { STOP_REASON_LIST(ENUMERATOR) STOP_REASONS };

/** As AMD's debugger names it. */
const char *stop_reason_name(enum stop_reason reason);
bool stop_reason_of(struct str name, enum stop_reason *ret);
/** `MEMORY_VIOLATION|ADDRESS_ERROR` */
struct str stop_reasons_text(struct arena *a, uint32_t reasons);

/** Reads the registers of a target's wave: pc, exec, vcc, the hardware registers by name, s0, v0, a0 and so on. */
void wave_read_registers(struct target *t, struct arena *a, struct wave *w);

/** How far to believe the addresses of an access. */
enum access_trust {
	ACCESS_KNOWN,
	ACCESS_MAYBE, // its registers may have been reused since: only a fault at an address that is still in them proves it
	ACCESS_LDS,   // offsets into LDS, where no page can be missing
};

/** An access that a wave made when it stopped, or may have made. */
struct wave_access {
	struct str instruction;
	uint64_t pc;
	enum access_trust trust;
	uint64_t addresses[WAVE_LANES]; // UINT64_MAX: the lane has none, or it is not known
};

// --- Groups of waves that are at the same place for the same reason. People look at such a group as one ---

struct wave_group {
	size_t first; // index of one of them
	size_t count;
};

/** Groups of waves with the same pc, kernel, stop reasons and, on the GPU, state; stopped ones first, then the larger. @ret has room for @n. */
size_t wave_groups(const struct wave *waves, const struct str *kernels, size_t n, struct wave_group *ret);

/** The same for waves that come one after the other, from a text. */
struct wave_place {
	const struct wave *first;
	size_t count, halted;
};

struct wave_places {
	struct wave_place *data;
	size_t len, cap;
};

/** The place of waves with the same pc, kernel, reason and source line; NULL where @w is the first. */
struct wave_place *wave_place_of(const struct wave_places *p, const struct wave *w);
/** Sorts as wave_groups() does; among equals, the place whose first wave has the lower id comes first. */
void wave_places_sort(struct wave_places *p);
