// Where a recording comes to lie. A name may lead to anything, and what lies there may be the user's only copy: a file is replaced only if
// it is a recording of this user, by its descriptor, and nothing else is ever removed.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/recorder.h"

#define SHARED_MEMORY "/dev/shm"
#define PART "-new" RECORDING_SUFFIX // behind what makes it unique
enum { PATHS_MOST = 2 * PATH_MOST + 64, NAMES_MOST = 1000, ENTRIES_MOST = 4096, NO_REPLACE = 1, EXCHANGE = 2 };

// Before 2.33 glibc had these in no version that later ones have, too. The kernel's structure is the library's where there are GPUs of 64 bits.
int stat_path(const char *path, int how, struct stat *ret) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, how); }

int stat_fd(int fd, struct stat *ret) { return (int)syscall(SYS_newfstatat, fd, "", ret, AT_EMPTY_PATH); }

int own_file(const char *path, const void *magic, size_t n)
{
	char link[40], begins[32];
	struct stat st;
	// Opening a device may already act on it, so the object is looked at first, and that very object opened.
	_cleanup_close_ int seen = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	if (seen >= 0 && !stat_fd(seen, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid()) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", seen);
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	const bool ours = fd >= 0 && pread(fd, begins, n, 0) == (ssize_t)n && !memcmp(begins, magic, n);
	errno = EEXIST;
	return ours ? take_fd(&fd) : -1;
}

bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/** glibc has it since 2.28; containers have older ones. */
static int rename_so(const char *from, const char *to, unsigned how)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, how);
}

/** Some file systems and filters of system calls do not know it. */
static bool is_not_possible(int error) { return error == EINVAL || error == ENOSYS || error == EPERM; }

static bool is_same(const struct stat *a, const struct stat *b) { return a->st_ino == b->st_ino && a->st_dev == b->st_dev; }

static bool is_name_of(const char *path, int fd)
{
	struct stat of_path, of_fd;
	return !stat_path(path, AT_SYMLINK_NOFOLLOW, &of_path) && !stat_fd(fd, &of_fd) && is_same(&of_path, &of_fd);
}

/** It is moved to a name that nobody else uses before it is looked at: what takes its place at any moment stays. */
bool remove_open(const char *path, int fd)
{
	char aside[PATHS_MOST];
	if (snprintf(aside, sizeof(aside), "%s.%d-old", path, (int)getpid()) >= (int)sizeof(aside) || !is_name_of(path, fd))
		return false;
	if (rename_so(path, aside, NO_REPLACE))
		return is_not_possible(errno) && !unlink(path);
	if (is_name_of(aside, fd))
		return !unlink(aside);
	rename_so(aside, path, NO_REPLACE);
	return false;
}

/** The two names change places; if what lay at @path is not @old any more, they change back. */
static bool exchange(const char *part, const char *path, int old)
{
	if (rename_so(part, path, EXCHANGE))
		return false;
	if (remove_open(part, old))
		return true;
	rename_so(part, path, EXCHANGE);
	errno = EEXIST;
	return false;
}

bool put_in_place(const char *part, const char *path, const void *magic, size_t n)
{
	if (!rename_so(part, path, NO_REPLACE))
		return true;
	if (is_not_possible(errno) && !link(part, path))
		return unlink(part), true;
	_cleanup_close_ int old = errno == EEXIST ? own_file(path, magic, n) : -1;
	if (old < 0)
		return false;
	if (is_locked(old))
		return errno = EBUSY, false;
	return exchange(part, path, old);
}

// --- the file ---

/** The lock belongs to the process: it tells readers and vacuum that the process lives, and no child has it. */
static void lock_take(int fd) { fcntl(fd, F_SETLK, &(struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET }); }

/** A program may run without a standard error. If a file of ours got that number, all that the program says would go there. */
static int not_standard(int opened)
{
	_cleanup_close_ int fd = opened;
	return fd < 0 || fd > STDERR_FILENO ? take_fd(&fd) : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/** The magic comes at once, so that what a kill leaves is known for ours; the version, without which nobody reads it, comes last. */
static int begun(const char *path, int opened)
{
	_cleanup_close_ int fd = not_standard(opened);
	if (fd < 0)
		return -1;
	lock_take(fd);
	if (quiet_write(fd, file_kind.magic, MAGIC_SIZE) == MAGIC_SIZE)
		return take_fd(&fd);
	const int error = errno;
	remove_open(path, fd);
	errno = error;
	return -1;
}

/** In place of an older one. -1: EBUSY where a process that lives writes it, or where the file system cannot replace it without a moment in
 * which another file could be lost. */
static int begin_over(const char *path)
{
	char part[PATHS_MOST];
	const char *slash = strrchr(path, '/');
	snprintf(part, sizeof(part), "%.*sXXXXXX" PART, slash ? (int)(slash + 1 - path) : 0, path);
	_cleanup_close_ int fd = begun(part, mkostemps(part, sizeof(PART) - 1, O_CLOEXEC));
	if (fd >= 0 && put_in_place(part, path, file_kind.magic, MAGIC_SIZE))
		return take_fd(&fd);
	const int error = is_not_possible(errno) ? EBUSY : errno;
	if (fd >= 0)
		remove_open(part, fd);
	errno = error;
	return -1;
}

int place_begin(const char *path)
{
	const int fd = begun(path, open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
	return fd < 0 && errno == EEXIST ? begin_over(path) : fd;
}

bool place_is(int fd, const struct stat *file)
{
	struct stat st;
	return !stat_fd(fd, &st) && is_same(&st, file);
}

int place_again(const char *path, const struct stat *file)
{
	struct stat st;
	if (stat_path(path, AT_SYMLINK_NOFOLLOW, &st))
		return -1;
	errno = ENOENT;
	_cleanup_close_ int fd = is_same(&st, file) ? not_standard(open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)) : -1;
	if (fd < 0)
		return -1;
	if (place_is(fd, file)) {
		lock_take(fd);
		return take_fd(&fd);
	}
	errno = ENOENT;
	return -1;
}

/** Processes of several containers may have one name and number. The number stays at the end of the name. */
static int begin_alone(char *path, const char *directory)
{
	char name[PATH_MOST];
	snprintf(name, sizeof(name), "%s", path + strlen(directory) + 1);
	for (int i = 2;; i++) {
		const int fd = place_begin(path);
		if (fd >= 0 || errno != EBUSY || i == NAMES_MOST)
			return fd;
		if (snprintf(path, PATH_MOST, "%s/%d-%s", directory, i, name) >= PATH_MOST)
			return errno = ENAMETOOLONG, -1;
	}
}

int place_open(struct rec_settings *s, const char *directory)
{
	const int fd = begin_alone(s->path, directory);
	if (fd < 0 && errno == EEXIST)
		rec_line("%s is there and is no recording of this user; nothing is recorded", s->path);
	else if (fd < 0)
		rec_line("cannot make %s: %s; nothing is recorded", s->path, strerror(errno));
	if (!s->core_asked && !core_beside(s->path, s->core, sizeof(s->core)))
		s->core[0] = 0;
	return fd;
}

// --- the directory ---

/** Of this user, and nobody else can put anything there. */
static bool is_private(const char *directory)
{
	struct stat st;
	return !stat_path(directory, AT_SYMLINK_NOFOLLOW, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/** A name that nobody can have taken before: random, and found again by those who come later. */
static bool directory_apart(char ret[PATH_MOST])
{
	char begins[40];
	const int n = snprintf(begins, sizeof(begins), "unhang-%u.own-", (unsigned)getuid());
	DIR *d = opendir(SHARED_MEMORY);
	bool found = false;
	struct dirent *e;
	for (int i = 0; d && !found && i < ENTRIES_MOST && (e = readdir(d)); i++)
		if (!strncmp(e->d_name, begins, (size_t)n)) {
			snprintf(ret, PATH_MOST, SHARED_MEMORY "/%.64s", e->d_name);
			found = is_private(ret);
		}
	if (d)
		closedir(d);
	if (found)
		return true;
	snprintf(ret, PATH_MOST, SHARED_MEMORY "/%sXXXXXX", begins);
	return mkdtemp(ret);
}

/** Where nobody named a place. */
static bool directory_default(char ret[PATH_MOST])
{
	char wanted[PATH_MOST];
	snprintf(wanted, sizeof(wanted), SHARED_MEMORY "/unhang-%u", (unsigned)getuid());
	snprintf(ret, PATH_MOST, "%s", wanted);
	if ((mkdir(wanted, 0700) && errno != EEXIST) || is_private(wanted))
		return is_private(wanted);
	if (!directory_apart(ret))
		return false;
	rec_line("%s is not a directory of user %u alone; the recording is in %s", wanted, (unsigned)geteuid(), ret);
	return true;
}

/** Who could put a file there in our place is the directory's owner, and root. */
static bool directory_named(const char *directory)
{
	struct stat st;
	if (mkdir(directory, 0700) && errno != EEXIST)
		return false;
	if (stat_path(directory, 0, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return errno = ENOTDIR, false;
	errno = EPERM;
	return st.st_uid == geteuid() || st.st_uid == 0 || !(st.st_mode & S_IWOTH) || st.st_mode & S_ISVTX;
}

bool place_directory(struct rec_settings *s, char ret[PATH_MOST])
{
	char name[PATH_MOST];
	const char *slash = strrchr(s->path, '/');
	if (s->path_named && (!slash || slash == s->path))
		return rec_line("%s=%s is no file in a directory; nothing is recorded", file_kind.variable, s->path), false;
	snprintf(name, sizeof(name), "%s", slash ? slash + 1 : s->path);
	if (s->path_named)
		snprintf(ret, PATH_MOST, "%.*s", (int)(slash - s->path), s->path);
	if (!(s->path_named ? directory_named(ret) : directory_default(ret)))
		return rec_line("no directory %s: %s; nothing is recorded", ret, strerror(errno)), false;
	return snprintf(s->path, sizeof(s->path), "%s/%s", ret, name) < (int)sizeof(s->path);
}
