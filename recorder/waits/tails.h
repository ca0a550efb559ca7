// Tails of packets, and what our thread looks after: shared by the files of waits/.
#pragma once

#include "recorder/waits/waits.h"

enum { TAILS_MOST = 16384, PENDING_MOST = 8192, WAITED_MOST = 5 };

struct tail {
	hsa_handle signal;
	uint64_t number; // in the order in which they were put; a later one of a queue fires later
	uint32_t users;  // rows and barriers that still want it
};

enum pending_kind {
	PENDING_WAIT,   // a barrier before a packet
	PENDING_DELAY,  // the first barrier of a delay
	PENDING_KEEP,   // the second: it still looks at its signal
	PENDING_LATE,   // a copy that is to begin later
	PENDING_COPY,   // a copy, whose signal is the program's: our thread fires the tail when it has ended
	PENDING_COPIES, // a copy that waits for these tails
};
/** Something that our thread looks after until it is over. */
struct pending {
	enum pending_kind kind;
	const struct waiting *queue;
	uint64_t count;     // of the queue's counter, when the barrier is over
	uint64_t since, us; // since: when it was put, or when a delay was reached; 0: it was not yet
	hsa_handle signal;  // of a copy
	struct tail *tails[WAITED_MOST];
};

struct waiting {
	struct waiting *next;
	hsa_handle agent, counter; // counted down by each barrier before a packet
	uint64_t counted;
	uint32_t queue;
	bool gone;
};

struct waits_state {
	pthread_mutex_t lock;
	pthread_t thread;
	_Atomic bool on, runs, stop;
	_Atomic bool failed; // the GPU's work has: what stands behind it will not end, and no wait is at fault
	struct wait_table table;
	char *text;
	struct tail *tails[TAILS_MOST];
	size_t ntails, turn;
	uint64_t number;
	struct pending pending[PENDING_MOST];
	size_t npending;
	struct waiting *queues;
	uint64_t moved; // when something was last over: waits are given up if nothing is for long
	bool told;
};
extern struct waits_state waits_all;

uint64_t now_us(void);
int64_t tail_value(hsa_handle signal);
void tail_set(hsa_handle signal, int64_t to);
// The lock is held for these.
/** One that nobody wants any more and that has fired, or a new one; NULL: there is none. */
struct tail *tail_new(hsa_handle agent);
/** Has it looked after. false: there are too many. */
bool pending_add(const struct pending *p);
void pending_end(struct pending *p);
/** Lets everything go that waits for its tails. */
void pending_fire(const struct pending *p);
void waits_thread_start(void);
