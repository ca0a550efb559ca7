// Scope guards: what a function acquires is released on every way out of it.
#pragma once

#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p) { free(*(void **)p); }
static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
