// The memory that unhang and its reader share.
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/door/door.h"

enum {
	DOOR_THREADS = 4, // ask at the same time
	DOOR_PAGE = 4096,
	DOOR_CLOSES = 256,
	DOOR_WHY = 1024,
};

enum door_act { DOOR_OPEN, DOOR_LOOK, DOOR_NAMES, DOOR_READ, DOOR_NEXT, DOOR_THREAD };

/** A question and its answer. */
struct door_box {
	_Atomic uint32_t turn;  // odd: the reader's turn, even: the asker's
	_Atomic uint32_t steps; // grows whenever the reader made progress
	_Atomic int thread;     // the reader's thread that serves this box
	enum door_act act;
	int handle, wait_ms;
	uint64_t offset;
	size_t size, to; // bytes that are wanted, and the place in the room that they go to
	int error;
	_Atomic size_t n; // bytes that came
	struct opened opened;
	char why[DOOR_WHY]; // in words, where no system call failed; else empty
	bool has_below, has_root, believed, as_caller, inside;
	char path[PATH_MAX], below[PATH_MAX], root[PATH_MAX];
};

struct door_room {
	bool for_code; // the child may open code that not everybody may read
	struct door_box boxes[DOOR_THREADS];
	// Descriptors to close. close() may wait for a server too, so nobody waits for it.
	_Atomic uint32_t to_close, closed;
	_Atomic int closes[DOOR_CLOSES];
	// Windows follow, each at the beginning of a page: one for each box, then those of the file that is scanned.
};

static inline size_t door_window_at(unsigned window)
{
	return (sizeof(struct door_room) + DOOR_PAGE - 1) / DOOR_PAGE * DOOR_PAGE + (size_t)window * DOOR_WINDOW;
}

static inline size_t door_room_size(void) { return door_window_at(DOOR_THREADS + DOOR_WINDOWS); }

/** Answers the question in a box. */
void door_serve(struct door_room *room, struct door_box *b);
/** The child's work: answers until it is killed. @ctx: struct door_start. */
struct door_start {
	struct door_room *room;
	bool for_code; // see door_begin_for_code()
};
void door_child(int pipe, const void *ctx);
