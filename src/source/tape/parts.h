// What recording and playing share.
#pragma once

#include "source/tape/format.h"
#include "source/tape/tape.h"

/** Texts by number and back. */
struct tape_names {
	struct arena arena;
	VEC(struct str) list;
	uint32_t *slots; // number + 1; 0: free
	size_t nslots;
};
/** The number of a name; UINT32_MAX: it has none, and @add is not set. */
uint32_t tape_name(struct tape_names *n, struct str name, bool add);
void tape_names_free(struct tape_names *n);

/** An answer on a tape. Those to the same request stand together, in the order in which they were given. */
struct taped {
	struct tape_probe probe;
	uint32_t track, order;
	uint32_t played; // in the first of a request: how many were handed out
};

struct tape_track {
	struct str name;
	char *bytes;
	size_t n;
	bool whole;
	VEC(struct tape_batch) batches;
};

/** A log on a tape. */
struct taped_log {
	struct str name, called; // called: by the one who read it
	struct str records;      // its own, and what follows
};

struct tape_recorder {
	struct tape_recording to;
	uint64_t written;
	uint32_t sum; // of that
	uint32_t batches;
	int error;      // why not all is on the tape; 0
	int64_t synced; // when it was last brought to the disk
	struct text room;
	struct str refused; // one of the tape's paths
	struct str unread;  // see tape_unread()
};

struct tape_player {
	VEC(struct tape_track) tracks;
	VEC(struct taped) answers;
	VEC(struct taped_log) logs;
	uint32_t track;
	bool sorted;
	int64_t now;
};

struct tape {
	bool plays;
	struct tape_names paths;
	struct tape_recorder recorder;
	struct tape_player player;
};
