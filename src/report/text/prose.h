// What the files of the report for people share: prose_ is their word. A first screen is made of blocks, each with the lines that it
// needs and those that it may have; only when all blocks are there is it known how long each may be. The callbacks are those of
// report_walk().
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "report/report.h"

enum block_form {
	FORM_TEXT,    // behind a label
	FORM_COMMAND, // below it, and never cut
	FORM_GAP,     // an empty line
};

struct block {
	enum block_form form;
	const char *label, *paint; // paint NULL: bold
	size_t indent;             // of the lines behind the first
	size_t column;             // at which the text begins; 0: behind the label
	bool stacked;              // the label stands on a line of its own
	bool whole;                // a line without a label is painted
	bool fixed;                // no line of it is given to others
	bool yields;               // it is left out before another block gets less than it needs
	bool spare;                // only where everything else has room; else the block before says what is behind its text
	struct text lead;          // before the label: a time
	struct text text, behind;  // what stands behind is never cut
	size_t kept;               // bytes at the front of the text that say nothing alone: a condition
	bool advice;               // what stands behind a colon is what helps, so that it is not cut off there
	size_t least, most;        // lines
	size_t given;              // concluded
};

struct screen {
	FILE *out;
	bool colour;
	size_t width;
	VEC(struct block) blocks;
};

/** The block lives until the next one is added. */
struct block *screen_add(struct screen *s, struct block p);
/** Adds @text to a block; a word that no line can hold is shortened. */
void screen_text(const struct screen *s, struct block *p, struct str text);
/** Writes the blocks, in @lines where that is possible, and forgets them. */
void screen_write(struct screen *s, size_t lines);

// What the files of the report for people share: prose_ is their word. incident.c and advice.c have callbacks of the walk.
enum { LABEL = 8, STACKED_BELOW = 70, NOTES_BRIEF = 3, NOTE_LINES = 2, SEEN_LINES = 5 };

/** Events that one row tells of. */
struct brief_row {
	const struct diag_event *event; // the first of them
	unsigned count, others;         // that say the same, and something else of the same kind
	struct stamp last;
	struct text who; // ranks or processes
};

struct text_report {
	FILE *out;
	const struct uh_report_options *options;
	const struct diagnosis *diagnosis;
	size_t width;
	size_t index; // of the incident
	bool full;    // this incident is written in full
	bool batch;   // the incidents are a table
	bool bare;    // the machine has no GPU, which is said behind its incidents
	size_t noted;
	struct stamp begin; // of the incident
	// of the first screen
	struct screen screen;
	VEC(struct brief_row) rows;
	size_t tried, nexts, knowns, likes; // that it has
	bool way_back;                      // from a change, which what follows makes room for
};

// --- words, lines, colours ---
const char *prose_paint(const struct text_report *t, const char *code);
const char *prose_plain(const struct text_report *t);
void prose_wrap(const struct text_report *t, struct str s, size_t indent, size_t column);
void prose_label(const struct text_report *t, const char *name, struct str s);
/** The name of a source's file, without its directory. */
void prose_file(const struct text_report *t, unsigned source, struct text *to);
/** A time of its clock; nothing where there is none. */
void prose_clock(struct text *to, struct stamp time);
/** When an event was: by the calendar, where its source tells when its clock began. All reports of an event have this time. */
struct stamp prose_stamp(const struct diagnosis *d, const struct diag_event *e);
/** Day and time with their zone, as far as the clock tells; nothing where it tells no day. */
void prose_date(struct text *to, struct stamp time);
/** `3.6 s`, `40 min`; false, and nothing, where it cannot be. */
bool prose_duration(struct text *to, double seconds);
/** The same of two times; false also where their clocks differ. */
bool prose_between(struct text *to, struct stamp begin, struct stamp time);
/** How long after @begin; nothing where that is not known. */
void prose_elapsed(struct text *to, struct stamp begin, struct stamp time);
/** high, medium, low */
const char *prose_confidence(int percent);
void prose_fact(const struct text_report *t, int indent, const struct fact *f);
/** Where a row was read. */
void prose_place(const struct text_report *t, struct text *line, struct place at);

/** As for qsort(), of struct place, or of what begins with one. */
int by_place(const void *a, const void *b);

// --- what both the first screen and the long report say of an incident ---
/** Which module has a hardware error: what is on its label, and where it is. Nothing where it is none. */
void prose_module(const struct incident *i, struct text *to);
void prose_title(const struct incident *i, struct text *to);
/** Which GPU of which host, which kernel, when, how long, and how it ended. */
void prose_summary(const struct text_report *t, const struct incident *i, struct text *to);
/** Whose fault it was and how sure that is; @with_cause: how sure the cause is, too. */
void prose_fault(const struct incident *i, bool with_cause, struct text *to);
/** `fit for the next job` */
const char *prose_fitness(const struct incident *i);

/** The lead picture, where the terminal has room for it below the first screen. */
void prose_picture(const struct text_report *t, const struct incident *i);
/** The lines behind what was said of it, where they were asked for. */
void evidence_lines(const struct text_report *t, const struct incident *i);

/** What changed before it, and whether that is to blame; nothing where nothing did. */
void prose_changed(const struct incident *i, struct text *to);
/** That the same was seen before every change; nothing where it was not. */
void prose_not_blamed(const struct incident *i, struct text *to);
/** One transaction with its packages; and why one is to blame. */
void prose_change_line(const struct diag_change *c, struct text *to);
void prose_why_blamed(const struct incident *i, struct text *to);
const char *change_role_name(enum change_role role);

// --- callbacks of the first screen ---
void brief_change(void *ctx, const struct incident *i, const struct diag_change *c);
void brief_not_blamed(struct text_report *t, const struct incident *i);
void brief_incident(void *ctx, const struct incident *i);
void rows_event(void *ctx, const struct diag_event *e, size_t id);
void brief_like(void *ctx, const struct incident *i, const struct diag_like *l);
void brief_known(void *ctx, const struct know_bad *b);
void brief_remedy(void *ctx, const struct diag_remedy *r, size_t number);
void brief_next(void *ctx, const struct diag_next *n);
void brief_question(void *ctx, const struct diag_question *q);
void brief_close(void *ctx, enum report_list list, const struct incident *i);
void brief_end(void *ctx, const struct incident *i);

// --- callbacks of the long report ---
void prose_incident(void *ctx, const struct incident *i);
void prose_event(void *ctx, const struct diag_event *e, size_t id);
void prose_remedy(void *ctx, const struct diag_remedy *r, size_t number);
void prose_setting(void *ctx, const struct diag_setting *s);
void prose_change(void *ctx, const struct incident *i, const struct diag_change *c);
/** Where the list of changes is empty, whether it is because the incident is older. */
void prose_no_change(const struct text_report *t, const struct incident *i);
void prose_like(void *ctx, const struct incident *i, const struct diag_like *l);
void prose_known(void *ctx, const struct know_bad *b);
void prose_next(void *ctx, const struct diag_next *n);
void prose_question(void *ctx, const struct diag_question *q);
/** What the user said, and what that makes of the explanations. */
void prose_answers(const struct text_report *t, const struct incident *i);
/** `Now: Reboot. Fault: the new kernel. First: Boot the older kernel` */
void prose_reply(const struct diag_reply *r, struct text *to);
