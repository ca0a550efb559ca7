// Where recordings are.
#pragma once

#include "evidence/recording/recording.h"
#include "session/look.h"

/** Paths of recordings, in @arena. */
struct recording_paths {
	struct arena arena;
	VEC(char *) list;
};
/** What @target names: a file, a directory, or a process. NULL: the newest recording of this user. */
struct uh_error *recordings_find(const char *target, struct recording_paths *ret);
void recording_paths_free(struct recording_paths *p);
/** Reads one, and whether its process is alive. */
struct uh_error *recording_open(const char *path, struct flight_recording **ret);
