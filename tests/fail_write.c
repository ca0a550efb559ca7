// Loaded before the C library: calls that need space on a disk fail as on a full one. FAIL_AT is the number of the first that fails; all
// behind it fail too, or with FAIL_ONCE none. Each process counts writes for itself, from where its parent was. With FAIL_COUNT, a file
// that is there, all calls of all processes are counted, in it: of one kind that FAIL_ONLY names, or of all. With FAIL_SLOW they do not fail,
// but take so many seconds.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic long own_count, *count = &own_count;

__attribute__((constructor)) static void begin(void)
{
	const char *file = getenv("FAIL_COUNT");
	int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
	void *room = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (room != MAP_FAILED)
		count = room;
	if (fd >= 0)
		close(fd);
}

static int fails(const char *name)
{
	const char *at = getenv("FAIL_AT"), *only = getenv("FAIL_ONLY");
	if (!at || (only && strcmp(only, name) != 0) || (count == &own_count && strcmp(name, "write") != 0))
		return 0;
	long n = ++*count;
	int now = getenv("FAIL_ONCE") ? n == atol(at) : n >= atol(at);
	if (now && getenv("FAIL_SLOW")) {
		sleep((unsigned)atoi(getenv("FAIL_SLOW")));
		return 0;
	}
	errno = ENOSPC;
	return now;
}

/** Files and directories, not pipes and sockets. */
static int on_disk(int fd)
{
	struct stat st;
	return !fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

#define REAL(type, name, ...)                                                                                                  \
	static type (*real)(__VA_ARGS__);                                                                                      \
	if (!real) {                                                                                                           \
		void *symbol = dlsym(RTLD_NEXT, name);                                                                         \
		memcpy(&real, &symbol, sizeof(real));                                                                          \
	}

ssize_t write(int fd, const void *bytes, size_t size)
{
	REAL(ssize_t, "write", int, const void *, size_t)
	return on_disk(fd) && fails("write") ? -1 : real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)
	return on_disk(fd) && fails("pwrite") ? -1 : real(fd, bytes, size, at);
}

int fsync(int fd)
{
	REAL(int, "fsync", int)
	return fails("fsync") ? -1 : real(fd);
}

int fdatasync(int fd)
{
	REAL(int, "fdatasync", int)
	return fails("fdatasync") ? -1 : real(fd);
}

int ftruncate(int fd, off_t size)
{
	REAL(int, "ftruncate", int, off_t)
	return fails("ftruncate") ? -1 : real(fd, size);
}

int rename(const char *from, const char *to)
{
	REAL(int, "rename", const char *, const char *)
	return fails("rename") ? -1 : real(from, to);
}

int renameat(int at, const char *from, int other, const char *to)
{
	REAL(int, "renameat", int, const char *, int, const char *)
	return fails("rename") ? -1 : real(at, from, other, to);
}

int renameat2(int at, const char *from, int other, const char *to, unsigned flags)
{
	REAL(int, "renameat2", int, const char *, int, const char *, unsigned)
	return fails("rename") ? -1 : real(at, from, other, to, flags);
}

int link(const char *from, const char *to)
{
	REAL(int, "link", const char *, const char *)
	return fails("link") ? -1 : real(from, to);
}

int linkat(int at, const char *from, int other, const char *to, int flags)
{
	REAL(int, "linkat", int, const char *, int, const char *, int)
	return fails("link") ? -1 : real(at, from, other, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
	REAL(int, "mkdir", const char *, mode_t)
	return fails("mkdir") ? -1 : real(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
	REAL(int, "mkdirat", int, const char *, mode_t)
	return fails("mkdir") ? -1 : real(at, path, mode);
}
