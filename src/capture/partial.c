// The directory of a capture: what is in it is whole.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/save.h"
#include "capture/parts.h"

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
	f->fd = -1;
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
	cleanup_close(&f->fd);
	f->fd = -1;
	unlinkat(c->dir, f->new_name, 0);
	c->budget->used -= f->bytes;
}

// --- the directory ---

struct uh_error *partial_create(const struct capture_options *o, struct taking *c)
{
	struct stat st;
	if (!lstat(o->file, &st))
		return uh_error_os(EEXIST, "%s", o->file);
	c->path = arena_printf(c->arena, "%s.partial", o->file).p;
	if (mkdir(c->path, partial_mode(true)))
		return uh_error_os(errno, "%s", c->path);
	c->dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	c->lock = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (c->dir < 0 || c->lock < 0 || flock(c->lock, LOCK_EX | LOCK_NB)) {
		struct uh_error *err = uh_error_os(errno, "%s", c->path);
		rmdir(c->path);
		return err;
	}
	return NULL;
}

struct uh_error *partial_save_manifest(const struct taking *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_os(errno, "%s", BUNDLE_MANIFEST);
	report_manifest(c->manifest, out);
	fclose(out);
	struct uh_error *err = save_file(c->dir, BUNDLE_MANIFEST, (struct str){ text, n }, partial_mode(false));
	free(text);
	return err;
}

static void remove_below(int dir, int depth)
{
	enum { DEPTH_MOST = 4 };
	int again = dup(dir);
	DIR *list = again < 0 ? NULL : fdopendir(again);
	if (!list)
		return;
	rewinddir(list);
	for (struct dirent *e = readdir(list); e; e = readdir(list)) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (!unlinkat(dir, e->d_name, 0) || depth == DEPTH_MOST)
			continue;
		_cleanup_close_ int below = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			remove_below(below, depth + 1);
		unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	closedir(list);
}

static bool empty_below(int dir, int depth)
{
	enum { DEPTH_MOST = 4 };
	bool empty = true;
	DIR *list = dir < 0 ? NULL : fdopendir(dir);
	for (struct dirent *e = list ? readdir(list) : NULL; e && empty; e = readdir(list)) {
		struct stat st;
		if (e->d_name[0] == '.' || str_ends(str_z(e->d_name), S(".new")) || !strcmp(e->d_name, BUNDLE_MANIFEST) ||
		    fstatat(dirfd(list), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		const int below = S_ISDIR(st.st_mode) && depth < DEPTH_MOST ?
					  openat(dirfd(list), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) :
					  -1;
		empty = S_ISDIR(st.st_mode) ? below >= 0 && empty_below(below, depth + 1) : !st.st_size;
	}
	if (list)
		closedir(list);
	return list && empty;
}

bool partial_empty(int dir) { return empty_below(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0); }

/** Under a name of its own: what is left of a kill in the middle must not be taken for a capture. */
void partial_remove(const char *path, int dir)
{
	struct arena a = { 0 };
	const char *done = str_ends(str_z(path), S(PARTIAL_DONE)) ? path : arena_printf(&a, "%s" PARTIAL_DONE, path).p;
	if (done == path || !rename(path, done)) {
		remove_below(dir, 0);
		rmdir(done);
	}
	arena_free(&a);
}
