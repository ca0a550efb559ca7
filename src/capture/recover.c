// Captures that were killed: what they saved is packed.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "base/save.h"
#include "capture/parts.h"

#define PARTIAL ".partial"
#define BUNDLE_END ".tar.zst"

/** A partial directory whose capture is gone. */
struct left_over {
	const struct capture_options *options;
	struct arena arena;
	const char *path, *file;
	int dir, lock;
	struct partial_mark mark;
	int64_t until;
};

static void tell(const struct left_over *l, const char *what, const char *why)
{
	struct text t = { 0 };
	text_printf(&t, "%s: %s%s%s", l->path, what, *why ? ": " : "", why);
	if (l->options->tell)
		l->options->tell(l->options->ctx, t.p);
	text_free(&t);
}

/** As the capture was asked to. Its manifest was not redacted, and is left out. */
static struct uh_error *redact(struct left_over *l)
{
	struct utsname host = { 0 };
	uname(&host);
	struct manifest m = { .id = l->mark.id, .host = str_z(host.nodename), .state = "interrupted", .user_data = l->mark.user_data };
	const struct capture_options o = {
		.file = l->file, .know = l->options->know, .redact = true, .known_only = l->mark.known_only
	};
	struct taking c = { .options = &o, .arena = &l->arena, .manifest = &m, .dir = l->dir, .lock = l->lock, .path = l->path };
	if (!o.know)
		return uh_error_new("it was to be redacted; unhang capture into the same directory does that");
	vec_push(&m.notes, S("The capture was interrupted. What its manifest said of each item is left out, since it was not redacted."));
	struct uh_error *err = redact_partial(&c, l->until);
	if (!err)
		err = partial_save_manifest(&c);
	vec_free(&m.notes);
	return err;
}

/** The manifest of a capture that was killed says `running`; there may be none. */
static struct uh_error *mark_interrupted(struct left_over *l)
{
	static const struct str running = { "\"state\": \"running\"", 18 };
	enum { MOST = 16 << 20 };
	struct text text = { 0 };
	_cleanup_close_ int fd = openat(l->dir, BUNDLE_MANIFEST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = 0;
	while (fd >= 0 && text.n < MOST && (n = read(fd, text_room(&text, 4096), 4096)) > 0)
		text.n += (size_t)n;
	ptrdiff_t at = str_find(text_str(&text), running);
	struct text now = { 0 };
	if (at >= 0) {
		text_add(&now, str_cut(text_str(&text), (size_t)at));
		text_add(&now, S("\"state\": \"interrupted\""));
		text_add(&now, str_from(text_str(&text), (size_t)at + running.n));
	} else if (!text.n) {
		text_printf(&now, "{\n  \"schema\": \"" BUNDLE_SCHEMA "\",\n  \"id\": \"" STR_FMT "\",\n  \"state\": \"interrupted\",\n  \"items\": []\n}\n",
			    STR_ARG(l->mark.id));
	}
	struct uh_error *err = now.n ? save_file(l->dir, BUNDLE_MANIFEST, text_str(&now), partial_mode(false)) : NULL;
	text_free(&text);
	text_free(&now);
	return err;
}

/** FILE, or another name where FILE is taken: by the capture itself, or by an older one. */
static const char *free_name(struct left_over *l)
{
	struct stat st;
	struct str file = str_z(l->file);
	struct str stem = str_ends(file, S(BUNDLE_END)) ? str_cut(file, file.n - (sizeof(BUNDLE_END) - 1)) : file;
	const char *name = l->file;
	for (unsigned i = 1; !lstat(name, &st) && i < 1000; i++)
		name = arena_printf(&l->arena, STR_FMT "-interrupted-%u" BUNDLE_END, STR_ARG(stem), i).p;
	return name;
}

/** Takes away what is packed, and says what of it stays. */
static void clear(const struct left_over *l)
{
	_cleanup_error_ struct uh_error *err = partial_remove(l->path, l->dir);
	if (err && l->options->tell)
		l->options->tell(l->options->ctx, uh_error_message(err));
}

/** The kill came when the bundle was whole: it gets its name, where it has none yet. */
static bool finish_packed(struct left_over *l)
{
	struct stat st;
	if (fstatat(l->dir, PACKED_MARK, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	_cleanup_error_ struct uh_error *err =
		fstatat(l->dir, PACKED_BUNDLE, &st, AT_SYMLINK_NOFOLLOW) ? NULL : pack_name(l->dir, free_name(l));
	if (!err)
		clear(l);
	return !err;
}

static void recover(struct left_over *l)
{
	if (finish_packed(l))
		return;
	const char *file = free_name(l);
	struct pack p = { .partial = l->path, .file = file, .dir = l->dir, .lock = l->lock, .until = l->until };
	struct uh_error *err = l->mark.redact ? redact(l) : mark_interrupted(l);
	if (!err)
		err = pack_bundle(&p);
	if (err) {
		tell(l, "a capture that was cut short could not be packed", uh_error_message(err));
		uh_error_free(err);
		return;
	}
	clear(l);
	tell(l, "a capture that was cut short; what it had saved is in", file);
}

/** Only what nobody holds the lock of. What others have named so is none of ours, whoever owns it. */
static void look_at(const struct capture_options *o, const char *directory, struct str name, int64_t until)
{
	struct left_over l = { .options = o, .dir = -1, .lock = -1, .until = until };
	struct stat st;
	l.path = arena_printf(&l.arena, "%s/" STR_FMT, directory, STR_ARG(name)).p;
	l.file = arena_printf(&l.arena, "%s/" STR_FMT, directory, STR_ARG(str_cut(name, name.n - (sizeof(PARTIAL) - 1)))).p;
	l.dir = open(l.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	l.lock = l.dir < 0 ? -1 : openat(l.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l.lock >= 0 && !fstat(l.dir, &st) && st.st_uid == geteuid() && !flock(l.lock, LOCK_EX | LOCK_NB)) {
		if (partial_is_ours(l.dir, &l.mark))
			recover(&l);
		else if (partial_unbegun(l.dir)) // a kill before the mark was there, or when it was gone
			uh_error_free(partial_remove(l.path, l.dir));
		else
			tell(&l, "no capture of this version of unhang made it, so it stays as it is", "");
	}
	cleanup_close(&l.dir);
	cleanup_close(&l.lock);
	arena_free(&l.arena);
}

/** @only: those whose names begin so. */
static void recover_all(const struct capture_options *o, struct str only, int64_t until)
{
	struct arena a = { 0 };
	const char *directory = pack_directory(&a, o->file);
	struct text names = { 0 };
	DIR *list = opendir(directory);
	for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list))
		if (str_ends(str_z(e->d_name), S(BUNDLE_END PARTIAL)) && str_starts(str_z(e->d_name), only))
			text_printf(&names, "%s\n", e->d_name);
	if (list)
		closedir(list);
	struct str rest = text_str(&names);
	while (rest.n && (!until || now_ms() < until))
		look_at(o, directory, str_split(&rest, '\n'), until);
	text_free(&names);
	arena_free(&a);
}

void capture_recover(const struct capture_options *o, int64_t until) { recover_all(o, S(""), until); }

void capture_recover_file(const struct capture_options *o, int64_t until)
{
	struct arena a = { 0 };
	recover_all(o, arena_printf(&a, STR_FMT PARTIAL, STR_ARG(str_base(str_z(o->file)))), until);
	arena_free(&a);
}

// --- vacuum ---

struct old_bundle {
	struct str name;
	int64_t time;
	uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
	const struct old_bundle *x = a, *y = b;
	return x->time != y->time ? (x->time < y->time ? -1 : 1) : str_cmp(x->name, y->name);
}

static bool too_much(int dir, uint64_t used, uint64_t most, uint64_t floor)
{
	struct statvfs v;
	return used > most || (!fstatvfs(dir, &v) && (uint64_t)v.f_bavail * v.f_frsize < floor);
}

unsigned capture_vacuum(const char *directory, uint64_t most, uint64_t floor, const char *keep)
{
	struct arena a = { 0 };
	VEC(struct old_bundle) all = { 0 };
	uint64_t used = 0;
	unsigned removed = 0;
	DIR *list = opendir(directory);
	for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
		struct stat st;
		if (!str_ends(str_z(e->d_name), S(BUNDLE_END)) || e->d_name[0] == '.' ||
		    fstatat(dirfd(list), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		struct old_bundle one = { arena_str(&a, str_z(e->d_name)), st.st_mtime, (uint64_t)st.st_blocks * 512 };
		vec_push(&all, one);
		used += one.bytes;
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), by_age);
	for (size_t i = 0; i < all.len && too_much(dirfd(list), used, most, floor); i++) {
		if ((keep && str_is(all.data[i].name, keep)) || unlinkat(dirfd(list), arena_z(&a, all.data[i].name), 0))
			continue;
		used -= all.data[i].bytes;
		removed++;
	}
	if (list)
		closedir(list);
	vec_free(&all);
	arena_free(&a);
	return removed;
}
