// The directory of a capture: what is in it is whole. It is private to who captures until it is a bundle, and it is known as ours by a mark in
// it, because whoever may write the directory above can give any directory such a name.
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/save.h"
#include "capture/steps.h"

enum { DEPTH_MOST = 4 };

/** Nobody else may read it before it is a bundle: who packs it has the items open. */
mode_t partial_mode(bool directory) { return directory ? 0700 : 0600; }

// --- items ---

bool item_create(const struct taking *c, const char *name, struct item_file *ret)
{
	*ret = (struct item_file){ .fd = -1, .budget = c->budget };
	str_copy(ret->name, sizeof(ret->name), str_z(name));
	snprintf(ret->new_name, sizeof(ret->new_name), "%s.new", ret->name);
	if (!make_above(c->dir, name, partial_mode(true)))
		return false;
	ret->fd = openat(c->dir, ret->new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, partial_mode(false));
	return ret->fd >= 0;
}

bool item_write(struct item_file *f, struct str bytes)
{
	if (!tape_budget_take(f->budget, bytes.n)) {
		errno = EFBIG;
		return false;
	}
	f->bytes += bytes.n;
	return write_all(f->fd, bytes);
}

bool item_skip(struct item_file *f, uint64_t n)
{
	const off_t to = lseek(f->fd, (off_t)n, SEEK_CUR);
	return to >= 0 && !ftruncate(f->fd, to);
}

bool item_close(struct item_file *f)
{
	bool good = !fsync(f->fd);
	int why = errno;
	cleanup_close(&f->fd);
	errno = why;
	return good;
}

bool item_name(const struct taking *c, const char *name)
{
	char new_name[sizeof(((struct item_file *)0)->new_name)];
	snprintf(new_name, sizeof(new_name), "%s.new", name);
	return !renameat(c->dir, new_name, c->dir, name) && !fsync(c->dir);
}

/** The name comes last: before it nobody takes the file for an item. */
bool item_finish(const struct taking *c, struct item_file *f)
{
	bool good = item_close(f) && item_name(c, f->name);
	int why = errno;
	if (!good)
		unlinkat(c->dir, f->new_name, 0);
	errno = why;
	return good;
}

void item_drop(const struct taking *c, struct item_file *f)
{
	int why = errno;
	if (f->fd >= 0) {
		cleanup_close(&f->fd);
		unlinkat(c->dir, f->new_name, 0);
		c->budget->used -= f->bytes;
	}
	errno = why;
}

// --- whose it is ---

// Whoever may write the directory above can give any directory of ours such a name. So one is ours by what is in it: a line that only its
// owner can have written, with the number of the directory itself.
#define PARTIAL_MARK ".unhang-capture"

/** With what was asked for: whoever packs it must do the same to it. The disk, which may not answer, is not waited for: partial_save_manifest() does. */
static struct uh_error *put_partial_mark(const struct taking *c, int dir, ino_t number)
{
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "capture " STR_FMT " in %llu keeps %s%s%s\n", STR_ARG(c->manifest->id), (unsigned long long)number,
		    c->manifest->user_data, c->options->redact ? " redact" : "", c->options->known_only ? " known-only" : "");
	return save_soon(dir, PARTIAL_MARK, text_str(&line), partial_mode(false));
}

/** A directory that nobody else can write. */
static bool is_private_directory(int dir, struct stat *ret)
{
	return !fstat(dir, ret) && S_ISDIR(ret->st_mode) && ret->st_uid == geteuid() && !(ret->st_mode & 077);
}

bool partial_is_ours(int dir, struct partial_mark *ret)
{
	struct stat st, own;
	int64_t number = 0;
	*ret = (struct partial_mark){ 0 };
	_cleanup_close_ int fd = openat(dir, PARTIAL_MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, ret->room, sizeof(ret->room));
	struct str line = { ret->room, n > 0 ? (size_t)n : 0 };
	if (!is_private_directory(dir, &st) || fd < 0 || fstat(fd, &own) || !S_ISREG(own.st_mode) || own.st_uid != st.st_uid)
		return false;
	line = str_trim(line);
	const bool begins = str_is(str_word(&line), "capture");
	ret->id = str_word(&line);
	const bool here = str_is(str_word(&line), "in") && str_number(str_word(&line), &number);
	for (struct str word; (word = str_word(&line)).n;) {
		for (size_t i = 0; user_data_names[i]; i++)
			ret->user_data = str_is(word, user_data_names[i]) ? user_data_names[i] : ret->user_data;
		ret->redact |= str_is(word, "redact");
		ret->known_only |= str_is(word, "known-only");
	}
	return begins && here && ret->user_data && (uint64_t)number == (uint64_t)st.st_ino;
}

// --- what is in it ---

DIR *dir_list(int dir)
{
	_cleanup_close_ int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = again < 0 ? NULL : fdopendir(again);
	if (list)
		take_fd(&again);
	return list;
}

struct dirent *dir_next(DIR *list)
{
	struct dirent *e = list ? readdir(list) : NULL;
	while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")))
		e = readdir(list);
	return e;
}

/** A directory in it; -1 also where another file system is mounted. */
static int open_below(int dir, const char *name)
{
	const struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV };
	struct stat above, st;
	_cleanup_close_ int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return take_fd(&fd);
	fd = openat(dir, name, (int)how.flags); // a kernel or a filter that has no openat2()
	if (fd >= 0 && (fstat(dir, &above) || fstat(fd, &st) || above.st_dev != st.st_dev)) {
		errno = EXDEV;
		return -1;
	}
	return take_fd(&fd);
}

/** What is not an item yet, or stays here. */
static bool is_no_item(struct str name)
{
	return name.p[0] == '.' || str_ends(name, S(".new")) || str_ends(name, S(".unhang-new")) || str_is(name, PACKED_MARK);
}

/** Links are passed over, and so is what is mounted there: both may lead to files of others. */
static bool items_below(int dir, struct str above, int depth, struct arena *a, struct partial_names *ret)
{
	_cleanup_dir_ DIR *list = dir_list(dir);
	bool good = list;
	for (struct dirent *e; good && (e = dir_next(list));) {
		const struct str name = arena_printf(a, STR_FMT "%s", STR_ARG(above), e->d_name);
		struct stat st;
		if (is_no_item(str_z(e->d_name)) || fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && st.st_size && !bundle_name_wrong(name))
			vec_push(&ret->list, name);
		if (!S_ISDIR(st.st_mode) || depth >= DEPTH_MOST)
			continue;
		_cleanup_close_ int below = open_below(dir, e->d_name);
		good = below >= 0 ? items_below(below, arena_printf(a, STR_FMT "/", STR_ARG(name)), depth + 1, a, ret) :
				    errno == EXDEV;
	}
	return good;
}

bool partial_items(int dir, struct arena *a, struct partial_names *ret) { return items_below(dir, S(""), 0, a, ret); }

void partial_allow_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/** Whether nothing was saved below @dir. */
static bool empty_below(int dir, int depth)
{
	_cleanup_dir_ DIR *list = dir_list(dir);
	bool empty = list;
	for (struct dirent *e; empty && (e = dir_next(list));) {
		struct stat st;
		if (is_no_item(str_z(e->d_name)) || !strcmp(e->d_name, BUNDLE_MANIFEST) ||
		    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		_cleanup_close_ int below = S_ISDIR(st.st_mode) && depth < DEPTH_MOST ? open_below(dir, e->d_name) : -1;
		empty = S_ISDIR(st.st_mode) ? below >= 0 && empty_below(below, depth + 1) : !st.st_size;
	}
	return empty;
}

bool partial_empty(int dir) { return empty_below(dir, 0); }

// --- the directory ---

bool partial_unbegun(int dir)
{
	_cleanup_dir_ DIR *list = dir_list(dir);
	bool nothing = list;
	for (struct dirent *e; nothing && (e = dir_next(list));)
		nothing = str_starts(str_z(e->d_name), S("." PARTIAL_MARK));
	return nothing;
}

/** An empty one of ours may be what a kill left before there was a mark. Another one may have taken its place since it was made. */
struct uh_error *partial_create(const struct capture_options *o, struct taking *c)
{
	struct stat st;
	if (!lstat(o->file, &st))
		return uh_error_os(EEXIST, "%s", o->file);
	c->path = arena_printf(c->arena, "%s.partial", o->file).p;
	const bool made = !mkdir(c->path, partial_mode(true));
	if (!made && errno != EEXIST)
		return uh_error_os(errno, "%s", c->path);
	_cleanup_close_ int dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_close_ int lock = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct uh_error *err = NULL;
	if (lock < 0) {
		err = uh_error_os(errno, "%s", c->path);
	} else if (!is_private_directory(dir, &st) || flock(lock, LOCK_EX | LOCK_NB) || !partial_unbegun(dir)) {
		err = uh_error_os(EEXIST, "%s", c->path);
	} else {
		save_left_over(dir, PARTIAL_MARK, true);
		_cleanup_error_ struct uh_error *unmarked = put_partial_mark(c, dir, st.st_ino);
		err = unmarked ? uh_error_os(unmarked->errnum, "%s", o->file) : NULL;
	}
	if (err && made)
		rmdir(c->path);
	if (!err) {
		c->dir = take_fd(&dir);
		c->lock = take_fd(&lock);
	}
	return err;
}

struct uh_error *partial_save_manifest(const struct taking *c)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_os(errno, "%s", BUNDLE_MANIFEST);
	report_manifest(c->manifest, out);
	fclose(out);
	struct uh_error *err = save_file(c->dir, BUNDLE_MANIFEST, (struct str){ text, n }, partial_mode(false));
	_cleanup_close_ int mark = openat(c->dir, PARTIAL_MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (mark >= 0) // put_partial_mark() did not wait for the disk
		fsync(mark);
	return err;
}

/** What unhang writes: plain files. Its hidden ones have its end. */
static bool may_go(const struct stat *st, struct str name)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	       (name.p[0] != '.' || str_ends(name, S(".unhang-new")) || str_is(name, PACKED_BUNDLE));
}

/** Only what unhang can have written: somebody may have put files of his own there, or mounted something. */
static void remove_saved(int dir, int depth)
{
	_cleanup_dir_ DIR *list = dir_list(dir);
	for (struct dirent *e; (e = dir_next(list));) {
		struct stat st;
		if ((!depth && !strcmp(e->d_name, PACKED_MARK)) || fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (may_go(&st, str_z(e->d_name)))
			unlinkat(dir, e->d_name, 0);
		_cleanup_close_ int below = S_ISDIR(st.st_mode) && depth < DEPTH_MOST ? open_below(dir, e->d_name) : -1;
		if (below < 0)
			continue;
		remove_saved(below, depth + 1);
		unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
}

/** The marks go last: what is left of a kill in the middle is known as ours, and as packed. */
struct uh_error *partial_remove(const char *path, int dir)
{
	static const char *const marks[] = { PACKED_MARK, PARTIAL_MARK };
	struct stat st, named;
	remove_saved(dir, 0);
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		unlinkat(dir, marks[i], 0);
	if (fstat(dir, &st) || lstat(path, &named) || st.st_ino != named.st_ino || st.st_dev != named.st_dev)
		return uh_error_new("%s: its directory was moved, and is left behind empty", path);
	if (!rmdir(path))
		return NULL;
	return errno == ENOTEMPTY ? uh_error_new("%s: it stays, since something in it was not saved by unhang", path) :
				    uh_error_os(errno, "%s: it could not be removed", path);
}
