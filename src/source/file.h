// Bytes that are read where they are asked for: a file or memory. Files are read, not mapped: one that is
// truncated under a mapping kills its reader.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct file {
	struct str name;
	int fd;              // -1: memory
	const uint8_t *data; // of memory
	uint64_t size;
};

/** A regular file. Driver files are refused: reading some of them acts on the GPU. */
struct uh_error *file_open(const char *path, struct file *ret);
/** Whether a path that evidence names is a file, and its file system answers at all: it may lie on a server that is gone. */
bool file_answers(const char *path);
void file_close(struct file *f);
struct file file_memory(struct str name, struct str bytes);
/** All @size bytes, or false. */
bool file_read(const struct file *f, uint64_t offset, void *to, size_t size);
/** The name of the file system that @path lies in where reading a file there may act on a driver (debugfs) or take messages away from
 * others (/proc/kmsg); NULL elsewhere. */
const char *source_acting_filesystem(const char *path);
