// A live GPU as a target: when it is safe to look at it, and what was seen.
//
// Registers on the render node's list are read through its query, which takes the reset lock and keeps GFXOFF away. Other registers and
// the waves are read through debugfs, and only while the GPU is awake, not in GFXOFF and not in reset. After the first read through
// debugfs that does not return there are no more. Nothing is written.
#pragma once

#include "gpu/find/device.h"
#include "gpu/register/registers.h"
#include "gpu/target.h"

/** Whether debugfs registers and waves may be read now. */
struct gate {
	bool open;
	struct str why_not; // as a phrase: `it is asleep (runtime_status suspended)`; empty
	bool reset, gfxoff, asleep, off_bus, refused;
	bool guest; // a virtual function, whose register reads are work for the GPU's schedulers
	int error;  // of a query that should have woken it up; 0: none
	bool stuck; // a look at it did not return
	bool ones;  // its registers read all ones
};

struct gate target_gate(struct target *t);
/** Whether the last look found it asleep. */
bool target_asleep(const struct target *t);
/** The read that did not return; NULL: all did. */
const struct probe_stuck *target_stuck(const struct target *t);
/** What a stuck read waits for, by the frames `blocked-*` of knowledge/frames.know: smu, resume, reset, lock, or unknown. */
struct str stuck_in(const struct know *k, const struct probe_stuck *s);
struct probe_count target_count(const struct target *t);
const struct device *target_device_of(const struct target *t);

/** The address in an indirect buffer where the engine that serves a ring is, by its registers. 0: they do not tell; only those of copy
 * engines do. */
uint64_t ring_engine(struct target *t, struct str ring);

/** The place of the queue whose descriptor (MQD) is at @mqd. false: it is in none now, or the registers do not tell. */
bool target_queue_slot(struct target *t, uint64_t mqd, bool graphics, struct queue_slot *ret);
/** Where page tables of a hive have this GPU's VRAM. false: its registers do not tell now. */
bool target_vram(struct target *t, uint64_t *ret_first, uint64_t *ret_bytes);
/** What the registers say of an address space, now. */
struct address_space {
	enum answer answer;
	uint64_t root, end; // 0: it has no page tables; the last address
	bool pasid_known;
	uint32_t pasid;
};
/** The spaces of @vmid, one for each XCC that there is, at most @most; how many. A VMID may be another space on each XCC. */
size_t target_spaces(struct target *t, unsigned vmid, struct address_space *ret, size_t most);
/** A bit for each VMID but 0 that has one of these PASIDs now; 0: none, or the registers do not tell. */
uint32_t target_vmids_of(struct target *t, const uint32_t *pasids, size_t n);

/** Reads of which dispatch and workgroup waves of a GPU are, where the hardware has written it down; returns of how many. What it says
 * must still be held against the packets of their queues. */
size_t target_ttmps(struct target *t, struct wave *waves, size_t n);

/** Registers of a device by name (`GRBM_STATUS`, `gc.GRBM_STATUS`, `sdma0.SDMA0_STATUS_REG`, `mmhub1.MC_VM_FB_OFFSET`) or by a pattern
 * with * and ?, in upper or lower case, in all IP blocks. Returns how many there are; @ret gets at most @most of them. */
struct device_register {
	struct reg reg;
	const struct ip *ip;
	uint32_t address; // byte offset in the register space
};
size_t device_registers(const struct device *d, struct str pattern, struct device_register *ret, size_t most);

/** Offsets and answers of the driver's files. The emulator serves the same. */
enum {
	WAVE_WORDS_MOST = 32,
	DEBUGFS_BROADCAST = 0x3ff,
};
/** Positions in amdgpu_regs, amdgpu_wave and amdgpu_gpr. A wave's place is as wave_slot_asked() gives it. */
uint64_t debugfs_register_position(uint32_t address, const struct bank *b);
uint64_t debugfs_wave_position(const struct wave_slot *asked);
uint64_t debugfs_gpr_position(const struct wave_slot *asked, bool vector, unsigned lane);

/** The state of amdgpu_regs2, as its two ioctls take it, and of amdgpu_gprwave. All words of 32 bits, no padding. */
struct regs2_state {
	uint32_t use_srbm, use_grbm, pg_lock;
	uint32_t se, sh, instance;
	uint32_t me, pipe, queue, vmid;
	uint32_t xcc; // only in the second ioctl
};
struct gprwave_state {
	uint32_t gpr_or_wave, se, sh, cu, wave, simd, xcc;
	uint32_t thread, vgpr_or_sgpr;
};
#define REGS2_IOCTL_V1 0xC0282000u
#define REGS2_IOCTL_V2 0xC02C2001u
#define GPRWAVE_IOCTL 0xC0242000u

/** How the driver answers for a wave: word 0 is the type. */
struct wave_words {
	unsigned type;
	size_t n;                          // words behind the type
	struct str names[WAVE_WORDS_MOST]; // lower case, as in knowledge/save-areas.know: status, pc_lo; names[0] is word 1
	unsigned simds, slots;             // of a CU or WGP, and of a SIMD
	bool wgp;                          // the driver takes WGP and SIMD as one number in place of the CU
	bool always_on;                    // it has no GFXOFF
};
/** By the block `wave-words` of the part; false where there is none. */
bool wave_words_of(const struct know *k, struct str gfx, struct wave_words *ret);
/** A place as the driver's files take it. */
struct wave_slot wave_slot_asked(const struct wave_words *w, const struct wave_slot *s);
/** A wave from the words of an answer, whose first is the type, by the layout for words (layout.h). false: no wave is in the slot. */
struct wave_layout;
bool wave_from_words(const struct wave_words *w, const struct wave_layout *l, const uint32_t *words, size_t n,
		     const struct wave_slot *slot, struct wave *ret);
