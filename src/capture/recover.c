// Captures that were killed: what they saved is packed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/save.h"
#include "capture/steps.h"

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

static void tell_left_over(const struct left_over *l, const char *what, const char *why)
{
	_cleanup_text_ struct text t = { 0 };
	text_printf(&t, "%s: %s%s%s", l->path, what, *why ? ": " : "", why);
	if (l->options->tell)
		l->options->tell(l->options->ctx, t.p);
}

/** As the capture was asked to. Its manifest was not redacted, and is left out. */
static struct uh_error *redact_left_over(struct left_over *l)
{
	char host[SOURCE_HOST_MAX];
	struct manifest m = {
		.id = l->mark.id, .host = str_z(source_host(host)), .state = "interrupted", .user_data = l->mark.user_data
	};
	const struct capture_options o = {
		.file = l->file, .know = l->options->know, .redact = true, .known_only = l->mark.known_only
	};
	struct taking c = {
		.options = &o, .arena = &l->arena, .manifest = &m, .dir = l->dir, .lock = l->lock, .path = l->path
	};
	if (!o.know)
		return uh_error_new("it was to be redacted; unhang capture into the same directory does that");
	vec_push(&m.notes,
		 S("The capture was interrupted. What its manifest said of each item is left out, since it was not redacted."));
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
	_cleanup_text_ struct text text = { 0 };
	_cleanup_close_ int fd = openat(l->dir, BUNDLE_MANIFEST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = 0;
	while (fd >= 0 && text.n < MOST && (n = read(fd, text_room(&text, 4096), 4096)) > 0)
		text.n += (size_t)n;
	ptrdiff_t at = str_find(text_str(&text), running);
	_cleanup_text_ struct text now = { 0 };
	if (at >= 0) {
		text_add(&now, str_cut(text_str(&text), (size_t)at));
		text_add(&now, S("\"state\": \"interrupted\""));
		text_add(&now, str_from(text_str(&text), (size_t)at + running.n));
	} else if (!text.n) {
		text_printf(&now,
			    "{\n  \"schema\": \"" BUNDLE_SCHEMA "\",\n  \"id\": \"" STR_FMT
			    "\",\n  \"state\": \"interrupted\",\n  \"items\": []\n}\n",
			    STR_ARG(l->mark.id));
	}
	return now.n ? save_file(l->dir, BUNDLE_MANIFEST, text_str(&now), partial_mode(false)) : NULL;
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

bool capture_is_packed(const char *partial)
{
	struct stat st;
	_cleanup_close_ int dir = open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && !fstatat(dir, PACKED_MARK, &st, AT_SYMLINK_NOFOLLOW);
}

/** What must be redacted is, before anything else: nothing leaves the directory as it was saved. */
static void pack_left_over(struct left_over *l)
{
	struct stat st;
	const char *file = free_name(l);
	const struct pack p = { .partial = l->path, .file = file, .dir = l->dir, .lock = l->lock, .until = l->until };
	// The kill may have come when the bundle was whole: it gets its name, where it has none yet.
	bool packed = !fstatat(l->dir, PACKED_MARK, &st, AT_SYMLINK_NOFOLLOW);
	_cleanup_error_ struct uh_error *err = NULL, *left = NULL;
	if (packed && !fstatat(l->dir, PACKED_BUNDLE, &st, AT_SYMLINK_NOFOLLOW)) {
		err = pack_name(l->dir, file);
		packed = !err;
	}
	if (!packed) {
		cleanup_error(&err);
		err = l->mark.redact ? redact_left_over(l) : mark_interrupted(l);
		if (!err)
			err = pack_bundle(&p);
	}
	if (err) {
		tell_left_over(l, "a capture that was cut short could not be packed", uh_error_message(err));
		return;
	}
	left = partial_remove(l->path, l->dir);
	if (left && l->options->tell)
		l->options->tell(l->options->ctx, uh_error_message(left));
	if (!packed)
		tell_left_over(l, "a capture that was cut short; what it had saved is in", file);
}

/** Only what nobody holds the lock of. What others have named so is none of ours, whoever owns it. */
static void look_at_partial(const struct capture_options *o, const char *directory, struct str name, int64_t until)
{
	struct left_over l = { .options = o, .dir = -1, .lock = -1, .until = until };
	struct stat st;
	l.path = arena_printf(&l.arena, "%s/" STR_FMT, directory, STR_ARG(name)).p;
	l.file = arena_printf(&l.arena, "%s/" STR_FMT, directory, STR_ARG(str_cut(name, name.n - (sizeof(PARTIAL) - 1)))).p;
	l.dir = open(l.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	l.lock = l.dir < 0 ? -1 : openat(l.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l.lock >= 0 && !fstat(l.dir, &st) && st.st_uid == geteuid() && !flock(l.lock, LOCK_EX | LOCK_NB)) {
		if (partial_is_ours(l.dir, &l.mark))
			pack_left_over(&l);
		else if (partial_unbegun(l.dir)) // a kill before the mark was there, or when it was gone
			uh_error_free(partial_remove(l.path, l.dir));
		else
			tell_left_over(&l, "no capture of this version of unhang made it, so it stays as it is", "");
	}
	cleanup_close(&l.dir);
	cleanup_close(&l.lock);
	arena_free(&l.arena);
}

/** @only: those whose names begin so. */
static void recover_all(const struct capture_options *o, struct str only, int64_t until)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *directory = pack_directory(&a, o->file);
	_cleanup_text_ struct text names = { 0 };
	_cleanup_dir_ DIR *list = opendir(directory);
	for (struct dirent *e; (e = dir_next(list));)
		if (str_ends(str_z(e->d_name), S(BUNDLE_END PARTIAL)) && str_starts(str_z(e->d_name), only))
			text_printf(&names, "%s\n", e->d_name);
	struct str rest = text_str(&names);
	while (rest.n && (!until || now_ms() < until))
		look_at_partial(o, directory, str_split(&rest, '\n'), until);
}

void capture_recover(const struct capture_options *o, int64_t until) { recover_all(o, S(""), until); }

void capture_recover_file(const struct capture_options *o, int64_t until)
{
	_cleanup_arena_ struct arena a = { 0 };
	recover_all(o, arena_printf(&a, STR_FMT PARTIAL, STR_ARG(str_base(str_z(o->file)))), until);
}
