#include "diagnose/trial/trial.h"

#include <math.h>

#include "diagnose/changes/rates.h"

/** At which multiples of the first look it is looked at again, in halves, and which part of the error each look may have. */
static const unsigned look_at[] = { 2, 3, 4, 6 };
static const double look_share[] = { 0.5, 0.25, 0.125, 0.125 };
enum { RAISED_LOOKS = sizeof(look_at) / sizeof(look_at[0]), FIRST_LOOK_LEAST = 4, FIRST_LOOK_MOST = 64 };

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

enum trial_answer trial_vanishes(struct tally control, struct tally t, double error)
{
	if (t.failed)
		return TRIAL_NO;
	return t.runs && tally_fewer(control, t) <= error ? TRIAL_YES : TRIAL_GOES_ON;
}

unsigned raise_needed(struct tally control, double error)
{
	unsigned n = FIRST_LOOK_LEAST;
	while (n <= FIRST_LOOK_MOST && tally_more(control, (struct tally){ n, n }) > error * look_share[0])
		n++;
	return n <= FIRST_LOOK_MOST ? n : 0;
}

enum trial_answer trial_raised(struct tally control, struct tally t, double error)
{
	const unsigned first = raise_needed(control, error);
	for (unsigned i = 0; i < RAISED_LOOKS; i++)
		if (t.runs && t.runs == first * look_at[i] / 2 && tally_more(control, t) <= error * look_share[i])
			return TRIAL_YES;
	return t.runs >= first * look_at[RAISED_LOOKS - 1] / 2 ? TRIAL_NO : TRIAL_GOES_ON;
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
