// Which experiment is next, and what its outcome makes of each explanation. As with bisect.h, nothing here starts anything: whoever asks for a
// run is told how it ended, and the order of questions depends on nothing but the answers.
//
// Each suspect (knowledge/suspects.know) says how often the failure is gone in each experiment. The next experiment is the one that is expected
// to tell most, in bits, for each second that it takes. It is a sequential test by itself: `gone` after so many clean runs that the failure
// would have come; `fails` at the first failure; `finds` where a run shows the cause. On the way few clean runs are enough; what the answer
// rests on is made longer, until its error is the stated one.
#pragma once

#include "base/arena.h"
#include "diagnose/trial/trial.h"

enum { TRY_EXPERIMENTS = 48, TRY_SUSPECTS = 32 };

/** One thing that is changed. */
struct try_experiment {
	struct str id;     // its name in the journal, too
	struct str family; // the block of knowledge; of a remedy's switch `switches`
	struct str title;
	double slower; // so many times as long a run takes
	bool finds;    // one run can show the cause by itself
	uint64_t includes; // a bit for each experiment whose change it makes, too
	const void *of; // what whoever made the list knows of it
};

struct try_suspect {
	struct str id;
	double prior;  // in parts among all
	double always; // of its jobs, the share that fails in every run
	double gone[TRY_EXPERIMENTS], found[TRY_EXPERIMENTS];
	const void *of;
};

struct try_model {
	struct try_experiment experiments[TRY_EXPERIMENTS];
	struct try_suspect suspects[TRY_SUSPECTS];
	size_t nexperiments, nsuspects;
};

enum try_answer { TRY_OPEN, TRY_GONE, TRY_FAILS, TRY_FINDS };
const char *try_answer_name(enum try_answer a);

enum try_stage { TRY_CONTROL, TRY_BARE, TRY_EXPERIMENT };
/** Runs with one thing changed, or with nothing. */
struct try_question {
	enum try_stage stage;
	size_t experiment; // place in the model
	struct str key;    // its name in the journal
	struct tally control, tally;
	double error; // that `gone` may have
	enum try_answer answer;
	double bits;       // that were expected of it
	double expected_s; // and how long it was expected to take
};

enum try_verdict {
	TRY_UNFINISHED, // there was no more time
	TRY_NEVER,      // it did not fail
	TRY_HIDES,      // it fails, but only where nobody looks
	TRY_EXPLAINED,
	TRY_UNDECIDED, // several explanations are left
	TRY_RARE,      // it fails too seldom to tell
	TRY_NOWHERE,   // nothing of it was recorded on a GPU, which all experiments are about
};
const char *try_verdict_name(enum try_verdict v);

struct try_result {
	struct arena arena;
	enum try_verdict verdict;
	struct try_model model;
	bool modelled; // the model is known
	VEC(struct try_question) questions;
	struct tally control, bare; // as it is; without the recorder
	struct tally on_gpu[TRIAL_GPUS]; // of the control, where its runs are spread over GPUs
	double weights[TRY_SUSPECTS]; // of 1, after all answers
	double before[TRY_SUSPECTS];  // by the failure alone
	size_t leads;                 // place of the most likely suspect
	unsigned runs, void_runs;
	double low_rate, seconds; // of a run as it is
};
void try_result_free(struct try_result *r);

struct try_hands {
	/** Has @n runs made, at most, and returns how many were: they count in their order. 0: there is no more time. */
	unsigned (*run)(void *ctx, const struct try_question *q, unsigned n, struct trial_outcome *ret);
	/** Before anything ran, and again when the job has failed: what can be tried, and what may be behind it. The second call keeps the
	 * experiments of the first in their places. */
	void (*model)(void *ctx, bool failed, struct try_model *ret);
	/** The control has ended: what follows, for who waits. NULL: nobody does. */
	void (*planned)(void *ctx, const struct try_result *r, double expected_s);
	void *ctx;
};

struct try_options {
	double low_rate; // 0.05
	double error;    // of a `gone` that the answer rests on: 0.05
	double certain;  // the weight of an explanation that holds: 0.9
	bool unrecorded; // a job of which nothing was recorded is tried, too
	bool named;      // somebody named the experiments: those that can find by themselves are made also where the job does not fail
};
void trial_try(const struct try_options *o, const struct try_hands *hands, struct try_result *ret);

struct know;
struct fact_view;
/** What of the experiments of knowledge can be made. */
struct try_wanted {
	const char *const *names; // only these; NULL: all
	size_t nnames;
	bool allocator;   // guard and pool are there
	bool another_gpu; // there is more than one
};
/** The experiments that fit any job, with what each suspect says of them; for a failure of which nothing is known. */
void try_model_begin(const struct know *k, const struct try_wanted *w, struct try_model *m);
/** The failure is known: the experiments for it come behind, and suspects weigh as its class says. @remedies: ids of what helps
 * against it, with spaces between them. */
void try_model_failed(const struct know *k, const struct try_wanted *w, struct str class, const struct fact_view *facts,
		      struct str remedies, struct try_model *m);

/** What the control and the answers make of each suspect. */
void try_weigh(const struct try_model *m, struct tally control, const struct try_question *questions, size_t n,
	       double ret_weights[TRY_SUSPECTS]);
/** How long all that is left is expected to take, if nothing is decided before. */
double try_expected(const struct try_result *r, const struct try_options *o);
/** Whether the control is enough to hold experiments against it. */
bool try_control_done(struct tally t, double low_rate, double error);
