// A file that can be read at any place is read and scanned by several threads, each with a window of its own; what the windows hold is
// consumed in order by the caller's thread. Files are read, not mapped: a log that is truncated while it is mapped (logrotate's
// copytruncate) would kill the process.
#pragma once

#include "evidence/log/log.h"
#include "source/source.h"

enum {
	WINDOW_BEFORE = 4 << 10, // context: a line may have begun before its window, and go on behind it
	WINDOW_BODY = 256 << 10,
	WINDOW_AFTER = 8 << 10,
};

/** Told how far a large file is read; NULL: nobody is. */
struct scan_progress {
	void (*tell)(void *ctx, const char *name, unsigned long long done, unsigned long long total);
	void *ctx;
};

/** From the window on that @from lies in. Without a scanner every line counts. */
struct uh_error *scan_file(const struct scanner *scanner, struct source *s, uint64_t from, struct log_reader *log,
			   const struct scan_progress *progress);
