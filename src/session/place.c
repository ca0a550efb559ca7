#include "session/place.h"

#include <pwd.h>
#include <unistd.h>

static const char *home(void)
{
	const char *own = secure_getenv("HOME");
	if (own && *own == '/')
		return own;
	const struct passwd *p = getpwuid(geteuid());
	return p && p->pw_dir && *p->pw_dir == '/' ? p->pw_dir : NULL;
}

/** A place in /tmp that others can guess would be no better than none. */
const char *state_of_user(struct arena *a)
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *below = geteuid() ? home() : NULL;
	if (geteuid() && state && *state == '/')
		return arena_printf(a, "%s/unhang", state).p;
	return below ? arena_printf(a, "%s/.local/state/unhang", below).p : NULL;
}
