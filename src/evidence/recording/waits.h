// A thread that does not come back from the runtime: what was allocated before, and where in the kernel it waits.
#pragma once

#include "evidence/recording/recording.h"

struct tape;

/** Allocations of up to SMALL_ALLOCATION bytes on GPUs that a recording has. */
struct small_allocations {
	uint64_t count, first, last; // ticks
};
/** What was allocated on GPUs, by size, in the order of the first of each: `48 of 7 MiB, 3,112 of 3584 bytes`. Empty: nothing was. */
struct str allocations_say(struct arena *a, const struct flight_recording *r, struct small_allocations *ret);

/** The GPU whose memory a thread is asking for; NULL: it is inside of another call, or asks for memory of the host. */
const struct recorded_agent *thread_asks_gpu(const struct flight_recording *r, const struct recorded_thread *t);
/** Its call as call_say() has it, and the function of HIP's that people know it by. */
struct str thread_call_say(struct arena *a, const struct flight_recording *r, const struct recorded_thread *t);

/** The function that a thread sleeps in, and the driver's by which it came there, from the kernel's texts; empty: they do not tell. */
struct str kernel_wait_say(struct arena *a, struct str wchan, struct str stack);
/** The same of a thread, asked now, or as a tape has it. */
struct str thread_wait_say(struct arena *a, struct tape *tape, int64_t pid, uint32_t tid);
/** Asks it of the threads that are inside of a call. */
void recording_ask_threads(struct flight_recording *r, struct tape *tape);
