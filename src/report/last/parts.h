// What the files of this folder share while one recording is written.
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

struct sheet_value v_seconds(struct recording_sheet *w, double seconds);
/** A number of seconds in JSON; its words for the text. */
void put_seconds(struct recording_sheet *w, const char *key, double seconds);
/** A time in JSON; null where it is 0. */
void put_time(struct recording_sheet *w, const char *key, uint64_t ticks);
void put_thread(struct recording_sheet *w, const char *key, uint16_t slot);
/** "arguments": null where there are none. */
void walk_packet_arguments(struct recording_sheet *w, const struct recorded_packet *p);
/** "operation": null where it is NULL. */
void walk_operation(struct recording_sheet *w, const struct recorded_operation *o);
/** "operations": the last that began; a text has those that have not ended. */
void walk_operations(struct recording_sheet *w);
void walk_head(struct recording_sheet *w, const struct recording_seen *seen);
