// What the files that write about recordings share.
#pragma once

#include "report/last/last.h"
#include "report/sheet.h"

/** One recording while it is written. */
struct recording_sheet {
	struct sheet sheet;
	struct arena arena;
	const struct uh_last_options *options;
	const struct flight_recording *r;
};

/** A number of seconds in JSON; its words for the text. */
void put_seconds(struct recording_sheet *w, const char *key, double seconds);
/** A time in JSON; null where it is 0. */
void put_time(struct recording_sheet *w, const char *key, uint64_t ticks);
void walk_head(struct recording_sheet *w, const struct recording_seen *seen);
