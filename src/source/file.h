// Bytes that are read only where they are asked for: a file or memory. Files are read, not mapped, because a file that is truncated
// under a mapping kills its reader.
#pragma once

#include "base/arena.h"
#include "base/door/door.h"
#include "base/error.h"

struct file {
	struct str name;
	struct door_file *door; // NULL: memory
	const uint8_t *data;    // of memory
	uint64_t size;
};

/** A regular file. Driver files are refused: reading some of them acts on the GPU. */
struct uh_error *file_open(const char *path, struct file *ret);
struct uh_error *file_open_named(const struct named *n, const char *name, struct file *ret);
/** Whether a path that evidence names is a file. */
bool file_answers(const char *path);
void file_close(struct file *f);
struct file file_memory(struct str name, struct str bytes);
/** Reads all @size bytes, or returns false. If the file does not answer, door_tell() says so at the end. */
bool file_read(const struct file *f, uint64_t offset, void *to, size_t size);
