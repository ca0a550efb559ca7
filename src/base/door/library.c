// Finds what is called of a library.
#include "base/door/library.h"

#include <dlfcn.h>
#include <string.h>

/** Copied, because a pointer to a function is another type than what library_find() gives. */
static void put(void *api, size_t at, void *pointer) { memcpy((char *)api + at * sizeof(pointer), &pointer, sizeof(pointer)); }

const char *library_load(void *api, const char *const *names, const char *const *files)
{
	void *library, *found;
	memcpy(&library, api, sizeof(library));
	while (!library && *files)
		library = library_open(*files++, RTLD_LAZY | RTLD_LOCAL);
	put(api, 0, library);
	for (size_t i = 0; names[i]; i++) {
		found = library ? library_find(library, names[i]) : NULL;
		if (!found)
			return names[i];
		put(api, i + 1, found);
	}
	return NULL;
}

const char *library_take(void *api, void *const *functions)
{
	put(api, 0, functions[0]);
	for (size_t i = 0; functions[i]; i++)
		put(api, i + 1, functions[i]);
	return NULL;
}
