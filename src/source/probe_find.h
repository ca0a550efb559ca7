// Searches files that are too large to be handed over whole. Called in children, because each call may take long.
#pragma once

#include <sys/types.h>

#include "base/str.h"

/** Called whenever there is progress. */
typedef void probe_moved_fn(void *ctx);

/** Up to @size bytes, from the beginning of the first line with @what on. -1: see errno; ENODATA: there is no such line. */
ssize_t probe_find(int fd, struct str what, char *to, size_t size, probe_moved_fn *moved, void *ctx);
/** The section @name of an ELF file, which may be compressed. */
ssize_t probe_section(int fd, struct str name, char *to, size_t size, probe_moved_fn *moved, void *ctx);

/** The bytes of the section @name in @elf (64 bits, little-endian), which may be damaged; no pointer where there is none. */
struct str section_find(struct str elf, struct str name);
