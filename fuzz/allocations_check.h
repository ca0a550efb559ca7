// A small file of allocations that is right, and what must hold of whatever is read of it. For the fuzz target and the test.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "evidence/allocations/statistics.h"

enum {
	ALLOCS_ROWS = 6,
	ALLOCS_ROWS_AT = ALLOC_HEAD,
	ALLOCS_STACKS_AT = ALLOCS_ROWS_AT + ALLOCS_ROWS * sizeof(struct alloc_row),
	ALLOCS_MODULES_AT = ALLOCS_STACKS_AT + 2 * sizeof(struct alloc_stack),
	ALLOCS_FINDINGS_AT = ALLOCS_MODULES_AT + sizeof(struct alloc_module),
	ALLOCS_BURSTS_AT = ALLOCS_FINDINGS_AT + 2 * sizeof(struct alloc_finding),
	ALLOCS_SLABS_AT = ALLOCS_BURSTS_AT + sizeof(struct alloc_burst),
	ALLOCS_THREADS_AT = ALLOCS_SLABS_AT + sizeof(struct alloc_slab),
	ALLOCS_SIZES_AT = ALLOCS_THREADS_AT + 2 * sizeof(struct alloc_thread),
	ALLOCS_SIZE = ALLOCS_SIZES_AT + ALLOC_CLASSES * sizeof(struct alloc_size),
};
#define ALLOCS_BASE UINT64_C(0x7f0000000000)

static inline void allocs_seal(char *at, size_t size, uint64_t id)
{
	uint64_t w[64];
	memcpy(w, at, size);
	w[0] = (uint32_t)id | (uint64_t)rec_check(w, (unsigned)(size / 8), id) << 32;
	memcpy(at, w, 8);
}

static inline void allocs_seal_all(char *bytes)
{
	for (unsigned i = 0; i < ALLOCS_ROWS; i++)
		allocs_seal(bytes + ALLOCS_ROWS_AT + i * sizeof(struct alloc_row), sizeof(struct alloc_row), i);
	for (unsigned i = 0; i < 2; i++) {
		allocs_seal(bytes + ALLOCS_STACKS_AT + i * sizeof(struct alloc_stack), sizeof(struct alloc_stack), i + 1);
		allocs_seal(bytes + ALLOCS_FINDINGS_AT + i * sizeof(struct alloc_finding), sizeof(struct alloc_finding), i + 1);
	}
	allocs_seal(bytes + ALLOCS_MODULES_AT, sizeof(struct alloc_module), 0);
	allocs_seal(bytes + ALLOCS_BURSTS_AT, sizeof(struct alloc_burst), 1);
	allocs_seal(bytes + ALLOCS_SLABS_AT, sizeof(struct alloc_slab), 0);
}

static inline void allocs_section(char *bytes, unsigned n, uint32_t kind, size_t stride, uint64_t offset, uint64_t slots)
{
	const struct alloc_section s = { kind, (uint32_t)stride, offset, slots };
	memcpy(bytes + RECORDING_PAGE + n * sizeof(s), &s, sizeof(s));
}

/** Six rows of 1,000 bytes that end at the end of a page, 2 MiB apart, with a page of nothing around each: every other one was freed. */
static inline char *sample_allocations(void)
{
	char *bytes = calloc(1, ALLOCS_SIZE);
	struct alloc_header h = { .magic = ALLOC_MAGIC,
				  .version = ALLOC_VERSION,
				  .size = ALLOC_HEAD,
				  .state = ALLOC_ENDED,
				  .mode = ALLOC_MODE_GUARD,
				  .pid = 4242,
				  .real_ns = UINT64_C(1700000000000000000),
				  .boot_ns = 1000000000,
				  .ended_ns = 9000000000,
				  .peak_bytes = 3000,
				  .taken_peak = 12288,
				  .kfd_calls = 17,
				  .host = "vm",
				  .program = "python" };
	memcpy(bytes, &h, sizeof(h));
	for (unsigned i = 0; i < ALLOCS_ROWS; i++) {
		const uint64_t map = ALLOCS_BASE + i * (UINT64_C(2) << 20);
		const struct alloc_row r = { .address = map + 4096 - 1000,
					     .size = 1000,
					     .map = map,
					     .map_size = 4096,
					     .before = 4096,
					     .behind = 4096,
					     .born = 2000000000 + i,
					     .died = i % 2 ? 3000000000 + i : 0,
					     .number = i + 1,
					     .by = 4242,
					     .freed_by = i % 2 ? 4243 : 0,
					     .stack = 1,
					     .freed_stack = i % 2 ? 2 : 0,
					     .call = ALLOC_CALL_MALLOC,
					     .state = (uint8_t)(i % 2 ? ALLOC_HELD : ALLOC_LIVE),
					     .flags = ALLOC_GUARDED,
					     .name = "python",
					     .freed_name = "worker" };
		memcpy(bytes + ALLOCS_ROWS_AT + i * sizeof(r), &r, sizeof(r));
	}
	const struct alloc_stack s = { .frames = { UINT64_C(1) << 48 | 0x1234, 0x99 }, .count = 2 };
	memcpy(bytes + ALLOCS_STACKS_AT, &s, sizeof(s));
	memcpy(bytes + ALLOCS_STACKS_AT + sizeof(s), &s, sizeof(s));
	const struct alloc_module m = { .base = 0x400000, .begin = 0x400000, .end = 0x500000, .path = "no/such/lib.so" };
	memcpy(bytes + ALLOCS_MODULES_AT, &m, sizeof(m));
	const struct alloc_finding f[2] = {
		{ .time = 4000000000, .kind = ALLOC_FOUND_DOUBLE_FREE, .call = ALLOC_CALL_FREE, .address = ALLOCS_BASE, .row = 2 },
		{ .time = 5000000000, .kind = ALLOC_FOUND_BROKEN_ABOVE, .begin = 1000, .end = 1008, .row = 1, .at_exit = 1 },
	};
	memcpy(bytes + ALLOCS_FINDINGS_AT, f, sizeof(f));
	const struct alloc_burst b = { .begin = 1000000000, .end = 4000000000, .count = 48112, .most = 4096 };
	memcpy(bytes + ALLOCS_BURSTS_AT, &b, sizeof(b));
	const struct alloc_thread t[2] = { { .tid = 4242, .call = ALLOC_CALL_MALLOC, .since = 2000000000, .a = { 3584 }, .name = "python" } };
	memcpy(bytes + ALLOCS_THREADS_AT, t, sizeof(t));
	const struct alloc_size z = { .count = 6, .freed = 3, .live = 3, .bytes = 6000, .guarded = 6, .lives = { [5] = 3 } };
	memcpy(bytes + ALLOCS_SIZES_AT + alloc_class(1000) * sizeof(z), &z, sizeof(z));
	allocs_section(bytes, 0, ALLOC_SECTION_ROWS, sizeof(struct alloc_row), ALLOCS_ROWS_AT, ALLOCS_ROWS);
	allocs_section(bytes, 1, ALLOC_SECTION_STACKS, sizeof(struct alloc_stack), ALLOCS_STACKS_AT, 2);
	allocs_section(bytes, 2, ALLOC_SECTION_MODULES, sizeof(struct alloc_module), ALLOCS_MODULES_AT, 1);
	allocs_section(bytes, 3, ALLOC_SECTION_FINDINGS, sizeof(struct alloc_finding), ALLOCS_FINDINGS_AT, 2);
	allocs_section(bytes, 4, ALLOC_SECTION_BURSTS, sizeof(struct alloc_burst), ALLOCS_BURSTS_AT, 1);
	allocs_section(bytes, 5, ALLOC_SECTION_SLABS, sizeof(struct alloc_slab), ALLOCS_SLABS_AT, 1);
	allocs_section(bytes, 6, ALLOC_SECTION_THREADS, sizeof(struct alloc_thread), ALLOCS_THREADS_AT, 2);
	allocs_section(bytes, 7, ALLOC_SECTION_SIZES, sizeof(struct alloc_size), ALLOCS_SIZES_AT, ALLOC_CLASSES);
	allocs_seal_all(bytes);
	return bytes;
}

/** Reads it, and all that can be said of it. NULL: all is right. */
static inline const char *allocations_complaint(const char *bytes, size_t size)
{
	struct allocations *a = NULL;
	struct arena to = { 0 };
	char *copy = malloc(size + 1); // exactly its bytes, so that a read behind them is seen
	memcpy(copy, bytes, size);
	struct uh_error *err = allocations_parse("sample", copy, size, &a);
	if (err) {
		uh_error_free(err);
		return a ? "a result beside an error" : NULL;
	}
	const uint64_t asked[] = { 0, 1, ALLOCS_BASE, ALLOCS_BASE + 4096, ALLOCS_BASE - 1, UINT64_MAX, UINT64_MAX / 2 };
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const struct allocation_at at = allocations_find(a, asked[i]);
		allocation_offset_say(&to, &at);
		if (at.row)
			allocation_say(&to, at.row);
		if (at.row && (at.row < a->rows || at.row >= a->rows + a->nrows))
			return "a row that is not there";
	}
	for (size_t i = 0; i < a->nrows; i++)
		allocation_stack_say(a, &to, a->rows[i].stack, 8);
	allocations_statistics_say(&to, a);
	allocations_time(a, a->upto);
	arena_free(&to);
	allocations_free(a);
	return NULL;
}
