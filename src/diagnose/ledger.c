#include "diagnose/ledger.h"

#include <stdlib.h>

#include "diagnose/join.h"

static int compare(const void *a, const void *b)
{
	const struct incident *x = *(struct incident *const *)a, *y = *(struct incident *const *)b;
	if (x->now != y->now)
		return x->now ? -1 : 1;
	if (x->cause->severity != y->cause->severity)
		return y->cause->severity - x->cause->severity;
	if (x->boot != y->boot)
		return x->boot > y->boot ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_failure(const struct incident *a, const struct incident *b)
{
	return str_eq(a->fingerprint, b->fingerprint) && str_eq(a->gpu.device, b->gpu.device) && str_eq(a->host, b->host);
}

/** How often each failure came, and over what time. */
static void count_times(const struct ledger *l)
{
	for (size_t n = 0; n < l->incidents.len; n++) {
		struct incident *i = l->incidents.data[n];
		i->times = 0;
		i->over = 0;
		for (size_t k = 0; k < l->incidents.len; k++) {
			const struct incident *o = l->incidents.data[k];
			if (!same_failure(i, o))
				continue;
			i->times++;
			// Each boot has a clock of its own.
			bool told = o->begin.clock == i->begin.clock && i->begin.clock != TIME_NONE &&
				    (i->begin.clock != TIME_BOOT || o->boot == i->boot);
			double apart = told ? o->begin.seconds - i->begin.seconds : 0;
			apart = apart < 0 ? -apart : apart;
			i->over = apart > i->over ? apart : i->over;
		}
	}
}

void ledger_sort(struct ledger *l)
{
	if (l->incidents.len)
		qsort(l->incidents.data, l->incidents.len, sizeof(l->incidents.data[0]), compare);
	while (l->incidents.len > LEDGER_MAX) {
		incident_free(l->incidents.data[--l->incidents.len]);
		l->omitted++;
	}
	count_times(l);
}

void ledger_add(struct ledger *l, struct incident *i)
{
	if (!i->cause) {
		if (l->seen.len < SEEN_MAX)
			vec_push(&l->seen, i);
		else
			incident_free(i);
		return;
	}
	vec_push(&l->incidents, i);
	if (l->incidents.len == 2 * LEDGER_MAX)
		ledger_sort(l);
}

static void sort_out(struct ledger *l, struct incident **list, size_t n)
{
	l->incidents.len = l->seen.len = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i]->cause)
			vec_push(&l->incidents, list[i]);
		else
			vec_push(&l->seen, list[i]);
	}
}

void ledger_join(struct ledger *l, const struct know *k, const struct machine *m)
{
	size_t n = l->incidents.len + l->seen.len, at = 0;
	struct incident **all = mem_alloc((n + 1) * sizeof(struct incident *));
	for (size_t i = 0; i < l->incidents.len; i++)
		all[at++] = l->incidents.data[i];
	for (size_t i = 0; i < l->seen.len; i++)
		all[at++] = l->seen.data[i];
	n = incidents_join(all, n);
	for (size_t i = 0; i < n; i++) {
		incident_complete(all[i], m);
		incident_conclude(all[i], k);
	}
	sort_out(l, all, n);
	free(all);
}

void ledger_free(struct ledger *l)
{
	for (size_t n = 0; n < l->seen.len; n++)
		incident_free(l->seen.data[n]);
	vec_free(&l->seen);
	for (size_t n = 0; n < l->incidents.len; n++)
		incident_free(l->incidents.data[n]);
	vec_free(&l->incidents);
}
