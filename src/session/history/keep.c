// What was explained goes into a store: a line for each incident, and one for each run that has ended.
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "diagnose/told/told.h"
#include "session/history/history.h"
#include "session/run/run.h"
#include "session/session.h"
#include "store/history/index.h"
#include "store/history/line.h"
#include "store/store.h"

const char *history_lines_of(struct arena *a, const char *state) { return arena_printf(a, "%s/" HISTORY_DIRECTORY, state).p; }

static void keep_write_lines(const void *ctx, FILE *to) { incident_lines(ctx, to); }

/** The file that an incident begins in; empty: it is none of this machine's files. */
static struct str keep_file_of(const struct uh_session *s, const struct incident *i, struct stat *ret, struct arena *a)
{
	const size_t source = i->events.len ? i->events.data[0]->at.source : SIZE_MAX;
	if (source >= evidence_count(s->evidence))
		return (struct str){ 0 };
	const char *path = arena_z(a, evidence_at(s->evidence, source)->path);
	if (stat(path, ret) || !S_ISREG(ret->st_mode))
		return (struct str){ 0 };
	_cleanup_free_ char *whole = realpath(path, NULL);
	return arena_str(a, str_z(whole ? whole : path));
}

/** When it was. A log without a date is as old as its file: @otherwise, where that is none. */
static int64_t keep_date_of(const struct uh_session *s, const struct incident *i, int64_t otherwise, struct arena *a,
			    bool *ret_told)
{
	double when;
	struct stat st;
	*ret_told = incident_when(i, s->evidence, time(NULL), &when);
	if (*ret_told)
		return (int64_t)when;
	return keep_file_of(s, i, &st, a).n ? (int64_t)st.st_mtime : otherwise;
}

struct stored session_stored(const struct uh_session *s, const struct incident *i, int64_t otherwise, struct arena *a)
{
	bool dated;
	const int64_t when = keep_date_of(s, i, otherwise, a, &dated);
	struct stored r = { .id = i->id,
			    .state = STORED_CLOSED,
			    .fingerprint = i->fingerprint,
			    .host = i->host.n ? i->host : s->host,
			    .boot_id = i->boot_id,
			    .gpu = i->gpu.device,
			    .unique_id = i->gpu.unique_id,
			    .serial = i->gpu.serial,
			    .origin = S("explain"),
			    .closed_by = dated ? S("it was over when it was explained") :
						 S("it was over when it was explained; it is of a log without a date: its "
						   "time is that of the file"),
			    .job = i->processes.len ? i->processes.data[0].name : (struct str){ 0 },
			    .events = (int64_t)i->events.len,
			    .revision = (int64_t)s->know->version };
	r.began = r.changed = r.ended = when;
	stored_add(text_written(keep_write_lines, i, a), a, &r);
	return r;
}

void session_history_lines(struct uh_session *s, struct str place, int64_t otherwise, struct text *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str diagnosis = s->ledger.incidents.len ? session_report_text(s, true, 0, &a) : (struct str){ 0 };
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		const struct stored one = session_stored(s, s->ledger.incidents.data[n], otherwise, &a);
		struct stat st;
		line_of_incident(to, &one, place.n ? place : keep_file_of(s, s->ledger.incidents.data[n], &st, &a), diagnosis);
	}
}

struct uh_error *uh_session_store(struct uh_session *s, const char *store)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text lines = { 0 };
	_cleanup_db_ struct db *db = NULL;
	session_history_lines(s, (struct str){ 0 }, (int64_t)time(NULL), &lines);
	if (!lines.n)
		return NULL;
	struct uh_error *err = history_place_answers(store);
	if (!err)
		err = spool_append(history_lines_of(&a, store), text_str(&lines));
	// What is on the disk is stored. The index can wait for who asks it, and is spared that where it can.
	if (!err)
		uh_error_free(history_store_open(store, (struct teller){ tell_nobody, NULL }, &db));
	return err;
}
