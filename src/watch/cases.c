// Incidents of the diagnosis become cases: told once, stored, and closed when they are over.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "diagnose/take.h"
#include "watch/parts.h"

enum {
	WAIT_FIRST_MS = 4000, // before a second conclusion; each one takes twice as long as the one before
	WAIT_MOST_MS = 3600000,
	CHECK_FIRST_MS = HUNG_CHECK_MS, // between looks at a GPU that is not well
	CHECK_MOST_MS = 600000,
	RETRY_MS = 10000,     // of a file that could not be written
	SUSPICION_MS = 10000, // between looks at a GPU that is suspected
	RECENT_S = 600,       // evidence of what is older is gone
	HELD_MS = 10000,      // from the first sign of a fault to the moment when its program is held
};

int64_t watch_kernel_ms(const struct watcher *w) { return now_ms() + w->clock_ms; }

/** The same at each start of the watch: of the host, the boot, and the first sign. */
static struct str id_of(struct watcher *w, struct arena *a, int64_t first_us, struct str sign)
{
	struct str when = arena_printf(a, "%lld", (long long)first_us);
	uint64_t id = str_hash(str_hash(STR_HASH_BEGIN, str_z(w->host)), str_z(w->log_boot));
	return arena_printf(a, "%016llx", (unsigned long long)str_hash(str_hash(id, when), sign));
}

/** Of a time in the boot whose records are read now. */
static int64_t wall(const struct watcher *w, int64_t kernel_us)
{
	if (strcmp(w->log_boot, w->boot_id) != 0)
		return (w->log_began_us + kernel_us) / 1000000;
	return (int64_t)time(NULL) - (watch_kernel_ms(w) - kernel_us / 1000) / 1000;
}

static uint64_t signs_of(const struct incident *i)
{
	uint64_t n = i->dropped;
	for (size_t k = 0; k < i->events.len; k++)
		n += i->events.data[k]->count;
	return n;
}

static struct watch_case *find(const struct watcher *w, uint64_t order)
{
	for (size_t n = 0; n < w->cases.len; n++)
		if (w->cases.data[n]->live && w->cases.data[n]->order == order)
			return w->cases.data[n];
	return NULL;
}

/** What is over, told and stored. */
static bool is_past(const struct watcher *w, const struct watch_case *c)
{
	const bool over = c->known && str_is(c->stored.state, "closed") && !c->hooks_wanted && !c->explain_wanted &&
			  !c->dirty && c->capture != CAPTURE_WANTED;
	return (over || c->done) && !c->live && w->job.of != c;
}

static void forget_past(struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len;) {
		struct watch_case *c = w->cases.data[n];
		if (is_past(w, c)) {
			arena_free(&c->arena);
			free(c);
			w->cases.data[n] = w->cases.data[--w->cases.len];
			w->state_old = true;
		} else {
			n++;
		}
	}
}

struct watch_case *case_add(struct watcher *w)
{
	if (w->cases.len == CASES_MOST)
		forget_past(w);
	if (w->cases.len == CASES_MOST) {
		voice_problem(&w->voice, "There are more incidents at once than are watched; some are left out.");
		return NULL;
	}
	struct watch_case *c = mem_alloc(sizeof(*c));
	vec_push(&w->cases, c);
	return c;
}

bool case_is_others(const struct stored *a, int64_t pid) { return a->pid && pid && a->pid != pid; }

void case_set(struct watch_case *c, struct str *to, struct str value)
{
	if (!value.n || str_eq(*to, value))
		return;
	*to = arena_str(&c->arena, value);
	c->dirty = true;
}

static void name_gpu(const struct watcher *w, struct watch_case *c)
{
	const struct watched_gpu *g = watched_gpu(w, c->stored.gpu);
	if (!g)
		return;
	case_set(c, &c->stored.unique_id, g->unique_id);
	case_set(c, &c->stored.serial, g->serial);
}

/** A job of a scheduler, which the record names behind the program, stays: the program may be gone by now. */
void case_name_program(struct watch_case *c, struct str name)
{
	if (name.n && str_find(c->stored.job, name) < 0)
		case_set(c, &c->stored.job, name);
}

/** Takes over what the incident says. true: its class is another than before. */
static bool take(struct watcher *w, struct watch_case *c, struct incident *i)
{
	struct stored *s = &c->stored;
	bool other = s->class.n && !str_eq(s->class, i->cause->head.id) && c->capture != CAPTURE_DONE;
	s->first_us = s->first_us ? s->first_us : (int64_t)(i->begin.seconds * 1e6);
	s->last_us = (int64_t)(i->end.seconds * 1e6);
	s->events = (int64_t)signs_of(i);
	str_number(incident_owner(i), &s->pid);
	case_set(c, &s->gpu, i->gpu.device);
	if (!c->known && !i->events.data[0]->at.line) // no line of the log told of it
		case_set(c, &s->origin, S(STORE_ORIGIN_KFD));
	if (c->capture != CAPTURE_DONE || !s->class.n) { // what was captured tells more than the log alone
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
	name_gpu(w, c);
	suspicions_name_job(w, c);
	c->signs = signs_of(i);
	c->dirty = true;
	return other;
}

void case_want_capture(struct watcher *w, struct watch_case *c)
{
	bool recent =
		str_is(c->stored.boot_id, w->boot_id) && watch_kernel_ms(w) / 1000 - c->stored.last_us / 1000000 < RECENT_S;
	if (c->stored.bundle.n || c->taken.n)
		c->capture = CAPTURE_DONE;
	else if (!w->settings.capture)
		case_set(c, &c->stored.bundle, S("the configuration says capture no"));
	else if (!recent)
		case_set(c, &c->stored.bundle, S("it was over when unhang watch began"));
	else
		c->capture = CAPTURE_WANTED;
}

/** Begins it, or goes on with what an earlier run of the watch stored. */
static void begin(struct watcher *w, struct watch_case *c, struct str sign)
{
	struct stored now = c->stored;
	struct str id = id_of(w, &c->arena, now.first_us, sign);
	const struct stored *old = restart_found(w, id, &now);
	if (old) {
		case_copy(c, old);
		c->stored.last_us = now.last_us > old->last_us ? now.last_us : old->last_us;
		c->stored.events = now.events;
		c->done = str_is(old->state, "closed"); // where its end is to be told, it is adopted
		c->dirty = false;
	} else if (restart_knows(w, &now)) {
		c->done = true;
	} else {
		c->stored.id = id;
		c->stored.state = c->stored.state.n ? c->stored.state : S("open");
		c->stored.host = str_z(w->host);
		c->stored.boot_id = arena_str(&c->arena, str_z(w->log_boot));
		c->stored.origin = c->stored.origin.n ? c->stored.origin : S("log");
		c->stored.began = wall(w, c->stored.first_us);
	}
	c->known = true;
	if (c->done)
		return;
	bool suspected = str_is(c->stored.state, "suspected");
	if (!suspected)
		case_want_capture(w, c);
	if (!old)
		case_announce(w, c, suspected ? "suspected" : "opened");
	if (suspected)
		return;
	c->hooks_wanted = c->stored.hooks < 1 && c->capture != CAPTURE_WANTED;
}

void case_save(struct watcher *w, struct watch_case *c, int64_t now)
{
	if (!c->dirty || !c->known || (c->retry && now < c->retry))
		return;
	struct text record = { 0 }, why = { 0 };
	stored_text(&c->stored, &record);
	bool good = hand_ask(w->hand, HAND_SAVE, text_str(&record), &why, NULL);
	c->dirty = !good;
	c->retry = good ? 0 : now + RETRY_MS;
	if (!good)
		voice_problem(&w->voice, why.p);
	text_free(&record);
	text_free(&why);
	w->state_old = true;
}

void case_announce(struct watcher *w, struct watch_case *c, const char *what)
{
	c->stored.changed = (int64_t)time(NULL);
	c->stored.revision++;
	c->dirty = true;
	c->retry = 0;
	case_save(w, c, now_ms()); // first on the disk, then to the world: a restart tells nothing twice
	voice_incident(&w->voice, &c->stored, what);
}

void case_close(struct watcher *w, struct watch_case *c, struct str why)
{
	c->stored.state = S("closed");
	c->stored.closed_by = why;
	c->stored.ended = c->stored.last_us && str_is(c->stored.boot_id, w->boot_id) ? wall(w, c->stored.last_us) : 0;
	c->check = 0;
	c->explain_wanted =
		(str_is(c->stored.bundle, "taken") || str_is(c->taken, "taken")) && str_is(c->stored.boot_id, w->boot_id);
	case_announce(w, c, "closed");
	c->hooks_wanted = c->stored.hooks == 1; // who heard nothing of it need not hear that it is over
}

// --- the engine's incidents ---

/** The driver tells of what a look had found before: that is one incident. */
static bool join_look(struct watcher *w, struct watch_case *c, struct incident *i)
{
	int64_t pid = 0;
	str_number(incident_owner(i), &pid);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *o = w->cases.data[n];
		const bool held = str_is(o->stored.origin, STORE_ORIGIN_HOLD);
		if (o->live || o->done || !o->known || (!held && !str_is(o->stored.origin, "look")) ||
		    str_is(o->stored.state, "closed") || case_is_others(&o->stored, pid) ||
		    !(str_eq(o->stored.gpu, i->gpu.device) || (held && !o->stored.gpu.n)))
			continue;
		o->live = true;
		o->order = c->order;
		o->due = c->due;
		o->wait = c->wait;
		o->check = 0;
		c->live = false;
		c->done = true;
		o->stored.state = S("open");
		const int64_t first = (int64_t)(i->begin.seconds * 1e6);
		o->stored.first_us =
			held && first < o->stored.first_us ? first : o->stored.first_us; // it is found again by its first line
		const bool other = take(w, o, i);
		case_want_capture(w, o);
		if (!held || other)
			case_announce(w, o, "changed");
		return true;
	}
	return false;
}

void cases_follow(struct watcher *w, int64_t now)
{
	struct incident *i;
	for (size_t n = 0; (i = engine_open(w->engine, n)) != NULL; n++) {
		struct watch_case *c = find(w, i->order);
		if (!c) {
			c = case_add(w);
			if (!c)
				continue;
			c->live = true;
			c->order = i->order;
			c->due = now + w->settings.settle;
			c->wait = WAIT_FIRST_MS;
		}
		if (now < c->due || signs_of(i) == c->signs || c->done)
			continue;
		i = engine_conclude(w->engine, n);
		c->due = now + c->wait;
		c->wait = c->wait * 2 < WAIT_MOST_MS ? c->wait * 2 : WAIT_MOST_MS;
		c->signs = signs_of(i);
		c->causeless = !i->cause;
		if (c->causeless)
			continue;
		if (!c->known && join_look(w, c, i))
			continue;
		bool other = take(w, c, i);
		if (!c->known)
			begin(w, c, i->events.data[0]->text);
		else if (other)
			case_announce(w, c, "changed");
	}
}

void cases_second(struct watcher *w, struct event *e)
{
	e->time = (struct stamp){ TIME_BOOT, (double)watch_kernel_ms(w) / 1000 };
	e->boot_id = str_z(w->boot_id);
	engine_second(w->engine, e);
	cases_follow(w, now_ms());
}

void cases_closed(void *ctx, struct incident *i)
{
	struct watcher *w = ctx;
	struct watch_case *c = find(w, i->order);
	if (!c && i->cause)
		c = case_add(w);
	if (c && !c->known && !i->cause)
		c->done = true;
	if (c && i->cause && !c->done) {
		take(w, c, i);
		if (!c->known)
			begin(w, c, i->events.data[0]->text);
		c->check = c->done ? 0 : 1; // as soon as the GPU was looked at
		c->patience = CHECK_FIRST_MS;
		w->look_wanted |= !c->done;
	}
	if (c && c->done && i->end.clock == TIME_BOOT) // an operator closed it: what comes later is another
		c->stored.last_us = (int64_t)(i->end.seconds * 1e6);
	if (c)
		c->live = false;
	incident_free(i);
}

void cases_joined(void *ctx, uint64_t from, uint64_t to)
{
	struct watcher *w = ctx;
	struct watch_case *c = find(w, from);
	const struct watch_case *first = find(w, to);
	if (!c)
		return;
	c->live = false;
	if (c->known && !c->done && first && first->known)
		case_close(w, c, arena_printf(&c->arena, "it is a part of incident " STR_FMT, STR_ARG(first->stored.id)));
	else
		c->done = true;
}

void cases_evidence(struct watcher *w, struct str gpu)
{
	bool waits = false;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		c->due = c->live && !c->known ? now_ms() : c->due; // before the evidence is gone
		waits |= !c->done && !str_is(c->stored.state, "closed");
	}
	struct watch_case *c = waits ? NULL : case_add(w);
	if (!c)
		return;
	c->stored.first_us = c->stored.last_us = watch_kernel_ms(w) * 1000;
	c->stored.origin = S("uevent");
	case_set(c, &c->stored.gpu, gpu);
	begin(w, c, S("uevent"));
	c->check = now_ms() + w->settings.quiet * 1000;
	c->patience = CHECK_FIRST_MS;
}

/** The incident that it belongs to: of its process, on its GPU, or where nobody knows these. One that has been open for long is another. */
static struct watch_case *held_case(const struct watcher *w, struct str gpu, int64_t pid)
{
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		const bool fresh = c->capture == CAPTURE_WANTED || watch_kernel_ms(w) - c->stored.first_us / 1000 < HELD_MS;
		if (c->known && !c->done && fresh && !str_is(c->stored.state, "closed") &&
		    !str_is(c->stored.state, "suspected") && !case_is_others(&c->stored, pid) &&
		    (!gpu.n || !c->stored.gpu.n || str_eq(c->stored.gpu, gpu)))
			return c;
	}
	return NULL;
}

void cases_held(struct watcher *w, struct str gpu, int64_t pid, int64_t now)
{
	for (size_t n = 0; n < w->cases.len; n++)
		if (w->cases.data[n]->live && !w->cases.data[n]->known)
			w->cases.data[n]->due = now;
	cases_follow(w, now);
	struct watch_case *c = held_case(w, gpu, pid) ? NULL : case_add(w);
	if (!c)
		return; // what is known of takes its bundle, or has it
	c->stored.first_us = c->stored.last_us = watch_kernel_ms(w) * 1000;
	c->stored.origin = S(STORE_ORIGIN_HOLD);
	c->stored.pid = pid;
	case_set(c, &c->stored.gpu, gpu);
	begin(w, c, S(STORE_ORIGIN_HOLD));
	c->check = now + w->settings.quiet * 1000;
	c->patience = CHECK_FIRST_MS;
}

// --- whether it is over ---

/** Whether its GPU was seen to be well; if nobody knows which GPU it is, whether all were. */
static bool is_well(const struct watcher *w, const struct watch_case *c)
{
	bool found = false, well = w->ngpus > 0;
	for (size_t n = 0; n < w->ngpus; n++) {
		const struct watched_gpu *g = &w->gpus[n];
		if (c->stored.gpu.n && !str_eq(g->pci, c->stored.gpu))
			continue;
		found = true;
		well &= g->seen && !g->unwell;
	}
	return found && well;
}

/** What only a look tells of. First that is a suspicion, which nobody is woken for. */
struct watch_case *case_begin_look(struct watcher *w, struct str gpu, struct str title)
{
	struct watch_case *c = case_add(w);
	if (!c)
		return NULL;
	c->stored.first_us = c->stored.last_us = watch_kernel_ms(w) * 1000;
	c->stored.origin = S("look");
	c->stored.state = S("suspected");
	case_set(c, &c->stored.gpu, gpu);
	case_set(c, &c->stored.title, title);
	name_gpu(w, c);
	begin(w, c, gpu);
	c->check = now_ms() + SUSPICION_MS;
	c->patience = SUSPICION_MS;
	return c;
}

bool case_lasts(const struct stored *i) { return str_is(i->fault, "node"); }

void cases_looked(struct watcher *w, int64_t now, bool answered)
{
	if (answered)
		suspicions_follow(w, now);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!c->known || c->done || str_is(c->stored.state, "closed"))
			continue;
		name_gpu(w, c);
		const bool unexplained = c->taken.n && !c->stored.bundle.n && (!c->unexplained || c->explain_wanted);
		if (!c->check || now < c->check || c->capture == CAPTURE_WANTED || unexplained || c->hooks_wanted)
			continue;
		if (!str_is(c->stored.boot_id, w->boot_id)) {
			c->check = 0;
			case_close_boot(w, c);
			continue;
		}
		if (answered && is_well(w, c) && !case_lasts(&c->stored)) {
			case_close(w, c, S("the GPU is well, and nothing new was reported"));
			continue;
		}
		c->check = now + c->patience;
		if (str_is(c->stored.state, "suspected"))
			continue;
		c->patience = c->patience * 2 < CHECK_MOST_MS ? c->patience * 2 : CHECK_MOST_MS;
	}
	w->state_old = true;
}

static int64_t sooner(int64_t a, int64_t b) { return b && (a < 0 || b < a) ? b : a; }

int64_t cases_next(const struct watcher *w, int64_t now)
{
	enum { TICK_MS = 1000 };
	int64_t next = -1;
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		next = c->live ? sooner(next, c->due > now ? c->due : now + TICK_MS) : next;
		next = c->check > 1 ? sooner(next, c->check) : next;
		next = c->dirty ? sooner(next, c->retry) : next;
	}
	return next;
}

/** Closes what was quiet for long, asks for looks that are due, and forgets what is done. */
void cases_sweep(struct watcher *w, int64_t now)
{
	engine_close_before(w->engine, (double)watch_kernel_ms(w) / 1000 - (double)w->settings.quiet);
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		w->look_wanted |= c->check && c->check > 1 && now >= c->check;
		case_save(w, c, now);
	}
	forget_past(w);
}

void cases_free(struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len; n++) {
		arena_free(&w->cases.data[n]->arena);
		free(w->cases.data[n]);
	}
	vec_free(&w->cases);
}
