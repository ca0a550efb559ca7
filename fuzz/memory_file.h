// Bytes as a file, for readers that want one, and libraries that are loaded once: unhang loads them when it needs them and unloads them
// behind itself, which takes longer than what is read.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/** The file of all inputs, with these bytes and read from its front. */
static inline int memory_file(const void *bytes, size_t size)
{
	static int fd = -1;
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, bytes, size, 0) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

static inline void keep_library(const char *name)
{
	static void *library;
	if (!library && !(library = dlopen(name, RTLD_NOW | RTLD_LOCAL)))
		abort();
}
