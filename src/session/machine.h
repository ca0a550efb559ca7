// The machine that a look is about: this one, one that is being recorded, or one that a bundle holds.
#pragma once

#include "source/tape/bundle.h"
#include "source/tape/tape.h"
#include "unhang/unhang.h"

struct uh_machine {
	struct tape *tape;
	struct bundle *bundle; // NULL: it is recorded
	char *path;            // of the bundle
};

/** Its tape at the beginning of a track; NULL of NULL, which is this machine. */
struct tape *machine_tape(struct uh_machine *m, const char *track);

/** Options of a look whose targets may name a bundle: then that is the machine, and the other targets are what to look at in it. */
struct machine_options {
	struct uh_look_options options;
	const char *targets[8];
	struct uh_machine *opened;
};
struct uh_error *machine_resolve(const struct uh_look_options *o, struct machine_options *ret);
void machine_options_free(struct machine_options *o);
