// Operations of a framework: include/unhang/recorder.h.
#define UNHANG_RECORDER_INSIDE
#include "unhang/recorder.h"
#include "recorder/recorder.h"

enum { OPERATIONS_LEAST = 16, OPERATIONS_MOST = 8192, AROUND_MOST = 64 };

#define EXPORT __attribute__((visibility("default")))

static struct rec_operation *slot_of(uint32_t id) { return &rec.operation_slots[id & rec.operation_mask]; }

static void tensor_fill(struct rec_tensor *to, const struct unhang_tensor *t)
{
	*to = (struct rec_tensor){ .address = (uintptr_t)t->data,
				   .dtype = (uint8_t)(t->dtype < UNHANG_DTYPES ? t->dtype : 0),
				   .ndim = (uint8_t)(t->ndim > 255 ? 255 : t->ndim) };
	for (unsigned i = 0; i < REC_DIMENSIONS && i < t->ndim && t->shape; i++)
		to->shape[i] = (uint64_t)t->shape[i];
	int64_t stride = 1;
	for (unsigned i = t->ndim < REC_DIMENSIONS ? t->ndim : REC_DIMENSIONS; i-- > 0 && t->shape;) {
		to->strides[i] = t->strides ? t->strides[i] : stride;
		stride = t->shape[i] && __builtin_mul_overflow(stride, t->shape[i], &stride) ? 0 : stride;
	}
}

/** Room for operations, once one begins: a job whose framework tells none has none. */
static bool room_made(void)
{
	static _Atomic bool tried;
	if (atomic_load_explicit(&tried, memory_order_acquire))
		return rec.operations;
	pthread_mutex_lock(&rec.lock);
	if (!atomic_load(&tried)) {
		uint64_t n = OPERATIONS_MOST;
		while (n > OPERATIONS_LEAST && n * sizeof(struct rec_operation) > rec.budget / 16)
			n /= 2;
		struct rec_ring *ring = extent_fit(EXTENT_OPERATIONS, 0, sizeof(struct rec_ring), &n, OPERATIONS_LEAST,
						   sizeof(struct rec_operation));
		rec.operation_slots = ring ? (struct rec_operation *)(ring + 1) : NULL;
		rec.operation_mask = n - 1;
		__atomic_store_n(&rec.operations, ring, __ATOMIC_RELEASE);
		atomic_store_explicit(&tried, true, memory_order_release);
	}
	pthread_mutex_unlock(&rec.lock);
	return rec.operations;
}

EXPORT uint32_t unhang_recorder_begin(const char *name, const struct unhang_tensor *tensors, size_t n)
{
	struct rec_operation o;
	if (!name || !rec_start() || !rec_level() || !room_made())
		return 0;
	struct thread_state *t = thread_here();
	uint64_t id = __atomic_add_fetch(&rec.operations->next, 1, __ATOMIC_RELAXED);
	if (!(uint32_t)id)
		id = __atomic_add_fetch(&rec.operations->next, 1, __ATOMIC_RELAXED); // 0 is none
	o.begin = rec_ticks();
	o.name = text_number(name);
	o.parent = t->operation;
	o.filter = t->filter | text_filter(o.name);
	o.thread = t->number;
	o.ntensors = (uint16_t)(!tensors ? 0 : n < REC_TENSORS ? n : REC_TENSORS);
	for (size_t i = 0; i < o.ntensors; i++)
		tensor_fill(&o.tensors[i], &tensors[i]);
	struct rec_operation *slot = slot_of((uint32_t)id);
	__atomic_store_n(&slot->end, 0, __ATOMIC_RELAXED);
	rec_write((uint64_t *)slot, (uint64_t *)&o, rec_operation_words(o.ntensors), (uint32_t)id);
	t->operation = (uint32_t)id;
	t->filter = o.filter;
	return (uint32_t)id;
}

/** A slot may be that of a newer operation by now, of another thread. */
static uint32_t half_at(const uint32_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }

/** The operation that a thread is in again when one of @id ends: the next around it that goes on. 0: none, or more than a ring of
 * operations ago. */
static uint32_t around(uint32_t id)
{
	for (unsigned i = 0; i < AROUND_MOST && id; i++) {
		const struct rec_operation *slot = slot_of(id);
		if (half_at(&slot->id) != id)
			return 0;
		if (!__atomic_load_n(&slot->end, __ATOMIC_ACQUIRE))
			return id;
		id = half_at(&slot->parent);
	}
	return 0;
}

static bool mark_ended(uint32_t operation)
{
	struct rec_operation *slot = slot_of(operation);
	const bool there = half_at(&slot->id) == operation;
	if (there)
		__atomic_store_n(&slot->end, rec_ticks(), __ATOMIC_RELEASE);
	return there;
}

EXPORT void unhang_recorder_end(uint32_t operation)
{
	if (!operation || !atomic_load(&rec.on) || !rec.operations)
		return;
	struct thread_state *t = thread_here();
	t->operation = mark_ended(operation) ? around(operation) : 0;
	t->filter = t->operation ? half_at(&slot_of(t->operation)->filter) : 0;
}

void operation_end_outer(uint32_t operation)
{
	if (operation && atomic_load(&rec.on) && rec.operations)
		mark_ended(operation);
}

EXPORT uint32_t unhang_recorder_operation(char *ret_name, size_t size)
{
	if (!atomic_load(&rec.on) || !rec.operations)
		return 0;
	const uint32_t id = thread_here()->operation;
	if (id && ret_name && size)
		text_copy(half_at(&slot_of(id)->name), ret_name, size);
	return id;
}

EXPORT int unhang_recorder_level(void) { return rec_start() ? rec_level() : 0; }

EXPORT const struct unhang_recorder *unhang_recorder_functions(void)
{
	static const struct unhang_recorder functions = { .size = sizeof(functions),
							  .begin = unhang_recorder_begin,
							  .end = unhang_recorder_end,
							  .level = unhang_recorder_level };
	return &functions;
}
