// Hardware errors that the driver counts (ras/event_state): a second way to hear of them, beside the kernel's log, which may lose lines. The
// file is a text of the driver's memory: reading it takes no lock, asks no hardware and wakes no GPU.
#pragma once

#include "gpu/find/device.h"

/** Of one GPU, or of the hive that it is the first of. */
struct error_count {
	char path[256];        // empty: another GPU of its hive tells it
	struct ras_events told; // as it was when it was told last; at first: as it was found
	struct ras_events seen; // at the beat before
};

/** The text of NOTICE_ERRORS. */
struct errors_told {
	struct str pci;
	int64_t fatal, used; // that came since it was told last
	int64_t gpus;        // that they are of
};

void error_count_begin(struct error_count *c, const struct device *d);
/** Reads it. Growth is told at the beat after it was seen, so that the log has told it before. false: there is nothing to tell. */
bool error_count_take(struct error_count *c, struct errors_told *ret);
/** The same with what the file says. */
bool error_count_grew(struct error_count *c, struct ras_events now, struct errors_told *ret);
void errors_told_text(const struct errors_told *e, struct text *to);
/** false: it is none. Its text is part of @text. */
bool errors_told_parse(struct str text, struct errors_told *ret);
/** The same as an event. */
struct event;
bool errors_told_event(const struct know *k, const struct errors_told *e, struct arena *a, struct event *ret);
