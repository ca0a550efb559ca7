// What KFD, the compute part of the driver, says of user queues in debugfs: kfd/mqds, kfd/hqds and kfd/rls.
#pragma once

#include "base/arena.h"

enum kfd_kind { KFD_COMPUTE, KFD_SDMA, KFD_SCHEDULER, KFD_DEBUG }; // the scheduler's own queue (HIQ), the debugger's (DIQ)

/** A queue's descriptor in memory. */
struct kfd_mqd {
	int64_t pid;
	uint32_t gpu_id;
	enum kfd_kind kind;
	unsigned queue; // the process's queues are counted in the order of the file
	unsigned copy;  // each XCC has its own copy
	size_t n;
	const uint32_t *words;
};

/** A place on a GPU that a queue may be mapped to, with its registers. */
struct kfd_hqd {
	uint32_t gpu_id;
	enum kfd_kind kind;
	unsigned xcc, me, pipe, queue; // for an SDMA queue, pipe is the engine
	uint32_t address;              // of the first register, bytes
	size_t n;
	const uint32_t *words;
};

/** What the scheduler firmware was told to run. */
struct kfd_runlist {
	uint32_t gpu_id;
	size_t n; // 0: nothing
	const uint32_t *words;
};

/** Each takes the text of a file and returns how many it found. Results lie in @a. What is not understood is skipped. */
size_t kfd_mqds_parse(struct arena *a, struct str text, const struct kfd_mqd **ret);
size_t kfd_hqds_parse(struct arena *a, struct str text, const struct kfd_hqd **ret);
size_t kfd_runlists_parse(struct arena *a, struct str text, const struct kfd_runlist **ret);
