#include "diagnose/trial/bisect.h"

#include <math.h>
#include <stdlib.h>

#include "base/print.h"

/** What the search may be wrong about: it is shown afterwards. */
#define SEEMS 0.03
/** The parts of the error that each test may have. A pair is named only if it is shown twice: the failure comes more often with the first of the
 * two late, and is gone with the two in order. A wrong pair has to pass both, so that each may have all of the error, and not a share of it.
 * Without a race, what is left is a wrong `it vanishes'. */
static const double of_serial = 0.1, of_raise_seen = 0.45, of_raise_fresh = 0.45, of_confirm = 0.9;
/** And a right answer may be withdrawn because the job did not happen to fail behind it. */
static const double of_again = 0.2;
enum {
	PASSES_WANTED = 8,
	CONTROL_LEAST = 16,
	CONTROL_MOST = 400,
	SERIAL_FAILURES = 2,
	VOID_MOST = 8, // runs in a row that do not count
	DELAYS = 2,    // how often longer ones are tried
	AT_ONCE = 64,
	ALWAYS_LOOK = 4,  // a job whose first runs all fail is first asked whether order matters at all
	NOWHERE_LOOK = 3, // failed runs that may have ended before they came to a GPU
};

struct bisecting {
	const struct bisect_options *o;
	const struct bisect_hands *hands;
	struct bisect_result *r;
	unsigned attempts; // to show a pair
	unsigned delayed;  // launches that were made late so far
	double seconds;    // of a run
	bool over;         // no more time
	unsigned nowhere;  // runs of which nothing was recorded, before any of which something was
	bool somewhere;
};

const char *bisect_verdict_name(enum bisect_verdict v)
{
	static const char *const names[] = { "unfinished", "no-failure", "unresolved-hides", "no-race", "race", "unresolved",
					     "unresolved-rare", "unresolved-changed", "not-recorded" };
	return names[v];
}

// --- questions ---

static struct bisect_question *question_new(struct bisecting *b, enum bisect_stage stage, struct tally control, double error)
{
	struct bisect_question q = { .stage = stage, .control = control, .error = error, .early = SIZE_MAX, .late = SIZE_MAX };
	vec_push(&b->r->questions, q);
	return &b->r->questions.data[b->r->questions.len - 1];
}

/** Makes up to @n runs. false: there is no more time, or none of them counts. */
static bool question_ask(struct bisecting *b, struct bisect_question *q, unsigned n)
{
	struct trial_outcome out[AT_ONCE];
	for (unsigned empty = 0; empty < VOID_MOST; empty++) {
		const unsigned done = b->over ? 0 : b->hands->run(b->hands->ctx, q, n < AT_ONCE ? n : AT_ONCE, out);
		if (!done) {
			b->over = true;
			return false;
		}
		unsigned counted = 0;
		for (unsigned i = 0; i < done; i++) {
			b->r->runs++;
			b->r->void_runs += out[i].lost;
			b->somewhere |= out[i].somewhere;
			if (out[i].nowhere && !b->somewhere)
				b->nowhere += out[i].failed ? 1 : NOWHERE_LOOK; // one that ended well was all of it
			if (out[i].lost)
				continue;
			counted++;
			q->tally.runs++;
			q->tally.failed += out[i].failed;
			b->seconds += (out[i].seconds - b->seconds) / (b->r->runs < 8 ? b->r->runs : 8);
		}
		if (counted)
			return true;
	}
	return false;
}

/** @error: that Fisher's test is asked for. */
static enum trial_answer ask_vanishes(struct bisecting *b, struct bisect_question *q, double error)
{
	const unsigned needed = clean_needed_after(q->control, error);
	while (needed && (q->answer = trial_vanishes(q->control, q->tally, error)) == TRIAL_GOES_ON)
		if (!question_ask(b, q, needed > q->tally.runs ? needed - q->tally.runs : 1))
			break;
	return q->answer;
}

static enum trial_answer ask_seems_raised(struct bisecting *b, struct bisect_question *q)
{
	while ((q->answer = trial_seems_raised(q->control, q->tally)) == TRIAL_GOES_ON)
		if (!question_ask(b, q, 1))
			break;
	return q->answer;
}

// --- tables ---

void bisect_op_put(struct text *t, const struct bisect_op *o)
{
	if (o->place == PLACE_COPIES)
		text_add(t, S("copies *"));
	else
		text_printf(t, "%d " STR_FMT, o->place, STR_ARG(o->name));
}

static struct str table_end(struct bisecting *b, struct text *t)
{
	const struct bisect_launches *l = &b->r->launches;
	for (size_t i = 0; i < l->ops.len; i++)
		if (l->ops.data[i].left_out)
			text_printf(t, "except * " STR_FMT "\n", STR_ARG(l->ops.data[i].name));
	struct str table =
		arena_printf(&b->r->arena, "unhang-waits 1\ndeadline %u\n" STR_FMT, b->o->deadline, STR_ARG(text_str(t)));
	text_free(t);
	return table;
}

/** The earlier one begins later; by @us microseconds, 0: it does not. The later one waits for it: or not. */
static struct str table_pair(struct bisecting *b, size_t early, size_t late, unsigned us, bool wait)
{
	const struct bisect_op *ops = b->r->launches.ops.data;
	struct text t = { 0 };
	if (us) {
		text_add(&t, S("delay "));
		bisect_op_put(&t, &ops[early]);
		text_printf(&t, " %u\n", us);
	}
	if (wait && ops[late].place == PLACE_HOST) {
		text_add(&t, S("host "));
		bisect_op_put(&t, &ops[early]);
		text_add(&t, S("\n"));
	} else if (wait) {
		text_add(&t, S("wait "));
		bisect_op_put(&t, &ops[late]);
		text_add(&t, S(" for "));
		bisect_op_put(&t, &ops[early]);
		text_add(&t, S("\n"));
	}
	return table_end(b, &t);
}

static struct str op_words(struct arena *a, const struct bisect_op *o)
{
	if (o->place == PLACE_HOST)
		return S("the host");
	if (o->place == PLACE_COPIES)
		return S("copies");
	return arena_printf(a, STR_FMT " on queue %d", STR_ARG(o->plain), o->place);
}

// --- stages ---

/** How often it fails with queues that could wait, and do not. @first: no more than tells that it seems to fail always. */
static bool control_run(struct bisecting *b, bool first)
{
	struct bisect_result *r = b->r;
	const unsigned clean = clean_needed(b->o->low_rate, b->o->error);
	struct bisect_question *q = first ? question_new(b, STAGE_CONTROL, (struct tally){ 0 }, b->o->error) :
					    &r->questions.data[0];
	q->key = S("control");
	q->words = S("the job unchanged");
	q->table = S("unhang-waits 1\n");
	for (;;) {
		const struct tally t = q->tally;
		const unsigned passed = t.runs - t.failed;
		r->control = t;
		if (b->nowhere >= NOWHERE_LOOK) {
			r->verdict = BISECT_NOWHERE;
			return false;
		}
		if (first && t.runs == ALWAYS_LOOK && t.failed == t.runs)
			return true;
		if (!t.failed && t.runs >= clean)
			return true;
		if (t.runs >= CONTROL_LEAST && t.failed >= FAILURES_WANTED && (passed >= PASSES_WANTED || !passed))
			return true;
		if (t.runs >= CONTROL_MOST || tally_too_rare(t, b->o->low_rate, b->o->error))
			return true;
		const unsigned most = t.failed ? FAILURES_WANTED - (t.failed < FAILURES_WANTED ? t.failed : 3) : clean - t.runs;
		const unsigned least = t.runs < CONTROL_LEAST ? CONTROL_LEAST - t.runs : 1;
		const unsigned n = least < most ? most : least;
		const bool looks = first && t.failed == t.runs && n > ALWAYS_LOOK - t.runs;
		if (!question_ask(b, q, looks ? ALWAYS_LOOK - t.runs : n))
			return false;
	}
}

/** The answer rests on runs that did not fail, and holds only if the job as it is still does behind them: it may have healed by itself. */
static enum bisect_verdict control_again(struct bisecting *b, enum bisect_verdict answer)
{
	const struct tally before = b->r->control;
	struct bisect_question *q = &b->r->questions.data[0];
	for (struct tally behind = { 0 }; !behind.failed;) {
		if (tally_fewer(before, behind) <= of_again * b->o->error) {
			b->r->paired = false;
			return BISECT_CHANGED;
		}
		if (!question_ask(b, q, 1))
			return BISECT_UNFINISHED;
		b->r->control = q->tally;
		behind = (struct tally){ q->tally.runs - before.runs, q->tally.failed - before.failed };
	}
	return answer;
}

/** It did not fail: does it without the recorder? */
static void bare_run(struct bisecting *b)
{
	struct bisect_question *q = question_new(b, STAGE_BARE, (struct tally){ 0 }, b->o->error);
	const unsigned clean = clean_needed(b->o->low_rate, b->o->error);
	q->key = S("bare");
	q->words = S("without the recorder");
	enum trial_answer hides;
	while ((hides = trial_hides(b->r->control, q->tally, clean, b->o->error)) == TRIAL_GOES_ON) {
		const bool asked = question_ask(b, q, clean - q->tally.runs);
		b->r->bare = q->tally;
		if (!asked)
			return;
	}
	q->answer = q->tally.failed ? TRIAL_NO : TRIAL_YES;
	b->r->verdict = hides == TRIAL_YES ? BISECT_HIDES : q->tally.failed ? BISECT_RARE : BISECT_NEVER;
}

/** Each launch waits for all before it, and the host for each. @most runs now. */
static enum trial_answer serial_run(struct bisecting *b, size_t *at, unsigned most)
{
	if (*at == SIZE_MAX) {
		struct bisect_question *q = question_new(b, STAGE_SERIAL, b->r->control, of_serial * b->o->error);
		struct text t = { 0 };
		text_add(&t, S("wait * * for * *\nhost * *\n"));
		*at = b->r->questions.len - 1;
		q->key = S("serial");
		q->words = S("every launch waits for all before it, and the host for every launch");
		q->table = table_end(b, &t);
	}
	struct bisect_question *q = &b->r->questions.data[*at];
	const unsigned needed = clean_needed_after(q->control, q->error);
	while (q->tally.runs < most || q->tally.failed) {
		if (q->tally.failed >= SERIAL_FAILURES && tally_fewer(q->control, q->tally) > 0.05)
			return q->answer = TRIAL_NO;
		if (q->tally.runs >= needed)
			return q->answer = q->tally.failed ? TRIAL_GOES_ON : TRIAL_YES;
		if (!question_ask(b, q, q->tally.failed ? 1 : needed - q->tally.runs))
			break;
	}
	return TRIAL_GOES_ON;
}

/** So much later that it matters, and that the run still ends soon. */
static unsigned delay_for(const struct bisecting *b, const struct bisect_op *o, unsigned round)
{
	const double us = b->seconds * 5e5 / (o->launches ? o->launches : 1) * (round ? 8 : 1);
	const double most = round ? 400000 : 50000;
	return (unsigned)(us < 2000 ? 2000 : us > most ? most : us);
}

/** The positive test: with the window between the two wider, it fails more often. Runs of the search count where its error is shared among all
 * launches that were made late; else fresh ones are made. Whichever takes fewer. */
static bool pair_widen(struct bisecting *b, const struct bisect_pair *p, unsigned us, struct tally seen)
{
	struct bisect_result *r = b->r;
	const double of_many = trial_share_of_many(of_raise_seen * b->o->error, b->delayed);
	const double of_fresh = trial_share(of_raise_fresh * b->o->error, b->attempts);
	const unsigned more = raise_needed(r->control, of_many), fresh = raise_needed(r->control, of_fresh);
	const bool goes_on = more >= seen.runs && more - seen.runs < fresh;
	struct bisect_question *q = question_new(b, STAGE_WIDEN, r->control, goes_on ? of_many : of_fresh);
	q->key = arena_printf(&r->arena, "widen %zu %zu %u", p->early, p->late, b->attempts);
	q->words = arena_printf(&r->arena, STR_FMT " begins %.3g ms later, again",
				STR_ARG(op_words(&r->arena, &r->launches.ops.data[p->early])), us / 1e3);
	q->table = table_pair(b, p->early, p->late, us, false);
	q->early = p->early;
	q->late = p->late;
	q->tally = goes_on ? seen : (struct tally){ 0 };
	while ((q->answer = trial_raised(q->control, q->tally, q->error)) == TRIAL_GOES_ON)
		if (!question_ask(b, q, 1))
			break;
	r->widened = q->tally;
	return q->answer == TRIAL_YES;
}

/** And with the two in order the failure is gone. */
static bool pair_confirm(struct bisecting *b, const struct bisect_pair *p)
{
	struct bisect_question *q =
		question_new(b, STAGE_CONFIRM, b->r->control, trial_share(of_confirm * b->o->error, b->attempts));
	struct arena *a = &b->r->arena;
	const struct bisect_op *ops = b->r->launches.ops.data;
	q->key = arena_printf(a, "confirm %zu %zu", p->early, p->late);
	q->words = arena_printf(a, STR_FMT " waits for " STR_FMT, STR_ARG(op_words(a, &ops[p->late])),
				STR_ARG(op_words(a, &ops[p->early])));
	q->table = table_pair(b, p->early, p->late, 0, true);
	q->early = p->early;
	q->late = p->late;
	const enum trial_answer answer = ask_vanishes(b, q, clean_level(q->control, q->error));
	b->r->fixed = q->tally;
	b->r->part = answer == TRIAL_NO;
	return answer != TRIAL_GOES_ON;
}

/** With the earlier one late, so that it fails often: which one has to wait for it? */
static bool pair_ask(struct bisecting *b, size_t early, size_t late, unsigned us, struct tally widened)
{
	struct bisect_question *q = question_new(b, STAGE_PAIR, widened, SEEMS);
	struct arena *a = &b->r->arena;
	const struct bisect_op *ops = b->r->launches.ops.data;
	q->key = arena_printf(a, "pair %zu %zu %u", early, late, us);
	q->words = arena_printf(a, STR_FMT " late, " STR_FMT " waits for it", STR_ARG(op_words(a, &ops[early])),
				STR_ARG(op_words(a, &ops[late])));
	q->table = table_pair(b, early, late, us, true);
	q->early = early;
	q->late = late;
	return ask_vanishes(b, q, q->error) == TRIAL_YES;
}

const struct bisect_pair *bisect_pair_of(const struct bisect_launches *l, size_t early, size_t late)
{
	for (size_t i = 0; i < l->pairs.len; i++)
		if (l->pairs.data[i].early == early && l->pairs.data[i].late == late)
			return &l->pairs.data[i];
	return NULL;
}

/** The later party of @early: those that share a buffer with it, of each queue the last first, since who waits holds up all behind it. The
 * host comes last, since where it waits everything does. */
static const struct bisect_pair *late_find(struct bisecting *b, size_t early, unsigned us, struct tally widened)
{
	const struct bisect_launches *l = &b->r->launches;
	for (int host = 0; host < 2; host++)
		for (size_t i = 0; i < l->pairs.len; i++) {
			const struct bisect_pair *p = &l->pairs.data[i];
			if (p->early != early || (l->ops.data[p->late].place == PLACE_HOST) != host)
				continue;
			if (pair_ask(b, early, p->late, us, widened))
				return bisect_pair_of(l, early, p->late);
			if (b->over)
				return NULL;
		}
	return NULL;
}

/** Does it fail more often if @early begins later? Then the one that has to wait for it is looked for. */
static bool early_try(struct bisecting *b, size_t early, unsigned round)
{
	struct bisect_result *r = b->r;
	const struct bisect_op *o = &r->launches.ops.data[early];
	const unsigned us = delay_for(b, o, round);
	struct bisect_question *q = question_new(b, STAGE_DELAY, r->control, SEEMS);
	q->key = arena_printf(&r->arena, "delay %zu %u", early, round);
	q->words = arena_printf(&r->arena, STR_FMT " begins %.3g ms later", STR_ARG(op_words(&r->arena, o)), us / 1e3);
	q->table = table_pair(b, early, 0, us, false);
	q->early = early;
	b->delayed++;
	if (ask_seems_raised(b, q) != TRIAL_YES)
		return false;
	const struct tally widened = q->tally; // the list of questions grows
	const struct bisect_pair *p = late_find(b, early, us, widened);
	if (!p)
		return false;
	b->attempts++;
	if (!pair_widen(b, p, us, widened))
		return false;
	r->pair = *p;
	r->paired = true;
	return true;
}

/** Each op that is the earlier one of a likely pair, once. */
static bool delays_try(struct bisecting *b, unsigned round)
{
	const struct bisect_launches *l = &b->r->launches;
	for (size_t i = 0; i < l->pairs.len && !b->over; i++) {
		bool seen = l->ops.data[l->pairs.data[i].early].left_out;
		for (size_t k = 0; k < i; k++)
			seen |= l->pairs.data[k].early == l->pairs.data[i].early;
		if (!seen && early_try(b, l->pairs.data[i].early, round))
			return true;
	}
	return false;
}

/** Each launch by itself: whether it vanishes if that one waits for all others, and if all others wait for that one. Half of all have to be
 * asked until the party is found, and each of the two needs its clean runs; where it does not vanish, the first failure tells. */
static unsigned alone_runs(const struct bisecting *b)
{
	const struct tally c = b->r->control;
	const double rate = tally_rate(c), others = b->r->launches.ops.len > 3 ? (double)b->r->launches.ops.len - 3 : 0;
	if (!c.failed)
		return 0;
	return c.runs + (unsigned)(others / rate) + 2 * clean_needed_after(c, clean_level(c, of_confirm * b->o->error));
}

/** @serial: the question that was asked already, or SIZE_MAX. */
static void race_find(struct bisecting *b, size_t serial)
{
	struct bisect_result *r = b->r;
	const bool always = r->control.failed == r->control.runs;
	const unsigned soon = (unsigned)ceil(1.5 / tally_rate(r->control));
	r->one_at_a_time = alone_runs(b);
	if (serial_run(b, &serial, soon) == TRIAL_NO) {
		r->verdict = BISECT_NO_RACE;
		return;
	}
	for (unsigned round = 0; round < DELAYS && !always && !b->over; round++)
		if (delays_try(b, round)) {
			if (pair_confirm(b, &r->pair))
				r->verdict = r->part ? BISECT_RACE : control_again(b, BISECT_RACE);
			return;
		}
	if (b->over)
		return;
	switch (serial_run(b, &serial, UINT32_MAX)) {
	case TRIAL_YES:
		r->verdict = control_again(b, BISECT_UNSHOWN);
		break;
	case TRIAL_NO:
		r->verdict = BISECT_NO_RACE;
		break;
	default:
		r->verdict = b->over ? BISECT_UNFINISHED : control_again(b, BISECT_UNSHOWN);
	}
}

void bisect(const struct bisect_options *o, const struct bisect_hands *hands, struct bisect_result *ret)
{
	*ret = (struct bisect_result){ .low_rate = o->low_rate };
	struct bisecting b = { .o = o, .hands = hands, .r = ret };
	size_t serial = SIZE_MAX;
	if (!control_run(&b, true))
		return;
	if (ret->control.runs == ALWAYS_LOOK && ret->control.failed == ALWAYS_LOOK) {
		hands->launches(hands->ctx, &ret->launches);
		if (serial_run(&b, &serial, SERIAL_FAILURES) == TRIAL_NO) {
			ret->verdict = BISECT_NO_RACE;
			return;
		}
		bisect_launches_free(&ret->launches);
		ret->launches = (struct bisect_launches){ 0 };
		if (b.over || !control_run(&b, false))
			return;
		ret->questions.data[serial].control = ret->control;
	}
	if (!ret->control.failed) {
		bare_run(&b);
		return;
	}
	if (tally_too_rare(ret->control, o->low_rate, o->error)) {
		ret->verdict = BISECT_RARE;
		return;
	}
	hands->launches(hands->ctx, &ret->launches);
	race_find(&b, serial);
}

void bisect_result_free(struct bisect_result *r)
{
	vec_free(&r->questions);
	bisect_launches_free(&r->launches);
	arena_free(&r->arena);
}

struct bisect_plan bisect_plan_at(double rate, double error)
{
	const unsigned control = (unsigned)ceil(FAILURES_WANTED / rate);
	const struct tally c = { control < CONTROL_LEAST ? CONTROL_LEAST : control,
				 (unsigned)(rate * (control < CONTROL_LEAST ? CONTROL_LEAST : control) + 0.5) };
	enum { SEARCH = 30 };
	return (struct bisect_plan){ .rate = rate,
				     .control = c.runs,
				     .clean = clean_needed(rate, error),
				     .all = c.runs + (unsigned)ceil(1.5 / rate) + SEARCH +
					    clean_needed_after(c, clean_level(c, of_confirm * error)) };
}
