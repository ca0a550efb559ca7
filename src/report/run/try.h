// An experiment with a job: as it is, and with one thing changed.
#pragma once

#include "knowledge/know.h"
#include "report/run/run.h"

enum { TRY_ARMS = 2 };
/** By which of the two runs went wrong. */
enum try_outcome { TRY_PASSES, TRY_EXPOSES, TRY_CURES, TRY_FAILS };

/** One run. */
struct tried {
	int status; // of the job
	struct str directory;
	const struct run_try *last; // NULL: there was none
	int64_t findings;           // of the allocator
};

struct try_told {
	const struct know_experiment *experiment;
	char *const *command;
	struct tried arms[TRY_ARMS]; // as it is; changed
	size_t narms;
	bool whole; // both ran
	enum try_outcome outcome;
	struct str means; // that, in sentences
};
void report_try(const struct try_told *t, bool json, size_t width, FILE *out);
