// What is closed from outside: by an operator, since a GPU that was replaced does not say so, and where there are too many to follow.
#include "watch/parts.h"

enum { ASK_MS = 2000 };

static bool is_open(const struct watch_case *c) { return c->known && !c->done && !str_is(c->stored.state, "closed"); }

/** Open, or closed while hooks or an explanation of it wait for their turn. */
static bool is_waited_for(const struct watch_case *c)
{
	return c->known && !c->done && (is_open(c) || c->hooks_wanted || c->explain_wanted || c->capture == CAPTURE_WANTED);
}

/** What comes behind it, of the same trouble, is a new incident: the engine's ends with it. */
static void close_one(struct watcher *w, struct watch_case *c, struct str why)
{
	c->done = true;
	if (c->live)
		engine_close(w->engine, c->order);
	c->done = false;
	c->live = false;
	case_close(w, c, why);
}

void cases_close_asked(struct watcher *w, int64_t now)
{
	struct text why = { 0 };
	if (now < w->asked + ASK_MS)
		return;
	w->asked = now;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (is_open(c) && hand_ask(w->hand, HAND_CLOSES, c->stored.id, &why, NULL))
			close_one(w, c, store_closed_by(&c->arena, text_str(&why)));
	}
	text_free(&why);
}

/** The oldest that somebody waits for and that is not the node's; NULL: there are not too many. */
static struct watch_case *one_too_many(const struct watcher *w)
{
	enum { AT_ONCE = 64 };
	size_t waited_for = 0;
	struct watch_case *oldest = NULL;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!is_waited_for(c))
			continue;
		waited_for++;
		if (!case_lasts(&c->stored) && c != w->job.of && (!oldest || c->stored.first_us < oldest->stored.first_us))
			oldest = c;
	}
	return waited_for > AT_ONCE ? oldest : NULL;
}

void closings_make_room(struct watcher *w)
{
	struct watch_case *c;
	while ((c = one_too_many(w)) != NULL) {
		if (is_open(c))
			close_one(w, c, S("there are too many at once to follow each"));
		c->capture = c->capture == CAPTURE_WANTED ? CAPTURE_NONE : c->capture;
		c->hooks_wanted = c->explain_wanted = false;
	}
}

int64_t closings_next(const struct watcher *w, int64_t now)
{
	for (size_t n = 0; w->ready && n < w->cases.len; n++)
		if (is_open(w->cases.data[n]))
			return w->asked + ASK_MS > now ? w->asked + ASK_MS : now;
	return -1;
}
