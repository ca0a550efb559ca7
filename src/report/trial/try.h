// What experiments with a job told, as text, JSON and HTML.
#pragma once

#include <stdio.h>

#include "diagnose/trial/try.h"
#include "knowledge/know.h"
#include "report/trial/rates.h"

/** What unhang run and explain say of a run that was studied. */
struct try_failure {
	struct str class, title, kernel, place, words, ended, directory, allocator, lacking;
	int64_t findings, served, status, ran_ms, recordings;
	struct str remedies; // ids, with spaces between them
	struct str guard;    // whose the address is that faulted, as a guard tells it: past, before, freed, inside, wild; empty: no guard was there
};

struct try_told {
	const struct try_result *result;
	const struct know *know;
	struct trial_asked asked;
	unsigned gpus; // that runs are spread over; 0: they are not
	struct str directory;
	struct str said;             // the last line of the newest failed run; empty
	struct str error;            // why it ended early; empty: it did not, or the budget was spent
	struct str stopped; // who or what ended it, where it goes on the next time
	struct try_failure failure;  // of the job as it is; empty: it was not studied
	struct try_failure found;    // of the run that shows the cause by itself; empty: there is none
	const char *const *left_out; // experiments that cannot be made here
	size_t nleft_out;
	bool resumed;
	bool unused; // guard or pool had no allocation of the job
	unsigned hung;
	double seconds;
	unsigned width; // of the text; 0: 80
};
void report_try(const struct try_told *t, bool json, FILE *out);
void report_try_html(const struct try_told *t, FILE *out);
/** What may come, before anything has run. */
void report_try_plan(const struct try_model *m, double low_rate, double error, FILE *out);
