// The head of a recording, and the heads of its queues, for those who look some times a second. The file is a stranger's, which may be cut
// under its reader: it is read, not mapped, and nothing in it is believed.
#pragma once

#include <stdbool.h>

#include "recorder/format.h"

/** false: it is no recording, or one of another version. */
bool recording_head(int fd, struct rec_header *ret);
/** How far the GPUs are in the queues of a recording, all together. */
struct recorded_pace {
	uint64_t taken, written; // packets: of the GPU, of the program
	unsigned queues, busy;   // busy: those that have work on the GPU
};
/** false: it cannot be read. */
bool recording_pace(int fd, struct recorded_pace *ret);

/** A call into the runtime that a thread is inside of. */
struct recorded_call {
	uint32_t call, tid; // enum rec_call; 0: there is none
	uint64_t a[4];
	char name[16];  // of the thread
	int64_t age_ms; // by the recording's own clock
};
/** Whether it returns by itself, whatever the GPU does: calls for memory and queues. */
bool call_ends_alone(uint32_t call);
/** Of the calls that return by themselves, whatever the GPU does (memory, queues), the one that has lasted longest. */
bool recording_call(int fd, const struct rec_header *h, struct recorded_call *ret);
