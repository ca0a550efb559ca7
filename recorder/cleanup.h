// Scope guards. The recorder has nothing of src/, so they are its own: what a function acquires is released on every way out of it, and
// errno stays as it was, because callers say why something failed.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	const int error = errno;
	free(*(void **)p);
	*(void **)p = NULL;
	errno = error;
}
static inline void cleanup_close(int *fd)
{
	const int error = errno;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = error;
}
/** The descriptor, whose guard closes it no more. */
static inline int take_fd(int *fd)
{
	const int taken = *fd;
	*fd = -1;
	return taken;
}

#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
