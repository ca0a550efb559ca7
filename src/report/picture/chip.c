// The chip: its compute units in the order in which the driver counts them, and what the waves on each of them do. Units that were switched
// off in the factory are gaps. It is drawn only where the GPU told which these are.
#include "report/picture/picture.h"

static const char *const states[LOOKS] = { [LOOK_BAD] = "waves that stand still or loop",
					   [LOOK_EFFECT] = "waves at a barrier",
					   [LOOK_GOOD] = "waves that get on",
					   [LOOK_QUIET] = "no wave" };

static enum picture_look look_of(const struct unit_seen *u)
{
	return u->caught ? LOOK_BAD : u->barrier ? LOOK_EFFECT : u->waves ? LOOK_GOOD : LOOK_QUIET;
}

static bool same_row(const struct wave_unit *a, const struct wave_unit *b)
{
	return a->xcc == b->xcc && a->se == b->se && a->sh == b->sh;
}

static struct str row_name(struct picture *p, const struct wave_unit *u)
{
	return arena_printf(&p->arena, "XCC %u SE %u SH %u", u->xcc, u->se, u->sh);
}

static void add_row(struct picture *p, const struct unit_seen *u)
{
	char room[24];
	picture_cell(p, row_name(p, &u->at));
	picture_count(p, u->at.cu);
	picture_cell(p, u->at.there ? str_z(states[look_of(u)]) : S("switched off in the factory"));
	picture_count(p, u->at.there ? (int64_t)u->waves : -1);
	picture_cell(p, u->waves ? code_text(u->pc, room) : S(""));
}

static void add_unit(struct picture *p, const struct unit_seen *u)
{
	const enum picture_look look = look_of(u);
	add_row(p, u);
	if (!u->at.there)
		return;
	p->looks[look] = states[look];
	picture_mark(p, (struct picture_mark){ p->tracks.len - 1, u->at.cu, u->at.cu, look,
					       u->waves ? arena_printf(&p->arena, "%zu", u->waves) : S("") });
}

static const struct dump *find_units(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->dump.nunits)
			return &i->events.data[n]->dump;
	return NULL;
}

bool picture_of_chip(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Where", "CU or WGP", "State", "Waves", "At" };
	const struct dump *chip = find_units(i);
	size_t there = 0, used = 0, caught = 0;
	(void)d;
	if (!chip)
		return false;
	p->form = PICTURE_CELLS;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	for (size_t n = 0; n < chip->nunits; n++) {
		const struct unit_seen *u = &chip->units[n];
		if (u->at.cu >= PICTURE_CELLS_WIDE)
			return false;
		if (!n || !same_row(&u->at, &u[-1].at))
			picture_track(p, row_name(p, &u->at));
		there += u->at.there;
		used += u->waves > 0;
		caught += u->caught > 0;
		add_unit(p, u);
	}
	const size_t gaps = chip->nunits - there;
	p->says = arena_printf(&p->arena, "Waves are on %zu of %zu %s, and stand still or loop on %zu of them", used, there,
			       chip->units[0].wgp ? "WGPs" : "CUs", caught);
	if (gaps)
		p->says = arena_printf(&p->arena, STR_FMT ". Gaps (%zu) were switched off in the factory", STR_ARG(p->says),
				       gaps);
	return there;
}
