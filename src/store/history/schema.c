// The tables, by version. A version adds to the one before it and changes nothing that is there, so that the program of the version before
// works with it, too.
#include <errno.h>

#include "base/cleanup.h"
#include "store/history/index.h"

static const char version_1[] =
	"CREATE TABLE incidents (id TEXT PRIMARY KEY, revision BIGINT NOT NULL, host TEXT, boot_id TEXT, gpu TEXT, unique_id "
	"TEXT, "
	"serial TEXT, part TEXT, gpu_name TEXT, class TEXT, title TEXT, fault TEXT, action TEXT, fit TEXT, state TEXT, "
	"fingerprint TEXT, "
	"origin TEXT, program TEXT, job TEXT, pid BIGINT, began BIGINT NOT NULL, changed BIGINT, ended BIGINT, closed_by TEXT, "
	"bundle TEXT, place TEXT, confidence DOUBLE PRECISION, events BIGINT);"
	"CREATE INDEX incidents_began ON incidents (began, class, part, host, fingerprint, state, fault);"
	"CREATE INDEX incidents_open ON incidents (state, began);"
	"CREATE INDEX incidents_host ON incidents (host, began);"
	"CREATE INDEX incidents_class ON incidents (class, began);"
	"CREATE INDEX incidents_serial ON incidents (serial, began);"
	"CREATE INDEX incidents_fingerprint ON incidents (fingerprint, began);"
	"CREATE TABLE diagnoses (incident TEXT PRIMARY KEY, json TEXT NOT NULL);"
	"CREATE TABLE events (incident TEXT NOT NULL, n BIGINT NOT NULL, time DOUBLE PRECISION, event TEXT, role TEXT, text "
	"TEXT, "
	"PRIMARY KEY (incident, n));"
	"CREATE TABLE runs (id TEXT PRIMARY KEY, revision BIGINT NOT NULL, host TEXT, boot_id TEXT, command TEXT, launcher "
	"TEXT, job TEXT, "
	"rank BIGINT, world BIGINT, began BIGINT NOT NULL, status BIGINT, state TEXT, tries BIGINT, place TEXT);"
	"CREATE INDEX runs_began ON runs (began, host);"
	"CREATE TABLE tries (run TEXT NOT NULL, number BIGINT NOT NULL, level BIGINT, began BIGINT, ran_ms BIGINT, ended TEXT, "
	"class TEXT, "
	"title TEXT, fault TEXT, action TEXT, gpu TEXT, kernel TEXT, failure_reason TEXT, detail_json TEXT, PRIMARY KEY (run, "
	"number));"
	"CREATE TABLE configurations (host TEXT NOT NULL, gpu TEXT NOT NULL, name TEXT NOT NULL, since BIGINT NOT NULL, value "
	"TEXT, "
	"PRIMARY KEY (host, gpu, name, since));"
	"CREATE INDEX configurations_since ON configurations (since, name);"
	"CREATE TABLE snapshots (host TEXT NOT NULL, time BIGINT NOT NULL, PRIMARY KEY (host, time));"
	"CREATE TABLE exposure (host TEXT NOT NULL, gpu TEXT NOT NULL, since BIGINT NOT NULL, until BIGINT NOT NULL, serial "
	"TEXT, part TEXT, "
	"busy DOUBLE PRECISION NOT NULL, PRIMARY KEY (host, gpu, since));"
	"CREATE INDEX exposure_since ON exposure (since, host);"
	"CREATE TABLE spools (path TEXT PRIMARY KEY, place BIGINT NOT NULL, refused BIGINT NOT NULL);"
	"CREATE TABLE stamp (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);"
	"INSERT INTO stamp (id, n) VALUES (1, 1);";

static const char version_2[] = "CREATE TABLE samples (host TEXT NOT NULL, gpu TEXT NOT NULL, time BIGINT NOT NULL, busy "
				"DOUBLE PRECISION, power DOUBLE PRECISION, "
				"temperature DOUBLE PRECISION, memory DOUBLE PRECISION, PRIMARY KEY (host, gpu, time));"
				"CREATE TABLE sources (hash TEXT PRIMARY KEY, revision BIGINT NOT NULL, path TEXT, bytes "
				"BIGINT, incidents BIGINT, verdict TEXT);";

// How a file begins: one that takes the place of another is read from its start.
static const char version_3[] = "ALTER TABLE spools ADD COLUMN mark BIGINT;";

// What is open, however old: few rows among many.
static const char version_4[] = "CREATE INDEX incidents_still ON incidents (began, id) WHERE state <> 'closed';";

static const char *const versions[] = { version_1, version_2, version_3, version_4 };
enum { NEWEST = ARRAY_SIZE(versions) };

static void schema_take_number(void *ctx, const struct db_value *row, size_t n)
{
	if (n)
		*(int64_t *)ctx = row[0].number;
}

/** 0: there are no tables yet. */
static struct uh_error *schema_version(struct db *d, int64_t *ret)
{
	int64_t there = 0;
	*ret = 0;
	struct uh_error *err = db_run(
		d,
		db_on_server(d) ? "SELECT count(*) FROM information_schema.tables WHERE table_name = 'unhang_schema' AND "
				  "table_schema = current_schema()" :
				  "SELECT count(*) FROM sqlite_master WHERE name = 'unhang_schema'",
		NULL, 0, schema_take_number, &there);
	if (!err && there)
		err = db_run(d, "SELECT max(version) FROM unhang_schema", NULL, 0, schema_take_number, ret);
	return err;
}

/** Several may try it at once: the first makes the table, and holds the others up until it is done. */
static struct uh_error *schema_step(struct db *d, int64_t *version)
{
	struct uh_error *err = db_begin(d, true);
	if (!err && db_on_server(d))
		err = db_script(d, "SELECT pg_advisory_xact_lock(7104113)");
	if (!err)
		err = schema_version(d, version);
	if (!err && !*version)
		err = db_script(d, "CREATE TABLE IF NOT EXISTS unhang_schema (version BIGINT PRIMARY KEY)");
	if (!err && *version < NEWEST) {
		err = db_script(d, versions[*version]);
		if (!err)
			err = db_do(d, "INSERT INTO unhang_schema (version) VALUES ($1)", db_int(*version + 1));
		if (!err)
			++*version;
	}
	if (err)
		db_undo(d);
	return err ? err : db_end(d);
}

struct uh_error *index_migrate(struct db *d, int64_t *ret_from, int64_t *ret_to)
{
	struct uh_error *err = schema_version(d, ret_from);
	*ret_to = *ret_from;
	while (!err && *ret_to < NEWEST)
		err = schema_step(d, ret_to);
	return err;
}

/** The program of one version works with the tables of the next. */
static struct uh_error *schema_fits(int64_t version, const char *where)
{
	if (version > NEWEST + 1)
		return uh_error_new("the history is of a newer unhang (form %lld; this one knows %d): update unhang",
				    (long long)version, NEWEST);
	if (version < NEWEST)
		return uh_error_new("the history has form %lld, and this unhang needs %d: run unhang store migrate %s",
				    (long long)version, NEWEST, db_is_server(where) ? "--store URL" : "");
	return NULL;
}

// --- whether it is an index at all ---

static struct uh_error *schema_odd(void)
{
	struct uh_error *err = uh_error_new("the file is no index of unhang, or somebody changed its tables");
	err->errnum = EUCLEAN;
	return err;
}

/** A view or a trigger would do in a statement what nobody wrote here. */
static struct uh_error *schema_plain(struct db *d)
{
	int64_t others = 0;
	struct uh_error *err = db_run(
		d, "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'",
		NULL, 0, schema_take_number, &others);
	return err ? err : others ? schema_odd() : NULL;
}

static void schema_take_text(void *ctx, const struct db_value *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		text_printf(ctx, STR_FMT "%c", STR_ARG(row[i].text), i + 1 < n ? '\t' : '\n');
}

/** All that the tables are, as text. */
static struct uh_error *schema_text(struct db *d, struct text *to)
{
	return db_run(d,
		      "SELECT type, name, tbl_name, coalesce(sql, '-') FROM sqlite_master WHERE name NOT IN ('sqlite_stat1', "
		      "'sqlite_stat4') ORDER BY type, name",
		      NULL, 0, schema_take_text, to);
}

/** The tables of a file are compared with those that are made here. Those of the next version are only known to be plain. */
static struct uh_error *schema_exact(struct db *d, int64_t version)
{
	_cleanup_text_ struct text has = { 0 }, wanted = { 0 };
	_cleanup_db_ struct db *fresh = NULL;
	int64_t from, to;
	if (version != NEWEST)
		return NULL;
	struct uh_error *err = schema_text(d, &has);
	if (!err)
		err = db_open(NULL, DB_MAKE, &fresh);
	if (!err)
		err = index_migrate(fresh, &from, &to);
	if (!err)
		err = schema_text(fresh, &wanted);
	return err ? err : str_eq(text_str(&has), text_str(&wanted)) ? NULL : schema_odd();
}

struct uh_error *index_open(const char *where, enum db_access access, struct db **ret)
{
	struct db *d;
	int64_t from = 0, to = 0;
	struct uh_error *err = db_open(where, access, &d);
	if (err)
		return err;
	const bool file = where && !db_on_server(d);
	if (file && (err = schema_plain(d))) {
		db_close(d);
		return err;
	}
	// A server's tables are changed when its operator says so; the first time there is nothing to lose.
	err = schema_version(d, &to);
	if (!err && to < NEWEST && access != DB_READ && (!db_on_server(d) || (!to && access == DB_MAKE)))
		err = index_migrate(d, &from, &to);
	if (!err)
		err = schema_fits(to, where ? where : "");
	if (!err && file)
		err = schema_exact(d, to);
	if (err)
		db_close(d);
	else
		*ret = d;
	return err;
}

static void take_problem(void *ctx, const struct db_value *row, size_t n)
{
	if (n && row[0].type == DB_TEXT && !str_is(row[0].text, "ok"))
		text_printf(ctx, STR_FMT "\n", STR_ARG(row[0].text));
}

struct uh_error *index_check(struct db *d, struct text *ret_problems)
{
	struct uh_error *err =
		db_on_server(d) ? NULL : db_run(d, "PRAGMA integrity_check", NULL, 0, take_problem, ret_problems);
	if (!err)
		err = db_run(d,
			     "SELECT 'events of an incident that is not there: ' || incident FROM events WHERE incident NOT IN "
			     "(SELECT id "
			     "FROM incidents) GROUP BY incident",
			     NULL, 0, take_problem, ret_problems);
	if (!err)
		err = db_run(d,
			     "SELECT 'tries of a run that is not there: ' || run FROM tries WHERE run NOT IN (SELECT id FROM "
			     "runs) GROUP BY run",
			     NULL, 0, take_problem, ret_problems);
	return err;
}
