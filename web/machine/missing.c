#include "machine/missing.h"

#include <stdlib.h>
#include <string.h>
#include <wasm_simd128.h>

#include "base/arena.h"

/** Items that are sorted, and room for as many. */
struct sorting {
	char *items, *room;
	size_t size;
	int (*compare)(const void *a, const void *b, void *ctx);
	void *ctx;
};

/** Sorts @n items from the item @at on. Equal ones keep their order. */
static void merge_sort(const struct sorting *s, size_t at, size_t n)
{
	if (n < 2)
		return;
	const size_t half = n / 2;
	merge_sort(s, at, half);
	merge_sort(s, at + half, n - half);
	char *left = s->items + at * s->size, *middle = left + half * s->size, *end = left + n * s->size, *to = s->room;
	char *right = middle;
	while (left < middle && right < end) {
		char **from = s->compare(left, right, s->ctx) <= 0 ? &left : &right;
		memcpy(to, *from, s->size);
		*from += s->size;
		to += s->size;
	}
	memcpy(to, left, (size_t)(middle - left));
	to += middle - left;
	memcpy(s->items + at * s->size, s->room, (size_t)(to - s->room)); // what is left on the right is in its place
}

void qsort_r(void *items, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *ctx), void *ctx)
{
	struct sorting s = { items, mem_large(n * size + 1), size, compare, ctx };
	merge_sort(&s, 0, n);
	free(s.room);
}

struct plain_compare {
	int (*compare)(const void *a, const void *b);
};

static int compare_plain(const void *a, const void *b, void *ctx) { return ((struct plain_compare *)ctx)->compare(a, b); }

/** glibc's keeps the order of equal items; answers that depend on it should be the same here. */
void qsort(void *items, size_t n, size_t size, int (*compare)(const void *a, const void *b))
{
	struct plain_compare plain = { compare };
	qsort_r(items, n, size, compare_plain, &plain);
}

/** That of the C library looks at four bytes at once. Every line of a log is found by it. */
void *memchr(const void *bytes, int c, size_t n)
{
	enum { WIDTH = 16 };
	const unsigned char *p = bytes;
	const v128_t wanted = wasm_i8x16_splat((char)c);
	for (; n >= WIDTH; n -= WIDTH, p += WIDTH) {
		const v128_t same = wasm_i8x16_eq(wasm_v128_load(p), wanted);
		if (wasm_v128_any_true(same))
			return (void *)(p + __builtin_ctz(wasm_i8x16_bitmask(same)));
	}
	for (; n; n--, p++)
		if (*p == (unsigned char)c)
			return (void *)p;
	return NULL;
}

/** Of errors that a driver answered with, of which a page sees none. */
const char *strerrorname_np(int error)
{
	(void)error;
	return "?";
}

/** A child ends with its work, so it needs no death signal. */
int prctl(int option, ...)
{
	(void)option;
	return 0;
}

void bz_internal_error(int code);
/** bzip2 wants it from programs that have no standard output. */
void bz_internal_error(int code)
{
	(void)code;
	abort();
}
