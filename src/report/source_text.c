#include "report/source_text.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "source/file.h"

enum { SOURCE_MOST = 16 << 20, FILES_MOST = 64 };

struct source_file {
	struct str path, bytes;
};

struct source_texts {
	struct arena arena;
	const char *const *directories;
	size_t n;
	VEC(struct source_file) files;
};

struct source_texts *source_texts_new(const char *const *directories, size_t n)
{
	struct source_texts *t = mem_alloc(sizeof(*t));
	t->directories = directories;
	t->n = n;
	return t;
}

void source_texts_free(struct source_texts *t)
{
	vec_free(&t->files);
	arena_free(&t->arena);
	free(t);
}

static bool read_text(struct source_texts *t, const char *path, struct str *ret)
{
	struct file f;
	struct uh_error *err = file_open(path, &f);
	door_forget(err);
	if (err)
		return false;
	char *bytes = f.size <= SOURCE_MOST ? arena_alloc(&t->arena, (size_t)f.size + 1) : NULL;
	bool ok = bytes && file_read(&f, 0, bytes, (size_t)f.size);
	*ret = (struct str){ bytes, (size_t)f.size };
	file_close(&f);
	return ok;
}

/** /build/src/k.hip below /home/me: /home/me/build/src/k.hip, /home/me/src/k.hip, /home/me/k.hip. */
static bool find_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	while (path.n) {
		struct text full = { 0 };
		text_printf(&full, "%s/" STR_FMT, directory, STR_ARG(path));
		bool found = read_text(t, full.p, ret);
		text_free(&full);
		if (found)
			return true;
		while (path.n && path.p[0] != '/')
			path = str_from(path, 1);
		while (path.n && path.p[0] == '/')
			path = str_from(path, 1);
	}
	return false;
}

/** A file's text; empty where it is nowhere. */
static struct str text_of(struct source_texts *t, struct str path)
{
	for (size_t i = 0; i < t->files.len; i++)
		if (str_eq(t->files.data[i].path, path))
			return t->files.data[i].bytes;
	struct source_file f = { arena_str(&t->arena, path), { 0 } };
	if (t->files.len == FILES_MOST)
		return f.bytes;
	bool found = memchr(path.p, '/', path.n) && read_text(t, arena_z(&t->arena, path), &f.bytes);
	for (size_t i = 0; i < t->n && !found; i++)
		found = find_below(t, t->directories[i], path, &f.bytes);
	if (!found)
		f.bytes = (struct str){ 0 };
	vec_push(&t->files, f);
	return f.bytes;
}

struct str source_line(struct source_texts *t, struct str path, unsigned line)
{
	struct str text = path.n && line ? text_of(t, path) : (struct str){ 0 };
	for (unsigned i = 1; i < line && text.n; i++)
		str_split(&text, '\n');
	return str_trim(str_cut(str_split(&text, '\n'), 400));
}
