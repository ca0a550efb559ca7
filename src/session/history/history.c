// unhang history: opens the store, brings its index up to date, and asks it.
#include "session/history/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/child/put.h"
#include "base/save.h"
#include "report/history/history.h"
#include "session/look.h"
#include "session/history/pages.h"
#include "session/place.h"
#include "session/session.h"
#include "store/history/index.h"
#include "watch/watch.h"

// --- the store ---

static bool is_directory(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static struct uh_error *open_directory(const char *directory, struct teller t, struct db **ret)
{
	_cleanup_text_ struct text why = { 0 };
	struct uh_error *err = index_open_directory(directory, &why, ret);
	if (!err && why.n)
		look_tell(&t, text_str(&why));
	return err;
}

/** This machine's; of one who is not root with his own, where unhang run and unhang core store for him. */
static struct uh_error *open_machine(struct teller t, struct db **ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_counts_ struct index_counts counts = { 0 };
	const char *own = state_of_user(&a);
	if (!geteuid() || !own)
		return open_directory(STATE_DIR, t, ret);
	struct uh_error *err = index_open(NULL, DB_MAKE, ret);
	const char *const places[] = { STATE_DIR, own };
	for (size_t n = 0; n < ARRAY_SIZE(places) && !err; n++)
		if (is_directory(places[n]) && !access(places[n], R_OK | X_OK))
			err = index_sync(*ret, places[n], &counts);
	if (counts.unread)
		look_tell(&t, str_z(counts.why));
	return err;
}

const char *history_state_directory(void) { return geteuid() ? NULL : STATE_DIR; }

struct uh_error *history_place_answers(const char *place) { return db_is_server(place) ? NULL : put_answers(place); }

struct uh_error *history_store_open(const char *store, struct teller t, struct db **ret)
{
	*ret = NULL;
	struct uh_error *err = history_place_answers(store ? store : STATE_DIR);
	if (err)
		return err;
	err = !store              ? open_machine(t, ret) :
	      is_directory(store) ? open_directory(store, t, ret) :
				    index_open(store, DB_READ, ret);
	if (err && *ret) {
		db_close(*ret);
		*ret = NULL;
	}
	return err;
}

// --- what is asked ---

static struct uh_error *ask(struct history *h, struct history_told *t)
{
	enum { FAULTS_SHOWN = 13, LIST_SHOWN = 16, MANY = 100000 }; // a screen
	const struct uh_history_options *o = t->options;
	const int64_t most = o->all ? MANY : o->most ? o->most : o->csv ? MANY : o->json ? 100 : LIST_SHOWN;
	const size_t faults = o->list || o->csv || o->remedies ? 0 : o->all || o->json ? MANY : FAULTS_SHOWN;
	struct uh_error *err = history_summary(h, &t->filter, faults, &t->summary);
	if (!err && (o->nodes || o->gpus))
		return history_rates(h, &t->filter, o->gpus, &t->rates);
	if (!err && o->remedies)
		return history_helped(h, &t->filter, o->all || o->json ? MANY : o->most ? o->most : 50, &t->helped);
	if (!err && (o->list || o->json || o->csv))
		err = history_incidents(h, &t->filter, (int64_t)o->skip, most + 1, &t->incidents);
	t->more = (int64_t)t->incidents.len > most;
	t->incidents.len -= t->more;
	return err;
}

/** What was never watched is not the same as what is well. */
static struct uh_error *refuse_empty(struct history *h)
{
	bool empty;
	struct uh_error *err = history_is_empty(h, &empty);
	if (err || !empty)
		return err;
	return uh_error_new("there is no history yet. Begin one: run unhang watch, or unhang explain --store DIR FILE");
}

static struct uh_error *show_incident(struct history *h, const struct uh_history_options *o, FILE *out)
{
	struct site_pages pages = { .history = *h };
	bool found;
	struct uh_error *err = o->json ? pages_incident_json(&pages, str_z(o->id), out, &found) :
					 pages_incident_text(&pages, str_z(o->id), o->width, out, &found);
	h->arena = pages.history.arena;
	if (!err && !found)
		err = uh_error_new("no incident is called '%s'; unhang history --list shows their ids", o->id);
	return err;
}

struct uh_error *uh_history(const struct uh_history_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	_cleanup_know_ struct know *know = look_knowledge(teller);
	_cleanup_db_ struct db *db = NULL;
	struct history_told t = { .options = o, .now = time(NULL) };
	struct uh_error *err = history_filter_of(o, know, t.now, &t.filter);
	if (!err)
		err = history_store_open(o->store, teller, &db);
	struct history h = { .db = db, .know = know, .now = t.now };
	if (!err)
		err = refuse_empty(&h);
	if (!err && o->id)
		err = show_incident(&h, o, out);
	else if (!err)
		err = ask(&h, &t);
	if (!err && o->html) {
		struct site_pages pages = { .history = h, .site = { .now = t.now } };
		err = pages_write_all(&pages, o->html);
		h.arena = pages.history.arena;
		if (!err)
			fprintf(out, "The pages are in %s: open %s/index.html\n", o->html, o->html);
	} else if (!err && !o->id)
		(o->remedies         ? report_helped :
		 o->nodes || o->gpus ? report_rates :
		 o->csv              ? report_history_csv :
				       report_history)(&t, out);
	history_summary_free(&t.summary);
	vec_free(&t.incidents);
	vec_free(&t.helped);
	vec_free(&t.rates.list);
	arena_free(&h.arena);
	return err;
}
