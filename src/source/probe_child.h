// Readers: children that stay and read one batch after the other (probe.c has the parent's side, probe_child.c the child's). A batch
// comes to its reader in memory that both share, and its answers appear there one by one, so that what a reader had read before it got
// stuck is not lost.
#pragma once

#include <stdatomic.h>

#include "base/child.h"
#include "source/probe.h"

/** What a reader writes for each operation. */
struct probe_answer {
	_Atomic int end; // enum probe_end
	int error;
	size_t at, n; // bytes, in the room
	uint32_t microseconds;
};

/** ANSWERED: all answers are there, but it still closes files, which may take long; only one that is idle can be asked. */
enum reader_state { READER_IDLE, READER_ASKED, READER_ANSWERED };

/** The memory that they share: the batch as a message of probe_batch_kind, then the answers, then their bytes. */
struct probe_room {
	_Atomic uint32_t state; // enum reader_state
	int milliseconds;       // that an operation of this batch may take
	int processor_ms;       // that the batch may keep a processor busy
	size_t question, answers;
	_Atomic size_t current, operations;
	_Atomic int64_t moved; // when the last operation began
	_Atomic size_t held;   // one more than the operation that another process's child stands in the way of; 0: none
};

static inline struct probe_answer *room_answers(struct probe_room *r)
{
	return (struct probe_answer *)(void *)((char *)r + r->answers);
}

/** The room that an answer may need. */
static inline size_t probe_size(const struct probe *p)
{
	enum { PAGE = 4096 };
	return p->kind == PROBE_IOCTL ? p->argument_size : p->size ? p->size : PAGE;
}

/** The child's work: reads until it is ended. @ctx: the struct probe_room. */
void probe_child(int pipe, const void *ctx);

extern const struct wire_kind probe_batch_kind;   // what is asked
extern const struct wire_kind probe_answers_kind; // and what is answered: to the privileged reader, which shares no memory
/** Whether an operation that was received has all that it needs: an ioctl without its argument would read what is nobody's. */
bool probe_complete(const struct probe *p);
/** Hands over what was answered. false: those are answers to another batch. */
bool probe_batch_answered(struct probe_batch *b, const struct probe_batch *answers);
