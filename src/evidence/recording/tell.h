// A recording as evidence.
#pragma once

#include "evidence/artefact.h"
#include "evidence/recording/recording.h"

/** Hands on the events that a recording tells. */
void recording_tell(const struct artefact_output *out, const struct flight_recording *r);
/** Reads one and does that. */
struct file;
struct uh_error *recording_read(const struct artefact_output *out, const struct file *f);
