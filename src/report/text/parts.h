// What the files of the report for people share: prose_ is their word. incident.c and advice.c have callbacks of the walk.
#pragma once

#include "report/report.h"

enum { LABEL = 8, ROW_TEXT = 53, ROWS_MAX = 14 };

struct text_report {
	FILE *out;
	const struct uh_report_options *options;
	const struct diagnosis *diagnosis;
	size_t width;
	size_t index; // of the incident
	bool full;    // this incident is written in full
	size_t rows;
	size_t noted;
	size_t quiet;                  // events that are not shown
	const struct diag_event *held; // rows of the same kind are written as one
	struct text held_who;          // ranks or processes of which one row tells
	unsigned held_count;
	struct stamp held_last;
	struct stamp begin; // of the incident
};

// --- words, lines, colours ---
const char *prose_paint(const struct text_report *t, const char *code);
const char *prose_plain(const struct text_report *t);
void prose_wrap(const struct text_report *t, struct str s, size_t indent, size_t column);
void prose_label(const struct text_report *t, const char *name, struct str s);
void prose_time(const struct text_report *t, struct stamp time);
void prose_fact(const struct text_report *t, int indent, const struct fact *f);
/** Where a row was read. */
void prose_place(const struct text_report *t, struct text *line, struct place at);

// --- callbacks ---
void prose_incident(void *ctx, const struct incident *i);
void prose_event(void *ctx, const struct diag_event *e, size_t id);
/** The row that is held, so that others may count with it, is written. */
void prose_row(struct text_report *t);
void prose_remedy(void *ctx, const struct diag_remedy *r, size_t number);
void prose_setting(void *ctx, const struct diag_setting *s);
void prose_known(void *ctx, const struct know_bad *b);
void prose_next(void *ctx, const struct diag_next *n);
