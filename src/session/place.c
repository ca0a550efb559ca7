#include "session/place.h"

#include <unistd.h>

#include "base/door/account.h"

static const char *home(struct arena *a)
{
	const char *own = secure_getenv("HOME");
	if (own && *own == '/')
		return own;
	struct passwd p;
	char room[ACCOUNT_LINE];
	return account_find(NULL, geteuid(), &p, room) && *p.pw_dir == '/' ? arena_z(a, str_z(p.pw_dir)) : NULL;
}

/** A place in /tmp that others can guess would be no better than none. */
const char *state_of_user(struct arena *a)
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *below = geteuid() ? home(a) : NULL;
	if (geteuid() && state && *state == '/')
		return arena_printf(a, "%s/unhang", state).p;
	return below ? arena_printf(a, "%s/.local/state/unhang", below).p : NULL;
}
