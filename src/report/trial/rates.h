// Rates of failures, as text, JSON and a bar.
#pragma once

#include "base/command.h"
#include "diagnose/trial/trial.h"
#include "report/html/tag.h"
#include "report/sheet.h"
#include "unhang/unhang.h"

/** What somebody asked for: the job, and all that decides what is run. */
struct trial_asked {
	const struct uh_trial_options *job;
	unsigned guard_align, repro; // 0: as usual
	const char *const *names;    // of experiments
	size_t nnames;
};
/** The job for what is printed of it. */
struct job_words trial_job(struct arena *a, const struct trial_asked *asked);
/** A text with the job in place of PROGRAM. */
const struct command *trial_step(struct arena *a, const struct trial_asked *asked, struct str text);
void put_asked(struct sheet *s, const struct trial_asked *asked);

/** `4 of 12 failed (10 to 65 %)` */
struct str rate_say(struct arena *a, struct tally t);
/** Of runs without the recorder; empty: there are none. */
struct str bare_say(struct arena *a, struct tally t);
/** A job that fails too seldom to tell anything, and what follows from that. */
struct str rare_say(struct arena *a, struct tally control, struct tally bare, double low_rate);
/** Runs after which a job that failed, but fewer times than a control wants, is known to be too rare. */
unsigned rare_runs(double low_rate, double error);
#define RARE_NEXT                                                                                                                        \
	S("Make it fail more often: more load beside it, more steps in a run. Or let --low-rate name a lower rate, which takes more runs.")
/** A job that stopped failing by itself. */
#define CHANGED_SAYS S("Unresolved: it stopped failing by itself. As it is, its last runs did not fail, as the first did.")
#define CHANGED_NEXT                                                                                                                     \
	S("Find what changed meanwhile: files or caches that its first runs left, another job, the load. Undo it, then run the same command again.")
void put_tally(struct sheet *s, const char *key, struct tally t);
/** A page of rates: what a terminal shows above, then the rates. */
struct rates_page {
	struct str name; // unhang try
	const struct trial_asked *asked;
	void (*write)(const void *told, FILE *to); // a sentence, and rows that have one line each
	const void *told;
	size_t label; // columns of the rows' labels
};
void rates_page_begin(struct html *p, const struct rates_page *of);
/** A row: what was changed, the rate as a dot and its limits as a bar, and what came of it. */
void rates_page_row(struct html *p, struct str what, struct tally t, struct str answer);
void rates_page_end(struct html *p);
/** Columns of a text in which no row has a second line. */
enum { RATES_WIDTH = 100000 };
