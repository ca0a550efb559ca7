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

/** How a path leads to a GPU: not at all; to what says which directory is whose; to a text that the driver has in memory, and that should answer
 * always; further down; by the render node. Of each one child may be left behind. */
enum tomb_way { TOMB_NONE, TOMB_NAME, TOMB_TEXT, TOMB_DEEP, TOMB_RENDER };
enum tomb_way tomb_way(struct str path);
/** Whether @path may wait for the driver or the GPU without end. */
bool tomb_may_block(struct str path);
/** Marks what is not to be asked (probe->buried). */
void tomb_mark(struct arena *a, struct probe_batch *b);
/** Gives it the answer that it would have had: it is stuck, and where. */
void tomb_tell(struct arena *a, struct probe_batch *b);
/** Notes that the child @pid is left behind at @path. */
void tomb_bury(int pid, struct str path);

// Before a file that may block is asked, its child takes the GPU: of all processes of unhang one at a time asks such files of it, so that one at
// most can be left behind, however many begin at the same moment. The lock ends with the child, and not before.

#define TOMB_READING "/run/unhang/reading"
enum { TOMB_KEY_MOST = 64 };

struct tomb_hold {
	int fd; // of the lock; -1: none
	char key[TOMB_KEY_MOST];
	int milliseconds;         // that one operation may take
	void (*waits)(void *ctx); // is called while another child has it
	void *ctx;
};
/** In the child, before it opens @path. What it held before is given back. false: another child has it, and does not come back. */
bool tomb_take(struct tomb_hold *h, struct str path);
/** In the parent, after that: notes the other child. */
void tomb_adopt(struct str path);
/** What all files share that are asked by one child at a time: the GPU and the way; and the note about who asks them. */
void tomb_key(struct str path, char ret[static TOMB_KEY_MOST]);
bool tomb_note(int pid, struct str path, struct text *ret);
struct tomb {
	int pid;
	char path[512];
};
/** The process of a note, where it is still the same; its state. */
bool tomb_of_note(struct str note, struct tomb *ret, char *ret_state);

/** Whether the kernel panics if a task sleeps for long, and nobody said that it does not matter. */
bool tomb_panics(void);
