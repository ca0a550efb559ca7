// A child in which a library reads a file, and which sends what it reads piece by piece. A library that parses a stranger's file may
// crash, eat memory, or wait for ever for a server. That costs only the child, and what it sent before still counts.
#pragma once

#include "base/child.h"
#include "base/error.h"

enum { FEED_MOST = 128 << 10 }; // of one piece

struct feed {
	const char *name; // of what is read
	struct child child;
	char *room;
	size_t from, have;
	bool endless; // it waits for a user or a program, so silence is no error
};

/** Starts the child @who; @name: of what it reads. */
struct uh_error *feed_begin(struct feed *f, enum child_name who, const char *name, void (*work)(int fd, const void *ctx),
			    const void *ctx);
/** The next piece; returns its kind. 0: the end. -1 and *ret_err: the child ended badly, or nothing comes any more. *ret is valid until
 * the next call. */
int feed_next(struct feed *f, struct str *ret, struct uh_error **ret_err);
void feed_end(struct feed *f);

// In the child.

enum { FEED_ENDLESS = 1, FEED_KINDS = 16 }; // a child's own kinds begin at FEED_KINDS
/** Sends one piece, made of two parts. Ends the child if nobody listens. */
void feed_send(int fd, unsigned kind, struct str a, struct str b);
