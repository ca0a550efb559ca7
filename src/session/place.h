// Where one who is not root keeps what others keep in /var/lib/unhang.
#pragma once

#include "base/arena.h"

/** The user's own state directory of unhang; NULL: there is none, as for root or one without a home. It need not exist. */
const char *state_of_user(struct arena *a);
