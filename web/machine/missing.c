#include "machine/missing.h"

#include <stdlib.h>

static void swap(char *a, char *b, size_t n)
{
	for (; n; n--, a++, b++) {
		char c = *a;
		*a = *b;
		*b = c;
	}
}

/** Moves the item at @root down to its place in the heap of the first @n. */
static void sift(char *items, size_t root, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *ctx),
		 void *ctx)
{
	for (size_t child; (child = 2 * root + 1) < n; root = child) {
		if (child + 1 < n && compare(items + child * size, items + (child + 1) * size, ctx) < 0)
			child++;
		if (compare(items + root * size, items + child * size, ctx) >= 0)
			return;
		swap(items + root * size, items + child * size, size);
	}
}

void qsort_r(void *items, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *ctx), void *ctx)
{
	for (size_t i = n / 2; i-- > 0;)
		sift(items, i, n, size, compare, ctx);
	for (size_t i = n; i-- > 1;) {
		swap(items, (char *)items + i * size, size);
		sift(items, 0, i, size, compare, ctx);
	}
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
