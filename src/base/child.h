// Work that may hang or eat memory, in a child process with a deadline.
#pragma once

#include "base/arena.h"

/** For deadlines. */
int64_t now_ms(void);

enum child_end { CHILD_GOOD, CHILD_LATE, CHILD_CRASHED, CHILD_MEMORY, CHILD_REFUSED };

struct child {
	int pid;
	int fd; // what it writes comes from here
};

/** Starts @work in a child, which limits itself to 1 GB and has a descriptor to write to. false: errno says why there is none. */
bool child_begin(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, struct child *ret);
/** The same without limits of memory and processor time, for libraries that reserve more than they use. */
bool child_begin_free(void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret);
/** Where a standard descriptor is closed, the next file that is opened would take its place. What stands there instead can be neither read nor
 * written, as if it were closed. */
void hold_descriptors(void);
/** In the child: closes every descriptor but @fd. One that it keeps would stay open for as long as it is stuck: who reads unhang's output
 * waits for its end. */
void child_keep_only(int fd);
/** Collects what it writes, until it has ended or @deadline; more than @most bytes are CHILD_MEMORY. Unless CHILD_GOOD it may still
 * run. */
enum child_end child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret);
/** Whether a thread of a child (its own id: the first) has done anything since the last call, or could: it was given a processor, got
 * memory, or waits for either. One that sleeps in the kernel has not. @last: zero at first. */
bool child_moves(int pid, int thread, uint64_t *last);
/** false where it does not die in @milliseconds: one that sleeps in the kernel does not, and is left behind. */
bool child_kill(struct child *c, int milliseconds);

/** Runs @work in a child and collects what it writes to its descriptor. false where the child did not end well in @milliseconds, or
 * wrote more than @most bytes. */
bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret);

/** Runs @work in a child that fills @size bytes, zeroed, of memory that parent and child share; what is not touched costs nothing.
 * Unless CHILD_GOOD, nothing is returned in @ret_room; else its owner unmaps it. MEMORY: it was refused memory, as it limits itself
 * to 1 GB; REFUSED: errno says why there was no child. */
enum child_end child_fill(void (*work)(void *room, size_t size, const void *ctx), const void *ctx, int milliseconds,
			  size_t size, void **ret_room);
