// What the flight recorder saw: `unhang last`.
#pragma once

#include "diagnose/incident.h"
#include "evidence/recording/recording.h"
#include "report/sheet.h"
#include "unhang/unhang.h"

/** A recording that was read, and where. */
struct recording_seen {
	struct str path;
	const struct flight_recording *recording;
	int64_t user; // to whom the file belongs
	bool other;   // than the user who asks
};

/** Where ranks part: the first packet at which two of them launched different kernels. */
struct ranks_part {
	bool known;
	uint64_t packet;
	size_t one, other; // recordings
	struct str one_kernel, other_kernel;
};

/** Several ranks together. */
struct ranks_seen {
	bool known;
	size_t behind;        // the recording whose queues have ended the fewest packets
	uint64_t ended, most; // by it, by the one that is ahead
	struct ranks_part part;
};

/** What there is to write. */
struct last_seen {
	const struct recording_seen *list;
	size_t n;
	struct ranks_seen ranks;
	const struct incident *waits; // a call that does not return, explained; NULL: there is none, or it is too short
	const struct uh_last_options *options;
};
void report_last(const struct last_seen *seen, FILE *out);
/** A timeline for Perfetto and chrome://tracing. */
void report_perfetto(const struct last_seen *seen, FILE *out);

// --- for those who write it ---

/** One recording while it is written. */
struct recording_sheet {
	struct sheet sheet;
	struct arena arena;
	const struct uh_last_options *options;
	const struct flight_recording *r;
};

/** A number of seconds in JSON; its words for the text. */
struct sheet_value v_seconds(struct recording_sheet *w, double seconds);
/** A time in JSON; null where it is 0. */
struct sheet_value v_time(const struct recording_sheet *w, uint64_t ticks);
void put_thread(struct recording_sheet *w, const char *key, uint16_t slot);
/** "arguments": null where there are none. */
void walk_packet_arguments(struct recording_sheet *w, const struct recorded_packet *p);
/** "operation": null where it is NULL. */
void walk_operation(struct recording_sheet *w, const struct recorded_operation *o);
/** "operations": the last that began; a text has those that have not ended. */
void walk_operations(struct recording_sheet *w);
