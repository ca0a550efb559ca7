// Hooks: programs of the administrator, or of who runs a job, that are told of an incident.
#pragma once

#include "base/arena.h"
#include "report/watch/incidents.h"
#include "watch/settings.h"

struct hooks_call {
	const char *directory;    // the hooks
	const char *input;        // file that is their standard input; where there is none it is empty
	char *const *environment; // all of it
	const char *user;         // that root becomes first; NULL: nobody else
	int64_t milliseconds;     // for each
};
/** Whether nobody but this user and root can put a program into @directory. */
struct uh_error *hooks_check(const char *directory);
/** Runs each in turn, by name, without a shell. For a child: it waits. Each line of @to is about one that did not end well. */
void hooks_run(const struct hooks_call *c, struct text *to);

/** The hooks of the watch: unprivileged, with the diagnosis on standard input. */
void hooks_tell(const struct watch_settings *s, const struct stored *i, struct text *to);
