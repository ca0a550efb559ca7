// Scope guards: what a function acquires is released on every way out of it. What was released is marked as gone, so that a guard may also
// be called before the end of its scope.
#pragma once

#include <stdbool.h>
#include <dirent.h>
#include <stdlib.h>
#include <sys/mman.h>
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

static inline void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
	*d = NULL;
}

/** Memory that was mapped. */
struct map {
	void *p; // NULL: none
	size_t size;
};
static inline void map_free(struct map *m)
{
	if (m->p)
		munmap(m->p, m->size);
	*m = (struct map){ 0 };
}

/** Zeroed memory that a process shares with its children. false: there is none. */
static inline bool map_shared(struct map *m, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*m = p == MAP_FAILED ? (struct map){ 0 } : (struct map){ p, size };
	return m->p;
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_dir_ _cleanup_(cleanup_dir)
#define _cleanup_map_ _cleanup_(map_free)

/** The descriptor, whose guard closes it no more. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}
/** The same of a pointer. */
#define take_ptr(p)                                                                                                            \
	({                                                                                                                     \
		__typeof__(p) _taken = (p);                                                                                    \
		(p) = NULL;                                                                                                    \
		_taken;                                                                                                        \
	})
