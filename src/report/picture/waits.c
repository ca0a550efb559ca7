// What a hung GPU waits for: the unit that is stuck, and all that wait behind it.
#include "report/picture/picture.h"

enum { LINKS_EACH = 6 };

/** Takes the text before the next comma off @s that is not in brackets: `the memory path (L1, L2), the shader cores`. */
static struct str take_unit(struct str *s)
{
	int depth = 0;
	for (size_t n = 0; n < s->n; n++) {
		depth += (s->p[n] == '(') - (s->p[n] == ')');
		if (s->p[n] != ',' || depth > 0)
			continue;
		const struct str unit = str_cut(*s, n);
		*s = str_from(*s, n + 1);
		return str_trim(unit);
	}
	const struct str unit = str_trim(*s);
	*s = (struct str){ 0 };
	return unit;
}

static void add_link(struct picture *p, struct str unit, enum picture_look look, const char *state)
{
	picture_mark(p, (struct picture_mark){ p->marks.len, 0, 1, look, unit });
	picture_count(p, (int64_t)p->marks.len);
	picture_cell(p, unit);
	picture_cell(p, str_z(state));
}

/** Units of the GPU behind the one that is stuck. */
static void add_units(struct picture *p, const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && !p->marks.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct str end = diag_value(e, "waits_end_title");
		struct str chain = diag_value(e, "waits_chain");
		if (!end.n)
			continue;
		add_link(p, end, LOOK_BAD, "stuck");
		while (chain.n)
			add_link(p, take_unit(&chain), LOOK_EFFECT, "waits for the one above");
		p->says = arena_printf(&p->arena, "Stuck: " STR_FMT, STR_ARG(end));
	}
}

/** Queues that wait for each other: a sentence for each. */
static void add_circle(struct picture *p, const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && !p->marks.len; n++) {
		struct str all = diag_value(i->events.data[n], "deadlock_says");
		while (all.n)
			add_link(p, str_trim(str_split(&all, ';')), LOOK_BAD, "waits for the other");
		p->says = S("They wait in a circle: none can go on");
	}
}

/** Kernels that have not ended, and who waits for them. */
static void add_kernels(struct picture *p, const struct incident *i)
{
	size_t flying = 0, waiting = 0;
	for (size_t n = 0; n < i->events.len && flying < LINKS_EACH; n++)
		if (i->events.data[n]->kind->tells == TELLS_IN_FLIGHT && ++flying)
			add_link(p, i->events.data[n]->sentence, LOOK_BAD, "has not ended");
	for (size_t n = 0; n < i->events.len && flying && waiting < LINKS_EACH; n++)
		if (i->events.data[n]->kind->waits && i->events.data[n]->kind->tells != TELLS_IN_FLIGHT && ++waiting)
			add_link(p, i->events.data[n]->sentence, LOOK_EFFECT, "waits");
	p->says = arena_printf(&p->arena, "In flight: %zu, waiting: %zu", flying, waiting);
}

bool picture_of_waits(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Place", "What", "State" };
	static void (*const ways[])(struct picture * p, const struct incident *i) = { add_units, add_circle, add_kernels };
	(void)d;
	p->form = PICTURE_CHAIN;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	for (size_t n = 0; n < sizeof(ways) / sizeof(ways[0]) && !p->marks.len; n++)
		ways[n](p, i);
	for (size_t n = 0; n < p->marks.len; n++)
		p->looks[p->marks.data[n].look] = p->marks.data[n].look == LOOK_BAD ? "stuck" : "waits";
	return p->marks.len;
}
