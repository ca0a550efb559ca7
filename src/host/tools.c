// Tools that the next crash needs, by their files. None is run: a version comes from a name, or is that of its ROCm.
#include <stdio.h>

#include "host/software.h"

/** The version in a file's name: llvm-objdump-19, librocm-debug-agent.so.2.0.4. */
static struct str version_in(struct str name)
{
	size_t at = name.n;
	while (at && (char_digit(name.p[at - 1]) || name.p[at - 1] == '.'))
		at--;
	while (at < name.n && name.p[at] == '.')
		at++;
	return str_from(name, at);
}

static bool fits_tool(struct host *h, const struct host_listing *l, struct str pattern, struct str path)
{
	if (str_starts(pattern, S("/")))
		return !l->rocm && str_glob(pattern, path);
	const struct host_fact *root = l->rocm ? host_fact(h, l->rocm, S("path"), 0) : NULL;
	struct str below = root && path.n > root->value.n ? str_from(path, root->value.n + 1) : (struct str){ 0 };
	return below.n && str_glob(pattern, below);
}

/** The file of a tool in a directory: of several the longest name, which has the version. */
static struct str find_tool(struct host *h, const struct host_listing *l, struct str patterns)
{
	struct str found = { 0 };
	for (struct str one = str_word(&patterns); one.n; one = str_word(&patterns)) {
		struct str names = l->names;
		while (names.n) {
			struct str name = str_split(&names, '\n');
			char room[512];
			int n = snprintf(room, sizeof(room), STR_FMT "/" STR_FMT, STR_ARG(l->path), STR_ARG(name));
			struct str path = { room, (size_t)n };
			if (n > 0 && (size_t)n < sizeof(room) && path.n > found.n && fits_tool(h, l, one, path))
				found = arena_str(&h->arena, path);
		}
	}
	return found;
}

static void add_tool(struct host *h, const struct host_listing *l, struct str name, struct str path)
{
	const struct host_fact *version = l->rocm ? host_fact(h, l->rocm, S("version"), 0) : NULL;
	struct host_item *i = host_add(h, "tool", NULL);
	host_note(h, i, "name", name, path);
	host_note(h, i, "path", path, path);
	host_note(h, i, "version", version_in(path), path);
	if (!version)
		return;
	host_note(h, i, "rocm", version->value, version->where);
	host_note(h, l->rocm, "has", name, path);
}

static void find_tools(struct host *h, const struct host_listing *l)
{
	for (size_t t = 0; t < h->know->tools.len; t++) {
		const struct know_row *tool = h->know->tools.data[t];
		struct str path = find_tool(h, l, tool->value);
		if (path.n && !(l->rocm && host_says(l->rocm, "has", tool->head.id)))
			add_tool(h, l, tool->head.id, path);
	}
}

/** What a ROCm lacks is only told of one whose libraries are there: a tree may hold a part of it. */
static void find_lacks(struct host *h, const struct host_listing *l)
{
	if (!l->rocm || str_find(l->names, S("libhsa-runtime64.so")) < 0)
		return;
	struct str lacks = { 0 };
	for (size_t t = 0; t < h->know->tools.len; t++) {
		const struct know_row *tool = h->know->tools.data[t];
		if (!str_starts(tool->value, S("/")) && !host_says(l->rocm, "has", tool->head.id))
			lacks = arena_printf(&h->arena, STR_FMT "%s" STR_FMT, STR_ARG(lacks), lacks.n ? ", " : "",
					     STR_ARG(tool->head.id));
	}
	host_note(h, l->rocm, "lacks", lacks, l->path);
}

void host_find_tools(struct host *h, const struct host_listing *listings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		find_tools(h, &listings[i]);
	for (size_t i = 0; i < n; i++)
		find_lacks(h, &listings[i]);
}
