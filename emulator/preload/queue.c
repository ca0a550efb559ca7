// Queues: a thread for each takes its packets one after the other, as a command processor that has no second one at a time.
#include "emulator/preload/state.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "gpu/target.h"

enum { SPINS = 200, NAPS = 200, RESTS = 1000, NAP_NS = 20000, REST_NS = 500000, SLEEP_NS = 5000000, GPU_CLOCK_NS = 10 };

/** Waits for something that the host or another queue writes: at once at first, since a launch shall be answered quickly, then less and
 * less often, since there are more queues than processors. */
struct patience {
	unsigned turns;
};

static bool ends(const struct kmt_queue *q) { return __atomic_load_n(&q->ends, __ATOMIC_ACQUIRE); }

/** Until somebody waits for what the GPU does, or the queue is taken down. */
static void rest(struct kmt_queue *q, uint64_t ns)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&q->kfd->lock);
	if (!ends(q))
		pthread_cond_clockwait(&q->kfd->wanted, &q->kfd->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&q->kfd->lock);
}

static void be_patient(struct kmt_queue *q, struct patience *p)
{
	const unsigned turn = p->turns < SPINS + NAPS + RESTS ? ++p->turns : p->turns;
	if (turn < SPINS)
		sched_yield();
	else if (turn < SPINS + NAPS)
		sleep_seconds(NAP_NS / 1e9);
	else
		rest(q, turn < SPINS + NAPS + RESTS ? REST_NS : SLEEP_NS);
}

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
	event_set(q->kfd, event);
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

/** What the command processor finds wrong with a packet before it does anything with it; 0: nothing. */
static unsigned wrong_with(const struct kmt_queue *q, const union aql *packet)
{
	enum { DIMENSIONS = 3, WORKGROUP_MOST = 1024 };
	const struct aql_kernel *k = &packet->kernel;
	const unsigned type = packet->header & AQL_TYPE_BITS, dimensions = k->setup & DIMENSIONS;
	uint64_t items = 1;
	if (type != AQL_DISPATCH)
		return type > AQL_BARRIER_OR ? EXCEPTION_PACKET : 0;
	for (unsigned i = 0; i < dimensions; i++) {
		items *= k->group[i];
		if (!k->grid[i])
			return EXCEPTION_DIMENSIONS;
	}
	return !dimensions                              ? EXCEPTION_DIMENSIONS :
	       k->group_bytes > lds_kb_of(q->gpu) << 10 ? EXCEPTION_GROUP_SEGMENT :
	       !k->object                               ? EXCEPTION_CODE :
	       !items || items > WORKGROUP_MOST         ? EXCEPTION_WORKGROUP :
							  0;
}

/** Whether the queue goes on behind this packet. */
static bool process(struct kmt_queue *q, const union aql *packet)
{
	const unsigned wrong = wrong_with(q, packet);
	if (wrong) {
		queue_exception(q, wrong);
		queue_stand(q);
		return false;
	}
	uint64_t began = clock_ns();
	struct patience patience = { 0 };
	while (!met(packet)) {
		if (ends(q))
			return false;
		be_patient(q, &patience);
	}
	if ((packet->header & AQL_TYPE_BITS) == AQL_DISPATCH && !run_kernel(q, &packet->kernel))
		return false;
	complete(q, packet->kernel.signal, began);
	return true;
}

/** The next packet, if its header says that it has been written. */
static bool take(const struct kmt_queue *q, uint64_t index, union aql *ret)
{
	if (index >= __atomic_load_n(q->write, __ATOMIC_ACQUIRE) || __atomic_load_n(&q->suspended, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&q->held, __ATOMIC_ACQUIRE))
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
			be_patient(q, &patience);
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
	__atomic_or_fetch(&q->exceptions, UINT64_C(1) << (code - 1), __ATOMIC_RELEASE);
	if (!q->area || !q->area->error)
		return;
	__atomic_or_fetch((int64_t *)(uintptr_t)q->area->error, INT64_C(1) << (code - 1), __ATOMIC_RELEASE);
	event_set(q->kfd, q->area->error_event);
}

void queue_stand(struct kmt_queue *q)
{
	pthread_mutex_lock(&q->kfd->lock);
	while (!ends(q))
		pthread_cond_wait(&q->kfd->wanted, &q->kfd->lock);
	pthread_mutex_unlock(&q->kfd->lock);
}

// --- the interface ---

static unsigned free_number(const struct kmt *t)
{
	unsigned id = 0;
	while (id < KMT_QUEUES_MOST && t->queues[id])
		id++;
	return id;
}

static struct kmt_queue *start(struct kmt *t, const struct plan_gpu *g, const struct kfd_ioctl_create_queue_args *a)
{
	unsigned id = free_number(t);
	if (id == KMT_QUEUES_MOST)
		return NULL;
	struct kmt_queue *q = mem_alloc(sizeof(*q));
	*q = (struct kmt_queue){ .kfd = t,
				 .gpu = g,
				 .id = id,
				 .ring = (const char *)(uintptr_t)a->ring_base_address,
				 .packets = a->ring_size / AQL_BYTES,
				 .write = (uint64_t *)(uintptr_t)a->write_pointer_address,
				 .read = (uint64_t *)(uintptr_t)a->read_pointer_address,
				 .area = (struct kmt_save_area *)(uintptr_t)a->ctx_save_restore_address,
				 .area_size = a->ctx_save_restore_size };
	if (pthread_create(&q->thread, NULL, work, q)) {
		free(q);
		return NULL;
	}
	t->queues[id] = q;
	return q;
}

int queue_create(struct kmt *t, struct kfd_ioctl_create_queue_args *a)
{
	const struct plan_gpu *g = kfd_gpu(t, a->gpu_id);
	if (a->queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
		return -EINVAL; // without copy engines the runtime copies by kernels
	if (!g || a->ring_size < AQL_BYTES || !a->ring_base_address || !a->read_pointer_address || !a->write_pointer_address)
		return -EINVAL;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = memory_block(t, a->ring_base_address);
	if (b)
		b->ring = true;
	pthread_rwlock_unlock(&t->memory);
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = start(t, g, a);
	pthread_mutex_unlock(&t->lock);
	if (!q)
		return -ENOMEM;
	a->queue_id = q->id;
	a->doorbell_offset = q->id * sizeof(uint64_t); // all GPUs have the same page, at which nobody looks
	kfd_tell(t, "queue %u gpu %u ring 0x%llx size %u read 0x%llx write 0x%llx", q->id, g->id,
		 (unsigned long long)a->ring_base_address, a->ring_size, (unsigned long long)a->read_pointer_address,
		 (unsigned long long)a->write_pointer_address);
	return 0;
}

static struct kmt_queue *queue_of(struct kmt *t, uint32_t id) { return id < KMT_QUEUES_MOST ? t->queues[id] : NULL; }

/** A share of 0 suspends it. */
int queue_update(struct kmt *t, const struct kfd_ioctl_update_queue_args *a)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = queue_of(t, a->queue_id);
	if (q)
		__atomic_store_n(&q->suspended, !a->queue_percentage, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&t->lock);
	return q ? 0 : -EINVAL;
}

/** Which CUs it may use: nothing here has any. */
int queue_mask(struct kmt *t, const struct kfd_ioctl_set_cu_mask_args *a)
{
	pthread_mutex_lock(&t->lock);
	bool good = queue_of(t, a->queue_id) && a->num_cu_mask && a->num_cu_mask % 32 == 0;
	pthread_mutex_unlock(&t->lock);
	return good ? 0 : -EINVAL;
}

bool queue_any(struct kmt *t)
{
	bool any = false;
	pthread_mutex_lock(&t->lock);
	for (unsigned id = 0; id < KMT_QUEUES_MOST; id++)
		any |= t->queues[id] != NULL;
	pthread_mutex_unlock(&t->lock);
	return any;
}

int queue_destroy(struct kmt *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_queue *q = queue_of(t, id);
	if (q)
		__atomic_store_n(&q->ends, true, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&t->wanted);
	pthread_mutex_unlock(&t->lock);
	if (!q)
		return -EINVAL;
	pthread_join(q->thread, NULL);
	kfd_tell(t, "end %u", q->id);
	pthread_mutex_lock(&t->lock);
	t->queues[id] = NULL; // only now, since its doorbell is its number's
	pthread_mutex_unlock(&t->lock);
	free(q);
	return 0;
}
