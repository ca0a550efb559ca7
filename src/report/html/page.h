// A diagnosis as one HTML file: it needs no network and no script, and holds nothing that was not told.
#pragma once

#include "report/report.h"

/** What becomes of each text of the evidence before it is written: names that are replaced. */
struct page_filter {
	void (*text)(void *ctx, struct str s, struct text *ret);
	void *ctx;
};

/** Lines of the source around a place that the code at a pc is from. */
struct page_source {
	const struct diag_event *event;
	struct str path;
	unsigned first, here; // the number of the first line, and of the one that is meant
	size_t n;
	const struct str *lines;
};

struct page_options {
	const struct page_filter *filter; // NULL: none
	bool full_evidence;               // all lines that were kept, not only those around what is told
	const struct page_source *sources;
	size_t nsources;
};

void report_html(const struct diagnosis *d, FILE *out, const struct page_options *o);
/** The same answer on one screen for a tracker or a chat, with the rest folded. */
void report_markdown(const struct diagnosis *d, FILE *out, const struct page_options *o);
