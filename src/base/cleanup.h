// Scope guards: what a function acquires is released on every way out of it. What was released is marked as gone, so that a guard may also
// be called before the end of its scope.
#pragma once

#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	void **at = p;
	free(*at);
	*at = NULL;
}
static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
