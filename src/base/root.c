#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/root_walk.h"

/** Kernels before 5.6 lack openat2(), old filters of system calls refuse it, and it gives up on `..` where somebody renames a file. */
int root_open_at(int root, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
		return root_walk(root, path, flags);
	return fd;
}

int root_open(const char *root, const char *path, int flags)
{
	if (!root)
		return open(path, flags | O_CLOEXEC);
	_cleanup_close_ int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	return root_open_at(dir, path, flags);
}

struct place {
	const char *root, *path;
};

/** The child. A directory is opened as it would be to be listed. */
static void visit(int pipe, const void *ctx)
{
	const struct place *p = ctx;
	struct stat st;
	(void)pipe;
	_cleanup_close_ int at = root_open(p->root, p->path, O_PATH);
	bool directory = at >= 0 && !fstat(at, &st) && S_ISDIR(st.st_mode);
	_cleanup_close_ int fd = directory ? root_open(p->root, p->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK) : -1;
}

bool root_answers(const char *root, const char *path, int milliseconds)
{
	const struct place p = { root, path };
	struct text nothing = { 0 };
	bool answers = child_run(visit, &p, milliseconds, 0, &nothing);
	text_free(&nothing);
	return answers;
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

struct uh_error *root_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret,
			   struct stat *ret_st)
{
	struct stat st;
	// To open a device may do something already.
	_cleanup_close_ int at = root_open(root, path, O_PATH);
	if (at < 0 || fstat(at, &st))
		return uh_error_os(errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return uh_error_new("%s: not a file", path);
	_cleanup_close_ int fd = root_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return uh_error_os(errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return uh_error_new("%s: not a file", path);
	if ((uint64_t)st.st_size > most)
		return uh_error_new("%s: larger than %zu MB", path, most >> 20);
	if (ret_st)
		*ret_st = st;
	char *bytes = arena_alloc(a, (size_t)st.st_size + 1);
	*ret = (struct str){ bytes, 0 };
	while (ret->n < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + ret->n, (size_t)st.st_size - ret->n);
		if (n < 0 && errno != EINTR)
			return uh_error_os(errno, "%s", path);
		if (n == 0) // it was truncated since
			break;
		ret->n += n > 0 ? (size_t)n : 0;
	}
	return NULL;
}
