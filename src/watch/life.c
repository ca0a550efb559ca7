// The table of an incident's life, its guards and its actions.
//
// Rules that the table keeps, and tests/test_incident_life.c tries with a random walk: nothing is closed while anything about it is unknown; each
// id is closed once; what is told is stored first; hooks hear of a state that asks for it at least once.
#include "watch/life.h"

#include <stdlib.h>
#include <time.h>

#include "watch/watcher.h"

enum {
	RECENT_S = 600,         // evidence of what is older is gone
	RETRY_MS = 10000,       // of a file that could not be written
	CHECK_MOST_MS = 600000, // between looks at a GPU that is not well
	TELLERS = 2,            // more tries of hooks whose runner was killed
};

int64_t watch_kernel_ms(const struct watcher *w) { return w->now + w->clock_ms; }

int64_t watch_wall(const struct watcher *w, int64_t kernel_us)
{
	if (strcmp(w->log_boot, w->boot_id) != 0)
		return (w->log_began_us + kernel_us) / 1000000;
	return (int64_t)time(NULL) - (watch_kernel_ms(w) - kernel_us / 1000) / 1000;
}

// --- the list of cases ---

static void case_free(struct watch_case *c)
{
	arena_free(&c->arena);
	free(c);
}

bool cases_busy(const struct watcher *w)
{
	bool busy = false;
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		const bool full = c->unsaved > SAVE_NOW; // it could not be written: nothing is to be waited for
		busy |= !full && (case_is(c, AT(NEW) | CASES_BUSY) || (case_is(c, CASES_STORED) && c->unsaved));
	}
	return busy;
}

void cases_free(struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len; n++)
		case_free(w->cases.data[n]);
	vec_free(&w->cases);
}

void cases_forget(struct watcher *w)
{
	for (size_t n = 0; n < w->cases.len;) {
		struct watch_case *c = w->cases.data[n];
		const bool past = c->state == CASE_DROPPED || (c->state == CASE_OVER && !c->unsaved);
		if (past && c->order == NOT_IN_LOG && w->job.of != c) {
			case_free(c);
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
		cases_forget(w);
	if (w->cases.len == CASES_MOST) {
		voice_problem(&w->voice, "There are more incidents at once than are watched; some are left out.");
		return NULL;
	}
	struct watch_case *c = mem_alloc(sizeof(*c));
	c->order = NOT_IN_LOG;
	c->patience = CHECK_FIRST_MS;
	vec_push(&w->cases, c);
	return c;
}

// --- guards ---

/** Most need only one of the two. */
#define GUARD(name) static bool name(__attribute__((unused)) const struct watcher *w, const struct watch_case *c)
#define ACTION(name) static void name(__attribute__((unused)) struct watcher *w, struct watch_case *c)

GUARD(is_of_this_boot) { return str_is(c->stored.boot_id, w->boot_id); }

bool case_has_bundle(const struct watch_case *c) { return str_is(c->stored.bundle, "taken") || str_is(c->taken, "taken"); }

bool case_lasts(const struct stored *i) { return str_is(i->fault, "node"); }

GUARD(was_suspected) { return c->stored.state == STORED_SUSPECTED; }

GUARD(was_closed) { return c->stored.state == STORED_CLOSED; }

/** There is a bundle, or a reason why there is none. Of another boot there is nothing left to save. */
GUARD(evidence_is_settled) { return c->stored.bundle.n || c->taken.n || !is_of_this_boot(w, c); }

GUARD(has_nothing_to_explain) { return c->stored.bundle.n || !str_is(c->taken, "taken"); }

/** The log has more of it than its bundle, or nobody has explained that yet. */
GUARD(is_to_be_explained_late) { return case_has_bundle(c) && is_of_this_boot(w, c); }

GUARD(hooks_know_of_it) { return c->stored.hooks > 0; }

/** Who heard nothing of it need not hear that it is over. Who hears of it right now, must. */
static bool hooks_need_no_end(const struct watcher *w, const struct watch_case *c)
{
	const bool hear_now = w->job.of == c && w->job.kind == JOB_HOOKS;
	return c->stored.hooks != 1 && !hear_now;
}

GUARD(left_the_log) { return c->order == NOT_IN_LOG; }

GUARD(is_first_try) { return c->tries == 0; }

GUARD(may_tell_again) { return c->tries < TELLERS; }

/** Its GPU was seen, and seen to be well; if nobody knows which GPU it is, all were. What is not known is not well. */
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
	return found && well && !case_lasts(&c->stored);
}

/** What a new boot does not mend: the GPU itself is broken, or needs its power cut. */
GUARD(outlasts_boot)
{
	return case_lasts(&c->stored) && (str_is(c->stored.action, "replace") || str_is(c->stored.action, "power-cycle"));
}

// --- actions ---

void case_set(struct watch_case *c, struct str *to, struct str value)
{
	if (!value.n || str_eq(*to, value))
		return;
	*to = arena_str(&c->arena, value);
	c->unsaved = c->unsaved ? c->unsaved : SAVE_NOW;
}

void case_save(struct watcher *w, struct watch_case *c)
{
	_cleanup_text_ struct text record = { 0 }, why = { 0 };
	if (!c->unsaved || !case_is(c, CASES_STORED) || w->now < c->unsaved)
		return;
	stored_text(&c->stored, &record);
	const bool good = keeper_ask(w->keeper, KEEPER_SAVE, text_str(&record), &why, NULL);
	c->unsaved = good ? 0 : w->now + RETRY_MS;
	if (!good)
		voice_problem(&w->voice, why.p);
	w->state_old = true;
}

/** First on the disk, then to the world: a restart tells nothing twice. */
static void announce(struct watcher *w, struct watch_case *c, const char *what)
{
	c->stored.changed = (int64_t)time(NULL);
	c->stored.revision++;
	c->unsaved = SAVE_NOW;
	case_save(w, c);
	voice_incident(&w->voice, &c->stored, what);
}

/** Says in the record why there will be no bundle, where that is known from the start. */
static void decide_evidence(struct watcher *w, struct watch_case *c)
{
	const bool recent = is_of_this_boot(w, c) && watch_kernel_ms(w) / 1000 - c->stored.last_us / 1000000 < RECENT_S;
	if (c->stored.bundle.n || c->taken.n)
		return;
	if (!w->settings.capture)
		case_set(c, &c->stored.bundle, S("the configuration says capture no"));
	else if (!recent)
		case_set(c, &c->stored.bundle, S("it was over when unhang watch began"));
}

static void suspect(struct watcher *w, struct watch_case *c)
{
	c->stored.state = STORED_SUSPECTED;
	announce(w, c, "suspected");
}

static void open_told(struct watcher *w, struct watch_case *c)
{
	c->stored.state = STORED_OPEN;
	decide_evidence(w, c);
	announce(w, c, "opened");
}

/** Whether others hear of that, INPUT_CHANGED decides. */
ACTION(open_for_lines)
{
	c->stored.state = STORED_OPEN;
	c->check = 0; // the log says when it is quiet
}

static void open_suspicion(struct watcher *w, struct watch_case *c)
{
	open_for_lines(w, c);
	decide_evidence(w, c);
}

static void become_hung(struct watcher *w, struct watch_case *c)
{
	c->stored.state = STORED_HUNG;
	decide_evidence(w, c);
	announce(w, c, "hung");
	c->patience = CHECK_FIRST_MS;
	c->check = w->now + c->patience;
}

static void tell_changed(struct watcher *w, struct watch_case *c) { announce(w, c, "changed"); }

static void ask_for_look(struct watcher *w, struct watch_case *c)
{
	c->check = 1; // as soon as the GPU was looked at
	c->patience = CHECK_FIRST_MS;
	w->look_wanted = true;
}

/** Of a suspicion, soon; of what is known to be there, after a pause that grows. */
static void look_later(struct watcher *w, struct watch_case *c)
{
	c->check = w->now + c->patience;
	if (c->state != CASE_SUSPECTED)
		c->patience = c->patience * 2 < CHECK_MOST_MS ? c->patience * 2 : CHECK_MOST_MS;
}

ACTION(look_no_more) { c->check = 0; }

ACTION(count_try) { c->tries++; }

/** It may have left all that it saved: the next one packs that. */
ACTION(capture_again)
{
	c->tries++;
	c->taken = (struct str){ 0 };
}

/** What came of the capture stands in the record from now on: a watch that is killed before captures and explains again. */
static void tell_explained(struct watcher *w, struct watch_case *c)
{
	c->stored.bundle = c->taken.n ? c->taken : c->stored.bundle;
	c->unsaved = SAVE_NOW;
	suspicions_name_job(w, c);
	if (case_is(c, CASES_CLOSED))
		return;
	w->look_wanted = true;
	announce(w, c, "explained");
}

ACTION(forget_evidence)
{
	c->lacked = 0;
	c->taken = c->stored.bundle = (struct str){ 0 };
}

/** Behind the hooks: a watch that is killed meanwhile runs them again. Who must not act twice drops a revision that it knows. */
static void watch_life_note_told(struct watcher *w, struct watch_case *c)
{
	c->tries = 0;
	c->stored.hooks = case_is(c, CASES_CLOSED) && c->stored.hooks ? 2 : 1;
	c->unsaved = c->unsaved ? c->unsaved : SAVE_NOW;
	case_save(w, c);
}

static void end_with(struct watcher *w, struct watch_case *c, struct str why)
{
	c->stored.state = STORED_CLOSED;
	c->stored.closed_by = why;
	c->stored.ended = c->stored.last_us && is_of_this_boot(w, c) ? watch_wall(w, c->stored.last_us) : 0;
	c->check = 0;
	if (w->job.of == c && w->job.kind == JOB_EXPLAIN)
		jobs_stop(w); // it is explained once more, with its end
	announce(w, c, "closed");
}

static void end_given(struct watcher *w, struct watch_case *c) { end_with(w, c, c->why); }

static void end_well(struct watcher *w, struct watch_case *c)
{
	end_with(w, c, S("the GPU is well, and nothing new was reported"));
}

static void end_boot(struct watcher *w, struct watch_case *c) { end_with(w, c, S("the machine was started again")); }

// --- the table ---

const struct case_row case_rows[] = {
	// What the log, a look, a hold or an earlier watch tells for the first time.
	{ CASES_NEW, INPUT_CAUSELESS, NULL, NULL, CASE_CAUSELESS },
	{ CASES_NEW, INPUT_KNOWN, NULL, NULL, CASE_DROPPED },
	{ CASES_NEW, INPUT_RESUMED, was_suspected, NULL, CASE_SUSPECTED },
	{ AT(NEW), INPUT_RESUMED, was_closed, NULL, CASE_LATE_TELLING },
	{ CASES_NEW, INPUT_RESUMED, is_of_this_boot, decide_evidence, CASE_CAPTURING },
	{ CASES_NEW, INPUT_RESUMED, NULL, NULL, CASE_CAPTURING },
	{ AT(NEW), INPUT_SUSPECTED, NULL, suspect, CASE_SUSPECTED },
	{ CASES_NEW, INPUT_OPENED, NULL, open_told, CASE_CAPTURING },
	{ CASES_NEW, INPUT_LINES, NULL, NULL, CASE_DROPPED }, // they are another's: that goes on with them
	{ CASES_NEW, INPUT_CLOSE, NULL, NULL, CASE_DROPPED }, // it is a part of another
	{ CASES_NEW, INPUT_QUIETED, NULL, NULL, CASE_DROPPED },

	// A suspicion, which nobody but state.json is told of.
	{ AT(SUSPECTED), INPUT_HUNG, NULL, become_hung, CASE_CAPTURING },
	{ AT(SUSPECTED), INPUT_LINES, NULL, open_suspicion, CASE_CAPTURING },
	{ AT(SUSPECTED), INPUT_MOVES, NULL, end_given, CASE_OVER },
	{ AT(SUSPECTED), INPUT_LOOKED, is_well, end_well, CASE_OVER },
	{ AT(SUSPECTED), INPUT_LOOKED, NULL, look_later, CASE_SUSPECTED },
	{ AT(SUSPECTED), INPUT_UNSEEN, NULL, look_later, CASE_SUSPECTED },
	{ AT(SUSPECTED), INPUT_BOOT, NULL, end_boot, CASE_OVER },
	{ AT(SUSPECTED), INPUT_CLOSE, NULL, end_given, CASE_OVER },

	// Evidence, explanation, hooks: one after the other. INPUT_NEXT steps over what is done, or is not to be done.
	{ CASES_CAPTURING, INPUT_CAPTURED, NULL, NULL, CASE_SAME },
	{ CASES_CAPTURING, INPUT_REFUSED, NULL, NULL, CASE_SAME },
	{ CASES_CAPTURING, INPUT_UNCAPTURED, NULL, tell_explained, CASE_SAME },
	{ CASES_CAPTURING, INPUT_KILLED, is_first_try, capture_again, CASE_SAME },
	{ CASES_CAPTURING, INPUT_KILLED, NULL, tell_explained, CASE_SAME },
	{ AT(CAPTURING), INPUT_NEXT, evidence_is_settled, NULL, CASE_EXPLAINING },
	{ AT(EXPLAINING), INPUT_NEXT, has_nothing_to_explain, NULL, CASE_TELLING },
	{ AT(EXPLAINING), INPUT_EXPLAINED, NULL, tell_explained, CASE_TELLING },
	{ AT(TELLING), INPUT_NEXT, hooks_know_of_it, NULL, CASE_WATCHED },
	{ AT(TELLING), INPUT_TOLD, NULL, watch_life_note_told, CASE_WATCHED },
	{ CASES_TELLING, INPUT_TELLER_KILLED, may_tell_again, count_try, CASE_SAME },
	{ AT(TELLING), INPUT_TELLER_KILLED, NULL, watch_life_note_told, CASE_WATCHED },
	// Without an explanation the record has no bundle, so that the next start explains it. Who waits for news is told.
	{ CASES_EXPLAINING, INPUT_UNEXPLAINED, is_first_try, count_try, CASE_SAME },
	{ AT(EXPLAINING), INPUT_UNEXPLAINED, NULL, NULL, CASE_TELLING },
	{ AT(TELLING) | AT(WATCHED) | AT(QUIET), INPUT_ROOM, NULL, forget_evidence, CASE_CAPTURING },

	// What the log tells meanwhile.
	{ AT(QUIET), INPUT_LINES, NULL, open_for_lines, CASE_WATCHED },
	{ CASES_TOLD, INPUT_LINES, NULL, open_for_lines, CASE_SAME },
	{ CASES_TOLD, INPUT_CHANGED, NULL, tell_changed, CASE_SAME },
	{ CASES_TOLD, INPUT_QUIETED, NULL, ask_for_look, CASE_SAME },
	{ AT(WATCHED), INPUT_NEXT, left_the_log, NULL, CASE_QUIET },
	{ AT(DROPPED), INPUT_QUIETED, NULL, NULL, CASE_SAME }, // the engine still has what is none of ours
	{ AT(DROPPED), INPUT_CLOSE, NULL, NULL, CASE_SAME },

	// Whether it is over: as long as anything is to be done for it, nobody asks.
	{ AT(QUIET), INPUT_LOOKED, is_well, end_well, CASE_LATE_CAPTURING },
	{ AT(QUIET), INPUT_LOOKED, NULL, look_later, CASE_SAME },
	{ AT(QUIET), INPUT_UNSEEN, NULL, look_later, CASE_SAME },
	{ AT(QUIET), INPUT_BOOT, outlasts_boot, look_no_more, CASE_SAME },
	{ AT(QUIET), INPUT_BOOT, NULL, end_boot, CASE_LATE_CAPTURING },
	{ CASES_TOLD, INPUT_LOOKED, NULL, NULL, CASE_SAME },
	{ CASES_TOLD, INPUT_UNSEEN, NULL, NULL, CASE_SAME },
	{ CASES_TOLD, INPUT_BOOT, NULL, NULL, CASE_SAME },
	{ CASES_TOLD, INPUT_CLOSE, NULL, end_given, CASE_LATE_CAPTURING },

	// Closed, and something is left to do.
	{ AT(LATE_CAPTURING), INPUT_NEXT, is_to_be_explained_late, NULL, CASE_LATE_EXPLAINING },
	{ AT(LATE_CAPTURING), INPUT_NEXT, evidence_is_settled, NULL, CASE_LATE_TELLING },
	{ AT(LATE_EXPLAINING), INPUT_EXPLAINED, NULL, tell_explained, CASE_LATE_TELLING },
	{ AT(LATE_EXPLAINING), INPUT_UNEXPLAINED, NULL, NULL, CASE_LATE_TELLING },
	{ AT(LATE_TELLING), INPUT_NEXT, hooks_need_no_end, NULL, CASE_OVER },
	// It was closed while they ran: what they heard was that it is open.
	{ AT(LATE_EXPLAINING) | AT(LATE_TELLING), INPUT_TOLD, NULL, watch_life_note_told, CASE_SAME },
	{ AT(LATE_EXPLAINING) | AT(LATE_TELLING), INPUT_TELLER_KILLED, NULL, watch_life_note_told, CASE_SAME },
	{ CASES_LATE, INPUT_GIVE_WAY, NULL, NULL, CASE_OVER },
};
const size_t case_nrows = ARRAY_SIZE(case_rows);

static const struct case_row *row_of(const struct watcher *w, const struct watch_case *c, enum case_input input)
{
	for (const struct case_row *r = case_rows; r < case_rows + case_nrows; r++)
		if (case_is(c, r->states) && r->input == input && (!r->guard || r->guard(w, c)))
			return r;
	return NULL;
}

bool case_input(struct watcher *w, struct watch_case *c, enum case_input input)
{
	const struct case_row *row = row_of(w, c, input);
	if (!row) {
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "A defect of unhang watch: nothing is said of input %d in state %d; it is left out.", input,
			    c->state);
		voice_problem(&w->voice, line.p);
#ifdef UNHANG_DEBUG
		abort();
#endif
		return false;
	}
	for (; row; row = row_of(w, c, INPUT_NEXT)) {
		if (row->next != CASE_SAME && row->next != c->state) {
			c->state = row->next;
			c->tries = 0;
		}
		if (row->action)
			row->action(w, c);
		w->state_old = true;
	}
	return true;
}
