// What a user or evidence names, opened so that nothing is acted on, and judged by its descriptor.
#pragma once

#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"

struct named {
	const char *path;  // may be a link
	const char *below; // of that directory, without a link on the way to it; NULL: the path itself
	const char *root;  // the path is as a process with this root would see it; NULL: this machine
	bool believed;     // only where nobody else can have written it (base/door/trust.h)
	bool as_caller;    // with the rights of the user who called (base/door/caller.h)
	bool inside;       // links of @below are followed, but not out of the directory
};

struct opened {
	int fd; // a file, a directory or a FIFO that was named itself, to be read; -1 for others, and where reading may act
	struct stat st;
	const char *
		acting; // the file system, where reading a file of it may act on a driver or take messages from others (/proc/kmsg)
};

/** Opens what is named, and nothing else that takes its place meanwhile. To open a device may act, so it is looked at first. It may wait
 * for ever: base/door/door.h has it done by a child. @look: only look. An error without errnum says in words why it is not used. */
struct uh_error *named_open(const struct named *n, bool look, struct opened *ret);
