// Two incidents that are one: the times of both on one clock, and the events of both in one order.
#pragma once

#include "diagnose/incident.h"

/** How the times of one clock become those of another, once a fault that both report has told. */
struct clock_bridge {
	enum time_clock from, to;
	double shift;
};

/** Takes @from into @to and frees it. @bridge holds what the group's incidents before have told of clocks. */
void incident_merge(struct incident *to, struct incident *from, struct clock_bridge *bridge);
/** The page of a fault; false where the event tells of none. */
bool diag_page(const struct diag_event *e, uint64_t *ret);
static inline bool is_calendar(enum time_clock clock)
{
	return clock == TIME_WALL || clock == TIME_LOCAL || clock == TIME_YEARLESS;
}
