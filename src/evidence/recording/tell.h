// A recording as evidence.
#pragma once

#include "evidence/artefact.h"
#include "evidence/recording/recording.h"

/** Tells of its process: how it ended, and which of its kernels is accused. @path: of its file; NULL: it lies in a bundle. */
void recording_tell_process(const struct artefact_output *out, const struct flight_recording *r, const char *path);
/** The newest launches as lines; *@ret_last: the newest that is known to have ended, and else what it was. */
void recording_launches(const struct flight_recording *r, struct arena *a, struct text *to, struct str *ret_last);
/** Reads one and does that. @bytes: of a source that is no file. */
struct source;
struct uh_error *recording_read(const struct artefact_output *out, const struct source *s, struct str bytes);
