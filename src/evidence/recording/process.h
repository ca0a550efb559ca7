// The process of a recording, as far as this machine knows it.
#pragma once

#include "evidence/recording/recording.h"

/** What a process has mapped; a process that is stuck in the driver may not answer. */
struct str process_maps(struct arena *a, int64_t pid);
/** Whether it has started ROCm's runtime, without the recorder: the runtime is among @maps and no recording is. Where there is a KFD, it
 * also has that open, or it has only loaded the runtime, as whoever imports PyTorch has. */
bool process_unrecorded(struct str maps, int64_t pid);
/** The user with whose rights a process makes files; -1: there is no such process. */
int64_t process_user(int64_t pid);
/** Whether this process numbers others as the one of the recording did. */
bool recording_numbers_ours(const struct flight_recording *r);
/** Its process has the file at @path mapped, and is of the user to whom it belongs. */
bool recording_alive(const struct flight_recording *r, const char *path, int64_t owner);
