// What was explained goes into a store: a line for each incident, and one for each run that has ended.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "diagnose/told/told.h"
#include "session/history/history.h"
#include "session/run/run.h"
#include "session/session.h"
#include "store/history/index.h"
#include "store/history/line.h"
#include "store/store.h"

const char *history_lines_of(struct arena *a, const char *state) { return arena_printf(a, "%s/" HISTORY_DIRECTORY, state).p; }

static void keep_write_lines(const void *ctx, FILE *to) { incident_lines(ctx, to); }

/** The incident as a watch would have stored it. One that is explained again by a newer knowledge is a new revision of it. */
static struct stored stored_of(const struct uh_session *s, const struct incident *i, int64_t otherwise, struct arena *a)
{
	double when;
	struct stored r = { .id = i->id,
			    .state = STORED_CLOSED,
			    .fingerprint = i->fingerprint,
			    .host = i->host.n ? i->host : s->host,
			    .boot_id = i->boot_id,
			    .gpu = i->gpu.device,
			    .unique_id = i->gpu.unique_id,
			    .serial = i->gpu.serial,
			    .origin = S("explain"),
			    .closed_by = S("it was over when it was explained"),
			    .job = i->processes.len ? i->processes.data[0].name : (struct str){ 0 },
			    .events = (int64_t)i->events.len,
			    .revision = (int64_t)s->know->version };
	r.began = incident_when(i, s->evidence, time(NULL), &when) ? (int64_t)when : otherwise;
	r.changed = r.ended = r.began;
	stored_add(text_written(keep_write_lines, i, a), a, &r);
	return r;
}

void session_history_lines(struct uh_session *s, struct str place, int64_t otherwise, struct text *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str diagnosis = s->ledger.incidents.len ? session_report_text(s, true, 0, &a) : (struct str){ 0 };
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		const struct stored one = stored_of(s, s->ledger.incidents.data[n], otherwise, &a);
		line_of_incident(to, &one, place, diagnosis);
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
	struct uh_error *err = spool_append(history_lines_of(&a, store), text_str(&lines));
	// What is on the disk is stored. The index can wait for who asks it, and is spared that where it can.
	if (!err)
		uh_error_free(history_store_open(store, &db));
	return err;
}

void history_keep_run(const char *state, struct str id, struct str report)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text line = { 0 };
	line_of_run(&line, (struct str){ 0 }, id, history_run_revision(report), report);
	uh_error_free(spool_append(history_lines_of(&a, state), text_str(&line))); // the run's directory has it, too
}
