// What the driver and the power controller count of a GPU's hardware, beside the work that it does: errors, bad pages, its link, and what
// slows it down.
#pragma once

#include "gpu/bad_pages.h"
#include "gpu/find/device.h"
#include "gpu/metrics.h"

/** Of one GPU. What gave no reason to look was not looked at. */
struct hardware_seen {
	const struct device *device;
	struct metrics first, now;
	bool pages_known;
	struct bad_pages pages;
	struct str throttle;            // what slows it down; hardware_hints() finds it
	int fit; // the worst `fit` of what hardware_hints() says
	int64_t port_width, port_speed; // what the bridge above it can do; -1: not known
};

/** Looks more closely at those whose first answers give reason to, all at the same time. Files of a GPU that sleeps or was stuck are left
 * alone. */
void hardware_look(const struct know *k, struct devices *all, struct hardware_seen *seen, size_t n);
/** What is worth knowing of it, by the verdicts that stand aside: a line each. */
struct str hardware_hints(const struct know *k, struct hardware_seen *h, const struct devices *all, struct arena *a);
/** The same of what the driver counts for all GPUs of a hive together, of which @first is the first. */
struct str hive_hints(const struct know *k, const struct device *first, int *ret_fit, struct arena *a);
