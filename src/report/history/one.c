// One incident of the history on a terminal: what it was, its events, what to do and to try.
#include <math.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "report/history/history.h"
#include "report/report.h"
#include "report/sheet.h"

enum { LABEL = 12, EVENTS_SHOWN = 20 };

static void one_row(FILE *out, const char *label, struct str value, size_t width)
{
	if (!value.n)
		return;
	fprintf(out, "%-*s", LABEL, label);
	print_wrapped(out, value, LABEL, LABEL, width);
}

/** Texts that belong together, with commas. */
static void one_rows(FILE *out, const char *label, const struct str *values, size_t n, size_t width)
{
	_cleanup_text_ struct text all = { 0 };
	for (size_t i = 0; i < n; i++)
		if (values[i].n)
			text_printf(&all, "%s" STR_FMT, all.n ? ", " : "", STR_ARG(values[i]));
	one_row(out, label, text_str(&all), width);
}
#define ONE_ROW(out, label, width, ...)                                                                                        \
	one_rows((out), (label), (const struct str[]){ __VA_ARGS__ },                                                          \
		 sizeof((const struct str[]){ __VA_ARGS__ }) / sizeof(struct str), (width))

static void say_events(const struct history_event_list *list, size_t width, FILE *out)
{
	for (size_t n = 0; n < list->len && n < EVENTS_SHOWN; n++) {
		const struct history_event *e = &list->data[n];
		_cleanup_text_ struct text at = { 0 };
		if (n && isfinite(e->time) && isfinite(list->data[0].time))
			text_printf(&at, "%+.1f s", e->time - list->data[0].time);
		fprintf(out, "%*.*s  %-7.*s ", LABEL - 2, STR_ARG(text_str(&at)), STR_ARG(e->role));
		print_wrapped(out, e->text, 2 * LABEL - 2, 2 * LABEL - 2, width);
	}
	if (list->len > EVENTS_SHOWN)
		fprintf(out, "%*sand %zu more events\n", LABEL, "", list->len - EVENTS_SHOWN);
}

static void say_numbered(const char *label, const struct str *list, size_t n, size_t width, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(out, "%-*s%zu. ", LABEL, i ? "" : label, i + 1);
		print_wrapped(out, list[i], LABEL + 3, LABEL + 3, width);
	}
}

void report_history_told(const struct history_incident *i, const struct history_event_list *events,
			 const struct history_explained *e, unsigned columns, FILE *out)
{
	const size_t width = report_width(&(struct uh_report_options){ .width = columns });
	char began[DATE_ROOM], ended[DATE_ROOM];
	print_wrapped(out, i->title.n ? i->title : S("An incident that is not explained"), 0, 0, width);
	ONE_ROW(out, "Incident", width, i->id, i->state, i->class);
	ONE_ROW(out, "GPU", width, i->gpu_name, i->part, i->gpu, i->serial);
	one_row(out, "Node", i->host, width);
	ONE_ROW(out, "Program", width, i->program, str_eq(i->job, i->program) ? (struct str){ 0 } : i->job);
	one_row(out, "Began", date_text(i->began, began), width);
	one_row(out, "Ended", date_text(i->ended, ended), width);
	one_row(out, "Ended by", i->closed_by, width);
	one_row(out, "Now", e->action.n ? e->action : i->action, width);
	one_row(out, "Fault", i->fault, width);
	one_row(out, "Confidence", e->confidence, width);
	one_row(out, "Usable", i->fit, width);
	one_row(out, "Files", i->place, width);
	if (events->len)
		fputc('\n', out);
	say_events(events, width, out);
	if (e->explanation.n || e->remedies.len || e->next.len)
		fputc('\n', out);
	one_row(out, "Why", e->explanation, width);
	say_numbered("Try", e->remedies.data, e->remedies.len, width, out);
	say_numbered("Next", e->next.data, e->next.len, width, out);
}
