// Which verdicts of knowledge/silicon.know hold, and what they tell beside the answer.
#include "evidence/silicon/facts.h"

size_t verdicts_of(const struct know *k, const struct verdict_facts *f, const struct know_verdict *ret[static VERDICTS_MOST])
{
	const struct fact_view view = verdict_view(f);
	size_t n = 0;
	for (size_t i = 0; i < k->verdicts.len && n < VERDICTS_MOST; i++) {
		const struct know_verdict *v = k->verdicts.data[i];
		// After a verdict that something is wrong, others count only if they say so too.
		if (v->aside || (n && !v->event.n) || condition_eval(v->when, &view) != TRUTH_YES)
			continue;
		ret[n++] = v;
		if (!v->go_on)
			break;
	}
	return n;
}

int verdict_asides(const struct know *k, const struct verdict_facts *f, struct text *to)
{
	const struct fact_view view = verdict_view(f);
	int fit = SITS_WELL;
	for (size_t i = 0; i < k->verdicts.len; i++) {
		const struct know_verdict *v = k->verdicts.data[i];
		if (!v->aside || condition_eval(v->when, &view) != TRUTH_YES)
			continue;
		if (to->n)
			text_add(to, S("\n"));
		phrase_fill(to, v->hint, &view);
		fit = (int)v->fit > fit ? (int)v->fit : fit;
	}
	return fit;
}

void verdict_hint(const struct verdict_facts *f, const struct know_verdict *v, struct text *to)
{
	const struct fact_view view = verdict_view(f);
	phrase_fill(to, v->hint, &view);
}
