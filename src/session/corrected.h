// Hardware errors that were corrected: they harm nothing, so they are no incident; how their rate changes is told.
#pragma once

#include "diagnose/explain/module_error.h"
#include "store/trend.h"

struct uh_session;

enum { CORRECTED_MODULES = 64 };

/** Of one block of a module. */
struct corrected {
	struct diag_gpu gpu;       // by its PCI address, or its place as its records name it; empty: nobody says
	struct module_error error; // the first of them
	uint64_t all;              // that were told
	struct place at;           // of the first
	struct stamp begin, end;   // of the first and the last
	bool scattered;            // not all are of one place in the module
};

struct corrected_all {
	size_t n;
	struct corrected list[CORRECTED_MODULES];
	struct trend days;   // of the evidence, by the names of the modules
	struct trend stored; // the same of the watch, by PCI addresses
	double newest; // of all events that have a day
	struct arena arena;
	// The error bank that the driver prints before it counts:
	bool bank_corrected;
	char bank_device[32];
	struct module_error bank;
	struct arena bank_arena;
};

/** Takes each event; @when: its time, by the calendar where that is known. */
void corrected_take(struct corrected_all *c, const struct event *e, struct stamp when);
/** A note for each. */
void corrected_tell(struct uh_session *s);
void corrected_free(struct corrected_all *c);
