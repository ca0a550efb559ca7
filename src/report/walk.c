#include "report/report.h"

size_t report_width(const struct uh_report_options *o)
{
	enum { DEFAULT = 80, LEAST = 40, MOST = 120 };
	return !o->width ? DEFAULT : o->width < LEAST ? LEAST : o->width > MOST ? MOST : o->width;
}

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
	w->open(ctx, LIST_SETTINGS, i);
	for (size_t n = 0; n < i->settings.len; n++)
		w->setting(ctx, &i->settings.data[n]);
	w->close(ctx, LIST_SETTINGS, i);
	w->open(ctx, LIST_NEXT, i);
	for (size_t n = 0; n < i->next.len; n++)
		w->next(ctx, &i->next.data[n]);
	w->close(ctx, LIST_NEXT, i);
	w->incident_end(ctx, i);
}

/** What is said by itself, and what was seen but is no failure of a GPU. */
static void walk_notes(const struct diagnosis *d, const struct report_writer *w, void *ctx)
{
	enum { SEEN = 24 };
	size_t told = 0;
	for (size_t n = 0; n < d->nnotes; n++)
		if (!d->notes[n].seen || !d->ledger->incidents.len)
			w->note(ctx, &d->notes[n]);
	for (size_t n = 0; n < d->ledger->seen.len; n++) {
		const struct incident *i = d->ledger->seen.data[n];
		for (size_t k = 0; k < i->events.len && told < SEEN; k++) {
			const struct diag_event *e = i->events.data[k];
			struct note note = { e->kind->head.id, e->sentence, e->at, true };
			if (!e->kind->quiet && e->sentence.n) {
				w->note(ctx, &note);
				told++;
			}
		}
	}
}

void report_walk(const struct diagnosis *d, const struct report_writer *w, void *ctx)
{
	w->begin(ctx, d);
	if (d->machine)
		w->machine(ctx, d->machine);
	w->open(ctx, LIST_SOURCES, NULL);
	for (size_t n = 0; n < evidence_count(d->evidence); n++)
		w->source(ctx, evidence_at(d->evidence, n));
	w->close(ctx, LIST_SOURCES, NULL);
	w->open(ctx, LIST_INCIDENTS, NULL);
	for (size_t n = 0; n < d->ledger->incidents.len; n++)
		walk_incident(d->ledger->incidents.data[n], w, ctx);
	w->close(ctx, LIST_INCIDENTS, NULL);
	w->open(ctx, LIST_NOTES, NULL);
	walk_notes(d, w, ctx);
	w->close(ctx, LIST_NOTES, NULL);
	w->end(ctx, d);
}
