// Lines of the evidence, each with those around it, as they stand there.
#include <stdlib.h>

#include "report/html/parts.h"
#include "report/html/quote.h"

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
static size_t put_lines(struct html_report *h, const quoted_lines *list)
{
	struct html *p = &h->page;
	const struct quoted_line *last = NULL;
	size_t shown = 0;
	for (size_t n = 0; n < list->len; n++) {
		const struct quoted_line *q = &list->data[n];
		if (!h->options->full_evidence && shown == LINES_MOST)
			break;
		if (last && (last->at.source != q->at.source || last->at.line + 1 != q->at.line))
			page_put(p, "</ol>\n");
		if (!last || last->at.source != q->at.source)
			page_element(p, "h3", "h3", evidence_at(h->d->evidence, q->at.source)->path);
		if (!last || last->at.source != q->at.source || last->at.line + 1 != q->at.line)
			page_put(p, "<ol class=\"lines\">\n");
		put_line(h, q);
		last = q;
		shown++;
	}
	if (last)
		page_put(p, "</ol>\n");
	return shown;
}

void html_evidence(struct html_report *h, const struct incident *i)
{
	quoted_lines list = quote_lines(h->d, i, h->options->full_evidence);
	if (list.len) {
		html_fold(h, "evidence", "Evidence", quote_told(&list));
		if (put_lines(h, &list) < list.len)
			page_put(&h->page, "<p>More lines are in the evidence itself.</p>\n");
		html_fold_end(h);
	}
	vec_free(&list);
}
