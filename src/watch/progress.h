// Whether a GPU makes progress. Signs of it are votes: each moved, stood still, or is unknown. knowledge/progress.know says how many of
// them, standing for how long, make what of which kind of work.
//
// This has no clock and opens nothing: whoever uses it says what was seen, and when. `unhang watch` feeds it from its pulse and its looks;
// a supervisor of one job can do the same, with the votes that it has. A test feeds it years in a second.
#pragma once

#include "base/arena.h"
#include "knowledge/know.h"

/** What a GPU does. The first six are in the order of the words that `is` has in a block `work`. */
enum pace { PACE_UNKNOWN, PACE_IDLE, PACE_WORKING, PACE_WAITING, PACE_STOPPED, PACE_UNUSED, PACE_SUSPECTED, PACE_HUNG };
const char *pace_name(enum pace p);
const char *vote_name(enum vote v);

enum { PROGRESS_VOTES = 16, PROGRESS_FACTS = 24, PROGRESS_VALUE = 120 };

/** Of a GPU. */
struct gpu_progress {
	const struct know *know;
	int64_t suspect_after, hung_after; // seconds, in place of what the knowledge says; 0: as it says
	struct progress_vote {
		enum vote says;
		int64_t since, seen; // ms: when it was first seen to stand, and last seen
	} votes[PROGRESS_VOTES];     // in the order of the knowledge
	int64_t excused;             // ms: when it last was no hang for certain: what stood before that does not count
	int64_t looked, pause;       // ms: the newest look, and the pause behind it; 0: there was none
	size_t nfacts;
	struct progress_fact {
		const char *name;
		char value[PROGRESS_VALUE];
	} facts[PROGRESS_FACTS];
};

struct progress_answer {
	enum pace pace;
	const struct know_work *work; // the kind of work; NULL: not known, or a vote that proves work was enough
	unsigned stood;               // votes of it that stood
	int64_t seconds;              // for how long the one did that stood longest
};

void progress_begin(struct gpu_progress *p, const struct know *k);
/** Takes a vote. A name that the knowledge does not have counts for nothing. */
void progress_vote(struct gpu_progress *p, struct str name, enum vote says, int64_t now_ms);
/** Says a fact, which replaces an older one; an empty value: it is not known any more. @name lives as long as @p. */
void progress_fact(struct gpu_progress *p, const char *name, struct str value);
struct str progress_fact_of(const struct gpu_progress *p, const char *name);
/** Takes lines `vote NAME WORD` and `fact NAME VALUE`. A fact of this origin that is not among them is not known any more. @deep: they
 * come from a look at the GPU, else from the pulse. Lines that mean nothing are left out. */
void progress_take(struct gpu_progress *p, struct str lines, bool deep, int64_t now_ms);
/** The vote with this name as it is now. */
struct progress_vote progress_vote_of(const struct gpu_progress *p, struct str name);

struct progress_answer progress_judge(struct gpu_progress *p, int64_t now_ms);
/** Whether the votes of each second stood for so long that a look at the GPU is worth its cost. The first comes soon, others after pauses
 * that grow; of a suspicion, there are some until it is certain. */
bool progress_look_due(const struct gpu_progress *p, int64_t now_ms);
/** A look begins. */
void progress_looks(struct gpu_progress *p, int64_t now_ms);

/** What is told of it: a phrase; nothing where there is nothing to tell. */
void progress_say(const struct gpu_progress *p, const struct progress_answer *a, struct text *to);
/** `stood still: interrupts (31 s); moved: the waves; not known: power`: each vote. */
void progress_list(const struct gpu_progress *p, struct text *to);
