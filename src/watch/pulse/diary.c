// What the watch adds to the history: hours of work, what the GPUs were like around a failure, and how the machine is set up. The keeper puts it
// on the disk, and a job brings it to where others collect it.
#include "watch/watcher.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "store/history/line.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };
enum {
	WORK_MS = HOUR,           // a line of work is of so long, unless something happens
	SAMPLES_MS = 30 * SECOND, // while an incident is open
	NOTE_FIRST_MS = 30 * SECOND,
	NOTE_MS = 6 * HOUR,
	SHIP_MS = MINUTE,
	GAP_MS = 2 * MINUTE, // a machine that slept has not worked
	ITEMS_MOST = 512,
};

static void diary_write(struct watcher *w, struct str lines)
{
	_cleanup_text_ struct text why = { 0 };
	if (!lines.n)
		return;
	if (!keeper_ask(w->keeper, KEEPER_LINES, lines, &why, NULL))
		voice_problem(&w->voice, why.p);
	else
		w->unshipped = true;
}

// --- work ---

static bool works(enum pace p) { return p == PACE_WORKING || p == PACE_WAITING; }

void diary_count(struct watcher *w, struct watched_progress *p)
{
	struct gpu_diary *d = &p->diary;
	const int64_t passed = d->counted ? w->now - d->counted : 0;
	if (!d->since)
		d->since = time(NULL);
	if (works(p->pace) && !w->uncounted.n && passed > 0 && passed < GAP_MS)
		d->busy_ms += passed;
	d->counted = w->now;
}

static void work_end(struct watcher *w, struct watched_progress *p, struct text *to)
{
	struct gpu_diary *d = &p->diary;
	const struct watched_gpu *g = watched_gpu(w, str_z(p->pci));
	const int64_t now = time(NULL);
	if (d->busy_ms >= SECOND && now > d->since) {
		const double most = (double)(now - d->since), busy = (double)d->busy_ms / SECOND;
		const struct history_work one = { .gpu = str_z(p->pci),
						  .serial = g ? g->serial : (struct str){ 0 },
						  .from = d->since,
						  .until = now,
						  .busy = busy < most ? busy : most };
		line_of_work(to, str_z(w->host), &one);
	}
	d->since = now;
	d->busy_ms = 0;
}

// --- samples ---

void diary_sample(struct watcher *w, struct str text)
{
	const struct str pci = str_split(&text, '\n');
	struct watched_progress *p = list_find(w->progress, w->nprogress, it, str_is(pci, it->pci));
	int64_t numbers[4];
	if (!p)
		return;
	for (size_t n = 0; n < ARRAY_SIZE(numbers); n++)
		if (!str_number(str_word(&text), &numbers[n]))
			numbers[n] = -1;
	struct gpu_diary *d = &p->diary;
	if (d->nsamples == DIARY_SAMPLES) {
		memmove(d->samples, d->samples + 1, (DIARY_SAMPLES - 1) * sizeof(d->samples[0]));
		d->nsamples--;
		d->sent -= d->sent > 0;
	}
#define KNOWN(n, unit) (numbers[n] < 0 ? NAN : (double)numbers[n] / (unit))
	d->samples[d->nsamples++] =
		(struct history_sample){ time(NULL), KNOWN(0, 1), KNOWN(1, 1), KNOWN(2, 1000), KNOWN(3, 1) };
#undef KNOWN
}

static bool diary_has_open(const struct watcher *w, const char *pci)
{
	for (size_t n = 0; n < w->cases.len; n++)
		if (case_is(w->cases.data[n], CASES_TOLD) && str_is(w->cases.data[n]->stored.gpu, pci))
			return true;
	return false;
}

static void samples_end(struct watcher *w, struct watched_progress *p, struct text *to)
{
	struct gpu_diary *d = &p->diary;
	if (d->sent < d->nsamples && diary_has_open(w, p->pci) && w->now - d->sampled >= SAMPLES_MS) {
		line_of_samples(to, str_z(w->host), str_z(p->pci), d->samples + d->sent, d->nsamples - d->sent);
		d->sent = d->nsamples;
		d->sampled = w->now;
	}
}

// --- how the machine is set up ---

void diary_noted(struct watcher *w, struct str answer)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text line = { 0 };
	_cleanup_vec_ VEC(struct history_item) items = { 0 };
	uint64_t hash = STR_HASH_BEGIN;
	while (answer.n && items.len < ITEMS_MOST) {
		struct str text = str_split(&answer, '\n');
		if (!str_is(str_word(&text), "item"))
			continue;
		const struct history_item one = { .name = str_word(&text), .value = str_trim(text) };
		hash = str_hash(str_hash(hash, one.name), one.value);
		vec_push(&items, one);
	}
	for (size_t n = 0; n < w->ngpus && items.len < ITEMS_MOST; n++) {
		const struct history_item one = { w->gpus[n].pci, S("serial"),
						  w->gpus[n].serial.n ? w->gpus[n].serial : w->gpus[n].unique_id };
		if (!one.value.n)
			continue;
		hash = str_hash(str_hash(hash, one.gpu), one.value);
		vec_push(&items, one);
	}
	if (!items.len || hash == w->noted)
		return;
	w->noted = hash;
	diary_end(w); // what was worked until now was worked as it was before
	line_of_configuration(&line, str_z(w->host), time(NULL), items.data, items.len);
	diary_write(w, text_str(&line));
}

// --- errors that were corrected ---

static void count_corrected(struct watcher *w, const struct event *e)
{
	enum { US = 1000000 };
	const struct know_event *kind = e->signature ? e->signature->event : NULL;
	const int64_t us = (int64_t)(e->time.seconds * US);
	const bool before = str_is(str_z(w->place.boot_id), w->log_boot) && us <= w->place.microseconds;
	struct trend_day one = { .module = e->device, .n = 1 };
	if (!kind || kind->tells != TELLS_CORRECTED || before || e->time.clock != TIME_BOOT || !e->device.n)
		return;
	const struct fact *block = event_fact(e, "ras_block"), *count = event_fact(e, "ras_count");
	if (count && (!str_number(count->value, &one.n) || one.n <= 0))
		return;
	one.block = block ? block->value : (struct str){ 0 };
	one.day = trend_day_of((double)watch_wall(w, us));
	trend_add(&w->corrected, &one);
}

void diary_event(void *ctx, const struct event *e)
{
	struct watcher *w = ctx;
	count_corrected(w, e);
	engine_event(w->engine, e);
}

void diary_keep(struct watcher *w)
{
	_cleanup_(trend_free) struct trend named = { 0 };
	_cleanup_text_ struct text text = { 0 }, why = { 0 };
	if (!w->looked && !w->stop) // a look says which module it is
		return;
	for (size_t n = 0; n < w->corrected.days.len; n++) {
		struct trend_day one = w->corrected.days.data[n];
		const struct watched_gpu *g = watched_gpu(w, one.module);
		one.module = g && g->serial.n ? g->serial : g && g->unique_id.n ? g->unique_id : one.module;
		trend_add(&named, &one);
	}
	trend_text(&named, &text);
	if (text.n && !keeper_ask(w->keeper, KEEPER_TREND, text_str(&text), &why, NULL))
		voice_problem(&w->voice, why.p);
	trend_free(&w->corrected);
	w->corrected = (struct trend){ 0 };
}

// --- when ---

void diary_follow(struct watcher *w)
{
	_cleanup_text_ struct text lines = { 0 };
	for (size_t n = 0; n < w->nprogress; n++)
		diary_count(w, &w->progress[n]);
	// A machine with an incident may be switched off: what it worked is told before that.
	const bool due = w->now >= w->work_due || w->cases.len > w->work_cases;
	w->work_cases = w->cases.len;
	for (size_t n = 0; n < w->nprogress; n++) {
		samples_end(w, &w->progress[n], &lines);
		if (due)
			work_end(w, &w->progress[n], &lines);
	}
	if (due)
		w->work_due = w->now + WORK_MS;
	diary_write(w, text_str(&lines));
	if (w->read.sequence == w->kept.sequence)
		diary_keep(w); // what waited for a look
	if (!w->note_due)
		w->note_due = w->now + NOTE_FIRST_MS;
}

void diary_end(struct watcher *w)
{
	w->work_due = 0;
	diary_follow(w);
}

bool diary_note_wanted(struct watcher *w)
{
	if (w->options->until_quiet || !w->note_due || w->now < w->note_due)
		return false;
	w->note_due = w->now + NOTE_MS;
	return true;
}

bool diary_ship_wanted(struct watcher *w)
{
	if (!w->settings.spool_dir || !w->unshipped || w->now < w->ship_due)
		return false;
	w->unshipped = false;
	w->ship_due = w->now + SHIP_MS;
	return true;
}

int64_t diary_next(const struct watcher *w)
{
	int64_t next = w->note_due && !w->options->until_quiet ? w->note_due : -1;
	if (w->settings.spool_dir && w->unshipped && (next < 0 || w->ship_due < next))
		next = w->ship_due;
	if (w->nprogress && w->work_due && (next < 0 || w->work_due < next))
		next = w->work_due;
	return next;
}
