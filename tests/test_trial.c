// Experiments that are counted: exact tests against plain sums, and whole bisections of jobs whose truth is known, by chance.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "base/str.h"
#include "diagnose/trial/bisect.h"

static uint64_t chance_state = 88172645463325252u;

static double chance(void)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (double)(chance_state >> 11) * 0x1p-53;
}

// --- single tests ---

static double at_most(unsigned k, unsigned n, double p)
{
	double term = pow(1 - p, n), sum = term;
	for (unsigned i = 1; i <= k; i++) {
		term *= (double)(n - i + 1) / i * p / (1 - p);
		sum += term;
	}
	return sum;
}

static void limits_are_where_the_binomial_distribution_has_its_tails(void **state)
{
	(void)state;
	for (unsigned n = 1; n < 40; n += 3)
		for (unsigned k = 0; k <= n; k++) {
			const struct tally_interval i = tally_limits((struct tally){ n, k }, 0.95);
			if (k)
				assert_true(fabs(1 - at_most(k - 1, n, i.low) - 0.025) < 1e-9);
			if (k < n)
				assert_true(fabs(at_most(k, n, i.high) - 0.025) < 1e-9);
		}
}

static void fishers_test_agrees_with_tables(void **state)
{
	(void)state;
	// 3 of 4 against 1 of 4: the lady and her tea, 17/70.
	assert_true(fabs(tally_more((struct tally){ 4, 1 }, (struct tally){ 4, 3 }) - 17.0 / 70) < 1e-12);
	assert_true(fabs(tally_fewer((struct tally){ 4, 3 }, (struct tally){ 4, 1 }) - 17.0 / 70) < 1e-12);
	assert_true(fabs(tally_fewer((struct tally){ 6, 6 }, (struct tally){ 5, 0 }) - 1.0 / 462) < 1e-12);
}

static void a_rate_of_5_percent_needs_59_clean_runs(void **state)
{
	(void)state;
	assert_int_equal(clean_needed(0.05, 0.05), 59);
	assert_int_equal(clean_needed(0.5, 0.05), 5);
	assert_int_equal(clean_needed(1, 0.05), 1);
	const struct tally c = { 80, 4 };
	const unsigned n = clean_needed_after(c, 0.025);
	assert_true(tally_fewer(c, (struct tally){ n, 0 }) <= 0.025 && tally_fewer(c, (struct tally){ n - 1, 0 }) > 0.025);
	assert_int_equal(clean_needed_after((struct tally){ 80, 0 }, 0.025), 0);
}

// --- how often the tests are wrong, added up over all that can happen to a job that nothing changes ---

enum { CONTROLS_MOST = 160, RAISE_MOST = 200 };

/** The chance that runs which fail at @rate are said by trial_raised() to fail more often. */
static double raise_wrong(struct tally control, double rate, double error)
{
	const unsigned first = raise_needed(control, error);
	double at[RAISE_MOST + 1] = { 1 }, wrong = 0;
	for (unsigned runs = 1; first && runs <= 3 * first; runs++) {
		for (unsigned failed = runs; failed + 1 > 0; failed--)
			at[failed] = (failed < runs ? at[failed] * (1 - rate) : 0) + (failed ? at[failed - 1] * rate : 0);
		for (unsigned failed = runs; trial_raised(control, (struct tally){ runs, failed }, error) == TRIAL_YES; failed--) {
			wrong += at[failed];
			at[failed] = 0;
		}
	}
	return wrong;
}

static bool control_ends(unsigned runs, unsigned failed)
{
	return runs == CONTROLS_MOST || (runs >= 16 && failed >= 4 && (runs - failed >= 8 || runs == failed));
}

/** Both tests, over all controls: that of a bisection goes on until it has so many runs, failures and passes. */
static void wrong_at(double rate, double error, double *ret_vanished, double *ret_raised)
{
	double at[CONTROLS_MOST + 1] = { 1 };
	*ret_vanished = *ret_raised = 0;
	for (unsigned runs = 1; runs <= CONTROLS_MOST; runs++)
		for (unsigned failed = runs; failed + 1 > 0; failed--) {
			at[failed] = (failed < runs ? at[failed] * (1 - rate) : 0) + (failed ? at[failed - 1] * rate : 0);
			const struct tally c = { runs, failed };
			if (!control_ends(runs, failed) || at[failed] < 1e-6)
				continue;
			if (failed) {
				*ret_vanished += at[failed] * pow(1 - rate, clean_needed_after(c, clean_level(c, error)));
				*ret_raised += at[failed] * raise_wrong(c, rate, error);
			}
			at[failed] = 0;
		}
}

static void tests_are_wrong_no_more_often_than_they_say(void **state)
{
	static const double errors[] = { 0.036, 0.01 };
	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (double rate = 0.05; rate < 0.9; rate += i ? 0.25 : 0.1) {
			double vanished, raised;
			wrong_at(rate, errors[i], &vanished, &raised);
			assert_true(vanished <= errors[i]);
			assert_true(raised <= errors[i]);
		}
}

// --- whole bisections ---

/** What makes it look like a race where there is none that can be found. */
enum deceit { HONEST, WAITS_HIDE, DELAYS_FAIL, UNLISTED, DECEITS };

/** A job whose truth is known: which op must end before which other. */
struct job {
	bool race;
	enum deceit deceit; // any wait hides the failure; any delay makes it frequent; the pair is none of the likely ones
	double rate, other; // of failures by the race; of others, which nothing changes
	size_t early, late, ops;
	bool left_out; // the early one waits for others
	double bare; // of failures without the recorder
	unsigned fails_at, fails_until; // only this run fails; only runs up to it do
	unsigned heals_after;           // behind so many runs none fails; 0: it never heals
	unsigned asked; // runs, after which there is no more time; 0: there always is
	unsigned most;
	struct trial_outcome *tape; // runs that were told before
	size_t ntape, at;
};

/** What the table of a question does to it: the words of the table are looked at as the recorder does. */
static double rate_under(const struct job *j, const struct bisect_question *q)
{
	char early[32], wait[64];
	double rate = j->race ? j->rate : 0;
	snprintf(early, sizeof(early), "delay %zu k%zu ", j->early % 3, j->early);
	if (j->late == j->ops - 1)
		snprintf(wait, sizeof(wait), "host %zu k%zu\n", j->early % 3, j->early);
	else
		snprintf(wait, sizeof(wait), "wait %zu k%zu for %zu k%zu\n", j->late % 3, j->late, j->early % 3, j->early);
	if (str_find(q->table, str_z(early)) >= 0 && j->race)
		rate = 0.95;
	if (str_find(q->table, str_z(wait)) >= 0 || str_find(q->table, S("wait * *")) >= 0)
		rate = 0;
	if (j->deceit == WAITS_HIDE && (str_find(q->table, S("wait ")) >= 0 || str_find(q->table, S("host ")) >= 0))
		return 0;
	if (j->deceit == DELAYS_FAIL && str_find(q->table, S("delay ")) >= 0)
		return 0.95;
	return rate + j->other - rate * j->other;
}

static unsigned play(void *ctx, const struct bisect_question *q, unsigned n, struct trial_outcome *ret)
{
	struct job *j = ctx;
	unsigned done = 0;
	for (; done < n && done < 2; done++) {
		if (j->most && j->asked >= j->most)
			return done;
		j->asked++;
		if (j->at < j->ntape) {
			ret[done] = j->tape[j->at++];
			continue;
		}
		const double rate = j->heals_after && j->asked > j->heals_after ? 0 :
				    j->fails_at    ? j->asked == j->fails_at :
				    j->fails_until ? j->asked <= j->fails_until :
				    q->stage == STAGE_BARE ? j->bare : rate_under(j, q);
		ret[done] = (struct trial_outcome){ .failed = chance() < rate, .seconds = 0.5 };
		if (j->tape) {
			j->tape[j->ntape++] = ret[done];
			j->at = j->ntape;
		}
	}
	return done;
}

static bool list(void *ctx, struct bisect_launches *ret)
{
	const struct job *j = ctx;
	*ret = (struct bisect_launches){ .queues = 3, .arguments = true };
	for (size_t i = 0; i < j->ops; i++) {
		const struct bisect_op o = { .place = i + 1 == j->ops ? PLACE_HOST : (int)(i % 3),
					     .name = arena_printf(&ret->arena, "k%zu", i),
					     .plain = arena_printf(&ret->arena, "k%zu", i),
					     .launches = 1,
					     .left_out = j->left_out && i == j->early };
		vec_push(&ret->ops, o);
	}
	// The right pair is somewhere among others.
	for (size_t i = 0; i < 6; i++) {
		const struct bisect_pair p = { .early = (j->early + i * 5) % (j->ops - 1),
					       .late = (j->late + 3 + i) % j->ops,
					       .distance = 1 };
		if (j->deceit != UNLISTED || p.early != j->early || p.late != j->late)
			vec_push(&ret->pairs, p);
		if (i == 3 && j->deceit != UNLISTED) {
			const struct bisect_pair right = { .early = j->early, .late = j->late, .distance = 1 };
			vec_push(&ret->pairs, right);
		}
	}
	return true;
}

static struct job job_by_chance(void)
{
	struct job j = { .ops = 10 + (size_t)(chance() * 50), .rate = 0.05 + chance() * 0.55, .race = chance() < 0.6 };
	j.early = (size_t)(chance() * (double)(j.ops - 1));
	j.late = (j.early + 1 + (size_t)(chance() * (double)(j.ops - 2))) % j.ops;
	if (j.late % 3 == j.early % 3 && j.late != j.ops - 1)
		j.late = (j.late + 1) % (j.ops - 1);
	j.other = j.race ? 0 : j.rate;
	return j;
}

static void bisect_job(struct job *j, struct bisect_result *ret)
{
	const struct bisect_options o = { .low_rate = 0.05, .error = 0.05, .deadline = 2000 };
	const struct bisect_hands hands = { play, list, j };
	bisect(&o, &hands, ret);
}

static void ten_thousand_bisections_hold_the_promised_rates(void **state)
{
	enum { ROUNDS = 10000 };
	unsigned races = 0, right = 0, wrong = 0, none = 0, none_right = 0, false_race = 0;
	double runs = 0, alone = 0;
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct job j = job_by_chance();
		struct bisect_result r;
		bisect_job(&j, &r);
		const bool named = r.verdict == BISECT_RACE && r.paired;
		if (j.race) {
			races++;
			right += named && r.pair.early == j.early && r.pair.late == j.late && !r.part;
			wrong += (named && (r.pair.early != j.early || r.pair.late != j.late)) || r.verdict == BISECT_NO_RACE;
			runs += r.runs;
			alone += r.one_at_a_time;
		} else {
			none++;
			none_right += r.verdict == BISECT_NO_RACE;
			false_race += named;
		}
		bisect_result_free(&r);
	}
	print_message("races %u: right %u, wrong %u, runs %.1f (one at a time %.1f); none %u: right %u, a race %u\n", races,
		      right, wrong, runs / races, alone / races, none, none_right, false_race);
	assert_true(right > races * 0.97);
	assert_true(wrong < races * 0.05);
	assert_true(none_right > none * 0.95);
	assert_true(false_race < none * 0.05);
	assert_true(runs < alone * 0.4);
}

/** A pair has to pass two tests, each of which may be deceived: then the other one holds the promise alone. */
static void a_wrong_pair_is_seldom_named_also_where_one_test_is_deceived(void **state)
{
	enum { ROUNDS = 2000 };
	(void)state;
	for (enum deceit d = WAITS_HIDE; d < DECEITS; d++) {
		unsigned named = 0;
		for (unsigned i = 0; i < ROUNDS; i++) {
			struct job j = job_by_chance();
			struct bisect_result r;
			j.deceit = d;
			j.race = d == UNLISTED;
			j.other = j.race ? 0 : j.rate;
			bisect_job(&j, &r);
			named += r.verdict == BISECT_RACE;
			bisect_result_free(&r);
		}
		print_message("deceit %d: a pair in %u of %u\n", d, named, ROUNDS);
		assert_true(named < ROUNDS * 0.05);
	}
}

/** Stopped after any number of runs and told the old answers again, it comes to the same end. */
static void a_bisection_that_was_stopped_comes_to_the_same_end(void **state)
{
	enum { ROUNDS = 300, TAPE = 20000 };
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct job j = job_by_chance();
		struct bisect_result whole, part, again;
		j.tape = calloc(TAPE, sizeof(*j.tape));
		bisect_job(&j, &whole);
		const unsigned all = j.asked;
		j.most = (unsigned)(chance() * all);
		j.asked = 0;
		j.at = 0;
		bisect_job(&j, &part);
		assert_true(part.verdict == BISECT_UNFINISHED || part.verdict == whole.verdict);
		j.most = 0;
		j.asked = 0;
		j.at = 0;
		bisect_job(&j, &again);
		assert_int_equal(again.verdict, whole.verdict);
		assert_int_equal(again.runs, whole.runs);
		assert_int_equal(again.pair.late, whole.pair.late);
		assert_int_equal(again.questions.len, whole.questions.len);
		bisect_result_free(&whole);
		bisect_result_free(&part);
		bisect_result_free(&again);
		free(j.tape);
	}
}

/** Kernels that wait for each other: whoever held one up would hold up all. */
static void what_waits_for_others_is_never_made_to_wait(void **state)
{
	struct job j = { .ops = 12, .early = 4, .late = 5, .rate = 0.5, .race = true, .left_out = true };
	struct bisect_result r;
	(void)state;
	bisect_job(&j, &r);
	assert_int_equal(r.verdict, BISECT_UNSHOWN);
	for (size_t i = 0; i < r.questions.len; i++) {
		const struct bisect_question *q = &r.questions.data[i];
		assert_true(q->stage == STAGE_CONTROL || str_find(q->table, S("except * k4\n")) > 0);
		assert_true(str_find(q->table, S("delay 1 k4")) < 0 && str_find(q->table, S("for 1 k4")) < 0);
	}
	bisect_result_free(&r);
}

static void a_job_that_never_fails_is_told_so(void **state)
{
	struct job j = { .ops = 12, .early = 1, .late = 5 };
	struct bisect_result r;
	(void)state;
	bisect_job(&j, &r);
	assert_int_equal(r.verdict, BISECT_NEVER);
	assert_int_equal(r.runs, 2 * 59 + 0);
	bisect_result_free(&r);
}

static struct bisect_result rare_bisected(struct job j)
{
	struct bisect_result r;
	j.ops = 12;
	bisect_job(&j, &r);
	bisect_result_free(&r);
	return r;
}

/** One failure without the recorder after 59 clean runs with it is no proof that the recorder hides it; five are. */
static void that_the_recorder_hides_it_is_shown(void **state)
{
	enum { ROUNDS = 500 };
	(void)state;
	struct bisect_result r = rare_bisected((struct job){ .fails_at = 80 });
	assert_int_equal(r.verdict, BISECT_RARE);
	assert_int_equal(r.bare.runs, 59);
	assert_int_equal(r.bare.failed, 1);
	r = rare_bisected((struct job){ .bare = 0.9 });
	assert_int_equal(r.verdict, BISECT_HIDES);
	assert_true(r.runs < 80);
	unsigned wrong = 0, shown = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		const double rate = chance() * 0.05;
		wrong += rare_bisected((struct job){ .other = rate, .bare = rate }).verdict == BISECT_HIDES;
		shown += rare_bisected((struct job){ .bare = 0.2 }).verdict == BISECT_HIDES;
	}
	print_message("hides: wrong %u, shown %u of %u\n", wrong, shown, ROUNDS);
	assert_true(wrong < ROUNDS * 0.05);
	assert_true(shown > ROUNDS * 0.9);
}

/** A job that failed and then stops failing ends the control; one at the lowest rate that is looked for seldom does. */
static void a_control_ends_where_failures_are_too_rare(void **state)
{
	enum { ROUNDS = 500 };
	static const unsigned most[] = { 0, 132, 168, 202 };
	unsigned wrong = 0;
	(void)state;
	for (unsigned n = 1; n < 4; n++) {
		const struct bisect_result r = rare_bisected((struct job){ .fails_until = n });
		assert_int_equal(r.verdict, BISECT_RARE);
		assert_true(r.runs <= most[n]);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		const struct bisect_result r = rare_bisected((struct job){ .other = 0.05 });
		wrong += r.verdict == BISECT_RARE && r.control.failed;
	}
	print_message("rare: wrong %u of %u\n", wrong, ROUNDS);
	assert_true(wrong < ROUNDS * 0.05);
}

/** It fails until some run and then never again, whatever is changed: no answer may rest on that. */
static void a_job_that_heals_by_itself_is_told_so(void **state)
{
	(void)state;
	unsigned changed = 0;
	for (unsigned n = 4; n < 40; n++) {
		const struct bisect_result r = rare_bisected((struct job){ .fails_until = n });
		assert_true(r.verdict != BISECT_RACE && r.verdict != BISECT_UNSHOWN && !r.paired);
		changed += r.verdict == BISECT_CHANGED;
	}
	assert_true(changed >= 2); // of those that fail six times in a row it is said that they always fail
	for (unsigned n = 20; n < 120; n++) {
		const struct bisect_result r = rare_bisected((struct job){ .rate = 0.3, .race = true, .early = 4, .late = 5, .heals_after = n });
		assert_true(r.verdict != BISECT_UNSHOWN);
		assert_true(r.verdict != BISECT_RACE || r.runs <= n);
	}
}

static void launches_are_the_same_when_they_are_read_again(void **state)
{
	struct job j = { .ops = 12, .early = 1, .late = 5 };
	struct bisect_launches a, b;
	struct text first = { 0 }, second = { 0 };
	(void)state;
	list(&j, &a);
	bisect_launches_write(&a, &first);
	assert_true(bisect_launches_read(text_str(&first), &b));
	bisect_launches_write(&b, &second);
	assert_true(str_eq(text_str(&first), text_str(&second)));
	bisect_launches_free(&b);
	for (size_t cut = 0; cut < first.n; cut++)
		if (bisect_launches_read(str_cut(text_str(&first), cut), &b))
			bisect_launches_free(&b);
	bisect_launches_free(&a);
	text_free(&first);
	text_free(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_where_the_binomial_distribution_has_its_tails),
		cmocka_unit_test(fishers_test_agrees_with_tables),
		cmocka_unit_test(a_rate_of_5_percent_needs_59_clean_runs),
		cmocka_unit_test(tests_are_wrong_no_more_often_than_they_say),
		cmocka_unit_test(ten_thousand_bisections_hold_the_promised_rates),
		cmocka_unit_test(a_wrong_pair_is_seldom_named_also_where_one_test_is_deceived),
		cmocka_unit_test(a_bisection_that_was_stopped_comes_to_the_same_end),
		cmocka_unit_test(what_waits_for_others_is_never_made_to_wait),
		cmocka_unit_test(a_job_that_never_fails_is_told_so),
		cmocka_unit_test(that_the_recorder_hides_it_is_shown),
		cmocka_unit_test(a_control_ends_where_failures_are_too_rare),
		cmocka_unit_test(a_job_that_heals_by_itself_is_told_so),
		cmocka_unit_test(launches_are_the_same_when_they_are_read_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
