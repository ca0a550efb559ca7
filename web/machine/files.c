// Descriptors, as libraries use them: those of the page's files, and no others.
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/save.h"
#include "machine/page.h"

ssize_t read(int fd, void *to, size_t size)
{
	int n = page_read(fd, -1, to, size);
	if (n < 0)
		errno = EIO;
	return n;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	page_write(fd, bytes, n);
	return (ssize_t)n;
}

bool write_all(int fd, struct str bytes) { return write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n; }

int close(int fd)
{
	page_close(fd);
	return 0;
}

/** libarchive looks whether it can skip; it reads instead. */
int fstat(int fd, struct stat *ret)
{
	(void)fd;
	*ret = (struct stat){ .st_mode = S_IFIFO };
	return 0;
}
