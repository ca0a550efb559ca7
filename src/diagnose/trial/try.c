#include "diagnose/trial/try.h"

#include <math.h>

#include "base/print.h"

enum {
	ALWAYS_WANTED = 4,   // failures in a row after which it counts as failing always
	CONTROL_LEAST = 6,
	CONTROL_MOST = 400,
	VOID_MOST = 8,
	AT_ONCE = 64,
};
/** What is left to learn is not worth a run, in bits. */
#define LEAST_BITS 0.05
/** How likely the answer has to be another one afterwards. */
#define LEAST_CHANGE 0.05
/** What a run has to tell at least, in bits: where failures are rare, certainty costs more than it is worth. */
#define LEAST_BITS_OF_RUN 0.03
/** The weight of an explanation that holds where nothing more is worth a run. */
#define HOLDS (2.0 / 3)
/** Of jobs that do not fail always, those whose control looks so. */
#define LUCKY 0.04

struct trying {
	const struct try_options *o;
	const struct try_hands *hands;
	struct try_result *r;
	size_t asked[TRY_EXPERIMENTS]; // the question; SIZE_MAX: not yet
	double failed_s, passed_s; // how long runs take
	unsigned nfailed, npassed;
	bool over;
	bool nowhere; // a failed run of which nothing was recorded
};

const char *try_verdict_name(enum try_verdict v)
{
	static const char *const names[] = { "unfinished", "no-failure", "unresolved-hides", "explained", "undecided",
					     "unresolved-rare", "not-recorded" };
	return names[v];
}

const char *try_answer_name(enum try_answer a)
{
	static const char *const names[] = { "open", "gone", "fails", "finds" };
	return names[a];
}

// --- what answers make of suspects ---

/** How likely the experiment ends so if the suspect is behind it. @lucky: the chance of so many clean runs where nothing has changed. */
static double likely(const struct try_suspect *s, size_t experiment, enum try_answer a, double lucky)
{
	const double found = s->found[experiment], gone = s->gone[experiment], fails = 1 - found - gone;
	return a == TRY_FINDS ? found : a == TRY_FAILS ? fails : gone + fails * lucky;
}

static void shares_of_one(double *w, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += w[i];
	for (size_t i = 0; i < n && sum > 0; i++)
		w[i] /= sum;
}

void try_weigh(const struct try_model *m, struct tally control, const struct try_question *questions, size_t n,
	       double ret_weights[TRY_SUSPECTS])
{
	const bool always = control.runs && control.failed == control.runs;
	for (size_t i = 0; i < m->nsuspects; i++) {
		const struct try_suspect *s = &m->suspects[i];
		double w = s->prior;
		if (control.failed)
			w *= always ? s->always + (1 - s->always) * LUCKY : 1 - s->always;
		for (size_t k = 0; k < n; k++)
			if (questions[k].stage == TRY_EXPERIMENT && questions[k].tally.runs)
				w *= likely(s, questions[k].experiment, questions[k].answer, tally_fewer(control, questions[k].tally));
		ret_weights[i] = w;
	}
	shares_of_one(ret_weights, m->nsuspects);
}

static void suspects_weigh(struct trying *t)
{
	struct try_result *r = t->r;
	try_weigh(&r->model, r->control, r->questions.data, r->questions.len, r->weights);
	r->leads = 0;
	for (size_t i = 1; i < r->model.nsuspects; i++)
		if (r->weights[i] > r->weights[r->leads])
			r->leads = i;
}

// --- which is next ---

static double bits_of(const double *w, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum -= w[i] > 0 ? w[i] * log2(w[i]) : 0;
	return sum;
}

/** An experiment that could be made, or made longer: what it is expected to tell, and to take. */
struct try_step {
	size_t experiment, question; // SIZE_MAX: it was not asked yet
	double error;                // until `gone` has no more
	double bits, seconds;
	double changes; // how likely another explanation leads afterwards, or the one that does holds
};

/** How much less is unknown afterwards, on average, and how likely each end is. What a question has told already is in the weights. */
static void bits_expect(const struct try_result *r, struct try_step *x, double was, double ret_ends[4])
{
	const struct try_model *m = &r->model;
	double told = bits_of(r->weights, m->nsuspects);
	for (enum try_answer a = TRY_GONE; a <= TRY_FINDS; a++) {
		double w[TRY_SUSPECTS] = { 0 }, sum = 0;
		size_t leads = r->leads;
		for (size_t i = 0; i < m->nsuspects; i++) {
			const struct try_suspect *s = &m->suspects[i];
			// Among jobs for which it was clean so far, those for which it stays so.
			const double before = was < 1 ? likely(s, x->experiment, TRY_GONE, was) : 1;
			const double fails = (1 - s->gone[x->experiment] - s->found[x->experiment]) * (was - x->error);
			const double now = a == TRY_GONE  ? likely(s, x->experiment, TRY_GONE, x->error) :
					   a == TRY_FAILS ? fails :
					   was < 1        ? 0 :
							    s->found[x->experiment];
			w[i] = r->weights[i] * now / before;
			sum += w[i];
		}
		shares_of_one(w, m->nsuspects);
		for (size_t i = 0; i < m->nsuspects; i++)
			leads = w[i] > w[leads] ? i : leads;
		const bool holds = r->weights[r->leads] < HOLDS && w[leads] >= HOLDS;
		x->changes += leads == r->leads && !holds ? 0 : sum;
		told -= sum * bits_of(w, m->nsuspects);
		ret_ends[a] = sum;
	}
	x->bits = told;
}

/** What slows kernels or allocations does not slow the job's start: of a run, so much is work of the GPU. */
#define SHARE_SLOWED 0.3
static double run_longer(const struct try_experiment *e) { return 1 + SHARE_SLOWED * (e->slower - 1); }

/** `gone` takes all clean runs; at a failure it ends. */
static double seconds_expected(const struct try_result *r, const struct try_step *x, const double ends[4], double failed_s,
			       double passed_s)
{
	const unsigned needed = clean_needed_after(r->control, x->error);
	const unsigned had = x->question == SIZE_MAX ? 0 : r->questions.data[x->question].tally.runs;
	const double clean = needed > had ? needed - had : 1;
	const double rate = tally_rate(r->control), tried = fmin(rate > 0 ? 1 / rate : clean, clean);
	const double gone = clean * passed_s, fails = (tried - 1) * passed_s + failed_s;
	return run_longer(&r->model.experiments[x->experiment]) * (ends[TRY_GONE] * gone + (ends[TRY_FAILS] + ends[TRY_FINDS]) * fails);
}

static void step_weigh(const struct try_result *r, double failed_s, double passed_s, struct try_step *x)
{
	double ends[4];
	const double was = x->question == SIZE_MAX ? 1 : tally_fewer(r->control, r->questions.data[x->question].tally);
	bits_expect(r, x, was, ends);
	x->seconds = seconds_expected(r, x, ends, failed_s, passed_s);
}

/** What is known of it by another: of several changes at once and of each of them. */
static bool is_implied(const struct trying *t, size_t experiment)
{
	const struct try_model *m = &t->r->model;
	for (size_t i = 0; i < m->nexperiments; i++) {
		const enum try_answer a = t->asked[i] == SIZE_MAX ? TRY_OPEN : t->r->questions.data[t->asked[i]].answer;
		if ((m->experiments[i].includes >> experiment & 1 && a == TRY_FAILS) ||
		    (m->experiments[experiment].includes >> i & 1 && a == TRY_GONE))
			return true;
	}
	return false;
}

/** The errors down to which an experiment may be made: few clean runs tell little, and take little. */
static const double levels[] = { 0.25, 0.05 };

/** An experiment made so long. false: it cannot be. Of several changes at once little is asked: one of them has to show it anyhow. */
static bool try_step_of(const struct trying *t, size_t experiment, double error, struct try_step *ret)
{
	const size_t at = t->asked[experiment];
	const struct try_question *q = at == SIZE_MAX ? NULL : &t->r->questions.data[at];
	*ret = (struct try_step){ .experiment = experiment, .question = at, .error = error };
	if (q && (q->answer == TRY_FAILS || q->answer == TRY_FINDS))
		return false;
	if (error < levels[0] && t->r->model.experiments[experiment].includes)
		return false;
	return q ? tally_fewer(t->r->control, q->tally) > error : !is_implied(t, experiment);
}

/** The step that tells most for its time. false: none is worth it. */
static bool step_find(const struct trying *t, struct try_step *ret)
{
	const struct try_result *r = t->r;
	const double rate = tally_rate(r->control), run_s = rate * t->failed_s + (1 - rate) * t->passed_s;
	double score = 0;
	for (size_t i = 0; i < r->model.nexperiments * ARRAY_SIZE(levels); i++) {
		struct try_step x;
		if (!try_step_of(t, i / ARRAY_SIZE(levels), levels[i % ARRAY_SIZE(levels)], &x))
			continue;
		step_weigh(r, t->failed_s, t->passed_s, &x);
		const bool worth = x.bits >= LEAST_BITS && x.changes >= LEAST_CHANGE &&
				   x.bits * run_s >= LEAST_BITS_OF_RUN * x.seconds;
		if (!worth || x.bits / x.seconds <= score)
			continue;
		score = x.bits / x.seconds;
		*ret = x;
	}
	return score > 0;
}

/** The experiment that speaks most for who leads, if it only seems to be gone there. */
static bool step_show(const struct trying *t, struct try_step *ret)
{
	const struct try_result *r = t->r;
	const struct try_suspect *leads = &r->model.suspects[r->leads];
	double most = 0.5;
	for (size_t i = 0; i < r->model.nexperiments; i++) {
		if (t->asked[i] == SIZE_MAX || r->questions.data[t->asked[i]].answer != TRY_GONE || leads->gone[i] <= most ||
		    is_implied(t, i))
			continue;
		most = leads->gone[i];
		*ret = (struct try_step){ .experiment = i, .question = t->asked[i], .error = t->o->error };
	}
	return most > 0.5 && r->questions.data[ret->question].error > t->o->error;
}

double try_expected(const struct try_result *r, const struct try_options *o)
{
	double sum = 0;
	for (size_t i = 0; i < r->model.nexperiments; i++) {
		struct try_step x = { .experiment = i, .question = SIZE_MAX, .error = o->error };
		step_weigh(r, r->seconds, r->seconds, &x);
		sum += x.seconds;
	}
	return sum;
}

// --- questions ---

static void took(struct trying *t, const struct trial_outcome *x, double longer)
{
	const double s = x->seconds / longer;
	double *mean = x->failed ? &t->failed_s : &t->passed_s;
	unsigned *n = x->failed ? &t->nfailed : &t->npassed;
	*mean += (s - *mean) / ++*n;
	if (!t->nfailed)
		t->failed_s = t->passed_s;
	if (!t->npassed)
		t->passed_s = t->failed_s;
}

/** Makes up to @n runs. false: there is no more time, or none of them counts. *@ret_found: one of them shows the cause. */
static bool runs_ask(struct trying *t, size_t at, unsigned n, bool *ret_found)
{
	struct trial_outcome out[AT_ONCE];
	for (unsigned empty = 0; empty < VOID_MOST; empty++) {
		struct try_question *q = &t->r->questions.data[at];
		const unsigned done = t->over ? 0 : t->hands->run(t->hands->ctx, q, n < AT_ONCE ? n : AT_ONCE, out);
		unsigned counted = 0;
		t->over |= !done;
		for (unsigned i = 0; i < done; i++) {
			t->r->runs++;
			t->r->void_runs += out[i].lost;
			t->nowhere |= out[i].nowhere && out[i].failed;
			if (out[i].lost)
				continue;
			counted++;
			q->tally.runs++;
			q->tally.failed += out[i].failed;
			*ret_found |= out[i].found;
			if (q->stage == TRY_CONTROL) {
				struct tally *on = &t->r->on_gpu[out[i].gpu % TRIAL_GPUS];
				on->runs++;
				on->failed += out[i].failed;
			}
			took(t, &out[i], q->stage == TRY_EXPERIMENT ? run_longer(&t->r->model.experiments[q->experiment]) : 1);
		}
		if (counted || !done)
			return counted;
	}
	return false;
}

static size_t try_ask_new(struct trying *t, enum try_stage stage, struct str key)
{
	const struct try_question q = { .stage = stage, .key = key, .control = t->r->control, .error = t->o->error };
	vec_push(&t->r->questions, q);
	return t->r->questions.len - 1;
}

/** Has the runs of a step made, @most at most; 0: as many as it takes. */
static void step_ask(struct trying *t, const struct try_step *x, unsigned most)
{
	const struct try_experiment *e = &t->r->model.experiments[x->experiment];
	const unsigned needed = most ? most : clean_needed_after(t->r->control, x->error);
	size_t at = x->question;
	bool found = false;
	if (at == SIZE_MAX) {
		at = try_ask_new(t, TRY_EXPERIMENT, e->id);
		t->r->questions.data[at].experiment = x->experiment;
		t->r->questions.data[at].bits = x->bits;
		t->asked[x->experiment] = at;
	}
	t->r->questions.data[at].error = x->error;
	t->r->questions.data[at].expected_s += x->seconds;
	t->r->questions.data[at].control = t->r->control;
	for (;;) {
		struct try_question *q = &t->r->questions.data[at];
		const enum trial_answer gone = trial_vanishes(q->control, q->tally, q->error);
		q->answer = found ? TRY_FINDS : gone == TRIAL_YES ? TRY_GONE : gone == TRIAL_NO ? TRY_FAILS : TRY_OPEN;
		if (q->answer != TRY_OPEN || (most && q->tally.runs >= most))
			return;
		if (!runs_ask(t, at, e->finds || needed <= q->tally.runs ? 1 : needed - q->tally.runs, &found))
			return;
	}
}

// --- the whole ---

bool try_control_done(struct tally t, double low_rate, double error)
{
	if (t.runs >= CONTROL_MOST || (!t.failed && t.runs >= clean_needed(low_rate, error)) || tally_too_rare(t, low_rate, error))
		return true;
	return t.failed == t.runs ? t.failed >= ALWAYS_WANTED : t.failed >= FAILURES_WANTED && t.runs >= CONTROL_LEAST;
}

/** Without a failure so far: those that show the cause by themselves, once each. */
static bool finds_first(struct trying *t)
{
	const struct try_model *m = &t->r->model;
	bool passed = true; // all that there is
	for (size_t i = 0; i < m->nexperiments; i++) {
		passed &= m->experiments[i].finds;
		if (!m->experiments[i].finds)
			continue;
		step_ask(t, &(struct try_step){ .experiment = i, .question = SIZE_MAX, .error = levels[0] }, 1);
		const struct try_question *q = &t->r->questions.data[t->r->questions.len - 1];
		if (q->answer == TRY_FINDS)
			return true;
		passed &= q->answer == TRY_OPEN && q->tally.runs;
	}
	return passed;
}

static bool try_control(struct trying *t)
{
	struct try_result *r = t->r;
	const size_t at = try_ask_new(t, TRY_CONTROL, S("control"));
	const unsigned clean = clean_needed(t->o->low_rate, t->o->error);
	bool found = false;
	while (!try_control_done(r->control, t->o->low_rate, t->o->error)) {
		const struct tally c = r->control;
		const bool first = t->o->named && !c.runs;
		const unsigned n = first      ? 1 :
				   !c.failed  ? clean - c.runs :
				   c.failed >= FAILURES_WANTED ? CONTROL_LEAST - c.runs : FAILURES_WANTED - c.failed;
		if (!runs_ask(t, at, c.failed ? n : first ? 1 : n < CONTROL_LEAST ? n : CONTROL_LEAST, &found))
			return false;
		r->control = r->questions.data[at].tally;
		if (t->nowhere && !t->o->named && !t->o->unrecorded) {
			r->verdict = TRY_NOWHERE;
			return false;
		}
		if (first && !r->control.failed && finds_first(t))
			return true;
	}
	return true;
}

/** It did not fail: does it without the recorder? */
static enum try_verdict try_bare(struct trying *t)
{
	const size_t at = try_ask_new(t, TRY_BARE, S("bare"));
	const unsigned clean = clean_needed(t->o->low_rate, t->o->error);
	bool found = false;
	for (;;) {
		const struct tally c = t->r->bare = t->r->questions.data[at].tally;
		const enum trial_answer hides = trial_hides(t->r->control, c, clean, t->o->error);
		if (hides != TRIAL_GOES_ON)
			return hides == TRIAL_YES ? TRY_HIDES : c.failed ? TRY_RARE : TRY_NEVER;
		if (!runs_ask(t, at, clean - c.runs, &found))
			return TRY_UNFINISHED;
	}
}

static bool found_any(const struct try_result *r)
{
	for (size_t i = 0; i < r->questions.len; i++)
		if (r->questions.data[i].answer == TRY_FINDS)
			return true;
	return false;
}

static void experiments_run(struct trying *t)
{
	struct try_result *r = t->r;
	for (;;) {
		struct try_step next = { 0 };
		suspects_weigh(t);
		const bool certain = r->weights[r->leads] >= t->o->certain && r->questions.len > 1;
		if ((certain || !step_find(t, &next)) && !step_show(t, &next)) {
			r->verdict = r->weights[r->leads] >= HOLDS ? TRY_EXPLAINED : TRY_UNDECIDED;
			return;
		}
		step_ask(t, &next, 0);
		if (t->over) {
			suspects_weigh(t);
			return;
		}
	}
}

void trial_try(const struct try_options *o, const struct try_hands *hands, struct try_result *ret)
{
	*ret = (struct try_result){ .low_rate = o->low_rate };
	struct trying t = { .o = o, .hands = hands, .r = ret };
	for (size_t i = 0; i < TRY_EXPERIMENTS; i++)
		t.asked[i] = SIZE_MAX;
	hands->model(hands->ctx, false, &ret->model);
	if (!try_control(&t))
		return;
	ret->seconds = ret->control.failed ? t.failed_s : t.passed_s;
	if (found_any(ret)) {
		suspects_weigh(&t);
		ret->modelled = true;
		ret->verdict = TRY_EXPLAINED;
		return;
	}
	if (!ret->control.failed) {
		const bool told = ret->questions.len > 1; // by those that were named
		ret->verdict = told && ret->control.runs < clean_needed(o->low_rate, o->error) ? TRY_NEVER : try_bare(&t);
		return;
	}
	if (tally_too_rare(ret->control, o->low_rate, o->error)) {
		ret->verdict = TRY_RARE;
		return;
	}
	hands->model(hands->ctx, true, &ret->model);
	ret->modelled = true;
	try_weigh(&ret->model, ret->control, NULL, 0, ret->before);
	suspects_weigh(&t);
	if (hands->planned)
		hands->planned(hands->ctx, ret, try_expected(ret, o));
	experiments_run(&t);
}

void try_result_free(struct try_result *r)
{
	vec_free(&r->questions);
	arena_free(&r->arena);
}
