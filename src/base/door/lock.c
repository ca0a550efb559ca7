#include "base/door/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMES = 16 }; // that others may take it away while it is being taken

int lock_open(int dir, const char *name)
{
	for (int i = 0; i < TIMES; i++) {
		struct stat st;
		const int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
			return fd;
		if (fd >= 0)
			close(fd);
		else if (errno != ELOOP && errno != EACCES)
			return -1;
		if (unlinkat(dir, name, 0) && errno != ENOENT)
			return -1;
	}
	errno = EBUSY;
	return -1;
}

/** Whether the file is still the one with that name. */
static bool lock_is_named(int fd, int dir)
{
	struct stat open, named;
	return !fstat(fd, &open) && !fstatat(dir, LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) && open.st_ino == named.st_ino &&
	       open.st_dev == named.st_dev;
}

enum lock_end lock_take(int dir, struct lock *ret)
{
	for (int i = 0; i < TIMES; i++) {
		const int fd = lock_open(dir, LOCK_NAME);
		if (fd < 0)
			return LOCK_NONE;
		if (!flock(fd, LOCK_EX | LOCK_NB) && lock_is_named(fd, dir)) {
			*ret = (struct lock){ dir, fd };
			return LOCK_TAKEN;
		}
		const int why = errno;
		const bool held = lock_is_named(fd, dir);
		close(fd);
		errno = why;
		if (held)
			return why == EWOULDBLOCK ? LOCK_HELD : LOCK_NONE;
	}
	errno = EBUSY;
	return LOCK_NONE;
}

void lock_release(struct lock *l)
{
	if (l->fd < 0)
		return;
	unlinkat(l->dir, LOCK_NAME, 0);
	close(l->fd);
	*l = (struct lock)LOCK_FREE;
}
