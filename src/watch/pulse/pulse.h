// The pulse: a child that takes the cheap votes on progress each second, while programs compute. It reads /proc, sysfs, /dev/shm and words
// of the programs' queues. If the driver does not let it go, nobody else waits.
#pragma once

#include "base/child.h"
#include "watch/pulse/signs.h"

enum { PULSE_BEAT_MS = 10000, PULSE_SILENT_MS = 35000 };

/** Starts it. It sends NOTICE_VOTES of a GPU when they changed, and each second while something stands, and NOTICE_BEAT about every ten
 * seconds: one that is silent for longer than PULSE_SILENT_MS waits for the driver, or somebody has stopped it. */
bool pulse_begin(const struct know *k, struct child *ret);

/** How many interrupts of these numbers (one in a line) a text as /proc/interrupts has counted on all CPUs; -1: none of them is in it. */
int64_t pulse_interrupts(struct str text, struct str irqs);

/** A GPU in this second and what is remembered of those before. */
struct pulse_gpu {
	int64_t interrupts, busy, power, most_power; // -1: not known
	enum vote interrupt_vote, queue_vote, recording_vote, heartbeat_vote, power_vote, call_vote;
	int64_t subject; // the program whose queues have work and stand still; 0: none
	bool pending;    // its queues have work
	bool stands;     // something of it does
};
/** Makes votes of what was counted now. @awake: it may be asked; else nothing is known. */
void pulse_vote(struct pulse_gpu *g, const struct signs *s, size_t gpu, int64_t interrupts);
/** The text of NOTICE_VOTES: the PCI address, then lines `vote NAME WORD` and `fact NAME VALUE`. */
void pulse_text(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu, int64_t now_ms, struct text *to);
