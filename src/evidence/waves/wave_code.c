// The code at a wave's pc against its registers: which access it made and with which addresses, or what it waits for. An access is guilty
// only where its registers still hold what it used, because a load may have overwritten its own address since.
#include "evidence/waves/wave_code.h"

enum { ACCESSES = 4, SPACES = 1 << SPACE_GLOBAL | 1 << SPACE_FLAT | 1 << SPACE_BUFFER | 1 << SPACE_SCALAR };

// --- registers ---

static bool wave_code_read_register(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret)
{
	const struct wave_code *w = ctx;
	const struct wave_register *r = wave_register_at(&w->wave->registers, bank, number);
	if (!r || !lane_known(r, lane))
		return false;
	*ret = (uint32_t)r->data[lane];
	return true;
}

static bool wave_code_read_named(void *ctx, struct str name, uint64_t *ret)
{
	const struct wave_code *w = ctx;
	const struct wave_register *r = wave_register_named(&w->wave->registers, name);
	// A dump of a wave of 32 lanes has half of vcc, which may be an address all the same.
	if (!r || !r->n || (str_is(name, "vcc") && r->digits <= 8))
		return false;
	*ret = r->data[0];
	return true;
}

// --- accesses ---

struct access {
	const struct instruction *instruction;
	struct meaning meaning;
	bool clobbered;   // its registers may hold something else by now
	bool overwritten; // by what it loaded itself, if it has returned
	bool exec_changed;
	size_t n;
	struct lane_address lanes[MEANING_LANES];
	bool judged;       // held against the map
	uint64_t unmapped; // lanes whose address is in no range
	struct map_place place;
	uint64_t worst; // the address of such a lane that tells most, or else the first
};

static bool in_lds(const struct access *x) { return x->meaning.what->space == SPACE_LDS; }

static void find_addresses(const struct wave_code *w, struct access *x)
{
	struct meaning_registers r = { .read = wave_code_read_register,
				       .read_named = wave_code_read_named,
				       .ctx = (void *)w,
				       .scratch_base = w->scratch_base,
				       .lds_base = w->lds_base };
	uint64_t exec = 0;
	if (!wave_code_read_named((void *)w, S("exec"), &exec) && w->wave->registers.len)
		exec = UINT64_MAX;
	if (!x->exec_changed)
		x->n = meaning_addresses(&x->meaning, &r, exec, w->wave->lanes ? w->wave->lanes : WAVE_LANES, x->lanes);
	x->worst = x->n ? x->lanes[0].address : 0;
	if (x->clobbered || !(in_lds(x) ? w->wave->lds.count : w->nmap))
		return;
	for (size_t i = 0; i < x->n; i++) {
		enum know_space space = meaning_space(&x->meaning, &r, x->lanes[i].address);
		// What a flat access finds in LDS or scratch is in no range.
		if (x->meaning.what->space == SPACE_FLAT && space != SPACE_GLOBAL)
			continue;
		// LDS has addresses of its own, from 0 on.
		const uint64_t address = x->lanes[i].address, end = w->wave->lds.count;
		struct map_place p = { address < end ? MAP_INSIDE : MAP_PAST,
				       { 0, end },
				       address < end ? address : address - end };
		if (!in_lds(x))
			p = map_locate(w->map, w->nmap, address);
		bool unmapped = p.relation != MAP_INSIDE && !x->lanes[i].outside;
		// Just past a buffer says more than nowhere.
		if (!x->judged || (unmapped && (!x->unmapped || p.relation < x->place.relation))) {
			x->place = p;
			x->worst = x->lanes[i].address;
		}
		x->judged = true;
		if (unmapped)
			x->unmapped |= 1ull << x->lanes[i].lane;
	}
}

static bool access_here(const struct wave_code *w, struct meaning *ret)
{
	const struct where *at = w->where;
	return at->here < at->ninstructions && meaning_of(w->know, at->instructions[at->here].text, ret) &&
	       meaning_accesses(ret);
}

bool wave_code_accesses(const struct wave_code *w) { return access_here(w, &(struct meaning){ 0 }); }

size_t wave_code_addresses(const struct wave_code *w, struct lane_address ret[static MEANING_LANES])
{
	struct access x = { 0 };
	if (!access_here(w, &x.meaning))
		return 0;
	find_addresses(w, &x);
	memcpy(ret, x.lanes, x.n * sizeof(*ret));
	return x.n;
}

/** The access at the pc and those before it that may still have been under way, the likeliest first. */
static size_t find_accesses(const struct wave_code *w, size_t here, struct access ret[static ACCESSES])
{
	const struct instruction *code = w->where->instructions;
	struct meaning_candidate found[MEANING_CANDIDATES];
	size_t n = 0, candidates = meaning_candidates(w->know, code, here, SPACES, found);
	struct meaning m;
	if (meaning_of(w->know, code[here].text, &m) && meaning_accesses(&m) && (SPACES | 1 << SPACE_LDS) >> m.what->space & 1)
		ret[n++] = (struct access){ .instruction = &code[here], .meaning = m };
	for (size_t i = 0; i < candidates && n < ACCESSES; i++)
		if (!found[i].waited)
			ret[n++] = (struct access){ .instruction = &code[found[i].index],
						    .meaning = found[i].meaning,
						    .clobbered = found[i].clobbered,
						    .overwritten = found[i].overwritten,
						    .exec_changed = found[i].exec_changed };
	for (size_t i = 0; i < n; i++)
		find_addresses(w, &ret[i]);
	return n;
}

/** A load over its own address may have returned: then what its registers hold is an address only where that is beside a buffer. */
static bool is_believed(const struct access *x)
{
	bool near = x->judged && (x->place.relation == MAP_PAST || x->place.relation == MAP_BEFORE);
	return x->n && !x->clobbered && (!x->overwritten || near);
}

static void add_accesses(struct event *e, struct arena *a, const struct wave_code *w, const struct access *x, size_t n)
{
	struct wave_access *told = arena_alloc(a, n * sizeof(*told) + 1);
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		if (!x[i].n)
			continue;
		struct wave_access *t = &told[k++];
		*t = (struct wave_access){ .instruction = arena_str(a, x[i].instruction->text),
					   .pc = x[i].instruction->address + w->where->in->base,
					   .trust = in_lds(&x[i])                      ? ACCESS_LDS :
						    x[i].clobbered || x[i].overwritten ? ACCESS_MAYBE :
											 ACCESS_KNOWN };
		for (size_t lane = 0; lane < WAVE_LANES; lane++)
			t->addresses[lane] = UINT64_MAX;
		for (size_t l = 0; l < x[i].n; l++)
			t->addresses[x[i].lanes[l].lane] = x[i].lanes[l].address;
	}
	e->dump.accesses = told;
	e->dump.naccesses = k;
}

/** `0x7f00 to 0x7f3c` */
static struct str span_say(struct arena *a, const struct access *x)
{
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < x->n; i++) {
		low = x->lanes[i].address < low ? x->lanes[i].address : low;
		high = x->lanes[i].address > high ? x->lanes[i].address : high;
	}
	if (low == high)
		return arena_printf(a, "0x%llx", (unsigned long long)low);
	return arena_printf(a, "0x%llx to 0x%llx", (unsigned long long)low, (unsigned long long)high);
}

static void tell_access(struct event *e, struct arena *a, const struct wave_code *w, size_t here)
{
	struct access x[ACCESSES];
	struct code_frame frames[CODE_FRAMES];
	size_t n = find_accesses(w, here, x), guilty = 0;
	if (!n)
		return;
	// One whose address is in no range is guilty; else the nearest, of LDS last: its accesses do not fault late.
	while (guilty < n && !(x[guilty].unmapped && is_believed(&x[guilty])))
		guilty++;
	const struct access *g = guilty < n ? &x[guilty] : &x[in_lds(&x[0]) && n > 1];
	event_add_text(e, a, "access", meaning_say(a, w->know, &g->meaning));
	if (g->instruction != &w->where->instructions[here]) {
		event_add_text(e, a, "access_instruction", g->instruction->text);
		event_add_code(e, a, "access_pc", g->instruction->address + w->where->in->base);
	}
	// Its source line, which is not the pc's where the pc stands behind it.
	const struct code_lines *lines = w->where->in->lines;
	if (lines && code_lines_at(lines, g->instruction->address, frames) && frames[0].line)
		event_add(e, S("access_source"), arena_printf(a, STR_FMT ":%u", STR_ARG(frames[0].file), frames[0].line),
			  FACT_TEXT);
	if (w->wave->registers.len && (g->clobbered || g->exec_changed || (g->n && !is_believed(g))))
		event_add_text(e, a, "address_lost", g->exec_changed && !g->clobbered ? S("lanes") : S("registers"));
	if (is_believed(g)) {
		event_add_code(e, a, "effective_address", g->worst);
		event_add_text(e, a, "effective_addresses", span_say(a, g));
	}
	if (is_believed(g) && g->judged) {
		struct str size = map_size_say(a, w->wave->lds.count);
		event_add_text(
			e, a, "effective_place",
			!in_lds(g)  ? map_say(a, &g->place) :
			g->unmapped ? arena_printf(a, "past the " STR_FMT " of LDS that its workgroup has", STR_ARG(size)) :
				      arena_printf(a, "inside the " STR_FMT " of LDS of its workgroup", STR_ARG(size)));
		event_add_text(e, a, "effective_relation", str_z(map_relation_name(g->place.relation)));
		event_add_text(e, a, "unmapped_lanes", lanes_say(a, g->unmapped));
	}
	add_accesses(e, a, w, x, n);
}

// --- the rest ---

bool wave_code_is(const struct where *w, struct str instruction)
{
	if (w->here >= w->ninstructions)
		return true;
	struct str text = w->instructions[w->here].text, x, y;
	do {
		x = str_word(&text);
		y = str_word(&instruction);
	} while (x.n && str_eq(x, y));
	return !x.n && !y.n;
}

/** Of the instruction at which the wave stopped. */
static void tell_lines(struct event *e, struct arena *a, const struct where *w, size_t here)
{
	struct code_frame moved[CODE_FRAMES];
	const struct code_frame *frames = w->frames;
	size_t n = w->nframes;
	if (here != w->here && w->in->lines) {
		frames = moved;
		n = code_lines_at(w->in->lines, w->instructions[here].address, moved);
	}
	if (!n)
		return;
	_cleanup_text_ struct text chain = { 0 };
	for (size_t i = 0; i < n && n > 1; i++)
		text_printf(&chain, "%s" STR_FMT " (" STR_FMT ":%u)", i ? " < " : "", STR_ARG(frames[i].function),
			    STR_ARG(frames[i].file), frames[i].line);
	event_add_text(e, a, "call_chain", text_str(&chain));
	if (event_fact(e, "source_line")) // the evidence said it itself
		return;
	event_add_text(e, a, "source_file", frames[0].file);
	event_add(e, S("source_line"), arena_printf(a, "%u", frames[0].line), FACT_NUMBER);
}

struct str wave_waits_for(struct arena *a, const struct know *k, const struct where *at, const struct wave_barrier *b,
			  struct str *ret_polls)
{
	struct meaning_parked parked;
	*ret_polls = (struct str){ 0 };
	if (at->here >= at->ninstructions || !meaning_parked(a, k, at->instructions, at->ninstructions, at->here, &parked))
		return b->inside && !b->alone ? S("the other waves of its workgroup (barrier)") : (struct str){ 0 };
	// Behind a barrier it may still wait in it; its status says whether it does.
	bool barrier = parked.meaning.what->act == ACT_BARRIER;
	if (barrier && (b->alone || (parked.index != at->here && b->known && !b->inside)))
		return (struct str){ 0 };
	if (b->stood && b->memory_idle && meaning_waits_memory(k, &parked.meaning))
		return arena_printf(a, STR_FMT ", though the path to memory is idle",
				    STR_ARG(parked.waits_here.n ? parked.waits_here : parked.waits_for));
	if (b->stood && parked.waits_here.n)
		return parked.waits_here;
	if (parked.polls)
		*ret_polls = at->instructions[parked.polled].text;
	return parked.waits_for;
}

void wave_code_tell(struct event *e, struct arena *a, const struct wave_code *w)
{
	const struct where *at = w->where;
	const struct str reason = w->wave->reason;
	const struct instruction *i = at->instructions;
	size_t here = at->here; // at which the wave stopped: a trap counts as done on some runtimes
	if (str_among(reason, STR_MATCHES, "*TRAP*|*BREAKPOINT*").n && here && here < at->ninstructions &&
	    !str_starts(i[here].text, S("s_trap")) && str_starts(i[here - 1].text, S("s_trap")))
		here--;
	if (at->function && !at->in->bare && !event_fact(e, "kernel_name"))
		event_add_text(e, a, "kernel_name", at->name);
	if (!event_fact(e, "source_file"))
		tell_lines(e, a, at, here);
	if (here < at->ninstructions) {
		if (!event_fact(e, "instruction"))
			event_add_text(e, a, "instruction", at->instructions[here].text);
		if (here && !event_fact(e, "instruction_before"))
			event_add_text(e, a, "instruction_before", at->instructions[here - 1].text);
	}
	if (!reason.n) {
		struct str polls;
		const struct wave_barrier barrier = wave_barrier_of(w->wave);
		event_add_text(e, a, "waits_for", wave_waits_for(a, w->know, at, &barrier, &polls));
		event_add_text(e, a, "polls", polls);
	} else if (here < at->ninstructions && str_among(reason, STR_MATCHES, "*MEMORY*|*ADDRESS*|*APERTURE*").n) {
		tell_access(e, a, w, here);
	}
}

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

static unsigned bits(uint64_t mask) { return (unsigned)__builtin_popcountll(mask); }

/** Whether most lanes of @v follow a pattern that active ones break. The lanes that stopped are compared with those that
 * did not; where all are active, the few with the many. */
static bool find_pattern(const struct register_set *all, const struct wave_register *v, uint64_t active, struct lane_pattern *p)
{
	uint64_t known = 0;
	for (unsigned lane = 0; lane < WAVE_LANES; lane++)
		known |= (uint64_t)lane_known(v, lane) << lane;
	const uint64_t printed = v->n >= WAVE_LANES ? UINT64_MAX : (1ull << v->n) - 1, judged = known & active;
	uint64_t others = known & ~active;
	bool all_active = bits(~active & (known | printed)) < PATTERN_MIN;
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
	return p->address ? 1 : !p->stepped ? 3 : p->step == 1 ? 5 : p->step && p->step <= 16 ? 4 : 2;
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
	_cleanup_text_ struct text out = { 0 };
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
	return arena_str(a, text_str(&out));
}
