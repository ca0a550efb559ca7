// What unhang check reads: in a child, because a directory on a mount that does not answer may hold whoever reads there for ever.
#pragma once

#include "base/arena.h"
#include "report/watch/incidents.h"

#define SMOKE_FILE "smoke.json"

struct check_found {
	struct str state;   // state.json; empty: there is none, see @why
	int errnum;         // ENOENT: no watch left one. ETIMEDOUT: nothing was read in time
	struct str why;     // there is no state; empty: there is one
	struct str smoke;   // what the smoke test left; empty: nothing that is believed
	struct str machine; // the machine's id
	struct check_text {
		struct str text;
	} * records; // incidents that outlive reboots, as they are stored
	size_t nrecords;
};
/** What the watch and the smoke test left in @run_dir, by @deadline. */
void check_read_run(const char *run_dir, int64_t deadline, struct arena *a, struct check_found *ret);
/** The incidents in @state_dir that outlive reboots: those that ask for a new part, or for the power to be switched off. false: it did not answer in
 * time. */
bool check_read_store(const char *state_dir, int64_t deadline, struct arena *a, struct check_found *ret);
