// The few events that matter: the cause first, each kind of event once, and at most ROWS_BRIEF of them.
#include <stdlib.h>

#include "base/print.h"
#include "report/text/parts.h"

enum { ROWS_BRIEF = 4 };

/** By what the process of an event is told from others. */
static struct str who_of(const struct diag_event *e, const char **ret_word)
{
	static const char *const names[][2] = { { "rank", "rank" }, { "group_rank", "rank" }, { "pid", "process" } };
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		const struct fact *f = diag_fact(e, names[n][0]);
		if (f) {
			*ret_word = names[n][1];
			return f->value;
		}
	}
	return (struct str){ 0 };
}

/** Whether the two are told in one row because several processes report the same. */
static bool same_of_another(const struct diag_event *a, const struct diag_event *b)
{
	const char *word;
	return b->many.n && str_eq(a->many, b->many) && who_of(a, &word).n && who_of(b, &word).n;
}

void rows_event(void *ctx, const struct diag_event *e, size_t id)
{
	struct text_report *t = ctx;
	const char *word;
	(void)id;
	if (!t->full || (e->kind->quiet && e->role != ROLE_CAUSE))
		return;
	for (size_t n = 0; n < t->rows.len; n++) {
		struct brief_row *r = &t->rows.data[n];
		if (r->event->kind != e->kind || r->event->role != e->role)
			continue;
		if (same_of_another(r->event, e)) {
			if (!r->who.n)
				text_add(&r->who, who_of(r->event, &word));
			text_printf(&r->who, " " STR_FMT, STR_ARG(who_of(e, &word)));
		} else if (str_eq(r->event->sentence, e->sentence)) {
			r->count += e->count;
		} else {
			r->others += e->count;
		}
		r->last = e->last;
		return;
	}
	struct brief_row row = { .event = e, .count = e->count, .last = e->last };
	vec_push(&t->rows, row);
}

/** How much a reader misses without it. What tells how the GPU came back, or did not, is the end of the story. */
static int weight(const struct text_report *t, size_t n)
{
	const struct diag_event *e = t->rows.data[n].event;
	const bool ends = diag_fact(e, "reset_outcome") || diag_fact(e, "reset_method") || diag_fact(e, "vram_lost") ||
			  diag_fact(e, "ring_reset");
	static const int of_role[] = { [ROLE_CAUSE] = 40, [ROLE_EFFECT] = 40, [ROLE_ARTEFACT] = 0, [ROLE_BYSTANDER] = 10 };
	return of_role[e->role] + (ends ? 20 : 0) - (int)(n < 16 ? n : 16);
}

/** The row of the cause: the root's, where the ranks do not tell that another went first; else the first that is a cause, else the first. */
static size_t cause_row(const struct text_report *t, const struct incident *i)
{
	size_t first = 0;
	for (size_t n = t->rows.len; n; n--) {
		const struct diag_event *e = t->rows.data[n - 1].event;
		if (e == i->root && e->role == ROLE_CAUSE)
			return n - 1;
		if (e->role == ROLE_CAUSE)
			first = n - 1;
	}
	return first;
}

static void drop(struct text_report *t, size_t n)
{
	text_free(&t->rows.data[n].who);
	memmove(&t->rows.data[n], &t->rows.data[n + 1], (t->rows.len - n - 1) * sizeof(t->rows.data[0]));
	t->rows.len--;
}

/** That a reset begins is no news beside the row that says which one it was. */
static void drop_begun_resets(struct text_report *t)
{
	bool named = false;
	for (size_t n = 0; n < t->rows.len; n++)
		named |= diag_fact(t->rows.data[n].event, "reset_method") != NULL;
	for (size_t n = t->rows.len; named && n > 1; n--)
		if (t->rows.data[n - 1].event->kind->tells == TELLS_RESET_BEGINS &&
		    !diag_fact(t->rows.data[n - 1].event, "reset_method"))
			drop(t, n - 1);
}

/** Leaves those that matter most, in their order, the cause first. */
static void choose(struct text_report *t, const struct incident *i)
{
	const size_t cause = cause_row(t, i);
	if (t->rows.len) {
		const struct brief_row first = t->rows.data[cause];
		memmove(&t->rows.data[1], &t->rows.data[0], cause * sizeof(first));
		t->rows.data[0] = first;
	}
	drop_begun_resets(t);
	while (t->rows.len > ROWS_BRIEF) {
		size_t least = 1;
		for (size_t n = 2; n < t->rows.len; n++)
			if (weight(t, n) < weight(t, least))
				least = n;
		drop(t, least);
	}
}

/** `ranks 0-10, 12, 13: waited in vain ...` */
static void add_many(const struct brief_row *r, struct text *line)
{
	enum { SHOWN = 256 };
	int64_t numbers[SHOWN];
	size_t n = 0;
	const char *word = "process";
	struct str all = text_str(&r->who);
	who_of(r->event, &word);
	for (struct str one = str_word(&all); one.n && n < SHOWN; one = str_word(&all))
		n += str_number(one, &numbers[n]);
	qsort(numbers, n, sizeof(numbers[0]), compare_numbers);
	text_printf(line, "%s ", strcmp(word, "rank") ? "processes" : "ranks");
	for (size_t i = 0; i < n; i++) {
		size_t last = i;
		while (last + 1 < n && numbers[last + 1] <= numbers[last] + 1)
			last++;
		text_printf(line, "%s%lld", i ? ", " : "", (long long)numbers[i]);
		if (numbers[last] > numbers[i])
			text_printf(line, "%s%lld", numbers[last] == numbers[i] + 1 ? ", " : "-", (long long)numbers[last]);
		i = last;
	}
	text_printf(line, " " STR_FMT, STR_ARG(r->event->many));
}

/** What follows the sentence: how often, and where it was read. */
static void add_behind(const struct text_report *t, const struct brief_row *r, struct text *behind)
{
	const struct diag_event *e = r->event;
	if (r->others)
		text_printf(behind, " (and %u more)", r->others);
	else if (r->count > 1 && !e->kind->once && !r->who.n)
		text_printf(behind, " (%u times)", r->count);
	prose_place(t, behind, e->at);
}

/** Of the first row when it was, of the others how long after that. Seconds since the boot, which tell nobody when it was, are for -v. */
static void add_time(const struct text_report *t, const struct brief_row *r, struct text *to)
{
	const struct diag_event *e = r->event;
	const struct stamp time = prose_stamp(t->diagnosis, e);
	if (r == t->rows.data && time.clock != TIME_BOOT && time.clock != TIME_RELATIVE)
		prose_clock(to, time);
	else if (r == t->rows.data)
		return;
	else
		prose_elapsed(to, t->rows.data[0].event->time, r->event->time);
}

/** Columns of the rows' times and roles. */
struct row_columns {
	size_t time, role;
};

static void add_row(struct text_report *t, const struct brief_row *r, const struct row_columns *wide)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	const bool stacked = t->width < STACKED_BELOW;
	const struct diag_event *e = r->event;
	const bool first = r == t->rows.data;
	struct text line = { 0 };
	struct block *p = screen_add(&t->screen, (struct block){ .label = role_name(e->role),
								 .paint = colours[e->role],
								 .least = first ? 2 : 1,
								 .most = first ? 3 : 2,
								 .stacked = stacked });
	text_add(&p->lead, S("  "));
	add_time(t, r, &p->lead);
	if (wide->time && (!stacked || p->lead.n > 2))
		text_printf(&p->lead, "%*s", (int)(2 + wide->time + 2 - p->lead.n), "");
	p->column = p->lead.n + wide->role + 2;
	p->indent = stacked ? 4 : p->column;
	text_printf(&line, STR_FMT ": ", STR_ARG(e->kind->title));
	if (r->who.n)
		add_many(r, &line);
	else
		text_add(&line, e->sentence);
	screen_text(&t->screen, p, text_str(&line));
	add_behind(t, r, &p->behind);
	text_free(&line);
}

void rows_add(struct text_report *t, const struct incident *i)
{
	struct row_columns wide = { 0 };
	struct text time = { 0 };
	choose(t, i);
	for (size_t n = 0; n < t->rows.len; n++) {
		const size_t role = strlen(role_name(t->rows.data[n].event->role));
		text_clear(&time);
		add_time(t, &t->rows.data[n], &time);
		wide.time = time.n > wide.time ? time.n : wide.time;
		wide.role = role > wide.role ? role : wide.role;
	}
	for (size_t n = 0; n < t->rows.len; n++)
		add_row(t, &t->rows.data[n], &wide);
	for (size_t n = 0; n < t->rows.len; n++)
		text_free(&t->rows.data[n].who);
	vec_free(&t->rows);
	text_free(&time);
}
