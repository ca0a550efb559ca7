// Work that may hang or eat memory, in a child process with a deadline.
#pragma once

#include "base/arena.h"

/** Milliseconds of a clock that only runs forwards, for deadlines. */
int64_t now_ms(void);

enum child_end { CHILD_GOOD, CHILD_LATE, CHILD_CRASHED, CHILD_MEMORY, CHILD_REFUSED };

struct child {
	int pid;
	int fd; // the child's output is read from here
};

/** Starts @work in a child, which writes its answer to a descriptor. The child may use 1 GB. false: there is no child, see errno. */
bool child_begin(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, struct child *ret);
/** The same without limits of memory and processor time, for libraries that reserve more than they use. */
bool child_begin_free(void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret);
/** Fills in the standard descriptors that are closed, since otherwise the next file opened would become one. The filling can be neither
 * read nor written, as if it were still closed. */
void hold_descriptors(void);
/** Closes the descriptors from @first to @last. Linux before 5.9 has no call for that, and old container runtimes refuse it: then they are
 * closed one by one. */
void close_between(int first, int last);
/** The same from @first on. */
void close_from(int first);
/** In a child of @parent, at its beginning: it is killed when its parent ends, and ends now if that has ended already. Children that are
 * started here do so themselves. */
void child_of(int parent);
/** In the child: closes every descriptor but @fd. A stuck child would keep the others open, and a reader of unhang's output would
 * never see its end. */
void child_keep_only(int fd);
/** The same for a child that also reads from @other. */
void child_keep_two(int fd, int other);
/** Collects the child's output until it ends or @deadline passes. More than @most bytes give CHILD_MEMORY. Unless the answer is
 * CHILD_GOOD, the child may still be running. */
enum child_end child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret);
/** Whether a thread of a child has made progress since the last call, or is able to: it ran, got memory, or waits for one of the two.
 * A thread that sleeps in the kernel has not. The first thread's id is the child's. @last: zero at the first call. */
bool child_moves(int pid, int thread, uint64_t *last);
/** Kills the child. false: it did not die in @milliseconds, because it sleeps in the kernel, and is left behind. */
bool child_kill(struct child *c, int milliseconds);

/** Runs @work in a child and collects its output. false: the child did not end well in @milliseconds, or wrote more than @most
 * bytes. */
bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret);

/** Runs @work in a child that fills @size bytes of zeroed memory, which parent and child share. Pages that it does not touch cost
 * nothing. CHILD_GOOD: *ret_room has the memory, and the caller unmaps it; otherwise *ret_room is not set. CHILD_MEMORY: the child
 * needed more than 1 GB. CHILD_REFUSED: there was no child, see errno. */
enum child_end child_fill(void (*work)(void *room, size_t size, const void *ctx), const void *ctx, int milliseconds,
			  size_t size, void **ret_room);
