// The history for people and programs: what happened most, each incident, whether changes helped.
#pragma once

#include <stdio.h>

#include "report/history/told.h"
#include "unhang/unhang.h"

/** What was asked, and the answers. */
struct history_told {
	const struct uh_history_options *options;
	struct history_filter filter;
	int64_t now;
	struct history_summary summary;
	struct history_incident_list incidents;
	struct history_helped_list helped;
	struct history_rates rates;
	bool more; // there are more incidents than were asked for
};

/** The document of docs/history.schema.json, or text within 24 lines. */
void report_history(const struct history_told *t, FILE *out);
/** The document of docs/incident.schema.json. @diagnosis: the document of docs/diagnosis.schema.json; empty: null. */
void report_history_incident(const struct history_incident *i, const struct history_event_list *events, struct str diagnosis,
			     FILE *out);
/** The same for people: what it was, its events, what to do and to try. */
void report_history_told(const struct history_incident *i, const struct history_event_list *events,
			 const struct history_explained *e, unsigned width, FILE *out);
/** A line for each incident, with the names of the columns first. */
void report_history_csv(const struct history_told *t, FILE *out);
/** Whether changes helped: part of the same document, or text. */
void report_helped(const struct history_told *t, FILE *out);

/** How often machines or GPUs fail: part of the same document, or text within 24 lines. */
void report_rates(const struct history_told *t, FILE *out);

/** `Helped: 9 in 210 h before, 0 in 100 h after.`, as it is said everywhere. */
void helped_sentence(struct text *to, const struct helped *h);
extern const char *const helped_verdicts[]; // their words in JSON, by enum helped_verdict

// --- for the files of this folder ---

struct sheet;
size_t history_width(const struct history_told *t);
/** Which time is asked for: ` in the last 8 weeks`. */
void history_window_said(struct text *to, const struct history_told *t);
/** The begin of the document, up to what was asked for. */
void history_begin(struct sheet *s, const struct history_told *t);
