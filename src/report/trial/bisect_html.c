// A bisection as one HTML file: the answer, and the rate of each question as a bar between its limits.
#include "report/trial/bisect.h"
#include "report/trial/rates.h"

static struct str question_answer(const struct bisect_question *q)
{
	static const char *const gone[] = { "", "gone", "still fails" }, *const more[] = { "", "more often", "not more often" };
	return q->stage == STAGE_CONTROL || q->stage == STAGE_BARE ? (struct str){ 0 } :
	       q->stage == STAGE_DELAY || q->stage == STAGE_WIDEN  ? str_z(more[q->answer]) :
								     str_z(gone[q->answer]);
}

static void write_bisect_text(const void *told, FILE *to) { report_bisect(told, false, to); }

void report_bisect_html(const struct bisect_told *t, FILE *out)
{
	struct html p = { .out = out };
	struct bisect_told wide = *t;
	wide.width = RATES_WIDTH;
	rates_page_begin(&p, &(struct rates_page){ S("unhang bisect"), &t->asked, write_bisect_text, &wide, BISECT_LABEL });
	for (size_t i = 0; i < t->result->questions.len; i++) {
		const struct bisect_question *q = &t->result->questions.data[i];
		if (q->tally.runs)
			rates_page_row(&p, q->words, q->tally, question_answer(q));
	}
	rates_page_end(&p);
}
