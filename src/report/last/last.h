// What the flight recorder saw: `unhang last`.
#pragma once

#include "evidence/recording/recording.h"
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
	const struct uh_last_options *options;
};
/** A part of it: "ranks". */
struct sheet;
void walk_ranks(struct sheet *s, const struct last_seen *seen);
void report_last(const struct last_seen *seen, FILE *out);
/** A timeline for Perfetto and chrome://tracing. */
void report_perfetto(const struct last_seen *seen, FILE *out);
