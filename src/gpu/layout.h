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

/** Numbers of a layout, by their names in knowledge.
 * VGPRs are allocated in multiples of vgpr-unit, in waves with 32 lanes of vgpr-unit-32, VGPRs and ACC VGPRs together of acc-unit (0: there
 * are no ACC VGPRs; acc-like-vgprs: as many as VGPRs). sgprs: their number, if it is always the same; sgprs-unsaved: how many of those
 * allocated are not saved; sgprs-named: the most saved ones that are a wave's own, VCC in the last two. */
#define LAYOUT_NUMBER_LIST(row)                                                                                                \
	row(NUMBER_PADDING, "padding")                 /* bytes above each wave */                                             \
		row(NUMBER_STATE_WORDS, "state-words") /* of the control stack that describe a state */                        \
		row(NUMBER_VGPR_UNIT, "vgpr-unit") row(NUMBER_VGPR_UNIT_32, "vgpr-unit-32") row(NUMBER_ACC_UNIT, "acc-unit")   \
			row(NUMBER_ACC_LIKE_VGPR, "acc-like-vgprs") row(NUMBER_SGPRS, "sgprs")                                 \
				row(NUMBER_SGPR_UNIT, "sgpr-unit") row(NUMBER_SGPR_UNSAVED, "sgprs-unsaved")                   \
					row(NUMBER_LDS_UNIT, "lds-unit") /* bytes */                                           \
		row(NUMBER_SHARED_UNIT, "shared-unit") row(NUMBER_SGPRS_NAMED, "sgprs-named")                                  \
			row(NUMBER_PARKED_SINCE, "parked-since") /* version of the runtime's debugger interface */             \
		row(NUMBER_LDS_WHOLE, "lds-whole")               /* bytes, where the wave has all of it */                     \
		row(NUMBER_TRAP_INSTRUCTION, "trap-instruction") /* upper half of s_trap; the lower is the trap's id */
enum layout_number { LAYOUT_NUMBER_LIST(ENUMERATOR) NUMBERS };

/** Where values lie, by their names in knowledge; from `valid` on of waves on the GPU. */
#define LAYOUT_BITS_LIST(row)                                                                                                  \
	row(LAYOUT_VGPRS, "vgprs") row(LAYOUT_ACCS, "accs") row(LAYOUT_SGPRS, "sgprs") row(LAYOUT_LDS, "lds") row(             \
		LAYOUT_LDS_WHOLE, "lds-whole") row(LAYOUT_WAVE32, "wave32") row(LAYOUT_SHARED, "shared-vgprs")                 \
		row(LAYOUT_FIRST, "first") row(LAYOUT_LAST, "last") row(LAYOUT_SCRATCH, "scratch") row(LAYOUT_SE, "se") row(   \
			LAYOUT_PACKET, "packet") row(LAYOUT_WAVE_IN_GROUP,                                                     \
						     "wave-in-group") row(LAYOUT_X, "x") row(LAYOUT_Y, "y") row(LAYOUT_Z, "z") \
			row(LAYOUT_YZ_VALID, "yz-valid") row(LAYOUT_NO_TTMPS, "no-ttmps") row(LAYOUT_MARK, "mark")             \
				row(LAYOUT_TRAP, "trap") row(LAYOUT_HALTED, "halted") row(LAYOUT_SAVED_HALT, "saved-halt")     \
					row(LAYOUT_STOPPED, "stopped") row(LAYOUT_IN_BARRIER, "in-barrier")                    \
						row(LAYOUT_SKIP_EXPORT, "skip-export") row(LAYOUT_FATAL_HALT, "fatal-halt")    \
							row(LAYOUT_NO_VGPRS, "no-vgprs") row(LAYOUT_PARKED_LOW, "parked-low")  \
								row(LAYOUT_PARKED_HIGH, "parked-high") row(                    \
									LAYOUT_VALID, "valid") /* there is one in the slot */  \
		row(LAYOUT_IDLE, "idle") row(LAYOUT_IN_TRAP, "in-trap") row(LAYOUT_TRAP_PENDING, "trap-pending")               \
			row(LAYOUT_TRAP_ENABLED, "trap-enabled") /* it has a trap handler */                                   \
			row(LAYOUT_WAVE64, "wave64") row(LAYOUT_VMID, "vmid") row(LAYOUT_ME, "me") row(LAYOUT_PIPE, "pipe")    \
				row(LAYOUT_QUEUE, "queue")
enum layout_bits { LAYOUT_BITS_LIST(ENUMERATOR) LAYOUT_BITS };

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
/** Finds the workgroup and packet of a wave in its TTMPs, which the hardware has set up. @told: they say where it was not so. */
void layout_find_place(const struct wave_layout *l, bool told, struct wave *w);
/** A value from hardware registers and TTMPs; 0 where the layout has none there. */
uint32_t layout_value(const struct bits *b, const uint32_t *hwregs, const uint32_t *ttmps);
