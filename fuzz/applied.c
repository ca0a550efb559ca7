// Fuzzes records of changes, and files in which our text is looked for: the record, then a line `---`, then the file.
#include <stdlib.h>

#include "apply/applied.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const struct applied *a, const struct own_file *f, struct str content)
{
	struct arena room = { 0 };
	struct str rest, with, back;
	own_strip(&room, a, f, content, &rest);
	if (rest.n > content.n)
		abort();
	if (own_strip(&room, a, f, rest, &back) == OWN_ABSENT && own_insert(&room, a, f, rest, &with) &&
	    own_strip(&room, a, f, with, &back) == OWN_ABSENT)
		abort();
	own_missing(&room, f->kind, content, f->words);
	arena_free(&room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size }, content = { 0 };
	ptrdiff_t split = str_find(text, S("\n---\n"));
	struct applied a;
	if (split >= 0) {
		content = str_from(text, (size_t)split + 5);
		text = str_cut(text, (size_t)split + 1);
	}
	struct uh_error *err = applied_parse(text, S("some-id"), "record", &a);
	if (err) {
		uh_error_free(err);
		return 0;
	}
	for (size_t n = 0; n < a.files.len; n++) {
		if (!own_file_good(&a, a.files.data[n].kind, a.files.data[n].path))
			abort();
		try_file(&a, &a.files.data[n], content);
	}
	applied_free(&a);
	return 0;
}
