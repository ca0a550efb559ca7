// What KFD, the compute part of the driver, says of this machine: which processes compute, and the descriptors and places of their queues.
#pragma once

#include "gpu/find/device.h"
#include "gpu/find/kfd_files.h"

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

/** The GPU that has this number in KFD, or one of whose partitions has; NULL: none. *@ret_partition says which. */
const struct device *devices_with_gpu_id(const struct devices *d, int64_t gpu_id, unsigned *ret_partition);
/** How many partitions its XCCs are divided into, as the driver's word for it says. */
unsigned device_partitions(const struct device *d);
