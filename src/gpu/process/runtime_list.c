#include "gpu/process/runtime_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"

enum {
	R_DEBUG = 40,
	LINK_MAP = 40,
	CODE_MOST = 65536, // loaded code objects
	URI_MOST = 4096,
	URIS_BYTES = 64 << 20,
};

static void odd(const struct runtime_list *l, uint64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void odd(const struct runtime_list *l, uint64_t at, const char *format, ...)
{
	struct text line = { 0 };
	va_list ap;
	text_printf(&line, "link_map at 0x%llx", (unsigned long long)at);
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	l->odd(l->ctx, line.p);
	text_free(&line);
}

static struct str read_uri(const struct runtime_list *l, uint64_t address)
{
	enum { STEP = 64 };
	char uri[URI_MOST];
	for (size_t n = 0; n + STEP <= sizeof(uri);) {
		// It may end shortly before the end of its segment.
		size_t step = STEP;
		if (!l->read(l->ctx, address + n, uri + n, step))
			step = l->read(l->ctx, address + n, uri + n, 1);
		size_t length = strnlen(uri + n, step);
		if (length < step || !step)
			return arena_str(l->arena, (struct str){ uri, n + length });
		n += step;
	}
	return (struct str){ 0 };
}

int runtime_list_version(const struct runtime_list *l)
{
	char d[R_DEBUG];
	return l->r_debug && l->read(l->ctx, l->r_debug, d, sizeof(d)) ? (int)get_u32(d) : 0;
}

static int compare_bases(const void *a, const void *b)
{
	const struct loaded_code *x = a, *y = b;
	return x->base != y->base ? (x->base < y->base ? -1 : 1) : str_cmp(x->uri, y->uri);
}

static void walk(struct runtime_list *l, uint64_t at)
{
	char m[LINK_MAP];
	uint64_t earlier = 0;
	for (size_t n = 1, again = 1; at && n < CODE_MOST && l->arena->total < URIS_BYTES; n++) {
		if (!l->read(l->ctx, at, m, sizeof(m))) {
			odd(l, at, " (code object %zu of the runtime's list) is not in the core", n);
			return;
		}
		uint64_t name = get_u64(m + 8), next = get_u64(m + 24);
		struct str uri = name ? read_uri(l, name) : (struct str){ 0 };
		if (uri.n)
			vec_push(&l->code, ((struct loaded_code){ get_u64(m), uri }));
		// A place is remembered for twice as many steps each time, so that any circle is noticed.
		if (n == again)
			earlier = at, again *= 2;
		if (next == earlier) {
			odd(l, at, ": the runtime's list of code objects goes round in a circle");
			return;
		}
		at = next;
	}
	if (at)
		odd(l, at, ": the rest of the runtime's list of code objects is not read");
}

void runtime_list_read(struct runtime_list *l)
{
	char d[R_DEBUG];
	if (!l->r_debug || !l->read(l->ctx, l->r_debug, d, sizeof(d)))
		return;
	if (get_u32(d + 24)) {
		char line[160];
		snprintf(line, sizeof(line),
			 "the runtime's list of code objects was being changed when it was read (r_debug at 0x%llx)",
			 (unsigned long long)l->r_debug);
		l->odd(l->ctx, line);
	}
	walk(l, get_u64(d + 8));
	if (l->code.len)
		qsort(l->code.data, l->code.len, sizeof(*l->code.data), compare_bases);
}
