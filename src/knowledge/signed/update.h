// The signed knowledge that is installed on a machine.
#pragma once

#include "knowledge/signed/container.h"

#define UPDATE_DIRECTORY "/var/lib/unhang/knowledge"
#define UPDATE_NAME "update.know"
#define UPDATE_PATH UPDATE_DIRECTORY "/" UPDATE_NAME

/** The update that is installed; *ret_there is false if there is none. Its signature was checked when it was installed, and is not
 * checked at each start. A damaged file, or one that others than root could have written, is an error. @root as for root_open(). */
struct uh_error *update_installed(struct arena *a, const char *root, struct container *ret, bool *ret_there);
/** NULL: a key that is trusted below @root has signed all of @c, and *ret_key_file is the key's file. */
struct uh_error *update_verify(struct arena *a, const char *root, const struct container *c, struct str *ret_key_file);
