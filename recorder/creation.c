// How queues come and go: the functions of the runtime that make them, one by one or several at once, and the one that destroys them.
#include <stdlib.h>

#include "recorder/waits/waits.h"

enum { PACKET_SIZE = 64 };

/** The queue's own error function is behind ours. */
struct error_wrap {
	queue_error_fn *error;
	void *data;
};

static void wrapped_error(hsa_status status, struct hsa_queue *queue, void *data)
{
	const struct error_wrap *w = data;
	queue_failed(status, queue, NULL);
	w->error(status, queue, w->data);
}

struct creation {
	queue_create_fn *create;
	const struct hsa_queue_wish *wish; // of hsa_amd_queue_create, which is called instead; NULL: none
	hsa_handle agent;
	uint32_t size, type, private_size, group_size;
	queue_error_fn *error;
	void *data;
	bool hold; // levels 5 and 10 hold packets back, which a queue must be made for
};

/** Of the parameters that each function has that creates a queue. */
#define CREATION(by, held)                                                                                                     \
	{                                                                                                                      \
		.create = (by), .agent = agent, .size = size, .type = type, .private_size = private_size,                      \
		.group_size = group_size, .error = error, .data = data, .hold = (held)                                         \
	}

static hsa_status call_creation(const struct creation *c, queue_error_fn *error, void *data, struct hsa_queue **ret)
{
	if (!c->wish)
		return c->create(c->agent, c->size, c->type, error, data, c->private_size, c->group_size, ret);
	struct hsa_queue_wish wish = *c->wish; // the program's own stays as it is
	wish.error = error;
	wish.data = data;
	const hsa_status status = ((queues_create_fn *)next.ext[EXT_QUEUES_CREATE])(c->agent, &wish, 1);
	*ret = wish.queue;
	return status;
}

static hsa_status create(const struct creation *c, struct hsa_queue **ret)
{
	struct thread_state *t = atomic_load(&rec.on) ? thread_here() : NULL;
	_cleanup_free_ struct error_wrap *w = t && c->error ? malloc(sizeof(*w)) : NULL;
	if (!t)
		return call_creation(c, c->error, c->data, ret);
	if (w)
		*w = (struct error_wrap){ c->error, c->data };
	call_begin(t, CALL_QUEUE_CREATE, 0, c->size, c->agent);
	const hsa_status status = call_creation(c, w ? wrapped_error : c->error, w ? w : c->data, ret);
	call_end(t);
	if (status != HSA_OK || !ret || !*ret)
		return status;
	w = NULL; // the queue has it
	if (c->wish && c->wish->engine != ENGINE_COMPUTE)
		return status; // its packets are of another kind
	// An intercept tool's creation calls the runtime's, and that one may pass here, too: the outer queue is the one that is rung.
	pthread_mutex_lock(&rec.lock);
	struct queue_state *q = atomic_load(&rec.on) && !queue_find((*ret)->doorbell) ?
					queue_add(*ret, c->agent, c->hold ? REC_QUEUE_INTERCEPTED : 0) :
					NULL;
	if (q && c->hold)
		intercept_begin(q);
	pthread_mutex_unlock(&rec.lock);
	event_note(t, CALL_QUEUE_CREATE, status, (uint64_t[4]){ (uintptr_t)*ret, c->size, c->agent });
	return status;
}

/** A GPU has one cooperative queue, which the runtime itself ends: once more, if it was made an intercept queue, and 7.2.4 crashes then. */
static bool may_hold(uint32_t type)
{
	return atomic_load(&rec.on) && (rec.settings.max_level >= LEVEL_STATISTICS || waits_on()) &&
	       next.ext[EXT_INTERCEPT_CREATE] && type != QUEUE_COOPERATIVE;
}

hsa_status hook_queue_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			     uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	const bool hold = may_hold(type);
	const struct creation c = CREATION(hold ? intercept_maker() : (queue_create_fn *)next.core[CORE_QUEUE_CREATE], hold);
	return create(&c, ret);
}

hsa_status hook_intercept_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
				 uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	const struct creation c = CREATION((queue_create_fn *)next.ext[EXT_INTERCEPT_CREATE], may_hold(type));
	return create(&c, ret);
}

/** A queue that can be held is made by another function, and told the rest afterwards. What of it was to lie in VRAM lies in the host's
 * memory: who launches writes there, and what the GPU reads lies behind it. */
static hsa_status create_held(hsa_handle agent, const struct hsa_queue_wish *w, struct hsa_queue **ret)
{
	typedef hsa_status priority_fn(struct hsa_queue *, uint32_t);
	typedef hsa_status mask_fn(const struct hsa_queue *, uint32_t, const uint32_t *);
	const struct creation c = { .create = intercept_maker(),
				    .agent = agent,
				    .size = w->bytes / PACKET_SIZE,
				    .type = w->type,
				    .private_size = w->private_size,
				    .group_size = UINT32_MAX,
				    .error = w->error,
				    .data = w->data,
				    .hold = true };
	hsa_status status = create(&c, ret);
	if (!status && w->priority != PRIORITY_NORMAL)
		status = ((priority_fn *)next.ext[EXT_PRIORITY])(*ret, w->priority);
	if (!status && w->cu_bits)
		status = ((mask_fn *)next.ext[EXT_CU_MASK])(*ret, w->cu_bits, w->cu_mask);
	if (!status || !*ret)
		return status;
	hook_queue_destroy(*ret);
	*ret = NULL;
	return status;
}

/** What the runtime would refuse is left to it. */
static bool wish_can_be_held(const struct hsa_queue_wish *w)
{
	static const uint8_t zeros[sizeof(w->reserved3)];
	return may_hold(w->type) && w->engine == ENGINE_COMPUTE && w->bytes && !(w->bytes % PACKET_SIZE) && !w->traffic &&
	       !memcmp(w->reserved1, zeros, sizeof(w->reserved1)) && !memcmp(w->reserved2, zeros, sizeof(w->reserved2)) &&
	       !memcmp(w->reserved3, zeros, sizeof(w->reserved3));
}

/** ROCm 10: HIP makes its queues by this. Each is made by itself, as the runtime does: those that can be are, and the first error counts. */
hsa_status hook_queues_create(hsa_handle agent, struct hsa_queue_wish *wishes, uint32_t n)
{
	queues_create_fn *then = (queues_create_fn *)next.ext[EXT_QUEUES_CREATE];
	hsa_status first = HSA_OK;
	for (uint32_t i = 0; i < n || !n; i++) {
		struct hsa_queue_wish *w = wishes ? &wishes[i] : NULL;
		if (!w || !n || w->version != WISH_VERSION) { // of a size that is not known
			const hsa_status rest = then(agent, w, n - i);
			return first ? first : rest;
		}
		const struct creation c = {
			.wish = w, .agent = agent, .size = w->bytes / PACKET_SIZE, .error = w->error, .data = w->data
		};
		struct hsa_queue *queue = NULL;
		const hsa_status status = wish_can_be_held(w) ? create_held(agent, w, &queue) : create(&c, &queue);
		w->queue = queue;
		first = first ? first : status;
	}
	return first;
}

hsa_status hook_queue_destroy(struct hsa_queue *queue)
{
	hsa_status (*destroy)(struct hsa_queue *) = (hsa_status(*)(struct hsa_queue *))next.core[CORE_QUEUE_DESTROY];
	if (!queue || !atomic_load(&rec.on))
		return destroy(queue);
	struct thread_state *t = thread_here();
	struct passing *passing = NULL;
	pthread_mutex_lock(&rec.lock);
	struct queue_state *q = queue_find(queue->doorbell);
	if (q) {
		if (q->head)
			sample_queue(q); // what is not over now will never be
		// The sampler may look at it under the lock only. The state stays: another thread may have just found it.
		q->gone = true;
		passing = q->passing;
		q->passing = NULL;
		queue_forget(q->doorbell);
		if (q->head)
			q->head->destroyed = rec_ticks();
	}
	pthread_mutex_unlock(&rec.lock);
	passing_end(passing);
	call_begin(t, CALL_QUEUE_DESTROY, (uintptr_t)queue, 0, 0);
	const bool guarded = guard_enter();
	const hsa_status status = destroy(queue);
	guard_leave(guarded);
	passing_free(passing);
	call_end(t);
	event_note(t, CALL_QUEUE_DESTROY, status, (uint64_t[4]){ (uintptr_t)queue });
	return status;
}
