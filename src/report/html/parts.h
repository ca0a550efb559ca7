// What the files of the HTML report share.
#pragma once

#include "report/html/quote.h"
#include "report/html/tag.h"
#include "report/picture/picture.h"
#include "report/text/parts.h"

struct html_report {
	struct html page;
	const struct diagnosis *d;
	const struct page_options *options;
	struct text_report words; // for the sentences that it shares with the text
	size_t index;             // of the incident, from 1
	quoted_lines quoted;      // of the incident
	bool all_quoted;
	VEC(struct note) notes;
};

/** The first screen of an incident: what happened, where, what to do now, whose fault, and its lead picture. */
void html_first(struct html_report *h, const struct incident *i);
/** On which host, or in which file, and when. */
void html_origin(struct html_report *h, const struct incident *i);
/** Figure and table. */
void html_picture(struct html_report *h, const struct picture *p);
/** The drawing alone: its table stands elsewhere. */
void html_strip(struct html_report *h, const struct picture *p);
/** All pictures but the lead; those that lack data are named. @lead: SHOWS_KINDS where there is none. */
void html_pictures(struct html_report *h, const struct incident *i, enum know_picture lead);
/** Folded: why, remedies with their steps, events with their facts, lines of the evidence. */
void html_details(struct html_report *h, const struct incident *i);
/** Chooses the lines that are quoted, before anything refers to them; and writes them. */
void html_quote(struct html_report *h, const struct incident *i);
void html_evidence(struct html_report *h);
/** Code and waves. */
void html_tables(struct html_report *h, const struct incident *i);
/** At the end: what was read, and what the file tells about the machine and its people. */
void html_about(struct html_report *h);

/** `<details>` and its summary, with a count where it is not 0. */
void html_fold(struct html_report *h, const char *id, const char *title, size_t count);
void html_fold_end(struct html_report *h);
/** The place of a line, as a link to where it is quoted. */
void html_place(struct html_report *h, struct place at);
/** The first fact of this name of the root, or else of any event. */
struct str html_fact(const struct incident *i, const char *name);
