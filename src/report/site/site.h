// Pages of the history, for a server and as files: the same, but for how they are linked. They have no script, and ask nobody for anything.
#pragma once

#include <stdio.h>

#include "report/history/told.h"

enum site_page { SITE_OVERVIEW, SITE_INCIDENTS, SITE_RUNS, SITE_MACHINES, SITE_PAGES };

/** How pages are linked, and what stands on each of them. */
struct site {
	bool files;     // as files: links are relative, and have .html
	unsigned depth; // of files: how many directories below the overview the page is
	int64_t now;
	struct str title; // of the store: whose history it is
};

struct site_overview {
	struct history_summary summary;
	struct history_incident_list open;
	int64_t since;
};
void site_put_overview(const struct site *s, const struct site_overview *o, FILE *out);

/** Which of them: for the form, and the pages before and behind. */
struct site_list {
	const struct history_filter *filter;
	struct str query; // what was asked, as it stands behind the address, without skip
	int64_t skip, most, total;
};
void site_put_incidents(const struct site *s, const struct site_list *l, const struct history_incident_list *list, FILE *out);
void site_put_runs(const struct site *s, const struct site_list *l, const struct history_run_list *list, FILE *out);
void site_put_machines(const struct site *s, const struct history_machine_list *list, const struct history_rates *rates,
		       FILE *out);

struct site_incident {
	const struct history_incident *incident;
	const struct history_event_list *events;
	const struct history_sampled_list *samples;
	const struct history_explained *diagnosis;
	const struct history_change_list *changes; // shortly before it
	bool report;                               // a full report can be asked for
};
void site_put_incident(const struct site *s, const struct site_incident *i, FILE *out);

/** What a try says beyond its row. */
struct site_try {
	struct str filter, because, words, kernel, place, decision, bundle;
};
struct site_run {
	const struct history_run *run;
	const struct history_try_list *tries;
	const struct site_try *details; // one for each
	const struct history_sampled_list *samples;
};
void site_put_run(const struct site *s, const struct site_run *r, FILE *out);

struct site_machine {
	struct str host;
	const struct history_totals *totals;
	const struct history_change_list *configuration, *changes;
	const struct history_helped_list *helped;
	const struct history_incident_list *incidents;
	const struct history_count_list *days;
	int64_t since;
};
void site_put_machine(const struct site *s, const struct site_machine *m, FILE *out);

/** A page that says one thing: there is none of that name, or something cannot be read. */
void site_put_notice(const struct site *s, const char *title, struct str says, FILE *out);

/** The file of a page: `incident/ID.html`. Two names never have one file, and none is too long. */
void site_file(struct text *to, const char *kind, struct str name);

// --- for the files of this folder ---

struct html;
struct html site_begin(const struct site *s, FILE *out, enum site_page page, struct str title);
void site_end(struct html *p);
/** The address of a page of this kind (incident, run, machine; incidents, runs, machines, and empty for the overview). */
void site_href(const struct site *s, struct html *p, const char *kind, struct str name);
/** A name as a part of an address: letters, digits and a few others stay. */
void site_put_name(struct text *to, struct str name);
/** A link to one, with its text. */
void site_link(const struct site *s, struct html *p, const char *kind, struct str name, struct str text);
/** 17 Nov 2026 23:16 UTC, for people and programs. */
void site_when(struct html *p, int64_t when);
/** A table of incidents. */
void site_table(const struct site *s, struct html *p, const struct history_incident_list *list, bool nodes);

/** Bars of each day, in layers by name; the table of the same is folded below it. */
void chart_days(struct html *p, const struct history_count_list *list, int64_t since, int64_t until);
/** Four panels of what a GPU was like, with a line at each moment. */
void chart_samples(struct html *p, const struct history_sampled_list *list, const int64_t *moments, size_t n);
