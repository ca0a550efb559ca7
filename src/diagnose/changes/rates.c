#include "diagnose/changes/rates.h"

#include <math.h>

/** The continued fraction of I_x(a, b), by Lentz's method. It converges fast where x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
	enum { STEPS = 10000 };
	const double tiny = 1e-300, enough = 1e-15;
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;
	d = 1 / (fabs(d) < tiny ? tiny : d);
	f = d;
	for (int n = 1; n < STEPS; n++) {
		const double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
		const double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
		const double terms[] = { even, odd };
		double factor = 1;
		for (int k = 0; k < 2; k++) {
			d = 1 + terms[k] * d;
			c = 1 + terms[k] / c;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = fabs(c) < tiny ? tiny : c;
			factor = c * d;
			f *= factor;
		}
		if (fabs(factor - 1) < enough)
			break;
	}
	return f;
}

double beta_share(double a, double b, double x)
{
	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double beta_quantile(double a, double b, double share)
{
	enum { HALVES = 60 };
	double low = 0, high = 1;
	for (int n = 0; n < HALVES; n++) {
		const double middle = (low + high) / 2;
		if (beta_share(a, b, middle) < share)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/** The share of events that happen after, as a ratio of rates. */
static double ratio_of_share(double share, struct rate before, struct rate after)
{
	return share >= 1 ? INFINITY : share / (1 - share) * before.hours / after.hours;
}

struct rate_ratio rate_compare(struct rate before, struct rate after, double confidence)
{
	const double tail = (1 - confidence) / 2;
	const double low = after.events > 0 ? beta_quantile(after.events, before.events + 1, tail) : 0;
	const double high = before.events > 0 ? beta_quantile(after.events + 1, before.events, 1 - tail) : 1;
	return (struct rate_ratio){
		.ratio = before.events > 0 ? after.events / after.hours * before.hours / before.events :
			 after.events > 0  ? INFINITY :
					     NAN,
		.low = ratio_of_share(low, before, after),
		.high = ratio_of_share(high, before, after),
	};
}

double rate_hours_to_tell(struct rate before, struct rate after, double confidence)
{
	if (before.events <= 0)
		return INFINITY;
	// The limit of the share does not depend on the hours: only what share they are of all does.
	const double high = beta_quantile(after.events + 1, before.events, 1 - (1 - confidence) / 2);
	const double hours = high / (1 - high) * before.hours - after.hours;
	return hours > 0 ? hours : 0;
}

/** P(at most @k events) where @mean are expected. */
static double poisson_at_most(double k, double mean)
{
	double sum = 0;
	for (double i = 0; i <= k; i++)
		sum += exp(i * log(mean) - mean - lgamma(i + 1));
	return sum;
}

/** The mean with which at most @k events come with the chance @share. */
static double poisson_mean(double k, double share)
{
	enum { HALVES = 60 };
	double low = 0, high = k + 20 + 10 * sqrt(k + 20);
	for (int n = 0; n < HALVES; n++) {
		const double middle = (low + high) / 2;
		if (poisson_at_most(k, middle) > share)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

struct rate_ratio rate_limits(struct rate r, double confidence)
{
	const double tail = (1 - confidence) / 2;
	if (r.hours <= 0)
		return (struct rate_ratio){ NAN, 0, INFINITY };
	return (struct rate_ratio){
		.ratio = r.events / r.hours,
		.low = r.events > 0 ? poisson_mean(r.events - 1, 1 - tail) / r.hours : 0,
		.high = poisson_mean(r.events, tail) / r.hours,
	};
}
