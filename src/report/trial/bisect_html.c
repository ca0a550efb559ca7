// A bisection as one HTML file: the answer, and the rate of each question as a bar between its limits.
#include "report/trial/bisect.h"
#include "report/trial/rates.h"

static void question_row(struct html *p, const struct bisect_question *q)
{
	static const char *const answers[] = { "", "yes", "no" };
	page_put(p, "<tr>");
	page_element(p, "td", "td", q->words);
	page_put(p, "<td>");
	rate_bar(p, q->tally);
	page_numbers(p, "</td><td>%u of %u</td>", q->tally.failed, q->tally.runs);
	page_element(p, "td", "td", str_z(q->stage == STAGE_CONTROL ? "" : answers[q->answer]));
	page_put(p, "</tr>\n");
}

static void write_bisect_text(const void *ctx, FILE *to) { report_bisect(ctx, false, to); }

void report_bisect_html(const struct bisect_told *t, FILE *out)
{
	struct html p = { .out = out };
	const struct bisect_result *r = t->result;
	rates_page_begin(&p, S("unhang bisect"), write_bisect_text, t);
	for (size_t i = 0; i < r->questions.len; i++)
		if (r->questions.data[i].tally.runs)
			question_row(&p, &r->questions.data[i]);
	rates_page_end(&p);
}
