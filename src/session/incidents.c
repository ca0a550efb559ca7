// unhang incidents: what the watch stored, and whether it still watches; an operator says that an incident is over.
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/lock.h"
#include "base/save.h"
#include "report/sheet.h"
#include "session/place.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/node/state.h"
#include "watch/tell.h"
#include "watch/watch.h"

static bool is_closed(const struct stored *i) { return i->state == STORED_CLOSED; }

/** What the watch wrote last of itself. false: it wrote nothing. */
static bool read_said(const char *run_dir, struct arena *a, struct watch_said *ret)
{
	struct watch_state s;
	char until[DATE_ROOM];
	_cleanup_error_ struct uh_error *err = state_read(run_dir, a, &s);
	if (err || !s.valid_until)
		return false;
	*ret = (struct watch_said){ .valid_until = arena_str(a, date_text(s.valid_until, until)),
				    .over = s.valid_until <= time(NULL),
				    .unread = s.unread,
				    .uncounted = s.uncounted };
	return true;
}

/** Where incidents are: the place that was named; else the machine's, and a user's own, where unhang core stores for one who is not root. */
struct places {
	const char *list[2];
	size_t n;
};

static struct places places_of(const char *state_dir, struct arena *a)
{
	struct places p = { { absolute_path(a, state_dir ? state_dir : STATE_DIR) }, 1 };
	const char *own = state_dir ? NULL : state_of_user(a);
	if (own && store_begun(own))
		p.list[p.n++] = own;
	return p;
}

/** The incident in the first place that has it; *@ret_directory: which. */
static struct uh_error *load_from(const struct places *p, const char *id, struct arena *a, struct stored *ret,
				  const char **ret_directory)
{
	struct uh_error *first = NULL;
	for (size_t n = 0; n < p->n; n++) {
		struct uh_error *err = store_load(*ret_directory = p->list[n], str_z(id), a, ret);
		if (!err) {
			uh_error_free(first);
			return NULL;
		}
		if (first)
			uh_error_free(err);
		else
			first = err;
	}
	return first;
}

/** The same list of all places. What cannot be read of one does not hide the others: the error comes with them. */
static struct uh_error *list_from(const struct places *p, struct stored_list *ret)
{
	struct uh_error *first = store_list(p->list[0], ret);
	for (size_t n = 1; n < p->n; n++) {
		struct uh_error *err = store_list_more(p->list[n], ret);
		if (first)
			uh_error_free(err);
		else
			first = err;
	}
	return first;
}

struct uh_error *uh_session_add_incident(struct uh_session *s, const char *state_dir, const char *id)
{
	static const char *const evidence[] = { STORE_BUNDLE, STORE_CORE };
	_cleanup_arena_ struct arena a = { 0 };
	const struct places places = places_of(state_dir, &a);
	const char *directory, *found = NULL;
	struct stored one;
	struct uh_error *err = load_from(&places, id, &a, &one, &directory);
	for (size_t i = 0; !err && !found && i < ARRAY_SIZE(evidence); i++) {
		const char *path = arena_printf(&a, "%s/%s", store_path(&a, directory, str_z(id)), evidence[i]).p;
		found = access(path, F_OK) ? NULL : path;
	}
	if (!err && !found)
		err = uh_error_new("incident %s has no bundle to explain", id);
	if (!err)
		uh_session_add_path(s, found);
	return err;
}

struct uh_error *uh_incidents(const struct uh_incidents_options *o, FILE *out)
{
	enum { TEXT_MOST = 4 << 20 };
	_cleanup_arena_ struct arena a = { 0 };
	const struct places places = places_of(o->state_dir, &a);
	const char *directory = places.list[0];
	struct watch_said said;
	const char *run_dir = o->run_dir   ? o->run_dir :
			      o->state_dir ? NULL :
					     RUN_DIR; // of another place nobody knows the watch
	const struct watch_said *heard = run_dir && read_said(run_dir, &a, &said) ? &said : NULL;
	if (!o->id) {
		_cleanup_(stored_list_free) struct stored_list all = { 0 };
		struct uh_error *err = list_from(&places, &all);
		size_t n = 0;
		for (size_t i = 0; i < all.list.len; i++)
			if (!o->open || !is_closed(all.list.data[i]))
				all.list.data[n++] = all.list.data[i];
		if (!err && !o->json && !heard && !n && !store_begun(directory))
			report_no_store(directory, o, out);
		else if (err ? n > 0 : n || o->json || !all.unread)
			report_incidents(all.list.data, n, heard, o, out);
		if (!err && all.unread > 1)
			err = uh_error_new("%zu records of incidents cannot be read; the first: " STR_FMT, all.unread,
					   STR_ARG(all.why));
		else if (!err && all.unread)
			err = uh_error_new(STR_FMT, STR_ARG(all.why));
		return err;
	}
	struct stored one;
	struct incident_shown shown = { .stored = &one, .said = heard };
	struct uh_error *err = load_from(&places, o->id, &a, &one, &directory);
	if (err)
		return err;
	shown.directory = store_path(&a, directory, str_z(o->id));
	const char *text = arena_printf(&a, "%s/" STORE_TEXT, shown.directory).p;
	uh_error_free(named_read(&(struct named){ .path = text }, TEXT_MOST, &a, &shown.diagnosis,
				 NULL)); // without a bundle there is none
	report_incident(&shown, o, out);
	return NULL;
}

// --- unhang incidents ID --close ---

enum { PATIENCE_MS = 20000, PAUSE_NS = 100000000 };

/** Nobody watches: it is done here, and told to the journal. */
static struct uh_error *close_here(const char *directory, struct stored *i, struct str why, struct arena *a)
{
	struct watch_voice voice;
	i->state = STORED_CLOSED;
	i->closed_by = store_closed_by(a, why);
	i->changed = i->ended = (int64_t)time(NULL);
	struct uh_error *err = store_save(directory, i);
	if (err)
		return err;
	voice_open(&voice, -1);
	if (voice.journal >= 0)
		voice_incident(&voice, i, "closed");
	voice_close(&voice);
	return NULL;
}

/** Only the watch knows what else it has of it, and holds the lock. It is asked by a file, and waited for. */
static struct uh_error *have_closed(const char *directory, struct str id, struct str why)
{
	struct uh_error *err = store_ask_close(directory, id, why);
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	bool closed = false;
	for (const int64_t end = now_ms() + PATIENCE_MS; !err && !closed && now_ms() < end;) {
		_cleanup_arena_ struct arena a = { 0 };
		struct stored now;
		nanosleep(&pause, NULL);
		err = store_load(directory, id, &a, &now);
		closed = !err && is_closed(&now);
	}
	if (err || closed)
		return err;
	return uh_error_new("unhang watch has not closed incident " STR_FMT " yet; it will as soon as it can", STR_ARG(id));
}

struct uh_error *uh_incident_close(const char *state_dir, const char *id, const char *why, FILE *out)
{
	const char *directory = state_dir ? state_dir : STATE_DIR;
	_cleanup_arena_ struct arena a = { 0 };
	struct stored one;
	const struct str said = str_z(why ? why : "");
	struct uh_error *err = store_load(directory, str_z(id), &a, &one);
	const bool was = !err && is_closed(&one);
	const char *path = store_path(&a, directory, str_z(id));
	if (!err && !was && access(path, W_OK))
		err = errno == EACCES ? uh_error_new("only root may close an incident: run it with sudo") :
					uh_error_os(errno, "%s", path);
	if (!err && !was) {
		_cleanup_close_ int place = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_cleanup_(lock_release) struct lock lock = LOCK_FREE;
		const bool alone = place >= 0 && lock_take(place, &lock) == LOCK_TAKEN;
		err = alone ? close_here(directory, &one, said, &a) : have_closed(directory, str_z(id), said);
	}
	if (!err)
		fprintf(out, "Incident %s %s.\n", id, was ? "was closed before" : "is closed");
	return err;
}
