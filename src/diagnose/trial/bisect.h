// Which launches race: what a recording says of a job's launches, and the questions that runs of it answer. Nothing here starts anything:
// whoever asks for a run is told how it ended, so that ten thousand bisections can be played in a second, and one that was killed is
// resumed by telling the old answers again.
//
// A delay before a launch cannot make a program fail that orders its work. So the search asks which launch, made to begin later, raises the
// rate of failures. Where the rate is high, few runs tell which other launch has to wait for it. At the end the pair is held against the
// failure as it was.
#pragma once

#include "base/arena.h"
#include "diagnose/trial/trial.h"
#include "evidence/recording/recording.h"

enum { PLACE_COPIES = 31, PLACE_HOST = 32 };

/** Launches of one kernel on one queue; copies of the runtime; the host. */
struct bisect_op {
	int place;        // the queue's number
	struct str name;  // as the code has it; empty for copies and the host
	struct str plain; // for people
	unsigned launches;
	uint64_t first, last; // ticks of its launches
	bool left_out;        // it waits for others, or others for it
};

/** What two of them share. */
struct bisect_buffer {
	uint64_t begin, size, from, bytes; // from: offset of the first byte that both use, as far as is known
	uint64_t born;                     // ticks
	struct str made;                   // by whom: an operation, or a thread
	struct str in;                     // the functions that allocated it, where they were noted; else empty
	bool host;                         // it is memory of the host
};

/** A launch of a pair, by which a recording can be asked for more. */
struct bisect_launch {
	uint64_t kernel, time; // the kernel's object; ticks
	struct str in;         // the functions that made it, where they were noted; else empty
};

/** @early was launched first, and nobody ensures that it ends first. */
struct bisect_pair {
	size_t early, late; // ops
	struct bisect_launch early_launch, late_launch;
	bool early_writes, late_writes;
	uint64_t distance; // ticks between their launches
	struct bisect_buffer buffer;
};

struct bisect_launches {
	struct arena arena;
	VEC(struct bisect_op) ops;     // the host is the last
	VEC(struct bisect_pair) pairs; // likely ones first
	unsigned launches, queues;
	bool arguments; // they are recorded, so that buffers are known
};
/** @alone: whether a kernel of this name is left out. */
void bisect_launches_of(const struct flight_recording *r, bool (*alone)(const void *ctx, struct str name), const void *ctx,
			struct bisect_launches *ret);
void bisect_launches_free(struct bisect_launches *l);
/** The pair of two ops; NULL: there is none. */
const struct bisect_pair *bisect_pair_of(const struct bisect_launches *l, size_t early, size_t late);
/** As a table of the recorder names it. */
void bisect_op_put(struct text *t, const struct bisect_op *o);
/** As lines of a file, and from them. */
void bisect_launches_write(const struct bisect_launches *l, struct text *to);
bool bisect_launches_read(struct str text, struct bisect_launches *ret);

enum bisect_verdict {
	BISECT_UNFINISHED, // there was no more time
	BISECT_NEVER,      // it did not fail
	BISECT_HIDES,      // it fails, but not while it is looked at
	BISECT_NO_RACE,    // it fails as well when each launch waits for all before it
	BISECT_RACE,
	BISECT_UNSHOWN, // it vanishes when each launch waits, but no pair could be shown
	BISECT_RARE,    // it fails too seldom to tell
	BISECT_CHANGED, // it failed no more at the end, as it is
	BISECT_NOWHERE, // nothing of it was recorded on a GPU
};
const char *bisect_verdict_name(enum bisect_verdict v);

enum bisect_stage { STAGE_CONTROL, STAGE_BARE, STAGE_SERIAL, STAGE_DELAY, STAGE_PAIR, STAGE_WIDEN, STAGE_CONFIRM, STAGES };

/** A question, and what the runs said. */
struct bisect_question {
	enum bisect_stage stage;
	struct str key;   // its name in the journal
	struct str words; // for people
	struct str table; // of the recorder; of STAGE_BARE none is given
	struct tally control, tally;
	double error; // that a `yes` may have
	enum trial_answer answer;
	size_t early, late; // ops; SIZE_MAX: it is about none
};

struct bisect_result {
	struct arena arena;
	enum bisect_verdict verdict;
	VEC(struct bisect_question) questions;
	struct bisect_launches launches;
	unsigned runs, void_runs;
	struct tally control, bare;           // as it is; without the recorder
	struct tally widened, fixed;          // of the pair: with the delay, and with the wait
	struct bisect_pair pair;
	bool paired;
	bool part;              // the failure also has another cause: it came with the pair in order, too
	unsigned one_at_a_time; // runs that asking for each launch by itself would take, by its own rates
	double low_rate;        // a rate below it is not looked for
};
void bisect_result_free(struct bisect_result *r);

struct bisect_hands {
	/** Has @n runs made, at most, and returns how many were: they count in their order. 0: there is no more time. */
	unsigned (*run)(void *ctx, const struct bisect_question *q, unsigned n, struct trial_outcome *ret);
	/** After the control: what was launched in it. false: nobody knows. */
	bool (*launches)(void *ctx, struct bisect_launches *ret);
	void *ctx;
};
struct bisect_options {
	double low_rate;   // 0.05
	double error;      // of the whole family: 0.05
	unsigned deadline; // milliseconds of one wait
};
void bisect(const struct bisect_options *o, const struct bisect_hands *hands, struct bisect_result *ret);

/** The table of one more run that notes who launches the two and who allocates, and what its recording tells of them. */
struct str bisect_trace_table(const struct bisect_result *r, struct arena *a);
void bisect_traced(struct bisect_result *r, const struct flight_recording *from);

/** The plan, before anything ran: runs for each answer that it vanishes, at some rates. */
struct bisect_plan {
	double rate;
	unsigned control, clean, all; // until it is known how often it fails; for one answer; for all of it, about
};
struct bisect_plan bisect_plan_at(double rate, double error);
