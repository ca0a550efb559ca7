// A watch that begins goes on with what an earlier one stored: the log is read once more, and each incident is found again.
#include "watch/parts.h"

enum { PLACE_AGAIN_MS = 60000, MESSAGE_MS = 300 }; // the kernel writes the lines of one message faster than that

void case_copy(struct watch_case *c, const struct stored *from)
{
	struct text text = { 0 };
	stored_text(from, &text);
	stored_parse(text_str(&text), &c->arena, &c->stored);
	text_free(&text);
}

const struct stored *restart_found(const struct watcher *w, struct str id, const struct stored *now)
{
	for (size_t n = 0; n < w->before.list.len; n++)
		if (str_eq(w->before.list.data[n]->id, id))
			return w->before.list.data[n];
	for (size_t n = 0; n < w->before.list.len; n++) {
		const struct stored *s = w->before.list.data[n];
		if (str_is(s->boot_id, w->log_boot) && str_eq(s->gpu, now->gpu) && s->first_us <= now->first_us &&
		    now->first_us <= s->last_us && !case_is_others(s, now->pid))
			return s;
	}
	return NULL;
}

bool restart_knows(const struct watcher *w, const struct stored *i)
{
	return str_is(str_z(w->place.boot_id), w->log_boot) && i->last_us <= w->place.microseconds;
}

/** Its end was not told to the hooks, or they were killed with the watch meanwhile. */
static bool end_untold(const struct stored *i) { return str_is(i->state, "closed") && i->hooks == 1; }

void cases_replay(struct watcher *w, double seconds)
{
	struct incident *i;
	const double later =
		seconds - (double)w->settings.settle / 1000; // the last sign has lines behind it that say more of it
	for (size_t n = 0; n < w->before.list.len; n++) {
		const struct stored *s = w->before.list.data[n];
		if (!str_is(s->state, "closed") || !str_is(s->boot_id, w->log_boot) || (double)s->last_us / 1e6 >= later)
			continue;
		for (size_t k = 0; (i = engine_open(w->engine, k)) != NULL; k++)
			if ((int64_t)(i->begin.seconds * 1e6) == s->first_us) {
				engine_close(w->engine, i->order);
				break;
			}
	}
}

/** What a new boot does not mend: the GPU itself is broken, or needs its power cut. */
static bool outlasts_boot(const struct stored *i)
{
	return case_lasts(i) && (str_is(i->action, "replace") || str_is(i->action, "power-cycle"));
}

void case_close_boot(struct watcher *w, struct watch_case *c)
{
	if (!outlasts_boot(&c->stored))
		case_close(w, c, S("the machine was started again"));
}

void cases_adopt(struct watcher *w)
{
	for (size_t n = 0; n < w->before.list.len; n++) {
		const struct stored *s = w->before.list.data[n];
		bool met = str_is(s->state, "closed") && !end_untold(s);
		for (size_t k = 0; k < w->cases.len && !met && !end_untold(s); k++)
			met = w->cases.data[k]->known && str_eq(w->cases.data[k]->stored.id, s->id);
		struct watch_case *c = met ? NULL : case_add(w);
		if (!c)
			continue;
		case_copy(c, s);
		c->known = true;
		c->capture = s->bundle.n ? CAPTURE_DONE : CAPTURE_NONE;
		c->lacked = jobs_lack_room(s->bundle);
		c->hooks_wanted = end_untold(s);
		if (c->hooks_wanted)
			continue;
		if (!str_is(s->boot_id, w->boot_id)) {
			c->hooks_wanted = s->hooks < 1 && !str_is(s->state, "suspected");
			c->check = c->hooks_wanted; // it is closed when they were told of it
			w->look_wanted |= c->hooks_wanted;
			if (!c->hooks_wanted)
				case_close_boot(w, c);
			continue;
		}
		if (!str_is(s->state, "suspected"))
			case_want_capture(w, c);
		c->check = 1;
		c->patience = HUNG_CHECK_MS;
		w->look_wanted = true;
	}
}

static bool all_stored(const struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		if (c->known ? c->dirty : !c->done && !c->causeless)
			return false;
	}
	return true;
}

/** Seldom: what is read once more costs little. Not in the middle of a message of several lines, whose first one is no case yet: it would
 * count as stored. */
void restart_keep(struct watcher *w, int64_t now)
{
	struct text text = { 0 }, why = { 0 };
	const bool early = now < w->keep_due && !w->stop, amid = now < w->read_at + MESSAGE_MS;
	if (w->read.sequence == w->kept.sequence || early || amid || !all_stored(w))
		return;
	store_place_text(&w->read, &text);
	if (hand_ask(w->hand, HAND_PLACE, text_str(&text), &why, NULL))
		w->kept = w->read;
	else
		voice_problem(&w->voice, why.p);
	w->keep_due = now + PLACE_AGAIN_MS;
	text_free(&text);
	text_free(&why);
}
