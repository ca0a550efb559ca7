// Kernels that are held back while their buffers are read: held.c.
#pragma once

#include "recorder/recorder.h"

enum {
	LOOK_US = 20,
	AHEAD_MS = 1000, // so long a program that is far ahead waits for the GPU to come one kernel further
};
uint64_t now_ms(void);
struct timespec in_seconds(int n);
void look_pause(void);

/** A kernel that is held back: a barrier before it counts that all earlier work has ended, a second one waits for us. */
struct held {
	struct held *next; // of its queue
	uint64_t packet, kernel, arguments;
	int size; // of the arguments
	uint32_t operation;
	hsa_handle released; // what the second barrier waits for
	bool gone;           // it was let go before its buffers were read
};

/** A signal for a GPU: nobody on the host sleeps until it changes, so that it needs no interrupt. 0: there is none. */
hsa_handle signal_new(int64_t value, hsa_handle consumer);
void signal_end(hsa_handle signal);
/** How often a signal that began at 0 was counted down. */
uint64_t signal_counted(hsa_handle signal);

/** Those of a queue. */
struct holding;

/** NULL: none can be held. @queue: its number in the recording. The recorder's lock is held. */
struct holding *holding_new(hsa_handle agent, uint64_t size, uint32_t queue);
/** What the first barrier of each kernel counts down. */
hsa_handle holding_reached(const struct holding *h);
/** Whether one more may be held. It waits only where very many are, and only while they go on. */
bool holding_room(struct holding *h);
/** NULL: there is no memory for it. */
struct held *held_new(const struct holding *h, const uint64_t *packet, uint64_t index);
void held_free(struct held *k);
/** Kernels that were handed on to the GPU, linked in their order. From now on they belong to the thread that reads. */
void holding_add(struct holding *h, struct held *first);
/** The queue is going to be destroyed: all go. */
void holding_end(struct holding *h);
/** It was destroyed. */
void holding_free(struct holding *h);

/** Reading has come further. false: the kernel was let go meanwhile, and what is read is not what it found. */
bool reading_on(void);
/** Nothing was read for long: nobody may wait for it. */
bool reading_stuck(void);
/** Looks, now and then, whether reading goes on; where it does not, all kernels are let go. */
void reading_watch(void);
/** The level was set: where nothing could be read before, it is tried again. */
void reading_again(void);
/** The runtime ends: all kernels are let go, and none is held any more. */
void reading_end(void);

// guard.c: memory that is read must not be freed in that moment.
bool guard_wait(void);
void guard_end(void);

/** Around a call that ends memory. Returns what guard_leave() wants to know. */
static inline bool guard_enter(void) { return rec.settings.max_level >= LEVEL_STATISTICS && guard_wait(); }
static inline void guard_leave(bool entered)
{
	if (entered)
		guard_end();
}
/** Around the reading of a piece. false: somebody who ends memory does not come to an end. */
bool guard_read(void);
void guard_read_end(void);

// copies.c: copies of the program that wait for a kernel.
bool copies_wait(uint32_t n, const hsa_handle *signals);
void copies_go_on(void);

/** Around a copy of the program's behind @signals. Returns what copies_leave() wants to know. */
static inline bool copies_enter(uint32_t n, const hsa_handle *signals)
{
	return rec.settings.max_level >= LEVEL_STATISTICS && copies_wait(n, signals);
}
static inline void copies_leave(bool entered)
{
	if (entered)
		copies_go_on();
}
/** Whether a copy of the runtime's would go at once. If so, it is the next one, until copies_go_on(). */
bool copies_stop(void);
