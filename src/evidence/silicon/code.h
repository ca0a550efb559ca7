// The code behind the waves of a party: which kernel or shader they are in, what they wait for, and which word they look at again and again.
#pragma once

#include "evidence/silicon/parties.h"
#include "gpu/wave_spaces.h"

struct silicon_looked;
struct silicon_round;

struct party_code {
	struct wave_space *space; // NULL: it was not looked for
	const struct where *at;   // where most of the waves are
	struct wave one;          // of those; with its dispatch, where that is known
	struct str kernel;
	const struct user_process *guess; // whose queue it is, is not known, but it has code at this pc; NULL
	const struct shader_start *shader; // NULL
	struct str waits_for;              // as the instruction says; empty
	struct str polls;                  // the load that they repeat; empty: none
	bool polled_known, value_known;
	uint64_t polled, value; // the address that it loads from, and what is there
	unsigned bytes;
};

/** Finds it, where the waves stand or go round; and notes in the state of these waves what it says, and whose they are. */
void party_code_find(struct silicon_round *r, struct silicon_looked *g, struct party *p, struct party_code *ret);
/** Finds out of which dispatch each of these waves is. They are those of the newest look at all. */
void party_find_dispatches(struct silicon_looked *g, const struct party *p, struct wave *waves, size_t n);
