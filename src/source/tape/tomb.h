// Tombstones: reads of the driver that never returned, over all processes of unhang on this machine. A child that sleeps in the kernel and
// cannot be killed is left behind, and a note in /run/unhang/blocked says which file of which GPU it waits for. As long as it waits,
// nobody asks that GPU's files again: one such child is evidence, a hundred are harm.
//
// Where the kernel panics if a task sleeps for long (kernel.hung_task_panic), no file is asked that may never return.
#pragma once

#include "source/probe.h"

#define TOMB_DIRECTORY "/run/unhang/blocked"
/** In the environment: files that may block are read although the kernel would panic. */
#define TOMB_MAY_BLOCK "UNHANG_MAY_BLOCK"

/** Whether @path may wait for the driver or the GPU without end. */
bool tomb_may_block(struct str path);
/** Marks what is not to be asked (probe->buried). */
void tomb_mark(struct arena *a, struct probe_batch *b);
/** Gives it the answer that it would have had: it is stuck, and where. */
void tomb_tell(struct arena *a, struct probe_batch *b);
/** Notes that the child @pid is left behind at @path. */
void tomb_bury(int pid, struct str path);
/** Whether the kernel panics if a task sleeps for long, and nobody said that it does not matter. */
bool tomb_panics(void);
