// Merges two incidents: their times onto one clock, their events into one order.
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
/** The page of a fault; false where the event tells of none. */
bool diag_page(const struct diag_event *e, uint64_t *ret);
static inline bool is_calendar(enum time_clock clock)
{
	return clock == TIME_WALL || clock == TIME_LOCAL || clock == TIME_YEARLESS;
}
