// How often something happens, before and after: rates of counted events over hours, and what two of them say of each other. Exact for
// small numbers, which is all that a machine has of its incidents.
#pragma once

/** The regularised incomplete beta function I_x(a, b), for a, b > 0. */
double beta_share(double a, double b, double x);
/** Where the beta distribution has @share of its weight below. */
double beta_quantile(double a, double b, double share);

/** Events and the hours in which they happened. Counts need not be whole: those that come in bursts are divided by how many come at once. */
struct rate {
	double events, hours;
};

/** How many times as often it happens after as before, and between which limits that lies: the exact interval of a rate ratio, given the
 * sum of both counts (each limit has half of what @confidence leaves). high is INFINITY where nothing happened before. */
struct rate_ratio {
	double ratio, low, high;
};
struct rate_ratio rate_compare(struct rate before, struct rate after, double confidence);

/** Between which limits a rate lies, in events by the hour: the exact interval of Garwood. */
struct rate_ratio rate_limits(struct rate r, double confidence);

/** Hours without any event that it takes from now on until the interval lies below 1. INFINITY: nothing happened before, so that nothing ever will tell. */
double rate_hours_to_tell(struct rate before, struct rate after, double confidence);
