// Incidents that unhang watch stored, and the state of the GPUs that it watches.
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "unhang/unhang.h"

/** What the record says of an incident's state; the words stand in files and JSON. */
enum stored_state { STORED_NONE, STORED_SUSPECTED, STORED_HUNG, STORED_OPEN, STORED_CLOSED };
extern const char *const stored_states[]; // by their values, NULL behind the last
struct str stored_state_word(enum stored_state s);

/** What is kept of an incident beside its bundle and its diagnosis. Empty: not known. */
struct stored {
	struct str id; // from its first sign to its close, over restarts
	enum stored_state state;
	struct str class, title, fault, action, fit; // fit: yes, no, unknown: for the next job
	struct str fingerprint;                      // by the log: the same for faults that are alike
	struct str host, boot_id;
	struct str gpu, unique_id, serial; // gpu: its PCI address
	struct str origin;                 // log, kfd, look, ...: who told of it first
	struct str bundle;                 // taken, or why there is none; empty: not yet
	struct str closed_by;              // what ended it
	struct str job;                    // of the process that held the GPU: its name, Slurm job or pod
	struct str reset_source;           // why the GPU was reset, where its first sign says it; empty
	struct str votes;                  // on progress, where nobody but a look told of it
	int64_t began, changed, ended;     // seconds since 1970; 0: not yet
	int64_t first_us, last_us;         // its first and last sign, on the kernel's clock
	int64_t pid;                       // of the process whose fault it is; 0: not known, or it is not one's alone
	int64_t stood;                     // seconds for which they saw nothing move
	int64_t events;
	int64_t revision; // counts what was told of it
	int64_t hooks;    // how many changes of state the hooks were told of
};

/** A GPU as it was at the last look. */
struct watched_gpu {
	struct str pci, unique_id, serial, slot, partition, health, says;
	struct str hardware, hardware_fit; // what is told of its hardware, and what that makes of the next job: warning, unknown, no; empty
	bool unwell, seen;          // seen: the look saw what it needed to call it well
	bool owned;                 // a program holds it, or nobody knows
	int64_t alone_since;        // since when it is unwell without a program that holds it; 0: it is not
	struct str pace, waits_for; // by the votes on progress: what it does, and what is told of that; empty
};

struct watch_state {
	struct str host, boot_id;
	int64_t written;      // seconds since 1970
	int64_t valid_until;  // a watch that lives has written another by then
	int64_t looked;       // when the GPUs were last looked at; 0: never
	uint64_t lost;        // times that messages of the kernel were lost before they were read
	struct str unread;    // why the kernel's log is not read; empty: it is
	struct str uncounted; // why progress is not counted; empty: it is, or is not to be
	struct str unlisted;  // why there may be GPUs that are not in the list; empty: there are none
	const struct watched_gpu *gpus;
	size_t ngpus;
	const struct stored *const *open; // incidents
	size_t nopen;
};

/** What the newest state says of the watch itself. Empty: nothing. */
struct watch_said {
	struct str valid_until;
	bool over; // that time has passed: no watch runs
	struct str unread, uncounted;
};

/** The document of docs/watch-state.schema.json. */
void report_state(const struct watch_state *s, FILE *out);
/** The document of docs/incidents.schema.json, or a line for each and its title below. @said: NULL where no watch left a word. */
void report_incidents(const struct stored *const *list, size_t n, const struct watch_said *said,
		      const struct uh_incidents_options *o, FILE *out);
/** Instead of a list, for people: nothing was ever stored in @directory. */
void report_no_store(const char *directory, const struct uh_incidents_options *o, FILE *out);
/** One, and its diagnosis as it was written then; empty: there is none. */
struct incident_shown {
	const struct stored *stored;
	const char *directory;
	struct str diagnosis;
	const struct watch_said *said;
};
void report_incident(const struct incident_shown *i, const struct uh_incidents_options *o, FILE *out);
