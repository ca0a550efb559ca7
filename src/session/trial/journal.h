// What bisect and try share: the directory of a trial by all that it runs, the journal of its runs, and the place of those that run.
#pragma once

#include <signal.h>

#include "diagnose/trial/trial.h"
#include "job/trial/runs.h"

struct trial_log {
	struct arena arena;
	const char *directory;
	int journal;     // where runs are noted
	int lock;        // of the directory
	struct str told; // runs of before, that have not been asked for yet
	unsigned hung;
	struct text identity;
};

/** All that decides what is run is a part of its name: a trial is resumed only by the same. */
void trial_is(struct trial_log *l, const char *key, const char *text);
void trial_is_number(struct trial_log *l, const char *key, unsigned number);
/** The directory of the trial below @state_dir, or where those of this @kind are; with @fresh it begins anew. */
struct uh_error *trial_begin(struct trial_log *l, const char *kind, const char *state_dir, bool fresh);
/** The next run of before, if it was made for this question. */
bool trial_next(struct trial_log *l, struct str key, struct trial_outcome *ret);
struct uh_error *trial_add(struct trial_log *l, struct str key, const struct trial_outcome *x, bool hung);
/** The place of its runs. What one that was killed left there is removed: it is large. */
struct uh_error *trial_place(struct trial_log *l, struct runs *r);
/** A file of the trial. */
const char *trial_file(struct trial_log *l, const char *name);
/** What has ended begins anew the next time. */
void trial_done(struct trial_log *l);
void trial_free(struct trial_log *l);

/** Signals that end a trial are read from *@fd meanwhile. */
struct trial_signals {
	sigset_t before;
};
void trial_signals_take(struct trial_signals *s, int *fd);
void trial_signals_give(struct trial_signals *s, int *fd);
