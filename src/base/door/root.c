#include "base/door/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/root_walk.h"
#include "base/str.h"

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
