// What the engine, looks, held programs and uevents tell becomes an input of a case; life.c says what comes of it. And a watch that begins
// goes on with what an earlier one stored: the log is read once more, and each incident is found again.
#include <stdio.h>
#include <time.h>

#include "diagnose/identity.h"
#include "diagnose/take.h"
#include "watch/watcher.h"

enum {
	WAIT_FIRST_MS = 4000, // before a second conclusion; each one takes twice as long as the one before
	WAIT_MOST_MS = 3600000,
	SUSPICION_MS = 10000, // between looks at a GPU that is suspected
	HELD_MS = 10000,      // from the first sign of a fault to the moment when its program is held
	ASK_MS = 2000,        // between questions whether an operator wants something closed
	PLACE_AGAIN_MS = 60000,
	MESSAGE_MS = 300, // the kernel writes the lines of one message faster than that
};

/** NULL: the engine's incident is none of ours yet. */
static struct watch_case *case_of_order(const struct watcher *w, uint64_t order)
{
	return list_find_of(w->cases.data, w->cases.len, it, it->order == (int64_t)order);
}

/** Whether it is known to be of another process. */
static bool case_is_others(const struct stored *a, int64_t pid) { return a->pid && pid && a->pid != pid; }

void case_name_program(struct watch_case *c, struct str name)
{
	if (name.n && str_find(c->stored.job, name) < 0)
		case_set(c, &c->stored.job, name);
}

static void cases_name_gpu(const struct watcher *w, struct watch_case *c)
{
	const struct watched_gpu *g = watched_gpu(w, c->stored.gpu);
	if (!g)
		return;
	case_set(c, &c->stored.unique_id, g->unique_id);
	case_set(c, &c->stored.serial, g->serial);
}

// --- a case begins, or is found again ---

/** The name of one that no event of the engine begins. */
static struct str id_of(const struct watcher *w, struct watch_case *c, enum first_event first)
{
	const struct identity own = { str_z(w->log_boot), c->stored.gpu, .first = first, .us = c->stored.first_us };
	return identity_name(&own, &c->arena);
}

/** What is stored of it already: by its id, or where its first lines are gone from the log, by GPU, process and time. */
static const struct stored *stored_before(const struct watcher *w, struct str id, const struct stored *now)
{
	const struct stored *same = list_find_of(w->before.list.data, w->before.list.len, it, str_eq(it->id, id));
	return same ? same :
		      list_find_of(w->before.list.data, w->before.list.len, it,
				   str_is(it->boot_id, w->log_boot) && str_eq(it->gpu, now->gpu) && it->first_us <= now->first_us &&
					   now->first_us <= it->last_us && !case_is_others(it, now->pid));
}

/** Whether an earlier run has stored and told it, and its vacuum removed it since. */
static bool told_before(const struct watcher *w, const struct stored *i)
{
	return str_is(str_z(w->place.boot_id), w->log_boot) && i->last_us <= w->place.microseconds;
}

static void case_copy(struct watch_case *c, const struct stored *from)
{
	_cleanup_text_ struct text text = { 0 };
	stored_text(from, &text);
	stored_parse(text_str(&text), &c->arena, &c->stored);
}

/** Begins it, or goes on with what an earlier run of the watch stored. Where only the end of that is to be told, it is adopted later. */
static void case_begin(struct watcher *w, struct watch_case *c, enum case_input how, struct str id)
{
	const struct stored now = c->stored;
	const struct stored *old = stored_before(w, id, &now);
	if (old ? old->state == STORED_CLOSED : told_before(w, &now)) {
		case_input(w, c, INPUT_KNOWN);
	} else if (old) {
		case_copy(c, old);
		c->stored.last_us = now.last_us > old->last_us ? now.last_us : old->last_us;
		c->stored.events = now.events;
		c->unsaved = 0;
		case_input(w, c, INPUT_RESUMED);
		if (how == INPUT_OPENED && c->state == CASE_SUSPECTED)
			case_input(w, c, INPUT_LINES);
	} else {
		c->stored.id = arena_str(&c->arena, id);
		c->stored.host = str_z(w->host);
		c->stored.boot_id = arena_str(&c->arena, str_z(w->log_boot));
		c->stored.origin = c->stored.origin.n ? c->stored.origin : S("log");
		c->stored.began = watch_wall(w, c->stored.first_us);
		case_input(w, c, how);
	}
}

/** One that the log does not tell of: it begins now, and is looked after in @check_ms. NULL: there are too many. */
static struct watch_case *case_begin_now(struct watcher *w, const char *origin, struct str gpu, int64_t check_ms)
{
	struct watch_case *c = case_add(w);
	if (!c)
		return NULL;
	c->stored.first_us = c->stored.last_us = watch_kernel_ms(w) * 1000;
	c->stored.origin = str_z(origin);
	case_set(c, &c->stored.gpu, gpu);
	c->check = w->now + check_ms;
	return c;
}

struct watch_case *cases_suspect(struct watcher *w, struct str gpu, struct str title)
{
	struct watch_case *c = case_begin_now(w, "look", gpu, SUSPICION_MS);
	if (!c)
		return NULL;
	c->patience = SUSPICION_MS;
	case_set(c, &c->stored.title, title);
	cases_name_gpu(w, c);
	const struct str seen = suspicions_incident(w, gpu); // as the look itself names it
	case_begin(w, c, INPUT_SUSPECTED, seen.n ? seen : id_of(w, c, FIRST_SEEN));
	return c;
}

// --- the engine's incidents ---

static uint64_t signs_of(const struct incident *i)
{
	uint64_t n = i->dropped;
	for (size_t k = 0; k < i->events.len; k++)
		n += i->events.data[k]->count;
	return n;
}

/** Takes over what the incident says. true: its class is another than before. */
static bool case_take(struct watcher *w, struct watch_case *c, struct incident *i)
{
	struct stored *s = &c->stored;
	const bool other = s->class.n && !str_eq(s->class, i->cause->head.id) && !case_has_bundle(c);
	s->first_us = s->first_us ? s->first_us : (int64_t)(i->begin.seconds * 1e6);
	s->last_us = (int64_t)(i->end.seconds * 1e6);
	s->events = (int64_t)signs_of(i);
	str_number(incident_owner(i), &s->pid);
	case_set(c, &s->gpu, i->gpu.device);
	case_set(c, &s->reset_source, diag_value(i->events.data[0], "reset_source"));
	if (case_is(c, CASES_NEW) && !i->events.data[0]->at.line) // no line of the log told of it
		case_set(c, &s->origin, str_z(diag_find(i->events.data[0], S("ras_fatal_new")) ? STORE_ORIGIN_COUNTED : STORE_ORIGIN_KFD));
	if (!case_has_bundle(c) || !s->class.n) { // what was captured tells more than the log alone
		case_set(c, &s->class, i->cause->head.id);
		case_set(c, &s->title, i->title);
		case_set(c, &s->fault, i->fault);
		case_set(c, &s->fingerprint, i->fingerprint);
		incident_choose_action(i, w->know);
		case_set(c, &s->action, i->action->action);
		case_set(c, &s->fit, incident_fit(i));
	}
	if (i->processes.len)
		case_name_program(c, i->processes.data[0].name);
	cases_name_gpu(w, c);
	suspicions_name_job(w, c);
	c->signs = signs_of(i);
	c->unsaved = c->unsaved ? c->unsaved : SAVE_NOW;
	return other;
}

/** What a look or a held program told of before the driver did: both are one incident. NULL: there is none. */
static struct watch_case *told_by_others(const struct watcher *w, const struct incident *i)
{
	int64_t pid = 0;
	str_number(incident_owner(i), &pid);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *o = w->cases.data[n];
		const bool held = str_is(o->stored.origin, STORE_ORIGIN_HOLD);
		if (o->order == NOT_IN_LOG && case_is(o, CASES_OPEN) && (held || str_is(o->stored.origin, "look")) &&
		    !case_is_others(&o->stored, pid) && (str_eq(o->stored.gpu, i->gpu.device) || (held && !o->stored.gpu.n)))
			return o;
	}
	return NULL;
}

/** @o goes on with what the driver tells; @c, which the engine's incident was until now, was never told. */
static void case_take_over(struct watcher *w, struct watch_case *o, struct watch_case *c, struct incident *i)
{
	const bool held = str_is(o->stored.origin, STORE_ORIGIN_HOLD);
	const int64_t first = (int64_t)(i->begin.seconds * 1e6);
	o->order = c->order;
	o->due = c->due;
	o->wait = c->wait;
	c->order = NOT_IN_LOG;
	case_input(w, c, INPUT_LINES);
	if (held && first < o->stored.first_us)
		o->stored.first_us = first; // it is found again by its first line
	const bool other = case_take(w, o, i);
	case_input(w, o, INPUT_LINES);
	if (!held || other)
		case_input(w, o, INPUT_CHANGED);
}

void cases_follow(struct watcher *w, int64_t now)
{
	struct incident *i;
	for (size_t n = 0; (i = engine_open(w->engine, n)) != NULL; n++) {
		struct watch_case *c = case_of_order(w, i->order);
		if (!c) {
			c = case_add(w);
			if (!c)
				continue;
			c->order = (int64_t)i->order;
			c->due = now + w->settings.settle;
			c->wait = WAIT_FIRST_MS;
		}
		if (now < c->due || signs_of(i) == c->signs || c->state == CASE_DROPPED)
			continue;
		i = engine_conclude(w->engine, n);
		c->due = now + c->wait;
		c->wait = c->wait * 2 < WAIT_MOST_MS ? c->wait * 2 : WAIT_MOST_MS;
		c->signs = signs_of(i);
		if (!i->cause) {
			if (case_is(c, CASES_NEW))
				case_input(w, c, INPUT_CAUSELESS);
			continue;
		}
		struct watch_case *o = case_is(c, CASES_NEW) ? told_by_others(w, i) : NULL;
		if (o) {
			case_take_over(w, o, c, i);
			continue;
		}
		const bool other = case_take(w, c, i);
		if (case_is(c, CASES_NEW))
			case_begin(w, c, INPUT_OPENED, i->id);
		else if (other)
			case_input(w, c, INPUT_CHANGED);
	}
}

void cases_second(struct watcher *w, struct event *e)
{
	e->time = (struct stamp){ TIME_BOOT, (double)watch_kernel_ms(w) / 1000 };
	e->boot_id = str_z(w->boot_id);
	engine_second(w->engine, e);
	cases_follow(w, w->now);
}

void cases_closed(void *ctx, struct incident *i)
{
	struct watcher *w = ctx;
	struct watch_case *c = case_of_order(w, i->order);
	if (!c && i->cause)
		c = case_add(w);
	if (c && i->cause && c->state != CASE_DROPPED) {
		case_take(w, c, i);
		if (case_is(c, CASES_NEW))
			case_begin(w, c, INPUT_OPENED, i->id);
	}
	if (c) {
		c->order = NOT_IN_LOG;
		case_input(w, c, INPUT_QUIETED);
	}
	incident_free(i);
}

void cases_joined(void *ctx, uint64_t from, uint64_t to)
{
	struct watcher *w = ctx;
	struct watch_case *c = case_of_order(w, from);
	const struct watch_case *first = case_of_order(w, to);
	if (!c)
		return;
	c->order = NOT_IN_LOG;
	case_close(w, c, INPUT_CLOSE,
		   first && case_is(first, CASES_STORED) ?
			   arena_printf(&c->arena, "it is a part of incident " STR_FMT, STR_ARG(first->stored.id)) :
			   S("it is a part of another incident"));
}

// --- evidence that does not wait for the log ---

/** What the log has begun to tell is concluded now, before the evidence is gone. */
static void hurry(struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len; n++)
		if (case_is(w->cases.data[n], CASES_NEW))
			w->cases.data[n]->due = w->now;
}

void cases_evidence(struct watcher *w, struct str gpu)
{
	bool waits = false;
	hurry(w);
	for (size_t n = 0; n < w->cases.len; n++)
		waits |= case_is(w->cases.data[n], CASES_NEW | CASES_OPEN);
	struct watch_case *c = waits ? NULL : case_begin_now(w, "uevent", gpu, w->settings.quiet * 1000);
	if (c)
		case_begin(w, c, INPUT_OPENED, id_of(w, c, FIRST_SIGNALED));
}

/** The incident that it belongs to: of its process, on its GPU, or where nobody knows these. One that has been open for long is another. */
static bool is_held_for(const struct watcher *w, const struct watch_case *c, struct str gpu, int64_t pid)
{
	const bool fresh = c->state == CASE_CAPTURING || watch_kernel_ms(w) - c->stored.first_us / 1000 < HELD_MS;
	return case_is(c, CASES_TOLD) && fresh && !case_is_others(&c->stored, pid) &&
	       (!gpu.n || !c->stored.gpu.n || str_eq(c->stored.gpu, gpu));
}

void cases_held(struct watcher *w, const struct hold_told *told)
{
	hurry(w);
	cases_follow(w, w->now);
	for (size_t n = 0; n < w->cases.len; n++)
		if (is_held_for(w, w->cases.data[n], told->gpu, told->pid))
			return; // it takes its bundle, or has it
	struct watch_case *c = case_begin_now(w, STORE_ORIGIN_HOLD, told->gpu, w->settings.quiet * 1000);
	if (!c)
		return;
	c->stored.pid = told->pid;
	const struct identity own = identity_recorded(str_z(w->log_boot), told->pid, told->began, told->number);
	case_begin(w, c, INPUT_OPENED, identity_name(&own, &c->arena));
}

// --- whether it is over ---

void case_close(struct watcher *w, struct watch_case *c, enum case_input input, struct str why)
{
	c->why = why;
	case_input(w, c, input);
}

/** What comes behind it, of the same trouble, is a new incident: the engine's ends with it. */
static void close_from_outside(struct watcher *w, struct watch_case *c, struct str why)
{
	if (c->order != NOT_IN_LOG)
		engine_close(w->engine, (uint64_t)c->order);
	case_close(w, c, INPUT_CLOSE, why);
}

void cases_looked(struct watcher *w, bool answered)
{
	if (answered)
		suspicions_follow(w);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!case_is(c, CASES_OPEN))
			continue;
		if (answered && watched_other_card(w, &c->stored)) {
			close_from_outside(w, c, S("another card is in its place: the serial number differs"));
			continue;
		}
		cases_name_gpu(w, c);
		if (c->check && w->now >= c->check)
			case_input(w, c,
				   !str_is(c->stored.boot_id, w->boot_id) ? INPUT_BOOT :
				   answered                               ? INPUT_LOOKED :
									    INPUT_UNSEEN);
	}
	w->state_old = true;
}

/** An operator closes what does not end by itself: a GPU that was replaced does not say so. */
static void close_asked(struct watcher *w)
{
	if (w->now < w->asked + ASK_MS)
		return;
	w->asked = w->now;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		_cleanup_text_ struct text why = { 0 };
		if (case_is(c, CASES_OPEN) && keeper_ask(w->keeper, KEEPER_CLOSES, c->stored.id, &why, NULL))
			close_from_outside(w, c, store_closed_by(&c->arena, text_str(&why)));
	}
}

/** The oldest that somebody waits for and that is not the node's; NULL: there are not too many. */
static struct watch_case *one_too_many(const struct watcher *w)
{
	enum { AT_ONCE = 64 };
	size_t waited_for = 0;
	struct watch_case *oldest = NULL;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!case_is(c, CASES_OPEN | CASES_LATE))
			continue;
		waited_for++;
		if (!case_lasts(&c->stored) && c != w->job.of && (!oldest || c->stored.first_us < oldest->stored.first_us))
			oldest = c;
	}
	return waited_for > AT_ONCE ? oldest : NULL;
}

/** A user can make programs fault as fast as he likes. What is not the node's gives way, the oldest first: an error of the hardware must find
 * a place, and nobody acts on a hundred faults of programs one by one. */
static void make_room(struct watcher *w)
{
	struct watch_case *c;
	while ((c = one_too_many(w)) != NULL) {
		if (case_is(c, CASES_OPEN))
			close_from_outside(w, c, S("there are too many at once to follow each"));
		if (case_is(c, CASES_LATE))
			case_input(w, c, INPUT_GIVE_WAY);
	}
}

void cases_sweep(struct watcher *w)
{
	close_asked(w);
	make_room(w);
	engine_close_before(w->engine, (double)watch_kernel_ms(w) / 1000 - (double)w->settings.quiet);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		w->look_wanted |= c->check > 1 && w->now >= c->check;
		case_save(w, c);
	}
	cases_forget(w);
}

static int64_t sooner(int64_t a, int64_t b) { return a < 0 || b < a ? b : a; }

int64_t cases_next(const struct watcher *w)
{
	enum { TICK_MS = 1000 };
	int64_t next = -1;
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		if (c->order != NOT_IN_LOG)
			next = sooner(next, c->due > w->now ? c->due : w->now + TICK_MS);
		if (c->check > 1)
			next = sooner(next, c->check);
		if (c->unsaved > SAVE_NOW)
			next = sooner(next, c->unsaved);
		if (w->ready && case_is(c, CASES_OPEN))
			next = sooner(next, w->asked + ASK_MS > w->now ? w->asked + ASK_MS : w->now);
	}
	return next;
}

// --- after a restart ---

void cases_replay(struct watcher *w, double seconds)
{
	struct incident *i;
	// The last sign has lines behind it that say more of it.
	const double later = seconds - (double)w->settings.settle / 1000;
	for (size_t n = 0; n < w->before.list.len; n++) {
		const struct stored *s = w->before.list.data[n];
		if (s->state != STORED_CLOSED || !str_is(s->boot_id, w->log_boot) || (double)s->last_us / 1e6 >= later)
			continue;
		for (size_t k = 0; (i = engine_open(w->engine, k)) != NULL; k++)
			if ((int64_t)(i->begin.seconds * 1e6) == s->first_us) {
				engine_close(w->engine, i->order);
				break;
			}
	}
}

void cases_adopt(struct watcher *w)
{
	for (size_t n = 0; n < w->before.list.len; n++) {
		const struct stored *s = w->before.list.data[n];
		// Its end was not told to the hooks, or they were killed with the watch meanwhile.
		const bool end_untold = s->state == STORED_CLOSED && s->hooks == 1;
		bool met = s->state == STORED_CLOSED && !end_untold;
		for (size_t k = 0; k < w->cases.len && !met && !end_untold; k++)
			met = case_is(w->cases.data[k], CASES_STORED) && str_eq(w->cases.data[k]->stored.id, s->id);
		struct watch_case *c = met ? NULL : case_add(w);
		if (!c)
			continue;
		case_copy(c, s);
		c->lacked = jobs_lack_room(s->bundle);
		c->check = !end_untold; // as soon as the GPU was looked at; one of another boot when the hooks were told of it
		case_input(w, c, INPUT_RESUMED);
		if (!end_untold && !str_is(s->boot_id, w->boot_id))
			case_input(w, c, INPUT_BOOT);
		w->look_wanted |= c->check != 0;
	}
}

/** Seldom: what is read once more costs little. Not in the middle of a message of several lines, whose first one is no case yet: it would
 * count as stored. */
void cases_keep_place(struct watcher *w)
{
	_cleanup_text_ struct text text = { 0 }, why = { 0 };
	const bool early = w->now < w->keep_due && !w->stop, amid = w->now < w->read_at + MESSAGE_MS;
	if (w->read.sequence == w->kept.sequence || early || amid)
		return;
	for (size_t n = 0; n < w->cases.len; n++)
		if (w->cases.data[n]->state == CASE_NEW ||
		    (case_is(w->cases.data[n], CASES_STORED) && w->cases.data[n]->unsaved))
			return;
	diary_keep(w);
	store_place_text(&w->read, &text);
	if (keeper_ask(w->keeper, KEEPER_PLACE, text_str(&text), &why, NULL))
		w->kept = w->read;
	else
		voice_problem(&w->voice, why.p);
	w->keep_due = w->now + PLACE_AGAIN_MS;
}
