// The histories of dnf 4 and of libdnf5, which are databases of SQLite. The library is loaded only when there is one. It opens neither the
// file nor what lies beside it: it is given a copy in memory, in which what the log of writes (-wal) holds is in its place already, so that
// nothing is written on the machine and nobody's lock is taken.
#include <time.h>

#include "base/bytes.h"
#include "base/door/sqlite.h"
#include "host/changes/readers.h"

// --- the log of writes ---

enum { WAL_HEAD = 32, WAL_FRAME = 24, WAL_SUMMED = 24, DATABASE_HEAD = 100, DATABASE_MOST = 64 << 20 };

struct wal_sum {
	bool big; // which way round the numbers are that are summed up
	uint32_t a, b;
};

static uint32_t big_u32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static void wal_add(struct wal_sum *s, const char *p, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		s->a += (s->big ? big_u32(p + i) : get_u32(p + i)) + s->b;
		s->b += (s->big ? big_u32(p + i + 4) : get_u32(p + i + 4)) + s->a;
	}
}

static bool wal_agrees(const struct wal_sum *s, const char *p) { return s->a == big_u32(p) && s->b == big_u32(p + 4); }

/** Puts the pages of one transaction, whose frames are at @from, into the copy. */
static void wal_apply(struct text *db, struct str frames, size_t page)
{
	for (; frames.n >= WAL_FRAME + page; frames = str_from(frames, WAL_FRAME + page)) {
		const size_t end = (size_t)big_u32(frames.p) * page;
		if (end > db->n) {
			char *more = text_room(db, end - db->n);
			memset(more, 0, end - db->n);
			db->n = end;
		}
		memcpy(db->p + end - page, frames.p + WAL_FRAME, page);
	}
}

/** What was committed counts, up to the first frame that is not whole or is an earlier log's. */
static void wal_take(struct text *db, struct str wal)
{
	struct wal_sum sum = { 0 };
	if (wal.n < WAL_HEAD || (big_u32(wal.p) & ~1u) != 0x377f0682)
		return;
	const size_t page = big_u32(wal.p + 8);
	const struct str salt = str_cut(str_from(wal, 16), 8);
	sum.big = big_u32(wal.p) & 1;
	wal_add(&sum, wal.p, WAL_SUMMED);
	if (!wal_agrees(&sum, wal.p + WAL_SUMMED) || page < 512 || page > 65536 || (page & (page - 1)))
		return;
	struct str left = str_from(wal, WAL_HEAD), open = left;
	while (left.n >= WAL_FRAME + page) {
		const uint32_t number = big_u32(left.p), pages = big_u32(left.p + 4);
		wal_add(&sum, left.p, 8);
		wal_add(&sum, left.p + WAL_FRAME, page);
		if (!str_eq(str_cut(str_from(left, 8), 8), salt) || !wal_agrees(&sum, left.p + 16) || !number ||
		    number > DATABASE_MOST / page)
			return;
		left = str_from(left, WAL_FRAME + page);
		if (pages) { // the last of a transaction
			wal_apply(db, str_cut(open, open.n - left.n), page);
			open = left;
		}
	}
}

// --- asking ---

/** Statements are few and small; a database that is made to keep us busy is left. */
static int too_long(void *until) { return clock() > *(const clock_t *)until; }

/** What is asked of a database, and to whom its answers go. */
struct dnf_history {
	const char *manager, *sql;
	const char *tables; // that it is asked of, with commas between
	const struct know *know;
	const struct change_log *log;
	struct changes *to;
};

enum { COLUMN_ID, COLUMN_BEGIN, COLUMN_END, COLUMN_NAME, COLUMN_FROM, COLUMN_TO, NUMBERS = COLUMN_NAME };

/** A column of SQLite takes values of any kind: `last` as a number of a transaction is none. */
static bool row_is_sound(const struct sqlite_api *s, sqlite3_stmt *rows)
{
	for (int i = 0; i <= COLUMN_TO; i++) {
		const int type = s->sqlite3_column_type(rows, i);
		const bool missing = type == SQLITE_NULL && i > COLUMN_NAME;
		if (type != (i < NUMBERS ? SQLITE_INTEGER : SQLITE_TEXT) && !missing)
			return false;
	}
	return s->sqlite3_column_int64(rows, COLUMN_ID) > 0;
}

static struct str history_text(const struct sqlite_api *s, sqlite3_stmt *rows, int column)
{
	const char *p = (const char *)s->sqlite3_column_text(rows, column);
	return (struct str){ p, p ? (size_t)s->sqlite3_column_bytes(rows, column) : 0 };
}

/** false: it is not what it should be, or took too long. */
static bool ask_history(const struct sqlite_api *s, sqlite3_stmt *rows, const struct dnf_history *h)
{
	struct transaction open = { .manager = str_z(h->manager) }, *t = &open;
	struct changes *c = h->to;
	int64_t id = 0;
	int end;
	while ((end = s->sqlite3_step(rows)) == SQLITE_ROW && row_is_sound(s, rows)) {
		const struct change one = { history_text(s, rows, COLUMN_NAME), history_text(s, rows, COLUMN_FROM),
					    history_text(s, rows, COLUMN_TO) };
		const int64_t of = s->sqlite3_column_int64(rows, COLUMN_ID);
		if (of != id)
			transaction_end(c, t);
		id = of;
		if (!t->when) {
			t->begin = (double)s->sqlite3_column_int64(rows, COLUMN_BEGIN);
			t->when = (double)s->sqlite3_column_int64(rows, COLUMN_END);
			t->id = arena_printf(&c->arena, "%lld", (long long)id);
			t->where = arena_str(&c->arena, h->log->path);
		}
		if (one.package.n && !str_eq(one.from, one.to))
			transaction_add(c, h->know, t, one);
	}
	transaction_end(c, t);
	return end == SQLITE_DONE;
}

/** Views and virtual tables are programs of whoever wrote the file. Each name has to be a table. */
static bool has_tables(const struct sqlite_api *s, sqlite3 *db, const char *tables)
{
	static const char sql[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND sql LIKE 'CREATE TABLE%'";
	sqlite3_stmt *row = NULL;
	bool all = s->sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK;
	str_each (name, str_z(tables), ',') {
		all = all && s->sqlite3_bind_text(row, 1, name.p, (int)name.n, SQLITE_STATIC) == SQLITE_OK &&
		      s->sqlite3_step(row) == SQLITE_ROW;
		if (row)
			s->sqlite3_reset(row);
	}
	s->sqlite3_finalize(row);
	return all;
}

static bool take_history(const struct sqlite_api *s, sqlite3 *db, const struct dnf_history *h)
{
	sqlite3_stmt *rows = NULL;
	const bool good = has_tables(s, db, h->tables) && s->sqlite3_prepare_v2(db, h->sql, -1, &rows, NULL) == SQLITE_OK &&
			  s->sqlite3_bind_int64(rows, 1, (int64_t)h->log->oldest) == SQLITE_OK && ask_history(s, rows, h);
	s->sqlite3_finalize(rows);
	return good;
}

/** What a stranger's database must not do. */
static void limit_database(const struct sqlite_api *s, sqlite3 *db, clock_t *until)
{
	enum { STEP = 10000, LENGTH = 1 << 20 };
	s->sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	s->sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	s->sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	s->sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	s->sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH);
	s->sqlite3_progress_handler(db, STEP, too_long, until);
}

static void read_history(const struct dnf_history *h)
{
	enum { VERSION_AT = 18, MILLISECONDS = 1000 };
	struct sqlite_api s = { 0 };
	const struct change_log *log = h->log;
	clock_t until = clock() + MILLISECONDS * (CLOCKS_PER_SEC / 1000);
	sqlite3 *db = NULL;
	if (log->text.n < DATABASE_HEAD || sqlite_take(&s)) {
		changes_unread(h->to, log->path,
			       log->text.n < DATABASE_HEAD ? "it is no database" : "libsqlite3 is not on this machine");
		return;
	}
	_cleanup_text_ struct text copy = { 0 };
	text_add(&copy, log->text);
	wal_take(&copy, log->wal);
	copy.p[VERSION_AT] = copy.p[VERSION_AT + 1] = 1; // its log of writes is in it, and memory has none
	bool good = s.sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK;
	if (good)
		limit_database(&s, db, &until);
	good = good &&
	       s.sqlite3_deserialize(db, "main", (unsigned char *)copy.p, (sqlite3_int64)copy.n, (sqlite3_int64)copy.n,
				     SQLITE_DESERIALIZE_READONLY) == SQLITE_OK &&
	       take_history(&s, db, h);
	if (!good)
		changes_unread(h->to, log->path, "it is damaged, or no history of packages");
	s.sqlite3_close(db);
}

#define VERSION "(CASE r.epoch WHEN 0 THEN '' ELSE r.epoch || ':' END) || r.version || '-' || r.release"
#define COLUMNS "SELECT t.id, t.dt_begin, coalesce(t.dt_end, t.dt_begin)"
#define LATELY "t.dt_begin > ?1"

/** Actions: 1 install, 2 downgrade, 4 obsoletes, 6 upgrade; and of what was there 3 downgraded, 5 obsoleted, 7 upgraded, 8 removed. */
void changes_of_dnf4(struct changes *c, const struct know *k, const struct change_log *log)
{
	static const char sql[] =
		COLUMNS ", r.name, max(CASE WHEN i.action IN (3, 5, 7, 8) THEN " VERSION " END), "
			"max(CASE WHEN i.action IN (1, 2, 4, 6) THEN " VERSION " END) "
			"FROM trans t JOIN trans_item i ON i.trans_id = t.id JOIN rpm r ON r.item_id = i.item_id "
			"WHERE i.action <= 8 AND i.state = 1 AND " LATELY " GROUP BY t.id, r.name ORDER BY t.id";
	read_history(&(struct dnf_history){ "dnf", sql, "trans,trans_item,rpm", k, log, c });
}

void changes_of_dnf5(struct changes *c, const struct know *k, const struct change_log *log)
{
	static const char sql[] =
		COLUMNS ", n.name, max(CASE WHEN a.name IN ('Remove', 'Replaced') THEN " VERSION " END), "
			"max(CASE WHEN a.name IN ('Install', 'Upgrade', 'Downgrade') THEN " VERSION " END) "
			"FROM trans t JOIN trans_item i ON i.trans_id = t.id JOIN rpm r ON r.item_id = i.item_id "
			"JOIN pkg_name n ON n.id = r.name_id JOIN trans_item_action a ON a.id = i.action_id "
			"JOIN trans_state s ON s.id = t.state_id "
			"WHERE s.name = 'Ok' AND " LATELY " GROUP BY t.id, n.name ORDER BY t.id";
	read_history(
		&(struct dnf_history){ "dnf5", sql, "trans,trans_item,rpm,pkg_name,trans_item_action,trans_state", k, log, c });
}
