// Where recordings are.
#pragma once

#include <time.h>

#include "evidence/recording/recording.h"
#include "session/look.h"

/** A recording, and the user to whom it must belong; -1: anybody. */
struct recording_path {
	char *path;
	int64_t owner;
	struct timespec changed; // where the newest is looked for
};
/** Paths of recordings, in @arena. */
struct recording_paths {
	struct arena arena;
	VEC(struct recording_path) list;
	bool one; // the first of them that can be read is meant
};
/** What @target names: a file, a directory, or a process. NULL: the newest recording of this user; of others only if there is none, and only root. */
struct uh_error *recordings_find(const char *target, struct recording_paths *ret);
/** Reads what @target names as evidence of @s, and no other files of a directory. */
struct uh_session;
void recordings_add(struct uh_session *s, const char *target);
void recording_paths_free(struct recording_paths *p);
/** Reads one, and whether its process is alive; @ret_owner may be NULL: to whom the file belongs. */
struct uh_error *recording_open(const struct recording_path *p, struct flight_recording **ret, int64_t *ret_owner);
