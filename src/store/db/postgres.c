// The history on a server of PostgreSQL, through libpq. Its few functions are declared here, so that unhang is built without it.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/door/library.h"
#include "store/db/db.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
enum { CONNECTION_OK = 0, PGRES_COMMAND_OK = 1, PGRES_TUPLES_OK = 2, PGRES_PIPELINE_SYNC = 10, PG_DIAG_SQLSTATE = 'C' };
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
int PQenterPipelineMode(PGconn *conn);
int PQexitPipelineMode(PGconn *conn);
int PQpipelineSync(PGconn *conn);
int PQsendPrepare(PGconn *conn, const char *name, const char *query, int n, const unsigned *types);
int PQsendQueryParams(PGconn *conn, const char *command, int n, const unsigned *types, const char *const *values,
		      const int *lengths, const int *formats, int result_format);
int PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths,
			const int *formats, int result_format);
PGresult *PQgetResult(PGconn *conn);

// clang-format off
#define PQ_CALLS(call) \
	call(PQconnectdbParams) call(PQfinish) call(PQstatus) call(PQerrorMessage) call(PQexec) call(PQexecParams) call(PQprepare) \
	call(PQexecPrepared) call(PQresultStatus) call(PQresultErrorMessage) call(PQresultErrorField) call(PQntuples) call(PQnfields) call(PQftype) \
	call(PQgetvalue) call(PQgetlength) call(PQgetisnull) call(PQclear)
// Since libpq 14. Without them each statement waits for its answer.
#define PQ_PIPELINE_CALLS(call) \
	call(PQenterPipelineMode) call(PQexitPipelineMode) call(PQpipelineSync) call(PQsendPrepare) call(PQsendQueryParams) \
	call(PQsendQueryPrepared) call(PQgetResult)
// clang-format on

enum { STATEMENTS = 64, VALUES = 48, COLUMNS = 64, NUMBER = 40 };

struct postgres_db {
	struct db db;
	struct pq_api {
		LIBRARY_API(PQ_CALLS)
	} api;
	struct pq_pipeline_api {
		LIBRARY_API(PQ_PIPELINE_CALLS)
	} pipe;
	PGconn *connection;
	struct {
		const char *sql;
		unsigned name;
	} kept[STATEMENTS];  // prepared
	size_t nkept, nsure; // the server said of the first @nsure that they are
	unsigned names;
	bool pipelines; // libpq can send statements without waiting for the answers
	bool sending;   // it does so now
	size_t unanswered;
};

static struct uh_error *postgres_error(struct postgres_db *p, const PGresult *result)
{
	struct str why = str_trim(str_z(result ? p->api.PQresultErrorMessage(result) : p->api.PQerrorMessage(p->connection)));
	const char *state = result ? p->api.PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	const struct str code = str_z(state ? state : "");
	const bool lost = p->api.PQstatus(p->connection) != CONNECTION_OK;
	if (!why.n) // what was sent behind it has no reason of its own
		why = str_trim(str_z(p->api.PQerrorMessage(p->connection)));
	const struct str line = why.n ? str_split(&why, '\n') : S("the connection was lost");
	struct uh_error *err = uh_error_new("PostgreSQL: " STR_FMT, STR_ARG(line));
	// Data, constraints, and limits of the program: with other values it may do. A server that ends, or ends this connection or transaction
	// for another's sake: the same may do later.
	if (str_among(str_cut(code, 2), STR_EQUALS, "22|23|54|").n)
		err->errnum = EILSEQ;
	else if (lost || str_among(str_cut(code, 2), STR_EQUALS, "08|40|").n || str_among(code, STR_BEGINS, "57P|25P03|").n)
		err->errnum = ECONNRESET;
	return err;
}

static void postgres_close(struct db *d)
{
	struct postgres_db *p = (struct postgres_db *)d;
	if (p->connection)
		p->api.PQfinish(p->connection);
	free(p);
}

// A peer that is gone is noticed on both sides: no statement waits for ever, and no transaction of one who is gone keeps others waiting.
#define PEER_GONE                                                                                                              \
	"-c tcp_user_timeout=30000 -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=5 "                                     \
	"-c idle_in_transaction_session_timeout=120s "

static struct uh_error *postgres_open(const char *where, enum db_access access, struct db **ret)
{
	static const char *const keys[] = { "dbname",
					    "connect_timeout",
					    "tcp_user_timeout",
					    "keepalives_idle",
					    "keepalives_interval",
					    "application_name",
					    "options",
					    NULL };
	const char *const values[] = { where,
				       "20",
				       "30000",
				       "10",
				       "5",
				       "unhang",
				       access == DB_READ ? PEER_GONE
					       "-c default_transaction_read_only=on -c statement_timeout=60s" :
							   PEER_GONE "-c statement_timeout=120s",
				       NULL };
	struct postgres_db *p = mem_alloc(sizeof(*p));
	p->db.driver = &db_postgres;
	if (LIBRARY_LOAD(&p->api, PQ_CALLS, "libpq.so.5")) {
		postgres_close(&p->db);
		return uh_error_os(ELIBACC, "libpq.so.5 (package libpq5) is needed for PostgreSQL");
	}
	p->pipelines = !LIBRARY_LOAD(&p->pipe, PQ_PIPELINE_CALLS, "libpq.so.5");
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

static struct uh_error *postgres_sent(struct postgres_db *p, int sent)
{
	p->unanswered += sent != 0;
	return sent ? NULL : postgres_error(p, NULL);
}

/** The answers to all that was sent: the first that is an error counts, and the rows of the last go to @row. */
static struct uh_error *postgres_answers(struct postgres_db *p, db_row_fn *row, void *ctx)
{
	struct uh_error *err = NULL;
	if (!p->sending || !p->unanswered)
		return NULL;
	if (!p->pipe.PQpipelineSync(p->connection))
		return postgres_error(p, NULL);
	for (; p->unanswered; p->unanswered--) {
		PGresult *result = p->pipe.PQgetResult(p->connection);
		struct uh_error *one = postgres_rows(p, result, p->unanswered == 1 ? row : NULL, ctx);
		if (err || !one)
			uh_error_free(one);
		else
			err = one;
		if (!result)
			break;
		p->api.PQclear(p->pipe.PQgetResult(p->connection)); // NULL, the end of each answer
	}
	PGresult *sync = p->unanswered ? NULL : p->pipe.PQgetResult(p->connection);
	const bool whole = sync && p->api.PQresultStatus(sync) == PGRES_PIPELINE_SYNC;
	p->api.PQclear(sync);
	p->unanswered = 0;
	if (!err && !whole)
		err = postgres_error(p, NULL);
	// Behind an error, nothing was prepared. A name is never used again: what stands before it was.
	p->nkept = err ? p->nsure : p->nkept;
	p->nsure = p->nkept;
	return err;
}

/** The name of a statement that is prepared, which it is now where it was not; an empty one: it is run once. */
static struct uh_error *postgres_prepared(struct postgres_db *p, const struct db_statement *s, char ret[static NUMBER])
{
	size_t n = 0;
	ret[0] = 0;
	while (n < p->nkept && p->kept[n].sql != s->sql)
		n++;
	if (!s->keep || n == STATEMENTS)
		return NULL;
	snprintf(ret, NUMBER, "s%u", n < p->nkept ? p->kept[n].name : p->names);
	if (n < p->nkept)
		return NULL;
	struct uh_error *err =
		p->sending ? postgres_sent(p, p->pipe.PQsendPrepare(p->connection, ret, s->sql, (int)s->n, NULL)) :
			     postgres_rows(p, p->api.PQprepare(p->connection, ret, s->sql, (int)s->n, NULL), NULL, NULL);
	if (err)
		return err;
	p->kept[p->nkept].sql = s->sql;
	p->kept[p->nkept++].name = p->names++;
	p->nsure = p->sending ? p->nsure : p->nkept;
	return NULL;
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
	if (!p->sending)
		return postgres_rows(p,
				     name[0] ? p->api.PQexecPrepared(p->connection, name, n, values, NULL, NULL, 0) :
					       p->api.PQexecParams(p->connection, s->sql, n, NULL, values, NULL, NULL, 0),
				     row, ctx);
	err = postgres_sent(p, name[0] ? p->pipe.PQsendQueryPrepared(p->connection, name, n, values, NULL, NULL, 0) :
					 p->pipe.PQsendQueryParams(p->connection, s->sql, n, NULL, values, NULL, NULL, 0));
	return err || !row ? err : postgres_answers(p, row, ctx);
}

/** From now on, statements whose rows nobody wants are sent without waiting for an answer; or no more, and all have theirs. */
static struct uh_error *postgres_together(struct db *d, bool on)
{
	struct postgres_db *p = (struct postgres_db *)d;
	struct uh_error *err = postgres_answers(p, NULL, NULL);
	if (on && !p->sending && p->pipelines)
		p->sending = p->pipe.PQenterPipelineMode(p->connection);
	else if (!on && p->sending)
		p->sending = !p->pipe.PQexitPipelineMode(p->connection);
	return err;
}

/** Several statements in one text cannot be sent that way. */
static struct uh_error *postgres_script(struct db *d, const char *sql)
{
	struct postgres_db *p = (struct postgres_db *)d;
	const bool sending = p->sending;
	struct uh_error *err = postgres_together(d, false);
	if (!err)
		err = postgres_rows(p, p->api.PQexec(p->connection, sql), NULL, NULL);
	uh_error_free(postgres_together(d, sending));
	return err;
}

const struct db_driver db_postgres = { .open = postgres_open,
				       .close = postgres_close,
				       .run = postgres_run,
				       .script = postgres_script,
				       .together = postgres_together,
				       .begin = "BEGIN",
				       .begin_writing = "BEGIN" };
