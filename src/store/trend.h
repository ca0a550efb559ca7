// Corrected hardware errors by module, block and day: they harm nothing, and how their rate changes takes more days than a log has. The watch keeps
// them beside the incidents.
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum { TREND_WEEK = 7, TREND_EVER = 1 << 20 };

struct trend_day {
	struct str module; // its serial number; else its unique id; else its PCI address
	struct str block;  // as the driver calls it; empty: not known
	int64_t day;       // since 1970
	int64_t n;
};

struct trend {
	struct arena arena;
	VEC(struct trend_day) days;
};

/** The day of a time in seconds since 1970. */
int64_t trend_day_of(double seconds);
/** What does not fit any more is left out. */
void trend_add(struct trend *t, const struct trend_day *d);
/** How many came in the @days up to @last. */
int64_t trend_came(const struct trend *t, struct str module, struct str block, int64_t last, int64_t days);
/** The first day that has one; -1: none has. */
int64_t trend_first(const struct trend *t, struct str module, struct str block);
void trend_free(struct trend *t);

/** A line for each: `DAY COUNT MODULE BLOCK`. */
void trend_text(const struct trend *t, struct text *to);
/** Adds what such a text has. false: a line is none. */
bool trend_parse(struct str text, struct trend *t);
/** Adds @more, such a text, to what is kept there, and forgets what is older than a year. */
struct uh_error *trend_keep(const char *directory, struct str more);
/** Adds what is kept there; nothing may be. */
void trend_load(const char *directory, struct trend *t);
