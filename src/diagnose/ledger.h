// The incidents of a diagnosis: the most important ones are kept, the others counted.
#pragma once

#include "diagnose/incident.h"

enum { LEDGER_MAX = 400 };

enum { SEEN_MAX = 256 };

struct ledger {
	VEC(struct incident *) incidents;
	VEC(struct incident *) seen; // events that are no incident by themselves
	uint64_t omitted;
};

/** Adds an incident, which belongs to the ledger from now on. */
void ledger_add(struct ledger *l, struct incident *i);
/** A boot whose beginning is known: its times can be compared with those of a calendar. */
struct boot_began {
	struct str id;  // empty: of no boot
	double seconds; // since 1970
};

/** Joins what several sources say about one failure, and concludes it again. */
void ledger_join(struct ledger *l, const struct know *k, const struct machine *m, const struct boot_began *boot);
/** The most important first; among equals the newest boot, and in it the earliest, since it may have led to the others. What is beyond
 * LEDGER_MAX is only counted. */
void ledger_sort(struct ledger *l);
void ledger_free(struct ledger *l);
