// Fuzzes the search for code objects in a file.
#include <stdlib.h>

#include "code/object/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(void *ctx, const struct code_found *f)
{
	uint64_t *sum = ctx;
	for (size_t i = 0; i < f->bytes.n; i++)
		*sum += (uint8_t)f->bytes.p[i];
	*sum += code_target_gfx(f->target).n;
}

static void check_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	if (!strstr(uh_error_message(err), "0x") || strchr(uh_error_message(err), '\n'))
		abort();
	uh_error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t sum = 0;
	struct file f = file_memory(S("input"), (struct str){ (const char *)data, size });
	code_find(&f, &(struct code_finder){ .found = touch, .problem = check_problem, .ctx = &sum });
	return 0;
}
