#include "evidence/waves/wave_code.h"

#include "evidence/waves/lanes.h"

enum { ACCESSES = 4, SPACES = 1 << SPACE_GLOBAL | 1 << SPACE_FLAT | 1 << SPACE_BUFFER | 1 << SPACE_SCALAR };

// --- registers ---

static bool read_register(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret)
{
	const struct wave_code *w = ctx;
	const struct wave_register *r = wave_register_at(&w->wave->registers, bank, number);
	if (!r || !lane_known(r, lane))
		return false;
	*ret = (uint32_t)r->data[lane];
	return true;
}

static bool read_named(void *ctx, struct str name, uint64_t *ret)
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

/** LDS has addresses of its own, from 0 on. */
static struct map_place locate(const struct wave_code *w, const struct access *x, uint64_t address)
{
	struct address_range lds = { 0, w->wave->lds.count };
	if (!in_lds(x))
		return map_locate(w->map, w->nmap, address);
	return (struct map_place){ address < lds.end ? MAP_INSIDE : MAP_PAST, lds,
				   address < lds.end ? address : address - lds.end };
}

static void find_addresses(const struct wave_code *w, struct access *x)
{
	struct meaning_registers r = { .read = read_register,
				       .read_named = read_named,
				       .ctx = (void *)w,
				       .scratch_base = w->scratch_base,
				       .lds_base = w->lds_base };
	uint64_t exec = 0;
	if (!read_named((void *)w, S("exec"), &exec) && w->wave->registers.len)
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
		struct map_place p = locate(w, x, x->lanes[i].address);
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

bool wave_code_accesses(const struct wave_code *w)
{
	struct meaning m;
	return access_here(w, &m);
}

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

/** One whose address is in no range is guilty; else the nearest, of LDS last: its accesses do not fault late. */
static const struct access *guilty_access(const struct access *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (x[i].unmapped && is_believed(&x[i]))
			return &x[i];
	return !n ? NULL : in_lds(&x[0]) && n > 1 ? &x[1] : &x[0];
}

static enum access_trust trust_of(const struct access *x)
{
	return in_lds(x) ? ACCESS_LDS : x->clobbered || x->overwritten ? ACCESS_MAYBE : ACCESS_KNOWN;
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
					   .trust = trust_of(&x[i]) };
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

/** The source line of the access, which is not the pc's where the pc stands behind it. */
static void tell_access_line(struct event *e, struct arena *a, const struct wave_code *w, const struct access *x)
{
	struct code_frame frames[CODE_FRAMES];
	const struct code_lines *lines = w->where->in->lines;
	if (lines && code_lines_at(lines, x->instruction->address, frames) && frames[0].line)
		event_add(e, S("access_source"), arena_printf(a, STR_FMT ":%u", STR_ARG(frames[0].file), frames[0].line),
			  FACT_TEXT);
}

static void tell_access(struct event *e, struct arena *a, const struct wave_code *w, size_t here)
{
	struct access x[ACCESSES];
	size_t n = find_accesses(w, here, x);
	const struct access *g = guilty_access(x, n);
	if (!g)
		return;
	event_add_text(e, a, "access", meaning_say(a, w->know, &g->meaning));
	if (g->instruction != &w->where->instructions[here]) {
		event_add_text(e, a, "access_instruction", g->instruction->text);
		event_add_code(e, a, "access_pc", g->instruction->address + w->where->in->base);
	}
	tell_access_line(e, a, w, g);
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

size_t wave_code_stop(const struct where *w, struct str reason)
{
	bool trap = str_find(reason, S("TRAP")) >= 0 || str_find(reason, S("BREAKPOINT")) >= 0;
	if (trap && w->here && w->here < w->ninstructions && !str_starts(w->instructions[w->here].text, S("s_trap")) &&
	    str_starts(w->instructions[w->here - 1].text, S("s_trap")))
		return w->here - 1;
	return w->here;
}

static bool same_words(struct str a, struct str b)
{
	struct str x = str_word(&a), y = str_word(&b);
	for (; x.n || y.n; x = str_word(&a), y = str_word(&b))
		if (!str_eq(x, y))
			return false;
	return true;
}

bool wave_code_is(const struct where *w, struct str instruction)
{
	return w->here >= w->ninstructions || same_words(w->instructions[w->here].text, instruction);
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
	struct text chain = { 0 };
	for (size_t i = 0; i < n && n > 1; i++)
		text_printf(&chain, "%s" STR_FMT " (" STR_FMT ":%u)", i ? " < " : "", STR_ARG(frames[i].function),
			    STR_ARG(frames[i].file), frames[i].line);
	event_add_text(e, a, "call_chain", text_str(&chain));
	text_free(&chain);
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
	if (b->stood && parked.waits_here.n)
		return parked.waits_here;
	if (parked.polls)
		*ret_polls = at->instructions[parked.polled].text;
	return parked.waits_for;
}

static void tell_waiting(struct event *e, struct arena *a, const struct wave_code *w)
{
	struct str polls;
	const struct wave_barrier barrier = wave_barrier_of(w->wave);
	event_add_text(e, a, "waits_for", wave_waits_for(a, w->know, w->where, &barrier, &polls));
	event_add_text(e, a, "polls", polls);
}

void wave_code_tell(struct event *e, struct arena *a, const struct wave_code *w)
{
	const struct where *at = w->where;
	size_t here = wave_code_stop(at, w->wave->reason);
	if (at->function && !event_fact(e, "kernel_name"))
		event_add_text(e, a, "kernel_name", at->name);
	if (!event_fact(e, "source_file"))
		tell_lines(e, a, at, here);
	if (here < at->ninstructions) {
		if (!event_fact(e, "instruction"))
			event_add_text(e, a, "instruction", at->instructions[here].text);
		if (here && !event_fact(e, "instruction_before"))
			event_add_text(e, a, "instruction_before", at->instructions[here - 1].text);
	}
	if (!w->wave->reason.n)
		tell_waiting(e, a, w);
	else if (here < at->ninstructions &&
		 (str_find(w->wave->reason, S("MEMORY")) >= 0 || str_find(w->wave->reason, S("ADDRESS")) >= 0 ||
		  str_find(w->wave->reason, S("APERTURE")) >= 0))
		tell_access(e, a, w, here);
}
