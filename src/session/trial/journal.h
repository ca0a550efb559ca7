// What bisect and try share: the directory of a trial by all that it runs, the journal of its runs, and the place of those that run.
#pragma once

#include <signal.h>

#include "diagnose/trial/trial.h"
#include "job/trial/runs.h"
#include "unhang/unhang.h"

#define TRIAL_UNUSED "unused" // a file: guard or pool had no allocation of the job
struct trial_log {
	struct arena arena;
	const char *directory;
	int journal;     // where runs are noted
	int lock;        // of the directory
	struct str told; // runs of before, that have not been asked for yet
	const char *journal_text; // where they begin
	unsigned hung;
	struct text identity;
};

/** The GPUs that runs can be made on, in the runtime's order. */
struct trial_gpus {
	unsigned n;     // that the job may see; 0: not known
	unsigned other; // the place of another one like the first, which the job uses; 0: there is none, or the user has chosen
	const char *visible; // those that the user left (ROCR_VISIBLE_DEVICES); NULL: all
};
struct know;
void trial_gpus_find(const struct know *k, const struct uh_trial_options *o, struct trial_gpus *ret);

/** The runs that the options ask for, which become a part of the trial's name. */
struct uh_error *trial_runs(struct trial_log *l, const struct uh_trial_options *o, const struct trial_gpus *gpus,
			    struct runs *ret);
/** All that decides what is run is a part of its name: a trial is resumed only by the same. */
void trial_is(struct trial_log *l, const char *key, const char *text);
void trial_is_number(struct trial_log *l, const char *key, unsigned number);
/** The directory of the trial, below that of this @kind, and the place of its runs. What one that was killed left there is removed: it is large. */
struct uh_error *trial_begin(struct trial_log *l, const struct know *k, const char *kind, const struct uh_trial_options *o,
			     struct runs *r);
/** Notes what the job is, or holds it against what was noted. An error where a trial that was stopped would go on with another job. */
struct uh_error *trial_same(struct trial_log *l, const struct know *k, char *const *command);
/** Whether it is to end: somebody stopped it, or the budget is spent, which began at @began. */
bool trial_over(struct runs *r, const struct uh_trial_options *o, int64_t began);
/** The next runs of before, @n at most, as far as they were made for this question. */
unsigned trial_told(struct trial_log *l, struct str key, unsigned n, struct trial_outcome *ret);
/** Notes a run, whose time becomes what was noted. */
struct uh_error *trial_add(struct trial_log *l, struct str key, struct trial_outcome *x, bool hung);
/** Who or what ended it, for people; empty: nobody did. */
struct str trial_stopped(struct trial_log *l, const struct runs *r, const struct uh_trial_options *o, int64_t began);
/** For who waits: how many runs of a question there are by now. @before: without the newest @n. */
void trial_count(FILE *say, const char *kind, struct tally before, const struct trial_outcome *newest, unsigned n);
/** A file of the trial. */
const char *trial_file(struct trial_log *l, const char *name);
/** What the newest failed run wrote last: the last line that has words, made safe. Empty: nothing. */
struct str trial_said(struct trial_log *l);
/** Writes what @write tells of @told into a file. */
struct uh_error *trial_save(const char *path, void (*write)(const void *told, FILE *to), const void *told, mode_t mode);
/** What has ended begins anew the next time. */
void trial_done(struct trial_log *l);
void trial_free(struct trial_log *l);

/** Signals that end a trial are read from *@fd meanwhile. */
struct trial_signals {
	sigset_t before;
};
void trial_signals_take(struct trial_signals *s, int *fd);
void trial_signals_give(struct trial_signals *s, int *fd);
