// Where the watch keeps what it knows: the lock on its directory, and state.json, the GPUs and the open incidents for machines.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/door/lock.h"
#include "watch/parts.h"

enum { STATE_AGAIN_MS = 60000, STATE_VALID_S = 180 };

/** What the votes make of what a look saw: waves of a program that is stopped, or waits for another, stand too. */
static void tell_progress(struct watched_gpu *g, const struct watched_progress *p)
{
	const bool excused = p->pace != PACE_UNKNOWN && p->pace < PACE_SUSPECTED;
	const bool idle = p->pace == PACE_UNKNOWN && !g->unwell && str_is(g->health, pace_name(PACE_IDLE));
	g->pace = str_z(pace_name(idle ? PACE_IDLE : p->pace));
	g->waits_for = str_z(p->says);
	if (!excused || !g->unwell)
		return;
	g->unwell = false;
	g->health = S("busy");
	g->says = (struct str){ 0 };
}

/** A GPU that is not to be used stays unwell, however well it looks. */
static void tell_case(struct watched_gpu *g, const struct stored *i)
{
	if (!i->gpu.n || !str_eq(g->pci, i->gpu) || !case_lasts(i))
		return;
	g->unwell = true;
	g->says = g->says.n ? g->says : i->title;
}

void state_write(struct watcher *w)
{
	const struct stored *open[CASES_MOST];
	_cleanup_free_ struct watched_gpu *gpus = mem_alloc(GPUS_MOST * sizeof(*gpus));
	char *text = NULL;
	size_t n = 0;
	struct watch_state s = { .host = str_z(w->host),
				 .boot_id = str_z(w->boot_id),
				 .written = (int64_t)time(NULL),
				 .valid_until = (int64_t)time(NULL) + (w->stop ? 0 : STATE_VALID_S),
				 .looked = w->looked,
				 .lost = w->lost,
				 .unread = text_str(&w->unread),
				 .uncounted = text_str(&w->uncounted),
				 .gpus = gpus,
				 .ngpus = w->ngpus,
				 .open = open };
	for (size_t i = 0; i < w->cases.len; i++)
		if (w->cases.data[i]->known && !str_is(w->cases.data[i]->stored.state, "closed"))
			open[s.nopen++] = &w->cases.data[i]->stored;
	for (size_t i = 0; i < w->ngpus; i++) {
		gpus[i] = w->gpus[i];
		for (size_t k = 0; k < w->nprogress; k++)
			if (str_is(gpus[i].pci, w->progress[k].pci))
				tell_progress(&gpus[i], &w->progress[k]);
		for (size_t k = 0; k < s.nopen; k++)
			tell_case(&gpus[i], open[k]);
	}
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return;
	report_state(&s, out);
	fclose(out);
	struct text why = { 0 };
	if (!hand_ask(w->hand, HAND_STATE, (struct str){ text, n }, &why, NULL))
		voice_problem(&w->voice, why.p);
	text_free(&why);
	free(text);
	w->state_old = false;
	w->state_due = now_ms() + STATE_AGAIN_MS;
}

/** Whether a place may become good while the watch runs: it is full, or cannot be written now. */
static bool may_pass(int error) { return error == EROFS || error == ENOSPC || error == EDQUOT || error == EIO; }

/** One that was just killed may have had a child that had not yet closed what it inherited: that takes a moment to end. */
static enum lock_end take_lock(int place, struct lock *ret)
{
	enum { PATIENCE_MS = 2000, STEP_MS = 50 };
	const int64_t until = now_ms() + PATIENCE_MS;
	enum lock_end end = lock_take(place, ret);
	while (end == LOCK_HELD && now_ms() < until) {
		poll(NULL, 0, STEP_MS);
		end = lock_take(place, ret);
	}
	return end;
}

struct uh_error *state_take(const char *directory, int *ret_lock)
{
	if (mkdir(directory, 0755) && errno != EEXIST && !may_pass(errno))
		return uh_error_os(errno, "incidents cannot be stored in %s", directory);
	_cleanup_close_ int place = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct lock lock = LOCK_FREE;
	if (place >= 0 && take_lock(place, &lock) == LOCK_HELD)
		return uh_error_new("another unhang watch stores its incidents in %s", directory);
	*ret_lock = lock.fd;
	return NULL;
}
