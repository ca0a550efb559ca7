// The machine that a look is about: this one, one that is being recorded, or one that a bundle holds.
#pragma once

#include "gpu/find/device.h"
#include "source/tape/bundle.h"
#include "source/tape/tape.h"
#include "unhang/unhang.h"

struct uh_machine {
	struct tape *tape;
	struct bundle *bundle;   // NULL: it is recorded
	char *path;              // of the bundle
	struct devices *devices; // of one that is recorded: what the first look found, for all others; NULL
	struct know *know;       // the same: the knowledge of all its looks; NULL
	int64_t job_began;       // the same: milliseconds since 1970, of the job that is ended now; 0: there is none
};

/** The machine of a bundle, which becomes its own. */
struct uh_machine *machine_new(struct bundle *b, const char *path);
/** The machine of a bundle that is open; NULL without an error: it is none. */
struct uh_error *machine_of_bundle(int fd, const char *name, struct uh_machine **ret);

/** Finds its GPUs, or hands out those that were found. devices_free() only where they are not borrowed. */
struct found_devices {
	struct devices devices;
	struct tape *tape; // NULL: this machine
	bool borrowed;
};
struct know;
void machine_find(struct uh_machine *m, const struct know *k, const char *track, struct found_devices *ret);
void found_devices_free(struct found_devices *f);

/** Its tape at the beginning of a track; NULL of NULL, which is this machine. */
struct tape *machine_tape(struct uh_machine *m, const char *track);

/** Whether all that the look of @track was answered is there. A bundle may lack a part of it; a machine that is asked does not. */
bool machine_whole(const struct uh_machine *m, const char *track);
