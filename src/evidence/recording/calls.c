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
	[CALL_TRACE] = "trace",
};

const char *call_name(uint32_t call) { return call < CALLS && names[call] ? names[call] : "unknown"; }

/** Room for all records of a kind, and for one more. */
static void *recording_room_for(struct flight_recording *r, const struct recording_piece *p, size_t n, enum extent_kind kind,
				size_t size)
{
	size_t slots = 1;
	for (size_t i = 0; i < n; i++)
		slots += p[i].extent.kind == kind ? p[i].extent.slots : 0;
	return arena_alloc(&r->arena, slots * size);
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

/** Events and packets: both begin with their number. */
static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}
_Static_assert(!offsetof(struct recorded_event, id) && !offsetof(struct recorded_packet, id),
	       "their number is their first member");

static void take_events(struct flight_recording *r, const struct recording_piece *p)
{
	const uint64_t next = p->extent.head >= sizeof(struct rec_ring) ? get_u64(p->head) : 0, slots = p->extent.slots;
	const size_t first = r->nevents;
	if (p->extent.stride < sizeof(struct rec_event))
		return;
	for (uint64_t i = 0; i < slots; i++) {
		struct recorded_event *e = &r->events[r->nevents];
		if (!record_at(p, i, RECORD_WORDS, next, &e->id, &r->torn))
			continue;
		memcpy(&e->raw, p->slots + i * p->extent.stride, sizeof(e->raw));
		r->nevents++;
	}
	// More of the newest are missing than threads can have been writing when the process ended. Where the runtime was loaded, there is
	// at least one.
	const uint64_t newest = next < slots ? next : slots;
	uint64_t writers = 1;
	for (size_t i = 0; i < r->nthreads; i++)
		writers += !r->threads[i].raw.ended;
	r->cut = r->cut || r->nevents - first + writers < newest || (!newest && r->header.core_size);
	qsort(r->events + first, r->nevents - first, sizeof(*r->events), by_number);
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
	const size_t before = id ? sorted_upto(r->operations, r->noperations, raw.id, id - 1) : 0;
	return id && before < r->noperations && r->operations[before].raw.id == id ? &r->operations[before] : NULL;
}

void recording_calls(struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	r->threads = recording_room_for(r, p, n, EXTENT_THREADS, sizeof(*r->threads));
	r->events = recording_room_for(r, p, n, EXTENT_EVENTS, sizeof(*r->events));
	r->operations = recording_room_for(r, p, n, EXTENT_OPERATIONS, sizeof(*r->operations));
	r->statistics = recording_room_for(r, p, n, EXTENT_STATISTICS, sizeof(*r->statistics));
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

// === The queues of a recording and their packets: which are there. progress.c says how far each is. ===

enum { AQL_TYPE_VENDOR = 0, AQL_TYPE_DISPATCH = 2, AQL_TYPE_BARRIER_AND = 3, AQL_TYPE_BARRIER_OR = 5 };

static void packet_take(const struct flight_recording *r, struct recorded_packet *p)
{
	const unsigned type = p->raw.header & 0xff;
	const bool taken = p->raw.header == REC_PACKET_TAKEN;
	p->kind = taken || type == AQL_TYPE_DISPATCH                          ? PACKET_DISPATCH :
		  type == AQL_TYPE_BARRIER_AND || type == AQL_TYPE_BARRIER_OR ? PACKET_BARRIER :
										PACKET_OTHER;
	p->awaits_all = type == AQL_TYPE_BARRIER_AND;
	p->barrier_bit = !taken && p->raw.header >> 8 & 1;
	for (unsigned i = 0; i < 3; i++)
		p->group[i] = (p->raw.group >> 10 * i & 1023) + 1;
	p->dimensions = p->raw.group >> 30;
	p->kernel = p->kind == PACKET_BARRIER ? NULL : recording_kernel(r, p->raw.kernel, p->raw.time);
	p->operation = recording_operation(r, p->raw.operation);
}

static void arguments_take(struct flight_recording *r, struct recorded_packet *p, const struct recording_piece *from)
{
	struct rec_arguments a;
	uint64_t id;
	const char *at = from->slots + (p->id & (from->extent.slots - 1)) * from->extent.stride;
	memcpy(&a, at, sizeof(a));
	if (!a.check || a.id != (uint32_t)p->id)
		return;
	if (a.copied > from->extent.stride - sizeof(a) || !record_whole(at, 2 + (a.copied + 7u) / 8, p->id, &id) ||
	    id != p->id) {
		r->torn++;
		return;
	}
	struct rec_arguments *kept = arena_alloc(&r->arena, sizeof(*kept));
	*kept = a;
	p->arguments = kept;
	p->argument_bytes = (const uint8_t *)at + sizeof(a);
}

static void queue_take(struct flight_recording *r, const struct recording_piece *p, size_t n, const struct recording_piece *of)
{
	struct recorded_queue *q = &r->queues[r->nqueues++];
	const uint64_t slots = of->extent.slots;
	q->id = of->extent.id;
	memcpy(&q->head, of->head, sizeof(q->head));
	r->cut = r->cut || !q->head.size;
	q->read = q->head.read;
	q->write = q->head.write;
	q->agent = recording_agent(r, q->head.agent);
	q->packets = arena_alloc(&r->arena, slots * sizeof(*q->packets));
	// A packet's number may be above what was noted as seen: its producer is ahead of who notes.
	const uint64_t next = q->head.seen < UINT64_MAX - slots ? q->head.seen + slots : UINT64_MAX;
	for (uint64_t i = 0; i < slots; i++) {
		struct recorded_packet *k = &q->packets[q->n];
		if (!record_at(of, i, RECORD_WORDS, next, &k->id, &q->torn))
			continue;
		memcpy(&k->raw, of->slots + i * of->extent.stride, sizeof(k->raw));
		q->n++;
	}
	r->torn += q->torn;
	qsort(q->packets, q->n, sizeof(*q->packets), by_number);
	const struct recording_piece *arguments = NULL;
	for (size_t i = n; i-- > 0;)
		if (p[i].extent.kind == EXTENT_ARGUMENTS && p[i].extent.id == q->id &&
		    p[i].extent.stride >= sizeof(struct rec_arguments))
			arguments = &p[i];
	for (size_t i = 0; i < q->n; i++) {
		packet_take(r, &q->packets[i]);
		if (arguments)
			arguments_take(r, &q->packets[i], arguments);
	}
}

void recording_queues(struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	size_t queues = 0;
	for (size_t i = 0; i < n; i++)
		queues += p[i].extent.kind == EXTENT_QUEUE;
	r->queues = arena_alloc(&r->arena, (queues + 1) * sizeof(*r->queues));
	for (size_t i = 0; i < n; i++)
		if (p[i].extent.kind == EXTENT_QUEUE && p[i].extent.head >= sizeof(struct rec_queue) &&
		    p[i].extent.stride >= RECORD_SIZE)
			queue_take(r, p, n, &p[i]);
}
