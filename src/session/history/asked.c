// What is asked of the history, as people write it. A typing error must not look like a fleet in which nothing happens.
#include <string.h>

#include "diagnose/told/told.h"
#include "session/history/history.h"

enum { DAY = 86400, WEEKS = 8 };

struct uh_error *history_asked_times(const struct know *k, int64_t now, struct str since, struct str until,
				     struct history_filter *f)
{
	double from = 0, to = 0;
	struct uh_error *err = since.n ? since_parse(k, since, (time_t)now, &from) : NULL;
	if (!err && until.n)
		err = since_parse(k, until, (time_t)now, &to);
	if (err)
		return err;
	if (since.n && from > (double)now)
		return uh_error_new("since '" STR_FMT "': that is in the future", STR_ARG(since));
	if (since.n && until.n && to <= from)
		return uh_error_new("until '" STR_FMT "': that is not after '" STR_FMT "'", STR_ARG(until), STR_ARG(since));
	if (since.n)
		f->since = (int64_t)from;
	if (until.n)
		f->until = (int64_t)to;
	return NULL;
}

static bool part_known(const struct know *k, struct str gfx)
{
	return list_find(k->parts.data, k->parts.len, it, str_eq((*it)->gfx, gfx));
}

/** A pattern may be of what another unhang knows. */
static bool has_star(struct str s) { return s.n && memchr(s.p, '*', s.n); }

struct uh_error *history_asked_known(const struct know *k, const struct history_filter *f)
{
	if (f->class.n && !has_star(f->class) && !know_class(k, f->class))
		return uh_error_new("there is no class '" STR_FMT "'; unhang knowledge list class lists them",
				    STR_ARG(f->class));
	if (f->part.n && !has_star(f->part) && !part_known(k, f->part))
		return uh_error_new("there is no part '" STR_FMT "'; write it as gfx942 or gfx11*", STR_ARG(f->part));
	return NULL;
}

static struct str asked_text(const char *z) { return z ? str_z(z) : (struct str){ 0 }; }

struct uh_error *history_filter_of(const struct uh_history_options *o, const struct know *k, int64_t now,
				   struct history_filter *ret)
{
	*ret = (struct history_filter){ .class = asked_text(o->cause),
					.host = asked_text(o->node),
					.gpu = asked_text(o->gpu),
					.serial = asked_text(o->serial),
					.part = asked_text(o->part),
					.program = asked_text(o->program),
					.job = asked_text(o->job),
					.fingerprint = asked_text(o->fingerprint),
					.open = o->open,
					.open_ever = !o->since && !o->until };
	struct uh_error *err = history_asked_known(k, ret);
	if (!err)
		err = history_asked_times(k, now, asked_text(o->since), asked_text(o->until), ret);
	// All changes count, and all that is open.
	if (!o->since && !o->remedies && !o->open)
		ret->since = (ret->until && ret->until < now ? ret->until : now) - WEEKS * 7 * DAY;
	return err;
}
