// The lanes of the wave that stopped: which were active, and which hold a value that is out of step.
#include "evidence/waves/lanes.h"

#include "report/picture/picture.h"

static uint64_t active_lanes(const struct diag_event *e)
{
	const struct wave_register *exec = wave_register_named(&e->dump.registers, S("exec"));
	return exec && exec->n ? exec->data[0] : UINT64_MAX;
}

/** The first event that has a register with lanes out of step. */
static const struct diag_event *find_event(const struct incident *i, struct lane_pattern *ret)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		if (diag_fact(e, "odd_register") && lanes_find_odd(&e->dump.registers, active_lanes(e), ret))
			return e;
	}
	return NULL;
}

bool picture_of_lanes(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Lane", "State", "Value" };
	static const char *const states[LOOKS] = {
		[LOOK_BAD] = "out of step", [LOOK_GOOD] = "in step", [LOOK_QUIET] = "inactive", [LOOK_UNKNOWN] = "not known"
	};
	struct lane_pattern pattern;
	char room[24];
	const struct diag_event *e = find_event(i, &pattern);
	(void)d;
	if (!e)
		return false;
	const uint64_t active = active_lanes(e);
	p->form = PICTURE_CELLS;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	for (unsigned lane = 0; lane < pattern.v->n && lane < WAVE_LANES; lane++) {
		const bool known = lane_known(pattern.v, lane), on = active >> lane & 1, odd = pattern.odd >> lane & 1;
		const enum picture_look look = odd ? LOOK_BAD : !on ? LOOK_QUIET : known ? LOOK_GOOD : LOOK_UNKNOWN;
		const struct str value = known ? code_text(pattern.v->data[lane], room) : S("");
		p->looks[look] = states[look];
		picture_mark(p, (struct picture_mark){ 0, lane, lane, look, value });
		picture_count(p, lane);
		picture_cell(p, str_z(states[look]));
		picture_cell(p, value);
	}
	p->says = arena_printf(&p->arena, "In register " STR_FMT ", lanes " STR_FMT " are out of step with the others",
			       STR_ARG(pattern.v->name), STR_ARG(lanes_say(&p->arena, pattern.odd)));
	return true;
}
