#include "code/demangle.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"

enum {
	NAME_BYTES = 4096, // longer ones are no names
	PLAIN_BYTES = 64 << 10,
	CHILD_MS = 2000,
	REFERENCES_SAFE = 16, // to parts of a name; each may double what it is written out to
};

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

/** Older demanglers do not know the 16-bit types. They get other types in their place, which are replaced in the result. */
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

/** How often the name refers back to a part of itself. */
static size_t references(struct str name)
{
	size_t count = 0;
	for (size_t i = 0; i + 1 < name.n; i++)
		count += (name.p[i] == 'S' || name.p[i] == 'T') && (name.p[i + 1] == '_' || char_digit(name.p[i + 1]));
	return count;
}

struct mangled {
	demangle_fn *fn;
	const char *name;
};

static void demangle_to(int fd, const void *ctx)
{
	const struct mangled *m = ctx;
	int status = -1;
	char *plain = m->fn(m->name, NULL, NULL, &status);
	size_t n = plain && !status ? strlen(plain) : 0, at = 0;
	while (at < n) {
		ssize_t written = write(fd, plain + at, n - at);
		if (written <= 0)
			break;
		at += (size_t)written;
	}
	free(plain);
}

/** Few references cannot grow far; a name with many may be written to grow without end, so that a child with a deadline tries it. */
static void demangle_name(const struct mangled *m, struct text *out)
{
	if (references(str_z(m->name)) > REFERENCES_SAFE) {
		if (!child_run(demangle_to, m, CHILD_MS, PLAIN_BYTES, out))
			text_clear(out);
		return;
	}
	int status = -1;
	char *plain = m->fn(m->name, NULL, NULL, &status);
	if (plain && !status)
		text_add(out, str_z(plain));
	free(plain);
}

struct str demangle(struct arena *a, struct str name)
{
	static const char *const known[][2] = { { "DF16b", "Dd" }, { "DF16_", "De" } };
	static const char *const plain_names[][2] = { { "decimal64", "bfloat16" }, { "decimal128", "half" } };
	name = strip_suffix(name);
	if (!str_starts(name, S("_Z")) || name.n > NAME_BYTES)
		return name;
	struct text mangled = { 0 }, plain = { 0 }, out = { 0 };
	swap_types(&mangled, name, known, 2);
	const struct mangled m = { find_demangler(), arena_z(a, text_str(&mangled)) };
	if (m.fn)
		demangle_name(&m, &plain);
	swap_types(&out, text_str(&plain), plain_names, 2);
	struct str result = out.n ? arena_str(a, text_str(&out)) : name;
	text_free(&mangled);
	text_free(&plain);
	text_free(&out);
	return result;
}

struct str bare_name(struct str function)
{
	size_t begin = 0, end = 0;
	for (size_t i = 0; i < function.n; i++) {
		if (char_word(function.p[i])) {
			begin = i && char_word(function.p[i - 1]) ? begin : i;
			end = i + 1;
		} else if (end && (function.p[i] == '<' || (function.p[i] == '(' && end == i))) {
			break;
		}
	}
	return str_cut(str_from(function, begin), end - begin);
}
