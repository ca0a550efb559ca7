// Files of this machine, or of another whose file system lies below a directory.
#pragma once

/** open() of @path as a process with this @root would see it: links do not lead out of it. @path begins with a slash. @root NULL: this
 * machine. -1: see errno. */
int root_open(const char *root, const char *path, int flags);
/** The same below a directory that is open. */
int root_open_at(int root, const char *path, int flags);
/** The same without following any link; `..` is refused. */
int root_open_beneath(int dir, const char *path, int flags);
/** The same, and nothing that is mounted below is entered, where the kernel has openat2(): a user may mount what never answers. */
int root_open_on_mount(int dir, const char *path, int flags);
/** As root_open() for a directory. It and those above it are made where they are missing. */
int root_make_directory(const char *root, const char *path);
/** The same as root_open_at(), for kernels without openat2(): links are followed by hand, and never lead out of @root. */
int root_walk(int root, const char *path, int flags);
