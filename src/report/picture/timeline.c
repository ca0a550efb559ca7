// When the events were. Where they are of one clock, to scale.
#include "report/picture/picture.h"
#include "report/text/parts.h"

enum { EVENTS_MOST = 200 };

static void add_row(const struct text_report *t, const struct incident *i, const struct diag_event *e, struct picture *p)
{
	struct text line = { 0 };
	prose_clock(&line, prose_stamp(t->diagnosis, e));
	picture_cell(p, text_str(&line));
	text_clear(&line);
	prose_elapsed(&line, i->begin, e->time);
	picture_cell(p, text_str(&line));
	picture_cell(p, str_z(role_name(e->role)));
	picture_cell(p, e->kind->title);
	picture_cell(p, e->sentence);
	text_clear(&line);
	prose_place(t, &line, e->at);
	picture_cell(p, str_trim(text_str(&line)));
	text_free(&line);
}

/** Each clock has its own beginning: only one of them makes a scale. */
static bool on_scale(const struct incident *i, const struct diag_event *e)
{
	return e->time.clock != TIME_NONE && e->time.clock == i->begin.clock && e->time.seconds >= i->begin.seconds;
}

static void add_tick(const struct incident *i, const struct scale *s, size_t n, struct picture *p)
{
	const struct stamp time = { i->begin.clock, s->values.data[n] };
	struct text label = { 0 };
	if (n)
		prose_elapsed(&label, i->begin, time);
	picture_tick(p, scale_at(s, time.seconds), n ? text_str(&label) : S("0"));
	text_free(&label);
}

/** Both ends first: they have room in any case. */
static void add_ticks(const struct incident *i, const struct scale *s, struct picture *p)
{
	for (size_t n = 0; n < s->values.len; n++)
		if (!n || n + 1 == s->values.len)
			add_tick(i, s, n, p);
	for (size_t n = 1; n + 1 < s->values.len; n++)
		add_tick(i, s, n, p);
}

static void say(const struct incident *i, struct picture *p, size_t events)
{
	struct text over = { 0 };
	prose_between(&over, i->begin, i->end);
	p->says = arena_printf(&p->arena, "%zu event%s%s" STR_FMT, events, events == 1 ? "" : "s", over.n ? " within " : "",
			       STR_ARG(text_str(&over)));
	text_free(&over);
}

bool picture_of_timeline(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Time", "After", "Role", "Event", "What", "Where" };
	static const enum picture_look looks[] = { [ROLE_CAUSE] = LOOK_BAD,
						   [ROLE_EFFECT] = LOOK_EFFECT,
						   [ROLE_ARTEFACT] = LOOK_UNKNOWN,
						   [ROLE_BYSTANDER] = LOOK_QUIET };
	static const char *const meanings[LOOKS] = { [LOOK_BAD] = "cause",
						     [LOOK_EFFECT] = "effect",
						     [LOOK_UNKNOWN] = "by-product",
						     [LOOK_QUIET] = "bystander",
						     [LOOK_GOOD] = NULL };
	const struct text_report t = { .diagnosis = d };
	struct scale s = { 0 };
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	const size_t n = i->events.len < EVENTS_MOST ? i->events.len : EVENTS_MOST;
	for (size_t k = 0; k < n; k++)
		if (on_scale(i, i->events.data[k]))
			scale_add(&s, i->events.data[k]->time.seconds);
	scale_ready(&s, NULL, 0, p);
	picture_track(p, S(""));
	for (size_t k = 0; k < n; k++) {
		const struct diag_event *e = i->events.data[k];
		add_row(&t, i, e, p);
		if (!on_scale(i, e))
			continue;
		const double at = scale_at(&s, e->time.seconds);
		p->looks[looks[e->role]] = meanings[looks[e->role]];
		picture_mark(p, (struct picture_mark){ 0, at, at, looks[e->role], e->kind->title });
	}
	add_ticks(i, &s, p);
	say(i, p, i->events.len);
	const bool drawn = s.values.len > 1;
	scale_free(&s);
	return drawn;
}
