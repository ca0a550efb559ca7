#include "report/html/quote.h"

#include <stdlib.h>

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
		for (uint64_t line = at.line > QUOTED_AROUND ? at.line - QUOTED_AROUND : 1; line <= at.line + QUOTED_AROUND;
		     line++) {
			const struct quoted_line one = { { at.source, line }, false };
			if (line != at.line)
				vec_push(list, one);
		}
	}
	tidy(list);
}

/** Every line that was kept of the sources that have one. */
static void want_all(const struct diagnosis *d, quoted_lines *list)
{
	for (size_t n = 0; n < evidence_count(d->evidence); n++) {
		const struct evidence *e = evidence_at(d->evidence, n);
		for (uint64_t line = 1; line <= e->lines + 1; line++) { // the last one may have no end
			const struct quoted_line one = { { e->id, line }, false };
			if (lines_at(d->lines, one.at).n)
				vec_push(list, one);
		}
	}
	tidy(list);
}

static void leave_out_unkept(const struct diagnosis *d, quoted_lines *list)
{
	size_t len = 0;
	for (size_t n = 0; n < list->len; n++)
		if (lines_at(d->lines, list->data[n].at).n)
			list->data[len++] = list->data[n];
	list->len = len;
}

quoted_lines quote_lines(const struct diagnosis *d, const struct incident *i, bool full)
{
	quoted_lines list = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		want(&list, i->events.data[n]->at);
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			want(&list, i->events.data[n]->facts[f].at);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		want(&list, i->machine.data[n].at);
	tidy(&list);
	if (full)
		want_all(d, &list);
	else
		want_around(&list);
	leave_out_unkept(d, &list);
	return list;
}

size_t quote_told(const quoted_lines *list)
{
	size_t told = 0;
	for (size_t n = 0; n < list->len; n++)
		told += list->data[n].told;
	return told;
}

bool quote_limit(quoted_lines *list, size_t most)
{
	size_t len = 0;
	if (list->len <= most)
		return true;
	for (size_t n = 0; n < list->len; n++)
		if (list->data[n].told)
			list->data[len++] = list->data[n];
	list->len = len < most ? len : most;
	return false;
}

bool quote_has(const quoted_lines *list, struct place at)
{
	return list->len && bsearch(&at, list->data, list->len, sizeof(list->data[0]), by_place);
}
