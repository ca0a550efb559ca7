// A recording as evidence.
#pragma once

#include "evidence/artefact.h"
#include "evidence/recording/recording.h"

/** Hands on the events that a recording tells, and says how many of them tell of something that went wrong. */
size_t recording_tell(const struct artefact_output *out, const struct flight_recording *r);
/** Reads one and does that. @bytes: of a source that is no file. */
struct source;
struct uh_error *recording_read(const struct artefact_output *out, const struct source *s, struct str bytes);
