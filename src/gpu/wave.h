// What is known of a wave, whoever tells of it: a core, a live GPU, the texts of debuggers.
#pragma once

#include "base/arena.h"

enum { WAVE_LANES = 64 };

/** A register, as far as the evidence has it. */
struct wave_register {
	struct str group, name; // as the evidence calls them
	char bank;              // 's', 'v' or 'a', of which it is the register @number; 0: it has a name only
	unsigned number;
	unsigned digits; // hexadecimal, of each value
	size_t n;        // lanes, or 1
	uint64_t *data;  // UINT64_MAX: a lane that is not known
};

/** Registers of one wave. Its owner frees it with vec_free(); what its registers point to is in the owner's arena. */
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

struct target;
struct wave;
/** Reads the registers of a target's wave: pc, exec, vcc, the hardware registers by name, s0, v0, a0 and so on. */
void wave_read_registers(struct target *t, struct arena *a, const struct wave *w, struct register_set *ret);

/** How far the addresses of an access are to be believed. */
enum access_trust {
	ACCESS_KNOWN,
	ACCESS_MAYBE, // its registers were reused since: a fault at an address that is still in them proves it, nothing else does
	ACCESS_LDS,   // offsets into LDS, where no page can be missing
};

/** An access that a wave made when it stopped, or may have made. */
struct wave_access {
	struct str instruction;
	uint64_t pc;
	enum access_trust trust;
	uint64_t addresses[WAVE_LANES]; // UINT64_MAX: the lane has none, or it is not known
};
