// Lines of the history on the disk: a file for each day, to which lines are added. What was added is on the disk, whole, or the file is as it
// was. A directory that others collect from, on a shared file system perhaps, gets the same bytes later.
#pragma once

#include "base/arena.h"
#include "base/error.h"

/** Adds lines, each with its newline, to today's file in @directory, which is made where it is missing. */
struct uh_error *spool_append(const char *directory, struct str lines);

enum { SPOOL_AT_ONCE = 64 << 20 }; // bytes

/** How far a file was read. */
struct spool_place {
	uint64_t offset;
	uint64_t passed; // of it, bytes of lines that are too long to be ours, and were passed over
	bool more;       // so much was read at once that the rest is left for the next time
};
/** Hands over each line of a file from a place on, without its newline, until @take says no. The place is then behind the last that was taken; a line
 * that is not whole yet is left for the next time. No more than SPOOL_AT_ONCE is read for lines that are too long. */
struct uh_error *spool_read(const char *path, struct spool_place *place, bool (*take)(void *ctx, struct str line), void *ctx);
/** The same of a file that is open; @path is for errors. No more than SPOOL_AT_ONCE is read. */
struct uh_error *spool_read_some(int fd, const char *path, struct spool_place *place, bool (*take)(void *ctx, struct str line),
				 void *ctx);

/** The files in a directory, with those of the directories in it (one for each host), in the order of their names. Links are none. A host's
 * directory that cannot be read is left out. */
struct spool_files {
	struct arena arena;
	VEC(const char *) list; // paths
	bool hosts;             // those of the directories in it, too
};
struct uh_error *spool_list(const char *directory, struct spool_files *ret);
void spool_files_free(struct spool_files *f);

/** How the directory of a host is called among others. */
void spool_host_name(struct text *to, struct str host);

/** Brings what @from has and @to has not to @to, which is made where it is missing, and is no link. It may be called again after any
 * error. */
struct uh_error *spool_ship(const char *from, const char *to);
/** Brings the bundles of incidents below @state to @to/bundles, as ID.tar.zst, those that it has not. */
struct uh_error *spool_ship_bundles(const char *state, const char *to);
/** Removes the files of the oldest days until none is older than @days and all of them have no more than @bytes. Today's stays. */
void spool_vacuum(const char *directory, int64_t days, uint64_t bytes);
