// User queues whose barriers wait for each other's packets.
#pragma once

#include "evidence/silicon/user_queues.h"

enum { BARRIERS_MOST = 8 }; // queues of a cycle

/** A queue that a barrier holds, and the packet behind another barrier that would give its signal. */
struct barrier_wait {
	const struct user_queue *queue;
	uint64_t signal;
	const struct user_queue *by;
	const struct queue_task *task; // of @by
};

/** Finds a cycle that a queue of this GPU is in: each waits for the next, the last for the first. Returns how many queues it has. */
size_t barriers_cycle(const struct user_queues *q, struct str gpu, struct barrier_wait ret[static BARRIERS_MOST]);
/** `queue 1 stands at packet 41, a barrier before KERNEL, and waits for packet 12 of queue 2; ...` */
struct str barriers_say(struct arena *a, const struct barrier_wait *waits, size_t n);
