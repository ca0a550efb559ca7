// Times at the front of log lines, in every form in which people have them.
#pragma once

#include "evidence/event.h"

struct stamps {
	bool found;
	struct stamp best; // the kernel's own clock where the line has it, else what it has
	bool borrowed;     // it is the time of a line before this one
	bool delta;        // [  +0.088166]: best.seconds is a difference
	struct str inside; // what stands behind a time in its bracket: `TP2`, a source file
	struct str host;   // that syslog names
	size_t end;        // where the rest of the line begins
};

/** Reads all stamps, host names and tags at the front of @line. */
struct stamps stamps_read(const struct know *k, struct str line);
/** @line without the marks of quoting (`> `, `| `) at its front. */
struct str quoting_skip(struct str line);
