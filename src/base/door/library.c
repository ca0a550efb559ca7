// Loads a library and finds what is called of it.
#include "base/door/library.h"

#include <dlfcn.h>
#include <string.h>

const char *library_load(void *api, const char *const *names, const char *const *files)
{
	void *library, *found;
	// Copied, because a pointer to a function is another type than what dlsym() gives.
	memcpy(&library, api, sizeof(library));
	while (!library && *files)
		library = dlopen(*files++, RTLD_NOW | RTLD_LOCAL);
	memcpy(api, &library, sizeof(library));
	for (size_t i = 0; names[i]; i++) {
		found = library ? dlsym(library, names[i]) : NULL;
		if (!found)
			return names[i];
		memcpy((char *)api + (i + 1) * sizeof(found), &found, sizeof(found));
	}
	return NULL;
}
