#include "diagnose/ledger.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const struct incident *x = *(struct incident *const *)a, *y = *(struct incident *const *)b;
	if (x->cause->severity != y->cause->severity)
		return y->cause->severity - x->cause->severity;
	if (x->boot != y->boot)
		return x->boot > y->boot ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void ledger_sort(struct ledger *l)
{
	if (l->incidents.len)
		qsort(l->incidents.data, l->incidents.len, sizeof(l->incidents.data[0]), compare);
	while (l->incidents.len > LEDGER_MAX) {
		incident_free(l->incidents.data[--l->incidents.len]);
		l->omitted++;
	}
}

void ledger_add(struct ledger *l, struct incident *i)
{
	vec_push(&l->incidents, i);
	if (l->incidents.len == 2 * LEDGER_MAX)
		ledger_sort(l);
}

void ledger_free(struct ledger *l)
{
	for (size_t n = 0; n < l->incidents.len; n++)
		incident_free(l->incidents.data[n]);
	vec_free(&l->incidents);
}
