// What people read out of a wave's registers by hand: which lanes were active, and which of them hold a value that
// is out of step with the others.
#include <stdio.h>

#include "diagnose/incident.h"

enum { LANES = 64, PATTERN_MIN = 8, FEWEST = 3, SHOWN = 6 }; // people cut most lanes out

static const uint64_t missing = UINT64_MAX; // a lane that the dump does not have

static const struct values *find_values(const struct diag_event *e, const char *name)
{
	for (size_t i = 0; i < e->nvalues; i++)
		if (str_is(e->values[i].name, name))
			return &e->values[i];
	return NULL;
}

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

/** How the lanes of one register go on from one to the next. */
struct pattern {
	const struct values *v;
	bool stepped; // value = base + lane * step; else they only share a range
	uint32_t step, base;
	uint32_t low, high;
	unsigned fit; // lanes that agree
	uint64_t odd; // active lanes that do not
	bool address; // the lower half of a 64-bit address
	bool wide;    // the lower half of a 64-bit number
};

static bool has(const struct values *v, unsigned lane) { return lane < v->n && v->data[lane] != missing; }

/** The step that most neighbours among the lanes of @mask have. */
static bool find_step(const struct values *v, uint64_t mask, uint32_t *ret_step, uint32_t *ret_base)
{
	unsigned best = 0, pairs = 0;
	for (unsigned a = 0; a + 1 < LANES; a++) {
		if (!(mask >> a & 1) || !(mask >> (a + 1) & 1) || !has(v, a) || !has(v, a + 1))
			continue;
		uint32_t step = (uint32_t)v->data[a + 1] - (uint32_t)v->data[a], base = (uint32_t)v->data[a] - a * step;
		unsigned agree = 0;
		pairs++;
		for (unsigned lane = 0; lane < LANES; lane++)
			agree += (mask >> lane & 1) && has(v, lane) && (uint32_t)v->data[lane] == base + lane * step;
		if (agree > best) {
			best = agree;
			*ret_step = step;
			*ret_base = base;
		}
	}
	return pairs && best;
}

/** The upper half of addresses and of 64-bit numbers stands in the next register. */
static void judge_width(const struct diag_event *e, struct pattern *p)
{
	char next[24];
	int64_t number;
	if (!str_number(str_from(p->v->name, 1), &number))
		return;
	snprintf(next, sizeof(next), "v%lld", (long long)number + 1);
	const struct values *upper = find_values(e, next);
	unsigned same = 0, all = 0, small = 0;
	for (unsigned lane = 0; upper && lane < LANES; lane++) {
		if (!has(upper, lane))
			continue;
		uint32_t value = (uint32_t)upper->data[lane];
		all++;
		same += value >= 0x10 && value <= 0xffff;
		small += value == 0 || value == UINT32_MAX;
	}
	p->address = all && same * 4 >= all * 3;
	p->wide = all && small == all;
}

static uint64_t known_lanes(const struct values *v)
{
	uint64_t mask = 0;
	for (unsigned lane = 0; lane < LANES; lane++)
		mask |= (uint64_t)has(v, lane) << lane;
	return mask;
}

static uint64_t lanes_upto(size_t n) { return n >= LANES ? UINT64_MAX : (1ull << n) - 1; }

static unsigned bits(uint64_t mask) { return (unsigned)__builtin_popcountll(mask); }

/** Whether most lanes of @v follow a pattern that active ones break. The lanes that stopped are compared with those that
 * did not; where all are active, the few with the many. */
static bool find_pattern(const struct diag_event *e, const struct values *v, uint64_t active, struct pattern *p)
{
	uint64_t known = known_lanes(v), others = known & ~active, judged = known & active;
	bool all_active = bits(~active & (known | lanes_upto(v->n))) < PATTERN_MIN;
	*p = (struct pattern){ .v = v };
	if (all_active)
		others = known;
	if (bits(others) < (all_active ? 2 * PATTERN_MIN : FEWEST) || !judged)
		return false;
	p->stepped = find_step(v, others, &p->step, &p->base);
	for (unsigned lane = 0; lane < LANES && p->stepped; lane++) {
		bool agrees = has(v, lane) && (uint32_t)v->data[lane] == p->base + lane * p->step;
		p->fit += (others >> lane & 1) && agrees;
		if ((judged >> lane & 1) && !agrees)
			p->odd |= 1ull << lane;
	}
	judge_width(e, p);
	// Nearly all of the others agree, and something breaks it.
	if (p->stepped && p->fit * 10 >= bits(others) * 9)
		return p->odd && (!all_active || bits(p->odd) * 4 <= bits(known));
	// No steps: do they share a range that the active ones leave?
	p->stepped = false;
	p->odd = 0;
	p->fit = 0;
	p->low = UINT32_MAX;
	if (all_active || bits(others) < PATTERN_MIN)
		return false;
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (!(others >> lane & 1))
			continue;
		uint32_t value = (uint32_t)v->data[lane];
		p->low = value < p->low ? value : p->low;
		p->high = value > p->high ? value : p->high;
		p->fit++;
	}
	for (unsigned lane = 0; lane < LANES; lane++)
		if ((judged >> lane & 1) && ((uint32_t)v->data[lane] > p->high * 2ull || (uint32_t)v->data[lane] < p->low / 2))
			p->odd |= 1ull << lane;
	return p->odd && p->high < 1u << 24 && p->high > p->low && !p->address;
}

/** An index counts up by one or shares a small range; an address is one because of its upper half. */
static int likeness(const struct pattern *p)
{
	if (p->address)
		return 1;
	if (p->stepped && p->step == 1)
		return 5;
	if (!p->stepped)
		return 3;
	return p->step && p->step <= 16 ? 4 : 2;
}

static struct str shown_values(struct arena *a, const struct pattern *p, uint64_t mask)
{
	struct text out = { 0 };
	unsigned shown = 0;
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (!(mask >> lane & 1) || !has(p->v, lane))
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

static void tell_odd(struct incident *i, struct diag_event *e, const struct pattern *p)
{
	struct str lanes = lane_list(&i->arena, p->odd);
	struct str values = shown_values(&i->arena, p, p->odd);
	diag_set_fact(i, e, (struct fact){ S("odd_register"), p->v->name, FACT_TEXT, e->at });
	diag_set_fact(i, e,
		      (struct fact){ S("odd_lanes"),
				     arena_printf(&i->arena, "lane%s " STR_FMT, bits(p->odd) > 1 ? "s" : "", STR_ARG(lanes)),
				     FACT_TEXT, e->at });
	diag_set_fact(i, e, (struct fact){ S("odd_values"), values, FACT_TEXT, e->at });
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
	struct pattern best = { 0 };
	for (size_t n = 0; n < e->nvalues; n++) {
		const struct values *v = &e->values[n];
		struct pattern p;
		if (v->n < 2 || v->name.n < 2 || v->name.p[0] != 'v' || !char_digit(v->name.p[1]) ||
		    !find_pattern(e, v, active, &p))
			continue;
		if (!best.v || likeness(&p) > likeness(&best))
			best = p;
	}
	if (best.v)
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
				      arena_printf(&i->arena, STR_FMT " wave%s", STR_ARG(count->value), str_is(count->value, "1") ? "" : "s"));
		if (!reason)
			reason = diag_fact(e, "signal");
		if (!reason || !diag_fact(e, "pc") || diag_fact(e, "lanes"))
			continue;
		char word[128];
		snprintf(word, sizeof(word), STR_FMT, STR_ARG(str_cut(reason->value, 120)));
		judge_pc(i, e, word, places);
		const struct values *exec = find_values(e, "exec");
		uint64_t active = exec && exec->n ? exec->data[0] : 0;
		if (!active)
			continue;
		diag_set_fact(i, e, (struct fact){ S("lanes"), lane_list(&i->arena, active), FACT_TEXT, e->at });
		if (strstr(word, "ASSERT"))
			find_odd_lanes(i, e, active);
	}
}
