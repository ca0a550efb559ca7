// unhang selftest: what was compared, with what, and how it came out.
#pragma once

#include <stdio.h>

#include "gpu/find/witness.h"
#include "report/sheet.h"

enum selftest_end { SELFTEST_PASSED, SELFTEST_FAILED, SELFTEST_NOT_POSSIBLE, SELFTEST_NOT_ASKED };

/** One check of one GPU, or of the machine. */
struct selftest_check {
	const char *id, *what; // `banks`, and what is held against what
	struct str gpu;        // its PCI address; empty: the machine
	enum selftest_end end;
	struct str text;                 // as a phrase: what agreed, what did not, or why it is not possible
	const struct witness *witnesses; // who said what
	size_t nwitnesses;
};

/** A file that a look reads. */
struct selftest_file {
	struct str path;
	struct str gpu; // whose it is; empty: no GPU's
	size_t operations;
	uint64_t bytes, microseconds;
	size_t failed;      // operations; absent files among them
	bool late;          // it did not answer in time
	bool woke;          // it woke a sleeping GPU up
	struct probe first; // how it was read; not written
};

struct selftest_view {
	struct str kernel, driver;
	bool root;
	const struct device *gpus;
	size_t ngpus;
	const struct selftest_check *checks;
	size_t nchecks;
	const struct selftest_file *files;
	size_t nfiles;
	const char *file; // that is to be sent; NULL: none was written
	unsigned width;   // columns; 0: 80
};

size_t selftest_count(const struct selftest_view *v, enum selftest_end end);
void report_selftest(const struct selftest_view *v, bool json, FILE *out);
