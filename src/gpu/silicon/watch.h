// A GPU looked at several times: registers, waves, rings, counters. It shows what moved in between, which units are busy, and which unit
// waits for which.
#pragma once

#include "gpu/silicon/silicon.h"

enum { LOOKS_MOST = 16, WAVE_LOOKS_MOST = 16, WAVE_CHANGES = 4 };

/** A register at each look. */
struct watched_register {
	struct reg reg;
	const struct ip *ip; // NULL: of a dump
	unsigned xcc;
	bool deep;
	uint32_t values[LOOKS_MOST];
	uint32_t known; // a bit for each look
};

struct watched_ring {
	struct str name;
	uint32_t rptr, wptr; // wptr: the driver's own, if the hardware was not told yet
	bool moved;
	size_t waited;         // for how many of the newest looks it was at the same place and had work
	const uint32_t *words; // what is in it; NULL: only its positions were read
	size_t n;
};

/** A look at waves: at all, or at some again. */
struct wave_look {
	size_t n, nslots;
	const struct wave *waves;
	const struct wave_slot *slots; // only these were looked at; NULL: all
	uint64_t xccs;                 // a bit for each XCC that was looked at; 0: all
	const struct wave_unit *units; // of a look at all
	size_t nunits;
	uint64_t seen; // a bit for each XCC that is idle, or of which a slot was read
};

/** What waves do. If only a sample was read, the numbers are scaled up to all. */
struct wave_state {
	size_t count;   // at the newest look at all
	size_t moved;   // were at another pc than at first, or came or went
	size_t changed; // came or went
	size_t memory;  // stand still with memory operations open
	size_t barrier, halted, stopped; // stopped: with a reason
	uint32_t stop_reasons;                                             // of all of them, bits of enum stop_reason
	enum gprs_change { GPRS_UNREAD, GPRS_STILL, GPRS_CHANGE } sgprs, vgprs; // of some, between the looks at all
	bool stood_changing;                                               // those of waves that were at the same pc changed
	size_t nchanges;
	struct gpr_change { // of those, what only grows or only falls first
		char bank;      // s, v
		unsigned number;
		bool grows, falls; // at every look
	} changes[WAVE_CHANGES];
	enum wave_waits { WAITS_UNKNOWN, WAITS_MEMORY, WAITS_BARRIER, WAITS_OTHER } waits; // by the instruction where most are
	uint64_t barrier_pc;                                               // where most of those at a barrier are
	const struct wave *barrier_one;                                    // one of those
	size_t loops; // each wave stayed in one of this many short pieces of code, each as long as a loop; 0: they moved around
	uint64_t loop_bytes;    // the size of the one where most of them are
	uint64_t pc;            // where most of them are; where some move, most of those that are at no barrier
	const struct wave *one; // one of those
};

/** Waves that belong together: those of an XCC, or of one address space and one hardware queue there. */
struct wave_set {
	bool whole;          // all of the XCC
	struct wave_slot of; // whose XCC, VMID and place of a queue they have
	struct wave_state state;
};

/** Registers of a wave at a look at all waves. */
struct gprs_seen {
	struct wave_slot slot;
	uint64_t pc;
	unsigned lane; // whose VGPRs they are
	size_t nsgprs, nvgprs;
	const uint32_t *values; // the VGPRs behind the SGPRs
};

struct watch {
	struct arena arena;
	const struct know *know;
	struct target *target;
	const struct device *device; // NULL: of a dump
	struct gate gate;
	bool ended_looking;       // what is read later, such as code, says nothing of the GPU's state
	struct probe_stuck stuck; // the look that did not return until then
	struct str late;          // it came back by the end of the looks: which file, and when
	int64_t waited;           // ms that it was waited for; 0: not known
	unsigned xccs;
	size_t looks;
	int64_t began, ended; // ms
	VEC(struct watched_register) registers;
	VEC(struct watched_ring) rings;
	bool rings_known;
	size_t wave_looks;
	struct wave_look waves[WAVE_LOOKS_MOST];
	bool waves_sampled;          // they are not all that there are
	struct wave_set *xccs_waves; // of each XCC as a whole
	size_t ngroups;
	struct wave_set *groups; // those of each address space and queue
	VEC(struct gprs_seen) gprs;
	int64_t interrupts_first, interrupts_last; // -1: not known
};

/** The time, as the machine has it. */
int64_t watch_now(const struct watch *w);
/** Begins to look at a live GPU or at a dump (@d NULL, @gfx as the dump says). */
void watch_begin(struct watch *w, const struct know *k, struct target *t, const struct device *d, struct str gfx);
/** Looks once at the registers on the render node's list. If it is safe: with @deep at the other registers, with @rings at the rings. */
void watch_look(struct watch *w, bool deep, bool rings);
/** Reads the waves once: of some units only, which is forgotten when others are read; of XCCs that may not be well; or all. */
enum waves_wanted { WAVES_SAMPLE, WAVES_SUSPECT, WAVES_ALL };
void watch_waves(struct watch *w, enum waves_wanted wanted);
/** The newest look at all that was made, and whether it saw a wave. NULL: there was none. */
const struct wave_look *watch_last(const struct watch *w);
bool watch_any_waves(const struct watch *w);
/** Of each wave of the newest look at all whether it was elsewhere at another look, or not there; in @a. NULL: there was one look. */
const bool *watch_moved(const struct watch *w, struct arena *a);
/** What the newest look at all saw of each unit, in @a; 0: not which units the part has, so that nothing can be drawn. */
size_t watch_units(const struct watch *w, struct arena *a, const struct unit_seen **ret);
/** The newest look at all waves that there is of an XCC. */
const struct wave_look *watch_newest(const struct watch *w, unsigned xcc);
/** Whether no later look at all left the XCC out: then the registers of its waves can be read. */
bool watch_is_last(const struct watch *w, unsigned xcc);
/** Notes what the instruction says at which most waves of a set are. */
void watch_set_waits(struct watch *w, const struct wave_set *g, enum wave_waits waits);
/** Whether the wave in a slot belongs to a set, and whether two slots are the same. */
bool wave_set_has(const struct wave_set *g, const struct wave_slot *s);
bool wave_slots_equal(const struct wave_slot *x, const struct wave_slot *y);
/** Reads registers of some waves of each group of the look at all that was just made. */
void watch_read_gprs(struct watch *w);
/** What they did between the looks. */
void watch_compare_gprs(const struct watch *w, const struct wave_set *g, struct wave_state *ret);
/** Whether of each group of waves most move, and not only in a loop. */
bool watch_waves_at_work(const struct watch *w);
/** Whether a ring of the driver that may only be slow needs further looks: a program's waves say nothing of it. */
bool watch_ring_waits(const struct watch *w);
/** Reads some of the waves of the first look again, which costs little. */
void watch_some_waves(struct watch *w);
/** Reads what is in the rings that stand still. */
void watch_contents(struct watch *w);
/** After the last look: keeps how it ended. */
void watch_close_looks(struct watch *w);
void watch_end(struct watch *w);
/** The look that did not return; NULL: all did. */
const struct probe_stuck *watch_stuck(const struct watch *w);

/** How a field was at the looks. */
enum steadiness { STEADY_UNKNOWN, STEADY_CLEAR, STEADY_SET, STEADY_NOT };

/** Whether a unit is busy: at every look, at none, at some. */
enum steadiness watch_unit(const struct watch *w, unsigned xcc, const struct know_unit *u);
/** Whether the register that moves while a unit works stood still. For units that serve rings on this GPU. */
bool watch_still(const struct watch *w, unsigned xcc, const struct know_unit *u, uint32_t *ret_value);
/** Whether registers of an XCC could be read, and waves where it has some; what could not be read is not idle. */
bool watch_xcc_seen(const struct watch *w, unsigned xcc);
/** How many XCCs could not be seen though the gate is open. */
unsigned watch_xccs_unseen(const struct watch *w);
/** Of how many XCCs no wave could be read, and not that they are idle either. */
unsigned watch_xccs_without_waves_read(const struct watch *w);
/** The state of the waves of an XCC; NULL: they could not be read. */
const struct wave_state *watch_wave_state(const struct watch *w, unsigned xcc);
/** The state of the waves that the one in this slot belongs to. */
const struct wave_state *watch_state_of(const struct watch *w, const struct wave_slot *s);
/** An XCC as some waves on it see it. */
struct watch_view {
	const struct watch *watch;
	unsigned xcc;
	const struct wave_state *waves; // NULL: they were not read
};
/** As all of its waves see it. */
struct watch_view watch_xcc(const struct watch *w, unsigned xcc);
/** The chain from the outermost busy unit to the one that waits for no other. Returns how many units it has. */
size_t watch_chain(const struct watch_view *v, const struct know_unit **ret, size_t most);
/** What a unit waits for at every look, or NULL. */
const struct know_unit *watch_waits(const struct watch_view *v, const struct know_unit *u);
/** The unit that serves a ring, or NULL. */
const struct know_unit *watch_ring_unit(const struct know *k, struct str ring);
/** Whether every register reads all ones at each look, which means that the GPU does not answer. */
bool watch_all_ones(const struct watch *w);
/** The same for those of an IP block: an XCC (`gc`), a hub (`mmhub`); without the registers of copy engines. */
bool watch_block_ones(const struct watch *w, struct str ip, unsigned instance);
/** And for those that say whether a unit is busy. */
bool watch_unit_ones(const struct watch *w, unsigned xcc, const struct know_unit *u);
