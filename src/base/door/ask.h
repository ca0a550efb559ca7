// Questions to the reader (the child of door.h), and the files that it has open.
#pragma once

#include "base/door/room.h"

enum { DOOR_BLOCKS = 8 };

struct door_block {
	uint64_t at;
	size_t n;
	char *bytes; // NULL: none
};

struct door_file {
	char *path, *below, *root;
	bool believed, as_caller, inside; // as in struct named
	struct opened opened;             // .fd is the reader's
	unsigned generation;
	_Atomic unsigned owners;
	_Atomic int silent; // milliseconds after which it was given up; nobody waits for it again. 0: it answers
	bool seen;          // something came through this FIFO
	struct door_block blocks[DOOR_BLOCKS];
	unsigned next_block;
};

struct question {
	enum door_act act;
	struct door_file *file;
	unsigned thread;
	int window; // a window of door_scan_begin(); -1: the box's own
	uint64_t offset;
	size_t size;
	// The answer, until question_end().
	struct door_room *room;
	struct door_box *box;
	unsigned lock;
};

/** Asks the child, or a new one if the last was lost. Without an error, the answer stays in the box until question_end(). */
struct uh_error *question_ask(struct question *q);
void question_end(struct question *q);
/** How many milliseconds to wait for the next answer. */
int door_patience_now(void);
/** Whether this file did not answer before. */
bool door_known_silent(const struct door_file *f);
/** Leaves it to the reader to close the file. */
void door_close_later(const struct door_file *f);
