// What unhang run knows of failures.
#pragma once

#include "knowledge/condition.h"
#include "knowledge/know_head.h"

/** What unhang run does after a try has failed: a row of its table. */
enum know_follow { FOLLOW_STOP, FOLLOW_RESTART };
struct know_escalation {
	struct know_head head;
	struct condition *when;
	enum know_follow action;
	int level;   // of the next try; 0: as it is
	bool filter; // more is recorded of the suspect kernel only
	bool agent;  // with the debug agent
	bool repeat; // with what --on-repeat says
	struct str reason, propose;
};

/** One thing that is changed to tell explanations apart: unhang try. */
struct know_experiment {
	struct know_head head;
	struct str title, cost;
	struct str guard;      // words of UNHANG_GUARD; empty: no guard
	bool pool;
	struct know_list *env; // NAME=VALUE
	struct str exposes, cures, fails, passes; // what it means by which of the two runs went wrong
};

/** What repairs a race. */
struct know_race {
	struct know_head head; // its id is the pattern that unhang bisect finds
	struct str title, fix, not_fix;
	struct str source;
};

/** The line of a job's output that says why it failed; of the blocks the first that fits is taken. */
struct know_last_words {
	struct know_head head;
	struct str means;
	struct know_list *match, *unless; // patterns
	bool killed;                      // it tells of a process that was killed
	bool behind;                      // not that line, but the next of its writer that is not indented
};
