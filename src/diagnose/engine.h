// The diagnosis as a stream: events enter one by one, incidents open, grow, and come out when they close.
#pragma once

#include "diagnose/incident.h"

struct incident_sink {
	/** A closed incident, with its conclusion; one without a cause is events that are none by themselves. It is given away. */
	void (*incident)(void *ctx, struct incident *i);
	/** What was learnt of the machine, at the end of a boot or of a source; may be NULL. */
	void (*machine)(void *ctx, const struct machine *m);
	/** An event that is to be said by itself; may be NULL. */
	void (*note)(void *ctx, const struct event *e);
	void *ctx;
};

struct machine;
struct engine;

struct engine *engine_new(const struct know *k, struct incident_sink sink);
void engine_event(struct engine *g, const struct event *e);
/** Closes what is open: the source has ended, and what comes next may be of another machine. */
void engine_end(struct engine *g);
void engine_free(struct engine *g);
