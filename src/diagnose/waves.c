// What people read out of a wave's registers by hand: which lanes were active, and which of them hold a value that
// is out of step with the others.
#include <stdio.h>

#include "diagnose/incident.h"
#include "evidence/lanes.h"

enum { SHOWN = 6 };

/** `59-63`, `0, 2, 7-9` */
static struct str lane_list(struct arena *a, uint64_t mask)
{
	struct text out = { 0 };
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		unsigned last = lane;
		while (last + 1 < LANES && mask >> (last + 1) & 1)
			last++;
		text_printf(&out, "%s%u", out.n ? ", " : "", lane);
		if (last > lane)
			text_printf(&out, "-%u", last);
		lane = last;
	}
	struct str list = arena_str(a, text_str(&out));
	text_free(&out);
	return list;
}

static struct str shown_values(struct arena *a, const struct lane_pattern *p, uint64_t mask)
{
	struct text out = { 0 };
	unsigned shown = 0;
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (!(mask >> lane & 1) || !lane_known(p->v, lane))
			continue;
		if (shown++ == SHOWN) {
			text_printf(&out, ", ...");
			break;
		}
		uint32_t value = (uint32_t)p->v->data[lane];
		text_printf(&out, "%s[%u] 0x%x", out.n ? ", " : "", lane, value);
		if (!p->address && value < 1u << 30)
			text_printf(&out, " (%u)", value);
		else if (!p->address && value >= 0xc0000000u)
			text_printf(&out, " (%d)", (int32_t)value);
	}
	struct str s = arena_str(a, text_str(&out));
	text_free(&out);
	return s;
}

static void tell_odd(struct incident *i, struct diag_event *e, const struct lane_pattern *p)
{
	struct str lanes = lane_list(&i->arena, p->odd);
	struct str values = shown_values(&i->arena, p, p->odd);
	diag_conclude(i, e, "odd_register", p->v->name);
	diag_conclude(i, e, "odd_lanes",
		      arena_printf(&i->arena, "lane%s " STR_FMT, __builtin_popcountll(p->odd) > 1 ? "s" : "", STR_ARG(lanes)));
	diag_conclude(i, e, "odd_values", values);
	struct text note = { 0 };
	text_printf(&note, "In register " STR_FMT " the other lanes ", STR_ARG(p->v->name));
	if (p->stepped && p->step == 0)
		text_printf(&note, "all hold 0x%x", p->base);
	else if (p->stepped)
		text_printf(&note, "go up by %d (0x%x in lane 0)", (int32_t)p->step, p->base);
	else
		text_printf(&note, "lie between 0x%x and 0x%x", p->low, p->high);
	text_printf(&note, "; the lanes that stopped break this: " STR_FMT ".", STR_ARG(values));
	if (p->address)
		text_printf(&note, " It is the lower half of an address.");
	else
		text_printf(&note, " If it is the index or what the index was computed from, these are the bad values.");
	diag_set_note(i, e, "lanes_note", text_str(&note));
	text_free(&note);
}

static void find_odd_lanes(struct incident *i, struct diag_event *e, uint64_t active)
{
	struct lane_pattern best;
	if (lanes_find_odd(e->values, e->nvalues, active, &best))
		tell_odd(i, e, &best);
}

/** Why the pc need not be the guilty instruction. */
static void judge_pc(struct incident *i, struct diag_event *e, const char *reason, unsigned places)
{
	const struct fact *instruction = diag_fact(e, "instruction");
	struct text note = { 0 };
	if (strstr(reason, "ASSERT") && instruction && str_starts(instruction->value, S("s_endpgm")))
		text_printf(&note,
			    "The pc stands on s_endpgm because the trap is the instruction before it (s_trap 2; s_endpgm): the "
			    "condition was tested some instructions earlier.");
	else if (strstr(reason, "ASSERT"))
		text_printf(&note, "The pc stands behind the trap: the condition was tested some instructions earlier.");
	else if (strstr(reason, "MEMORY") || strstr(reason, "SIGSEGV")) {
		text_printf(&note,
			    "Unless the run asked for precise memory reports, the pc is imprecise: the access was issued some "
			    "instructions earlier");
		if (instruction && str_starts(instruction->value, S("s_waitcnt")))
			text_printf(&note, ", and s_waitcnt is where a wave waits for it");
		if (places > 1)
			text_printf(&note, "; the waves stopped at %u different places", places);
		text_printf(&note, ".");
	}
	if (note.n)
		diag_set_note(i, e, "pc_note", text_str(&note));
	text_free(&note);
}

void waves_explain(struct incident *i)
{
	unsigned places = 0;
	for (size_t n = 0; n < i->events.len; n++)
		places += diag_fact(i->events.data[n], "stop_reason") && diag_fact(i->events.data[n], "pc");
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct fact *reason = diag_fact(e, "stop_reason"), *count = diag_fact(e, "waves");
		if (count)
			diag_set_note(i, e, "wave_count",
				      arena_printf(&i->arena, STR_FMT " wave%s", STR_ARG(count->value),
						   str_is(count->value, "1") ? "" : "s"));
		if (!reason)
			reason = diag_fact(e, "signal");
		if (!reason || !diag_fact(e, "pc") || diag_fact(e, "lanes"))
			continue;
		char word[128];
		snprintf(word, sizeof(word), STR_FMT, STR_ARG(str_cut(reason->value, 120)));
		judge_pc(i, e, word, places);
		const struct values *exec = values_find(e->values, e->nvalues, "exec");
		uint64_t active = exec && exec->n ? exec->data[0] : 0;
		if (!active)
			continue;
		diag_conclude(i, e, "lanes", lane_list(&i->arena, active));
		if (strstr(word, "ASSERT"))
			find_odd_lanes(i, e, active);
	}
}
