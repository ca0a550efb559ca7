// Incidents of several sources that are one.
#pragma once

#include "diagnose/incident.h"

/** Joins what belongs together among the @n incidents of @list, concluded or not; returns how many are left. Those that were joined
 * are to be concluded anew. */
size_t incidents_join(struct incident **list, size_t n);
