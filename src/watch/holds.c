// Programs that met a fault and stand still for the watch: their evidence is saved at once, and they go on as soon as it is.
#include "watch/attend.h"
#include "watch/parts.h"
#include "watch/pulse/holds.h"

static void have_written(struct watcher *w, enum attend_word word, const struct watch_hold *h)
{
	struct text text = { 0 };
	const struct attend_task task = { word, h->number, str_z(h->path) };
	attend_text(&task, &text);
	hand_ask(w->hand, HAND_HOLD, text_str(&text), NULL, NULL);
	text_free(&text);
}

static struct watch_hold *find(struct watcher *w, struct str path)
{
	for (size_t i = 0; i < w->nholds; i++)
		if (str_is(path, w->holds[i].path))
			return &w->holds[i];
	return NULL;
}

static void drop(struct watcher *w, struct watch_hold *h) { *h = w->holds[--w->nholds]; }

/** Whether a capture that runs can still save what the program has. */
static bool is_saving(const struct watcher *w) { return w->job.kind == JOB_CAPTURE && !jobs_saved(w); }

/** Whether its evidence can be saved now. A look, and an explanation, are made again afterwards; hooks are not ended. A user whose programs fault all day must
 * not use up all bundles: half of them are for what the driver tells. */
static bool can_save(struct watcher *w, int64_t now)
{
	const bool free = w->job.kind != JOB_CAPTURE && w->job.kind != JOB_HOOKS;
	return w->ready && w->settings.capture && w->nholds < HOLDS_MOST &&
	       (is_saving(w) || (free && quota_left(w, now) * 2 > w->settings.bundles_per_hour));
}

static void asks(struct watcher *w, const struct hold_told *told, int64_t now)
{
	struct watch_hold *h = find(w, told->path);
	if (h && h->number == told->number)
		return;
	if (h)
		drop(w, h);
	if (told->path.n >= sizeof(h->path) || !can_save(w, now))
		return;
	h = &w->holds[w->nholds++];
	*h = (struct watch_hold){ .number = told->number, .until = now + told->left_ms };
	str_copy(h->path, sizeof(h->path), told->path);
	have_written(w, ATTEND_ANSWER, h);
}

/** It stands, and its core is written: now is the time. */
static void stands(struct watcher *w, const struct hold_told *told, int64_t now)
{
	struct watch_hold *h = find(w, told->path);
	if (!h || h->number != told->number || h->stands)
		return;
	h->stands = true;
	if (is_saving(w))
		return;
	w->look_wanted |= w->job.kind == JOB_LOOK;
	if (w->job.kind == JOB_EXPLAIN)
		w->job.of->explain_wanted = true;
	if (w->job.kind == JOB_LOOK || w->job.kind == JOB_EXPLAIN)
		jobs_stop(w);
	cases_held(w, told->gpu, told->pid, now);
}

void holds_take(struct watcher *w, struct str text, int64_t now)
{
	struct hold_told told;
	struct watch_hold fresh = { 0 };
	if (!hold_told_parse(text, &told))
		return;
	if (told.stage == HOLD_NEW && w->settings.capture && told.path.n < sizeof(fresh.path)) {
		str_copy(fresh.path, sizeof(fresh.path), told.path);
		have_written(w, ATTEND_ANNOUNCE, &fresh);
	}
	if (told.stage == HOLD_ASKS)
		asks(w, &told, now);
	if (told.stage == HOLD_STANDS)
		stands(w, &told, now);
	if (told.stage == HOLD_OVER && find(w, told.path))
		drop(w, find(w, told.path));
}

static bool capture_wanted(const struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len; n++)
		if (w->cases.data[n]->capture == CAPTURE_WANTED && w->cases.data[n] != w->job.of)
			return true;
	return false;
}

void holds_follow(struct watcher *w, int64_t now)
{
	const bool saves = is_saving(w) || (w->job.kind == JOB_NONE && capture_wanted(w));
	for (size_t i = 0; i < w->nholds;) {
		struct watch_hold *h = &w->holds[i];
		const bool free = h->stands && !saves;
		if (free)
			have_written(w, ATTEND_RELEASE, h);
		if (free || now >= h->until)
			drop(w, h);
		else
			i++;
	}
}

int64_t holds_next(const struct watcher *w)
{
	int64_t next = -1;
	for (size_t i = 0; i < w->nholds; i++)
		next = next < 0 || w->holds[i].until < next ? w->holds[i].until : next;
	return next;
}
