// Fuzzes the reader of code objects: ELF, symbols, descriptors, metadata; and how the recorder finds the metadata.
#include <stdlib.h>

#include "code_check.h"
#include "recorder/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = { 0 };
	struct text problems = { 0 };
	struct code_object *o;
	struct uh_error *err = code_object_parse(&a, S("fuzz.co"), (struct str){ (const char *)data, size }, &problems, &o);
	uint32_t n = 0;
	const char *note = metadata_find((const char *)data, size, &n);
	if ((!err && code_complaint(o)) ||
	    (note && (note < (const char *)data || n > size - (size_t)(note - (const char *)data))))
		abort();
	uh_error_free(err);
	text_free(&problems);
	arena_free(&a);
	return 0;
}
