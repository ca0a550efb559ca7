#include "report/report.h"

const char *role_name(enum know_role role)
{
	static const char *const names[] = { "cause", "effect", "artefact", "bystander" };
	return names[role];
}

const char *clock_name(enum time_clock clock)
{
	static const char *const names[] = { "none", "boot", "wall", "local", "yearless", "relative" };
	return names[clock];
}

static void walk_incident(const struct incident *i, const struct report_writer *w, void *ctx)
{
	w->incident(ctx, i);
	w->open(ctx, LIST_TIMELINE, i);
	for (size_t n = 0; n < i->events.len; n++)
		w->event(ctx, i->events.data[n], n + 1);
	w->close(ctx, LIST_TIMELINE, i);
	w->open(ctx, LIST_KNOWN, i);
	for (size_t n = 0; n < i->known.len; n++)
		w->known(ctx, i->known.data[n]);
	w->close(ctx, LIST_KNOWN, i);
	w->open(ctx, LIST_REMEDIES, i);
	for (size_t n = 0; n < i->remedies.len; n++)
		w->remedy(ctx, &i->remedies.data[n], n + 1);
	w->close(ctx, LIST_REMEDIES, i);
	w->open(ctx, LIST_NEXT, i);
	for (size_t n = 0; n < i->next.len; n++)
		w->next(ctx, &i->next.data[n]);
	w->close(ctx, LIST_NEXT, i);
	w->incident_end(ctx, i);
}

void report_walk(const struct diagnosis *d, const struct report_writer *w, void *ctx)
{
	w->begin(ctx, d);
	w->open(ctx, LIST_SOURCES, NULL);
	for (size_t n = 0; n < evidence_count(d->evidence); n++)
		w->source(ctx, evidence_at(d->evidence, n));
	w->close(ctx, LIST_SOURCES, NULL);
	w->open(ctx, LIST_INCIDENTS, NULL);
	for (size_t n = 0; n < d->ledger->incidents.len; n++)
		walk_incident(d->ledger->incidents.data[n], w, ctx);
	w->close(ctx, LIST_INCIDENTS, NULL);
	w->end(ctx, d);
}
