// Work that may hang or eat memory, in a child process with a deadline.
#pragma once

#include "base/arena.h"

/** Runs @work in a child and collects what it writes to its descriptor. false where the child did not end well in @milliseconds, or
 * wrote more than @most bytes. */
bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret);

enum child_end { CHILD_GOOD, CHILD_LATE, CHILD_CRASHED, CHILD_MEMORY, CHILD_REFUSED };

/** A child that was begun. */
struct child {
	int pid, fd;
	int64_t deadline;
	void *room;
	size_t size;
};

/** Begins @work in a child that fills @size bytes, zeroed, of memory that parent and child share; what is not touched costs nothing.
 * CHILD_REFUSED: errno says why there was none. Whoever began it ends it. */
enum child_end child_begin(void (*work)(void *room, size_t size, const void *ctx), const void *ctx, int milliseconds,
			   size_t size, struct child *ret);
/** Waits for it. Unless CHILD_GOOD, nothing is returned in @ret_room; else its owner unmaps it. MEMORY: it was refused memory, as it
 * limits itself to 1 GB. */
enum child_end child_finish(struct child *c, void **ret_room);
/** Kills it. */
void child_cancel(struct child *c);
