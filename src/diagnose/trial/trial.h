// Experiments that are counted: runs of a job with one thing changed, held against runs without. All tests are exact for small numbers, and
// each says beforehand how often it may be wrong. docs/BISECT.md has the simulation.
#pragma once

#include <stdbool.h>

/** Runs, and how many of them failed. */
struct tally {
	unsigned runs, failed;
};

/** How one run ended. */
struct trial_outcome {
	bool failed;
	bool found; // it shows the cause by itself, as a guarded one may
	bool lost;  // it does not count
	bool nowhere, somewhere; // nothing of it was recorded on a GPU, or something was; neither: nobody looked
	unsigned gpu; // that it had, where runs are spread over several; else 0
	double seconds;
};
enum { TRIAL_GPUS = 16 };

static inline double tally_rate(struct tally t) { return t.runs ? (double)t.failed / t.runs : 0; }

/** Between which limits the rate lies: the exact interval of Clopper and Pearson. */
struct tally_interval {
	double low, high;
};
struct tally_interval tally_limits(struct tally t, double confidence);

/** The chance of so few, or so many, failures of @t among all of both, if both fail alike (Fisher's exact test). */
double tally_fewer(struct tally control, struct tally t);
double tally_more(struct tally control, struct tally t);

/** Runs without a failure that tell a rate from none: with fewer, all would pass by chance more often than @error. 59 for 5 % and 0.05. */
unsigned clean_needed(double rate, double error);
/** The same where the rate is only known by a control. 0: it never tells. */
unsigned clean_needed_after(struct tally control, double error);

/** The error to ask the two above and below for, so that @error is what comes of it: for a control of at least 16 runs and 4 failures. */
double clean_level(struct tally control, double error);

/** Failures that a control wants before anything is held against it. */
enum { FAILURES_WANTED = 4 };
/** Whether it failed, not so often, and yet fails in fewer than @rate of all runs. Of jobs at @rate that is said of no more than @error. */
bool tally_too_rare(struct tally t, double rate, double error);

enum trial_answer { TRIAL_GOES_ON, TRIAL_YES, TRIAL_NO };
/** Whether a job that does not fail with the recorder does without: Fisher's test after @most runs, told as soon as no further run can change it. */
enum trial_answer trial_hides(struct tally control, struct tally bare, unsigned most, double error);
/** Whether a failure vanishes: yes after so many clean runs, no at the first failure. */
enum trial_answer trial_vanishes(struct tally control, struct tally t, double error);
/** Runs that tell that it comes more often, if all of them fail. 0: too many. */
unsigned raise_needed(struct tally control, double error);
/** Whether it comes more often. It is looked at after each run from where that could be told, until there are three times as many. */
enum trial_answer trial_raised(struct tally control, struct tally t, double error);
/** The same for a search, by the likelihood of a rate that has risen much: what it finds is to be shown by runs that it has not seen. */
enum trial_answer trial_seems_raised(struct tally control, struct tally t);

/** The error that attempt number @n, from 1 on, may have of @all, so that any number of them have no more together. */
double trial_share(double all, unsigned n);
/** The same for attempts of which many are expected. */
double trial_share_of_many(double all, unsigned n);
