// The driver's table gpu_metrics: what the power controller (SMU) measures and counts. Its layouts are the `metrics` blocks of knowledge.
#pragma once

#include "knowledge/know.h"

/** A table that was read. It is a view of the bytes. */
struct metrics {
	const struct know *know;
	const struct know_metrics *layout; // NULL: there is none, or none that is known
	struct str bytes;
};

/** false: it is cut off, or no layout is known for its version and size. */
bool metrics_of(const struct know *k, struct str bytes, struct metrics *ret);
/** Value @index of a field. false: this table does not have it, or this part does not (all bits are set). */
bool metrics_value(const struct metrics *m, struct str field, size_t index, uint64_t *ret);

/** What slows a GPU down. */
struct metrics_cause {
	struct str cause; // power, temperature, prochot, ...
	int percent;      // of the time between two tables; -1: now, or for some time
};
enum { METRICS_CAUSES = 8 };

/** What slows the GPU down, by the newer of two tables, or by what grew between them. An older one without a layout is none. */
size_t metrics_throttle(const struct metrics *older, const struct metrics *newer, struct metrics_cause ret[static METRICS_CAUSES]);
/** Whether a second table may tell more: something slowed it down at some time. */
bool metrics_counts_throttle(const struct metrics *m);
/** `prochot (62 % of the time), power`; empty: nothing does. */
struct str metrics_throttle_text(struct arena *a, const struct metrics_cause *causes, size_t n);
