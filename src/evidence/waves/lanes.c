#include "evidence/waves/lanes.h"

enum { PATTERN_MIN = 8, FEWEST = 3 }; // people cut most lanes out

/** The step that most neighbours among the lanes of @mask have. */
static bool find_step(const struct wave_register *v, uint64_t mask, uint32_t *ret_step, uint32_t *ret_base)
{
	enum { TRIES = 6 }; // what most lanes do, one of the first pairs does
	unsigned best = 0, pairs = 0;
	for (unsigned a = 0; a + 1 < WAVE_LANES && pairs < TRIES; a++) {
		if (!(mask >> a & 1) || !(mask >> (a + 1) & 1) || !lane_known(v, a) || !lane_known(v, a + 1))
			continue;
		uint32_t step = (uint32_t)v->data[a + 1] - (uint32_t)v->data[a], base = (uint32_t)v->data[a] - a * step;
		unsigned agree = 0;
		pairs++;
		for (unsigned lane = 0; lane < WAVE_LANES; lane++)
			agree += (mask >> lane & 1) && lane_known(v, lane) && (uint32_t)v->data[lane] == base + lane * step;
		if (agree > best) {
			best = agree;
			*ret_step = step;
			*ret_base = base;
		}
	}
	return pairs && best;
}

/** The upper half of an address stands in the next register. */
static void judge_address(const struct register_set *all, struct lane_pattern *p)
{
	const struct wave_register *upper = wave_register_at(all, 'v', p->v->number + 1);
	unsigned same = 0, lanes = 0;
	for (unsigned lane = 0; upper && lane < WAVE_LANES; lane++) {
		if (!lane_known(upper, lane))
			continue;
		uint32_t value = (uint32_t)upper->data[lane];
		lanes++;
		same += value >= 0x10 && value <= 0xffff;
	}
	p->address = lanes && same * 4 >= lanes * 3;
}

static uint64_t known_lanes(const struct wave_register *v)
{
	uint64_t mask = 0;
	for (unsigned lane = 0; lane < WAVE_LANES; lane++)
		mask |= (uint64_t)lane_known(v, lane) << lane;
	return mask;
}

static uint64_t lanes_upto(size_t n) { return n >= WAVE_LANES ? UINT64_MAX : (1ull << n) - 1; }

static unsigned bits(uint64_t mask) { return (unsigned)__builtin_popcountll(mask); }

/** Whether most lanes of @v follow a pattern that active ones break. The lanes that stopped are compared with those that
 * did not; where all are active, the few with the many. */
static bool find_pattern(const struct register_set *all, const struct wave_register *v, uint64_t active, struct lane_pattern *p)
{
	uint64_t known = known_lanes(v), others = known & ~active, judged = known & active;
	bool all_active = bits(~active & (known | lanes_upto(v->n))) < PATTERN_MIN;
	*p = (struct lane_pattern){ .v = v };
	if (all_active)
		others = known;
	if (bits(others) < (all_active ? 2 * PATTERN_MIN : FEWEST) || !judged)
		return false;
	p->stepped = find_step(v, others, &p->step, &p->base);
	for (unsigned lane = 0; lane < WAVE_LANES && p->stepped; lane++) {
		bool agrees = lane_known(v, lane) && (uint32_t)v->data[lane] == p->base + lane * p->step;
		p->fit += (others >> lane & 1) && agrees;
		if ((judged >> lane & 1) && !agrees)
			p->odd |= 1ull << lane;
	}
	judge_address(all, p);
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
	for (unsigned lane = 0; lane < WAVE_LANES; lane++) {
		if (!(others >> lane & 1))
			continue;
		uint32_t value = (uint32_t)v->data[lane];
		p->low = value < p->low ? value : p->low;
		p->high = value > p->high ? value : p->high;
		p->fit++;
	}
	for (unsigned lane = 0; lane < WAVE_LANES; lane++)
		if ((judged >> lane & 1) && ((uint32_t)v->data[lane] > p->high * 2ull || (uint32_t)v->data[lane] < p->low / 2))
			p->odd |= 1ull << lane;
	return p->odd && p->high < 1u << 24 && p->high > p->low && !p->address;
}

/** An index counts up by one or shares a small range; an address is one because of its upper half. */
static int likeness(const struct lane_pattern *p)
{
	if (p->address)
		return 1;
	if (p->stepped && p->step == 1)
		return 5;
	if (!p->stepped)
		return 3;
	return p->step && p->step <= 16 ? 4 : 2;
}

bool lanes_find_odd(const struct register_set *s, uint64_t active, struct lane_pattern *ret)
{
	*ret = (struct lane_pattern){ 0 };
	for (size_t i = 0; i < s->len; i++) {
		struct lane_pattern p;
		if (s->data[i].n < 2 || s->data[i].bank != 'v' || !find_pattern(s, &s->data[i], active, &p))
			continue;
		if (!ret->v || likeness(&p) > likeness(ret))
			*ret = p;
	}
	return ret->v;
}

struct str lanes_say(struct arena *a, uint64_t mask)
{
	struct text out = { 0 };
	for (unsigned lane = 0; lane < WAVE_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		unsigned last = lane;
		while (last + 1 < WAVE_LANES && mask >> (last + 1) & 1)
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
