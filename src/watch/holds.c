// Programs that met a fault and stand still for the watch: their evidence is saved at once, and they go on as soon as it is.
#include "watch/answer.h"
#include "watch/watcher.h"

static void have_written(struct watcher *w, enum hold_word word, const struct watch_hold *h)
{
	_cleanup_text_ struct text text = { 0 };
	const struct hold_task task = { word, h->number, str_z(h->path) };
	hold_task_text(&task, &text);
	keeper_ask(w->keeper, KEEPER_HOLD, text_str(&text), NULL, NULL);
}

static struct watch_hold *hold_of(struct watcher *w, struct str path)
{
	for (size_t i = 0; i < w->holds.len; i++)
		if (str_is(path, w->holds.data[i].path))
			return &w->holds.data[i];
	return NULL;
}

static void hold_drop(struct watcher *w, struct watch_hold *h) { *h = w->holds.data[--w->holds.len]; }

/** Whether a capture that runs can still save what the program has. */
static bool is_saving(const struct watcher *w) { return w->job.kind == JOB_CAPTURE && !jobs_saved(w); }

/** Whether its evidence can be saved now. A look, and an explanation, are made again afterwards; hooks are not ended. A user whose programs fault all day must
 * not use up all bundles: half of them are for what the driver tells. */
static bool can_save(struct watcher *w)
{
	const bool free = w->job.kind != JOB_CAPTURE && w->job.kind != JOB_HOOKS;
	return w->ready && w->settings.capture && w->holds.len < HOLDS_KEPT &&
	       (is_saving(w) || (free && quota_left(w) * 2 > w->settings.bundles_per_hour));
}

static void hold_asks_for(struct watcher *w, const struct hold_told *told)
{
	struct watch_hold *h = hold_of(w, told->path);
	if (h && h->number == told->number)
		return;
	if (h)
		hold_drop(w, h);
	if (told->path.n >= sizeof(h->path) || !can_save(w))
		return;
	struct watch_hold fresh = { .number = told->number, .until = w->now + told->left_ms };
	str_copy(fresh.path, sizeof(fresh.path), told->path);
	vec_push(&w->holds, fresh);
	have_written(w, WORD_ANSWER, &fresh);
}

/** It stands, and its core is written: now is the time. */
static void hold_begins(struct watcher *w, const struct hold_told *told)
{
	struct watch_hold *h = hold_of(w, told->path);
	if (!h || h->number != told->number || h->stands)
		return;
	h->stands = true;
	if (is_saving(w))
		return;
	if (w->job.kind == JOB_LOOK || w->job.kind == JOB_EXPLAIN)
		jobs_stop(w);
	cases_held(w, told);
}

void holds_take(struct watcher *w, struct str text)
{
	struct hold_told told;
	struct watch_hold fresh = { 0 };
	if (!hold_told_parse(text, &told))
		return;
	if (told.stage == HOLD_NEW && w->settings.capture && told.path.n < sizeof(fresh.path)) {
		str_copy(fresh.path, sizeof(fresh.path), told.path);
		have_written(w, WORD_ANNOUNCE, &fresh);
	}
	if (told.stage == HOLD_ASKS)
		hold_asks_for(w, &told);
	if (told.stage == HOLD_STANDS)
		hold_begins(w, &told);
	if (told.stage == HOLD_OVER && hold_of(w, told.path))
		hold_drop(w, hold_of(w, told.path));
}

void holds_follow(struct watcher *w)
{
	bool saves = is_saving(w);
	for (size_t n = 0; n < w->cases.len; n++) // the next that begins
		saves |= w->job.kind == JOB_NONE && case_is(w->cases.data[n], CASES_CAPTURING);
	for (size_t i = 0; i < w->holds.len;) {
		struct watch_hold *h = &w->holds.data[i];
		const bool free = h->stands && !saves;
		if (free)
			have_written(w, WORD_RELEASE, h);
		if (free || w->now >= h->until)
			hold_drop(w, h);
		else
			i++;
	}
}

int64_t holds_next(const struct watcher *w)
{
	int64_t next = -1;
	for (size_t i = 0; i < w->holds.len; i++)
		next = next < 0 || w->holds.data[i].until < next ? w->holds.data[i].until : next;
	return next;
}
