// Stuck reads: reads of the driver that never returned, over all processes of unhang on this machine. A child that sleeps in the kernel and
// cannot be killed is left behind, and a note in /run/unhang/blocked says which file of which GPU it waits for. As long as it waits,
// nobody asks that GPU's files again: one such child is evidence, a hundred are harm.
//
// Where the kernel panics if a task sleeps for long (kernel.hung_task_panic), no file is asked that may never return.
#pragma once

#include "source/probe.h"

#define STUCK_READS_DIRECTORY "/run/unhang/blocked"
/** In the environment: files that may block are read although the kernel would panic. */
#define STUCK_READS_MAY_BLOCK "UNHANG_MAY_BLOCK"

/** Marks what is not to be asked (probe->buried). */
void stuck_reads_mark(struct probe_batch *b);
/** Gives it the answer that it would have had: it is stuck, and where. */
void stuck_reads_tell(struct arena *a, struct probe_batch *b);
/** Notes that the child @pid is left behind at @path. */
void stuck_reads_note_child(int pid, struct str path);

// Before a file that may block is asked, its child takes the GPU: of all processes of unhang one at a time asks such files of it, so that one at
// most can be left behind, however many begin at the same moment. The lock ends with the child, and not before.

#define STUCK_READS_READING "/run/unhang/reading"
enum { STUCK_READS_KEY_MOST = 64 };

struct stuck_reads_hold {
	int fd; // of the lock; -1: none
	char key[STUCK_READS_KEY_MOST];
	int milliseconds;         // that one operation may take
	void (*waits)(void *ctx); // is called while another child has it
	void *ctx;
};
/** In the child, before it opens @path. What it held before is given back. false: another child has it, and does not come back. */
bool stuck_reads_take(struct stuck_reads_hold *h, struct str path);
/** In the parent, after that: notes the other child. */
void stuck_reads_adopt(struct str path);
