// What a batch's child and its parent share (probe.c, probe_child.c).
#pragma once

#include <stdatomic.h>

#include "source/probe.h"

/** What a child writes: how far it is, an answer for each operation, then the bytes. */
struct probe_answer {
	_Atomic int end; // enum probe_end
	int error;
	size_t at, n; // bytes, in the room
};
struct probe_room {
	_Atomic size_t current, operations;
	_Atomic int64_t moved; // when the last operation began
	_Atomic bool done;
	_Atomic size_t held; // one more than the operation that another process's child stands in the way of; 0: none
	struct probe_answer answers[];
};

struct probe_work {
	const struct probe *probes;
	size_t n;
	struct probe_room *room;
	size_t size;
	int parent;
	const char *root;
	int root_fd;      // in the child
	int milliseconds; // that an operation may take
	bool goes_on;
};

/** The room that an answer may need. */
static inline size_t probe_size(const struct probe *p)
{
	enum { PAGE = 4096 };
	return p->kind == PROBE_IOCTL ? p->argument_size : p->size ? p->size : PAGE;
}
/** The child: @ctx is a struct probe_work. */
void probe_child(int pipe, const void *ctx);
