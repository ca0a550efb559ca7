// Files of this machine, or of another whose file system lies below a directory.
#pragma once

#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"

/** open() of @path, which begins with a slash, as a process that has @root as its root would see it: links do not lead out of it.
 * @root NULL: this machine. */
int root_open(const char *root, const char *path, int flags);
/** The same below a directory that is open. */
int root_open_at(int root, const char *path, int flags);
/** Whether it can be told within @milliseconds what @path is, or that it is not there: its file system may be one that is gone. */
bool root_answers(const char *root, const char *path, int milliseconds);
/** As root_open(), of a directory that is made where it is missing, and those above it. */
int root_make_directory(const char *root, const char *path);
/** The whole of a regular file of at most @most bytes, with a NUL behind it. @ret_st may be NULL. */
struct uh_error *root_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret,
			   struct stat *ret_st);
