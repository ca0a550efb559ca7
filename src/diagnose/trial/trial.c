#include "diagnose/trial/trial.h"

#include <math.h>

#include "diagnose/changes/rates.h"

enum { FIRST_LOOK_LEAST = 4, FIRST_LOOK_MOST = 64, LOOKS_UNTIL = 3 };
/** How much of an error Fisher's test is given, by how often the control failed. Looked at once, it is too careful where failures are frequent;
 * looked at after each run, it needs a reserve there. tests/test_trial.c adds up how often each is wrong, for all rates. */
static const double once_often = 1.7, often_once = 0.3;
/** Of the error, what each number of failures may have that a control stops at. */
static const double of_each_count = 0.2;
static const double each_seldom = 0.8, each_often = 0.45, often_each = 0.4;

struct tally_interval tally_limits(struct tally t, double confidence)
{
	const double tail = (1 - confidence) / 2, k = t.failed, n = t.runs;
	return (struct tally_interval){
		.low = t.failed ? beta_quantile(k, n - k + 1, tail) : 0,
		.high = t.failed < t.runs ? beta_quantile(k + 1, n - k, 1 - tail) : 1,
	};
}

static double choose_log(double n, double k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }

/** The chance that of all failures exactly @k are among the runs of @t. */
static double share_exactly(struct tally control, struct tally t, double k)
{
	const double runs = (double)control.runs + t.runs, failed = (double)control.failed + t.failed;
	if (k > t.runs || failed - k > control.runs || k > failed)
		return 0;
	return exp(choose_log(t.runs, k) + choose_log(control.runs, failed - k) - choose_log(runs, failed));
}

double tally_fewer(struct tally control, struct tally t)
{
	double sum = 0;
	for (unsigned k = 0; k <= t.failed; k++)
		sum += share_exactly(control, t, k);
	return sum < 1 ? sum : 1;
}

double tally_more(struct tally control, struct tally t)
{
	double sum = 0;
	for (unsigned k = t.failed; k <= t.runs; k++)
		sum += share_exactly(control, t, k);
	return sum < 1 ? sum : 1;
}

unsigned clean_needed(double rate, double error)
{
	if (rate <= 0 || error <= 0)
		return 0;
	return rate >= 1 ? 1 : (unsigned)ceil(log(error) / log1p(-rate) - 1e-9);
}

unsigned clean_needed_after(struct tally control, double error)
{
	enum { MOST = 100000 };
	if (!control.failed)
		return 0;
	unsigned low = 1, high = 1;
	while (high < MOST && tally_fewer(control, (struct tally){ high, 0 }) > error)
		high *= 2;
	while (low < high) {
		const unsigned middle = (low + high) / 2;
		if (tally_fewer(control, (struct tally){ middle, 0 }) > error)
			low = middle + 1;
		else
			high = middle;
	}
	return high;
}

bool tally_too_rare(struct tally t, double rate, double error)
{
	if (!t.failed || t.failed >= FAILURES_WANTED || rate >= 1)
		return false;
	double sum = 0; // the chance of so few failures at that rate
	for (unsigned k = 0; k <= t.failed; k++)
		sum += exp(choose_log(t.runs, k) + k * log(rate) + (t.runs - k) * log1p(-rate));
	return sum <= of_each_count * error;
}

enum trial_answer trial_hides(struct tally control, struct tally bare, unsigned most, double error)
{
	if (bare.failed && tally_more(control, (struct tally){ most, bare.failed }) <= error)
		return TRIAL_YES;
	return bare.runs >= most ? TRIAL_NO : TRIAL_GOES_ON;
}

enum trial_answer trial_vanishes(struct tally control, struct tally t, double error)
{
	if (t.failed)
		return TRIAL_NO;
	return t.runs && tally_fewer(control, t) <= error ? TRIAL_YES : TRIAL_GOES_ON;
}

double clean_level(struct tally control, double error)
{
	return tally_rate(control) >= often_once ? error * once_often : error;
}

static double raise_level(struct tally control, double error)
{
	return error * (tally_rate(control) < often_each ? each_seldom : each_often);
}

unsigned raise_needed(struct tally control, double error)
{
	unsigned n = FIRST_LOOK_LEAST;
	while (n <= FIRST_LOOK_MOST && tally_more(control, (struct tally){ n, n }) > raise_level(control, error))
		n++;
	return n <= FIRST_LOOK_MOST ? n : 0;
}

enum trial_answer trial_raised(struct tally control, struct tally t, double error)
{
	const unsigned first = raise_needed(control, error);
	if (t.runs && t.runs >= first && tally_more(control, t) <= raise_level(control, error))
		return TRIAL_YES;
	return t.runs >= first * LOOKS_UNTIL ? TRIAL_NO : TRIAL_GOES_ON;
}

enum trial_answer trial_seems_raised(struct tally control, struct tally t)
{
	const double yes = log(30), no = log(0.03);
	const double was = (control.failed + 0.5) / (control.runs + 1), risen = was + 0.8 * (1 - was);
	const double likely = t.failed * log(risen / was) + (t.runs - t.failed) * log((1 - risen) / (1 - was));
	return likely > yes ? TRIAL_YES : likely < no ? TRIAL_NO : TRIAL_GOES_ON;
}

double trial_share(double all, unsigned n) { return all * 4 / pow(5, n); }

double trial_share_of_many(double all, unsigned n) { return all / n / (n + 1); }
