// The pulse: a child that takes the cheap votes on progress each second, while programs compute: how busy a GPU is, and its interrupts.
// It reads sysfs and /proc/interrupts only. If the driver does not let it go, nobody else waits.
#pragma once

#include "base/child.h"
#include "knowledge/know.h"

struct pulse_options {
	const struct know *know;
	int64_t stood_s; // after so many seconds without movement it tells
};

/** Starts it. It sends EYE_STOOD, and again after pauses that grow, as long as the GPU stands. */
bool pulse_begin(const struct pulse_options *o, struct child *ret);

/** How many interrupts of these numbers (one in a line) a text as /proc/interrupts has counted on all CPUs; -1: none of them is in it. */
int64_t pulse_interrupts(struct str text, struct str irqs);
