// Hardware errors that were corrected: they harm nothing, so they are no incident; how their rate changes is told.
#pragma once

#include "evidence/event.h"

struct uh_session;

enum { CORRECTED_MODULES = 64 };

/** Of one module. */
struct corrected {
	char module[64]; // its PCI address, or its place as its records name it
	uint64_t all;    // that were told
	uint64_t timed;  // those of a day that is known
	double first;    // seconds since 1970
	struct place at; // of the first
};

/** What one day had, of one module: a rate needs days, not times. */
struct corrected_day {
	size_t module;
	int64_t day; // since 1970
	uint64_t n;
};

struct corrected_all {
	size_t n;
	struct corrected list[CORRECTED_MODULES];
	VEC(struct corrected_day) days;
	double newest; // of all events that have a day
};

/** Takes each event; @when: its time, by the calendar where that is known. */
void corrected_take(struct corrected_all *c, const struct event *e, struct stamp when);
/** A note for each module. */
void corrected_tell(struct uh_session *s);
void corrected_free(struct corrected_all *c);
