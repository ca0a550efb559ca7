// Hooks: programs of the administrator that are told of an incident.
#pragma once

#include "report/watch/incidents.h"
#include "watch/settings.h"

/** Runs each in turn, by name, unprivileged, with the diagnosis on standard input and no shell. For a child of the watch: it waits. Each
 * line of @to is about one that did not end well. */
void hooks_run(const struct watch_settings *s, const struct stored *i, struct text *to);
