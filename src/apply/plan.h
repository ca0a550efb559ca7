// Plans: what a change of knowledge/ writes on this machine. And the other way round: whether what was written is in effect.
#pragma once

#include "apply/applied.h"
#include "host/host.h"

struct apply_request {
	struct str id, title;
	const struct know_change *change;
};

/** Lines for people, freed with apply_notes_free(). */
struct apply_notes {
	struct arena arena;
	VEC(struct str) list;
};
void apply_note(struct apply_notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
void apply_notes_free(struct apply_notes *n);

/** An error if something of the machine could not be read, since the plan depends on it. NULL: all was read. */
struct uh_error *apply_unread(const struct host *h, struct str id);
/** What to write for the kernel and module parameters of @r. The error says why nothing can be written. @have: earlier changes. */
struct uh_error *applied_plan(struct host *h, const struct applied_list *have, const struct apply_request *r, int64_t now,
			      struct applied *ret, struct apply_notes *notes);
/** What the user has to run so that the change, or its undoing, takes effect. */
struct apply_commands {
	struct arena arena;
	VEC(const struct command *) list;
};
void applied_commands(const struct host *h, const struct applied *a, bool undo, struct apply_commands *ret);
void apply_commands_free(struct apply_commands *c);
/** The value of a parameter that is in effect, and where it was seen. false: not known, or not set. */
bool value_in_effect(struct host *h, struct str name, struct str *ret, struct str *ret_where);

// --- verify.c ---

enum judged_state { JUDGED_ACTIVE, JUDGED_WRITTEN, JUDGED_CHANGED, JUDGED_HALF };
struct judged {
	enum judged_state state;
	bool needless; // the versions on this machine make it unnecessary
	bool stale;    // the machine was not restarted since
	struct apply_notes why;
};
/** When this machine was started, in seconds since 1970; -1: not known. */
int64_t boot_time(struct host *h);
/** @booted: boot_time(). */
void applied_judge(struct host *h, const struct applied *a, int64_t booted, struct judged *ret);
const char *judged_name(enum judged_state s);

// --- profile.c: variables for one job, no change of the system ---

/** Writes ID.sh and ID.json into @directory. */
struct uh_error *profile_write(const char *directory, const struct apply_request *r);
/** The shell file's text. */
struct uh_error *profile_text(const struct apply_request *r, struct text *ret);
/** Removes those of the two files that are ours. *ret: how many. */
struct uh_error *profile_remove(const char *directory, struct str id, unsigned *ret);
/** Whether one of the two is there, and ours. */
bool profile_there(const char *directory, struct str id);
