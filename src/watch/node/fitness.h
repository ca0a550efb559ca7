// Whether the next job may run on a node, by what its watch knows. Fitness is apart from fault: a job's mistake can leave a GPU that nobody can
// use, and a broken driver one that works.
#pragma once

#include "report/node/node.h"
#include "report/watch/incidents.h"

/** What is asked for. */
struct fitness_asked {
	int64_t now;
	unsigned expected;     // GPUs; 0: any number
	const char *partition; // that each is to have; NULL: any
	unsigned new_rules;    // per cent of machines on which the newest rules are in force
	uint64_t machine;      // hash of the machine's id: which of them this is
	struct str smoke;      // passed, failed, running; empty: it was not run in this boot
	struct str smoke_says;
};

/** Judges a state that holds. What it says views @s and lies in @a. */
void fitness_judge(const struct watch_state *s, const struct fitness_asked *asked, struct arena *a, struct node_answer *ret);
/** Instead of that: nothing is known, and why. */
void fitness_unknown(struct str why, struct node_answer *ret);
/** Adds a finding, and what it makes of the whole. */
void fitness_add(struct node_answer *to, struct node_finding f);
/** When all were added: the worst stands first, and each GPU has its own answer. */
void fitness_end(struct node_answer *a);
