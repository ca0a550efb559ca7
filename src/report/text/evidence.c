// The lines of the evidence behind what a report says, in the form of grep: FILE:LINE:TEXT.
#include <stdlib.h>

#include "base/print.h"
#include "report/text/parts.h"

enum { LINES_BRIEF = 40 };

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

typedef VEC(struct place) places;

static void add_place(places *list, struct place at)
{
	for (size_t n = 0; n < list->len; n++)
		if (!by_place(&list->data[n], &at))
			return;
	vec_push(list, at);
}

/** Returns how many lines there were. */
static size_t put_lines(const struct text_report *t, places *list)
{
	size_t shown = 0;
	if (list->len)
		qsort(list->data, list->len, sizeof(list->data[0]), by_place);
	for (size_t n = 0; n < list->len; n++) {
		const struct str line = lines_at(t->diagnosis->lines, list->data[n]);
		if (!line.n)
			continue;
		print_safe(t->out, evidence_at(t->diagnosis->evidence, list->data[n].source)->path);
		fprintf(t->out, ":%llu:", (unsigned long long)list->data[n].line);
		for (struct str rest = line, part = str_split(&rest, '\t');; part = str_split(&rest, '\t')) {
			print_safe(t->out, part);
			if (part.p + part.n == line.p + line.n)
				break;
			fputc('\t', t->out);
		}
		fputc('\n', t->out);
		shown++;
	}
	list->len = 0;
	return shown;
}

static void put_heading(const struct text_report *t, struct str what, const char *role)
{
	fprintf(t->out, "%s# ", prose_paint(t, "\033[1m"));
	print_safe(t->out, what);
	if (role)
		fprintf(t->out, " (%s)", role);
	fprintf(t->out, "%s\n", prose_plain(t));
}

void evidence_lines(const struct text_report *t, const struct incident *i)
{
	places list = { 0 };
	size_t shown = 0, left = 0;
	if (!t->diagnosis->lines)
		return;
	fputc('\n', t->out);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		add_place(&list, e->at);
		for (size_t f = 0; f < e->nfacts; f++)
			add_place(&list, e->facts[f].at);
		if (!t->options->verbose && (shown >= LINES_BRIEF || (e->kind->quiet && e->role != ROLE_CAUSE))) {
			left += list.len;
			list.len = 0;
			continue;
		}
		put_heading(t, e->kind->title, role_name(e->role));
		shown += put_lines(t, &list);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		add_place(&list, i->machine.data[n].at);
	if (list.len)
		put_heading(t, S("the machine"), NULL);
	put_lines(t, &list);
	if (left)
		fprintf(t->out, "# %zu more line%s (-vv)\n", left, left == 1 ? "" : "s");
	vec_free(&list);
}
