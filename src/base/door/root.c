// Opens files below a directory that stands for `/`.
#include "base/door/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

// --- kernels without openat2() ---
//
// A path is followed by hand, one component at a time. Links are resolved here and not by the kernel, because those of a tree must not lead
// out of it.

enum { LINKS_MOST = 40 }; // as many as the kernel follows

struct root_walk {
	int root, at;
	char done[PATH_MAX]; // the way to @at, without links; empty at the root
	char rest[PATH_MAX]; // what is left of the path
	unsigned links;
};

/** Puts @at in the place of where the walk is. false where it is an error. */
static bool root_walk_move(struct root_walk *w, int at)
{
	if (at < 0)
		return false;
	cleanup_close(&w->at);
	w->at = at;
	return true;
}

/** Goes from the root to @way, which has no links: one that is there now is an error. */
static bool root_walk_go(struct root_walk *w, struct str way)
{
	bool good = root_walk_move(w, openat(w->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (good && way.n) {
		char name[NAME_MAX + 1];
		str_copy(name, sizeof(name), str_split(&way, '/'));
		good = root_walk_move(w, openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	}
	return good;
}

static bool root_walk_go_up(struct root_walk *w)
{
	char *slash = strrchr(w->done, '/');
	*(slash ? slash : w->done) = 0;
	return root_walk_go(w, str_z(w->done));
}

static bool root_walk_go_down(struct root_walk *w, const char *name)
{
	size_t n = strlen(w->done), room = sizeof(w->done) - n;
	if (snprintf(w->done + n, room, "%s%s", n ? "/" : "", name) >= (int)room)
		return errno = ENAMETOOLONG, false;
	return root_walk_move(w, openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/** Puts where @link points before what is left of the path. */
static bool root_walk_follow(struct root_walk *w, int link)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target));
	size_t left = strlen(w->rest) + 1;
	if (n <= 0)
		return errno = n ? errno : ENOENT, false;
	if (++w->links > LINKS_MOST)
		return errno = ELOOP, false;
	if ((size_t)n + left > sizeof(w->rest))
		return errno = ENAMETOOLONG, false;
	memmove(w->rest + n, w->rest, left);
	memcpy(w->rest, target, (size_t)n);
	if (target[0] != '/')
		return true;
	w->done[0] = 0;
	return root_walk_go(w, S(""));
}

/** Takes the next component off the path; empty at its end. */
static bool next_name(struct root_walk *w, char ret[static NAME_MAX + 1])
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(from, "/");
	if (n > NAME_MAX)
		return errno = ENAMETOOLONG, false;
	str_copy(ret, NAME_MAX + 1, (struct str){ from, n });
	memmove(w->rest, from + n, strlen(from + n) + 1);
	return true;
}

static int root_walk_walk(struct root_walk *w, int flags)
{
	char name[NAME_MAX + 1];
	while (next_name(w, name)) {
		bool last = !w->rest[0], up = !strcmp(name, "..");
		if (!name[0])
			return openat(w->at, ".", flags | O_CLOEXEC);
		if (!strcmp(name, ".") || (up && root_walk_go_up(w)))
			continue;
		struct stat st;
		_cleanup_close_ int at = up ? -1 : openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (at < 0 || fstat(at, &st))
			return -1;
		bool link = S_ISLNK(st.st_mode) && !(last && flags & O_NOFOLLOW);
		if (!link && last)
			return openat(w->at, name, flags | O_NOFOLLOW | O_CLOEXEC);
		if (!(link ? root_walk_follow(w, at) : root_walk_go_down(w, name)))
			return -1;
	}
	return -1;
}

int root_walk(int root, const char *path, int flags)
{
	struct root_walk w = { .root = root, .at = -1 };
	if (strlen(path) >= sizeof(w.rest))
		return errno = ENAMETOOLONG, -1;
	str_copy(w.rest, sizeof(w.rest), str_z(path));
	int ret = root_walk_go(&w, S("")) ? root_walk_walk(&w, flags) : -1;
	cleanup_close(&w.at);
	return ret;
}

// --- with it ---

/** Kernels before 5.6 lack openat2(), old filters of system calls refuse it, and it gives up on `..` where somebody renames a file. */
static bool no_openat2(int error) { return error == ENOSYS || error == EPERM || error == EAGAIN; }

int root_open_at(int root, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	return fd < 0 && no_openat2(errno) ? root_walk(root, path, flags) : fd;
}

/** Without openat2: no link is followed on the way. */
static int walk_beneath(int dir, const char *path, int flags)
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

static int open_beneath(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
				.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	return fd < 0 && no_openat2(errno) ? walk_beneath(dir, path, flags) : fd;
}

int root_open_beneath(int dir, const char *path, int flags) { return open_beneath(dir, path, flags, 0); }

int root_open_on_mount(int dir, const char *path, int flags) { return open_beneath(dir, path, flags, RESOLVE_NO_XDEV); }

int root_open(const char *root, const char *path, int flags)
{
	if (!root)
		return open(path, flags | O_CLOEXEC);
	_cleanup_close_ int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	return root_open_at(dir, path, flags);
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
