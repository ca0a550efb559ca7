// Files of lines, and directories of incidents and runs, into the index.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/root.h"
#include "base/door/trust.h"
#include "store/history/line.h"
#include "store/history/take.h"
#include "store/store.h"

enum { PIECE_LINES = 500, PIECE_BYTES = 4 << 20 }; // of a transaction

/** Who may say that it is enough for now. */
struct spool_goes_on {
	bool (*go_on)(void *ctx);
	void *ctx;
};

/** A file while it is taken. */
struct spool_collecting {
	struct db *db;
	struct index_counts *counts;
	int spool; // the directory
	const char *path, *name;
	const struct spool_places *places;
	struct str from;       // the host in whose directory it lies
	bool one_by_one;       // a line that the database refuses takes no other with it
	VEC(struct str) piece; // the lines of this transaction
	struct arena room;     // where they are
	size_t bytes;          // of them
	unsigned first;        // of them that was not understood, from 1 on; 0: all were
	uint64_t began;        // where in the file
	int64_t refused;
	uint64_t read, passed; // bytes in this round; in all: of what is no line
};

/** What the database does not take for its content is refused like any other line that is odd. */
static struct uh_error *take_apart(const struct spool_collecting *c, const json_t *root, enum index_taken *ret)
{
	struct uh_error *err = db_script(c->db, "SAVEPOINT line");
	if (err)
		return err;
	err = index_line_take(c->db, root, c->from, NULL, ret);
	if (!err)
		err = db_settle(c->db);
	if (err && err->errnum == EILSEQ) {
		uh_error_free(err);
		*ret = TAKEN_REFUSED;
		err = db_script(c->db, "ROLLBACK TO SAVEPOINT line");
	}
	return err ? err : db_script(c->db, "RELEASE SAVEPOINT line");
}

static bool piece_full(const struct spool_collecting *c) { return c->piece.len == PIECE_LINES || c->bytes >= PIECE_BYTES; }

static bool piece_line(void *ctx, struct str line)
{
	struct spool_collecting *c = ctx;
	if (piece_full(c))
		return false;
	vec_push(&c->piece, arena_str(&c->room, line));
	c->bytes += line.n;
	return true;
}

static void piece_clear(struct spool_collecting *c)
{
	vec_free(&c->piece);
	arena_free(&c->room);
	c->bytes = 0;
	c->first = 0;
	c->refused = 0;
}

/** What the tables have of all lines is asked for first, so that no line waits for a server. One line at a time is taken apart: as values, a
 * hostile one is a hundred times as large. */
static struct uh_error *piece_take(struct spool_collecting *c)
{
	_cleanup_known_ struct index_known known = { 0 };
	const bool ahead = !c->one_by_one && db_on_server(c->db);
	for (size_t n = 0; ahead && n < c->piece.len; n++) {
		_cleanup_json_ json_t *root = index_line(c->piece.data[n]);
		index_line_want(root, c->from, &known);
	}
	struct uh_error *err = index_known_ask(&known, c->db);
	for (size_t n = 0; !err && n < c->piece.len; n++) {
		enum index_taken taken = TAKEN_REFUSED;
		if (!c->piece.data[n].n)
			continue;
		_cleanup_json_ json_t *root = index_line(c->piece.data[n]);
		err = c->one_by_one ? take_apart(c, root, &taken) :
				      index_line_take(c->db, root, c->from, ahead ? &known : NULL, &taken);
		c->counts->lines[taken] += !err;
		if (!err && taken == TAKEN_REFUSED && !c->refused++)
			c->first = (unsigned)n + 1;
	}
	return err;
}

/** What is known of a file. */
struct spool_known {
	int64_t place, refused, mark;
};

static void take_place(void *ctx, const struct db_value *row, size_t n)
{
	if (n > 2)
		*(struct spool_known *)ctx = (struct spool_known){ row[0].number, row[1].number, row[2].number };
}

/** The path as the database has it: any server takes it, whatever bytes somebody gave it. */
static struct str spool_key(struct arena *a, const char *path)
{
	enum { PATH_KEPT = 900 };
	_cleanup_text_ struct text t = { 0 };
	for (const char *c = path; *c; c++)
		if (*c > ' ' && *c < 127 && *c != '%')
			text_add(&t, (struct str){ c, 1 });
		else
			text_printf(&t, "%%%02X", (unsigned char)*c);
	if (t.n > PATH_KEPT) {
		t.n = PATH_KEPT;
		text_printf(&t, "%%%016llx", (unsigned long long)str_hash(STR_HASH_BEGIN, str_z(path)));
	}
	return arena_str(a, text_str(&t));
}

/** How far all files were read, when a round began. */
struct spool_places {
	struct arena arena;
	struct name_table paths;
	VEC(struct spool_known) list;
};

static void spool_places_free(struct spool_places *p)
{
	name_table_free(&p->paths);
	vec_free(&p->list);
	arena_free(&p->arena);
}

static void take_places(void *ctx, const struct db_value *row, size_t n)
{
	struct spool_places *p = ctx;
	struct spool_known one = { 0 };
	if (n < 4 || name_number(&p->paths, row[3].text) != p->list.len)
		return;
	take_place(&one, row, n);
	vec_push(&p->list, one);
}

/** Tells one file from another that took its place: how it begins, as far as it was read. */
static int64_t spool_mark(int fd, uint64_t place)
{
	enum { MARKED = 512 };
	char room[MARKED];
	const ssize_t n = pread(fd, room, place < MARKED ? (size_t)place : MARKED, 0);
	return n > 0 ? (int64_t)(str_hash(STR_HASH_BEGIN, (struct str){ room, (size_t)n }) >> 1) : 0;
}

static void collect_note_unread(struct index_counts *counts, struct uh_error *why)
{
	if (!counts->unread++)
		str_copy(counts->why, sizeof(counts->why), str_z(uh_error_message(why)));
	uh_error_free(why);
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

/** Where the first line is that was not understood. Lines are counted only now: mostly there is none such. In a long file that would take too
 * long. */
static void collect_note_refused(const struct spool_collecting *c, int fd)
{
	struct lines_before before = { .until = c->began };
	struct spool_place place = { 0 };
	if (!c->first || c->counts->refused.n)
		return;
	if (c->began > SPOOL_AT_ONCE) {
		text_printf(&c->counts->refused, "%s, behind byte %llu", c->path, (unsigned long long)c->began);
		return;
	}
	uh_error_free(spool_read_some(fd, c->path, &place, count_line, &before));
	text_printf(&c->counts->refused, "%s:%llu", c->path, (unsigned long long)(before.lines + c->first));
}

/** Where to go on in a file. One that is shorter than what was read of it, or begins otherwise, is another. */
static struct uh_error *find_place(struct spool_collecting *c, int fd, struct str key, struct spool_place *ret,
				   struct spool_known *known)
{
	struct stat st;
	// Another collector, or one whose connection was lost and whom the server did not miss yet, reads it to its end first.
	struct uh_error *err = !db_on_server(c->db) ? NULL :
						      db_do(c->db, "SELECT pg_advisory_xact_lock($1)",
							    db_int((int64_t)str_hash(STR_HASH_BEGIN, key)));
	if (!err)
		err = db_run(c->db, "SELECT place, refused, coalesce(mark, 0) FROM spools WHERE path = $1",
			     DB_VALUES(db_text(key)), take_place, known);
	const bool same = known->place > 0 && !fstat(fd, &st) && known->place <= st.st_size &&
			  (!known->mark || known->mark == spool_mark(fd, (uint64_t)known->place));
	*ret = (struct spool_place){ .offset = same ? (uint64_t)known->place : 0 };
	return err;
}

/** Whether nothing came to a file since the round before. The database need not be asked for each one: there are many. */
static bool was_read(const struct spool_collecting *c, int fd)
{
	_cleanup_arena_ struct arena a = { 0 };
	uint32_t at;
	struct stat st;
	if (!name_known(&c->places->paths, spool_key(&a, c->path), &at) || fstat(fd, &st))
		return false;
	const struct spool_known *known = &c->places->list.data[at];
	return known->mark && known->place == st.st_size && known->mark == spool_mark(fd, (uint64_t)known->place);
}

/** One piece of a file, within a transaction. */
static struct uh_error *read_piece(struct spool_collecting *c, int fd, struct spool_place *place)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct spool_known known = { 0 };
	const struct str key = spool_key(&a, c->path);
	struct uh_error *err = find_place(c, fd, key, place, &known);
	const uint64_t began = place->offset;
	c->began = began;
	piece_clear(c);
	struct uh_error *unread = err ? NULL : spool_read_some(fd, c->path, place, piece_line, c);
	if (unread)
		collect_note_unread(c->counts, unread);
	if (!err)
		err = piece_take(c);
	if (!err && place->offset != began)
		err = db_do(c->db,
			    "INSERT INTO spools (path, place, refused, mark) VALUES ($1, $2, $3, $4) ON CONFLICT (path) DO "
			    "UPDATE SET place = excluded.place, refused = excluded.refused, mark = excluded.mark",
			    db_text(key), db_int((int64_t)place->offset), db_int(known.refused + c->refused),
			    db_int(spool_mark(fd, place->offset)));
	if (!err && c->piece.len)
		err = db_run(c->db, "UPDATE stamp SET n = n + 1", NULL, 0, NULL, NULL);
	c->read += place->offset - began;
	return err;
}

static struct uh_error *piece_in_transaction(struct spool_collecting *c, int fd, struct spool_place *place)
{
	const struct index_counts before = *c->counts;
	struct uh_error *err = db_begin(c->db, true);
	if (!err)
		err = read_piece(c, fd, place);
	if (!err)
		err = db_end(c->db);
	if (!err)
		return NULL;
	db_undo(c->db);
	*c->counts = before;
	return err;
}

/** *@ret_more: there may be more in the file. */
static struct uh_error *collect_piece(struct spool_collecting *c, bool *ret_more)
{
	struct spool_place place = { 0 };
	_cleanup_close_ int fd = root_open_beneath(c->spool, c->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	*ret_more = false;
	if (fd < 0) {
		collect_note_unread(c->counts, uh_error_os(errno, "%s", c->path));
		return NULL;
	}
	if (was_read(c, fd))
		return NULL;
	c->one_by_one = false;
	struct uh_error *err = piece_in_transaction(c, fd, &place);
	if (err && err->errnum == EILSEQ) {
		uh_error_free(err);
		c->one_by_one = true;
		err = piece_in_transaction(c, fd, &place);
	}
	if (!err)
		collect_note_refused(c, fd);
	c->passed += place.passed;
	*ret_more = !err && (piece_full(c) || place.more) && c->passed < SPOOL_AT_ONCE;
	piece_clear(c);
	return err;
}

/** SPOOL/HOST/FILE lies in the directory of a host; SPOOL/FILE in nobody's. */
static struct str host_of_file(const char *name)
{
	struct str rest = str_z(name);
	const struct str first = str_split(&rest, '/');
	return rest.n ? first : (struct str){ 0 };
}

/** A turn of each file: none has to wait until another was read to its end. */
static struct uh_error *collect_files(struct spool_collecting *files, size_t n, struct spool_goes_on *g)
{
	struct uh_error *err = NULL;
	for (bool any = true; any && !err;) {
		any = false;
		for (size_t i = 0; i < n && !err; i++) {
			struct spool_collecting *c = &files[i];
			bool more = c->path != NULL;
			c->read = 0;
			while (!err && more && c->read < SPOOL_AT_ONCE) {
				if (g->go_on && !g->go_on(g->ctx))
					return NULL;
				err = collect_piece(c, &more);
			}
			c->path = more ? c->path : NULL;
			any |= more;
		}
	}
	return err;
}

struct uh_error *index_collect(struct db *d, const char *directory, bool (*go_on)(void *ctx), void *ctx,
			       struct index_counts *counts)
{
	_cleanup_(spool_files_free) struct spool_files files = { 0 };
	_cleanup_close_ int spool = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct uh_error *err =
		spool < 0 ? (errno == ENOENT ? NULL : uh_error_os(errno, "%s", directory)) : spool_list(directory, &files);
	_cleanup_free_ struct spool_collecting *all = mem_alloc((files.list.len + 1) * sizeof(*all));
	_cleanup_(spool_places_free) struct spool_places places = { 0 };
	places.paths.arena = &places.arena;
	if (!err && files.list.len)
		err = db_run(d, "SELECT place, refused, coalesce(mark, 0), path FROM spools", NULL, 0, take_places, &places);
	for (size_t n = 0; n < files.list.len; n++) {
		const char *name = files.list.data[n] + strlen(directory) + 1;
		all[n] = (struct spool_collecting){ .db = d,
						    .counts = counts,
						    .spool = spool,
						    .path = files.list.data[n],
						    .name = name,
						    .places = &places,
						    .from = host_of_file(name) };
	}
	counts->files += files.list.len;
	return err ? err : collect_files(all, files.list.len, &(struct spool_goes_on){ go_on, ctx });
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
			err = db_run(d, "UPDATE stamp SET n = n + 1", NULL, 0, NULL, NULL);
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
		if (i->revision <= revision_known(&known, i->id))
			continue;
		line_of_incident(&lines, i, str_z(place), store_diagnosis(state, i->id, HISTORY_DIAGNOSIS_MOST, &room));
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
			&(struct named){ .path = runs.path, .below = arena_printf(&room, "%s/report.json", names.list[n]).p },
			REPORT_MOST, &room, &report, NULL));
		if (report.n && history_run_revision(report) > revision_known(&known, id))
			line_of_run(&lines, (struct str){ 0 }, id, history_run_revision(report), report);
	}
	vec_free(&known.list);
	return err ? err : take_made(d, text_str(&lines), counts);
}

/** Whether a directory of the store leads elsewhere, and neither root nor the user who called made it so. */
static bool leads_away(const char *state, const char *name)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stat st;
	return !lstat(arena_printf(&a, "%s/%s", state, name).p, &st) && S_ISLNK(st.st_mode) && !trust_owner(st.st_uid);
}

struct uh_error *index_sync(struct db *d, const char *state, struct index_counts *counts)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = leads_away(state, "incidents") ? NULL : sync_incidents(d, state, counts);
	if (!err && !leads_away(state, "runs"))
		err = sync_runs(d, state, counts);
	if (!err && !leads_away(state, HISTORY_DIRECTORY))
		err = index_collect(d, arena_printf(&a, "%s/" HISTORY_DIRECTORY, state).p, NULL, NULL, counts);
	return err;
}
