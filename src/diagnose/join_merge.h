// Whether two incidents can be one failure; and merges two: their times onto one clock, their events into one order.
#pragma once

#include "diagnose/incident.h"

/** How times of one clock become times of another. A fault that both sources report gives the difference. */
struct clock_bridge {
	enum time_clock from, to;
	double shift;
};

/** Moves @from into @to and frees it. @bridge: what earlier incidents of the group told about the clocks. */
void incident_merge(struct incident *to, struct incident *from, struct clock_bridge *bridge);
/** It concerns this GPU, too. */
void incident_add_gpu(struct incident *to, const struct diag_gpu *gpu);
/** It is about this GPU, and the one before is one of the others. */
void incident_lead_gpu(struct incident *i, struct str device);
/** Whether the driver reset a GPU in it, or counted an error, which is what programs are told as a hang. */
bool incident_has_reset(const struct incident *i);
bool incident_tells_of_hang(const struct incident *i);
bool incident_same_class(const struct incident *a, const struct incident *b);
/** Whether each has a cause of its own that does not explain the other's. */
bool incident_different_causes(const struct incident *a, const struct incident *b);
/** Whether what made the driver reset the GPU can have led to what a program tells, which tells of a hang, too. */
bool incident_explains_hang(const struct know *k, const struct incident *kernel, const struct incident *program);
/** The page of a fault; false where the event tells of none. */
bool diag_page(const struct diag_event *e, uint64_t *ret);
static inline bool is_calendar(enum time_clock clock)
{
	return clock == TIME_WALL || clock == TIME_LOCAL || clock == TIME_YEARLESS;
}
