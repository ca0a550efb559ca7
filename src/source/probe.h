// Looks at files of the driver and the kernel: some block, some must not be touched. A batch of operations runs in one child with a
// deadline; a child that is stuck is left behind, and where it is stuck is told. Only what the list in probe.c names is opened, only to
// be read, and nothing is ever written.
#pragma once

#include "base/arena.h"

enum probe_kind {
	PROBE_FILE,  // the whole of a small file, up to @size bytes
	PROBE_LIST,  // the names in a directory, one per line
	PROBE_LINK,  // where a link points
	PROBE_READ,  // @size bytes at @offset
	PROBE_IOCTL, // @request with @argument (@argument_size bytes, which come back in @data); the file is one that takes such
	PROBE_BANKED, // PROBE_IOCTL, then PROBE_READ on the same open file
};
enum probe_end {
	PROBE_NOT_MADE, // the child never came to it
	PROBE_GOOD,
	PROBE_FAILED,    // errno in @error
	PROBE_FORBIDDEN, // not on the list
	PROBE_STUCK,     // it was at this one when the deadline passed
};

struct probe {
	enum probe_kind kind;
	const char *path;
	uint64_t offset;
	unsigned long request;
	const void *argument;
	size_t argument_size;
	size_t size; // most bytes
	// answers, in the arena that probe_run() was given
	enum probe_end end;
	int error;
	const char *data;
	size_t n;
};

/** Where a child was stuck. */
struct probe_stuck {
	bool is;
	bool uninterruptible; // in D state
	struct str at;        // the path
	struct str stack;     // of the kernel, a function per line, innermost first; empty where it may not be read
	struct str wchan;     // the function that it sleeps in; empty where it is not known
};

struct probe_count {
	size_t children, operations; // operations: system calls on files other than open and close
};

/** Runs the batch in one child. Files that several operations name one after the other are opened once. */
void probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
	       struct probe_count *count);

/** The file as text, without the newline at its end; empty where it could not be read. */
struct str probe_text(const struct probe *p);
