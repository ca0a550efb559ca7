// Unpacking archives in a child: what the child sends.
#pragma once

#include <stdatomic.h>

#include "base/door/named.h"
#include "source/feed.h"

enum archive_piece {
	ARCHIVE_SOURCE = FEED_KINDS, // a source begins; its name
	ARCHIVE_BUNDLE,              // the same of a tar that may be a bundle
	ARCHIVE_DATA,
	ARCHIVE_ENDS,    // the source; what is wrong with it, or nothing
	ARCHIVE_PROBLEM, // that belongs to no source
};

struct archive_work {
	const struct named *named; // NULL: what is open at ->fd
	int fd;                    // -1: ->bytes, which the child has from its parent
	struct str bytes;
	const char *name;
	bool bundles;               // are handed on as they are
	_Atomic unsigned *unwanted; // shared memory: the first *unwanted sources need no more bytes
};

enum { ARCHIVE_HEAD = 512 }; // so many bytes tell what it is
/** Whether a file that begins so holds others: a tar or zip. */
bool archive_is_container(struct str head);
/** Whether it is a tar whose first member is called as that of a bundle is. */
bool archive_may_be_bundle(struct str head);

/** The child's work. @ctx: struct archive_work. */
void archive_child(int fd, const void *ctx);
