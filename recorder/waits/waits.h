// Where packets wait for others, and where they begin later: the table that `unhang bisect` hands to a run (UNHANG_WAITS). All waits are
// barriers that the GPU itself waits at, so that the program's threads go on as they would; only a row `host` has them wait, too.
#pragma once

#include "recorder/inputs/held.h"

enum {
	WAITS_QUEUES = 31,           // numbers of queues that rows may name; a queue beyond them waits for none
	WAITS_COPIES = WAITS_QUEUES, // copies that the runtime makes by itself are no queue's
	WAITS_PLACES,
	WAITS_EACH = 10, // packets that one packet of the program may bring along
	WAITS_ROWS = 4096,
	WAITS_FILE = 1 << 20,
	BARRIER_HEADER = AQL_KIND_BARRIER_AND | 1 << 8 | 2 << 9 | 2 << 11,
};

/** Packets, by where they are and what they run. */
struct wait_op {
	int place;  // queue, or WAITS_COPIES; -1: any
	char *name; // of the kernel; NULL: any
};

enum wait_does {
	WAIT_FOR,   // @who begins when what was launched before of @whom has ended
	WAIT_HOST,  // who launches @who goes on when it has ended
	WAIT_DELAY, // @who begins @us microseconds later
	WAIT_NOT,   // @who is left alone: it waits for others, or others for it
	WAIT_TRACE, // who launches @who is noted, and who allocates
};

struct tail;
struct wait_row {
	enum wait_does does;
	struct wait_op who, whom;
	uint32_t us;
	struct tail *last[WAITS_PLACES]; // what was launched last of @whom, by its place
};

struct wait_table {
	struct wait_row *rows;
	size_t n;
	uint32_t deadline; // milliseconds of one wait
};

/** Reads the lines of a table, which it changes, and whose names the rows point to from now on. false: it is none; *ret_line is the line that is
 * wrong. */
bool waits_parse(char *text, struct wait_table *ret, unsigned *ret_line);
/** What UNHANG_WAITS names; without it, nothing waits. */
void waits_begin(void);
/** Whether queues must be made so that packets can be held: also with an empty table, so that a control differs by its rows alone. */
bool waits_on(void);
/** The runtime ends. */
void waits_end(void);

/** What a queue has of it; NULL: it has none. */
struct waiting *waiting_new(hsa_handle agent, uint32_t queue);
void waiting_free(struct waiting *w);
/** Packets to be put before and behind one of the program's. They return how many they wrote. */
size_t waits_before(struct waiting *w, const uint64_t *packet, uint64_t (*to)[8]);
size_t waits_behind(struct waiting *w, const uint64_t *packet, uint64_t (*to)[8]);
// traces.c
void traces_begin(bool wanted);
extern _Atomic bool traces_wanted;
static inline bool traces_on(void) { return atomic_load_explicit(&traces_wanted, memory_order_relaxed); }
/** Notes who asked for memory at the address @what (@place is REC_TRACE_MEMORY), or launched the kernel object @what at @place. */
void trace_note(uint64_t what, uint64_t place);

/** After a doorbell: waits where a row says that who launches does. */
void waits_host(void);
/** A queue of the GPU has failed, or its memory: what does not end any more is no fault of a wait. */
void waits_failed(void);

/** A copy of the program, which the runtime makes: what it waits for, with what it would wait for anyway. */
enum { COPY_SIGNALS = 64 };
struct copy_waits {
	hsa_handle signals[COPY_SIGNALS];
	uint32_t n;
	struct tail *tails[WAITS_PLACES + 1]; // of ours among them
	size_t ntails;
	bool used;
};
void waits_copy(struct copy_waits *c, uint32_t n, const hsa_handle *signals);
void waits_copied(const struct copy_waits *c, hsa_handle completion);
