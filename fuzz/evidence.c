// Fuzzes a bundle of evidence: an archive with members of several kinds, from its bytes to the report. A look at ten kinds of evidence and
// what is concluded from all together takes its time: that is why there are few of them in a second.
#include "explain.h"
#include "inline_child.h"
#include "know.h"
#include "memory_file.h"

static void on_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	uh_error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct explained x;
	size_t n;
	keep_library("libarchive.so.13");
	explain_begin(&x, know);
	source_archive(NULL, memory_file(data, size), "fuzz.tar",
		       &(struct source_visitor){ .visit = explain_source, .problem = on_problem, .ctx = &x });
	free(explain_end(&x, &n));
	return 0;
}
