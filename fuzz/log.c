// Fuzzes the way of a log from bytes to the report. One of eight inputs is read a second time,
// in small reads of odd sizes, and must give the same report. The whole way with two reports takes more than a millisecond, so
// that there are some hundreds in a second; each reader has a faster target of its own.
#include <stdlib.h>

#include "childless.h"
#include "explain.h"
#include "know.h"

struct memory {
	struct str left;
	size_t step; // bytes of one read; 0: as many as are asked for
};

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct memory *m = s->ctx;
	size_t n = size < m->left.n ? size : m->left.n;
	if (m->step && n > m->step) {
		n = m->step;
		m->step = (m->step + 2) % 61 | 1;
	}
	if (n)
		memcpy(buffer, m->left.p, n);
	m->left = str_from(m->left, n);
	return (ssize_t)n;
}

/** The report on @bytes, to be freed. */
static char *explain(struct str bytes, size_t step, size_t *ret_size)
{
	struct explained x;
	struct memory memory = { bytes, step };
	struct source source = { .name = "fuzz.log", .read = read_memory, .ctx = &memory };
	explain_begin(&x, know);
	explain_source(&x, &source);
	return explain_end(&x, ret_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	size_t n, again_n;
	_cleanup_free_ char *report = explain(bytes, 0, &n);
	if (size % 8 == 1) {
		_cleanup_free_ char *again = explain(bytes, 1, &again_n);
		if (!str_eq((struct str){ report, n }, (struct str){ again, again_n }))
			abort();
	}
	return 0;
}
