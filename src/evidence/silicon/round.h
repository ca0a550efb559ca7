// A round of looks at the GPUs of a machine: each is looked at several times, longer where the first looks do not show that it is well, and
// then every party on it is judged. The look, `waves`, `queues` and `rings` all have their verdicts from such a round.
#pragma once

#include "evidence/silicon/code.h"
#include "evidence/silicon/facts.h"

/** What the looks say of one party. */
struct judgement {
	struct party *party;
	struct party_code code;
	bool each; // one of the verdicts is told for each
	struct verdict_facts facts;
	size_t n;
	const struct know_verdict *verdicts[VERDICTS_MOST];
};

/** A GPU that is looked at. */
struct silicon_looked {
	const struct device *device;
	struct target *target;
	struct watch watch;
	bool suspect; // the first looks did not show that all is well
	struct wave_spaces spaces;
	VEC(struct judgement *) judgements;
};

struct silicon_round {
	struct arena arena;
	const struct know *know;
	const struct devices *devices;
	struct code_places places; // where files of code are looked for
	struct user_queues queues;
	size_t n;
	struct silicon_looked *gpus;
};

/** Opens the GPUs, or the one that is named. */
void silicon_round_begin(struct silicon_round *r, const struct know *k, const struct devices *d, struct str gpu);
/** Looks at them. @all_waves: somebody wants to see them all, so the first and the last look is at all of them. */
void silicon_round_look(struct silicon_round *r, bool all_waves);
/** Judges the parties on all of them. */
void silicon_round_judge(struct silicon_round *r);
/** The verdict of a judgement that something is wrong; NULL: there is none, or no judgement. */
const struct know_verdict *told_verdict(const struct judgement *j);
/** Adds for whom waves in a loop may wait: peer_stuck, peer_idle. Returns whether anything was added. */
bool peers_add(struct silicon_round *r, const struct silicon_looked *g, struct judgement *j);
void silicon_round_end(struct silicon_round *r);
