// What a caller of the library has in memory.
#include "source/source.h"

static ssize_t read_bytes(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct str *left = s->ctx, part = str_cut(*left, size);
	(void)ret_err;
	if (part.n)
		memcpy(buffer, part.p, part.n);
	*left = str_from(*left, part.n);
	return (ssize_t)part.n;
}

void source_bytes(const char *name, struct str bytes, const struct source_visitor *v)
{
	if (!bytes.n) {
		v->problem(v->ctx, uh_error_new("%s: there is nothing to read", name));
	} else if (str_starts(bytes, S(SOURCE_JOURNAL_MAGIC))) {
		v->problem(v->ctx, uh_error_new("%s: a journal file, which can be read from a disk only", name));
	} else if (source_is_archive(bytes)) {
		source_archive_bytes(bytes, name, v);
	} else {
		struct source s = { .name = name, .size = bytes.n, .read = read_bytes, .ctx = &bytes };
		v->visit(v->ctx, &s);
	}
}
