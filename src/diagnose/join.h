// Several sources may tell of one incident: here they become one.
#pragma once

#include "diagnose/incident.h"

/** Joins what belongs together among the @n incidents of @list, and frees those that were merged into others. Returns how many are
 * left. Those that were joined have to be concluded again. */
size_t incidents_join(struct incident **list, size_t n);
