#include "report/source_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/caller.h"
#include "base/cleanup.h"
#include "base/root.h"
#include "source/file.h"

enum { SOURCE_MOST = 16 << 20, FILES_MOST = 64, ASKED_MOST = 8 };

struct source_file {
	struct str beside, path, bytes;
};

struct source_texts {
	struct arena arena;
	const char *const *directories;
	size_t n;
	VEC(struct source_file) files;
	unsigned asked;     // how many files were asked whether they are there
	struct text unread; // the first that is there and was not read, and why
};

struct source_texts *source_texts_new(const char *const *directories, size_t n)
{
	struct source_texts *t = mem_alloc(sizeof(*t));
	t->directories = directories;
	t->n = n;
	return t;
}

void source_texts_free(struct source_texts *t, struct text *problems)
{
	text_add(problems, text_str(&t->unread));
	text_free(&t->unread);
	vec_free(&t->files);
	arena_free(&t->arena);
	free(t);
}

/** What is not shown is said once. */
static void note_unread(struct source_texts *t, struct str path, const char *why)
{
	if (!t->unread.n)
		text_printf(&t->unread, "source: " STR_FMT ": %s\n", STR_ARG(path), why);
}

/** Opened to be looked at first: to open a device may do something already, and so may reading a file of the driver. */
static bool read_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	struct stat st;
	char self[32];
	const char *full = arena_printf(&t->arena, "/" STR_FMT, STR_ARG(path)).p;
	_cleanup_close_ int at = root_open(directory, full, O_PATH);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	if (at < 0 || fstat(at, &st) || !S_ISREG(st.st_mode) || source_acting_filesystem(self))
		return false;
	_cleanup_close_ int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		note_unread(t, path, strerror(errno));
		return false;
	}
	_cleanup_error_ struct uh_error *err = root_read_open(fd, full, SOURCE_MOST, &t->arena, ret, NULL);
	return !err;
}

/** /build/src/k.hip below /home/me: /home/me/build/src/k.hip, /home/me/src/k.hip, /home/me/k.hip. */
static bool find_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	while (path.n) {
		if (read_below(t, directory, path, ret))
			return true;
		while (path.n && path.p[0] != '/')
			path = str_from(path, 1);
		while (path.n && path.p[0] == '/')
			path = str_from(path, 1);
	}
	return false;
}

/** A user's directory has secrets in it that begin with a dot, and no source. */
static bool is_hidden(struct str path)
{
	while (path.n) {
		const struct str name = str_split(&path, '/');
		if (name.n > 1 && name.p[0] == '.' && !str_is(name, ".."))
			return true;
	}
	return false;
}

/** Where the file of the code lies; empty for code of a process's memory, and in the root directory, which is no place for it. */
static struct str directory_of(struct str object)
{
	size_t n = object.n;
	while (n && object.p[n - 1] != '/')
		n--;
	if (n == 1 || str_starts(object, S("memory:")))
		return S("");
	return n ? str_cut(object, n) : S(".");
}

static bool find(struct source_texts *t, struct str beside, struct str path, struct str *ret)
{
	bool found = false;
	for (size_t i = 0; i < t->n && !found; i++)
		found = find_below(t, t->directories[i], path, ret);
	if (!found && beside.n && !is_hidden(path))
		found = find_below(t, arena_z(&t->arena, beside), path, ret);
	if (!found && !t->unread.n && str_starts(path, S("/")) && t->asked++ < ASKED_MOST &&
	    file_answers(arena_z(&t->arena, path)))
		note_unread(t, path, "not read: it lies neither below a --source directory nor beside the code");
	return found;
}

/** A file's text; empty where it is nowhere. */
static struct str text_of(struct source_texts *t, struct str beside, struct str path)
{
	for (size_t i = 0; i < t->files.len; i++)
		if (str_eq(t->files.data[i].path, path) && str_eq(t->files.data[i].beside, beside))
			return t->files.data[i].bytes;
	struct source_file f = { arena_str(&t->arena, beside), arena_str(&t->arena, path), { 0 } };
	struct caller before;
	if (t->files.len == FILES_MOST)
		return f.bytes;
	if (!caller_begin(&before))
		note_unread(t, path, "not read: the rights of the user who called cannot be had");
	else if (!find(t, beside, path, &f.bytes))
		f.bytes = (struct str){ 0 };
	caller_end(&before);
	vec_push(&t->files, f);
	return f.bytes;
}

struct str source_line(struct source_texts *t, struct str object, struct str path, unsigned line)
{
	struct str text = path.n && line ? text_of(t, directory_of(object), path) : (struct str){ 0 };
	for (unsigned i = 1; i < line && text.n; i++)
		str_split(&text, '\n');
	return str_trim(str_cut(str_split(&text, '\n'), 400));
}
