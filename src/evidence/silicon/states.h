// What each queue, ring and set of waves of a GPU does after a round of looks: it is stuck, works, waits or is idle, and why. Knowledge says
// it (the blocks `state`), from the facts of the party that it belongs to.
#pragma once

#include "evidence/silicon/round.h"

struct silicon_state {
	struct str is;  // stuck, works, waits, idle, unknown
	struct str why; // a phrase
	double seconds; // for which it was looked at; 0: not twice
};

struct silicon_state state_of_queue(struct silicon_round *r, const struct silicon_looked *g, const struct user_queue *u);
struct silicon_state state_of_ring(struct silicon_round *r, const struct silicon_looked *g, struct str ring);
/** Of the waves of a party. */
struct silicon_state state_of_waves(struct silicon_round *r, const struct silicon_looked *g, const struct judgement *j);
