// Lines of the history into its tables. A line is hostile: it may come from any host of a cluster. What is not of the type that it should be is not
// known.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "evidence/documents/document.h"
#include "store/history/known.h"
#include "store/history/take.h"
#include "store/history/line.h"
#include "store/store.h"

// A server's index takes rows of up to 2,700 bytes: what stands in an index is no longer than KEY_MOST.
enum { TEXT_MOST = 4096, KEY_MOST = 256, EVENTS_MOST = 64, TRIES_MOST = 1000, ITEMS_MOST = 4096, SAMPLES_MOST = 4096 };

/** No more than @most bytes, and no half of a character: a server refuses that. */
static struct str cut_text(struct str s, size_t most)
{
	size_t n = s.n < most ? s.n : most;
	while (n && n < s.n && (s.p[n] & 0xc0) == 0x80)
		n--;
	return str_cut(s, n);
}

static struct str text_of(const json_t *object, const char *key) { return cut_text(document_text(object, key), TEXT_MOST); }
/** One that stands in an index. */
static struct str key_of(const json_t *object, const char *key) { return cut_text(document_text(object, key), KEY_MOST); }

static int64_t int_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return json_is_integer(v) ? json_integer_value(v) : 0;
}

static struct db_value value_of(const json_t *v)
{
	return json_is_integer(v) ? db_int(json_integer_value(v)) :
	       json_is_real(v)    ? db_real(json_real_value(v)) :
				    (struct db_value){ 0 };
}

static struct db_value text_value(const json_t *object, const char *key) { return db_text(text_of(object, key)); }
static struct db_value key_value(const json_t *object, const char *key) { return db_text(key_of(object, key)); }
static struct db_value number_value(const json_t *object, const char *key) { return value_of(json_object_get(object, key)); }

/** Whether it is a time that something can have happened at, in seconds since 1970. */
static bool is_time(int64_t when) { return when >= 0 && when < INT64_C(253402300800); } // the year 10000

/** A line while it is taken. */
struct line_taken {
	struct db *db;
	const json_t *line;
	struct str id, host;
	struct str told; // the id as the line has it
	struct str from; // whose directory it lies in, as that is called; empty: nobody's
	int64_t revision;
	enum history_kind kind;
	struct index_known *known; // what the tables have was asked for before; NULL: it was not
	enum index_taken *ret;
	bool *others; // set where another host told of this id first
};

/** What is there of it, asked for now. */
struct known_now {
	struct arena arena;
	struct known_row row;
};

static void take_known_row(void *ctx, const struct db_value *row, size_t n)
{
	struct known_now *now = ctx;
	if (n > 1)
		now->row =
			(struct known_row){ true, row[0].number,
					    row[1].type == DB_TEXT ? arena_str(&now->arena, row[1].text) : (struct str){ 0 } };
}

/** Whether a line of @host is about what @owner told of first. Lines that lie in no host's directory are the operator's own, and some of
 * them do not know a host. */
static bool is_others(const struct line_taken *t, struct str owner, struct str host)
{
	return !str_eq(owner, host) && (t->from.n || (owner.n && host.n));
}

static bool is_to_be_taken(const struct line_taken *t) { return *t->ret == TAKEN_NEW || *t->ret == TAKEN_CHANGED; }

/** What finds the thing that a line tells of. */
static struct known_key line_key(const struct line_taken *t)
{
	const bool by_id = t->kind == HISTORY_INCIDENT || t->kind == HISTORY_RUN || t->kind == HISTORY_SOURCE;
	const int64_t when = t->kind == HISTORY_EXPOSURE ? int_of(t->line, "from") : t->revision;
	return (struct known_key){ t->kind, by_id ? (struct str){ 0 } : t->host,
				   t->kind == HISTORY_CONFIGURATION ? (struct str){ 0 } : t->id, by_id ? 0 : when };
}

/** The row that is there, by a statement that has the parts of its key as values. */
static struct uh_error *ask_known(const struct line_taken *t, struct known_now *now)
{
	static const char *const by_id[] = { [HISTORY_INCIDENT] = "SELECT revision, host FROM incidents WHERE id = $1",
					     [HISTORY_RUN] = "SELECT revision, host FROM runs WHERE id = $1",
					     [HISTORY_SOURCE] = "SELECT revision, NULL FROM sources WHERE hash = $1" };
	const struct known_key key = line_key(t);
	if (t->kind == HISTORY_CONFIGURATION)
		return db_run(t->db, "SELECT time, host FROM snapshots WHERE host = $1 AND time = $2",
			      DB_VALUES(db_text(key.host), db_int(key.n)), take_known_row, now);
	if (t->kind == HISTORY_EXPOSURE)
		return db_run(t->db, "SELECT since, host FROM exposure WHERE host = $1 AND gpu = $2 AND since = $3",
			      DB_VALUES(db_text(key.host), db_text(key.id), db_int(key.n)), take_known_row, now);
	return db_run(t->db, by_id[t->kind], DB_VALUES(db_text(key.id)), take_known_row, now);
}

/** What came of it by its revision and the one that is there. What a host told of stays its own: another one cannot replace it. @host: whose it
 * is now. */
static struct uh_error *known_revision(const struct line_taken *t, struct str host)
{
	struct known_now now = { 0 };
	const struct known_key key = line_key(t);
	struct known_row *row = t->known ? index_known_row(t->known, &key) : NULL;
	struct uh_error *err = row ? NULL : ask_known(t, &now);
	const struct known_row known = row ? *row : now.row;
	*t->others = known.there && is_others(t, known.host, host);
	*t->ret = !known.there                 ? TAKEN_NEW :
		  *t->others                   ? TAKEN_REFUSED :
		  t->revision > known.revision ? TAKEN_CHANGED :
						 TAKEN_KNOWN;
	if (row && is_to_be_taken(t))
		*row = (struct known_row){ true, t->revision, known.there ? known.host : arena_str(&t->known->arena, host) };
	arena_free(&now.arena);
	return err;
}

// --- incidents ---

/** What a diagnosis says of the incident. */
static const json_t *incident_in(const json_t *diagnosis, struct str id)
{
	const json_t *all = json_object_get(diagnosis, "incidents"), *one;
	size_t n;
	json_array_foreach(all, n, one) if (str_eq(text_of(one, "id"), id)) return one;
	return json_array_get(all, 0);
}

static struct uh_error *index_put_events(struct db *d, struct str id, const json_t *incident)
{
	const json_t *e;
	size_t n;
	struct uh_error *err = db_do(d, "DELETE FROM events WHERE incident = $1", db_text(id));
	json_array_foreach(json_object_get(incident, "timeline"), n, e)
	{
		if (err || n == EVENTS_MOST)
			break;
		err = db_do(d, "INSERT INTO events (incident, n, time, event, role, text) VALUES ($1, $2, $3, $4, $5, $6)",
			    db_text(id), db_int((int64_t)n + 1), number_value(e, "time"), text_value(e, "event"),
			    text_value(e, "role"), text_value(e, "text"));
	}
	return err;
}

static struct uh_error *put_diagnosis(struct db *d, struct str id, const json_t *diagnosis)
{
	_cleanup_free_ char *text = json_is_object(diagnosis) ? json_dumps(diagnosis, JSON_COMPACT) : NULL;
	if (!text)
		return NULL;
	return db_do(d,
		     "INSERT INTO diagnoses (incident, json) VALUES ($1, $2) ON CONFLICT (incident) DO UPDATE SET json = "
		     "excluded.json",
		     db_text(id), db_text(str_z(text)));
}

/** The first program that is not only named beside others. */
static struct str line_program(const json_t *incident, struct str job)
{
	const json_t *p;
	size_t n;
	json_array_foreach(json_object_get(incident, "processes"), n,
			   p) if (!str_is(text_of(p, "role"), "bystander")) return text_of(p, "name");
	return str_split(&job, ',');
}

static struct uh_error *take_incident(const struct line_taken *t)
{
	static const char sql[] = "INSERT INTO incidents (id, revision, host, boot_id, gpu, unique_id, serial, part, gpu_name, "
				  "class, title, fault, action, fit, "
				  "state, fingerprint, origin, program, job, pid, began, changed, ended, closed_by, bundle, "
				  "place, confidence, events) VALUES "
				  "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, "
				  "$21, $22, $23, $24, $25, $26, $27, "
				  "$28) ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, host = excluded.host, "
				  "boot_id = excluded.boot_id, gpu = "
				  "excluded.gpu, unique_id = excluded.unique_id, serial = excluded.serial, part = "
				  "coalesce(excluded.part, incidents.part), gpu_name "
				  "= coalesce(excluded.gpu_name, incidents.gpu_name), class = excluded.class, title = "
				  "excluded.title, fault = excluded.fault, action "
				  "= excluded.action, fit = excluded.fit, state = excluded.state, fingerprint = "
				  "excluded.fingerprint, origin = excluded.origin, "
				  "program = excluded.program, job = excluded.job, pid = excluded.pid, began = excluded.began, "
				  "changed = excluded.changed, ended = "
				  "excluded.ended, closed_by = excluded.closed_by, bundle = excluded.bundle, place = "
				  "excluded.place, confidence = "
				  "coalesce(excluded.confidence, incidents.confidence), events = excluded.events "
				  "WHERE excluded.revision > incidents.revision";
	const json_t *r = json_object_get(t->line, "record"), *diagnosis = json_object_get(t->line, "diagnosis");
	const json_t *of = incident_in(diagnosis, t->told), *gpu = json_array_get(json_object_get(of, "gpus"), 0);
	if (!store_is_id(t->id) || !json_is_object(r) || !is_time(int_of(r, "began")) || !is_time(int_of(r, "ended"))) {
		*t->ret = TAKEN_REFUSED;
		return NULL;
	}
	struct uh_error *err = known_revision(t, t->host);
	if (err || !is_to_be_taken(t))
		return err;
	// What the record does not know yet, the diagnosis may.
	const struct str print = key_of(r, "fingerprint").n ? key_of(r, "fingerprint") : key_of(of, "fingerprint");
	const struct str serial = key_of(r, "serial").n ? key_of(r, "serial") : key_of(gpu, "serial");
	const struct str program = cut_text(line_program(of, text_of(r, "job")), KEY_MOST);
	err = db_do(t->db, sql, db_text(t->id), db_int(t->revision), db_text(t->host), key_value(r, "boot_id"),
		    key_value(r, "gpu"), key_value(r, "unique_id"), db_text(serial), key_value(gpu, "gfx"),
		    key_value(gpu, "name"), key_value(r, "class"), text_value(r, "title"), key_value(r, "fault"),
		    key_value(r, "action"), key_value(r, "fit"), key_value(r, "state"), db_text(print), key_value(r, "origin"),
		    db_text(program), key_value(r, "job"), db_known(int_of(r, "pid")), db_int(int_of(r, "began")),
		    db_known(int_of(r, "changed")), db_known(int_of(r, "ended")), text_value(r, "closed_by"),
		    key_value(r, "bundle"), text_value(t->line, "place"),
		    number_value(json_object_get(of, "cause"), "confidence"), db_known(int_of(r, "events")));
	if (!err && of)
		err = index_put_events(t->db, t->id, of);
	return err ? err : put_diagnosis(t->db, t->id, diagnosis);
}

// --- runs ---

static struct uh_error *index_put_try(const struct line_taken *t, const json_t *y)
{
	static const char sql[] = "INSERT INTO tries (run, number, level, began, ran_ms, ended, class, title, fault, action, "
				  "gpu, kernel, failure_reason, detail_json) "
				  "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (run, "
				  "number) DO UPDATE SET level = "
				  "excluded.level, began = excluded.began, ran_ms = excluded.ran_ms, ended = excluded.ended, "
				  "class = excluded.class, title = "
				  "excluded.title, fault = excluded.fault, action = excluded.action, gpu = excluded.gpu, "
				  "kernel = excluded.kernel, failure_reason = "
				  "excluded.failure_reason, detail_json = excluded.detail_json";
	_cleanup_free_ char *detail = json_dumps(y, JSON_COMPACT);
	return db_do(t->db, sql, db_text(t->id), db_int(int_of(y, "number")), number_value(y, "level"),
		     db_known(document_time(y, "began")), number_value(y, "ran_ms"), key_value(y, "ended"),
		     key_value(y, "class"), text_value(y, "title"), key_value(y, "fault"), key_value(y, "action"),
		     key_value(y, "gpu"), text_value(y, "kernel"), text_value(y, "failure_reason"), db_text(str_z(detail)));
}

static struct uh_error *take_run(const struct line_taken *t)
{
	static const char sql[] = "INSERT INTO runs (id, revision, host, boot_id, command, launcher, job, rank, world, began, "
				  "status, state, tries, place) VALUES ($1, "
				  "$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (id) DO UPDATE SET "
				  "revision = excluded.revision, status = "
				  "excluded.status, state = excluded.state, tries = excluded.tries, place = excluded.place "
				  "WHERE excluded.revision > runs.revision";
	const json_t *run = json_object_get(t->line, "run"), *tries = json_object_get(run, "tries"), *y;
	size_t n;
	if (!json_is_object(run) || !t->id.n) {
		*t->ret = TAKEN_REFUSED;
		return NULL;
	}
	struct uh_error *err = known_revision(t, t->host);
	if (err || !is_to_be_taken(t))
		return err;
	err = db_do(t->db, sql, db_text(t->id), db_int(t->revision), db_text(t->host), key_value(run, "boot_id"),
		    text_value(run, "command"), key_value(run, "launcher"), key_value(run, "job"), number_value(run, "rank"),
		    number_value(run, "world"), db_int(document_time(run, "began")), number_value(run, "status"),
		    text_value(run, "state"), db_int((int64_t)json_array_size(tries)), text_value(run, "directory"));
	json_array_foreach(tries, n, y) if (!err && n < TRIES_MOST) err = index_put_try(t, y);
	return err;
}

// --- the machine ---

/** A row for each value that is another than the newest one before it. One that comes late may make the next one needless: that stays, and says the
 * same. */
static struct uh_error *put_item(const struct line_taken *t, struct str gpu, struct str name, struct str value)
{
	const struct db_value of = { .type = DB_TEXT, .text = gpu.n ? gpu : S("") };
	return db_do(t->db,
		     "INSERT INTO configurations (host, gpu, name, since, value) SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
		     "CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT) WHERE coalesce(CAST($5 AS TEXT), '') <> "
		     "coalesce((SELECT value FROM configurations WHERE host = $1 AND gpu = $2 AND name = $3 AND since <= $4 "
		     "ORDER BY since DESC LIMIT 1), '') ON CONFLICT (host, gpu, name, since) DO NOTHING",
		     db_text(t->host), of, db_text(name), db_int(t->revision), db_text(value));
}

static struct uh_error *take_configuration(const struct line_taken *t)
{
	const json_t *items = json_object_get(t->line, "items"), *i;
	size_t n;
	if (!json_is_array(items) || !t->host.n || t->revision <= 0 || !is_time(t->revision)) {
		*t->ret = TAKEN_REFUSED;
		return NULL;
	}
	struct uh_error *err = known_revision(t, t->host);
	if (err || *t->ret != TAKEN_NEW)
		return err;
	err = db_do(t->db, "INSERT INTO snapshots (host, time) VALUES ($1, $2) ON CONFLICT (host, time) DO NOTHING",
		    db_text(t->host), db_int(t->revision));
	json_array_foreach(items, n, i) if (!err && n < ITEMS_MOST && text_of(i, "name").n) err =
		put_item(t, key_of(i, "gpu"), key_of(i, "name"), text_of(i, "value"));
	return err;
}

static struct uh_error *take_exposure(const struct line_taken *t)
{
	const int64_t from = int_of(t->line, "from"), until = int_of(t->line, "until");
	const struct db_value busy = number_value(t->line, "busy");
	const double seconds = busy.type == DB_INT ? (double)busy.number : busy.real;
	if (!t->host.n || !t->id.n || from <= 0 || until <= from || !is_time(until) || !(seconds >= 0) ||
	    seconds > (double)(until - from) + 1) {
		*t->ret = TAKEN_REFUSED;
		return NULL;
	}
	struct uh_error *err = known_revision(t, t->host);
	if (err || *t->ret != TAKEN_NEW) // of one time, the first line counts
		return err;
	return db_do(
		t->db,
		"INSERT INTO exposure (host, gpu, since, until, serial, part, busy) VALUES ($1, $2, $3, $4, $5, $6, $7) ON "
		"CONFLICT (host, gpu, since) DO NOTHING",
		db_text(t->host), db_text(t->id), db_int(from), db_int(until), key_value(t->line, "serial"),
		key_value(t->line, "part"), db_real(seconds));
}

/** What is not known is null. Only the last one, of memory, counts bytes. */
static bool is_sample(const json_t *row)
{
	static const double most[] = { 1e9, 1e9, 1e9, 9.2e18 };
	if (!is_time(json_integer_value(json_array_get(row, 0))))
		return false;
	for (size_t n = 0; n < ARRAY_SIZE(most); n++)
		if (!(fabs(json_number_value(json_array_get(row, n + 1))) < most[n]))
			return false;
	return true;
}

static struct uh_error *take_samples(const struct line_taken *t)
{
	const json_t *row;
	size_t n;
	struct uh_error *err = NULL;
	*t->ret = t->host.n && t->id.n ? TAKEN_NEW : TAKEN_REFUSED;
	json_array_foreach(json_object_get(t->line, "rows"), n, row) if (!is_sample(row)) *t->ret = TAKEN_REFUSED;
	json_array_foreach(json_object_get(t->line, "rows"), n, row)
	{
		if (err || *t->ret == TAKEN_REFUSED || n == SAMPLES_MOST)
			break;
		err = db_do(t->db,
			    "INSERT INTO samples (host, gpu, time, busy, power, temperature, memory) VALUES ($1, $2, $3, $4, "
			    "$5, $6, $7) ON "
			    "CONFLICT (host, gpu, time) DO NOTHING",
			    db_text(t->host), db_text(t->id), db_int(json_integer_value(json_array_get(row, 0))),
			    value_of(json_array_get(row, 1)), value_of(json_array_get(row, 2)),
			    value_of(json_array_get(row, 3)), value_of(json_array_get(row, 4)));
	}
	return err;
}

static struct uh_error *index_take_source(const struct line_taken *t)
{
	if (!t->id.n) {
		*t->ret = TAKEN_REFUSED;
		return NULL;
	}
	struct uh_error *err = known_revision(t, (struct str){ 0 });
	if (err || *t->ret != TAKEN_NEW) // the first who explained it has
		return err;
	return db_do(t->db,
		     "INSERT INTO sources (hash, revision, path, bytes, incidents, verdict) VALUES ($1, $2, $3, $4, $5, $6) "
		     "ON CONFLICT (hash) DO NOTHING",
		     db_text(t->id), db_int(t->revision), text_value(t->line, "path"), number_value(t->line, "bytes"),
		     number_value(t->line, "incidents"), text_value(t->line, "verdict"));
}

/** A run's line may leave its host to the report. */
static struct str line_host(const json_t *root, unsigned kind)
{
	const struct str host = key_of(root, "host");
	return host.n || kind != HISTORY_RUN ? host : key_of(json_object_get(root, "run"), "host");
}

/** Whether a line is of the host in whose directory it lies. */
static bool is_hosts_own(const struct line_taken *t)
{
	_cleanup_text_ struct text name = { 0 };
	if (!t->from.n)
		return true;
	spool_host_name(&name, t->host);
	return str_eq(text_str(&name), t->from);
}

json_t *index_line(struct str line) { return line.n <= HISTORY_LINE_MOST ? json_loadb(line.p, line.n, 0, NULL) : NULL; }

/** Whether it is one of ours. */
static bool line_read(const json_t *root, struct str from, struct line_taken *ret)
{
	const unsigned kind = str_in_list(history_kinds, text_of(root, "kind"));
	*ret = (struct line_taken){
		.line = root,
		.id = key_of(root, "id"),
		.told = key_of(root, "id"),
		.host = line_host(root, kind),
		.from = from,
		.revision = int_of(root, "revision"),
		.kind = (enum history_kind)kind,
	};
	return str_is(text_of(root, "schema"), HISTORY_SCHEMA) && kind < HISTORY_KINDS && is_hosts_own(ret);
}

void index_line_want(const json_t *root, struct str from, struct index_known *k)
{
	struct line_taken t;
	if (!line_read(root, from, &t) || t.kind == HISTORY_SAMPLES) // of which each row stands for itself
		return;
	const struct known_key key = line_key(&t);
	index_known_want(k, &key);
}

struct uh_error *index_line_take(struct db *d, const json_t *root, struct str from, struct index_known *k,
				 enum index_taken *ret)
{
	static struct uh_error *(*const kinds[])(const struct line_taken *t) = {
		[HISTORY_INCIDENT] = take_incident,
		[HISTORY_RUN] = take_run,
		[HISTORY_CONFIGURATION] = take_configuration,
		[HISTORY_EXPOSURE] = take_exposure,
		[HISTORY_SAMPLES] = take_samples,
		[HISTORY_SOURCE] = index_take_source,
	};
	bool others = false;
	char another[STORE_ID + 1];
	struct line_taken t;
	*ret = TAKEN_REFUSED;
	if (!line_read(root, from, &t))
		return NULL;
	t.db = d;
	t.known = k;
	t.ret = ret;
	t.others = &others;
	struct uh_error *err = kinds[t.kind](&t);
	if (err || !others || !from.n)
		return err;
	// Who tells of an id first must not hide what another host tells of the same: that is kept by another id.
	snprintf(another, sizeof(another), "%016llx", (unsigned long long)str_hash(str_hash(STR_HASH_BEGIN, t.host), t.told));
	t.id = str_z(another);
	return kinds[t.kind](&t);
}

struct uh_error *index_take_from(struct db *d, struct str line, struct str from, enum index_taken *ret)
{
	_cleanup_json_ json_t *root = index_line(line);
	return index_line_take(d, root, from, NULL, ret);
}

struct uh_error *index_take(struct db *d, struct str line, enum index_taken *ret)
{
	return index_take_from(d, line, (struct str){ 0 }, ret);
}
