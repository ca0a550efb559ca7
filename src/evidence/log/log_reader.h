// The reader of logs from inside: its state, and what event.c, around.c, order.c, quotes.c and log.c share. The state knows the lines
// before the newest only by what was found in them: a log may have no end.
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "evidence/artefact.h"
#include "evidence/event.h"
#include "evidence/hardware/bank.h"
#include "evidence/log/line.h"
#include "evidence/log/log.h"
#include "evidence/log/words.h"

enum {
	LOG_KINDS = 6,
	JOIN_LINES = 3,        // the most lines that a wrapped line goes on over
	TRACEBACK_LINES = 100, // between a program's last time and its error
	KEPT_KINDS = 2,        // of events that are told once a failure follows
	KEPT_FACTS = 2,        // of each
};

// The direction of a log: some are pasted with the newest line first. Events are held back until the direction is clear, from their
// times or from messages that the driver always prints in one order. Then they go on from the oldest to the newest.

enum log_direction { DIRECTION_UNKNOWN, DIRECTION_FORWARD, DIRECTION_BACKWARD };

struct log_order {
	const struct know *know;
	struct event_sink sink;
	enum log_direction direction;
	uint64_t lost; // events that were lost because the log runs backwards and has too many
	struct arena arena;
	VEC(struct event *) held;
};

void log_order_event(struct log_order *o, const struct event *e);
/** Hands on all events that are still held. */
void log_order_end(struct log_order *o);
void log_order_free(struct log_order *o);

// Texts that quote messages without being logs: source code, patches, templates, manuals, commands that search for a message.

struct quotes {
	bool hunk;      // inside of a patch's hunk
	bool unstamped; // the text is a document: lines without a time in it are quotes
	bool all;       // so are those with one
	uint64_t at;    // line of the first message that was only quoted; 0: none
};

/** Each line that is read, in order. */
void quotes_line(struct quotes *q, struct str line);
/** What words in the text say it is: `lines`, or `all`. */
void quotes_text(struct quotes *q, struct str which);
/** Whether the message at @begin to @end of the line's message is only quoted by it. @program: it is one of a program. */
bool quotes_message(const struct quotes *q, const struct logline *line, size_t begin, size_t end, bool program);

// What journalctl writes for programs. Who wrote a record stands in its own fields: no text inside of one is anything else.

enum journal_form {
	JOURNAL_NONE,
	JOURNAL_JSON,   // a record in each line
	JOURNAL_PRETTY, // a field in each line
	JOURNAL_EXPORT, // the same as NAME=VALUE, or as NAME, length and bytes
};

struct log_journal {
	enum journal_form form;
	uint64_t skip, upto; // offsets: behind the bytes of a field; behind the newest window
	bool cut, inside;    // a record could not be read to its end; an object has begun
	uint64_t number;     // of its line
	struct text object;  // of a record in several lines
	struct arena arena;  // has what @line and @text view
	struct logline line;
	struct str text;
};

/** true: each line counts, for records have several. */
bool log_journal_look(struct log_journal *j, struct str head);
void log_journal_free(struct log_journal *j);

// --- the reader ---

/** An event that is told once a failure follows. */
struct log_kept {
	const struct know_signature *signature;
	struct place at;
	size_t n; // facts
	char names[KEPT_FACTS][32], values[KEPT_FACTS][480];
	char pid[16]; // whose it is
};

/** Error banks whose registers are being read. */
enum { BANKS_OPEN = 16 };
struct log_bank {
	uint64_t order; // of its first line; 0: none
	char device[24];
	uint64_t numbered; // the driver's number of the error
	int64_t entry;
	bool mixed; // two banks of this name are printed at once: which of them a register belongs to is not known
	struct error_bank bank;
};

enum { TESTS = 100000 }; // a bare number that may be a rank has at most five digits

/** Numbers of tests that a window names up to a place in it. */
struct log_tests {
	uint64_t window; // its offset
	size_t upto;
	uint64_t marked[(TESTS + 63) / 64];
};

struct log_reader {
	const struct know *know;
	unsigned source;
	struct str name; // of the source
	struct code_shelf *code;
	struct context_finder *context;
	struct part_finder *parts;
	struct name_finder *names;
	struct log_order order;
	bool stamped;                         // this log has times, so a line without one continues another
	bool have_base;                       // dmesg -H has named a minute
	double base, elapsed;                 // for logs that print differences
	double yearless_last, yearless_years; // for a log that runs over new year
	uint64_t lines, events;
	uint64_t failures;                      // events that are errors
	bool other_drm[2];                      // another GPU's driver was seen; it spoke of an error
	struct log_kept kept[KEPT_KINDS];       // the newest events of kinds that count only before a failure
	unsigned typed;                         // lines that were searched for messages with typing errors
	const struct artefact_reader *artefact; // that is open
	void *artefact_self;
	struct stamp artefact_time; // of the line before it
	unsigned strangers;         // lines in a row that do not belong to it
	size_t nkinds;
	const char *kinds[LOG_KINDS];     // of the artefacts that were read
	bool driver_lines, program_lines; // of the kernel's driver, of programs
	size_t wrap_width;                // the width at which a terminal broke the lines of this log; 0: it did not
	uint64_t looked_upto;             // lines before this offset were searched for a time
	struct kept_stamps looked;        // the time that was found there
	uint64_t consumed;                // offset behind the last line that was joined to another
	struct quotes quotes;
	uint64_t hearsay_at; // line of the first message of the driver about the hardware in a program's words; 0: none
	struct log_journal journal;
	struct log_tests tests;
	struct log_bank banks[BANKS_OPEN];
	uint64_t banks_begun;
};

/** A line and its surroundings: where it lies in its window. */
struct line_at {
	const struct window *window;
	size_t begin, end;
	uint64_t offset; // of the window
};

// --- event.c ---
void log_emit(struct log_reader *r, const struct event *e);
/** For the reader of an artefact in this log. */
struct artefact_output log_output(struct log_reader *r);
/** Adds the writer of the line as facts, for events of programs. The kernel's messages name their process themselves. */
void log_add_writer(struct event *e, const struct writer *w);
enum { RANK_DIGITS = 12 };
/** The rank of a line that names none, by the name of its file or by the lines around it. false: they do not tell. */
bool log_rank_around(const struct log_reader *r, const struct line_at *c, char rank[static RANK_DIGITS]);
/** For a line of the driver whose message is not known: emits an event without a signature. */
void log_sighting(struct log_reader *r, const struct logline *line, uint64_t number);
/** Another GPU's driver is named once, and once more where it speaks of an error. */
void log_other_drm(struct log_reader *r, const struct logline *line, uint64_t number);
void log_event(struct log_reader *r, const struct logline *line, const struct match *m, uint64_t number);

// --- around.c: times ---
/** Turns differences of time, and times without a year, into times that can be compared. */
void log_settle_time(struct log_reader *r, struct stamps *s);
/** Finds the last line before this one that has a time, at most @lines away. */
bool log_stamped_before(struct log_reader *r, const struct line_at *c, int lines, struct line_room *room,
			struct logline *ret_line, struct line_at *ret_at);

// --- around.c: lines that were wrapped ---
/** A line that was put together from two parts. */
struct log_joined {
	struct logline line;
	struct match match;
	bool space; // between the parts
	struct lifetime lent;
	char *room; // @line and @match are views of it
};

enum { JOINED_BYTES = 2 * LINE_MAX_BYTES };

static inline void log_joined_end(struct log_joined *j)
{
	lifetime_end(&j->lent);
	free(j->room);
}
/** Declares one that is freed at the end of its scope. */
#define JOINED(name) _cleanup_(log_joined_end) struct log_joined name = { .room = mem_large(JOINED_BYTES) }
/** Tries the following lines, up to the next one with a time, as the continuation of @line. */
bool log_continuation(struct log_reader *r, const struct line_at *c, const struct logline *line, struct log_joined *out,
		      size_t *ret_end);

// --- around.c: artefacts ---
/** Whether the line at @c belongs to an artefact; if so, it was read. */
bool log_artefact_line(struct log_reader *r, const struct line_at *c, uint64_t number);
/** Gives every line from @begin on to the open artefact, until it or the window ends. Returns where that is. */
size_t log_artefact_walk(struct log_reader *r, const struct window *w, size_t begin, uint64_t line, uint64_t offset);
void log_artefact_end(struct log_reader *r);

// --- journaled.c ---
/** Whether the line at @c is one of the journal's; if so, it was read. */
bool log_journal_line(struct log_reader *r, const struct line_at *c, uint64_t number);
void log_journal_end(struct log_reader *r);

// --- log.c ---
/** Reads the text of a line that was wrapped: it stands in @line. */
void log_wrapped(struct log_reader *r, struct logline *line, uint64_t number);
/** Reads a line that may matter. */
void log_candidate(struct log_reader *r, const struct line_at *c, uint64_t number);
static inline struct str log_raw_line(const struct window *w, size_t begin, size_t *ret_next)
{
	const char *after = memchr(w->bytes + begin, '\n', w->size - begin);
	size_t end = after ? (size_t)(after - w->bytes) : w->size;
	*ret_next = after ? end + 1 : w->size;
	return (struct str){ w->bytes + begin, end - begin };
}
