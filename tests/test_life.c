// The life of a try, without a clock: every row of its table does what is written here a second time, and a million random steps keep what the
// table promises.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "job/life.h"

enum { GRACE = 20000, LEFT = 2000, HUNG = 3000, ABANDON = 10000, LONG_AGO = 1000000, NOW = 2000000 };

/** What is true before a step; times are distances from NOW. */
struct before {
	enum life_state state;
	enum life_input input;
	enum life_why why;
	bool asked, studied, no_grace, termed;
	int kill_in;    // 0: it is not set
	int abandon_in; // 0: SIGKILL was not sent
	int restart_in;
	int stood, held;
	int ended_ago;
};
struct after {
	enum life_state state;
	unsigned does;
	enum life_why why;
	int kill_in;
};
struct expected {
	struct before before;
	struct after after;
};

static const struct expected expected[] = {
	{ { LIFE_STARTING, LIFE_IS_STARTED }, { LIFE_RUNNING } },
	{ { LIFE_STARTING, LIFE_IS_REFUSED }, { LIFE_GIVEN_UP } },
	{ { LIFE_RUNNING, LIFE_IS_QUIET }, { LIFE_LOOKING } },
	{ { LIFE_RUNNING, LIFE_IS_FAULT, .held = 1501 }, { LIFE_HELD, LIFE_SAVE } },
	{ { LIFE_RUNNING, LIFE_IS_FAULT, .held = 1500 }, { LIFE_RUNNING, LIFE_RELEASE } },
	{ { LIFE_RUNNING, LIFE_IS_FAULT, .held = 5000, .studied = true }, { LIFE_RUNNING, LIFE_RELEASE } },
	{ { LIFE_RUNNING, LIFE_IS_HANG }, { LIFE_SAVING, LIFE_SAVE, WHY_HANG } },
	{ { LIFE_RUNNING, LIFE_IS_CALL }, { LIFE_SAVING, LIFE_SAVE, WHY_CALL } },
	{ { LIFE_RUNNING, LIFE_IS_SILENT }, { LIFE_SAVING, LIFE_SAVE, WHY_SILENT } },
	{ { LIFE_RUNNING, LIFE_IS_DEADLINE }, { LIFE_SAVING, LIFE_SAVE, WHY_DEADLINE } },
	{ { LIFE_RUNNING, LIFE_IS_ASKED, .stood = 4999 }, { LIFE_ASKED, 0, WHY_ASKED, GRACE } },
	{ { LIFE_RUNNING, LIFE_IS_ASKED, .stood = 5000 }, { LIFE_SAVING, LIFE_SAVE, WHY_ASKED, GRACE } },
	{ { LIFE_RUNNING, LIFE_IS_ASKED, .stood = 5000, .no_grace = true }, { LIFE_ASKED, 0, WHY_ASKED, 6000 } },
	{ { LIFE_RUNNING, LIFE_IS_COMMAND_GONE }, { LIFE_ALONE } },
	{ { LIFE_LOOKING, LIFE_IS_LOOKED }, { LIFE_RUNNING } },
	{ { LIFE_LOOKING, LIFE_IS_ASKED }, { LIFE_ASKED, LIFE_DROP, WHY_ASKED, GRACE } },
	{ { LIFE_LOOKING, LIFE_IS_ASKED, .stood = 5000 }, { LIFE_SAVING, LIFE_DROP | LIFE_SAVE, WHY_ASKED, GRACE } },
	{ { LIFE_LOOKING, LIFE_IS_COMMAND_GONE }, { LIFE_ALONE, LIFE_DROP } },
	{ { LIFE_HELD, LIFE_IS_ASKED }, { LIFE_HELD, 0, WHY_ASKED, GRACE } },
	{ { LIFE_HELD, LIFE_IS_SAVED }, { LIFE_RUNNING, LIFE_TAKE | LIFE_RELEASE } },
	{ { LIFE_HELD, LIFE_IS_SAVED, WHY_ASKED, .kill_in = 5 }, { LIFE_ASKED, LIFE_TAKE | LIFE_RELEASE, WHY_ASKED, 5 } },
	{ { LIFE_HELD, LIFE_IS_TIME, WHY_ASKED, .kill_in = -5 }, { LIFE_ASKED, LIFE_TAKE | LIFE_RELEASE, WHY_ASKED, -5 } },
	{ { LIFE_SAVING, LIFE_IS_ASKED, WHY_HANG }, { LIFE_SAVING, 0, WHY_HANG, GRACE } },
	{ { LIFE_SAVING, LIFE_IS_SAVED, WHY_ASKED, .kill_in = 5 }, { LIFE_ASKED, LIFE_TAKE, WHY_ASKED, 5 } },
	{ { LIFE_SAVING, LIFE_IS_SAVED, WHY_HANG }, { LIFE_TERMED, LIFE_TAKE | LIFE_TERM, WHY_HANG, HUNG } },
	{ { LIFE_SAVING, LIFE_IS_SAVED, WHY_CALL }, { LIFE_TERMED, LIFE_TAKE | LIFE_TERM, WHY_CALL, HUNG } },
	{ { LIFE_SAVING, LIFE_IS_SAVED, WHY_SILENT }, { LIFE_TERMED, LIFE_TAKE | LIFE_TERM, WHY_SILENT, GRACE } },
	{ { LIFE_SAVING, LIFE_IS_SAVED, WHY_HANG, .kill_in = 7 }, { LIFE_TERMED, LIFE_TAKE | LIFE_TERM, WHY_HANG, 7 } },
	{ { LIFE_SAVING, LIFE_IS_TIME, WHY_ASKED, .kill_in = -1 }, { LIFE_ASKED, LIFE_TAKE, WHY_ASKED, -1 } },
	{ { LIFE_SAVING, LIFE_IS_TIME, WHY_HANG, .kill_in = -1 }, { LIFE_TERMED, LIFE_TAKE | LIFE_TERM, WHY_HANG, -1 } },
	{ { LIFE_ASKED, LIFE_IS_TIME, WHY_ASKED, .kill_in = -1 }, { LIFE_KILLED, LIFE_KILL, WHY_OUTLIVED, -1 } },
	{ { LIFE_ASKED, LIFE_IS_LEFT, WHY_ASKED, .kill_in = 5 }, { LIFE_LEFT, LIFE_NAME | LIFE_TERM, WHY_ASKED, 5 } },
	{ { LIFE_ASKED, LIFE_IS_EMPTY, WHY_ASKED, .kill_in = 5 }, { LIFE_ENDED, LIFE_RELEASE, WHY_ASKED, 5 } },
	{ { LIFE_TERMED, LIFE_IS_TIME, WHY_HANG, .kill_in = -1 }, { LIFE_KILLED, LIFE_KILL, WHY_HANG, -1 } },
	{ { LIFE_TERMED, LIFE_IS_LEFT, WHY_HANG, .kill_in = 5 }, { LIFE_LEFT, LIFE_NAME, WHY_HANG, 5 } },
	{ { LIFE_TERMED, LIFE_IS_EMPTY, WHY_HANG, .kill_in = 5 }, { LIFE_ENDED, LIFE_RELEASE, WHY_HANG, 5 } },
	{ { LIFE_ALONE, LIFE_IS_LEFT }, { LIFE_LEFT, LIFE_NAME | LIFE_TERM, WHY_ITSELF, LEFT } },
	{ { LIFE_ALONE, LIFE_IS_EMPTY }, { LIFE_ENDED, LIFE_RELEASE } },
	{ { LIFE_ALONE, LIFE_IS_EMPTY, .termed = true, .ended_ago = 499 }, { LIFE_ALONE } },
	{ { LIFE_ALONE, LIFE_IS_EMPTY, .termed = true, .ended_ago = 500 }, { LIFE_ENDED, LIFE_RELEASE } },
	{ { LIFE_ALONE, LIFE_IS_EMPTY, .termed = true, .asked = true }, { LIFE_ENDED, LIFE_RELEASE } },
	{ { LIFE_LEFT, LIFE_IS_LEFT, .kill_in = 1 }, { LIFE_LEFT, 0, WHY_ITSELF, 1 } },
	{ { LIFE_LEFT, LIFE_IS_LEFT, .kill_in = -1 }, { LIFE_KILLED, LIFE_KILL, WHY_ITSELF, -1 } },
	{ { LIFE_LEFT, LIFE_IS_EMPTY, .kill_in = 1 }, { LIFE_ENDED, LIFE_RELEASE, WHY_ITSELF, 1 } },
	{ { LIFE_LEFT, LIFE_IS_EMPTY, .kill_in = 1, .termed = true }, { LIFE_LEFT, 0, WHY_ITSELF, 1 } },
	{ { LIFE_LEFT, LIFE_IS_EMPTY, WHY_HANG, .kill_in = 1, .termed = true }, { LIFE_ENDED, LIFE_RELEASE, WHY_HANG, 1 } },
	{ { LIFE_KILLED, LIFE_IS_TIME, .abandon_in = 1 }, { LIFE_KILLED, LIFE_KILL } },
	{ { LIFE_KILLED, LIFE_IS_TIME, .abandon_in = -1 }, { LIFE_ENDED, LIFE_ABANDON | LIFE_RELEASE } },
	{ { LIFE_KILLED, LIFE_IS_LEFT, .abandon_in = 1 }, { LIFE_KILLED, LIFE_KILL } },
	{ { LIFE_KILLED, LIFE_IS_LEFT, .abandon_in = -1 }, { LIFE_ENDED, LIFE_ABANDON | LIFE_RELEASE } },
	{ { LIFE_KILLED, LIFE_IS_EMPTY, .abandon_in = 1 }, { LIFE_ENDED, LIFE_RELEASE } },
	{ { LIFE_ENDED, LIFE_IS_WELL }, { LIFE_DONE } },
	{ { LIFE_ENDED, LIFE_IS_EXPLAINED }, { LIFE_DECIDING } },
	{ { LIFE_DECIDING, LIFE_IS_RESTART }, { LIFE_RESTARTING } },
	{ { LIFE_DECIDING, LIFE_IS_STOP }, { LIFE_GIVEN_UP } },
	{ { LIFE_RESTARTING, LIFE_IS_ASKED, .restart_in = 5 }, { LIFE_GIVEN_UP, .kill_in = GRACE } },
	{ { LIFE_RESTARTING, LIFE_IS_TIME, .restart_in = -1 }, { LIFE_STARTING } },
};

static const struct life_row *step(const struct before *b, struct life *ret)
{
	*ret = (struct life){ .state = b->state,
			      .why = b->why,
			      .asked = b->asked ? ASKED_IN_TIME : ASKED_NOT,
			      .studied = b->studied,
			      .grace_ms = b->no_grace ? 6000 : GRACE,
			      .kill_at = b->kill_in ? NOW + b->kill_in : 0,
			      .abandon_at = b->abandon_in ? NOW + b->abandon_in : 0,
			      .restart_at = NOW + b->restart_in };
	const struct life_facts f = {
		.now = NOW, .stood = b->stood, .held = b->held, .termed = b->termed, .ended_at = NOW - b->ended_ago, .delay = 5
	};
	return life_step(ret, b->input, &f);
}

static void every_row_does_what_it_says(void **state)
{
	bool taken[256] = { 0 };
	size_t n;
	const struct life_row *rows = life_rows(&n);
	(void)state;
	assert_true(n <= ARRAY_SIZE(taken));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct before *b = &expected[i].before;
		const struct after *a = &expected[i].after;
		struct life l;
		const struct life_row *row = step(b, &l);
		if (!row || l.state != a->state || row->does != a->does || l.why != a->why ||
		    l.kill_at != (a->kill_in ? NOW + a->kill_in : 0))
			fail_msg("step %zu: state %d, does %u, why %d, kill in %lld", i, l.state, row ? row->does : 0, l.why,
				 (long long)(l.kill_at ? l.kill_at - NOW : 0));
		assert_true(!(row->does & LIFE_KILL) || l.abandon_at == (b->abandon_in ? NOW + b->abandon_in : NOW + ABANDON));
		assert_true(!(row->does & LIFE_SAVE) || l.studied);
		assert_true(a->state != LIFE_RESTARTING || l.restart_at == NOW + 5);
		taken[row - rows] = true;
	}
	for (size_t i = 0; i < n; i++)
		if (!taken[i])
			fail_msg("no step is expected of row %zu", i);
}

#define IN(state) (1u << LIFE_##state)

/** States in which an input comes, by the loop's code (job/loop.c, hang.c, run.c). In others it is impossible. Those that come at any time are
 * not here: where they have no row they mean nothing. */
static const unsigned comes_in[LIFE_INPUTS] = {
	[LIFE_IS_STARTED] = IN(STARTING),
	[LIFE_IS_REFUSED] = IN(STARTING),
	[LIFE_IS_QUIET] = IN(RUNNING),
	[LIFE_IS_LOOKED] = IN(LOOKING),
	[LIFE_IS_FAULT] = IN(RUNNING),
	[LIFE_IS_HANG] = IN(RUNNING),
	[LIFE_IS_CALL] = IN(RUNNING),
	[LIFE_IS_SILENT] = IN(RUNNING),
	[LIFE_IS_DEADLINE] = IN(RUNNING),
	[LIFE_IS_SAVED] = IN(HELD) | IN(SAVING),
	[LIFE_IS_EMPTY] = IN(ASKED) | IN(TERMED) | IN(ALONE) | IN(LEFT) | IN(KILLED),
	[LIFE_IS_LEFT] = IN(ASKED) | IN(TERMED) | IN(ALONE) | IN(LEFT) | IN(KILLED),
	[LIFE_IS_WELL] = IN(ENDED),
	[LIFE_IS_EXPLAINED] = IN(ENDED),
	[LIFE_IS_RESTART] = IN(DECIDING),
	[LIFE_IS_STOP] = IN(DECIDING),
};

/** Each pair of state and input has a row that needs no luck, or cannot happen, or means nothing. */
static void no_input_is_lost(void **state)
{
	size_t n;
	const struct life_row *rows = life_rows(&n);
	(void)state;
	for (int s = 0; s < LIFE_STATES; s++)
		for (int i = LIFE_IS_TIME + 1; i < LIFE_INPUTS; i++) {
			unsigned always = 0, sometimes = 0;
			for (size_t r = 0; r < n; r++)
				if ((int)rows[r].state == s && (int)rows[r].input == i)
					rows[r].guard ? sometimes++ : always++;
			const bool comes = comes_in[i] >> s & 1;
			if (always != comes || (sometimes && !comes))
				fail_msg("input %d in state %d: %u rows without a guard, %u with one", i, s, always, sometimes);
		}
}

/** What is not ready yet changes nothing. */
static void what_comes_too_early_is_waited_for(void **state)
{
	static const struct before early[] = {
		{ LIFE_RUNNING, LIFE_IS_TIME },
		{ LIFE_LOOKING, LIFE_IS_TIME },
		{ LIFE_HELD, LIFE_IS_TIME },
		{ LIFE_HELD, LIFE_IS_TIME, WHY_ASKED, .kill_in = 1 },
		{ LIFE_HELD, LIFE_IS_COMMAND_GONE },
		{ LIFE_SAVING, LIFE_IS_TIME, WHY_HANG },
		{ LIFE_SAVING, LIFE_IS_TIME, WHY_ASKED, .kill_in = 1 },
		{ LIFE_SAVING, LIFE_IS_COMMAND_GONE },
		{ LIFE_ASKED, LIFE_IS_TIME, WHY_ASKED, .kill_in = 1 },
		{ LIFE_ASKED, LIFE_IS_ASKED, WHY_ASKED, .kill_in = 1 },
		{ LIFE_TERMED, LIFE_IS_TIME, WHY_HANG, .kill_in = 1 },
		{ LIFE_RESTARTING, LIFE_IS_TIME, .restart_in = 1 },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(early); i++) {
		struct life l;
		assert_null(step(&early[i], &l));
		assert_int_equal(l.state, early[i].state);
		assert_int_equal(l.kill_at, early[i].kill_in ? NOW + early[i].kill_in : 0);
	}
}

// --- a million steps ---

/** What is true of the world besides the life: processes that live, a helper that works, a hold that waits for its answer. */
struct world {
	struct life life;
	int64_t now;
	bool helps, holds, late; // late: a fault that came when nobody looked for one
	unsigned ended, terms;
	bool told_to_end; // TERM was sent, or passed on
	size_t taken[256];
};

static unsigned random_below(uint64_t *seed, unsigned n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*seed >> 33) % n;
}

/** One step, and all that has to hold of it. */
static void walk(struct world *w, enum life_input i, const struct life_facts *more)
{
	struct life_facts f = *more;
	size_t n;
	f.now = w->now;
	const struct life before = w->life;
	const struct life_row *row = life_step(&w->life, i, &f);
	if (i == LIFE_IS_ASKED && before.state < LIFE_ENDED)
		w->told_to_end = true;
	if (!row) {
		assert_true(i <= LIFE_IS_TIME); // the others come only where something follows
		return;
	}
	w->taken[row - life_rows(&n)]++;
	assert_false(before.state == LIFE_GIVEN_UP || before.state == LIFE_DONE);
	if (row->does & LIFE_TERM) {
		w->terms++;
		w->told_to_end = true;
	}
	assert_true(w->terms <= 1);
	if (row->does & LIFE_KILL)
		assert_true(w->told_to_end && before.kill_at && w->now >= before.kill_at);
	if (row->does & (LIFE_TAKE | LIFE_DROP)) {
		assert_true(w->helps);
		w->helps = false;
	}
	if (row->does & LIFE_RELEASE)
		w->holds = w->late = false;
	assert_true(!w->holds || w->life.state == LIFE_HELD); // else it would be held for nothing
	if (row->does & LIFE_SAVE || row->next == LIFE_LOOKING) {
		assert_false(w->helps);
		w->helps = true;
	}
	if (row->next == LIFE_RUNNING || row->next >= LIFE_ASKED)
		assert_true(!w->helps || i == LIFE_IS_LOOKED);
	if (i == LIFE_IS_LOOKED)
		w->helps = false;
	if (w->life.state == LIFE_ENDED) {
		assert_int_equal(++w->ended, 1);
		assert_false(w->holds || w->late || w->helps);
	}
	if (w->life.state == LIFE_STARTING) // of the next try
		*w = (struct world){ .life = w->life, .now = w->now };
}

/** What the loop says in a state that needs no luck: the helper answers, or does not; the processes end, or do not; time goes by. */
static enum life_input next_input(const struct world *w, bool dies, bool answers)
{
	switch (w->life.state) {
	case LIFE_LOOKING:
		return answers ? LIFE_IS_LOOKED : LIFE_IS_TIME;
	case LIFE_HELD:
	case LIFE_SAVING:
		return answers ? LIFE_IS_SAVED : LIFE_IS_TIME;
	case LIFE_RUNNING:
		return LIFE_IS_COMMAND_GONE;
	default:
		return w->life.command != COMMAND_GONE ? LIFE_IS_TIME : dies ? LIFE_IS_EMPTY : LIFE_IS_LEFT;
	}
}

/** From wherever it is: a job whose command ends comes to its end, also if something of it cannot die. */
static void must_end(const struct world *from, bool dies)
{
	static const struct life_facts nothing;
	struct world w = *from;
	w.life.command = COMMAND_GONE;
	for (int i = 0; i < 40 && w.life.state < LIFE_ENDED; i++) {
		w.now += 2000;
		walk(&w, LIFE_IS_COMMAND_GONE, &nothing);
		if (w.life.state < LIFE_ENDED)
			walk(&w, next_input(&w, dies, true), &nothing);
	}
	assert_true(w.life.state >= LIFE_ENDED);
}

/** The same of one that was asked, and whose command does not even end. */
static void must_end_asked(const struct world *from)
{
	static const struct life_facts nothing;
	struct world w = *from;
	if (w.life.command == COMMAND_GONE)
		return;
	walk(&w, LIFE_IS_ASKED, &nothing);
	for (int i = 0; i < 40 && w.life.state < LIFE_ENDED; i++) {
		w.now += 2000;
		walk(&w, next_input(&w, false, false), &nothing);
	}
	assert_true(w.life.state >= LIFE_ENDED);
}

/** A random thing that can happen now. Half of the time it is nothing but time. */
static void happen(struct world *w, uint64_t *seed)
{
	static const enum life_input running[] = { LIFE_IS_QUIET, LIFE_IS_FAULT,    LIFE_IS_FAULT, LIFE_IS_HANG,
						   LIFE_IS_CALL,  LIFE_IS_DEADLINE, LIFE_IS_SILENT };
	const struct life_facts f = { .stood = random_below(seed, 2) ? 6000 : 0,
				      .held = random_below(seed, 5000),
				      .ended_at = w->now - random_below(seed, 1000),
				      .termed = random_below(seed, 2),
				      .delay = 1000 };
	const bool alive = w->life.command != COMMAND_GONE;
	const unsigned luck = random_below(seed, 8);
	w->now += random_below(seed, 3) ? random_below(seed, 200) : random_below(seed, 8000);
	if (w->life.state == LIFE_STARTING) {
		walk(w, luck ? LIFE_IS_STARTED : LIFE_IS_REFUSED, &f);
	} else if (w->life.state == LIFE_ENDED) {
		walk(w, luck ? LIFE_IS_EXPLAINED : LIFE_IS_WELL, &f);
	} else if (w->life.state == LIFE_DECIDING) {
		walk(w, luck ? LIFE_IS_RESTART : LIFE_IS_STOP, &f);
	} else if (w->life.state > LIFE_DECIDING) {
		walk(w, luck ? LIFE_IS_TIME : LIFE_IS_ASKED, &f);
	} else if (luck == 0 && alive) {
		if (!w->life.asked)
			w->life.asked = ASKED_IN_TIME;
		walk(w, LIFE_IS_ASKED, &f);
	} else if (luck == 1 && random_below(seed, 4) == 0) {
		w->life.command = COMMAND_GONE;
		walk(w, LIFE_IS_COMMAND_GONE, &f);
	} else if (w->life.state == LIFE_RUNNING && !alive) {
		walk(w, LIFE_IS_COMMAND_GONE, &f);
	} else if (w->life.state == LIFE_RUNNING) {
		const enum life_input i = running[random_below(seed, ARRAY_SIZE(running))];
		w->holds |= i == LIFE_IS_FAULT;
		walk(w, i, &f);
	} else {
		w->late |= luck == 2;
		walk(w, next_input(w, random_below(seed, 2), random_below(seed, 2)), &f);
	}
}

static void a_million_steps_keep_the_promises(void **state)
{
	enum { STEPS = 1000000, EVERY = 16 };
	static size_t taken[256];
	uint64_t seed = 29;
	struct world w = { .now = LONG_AGO, .life = { .grace_ms = GRACE } };
	size_t n, reached = 0;
	(void)state;
	life_rows(&n);
	for (size_t i = 0; i < STEPS; i++) {
		happen(&w, &seed);
		if (i % EVERY == 0 && w.life.state > LIFE_STARTING && w.life.state < LIFE_ENDED) {
			must_end(&w, true);
			must_end(&w, false);
			must_end_asked(&w);
		}
		for (size_t r = 0; r < n && w.life.state >= LIFE_ENDED && i % EVERY == 1; r++)
			taken[r] += w.taken[r];
		if ((w.life.state == LIFE_DONE || w.life.state == LIFE_GIVEN_UP) && random_below(&seed, 4) == 0)
			w = (struct world){ .now = w.now, .life = { .grace_ms = random_below(&seed, 2) ? GRACE : 2000 } };
	}
	for (size_t r = 0; r < n; r++)
		reached += taken[r] > 0;
	if (reached < n - 1) // the last row begins another life
		fail_msg("%zu of %zu rows were taken", reached, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_does_what_it_says),
		cmocka_unit_test(no_input_is_lost),
		cmocka_unit_test(what_comes_too_early_is_waited_for),
		cmocka_unit_test(a_million_steps_keep_the_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
