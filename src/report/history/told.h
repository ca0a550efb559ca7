// What the history says: as the store answers it, and as lists, pages and programs are told it. Empty texts are not known.
#pragma once

#include "base/arena.h"
#include "diagnose/changes/helped.h"

/** Which incidents; empty: any. A text may have * in it. */
struct history_filter {
	int64_t since, until; // seconds since 1970; 0: without a limit
	struct str class, host, gpu, serial, part, program, job, fingerprint, id;
	bool open;      // only those that are not over
	bool open_ever; // also those that are not over and began before @since
};

/** What happened, as far as a list tells. */
struct history_incident {
	struct str id, host, gpu, serial, unique_id, part, gpu_name, class, title, fault, action, fit, state, fingerprint,
		program, job, bundle, place, closed_by;
	int64_t began, ended, revision;
};

/** The same fault, wherever it happened. */
struct history_fault {
	struct str key; // fingerprint, or class where there is none
	struct str class, title, fault, part;
	int64_t count, hosts, open, this_week, last_week, first, last;
	struct str host;   // one of them
	struct str newest; // its id; empty in faults that are not shown
	bool new;          // it was never seen before this week
};

/** How many there are of something: of a class, part or host; or of a class on a day. */
struct history_count {
	struct str name;
	int64_t day, count; // day: days since 1970
};

struct history_totals {
	int64_t incidents, hosts, open, this_week, last_week, first, last;
	int64_t older;    // of the incidents: those that are open since before the time that was asked for
	double hours;     // GPU-hours of work in that time
	int64_t machines; // that told of their work
};

/** A change of a setting or version on a machine. */
struct history_change {
	struct str host, gpu, name, from, to;
	int64_t when;
};

struct history_run {
	struct str id, host, command, launcher, job, state, place;
	int64_t began, status, tries; // status: -1 where it is not known
};
struct history_try {
	int64_t number, level, began, ran_ms;
	struct str ended, class, title, fault, action, gpu, kernel, reason, detail;
};
struct history_event {
	double time;
	struct str event, role, text;
};
struct history_sampled {
	int64_t when;
	double busy, power, temperature, memory; // NAN: not known
};
struct history_machine {
	struct str host, part;
	int64_t incidents, open, last;
	double hours;
};

/** How often one fails: a machine, or a GPU. What came within an hour counts once. */
struct history_rate {
	struct str name, host, part; // name: the host, or the GPU's serial number
	struct rate rate;
	struct rate_ratio limits; // by the hour
	bool outlier;             // it lies above what all have together
};

#define HISTORY_LIST(type)                                                                                                     \
	struct type##_list {                                                                                                   \
		struct type *data;                                                                                             \
		size_t len, cap;                                                                                               \
	}
HISTORY_LIST(history_incident);
HISTORY_LIST(history_fault);
HISTORY_LIST(history_count);
HISTORY_LIST(history_change);
HISTORY_LIST(history_run);
HISTORY_LIST(history_try);
HISTORY_LIST(history_event);
HISTORY_LIST(history_sampled);
HISTORY_LIST(history_machine);
HISTORY_LIST(history_rate);

/** The worst first; those of which no work is known last. */
struct history_rates {
	struct history_rate_list list;
	struct rate all;
	int64_t nameless; // incidents that are nobody's: of logs that do not say where they are from
};

/** What many incidents come to. Lists have what matters most first; days are in their order. */
struct history_summary {
	struct history_totals totals;
	struct history_fault_list faults;
	size_t nfaults; // with those that the list leaves out
	struct history_machine_list machines;
	struct history_count_list days, parts;
};

/** What the document of a diagnosis says, as far as people are shown it. */
struct history_explained {
	struct str explanation, action, confidence;
	VEC(struct str) remedies;
	VEC(struct str) next;
};

/** A change and whether it helped: on one host, or on all that have it. */
struct history_helped {
	struct str name, from, to, host; // host: of the first that got it
	int64_t when, hosts;
	struct helped all;
	struct history_helped_kind {
		struct str class;
		struct helped helped;
	} * kinds;
	size_t nkinds;
	struct str beside; // what else changed on the machine between it and now, or at the same time; empty
};
HISTORY_LIST(history_helped);
