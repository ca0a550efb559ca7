// What kernels do, in C: those that tests have (by their names), those of the HIP runtime, and the copies of the HSA runtime.
#include "emulator/preload/state.h"

#include <stdio.h>

/** A kernel's arguments, as its compiler lays them out. */
#define ARGUMENTS(r, type) ((const struct type *)(const void *)(r)->arguments)

// --- kernels of programs ---

/** copy(void *to, const void *from, size_t bytes) */
struct copy_arguments {
	uint64_t to, from, bytes;
};

static void copy_bytes(struct kmt_run *r, uint64_t to, uint64_t from, uint64_t bytes)
{
	if (!bytes)
		return;
	const void *source = run_reach(r, from, bytes, false);
	void *target = source ? run_reach(r, to, bytes, true) : NULL;
	if (target)
		memmove(target, source, bytes);
}

static void run_copy(struct kmt_run *r)
{
	const struct copy_arguments *a = ARGUMENTS(r, copy_arguments);
	copy_bytes(r, a->to, a->from, a->bytes);
}

/** fill(float *to, float value, int n), or any other word of 32 bits. */
struct fill_arguments {
	uint64_t to;
	uint32_t value;
	int32_t n;
};

static void fill_words(struct kmt_run *r, uint64_t to, uint32_t value, uint64_t n)
{
	char *target = n ? run_reach(r, to, n * sizeof(value), true) : NULL;
	for (uint64_t i = 0; target && i < n; i++)
		memcpy(target + i * sizeof(value), &value, sizeof(value));
}

static void run_fill(struct kmt_run *r)
{
	const struct fill_arguments *a = ARGUMENTS(r, fill_arguments);
	fill_words(r, a->to, a->value, a->n > 0 ? (uint64_t)a->n : 0);
}

/** saxpy(const float *x, float *y, float a, int n) */
struct saxpy_arguments {
	uint64_t x, y;
	float a;
	int32_t n;
};

static void run_saxpy(struct kmt_run *r)
{
	const struct saxpy_arguments *a = ARGUMENTS(r, saxpy_arguments);
	uint64_t n = a->n > 0 ? (uint64_t)a->n : 0;
	const float *x = n ? run_reach(r, a->x, n * sizeof(float), false) : NULL;
	float *y = x ? run_reach(r, a->y, n * sizeof(float), true) : NULL;
	for (uint64_t i = 0; y && i < n; i++)
		y[i] += a->a * x[i];
}

/** reduction(const float *from, float *sum, int n) */
struct reduction_arguments {
	uint64_t from, sum;
	int32_t n;
};

static void run_reduction(struct kmt_run *r)
{
	const struct reduction_arguments *a = ARGUMENTS(r, reduction_arguments);
	uint64_t n = a->n > 0 ? (uint64_t)a->n : 0;
	const float *from = n ? run_reach(r, a->from, n * sizeof(float), false) : NULL;
	float *sum = from || !n ? run_reach(r, a->sum, sizeof(float), true) : NULL;
	double total = 0;
	for (uint64_t i = 0; sum && i < n; i++)
		total += (double)from[i];
	if (sum)
		*sum = (float)total;
}

/** index_copy(float *to, const float *from, const int64_t *index, int n, int rows) */
struct index_copy_arguments {
	uint64_t to, from, index;
	int32_t n, rows;
};

/** As HIP's assert(): the line that the device has the host print, then a trap that aborts the queue. */
static void run_index_copy(struct kmt_run *r)
{
	const struct index_copy_arguments *a = ARGUMENTS(r, index_copy_arguments);
	uint64_t n = a->n > 0 ? (uint64_t)a->n : 0;
	const float *from = n ? run_reach(r, a->from, n * sizeof(float), false) : NULL;
	const int64_t *index = from ? run_reach(r, a->index, n * sizeof(int64_t), false) : NULL;
	for (uint64_t i = 0; index && i < n; i++) {
		if (index[i] < 0 || index[i] >= a->rows) {
			fprintf(stderr, "index_copy.hip:7: index_copy: Device-side assertion `index[i] >= 0 && index[i] < "
					"rows' failed.\n");
			r->exception = EXCEPTION_ABORT;
			return;
		}
		float *to = run_reach(r, a->to + (uint64_t)index[i] * sizeof(float), sizeof(float), true);
		if (!to)
			return;
		*to = from[i];
	}
}

/** unhang_copy of the flight recorder (recorder/inputs/copy.s): first it says that it has begun, then it looks whether it was given up. */
struct unhang_copy_arguments {
	uint64_t from, to;
	uint32_t bytes, turn;
	uint64_t shared;
};

static void run_unhang_copy(struct kmt_run *r)
{
	const struct unhang_copy_arguments *a = ARGUMENTS(r, unhang_copy_arguments);
	uint32_t *shared = run_reach(r, a->shared, 2 * sizeof(*shared), true);
	if (!shared)
		return;
	__atomic_store_n(&shared[0], 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&shared[1], __ATOMIC_SEQ_CST))
		copy_bytes(r, a->to, a->from, a->bytes);
}

/** The kernels of unhang selftest (src/apply/launch.s). */
struct test_arguments {
	uint64_t address;
	uint32_t number, reserved;
	uint64_t flag;
};

static bool run_test_store(struct kmt_run *r)
{
	const struct test_arguments *a = ARGUMENTS(r, test_arguments);
	uint32_t *to = run_reach(r, a->address, sizeof(*to), true);
	if (to)
		__atomic_store_n(to, a->number, __ATOMIC_SEQ_CST);
	return to;
}

static void run_unhang_test_store(struct kmt_run *r) { run_test_store(r); }

/** Its waves are seen as long as the host does not end it. */
static void run_unhang_test_spin(struct kmt_run *r)
{
	enum { LOOKS = 60000 };
	const struct test_arguments *a = ARGUMENTS(r, test_arguments);
	const uint32_t *flag = run_reach(r, a->flag, sizeof(*flag), false);
	if (!flag || !run_test_store(r))
		return;
	run_hangs(r);
	for (unsigned i = 0; i < LOOKS && !__atomic_load_n(flag, __ATOMIC_SEQ_CST); i++)
		sleep_seconds(0.001);
	kfd_tell(r->kfd, "goes %u", r->queue->id);
}

// --- kernels of the HIP runtime ---

/** Whether they have the arguments of ROCm 5, behind which the compiler reserves 56 bytes, that of 6.0 and later 256. */
static bool of_rocm_5(const struct kmt_run *r, size_t bytes)
{
	return r->argument_bytes == bytes + 56 || r->argument_bytes == bytes + 256;
}

/** From ROCm 6 on: sizes in bytes of one element, and of the pattern in elements. */
struct newer_pattern_arguments {
	uint64_t to, pattern;
	uint32_t pattern_size, element;
	uint64_t end;
};

static void fill_pattern(struct kmt_run *r, uint64_t to, uint64_t pattern, uint64_t bytes, uint64_t n)
{
	const void *from = bytes && n ? run_reach(r, pattern, bytes, false) : NULL;
	char *p = from ? run_reach(r, to, n * bytes, true) : NULL;
	for (uint64_t i = 0; p && i < n; i++)
		memcpy(p + i * bytes, from, bytes);
}

/** of a buffer of bytes, of 16, 32 or 64 bits, one is given; the offset and the pattern count these. */
struct pattern_arguments {
	uint64_t buffers[4], pattern;
	uint32_t pattern_size, reserved;
	uint64_t offset, n;
};

static void run_pattern(struct kmt_run *r)
{
	const struct pattern_arguments *a = ARGUMENTS(r, pattern_arguments);
	const struct newer_pattern_arguments *b = ARGUMENTS(r, newer_pattern_arguments);
	unsigned shift = 3;
	if (!of_rocm_5(r, sizeof(*a))) {
		const uint64_t bytes = (uint64_t)b->pattern_size * b->element;
		if (bytes && b->end > b->to)
			fill_pattern(r, b->to, b->pattern, bytes, (b->end - b->to) / bytes);
		return;
	}
	while (shift && !a->buffers[shift])
		shift--;
	fill_pattern(r, a->buffers[shift] + (a->offset << shift), a->pattern, (uint64_t)a->pattern_size << shift, a->n);
}

/** Words of 32 bits, of which the last stands for what remains behind them. */
struct buffer_arguments {
	uint64_t from, to, from_offset, to_offset, words;
	uint32_t remain;
};

/** From ROCm 6 on they begin with these. */
struct newer_buffer_arguments {
	uint64_t from, to, bytes;
	uint32_t remainder, aligned;
	uint64_t end; // of what is aligned
};

/** Both may have the same size. */
static void run_buffer(struct kmt_run *r)
{
	const struct buffer_arguments *a = ARGUMENTS(r, buffer_arguments);
	const struct newer_buffer_arguments *b = ARGUMENTS(r, newer_buffer_arguments);
	if (b->end >= b->to && b->end - b->to <= b->bytes)
		copy_bytes(r, b->to, b->from, b->bytes);
	else if (a->words)
		copy_bytes(r, a->to + a->to_offset, a->from + a->from_offset, (a->words - 1) * 4 + a->remain);
}

struct rectangle_arguments {
	uint64_t from, to, reserved[2];
	uint64_t from_pitch[4], to_pitch[4], size[4]; // a row's, a slice's, the offset
};

static void run_rectangle(struct kmt_run *r)
{
	const struct rectangle_arguments *a = ARGUMENTS(r, rectangle_arguments);
	for (uint64_t z = 0; z < a->size[2] && !r->faulted; z++)
		for (uint64_t y = 0; y < a->size[1] && !r->faulted; y++)
			copy_bytes(r, a->to + a->to_pitch[2] + z * a->to_pitch[1] + y * a->to_pitch[0],
				   a->from + a->from_pitch[2] + z * a->from_pitch[1] + y * a->from_pitch[0], a->size[0]);
}

struct write_arguments {
	uint64_t to32, to64, value; // and in ROCm 5 the size
};

static void run_write(struct kmt_run *r)
{
	const struct write_arguments *a = ARGUMENTS(r, write_arguments);
	uint64_t bytes = a->to32 ? 4 : 8;
	void *to = run_reach(r, a->to32 ? a->to32 : a->to64, bytes, true);
	if (to)
		memcpy(to, &a->value, bytes);
}

static const struct standin standins[] = {
	{ "copy", sizeof(struct copy_arguments), run_copy },
	{ "fill", sizeof(struct fill_arguments), run_fill },
	{ "saxpy", sizeof(struct saxpy_arguments), run_saxpy },
	{ "reduction", offsetof(struct reduction_arguments, n) + 4, run_reduction },
	{ "index_copy", sizeof(struct index_copy_arguments), run_index_copy },
	{ "unhang_copy", sizeof(struct unhang_copy_arguments), run_unhang_copy },
	{ "unhang_test_store", sizeof(struct test_arguments), run_unhang_test_store },
	{ "unhang_test_fault", sizeof(struct test_arguments), run_unhang_test_store },
	{ "unhang_test_spin", sizeof(struct test_arguments), run_unhang_test_spin },
	{ "__amd_rocclr_fillBufferAligned", sizeof(struct newer_pattern_arguments), run_pattern },
	{ "__amd_rocclr_copyBuffer", sizeof(struct newer_buffer_arguments), run_buffer },
	{ "__amd_rocclr_copyBufferRect", sizeof(struct rectangle_arguments), run_rectangle },
	{ "__amd_rocclr_streamOpsWrite", sizeof(struct write_arguments), run_write },
};

const struct standin *standin_of(struct str symbol)
{
	struct str name = plan_plain_name(symbol);
	for (size_t i = 0; i < ARRAY_SIZE(standins); i++)
		if (str_is(name, standins[i].name))
			return &standins[i];
	for (const struct standin *s = rocrtst_standins; s->name; s++)
		if (str_is(name, s->name))
			return s;
	return NULL;
}

// --- copies of the HSA runtime ---

/** It works in phases, which follow each other without a gap: where each begins at both sides, and where the last ends. */
struct aligned_arguments {
	uint64_t begin[4][2], end[2]; // from, to
};

static void run_aligned(struct kmt_run *r)
{
	const struct aligned_arguments *a = ARGUMENTS(r, aligned_arguments);
	copy_bytes(r, a->begin[0][1], a->begin[0][0], a->end[1] - a->begin[0][1]);
}

struct misaligned_arguments {
	uint64_t begin[2][2], end[2];
};

static void run_misaligned(struct kmt_run *r)
{
	const struct misaligned_arguments *a = ARGUMENTS(r, misaligned_arguments);
	copy_bytes(r, a->begin[0][1], a->begin[0][0], a->end[1] - a->begin[0][1]);
}

struct words_arguments {
	uint64_t begin[2], end;
	uint32_t value;
};

static void run_words(struct kmt_run *r)
{
	const struct words_arguments *a = ARGUMENTS(r, words_arguments);
	fill_words(r, a->begin[0], a->value, (a->end - a->begin[0]) / 4);
}

static const struct standin blits[] = {
	{ "CopyAligned", sizeof(struct aligned_arguments), run_aligned },
	{ "CopyMisaligned", sizeof(struct misaligned_arguments), run_misaligned },
	{ "Fill", offsetof(struct words_arguments, value) + 4, run_words },
};

/** They are told apart by how many loads of arguments their code begins with. */
const struct standin *standin_of_code(struct kmt *t, const struct plan_gpu *g, uint64_t object)
{
	enum { HEADER = 256, LOADS_MOST = 6, ENTRY = 16 };
	static const unsigned loads_of[] = { 6, 4, 2 };
	uint64_t there = 0, entry = 0;
	const char *p = object % KMT_PAGE ? NULL : memory_reach(t, g, object, false, &there);
	if (!p || there < HEADER + (LOADS_MOST + 1) * 8)
		return NULL;
	memcpy(&entry, p + ENTRY, sizeof(entry));
	unsigned loads = 0;
	for (; entry == HEADER && loads <= LOADS_MOST; loads++) {
		uint32_t word;
		memcpy(&word, p + HEADER + loads * 8, sizeof(word));
		if (word >> 26 != 0x30 && word >> 26 != 0x3d) // SMEM of gfx8 and gfx9, and of gfx10
			break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(blits); i++)
		if (loads == loads_of[i])
			return &blits[i];
	return NULL;
}
