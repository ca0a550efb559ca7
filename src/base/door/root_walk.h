// A way below a directory that stands for `/`, one component at a time, where there is no openat2().
#pragma once

/** open() of @path as a process that has @root as its root would see it: links are followed here, and lead to what is below @root. */
int root_walk(int root, const char *path, int flags);
