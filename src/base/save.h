// A file is written whole or not at all: whoever reads it, or is killed while it is written, has the old bytes or the new ones.
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/** Writes @bytes to a new file beside @path, makes sure that they are on the disk, and gives it the name @path, in place of what had
 * it (of a link: the link, not the file that it leads to). The directory must be there. @dir: a directory that a relative @path
 * begins at, or AT_FDCWD. */
struct uh_error *save_file(int dir, const char *path, struct str bytes, mode_t mode);
/** As save_file(), but refuses where @path is taken already, also by somebody who was quicker. */
struct uh_error *save_new_file(int dir, const char *path, struct str bytes, mode_t mode);
/** As save_file(), in place of a file that is there: mode, owner and extended attributes (SELinux's label, an ACL) stay. */
struct uh_error *save_over(int dir, const char *path, struct str bytes);
/** Takes @path away, for good: also on the disk. That there is none is no error. */
struct uh_error *save_remove(int dir, const char *path);
/** How many unfinished files a save_file() to @path that was killed has left; they are removed if @remove. */
unsigned save_left_over(int dir, const char *path, bool remove);
