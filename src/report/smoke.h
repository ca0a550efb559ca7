// The smoke test of GPUs, written down as each of them ends.
#pragma once

#include "gpu/find/device.h"
#include "report/sheet.h"

struct smoke_view {
	const struct device *device;
	const char *result; // in a word
	struct str step, error, library;
	int64_t milliseconds;
	struct str text; // the same as a sentence
};

struct smoke_report {
	struct sheet sheet;
	unsigned width; // columns; 0: 80
};

void report_smoke_begin(struct smoke_report *r);
void report_smoke(struct smoke_report *r, const struct smoke_view *v);
void report_smoke_end(struct smoke_report *r);
