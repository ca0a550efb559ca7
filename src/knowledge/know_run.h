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
	struct str guard; // words of UNHANG_GUARD; empty: no guard
	bool pool;
	bool another_gpu;
	bool remedies;         // it stands for each remedy of the failure that sets variables
	bool finds;            // one run can show the cause by itself
	int slower;            // so many times as long a run takes
	struct know_list *env; // NAME=VALUE
	struct know_list *includes; // experiments whose changes it makes, all at once
	struct condition *when;
	struct str exposes, cures, fails, passes; // what it means by which of the two fails
	struct str shows; // what it means if the job fails as it is, too, and a run shows the cause
	struct str again; // what to run next if nothing failed
};

/** What may be behind a job that fails, as far as experiments tell. */
struct know_suspect {
	struct know_head head;
	struct str title, explain, fault, next;
	struct str brief; // what a list calls it, where its id does not say it; else empty
	int always;               // percent of its jobs that fail in every run
	struct know_pair *prior;  // class -> weight
	struct know_pair *likely; // experiment -> `gone 90 finds 5`
	struct know_list *remedies;
};
/** The weight of a suspect for a failure of this class; empty: it has none. */
int suspect_prior(const struct know_suspect *s, struct str class);
/** Of 100 jobs that it explains, in how many the experiment ends so: `gone` or `finds`. */
int suspect_likely(const struct know_suspect *s, struct str experiment, struct str end);

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
