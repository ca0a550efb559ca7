// The note about GPUs and queues in a core.
#pragma once

#include "gpu/target.h"

struct core_note {
	uint64_t version;
	uint32_t kfd_major, kfd_minor;
	uint64_t r_debug; // address of the list of loaded code objects
	uint32_t runtime_state, ttmps_set_up;
	size_t nagents, nqueues;
	struct agent *agents;
	struct queue *queues;
};

/** @at: where @desc lies in its file, for errors. */
struct uh_error *core_note_parse(struct arena *a, struct str desc, uint64_t at, struct core_note *ret);
