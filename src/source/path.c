// Files, directories and what else a path may name.
#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/door/door.h"
#include "source/source.h"
#include "source/tape/bundle.h"

enum { DEPTH_MAX = 8, CRASH_DEPTH = 3, SILENT_MOST = 4, HEAD = 512 };

/** What the user named, and how deep below it we are. */
struct path_walk {
	const char *root, *top; // @root: as in struct named
	const struct source_visitor *v;
	bool crash;      // only files named like a dmesg; if there is none, nothing is said
	unsigned silent; // how many did not answer
};

static bool path_walk_path(struct path_walk *w, const char *below, int depth);

static void path_tell(struct path_walk *w, struct uh_error *err)
{
	w->silent += err->errnum == ETIMEDOUT;
	w->v->problem(w->v->ctx, err);
}

static ssize_t path_read_next(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	return door_next(s->ctx, buffer, size, ret_err);
}

static struct named named_below(const struct path_walk *w, const char *below)
{
	return (struct named){ .path = w->top, .below = *below ? below : NULL, .root = w->root };
}

/** As a user would write it. */
static const char *path_of(struct arena *a, const struct path_walk *w, const char *below)
{
	if (!*below && !w->root)
		return w->top;
	return arena_printf(a, "%s%s%s%s", w->root ? w->root : "", w->top,
			    !*below || str_ends(str_z(w->top), S("/")) ? "" : "/", below)
		.p;
}

static void walk_directory(struct path_walk *w, const char *path, const char *below, int depth)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct door_names names;
	bool any = false;
	if (depth >= (w->crash ? CRASH_DEPTH : DEPTH_MAX)) {
		if (!w->crash)
			path_tell(w, uh_error_new("%s: more than %d directories deep; not read", path, DEPTH_MAX));
		return;
	}
	const struct named n = named_below(w, below);
	struct uh_error *err = door_names(&n, true, &room, &names);
	for (size_t i = 0; i < names.n; i++) {
		if (w->silent >= SILENT_MOST) {
			path_tell(w,
				  uh_error_new("%s: %d files in it did not answer; the rest was not read", path, SILENT_MOST));
			break;
		}
		any |= path_walk_path(w, arena_printf(&room, "%s%s%s", below, *below ? "/" : "", names.list[i]).p, depth + 1);
	}
	if (err)
		path_tell(w, err);
	else if (!any && !depth && !w->crash) // one inside another is no news
		path_tell(w, uh_error_new("%s: this directory has no files", path));
}

static struct uh_error *read_regular(const struct named *n, const char *path, struct door_file *door,
				     const struct source_visitor *v)
{
	char head[HEAD];
	struct uh_error *err = NULL;
	ssize_t got = door_read(door, 0, head, sizeof(head), &err);
	struct str start = { head, got > 0 ? (size_t)got : 0 };
	if (err)
		return err;
	if (!got)
		return uh_error_new("%s: the file is empty", path);
	if (str_starts(start, S(SOURCE_JOURNAL_MAGIC)))
		return source_journal_file(n, path, v);
	if (source_is_archive(start)) {
		struct bundle *b = NULL;
		err = bundle_open(n, path, &b);
		if (b)
			source_bundle(path, b, v);
		else if (!err)
			source_archive(n, -1, path, v);
		return err;
	}
	uint64_t size = (uint64_t)door_what(door)->st.st_size;
	struct source s = { .name = path, .door = size ? door : NULL, .size = size, .read = path_read_next, .ctx = door };
	v->visit(v->ctx, &s);
	return NULL;
}

static struct uh_error *read_opened(const struct named *n, const char *path, struct door_file *door,
				    const struct source_visitor *v)
{
	const struct opened *what = door_what(door);
	if (S_ISCHR(what->st.st_mode) && what->st.st_rdev == makedev(1, 11))
		return source_kmsg(path, v);
	if (what->acting && (S_ISREG(what->st.st_mode) || S_ISDIR(what->st.st_mode)))
		return uh_error_new("%s: files of %s are not read, because reading some of them acts on the driver", path,
				    what->acting);
	if (S_ISREG(what->st.st_mode))
		return read_regular(n, path, door, v);
	if (!S_ISFIFO(what->st.st_mode))
		return uh_error_new("%s: neither a file nor a directory", path);
	struct source s = { .name = path, .read = path_read_next, .ctx = door };
	v->visit(v->ctx, &s);
	return NULL;
}

static bool path_walk_path(struct path_walk *w, const char *below, int depth)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct door_file *door;
	const struct named n = named_below(w, below);
	const char *path = path_of(&room, w, below);
	struct uh_error *err = door_open(&n, &door);
	bool found = !err || (err->errnum != ENOENT && err->errnum != ELOOP);
	if (err) {
		if (err->errnum == ETIMEDOUT || (!w->crash && (found || !*below)))
			path_tell(w, err);
		else
			uh_error_free(err);
		return found;
	}
	const struct opened *what = door_what(door);
	if (S_ISDIR(what->st.st_mode) && !what->acting)
		walk_directory(w, path, below, depth);
	// Links in a directory are not followed: they may lead round in circles, or out of a bundle. What is neither a file nor a directory
	// was not opened there.
	else if (*below && !S_ISREG(what->st.st_mode) && !S_ISDIR(what->st.st_mode))
		found = false;
	else if (!w->crash || (S_ISREG(what->st.st_mode) && strstr(below, "dmesg")))
		err = read_opened(&n, path, door, w->v);
	if (err)
		path_tell(w, err);
	door_close(door);
	return found;
}

void source_path(const char *path, const struct source_visitor *v)
{
	struct path_walk w = { .top = path, .v = v };
	if (!strcmp(path, "-"))
		source_archive(NULL, STDIN_FILENO, "-", v);
	else
		path_walk_path(&w, "", 0);
}

void source_crash_files(const char *root, const struct source_visitor *v)
{
	// systemd-pstore empties /sys/fs/pstore into /var/lib; kdump writes beside its vmcore. pstore's own files are plain copies of what
	// the crash left; reading them changes nothing.
	static const char *const places[] = { "/var/lib/systemd/pstore", "/sys/fs/pstore", "/var/crash" };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct path_walk w = { .root = root, .top = places[i], .v = v, .crash = true };
		path_walk_path(&w, "", 0);
	}
}

// === What a caller of the library has in memory. ===

static ssize_t read_bytes(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct str *left = s->ctx, part = str_cut(*left, size);
	(void)ret_err;
	if (part.n)
		memcpy(buffer, part.p, part.n);
	*left = str_from(*left, part.n);
	return (ssize_t)part.n;
}

void source_bytes(const char *name, struct str bytes, const struct source_visitor *v)
{
	if (!bytes.n) {
		v->problem(v->ctx, uh_error_new("%s: there is nothing to read", name));
	} else if (str_starts(bytes, S(SOURCE_JOURNAL_MAGIC))) {
		v->problem(v->ctx, uh_error_new("%s: a journal file, which can be read from a disk only", name));
	} else if (source_is_archive(bytes)) {
		source_archive_bytes(bytes, name, v);
	} else {
		struct source s = { .name = name, .size = bytes.n, .read = read_bytes, .ctx = &bytes };
		v->visit(v->ctx, &s);
	}
}

void source_bundle(const char *name, struct bundle *b, const struct source_visitor *v)
{
	if (v->bundle) {
		v->bundle(v->ctx, name, b);
		return;
	}
	for (size_t i = 0; i < b->members.len; i++) {
		const struct bundle_member *m = &b->members.data[i];
		_cleanup_text_ struct text member = { 0 };
		text_printf(&member, "%s:" STR_FMT, name, STR_ARG(m->name));
		if (m->n)
			source_bytes(member.p, (struct str){ m->bytes, m->n }, v);
	}
	bundle_free(b);
}
