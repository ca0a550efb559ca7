// Files of this machine, or of another whose file system lies below a directory; and what a user or evidence names, opened so that
// nothing is acted on and judged by its descriptor.
#pragma once

#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"

/** open() of @path, which begins with a slash, as a process that has @root as its root would see it: links do not lead out of it.
 * @root NULL: this machine. */
int root_open(const char *root, const char *path, int flags);
/** openat2() of @path below @dir; step by step where the kernel, or what confines this process, has none. @resolve: RESOLVE_IN_ROOT, or
 * RESOLVE_BENEATH with RESOLVE_NO_SYMLINKS. */
int open_below(int dir, const char *path, int flags, unsigned long resolve);
/** As root_open(), of a directory that is made where it is missing, and those above it. */
int root_make_directory(const char *root, const char *path);

/** What a user or evidence names. */
struct named {
	const char *path;  // may be a link
	const char *below; // of that directory, without a link on the way to it; NULL: the path itself
	const char *root;  // the path is as a process with this root would see it; NULL: this machine
};

struct opened {
	int fd; // a file, a directory or a FIFO that was named itself, to be read; -1 for others, and where reading may act
	struct stat st;
	const char *
		acting; // the file system, where reading a file of it may act on a driver or take messages from others (/proc/kmsg)
};

/** Opens what is named, and nothing else that takes its place meanwhile. To open a device may act, so it is looked at first. It may wait
 * for ever: base/door.h has it done by a child. @look: only look. false: errno says why. */
bool named_open(const struct named *n, bool look, struct opened *ret);
