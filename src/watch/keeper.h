// The keeper and the judge of the watch. The judge reads what the kernel and the driver wrote, and decides: it has no rights, and opens nothing.
// The keeper has root's rights and reads nothing of strangers. It starts the log reader, the pulse and jobs, writes records, and answers the judge.
#pragma once

#include "base/child.h"
#include "watch/watch.h"

enum keeper_task {
	KEEPER_LOG,     // starts the log reader; the text is the place up to which the log was read
	KEEPER_PULSE,   // starts the pulse
	KEEPER_LOOK,    // starts a job: looks at the GPUs; the text of each job is the record of an incident
	KEEPER_CAPTURE, // the same: saves the evidence
	KEEPER_EXPLAIN, // the same: explains it
	KEEPER_HOOKS,   // the same: runs the hooks
	KEEPER_END,     // kills one of them: the text is log, pulse or job
	KEEPER_SAVE,    // stores the record of an incident
	KEEPER_PLACE,   // stores up to where the log was read
	KEEPER_TREND,   // adds to the corrected errors that are kept
	KEEPER_STATE,   // writes state.json
	KEEPER_NOTIFY,  // tells systemd
	KEEPER_CLOSES,  // whether an operator wants an incident closed: the text is its id; the answer says why
	KEEPER_HOLD,    // has a word written into a recording (answer.h)
	KEEPER_LINES,   // adds lines to the history
	KEEPER_NOTE,    // starts a job: how the machine is set up
	KEEPER_SHIP,    // the same: brings the history to where others collect it
	KEEPER_TASKS
};

/** In the judge: asks for it and waits for the answer. false: it was not done; *@ret_why says why. Else it is what the keeper
 * answered. *@ret_fd, where something was started, is
 * what it writes; both may be NULL. Where the keeper is gone, the process ends. */
bool keeper_ask(int keeper, enum keeper_task task, struct str text, struct text *ret_why, int *ret_fd);

enum { KEEPER_ANSWERERS = 32 };

/** How it serves. */
struct keeper {
	const struct watch_options *options;
	const struct know *know;
	const struct watch_helpers *helpers;
	struct watch_settings settings;
	struct child judge, reader, pulse, job;
	struct child answerers[KEEPER_ANSWERERS];
	unsigned answered; // how often
	int socket;        // to the judge
	int lock;          // of the place where incidents are stored; its children close it
	bool stop, again;  // again: a judge before this one crashed, or was killed
	int64_t stop_by;   // when the judge must have ended; 0: it need not
};

/** Runs @judge in a child that has no rights, and serves it until it ends. One that crashes is started again, unless @h->stop. */
struct uh_error *keeper_serve(struct keeper *h, void (*judge)(int socket, const struct keeper *keeper));
/** Blocks the signals that keeper and judge obey; they come through the descriptor. @children: that one ended, too. */
int keeper_signals(bool children);
/** What the options say in place of the configuration. */
void keeper_override(struct watch_settings *s, const struct watch_options *o);
