// The changes on the disk. Each file is replaced as a whole (base/save.h); the record comes first and goes last.
#include "apply/applied.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/root.h"
#include "base/door/lock.h"
#include "base/save.h"

enum { FILE_MOST = 1 << 20, ENTRIES_MOST = 1000, WORDS_MOST = 8 };

void spot_close(struct spot *s) { cleanup_close(&s->dir); }

/** Where the open file really is, as seen from the root. */
static bool real_path(const char *root, int fd, char room[static PATH_MAX])
{
	char link[64], top[PATH_MAX] = "";
	_cleanup_close_ int dir = root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (root) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
		ssize_t n = dir < 0 ? -1 : readlink(link, top, sizeof(top) - 1);
		if (n < 0)
			return false;
		top[n == 1 ? 0 : n] = '\0';
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, room, PATH_MAX - 1);
	size_t skip = strlen(top);
	if (n <= 0 || (size_t)n <= skip || strncmp(room, top, skip) != 0 || room[skip] != '/')
		return false;
	memmove(room, room + skip, (size_t)n - skip);
	room[(size_t)n - skip] = '\0';
	return true;
}

static struct uh_error *spot_check(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return uh_error_new("%s: not a file", path);
	if (st->st_nlink > 1)
		return uh_error_new("%s: it has %lu names (hard links), which would come apart", path,
				    (unsigned long)st->st_nlink);
	return NULL;
}

struct uh_error *spot_open(const char *root, struct str path, struct arena *a, struct spot *ret)
{
	char real[PATH_MAX];
	const char *name = arena_z(a, path);
	struct stat st, again;
	*ret = (struct spot){ .dir = -1 };
	_cleanup_close_ int fd = root_open(root, name, O_PATH);
	if (fd < 0 || fstat(fd, &st))
		return uh_error_os(errno, "%s", name);
	struct uh_error *err = spot_check(name, &st);
	if (err)
		return err;
	if (!real_path(root, fd, real))
		return uh_error_new("%s: it cannot be told where this link leads", name);
	char *slash = strrchr(real, '/');
	ret->name = arena_z(a, str_z(slash + 1));
	err = root_read(root, real, FILE_MOST, a, &ret->content, NULL);
	*slash = '\0';
	ret->dir = root_open(root, *real ? real : "/", O_RDONLY | O_DIRECTORY);
	if (!err && (ret->dir < 0 || fstatat(ret->dir, ret->name, &again, AT_SYMLINK_NOFOLLOW)))
		err = uh_error_os(errno, "%s", name);
	if (!err && (again.st_ino != st.st_ino || again.st_dev != st.st_dev))
		err = uh_error_new("%s: something else is changing it right now", name);
	if (err)
		spot_close(ret);
	return err;
}

static struct str parent_of(struct arena *a, struct str path)
{
	size_t n = path.n;
	while (n > 1 && path.p[n - 1] != '/')
		n--;
	return arena_str(a, (struct str){ path.p, n > 1 ? n - 1 : 1 });
}

static const char *write_name_of(struct arena *a, struct str path)
{
	return arena_z(a, str_from(path, parent_of(a, path).n + 1));
}

/** The directory of a file, or -1. */
static int write_directory_of(const char *root, struct arena *a, struct str path)
{
	return root_open(root, arena_z(a, parent_of(a, path)), O_RDONLY | O_DIRECTORY);
}

static struct uh_error *lock_records(const char *root, int *ret, struct lock *ret_lock)
{
	*ret = root_make_directory(root, APPLIED_DIRECTORY);
	const enum lock_end end = *ret < 0 ? LOCK_NONE : lock_take(*ret, ret_lock);
	return end == LOCK_TAKEN ? NULL :
	       end == LOCK_HELD  ? uh_error_new("another unhang is changing this machine") :
				   uh_error_os(errno, APPLIED_DIRECTORY);
}

static struct uh_error *save_record(int dir, struct applied *a, enum applied_state state)
{
	_cleanup_text_ struct text t = { 0 };
	char name[96];
	snprintf(name, sizeof(name), STR_FMT ".record", STR_ARG(a->id));
	a->state = state;
	applied_write(a, &t);
	_cleanup_error_ struct uh_error *err = save_file(dir, name, text_str(&t), 0644);
	return err ? uh_error_new(APPLIED_DIRECTORY "/%s", err->message) : NULL;
}

static bool gone(const struct uh_error *err) { return err && (err->errnum == ENOENT || err->errnum == ENOTDIR); }

struct uh_error *own_preview(const char *root, const struct applied *a, const struct own_file *f, bool undo, struct arena *room,
			     struct own_preview *ret)
{
	_cleanup_(spot_close) struct spot s = { .dir = -1 };
	_cleanup_error_ struct uh_error *err = spot_open(root, f->path, room, &s);
	*ret = (struct own_preview){ .there_before = !err };
	if (err && !(gone(err) && (undo || own_whole(f->kind))))
		return take_ptr(err);
	ret->before = ret->after = s.content;
	ret->there_after = ret->there_before;
	enum own_found found = own_strip(room, a, f, ret->before, &ret->after);
	if (undo && found != OWN_ABSENT)
		ret->there_after = !own_whole(f->kind) || str_trim(ret->after).n;
	if (!undo)
		ret->there_after = own_insert(room, a, f, ret->after, &ret->after);
	return NULL;
}

struct uh_error *own_whole_free(const char *root, const struct applied *a, struct str path, struct arena *room)
{
	struct str content;
	_cleanup_error_ struct uh_error *err = root_read(root, arena_z(room, path), 1 << 16, room, &content, NULL);
	if (err)
		return err->errnum == ENOENT ? NULL : take_ptr(err);
	if (!str_starts(content, arena_printf(room, "# unhang " STR_FMT ": ", STR_ARG(a->id))))
		return uh_error_new(STR_FMT ": there is a file of this name that unhang did not write", STR_ARG(path));
	return NULL;
}

/** The record may be a stranger's, so it is checked again that the file is ours. */
static struct uh_error *do_whole(const char *root, const struct applied *a, const struct own_file *f, struct arena *room)
{
	struct uh_error *err = own_whole_free(root, a, f->path, room);
	if (err)
		return err;
	_cleanup_close_ int dir = root_make_directory(root, arena_z(room, parent_of(room, f->path)));
	if (dir < 0)
		return uh_error_os(errno, STR_FMT, STR_ARG(f->path));
	const char *name = write_name_of(room, f->path);
	save_left_over(dir, name, true);
	return save_file(dir, name, own_text(room, a, f), 0644);
}

static struct uh_error *do_part(const char *root, const struct applied *a, const struct own_file *f, struct arena *room)
{
	_cleanup_(spot_close) struct spot s = { .dir = -1 };
	struct str base, content;
	struct uh_error *err = spot_open(root, f->path, room, &s);
	if (err)
		return err;
	save_left_over(s.dir, s.name, true);
	own_strip(room, a, f, s.content, &base);
	if (!own_insert(room, a, f, base, &content))
		return uh_error_new(STR_FMT ": it has no line for kernel parameters", STR_ARG(f->path));
	return str_eq(content, s.content) ? NULL : save_over(s.dir, s.name, content);
}

/** The error with its directory, and with what to do about a change that is half done. */
static struct uh_error *cut_short(struct uh_error *of, const struct applied *a, struct str path, const char *then)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_error_ struct uh_error *err = of;
	struct str directory = err->message[0] == '/' ? (struct str){ 0 } : parent_of(&room, path);
	struct command_maker *m = command_begin(&room);
	command_add(m, "unhang doctor ");
	command_add_text(m, str_z(then));
	command_add(m, " ");
	command_add_value(m, PIECE_WORD, a->id);
	return uh_error_new(STR_FMT "%s%s; it was interrupted: " STR_FMT, STR_ARG(directory), directory.n ? "/" : "",
			    err->message, STR_ARG(command_str(command_end(m))));
}

struct uh_error *applied_do(const char *root, struct applied *a)
{
	static const char then[] = "--apply finishes it, --undo undoes it:";
	_cleanup_close_ int records = -1;
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	struct uh_error *err = lock_records(root, &records, &lock);
	char name[96];
	snprintf(name, sizeof(name), STR_FMT ".record", STR_ARG(a->id));
	if (!err)
		save_left_over(records, name, true);
	if (!err)
		err = save_record(records, a, APPLIED_PLANNED);
	for (size_t n = 0; !err && n < a->files.len; n++) {
		const struct own_file *f = &a->files.data[n];
		_cleanup_arena_ struct arena room = { 0 };
		err = own_whole(f->kind) ? do_whole(root, a, f, &room) : do_part(root, a, f, &room);
		if (err)
			return cut_short(err, a, f->path, then);
	}
	if (err)
		return err;
	err = save_record(records, a, APPLIED_DONE);
	return err ? cut_short(err, a, (struct str){ 0 }, then) : NULL;
}

/** Takes our text out of the file, wherever it is now. That the file is gone is no error. */
static struct uh_error *undo_file(const char *root, const struct applied *a, const struct own_file *f, struct arena *room)
{
	_cleanup_(spot_close) struct spot s = { .dir = -1 };
	struct str rest;
	_cleanup_close_ int dir = write_directory_of(root, room, f->path);
	if (dir >= 0)
		save_left_over(dir, write_name_of(room, f->path), true);
	_cleanup_error_ struct uh_error *err = spot_open(root, f->path, room, &s);
	if (err)
		return gone(err) ? NULL : take_ptr(err);
	save_left_over(s.dir, s.name, true);
	if (own_strip(room, a, f, s.content, &rest) == OWN_ABSENT)
		return NULL;
	return own_whole(f->kind) && !str_trim(rest).n ? save_remove(s.dir, s.name) : save_over(s.dir, s.name, rest);
}

static bool has_path(const struct applied *a, struct str path)
{
	for (size_t n = 0; n < a->had.len; n++)
		if (str_eq(a->had.data[n], path))
			return true;
	for (size_t n = 0; n < a->files.len; n++)
		if (str_eq(a->files.data[n].path, path))
			return true;
	return false;
}

/** The words that a change adds to entries: the same for most entries, so each list is kept once. */
struct entry_words {
	struct str list[WORDS_MOST];
	size_t n;
};

/** Whether an entry has our text: because it is one that we wrote (boot counting renames them), or because installing a kernel copied our
 * words. */
static bool entry_like(const char *root, const struct applied *a, const struct entry_words *w, struct str path,
		       struct own_file *ret)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_(spot_close) struct spot s = { .dir = -1 };
	_cleanup_error_ struct uh_error *err = spot_open(root, path, &room, &s);
	struct str rest;
	bool found = false;
	for (size_t n = 0; !err && !found && n < w->n; n++)
		for (enum own_kind k = OWN_ENTRY_LINE; !found && k <= OWN_ENTRY_WORDS; k++) {
			*ret = (struct own_file){ .kind = k, .words = w->list[n] };
			found = own_strip(&room, a, ret, s.content, &rest) == OWN_THERE;
		}
	return found;
}

/** Each once. */
static void entry_words(const struct applied *a, struct entry_words *ret)
{
	for (size_t n = 0; n < a->files.len && ret->n < WORDS_MOST; n++) {
		size_t i = 0;
		while (i < ret->n && !str_eq(ret->list[i], a->files.data[n].words))
			i++;
		if (i == ret->n && own_entry(a->files.data[n].kind))
			ret->list[ret->n++] = a->files.data[n].words;
	}
}

static void find_entries_in(const char *root, struct applied *a, const struct entry_words *w, struct str directory)
{
	int fd = root_open(root, arena_z(&a->arena, directory), O_RDONLY | O_DIRECTORY);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	size_t seen = 0;
	if (!list) {
		cleanup_close(&fd);
		return;
	}
	// What is found goes into the record too, which has a limit.
	for (struct dirent *e = readdir(list); e && seen++ < ENTRIES_MOST && a->files.len < APPLIED_FILES_MOST;
	     e = readdir(list)) {
		struct own_file f;
		struct str path = arena_printf(&a->arena, STR_FMT "/%s", STR_ARG(directory), e->d_name);
		if (!own_file_good(a, OWN_ENTRY_WORDS, path) || has_path(a, path) || !entry_like(root, a, w, path, &f))
			continue;
		f.path = path;
		vec_push(&a->files, f);
	}
	closedir(list);
}

/** A record can name only a few directories (own_file_good()); each is searched once. */
static bool first_in_directory(struct applied *a, size_t i)
{
	struct str directory = parent_of(&a->arena, a->files.data[i].path);
	for (size_t n = 0; n < i; n++) {
		struct str path = a->files.data[n].path;
		if (own_entry(a->files.data[n].kind) && str_starts(path, directory) && path.n > directory.n &&
		    !memchr(path.p + directory.n + 1, '/', path.n - directory.n - 1))
			return false;
	}
	return true;
}

void applied_find_entries(const char *root, struct applied *a)
{
	struct entry_words words = { 0 };
	entry_words(a, &words);
	for (size_t n = 0, have = a->files.len; n < have; n++)
		if (own_entry(a->files.data[n].kind) && first_in_directory(a, n))
			find_entries_in(root, a, &words, parent_of(&a->arena, a->files.data[n].path));
}

static void remove_directory(const char *root, struct str path)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_close_ int dir = write_directory_of(root, &room, path);
	if (dir >= 0 && !unlinkat(dir, write_name_of(&room, path), AT_REMOVEDIR))
		fsync(dir);
}

bool applied_sweep(const char *root, struct str id)
{
	char path[128];
	bool clean = true;
	snprintf(path, sizeof(path), STR_FMT ".record", STR_ARG(id));
	_cleanup_close_ int dir = root_open(root, APPLIED_DIRECTORY, O_RDONLY | O_DIRECTORY);
	if (dir >= 0) {
		save_left_over(dir, path, true);
		clean = !save_left_over(dir, path, false);
		struct lock left = LOCK_FREE; // by who was killed
		if (lock_take(dir, &left) == LOCK_TAKEN)
			lock_release(&left);
	}
	remove_directory(root, S(APPLIED_DIRECTORY));
	remove_directory(root, S("/etc/unhang"));
	return clean;
}

struct uh_error *applied_undo(const char *root, struct applied *a)
{
	_cleanup_close_ int records = -1;
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	struct uh_error *err = lock_records(root, &records, &lock);
	char name[96];
	snprintf(name, sizeof(name), STR_FMT ".record", STR_ARG(a->id));
	applied_find_entries(root, a);
	if (!err)
		err = save_record(records, a, APPLIED_UNDOING);
	for (size_t n = a->files.len; !err && n-- > 0;) {
		_cleanup_arena_ struct arena room = { 0 };
		const struct own_file *f = &a->files.data[n];
		err = undo_file(root, a, f, &room);
		if (err)
			err = cut_short(err, a, f->path, "--undo");
	}
	for (size_t n = a->made.len; !err && n-- > 0;)
		remove_directory(root, a->made.data[n]);
	if (!err)
		err = save_remove(records, name);
	lock_release(&lock);
	if (!err)
		applied_sweep(root, a->id);
	return err;
}
