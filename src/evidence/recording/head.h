// The head of a recording, and the heads of its queues, for those who look some times a second. The file is a stranger's, which may be cut
// under its reader: it is read, not mapped, and nothing in it is believed.
#pragma once

#include <stdbool.h>

#include "recorder/format.h"

/** false: it is no recording, or one of another version. */
bool recording_head(int fd, struct rec_header *ret);
/** Hands over the head of each queue. false: they cannot be read. */
bool recording_queue_heads(int fd, void (*queue)(void *ctx, const struct rec_queue *q), void *ctx);
