// Whoever has work on a GPU. A verdict is about one of them: that another one works says nothing of it.
#pragma once

#include "evidence/silicon/user_queues.h"
#include "gpu/silicon/watch.h"

/** A process on an XCC, by its queues and waves there; or waves that nobody is known for; or the driver with its rings. */
struct party {
	unsigned xcc;
	const struct wave_set *waves; // of one address space and hardware queue; NULL: it has none here, or none were looked at
	const struct user_process *process; // NULL: not known, or the driver
	bool sure;                          // the GPU itself tells that the waves are that process's
	const struct holder *owner;         // whose waves they are that no process computes, where the GPU tells; NULL
	bool driver;
	size_t nqueues;
	const struct user_queue **queues; // its own, where its place on the GPU tells which one; else all of its process
	bool process_moves;               // another queue of the process moved, in the same partition
	bool others_move;                 // another party, or partition, makes progress on this GPU
	bool beside_move;                 // another party of the same partition does, so that it may use the command processor
};

/** Finds those on an XCC; there is at least one. They lie in @a. */
size_t parties_of(struct arena *a, const struct watch *w, const struct user_queues *q, unsigned xcc, struct party **ret);
bool party_has(const struct party *p, const struct user_queue *u);
/** Whether several programs or queues use the GPU, so that one that works may hide another. */
bool parties_may_hide(const struct watch *w, const struct user_queues *q);
