// One wave: a row of text, or an object; with its registers where they are asked for.
#include "base/cleanup.h"
#include "evidence/waves/wave_code.h"
#include "report/live/waves.h"

enum { PER_LINE = 8 };

/** Of a wave that was saved the state of the GPU says no more than whether it was halted. */
static struct str state_word(const struct wave *w)
{
	bool live = w->slot.known;
	if (w->stopped || (!live && w->stop_reasons))
		return S("stopped");
	return w->halted || w->fatal_halt ? S("halted") :
	       live && w->in_trap         ? S("trapped") :
	       live && w->in_barrier      ? S("barrier") :
	       live && w->idle            ? S("idle") :
					    S("running");
}

struct str wave_state(struct arena *a, const struct wave *w)
{
	if (w->stop_reasons)
		return stop_reasons_text(a, w->stop_reasons);
	return w->fatal_halt && !w->stopped ? S("FATAL_HALT") : state_word(w);
}

/** The register in which the hardware notes exceptions; NULL where the part has none. */
static const uint32_t *trap_status(const struct wave *w)
{
	static const char *const names[] = { "trapsts", "excp_flag_priv" };
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++)
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (str_is(w->layout->registers[i], names[k]))
				return &w->hwregs[i];
	return NULL;
}

struct str wave_waits(struct arena *a, const struct know *k, const struct wave *w, const struct where *at)
{
	struct wave_barrier b = wave_barrier_of(w);
	struct str polls;
	return w->stop_reasons ? (struct str){ 0 } : wave_waits_for(a, k, at, &b, &polls);
}

// --- registers ---

/** Registers are counted; of memory the offset in bytes is shown. */
static void walk_words(struct sheet *s, const char *name, const uint32_t *values, size_t n, bool bytes)
{
	for (size_t i = 0; i < n; i++) {
		if (s->as_json)
			jw_hex(&s->json, values[i]);
		else if (i % PER_LINE == 0)
			sheet_say(s, bytes ? "%s%8s%s0x%04zx:" : "%s%8s%s%03zu:", i ? "\n" : "", "", name,
				  bytes ? i * sizeof(*values) : i);
		sheet_say(s, " %08x", values[i]);
	}
	if (n)
		sheet_say(s, "\n");
}

/** A block of registers: in JSON "0x..." strings, of several lanes an array of them for each register. */
struct block_names {
	const char *key, *name;
	bool bytes; // it is memory
};

static void walk_block(struct listing *l, struct block_names names, const struct wave_block *b, unsigned lanes)
{
	struct sheet *s = l->sheet;
	const size_t n = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *values = mem_alloc(n * sizeof(*values) + 1);
	char name[24];
	if (!s->as_json && !b->count)
		return;
	if (!wave_registers(l->look->target, b, lanes, values)) {
		sheet_say(s, "%8s%s: not available\n", "", names.name);
		sheet_put(s, names.key, v_null());
		return;
	}
	sheet_open(s, names.key, '[');
	for (unsigned r = 0; lanes > 1 && r < b->count; r++) {
		snprintf(name, sizeof(name), "%s%u lane ", names.name, r);
		sheet_open(s, NULL, '[');
		walk_words(s, name, values + (size_t)r * lanes, lanes, names.bytes);
		sheet_close(s, ']');
	}
	if (lanes == 1)
		walk_words(s, names.name, values, n, names.bytes);
	sheet_close(s, ']');
}

static void walk_hardware_registers(struct sheet *s, const struct wave *w)
{
	char name[32];
	sheet_open(s, "hardware_registers", '{');
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++) {
		str_copy(name, sizeof(name), w->layout->registers[i]);
		if (s->as_json)
			sheet_put(s, name, v_hex(w->hwregs[i]));
		sheet_say(s, "%s%16s: %08x", i % 4 ? "" : i ? "\n" : "", name, w->hwregs[i]);
	}
	sheet_say(s, "\n");
	sheet_close(s, '}');
}

static void walk_registers(struct listing *l, const struct wave *w)
{
	const struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	walk_hardware_registers(l->sheet, w);
	walk_block(l, (struct block_names){ "sgprs", "s", false }, &w->sgprs, 1);
	if (w->no_vgprs) {
		sheet_put(l->sheet, "vgprs", v_null());
		sheet_say(l->sheet, "%8sthe wave had released its vector registers\n", "");
	} else {
		walk_block(l, (struct block_names){ "vgprs", "v", false }, &w->vgprs, w->lanes);
	}
	walk_block(l, (struct block_names){ "shared_vgprs", "shared v", false }, &w->shared_vgprs, SHARED_LANES);
	walk_block(l, (struct block_names){ "acc_vgprs", "a", false }, &w->acc_vgprs, w->lanes);
	if (w->lds.unread) {
		sheet_put(l->sheet, "lds", v_null());
		sheet_say(l->sheet, "%8slds: %u bytes; the driver has no file that shows them\n", "", w->lds.count);
	} else {
		walk_block(l, (struct block_names){ "lds", "lds ", true }, &words, 1);
	}
}

/** Of each lane the address that it accesses with the instruction at the pc. */
static void jw_addresses(struct json *j, struct listing *l, size_t i)
{
	struct wave w = l->waves[i];
	struct arena a = { 0 };
	struct wave_code code = { .know = l->look->know, .where = l->where[i], .wave = &w };
	struct lane_address lanes[MEANING_LANES];
	bool access = wave_code_accesses(&code); // else no register is needed
	if (access)
		wave_read_registers(l->look->target, &a, &w);
	size_t n = access ? wave_code_addresses(&code, lanes) : 0, at = 0;
	jw_key(j, "effective_addresses");
	if (!n) {
		jw_null(j);
	} else {
		jw_open(j, '[');
		for (unsigned lane = 0; lane < w.lanes; lane++)
			at < n &&lanes[at].lane == lane ? jw_hex(j, lanes[at++].address) : jw_null(j);
		jw_close(j, ']');
	}
	vec_free(&w.registers);
	arena_free(&a);
}

// --- the wave ---

static void walk_stop_reasons(struct sheet *s, uint32_t reasons)
{
	struct str names[STOP_REASONS];
	size_t n = 0;
	for (int i = 0; i < STOP_REASONS; i++)
		if (reasons >> i & 1)
			names[n++] = str_z(stop_reason_name((enum stop_reason)i));
	sheet_texts(s, "stop_reasons", names, n);
}

/** Where it is on the GPU. */
static void walk_slot(struct sheet *s, const struct wave_slot *slot)
{
	if (!sheet_object(s, "slot", slot->known))
		return;
	sheet_put(s, "sh", v_number(slot->sh));
	sheet_put(s, "cu", v_number(slot->cu));
	sheet_put(s, "simd", v_number(slot->simd));
	sheet_put(s, "slot", v_number(slot->slot));
	sheet_put(s, "vmid", v_number(slot->vmid));
	sheet_put(s, "me", v_number(slot->me));
	sheet_put(s, "pipe", v_number(slot->pipe));
	sheet_put(s, "queue", v_number(slot->queue));
	sheet_close(s, '}');
}

/** What the rows of text do not show, as their groups do, and what costs reading. */
static void walk_more(struct listing *l, size_t i)
{
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[i];
	const struct where *at = l->where[i];
	struct dispatch d;
	walk_source(s, at);
	sheet_put(s, "instruction", at->here < at->ninstructions ? v_text(at->instructions[at->here].text) : v_null());
	sheet_put(s, "waits_for", v_text(wave_waits(&l->arena, l->look->know, w, at)));
	sheet_put(s, "vgpr_count", v_number(w->vgprs.count));
	sheet_put(s, "acc_vgpr_count", v_number(w->acc_vgprs.count));
	sheet_put(s, "shared_vgpr_count", v_number(w->shared_vgprs.count));
	sheet_put(s, "sgpr_count", v_number(w->sgprs.count));
	sheet_put(s, "lds_bytes", v_number(w->lds.count));
	if (wave_dispatch(l->look->target, w, &d))
		walk_dispatch(s, "dispatch", l->look, &d);
	else
		sheet_put(s, "dispatch", v_null());
}

static void text_row(struct listing *l)
{
	static const struct column saved[] = { { "wave", .width = 6 },
					       { "queue", " ", 6 },
					       { "xcc", " ", 4 },
					       { "packet", " ", 8, .none = "?" },
					       { "place", "  ", -14, .none = "?" },
					       { "wave_in_group", " ", 8, .none = "?" } };
	static const struct column on_gpu[] = { { "wave", .width = 6 },  { "xcc", " ", 4 },       { "se", " ", 3 },
						{ "slot.sh", " ", 3 },   { "slot.cu", " ", 3 },   { "slot.simd", " ", 5 },
						{ "slot.slot", " ", 5 }, { "slot.vmid", " ", 5 }, { "slot.me", "  " },
						{ "slot.pipe", "." },    { "slot.queue", "." } };
	static const struct column end[] = { { "active_lanes", "  ", 2 },
					     { "lanes", "/", -2 },
					     { "pc", "  ", .digits = 12 },
					     { "offset", " +", -8 },
					     { "shown_state", "  " } };
	static const struct column on_gpu_end[] = { { "moved", ", moving", .no = ", same pc" },
						    { "trap_status", ", trap status ", .least = 1 } };
	const bool live = l->seen->pci.n;
	if (live)
		sheet_part(l->sheet, COLUMNS(on_gpu));
	else
		sheet_part(l->sheet, COLUMNS(saved));
	sheet_part(l->sheet, COLUMNS(end));
	if (live)
		sheet_part(l->sheet, COLUMNS(on_gpu_end));
	sheet_say(l->sheet, "\n");
}

void walk_wave(struct listing *l, size_t i)
{
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[i];
	const struct where *at = l->where[i];
	const uint32_t *trap = trap_status(w), *group = w->workgroup;
	const struct agent *agent = w->queue ? w->queue->agent : NULL;
	char place[48];
	snprintf(place, sizeof(place), "%u,%u,%u", group[0], group[1], group[2]);
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_number(l->first + w->id));
	sheet_note(s, "wave", v_number(w->id));
	sheet_put(s, "gpu", v_known(l->seen->pci));
	sheet_put(s, "queue", w->queue ? v_number(w->queue->id) : v_null());
	sheet_put(s, "gfx", l->seen->gfx.n ? v_text(l->seen->gfx) : agent ? v_text(agent->gfx) : v_null());
	sheet_put(s, "xcc", v_number(w->xcc));
	sheet_put(s, "se", v_number(w->se));
	walk_slot(s, &w->slot);
	sheet_put(s, "state", v_text(state_word(w)));
	sheet_note(s, "shown_state", v_text(wave_state(&l->arena, w)));
	sheet_put(s, "moved", l->seen->moved ? v_bool(l->seen->moved[i]) : v_null());
	sheet_put(s, "trap_status", trap ? v_hex(*trap) : v_null());
	sheet_put(s, "pc", v_hex(w->pc));
	sheet_put(s, "exec", v_hex(w->exec));
	sheet_note(s, "active_lanes", v_int(__builtin_popcountll(w->exec)));
	sheet_put(s, "lanes", v_number(w->lanes));
	sheet_three(s, "workgroup", group, w->placed);
	sheet_note(s, "place", v_if(w->placed, v_word(place)));
	sheet_put(s, "wave_in_group", v_if(w->placed, v_number(w->wave_in_group)));
	sheet_put(s, "packet", v_if(w->dispatched, v_number(w->packet)));
	sheet_put(s, "stopped", v_bool(w->stopped));
	walk_stop_reasons(s, w->stop_reasons);
	sheet_put(s, "kernel_name", v_text(l->kernels[i]));
	sheet_put(s, "function", v_text(at->name));
	sheet_put(s, "offset", v_if(at->function, v_hex(at->offset)));
	text_row(l);
	if (s->as_json)
		walk_more(l, i);
	if (l->look->options->registers)
		walk_registers(l, w);
	if (l->look->options->registers && s->as_json)
		jw_addresses(&s->json, l, i);
	sheet_close(s, '}');
}
