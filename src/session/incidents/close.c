// unhang incidents ID --close: an operator says that it is over.
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/lock.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/tell.h"
#include "watch/watch.h"

enum { PATIENCE_MS = 20000, PAUSE_NS = 100000000 };

static bool is_closed(const struct stored *i) { return str_is(i->state, "closed"); }

/** Nobody watches: it is done here, and told to the journal. */
static struct uh_error *close_here(const char *directory, struct stored *i, struct str why, struct arena *a)
{
	struct watch_voice voice;
	i->state = S("closed");
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

static struct uh_error *have_closed(const char *directory, struct str id, struct str why)
{
	struct uh_error *err = store_ask_close(directory, id, why);
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	bool closed = false;
	for (const int64_t end = now_ms() + PATIENCE_MS; !err && !closed && now_ms() < end;) {
		struct arena a = { 0 };
		struct stored now;
		nanosleep(&pause, NULL);
		err = store_load(directory, id, &a, &now);
		closed = !err && is_closed(&now);
		arena_free(&a);
	}
	if (err || closed)
		return err;
	return uh_error_new("unhang watch has not closed incident " STR_FMT " yet; it will as soon as it can", STR_ARG(id));
}

struct uh_error *uh_incident_close(const char *state_dir, const char *id, const char *why, FILE *out)
{
	const char *directory = state_dir ? state_dir : STATE_DIR;
	struct arena a = { 0 };
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
	arena_free(&a);
	return err;
}
