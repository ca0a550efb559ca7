// A database of the history: SQLite in a file, or PostgreSQL on a server. The same statements run on both: $1, $2, ... stand for values, and
// whatever only one of them knows is left out. Libraries are loaded when they are asked for.
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

struct db;

enum db_type { DB_NULL, DB_INT, DB_REAL, DB_TEXT };
struct db_value {
	enum db_type type;
	int64_t number;
	double real;
	struct str text;
};

static inline struct db_value db_int(int64_t n) { return (struct db_value){ .type = DB_INT, .number = n }; }
/** One that is not known is NULL: 0, and an empty text. */
static inline struct db_value db_known(int64_t n) { return (struct db_value){ .type = n ? DB_INT : DB_NULL, .number = n }; }
static inline struct db_value db_real(double r) { return (struct db_value){ .type = DB_REAL, .real = r }; }
static inline struct db_value db_text(struct str s) { return (struct db_value){ .type = s.n ? DB_TEXT : DB_NULL, .text = s }; }

/** Texts are valid until it returns. */
typedef void db_row_fn(void *ctx, const struct db_value *row, size_t n);

/** DB_MAKE: makes it where it is not there. */
enum db_access { DB_READ, DB_WRITE, DB_MAKE };
/** @where: `postgresql://...` (or postgres://), the path of a file, or NULL for one in memory. The error's errnum is ENOENT where there is
 * none, and ELIBACC where the library is missing. Of any call it is EUCLEAN where the file is
 * damaged, EILSEQ where a value is refused for what it is, and ECONNRESET where a server was lost. */
struct uh_error *db_open(const char *where, enum db_access access, struct db **ret);
void db_close(struct db *d);
static inline void cleanup_db(struct db **d)
{
	db_close(*d);
	*d = NULL;
}
#define _cleanup_db_ _cleanup_(cleanup_db)

/** Whether @where names a server. */
bool db_is_server(const char *where);
bool db_on_server(const struct db *d);

/** Runs a statement, whose text lives as long as the program: it is prepared once. Each row goes to @row; NULL: none is wanted. */
struct uh_error *db_run(struct db *d, const char *sql, const struct db_value *values, size_t n, db_row_fn *row, void *ctx);
#define DB_VALUES(...)                                                                                                         \
	(const struct db_value[]){ __VA_ARGS__ }, sizeof((const struct db_value[]){ __VA_ARGS__ }) / sizeof(struct db_value)
/** A statement whose rows nobody wants. */
#define db_do(d, sql, ...) db_run((d), (sql), DB_VALUES(__VA_ARGS__), NULL, NULL)
/** The same of a text that is used once, or of several statements without values. */
struct uh_error *db_run_once(struct db *d, struct str sql, const struct db_value *values, size_t n, db_row_fn *row, void *ctx);
struct uh_error *db_script(struct db *d, const char *sql);

/** All until the end happens, or nothing. What was not ended when @d closes did not happen. @writes: it waits for others that write, instead
 * of failing later. A server far away is then not waited for after each statement whose rows nobody wants: its error is that of a later call,
 * of db_end() at the latest. Who gets an error from any of these calls db_undo(). */
struct uh_error *db_begin(struct db *d, bool writes);
/** Waits for all statements until here; their error. */
struct uh_error *db_settle(struct db *d);
struct uh_error *db_end(struct db *d);
void db_undo(struct db *d);

// What a kind of database does; db.c chooses one.
struct db_statement {
	const char *sql;
	bool keep; // it is run again, by the same pointer
	const struct db_value *values;
	size_t n;
};
struct db_driver {
	struct uh_error *(*open)(const char *where, enum db_access access, struct db **ret);
	void (*close)(struct db *d);
	struct uh_error *(*run)(struct db *d, const struct db_statement *s, db_row_fn *row, void *ctx);
	struct uh_error *(*script)(struct db *d, const char *sql);
	struct uh_error *(*together)(struct db *d, bool on); // NULL: nothing is far away
	const char *begin, *begin_writing;
};
extern const struct db_driver db_sqlite, db_postgres;

/** Each kind of database begins with it. */
struct db {
	const struct db_driver *driver;
};
