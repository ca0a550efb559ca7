// Which kernel of which process failed, by the recordings of a job.
#pragma once

#include "diagnose/told/told.h"
#include "report/run/run.h"

/** Reads the recordings of @directory, and fills in ended (where they show a fault), kernel, symbol, launch, packet, place, offset, rank and
 * pid of @ret, which lie in @a. @rank: whose kernels count where there is no fault; -1: all ranks'. */
void suspect_find(const char *directory, int64_t rank, struct arena *a, struct run_try *ret);
/** Of several ranks the one that failed first, in a sentence, and rank and pid of @ret, which stay as they are where the sentence says that
 * nobody can tell; empty: there is one rank only, or all ended well. All must have ended. */
struct str suspect_first(const char *directory, struct arena *a, struct run_try *ret);
/** The GPUs that the recordings of @directory name. */
struct suspect_gpus {
	struct str list[64]; // PCI addresses
	size_t n;
};
void suspect_gpus(const char *directory, struct arena *a, struct suspect_gpus *ret);
/** Whether it is one of them; where none is known, it may be. */
bool suspect_uses(const struct suspect_gpus *g, struct str pci);

/** The processes of the recordings of @directory, as the driver and the log number them. */
void suspect_pids(const char *directory, struct job_pids *ret);

/** The newest launches as lines, and the one that runs or else the last one that is known to have ended; for crash diagnostics. */
struct suspect_log {
	struct str lines, last, gfx;
};
/** @rank: that failed; -1: not known. */
void suspect_log(const char *directory, int64_t rank, struct arena *a, struct suspect_log *ret);
/** Packets that the processes of a rank submitted; -1: none of it recorded. */
int64_t suspect_packets(const char *directory, int64_t rank);
