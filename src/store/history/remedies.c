// Whether changes helped: each change of a setting or version, with the incidents and the hours of work before and after it. Machines that
// made the same change are put together: each has its own moment, from which its times count.
#include <stdlib.h>

#include "store/history/query.h"

enum { KINDS_MOST = 12, TOGETHER_S = 3600, BESIDE_MOST = 4 };

struct gathered {
	struct history *h;
	VEC(struct helped_event) events;
	VEC(struct helped_work) work;
	VEC(struct str) classes;
	double moment;    // of this machine's change
	unsigned machine; // which of them
};

static void gathered_free(struct gathered *g)
{
	vec_free(&g->events);
	vec_free(&g->work);
	vec_free(&g->classes);
}

static unsigned kind_of(struct gathered *g, struct str class)
{
	size_t n = 0;
	while (n < g->classes.len && !str_eq(g->classes.data[n], class))
		n++;
	if (n == g->classes.len && n < KINDS_MOST)
		vec_push(&g->classes, arena_str(&g->h->arena, class));
	return (unsigned)n; // behind the last: it counts among all, and not by itself
}

static void gather_event(void *ctx, const struct db_value *row, size_t n)
{
	struct gathered *g = ctx;
	if (n < 2)
		return;
	const struct helped_event one = { (double)row[0].number - g->moment, kind_of(g, row[1].text), g->machine };
	vec_push(&g->events, one);
}

static void gather_work(void *ctx, const struct db_value *row, size_t n)
{
	struct gathered *g = ctx;
	if (n < 3)
		return;
	const double busy = row[2].type == DB_REAL ? row[2].real : (double)row[2].number;
	const struct helped_work one = { (double)row[0].number - g->moment, (double)row[1].number - g->moment, busy / 3600 };
	vec_push(&g->work, one);
}

/** The change of the same thing before it, and after it. */
static void neighbours(const struct history_change_list *all, const struct history_change *c, int64_t *since, int64_t *until)
{
	for (size_t n = 0; n < all->len; n++) {
		const struct history_change *o = &all->data[n];
		if (!str_eq(o->host, c->host) || !str_eq(o->gpu, c->gpu) || !str_eq(o->name, c->name))
			continue;
		if (o->when < c->when && o->when > *since)
			*since = o->when;
		if (o->when > c->when && o->when < *until)
			*until = o->when;
	}
}

static struct uh_error *gather(struct gathered *g, const struct history_change *c, int64_t since, int64_t until)
{
	g->moment = (double)c->when;
	g->machine++;
	const struct db_value values[] = { db_text(c->host), db_int(since), db_int(until) };
	struct uh_error *err = db_run(
		g->h->db,
		"SELECT began, class FROM incidents WHERE host = $1 AND began >= $2 AND began < $3 AND class IS NOT NULL "
		"ORDER BY began",
		values, 3, gather_event, g);
	if (err)
		return err;
	return db_run(g->h->db,
		      "SELECT since, until, busy FROM exposure WHERE host = $1 AND until > $2 AND since < $3 AND busy > 0 "
		      "ORDER BY since",
		      values, 3, gather_work, g);
}

static int event_by_when(const void *a, const void *b)
{
	const double x = ((const struct helped_event *)a)->when, y = ((const struct helped_event *)b)->when;
	return (x > y) - (x < y);
}

static int work_by_from(const void *a, const void *b)
{
	const double x = ((const struct helped_work *)a)->from, y = ((const struct helped_work *)b)->from;
	return (x > y) - (x < y);
}

static bool same_change(const struct history_change *a, const struct history_change *b)
{
	return str_eq(a->name, b->name) && str_eq(a->from, b->from) && str_eq(a->to, b->to);
}

/** What else the machine got with it. */
static struct str found_beside(struct history *h, const struct history_change_list *all, const struct history_change *c)
{
	_cleanup_text_ struct text t = { 0 };
	unsigned n = 0;
	for (size_t i = 0; i < all->len; i++) {
		const struct history_change *o = &all->data[i];
		if (!str_eq(o->host, c->host) || str_eq(o->name, c->name) || llabs(o->when - c->when) > TOGETHER_S ||
		    str_find(text_str(&t), o->name) >= 0)
			continue;
		if (n++ < BESIDE_MOST)
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "", STR_ARG(o->name));
	}
	if (n > BESIDE_MOST)
		text_printf(&t, " and %u more", n - BESIDE_MOST);
	return arena_str(&h->arena, text_str(&t));
}

static struct uh_error *judge_change(struct history *h, const struct history_change_list *all, size_t which,
				     struct history_helped *ret)
{
	const struct history_change *c = &all->data[which];
	_cleanup_(gathered_free) struct gathered g = { .h = h };
	double since = 0, until = 0;
	struct uh_error *err = NULL;
	*ret = (struct history_helped){ c->name, c->from, c->to, c->host, c->when, 0, .beside = found_beside(h, all, c) };
	for (size_t n = 0; n < all->len && !err; n++) {
		const struct history_change *o = &all->data[n];
		int64_t from = 0, to = h->now;
		// Several GPUs of a machine have it at once.
		bool told = !same_change(o, c);
		for (size_t k = 0; k < n && !told; k++)
			told = same_change(&all->data[k], o) && str_eq(all->data[k].host, o->host) &&
			       llabs(all->data[k].when - o->when) < TOGETHER_S;
		if (told)
			continue;
		neighbours(all, o, &from, &to);
		err = gather(&g, o, from, to);
		since = (double)(from - o->when) < since ? (double)(from - o->when) : since;
		until = (double)(to - o->when) > until ? (double)(to - o->when) : until;
		ret->hosts++;
		ret->when = o->when < ret->when ? o->when : ret->when;
	}
	if (g.events.len)
		qsort(g.events.data, g.events.len, sizeof(*g.events.data), event_by_when);
	if (g.work.len)
		qsort(g.work.data, g.work.len, sizeof(*g.work.data), work_by_from);
	// Weeks count from where something is known.
	if (g.work.len && g.work.data[0].from > since)
		since = g.work.data[0].from;
	const struct helped_history story = { g.events.data, g.events.len,           g.work.data, g.work.len, since, 0,
					      until,         (unsigned)g.classes.len };
	ret->all = helped_judge(&story, -1);
	ret->kinds = arena_alloc(&h->arena, (g.classes.len + 1) * sizeof(*ret->kinds));
	for (size_t n = 0; n < g.classes.len; n++) {
		ret->kinds[n].class = g.classes.data[n];
		ret->kinds[n].helped = helped_judge(&story, (int)n);
	}
	ret->nkinds = g.classes.len;
	return err;
}

struct uh_error *history_helped(struct history *h, const struct history_filter *f, int64_t most,
				struct history_helped_list *ret)
{
	enum { CHANGES_MOST = 5000 };
	struct history_change_list all = { 0 };
	struct uh_error *err = history_changes(h, f, CHANGES_MOST, &all);
	for (size_t n = 0; n < all.len && !err && (int64_t)ret->len < most; n++) {
		struct history_helped one;
		bool told = false;
		for (size_t k = 0; k < n && !told; k++)
			told = same_change(&all.data[k], &all.data[n]);
		if (told)
			continue;
		err = judge_change(h, &all, n, &one);
		if (!err)
			vec_push(ret, one);
	}
	vec_free(&all);
	return err;
}
