// Work that may hang or eat memory, in a child process with a deadline.
#pragma once

#include "base/arena.h"
#include "base/child/rights.h"
#include "base/child/wire.h"

/** Milliseconds of a clock that only runs forwards, for deadlines. */
int64_t now_ms(void);

enum child_end { CHILD_GOOD, CHILD_LATE, CHILD_CRASHED, CHILD_MEMORY, CHILD_REFUSED };

struct child {
	int pid;
	int fd; // the child's output is read from here
};

/** Starts @work in a child, which writes to a descriptor. Its rights, and what memory and time it may use, are those that the table of
 * child/rights.h has for its name. For one that stays, or sends a stream; whoever wants one answer uses child_call(). false: there is no
 * child, see errno. */
bool child_start(enum child_name name, void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret);
/** In a child whose row says `later`: puts its rights down now. Files that are open stay open. false: it still has them, and must end. */
bool child_put_down(enum child_name name);
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
/** In a child that may be left behind: its standard descriptors lead nowhere. Whoever reads the output of unhang waits until nobody has it
 * open any more. */
void child_quiet(void);
/** The same as child_keep_only() for a child that also reads from @other. */
void child_keep_two(int fd, int other);
/** Collects the child's output until it ends or @deadline passes. More than @most bytes give CHILD_MEMORY. Unless the answer is
 * CHILD_GOOD, the child may still be running. */
enum child_end child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret);
/** Whether a thread of a child has made progress since the last call, or is able to: it ran, got memory, or waits for one of the two.
 * A thread that sleeps in the kernel has not. The first thread's id is the child's. @last: zero at the first call. */
bool child_moves(int pid, int thread, uint64_t *last);
/** Whether it has ended, or closed its descriptor, which is the same for one that never writes. */
bool child_ended(const struct child *c);
/** Kills the child. false: it did not die in @milliseconds, because it sleeps in the kernel, and is left behind. */
bool child_kill(struct child *c, int milliseconds);

// Turns, in memory that two processes share: who waits sleeps until the word changes, or @milliseconds have passed (0: without end).

void futex_wait(_Atomic uint32_t *word, uint32_t value, int milliseconds);
void futex_wake(_Atomic uint32_t *word);

/** Kills and closes what is still there. The guard of a child that must not outlive a function. */
void child_drop(struct child *c);
#define _cleanup_child_ _cleanup_(child_drop)

/** Something that a child does. @work fills in *@answer, which is zeroed and lies in the child's own memory; what the answer points to may
 * lie anywhere in that memory, as in @a, because the parent gets a copy: child_call() sends it as @kind says and takes it apart again,
 * refusing what does not fit (child/wire.h). What is asked needs no sending: the child is a copy of its parent and reads @asked there. */
struct child_task {
	enum child_name name; // rights and limits, by the table
	void (*work)(const void *asked, struct arena *a, void *answer);
	const struct wire_kind *kind; // of the answer
	int64_t deadline;             // of now_ms(); 0: the table's time from now on
	size_t most;                  // bytes of the answer; 0: 1 MB
	int busy_ms; // so much longer while it works: who has a deadline of less than a second tells slow from stuck
};
/** Has it done. CHILD_GOOD: *@ret is the answer, and what it points to lies in @a; otherwise *@ret is zeroed. CHILD_LATE: it did not answer in
 * time and was killed. CHILD_CRASHED: it died, or answered nonsense. CHILD_MEMORY: it needed more than it may use, or answered more than
 * @most. CHILD_REFUSED: there was no child, see errno.
 *
 *	struct answer answer;
 *	const struct child_task task = { CHILD_SPACE, ask_space, &answer_kind };
 *	if (child_call(&task, directory, a, &answer) == CHILD_GOOD) ...
 */
enum child_end child_call(const struct child_task *t, const void *asked, struct arena *a, void *ret);
/** What child_call() stands on, without the codec: runs @work and collects its output. */
enum child_end child_collect(const struct child_task *t, void (*work)(int fd, const void *ctx), const void *ctx,
			     struct text *ret);

/** Runs @work in a child that fills @size bytes of zeroed memory, which parent and child share. Pages that it does not touch cost
 * nothing. Of @t only name and deadline count. CHILD_GOOD: *ret_room has the memory, and the caller unmaps it; otherwise *ret_room is not
 * set. The other ends are those of child_call(). */
enum child_end child_fill(const struct child_task *t, void (*work)(void *room, size_t size, const void *ctx), const void *ctx,
			  size_t size, void **ret_room);
