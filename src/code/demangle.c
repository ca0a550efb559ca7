#include "code/demangle.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { NAME_BYTES = 4096 }; // longer ones are no names

typedef char *demangle_fn(const char *name, char *buffer, size_t *length, int *status);

/** The C++ library's own demangler, where this machine has the library. */
static demangle_fn *find_demangler(void)
{
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	return library ? (demangle_fn *)(uintptr_t)dlsym(library, "__cxa_demangle") : NULL;
}

static struct str strip_suffix(struct str name)
{
	static const char *const suffixes[] = { " [clone .kd]", "(.kd)", ".kd", ".intern.0" };
	name = str_trim(name);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (str_ends(name, str_z(suffixes[i])))
			return str_cut(name, name.n - strlen(suffixes[i]));
	return name;
}

struct str demangle(struct arena *a, struct str name)
{
	name = strip_suffix(name);
	if (!str_starts(name, S("_Z")) || name.n > NAME_BYTES)
		return name;
	demangle_fn *fn = find_demangler();
	if (!fn)
		return name;
	int status = -1;
	char *plain = fn(arena_z(a, name), NULL, NULL, &status);
	if (!plain || status) {
		free(plain);
		return name;
	}
	struct str copy = arena_str(a, str_z(plain));
	free(plain);
	return copy;
}
