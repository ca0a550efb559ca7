// The observer for PyTorch's operators: torch.h.
#define UNHANG_RECORDER_INSIDE
#include "recorder/torch.h"
#include "recorder/recorder.h"
#include "recorder/statistics.h"
#include "unhang/recorder.h"

#define EXPORT __attribute__((visibility("default")))

#ifdef __x86_64__ // how C++ returns an object is part of the interface; elsewhere Python falls back to a dispatch mode
enum { DIMENSIONS_MOST = 64 };

static struct unhang_torch torch; // written once, before the observer is added

static uint64_t word_at(const char *at)
{
	uint64_t v;
	memcpy(&v, at, sizeof(v));
	return v;
}

/** The kind of an input. */
static uint32_t tag_of(const char *input)
{
	uint32_t v;
	memcpy(&v, input + torch.tag, sizeof(v));
	return v;
}

static void tensor_read(const char *t, struct unhang_tensor *ret)
{
	uint16_t dtype;
	const uint64_t n = word_at(t + torch.dimensions);
	const char *sizes = t + torch.dimensions + sizeof(uint64_t);
	const char *storage = (const char *)(uintptr_t)word_at(t + torch.storage);
	memcpy(&dtype, t + torch.dtype, sizeof(dtype));
	*ret = (struct unhang_tensor){ .dtype = dtype < TORCH_DTYPES ? torch.dtypes[dtype] : UNHANG_DTYPE_UNKNOWN };
	if (n > DIMENSIONS_MOST)
		return;
	ret->ndim = (uint32_t)n;
	// More dimensions than fit lie elsewhere: the sizes, then the strides.
	ret->shape = n <= torch.inside ? (const int64_t *)(const void *)sizes : (const int64_t *)(uintptr_t)word_at(sizes);
	ret->strides = ret->shape ? ret->shape + (n <= torch.inside ? torch.inside : n) : NULL;
	if (storage && word_at(storage + torch.data))
		ret->data = (const char *)(uintptr_t)word_at(storage + torch.data) +
			    word_at(t + torch.offset) * dtype_size(ret->dtype);
}

/** The tensors of a list; what else is in it is passed over. */
static size_t list_read(const char *list, struct unhang_tensor *ret, size_t most)
{
	const char *one = (const char *)(uintptr_t)word_at(list + torch.elements);
	const char *end = (const char *)(uintptr_t)word_at(list + torch.elements + sizeof(uint64_t));
	size_t found = 0;
	for (; one && one < end && found < most; one += torch.value)
		if (tag_of(one) == torch.tensor && word_at(one))
			tensor_read((const char *)(uintptr_t)word_at(one), &ret[found++]);
	return found;
}

static size_t tensors_read(const char *function, struct unhang_tensor *ret)
{
	const char *input = (const char *)(uintptr_t)word_at(function + torch.inputs);
	const uint64_t n = word_at(function + torch.inputs + sizeof(uint64_t));
	size_t found = 0;
	for (uint64_t i = 0; input && i < n && found < REC_TENSORS; i++, input += torch.value) {
		const uint32_t tag = tag_of(input);
		const char *in = (const char *)(uintptr_t)word_at(input);
		if (tag == torch.tensor && in)
			tensor_read(in, &ret[found++]);
		else if (tag == torch.list && in)
			found += list_read(in, ret + found, REC_TENSORS - found);
	}
	return found;
}

static void forget(struct operators *o, unsigned at)
{
	const unsigned behind = --o->depth - at;
	memmove(&o->functions[at], &o->functions[at + 1], behind * sizeof(o->functions[0]));
	memmove(&o->operations[at], &o->operations[at + 1], behind * sizeof(o->operations[0]));
}

/** What a user names (record_function) begins inside of an operator that ends before it does. */
static void leave(struct operators *o, const void *function)
{
	unsigned at = o->depth;
	while (at && o->functions[at - 1] != function)
		at--;
	if (!at)
		return;
	if (at == o->depth)
		unhang_recorder_end(o->operations[at - 1]);
	else
		operation_end_outer(o->operations[at - 1]);
	forget(o, at - 1);
}

/** Returns a std::unique_ptr, whose place the caller gives: an empty one. */
static void **operator_start(void **ret, const void *function)
{
	struct unhang_tensor tensors[REC_TENSORS];
	struct operators *o = &thread_here()->inside;
	*ret = NULL;
	leave(o, function); // one at the same place that ended in another thread
	if (!rec_level())
		return ret;
	if (o->depth == OPERATORS_DEEPEST)
		forget(o, 0);
	const uint32_t operation = unhang_recorder_begin(torch.name(function), tensors, tensors_read(function, tensors));
	if (operation) {
		o->functions[o->depth] = function;
		o->operations[o->depth++] = operation;
	}
	return ret;
}

static void operator_end(const void *function, void *context)
{
	(void)context;
	leave(&thread_here()->inside, function);
}

EXPORT int unhang_recorder_torch(const struct unhang_torch *layout)
{
	static _Atomic bool added;
	if (layout->size != sizeof(*layout) || !rec_start() || atomic_exchange(&added, true))
		return -1;
	torch = *layout;
	torch.callback.start = (void *)operator_start;
	torch.callback.end = (void *)operator_end;
	torch.add(torch.callback);
	return 0;
}
#else
EXPORT int unhang_recorder_torch(const struct unhang_torch *layout)
{
	(void)layout;
	return -1;
}
#endif
