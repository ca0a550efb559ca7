// Which occurrence an incident is: one name, which a live look, the watch, a bundle and a run give to the same failure.
#pragma once

#include "diagnose/incident.h"

/** What told of it first. Later words are nearer to guesses: a line of the kernel's log says when, a look only that it is so. */
enum first_event {
	FIRST_LOGGED,   // a line of the kernel's log, with a time of the kernel's clock
	FIRST_SIGNALED, // the driver by another way, with a time of the same clock
	FIRST_SEEN,     // a look: it is so now, and nobody knows since when
	FIRST_RECORDED, // the recorder of the process
	FIRST_TOLD,     // a program's words
};

struct identity {
	struct str boot; // boot id, with or without dashes; empty: not known
	struct str gpu;  // PCI address; empty: not known
	int64_t pid;     // of the process; 0: none is known, or it is not one's alone
	uint64_t began;  // when it was started, as in struct event; 0: not known
	enum first_event first;
	int64_t us;      // time of the first event in its clock; of a recording the number of the hold
	struct str text; // of the first event
	struct str host; // as the log names it; it counts where no boot is known
};

/** Of a process that its recorder tells of, as far as the watch knows that when the process is held: the fault is not read by then, nor on
 * which of its GPUs it was. Its number is another one in a container than outside of it, so that it counts only where nobody knows when
 * the recording began. */
struct identity identity_recorded(struct str boot, int64_t pid, uint64_t began, uint32_t hold);
/** 16 hexadecimal digits, which lie in @a. */
struct str identity_name(const struct identity *i, struct arena *a);
/** Of an incident, by the first of its events that counts. It has one. */
struct identity incident_identity(const struct incident *i);
/** Whether @name is what anybody called it who knew only some of its events: the watch names one by the first that it meets. */
bool incident_is(const struct incident *i, struct str name);
