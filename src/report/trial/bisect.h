// What a bisection found, as text, JSON and HTML.
#pragma once

#include <stdio.h>

#include "diagnose/trial/bisect.h"
#include "knowledge/know.h"
#include "report/trial/rates.h"

struct bisect_told {
	const struct bisect_result *result;
	struct trial_asked asked;
	struct str directory;           // with what is stored of it
	struct str said;                // the last line of the newest failed run; empty
	struct str error;               // why it ended early; empty: it did not, or the budget was spent
	struct str stopped; // who or what ended it, where it goes on the next time
	const struct know_race *repair; // NULL: there is none
	bool resumed;
	unsigned hung; // runs that were ended because they hung
	double seconds;
	unsigned width; // of the text; 0: 80
};
/** The pattern of a pair, which is the id of its `race` block. */
const char *bisect_pattern(const struct bisect_result *r);
/** Who disturbs, and who is disturbed: places in the list of launches. */
size_t bisect_racer(const struct bisect_result *r);
size_t bisect_victim(const struct bisect_result *r);

enum { BISECT_LABEL = 10 }; // columns of the text's labels
void report_bisect(const struct bisect_told *t, bool json, FILE *out);
void report_bisect_html(const struct bisect_told *t, FILE *out);
/** What may come, before anything has run. */
void report_bisect_plan(double low_rate, double error, unsigned jobs, FILE *out);
