// Lines of the evidence, each with those around it, as they stand there.
#include <stdlib.h>

#include "report/html/parts.h"

enum { AROUND = 3, LINES_MOST = 600, LINE_MOST = 1000, LINE_FULL = 4096 };

struct quoted_line {
	struct place at; // first, for by_place()
	bool told;       // something that is told stands in it
};
typedef VEC(struct quoted_line) quoted_lines;

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void want(quoted_lines *list, struct place at)
{
	const struct quoted_line *last = list->len ? &list->data[list->len - 1] : NULL;
	const struct quoted_line one = { at, true };
	if (at.line && !(last && !by_place(last, &at)))
		vec_push(list, one);
}

/** Sorted, each once. */
static void tidy(quoted_lines *list)
{
	size_t len = 0;
	if (list->len)
		qsort(list->data, list->len, sizeof(list->data[0]), by_place);
	for (size_t n = 0; n < list->len; n++) {
		if (len && !by_place(&list->data[n], &list->data[len - 1]))
			list->data[len - 1].told |= list->data[n].told;
		else
			list->data[len++] = list->data[n];
	}
	list->len = len;
}

static void want_around(quoted_lines *list)
{
	const size_t n = list->len;
	for (size_t k = 0; k < n; k++) {
		const struct place at = list->data[k].at;
		for (uint64_t line = at.line > AROUND ? at.line - AROUND : 1; line <= at.line + AROUND; line++) {
			const struct quoted_line one = { { at.source, line }, false };
			if (line != at.line)
				vec_push(list, one);
		}
	}
	tidy(list);
}

/** Every line that was kept of the sources that have one. */
static void want_all(const struct html_report *h, quoted_lines *list)
{
	for (size_t n = 0; n < evidence_count(h->d->evidence); n++) {
		const struct evidence *e = evidence_at(h->d->evidence, n);
		for (uint64_t line = 1; line <= e->lines; line++) {
			const struct quoted_line one = { { e->id, line }, false };
			if (lines_at(h->d->lines, one.at).n)
				vec_push(list, one);
		}
	}
	tidy(list);
}

static void gather(const struct html_report *h, const struct incident *i, quoted_lines *list)
{
	for (size_t n = 0; n < i->events.len; n++) {
		want(list, i->events.data[n]->at);
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			want(list, i->events.data[n]->facts[f].at);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		want(list, i->machine.data[n].at);
	tidy(list);
	if (h->options->full_evidence)
		want_all(h, list);
	else
		want_around(list);
}

static void put_line(struct html_report *h, const struct quoted_line *q)
{
	struct page *p = &h->page;
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
	struct page *p = &h->page;
	const struct quoted_line *last = NULL;
	size_t shown = 0;
	for (size_t n = 0; n < list->len; n++) {
		const struct quoted_line *q = &list->data[n];
		if (!lines_at(h->d->lines, q->at).n)
			continue;
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
	quoted_lines list = { 0 };
	size_t told = 0;
	gather(h, i, &list);
	for (size_t n = 0; n < list.len; n++)
		told += list.data[n].told && lines_at(h->d->lines, list.data[n].at).n;
	if (told) {
		html_fold(h, "evidence", "Evidence", told);
		if (put_lines(h, &list) == LINES_MOST && !h->options->full_evidence)
			page_put(&h->page, "<p>More lines are in the evidence itself.</p>\n");
		html_fold_end(h);
	}
	vec_free(&list);
}
