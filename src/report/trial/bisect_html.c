// A bisection as one HTML file: the answer, and the rate of each question as a bar between its limits.
#include "report/html/tag.h"
#include "report/trial/bisect.h"

enum { BAR = 320, BAR_LEFT = 4 };

static double bar_x(double rate) { return BAR_LEFT + rate * BAR; }

static void bar(struct html *p, struct tally t)
{
	const struct tally_interval i = tally_limits(t, 0.95);
	page_numbers(
		p,
		"<svg width=\"%d\" height=\"18\" role=\"img\"><line x1=\"%d\" y1=\"9\" x2=\"%d\" y2=\"9\" stroke=\"#ccc\"/>"
		"<rect x=\"%.1f\" y=\"5\" width=\"%.1f\" height=\"8\" fill=\"#7aa6d8\"/>"
		"<circle cx=\"%.1f\" cy=\"9\" r=\"3.5\" fill=\"#123\"/></svg>",
		BAR + 2 * BAR_LEFT, BAR_LEFT, BAR + BAR_LEFT, bar_x(i.low), bar_x(i.high) - bar_x(i.low), bar_x(tally_rate(t)));
}

static void question_row(struct html *p, const struct bisect_question *q)
{
	static const char *const answers[] = { "", "yes", "no" };
	page_put(p, "<tr>");
	page_element(p, "td", "td", q->words);
	page_put(p, "<td>");
	bar(p, q->tally);
	page_numbers(p, "</td><td>%u of %u</td>", q->tally.failed, q->tally.runs);
	page_element(p, "td", "td", str_z(q->stage == STAGE_CONTROL ? "" : answers[q->answer]));
	page_put(p, "</tr>\n");
}

/** The text that a terminal shows, as it is. */
static void text_part(struct html *p, const struct bisect_told *t)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	if (!to)
		return;
	report_bisect(t, false, to);
	fclose(to);
	page_put(p, "<pre>");
	struct str rest = { text, n };
	while (rest.n) {
		page_text(p, str_split(&rest, '\n'));
		page_put(p, "\n");
	}
	page_put(p, "</pre>");
	free(text);
}

void report_bisect_html(const struct bisect_told *t, FILE *out)
{
	struct html p = { .out = out };
	const struct bisect_result *r = t->result;
	page_put(
		&p,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>unhang bisect</title>"
		"<meta name=\"generator\" content=\"unhang bisect\"><style>body{font:15px sans-serif;max-width:60em;margin:2em "
		"auto;padding:0 1em}td{padding:.2em .8em .2em 0;vertical-align:middle}pre{background:#f4f4f4;padding:1em;"
		"overflow-x:auto}</style></head><body>\n<h1>unhang bisect</h1>\n");
	text_part(&p, t);
	page_put(&p, "<h2>Failures in each question</h2>\n<p>The dot is the share of runs that failed; the bar is its exact "
		     "interval of "
		     "95 %. The left end is 0 %, the right end 100 %.</p>\n<table>");
	for (size_t i = 0; i < r->questions.len; i++)
		if (r->questions.data[i].tally.runs)
			question_row(&p, &r->questions.data[i]);
	page_put(&p, "</table>\n</body></html>\n");
}
