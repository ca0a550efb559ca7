// The waves of a target: groups of those that are at the same place, then each of them with its registers where they are asked for. A
// hang has thousands of waves at a handful of places, so the groups come first.
#include "base/cleanup.h"
#include "evidence/waves/wave_code.h"
#include "gpu/wave.h"
#include "report/live/look.h"

// What the table of waves and one wave have in common.

/** The waves of one GPU or core, with what is known of their code. */
struct listing {
	struct sheet *sheet;
	const struct waves_seen *seen;
	struct look *look;
	size_t first; // waves of other GPUs before these
	size_t n;
	const struct wave *waves;
	const struct where *const *where;
	const struct str *kernels;
	struct arena arena;
};

// One wave: a row of text, or an object; with its registers where they are asked for.

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

/** In a word, or why it stopped. */
static struct str wave_state(struct arena *a, const struct wave *w)
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
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (str_is(w->layout->registers[i], names[k]))
				return &w->hwregs[i];
	return NULL;
}

static struct str wave_waits(struct arena *a, const struct know *k, const struct wave *w, const struct where *at)
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

/** Of which dispatch and workgroup it is, as the hardware wrote it down. */
static void walk_ttmps(struct sheet *s, const struct wave *w)
{
	if (!w->placed) {
		sheet_put(s, "ttmps", v_null());
		sheet_say(s, "%8sttmps: not set for this wave\n", "");
		return;
	}
	sheet_open(s, "ttmps", '[');
	walk_words(s, "ttmp", w->ttmps, WAVE_TTMPS, false);
	sheet_close(s, ']');
}

static void walk_registers(struct listing *l, const struct wave *w)
{
	const struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	char name[32];
	sheet_open(l->sheet, "hardware_registers", '{');
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++) {
		str_copy(name, sizeof(name), w->layout->registers[i]);
		if (l->sheet->as_json)
			sheet_put(l->sheet, name, v_hex(w->hwregs[i]));
		sheet_say(l->sheet, "%s%16s: %08x", i % 4 ? "" : i ? "\n" : "", name, w->hwregs[i]);
	}
	sheet_say(l->sheet, "\n");
	sheet_close(l->sheet, '}');
	walk_wave_fields(l->sheet, l->look->know, l->seen->gfx.n || !w->queue || !w->queue->agent ? l->seen->gfx : w->queue->agent->gfx, w,
			 l->look->options->width);
	walk_block(l, (struct block_names){ "sgprs", "s", false }, &w->sgprs, 1);
	walk_ttmps(l->sheet, w);
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
	_cleanup_arena_ struct arena a = { 0 };
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
}

// --- the wave ---

/** What the rows of text do not show, as their groups do, and what costs reading. */
static void walk_more(struct listing *l, size_t i)
{
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[i];
	const struct where *at = l->where[i];
	struct look *look = l->seen->looks ? l->seen->looks[i] : l->look;
	const struct shader_start *shader = l->seen->shaders ? l->seen->shaders[i] : NULL;
	struct dispatch d;
	walk_source(s, at);
	sheet_fields(s, { "instruction", at->here < at->ninstructions ? v_text(at->instructions[at->here].text) : v_null() },
		     { "waits_for", v_text(wave_waits(&l->arena, l->look->know, w, at)) },
		     { "vgpr_count", v_number(w->vgprs.count) }, { "acc_vgpr_count", v_number(w->acc_vgprs.count) },
		     { "shared_vgpr_count", v_number(w->shared_vgprs.count) }, { "sgpr_count", v_number(w->sgprs.count) },
		     { "lds_bytes", v_number(w->lds.count) });
	if (look && wave_dispatch(look->target, w, &d))
		walk_dispatch(s, "dispatch", look, &d);
	else
		sheet_put(s, "dispatch", v_null());
	if (sheet_object(s, "shader", shader)) {
		sheet_fields(s, { "stage", v_text(shader->stage) }, { "address", v_hex(shader->address) },
			     { "set_by", v_text(shader->origin) }, { "buffer", v_hex(shader->ib) }, { "word", v_number(shader->word) });
		sheet_close(s, '}');
	}
}

static void live_waves_text_row(struct listing *l)
{
	const bool live = l->seen->pci.n;
	if (live)
		sheet_part(l->sheet, COLUMNS_OF({ "wave", .width = 5 }, { "xcc", " ", 3 }, { "se", " ", 2 },
						{ "slot.sh", " ", 2 }, { "slot.cu", " ", 2 }, { "slot.simd", " ", 4 },
						{ "slot.slot", " ", 4 }, { "slot.vmid", " ", 4 }, { "slot.me", " " },
						{ "slot.pipe", "." }, { "slot.queue", "." }));
	else
		sheet_part(l->sheet, COLUMNS_OF({ "wave", .width = 6 }, { "queue", " ", 6 }, { "xcc", " ", 4 },
						{ "packet", " ", 8, .none = "?" }, { "place", "  ", -14, .none = "?" },
						{ "wave_in_group", " ", 8, .none = "?" }));
	sheet_part(l->sheet, COLUMNS_OF({ "active_lanes", "  ", 2 }, { "lanes", "/", -2 }, { "pc", "  ", .digits = 12 },
					{ "offset", " +", -8 }, { "shown_state", "  " }));
	if (live)
		sheet_part(l->sheet,
			   COLUMNS_OF({ "moved", ", moving", .no = ", same pc" }, { "trap_status", ", trap status ", .least = 1 },
				      { "packet", ", packet " }, { "place", ", workgroup " }, { "wave_in_group", " wave " }));
	sheet_say(l->sheet, "\n");
}

/** One wave. JSON has everything that is known of it; a text a row, and its registers where they are asked for. */
static void walk_wave(struct listing *l, size_t i)
{
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[i];
	const struct where *at = l->where[i];
	const uint32_t *trap = trap_status(w), *group = w->workgroup;
	const struct agent *agent = w->queue ? w->queue->agent : NULL;
	char place[48];
	snprintf(place, sizeof(place), "%u,%u,%u", group[0], group[1], group[2]);
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_number(l->first + w->id) }, { "wave", v_number(w->id), TEXT_ONLY },
		     { "gpu", v_known(l->seen->pci) }, { "queue", w->queue ? v_number(w->queue->id) : v_null() },
		     { "gfx", l->seen->gfx.n ? v_text(l->seen->gfx) :
			      agent          ? v_text(agent->gfx) :
					       v_null() },
		     { "xcc", v_number(w->xcc) }, { "se", v_number(w->se) });
	// Where it is on the GPU.
	if (sheet_object(s, "slot", w->slot.known)) {
		sheet_fields(s, { "sh", v_number(w->slot.sh) }, { "cu", v_number(w->slot.cu) },
			     { "simd", v_number(w->slot.simd) }, { "slot", v_number(w->slot.slot) },
			     { "vmid", v_number(w->slot.vmid) }, { "me", v_number(w->slot.me) },
			     { "pipe", v_number(w->slot.pipe) }, { "queue", v_number(w->slot.queue) });
		sheet_close(s, '}');
	}
	sheet_fields(s, { "state", v_text(state_word(w)) }, { "shown_state", v_text(wave_state(&l->arena, w)), TEXT_ONLY },
		     { "moved", l->seen->moved ? v_bool(l->seen->moved[i]) : v_null() },
		     { "trap_status", trap ? v_hex(*trap) : v_null() }, { "pc", v_hex(w->pc) }, { "exec", v_hex(w->exec) },
		     { "active_lanes", v_int(__builtin_popcountll(w->exec)), TEXT_ONLY }, { "lanes", v_number(w->lanes) });
	sheet_three(s, "workgroup", group, w->placed);
	sheet_fields(s, { "place", v_if(w->placed, v_word(place)), TEXT_ONLY },
		     { "wave_in_group", v_if(w->placed, v_number(w->wave_in_group)) },
		     { "packet", v_if(w->dispatched, v_number(w->packet)) }, { "stopped", v_bool(w->stopped) });
	struct str names[STOP_REASONS];
	size_t n = 0;
	for (int k = 0; k < STOP_REASONS; k++)
		if (w->stop_reasons >> k & 1)
			names[n++] = str_z(stop_reason_name((enum stop_reason)k));
	sheet_texts(s, "stop_reasons", names, n);
	sheet_fields(s, { "kernel_name", v_text(l->kernels[i]) }, { "function", v_text(at->name) },
		     { "offset", v_if(at->function, v_hex(at->offset)) });
	live_waves_text_row(l);
	if (s->as_json)
		walk_more(l, i);
	if (l->look->options->registers)
		walk_registers(l, w);
	if (l->look->options->registers && s->as_json)
		jw_addresses(&s->json, l, i);
	sheet_close(s, '}');
}

// --- what they do ---

enum { PARTIES_SHOWN = 8, PARTY_INDENT = 2 };

void walk_state(struct sheet *s, const struct silicon_state *v)
{
	if (!sheet_object(s, "verdict", v && v->is.n))
		return;
	sheet_fields(s, { "state", v_text(v->is) }, { "reason", v_known(v->why) },
		     { "seconds", v_if(v->seconds > 0, v_decimal(v->seconds, 1)) });
	sheet_close(s, '}');
}

/** `train (4242), queue 1 on XCC 3: stuck; its waves ...` */
static void text_party(struct sheet *s, const struct wave_party *p, bool several)
{
	_cleanup_text_ struct text t = { 0 };
	if (p->process.n)
		text_printf(&t, STR_FMT " (%lld)", STR_ARG(p->process), (long long)p->pid);
	else
		text_printf(&t, "%sVMID %u", p->graphics ? "graphics of " : "", p->vmid);
	if (p->queue_known)
		text_printf(&t, ", queue %u", p->queue);
	if (several)
		text_printf(&t, ", XCC %u", p->xcc);
	if (p->state.is.n)
		text_printf(&t, ": " STR_FMT "%s" STR_FMT, STR_ARG(p->state.is), p->state.why.n ? "; " : "", STR_ARG(p->state.why));
	else
		text_printf(&t, ": %zu wave%s", p->waves, p->waves == 1 ? "" : "s");
	wrap_row(s->json.out, &(struct row_style){ .left = PARTY_INDENT }, "", text_str(&t), 2);
}

static void walk_parties(struct sheet *s, const struct waves_seen *seen)
{
	size_t shown = 0;
	for (size_t i = 0; i < seen->nparties; i++) {
		const struct wave_party *p = &seen->parties[i];
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "gpu", v_text(seen->pci) }, { "xcc", v_number(p->xcc) }, { "vmid", v_number(p->vmid) },
			     { "graphics", v_bool(p->graphics) }, { "process", v_known(p->process) }, { "pid", v_if(p->pid, v_int(p->pid)) },
			     { "queue", v_if(p->queue_known, v_number(p->queue)) }, { "waves", v_number(p->waves) },
			     { "kernel_name", v_known(p->kernel) }, { "counts", v_known(p->counts) }, { "polls", v_known(p->polls) },
			     { "polled_address", v_if(p->polled_known, v_hex(p->polled)) },
			     { "polled_value", v_if(p->value_known, v_hex(p->value)) });
		walk_state(s, &p->state);
		if (!s->as_json && (p->state.is.n || p->process.n) && shown++ < PARTIES_SHOWN)
			text_party(s, p, seen->xccs > 1);
		sheet_close(s, '}');
	}
	if (shown > PARTIES_SHOWN)
		sheet_say(s, "  and %zu more\n", shown - PARTIES_SHOWN);
}

// --- all waves ---

enum { WAVES_SHOWN = 12, GROUPS_SHOWN = 40, GROUP_INDENT = 28 };

/** Waves at one place: how many, what they do, and the source line, which is what a reader looks for. */
static void text_group(struct listing *l, const struct wave_group *g)
{
	static const struct column line[] = { { "count", .width = 6 }, { "state", "  ", -18 }, { "kernel", "  " },
					      { "name", "  " },        { "called", ", in " },  { "offset", " +" },
					      { "pc", "  pc " } };
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[g->first];
	const struct where *at = l->where[g->first];
	const struct str kernel = l->kernels[g->first];
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "count", v_number(g->count), TEXT_ONLY }, { "state", v_text(wave_state(&l->arena, w)), TEXT_ONLY },
		     { "kernel", v_known(kernel), TEXT_ONLY },
		     { "name", v_if(!kernel.n, v_text(at->name.n ? at->name : S("unknown code"))), TEXT_ONLY },
		     { "called", v_if(at->function && kernel.n && !str_eq(at->name, kernel), v_text(at->name)), TEXT_ONLY },
		     { "offset", v_if(at->function, v_hex(at->offset)), TEXT_ONLY },
		     { "pc", v_if(!at->function, v_hex(w->pc)), TEXT_ONLY });
	sheet_line(s, 0, COLUMNS(line));
	if (l->seen->shaders && l->seen->shaders[g->first]) {
		const struct row_style style = { .left = GROUP_INDENT };
		wrap_row(s->json.out, &style, "", shader_say(&l->arena, l->seen->shaders[g->first]), 0);
	}
	// The source lines, innermost first, and the instruction.
	struct meaning m;
	for (size_t i = 0; i < at->nframes; i++) {
		sheet_say(s, "%*s", GROUP_INDENT, "");
		sheet_say_safe(s, "", at->frames[i].file, "");
		sheet_say(s, ":%u", at->frames[i].line);
		if (at->nframes > 1)
			sheet_say_safe(s, at->frames[i].inlined ? "  inlined: " : "  in ", at->frames[i].function, "");
		sheet_say(s, "\n");
	}
	if (at->here < at->ninstructions) {
		sheet_say(s, "%*s", GROUP_INDENT, "");
		sheet_say_safe(s, "=> ", at->instructions[at->here].text, "");
		struct str wait = wave_waits(&l->arena, l->look->know, w, at);
		if (wait.n)
			sheet_say_safe(s, "   waits for ", wait, "");
		else if (meaning_of(l->look->know, at->instructions[at->here].text, &m))
			sheet_say_safe(s, "   ", meaning_say(&l->arena, l->look->know, &m), "");
		sheet_say(s, "\n");
	}
	sheet_close(s, '}');
}

/** How many waves are as @is says. */
static size_t count_waves(const struct listing *l, bool (*is)(const struct waves_seen *s, size_t i))
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		n += is(l->seen, i);
	return n;
}

static bool is_stopped(const struct waves_seen *s, size_t i) { return s->waves[i].stop_reasons; }
static bool is_moving(const struct waves_seen *s, size_t i) { return s->moved[i]; }
static bool is_unplaced(const struct waves_seen *s, size_t i)
{
	return s->waves[i].slot.known && s->waves[i].slot.me && !s->waves[i].placed;
}

/** A text shows first where the waves are, and where they are many, no more. */
static void walk_waves(struct listing *l)
{
	struct sheet *s = l->sheet;
	const struct uh_look_options *o = l->look->options;
	if (!s->as_json) {
		// Of a core its process and GPUs, of a GPU its name.
		const struct target *t = l->look->target;
		const struct waves_seen *seen = l->seen;
		const bool core = !seen->pci.n;
		sheet_say_safe(s, "", core ? t->name : seen->title, ": ");
		if (core && t->process.n) {
			sheet_say_safe(s, "", t->process, "");
			sheet_say(s, " (%lld), ", (long long)t->pid);
		}
		for (size_t i = 0; core && i < seen->nagents; i++)
			sheet_say_safe(s, "", seen->agents[i].gfx, i + 1 < seen->nagents ? ", " : "; ");
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "waves", v_number(l->n), TEXT_ONLY },
			     { "queues", v_if(core, v_number(seen->nqueues)), TEXT_ONLY },
			     { "stopped", v_number(count_waves(l, is_stopped)), TEXT_ONLY },
			     { "moving", !core && seen->moved ? v_number(count_waves(l, is_moving)) : v_null(), TEXT_ONLY });
		sheet_line(s, 0,
			   COLUMNS_OF({ "waves", .after = " wave", .plural = true },
				      { "queues", " in ", .after = " queue", .plural = true },
				      { "stopped", ", ", .after = " of them stopped by an error", .least = 1 },
				      { "moving", ", ", .after = " moving" }));
		sheet_close(s, '}');
		if (!l->n)
			return;
		walk_parties(s, seen);
		// Waves that are at the same place are one row: a hang has thousands.
		_cleanup_free_ struct wave_group *groups = mem_alloc(l->n * sizeof(*groups) + 1);
		const size_t n = wave_groups(l->waves, l->kernels, l->n, groups);
		const size_t shown = n > GROUPS_SHOWN && !l->look->options->all ? GROUPS_SHOWN : n;
		sheet_say(s, "\n waves  state               kernel, source line, instruction\n");
		for (size_t i = 0; i < shown; i++)
			text_group(l, &groups[i]);
		if (n > shown)
			sheet_say(s, "        and %zu more places (--all shows them)\n", n - shown);
		for (size_t i = 0; i < l->n; i++)
			if (l->where[i]->no_instructions.n) {
				sheet_say_safe(s, "\nNo instructions: ", l->where[i]->no_instructions, "\n");
				break;
			}
		if (l->n > WAVES_SHOWN && !o->all && !o->registers) {
			sheet_say(s, "\n--all lists each of the %zu waves.\n", l->n);
			return;
		}
	}
	sheet_say(s, "%s",
		  l->seen->pci.n ? "\n wave xcc se sh cu simd slot vmid queue  lanes  pc\n" :
				   "\n  wave  queue  xcc   packet  workgroup      in group  lanes  pc\n");
	for (size_t i = 0; i < l->n; i++)
		walk_wave(l, i);
	const size_t unplaced = s->as_json ? 0 : count_waves(l, is_unplaced);
	if (unplaced)
		sheet_say(s, "The GPU did not note packet and workgroup (TTMPs) of %zu wave%s.\n", unplaced,
			  unplaced == 1 ? "" : "s");
}

void report_waves(const struct waves_seen *seen, size_t n, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/waves/1", NULL);
	sheet_put(&s, "target", v_text(n == 1 ? seen->look->target->name : S("this machine")));
	sheet_open(&s, "gpus", '[');
	for (size_t i = 0; i < n; i++)
		if (seen[i].pci.n) {
			sheet_record(&s, NULL, { "pci", v_text(seen[i].pci) }, { "gfx", v_known(seen[i].gfx) },
				     { "waves", v_number(seen[i].n) }, { "why_not", v_known(seen[i].why_not) });
		}
	sheet_close(&s, ']');
	sheet_open(&s, "parties", '[');
	for (size_t i = 0; i < n && s.as_json; i++)
		walk_parties(&s, &seen[i]);
	sheet_close(&s, ']');
	sheet_open(&s, "waves", '[');
	for (size_t i = 0, first = 0, shown = 0; i < n; first += seen[i++].n) {
		struct listing l = {
			&s, &seen[i], seen[i].look, first, seen[i].n, seen[i].waves, seen[i].where, seen[i].kernels
		};
		if (seen[i].why_not.n && !o->json)
			continue; // this is told
		if (shown++)
			sheet_say(&s, "\n");
		walk_waves(&l);
		arena_free(&l.arena);
	}
	sheet_end(&s);
}
