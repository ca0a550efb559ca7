// Users and groups by /etc/passwd and /etc/group as they are: name services may need a network that is gone, and the C library would load
// them, which the static file cannot.
#pragma once

#include <pwd.h>
#include <stdbool.h>

enum { ACCOUNT_LINE = 4096 };

/** A user's line: by @name, or where that is NULL by @uid. false: there is none. */
bool account_find(const char *name, uid_t uid, struct passwd *ret, char room[static ACCOUNT_LINE]);
/** The number of a group; false: there is none of that name. */
bool account_group(const char *name, gid_t *ret);

enum { ACCOUNT_GROUPS = 256 };
/** The groups of a user besides the first. One that no file names has none. */
size_t account_groups(const char *name, gid_t ret[static ACCOUNT_GROUPS]);
