// What the doctor found, as a table for people or as JSON.
#pragma once

#include <stdio.h>

#include "diagnose/doctor/doctor.h"
#include "unhang/unhang.h"

struct doctor_view {
	const struct host *host;
	const struct findings *findings;
	const struct uh_doctor_options *options;
	FILE *out;
	size_t width; // columns
	enum uh_verdict verdict;
};

void report_doctor(const struct doctor_view *v);
