// Where the files of a database are. SQLite follows links and makes files beside its own, so that it is only let at places that nobody else can
// have prepared.
#pragma once

#include "base/arena.h"
#include "store/db/db.h"

/** The file of a database, for SQLite. */
struct db_place {
	const char *path; // without links on the way
	bool ours; // nobody but root and the user who called can have written it; else it is only read, and nothing beside it
};

/** Finds it, and makes it where @access says so: for its owner alone, or the group unhang where it is root's. The error is EPERM where it is to
 * be written, and others may write it. */
struct uh_error *db_place(struct arena *a, const char *where, enum db_access access, struct db_place *ret);
/** Gives the file another name, and removes those that SQLite made beside it: somebody may miss what it had. */
struct uh_error *db_set_aside(const char *where, const char *name);
/** Removes the file and those that SQLite made beside it. */
struct uh_error *db_remove(const char *where);
