// Who allocated and who launched, where the recorder was told to note it.
#pragma once

#include "evidence/allocations/names.h"
#include "evidence/recording/recording.h"

/** A backtrace that is looked for. */
struct trace_wanted {
	uint64_t what;  // the address that was allocated, or the kernel object that was launched
	uint64_t place; // REC_TRACE_MEMORY, REC_TRACE_COPIES, or the queue
	uint64_t time;  // the nearest to it counts
};
/** The trace in the recording; empty: there is none. */
struct str recording_trace(const struct flight_recording *r, struct trace_wanted of);
/** Its functions, the innermost first, up to @most of them. */
struct str trace_say(struct module_names *names, struct arena *a, struct str text, size_t most);
