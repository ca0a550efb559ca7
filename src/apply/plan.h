// From what knowledge says to what is written here, and from what was written to whether it is in effect.
#pragma once

#include "apply/applied.h"
#include "host/host.h"

struct apply_request {
	struct str id, title;
	const struct know_change *change;
};

/** Lines for people. */
struct apply_notes {
	struct arena arena;
	VEC(struct str) list;
};
void apply_note(struct apply_notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
void apply_notes_free(struct apply_notes *n);

/** Refuses where something of the machine was not read: what is written where depends on it. NULL: all was read. */
struct uh_error *apply_unread(const struct host *h, struct str id);
/** What there is to write for its kernel and module parameters. The error is the reason why nothing is. @have: what was applied before. */
struct uh_error *applied_plan(struct host *h, const struct applied_list *have, const struct apply_request *r, int64_t now,
			      struct applied *ret, struct apply_notes *notes);
/** What the user runs so that it becomes active, or so that its undoing does. */
void applied_commands(const struct host *h, const struct applied *a, bool undo, struct apply_notes *ret);
/** A parameter in effect, and where that was seen; false: not known, or not set. */
bool value_in_effect(struct host *h, struct str name, struct str *ret, struct str *ret_where);

// --- verify.c ---

enum judged_state { JUDGED_ACTIVE, JUDGED_WRITTEN, JUDGED_CHANGED, JUDGED_HALF };
struct judged {
	enum judged_state state;
	bool needless; // versions here make it unnecessary
	bool stale;    // the machine was not started again since
	struct apply_notes why;
};
/** When this machine was started; -1. */
int64_t boot_time(struct host *h);
/** @booted: boot_time(). */
void applied_judge(struct host *h, const struct applied *a, int64_t booted, struct judged *ret);
const char *judged_name(enum judged_state s);

// --- profile.c: variables for one job, no change of the system ---

/** Writes ID.sh and ID.json into @directory. */
struct uh_error *profile_write(const char *directory, const struct apply_request *r);
/** The shell file's text. */
struct uh_error *profile_text(const struct apply_request *r, struct text *ret);
/** Removes those of the two that are ours; how many. */
struct uh_error *profile_remove(const char *directory, struct str id, unsigned *ret);
/** Whether one of the two is there, and ours. */
bool profile_there(const char *directory, struct str id);
