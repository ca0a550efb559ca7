// Where the flight recorder puts recordings by itself.
#pragma once

#include "base/arena.h"

#define RECORDINGS_ROOT "/dev/shm"

/** A recording. */
struct recording_place {
	const char *directory, *name; // a path below the directory, with no link on the way
	int64_t owner; // the file is believed if it belongs to this user; -1: the directory was named, so anybody's is
};
struct recording_places {
	VEC(struct recording_place) list;
	size_t left_out; // directories, of users who have too many
};

/** Whether a file is called as recordings are. */
bool recording_named(struct str name);
/** The process that the name of a recording tells: HOST.PID.recording. -1: it tells none. */
int64_t recording_pid(struct str name);
/** Adds the recordings of this user, and for root those of all: in directories of those users. Where others made a directory of such a
 * name, what is in it is theirs. The names are in @a; the list is the caller's to free. */
void recordings_default(struct arena *a, struct recording_places *ret);
/** Those in a directory. */
struct uh_error *recordings_in(struct arena *a, const char *directory, struct recording_places *ret);
