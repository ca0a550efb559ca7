// How a family of GPUs saves its waves: the `save-area` blocks of knowledge/, made ready for use.
#pragma once

#include "gpu/target.h"

/** Where a value is read from. */
enum bits_of { BITS_NONE, BITS_STATE, BITS_WAVE, BITS_TTMP, BITS_REGISTER };

struct bits {
	enum bits_of of;
	unsigned index, high, low;
};

/** A reason why a wave stopped: the bit that says so, one that must be set too, and one that must not be. */
struct layout_stop {
	enum stop_reason reason;
	struct bits bit, enabled, unless;
};

enum layout_number {
	NUMBER_PADDING,       // bytes above each wave
	NUMBER_STATE_WORDS,   // of the control stack that describe a state
	NUMBER_VGPR_UNIT,     // VGPRs are allocated in multiples of this
	NUMBER_VGPR_UNIT_32,  // the same for waves with 32 lanes
	NUMBER_ACC_UNIT,      // the same for VGPRs and ACC VGPRs together; 0: there are no ACC VGPRs
	NUMBER_ACC_LIKE_VGPR, // as many ACC VGPRs as VGPRs
	NUMBER_SGPRS,         // the number of SGPRs, if it is always the same
	NUMBER_SGPR_UNIT,
	NUMBER_SGPR_UNSAVED, // how many of those allocated are not saved
	NUMBER_LDS_UNIT,     // bytes
	NUMBER_SHARED_UNIT,
	NUMBER_SGPRS_NAMED,      // the most saved SGPRs that are a wave's own; VCC is in the last two
	NUMBER_PARKED_SINCE,     // version of the runtime's debugger interface
	NUMBER_LDS_WHOLE,        // bytes, where the wave has all of it
	NUMBER_TRAP_INSTRUCTION, // upper half of s_trap; the lower is the trap's id
	NUMBERS
};

enum layout_bits {
	LAYOUT_VGPRS,
	LAYOUT_ACCS,
	LAYOUT_SGPRS,
	LAYOUT_LDS,
	LAYOUT_LDS_WHOLE,
	LAYOUT_WAVE32,
	LAYOUT_SHARED,
	LAYOUT_FIRST,
	LAYOUT_LAST,
	LAYOUT_SCRATCH,
	LAYOUT_SE,
	LAYOUT_PACKET,
	LAYOUT_WAVE_IN_GROUP,
	LAYOUT_X,
	LAYOUT_Y,
	LAYOUT_Z,
	LAYOUT_YZ_VALID,
	LAYOUT_NO_TTMPS,
	LAYOUT_MARK,
	LAYOUT_TRAP,
	LAYOUT_HALTED,
	LAYOUT_SAVED_HALT,
	LAYOUT_STOPPED,
	LAYOUT_IN_BARRIER,
	LAYOUT_SKIP_EXPORT,
	LAYOUT_FATAL_HALT,
	LAYOUT_NO_VGPRS,
	LAYOUT_PARKED_LOW,
	LAYOUT_PARKED_HIGH,
	// of waves on the GPU
	LAYOUT_VALID, // there is one in the slot
	LAYOUT_IDLE,
	LAYOUT_IN_TRAP,
	LAYOUT_TRAP_PENDING,
	LAYOUT_WAVE64,
	LAYOUT_VMID,
	LAYOUT_ME,
	LAYOUT_PIPE,
	LAYOUT_QUEUE,
	LAYOUT_BITS
};

struct wave_layout {
	const struct know_save_area *know;
	uint64_t numbers[NUMBERS];
	struct bits bits[LAYOUT_BITS];
	int pc_lo, pc_hi, exec_lo, exec_hi; // indexes of hardware registers
	size_t nregisters;
	struct str registers[WAVE_HWREGS];
	size_t nstops;
	const struct layout_stop *stops;
};

/** The layout of a part; *ret is NULL where no block is for it. An error names what is wrong with the block. */
struct uh_error *layout_for(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret);
/** The same for the driver's answers about waves on the GPU, by the blocks `wave-words`. Registers are the words behind the type. */
struct uh_error *layout_for_words(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret);
/** The same for waves in a text that does not name the part: the `wave-words` block that has most of these registers. */
struct uh_error *layout_for_registers(struct arena *a, const struct know *k, const struct str *names, size_t n,
				      const struct wave_layout **ret);
/** The index of a hardware register; -1 where the layout has none of this name. */
int layout_register(const struct wave_layout *l, struct str name);
/** Where a value of this name is; NULL where there is none. */
const struct bits *layout_bits_named(const struct wave_layout *l, struct str name);
/** The block for a part; NULL where there is none. */
const struct know_wave_words *wave_words_block(const struct know *k, struct str gfx);
/** Why a wave stopped, as its hardware registers and TTMPs say. */
uint32_t layout_stop_reasons(const struct wave_layout *l, const uint32_t *hwregs, const uint32_t *ttmps);
/** A value from hardware registers and TTMPs; 0 where the layout has none there. */
uint32_t layout_value(const struct bits *b, const uint32_t *hwregs, const uint32_t *ttmps);
