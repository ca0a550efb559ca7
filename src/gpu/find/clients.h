// Queues that clients of the driver fill themselves (DRM user queues, from Linux 6.16 on): debugfs has a directory for each open file of a
// device, with the place of each queue's descriptor and of the client's page tables. The rest is read from the GPU's memory.
#pragma once

#include "gpu/find/device.h"
#include "gpu/memory/vm.h"
#include "gpu/target.h"

/** As in the driver's interface (AMDGPU_HW_IP_*). */
enum client_queue_type { USER_QUEUE_GFX, USER_QUEUE_COMPUTE, USER_QUEUE_COPY };

struct client_queue {
	uint64_t client; // the driver's number of the open file
	int64_t pid;     // 0: not known
	struct str process;
	const struct device *device; // NULL: of none of these
	unsigned type;
	uint64_t mqd; // 0: not known
	bool tables_known;
	struct vm_tables tables;
	bool answered;      // its indexes could be read the last time
	bool described;     // what the descriptor says is in @queue
	struct queue queue; // its id, ring, addresses and indexes
	struct str problem; // what could not be read of it, and why; empty
};

struct client_queues {
	struct arena arena;
	struct client_queue *list;
	size_t n;
	struct probe_stuck stuck;
	struct probe_count count;
	int64_t looked_at; // when their indexes were read first
};

/** Reads what debugfs says of them, their descriptors and indexes. */
void client_queues_look(const struct know *k, const struct devices *d, struct client_queues *ret);
/** Reads the indexes again, which shows the queues that move. */
void client_queues_look_again(const struct know *k, struct client_queues *q);
void client_queues_free(struct client_queues *q);
/** How much waits, in what its indexes count: packets, words or bytes. */
uint64_t client_queue_waiting(const struct client_queue *u);
/** What the names of all clients and queues add up to; it changes when queues come or go. 0: there are none. */
uint64_t client_queues_names(const struct devices *d);

/** The texts of mqd_info and vm_pagetable_info. false: they do not have it. */
bool mqd_info_parse(struct str text, unsigned *ret_type, uint64_t *ret_mqd);
bool page_table_info_parse(struct str text, struct vm_tables *ret);
