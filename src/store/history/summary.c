// What many incidents come to: faults, days, parts and machines, from one walk over one index. A database that groups and counts by itself walks
// once for each of these, and took five times as long.
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/history/asking.h"
#include "store/history/names.h"
#include "store/history/query.h"

enum { DAY = 86400, WEEK = 7 * DAY, SLOTS_FIRST = 1024 };

// --- pairs as numbers ---

/** Pairs of numbers, each with a count. */
struct pair_table {
	struct pair {
		uint64_t key; // the pair + 1; 0: free
		int64_t count;
	} * slots;
	size_t n, used;
};

static struct pair *pair_slot(const struct pair_table *t, uint64_t key)
{
	size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20);
	while (t->slots[at & (t->n - 1)].key && t->slots[at & (t->n - 1)].key != key)
		at++;
	return &t->slots[at & (t->n - 1)];
}

/** Whether it is a new one. */
static bool pair_count(struct pair_table *t, uint64_t a, uint64_t b)
{
	const uint64_t key = (a << 32 | b) + 1;
	if (2 * (t->used + 1) > t->n) {
		const struct pair_table before = *t;
		t->n = before.n ? 2 * before.n : SLOTS_FIRST;
		t->slots = mem_alloc(t->n * sizeof(*t->slots));
		for (size_t i = 0; i < before.n; i++)
			if (before.slots[i].key)
				*pair_slot(t, before.slots[i].key) = before.slots[i];
		_cleanup_free_ struct pair *gone = before.slots;
	}
	struct pair *p = pair_slot(t, key);
	const bool new = !p->key;
	p->key = key;
	p->count++;
	t->used += new;
	return new;
}

static void pair_table_free(struct pair_table *t) { free(t->slots); }

// --- the walk ---

struct summing {
	struct history *h;
	struct history_summary *to;
	int64_t since; // what began before it is there because it is open
	struct name_table faults, hosts, classes, parts;
	struct pair_table fault_hosts, class_days, part_counts;
};

static void grow(void *list, size_t size, size_t n)
{
	VEC(char) *v = list;
	while (v->len < n) {
		if (v->len == v->cap) {
			const size_t cap = v->cap ? 2 * v->cap : 64;
			v->data = mem_grow(v->data, v->cap * size, cap * size);
			v->cap = cap;
		}
		v->len++;
	}
}

static void sum_row(void *ctx, const struct db_value *row, size_t n)
{
	struct summing *s = ctx;
	if (n < 7)
		return;
	const int64_t began = row[0].number, now = s->h->now;
	const struct str class = row[1].text, part = row[2].text, host = row[3].text, print = row[4].text, fault = row[6].text;
	const bool open = !str_is(row[5].text, "closed"), this_week = began >= now - WEEK,
		   last_week = !this_week && began >= now - 2 * WEEK;
	const uint32_t f = name_number(&s->faults, print.n ? print : class.n ? class : S("-"));
	const uint32_t at = name_number(&s->hosts, host), of_class = name_number(&s->classes, class);
	struct history_totals *t = &s->to->totals;
	t->incidents++;
	t->open += open;
	t->older += began < s->since;
	t->this_week += this_week;
	t->last_week += last_week;
	t->first = !t->first || began < t->first ? began : t->first;
	t->last = began > t->last ? began : t->last;
	grow(&s->to->faults, sizeof(*s->to->faults.data), f + 1);
	grow(&s->to->machines, sizeof(*s->to->machines.data), at + 1);
	struct history_fault *one = &s->to->faults.data[f];
	const bool new = !one->count++;
	if (new) {
		*one = (struct history_fault){ .key = s->faults.names.data[f],
					       .class = s->classes.names.data[of_class],
					       .fault = arena_str(&s->h->arena, fault),
					       .part = arena_str(&s->h->arena, part),
					       .host = s->hosts.names.data[at],
					       .count = 1,
					       .first = began };
	}
	one->open += open;
	one->this_week += this_week;
	one->last_week += last_week;
	one->first = began < one->first ? began : one->first;
	one->last = began > one->last ? began : one->last;
	one->hosts += pair_count(&s->fault_hosts, f, at) && host.n;
	struct history_machine *m = &s->to->machines.data[at];
	m->host = s->hosts.names.data[at];
	m->part = m->part.n ? m->part : one->part;
	m->incidents++;
	m->open += open;
	m->last = began > m->last ? began : m->last;
	pair_count(&s->class_days, of_class, (uint64_t)(began / DAY) & UINT32_MAX);
	pair_count(&s->part_counts, name_number(&s->parts, part), 0);
}

static void work_row(void *ctx, const struct db_value *row, size_t n)
{
	struct summing *s = ctx;
	if (n < 2 || row[1].type == DB_NULL)
		return;
	const double hours = (row[1].type == DB_REAL ? row[1].real : (double)row[1].number) / 3600;
	s->to->totals.hours += hours;
	s->to->totals.machines++;
	uint32_t at;
	if (name_known(&s->hosts, row[0].text, &at))
		s->to->machines.data[at].hours += hours;
}

// --- in order ---

#define FIRST(more, less)                                                                                                      \
	if ((more) != (less))                                                                                                  \
	return (more) > (less) ? -1 : 1

static int faults_in_order(const void *a, const void *b)
{
	const struct history_fault *x = a, *y = b;
	FIRST(x->open, y->open);
	FIRST(x->this_week, y->this_week);
	FIRST(x->count, y->count);
	return str_cmp(x->key, y->key);
}

static int machines_in_order(const void *a, const void *b)
{
	const struct history_machine *x = a, *y = b;
	FIRST(x->open, y->open);
	FIRST(x->incidents, y->incidents);
	return str_cmp(x->host, y->host);
}

static int counts_in_order(const void *a, const void *b)
{
	const struct history_count *x = a, *y = b;
	FIRST(y->day, x->day);
	FIRST(x->count, y->count);
	return str_cmp(x->name, y->name);
}

static void counts_of(const struct pair_table *t, const struct name_table *names, struct history_count_list *ret)
{
	for (size_t n = 0; n < t->n; n++) {
		if (!t->slots[n].key)
			continue;
		const uint64_t key = t->slots[n].key - 1;
		const struct history_count one = { names->names.data[key >> 32], (int64_t)(key & UINT32_MAX),
						   t->slots[n].count };
		vec_push(ret, one);
	}
	if (ret->len)
		qsort(ret->data, ret->len, sizeof(*ret->data), counts_in_order);
}

/** What the incidents of one fault have in common. */
struct fault_common {
	struct history *h;
	struct str title, program, id; // of the newest
	int64_t programs, first;
};

static void common_row(void *ctx, const struct db_value *row, size_t n)
{
	struct fault_common *c = ctx;
	struct str *const texts[] = { &c->title, &c->program, &c->id };
	if (n < ARRAY_SIZE(texts) + 2)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		*texts[i] = row[i].type == DB_TEXT ? arena_str(&c->h->arena, row[i].text) : (struct str){ 0 };
	c->programs = row[ARRAY_SIZE(texts)].number;
	c->first = row[ARRAY_SIZE(texts) + 1].number;
}

/** What the class is called, as a title begins. */
static struct str class_title(struct history *h, struct str class)
{
	const struct know_class *c = h->know ? know_class(h->know, class) : NULL;
	if (!c || !c->meaning.n)
		return class;
	const char first = c->meaning.p[0], upper = first >= 'a' && first <= 'z' ? (char)(first - 32) : first;
	return arena_printf(&h->arena, "%c" STR_FMT, upper, STR_ARG(str_from(c->meaning, 1)));
}

/** Only of those that are shown: titles are long. One that names a program is wrong for a fault of several; the newest of its incidents tell that. */
static struct uh_error *fault_title(struct history *h, struct history_fault *f)
{
#define COMMON(which)                                                                                                          \
	"SELECT title, program, id, (SELECT count(DISTINCT n.program) FROM (SELECT program FROM incidents WHERE " which " "    \
	"ORDER BY began DESC LIMIT 50) n), (SELECT min(began) FROM incidents WHERE " which ") FROM incidents WHERE " which     \
	" AND began = $2 ORDER BY id LIMIT 1"
	static const char *const sql[] = { COMMON("fingerprint = $1"), COMMON("class = $1 AND fingerprint IS NULL") };
	const struct db_value values[] = { db_text(f->key), db_int(f->last) };
	struct fault_common common = { .h = h };
	struct uh_error *err = NULL;
	for (size_t n = 0; n < ARRAY_SIZE(sql) && !err && !common.title.n; n++)
		err = db_run(h->db, sql[n], values, 2, common_row, &common);
	const bool names_one = common.programs > 1 && common.program.n && str_find(common.title, common.program) >= 0;
	f->title = names_one && f->class.n ? class_title(h, f->class) : common.title;
	f->newest = common.id;
	f->new = common.first >= h->now - WEEK;
	return err;
}

/** What is open and older is asked for by itself: in one question, the database would walk over all that is old. */
static struct uh_error *sum_incidents(struct summing *s, const struct history_filter *f)
{
	struct history_filter parts[] = { *f, *f };
	struct uh_error *err = NULL;
	parts[0].open_ever = parts[1].open_ever = false;
	parts[1].since = 0;
	parts[1].until = f->until && f->until < f->since ? f->until : f->since;
	parts[1].open = true;
	for (size_t n = 0; n < (f->open_ever && f->since ? ARRAY_SIZE(parts) : 1) && !err; n++) {
		_cleanup_inquiry_ struct inquiry q = { 0 };
		text_add(&q.sql, S("SELECT began, class, part, host, fingerprint, state, fault FROM incidents"));
		inquiry_filter(&q, &parts[n]);
		err = inquiry_ask(s->h, &q, sum_row, s);
	}
	return err;
}

struct uh_error *history_summary(struct history *h, const struct history_filter *f, size_t most, struct history_summary *ret)
{
	_cleanup_inquiry_ struct inquiry work = { 0 };
	struct summing s = { .h = h, .to = ret, .since = f->since };
	s.faults.arena = s.hosts.arena = s.classes.arena = s.parts.arena = &h->arena;
	struct uh_error *err = sum_incidents(&s, f);
	text_add(&work.sql, S("SELECT host, sum(busy) FROM exposure"));
	inquiry_from(&work, "since", f->since, f->until);
	inquiry_is(&work, "host", f->host);
	inquiry_is(&work, "gpu", f->gpu);
	inquiry_is(&work, "serial", f->serial);
	inquiry_is(&work, "part", f->part);
	text_add(&work.sql, S(" GROUP BY host"));
	if (!err)
		err = inquiry_ask(h, &work, work_row, &s);
	for (size_t n = 0; n < s.hosts.names.len; n++)
		ret->totals.hosts += s.hosts.names.data[n].n != 0;
	counts_of(&s.class_days, &s.classes, &ret->days);
	counts_of(&s.part_counts, &s.parts, &ret->parts);
	if (ret->faults.len)
		qsort(ret->faults.data, ret->faults.len, sizeof(*ret->faults.data), faults_in_order);
	if (ret->machines.len)
		qsort(ret->machines.data, ret->machines.len, sizeof(*ret->machines.data), machines_in_order);
	ret->nfaults = ret->faults.len;
	ret->faults.len = ret->faults.len < most ? ret->faults.len : most;
	for (size_t n = 0; n < ret->faults.len && !err; n++)
		err = fault_title(h, &ret->faults.data[n]);
	name_table_free(&s.faults);
	name_table_free(&s.hosts);
	name_table_free(&s.classes);
	name_table_free(&s.parts);
	pair_table_free(&s.fault_hosts);
	pair_table_free(&s.class_days);
	pair_table_free(&s.part_counts);
	return err;
}

void history_summary_free(struct history_summary *s)
{
	vec_free(&s->faults);
	vec_free(&s->machines);
	vec_free(&s->days);
	vec_free(&s->parts);
}
