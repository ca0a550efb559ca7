// How the privileged reader and the one that it serves speak: messages of base/child/wire.h over a socket, with a descriptor where one is handed over.
#pragma once

#include "base/child/wire.h"
#include "source/privileged/privileged.h"

enum privileged_task {
	PRIVILEGED_PROBE,
	PRIVILEGED_FILE,
	PRIVILEGED_WORDS,
	PRIVILEGED_SHARED,
	PRIVILEGED_SPLIT,
	PRIVILEGED_FOLLOW,
	PRIVILEGED_TASKS
};

enum { PRIVILEGED_QUESTION_MOST = 64 << 20, PRIVILEGED_WORDS_MOST = 1 << 14, PRIVILEGED_FILE_MOST = 64 << 10 };

struct privileged_question {
	enum privileged_task task;
	// PRIVILEGED_PROBE
	struct probe_batch *batches;
	size_t n;
	int milliseconds;
	bool patient;
	int64_t patience;
	// the others
	int64_t pid;
	const char *path; // or the name of a file of a process
	enum privileged_shared how;
	struct privileged_word *words;
	size_t nwords;
};

struct privileged_answer {
	enum privileged_task task;
	int error;
	struct probe_batch *batches;
	size_t n, children, operations;
	int64_t patience;
	struct str bytes; // of a file
	struct privileged_word *words;
	size_t nwords;
	int watch; // of inotify
	int fd;    // what was opened, which goes along with the message; -1
};

extern const struct wire_kind privileged_question_kind, privileged_answer_kind;

/** Takes a question apart, into @a. false: it is none that anybody sends. */
bool privileged_take_question(struct str bytes, struct arena *a, struct privileged_question *ret);
/** Fills in what was answered to PRIVILEGED_PROBE. false: those are answers to another question, and part of them may be filled in. */
bool privileged_fill_in(struct privileged_question *q, const struct privileged_answer *answer, struct probe_count *count);

/** Sends a message; @fd may be -1. false: nobody is there. */
bool privileged_send(int socket, const struct wire_kind *kind, const void *message, int fd);
/** Receives one of at most @most bytes; @ret_fd may be NULL. */
bool privileged_receive(int socket, const struct wire_kind *kind, uint64_t most, struct text *ret, int *ret_fd);

/** Whether it may be opened. */
bool privileged_may_open(struct str path, enum privileged_shared how);
/** In the privileged reader: answers until nobody asks any more. @self: the process that `/proc/self` means. */
void privileged_serve(int socket, int self);
/** What the privileged reader does without being asked over a socket, for who has no privileged reader. */
void privileged_words_here(struct privileged_word *words, size_t n);
int privileged_open_here(const char *path, enum privileged_shared how);
int privileged_follow_here(const char *path, int64_t pid, int inotify);
