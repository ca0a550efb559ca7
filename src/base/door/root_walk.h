// Opens a path below a directory that stands for `/`, one component at a time. For kernels without openat2().
#pragma once

/** As root_open_at(): links are followed by hand, and never lead out of @root. */
int root_walk(int root, const char *path, int flags);
