// A file is written whole or not at all. Readers see the old bytes or the new ones, also after a kill in the middle.
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/** Writes @bytes to a new file beside @path, makes sure that they are on the disk, and renames it to @path. If @path is a link, the link
 * is replaced, not the file that it leads to. The directory must exist. A relative @path begins at the directory @dir, or AT_FDCWD. */
struct uh_error *save_file(int dir, const char *path, struct str bytes, mode_t mode);
/** Whether a file that the user named may be saved as @path: an error if something else than a regular file is there. A device would be gone, and
 * who reads a pipe, or the file behind a link, would get nothing. */
struct uh_error *save_check(int dir, const char *path);
/** As save_file(), but does not wait for the disk: what a kill of the program spares, a crash of the machine within the next seconds may
 * not. */
struct uh_error *save_soon(int dir, const char *path, struct str bytes, mode_t mode);
/** As save_file(), but an error if @path exists already, even if it appeared only meanwhile. */
struct uh_error *save_new_file(int dir, const char *path, struct str bytes, mode_t mode);
/** Gives a file that is finished its name in the directory @to. false: see errno; EEXIST: something has that name. */
bool save_name(int dir, const char *unfinished, int to, const char *name);
/** As save_file() for a file that exists: mode, owner and extended attributes (SELinux label, ACL) stay. */
struct uh_error *save_over(int dir, const char *path, struct str bytes);
/** As save_file(), for those who may read its directory: the file gets the group of it, and of @mode what the directory allows. */
struct uh_error *save_shared(int dir, const char *path, struct str bytes, mode_t mode);
/** Gives what is open to the group `unhang`, where there is one and this is root, and sets its mode. */
void save_give(int fd, mode_t mode);
/** Removes @path, and makes sure that it is gone from the disk. No error if there is none. */
struct uh_error *save_remove(int dir, const char *path);
/** How many unfinished files were left by a save_file() to @path that was killed. @remove: removes them. */
unsigned save_left_over(int dir, const char *path, bool remove);
/** Removes all that is in a directory, and below it. A link goes, and what it leads to stays. */
void remove_below(int dir);
/** Makes the directories above the last name of @path, which begins at @dir. */
bool make_above(int dir, const char *path, mode_t mode);
/** @path from the root on, whatever directory a process is in later. */
const char *absolute_path(struct arena *a, const char *path);
/** All of @bytes, however often a signal or a pipe cuts a write short. */
bool write_all(int fd, struct str bytes);
