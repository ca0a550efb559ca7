// The text of a bug report, with the headings of ROCm's issue form.
#pragma once

#include <stdio.h>

#include "base/arena.h"

enum { BUG_REPORT_MOST = 65536 }; // characters: what trackers take

struct bug_report {
	bool incident; // there is one, and the diagnosis begins with it
	struct str system, cpu, kernel, driver, rocm;
	struct str gpus;      // one per line
	struct str bundle;    // the file with the evidence
	struct str diagnosis; // what unhang explain says
	struct str log;       // the kernel's log, as it is in the bundle
	const char *log_name; // its member
	bool (*matters)(const void *ctx, struct str line);
	const void *ctx;
};

/** Never more than BUG_REPORT_MOST characters: lines of the log are left out first, the oldest before the others. */
void report_bug(const struct bug_report *b, FILE *out);
