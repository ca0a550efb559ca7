// What the files of the report for people share: prose_ is their word. incident.c and advice.c have callbacks of the walk.
#pragma once

#include "report/report.h"
#include "report/text/screen.h"

enum { LABEL = 8, STACKED_BELOW = 70, NOTES_BRIEF = 3, NOTE_LINES = 2 };

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
	size_t noted;
	struct stamp begin; // of the incident
	// of the first screen
	struct screen screen;
	VEC(struct brief_row) rows;
	size_t tried, nexts, knowns; // that it has
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

// --- what both the first screen and the long report say of an incident ---
void prose_title(const struct incident *i, struct text *to);
/** Which GPU of which host, which kernel, when, how long, and how it ended. */
void prose_summary(const struct text_report *t, const struct incident *i, struct text *to);
void prose_fault(const struct incident *i, struct text *to);

/** The lead picture, where the terminal has room for it below the first screen. */
void prose_picture(const struct text_report *t, const struct incident *i);
/** The lines behind what was said of it, where they were asked for. */
void evidence_lines(const struct text_report *t, const struct incident *i);
/** Whether the incidents are of several machines, so that a table tells more than one of them in full; and that table. */
bool batch_is(const struct diagnosis *d);
void batch_put(const struct text_report *t);

// --- callbacks of the first screen ---
void brief_incident(void *ctx, const struct incident *i);
void rows_event(void *ctx, const struct diag_event *e, size_t id);
/** The few rows that matter, as blocks of the screen. */
void rows_add(struct text_report *t, const struct incident *i);
void brief_known(void *ctx, const struct know_bad *b);
void brief_remedy(void *ctx, const struct diag_remedy *r, size_t number);
void brief_setting(void *ctx, const struct diag_setting *s);
void brief_next(void *ctx, const struct diag_next *n);
void brief_close(void *ctx, enum report_list list, const struct incident *i);
void brief_end(void *ctx, const struct incident *i);

// --- callbacks of the long report ---
void prose_incident(void *ctx, const struct incident *i);
void prose_event(void *ctx, const struct diag_event *e, size_t id);
void prose_remedy(void *ctx, const struct diag_remedy *r, size_t number);
void prose_setting(void *ctx, const struct diag_setting *s);
void prose_known(void *ctx, const struct know_bad *b);
void prose_next(void *ctx, const struct diag_next *n);
