// Profiles: the variables for one job that `unhang doctor --apply` writes.
#pragma once

#include "base/arena.h"

/** Lines of `export NAME='VALUE'` become lines of NAME=VALUE. false: *@ret_wrong is a line that no profile has. */
bool profile_parse(struct str text, struct text *to, struct str *ret_wrong);
