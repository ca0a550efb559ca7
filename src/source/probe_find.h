// What is looked for in files that are too large to be handed over whole. For children: each call may take long.
#pragma once

#include <sys/types.h>

#include "base/str.h"

/** Called whenever it goes on. */
typedef void probe_moved_fn(void *ctx);

/** Up to @size bytes from the beginning of the line that is the first to have @what. -1: errno is ENODATA where there is none. */
ssize_t probe_find(int fd, struct str what, char *to, size_t size, probe_moved_fn *moved, void *ctx);
/** The section @name of an ELF file, which may be compressed. */
ssize_t probe_section(int fd, struct str name, char *to, size_t size, probe_moved_fn *moved, void *ctx);

/** The bytes of the section @name in @elf (64 bits, little-endian), which may be damaged; no pointer where there is none. */
struct str section_find(struct str elf, struct str name);
