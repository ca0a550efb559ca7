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

/** Older demanglers do not know the types of 16 bits; they get others in their place that need as many characters of nothing else. */
static void swap_types(struct text *out, struct str name, const char *const (*pairs)[2], size_t n)
{
	while (name.n) {
		size_t i = 0;
		while (i < n && !str_starts(name, str_z(pairs[i][0])))
			i++;
		text_add(out, i < n ? str_z(pairs[i][1]) : str_cut(name, 1));
		name = str_from(name, i < n ? strlen(pairs[i][0]) : 1);
	}
}

struct str demangle(struct arena *a, struct str name)
{
	static const char *const known[][2] = { { "DF16b", "Dd" }, { "DF16_", "De" } };
	static const char *const plain_names[][2] = { { "decimal64", "bfloat16" }, { "decimal128", "half" } };
	name = strip_suffix(name);
	if (!str_starts(name, S("_Z")) || name.n > NAME_BYTES)
		return name;
	demangle_fn *fn = find_demangler();
	if (!fn)
		return name;
	int status = -1;
	struct text mangled = { 0 }, out = { 0 };
	swap_types(&mangled, name, known, 2);
	char *plain = fn(arena_z(a, text_str(&mangled)), NULL, NULL, &status);
	if (plain && !status)
		swap_types(&out, str_z(plain), plain_names, 2);
	struct str result = out.n ? arena_str(a, text_str(&out)) : name;
	free(plain);
	text_free(&mangled);
	text_free(&out);
	return result;
}
