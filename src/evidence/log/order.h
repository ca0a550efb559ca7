// The direction of a log: some are pasted with the newest line first. Events are held back until their times, or what the driver
// always prints in one order, tell; then they go on from the oldest to the newest.
#pragma once

#include "base/arena.h"
#include "evidence/event.h"

enum log_direction { DIRECTION_UNKNOWN, DIRECTION_FORWARD, DIRECTION_BACKWARD };

struct log_order {
	const struct know *know;
	struct event_sink sink;
	enum log_direction direction;
	uint64_t lost; // events of a log that runs backwards for which there was no room
	struct arena arena;
	VEC(struct event *) held;
};

void log_order_event(struct log_order *o, const struct event *e);
/** Whatever is held goes on. */
void log_order_end(struct log_order *o);
void log_order_free(struct log_order *o);
