// What the files of the reader of logs share.
#pragma once

#include "base/cleanup.h"
#include "evidence/artefact.h"
#include "evidence/log/context.h"
#include "evidence/log/log.h"
#include "evidence/log/order.h"
#include "evidence/log/quotes.h"

enum {
	LOG_KINDS = 6,
	JOIN_LINES = 3,        // a wrapped line goes on over at most so many
	TRACEBACK_LINES = 100, // between a program's last time and its error
};

struct log_reader {
	const struct know *know;
	unsigned source;
	struct str name; // of the source
	struct code_shelf *code;
	struct context_finder *context;
	struct log_order order;
	bool stamped;                         // this log has times, so a line without one continues another
	bool have_base;                       // dmesg -H has named a minute
	double base, elapsed;                 // for logs that print differences
	double yearless_last, yearless_years; // a log that runs over new year
	uint64_t lines, events;
	uint64_t failures; // events that are errors
	const struct artefact_reader *artefact; // that is open
	void *artefact_self;
	struct stamp artefact_time; // of the line before it
	unsigned strangers;         // lines in a row that are none of it
	size_t nkinds;
	const char *kinds[LOG_KINDS];     // of the artefacts that were read
	bool driver_lines, program_lines; // of the kernel's driver, of programs
	size_t wrap_width;                // at which a terminal has broken the lines of this log; 0: it has not
	uint64_t looked_upto;             // lines before this offset were searched for a time
	struct kept_stamps looked;        // which was this one
	uint64_t consumed;                // offset behind the last line that was joined to another
	struct quotes quotes;
};

/** What stands before and behind a line in its window. */
struct line_at {
	const struct window *window;
	size_t begin, end;
	uint64_t offset; // of the window
};

// --- event.c ---
void log_emit(struct log_reader *r, const struct event *e);
/** For the reader of an artefact in this log. */
struct artefact_output log_output(struct log_reader *r);
/** Who wrote the line is a fact of what happens in a program; the kernel's messages name their process themselves. */
void log_add_writer(struct event *e, const struct writer *w);
/** A line of the driver's whose message is not known: an event without a signature. */
void log_sighting(struct log_reader *r, const struct logline *line, uint64_t number);
void log_event(struct log_reader *r, const struct logline *line, const struct match *m, uint64_t number);

// --- times.c ---
/** Turns differences and times without a year into times that can be compared. */
void log_settle_time(struct log_reader *r, struct stamps *s);
/** The last line with a time before this one, if it is at most @lines away. */
bool log_stamped_before(struct log_reader *r, const struct line_at *c, int lines, struct line_room *room,
			struct logline *ret_line, struct line_at *ret_at);

// --- join.c ---
/** A line that was put together of two parts. */
struct log_joined {
	struct logline line;
	struct match match;
	bool space; // between the parts
	struct lifetime lent;
	char *room; // of which @line and @match are views
};

enum { JOINED_BYTES = 2 * LINE_MAX_BYTES };

void log_joined_end(struct log_joined *j);
/** One that ends with its scope. */
#define JOINED(name) _cleanup_(log_joined_end) struct log_joined name = { .room = mem_large(JOINED_BYTES) }
/** Tries the following lines, up to the next one with a time, as the continuation of @line. */
bool log_continuation(struct log_reader *r, const struct line_at *c, const struct logline *line, struct log_joined *out,
		      size_t *ret_end);

// --- artefact.c ---
/** Whether the line at @c is one of an artefact. */
bool log_artefact_line(struct log_reader *r, const struct line_at *c, uint64_t number);
/** Takes every line from @begin on, until the artefact that is open ends or the window does; returns where. */
size_t log_artefact_walk(struct log_reader *r, const struct window *w, size_t begin, uint64_t line, uint64_t offset);
void log_artefact_end(struct log_reader *r);

// --- log.c ---
/** A line that may matter. */
void log_candidate(struct log_reader *r, const struct line_at *c, uint64_t number);
static inline struct str log_raw_line(const struct window *w, size_t begin, size_t *ret_next)
{
	const char *after = memchr(w->bytes + begin, '\n', w->size - begin);
	size_t end = after ? (size_t)(after - w->bytes) : w->size;
	*ret_next = after ? end + 1 : w->size;
	return (struct str){ w->bytes + begin, end - begin };
}
