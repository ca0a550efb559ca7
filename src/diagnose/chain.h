// What led to what.
#pragma once

#include "diagnose/incident.h"

/** The cause: the earliest event that nothing else can have led to. Each event is told what can have led to it. NULL: none is evidence
 * for a cause. */
struct diag_event *chain_root(struct incident *i, const struct know *k);
/** The rule by which the one can have led to the other, each with its cause; NULL: there is none. */
const struct know_lead *chain_lead(const struct know *k, const struct diag_event *cause, const struct diag_event *effect);
