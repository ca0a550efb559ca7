// Whether a change helped: how often incidents came in the hours of work before it, and after it.
//
// People change something after a bad week, and a bad week is mostly followed by a better one. So the incident that made them change it does
// not count, incidents that come in a burst count once, and where weeks differ more than chance alone would make them, every count weighs
// less. Who looks every day at many kinds of incidents finds something by chance: a verdict is given at fixed hours of work only, and the
// error that is allowed is shared among these and among the kinds. docs/HISTORY.md has the simulation.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/changes/rates.h"

/** An incident. @kind: of its class, from 0 on. */
struct helped_event {
	double when; // seconds since 1970, as all times here
	unsigned kind, machine;
};

/** Hours of work within a time. Those of several GPUs add up. */
struct helped_work {
	double from, until, hours;
};

/** What was there; lists are in the order of their times. */
struct helped_history {
	const struct helped_event *events;
	size_t nevents;
	const struct helped_work *work;
	size_t nwork;
	double since, change, until; // from the change before it to the one after it, or to now
	unsigned kinds;              // how many there are, of which each is looked at beside all together
	unsigned gpus;               // that worked before the change; 0 counts as 1
	bool picked;                 // the events are those of a kind that somebody asked for, of all of these kinds
};

enum helped_verdict {
	HELPED_UNKNOWN, // there is nothing to compare
	HELPED_NOTHING, // no evidence yet
	HELPED_YES,
	HELPED_WORSE,
};

struct helped {
	struct rate before, after; // episodes: what came in one burst is one
	struct rate_ratio ratio;   // of 95 %
	double spread;             // how much more weeks differ than chance makes them; 1: no more
	enum helped_verdict verdict;
	double looked;  // hours of work after it, at which the verdict was given; 0: there was none yet
	double to_tell; // hours without an incident that it would take from now on; INFINITY: they never tell
	double next;    // hours of work until the next verdict; 0: there will be none
};

/** @kind: of these incidents; -1: of all. */
struct helped helped_judge(const struct helped_history *h, int kind);
/** Hours of work in a time. */
double helped_hours(const struct helped_history *h, double from, double until);
