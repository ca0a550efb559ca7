// The waves of a target: groups of those that are at the same place, then each of them.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "evidence/wave_code.h"
#include "evidence/wave_values.h"
#include "gpu/wave_groups.h"
#include "report/look.h"

enum { WAVES_SHOWN = 64, GROUPS_SHOWN = 40, CONTEXT = 16, PER_LINE = 8 };

struct listing {
	struct look *look;
	size_t n;
	const struct wave *waves;
	const struct where **where;
	struct str *kernels;
	struct arena arena;
};

static struct str state_of(struct arena *a, const struct wave *w)
{
	if (w->stop_reasons)
		return stop_reasons_text(a, w->stop_reasons);
	return w->stopped ? S("stopped") : w->fatal_halt ? S("FATAL_HALT") : w->halted ? S("halted") : S("running");
}

static struct str waits_for(struct arena *a, const struct know *k, const struct wave *w, const struct where *at)
{
	struct wave_barrier b = wave_barrier_of(w);
	struct str polls;
	return w->stop_reasons ? (struct str){ 0 } : wave_waits_for(a, k, at, &b, &polls);
}

// --- JSON ---

void jw_source(struct json *j, const struct where *w)
{
	jw_key(j, "source");
	if (!w->nframes) {
		jw_null(j);
		return;
	}
	jw_open(j, '{');
	jw_field(j, "file", w->frames[0].file.n ? w->frames[0].file : (struct str){ 0 });
	jw_key(j, "line");
	jw_int(j, w->frames[0].line);
	jw_close(j, '}');
}

static void jw_known_int(struct json *j, const char *key, uint64_t v, bool known)
{
	jw_key(j, key);
	if (known)
		jw_unsigned(j, v);
	else
		jw_null(j);
}

/** Registers as "0x..." strings; a block of several lanes as an array of them for each register. */
static void jw_block(struct json *j, struct target *t, const char *key, const struct wave_block *b, unsigned lanes)
{
	size_t n = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *values = mem_alloc(n * sizeof(*values) + 1);
	jw_key(j, key);
	if (!wave_registers(t, b, lanes, values)) {
		jw_null(j);
		return;
	}
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++) {
		if (lanes > 1 && i % lanes == 0)
			jw_open(j, '[');
		jw_hex(j, values[i]);
		if (lanes > 1 && i % lanes == lanes - 1)
			jw_close(j, ']');
	}
	jw_close(j, ']');
}

/** Of each lane the address that it accesses with the instruction at the pc. */
static void jw_addresses(struct json *j, struct listing *l, size_t i)
{
	const struct wave *w = &l->waves[i];
	struct arena a = { 0 };
	struct wave_code code = { .know = l->look->know, .where = l->where[i], .lanes = w->lanes };
	struct lane_address lanes[MEANING_LANES];
	bool access = wave_code_accesses(&code); // else no register is needed
	if (access)
		code.values = wave_values(l->look->target, &a, w, &code.nvalues);
	size_t n = access ? wave_code_addresses(&code, lanes) : 0, at = 0;
	jw_key(j, "effective_addresses");
	if (!n) {
		jw_null(j);
	} else {
		jw_open(j, '[');
		for (unsigned lane = 0; lane < w->lanes; lane++)
			at < n &&lanes[at].lane == lane ? jw_hex(j, lanes[at++].address) : jw_null(j);
		jw_close(j, ']');
	}
	arena_free(&a);
}

static void jw_registers(struct json *j, struct target *t, const struct wave *w)
{
	struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	jw_key(j, "hardware_registers");
	jw_open(j, '{');
	for (size_t i = 0; i < w->layout->nregisters; i++) {
		char name[32];
		str_copy(name, sizeof(name), w->layout->registers[i]);
		jw_key(j, name);
		jw_hex(j, w->hwregs[i]);
	}
	jw_close(j, '}');
	jw_block(j, t, "sgprs", &w->sgprs, 1);
	if (w->no_vgprs) {
		jw_key(j, "vgprs");
		jw_null(j);
	} else {
		jw_block(j, t, "vgprs", &w->vgprs, w->lanes);
	}
	jw_block(j, t, "shared_vgprs", &w->shared_vgprs, SHARED_LANES);
	jw_block(j, t, "acc_vgprs", &w->acc_vgprs, w->lanes);
	jw_block(j, t, "lds", &words, 1);
}

static void jw_stop_reasons(struct json *j, uint32_t reasons)
{
	jw_key(j, "stop_reasons");
	jw_open(j, '[');
	for (int i = 0; i < STOP_REASONS; i++)
		if (reasons >> i & 1)
			jw_str(j, str_z(stop_reason_name((enum stop_reason)i)));
	jw_close(j, ']');
}

static void jw_where(struct json *j, struct listing *l, size_t i)
{
	const struct where *at = l->where[i];
	jw_field(j, "kernel_name", l->kernels[i]);
	jw_field(j, "function", at->name);
	jw_key(j, "offset");
	if (at->function)
		jw_hex(j, at->offset);
	else
		jw_null(j);
	jw_source(j, at);
	jw_field(j, "instruction", at->here < at->ninstructions ? at->instructions[at->here].text : (struct str){ 0 });
	jw_field(j, "waits_for", waits_for(&l->arena, l->look->know, &l->waves[i], at));
}

static void jw_wave(struct json *j, struct listing *l, size_t i)
{
	const struct wave *w = &l->waves[i];
	jw_open(j, '{');
	jw_known_int(j, "id", w->id, true);
	jw_known_int(j, "queue", w->queue->id, true);
	jw_field(j, "gfx", w->queue->agent ? w->queue->agent->gfx : (struct str){ 0 });
	jw_known_int(j, "xcc", w->xcc, true);
	jw_known_int(j, "se", w->se, true);
	jw_key(j, "pc");
	jw_hex(j, w->pc);
	jw_key(j, "exec");
	jw_hex(j, w->exec);
	jw_known_int(j, "lanes", w->lanes, true);
	if (w->placed) {
		jw_three(j, "workgroup", w->workgroup);
	} else {
		jw_key(j, "workgroup");
		jw_null(j);
	}
	jw_known_int(j, "wave_in_group", w->wave_in_group, w->placed);
	jw_known_int(j, "packet", w->packet, w->dispatched);
	jw_key(j, "stopped");
	jw_bool(j, w->stopped);
	jw_stop_reasons(j, w->stop_reasons);
	jw_where(j, l, i);
	jw_known_int(j, "vgpr_count", w->vgprs.count, true);
	jw_known_int(j, "acc_vgpr_count", w->acc_vgprs.count, true);
	jw_known_int(j, "shared_vgpr_count", w->shared_vgprs.count, true);
	jw_known_int(j, "sgpr_count", w->sgprs.count, true);
	jw_known_int(j, "lds_bytes", w->lds.count, true);
	struct dispatch d;
	jw_key(j, "dispatch");
	if (wave_dispatch(l->look->target, w, &d))
		jw_dispatch(j, l->look, &d);
	else
		jw_null(j);
	if (l->look->options->registers) {
		jw_registers(j, l->look->target, w);
		jw_addresses(j, l, i);
	}
	jw_close(j, '}');
}

static void waves_json(struct listing *l)
{
	struct json j = { .out = l->look->out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/waves/1"));
	jw_field(&j, "target", l->look->target->name);
	jw_key(&j, "waves");
	jw_open(&j, '[');
	for (size_t i = 0; i < l->n; i++)
		jw_wave(&j, l, i);
	jw_close(&j, ']');
	jw_close(&j, '}');
}

// --- text ---

static void put(struct listing *l, struct str s) { print_safe(l->look->out, s); }

static void text_group(struct listing *l, const struct wave_group *g)
{
	FILE *out = l->look->out;
	const struct wave *w = &l->waves[g->first];
	const struct where *at = l->where[g->first];
	struct str kernel = l->kernels[g->first];
	bool called = at->function && !str_eq(at->name, kernel);
	fprintf(out, "%6zu  %-18.*s  ", g->count, STR_ARG(state_of(&l->arena, w)));
	put(l, kernel.n ? kernel : at->name.n ? at->name : S("code of no known object"));
	if (called && kernel.n) {
		fprintf(out, ", in ");
		put(l, at->name);
	}
	if (at->function)
		fprintf(out, " +0x%llx\n", (unsigned long long)at->offset);
	else
		fprintf(out, "  pc 0x%llx\n", (unsigned long long)w->pc);
	for (size_t i = 0; i < at->nframes; i++) {
		fprintf(out, "%28s", "");
		put(l, at->frames[i].file);
		fprintf(out, ":%u", at->frames[i].line);
		if (at->nframes > 1) {
			fprintf(out, "  %s ", at->frames[i].inlined ? "inlined:" : "in");
			put(l, at->frames[i].function);
		}
		fputc('\n', out);
	}
	if (at->here >= at->ninstructions)
		return;
	fprintf(out, "%28s=> ", "");
	put(l, at->instructions[at->here].text);
	struct str wait = waits_for(&l->arena, l->look->know, w, at);
	struct meaning m;
	if (wait.n) {
		fprintf(out, "   waits for ");
		put(l, wait);
	} else if (meaning_of(l->look->know, at->instructions[at->here].text, &m)) {
		fprintf(out, "   ");
		put(l, meaning_say(&l->arena, l->look->know, &m));
	}
	fputc('\n', out);
}

static void text_row(struct listing *l, const struct wave *w, const struct where *at)
{
	FILE *out = l->look->out;
	char place[48], packet[24] = "?", in_group[12] = "?";
	if (w->placed) {
		snprintf(place, sizeof(place), "%u,%u,%u", w->workgroup[0], w->workgroup[1], w->workgroup[2]);
		if (w->dispatched)
			snprintf(packet, sizeof(packet), "%llu", (unsigned long long)w->packet);
		snprintf(in_group, sizeof(in_group), "%u", w->wave_in_group);
	} else {
		str_copy(place, sizeof(place), S("?"));
	}
	fprintf(out, "%6zu %6u %4u %8s  %-14s %8s  %2d/%-2u  0x%012llx", w->id, w->queue->id, w->xcc, packet, place, in_group,
		__builtin_popcountll(w->exec), w->lanes, (unsigned long long)w->pc);
	if (at->function)
		fprintf(out, " +0x%-6llx", (unsigned long long)at->offset);
	fprintf(out, "  %.*s\n", STR_ARG(state_of(&l->arena, w)));
}

static void text_words(struct listing *l, const char *name, const uint32_t *values, size_t n, size_t step)
{
	FILE *out = l->look->out;
	for (size_t i = 0; i < n; i++) {
		if (i % PER_LINE == 0)
			fprintf(out, "%s%8s%s%03zu:", i ? "\n" : "", "", name, i * step);
		fprintf(out, " %08x", values[i]);
	}
	if (n)
		fputc('\n', out);
}

static void text_block(struct listing *l, const char *name, const struct wave_block *b, unsigned lanes, size_t step)
{
	size_t n = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *values = mem_alloc(n * sizeof(*values) + 1);
	if (!b->count)
		return;
	if (!wave_registers(l->look->target, b, lanes, values)) {
		fprintf(l->look->out, "%8s%s: not in the core\n", "", name);
		return;
	}
	for (unsigned r = 0; lanes > 1 && r < b->count; r++) {
		char lane[24];
		snprintf(lane, sizeof(lane), "%s%u lane ", name, r);
		text_words(l, lane, values + (size_t)r * lanes, lanes, 1);
	}
	if (lanes == 1)
		text_words(l, name, values, n, step);
}

static void text_registers(struct listing *l, const struct wave *w)
{
	FILE *out = l->look->out;
	struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	for (size_t i = 0; i < w->layout->nregisters; i++)
		fprintf(out, "%s%16.*s: %08x", i % 4 ? "" : i ? "\n" : "", STR_ARG(w->layout->registers[i]), w->hwregs[i]);
	fputc('\n', out);
	text_block(l, "s", &w->sgprs, 1, 1);
	if (w->no_vgprs)
		fprintf(out, "%8sthe wave had given its vector registers back\n", "");
	else
		text_block(l, "v", &w->vgprs, w->lanes, 1);
	text_block(l, "shared v", &w->shared_vgprs, SHARED_LANES, 1);
	text_block(l, "a", &w->acc_vgprs, w->lanes, 1);
	text_block(l, "lds 0x", &words, 1, 4);
}

static void text_head(struct listing *l)
{
	FILE *out = l->look->out;
	struct target *t = l->look->target;
	struct request agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES };
	size_t stopped = 0;
	target_ask(t, &agents);
	target_ask(t, &queues);
	for (size_t i = 0; i < l->n; i++)
		stopped += l->waves[i].stop_reasons != 0;
	print_safe(out, t->name);
	fputs(": ", out);
	if (t->process.n) {
		print_safe(out, t->process);
		fprintf(out, " (%lld), ", (long long)t->pid);
	}
	for (size_t i = 0; i < agents.n; i++)
		fprintf(out, "%.*s%s", STR_ARG(agents.agents[i].gfx), i + 1 < agents.n ? ", " : "; ");
	fprintf(out, "%zu wave%s in %zu queue%s, %zu of them stopped by an error\n", l->n, l->n == 1 ? "" : "s", queues.n,
		queues.n == 1 ? "" : "s", stopped);
}

static void waves_text(struct listing *l)
{
	FILE *out = l->look->out;
	_cleanup_free_ struct wave_group *groups = mem_alloc(l->n * sizeof(*groups) + 1);
	size_t n = wave_groups(l->waves, l->kernels, l->n, groups);
	text_head(l);
	if (!l->n)
		return;
	fprintf(out, "\n waves  state               kernel, source line, instruction\n");
	for (size_t i = 0; i < n && (i < GROUPS_SHOWN || l->look->options->all); i++)
		text_group(l, &groups[i]);
	if (n > GROUPS_SHOWN && !l->look->options->all)
		fprintf(out, "        and %zu more places (--all shows them)\n", n - GROUPS_SHOWN);
	for (size_t i = 0; i < l->n; i++)
		if (l->where[i]->no_instructions.n) {
			fprintf(out, "\nNo instructions: ");
			put(l, l->where[i]->no_instructions);
			fputc('\n', out);
			break;
		}
	if (l->n > WAVES_SHOWN && !l->look->options->all && !l->look->options->registers) {
		fprintf(out, "\n--all lists each of the %zu waves.\n", l->n);
		return;
	}
	fprintf(out, "\n  wave  queue  xcc   packet  workgroup      in group  lanes  pc\n");
	for (size_t i = 0; i < l->n; i++) {
		text_row(l, &l->waves[i], l->where[i]);
		if (l->look->options->registers)
			text_registers(l, &l->waves[i]);
	}
}

void report_waves(struct look *look)
{
	struct request r = { .kind = REQUEST_WAVES };
	target_ask(look->target, &r);
	struct listing l = { .look = look, .n = r.n, .waves = r.waves };
	l.where = target_code_waves(&look->code, r.waves, r.n, CONTEXT);
	l.kernels = arena_alloc(&l.arena, r.n * sizeof(*l.kernels) + 1);
	for (size_t i = 0; i < r.n; i++)
		l.kernels[i] = target_code_kernel_name(&look->code, &r.waves[i], l.where[i]);
	if (look->options->json)
		waves_json(&l);
	else
		waves_text(&l);
	arena_free(&l.arena);
}
