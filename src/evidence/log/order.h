// The direction of a log: some are pasted with the newest line first. Events are held back until the direction is clear, from their
// times or from messages that the driver always prints in one order. Then they go on from the oldest to the newest.
#pragma once

#include "base/arena.h"
#include "evidence/event.h"

enum log_direction { DIRECTION_UNKNOWN, DIRECTION_FORWARD, DIRECTION_BACKWARD };

struct log_order {
	const struct know *know;
	struct event_sink sink;
	enum log_direction direction;
	uint64_t lost; // events that were lost because the log runs backwards and has too many
	struct arena arena;
	VEC(struct event *) held;
};

void log_order_event(struct log_order *o, const struct event *e);
/** Hands on all events that are still held. */
void log_order_end(struct log_order *o);
void log_order_free(struct log_order *o);
