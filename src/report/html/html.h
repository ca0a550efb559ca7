// What the files of the HTML and the Markdown report share: which lines of the evidence they quote, and the parts of a page.
#pragma once

#include "report/html/page.h"
#include "report/html/tag.h"
#include "report/picture/picture.h"
#include "report/text/prose.h"

struct quoted_line {
	struct place at; // first, for sorting
	bool told;       // something that is told stands in it
};
typedef VEC(struct quoted_line) quoted_lines;

enum { QUOTED_AROUND = 3 };

/** The lines of what is told of an incident and those around them, in order; @full: all that were kept. Those that were not kept are left
 * out. The caller frees it with vec_free(). */
quoted_lines quote_lines(const struct diagnosis *d, const struct incident *i, bool full);
/** Leaves no more than @most of them: first without those around what is told, then without the last. Returns whether that is all. */
bool quote_limit(quoted_lines *list, size_t most);
bool quote_has(const quoted_lines *list, struct place at);
/** How many of them something is told of. */
size_t quote_told(const quoted_lines *list);

// What the files of the HTML report share.
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

/** `<details>` and its summary, with a count where it is not 0. */
void html_fold(struct html_report *h, const char *id, const char *title, size_t count);
void html_fold_end(struct html_report *h);
