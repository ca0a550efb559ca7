// Fuzzes the reader of code objects: ELF, symbols, descriptors, metadata.
#include <stdlib.h>

#include "code_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = { 0 };
	struct text problems = { 0 };
	struct code_object *o;
	struct uh_error *err = code_object_parse(&a, S("fuzz.co"), (struct str){ (const char *)data, size }, &problems, &o);
	if (!err && code_complaint(o))
		abort();
	uh_error_free(err);
	text_free(&problems);
	arena_free(&a);
	return 0;
}
