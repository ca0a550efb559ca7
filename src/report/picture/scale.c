// Times and addresses lie far apart where nothing happens. Such gaps are folded; the rest is to scale.
#include <stdlib.h>

#include "report/picture/picture.h"

#define FOLD_WIDTH 0.06 // of a gap that is left out
#define SPAN_LEAST 0.02 // of what is there, however small
#define GAP_MOST 0.5    // of the whole, for a gap

void scale_add(struct scale *s, double value) { vec_push(&s->values, value); }

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool is_gap(double begin, double end, const struct scale_span *spans, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spans[i].begin < end && spans[i].end > begin)
			return false;
	return true;
}

/** The largest gap that is not folded; SIZE_MAX: there is none. */
static size_t largest(const struct scale *s, const double *wide)
{
	size_t best = SIZE_MAX;
	for (size_t i = 0; i + 1 < s->values.len; i++)
		if (s->gap.data[i] && wide[i] > 0 && (best == SIZE_MAX || wide[i] > wide[best]))
			best = i;
	return best;
}

/** Sets the width of gaps that take too much to 0. Returns the sum of the others; *@ret_folded were folded. Beside what is there a gap may be
 * as long as all of it. Where there are points only, half of the whole, and most gaps stay: else a moment would look like the whole story. */
static double fold(const struct scale *s, double *wide, size_t *ret_folded)
{
	double sum = 0, there = 0;
	*ret_folded = 0;
	for (size_t i = 0; i + 1 < s->values.len; i++) {
		sum += wide[i] = s->values.data[i + 1] - s->values.data[i];
		there += s->gap.data[i] ? 0 : wide[i];
	}
	for (size_t i = largest(s, wide); i != SIZE_MAX && wide[i] < sum; i = largest(s, wide)) {
		if (there > 0 ? wide[i] <= there : wide[i] <= GAP_MOST * sum || 2 * (*ret_folded + 1) >= s->values.len)
			break;
		sum -= wide[i];
		wide[i] = 0;
		++*ret_folded;
	}
	return sum;
}

void scale_ready(struct scale *s, const struct scale_span *spans, size_t n, struct picture *p)
{
	size_t len = 0, folded;
	if (!s->values.len)
		return;
	qsort(s->values.data, s->values.len, sizeof(s->values.data[0]), by_value);
	for (size_t i = 0; i < s->values.len; i++)
		if (!len || s->values.data[i] > s->values.data[len - 1])
			s->values.data[len++] = s->values.data[i];
	s->values.len = len;
	for (size_t i = 0; i + 1 < len; i++)
		vec_push(&s->gap, is_gap(s->values.data[i], s->values.data[i + 1], spans, n));
	double *wide = mem_alloc(len * sizeof(*wide)), at = 0, all = 0;
	const double sum = fold(s, wide, &folded);
	for (size_t i = 0; i + 1 < len; i++) {
		wide[i] = wide[i] > 0 ? wide[i] / sum : FOLD_WIDTH;
		wide[i] = !s->gap.data[i] && wide[i] < SPAN_LEAST ? SPAN_LEAST : wide[i];
		all += wide[i];
	}
	vec_push(&s->at, 0.0);
	for (size_t i = 0; i + 1 < len; i++) {
		at += wide[i] / all;
		vec_push(&s->at, at);
	}
	// A gap that was folded has the fixed width; where it stands is marked.
	for (size_t i = 0; i + 1 < len && folded; i++)
		if (s->gap.data[i] && wide[i] == FOLD_WIDTH)
			vec_push(&p->folds, (s->at.data[i] + s->at.data[i + 1]) / 2);
	free(wide);
}

double scale_at(const struct scale *s, double value)
{
	for (size_t i = 0; i + 1 < s->values.len; i++) {
		const double begin = s->values.data[i], end = s->values.data[i + 1];
		if (value <= end)
			return value <= begin ?
				       s->at.data[i] :
				       s->at.data[i] + (value - begin) / (end - begin) * (s->at.data[i + 1] - s->at.data[i]);
	}
	return s->values.len > 1 ? 1 : 0.5;
}

void scale_free(struct scale *s)
{
	vec_free(&s->values);
	vec_free(&s->gap);
	vec_free(&s->at);
}
