// What a library reads in a child, sent piece by piece. Libraries that take strangers' files apart may crash, eat memory, or wait for ever
// for a server: that costs the child, and what it has sent counts.
#pragma once

#include "base/child.h"
#include "base/error.h"

enum { FEED_MOST = 128 << 10 }; // of one piece

struct feed {
	const char *name; // of what is read
	struct child child;
	char *room;
	size_t from, have;
	bool endless; // it waits for a user or a program, who may take their time
};

/** @milliseconds: of processor time, with a limit of memory; 0: without both. */
struct uh_error *feed_begin(struct feed *f, const char *name, void (*work)(int fd, const void *ctx), const void *ctx,
			    int milliseconds);
/** The next piece and its kind; 0 at the end; -1 and *ret_err where the child ended badly, or nothing comes any more. @ret is valid until the
 * next call. */
int feed_next(struct feed *f, struct str *ret, struct uh_error **ret_err);
void feed_end(struct feed *f);

// In the child.

enum { FEED_ENDLESS = 1, FEED_KINDS = 16 }; // a child's own kinds begin at FEED_KINDS
/** Two parts of one piece. Ends the child where nobody listens. */
void feed_send(int fd, unsigned kind, struct str a, struct str b);
