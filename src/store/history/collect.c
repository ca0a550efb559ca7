// Files of lines, and directories of incidents and runs, into the index.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "store/history/index.h"
#include "store/history/line.h"
#include "store/store.h"

enum { PIECE_LINES = 500 }; // of a transaction

/** A file while it is taken. */
struct spool_collecting {
	struct db *db;
	struct index_counts *counts;
	struct uh_error *err;
	unsigned lines; // of this transaction
	unsigned first; // of them that was not understood, from 1 on; 0: all were
	int64_t refused;
};

static bool collect_line(void *ctx, struct str line)
{
	struct spool_collecting *c = ctx;
	enum index_taken taken = TAKEN_REFUSED;
	if (c->lines == PIECE_LINES || c->err)
		return false;
	c->err = line.n ? index_take(c->db, line, &taken) : NULL;
	if (c->err)
		return false;
	c->lines++;
	c->counts->lines[taken] += line.n != 0;
	if (taken == TAKEN_REFUSED && line.n && !c->refused++)
		c->first = c->lines;
	return true;
}

static void take_place(void *ctx, const struct db_value *row, size_t n)
{
	if (n > 1) {
		((int64_t *)ctx)[0] = row[0].number;
		((int64_t *)ctx)[1] = row[1].number;
	}
}

void index_counts_free(struct index_counts *c) { text_free(&c->refused); }

struct lines_before {
	uint64_t lines, until, offset;
};

static bool count_line(void *ctx, struct str line)
{
	struct lines_before *b = ctx;
	if (b->offset >= b->until)
		return false;
	b->offset += line.n + 1;
	b->lines++;
	return true;
}

/** Where the first line is that was not understood. Lines are counted only now: mostly there is none such. */
static void collect_note_refused(const struct spool_collecting *c, const char *path, uint64_t began)
{
	struct lines_before before = { .until = began };
	struct spool_place place = { 0 };
	if (!c->first || c->counts->refused.n)
		return;
	uh_error_free(spool_read(path, &place, count_line, &before));
	text_printf(&c->counts->refused, "%s:%llu", path, (unsigned long long)(before.lines + c->first));
}

/** One piece of a file. *@ret_more: there may be more in it. */
static struct uh_error *collect_piece(struct spool_collecting *c, const char *path, bool *ret_more)
{
	int64_t was[2] = { 0, 0 };
	struct stat st;
	*ret_more = false;
	struct uh_error *err = stat(path, &st) ? uh_error_os(errno, "%s", path) : db_begin(c->db, true);
	if (err)
		return err;
	err = db_run(c->db, "SELECT place, refused FROM spools WHERE path = $1", DB_VALUES(db_text(str_z(path))), take_place,
		     was);
	// A file that is shorter than what was read of it is another, or was made anew.
	struct spool_place place = { was[0] > 0 && was[0] <= st.st_size ? (uint64_t)was[0] : 0 };
	const uint64_t began = place.offset;
	c->lines = c->first = 0;
	c->refused = 0;
	if (!err && began < (uint64_t)st.st_size)
		err = spool_read(path, &place, collect_line, c);
	if (c->err) {
		uh_error_free(err);
		err = c->err;
		c->err = NULL;
	}
	if (!err && place.offset != began)
		err = db_do(c->db,
			    "INSERT INTO spools (path, place, refused) VALUES ($1, $2, $3) ON CONFLICT (path) DO UPDATE SET "
			    "place = "
			    "excluded.place, refused = excluded.refused",
			    db_text(str_z(path)), db_int((int64_t)place.offset), db_int(was[1] + c->refused));
	if (!err && c->lines)
		err = db_script(c->db, "UPDATE stamp SET n = n + 1");
	if (err)
		db_undo(c->db);
	else
		err = db_end(c->db);
	if (!err)
		collect_note_refused(c, path, began);
	*ret_more = !err && c->lines == PIECE_LINES;
	return err;
}

struct uh_error *index_collect(struct db *d, const char *directory, bool (*go_on)(void *ctx), void *ctx,
			       struct index_counts *counts)
{
	_cleanup_(spool_files_free) struct spool_files files = { 0 };
	struct spool_collecting c = { .db = d, .counts = counts };
	struct uh_error *err = spool_list(directory, &files);
	for (size_t n = 0; !err && n < files.list.len; n++) {
		bool more = true;
		counts->files++;
		while (!err && more && (!go_on || go_on(ctx)))
			err = collect_piece(&c, files.list.data[n], &more);
	}
	return err;
}

// --- directories ---

/** Takes lines that were made here, in one transaction. */
static struct uh_error *take_made(struct db *d, struct str lines, struct index_counts *counts)
{
	struct uh_error *err = lines.n ? db_begin(d, true) : NULL;
	for (struct str line; !err && lines.n;) {
		enum index_taken taken;
		line = str_split(&lines, '\n');
		err = index_take(d, line, &taken);
		if (!err)
			counts->lines[taken]++;
		if (!err && !lines.n)
			err = db_script(d, "UPDATE stamp SET n = n + 1");
		if (!err && !lines.n)
			return db_end(d);
	}
	if (err)
		db_undo(d);
	return err;
}

struct known {
	struct arena *arena;
	VEC(struct known_one {
		struct str id;
		int64_t revision;
	})
	list;
};

static void take_known(void *ctx, const struct db_value *row, size_t n)
{
	struct known *k = ctx;
	const struct known_one one = { arena_str(k->arena, row[0].text), n > 1 ? row[1].number : 0 };
	vec_push(&k->list, one);
}

static int known_by_id(const void *a, const void *b)
{
	return str_cmp(((const struct known_one *)a)->id, ((const struct known_one *)b)->id);
}

/** Which revision the index has; INT64_MIN: none. */
static int64_t revision_known(const struct known *k, struct str id)
{
	const struct known_one wanted = { id, 0 };
	const struct known_one *found =
		k->list.len ? bsearch(&wanted, k->list.data, k->list.len, sizeof(wanted), known_by_id) : NULL;
	return found ? found->revision : INT64_MIN;
}

static struct uh_error *revisions(struct db *d, const char *sql, struct known *k)
{
	struct uh_error *err = db_run(d, sql, NULL, 0, take_known, k);
	if (k->list.len)
		qsort(k->list.data, k->list.len, sizeof(*k->list.data), known_by_id);
	return err;
}

static struct uh_error *sync_incidents(struct db *d, const char *state, struct index_counts *counts)
{
	_cleanup_(stored_list_free) struct stored_list all;
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text lines = { 0 };
	struct known known = { .arena = &a };
	struct uh_error *err = store_list(state, &all);
	if (!err)
		err = revisions(d, "SELECT id, revision FROM incidents", &known);
	for (size_t n = 0; !err && n < all.list.len; n++) {
		_cleanup_arena_ struct arena room = { 0 };
		const struct stored *i = all.list.data[n];
		const char *place = store_path(&a, state, i->id);
		struct str diagnosis = { 0 };
		if (i->revision <= revision_known(&known, i->id))
			continue;
		uh_error_free(named_read(&(struct named){ .path = arena_printf(&room, "%s/" STORE_DIAGNOSIS, place).p },
					 HISTORY_DIAGNOSIS_MOST, &room, &diagnosis, NULL));
		line_of_incident(&lines, i, str_z(place), diagnosis);
	}
	vec_free(&known.list);
	return err ? err : take_made(d, text_str(&lines), counts);
}

int64_t history_run_revision(struct str report)
{
	int64_t tries = 0;
	for (struct str rest = report; str_after(rest, S("\"decision\":"), &rest);)
		tries++;
	return 2 * tries + (str_find(report, S("\"state\": \"ended\"")) >= 0);
}

static struct uh_error *sync_runs(struct db *d, const char *state, struct index_counts *counts)
{
	enum { REPORT_MOST = 4 << 20, RUNS_MOST = 10000 };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text lines = { 0 };
	struct known known = { .arena = &a };
	struct door_names names = { 0 };
	const struct named runs = { .path = arena_printf(&a, "%s/runs", state).p };
	_cleanup_error_ struct uh_error *none = door_names(&runs, false, &a, &names); // there may have been no run
	struct uh_error *err = revisions(d, "SELECT id, revision FROM runs", &known);
	for (size_t n = 0; !err && n < names.n && n < RUNS_MOST; n++) {
		_cleanup_arena_ struct arena room = { 0 };
		struct str report = { 0 };
		const struct str id = str_z(names.list[n]);
		uh_error_free(named_read(
			&(struct named){ .path = arena_printf(&room, "%s/%s/report.json", runs.path, names.list[n]).p },
			REPORT_MOST, &room, &report, NULL));
		if (report.n && history_run_revision(report) > revision_known(&known, id))
			line_of_run(&lines, (struct str){ 0 }, id, history_run_revision(report), report);
	}
	vec_free(&known.list);
	return err ? err : take_made(d, text_str(&lines), counts);
}

struct uh_error *index_sync(struct db *d, const char *state, struct index_counts *counts)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = sync_incidents(d, state, counts);
	if (!err)
		err = sync_runs(d, state, counts);
	if (!err)
		err = index_collect(d, arena_printf(&a, "%s/" HISTORY_DIRECTORY, state).p, NULL, NULL, counts);
	return err;
}
