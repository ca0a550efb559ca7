#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LINKS_MOST = 40 };

// --- below a directory ---

/** Without openat2: no link is followed on the way. */
static int open_plain(int dir, const char *path, int flags)
{
	char step[NAME_MAX + 1];
	int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	for (;;) {
		path += strspn(path, "/");
		size_t n = strcspn(path, "/");
		bool last = !path[n + strspn(path + n, "/")];
		if (n > NAME_MAX || (n == 2 && !memcmp(path, "..", 2))) {
			cleanup_close(&at);
			return errno = n > NAME_MAX ? ENAMETOOLONG : EXDEV, -1;
		}
		str_copy(step, sizeof(step), n ? (struct str){ path, n } : S("."));
		int next = at < 0 ? -1 : openat(at, step, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		int why = errno;
		cleanup_close(&at);
		if (last || next < 0)
			return errno = why, next;
		at = next;
		path += n;
	}
}

/** Puts what a link says in front of @rest. false: errno says why. */
static bool take_link(int link, char *done, char *rest)
{
	char *to = mem_alloc(PATH_MAX);
	ssize_t n = readlinkat(link, "", to, PATH_MAX - 1);
	size_t more = strlen(rest);
	bool fits = n >= 0 && (size_t)n + 1 + more < PATH_MAX;
	if (n >= 0 && !fits)
		errno = ENAMETOOLONG;
	if (fits) {
		if (to[0] == '/')
			*done = 0;
		memmove(rest + n + 1, rest, more + 1);
		memcpy(rest, to, (size_t)n);
		rest[n] = '/';
	}
	free(to);
	return fits;
}

static void drop_last(char *path)
{
	char *slash = strrchr(path, '/');
	*(slash ? slash : path) = 0;
}

/** Without openat2: follows links as a process would whose root @dir is; @done: the way without links, @rest: what is left of the path. */
static int open_following(int dir, char *done, char *rest, int flags)
{
	for (int links = 0; links <= LINKS_MOST;) {
		rest += strspn(rest, "/");
		if (!*rest)
			return open_plain(dir, *done ? done : ".", flags);
		size_t n = strcspn(rest, "/");
		bool last = !rest[n + strspn(rest + n, "/")];
		if (n == 2 && !memcmp(rest, "..", 2)) {
			drop_last(done);
			rest += n;
			continue;
		}
		size_t have = strlen(done);
		if (have + n + 2 > PATH_MAX)
			return errno = ENAMETOOLONG, -1;
		if (n != 1 || *rest != '.')
			snprintf(done + have, PATH_MAX - have, "%s%.*s", have ? "/" : "", (int)n, rest);
		rest += n;
		struct stat st;
		_cleanup_close_ int at = open_plain(dir, *done ? done : ".", O_PATH);
		if (at < 0 || fstat(at, &st))
			return -1;
		if (!S_ISLNK(st.st_mode) || (last && flags & O_NOFOLLOW))
			continue;
		drop_last(done);
		links++;
		if (!take_link(at, done, rest))
			return -1;
	}
	return errno = ELOOP, -1;
}

static int open_by_steps(int dir, const char *path, int flags, unsigned long resolve)
{
	if (!(resolve & RESOLVE_IN_ROOT))
		return open_plain(dir, path, flags);
	if (strlen(path) >= PATH_MAX)
		return errno = ENAMETOOLONG, -1;
	// The rest of the path begins anywhere in its room, and grows by links to no more than PATH_MAX.
	_cleanup_free_ char *done = mem_alloc(PATH_MAX), *rest = mem_alloc((LINKS_MOST + 3) * PATH_MAX);
	memcpy(rest, path, strlen(path) + 1);
	return open_following(dir, done, rest, flags);
}

int open_below(int dir, const char *path, int flags, unsigned long resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	// EPERM: a filter of system calls that does not know it.
	return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_by_steps(dir, path, flags, resolve) : fd;
}

int root_open(const char *root, const char *path, int flags)
{
	if (!root)
		return open(path, flags | O_CLOEXEC);
	_cleanup_close_ int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : open_below(dir, path, flags, RESOLVE_IN_ROOT);
}

int root_make_directory(const char *root, const char *path)
{
	int there = root_open(root, path, O_RDONLY | O_DIRECTORY);
	const char *slash = strrchr(path, '/');
	if (there >= 0 || errno != ENOENT || !slash || !slash[1])
		return there;
	char parent[PATH_MAX];
	str_copy(parent, sizeof(parent), slash == path ? S("/") : (struct str){ path, (size_t)(slash - path) });
	_cleanup_close_ int above = root_make_directory(root, parent);
	if (above < 0 || (mkdirat(above, slash + 1, 0755) && errno != EEXIST))
		return -1;
	if (fsync(above) && errno != EINVAL) // what is written into it later would be lost with it
		return -1;
	return root_open(root, path, O_RDONLY | O_DIRECTORY);
}

// --- what is named ---

static int open_named(const struct named *n, int flags)
{
	if (!n->below)
		return root_open(n->root, n->path, flags);
	_cleanup_close_ int dir = root_open(n->root, n->path, O_PATH | O_DIRECTORY);
	return dir < 0 ? -1 : open_below(dir, n->below, flags | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
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
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
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

bool named_open(const struct named *n, bool look, struct opened *ret)
{
	*ret = (struct opened){ .fd = -1 };
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
