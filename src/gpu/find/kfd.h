// What KFD, the compute part of the driver, says of this machine: which processes compute, and the descriptors and places of their queues.
#pragma once

#include "gpu/find/device.h"
#include "gpu/target.h"

struct kfd {
	struct arena arena;
	bool there; // the driver is loaded
	int64_t *pids;
	size_t npids;
	bool mqds_read, hqds_read; // kfd/mqds, kfd/hqds could be read
	struct str why_not;        // why one of them could not be read, as a line; empty
	const struct kfd_mqd *mqds;
	size_t nmqds;
	const struct kfd_hqd *hqds;
	size_t nhqds;
	const struct kfd_runlist *runlists; // of GPUs whose scheduler is not MES
	size_t nrunlists;
	struct probe_stuck stuck;
	struct probe_count count;
};

/** Reads the processes and the descriptors of their queues. That touches no GPU. @d: the GPUs that are looked at. */
void kfd_look(const struct devices *d, struct kfd *ret);
/** Reads what the scheduler was told to run. That touches no GPU. */
void kfd_look_at_runlists(struct kfd *k);
/** Reads the places of queues. For them the driver reads registers of every GPU, so this is done only if it is safe for all. */
void kfd_look_at_places(struct kfd *k, const struct know *know, const struct devices *d);
void kfd_free(struct kfd *k);
#define _cleanup_kfd_ _cleanup_(kfd_free)

/** The GPU that has this number in KFD, or one of whose partitions has; NULL: none. *@ret_partition says which. */
const struct device *devices_with_gpu_id(const struct devices *d, int64_t gpu_id, unsigned *ret_partition);
/** How many partitions its XCCs are divided into, as the driver's word for it says. */
unsigned device_partitions(const struct device *d);

// --- What KFD, the compute part of the driver, says of user queues in debugfs: kfd/mqds, kfd/hqds and kfd/rls ---

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

// What the words of a queue's descriptor (MQD) and of its registers (HQD) mean, by the blocks `mqd` of knowledge/queues.know.

/** NULL where the part's layout is not known. */
const struct know_mqd *mqd_layout(const struct know *k, struct str gfx);
/** The word of a register by its name, in the MQD or, with @hqd, in the list of registers; -1 where there is none. */
int mqd_word(const struct know_mqd *m, bool sdma, bool hqd, struct str name);
/** Words of one, and how they are laid out. */
struct mqd_words {
	const struct know_mqd *layout;
	bool sdma, hqd;
	const uint32_t *words;
	size_t n;
};
struct mqd_words mqd_words_of(const struct know_mqd *m, const struct kfd_mqd *q);
struct mqd_words hqd_words_of(const struct know_mqd *m, const struct kfd_hqd *h);
/** A value by its name in the block: `ring-low`. false where the words do not reach so far. */
bool mqd_value(struct mqd_words w, const char *name, uint32_t *ret);
/** Addresses, size and type of a queue by its descriptor. false where it is cut, or no queue's. */
bool mqd_queue(const struct know_mqd *m, const struct kfd_mqd *q, struct queue *ret);
/** The address of the ring of the queue that is in a place; 0: the place is empty. */
uint64_t hqd_ring(const struct know_mqd *m, const struct kfd_hqd *h);
/** Whether the GPU works on the queue in a place, or would if it had work. */
bool hqd_active(const struct know_mqd *m, const struct kfd_hqd *h, unsigned *ret_vmid);
