// Which files are believed: those that nobody but root and the user who called can have written.
#pragma once

#include "base/arena.h"
#include "base/error.h"

/** Opens what @path leads to. Each directory, link and file on the way is opened first and then judged by its descriptor: it belongs to
 * root or to the user who called, and nobody else may write it. The descriptor is the one that was judged. An error that is no system
 * call's (errnum 0) says why it is not used. @root as for root_open(). */
struct uh_error *trust_open(const char *root, const char *path, int flags, int *ret_fd);
/** The path, without links in it, of a file that is believed: since all above it is, nobody else can put another there. */
struct uh_error *trust_real_path(struct arena *a, const char *path, const char **ret);
/** dlopen() of a library. Names without a slash are the loader's to find; of a file that is there and not believed *ret_refused says why,
 * else it is NULL. */
void *trust_load(const char *name, int flags, struct uh_error **ret_refused);
