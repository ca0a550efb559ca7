#include "store/history/asking.h"

void inquiry_free(struct inquiry *q)
{
	text_free(&q->sql);
	arena_free(&q->room);
}
static size_t inquiry_value(struct inquiry *q, struct db_value v)
{
	if (q->n < INQUIRY_VALUES)
		q->values[q->n++] = v;
	return q->n;
}

static void inquiry_and(struct inquiry *q)
{
	text_add(&q->sql, q->any ? S(" AND ") : S(" WHERE "));
	q->any = true;
}

/** `a*` as LIKE has it. */
static struct str like_of(struct arena *a, struct str pattern)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t n = 0; n < pattern.n; n++) {
		if (char_among(pattern.p[n], "%_\\"))
			text_add(&t, S("\\"));
		text_add(&t, pattern.p[n] == '*' ? S("%") : (struct str){ pattern.p + n, 1 });
	}
	return arena_str(a, text_str(&t));
}

void inquiry_is(struct inquiry *q, const char *column, struct str value)
{
	if (!value.n)
		return;
	inquiry_and(q);
	if (str_is_pattern(value))
		text_printf(&q->sql, "%s LIKE $%zu ESCAPE '\\'", column, inquiry_value(q, db_text(like_of(&q->room, value))));
	else
		text_printf(&q->sql, "%s = $%zu", column, inquiry_value(q, db_text(value)));
}

void inquiry_from(struct inquiry *q, const char *column, int64_t since, int64_t until)
{
	if (since) {
		inquiry_and(q);
		text_printf(&q->sql, "%s >= $%zu", column, inquiry_value(q, db_int(since)));
	}
	if (until) {
		inquiry_and(q);
		text_printf(&q->sql, "%s < $%zu", column, inquiry_value(q, db_int(until)));
	}
}

/** Who looks at eight weeks must not miss what is open for ten. */
static void inquiry_window(struct inquiry *q, const struct history_filter *f)
{
	inquiry_from(q, "began", f->open_ever ? 0 : f->since, f->until);
	if (!f->open_ever || !f->since)
		return;
	inquiry_and(q);
	text_printf(&q->sql, "(began >= $%zu OR state <> 'closed')", inquiry_value(q, db_int(f->since)));
}

void inquiry_filter(struct inquiry *q, const struct history_filter *f)
{
	inquiry_window(q, f);
	inquiry_is(q, "class", f->class);
	inquiry_is(q, "host", f->host);
	inquiry_is(q, "gpu", f->gpu);
	inquiry_is(q, "serial", f->serial);
	inquiry_is(q, "part", f->part);
	inquiry_is(q, "program", f->program);
	inquiry_is(q, "job", f->job);
	inquiry_is(q, "fingerprint", f->fingerprint);
	inquiry_is(q, "id", f->id);
	if (f->open) {
		inquiry_and(q);
		text_add(&q->sql, S("state <> 'closed'")); // in these words: an index has just these rows
	}
}

struct uh_error *inquiry_ask(struct history *h, struct inquiry *q, db_row_fn *row, void *ctx)
{
	return db_run_once(h->db, text_str(&q->sql), q->values, q->n, row, ctx);
}
