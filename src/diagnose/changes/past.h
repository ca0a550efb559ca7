// Incidents of all boots of a machine, read for their fingerprints alone: what changes are judged by.
#pragma once

#include "diagnose/changes/judge.h"

struct past {
	struct arena arena;
	VEC(struct str) boots; // ids of those that were read to their end
	VEC(struct past_sighting) sightings;
};

/** Adds those of the boot @boot (0: the newest) and of all before it: of this machine, of a tree, or of a tape, which has them all. It takes
 * some seconds of a processor at most; what it does not reach is not among the boots. While a tape records, what was read goes to it. */
void past_read(const struct know *k, struct machine_at at, int boot, struct past *to);
/** Notes a boot whose log is read elsewhere, and an incident in it. */
void past_add_boot(struct past *p, struct str id);
void past_add(struct past *p, struct str fingerprint, double when);
void past_free(struct past *p);
#define _cleanup_past_ _cleanup_(past_free)
