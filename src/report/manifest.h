// What a bundle holds, and what it lacks and why: its manifest.
#pragma once

#include <stdio.h>

#include "base/arena.h"

/** How it went with an item. */
enum item_state {
	ITEM_RUNNING, // it was being saved when the capture was killed
	ITEM_SAVED,
	ITEM_ABSENT,  // this machine has none
	ITEM_REFUSED, // there was no permission, or an option did not ask for it
	ITEM_BLOCKED, // it did not answer in time
	ITEM_CUT,     // it is there in part
	ITEM_FAILED,
	ITEM_STATES
};

struct manifest_item {
	struct str name; // of the member
	struct str what; // for people
	enum item_state state;
	struct str reason; // why it is not there, or not all of it; empty
	struct str at;     // the path that blocked; empty
	struct str stack;  // of the kernel, where its reader waits: a function per line
	uint64_t bytes;
	int64_t took_ms;
};

/** What was replaced by a counter. */
struct manifest_replaced {
	const char *kind; // host, user, serial, ...
	unsigned long long names, places;
};

struct manifest {
	struct str id, host, boot_id, kernel, version;
	const char *state; // running, complete, interrupted
	const char *user_data;
	bool redacted;
	int64_t began, ended; // seconds since 1970
	int64_t uptime_ms, deadline_ms, took_ms;
	VEC(struct manifest_item) items;
	VEC(struct str) notes;
	const struct manifest_replaced *replaced;
	size_t nreplaced;
};

/** The document of docs/capture.schema.json. */
void report_manifest(const struct manifest *m, FILE *out);
/** A few lines for people: where it is, what is missing. */
void report_captured(const struct manifest *m, const char *file, uint64_t bytes, FILE *out);

// The text of a bug report, with the headings of ROCm's issue form.
enum { BUG_REPORT_MOST = 65536 }; // characters: what trackers take

struct bug_report {
	bool incident; // there is one, and the diagnosis begins with it
	struct str system, cpu, kernel, driver, rocm;
	struct str gpus;      // one per line
	struct str bundle;    // the file with the evidence
	struct str diagnosis; // what unhang explain says
	struct str log;       // the kernel's log, as it is in the bundle
	const char *log_name; // its member
	bool (*matters)(const void *ctx, struct str line);
	const void *ctx;
};

/** Never more than BUG_REPORT_MOST characters: lines of the log are left out first, the oldest before the others. */
void report_bug(const struct bug_report *b, FILE *out);
