// How a hold stands, as the pulse tells it: a program met a fault, and stands still so that the watch can look at it.
#pragma once

#include "base/arena.h"

enum hold_stage { HOLD_NEW, HOLD_ASKS, HOLD_STANDS, HOLD_OVER, HOLD_STAGES };

/** The text of NOTICE_HOLD. */
struct hold_told {
	enum hold_stage stage; // HOLD_NEW: a recording that nobody looks after
	uint32_t number;
	int64_t left_ms; // until the program goes on by itself
	int64_t pid;
	uint64_t began;  // the recording, in nanoseconds since the boot; 0: not known
	struct str gpu;  // PCI address, where the program uses one alone; empty
	struct str path; // of the recording, below /dev/shm
};
void hold_told_text(const struct hold_told *h, struct text *to);
/** false: it is none. Its texts are part of @text. */
bool hold_told_parse(struct str text, struct hold_told *ret);
