// How the clerk and the one that it serves speak: a head, then bytes. Numbers are little-endian.
#pragma once

#include "source/clerk/clerk.h"
#include "source/tape/format.h"

enum clerk_task { CLERK_PROBE, CLERK_FILE, CLERK_WORDS, CLERK_SHARED, CLERK_SPLIT, CLERK_FOLLOW, CLERK_TASKS };

enum { CLERK_QUESTION_MOST = 64 << 20, CLERK_WORDS_MOST = 1 << 14, CLERK_FILE_MOST = 64 << 10 };

struct clerk_head {
	uint32_t task;
	int32_t error; // of an answer
	uint64_t size; // of what follows
};

/** A question for probes. */
struct clerk_question {
	struct probe_batch *batches;
	size_t n;
	int milliseconds;
	bool patient;
	int64_t patience;
};

void clerk_put_question(struct text *to, const struct clerk_question *q);
/** Takes it off, into @a. false: it is none that anybody sends. */
bool clerk_take_question(struct str bytes, struct arena *a, struct clerk_question *ret);
void clerk_put_answer(struct text *to, const struct clerk_question *q, const struct probe_count *count);
/** Fills in what was answered. false: it is no answer to this question, and part of it may be filled in. */
bool clerk_take_answer(struct str bytes, struct arena *a, struct clerk_question *q, struct probe_count *count);

/** Sends; *@fd may be -1. false: nobody is there. */
bool clerk_send(int socket, const struct clerk_head *head, struct str bytes, int fd);
/** Receives at most @most bytes behind the head. @ret_fd may be NULL. */
bool clerk_receive(int socket, struct clerk_head *head, uint64_t most, struct text *bytes, int *ret_fd);

/** Whether it may be opened. */
bool clerk_may_open(struct str path, enum clerk_shared how);
/** Whether a file of a process with this name may be read. */
bool clerk_may_read(struct str name);
/** In the clerk: answers until nobody asks any more. @self: the process that `/proc/self` means. */
void clerk_serve(int socket, int self);
/** What the clerk does without being asked over a socket, for who has no clerk. */
void clerk_words_here(struct clerk_word *words, size_t n);
int clerk_open_here(const char *path, enum clerk_shared how);
int clerk_follow_here(const char *path, int64_t pid, int inotify);
