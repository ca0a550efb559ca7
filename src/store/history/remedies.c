// Whether changes helped: each change of a setting or version, with the incidents and the hours of work before and after it. Machines that
// made the same change are put together: each has its own moment, from which its times count.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/history/asking.h"
#include "store/history/query.h"

enum { KINDS_MOST = 12, TOGETHER_S = 3600, BESIDE_MOST = 4 };

struct gathered {
	struct history *h;
	const struct history_filter *f; // of which class and part; its time is of the changes
	VEC(struct helped_event) events;
	VEC(struct helped_work) work;
	VEC(struct str) classes;
	double moment;    // of this machine's change
	unsigned machine; // which of them
	unsigned gpus;    // that worked before it, of all machines
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

static bool class_asked(const struct gathered *g, struct str class) { return !g->f->class.n || str_glob(g->f->class, class); }

static void gather_event(void *ctx, const struct db_value *row, size_t n)
{
	struct gathered *g = ctx;
	if (n < 2)
		return;
	// What is not asked for is still a kind: asking for one class after the other must not find more than asking once.
	const struct helped_event one = { (double)row[0].number - g->moment, kind_of(g, row[1].text), g->machine };
	if (class_asked(g, row[1].text))
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

static void gather_gpus(void *ctx, const struct db_value *row, size_t n)
{
	struct gathered *g = ctx;
	g->gpus += n ? (unsigned)row[0].number : 0;
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

/** The hours of work of a time, on one machine. */
static void work_within(struct inquiry *q, const struct gathered *g, struct str host, int64_t since, int64_t until)
{
	inquiry_is(q, "host", host);
	inquiry_is(q, "part", g->f->part);
	inquiry_from(q, "until", since ? since + 1 : 0, 0);
	inquiry_from(q, "since", 0, until);
	text_add(&q->sql, S(" AND busy > 0"));
}

static struct uh_error *gather(struct gathered *g, const struct history_change *c, int64_t since, int64_t until)
{
	_cleanup_inquiry_ struct inquiry events = { 0 }, work = { 0 }, gpus = { 0 };
	g->moment = (double)c->when;
	g->machine++;
	text_add(&events.sql, S("SELECT began, class FROM incidents"));
	inquiry_is(&events, "host", c->host);
	inquiry_is(&events, "part", g->f->part);
	inquiry_from(&events, "began", since, until);
	text_add(&events.sql, S(" AND class IS NOT NULL ORDER BY began"));
	text_add(&work.sql, S("SELECT since, until, busy FROM exposure"));
	work_within(&work, g, c->host, since, until);
	text_add(&work.sql, S(" ORDER BY since"));
	text_add(&gpus.sql, S("SELECT count(DISTINCT gpu) FROM exposure"));
	work_within(&gpus, g, c->host, since, c->when);
	struct uh_error *err = inquiry_ask(g->h, &events, gather_event, g);
	if (!err)
		err = inquiry_ask(g->h, &work, gather_work, g);
	return err ? err : inquiry_ask(g->h, &gpus, gather_gpus, g);
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

/** Whether the machine is told of already: several GPUs of it have a change at once. */
static bool machine_told(const struct history_change_list *all, size_t n)
{
	const struct history_change *o = &all->data[n];
	for (size_t k = 0; k < n; k++)
		if (same_change(&all->data[k], o) && str_eq(all->data[k].host, o->host) &&
		    llabs(all->data[k].when - o->when) < TOGETHER_S)
			return true;
	return false;
}

/** From each machine that made the change what happened before and after it there. *@story: only its times. */
static struct uh_error *gather_machines(struct gathered *g, const struct history_change_list *all,
					const struct history_change *c, struct helped_history *story,
					struct history_helped *ret)
{
	struct uh_error *err = NULL;
	for (size_t n = 0; n < all->len && !err; n++) {
		const struct history_change *o = &all->data[n];
		const size_t known = g->events.len + g->work.len;
		int64_t from = 0, to = g->h->now;
		if (!same_change(o, c) || machine_told(all, n))
			continue;
		neighbours(all, o, &from, &to);
		err = gather(g, o, from, to);
		if (g->f->part.n && known == g->events.len + g->work.len)
			continue; // it has no such GPU
		story->since = fmin(story->since, (double)(from - o->when));
		story->until = fmax(story->until, (double)(to - o->when));
		ret->hosts++;
		ret->when = o->when < ret->when ? o->when : ret->when;
	}
	if (g->events.len)
		qsort(g->events.data, g->events.len, sizeof(*g->events.data), event_by_when);
	if (g->work.len)
		qsort(g->work.data, g->work.len, sizeof(*g->work.data), work_by_from);
	return err;
}

static struct uh_error *judge_change(struct history *h, const struct history_filter *f, const struct history_change_list *all,
				     size_t which, struct history_helped *ret)
{
	const struct history_change *c = &all->data[which];
	_cleanup_(gathered_free) struct gathered g = { .h = h, .f = f };
	struct helped_history story = { 0 };
	*ret = (struct history_helped){ c->name, c->from, c->to, c->host, c->when, 0, .beside = found_beside(h, all, c) };
	struct uh_error *err = gather_machines(&g, all, c, &story, ret);
	// Weeks count from where something is known.
	if (g.work.len)
		story.since = fmax(story.since, g.work.data[0].from);
	story.events = g.events.data;
	story.nevents = g.events.len;
	story.work = g.work.data;
	story.nwork = g.work.len;
	story.kinds = (unsigned)g.classes.len;
	story.gpus = g.gpus;
	story.picked = f->class.n;
	ret->all = helped_judge(&story, -1);
	ret->kinds = arena_alloc(&h->arena, (g.classes.len + 1) * sizeof(*ret->kinds));
	for (size_t n = 0; n < g.classes.len; n++)
		if (class_asked(&g, g.classes.data[n]))
			ret->kinds[ret->nkinds++] =
				(struct history_helped_kind){ g.classes.data[n], helped_judge(&story, (int)n) };
	return err;
}

/** Changes within the time that is asked for. What changed at other times limits them all the same. */
static bool change_asked(const struct history_filter *f, const struct history_change *c)
{
	return c->when >= f->since && (!f->until || c->when < f->until);
}

struct uh_error *history_helped(struct history *h, const struct history_filter *f, int64_t most,
				struct history_helped_list *ret)
{
	enum { CHANGES_MOST = 5000 };
	struct history_change_list all = { 0 };
	struct uh_error *err = history_changes(h, &(struct history_filter){ .host = f->host }, CHANGES_MOST, &all);
	for (size_t n = 0; n < all.len && !err && (int64_t)ret->len < most; n++) {
		struct history_helped one;
		bool told = !change_asked(f, &all.data[n]);
		for (size_t k = 0; k < n && !told; k++)
			told = change_asked(f, &all.data[k]) && same_change(&all.data[k], &all.data[n]);
		if (told)
			continue;
		err = judge_change(h, f, &all, n, &one);
		if (!err && one.hosts)
			vec_push(ret, one);
	}
	vec_free(&all);
	return err;
}
