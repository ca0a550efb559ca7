// Takes events into an incident: which are kept and which only counted, what a detail belongs to, and the phase that follows.
#pragma once

#include "diagnose/incident.h"

static inline bool event_names_gpu(const struct event *e) { return e->device.n && str_is(e->driver, "amdgpu"); }
bool later_than(struct stamp a, struct stamp b, double seconds);
/** What an event tells of resets. */
void incident_follow_phase(struct incident *i, enum know_tells tells);
/** The event, or the one before it that it repeats; NULL where there is no room for more. */
struct diag_event *incident_add_event(struct incident *i, const struct event *e, const struct know_event *kind,
				      enum phase phase);
void incident_add_facts(struct incident *i, struct diag_event *d, const struct event *e);
/** The newest event that these details can belong to: of its kinds, on its GPU, and without them so far. */
struct diag_event *incident_find_detailed(struct incident *i, const struct event *e);
bool incident_has_hang(const struct incident *i);
/** The number of the process whose faults these are; empty: none is known, or a hang or a reset made it an incident of all of them. */
struct str incident_owner(const struct incident *i);
/** Whether @e names another process than the owner of @i. */
bool incident_is_others(const struct incident *i, const struct event *e);
/** Moves the fault that @e, a detail, belongs to from @from to @to; where it was only counted, @e stands for it. */
void incident_move_fault(struct incident *to, struct incident *from, const struct event *e, enum phase phase);
