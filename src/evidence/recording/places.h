// Where the flight recorder puts recordings by itself.
#pragma once

#include "base/arena.h"

#define RECORDINGS_ROOT "/dev/shm"

/** A recording in one of those directories. */
struct recording_place {
	const char *directory, *name;
};
struct recording_places {
	VEC(struct recording_place) list;
};

/** Whether a file is called as recordings are. */
bool recording_named(struct str name);
/** Adds the recordings of this user, and for root those of all. The names are in @a; the list is the caller's to free. */
void recordings_default(struct arena *a, struct recording_places *ret);
/** Those in a directory. */
struct uh_error *recordings_in(struct arena *a, const char *directory, struct recording_places *ret);
