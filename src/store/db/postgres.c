// The history on a server of PostgreSQL, through libpq. Its few functions are declared here, so that unhang is built without it.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/door/library.h"
#include "store/db/db.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
enum { CONNECTION_OK = 0, PGRES_COMMAND_OK = 1, PGRES_TUPLES_OK = 2, PG_DIAG_SQLSTATE = 'C' };
PGconn *PQconnectdbParams(const char *const *keywords, const char *const *values, int expand_dbname);
void PQfinish(PGconn *conn);
int PQstatus(const PGconn *conn);
char *PQerrorMessage(const PGconn *conn);
PGresult *PQexec(PGconn *conn, const char *query);
PGresult *PQexecParams(PGconn *conn, const char *command, int n, const unsigned *types, const char *const *values,
		       const int *lengths, const int *formats, int result_format);
PGresult *PQprepare(PGconn *conn, const char *name, const char *query, int n, const unsigned *types);
PGresult *PQexecPrepared(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths,
			 const int *formats, int result_format);
int PQresultStatus(const PGresult *res);
char *PQresultErrorMessage(const PGresult *res);
char *PQresultErrorField(const PGresult *res, int field);
int PQntuples(const PGresult *res);
int PQnfields(const PGresult *res);
unsigned PQftype(const PGresult *res, int column);
char *PQgetvalue(const PGresult *res, int row, int column);
int PQgetlength(const PGresult *res, int row, int column);
int PQgetisnull(const PGresult *res, int row, int column);
void PQclear(PGresult *res);

// clang-format off
#define PQ_CALLS(call) \
	call(PQconnectdbParams) call(PQfinish) call(PQstatus) call(PQerrorMessage) call(PQexec) call(PQexecParams) call(PQprepare) \
	call(PQexecPrepared) call(PQresultStatus) call(PQresultErrorMessage) call(PQresultErrorField) call(PQntuples) call(PQnfields) call(PQftype) \
	call(PQgetvalue) call(PQgetlength) call(PQgetisnull) call(PQclear)
// clang-format on

enum { STATEMENTS = 64, VALUES = 48, COLUMNS = 64, NUMBER = 40 };

struct postgres_db {
	struct db db;
	struct pq_api {
		LIBRARY_API(PQ_CALLS)
	} api;
	PGconn *connection;
	const char *kept[STATEMENTS]; // prepared, and called by their place
	size_t nkept;
};

static struct uh_error *postgres_error(struct postgres_db *p, const PGresult *result)
{
	struct str why = str_trim(str_z(result ? p->api.PQresultErrorMessage(result) : p->api.PQerrorMessage(p->connection)));
	const char *state = result ? p->api.PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	struct uh_error *err = uh_error_new("PostgreSQL: " STR_FMT, STR_ARG(str_split(&why, '\n')));
	// Data, constraints, and limits of the program: with other values it may do.
	if (state && str_among(str_cut(str_z(state), 2), STR_EQUALS, "22|23|54|").n)
		err->errnum = EILSEQ;
	return err;
}

static void postgres_close(struct db *d)
{
	struct postgres_db *p = (struct postgres_db *)d;
	if (p->connection)
		p->api.PQfinish(p->connection);
	free(p);
}

/** A server that is gone is noticed: no statement waits for ever. */
static struct uh_error *postgres_open(const char *where, enum db_access access, struct db **ret)
{
	static const char *const keys[] = {
		"dbname", "connect_timeout", "tcp_user_timeout", "keepalives_idle", "application_name", "options", NULL
	};
	const char *const values[] = {
		where,
		"10",
		"30000",
		"10",
		"unhang",
		access == DB_READ ? "-c default_transaction_read_only=on -c statement_timeout=60s" : "-c statement_timeout=120s",
		NULL
	};
	struct postgres_db *p = mem_alloc(sizeof(*p));
	p->db.driver = &db_postgres;
	if (LIBRARY_LOAD(&p->api, PQ_CALLS, "libpq.so.5")) {
		postgres_close(&p->db);
		return uh_error_os(ELIBACC, "libpq.so.5 (package libpq5) is needed for PostgreSQL");
	}
	p->connection = p->api.PQconnectdbParams(keys, values, 1);
	if (p->connection && p->api.PQstatus(p->connection) == CONNECTION_OK) {
		*ret = &p->db;
		return NULL;
	}
	struct uh_error *err = p->connection ? postgres_error(p, NULL) : uh_error_os(ENOMEM, "PostgreSQL");
	postgres_close(&p->db);
	return err;
}

/** As text, which the server turns into what the place is of. A NUL cannot be in one. */
static const char *postgres_text(const struct db_value *v, char room[static NUMBER], struct arena *a)
{
	if (v->type == DB_INT)
		snprintf(room, NUMBER, "%lld", (long long)v->number);
	else if (v->type == DB_REAL)
		snprintf(room, NUMBER, "%.17g", v->real);
	else if (v->type == DB_TEXT)
		return arena_z(a, str_cut(v->text, strnlen(v->text.p, v->text.n)));
	return v->type == DB_NULL ? NULL : room;
}

static struct db_value postgres_value(struct postgres_db *p, const PGresult *result, int row, int column)
{
	enum { INT8 = 20, INT2 = 21, INT4 = 23, FLOAT4 = 700, FLOAT8 = 701, NUMERIC = 1700 };
	const char *text = p->api.PQgetvalue(result, row, column);
	const unsigned type = p->api.PQftype(result, column);
	if (p->api.PQgetisnull(result, row, column))
		return (struct db_value){ 0 };
	if (type == INT8 || type == INT2 || type == INT4)
		return db_int(strtoll(text, NULL, 10));
	if (type == FLOAT4 || type == FLOAT8 || type == NUMERIC)
		return db_real(strtod(text, NULL));
	return db_text((struct str){ text, (size_t)p->api.PQgetlength(result, row, column) });
}

static struct uh_error *postgres_rows(struct postgres_db *p, PGresult *result, db_row_fn *row, void *ctx)
{
	const int status = result ? p->api.PQresultStatus(result) : -1;
	struct uh_error *err = NULL;
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		err = postgres_error(p, result);
	for (int n = 0, rows = err || !row ? 0 : p->api.PQntuples(result); n < rows; n++) {
		struct db_value values[COLUMNS];
		const int columns = p->api.PQnfields(result);
		for (int i = 0; i < columns && i < COLUMNS; i++)
			values[i] = postgres_value(p, result, n, i);
		row(ctx, values, (size_t)(columns < COLUMNS ? columns : COLUMNS));
	}
	if (result)
		p->api.PQclear(result);
	return err;
}

/** The name of a statement that is prepared, which it is now where it was not; an empty one: it is run once. */
static struct uh_error *postgres_prepared(struct postgres_db *p, const struct db_statement *s, char ret[static NUMBER])
{
	size_t n = 0;
	ret[0] = 0;
	while (n < p->nkept && p->kept[n] != s->sql)
		n++;
	if (!s->keep || n == STATEMENTS)
		return NULL;
	snprintf(ret, NUMBER, "s%zu", n);
	if (n < p->nkept)
		return NULL;
	struct uh_error *err = postgres_rows(p, p->api.PQprepare(p->connection, ret, s->sql, (int)s->n, NULL), NULL, NULL);
	if (!err)
		p->kept[p->nkept++] = s->sql;
	return err;
}

static struct uh_error *postgres_run(struct db *d, const struct db_statement *s, db_row_fn *row, void *ctx)
{
	struct postgres_db *p = (struct postgres_db *)d;
	_cleanup_arena_ struct arena a = { 0 };
	const char *values[VALUES];
	char numbers[VALUES][NUMBER], name[NUMBER];
	const int n = (int)(s->n < VALUES ? s->n : VALUES);
	for (int i = 0; i < n; i++)
		values[i] = postgres_text(&s->values[i], numbers[i], &a);
	struct uh_error *err = postgres_prepared(p, s, name);
	if (err)
		return err;
	PGresult *result = name[0] ? p->api.PQexecPrepared(p->connection, name, n, values, NULL, NULL, 0) :
				     p->api.PQexecParams(p->connection, s->sql, n, NULL, values, NULL, NULL, 0);
	return postgres_rows(p, result, row, ctx);
}

static struct uh_error *postgres_script(struct db *d, const char *sql)
{
	struct postgres_db *p = (struct postgres_db *)d;
	return postgres_rows(p, p->api.PQexec(p->connection, sql), NULL, NULL);
}

const struct db_driver db_postgres = { postgres_open, postgres_close, postgres_run, postgres_script, "BEGIN", "BEGIN" };
