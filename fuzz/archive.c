// Fuzzes archives and compressed files. libarchive is not instrumented: what is seen is our own walk through it, and memory errors of both.
#include "inline_child.h"
#include "memory_file.h"
#include "source/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBER_MOST = 1 << 20 };

/** Reads to the end, in pieces of odd sizes. */
static void on_visit(void *ctx, struct source *s)
{
	(void)ctx;
	size_t all = 0, piece = 1;
	ssize_t n = 1;
	if (!s->name || s->door)
		abort();
	while (n > 0 && all < MEMBER_MOST) {
		struct uh_error *err = NULL;
		char *room = malloc(piece);
		n = s->read(s, room, piece, &err);
		free(room);
		if (n > (ssize_t)piece || (n < 0) != (err != NULL))
			abort();
		uh_error_free(err);
		all += n > 0 ? (size_t)n : 0;
		piece = piece * 3 % 65537 + 1;
	}
}

static void on_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	if (!*uh_error_message(err))
		abort();
	uh_error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	keep_library("libarchive.so.13");
	source_is_archive((struct str){ (const char *)data, size });
	source_archive(NULL, memory_file(data, size), "fuzz", &(struct source_visitor){ .visit = on_visit, .problem = on_problem });
	return 0;
}
