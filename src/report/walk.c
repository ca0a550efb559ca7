// The one walk over a diagnosis: every report is a table of callbacks that it calls, so that no report can leave out or order things
// by accident.
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

void question_command(const struct diagnosis *d, const struct diag_question *q, struct text *to)
{
	if (d && d->again)
		text_printf(to, STR_FMT " ", STR_ARG(command_str(d->again)));
	text_printf(to, "-a " STR_FMT "=" STR_FMT, STR_ARG(q->question->head.id), STR_ARG(q->replies[0].reply));
}

void question_replies(const struct diag_question *q, size_t from, struct text *to)
{
	for (size_t n = from; n < q->n; n++)
		text_printf(to, "%s" STR_FMT, n > from ? ", " : "", STR_ARG(q->replies[n].reply));
}

const struct command *way_back_step(const struct diag_remedy *r)
{
	return r->remedy->first && r->shown && r->verdict.state == REMEDY_TRY && r->steps.n ? r->steps.list[0] : NULL;
}

const struct command *incident_way_back(const struct incident *i)
{
	const struct command *step = NULL;
	for (size_t n = 0; n < i->remedies.len && !step; n++)
		step = way_back_step(&i->remedies.data[n]);
	return step;
}

/** What a writer has no use for it leaves out of its table. */
#define TELL(what, ...) (w->what ? w->what(ctx, __VA_ARGS__) : (void)0)
/** A list: it is opened and closed also where it is empty. The rest says what the writer is told of number n. */
#define TELL_LIST(list, of, count, what, ...)                                                                                  \
	do {                                                                                                                   \
		TELL(open, list, of);                                                                                          \
		for (size_t n = 0; n < (count); n++)                                                                           \
			TELL(what, __VA_ARGS__);                                                                               \
		TELL(close, list, of);                                                                                         \
	} while (0)

/** How many of the nearest are told: those that share enough stand first. */
static size_t like_shown(const struct incident *i)
{
	size_t n = 0;
	while (n < i->like.len && i->like.data[n].shown)
		n++;
	return n;
}

static void walk_incident(const struct incident *i, const struct report_writer *w, void *ctx)
{
	TELL(incident, i);
	TELL_LIST(LIST_TIMELINE, i, i->events.len, event, i->events.data[n], n + 1);
	TELL_LIST(LIST_CHANGES, i, i->changes.list.len, change, i, &i->changes.list.data[n]);
	TELL_LIST(LIST_LIKE, i, like_shown(i), like, i, &i->like.data[n]);
	TELL_LIST(LIST_KNOWN, i, i->known.len, known, i->known.data[n]);
	TELL_LIST(LIST_REMEDIES, i, i->remedies.len, remedy, &i->remedies.data[n], n + 1);
	TELL_LIST(LIST_SETTINGS, i, i->settings.len, setting, &i->settings.data[n]);
	TELL_LIST(LIST_NEXT, i, i->next.len, next, &i->next.data[n]);
	if (i->question)
		TELL(question, i->question);
	TELL(incident_end, i);
}

/** Whether an event before it said the same beside it. */
static bool said_before(const struct incident *i, size_t at)
{
	for (size_t n = 0; n < at; n++)
		if (str_eq(i->events.data[n]->kind->aside, i->events.data[at]->kind->aside))
			return true;
	return false;
}

/** What was seen and is no incident, with the GPU that it is of where it is a hardware error. */
static struct note walk_note(const struct incident *i, size_t at, bool alone, struct arena *a)
{
	const struct diag_event *e = i->events.data[at];
	struct note note = { e->kind->head.id, e->sentence, e->at, true };
	struct module_error *error = arena_alloc(a, sizeof(*error));
	module_error_add(error, &(struct fact_view){ diag_event_get, e }, NULL);
	if (module_error_known(error)) {
		note.error = error;
		note.gpu = i->gpu;
		note.host = i->host;
		note.text = module_error_says(error, &i->gpu, note.text, a);
	}
	if (e->kind->aside.n && alone && !said_before(i, at))
		note.text = arena_printf(a, STR_FMT ". " STR_FMT, STR_ARG(note.text), STR_ARG(e->kind->aside));
	return note;
}

bool report_has_note(const struct diagnosis *d, const struct note *n) { return !n->seen || !d->ledger->incidents.len; }

void report_walk(const struct diagnosis *d, const struct report_writer *w, void *ctx)
{
	enum { SEEN = 24 };
	_cleanup_arena_ struct arena said = { 0 }; // writers keep notes until their list ends
	size_t told = 0;
	TELL(begin, d);
	if (d->observed)
		TELL(machine, d->observed);
	TELL_LIST(LIST_SOURCES, NULL, evidence_count(d->evidence), source, evidence_at(d->evidence, n));
	TELL(open, LIST_INCIDENTS, NULL);
	for (size_t n = 0; n < d->ledger->incidents.len; n++)
		walk_incident(d->ledger->incidents.data[n], w, ctx);
	TELL(close, LIST_INCIDENTS, NULL);
	TELL(open, LIST_NOTES, NULL);
	// What is said by itself, and what was seen but is no failure of a GPU.
	for (size_t n = 0; n < d->nnotes; n++)
		if (report_has_note(d, &d->notes[n]))
			TELL(note, &d->notes[n]);
	for (size_t n = 0; n < d->ledger->seen.len; n++) {
		const struct incident *i = d->ledger->seen.data[n];
		for (size_t k = 0; k < i->events.len && told < SEEN; k++) {
			const struct diag_event *e = i->events.data[k];
			if (e->kind->quiet || !e->sentence.n)
				continue;
			const struct note note = walk_note(i, k, !d->ledger->incidents.len, &said);
			TELL(note, &note);
			told++;
		}
	}
	TELL(close, LIST_NOTES, NULL);
	TELL(end, d);
}
