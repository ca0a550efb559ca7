// Lines of the evidence, each with those around it, as they stand there.
#include "report/html/parts.h"

enum { LINES_MOST = 600, LINE_MOST = 1000, LINE_FULL = 4096 };

static void put_line(struct html_report *h, const struct quoted_line *q)
{
	struct html *p = &h->page;
	page_numbers(p, "<li value=\"%llu\" id=\"L%zu-%u-%llu\">", (unsigned long long)q->at.line, h->index, q->at.source,
		     (unsigned long long)q->at.line);
	page_put(p, "<code>");
	if (q->told)
		page_put(p, "<mark>");
	page_clipped(p, lines_at(h->d->lines, q->at), h->options->full_evidence ? LINE_FULL : LINE_MOST);
	if (q->told)
		page_put(p, "</mark>");
	page_put(p, "</code></li>\n");
}

/** A list for each run of lines. */
static void put_lines(struct html_report *h, const quoted_lines *list)
{
	struct html *p = &h->page;
	const struct quoted_line *last = NULL;
	for (size_t n = 0; n < list->len; n++) {
		const struct quoted_line *q = &list->data[n];
		if (last && (last->at.source != q->at.source || last->at.line + 1 != q->at.line))
			page_put(p, "</ol>\n");
		if (!last || last->at.source != q->at.source)
			page_element(p, "h3", "h3", evidence_at(h->d->evidence, q->at.source)->path);
		if (!last || last->at.source != q->at.source || last->at.line + 1 != q->at.line)
			page_put(p, "<ol class=\"lines\">\n");
		put_line(h, q);
		last = q;
	}
	if (last)
		page_put(p, "</ol>\n");
}

void html_quote(struct html_report *h, const struct incident *i)
{
	// All of the evidence stands with the first incident: it is the same for all.
	const bool full = h->options->full_evidence && h->index == 1;
	h->quoted = quote_lines(h->d, i, full);
	h->all_quoted = full || quote_limit(&h->quoted, LINES_MOST);
}

void html_evidence(struct html_report *h)
{
	if (h->quoted.len) {
		html_fold(h, "evidence", "Evidence", quote_told(&h->quoted));
		put_lines(h, &h->quoted);
		if (!h->all_quoted)
			page_put(&h->page, "<p>More lines are in the evidence itself.</p>\n");
		html_fold_end(h);
	}
	vec_free(&h->quoted);
}
