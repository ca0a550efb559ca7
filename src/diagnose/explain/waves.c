// What people read out of a wave's registers by hand: which lanes were active, and which of them hold a value that
// is out of step with the others.
#include <stdio.h>
#include <stdlib.h>

#include "diagnose/incident.h"
#include "diagnose/join_merge.h"
#include "evidence/waves/wave_code.h"
#include "gpu/memory/map.h"

enum { SHOWN = 6, PAGE_SHIFT = 12 };

static struct str shown_values(struct arena *a, const struct lane_pattern *p, uint64_t mask)
{
	_cleanup_text_ struct text out = { 0 };
	unsigned shown = 0;
	for (unsigned lane = 0; lane < WAVE_LANES; lane++) {
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
	return arena_str(a, text_str(&out));
}

static void tell_odd(struct incident *i, struct diag_event *e, const struct lane_pattern *p)
{
	struct str lanes = lanes_say(&i->arena, p->odd);
	struct str values = shown_values(&i->arena, p, p->odd);
	diag_conclude(i, e, "odd_register", p->v->name);
	diag_conclude(i, e, "odd_lanes",
		      arena_printf(&i->arena, "lane%s " STR_FMT, __builtin_popcountll(p->odd) > 1 ? "s" : "", STR_ARG(lanes)));
	diag_conclude(i, e, "odd_values", values);
	_cleanup_text_ struct text note = { 0 };
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
		text_printf(&note, " If this is the index, or the index was computed from it, these are the bad values.");
	diag_set_note(i, e, "lanes_note", text_str(&note));
}

static void find_odd_lanes(struct incident *i, struct diag_event *e, uint64_t active)
{
	struct lane_pattern best;
	if (lanes_find_odd(&e->dump.registers, active, &best))
		tell_odd(i, e, &best);
}

/** Why the pc need not be the guilty instruction. */
static void judge_pc(struct incident *i, struct diag_event *e, const char *reason, unsigned places)
{
	const struct fact *instruction = diag_fact(e, "instruction");
	_cleanup_text_ struct text note = { 0 };
	if (strstr(reason, "ASSERT") && instruction && str_starts(instruction->value, S("s_endpgm")))
		text_printf(&note,
			    "The pc is at s_endpgm because the trap is the instruction before it (s_trap 2; s_endpgm): the "
			    "condition was tested some instructions earlier.");
	else if (strstr(reason, "ASSERT") && !(instruction && str_starts(instruction->value, S("s_trap"))))
		text_printf(&note, "The pc is after the trap: the condition was tested some instructions earlier.");
	else if ((strstr(reason, "MEMORY") || strstr(reason, "SIGSEGV")) && !diag_fact(e, "effective_address")) {
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
}

// --- addresses ---

static uint64_t lanes_in_page(const struct wave_access *x, uint64_t page)
{
	uint64_t mask = 0;
	for (unsigned lane = 0; lane < WAVE_LANES; lane++)
		if (x->addresses[lane] != UINT64_MAX && x->addresses[lane] >> PAGE_SHIFT == page)
			mask |= 1ull << lane;
	return mask;
}

/** The fault that a lane of this access made, by its page. */
static bool match_fault(struct incident *i, struct diag_event *e, const struct wave_access *x)
{
	bool maybe = x->trust == ACCESS_MAYBE;
	for (size_t n = 0; n < i->events.len; n++) {
		uint64_t fault;
		const struct fact *f = diag_fact(i->events.data[n], "fault_address");
		uint64_t mask = f && str_hex(f->value, &fault) ? lanes_in_page(x, fault >> PAGE_SHIFT) : 0;
		if (!mask)
			continue;
		struct str lanes = lanes_say(&i->arena, mask), source = diag_value(e, "source");
		diag_conclude(i, e, "fault_lanes", lanes);
		diag_conclude(i, e, "use_after_free", diag_value(i->events.data[n], "use_after_free"));
		_cleanup_text_ struct text note = { 0 };
		text_printf(&note, "The fault at " STR_FMT " is %s this access: " STR_FMT " at pc 0x%llx", STR_ARG(f->value),
			    maybe ? "probably of" : "of", STR_ARG(x->instruction), (unsigned long long)x->pc);
		if (source.n)
			text_printf(&note, " (" STR_FMT ")", STR_ARG(source));
		text_printf(&note, ", lane%s " STR_FMT "%s.", __builtin_popcountll(mask) > 1 ? "s" : "", STR_ARG(lanes),
			    maybe ? ", whose registers still hold that address" : "");
		diag_set_note(i, e, "access_note", text_str(&note));
		return true;
	}
	return false;
}

/** What the access at fault is, as far as registers and the map of memory tell. */
static void explain_access(struct incident *i, struct diag_event *e)
{
	for (enum access_trust trust = ACCESS_KNOWN; trust <= ACCESS_MAYBE; trust++)
		for (size_t n = 0; n < e->dump.naccesses; n++)
			if (e->dump.accesses[n].trust == trust && match_fault(i, e, &e->dump.accesses[n]))
				return;
	struct str access = diag_value(e, "access"), addresses = diag_value(e, "effective_addresses");
	struct str place = diag_value(e, "effective_place"), where = diag_value(e, "access_pc");
	_cleanup_text_ struct text note = { 0 };
	if (!access.n)
		return;
	if (where.n)
		text_printf(&note, "The access before it, " STR_FMT " at pc " STR_FMT ", " STR_FMT,
			    STR_ARG(diag_value(e, "access_instruction")), STR_ARG(where), STR_ARG(access));
	else
		text_printf(&note, "The instruction " STR_FMT, STR_ARG(access));
	if (addresses.n)
		text_printf(&note, ": " STR_FMT, STR_ARG(addresses));
	if (str_is(diag_value(e, "effective_relation"), "inside")) {
		text_printf(&note, ", " STR_FMT ": another access caused it, or this GPU must not use that memory this way",
			    STR_ARG(place));
	} else if (diag_value(e, "unmapped_lanes").n) {
		text_printf(&note, "; " STR_FMT " is " STR_FMT " (outside: lanes " STR_FMT ")",
			    STR_ARG(diag_value(e, "effective_address")), STR_ARG(place),
			    STR_ARG(diag_value(e, "unmapped_lanes")));
		diag_conclude(i, e, "missed", place);
	}
	if (str_is(diag_value(e, "address_lost"), "registers"))
		text_printf(&note, "; its address is unknown, because those registers may have been overwritten since");
	else if (diag_value(e, "address_lost").n)
		text_printf(&note, "; its addresses are unknown, because other lanes may be active since");
	text_add(&note, S("."));
	diag_set_note(i, e, "access_note", text_str(&note));
}

/** What a recording says of the place of a fault: more than a map does, since it also has what was freed. NULL: nothing. */
static const struct fact *place_told(const struct incident *i, uint64_t page)
{
	uint64_t other;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct fact *f = diag_fact(i->events.data[n], "fault_place");
		if (f && !f->concluded && diag_page(i->events.data[n], &other) && other == page)
			return f;
	}
	return NULL;
}

/** An index of 32 bits that overflowed leaves the address 2 GiB or a power of two more away from its place in a large buffer. */
static void note_overflow(struct incident *i, struct diag_event *e, const struct dump *d, uint64_t address)
{
	enum { SHIFT_FIRST = 31, SHIFT_LAST = 35 };
	if (map_locate(d->map, d->nmap, address).relation == MAP_INSIDE)
		return;
	for (unsigned shift = SHIFT_FIRST; shift <= SHIFT_LAST; shift++) {
		const uint64_t away = UINT64_C(1) << shift;
		for (int below = 1; below >= 0; below--) {
			struct map_place p = map_locate(d->map, d->nmap, below ? address + away : address - away);
			if (p.relation != MAP_INSIDE || p.range.end - p.range.begin < UINT64_C(1) << SHIFT_FIRST)
				continue;
			diag_conclude(i, e, "index_overflow",
				      arena_printf(&i->arena, STR_FMT " %s a place inside of the " STR_FMT " buffer at 0x%llx",
						   STR_ARG(map_size_say(&i->arena, away)), below ? "below" : "above",
						   STR_ARG(map_size_say(&i->arena, p.range.end - p.range.begin)),
						   (unsigned long long)p.range.begin));
			return;
		}
	}
}

/** Which buffer the address of a fault is in or near, where a recording or a core tells which there were. */
static void locate_fault(struct incident *i, struct diag_event *e, const struct dump *d)
{
	uint64_t address, page;
	if (!str_hex(diag_value(e, "fault_address"), &address))
		return;
	const struct fact *told = diag_page(e, &page) ? place_told(i, page) : NULL;
	if (told) {
		diag_conclude(i, e, "fault_place", told->value);
		diag_set_note(
			i, e, "allocation_note",
			arena_printf(&i->arena, "By the job's recording, the address is " STR_FMT ".", STR_ARG(told->value)));
	} else if (d) {
		struct map_place p = map_locate(d->map, d->nmap, address);
		note_overflow(i, e, d, address);
		diag_conclude(i, e, "fault_place", map_say(&i->arena, &p));
		diag_set_note(i, e, "allocation_note",
			      arena_printf(&i->arena, "By the map of its memory, the address is " STR_FMT ".",
					   STR_ARG(map_say(&i->arena, &p))));
	}
}

static void locate_faults(struct incident *i)
{
	const struct dump *d = NULL;
	for (size_t n = 0; n < i->events.len; n++)
		d = i->events.data[n]->dump.nmap ? &i->events.data[n]->dump : d;
	for (size_t n = 0; n < i->events.len; n++)
		locate_fault(i, i->events.data[n], d);
}

/** k.hip:12, of the access that failed where it is known, else of the pc. */
static void name_source(struct incident *i, struct diag_event *e)
{
	struct str file = str_base(diag_value(e, "source_file")), line = diag_value(e, "source_line"),
		   access = str_base(diag_value(e, "access_source"));
	if (!access.n && !file.n && str_find(line, S(":")) > 0) // a debugger's
		access = str_base(line);
	if (access.n)
		diag_conclude(i, e, "source", access);
	else if (file.n && line.n && !str_is(line, "0"))
		diag_conclude(i, e, "source", arena_printf(&i->arena, STR_FMT ":" STR_FMT, STR_ARG(file), STR_ARG(line)));
}

void waves_explain(struct incident *i)
{
	unsigned places = 0;
	locate_faults(i);
	for (size_t n = 0; n < i->events.len; n++)
		places += diag_fact(i->events.data[n], "stop_reason") && diag_fact(i->events.data[n], "pc");
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct fact *reason = diag_fact(e, "stop_reason"), *count = diag_fact(e, "waves");
		name_source(i, e);
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
		explain_access(i, e);
		if (diag_fact(e, "arguments"))
			diag_set_note(i, e, "arguments_note",
				      arena_printf(&i->arena, "The kernel's arguments: " STR_FMT ".",
						   STR_ARG(diag_value(e, "arguments"))));
		const struct wave_register *exec = wave_register_named(&e->dump.registers, S("exec"));
		uint64_t active = exec && exec->n ? exec->data[0] : 0;
		if (!active)
			continue;
		diag_conclude(i, e, "lanes", lanes_say(&i->arena, active));
		if (strstr(word, "ASSERT"))
			find_odd_lanes(i, e, active);
	}
}
