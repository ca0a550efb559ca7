// A capture: all evidence that this machine has, saved in the order in which it dies, in one bundle.
//
// Each step runs in a child with a deadline. What it saved is whole and on the disk, in a directory FILE.partial, before the next step
// begins. At the end a child packs the directory, and the bundle gets its name. A capture that was killed leaves its directory; the next one
// packs it.
#pragma once

#include "gpu/find/device.h"
#include "knowledge/know.h"
#include "report/manifest.h"
#include "source/tape/tape.h"

enum user_data { USER_DATA_NONE, USER_DATA_REGISTERS, USER_DATA_ALL };
extern const char *const user_data_names[]; // ends with NULL

/** A look at the machine, which is recorded on a track of its own. */
struct capture_look {
	const char *track, *what;
	void (*look)(struct tape *tape, void *ctx);
	void *ctx;
	bool last;   // behind everything else: it may change what the others see
	bool driver; // it reads files of the driver that are root's
};

struct capture_options {
	const char *file; // that is made
	const struct know *know;
	const struct capture_look *looks;
	size_t nlooks;
	/** The GPUs as the looks found them; NULL: each step finds them for itself. */
	const struct devices *(*devices)(struct tape *tape, void *ctx);
	void *devices_ctx;
	/** After the looks: whether all GPUs are well and awake, with devices_ctx. NULL: nobody knows. */
	bool (*calm)(void *ctx);
	const char *output;     // of the job: its end is evidence; NULL
	const char *recordings; // directory of those of one job; NULL: all of this machine
	const char *allocations; // directory with the job's allocations.PID; NULL: they lie beside the recordings
	const int64_t *pids;    // processes beside those that hold a GPU
	size_t npids;
	enum user_data user_data;
	struct str note;   // evidence of who takes it: lines of a log; empty: none
	int64_t job_began; // milliseconds since 1970: it is about a job since then, which is ended after it; 0: about the machine
	bool redact, tools, debugger, release_dumps;
	bool known_only;                              // with @redact: only what is known to be needed stays (allow.h)
	int deadline_ms;                              // of all of it; 0: 30 s
	uint64_t item_most, most, floor;              // bytes of an item, of all, that stay free; 0: the usual
	void (*tell)(void *ctx, const char *message); // what was done beside it: an older capture was packed
	void *ctx;
	void (*progress)(void *ctx, const char *what, unsigned long long done, unsigned long long total); // NULL
	void *progress_ctx;
	/** Whether somebody wants it to end now. NULL: nobody does. */
	bool (*stopped)(void *ctx);
	void *stopped_ctx;
	/** All is saved, and is going to be packed: nobody need wait for it any more. NULL: nobody does. */
	void (*saved)(void *ctx);
	void *saved_ctx;
};

/** What came of it. */
struct captured {
	struct arena arena;
	struct manifest manifest;
	uint64_t bytes; // of the bundle
};

/** Takes one. The error is that there is no bundle; what was saved by then stays in FILE.partial, and the error says so. */
struct uh_error *capture_take(const struct capture_options *o, struct captured *ret);
void captured_free(struct captured *c);

/** Whether the kill came when all was packed: only the name of the bundle is missing. */
bool capture_is_packed(const char *partial);
/** Packs what captures that were killed, or had no room, have left in the directory of @file. @until: when it must have ended; 0: whenever. */
void capture_recover(const struct capture_options *o, int64_t until);
/** Only what one of @file itself has left. */
void capture_recover_file(const struct capture_options *o, int64_t until);
