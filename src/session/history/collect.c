// unhang collect: spools of many machines into one store. unhang store: looks after it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "session/history/history.h"
#include "store/db/place.h"
#include "store/history/index.h"

enum { AGAIN_FIRST_S = 1, AGAIN_MOST_S = 60, FOLLOW_S = 5, LOST_MOST = 5 };

/** Both end it; they are blocked, and asked for. */
static sigset_t collect_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

/** Whether it is to go on, after so many seconds. @ctx: a bool that says so. */
static bool collect_pause(bool *goes_on, unsigned seconds)
{
	const sigset_t set = collect_signals();
	if (*goes_on && sigtimedwait(&set, NULL, &(struct timespec){ .tv_sec = seconds }) > 0)
		*goes_on = false;
	return *goes_on;
}

static bool collect_goes_on(void *ctx) { return collect_pause(ctx, 0); }

/** The index of a directory, or the file or server that was named. */
static const char *store_index_of(const char *store, struct arena *a)
{
	struct stat st;
	return !db_is_server(store) && !stat(store, &st) && S_ISDIR(st.st_mode) ? arena_printf(a, "%s/" INDEX_FILE, store).p :
										  store;
}

/** Once through all spools. The store is opened for it, so that one that was lost is found again. */
static struct uh_error *collect_once(const struct uh_collect_options *o, bool *goes_on, struct index_counts *counts)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_db_ struct db *db = NULL;
	struct stat st;
	struct uh_error *err = history_place_answers(o->store);
	for (size_t n = 0; !err && n < o->nspools; n++)
		err = history_place_answers(o->spools[n]);
	if (!err)
		err = index_open(store_index_of(o->store, &a), DB_MAKE, &db);
	for (size_t n = 0; !err && n < o->nspools && *goes_on; n++) {
		if (stat(o->spools[n], &st))
			err = uh_error_os(errno, "%s", o->spools[n]);
		else
			err = index_collect(db, o->spools[n], collect_goes_on, goes_on, counts);
	}
	return err;
}

static void collect_report(const struct index_counts *c, FILE *out)
{
	fprintf(out, "%llu %s: %llu new, %llu changed, %llu known, %llu not understood\n", (unsigned long long)c->files,
		c->files == 1 ? "file" : "files", (unsigned long long)c->lines[TAKEN_NEW],
		(unsigned long long)c->lines[TAKEN_CHANGED], (unsigned long long)c->lines[TAKEN_KNOWN],
		(unsigned long long)c->lines[TAKEN_REFUSED]);
	fflush(out);
}

static void tell_refused(const struct index_counts *c, uh_problem_fn *problem, void *ctx)
{
	_cleanup_text_ struct text says = { 0 };
	const uint64_t n = c->lines[TAKEN_REFUSED];
	text_printf(&says, "%llu %s not understood and left out; the first is " STR_FMT, (unsigned long long)n,
		    n == 1 ? "line was" : "lines were", STR_ARG(text_str(&c->refused)));
	text_add(&says, (struct str){ "", 1 });
	problem(ctx, says.p);
}

/** What cannot be read is told once, not in each round. */
static void collect_tell(const char *problem, struct text *told, uh_problem_fn *tell, void *ctx)
{
	if (*problem && !str_is(text_str(told), problem))
		tell(ctx, problem);
	text_clear(told);
	text_add(told, str_z(problem));
}

/** Until a signal. A server that is restarted comes back, and a disk gets room again. */
static void collect_follow(const struct uh_collect_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	_cleanup_text_ struct text told = { 0 };
	unsigned again = AGAIN_FIRST_S;
	for (bool goes_on = true; goes_on;) {
		_cleanup_counts_ struct index_counts counts = { 0 };
		_cleanup_error_ struct uh_error *err = collect_once(o, &goes_on, &counts);
		if (counts.lines[TAKEN_NEW] + counts.lines[TAKEN_CHANGED])
			collect_report(&counts, out);
		if (counts.refused.n)
			tell_refused(&counts, problem, ctx);
		collect_tell(err ? uh_error_message(err) : counts.why, &told, problem, ctx);
		collect_pause(&goes_on, err ? again : FOLLOW_S);
		// Who gets on, if only from one lost connection to the next, need not wait longer each time.
		again = !err || counts.lines[TAKEN_NEW] ? AGAIN_FIRST_S : 2 * again <= AGAIN_MOST_S ? 2 * again : again;
	}
}

struct uh_error *uh_collect(const struct uh_collect_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	const sigset_t signals = collect_signals();
	_cleanup_counts_ struct index_counts counts = { 0 };
	bool goes_on = true;
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (o->follow) {
		collect_follow(o, out, problem, ctx);
		return NULL;
	}
	struct uh_error *err = collect_once(o, &goes_on, &counts);
	// What was taken is taken: from a connection that was lost it goes on.
	for (unsigned n = 0; err && err->errnum == ECONNRESET && n < LOST_MOST && collect_pause(&goes_on, AGAIN_FIRST_S << n);
	     n++) {
		uh_error_free(err);
		counts.files = 0;
		err = collect_once(o, &goes_on, &counts);
	}
	if (!err)
		collect_report(&counts, out);
	if (counts.refused.n)
		tell_refused(&counts, problem, ctx);
	return err ? err : counts.unread ? uh_error_new("%s", counts.why) : NULL;
}

// --- unhang store ---

struct uh_error *uh_store_migrate(const char *store, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_db_ struct db *db = NULL;
	int64_t from, to;
	struct uh_error *err = history_place_answers(store);
	if (!err)
		err = db_open(store_index_of(store, &a), DB_MAKE, &db);
	if (!err)
		err = index_migrate(db, &from, &to);
	if (!err && from == to)
		fprintf(out, "The store has form %lld already.\n", (long long)to);
	else if (!err)
		fprintf(out, "The store has form %lld now; it had %lld.\n", (long long)to, (long long)from);
	return err;
}

struct uh_error *uh_store_check(const char *store, FILE *out, bool *ret_good)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text problems = { 0 };
	_cleanup_db_ struct db *db = NULL;
	struct uh_error *err = history_place_answers(store);
	if (err)
		return err;
	const char *index = store_index_of(store, &a);
	err = index_open(index, DB_READ, &db);
	if (err && err->errnum == ENOENT && strcmp(index, store)) {
		uh_error_free(err);
		return uh_error_new(
			"%s has no index yet: unhang history --store makes one of its lines, unhang collect fills one", store);
	}
	if (!err)
		err = index_check(db, &problems);
	*ret_good = !err && !problems.n;
	if (*ret_good)
		fputs("The store is sound.\n", out);
	else if (!err)
		print_str(out, text_str(&problems));
	return err;
}

struct uh_error *uh_store_rebuild(const char *store, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_db_ struct db *db = NULL;
	_cleanup_counts_ struct index_counts counts = { 0 };
	struct stat st;
	struct uh_error *err = history_place_answers(store);
	if (err)
		return err;
	if (db_is_server(store) || stat(store, &st) || !S_ISDIR(st.st_mode))
		return uh_error_new(
			"only the index of a directory can be made anew; collect fills one on a server from the spools");
	err = db_remove(store_index_of(store, &a));
	if (!err)
		err = index_open(store_index_of(store, &a), DB_MAKE, &db);
	if (!err)
		err = index_sync(db, store, &counts);
	if (!err)
		collect_report(&counts, out);
	return err;
}
