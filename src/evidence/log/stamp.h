// Times at the front of log lines, in every form in which people have them.
#pragma once

#include "evidence/event.h"

/** As they stand in a line: @inside and @host are views of it. */
struct stamps {
	bool found;
	struct stamp best; // the kernel's own clock if the line has it, else any other
	bool borrowed;     // it is the time of an earlier line
	bool delta;        // [  +0.088166]: best.seconds is a difference
	bool kernel;       // behind it the kernel speaks: its clock as dmesg prints it, or syslog's tag
	bool program;      // behind it a container's program speaks
	bool foreign;      // a program wrote it into the kernel's log: its facility says so
	struct str inside; // what stands behind a time in its bracket: `TP2`, a source file
	struct str host;   // as syslog names it
	size_t end;        // where the rest of the line begins
};

enum { STAMP_HOST = 90 }; // the longest name of a host

/** A copy that is still valid when the line is gone. */
struct kept_stamps {
	bool found, delta, kernel, program;
	struct stamp best;
	size_t nhost;
	char host[STAMP_HOST];
};

void stamps_keep(const struct stamps *s, struct kept_stamps *kept);
/** A view of @kept. */
struct stamps stamps_kept(const struct kept_stamps *kept);

/** Reads all stamps, host names and tags at the front of @line. */
struct stamps stamps_read(const struct know *k, struct str line);
/** @line without the marks of quoting (`> `, `| `) at its front. */
struct str quoting_skip(struct str line);
