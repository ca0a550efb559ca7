// The history in a file, or in memory.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/sqlite.h"
#include "store/db/db.h"
#include "store/db/place.h"

enum { STATEMENTS = 64, BUSY_MS = 30000, STEPS = 100000, OURS_MS = 600000, OTHERS_MS = 60000 };

struct sqlite_db {
	struct db db;
	struct sqlite_api api;
	sqlite3 *handle;
	bool ours;        // else a stranger may have made it
	int64_t deadline; // of the statement that runs
	struct {
		const char *sql;
		sqlite3_stmt *statement;
	} kept[STATEMENTS];
	size_t nkept;
};

static struct uh_error *sqlite_error(struct sqlite_db *s)
{
	const int code = s->api.sqlite3_extended_errcode(s->handle) & 0xff;
	const int os = s->api.sqlite3_system_errno(s->handle);
	struct uh_error *err = uh_error_new("the database of incidents: %s", s->api.sqlite3_errmsg(s->handle));
	err->errnum = code == SQLITE_CONSTRAINT || code == SQLITE_TOOBIG || code == SQLITE_MISMATCH ? EILSEQ :
		      code == SQLITE_CORRUPT || code == SQLITE_NOTADB                               ? EUCLEAN :
		      code == SQLITE_FULL                                                           ? ENOSPC :
		      code == SQLITE_READONLY || code == SQLITE_PERM                                ? EACCES :
												      os;
	return err;
}

static void sqlite_close(struct db *d)
{
	struct sqlite_db *s = (struct sqlite_db *)d;
	for (size_t n = 0; n < s->nkept; n++)
		s->api.sqlite3_finalize(s->kept[n].statement);
	if (s->handle)
		s->api.sqlite3_close(s->handle);
	free(s);
}

/** What it writes is on the disk when it has said so, and readers do not stop writers. */
static const char settings[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;",
		  reading[] = "PRAGMA mmap_size=268435456";

static int sqlite_too_long(void *ctx) { return now_ms() > ((const struct sqlite_db *)ctx)->deadline; }

/** A file that was copied from elsewhere may have anything in it: what it says is not run, and no statement takes for ever. */
static void sqlite_be_careful(struct sqlite_db *s)
{
	static const int settings_of[][2] = { { SQLITE_DBCONFIG_DEFENSIVE, 1 },
					      { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
					      { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
					      { SQLITE_DBCONFIG_ENABLE_VIEW, 0 } };
	for (size_t n = 0; n < ARRAY_SIZE(settings_of); n++)
		s->api.sqlite3_db_config(s->handle, settings_of[n][0], settings_of[n][1], NULL);
	s->api.sqlite3_busy_timeout(s->handle, BUSY_MS);
	s->deadline = INT64_MAX;
	s->api.sqlite3_progress_handler(s->handle, STEPS, sqlite_too_long, s);
}

/** A file of others as an address: SQLite takes it as it is, and looks for nothing beside it. */
static const char *sqlite_address(struct arena *a, const char *path)
{
	_cleanup_text_ struct text t = { 0 };
	text_add(&t, S("file:"));
	for (const char *c = path; *c; c++)
		if (char_word(*c) || char_among(*c, "/-."))
			text_add(&t, (struct str){ c, 1 });
		else
			text_printf(&t, "%%%02X", (unsigned char)*c);
	text_add(&t, S("?immutable=1"));
	return arena_z(a, text_str(&t));
}

static struct uh_error *sqlite_open_at(struct sqlite_db *s, const char *where, enum db_access access)
{
	static const int flags[] = { [DB_READ] = SQLITE_OPEN_READONLY,
				     [DB_WRITE] = SQLITE_OPEN_READWRITE,
				     [DB_MAKE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE };
	_cleanup_arena_ struct arena a = { 0 };
	struct db_place place = { ":memory:", true };
	if (where && access != DB_MAKE && faccessat(AT_FDCWD, where, F_OK, 0))
		return uh_error_os(errno, "%s", where);
	struct uh_error *err = where ? db_place(&a, where, access, &place) : NULL;
	if (err)
		return err;
	s->ours = place.ours;
	const int how = // one thread uses it at a time
		SQLITE_OPEN_NOMUTEX | flags[where ? access : DB_MAKE] | (where ? SQLITE_OPEN_NOFOLLOW : 0) |
		(place.ours ? 0 : SQLITE_OPEN_URI);
	if (s->api.sqlite3_open_v2(place.ours ? place.path : sqlite_address(&a, place.path), &s->handle, how, NULL) !=
	    SQLITE_OK)
		return sqlite_error(s);
	sqlite_be_careful(s);
	if (!place.ours)
		return db_script(&s->db, "PRAGMA hard_heap_limit=536870912; PRAGMA cell_size_check=on");
	err = where && access != DB_READ ? db_script(&s->db, settings) : NULL;
	return err ? err : db_script(&s->db, reading);
}

static struct uh_error *sqlite_open(const char *where, enum db_access access, struct db **ret)
{
	struct sqlite_db *s = mem_alloc(sizeof(*s));
	s->db.driver = &db_sqlite;
	struct uh_error *err =
		sqlite_take(&s->api) ?
			uh_error_os(ELIBACC, "libsqlite3.so.0 (package libsqlite3-0) is needed for the history") :
			sqlite_open_at(s, where, access);
	if (err)
		sqlite_close(&s->db);
	else
		*ret = &s->db;
	return err;
}

static void sqlite_bind(struct sqlite_db *s, sqlite3_stmt *statement, const struct db_statement *given)
{
	s->api.sqlite3_clear_bindings(statement);
	for (size_t n = 0; n < given->n; n++) {
		const struct db_value *v = &given->values[n];
		char name[24];
		snprintf(name, sizeof(name), "$%zu", n + 1);
		const int at = s->api.sqlite3_bind_parameter_index(statement, name);
		if (v->type == DB_INT)
			s->api.sqlite3_bind_int64(statement, at, v->number);
		else if (v->type == DB_REAL)
			s->api.sqlite3_bind_double(statement, at, v->real);
		else if (v->type == DB_TEXT) // it lives until the statement has run
			s->api.sqlite3_bind_text(statement, at, v->text.p, (int)v->text.n, SQLITE_STATIC);
	}
}

static struct db_value sqlite_value(struct sqlite_db *s, sqlite3_stmt *row, int n)
{
	switch (s->api.sqlite3_column_type(row, n)) {
	case SQLITE_INTEGER:
		return db_int(s->api.sqlite3_column_int64(row, n));
	case SQLITE_FLOAT:
		return db_real(s->api.sqlite3_column_double(row, n));
	case SQLITE_NULL:
		return (struct db_value){ 0 };
	default: {
		const char *p = (const char *)s->api.sqlite3_column_text(row, n);
		return db_text((struct str){ p, p ? (size_t)s->api.sqlite3_column_bytes(row, n) : 0 });
	}
	}
}

static struct uh_error *sqlite_rows(struct sqlite_db *s, sqlite3_stmt *statement, db_row_fn *row, void *ctx)
{
	enum { COLUMNS = 64 };
	int r;
	s->deadline = now_ms() + (s->ours ? OURS_MS : OTHERS_MS);
	while ((r = s->api.sqlite3_step(statement)) == SQLITE_ROW) {
		struct db_value values[COLUMNS];
		const int n = s->api.sqlite3_column_count(statement);
		for (int i = 0; i < n && i < COLUMNS; i++)
			values[i] = sqlite_value(s, statement, i);
		if (row)
			row(ctx, values, (size_t)(n < COLUMNS ? n : COLUMNS));
	}
	struct uh_error *err = r == SQLITE_DONE ? NULL : sqlite_error(s);
	s->api.sqlite3_reset(statement);
	s->deadline = INT64_MAX;
	return err;
}

static struct uh_error *sqlite_run(struct db *d, const struct db_statement *given, db_row_fn *row, void *ctx)
{
	struct sqlite_db *s = (struct sqlite_db *)d;
	sqlite3_stmt *statement = NULL;
	for (size_t n = 0; given->keep && n < s->nkept && !statement; n++)
		if (s->kept[n].sql == given->sql)
			statement = s->kept[n].statement;
	const bool new = !statement;
	if (new && s->api.sqlite3_prepare_v2(s->handle, given->sql, -1, &statement, NULL) != SQLITE_OK)
		return sqlite_error(s);
	sqlite_bind(s, statement, given);
	struct uh_error *err = sqlite_rows(s, statement, row, ctx);
	if (new && given->keep && s->nkept < STATEMENTS) {
		s->kept[s->nkept].sql = given->sql;
		s->kept[s->nkept++].statement = statement;
	} else if (new) {
		s->api.sqlite3_finalize(statement);
	}
	return err;
}

static struct uh_error *sqlite_script(struct db *d, const char *sql)
{
	struct sqlite_db *s = (struct sqlite_db *)d;
	return s->api.sqlite3_exec(s->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? NULL : sqlite_error(s);
}

const struct db_driver db_sqlite = { .open = sqlite_open,
				     .close = sqlite_close,
				     .run = sqlite_run,
				     .script = sqlite_script,
				     .begin = "BEGIN",
				     .begin_writing = "BEGIN IMMEDIATE" };
