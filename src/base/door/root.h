// Files of this machine, or of another whose file system lies below a directory.
#pragma once

/** open() of @path, which begins with a slash, as a process that has @root as its root would see it: links do not lead out of it.
 * @root NULL: this machine. */
int root_open(const char *root, const char *path, int flags);
/** The same below a directory that is open. */
int root_open_at(int root, const char *path, int flags);
/** Below a directory that is open, and without a link on the way; `..` is refused. */
int root_open_beneath(int dir, const char *path, int flags);
/** As root_open(), of a directory that is made where it is missing, and those above it. */
int root_make_directory(const char *root, const char *path);
