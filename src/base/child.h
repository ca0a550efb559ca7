// Work that may hang or eat memory, in a child process with a deadline.
#pragma once

#include "base/arena.h"

/** Runs @work in a child and collects what it writes to its descriptor. false where the child did not end well in @milliseconds, or
 * wrote more than @most bytes. */
bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret);
