// How unhang watch is set up: watch.conf, and the files of watch.conf.d behind it.
#pragma once

#include "base/arena.h"
#include "base/error.h"

#define WATCH_CONF "/etc/unhang/watch.conf"

struct watch_settings {
	struct arena arena;
	const char *state_dir; // incidents are below it
	const char *run_dir;   // state.json is in it
	const char *hooks_dir;
	const char *hook_user; // who runs them, where unhang is root
	const char *user_data; // none, registers or all
	const char *spool_dir; // where others collect the history; NULL: nowhere
	bool spool_bundles;    // they get the bundles, too
	bool capture;
	int64_t capture_deadline; // seconds
	int64_t hook_deadline;    // seconds, for each
	int64_t settle;           // milliseconds: a failure prints many lines; they are read before it is told
	int64_t quiet;            // seconds without news, after which it is over, if the GPU is well
	bool silent;              // look for hangs that the driver does not notice
	bool kfd_events;          // ask KFD for faults and resets, too
	bool may_block;           // read what may block even where a blocked read makes the kernel panic
	int64_t suspect_after;    // seconds that votes stood still; 0: as knowledge/progress.know says
	int64_t hung_after;       // the same for a hang that is certain
	int64_t bundles_per_hour;
	int64_t keep_incidents;
	int64_t keep_megabytes;
	int64_t keep_history_days, keep_history_megabytes;
};

/** Reads one file: a key and a value in a line, # begins a comment. Each mistake is told as FILE:LINE: ... Returns how many there were. */
unsigned settings_parse(struct watch_settings *s, const char *path, struct str text,
			void (*tell)(void *ctx, const char *message), void *ctx);
/** The usual values; then those of @file (NULL: WATCH_CONF, which need not be there), and of FILE.d by name, those that end in .conf. *@ret_mistakes were
 * told. The error is that a file could not be read. */
struct uh_error *settings_load(struct watch_settings *s, const char *file, void (*tell)(void *ctx, const char *message),
			       void *ctx, unsigned *ret_mistakes);
void settings_free(struct watch_settings *s);
#define _cleanup_settings_ _cleanup_(settings_free)
/** *@s becomes *@by, whose guard frees what was there before. */
void settings_replace(struct watch_settings *s, struct watch_settings *by);
