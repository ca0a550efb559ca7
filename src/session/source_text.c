#include "session/source_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/door/door.h"

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

/** With the rights of the user who called; links do not lead out of the directory. */
static bool read_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	const struct named n = { .path = directory, .below = arena_z(&t->arena, path), .as_caller = true, .inside = true };
	struct uh_error *err = named_read(&n, SOURCE_MOST, &t->arena, ret, NULL);
	bool read = !err;
	if (err && (err->errnum == EACCES || err->errnum == EPERM))
		note_unread(t, path, strerror(err->errnum));
	door_forget(err);
	return read;
}

static bool is_there(const char *path)
{
	struct opened what;
	struct uh_error *err = door_look(&(struct named){ .path = path, .as_caller = true }, &what);
	bool there = !err && S_ISREG(what.st.st_mode);
	door_forget(err);
	return there;
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
	if (!found && !t->unread.n && str_starts(path, S("/")) && t->asked++ < ASKED_MOST && is_there(arena_z(&t->arena, path)))
		note_unread(t, path, "not read: it is neither below a --source directory nor beside the code");
	return found;
}

/** A file's text; empty where it is nowhere. */
static struct str text_of(struct source_texts *t, struct str beside, struct str path)
{
	for (size_t i = 0; i < t->files.len; i++)
		if (str_eq(t->files.data[i].path, path) && str_eq(t->files.data[i].beside, beside))
			return t->files.data[i].bytes;
	struct source_file f = { arena_str(&t->arena, beside), arena_str(&t->arena, path), { 0 } };
	if (t->files.len == FILES_MOST)
		return f.bytes;
	if (!find(t, beside, path, &f.bytes))
		f.bytes = (struct str){ 0 };
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
