// The diagnosis as a stream: events enter one by one, incidents open, grow, and come out when they close.
#pragma once

#include "diagnose/incident.h"

struct incident_sink {
	/** A closed incident, with its conclusion. It is given away. */
	void (*incident)(void *ctx, struct incident *i);
	void *ctx;
};

struct engine;

struct engine *engine_new(const struct know *k, struct incident_sink sink);
void engine_event(struct engine *g, const struct event *e);
/** What comes next is from another source: it continues an incident only where its times say so. */
void engine_source(struct engine *g);
/** Closes what is open. */
void engine_end(struct engine *g);
void engine_free(struct engine *g);
