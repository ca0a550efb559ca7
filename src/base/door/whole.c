// Whole files and directories, through the door.
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door/door.h"

enum { ENTRIES = 64 << 10, NAMES_MOST = 1 << 20 };

static int whole_by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef VEC(char *) name_list;

/** Names of what getdents() wrote. */
static void whole_take_entries(const char *bytes, size_t n, bool hidden, struct arena *a, name_list *to)
{
	for (size_t at = 0; at + offsetof(struct dirent64, d_name) < n;) {
		const struct dirent64 *e = (const struct dirent64 *)(bytes + at);
		bool dots = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
		if (!e->d_reclen)
			break;
		if (!dots && (hidden || e->d_name[0] != '.') && to->len < NAMES_MOST)
			vec_push(to, arena_z(a, str_z(e->d_name)));
		at += e->d_reclen;
	}
}

struct uh_error *door_names(const struct named *n, bool hidden, struct arena *a, struct door_names *ret)
{
	struct door_file *f;
	name_list names = { 0 };
	*ret = (struct door_names){ 0 };
	struct uh_error *err = door_open(n, &f);
	if (err)
		return err;
	if (!S_ISDIR(door_what(f)->st.st_mode) || door_what(f)->fd < 0) {
		door_close(f);
		return uh_error_os(ENOTDIR, "%s", n->path);
	}
	_cleanup_free_ char *room = mem_large(ENTRIES);
	ssize_t got;
	while ((got = door_next(f, room, ENTRIES, &err)) > 0)
		whole_take_entries(room, (size_t)got, hidden, a, &names);
	door_close(f);
	if (names.len)
		qsort(names.data, names.len, sizeof(*names.data), whole_by_name);
	ret->list = arena_alloc(a, (names.len + 1) * sizeof(*ret->list));
	// A directory that a second reader had to list again gives names twice.
	for (size_t i = 0; i < names.len; i++)
		if (!i || strcmp(names.data[i], names.data[i - 1]) != 0)
			ret->list[ret->n++] = names.data[i];
	vec_free(&names);
	return err;
}

struct uh_error *named_read(const struct named *n, size_t most, struct arena *a, struct str *ret, struct stat *ret_st)
{
	struct door_file *f;
	struct uh_error *err = door_open(n, &f);
	if (err)
		return err;
	const struct stat *st = &door_what(f)->st;
	if (!S_ISREG(st->st_mode))
		err = uh_error_new("%s: not a file", n->path);
	else if ((uint64_t)st->st_size > most)
		err = uh_error_new("%s: larger than %zu MB", n->path, most >> 20);
	else if (door_what(f)->acting)
		err = uh_error_new("%s: files of %s are not read, because reading some of them acts on the GPU", n->path,
				   door_what(f)->acting);
	if (!err) {
		char *bytes = arena_alloc(a, (size_t)st->st_size + 1);
		ssize_t got = door_read(f, 0, bytes, (size_t)st->st_size, &err);
		*ret = (struct str){ bytes, got < 0 ? 0 : (size_t)got };
		if (ret_st)
			*ret_st = *st;
	}
	door_close(f);
	return err;
}

struct uh_error *root_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret,
			   struct stat *ret_st)
{
	const struct named n = { .path = path, .root = root };
	return named_read(&n, most, a, ret, ret_st);
}

struct uh_error *believed_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret)
{
	const struct named n = { .path = path, .root = root, .believed = true };
	return named_read(&n, most, a, ret, NULL);
}
