// The answerer of the watch: a child that writes a word into the head of a recording, so that the process behind it is held after a fault
// while the watch looks, and goes on afterwards (docs/RECORDING.md, Holds).
//
// A recording belongs to a user, who may put anything in its place at any moment. So the answerer becomes that user before it opens the file
// to write: what it can write there, that user could have written. What blocks it or kills it, blocks nobody else.
#pragma once

#include "base/child.h"

enum hold_word { WORD_ANNOUNCE, WORD_ANSWER, WORD_RELEASE, HOLD_WORDS };

/** What it is to write. */
struct hold_task {
	enum hold_word word;
	uint32_t number; // of the hold
	struct str path; // of a recording, below /dev/shm
};

void hold_task_text(const struct hold_task *t, struct text *to);
/** false: it is none, or not one of a recording. The path is part of @text. */
bool hold_task_parse(struct str text, struct hold_task *ret);
/** Starts it. It says nothing. */
bool answer_begin(const struct hold_task *t, struct child *ret);
