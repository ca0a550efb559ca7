// The life of an incident under the watch: where it stands, what may happen to it, and what becomes of it then (the table is in life.c).
//
// A state says what is still to be done for an incident; whether a child does it right now, watcher.job says. The record on the disk has
// fewer states (enum stored_state): what is to be done after a restart follows from its bundle and from what the hooks were told.
#pragma once

#include "store/store.h"

struct watcher;

enum case_state {
	CASE_NEW,        // the log tells of something; the lines of it may still come
	CASE_CAUSELESS,  // it was concluded without a cause that is worth telling; a further sign may bring one
	CASE_SUSPECTED,  // signs of progress stand, not for long enough: nobody is woken
	CASE_CAPTURING,  // it is told: its evidence is to be saved
	CASE_EXPLAINING, // its bundle is to be explained
	CASE_TELLING,    // the hooks are to be told of it
	CASE_WATCHED,    // all is done; the log may tell more of it
	CASE_QUIET,      // the log has told nothing for the quiet time, or never did: only a look can say that it has recovered
	CASE_LATE_CAPTURING,  // closed, as all below: but its evidence is still to be saved
	CASE_LATE_EXPLAINING, // to be explained once more, with the log up to its end
	CASE_LATE_TELLING,    // the hooks are to be told that it is over
	CASE_OVER,            // nothing is left to do
	CASE_DROPPED,         // it never was one of its own: a part of another, or an earlier watch has told and closed it
	CASE_STATES,
	CASE_SAME = CASE_STATES, // in the table: stays where it is
};

enum case_input {
	INPUT_NEXT,        // nothing happened: whether what the state asks for is done already
	INPUT_CAUSELESS,   // the log was concluded, and nothing of it is worth telling
	INPUT_KNOWN,       // an earlier watch has stored and closed it
	INPUT_RESUMED,     // an earlier watch has stored it: this one goes on with it
	INPUT_SUSPECTED,   // votes stand
	INPUT_OPENED,      // the driver, a held program or new evidence tells of it
	INPUT_HUNG,        // votes stand for long enough
	INPUT_MOVES,       // they move again
	INPUT_LINES,       // the driver tells of what a look or a held program had told of before
	INPUT_CHANGED,     // the log makes another class of it
	INPUT_QUIETED,     // the engine ended it: nothing came for the quiet time, or its boot is over
	INPUT_CAPTURED,    // there is a bundle
	INPUT_UNCAPTURED,  // there is none, and never will be: .taken says why
	INPUT_REFUSED,     // none is allowed: .stored.bundle says why
	INPUT_KILLED,      // the child that captured was killed
	INPUT_ROOM,        // the disk was full, and has room again
	INPUT_EXPLAINED,   // its bundle is
	INPUT_UNEXPLAINED, // it could not be
	INPUT_TOLD,        // the hooks have run
	INPUT_TELLER_KILLED,
	INPUT_LOOKED,   // its GPU was looked at; what was seen may be well, unwell or unknown
	INPUT_UNSEEN,   // that look did not answer
	INPUT_BOOT,     // its boot is over
	INPUT_CLOSE,    // an operator wants it closed, it is a part of another, or there are too many: .why
	INPUT_GIVE_WAY, // there are too many: nothing more is done for it
	INPUTS
};

/** Sets of states. */
#define AT(state) (1u << CASE_##state)
#define CASES_NEW (AT(NEW) | AT(CAUSELESS))
#define CASES_CAPTURING (AT(CAPTURING) | AT(LATE_CAPTURING))
#define CASES_EXPLAINING (AT(EXPLAINING) | AT(LATE_EXPLAINING))
#define CASES_TELLING (AT(TELLING) | AT(LATE_TELLING))
#define CASES_BUSY (CASES_CAPTURING | CASES_EXPLAINING | CASES_TELLING)
#define CASES_TOLD (AT(CAPTURING) | AT(EXPLAINING) | AT(TELLING) | AT(WATCHED) | AT(QUIET))
#define CASES_OPEN (CASES_TOLD | AT(SUSPECTED))
#define CASES_LATE (AT(LATE_CAPTURING) | AT(LATE_EXPLAINING) | AT(LATE_TELLING))
#define CASES_CLOSED (CASES_LATE | AT(OVER))
#define CASES_STORED (CASES_OPEN | CASES_CLOSED)

enum { NOT_IN_LOG = -1, SAVE_NOW = 1 };

/** An incident while it is watched. */
struct watch_case {
	struct arena arena;
	struct stored stored;
	enum case_state state;
	int64_t order;    // the engine's number of it; NOT_IN_LOG: the engine has it no more, or never had
	unsigned tries;   // how often what the state asks for failed
	struct str taken; // what came of the capture; in the record when it is explained, so that a restart explains it
	struct str why;   // of INPUT_CLOSE and INPUT_MOVES
	uint64_t signs;   // that were there when it was last concluded
	int64_t due;      // when it may be concluded next
	int64_t wait;     // and the pause behind that
	int64_t check;    // when to look whether the GPU is well again; 0: not
	int64_t patience; // the pause behind that look
	int64_t unsaved;  // when the record is to be written: SAVE_NOW, or when that is tried again; 0: the disk has it
	uint64_t lacked;  // free bytes from which on its bundle is tried again, since the disk was full; 0: not
};

static inline bool case_is(const struct watch_case *c, unsigned states) { return (1u << c->state & states) != 0; }

/** A row of the table: what happens in one of these states. The first whose guard holds counts; NULL: it always does. The state is the next
 * one already when the action runs. */
struct case_row {
	unsigned states;
	enum case_input input;
	bool (*guard)(const struct watcher *w, const struct watch_case *c);
	void (*action)(struct watcher *w, struct watch_case *c);
	enum case_state next;
};
extern const struct case_row case_rows[];
extern const size_t case_nrows;

/** All that happens to an incident enters here. What has no row is a defect: a debug build stops at it, others note it once and leave the
 * incident as it is. false: it was one. */
bool case_input(struct watcher *w, struct watch_case *c, enum case_input input);
/** A value of the record; an empty one is none. */
void case_set(struct watch_case *c, struct str *to, struct str value);
/** Writes the record, where it is old and not just failed to be written. */
void case_save(struct watcher *w, struct watch_case *c);

/** Whether there is a bundle: what was captured tells more than the log alone. */
bool case_has_bundle(const struct watch_case *c);
/** Whether it lasts until the machine is started again: the machine itself is at fault, and looks well meanwhile. */
bool case_lasts(const struct stored *i);
