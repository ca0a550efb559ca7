// The diagnosis as a stream: events enter one by one, incidents open, grow, and come out when they close.
#pragma once

#include "diagnose/incident.h"

struct diag_seen {
	const struct know_event *kind;
	struct fact_view facts;
	struct str text;   // the line
	struct str device; // that it names; empty: none
	struct place at;
};

struct incident_sink {
	/** A closed incident with its conclusion. It belongs to the callee from now on. Without a cause it is no incident, only events
	 * that mean nothing by themselves. */
	void (*incident)(void *ctx, struct incident *i);
	/** What was learnt about the machine, at the end of a boot or of a source. May be NULL. */
	void (*machine)(void *ctx, const struct machine *m);
	/** What is told by itself, or where there is no incident: an event, an error of the driver outside of an incident, a crash of which
	 * nothing says where. May be NULL. */
	void (*note)(void *ctx, const struct diag_seen *seen);
	void *ctx;
	/** How a process of a job ended, and what of it is accused: for job_take(). May be NULL. */
	void (*process)(void *ctx, const struct event *e);
	/** The open incident of number @from has become a part of that of number @to: a hang or a reset joined them. May be NULL. */
	void (*joined)(void *ctx, uint64_t from, uint64_t to);
};

struct machine;
struct engine;

struct engine *engine_new(const struct know *k, struct incident_sink sink);
/** Which GPU it was, where the evidence does not say. */
void engine_say_part(struct engine *g, const struct know_part *part);
void engine_event(struct engine *g, const struct event *e);
/** The same of a second channel, which nobody can forge: of what is known already it says that it is true, and no more. */
void engine_second(struct engine *g, const struct event *e);
/** Closes all open incidents: the source has ended, and the next one may be from another machine. */
void engine_end(struct engine *g);
/** For a watcher, who cannot wait until an incident closes: the nth that is open, or NULL; and the same concluded as far as it has come.
 * Without a cause it is none yet. Each conclusion costs memory until it closes. */
struct incident *engine_open(const struct engine *g, size_t n);
struct incident *engine_conclude(struct engine *g, size_t n);
/** Closes those without news since @seconds of the kernel's clock. A stream that is silent does not close them by itself. */
void engine_close_before(struct engine *g, double seconds);
/** Closes the one of this number (struct incident, order), where it is open. */
void engine_close(struct engine *g, uint64_t order);
void engine_free(struct engine *g);
