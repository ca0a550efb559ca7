#include "diagnose/changes/past.h"

#include <time.h>

#include "base/cleanup.h"
#include "diagnose/engine.h"
#include "diagnose/told/told.h"
#include "evidence/reader.h"
#include "source/tape/tape.h"

enum { PAST_MS = 2000, SAID_MOST = 1 << 20, PAST_MOST = 65536 };
#define PAST_SAID "incidents" // its name on a tape

void past_add_boot(struct past *p, struct str id)
{
	if (id.n && p->boots.len < PAST_MOST && (!p->boots.len || !str_eq(p->boots.data[p->boots.len - 1], id)))
		vec_push(&p->boots, arena_str(&p->arena, id));
}

void past_add(struct past *p, struct str fingerprint, double when)
{
	if (p->sightings.len < PAST_MOST)
		vec_push(&p->sightings, ((struct past_sighting){ arena_str(&p->arena, fingerprint), when }));
}

void past_free(struct past *p)
{
	vec_free(&p->boots);
	vec_free(&p->sightings);
	arena_free(&p->arena);
}

// --- from the journal ---

struct past_reading {
	struct past *to;
	struct past boot; // the one at work, which counts when it was read to its end
	struct evidence_reader *evidence;
	struct engine *engine;
};

static void past_event(void *ctx, const struct event *e) { engine_event(((struct past_reading *)ctx)->engine, e); }

static void past_incident(void *ctx, struct incident *i)
{
	struct past_reading *r = ctx;
	double when;
	if (i->cause && incident_when(i, r->evidence, time(NULL), &when))
		past_add(&r->boot, i->fingerprint, when);
	incident_free(i);
}

static void past_record(void *ctx, const char *name, const struct source_record *record)
{
	struct past_reading *r = ctx;
	evidence_record(r->evidence, name, record);
	if (record)
		past_add_boot(&r->boot, record->boot_id);
	else
		engine_end(r->engine);
}

/** A boot whose log is damaged is not among those that were quiet. */
static void past_boot(void *ctx, bool damaged)
{
	struct past_reading *r = ctx;
	for (size_t n = 0; n < r->boot.boots.len && !damaged; n++)
		past_add_boot(r->to, r->boot.boots.data[n]);
	for (size_t n = 0; n < r->boot.sightings.len; n++)
		past_add(r->to, r->boot.sightings.data[n].fingerprint, r->boot.sightings.data[n].when);
	past_free(&r->boot);
}

/** What cannot be read is not among the boots. */
static void past_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	uh_error_free(err);
}

static void past_of_journal(const struct know *k, const char *root, int boot, struct past *to)
{
	struct past_reading r = { .to = to };
	const struct source_visitor v = { .record = past_record, .problem = past_problem, .ctx = &r };
	r.evidence = evidence_reader_new(k, (struct event_sink){ past_event, &r, NULL });
	r.engine = engine_new(k, (struct incident_sink){ .incident = past_incident, .ctx = &r });
	past_problem(NULL, source_journal_past(root, boot, PAST_MS, &v, past_boot));
	past_free(&r.boot);
	engine_free(r.engine);
	evidence_reader_free(r.evidence);
}

// --- as text, which a bundle keeps ---

static void past_write(const struct past *p, struct text *to)
{
	for (size_t n = 0; n < p->boots.len && to->n < SAID_MOST; n++)
		text_printf(to, "boot " STR_FMT "\n", STR_ARG(p->boots.data[n]));
	for (size_t n = 0; n < p->sightings.len && to->n < SAID_MOST; n++)
		text_printf(to, "incident " STR_FMT " %lld\n", STR_ARG(p->sightings.data[n].fingerprint),
			    (long long)(p->sightings.data[n].when * 1000));
}

static void past_parse(struct past *p, struct str text)
{
	str_each (line, text, '\n') {
		const struct str word = str_word(&line), value = str_word(&line);
		int64_t ms;
		if (str_is(word, "boot"))
			past_add_boot(p, value);
		else if (str_is(word, "incident") && str_number(str_trim(line), &ms))
			past_add(p, value, (double)ms / 1000);
	}
}

void past_read(const struct know *k, struct machine_at at, int boot, struct past *to)
{
	_cleanup_text_ struct text said = { 0 };
	if (tape_plays(at.tape)) {
		past_parse(to, tape_said(at.tape, &to->arena, PAST_SAID, (struct str){ 0 }));
		return;
	}
	past_of_journal(k, at.root, boot, to);
	if (!tape_records(at.tape))
		return;
	past_write(to, &said);
	tape_said(at.tape, &to->arena, PAST_SAID, text_str(&said));
}
