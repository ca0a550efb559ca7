// Which files are believed: those that nobody but root and the user who called can have written.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"

/** Opens what @path leads to. Each directory, link and file on the way is opened first and then judged by its descriptor: it must belong
 * to root or to the user who called, and nobody else may write it. A descriptor for judging cannot be read from, so the one returned is another, which
 * was opened in the directory that was judged; if it is not of the file that was judged, the error is ESTALE. An error whose errnum is 0
 * says why the file is not believed. @root as for root_open(). */
struct uh_error *trust_open(const char *root, const char *path, int flags, int *ret_fd);
/** The same of a directory. @given: in a container, where a mount's top belongs to another user, what is his in that mount is believed, too. */
struct uh_error *trust_open_below(const char *path, bool given, int *ret_fd);
/** The path without links of a file that is believed. All directories above it are believed too, so nobody can replace the file. */
struct uh_error *trust_real_path(struct arena *a, const char *path, const char **ret);
/** Whether it is root, the user that unhang runs as, or the one who called. */
bool trust_owner(uid_t uid);
/** library_open() of a library; NULL where that fails. The loader finds names without a slash. *ret_refused says why a file that exists was
 * not believed; else it is NULL. */
void *trust_load(const char *name, int flags, struct uh_error **ret_refused);
