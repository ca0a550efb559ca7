// The hand and the mind of the watch. The mind reads what the kernel and the driver wrote, and decides: it has no rights, and opens nothing.
// The hand has root's rights and reads nothing of strangers. It starts the eye, the pulse and jobs, writes records, and answers the mind.
#pragma once

#include "base/child.h"
#include "watch/watch.h"

enum hand_task {
	HAND_EYE,     // starts the eye; the text is the place up to which the log was read
	HAND_PULSE,   // starts the pulse
	HAND_LOOK,    // starts a job: looks at the GPUs; the text of each job is the record of an incident
	HAND_CAPTURE, // the same: saves the evidence
	HAND_EXPLAIN, // the same: explains it
	HAND_HOOKS,   // the same: runs the hooks
	HAND_END,     // kills one of them: the text is eye, pulse or job
	HAND_SAVE,    // stores the record of an incident
	HAND_PLACE,   // stores up to where the log was read
	HAND_STATE,   // writes state.json
	HAND_NOTIFY,  // tells systemd
	HAND_CLOSES,  // whether an operator wants an incident closed: the text is its id; the answer says why
	HAND_HOLD,    // has a word written into a recording (attend.h)
	HAND_TASKS
};

/** In the mind: asks for it and waits for the answer. false: it was not done; *@ret_why says why. Else it is what the hand
 * answered. *@ret_fd, where something was started, is
 * what it writes; both may be NULL. Where the hand is gone, the process ends. */
bool hand_ask(int hand, enum hand_task task, struct str text, struct text *ret_why, int *ret_fd);

enum { HAND_ATTENDANTS = 32 };

/** How it serves. */
struct hand {
	const struct watch_options *options;
	const struct know *know;
	const struct watch_hands *hands;
	struct watch_settings settings;
	struct child mind, eye, pulse, job;
	struct child attendants[HAND_ATTENDANTS];
	unsigned attended; // how often
	int socket;        // to the mind
	int lock;          // of the place where incidents are stored; its children close it
	bool stop, again;  // again: a mind before this one crashed, or was killed
	int64_t stop_by;   // when the mind must have ended; 0: it need not
};

/** Runs @mind in a child that has no rights, and serves it until it ends. One that crashes is started again, unless @h->stop. */
struct uh_error *hand_serve(struct hand *h, void (*mind)(int hand, void *ctx), void *ctx);
/** Blocks the signals that hand and mind obey; they come through the descriptor. @children: that one ended, too. */
int hand_signals(bool children);
/** What the options say in place of the configuration. */
void hand_override(struct watch_settings *s, const struct watch_options *o);
