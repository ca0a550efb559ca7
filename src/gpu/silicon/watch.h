// A GPU looked at several times: registers, waves, rings, counters; what moved in between, which units are busy, who waits for whom.
#pragma once

#include "gpu/silicon/silicon.h"

enum { LOOKS_MOST = 16, WAVE_LOOKS_MOST = 16 };

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
	uint32_t rptr, wptr; // wptr: the driver's own, where the hardware has not heard of it yet
	bool moved;
	size_t waited;         // looks, of the newest ones, at which it stood at the same place with work
	const uint32_t *words; // what is in it; NULL: only its positions were read
	size_t n;
};

/** A look at waves: at all, or at some again. */
struct wave_look {
	size_t n, nslots;
	const struct wave *waves;
	const struct wave_slot *slots; // only these were looked at; NULL: all
	uint64_t xccs;                 // only of these; 0: of all
};

/** What the waves of an XCC do. Of some looks they are a sample: numbers are made to stand for all. */
struct wave_state {
	size_t count;   // at the newest look at all
	size_t moved;   // that were at another pc than at first, or came or went
	size_t changed; // that came or went
	size_t memory;  // that stand still with memory operations open
	size_t barrier, halted;
	size_t loops; // places of the code, each no longer than a loop, in one of which each wave stayed; 0: they got about
	uint64_t loop_bytes;    // the size of the one where most of them are
	uint64_t pc;            // where most of them are
	const struct wave *one; // that is there
};

struct watch {
	struct arena arena;
	const struct know *know;
	struct target *target;
	const struct device *device; // NULL: of a dump
	struct gate gate;
	unsigned xccs;
	size_t looks;
	int64_t began, ended; // ms
	VEC(struct watched_register) registers;
	VEC(struct watched_ring) rings;
	bool rings_known;
	size_t wave_looks;
	struct wave_look waves[WAVE_LOOKS_MOST];
	bool waves_sampled;                        // they are not all that there are
	struct wave_state *states;                 // of each XCC
	int64_t interrupts_first, interrupts_last; // -1: not known
};

/** Begins to look at a live GPU or at a dump (@d NULL, @gfx as the dump says). */
void watch_begin(struct watch *w, const struct know *k, struct target *t, const struct device *d, struct str gfx);
/** One look at the registers of the render node's list; @deep, @rings: and, where it is safe, at the others, at the rings. */
void watch_look(struct watch *w, bool deep, bool rings);
/** Reads the waves once. @sample: of some units only, which is forgotten when all are read. */
void watch_waves(struct watch *w, bool sample);
/** Whether most waves of each XCC that has some move, and get about. */
bool watch_waves_at_work(const struct watch *w);
/** Reads some of the waves that were there at first once more, which costs little. */
void watch_some_waves(struct watch *w);
/** Reads what is in the rings that stand still. */
void watch_contents(struct watch *w);
void watch_end(struct watch *w);

/** How a field was at the looks. */
enum steadiness { STEADY_UNKNOWN, STEADY_CLEAR, STEADY_SET, STEADY_NOT };

/** `REGISTER.FIELD` or @waves; any of the fields of a list. */
enum steadiness watch_fields(const struct watch *w, unsigned xcc, const struct know_list *fields);
/** Whether a unit is busy: at every look, at none, at some. */
enum steadiness watch_unit(const struct watch *w, unsigned xcc, const struct know_unit *u);
/** Whether the register that moves while a unit works stood still; of a unit that serves rings here. */
bool watch_still(const struct watch *w, unsigned xcc, const struct know_unit *u, uint32_t *ret_value);
/** Of the waves that were read; NULL where none could be. */
const struct wave_state *watch_wave_state(const struct watch *w, unsigned xcc);
/** From the outermost busy unit to the one that waits for no other. Returns how many. */
size_t watch_chain(const struct watch *w, unsigned xcc, const struct know_unit **ret, size_t most);
/** What a unit waits for at every look, or NULL. */
const struct know_unit *watch_waits(const struct watch *w, unsigned xcc, const struct know_unit *u);
/** The unit that serves a ring, or NULL. */
const struct know_unit *watch_ring_unit(const struct know *k, struct str ring);
/** Whether every register that was read has all bits set: nobody answers. */
bool watch_all_ones(const struct watch *w);
