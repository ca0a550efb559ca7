// Threads, calls that returned, and operations of a recording.
#include <stdlib.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"

/** The calls by the names that the runtime gives them. */
static const char *const names[CALLS] = {
	[CALL_POOL_ALLOCATE] = "hsa_amd_memory_pool_allocate",
	[CALL_POOL_FREE] = "hsa_amd_memory_pool_free",
	[CALL_ALLOCATE] = "hsa_memory_allocate",
	[CALL_FREE] = "hsa_memory_free",
	[CALL_RESERVE] = "hsa_amd_vmem_address_reserve",
	[CALL_UNRESERVE] = "hsa_amd_vmem_address_free",
	[CALL_HANDLE_CREATE] = "hsa_amd_vmem_handle_create",
	[CALL_HANDLE_RELEASE] = "hsa_amd_vmem_handle_release",
	[CALL_MAP] = "hsa_amd_vmem_map",
	[CALL_UNMAP] = "hsa_amd_vmem_unmap",
	[CALL_SET_ACCESS] = "hsa_amd_vmem_set_access",
	[CALL_IPC_ATTACH] = "hsa_amd_ipc_memory_attach",
	[CALL_IPC_DETACH] = "hsa_amd_ipc_memory_detach",
	[CALL_LOCK] = "hsa_amd_memory_lock",
	[CALL_UNLOCK] = "hsa_amd_memory_unlock",
	[CALL_INTEROP_MAP] = "hsa_amd_interop_map_buffer",
	[CALL_INTEROP_UNMAP] = "hsa_amd_interop_unmap_buffer",
	[CALL_SVM_SET] = "hsa_amd_svm_attributes_set",
	[CALL_ALLOW_ACCESS] = "hsa_amd_agents_allow_access",
	[CALL_COPY] = "hsa_memory_copy",
	[CALL_ASYNC_COPY] = "hsa_amd_memory_async_copy",
	[CALL_FILL] = "hsa_amd_memory_fill",
	[CALL_WAIT] = "hsa_signal_wait",
	[CALL_LOAD] = "hsa_executable_freeze",
	[CALL_UNLOAD] = "hsa_executable_destroy",
	[CALL_QUEUE_CREATE] = "hsa_queue_create",
	[CALL_QUEUE_DESTROY] = "hsa_queue_destroy",
	[CALL_FAULT] = "memory-fault",
	[CALL_QUEUE_ERROR] = "queue-error",
	[CALL_LEVEL] = "level",
	[CALL_INIT] = "hsa_init",
	[CALL_SHUT_DOWN] = "hsa_shut_down",
	[CALL_HOLD] = "hold",
	[CALL_COPY_AFTER] = "copy-after",
};

const char *call_name(uint32_t call) { return call < CALLS && names[call] ? names[call] : "unknown"; }

static size_t count(const struct recording_piece *p, size_t n, enum extent_kind kind)
{
	size_t slots = 0;
	for (size_t i = 0; i < n; i++)
		slots += p[i].extent.kind == kind ? p[i].extent.slots : 0;
	return slots;
}

static void take_threads(struct flight_recording *r, const struct recording_piece *p)
{
	for (uint64_t i = 0; i < p->extent.slots && p->extent.stride >= sizeof(struct rec_thread) && i < RECORD_NO_THREAD;
	     i++) {
		struct recorded_thread *t = &r->threads[r->nthreads];
		memcpy(&t->raw, p->slots + i * p->extent.stride, sizeof(t->raw));
		if (!t->raw.tid)
			continue;
		t->slot = (uint32_t)i;
		t->name = (struct str){ t->raw.name, strnlen(t->raw.name, sizeof(t->raw.name)) };
		r->nthreads++;
	}
}

static int event_order(const void *a, const void *b)
{
	const struct recorded_event *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/** Whether more events of the @n newest are missing than threads can have been writing when the process ended. Where the runtime was
 * loaded, there is at least one. */
static bool events_missing(const struct flight_recording *r, uint64_t n, uint64_t found)
{
	uint64_t writers = 1;
	for (size_t i = 0; i < r->nthreads; i++)
		writers += !r->threads[i].raw.ended;
	return found + writers < n || (!n && r->header.core_size);
}

static void take_events(struct flight_recording *r, const struct recording_piece *p)
{
	const uint64_t next = p->extent.head >= sizeof(struct rec_ring) ? get_u64(p->head) : 0, slots = p->extent.slots;
	const size_t first = r->nevents;
	if (p->extent.stride < sizeof(struct rec_event))
		return;
	for (uint64_t i = 0; i < slots; i++) {
		const char *at = p->slots + i * p->extent.stride;
		struct recorded_event *e = &r->events[r->nevents];
		if (!get_u64(at))
			continue;
		if (!next || !record_whole(at, RECORD_WORDS, next - 1, &e->id) || (e->id & (slots - 1)) != i) {
			r->torn++;
			continue;
		}
		memcpy(&e->raw, at, sizeof(e->raw));
		r->nevents++;
	}
	r->cut = r->cut || events_missing(r, next < slots ? next : slots, r->nevents - first);
	qsort(r->events + first, r->nevents - first, sizeof(*r->events), event_order);
}

static int operation_order(const void *a, const void *b)
{
	const struct recorded_operation *x = a, *y = b;
	return x->raw.id < y->raw.id ? -1 : x->raw.id > y->raw.id;
}

static void take_operations(struct flight_recording *r, const struct recording_piece *p)
{
	if (p->extent.stride < sizeof(struct rec_operation))
		return;
	for (uint64_t i = 0; i < p->extent.slots; i++) {
		const char *at = p->slots + i * p->extent.stride;
		struct recorded_operation *o = &r->operations[r->noperations];
		uint64_t id;
		if (!get_u64(at))
			continue;
		memcpy(&o->raw, at, sizeof(o->raw));
		if (o->raw.ntensors > REC_TENSORS ||
		    !record_whole(at, rec_operation_words(o->raw.ntensors), get_u32(at), &id)) {
			r->torn++;
			continue;
		}
		o->name = o->raw.name && o->raw.name <= r->nnames ? r->names[o->raw.name - 1] : (struct str){ 0 };
		r->noperations++;
	}
	qsort(r->operations, r->noperations, sizeof(*r->operations), operation_order);
}

static int statistics_order(const void *a, const void *b)
{
	const struct rec_statistics *x = a, *y = b;
	return x->time != y->time ? (x->time < y->time ? -1 : 1) : x->argument < y->argument ? -1 : x->argument > y->argument;
}

static void take_statistics(struct flight_recording *r, const struct recording_piece *p)
{
	const uint64_t next = p->extent.head >= sizeof(struct rec_ring) ? get_u64(p->head) : 0;
	if (p->extent.stride < sizeof(struct rec_statistics))
		return;
	for (uint64_t i = 0; i < p->extent.slots; i++) {
		const char *at = p->slots + i * p->extent.stride;
		uint64_t id;
		if (!get_u64(at))
			continue;
		if (!next || !record_whole(at, sizeof(struct rec_statistics) / 8, next - 1, &id))
			r->torn++;
		else
			memcpy(&r->statistics[r->nstatistics++], at, sizeof(*r->statistics));
	}
	qsort(r->statistics, r->nstatistics, sizeof(*r->statistics), statistics_order);
}

const struct recorded_operation *recording_operation(const struct flight_recording *r, uint32_t id)
{
	size_t low = 0, high = r->noperations;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (r->operations[middle].raw.id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return id && low < r->noperations && r->operations[low].raw.id == id ? &r->operations[low] : NULL;
}

void recording_calls(struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	r->threads = arena_alloc(&r->arena, (count(p, n, EXTENT_THREADS) + 1) * sizeof(*r->threads));
	r->events = arena_alloc(&r->arena, (count(p, n, EXTENT_EVENTS) + 1) * sizeof(*r->events));
	r->operations = arena_alloc(&r->arena, (count(p, n, EXTENT_OPERATIONS) + 1) * sizeof(*r->operations));
	r->statistics = arena_alloc(&r->arena, (count(p, n, EXTENT_STATISTICS) + 1) * sizeof(*r->statistics));
	for (size_t i = 0; i < n; i++) {
		if (p[i].extent.kind == EXTENT_THREADS)
			take_threads(r, &p[i]);
		else if (p[i].extent.kind == EXTENT_EVENTS)
			take_events(r, &p[i]);
		else if (p[i].extent.kind == EXTENT_OPERATIONS)
			take_operations(r, &p[i]);
		else if (p[i].extent.kind == EXTENT_STATISTICS)
			take_statistics(r, &p[i]);
	}
}
