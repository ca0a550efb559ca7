#include "base/door/named.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/door/caller.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "base/door/trust.h"

static int open_named(const struct named *n, int flags)
{
	if (!n->below)
		return root_open(n->root, n->path, flags);
	_cleanup_close_ int dir = root_open(n->root, n->path, O_PATH | O_DIRECTORY);
	if (dir < 0)
		return -1;
	return n->inside ? root_open_at(dir, n->below, flags) : root_open_beneath(dir, n->below, flags);
}

static bool find_acting(int fd, const char **ret)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} kinds[] = { { DEBUGFS_MAGIC, "debugfs" },
		      { SYSFS_MAGIC, "sysfs" },
		      { TRACEFS_MAGIC, "tracefs" },
		      { PROC_SUPER_MAGIC, "proc" } };
	struct statfs fs;
	if (fstatfs(fd, &fs))
		return false;
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((unsigned long)fs.f_type == kinds[i].magic)
			*ret = kinds[i].name;
	return true;
}

/** The object of @at, to be read. Without /proc it is opened by its name once more; if it is another by then, it is not read. */
static int open_again(const struct named *n, int at, const struct stat *st)
{
	enum { FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
	char link[32];
	struct stat now;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
	int fd = open(link, FLAGS);
	if (fd < 0 && errno == ENOENT)
		fd = open_named(n, FLAGS);
	if (fd >= 0 && !fstat(fd, &now) && now.st_dev == st->st_dev && now.st_ino == st->st_ino &&
	    (now.st_mode & S_IFMT) == (st->st_mode & S_IFMT))
		return fd;
	if (fd >= 0) {
		close(fd);
		errno = ESTALE;
	}
	return -1;
}

/** false: errno says why. */
static bool open_judged(const struct named *n, bool look, struct opened *ret)
{
	_cleanup_close_ int at = open_named(n, O_PATH);
	if (at < 0 || fstat(at, &ret->st) || !find_acting(at, &ret->acting))
		return false;
	mode_t mode = ret->st.st_mode;
	bool wanted = S_ISREG(mode) || S_ISDIR(mode) || (S_ISFIFO(mode) && !n->below);
	if (look || ret->acting || !wanted)
		return true;
	ret->fd = open_again(n, at, &ret->st);
	return ret->fd >= 0;
}

static struct uh_error *open_believed(const struct named *n, bool look, struct opened *ret)
{
	_cleanup_close_ int fd = -1;
	struct uh_error *err = trust_open(n->root, n->path, O_RDONLY, &fd);
	if (!err && (fstat(fd, &ret->st) || !find_acting(fd, &ret->acting)))
		err = uh_error_os(errno, "%s", n->path);
	if (err || look || ret->acting)
		return err;
	ret->fd = fd;
	fd = -1;
	return NULL;
}

struct uh_error *named_open(const struct named *n, bool look, struct opened *ret)
{
	struct caller before = { 0 };
	*ret = (struct opened){ .fd = -1 };
	if (n->believed)
		return open_believed(n, look, ret);
	bool allowed = !n->as_caller || caller_begin(&before);
	int error = !allowed ? EACCES : open_judged(n, look, ret) ? 0 : errno;
	caller_end(&before);
	return error ? uh_error_os(error, "%s", n->path) : NULL;
}
