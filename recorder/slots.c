// Places of threads in a file, as recordings and lists of allocations have them.
#include "recorder/recorder.h"

/** Threads have their slots for good: those of threads that have ended are taken when no other is free. */
void *slot_take(void *slots, uint32_t n, size_t stride, size_t ended_at, uint32_t tid)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t none = 0, *its = (uint32_t *)((char *)slots + i * stride);
		if (__atomic_compare_exchange_n(its, &none, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return its;
	}
	for (uint32_t i = 0; i < n; i++) {
		char *slot = (char *)slots + i * stride;
		uint64_t *at = (uint64_t *)(slot + ended_at), ended = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (ended && __atomic_compare_exchange_n(at, &ended, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			__atomic_store_n((uint32_t *)slot, tid, __ATOMIC_RELEASE);
			return slot;
		}
	}
	return NULL;
}
