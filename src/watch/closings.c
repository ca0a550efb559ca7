// What an operator closes: a GPU that was replaced does not say so.
#include "watch/parts.h"

enum { ASK_MS = 2000 };

static bool is_open(const struct watch_case *c) { return c->known && !c->done && !str_is(c->stored.state, "closed"); }

/** What comes behind it, of the same trouble, is a new incident: the engine's ends with it. */
static void close_one(struct watcher *w, struct watch_case *c, struct str why)
{
	c->done = true;
	if (c->live)
		engine_close(w->engine, c->order);
	c->done = false;
	c->live = false;
	case_close(w, c, store_closed_by(&c->arena, why));
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
			close_one(w, c, text_str(&why));
	}
	text_free(&why);
}

int64_t closings_next(const struct watcher *w, int64_t now)
{
	for (size_t n = 0; w->ready && n < w->cases.len; n++)
		if (is_open(w->cases.data[n]))
			return w->asked + ASK_MS > now ? w->asked + ASK_MS : now;
	return -1;
}
