#include "store/history/query.h"

#include <math.h>
#include <stdlib.h>

#include "store/history/asking.h"

static struct str kept(struct history *h, const struct db_value *v)
{
	return v->type == DB_TEXT ? arena_str(&h->arena, v->text) : (struct str){ 0 };
}

static int64_t value_whole(const struct db_value *v) { return v->type == DB_REAL ? (int64_t)v->real : v->number; }

static double value_decimal(const struct db_value *v)
{
	return v->type == DB_REAL ? v->real : v->type == DB_INT ? (double)v->number : NAN;
}

/** What rows are added to. */
struct row_filling {
	struct history *h;
	void *list;
};

// --- lists ---

static void incident_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_incident_list *list = to->list;
	struct history_incident one;
	struct str *const texts[] = { &one.id,     &one.host,     &one.gpu,   &one.serial,      &one.unique_id,
				      &one.part,   &one.gpu_name, &one.class, &one.title,       &one.fault,
				      &one.action, &one.fit,      &one.state, &one.fingerprint, &one.program,
				      &one.job,    &one.bundle,   &one.place, &one.closed_by };
	if (n < ARRAY_SIZE(texts) + 3)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		*texts[i] = kept(to->h, &row[i]);
	one.began = value_whole(&row[ARRAY_SIZE(texts)]);
	one.ended = value_whole(&row[ARRAY_SIZE(texts) + 1]);
	one.revision = value_whole(&row[ARRAY_SIZE(texts) + 2]);
	vec_push(list, one);
}

static void number_row(void *ctx, const struct db_value *row, size_t n)
{
	if (n)
		*(int64_t *)ctx = value_whole(&row[0]);
}

struct uh_error *history_count(struct history *h, const struct history_filter *f, int64_t *ret)
{
	_cleanup_inquiry_ struct inquiry q = { 0 };
	text_add(&q.sql, S("SELECT count(*) FROM incidents"));
	inquiry_filter(&q, f);
	return inquiry_ask(h, &q, number_row, ret);
}

struct uh_error *history_is_empty(struct history *h, bool *ret)
{
	int64_t any = 0;
	struct uh_error *err =
		db_run(h->db,
		       "SELECT CASE WHEN EXISTS (SELECT 1 FROM incidents) OR EXISTS (SELECT 1 FROM runs) OR EXISTS "
		       "(SELECT 1 FROM snapshots) OR EXISTS (SELECT 1 FROM exposure) OR EXISTS (SELECT 1 FROM "
		       "sources) THEN 1 ELSE 0 END",
		       NULL, 0, number_row, &any);
	*ret = !any;
	return err;
}

struct uh_error *history_incidents(struct history *h, const struct history_filter *f, int64_t skip, int64_t most,
				   struct history_incident_list *ret)
{
	_cleanup_inquiry_ struct inquiry q = { 0 };
	text_add(&q.sql, S("SELECT id, host, gpu, serial, unique_id, part, gpu_name, class, title, fault, action, fit, state, "
			   "fingerprint, program, job, bundle, place, closed_by, began, ended, revision FROM incidents"));
	inquiry_filter(&q, f);
	text_printf(&q.sql, " ORDER BY began DESC, id LIMIT %lld OFFSET %lld", (long long)most, (long long)skip);
	return inquiry_ask(h, &q, incident_row, &(struct row_filling){ h, ret });
}

static void event_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_event_list *list = to->list;
	if (n < 4)
		return;
	const struct history_event one = { value_decimal(&row[0]), kept(to->h, &row[1]), kept(to->h, &row[2]),
					   kept(to->h, &row[3]) };
	vec_push(list, one);
}

struct uh_error *history_events(struct history *h, struct str incident, struct history_event_list *ret)
{
	return db_run(h->db, "SELECT time, event, role, text FROM events WHERE incident = $1 ORDER BY n LIMIT 1000",
		      DB_VALUES(db_text(incident)), event_row, &(struct row_filling){ h, ret });
}

static void text_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	if (n)
		*(struct str *)to->list = kept(to->h, &row[0]);
}

struct uh_error *history_diagnosis(struct history *h, struct str incident, struct str *ret)
{
	*ret = (struct str){ 0 };
	return db_run(h->db, "SELECT json FROM diagnoses WHERE incident = $1", DB_VALUES(db_text(incident)), text_row,
		      &(struct row_filling){ h, ret });
}

// --- runs ---

static void run_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_run_list *list = to->list;
	if (n < 10)
		return;
	const struct history_run one = { .id = kept(to->h, &row[0]),
					 .host = kept(to->h, &row[1]),
					 .command = kept(to->h, &row[2]),
					 .launcher = kept(to->h, &row[3]),
					 .job = kept(to->h, &row[4]),
					 .state = kept(to->h, &row[5]),
					 .place = kept(to->h, &row[6]),
					 .began = value_whole(&row[7]),
					 .status = row[8].type == DB_NULL ? -1 : value_whole(&row[8]),
					 .tries = value_whole(&row[9]) };
	vec_push(list, one);
}

#define RUN_COLUMNS "SELECT id, host, command, launcher, job, state, place, began, status, tries FROM runs"

struct uh_error *history_runs(struct history *h, const struct history_filter *f, int64_t skip, int64_t most,
			      struct history_run_list *ret)
{
	_cleanup_inquiry_ struct inquiry q = { 0 };
	text_add(&q.sql, S(RUN_COLUMNS));
	inquiry_from(&q, "began", f->since, f->until);
	inquiry_is(&q, "host", f->host);
	inquiry_is(&q, "job", f->job);
	text_printf(&q.sql, " ORDER BY began DESC, id LIMIT %lld OFFSET %lld", (long long)most, (long long)skip);
	return inquiry_ask(h, &q, run_row, &(struct row_filling){ h, ret });
}

static void try_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_try_list *list = to->list;
	if (n < 13)
		return;
	const struct history_try one = { value_whole(&row[0]), value_whole(&row[1]),  value_whole(&row[2]),
					 value_whole(&row[3]), kept(to->h, &row[4]),  kept(to->h, &row[5]),
					 kept(to->h, &row[6]), kept(to->h, &row[7]),  kept(to->h, &row[8]),
					 kept(to->h, &row[9]), kept(to->h, &row[10]), kept(to->h, &row[11]),
					 kept(to->h, &row[12]) };
	vec_push(list, one);
}

struct uh_error *history_run_called(struct history *h, struct str id, struct history_run_list *ret,
				    struct history_try_list *tries)
{
	struct uh_error *err =
		db_run(h->db, RUN_COLUMNS " WHERE id = $1", DB_VALUES(db_text(id)), run_row, &(struct row_filling){ h, ret });
	if (err)
		return err;
	return db_run(h->db,
		      "SELECT number, level, began, ran_ms, ended, class, title, fault, action, gpu, kernel, failure_reason, "
		      "detail_json FROM "
		      "tries WHERE run = $1 ORDER BY number LIMIT 1000",
		      DB_VALUES(db_text(id)), try_row, &(struct row_filling){ h, tries });
}

// --- machines ---

static void sample_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_sampled_list *list = to->list;
	if (n < 5)
		return;
	const struct history_sampled one = { value_whole(&row[0]), value_decimal(&row[1]), value_decimal(&row[2]),
					     value_decimal(&row[3]), value_decimal(&row[4]) };
	vec_push(list, one);
}

struct uh_error *history_samples(struct history *h, struct str host, struct str gpu, int64_t since, int64_t until,
				 struct history_sampled_list *ret)
{
	_cleanup_inquiry_ struct inquiry q = { 0 };
	text_add(&q.sql, S("SELECT time, busy, power, temperature, memory FROM samples"));
	inquiry_is(&q, "host", host);
	inquiry_is(&q, "gpu", gpu);
	inquiry_from(&q, "time", since, until);
	text_add(&q.sql, S(" ORDER BY time LIMIT 4000"));
	return inquiry_ask(h, &q, sample_row, &(struct row_filling){ h, ret });
}

static void change_row(void *ctx, const struct db_value *row, size_t n)
{
	const struct row_filling *to = ctx;
	struct history_change_list *list = to->list;
	if (n < 6)
		return;
	const struct history_change one = { kept(to->h, &row[0]), kept(to->h, &row[1]), kept(to->h, &row[2]),
					    kept(to->h, &row[3]), kept(to->h, &row[4]), value_whole(&row[5]) };
	vec_push(list, one);
}

struct uh_error *history_changes(struct history *h, const struct history_filter *f, int64_t most,
				 struct history_change_list *ret)
{
	_cleanup_inquiry_ struct inquiry q = { 0 };
	text_add(&q.sql, S("SELECT c.host, c.gpu, c.name, (SELECT b.value FROM configurations b WHERE b.host = c.host AND "
			   "b.gpu = c.gpu AND "
			   "b.name = c.name AND b.since < c.since ORDER BY b.since DESC LIMIT 1), c.value, c.since FROM "
			   "configurations c "
			   "WHERE c.since > (SELECT min(time) FROM snapshots s WHERE s.host = c.host)"));
	q.any = true;
	inquiry_from(&q, "c.since", f->since, f->until);
	inquiry_is(&q, "c.host", f->host);
	text_printf(&q.sql, " ORDER BY c.since DESC, c.host, c.name LIMIT %lld", (long long)most);
	return inquiry_ask(h, &q, change_row, &(struct row_filling){ h, ret });
}

struct uh_error *history_configuration(struct history *h, struct str host, struct history_change_list *ret)
{
	return db_run(h->db,
		      "SELECT c.host, c.gpu, c.name, NULL, c.value, c.since FROM configurations c WHERE c.host = $1 AND "
		      "c.since = (SELECT "
		      "max(b.since) FROM configurations b WHERE b.host = c.host AND b.gpu = c.gpu AND b.name = c.name) ORDER "
		      "BY c.gpu, c.name LIMIT 2000",
		      DB_VALUES(db_text(host)), change_row, &(struct row_filling){ h, ret });
}

static void stamp_row(void *ctx, const struct db_value *row, size_t n)
{
	if (n)
		*(uint64_t *)ctx = hash_mix(STR_HASH_BEGIN, (uint64_t)row[0].number);
}

struct uh_error *history_stamp(struct history *h, uint64_t *ret)
{
	*ret = 0;
	return db_run(h->db, "SELECT n FROM stamp", NULL, 0, stamp_row, ret);
}
