// Requests for memory: whether one is larger than the whole card, or than any, or was refused although there was room.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/incident.h"

/** `17.14` and `GiB`, in bytes; 0 where it is not known. */
static double request_bytes_of(const struct diag_event *e, const char *number, const char *unit)
{
	static const char prefixes[] = "BKMGT";
	const struct fact *value = diag_fact(e, number), *in = diag_fact(e, unit);
	const char *prefix = in && in->value.n && in->value.p[0] ? strchr(prefixes, in->value.p[0]) : NULL;
	char room[32];
	if (!value || !prefix || value->value.n >= sizeof(room))
		return 0;
	snprintf(room, sizeof(room), STR_FMT, STR_ARG(value->value));
	double bytes = strtod(room, NULL);
	for (; prefix > prefixes; prefix--)
		bytes *= 1024;
	return bytes;
}

void request_explain(struct incident *i, struct diag_event *e)
{
	double wanted = request_bytes_of(e, "wanted", "wanted_unit"),
	       capacity = request_bytes_of(e, "capacity", "capacity_unit");
	const double left = request_bytes_of(e, "free", "free_unit"), absurd = 1024.0 * 1024 * 1024 * 1024 * 4;
	diag_conclude(i, e, "beyond_capacity", capacity > 0 && wanted > capacity ? S("yes") : (struct str){ 0 });
	diag_conclude(i, e, "beyond_reason", wanted > absurd ? S("yes") : (struct str){ 0 });
	diag_conclude(i, e, "enough_free", wanted > 0 && left > wanted * 1.1 ? S("yes") : (struct str){ 0 });
}
