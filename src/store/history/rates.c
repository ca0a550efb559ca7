// Which machines, or GPUs, fail more often than the others: incidents by the hours of work, because one that works twice as much fails twice as
// often.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/history/asking.h"
#include "store/history/query.h"

struct rating {
	struct history *h;
	struct history_rate_list *list;
	int64_t *nameless;
	size_t sorted; // so many are in the order of their names: those that worked
};

static struct str rate_text(struct rating *r, const struct db_value *v)
{
	return v->type == DB_TEXT ? arena_str(&r->h->arena, v->text) : (struct str){ 0 };
}

static int rate_by_name(const void *a, const void *b)
{
	return str_cmp(((const struct history_rate *)a)->name, ((const struct history_rate *)b)->name);
}

static void rate_work_row(void *ctx, const struct db_value *row, size_t n)
{
	struct rating *r = ctx;
	if (n < 4 || row[0].type != DB_TEXT)
		return;
	const double busy = row[3].type == DB_REAL ? row[3].real : (double)row[3].number;
	const struct history_rate one = { .name = rate_text(r, &row[0]),
					  .host = rate_text(r, &row[1]),
					  .part = rate_text(r, &row[2]),
					  .rate.hours = busy / 3600 };
	vec_push(r->list, one);
}

/** Those of which no work is known stand behind the others. */
static void rate_count_row(void *ctx, const struct db_value *row, size_t n)
{
	struct rating *r = ctx;
	if (n < 4)
		return;
	if (row[0].type != DB_TEXT) {
		*r->nameless += row[3].number;
		return;
	}
	const struct history_rate wanted = { .name = row[0].text };
	struct history_rate *found =
		r->sorted ? bsearch(&wanted, r->list->data, r->sorted, sizeof(wanted), rate_by_name) : NULL;
	if (found) {
		found->rate.events = (double)row[3].number;
		return;
	}
	const struct history_rate one = { .name = rate_text(r, &row[0]),
					  .host = rate_text(r, &row[1]),
					  .part = rate_text(r, &row[2]),
					  .rate.events = (double)row[3].number };
	vec_push(r->list, one);
}

/** The worst first: by what is certain, not by one incident in the only hour. */
static int rate_worst(const void *a, const void *b)
{
	const struct history_rate *x = a, *y = b;
	const double keys[][2] = { { x->rate.hours > 0, y->rate.hours > 0 },
				   { x->limits.low, y->limits.low },
				   { x->rate.events, y->rate.events },
				   { y->rate.hours, x->rate.hours } };
	for (size_t n = 0; n < ARRAY_SIZE(keys); n++)
		if (keys[n][0] > keys[n][1] || keys[n][0] < keys[n][1])
			return keys[n][0] > keys[n][1] ? -1 : 1;
	return str_cmp(x->name, y->name);
}

/** All intervals together are right in 95 %: of a thousand machines, none is called bad by chance. */
static void rates_judge(struct history_rates *r)
{
	static const double error = 0.05;
	size_t worked = 0;
	for (size_t n = 0; n < r->list.len; n++)
		if (r->list.data[n].rate.hours > 0) {
			r->all.events += r->list.data[n].rate.events;
			r->all.hours += r->list.data[n].rate.hours;
			worked++;
		}
	for (size_t n = 0; n < r->list.len; n++) {
		struct history_rate *one = &r->list.data[n];
		one->limits = rate_limits(one->rate, 1 - error / (double)(worked ? worked : 1));
		one->outlier = worked > 1 && one->limits.low > r->all.events / r->all.hours;
	}
	if (r->list.len)
		qsort(r->list.data, r->list.len, sizeof(*r->list.data), rate_worst);
}

struct uh_error *history_rates(struct history *h, const struct history_filter *f, bool gpus, struct history_rates *ret)
{
	_cleanup_inquiry_ struct inquiry work = { 0 }, count = { 0 };
	struct rating r = { .h = h, .list = &ret->list, .nameless = &ret->nameless };
	struct history_filter within = *f;
	const char *name = gpus ? "coalesce(serial, host || ' ' || gpu)" : "host";
	within.open_ever = false; // hours of work are of this time only
	text_printf(&work.sql, "SELECT %s, max(host), max(part), sum(busy) FROM exposure", name);
	inquiry_from(&work, "since", f->since, f->until);
	inquiry_is(&work, "host", f->host);
	inquiry_is(&work, "gpu", f->gpu);
	inquiry_is(&work, "serial", f->serial);
	inquiry_is(&work, "part", f->part);
	text_printf(&work.sql, " GROUP BY %s", name);
	// What comes within an hour on one of them is one burst.
	text_printf(&count.sql, "SELECT %s, max(host), max(part), count(DISTINCT began / 3600) FROM incidents", name);
	inquiry_filter(&count, &within);
	text_printf(&count.sql, " GROUP BY %s", name);
	struct uh_error *err = inquiry_ask(h, &work, rate_work_row, &r);
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), rate_by_name);
	r.sorted = ret->list.len;
	if (!err)
		err = inquiry_ask(h, &count, rate_count_row, &r);
	rates_judge(ret);
	return err;
}
