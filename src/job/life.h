// The life of a try: its states, what can happen to it, and what follows. All of it stands in one table (life.c), and nothing here waits, reads
// a clock or sends a signal: the loop says what happened and when, and does what the row says. So each row can be tested, and a million
// steps can be walked in a second.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum life_state {
	LIFE_STARTING,
	LIFE_RUNNING,
	LIFE_LOOKING, // its queues stand still: a helper looks at the GPUs, while the job runs on
	LIFE_HELD,    // a fault holds one of its processes: a helper saves what that still has
	LIFE_SAVING,  // it is to be ended: a helper saves what its processes and the GPU hold
	// Ending:
	LIFE_ASKED,  // the command has the SIGTERM of a scheduler, and --grace to end
	LIFE_TERMED, // all of its processes have SIGTERM
	LIFE_ALONE,  // the command has ended; whether it left processes is not known yet
	LIFE_LEFT,   // the command has ended; what it left has SIGTERM
	LIFE_KILLED, // all have SIGKILL, again and again
	// None of its processes is left, but for those that cannot die:
	LIFE_ENDED,
	LIFE_DECIDING,
	LIFE_RESTARTING, // waits before the next try
	LIFE_DONE,       // it ended well
	LIFE_GIVEN_UP,   // there is no other try
	LIFE_STATES,
};

enum life_input {
	// May come at any time. Where they have no row, they mean nothing.
	LIFE_IS_ASKED,        // somebody sent us SIGTERM, and the command lives
	LIFE_IS_COMMAND_GONE, // said again in each round
	LIFE_IS_TIME,
	// Come only where the loop looks for them.
	LIFE_IS_STARTED,
	LIFE_IS_REFUSED, // it was not started
	LIFE_IS_QUIET,   // its queues stand, and a look at the GPUs has begun
	LIFE_IS_LOOKED,
	LIFE_IS_FAULT, // holds one of its processes
	LIFE_IS_HANG,
	LIFE_IS_CALL,     // into the runtime, which does not return
	LIFE_IS_SILENT,   // --timeout-silent
	LIFE_IS_DEADLINE, // --deadline
	LIFE_IS_SAVED,    // the helper has answered
	LIFE_IS_EMPTY,    // the command has ended, and none of its processes is left
	LIFE_IS_LEFT,     // the command has ended, and others of its processes have not
	LIFE_IS_WELL,     // it ended well: there is nothing to explain
	LIFE_IS_EXPLAINED,
	LIFE_IS_RESTART, // the table `escalation` says so
	LIFE_IS_STOP,
	LIFE_INPUTS,
};

/** What the loop does, in this order. */
enum life_do {
	LIFE_DROP = 1 << 0,    // end the look at the GPUs
	LIFE_TAKE = 1 << 1,    // what the helper saved and found
	LIFE_RELEASE = 1 << 2, // let processes that a fault holds go on to their end
	LIFE_SAVE = 1 << 3,    // have a helper save
	LIFE_NAME = 1 << 4,    // the processes that the command left, for the report
	LIFE_TERM = 1 << 5,    // SIGTERM to all
	LIFE_KILL = 1 << 6,    // SIGKILL to all
	LIFE_ABANDON = 1 << 7, // name the processes that SIGKILL does not end, and leave them
};

/** Who or what ended it. */
enum life_why {
	WHY_ITSELF,
	WHY_ASKED,
	WHY_OUTLIVED, // asked, it did not end within --grace and was killed
	WHY_HANG,
	WHY_CALL,
	WHY_SILENT,
	WHY_DEADLINE,
};
enum life_command { COMMAND_RUNS, COMMAND_STOPPED, COMMAND_GONE };
/** Whether somebody wanted it to end, by any signal. */
enum life_asked {
	ASKED_NOT,
	ASKED_IN_TIME,
	ASKED_LATE, // its command had ended then
};

struct life {
	enum life_state state;
	enum life_why why;
	enum life_command command;
	enum life_asked asked;
	bool studied;       // its evidence was saved while it lived
	int64_t grace_ms;   // --grace
	int64_t kill_at;    // when SIGKILL is sent to all; 0: not
	int64_t abandon_at; // when processes that SIGKILL does not end are left; 0: it was not sent
	int64_t restart_at;
};

/** What rows ask for. Times are in milliseconds. */
struct life_facts {
	int64_t now;
	int64_t stood;    // so long its queues stand, with work on a GPU
	int64_t held;     // so long a fault still holds its processes
	int64_t ended_at; // when its command ended
	bool termed;      // by SIGTERM
	int64_t delay;    // before the next try
};

struct life_row {
	enum life_state state;
	enum life_input input;
	bool (*guard)(const struct life *l, const struct life_facts *f); // NULL: always
	unsigned does;                                                   // of enum life_do
	enum life_state next;
	enum life_why why; // that this makes of WHY_ITSELF
};

enum { LIFE_SPARE_MS = 3000 }; // of the grace, for ending the job

/** Takes one step, and returns the row that was taken. NULL: nothing follows from @i. */
const struct life_row *life_step(struct life *l, enum life_input i, const struct life_facts *f);
/** All rows, for tests. */
const struct life_row *life_rows(size_t *ret_n);
