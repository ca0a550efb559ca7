// Queues: a thread for each takes its packets one after the other, as a command processor that has no second one at a time.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "gpu/target.h"

enum { SPINS = 2000, NAPS = 200, NAP_NS = 20000, REST_NS = 500000, GPU_CLOCK_NS = 10 };

/** Waits for something that the host or another queue writes: at once at first, since a launch shall be answered quickly, then less and
 * less often, since there are more queues than processors. */
struct patience {
	unsigned turns;
};

static void be_patient(struct patience *p)
{
	p->turns++;
	if (p->turns < SPINS)
		sched_yield();
	else
		sleep_seconds((p->turns < SPINS + NAPS ? NAP_NS : REST_NS) / 1e9);
}

static bool ends(const struct kmt_queue *q) { return __atomic_load_n(&q->ends, __ATOMIC_ACQUIRE); }

// --- signals ---

/** A signal lies in the host's memory, which a GPU may reach at all times. */
static struct kmt_signal *signal_at(uint64_t handle) { return (struct kmt_signal *)(uintptr_t)handle; }

static void complete(struct kmt_queue *q, uint64_t handle, uint64_t began)
{
	struct kmt_signal *s = signal_at(handle);
	if (!s)
		return;
	s->start = began / GPU_CLOCK_NS;
	s->end = clock_ns() / GPU_CLOCK_NS;
	// Whoever sees the value may free the signal: what belongs to its event is read before.
	uint64_t mailbox = s->mailbox;
	uint32_t event = s->event;
	__atomic_sub_fetch(&s->value, 1, __ATOMIC_RELEASE);
	if (!mailbox)
		return;
	__atomic_store_n((uint64_t *)(uintptr_t)mailbox, event, __ATOMIC_RELEASE);
	event_set(q->thunk, event);
}

static int64_t value_of(uint64_t handle) { return __atomic_load_n(&signal_at(handle)->value, __ATOMIC_ACQUIRE); }

static bool barrier_met(const struct aql_barrier *b, bool all)
{
	size_t waits = 0, met = 0;
	for (size_t i = 0; i < 5; i++)
		if (b->waits[i]) {
			waits++;
			met += value_of(b->waits[i]) == 0;
		}
	return all ? met == waits : met || !waits;
}

static bool value_met(const struct aql_value *v)
{
	int64_t is = v->waits ? value_of(v->waits) & v->mask : 0;
	switch (v->condition) {
	case 0:
		return is == v->value;
	case 1:
		return is != v->value;
	case 2:
		return is < v->value;
	default:
		return is >= v->value;
	}
}

static bool met(const union aql *packet)
{
	unsigned type = packet->header & AQL_TYPE_BITS;
	if (type == AQL_BARRIER_AND || type == AQL_BARRIER_OR)
		return barrier_met(&packet->barrier, type == AQL_BARRIER_AND);
	return type != AQL_VENDOR || packet->value.format != AQL_VENDOR_BARRIER_VALUE || value_met(&packet->value);
}

// --- the thread ---

/** Whether the queue goes on behind this packet. */
static bool process(struct kmt_queue *q, const union aql *packet)
{
	uint64_t began = clock_ns();
	struct patience patience = { 0 };
	while (!met(packet)) {
		if (ends(q))
			return false;
		be_patient(&patience);
	}
	if ((packet->header & AQL_TYPE_BITS) == AQL_DISPATCH && !run_kernel(q, &packet->kernel))
		return false;
	complete(q, packet->kernel.signal, began);
	return true;
}

/** The next packet, if its header says that it has been written. */
static bool take(const struct kmt_queue *q, uint64_t index, union aql *ret)
{
	if (index >= __atomic_load_n(q->write, __ATOMIC_ACQUIRE) || __atomic_load_n(&q->suspended, __ATOMIC_ACQUIRE))
		return false;
	const char *slot = (const char *)q->ring + index % q->packets * AQL_BYTES;
	uint16_t header = __atomic_load_n((const uint16_t *)slot, __ATOMIC_ACQUIRE);
	if ((header & AQL_TYPE_BITS) == AQL_INVALID)
		return false;
	memcpy(ret, slot, AQL_BYTES);
	return true;
}

/** A program that keeps itself to one processor does not keep its GPU there. */
static void use_every_processor(void)
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
}

static void *work(void *queue)
{
	struct kmt_queue *q = queue;
	struct patience patience = { 0 };
	use_every_processor();
	prctl(PR_SET_NAME, "gpu-queue");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	while (!ends(q)) {
		union aql packet;
		uint64_t index = *q->read;
		if (!take(q, index, &packet)) {
			be_patient(&patience);
			continue;
		}
		patience.turns = 0;
		if (!process(q, &packet))
			break;
		char *slot = (char *)(uintptr_t)q->ring + index % q->packets * AQL_BYTES;
		__atomic_store_n((uint16_t *)slot, AQL_INVALID, __ATOMIC_RELEASE);
		__atomic_store_n(q->read, index + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

void queue_exception(struct kmt_queue *q, unsigned code)
{
	if (!q->error || !q->event)
		return;
	__atomic_or_fetch(q->error, INT64_C(1) << (code - 1), __ATOMIC_RELEASE);
	event_set(q->thunk, q->event->id);
}

void queue_stand(struct kmt_queue *q)
{
	while (!ends(q))
		sleep_seconds(REST_NS / 1e9);
}

// --- the interface ---

static unsigned free_number(const struct thunk *t)
{
	unsigned id = 0;
	while (id < KMT_QUEUES_MOST && t->queues[id])
		id++;
	return id;
}

/** As on a gfx94x, whose runtime puts rings into VRAM that the host may write. */
static void move_ring(struct thunk *t, uint64_t ring, uint32_t node)
{
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = memory_block(t, ring);
	if (b && t->plan.closed)
		b->node = node;
	pthread_rwlock_unlock(&t->memory);
}

struct kmt_queue_wanted {
	const struct plan_gpu *gpu;
	void *ring;
	uint64_t size;
	struct kmt_event *event;
};

static struct kmt_queue *start(struct thunk *t, const struct kmt_queue_wanted *w, const struct kmt_queue_resource *r)
{
	unsigned id = free_number(t);
	if (id == KMT_QUEUES_MOST)
		return NULL;
	struct kmt_queue *q = mem_alloc(sizeof(*q));
	*q = (struct kmt_queue){ .thunk = t,
				 .gpu = w->gpu,
				 .id = id,
				 .ring = w->ring,
				 .packets = w->size / AQL_BYTES,
				 .doorbell = &t->doorbells[id],
				 .write = r->write,
				 .read = r->read,
				 .error = r->error,
				 .event = w->event };
	if (pthread_create(&q->thread, NULL, work, q)) {
		free(q);
		return NULL;
	}
	t->queues[id] = q;
	return q;
}

int hsaKmtCreateQueue(uint32_t node, uint32_t type, uint32_t share, int32_t priority, void *ring, uint64_t size,
		      struct kmt_event *event, struct kmt_queue_resource *resource)
{
	struct thunk *t = thunk_get();
	(void)share;
	(void)priority;
	struct kmt_queue_wanted wanted = { thunk_gpu(t, node), ring, size, event };
	if (type != KMT_QUEUE_AQL)
		return KMT_NOT_SUPPORTED; // without copy engines the runtime copies by kernels
	if (!wanted.gpu || size < AQL_BYTES || !ring || !resource->read || !resource->write)
		return KMT_INVALID_PARAMETER;
	move_ring(t, (uintptr_t)ring, node);
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = start(t, &wanted, resource);
	pthread_mutex_unlock(&t->lock);
	if (!q)
		return KMT_NO_MEMORY;
	resource->id = q->id;
	resource->doorbell = q->doorbell;
	thunk_tell(t, "queue %u gpu %u ring 0x%llx size %llu read 0x%llx write 0x%llx", q->id, q->gpu->id,
		   (unsigned long long)(uintptr_t)ring, (unsigned long long)size, (unsigned long long)(uintptr_t)q->read,
		   (unsigned long long)(uintptr_t)q->write);
	return KMT_SUCCESS;
}

static struct kmt_queue *queue_of(struct thunk *t, uint64_t id) { return id < KMT_QUEUES_MOST ? t->queues[id] : NULL; }

/** A share of 0 suspends it. */
int hsaKmtUpdateQueue(uint64_t id, uint32_t share, int32_t priority, void *ring, uint64_t size, struct kmt_event *event)
{
	struct thunk *t = thunk_get();
	(void)priority, (void)ring, (void)size, (void)event;
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = queue_of(t, id);
	if (q)
		__atomic_store_n(&q->suspended, !share, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&t->lock);
	return q ? KMT_SUCCESS : KMT_INVALID_HANDLE;
}

int hsaKmtDestroyQueue(uint64_t id)
{
	struct thunk *t = thunk_get();
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = queue_of(t, id);
	if (q)
		__atomic_store_n(&q->ends, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&t->lock);
	if (!q)
		return KMT_INVALID_HANDLE;
	pthread_join(q->thread, NULL);
	thunk_tell(t, "end %u", q->id);
	pthread_mutex_lock(&t->lock);
	t->queues[id] = NULL; // only now, since its doorbell is its number's
	pthread_mutex_unlock(&t->lock);
	free(q->saved);
	free(q);
	return KMT_SUCCESS;
}
