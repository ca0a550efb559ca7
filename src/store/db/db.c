#include "store/db/db.h"

bool db_is_server(const char *where)
{
	const struct str s = str_z(where);
	return str_starts(s, S("postgresql://")) || str_starts(s, S("postgres://"));
}

struct uh_error *db_open(const char *where, enum db_access access, struct db **ret)
{
	return (where && db_is_server(where) ? &db_postgres : &db_sqlite)->open(where, access, ret);
}

void db_close(struct db *d)
{
	if (d)
		d->driver->close(d);
}

bool db_on_server(const struct db *d) { return d->driver == &db_postgres; }

struct uh_error *db_run(struct db *d, const char *sql, const struct db_value *values, size_t n, db_row_fn *row, void *ctx)
{
	return d->driver->run(d, &(struct db_statement){ sql, true, values, n }, row, ctx);
}

struct uh_error *db_run_once(struct db *d, struct str sql, const struct db_value *values, size_t n, db_row_fn *row, void *ctx)
{
	_cleanup_arena_ struct arena a = { 0 };
	return d->driver->run(d, &(struct db_statement){ arena_z(&a, sql), false, values, n }, row, ctx);
}

struct uh_error *db_script(struct db *d, const char *sql) { return d->driver->script(d, sql); }

static struct uh_error *db_word(struct db *d, const char *word)
{
	return d->driver->run(d, &(struct db_statement){ .sql = word }, NULL, NULL);
}

static struct uh_error *db_together(struct db *d, bool on) { return d->driver->together ? d->driver->together(d, on) : NULL; }

struct uh_error *db_begin(struct db *d, bool writes)
{
	struct uh_error *err = writes ? db_together(d, true) : NULL;
	return err ? err : db_word(d, writes ? d->driver->begin_writing : d->driver->begin);
}

struct uh_error *db_settle(struct db *d)
{
	struct uh_error *err = db_together(d, false);
	return err ? err : db_together(d, true);
}

struct uh_error *db_end(struct db *d)
{
	struct uh_error *err = db_word(d, "COMMIT"), *late = db_together(d, false);
	if (!err)
		return late;
	uh_error_free(late);
	return err;
}

void db_undo(struct db *d)
{
	uh_error_free(db_together(d, false));
	uh_error_free(db_word(d, "ROLLBACK"));
}
