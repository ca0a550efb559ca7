// The watch: the kernel's log and its uevents as they come, through the diagnosis, into stored incidents.
//
// One process thinks and never waits. A log reader reads for it; children with deadlines capture, explain, look at GPUs and run hooks, one at a
// time. What is known of an incident is on the disk before anybody is told. An incident's id comes from its first sign, so a watch that
// was killed finds its own again when it reads the kernel's log once more.
#pragma once

#include "knowledge/know.h"
#include "report/watch/incidents.h"
#include "watch/settings.h"

#define STATE_DIR "/var/lib/unhang" // where incidents are stored, unless somebody says otherwise
#define RUN_DIR "/run/unhang"       // where state.json is written

/** What others do for it, in a child. An answer is lines of KEY VALUE, which the child writes to @to. */
struct watch_helpers {
	/** Saves the evidence of an incident in @directory, with @note, which is a line of evidence itself. Lines: saved, as soon as the machine
	 * need not stand still any more; bundle. */
	void (*capture)(void *ctx, const struct watch_settings *s, const char *directory, struct str note, FILE *to);
	/** Explains its bundle; of an incident that is over together with what the kernel wrote since. Lines: class, title, fault, action, gpu,
	 * job. */
	void (*explain)(void *ctx, const struct stored *of, const char *directory, FILE *to);
	/** Looks at the GPUs. A line for each: gpu PCI UNIQUE-ID SERIAL WELL HEALTH SAYS..., where - is not known, and WELL is well, unwell or
	 * unknown. Then, for each, its votes on progress: a line `votes`, its PCI address, lines of progress_take(), a line `end`. */
	void (*look)(void *ctx, FILE *to);
	/** How the machine is set up, without asking a GPU. Lines: item NAME VALUE. */
	void (*note)(void *ctx, FILE *to);
	void *ctx;
};

struct watch_options {
	const char *config;              // file; NULL: the usual
	const char *state_dir, *run_dir; // NULL: what the configuration says
	const char *hooks_dir;           // the same
	bool check;                      // only say whether the configuration is right
	bool until_quiet;                // end when the log was read and nothing is left to do
	void (*tell)(void *ctx, const char *message);
	void *ctx;
};

/** Runs until SIGTERM or SIGINT. */
struct uh_error *watch_run(const struct watch_options *o, const struct know *k, const struct watch_helpers *helpers);
