// Opens what a user or evidence names, without acting on a device. What was opened is judged by its descriptor, not by its name.
#pragma once

#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"

struct named {
	const char *path;  // may be a link
	const char *below; // a path below the directory @path, with no link on the way; NULL: @path itself is meant
	const char *root;  // names are looked up as by a process with this root; NULL: this machine
	bool believed;     // refused if anybody else can have written it (base/door/trust.h)
	bool as_caller;    // with the rights of the user who called (base/door/caller.h)
	bool inside;       // links in @below are followed, but not out of the directory
};

struct opened {
	int fd; // open for reading: a file, a directory, or a FIFO that was named itself; -1: anything else, or reading may act
	struct stat st;
	const char
		*acting; // the file system, if reading its files may act on a driver or take messages from others (/proc/kmsg)
};

/** Opens what is named, and nothing that takes its place meanwhile. Opening a device may act, so it is looked at first. @look: only
 * look. This may wait for ever, so base/door/door.h lets a child do it. An error whose errnum is 0 says in words why it was refused. */
struct uh_error *named_open(const struct named *n, bool look, struct opened *ret);
