// What the kernels of AMD's rocrtst do, in C: each item of the grid works on the word of its number. So its tests find out whether host and
// GPUs see each other's memory, and what they may not reach.
#include "emulator/preload/state.h"

/** gpuReadWrite(int *from, int *numbers, int *to) */
struct read_write_arguments {
	uint64_t from, numbers, to;
};

static void run_read_write(struct kmt_run *r)
{
	const struct read_write_arguments *a = (const void *)r->arguments;
	const uint64_t bytes = r->items * sizeof(uint32_t);
	const uint32_t *from = run_reach(r, a->from, bytes, false);
	uint32_t *to = from ? run_reach(r, a->to, bytes, true) : NULL;
	uint32_t *numbers = to ? run_reach(r, a->numbers, bytes, true) : NULL;
	for (uint32_t i = 0; numbers && i < r->items; i++) {
		to[i] = from[i];
		numbers[i] = i;
	}
}

/** vector_copy(int *from, int *to, ...), and group_memory_dynamic, which takes the way through group memory */
struct vector_copy_arguments {
	uint64_t from, to;
};

static void run_vector_copy(struct kmt_run *r)
{
	const struct vector_copy_arguments *a = (const void *)r->arguments;
	const uint64_t bytes = r->items * sizeof(uint32_t);
	const void *from = run_reach(r, a->from, bytes, false);
	void *to = from ? run_reach(r, a->to, bytes, true) : NULL;
	if (to)
		memmove(to, from, bytes);
}

/** square(int *to, int *from, int n) */
struct square_arguments {
	uint64_t to, from;
	uint32_t n;
};

static void run_square(struct kmt_run *r)
{
	const struct square_arguments *a = (const void *)r->arguments;
	const uint64_t n = r->items < a->n ? r->items : a->n;
	const uint32_t *from = run_reach(r, a->from, n * sizeof(uint32_t), false);
	uint32_t *to = from ? run_reach(r, a->to, n * sizeof(uint32_t), true) : NULL;
	for (uint64_t i = 0; to && i < n; i++)
		to[i] = from[i] * from[i];
}

/** test_atomic_...(int *words, int *more_words, int *before, int value) */
struct atomic_arguments {
	uint64_t words[2], before;
	int32_t value;
};

static void run_atomic(struct kmt_run *r, int32_t (*change)(int32_t old, int32_t value))
{
	const struct atomic_arguments *a = (const void *)r->arguments;
	const uint64_t bytes = r->items * sizeof(int32_t);
	int32_t *before = run_reach(r, a->before, bytes, true);
	for (size_t k = 0; before && k < ARRAY_SIZE(a->words); k++) {
		int32_t *words = run_reach(r, a->words[k], bytes, true);
		for (uint64_t i = 0; words && i < r->items; i++) {
			if (!k)
				before[i] = words[i];
			words[i] = change(words[i], a->value);
		}
	}
}

#define ATOMIC(name, result)                                                                                                   \
	static int32_t name##_of(int32_t old, int32_t value)                                                                   \
	{                                                                                                                      \
		(void)value;                                                                                                   \
		(void)old;                                                                                                     \
		return (int32_t)(result);                                                                                      \
	}                                                                                                                      \
	static void run_atomic_##name(struct kmt_run *r) { run_atomic(r, name##_of); }

ATOMIC(add, (uint32_t)old + (uint32_t)value)
ATOMIC(sub, (uint32_t)old - (uint32_t)value)
ATOMIC(and, old &value)
ATOMIC(or, old | value)
ATOMIC(xor, old ^ value)
ATOMIC(min, old < value ? old : value)
ATOMIC(max, old > value ? old : value)
ATOMIC(inc, (uint32_t)old + 4) // four times one
ATOMIC(dec, (uint32_t)old - 4)
ATOMIC(xchg, value)

#define ROW(name)                                                                                                              \
	{                                                                                                                      \
		"test_atomic_" #name, sizeof(struct atomic_arguments), run_atomic_##name                                       \
	}

const struct standin rocrtst_standins[] = {
	{ "gpuReadWrite", sizeof(struct read_write_arguments), run_read_write },
	{ "vector_copy", sizeof(struct vector_copy_arguments), run_vector_copy },
	{ "group_memory_dynamic", sizeof(struct vector_copy_arguments), run_vector_copy },
	{ "square", offsetof(struct square_arguments, n) + 4, run_square },
	ROW(add),
	ROW(sub),
	ROW(and),
	ROW(or),
	ROW(xor),
	ROW(min),
	ROW(max),
	ROW(inc),
	ROW(dec),
	ROW(xchg),
	{ 0 },
};
