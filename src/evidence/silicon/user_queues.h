// The queues of the processes that compute, looked at several times: which of them stand still, and what waits in them.
#pragma once

#include "gpu/find/clients.h"
#include "gpu/process/target.h"

/** A packet that waits in a queue. */
struct queue_task {
	uint64_t index;
	uint64_t signal;   // that it gives when it is done; 0: none
	struct str packet; // barrier_and
	struct str kernel; // of a dispatch
};

/** A user queue at two looks. */
struct user_queue {
	struct str gpu; // PCI address
	uint64_t xccs;  // a bit for each XCC of the partition that it is on; 0: it may be any
	struct queue_slot slot;
	uint32_t id;
	uint64_t first_read, read;
	uint64_t pending;  // behind the read index
	bool packets;      // @pending counts AQL packets
	bool known;        // its indexes were read at more than one look
	struct str packet; // at the read index: kernel_dispatch, barrier_and; empty
	struct str kernel;
	size_t process;
	const struct client_queue *client; // it is of a client of the driver; NULL: of KFD
	bool waits; // a barrier at the read index holds it
	size_t nsignals;
	uint64_t signals[5]; // that it waits for: all of them, or the one that is left
	size_t ntasks;
	struct queue_task *tasks; // what stands in it, from the read index on; of a queue that stands still
};

struct user_process {
	int64_t pid;
	struct str name;
	struct target *target; // NULL: it does not compute through KFD
};

struct user_queues {
	struct arena arena;
	size_t looks;
	struct kfd kfd;
	struct client_queues clients;
	bool placed; // the places of queues were asked for
	size_t nprocesses, n;
	struct user_process *processes;
	struct user_queue *list;
};

/** What a queue did between the first look and the newest. */
static inline bool user_queue_moved(const struct user_queue *u) { return u->read != u->first_read; }
static inline bool user_queue_stands(const struct user_queue *u) { return u->read == u->first_read && u->pending; }

void user_queues_look(struct user_queues *q, const struct know *k, const struct devices *d);
/** Finds the places of the queues on their GPUs, which tell whose waves are whose. The driver reads registers for that: once, and only
 * where that is safe on every GPU. */
void user_queues_place(struct user_queues *q, const struct know *k, const struct devices *d);
/** A bit for each XCC of the partition that has this one. */
uint64_t partition_of_xcc(const struct device *d, unsigned xcc);
void user_queues_free(struct user_queues *q);

// --- User queues whose barriers wait for each other's packets ---

enum { BARRIERS_MOST = 8 }; // queues of a cycle

/** A queue that a barrier holds, and the packet behind another barrier that would give its signal. */
struct barrier_wait {
	const struct user_queue *queue;
	uint64_t signal;
	const struct user_queue *by;
	const struct queue_task *task; // of @by
};

/** The packet that gives one of the signals which hold a queue; false: no queue of its process has such a packet. */
bool barrier_giver(const struct user_queues *q, const struct user_queue *u, struct barrier_wait *ret);
/** Finds a cycle that a queue of this GPU is in: each waits for the next, the last for the first. Returns how many queues it has. */
size_t barriers_cycle(const struct user_queues *q, struct str gpu, struct barrier_wait ret[static BARRIERS_MOST]);
/** `queue 1 stands at packet 41, a barrier before KERNEL, and waits for packet 12 of queue 2; ...` */
struct str barriers_say(struct arena *a, const struct barrier_wait *waits, size_t n);
