// One line of a log as people have it: with colours, quoting, wrapped in JSON.
#pragma once

#include "base/lifetime.h"
#include "evidence/event.h"
#include "evidence/log/prefix.h"
#include "evidence/log/stamp.h"

/** All texts are views of the line, or of its clean copy. */
struct logline {
	struct str text; // clean: no escape sequences, no control characters
	struct stamps stamps;
	struct str message; // text after the stamps
	struct str device, driver, module;
	struct str boot_id;
	struct writer writer;
	struct str time_text; // of JSON around the line
	unsigned callers;     // frames of the stack above this one
};

enum { LINE_MAX_BYTES = 4096 };

/** Where a clean line lies; views of the line end with it. */
struct line_room {
	struct lifetime lent;
	char *bytes; // not on the stack, which may have 64 KB only
};

static inline void line_room_end(struct line_room *room)
{
	lifetime_end(&room->lent);
	free(room->bytes);
}

/** One that ends with its scope. */
#define LINE_ROOM(name) _cleanup_(line_room_end) struct line_room name = { .bytes = mem_large(LINE_MAX_BYTES) }

/** The time of a line, of no clock where it has none. */
static inline struct stamp line_time(const struct logline *line)
{
	return line->stamps.found ? line->stamps.best : (struct stamp){ 0 };
}

/** @raw itself where it is clean, else a clean copy in @room. A line that was there before ends. */
struct str line_clean(struct str raw, struct line_room *room);
/** Where @line is JSON around a log line, its text goes to @room and its times to @out; false where it is not. */
bool line_unwrap(struct str line, struct line_room *room, struct logline *out);
/** Fills all of @out but what line_unwrap() has filled, with views of @clean. */
void line_parse(const struct know *k, struct str clean, struct logline *out);
/** Times and who wrote it only, which is all that a line of a dump may have. */
void line_parse_front(const struct know *k, struct str clean, struct logline *out);
/** The message that @line holds, unless it is another driver's. */
bool line_recognise(const struct know *k, const struct logline *line, struct match *ret);
