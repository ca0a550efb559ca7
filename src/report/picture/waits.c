// What a hung GPU waits for: the unit that is stuck, and all that wait behind it.
#include "report/picture/picture.h"

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

bool picture_of_waits(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Place", "Unit", "State" };
	(void)d;
	p->form = PICTURE_CHAIN;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
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
	p->looks[LOOK_BAD] = "stuck";
	p->looks[LOOK_EFFECT] = p->marks.len > 1 ? "waits" : NULL;
	return p->marks.len;
}
